/* ops/gather_rows.c - elements by index: read (gather_rows, select, gather_elements), written or added to
 * (scatter_elements, scatter_rows). Read and written are elements of any type.
 * One walk serves all five: it goes over the elements that are read into or written from, beside them over the indices,
 * and of the operand that is indexed it knows where the line along the axis begins.
 * Relies on span.h. Must never trust an index, nor read one again that was checked. */
#include "ops/common.h"
#include "ops/span.h"

typedef struct bs_select_desc {
    const char *name;
    int32_t axis;
} bs_select_desc;

static const bs_field select_fields[] = {BS_INT("axis")};
static const bs_field update_fields[] = {BS_INT("axis"), BS_FIELD_OF("update", UPDATE)};

/* ----------------------------------------------------------------------------------------------- shape rules */

/* Indices stand beside elements: `each` beside one, else from dimension `axis` on beside all of the other dimensions.
 * The elements are the result, or the updates, operand 2, of what is indexed. */
static bool indexed_shape(bs_infer *infer, const bs_value_info *x, const bs_value_info *indices, int32_t axis,
                          bool each)
{
    bs_value_info *out = &infer->out[0];
    const int32_t taken = each ? 1 : indices->rank, rank = x->rank - 1 + taken;
    out->dtype = x->dtype;
    if (!bs_infer_rank_out(infer, rank))
        return false;
    for (int32_t d = 0; d < rank; d++) {
        const bool on = d >= axis && d < axis + taken;
        const bs_dim_id of = x->dims[on || d < axis ? d : d - taken + 1];
        const bs_dim_id dim = each ? indices->dims[d] : on ? indices->dims[d - axis] : of;
        if (!on && bs_dim_max(infer->graph, dim) > bs_dim_max(infer->graph, of))
            return bs_infer_dim_differs(infer, 1, d);
        if (!on && bs_dim_is_const(infer->graph, dim) && !bs_infer_least(infer, of, bs_dim_max(infer->graph, dim)))
            return false;
        if (infer->n_in > 2 && !bs_infer_dim_is(infer, 2, d, dim))
            return false;
        out->dims[d] = infer->n_in > 2 ? of : dim;
    }
    /* of the domain of any operand: the others are root values */
    for (int32_t i = 0; i < infer->n_in; i++) {
        out->domain = bs_max_i32(out->domain, infer->in[i]->domain);
        if (!bs_infer_whole(infer, i))
            return false;
    }
    return bs_infer_no_new_image(infer);
}

/* Operand 0 is the indices: operands after the first may be root values, and the table usually is. */
static bool gather_rows_infer(bs_infer *infer)
{
    return bs_infer_dtype(infer, 0, BS_I32) && bs_infer_rank(infer, 0, 1, 1) &&
           bs_infer_rank(infer, 1, 1, BS_MAX_RANK) && indexed_shape(infer, infer->in[1], infer->in[0], 0, false);
}

/* Operand 0 is indexed by operand 1. All descriptors begin alike. */
static bool indexed_infer(bs_infer *infer, bool each)
{
    int32_t axis;
    return bs_infer_axis(infer, ((const bs_select_desc *)infer->params)->axis, &axis) &&
           bs_infer_dtype(infer, 1, BS_I32) && (!each || bs_infer_same_rank(infer, 1)) &&
           indexed_shape(infer, infer->in[0], infer->in[1], axis, each);
}

static bool select_infer(bs_infer *infer) { return bs_infer_rank(infer, 1, 0, 2) && indexed_infer(infer, false); }
static bool gather_elements_infer(bs_infer *infer) { return indexed_infer(infer, true); }

/* Operand 2 has a type that can be written, or added. */
static bool update_infer(bs_infer *infer)
{
    return (((const bs_update_desc *)infer->params)->update == BS_UPDATE_WRITE || bs_infer_number(infer, 0)) &&
           bs_infer_dtype(infer, 2, infer->in[0]->dtype) && bs_infer_same_rank(infer, 2);
}

static bool scatter_elements_infer(bs_infer *infer) { return update_infer(infer) && indexed_infer(infer, true); }

static bool scatter_rows_infer(bs_infer *infer)
{
    return bs_infer_rank(infer, 1, 1, 1) && update_infer(infer) && indexed_infer(infer, false);
}

/* ------------------------------------------------------------------------------------------------------ walk */

typedef enum indexed_move { INDEXED_READ, INDEXED_WRITE, INDEXED_ADD } indexed_move;

typedef struct indexed {
    bs_dtype dtype;
    indexed_move move;
    ptrdiff_t step; /* bytes from one index to the next */
    int32_t extent;
    const int32_t **bad; /* the first index that is out of range */
} indexed;

static void indexed_one(const indexed *k, void *beside, void *named)
{
    const size_t bytes = bs_dtype_bytes(k->dtype);
    if (k->move == INDEXED_READ)
        memcpy(beside, named, bytes);
    else if (k->move == INDEXED_WRITE)
        memcpy(named, beside, bytes);
    else if (k->dtype == BS_F32)
        *(float *)named += *(const float *)beside;
    else
        *(uint32_t *)named += *(const uint32_t *)beside; /* of i32: what does not fit wraps round */
}

