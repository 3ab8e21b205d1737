/* tags: asan */
/* Promises: every message of routers, of what they scatter and gather, and of segments names the op, its node, the
 * value or router at fault and what was expected, word for word; what says no other than by such a message is not
 * there. */
#include "ops/table.h"
#include "ops/structure.h"
#include "wrong_builds.h"

typedef bs_gather_params gather_params;
typedef bs_router_params router_params;
static const bs_router none_router = {0};

static bs_value scattered(bs_graph *g, const fixture *f, const char *name)
{
    return bs_scatter(g, bs_route(g, f->score, none, &(bs_route_desc){.name = name, .paths = 2}), 0, f->cells);
}

static void rows_of_scores(void)
{
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2], top1 takes f32 or i32 [3]",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 3}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2], budget takes i32 [2]",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET}));
    WRONG(BS_ERROR_DOMAIN, "route \"r\": scores are a root value: make cells first (bs_rows, bs_patches)",
          bs_route(g, f->line, none, &(bs_route_desc){.name = "r", .paths = 4}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2, H<=64, W<=48], top1 takes f32 or i32 [2]",
          bs_route(g, f->cells, none, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": the knob is f32 [4] of the root, expected a root value f32 [1]",
          bs_route(g, f->score, f->line, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE,
          "route \"r\": the knob is f32 [2] of patches of 16 [H<=64, W<=48], expected a root value f32 [1]",
          bs_route(g, f->score, f->score, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are i32 [1], budget takes i32 [3]",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET, .variants = 3}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2], label takes i32 [1]",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_LABEL}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are i32 [1], binary takes f32 [1]",
          bs_route(g, f->labels, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BINARY}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are u8 [2], top1 takes f32 or i32 [2]",
          bs_route(g, bs_convert(g, f->score, &(bs_convert_desc){.dtype = BS_U8}), none,
                   &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2, H<=64, W<=48], callback takes f32 or i32 [n]",
          bs_route(g, f->cells, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_CALLBACK}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [N<=40], top1 takes f32 or i32 [40]",
          bs_route(g, bs_rows(g, bs_input(g, "i", BS_F32, BS_SHAPE2(4, f->n)), none), none,
                   &(bs_route_desc){.name = "r", .paths = 40}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": the knob is i32 [4] of the root, expected a root value f32 [1]",
          bs_route(g, f->score, f->numbers, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": the knob is f32 [N<=40, 4] of the root, expected a root value f32 [1]",
          bs_route(g, f->score, f->table, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_GRAPH, "route_score: operand 0 is value 12, expected the scores of router \"first\", value 17",
          bs_op_build_numbered(g, bs_op_index("route_score"), &f->cells.id, 1, &(router_params){"", 1, 0}));
}

static void rows_of_route(void)
{
    WRONG(BS_ERROR_GRAPH, "route \"first\": its name is taken by an earlier router",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "first", .paths = 2}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": protocol is 10, expected 0 .. 9",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_PROTOCOL_COUNT}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 0, expected 1 .. 32767",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r"}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 32768, expected 1 .. 32767",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 32768}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 3, expected 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 3, .protocol = BS_ROUTE_BINARY}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": k is 3, expected 0 .. 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .k = 3, .protocol = BS_ROUTE_TOPK}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": fallback is 3, expected 0 .. 2",
          bs_route(g, f->score, none,
                   &(bs_route_desc){.name = "r", .paths = 2, .fallback = 3, .protocol = BS_ROUTE_THRESHOLD}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": capacity is 0, expected 1 .. 2147483647",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_CAPACITY}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": spill is 3, expected 0 .. 2",
          bs_route(
              g, f->score, none,
              &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_CAPACITY, .capacity = 1, .spill = 3}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": spill is 1, expected 0",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .spill = 1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": protocol is -1, expected 0 .. 9",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 1, expected 2",
          bs_route(g, f->score, none,
                   &(bs_route_desc){.name = "r", .paths = 1, .protocol = BS_ROUTE_RESIDUAL_THRESHOLD}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": k is -1, expected 0 .. 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .k = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": fallback is -1, expected 0 .. 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .fallback = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": capacity is -1, expected 0 .. 2147483647",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .capacity = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": keys is -1, expected 0 .. 2147483647",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_TABLE, .keys = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": variants is 32768, expected 0 .. 32767",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET, .variants = 32768}));
    WRONG(
        BS_ERROR_ARGUMENT, "route \"r\": baseline is 2, expected 0 .. 1",
        bs_route(g, f->labels, none,
                 &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET, .variants = 1, .baseline = 2}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": floor is -1, expected 0 .. 16777216",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 1, .protocol = BS_ROUTE_BUDGET, .floor = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": floor is 16777217, expected 0 .. 16777216",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 1, .protocol = BS_ROUTE_BUDGET, .floor = (1 << 24) + 1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": floor is 1, expected 0",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .floor = 1}));
}

