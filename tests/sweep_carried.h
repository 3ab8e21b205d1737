/* sweep_carried.h - a part of test_sweep_plan.c, which includes it behind small plans: lies about what a loop carries,
 * and about caches. */
#ifndef BS_TEST_SWEEP_CARRIED_H
#define BS_TEST_SWEEP_CARRIED_H

/* The moves of nodes `first` and `second` are done by those of the nodes behind, once more; what node `next` makes is
 * nowhere. */
static void tell_of_moves(tally *t, int32_t first, int32_t first_else, int32_t next, int32_t next_else)
{
    for (int32_t k = 0; k < plan->n_instrs; k++)
        for (int32_t other = 0; other < plan->n_instrs && plan->instrs[k].kind == BS_INSTR_MOVE; other++) {
            bs_instr *i = &plan->instrs[k];
            const bs_instr *from = &plan->instrs[other];
            const int32_t wanted = i->node == next ? next_else : i->node == first ? first_else : 0;
            if (from->node != wanted || from->kind != i->kind || from->map != i->map)
                continue;
            const int32_t time = i->time;
            *i = *from;
            i->time = time;
        }
    plan->values[plan->graph->nodes[next].first_out].storage = BS_STORAGE_NONE;
    tell(t);
}

/* Two values are carried. Nobody moves what the first is after a trip, which is nowhere, though it is looked for; and
 * the rows of the first are said to be those of the second. */
static void test_carried(int32_t order)
{
    const bs_plan_desc d = {.order = order};
    int32_t carried[2], n_carried = 0;
    small_graph(small_loop);
    if (!small_plan(&d, "a loop"))
        return;
    test_image();
    tally t = {.every = 1};
    for (int32_t n = 1; n < plan->graph->n_nodes && n_carried < 2; n++)
        if (bs_node_is_view(&plan->graph->nodes[n]) && plan->graph->nodes[n].writer)
            carried[n_carried++] = n;
    const int32_t next = plan->graph->nodes[carried[0]].writer, other = plan->graph->nodes[carried[1]].writer;
    bs_value_plan *v = &plan->values[plan->graph->nodes[carried[0]].first_out];
    check(bs_plan_is_seen(plan, plan->graph->nodes[carried[0]].first_out), "a trip may see what is carried");
    tell_of_moves(&t, carried[0], carried[1], next, other);
    v->source = 0;
    tell_of_moves(&t, 0, 0, next, other);
    v->source = plan->graph->nodes[other].first_out;
    tell(&t);
    check(t.silent == 0 && t.refused == 3, "order %d: of 3 lies about what is carried %d are refused", order,
          (int)t.refused);
}

static void test_caches(void)
{
    small_graph(small_cache);
    if (!small_plan(NULL, "a cache"))
        return;
    test_image();
    tally t = {.every = 1};
    for (int32_t v = 1; v < plan->graph->n_values; v++) {
        plan->values[v].is_cache_length = false;
        tell(&t);
    }
    check(t.silent == 0 && t.refused == 1, "nobody says how far the cache is: refused");
}

#endif
