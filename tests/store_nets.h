/* store_nets.h - networks whose weights come and go: experts, a chain of blocks, patches with exits, loops of rows,
 * in tiles and of whole images, deep blocks.
 * Owns the graph. Relies on check.h. Must never hold more than one graph. */
#ifndef BS_TEST_STORE_NETS_H
#define BS_TEST_STORE_NETS_H

#include "brainstorm.h"
#include "check.h"

typedef enum kind { MOE, CHAIN, EXITS, STEPS, TILES, ROUNDS, KINDS, DEEP = KINDS, ALL_KINDS } kind;
static const char *const kind_names[ALL_KINDS] = {
    "mixture of experts", "chain of blocks", "patches with exits", "loop with experts", "loop in tiles",
    "loop of images",     "deep blocks"};

static _Alignas(64) uint8_t graph_memory[1 << 20];
static char names[256][24];
static int32_t n_names;

static const char *name_of(const char *stem, int32_t a, const char *rest, int32_t b)
{
    char *name = names[n_names++ % 256];
    snprintf(name, sizeof names[0], b < 0 ? "%s%d%s" : "%s%d%s%d", stem, a, rest, b);
    return name;
}

/* Experts of different sizes, two of them a token; the second router is foretold by its own score. */
static inline void moe_layer(bs_graph *g, bs_value *x, bs_value score, int32_t layer, int32_t experts)
{
    bs_value out[8];
    const bs_router r = bs_route(
        g, score, (bs_value){0},
        &(bs_route_desc){.name = name_of("route", layer, "", -1), .protocol = BS_ROUTE_TOPK, .paths = experts, .k = 2});
    for (int32_t e = 0; e < experts; e++) {
        const int32_t hidden = 8 + 12 * ((e * 5 + layer) % experts);
        bs_block_begin(g, name_of("L", layer, "e", e));
        bs_value h = bs_scatter(g, r, e, *x);
        h = bs_linear(g, h, &(bs_linear_desc){.name = name_of("L", layer, "e", e), .out = hidden, .act = BS_RELU});
        h = bs_linear(g, h, &(bs_linear_desc){.name = name_of("L", layer, "down", e), .out = 24});
        bs_block_end(g);
        out[e] = e == experts - 1 ? bs_affine(g, h, 0.5f, 0.1f) : h;
    }
    *x = bs_gather(g, r, out, *x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED});
}

static inline void build_moe(bs_graph *g)
{
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 12), 24)), (bs_value){0});
    const bs_value first = bs_linear(g, x, &(bs_linear_desc){.name = "score0", .out = 7});
    const bs_value second = bs_linear(g, x, &(bs_linear_desc){.name = "score1", .out = 5});
    bs_look_ahead(g, second, "route1");
    moe_layer(g, &x, first, 0, 7);
    moe_layer(g, &x, second, 1, 5);
    const bs_value third = bs_linear(g, x, &(bs_linear_desc){.name = "score2", .out = 3});
    moe_layer(g, &x, third, 2, 3);
    bs_output(g, "out", bs_collect(g, x));
}

static inline void build_chain(bs_graph *g)
{
    bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE3(4, bs_symbol(g, "H", 20), bs_symbol(g, "W", 20)));
    for (int32_t b = 0; b < 9; b++) {
        const int32_t width = 6 + 7 * (b * 4 % 9);
        bs_block_begin(g, name_of("block", b, "", -1));
        const bs_value h = bs_conv2d(
            g, x, &(bs_conv2d_desc){.name = name_of("block", b, "a", -1), .out = width, .act = BS_RELU});
        x = bs_add(g, x, bs_conv2d(g, h, &(bs_conv2d_desc){.name = name_of("block", b, "b", -1), .out = 4}));
        bs_block_end(g);
    }
    bs_output(g, "out", x);
}

static inline bs_value exit_path(bs_graph *g, bs_value x, int32_t path, int32_t width)
{
    bs_value h = bs_conv2d(g, x, &(bs_conv2d_desc){.name = name_of("p", path, "a", -1), .out = width, .act = BS_RELU});
    return bs_conv2d(g, h, &(bs_conv2d_desc){.name = name_of("p", path, "b", -1), .out = 4});
}