static void rows_of_scatter(void)
{
    WRONG(BS_ERROR_GRAPH, "scatter: router 7 does not exist", bs_scatter(g, (bs_router){7}, 0, f->cells));
    WRONG(BS_ERROR_ARGUMENT, "scatter: path 2 of router \"first\", which has 2", bs_scatter(g, f->router, 2, f->cells));
    WRONG(BS_ERROR_DOMAIN,
          "scatter: operand 0 is of rows [N<=40], router \"first\" decides for patches of 16 [H<=64, W<=48]",
          bs_scatter(g, f->router, 0, f->tokens));
    WRONG(BS_ERROR_DOMAIN,
          "scatter: operand 0 is of path 0 of \"first\", router \"first\" decides for patches of 16 [H<=64, W<=48]",
          bs_scatter(g, f->router, 0, f->inside));
    WRONG(BS_ERROR_ARGUMENT, "scatter: path -1 of router \"first\", which has 2",
          bs_scatter(g, f->router, -1, f->cells));
    WRONG(BS_ERROR_GRAPH, "scatter: router 0 does not exist", bs_scatter(g, (bs_router){0}, 0, f->cells));
}

static void gather_place_many(const fixture *f)
{
    const bs_router r = bs_route(f->g, f->score, none,
                                 &(bs_route_desc){.name = "many", .paths = 2, .k = 2, .protocol = BS_ROUTE_TOPK});
    bs_gather(f->g, r, (bs_value[]){bs_scatter(f->g, r, 0, f->cells), none}, none, NULL);
}

static void gather_sums_of_codes(const fixture *f)
{
    const bs_router r = bs_route(f->g, f->labels, none,
                                 &(bs_route_desc){.name = "labels", .paths = 2, .protocol = BS_ROUTE_LABEL});
    bs_gather(f->g, r, (bs_value[]){bs_scatter(f->g, r, 0, f->labels), none}, none,
              &(bs_gather_desc){.mode = BS_GATHER_ADD});
}

/* Two paths that give the same extents in frames of other scales: half of one pixel is one pixel. */
static void gather_of_scales(bs_graph *g)
{
    const bs_value cells = bs_patches(g, bs_input(g, "pixel", BS_F32, BS_SHAPE3(2, 1, 1)),
                                      &(bs_patches_desc){.size = 2});
    const bs_router r = bs_route(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}), none,
                                 &(bs_route_desc){.name = "tiny", .paths = 2});
    const bs_value whole = bs_scatter(g, r, 0, cells),
                   half = bs_conv2d(g, bs_scatter(g, r, 1, cells),
                                    &(bs_conv2d_desc){.name = "c", .out = 2, .stride = 2});
    bs_gather(g, r, (bs_value[]){whole, half}, none, NULL);
}

