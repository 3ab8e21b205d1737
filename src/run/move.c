/* run/move.c - moving rows: where a row goes (its map), and how it is combined with what is there.
 * Relies on run/operands.h. Must never decide anything or know of threads. */
#include "run/operands.h"
#include "ops/structure.h"

/* ------------------------------------------------------------------------------------------------- moving */

/* A tensor is moved row by row, a row being a line along its last dimension. Returns how many there are. */
static int64_t tensor_rows(const bs_operand *o)
{
    int64_t n = 1;
    for (int32_t i = 0; i < o->rank - 1; i++)
        n *= o->dim[i];
    return n;
}

static uint8_t *tensor_row(const bs_operand *o, int64_t k)
{
    ptrdiff_t offset = 0;
    for (int32_t i = bs_min_i32(o->rank, BS_MAX_RANK) - 2; i >= 0; i--) {
        offset += (ptrdiff_t)(k % o->dim[i]) * o->stride[i];
        k /= o->dim[i];
    }
    return (uint8_t *)o->data + offset * (ptrdiff_t)bs_dtype_bytes(o->dtype);
}

static void copy_row(uint8_t *to, ptrdiff_t to_step, const uint8_t *from, ptrdiff_t from_step, int32_t count,
                     size_t bytes)
{
    if (to_step == 1 && from_step == 1) {
        bs_copy(to, from, (size_t)count * bytes);
        return;
    }
    if (BS_DENSE_PAYS && bytes == 4) { /* a size that the compiler knows: no call for each element */
        for (int32_t x = 0; x < count; x++)
            memcpy(to + (ptrdiff_t)x * to_step * 4, from + (ptrdiff_t)x * from_step * 4, 4);
        return;
    }
    for (int32_t x = 0; x < count; x++)
        bs_copy(to + (ptrdiff_t)x * to_step * (ptrdiff_t)bytes, from + (ptrdiff_t)x * from_step * (ptrdiff_t)bytes,
               bytes);
}

/* Whether the channels of a pixel lie side by side, and the pixels of a line do, too, of which an int32_t can count the
 * elements. */
static bool is_channels_last(const bs_operand *o)
{
    return o->stride[0] == 1 && o->stride[2] == o->dim[0] &&
           (int64_t)(o->rect.x1 - o->rect.x0) * o->dim[0] <= INT32_MAX;
}

/* A rectangle of an image as a tensor: its rows are whole lines, or lines of one channel. */
static bs_operand image_part(const bs_operand *o, bs_rect r, bool lines)
{
    const int32_t width = bs_max_i32(r.x1 - r.x0, 0);
    bs_operand part = *o;
    part.rank = lines ? 2 : 3;
    part.image = false;
    part.data = (uint8_t *)o->data + (r.y0 * o->stride[1] + r.x0 * o->stride[2]) * (ptrdiff_t)bs_dtype_bytes(o->dtype);
    part.dim[0] = bs_max_i32(r.y1 - r.y0, 0);
    part.dim[1] = lines ? width * o->dim[0] : o->dim[0];
    part.dim[2] = width;
    part.stride[0] = o->stride[1];
    part.stride[1] = o->stride[0];
    part.stride[2] = o->stride[2];
    return part;
}

/* A tensor as its rows; a single number (rank 0) is a row of one element. */
static bs_operand tensor_part(const bs_operand *o)
{
    bs_operand part = *o;
    if (part.rank == 0) {
        part.rank = 1;
        part.dim[0] = 1;
        part.stride[0] = 1;
    }
    return part;
}

/* Zeroes the rectangle of an image, or all of another tensor, whatever its strides. */
static void zero_row(const bs_operand *o)
{
    const bs_operand all = o->image ? image_part(o, o->rect, is_channels_last(o)) : tensor_part(o);
    const size_t bytes = bs_dtype_bytes(o->dtype);
    const int32_t last = all.rank - 1;
    const ptrdiff_t step = all.stride[last] * (ptrdiff_t)bytes;
    const int64_t rows = tensor_rows(&all);
    for (int64_t k = 0; k < rows; k++) {
        uint8_t *row = tensor_row(&all, k);
        if (step == (ptrdiff_t)bytes) {
            memset(row, 0, bytes * (size_t)all.dim[last]);
            continue;
        }
        for (int32_t x = 0; x < all.dim[last]; x++)
            memset(row + x * step, 0, bytes);
    }
}

