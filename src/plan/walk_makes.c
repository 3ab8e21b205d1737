/* plan/walk_makes.c - which instruction the planner makes of a node, where it stands: how many it needs; the fields of
 * one that is right beside those that say where that is. Where it writes there must be storage.
 * Relies on plan/walk.h. Must never write. */
#include "plan/walk.h"

/* -------------------------------------------------------------------------------------------------- how many */

/* Whether the cells of a gather are put together in a state whose old rows are its residual: those of no path stay. */
static bool stays_in_place(const bs_walk *w, const bs_node *gather, int32_t residual)
{
    const bs_value_plan *values = w->p->values, *cells = &values[gather->first_out];
    if (cells->storage != BS_STORAGE_FRAME || residual == 0 || values[residual].storage != BS_STORAGE_VIEW)
        return false;
    const bs_value_plan *frame = &values[cells->source];
    const bs_value_plan *old = &values[bs_view_of(w->g, &w->g->nodes[w->g->values[residual].node])];
    return frame->storage == BS_STORAGE_STATE && old->storage == BS_STORAGE_STATE && frame->source == old->source;
}

/* A store for each path that gives something; and one for the rows that no path gives, unless there are none. */
static int32_t due_of_gather(const bs_walk *w, const bs_node *node)
{
    const int32_t *in = bs_node_in(w->g, node), paths = w->g->routers[node->router].desc->paths;
    int32_t stores = 0;
    if (bs_router_loops(w->g, node->router))
        return 2; /* before the first trip, and after each */
    if (bs_plan_is_packed(w->g, node))
        return 1;
    for (int32_t k = 0; k < paths; k++)
        stores += in[k] != 0 && bs_plan_reads(w->p, node, k);
    const int32_t residual = bs_plan_reads(w->p, node, paths) ? in[paths] : 0;
    return stores + !(bs_plan_gives_all(w->p, node) || stays_in_place(w, node, residual));
}

/* Whether there are rows beyond those of cells: in a tensor that has one for each cell that there can be. */
static bool has_rows_beyond(const bs_graph *g, const bs_node *joins)
{
    const bs_value_info *from = &g->values[bs_node_in(g, joins)[0]];
    return g->values[joins->first_out].rank > from->rank && bs_domain_is_patches(&g->domains[from->domain]);
}

/* Whether what ends a run already lies where it is to end. */
static bool lies_at_its_end(const bs_walk *w, int32_t n)
{
    const bs_node *node = &w->g->nodes[n];
    const int32_t *in = bs_node_in(w->g, node), state = bs_node_operand(node, BS_ROLE_STATE);
    const bs_value_plan *v = &w->p->values[in[bs_node_operand(node, BS_ROLE_DATA)]];
    return v->storage == (state < 0 ? BS_STORAGE_OUTPUT : BS_STORAGE_STATE) &&
           v->source == (state < 0 ? n : w->g->values[in[state]].node);
}

int32_t bs_walk_due(const bs_walk *w, int32_t n)
{
    const bs_node *node = &w->g->nodes[n];
    if (!w->p->node_live[n])
        return 0;
    switch (bs_node_work(node)) {
    case BS_WORK_CALL:
        return node->n_out > 0 ? bs_plan_rows_of(w->p, node->first_out) == node->first_out : bs_plan_streams(w->p);
    case BS_WORK_GIVEN:
    case BS_WORK_VIEW: return bs_plan_is_stored(w->p, node->first_out);
    case BS_WORK_ROUTE: return 1;
    case BS_WORK_MOVE: break;
    }
    if (bs_node_gathers(node))
        return due_of_gather(w, node);
    if (bs_node_joins_cells(node))
        return (w->p->values[bs_node_in(w->g, node)[0]].storage != BS_STORAGE_FRAME) + has_rows_beyond(w->g, node);
    return !lies_at_its_end(w, n);
}

/* ------------------------------------------------------------------------------------------------- each kind
 * What the planner makes of a node: the fields of `made` beside those of where it stands. False: nothing, there and
 * then. */

