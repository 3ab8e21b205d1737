/* plan/memory.c - the last pass of planning: lifetimes to offsets.
 *
 * Times are those of the instructions. Equal times are concurrent (paths of a router run side by side), and a value is
 * alive from the first to the last time that touches it, both included. Values of different paths that are at the same
 * position in their block share a slab: rows of all paths packed, `max rows x paths per cell x widest row` bytes. So
 * the arms of a single-cell if also share their memory; nothing else overlaps.
 * Relies on plan/lower.c having run. */
#include "plan/plan.h"
#include "ops/structure.h"

#if !defined(BS_NO_PLANNER)

typedef struct memory_pass {
    bs_plan *plan;
    /* [values] when it was defined and used last, in the list of its scope; whose bytes it shares: the first value of a
     * slab, or itself */
    int32_t *first, *last, *slab;
    bs_life *lives;    /* [values] of a scope, one after the other */
    int32_t *life_of;  /* [values] of a slab: its life */
    int32_t *members;  /* [values] of the transient arena, then of part after part */
    int32_t *scope_end; /* [parts + 1] in members, the transient arena first */
    int32_t *counts;   /* [domains], [routers + 1], [regions] */
    void *place;       /* for placing */
} memory_pass;

/* --------------------------------------------------------------------------------------------- lifetimes */

static int32_t storage_of(const bs_plan *p, int32_t value)
{
    while (value > 0 && p->values[value].storage == BS_STORAGE_VIEW)
        value = p->values[value].source;
    return value;
}

/* Where an instruction stands: the part whose scratch it may touch (-1: none), its time there, and the innermost loop
 * around it. */
typedef struct life_at {
    int32_t scope, time, loop;
} life_at;

static void stretch(memory_pass *m, int32_t value, int32_t time)
{
    m->first[value] = m->first[value] < 0 ? time : bs_min_i32(m->first[value], time);
    m->last[value] = bs_max_i32(m->last[value], time);
}

static int32_t instr_time(const bs_plan *p, int32_t k)
{
    return p->instrs[k].part == BS_TOP ? p->instrs[k].time : k;
}

/* What is outside a loop, and touched in it, is touched in every trip. */
static void touch(memory_pass *m, int32_t value, const life_at *at)
{
    const bs_plan *p = m->plan;
    const bs_graph *g = p->graph;
    value = storage_of(p, value);
    const bs_value_plan *v = &p->values[value];
    const bool here = value > 0 && ((v->storage == BS_STORAGE_TRANSIENT && at->scope < 0) ||
                                    (v->storage == BS_STORAGE_SCRATCH && v->scope == at->scope));
    if (!here)
        return;
    stretch(m, value, at->time);
    for (int32_t l = at->loop; l && !bs_domain_in_loop(g, g->values[value].domain, l);
         l = g->domains[g->routers[l].domain].loop) {
        stretch(m, value, instr_time(p, p->routers[l].instr));
        stretch(m, value, instr_time(p, p->routers[l].again));
    }
}

static void touch_instr(memory_pass *m, const bs_instr *i, const life_at *at)
{
    const bs_plan *p = m->plan;
    const bs_node *node = &p->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, i->node, &n_in);
    touch(m, i->value, at);
    touch(m, i->target, at);
    const bool reads_operands = i->kind != BS_INSTR_MOVE || bs_instr_gathers(i);
    for (int32_t k = 0; reads_operands && k < n_in; k++)
        touch(m, in[k], at);
    if (bs_instr_loads(i) && n_in > 0)
        touch(m, bs_view_of(p->graph, node), at);
    for (int32_t k = 0; i->kind == BS_INSTR_CALL && k < node->n_out; k++)
        touch(m, node->first_out + k, at);
}

/* The innermost loop around what follows instruction k, which stands in `loop`. */
static int32_t loop_after(const bs_plan *p, int32_t k, int32_t loop)
{
    const int32_t router = p->instrs[k].kind == BS_INSTR_ROUTE ? p->graph->nodes[p->instrs[k].node].router : 0;
    if (!router || !bs_router_loops(p->graph, router))
        return loop;
    return p->routers[router].instr == k ? router : p->graph->domains[p->graph->routers[router].domain].loop;
}

static void find_lifetimes(memory_pass *m)
{
    const bs_plan *p = m->plan;
    int32_t *region_time = m->counts;
    for (int32_t v = 0; v < p->graph->n_values; v++)
        m->first[v] = m->last[v] = -1;
    for (int32_t t = 0; t < p->n_top; t++)
        if (p->instrs[t].kind == BS_INSTR_RUN)
            region_time[p->instrs[t].region] = p->instrs[t].time;
    for (int32_t i = 0, loop = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        if (instr->kind == BS_INSTR_RUN)
            continue;
        const life_at here = {instr->part, instr_time(p, i), loop};
        touch_instr(m, instr, &here);
        if (instr->part != BS_TOP) { /* a region touches outside values at its own time, loops and all */
            const life_at outside = {BS_TOP, region_time[p->parts[instr->part].region], 0};
            touch_instr(m, instr, &outside);
        }
        loop = loop_after(p, i, loop);
    }
}