static bs_rect rect_common(bs_rect a, bs_rect b)
{
    return (bs_rect){bs_max_i32(a.y0, b.y0), bs_min_i32(a.y1, b.y1), bs_max_i32(a.x0, b.x0), bs_min_i32(a.x1, b.x1)};
}

/* Two tensors with the same rows; for images, the rectangle that both have. */
typedef struct move_pair {
    bs_operand to, from;
    int64_t rows;
    int32_t last; /* dimension along which rows lie */
} move_pair;

static void pair_up(move_pair *pair, const bs_operand *to, const bs_operand *from)
{
    if (to->image) {
        const bs_rect r = rect_common(to->rect, from->rect);
        const bool lines = is_channels_last(to) && is_channels_last(from);
        pair->to = image_part(to, r, lines);
        pair->from = image_part(from, r, lines);
    } else {
        pair->to = tensor_part(to);
        pair->from = tensor_part(from);
    }
    pair->rows = tensor_rows(&pair->to);
    pair->last = pair->to.rank - 1;
}

void bs_move_row(const bs_operand *to, const bs_operand *from)
{
    move_pair p;
    if (to->data == from->data)
        return; /* an image was stored in the output at once */
    const int64_t n = to->image ? -1 : bs_operand_line(to);
    if (n >= 0 && bs_operand_line(from) == n) {
        bs_copy(to->data, from->data, (size_t)n * bs_dtype_bytes(to->dtype));
        return;
    }
    pair_up(&p, to, from);
    for (int64_t k = 0; k < p.rows; k++)
        copy_row(tensor_row(&p.to, k), p.to.stride[p.last], tensor_row(&p.from, k), p.from.stride[p.last],
                 p.to.dim[p.last], bs_dtype_bytes(to->dtype));
}

/* What `value` is a view of, as an operand: used to copy it into storage of its own. */
static void operand_source(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_session *s = c->session;
    const int32_t node = s->graph->values[value].node;
    bs_operand_extent(c, value, row, o);
    if (s->graph->nodes[node].router != 0) {
        bs_operand parent;
        const bs_node *view = &s->graph->nodes[node];
        const int32_t from = bs_view_of(s->graph, view);
        bs_operand_make(c, from, c->domains[s->graph->values[value].domain].ids[row], &parent);
        bs_operand_trips(c, &view->router, bs_view_slices(s->graph, view), &parent, o);
    } else if (s->graph->nodes[node].n_in > 0) {
        bs_operand root;
        bs_operand_make(c, bs_node_in(s->graph, &s->graph->nodes[node])[0], 0, &root);
        bs_operand_step(o, &root, bs_top_row(c, s->graph->values[value].domain, row));
    } else if (bs_node_op(&s->graph->nodes[node])->bound) {
        bs_operand_bound(c, node, o);
    } else { /* a constant */
        bs_operand_dense(c, value, o);
        o->data = bs_bytes_at(s->weights, s->plan->nodes[node].prepared_offset);
    }
}

/* The place of a row's cell in the root tensor that a move goes to. */
static void operand_cell(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *o)
{
    const bs_node *node = &c->session->graph->nodes[i->node];
    bs_operand root;
    bs_operand_make(c, i->target, 0, &root);
    bs_operand_extent(c, i->value ? i->value : node->first_out, row, o);
    bs_operand_step(o, &root, bs_top_row(c, i->domain, row));
    if (o->image && root.image)
        o->rect = (bs_rect){0, o->dim[1], 0, o->dim[2]}; /* the core only */
}

