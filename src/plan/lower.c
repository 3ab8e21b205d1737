/* plan/lower.c - the pass of planning that turns nodes into instructions.
 *
 * Nodes are visited once, in order. Breadth-first nodes become top-level instructions; the paths of a router are
 * concurrent, so their instructions carry equal times and are put in lockstep. Nodes of a region (plan/regions.c)
 * become instructions of its parts; values have their storage classes (plan/places.c).
 * Relies on plan/lower.h. Must never assign offsets. */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

/* ------------------------------------------------------------------------------------------- instructions */

static bs_instr *emit(bs_lower_pass *l, bs_instr_kind kind, int32_t part, int32_t node)
{
    bs_plan *p = l->plan;
    p->n_instrs += p->n_instrs < p->room->instrs; /* always (plan/plan.c); else the walk misses one */
    bs_instr *i = &p->instrs[p->n_instrs - 1];
    memset(i, 0, sizeof *i);
    i->kind = (uint8_t)kind;
    i->node = node;
    i->part = part;
    i->phase = -1;
    i->domain = l->g->nodes[node].domain;
    return i;
}

static bs_instr *emit_move(bs_lower_pass *l, bs_row_map map, bs_combine combine, int32_t part, int32_t node,
                           int32_t value, int32_t target)
{
    bs_instr *i = emit(l, BS_INSTR_MOVE, part, node);
    i->map = (uint8_t)map;
    i->combine = (uint8_t)combine;
    i->value = value;
    i->target = target;
    return i;
}

/* The time from which extents are known that `node` says; 0: none does. */
static int32_t extent_ready(const bs_lower_pass *l, int32_t node)
{
    return node ? l->ready[l->g->nodes[node].first_out] : 0;
}

/* The time from which an instruction of `region` can read `value`. Within a region values are simply made in order. */
static int32_t value_ready(const bs_lower_pass *l, int32_t value, int32_t region)
{
    if (value == 0)
        return 0;
    const bs_storage storage = l->plan->values[value].storage;
    const int32_t made_in = bs_lower_region_of(l, l->g->values[value].node);
    /* the rows of a view may be stored by another node */
    const int32_t ready = made_in == BS_TOP || storage == BS_STORAGE_VIEW ? l->ready[value] : 0;
    return made_in == BS_TOP || made_in == region ? ready : bs_max_i32(ready, l->region_time[made_in]);
}

/* A region is not put off for a loop that it does not wait for: others may have read what it makes. */
static void region_waits(bs_lower_pass *l, int32_t region, int32_t after)
{
    if (after < l->region_time[region])
        return;
    l->region_time[region] = bs_max_i32(after, l->floor) + 1;
    l->latest = bs_max_i32(l->latest, l->region_time[region]);
}

/* When an instruction can run: after what it reads, after the previous one of its domain unless it joins an earlier
 * one, and when the extents of what its node makes are known. */
static void schedule(bs_lower_pass *l, bs_instr *i, int32_t after)
{
    const int32_t region = bs_instr_region(l->plan, i);
    const bs_node *node = &l->g->nodes[i->node];
    const bs_value_info *v = &l->g->values[node->first_out], *end = v + node->n_out;
    for (; v < end; v++)
        for (int32_t d = 0; d < v->rank; d++)
            after = bs_max_i32(after, extent_ready(l, l->g->dims[v->dims[d]].node));
    if (region != BS_TOP) {
        region_waits(l, region, after);
        return;
    }
    after = bs_max_i32(after, l->floor);
    i->time = bs_lower_join(l, i, after, bs_max_i32(after, l->clock[i->domain]) + 1);
    l->clock[i->domain] = bs_max_i32(l->clock[i->domain], i->time);
    l->latest = bs_max_i32(l->latest, i->time);
}

/* Rows of a path exist once its router has decided, others once their number is known. */
static int32_t domain_ready(const bs_lower_pass *l, int32_t domain)
{
    const bs_domain *d = &l->g->domains[domain];
    return d->kind == BS_DOMAIN_PATH ? l->path_ready[d->router] : extent_ready(l, bs_domain_maker(l->g, domain));
}

static int32_t operands_ready(const bs_lower_pass *l, const bs_node *node, int32_t region)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, (int32_t)(node - l->g->nodes), &n_in);
    int32_t ready = domain_ready(l, node->domain);
    for (int32_t i = 0; i < n_in; i++)
        ready = bs_max_i32(ready, value_ready(l, in[i], region));
    return ready;
}

