/* run/operands.c - finding the rows of a value, by its storage class in the plan and the context's decisions. Views
 * cost nothing but the lookup. Relies on run/operands.h. Must never move anything, or know of threads. */
#include "run/operands.h"

#include "kernels/tier.h"
#include "ops/structure.h"

int32_t bs_top_row(const bs_context *c, int32_t domain, int32_t row)
{
    const bs_graph *g = c->session->graph;
    return c->domains[g->domains[domain].top].first + bs_rows_top(g, c->domains, domain, row);
}

/* Not inlined: other values, which are most, would save and restore the registers that this takes. */
static BS_OUTLINE void image_extent(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_graph *g = c->session->graph;
    const int64_t *dims = c->session->dims;
    const bs_value_info *v = &g->values[value];
    o->frame_h = o->dim[1];
    o->frame_w = o->dim[2];
    o->rect = (bs_rect){0, o->dim[1], 0, o->dim[2]};
    const int32_t patches = g->domains[v->domain].patches;
    if (patches < 0)
        return;
    const int32_t size = c->session->plan->domains[patches].size;
    const int32_t cell = (int32_t)bs_ceil_div((int64_t)size * v->scale_num, v->scale_den);
    const int32_t across = (int32_t)bs_ceil_div(dims[g->domains[patches].width], size);
    const int32_t top = bs_top_row(c, v->domain, row), margin = c->session->plan->values[value].margin;
    o->frame_y = top / across * cell;
    o->frame_x = top % across * cell;
    o->dim[1] = bs_min_i32(cell, o->frame_h - o->frame_y);
    o->dim[2] = bs_min_i32(cell, o->frame_w - o->frame_x);
    o->rect = (bs_rect){bs_max_i32(-margin, -o->frame_y), bs_min_i32(cell + margin, o->frame_h - o->frame_y),
                        bs_max_i32(-margin, -o->frame_x), bs_min_i32(cell + margin, o->frame_w - o->frame_x)};
}

static BS_INLINE_IF_FAST void operand_extent(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_value_info *v = &c->session->graph->values[value];
    o->dtype = v->dtype;
    o->rank = v->rank;
    o->image = v->image;
    for (int32_t i = 0; i < v->rank; i++)
        o->dim[i] = (int32_t)c->session->dims[v->dims[i]];
    o->frame_y = o->frame_x = 0;
    if (v->image)
        image_extent(c, value, row, o);
}

/* Extents of row `row`, and the rectangle that is computed or present. Independent of where the row is stored. */
void bs_operand_extent(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    operand_extent(c, value, row, o);
}

void bs_operand_dense(const bs_context *c, const bs_value_info *v, bs_operand *o)
{
    ptrdiff_t stride = 1;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        o->stride[i] = stride;
        stride *= (ptrdiff_t)bs_dim_max(c->session->graph, v->dims[i]);
    }
}

/* Channels last, behind the margins above and to the left. */
static BS_OUTLINE void image_stored(const bs_context *c, const bs_value_info *v, int32_t margin, bs_operand *o)
{
    int64_t h, w;
    bs_plan_core(c->session->plan, v, &h, &w);
    const ptrdiff_t channels = (ptrdiff_t)bs_dim_max(c->session->graph, v->dims[0]);
    o->stride[0] = 1;
    o->stride[2] = channels;
    o->stride[1] = channels * (ptrdiff_t)(w + 2 * margin);
    o->data = bs_operand_at(o, margin * o->stride[1] + margin * o->stride[2]);
}

/* Rows the plan stores: images channels-last with margins, all else dense; strides from the maxima. */
static BS_INLINE_IF_FAST void operand_stored(const bs_context *c, const bs_value_info *v, const bs_value_plan *p,
                                             uint8_t *base, bs_operand *o)
{
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(v->dtype);
    o->row_stride = (ptrdiff_t)bs_bytes_figure(p->row_bytes) >> bytes / 2; /* 1, 2 or 4: a division is slow */
    o->data = base;
    if (!v->image || p->planar)
        bs_operand_dense(c, v, o);
    else
        image_stored(c, v, p->margin, o);
}

