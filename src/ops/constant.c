/* ops/constant.c - a tensor that comes with the weights, the same in every run and cell.
 * Relies on span.h. Must never be written to. */
#include "ops/common.h"
#include "ops/span.h"

typedef struct bs_constant_desc {
    const char *name;
    int32_t dtype, rank, dim[BS_MAX_RANK];
} bs_constant_desc;

static const bs_field constant_fields[] = {
    BS_NAMED("dtype", DTYPE), BS_INT_OF("rank", 0, BS_MAX_RANK),
    BS_INT("dim0"), BS_INT("dim1"), BS_INT("dim2"), BS_INT("dim3")};

static bool constant_infer(bs_infer *infer)
{
    const bs_constant_desc *desc = infer->params;
    if (desc->dtype != BS_F32 && desc->dtype != BS_I32)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "dtype is %s, expected f32 or i32",
                             bs_dtype_name((bs_dtype)desc->dtype));
    infer->out[0].dtype = (bs_dtype)desc->dtype;
    bs_value_set_rank(&infer->out[0], desc->rank);
    for (int32_t d = 0; d < desc->rank; d++) {
        if (desc->dim[d] < 1 || desc->dim[d] > 1 << 30)
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %" PRId32 " is not a constant of 1 .. 2^30", d);
        infer->out[0].dims[d] = bs_dim_const(infer->graph, desc->dim[d]);
    }
    return true;
}

/* The tensor has the node's name, without a suffix. */
static int32_t constant_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_constant_desc *desc = node->params;
    (void)graph;
    specs[0] = bs_weight_of("", desc->rank, desc->dim[0], desc->dim[1], desc->dim[2], desc->dim[3]);
    specs[0].dtype = (bs_dtype)desc->dtype;
    return 1;
}

static bs_status constant_run(const bs_call *call)
{
    bs_operand from = call->out[0];
    from.data = (char *)(uintptr_t)call->prepared;
    from.row_stride = 0;
    ptrdiff_t step = 1;
    for (int32_t d = from.rank - 1; d >= 0; d--) {
        from.stride[d] = step;
        step *= from.dim[d];
    }
    bs_span span;
    bs_span_box(&span, &call->out[0], call->rows);
    bs_span_copy(&span, call, &call->out[0], &from, NULL);
    return BS_OK;
}

static const bs_op_rules constant_rules = {.weights = {.specs = constant_weights}};

const bs_op bs_op_constant = {.name = "constant",
                              .min_in = 0,
                              .layout = {.images = true},
                              .work = BS_WORK_GIVEN,
                              BS_PARAMS(bs_constant_desc, constant_fields),
                              .infer = constant_infer,
                              .rules = &constant_rules,
                              .run = constant_run};

bs_value bs_constant(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    bs_constant_desc desc = {name, (int32_t)dtype, shape.rank, {0}};
    for (int32_t d = 0; d < shape.rank && d < BS_MAX_RANK; d++)
        desc.dim[d] = shape.dim[d] > 0 && shape.dim[d] <= INT32_MAX ? (int32_t)shape.dim[d] : 0;
    return bs_op_build(graph, &bs_op_constant, NULL, 0, &desc);
}
