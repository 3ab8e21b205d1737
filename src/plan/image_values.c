/* plan/image_values.c - what an image says of domains, routers, nodes and values, held against what follows from the
 * graph by the planner's own rules (plan/facts.c).
 *
 *   field                                 what a lie could do                 what is asked for
 *   domains: size, max_rows               rows beyond tables and arenas       what follows from the graph
 *   domains: tile_rows, images, order     tiles larger than their scratch     one number a tree
 *   domains, routers: live; node_live     what is not bound or decided        all that is needed is
 *   routers: in_tile, rows, forced        decisions without memory            what follows from orders
 *   nodes: tier, algorithm, half,         kernels beyond their memory         what the op's rule says
 *   pieces, prepared_bytes,
 *   scratch_bytes
 *   nodes: fusion, fused_in               a kernel on other operands          the chain is there
 *   nodes: owner, unit, prepared_offset   weights beyond their memory         a copy laid out alike, within
 *   nodes: ahead_of                       guesses beyond their table          a router that fits
 *   values: place, source, scope          views without end, others' memory   a place that its node may have
 *   values: margin                        windows beyond rows                 what readers ask for, or more
 *   values: offset, row_bytes, rows       rows beyond arenas                  large enough, and within
 *   values: narrow                        rows half as wide                   a plan for half, no decisions
 *   values: is_past                       cache lengths nobody looked at      all that caches go by, inputs
 *   values: slab, first, last; nodes:     nothing: no run reads them          -
 *   twin, newest_owner
 *
 * Relies on plan/image.h. Every number is within its bounds already (plan/image_tables.c). Must never write. */
#include "plan/fusions.h"
#include "plan/image.h"

#include "ops/structure.h"
#include "plan/device.h"

/* ------------------------------------------------------------------------------------------- domains, routers */

static bool domain_sound(const bs_plan *p, int32_t d, bs_error *error)
{
    const bs_domain_plan *domain = &p->domains[d];
    const int32_t top = bs_plan_top_domain(p->graph, d);
    const bs_domain_plan *tree = &p->domains[top];
    bs_domain_plan sized = *domain;
    bs_plan_size_domain(p, d, &sized);
    if (sized.size != domain->size || sized.max_rows != domain->max_rows)
        return bs_image_refuse(error, "domains", d, "its rows are not those of the graph");
    if (domain->order != tree->order || (top == 0 && domain->order != BS_ORDER_BREADTH))
        return bs_image_refuse(error, "domains", d, "it has another order than the domain that it descends from");
    return domain->tile_rows == (top > 0 && tree->images ? 1 : BS_TILE_ROWS) ||
           bs_image_refuse(error, "domains", d, "its tiles have another number of rows");
}

static bool router_sound(const bs_plan *p, int32_t r, bs_error *error)
{
    const bs_router_plan *router = &p->routers[r];
    const bs_route_desc *desc = p->graph->routers[r].desc;
    bs_router_plan sized = *router;
    bs_plan_size_router(p, r, &sized);
    if (sized.in_tile != router->in_tile || sized.rows != router->rows)
        return bs_image_refuse(error, "routers", r, "it decides about other rows");
    if (router->forced > desc->paths)
        return bs_image_refuse(error, "routers", r, "it is forced to a path that there is not");
    if (router->live && !p->node_live[p->graph->routers[r].node])
        return bs_image_refuse(error, "routers", r, "it is needed, and its node is not");
    return !router->live || !router->in_tile || router->forced || !bs_protocol_sees_all_rows(desc->protocol) ||
           bs_image_refuse(error, "routers", r, "its protocol does not decide tile by tile");
}

/* ---------------------------------------------------------------------------------------------------- nodes */

/* What is needed is needed with all it needs. */
static bool needs_are_live(const bs_plan *p, int32_t n, bs_error *error)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const bs_domain *domain = &g->domains[node->domain];
    const bool path = domain->kind == BS_DOMAIN_PATH;
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, n, &n_in);
    if ((node->router && !p->routers[node->router].live) || (path && !p->routers[domain->router].live) ||
        (!path && !p->domains[node->domain].live) ||
        (domain->lengths && !p->node_live[g->values[domain->lengths].node]) ||
        (node->n_out > 0 && g->values[node->first_out].rank == 3 &&
         !p->domains[bs_plan_top_domain(g, node->domain)].images && bs_plan_top_domain(g, node->domain) > 0))
        return bs_image_refuse(error, "nodes", n, "its domain or its router is not needed, and it is");
    for (int32_t i = 0; i < n_in; i++)
        if (in[i] && bs_plan_reads(p, node, i) && !p->node_live[g->values[in[i]].node])
            return bs_image_refuse(error, "nodes", n, "it reads what is not computed");
    return true;
}

