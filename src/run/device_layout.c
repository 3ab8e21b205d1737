/* run/device_layout.c - how many bytes a plan takes of a device, and where everything lies there.
 * One walk counts and places. Relies on plan/device.h and run/segments.c's rooms. Must never need a device. */
#include "run/session.h"

static bs_bytes value_bytes(const bs_plan *p, int32_t value)
{
    return bs_value_bytes(p->graph, &p->graph->values[value]);
}

int32_t bs_bound_places(const bs_graph *g, int32_t *at)
{
    int32_t places = 1;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bool bound = bs_node_op(&g->nodes[n])->bound;
        if (at)
            at[n] = bound ? places : 0;
        places += bound;
    }
    return places;
}

bool bs_device_is_bound(const bs_plan *plan, int32_t node)
{
    return plan->node_live[node] && bs_op_get(plan->graph->nodes[node].op)->bound;
}

static int32_t count_bound(const bs_plan *p)
{
    int32_t count = 0;
    for (int32_t n = 1; n < p->graph->n_nodes; n++)
        count += bs_device_is_bound(p, n);
    return count;
}

/* Bytes of the largest buffer that a caller can bind to this node (an input, an output or a state); 0: none. */
static bs_bytes bound_bytes(const bs_plan *p, int32_t n)
{
    return bs_device_is_bound(p, n) ? value_bytes(p, bs_bound_value(p->graph, &p->graph->nodes[n])) : bs_bytes_of(0);
}

uint64_t bs_device_input_place(const bs_plan *plan, int32_t node)
{
    bs_bytes at = bs_bytes_of(0);
    for (int32_t n = 1; n < node; n++)
        bs_bytes_put(&at, bound_bytes(plan, n));
    return bs_bytes_any(bound_bytes(plan, node)) ? bs_bytes_figure(at) : UINT64_MAX;
}

bs_bytes bs_device_state_place(const bs_plan *plan, int32_t node)
{
    bs_bytes at = bs_bytes_of(0);
    for (int32_t n = 1; n < node; n++)
        if (bs_session_is_state(plan, n))
            bs_bytes_put(&at, value_bytes(plan, plan->graph->nodes[n].first_out));
    return at;
}

static bs_bytes offsets_place(const bs_plan *plan, int32_t domain)
{
    bs_bytes at = bs_bytes_of(0);
    for (int32_t d = 1; d < domain; d++)
        bs_bytes_place(&at, bs_segment_room(plan, d), sizeof(int32_t));
    return at;
}

static bs_bytes cache_lengths_place(const bs_plan *plan, int32_t node)
{
    bs_bytes at = offsets_place(plan, plan->graph->n_domains);
    for (int32_t n = 1; n < node; n++)
        bs_bytes_place(&at, bs_cache_lengths_room(plan, n), sizeof(int32_t));
    return at;
}

uint64_t bs_device_offsets_place(const bs_plan *plan, int32_t domain)
{
    return bs_bytes_figure(offsets_place(plan, domain));
}
uint64_t bs_device_cache_lengths_place(const bs_plan *plan, int32_t node)
{
    return bs_bytes_figure(cache_lengths_place(plan, node));
}

/* ----------------------------------------------------------------------------------------- extents from data */

static bool has_makers(const bs_plan *p)
{
    bool any = false;
    for (int32_t n = 1; n < p->graph->n_nodes; n++)
        any = any || (p->node_live[n] && p->graph->nodes[n].makes);
    return any;
}

bool bs_device_joins(const bs_plan *plan, int32_t node, bs_device_join *join)
{
    const bs_graph *g = plan->graph;
    const bs_node *joins = &g->nodes[node];
    if (!plan->node_live[node] || !bs_node_is_view(joins) || joins->router != 0)
        return false;
    const bs_value_info *x = &g->values[bs_node_in(g, joins)[0]];
    if (x->rank <= g->values[joins->first_out].rank)
        return false;
    const int32_t rows = g->dims[x->dims[0]].node, cells = bs_domain_maker(g, joins->domain);
    join->dim = x->dims[0];
    join->domain = joins->domain;
    join->maker = rows && (!cells || plan->nodes[rows].instr > plan->nodes[cells].instr) ? rows : cells;
    return join->maker != 0;
}