/* An output, or the state that the node writes. */
static void operand_ending(const bs_context *c, const bs_instr *i, bs_operand *o)
{
    const bs_graph *g = c->session->graph;
    const bs_node *node = &g->nodes[i->node];
    const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
    bs_operand_extent(c, i->value, 0, o);
    bs_operand_bound(c, state < 0 ? i->node : g->values[bs_node_in(g, node)[state]].node, o);
}

/* The row that a row of a loop's body came from; with `trip`, the place in it that the trip has. */
static void operand_parent(const bs_context *c, const bs_instr *i, int32_t row, bool trip, bs_operand *o)
{
    bs_operand_make(c, i->target, c->domains[i->domain].ids[row], o);
    if (!trip)
        return;
    const bs_operand parent = *o;
    bs_operand_extent(c, i->value, row, o);
    bs_operand_trips(c, &c->session->graph->nodes[i->node].router, 1, &parent, o);
}

/* All rows of a root tensor that belong to no cell, as one operand. */
static void operand_beyond(const bs_context *c, const bs_instr *i, bs_operand *o)
{
    const bs_graph *g = c->session->graph;
    const int32_t rows = c->domains[g->values[bs_node_in(g, &g->nodes[i->node])[0]].domain].count;
    bs_operand_make(c, i->target, 0, o);
    o->data = (uint8_t *)o->data + rows * o->stride[0] * (ptrdiff_t)bs_dtype_bytes(o->dtype);
    o->dim[0] -= rows;
    o->rect = (bs_rect){0, o->dim[1], 0, o->dim[2]};
}

/* Where row `row` goes; data NULL: it goes nowhere, as it is not wanted or older than a cache's window. */
static void operand_target(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *o)
{
    switch ((bs_row_map)i->map) {
    case BS_MAP_NONE: break;
    case BS_MAP_VIEW:
    case BS_MAP_ROW:
    case BS_MAP_PATHS: bs_operand_make(c, i->target, row, o); break;
    case BS_MAP_PARENT:
    case BS_MAP_TRIP: operand_parent(c, i, row, i->map == BS_MAP_TRIP, o); break;
    case BS_MAP_CELL: operand_cell(c, i, row, o); break;
    case BS_MAP_BOUND: operand_ending(c, i, o); break;
    case BS_MAP_APPEND:
        bs_operand_extent(c, i->value, row, o);
        bs_segment_append(c, i, row, o);
        break;
    case BS_MAP_BEYOND: operand_beyond(c, i, o); break;
    }
}

/* Whether a path gave this row its result. */
static bool row_is_given(const bs_context *c, const bs_node *gather, int32_t row)
{
    const bs_decision_data *d = bs_decision_of(c, gather->router);
    const int32_t path = d->chosen[row * d->per_row];
    return path >= 0 && bs_node_in(c->session->graph, gather)[path] != 0;
}

/* ---------------------------------------------------------------------------------------------- combining */

/* Adds gate * from to a sum, which is 0 where it is `fresh`: there it is not read. Dense rows are worth a loop of their
 * own. */
static void accumulate_row(float *sum, ptrdiff_t step, const float *row, ptrdiff_t row_step, int32_t n, float gate,
                           bool fresh)
{
    if (BS_DENSE_PAYS && step == 1 && row_step == 1) {
        for (int32_t x = 0; x < n && fresh; x++)
            sum[x] = 0.0f + gate * row[x];
        for (int32_t x = 0; x < n && !fresh; x++)
            sum[x] += gate * row[x];
        return;
    }
    for (int32_t x = 0; x < n; x++)
        sum[x * step] = (fresh ? 0.0f : sum[x * step]) + gate * row[x * row_step];
}

/* Whether the rectangle of an image lies in that of the other; of other tensors all does. */
static bool covers(const bs_operand *from, const bs_operand *to)
{
    const bs_rect r = rect_common(to->rect, from->rect);
    return !to->image || (r.y0 == to->rect.y0 && r.y1 == to->rect.y1 && r.x0 == to->rect.x0 && r.x1 == to->rect.x1);
}

