/* plan/dataflow.h - which rows need what: a graph as it is planned.
 * Relies on graph/graph.h. Must never change a result, or the graph that a caller built. */
#ifndef BS_PLAN_DATAFLOW_H
#define BS_PLAN_DATAFLOW_H

#include "ops/table.h"

/* What may be done: bits. A plan's image says which they were. */
typedef enum bs_dataflow {
    BS_DATAFLOW_MOVES = 1, /* sinking and merging; */
    BS_DATAFLOW_STAYS = 2, /* of that nothing with weights of blocks */
    BS_DATAFLOW_FUSES = 4, /* tails (plan/tails.h); */
    BS_DATAFLOW_CHAINS = 8, /* but of element-wise ops alone: a device */
    BS_DATAFLOW_ALL = BS_DATAFLOW_MOVES | BS_DATAFLOW_FUSES,
    BS_DATAFLOW_END = 16
} bs_dataflow;

static inline int32_t bs_dataflow_of(const bs_plan_desc *desc)
{
    return (desc->no_dataflow ? 0 : BS_DATAFLOW_MOVES) | (desc->slot_bytes > 0 ? BS_DATAFLOW_STAYS : 0) |
           (desc->no_fusion ? 0 : BS_DATAFLOW_FUSES) | (desc->tier == BS_TIER_CUDA ? BS_DATAFLOW_CHAINS : 0);
}

/* The same function, with less to compute: work whose results only one path reads is done for the rows of that path,
 * equal work is done once, element-wise work by the kernel whose result it changes. `what`: bits of bs_dataflow.
 * Returns `graph` itself when there is nothing to gain, else a graph in the arena, which reads
 * texts of `graph`; NULL: no room (told to *error). */
const bs_graph *bs_dataflow_make(bs_arena *arena, const bs_graph *graph, int32_t what, bs_error *error);
/* Bytes that it takes of an arena at most, and the nodes that it may add; both 0: nothing will be moved. */
bs_bytes bs_dataflow_bytes(const bs_graph *graph, int32_t what, int64_t *more_nodes);

#endif
