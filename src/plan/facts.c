/* plan/facts.c - what follows from a graph and the planner's decisions: sizes, margins, who reads what and how. The
 * planner uses it while it decides, and so do the checks of an image and sessions: all go by the same rules. Relies on
 * plan/plan.h. Must never decide anything: this file stays in builds without the planner. */
#include "plan/plan.h"

#include "ops/structure.h"
#include "ops/weights.h"
#include "plan/device.h"
#include "plan/tails.h"

void bs_plan_begin(bs_plan *p)
{
    p->threads = bs_plan_on_device(p) ? 1 : bs_or_default(p->desc.threads, 1);
    p->shared_bytes = bs_bytes_array(bs_or_default(p->desc.shared_bytes, 98304) - BS_DEVICE_SHARED, 1);
}

static bs_bytes staging_of_node(const bs_graph *g, const bs_node *node)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t count = bs_node_weights(g, node, specs);
    return bs_weight_staging(bs_op_get(node->op), specs, count);
}

static void sum_nodes(bs_plan *p)
{
    p->weight_bytes = p->staging_bytes = p->kernel_scratch_bytes = bs_bytes_of(0);
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        const bs_node_plan *np = &p->nodes[n];
        if (!p->node_live[n])
            continue;
        p->kernel_scratch_bytes = bs_bytes_max(p->kernel_scratch_bytes, np->scratch_bytes);
        if (np->unit != 0)
            continue;
        if (np->owner == n)
            p->staging_bytes = bs_bytes_max(p->staging_bytes, staging_of_node(p->graph, &p->graph->nodes[n]));
        p->weight_bytes = bs_bytes_max(p->weight_bytes,
                                       bs_bytes_align(bs_bytes_add(np->prepared_offset, np->prepared_bytes)));
    }
}

void bs_plan_sum(bs_plan *p)
{
    sum_nodes(p);
    p->transient_bytes = p->kernel_scratch_offset = bs_bytes_of(0);
    for (int32_t v = 1; v < p->graph->n_values; v++)
        if (p->values[v].storage == BS_STORAGE_TRANSIENT)
            p->transient_bytes = bs_bytes_max(p->transient_bytes, bs_plan_end(&p->values[v]));
    for (int32_t k = 0; k < p->n_parts; k++)
        p->kernel_scratch_offset = bs_bytes_max(p->kernel_scratch_offset, bs_bytes_align(p->parts[k].scratch_bytes));
    p->scratch_bytes = bs_bytes_add(p->kernel_scratch_offset, bs_bytes_align(p->kernel_scratch_bytes));
    p->most_parts = p->most_phase_units = 0;
    for (int32_t r = 0; r < p->n_regions; r++)
        p->most_parts = bs_max_i32(p->most_parts, p->regions[r].count);
    for (int32_t s = 0; s < p->n_phases; s++)
        p->most_phase_units = bs_max_i32(p->most_phase_units, p->phases[s].n_units);
    p->last_route = -1;
    for (int32_t k = 0; k < p->n_top; k++)
        p->last_route = p->instrs[k].kind == BS_INSTR_ROUTE ? k : p->last_route;
}

int32_t bs_plan_side_by_side(const bs_plan *p, int32_t first)
{
    const bs_instr *i = &p->instrs[first];
    int32_t end = first;
    do
        end++;
    while (end < p->n_top && end - first < BS_SIDE_BY_SIDE && p->instrs[end].time == i->time &&
           i->time < BS_TIME_END && i->kind != BS_INSTR_RUN && p->instrs[end].kind != BS_INSTR_RUN &&
           !bs_plan_streams(p));
    return end;
}

bool bs_plan_is_within(const bs_graph *g, int32_t domain, int32_t above)
{
    while (domain != above && g->domains[domain].kind == BS_DOMAIN_PATH)
        domain = g->domains[domain].parent;
    return domain == above;
}

int32_t bs_plan_top_domain(const bs_graph *graph, int32_t domain)
{
    return graph->domains[domain].top;
}

static int32_t innermost_path(const bs_graph *g, int32_t domain)
{
    while (g->domains[domain].kind == BS_DOMAIN_PATH && bs_router_loops(g, g->domains[domain].router))
        domain = g->domains[domain].parent;
    return g->domains[domain].kind == BS_DOMAIN_PATH ? domain : 0;
}