/* ---------------------------------------------------------------------------------------------- decisions */

typedef struct decision_sizes {
    bs_bytes fetched, global, tile; /* what the host fetches after a run lies first */
    uint64_t extents;
} decision_sizes;

/* The tables that a device reads hold offsets as plain numbers. None is cut: all lie below a total that an arena had
 * room for. */
static uint64_t take_bytes(bs_bytes *used, bs_bytes bytes)
{
    return bs_bytes_figure(bs_bytes_put(used, bytes));
}

static uint64_t take(bs_bytes *used, int64_t count, size_t each)
{
    return take_bytes(used, bs_bytes_array(count, each));
}

static void place_fetched(const bs_plan *p, int32_t router, decision_sizes *used, bs_device_decision *d)
{
    const int32_t top = bs_plan_top_domain(p->graph, p->graph->routers[router].domain);
    d->dropped = take(&used->fetched, 1, sizeof(int64_t));
    d->sums = take(&used->fetched, d->paths, sizeof(int32_t));
    d->top_rows = (int32_t)p->domains[top].max_rows;
    d->top = take(&used->fetched, d->top_rows, sizeof(int16_t));
}

static void place_choices(decision_sizes *used, bs_device_decision *d)
{
    bs_bytes *at = d->in_tile ? &used->tile : &used->global;
    const int64_t choices = (int64_t)d->rows * d->per_row;
    d->counts = take(at, d->paths, sizeof(int32_t));
    d->offsets = take(at, d->paths + 1, sizeof(int32_t));
    d->chosen = take(at, choices, sizeof(int32_t));
    d->gates = take(at, choices, sizeof(float));
    d->ids = take(at, choices, sizeof(int32_t));
    d->inverse = take(at, choices, sizeof(int32_t));
    d->work = take(at, 2 * choices + 4 * (int64_t)d->paths, sizeof(int32_t));
    d->price = take(at, 1, sizeof(float));
    d->trip = take(at, 3, sizeof(int32_t));
}

/* Places the decisions of all routers: [routers], or NULL when only the sizes are wanted. */
static void place_decisions(const bs_plan *p, decision_sizes *used, bs_device_decision *all)
{
    used->fetched = bs_bytes_of(BS_ALIGNMENT); /* the status */
    used->extents = take(&used->fetched, has_makers(p) ? p->graph->n_dims : 0, sizeof(int32_t));
    used->global = used->tile = bs_bytes_of(0);
    bs_device_decision here;
    memset(&here, 0, sizeof here);
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t r = 1; r < p->graph->n_routers; r++) {
            const bs_router_info *info = &p->graph->routers[r];
            bs_device_decision *d = all ? &all[r] : &here;
            if (pass == 0 || !all) {
                memset(d, 0, sizeof *d);
                d->live = p->routers[r].live;
                d->in_tile = p->routers[r].in_tile;
                d->paths = info->desc->paths;
                d->per_row = info->max_paths_per_cell;
                d->rows = (int32_t)p->routers[r].rows;
                d->domain = info->domain;
            }
            if (d->live && pass == 0)
                place_fetched(p, r, used, d);
            else if (d->live)
                place_choices(used, d);
        }
        used->global = pass == 0 ? used->fetched : used->global;
    }
}

void bs_device_decisions_place(const bs_plan *plan, bs_device_decision *decisions)
{
    decision_sizes used;
    place_decisions(plan, &used, decisions);
}

/* ------------------------------------------------------------------------------------------------- layout */

#define MOST_TILES 1024 /* tiles that run at once: more blocks of this size than any GPU holds */
#define MOST_LARGE_TILES 128 /* the same, when the rows of tiles lie in device memory */

/* An upper bound for the operands of all instructions. An instruction that works on all operands of its node has
 * those, two for value and target, and at least two inputs (a move reads one end and writes the other); any other has
 * four at most. */
static int32_t count_operands(const bs_plan *p)
{
    int32_t count = 0;
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        const bs_node *node = &p->graph->nodes[p->instrs[i].node];
        if (instr->kind == BS_INSTR_CALL || bs_instr_gathers(instr))
            count += bs_max_i32(node->n_in, 2) + node->n_out + 2;
        else if (instr->kind != BS_INSTR_RUN)
            count += 4;
    }
    return count;
}