static void outputs_ready(bs_lower_pass *l, const bs_node *node, int32_t time)
{
    for (int32_t i = 0; i < node->n_out; i++)
        l->ready[node->first_out + i] = time;
}

/* The time at which the result of `i` is there; for an instruction in a region, that of the region. */
static int32_t time_of(const bs_lower_pass *l, const bs_instr *i)
{
    return i->part == BS_TOP ? i->time : l->region_time[bs_instr_region(l->plan, i)];
}

/* Rows of `value` go to `target`, in the part that makes the value; the target is ready when all of them are there. */
static void emit_store(bs_lower_pass *l, int32_t n, int32_t value, int32_t target)
{
    const bs_value_info *v = &l->g->values[value];
    const bs_row_map map = l->g->values[target].domain == 0 ? BS_MAP_CELL : BS_MAP_PARENT;
    bs_instr *i = emit_move(l, map, BS_COMBINE_COPY, l->part_of[v->node], n, value, target);
    i->domain = v->domain;
    const int32_t from = l->plan->values[value].storage == BS_STORAGE_VIEW ? l->plan->values[value].source : value;
    const int32_t region = bs_instr_region(l->plan, i);
    schedule(l, i,
             bs_max_i32(domain_ready(l, v->domain),
                        bs_max_i32(value_ready(l, value, region), value_ready(l, from, region))));
    l->ready[target] = bs_max_i32(l->ready[target], time_of(l, i));
}

/* Where the rows of a gather go: its own storage, or the frame it is assembled in. */
static int32_t gather_target(const bs_lower_pass *l, int32_t value)
{
    return l->plan->values[value].storage == BS_STORAGE_FRAME ? l->plan->values[value].source : value;
}

/* When the gather is written over the state that its residual views, rows that no path gives just stay. */
static bool residual_is_in_place(const bs_lower_pass *l, int32_t gather, int32_t residual)
{
    const bs_value_plan *g = &l->plan->values[gather];
    if (g->storage != BS_STORAGE_FRAME || residual == 0 || l->plan->values[residual].storage != BS_STORAGE_VIEW)
        return false;
    const bs_value_plan *frame = &l->plan->values[g->source];
    const bs_value_plan *old = &l->plan->values[l->plan->values[residual].source];
    return frame->storage == BS_STORAGE_STATE && old->storage == BS_STORAGE_STATE && frame->source == old->source;
}

/* Gives the rows that the stores of the paths do not: for sums and selections all rows, else those of no path. */
static bs_instr *emit_gathered(bs_lower_pass *l, int32_t n, bool packed, int32_t residual, int32_t target)
{
    if (packed)
        return emit_move(l, BS_MAP_PATHS, bs_plan_combine(&l->g->nodes[n]), l->part_of[n], n, residual, target);
    const bs_row_map map = l->g->values[target].domain == 0 ? BS_MAP_CELL : BS_MAP_ROW;
    return emit_move(l, map, BS_COMBINE_RESIDUAL, l->part_of[n], n, residual, target);
}

static void emit_gather(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t *in = bs_node_in(l->g, node);
    const int32_t paths = l->g->routers[node->router].desc->paths, value = node->first_out;
    const bool packed = bs_plan_is_packed(l->g, node);
    const int32_t target = gather_target(l, value);
    const int32_t region = bs_lower_region_of(l, n);
    int32_t ready = l->decided[node->router];
    for (int32_t i = 0; i < paths; i++) {
        if (in[i] == 0 || !bs_plan_reads(l->plan, node, i))
            continue;
        if (!packed)
            emit_store(l, n, in[i], target);
        ready = bs_max_i32(ready, bs_max_i32(value_ready(l, in[i], region), l->ready[target]));
    }
    const int32_t residual = bs_plan_reads(l->plan, node, paths) ? in[paths] : 0;
    ready = bs_max_i32(ready, value_ready(l, residual, region));
    if (packed || !(bs_plan_gives_all(l->plan, node) || residual_is_in_place(l, value, residual))) {
        bs_instr *i = emit_gathered(l, n, packed, residual, target);
        schedule(l, i, ready);
        ready = i->part == BS_TOP ? i->time : ready;
    }
    l->ready[value] = ready;
    l->ready[target] = bs_max_i32(l->ready[target], ready);
}

/* A tensor with a row for every possible patch: the rows without a patch in this run become zero. */
static void emit_beyond(bs_lower_pass *l, int32_t n)
{
    const int32_t target = l->g->nodes[n].first_out;
    bs_instr *i = emit_move(l, BS_MAP_BEYOND, BS_COMBINE_ZERO, BS_TOP, n, 0, target);
    schedule(l, i, l->ready[target]);
    l->ready[target] = i->time;
}

