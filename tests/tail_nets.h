/* tail_nets.h - networks in which element-wise ops follow kernels, for test_tails.c and test_cuda_tails.c.
 * A network is built at the root, on rows or in tiles of one image input. */
#ifndef BS_TEST_TAIL_NETS_H
#define BS_TEST_TAIL_NETS_H

#include "check.h"
#include "plan/plan.h"

enum { TAIL_CHANNELS = 16, TAIL_HEIGHT = 21, TAIL_WIDTH = 26, TAIL_CELL = 8 };

/* Where it runs: on one image, on two of them as rows, on the cells of one. */
typedef enum tail_cells { TAIL_ROOT, TAIL_ROWS, TAIL_TILES, TAIL_CELLS } tail_cells;
static const char *const tail_cells_name[] = {"the root", "rows", "tiles"};

/* More at the root than elsewhere; one, but none on rows, of whose images a kernel takes some at a time. */
enum { TAIL_MORE_AT_THE_ROOT = -1, TAIL_NOT_ON_ROWS = -2 };

typedef struct tail_net {
    const char *what;
    bs_value (*build)(bs_graph *g, bs_value x, const struct tail_net *of);
    int32_t steps; /* nodes that become part of others, or one of these */
    bs_conv2d_desc conv;
} tail_net;

static bs_value tail_conv(bs_graph *g, bs_value from, const tail_net *of, const char *name)
{
    bs_conv2d_desc desc = of->conv;
    desc.name = name;
    desc.out = TAIL_CHANNELS;
    return bs_conv2d(g, from, &desc);
}

static bs_value tail_pool(bs_graph *g, bs_value in)
{
    const bs_pool2d_desc desc = {.kind = BS_POOL_MAX, .kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1};
    return bs_pool2d(g, in, &desc);
}

/* As in residual networks: behind what it is added to, and in front of it; with an activation behind it. */
static bs_value tail_blocks(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value first = bs_add(g, tail_conv(g, in, of, "a"), in);
    const bs_value inner = tail_conv(g, bs_activation(g, first, BS_RELU, 0), of, "b");
    const bs_value second = bs_activation(g, bs_add(g, first, inner), BS_GELU, 0);
    return bs_reduce(g, second, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .keep = 1});
}

/* Four steps, of which two have operands; a fifth has no room, nor a third operand. */
static bs_value tail_long(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value made = tail_conv(g, in, of, "a");
    const bs_value a = bs_unary(g, bs_affine(g, bs_mul(g, bs_sub(g, in, made), in), 0.5f, 0.25f), BS_UNARY_ABS);
    return bs_binary(g, bs_clip(g, a, -0.5f, 0.7f), in, BS_BINARY_MIN);
}

static bs_value tail_others(bs_graph *g, bs_value in, const tail_net *of)
{
    return bs_add(g, bs_add(g, bs_add(g, tail_conv(g, in, of, "a"), in), in), in);
}

/* What is added is made later. */
static bs_value tail_late(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value made = tail_conv(g, in, of, "a");
    const bs_value more = tail_pool(g, in);
    return bs_add(g, made, more);
}

static bs_value tail_two(bs_graph *g, bs_value in, const tail_net *of)
{
    return bs_add(g, tail_conv(g, in, of, "a"), tail_conv(g, in, of, "b"));
}

static bs_value tail_read_twice(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value made = tail_conv(g, in, of, "a");
    return bs_sub(g, tail_pool(g, made), made); /* a step of the pool alone */
}

static bs_value tail_with_itself(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value made = tail_conv(g, in, of, "a");
    return bs_mul(g, made, made);
}

/* One number a pixel, for all channels; one a channel, for all pixels. */
static bs_value tail_spread(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value pixel = bs_reduce(g, in, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .keep = 1});
    const bs_value number = bs_constant(g, "c", BS_F32, bs_shape_of(1, TAIL_CHANNELS, 0, 0, 0));
    return bs_mul(g, bs_add(g, tail_conv(g, in, of, "a"), pixel), number);
}

/* The result is larger than what it is made of. */
static bs_value tail_grows(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value pixel = bs_reduce(g, in, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .keep = 1});
    return bs_activation(g, bs_sub(g, pixel, tail_conv(g, in, of, "a")), BS_SIGMOID, 0);
}

