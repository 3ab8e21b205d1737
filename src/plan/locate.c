/* plan/locate.c - where the rows of a value are, from its storage class and the views it is read through.
 * Relies on plan/locate.h. Must never look at what a run brings. */
#include "plan/locate.h"

#include "ops/structure.h"

enum { FORM_REACH = 24 }; /* how far back a value looks for one of its form: paths of a router are alike */

int64_t bs_strides_stored(const bs_plan *p, int32_t value, int64_t stride[BS_MAX_AXES])
{
    const bs_value_info *v = &p->graph->values[value];
    const bs_value_plan *stored = &p->values[value];
    int64_t step = 1, h, w;
    if (!v->image || stored->planar || stored->storage == BS_STORAGE_WEIGHT) {
        for (int32_t i = v->rank - 1; i >= 0; i--) {
            stride[i] = step;
            step *= bs_dim_max(p->graph, v->dims[i]);
        }
        return 0;
    }
    bs_plan_core(p, v, &h, &w); /* channels last, behind the margins above and to the left */
    stride[0] = 1;
    stride[2] = bs_dim_max(p->graph, v->dims[0]);
    stride[1] = stride[2] * (w + 2 * (int64_t)stored->margin);
    return stored->margin * (stride[1] + stride[2]);
}

/* A value of the root. */
static void locate_root(const bs_plan *p, const bs_value_plan *v, bs_locator *l)
{
    const bool caller = v->storage == BS_STORAGE_INPUT || v->storage == BS_STORAGE_OUTPUT ||
                        v->storage == BS_STORAGE_STATE,
               either = v->storage == BS_STORAGE_TRANSIENT && v->source != 0;
    l->place = BS_AT_ROOT;
    l->memory = caller ? BS_OF_CALLER : either ? BS_OF_EITHER : BS_OF_PLAN;
    l->bound = caller || either ? v->source : 0;
    if (v->storage != BS_STORAGE_WEIGHT)
        return;
    l->memory = BS_OF_WEIGHTS;
    l->base = p->nodes[v->source].prepared_offset;
}

/* A value that is seen through a view: itself, or the carried value in whose place it is made. */
static void locate_view(const bs_plan *p, int32_t value, bs_locator *l)
{
    const bs_graph *g = p->graph;
    const bs_node *made = &g->nodes[g->values[value].node];
    const int32_t through = bs_node_is_view(made) ? value : bs_node_in(g, made)[0];
    const bs_node *view = &g->nodes[g->values[through].node];
    l->source = p->values[through].source;
    if (view->router == 0)
        l->place = g->values[value].rank == g->values[l->source].rank ? BS_AT_CELL : BS_AT_LINE;
    else
        l->loop = bs_view_slices(g, view) ? view->router : 0;
}

void bs_locate(const bs_plan *p, int32_t value, bs_locator *l)
{
    const bs_value_info *v = &p->graph->values[value];
    const bs_value_plan *stored = &p->values[bs_plan_rows_of(p, value)];
    const size_t bytes = bs_dtype_bytes(bs_plan_stored(p, value));
    int64_t stride[BS_MAX_AXES];
    memset(l, 0, sizeof *l);
    l->domain = v->domain;
    l->shift = (uint8_t)(bytes / 2); /* of 1, 2 or 4 */
    l->row_bytes = stored->row_bytes;
    l->in_tile = stored->storage == BS_STORAGE_SCRATCH;
    l->base = bs_bytes_add(stored->offset, bs_bytes_array(bs_strides_stored(p, value, stride), bytes));
    l->place = l->in_tile ? BS_AT_TILE : BS_AT_ROWS;
    if (v->domain == 0) {
        locate_root(p, stored, l);
    } else if (stored->storage == BS_STORAGE_VIEW || bs_plan_is_seen(p, value)) {
        l->place = stored->storage == BS_STORAGE_VIEW ? BS_AT_ABOVE : BS_AT_SEEN;
        locate_view(p, value, l);
    }
}

static bool are_alike(const bs_plan *p, int32_t a, int32_t b)
{
    const bs_value_info *v = &p->graph->values[a], *w = &p->graph->values[b];
    const bs_value_plan *x = &p->values[a], *y = &p->values[b];
    return v->rank == w->rank && v->dtype == w->dtype && v->image == w->image && x->planar == y->planar &&
           x->margin == y->margin &&
           (x->storage == BS_STORAGE_WEIGHT) == (y->storage == BS_STORAGE_WEIGHT) && v->scale_num == w->scale_num &&
           v->scale_den == w->scale_den &&
           p->graph->domains[v->domain].patches == p->graph->domains[w->domain].patches &&
           memcmp(v->dims, w->dims, sizeof v->dims) == 0;
}

int32_t bs_form_twin(const bs_plan *p, int32_t value)
{
    for (int32_t v = value - 1; v > 0 && v >= value - FORM_REACH; v--)
        if (are_alike(p, v, value))
            return v;
    return 0;
}
