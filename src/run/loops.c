/* run/loops.c - the decisions of a loop: which rows make the first trip, and which of those that made one make another.
 * Relies on run/routing.h. Must never keep a row active beyond its bound. */
#include "run/routing.h"

/* How many trips a row of the loop's domain may make: its count, the extent of a dimension, or the bound. */
static int32_t most_trips(const bs_context *c, const bs_router_info *loop, int32_t row)
{
    const int64_t trips = loop->trips >= 0 ? c->session->dims[loop->trips] : loop->bound;
    if (!loop->count)
        return (int32_t)trips;
    const bs_scores count = bs_scores_of(c, loop->count, row);
    return bs_min_i32(bs_score_int(&count, 0), loop->trips >= 0 ? (int32_t)trips : INT32_MAX);
}

bs_route_fault bs_loop_decide(bs_context *c, int32_t router)
{
    const bs_router_info *loop = &c->session->graph->routers[router];
    bs_decision_data *d = &c->decisions[router];
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    d->trip = 0;
    for (int32_t row = 0; row < d->rows && fault.kind == BS_ROUTE_SOUND; row++) {
        const int32_t most = most_trips(c, loop, row);
        fault = bs_route_fault_if(most > loop->bound, BS_ROUTE_BAD_COUNT, row, most, loop->bound);
        d->chosen[row] = most > 0 ? 0 : -1;
        d->gates[row] = 1.0f;
    }
    if (fault.kind == BS_ROUTE_SOUND)
        bs_decision_pack(d);
    return fault;
}

/* Whether body row `row` makes another trip by the loop's predicate. */
static bool goes_on(const bs_context *c, int32_t predicate, int32_t row, int32_t trip, bs_route_fault *fault)
{
    if (!predicate)
        return true;
    const bs_scores x = bs_scores_of(c, predicate, row);
    const float score = bs_score_at(&x, 0);
    *fault = bs_route_fault_if(isnan(score), BS_ROUTE_BAD_PREDICATE, row, trip, 0);
    return score > 0.0f;
}

/* Rows that go on keep their order, so they are packed in place: a row is written where it, or one that is decided
 * already, has been. A fault names the row of the loop's domain. */
bs_route_fault bs_loop_decide_again(bs_context *c, int32_t router)
{
    const bs_graph *g = c->session->graph;
    const bs_router_info *loop = &g->routers[router];
    bs_decision_data *d = &c->decisions[router];
    const int32_t predicate = bs_node_in(g, &g->nodes[loop->again])[0], trip = d->trip + (d->counts[0] > 0);
    const bool must_end = predicate && !loop->count && loop->trips < 0 && trip == loop->bound;
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    int32_t kept = 0;
    d->trip = trip;
    for (int32_t k = 0; k < d->counts[0] && fault.kind == BS_ROUTE_SOUND; k++) {
        const int32_t row = d->ids[k];
        const bool wants = goes_on(c, predicate, k, trip - 1, &fault);
        if (fault.kind == BS_ROUTE_SOUND)
            fault = bs_route_fault_if(wants && must_end, BS_ROUTE_ENDLESS, row, trip, loop->bound);
        fault.row = row;
        if (wants && trip < most_trips(c, loop, row))
            d->ids[kept++] = row;
    }
    d->counts[0] = d->offsets[1] = kept;
    return fault;
}
