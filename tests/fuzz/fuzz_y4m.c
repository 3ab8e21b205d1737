/* fuzz_y4m.c - a video stream, hostile: read from a file and from a pipe, written again, and what was written read
 * again.
 *
 * The input: one byte that says how, then the stream.
 *
 * Relies on: y4m.h, POSIX for a pipe and unnamed files. Must never: hold a frame larger than a megabyte. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz.h"

#include "y4m.h"

#include <fcntl.h>
#include <unistd.h>

enum { FRAME_MOST = 1 << 20, PIPE_MOST = 4096 };

/* --- files ------------------------------------------------------------------------------------------------- */

/* An unnamed file that is empty again, kept from input to input. */
static int empty_file(int which)
{
    static FILE *files[3];
    if (!files[which])
        files[which] = tmpfile();
    FUZZ_PROMISE(files[which], "no file");
    const int fd = fileno(files[which]);
    FUZZ_PROMISE(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0, "no file");
    return fd;
}

static int file_of(const uint8_t *data, size_t n)
{
    const int fd = empty_file(0);
    FUZZ_PROMISE(write(fd, data, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0, "no file");
    return fd;
}

/* The end to read from. A pipe takes that much without a reader. */
static int pipe_of(const uint8_t *data, size_t n)
{
    int ends[2];
    FUZZ_PROMISE(pipe(ends) == 0 && write(ends[1], data, n) == (ssize_t)n, "no pipe");
    close(ends[1]);
    return ends[0];
}

/* --- what must hold ------------------------------------------------------------------------------------------ */

static void check_error(const y4m_error *error, y4m_status status)
{
    char text[160];
    FUZZ_PROMISE(error->status == status, "status %d, the error says %d", (int)status, (int)error->status);
    const size_t length = y4m_message(error, text, sizeof text);
    FUZZ_PROMISE(length > 0 && length < sizeof text && strlen(text) == length && !strchr(text, '\n'), "%s", text);
    FUZZ_PROMISE(y4m_message(error, text, 9) == length && strlen(text) == (length < 8 ? length : 8), "%s", text);
}

static void check_info(const y4m_info *i)
{
    size_t at = 0;
    FUZZ_PROMISE(i->width > 0 && i->height > 0 && i->width <= Y4M_SIDE_MAX && i->height <= Y4M_SIDE_MAX &&
                     (int)i->layout >= 0 && i->layout < Y4M_LAYOUT_COUNT,
                 "%d x %d, layout %d", i->width, i->height, (int)i->layout);
    FUZZ_PROMISE(memchr(i->extra, 0, sizeof i->extra), "extra");
    for (int p = 0; p < y4m_planes(i); p++) {
        FUZZ_PROMISE(y4m_plane_offset(i, p) == at && y4m_plane_width(i, p) > 0 && y4m_plane_width(i, p) <= i->width &&
                         y4m_plane_height(i, p) <= i->height,
                     "plane %d", p);
        FUZZ_PROMISE(y4m_plane_bytes(i, p) == y4m_row_bytes(i, p) * (size_t)y4m_plane_height(i, p) &&
                         y4m_row_bytes(i, p) == y4m_sample_bytes(i) * (size_t)y4m_plane_width(i, p), "plane %d", p);
        at += y4m_plane_bytes(i, p);
    }
    FUZZ_PROMISE(y4m_frame_bytes(i) == at, "%zu bytes a frame, planes have %zu", y4m_frame_bytes(i), at);
}

static bool same_ratio(y4m_ratio a, y4m_ratio b) { return a.given == b.given && a.n == b.n && a.d == b.d; }

/* What a header tells again once it was written. An aspect or X tags may have been too long. */
static void check_same(const y4m_info *a, const y4m_info *b)
{
    FUZZ_PROMISE(a->width == b->width && a->height == b->height && a->layout == b->layout && a->range == b->range &&
                     same_ratio(a->rate, b->rate) && a->interlacing == b->interlacing &&
                     (!b->aspect.given || same_ratio(a->aspect, b->aspect)),
                 "%d x %d", a->width, a->height);
}

/* --- flows ------------------------------------------------------------------------------------------------------ */

/* Reads to the end; `writer` (may be NULL) gets every frame. Returns the frames. */
static int64_t read_all(y4m_reader *in, y4m_writer *writer)
{
    const size_t bytes = y4m_frame_bytes(&in->info);
    uint8_t *frame = malloc(bytes);
    y4m_status status;
    int64_t frames = 0;
    while ((status = y4m_read_frame(in, frame)) == Y4M_OK) {
        FUZZ_PROMISE(in->frames == ++frames, "frame %lld", (long long)frames);
        FUZZ_PROMISE(!writer || y4m_write_frame(writer, frame) == Y4M_OK, "frame %lld is not written",
                     (long long)frames);
    }
    check_error(&in->error, status);
    FUZZ_PROMISE(status == Y4M_END || status == Y4M_BAD_FRAME || status == Y4M_SHORT_FRAME, "status %d", (int)status);
    FUZZ_PROMISE(status != Y4M_END || y4m_read_frame(in, frame) == Y4M_END, "something after the end");
    free(frame);
    return frames;
}

/* The file that was read through a writer: as many frames, the same header, and a second time the same bytes. */
static void read_again(const y4m_info *info, int fd, int64_t frames, int copy)
{
    y4m_reader in;
    y4m_writer out;
    FUZZ_PROMISE(lseek(fd, 0, SEEK_SET) == 0 && y4m_reader_open(&in, fd, NULL) == Y4M_OK,
                 "what was written does not open");
    check_info(&in.info);
    check_same(info, &in.info);
    FUZZ_PROMISE(y4m_frames_expected(&in) == frames, "%lld frames expected, %lld written",
                 (long long)y4m_frames_expected(&in), (long long)frames);
    FUZZ_PROMISE(y4m_writer_open(&out, copy, &in.info, NULL) == Y4M_OK && read_all(&in, &out) == frames &&
                     in.error.status == Y4M_END,
                 "frames are lost");
}

static void check_copies(int a, int b)
{
    static uint8_t first[1 << 16], second[1 << 16];
    const off_t size = lseek(a, 0, SEEK_END);
    FUZZ_PROMISE(size == lseek(b, 0, SEEK_END), "copies are not as long");
    const ssize_t n = pread(a, first, sizeof first, 0);
    FUZZ_PROMISE(n == pread(b, second, sizeof second, 0) && memcmp(first, second, (size_t)n) == 0, "copies differ");
}

static void use(int fd, bool regular)
{
    y4m_reader in;
    y4m_writer out;
    const y4m_status status = y4m_reader_open(&in, fd, NULL);
    if (status != Y4M_OK) {
        check_error(&in.error, status);
        return;
    }
    check_info(&in.info);
    const y4m_info info = in.info;
    const int64_t expected = y4m_frames_expected(&in);
    FUZZ_PROMISE(regular ? expected >= 0 : expected == -1, "%lld frames expected", (long long)expected);
    if (y4m_frame_bytes(&in.info) > FRAME_MOST)
        return;
    const int first = empty_file(1), second = empty_file(2);
    FUZZ_PROMISE(y4m_writer_open(&out, first, &info, NULL) == Y4M_OK, "no header is written");
    const int64_t frames = read_all(&in, &out);
    FUZZ_PROMISE(!regular || frames <= expected, "%lld frames, %lld expected", (long long)frames, (long long)expected);
    read_again(&info, first, frames, second);
    check_copies(first, second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    y4m_info info;
    y4m_error error;
    const bool piped = size > 0 && data[0] & 1 && size <= PIPE_MOST;
    const uint8_t *stream = data + (size > 0);
    const size_t n = size - (size > 0), line = n < Y4M_HEADER_READ_MAX ? n : Y4M_HEADER_READ_MAX;
    uint8_t *copy = fuzz_copy(stream, line);
    /* frames behind it are more tags */
    const y4m_status status = y4m_parse_header((const char *)copy, line, &info, &error);
    if (status == Y4M_OK)
        check_info(&info);
    else
        check_error(&error, status);
    free(copy);
    const int fd = piped ? pipe_of(stream, n) : file_of(stream, n);
    use(fd, !piped);
    if (piped)
        close(fd);
    return 0;
}

/* --- by tags ----------------------------------------------------------------------------------------------------- */

#ifdef FUZZ_ENGINE
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
    static const char *const tags[] = {
#define TAG(id, name, ...) " C" name,
        Y4M_LAYOUT_LIST(TAG)
#undef TAG
            " W",
        " H",
        " W1",
        " H1",
        " W16384",
        " H16385",
        " W2147483648",
        " F30:1",
        " F0:0",
        " F2147483647:1",
        " A1:1",
        " A0:1",
        " A4294967296:3",
        " Ip",
        " It",
        " I?",
        " XYSCSS=420JPEG",
        " XYSCSS=444P10",
        " XCOLORRANGE=FULL",
        " XCOLORRANGE=LIMITED",
        " Xsomething=else",
        "YUV4MPEG2 ",
        "FRAME\n",
        "FRAME",
        "FRAME Ixyz\n",
        "\r\n",
        "\n",
        " ",
        "  ",
        ":",
        "0",
        "18446744073709551616"};
    fuzz_dice dice = fuzz_dice_of(seed);
    const char *tag = tags[fuzz_pick(&dice, sizeof tags / sizeof *tags)];
    const size_t n = strlen(tag), head = size < 120 ? size : 120,
                 at = fuzz_pick(&dice, (fuzz_chance(&dice, 75) ? head : size) + 1);
    if (fuzz_chance(&dice, 50) || size + n > most)
        return LLVMFuzzerMutate(data, size, most);
    const bool over = fuzz_chance(&dice, 30) && at + n <= size;
    if (!over)
        memmove(data + at + n, data + at, size - at);
    memcpy(data + at, tag, n);
    return over ? size : size + n;
}
#endif
