/* prefix.cuh - sums over the threads of a block, in their order.
 * Relies on portable.cuh. Must never be called by some threads of a block alone. */
#ifndef BS_CUDA_PREFIX
#define BS_CUDA_PREFIX

#include "cuda/portable.cuh"

/* The sum of what the threads before this one give; *all: of all threads. of_warp: a place for each warp, free again
 * when this returns. */
__device__ inline int64_t bs_cu_sum_before(int64_t own, int64_t *of_warp, int64_t *all)
{
    int64_t upto = own, before = 0, sum = 0; /* upto: from the first lane of the warp */
    for (int32_t lanes = 1; lanes < 32; lanes *= 2) {
        const int64_t lower = __shfl_up_sync(0xffffffffu, upto, lanes);
        upto += bs_cu_lane() >= lanes ? lower : 0;
    }
    if (bs_cu_lane() == 31)
        of_warp[bs_cu_warp()] = upto;
    __syncthreads();
    for (int32_t k = 0; k < bs_cu_warps(); k++) {
        before += k < bs_cu_warp() ? of_warp[k] : 0;
        sum += of_warp[k];
    }
    __syncthreads();
    *all = sum;
    return before + upto - own;
}

#endif
