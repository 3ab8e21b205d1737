/* plan/regions.c - which nodes run together in tiles.
 *
 * Nodes of a depth-first domain are collected in regions: a region runs tile by tile, and its parts (the paths of one
 * router, or the domain's own rows) side by side. A region ends where something outside it needs a result.
 * Relies on plan/lower.h and plan/live.c. Must never place values or emit instructions. */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

/* ------------------------------------------------------------------------------------------ who reads what */

/* Counts the readers of every value, or with `write` stores them at the positions that follow from the counts, in the
 * order of nodes and operands. A fused chain reads no more than its nodes did. */
static void each_operand(bs_lower_pass *l, bool write)
{
    for (int32_t n = 1; n < l->g->n_nodes; n++) {
        int32_t n_in;
        const int32_t *in = bs_plan_in(l->plan, n, &n_in);
        for (int32_t i = 0; l->plan->node_live[n] && i < n_in; i++) {
            if (in[i] == 0 || !bs_plan_reads(l->plan, &l->g->nodes[n], i))
                continue;
            if (write)
                l->readers[l->first_reader[in[i]]] = (bs_lower_reader){n, i};
            l->first_reader[in[i]]++;
        }
    }
}

void bs_lower_find_readers(bs_lower_pass *l)
{
    int32_t *first = l->first_reader;
    memset(first, 0, (size_t)(l->g->n_values + 1) * sizeof *first);
    each_operand(l, false);
    bs_starts_of(first, l->g->n_values + 1);
    each_operand(l, true); /* now each beginning is where the next one was: the second walk undoes that */
    memmove(first + 1, first, (size_t)l->g->n_values * sizeof *first);
    first[0] = 0;
}

/* ---------------------------------------------------------------------------------------------- indexes */

BS_WRAPS static uint32_t hash_of(int32_t a, int32_t b, int32_t c)
{
    uint64_t h = (uint32_t)a;
    h = (h ^ (h >> 29)) * 0x9E3779B97F4A7C15u + (uint32_t)b;
    h = (h ^ (h >> 29)) * 0x9E3779B97F4A7C15u + (uint32_t)c;
    h = (h ^ (h >> 29)) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

/* Whether an entry has the key that is looked up. There are more slots than entries, so a search ends. */
typedef bool (*bs_index_is)(const bs_lower_pass *l, int32_t number, int32_t a, int32_t b, int32_t c);
static int32_t *index_slot(const bs_lower_pass *l, const bs_lower_index *index, bs_index_is is, int32_t a, int32_t b,
                           int32_t c)
{
    uint32_t at = hash_of(a, b, c) & index->mask;
    while (index->slots[at] && !is(l, index->slots[at] - 1, a, b, c))
        at = (at + 1) & index->mask;
    return &index->slots[at];
}

static bool part_is(const bs_lower_pass *l, int32_t part, int32_t region, int32_t domain, int32_t unused)
{
    (void)unused;
    return l->plan->parts[part].region == region && l->plan->parts[part].domain == domain;
}

static int32_t region_router(const bs_lower_pass *l, int32_t region)
{
    return l->plan->parts[l->region_part[region]].router;
}
static int32_t region_unit(const bs_lower_pass *l, int32_t region)
{
    return l->plan->parts[l->region_part[region]].unit;
}

static bool region_is_of_level(const bs_lower_pass *l, int32_t region, int32_t top, int32_t level, int32_t router)
{
    return l->plan->regions[region].domain == top && l->region_level[region] == level &&
           region_router(l, region) == router;
}

static bool region_is_of_unit(const bs_lower_pass *l, int32_t region, int32_t top, int32_t level, int32_t unit)
{
    return l->plan->regions[region].domain == top && l->region_level[region] == level && region_unit(l, region) == unit;
}

/* ------------------------------------------------------------------------------------------------ regions */

/* The domain of the part that a node runs in: its top-level domain itself, or the outermost path below it. A loop is of
 * the part of its rows. */
static int32_t part_domain(const bs_graph *g, int32_t domain)
{
    return bs_or_default(g->domains[domain].outermost, g->domains[domain].top);
}

static int32_t part_find(bs_lower_pass *l, int32_t region, int32_t domain)
{
    bs_plan *p = l->plan;
    int32_t *slot = index_slot(l, &l->parts, part_is, region, domain, 0);
    if (*slot)
        return *slot - 1;
    bs_part *part = &p->parts[p->n_parts];
    memset(part, 0, sizeof *part);
    part->region = region;
    part->domain = domain;
    const bs_domain *d = &l->g->domains[domain];
    part->router = d->kind == BS_DOMAIN_PATH ? d->router : 0;
    part->path = d->kind == BS_DOMAIN_PATH ? d->path : -1;
    if (l->region_part[region] < 0)
        l->region_part[region] = p->n_parts;
    *slot = ++p->n_parts;
    return p->n_parts - 1;
}

/* Whether a region can take a node: its parts are the paths of one router, or the top-level domain itself, and a part
 * has weights of one unit. */
static bool region_takes(const bs_lower_pass *l, int32_t region, int32_t domain, int32_t unit)
{
    const bs_domain *d = &l->g->domains[domain];
    if (l->region_part[region] < 0)
        return true;
    const bs_part *part = &l->plan->parts[l->region_part[region]];
    if (d->kind == BS_DOMAIN_PATH)
        return part->router == d->router;
    return part->domain == domain && (unit == 0 || part->unit == 0 || part->unit == unit);
}

static int32_t region_open(bs_lower_pass *l, int32_t top)
{
    l->plan->regions[l->plan->n_regions].domain = top; /* there is room: a node begins at most one */
    l->region_level[l->plan->n_regions] = 0;
    l->region_part[l->plan->n_regions] = -1;
    l->open[top] = l->plan->n_regions;
    return l->plan->n_regions++;
}

/* Whether a node of a mixed domain runs at top level all the same. */
static bool runs_beside_tiles(const bs_lower_pass *l, const bs_node *node)
{
    const int32_t n = (int32_t)(node - l->g->nodes);
    if (bs_plan_on_device(l->plan))
        return bs_plan_is_wide(l->plan, n);
    const bs_load load = bs_plan_weight_load(l->plan, n);
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, n, &n_in);
    bool beside = load == BS_LOAD_HEAVY;
    for (int32_t i = 0; i < n_in && load == BS_LOAD_EITHER; i++) {
        const bs_value_info *v = &l->g->values[in[i]];
        beside = beside || (in[i] && v->domain == node->domain && l->part_of[v->node] == BS_TOP);
    }
    return beside;
}

