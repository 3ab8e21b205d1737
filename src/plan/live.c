/* plan/live.c - the first pass of planning: what is needed at all, which routes are forced, in which order each domain
 * runs, and how much margin each value carries.
 * Relies on plan/plan.h. Must never assign memory. */
#include "plan/plan.h"
#include "ops/structure.h"

#if !defined(BS_NO_PLANNER)

/* ------------------------------------------------------------------------------------------- forced routes */

static bool force_routes(bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t f = 0; f < plan->desc.n_forces; f++) {
        const bs_force *force = &plan->desc.forces[f];
        const int32_t found = bs_graph_router_named(g, force->router);
        if (!found || force->path < 0 || force->path >= g->routers[found].desc->paths)
            return bs_refuse(error, BS_ERROR_ARGUMENT,
                             "cannot force path %" PRId32 " of router \"%s\": there is no such %s", force->path,
                             force->router ? force->router : "", found ? "path" : "router");
        if (bs_router_loops(g, found))
            return bs_refuse(error, BS_ERROR_ARGUMENT, "cannot force router \"%s\": it is a loop", force->router);
        plan->routers[found].forced = force->path + 1;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------- liveness */

/* A node that was found to be needed waits in a list until its operands are marked. */
typedef struct live_pass {
    bs_plan *plan;
    int32_t *waiting; /* [nodes] */
    int32_t n_waiting;
    int32_t *follower;   /* [nodes] for a look-ahead: the next one about the same router; 0: none */
    int32_t *look_ahead; /* [routers] the first look-ahead about it, or 0 */
} live_pass;

static void mark_node(live_pass *l, int32_t node)
{
    if (node == 0 || l->plan->node_live[node])
        return;
    l->plan->node_live[node] = true;
    l->waiting[l->n_waiting++] = node;
}

static void mark(live_pass *l, int32_t value)
{
    if (value > 0)
        mark_node(l, l->plan->graph->values[value].node);
}

/* A needed loop has an end. Where weights are streamed, a needed decision also needs the look-aheads about it. */
static void mark_router(live_pass *l, int32_t router)
{
    bs_router_plan *r = &l->plan->routers[router];
    if (r->live)
        return;
    r->live = true;
    mark_node(l, l->plan->graph->routers[router].node);
    mark_node(l, l->plan->graph->routers[router].loop.again);
    const bool streams = l->plan->desc.slot_bytes > 0 && !r->forced;
    for (int32_t n = l->look_ahead[router]; streams && n != 0; n = l->follower[n])
        mark_node(l, n);
}

/* A domain needs the router that decided for it, whose own domain is above it, and the input that groups its rows. */
static void mark_domain(live_pass *l, int32_t domain)
{
    const bs_domain *d = &l->plan->graph->domains[domain];
    if (d->kind == BS_DOMAIN_PATH) {
        mark_router(l, d->router);
        return;
    }
    l->plan->domains[domain].live = true;
    mark(l, d->lengths);
}

/* What a node makes has extents. (So has what collects the rows of a domain: as many as these are.) */
static void mark_extents(live_pass *l, const bs_node *node)
{
    const bs_graph *g = l->plan->graph;
    for (const bs_value_info *v = &g->values[node->first_out]; v < &g->values[node->first_out + node->n_out]; v++)
        for (int32_t i = 0; i < v->rank; i++)
            mark_node(l, g->dims[v->dims[i]].node);
}

static void mark_operands(live_pass *l, const bs_node *node)
{
    const bs_plan *plan = l->plan;
    int32_t n_in;
    const int32_t *in = bs_plan_in(plan, (int32_t)(node - plan->graph->nodes), &n_in);
    for (int32_t i = 0; i < n_in; i++)
        if (bs_plan_reads(plan, node, i))
            mark(l, in[i]);
    if (node->router)
        mark_router(l, node->router);
}

/* Finds the router of each look-ahead: bs_node_plan.ahead_of. */
static bool find_look_aheads(bs_plan *p, bs_error *error)
{
    const bs_graph *g = p->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!bs_plan_looks_ahead(&g->nodes[n]))
            continue;
        const int32_t router = bs_graph_router_named(g, bs_node_name(&g->nodes[n]));
        if (!bs_plan_look_ahead_fits(p, n, router, error))
            return false;
        p->nodes[n].ahead_of = router;
    }
    return true;
}

