/* plan_region.c - which nodes run together in tiles.
 *
 * Nodes of a depth-first domain are collected in regions: a region runs tile by tile, and its parts (the paths of one
 * router, or the domain's own rows) side by side. A region ends where something outside it needs a result.
 * Relies on plan_lower.h and plan_live.c. Must never place values or emit instructions. */
#include "plan_lower.h"

/* ------------------------------------------------------------------------------------------ who reads what */

bool bs_lower_is_view(const bs_node *node)
{
    return bs_node_is(node, &bs_op_patches) || bs_node_is(node, &bs_op_rows) || bs_node_is(node, &bs_op_segments) ||
           bs_node_is(node, &bs_op_scatter);
}

bool bs_lower_is_packed(const bs_lower_pass *l, const bs_node *node)
{
    return l->g->routers[node->router].max_paths_per_cell > 1 || ((const bs_gather_params *)node->params)->mode == BS_GATHER_ADD ||
           ((const bs_gather_params *)node->params)->mode == BS_GATHER_WEIGHTED;
}

bool bs_lower_each_reader(bs_lower_pass *l, int32_t value, bs_reader_visit visit, void *user)
{
    for (int32_t n = l->g->values[value].node + 1; n < l->g->n_nodes; n++) {
        const bs_node *node = &l->g->nodes[n];
        int32_t n_in;
        const int32_t *in = bs_plan_in(l->plan, n, &n_in);
        const bool gather = bs_node_is(node, &bs_op_gather);
        const bool forced_route = bs_node_is(node, &bs_op_route) && l->plan->routers[node->router].forced;
        for (int32_t i = 0; l->plan->node_live[n] && !forced_route && i < n_in; i++)
            if (in[i] == value && (!gather || bs_plan_gathers(l->plan, node, i)) && !visit(l, n, i, user))
                return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ regions */

/* The rows that a node's tile is made of: its top-level domain itself, or the outermost path below it. */
static int32_t part_domain(const bs_graph *g, int32_t domain)
{
    while (g->domains[domain].kind == BS_DOMAIN_PATH && g->domains[g->domains[domain].parent].kind == BS_DOMAIN_PATH)
        domain = g->domains[domain].parent;
    return domain;
}

static int32_t part_find(bs_lower_pass *l, int32_t region, int32_t domain)
{
    bs_plan *p = l->plan;
    for (int32_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].region == region && p->parts[i].domain == domain)
            return i;
    bs_part *part = &p->parts[p->n_parts];
    memset(part, 0, sizeof *part);
    part->region = region;
    part->domain = domain;
    const bs_domain *d = &l->g->domains[domain];
    part->router = d->kind == BS_DOMAIN_PATH ? d->router : 0;
    part->path = d->kind == BS_DOMAIN_PATH ? d->path : -1;
    return p->n_parts++;
}

/* Parts of one region are the paths of one router, or the top-level domain itself; a part has weights of one unit. */
static bool region_takes(const bs_lower_pass *l, int32_t region, int32_t domain, int32_t unit)
{
    const bs_domain *d = &l->g->domains[domain];
    for (int32_t i = 0; i < l->plan->n_parts; i++) {
        const bs_part *part = &l->plan->parts[i];
        if (part->region != region)
            continue;
        if (d->kind == BS_DOMAIN_PATH)
            return part->router == d->router;
        return part->domain == domain && (unit == 0 || part->unit == 0 || part->unit == unit);
    }
    return true;
}

static int32_t region_open(bs_lower_pass *l, int32_t top)
{
    l->plan->regions[l->plan->n_regions].domain = top; /* there is room: a node begins one at most */
    l->region_phase[l->plan->n_regions] = 0;
    l->open[top] = l->plan->n_regions;
    return l->plan->n_regions++;
}

static bool runs_in_tiles(const bs_lower_pass *l, const bs_node *node)
{
    const bs_graph *g = l->g;
    const int32_t top = bs_plan_top_domain(g, node->domain);
    if (bs_op_get(node->op)->flags & BS_OP_ACROSS)
        return false;
    if (top != 0 && l->plan->domains[top].mixed && !bs_node_is(node, &bs_op_route) && bs_plan_is_wide(l->plan, (int32_t)(node - g->nodes)))
        return false;
    if (top == 0 || l->plan->domains[top].order != BS_ORDER_DEPTH || node->n_out == 0)
        return bs_node_is(node, &bs_op_route) && l->plan->routers[node->router].in_tile;
    if (bs_node_is(node, &bs_op_gather))
        return l->plan->routers[node->router].in_tile;
    return true;
}

/* Closes the region that makes an operand, when the reader is not of that region: what comes later may depend on the
 * reader, and the region would have to run before and after it. */
static void close_read_regions(bs_lower_pass *l, const bs_node *node, int32_t home)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, (int32_t)(node - l->g->nodes), &n_in);
    const int32_t region = home == BS_TOP ? BS_TOP : l->plan->parts[home].region;
    for (int32_t i = 0; i < n_in; i++) {
        const int32_t from = in[i] ? l->home[l->g->values[in[i]].node] : BS_TOP;
        const int32_t made_in = from == BS_TOP ? BS_TOP : l->plan->parts[from].region;
        if (made_in != BS_TOP && made_in != region)
            for (int32_t d = 0; d < l->g->n_domains; d++)
                if (l->open[d] == made_in)
                    l->open[d] = BS_TOP;
    }
}

