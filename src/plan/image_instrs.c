/* plan/image_instrs.c - what an image says of instructions, parts and regions: whether each instruction is one that the
 * planner could have made of its node, on rows that are there when its turn comes.
 *
 *   field                            what a lie could do                       what is checked
 *   regions: first, count;           tiles run twice, or of other rows         regions behind each other, of one
 *     region_parts; parts: index       than the region has                       router's paths or the domain itself
 *   parts: first, count;             lists in lists, without end               lists of their own, and only the top
 *     instrs: part, kind                                                         one runs regions
 *   instrs: region, regions: instr   regions run again and again               each is run once
 *   instrs: node, map, combine,      moves between rows that differ,           what the planner makes of such a node
 *     value, target, domain,           kernels that there are not
 *     extent                           rectangles where there are none
 *   routers: instr, and the order    rows of decisions that are not made       decided once, before it is read
 *   nodes: instr, and the order      rows beyond the buffers that have them    counted before they are seen
 *   values an instruction touches    a tile's rows seen by others              scratch of the part that it is in
 *   instrs: phase; parts: unit       weights used that are not there           in a part those of its unit
 *   instrs: time                     kernels that change what others read      nothing of one time touches what another
 *                                                                                one writes (plan/image_side.c)
 *   parts: flops                     nothing: reports and times                -
 *
 * An instruction that comes too early reads what was there before: old bytes of the session's own arena.
 * Relies on plan/image.h and plan/image_values.c having looked. Must never write. */
#include "plan/image.h"

#include "ops/structure.h"

/* ------------------------------------------------------------------------------------------- parts and regions */

static const char *part_wrong(const bs_plan *p, int32_t k)
{
    const bs_part *part = &p->parts[k];
    const bs_region *region = &p->regions[part->region];
    const bs_domain *d = &p->graph->domains[part->domain];
    const bool path = d->kind == BS_DOMAIN_PATH;
    if (p->region_parts[part->index] != k || part->index < region->first ||
        part->index - region->first >= region->count)
        return bs_image_refused("it is not where its region has its parts");
    if (part->domain == 0 || (path && d->outermost != part->domain) || region->domain != d->top ||
        part->router != (path ? d->router : 0) || part->path != (path ? d->path : -1))
        return bs_image_refused("it has rows that its region has not");
    if (part->first > p->n_instrs - part->count || (part->count > 0 && part->first < p->n_top))
        return bs_image_refused("its instructions are not there");
    for (int32_t i = part->first; i < part->first + part->count; i++)
        if (p->instrs[i].part != k)
            return bs_image_refused("its instructions are another part's");
    return NULL;
}

enum { PATHS_AT_ONCE = 1 << 11 };

/* Whether two parts of a region have rows of the same path, or both rows of no path. Checks PATHS_AT_ONCE paths at a
 * time. */
static bool has_rows_twice(const bs_plan *p, const bs_region *region)
{
    bool twice = false;
    for (int32_t from = -1; from < p->graph->max_paths && !twice; from += PATHS_AT_ONCE) {
        bool seen[PATHS_AT_ONCE] = {false};
        for (int32_t i = region->first; i < region->first + region->count && !twice; i++) {
            const int32_t path = p->parts[p->region_parts[i]].path - from;
            if (path < 0 || path >= PATHS_AT_ONCE)
                continue;
            twice = seen[path];
            seen[path] = true;
        }
    }
    return twice;
}

/* Regions lie one behind the other in region_parts, and every part says where it is there: so no two regions share a
 * part. */
static const char *region_wrong(const bs_plan *p, int32_t r)
{
    const bs_region *region = &p->regions[r];
    const int32_t first = r == 0 ? 0 : region[-1].first + region[-1].count;
    if (region->first != first || region->count < 1 || region->count > p->n_parts - first)
        return bs_image_refused("its parts are not there");
    for (int32_t i = first; i < first + region->count; i++)
        if (p->parts[p->region_parts[i]].router != p->parts[p->region_parts[first]].router)
            return bs_image_refused("it has parts of several routers");
    return has_rows_twice(p, region) ? bs_image_refused("it has its rows twice") : NULL;
}

/* ------------------------------------------------------------------------------------------ what is there when */

/* An instruction, and where it stands. */
typedef struct image_at {
    const bs_plan *p;
    const bs_graph *g;
    const bs_instr *i;
    const bs_node *node;
    int32_t at;
    int32_t tile; /* the domain of its part; 0: it stands at top level */
} image_at;

