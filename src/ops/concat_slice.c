/* ops/concat_slice.c - joins values along a dimension, takes a part of one, turns one round. Elements of any type.
 * Relies on span.h. Must never do arithmetic. */
#include "ops/common.h"
#include "ops/span.h"

typedef struct bs_concat_desc {
    const char *name;
    int32_t axis;
} bs_concat_desc;

static const bs_field concat_fields[] = {BS_INT("axis")};
static const bs_field slice_fields[] = {BS_INT("axis"), BS_INT("start"), BS_INT("length")};
static const bs_field roll_fields[] = {BS_INT("axis"), BS_INT("shift")};

/* Rows and columns of a patch cannot be moved: the pixels that would move in belong to its neighbours. */
static bool axis_may_change(bs_infer *infer, int32_t axis)
{
    if (axis == 0 || !bs_value_in_patches(infer->graph, infer->in[0]))
        return true;
    return bs_infer_fail(infer, BS_ERROR_DOMAIN, "axis %" PRId32 " of an image that is cut into patches, expected 0",
                         axis);
}

/* ----------------------------------------------------------------------------------------------------- concat */

static bool concat_operand_fits(bs_infer *infer, int32_t index, int32_t axis)
{
    const bs_value_info *first = infer->in[0], *other = infer->in[index];
    return bs_infer_like(infer, index, axis) && bs_infer_same_scale(infer, first, other);
}

/* The joined extent: constants add up; at most one symbol may take part (any number of times, and with a + b of it). */
static bool concat_extent(bs_infer *infer, int32_t axis)
{
    int64_t constant = 0, times = 0;
    bs_dim_id symbol = -1;
    for (int32_t i = 0; i < infer->n_in; i++) {
        bs_dim_id d = infer->in[i]->dims[axis];
        const bs_dim_info *dim = &infer->graph->dims[d];
        const bool linear = dim->kind == BS_DIM_DERIVED && dim->div == 1;
        if (dim->kind == BS_DIM_CONST) {
            constant += dim->maximum;
            continue;
        }
        d = linear ? dim->parent : d;
        if (symbol >= 0 && symbol != d)
            return bs_infer_fail(infer, BS_ERROR_UNSUPPORTED,
                                 "dimension %" PRId32 " would be a sum of different symbols", axis);
        symbol = d;
        times += linear ? dim->mul : 1;
        constant += linear ? dim->add : 0;
    }
    infer->out[0].dims[axis] =
        symbol < 0 ? bs_dim_const(infer->graph, constant) : bs_dim_derive(infer->graph, symbol, times, constant, 1);
    return infer->out[0].dims[axis] >= 0;
}

static bool concat_infer(bs_infer *infer)
{
    int32_t axis;
    if (!bs_infer_axis(infer, ((const bs_concat_desc *)infer->params)->axis, &axis) || !axis_may_change(infer, axis))
        return false;
    for (int32_t i = 1; i < infer->n_in; i++)
        if (!concat_operand_fits(infer, i, axis))
            return false;
    return concat_extent(infer, axis);
}

/* Copies an operand to where `at` is along the axis, as far as the result reaches. */
static void concat_one(const bs_call *call, int32_t index, int32_t axis, int32_t at)
{
    const bs_operand *in = &call->in[index], *out = &call->out[0];
    int32_t shift[BS_MAX_RANK] = {0};
    bs_span span;
    bs_span_box(&span, out, call->rows);
    const int64_t low = bs_max_i64(span.low[axis + 1], at);
    const int64_t high = bs_min_i64(span.low[axis + 1] + span.count[axis + 1], (int64_t)at + in->dim[axis]);
    span.low[axis + 1] = low;
    span.count[axis + 1] = high - low;
    shift[axis] = at;
    bs_span_copy(&span, call, out, in, shift);
}

static bs_status concat_run(const bs_call *call)
{
    const int32_t axis = bs_axis_of(((const bs_concat_desc *)call->params)->axis, call->out[0].rank);
    int32_t at = 0;
    for (int32_t i = 0; i < call->n_in; i++) {
        concat_one(call, i, axis, at);
        at += call->in[i].dim[axis];
    }
    return BS_OK;
}

