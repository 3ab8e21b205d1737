/* sort.cuh - sorting keys of which no two are equal, ascending, by all threads of a block.
 *
 * A bitonic network whose every comparison puts the smaller key first, so that what lies beyond the last key can be
 * left out: log2(n)^2 / 2 passes over all keys. Called after a barrier; ends with one.
 * Relies on portable.cuh. Must never be given two equal keys where their order matters: they have none. */
#ifndef BS_CUDA_SORT
#define BS_CUDA_SORT

#include "cuda/portable.cuh"

enum { BS_CU_SORT_STAGE = 2048 }; /* keys that are sorted in shared memory at a time: a power of two */

/* One pass: compares keys that are `half` apart in blocks of twice as many; mirrored, those that lie alike from both
 * ends of such a block. */
__device__ inline void bs_cu_sort_pass(uint64_t *keys, uint32_t n, uint32_t half, bool mirrored)
{
    for (uint32_t i = threadIdx.x;; i += blockDim.x) {
        const uint32_t low = i / half * 2 * half + i % half, high = mirrored ? low ^ (2 * half - 1) : low + half;
        if (low >= n)
            break;
        if (high < n && keys[low] > keys[high]) {
            const uint64_t key = keys[low];
            keys[low] = keys[high];
            keys[high] = key;
        }
    }
    __syncthreads();
}

/* The passes from `half` down to 1. */
__device__ inline void bs_cu_sort_passes(uint64_t *keys, uint32_t n, uint32_t half)
{
    for (; half > 0; half /= 2)
        bs_cu_sort_pass(keys, n, half, false);
}

/* All passes where the keys are: for keys in shared memory, or few. */
__device__ inline void bs_cu_sort_here(uint64_t *keys, uint32_t n)
{
    for (uint32_t half = 1; half < n; half *= 2) {
        bs_cu_sort_pass(keys, n, half, true);
        bs_cu_sort_passes(keys, n, half / 2);
    }
}

/* Sorts each BS_CU_SORT_STAGE keys by themselves, in shared memory; merges: they were merged so far that passes from
 * half of as many down are left. */
__device__ inline void bs_cu_sort_stages(uint64_t *keys, uint32_t n, uint64_t *stage, bool merges)
{
    for (uint32_t first = 0; first < n; first += BS_CU_SORT_STAGE) {
        const uint32_t count = min(n - first, (uint32_t)BS_CU_SORT_STAGE);
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
            stage[i] = keys[first + i];
        __syncthreads();
        if (merges)
            bs_cu_sort_passes(stage, count, BS_CU_SORT_STAGE / 2);
        else
            bs_cu_sort_here(stage, count);
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
            keys[first + i] = stage[i];
        __syncthreads();
    }
}

/* Any number of keys up to 2^31 in the device's memory; stage: [BS_CU_SORT_STAGE] in shared memory. Of 2^k stages all
 * keys are read and written k (k + 1) / 2 times for passes between stages, and k + 1 times for those within them. */
__device__ inline void bs_cu_sort_keys(uint64_t *keys, uint32_t n, uint64_t *stage)
{
    bs_cu_sort_stages(keys, n, stage, false);
    for (uint32_t half = BS_CU_SORT_STAGE; half < n; half *= 2) {
        bs_cu_sort_pass(keys, n, half, true);
        for (uint32_t within = half / 2; within >= BS_CU_SORT_STAGE; within /= 2)
            bs_cu_sort_pass(keys, n, within, false);
        bs_cu_sort_stages(keys, n, stage, true);
    }
}

#endif
