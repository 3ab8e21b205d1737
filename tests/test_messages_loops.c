/* tags: asan */
/* Promises: every message of the builders and kernels of loops and trees names the loop, its node and what was
 * expected, word for word. */
#include "ops/table.h"
#include "wrong_builds.h"

#define LOOP(...) bs_loop_begin(g, f->tokens, none, &(bs_loop_desc){.name = "a", __VA_ARGS__})

static void rows_of_begin(void)
{
    WRONG(BS_ERROR_ARGUMENT, "loop: a name is needed", bs_loop_begin(g, f->tokens, none, NULL));
    WRONG(BS_ERROR_GRAPH, "loop \"first\": its name is taken by an earlier router",
          bs_loop_begin(g, f->tokens, none, &(bs_loop_desc){.name = "first", .bound = 3}));
    WRONG(BS_ERROR_ARGUMENT, "loop \"a\": `like` is no value",
          bs_loop_begin(g, none, none, &(bs_loop_desc){.name = "a", .bound = 3}));
    WRONG(BS_ERROR_ARGUMENT, "loop \"a\": bound is 0, expected 1 .. 16777216", LOOP(.bound = 0));
    WRONG(BS_ERROR_ARGUMENT, "loop \"a\": bound is -1, expected 0 .. 16777216", LOOP(.bound = -1));
    WRONG(BS_ERROR_ARGUMENT, "loop \"a\": bound is 2, expected 4 .. 16777216", LOOP(.bound = 2, .over = f->line));
    WRONG(BS_ERROR_SHAPE, "loop \"a\": what it goes over has no dimension",
          bs_loop_begin(g, f->tokens, none,
                        &(bs_loop_desc){.name = "a", .over = bs_rows(g, f->numbers, none), .bound = 3}));
    WRONG(BS_ERROR_ARGUMENT, "loop \"a\": in_turn is 2, expected 0 .. 1", LOOP(.bound = 3, .in_turn = 2));
    static const char *const one_of_both =
        "loop \"a\": rows go in turn, or grow, by their count and over no value, expected one of both";
    WRONG(BS_ERROR_ARGUMENT, one_of_both, LOOP(.bound = 3, .in_turn = 1));
    WRONG(BS_ERROR_ARGUMENT, one_of_both, LOOP(.bound = 3, .grows = 1));
    WRONG(BS_ERROR_ARGUMENT, one_of_both,
          bs_loop_begin(g, f->tokens, f->labels,
                        &(bs_loop_desc){.name = "a", .bound = 3, .in_turn = 1, .grows = 1}));
    WRONG(BS_ERROR_ARGUMENT, one_of_both,
          bs_loop_begin(g, f->tokens, f->labels, &(bs_loop_desc){.name = "a", .over = f->tokens, .grows = 1}));
    WRONG(BS_ERROR_DOMAIN, "loop \"a\": a loop of path 0 of \"first\", expected rows of a tensor",
          bs_loop_begin(g, f->inside, bs_argmax(g, bs_pool2d(g, f->inside, &(bs_pool2d_desc){.global = 1})),
                        &(bs_loop_desc){.name = "a", .bound = 3, .grows = 1}));
    WRONG(BS_ERROR_SHAPE,
          "loop \"a\": the count is f32 [4] of rows [N<=40], expected i32 [1] of rows [N<=40]",
          bs_loop_begin(g, f->tokens, f->tokens, &(bs_loop_desc){.name = "a", .bound = 3}));
    WRONG(BS_ERROR_SHAPE, "loop \"a\": the count is i32 [4] of the root, expected i32 [1] of rows [N<=40]",
          bs_loop_begin(g, f->tokens, f->numbers, &(bs_loop_desc){.name = "a", .bound = 3}));
}

static bs_value nested(bs_graph *g, bs_value x, int32_t depth)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    for (int32_t i = 0; i < depth; i++)
        x = bs_loop_carry(g, bs_loop_begin(g, x, none, &(bs_loop_desc){.name = names[i], .bound = 2}), x);
    return x;
}

