/* tags: asan */
/* Promises: a loop at the root runs behind whatever its body reads, in every order and with any threads, where layers
 * that feed it run between tiles because their weights are heavier than a row: one loop, a counted one, a loop in a
 * loop, two behind each other with such layers between, and one beside tiles. Rows and images that are collected as one
 * image have zeros around them where a convolution reads beyond. */
#include "net.h"

enum { T = 10, C = 128, OUT = 64, L = 4, WIDTH = OUT * L };

static BS_ALIGNED uint8_t persistent[8 << 20], transient[8 << 20], staging[1 << 20];
static bs_memory memory;
static bs_error error;
static const bs_value none;
static float x[T][C][1][L], zero[WIDTH], first[OUT][C][1][3], again[OUT][OUT][1][3];
static const bs_tensor tensors[] = {{"heavy.weight", BS_F32, 4, {OUT, C, 1, 3}, first},
                                    {"more.weight", BS_F32, 4, {OUT, OUT, 1, 3}, again},
                                    {"zero", BS_F32, 2, {1, WIDTH}, zero}};
static const bs_tensor_table table = {tensors, 3};

/* Weights that give channel 0 as it is, to every channel. */
static void fill(void)
{
    for (int32_t t = 0; t < T; t++)
        for (int32_t k = 0; k < L; k++)
            x[t][0][0][k] = (float)(t + 1);
    for (int32_t o = 0; o < OUT; o++)
        first[o][0][0][1] = again[o][0][0][1] = 1;
}

static bs_value layer(bs_graph *g, bs_value v, const char *name)
{
    return bs_conv2d(g, v, &(bs_conv2d_desc){.name = name, .out = OUT, .kernel_h = 1, .kernel_w = 3, .no_bias = 1});
}

/* Rows of images behind a heavy layer, as lines of the root: line t is t + 1 everywhere. */
static bs_value lines(bs_graph *g, bs_value rows)
{
    return bs_reshape(g, bs_collect(g, rows), BS_SHAPE3(T, 1, WIDTH));
}

static bs_value start(bs_graph *g) { return bs_constant(g, "zero", BS_F32, BS_SHAPE2(1, WIDTH)); }

/* The sum of all lines: 55. */
static bs_value sum(bs_graph *g, bs_value all, const char *name)
{
    const bs_router loop = bs_loop_begin(g, all, none, &(bs_loop_desc){.name = name, .over = all});
    const bs_value s = bs_loop_carry(g, loop, start(g));
    const bs_value last = bs_loop_next(g, loop, s, bs_add(g, s, bs_loop_slice(g, loop, all)));
    bs_loop_end(g, loop, none);
    return last;
}

static bs_value one_loop(bs_graph *g, bs_value rows) { return sum(g, lines(g, layer(g, rows, "heavy")), "sum"); }

/* Four trips, each of which adds the largest line, 10. */
static bs_value counted(bs_graph *g, bs_value rows)
{
    const bs_value all = lines(g, layer(g, rows, "heavy"));
    const bs_value most = bs_reduce(g, all, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 0, .axes = 1});
    const bs_router loop = bs_loop_begin(g, start(g), none, &(bs_loop_desc){.name = "counted", .bound = 4});
    const bs_value s = bs_loop_carry(g, loop, start(g));
    const bs_value last = bs_loop_next(g, loop, s, bs_add(g, s, most));
    bs_loop_end(g, loop, none);
    return last;
}

/* Each line twice: 110. */
static bs_value loop_in_loop(bs_graph *g, bs_value rows)
{
    const bs_value all = lines(g, layer(g, rows, "heavy"));
    const bs_router outer = bs_loop_begin(g, all, none, &(bs_loop_desc){.name = "outer", .over = all});
    const bs_value s = bs_loop_carry(g, outer, start(g)), line = bs_loop_slice(g, outer, all);
    const bs_router inner = bs_loop_begin(g, s, none, &(bs_loop_desc){.name = "inner", .bound = 2});
    const bs_value r = bs_loop_carry(g, inner, s);
    const bs_value twice = bs_loop_next(g, inner, r, bs_add(g, r, bs_scatter(g, inner, 0, line)));
    bs_loop_end(g, inner, none);
    const bs_value last = bs_loop_next(g, outer, s, twice);
    bs_loop_end(g, outer, none);
    return last;
}

/* What the first loop gives is added to each row, which a second heavy layer takes to a second loop: 55 + 10 x 55. */
static bs_value two_loops(bs_graph *g, bs_value rows)
{
    const bs_value once = layer(g, rows, "heavy");
    const bs_value total = bs_reshape(g, sum(g, lines(g, once), "first"), BS_SHAPE3(OUT, 1, L));
    return sum(g, lines(g, layer(g, bs_add(g, once, total), "more")), "second");
}

/* Beside the loop tiles read the same rows, and are joined with its sum: 55 + 55. */
static bs_value beside_tiles(bs_graph *g, bs_value rows)
{
    const bs_value once = layer(g, bs_affine(g, rows, 1, 0), "heavy");
    const bs_value light = bs_activation(g, bs_affine(g, once, 2, 0), BS_RELU, 0);
    const bs_value total = sum(g, lines(g, once), "sum");
    return bs_add(g, total, bs_affine(g, sum(g, lines(g, light), "of tiles"), 0.5f, 0));
}

typedef struct network {
    const char *what;
    bs_value (*build)(bs_graph *g, bs_value rows);
    float wanted;
} network;

