/* plan/image_values.c - what an image says of domains, routers, nodes and values, held against what follows from the
 * graph by the planner's own rules (plan/facts.c).
 *
 *   field                                 what a lie could do                 what is checked
 *   domains: size, max_rows, tile_rows,   rows beyond tables and arenas       what follows from the graph; one
 *     order                                                                     order a tree
 *   domains, routers: live; node_live     what is not bound or decided        all that is needed is live
 *   routers: in_tile, rows, forced        decisions without memory            what follows from orders
 *   nodes: tier, algorithm, half,         kernels beyond their memory         what the op's rule says
 *     work_items, prepared_bytes,
 *     scratch_bytes
 *   nodes: fusion, fused_in               a kernel on other operands          the chain is there
 *   nodes: owner, unit, prepared_offset   weights beyond their memory         a copy laid out alike, in bounds
 *   nodes: ahead_of                       guesses beyond their table          a router that fits
 *   values: storage, source, scope        views without end, others' memory   a class that its node may have
 *   values: margin                        windows beyond rows                 what readers need, or more
 *   values: offset, row_bytes, rows       rows beyond arenas                  large enough, and in bounds
 *   values: narrow                        rows half as wide                   a plan for half, no decisions
 *   values: is_cache_length               cache lengths nobody checked        all that ops read as such, inputs
 *   transient_bytes, scratch_bytes,       arenas without room                 what rows add up to
 *     weight_bytes, all_unit_bytes
 *
 * Relies on plan/image.h. Every number is within its bounds already (plan/image_tables.c). Must never write a
 * table. */
#include "plan/fusions.h"
#include "plan/image.h"

#include "ops/structure.h"

/* ------------------------------------------------------------------------------------------- domains, routers */

static bool domain_sound(const bs_plan *p, int32_t d)
{
    const int32_t top = bs_plan_top_domain(p->graph, d);
    const bs_domain_plan *tree = &p->domains[top];
    bs_domain_plan sized = p->domains[d];
    bs_plan_size_domain(p, d, &sized);
    sized.order = top == 0 ? BS_ORDER_BREADTH : tree->order;
    sized.tile_rows = top > 0 && tree->images ? 1 : BS_TILE_ROWS;
    return bs_image_same(BS_IMAGE_domains, &sized, &p->domains[d]);
}

static bool router_sound(const bs_plan *p, int32_t r)
{
    const bs_router_plan *router = &p->routers[r];
    const bs_router_info *info = &p->graph->routers[r];
    bs_router_plan sized = *router;
    bs_plan_size_router(p, r, &sized);
    sized.forced = bs_min_i32(router->forced, info->desc->paths);
    sized.live = router->live && p->node_live[info->node];
    if (!bs_image_same(BS_IMAGE_routers, &sized, router))
        return false;
    if (router->live && info->loop.again && !p->node_live[info->loop.again])
        return false;
    return !(router->live && router->in_tile && !router->forced && bs_protocol_sees_all_rows(info->desc->protocol));
}

/* ---------------------------------------------------------------------------------------------------- nodes */

/* A needed node must have a needed domain; the walk looks at its router. */
static bool domain_is_live(const bs_plan *p, int32_t n)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const bs_domain *domain = &g->domains[node->domain];
    const bool image = node->n_out > 0 && g->values[node->first_out].image && domain->top > 0;
    return (!image || p->domains[domain->top].images) &&
           (domain->kind == BS_DOMAIN_PATH ? p->routers[domain->router].live : p->domains[node->domain].live) &&
           (!domain->lengths || p->node_live[g->values[domain->lengths].node]);
}

static bool chain_is_there(const bs_plan *p, int32_t n)
{
    const bs_node_plan *np = &p->nodes[n];
    const bs_fusion_search search = {p, NULL, np->fused_in};
    bs_fusion_match match;
    return np->fusion == 0 || bs_fusion_find(&search, n, np->fusion, &match);
}

static bool sizes_are_right(const bs_plan *p, int32_t n)
{
    bs_node_plan sized = p->nodes[n];
    bs_plan_size_node(p, n, &sized);
    return bs_image_same(BS_IMAGE_nodes, &sized, &p->nodes[n]);
}

/* Whether a unit has room for all that it loads for the node. Resident weights are summed at the end instead. */
static bool unit_has_weights(const bs_plan *p, int32_t n)
{
    const bs_node_plan *np = &p->nodes[n];
    const bs_bytes end = bs_bytes_add(np->prepared_offset, np->prepared_bytes);
    return np->unit == 0 ||
           (bs_plan_node_streams(p, n) && !bs_bytes_less(p->units[np->unit].prepared_bytes, end));
}

