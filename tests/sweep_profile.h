/* sweep_profile.h: the profile of a life of the sweep model, in memory: written, read again, replayed.
 *
 * Owns: its ring, the bytes that came out of it, a clock that goes on by itself.
 * Relies on: sweep_rig.h. Must never: write to a file.
 */
#ifndef SWEEP_PROFILE_H
#define SWEEP_PROFILE_H

#include "sweep_rig.h"

#include <stdatomic.h>

enum { SWEEP_RING = 4160 + 128 * 48, SWEEP_WRITTEN = 65536, SWEEP_TABLES = 65536 };

typedef struct sweep_written {
    size_t n;
    int32_t calls, fail_at; /* 0: none */
    bool from_then_on;
    uint8_t bytes[SWEEP_WRITTEN];
} sweep_written;

/* The writer keeps what it gets whole, or nothing of it. */
static inline int sweep_profile_write(void *user, const void *data, size_t bytes)
{
    sweep_written *w = user;
    w->calls++;
    if (w->fail_at && (w->calls == w->fail_at || (w->from_then_on && w->calls > w->fail_at)))
        return 1;
    if (bytes > sizeof w->bytes - w->n)
        return 1;
    memcpy(w->bytes + w->n, data, bytes);
    w->n += bytes;
    return 0;
}

static inline int64_t sweep_profile_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const sweep_written *w = user;
    const size_t left = offset < w->n ? w->n - (size_t)offset : 0, n = bytes < left ? bytes : left;
    if (n > 0)
        memcpy(buffer, w->bytes + offset, n);
    return (int64_t)n;
}

static inline uint64_t sweep_clock(void *user)
{
    static atomic_ullong now;
    (void)user;
    return (uint64_t)atomic_fetch_add(&now, 1000) + 1000;
}

static inline bs_profile_desc sweep_profile_desc(const bs_platform *platform, sweep_written *w, uint8_t *ring,
                                                 size_t bytes)
{
    return (bs_profile_desc){
        .platform = platform, .write = sweep_profile_write, .user = w, .memory = ring, .bytes = bytes};
}

#endif
