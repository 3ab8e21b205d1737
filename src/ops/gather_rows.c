/* ops/gather_rows.c - rows of a table by index.
 * Relies on span.h. Must never trust an index. */
#include "ops/common.h"
#include "ops/span.h"

/* Operand 0 is the indices: operands after the first may be root values, and the table usually is. */
static bool gather_rows_infer(bs_infer *infer)
{
    const bs_value_info *indices = infer->in[0], *table = infer->in[1];
    if (!bs_infer_dtype(infer, 0, BS_I32) || !bs_infer_rank(infer, 0, 1, 1) ||
        !bs_infer_rank(infer, 1, 1, BS_MAX_RANK) || !bs_infer_whole(infer, 1))
        return false;
    infer->out[0].dtype = table->dtype;
    infer->out[0].rank = table->rank;
    infer->out[0].dims[0] = indices->dims[0];
    for (int32_t d = 1; d < table->rank; d++)
        infer->out[0].dims[d] = table->dims[d];
    return bs_infer_no_new_image(infer);
}

/* One row of the result. */
static bs_status gather_rows_one(const bs_call *call, int32_t row, int32_t m)
{
    const bs_operand *indices = &call->in[0], *table = &call->in[1], *out = &call->out[0];
    const int32_t index = ((const int32_t *)indices->data)[row * indices->row_stride + m * indices->stride[0]];
    if (index < 0 || index >= table->dim[0])
        return bs_call_fail(call, "index %d is %d, expected 0 .. %d", m, index, table->dim[0] - 1);
    bs_operand from = *table, to = *out;
    from.data = bs_operand_at(table, row * table->row_stride + index * table->stride[0]);
    to.data = bs_operand_at(out, row * out->row_stride + m * out->stride[0]);
    bs_span span;
    bs_span_box(&span, &to, 1);
    span.low[1] = 0;
    span.count[1] = 1;
    bs_span_copy(&span, &to, &from, NULL);
    return BS_OK;
}

static bs_status gather_rows_run(const bs_call *call)
{
    bs_status status = BS_OK;
    for (int32_t row = 0; row < call->rows && status == BS_OK; row++)
        for (int32_t m = 0; m < call->in[0].dim[0] && status == BS_OK; m++)
            status = gather_rows_one(call, row, m);
    return status;
}

const bs_op bs_op_gather_rows = {.name = "gather_rows",
                                 .min_in = 2,
                                 .flags = BS_OP_CAPTURE,
                                 .infer = gather_rows_infer,
                                 .run = gather_rows_run};

bs_value bs_gather_rows(bs_graph *graph, bs_value table, bs_value indices)
{
    const int32_t in[2] = {indices.id, table.id};
    return bs_op_build(graph, &bs_op_gather_rows, in, 2, NULL);
}