static bool runs_in_tiles(const bs_lower_pass *l, const bs_node *node)
{
    const bs_graph *g = l->g;
    const int32_t top = bs_plan_top_domain(g, node->domain);
    if (bs_op_sees_rows(bs_op_get(node->op)))
        return false;
    if (node->n_out == 0) /* a decision; ops that end a run have no router */
        return l->plan->routers[node->router].in_tile;
    if (top == 0 || l->plan->domains[top].order != BS_ORDER_DEPTH)
        return false;
    if (l->plan->domains[top].mixed && runs_beside_tiles(l, node))
        return false;
    return !bs_node_gathers(node) || l->plan->routers[node->router].in_tile;
}

/* Closes the region that makes an operand, when the reader is not in it. Otherwise a later node of the region could
 * depend on the reader, and the region would have to run both before and after it. */
static void close_read_regions(bs_lower_pass *l, const bs_node *node, int32_t part)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, (int32_t)(node - l->g->nodes), &n_in);
    const int32_t region = part == BS_TOP ? BS_TOP : l->plan->parts[part].region;
    for (int32_t i = 0; i < n_in; i++) {
        const int32_t from = in[i] ? l->part_of[l->g->values[in[i]].node] : BS_TOP;
        const int32_t made_in = from == BS_TOP ? BS_TOP : l->plan->parts[from].region;
        if (made_in != BS_TOP && made_in != region) {
            int32_t *open = &l->open[l->plan->regions[made_in].domain];
            *open = *open == made_in ? BS_TOP : *open;
        }
    }
}

/* What a node would be part of: in the tiles of `top` the part of `domain`, with weights of `unit`; top 0: at top
 * level. own: the region that takes it, BS_TOP: a new one; or ANY_REGION, of those that could. */
typedef struct level_place {
    int32_t top, domain, unit, own;
} level_place;

enum { ANY_REGION = -3 };

