/* graph_rig.h - memory for one graph, for tests that build and never run. Relies on check.h. */
#ifndef BS_TEST_GRAPH_RIG_H
#define BS_TEST_GRAPH_RIG_H

#include "check.h"
#include "graph/graph.h"
#include "ops/table.h"
#include "model/gguf.h"
#include "model/model.h"
#include "plan/plan.h"
#include "base/platform.h"
#include "ops/structure.h"

static _Alignas(64) uint8_t graph_memory[4 << 20];

static inline bs_graph *new_graph(const bs_graph_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, desc);
}

#endif
