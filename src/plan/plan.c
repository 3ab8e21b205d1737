/* plan/plan.c - making a plan: checks, then the passes in order.
 * Relies on plan/plan.h. Must never touch weights or run anything: a workstation plans for a board. */
#include "plan/plan.h"
#include "plan/dataflow.h"
#include "plan/device.h"
#include "ops/structure.h"

#if !defined(BS_NO_PLANNER)

/* ----------------------------------------------------------------------------------------------- storage */

/* What a plan is walked by once more, and the bytes for that. */
#if defined(BS_DEBUG)
#define WALK(plan, workspace) bs_plan_walk_bytes(plan, workspace)
#define WALK_BYTES(g) bs_plan_walk_bytes_workspace(g)
#else
#define WALK(plan, workspace) bs_plan_walk(plan, false, workspace)
#define WALK_BYTES(g) bs_plan_walk_workspace((g)->n_nodes, (g)->n_operands)
#endif

/* The largest workspace that any pass takes. */
static bs_bytes workspace_bytes(const bs_graph *g)
{
    const bs_bytes passes[] = {bs_plan_live_workspace(g),  bs_plan_fuse_workspace(g),  bs_plan_share_workspace(g),
                               bs_plan_units_workspace(g), bs_plan_lower_workspace(g), bs_plan_phases_workspace(g),
                               bs_plan_memory_workspace(g),
                               WALK_BYTES(g)};
    bs_bytes most = bs_bytes_of(0);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        most = bs_bytes_max(most, passes[i]);
    return most;
}

/* Whether anything may run in tiles (plan/live.c). */
static bool may_tile(const bs_graph *g, const bs_plan_desc *desc)
{
    const int32_t order = desc ? desc->order : BS_ORDER_AUTO;
    bool images = false;
    for (int32_t v = 1; v < g->n_values && !images; v++)
        images = g->values[v].domain != 0 && g->values[v].rank == 3;
    return order == BS_ORDER_DEPTH || (order == BS_ORDER_AUTO && (images || (desc && desc->slot_bytes > 0)));
}

/* One walk counts and hands out. There are at most as many units as paths and blocks, and as many phases as
 * instructions. */
static void carve_plan(bs_carver *c, bs_plan *p, const bs_graph *g, const bs_plan_desc *desc)
{
    enum { NODES, VALUES, DOMAINS, ROUTERS, PARTS, INSTRS, UNITS, PHASES, USES };
    static const bs_carved arrays[] = {
        BS_CARVED(bs_plan, node_live, NODES),    BS_CARVED(bs_plan, nodes, NODES),
        BS_CARVED(bs_plan, values, VALUES),      BS_CARVED(bs_plan, domains, DOMAINS),
        BS_CARVED(bs_plan, routers, ROUTERS),    BS_CARVED(bs_plan, parts, PARTS),
        BS_CARVED(bs_plan, region_parts, PARTS), BS_CARVED(bs_plan, regions, PARTS),
        BS_CARVED(bs_plan, instrs, INSTRS),      BS_CARVED(bs_plan, units, UNITS),
        BS_CARVED(bs_plan, phases, PHASES),      BS_CARVED(bs_plan, phase_units, USES),
    };
    const bool streams = desc && desc->slot_bytes > 0;
    const int64_t nodes = g->n_nodes, parts = may_tile(g, desc) ? bs_plan_most_parts(g) : 0;
    p->max_instrs = bs_plan_most_instrs(g);
    const int64_t counts[] = {nodes,
                              g->n_values,
                              g->n_domains,
                              g->n_routers,
                              parts,
                              p->max_instrs,
                              streams ? (int64_t)g->n_blocks + g->n_domains + 1 : 0,
                              streams ? nodes : 0,
                              streams ? 2 * nodes + parts : 0};
    BS_CARVE_ARRAYS(c, p, arrays, counts);
}

static bs_bytes plan_bytes(const bs_graph *g, const bs_plan_desc *desc)
{
    bs_plan counted;
    bs_carver c = {NULL, {0}};
    bs_carve(&c, 1, sizeof(bs_plan));
    carve_plan(&c, &counted, g, desc);
    bs_carve_bytes(&c, workspace_bytes(g));
    return c.used;
}

/* What a node that only shows another one's rows adds to a plan and to the workspaces, at most. */
#define BYTES_OF_A_VIEW \
    (sizeof(bs_node_plan) + 2 * sizeof(bs_value_plan) + 4 * sizeof(bs_instr) + 2 * sizeof(bs_part) + 512)

size_t bs_plan_bytes(const bs_graph *graph, const bs_plan_desc *desc)
{
    size_t bytes = 0;
    if (bs_graph_check(graph, NULL) != BS_OK)
        return 0;
    const bs_plan_desc none = {.threads = 0};
    int64_t more = 0;
    const bs_bytes flow = bs_dataflow_bytes(graph, bs_dataflow_of(desc ? desc : &none), &more);
    const bs_bytes views = bs_bytes_array(more, BYTES_OF_A_VIEW);
    const bs_bytes own = bs_bytes_add(plan_bytes(graph, desc), bs_bytes_of(BS_ALIGNMENT));
    const bs_bytes needed = bs_bytes_add(bs_bytes_add(own, views), flow);
    return bs_bytes_fit(needed, SIZE_MAX, &bytes) ? bytes : 0;
}

/* -------------------------------------------------------------------------------------------------- nodes */

/* Gives a node's weights an offset of their own, or that of the owner of the same weights. */
static void place_weights(bs_plan *p, int32_t n)
{
    bs_node_plan *np = &p->nodes[n];
    bs_plan_find_owner(p, n);
    np->prepared_offset = p->nodes[np->owner].prepared_offset;
    if (np->owner == n)
        np->prepared_offset = bs_bytes_put(np->unit ? &p->units[np->unit].prepared_bytes : &p->weight_bytes,
                                           np->prepared_bytes);
}