int32_t bs_plan_unit_path(const bs_plan *plan, int32_t domain)
{
    const bs_graph *g = plan->graph;
    return plan->domains[bs_plan_top_domain(g, domain)].nested ? innermost_path(g, domain) : g->domains[domain].routed;
}

void bs_plan_core(const bs_plan *plan, const bs_value_info *value, int64_t *h, int64_t *w)
{
    const bs_graph *g = plan->graph;
    *h = value->image ? bs_dim_max(g, value->dims[1]) : 1;
    *w = value->image ? bs_dim_max(g, value->dims[2]) : 1;
    const int32_t patches = g->domains[value->domain].patches;
    if (!value->image || patches < 0)
        return;
    const int64_t cell = bs_ceil_div((int64_t)plan->domains[patches].size * value->scale_num, value->scale_den);
    *h = bs_min_i64(*h, cell);
    *w = bs_min_i64(*w, cell);
}

void bs_plan_size_domain(const bs_plan *plan, int32_t domain, bs_domain_plan *p)
{
    const bs_graph *g = plan->graph;
    const bs_domain *d = &g->domains[domain];
    p->tile_rows = d->top > 0 && plan->domains[d->top].images ? 1 : BS_TILE_ROWS;
    p->max_rows = d->kind == BS_DOMAIN_PATH ? plan->domains[d->parent].max_rows : d->max_rows;
    p->size = bs_domain_is_patches(d) && plan->desc.patch_size > 0 ? plan->desc.patch_size : d->size;
    if (bs_domain_is_patches(d))
        p->max_rows = bs_ceil_div(bs_dim_max(g, d->height), p->size) * bs_ceil_div(bs_dim_max(g, d->width), p->size);
}

void bs_plan_size_router(const bs_plan *plan, int32_t router, bs_router_plan *r)
{
    const int32_t d = plan->graph->routers[router].domain;
    r->in_tile = plan->domains[d].order == BS_ORDER_DEPTH &&
                 (plan->graph->domains[d].kind == BS_DOMAIN_PATH || bs_router_loops(plan->graph, router));
    r->rows = r->in_tile ? plan->domains[d].tile_rows : plan->domains[d].max_rows;
}

/* -------------------------------------------------------------------------------------------------- who reads */

bool bs_plan_gives_all(const bs_plan *plan, const bs_node *gather)
{
    const bs_route_desc *desc = plan->graph->routers[gather->router].desc;
    const int32_t forced = plan->routers[gather->router].forced, *in = bs_node_in(plan->graph, gather);
    bool all = forced || bs_route_leaves_none(desc);
    for (int32_t k = 0; k < desc->paths; k++)
        all = all && (in[k] != 0 || (forced && k != forced - 1));
    return all;
}

/* When the route is forced, every cell takes the forced path. The residual is read only where a path may give nothing,
 * and always by sums. */
static bool reads_of_gather(const bs_plan *plan, const bs_node *gather, int32_t index)
{
    const bs_gather_params *p = gather->params;
    const int32_t forced = plan->routers[gather->router].forced;
    if (index != plan->graph->routers[gather->router].desc->paths)
        return !forced || index == forced - 1;
    return p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED || !bs_plan_gives_all(plan, gather);
}

bool bs_plan_reads(const bs_plan *plan, const bs_node *node, int32_t index)
{
    if (bs_node_gathers(node) && !bs_router_loops(plan->graph, node->router))
        return reads_of_gather(plan, node, index);
    return !plan->routers[node->router].forced /* 0 without a router */ ||
           bs_node_role(node, index) != BS_ROLE_DECIDING;
}

/* Whether a value that is read in place has its channels apart from each other: the same as value *from. *from 0: the
 * result is the answer. */
static bool planar_step(const bs_plan *p, int32_t value, int32_t *from)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[g->values[value].node];
    *from = 0;
    if (node->n_in == 0 || !bs_node_is_view(node))
        return node->n_in == 0 || p->values[value].planar;
    const int32_t in = bs_view_of(g, node);
    if (g->values[in].rank > g->values[value].rank) /* rows of a tensor, or a part of each */
        return true;
    *from = bs_plan_is_stored(p, in) ? 0 : in;
    return bs_plan_is_stored(p, in) && p->values[in].planar;
}

bool bs_plan_is_planar(const bs_plan *plan, int32_t value)
{
    bool planar = planar_step(plan, value, &value);
    while (value != 0)
        planar = planar_step(plan, value, &value);
    return planar;
}