/* Finds the look-aheads about each decision. */
static void find_followers(live_pass *l)
{
    const bs_graph *g = l->plan->graph;
    memset(l->follower, 0, (size_t)g->n_nodes * sizeof *l->follower);
    memset(l->look_ahead, 0, (size_t)g->n_routers * sizeof *l->look_ahead);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!bs_plan_looks_ahead(&g->nodes[n]))
            continue;
        int32_t *first = &l->look_ahead[l->plan->nodes[n].ahead_of];
        l->follower[n] = *first;
        *first = n;
    }
}

/* Goes from the outputs backwards to everything that is needed. A state, or a carried value, is kept when a needed node
 * reads it: then what writes it is needed, too. */
static void find_live(live_pass *l)
{
    const bs_graph *g = l->plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (bs_node_is_output(&g->nodes[n]))
            mark_node(l, n);
    while (l->n_waiting > 0) {
        const int32_t n = l->waiting[--l->n_waiting];
        mark_operands(l, &g->nodes[n]);
        mark_domain(l, g->nodes[n].domain);
        mark_extents(l, &g->nodes[n]);
        mark_node(l, g->nodes[n].writer);
    }
}

/* -------------------------------------------------------------------------------------------------- order */

/* What is decided tile by tile cannot wait for rows of other tiles. */
static void need_all_rows(bs_plan *plan, const bs_node *node)
{
    const bs_graph *g = plan->graph;
    const int32_t *in = bs_node_in(g, node);
    for (int32_t i = 0; i < node->n_in && bs_op_sees_rows(bs_op_get(node->op)); i++) {
        const bs_domain *d = &g->domains[g->values[in[i]].domain];
        if (d->kind == BS_DOMAIN_PATH)
            plan->domains[d->top].whole = true;
    }
}

/* Whether a node with streamed weights is on a path inside of another: neither need be loaded with the other. */
static bool is_path_in_path(const bs_plan *plan, int32_t n)
{
    const bs_graph *g = plan->graph;
    int32_t paths = 0;
    for (int32_t d = g->nodes[n].domain; g->domains[d].kind == BS_DOMAIN_PATH; d = g->domains[d].parent)
        paths += !bs_router_loops(g, g->domains[d].router) && !plan->routers[g->domains[d].router].forced;
    return paths > 1 && bs_plan_node_streams(plan, n);
}

/* Finds what decides the order of a top-level domain: images, streamed weights of routed blocks, and decisions below
 * it that need all rows at once. Outermost routers decide for all rows anyway; a nested one can decide tile by tile
 * when its rows do not influence each other and it has no callback. */
static void look_into_trees(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        bs_domain_plan *top = &plan->domains[bs_plan_top_domain(g, node->domain)];
        if (!plan->node_live[n])
            continue;
        top->images = top->images || (node->n_out > 0 && g->values[node->first_out].image);
        need_all_rows(plan, node);
        top->streams = top->streams || (g->domains[node->domain].outermost && bs_plan_node_streams(plan, n));
        top->nested = top->nested || is_path_in_path(plan, n);
    }
    for (int32_t r = 1; r < g->n_routers; r++) {
        const bs_router_info *router = &g->routers[r];
        const int32_t top = bs_plan_top_domain(g, router->domain);
        plan->domains[top].whole = plan->domains[top].whole || (router->loop.grows && plan->routers[r].live);
        if (router->domain != top && plan->routers[r].live && !plan->routers[r].forced &&
            bs_protocol_sees_all_rows(router->desc->protocol))
            plan->domains[top].whole = true;
    }
}