/* A cell of a frame of one pixel: half of it has the same extents. */
static void halved(bs_graph *g)
{
    const bs_value cells = bs_patches(g, bs_input(g, "pixel", BS_F32, BS_SHAPE3(2, 1, 1)),
                                      &(bs_patches_desc){.size = 2});
    const bs_router loop = bs_loop_begin(g, cells, none, &(bs_loop_desc){.name = "a", .bound = 2});
    const bs_value v = bs_loop_carry(g, loop, cells);
    bs_loop_next(g, loop, v,
                 bs_conv2d(g, v, &(bs_conv2d_desc){.name = "half", .out = 2, .kernel = 1, .stride = 2}));
}

static void rows_of_carried(void)
{
    WRONG(BS_ERROR_LIMIT, "loop \"i\": 9 loops in loops, expected 8 at most", nested(g, f->tokens, 9));
    WRONG(BS_ERROR_GRAPH, "loop_carry: router 1 is no loop", bs_loop_carry(g, f->router, f->cells));
    WRONG(BS_ERROR_GRAPH, "loop_trip: router 9 is no loop", bs_loop_trip(g, (bs_router){9}));
    WRONG(BS_ERROR_DOMAIN, "loop_carry: operand 0 is of patches of 16 [H<=64, W<=48], expected rows [N<=40]",
          bs_loop_carry(g, LOOP(.bound = 3), f->cells));
    WRONG(BS_ERROR_DOMAIN, "loop_carry: operand 0 is of the root, expected patches of 16 [H<=64, W<=48]",
          bs_loop_carry(g, bs_loop_begin(g, f->cells, none, &(bs_loop_desc){.name = "a", .bound = 3}), f->frame));
    const bs_router a = {2}; /* what LOOP makes of a fixture */
    bs_value v;
    WRONG(BS_ERROR_GRAPH, "loop_carry: loop \"a\" is not the one that was begun last",
          (nested(g, f->tokens, 2), bs_loop_carry(g, a, f->tokens)));
    WRONG(BS_ERROR_GRAPH, "loop_next: the carried value is given twice",
          (LOOP(.bound = 3), v = bs_loop_carry(g, a, f->tokens), bs_loop_next(g, a, v, v), bs_loop_next(g, a, v, v)));
    WRONG(BS_ERROR_SHAPE, "loop_next: dimensions 1 and 2 are of frames of scale 1/1 and 1/2",
          halved(g));
    WRONG(BS_ERROR_SHAPE, "loop_next: the carried value is f32 [4], after a trip it would be i32 [1]",
          (LOOP(.bound = 3), bs_loop_next(g, a, bs_loop_carry(g, a, f->tokens), bs_loop_trip(g, a))));
    WRONG(BS_ERROR_DOMAIN, "loop_next: operand 0 is of rows [N<=40], expected path 0 of \"a\"",
          (LOOP(.bound = 3), bs_loop_next(g, a, bs_loop_carry(g, a, f->tokens), f->tokens)));
    WRONG(BS_ERROR_GRAPH, "loop_again \"a\": a predicate, where rows go in turn: a row makes one trip",
          (bs_loop_begin(g, f->tokens, f->labels, &(bs_loop_desc){.name = "a", .bound = 3, .in_turn = 1}),
           bs_loop_end(g, a, bs_loop_trip(g, a))));
    WRONG(BS_ERROR_GRAPH, "loop_again \"a\": how many rows a row makes is missing, expected i32 [1]",
          (bs_loop_begin(g, f->tokens, f->labels, &(bs_loop_desc){.name = "a", .bound = 3, .grows = 1}),
           bs_loop_end(g, a, none)));
    WRONG(BS_ERROR_GRAPH, "loop_parent: loop \"a\" does not grow", (LOOP(.bound = 3), bs_loop_parent(g, a)));
    WRONG(BS_ERROR_GRAPH, "loop_rows: operand 0 is made by loop_trip, expected a value that loop \"a\" carries",
          (LOOP(.bound = 3), v = bs_loop_trip(g, a), bs_loop_rows(g, a, v, v)));
    WRONG(BS_ERROR_SHAPE, "loop_rows: operand 1 is f32, expected i32",
          (LOOP(.bound = 3), v = bs_loop_carry(g, a, f->tokens), bs_loop_rows(g, a, v, v)));
    WRONG(BS_ERROR_DOMAIN, "loop_rows: operand 1 is of rows [N<=40], expected path 0 of \"a\"",
          (LOOP(.bound = 3), v = bs_loop_carry(g, a, f->tokens), bs_loop_rows(g, a, v, f->labels)));
    WRONG(BS_ERROR_DOMAIN, "loop_rows: a loop of path 0 of \"first\", expected rows of a tensor",
          (bs_loop_begin(g, f->inside, none, &(bs_loop_desc){.name = "a", .bound = 3}),
           v = bs_loop_carry(g, a, f->inside), bs_loop_rows(g, a, v, bs_loop_trip(g, a))));
    WRONG(BS_ERROR_GRAPH,
          "loop_next: operand 2 is made by loop_trip, expected a value that loop \"a\" carries from operand 1",
          (LOOP(.bound = 3), v = bs_loop_trip(g, a), bs_loop_next(g, a, v, v)));
    WRONG(BS_ERROR_DOMAIN, "loop_collect: operand 0 is of rows [N<=40], expected path 0 of \"a\"",
          (LOOP(.bound = 3), bs_loop_collect(g, a, f->tokens)));
    WRONG(BS_ERROR_GRAPH, "loop_again \"a\": 1 carried values have no bs_loop_next",
          (LOOP(.bound = 3), bs_loop_carry(g, a, f->tokens), bs_loop_end(g, a, none)));
    WRONG(BS_ERROR_SHAPE, "loop_again \"a\": the predicate is f32 [4], expected f32 or i32 [1]",
          (LOOP(.bound = 3), bs_loop_end(g, a, bs_scatter(g, a, 0, f->tokens))));
    WRONG(BS_ERROR_GRAPH, "loop_again \"a\": loop \"a\" has ended",
          (LOOP(.bound = 3), bs_loop_end(g, a, none), bs_loop_end(g, a, none)));
    WRONG(BS_ERROR_GRAPH, "gather: router \"a\" is a loop, whose rows come back by bs_loop_next",
          (LOOP(.bound = 3), bs_gather(g, a, (bs_value[]){bs_scatter(g, a, 0, f->tokens)}, none, NULL)));
}

