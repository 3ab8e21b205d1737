/* plan/limits.c - which descriptions a plan may be made from, and the limits of every plan: rows, cells, margins,
 * bytes. Relies on plan/plan.h. Must never change a plan. */
#include "plan/plan.h"

#include "ops/structure.h"
#include "plan/device.h"

/* A field of bs_plan_desc, and its range. */
typedef struct desc_range {
    char field[14]; /* no pointer: it would have to be relocated */
    uint16_t offset;
    int32_t low, high;
} desc_range;

#define RANGE(field, high) {#field, offsetof(bs_plan_desc, field), 0, high}
static const desc_range desc_ranges[] = {
    RANGE(threads, 64),
    RANGE(tier, BS_TIER_CUDA),
    RANGE(order, BS_ORDER_DEPTH),
    RANGE(conv, BS_CONV_FORCE_REFERENCE),
    RANGE(patch_size, 8192),
    RANGE(n_forces, BS_MAX_FORCES),
    RANGE(no_dataflow, 1), RANGE(no_fusion, 1),
    RANGE(lanes, BS_MAX_LANES),
    RANGE(chunk_bytes, 1 << 30),
    RANGE(half, 1),
    RANGE(in_place, 1),
    RANGE(launch_mode, BS_LAUNCH_COUNT - 1),
    {"shared_bytes", offsetof(bs_plan_desc, shared_bytes), BS_DEVICE_SHARED, 1 << 20},
};
#undef RANGE

bool bs_plan_desc_sound(const bs_plan_desc *d, bs_error *error)
{
    for (size_t i = 0; i < sizeof desc_ranges / sizeof *desc_ranges; i++) {
        const desc_range *r = &desc_ranges[i];
        int32_t n;
        memcpy(&n, (const char *)d + r->offset, sizeof n);
        if (n != 0 && (n < r->low || n > r->high))
            return bs_refuse(error, BS_ERROR_ARGUMENT,
                             "bs_plan_desc.%s is %" PRId32 ", expected %s%" PRId32 " .. %" PRId32, r->field, n,
                             r->low ? "0 or " : "", r->low, r->high);
    }
    if (d->tier != BS_TIER_CUDA && (d->half != 0 || d->shared_bytes != 0 || d->launch_mode != 0 || d->in_place != 0))
        return bs_refuse(
            error, BS_ERROR_ARGUMENT,
            "bs_plan_desc.half, in_place, launch_mode and shared_bytes are for plans of a GPU (BS_TIER_CUDA)");
#if defined(BS_NO_STREAM)
    if (d->slot_bytes > 0)
        return bs_refuse(error, BS_ERROR_UNSUPPORTED, /* unreachable: where there is streaming */
                         "bs_plan_desc.slot_bytes: this build keeps all weights resident (BS_NO_STREAM)");
#endif
    return true;
}

bool bs_plan_look_ahead_fits(const bs_plan *plan, int32_t n, int32_t router, bs_error *error)
{
    const bs_graph *g = plan->graph;
    const bs_node *node = &g->nodes[n];
    const bs_route_desc *d = router ? g->routers[router].desc : NULL;
    if (!d || g->routers[router].node < n || (d->protocol != BS_ROUTE_TOP1 && d->protocol != BS_ROUTE_TOPK))
        return bs_refuse(error, BS_ERROR_GRAPH, "look_ahead \"%s\": no later router of that name chooses the best k",
                         bs_node_name(node));
    const int64_t scores = bs_dim_max(g, g->values[bs_node_in(g, node)[0]].dims[0]);
    if (scores != d->paths)
        return bs_refuse(error, BS_ERROR_SHAPE, "look_ahead \"%s\": %lld scores for %" PRId32 " paths",
                         bs_node_name(node), (long long)scores, d->paths);
    return true;
}

/* Rows are counted in 32 bits, and so are the choices of a router. */
static bool rows_fit(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    char text[112];
    for (int32_t d = 1; d < g->n_domains; d++)
        if (plan->domains[d].max_rows > BS_MAX_ROWS) /* a session counts unneeded rows, too */
            return bs_refuse(error, BS_ERROR_LIMIT, "up to %lld cells in %s, expected 2^30 at most",
                             (long long)plan->domains[d].max_rows, bs_domain_text(g, d, text, sizeof text));
    for (int32_t r = 1; r < g->n_routers; r++) {
        const int64_t rows = plan->domains[g->routers[r].domain].max_rows;
        if (plan->routers[r].live && rows * g->routers[r].max_paths_per_cell > BS_MAX_ROWS)
            return bs_refuse(error, BS_ERROR_LIMIT,
                             "router \"%s\" chooses %" PRId32
                             " paths for up to %lld cells, expected 2^30 choices at most",
                             g->routers[r].desc->name, g->routers[r].max_paths_per_cell, (long long)rows);
    }
    return true;
}

