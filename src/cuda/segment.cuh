/* segment.cuh - which segment a row is in.
 * Relies on program.cuh; offsets come checked. Must never look beyond them. */
#ifndef BS_CUDA_SEGMENT
#define BS_CUDA_SEGMENT

#include "cuda/program.cuh"

__device__ __forceinline__ const int32_t *bs_cu_segment_offsets(const bs_cu_tile &t, int32_t domain)
{
    return reinterpret_cast<const int32_t *>(static_cast<uintptr_t>(t.program->domains[domain].offsets));
}

/* As bs_segment_of. */
__device__ inline int32_t bs_cu_segment_of(const int32_t *offsets, int32_t segments, int32_t row)
{
    int32_t low = 0, high = segments - 1;
    while (low < high) {
        const int32_t middle = high - (high - low) / 2;
        if (offsets[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

#endif