static void rows_of_gathered_paths(void)
{
    WRONG(BS_ERROR_GRAPH, "gather: no path of \"first\" gives anything, and there is no residual",
          bs_gather(g, f->router, (bs_value[]){none, none}, none, NULL));
    WRONG(BS_ERROR_SHAPE,
          "gather: path 1 of \"first\" gives f32 [2], another path f32 [2, H<=64, W<=48]",
          bs_gather(g, f->router, (bs_value[]){f->inside, bs_scatter(g, f->router, 1, f->score)}, none, NULL));
    WRONG(BS_ERROR_SHAPE,
          "gather: path 1 of \"first\" gives f32 [2, H<=64, W<=48], another path f32 [2, 2H<=128, 2W<=96]",
          bs_gather(g, f->router, (bs_value[]){bs_resize(g, f->inside, NULL), bs_scatter(g, f->router, 1, f->cells)},
                    none, NULL));
    WRONG(BS_ERROR_GRAPH, "gather: no path of \"first\" gives anything, and there is no residual",
          bs_gather(g, f->router, NULL, none, NULL));
    WRONG(
        BS_ERROR_SHAPE,
        "gather: path 1 of \"first\" gives u8 [2, H<=64, W<=48], another path f32 [2, H<=64, W<=48]",
        bs_gather(g, f->router,
                  (bs_value[]){f->inside, bs_convert(g, bs_scatter(g, f->router, 1, f->cells),
                                                     &(bs_convert_desc){.dtype = BS_U8})},
                  none, NULL));
    WRONG(
        BS_ERROR_SHAPE,
        "gather: path 1 of \"first\" gives f32 [1, H<=64, W<=48], another path f32 [2, H<=64, W<=48]",
        bs_gather(
            g, f->router,
            (bs_value[]){f->inside, bs_slice(g, bs_scatter(g, f->router, 1, f->cells), &(bs_slice_desc){.length = 1})},
            none, NULL));
    WRONG(BS_ERROR_ARGUMENT, "gather: place takes at most one path a cell, router \"many\" gives up to 2",
          gather_place_many(f));
    WRONG(BS_ERROR_SHAPE, "gather: sums are of f32, the paths of \"labels\" give i32", gather_sums_of_codes(f));
    WRONG(BS_ERROR_SHAPE,
          "gather: dimensions 1 and 2 are of frames of scale 1/1 and 1/2",
          gather_of_scales(g));
}

static void rows_of_gather(void)
{
    WRONG(BS_ERROR_GRAPH, "gather: router \"a\" is a loop, whose rows come back by bs_loop_next",
          (bs_loop_begin(g, f->labels, none, &(bs_loop_desc){.name = "a", .bound = 3}),
           bs_gather(g, (bs_router){2}, (bs_value[]){bs_scatter(g, (bs_router){2}, 0, f->labels)}, none, NULL)));
    WRONG(BS_ERROR_GRAPH, "gather: router 7 does not exist",
          bs_gather(g, (bs_router){7}, (bs_value[]){f->inside, none}, none, NULL));
    WRONG(BS_ERROR_DOMAIN, "gather: operand 1 is of path 0 of \"first\", expected path 1 of \"first\"",
          bs_gather(g, f->router, (bs_value[]){none, f->inside}, none, NULL));
    WRONG(BS_ERROR_SHAPE, "gather: the residual is f32 [2], paths of \"first\" give f32 [2, H<=64, W<=48]",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, f->score, NULL));
    WRONG(BS_ERROR_ARGUMENT, "gather: mode is 4, expected 0 .. 3",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, none, &(bs_gather_desc){.mode = 4}));
    WRONG(BS_ERROR_GRAPH, "gather: router -1 does not exist", bs_gather(g, (bs_router){-1}, NULL, none, NULL));
    WRONG(BS_ERROR_GRAPH, "gather \"a\": 2 operands, expected one for each of 2 paths of \"first\" and a residual",
          bs_op_build_numbered(g, bs_op_index("gather"), (int32_t[]){f->inside.id, 0}, 2, &(gather_params){"a", 1, 0}));
    WRONG(BS_ERROR_DOMAIN, "gather: operand 0 is of patches of 16 [H<=64, W<=48], expected path 0 of \"first\"",
          bs_gather(g, f->router, (bs_value[]){f->cells, none}, none, NULL));
    WRONG(BS_ERROR_DOMAIN, "gather: operand 0 is of path 0 of \"other\", expected path 0 of \"first\"",
          bs_gather(g, f->router, (bs_value[]){scattered(g, f, "other"), none}, none, NULL));
    WRONG(BS_ERROR_ARGUMENT, "gather \"a\": mode is -1, expected 0 .. 3",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, none, &(bs_gather_desc){.name = "a", .mode = -1}));
    WRONG(BS_ERROR_DOMAIN,
          "gather: the residual is of the root, router \"first\" decides for patches of 16 [H<=64, W<=48]",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, f->frame, NULL));
}

