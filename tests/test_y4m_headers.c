/* tags: unsigned */
/* test_y4m_headers.c: what examples/video/y4m.h promises about headers.
 *
 * Owns: tables of accepted and refused headers. Relies on: video_check.h.
 * Must never: need a file of the repository, or leave one behind.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>

#include "y4m_stream.h"

typedef struct accepted {
    const char *line;
    int width, height;
    y4m_layout layout;
    y4m_range range;
    char interlacing;
    int32_t rate_n, rate_d;
} accepted;

static const accepted good[] = {
    {"YUV4MPEG2 W768 H432 F25:2 Ip A0:0 C420mpeg2 XYSCSS=420MPEG2 XCOLORRANGE=LIMITED", 768, 432, Y4M_LAYOUT_420MPEG2,
     Y4M_RANGE_LIMITED, 'p', 25, 2},
    {"YUV4MPEG2 W1 H1", 1, 1, Y4M_LAYOUT_420JPEG, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C420jpeg", 2, 2, Y4M_LAYOUT_420JPEG, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C420paldv", 2, 2, Y4M_LAYOUT_420PALDV, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C420", 2, 2, Y4M_LAYOUT_420, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C422", 2, 2, Y4M_LAYOUT_422, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C444", 2, 2, Y4M_LAYOUT_444, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 Cmono", 2, 2, Y4M_LAYOUT_MONO, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C420p10", 2, 2, Y4M_LAYOUT_420P10, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C422p10", 2, 2, Y4M_LAYOUT_422P10, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W2 H2 C444p10", 2, 2, Y4M_LAYOUT_444P10, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 H7 W9 XCOLORRANGE=FULL I? F0:0 A0:1", 9, 7, Y4M_LAYOUT_420JPEG, Y4M_RANGE_FULL, '?', 0, 0},
    {"YUV4MPEG2  W9   H7  Ip  ", 9, 7, Y4M_LAYOUT_420JPEG, Y4M_RANGE_UNSAID, 'p', 0, 0},
    {"YUV4MPEG2 W9 H7 Ip\r", 9, 7, Y4M_LAYOUT_420JPEG, Y4M_RANGE_UNSAID, 'p', 0, 0},
    {"YUV4MPEG2 W9 H7 Kunknown Z F30000:1001", 9, 7, Y4M_LAYOUT_420JPEG, Y4M_RANGE_UNSAID, 0, 30000, 1001},
    {"YUV4MPEG2 W9 H7 X XCOLORRANGE=ODD", 9, 7, Y4M_LAYOUT_420JPEG, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W9 H7 XYSCSS=444", 9, 7, Y4M_LAYOUT_444, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W9 H7 C422 XYSCSS=411", 9, 7, Y4M_LAYOUT_422, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W9 H7 XYSCSS=411 C422", 9, 7, Y4M_LAYOUT_422, Y4M_RANGE_UNSAID, 0, 0, 0},
    {"YUV4MPEG2 W16384 H16384 F2147483647:1", 16384, 16384, Y4M_LAYOUT_420JPEG, Y4M_RANGE_UNSAID, 0, 2147483647, 1},
};

static void test_accepted_headers(void)
{
    begin("headers that are well formed or only sloppy are read");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        y4m_info info;
        y4m_error error;
        const accepted *g = &good[i];
        y4m_status status = y4m_parse_header(g->line, strlen(g->line), &info, &error);
        check(status == Y4M_OK, "'%s': %s", g->line, message(&error));
        check(info.width == g->width && info.height == g->height, "'%s': %dx%d", g->line, info.width, info.height);
        check(info.layout == g->layout, "'%s': layout %d", g->line, (int)info.layout);
        check(info.range == g->range, "'%s': range %d", g->line, (int)info.range);
        check(info.interlacing == g->interlacing, "'%s': I%c", g->line, info.interlacing);
        check(info.rate.n == g->rate_n && info.rate.d == g->rate_d, "'%s': rate", g->line);
    }
    finish();
}

typedef struct refused {
    const char *line;
    y4m_status status;
    const char *says;
} refused;

static const refused bad[] = {
    {"", Y4M_NOT_Y4M, "YUV4MPEG2"},
    {"RIFF....AVI ", Y4M_NOT_Y4M, "YUV4MPEG2"},
    {"YUV4MPEG W2 H2", Y4M_NOT_Y4M, "YUV4MPEG2"},
    {"YUV4MPEG22 W2 H2", Y4M_NOT_Y4M, "YUV4MPEG2"},
    {" YUV4MPEG2 W2 H2", Y4M_NOT_Y4M, "YUV4MPEG2"},
    {"YUV4MPEG2", Y4M_NO_SIZE, "W"},
    {"YUV4MPEG2 H2", Y4M_NO_SIZE, "W"},
    {"YUV4MPEG2 W2", Y4M_NO_SIZE, "H"},
    {"YUV4MPEG2 W0 H2", Y4M_BAD_TAG, "W0"},
    {"YUV4MPEG2 W-2 H2", Y4M_BAD_TAG, "W-2"},
    {"YUV4MPEG2 W+2 H2", Y4M_BAD_TAG, "W+2"},
    {"YUV4MPEG2 W H2", Y4M_BAD_TAG, "W"},
    {"YUV4MPEG2 W2 H2x", Y4M_BAD_TAG, "H2x"},
    {"YUV4MPEG2 W2 H2.0", Y4M_BAD_TAG, "H2.0"},
    {"YUV4MPEG2 W2 H99999999999999999999", Y4M_BAD_TAG, "H9999"},
    {"YUV4MPEG2 W4294967298 H2", Y4M_BAD_TAG, "W4294967298"},
    {"YUV4MPEG2 W16385 H2", Y4M_TOO_LARGE, "W16385,H2"},
    {"YUV4MPEG2 W2 H16385", Y4M_TOO_LARGE, "W2,H16385"},
    {"YUV4MPEG2 W2 H2 F25", Y4M_BAD_TAG, "F25"},
    {"YUV4MPEG2 W2 H2 F25:0", Y4M_BAD_TAG, "F25:0"},
    {"YUV4MPEG2 W2 H2 F0:1", Y4M_BAD_TAG, "F0:1"},
    {"YUV4MPEG2 W2 H2 F-25:1", Y4M_BAD_TAG, "F-25:1"},
    {"YUV4MPEG2 W2 H2 F25:1x", Y4M_BAD_TAG, "F25:1x"},
    {"YUV4MPEG2 W2 H2 A1:", Y4M_BAD_TAG, "A1:"},
    {"YUV4MPEG2 W2 H2 A1:0", Y4M_BAD_TAG, "A1:0"},
    {"YUV4MPEG2 W2 H2 It", Y4M_INTERLACED, "It"},
    {"YUV4MPEG2 W2 H2 Ib", Y4M_INTERLACED, "Ib"},
    {"YUV4MPEG2 W2 H2 Im", Y4M_INTERLACED, "Im"},
    {"YUV4MPEG2 W2 H2 I", Y4M_BAD_TAG, "I"},
    {"YUV4MPEG2 W2 H2 Iq", Y4M_BAD_TAG, "Iq"},
    {"YUV4MPEG2 W2 H2 Ipp", Y4M_BAD_TAG, "Ipp"},
    {"YUV4MPEG2 W2 H2 C", Y4M_BAD_LAYOUT, "C"},
    {"YUV4MPEG2 W2 H2 C411", Y4M_BAD_LAYOUT, "C411"},
    {"YUV4MPEG2 W2 H2 C440", Y4M_BAD_LAYOUT, "C440"},
    {"YUV4MPEG2 W2 H2 C444alpha", Y4M_BAD_LAYOUT, "C444alpha"},
    {"YUV4MPEG2 W2 H2 C420p12", Y4M_BAD_LAYOUT, "C420p12"},
    {"YUV4MPEG2 W2 H2 C420p16", Y4M_BAD_LAYOUT, "C420p16"},
    {"YUV4MPEG2 W2 H2 C422p9", Y4M_BAD_LAYOUT, "C422p9"},
    {"YUV4MPEG2 W2 H2 Cmono10", Y4M_BAD_LAYOUT, "Cmono10"},
    {"YUV4MPEG2 W2 H2 Cmono16", Y4M_BAD_LAYOUT, "Cmono16"},
    {"YUV4MPEG2 W2 H2 C420JPEG", Y4M_BAD_LAYOUT, "C420JPEG"},
    {"YUV4MPEG2 W2 H2 C420jpeg2", Y4M_BAD_LAYOUT, "C420jpeg2"},
    {"YUV4MPEG2 W2 H2 XYSCSS=411", Y4M_BAD_LAYOUT, "XYSCSS=411"},
    {"YUV4MPEG2 W2 H2 C\033[2J", Y4M_BAD_LAYOUT, "C?[2J"},
};

static void test_refused_headers(void)
{
    begin("headers that would give wrong pixels are refused by name");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        y4m_info info;
        y4m_error error;
        y4m_status status = y4m_parse_header(bad[i].line, strlen(bad[i].line), &info, &error);
        check(status == bad[i].status, "'%s': %s", bad[i].line, message(&error));
        check(strstr(message(&error), bad[i].says) != NULL, "'%s' is answered '%s'", bad[i].line, message(&error));
    }
    finish();
}

static void test_every_status_has_a_text(void)
{
    begin("every status has a text of one line, cut to the buffer");
    for (int i = 0; i < Y4M_STATUS_COUNT; i++) {
        y4m_error error = {(y4m_status)i, ENOSPC, 3, 17, "quote"};
        char text[256], small[8];
        size_t n = y4m_message(&error, text, sizeof text);
        check(n > 10 && n < sizeof text && !strchr(text, '\n'), "status %d: '%s'", i, text);
        check(strstr(text, "frame 3") && strstr(text, "17 bytes missing"), "status %d: '%s'", i, text);
        check(y4m_message(&error, small, sizeof small) == n && strlen(small) == 7, "status %d cut", i);
    }
    finish();
}

static y4m_info random_info(void)
{
    static const char *const extras[] = {"", " X", " XYSCSS=OTHER", " XABC XDEF=1"};
    static const char interlacing[] = {0, 'p', '?'};
    y4m_info info = {0};
    info.width = 1 + random_below(Y4M_SIDE_MAX);
    info.height = 1 + random_below(Y4M_SIDE_MAX);
    info.layout = (y4m_layout)random_below(Y4M_LAYOUT_COUNT);
    info.range = (y4m_range)random_below(3);
    info.interlacing = interlacing[random_below(3)];
    info.rate = (y4m_ratio){true, 1 + random_below(99999), 1 + random_below(9999)};
    info.aspect = (y4m_ratio){true, 1 + random_below(99), 1 + random_below(99)};
    if (random_below(2))
        info.rate = info.aspect = (y4m_ratio){false, 0, 0};
    strcpy(info.extra, info.rate.given ? "" : extras[random_below(4)]);
    return info;
}

static void test_header_round_trip(void)
{
    begin("what is written is read back the same, and is at most 96 bytes");
    for (int i = 0; i < 2000; i++) {
        char line[Y4M_HEADER_WRITE_MAX + 1];
        y4m_info info = random_info(), again;
        y4m_error error;
        size_t n = y4m_format_header(&info, line);
        check(n == strlen(line) && n <= 96 && line[n - 1] == '\n', "length %d", (int)n);
        check(y4m_parse_header(line, n - 1, &again, &error) == Y4M_OK, "%s: %s", line, message(&error));
        check(same_info(&info, &again), "changed: %s", line);
    }
    finish();
}

static void test_long_headers_are_shortened(void)
{
    begin("X tags are dropped before the line passes 96 bytes, colour range and layout are not");
    const char *line = "YUV4MPEG2 W16384 H16384 F2147483647:2147483647 Ip A2147483647:2147483647 C420mpeg2 "
                       "XCOLORRANGE=LIMITED XYSCSS=420MPEG2 XA XB=0123456789";
    y4m_info info, again;
    y4m_error error;
    char out[Y4M_HEADER_WRITE_MAX + 1];
    check(y4m_parse_header(line, strlen(line), &info, &error) == Y4M_OK, "%s", message(&error));
    info.width *= 2, info.height *= 2;
    size_t n = y4m_format_header(&info, out);
    check(n <= 96, "%d bytes", (int)n);
    check(strstr(out, "W32768 H32768 F2147483647:2147483647 Ip C420mpeg2 XCOLORRANGE=LIMITED") != NULL, "%s", out);
    info.rate.n = 25, info.rate.d = 1, info.aspect.n = info.aspect.d = 1;
    n = y4m_format_header(&info, out);
    check(n <= 96 && strstr(out, " A1:1") && strstr(out, " XYSCSS=420MPEG2"), "%s", out);
    info.width = info.height = 2;
    n = y4m_format_header(&info, out);
    check(y4m_parse_header(out, n - 1, &again, &error) == Y4M_OK, "%s", message(&error));
    check(again.layout == info.layout && again.range == info.range, "%s", out);
    finish();
}

static void test_header_limit_to_the_byte(void)
{
    begin("an X tag is kept exactly when the line with it has at most 96 bytes");
    const size_t bare = strlen("YUV4MPEG2 W8 H8 C420jpeg\n");
    for (size_t length = 2; length < 80; length++) {
        y4m_info info = {.width = 8, .height = 8};
        char line[Y4M_HEADER_WRITE_MAX + 1];
        memset(info.extra, 'X', length);
        info.extra[0] = ' ';
        size_t n = y4m_format_header(&info, line), want = bare + length <= 96 ? bare + length : bare;
        check(n == want, "a tag of %d bytes gives a line of %d, not %d", (int)length, (int)n, (int)want);
    }
    finish();
}

static void test_room_for_tags(void)
{
    begin("X tags are kept while there is room, and nothing beyond it is touched");
    for (size_t length = 80; length < 110; length++) {
        struct {
            y4m_info info;
            char guard[8];
        } s;
        y4m_error error;
        char line[200] = "YUV4MPEG2 W8 H8 ";
        const size_t bare = strlen(line);
        memset(&s, '#', sizeof s);
        memset(line + bare, 'X', length);
        check(y4m_parse_header(line, bare + length, &s.info, &error) == Y4M_OK, "%s", message(&error));
        check(memcmp(s.guard, "########", 8) == 0 && memchr(s.info.extra, 0, sizeof s.info.extra), "a tag of %d bytes",
              (int)length);
        const size_t want = 1 + length < sizeof s.info.extra ? 1 + length : 0;
        check(strlen(s.info.extra) == want, "a tag of %d bytes: %d are kept", (int)length, (int)strlen(s.info.extra));
    }
    finish();
}

static void test_mutated_headers(void)
{
    begin("mutated headers (seed 12345) are refused or give a size within bounds");
    for (int i = 0; i < 20000; i++) {
        char line[200];
        y4m_info info;
        y4m_error error;
        const char *from = good[random_below((int)(sizeof good / sizeof *good))].line;
        size_t n = strlen(from);
        memcpy(line, from, n);
        for (int m = 1 + random_below(3); m > 0; m--)
            line[random_below((int)n)] = (char)random_below(256);
        y4m_status status = y4m_parse_header(line, n, &info, &error);
        check(status == error.status, "status differs from error");
        check(status ||
                  (info.width > 0 && info.width <= Y4M_SIDE_MAX && info.height > 0 && info.height <= Y4M_SIDE_MAX),
              "size %d x %d", info.width, info.height);
        for (const char *c = info.extra; *c; c++)
            check(*c >= ' ' && *c <= '~', "unprintable byte %d kept", *c);
    }
    finish();
}

static void test_geometry(void)
{
    static const struct {
        y4m_layout layout;
        int width, height;
        size_t bytes;
    } sizes[] = {{Y4M_LAYOUT_420JPEG, 51, 38, 101 * 75 + 2 * 51 * 38},
                 {Y4M_LAYOUT_422, 51, 75, 101 * 75 + 2 * 51 * 75},
                 {Y4M_LAYOUT_444, 101, 75, 3 * 101 * 75},
                 {Y4M_LAYOUT_MONO, 0, 0, 101 * 75},
                 {Y4M_LAYOUT_420P10, 51, 38, 2 * (101 * 75 + 2 * 51 * 38)}};
    begin("chroma of odd sizes rounds up: 101x75 has 51x38");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        y4m_info info = {.width = 101, .height = 75, .layout = sizes[i].layout};
        check(y4m_frame_bytes(&info) == sizes[i].bytes, "layout %d: %zu bytes", (int)i, y4m_frame_bytes(&info));
        if (y4m_planes(&info) == 3)
            check(y4m_plane_width(&info, 1) == sizes[i].width && y4m_plane_height(&info, 2) == sizes[i].height,
                  "layout %d: %dx%d", (int)i, y4m_plane_width(&info, 1), y4m_plane_height(&info, 2));
    }
    finish();
}

static y4m_status open_header_of(size_t length, bool newline)
{
    stream s = {.size = 0};
    y4m_reader r;
    append_text(&s, "YUV4MPEG2 W5 H3 X");
    while (s.size < length - newline)
        append_text(&s, "x");
    if (newline)
        append_text(&s, "\n");
    int fd = pipe_with(&s, s.size);
    y4m_status status = y4m_reader_open(&r, fd, NULL);
    close(fd);
    return status;
}

static void test_header_length(void)
{
    begin("a header line of 1024 bytes is read, a longer one is refused, an endless one too");
    check(open_header_of(1024, true) == Y4M_OK, "1024 bytes");
    check(open_header_of(1025, true) == Y4M_HEADER_LONG, "1025 bytes");
    check(open_header_of(8000, false) == Y4M_HEADER_LONG, "8000 bytes without newline");
    finish();
}

int main(void)
{
    test_accepted_headers();
    test_refused_headers();
    test_every_status_has_a_text();
    test_header_round_trip();
    test_long_headers_are_shortened();
    test_header_limit_to_the_byte();
    test_room_for_tags();
    test_mutated_headers();
    test_geometry();
    test_header_length();
    return summary();
}
