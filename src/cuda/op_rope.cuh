/* op_rope.cuh - rotary position embedding: a pair a thread, of all heads of a row.
 * Relies on walk.cuh, ops/rope.h. Must never trust a position. */
#ifndef BS_CUDA_OP_ROPE
#define BS_CUDA_OP_ROPE

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/rope.h"
}

enum { BS_CU_ROPE_HEADS, BS_CU_ROPE_DIMS, BS_CU_ROPE_BASE, BS_CU_ROPE_INTERLEAVED,
       BS_CU_ROPE_RATIO = 8 /* a double, in two words */ };

static void bs_cu_rope_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_rope_desc *desc = static_cast<const bs_rope_desc *>(n->params);
    const bs_rope_form form = bs_rope_form_of(n->in[0].rank, n->in[0].dim, desc->heads, desc->dims, desc->interleaved);
    const double ratio = bs_rope_ratio(desc, &form);
    memcpy(&s->p[BS_CU_ROPE_RATIO], &ratio, sizeof ratio);
    bs_cu_cut(n, s);
}

/* One pair, or one element that does not turn, of all heads. */
__device__ inline void bs_cu_rope_one(const bs_cu_view &y, const bs_cu_view &x, const bs_rope_form &f, double ratio,
                                      int32_t position, int32_t i)
{
    const int32_t in_step = x.rank == 2 ? x.stride[1] : x.stride[0], out_step = x.rank == 2 ? y.stride[1] : y.stride[0];
    const int64_t in_head = x.rank == 2 ? x.stride[0] : (int64_t)f.features * in_step,
                  out_head = x.rank == 2 ? y.stride[0] : (int64_t)f.features * out_step;
    const bool turns = i < f.pairs;
    const int32_t first = turns ? i * f.next : i + f.pairs, second = first + f.apart;
    float c = 1.0f, n = 0.0f;
    if (turns)
        bs_rope_angle(bs_rope_turn(ratio, i), position, &c, &n);
    for (int32_t h = 0; h < f.heads; h++) {
        const int64_t from = h * in_head, to = h * out_head;
        const float a = bs_cu_get(x.data, x.dtype, from + (int64_t)first * in_step);
        if (!turns) {
            bs_cu_put(y.data, y.dtype, to + (int64_t)first * out_step, a);
            continue;
        }
        const float b = bs_cu_get(x.data, x.dtype, from + (int64_t)second * in_step);
        bs_cu_put(y.data, y.dtype, to + (int64_t)first * out_step, __fsub_rn(__fmul_rn(a, c), __fmul_rn(b, n)));
        bs_cu_put(y.data, y.dtype, to + (int64_t)second * out_step, bs_cu_mul_add(b, c, __fmul_rn(a, n)));
    }
}

__device__ inline void bs_cu_rope_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    double ratio;
    memcpy(&ratio, &s->p[BS_CU_ROPE_RATIO], sizeof ratio);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t r) {
        const bs_rope_form f = bs_rope_form_of(x.rank, x.dim, s->p[BS_CU_ROPE_HEADS].i, s->p[BS_CU_ROPE_DIMS].i,
                                               s->p[BS_CU_ROPE_INTERLEAVED].i);
        const int32_t position = *reinterpret_cast<const int32_t *>(bs_cu_open_in(t, s, 1, r).data);
        if (position < 0 || position > BS_ROPE_MOST) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        for (int32_t i = d.index; i < f.features - f.pairs; i += d.workers)
            bs_cu_rope_one(y, x, f, ratio, position, i);
    });
}

#endif
