/* run/routing.h - what the files of the protocols share: run/route.c and run/budget.c.
 * Relies on run/session.h. Must never be included by anything else. */
#ifndef BS_ROUTING_H
#define BS_ROUTING_H

#include "ops/structure.h"
#include "run/session.h"

typedef struct bs_routing {
    bs_context *c;
    const bs_route_desc *desc;
    bs_decision_data *d;
    bs_operand score; /* row 0; row r is row_stride further */
    float knob;
    const int32_t *table; /* prepared weight of the router: BUDGET: costs, TABLE: paths */
    const int32_t *path_of; /* BUDGET: the path of each variant */
    int32_t variants;       /* BUDGET */
    bool floored;           /* BUDGET: the floor allows more than the budget, which alone is kept at this price: */
    uint64_t alone;
    int32_t router;
} bs_routing;

static inline bs_operand bs_score_row(const bs_routing *r, int32_t row)
{
    bs_operand o;
    bs_operand_make(r->c, r->c->session->graph->routers[r->router].score, row, &o);
    return o;
}

static inline float bs_score_at(const bs_operand *o, int32_t path)
{
    const ptrdiff_t at = path * o->stride[0];
    return o->dtype == BS_I32 ? (float)((const int32_t *)o->data)[at] : ((const float *)o->data)[at];
}

static inline int32_t bs_score_int(const bs_operand *o, int32_t path)
{
    return ((const int32_t *)o->data)[path * o->stride[0]];
}

/* What is wrong, of a cell as bs_decision.chosen counts them, or (row -1) of all; returns BS_ERROR_DATA.
 * (run/route.c) */
bs_status bs_route_fail(const bs_routing *r, int32_t row, const char *format, ...) BS_PRINTF(3, 4);

/* `what` is 0 .. end - 1. */
static inline bs_status bs_route_range(const bs_routing *r, int32_t row, const char *what, int32_t value, int32_t end)
{
    return value >= 0 && value < end ? BS_OK : bs_route_fail(r, row, "%s %d, expected 0 .. %d", what, value, end - 1);
}

static inline void bs_route_choose(const bs_routing *r, int32_t row, int32_t k, int32_t path, float gate)
{
    r->d->chosen[row * r->d->per_row + k] = path;
    r->d->gates[row * r->d->per_row + k] = gate;
}

/* run/budget.c */
bs_status bs_budget_paths_exist(const bs_routing *r);
/* Chooses for all rows; returns the step of the price that keeps the budget. */
int32_t bs_route_budget(const bs_routing *r);

#endif
