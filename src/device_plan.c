/* device_plan.c - how many bytes a plan takes of a device, and where everything lies there.
 * One walk counts and places. Relies on device.h and segment.c's rooms. Must never need a device. */
#include "session.h"

static uint64_t value_bytes(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    uint64_t bytes = bs_dtype_bytes(v->dtype);
    for (int32_t i = 0; i < v->rank; i++)
        bytes = bs_mul_u64(bytes, (uint64_t)bs_dim_max(p->graph, v->dims[i]));
    return bytes;
}

/* What a caller binds to this node, at most: an input, an output or a state; 0: nothing. */
static uint64_t bound_bytes(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    if (bs_node_is(node, &bs_op_output))
        return value_bytes(p, bs_node_in(p->graph, node)[0]);
    if (!p->node_live[n] || !(bs_node_is(node, &bs_op_input) || bs_node_is(node, &bs_op_state)))
        return 0;
    return value_bytes(p, node->first_out);
}

uint64_t bs_device_input_place(const bs_plan *plan, int32_t node)
{
    uint64_t at = 0;
    for (int32_t n = 1; n < node; n++)
        at = bs_add_u64(at, bs_align_u64(bound_bytes(plan, n)));
    return bound_bytes(plan, node) ? at : UINT64_MAX;
}

uint64_t bs_device_state_place(const bs_plan *plan, int32_t node)
{
    uint64_t at = 0;
    for (int32_t n = 1; n < node; n++)
        if (bs_session_is_state(plan, n))
            at = bs_add_u64(at, bs_align_u64(value_bytes(plan, plan->graph->nodes[n].first_out)));
    return at;
}

uint64_t bs_device_offsets_place(const bs_plan *plan, int32_t domain)
{
    uint64_t at = 0;
    for (int32_t d = 1; d < domain; d++)
        at += bs_align_u64(4 * (uint64_t)bs_segment_room(plan, d));
    return at;
}

uint64_t bs_device_past_place(const bs_plan *plan, int32_t node)
{
    uint64_t at = bs_device_offsets_place(plan, plan->graph->n_domains);
    for (int32_t n = 1; n < node; n++)
        at += bs_align_u64(4 * (uint64_t)bs_past_room(plan, n));
    return at;
}

/* ---------------------------------------------------------------------------------------------- decisions */

typedef struct decision_sizes {
    uint64_t told, global, tile; /* what the host is told lies first */
} decision_sizes;

static uint64_t take(uint64_t *used, uint64_t count, uint64_t bytes)
{
    const uint64_t at = *used;
    *used = bs_add_u64(at, bs_align_u64(bs_mul_u64(count, bytes)));
    return at;
}

static void place_told(const bs_plan *p, int32_t router, decision_sizes *used, bs_device_decision *d)
{
    const int32_t top = bs_plan_top_domain(p->graph, p->graph->routers[router].domain);
    d->dropped = take(&used->told, 1, sizeof(int64_t));
    d->sums = take(&used->told, (uint64_t)d->paths, sizeof(int32_t));
    d->top_rows = (int32_t)p->domains[top].max_rows;
    d->top = take(&used->told, (uint64_t)d->top_rows, sizeof(int16_t));
}

static void place_rest(decision_sizes *used, bs_device_decision *d)
{
    uint64_t *at = d->in_tile ? &used->tile : &used->global;
    const uint64_t choices = bs_mul_u64((uint64_t)d->rows, (uint64_t)d->per_row);
    d->counts = take(at, (uint64_t)d->paths, sizeof(int32_t));
    d->offsets = take(at, (uint64_t)d->paths + 1, sizeof(int32_t));
    d->chosen = take(at, choices, sizeof(int32_t));
    d->gates = take(at, choices, sizeof(float));
    d->ids = take(at, choices, sizeof(int32_t));
    d->inverse = take(at, choices, sizeof(int32_t));
    d->work = take(at, bs_add_u64(2 * choices, 4 * (uint64_t)d->paths), sizeof(int32_t));
    d->price = take(at, 1, sizeof(float));
}