static bool run(const network *n, const bs_plan_desc *desc, float *y)
{
    memset(&error, 0, sizeof error);
    memset(transient, 0xFF, sizeof transient); /* NaN */
    memset(y, 0, WIDTH * sizeof *y);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE4(T, C, 1, L)), none);
    bs_output(g, "y", n->build(g, rows));
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, desc, &error);
    const bs_session_desc with = {.weights = bs_weights_from_table(&table)};
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    const bs_buffer in = {x, BS_F32, 4, {T, C, 1, L}, {0}}, out = {y, BS_F32, 2, {1, WIDTH}, {0}};
    const bool ran = s && bs_bind(s, "x", &in, &error) == BS_OK && bs_bind(s, "y", &out, &error) == BS_OK &&
                     bs_run(s, &error) == BS_OK;
    if (s)
        bs_session_close(s);
    return ran;
}

static void test_network(const network *n)
{
    static const char *const names[] = {"the planner's order", "breadth first", "depth first"};
    for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++)
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            float y[WIDTH];
            int32_t wrong = 0;
            const bool ran = run(n, &(bs_plan_desc){.order = order, .threads = threads}, y);
            for (int32_t i = 0; i < WIDTH; i++)
                wrong += y[i] != n->wanted;
            check(ran && wrong == 0, "%s, %s, %d threads: %g everywhere (%d differ, the first is %g) %s", n->what,
                  names[order], threads, (double)n->wanted, wrong, (double)y[0], error.message);
        }
}

/* ---------------------------------------------------------------------------- rows that are channels of an image */

enum { ROWS = 5, H = 3, W = 4 };
static float box[ROWS * 9];
static const bs_tensor box_tensor[] = {{"box.weight", BS_F32, 4, {1, ROWS, 3, 3}, box}};
static const bs_tensor_table box_table = {box_tensor, 1};

/* The sum of 3 x 3 pixels of all channels, zeros around them, of pixels that are all 1 in `channels` of them. */
static float boxed(int32_t row, int32_t column, int32_t h, int32_t w, int32_t channels)
{
    const int32_t tall = 1 + (row > 0) + (row < h - 1), wide = 1 + (column > 0) + (column < w - 1);
    return (float)(tall * wide * channels);
}

/* patches: of a frame of 2 x 2 cells of which a run has `cells`; else all rows of the input. Channels have h x w
 * pixels: a single one lies in a row, whatever the strides. */
static void test_channels(bool patches, int32_t order, int32_t threads, int32_t cells, int32_t h, int32_t w)
{
    static float ones[ROWS * H * W], frame[4], y[H * W], pixel[H * W];
    const bs_tensor from_pixel[] = {box_tensor[0], {"pixel.weight", BS_F32, 2, {h * w, 1}, pixel}};
    const bs_tensor_table both = {from_pixel, 2};
    int32_t wrong = 0;
    for (int32_t i = 0; i < ROWS * h * w; i++)
        ones[i] = 1;
    for (int32_t i = 0; i < ROWS * 9; i++)
        box[i] = 1;
    for (int32_t i = 0; i < h * w; i++)
        pixel[i] = 1;
    for (int32_t i = 0; i < 4; i++)
        frame[i] = 1;
    memset(&error, 0, sizeof error);
    memset(transient, 0xFF, sizeof transient);
    memset(y, 0, sizeof y);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    const bs_value in = patches ? bs_input(g, "x", BS_F32, BS_SHAPE3(1, BS_UPTO(5), BS_UPTO(1)))
                                : bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, h * w));
    bs_value v = patches ? bs_patches(g, in, &(bs_patches_desc){.size = 1}) : bs_rows(g, in, none);
    if (patches)
        v = bs_linear(g, bs_pool2d(g, v, &(bs_pool2d_desc){.global = 1}),
                      &(bs_linear_desc){.name = "pixel", .out = h * w, .no_bias = 1});
    v = bs_collect(g, bs_reshape(g, v, BS_SHAPE2(h, w)));
    bs_output(g, "y", bs_conv2d(g, v, &(bs_conv2d_desc){.name = "box", .out = 1, .no_bias = 1}));
    const bs_plan_desc d = {.order = order, .threads = threads};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &d, &error);
    const bs_session_desc with = {.weights = bs_weights_from_table(patches ? &both : &box_table)};
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    const bs_buffer all = {ones, BS_F32, 2, {ROWS, h * w}, {0}}, some = {frame, BS_F32, 3, {1, cells, 1}, {0}};
    const bs_buffer out = {y, BS_F32, 3, {1, h, w}, {0}};
    const bool ran = s && bs_bind(s, "x", patches ? &some : &all, &error) == BS_OK &&
                     bs_bind(s, "y", &out, &error) == BS_OK && bs_run(s, &error) == BS_OK;
    if (s)
        bs_session_close(s);
    for (int32_t i = 0; i < h * w; i++)
        wrong += y[i] != boxed(i / w, i % w, h, w, cells);
    check(ran && wrong == 0,
          "%d %s as channels of an image, order %d, %d threads: zeros around it (%d of %d differ) %s", cells,
          patches ? "cells" : "rows", order, threads, wrong, h * w, error.message);
}

int main(void)
{
    static const network networks[] = {{"a loop", one_loop, 55},           {"a counted loop", counted, 40},
                                       {"a loop in a loop", loop_in_loop, 110}, {"two loops", two_loops, 605},
                                       {"a loop beside tiles", beside_tiles, 110}};
    fill();
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        test_network(&networks[i]);
    for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++)
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            test_channels(false, order, threads, ROWS, H, W);
            test_channels(false, order, threads, ROWS, 1, 1);
            for (int32_t cells = 1; cells <= 4; cells += 3)
                test_channels(true, order, threads, cells, H, W);
        }
    return check_end();
}
