/* plan/image_instrs.c - what an image says of instructions, parts and regions: whether each instruction is one that the
 * planner could have made of its node, on rows that are there when its turn comes.
 *
 *   field                            what a lie could do                       what is asked for
 *   regions: first, count;           tiles run twice, or of other rows         parts are of one region each, of one
 *     region_parts; parts: place       than the region has                       router's paths or the domain itself
 *   parts: first, count; instrs:     lists in lists, without end               lists lie behind each other, and only
 *   the
 *     part, kind                                                                 top one runs regions
 *   instrs: region, regions: instr   regions run again and again               each is run once
 *   instrs: node, map, combine,      moves between rows that differ,           what the planner makes of such a node
 *     value, target, domain            kernels that there are not
 *   routers: instr, and the order    rows of decisions that are not made       decided once, before, where it is seen
 *   values an instruction touches    a tile's rows seen by others              scratch of the part that it is in
 *   parts: scratch_bytes             rows beyond a thread's scratch            below the kernels'
 *   instrs: time; parts: flops;      nothing: reports and times                -
 *     last_route
 *
 * What comes too early reads what was there before: bytes of its own arena.
 * Relies on plan/image.h and plan/image_values.c having looked. Must never write. */
#include "plan/image.h"

#include "ops/structure.h"

/* ------------------------------------------------------------------------------------------- parts and regions */

static bool part_sound(const bs_plan *p, int32_t k, bs_error *error)
{
    const bs_graph *g = p->graph;
    const bs_part *part = &p->parts[k];
    const bs_domain *d = &g->domains[part->domain];
    const bool path = d->kind == BS_DOMAIN_PATH;
    const bs_region *region = &p->regions[part->region];
    if (p->n_regions == 0 || p->region_parts[part->place] != k || part->place < region->first ||
        part->place - region->first >= region->count)
        return bs_image_refuse(error, "parts", k, "it is not where its region has its parts");
    if (part->domain == 0 || (path && d->outermost != part->domain) || region->domain != d->top ||
        part->router != (path ? d->router : 0) || part->path != (path ? d->path : -1))
        return bs_image_refuse(error, "parts", k, "it has rows that its region has not");
    if (part->first > p->n_instrs - part->count || (part->count > 0 && part->first < p->n_top))
        return bs_image_refuse(error, "parts", k, "its instructions are not there");
    for (int32_t i = part->first; i < part->first + part->count; i++)
        if (p->instrs[i].part != k)
            return bs_image_refuse(error, "parts", k, "its instructions are another part's");
    return !bs_bytes_less(p->kernel_scratch_offset, part->scratch_bytes) ||
           bs_image_refuse(error, "parts", k, "its scratch reaches beyond a thread's");
}

static bool region_sound(const bs_plan *p, int32_t r, bs_error *error)
{
    const bs_region *region = &p->regions[r];
    if (region->first > p->n_parts - region->count || region->count < 1 || region->count > p->most_parts)
        return bs_image_refuse(error, "regions", r, "its parts are not there");
    const int32_t *parts = p->region_parts + region->first;
    const int32_t router = p->parts[parts[0]].router;
    if (router == 0 && region->count > 1)
        return bs_image_refuse(error, "regions", r, "it has its rows twice");
    for (int32_t i = 0; i < region->count; i++) {
        if (p->parts[parts[i]].region != r || p->parts[parts[i]].router != router)
            return bs_image_refuse(error, "regions", r, "it has parts of another region or router");
        for (int32_t k = 0; k < i; k++)
            if (p->parts[parts[k]].domain == p->parts[parts[i]].domain)
                return bs_image_refuse(error, "regions", r, "it has its rows twice");
    }
    return true;
}

/* ------------------------------------------------------------------------------------------ what is there when */

/* An instruction, and where it stands. */
typedef struct image_at {
    const bs_plan *p;
    const bs_instr *i;
    int32_t at;
} image_at;

/* When it runs, among those at top level. */
static int32_t time_at_top(const image_at *a)
{
    return a->i->part == BS_TOP ? a->at : a->p->regions[a->p->parts[a->i->part].region].instr;
}

/* Whether the router has decided by then, where this instruction sees it. */
static bool is_decided(const image_at *a, int32_t router)
{
    const bs_router_plan *r = &a->p->routers[router];
    if (!r->live || r->instr < 0)
        return false;
    const int32_t part = a->p->instrs[r->instr].part;
    return part == BS_TOP ? r->instr < time_at_top(a) : part == a->i->part && r->instr < a->at;
}

/* Whether the rows of a domain are known then. A path that is seen was decided by an instruction that saw the domain
 * above it. */
static bool sees(const image_at *a, int32_t domain)
{
    const bs_graph *g = a->p->graph;
    const bs_domain *d = &g->domains[domain];
    const int32_t tile = a->i->part == BS_TOP ? 0 : a->p->parts[a->i->part].domain;
    if (tile && bs_image_is_within(g, tile, domain))
        return true; /* its own rows, and those above */
    if (d->kind != BS_DOMAIN_PATH)
        return tile == 0 || domain == 0;
    return is_decided(a, d->router) && a->p->routers[d->router].in_tile == (tile != 0);
}