/* Whether a call may compute a part of its rectangle: of an image, in a tile; a ring of rows that go on to one of the
 * paths below. */
static bool is_extent(const bs_walk *w, bs_instr *made)
{
    const bs_node *node = w->node;
    const bs_instr *i = w->i;
    const bool ring = i->extent == BS_EXTENT_RING;
    if (i->extent == BS_EXTENT_ALL)
        return true;
    if (i->extent > BS_EXTENT_RING || !w->tile || node->n_out != 1 || !w->g->values[node->first_out].image ||
        !w->op->layout.images || bs_plan_on_device(w->p))
        return false;
    made->domain = ring ? i->domain : node->domain;
    return !ring ||
           (w->g->domains[i->domain].kind == BS_DOMAIN_PATH && bs_plan_is_within(w->g, i->domain, node->domain));
}

static bool make_call(bs_walk *w, bs_instr *made)
{
    const bs_node *node = w->node;
    bool sound = w->op->work == BS_WORK_CALL && (!node->makes || w->p->nodes[w->i->node].instr == w->at) &&
                 (node->n_out > 0 || (!w->tile && bs_plan_streams(w->p))) &&
                 !(w->tile && bs_op_sees_rows(w->op)) && is_extent(w, made);
    for (int32_t out = node->first_out; out < node->first_out + node->n_out && sound; out++) {
        const bs_storage storage = (bs_storage)w->p->values[out].storage;
        sound = (bs_plan_is_stored(w->p, out) || storage == BS_STORAGE_OUTPUT ||
                 (storage == BS_STORAGE_VIEW && w->op->memory.updates)) &&
                bs_walk_may_write(w, out);
    }
    return sound;
}

static bool make_route(const bs_walk *w, bs_instr *made)
{
    if (w->op->work != BS_WORK_ROUTE)
        return false;
    const bs_router_plan *r = &w->p->routers[w->node->router];
    const bool again = w->g->routers[w->node->router].loop.again == w->i->node;
    made->domain = again ? w->node->domain : w->g->routers[w->node->router].domain;
    return (again ? r->again == w->at && bs_walk_is_decided(w, w->node->router)
                  : r->instr == w->at && r->again != w->at) &&
           r->in_tile == (w->tile != 0);
}

/* A region runs once. */
static bool make_run(const bs_walk *w, bs_instr *made)
{
    const bs_plan *p = w->p;
    if (w->tile || w->i->region >= p->n_regions || w->i->node != 0 || p->regions[w->i->region].instr != w->at)
        return false;
    made->region = w->i->region;
    made->domain = p->regions[w->i->region].domain;
    return true;
}

static void make_move(bs_instr *made, bs_row_map map, bs_combine combine, int32_t value, int32_t target)
{
    made->map = (uint8_t)map;
    made->combine = (uint8_t)combine;
    made->value = value;
    made->target = target;
}

/* Stores rows of a value where its readers look for them. */
static void make_store(const bs_graph *g, bs_instr *made, int32_t value, int32_t target)
{
    make_move(made, g->values[target].domain == 0 ? BS_MAP_CELL : BS_MAP_PARENT, BS_COMBINE_COPY, value, target);
    made->domain = g->values[value].domain;
}

/* The moves of a gather: rows of a path, which are stored, or rows that no path gives; for sums and selections all
 * rows. */
