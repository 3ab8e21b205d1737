/* run/loops.c - the decisions of a loop: which rows make the first trip, and which of those that made one make another;
 * or, where rows go in turn, whose turn it is; or, where they grow, which rows there are next.
 * Relies on run/routing.h. Must never keep a row active beyond its bound. */
#include "run/routing.h"

static bs_loop_rule rule_of(const bs_context *c, const bs_loop_info *loop)
{
    const bool over = loop->trips >= 0;
    const bs_loop_rule rule = {loop->bound, over ? (int32_t)c->session->dims[loop->trips] : loop->bound, over,
                               loop->count != 0, loop->in_turn, loop->grows};
    return rule;
}

/* The count of a row of the loop's domain, where rows have one. */
static bs_scores count_of(const bs_context *c, const bs_loop_info *loop, int32_t row)
{
    static const int32_t zero = 0;
    static const bs_scores none = {&zero, 0, true};
    return loop->count ? bs_scores_of(c, loop->count, row) : none;
}

/* Sorts the due rows, which are `ids`, by `chosen`, their turns, byte by byte: rows of one turn keep their order. */
static void sort_turns(bs_decision_data *d, int32_t bound)
{
    int32_t *from = d->ids, *to = d->inverse;
    for (int32_t shift = 0; bound >> shift > 0; shift += 8) {
        int32_t starts[257] = {0};
        for (int32_t i = 0; i < d->due; i++)
            starts[(d->chosen[from[i]] >> shift & 255) + 1]++;
        for (int32_t b = 0; b < 256; b++)
            starts[b + 1] += starts[b];
        for (int32_t i = 0; i < d->due; i++)
            to[starts[d->chosen[from[i]] >> shift & 255]++] = from[i];
        int32_t *const sorted = to;
        to = from;
        from = sorted;
    }
    if (from != d->inverse)
        memcpy(d->inverse, from, (size_t)d->due * sizeof *from);
}

/* The rows whose turn is next: turns without rows are passed over. */
static void take_turn(bs_context *c, const bs_loop_info *loop, const bs_loop_rule *rule, bs_decision_data *d)
{
    int32_t turn = 0, count = 0;
    while (d->taken < d->due) {
        const int32_t row = d->inverse[d->taken];
        const bs_scores score = bs_scores_of(c, loop->count, row);
        const int32_t its = bs_loop_turn(rule, &score);
        if (count > 0 && its != turn)
            break;
        turn = its;
        d->ids[count++] = row;
        d->taken++;
    }
    d->trip = count > 0 ? turn - 1 : d->trip;
    d->counts[0] = d->offsets[1] = count;
}

/* `chosen` has been the turn of each row, 0: none. */
static void begin_turns(bs_context *c, const bs_loop_info *loop, const bs_loop_rule *rule, bs_decision_data *d)
{
    d->due = d->taken = d->offsets[0] = 0;
    for (int32_t row = 0; row < d->rows; row++)
        if (d->chosen[row] > 0)
            d->ids[d->due++] = row;
    sort_turns(d, loop->bound);
    for (int32_t row = 0; row < d->rows; row++)
        d->chosen[row] = d->chosen[row] > 0 ? 0 : -1;
    take_turn(c, loop, rule, d);
}

/* Rows behind the last one that makes the first trip are there to be made. */
static void begin_growth(bs_decision_data *d)
{
    d->due = d->counts[0] > 0 ? d->ids[d->counts[0] - 1] + 1 : 0;
    for (int32_t row = 0; row < d->rows; row++)
        d->inverse[row] = -1;
}

/* The rows that those of the last trip make, in their order, stand side by side. */
static bs_route_fault grow(bs_context *c, const bs_loop_info *loop, const bs_loop_rule *rule, bs_decision_data *d)
{
    const bs_graph *g = c->session->graph;
    const int32_t first = d->due, asked = bs_node_in(g, &g->nodes[loop->again])[0];
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    d->trip += d->counts[0] > 0;
    for (int32_t k = 0; k < d->counts[0] && fault.kind == BS_ROUTE_SOUND; k++) {
        const bs_scores score = bs_scores_of(c, asked, k);
        int32_t makes;
        fault = bs_loop_makes(rule, &score, d->ids[k], d->trip, &makes);
        if (fault.kind == BS_ROUTE_SOUND)
            fault = bs_route_fault_if(makes > d->rows - d->due, BS_ROUTE_FULL, d->ids[k], makes, d->rows);
        for (int32_t i = 0; i < makes && fault.kind == BS_ROUTE_SOUND; i++)
            d->inverse[d->due++] = d->ids[k];
    }
    d->counts[0] = d->offsets[1] = d->due - first;
    for (int32_t k = 0; k < d->counts[0]; k++)
        d->ids[k] = first + k;
    return fault;
}

bs_route_fault bs_loop_decide(bs_context *c, int32_t router)
{
    const bs_loop_info *loop = &c->session->graph->routers[router].loop;
    const bs_loop_rule rule = rule_of(c, loop);
    bs_decision_data *d = &c->decisions[router];
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    d->trip = 0;
    for (int32_t row = 0; row < d->rows && fault.kind == BS_ROUTE_SOUND; row++) {
        const bs_scores count = count_of(c, loop, row);
        bool goes;
        fault = bs_loop_begins(&rule, &count, row, &goes);
        d->chosen[row] = bs_loop_choice(&rule, &count, goes);
        d->gates[row] = 1.0f;
    }
    if (fault.kind == BS_ROUTE_SOUND && rule.in_turn)
        begin_turns(c, loop, &rule, d);
    else if (fault.kind == BS_ROUTE_SOUND)
        bs_decision_pack(d);
    if (fault.kind == BS_ROUTE_SOUND && rule.grows)
        begin_growth(d);
    return fault;
}

/* Rows that go on keep their order, so they are packed in place: a row is written where it, or one that is decided
 * already, has been. A fault names the row of the loop's domain. */
bs_route_fault bs_loop_decide_again(bs_context *c, int32_t router)
{
    const bs_graph *g = c->session->graph;
    const bs_loop_info *loop = &g->routers[router].loop;
    const bs_loop_rule rule = rule_of(c, loop);
    bs_decision_data *d = &c->decisions[router];
    const int32_t predicate = bs_node_in(g, &g->nodes[loop->again])[0];
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    int32_t kept = 0;
    if (rule.in_turn) {
        take_turn(c, loop, &rule, d);
        return fault;
    }
    if (rule.grows)
        return grow(c, loop, &rule, d);
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
