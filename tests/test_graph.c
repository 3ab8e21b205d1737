/* tags: unsigned shipped aarch64 32-bit */
/* Promises: a graph takes the bytes it says; equal expressions of symbols are one; nodes belong to the block that is
 * open. What cannot be built: test_messages_graph.c, test_messages_ops.c. Limits: test_limits_told.c. */
#include "graph_rig.h"

static void test_storage(void)
{
    bs_arena arena;
    const size_t bytes = bs_graph_bytes(NULL);
    bs_arena_init(&arena, "graph", graph_memory, bytes);
    check(bs_graph_create(&arena, NULL) && arena.used + BS_ALIGNMENT == arena.size,
          "a graph takes what bs_graph_bytes says, less what aligns it");
    bs_arena_init(&arena, "graph", graph_memory, bytes - BS_ALIGNMENT - 1);
    check(!bs_graph_create(&arena, NULL) && arena.used == 0, "and is not made in less");
    int32_t made = 0;
    for (size_t skip = 0; skip < BS_ALIGNMENT; skip++) {
        bs_arena_init(&arena, "graph", graph_memory + skip, bytes);
        bs_graph *g = bs_graph_create(&arena, NULL);
        made += g && (uint8_t *)g + bytes <= graph_memory + skip + bytes + BS_ALIGNMENT;
    }
    check(made == BS_ALIGNMENT, "memory of any alignment will do, malloc's among it");
    static const bs_graph_desc beyond[] = {
        {.max_nodes = -1},
        {.max_values = -1},
        {.max_text_bytes = -1},
        {.max_operands = -1},
        {.max_dims = -1},
        {.max_domains = -1},
        {.max_blocks = -1},
        {.max_routers = -1},
        {.max_text_bytes = 63},
        {.max_nodes = (1 << 24) + 1},
        {.max_values = (1 << 24) + 1},
        {.max_text_bytes = (1 << 30) + 1},
        {.max_operands = (1 << 26) + 1},
        {.max_dims = (1 << 24) + 1},
        {.max_domains = (1 << 24) + 1},
        {.max_blocks = (1 << 24) + 1},
        {.max_routers = (1 << 24) + 1},
    };
    const int32_t count = (int32_t)(sizeof beyond / sizeof *beyond);
    int32_t refused = 0;
    for (int32_t i = 0; i < count; i++)
        refused += bs_graph_bytes(&beyond[i]) == 0 && !bs_graph_create(&arena, &beyond[i]);
    check(refused == count, "capacities out of range are refused");
}

/* ------------------------------------------------------------------------------------------ symbols that are equal */

static bool same_dims(const bs_graph *g, bs_value a, bs_value b)
{
    return g->status == BS_OK && a.id && b.id && bs_same_shape(bs_value_get(g, a.id), bs_value_get(g, b.id));
}

static void test_multiples(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_dim h = bs_symbol(g, "H", 64), w = bs_symbol(g, "W", 48), h2 = bs_times(g, h, 2), w2 = bs_times(g, w, 2);
    const bs_value one = bs_input(g, "one", BS_F32, BS_SHAPE3(1, h, w)),
                   four = bs_input(g, "four", BS_F32, BS_SHAPE3(4, h, w));
    const bs_value twice = bs_input(g, "twice", BS_F32, BS_SHAPE3(1, h2, w2)),
                   state = bs_state(g, "state", BS_F32, BS_SHAPE3(1, h2, w2));
    const bs_value shuffled = bs_pixel_shuffle(g, four, 2);
    check(same_dims(g, shuffled, twice), "a shuffled [4,H,W] has the shape of [1,2H,2W]");
    check(same_dims(g, bs_resize(g, one, NULL), twice), "so has a resized [1,H,W]");
    check(same_dims(g,
                    bs_deconv2d(
                        g, one,
                        &(bs_deconv2d_desc){.out = 1, .kernel = 4, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1}),
                    twice),
          "and a transposed convolution's");
    check(same_dims(g, bs_add(g, shuffled, twice), state), "and they can be added");
    bs_state_write(g, state, shuffled);
    check(g->status == BS_OK, "and be written to a state of [1,2H,2W]");
    check(same_dims(g, bs_pixel_unshuffle(g, shuffled, 2), four), "an unshuffle takes a shuffle back");
    check(same_dims(g, bs_resize(g, bs_resize(g, one, NULL), &(bs_resize_desc){.factor = 3}),
                    bs_resize(g, one, &(bs_resize_desc){.factor = 6})),
          "2 times 3 is 6");
    check(bs_times(g, bs_times(g, h, 2), 3) == bs_times(g, h, 6) && bs_times(g, h, 1) == h, "of handles as well");
    check(same_dims(
              g, bs_conv2d(g, bs_conv2d(g, one, &(bs_conv2d_desc){.out = 4}), &(bs_conv2d_desc){.out = 1, .kernel = 5}),
              one),
          "convolutions that pad keep H and W");
    check(same_dims(g,
                    bs_slice(g, bs_concat(g, (bs_value[]){one, four}, 2, 0), &(bs_slice_desc){.start = 1, .length = 4}),
                    four),
          "channels joined and parted");
}