/* The moves of what a loop gives: before the first trip what was there, or zeros; after a trip what its rows made. */
static void emit_results(bs_lower_pass *l, int32_t loop, bool before)
{
    const bs_router_info *info = &l->g->routers[loop];
    for (int32_t n = info->node + 1; n < info->loop.again; n++) {
        const bs_node *node = &l->g->nodes[n];
        if (node->router != loop || !l->plan->node_live[n] || !bs_node_gathers(node))
            continue;
        const int32_t *in = bs_node_in(l->g, node), region = bs_lower_region_of(l, n), value = in[before];
        const bs_row_map map = before ? BS_MAP_ROW : bs_loop_collects(l->g, node) ? BS_MAP_TRIP : BS_MAP_PARENT;
        bs_instr *i = emit_move(l, map, value ? BS_COMBINE_COPY : BS_COMBINE_ZERO, l->part_of[n], n, value,
                                node->first_out);
        i->domain = before ? info->domain : info->path_domains;
        schedule(l, i, bs_max_i32(value_ready(l, value, region), domain_ready(l, i->domain)));
        l->ready[node->first_out] = time_of(l, i);
    }
}

/* A loop at top level takes a span of time of its own: nothing else stands between its decisions. */
static void loop_waits(bs_lower_pass *l, int32_t router)
{
    if (bs_router_loops(l->g, router) && !l->plan->routers[router].in_tile)
        l->floor = l->latest;
}

/* Rows that go on get the rings of what came before the decision. */
static void emit_rings(bs_lower_pass *l, int32_t router, int32_t part)
{
    const int32_t domain = l->goes_on[l->g->routers[router].domain];
    if (!domain || l->g->domains[domain].router != router)
        return;
    for (int32_t n = 0; (n = bs_lower_next_ring(l, part, domain, n)) != 0;)
        bs_lower_ring(l, emit(l, BS_INSTR_CALL, part, n), domain);
}

static void emit_route(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t loop = bs_router_loops(l->g, node->router) ? node->router : 0;
    const bool again = loop && l->g->routers[loop].loop.again == n;
    loop_waits(l, node->router);
    if (loop)
        emit_results(l, loop, !again);
    loop_waits(l, node->router);
    bs_instr *i = emit(l, BS_INSTR_ROUTE, l->part_of[n], n);
    const int32_t *in = bs_node_in(l->g, node);
    const bool forced = l->plan->routers[node->router].forced != 0;
    i->domain = again ? node->domain : l->g->routers[node->router].domain;
    int32_t ready = domain_ready(l, i->domain);
    for (int32_t k = 0; !forced && k < node->n_in; k++)
        ready = bs_max_i32(ready, value_ready(l, in[k], bs_instr_region(l->plan, i)));
    schedule(l, i, ready);
    loop_waits(l, node->router);
    if (again)
        return;
    const int32_t part = i->part;
    l->decided[node->router] = part == BS_TOP ? i->time : 0;
    l->path_ready[node->router] = bs_max_i32(l->decided[node->router], domain_ready(l, i->domain));
    emit_rings(l, node->router, part);
}

/* Copies to outputs and states, unless the value already lies there. */
static void emit_ending(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t *in = bs_node_in(l->g, node), value = in[bs_node_operand(node, BS_ROLE_DATA)];
    const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
    const bs_value_plan *v = &l->plan->values[value];
    if (v->storage == (state < 0 ? BS_STORAGE_OUTPUT : BS_STORAGE_STATE) &&
        v->source == (state < 0 ? n : l->g->values[in[state]].node))
        return;
    const int32_t domain = l->g->values[value].domain; /* the root, or segments whose rows are appended */
    bs_instr *i = emit_move(l, domain == 0 ? BS_MAP_BOUND : BS_MAP_APPEND, BS_COMBINE_COPY, BS_TOP, n, value, 0);
    i->domain = domain;
    schedule(l, i, bs_max_i32(value_ready(l, value, BS_TOP), BS_TIME_END)); /* states are written at the end of a run */
}

