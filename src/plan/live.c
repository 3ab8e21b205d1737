/* plan/live.c - the first stage of planning: what is needed at all, which routes are decided ahead, in which order
 * each domain runs, and how much margin each value carries.
 * Relies on plan/plan.h. Must never assign memory. */
#include "plan/plan.h"
#include "ops/structure.h"

int32_t bs_plan_top_domain(const bs_graph *graph, int32_t domain)
{
    return graph->domains[domain].top;
}

void bs_plan_core(const bs_plan *plan, const bs_value_info *value, int64_t *h, int64_t *w)
{
    const bs_graph *g = plan->graph;
    *h = value->rank == 3 ? bs_dim_max(g, value->dims[1]) : 1;
    *w = value->rank == 3 ? bs_dim_max(g, value->dims[2]) : 1;
    const int32_t patches = g->domains[value->domain].patches;
    if (value->rank != 3 || patches < 0)
        return;
    const int64_t cell = bs_ceil_div((int64_t)plan->domains[patches].size * value->scale_num, value->scale_den);
    *h = bs_min_i64(*h, cell);
    *w = bs_min_i64(*w, cell);
}

/* ------------------------------------------------------------------------------------------- forced routes */

static bool force_routes(bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t f = 0; f < plan->desc.n_forces; f++) {
        const bs_force *force = &plan->desc.forces[f];
        int32_t found = 0;
        for (int32_t r = 1; r < g->n_routers; r++)
            if (force->router && strcmp(g->routers[r].desc->name, force->router) == 0)
                found = r;
        if (!found || force->path < 0 || force->path >= g->routers[found].desc->paths)
            return bs_refuse(error, BS_ERROR_ARGUMENT, "cannot force path %d of router \"%s\": there is no such %s",
                             force->path, force->router ? force->router : "", found ? "path" : "router");
        plan->routers[found].forced = force->path + 1;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------- liveness */

/* What is found to be needed waits in a list for what it needs itself. */
typedef struct live_pass {
    bs_plan *plan;
    int32_t *waiting; /* [nodes] */
    int32_t n_waiting;
    /* [nodes] of a state: what writes it; of a look-ahead: the next one about the same router; 0: none */
    int32_t *follower;
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

/* Where weights come and go, what is said ahead about a decision is needed with it. */
static void mark_router(live_pass *l, int32_t router)
{
    bs_router_plan *r = &l->plan->routers[router];
    if (r->live)
        return;
    r->live = true;
    mark_node(l, l->plan->graph->routers[router].node);
    const bool streams = l->plan->desc.slot_bytes > 0 && !r->forced;
    for (int32_t n = l->look_ahead[router]; streams && n != 0; n = l->follower[n])
        mark_node(l, n);
}

/* The router that decided for a domain must be there, whose own domain is above it; and what says how rows are
 * grouped. */
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

/* Every cell takes a forced path: the residual only counts where that path gives nothing, but in sums. */
static bool reads_of_gather(const bs_graph *g, const bs_node *gather, int32_t forced, int32_t index)
{
    const bs_gather_params *p = gather->params;
    const bool residual = index == g->routers[gather->router].desc->paths;
    if (residual && (p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED))
        return true;
    return residual ? bs_node_in(g, gather)[forced - 1] == 0 : index == forced - 1;
}

bool bs_plan_reads(const bs_plan *plan, const bs_node *node, int32_t index)
{
    const int32_t forced = plan->routers[node->router].forced; /* no router: 0 */
    if (!forced)
        return true;
    if (bs_node_gathers(node))
        return reads_of_gather(plan->graph, node, forced, index);
    return bs_node_role(node, index) != BS_ROLE_DECIDING;
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

static bool name_is_before(const void *user, int32_t a, int32_t b)
{
    const bs_graph *g = user;
    return strcmp(g->routers[a].desc->name, g->routers[b].desc->name) < 0;
}

/* The router of that name among those sorted by name, or 0. */
static int32_t router_named(const bs_graph *g, const int32_t *sorted, const char *name)
{
    int32_t low = 0, high = g->n_routers - 1;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (strcmp(g->routers[sorted[middle]].desc->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->n_routers - 1 && strcmp(g->routers[sorted[low]].desc->name, name) == 0 ? sorted[low] : 0;
}

static bool look_ahead_fits(const bs_plan *plan, int32_t n, int32_t router, bs_error *error)
{
    const bs_graph *g = plan->graph;
    const bs_node *node = &g->nodes[n];
    const bs_route_desc *d = router ? g->routers[router].desc : NULL;
    if (!d || g->routers[router].node < n || (d->protocol != BS_ROUTE_TOP1 && d->protocol != BS_ROUTE_TOPK))
        return bs_refuse(error, BS_ERROR_GRAPH, "look_ahead \"%s\": no later router of that name chooses the best k",
                         bs_node_name(node));
    const int64_t scores = bs_dim_max(g, g->values[bs_node_in(g, node)[0]].dims[0]);
    if (scores != d->paths)
        return bs_refuse(error, BS_ERROR_SHAPE, "look_ahead \"%s\": %lld scores for %d paths", bs_node_name(node),
                         (long long)scores, d->paths);
    return true;
}

/* A call that computes nothing: what it says of a later router is all it is for. */
static bool looks_ahead(const bs_node *node) { return bs_node_work(node) == BS_WORK_CALL && node->n_out == 0; }

/* Finds what each look-ahead is about: bs_node_plan.ahead_of. The list of waiting nodes is still free. */
static bool find_look_aheads(live_pass *l, bs_error *error)
{
    const bs_graph *g = l->plan->graph;
    int32_t *sorted = l->waiting, *buffer = l->waiting + g->n_nodes; /* a router is a node */
    bool are_sorted = false;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!looks_ahead(&g->nodes[n]))
            continue;
        for (int32_t r = 1; !are_sorted && r < g->n_routers; r++)
            sorted[r - 1] = r;
        if (!are_sorted)
            bs_sort(sorted, buffer, g->n_routers - 1, name_is_before, g);
        are_sorted = true;
        const int32_t router = router_named(g, sorted, bs_node_name(&g->nodes[n]));
        if (!look_ahead_fits(l->plan, n, router, error))
            return false;
        l->plan->nodes[n].ahead_of = router;
    }
    return true;
}

/* What else becomes needed with a state or a decision. */
static void find_followers(live_pass *l)
{
    const bs_graph *g = l->plan->graph;
    memset(l->follower, 0, (size_t)g->n_nodes * sizeof *l->follower);
    memset(l->look_ahead, 0, (size_t)g->n_routers * sizeof *l->look_ahead);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
        if (state >= 0)
            l->follower[g->values[bs_node_in(g, node)[state]].node] = n; /* a state is written once */
        if (!looks_ahead(node))
            continue;
        int32_t *first = &l->look_ahead[l->plan->nodes[n].ahead_of];
        l->follower[n] = *first;
        *first = n;
    }
}

/* From the outputs backwards to all that is needed. A state is kept when something that is needed reads it. */
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
        if (bs_node_is_state(&g->nodes[n]))
            mark_node(l, l->follower[n]);
    }
}