static void test_sums_and_halves(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value one = bs_input(g, "one", BS_F32, BS_SHAPE3(1, bs_symbol(g, "H", 64), bs_symbol(g, "W", 48)));
    const bs_value padded = bs_pad(g, one, &(bs_pad_desc){.top = 1, .bottom = 1, .left = 1, .right = 1});
    check(same_dims(g, bs_conv2d(g, padded, &(bs_conv2d_desc){.out = 1, .padding = BS_PAD_VALID}), one),
          "H + 2 - 2 is H");
    check(same_dims(g, bs_resize(g, padded, NULL),
                    bs_pad(g, bs_resize(g, one, NULL), &(bs_pad_desc){.top = 2, .bottom = 2, .left = 2, .right = 2})),
          "2 (H + 2) is 2 H + 4");
    const bs_value half = bs_conv2d(g, one, &(bs_conv2d_desc){.out = 1, .stride = 2}),
                   pooled = bs_pool2d(g, one, &(bs_pool2d_desc){.kind = BS_POOL_MAX});
    check(same_dims(g, bs_conv2d(g, one, &(bs_conv2d_desc){.out = 1, .kernel = 5, .stride = 2}), half),
          "(H + 1) / 2 by either kernel");
    check(g->status == BS_OK && !same_dims(g, half, pooled), "but H / 2 rounded down is another");
    check(same_dims(g, bs_pool2d(g, bs_resize(g, one, NULL), &(bs_pool2d_desc){.kind = BS_POOL_MAX}), one),
          "2 H / 2 is H");
    check(!same_dims(g, bs_resize(g, pooled, NULL), one) && g->status == BS_OK, "2 (H / 2) is not: H may be odd");
}

/* Which dimensions are one. */
static void test_symbols(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_dim w = bs_symbol(g, "W", 48);
    const bs_value one = bs_input(g, "one", BS_F32, BS_SHAPE3(1, bs_symbol(g, "H", 64), w));
    check(!same_dims(g, one, bs_input(g, "other", BS_F32, BS_SHAPE3(1, bs_symbol(g, "H", 64), w))),
          "symbols of one name are not one symbol");
    check(
        !same_dims(g, bs_input(g, "p", BS_F32, BS_SHAPE1(BS_UPTO(9))), bs_input(g, "q", BS_F32, BS_SHAPE1(BS_UPTO(9)))),
        "nor are two BS_UPTO");
    check(same_dims(g, bs_input(g, "c", BS_F32, BS_SHAPE1(9)), bs_input(g, "d", BS_F32, BS_SHAPE1(9))),
          "constants are equal by value");
    const bs_value cells = bs_patches(g, one, &(bs_patches_desc){.size = 15});
    check(g->domains[bs_value_get(g, cells.id)->domain].max_rows == 5 * 4,
          "64 x 48 pixels are up to 5 x 4 cells of 15");
    check(bs_shape_of(2, 3, 4, 0, 0).dim[1] == 4 && bs_times(g, 5, 3) == bs_times(g, 15, 1),
          "a constant times a factor is a constant");
}