static void rows_of_asking(void)
{
    WRONG(BS_ERROR_ARGUMENT, "route: a name is needed", bs_route(g, f->score, none, NULL));
    WRONG(BS_ERROR_ARGUMENT, "route: a name is needed", bs_route(g, f->score, none, &(bs_route_desc){.paths = 2}));
    WRONG(BS_ERROR_DOMAIN, "route_price: router \"b\" is in the body of a loop: its price is another in every trip",
          (bs_loop_begin(g, f->labels, none, &(bs_loop_desc){.name = "a", .bound = 3}),
           bs_route_price(g, bs_route(g, bs_scatter(g, (bs_router){2}, 0, f->labels), none,
                                      &(bs_route_desc){.name = "b", .protocol = BS_ROUTE_BUDGET, .paths = 1}))));
    WRONG(BS_ERROR_ARGUMENT, "route_price: router \"first\" is of protocol top1, expected budget",
          bs_route_price(g, f->router));
    WRONG(BS_ERROR_GRAPH, "route_price: router 7 does not exist", bs_route_price(g, (bs_router){7}));
    WRONG(BS_ERROR_GRAPH, "route_score: router 7 does not exist", bs_route_score(g, (bs_router){7}));
    WRONG(BS_ERROR_GRAPH, "route_score: router 2 does not exist",
          bs_op_build_numbered(g, bs_op_index("route_score"), &f->cells.id, 1, &(router_params){"", 2, 0}));
    WRONG(BS_ERROR_GRAPH, "route_score: router 0 does not exist", bs_route_score(g, none_router));
    WRONG(BS_ERROR_ARGUMENT, "look_ahead: the name of a router is needed", bs_look_ahead(g, f->score, NULL));
    WRONG(BS_ERROR_SHAPE, "look_ahead \"first\": operand 0 is f32 [2, H<=64, W<=48], expected f32 or i32 [paths]",
          bs_look_ahead(g, f->cells, "first"));
    WRONG(BS_ERROR_SHAPE, "look_ahead \"first\": operand 0 is u8 [2], expected f32 or i32 [paths]",
          bs_look_ahead(g, bs_convert(g, f->score, &(bs_convert_desc){.dtype = BS_U8}), "first"));
    WRONG(BS_ERROR_SHAPE, "look_ahead \"first\": operand 0 is f32 [N<=40], expected f32 or i32 [paths]",
          bs_look_ahead(g, bs_rows(g, bs_input(g, "i", BS_F32, BS_SHAPE2(4, f->n)), none), "first"));
}

static bs_router router_of_words(const fixture *f)
{
    return bs_route(f->g, f->words, none, &(bs_route_desc){.name = "a", .paths = 4});
}

