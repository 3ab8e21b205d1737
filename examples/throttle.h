/* throttle.h: a platform on which files are as slow as on a named device, to try streaming of weights without it.
 *
 * Owns: the time at which the simulated device is free. One device: it serves the reads of all threads and all files
 *   one after the other, and each takes at least latency + bytes / bandwidth. The real data are read meanwhile.
 * Relies on: words.h; another bs_platform underneath for everything, CLOCK_MONOTONIC for waiting (good to a few
 * microseconds). Must never: make a read faster, or change what it gives.
 *
 *     throttle t;
 *     throttle_init(&t, bs_platform_default(), 250000000, THROTTLE_LATENCY_NS);
 *     model = bs_model_open_file(&persistent, throttle_platform(&t), "net.gguf", &error);
 */
#ifndef THROTTLE_H
#define THROTTLE_H

#include "brainstorm.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of one read, where nothing better is known: between a card's (some 500 us) and a solid state disk's (some 80). */
#define THROTTLE_LATENCY_NS 100000

#define THROTTLE_SPEEDS "sd (50 MB/s) | emmc (250 MB/s) | nvme (1.3 GB/s) | BYTES[K|M|G] a second (K = 1000)"

typedef struct throttle {
    const bs_platform *base;
    bs_platform platform;
    uint64_t bytes_per_second, latency_ns;
    _Atomic uint64_t free_ns; /* when the device has served all reads so far */
} throttle;

/* t must stay where it is while its platform is used; there is nothing to close. base: NULL is the default. */
void throttle_init(throttle *t, const bs_platform *base, uint64_t bytes_per_second, uint64_t latency_ns);
const bs_platform *throttle_platform(throttle *t);
/* One of THROTTLE_SPEEDS. False: it is none of them. */
bool throttle_parse(const char *text, uint64_t *bytes_per_second);

#endif