/* Indices next to each other, which name elements of 4 bytes: a loop that does nothing else. */
static const int32_t *indexed_words(const indexed *k, int64_t n, char *const *at)
{
    const int32_t *index = (const int32_t *)(const void *)at[1];
    char *to = at[0];
    for (int64_t i = 0; i < n; i++) {
        const int32_t from = bs_read_once(index + i);
        if (from < 0 || from >= k->extent)
            return index + i;
        memcpy(to + 4 * i, at[2] + from * k->step, 4);
    }
    return NULL;
}

/* Operands of the walk: elements beside the indices, indices, lines of what is indexed. */
static void indexed_line(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const indexed *k = context;
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(k->dtype);
    if (BS_DENSE_PAYS && k->move == INDEXED_READ && bytes == 4 && step[0] == 4 && step[1] == 4 && step[2] == 0) {
        const int32_t *bad = indexed_words(k, n, at);
        *k->bad = *k->bad ? *k->bad : bad;
        return;
    }
    const bool whole = step[1] == 0 && k->move != INDEXED_ADD && step[0] == bytes && step[2] == bytes;
    for (int64_t i = 0; i < n; i++) {
        const void *at_index = at[1] + i * step[1];
        const int32_t index = bs_read_once(at_index);
        if (index < 0 || index >= k->extent) {
            *k->bad = *k->bad ? *k->bad : at_index;
            return;
        }
        char *named = at[2] + i * step[2] + index * k->step;
        if (whole) { /* a row */
            const bool reads = k->move == INDEXED_READ;
            bs_copy(reads ? at[0] : named, reads ? named : at[0], (size_t)(n * bytes));
            return;
        }
        indexed_one(k, at[0] + i * step[0], named);
    }
}

/* Indices of `groups` runs of `length`, interleaved, as shuffles of channels have them: first, first + apart, .. of
 * each run its first, then of each its second. With one group it is a run. */
typedef struct indexed_runs {
    int32_t groups, length, first, apart;
} indexed_runs;

static bool indexed_interleaves(const int32_t *index, ptrdiff_t step, int32_t n, int32_t extent, indexed_runs *runs)
{
    const int32_t first = n > 1 ? bs_read_once(index) : -1;
    int32_t groups = 1;
    if (first < 0 || first >= extent)
        return false;
    while (groups < n && index[groups * step] != first + 1)
        groups++;
    const int64_t apart = groups > 1 ? (int64_t)bs_read_once(index + step) - first : 0, length = n / groups;
    if (n % groups != 0 || apart < 0 || first + (groups - 1) * apart + length > extent)
        return false;
    for (int32_t i = 0; i < length; i++)
        for (int32_t g = 0; g < groups; g++, index += step)
            if (*index != first + g * apart + i)
                return false;
    *runs = (indexed_runs){groups, (int32_t)length, first, (int32_t)apart};
    return true;
}

/* Reads by such indices: a copy, with the axis as two. False: they are others, or differ from row to row. */
static bool indexed_copies(const bs_call *call, const bs_operand *beside, const bs_operand *indices,
                           const bs_operand *named, int32_t axis)
{
    bs_operand to = *beside, from = *named;
    bs_span span;
    indexed_runs runs;
    bs_span_box(&span, beside, call->rows);
    if (indices->rank != 1 || (call->rows > 1 && indices->row_stride != 0) ||
        span.count[axis + 1] != beside->dim[axis] ||
        !indexed_interleaves(indices->data, indices->stride[0], beside->dim[axis], named->dim[axis], &runs))
        return false;
    to.stride[to.rank++] = to.stride[axis];
    to.stride[axis] *= runs.groups;
    from.stride[from.rank++] = from.stride[axis] * runs.apart;
    from.data = bs_operand_at(named, runs.first * named->stride[axis]);
    span.count[axis + 1] = runs.length;
    span.count[span.axes++] = runs.groups;
    bs_span_copy(&span, call, &to, &from, NULL);
    return true;
}

/* Counts from the first index of a row. */
static bs_status indexed_fail(const bs_call *call, const bs_operand *indices, const int32_t *bad, int32_t extent)
{
    const ptrdiff_t at = bad - (const int32_t *)indices->data, row = indices->row_stride;
    return bs_call_fail(call, "index %" PRId32 " is %" PRId32 ", expected 0 .. %" PRId32,
                        (int32_t)(row > 0 ? at % row : at), *bad, extent - 1);
}

