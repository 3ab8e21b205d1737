/* op_chain.cuh - an element-wise op with a tail: several ops in one kernel, each what its own kernel does, and what one
 * gives to the next rounded as if it had been stored. So the bytes are those of one kernel after the other.
 * Convolutions and linears have no tails here: code behind their sums cost their loops 10 to 40 % (docs/cuda.md).
 * Relies on beside.cuh, ops/list.h and the files of the ops that chains have. Must never let an element depend on where
 * it stands. */
#ifndef BS_CUDA_OP_CHAIN
#define BS_CUDA_OP_CHAIN

#include "cuda/op_binary.cuh"
#include "cuda/op_elementwise.cuh"
#include "cuda/op_unary.cuh"
#include "ops/list.h"

enum { BS_CU_OTHERS = 1 + BS_MAX_TAIL_OTHERS }; /* operands behind operand 0 */

/* How operand 0 lies beside the result, in p. */
enum { BS_CU_CHAIN_HOW };

/* Describes one op: the node `op`, whose operand `at` is the result so far; other: of the step, -1 none. */
static void bs_cu_chain_op(const bs_graph *g, const bs_node *op, int32_t kernel, int32_t at, int32_t other,
                           bs_device_tail *to)
{
    const bs_value_info *result = bs_value_get(g, op->first_out);
    memset(to, 0, sizeof *to);
    to->kernel = kernel;
    to->at = (int16_t)at;
    to->other = (int16_t)other;
    to->how = other >= 0 ? bs_cu_how_beside(result, bs_value_get(g, bs_node_in(g, op)[1 - at])) : 0;
    for (int32_t i = 0; i < bs_op_get(op->op)->n_fields && i < 2; i++)
        memcpy(&to->p[i], static_cast<const char *>(op->params) + sizeof(char *) + 4 * i, 4);
}

/* ---------------------------------------------------------------------------------------------------- elements */

/* x is operand k.at. An op whose line in ops/list.h says CHAIN has a function bs_cu_NAME_chain beside its kernel;
 * without one it gives NaN: a planner chains none. */
__device__ inline float bs_cu_chain_apply(const bs_device_tail &k, float x, float other)
{
    const bs_cu_element e = {k.at ? other : x, k.at ? x : other, k};
    switch (k.kernel) {
#define BS_CU_CHAIN_NONE(name)
#define BS_CU_CHAIN_KERNEL(name)
#define BS_CU_CHAIN_LINES(name)
#define BS_CU_CHAIN_CHAIN(name) case BS_CU_##name: return bs_cu_##name##_chain(e);
#define BS_CU_CHAIN_CASE(name, device) BS_CU_CHAIN_##device(name)
        BS_OP_LIST(BS_CU_CHAIN_CASE)
#undef BS_CU_CHAIN_CASE
#undef BS_CU_CHAIN_CHAIN
#undef BS_CU_CHAIN_LINES
#undef BS_CU_CHAIN_KERNEL
#undef BS_CU_CHAIN_NONE
    default: return NAN;
    }
}

/* Operand 0 is the result, 1 what the first op begins with, the others theirs. */
struct bs_cu_chain {
    uint8_t *data[2 + BS_CU_OTHERS];
    int32_t type[2 + BS_CU_OTHERS], step[2 + BS_CU_OTHERS] /* along a line */, n /* of the others */;
    const bs_device_step *s;
    /* All ops over one element: x so far, `i` its place in a four. */
    __device__ __forceinline__ float all(float x, const int64_t (&at)[2 + BS_CU_OTHERS], int32_t i) const
    {
        float others[BS_CU_OTHERS];
#pragma unroll
        for (int32_t k = 0; k < BS_CU_OTHERS; k++)
            others[k] = k < n ? bs_cu_get(data[2 + k], type[2 + k], at[2 + k] + i * step[2 + k]) : 0.0f;
#pragma unroll 1
        for (int32_t k = 0; k < s->n_tail; k++) {
            const bs_device_tail &op = s->tail[k];
            const float other = op.other == 1 ? others[0] : op.other == 2 ? others[1] : others[2];
            x = bs_cu_chain_apply(op, k > 0 && s->rounded ? bs_cu_half_from(bs_cu_half_to(x)) : x, other);
        }
        return x;
    }
    __device__ __forceinline__ void one(const int64_t (&at)[2 + BS_CU_OTHERS]) const
    {
        bs_cu_put(data[0], type[0], at[0], all(bs_cu_get(data[1], type[1], at[1]), at, 0));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2 + BS_CU_OTHERS]) const
    {
        float x[4];
        bs_cu_get_four(data[1], type[1], at[1], x);
#pragma unroll 1
        for (int32_t i = 0; i < 4; i++) { /* shifted, so that none is indexed */
            const float y = all(x[0], at, i);
            x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = y;
        }
        bs_cu_put_four(data[0], type[0], at[0], x);
    }
};

__device__ __forceinline__ void bs_cu_chain_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                                const bs_cu_deal &d, const bs_cu_view &y)
{
    bs_cu_view o[BS_CU_OTHERS] = {y, y, y};
    bs_cu_chain each;
    each.s = s;
    each.n = 0;
#pragma unroll 1
    for (int32_t k = 0; k < s->n_tail; k++) {
        if (s->tail[k].other < 0)
            continue;
        const bs_cu_view v = bs_cu_open_how(t, s, s->tail[k].other, row, s->tail[k].how);
        each.n = s->tail[k].other;
        o[0] = each.n == 1 ? v : o[0];
        o[1] = each.n == 2 ? v : o[1];
        o[2] = each.n == 3 ? v : o[2];
    }
    const bs_cu_view x = bs_cu_open_how(t, s, 0, row, s->p[BS_CU_CHAIN_HOW].i), all[] = {y, x, o[0], o[1], o[2]};
    const bs_cu_walk<2 + BS_CU_OTHERS> k = bs_cu_walk_over<2 + BS_CU_OTHERS>(all);
#pragma unroll
    for (int32_t i = 0; i < 2 + BS_CU_OTHERS; i++) {
        each.data[i] = k.begin[i];
        each.type[i] = all[i].dtype;
        each.step[i] = k.step[i][3];
    }
    bs_cu_walk_run(k, bs_cu_walk_fours(k, 2), d, each);
}

__device__ inline void bs_cu_chain_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        bs_cu_chain_row(t, s, r, d, y);
    }
}

#endif
