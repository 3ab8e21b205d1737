/* cuda_counted.h - what a run cost by the emulator's counts. A GPU counts nothing: there COUNTED is 0, all counts are
 * zero and nothing is checked about them.
 *
 * Relies on: cuda_cpu/control.h where the device is emulated. */
#ifndef BS_TEST_CUDA_COUNTED_H
#define BS_TEST_CUDA_COUNTED_H

#ifdef BS_CUDA_CPU

#include "cuda_cpu/control.h"

enum { COUNTED = 1 };
typedef struct cuda_cpu_counts cuda_counts;

static inline void cuda_counts_reset(void)
{
    cuda_cpu_counts_reset();
}

static inline void cuda_counts_get(cuda_counts *c)
{
    cuda_cpu_counts_get(c);
}

/* Blocks, threads and independent nodes: 0 forward, 1 reverse, 2 random. */
static inline void cuda_order(int order, unsigned seed)
{
    cuda_cpu_order(order, seed);
}

#else

#include <stdint.h>
#include <string.h>

enum { COUNTED = 0 };
typedef struct cuda_counts {
    int64_t launches, graph_launches, instantiations, kernels, synchronisations, copied_bytes;
} cuda_counts;

static inline void cuda_counts_reset(void)
{
}

static inline void cuda_counts_get(cuda_counts *c)
{
    memset(c, 0, sizeof *c);
}

static inline void cuda_order(int order, unsigned seed)
{
    (void)order, (void)seed;
}

#endif
#endif