/* Tensors that hold a row a cell were sized for the graph's own patch size. */
static bool cells_fit(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const bool view = bs_node_is_view(node) && node->router == 0;
        if (!plan->node_live[n] || !(view || bs_node_joins_cells(node)))
            continue;
        const bs_value_info *in = &g->values[bs_node_in(g, node)[0]], *out = &g->values[node->first_out];
        const bs_value_info *root = view ? in : out, *cell = view ? out : in;
        const int32_t domain = cell->domain;
        if (root->rank > cell->rank && bs_dim_max(g, root->dims[0]) < plan->domains[domain].max_rows)
            return bs_refuse(error, BS_ERROR_LIMIT,
                             "patch size %" PRId32 " makes up to %lld cells, %s \"%s\" holds %lld: take larger patches",
                             plan->desc.patch_size, (long long)plan->domains[domain].max_rows,
                             bs_op_get(node->op)->name, bs_node_name(node), (long long)bs_dim_max(g, root->dims[0]));
    }
    return true;
}

/* Cells of every scale must be whole pixels. The builder checked this for the graph's own patch size only. */
static bool cells_are_whole(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t v = 1; v < g->n_values; v++) {
        const bs_value_info *value = &g->values[v];
        const int32_t patches = g->domains[value->domain].patches;
        if (!plan->node_live[value->node] || !value->image || patches < 0 ||
            (int64_t)plan->domains[patches].size * value->scale_num % value->scale_den == 0)
            continue;
        return bs_refuse(error, BS_ERROR_SHAPE,
                         "patch size %" PRId32 ": %s \"%s\" makes cells of %" PRId32 "/%" PRId32
                         " of it, which are not whole pixels",
                         plan->domains[patches].size, bs_op_get(g->nodes[value->node].op)->name,
                         bs_node_name(&g->nodes[value->node]), value->scale_num, value->scale_den);
    }
    return true;
}

static bool margins_fit(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t v = 1; v < g->n_values; v++) {
        const bs_node *node = &g->nodes[g->values[v].node];
        if (plan->values[v].margin > BS_MAX_MARGIN)
            return bs_refuse(error, BS_ERROR_LIMIT, "what reads %s \"%s\" needs more than %d pixels around a cell",
                             bs_op_get(node->op)->name, bs_node_name(node), BS_MAX_MARGIN);
    }
    return true;
}

/* After a trip a cell of patches has no neighbours: they may have made another number of trips. */
static bool loops_fit(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const int32_t loop = plan->node_live[n] && bs_router_loops(g, node->router) ? node->router : 0;
        if (loop && bs_node_is_view(node) && node->writer && g->domains[node->domain].patches >= 0 &&
            plan->values[node->first_out].margin > 0)
            return bs_refuse(error, BS_ERROR_UNSUPPORTED,
                             "loop \"%s\" carries value %" PRId32 ", of which %" PRId32
                             " pixels around a cell are read: carry them in "
                             "the value, or loop over the assembled frame",
                             g->routers[loop].desc->name, node->first_out, plan->values[node->first_out].margin);
    }
    return true;
}

bool bs_plan_rows_fit(const bs_plan *plan, bs_error *error)
{
    return rows_fit(plan, error) && cells_fit(plan, error) && cells_are_whole(plan, error) &&
           margins_fit(plan, error) && loops_fit(plan, error);
}

bool bs_plan_bytes_fit(const bs_plan *plan, bs_error *error)
{
    const bs_bytes weights = bs_bytes_add(plan->weight_bytes, plan->all_unit_bytes);
    const bs_bytes total = bs_bytes_add(bs_bytes_add(plan->transient_bytes, plan->scratch_bytes), weights);
    if (bs_bytes_figure(total) > BS_MAX_PLAN_BYTES)
        return bs_refuse(
            error, BS_ERROR_LIMIT,
            "the plan needs %llu bytes of activations, %llu a thread, and %llu of weights, expected 2^46 at most: "
            "are the maxima right?",
            (unsigned long long)bs_bytes_figure(plan->transient_bytes),
            (unsigned long long)bs_bytes_figure(plan->scratch_bytes), (unsigned long long)bs_bytes_figure(weights));
    return true;
}
