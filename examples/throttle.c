/* throttle.c: see throttle.h. */
#define _POSIX_C_SOURCE 200809L
#include "throttle.h"

#include "words.h"

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <errno.h>
#include <time.h>

/* ---------------------------------------------------------------------------------------------------- time */

/* A sleep ends late by the kernel's timer slack (50 us, unless a thread asks for less) and the wake-up: this much is
 * waited for awake. Not more: lanes that spin would take the processor from the thread that computes. */
#if defined(__linux__)
#define SPIN_NS 8000
#else
#define SPIN_NS 60000
#endif

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_until(uint64_t end_ns)
{
    if (end_ns > now_ns() + SPIN_NS) {
#if defined(__linux__)
        prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
#endif
        const uint64_t asleep_ns = end_ns - SPIN_NS;
        const struct timespec until = {(time_t)(asleep_ns / 1000000000u), (long)(asleep_ns % 1000000000u)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
    }
    while (now_ns() < end_ns) {
    }
}

/* Takes the device for one read: the time at which that is done. */
static uint64_t reserve(throttle *t, size_t bytes)
{
    const uint64_t took = t->latency_ns + (uint64_t)((double)bytes * 1e9 / (double)t->bytes_per_second);
    const uint64_t now = now_ns();
    uint64_t busy = atomic_load(&t->free_ns), end;
    do
        end = (busy > now ? busy : now) + took;
    while (!atomic_compare_exchange_weak(&t->free_ns, &busy, end));
    return end;
}

/* ------------------------------------------------------------------------------------------------ the table */

static uint64_t slow_clock_ns(void *user)
{
    const bs_platform *base = ((throttle *)user)->base;
    return base->clock_ns(base->user);
}

static void slow_log(void *user, const char *line)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->log(base->user, line);
}

static int slow_thread_start(void *user, void *handle, void (*entry)(void *), void *argument)
{
    const bs_platform *base = ((throttle *)user)->base;
    return base->thread_start(base->user, handle, entry, argument);
}

static void slow_thread_join(void *user, void *handle)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->thread_join(base->user, handle);
}

static int slow_gate_init(void *user, void *storage)
{
    const bs_platform *base = ((throttle *)user)->base;
    return base->gate_init(base->user, storage);
}

static void slow_gate_destroy(void *user, void *storage)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->gate_destroy(base->user, storage);
}

static void slow_gate_lock(void *user, void *storage)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->gate_lock(base->user, storage);
}

static void slow_gate_unlock(void *user, void *storage)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->gate_unlock(base->user, storage);
}

static void slow_gate_wait(void *user, void *storage)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->gate_wait(base->user, storage);
}

static void slow_gate_wake(void *user, void *storage)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->gate_wake(base->user, storage);
}

static int64_t slow_file_open(void *user, const char *path, uint64_t *size_bytes)
{
    const bs_platform *base = ((throttle *)user)->base;
    return base->file_open(base->user, path, size_bytes);
}

static int64_t slow_file_read(void *user, int64_t file, uint64_t offset, void *buffer, size_t bytes)
{
    throttle *t = user;
    const uint64_t end_ns = reserve(t, bytes);
    const int64_t got = t->base->file_read(t->base->user, file, offset, buffer, bytes);
    wait_until(end_ns);
    return got;
}

static void slow_file_close(void *user, int64_t file)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->file_close(base->user, file);
}

static int64_t slow_file_open_direct(void *user, const char *path, void *probe, uint64_t *size_bytes,
                                     uint32_t *alignment)
{
    const bs_platform *base = ((throttle *)user)->base;
    return base->file_open_direct(base->user, path, probe, size_bytes, alignment);
}

static void slow_file_forget(void *user, int64_t file, uint64_t offset, uint64_t bytes)
{
    const bs_platform *base = ((throttle *)user)->base;
    base->file_forget(base->user, file, offset, bytes);
}

void throttle_init(throttle *t, const bs_platform *base, uint64_t bytes_per_second, uint64_t latency_ns)
{
    t->base = base ? base : bs_platform_default();
    t->bytes_per_second = bytes_per_second ? bytes_per_second : 1;
    t->latency_ns = latency_ns;
    atomic_init(&t->free_ns, 0);
    /* What the base leaves out is left out here too. */
    t->platform = (bs_platform){
        .user = t,
        .clock_ns = slow_clock_ns,
        .log = t->base->log ? slow_log : NULL,
        .thread_start = t->base->thread_start ? slow_thread_start : NULL,
        .thread_join = t->base->thread_join ? slow_thread_join : NULL,
        .gate_init = t->base->gate_init ? slow_gate_init : NULL,
        .gate_destroy = t->base->gate_destroy ? slow_gate_destroy : NULL,
        .gate_lock = t->base->gate_lock ? slow_gate_lock : NULL,
        .gate_unlock = t->base->gate_unlock ? slow_gate_unlock : NULL,
        .gate_wait = t->base->gate_wait ? slow_gate_wait : NULL,
        .gate_wake = t->base->gate_wake ? slow_gate_wake : NULL,
        .file_open = t->base->file_open ? slow_file_open : NULL,
        .file_read = t->base->file_read ? slow_file_read : NULL,
        .file_close = t->base->file_close ? slow_file_close : NULL,
        .file_open_direct = t->base->file_open_direct ? slow_file_open_direct : NULL,
        .file_forget = t->base->file_forget ? slow_file_forget : NULL,
    };
}

const bs_platform *throttle_platform(throttle *t)
{
    return &t->platform;
}

/* -------------------------------------------------------------------------------------------------- speeds */

bool throttle_parse(const char *text, uint64_t *bytes_per_second)
{
    static const char *const devices[] = {"sd", "emmc", "nvme", NULL};
    static const uint64_t speeds[] = {50000000, 250000000, 1300000000};
    const int32_t device = word_name(text, devices);
    double speed = 0;
    if (device < 0 && (!word_bytes(text, 1000, &speed) || speed < 1000 || speed > 1e12))
        return false;
    *bytes_per_second = device < 0 ? (uint64_t)speed : speeds[device];
    return true;
}