/* Places the decisions of all routers: [routers], or NULL where only the sizes are asked for. */
static void place_decisions(const bs_plan *p, decision_sizes *used, bs_device_decision *all)
{
    used->told = BS_ALIGNMENT; /* the status */
    used->global = used->tile = 0;
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t r = 1; r < p->graph->n_routers; r++) {
            const bs_router_info *info = &p->graph->routers[r];
            bs_device_decision here;
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
                place_told(p, r, used, d);
            else if (d->live)
                place_rest(used, d);
        }
        used->global = pass == 0 ? used->told : used->global;
    }
}

void bs_device_decisions_place(const bs_plan *plan, bs_device_decision *decisions)
{
    decision_sizes used;
    place_decisions(plan, &used, decisions);
}

/* ------------------------------------------------------------------------------------------------- layout */

#define MOST_TILES 1024 /* that run at once: more blocks than any GPU holds of this size, */
#define MOST_LARGE_TILES 128 /* and when their rows lie in its memory */

/* Operands of an instruction at most: those of its node, where it works on all of them; its value and target, and what it moves
 * between. */
static int32_t count_operands(const bs_plan *p)
{
    int32_t count = 0;
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr_kind kind = p->instrs[i].kind;
        const bs_node *node = &p->graph->nodes[p->instrs[i].node];
        if (kind == BS_INSTR_OP || kind == BS_INSTR_REDUCE)
            count += bs_max_i32(node->n_in, 2) + node->n_out + 2;
        else if (kind != BS_INSTR_REGION)
            count += 4;
    }
    return count;
}

int32_t bs_device_given_words(const bs_plan *plan, const bs_instr *instr)
{
    const bs_node *node = &plan->graph->nodes[instr->node];
    const bool asks = instr->kind == BS_INSTR_REDUCE || instr->kind == BS_INSTR_FILL;
    return asks && bs_node_is(node, &bs_op_gather) ? (plan->graph->routers[node->router].desc->paths + 31) / 32 : 0;
}

static void layout_tables(const bs_plan *p, bs_device_layout *l)
{
    uint64_t at = 0;
    l->n_steps = p->n_instrs;
    l->n_operands = count_operands(p);
    l->steps_at = take(&at, (uint64_t)l->n_steps, sizeof(bs_device_step));
    l->operands_at = take(&at, (uint64_t)l->n_operands, sizeof(bs_device_operand));
    l->domains_at = take(&at, (uint64_t)p->graph->n_domains, sizeof(bs_device_domain));
    l->decisions_at = take(&at, (uint64_t)p->graph->n_routers, sizeof(bs_device_decision));
    l->parts_at = take(&at, (uint64_t)p->n_parts, sizeof(bs_device_part));
    for (int32_t i = 0; i < p->n_instrs; i++)
        l->n_given += bs_device_given_words(p, &p->instrs[i]);
    l->given_at = take(&at, (uint64_t)l->n_given, sizeof(uint32_t));
    l->units_at = take(&at, (uint64_t)bs_max_i32(p->n_units, 1), sizeof(uint64_t));
    l->segments_at = take(&at, bs_device_past_place(p, p->graph->n_nodes), 1);
    l->tables_bytes = at;
}

static uint64_t largest_prepared(const bs_plan *p, bool streamed)
{
    uint64_t most = 0;
    for (int32_t n = 1; n < p->graph->n_nodes; n++)
        if (p->node_live[n] && (p->nodes[n].unit != 0) == streamed && p->nodes[n].prepared_bytes > most)
            most = p->nodes[n].prepared_bytes;
    return most;
}

uint64_t bs_device_scores_bytes(const bs_plan *plan, int32_t router)
{
    const bs_router_info *r = &plan->graph->routers[router];
    if (!plan->routers[router].live || plan->routers[router].forced || r->desc->protocol != BS_ROUTE_CALLBACK)
        return 0;
    return bs_align_u64(bs_mul_u64((uint64_t)plan->routers[router].rows, 4 * (uint64_t)bs_dim_max(plan->graph, plan->graph->values[r->score].dims[0])));
}

