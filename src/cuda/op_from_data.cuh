/* op_from_data.cuh - ops whose result is as long as their data say: arange, nonzero.
 * One block does all of it, because what it finds has one order and one number. Relies on extents_made.cuh. Must never
 * write an element beyond its maximum: what there is is counted all the same, and the run then fails. */
#ifndef BS_CUDA_OP_FROM_DATA
#define BS_CUDA_OP_FROM_DATA

#include "cuda/describe.cuh"
#include "cuda/extents_made.cuh"
#include "cuda/kernels.cuh"
#include "ops/found.h"

/* One work item. */
static void bs_cu_arange_describe(const bs_cu_node *n, bs_device_step *s) { (void)n, (void)s; }

static constexpr bs_cu_describe bs_cu_nonzero_describe = bs_cu_arange_describe;

/* ------------------------------------------------------------------------------------------------------ arange */

/* Operand i of arange; `otherwise`, if there is none. */
__device__ inline double bs_cu_arange_operand(const bs_cu_tile &t, const bs_device_step *s, int32_t i, double otherwise)
{
    if (i >= s->n_in)
        return otherwise;
    const bs_device_operand *in = bs_cu_in(t, s, i);
    const uint8_t *at = bs_cu_row(t, in, 0);
    return in->dtype == BS_I32 ? (double)*reinterpret_cast<const int32_t *>(at) : (double)bs_cu_get(at, in->dtype, 0);
}

__device__ inline void bs_cu_arange_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const double limit = bs_cu_arange_operand(t, s, 0, 0), start = bs_cu_arange_operand(t, s, 1, 0),
                 step = bs_cu_arange_operand(t, s, 2, 1), count = bs_range_elements(start, limit, step);
    uint8_t *to = bs_cu_row(t, out, 0);
    (void)w;
    if (count >= 1e18) {
        bs_cu_fail(t, s, BS_ERROR_DATA);
        return;
    }
    const int64_t extent = (int64_t)count, end = extent < out->dim[0] ? extent : out->dim[0];
    for (int64_t i = bs_cu_thread(); i < end; i += bs_cu_threads()) {
        const double element = fma((double)i, step, start);
        if (out->dtype == BS_I32)
            reinterpret_cast<int32_t *>(to)[i * out->stride[0]] = (int32_t)element;
        else
            bs_cu_put(to, out->dtype, i * out->stride[0], (float)element);
    }
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, extent);
}

/* ----------------------------------------------------------------------------------------------------- nonzero */

/* All bits of an element but the sign of a float: 0 where it is zero. */
__device__ __forceinline__ uint32_t bs_cu_element_bits(const uint8_t *x, int32_t dtype, int64_t at)
{
    const uint32_t bits = bs_cu_load_one(x, bs_cu_bytes(dtype), at);
    return bits & (dtype == BS_F32 ? 0x7fffffffu : dtype == BS_F16 ? 0x7fffu : 0xffffffffu);
}

/* The number of threads before this one for which `is` holds. *all: of all threads. of_warp: a word a warp, which may
 * be written again after the next barrier. All threads. */
__device__ inline int32_t bs_cu_rank(bool is, int32_t *of_warp, int32_t *all)
{
    const uint32_t votes = __ballot_sync(0xffffffffu, is);
    int32_t before = __popc(votes & ((1u << bs_cu_lane()) - 1u));
    if (bs_cu_lane() == 0)
        of_warp[bs_cu_warp()] = __popc(votes);
    __syncthreads();
    *all = 0;
    for (int32_t k = 0; k < bs_cu_warps(); k++) {
        before += k < bs_cu_warp() ? of_warp[k] : 0;
        *all += of_warp[k];
    }
    return before;
}

/* The index of element number i of x along each dimension; returns where it lies. */
__device__ inline int64_t bs_cu_index_of(const bs_device_operand *x, int64_t i, int32_t (&index)[BS_MAX_AXES])
{
    int64_t at = 0;
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        index[d] = (int32_t)(i % x->dim[d]);
        i /= x->dim[d];
        at += (int64_t)index[d] * x->stride[d];
    }
    return at;
}

__device__ inline void bs_cu_nonzero_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const uint8_t *from = bs_cu_row(t, x, 0);
    int32_t *to = reinterpret_cast<int32_t *>(bs_cu_row(t, out, 0));
    const int64_t elements = bs_cu_product(x->dim, x->rank);
    int64_t found = 0;
    (void)w;
    for (int64_t first = 0; first < elements; first += bs_cu_threads()) {
        int32_t index[BS_MAX_AXES] = {0}, all;
        const int64_t i = first + bs_cu_thread(), at = bs_cu_index_of(x, i < elements ? i : 0, index);
        const bool is = i < elements && bs_cu_element_bits(from, x->dtype, at) != 0;
        const int64_t row = found + bs_cu_rank(is, reinterpret_cast<int32_t *>(t.workspace), &all);
        for (int32_t d = 0; is && row < out->dim[0] && d < x->rank; d++)
            to[row * out->stride[0] + d * out->stride[1]] = index[d];
        found += all;
        __syncthreads(); /* before the next round takes the workspace */
    }
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, found);
}

#endif
