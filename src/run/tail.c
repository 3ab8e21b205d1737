/* run/tail.c - a kernel with a tail: it runs, then each step over the rows that were just made, which are near.
 * A step that moves what it changes gets that from a thread's scratch, as much at a time as stays near; steps after it
 * work in the result. Some kernels store their pixels where such a step would move them.
 * Relies on run/exec.h and plan/tails.h, which says how much scratch that is. Must never change what one kernel after
 * the other would give. */
#include "run/exec.h"

#include "ops/table.h"
#include "plan/tails.h"

/* What a kernel adds to its result itself, while it has that in registers: the other operand of a first step that is a
 * sum. */
static const bs_operand *residual_of(const bs_call *call, const bs_operand *out)
{
    const bs_tail *first = &call->graph->tails[call->node->tail];
    if (!bs_node_op(&first->node)->memory.sums || first->keeps || !call->plan->adds)
        return NULL;
    const bs_operand *other = &call->in[first->other];
    const bool last = other->stride[0] == 1 && out->stride[0] == 1;
    bool alike = last && out->image && other->image && other->dtype == BS_F32 && out->dtype == BS_F32;
    for (int32_t d = 0; d < 3; d++)
        alike = alike && other->dim[d] == out->dim[d];
    return alike ? other : NULL;
}

/* The kernel into `near`, or with its first step where that goes if it `stores` it, then the steps: in place, and from
 * where they move it on in the call's result. */
static bs_status run_near(const bs_call *call, bs_operand near, bool stores)
{
    const bs_node *node = call->node;
    const bs_tail *tail = &call->graph->tails[node->tail];
    bs_call own = *call;
    own.n_in = tail->own;
    own.out = &near;
    near.dtype = tail->from;
    own.phases = stores ? bs_node_enlarges(&tail->node) : 1;
    own.residual = residual_of(call, &near);
    bs_status status = bs_exec_own(bs_node_op(node)->run, &own);
    const int32_t done = stores || own.residual;
    bs_operand kept;
    near = stores ? call->out[0] : near;
    kept = near;
    tail += done;
    for (int32_t i = done; i < node->n_tail && status == BS_OK; i++, tail++) {
        bs_operand in[BS_MAX_OPERANDS];
        bs_call step = *call;
        int32_t other = tail->other;
        kept = tail->keeps ? near : kept;
        for (int32_t k = 0; k < tail->node.n_in; k++) {
            const bool made = bs_node_in(call->graph, &tail->node)[k] == tail->node.first_out;
            in[k] = k == tail->at ? near : made ? kept : call->in[other++];
        }
        near = bs_tail_moves(tail) ? call->out[0] : near;
        near.dtype = tail->to;
        step.node = &tail->node;
        step.params = tail->node.params;
        step.n_in = tail->node.n_in;
        step.in = in;
        step.out = &near;
        status = bs_node_op(&tail->node)->run(&step);
    }
    return status;
}

/* The image of which `large` is r times as large: every r-th pixel of it, channels not counted. */
static bs_operand small_of(const bs_operand *large, int32_t r)
{
    bs_operand small = *large;
    small.dim[0] *= r * r;
    small.dim[1] /= r;
    small.dim[2] /= r;
    small.stride[1] *= r;
    small.stride[2] *= r;
    small.frame_h /= r;
    small.frame_w /= r;
    small.rect = (bs_rect){large->rect.y0 / r, large->rect.y1 / r, large->rect.x0 / r, large->rect.x1 / r};
    return small;
}

/* A result in scratch with the coordinates of `out`, of which it has the rows that are computed; images with the
 * channels where `out` has them. `bytes`: of a line of it, or of a row of what is no image. */
static bs_operand near_of(const bs_operand *out, bs_dtype dtype, uint64_t *bytes)
{
    bs_operand near = *out;
    const bool image = out->image, last = image && (out->stride[0] == 1 || out->dim[0] == 1);
    const int32_t width = image ? out->rect.x1 - out->rect.x0 : 0;
    static const int32_t inner[3] = {0, 2, 1};
    ptrdiff_t step = 1;
    near.dtype = dtype;
    for (int32_t k = 0; k < out->rank; k++) {
        const int32_t d = last ? inner[k] : out->rank - 1 - k;
        near.stride[d] = step;
        step *= image && d == 2 ? width : out->dim[d];
    }
    near.row_stride = step;
    *bytes = (uint64_t)(image ? (ptrdiff_t)out->dim[0] * width : step) * bs_dtype_bytes(dtype);
    return near;
}

/* Lines first .. first + lines of an image. `near`: for them, of an image `scale` times as small. */
static bs_status run_lines(const bs_call *call, bs_operand near, int32_t scale, int32_t first, int32_t lines)
{
    bs_operand out = call->out[0];
    bs_call some = *call;
    some.out = &out;
    out.rect.y0 = first;
    out.rect.y1 = first + lines;
    near.rect = small_of(&out, scale).rect;
    near.data = bs_operand_at(&near, -near.rect.y0 * near.stride[1] - near.rect.x0 * near.stride[2]);
    return run_near(&some, near, false);
}

static bs_status run_rows(const bs_call *call, bs_operand near, int32_t first, int32_t rows)
{
    bs_call_room room;
    room.call = *call;
    room.call.in = room.in;
    room.call.out = room.out;
    room.call.rows = rows;
    memcpy(room.in, call->in, (size_t)call->n_in * sizeof *room.in);
    room.out[0] = call->out[0];
    for (int32_t i = 0; i < call->n_in; i++)
        bs_operand_advance(&room.in[i], first);
    bs_operand_advance(&room.out[0], first);
    return run_near(&room.call, near, false);
}

bs_status bs_exec_tail(const bs_call *call)
{
    const bs_tail *tail = &call->graph->tails[call->node->tail];
    const bs_operand *out = &call->out[0];
    if (!bs_tails_move(call->graph, call->node))
        return run_near(call, *out, false);
    if (bs_tails_are_stored(call->graph, call->node, call->plan))
        return run_near(call, small_of(out, bs_node_phases(call->graph, call->node)), true);
    uint64_t bytes;
    bs_call some = *call;
    const bool image = out->image;
    const int32_t scale = bs_node_phases(call->graph, call->node);
    const bs_operand small = small_of(out, scale);
    bs_operand near = near_of(&small, tail->from, &bytes);
    bytes /= (uint64_t)scale; /* of a line of the result */
    const int32_t grain = image ? scale * call->plan->grain : 1,
                  begin = image ? out->rect.y0 : 0, end = image ? out->rect.y1 : call->rows,
                  most = bs_tail_lines(bytes, grain, end - begin);
    bs_status status = BS_OK;
    near.data = call->scratch;
    some.scratch = bs_bytes_at(call->scratch, bs_bytes_align(bs_bytes_times(bs_bytes_of(bytes), most)));
    for (int32_t at = begin; at < end && status == BS_OK; at += most) {
        const int32_t count = bs_min_i32(most, end - at);
        status = image ? run_lines(&some, near, scale, at, count) : run_rows(&some, near, at, count);
    }
    return status;
}
