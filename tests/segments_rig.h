/* segments_rig.h - what tests of segments share: a session at a time, and the ways it may be planned. Relies on
 * against.h. */
#ifndef BS_TEST_SEGMENTS_RIG_H
#define BS_TEST_SEGMENTS_RIG_H

#define NET_TENSORS 64
#include "against.h"

#define SEQS   4
#define D      12
#define WINDOW 8
#define MOST   48 /* rows a run */
#define VOCAB  11

static rig r;
static _Alignas(64) uint8_t graph_memory[2 << 20];

static inline bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static inline bool start(const bs_graph *g, const bs_plan_desc *desc, const bs_tensor_table *weights)
{
    if (rig_plan(&r, g, desc) && rig_session(&r, weights, NULL, 0xFF))
        return true;
    printf("  %s: %s\n", bs_status_name(r.error.status), g->status == BS_OK ? r.error.message : g->error.message);
    return false;
}

static inline bs_buffer buffer_of(void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1, d2, 0}, {0, 0, 0, 0}};
    return b;
}

static inline bool bind(const char *name, bs_buffer b)
{
    return bs_bind(r.session, name, &b, &r.error) == BS_OK;
}

static const bs_plan_desc ways[] = {
    {.threads = 1, .order = BS_ORDER_BREADTH}, {.threads = 2, .order = BS_ORDER_BREADTH},
    {.threads = 4, .order = BS_ORDER_BREADTH}, {.threads = 1, .order = BS_ORDER_DEPTH},
    {.threads = 2, .order = BS_ORDER_DEPTH},   {.threads = 4, .order = BS_ORDER_DEPTH},
};
#define WAYS ((int32_t)(sizeof ways / sizeof *ways))

#endif