/* The first addend of a sum is put down: 0 is added, as to the others, so that -0 becomes 0. */
static void accumulate(const bs_operand *to, const bs_operand *from, float gate, bool *fresh)
{
    move_pair p;
    if (*fresh && !covers(from, to)) {
        zero_row(to);
        *fresh = false;
    }
    pair_up(&p, to, from);
    for (int64_t k = 0; k < p.rows; k++)
        accumulate_row((float *)(void *)tensor_row(&p.to, k), p.to.stride[p.last],
                       (const float *)(const void *)tensor_row(&p.from, k), p.from.stride[p.last],
                       p.to.dim[p.last], gate, *fresh);
    *fresh = false;
}

/* Whether the choices of a row stand in path order, with empty choices last. */
static bool in_path_order(const bs_decision_data *d, int32_t row)
{
    const int32_t *inverse = d->inverse + row * d->per_row;
    for (int32_t k = 1; k < d->per_row; k++)
        if (inverse[k] >= 0 && inverse[k] < inverse[k - 1])
            return false;
    return true;
}

/* The choice of a row that follows choice `at` (-1: none yet) in path order, whatever the order of choice; -1: no
 * more. Rows of a path are packed behind those of lower paths, so packed rows ascend as paths do. */
static int32_t next_in_path_order(const bs_decision_data *d, int32_t row, bool ordered, int32_t at)
{
    const int32_t first = row * d->per_row, end = first + d->per_row, after = at < 0 ? -1 : d->inverse[at];
    int32_t next = -1;
    if (ordered) {
        next = at < 0 ? first : at + 1;
        return next < end && d->inverse[next] >= 0 ? next : -1;
    }
    for (int32_t k = first; k < end; k++)
        if (d->inverse[k] > after && (next < 0 || d->inverse[k] < d->inverse[next]))
            next = k;
    return next;
}

/* The choice with the largest gate; of equal gates, the lower path. -1 when there is no choice or the chosen path
 * gives nothing: the row of another path would not be what was selected. */
static int32_t best_choice(const bs_decision_data *d, const int32_t *in, int32_t row)
{
    int32_t best = -1;
    for (int32_t at = row * d->per_row; at < (row + 1) * d->per_row; at++) {
        if (d->inverse[at] < 0)
            continue;
        if (best < 0 || d->gates[at] > d->gates[best] ||
            (d->gates[at] == d->gates[best] && d->chosen[at] < d->chosen[best]))
            best = at;
    }
    return best >= 0 && in[d->chosen[best]] != 0 ? best : -1;
}

/* The row of the path that was selected, or `residual` where that gives nothing. Packed rows are storage rows. */
static void combine_select(const bs_context *c, const bs_decision_data *d, const int32_t *in, int32_t residual,
                           int32_t row, const bs_operand *to)
{
    const int32_t best = best_choice(d, in, row);
    bs_operand from;
    if (best >= 0)
        bs_operand_make(c, in[d->chosen[best]], d->inverse[best] - d->offsets[d->chosen[best]], &from);
    else if (residual)
        bs_operand_make(c, residual, row, &from);
    if (best >= 0 || residual)
        bs_move_row(to, &from);
}

static void combine_sum(const bs_context *c, const bs_instr *i, const bs_decision_data *d, const int32_t *in,
                        int32_t row, const bs_operand *to)
{
    const bool ordered = in_path_order(d, row);
    const bool weighted = i->combine == BS_COMBINE_WEIGHTED_SUM;
    bool fresh = true;
    bs_operand from;
    for (int32_t at = next_in_path_order(d, row, ordered, -1); at >= 0; at = next_in_path_order(d, row, ordered, at)) {
        const int32_t path = d->chosen[at];
        if (in[path] == 0)
            continue;
        bs_operand_make(c, in[path], d->inverse[at] - d->offsets[path], &from);
        accumulate(to, &from, weighted ? d->gates[at] : 1.0f, &fresh);
    }
    if (i->value) {
        bs_operand_make(c, i->value, row, &from);
        accumulate(to, &from, 1.0f, &fresh);
    }
    if (fresh)
        zero_row(to);
}

