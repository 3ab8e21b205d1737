/* plan/image_values.c - whether what an image says of domains, routers, nodes, values and units keeps a run in its
 * memory, whatever numbers come out. What follows from the graph by a rule of the planner's (plan/facts.c) is computed
 * again; arenas have the bytes that rows add up to (bs_plan_sum); what each instruction does, and whether there is room
 * for what it reads and writes, is the walk's to say.
 *
 *   domains; routers; nodes: tables and     computed again, and the same (a domain's order but decides where its
 *     scratch that they have, kernels         routers do); a router that is needed has its table
 *   nodes: fusion, ahead_of                 the chain is there; a router that has as many paths as there are scores
 *   nodes: unit, prepared_offset            weights end within what is loaded of their unit, and some are loaded
 *   values: storage, source, scope          memory that the value's node may have, of what has as many bytes
 *   values: margin, planar, narrow, cache   a layout that each reader knows; lengths that a run has checked
 *   phases: first_unit, n_units             within their table
 *
 * Relies on plan/image.h, and on every number being within its bounds (plan/image_tables.c). Must never write. */
#include "plan/fusions.h"
#include "plan/image.h"

#include "ops/structure.h"

/* ------------------------------------------------------------------------------------------- domains, routers */

static bool domain_sound(const bs_plan *p, int32_t d)
{
    bs_domain_plan sized = p->domains[d];
    bs_plan_size_domain(p, d, &sized);
    return bs_image_same(BS_IMAGE_domains, &sized, &p->domains[d]);
}

static bool router_sound(const bs_plan *p, int32_t r)
{
    const bs_router_info *info = &p->graph->routers[r];
    bs_router_plan sized = p->routers[r];
    bs_plan_size_router(p, r, &sized);
    sized.live = p->node_live[info->node];
    return bs_image_same(BS_IMAGE_routers, &sized, &p->routers[r]) && sized.forced <= info->desc->paths &&
           !(sized.live && info->loop.again && !p->node_live[info->loop.again]) &&
           !(sized.live && sized.in_tile && !sized.forced && bs_protocol_sees_all_rows(info->desc->protocol));
}

/* ---------------------------------------------------------------------------------------------------- nodes */

/* The carried value in whose place a value is made; or 0. */
static int32_t changes(const bs_plan *p, int32_t value)
{
    return p->values[value].storage == BS_STORAGE_VIEW ? bs_plan_updates(p, value) : 0;
}

/* Whether a needed node can take its operand `index`, which is `value`, as it lies. */
static bool takes(const bs_plan *p, int32_t n, int32_t index, int32_t value)
{
    const bs_node *node = &p->graph->nodes[n];
    const bs_value_plan *v = &p->values[value];
    const bs_role role = bs_node_role(node, index);
    if (!p->node_live[p->graph->values[value].node] || (v->planar && bs_plan_is_of_images(p, n)) ||
        (role == BS_ROLE_DECIDING && v->narrow) || (role == BS_ROLE_CACHE_LENGTH && !v->is_cache_length))
        return false;
    if (bs_plan_is_seen(p, value) || changes(p, value) ||
        (index == 0 && node->n_out > 0 && changes(p, node->first_out) == value))
        return bs_plan_reads_in_a_row(p, n, index, value);
    return bs_plan_is_stored(p, role == BS_ROLE_DECIDING ? value : bs_plan_rows_of(p, value)) ||
           bs_plan_reads_in_place(p, n, index, value);
}

static bool operands_sound(const bs_plan *p, int32_t n)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const int32_t *own = bs_node_in(g, node);
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, n, &n_in);
    for (int32_t i = 0; i < n_in; i++)
        if (in[i] != 0 && bs_plan_reads(p, node, i) && !takes(p, n, i, in[i]))
            return false;
    for (int32_t i = 0; i < node->n_in; i++)
        if (own[i] && g->values[own[i]].image && p->values[own[i]].margin < bs_plan_margin_needed(p, node, i))
            return false;
    return true;
}

/* Whether there are tables of its rows. */
static bool domain_is_live(const bs_plan *p, const bs_node *node)
{
    const bs_graph *g = p->graph;
    const bs_domain *domain = &g->domains[node->domain];
    const bool image = node->n_out > 0 && g->values[node->first_out].image && domain->top > 0;
    return (!image || p->domains[domain->top].images) &&
           (domain->kind == BS_DOMAIN_PATH ? p->routers[domain->router].live : p->domains[node->domain].live) &&
           (!domain->lengths || p->node_live[g->values[domain->lengths].node]);
}

static bool node_sound(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    const bs_node_plan *np = &p->nodes[n];
    const bs_fusion_search search = {p, NULL, np->fused_in};
    const bs_bytes end = bs_bytes_add(np->prepared_offset, np->prepared_bytes);
    bs_fusion_match match;
    bs_node_plan sized = *np;
    if (!p->node_live[n])
        return !bs_node_is_output(node) && np->unit == 0;
    bs_plan_size_node(p, n, &sized);
    return domain_is_live(p, node) && (np->fusion == 0 || bs_fusion_find(&search, n, np->fusion, &match)) &&
           bs_image_same(BS_IMAGE_nodes, &sized, np) && bs_bytes_aligned_to(np->prepared_offset, BS_ALIGNMENT) &&
           (np->unit == 0 ||
            (bs_plan_node_streams(p, n) && !bs_bytes_less(p->units[np->unit].prepared_bytes, end))) &&
           (!bs_plan_looks_ahead(node) || bs_plan_look_ahead_fits(p, n, np->ahead_of, NULL)) && operands_sound(p, n);
}

