/* ops/matmul.c - product of two computed matrices (for example attention scores).
 * Relies on graph/op.h. Must never let the order of a sum depend on sizes of M or N: it is k = 0, 1, ... for every
 * element, on every tier, so all tiers agree to the bit where the compiler does not fuse multiply and add. */
#include "ops/common.h"

static const bs_field matmul_fields[] = {BS_INT("transpose_b"), BS_FLOAT("scale")};

static bool matmul_same_dim(bs_infer *infer, int32_t a_axis, int32_t b_axis)
{
    const bs_dim_id a = infer->in[0]->dims[a_axis], b = infer->in[1]->dims[b_axis];
    if (a == b)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d of operand 0 is %s, dimension %d of operand 1 is %s",
                         a_axis, bs_say_dim(infer, a), b_axis, bs_say_dim(infer, b));
}

static bool matmul_infer(bs_infer *infer)
{
    const bs_matmul_desc *desc = infer->params;
    const int32_t rank = infer->in[0]->rank;
    if (!bs_infer_dtype(infer, 0, BS_F32) || !bs_infer_dtype(infer, 1, BS_F32) ||
        !bs_infer_rank(infer, 0, 2, BS_MAX_RANK) || !bs_infer_same_rank(infer, 1) || !bs_infer_whole(infer, 0) ||
        !bs_infer_whole(infer, 1))
        return false;
    for (int32_t d = 0; d < rank - 2; d++)
        if (!matmul_same_dim(infer, d, d))
            return false;
    if (!matmul_same_dim(infer, rank - 1, desc->transpose_b ? rank - 1 : rank - 2))
        return false;
    infer->out[0].dims[rank - 1] = infer->in[1]->dims[desc->transpose_b ? rank - 2 : rank - 1];
    return true;
}

static double matmul_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *a = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return 2.0 * (double)bs_dim_max(graph, a->dims[a->rank - 1]) * bs_value_work(graph, node->first_out);
}

#define MATMUL_BLOCK 64 /* columns summed at a time: 256 bytes of accumulators stay in registers or the first cache */

typedef struct matmul_job {
    int32_t m, n, k;
    ptrdiff_t a_row, a_step, b_row, b_step, out_row, out_step; /* b as [K, N], however it is stored */
    float scale;
} matmul_job;

static void matmul_block(const matmul_job *job, const float *a, const float *b, float *out, int32_t columns)
{
    float sum[MATMUL_BLOCK] = {0};
    for (int32_t k = 0; k < job->k; k++) {
        const float x = a[k * job->a_step], *row = b + k * job->b_row;
        if (BS_DENSE_PAYS && job->b_step == 1)
            for (int32_t n = 0; n < columns; n++)
                sum[n] += x * row[n];
        else
            for (int32_t n = 0; n < columns; n++)
                sum[n] += x * row[n * job->b_step];
    }
    for (int32_t n = 0; n < columns; n++)
        out[n * job->out_step] = sum[n] * job->scale;
}

static void matmul_one(const matmul_job *job, const float *a, const float *b, float *out)
{
    for (int32_t n = 0; n < job->n; n += MATMUL_BLOCK)
        for (int32_t m = 0; m < job->m; m++)
            matmul_block(job, a + m * job->a_row, b + n * job->b_step, out + m * job->out_row + n * job->out_step,
                         bs_min_i32(MATMUL_BLOCK, job->n - n));
}
#undef MATMUL_BLOCK

static matmul_job matmul_job_of(const bs_call *call)
{
    const bs_matmul_desc *desc = call->params;
    const bs_operand *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int32_t r = a->rank, row = desc->transpose_b ? r - 1 : r - 2, column = desc->transpose_b ? r - 2 : r - 1;
    const matmul_job job = {a->dim[r - 2],      b->dim[column],
                            a->dim[r - 1],      a->stride[r - 2],
                            a->stride[r - 1],   b->stride[row],
                            b->stride[column],  out->stride[r - 2],
                            out->stride[r - 1], desc->scale == 0.0f ? 1.0f : desc->scale};
    return job;
}

/* Offset of matrix `index` of an operand: row, then its leading dimensions (at most two). */
static int64_t matmul_offset(const bs_operand *o, int32_t row, int32_t i, int32_t j)
{
    int64_t offset = row * o->row_stride;
    if (o->rank == 4)
        offset += i * o->stride[0] + j * o->stride[1];
    if (o->rank == 3)
        offset += j * o->stride[0];
    return offset;
}

static bs_status matmul_run(const bs_call *call)
{
    const matmul_job job = matmul_job_of(call);
    const bs_operand *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int32_t outer = a->rank == 4 ? a->dim[0] : 1, inner = a->rank == 4 ? a->dim[1] : a->rank == 3 ? a->dim[0] : 1;
    for (int32_t row = 0; row < call->rows; row++)
        for (int32_t i = 0; i < outer; i++)
            for (int32_t j = 0; j < inner; j++)
                matmul_one(&job, bs_f32_at(a, matmul_offset(a, row, i, j)), bs_f32_at(b, matmul_offset(b, row, i, j)),
                           bs_f32_at(out, matmul_offset(out, row, i, j)));
    return BS_OK;
}

const bs_op bs_op_matmul = {.name = "matmul",
                            .min_in = 2,
                            .flags = BS_OP_CAPTURE,
                            BS_PARAMS(bs_matmul_desc, matmul_fields),
                            .infer = matmul_infer,
                            .flops = matmul_flops,
                            .run = matmul_run};

bs_value bs_matmul(bs_graph *graph, bs_value a, bs_value b, const bs_matmul_desc *desc)
{
    const int32_t in[2] = {a.id, b.id};
    return bs_op_build(graph, &bs_op_matmul, in, 2, desc);
}
