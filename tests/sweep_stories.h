/* sweep_stories.h - lies about a plan that agree with each other as far as they go: the plan itself is changed, saved,
 * and made as it was. A part of test_sweep_plan.c, which owns the plan, its image and the rounds. */
#ifndef BS_TEST_SWEEP_STORIES_H
#define BS_TEST_SWEEP_STORIES_H

static void tell(tally *t)
{
    bs_error error;
    uint8_t *const told = malloc(bs_plan_image_bytes(plan));
    if (bs_plan_save(plan, told, bs_plan_image_bytes(plan), &error) == BS_OK)
        try_image(told, bs_plan_image_bytes(plan), t);
    free(told);
    memcpy(plan_memory, plan_before, plan_bytes);
}

/* A node is not needed, and nothing that it makes is anywhere; or what it makes is a view. */
static void tell_of_nodes(tally *t)
{
    for (int32_t n = 1; n < plan->graph->n_nodes; n++) {
        const bs_node *node = &plan->graph->nodes[n];
        if (!plan->node_live[n] || node->n_out == 0)
            continue;
        plan->node_live[n] = false;
        plan->nodes[n].unit = 0;
        for (int32_t i = 0; i < node->n_out; i++)
            plan->values[node->first_out + i].storage = BS_STORAGE_NONE;
        tell(t);
        bs_value_plan *v = &plan->values[node->first_out];
        const uint32_t place = bs_node_is_view(node)    ? BS_STORAGE_VIEW
                               : bs_node_is_input(node) ? BS_STORAGE_INPUT
                               : bs_node_is_state(node) ? BS_STORAGE_STATE
                                                        : BS_STORAGE_WEIGHT;
        v->source = bs_node_is_view(node) ? bs_node_in(plan->graph, node)[0] : n;
        v->storage = (uint8_t)place;
        tell(t);
    }
}

/* What is kept in f32 is said to be kept in f16, where the plan is of such a device, and the other way round. */
static void tell_of_values(tally *t)
{
    for (int32_t v = 1; v < plan->graph->n_values; v++) {
        if (!bs_plan_is_stored(plan, v))
            continue;
        plan->values[v].narrow = !plan->values[v].narrow;
        tell(t);
    }
}

/* Every domain runs depth first, and so routers decide in tiles. */
static void tell_of_orders(tally *t)
{
    for (int32_t top = 1; top < plan->graph->n_domains; top++) {
        for (int32_t d = 1; d < plan->graph->n_domains; d++)
            if (plan->graph->domains[d].top == top)
                plan->domains[d].order = BS_ORDER_DEPTH;
        for (int32_t r = 1; r < plan->graph->n_routers; r++)
            bs_plan_size_router(plan, r, &plan->routers[r]);
        tell(t);
        for (int32_t r = 1; r < plan->graph->n_routers; r++) { /* or a forced one is not */
            plan->routers[r].forced = 0;
            tell(t);
        }
    }
}

/* Values in the scratch of a part are out of it: what is said of the part is looked at, not of them. */
static void empty_part(int32_t part)
{
    for (int32_t k = 1; k < plan->graph->n_values; k++) {
        bs_value_plan *v = &plan->values[k];
        if (v->storage != BS_STORAGE_SCRATCH || v->scope != part)
            continue;
        v->storage = BS_STORAGE_TRANSIENT;
        v->offset = bs_bytes_of(0);
        v->rows = bs_plan_storage_rows(plan, k);
        plan->transient_bytes = bs_bytes_max(plan->transient_bytes, bs_bytes_times(v->row_bytes, v->rows));
    }
}

/* Parts have the rows of the first part of their region, or of the whole region. */
static void tell_of_rows(tally *t, int32_t only, bool whole)
{
    const bs_region *region = &plan->regions[plan->parts[only < 0 ? 0 : only].region];
    const bs_part from = plan->parts[plan->region_parts[region->first]];
    for (int32_t i = 0; i < region->count; i++) {
        const int32_t k = plan->region_parts[region->first + i];
        bs_part *part = &plan->parts[k];
        if (only >= 0 && k != only)
            continue;
        empty_part(k);
        part->domain = whole ? region->domain : from.domain;
        part->router = whole ? 0 : from.router;
        part->path = whole ? -1 : from.path;
    }
    tell(t);
}

static void tell_of_parts(tally *t)
{
    for (int32_t k = -1; k < plan->n_parts && plan->n_parts > 0; k++) {
        tell_of_rows(t, k, false);
        tell_of_rows(t, k, true);
    }
    for (int32_t k = 0; k < plan->n_parts; k++) {
        const bs_bytes more = bs_bytes_of(1 << 22);
        plan->parts[k].scratch_bytes = more;
        plan->scratch_bytes = bs_bytes_add(plan->scratch_bytes, more);
        plan->kernel_scratch_offset = more;
        tell(t);
    }
}

