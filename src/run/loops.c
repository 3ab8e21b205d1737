/* run/loops.c - the decisions of a loop: which rows make the first trip, and which of those that made one make another.
 * Relies on run/routing.h. Must never keep a row active beyond its bound. */
#include "run/routing.h"

static bs_loop_rule rule_of(const bs_context *c, const bs_router_info *loop)
{
    const bool over = loop->trips >= 0;
    const bs_loop_rule rule = {loop->bound, over ? (int32_t)c->session->dims[loop->trips] : loop->bound, over,
                               loop->count != 0};
    return rule;
}

/* The count of a row of the loop's domain, where rows have one. */
static bs_scores count_of(const bs_context *c, const bs_router_info *loop, int32_t row)
{
    return loop->count ? bs_scores_of(c, loop->count, row) : (bs_scores){NULL, 0, true};
}

bs_route_fault bs_loop_decide(bs_context *c, int32_t router)
{
    const bs_router_info *loop = &c->session->graph->routers[router];
    const bs_loop_rule rule = rule_of(c, loop);
    bs_decision_data *d = &c->decisions[router];
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    d->trip = 0;
    for (int32_t row = 0; row < d->rows && fault.kind == BS_ROUTE_SOUND; row++) {
        const bs_scores count = count_of(c, loop, row);
        bool goes;
        fault = bs_loop_begins(&rule, &count, row, &goes);
        d->chosen[row] = goes ? 0 : -1;
        d->gates[row] = 1.0f;
    }
    if (fault.kind == BS_ROUTE_SOUND)
        bs_decision_pack(d);
    return fault;
}

/* Rows that go on keep their order, so they are packed in place: a row is written where it, or one that is decided
 * already, has been. A fault names the row of the loop's domain. */
bs_route_fault bs_loop_decide_again(bs_context *c, int32_t router)
{
    const bs_graph *g = c->session->graph;
    const bs_router_info *loop = &g->routers[router];
    const bs_loop_rule rule = rule_of(c, loop);
    bs_decision_data *d = &c->decisions[router];
    const int32_t predicate = bs_node_in(g, &g->nodes[loop->again])[0];
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    int32_t kept = 0;
    d->trip += d->counts[0] > 0;
    for (int32_t k = 0; k < d->counts[0] && fault.kind == BS_ROUTE_SOUND; k++) {
        const int32_t row = d->ids[k];
        const bs_scores count = count_of(c, loop, row),
                        score = predicate ? bs_scores_of(c, predicate, k) : (bs_scores){NULL, 0, true};
        bool goes;
        fault = bs_loop_goes_on(&rule, predicate ? &score : NULL, &count, row, d->trip, &goes);
        if (goes)
            d->ids[kept++] = row;
    }
    d->counts[0] = d->offsets[1] = kept;
    return fault;
}