/* -------------------------------------------------------------------------------------------------- a row */

static void operand_moved(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *from)
{
    if (i->map == BS_MAP_VIEW)
        operand_source(c, i->value, row, from);
    else
        bs_operand_make(c, i->value, row, from);
}

void bs_move_operands(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *to, bs_operand *from)
{
    operand_target(c, i, row, to);
    operand_moved(c, i, row, from);
}

/* One row of `value`, or zero where there is none. */
static void move_value(const bs_context *c, const bs_instr *i, int32_t row, const bs_operand *to)
{
    bs_operand from;
    if (i->value == 0) {
        zero_row(to);
        return;
    }
    operand_moved(c, i, row, &from);
    bs_move_row(to, &from);
}

static void move_one(const bs_context *c, const bs_instr *i, int32_t row)
{
    const bs_graph *g = c->session->graph;
    const bs_node *node = &g->nodes[i->node];
    bs_operand to;
    if (i->combine == BS_COMBINE_RESIDUAL && row_is_given(c, node, row))
        return;
    to.data = NULL;
    operand_target(c, i, row, &to);
    if (!to.data)
        return;
    switch ((bs_combine)i->combine) {
    case BS_COMBINE_COPY:
    case BS_COMBINE_RESIDUAL:
    case BS_COMBINE_ZERO: move_value(c, i, row, &to); break;
    case BS_COMBINE_SUM:
    case BS_COMBINE_WEIGHTED_SUM:
        combine_sum(c, i, bs_decision_of(c, node->router), bs_node_in(g, node), row, &to);
        break;
    case BS_COMBINE_SELECT:
        zero_row(&to);
        combine_select(c, bs_decision_of(c, node->router), bs_node_in(g, node), i->value, row, &to);
        break;
    }
    bs_zero_around(c, i->target, &to);
}

/* The number of the row that row `row` goes to, as bs_operand_row counts; -1: none can be named. */
static int32_t target_row(const bs_context *c, const bs_instr *i, int32_t row)
{
    if (i->map == BS_MAP_CELL)
        return bs_top_row(c, i->domain, row);
    if (i->map == BS_MAP_ROW)
        return bs_operand_row(c, i->target, row);
    const bool around = i->map == BS_MAP_PARENT || i->map == BS_MAP_TRIP;
    return around ? bs_operand_row(c, i->target, c->domains[i->domain].ids[row]) : -1;
}

/* Rows that are copied and whose elements lie one after the other, here and there: of these only addresses differ.
 * Returns whether it has moved them. */
static bool move_dense(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows)
{
    bs_operand to, from;
    if (i->combine != BS_COMBINE_COPY || i->value == 0 || i->target == 0 || target_row(c, i, row) < 0 ||
        c->session->plan->values[i->target].margin > 0)
        return false;
    operand_target(c, i, row, &to);
    bs_operand_make(c, i->value, row, &from);
    const int64_t n = to.image ? -1 : bs_operand_line(&to);
    if (n < 0 || bs_operand_line(&from) != n)
        return false;
    const size_t bytes = (size_t)n * bs_dtype_bytes(to.dtype);
    int32_t to_row = target_row(c, i, row), from_row = bs_operand_row(c, i->value, row);
    for (int32_t r = row; r < row + rows; r++) {
        const int32_t to_was = to_row, from_was = from_row;
        to_row = target_row(c, i, r);
        from_row = bs_operand_row(c, i->value, r);
        bs_operand_advance(&to, to_row - to_was);
        bs_operand_advance(&from, from_row - from_was);
        if (to.data != from.data)
            bs_copy(to.data, from.data, bytes);
    }
    return true;
}

void bs_move_rows(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows)
{
    if (rows > 1 && move_dense(c, i, row, rows))
        return;
    for (int32_t r = row; r < row + rows; r++)
        move_one(c, i, r);
}
