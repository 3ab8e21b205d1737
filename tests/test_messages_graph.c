/* tags: asan */
/* Promises: every message of the builder names the op, its node and what was expected, word for word; limits are named
 * with the field that raises them; what says no other than by such a message is not there. */
#include "ops/table.h"
#include "ops/structure.h"
#include "wrong_builds.h"

typedef bs_router_params router_params;

static void rows_of_symbols(void)
{
    WRONG(BS_ERROR_SHAPE, "symbol \"S\": its maximum is 0, expected 1 .. 2^30", bs_symbol(g, "S", 0));
    WRONG(BS_ERROR_SHAPE, "symbol \"S\": its maximum is 2147483648, expected 1 .. 2^30",
          bs_symbol(g, "S", (int64_t)1 << 31));
    WRONG(BS_ERROR_SHAPE, "bs_times: the factor is 0, expected 1 .. 2^30", bs_times(g, f->h, 0));
    /* the first mistake is told */
    WRONG(BS_ERROR_SHAPE, "bs_times: the factor is -1, expected 1 .. 2^30", bs_times(g, BS_UPTO(0), -1));
    WRONG(
        BS_ERROR_SHAPE,
        "bs_times: a dimension would be (H<=64 * 67108864 +0) / 1, expected numbers of 2^30 at most, and 1 at least as "
        "the result",
        bs_times(g, f->h, 1 << 26));
    WRONG(BS_ERROR_SHAPE, "symbol \"\": its maximum is -1, expected 1 .. 2^30", bs_symbol(g, NULL, -1));
    WRONG(BS_ERROR_SHAPE, "bs_times: 1099511627776 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, BS_UPTO(0), 2));
    WRONG(BS_ERROR_SHAPE, "bs_times: 2199023259649 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, f->h + 4096, 2));
    WRONG(BS_ERROR_SHAPE,
          "bs_times: a dimension would be (1073741824 * 2 +0) / 1, expected numbers of 2^30 at most, and 1 at least as "
          "the result",
          bs_times(g, 1 << 30, 2));
    WRONG(BS_ERROR_SHAPE, "bs_times: the factor is -2147483648, expected 1 .. 2^30", bs_times(g, f->h, INT32_MIN));
    WRONG(BS_ERROR_SHAPE,
          "bs_times: 9223372036854775807 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, INT64_MAX, 2));
    WRONG(BS_ERROR_SHAPE, "bs_times: 0 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, 0, 2));
}

static void rows_of_derived_dimensions(void)
{
    WRONG(
        BS_ERROR_SHAPE,
        "pixel_shuffle: a dimension would be (n<=33554432 * 64 -2147483584) / 1, expected numbers of 2^30 at most, and "
        "1 at least as the result",
        bs_slice(g,
                 bs_pixel_shuffle(g,
                                  bs_slice(g, bs_input(g, "i", BS_U8, BS_SHAPE3(4096, BS_UPTO(1 << 25), 1)),
                                           &(bs_slice_desc){.axis = 1, .start = (1 << 25) - 1}),
                                  64),
                 &(bs_slice_desc){.axis = 1, .start = 1}));
    WRONG(
        BS_ERROR_SHAPE,
        "concat: a dimension would be (N<=40 * 1 +2147483648) / 1, expected numbers of 2^30 at most, and 1 at least as "
        "the result",
        bs_concat(g,
                  (bs_value[]){bs_input(g, "n", BS_U8, BS_SHAPE1(f->n)), bs_input(g, "i", BS_U8, BS_SHAPE1(1 << 30)),
                               bs_input(g, "j", BS_U8, BS_SHAPE1(1 << 30))},
                  3, 0));
    WRONG(BS_ERROR_SHAPE, "collect: a dimension would be 4294967296, expected 1 .. 2^30",
          bs_collect(g,
                     bs_pool2d(g,
                               bs_patches(g, bs_input(g, "i", BS_F32, BS_SHAPE3(1, BS_UPTO(1 << 16), BS_UPTO(1 << 16))),
                                          &(bs_patches_desc){.size = 1}),
                               &(bs_pool2d_desc){.global = 1})));
}

static void rows_of_nodes(void)
{
    WRONG(BS_ERROR_DOMAIN,
          "add: operand 1 is of patches of 16 [H<=64, W<=48], operand 0 of rows [N<=40]: scatter or gather it first",
          bs_add(g, f->tokens, f->score));
    WRONG(BS_ERROR_DOMAIN,
          "add: operand 1 is of path 0 of \"first\", operand 0 of patches of 16 [H<=64, W<=48]: scatter or gather it "
          "first",
          bs_add(g, f->cells, f->inside));
    WRONG(BS_ERROR_LIMIT,
          "linear \"a123456789b123456789c123456789d123456789e123456789f123456789g12\": the name "
          "\"a123456789b123456789c123456789d1...\" is longer than 63 bytes",
          bs_linear(
              g, f->line,
              &(bs_linear_desc){.name = "a123456789b123456789c123456789d123456789e123456789f123456789g123", .out = 4}));
    WRONG(BS_ERROR_GRAPH, "activation: operand 0 is value 9999, which does not exist",
          bs_activation(g, (bs_value){9999}, BS_RELU, 0));
    WRONG(BS_ERROR_GRAPH, "activation: operand 0 is value 0, which does not exist", bs_activation(g, none, BS_RELU, 0));
    WRONG(BS_ERROR_SHAPE, "clip: operand 0 has rank 5, expected 4 at most",
          bs_clip(g, bs_reshape(g, f->line, (bs_shape){5, {1, 1, 2, 2, 1}}), 0, 1));
    WRONG(BS_ERROR_GRAPH, "bs_block_end without bs_block_begin", bs_block_end(g));
    char text[40];
    snprintf(text, sizeof text, "op %d does not exist", (int)bs_op_count());
    WRONG(BS_ERROR_GRAPH, text, bs_op_build_numbered(g, bs_op_count(), NULL, 0, NULL));
    WRONG(BS_ERROR_GRAPH, "add: 1 operands, expected 2 .. 2",
          bs_op_build_numbered(g, bs_op_index("add"), &f->line.id, 1, NULL));
    WRONG(BS_ERROR_GRAPH, "scatter \"s\": 0 operands, expected 1 .. 1",
          bs_op_build_numbered(g, bs_op_index("scatter"), NULL, 0, &(router_params){"s", 1, 0}));
    WRONG(BS_ERROR_DOMAIN, "concat: operand 1 is of the root, operand 0 of rows [N<=40]: scatter or gather it first",
          bs_concat(g, (bs_value[]){f->tokens, f->line}, 2, 0));
    WRONG(BS_ERROR_SHAPE, "input \"i\": the result [1073741824, 1073741824] has more than 2^40 elements",
          bs_input(g, "i", BS_F32, BS_SHAPE2(1 << 30, 1 << 30)));
}

/* ------------------------------------------------------------------------------------------------- limits */

static void test_capacities(void)
{
    bs_graph *g = new_graph(&(bs_graph_desc){.max_nodes = 10});
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 1; i < 10; i++)
        x = bs_activation(g, x, BS_RELU, 0);
    check(x.id && g->status == BS_OK, "10 nodes in a graph of 10");
    x = bs_activation(g, x, BS_RELU, 0);
    check(x.id == 0, "the 11th is refused");
    stops_with(g, "activation: the graph is full: 10 nodes, 40 operands (bs_graph_desc.max_nodes, max_operands)");

    g = new_graph(&(bs_graph_desc){.max_values = 5});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_value indices;
    bs_topk(g, x, 2, &indices);
    x = bs_topk(g, x, 2, &indices);
    check(x.id && indices.id && g->status == BS_OK, "5 values in a graph of 5");
    x = bs_activation(g, x, BS_RELU, 0);
    check(x.id == 0, "the 6th is refused");
    stops_with(g, "activation: the graph is full: 5 values (bs_graph_desc.max_values)");

    g = new_graph(&(bs_graph_desc){.max_text_bytes = 256});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 0; i < 20 && x.id; i++)
        x = bs_affine(g, x, 1, 1);
    check(g->n_text <= 256, "text is bounded");
    stops_with(g, "affine: the graph's text is full: 256 bytes (bs_graph_desc.max_text_bytes)");

    g = new_graph(&(bs_graph_desc){.max_text_bytes = 64});
    /* its parameters fit, its name does not */
    x = bs_constant(g, "0123456789012345678901234567", BS_F32, BS_SHAPE1(4));
    check(x.id == 0 && g->n_text == 40, "a name may be what does not fit");
    stops_with(
        g,
        "constant \"0123456789012345678901234567\": the graph's text is full: 64 bytes (bs_graph_desc.max_text_bytes)");

    g = new_graph(&(bs_graph_desc){.max_nodes = 20});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 0; i < 12 && x.id; i++) /* 4 operands a node are there on average */
        x = bs_slice(g, bs_concat(g, (bs_value[]){x, x, x, x, x, x, x, x}, 8, 0), &(bs_slice_desc){.length = 4});
    check(g->n_operands <= 80, "operands are bounded");
    stops_with(g, "slice: the graph is full: 20 nodes, 80 operands (bs_graph_desc.max_nodes, max_operands)");
}

/* A gather has as many operands as its router has paths: where there is no room for them, what lies behind stays. */
static void test_operands_of_a_gather(void)
{
    enum { PATHS = 64, BEHIND = 4096 };
    static uint8_t behind[BEHIND];
    static bs_value ways[PATHS];
    bs_graph *g = new_graph(&(bs_graph_desc){.max_nodes = 20, .max_operands = 66});
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, PATHS)), none);
    const bs_route_desc d = {.name = "r", .protocol = BS_ROUTE_TOP1, .paths = PATHS};
    const bs_router r = bs_route(g, x, none, &d);
    for (int32_t i = 0; i < 10; i++)
        bs_activation(g, x, BS_RELU, 0);
    for (int32_t i = 0; i < PATHS; i++)
        ways[i] = (bs_value){0x5A5A5A5A};
    memcpy(behind, g->operands + g->max_operands, BEHIND);
    check(g->status == BS_OK && bs_gather(g, r, ways, none, NULL).id == 0, "65 operands behind 12 in a graph of 66");
    check(memcmp(behind, g->operands + g->max_operands, BEHIND) == 0, "none of them was written");
    stops_with(g, "gather: the graph is full: 20 nodes, 66 operands (bs_graph_desc.max_nodes, max_operands)");
}

