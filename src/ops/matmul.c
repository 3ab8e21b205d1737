/* ops/matmul.c - product of two computed matrices (for example attention scores), of any strides.
 * Relies on kernels/product.h. Must never let the order of a sum depend on sizes of M or N, or on strides. */
#include "kernels/product.h"
#include "ops/common.h"

static const bs_field matmul_fields[] = {BS_INT("transpose_b"), BS_FLOAT("scale")};

static bool matmul_same_dim(bs_infer *infer, int32_t a_axis, int32_t b_axis)
{
    const bs_dim_id a = infer->in[0]->dims[a_axis], b = infer->in[1]->dims[b_axis];
    if (a == b)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE,
                         "dimension %" PRId32 " of operand 0 is %s, dimension %" PRId32 " of operand 1 is %s", a_axis,
                         bs_say_dim(infer, a), b_axis, bs_say_dim(infer, b));
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

static void matmul_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                        bs_node_plan *plan)
{
    (void)graph, (void)node, (void)choice, (void)max_h, (void)max_w;
    plan->scratch_bytes = bs_bytes_array((int64_t)bs_product_scratch_floats(plan->tier), sizeof(float));
}

/* All but where the matrices lie; b as [K, N], whichever way it is stored. */
static bs_product matmul_product(const bs_call *call)
{
    const bs_matmul_desc *desc = call->params;
    const bs_operand *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int32_t r = a->rank, row = desc->transpose_b ? r - 1 : r - 2, column = desc->transpose_b ? r - 2 : r - 1;
    const bs_product product = {.m = a->dim[r - 2],
                                .n = b->dim[column],
                                .k = a->dim[r - 1],
                                .a_row = a->stride[r - 2],
                                .a_step = a->stride[r - 1],
                                .b_row = b->stride[row],
                                .b_step = b->stride[column],
                                .out_row = out->stride[r - 2],
                                .out_step = out->stride[r - 1],
                                .scale = desc->scale == 0.0f ? 1.0f : desc->scale,
                                .scratch = call->scratch};
    return product;
}

/* Offset of a matrix of an operand: of a row of these, the one that is `index` in the order of its leading
 * dimensions. */
static int64_t matmul_offset(const bs_operand *o, int32_t row, int32_t index)
{
    int64_t offset = row * o->row_stride;
    for (int32_t d = o->rank - 3; d >= 0; d--) {
        offset += index % o->dim[d] * o->stride[d];
        index /= o->dim[d];
    }
    return offset;
}

static bs_status matmul_run(const bs_call *call)
{
    bs_product product = matmul_product(call);
    const bs_operand *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    int32_t matrices = 1;
    for (int32_t d = 0; d < a->rank - 2; d++)
        matrices *= a->dim[d];
    for (int32_t row = 0; row < call->rows; row++)
        for (int32_t i = 0; i < matrices; i++) {
            product.a = bs_f32_at(a, matmul_offset(a, row, i));
            product.b = bs_f32_at(b, matmul_offset(b, row, i));
            product.out = bs_f32_at(out, matmul_offset(out, row, i));
            bs_product_run(call->plan->tier, &product);
        }
    return BS_OK;
}

static const bs_op_rules matmul_rules = {.plan = matmul_plan};

const bs_op bs_op_matmul = {.name = "matmul",
                            .min_in = 2,
                            .rows = {.captures = true},
                            .layout = {.empty = true},
                            BS_PARAMS(bs_matmul_desc, matmul_fields),
                            .infer = matmul_infer,
                            .flops = matmul_flops,
                            .rules = &matmul_rules,
                            .run = matmul_run};

bs_value bs_matmul(bs_graph *graph, bs_value a, bs_value b, const bs_matmul_desc *desc)
{
    return bs_op_build_two(graph, a, b, desc, &bs_op_matmul);
}