/* Whether it may work on the rows of this domain. */
static bool runs_on(const image_at *a, int32_t domain)
{
    const int32_t tile = a->i->part == BS_TOP ? 0 : a->p->parts[a->i->part].domain;
    return sees(a, domain) && (tile == 0 || bs_image_is_within(a->p->graph, domain, tile));
}

/* Whether there are rows of a value that it may look at. Views go to values of lower numbers. */
static bool touches(const image_at *a, int32_t value)
{
    const bs_plan *p = a->p;
    if (value == 0 || !sees(a, p->graph->values[value].domain))
        return false;
    while (p->values[value].place == BS_PLACE_VIEW)
        value = p->values[value].source;
    const bs_value_plan *v = &p->values[value];
    return v->place == BS_PLACE_SCRATCH ? v->scope == a->i->part
                                        : v->place != BS_PLACE_NONE && v->place != BS_PLACE_FRAME;
}

static bool touches_operands(const image_at *a)
{
    const bs_node *node = &a->p->graph->nodes[a->i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(a->p, a->i->node, &n_in);
    bool all = true;
    for (int32_t k = 0; k < n_in && all; k++)
        all = in[k] == 0 || !bs_plan_reads(a->p, node, k) || touches(a, in[k]);
    return all;
}

/* ------------------------------------------------------------------------------------------------- each kind */

static bool call_sound(const image_at *a)
{
    const bs_node *node = &a->p->graph->nodes[a->i->node];
    const bs_op *op = bs_op_get(node->op);
    const bool top = a->i->part == BS_TOP;
    bool sound = bs_node_work(node) == BS_WORK_CALL && a->i->domain == node->domain && runs_on(a, node->domain) &&
                 (top || (!(op->flags & BS_OP_ACROSS) && node->n_out > 0)) &&
                 (node->n_out > 0 || bs_plan_streams(a->p)) && (node->router == 0 || is_decided(a, node->router));
    for (int32_t k = 0; k < node->n_out && sound; k++)
        sound = bs_plan_is_stored(a->p, node->first_out + k) && touches(a, node->first_out + k);
    return sound && touches_operands(a);
}

static bool route_sound(const image_at *a)
{
    const bs_node *node = &a->p->graph->nodes[a->i->node];
    const bool top = a->i->part == BS_TOP;
    if (bs_node_work(node) != BS_WORK_ROUTE)
        return false;
    const bs_router_plan *r = &a->p->routers[node->router];
    const int32_t domain = a->p->graph->routers[node->router].domain;
    return r->instr == a->at && r->in_tile != top && a->i->domain == domain && runs_on(a, domain) &&
           touches_operands(a);
}

/* The paths' domains are seen when the region runs, and it runs once. */
static bool run_sound(const image_at *a)
{
    const bs_plan *p = a->p;
    if (a->i->part != BS_TOP || a->i->region >= p->n_regions || p->regions[a->i->region].instr != a->at)
        return false;
    const bs_region *region = &p->regions[a->i->region];
    const int32_t router = p->parts[p->region_parts[region->first]].router;
    return a->i->node == 0 && a->i->domain == region->domain &&
           (router == 0 || (is_decided(a, router) && !p->routers[router].in_tile));
}

/* Where the rows of a gather or a joined value go. */
static int32_t goal_of(const bs_plan *p, const bs_node *node)
{
    const bs_value_plan *v = &p->values[node->first_out];
    return v->place == BS_PLACE_FRAME ? v->source : node->first_out;
}

/* Rows of a path, or of cells, are stored: copied to the parent's, or to where they are in a root tensor. */
static bool store_sound(const image_at *a, const bs_node *node)
{
    const bs_graph *g = a->p->graph;
    const bs_instr *i = a->i;
    const int32_t *in = bs_node_in(g, node), domain = g->values[i->value].domain;
    const bs_row_map map = g->values[i->target].domain == 0 ? BS_MAP_CELL : BS_MAP_PARENT;
    if (i->value == 0 || i->map != map || i->domain != domain || i->target != goal_of(a->p, node))
        return false;
    if (bs_node_joins_cells(node))
        return i->value == in[0] && map == BS_MAP_CELL && a->p->values[in[0]].place != BS_PLACE_FRAME;
    const bs_domain *d = &g->domains[domain];
    return bs_node_gathers(node) && !bs_plan_is_packed(g, node) && d->kind == BS_DOMAIN_PATH &&
           d->router == node->router && in[d->path] == i->value && bs_plan_reads(a->p, node, d->path);
}

/* Rows of a gather that its paths do not give; of sums and selections all. */
static bool gathered_sound(const image_at *a, const bs_node *node)
{
    const bs_graph *g = a->p->graph;
    const bs_instr *i = a->i;
    if (!bs_node_gathers(node) || i->domain != node->domain || i->target != goal_of(a->p, node) ||
        !is_decided(a, node->router))
        return false;
    const int32_t paths = g->routers[node->router].desc->paths, residual = bs_node_in(g, node)[paths];
    if (i->value != 0 && (i->value != residual || !bs_plan_reads(a->p, node, paths)))
        return false;
    if (bs_plan_is_packed(g, node))
        return i->map == BS_MAP_PATHS && i->combine == bs_plan_combine(node) && touches_operands(a);
    return i->combine == BS_COMBINE_RESIDUAL &&
           i->map == (g->values[i->target].domain == 0 ? BS_MAP_CELL : BS_MAP_ROW);
}

static bool beyond_sound(const image_at *a, const bs_node *node)
{
    const bs_graph *g = a->p->graph;
    if (!bs_node_joins_cells(node))
        return false;
    const bs_value_info *from = &g->values[bs_node_in(g, node)[0]], *to = &g->values[node->first_out];
    return a->i->part == BS_TOP && a->i->combine == BS_COMBINE_ZERO && a->i->domain == node->domain &&
           a->i->target == node->first_out && a->i->value == 0 && to->rank > from->rank &&
           bs_domain_is_patches(&g->domains[from->domain]) && a->p->node_live[from->node];
}

static bool ending_sound(const image_at *a, const bs_node *node)
{
    const bs_graph *g = a->p->graph;
    if (!bs_node_ends_run(node))
        return false;
    const int32_t value = bs_node_in(g, node)[bs_node_operand(node, BS_ROLE_DATA)];
    const int32_t domain = g->values[value].domain;
    return a->i->part == BS_TOP && a->i->combine == BS_COMBINE_COPY && a->i->value == value && a->i->target == 0 &&
           a->i->domain == domain && a->i->map == (domain == 0 ? BS_MAP_BOUND : BS_MAP_APPEND);
}

/* Rows that are found elsewhere, where somebody needs rows of their own. */
static bool found_sound(const image_at *a, const bs_node *node)
{
    return (bs_node_work(node) == BS_WORK_GIVEN || bs_node_work(node) == BS_WORK_VIEW) &&
           a->i->combine == BS_COMBINE_COPY && a->i->value == node->first_out && a->i->target == node->first_out &&
           a->i->domain == node->domain && bs_plan_is_stored(a->p, node->first_out) && touches_operands(a);
}

/* Whether the planner could have made this move of its node. */
static bool move_is_known(const image_at *a)
{
    const bs_node *node = &a->p->graph->nodes[a->i->node];
    switch ((bs_row_map)a->i->map) {
    case BS_MAP_VIEW: return found_sound(a, node);
    case BS_MAP_ROW:
    case BS_MAP_PATHS: return gathered_sound(a, node);
    case BS_MAP_PARENT: return a->i->combine == BS_COMBINE_COPY && store_sound(a, node);
    case BS_MAP_CELL:
        return a->i->combine == BS_COMBINE_COPY ? store_sound(a, node) : gathered_sound(a, node);
    case BS_MAP_BOUND:
    case BS_MAP_APPEND: return ending_sound(a, node);
    case BS_MAP_BEYOND: return beyond_sound(a, node);
    }
    return false;
}

static bool move_sound(const image_at *a)
{
    const bs_node *node = &a->p->graph->nodes[a->i->node];
    const bool makes = node->n_out > 0;
    return move_is_known(a) && runs_on(a, a->i->domain) && (a->i->value == 0 || touches(a, a->i->value)) &&
           (!makes || touches(a, a->i->target));
}

static bool instr_sound(const bs_plan *p, int32_t k, bs_error *error)
{
    const image_at a = {p, &p->instrs[k], k};
    const bool top = k < p->n_top;
    bool sound = top == (a.i->part == BS_TOP);
    if (!top && sound) {
        const bs_part *part = &p->parts[a.i->part];
        sound = k >= part->first && k - part->first < part->count && p->regions[part->region].instr >= 0;
    }
    if (!sound)
        return bs_image_refuse(error, "instrs", k, "it does not stand where its part is");
    if (a.i->kind != BS_INSTR_RUN && !p->node_live[a.i->node])
        return bs_image_refuse(error, "instrs", k, "its node is not needed");
    switch ((bs_instr_kind)a.i->kind) {
    case BS_INSTR_CALL: sound = call_sound(&a); break;
    case BS_INSTR_MOVE: sound = move_sound(&a); break;
    case BS_INSTR_ROUTE: sound = route_sound(&a); break;
    case BS_INSTR_RUN: sound = run_sound(&a); break;
    }
    return sound || bs_image_refuse(error, "instrs", k, "no planner makes it of its node, there and then");
}

bool bs_image_instrs_sound(const bs_plan *p, bs_error *error)
{
    bool sound = true;
    for (int32_t k = 0; k < p->n_parts && sound; k++)
        sound = part_sound(p, k, error);
    for (int32_t r = 0; r < p->n_regions && sound; r++)
        sound = region_sound(p, r, error);
    for (int32_t k = 0; k < p->n_instrs && sound; k++)
        sound = instr_sound(p, k, error);
    return sound && (!bs_plan_too_large(p) ||
                     bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: its tiles are larger than shared memory"));
}