/* Where bs_graph_create had no room there is no graph: building does nothing, and bs_graph_check tells. */
/* Whatever lies behind the values in memory. */
static void test_operand_behind_the_last(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    g->values[x.id + 1] = g->values[x.id];
    check(!bs_activation(g, (bs_value){x.id + 1}, BS_RELU, 0).id && g->status == BS_ERROR_GRAPH &&
              strstr(g->error.message, "which does not exist"),
          "the value behind the last one is no operand: %s", g->error.message);
}

static void test_no_graph(void)
{
    const bs_value none = {0}, some = {1};
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, 64);
    bs_graph *g = bs_graph_create(&arena, NULL);
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    check(!g && !bs_graph_create(NULL, NULL), "no graph without room, or an arena");
    bs_block_begin(g, "block");
    bs_block_end(g);
    bs_output(g, "y", some);
    bs_state_write(g, some, some);
    bs_state_append(g, some, some, some);
    bs_look_ahead(g, some, "r");
    const bs_router r = bs_route(g, some, none, &(bs_route_desc){.name = "r", .paths = 2});
    const int32_t made = bs_input(g, "x", BS_F32, BS_SHAPE1(4)).id + bs_state(g, "x", BS_F32, BS_SHAPE1(4)).id +
                         bs_add(g, some, some).id + bs_reshape(g, some, BS_SHAPE1(4)).id +
                         bs_gather(g, r, &some, none, NULL).id + bs_scatter(g, r, 0, some).id +
                         bs_route_score(g, r).id + bs_route_price(g, r).id + bs_topk(g, some, 1, NULL).id +
                         bs_patches(g, some, NULL).id + bs_branch(g, r, 0, "block", some, NULL, NULL).id +
                         bs_concat(g, &some, 1, 0).id + r.id;
    check(made == 0 && bs_symbol(g, "S", 4) == 0 && bs_times(g, 4, 2) == 0, "nothing is built upon nothing");
    check(bs_graph_check(g, NULL) == BS_ERROR_ARGUMENT && bs_graph_check(g, &error) == BS_ERROR_ARGUMENT &&
              bs_graph_bytes(NULL) > 0,
          "%s", error.message);
    g = new_graph(NULL);
    bs_symbol(g, "S", 0);
    check(bs_graph_check(g, NULL) == BS_ERROR_SHAPE, "a status without an error to fill");
}

