/* ops/from_data.c - ops whose result is as long as their data say: arange, nonzero.
 * Relies on common.h for the dimension that a node makes. Must never write an element beyond its maximum: what there is
 * is counted all the same, and the run then ends (run/extents.c). */
#include "ops/common.h"
#include "ops/found.h"

#include <math.h>

static const bs_field arange_fields[] = {BS_INT_OF("maximum", 1, 1 << 30)};
static const bs_field nonzero_fields[] = {BS_INT_OF("maximum", 0, 1 << 30)};

/* ------------------------------------------------------------------------------------------------------ arange */

static bool arange_infer(bs_infer *infer)
{
    const bs_extent_desc *desc = infer->params;
    if (!bs_infer_number(infer, 0))
        return false;
    for (int32_t i = 0; i < infer->n_in; i++)
        if (!bs_infer_dtype(infer, i, infer->in[0]->dtype) || !bs_infer_single(infer, i))
            return false;
    bs_value_set_rank(&infer->out[0], 1);
    infer->out[0].dims[0] = bs_infer_data_dim(infer, desc->maximum);
    return infer->makes != 0;
}

/* Integers as well: a quotient of two of 32 bits is far enough from an integer that it is not one. */
static bs_status arange_run(const bs_call *call)
{
    double from[3] = {0, 0, 1}; /* limit, start, step */
    const bs_operand *out = &call->out[0];
    for (int32_t i = 0; i < call->n_in; i++) {
        const bs_operand *in = &call->in[i];
        from[i] = in->dtype == BS_I32 ? *(const int32_t *)in->data : (double)*(const float *)in->data;
    }
    const double count = bs_range_elements(from[1], from[0], from[2]);
    if (count >= 1e18)
        return bs_call_fail(call, "from %g to %g by %g: %g elements", from[1], from[0], from[2], count);
    *call->extent = (int64_t)count;
    for (int32_t i = 0; i < *call->extent && i < out->dim[0]; i++) {
        const double element = fma(i, from[2], from[1]);
        void *to = bs_operand_at(out, i * out->stride[0]);
        if (out->dtype == BS_I32)
            *(int32_t *)to = (int32_t)element;
        else
            *(float *)to = (float)element;
    }
    return BS_OK;
}

const bs_op bs_op_arange = {.name = "arange",
                            .min_in = 1,
                            .max_in = 3,
                            .roles = {BS_ROLE_DECIDING, BS_ROLE_DECIDING, BS_ROLE_DECIDING},
                            BS_PARAMS(bs_extent_desc, arange_fields),
                            .infer = arange_infer,
                            .run = arange_run};

bs_value bs_arange(bs_graph *graph, bs_value limit, bs_value start, bs_value step, const bs_extent_desc *desc)
{
    const int32_t in[3] = {limit.id, start.id, step.id};
    return bs_op_build(graph, &bs_op_arange, in, step.id ? 3 : start.id ? 2 : 1, desc);
}

/* ----------------------------------------------------------------------------------------------------- nonzero */

static bool nonzero_infer(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    bs_value_info *out = &infer->out[0];
    const int32_t rank = x->rank;
    if (!bs_infer_rank(infer, 0, 1, BS_MAX_RANK))
        return false;
    out->dtype = BS_I32;
    bs_value_set_rank(out, 2);
    out->dims[0] = bs_infer_found_dim(infer, ((const bs_extent_desc *)infer->params)->maximum,
                                      (int64_t)bs_bytes_figure(bs_value_elements(infer->graph, x)));
    out->dims[1] = bs_dim_const(infer->graph, rank);
    return out->dims[0] >= 0;
}

/* All bits of an element but the sign of a float: 0 where it is zero. */
static uint32_t element_bits(bs_dtype dtype, const void *at)
{
    const size_t bytes = bs_dtype_bytes(dtype);
    if (bytes == 4)
        return *(const uint32_t *)at & (dtype == BS_F32 ? INT32_MAX : UINT32_MAX);
    if (bytes == 2)
        return *(const uint16_t *)at & (dtype == BS_U16 ? UINT16_MAX : INT16_MAX);
    return *(const uint8_t *)at;
}

static void nonzero_put(const bs_call *call, const int32_t *index)
{
    const bs_operand *out = &call->out[0];
    const int64_t row = (*call->extent)++;
    for (int32_t d = 0; row < out->dim[0] && d < out->dim[1]; d++)
        *(int32_t *)bs_operand_at(out, row * out->stride[0] + d * out->stride[1]) = index[d];
}

static bs_status nonzero_run(const bs_call *call)
{
    const bs_operand *x = &call->in[0];
    int32_t index[BS_MAX_RANK] = {0};
    int64_t left = 1;
    ptrdiff_t at = 0;
    for (int32_t d = 0; d < x->rank; d++)
        left *= x->dim[d];
    for (; left > 0; left--) {
        if (element_bits(x->dtype, bs_operand_at(x, at)))
            nonzero_put(call, index);
        for (int32_t d = x->rank - 1; d >= 0; d--) {
            at += x->stride[d];
            if (++index[d] < x->dim[d])
                break;
            at -= x->stride[d] * x->dim[d];
            index[d] = 0;
        }
    }
    return BS_OK;
}

const bs_op bs_op_nonzero = {.name = "nonzero",
                             .min_in = 1,
                             .roles = {BS_ROLE_DECIDING},
                             .layout = {.empty = true},
                             BS_PARAMS(bs_extent_desc, nonzero_fields),
                             .infer = nonzero_infer,
                             .run = nonzero_run};

bs_value bs_nonzero(bs_graph *graph, bs_value x, const bs_extent_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_nonzero);
}
