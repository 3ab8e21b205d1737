/* beside.cuh - operands of several shapes beside a result, as broadcast.h lays them: the host's word for it, and the
 * view that a kernel opens by that word.
 * The word follows from the graph, not from this run's extents: a clipped cell may be 1 high too. Relies on walk.cuh
 * and ops/broadcast.h. Must never touch data. */
#ifndef BS_CUDA_BESIDE
#define BS_CUDA_BESIDE

#include "cuda/walk.cuh"
#include "ops/broadcast.h"

/* bs_broadcast_mask, and from bit 8 on bs_broadcast_shift. */
static inline int32_t bs_cu_how_beside(const bs_value_info *result, const bs_value_info *operand)
{
    return (int32_t)bs_broadcast_mask(result, operand) | bs_broadcast_shift(result->rank, operand->rank) << 8;
}

/* Operand i of row r, with the strides of the result's dimensions. */
__device__ __forceinline__ bs_cu_view bs_cu_open_how(const bs_cu_tile &t, const bs_device_step *s, int32_t i, int32_t r,
                                                     int32_t how)
{
    bs_cu_view v = bs_cu_open_in(t, s, i, r);
#pragma unroll
    for (int32_t k = 1; k < BS_MAX_RANK; k++) {
        if (k > how >> 8)
            break;
        v.stride[3] = v.stride[2];
        v.stride[2] = v.stride[1];
        v.stride[1] = v.stride[0];
    }
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        v.stride[d] = how >> d & 1 ? 0 : v.stride[d];
    return v;
}

#endif
