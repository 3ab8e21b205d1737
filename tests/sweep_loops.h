/* sweep_loops.h - a part of test_sweep_plan.c, which includes it behind what tells a lie: lies about loops. */
#ifndef BS_TEST_SWEEP_LOOPS_H
#define BS_TEST_SWEEP_LOOPS_H

/* What ends a loop, or follows a carried value, is said not to be needed; and a loop to end somewhere else. */
static void tell_of_loops(tally *t)
{
    for (int32_t n = 1; n < graph->n_nodes; n++) {
        const bs_node *node = &graph->nodes[n];
        const bool loops = plan->node_live[n] && node->router && bs_router_loops(graph, node->router);
        if (!loops || (node->n_out > 0 && !bs_node_gathers(node)))
            continue;
        const uint32_t storage = plan->values[node->first_out].storage;
        plan->node_live[n] = false;
        if (node->n_out > 0)
            plan->values[node->first_out].storage = BS_STORAGE_NONE;
        tell(t);
        plan->values[node->first_out].storage = storage;
        plan->node_live[n] = true;
    }
    for (int32_t r = 1; r < graph->n_routers; r++) {
        const int32_t again = plan->routers[r].again;
        for (int32_t other = -1; other <= again + 2 && other < plan->n_instrs; other += 1 + check_below(4)) {
            plan->routers[r].again = other;
            tell(t);
        }
        plan->routers[r].again = again;
    }
}

#endif
