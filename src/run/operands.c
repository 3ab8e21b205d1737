/* run/operands.c - finding the rows of a value, by what plan/locate.h says of it and the decisions of a context. Views
 * cost nothing but the lookup. Relies on run/operands.h. Must never move anything, or know of threads. */
#include "run/operands.h"

#include "kernels/tier.h"
#include "ops/structure.h"

int32_t bs_top_row(const bs_context *c, int32_t domain, int32_t row)
{
    const bs_graph *g = c->session->graph;
    return c->domains[g->domains[domain].top].first + bs_rows_top(g, c->domains, domain, row);
}

/* ---------------------------------------------------------------------------------------------------- forms */

int32_t bs_forms_count(const bs_plan *p)
{
    int32_t count = 0;
    for (int32_t v = 1; v < p->graph->n_values && !bs_plan_on_device(p); v++)
        count += bs_form_twin(p, v) == 0;
    return count;
}

static void make_form(const bs_plan *p, int32_t value, bs_form *f)
{
    const bs_value_info *v = &p->graph->values[value];
    const int32_t patches = p->graph->domains[v->domain].patches;
    int64_t stride[BS_MAX_AXES];
    bs_strides_stored(p, value, stride);
    f->value = value;
    f->operand.dtype = v->dtype;
    f->operand.rank = v->rank;
    f->operand.image = v->image;
    for (int32_t i = 0; i < v->rank; i++)
        f->operand.stride[i] = (ptrdiff_t)stride[i];
    if (v->image && patches >= 0)
        f->cell = (int32_t)bs_ceil_div((int64_t)p->domains[patches].size * v->scale_num, v->scale_den);
}

void bs_forms_make(bs_session *s)
{
    const bs_plan *p = s->plan;
    int32_t count = 0;
    for (int32_t v = 1; v < s->graph->n_values && !bs_plan_on_device(p); v++) {
        const int32_t twin = bs_form_twin(p, v);
        bs_locate(p, v, &s->locators[v]);
        s->locators[v].form = twin ? s->locators[twin].form : count;
        if (!twin)
            make_form(p, v, &s->forms[count++]);
    }
    s->n_forms = count;
}

void bs_forms_bind(bs_session *s)
{
    const bs_graph *g = s->graph;
    for (bs_form *f = s->forms; f < s->forms + s->n_forms; f++) {
        const bs_value_info *v = &g->values[f->value];
        const int32_t patches = g->domains[v->domain].patches;
        bs_operand *o = &f->operand;
        for (int32_t i = 0; i < v->rank; i++)
            o->dim[i] = (int32_t)s->dims[v->dims[i]];
        if (!v->image)
            continue;
        o->frame_h = o->dim[1];
        o->frame_w = o->dim[2];
        o->rect = (bs_rect){0, o->dim[1], 0, o->dim[2]};
        if (f->cell)
            f->across = (int32_t)bs_ceil_div(s->dims[g->domains[patches].width], s->plan->domains[patches].size);
    }
}

/* ------------------------------------------------------------------------------------------------- extents */

/* A cell of the frame. Not inlined: other values, which are most, would save and restore the registers that this
 * takes. */
static BS_OUTLINE void cut_cell(const bs_context *c, int32_t value, int32_t row, const bs_form *f, bs_operand *o)
{
    const int32_t top = bs_top_row(c, c->session->locators[value].domain, row), cell = f->cell,
                  margin = c->session->plan->values[value].margin;
    o->frame_y = top / f->across * cell;
    o->frame_x = top % f->across * cell;
    o->dim[1] = bs_min_i32(cell, o->frame_h - o->frame_y);
    o->dim[2] = bs_min_i32(cell, o->frame_w - o->frame_x);
    o->rect = (bs_rect){bs_max_i32(-margin, -o->frame_y), bs_min_i32(cell + margin, o->frame_h - o->frame_y),
                        bs_max_i32(-margin, -o->frame_x), bs_min_i32(cell + margin, o->frame_w - o->frame_x)};
}

static inline void operand_extent(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_form *f = &c->session->forms[c->session->locators[value].form];
    *o = f->operand;
    if (f->cell)
        cut_cell(c, value, row, f, o);
}

void bs_operand_extent(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    operand_extent(c, value, row, o);
}

/* ---------------------------------------------------------------------------------------------- where rows lie */

void bs_operand_dense(const bs_context *c, int32_t value, bs_operand *o)
{
    const bs_graph *g = c->session->graph;
    ptrdiff_t stride = 1;
    for (int32_t i = o->rank - 1; i >= 0; i--) {
        o->stride[i] = stride;
        stride *= (ptrdiff_t)bs_dim_max(g, g->values[value].dims[i]);
    }
}