/* ------------------------------------------------------------------------------------------------ placing */

/* The router of a value whose slab can be shared, or 0. */
static int32_t slab_router(const bs_plan *p, int32_t value)
{
    const bs_domain *d = &p->graph->domains[p->graph->values[value].domain];
    return p->values[value].storage == BS_STORAGE_TRANSIENT && d->kind == BS_DOMAIN_PATH ? d->router : 0;
}

/* Values at the same position among the stored values of their path share a slab, which has the number of the first. */
static void assign_slabs(memory_pass *m)
{
    const bs_plan *p = m->plan;
    const bs_graph *g = p->graph;
    int32_t *ordinal = m->counts, *first = m->counts + g->n_domains; /* next position; first slab */
    int32_t *of_path = m->members; /* slabs of a router, one after the other */
    memset(ordinal, 0, (size_t)g->n_domains * sizeof *ordinal);
    memset(first, 0, (size_t)(g->n_routers + 1) * sizeof *first);
    for (int32_t v = 1; v < g->n_values; v++) { /* a router has as many slabs as its longest path has values */
        const int32_t router = slab_router(p, v), count = router ? ++ordinal[g->values[v].domain] : 0;
        first[router + 1] = router ? bs_max_i32(first[router + 1], count) : 0;
    }
    for (int32_t r = 1; r <= g->n_routers; r++)
        first[r] += first[r - 1];
    memset(of_path, 0, (size_t)g->n_values * sizeof *of_path);
    memset(ordinal, 0, (size_t)g->n_domains * sizeof *ordinal);
    for (int32_t v = 1; v < g->n_values; v++) {
        const int32_t router = slab_router(p, v);
        m->slab[v] = v;
        if (router == 0)
            continue;
        int32_t *known = &of_path[first[router] + ordinal[g->values[v].domain]++];
        *known = *known ? *known : v;
        m->slab[v] = *known;
    }
}

/* Lists the values of every scope, in order: the transient arena, then part after part. */
static void find_members(memory_pass *m)
{
    const bs_plan *p = m->plan;
    memset(m->scope_end, 0, ((size_t)p->n_parts + 2) * sizeof *m->scope_end);
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t v = 1; v < p->graph->n_values; v++) {
            const bs_value_plan *plan = &p->values[v];
            const int32_t scope = plan->storage == BS_STORAGE_TRANSIENT ? 0
                                  : plan->storage == BS_STORAGE_SCRATCH ? plan->scope + 1
                                                                    : -1;
            if (scope < 0)
                continue;
            if (pass == 1)
                m->members[m->scope_end[scope]] = v;
            m->scope_end[scope]++;
        }
        if (pass == 0)
            bs_starts_of(m->scope_end, p->n_parts + 1);
    }
}

/* scope: -1 the transient arena, else a part's scratch. */
static bs_bytes place_scope(memory_pass *m, int32_t scope)
{
    bs_plan *p = m->plan;
    const int32_t begin = scope < 0 ? 0 : m->scope_end[scope], end = m->scope_end[scope + 1];
    int32_t count = 0;
    for (int32_t i = begin; i < end; i++) { /* the first value of a slab comes first */
        const int32_t value = m->members[i], slab = m->slab[value];
        const bs_bytes bytes = bs_bytes_times(p->values[value].row_bytes, p->values[value].rows);
        if (slab == value) {
            m->life_of[slab] = count;
            m->lives[count++] = (bs_life){bytes, {0}, m->first[value], m->last[value]};
            continue;
        }
        bs_life *life = &m->lives[m->life_of[slab]];
        life->first = bs_min_i32(life->first, m->first[value]);
        life->last = bs_max_i32(life->last, m->last[value]);
        life->bytes = bs_bytes_max(life->bytes, bytes);
    }
    const bs_bytes total = bs_place_lives(m->lives, count, m->place);
    for (int32_t i = begin; i < end; i++)
        p->values[m->members[i]].offset = m->lives[m->life_of[m->slab[m->members[i]]]].offset;
    return total;
}

/* In a slab, rows of every path are as wide as the widest. */
static void widen_slabs(memory_pass *m)
{
    bs_plan *p = m->plan;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t v = 1; v < p->graph->n_values; v++) {
            bs_value_plan *plan = &p->values[v], *slab = &p->values[m->slab[v]];
            plan->row_bytes = slab->row_bytes = bs_bytes_max(plan->row_bytes, slab->row_bytes);
        }
}

/* Rows of a tile, as wide as they will be stored. */
static bs_bytes tile_bytes(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    const bs_bytes bytes = bs_bytes_times(bs_plan_row_bytes(p, value), p->domains[v->domain].tile_rows);
    return p->desc.half && v->dtype == BS_F32 && !p->values[value].narrow ? bs_bytes_share(bytes, 2) : bytes;
}