/* In the place of a decision stands what was done just before, once more. */
static void tell_of_decisions(tally *t)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++)
        for (int32_t back = 1; back <= 3 && back <= plan->routers[r].instr; back++) {
            bs_instr *i = &plan->instrs[plan->routers[r].instr];
            const bs_instr decides = *i;
            if (i[-back].part != i->part)
                continue;
            *i = i[-back];
            i->time = decides.time;
            i->phase = decides.phase;
            tell(t);
        }
}

#include "sweep_loops.h"

/* What needs no weights is said to wait for those of the phase before it: nothing would ever let go of them. */
static void tell_of_phases(tally *t)
{
    int32_t phase = -1;
    for (int32_t k = 0; k < plan->n_top; k++) {
        bs_instr *i = &plan->instrs[k];
        const int64_t refused = t->refused;
        phase = i->phase >= 0 ? i->phase : phase;
        if (phase < 0 || i->phase >= 0)
            continue;
        i->phase = phase;
        tell(t);
        t->silent += t->refused == refused;
    }
}

/* Images are said to be matrices, and the other way round. */
static void tell_of_layouts(tally *t)
{
    for (int32_t v = 1; v < plan->graph->n_values; v++)
        if (plan->graph->values[v].rank == 3) {
            plan->values[v].planar = !plan->values[v].planar;
            tell(t);
        }
}

/* Images have a line less around them than is read of them. */
static void tell_of_margins(tally *t)
{
    for (int32_t v = 1; v < plan->graph->n_values; v++)
        if (plan->values[v].margin > 0) {
            plan->values[v].margin--;
            tell(t);
        }
}

/* Moves go by another map than what they move: always refused. */
static void tell_of_maps(tally *t)
{
    for (int32_t k = 0; k < plan->n_instrs; k++) {
        const int64_t refused = t->refused;
        if (plan->instrs[k].kind != BS_INSTR_MOVE)
            continue;
        plan->instrs[k].map = (uint8_t)((plan->instrs[k].map + 1) % (BS_MAP_TRIP + 1));
        tell(t);
        t->silent += t->refused == refused;
    }
}

/* Weights lie behind what is loaded of their unit: always refused. */
static void tell_of_weights(tally *t)
{
    for (int32_t n = 1; n < plan->graph->n_nodes; n++) {
        const int64_t refused = t->refused;
        bs_node_plan *np = &plan->nodes[n];
        if (np->unit == 0 || !bs_bytes_less(bs_bytes_of(0), np->prepared_bytes))
            continue;
        np->prepared_offset = bs_bytes_add(np->prepared_offset, plan->units[np->unit].prepared_bytes);
        tell(t);
        t->silent += t->refused == refused;
    }
}

/* Units are of the domain before theirs. */
static void tell_of_units(tally *t)
{
    for (int32_t u = 1; u < plan->n_units; u++)
        if (plan->units[u].domain > 0) {
            plan->units[u].domain--;
            tell(t);
        }
}

/* The units of a phase are said to begin one later than they do, those of the last one beyond all: refused. */
static void tell_of_lists(tally *t)
{
    for (int32_t k = 0; k < plan->n_phases; k++) {
        const int64_t refused = t->refused;
        const bool last = k == plan->n_phases - 1;
        plan->phases[k].first_unit++;
        tell(t);
        t->silent += last && t->refused == refused;
    }
}

/* All that reads the weights of a unit is said to read another node's copy, so that nothing loads them, and a run would
 * wait for ever: always refused. Resident ones hold whatever was in their memory. */
static void tell_of_owners(tally *t)
{
    for (int32_t u = 0; u < plan->n_units; u++) {
        const int64_t refused = t->refused;
        for (int32_t n = 1; n < plan->graph->n_nodes; n++)
            if (plan->nodes[n].unit == u)
                plan->nodes[n].owner = n - 1;
        tell(t);
        t->silent += u > 0 && t->refused == refused;
    }
}

static void test_stories(void)
{
    tally t = {.every = 1};
    memcpy(plan_before, plan_memory, plan_bytes);
    tell_of_nodes(&t);
    tell_of_values(&t);
    tell_of_orders(&t);
    tell_of_parts(&t);
    tell_of_decisions(&t);
    tell_of_loops(&t);
    tell_of_phases(&t);
    tell_of_phases_across(&t);
    tell_of_layouts(&t);
    tell_of_margins(&t);
    tell_of_units(&t);
    tell_of_owners(&t);
    tell_of_lists(&t);
    tell_of_maps(&t);
    tell_of_weights(&t);
    check(t.silent == 0 && t.refused > 0, "of %d lies that agree with each other %d are refused, and %d run",
          (int)t.cases, (int)t.refused, (int)t.ran);
}

#endif