/* What only looks alike: frames, domains and dimensions that differ in one thing. */
static void test_domains(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_dim h = bs_symbol(g, "H", 64), w = bs_symbol(g, "W", 48);
    const bs_value frames[4] = {
        bs_input(g, "hw", BS_F32, BS_SHAPE3(1, h, w)), bs_input(g, "hh", BS_F32, BS_SHAPE3(1, h, h)),
        bs_input(g, "ww", BS_F32, BS_SHAPE3(1, w, w)), bs_input(g, "hw2", BS_F32, BS_SHAPE3(2, h, w))};
    int32_t domains[5];
    for (int32_t i = 0; i < 5; i++)
        domains[i] = g->values[bs_patches(g, frames[i % 4], &(bs_patches_desc){.size = i < 4 ? 16 : 8}).id].domain;
    bool apart = domains[0] == domains[3];
    for (int32_t i = 0; i < 5; i++)
        for (int32_t k = 0; k < i; k++)
            apart = apart && (domains[i] != domains[k] || (i == 3 && k == 0));
    check(apart, "patches of equal extents and size are one domain, others are not");
    const bs_value thirds = bs_pool2d(g, frames[0], &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = 3}),
                   halves = bs_pool2d(g, frames[0], &(bs_pool2d_desc){.kind = BS_POOL_MAX});
    check(!same_dims(g, thirds, halves) && g->status == BS_OK, "H / 3 is not H / 2");
    const bs_value table = bs_input(g, "table", BS_F32, BS_SHAPE2(h, 4)),
                   twice = bs_concat(g, (bs_value[]){table, table}, 2, 0);
    check(same_dims(g, twice, bs_input(g, "twice", BS_F32, BS_SHAPE2(bs_times(g, h, 2), 4))), "H joined to H is 2 H");
    const bs_value more = bs_concat(g, (bs_value[]){table, bs_input(g, "five", BS_F32, BS_SHAPE2(5, 4))}, 2, 0),
                   half = bs_pool2d(g, bs_input(g, "lines", BS_F32, BS_SHAPE3(1, h, 2)), NULL);
    check(same_dims(g, bs_reshape(g, more, BS_SHAPE1(-1)), bs_reshape(g, more, BS_SHAPE1(-1))) &&
              bs_reshape(g, half, BS_SHAPE1(-1)).id != 0,
          "4 (H + 5) is 4 H + 20");
    const bs_value cells = bs_patches(g, frames[0], NULL), gain = bs_input(g, "gain", BS_F32, BS_SHAPE3(1, 1, 1));
    check(bs_mul(g, cells, gain).id != 0 && bs_state(g, "row", BS_F32, BS_SHAPE1(1)).id != 0,
          "what is the same for every pixel can be captured beside patches");
    const bs_value bytes = bs_state(g, "bytes", BS_F32, BS_SHAPE2(40, 4));
    bs_state_write(g, bytes, bs_input(g, "fewer", BS_F32, BS_SHAPE2(30, 4)));
    const bs_value scores = bs_rows(g, bs_input(g, "scores", BS_I32, BS_SHAPE2(9, 2)), (bs_value){0});
    bs_look_ahead(g, scores, "later");
    const bs_router r = bs_route(g, scores, (bs_value){0}, &(bs_route_desc){.name = "later", .paths = 2});
    check(bs_branch(g, r, 0, "as it is", scores, NULL, NULL).id != 0 && g->status == BS_OK,
          "a branch without a function gives its rows: %s", g->error.message);
    const bs_value losses = bs_rows(g, bs_input(g, "losses", BS_I32, BS_SHAPE2(9, 3)), (bs_value){0});
    check(bs_route(
              g, losses, (bs_value){0},
              &(bs_route_desc){.name = "budget", .paths = 2, .protocol = BS_ROUTE_BUDGET, .variants = 3, .baseline = 3})
                  .id != 0,
          "the baseline of a budget is a variant: there may be more of them than paths");
    check(strcmp(bs_protocol_name(BS_ROUTE_TOP1), "top1") == 0 &&
              strcmp(bs_protocol_name((bs_protocol)-1), "unknown") == 0 &&
              strcmp(bs_protocol_name((bs_protocol)(BS_PROTOCOL_COUNT + 1)), "unknown") == 0,
          "protocols have names");
}

static void test_blocks(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_block_begin(g, "outer");
    const bs_value y = bs_activation(g, x, BS_RELU, 0);
    bs_block_begin(g, "inner");
    const bs_value z = bs_activation(g, y, BS_RELU, 0);
    bs_block_end(g);
    bs_block_end(g);
    const bs_value end = bs_activation(g, z, BS_RELU, 0);
    const bs_value values[4] = {x, y, z, end};
    const int32_t blocks[4] = {0, 1, 2, 0};
    bool ok = g->status == BS_OK && g->n_blocks == 3 && g->blocks[2].parent == 1 && g->blocks[1].parent == 0;
    for (int32_t i = 0; i < 4; i++)
        ok = ok && g->nodes[g->values[values[i].id].node].block == blocks[i];
    check(ok, "nodes belong to the block that is open when they are built");
}