static void rows_of_segments(void)
{
    WRONG(BS_ERROR_DOMAIN, "segments: operand 0 is of rows [N<=40], expected a root value",
          bs_segments(g, f->tokens, f->lengths));
    WRONG(BS_ERROR_SHAPE, "segments: operand 0 is [], expected rank 1 to 4",
          bs_segments(g, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0)), f->lengths));
    WRONG(BS_ERROR_SHAPE, "segments: operand 1 (lengths) is f32 [4], expected i32 [segments]",
          bs_segments(g, f->table, f->line));
    WRONG(BS_ERROR_SHAPE, "segments: operand 1 (lengths) is i32 [5, 1], expected i32 [segments]",
          bs_segments(g, f->table, bs_input(g, "i", BS_I32, BS_SHAPE2(5, 1))));
    WRONG(BS_ERROR_GRAPH, "segments: operand 1 (lengths) is made by constant, expected an input",
          bs_segments(g, f->table, bs_constant(g, "k", BS_I32, BS_SHAPE1(5))));
    WRONG(BS_ERROR_GRAPH, "segments: operand 1 (lengths) is made by state, expected an input",
          bs_segments(g, f->table, f->cache));
    WRONG(BS_ERROR_GRAPH, "state_append: operand 0 is made by input \"table\", expected a state",
          bs_state_append(g, f->table, f->words, f->past));
    WRONG(BS_ERROR_DOMAIN,
          "state_append: operand 1 is of rows [N<=40], expected segments (bs_segments)",
          bs_state_append(g, f->cache, f->tokens, f->past));
    WRONG(BS_ERROR_DOMAIN,
          "state_append: operand 1 is of path 1 of \"a\", expected segments (gather what a router scattered first)",
          bs_state_append(g, f->cache, bs_scatter(g, router_of_words(f), 1, f->words), f->past));
    WRONG(BS_ERROR_SHAPE, "state_append: operand 2 (cache_lengths) is [4], expected one for each of 5 segments",
          bs_state_append(g, f->cache, f->words, f->numbers));
    WRONG(
        BS_ERROR_SHAPE,
        "state_append: cells f32 [4] do not fit a state of f32 [2, H<=64, W<=48], expected [segments, window, ...cell]",
        bs_state_append(g, f->state, f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of i32 [5, 6, 4], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_I32, BS_SHAPE3(5, 6, 4)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [4, 6, 4], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE3(4, 6, 4)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [5, N<=40, 4], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE3(5, f->n, 4)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [5, 6, 5], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE3(5, 6, 5)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [5, 6], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE2(5, 6)), f->words, f->past));
    WRONG(BS_ERROR_GRAPH, "state_append: state \"cache\" is written twice",
          (bs_state_append(g, f->cache, f->words, f->past), bs_state_append(g, f->cache, f->words, f->past)));
}

static void route_numbered(bs_graph *g, bs_value score, int32_t number, bs_route_desc desc)
{
    char name[16];
    snprintf(name, sizeof name, "r%d", number);
    desc.name = name;
    bs_route(g, score, none, &desc);
}

static void test_router_limit(void)
{
    bs_graph *g = new_graph(&(bs_graph_desc){.max_routers = 63});
    int32_t made = 0;
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, 64)), none);
    for (; g->status == BS_OK && made < 2000; made++)
        route_numbered(g, x, made, (bs_route_desc){.paths = 64});
    check(made == 64, "%d routers", made - 1);
    stops_with(g, "route \"r63\": the graph is full: 63 routers (bs_graph_desc.max_routers)");
}

static void test_path_limit(void)
{
    bs_graph *g = new_graph(&(bs_graph_desc){.max_nodes = 9000, .max_text_bytes = 1 << 21, .max_routers = 9000});
    const bs_value label = bs_rows(g, bs_input(g, "x", BS_I32, BS_SHAPE2(9, 1)), none);
    for (int32_t made = 0; g->status == BS_OK && made < 9000; made++)
        route_numbered(g, label, made, (bs_route_desc){.protocol = BS_ROUTE_LABEL, .paths = BS_MAX_PATHS});
    stops_with(g, "route \"r8192\": all routers together have more than 268435456 paths");
}

int main(void)
{
    rows_of_scores();
    rows_of_route();
    rows_of_scatter();
    rows_of_gathered_paths();
    rows_of_gather();
    rows_of_asking();
    rows_of_segments();
    test_router_limit();
    test_path_limit();
    wrong_builds_end();
    messages_of("src/ops/look_ahead.c");
    messages_of("src/ops/routers.c");
    messages_of("src/ops/segments.c");
    return check_end();
}
