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
#define WALK_BYTES(room) bs_plan_walk_bytes_workspace(room)
#else
#define WALK(plan, workspace) bs_plan_walk(plan, false, workspace)
#define WALK_BYTES(room) bs_plan_walk_workspace(room->nodes, room->operands)
#endif

/* The largest workspace that any pass takes. */
static bs_bytes workspace_bytes(const bs_plan_room *room)
{
    const bs_bytes passes[] = {bs_plan_live_workspace(room),   bs_plan_fuse_workspace(room),
                               bs_plan_share_workspace(room),  bs_plan_units_workspace(room),
                               bs_plan_lower_workspace(room),  bs_plan_phases_workspace(room),
                               bs_plan_memory_workspace(room), WALK_BYTES(room)};
    bs_bytes most = bs_bytes_of(0);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        most = bs_bytes_max(most, passes[i]);
    return most;
}

/* Whether anything may run in tiles (plan/live.c). */
static bool may_tile(const bs_graph *g, const bs_plan_desc *desc)
{
    bool images = false;
    for (int32_t v = 1; v < g->n_values && !images; v++)
        images = g->values[v].domain != 0 && g->values[v].image;
    return desc->order == BS_ORDER_DEPTH || (desc->order == BS_ORDER_AUTO && (images || desc->slot_bytes > 0));
}

/* A node has one instruction, one that moves rows up to one for each operand and one more; and so has a region. With
 * patches what is left of two for each node, and one for each operand, is for rings (plan/rings.c). */
static int64_t most_instrs(const bs_graph *g, const bs_plan_room *room)
{
    int64_t instrs = room->nodes + (room->patches ? room->nodes : room->parts);
    for (int32_t n = 1; n < g->n_nodes; n++)
        instrs += room->patches || bs_node_work(&g->nodes[n]) == BS_WORK_MOVE ? g->nodes[n].n_in : 0;
    return instrs;
}

/* Of a graph that is made of `g` with that much more, as it is planned. There are at most as many units as paths and
 * blocks, and as many phases as instructions. */
static bs_plan_room room_of(const bs_graph *g, const bs_plan_desc *desc, const bs_dataflow_room *more)
{
    const bool streams = desc->slot_bytes > 0;
    bs_plan_room r = {.nodes = g->n_nodes + more->nodes,
                      .values = g->n_values + more->nodes,
                      .operands = g->n_operands + more->operands,
                      .domains = g->n_domains,
                      .routers = g->n_routers,
                      .blocks = g->n_blocks,
                      .twins = g->n_nodes + more->nodes,
                      .parts = may_tile(g, desc) ? bs_plan_most_parts(g) + more->nodes : 0};
    for (int32_t d = 0; d < g->n_domains; d++)
        r.patches = r.patches || bs_domain_is_patches(&g->domains[d]);
    r.instrs = most_instrs(g, &r) + more->nodes;
    r.units = streams ? r.blocks + r.domains + 1 : 0;
    r.phases = streams ? r.nodes : 0;
    r.uses = streams ? 2 * r.nodes + r.parts : 0;
    return r;
}

typedef void plan_carve(bs_carver *carver, void *object, const bs_carved *arrays, size_t n, const int64_t *counts);

/* One walk counts, hands out, and moves what stays. */
static void carve_plan(bs_carver *c, bs_plan *p, const bs_plan_room *r, plan_carve *carve_arrays)
{
    enum { NODES, VALUES, DOMAINS, ROUTERS, PARTS, INSTRS, UNITS, PHASES, USES, TWINS };
    static const bs_carved arrays[] = {
        BS_CARVED(bs_plan, node_live, NODES),    BS_CARVED(bs_plan, nodes, NODES),
        BS_CARVED(bs_plan, values, VALUES),      BS_CARVED(bs_plan, domains, DOMAINS),
        BS_CARVED(bs_plan, routers, ROUTERS),    BS_CARVED(bs_plan, parts, PARTS),
        BS_CARVED(bs_plan, region_parts, PARTS), BS_CARVED(bs_plan, regions, PARTS),
        BS_CARVED(bs_plan, instrs, INSTRS),      BS_CARVED(bs_plan, units, UNITS),
        BS_CARVED(bs_plan, phases, PHASES),      BS_CARVED(bs_plan, phase_units, USES),
        BS_CARVED(bs_plan, twin, TWINS),         BS_CARVED(bs_plan, newest_owner, TWINS),
    };
    const int64_t counts[] = {r->nodes,  r->values, r->domains, r->routers, r->parts,
                              r->instrs, r->units,  r->phases,  r->uses,    r->twins};
    carve_arrays(c, p, arrays, sizeof arrays / sizeof *arrays, counts);
}

/* Bytes of a plan while it is made. */
static bs_bytes making_bytes(const bs_plan_room *room)
{
    bs_plan counted;
    bs_carver c = {NULL, {0}};
    bs_carve(&c, 1, sizeof(bs_plan));
    carve_plan(&c, &counted, room, bs_carve_arrays);
    bs_carve_bytes(&c, workspace_bytes(room));
    return c.used;
}