static void test_ports(void)
{
    bs_graph *g = new_graph(NULL);
    bs_port_facts port = {.rank = 9};
    bs_router_facts router = {9, 9};
    const bs_value none = {0},
                   frame = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, bs_symbol(g, "H", 96), bs_symbol(g, "W", 144)));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 48});
    const bs_value spread = bs_convert(g, bs_patch_features(g, cells, none, NULL), &(bs_convert_desc){.dtype = BS_F32});
    const bs_value tokens = bs_rows(g, bs_input(g, "tokens", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 7), 2)), none);
    const bs_router by_patch =
        bs_route(g, spread, none, &(bs_route_desc){.name = "by_patch", .protocol = BS_ROUTE_TOP1, .paths = 2});
    const bs_router by_row =
        bs_route(g, tokens, none, &(bs_route_desc){.name = "by_row", .protocol = BS_ROUTE_TOP1, .paths = 2});
    const bs_value path[2] = {bs_scatter(g, by_patch, 0, cells), bs_scatter(g, by_patch, 1, cells)};
    (void)by_row;
    bs_output(g, "same", bs_assemble(g, bs_gather(g, by_patch, path, none, NULL)));
    if (!check(g->status == BS_OK, "a graph with two routers: %s", g->error.message))
        return;
    check(bs_graph_port_get(g, "frame", &port) == BS_OK && !port.output && port.dtype == BS_U8 && port.rank == 3 &&
              port.dim[0] == 1 && port.dim[1] == 96 && port.dim[2] == 144 && port.dim[3] == 0,
          "an input is known by its name: type, rank and largest extents");
    check(bs_graph_port_get(g, "same", &port) == BS_OK && port.output && port.dtype == BS_U8 && port.dim[2] == 144,
          "so is an output");
    check(strcmp(bs_graph_port_name(g, 0), "frame") == 0 && strcmp(bs_graph_port_name(g, 1), "tokens") == 0 &&
              strcmp(bs_graph_port_name(g, 2), "same") == 0 && !bs_graph_port_name(g, 3),
          "their names can be listed");
    check(bs_graph_port_get(g, "by_patch", &port) == BS_ERROR_ARGUMENT &&
              bs_graph_port_get(g, "", &port) == BS_ERROR_ARGUMENT &&
              bs_graph_port_get(NULL, "frame", &port) == BS_ERROR_ARGUMENT &&
              bs_graph_port_get(g, NULL, &port) == BS_ERROR_ARGUMENT,
          "what is neither is not");
    check(bs_graph_router_get(g, "by_patch", &router) == BS_OK && router.paths == 2 && router.patch_size == 48,
          "a router tells its patches' size");
    check(bs_graph_router_get(g, "by_row", &router) == BS_OK && router.paths == 2 && router.patch_size == 0,
          "one that has none says 0");
    check(bs_graph_router_get(g, "frame", &router) == BS_ERROR_ARGUMENT &&
              bs_graph_router_get(NULL, "by_row", &router) == BS_ERROR_ARGUMENT,
          "what is no router is none");
}

/* A network that halves its frame and doubles it again fits beside it, whatever the order of rounding. */
static void test_equal_extents(void)
{
    static const struct { int32_t kernel, pad, times; bool equal; } rows[] = {
        {3, 1, 32, true}, {3, 0, 32, false}, {2, 0, 2, true}, {5, 2, 6, true}, {3, 1, 3, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bs_graph *g = new_graph(NULL);
        const bs_dim side = bs_times(g, bs_symbol(g, "N", 20), rows[i].times);
        const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(4, side, side));
        const bs_conv2d_desc conv = {.name = "half",
                                     .out = 4,
                                     .kernel = rows[i].kernel,
                                     .stride = 2,
                                     .padding = rows[i].pad ? BS_PAD_EXPLICIT : BS_PAD_VALID,
                                     .pad = rows[i].pad};
        bs_output(g, "y", bs_add(g, x, bs_resize(g, bs_conv2d(g, x, &conv), &(bs_resize_desc){.factor = 2})));
        check((g->status == BS_OK) == rows[i].equal, "%d times a symbol, a window of %d: %s", rows[i].times,
              rows[i].kernel, g->error.message);
    }
    bs_graph *g = new_graph(&(bs_graph_desc){.max_dims = 1 << 14});
    const bs_dim_id of = bs_dim_resolve(g, bs_symbol(g, "M", 99));
    int wrong = 0;
    for (int64_t mul = 1; mul < 13; mul++)
        for (int64_t div = 1; div < 13; div++)
            for (int64_t add = -9; add < 10; add++) {
                const bs_dim_id id = bs_dim_derive(g, of, mul, add, div);
                const bs_dim_info *d = id >= 0 ? &g->dims[id] : NULL;
                for (int64_t n = 1; n < 40 && d; n++)
                    wrong += bs_floor_div(n * mul + add, div) !=
                             (d->kind == BS_DIM_SYMBOL ? n : bs_floor_div(n * d->mul + d->add, d->div));
            }
    check(wrong == 0 && g->status == BS_OK, "%d derived extents are wrong: %s", wrong, g->error.message);
}

