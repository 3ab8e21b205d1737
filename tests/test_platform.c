/* tags: asan tsan */
/* Promises: the default platform does what brainstorm.h says of it: threads, gates, files and a clock that goes on;
 * what cannot be made or opened is said, and interrupted or short reads are whole ones.
 *
 * Relies on: stream_rig.h, whose pread is interrupted on demand; on Linux gates that cannot be made, likewise. */
#include "stream_rig.h"

#include "base/platform.h"
#include "check.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 + 100 };

static int condemned;
static char path[256];
static uint8_t content[BYTES], got[BYTES + 4096];
static _Alignas(4096) uint8_t probe[BS_PROBE_BYTES], page[8192];

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REFUSES 1
static int refuse_mutex, refuse_condition;

/* In the place of libc's. */
int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    const pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
    (void)attributes;
    *mutex = plain;
    return refuse_mutex ? ENOMEM : 0;
}

int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    const pthread_cond_t plain = PTHREAD_COND_INITIALIZER;
    (void)attributes;
    *condition = plain;
    return refuse_condition ? ENOMEM : 0;
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    (void)mutex;
    condemned++;
    return 0;
}
#endif

static const bs_platform *p;

/* ---------------------------------------------------------------------------------------------------- threads */

static _Alignas(16) uint8_t gate[BS_GATE_BYTES], thread[BS_THREAD_BYTES];
static int turn;

static void answer(void *argument)
{
    p->gate_lock(p->user, gate);
    while (turn != 1)
        p->gate_wait(p->user, gate);
    turn = *(int *)argument;
    p->gate_wake(p->user, gate);
    p->gate_unlock(p->user, gate);
}

static void test_threads(void)
{
    int last = 2;
    const bool started = p->gate_init(p->user, gate) == 0 && p->thread_start(p->user, thread, answer, &last) == 0;
    if (!check(started, "a gate and a thread are made"))
        return;
    p->gate_lock(p->user, gate);
    turn = 1;
    p->gate_wake(p->user, gate);
    while (turn != 2)
        p->gate_wait(p->user, gate);
    p->gate_unlock(p->user, gate);
    p->thread_join(p->user, thread);
    p->gate_destroy(p->user, gate);
    check(turn == 2, "they take turns through the gate");
    const uint64_t before = p->clock_ns(p->user), after = p->clock_ns(p->user);
    check(before > 0 && after >= before, "the clock goes on");
}

static void test_refused_gates(void)
{
#ifdef REFUSES
    refuse_mutex = 1;
    check(p->gate_init(p->user, gate) != 0, "a gate without a mutex is none");
    refuse_mutex = 0;
    refuse_condition = 1;
    condemned = 0;
    check(p->gate_init(p->user, gate) != 0 && condemned == 1,
          "nor is one without a condition, and its mutex is given back");
    refuse_condition = 0;
#endif
}

/* ---------------------------------------------------------------------------------------------------- files */

static void write_file(void)
{
    FILE *file = fopen(path, "wb");
    for (int32_t i = 0; i < BYTES; i++)
        content[i] = (uint8_t)(i * 7 + i / 256);
    if (!file || fwrite(content, 1, BYTES, file) != BYTES || fclose(file) != 0)
        exit(2);
}

static void test_no_files(void)
{
    char fifo[sizeof path + 8];
    const char *const none[] = {"no/such/file", "tests", "", "/dev/null", fifo};
    int32_t opened = 0;
    snprintf(fifo, sizeof fifo, "%s.pipe", path);
    check(mkfifo(fifo, 0600) == 0, "a pipe that nobody writes to");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        uint64_t size = 7;
        uint32_t alignment = 0;
        opened += p->file_open(p->user, none[i], &size) >= 0;
        opened += p->file_open_direct(p->user, none[i], probe, &size, &alignment) >= 0 || alignment != 1;
    }
    unlink(fifo);
    check(opened == 0, "what is not there, or is no regular file, is not opened, nor waited for");
}

