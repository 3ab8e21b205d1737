/* tags: unsigned tsan */
/* test_y4m_frames.c: what examples/video/y4m.h promises about frames.
 *
 * Owns: streams cut at every byte, every layout through files and pipes, and through ffmpeg.
 * Relies on: video_check.h; ffmpeg for one test, which says so where it is not installed.
 * Must never: need a file of the repository, or leave one behind.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>

#include "y4m_stream.h"

static void test_cut_anywhere(void)
{
    begin("a stream cut at any byte is told apart: header, between frames, or a frame by its missing bytes");
    stream s = {.size = 0};
    append_text(&s, header_5x3);
    append_frame(&s, FRAME_5X3);
    append_frame(&s, FRAME_5X3);
    const size_t head = strlen(header_5x3), step = FRAME_5X3 + 6;
    for (size_t cut = 0; cut <= s.size; cut++) {
        for (int as_file = 0; as_file < 2; as_file++) {
            uint8_t frame[FRAME_5X3];
            y4m_reader r;
            int fd = as_file ? file_with(&s, cut) : pipe_with(&s, cut);
            y4m_status status = y4m_reader_open(&r, fd, NULL);
            if (cut < head) {
                check(status == (cut ? Y4M_HEADER_CUT : Y4M_EMPTY), "at %d: %s", (int)cut, message(&r.error));
            } else {
                while (!(status = y4m_read_frame(&r, frame)))
                    ;
                size_t whole = (cut - head) / step, rest = (cut - head) % step;
                check(r.frames == (int64_t)whole, "at %d: %d frames", (int)cut, (int)r.frames);
                check(status == (rest ? Y4M_SHORT_FRAME : Y4M_END), "at %d: %s", (int)cut, message(&r.error));
                check(!rest || r.error.missing_bytes == step - rest, "at %d: %s", (int)cut, message(&r.error));
                check(!rest || r.error.frame == (int64_t)whole + 1, "at %d: %s", (int)cut, message(&r.error));
            }
            close(fd);
        }
    }
    finish();
}

/* Reads a stream whose only frame begins with this line. */
static y4m_status read_with_frame_line(const char *line, size_t length)
{
    stream s = {.size = 0};
    uint8_t frame[FRAME_5X3];
    y4m_reader r;
    append_text(&s, header_5x3);
    append(&s, line, length);
    for (int i = 0; i < FRAME_5X3; i++)
        s.bytes[s.size++] = (uint8_t)i;
    int fd = pipe_with(&s, s.size);
    y4m_status status = y4m_reader_open(&r, fd, NULL);
    if (!status)
        status = y4m_read_frame(&r, frame);
    for (int i = 0; !status && i < FRAME_5X3; i++)
        check(frame[i] == i, "'%s': pixel %d is %d", line, i, frame[i]);
    close(fd);
    return status;
}

static void test_frame_lines(void)
{
    char line[82];
    begin("FRAME lines may have parameters and CRLF up to 80 bytes; anything else is refused");
    check(read_with_frame_line("FRAME\n", 6) == Y4M_OK, "plain");
    check(read_with_frame_line("FRAME\r\n", 7) == Y4M_OK, "CRLF");
    check(read_with_frame_line("FRAME Ippp XSOME=thing\n", 23) == Y4M_OK, "parameters");
    memset(line, 'x', sizeof line);
    memcpy(line, "FRAME ", 6);
    line[79] = '\n';
    check(read_with_frame_line(line, 80) == Y4M_OK, "80 bytes");
    line[79] = 'x', line[80] = '\n';
    check(read_with_frame_line(line, 81) == Y4M_BAD_FRAME, "81 bytes");
    check(read_with_frame_line("FRAMES\n", 7) == Y4M_BAD_FRAME, "FRAMES");
    check(read_with_frame_line("FRAM\n", 5) == Y4M_BAD_FRAME, "FRAM");
    check(read_with_frame_line("frame\n", 6) == Y4M_BAD_FRAME, "frame");
    check(read_with_frame_line("\n", 1) == Y4M_BAD_FRAME, "empty line");
    finish();
}

/* Writes frames of every layout at an odd size and reads them again. */
static void round_trip(int fd_out, int fd_in, const y4m_info *info, bool rewind)
{
    uint8_t wrote[256], got[256];
    y4m_writer w;
    y4m_reader r;
    size_t size = y4m_frame_bytes(info);
    for (size_t i = 0; i < size; i++)
        wrote[i] = y4m_sample_bytes(info) == 2 && (i & 1) ? (uint8_t)random_below(4) : (uint8_t)random_bits();
    check(y4m_writer_open(&w, fd_out, info, NULL) == Y4M_OK, "%s", message(&w.error));
    for (int i = 0; i < 3; i++)
        check(y4m_write_frame(&w, wrote) == Y4M_OK, "%s", message(&w.error));
    check(w.frames == 3, "%d frames written", (int)w.frames);
    if (rewind)
        lseek(fd_in, 0, SEEK_SET);
    else
        check(y4m_writer_close(&w) == Y4M_OK, "%s", message(&w.error));
    check(y4m_reader_open(&r, fd_in, NULL) == Y4M_OK, "%s", message(&r.error));
    check(same_info(&r.info, info), "header changed");
    check(y4m_frames_expected(&r) == (rewind ? 3 : -1), "expects %d frames", (int)y4m_frames_expected(&r));
    for (int i = 0; i < 3; i++) {
        memset(got, 0, sizeof got);
        check(y4m_read_frame(&r, got) == Y4M_OK && memcmp(got, wrote, size) == 0, "frame %d differs", i);
    }
    check(y4m_read_frame(&r, got) == Y4M_END, "%s", message(&r.error));
    close(fd_in);
}