/* ------------------------------------------------------------------------------------------ scales of frames */

enum { SIZED = 6 };
static const bs_value none;

/* Six numbers that an image of rows or of the root was made into, at its own scale or at half of it. */
static bs_value made_of(bs_graph *g, bs_value image, bool half)
{
    const bs_value v = half ? bs_pool2d(g, image, &(bs_pool2d_desc){.name = "half"}) : image;
    return bs_linear(g, bs_reshape(g, v, BS_SHAPE1(half ? 2 * 4 * 4 : 2 * 8 * 8)),
                     &(bs_linear_desc){.name = half ? "h" : "w", .out = SIZED});
}

static void in_a_loop(bs_graph *g, bs_value x)
{
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "loop", .bound = 2});
    const bs_value v = bs_loop_carry(g, loop, made_of(g, x, false));
    bs_loop_next(g, loop, v, bs_add(g, v, made_of(g, bs_scatter(g, loop, 0, x), true)));
    bs_loop_end(g, loop, none);
}

static void of_paths(bs_graph *g, bs_value x)
{
    const bs_value score = bs_linear(g, made_of(g, x, true), &(bs_linear_desc){.name = "score", .out = 2});
    const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = "r", .paths = 2});
    bs_gather(g, r, (bs_value[]){made_of(g, bs_scatter(g, r, 0, x), false), made_of(g, bs_scatter(g, r, 1, x), true)},
              none, NULL);
}

static void added(bs_graph *g, bs_value x) { bs_add(g, made_of(g, x, false), made_of(g, x, true)); }

static void joined(bs_graph *g, bs_value x)
{
    bs_concat(g, (bs_value[]){made_of(g, x, false), made_of(g, x, true)}, 2, 0);
}

/* Images of rows are no cells of a frame: of the same shape they are alike, however they became that. */
static void of_images(bs_graph *g, bs_value x)
{
    const bs_value half = bs_pool2d(g, x, NULL), whole = bs_slice(g, x, &(bs_slice_desc){.axis = 1, .length = 4});
    bs_add(g, half, bs_slice(g, whole, &(bs_slice_desc){.axis = 2, .length = 4}));
}

static void test_scales(void)
{
    static void (*const builds[])(bs_graph *g, bs_value x) = {in_a_loop, of_paths, added, joined, of_images};
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++)
        for (int32_t of = 0; of < 2; of++) {
            bs_error error = {0};
            bs_graph *g = new_graph(NULL);
            const bs_value all = bs_input(g, "x", BS_F32, BS_SHAPE4(3, 2, 8, 8)),
                           one = bs_input(g, "one", BS_F32, BS_SHAPE3(2, 8, 8));
            if (of == 1 && builds[i] == of_paths)
                continue; /* no router is of the root */
            builds[i](g, of == 0 ? bs_rows(g, all, none) : one);
            check(bs_graph_check(g, &error) == BS_OK, "build %d of %s: numbers forget the scale of their image %s",
                  (int)i, of == 0 ? "rows" : "the root", error.message);
        }
}

int main(void)
{
    test_scales();
    test_equal_extents();
    test_storage();
    test_multiples();
    test_sums_and_halves();
    test_symbols();
    test_operand_behind_the_last();
    test_no_graph();
    test_domains();
    test_blocks();
    test_ports();
    return check_end();
}