/* In a mixed domain the wide nodes run at top level between nodes that run in tiles. If a wide node closed the region
 * before it, the paths of a router, which are built one after the other, would never share a region. So a region is
 * found by its level: how often the chain of what it reads changes between tiles and top level, or from region to
 * region. Levels are lowered in order, so a region's time is known before anything outside reads its results, and
 * nothing that a region reads can depend on what the same region makes. */
static int32_t level_after(const bs_lower_pass *l, int32_t from, const level_place *at)
{
    const int32_t region = bs_lower_region_of(l, from);
    if (region == BS_TOP)
        return l->level[from] + (at->top != 0);
    const bool may = at->own == ANY_REGION ? l->plan->domains[at->top].mixed || l->open[at->top] == region
                                           : at->own == region;
    if (at->top != 0 && may && l->plan->regions[region].domain == at->top &&
        region_takes(l, region, at->domain, at->unit))
        return l->level[from];
    return l->region_level[region] + 1;
}

static int32_t node_level(const bs_lower_pass *l, int32_t n, const level_place *at)
{
    const bs_node *node = &l->g->nodes[n];
    int32_t n_in, level = 0;
    const int32_t *in = bs_plan_in(l->plan, n, &n_in);
    for (int32_t i = 0; i < n_in; i++)
        if (in[i])
            level = bs_max_i32(level, level_after(l, l->g->values[in[i]].node, at));
    for (int32_t d = node->domain; l->g->domains[d].kind == BS_DOMAIN_PATH; d = l->g->domains[d].parent)
        level = bs_max_i32(level, level_after(l, l->g->routers[l->g->domains[d].router].node, at));
    const int32_t maker = bs_domain_maker(l->g, bs_plan_top_domain(l->g, node->domain));
    if (maker)
        level = bs_max_i32(level, level_after(l, maker, at));
    return node->router && l->g->routers[node->router].node != n
               ? bs_max_i32(level, level_after(l, l->g->routers[node->router].node, at))
               : level;
}

/* The earliest region of that level that takes a node, or BS_TOP. There is one for the paths of each router, and one
 * for the other rows of each unit; only the first may be without a unit. */
static int32_t region_of_level(const bs_lower_pass *l, const level_place *at, int32_t level)
{
    const bs_domain *d = &l->g->domains[at->domain];
    const int32_t router = d->kind == BS_DOMAIN_PATH ? d->router : 0;
    const int32_t first = *index_slot(l, &l->levels, region_is_of_level, at->top, level, router);
    if (first && region_takes(l, first - 1, at->domain, at->unit))
        return first - 1;
    return router ? BS_TOP : *index_slot(l, &l->units, region_is_of_unit, at->top, level, at->unit) - 1;
}

/* Finds the region of a mixed domain that takes a node, and its level, or opens one. Beside it other regions of that
 * level may run: a node that reads from one of them goes to the next level. */
static void open_of_level(bs_lower_pass *l, int32_t n, level_place *at)
{
    int32_t level = node_level(l, n, at);
    at->own = region_of_level(l, at, level);
    const int32_t behind = node_level(l, n, at);
    if (behind > level) {
        level = behind;
        at->own = region_of_level(l, at, level);
    }
    l->level[n] = level;
    l->open[at->top] = at->own == BS_TOP ? region_open(l, at->top) : at->own;
    l->region_level[l->open[at->top]] = level;
}

/* Enters a region in the index once it has a node: its first part gives its key, and the node may have brought a
 * unit. */
static void region_enter(bs_lower_pass *l, int32_t region)
{
    const int32_t top = l->plan->regions[region].domain, level = l->region_level[region];
    int32_t *slot = index_slot(l, &l->levels, region_is_of_level, top, level, region_router(l, region));
    if (*slot == 0)
        *slot = region + 1;
    if (region_router(l, region))
        return;
    slot = index_slot(l, &l->units, region_is_of_unit, top, level, region_unit(l, region));
    if (*slot == 0)
        *slot = region + 1;
}