void bs_operand_bound(const bs_context *c, int32_t node, bs_operand *o)
{
    const bs_bound *bound = bs_bound_of(c->session, node);
    const bs_buffer *b = &bound->buffer;
    o->data = b->data;
    o->row_stride = 0;
    for (int32_t i = 0; i < b->rank; i++)
        o->stride[i] = (ptrdiff_t)b->stride[i];
    if (bound->cache_lengths) { /* the copy that was checked, not the caller's buffer */
        o->data = bound->cache_lengths;
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

/* Whether an image with rows of its own lies in what is bound to its source, an output or an input: kernels take images
 * channels last. */
static bool lies_as_bound(const bs_context *c, int32_t node)
{
    const bs_buffer *b = &bs_bound_of(c->session, node)->buffer;
    return (b->dim[0] == 1 || b->stride[0] == 1) && b->stride[2] == b->dim[0];
}

/* The one row of a root value; o has its strides as the plan stores it. */
static void at_root(const bs_context *c, const bs_locator *l, bs_operand *o)
{
    const bs_session *s = c->session;
    if (l->memory == BS_OF_CALLER || (l->memory == BS_OF_EITHER && lies_as_bound(c, l->bound))) {
        bs_operand_bound(c, l->bound, o);
        return;
    }
    o->data = bs_bytes_at(l->memory == BS_OF_WEIGHTS ? s->weights : s->transient, l->base);
    o->row_stride = 0;
}

/* Row `row` of a value, as found at the end of the views to it; o has the strides of `l` as the plan stores it. */
static BS_INLINE_IF_FAST void at_row(const bs_context *c, const bs_locator *l, int32_t row, bs_operand *o)
{
    if (l->place == BS_AT_ROOT) {
        at_root(c, l, o);
    } else if (l->place == BS_AT_CELL || l->place == BS_AT_LINE) {
        bs_operand root;
        operand_extent(c, l->source, 0, &root);
        at_root(c, &c->session->locators[l->source], &root);
        bs_operand_step(o, &root, bs_top_row(c, l->domain, row));
    } else {
        uint8_t *const memory = l->in_tile ? c->scratch : c->session->transient;
        const int32_t at = l->in_tile ? row : c->domains[l->domain].first + row;
        o->data = bs_bytes_row(memory, l->base, at, l->row_bytes);
        o->row_stride = (ptrdiff_t)bs_bytes_figure(l->row_bytes) >> l->shift; /* a division is slow */
    }
}

/* -------------------------------------------------------------------------------------------------- views */

/* Whether the rows of a path stand side by side around it: their ids ascend. */
static bool is_in_a_row(const bs_rows_state *rows)
{
    return rows->count > 0 && rows->ids[rows->count - 1] - rows->ids[0] == rows->count - 1;
}

/* So they must on every way from view to view. */
static bool is_seen(const bs_context *c, const bs_locator *l)
{
    const bs_locator *const all = c->session->locators;
    bool seen = l->place == BS_AT_SEEN && is_in_a_row(&c->domains[l->domain]);
    while (seen && all[l->source].place == BS_AT_ABOVE) {
        l = &all[l->source];
        seen = is_in_a_row(&c->domains[l->domain]);
    }
    return seen;
}

bool bs_operand_is_seen(const bs_context *c, int32_t value) { return is_seen(c, &c->session->locators[value]); }

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

/* From view to view, to the value that has rows of its own or those of a root tensor: which row of it `row` is, and of
 * which loops a trip's part is meant, loops[BS_MAX_RANK]. */
static const bs_locator *see_through(const bs_context *c, int32_t *value, int32_t *row, int32_t *loops, int32_t *slices)
{
    const bs_locator *const all = c->session->locators, *l = &all[*value];
    while (l->place >= BS_AT_ABOVE && (l->place == BS_AT_ABOVE || is_seen(c, l))) {
        if (l->loop && *slices < BS_MAX_RANK)
            loops[(*slices)++] = l->loop;
        *row = c->domains[l->domain].ids[*row];
        *value = l->source;
        l = &all[l->source];
    }
    return l;
}

/* Row `row` of a view: where what it is a view of has it. Not inlined, as above. */
static BS_OUTLINE void operand_viewed(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    int32_t loops[BS_MAX_RANK], slices = 0;
    const bs_locator *l = see_through(c, &value, &row, loops, &slices);
    bs_operand found;
    operand_extent(c, value, row, &found);
    at_row(c, l, row, &found);
    bs_operand_trips(c, loops, slices, &found, o);
}

int32_t bs_operand_row(const bs_context *c, int32_t value, int32_t row)
{
    int32_t loops[BS_MAX_RANK], slices = 0;
    const bs_locator *l = see_through(c, &value, &row, loops, &slices);
    return l->place == BS_AT_CELL || l->place == BS_AT_LINE ? bs_top_row(c, l->domain, row) : row;
}

void bs_operand_make(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_locator *l = &c->session->locators[value];
    operand_extent(c, value, row, o);
    if (l->place >= BS_AT_ABOVE)
        operand_viewed(c, value, row, o);
    else
        at_row(c, l, row, o);
}