/* -------------------------------------------------------------------------------------------------- parts */

static bool part_goes_before(const void *user, int32_t a, int32_t b)
{
    const bs_plan *p = user;
    const bs_part *x = &p->parts[a], *y = &p->parts[b];
    return x->region != y->region ? x->region < y->region : x->flops > y->flops;
}

/* Lists the parts of every region. */
static void order_parts(bs_plan *p, int32_t *buffer)
{
    for (int32_t r = 0; r < p->n_regions; r++)
        p->regions[r].first = p->regions[r].count = 0;
    for (int32_t k = 0; k < p->n_parts; k++)
        p->region_parts[k] = k;
    bs_sort(p->region_parts, buffer, p->n_parts, part_goes_before, p);
    for (int32_t k = 0; k < p->n_parts; k++) {
        bs_part *part = &p->parts[p->region_parts[k]];
        bs_region *region = &p->regions[part->region];
        part->index = k;
        region->first = region->count == 0 ? k : region->first;
        region->count++;
    }
}

/* Finds the instruction of each router, of each region and of each node that makes a symbol. */
static void find_instrs(bs_plan *p)
{
    for (int32_t r = 0; r < p->graph->n_routers; r++)
        p->routers[r].instr = p->routers[r].again = -1;
    for (int32_t r = 0; r < p->n_regions; r++)
        p->regions[r].instr = -1;
    for (int32_t n = 0; n < p->graph->n_nodes; n++)
        p->nodes[n].instr = -1;
    for (int32_t k = 0; k < p->n_instrs; k++) {
        const bs_instr *i = &p->instrs[k];
        if (i->kind == BS_INSTR_CALL && p->graph->nodes[i->node].makes)
            p->nodes[i->node].instr = k;
        if (i->kind == BS_INSTR_RUN)
            p->regions[i->region].instr = k;
        if (i->kind != BS_INSTR_ROUTE)
            continue;
        const int32_t router = p->graph->nodes[i->node].router;
        *(i->node == p->graph->routers[router].node ? &p->routers[router].instr : &p->routers[router].again) = k;
    }
}

/* The passes that depend on the orders of the domains. */
static bool plan_once(bs_plan *p, void *workspace, bs_error *error)
{
    p->n_instrs = p->n_phases = p->n_phase_units = 0;
    p->weight_bytes = bs_bytes_of(0);
    for (int32_t u = 1; u < p->n_units; u++)
        p->units[u].prepared_bytes = bs_bytes_of(0);
    bs_plan_lower(p, workspace);
    order_parts(p, workspace);
    find_instrs(p);
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        if (!p->node_live[n])
            continue;
        bs_plan_size_node(p, n, &p->nodes[n]);
        place_weights(p, n);
    }
    return bs_plan_phases(p, workspace, error) && bs_plan_memory(p, workspace, error);
}

/* What the passes made is walked once more: a plan that is wrong is never handed out. */
static bool is_right(const bs_plan *p, void *workspace, bs_error *error)
{
    const int32_t at = WALK(p, workspace);
    return at == BS_WALK_SOUND ||
           bs_refuse(error, BS_ERROR_INTERNAL, /* unreachable: as far as we know */
                     "bs_plan_create: instruction %" PRId32 " is wrong, node %" PRId32, at,
                     at < p->n_instrs ? p->instrs[at].node : 0);
}

/* All passes, in order. When tiles are too large for a device's shared memory, their domain is planned again, to run
 * layer by layer. */
static bool plan_make(bs_plan *p, void *workspace, bs_error *error)
{
    if (!bs_plan_live(p, workspace, error))
        return false;
    bs_plan_fuse(p, workspace);
    bs_plan_lay_out(p);
    if (!bs_plan_share(p, workspace, error))
        return false;
    bs_plan_units(p, workspace);
    while (plan_once(p, workspace, error)) {
        const int32_t top = bs_plan_domain_beyond_shared(p);
        if (!top)
            return is_right(p, workspace, error);
        bs_plan_untile(p, top);
    }
    return false;
}

bs_plan *bs_plan_create(bs_arena *arena, const bs_graph *graph, const bs_plan_desc *desc, bs_error *error)
{
    bs_plan_desc none;
    memset(&none, 0, sizeof none);
    if (!desc)
        desc = &none;
    if (bs_graph_check(graph, error) != BS_OK || !bs_plan_desc_sound(desc, error))
        return NULL;
    if (!arena) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_create: the arena is NULL");
        return NULL;
    }
    const size_t mark = arena->used;
    graph = bs_dataflow_make(arena, graph, bs_dataflow_of(desc), error);
    if (!graph)
        return NULL;
    const bs_bytes bytes = plan_bytes(graph, desc);
    bs_carver c = {bs_take_zeros(arena, bytes), {0}};
    if (!c.base) {
        bs_fail_arena(error, arena, bytes, "the plan");
        arena->used = mark;
        return NULL;
    }
    bs_plan *p = bs_carve(&c, 1, sizeof(bs_plan));
    carve_plan(&c, p, graph, desc);
    p->mark = BS_MARK_PLAN;
    p->graph = graph;
    p->desc = *desc;
    p->tier = desc->tier ? (uint32_t)desc->tier : bs_tier_best();
    bs_plan_begin(p);
    p->own_bytes = bs_bytes_of(arena->used - mark + BS_ALIGNMENT);
    if (plan_make(p, bs_carve_bytes(&c, workspace_bytes(graph)), error))
        return p;
    arena->used = mark;
    return NULL;
}

#endif