/* The elements, which are operand 0 or 2 or the result, beside the indices, as in indexed_shape. */
static bs_status indexed_run(const bs_call *call, const bs_operand *beside, const bs_operand *indices,
                             const bs_operand *named, int32_t axis, bool each, indexed_move move)
{
    const int32_t taken = each ? 1 : indices->rank;
    bs_operand which = *indices, lines = *named;
    const int32_t *bad = NULL;
    const indexed job = {named->dtype, move, named->stride[axis] * (ptrdiff_t)bs_dtype_bytes(named->dtype),
                         named->dim[axis], &bad};
    for (int32_t d = 0; d < beside->rank; d++) {
        const bool on = d >= axis && d < axis + taken;
        const int32_t of = d < axis ? d : d - taken + 1;
        if (!each)
            which.stride[d] = on ? indices->stride[d - axis] : 0;
        lines.stride[d] = on ? 0 : named->stride[of];
        if (!on && beside->dim[d] > named->dim[of])
            return BS_ERROR_SHAPE; /* a run set a symbol below what the indices need */
    }
    if (BS_DENSE_PAYS && move == INDEXED_READ && !each && indexed_copies(call, beside, indices, named, axis))
        return BS_OK;
    bs_span span;
    bs_span_open(&span, beside, call->rows);
    bs_span_add(&span, &which, NULL);
    bs_span_add(&span, &lines, NULL);
    bs_span_run(&span, indexed_line, &job);
    return bad ? indexed_fail(call, indices, bad, job.extent) : BS_OK;
}

static bs_status gather_rows_run(const bs_call *call)
{
    return indexed_run(call, &call->out[0], &call->in[0], &call->in[1], 0, false, INDEXED_READ);
}

static bs_status read_run(const bs_call *call, bool each)
{
    const bs_select_desc *desc = call->params;
    return indexed_run(call, &call->out[0], &call->in[1], &call->in[0], bs_axis_of(desc->axis, call->in[0].rank), each,
                       INDEXED_READ);
}

static bs_status select_run(const bs_call *call) { return read_run(call, false); }
static bs_status gather_elements_run(const bs_call *call) { return read_run(call, true); }

/* An element takes its updates in the order of their index along the axis, whatever the order of the walk: they differ
 * in nothing else. */
static bs_status write_run(const bs_call *call, bool each)
{
    const bs_update_desc *desc = call->params;
    const bs_operand *out = &call->out[0];
    bs_span span;
    bs_span_box(&span, out, call->rows);
    if (out->data != call->in[0].data) /* else it is made in the place of that (plan/places.c) */
        bs_span_copy(&span, call, out, &call->in[0], NULL);
    return indexed_run(call, &call->in[2], &call->in[1], out, bs_axis_of(desc->axis, out->rank), each,
                       desc->update == BS_UPDATE_ADD ? INDEXED_ADD : INDEXED_WRITE);
}

static bs_status scatter_elements_run(const bs_call *call) { return write_run(call, true); }
static bs_status scatter_rows_run(const bs_call *call) { return write_run(call, false); }

/* ------------------------------------------------------------------------------------------------------- ops */

const bs_op bs_op_gather_rows = {.name = "gather_rows",
                                 .min_in = 2,
                                 .rows = {.captures = true, .refuses = true},
                                 .infer = gather_rows_infer,
                                 .run = gather_rows_run};

#define INDEXED_OP(op, operands, desc, array, ...)                                                                   \
    const bs_op bs_op_##op = {.name = #op,                                                                           \
                              .min_in = operands,                                                                    \
                              .rows = {.captures = true, .captures_first = true, .refuses = true},                   \
                              __VA_ARGS__,                                                                           \
                              BS_PARAMS(desc, array),                                                                \
                              .infer = op##_infer,                                                                   \
                              .run = op##_run}
INDEXED_OP(select, 2, bs_select_desc, select_fields, .layout = {.picks = true});
INDEXED_OP(gather_elements, 2, bs_select_desc, select_fields, .layout = {.picks = true});
INDEXED_OP(scatter_elements, 3, bs_update_desc, update_fields, .layout = {.empty = true}, .memory = {.updates = true});
INDEXED_OP(scatter_rows, 3, bs_update_desc, update_fields, .layout = {.empty = true}, .memory = {.updates = true});
#undef INDEXED_OP

bs_value bs_gather_rows(bs_graph *graph, bs_value table, bs_value indices)
{
    return bs_op_build_two(graph, indices, table, NULL, &bs_op_gather_rows);
}

bs_value bs_select(bs_graph *graph, bs_value x, bs_value indices, int32_t axis)
{
    return bs_op_build_two(graph, x, indices, &(bs_select_desc){NULL, axis}, &bs_op_select);
}

bs_value bs_gather_elements(bs_graph *graph, bs_value x, bs_value indices, int32_t axis)
{
    return bs_op_build_two(graph, x, indices, &(bs_select_desc){NULL, axis}, &bs_op_gather_elements);
}

bs_value bs_scatter_elements(bs_graph *graph, bs_value x, bs_value indices, bs_value updates,
                             const bs_update_desc *desc)
{
    const int32_t in[3] = {x.id, indices.id, updates.id};
    return bs_op_build(graph, &bs_op_scatter_elements, in, 3, desc);
}

bs_value bs_scatter_rows(bs_graph *graph, bs_value table, bs_value indices, bs_value updates,
                         const bs_update_desc *desc)
{
    const int32_t in[3] = {table.id, indices.id, updates.id};
    return bs_op_build(graph, &bs_op_scatter_rows, in, 3, desc);
}
