/* base/platform_posix.c - the default platform table: pthreads, pread, monotonic clock, no log.
 * Relies on POSIX.1-2008, and on O_DIRECT where it exists. Must never be referenced directly: always through
 * bs_platform. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/base.h"

#ifdef BS_NO_POSIX

const bs_platform *bs_platform_default(void)
{
    return NULL;
}

#else

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t posix_clock_ns(void *user)
{
    struct timespec t;
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct posix_thread {
    pthread_t thread;
    void (*entry)(void *);
    void *argument;
} posix_thread;

typedef struct posix_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} posix_gate;

/* The caller's storage must hold ours. */
typedef char posix_thread_fits[sizeof(posix_thread) <= BS_THREAD_BYTES ? 1 : -1];
typedef char posix_gate_fits[sizeof(posix_gate) <= BS_GATE_BYTES ? 1 : -1];

static void *posix_thread_main(void *handle)
{
    posix_thread *t = handle;
    t->entry(t->argument);
    return NULL;
}

static int posix_thread_start(void *user, void *handle, void (*entry)(void *), void *argument)
{
    posix_thread *t = handle;
    (void)user;
    t->entry = entry;
    t->argument = argument;
    return pthread_create(&t->thread, NULL, posix_thread_main, t);
}

static void posix_thread_join(void *user, void *handle)
{
    (void)user;
    pthread_join(((posix_thread *)handle)->thread, NULL);
}

static int posix_gate_init(void *user, void *storage)
{
    posix_gate *g = storage;
    (void)user;
    if (pthread_mutex_init(&g->mutex, NULL) != 0)
        return -1;
    if (pthread_cond_init(&g->changed, NULL) == 0)
        return 0;
    pthread_mutex_destroy(&g->mutex);
    return -1;
}

static void posix_gate_destroy(void *user, void *storage)
{
    posix_gate *g = storage;
    (void)user;
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mutex);
}

static void posix_gate_lock(void *user, void *storage)
{
    (void)user;
    pthread_mutex_lock(&((posix_gate *)storage)->mutex);
}

static void posix_gate_unlock(void *user, void *storage)
{
    (void)user;
    pthread_mutex_unlock(&((posix_gate *)storage)->mutex);
}

static void posix_gate_wait(void *user, void *storage)
{
    posix_gate *g = storage;
    (void)user;
    pthread_cond_wait(&g->changed, &g->mutex);
}

static void posix_gate_wake(void *user, void *storage)
{
    (void)user;
    pthread_cond_broadcast(&((posix_gate *)storage)->changed);
}

/* O_DIRECT is Linux's and hidden in strict C; glibc also defines it under this name. Elsewhere reads are buffered. */
#if defined(O_DIRECT)
enum { posix_direct = O_DIRECT };
#elif defined(__O_DIRECT)
enum { posix_direct = __O_DIRECT };
#else
enum { posix_direct = 0 };
#endif

static int64_t posix_file_open_with(const char *path, int flags, uint64_t *size_bytes)
{
    struct stat info = {0};
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags); /* which waits for no writer of a pipe */
    if (file < 0)
        return -1;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) {
        close(file);
        errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL; /* the size of a pipe or a device is not known */
        return -1;
    }
    *size_bytes = (uint64_t)info.st_size;
    return file;
}

static int64_t posix_file_open(void *user, const char *path, uint64_t *size_bytes)
{
    (void)user;
    return posix_file_open_with(path, 0, size_bytes);
}

static int64_t posix_file_read(void *user, int64_t file, uint64_t offset, void *buffer, size_t bytes)
{
    size_t done = 0;
    (void)user;
    while (done < bytes) { /* goes on after short and interrupted reads */
        const ssize_t n = pread((int)file, (char *)buffer + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && done > 0)
            break; /* a direct read met the file's end, after which it cannot go on aligned */
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

/* Some file systems open with O_DIRECT and then refuse to read. The buffer and offset that are tried are aligned to
 * `alignment` and no more. */
static bool posix_direct_works(int64_t file, uint8_t *probe, uint32_t alignment, uint64_t size_bytes)
{
    uint8_t *const buffer = alignment < BS_PROBE_BYTES ? probe + alignment : probe;
    const uint64_t offset = size_bytes > alignment ? alignment : 0;
    return posix_file_read(NULL, file, offset, buffer, alignment) > 0;
}

static int64_t posix_file_open_direct(void *user, const char *path, void *probe, uint64_t *size_bytes,
                                      uint32_t *alignment)
{
    (void)user;
    const int64_t direct = posix_direct ? posix_file_open_with(path, posix_direct, size_bytes) : -1;
    for (*alignment = 512; direct >= 0 && *alignment <= BS_PROBE_BYTES; *alignment *= 8)
        if (posix_direct_works(direct, probe, *alignment, *size_bytes))
            return direct;
    if (direct >= 0)
        close((int)direct);
    *alignment = 1;
    const int64_t file = posix_file_open_with(path, 0, size_bytes);
#ifdef POSIX_FADV_RANDOM
    if (file >= 0)
        posix_fadvise((int)file, 0, 0, POSIX_FADV_RANDOM); /* only advice, so a failure is ignored */
#endif
    return file;
}

static void posix_file_forget(void *user, int64_t file, uint64_t offset, uint64_t bytes)
{
    (void)user;
#ifdef POSIX_FADV_DONTNEED
    posix_fadvise((int)file, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
#else
    (void)file;
    (void)offset;
    (void)bytes;
#endif
}

static void posix_file_close(void *user, int64_t file)
{
    (void)user;
    close((int)file);
}

static const bs_platform posix_platform = {
    NULL,
    posix_clock_ns,
    NULL,
    posix_thread_start,
    posix_thread_join,
    posix_gate_init,
    posix_gate_destroy,
    posix_gate_lock,
    posix_gate_unlock,
    posix_gate_wait,
    posix_gate_wake,
    posix_file_open,
    posix_file_read,
    posix_file_close,
    posix_file_open_direct,
    posix_file_forget,
};

const bs_platform *bs_platform_default(void)
{
    return &posix_platform;
}

#endif