/* Whether the router has decided before this instruction runs, and the instruction sees the decision. A device
 * launches instructions of equal time in any order. */
static bool is_decided(const image_at *a, int32_t router)
{
    const bs_instr *instrs = a->p->instrs;
    const bs_router_plan *r = &a->p->routers[router];
    if (!r->live || r->instr < 0)
        return false;
    if (instrs[r->instr].part != BS_TOP)
        return instrs[r->instr].part == a->i->part && r->instr < a->at;
    const int32_t now = a->tile ? a->p->regions[a->p->parts[a->i->part].region].instr : a->at;
    return r->instr < now && instrs[r->instr].time < instrs[now].time;
}

/* Whether the node that says how many rows there are has run before. Only makers of symbols are looked for. */
static bool is_counted(const image_at *a, int32_t maker)
{
    const bs_instr *instrs = a->p->instrs;
    const int32_t at = a->p->nodes[maker].instr;
    return maker == 0 || (at >= 0 && at < a->at && instrs[at].part == BS_TOP && instrs[at].kind == BS_INSTR_CALL &&
                          instrs[at].node == maker && instrs[at].time < a->i->time);
}

/* Whether the rows of a domain are known to this instruction. If a path is seen, the instruction that decided saw the
 * domain above it. */
static bool sees(const image_at *a, int32_t domain)
{
    const bs_domain *d = &a->g->domains[domain];
    if (a->tile && bs_image_is_within(a->g, a->tile, domain))
        return true; /* its own rows, and those above */
    if (d->kind != BS_DOMAIN_PATH)
        return (a->tile == 0 || domain == 0) && is_counted(a, bs_domain_maker(a->g, domain));
    return is_decided(a, d->router) && a->p->routers[d->router].in_tile == (a->tile != 0);
}

static bool has_storage(const image_at *a, int32_t value)
{
    const bs_value_plan *v = &a->p->values[value];
    return v->storage == BS_STORAGE_SCRATCH ? v->scope == a->i->part
                                            : v->storage != BS_STORAGE_NONE && v->storage != BS_STORAGE_FRAME;
}

/* Whether the instruction may touch a value: its rows are there, and there where it may see them instead. Views lead to
 * values of lower numbers, or to what a loop gives, which is no view. */
static bool touches(const image_at *a, int32_t value)
{
    const bs_value_plan *values = a->p->values;
    if (value == 0 || !sees(a, a->g->values[value].domain))
        return false;
    while (values[value].storage == BS_STORAGE_VIEW || (has_storage(a, value) && bs_plan_is_seen(a->p, value)))
        value = values[value].source;
    return has_storage(a, value);
}

static bool touches_operands(const image_at *a)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(a->p, a->i->node, &n_in);
    bool all = true;
    for (int32_t k = 0; k < n_in && all; k++)
        all = in[k] == 0 || !bs_plan_reads(a->p, a->node, k) || touches(a, in[k]);
    return all;
}

/* Where a router decides stands in the image, for who looks for it: it must be what decides. */
static const char *decision_wrong(const bs_plan *p, int32_t r)
{
    const bs_router_plan *router = &p->routers[r];
    if (router->instr < 0)
        return router->again < 0 ? NULL : bs_image_refused("it ends, and does not begin");
    const bs_instr *i = &p->instrs[router->instr], *end = router->again < 0 ? NULL : &p->instrs[router->again];
    const bs_router_info *info = &p->graph->routers[r];
    if (i->kind != BS_INSTR_ROUTE || i->node != info->node)
        return bs_image_refused("what is to decide it does not");
    return !end || (end->kind == BS_INSTR_ROUTE && info->again && end->node == info->again && end->part == i->part)
               ? NULL
               : bs_image_refused("what is to decide it after a trip does not");
}

/* ------------------------------------------------------------------------------------------------- each kind
 * What the planner makes of a node: the fields of `made` beside those of where it stands. False: nothing, there and
 * then. */

/* Whether a call may compute a part of its rectangle: of an image, in a tile; a ring of rows that go on to one of the
 * paths below. */
static bool is_extent(const image_at *a, bs_instr *made)
{
    const bs_node *node = a->node;
    const bs_instr *i = a->i;
    const bool ring = i->extent == BS_EXTENT_RING;
    if (i->extent == BS_EXTENT_ALL)
        return true;
    if (i->extent > BS_EXTENT_RING || !a->tile || node->n_out != 1 || a->g->values[node->first_out].rank != 3 ||
        !(bs_op_get(node->op)->flags & BS_OP_SPATIAL) || bs_plan_on_device(a->p))
        return false;
    made->domain = ring ? i->domain : node->domain;
    return !ring || (a->g->domains[i->domain].kind == BS_DOMAIN_PATH &&
                     bs_image_is_within(a->g, i->domain, node->domain));
}