static void test_reads(void)
{
    uint64_t size = 0;
    const int64_t file = p->file_open(p->user, path, &size);
    if (!check(file >= 0 && size == BYTES, "a file is opened, with its size"))
        return;
    check(p->file_read(p->user, file, 0, got, BYTES) == BYTES && memcmp(got, content, BYTES) == 0, "read whole,");
    check(p->file_read(p->user, file, BYTES - 10, got, 100) == 10 && memcmp(got, content + BYTES - 10, 10) == 0,
          "up to its end,");
    check(p->file_read(p->user, file, BYTES + 5, got, 100) == 0 && p->file_read(p->user, file, 3, got, 0) == 0,
          "and not beyond it");
#if defined(__linux__)
    script.interrupt = 2;
    script.shorten = 1;
    const bool whole = p->file_read(p->user, file, 1, got, BYTES - 1) == BYTES - 1 &&
                       memcmp(got, content + 1, BYTES - 1) == 0;
    check(whole && script.calls > 8, "reads that are interrupted or short go on: %d calls", script.calls);
    memset(&script, 0, sizeof script);
    script.fail_at = 1;
    check(p->file_read(p->user, file, 0, got, BYTES) == -1, "one that fails is an error");
    memset(&script, 0, sizeof script);
#endif
    p->file_forget(p->user, file, 0, BYTES);
    p->file_close(p->user, file);
    check(p->file_read(p->user, file, 0, got, 1) == -1, "so is one of a file that is closed");
}

static void test_direct(void)
{
    uint64_t size = 0;
    uint32_t alignment = 0;
    const int64_t file = p->file_open_direct(p->user, path, probe, &size, &alignment);
    check(file >= 0 && size == BYTES && alignment >= 1 && alignment <= BS_PROBE_BYTES &&
              (alignment & (alignment - 1)) == 0,
          "a file is opened past the cache, or buffered after all: alignment %u", (unsigned)alignment);
    check(p->file_read(p->user, file, 4096, page, 8192) == 8192 && memcmp(page, content + 4096, 8192) == 0,
          "aligned reads bring the same bytes");
    const int64_t rest = p->file_read(p->user, file, 12288, page, 4096);
    check(rest == 100 && memcmp(page, content + 12288, 100) == 0, "and those at the end what there is: %d bytes",
          (int)rest);
    p->file_close(p->user, file);
#if defined(__linux__)
    script.end_at = 0;
    script.fail_at = 1; /* the first probe; where there is no direct reading, none is made */
    const int64_t again = p->file_open_direct(p->user, path, probe, &size, &alignment);
    check(again >= 0, "a probe that fails is tried at a larger alignment, then buffered: alignment %u",
          (unsigned)alignment);
    memset(&script, 0, sizeof script);
    p->file_close(p->user, again);
#endif
}

enum { TASKS = 97 };

typedef struct task_count {
    atomic_int done[TASKS + 64]; /* and what must not be */
} task_count;

static void count_task(void *user, int32_t index, int32_t worker)
{
    task_count *c = user;
    (void)worker;
    if (index >= 0 && index < TASKS + 64)
        atomic_fetch_add(&c->done[index], 1);
}

static void test_tasks(void)
{
    static bs_workers pool;
    static bs_worker room[4];
    static task_count c;
    bs_error error = {0};
    int32_t wrong = 0;
    check(bs_workers_start(&pool, room, p, 4, &error) == BS_OK, "three workers start: %s", error.message);
    for (int32_t count = 0; count <= TASKS; count++) {
        memset(&c, 0, sizeof c);
        bs_workers_run(&pool, count_task, &c, count);
        for (int32_t i = 0; i < TASKS + 64; i++)
            wrong += atomic_load(&c.done[i]) != (i < count);
    }
    bs_workers_stop(&pool);
    check(wrong == 0, "every task of a job is done once, and none beyond the last");
}

int main(void)
{
    const char *build = getenv("BUILD");
    p = bs_platform_default();
    snprintf(path, sizeof path, "%s/tests/platform_%ld.bin", build ? build : "build", (long)getpid());
    test_threads();
    test_tasks();
    test_refused_gates();
    write_file();
    test_no_files();
    test_reads();
    test_direct();
    remove(path);
    return check_end();
}