/* In a mixed domain wide nodes stand between those in tiles, path by path, and a region of one path would be over before the
 * next path began. So regions are known by their phase there. What enters a region of a phase cannot depend on what left it,
 * when nodes are lowered phase by phase. */
static int32_t phase_after(const bs_lower_pass *l, int32_t from, int32_t top, int32_t domain)
{
    const int32_t region = bs_lower_region_of(l, from);
    if (region == BS_TOP)
        return l->phase[from] + (top != 0);
    const bool stays = l->plan->domains[top].mixed || l->open[top] == region;
    if (top != 0 && stays && l->plan->regions[region].domain == top && region_takes(l, region, domain, 0))
        return l->phase[from];
    return l->region_phase[region] + 1;
}

/* top: the domain in whose tiles it is to run, with its part's domain; 0: at top level. */
static int32_t phase_of(const bs_lower_pass *l, int32_t n, int32_t top, int32_t domain)
{
    const bs_node *node = &l->g->nodes[n];
    int32_t n_in, phase = 0;
    const int32_t *in = bs_plan_in(l->plan, n, &n_in);
    for (int32_t i = 0; i < n_in; i++)
        if (in[i])
            phase = bs_max_i32(phase, phase_after(l, l->g->values[in[i]].node, top, domain));
    for (int32_t d = node->domain; l->g->domains[d].kind == BS_DOMAIN_PATH; d = l->g->domains[d].parent)
        phase = bs_max_i32(phase, phase_after(l, l->g->routers[l->g->domains[d].router].node, top, domain));
    return node->router && l->g->routers[node->router].node != n ? bs_max_i32(phase, phase_after(l, l->g->routers[node->router].node, top, domain)) : phase;
}

static int32_t region_of_phase(bs_lower_pass *l, int32_t top, int32_t domain, int32_t unit, int32_t phase)
{
    for (int32_t r = 0; r < l->plan->n_regions; r++)
        if (l->plan->regions[r].domain == top && l->region_phase[r] == phase && region_takes(l, r, domain, unit))
            return r;
    const int32_t region = region_open(l, top);
    l->region_phase[region] = phase;
    return region;
}

static void assign_home(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    l->home[n] = BS_TOP;
    if (!runs_in_tiles(l, node)) {
        close_read_regions(l, node, BS_TOP);
        l->phase[n] = phase_of(l, n, 0, 0);
        return;
    }
    const int32_t top = bs_plan_top_domain(l->g, node->domain);
    const int32_t domain = part_domain(l->g, node->domain);
    l->phase[n] = phase_of(l, n, top, domain);
    if (l->plan->domains[top].mixed)
        l->open[top] = region_of_phase(l, top, domain, l->plan->nodes[n].unit, l->phase[n]);
    if (l->open[top] == BS_TOP || !region_takes(l, l->open[top], domain, l->plan->nodes[n].unit))
        region_open(l, top);
    l->home[n] = part_find(l, l->open[top], domain);
    l->region_phase[l->open[top]] = bs_max_i32(l->region_phase[l->open[top]], l->phase[n]);
    if (l->plan->nodes[n].unit)
        l->plan->parts[l->home[n]].unit = l->plan->nodes[n].unit;
    close_read_regions(l, node, l->home[n]);
}

int32_t bs_lower_region_of(const bs_lower_pass *l, int32_t node)
{
    return l->home[node] == BS_TOP ? BS_TOP : l->plan->parts[l->home[node]].region;
}

/* What is decided tile by tile is known in its own region only. The top-level domain of a router whose decision node n needs in
 * another one, which may be at the root, or 0. */
static int32_t torn_domain(const bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    int32_t router = node->router, domain = node->domain;
    for (;;) {
        const bs_router_info *info = &l->g->routers[router];
        if (router && l->plan->routers[router].in_tile && bs_lower_region_of(l, info->node) != bs_lower_region_of(l, n))
            return bs_plan_top_domain(l->g, info->domain);
        if (l->g->domains[domain].kind != BS_DOMAIN_PATH)
            return 0;
        router = l->g->domains[domain].router;
        domain = l->g->domains[domain].parent;
    }
}

/* A region for every node that runs in tiles. Returns a top-level domain that cannot, or 0. */
int32_t bs_lower_regions(bs_lower_pass *l)
{
    l->plan->n_regions = l->plan->n_parts = 0;
    for (int32_t d = 0; d < l->g->n_domains; d++)
        l->open[d] = BS_TOP;
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        l->home[n] = BS_TOP;
        if (n > 0 && l->plan->node_live[n])
            assign_home(l, n);
    }
    int32_t torn = 0;
    for (int32_t n = 1; n < l->g->n_nodes && torn == 0; n++)
        if (l->plan->node_live[n])
            torn = torn_domain(l, n);
    return torn;
}