static bool make_call(const image_at *a, bs_instr *made)
{
    const bs_node *node = a->node;
    const int32_t around = bs_op_get(node->op)->flags & BS_OP_AROUND ? bs_node_in(a->g, node)[0] : 0;
    bool sound = bs_node_work(node) == BS_WORK_CALL && (node->n_out > 0 || (!a->tile && bs_plan_streams(a->p))) &&
                 !(a->tile && bs_op_sees_rows(bs_op_get(node->op))) &&
                 (node->router == 0 || is_decided(a, node->router)) && touches_operands(a) &&
                 (around == 0 || touches(a, bs_view_of(a->g, &a->g->nodes[a->g->values[around].node]))) &&
                 is_extent(a, made);
    for (int32_t k = 0; k < node->n_out && sound; k++) {
        const int32_t out = node->first_out + k;
        const bs_storage storage = (bs_storage)a->p->values[out].storage;
        sound = (bs_plan_is_stored(a->p, out) || storage == BS_STORAGE_OUTPUT || storage == BS_STORAGE_VIEW) &&
                touches(a, out);
    }
    return sound;
}

static bool make_route(const image_at *a, bs_instr *made)
{
    if (bs_node_work(a->node) != BS_WORK_ROUTE)
        return false;
    const bs_router_plan *r = &a->p->routers[a->node->router];
    const bool again = a->g->routers[a->node->router].again == a->i->node;
    made->domain = again ? a->node->domain : a->g->routers[a->node->router].domain;
    return (again ? r->again == a->at && is_decided(a, a->node->router) : r->instr == a->at) &&
           r->in_tile == (a->tile != 0) && touches_operands(a);
}

