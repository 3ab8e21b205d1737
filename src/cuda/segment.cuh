/* segment.cuh - where the segments of a run begin.
 * Relies on program.cuh; offsets are checked before the run. Must never read beyond them. */
#ifndef BS_CUDA_SEGMENT
#define BS_CUDA_SEGMENT

#include "cuda/program.cuh"

__device__ __forceinline__ const int32_t *bs_cu_segment_offsets(const bs_cu_tile &t, int32_t domain)
{
    return bs_cu_at<const int32_t>(t.program->domains[domain].offsets);
}

#endif
