/* run/alike.c - rows that are all the same: a kernel computes the first, and the others are copies of its result. So
 * rows are in the first trip of a loop that begins with one value for all, and where they are padded.
 * Relies on run/exec.h, and on kernels that give a row the same bits in whatever call it is. Must never take bytes that
 * differ for the same: -0 is not 0; and never leave a product out: 0 times infinity is no 0. */
#include "run/exec.h"

#ifndef BS_SMALL /* for few bytes each row is computed */

/* Most that are not show it in the first bytes that are compared. */
static bool is_repeated(const bs_operand *o, int32_t rows)
{
    const ptrdiff_t step = o->row_stride * (ptrdiff_t)bs_dtype_bytes(o->dtype);
    const int64_t line = o->image ? -1 : bs_operand_line(o);
    bool alike = line >= 0;
    for (int32_t row = 1; row < rows && alike && step != 0; row++)
        alike = memcmp(o->data, (const char *)o->data + row * step, (size_t)line * bs_dtype_bytes(o->dtype)) == 0;
    return alike;
}

int32_t bs_alike_rows(const bs_call *call)
{
    const bs_op *op = bs_node_op(call->node);
    bool alike = op->flops && bs_op_is_by_row(op);
    for (int32_t k = 0; k < call->n_out && alike; k++)
        alike = !call->out[k].image && bs_operand_line(&call->out[k]) >= 0;
    for (int32_t k = 0; k < call->n_in && alike; k++)
        alike = is_repeated(&call->in[k], call->rows);
    return alike ? 1 : call->rows;
}

bs_status bs_exec_alike(const bs_call *call)
{
    const bs_op *op = bs_node_op(call->node);
    if (bs_alike_rows(call) == call->rows) /* most calls */
        return op->run(call);
    bs_call some = *call;
    some.rows = 1;
    const bs_status status = op->run(&some);
    for (int32_t k = 0; k < call->n_out && status == BS_OK; k++) {
        const bs_operand *out = &call->out[k];
        const size_t bytes = (size_t)bs_operand_line(out) * bs_dtype_bytes(out->dtype);
        for (int32_t row = some.rows; row < call->rows; row++)
            bs_copy(bs_operand_at(out, row * out->row_stride), out->data, bytes);
    }
    return status;
}
#endif