/* Bytes that planning takes: of a scratch arena, or of the one in which the graph as it is planned stays, too. */
static bs_bytes needed_bytes(const bs_graph *graph, const bs_plan_desc *desc, bool apart)
{
    const bs_dataflow_room flow = bs_dataflow_takes(graph, bs_dataflow_of(desc), apart);
    const bs_plan_room room = room_of(graph, desc, &flow);
    const bs_bytes work = bs_bytes_max(bs_bytes_align(flow.work), making_bytes(&room));
    return apart ? work : bs_bytes_add(bs_bytes_align(flow.graph), work);
}

size_t bs_plan_bytes(const bs_graph *graph, const bs_plan_desc *desc)
{
    const bs_plan_desc none = {.threads = 0};
    size_t bytes = 0;
    if (bs_graph_check(graph, NULL) != BS_OK)
        return 0;
    const bs_bytes needed = needed_bytes(graph, desc ? desc : &none, false);
    return bs_bytes_fit(bs_bytes_add(needed, bs_bytes_of(BS_ALIGNMENT)), SIZE_MAX, &bytes) ? bytes : 0;
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
static bool run_passes(bs_plan *p, void *workspace, bs_error *error)
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

/* What stays of a plan that was made, in the arena. A table is never longer than it was, and lies no further behind
 * where the plan begins: none is written over before it has moved. */
static bs_plan *settle(bs_arena *arena, const bs_plan *made, bs_error *error)
{
    const bs_plan_room stays = {.nodes = made->graph->n_nodes, .values = made->graph->n_values,
                                .domains = made->graph->n_domains, .routers = made->graph->n_routers,
                                .instrs = made->n_instrs, .parts = made->n_parts,
                                .units = bs_plan_streams(made) ? made->n_units : 0, .phases = made->n_phases,
                                .uses = made->n_phase_units};
    bs_plan to;
    bs_carver c = {NULL, {0}};
    bs_carve(&c, 1, sizeof to);
    carve_plan(&c, &to, &stays, bs_carve_arrays);
    to = *made;
    c = (bs_carver){bs_take(arena, c.used), {0}};
    if (!c.base)
        return bs_fail_arena(error, arena, c.used, "the plan"), NULL;
    bs_plan *p = bs_carve(&c, 1, sizeof *p);
    carve_plan(&c, &to, &stays, bs_move_arrays);
    to.room = NULL;
    to.twin = to.newest_owner = NULL;
    return memmove(p, &to, sizeof *p);
}

/* Where it is made, with room for all that there may be. */
static const bs_plan *make_plan(const bs_graph *graph, const bs_plan_desc *desc, bs_arena *lender, bs_error *error)
{
    const bs_dataflow_room no_more = {{0}, {0}, 0, 0};
    const bs_plan_room room = room_of(graph, desc, &no_more);
    const bs_bytes bytes = making_bytes(&room);
    bs_carver c = {bs_lend(lender, bytes), {0}};
    if (!c.base)
        return bs_fail_arena(error, lender, bytes, "planning"), NULL;
    memset(c.base, 0, (size_t)bs_bytes_figure(bytes));
    bs_plan *p = bs_carve(&c, 1, sizeof *p);
    carve_plan(&c, p, &room, bs_carve_arrays);
    p->mark = BS_MARK_PLAN;
    p->graph = graph;
    p->desc = *desc;
    p->room = &room;
    p->tier = desc->tier ? (uint32_t)desc->tier : bs_tier_best();
    bs_plan_begin(p);
    return run_passes(p, bs_carve_bytes(&c, workspace_bytes(&room)), error) ? p : NULL;
}

bs_plan *bs_plan_create(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const bs_plan_desc *desc,
                        bs_error *error)
{
    const bs_plan_desc none = {.threads = 0};
    desc = desc ? desc : &none;
    if (bs_graph_check(graph, error) != BS_OK || !bs_plan_desc_sound(desc, error))
        return NULL;
    if (!arena || (scratch && !bs_arenas_apart(arena, scratch))) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_create: the arena is NULL, or scratch is part of it");
        return NULL;
    }
    bs_arena *const lender = scratch ? scratch : arena;
    const bs_bytes needed = needed_bytes(graph, desc, scratch != NULL);
    const size_t mark = arena->used;
    if (!bs_lend(lender, needed)) { /* where less is moved or fused than might be, less would do: never by chance */
        bs_fail_arena(error, lender, needed, "planning");
        return NULL;
    }
    graph = bs_dataflow_make(arena, scratch, graph, bs_dataflow_of(desc), error);
    const bs_plan *made = graph ? make_plan(graph, desc, lender, error) : NULL;
    bs_plan *p = made ? settle(arena, made, error) : NULL;
    if (p)
        p->own_bytes = bs_bytes_of(arena->used - mark + BS_ALIGNMENT);
    else
        arena->used = mark;
    return p;
}

#endif
