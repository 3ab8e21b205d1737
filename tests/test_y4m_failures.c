/* tags: unsigned */
/* test_y4m_failures.c: what examples/video/y4m.h promises about failures of files: full devices, pipes that are closed,
 * streams that do not block, names that cannot be opened.
 *
 * Owns: failing writes. Relies on: video_check.h.
 * Must never: need a file of the repository, or leave one behind.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "y4m_rig.h"

static volatile sig_atomic_t stop = 1;

static const y4m_info info_64x64 = {.width = 64, .height = 64, .layout = Y4M_LAYOUT_420JPEG};
enum { FRAME_64X64 = 64 * 64 * 3 / 2 };
static uint8_t frame_64x64[FRAME_64X64];

static void test_full_device(void)
{
    begin("a full device is reported with the system's words, and the error stays");
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) {
        printf("skipped: no /dev/full here\n");
    } else {
        y4m_writer w;
        check(y4m_writer_open(&w, fd, &info_64x64, NULL) == Y4M_WRITE_FAILED, "%s", message(&w.error));
        check(w.error.system_error == ENOSPC && strstr(message(&w.error), strerror(ENOSPC)), "%s", message(&w.error));
        check(y4m_write_frame(&w, frame_64x64) == Y4M_WRITE_FAILED && w.frames == 0, "error forgotten");
        check(y4m_writer_close(&w) == Y4M_WRITE_FAILED, "error forgotten on closing");
    }
    finish();
}

static void test_closed_pipe(void)
{
    begin("a reader that has gone is reported");
    int ends[2];
    y4m_writer w;
    if (check(pipe(ends) == 0, "pipe")) {
        check(y4m_writer_open(&w, ends[1], &info_64x64, NULL) == Y4M_OK, "%s", message(&w.error));
        close(ends[0]);
        check(y4m_write_frame(&w, frame_64x64) == Y4M_WRITE_FAILED, "%s", message(&w.error));
        check(w.error.system_error == EPIPE && w.error.frame == 1, "%s", message(&w.error));
        y4m_writer_close(&w);
    }
    finish();
}

static void test_stopped_writing(void)
{
    begin("a request to stop ends no frame of a file, and every frame that a pipe has not taken");
    char path[256];
    int ends[2], fd = temporary_file(path);
    struct stat facts;
    y4m_writer w;
    unlink(path);
    check(y4m_writer_open(&w, fd, &info_64x64, &stop) == Y4M_OK && y4m_write_frame(&w, frame_64x64) == Y4M_OK, "%s",
          message(&w.error));
    check(fstat(fd, &facts) == 0 && facts.st_size > FRAME_64X64 && w.frames == 1, "%d bytes", (int)facts.st_size);
    y4m_writer_close(&w);
    if (check(pipe(ends) == 0, "pipe")) {
        check(y4m_writer_open(&w, ends[1], &info_64x64, NULL) == Y4M_OK && y4m_write_frame(&w, frame_64x64) == Y4M_OK,
              "%s", message(&w.error));
        w.stop = &stop;
        check(y4m_write_frame(&w, frame_64x64) == Y4M_STOPPED && w.error.missing_bytes == 0 && w.frames == 1, "%s",
              message(&w.error));
        check(y4m_writer_close(&w) == Y4M_STOPPED, "the error is forgotten");
        close(ends[0]);
    }
    finish();
}

/* A pipe that does not block, and a process that takes or gives a byte now and then. */
static void slow_process(int from, int to)
{
    uint8_t bytes[4001];
    ssize_t n;
    while ((n = read(from, bytes, sizeof bytes)) > 0) {
        const struct timespec some = {0, 100000};
        nanosleep(&some, NULL);
        for (ssize_t done = 0, put = 0; done < n; done += put)
            if ((put = write(to, bytes + done, (size_t)(n - done))) <= 0)
                _exit(1); /* the reader has gone */
    }
    _exit(0);
}