/* Lowers a tensor of cells. */
static void emit_joined(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t value = node->first_out, from = bs_node_in(l->g, node)[0];
    if (l->plan->values[from].storage == BS_STORAGE_FRAME)
        l->ready[value] = bs_max_i32(l->ready[value], l->ready[from]);
    else
        emit_store(l, n, from, value);
    if (l->g->values[value].rank > l->g->values[from].rank &&
        bs_domain_is_patches(&l->g->domains[l->g->values[from].domain]))
        emit_beyond(l, n);
}

/* A value that already lies in memory, or a view: needs no instruction, unless a reader needs its rows in storage of
 * their own. */
static void emit_found(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t value = node->first_out, region = bs_lower_region_of(l, n), ready = operands_ready(l, node, region);
    const bs_storage storage = l->plan->values[value].storage;
    if (storage == BS_STORAGE_TRANSIENT || storage == BS_STORAGE_SCRATCH) {
        bs_instr *i = emit_move(l, BS_MAP_VIEW, BS_COMBINE_COPY, l->part_of[n], n, value, value);
        schedule(l, i, ready);
        outputs_ready(l, node, time_of(l, i));
        return;
    }
    outputs_ready(l, node, ready);
    if (region != BS_TOP) /* its stores come late, so they must not advance the region's time */
        region_waits(l, region, ready);
}

/* A kernel. One without outputs only predicts what a later router will need, and is left out of a plan that does not
 * stream. */
static void emit_call(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const bool decided = bs_op_get(node->op)->rows.of == BS_ROWS_DECIDED;
    if (node->n_out == 0 && !bs_plan_streams(l->plan))
        return;
    if (node->n_out > 0 && bs_plan_rows_of(l->plan, node->first_out) != node->first_out) {
        emit_found(l, n);
        return;
    }
    bs_instr *i = emit(l, BS_INSTR_CALL, l->part_of[n], n);
    schedule(l, i,
             bs_max_i32(operands_ready(l, node, bs_instr_region(l->plan, i)), decided ? l->decided[node->router] : 0));
    bs_lower_near(l, i);
    outputs_ready(l, node, time_of(l, i));
}

static void emit_node(bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    switch (bs_node_work(node)) {
    case BS_WORK_CALL: emit_call(l, n); break;
    case BS_WORK_GIVEN:
    case BS_WORK_VIEW: emit_found(l, n); break;
    case BS_WORK_MOVE:
        if (bs_router_loops(l->g, node->router))
            break; /* its moves come with the decisions of the loop */
        if (bs_node_gathers(node))
            emit_gather(l, n);
        else if (bs_node_joins_cells(node))
            emit_joined(l, n);
        break; /* ops that end a run come last */
    case BS_WORK_ROUTE: emit_route(l, n); break;
    }
}

/* --------------------------------------------------------------------------------------------- all instructions */

/* A region whose nodes are all views has nothing to run. */
static void emit_regions(bs_lower_pass *l)
{
    const int32_t search = ++l->searches;
    for (int32_t i = 0; i < l->plan->n_instrs; i++)
        if (l->plan->instrs[i].part != BS_TOP)
            l->region_seen[bs_instr_region(l->plan, &l->plan->instrs[i])] = search;
    for (int32_t r = 0; r < l->plan->n_regions; r++) {
        if (l->region_seen[r] != search)
            continue;
        bs_instr *i = emit(l, BS_INSTR_RUN, BS_TOP, 0);
        i->domain = l->plan->regions[r].domain;
        i->time = l->region_time[r];
        i->region = r;
    }
}

static void part_costs(bs_plan *p)
{
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        const bs_op *op = bs_op_get(p->graph->nodes[instr->node].op);
        const bool once = instr->kind == BS_INSTR_CALL && instr->extent != BS_EXTENT_RING;
        if (instr->part != BS_TOP && once && op->flops)
            p->parts[instr->part].flops += op->flops(p->graph, &p->graph->nodes[instr->node]);
    }
}

static void emit_nodes(bs_lower_pass *l)
{
    bs_lower_order(l);
    for (int32_t i = 0; i < l->g->n_nodes - 1; i++)
        if (l->plan->node_live[l->list[i]])
            emit_node(l, l->list[i]);
}

/* ------------------------------------------------------------------------------------------------ workspace */

static void index_room(bs_carver *c, bs_lower_index *index, int64_t most)
{
    uint64_t slots = 4;
    while (slots < 2 * (uint64_t)most)
        slots *= 2;
    index->mask = (uint32_t)(slots - 1);
    BS_CARVE(c, index->slots, slots);
}

