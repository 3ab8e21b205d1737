/* plan_memory.c - the third stage of planning: lifetimes to offsets.
 *
 * Time is that of the instructions; what shares a time is concurrent (paths of a router run side by side), and a value
 * is alive from the first to the last time that touches it, both included. Values of different paths that have the same
 * place in their block share a slab: rows of all paths packed, `max rows x paths per cell x widest row` bytes. That also
 * makes the arms of a single-cell if share their memory, and nothing else overlap.
 * Relies on plan_lower.c having run. */
#include "plan.h"
#include "structure.h"

static bs_bytes life_end(const bs_life *life) { return bs_bytes_add(life->offset, life->bytes); }

bs_bytes bs_plan_place(bs_life *lives, int32_t *order, int32_t count)
{
    bs_bytes total = bs_bytes_of(0);
    for (int32_t i = 0; i < count; i++) { /* by size, descending; insertion keeps it stable */
        int32_t k = i;
        for (; k > 0 && bs_bytes_less(lives[order[k - 1]].bytes, lives[i].bytes); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int32_t i = 0; i < count; i++) {
        bs_life *life = &lives[order[i]];
        life->offset = bs_bytes_of(0);
        for (int32_t k = 0; k < i; k++) { /* raise past every conflict; restart, since raising may meet an earlier one */
            const bs_life *other = &lives[order[k]];
            const bool together = life->first <= other->last && other->first <= life->last;
            const bool overlap = bs_bytes_less(life->offset, life_end(other)) && bs_bytes_less(other->offset, life_end(life));
            if (together && overlap) {
                life->offset = bs_bytes_align(life_end(other));
                k = -1;
            }
        }
        if (bs_bytes_any(life->bytes))
            total = bs_bytes_max(total, life_end(life));
    }
    return bs_bytes_align(total);
}

/* -------------------------------------------------------------------------------------------------- sizes */

static bs_bytes row_bytes(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    bs_bytes elements = bs_value_elements(p->graph, v);
    if (v->rank == 3) {
        int64_t h, w;
        const int64_t margin = p->values[value].margin;
        bs_plan_core(p, v, &h, &w);
        elements = bs_bytes_times(bs_bytes_array(bs_dim_max(p->graph, v->dims[0]), 1), h + 2 * margin);
        elements = bs_bytes_times(elements, w + 2 * margin);
    }
    return bs_bytes_align(bs_bytes_product(elements, bs_bytes_of(bs_dtype_bytes(bs_plan_stored(p, value)))));
}

static int64_t storage_rows(const bs_plan *p, int32_t value)
{
    const bs_domain *d = &p->graph->domains[p->graph->values[value].domain];
    const int32_t domain = p->graph->values[value].domain;
    if (p->values[value].place == BS_PLACE_SCRATCH)
        return p->domains[domain].tile_rows;
    if (d->kind != BS_DOMAIN_PATH)
        return p->domains[domain].max_rows;
    return p->domains[domain].max_rows * p->graph->routers[d->router].max_paths_per_cell;
}

/* --------------------------------------------------------------------------------------------- lifetimes */

static int32_t storage_of(const bs_plan *p, int32_t value)
{
    while (value > 0 && p->values[value].place == BS_PLACE_VIEW)
        value = p->values[value].source;
    return value;
}

static void touch(bs_plan *p, int32_t value, int32_t scope, int32_t time)
{
    value = storage_of(p, value);
    bs_value_plan *v = &p->values[value];
    const bool here = value > 0 && ((v->place == BS_PLACE_TRANSIENT && scope < 0) || (v->place == BS_PLACE_SCRATCH && v->scope == scope));
    if (!here)
        return;
    v->first = v->first < 0 ? time : bs_min_i32(v->first, time);
    v->last = bs_max_i32(v->last, time);
}

static void touch_instr(bs_plan *p, const bs_instr *i, int32_t scope, int32_t time)
{
    const bs_node *node = &p->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, i->node, &n_in);
    touch(p, i->value, scope, time);
    touch(p, i->target, scope, time);
    const bool moves = i->kind == BS_INSTR_STORE || i->kind == BS_INSTR_FILL;
    for (int32_t k = 0; !moves && k < n_in; k++)
        touch(p, in[k], scope, time);
    for (int32_t k = 0; i->kind == BS_INSTR_OP && k < node->n_out; k++)
        touch(p, node->first_out + k, scope, time);
    /* a decision's price is written by the route */
    for (int32_t n = i->node + 1; i->kind == BS_INSTR_ROUTE && n < p->graph->n_nodes; n++)
        if (p->node_live[n] && p->graph->nodes[n].router == node->router && bs_node_is(&p->graph->nodes[n], &bs_op_route_price))
            touch(p, p->graph->nodes[n].first_out, scope, time);
}

