/* tags: asan */
/* test_cuda_tails.c - chains of element-wise ops in one kernel of a device, which a softmax or a norm may begin: the
 * bytes of one kernel after the other, in f32 and f16, at the root, on rows and in tiles. Kernels of other ops have
 * nothing behind them.
 * Networks: tail_nets.h. */
#include "cuda_rig.h"
#include "tail_nets.h"

static cuda_rig r;
static int32_t chains, line_chains;

static bool same_bytes(const rig_result *a, const rig_result *b)
{
    bool same = a->status == BS_OK && b->status == BS_OK;
    for (int32_t i = 0; i < r.n_buffers && same; i++)
        if (r.buffers[i].output)
            same = memcmp(a->out[i], b->out[i],
                          (size_t)rig_elements(&r.buffers[i].given) * bs_dtype_bytes(r.buffers[i].given.dtype)) == 0;
    return same;
}

/* Nodes with a tail in the graph as it is planned, which are element-wise ops all, or of lines. */
static int32_t chains_of(const bs_plan_desc *desc)
{
    static uint8_t memory[8 << 20];
    bs_arena arena;
    int32_t n = 0;
    bs_arena_init(&arena, "plan", memory, sizeof memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, r.graph, desc, NULL);
    for (int32_t i = 1; plan && i < plan->graph->n_nodes; i++) {
        const bs_node *node = &plan->graph->nodes[i];
        const bs_memory_contract contract = bs_node_op(node)->memory;
        n += node->n_tail > 0;
        line_chains += node->n_tail > 0 && contract.lines;
        check(node->n_tail == 0 || contract.chained || contract.lines, "no tail but behind such an op");
    }
    return n;
}

/* Runs what the rig has built with tails and without. */
static void compare(const char *what, bs_plan_desc desc)
{
    static const rig_how how = {.runs = 1};
    rig_result with, without;
    desc.tier = BS_TIER_CUDA;
    rig_make_weights(&r);
    rig_make_buffers(&r);
    rig_once(&r, &desc, &how, &with);
    chains += chains_of(&desc);
    desc.no_fusion = 1;
    rig_once(&r, &desc, &how, &without);
    check(same_bytes(&with, &without), "%s, order %d, algorithm %d, half %d: the same bytes: %s%s", what, desc.order,
          desc.conv, desc.half, with.error.message, without.error.message);
}

static void test_images(const tail_net *of, tail_cells cells, bs_plan_desc desc)
{
    static int32_t keys[64];
    char what[64];
    snprintf(what, sizeof what, "%s, %s", of->what, tail_cells_name[cells]);
    bs_graph *g = rig_begin(&r, what);
    tail_graph(g, of, cells);
    for (int32_t i = 0; i < 64; i++)
        keys[i] = i * 5 % 3 != 0;
    if (bs_graph_named(g, "key", false))
        rig_give(&r, "key", keys);
    compare(what, desc);
}

/* Lines of features that are multiples of nothing and of four. */
static void test_lines(int32_t lines, int32_t features, bool rows, bs_plan_desc desc)
{
    char what[64];
    snprintf(what, sizeof what, "%d lines of %d features%s", lines, features, rows ? ", rows" : "");
    bs_graph *g = rig_begin(&r, what);
    const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE2(lines, features));
    const bs_value line = rows ? bs_rows(g, in, (bs_value){0}) : in;
    const bs_value all = bs_constant(g, "shared", BS_F32, bs_shape_of(1, features, 0, 0, 0));
    const bs_value made = bs_linear(g, line, &(bs_linear_desc){.name = "w", .out = features, .act = BS_SILU});
    const bs_value sum = bs_unary(g, bs_mul(g, bs_sub(g, line, made), all), BS_UNARY_ABS);
    const bs_value more = bs_linear(g, sum, &(bs_linear_desc){.name = "v", .out = features + 3});
    const bs_value end = bs_affine(g, more, 2, 1);
    bs_output(g, "y", rows ? bs_collect(g, end) : end);
    compare(what, desc);
}

/* What follows norms and softmax, with operands of their shape, of a line, and of a number a line; of a matrix, of
 * images, of rows. Lines of a thread and of a warp. */
static void test_lines_begin(int32_t features, int32_t images, bool rows, bs_plan_desc desc)
{
    char what[64];
    snprintf(what, sizeof what, "norms of %d features, images %d%s", features, images, rows ? ", rows" : "");
    bs_graph *g = rig_begin(&r, what);
    const bs_value in = bs_input(g, "x", BS_F32, images ? BS_SHAPE4(3, images, 5, features) : BS_SHAPE2(9, features));
    const bs_value line = rows ? bs_rows(g, in, (bs_value){0}) : in;
    const bs_shape each = images && rows ? bs_shape_of(3, 1, 1, features, 0) : bs_shape_of(1, features, 0, 0, 0);
    const bs_value all = bs_constant(g, "shared", BS_F32, each);
    const bs_value number = bs_reduce(g, line, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = -1, .keep = 1});
    const bs_value a = bs_add(g, line, bs_layer_norm(g, line, &(bs_norm_desc){.name = "a"}));
    const bs_value b = bs_mul(g, bs_sub(g, number, bs_rms_norm(g, a, &(bs_norm_desc){.name = "b"})), all);
    const bs_value end = bs_unary(g, bs_add(g, bs_affine(g, bs_softmax(g, b), 3, -1), b), BS_UNARY_ABS);
    bs_output(g, "y", rows ? bs_collect(g, end) : end);
    compare(what, desc);
}

int main(void)
{
    for (int32_t half = 0; half <= 1; half++) {
        for (int32_t i = 0; i < TAIL_NETS; i++)
            for (int32_t cells = TAIL_ROOT; cells < TAIL_CELLS; cells++)
                for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_BREADTH + (cells == TAIL_TILES); order++)
                    test_images(&tail_nets[i], (tail_cells)cells, (bs_plan_desc){.order = order, .half = half});
        for (int32_t rows = 0; rows <= 1; rows++) {
            test_lines(1, 24, rows, (bs_plan_desc){.half = half});
            test_lines(30, 71, rows, (bs_plan_desc){.half = half});
            for (int32_t images = 0; images <= 2; images += 2) {
                test_lines_begin(24, images, rows, (bs_plan_desc){.half = half});
                test_lines_begin(71, images, rows, (bs_plan_desc){.half = half});
            }
        }
    }
    check(chains > 100, "chains were run: %d", chains);
    check(line_chains == 2 * 2 * 2 * 2 * 3, "and behind lines: %d", line_chains);
    return check_end();
}