/* -------------------------------------------------------------------------------------------------- order */

/* What decides the order of a top-level domain: images, routed weights that come and go, and decisions below it that
 * need all rows at once. Those of the outermost routers are made for all rows anyway; a nested one can be made tile by
 * tile when its rows do not influence each other and the caller is not asked. */
static void look_into_trees(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        bs_domain_plan *top = &plan->domains[bs_plan_top_domain(g, node->domain)];
        if (!plan->node_live[n])
            continue;
        top->images = top->images || (node->n_out > 0 && g->values[node->first_out].rank == 3);
        top->streams = top->streams ||
                       (g->domains[node->domain].kind == BS_DOMAIN_PATH && bs_plan_node_streams(plan, n));
    }
    for (int32_t r = 1; r < g->n_routers; r++) {
        const bs_router_info *router = &g->routers[r];
        const int32_t top = bs_plan_top_domain(g, router->domain);
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
    for (int32_t i = 1; i < g->n_routers; i++) {
        const int32_t d = g->routers[i].domain;
        bs_router_plan *r = &plan->routers[i];
        r->in_tile = plan->domains[d].order == BS_ORDER_DEPTH && g->domains[d].kind == BS_DOMAIN_PATH;
        r->rows = r->in_tile ? plan->domains[d].tile_rows : plan->domains[d].max_rows;
    }
}

static void choose_orders(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    look_into_trees(plan);
    for (int32_t d = 0; d < g->n_domains; d++) {
        bs_domain_plan *p = &plan->domains[d];
        const bs_domain *domain = &g->domains[d];
        const int32_t top = bs_plan_top_domain(g, d);
        const bs_domain_plan *tree = &plan->domains[top];
        p->max_rows = domain->max_rows;
        p->size = domain->size;
        if (bs_domain_is_patches(domain) && plan->desc.patch_size > 0)
            p->size = plan->desc.patch_size;
        if (bs_domain_is_patches(domain))
            p->max_rows = bs_ceil_div(bs_dim_max(g, domain->height), p->size) *
                          bs_ceil_div(bs_dim_max(g, domain->width), p->size);
        if (domain->kind == BS_DOMAIN_PATH)
            p->max_rows = plan->domains[domain->parent].max_rows;
        const bool images = top > 0 && tree->images;
        const bool wanted = plan->desc.order == BS_ORDER_DEPTH ||
                            (plan->desc.order == BS_ORDER_AUTO && (images || tree->streams));
        p->order = top > 0 && wanted && !tree->whole ? BS_ORDER_DEPTH : BS_ORDER_BREADTH;
        p->tile_rows = images ? 1 : BS_TILE_ROWS;
    }
    bs_plan_spread_orders(plan);
}

