/* session_rig.h - what tests of sessions share: an oracle beside the session, memory for a graph, buffers. Relies on
 * against.h. */
#ifndef BS_TEST_SESSION_RIG_H
#define BS_TEST_SESSION_RIG_H

#include "against.h"

static net_table weights;
static against a;
static _Alignas(64) uint8_t graph_memory[1 << 20];

static inline bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    weights.table.count = 0;
    weights.next = NULL;
    return bs_graph_create(&arena, NULL);
}

static inline bs_buffer dense(void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1, d2, 0}, {0, 0, 0, 0}};
    return b;
}

#endif
