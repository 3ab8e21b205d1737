/* tail.cuh - what follows a kernel: element-wise ops over the elements that a block has just stored, or, as a kernel of
 * its own, over those of operand 0.
 *
 * Each op does what its own kernel does, and what it gives to the next one is rounded as if it had been stored: the
 * bytes are those of one kernel after the other. Relies on beside.cuh, ops/act.h and ops/maths.h. Must never be called
 * before all of those elements are there. */
#ifndef BS_CUDA_TAIL
#define BS_CUDA_TAIL

#include "cuda/beside.cuh"
#include "cuda/kernels.cuh"
#include "ops/maths.h"

enum { BS_CU_OTHERS = 1 + BS_MAX_TAIL_OTHERS }; /* operands behind operand 0 */

/* -------------------------------------------------------------------------------------------- the host's side */

/* Describes one op: the node `op`, whose operand `at` is the result so far; other: of the step, -1 none. */
static void bs_cu_tail_op(const bs_graph *g, const bs_node *op, int32_t kernel, int32_t at, int32_t other,
                          bs_device_tail *to)
{
    const bs_value_info *result = bs_value_get(g, op->first_out);
    memset(to, 0, sizeof *to);
    to->kernel = kernel;
    to->at = at;
    to->other = other;
    to->how = other >= 0 ? bs_cu_how_beside(result, bs_value_get(g, bs_node_in(g, op)[1 - at])) : 0;
    for (int32_t i = 0; i < bs_op_get(op->op)->n_fields && i < 2; i++)
        memcpy(&to->p[i], static_cast<const char *>(op->params) + sizeof(char *) + 4 * i, 4);
}

/* ---------------------------------------------------------------------------------------------------- elements */

__device__ inline float bs_cu_tail_apply(const bs_device_tail &k, float x, float other)
{
    const float a = k.at ? other : x, b = k.at ? x : other;
    switch (k.kernel) {
    case BS_CU_add: return a + b;
    case BS_CU_sub: return a - b;
    case BS_CU_mul: return a * b;
    case BS_CU_binary: return bs_binary_apply((bs_binary_kind)k.p[0].i, a, b);
    case BS_CU_unary: return bs_unary_apply((bs_unary_kind)k.p[0].i, x);
    case BS_CU_activation: return bs_act_apply((bs_act)k.p[0].i, k.p[1].f, 0.0f, x);
    case BS_CU_affine: return bs_cu_mul_add(x, k.p[0].f, k.p[1].f);
    default: { /* clip */
        const float above = x < k.p[0].f ? k.p[0].f : x;
        return above > k.p[1].f ? k.p[1].f : above;
    }
    }
}

/* All ops, one after the other. */
__device__ inline float bs_cu_tail_all(const bs_device_step *s, float x, const float (&others)[BS_CU_OTHERS])
{
#pragma unroll 1
    for (int32_t k = 0; k < s->n_tail; k++) {
        const bs_device_tail &op = s->tail[k];
        const float other = op.other == 1 ? others[0] : op.other == 2 ? others[1] : others[2];
        x = bs_cu_tail_apply(op, k > 0 && s->rounded ? bs_cu_half_from(bs_cu_half_to(x)) : x, other);
    }
    return x;
}

/* Operand 0 is the result, 1 what the ops begin with; stored: it is the result of a kernel, which stands between. */
struct bs_cu_tail_walk {
    uint8_t *data[2 + BS_CU_OTHERS];
    int32_t type[2 + BS_CU_OTHERS], n;
    const bs_device_step *s;
    bool round_first;
    __device__ __forceinline__ void one(const int64_t (&at)[2 + BS_CU_OTHERS]) const
    {
        float others[BS_CU_OTHERS];
        const float x = bs_cu_get(data[1], type[1], at[1]);
#pragma unroll
        for (int32_t i = 0; i < BS_CU_OTHERS; i++)
            others[i] = i < n ? bs_cu_get(data[2 + i], type[2 + i], at[2 + i]) : 0.0f;
        bs_cu_put(data[0], type[0], at[0],
                  bs_cu_tail_all(s, round_first ? bs_cu_half_from(bs_cu_half_to(x)) : x, others));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2 + BS_CU_OTHERS]) const
    {
        float x[4];
        bs_cu_get_four(data[1], type[1], at[1], x);
#pragma unroll 1
        for (int32_t k = 0; k < 4; k++) {
            float others[BS_CU_OTHERS];
#pragma unroll
            for (int32_t i = 0; i < BS_CU_OTHERS; i++)
                others[i] = i < n ? bs_cu_get(data[2 + i], type[2 + i], at[2 + i] + (same[i] ? 0 : k)) : 0.0f;
            const float y = bs_cu_tail_all(s, round_first ? bs_cu_half_from(bs_cu_half_to(x[0])) : x[0], others);
            x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = y; /* so that none is indexed */
        }
        bs_cu_put_four(data[0], type[0], at[0], x);
    }
    bool same[BS_CU_OTHERS]; /* along a line */
};

