/* run/routing.h - what the files of the protocols share: run/route.c and run/budget.c.
 * Relies on run/session.h and ops/price.h. Must never be included by anything else. */
#ifndef BS_ROUTING_H
#define BS_ROUTING_H

#include "ops/price.h"
#include "run/route.h"
#include "run/session.h"

typedef struct bs_routing {
    bs_context *c;
    bs_rule rule;
    bs_decision_data *d;
    float knob;
    const int32_t *table; /* prepared weight of the router: BUDGET: costs, TABLE: paths */
    const int32_t *path_of; /* BUDGET: the path of each variant */
    int32_t router;
} bs_routing;

/* The scores in a row of `value`, by which some router chooses. */
static inline bs_scores bs_scores_of(const bs_context *c, int32_t value, int32_t row)
{
    bs_operand o;
    bs_operand_make(c, value, row, &o);
    const bs_scores scores = {o.data, o.stride[0], o.dtype == BS_I32};
    return scores;
}

static inline bs_scores bs_scores_at(const bs_routing *r, int32_t row)
{
    return bs_scores_of(r->c, r->c->session->graph->routers[r->router].score, row);
}

static inline bs_choices bs_choices_of(const bs_decision_data *d, int32_t row)
{
    const bs_choices choices = {d->chosen + row * d->per_row, d->gates + row * d->per_row, d->per_row};
    return choices;
}

/* run/loops.c: chooses the rows that make the first trip of a loop; and, of those that made one, the rows that make
 * another. */
bs_route_fault bs_loop_decide(bs_context *c, int32_t router);
bs_route_fault bs_loop_decide_again(bs_context *c, int32_t router);
/* run/budget.c: chooses for all rows, and publishes the price. */
bs_route_fault bs_route_budget(const bs_routing *r);

#endif