/* Whether the node reads its own weights, or those of an earlier node with the same ones. */
static bool has_owner(const bs_plan *p, int32_t n)
{
    const bs_graph *g = p->graph;
    const int32_t owner = p->nodes[n].owner;
    const bs_node *node = &g->nodes[n], *first = &g->nodes[owner];
    return owner == n || (owner > 0 && owner < n && p->nodes[owner].owner == owner &&
                          bs_plan_needs_weights(p, owner) && first->op == node->op &&
                          bs_plan_laid_out_alike(p, n, owner) &&
                          strcmp(bs_node_name(first), bs_node_name(node)) == 0 &&
                          bs_bytes_same(p->nodes[owner].prepared_offset, p->nodes[n].prepared_offset));
}

/* Whether a value is made in the place of a carried one; and whether a node makes one in the place of `value`. */
static bool is_in_place(const bs_plan *p, int32_t value)
{
    return p->values[value].storage == BS_STORAGE_VIEW && bs_plan_updates(p, value) != 0;
}

static bool changes(const bs_plan *p, const bs_node *node, int32_t index, int32_t value)
{
    return index == 0 && node->n_out > 0 && is_in_place(p, node->first_out) &&
           bs_plan_updates(p, node->first_out) == value;
}

/* Whether a needed node finds the rows of `value`, its operand `index`. */
static bool finds(const bs_plan *p, int32_t n, int32_t index, int32_t value)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const bs_value_plan *v = &p->values[value];
    if (v->storage == BS_STORAGE_FRAME)
        return g->values[v->source].node == n;
    if (v->storage == BS_STORAGE_OUTPUT)
        return bs_node_is_output(node);
    if (v->storage == BS_STORAGE_STATE && bs_node_joins_cells(&g->nodes[g->values[value].node]))
        return bs_node_ends_run(node);
    if (bs_plan_is_seen(p, value) && !bs_plan_reads_in_a_row(p, n, index, value))
        return false;
    if (is_in_place(p, value) || changes(p, node, index, value))
        return bs_plan_reads_in_a_row(p, n, index, value);
    return bs_plan_is_stored(p, value) || bs_plan_reads_in_place(p, n, index, value);
}

static bool readers_sound(const bs_plan *p, int32_t n)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const int32_t *own = bs_node_in(g, node);
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, n, &n_in);
    for (int32_t i = 0; i < n_in; i++) {
        if (in[i] == 0 || !bs_plan_reads(p, node, i))
            continue;
        const bs_value_plan *v = &p->values[in[i]];
        const bs_role role = bs_node_role(node, i);
        if (!p->node_live[g->values[in[i]].node] || !finds(p, n, i, in[i]) ||
            (v->planar && bs_plan_is_of_images(p, n)) || (role == BS_ROLE_DECIDING && v->narrow) ||
            (role == BS_ROLE_CACHE_LENGTH && !v->is_cache_length))
            return false;
    }
    for (int32_t i = 0; i < node->n_in; i++)
        if (own[i] && g->values[own[i]].image && p->values[own[i]].margin < bs_plan_margin_needed(p, node, i))
            return false;
    return true;
}

static bool node_sound(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    const bs_node_plan *np = &p->nodes[n];
    if (!p->node_live[n])
        return !bs_node_is_output(node) && np->unit == 0;
    return !(bs_node_is_view(node) && node->writer && !p->node_live[node->writer]) && domain_is_live(p, n) &&
           chain_is_there(p, n) && sizes_are_right(p, n) &&
           bs_bytes_aligned_to(np->prepared_offset, BS_ALIGNMENT) && unit_has_weights(p, n) && has_owner(p, n) &&
           (!bs_plan_looks_ahead(node) || bs_plan_look_ahead_fits(p, n, np->ahead_of, NULL)) && readers_sound(p, n);
}

/* --------------------------------------------------------------------------------------------------- values */

/* Whether a value may lie where it is copied at the end: in the output or the state that is node `source`. */
static bool ends_in_place(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const int32_t source = p->values[value].source;
    if (source >= g->n_nodes || !p->node_live[source])
        return false;
    const bs_node *node = &g->nodes[source];
    const bool output = p->values[value].storage != BS_STORAGE_STATE;
    const int32_t end = output ? source : node->writer;
    return (output ? bs_node_is_output(node) : bs_node_is_state(node)) && end > 0 && p->node_live[end] &&
           p->values[value].margin == 0 && g->values[value].domain == 0 &&
           bs_node_in(g, &g->nodes[end])[bs_node_operand(&g->nodes[end], BS_ROLE_DATA)] == value;
}