static const bs_graph_desc large = {.max_nodes = 4000,
                                    .max_values = 4000,
                                    .max_text_bytes = 1 << 20,
                                    .max_dims = 512,
                                    .max_domains = 511,
                                    .max_blocks = 127};

static void test_dimension_limit(void)
{
    bs_graph *g = new_graph(&large);
    int32_t made = 0;
    for (; g->status == BS_OK && made < 2000; made++)
        bs_symbol(g, "S", 4);
    check(made - 1 == 512, "%d symbols", made - 1);
    stops_with(g, "the graph is full: 512 different dimensions (bs_graph_desc.max_dims)");

    g = new_graph(&large);
    for (made = 0; g->status == BS_OK && made < 2000; made++)
        bs_input(g, "x", BS_F32, BS_SHAPE1(BS_UPTO(4))).id ? bs_symbol(g, "S", 4) : 0;
    check(made == 2 && g->status == BS_ERROR_GRAPH, "a name twice comes before that");

    g = new_graph(&large);
    for (made = 0; made < 512; made++)
        bs_symbol(g, "S", 4);
    check(bs_input(g, "x", BS_F32, BS_SHAPE1(BS_UPTO(4))).id == 0, "no dimension is left");
    stops_with(g, "input \"x\": the graph is full: 512 different dimensions (bs_graph_desc.max_dims)");

    g = new_graph(&large);
    bs_value y = bs_input(g, "y", BS_F32, BS_SHAPE1(4));
    for (made = 0; made < 511; made++)
        bs_symbol(g, "S", 4);
    check(y.id && bs_linear(g, y, &(bs_linear_desc){.name = "l", .out = 5}).id == 0, "nor for a result");
    stops_with(g, "linear \"l\": the graph is full: 512 different dimensions (bs_graph_desc.max_dims)");
}