static void test_frames_round_trip(void)
{
    begin("frames of every layout come back from files and pipes as they were written");
    for (int layout = 0; layout < Y4M_LAYOUT_COUNT; layout++) {
        y4m_info info = {.width = 7, .height = 5, .layout = (y4m_layout)layout, .range = Y4M_RANGE_FULL};
        char path[256];
        int ends[2], fd = temporary_file(path);
        unlink(path);
        round_trip(fd, fd, &info, true);
        if (check(pipe(ends) == 0, "pipe"))
            round_trip(ends[1], ends[0], &info, false);
    }
    finish();
}

static void test_codes_above_the_largest(void)
{
    begin("codes that ten bits cannot hold come as 1023, others as they are");
    enum { SAMPLES = 6 * 4 * 3 };
    static const uint16_t given[] = {0, 1, 1022, 1023, 1024, 2047, 32767, 32768, 65535};
    static uint16_t frame[SAMPLES];
    const y4m_info info = {.width = 6, .height = 4, .layout = Y4M_LAYOUT_444P10};
    char path[256];
    y4m_writer w;
    y4m_reader r;
    int fd = temporary_file(path);
    unlink(path);
    for (int i = 0; i < SAMPLES; i++)
        frame[i] = given[i % 9];
    check(y4m_writer_open(&w, fd, &info, NULL) == Y4M_OK && y4m_write_frame(&w, frame) == Y4M_OK, "%s",
          message(&w.error));
    check(lseek(fd, 0, SEEK_SET) == 0 && y4m_reader_open(&r, fd, NULL) == Y4M_OK, "%s", message(&r.error));
    check(y4m_read_frame(&r, frame) == Y4M_OK, "%s", message(&r.error));
    for (int i = 0; i < SAMPLES; i++)
        check(frame[i] == (given[i % 9] < 1023 ? given[i % 9] : 1023), "%d comes as %d", given[i % 9], frame[i]);
    close(fd);
    finish();
}

static volatile sig_atomic_t stop = 1;

static void test_stop(void)
{
    begin("a request to stop ends reading, the header's too");
    stream s = {.size = 0};
    uint8_t frame[FRAME_5X3];
    y4m_reader r;
    append_text(&s, header_5x3);
    int fd = pipe_with(&s, s.size);
    check(y4m_reader_open(&r, fd, &stop) == Y4M_STOPPED, "%s", message(&r.error));
    check(y4m_reader_open(&r, fd, NULL) == Y4M_OK, "%s", message(&r.error));
    r.stop = &stop;
    check(y4m_read_frame(&r, frame) == Y4M_STOPPED, "%s", message(&r.error));
    close(fd);
    finish();
}

/* --- ffmpeg ------------------------------------------------------------------------------- */

static void through_ffmpeg(const y4m_info *info)
{
    char path[256], command[600];
    uint8_t wrote[4096], got[4096];
    y4m_writer w;
    y4m_reader r;
    const size_t size = y4m_frame_bytes(info);
    const bool deep = y4m_sample_bytes(info) == 2;
    for (size_t i = 0; i < size; i++)
        wrote[i] = deep && (i & 1) ? (uint8_t)random_below(4) : (uint8_t)random_bits();
    check(y4m_writer_open(&w, temporary_file(path), info, NULL) == Y4M_OK, "%s", message(&w.error));
    check(y4m_write_frame(&w, wrote) == Y4M_OK && y4m_write_frame(&w, wrote) == Y4M_OK, "write");
    y4m_writer_close(&w);
    snprintf(command, sizeof command, "ffmpeg -v error -f yuv4mpegpipe -i %s -f yuv4mpegpipe -strict -1 - </dev/null",
             path);
    FILE *pipe_end = popen(command, "r");
    if (check(pipe_end != NULL, "popen")) {
        const char *name = y4m_facts(info->layout)->name;
        check(y4m_reader_open(&r, fileno(pipe_end), NULL) == Y4M_OK, "%s: %s", name, message(&r.error));
        check(r.info.width == info->width && r.info.height == info->height, "%s: size", name);
        int n = 0;
        for (; !checks.failed && y4m_read_frame(&r, got) == Y4M_OK; n++)
            check(memcmp(got, wrote, size) == 0, "%s: frame %d differs", name, n);
        check(n == 2, "%s: %d frames", name, n);
        pclose(pipe_end);
    }
    unlink(path);
}

static void test_ffmpeg(void)
{
    /* 10 bit at an even width: ffmpeg 5.1's writer cuts chroma rows of odd 10 bit widths by a byte. */
    begin("ffmpeg reads what is written and writes what is read, at odd sizes in every layout");
    if (system("ffmpeg -version >/dev/null 2>&1") != 0)
        printf("skipped: ffmpeg is not installed\n");
    else
        for (int layout = 0; layout < Y4M_LAYOUT_COUNT; layout++) {
            y4m_info info = {.width = 33, .height = 17, .layout = (y4m_layout)layout, .interlacing = 'p'};
            info.width += y4m_facts(info.layout)->bits > 8;
            info.rate = (y4m_ratio){true, 30000, 1001};
            info.range = layout == Y4M_LAYOUT_MONO ? Y4M_RANGE_FULL : Y4M_RANGE_LIMITED;
            through_ffmpeg(&info);
        }
    finish();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    test_cut_anywhere();
    test_frame_lines();
    test_frames_round_trip();
    test_codes_above_the_largest();
    test_stop();
    test_ffmpeg();
    return summary();
}
