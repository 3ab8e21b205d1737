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

/* The largest difference from the oracle of what the session gives for `a`'s inputs; INFINITY, and why, where either
 * does not run. */
static inline double error_of_run(against *a, const bs_graph *g)
{
    bs_buffer in[AG_SOURCES], out[AG_SOURCES];
    double worst = 0;
    if (naive_run(&a->oracle) != BS_OK || !against_bind(a, r.session, in, out) ||
        bs_run(r.session, &r.error) != BS_OK) {
        printf("  %s %s\n", a->error.message, r.error.message);
        return INFINITY;
    }
    for (int32_t n = 1, o = 0; n < g->n_nodes; n++) {
        if (!bs_node_is(&g->nodes[n], &bs_op_output))
            continue;
        const int32_t value = bs_node_in(g, &g->nodes[n])[0];
        for (int64_t i = 0; i < naive_elements(&a->oracle, value); i++) {
            const double error = fabs(ag_read(ag_element(&out[o], i), BS_F32) - a->oracle.cell[value][0][i]);
            worst = !(error <= worst) ? error : worst;
        }
        o++;
    }
    return worst;
}

static const bs_plan_desc ways[] = {
    {.threads = 1, .order = BS_ORDER_BREADTH}, {.threads = 2, .order = BS_ORDER_BREADTH},
    {.threads = 4, .order = BS_ORDER_BREADTH}, {.threads = 1, .order = BS_ORDER_DEPTH},
    {.threads = 2, .order = BS_ORDER_DEPTH},   {.threads = 4, .order = BS_ORDER_DEPTH},
};
#define WAYS ((int32_t)(sizeof ways / sizeof *ways))

#endif