/* Whether lines are whole fours, in the result and in what the ops begin with; the others are read one by one. */
__device__ __forceinline__ bool bs_cu_tail_fours(const bs_cu_walk<2 + BS_CU_OTHERS> &k)
{
    bool fours = bs_cu_walk_fours(k, 2);
#pragma unroll
    for (int32_t i = 2; i < 2 + BS_CU_OTHERS; i++)
        fours = fours && (k.step[i][3] == 0 || k.step[i][3] == 1);
    return fours;
}

/* The ops over the rectangle of y, or all of it, and `channels` channels from `first` on; x is y itself, or operand 0.
 */
__device__ __forceinline__ void bs_cu_tail_over(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                                const bs_cu_deal &d, bs_cu_view y, bs_cu_view x, int32_t first,
                                                bool round_first)
{
    bs_cu_view o[BS_CU_OTHERS] = {y, y, y};
    int32_t n = 0;
#pragma unroll 1
    for (int32_t k = 0; k < s->n_tail; k++) {
        if (s->tail[k].other < 0)
            continue;
        const bs_cu_view v = bs_cu_open_how(t, s, s->tail[k].other, row, s->tail[k].how);
        n = s->tail[k].other;
        o[0] = n == 1 ? v : o[0];
        o[1] = n == 2 ? v : o[1];
        o[2] = n == 3 ? v : o[2];
    }
    bs_cu_view all[2 + BS_CU_OTHERS] = {y, x, o[0], o[1], o[2]};
#pragma unroll
    for (int32_t i = 0; i < 2 + BS_CU_OTHERS; i++)
        all[i].data += (int64_t)first * all[i].stride[0] * bs_cu_bytes(all[i].dtype);
    const bs_cu_walk<2 + BS_CU_OTHERS> k = bs_cu_walk_over<2 + BS_CU_OTHERS>(all);
    bs_cu_tail_walk each;
    each.n = n;
    each.s = s;
    each.round_first = round_first;
#pragma unroll
    for (int32_t i = 0; i < 2 + BS_CU_OTHERS; i++) {
        each.data[i] = k.begin[i];
        each.type[i] = all[i].dtype;
    }
#pragma unroll
    for (int32_t i = 0; i < BS_CU_OTHERS; i++)
        each.same[i] = k.step[2 + i][3] == 0;
    bs_cu_walk_run(k, bs_cu_tail_fours(k), d, each);
}

/* -------------------------------------------------------------------------------------------- behind a kernel */

/* The ops over part of an image that the block has stored: a rectangle, in core coordinates, of `channels` channels
 * from `first` on. Called by all threads of the block, or by one for itself (`worker` of `workers`). A function of its
 * own, so that kernels need no registers for it. */
__device__ __noinline__ void bs_cu_tail_image(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                              const bs_cu_rect &part, int32_t first, int32_t channels, int32_t worker,
                                              int32_t workers)
{
    bs_cu_view y = bs_cu_open_out(t, s, 0, row);
    const bs_cu_deal d = {0, 1, 1, worker, workers};
    y.y0 = part.y0;
    y.y1 = part.y1;
    y.x0 = part.x0;
    y.x1 = part.x1;
    y.dim[0] = channels;
    bs_cu_tail_over(t, s, row, d, y, y, first, s->rounded != 0);
}

/* ------------------------------------------------------------------------------------------------ as a kernel */

/* An element-wise op with a tail, itself the first of the ops. */
__device__ inline void bs_cu_chain_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        bs_cu_tail_over(t, s, r, d, y, bs_cu_open_how(t, s, 0, r, s->p[0].i), 0, false);
    }
}

/* The tail of what was computed by no kernel of ours. */
__device__ inline void bs_cu_tail_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_tail_over(t, s, r, d, y, y, 0, s->rounded != 0);
    }
}

#endif