static void find_lifetimes(bs_plan *p)
{
    for (int32_t v = 0; v < p->graph->n_values; v++)
        p->values[v].first = p->values[v].last = -1;
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        if (instr->kind == BS_INSTR_REGION)
            continue;
        if (instr->region < 0) {
            touch_instr(p, instr, -1, instr->time);
            continue;
        }
        touch_instr(p, instr, instr->part, i);
        for (int32_t t = 0; t < p->n_top; t++) /* what a region touches outside is touched at the region's time */
            if (p->instrs[t].kind == BS_INSTR_REGION && p->instrs[t].node == instr->region)
                touch_instr(p, instr, -1, p->instrs[t].time);
    }
}

/* ------------------------------------------------------------------------------------------------ placing */

/* The ordinal of a value among the stored ones of its path: values of equal ordinal share a slab. */
static void assign_slabs(bs_plan *p)
{
    for (int32_t v = 1; v < p->graph->n_values; v++) {
        bs_value_plan *plan = &p->values[v];
        const bs_domain *d = &p->graph->domains[p->graph->values[v].domain];
        int32_t ordinal = 0;
        plan->slab = v;
        if (plan->place != BS_PLACE_TRANSIENT || d->kind != BS_DOMAIN_PATH)
            continue;
        for (int32_t u = 1; u < v; u++)
            ordinal += p->values[u].place == BS_PLACE_TRANSIENT && p->graph->values[u].domain == p->graph->values[v].domain;
        for (int32_t u = 1; u < v; u++) {
            const bs_domain *other = &p->graph->domains[p->graph->values[u].domain];
            if (p->values[u].place != BS_PLACE_TRANSIENT || other->kind != BS_DOMAIN_PATH || other->router != d->router || other->path == d->path)
                continue;
            int32_t place = 0;
            for (int32_t w = 1; w < u; w++)
                place += p->values[w].place == BS_PLACE_TRANSIENT && p->graph->values[w].domain == p->graph->values[u].domain;
            if (place == ordinal) { /* the first of that ordinal, so a slab of its own */
                plan->slab = u;
                break;
            }
        }
    }
}

static bs_bytes place_scope(bs_plan *p, bs_life *lives, int32_t *order, bs_place place, int32_t scope)
{
    int32_t count = p->graph->n_values;
    memset(lives, 0, (size_t)count * sizeof *lives);
    for (int32_t v = 1; v < count; v++) {
        const bs_value_plan *plan = &p->values[v];
        if (plan->place != place || plan->scope != scope)
            continue;
        bs_life *life = &lives[plan->slab];
        const bs_bytes bytes = bs_bytes_times(plan->row_bytes, plan->rows);
        const bool fresh = !bs_bytes_any(life->bytes);
        life->first = fresh ? plan->first : bs_min_i32(life->first, plan->first);
        life->last = fresh ? plan->last : bs_max_i32(life->last, plan->last);
        life->bytes = bs_bytes_max(life->bytes, bytes);
    }
    const bs_bytes total = bs_plan_place(lives, order, count);
    for (int32_t v = 1; v < count; v++)
        if (p->values[v].place == place && p->values[v].scope == scope)
            p->values[v].offset = lives[p->values[v].slab].offset;
    return total;
}