static void test_block_limit(void)
{
    bs_graph *g = new_graph(&large);
    int32_t made = 0;
    for (; g->status == BS_OK && made < 2000; made++)
        bs_block_begin(g, "block");
    check(made == 128, "%d blocks with the outermost", made);
    stops_with(g, "block \"block\": the graph is full: 127 blocks (bs_graph_desc.max_blocks)");
    g = new_graph(&large);
    for (made = 0; g->status == BS_OK && made < 2000; made++)
        bs_block_begin(g, NULL);
    stops_with(g, "block \"\": the graph is full: 127 blocks (bs_graph_desc.max_blocks)");
}

static bs_value tokens_of_64(bs_graph *g) { return bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, 64)), none); }

static bs_router route_numbered(bs_graph *g, bs_value score, int32_t number)
{
    char name[16];
    snprintf(name, sizeof name, "r%d", number);
    return bs_route(g, score, none, &(bs_route_desc){.name = name, .paths = 64});
}

static void test_domain_limit(void)
{
    bs_graph *g = new_graph(&large);
    const bs_value x = tokens_of_64(g);
    int32_t domains = 2;
    for (int32_t made = 0; g->status == BS_OK && made < 60; made++) {
        const bs_router r = route_numbered(g, x, made);
        for (int32_t p = 0; p < 64; p++)
            domains += bs_scatter(g, r, p, x).id != 0;
    }
    check(domains == 512, "%d domains", domains);
    stops_with(g, "scatter: the graph is full: 511 domains (bs_graph_desc.max_domains)");
}