/* What only a file can say: builder functions do not. */
static void rows_of_files(void)
{
    const struct {
        const char *name;
        int32_t router, mode;
    } of_loop = {"", 2, 0}, mode_3 = {"", 2, 3};
    const int32_t next = bs_op_index("loop_next"), collect = bs_op_index("loop_collect"),
                  again = bs_op_index("loop_again"), trip = bs_op_index("loop_trip");
    WRONG(BS_ERROR_GRAPH, "loop_next: what it begins with is of no carried value",
          (LOOP(.bound = 3), bs_scatter(g, (bs_router){2}, 0, f->tokens),
           bs_op_build_numbered(g, next, (int32_t[]){g->n_values - 1, f->tokens.id, 0}, 3, &of_loop)));
    WRONG(BS_ERROR_GRAPH, "loop_collect: what is collected begins with zeros",
          (LOOP(.bound = 3), bs_scatter(g, (bs_router){2}, 0, f->tokens),
           bs_op_build_numbered(g, collect, (int32_t[]){g->n_values - 1, f->tokens.id}, 2, &of_loop)));
    WRONG(BS_ERROR_GRAPH, "loop_again: operand 1 is value 1, expected the loop's count, value 0",
          (LOOP(.bound = 3), bs_op_build_numbered(g, again, (int32_t[]){0, 1}, 2, &of_loop)));
    const int32_t slice = bs_op_index("loop_slice");
    WRONG(BS_ERROR_SHAPE, "loop_slice: dimension 0 is 4, loop \"a\" makes up to 5 trips",
          (LOOP(.bound = 5), bs_op_build_numbered(g, slice, &f->tokens.id, 1, &of_loop)));
    WRONG(BS_ERROR_ARGUMENT, "loop_trip: mode is 3, expected 0 .. 2",
          (LOOP(.bound = 3), bs_op_build_numbered(g, trip, NULL, 0, &mode_3)));
}