/* Easy patches leave at once, by a path without weights; what goes on meets another exit inside. */
static inline void build_exits(bs_graph *g)
{
    const bs_value cells = bs_patches(
        g, bs_input(g, "in", BS_F32, BS_SHAPE3(4, bs_symbol(g, "H", 20), bs_symbol(g, "W", 20))),
        &(bs_patches_desc){.size = 8});
    const bs_value pooled = bs_pool2d(g, cells, &(bs_pool2d_desc){.name = "pool", .kind = BS_POOL_MAX, .global = 1});
    const bs_router outer = bs_route(g, bs_linear(g, pooled, &(bs_linear_desc){.name = "classes", .out = 4}),
                                     (bs_value){0}, &(bs_route_desc){.name = "route0", .paths = 4});
    bs_value out[4], inner_out[2];
    bs_block_begin(g, "leave");
    out[0] = bs_affine(g, bs_scatter(g, outer, 0, cells), 0.5f, 0);
    bs_block_end(g);
    bs_block_begin(g, "p1");
    out[1] = exit_path(g, bs_scatter(g, outer, 1, cells), 1, 12);
    bs_block_end(g);
    bs_block_begin(g, "p5");
    out[3] = exit_path(g, bs_scatter(g, outer, 3, cells), 5, 17);
    bs_block_end(g);
    bs_block_begin(g, "p2");
    const bs_value x = exit_path(g, bs_scatter(g, outer, 2, cells), 2, 20);
    const bs_value again = bs_pool2d(g, x, &(bs_pool2d_desc){.name = "again", .kind = BS_POOL_MAX, .global = 1});
    const bs_router inner = bs_route(g, bs_linear(g, again, &(bs_linear_desc){.name = "p2.exit", .out = 2}),
                                     (bs_value){0}, &(bs_route_desc){.name = "route1", .paths = 2});
    bs_block_begin(g, "p3");
    inner_out[0] = exit_path(g, bs_scatter(g, inner, 0, x), 3, 16);
    bs_block_end(g);
    bs_block_begin(g, "p4");
    inner_out[1] = bs_affine(g, bs_scatter(g, inner, 1, x), 2, 0);
    bs_block_end(g);
    out[2] = bs_gather(g, inner, inner_out, (bs_value){0}, NULL);
    bs_block_end(g);
    bs_output(g, "out", bs_assemble(g, bs_gather(g, outer, out, (bs_value){0}, NULL)));
}

static inline bs_value linear_block(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    bs_block_begin(g, name);
    const bs_value y = bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out, .act = BS_RELU});
    bs_block_end(g);
    return y;
}

/* Rows make as many trips as their scores say. In the body blocks, experts that are foretold, a loop with a block. */
static inline void build_steps(bs_graph *g)
{
    const bs_value none = {0};
    bs_value trips,
        x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 12), 24)), none);
    bs_topk(g, bs_linear(g, x, &(bs_linear_desc){.name = "trips", .out = 5}), 1, &trips);
    x = linear_block(g, x, "enter", 24);
    const bs_router steps = bs_loop_begin(g, x, trips, &(bs_loop_desc){.name = "steps", .bound = 5});
    const bs_value before = bs_loop_carry(g, steps, x);
    bs_value h = bs_add(g, before, linear_block(g, linear_block(g, before, "wide", 50), "narrow", 24));
    const bs_value score = bs_linear(g, h, &(bs_linear_desc){.name = "score0", .out = 4});
    bs_look_ahead(g, score, "route0");
    h = linear_block(g, h, "between", 24);
    moe_layer(g, &h, score, 0, 4);
    const bs_router again = bs_loop_begin(g, h, none, &(bs_loop_desc){.name = "again", .bound = 3});
    const bs_value was = bs_loop_carry(g, again, h);
    h = bs_loop_next(g, again, was, bs_clip(g, bs_add(g, was, linear_block(g, was, "inner", 24)), -4, 4));
    bs_loop_end(g, again, none);
    x = bs_loop_next(g, steps, before, h);
    bs_loop_end(g, steps, none);
    bs_output(g, "out", bs_collect(g, linear_block(g, x, "leave", 24)));
}