const bs_op bs_op_concat = {.name = "concat",
                            .min_in = 1,
                            .max_in = BS_MAX_OPERANDS,
                            .layout = {.images = true, .empty = true},
                            BS_PARAMS(bs_concat_desc, concat_fields),
                            .infer = concat_infer,
                            .run = concat_run};

bs_value bs_concat(bs_graph *graph, const bs_value *values, int32_t count, int32_t axis)
{
    const bs_concat_desc desc = {NULL, axis};
    int32_t in[BS_MAX_OPERANDS] = {0};
    for (int32_t i = 0; values && count <= BS_MAX_OPERANDS && i < count; i++)
        in[i] = values[i].id;
    return bs_op_build(graph, &bs_op_concat, in, count, &desc);
}

/* ------------------------------------------------------------------------------------------------------ slice */

/* length 0: everything from start. */
static bool slice_infer(bs_infer *infer)
{
    const bs_slice_desc *desc = infer->params;
    int32_t axis;
    if (!bs_infer_axis(infer, desc->axis, &axis) || !axis_may_change(infer, axis))
        return false;
    const bs_dim_id d = infer->in[0]->dims[axis];
    if (desc->start < 0 || desc->length < 0 ||
        (int64_t)desc->start + bs_max_i32(desc->length, 1) > bs_dim_max(infer->graph, d))
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "start %" PRId32 " and length %" PRId32 " are not within dimension %" PRId32
                             ", which is %s",
                             desc->start, desc->length, axis, bs_say_dim(infer, d));
    if (desc->length == 0)
        return bs_infer_extent(infer, axis, 1, -(int64_t)desc->start, 1);
    infer->out[0].dims[axis] = bs_dim_const(infer->graph, desc->length);
    return bs_infer_least(infer, d, (int64_t)desc->start + desc->length);
}

static bs_status slice_run(const bs_call *call)
{
    const bs_slice_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t axis = bs_axis_of(desc->axis, out->rank);
    int32_t shift[BS_MAX_AXES] = {0};
    shift[axis] = -desc->start;
    if (out->dim[axis] > in->dim[axis] - desc->start)
        return BS_ERROR_SHAPE; /* a run set a symbol below what the slice needs */
    bs_span span;
    bs_span_box(&span, out, call->rows);
    bs_span_copy(&span, call, out, in, shift);
    return BS_OK;
}

const bs_op bs_op_slice = {.name = "slice",
                           .min_in = 1,
                           .layout = {.images = true, .axes = true},
                           BS_PARAMS(bs_slice_desc, slice_fields),
                           .infer = slice_infer,
                           .run = slice_run};

bs_value bs_slice(bs_graph *graph, bs_value x, const bs_slice_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_slice);
}

/* ------------------------------------------------------------------------------------------------------- roll */

static bool roll_infer(bs_infer *infer)
{
    int32_t axis;
    return bs_infer_axis(infer, ((const bs_roll_desc *)infer->params)->axis, &axis) && axis_may_change(infer, axis);
}

/* What is pushed out at one end is the operand again, beyond the other. */
static bs_status roll_run(const bs_call *call)
{
    const bs_roll_desc *desc = call->params;
    const int32_t axis = bs_axis_of(desc->axis, call->out[0].rank), n = bs_max_i32(call->out[0].dim[axis], 1);
    const int32_t at = (int32_t)(desc->shift - bs_floor_div(desc->shift, n) * n);
    concat_one(call, 0, axis, at);
    concat_one(call, 0, axis, at - n);
    return BS_OK;
}

const bs_op bs_op_roll = {.name = "roll",
                          .min_in = 1,
                          .layout = {.images = true},
                          BS_PARAMS(bs_roll_desc, roll_fields),
                          .infer = roll_infer,
                          .run = roll_run};

bs_value bs_roll(bs_graph *graph, bs_value x, const bs_roll_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_roll);
}