/* Whether it shows rows of a path as they lie around it, or parts of them, and these are no patches. */
static bool is_view_of_rows(const bs_graph *g, const bs_node *node)
{
    return bs_node_is_view(node) && node->router != 0 && node->writer == 0 &&
           g->domains[g->values[bs_view_of(g, node)].domain].patches < 0;
}

int32_t bs_plan_whole_view_of(const bs_plan *p, int32_t n)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    return is_view_of_rows(g, node) && !bs_view_slices(g, node) ? bs_view_of(g, node) : 0;
}

/* Whether a kernel treats rank-3 operands as images: it looks at neighbours or needs channels side by side. */
bool bs_plan_is_of_images(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    return bs_op_has_halo(op) || op->layout.channels_last || op->layout.edges ||
           bs_fusion_is_of_images(p->nodes[n].fusion) ||
           (bs_node_is_view(node) && !is_view_of_rows(p->graph, node));
}

bool bs_plan_may_be_planar(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    const bs_node *node = &p->graph->nodes[v->node];
    const bool stored = bs_node_work(node) == BS_WORK_CALL || bs_loop_collects(p->graph, node) ||
                        bs_node_joins_cells(node);
    return v->image && v->domain == 0 && p->values[value].margin == 0 && !bs_plan_on_device(p) && stored &&
           !bs_plan_is_of_images(p, v->node);
}

bool bs_plan_may_end_in_place(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    const bs_node *node = &p->graph->nodes[v->node];
    return bs_node_joins_cells(node) ||
           (bs_node_work(node) == BS_WORK_CALL && v->domain == 0 && !bs_plan_on_device(p) &&
            (!v->image || p->values[value].planar));
}

bool bs_plan_may_lie_as_bound(const bs_plan *p, int32_t value)
{
    return bs_node_is_input(&p->graph->nodes[p->graph->values[value].node]) && p->graph->values[value].image &&
           p->values[value].margin == 0 && !bs_plan_on_device(p);
}

/* Whether a node that ends a trip (it hands a value on, or decides whether there is another trip) reads that value
 * through a view. Such a view may be of a carried value, which may be written before it is read. */
static bool ends_a_trip_by_a_view(const bs_plan *p, const bs_node *node, int32_t index, int32_t value)
{
    return bs_router_loops(p->graph, node->router) && bs_node_work(node) != BS_WORK_CALL &&
           !bs_node_is_view(node) && index == 0 &&
           bs_node_is_view(&p->graph->nodes[p->graph->values[value].node]);
}

/* False: the reader needs zeros around the rows, or channels that lie one after the other. */
bool bs_plan_reads_in_a_row(const bs_plan *p, int32_t n, int32_t index, int32_t value)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    const bs_value_info *v = &g->values[value];
    if (bs_node_role(node, index) == BS_ROLE_DECIDING && node->router != 0 &&
        g->routers[node->router].desc->protocol == BS_ROUTE_CALLBACK)
        return g->domains[v->domain].kind != BS_DOMAIN_PATH &&
               !bs_plan_on_device(p); /* a callback sees all rows by one stride */
    if (bs_node_ends_run(node) && v->domain != 0)
        return false; /* copied when states are written: the old content must be kept until then */
    if (bs_op_is_structural(op))
        return !ends_a_trip_by_a_view(p, node, index, value);
    if (!v->image || index >= bs_node_own_in(g, node)) /* steps of a tail take images as they lie */
        return true;
    const bool zeros = bs_op_has_halo(op) && !op->layout.edges && p->values[value].margin > 0;
    const bool channels = bs_plan_is_planar(p, value) &&
                          (op->layout.channels_last || bs_fusion_is_of_images(p->nodes[n].fusion));
    return !zeros && !channels;
}

/* False also where the reader takes rows by one stride that may lie apart, as those of a path do; the one row of the
 * root cannot. Kernels of a device look up where each row lies, unless they work across the rows of a segment; but they
 * do not look up which part of a row belongs to the trip. */
bool bs_plan_reads_in_place(const bs_plan *p, int32_t n, int32_t index, int32_t value)
{
    const bs_domain *domain = &p->graph->domains[p->graph->values[value].domain];
    const bs_op *op = bs_op_get(p->graph->nodes[n].op);
    const bool apart = domain->kind == BS_DOMAIN_PATH && domain->patches < 0 && domain->max_rows > 1 &&
                       !bs_op_is_structural(op) && !(op->layout.picks && index == 0) &&
                       (!bs_plan_on_device(p) || op->rows.of == BS_ROWS_SEGMENT);
    const bool trip = bs_plan_on_device(p) && bs_view_slices(p->graph, &p->graph->nodes[p->graph->values[value].node]);
    return !apart && !trip && bs_plan_reads_in_a_row(p, n, index, value);
}