/* A body of one block, which may go round in tiles; experts before and after it. */
static inline void build_tiles(bs_graph *g)
{
    bs_value trips, x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 12), 24)), (bs_value){0});
    moe_layer(g, &x, bs_linear(g, x, &(bs_linear_desc){.name = "score0", .out = 3}), 0, 3);
    bs_topk(g, bs_linear(g, x, &(bs_linear_desc){.name = "trips", .out = 7}), 1, &trips);
    const bs_router loop = bs_loop_begin(g, x, trips, &(bs_loop_desc){.name = "steps", .bound = 6});
    const bs_value before = bs_loop_carry(g, loop, x);
    bs_block_begin(g, "cell");
    const bs_value h = bs_linear(g, before, &(bs_linear_desc){.name = "cell.a", .out = 40, .act = BS_RELU}),
                   y = bs_clip(g, bs_linear(g, h, &(bs_linear_desc){.name = "cell.b", .out = 24}), -2, 2);
    bs_block_end(g);
    x = bs_loop_next(g, loop, before, y);
    bs_loop_end(g, loop, bs_slice(g, y, &(bs_slice_desc){.length = 1}));
    moe_layer(g, &x, bs_linear(g, x, &(bs_linear_desc){.name = "score1", .out = 3}), 1, 3);
    bs_output(g, "out", bs_collect(g, x));
}

/* Convolutions of the root, in two loops in a loop: no halo goes from trip to trip. */
static inline void build_rounds(bs_graph *g)
{
    const bs_value none = {0};
    bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE3(4, bs_symbol(g, "H", 20), bs_symbol(g, "W", 20)));
    const bs_router outer = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "outer", .bound = 2});
    const bs_value first = bs_loop_carry(g, outer, x);
    bs_value y = first;
    for (int32_t b = 0; b < 2; b++) {
        const bs_loop_desc desc = {.name = name_of("inner", b, "", -1), .bound = 3};
        const bs_router inner = bs_loop_begin(g, y, none, &desc);
        const bs_value was = bs_loop_carry(g, inner, y);
        bs_value h = was;
        for (int32_t i = 0; i < 2; i++) {
            const char *name = name_of("c", b, "_", i);
            bs_block_begin(g, name);
            h = bs_conv2d(g, h, &(bs_conv2d_desc){.name = name, .out = i ? 4 : 16 + b, .kernel = 1, .act = BS_RELU});
            bs_block_end(g);
        }
        y = bs_loop_next(g, inner, was, bs_clip(g, h, -2, 2));
        bs_loop_end(g, inner, none);
    }
    x = bs_loop_next(g, outer, first, y);
    bs_loop_end(g, outer, none);
    bs_output(g, "out", x);
}

/* Many layers a chunk: narrow weights that are widened need more staging than is read. */
static inline void build_deep(bs_graph *g)
{
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 12), 24)), (bs_value){0});
    for (int32_t b = 0; b < 3; b++) {
        bs_block_begin(g, name_of("block", b, "", -1));
        for (int32_t i = 0; i < 10; i++)
            x = bs_linear(g, x,
                          &(bs_linear_desc){.name = name_of("D", b, "l", i),
                                            .out = b == 2 && i == 9 ? 24 : 63 + i % 2,
                                            .act = BS_RELU});
        bs_block_end(g);
    }
    bs_output(g, "out", bs_collect(g, x));
}

static const bs_graph *build(kind k)
{
    static void (*const builders[ALL_KINDS])(bs_graph *) = {build_moe,   build_chain,  build_exits, build_steps,
                                                           build_tiles, build_rounds, build_deep};
    bs_arena arena;
    n_names = 0;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    builders[k](g);
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (!g || bs_graph_check(g, &error) != BS_OK) {
        printf("the %s is refused: %s\n", kind_names[k], g ? error.message : "");
        exit(2);
    }
    return g;
}

#endif