static bool make_gathered(const bs_walk *w, bs_instr *made)
{
    const bs_graph *g = w->g;
    const bs_node *node = w->node;
    const bs_value_plan *v = &w->p->values[node->first_out];
    const int32_t *in = bs_node_in(g, node), target = v->storage == BS_STORAGE_FRAME ? v->source : node->first_out;
    const int32_t paths = g->routers[node->router].desc->paths, value = w->i->value;
    const int32_t residual = bs_plan_reads(w->p, node, paths) ? in[paths] : 0;
    if (bs_plan_is_packed(g, node)) {
        make_move(made, BS_MAP_PATHS, bs_plan_combine(node), residual, target);
        return true;
    }
    if (w->i->combine == BS_COMBINE_COPY) {
        const bs_domain *d = &g->domains[g->values[value].domain];
        make_store(g, made, value, target);
        return value != 0 && d->kind == BS_DOMAIN_PATH && d->router == node->router && in[d->path] == value &&
               bs_plan_reads(w->p, node, d->path);
    }
    make_move(made, g->values[target].domain == 0 ? BS_MAP_CELL : BS_MAP_ROW, BS_COMBINE_RESIDUAL, residual, target);
    return true;
}

/* The moves of a tensor of cells: rows of cells, and the rows beyond them. */
static bool make_joined(const bs_walk *w, bs_instr *made)
{
    const int32_t value = bs_node_in(w->g, w->node)[0], target = w->node->first_out;
    if (w->i->combine == BS_COMBINE_COPY) {
        make_store(w->g, made, value, target);
        return w->p->values[value].storage != BS_STORAGE_FRAME;
    }
    make_move(made, BS_MAP_BEYOND, BS_COMBINE_ZERO, 0, target);
    return !w->tile && has_rows_beyond(w->g, w->node) && w->p->node_live[w->g->values[value].node];
}

/* The moves of what a loop gives: what is there before the first trip, and the rows that made a trip. */
static void make_result(const bs_walk *w, bs_instr *made)
{
    const bs_router_info *loop = &w->g->routers[w->node->router];
    const int32_t *in = bs_node_in(w->g, w->node), out = w->node->first_out;
    const bool before = w->i->map == BS_MAP_ROW;
    made->domain = before ? loop->domain : loop->path_domains;
    make_move(made, before ? BS_MAP_ROW : bs_loop_collects(w->g, w->node) ? BS_MAP_TRIP : BS_MAP_PARENT,
              in[before] ? BS_COMBINE_COPY : BS_COMBINE_ZERO, in[before], out);
}

static bool make_moved(const bs_walk *w, bs_instr *made)
{
    const bs_node *node = w->node;
    const int32_t out = node->first_out;
    if (bs_router_loops(w->g, node->router) && bs_node_gathers(node))
        return make_result(w, made), true;
    if (bs_node_gathers(node))
        return make_gathered(w, made);
    if (bs_node_joins_cells(node))
        return make_joined(w, made);
    if (bs_node_ends_run(node)) {
        const int32_t value = bs_node_in(w->g, node)[bs_node_operand(node, BS_ROLE_DATA)];
        made->domain = w->g->values[value].domain;
        make_move(made, made->domain == 0 ? BS_MAP_BOUND : BS_MAP_APPEND, BS_COMBINE_COPY, value, 0);
        return !w->tile;
    }
    /* rows of a view, copied where a reader needs them in storage of their own */
    make_move(made, BS_MAP_VIEW, BS_COMBINE_COPY, out, out);
    return bs_plan_is_stored(w->p, out) && (w->op->work == BS_WORK_VIEW || w->op->work == BS_WORK_GIVEN);
}

bool bs_walk_makes(bs_walk *w)
{
    const bs_instr *i = w->i;
    bs_instr made = {.domain = w->node->domain};
    bool makes = false;
    switch ((bs_instr_kind)i->kind) {
    case BS_INSTR_CALL: makes = make_call(w, &made); break;
    case BS_INSTR_MOVE: makes = make_moved(w, &made); break;
    case BS_INSTR_ROUTE: makes = make_route(w, &made); break;
    case BS_INSTR_RUN: makes = make_run(w, &made); break;
    }
    return makes && made.map == i->map && made.combine == i->combine && made.value == i->value &&
           made.target == i->target && made.region == i->region && made.domain == i->domain &&
           (!w->tile || bs_plan_is_within(w->g, made.domain, w->tile)) &&
           (made.target == 0 || bs_walk_may_write(w, made.target));
}