static bool frames(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[g->values[value].node];
    const int32_t frame = p->values[value].source < g->n_values ? p->values[value].source : 0;
    const bs_node *joins = &g->nodes[g->values[frame].node];
    return bs_node_gathers(node) && !bs_plan_is_packed(g, node) && !p->routers[node->router].in_tile &&
           !bs_router_loops(g, node->router) && bs_node_joins_cells(joins) && bs_node_in(g, joins)[0] == value;
}

/* Whether the source of a value that is stored has its rows as well. */
static bool sees_source(const bs_plan *p, int32_t value)
{
    return bs_plan_may_be_seen(p, value) &&
           p->values[value].source == bs_view_of(p->graph, &p->graph->nodes[p->graph->values[value].node]);
}

static bool lies_well(const bs_plan *p, int32_t value)
{
    const int32_t n = p->graph->values[value].node, source = p->values[value].source;
    const bs_node *node = &p->graph->nodes[n];
    const bool given = bs_node_work(node) == BS_WORK_GIVEN && source == n;
    switch ((bs_storage)p->values[value].storage) {
    case BS_STORAGE_INPUT: return given && bs_node_is_input(node);
    case BS_STORAGE_WEIGHT: return given && bs_op_get(node->op)->bound == 0;
    case BS_STORAGE_STATE: return bs_node_is_state(node) ? given : bs_node_joins_cells(node) && ends_in_place(p, value);
    case BS_STORAGE_OUTPUT: return bs_plan_may_end_in_place(p, value) && ends_in_place(p, value);
    case BS_STORAGE_VIEW:
        if (!bs_node_is_view(node)) { /* in the place of what it updates */
            const int32_t carried = bs_plan_updates(p, value);
            return carried && p->values[carried].storage == BS_STORAGE_VIEW && source == p->values[carried].source;
        }
        return source == bs_view_of(p->graph, node);
    case BS_STORAGE_FRAME: return frames(p, value);
    case BS_STORAGE_TRANSIENT:
        return bs_plan_on_device(p) || source == 0 || ends_in_place(p, value) || sees_source(p, value) ||
               (given && bs_plan_may_lie_as_bound(p, value));
    case BS_STORAGE_SCRATCH: return source == 0 || sees_source(p, value);
    case BS_STORAGE_NONE: break;
    }
    return true;
}

/* A value lies in the scratch of a part that has its rows, or in the transient arena, which is summed at the end. */
static bool storage_sound(const bs_plan *p, int32_t value)
{
    const bs_value_plan *v = &p->values[value];
    const int32_t domain = p->graph->values[value].domain;
    const bs_part *part = v->storage == BS_STORAGE_SCRATCH && v->scope != BS_TOP ? &p->parts[v->scope] : NULL;
    if (v->storage == BS_STORAGE_SCRATCH &&
        (!part || domain == 0 || !bs_plan_is_within(p->graph, domain, part->domain)))
        return false;
    if (part && bs_bytes_less(part->scratch_bytes, bs_plan_end(v)))
        return false;
    return v->rows >= bs_plan_storage_rows(p, value) && !bs_bytes_less(v->row_bytes, bs_plan_row_bytes(p, value)) &&
           bs_bytes_aligned_to(v->row_bytes, BS_ALIGNMENT) && bs_bytes_aligned_to(v->offset, BS_ALIGNMENT);
}

static bool value_sound(const bs_plan *p, int32_t value)
{
    const bs_value_plan *v = &p->values[value];
    const bs_value_info *info = &p->graph->values[value];
    const bool stored = bs_plan_is_stored(p, value);
    return p->node_live[info->node] == (v->storage != BS_STORAGE_NONE) && lies_well(p, value) &&
           (!v->planar || bs_plan_may_be_planar(p, value)) && (v->margin == 0 || info->image) &&
           (!v->narrow || (p->desc.half && stored && info->dtype == BS_F32)) &&
           (!v->is_cache_length ||
            (bs_node_is_input(&p->graph->nodes[info->node]) && info->dtype == BS_I32 && info->rank == 1)) &&
           (!stored || storage_sound(p, value));
}

bool bs_image_values_sound(const bs_plan *p)
{
    const bs_graph *g = p->graph;
    return bs_plan_each(p, 0, g->n_domains, domain_sound) && bs_plan_each(p, 1, g->n_routers, router_sound) &&
           bs_plan_each(p, 1, g->n_values, value_sound) && bs_plan_each(p, 1, g->n_nodes, node_sound);
}

bool bs_image_sums_sound(bs_plan *p)
{
    const bs_plan said = *p;
    bs_plan_sum(p);
    bs_plan_size_slots(p);
    return bs_image_same(BS_IMAGE_plan, &said, p);
}