bool bs_plan_may_be_seen(const bs_plan *p, int32_t value)
{
    const bs_node *node = &p->graph->nodes[p->graph->values[value].node];
    return bs_node_is_view(node) && bs_router_loops(p->graph, node->router) && !bs_plan_on_device(p);
}

int32_t bs_plan_updates(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[g->values[value].node];
    const int32_t carried = bs_op_get(node->op)->memory.updates ? bs_node_in(g, node)[0] : 0;
    const bs_node *carry = &g->nodes[g->values[carried].node];
    const bool after = carried != 0 && bs_node_is_view(carry) && carry->domain == node->domain &&
                       carry->writer != 0 && bs_node_in(g, &g->nodes[carry->writer])[0] == value;
    return after && !bs_plan_on_device(p) ? carried : 0;
}

bool bs_plan_is_seen(const bs_plan *p, int32_t value)
{
    return p->values[value].source != 0 && bs_plan_is_stored(p, value) && bs_plan_may_be_seen(p, value);
}

/* --------------------------------------------------------------------------------------------- other dimensions */

int32_t bs_plan_rows_of(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    while (p->values[value].storage == BS_STORAGE_VIEW && g->values[value].reshaped)
        value = bs_node_in(g, &g->nodes[g->values[value].node])[0];
    return value;
}

/* Whether its elements lie one after the other in the order of its dimensions, whatever symbols are: strides come from
 * maxima, so only the first dimension that may be more than one may be a symbol. */
static bool lies_in_order(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const bs_value_info *v = &g->values[value];
    bool order = !v->image || p->values[value].margin == 0, first = true;
    int64_t h, w;
    bs_plan_core(p, v, &h, &w);
    if (v->image && !p->values[value].planar && h * w > 1)
        order = order && bs_dim_max(g, v->dims[0]) == 1;
    for (int32_t d = 0; d < v->rank; d++) {
        const bool one = bs_dim_max(g, v->dims[d]) == 1;
        order = order && (one || first || bs_dim_is_const(g, v->dims[d]));
        first = first && one;
    }
    return order;
}

bool bs_plan_may_show(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[g->values[value].node];
    if (!g->values[value].reshaped || node->n_tail || p->desc.no_fusion)
        return false;
    const int32_t x = bs_node_in(g, node)[0], in = bs_plan_rows_of(p, x); /* a fusion has not made it */
    return bs_plan_is_stored(p, in) && p->values[in].source == 0 && lies_in_order(p, x) && lies_in_order(p, value);
}

/* ---------------------------------------------------------------------------------------------------- gathers */

bool bs_plan_is_packed(const bs_graph *g, const bs_node *node)
{
    return g->routers[node->router].max_paths_per_cell > 1 ||
           ((const bs_gather_params *)node->params)->mode == BS_GATHER_ADD ||
           ((const bs_gather_params *)node->params)->mode == BS_GATHER_WEIGHTED;
}

/* How a packed gather combines the rows of several paths. */
bs_combine bs_plan_combine(const bs_node *gather)
{
    switch ((bs_gather_mode)((const bs_gather_params *)gather->params)->mode) {
    case BS_GATHER_ADD: return BS_COMBINE_SUM;
    case BS_GATHER_WEIGHTED: return BS_COMBINE_WEIGHTED_SUM;
    case BS_GATHER_PLACE:
    case BS_GATHER_SELECT:
    case BS_GATHER_COUNT: break;
    }
    return BS_COMBINE_SELECT;
}

/* ---------------------------------------------------------------------------------------------------- storage */

static int32_t margin_of_outputs(const bs_plan *plan, const bs_node *node)
{
    int32_t margin = 0;
    for (int32_t i = 0; i < node->n_out; i++)
        margin = bs_max_i32(margin, plan->values[node->first_out + i].margin);
    return margin;
}

/* Outside a patch domain nothing is computed around an output, so only the op's own window counts. */
int32_t bs_plan_margin_for(const bs_plan *plan, const bs_node *node, int32_t index, int32_t margin)
{
    const bs_graph *g = plan->graph;
    const bs_op *op = bs_op_get(node->op);
    const int32_t out = g->domains[node->domain].patches >= 0 ? margin : 0;
    if (bs_node_joins_cells(node) || (bs_node_is_view(node) && node->router == 0) || node->n_out == 0)
        return 0;
    return bs_op_has_halo(op) && index < bs_node_own_in(g, node) ? op->rules->halo(g, node, index, out) : out;
}

