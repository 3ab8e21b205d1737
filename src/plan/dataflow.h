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
 * Returns a graph in the arena. What is only needed meanwhile comes of `scratch`. NULL: of the arena, behind the graph,
 * which then reads texts of `graph`, and is `graph` itself where there is nothing to gain. Returns NULL without room
 * (told to *error). */
const bs_graph *bs_dataflow_make(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, int32_t what,
                                 bs_error *error);

/* What that takes at most: bytes of the graph that is made, and of what is only needed meanwhile; and how many more
 * nodes, each with one value, and operands the graph has. */
typedef struct bs_dataflow_room {
    bs_bytes graph, work;
    int64_t nodes, operands;
} bs_dataflow_room;
bs_dataflow_room bs_dataflow_takes(const bs_graph *graph, int32_t what, bool apart); /* apart: with a scratch arena */

#endif
