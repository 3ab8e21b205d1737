// A child-sum Tree-LSTM over the vertices of several trees at once, level by level.
#include "brainstorm.h"
#include <stdio.h>

enum { VERTICES = 16, CHILDREN = 3, DEPTH = 8, WIDTH = 6, UNITS = 16 }; // at most; numbers a word, units

BS_ALIGNED static uint8_t persistent[1 << 19], transient[1 << 16], staging[1 << 14];
static struct {
    float w[4 * UNITS * WIDTH], b[4 * UNITS], u_iou[3 * UNITS * UNITS], u_f[UNITS * UNITS], w_y[UNITS], b_y[1];
} weights;
static const float nothing[UNITS];
static const bs_tensor tensors[] = {{"w.weight", BS_F32, 2, {4 * UNITS, WIDTH}, weights.w},
                                    {"w.bias", BS_F32, 1, {4 * UNITS}, weights.b},
                                    {"u_iou.weight", BS_F32, 2, {3 * UNITS, UNITS}, weights.u_iou},
                                    {"u_f.weight", BS_F32, 2, {UNITS, UNITS}, weights.u_f},
                                    {"y.weight", BS_F32, 2, {1, UNITS}, weights.w_y},
                                    {"y.bias", BS_F32, 1, {1}, weights.b_y},
                                    {"nothing", BS_F32, 1, {UNITS}, nothing}};

static bs_value linear(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out, .no_bias = 1});
}

static bs_value gate(bs_graph *g, bs_value gates, int32_t which, bs_act act)
{
    return bs_activation(g, bs_slice(g, gates, &(bs_slice_desc){.start = which * UNITS, .length = UNITS}), act, 0);
}

static bs_value sum(bs_graph *g, bs_value of_children) // [CHILDREN, UNITS] to [UNITS]
{
    return bs_reduce(g, of_children, &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = 0});
}

static void build(bs_graph *g)
{
    const bs_dim vertices = bs_symbol(g, "vertices", VERTICES), edges = bs_symbol(g, "edges", VERTICES);
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(vertices)); // children of each vertex
    const bs_value children = bs_children(g, lengths, bs_input(g, "children", BS_I32, BS_SHAPE1(edges)), CHILDREN);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(vertices, WIDTH)), BS_NONE);
    const bs_value level = bs_rows(g, bs_levels(g, children), x);
    const bs_value zero = bs_constant(g, "nothing", BS_F32, BS_SHAPE1(UNITS));
    const bs_value wx = bs_linear(g, x, &(bs_linear_desc){.name = "w", .out = 4 * UNITS}); // of all vertices at once

    const bs_router tree = bs_loop_begin(g, x, level, &(bs_loop_desc){.name = "tree", .bound = DEPTH, .in_turn = 1});
    const bs_value h = bs_loop_carry(g, tree, zero), c = bs_loop_carry(g, tree, zero);
    const bs_value who = bs_scatter(g, tree, 0, bs_rows(g, children, x)), own = bs_scatter(g, tree, 0, wx);
    const bs_value h_below = bs_loop_rows(g, tree, h, who), c_below = bs_loop_rows(g, tree, c, who);
    const bs_value iou = bs_add(g, bs_slice(g, own, &(bs_slice_desc){.length = 3 * UNITS}),
                                linear(g, sum(g, h_below), "u_iou", 3 * UNITS));
    const bs_value f = bs_activation(g, bs_add(g, linear(g, h_below, "u_f", UNITS), gate(g, own, 3, BS_ACT_NONE)),
                                     BS_SIGMOID, 0); // one for each child
    const bs_value c_next = bs_add(g, bs_mul(g, gate(g, iou, 0, BS_SIGMOID), gate(g, iou, 2, BS_TANH)),
                                   sum(g, bs_mul(g, f, c_below)));
    const bs_value h_next = bs_mul(g, gate(g, iou, 1, BS_SIGMOID), bs_activation(g, c_next, BS_TANH, 0));
    const bs_value h_all = bs_loop_next(g, tree, h, h_next);
    bs_loop_next(g, tree, c, c_next);
    bs_loop_end(g, tree, BS_NONE);

    bs_output(g, "level", bs_collect(g, level));
    bs_output(g, "y", bs_collect(g, bs_linear(g, h_all, &(bs_linear_desc){.name = "y", .out = 1})));
}

static void fill(float *data, size_t count, uint32_t *seed) // evenly from -0.5 to 0.5
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((*seed = *seed * 1664525u + 1013904223u) >> 8) / 16777216.0f - 0.5f;
}

// Two runs: three trees of eleven vertices together; then one of four, in which a vertex is its own grandchild.
static const struct {
    int32_t vertices, edges, lengths[VERTICES], children[VERTICES];
} runs[] = {{11, 8, {0, 0, 2, 0, 0, 3, 2, 0, 0, 1, 0}, {0, 1, 3, 4, 2, 7, 8, 6}},
            {4, 4, {1, 1, 0, 2}, {1, 0, 0, 2}}};

int main(void)
{
    static float x[VERTICES * WIDTH], y[VERTICES];
    static int32_t level[VERTICES];
    uint32_t seed = 1;
    fill((float *)&weights, sizeof weights / sizeof(float), &seed);

    bs_error error = {0};
    bs_memory memory = {0};
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    build(g);
    const bs_tensor_table table = {tensors, sizeof tensors / sizeof *tensors};
    const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
    bs_session *s = plan ? bs_session_create(&memory, plan, &desc, &error) : NULL;

    for (size_t run = 0; s && run < sizeof runs / sizeof *runs; run++) {
        const int32_t n = runs[run].vertices;
        fill(x, (size_t)(n * WIDTH), &seed);
        bs_bind(s, "lengths", &(bs_buffer){(void *)runs[run].lengths, BS_I32, 1, {n}, {0}}, &error);
        bs_bind(s, "children", &(bs_buffer){(void *)runs[run].children, BS_I32, 1, {runs[run].edges}, {0}}, &error);
        bs_bind(s, "x", &(bs_buffer){x, BS_F32, 2, {n, WIDTH}, {0}}, &error);
        bs_bind(s, "level", &(bs_buffer){level, BS_I32, 2, {n, 1}, {0}}, &error);
        bs_bind(s, "y", &(bs_buffer){y, BS_F32, 2, {n, 1}, {0}}, &error);
        if (bs_run(s, &error))
            printf("%s\n", error.message);
        for (int32_t v = 0; error.status == BS_OK && v < n; v++)
            printf("vertex %d, level %d: %.5f\n", (int)v, (int)level[v], (double)y[v]);
    }
    if (!s)
        printf("%s\n", error.message);
    bs_session_close(s);
    return !s;
}