int32_t bs_plan_margin_needed(const bs_plan *plan, const bs_node *node, int32_t index)
{
    return bs_plan_margin_for(plan, node, index, margin_of_outputs(plan, node));
}

bs_bytes bs_plan_row_bytes(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    bs_bytes elements = bs_value_elements(p->graph, v);
    if (v->image) {
        int64_t h, w;
        const int64_t margin = p->values[value].margin;
        bs_plan_core(p, v, &h, &w);
        elements = bs_bytes_times(bs_bytes_array(bs_dim_max(p->graph, v->dims[0]), 1), h + 2 * margin);
        elements = bs_bytes_times(elements, w + 2 * margin);
    }
    return bs_bytes_align(bs_bytes_product(elements, bs_bytes_of(bs_dtype_bytes(bs_plan_stored(p, value)))));
}

int64_t bs_plan_storage_rows(const bs_plan *p, int32_t value)
{
    const bs_domain *d = &p->graph->domains[p->graph->values[value].domain];
    const int32_t domain = p->graph->values[value].domain;
    if (p->values[value].storage == BS_STORAGE_SCRATCH)
        return p->domains[domain].tile_rows;
    if (d->kind != BS_DOMAIN_PATH)
        return p->domains[domain].max_rows;
    return p->domains[domain].max_rows * p->graph->routers[d->router].max_paths_per_cell;
}

int32_t bs_plan_domain_beyond_shared(const bs_plan *p)
{
    for (int32_t k = 0; bs_plan_on_device(p) && k < p->n_parts; k++) {
        const int32_t top = bs_plan_top_domain(p->graph, p->parts[k].domain);
        if (bs_bytes_less(p->shared_bytes, p->parts[k].scratch_bytes) && !p->domains[top].streams)
            return top;
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- weights */

bs_bytes bs_plan_canonical_bytes(const bs_graph *g, const bs_node *node)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t count = bs_node_weights(g, node, specs);
    return bs_weight_offset(specs, count);
}

bool bs_plan_needs_weights(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    return p->node_live[n] && bs_plan_reads(p, node, 0) && bs_node_weights(p->graph, node, specs) > 0;
}

void bs_plan_size_node(const bs_plan *p, int32_t n, bs_node_plan *np)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    int64_t h = 1, w = 1;
    if (node->n_out > 0) {
        const int32_t margin = p->values[node->first_out].margin;
        bs_plan_core(p, &g->values[node->first_out], &h, &w);
        h += 2 * margin;
        w += 2 * margin;
    }
    np->tier = p->tier;
    np->half = p->desc.half;
    np->algorithm = np->work_items = 0;
    np->adds = false;
    np->phases = np->grain = 1;
    np->images = 1;
    np->scratch_bytes = bs_bytes_of(0);
    np->prepared_bytes = bs_plan_canonical_bytes(g, node);
    /* larger plans are refused, whatever kernels want */
    if (op->rules && op->rules->plan && bs_bytes_figure(np->prepared_bytes) < BS_MAX_PLAN_BYTES)
        op->rules->plan(g, node, (bs_conv_choice)p->desc.conv, (int32_t)h, (int32_t)w, np);
    if (bs_plan_on_device(p) && !op->memory.on_device)
        np->scratch_bytes = bs_bytes_of(0); /* blocks of a device have their own scratch */
    else if (node->n_tail && !np->fusion)
        np->scratch_bytes = bs_bytes_add(bs_bytes_align(np->scratch_bytes),
                                         bs_tails_scratch(g, node, np, h, w));
}

bool bs_plan_laid_out_alike(const bs_plan *p, int32_t a, int32_t b)
{
    const bs_node_plan *x = &p->nodes[a], *y = &p->nodes[b];
    const bs_weights_contract *weights = bs_op_weights_of(bs_op_get(p->graph->nodes[a].op));
    return x->unit == y->unit && x->algorithm == y->algorithm && bs_bytes_same(x->prepared_bytes, y->prepared_bytes) &&
           (!weights || !weights->same_layout ||
            weights->same_layout(p->graph, &p->graph->nodes[a], &p->graph->nodes[b]));
}