/* The most that any callback is told and answers. */
static uint64_t asked_bytes(const bs_plan *p)
{
    uint64_t most = 0;
    for (int32_t r = 1; r < p->graph->n_routers; r++) {
        const uint64_t scores = bs_device_scores_bytes(p, r);
        const uint64_t bytes = scores ? scores + 2 * bs_align_u64(4 * (uint64_t)p->routers[r].rows) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* What the backend carves for itself (cuda/state.cuh). */
static uint64_t session_bytes(const bs_plan *p, const bs_device_layout *l)
{
    const uint64_t nodes = (uint64_t)p->graph->n_nodes;
    bs_carver c = {NULL, 0};
    bs_carve(&c, 1, BS_DEVICE_SESSION_BYTES);
    bs_carve(&c, 2 * (uint64_t)l->n_steps + 2, BS_DEVICE_LAUNCH_BYTES);
    bs_carve(&c, (uint64_t)p->graph->n_dims, sizeof(int64_t));
    bs_carve(&c, nodes, sizeof(bs_buffer));
    bs_carve(&c, nodes, BS_DEVICE_BOUND_BYTES);
    return c.used;
}

void bs_device_layout_make(const bs_plan *plan, bs_device_layout *l)
{
    decision_sizes decisions;
    uint64_t at = 0;
    memset(l, 0, sizeof *l);
    if (!bs_plan_on_device(plan))
        return;
    layout_tables(plan, l);
    place_decisions(plan, &decisions, NULL);
    l->context_bytes = decisions.tile;
    l->results_bytes = decisions.told;
    for (int32_t k = 0; k < plan->n_parts; k++)
        if (plan->parts[k].scratch_bytes > plan->shared_bytes && plan->parts[k].scratch_bytes > l->scratch_bytes)
            l->scratch_bytes = plan->parts[k].scratch_bytes;
    l->tiles = plan->n_regions == 0 ? 0 : l->scratch_bytes ? MOST_LARGE_TILES : MOST_TILES;
    for (int32_t n = 1; n < plan->graph->n_nodes; n++)
        l->inputs_bytes = bs_add_u64(l->inputs_bytes, bs_align_u64(bound_bytes(plan, n)));
    l->weights = take(&at, plan->weight_bytes, 1);
    l->transient = take(&at, plan->transient_bytes, 1);
    l->states = take(&at, bs_device_state_place(plan, plan->graph->n_nodes), 1);
    l->inputs = take(&at, plan->desc.in_place ? 0 : l->inputs_bytes, 1);
    l->decisions = take(&at, decisions.global, 1);
    l->guesses = take(&at, 2 * (uint64_t)plan->graph->max_paths + 1, sizeof(float));
    l->contexts = take(&at, l->context_bytes, (uint64_t)l->tiles);
    l->scratch = take(&at, l->scratch_bytes, (uint64_t)l->tiles);
    l->tables = take(&at, l->tables_bytes, 1);
    l->slots = take(&at, plan->desc.in_place ? 0 : plan->slot_bytes, 1);
    l->device_bytes = at;
    at = 0;
    l->session_bytes = session_bytes(plan, l);
    l->session = take(&at, l->session_bytes, 1);
    l->tables_pinned = take(&at, l->tables_bytes, 1);
    l->asked = take(&at, asked_bytes(plan), 1);
    l->results = take(&at, l->results_bytes, 1);
    l->inputs_pinned = take(&at, l->inputs_bytes, 1);
    l->loading = take(&at, largest_prepared(plan, false), 1);
    l->slots_pinned = take(&at, plan->desc.in_place ? plan->slot_bytes : 0, 1);
    l->stage_bytes = plan->desc.in_place ? 0 : bs_align_u64(largest_prepared(plan, true));
    l->stages = take(&at, l->stage_bytes, (uint64_t)plan->lanes);
    l->places = take(&at, (uint64_t)bs_max_i32(plan->n_units, 1), sizeof(uint64_t));
    l->learned = take(&at, (uint64_t)plan->graph->max_paths + 2, sizeof(int32_t));
    l->pinned_bytes = at;
}
