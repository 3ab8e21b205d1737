/* tags: plain */
/* Promises: every op of the table is in random graphs (random_graph.h) or random networks (random_networks.h), which
 * other tests run against the definition of each op (naive.h), or stands here with the reason. (That it has a vector:
 * test_op_vectors.c; that its dimensions may be symbols: test_symbols.c.) */
#include "every_op.h"

#include "random_graph.h"
#include "random_networks.h"

enum { GRAPHS = 400, NETWORKS = 60 };

#define VECTORS "by itself, against PyTorch: test_op_vectors.c"
static const op_exception but[] = {
    {"deconv2d", VECTORS},
    {"matmul", VECTORS},
    {"prelu", VECTORS},
    {"transpose", VECTORS},
    {"pad", VECTORS},
    {"softmax", VECTORS},
    {"layer_norm", VECTORS},
    {"rms_norm", VECTORS},
    {"batch_norm", VECTORS},
    {"lrn", VECTORS},
    {"patch_features", VECTORS},
    {"attention", "against its definition in graphs of its own: test_segment_paths.c"},
    {"rope", "likewise: test_segment_paths.c"},
    {"state_append", "with the cache that it fills: test_attention.c"},
    {"children", "makes what random graphs are given: test_trees.c"},
    {"look_ahead", "computes nothing: test_plan_units.c, test_store_layout.c"},
    {NULL, NULL},
};

static net_table weights;
static random_graph rg;
static random_layers rl;
static _Alignas(64) uint8_t graph_memory[1 << 20];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static void grow_graphs(bool segments, bool boxes, bool loops, bool trees)
{
    rg_segments = segments, rg_boxes = boxes, rg_loops = loops, rg_trees = trees;
    for (uint64_t i = 0; i < GRAPHS; i++) {
        bs_graph *g = new_graph();
        check_state = check_mixed(i + 1);
        if (rg_grow(&rg, g, &weights, 15 + check_below(60)))
            ops_are_met(g);
    }
}

static void grow_networks(void)
{
    for (uint64_t i = 0; i < NETWORKS; i++) {
        bs_graph *g = new_graph();
        check_state = check_mixed(i + 1);
        if (rl_grow(&rl, g, &weights))
            ops_are_met(g);
    }
}

int main(void)
{
    grow_graphs(false, false, false, false);
    grow_graphs(true, false, true, false);
    grow_graphs(false, true, false, false);
    grow_graphs(false, false, true, true);
    grow_networks();
    every_op_is_met(
        NULL, "random graphs or networks: random_ops.h if its results are whole numbers, else random_layers.h", but);
    return check_end();
}