static bool chain_sound(const bs_plan *p, int32_t n, bs_error *error)
{
    const bs_node_plan *np = &p->nodes[n];
    const bs_fusion_search search = {p, NULL, np->fused_in};
    bs_fusion_match match;
    return np->fusion == 0 || bs_fusion_find(&search, n, np->fusion, &match) ||
           bs_image_refuse(error, "nodes", n, "the chain that it is to end is not there");
}

static bool node_sizes_sound(const bs_plan *p, int32_t n, bs_error *error)
{
    const bs_node_plan *np = &p->nodes[n];
    bs_node_plan sized = *np;
    bs_plan_size_node(p, n, &sized);
    if (sized.tier != np->tier || sized.algorithm != np->algorithm || sized.half != np->half ||
        sized.pieces != np->pieces || !bs_bytes_same(sized.prepared_bytes, np->prepared_bytes) ||
        !bs_bytes_same(sized.scratch_bytes, np->scratch_bytes))
        return bs_image_refuse(error, "nodes", n, "this library would compute it in another way");
    return !bs_bytes_less(p->scratch_bytes, bs_bytes_add(p->kernel_scratch_offset, np->scratch_bytes)) ||
           bs_image_refuse(error, "nodes", n, "its kernel's scratch reaches beyond a thread's");
}

/* Its own copy, or that of an earlier node of the same weights. */
static bool weights_sound(const bs_plan *p, int32_t n, bs_error *error)
{
    const bs_graph *g = p->graph;
    const bs_node_plan *np = &p->nodes[n], *owner = &p->nodes[np->owner];
    const bs_bytes room = np->unit ? p->units[np->unit].prepared_bytes : p->weight_bytes;
    const bool own = np->owner == n;
    if (np->unit && !bs_plan_node_streams(p, n))
        return bs_image_refuse(error, "nodes", n, "its weights cannot come and go");
    if (!own &&
        (np->owner == 0 || np->owner > n || owner->owner != np->owner || !bs_plan_needs_weights(p, np->owner) ||
         g->nodes[np->owner].op != g->nodes[n].op || !bs_plan_laid_out_alike(p, n, np->owner) ||
         strcmp(bs_node_name(&g->nodes[np->owner]), bs_node_name(&g->nodes[n])) != 0 ||
         !bs_bytes_same(owner->prepared_offset, np->prepared_offset)))
        return bs_image_refuse(error, "nodes", n, "it reads weights that are not its own");
    if (!bs_bytes_aligned_to(np->prepared_offset, BS_ALIGNMENT) ||
        bs_bytes_less(room, bs_bytes_add(np->prepared_offset, np->prepared_bytes)))
        return bs_image_refuse(error, "nodes", n, "its weights reach beyond their memory");
    return !own || np->unit ||
           !bs_bytes_less(p->staging_bytes, bs_plan_canonical_bytes(g, &g->nodes[n])) ||
           bs_image_refuse(error, "nodes", n, "its weights reach beyond staging while they are loaded");
}

/* How a needed node reads `value`, its operand `index`. */
static bool reader_sound(const bs_plan *p, int32_t n, int32_t index, int32_t value, bs_error *error)
{
    const bs_node *node = &p->graph->nodes[n];
    const bs_value_plan *v = &p->values[value];
    const bool joined = bs_node_joins_cells(&p->graph->nodes[p->graph->values[value].node]);
    const bool in_place = v->place == BS_PLACE_FRAME     ? p->graph->values[v->source].node == n
                          : v->place == BS_PLACE_OUTPUT  ? bs_node_is_output(node)
                          : joined && v->place == BS_PLACE_STATE ? bs_node_ends_run(node)
                          : bs_plan_is_stored(p, value) || bs_plan_reads_in_place(p, n, index, value);
    if (!in_place)
        return bs_image_refuse(error, "values", value, "a reader needs rows of its own");
    if (bs_node_role(node, index) == BS_ROLE_DECIDING && v->narrow)
        return bs_image_refuse(error, "values", value, "a decision is made by it, and it is kept in f16");
    return bs_node_role(node, index) != BS_ROLE_CACHE_LENGTH || v->is_past ||
           bs_image_refuse(error, "values", value, "caches go by it, and it is not checked");
}