static void test_no_graph(void)
{
    bs_error error;
    bs_graph_check(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT,
               "the graph is NULL (did bs_graph_create fit its arena, and its bs_graph_desc the limits?)");
}

static void test_name_limit(void)
{
    char name[BS_MAX_NAME + 1];
    memset(name, 'n', sizeof name);
    name[BS_MAX_NAME - 1] = 0;
    bs_graph *g = new_graph(NULL);
    check(bs_input(g, name, BS_F32, BS_SHAPE1(4)).id != 0, "a name of %d bytes", BS_MAX_NAME - 1);
}

/* A block that is not ended is told by its name, and is no plan; ended, the graph is sound. */
static void rows_of_loops(void)
{
    const bs_router a = {2}; /* what bs_loop_begin makes of a fixture */
    const bs_loop_desc desc = {.name = "a", .bound = 3};
    WRONG(BS_ERROR_DOMAIN, "add: operand 0 is of the body of loop \"a\", which has ended",
          (bs_loop_begin(g, f->tokens, none, &desc), bs_scatter(g, a, 0, f->tokens), bs_loop_end(g, a, none),
           bs_add(g, (bs_value){g->n_values - 1}, (bs_value){g->n_values - 1})));
    WRONG(BS_ERROR_DOMAIN, "add: operand 1 is a result of loop \"a\", which has not ended",
          (bs_loop_begin(g, f->tokens, none, &desc),
           bs_add(g, f->tokens, bs_loop_next(g, a, none, bs_scatter(g, a, 0, f->tokens)))));
    WRONG(BS_ERROR_DOMAIN, "scatter: loop \"a\" has ended",
          (bs_loop_begin(g, f->tokens, none, &desc), bs_loop_end(g, a, none), bs_scatter(g, a, 0, f->tokens)));
}

static void test_open_loop(void)
{
    bs_error error;
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "a", .bound = 3});
    bs_graph_check(g, &error);
    message_is(&error, BS_ERROR_GRAPH, "loop \"a\" is begun and never ended (bs_loop_end)");
    bs_loop_end(g, loop, none);
    check(bs_graph_check(g, NULL) == BS_OK, "and when it is ended, the graph is sound");
}

static void test_open_block(void)
{
    bs_error error;
    bs_arena room;
    static _Alignas(64) uint8_t plan_memory[1 << 18];
    bs_arena_init(&room, "plan", plan_memory, sizeof plan_memory);
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_block_begin(g, "outer");
    bs_block_begin(g, "inner");
    bs_block_end(g);
    bs_output(g, "y", bs_activation(g, x, BS_RELU, 0));
    bs_graph_check(g, &error);
    message_is(&error, BS_ERROR_GRAPH, "block \"outer\" is begun and never ended (bs_block_end)");
    memset(&error, 0, sizeof error);
    check(bs_plan_bytes(g, NULL) == 0 && !bs_plan_create(&room, NULL, g, NULL, &error) && room.used == 0,
          "nothing is planned of it");
    message_is(&error, BS_ERROR_GRAPH, "block \"outer\" is begun and never ended (bs_block_end)");
    bs_block_end(g);
    check(bs_graph_check(g, NULL) == BS_OK && bs_plan_bytes(g, NULL) > 0 && bs_plan_create(&room, NULL, g, NULL, NULL),
          "and when it is ended, it is");
}

int main(void)
{
    test_open_block();
    test_open_loop();
    rows_of_loops();
    rows_of_symbols();
    rows_of_derived_dimensions();
    rows_of_nodes();
    test_capacities();
    test_operands_of_a_gather();
    test_dimension_limit();
    test_block_limit();
    test_domain_limit();
    test_no_graph();
    test_name_limit();
    wrong_builds_end();
    messages_of("src/graph/graph.c");
    messages_of("src/graph/dims.c");
    messages_of("src/graph/domains.c");
    messages_of("src/ops/table.c");
    return check_end();
}