/* Rows of every path in a slab are as wide as its widest. */
static void widen_slabs(bs_plan *p)
{
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t v = 1; v < p->graph->n_values; v++) {
            bs_value_plan *plan = &p->values[v], *slab = &p->values[plan->slab];
            plan->row_bytes = slab->row_bytes = bs_bytes_max(plan->row_bytes, slab->row_bytes);
        }
}

int32_t bs_plan_too_large(const bs_plan *p)
{
    for (int32_t k = 0; bs_plan_on_device(p) && k < p->n_parts; k++) {
        const int32_t top = bs_plan_top_domain(p->graph, p->parts[k].domain);
        if (bs_bytes_less(p->shared_bytes, p->parts[k].scratch_bytes) && !bs_plan_streams_paths(p, top))
            return top;
    }
    return 0;
}

/* Rows of a tile, as wide as they will be stored. */
static bs_bytes tile_bytes(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    const bs_bytes bytes = bs_bytes_times(row_bytes(p, value), p->domains[v->domain].tile_rows);
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

#define MOSTLY 4 /* one in so many may be wide */

void bs_plan_make_fit(bs_plan *p, int32_t top)
{
    int32_t nodes = 0, wide = 0;
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        if (!p->node_live[n] || !bs_op_get(p->graph->nodes[n].op)->run || bs_plan_top_domain(p->graph, p->graph->nodes[n].domain) != top)
            continue;
        nodes++;
        wide += bs_plan_is_wide(p, n);
    }
    if (!p->domains[top].mixed && wide > 0 && wide * MOSTLY <= nodes)
        p->domains[top].mixed = true;
    else
        bs_plan_set_order(p, top, BS_ORDER_BREADTH);
}

bs_bytes bs_plan_memory_workspace(const bs_graph *graph)
{
    bs_bytes used = bs_bytes_of(0);
    bs_bytes_place(&used, graph->n_values, sizeof(bs_life));
    bs_bytes_place(&used, graph->n_values, sizeof(int32_t));
    return used;
}

bool bs_plan_memory(bs_plan *plan, void *workspace, bs_error *error)
{
    const int32_t values = plan->graph->n_values;
    bs_life *lives = workspace;
    int32_t *order = (int32_t *)(void *)bs_bytes_at(workspace, bs_bytes_align(bs_bytes_array(values, sizeof(bs_life))));
    find_lifetimes(plan);
    assign_slabs(plan);
    for (int32_t v = 1; v < values; v++) {
        const bs_place place = plan->values[v].place;
        if (place != BS_PLACE_TRANSIENT && place != BS_PLACE_SCRATCH)
            continue;
        plan->values[v].row_bytes = row_bytes(plan, v);
        plan->values[v].rows = storage_rows(plan, v);
    }
    widen_slabs(plan);
    plan->transient_bytes = place_scope(plan, lives, order, BS_PLACE_TRANSIENT, -1);
    plan->kernel_scratch_offset = bs_bytes_of(0);
    for (int32_t k = 0; k < plan->n_parts; k++) {
        plan->parts[k].scratch_bytes = place_scope(plan, lives, order, BS_PLACE_SCRATCH, k);
        plan->kernel_scratch_offset = bs_bytes_max(plan->kernel_scratch_offset, plan->parts[k].scratch_bytes);
    }
    plan->scratch_bytes = bs_bytes_add(bs_bytes_align(plan->kernel_scratch_offset), bs_bytes_align(plan->kernel_scratch_bytes));
    const bs_bytes weights = bs_bytes_add(plan->weight_bytes, plan->all_unit_bytes);
    const bs_bytes total = bs_bytes_add(bs_bytes_add(plan->transient_bytes, plan->scratch_bytes), weights);
    if (bs_bytes_figure(total) > BS_MAX_PLAN_BYTES)
        return bs_refuse(
            error, BS_ERROR_LIMIT,
            "the plan needs %llu bytes of activations, %llu a thread, and %llu of weights, expected 2^46 at most: are the maxima right?",
            (unsigned long long)bs_bytes_figure(plan->transient_bytes), (unsigned long long)bs_bytes_figure(plan->scratch_bytes),
            (unsigned long long)bs_bytes_figure(weights));
    return true;
}