static bool readers_sound(const bs_plan *p, int32_t n, bs_error *error)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const int32_t *own = bs_node_in(g, node);
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, n, &n_in);
    for (int32_t i = 0; i < n_in; i++)
        if (in[i] && bs_plan_reads(p, node, i) && !reader_sound(p, n, i, in[i], error))
            return false;
    for (int32_t i = 0; i < node->n_in; i++)
        if (own[i] && g->values[own[i]].rank == 3 && p->values[own[i]].margin < bs_plan_margin_asked(p, node, i))
            return bs_image_refuse(error, "values", own[i], "a reader's window reaches beyond its margin");
    return true;
}

static bool node_sound(const bs_plan *p, int32_t n, bs_error *error)
{
    const bs_node *node = &p->graph->nodes[n];
    if (!p->node_live[n])
        return (!bs_node_is_output(node) && p->nodes[n].unit == 0) ||
               bs_image_refuse(error, "nodes", n, "it is an output, or has weights that are loaded, and is not needed");
    return needs_are_live(p, n, error) && chain_sound(p, n, error) && node_sizes_sound(p, n, error) &&
           weights_sound(p, n, error) && readers_sound(p, n, error) &&
           (!bs_plan_looks_ahead(node) || bs_plan_look_ahead_fits(p, n, p->nodes[n].ahead_of, error));
}

/* --------------------------------------------------------------------------------------------------- values */

/* A joined value that lies in the state it becomes. */
static bool becomes_state(const bs_plan *p, int32_t value, int32_t state)
{
    const bs_graph *g = p->graph;
    const bs_node *source = &g->nodes[state];
    if (!bs_node_is_state(source) || !p->node_live[state] || source->writer == 0)
        return false;
    const bs_node *writer = &g->nodes[source->writer];
    const int32_t data = bs_node_operand(writer, BS_ROLE_DATA);
    return p->node_live[source->writer] && data >= 0 && bs_node_in(g, writer)[data] == value &&
           g->values[value].domain == 0;
}

static bool place_sound(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const int32_t n = g->values[value].node, source = p->values[value].source;
    const bs_node *node = &g->nodes[n];
    const bool given = bs_node_work(node) == BS_WORK_GIVEN && source == n;
    switch ((bs_place)p->values[value].place) {
    case BS_PLACE_NONE: return !p->node_live[n];
    case BS_PLACE_INPUT: return given && bs_node_is_input(node);
    case BS_PLACE_WEIGHT: return given && bs_op_get(node->op)->bound == 0;
    case BS_PLACE_STATE:
        return bs_node_joins_cells(node)
                   ? source < g->n_nodes && p->values[value].margin == 0 && becomes_state(p, value, source)
                   : given && bs_node_is_state(node);
    case BS_PLACE_OUTPUT:
        return bs_node_joins_cells(node) && source < g->n_nodes && p->values[value].margin == 0 &&
               bs_node_is_output(&g->nodes[source]) && bs_node_in(g, &g->nodes[source])[0] == value;
    case BS_PLACE_VIEW: return bs_node_is_view(node) && source == bs_node_in(g, node)[0];
    case BS_PLACE_FRAME: {
        const bs_node *joins = &g->nodes[source < g->n_values ? g->values[source].node : 0];
        return bs_node_gathers(node) && !bs_plan_is_packed(g, node) && !p->routers[node->router].in_tile &&
               bs_node_joins_cells(joins) && bs_node_in(g, joins)[0] == value && joins->first_out == source &&
               g->values[source].rank == g->values[value].rank;
    }
    case BS_PLACE_TRANSIENT:
    case BS_PLACE_SCRATCH: break;
    }
    return true;
}