/* The paths' domains must be seen when the region runs, which it does once. */
static bool make_run(const image_at *a, bs_instr *made)
{
    const bs_plan *p = a->p;
    if (a->tile || a->i->region >= p->n_regions || a->i->node != 0 || p->regions[a->i->region].instr != a->at)
        return false;
    const bs_region *region = &p->regions[a->i->region];
    const int32_t router = p->parts[p->region_parts[region->first]].router;
    made->region = a->i->region;
    made->domain = region->domain;
    return router == 0 || (is_decided(a, router) && !p->routers[router].in_tile);
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
static bool make_gathered(const image_at *a, bs_instr *made)
{
    const bs_graph *g = a->g;
    const bs_node *node = a->node;
    const bs_value_plan *v = &a->p->values[node->first_out];
    const int32_t *in = bs_node_in(g, node), target = v->storage == BS_STORAGE_FRAME ? v->source : node->first_out;
    const int32_t paths = g->routers[node->router].desc->paths, value = a->i->value;
    const int32_t residual = bs_plan_reads(a->p, node, paths) ? in[paths] : 0;
    if (bs_plan_is_packed(g, node)) {
        make_move(made, BS_MAP_PATHS, bs_plan_combine(node), residual, target);
        return is_decided(a, node->router) && touches_operands(a);
    }
    if (a->i->combine == BS_COMBINE_COPY) {
        const bs_domain *d = &g->domains[g->values[value].domain];
        make_store(g, made, value, target);
        return value != 0 && d->kind == BS_DOMAIN_PATH && d->router == node->router && in[d->path] == value &&
               bs_plan_reads(a->p, node, d->path);
    }
    make_move(made, g->values[target].domain == 0 ? BS_MAP_CELL : BS_MAP_ROW, BS_COMBINE_RESIDUAL, residual, target);
    return is_decided(a, node->router);
}

/* The moves of a tensor of cells: rows of cells, and the rows beyond them. */
static bool make_joined(const image_at *a, bs_instr *made)
{
    const int32_t value = bs_node_in(a->g, a->node)[0], target = a->node->first_out;
    const bs_value_info *from = &a->g->values[value];
    if (a->i->combine == BS_COMBINE_COPY) {
        make_store(a->g, made, value, target);
        return a->p->values[value].storage != BS_STORAGE_FRAME;
    }
    make_move(made, BS_MAP_BEYOND, BS_COMBINE_ZERO, 0, target);
    return !a->tile && a->g->values[target].rank > from->rank &&
           bs_domain_is_patches(&a->g->domains[from->domain]) && a->p->node_live[from->node];
}

/* The moves of what a loop gives: what is there before the first trip, and the rows that made a trip. */
static bool make_result(const image_at *a, bs_instr *made)
{
    const bs_router_info *loop = &a->g->routers[a->node->router];
    const int32_t *in = bs_node_in(a->g, a->node), out = a->node->first_out;
    const bool before = a->i->map == BS_MAP_ROW;
    made->domain = before ? loop->domain : loop->path_domains;
    make_move(made, before ? BS_MAP_ROW : bs_loop_collects(a->g, a->node) ? BS_MAP_TRIP : BS_MAP_PARENT,
              in[before] ? BS_COMBINE_COPY : BS_COMBINE_ZERO, in[before], out);
    return before || is_decided(a, a->node->router);
}

static bool make_moved(const image_at *a, bs_instr *made)
{
    const bs_node *node = a->node;
    const int32_t out = node->first_out;
    if (bs_router_loops(a->g, node->router) && bs_node_gathers(node))
        return make_result(a, made);
    if (bs_node_gathers(node))
        return make_gathered(a, made);
    if (bs_node_joins_cells(node))
        return make_joined(a, made);
    if (bs_node_ends_run(node)) {
        const int32_t value = bs_node_in(a->g, node)[bs_node_operand(node, BS_ROLE_DATA)];
        made->domain = a->g->values[value].domain;
        make_move(made, made->domain == 0 ? BS_MAP_BOUND : BS_MAP_APPEND, BS_COMBINE_COPY, value, 0);
        return !a->tile;
    }
    /* rows of a view, copied where a reader needs them in storage of their own */
    make_move(made, BS_MAP_VIEW, BS_COMBINE_COPY, out, out);
    return (bs_node_is_view(node) ? touches(a, bs_view_of(a->g, node)) : bs_node_work(node) == BS_WORK_GIVEN) &&
           bs_plan_is_stored(a->p, out);
}

static bool is_made(const image_at *a)
{
    bs_instr made = *a->i;
    bool makes = false;
    made.map = made.combine = 0;
    made.value = made.target = made.region = 0;
    made.domain = a->node->domain;
    switch ((bs_instr_kind)a->i->kind) {
    case BS_INSTR_CALL: makes = make_call(a, &made); break;
    case BS_INSTR_MOVE: makes = make_moved(a, &made); break;
    case BS_INSTR_ROUTE: makes = make_route(a, &made); break;
    case BS_INSTR_RUN: makes = make_run(a, &made); break;
    }
    return makes && bs_image_same(BS_IMAGE_instrs, &made, a->i) && sees(a, made.domain) &&
           (!a->tile || bs_image_is_within(a->g, made.domain, a->tile)) &&
           (made.value == 0 || touches(a, made.value)) && (made.target == 0 || touches(a, made.target));
}

static const char *instr_wrong(const bs_plan *p, int32_t k)
{
    const bs_instr *i = &p->instrs[k];
    const bs_part *part = i->part == BS_TOP ? NULL : &p->parts[i->part];
    const image_at a = {p, p->graph, i, &p->graph->nodes[i->node], k, part ? part->domain : 0};
    if (part ? k < part->first || k - part->first >= part->count || p->regions[part->region].instr < 0 : k >= p->n_top)
        return bs_image_refused("it does not stand where its part is");
    if (part && (i->phase >= 0 || (i->kind == BS_INSTR_CALL && p->nodes[i->node].unit != 0 &&
                                   p->nodes[i->node].unit != part->unit)))
        return bs_image_refused("its part does not have its weights");
    if (i->kind != BS_INSTR_RUN && !p->node_live[i->node])
        return bs_image_refused("its node is not needed");
    return is_made(&a) ? NULL : bs_image_refused("no planner makes it of its node, there and then");
}

bool bs_image_instrs_sound(const bs_plan *p, bs_error *error)
{
    return bs_image_each(p, BS_IMAGE_parts, 0, part_wrong, error) &&
           bs_image_each(p, BS_IMAGE_regions, 0, region_wrong, error) &&
           bs_image_each(p, BS_IMAGE_routers, 1, decision_wrong, error) &&
           bs_image_each(p, BS_IMAGE_instrs, 0, instr_wrong, error) &&
           bs_image_each(p, BS_IMAGE_instrs, 0, bs_image_side_wrong, error) &&
           (!bs_plan_domain_beyond_shared(p) ||
            bs_refuse(error, BS_ERROR_FORMAT, "its tiles are larger than shared memory"));
}