int32_t bs_device_given_words(const bs_plan *plan, const bs_instr *instr)
{
    const bs_node *node = &plan->graph->nodes[instr->node];
    const bool asks = instr->kind == BS_INSTR_MOVE && instr->combine != BS_COMBINE_COPY;
    return asks && bs_node_gathers(node) ? (plan->graph->routers[node->router].desc->paths + 31) / 32 : 0;
}

static void layout_tables(const bs_plan *p, bs_device_layout *l)
{
    bs_bytes at = bs_bytes_of(0);
    l->n_steps = p->n_instrs;
    l->n_operands = count_operands(p);
    l->steps_at = take(&at, l->n_steps, sizeof(bs_device_step));
    l->n_launches = (int32_t)bs_min_i64(3 * (int64_t)l->n_steps + 2, INT32_MAX); /* two a step, and what it made */
    l->operands_at = take(&at, l->n_operands, sizeof(bs_device_operand));
    l->domains_at = take(&at, p->graph->n_domains, sizeof(bs_device_domain));
    l->decisions_at = take(&at, p->graph->n_routers, sizeof(bs_device_decision));
    l->parts_at = take(&at, p->n_parts, sizeof(bs_device_part));
    for (int32_t i = 0; i < p->n_instrs; i++)
        l->n_given += bs_device_given_words(p, &p->instrs[i]);
    l->given_at = take(&at, l->n_given, sizeof(uint32_t));
    l->units_at = take(&at, bs_max_i32(p->n_units, 1), sizeof(uint64_t));
    l->n_dims = has_makers(p) ? p->graph->n_dims : 0;
    l->derived_at = take(&at, l->n_dims, sizeof(bs_device_dim));
    for (int32_t n = 1; n < p->graph->n_nodes && l->n_dims > 0; n++)
        l->n_joins += bs_device_joins(p, n, &(bs_device_join){0});
    l->joins_at = take(&at, l->n_joins, sizeof(bs_device_join));
    l->dims_at = take(&at, p->graph->n_dims, sizeof(int32_t));
    l->bound_at = take(&at, 1 + count_bound(p), sizeof(bs_device_bound));
    l->segments_at = take_bytes(&at, cache_lengths_place(p, p->graph->n_nodes));
    l->tables_bytes = bs_bytes_figure(at);
}

static bs_bytes largest_prepared(const bs_plan *p, bool streamed)
{
    bs_bytes most = bs_bytes_of(0);
    for (int32_t n = 1; n < p->graph->n_nodes; n++)
        if (p->node_live[n] && (p->nodes[n].unit != 0) == streamed)
            most = bs_bytes_max(most, p->nodes[n].prepared_bytes);
    return most;
}

static bs_bytes scores_bytes(const bs_plan *plan, int32_t router)
{
    const bs_router_info *r = &plan->graph->routers[router];
    if (!plan->routers[router].live || plan->routers[router].forced || r->desc->protocol != BS_ROUTE_CALLBACK)
        return bs_bytes_of(0);
    const bs_bytes row = bs_bytes_array(bs_dim_max(plan->graph, plan->graph->values[r->score].dims[0]), sizeof(float));
    return bs_bytes_align(bs_bytes_times(row, plan->routers[router].rows));
}

uint64_t bs_device_scores_bytes(const bs_plan *plan, int32_t router)
{
    return bs_bytes_figure(scores_bytes(plan, router));
}

/* The most bytes that any callback reads and returns. */
static bs_bytes asked_bytes(const bs_plan *p)
{
    bs_bytes most = bs_bytes_of(0);
    for (int32_t r = 1; r < p->graph->n_routers; r++) {
        bs_bytes bytes = scores_bytes(p, r);
        if (!bs_bytes_any(bytes))
            continue;
        bs_bytes_place(&bytes, p->routers[r].rows, sizeof(int32_t)); /* paths and gates that it returns */
        bs_bytes_place(&bytes, p->routers[r].rows, sizeof(float));
        most = bs_bytes_max(most, bytes);
    }
    return most;
}