bool bs_plan_is_wide(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    const bs_bytes most = bs_bytes_share(p->shared_bytes, 2);
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, n, &n_in);
    bool wide = false;
    for (int32_t i = 0; i < n_in; i++)
        wide = wide || (in[i] && p->graph->values[in[i]].domain != 0 && bs_bytes_less(most, tile_bytes(p, in[i])));
    for (int32_t i = 0; i < node->n_out; i++)
        wide = wide || bs_bytes_less(most, tile_bytes(p, node->first_out + i));
    return wide;
}

/* Decisions of tiles are known in their tiles only. */
static bool decided_in_tiles(const bs_plan *p, int32_t domain)
{
    const bs_graph *g = p->graph;
    bool in_tile = false;
    for (; g->domains[domain].kind == BS_DOMAIN_PATH; domain = g->domains[domain].parent)
        in_tile = in_tile || p->routers[g->domains[domain].router].in_tile;
    return in_tile;
}

bs_load bs_plan_weight_load(const bs_plan *p, int32_t n)
{
    enum { LEAST = 32 << 10 }; /* fewer stay in the second cache while a tile goes by */
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const bs_bytes weights = bs_plan_canonical_bytes(g, node);
    bs_bytes row = bs_bytes_of(0);
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, n, &n_in);
    if (decided_in_tiles(p, node->domain))
        return BS_LOAD_LIGHT;
    for (int32_t i = 0; i < n_in; i++)
        if (in[i] && g->values[in[i]].domain != 0)
            row = bs_bytes_add(row, bs_plan_row_bytes(p, in[i]));
    for (int32_t i = 0; i < node->n_out; i++)
        row = bs_bytes_add(row, bs_plan_row_bytes(p, node->first_out + i));
    if (bs_bytes_figure(weights) > 0 && !bs_bytes_less(row, weights))
        return BS_LOAD_LIGHT;
    return bs_bytes_less(bs_bytes_of(LEAST), weights) ? BS_LOAD_HEAVY : BS_LOAD_EITHER;
}

#define WIDE_SHARE 4 /* at most one node in this many may be wide */

void bs_plan_untile(bs_plan *p, int32_t top)
{
    int32_t nodes = 0, wide = 0;
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        if (!p->node_live[n] || !bs_op_get(p->graph->nodes[n].op)->run ||
            bs_plan_top_domain(p->graph, p->graph->nodes[n].domain) != top)
            continue;
        nodes++;
        wide += bs_plan_is_wide(p, n);
    }
    if (!p->domains[top].mixed && wide > 0 && wide * WIDE_SHARE <= nodes)
        p->domains[top].mixed = true;
    else
        p->domains[top].order = BS_ORDER_BREADTH;
    bs_plan_spread_orders(p);
}

/* One walk counts and hands out. */
static void carve_memory(bs_carver *c, memory_pass *m, const bs_plan_room *room)
{
    BS_CARVE(c, m->first, room->values);
    BS_CARVE(c, m->last, room->values);
    BS_CARVE(c, m->slab, room->values);
    BS_CARVE(c, m->lives, room->values);
    BS_CARVE(c, m->life_of, room->values);
    BS_CARVE(c, m->members, room->values + room->routers);
    BS_CARVE(c, m->scope_end, room->parts + 2);
    BS_CARVE(c, m->counts, bs_max_i64(room->domains + room->routers + 1, room->nodes));
    m->place = bs_carve_bytes(c, bs_place_workspace((int32_t)bs_min_i64(room->values, 4 * BS_MAX_ENTRIES)));
}

bs_bytes bs_plan_memory_workspace(const bs_plan_room *room)
{
    memory_pass m = {0};
    bs_carver c = {NULL, {0}};
    carve_memory(&c, &m, room);
    return c.used;
}

bool bs_plan_memory(bs_plan *plan, void *workspace, bs_error *error)
{
    const int32_t values = plan->graph->n_values;
    memory_pass m = {.plan = plan};
    bs_carver c = {workspace, {0}};
    carve_memory(&c, &m, plan->room);
    find_lifetimes(&m);
    assign_slabs(&m);
    for (int32_t v = 1; v < values; v++) {
        if (!bs_plan_is_stored(plan, bs_plan_rows_of(plan, v)))
            continue;
        plan->values[v].row_bytes = bs_plan_row_bytes(plan, v);
        plan->values[v].rows = bs_plan_storage_rows(plan, v);
    }
    widen_slabs(&m);
    find_members(&m);
    place_scope(&m, -1);
    for (int32_t k = 0; k < plan->n_parts; k++)
        plan->parts[k].scratch_bytes = place_scope(&m, k);
    bs_plan_sum(plan);
    return bs_plan_bytes_fit(plan, error);
}

#endif
