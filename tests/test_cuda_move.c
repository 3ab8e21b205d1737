/* tags: order asan tsan */
/* test_cuda_move.c - a device moves rows where the CPU moves them: images with margins, rings of caches, copies of any
 * type and shape. */
#include "cuda_rig.h"

static const bs_value none = {0};

/* Cells of a frame through paths with halos: rows with margins, put together in a frame whose readers need a margin
 * too. */
static bs_value window(bs_graph *g, bs_value x, int32_t channels, bool conv, const char *name)
{
    const bs_pool2d_desc pool = {.kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1};
    const bs_conv2d_desc desc = {.name = name, .out = channels, .kernel = 3};
    return conv ? bs_conv2d(g, x, &desc) : bs_pool2d(g, x, &pool);
}

static void test_images(int32_t h, int32_t w, int32_t channels, int32_t paths, bool conv, const rig_how *how)
{
    static cuda_rig r;
    char name[96];
    snprintf(name, sizeof name, "cells of a frame [%d,%d,%d], %d paths, %s, order %d, half %d", channels, h, w, paths,
             conv ? "conv" : "pool", how->order, how->half);
    const bs_route_desc by_label = {.name = "r", .protocol = BS_ROUTE_LABEL, .paths = paths};
    int32_t labels[64];
    for (int32_t i = 0; i < 64; i++)
        labels[i] = check_below(paths);
    bs_graph *g = rig_begin(&r, name);
    const bs_patches_desc cell = {.size = 16};
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(channels, h, w));
    const bs_value cells = bs_patches(g, frame, &cell);
    const bs_value score = bs_rows(g, bs_input(g, "scores", BS_I32, BS_SHAPE2(((h + 15) / 16) * ((w + 15) / 16), 1)),
                                   cells);
    const bs_router router = bs_route(g, score, none, &by_label);
    const bs_value before = window(g, cells, channels, conv, "before");
    bs_value out[TEST_PATHS];
    for (int32_t p = 0; p < paths; p++) {
        bs_value v = bs_scatter(g, router, p, before);
        for (int32_t k = 0; k < p; k++) {
            char layer[32];
            snprintf(layer, sizeof layer, "path%d_%d", p, k);
            v = window(g, v, channels, conv, layer);
        }
        out[p] = p == 2 ? none : v;
    }
    const bs_value all = bs_gather(g, router, out, paths > 2 ? before : none, NULL);
    const bs_value whole = bs_assemble(g, all);
    const bs_value state = bs_state(g, "memory", BS_F32, BS_SHAPE3(channels, h, w));
    bs_output(g, "y", whole);
    bs_output(g, "blurred", window(g, whole, channels, conv, "blurred"));
    bs_output(g, "again", bs_assemble(g, window(g, all, channels, conv, "again")));
    for (int32_t mode = BS_GATHER_ADD; mode <= BS_GATHER_SELECT; mode++) {
        const bs_gather_desc desc = {.mode = mode};
        static const char *const names[] = {"", "added", "weighted", "selected"};
        bs_output(g, names[mode],
                  bs_assemble(g, bs_gather(g, router, out, mode == BS_GATHER_ADD ? cells : none, &desc)));
    }
    bs_output(g, "old", state);
    bs_state_write(g, state, bs_activation(g, whole, BS_TANH, 0));
    rig_give(&r, "scores", labels);
    check(rig_agree(&r, how), "%s", name);
}

/* Rows of segments to rings that are shorter than some of them, run after run. */
static void test_append(int32_t window, int32_t cell, const rig_how *how)
{
    static cuda_rig r;
    static const int32_t lengths[5] = {3, 0, 11, 1, 7}, past[5] = {0, 4, 9, 1 << 30, 2};
    char name[64];
    snprintf(name, sizeof name, "append to rings of %d cells of %d", window, cell);
    bs_graph *g = rig_begin(&r, name);
    const bs_value length = bs_input(g, "lengths", BS_I32, BS_SHAPE1(5)),
                   held = bs_input(g, "past", BS_I32, BS_SHAPE1(5));
    const bs_value rows = bs_segments(g, bs_input(g, "x", BS_F32, BS_SHAPE2(22, cell)), length);
    const bs_value cache = bs_state(g, "cache", BS_F32, BS_SHAPE3(5, window, cell));
    bs_output(g, "before", cache);
    bs_state_append(g, cache, bs_activation(g, rows, BS_RELU, 0), held);
    rig_give(&r, "lengths", lengths);
    rig_give(&r, "past", past);
    check(rig_agree(&r, how), "%s, half %d", name, how->half);
}

