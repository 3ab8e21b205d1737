/* prefix.cuh - sums over the threads of a block, in their order.
 * Relies on portable.cuh. Must never be called by some threads of a block alone. */
#ifndef BS_CUDA_PREFIX
#define BS_CUDA_PREFIX

#include "cuda/portable.cuh"

/* The sum of what the threads before this one give; *all: of all threads. of_thread: a place for each, free again when
 * this returns. */
__device__ inline int64_t bs_cu_sum_before(int64_t own, int64_t *of_thread, int64_t *all)
{
    int64_t before = 0, sum = 0;
    of_thread[threadIdx.x] = own;
    __syncthreads();
    for (int32_t k = 0; k < (int32_t)blockDim.x; k++) {
        before += k < (int32_t)threadIdx.x ? of_thread[k] : 0;
        sum += of_thread[k];
    }
    __syncthreads();
    *all = sum;
    return before;
}

#endif