static void test_streams_that_do_not_block(void)
{
    begin("streams that do not block are waited for");
    enum { FRAMES = 14 };
    static uint8_t got[FRAME_64X64];
    int there[2], back[2];
    y4m_writer w;
    y4m_reader r;
    if (check(pipe(there) == 0 && pipe(back) == 0, "pipe")) {
        fflush(stdout);
        const pid_t slow = fork();
        if (slow == 0) {
            close(there[1]), close(back[0]);
            slow_process(there[0], back[1]);
        }
        const pid_t source = fork();
        close(there[0]), close(back[1]);
        if (source == 0) {
            fcntl(there[1], F_SETFL, O_NONBLOCK);
            bool whole = y4m_writer_open(&w, there[1], &info_64x64, NULL) == Y4M_OK;
            for (int i = 0; i < FRAMES; i++)
                whole = y4m_write_frame(&w, frame_64x64) == Y4M_OK && whole;
            _exit(!whole);
        }
        close(there[1]);
        fcntl(back[0], F_SETFL, O_NONBLOCK);
        check(y4m_reader_open(&r, back[0], NULL) == Y4M_OK, "%s", message(&r.error));
        while (y4m_read_frame(&r, got) == Y4M_OK)
            ;
        check(r.error.status == Y4M_END && r.frames == FRAMES, "%d frames, %s", (int)r.frames, message(&r.error));
        close(back[0]);
        int status = 1;
        check(waitpid(source, &status, 0) == source && status == 0, "writing fails");
        waitpid(slow, &status, 0);
    }
    finish();
}

/* The limit on file size stands in for a disk that fills up in the middle of a frame. */
static void cut_at(rlim_t limit, int open_flags)
{
    char path[256];
    struct rlimit old, low;
    struct stat facts;
    y4m_writer w;
    y4m_reader r;
    close(temporary_file(path));
    int fd = open(path, O_RDWR | open_flags), whole = 0;
    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = limit;
    y4m_status status = y4m_writer_open(&w, fd, &info_64x64, NULL);
    setrlimit(RLIMIT_FSIZE, &low);
    for (; !status && whole < 9; whole += !status)
        status = y4m_write_frame(&w, frame_64x64);
    setrlimit(RLIMIT_FSIZE, &old);
    check(status == Y4M_WRITE_FAILED && w.error.system_error == EFBIG, "%s", message(&w.error));
    check(w.error.frame == whole + 1, "%s after %d frames", message(&w.error), whole);
    fstat(fd, &facts);
    check(lseek(fd, 0, SEEK_SET) == 0 && y4m_reader_open(&r, fd, NULL) == Y4M_OK, "%s", message(&r.error));
    check(y4m_frames_expected(&r) == whole, "expects %d", (int)y4m_frames_expected(&r));
    check((int64_t)facts.st_size == (int64_t)r.header_bytes + (int64_t)whole * (FRAME_64X64 + 6),
          "%lld bytes for %d frames", (long long)facts.st_size, whole);
    uint8_t frame[FRAME_64X64];
    while (!(status = y4m_read_frame(&r, frame)))
        ;
    check(status == Y4M_END && r.frames == whole, "%s", message(&r.error));
    close(fd);
    unlink(path);
}

static void test_cut_back(void)
{
    begin("when a disk fills inside a frame, the file is cut back to its last whole frame");
    for (rlim_t limit = 40; limit < 3 * FRAME_64X64; limit += 1021)
        cut_at(limit, 0);
    cut_at(2 * FRAME_64X64, O_APPEND);
    finish();
}

static void test_open_errors(void)
{
    begin("what cannot be read says why");
    y4m_reader r;
    int fd = open("/", O_RDONLY);
    check(y4m_reader_open(&r, fd, NULL) == Y4M_READ_FAILED, "%s", message(&r.error));
    check(strstr(message(&r.error), strerror(EISDIR)) != NULL, "%s", message(&r.error));
    close(fd);
    finish();
}

static void test_names(void)
{
    static const char *const others[] = {"o.mp4", "a/b.MKV", "x.y4m.png", "./v.webm", "o.yuv"};
    static const char *const ours[] = {"o.y4m", "o", "-", "mp4", ".mp4", "a.mp4/o", "o.mp4x", "/dev/null", "o."};
    begin("a name that promises another format is told apart");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check(y4m_misnamed(others[i]), "%s", others[i]);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        check(!y4m_misnamed(ours[i]), "%s", ours[i]);
    finish();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    test_full_device();
    test_closed_pipe();
    test_stopped_writing();
    test_streams_that_do_not_block();
    test_cut_back();
    test_names();
    test_open_errors();
    return summary();
}