void bs_plan_spread_orders(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t d = 0; d < g->n_domains; d++)
        plan->domains[d].order = plan->domains[bs_plan_top_domain(g, d)].order;
    for (int32_t i = 1; i < g->n_routers; i++)
        bs_plan_size_router(plan, i, &plan->routers[i]);
}

static void choose_orders(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    look_into_trees(plan);
    for (int32_t d = 0; d < g->n_domains; d++) {
        bs_domain_plan *p = &plan->domains[d];
        const int32_t top = bs_plan_top_domain(g, d);
        const bs_domain_plan *tree = &plan->domains[top];
        bs_plan_size_domain(plan, d, p);
        const bool images = top > 0 && tree->images;
        const bool tiles = plan->desc.order == BS_ORDER_DEPTH || bs_domain_is_patches(&g->domains[top]);
        if (d == top) /* a tile waits for the weights of all of its path; a device's plan has them together as well */
            p->nested = p->nested && top > 0 && !tiles && !bs_plan_on_device(plan);
        const bool wanted = plan->desc.order == BS_ORDER_DEPTH || /* a tile of the only image would keep all of it */
                            (plan->desc.order == BS_ORDER_AUTO && (images ? tree->max_rows > 1 : tree->streams));
        p->order = top > 0 && wanted && !tree->whole && !tree->nested ? BS_ORDER_DEPTH : BS_ORDER_BREADTH;
    }
    bs_plan_spread_orders(plan);
}

/* ------------------------------------------------------------------------------------------------ margins */

static void spread_margins(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = g->n_nodes - 1; n >= 1; n--) {
        const bs_node *node = &g->nodes[n];
        const int32_t *in = bs_node_in(g, node);
        for (int32_t i = 0; plan->node_live[n] && i < node->n_in; i++) {
            if (in[i] == 0 || !g->values[in[i]].image)
                continue;
            bs_value_plan *v = &plan->values[in[i]];
            v->margin = bs_min_i32(bs_max_i32(v->margin, bs_plan_margin_needed(plan, node, i)), BS_MAX_MARGIN + 1);
        }
    }
}

/* Where the planner chooses, heavy nodes of images in rows run at top level. Patches stay in tiles: few bytes at a time
 * are what they are for. */
static void find_heavy(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const int32_t top = bs_plan_top_domain(g, g->nodes[n].domain);
        bs_domain_plan *p = &plan->domains[top];
        if (plan->desc.order == BS_ORDER_AUTO && !bs_plan_on_device(plan) && plan->node_live[n] && !p->streams &&
            p->order == BS_ORDER_DEPTH && !bs_domain_is_patches(&g->domains[top]) &&
            bs_plan_weight_load(plan, n) == BS_LOAD_HEAVY)
            p->mixed = true;
    }
}

bs_bytes bs_plan_live_workspace(const bs_plan_room *room)
{
    return bs_bytes_align(bs_bytes_array(2 * room->nodes + room->routers, sizeof(int32_t)));
}

static void find_cache_lengths(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const int32_t length = bs_node_operand(node, BS_ROLE_CACHE_LENGTH);
        if (plan->node_live[n] && length >= 0)
            plan->values[bs_node_in(g, node)[length]].is_cache_length = true;
    }
}

bool bs_plan_live(bs_plan *plan, void *workspace, bs_error *error)
{
    const int32_t nodes = plan->graph->n_nodes;
    live_pass l = {plan, workspace, 0, NULL, NULL};
    l.follower = l.waiting + nodes;
    l.look_ahead = l.follower + nodes;
    if (!force_routes(plan, error) || !find_look_aheads(plan, error))
        return false;
    find_followers(&l);
    find_live(&l);
    find_cache_lengths(plan);
    choose_orders(plan);
    spread_margins(plan);
    find_heavy(plan);
    return bs_plan_rows_fit(plan, error);
}

#endif
