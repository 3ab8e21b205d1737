/* tags: asan */
/* Promises: values of the same extents that lie otherwise are not taken for alike (plan/locate.h): matrices and images,
 * cells of frames of another scale. */
#include "check.h"

#include "brainstorm.h"

#include <string.h>

static BS_ALIGNED uint8_t persistent[1 << 20], transient[1 << 20], staging[1 << 16];
static float x[12 * 12], y[2][12 * 12];

/* Makes two outputs of input "x", which has rank 3. */
typedef void network(bs_graph *g, bs_value in, bs_value out[2]);

static void run(network *of, const int64_t *in, const int64_t *out, const bs_tensor_table *weights, const char *what)
{
    static const char *const names[2] = {"first", "second"};
    bs_memory memory;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    memset(transient, 0xFF, sizeof transient); /* NaN */
    memset(&memory, 0, sizeof memory);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    bs_value results[2];
    of(g, bs_input(g, "x", BS_F32, BS_SHAPE3(in[0], in[1], in[2])), results);
    for (int32_t k = 0; k < 2; k++)
        bs_output(g, names[k], results[k]);
    const bs_plan_desc desc = {.no_fusion = 1};
    const bs_session_desc with = {.weights = bs_weights_from_table(weights)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    bs_bind(s, "x", &(bs_buffer){x, BS_F32, 3, {in[0], in[1], in[2]}, {0}}, NULL);
    for (int32_t k = 0; k < 2; k++)
        bs_bind(s, names[k], &(bs_buffer){y[k], BS_F32, 3, {out[0], out[1], out[2]}, {0}}, NULL);
    check(s && bs_run(s, &error) == BS_OK, "%s: it runs: %s", what, error.message);
    bs_session_close(s);
}

/* ------------------------------------------------------------------------------------------- matrices and images */

enum { C = 3, H = 4, W = 3, WIDER = 4 };
static const float one[C][C] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};

static bs_value linear(bs_graph *g, bs_value v, const char *name)
{
    return bs_linear(g, v, &(bs_linear_desc){.name = name, .out = W, .no_bias = 1});
}

static bs_value conv(bs_graph *g, bs_value v)
{
    return bs_conv2d(g, v, &(bs_conv2d_desc){.name = "i", .out = C, .kernel = 1, .no_bias = 1});
}

/* Both are stored: matrices line by line, which products take, an image channels last, which convolutions take. */
static void two_layouts(bs_graph *g, bs_value in, bs_value out[2])
{
    const bs_value matrices = linear(g, in, "m"), image = bs_slice(g, in, &(bs_slice_desc){.axis = 2, .length = W});
    out[0] = linear(g, matrices, "n");
    out[1] = conv(g, image);
}

static void test_layouts(void)
{
    static const float more[W][WIDER] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};
    const bs_tensor tensors[] = {{"m.weight", BS_F32, 2, {W, WIDER}, more},
                                 {"n.weight", BS_F32, 2, {W, W}, one},
                                 {"i.weight", BS_F32, 4, {C, C, 1, 1}, one}};
    const int64_t in[3] = {C, H, WIDER}, out[3] = {C, H, W};
    int32_t wrong[2] = {0, 0};
    run(two_layouts, in, out, &(bs_tensor_table){tensors, 3}, "matrices and an image");
    for (int32_t k = 0; k < 2; k++)
        for (int32_t i = 0; i < C * H * W; i++)
            wrong[k] += y[k][i] != x[i / W * WIDER + i % W];
    check(wrong[0] == 0 && wrong[1] == 0, "each keeps its layout: %d elements and %d pixels are wrong", wrong[0],
          wrong[1]);
}

/* ---------------------------------------------------------------------------------------------------- scales */

/* Two results, each of which takes every stride-th pixel `factor` times: as rounded up, frames of one size and cells of
 * two. */
typedef struct scales {
    int32_t frame, cell, large; /* pixels of a side: of the input, of its cells, of both results */
    int32_t stride[2], factor[2];
} scales;
static const scales *now;

static void two_scales(bs_graph *g, bs_value in, bs_value out[2])
{
    const bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = now->cell});
    for (int32_t k = 0; k < 2; k++) {
        const bs_conv2d_desc conv = {.name = "c", .out = 1, .stride = now->stride[k], .no_bias = 1};
        const bs_value few = bs_conv2d(g, cells, &conv);
        const bs_resize_desc resize = {.factor = now->factor[k]};
        out[k] = bs_assemble(g, now->factor[k] > 1 ? bs_resize(g, few, &resize) : few);
    }
}

static void test_scales(const scales *of)
{
    static const float centre[9] = {0, 0, 0, 0, 1, 0, 0, 0, 0};
    const bs_tensor tensor = {"c.weight", BS_F32, 4, {1, 1, 3, 3}, centre};
    const int64_t frame[3] = {1, of->frame, of->frame}, large[3] = {1, of->large, of->large};
    now = of;
    run(two_scales, frame, large, &(bs_tensor_table){&tensor, 1}, "two scales");
    for (int32_t k = 0; k < 2; k++) {
        int32_t wrong = 0;
        for (int32_t i = 0; i < of->large * of->large; i++) {
            const int32_t row = i / of->large / of->factor[k], column = i % of->large / of->factor[k];
            wrong += y[k][i] != x[of->stride[k] * (row * of->frame + column)];
        }
        check(wrong == 0, "cells lie in a frame of their scale, %d/%d: %d pixels are wrong", of->factor[k],
              of->stride[k], wrong);
    }
}

int main(void)
{
    for (int32_t i = 0; i < 12 * 12; i++)
        x[i] = (float)(i + 1);
    test_layouts();
    test_scales(&(scales){4, 3, 12, {3, 1}, {6, 3}}); /* 2/1, 3/1 */
    test_scales(&(scales){7, 6, 4, {2, 6}, {1, 2}});  /* 1/2, 1/3 */
    return check_end();
}