/* Nothing but element-wise ops: of two operands first, of one. */
static bs_value tail_chain(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value pixel = bs_reduce(g, tail_conv(g, in, of, "a"), &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .keep = 1});
    const bs_value a = bs_binary(g, bs_activation(g, bs_mul(g, pixel, in), BS_LEAKY_RELU, 0.1f), in, BS_BINARY_DIV);
    return bs_add(g, bs_unary(g, bs_affine(g, in, 2, 0.5f), BS_UNARY_NEG), bs_clip(g, a, -2, 2));
}

/* On one path, of rows that were made before. */
static bs_value tail_on_a_path(bs_graph *g, bs_value in, const tail_net *of)
{
    const bs_value none = {0};
    if (g->values[in.id].domain == 0)
        return tail_blocks(g, in, of);
    const bs_value key = bs_rows(g, bs_input(g, "key", BS_I32, BS_SHAPE2(64, 1)), in);
    const bs_router r = bs_route(g, key, none, &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_LABEL, .paths = 2});
    const bs_value made = tail_conv(g, in, of, "a"), part = bs_scatter(g, r, 1, in);
    const bs_value sum = bs_add(g, bs_scatter(g, r, 1, made), part);
    const bs_value out[] = {bs_scatter(g, r, 0, in), bs_add(g, tail_conv(g, sum, of, "b"), part)};
    return bs_gather(g, r, out, none, NULL);
}

static const tail_net tail_nets[] = {
    {"blocks", tail_blocks, 3, {.kernel = 3}},
    {"blocks of 1 x 1", tail_blocks, 3, {.kernel = 1}},
    {"blocks of groups", tail_blocks, 3, {.kernel = 3, .groups = 4}},
    {"blocks, depthwise", tail_blocks, 3, {.kernel = 3, .groups = TAIL_CHANNELS}},
    {"blocks with relu", tail_blocks, 3, {.kernel = 3, .act = BS_RELU}},
    {"blocks with prelu", tail_blocks, 3, {.kernel = 5, .act = BS_PRELU}},
    {"blocks with gelu", tail_blocks, 3, {.kernel = 3, .act = BS_GELU}},
    {"a long tail", tail_long, 5, {.kernel = 3}},
    {"many operands", tail_others, 2, {.kernel = 3}},
    {"what comes later", tail_late, 1, {.kernel = 3}},
    {"two convolutions", tail_two, 1, {.kernel = 3}},
    {"read twice", tail_read_twice, 1, {.kernel = 3}},
    {"with itself", tail_with_itself, TAIL_NOT_ON_ROWS, {.kernel = 3}},
    {"spread operands", tail_spread, 2, {.kernel = 3}},
    {"a result that grows", tail_grows, 2, {.kernel = 3}},
    {"a chain", tail_chain, 5, {.kernel = 3}},
    {"on a path", tail_on_a_path, TAIL_MORE_AT_THE_ROOT, {.kernel = 3}},
};
#define TAIL_NETS ((int32_t)(sizeof tail_nets / sizeof *tail_nets))

/* Input "x", output "y"; "key" of the network on a path. */
static inline void tail_graph(bs_graph *g, const tail_net *of, tail_cells cells)
{
    if (cells == TAIL_ROWS) {
        const bs_value in = bs_rows(
            g, bs_input(g, "x", BS_F32, BS_SHAPE4(2, TAIL_CHANNELS, TAIL_HEIGHT, TAIL_WIDTH)), (bs_value){0});
        bs_output(g, "y", bs_collect(g, of->build(g, in, of)));
        return;
    }
    const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE3(TAIL_CHANNELS, TAIL_HEIGHT, TAIL_WIDTH));
    const bs_value made = of->build(
        g, cells == TAIL_TILES ? bs_patches(g, in, &(bs_patches_desc){.size = TAIL_CELL}) : in, of);
    bs_output(g, "y", cells == TAIL_TILES ? bs_assemble(g, made) : made);
}

/* Steps of all tails. */
static inline int32_t tail_steps(const bs_plan *plan)
{
    int32_t steps = 0;
    for (int32_t n = 1; n < plan->graph->n_nodes; n++)
        steps += plan->graph->nodes[n].n_tail;
    return steps;
}

#endif