void bs_operand_bound(const bs_context *c, int32_t node, bs_operand *o)
{
    const bs_buffer *b = &c->session->bound[node];
    o->data = b->data;
    o->row_stride = 0;
    for (int32_t i = 0; i < b->rank; i++)
        o->stride[i] = (ptrdiff_t)b->stride[i];
    if (c->session->cache_lengths[node]) { /* the copy that was checked, not the caller's buffer */
        o->data = c->session->cache_lengths[node];
        o->stride[0] = 1;
    }
}

/* Steps into a root image to where a cell lies, or to row `top` of a root tensor. */
void bs_operand_step(bs_operand *o, const bs_operand *root, int32_t top)
{
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(root->dtype);
    if (o->rank == root->rank) {
        /* NOLINTNEXTLINE(clang-analyzer-*): an image has three */
        o->stride[0] = root->stride[0], o->stride[1] = root->stride[1], o->stride[2] = root->stride[2];
        o->data = (uint8_t *)root->data + (o->frame_y * root->stride[1] + o->frame_x * root->stride[2]) * bytes;
        o->row_stride = 0;
        return;
    }
    for (int32_t i = 0; i < o->rank; i++)
        o->stride[i] = root->stride[i + 1];
    o->row_stride = root->stride[0]; /* NOLINT(clang-analyzer-*): a root has a dimension */
    o->data = (uint8_t *)root->data + top * root->stride[0] * bytes;
}

/* Row `row` of a value that has rows of its own, outside the root. */
static BS_INLINE_IF_FAST void operand_own(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_value_info *v = &c->session->graph->values[value];
    const bs_value_plan *p = &c->session->plan->values[value];
    const bool tile = p->storage == BS_STORAGE_SCRATCH;
    uint8_t *const memory = tile ? c->scratch : c->session->transient;
    const int32_t at = tile ? row : c->domains[v->domain].first + row;
    operand_stored(c, v, p, bs_bytes_row(memory, p->offset, at, p->row_bytes), o);
}

/* Whether an image with rows of its own lies in what is bound to its source, an output or an input: kernels take images
 * channels last. */
static bool lies_as_bound(const bs_context *c, const bs_value_plan *p)
{
    const bs_buffer *b = &c->session->bound[p->source];
    return p->storage == BS_STORAGE_TRANSIENT && p->source != 0 && (b->dim[0] == 1 || b->stride[0] == 1) &&
           b->stride[2] == b->dim[0];
}

/* A root value, whatever its storage class. */
void bs_operand_root(const bs_context *c, int32_t value, bs_operand *o)
{
    const bs_value_plan *p = &c->session->plan->values[value];
    const bs_session *s = c->session;
    operand_extent(c, value, 0, o);
    if (p->storage == BS_STORAGE_INPUT || p->storage == BS_STORAGE_OUTPUT || p->storage == BS_STORAGE_STATE ||
        lies_as_bound(c, p)) {
        bs_operand_bound(c, p->source, o);
    } else if (p->storage == BS_STORAGE_WEIGHT) {
        o->data = bs_bytes_at(s->weights, s->plan->nodes[p->source].prepared_offset);
        o->row_stride = 0;
        bs_operand_dense(c, &s->graph->values[value], o);
    } else {
        operand_stored(c, &s->graph->values[value], p, bs_bytes_at(s->transient, p->offset), o);
        o->row_stride = 0;
    }
}

/* Whether the rows of a path stand side by side around it: their ids ascend. */
static bool is_in_a_row(const bs_rows_state *rows)
{
    return rows->count > 0 && rows->ids[rows->count - 1] - rows->ids[0] == rows->count - 1;
}

/* What a view is seen through: itself, or the carried value in whose place it is made. */
static int32_t seen_through(const bs_session *s, int32_t view)
{
    const bs_node *node = &s->graph->nodes[s->graph->values[view].node];
    return bs_node_is_view(node) ? view : bs_node_in(s->graph, node)[0];
}

/* So they must on every way from view to view. */
bool bs_operand_is_seen(const bs_context *c, int32_t value)
{
    const bs_session *s = c->session;
    bool seen = bs_plan_is_seen(s->plan, value);
    while (seen) {
        seen = is_in_a_row(&c->domains[s->graph->values[value].domain]);
        value = s->plan->values[value].source;
        const bool onward = s->plan->values[value].storage == BS_STORAGE_VIEW;
        value = onward ? seen_through(s, value) : value;
        if (!onward || s->graph->nodes[s->graph->values[value].node].router == 0)
            break;
    }
    return seen;
}