static void rows_of_trees(void)
{
    WRONG(BS_ERROR_DOMAIN, "children: operand 0 is of rows [N<=40], expected a root value",
          bs_children(g, f->labels, f->labels, 2));
    WRONG(BS_ERROR_SHAPE, "children: operand 0 is f32, expected i32", bs_children(g, f->line, f->numbers, 2));
    WRONG(BS_ERROR_SHAPE, "children: operand 1 is [2, 2], expected rank 1",
          bs_children(g, f->numbers, bs_reshape(g, f->numbers, BS_SHAPE2(2, 2)), 2));
    WRONG(BS_ERROR_ARGUMENT, "children: slots is 0, expected 1 .. 32768", bs_children(g, f->numbers, f->numbers, 0));
    WRONG(BS_ERROR_ARGUMENT, "children: slots is 32769, expected 1 .. 32768",
          bs_children(g, f->numbers, f->numbers, 32769));
    WRONG(BS_ERROR_DOMAIN, "levels: operand 0 is of rows [N<=40], expected a root value", bs_levels(g, f->labels));
    WRONG(BS_ERROR_SHAPE, "levels: operand 0 is f32, expected i32", bs_levels(g, f->table));
    WRONG(BS_ERROR_SHAPE, "levels: operand 0 is [4], expected rank 2", bs_levels(g, f->numbers));
    WRONG(BS_ERROR_ARGUMENT, "levels: children is 2147483648, expected 1 .. 2147483647",
          bs_levels(g, bs_input(g, "many", BS_I32, BS_SHAPE2(1 << 16, 1 << 15))));
}

/* Trees of three rows: each reads what its children have. */
static bs_session *open_trees(bs_memory *memory)
{
    static BS_ALIGNED uint8_t persistent[1 << 18], transient[1 << 16], staging[1 << 12];
    static const bs_tensor_table no_weights = {NULL, 0};
    const bs_session_desc desc = {.weights = bs_weights_from_table(&no_weights)};
    bs_arena_init(&memory->persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory->transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory->staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory->persistent, NULL);
    const bs_value children = bs_children(g, bs_input(g, "lengths", BS_I32, BS_SHAPE1(3)),
                                          bs_input(g, "indices", BS_I32, BS_SHAPE1(3)), 2),
                   x = bs_rows(g, bs_input(g, "x", BS_I32, BS_SHAPE2(3, 1)), none);
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "trees", .bound = 1});
    const bs_value h = bs_loop_carry(g, loop, x),
                   end = bs_loop_next(g, loop, h, bs_reshape(g, bs_loop_rows(g, loop, h, h), BS_SHAPE1(1)));
    bs_loop_end(g, loop, none);
    bs_output(g, "level", bs_levels(g, children));
    bs_output(g, "y", bs_collect(g, end));
    const bs_plan *plan = bs_plan_create(&memory->persistent, NULL, g, NULL, NULL);
    return plan ? bs_session_create(memory, plan, &desc, NULL) : NULL;
}

static void rows_of_runs(void)
{
    static const struct {
        int32_t lengths[3], indices[3], x[3];
        const char *text;
    } rows[] = {{{0, 3, 0}, {0}, {0}, "children \"\" (node 3): row 1 has 3 children, expected 0 .. 2"},
                {{0, 1, 1}, {0, 3, 0}, {0}, "levels \"\" (node 12): child 0 of row 2 is 3, expected -1 .. 2"},
                {{0, 1, 1}, {2, 1, 0}, {0}, "levels \"\" (node 12): the children of row 1 go round"},
                {{0, 1, 1}, {0, 1, 0}, {0, 3, 0}, "loop_rows \"\" (node 8): index 0 is 3, expected -1 .. 2"}};
    bs_memory memory;
    int32_t given[3][3], y[3], level[3];
    bs_session *s = open_trees(&memory);
    bs_error error;
    bs_bind(s, "lengths", &(bs_buffer){given[0], BS_I32, 1, {3}, {0}}, &error);
    bs_bind(s, "indices", &(bs_buffer){given[1], BS_I32, 1, {3}, {0}}, &error);
    bs_bind(s, "x", &(bs_buffer){given[2], BS_I32, 2, {3, 1}, {0}}, &error);
    bs_bind(s, "y", &(bs_buffer){y, BS_I32, 2, {3, 1}, {0}}, &error);
    bs_bind(s, "level", &(bs_buffer){level, BS_I32, 2, {3, 1}, {0}}, &error);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(given, &rows[i], sizeof given);
        bs_run(s, &error);
        message_is(&error, BS_ERROR_DATA, rows[i].text);
    }
    bs_session_close(s);
}

int main(void)
{
    rows_of_begin();
    rows_of_carried();
    rows_of_files();
    rows_of_trees();
    rows_of_runs();
    wrong_builds_end();
    messages_of("src/ops/loops.c");
    messages_of("src/ops/trees.c");
    return check_end();
}