/* Whether the rows of `domain` are rows of a tile of `above`. */
bool bs_image_is_within(const bs_graph *g, int32_t domain, int32_t above)
{
    while (domain != above && g->domains[domain].kind == BS_DOMAIN_PATH)
        domain = g->domains[domain].parent;
    return domain == above;
}

static bool storage_sound(const bs_plan *p, int32_t value, bs_error *error)
{
    const bs_value_plan *v = &p->values[value];
    const bs_value_info *info = &p->graph->values[value];
    const bool tile = v->place == BS_PLACE_SCRATCH;
    if (tile && (v->scope == BS_TOP || info->domain == 0 ||
                 !bs_image_is_within(p->graph, info->domain, p->parts[v->scope].domain)))
        return bs_image_refuse(error, "values", value, "it lies in the scratch of a part that does not have its rows");
    const bs_bytes room = tile ? p->parts[v->scope].scratch_bytes : p->transient_bytes;
    const bs_bytes end = bs_bytes_add(v->offset, bs_bytes_times(v->row_bytes, v->rows));
    return (v->rows >= bs_plan_storage_rows(p, value) && !bs_bytes_less(v->row_bytes, bs_plan_row_bytes(p, value)) &&
            bs_bytes_aligned_to(v->row_bytes, BS_ALIGNMENT) && bs_bytes_aligned_to(v->offset, BS_ALIGNMENT) &&
            !bs_bytes_less(room, end)) ||
           bs_image_refuse(error, "values", value, "its rows are too small, or reach beyond their arena");
}

static bool value_sound(const bs_plan *p, int32_t value, bs_error *error)
{
    const bs_value_plan *v = &p->values[value];
    const bs_value_info *info = &p->graph->values[value];
    const bool stored = bs_plan_is_stored(p, value);
    const bool live = p->node_live[info->node];
    if (live != (v->place != BS_PLACE_NONE) || !place_sound(p, value))
        return bs_image_refuse(error, "values", value, "it lies where what its node makes cannot lie");
    if (v->narrow && !(p->desc.half && stored && info->dtype == BS_F32))
        return bs_image_refuse(error, "values", value, "it is kept in f16, and may not be");
    if (v->is_past && !(bs_node_is_input(&p->graph->nodes[info->node]) && info->dtype == BS_I32 && info->rank == 1))
        return bs_image_refuse(error, "values", value, "it cannot say where caches stand");
    return !stored || storage_sound(p, value, error);
}

/* ------------------------------------------------------------------------------------------------------- all */

/* Numbers that follow from others. */
static bool numbers_sound(const bs_plan *p, bs_error *error)
{
    const bool device = bs_plan_on_device(p);
    if (!bs_plan_desc_sound(&p->desc, error))
        return false;
    const bs_bytes shared = bs_bytes_array(bs_or_default(p->desc.shared_bytes, 98304) - BS_DEVICE_WORKSPACE, 1);
    if (device != (p->desc.tier == BS_TIER_CUDA) || !bs_bytes_same(shared, p->shared_bytes))
        return bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: its description is of another tier");
    const bs_bytes aligned[] = {p->transient_bytes, p->kernel_scratch_offset, p->scratch_bytes, p->weight_bytes,
                                p->staging_bytes,   p->slot_bytes};
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        if (!bs_bytes_aligned_to(aligned[i], BS_ALIGNMENT))
            return bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: its arenas are not of whole lines");
    if (bs_bytes_less(p->scratch_bytes, p->kernel_scratch_offset))
        return bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: its kernels' scratch reaches beyond a thread's");
    return bs_plan_bytes_fit(p, error);
}

bool bs_image_values_sound(const bs_plan *p, bs_error *error)
{
    const bs_graph *g = p->graph;
    bool sound = numbers_sound(p, error);
    for (int32_t d = 0; d < g->n_domains && sound; d++)
        sound = domain_sound(p, d, error);
    for (int32_t r = 1; r < g->n_routers && sound; r++)
        sound = router_sound(p, r, error);
    for (int32_t v = 1; v < g->n_values && sound; v++)
        sound = value_sound(p, v, error);
    sound = sound && bs_plan_rows_fit(p, error);
    for (int32_t n = 1; n < g->n_nodes && sound; n++)
        sound = node_sound(p, n, error);
    return sound;
}