/* What the backend carves for itself (cuda/state.cuh). */
static bs_bytes session_bytes(const bs_plan *p)
{
    const uint64_t nodes = (uint64_t)p->graph->n_nodes;
    bs_carver c = {NULL, {0}};
    bs_carve(&c, 1, BS_DEVICE_SESSION_BYTES);
    bs_carve(&c, (uint64_t)p->graph->n_dims, sizeof(int64_t));
    bs_carve(&c, (uint64_t)bs_bound_places(p->graph, NULL), sizeof(bs_buffer));
    bs_carve(&c, nodes, BS_DEVICE_BOUND_BYTES);
    return c.used;
}

void bs_device_layout_make(const bs_plan *plan, bs_device_layout *l)
{
    decision_sizes decisions;
    bs_bytes at = bs_bytes_of(0), inputs = at, scratch = at;
    memset(l, 0, sizeof *l);
    if (!bs_plan_on_device(plan))
        return;
    layout_tables(plan, l);
    place_decisions(plan, &decisions, NULL);
    l->context_bytes = bs_bytes_figure(decisions.tile);
    l->extents = decisions.extents;
    l->results_bytes = bs_bytes_figure(decisions.fetched);
    for (int32_t k = 0; k < plan->n_parts; k++)
        if (bs_bytes_less(plan->shared_bytes, plan->parts[k].scratch_bytes))
            scratch = bs_bytes_max(scratch, plan->parts[k].scratch_bytes);
    l->scratch_bytes = bs_bytes_figure(scratch);
    l->tiles = plan->n_regions == 0 ? 0 : l->scratch_bytes ? MOST_LARGE_TILES : MOST_TILES;
    for (int32_t n = 1; n < plan->graph->n_nodes; n++)
        bs_bytes_put(&inputs, bound_bytes(plan, n));
    l->inputs_bytes = bs_bytes_figure(inputs);
    l->transient = take_bytes(&at, plan->transient_bytes);
    l->states = take_bytes(&at, bs_device_state_place(plan, plan->graph->n_nodes));
    l->inputs = take_bytes(&at, plan->desc.in_place ? bs_bytes_of(0) : inputs);
    l->decisions = take_bytes(&at, decisions.global);
    l->guesses = take(&at, 2 * (int64_t)plan->graph->max_paths + 1, sizeof(float));
    l->contexts = take_bytes(&at, bs_bytes_times(decisions.tile, l->tiles));
    l->scratch = take_bytes(&at, bs_bytes_times(scratch, l->tiles));
    l->kernel_scratch = take_bytes(&at, plan->kernel_scratch_bytes);
    l->tables = take_bytes(&at, bs_bytes_of(l->tables_bytes));
    l->slots = take_bytes(&at, plan->desc.in_place ? bs_bytes_of(0) : plan->slot_bytes);
    l->device_bytes = bs_bytes_figure(at);
    at = bs_bytes_of(0);
    l->session_bytes = bs_bytes_figure(session_bytes(plan));
    l->session = take_bytes(&at, session_bytes(plan));
    l->launches = take(&at, l->n_launches, sizeof(bs_device_launch));
    l->tables_pinned = take_bytes(&at, bs_bytes_of(l->tables_bytes));
    l->asked = take_bytes(&at, asked_bytes(plan));
    l->results = take_bytes(&at, decisions.fetched);
    l->inputs_pinned = take_bytes(&at, inputs);
    l->loading = take_bytes(&at, largest_prepared(plan, false));
    l->slots_pinned = take_bytes(&at, plan->desc.in_place ? plan->slot_bytes : bs_bytes_of(0));
    const bs_bytes room = plan->desc.in_place ? bs_bytes_of(0) : bs_bytes_align(largest_prepared(plan, true));
    l->room_bytes = bs_bytes_figure(room);
    l->rooms = take_bytes(&at, bs_bytes_times(room, plan->lanes));
    l->places = take(&at, bs_max_i32(plan->n_units, 1), sizeof(uint64_t));
    l->fetched = take(&at, (int64_t)plan->graph->max_paths + BS_DEVICE_STATUS, sizeof(int32_t));
    l->pinned_bytes = bs_bytes_figure(at);
}
