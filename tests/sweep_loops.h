/* sweep_loops.h - a part of test_sweep_plan.c, which includes it behind what tells a lie: lies about loops. */
#ifndef BS_TEST_SWEEP_LOOPS_H
#define BS_TEST_SWEEP_LOOPS_H

/* Whether phases lie in a loop: one that is visited in every trip, one before, one behind. */
static bool visits_again(const bs_plan *p)
{
    int32_t crossed = 0;
    for (int32_t k = 0, open = -1; k < p->n_top; k++) {
        open = bs_instr_loops(p, &p->instrs[k]) ? k : open;
        crossed += open >= 0 && p->instrs[k].phase > 0;
        open = p->instrs[k].phase >= 0 ? -1 : open;
    }
    return crossed > 2;
}

/* What ends a loop, or follows a carried value, is said not to be needed; and a loop to end somewhere else. */
static void tell_of_loops(tally *t)
{
    for (int32_t n = 1; n < plan->graph->n_nodes; n++) {
        const bs_node *node = &plan->graph->nodes[n];
        const bool loops = plan->node_live[n] && node->router && bs_router_loops(plan->graph, node->router);
        if (!loops || (node->n_out > 0 && !bs_node_gathers(node)))
            continue;
        const uint32_t storage = plan->values[node->first_out].storage;
        plan->node_live[n] = false;
        if (node->n_out > 0)
            plan->values[node->first_out].storage = BS_STORAGE_NONE;
        tell(t);
        plan->values[node->first_out].storage = (uint8_t)storage;
        plan->node_live[n] = true;
    }
    for (int32_t r = 1; r < plan->graph->n_routers; r++) {
        const int32_t again = plan->routers[r].again;
        for (int32_t other = -1; other <= again + 2 && other < plan->n_instrs; other += 1 + check_below(4)) {
            plan->routers[r].again = other;
            tell(t);
        }
        plan->routers[r].again = again;
    }
}

/* The phase before a decision of a loop is said to go on behind it, with all that the next one lists: what it needs
 * there is loaded when it is waited for. */
static void tell_of_phases_across(tally *t)
{
    for (int32_t k = 1; k < plan->n_top; k++) {
        int32_t before = k - 1, after = k + 1;
        while (before >= 0 && plan->instrs[before].phase < 0)
            before--;
        while (after < plan->n_top && plan->instrs[after].phase < 0)
            after++;
        if (!bs_instr_loops(plan, &plan->instrs[k]) || before < 0 || after >= plan->n_top)
            continue;
        const int32_t phase = plan->instrs[before].phase;
        bs_trace_phase *first = &plan->phases[phase];
        if (first[0].router != first[1].router)
            continue;
        first->n_units += first[1].n_units;
        memmove(first + 1, first + 2, (size_t)(plan->n_phases - phase - 2) * sizeof *first);
        plan->n_phases--;
        for (int32_t i = after; i < plan->n_top; i++)
            plan->instrs[i].phase -= plan->instrs[i].phase > phase;
        tell(t);
        t->across++;
    }
}

#endif