/* A unit that nothing loads would be waited for without end; and so one that no slot holds. */
static bool unit_sound(const bs_plan *p, int32_t u)
{
    const bs_plan_unit *unit = &p->units[u];
    return bs_bytes_aligned_to(unit->prepared_bytes, BS_ALIGNMENT) && unit->node > 0 &&
           p->nodes[unit->node].unit == u && p->nodes[unit->node].owner == unit->node;
}

static bool phase_sound(const bs_plan *p, int32_t k)
{
    const bs_trace_phase *phase = &p->phases[k];
    return phase->n_units > 0 && phase->n_units <= p->n_phase_units - phase->first_unit;
}

/* --------------------------------------------------------------------------------------------------- values */

/* Whether a value may lie where it is copied at the end: in the output or the state that is node `source`. */
static bool ends_in_place(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const int32_t source = p->values[value].source < g->n_nodes ? p->values[value].source : 0;
    const bool state = p->values[value].storage == BS_STORAGE_STATE;
    const bs_node *port = &g->nodes[source], *end = state ? &g->nodes[port->writer] : port;
    return p->node_live[source] && (state ? bs_node_is_state(port) : bs_node_is_output(port)) &&
           bs_node_ends_run(end) && g->values[value].domain == 0 && p->values[value].margin == 0 &&
           bs_node_in(g, end)[bs_node_operand(end, BS_ROLE_DATA)] == value;
}

/* Whether its rows are what the root tensor `source` joins: each has a place there. */
static bool frames(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[g->values[value].node];
    const int32_t frame = p->values[value].source < g->n_values ? p->values[value].source : 0;
    const bs_node *joins = &g->nodes[g->values[frame].node];
    return bs_node_gathers(node) && !bs_plan_is_packed(g, node) && !p->routers[node->router].in_tile &&
           bs_node_joins_cells(joins) && bs_node_in(g, joins)[0] == value;
}

/* Whether a value's memory is what its node may have: that of the node itself, or of what has as many bytes. */
static bool lies_well(const bs_plan *p, int32_t value)
{
    const int32_t n = p->graph->values[value].node, source = p->values[value].source;
    const bs_node *node = &p->graph->nodes[n];
    const bool given = bs_node_work(node) == BS_WORK_GIVEN && source == n, view = bs_node_is_view(node),
               seen = source == 0 || (bs_plan_may_be_seen(p, value) && source == bs_view_of(p->graph, node));
    const int32_t carried = view ? 0 : bs_plan_updates(p, value);
    switch ((bs_storage)p->values[value].storage) {
    case BS_STORAGE_NONE: return true;
    case BS_STORAGE_INPUT: return given && bs_node_is_input(node);
    case BS_STORAGE_WEIGHT: return given && bs_op_get(node->op)->bound == 0;
    case BS_STORAGE_STATE: return bs_node_is_state(node) ? given : bs_node_joins_cells(node) && ends_in_place(p, value);
    case BS_STORAGE_OUTPUT: return bs_plan_may_end_in_place(p, value) && ends_in_place(p, value);
    case BS_STORAGE_VIEW: /* or where its operand lies, or in the place of what it updates */
        if (p->graph->values[value].reshaped)
            return source == bs_node_in(p->graph, node)[0] && bs_plan_may_show(p, value) &&
                   p->values[value].narrow == p->values[source].narrow;
        return view ? source == bs_view_of(p->graph, node)
                    : carried && p->values[carried].storage == BS_STORAGE_VIEW && source == p->values[carried].source;
    case BS_STORAGE_FRAME: return frames(p, value);
    case BS_STORAGE_TRANSIENT:
        return seen || bs_plan_on_device(p) || ends_in_place(p, value) || (given && bs_plan_may_lie_as_bound(p, value));
    case BS_STORAGE_SCRATCH: return seen;
    }
    return false;
}

static bool value_sound(const bs_plan *p, int32_t value)
{
    const bs_value_plan *v = &p->values[value];
    const bs_value_info *info = &p->graph->values[value];
    return p->node_live[info->node] == (v->storage != BS_STORAGE_NONE) && lies_well(p, value) &&
           (!v->planar || bs_plan_may_be_planar(p, value)) && (v->margin == 0 || info->image) &&
           (!v->narrow || (p->desc.half && bs_plan_is_stored(p, bs_plan_rows_of(p, value)) && info->dtype == BS_F32)) &&
           (!v->is_cache_length ||
            (bs_node_is_input(&p->graph->nodes[info->node]) && info->dtype == BS_I32 && info->rank == 1));
}

bool bs_image_values_sound(const bs_plan *p)
{
    const bs_graph *g = p->graph;
    return bs_plan_each(p, 0, g->n_domains, domain_sound) && bs_plan_each(p, 1, g->n_routers, router_sound) &&
           bs_plan_each(p, 1, g->n_values, value_sound) && bs_plan_each(p, 1, g->n_nodes, node_sound) &&
           bs_plan_each(p, 1, p->n_units, unit_sound) && bs_plan_each(p, 0, p->n_phases, phase_sound);
}