/* Row `row` of a value of which no decision says where it lies. */
static void operand_found(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_session *s = c->session;
    bs_operand root;
    if (s->plan->values[value].storage == BS_STORAGE_VIEW) {
        bs_operand_root(c, s->plan->values[value].source, &root);
        bs_operand_step(o, &root, bs_top_row(c, s->graph->values[value].domain, row));
    } else if (s->graph->values[value].domain != 0) {
        operand_own(c, value, row, o);
    } else { /* seen from a path of the root */
        bs_operand_root(c, value, &root);
        memcpy(o->stride, root.stride, sizeof o->stride);
        o->data = root.data;
        o->row_stride = 0;
    }
}

void bs_operand_trips(const bs_context *c, const int32_t *loops, int32_t count, const bs_operand *whole, bs_operand *o)
{
    ptrdiff_t offset = 0;
    for (int32_t i = 0; i < count; i++)
        offset += whole->stride[count - 1 - i] * bs_decision_of(c, loops[i])->trip;
    for (int32_t d = 0; d < o->rank && d + count < BS_MAX_AXES; d++)
        o->stride[d] = whole->stride[d + count];
    o->data = (uint8_t *)whole->data + offset * (ptrdiff_t)bs_dtype_bytes(whole->dtype);
    o->row_stride = whole->row_stride;
}

/* The part of such a row that belongs to the trips that loops make. */
static BS_OUTLINE void operand_sliced(const bs_context *c, int32_t value, int32_t row, const int32_t *loops,
                                      int32_t count, bs_operand *o)
{
    bs_operand whole;
    bs_operand_extent(c, value, row, &whole);
    operand_found(c, value, row, &whole);
    bs_operand_trips(c, loops, count, &whole, o);
}

/* From view to view, to the value that has rows of its own or those of a root tensor: which row of it `row` is, and of
 * which loops a trip's part is meant, loops[BS_MAX_RANK]. */
static int32_t see_through(const bs_context *c, int32_t *value, int32_t row, int32_t *loops, int32_t *slices)
{
    const bs_session *s = c->session;
    while (s->plan->values[*value].storage == BS_STORAGE_VIEW || bs_operand_is_seen(c, *value)) {
        *value = seen_through(s, *value);
        const bs_node *view = &s->graph->nodes[s->graph->values[*value].node];
        if (view->router == 0)
            break;
        if (bs_view_slices(s->graph, view) && *slices < BS_MAX_RANK)
            loops[(*slices)++] = view->router;
        row = c->domains[s->graph->values[*value].domain].ids[row];
        *value = s->plan->values[*value].source;
    }
    return row;
}

/* Row `row` of a view: where what it is a view of has it. */
static void operand_viewed(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    int32_t loops[BS_MAX_RANK], slices = 0;
    row = see_through(c, &value, row, loops, &slices);
    if (slices == 0)
        operand_found(c, value, row, o);
    else
        operand_sliced(c, value, row, loops, slices, o);
}

int32_t bs_operand_row(const bs_context *c, int32_t value, int32_t row)
{
    const bs_session *s = c->session;
    int32_t loops[BS_MAX_RANK], slices = 0;
    if (s->plan->values[value].source == 0)
        return row;
    row = see_through(c, &value, row, loops, &slices);
    return s->plan->values[value].storage == BS_STORAGE_VIEW ? bs_top_row(c, s->graph->values[value].domain, row) : row;
}

/* A row that lies in the root, or where what it is a view of has it. Not inlined, as above. */
static BS_OUTLINE void operand_elsewhere(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    if (c->session->graph->values[value].domain == 0) {
        bs_operand_root(c, value, o);
        return;
    }
    operand_extent(c, value, row, o);
    operand_viewed(c, value, row, o);
}

void bs_operand_make(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    if (c->session->graph->values[value].domain == 0 || c->session->plan->values[value].source != 0) {
        operand_elsewhere(c, value, row, o);
        return;
    }
    operand_extent(c, value, row, o);
    operand_own(c, value, row, o);
}