static void assign_part(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t unit = l->plan->nodes[n].unit;
    const level_place beside = {.own = ANY_REGION};
    l->part_of[n] = BS_TOP;
    if (!runs_in_tiles(l, node)) {
        close_read_regions(l, node, BS_TOP);
        l->level[n] = l->mixed ? node_level(l, n, &beside) : 0;
        return;
    }
    const int32_t top = bs_plan_top_domain(l->g, node->domain);
    const int32_t domain = part_domain(l->g, node->domain);
    level_place at = {top, domain, unit, ANY_REGION};
    if (l->plan->domains[top].mixed)
        open_of_level(l, n, &at);
    else
        l->level[n] = l->mixed ? node_level(l, n, &at) : 0;
    if (l->open[top] == BS_TOP || !region_takes(l, l->open[top], domain, unit))
        region_open(l, top);
    l->part_of[n] = part_find(l, l->open[top], domain);
    l->region_level[l->open[top]] = bs_max_i32(l->region_level[l->open[top]], l->level[n]);
    if (unit)
        l->plan->parts[l->part_of[n]].unit = unit;
    if (l->plan->domains[top].mixed)
        region_enter(l, l->open[top]);
    close_read_regions(l, node, l->part_of[n]);
}

int32_t bs_lower_region_of(const bs_lower_pass *l, int32_t node)
{
    return l->part_of[node] == BS_TOP ? BS_TOP : l->plan->parts[l->part_of[node]].region;
}

/* ---------------------------------------------------------------------------------------------- torn domains */

#define NO_REGION (-2) /* decided in several regions: no single one has all decisions */

/* Finds in which region the routers above every domain decide tile by tile. Parents come before their paths. */
static void find_tile_regions(bs_lower_pass *l)
{
    for (int32_t d = 0; d < l->g->n_domains; d++) {
        const bs_domain *domain = &l->g->domains[d];
        l->tile_region[d] = BS_TOP;
        if (domain->kind != BS_DOMAIN_PATH)
            continue;
        const int32_t above = l->tile_region[domain->parent],
                      region = bs_lower_region_of(l, l->g->routers[domain->router].node);
        l->tile_region[d] = !l->plan->routers[domain->router].in_tile ? above
                            : above == BS_TOP || above == region      ? region
                                                                      : NO_REGION;
    }
}

/* A decision made tile by tile is known in its own region only. Whether node n needs one of another region, perhaps at
 * the root. */
static bool lacks_decision(const bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t region = bs_lower_region_of(l, n), above = l->tile_region[node->domain];
    const bool own = node->router && l->plan->routers[node->router].in_tile;
    return (own && bs_lower_region_of(l, l->g->routers[node->router].node) != region) ||
           (above != BS_TOP && above != region);
}

static int32_t domain_to_untile(const bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    /* a price is a value of the root */
    return bs_plan_top_domain(l->g, node->router ? l->g->routers[node->router].domain : node->domain);
}

/* Domains do not change each other's regions, unless regions are found by level: then one domain at a time is
 * untiled. */
static bool untile_domains(bs_lower_pass *l)
{
    bool torn = false;
    find_tile_regions(l);
    for (int32_t n = 1; n < l->g->n_nodes && !(torn && l->mixed); n++) {
        if (!l->plan->node_live[n] || !lacks_decision(l, n))
            continue;
        l->plan->domains[domain_to_untile(l, n)].order = BS_ORDER_BREADTH;
        torn = true;
    }
    if (torn)
        bs_plan_spread_orders(l->plan);
    return torn;
}

/* --------------------------------------------------------------------------------------------------- all nodes */

static void clear_index(bs_lower_index *index)
{
    memset(index->slots, 0, ((size_t)index->mask + 1) * sizeof *index->slots);
}

static void list_nodes(bs_lower_pass *l)
{
    memset(l->region_node, 0, (size_t)l->plan->room->parts * sizeof *l->region_node);
    for (int32_t n = 1; n < l->g->n_nodes; n++) {
        const int32_t region = bs_lower_region_of(l, n);
        l->neighbour[n] = region == BS_TOP ? 0 : l->region_node[region];
        if (region != BS_TOP)
            l->region_node[region] = n;
    }
}

bool bs_lower_regions(bs_lower_pass *l)
{
    l->plan->n_regions = l->plan->n_parts = 0;
    clear_index(&l->parts);
    clear_index(&l->levels);
    clear_index(&l->units);
    for (int32_t d = 0; d < l->g->n_domains; d++)
        l->open[d] = BS_TOP;
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        l->part_of[n] = BS_TOP;
        if (n > 0 && l->plan->node_live[n])
            assign_part(l, n);
        if (n > 0 && l->mixed)
            bs_lower_level_loop(l, n);
    }
    list_nodes(l);
    return !untile_domains(l);
}

#endif