/* Whole tensors from here to there: of any type, any extents, more than one work item. */
static void test_copies(bs_dtype dtype, int64_t a, int64_t b, int64_t c)
{
    static cuda_rig r;
    char name[64];
    snprintf(name, sizeof name, "copy %s [%d,%d,%d]", bs_dtype_name(dtype), (int)a, (int)b, (int)c);
    bs_graph *g = rig_begin(&r, name);
    const bs_value x = bs_input(g, "x", dtype, BS_SHAPE3(a, b, c)), state = bs_state(g, "s", dtype, BS_SHAPE3(a, b, c));
    const bs_value rows = bs_rows(g, bs_input(g, "rows", dtype, BS_SHAPE3(b, a, c)), none);
    bs_output(g, "y", x);
    bs_output(g, "z", bs_collect(g, rows));
    bs_output(g, "before", state);
    bs_state_write(g, state, x);
    rig_agree(&r, &(rig_how){.runs = 2});
}

/* Rows as long as the maxima, extents of this run below them in all dimensions: nothing merges. */
/* Rows, or cells of which a run has fewer than there can be, are collected as channels of one image, around which a
 * convolution reads zeros. */
static void test_channels(bool patches, const rig_how *how)
{
    static cuda_rig r;
    enum { ROWS = 6, H = 4, W = 5 };
    bs_graph *g = rig_begin(&r, patches ? "cells as channels" : "rows as channels");
    const bs_value frame = patches ? bs_input(g, "frame", BS_F32, BS_SHAPE3(1, BS_UPTO(16 * ROWS), BS_UPTO(16))) : none;
    const bs_value rows = patches ? bs_patches(g, frame, &(bs_patches_desc){.size = 16})
                                  : bs_rows(g, bs_input(g, "rows", BS_F32, BS_SHAPE2(ROWS, 3)), none);
    const bs_value few = patches ? bs_pool2d(g, rows, &(bs_pool2d_desc){.kind = BS_POOL_AVERAGE, .global = 1}) : rows;
    const bs_value plane = bs_linear(g, few, &(bs_linear_desc){.name = "plane", .out = H * W});
    const bs_value image = bs_collect(g, bs_reshape(g, plane, BS_SHAPE2(H, W)));
    bs_output(g, "image", image);
    bs_output(g, "y", bs_conv2d(g, image, &(bs_conv2d_desc){.name = "c", .out = 3, .kernel = 5}));
    if (patches)
        rig_extent(&r, "frame", 1, 16 * 4, 16, 0);
    check(rig_agree(&r, how), "%s as channels of an image, order %d", patches ? "cells" : "rows", how->order);
}

static void test_four_loops(void)
{
    static cuda_rig r;
    bs_graph *g = rig_begin(&r, "four loops");
    bs_dim d[3];
    static const char *const names[3] = {"A", "B", "C"};
    for (int32_t i = 0; i < 3; i++)
        d[i] = bs_symbol(g, names[i], 7 + i);
    bs_output(g, "y", bs_activation(g, bs_input(g, "x", BS_F32, BS_SHAPE4(3, d[0], d[1], d[2])), BS_TANH, 0));
    rig_extent(&r, "x", 3, 5, 6, 8);
    rig_agree(&r, NULL);
    rig_agree(&r, &(rig_how){.half = 1});
}

int main(void)
{
    check_seed(1);
    test_four_loops();
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
        for (int32_t half = 0; half < 2; half++) {
            const rig_how how = {.order = order, .half = half, .runs = 2};
            test_images(33, 50, 3, 2, false, &how);
            test_images(20, 40, 12, 4, false, &how);
            test_images(16, 16, 1, 3, false, &how);
            test_images(35, 30, 8, 3, true, &(rig_how){.order = order, .half = half, .tolerance = half ? 1e-2 : 2e-5});
        }
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        test_channels(false, &(rig_how){.order = order, .tolerance = 2e-5});
        test_channels(true, &(rig_how){.order = order, .runs = 2, .tolerance = 2e-5});
    }
    test_append(8, 12, &(rig_how){.runs = 3});
    test_append(5, 600, &(rig_how){.runs = 2, .half = 1});
    test_append(30, 1, &(rig_how){.runs = 2});
    test_copies(BS_F32, 3, 40, 51);
    test_copies(BS_F32, 16, 30, 64);
    test_copies(BS_U8, 3, 61, 67);
    test_copies(BS_I32, 2, 5, 7);
    test_copies(BS_U8, 1, 128, 256);
    return check_end();
}
