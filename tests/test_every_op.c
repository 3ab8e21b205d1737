/* tags: plain */
/* Promises: every op of the table is in random graphs (random_graph.h) or random networks (random_networks.h), which
 * other tests run against the definition of each op (naive.h), and each that has a kernel on a device is built by a
 * test of devices; or it stands here with the reason. (That it has a vector: test_op_vectors.c; that its dimensions may
 * be symbols: test_symbols.c.) */
#define _POSIX_C_SOURCE 200809L
#include "every_op.h"
#include "ops/list.h"
#include "random_graph.h"
#include "random_networks.h"

#include <dirent.h>

enum { GRAPHS = 400, NETWORKS = 60, FILE_BYTES = 1 << 16 };

/* ----------------------------------------------------------------------------------------------- random graphs */

#define VECTORS "by itself, against PyTorch: test_op_vectors.c"
static const op_exception not_random[] = {
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

static void random_graphs_have_every_op(void)
{
    grow_graphs(false, false, false, false);
    grow_graphs(true, false, true, false);
    grow_graphs(false, true, false, false);
    grow_graphs(false, false, true, true);
    grow_networks();
    every_op_is_met(NULL, "random_ops.h, if it makes whole numbers of such, or random_layers.h", not_random);
}

/* ------------------------------------------------------------------------------------------- tests of a device */

static const op_exception not_on_device[] = {
    {"loop", "is bs_loop_begin: test_cuda_loops.c"},
    {"loop_again", "is bs_loop_end: test_cuda_loops.c"},
    {"loop_trip", "in loops of grown graphs: test_cuda_random.c"},
    {"loop_parent", "in trees that grow: test_cuda_trees.c"},
    {"look_ahead", "in streamed networks: test_cuda_stream.c"},
    {NULL, NULL},
};

static bool has_kernel_on_device(const bs_op *op)
{
#define DEVICE_OF(name, device) BS_DEVICE_##device,
    static const uint8_t devices[] = {BS_OP_LIST(DEVICE_OF)};
#undef DEVICE_OF
    return devices[bs_op_index(op->name)] != BS_DEVICE_NONE;
}

/* The ops whose builder functions a file calls. */
static void file_builds(const char *path)
{
    static char text[FILE_BYTES];
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    check(n > 0 && n < sizeof text - 1, "%s is read", path);
    if (file)
        fclose(file);
    for (int32_t i = 0; i < bs_op_count(); i++) {
        char call[64];
        snprintf(call, sizeof call, "bs_%s(", bs_op_get(i)->name);
        op_is_met[i] = op_is_met[i] || strstr(text, call);
    }
}

static void tests_of_a_device_have_every_op(void)
{
    DIR *folder = opendir("tests");
    memset(op_is_met, 0, sizeof op_is_met);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300];
        const char *name = entry->d_name;
        snprintf(path, sizeof path, "tests/%s", name);
        if (strncmp(name, "test_cuda_", 10) == 0 && strcmp(name + strlen(name) - 2, ".c") == 0)
            file_builds(path);
    }
    if (check(folder != NULL, "the folder of tests is read"))
        closedir(folder);
    every_op_is_met(has_kernel_on_device, "test_cuda_ops.c, or another test_cuda_*.c", not_on_device);
}

int main(void)
{
    random_graphs_have_every_op();
    tests_of_a_device_have_every_op();
    return check_end();
}
