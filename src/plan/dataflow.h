/* plan/dataflow.h - which rows need what: a graph as it is planned.
 * Relies on graph/graph.h. Must never change a result, or the graph that a caller built. */
#ifndef BS_PLAN_DATAFLOW_H
#define BS_PLAN_DATAFLOW_H

#include "ops/table.h"

/* What may be moved. A plan's image says which it was. */
typedef enum bs_dataflow { BS_DATAFLOW_NONE, BS_DATAFLOW_RESIDENT, BS_DATAFLOW_ALL } bs_dataflow;

static inline bs_dataflow bs_dataflow_of(const bs_plan_desc *desc)
{
    return desc->no_dataflow ? BS_DATAFLOW_NONE : desc->slot_bytes > 0 ? BS_DATAFLOW_RESIDENT : BS_DATAFLOW_ALL;
}

/* The same function, with less to compute: work whose results only one path reads is done for the rows of that path,
 * equal work is done once. Returns `graph` itself when there is nothing to gain, else a graph in the arena, which reads
 * texts of `graph`; NULL: no room (told to *error). */
const bs_graph *bs_dataflow_make(bs_arena *arena, const bs_graph *graph, bs_dataflow what, bs_error *error);
/* Bytes that it takes of an arena at most, and the nodes that it may add; both 0: nothing will be moved. */
bs_bytes bs_dataflow_bytes(const bs_graph *graph, bs_dataflow what, int64_t *more_nodes);

#endif