/* ------------------------------------------------------------------------------------------------ margins */

static int32_t margin_of_outputs(const bs_plan *plan, const bs_node *node)
{
    int32_t margin = 0;
    for (int32_t i = 0; i < node->n_out; i++)
        margin = bs_max_i32(margin, plan->values[node->first_out + i].margin);
    return margin;
}

/* Outside a patch domain an output has nothing around it to compute: only the op's own window counts. */
static int32_t margin_asked(const bs_plan *plan, const bs_node *node, int32_t index)
{
    const bs_graph *g = plan->graph;
    const bs_op *op = bs_op_get(node->op);
    const bool patches = g->domains[node->domain].patches >= 0;
    const int32_t out = patches ? margin_of_outputs(plan, node) : 0;
    if (bs_node_joins_cells(node) || (bs_node_is_view(node) && node->router == 0) || node->n_out == 0)
        return 0;
    return op->halo ? op->halo(g, node, index, out) : out;
}

static void spread_margins(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = g->n_nodes - 1; n >= 1; n--) {
        const bs_node *node = &g->nodes[n];
        const int32_t *in = bs_node_in(g, node);
        for (int32_t i = 0; plan->node_live[n] && i < node->n_in; i++) {
            if (in[i] == 0 || g->values[in[i]].rank != 3)
                continue;
            bs_value_plan *v = &plan->values[in[i]];
            v->margin = bs_min_i32(bs_max_i32(v->margin, margin_asked(plan, node, i)), BS_MAX_MARGIN + 1);
        }
    }
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

/* Rows are counted in 32 bits, and so are the choices of a router. */
static bool rows_fit(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    char text[112];
    for (int32_t d = 1; d < g->n_domains; d++)
        if (plan->domains[d].max_rows > BS_MAX_ROWS) /* of those that nothing needs, too: a session counts their rows */
            return bs_refuse(error, BS_ERROR_LIMIT, "up to %lld cells in %s, expected 2^30 at most",
                             (long long)plan->domains[d].max_rows, bs_domain_text(g, d, text, sizeof text));
    for (int32_t r = 1; r < g->n_routers; r++) {
        const int64_t rows = plan->domains[g->routers[r].domain].max_rows;
        if (plan->routers[r].live && rows * g->routers[r].max_paths_per_cell > BS_MAX_ROWS)
            return bs_refuse(error, BS_ERROR_LIMIT,
                             "router \"%s\" chooses %d paths for up to %lld cells, expected 2^30 choices at most",
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
                             "patch size %d makes up to %lld cells, %s \"%s\" holds %lld: take larger patches",
                             plan->desc.patch_size, (long long)plan->domains[domain].max_rows,
                             bs_op_get(node->op)->name, bs_node_name(node), (long long)bs_dim_max(g, root->dims[0]));
    }
    return true;
}

/* Cells of every scale must be whole pixels: the builder saw to it for the graph's own patch size. */
static bool cells_are_whole(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t v = 1; v < g->n_values; v++) {
        const bs_value_info *value = &g->values[v];
        const int32_t patches = g->domains[value->domain].patches;
        if (!plan->node_live[value->node] || value->rank != 3 || patches < 0 ||
            (int64_t)plan->domains[patches].size * value->scale_num % value->scale_den == 0)
            continue;
        return bs_refuse(error, BS_ERROR_SHAPE,
                         "patch size %d: %s \"%s\" makes cells of %d/%d of it, which are not whole pixels",
                         plan->domains[patches].size, bs_op_get(g->nodes[value->node].op)->name,
                         bs_node_name(&g->nodes[value->node]), value->scale_num, value->scale_den);
    }
    return true;
}

bs_bytes bs_plan_live_workspace(const bs_graph *graph)
{
    return bs_bytes_align(bs_bytes_array(3 * (int64_t)graph->n_nodes + graph->n_routers, sizeof(int32_t)));
}

static void find_pasts(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const int32_t length = bs_node_operand(node, BS_ROLE_CACHE_LENGTH);
        if (plan->node_live[n] && length >= 0)
            plan->values[bs_node_in(g, node)[length]].is_past = true;
    }
}

bool bs_plan_live(bs_plan *plan, void *workspace, bs_error *error)
{
    const int32_t nodes = plan->graph->n_nodes;
    live_pass l = {plan, workspace, 0, NULL, NULL};
    l.follower = l.waiting + 2 * nodes; /* what is sorted takes twice the room */
    l.look_ahead = l.follower + nodes;
    if (!force_routes(plan, error) || !find_look_aheads(&l, error))
        return false;
    find_followers(&l);
    find_live(&l);
    find_pasts(plan);
    choose_orders(plan);
    spread_margins(plan);
    return rows_fit(plan, error) && cells_fit(plan, error) && cells_are_whole(plan, error) && margins_fit(plan, error);
}