/* One walk counts and hands out. The lists of nodes serve the sort of instructions at the end. */
static void carve_lower(bs_carver *c, bs_lower_pass *l, const bs_plan_room *room)
{
    enum {
        NODES, VALUES, NODES_OR_VALUES, ENDS_OF_VALUES, OPERANDS, DOMAINS, REGIONS, ROUTERS, STAGES_OF_VALUES, KINDS
    };
    static const bs_carved arrays[] = {
        BS_CARVED(bs_lower_pass, part_of, NODES),               BS_CARVED(bs_lower_pass, level, NODES),
        BS_CARVED(bs_lower_pass, list, NODES_OR_VALUES),        BS_CARVED(bs_lower_pass, seen, NODES),
        BS_CARVED(bs_lower_pass, neighbour, NODES),             BS_CARVED(bs_lower_pass, ready, VALUES),
        BS_CARVED(bs_lower_pass, first_reader, ENDS_OF_VALUES), BS_CARVED(bs_lower_pass, readers, OPERANDS),
        BS_CARVED(bs_lower_pass, clock, DOMAINS),               BS_CARVED(bs_lower_pass, open, DOMAINS),
        BS_CARVED(bs_lower_pass, tile_region, DOMAINS),         BS_CARVED(bs_lower_pass, region_time, REGIONS),
        BS_CARVED(bs_lower_pass, region_level, REGIONS),        BS_CARVED(bs_lower_pass, region_part, REGIONS),
        BS_CARVED(bs_lower_pass, region_node, REGIONS),         BS_CARVED(bs_lower_pass, region_seen, REGIONS),
        BS_CARVED(bs_lower_pass, region_checked, REGIONS),      BS_CARVED(bs_lower_pass, decided, ROUTERS),
        BS_CARVED(bs_lower_pass, path_ready, ROUTERS),          BS_CARVED(bs_lower_pass, follows, NODES),
        BS_CARVED(bs_lower_pass, first, ROUTERS),               BS_CARVED(bs_lower_pass, last, ROUTERS),
        BS_CARVED(bs_lower_pass, is_on_way, DOMAINS),           BS_CARVED(bs_lower_pass, stage, DOMAINS),
        BS_CARVED(bs_lower_pass, goes_on, DOMAINS),             BS_CARVED(bs_lower_pass, reach, STAGES_OF_VALUES),
        BS_CARVED(bs_lower_pass, split_last, REGIONS),          BS_CARVED(bs_lower_pass, split_next, NODES),
        BS_CARVED(bs_lower_pass, recent, KINDS),
    };
    const int64_t counts[] = {room->nodes,
                              room->values,
                              bs_max_i64(room->nodes, room->values),
                              room->values + 1,
                              room->operands,
                              room->domains,
                              room->parts,
                              room->routers,
                              room->patches ? room->values * BS_STAGES : 0,
                              (int64_t)bs_op_count() + BS_ROW_MAPS};
    BS_CARVE_ARRAYS(c, l, arrays, counts);
    index_room(c, &l->parts, room->parts);
    index_room(c, &l->levels, room->parts);
    index_room(c, &l->units, 2 * room->parts); /* looked up without a unit first, then with one */
}

bs_bytes bs_plan_lower_workspace(const bs_plan_room *room)
{
    bs_lower_pass l;
    bs_carver pass = {NULL, {0}};
    memset(&l, 0, sizeof l);
    carve_lower(&pass, &l, room);
    return bs_bytes_max(pass.used,
                        bs_bytes_align(bs_bytes_array(2 * room->instrs, sizeof(int32_t))));
}

void bs_plan_lower(bs_plan *plan, void *workspace)
{
    const bs_graph *g = plan->graph;
    bs_carver c = {workspace, {0}};
    bs_lower_pass pass, *l = &pass;
    memset(l, 0, sizeof *l);
    carve_lower(&c, l, plan->room);
    memset(workspace, 0, (size_t)bs_bytes_figure(c.used));
    l->plan = plan;
    l->g = g;
    l->joins = bs_lower_joins(plan);
    for (int32_t d = 0; d < g->n_domains; d++)
        l->mixed = l->mixed || plan->domains[d].mixed;
    bs_lower_find_readers(l);
    bool settled = false;
    while (!settled)
        settled = bs_lower_regions(l);
    bs_lower_places(l);
    bs_lower_rings(l);
    emit_nodes(l);
    emit_regions(l);
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (plan->node_live[n] && bs_node_ends_run(&g->nodes[n]))
            emit_ending(l, n);
    /* the pass is done with its workspace */
    bs_lower_sort(plan, workspace);
    part_costs(plan);
}

#endif
