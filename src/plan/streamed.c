/* plan/streamed.c - what a finished plan says about its streamed weights: which nodes stream, bytes of slots and
 * staging, units and phases. An image is checked by the same rules. Relies on plan/plan.h. Must never assign anything
 * to a unit. */
#include "plan/plan.h"

#include "ops/structure.h"

#if !defined(BS_NO_STREAM)

bool bs_plan_node_streams(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    return p->desc.slot_bytes > 0 && node->block != 0 && bs_node_work(node) == BS_WORK_CALL &&
           bs_plan_needs_weights(p, n);
}

/* Slots have the bytes of the description, or less where all units together need less. A lane's staging holds a chunk,
 * or the weights of the largest layer, plus what alignment to pages adds at both ends. Returns the largest unit. */
int32_t bs_plan_size_slots(bs_plan *p)
{
    int32_t largest = 0;
    p->all_unit_bytes = p->largest_unit_bytes = bs_bytes_of(0);
    for (int32_t u = 1; u < p->n_units; u++) {
        const bs_bytes bytes = p->units[u].prepared_bytes;
        p->all_unit_bytes = bs_bytes_add(p->all_unit_bytes, bytes);
        if (bs_bytes_less(p->largest_unit_bytes, bytes)) {
            p->largest_unit_bytes = bytes;
            largest = u;
        }
    }
    if (!bs_plan_streams(p))
        return 0;
    p->slot_bytes = bs_bytes_min(bs_bytes_align_down(bs_bytes_of(p->desc.slot_bytes), BS_ALIGNMENT), p->all_unit_bytes);
    bs_bytes chunk = p->chunk_bytes = bs_bytes_array(bs_or_default(p->desc.chunk_bytes, 262144), 1);
    for (int32_t n = 1; n < p->graph->n_nodes; n++)
        if (p->nodes[n].unit)
            chunk = bs_bytes_max(chunk, bs_plan_canonical_bytes(p->graph, &p->graph->nodes[n]));
    p->lanes = bs_or_default(p->desc.lanes, 2);
    p->lane_bytes = bs_bytes_align_to(bs_bytes_add(chunk, bs_bytes_of(4 * BS_PAGE_BYTES)), BS_PAGE_BYTES);
    return largest;
}

/* --------------------------------------------------------------------------------------------------- asking */

void bs_plan_stream_get(const bs_plan *plan, bs_stream_plan *stream)
{
    if (!stream)
        return;
    memset(stream, 0, sizeof *stream);
    if (!plan)
        return;
    const bs_stream_plan s = {plan->n_units - 1, plan->n_phases, bs_bytes_figure(plan->slot_bytes),
                              bs_bytes_figure(plan->largest_unit_bytes), bs_bytes_figure(plan->all_unit_bytes)};
    *stream = s;
}

bs_status bs_plan_unit_get(const bs_plan *plan, int32_t unit, bs_stream_unit_facts *facts)
{
    if (!plan || !facts || unit < 0 || unit >= plan->n_units - 1)
        return BS_ERROR_ARGUMENT;
    const bs_plan_unit *u = &plan->units[unit + 1];
    const bs_domain *domain = &plan->graph->domains[u->domain];
    memset(facts, 0, sizeof *facts);
    snprintf(facts->name, sizeof facts->name, "%s", plan->graph->text + plan->graph->blocks[u->block].name);
    facts->router = u->domain ? domain->router : 0;
    facts->path = u->domain ? domain->path : -1;
    facts->slot_bytes = bs_bytes_figure(u->prepared_bytes);
    return BS_OK;
}

bs_status bs_plan_phase_get(const bs_plan *plan, int32_t phase, bs_stream_phase_facts *facts, int32_t *units)
{
    if (!plan || !facts || phase < 0 || phase >= plan->n_phases)
        return BS_ERROR_ARGUMENT;
    const bs_trace_phase *s = &plan->phases[phase];
    facts->router = s->router;
    facts->n_units = s->n_units;
    if (units)
        memcpy(units, plan->phase_units + s->first_unit, (size_t)s->n_units * sizeof *units);
    return BS_OK;
}
#endif
