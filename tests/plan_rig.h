/* plan_rig.h - plans that are looked at and not run. Owns one graph and one plan. Relies on check.h and the planner. */
#ifndef BS_TEST_PLAN_RIG_H
#define BS_TEST_PLAN_RIG_H

#include "check.h"
#include "plan/plan.h"

static _Alignas(64) uint8_t graph_memory[2 << 20], plan_memory[4 << 20];
static const bs_value none = {0};

static inline bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static const bs_plan *plan_of(const bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena_init(&arena, "persistent", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, g, desc, &error);
    if (!plan)
        check(0, "a plan: %s", error.message);
    return plan;
}

static inline int32_t made_by(const bs_graph *g, bs_value value) { return g->values[value.id].node; }
static inline bs_storage place_of(const bs_plan *p, bs_value value) { return p->values[value.id].storage; }

#endif
