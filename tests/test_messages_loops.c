/* Promises: every message of the builders of loops names the loop, its node and what was expected, word for word. */
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
    WRONG(BS_ERROR_ARGUMENT, "loop \"a\": bound is 2, expected 4 .. 16777216", LOOP(.bound = 2, .over = f->line.id));
    WRONG(BS_ERROR_SHAPE, "loop \"a\": what it goes over has no dimension",
          bs_loop_begin(g, f->tokens, none,
                        &(bs_loop_desc){.name = "a", .over = bs_rows(g, f->numbers, none).id, .bound = 3}));
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

static void rows_of_carried(void)
{
    WRONG(BS_ERROR_LIMIT, "loop \"i\": 9 loops in loops, expected 8 at most", nested(g, f->tokens, 9));
    WRONG(BS_ERROR_GRAPH, "loop_carry: router 1 is no loop", bs_loop_carry(g, f->router, f->cells));
    WRONG(BS_ERROR_GRAPH, "loop_trip: router 9 is no loop", bs_loop_trip(g, (bs_router){9}));
    WRONG(BS_ERROR_DOMAIN, "loop_carry: operand 0 is of the root, expected rows [N<=40]",
          bs_loop_carry(g, LOOP(.bound = 3), f->line));
    const bs_router a = {2}; /* what LOOP makes of a fixture */
    bs_value v;
    WRONG(BS_ERROR_GRAPH, "loop_carry: loop \"a\" is not the one that was begun last",
          (nested(g, f->tokens, 2), bs_loop_carry(g, a, f->tokens)));
    WRONG(BS_ERROR_GRAPH, "loop_next: the carried value is given twice",
          (LOOP(.bound = 3), v = bs_loop_carry(g, a, f->tokens), bs_loop_next(g, a, v, v), bs_loop_next(g, a, v, v)));
    WRONG(BS_ERROR_SHAPE, "loop_next: the carried value is f32 [4], after a trip it would be i32 [1]",
          (LOOP(.bound = 3), bs_loop_next(g, a, bs_loop_carry(g, a, f->tokens), bs_loop_trip(g, a))));
    WRONG(BS_ERROR_DOMAIN, "loop_next: operand 0 is of rows [N<=40], expected path 0 of \"a\"",
          (LOOP(.bound = 3), bs_loop_next(g, a, bs_loop_carry(g, a, f->tokens), f->tokens)));
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

int main(void)
{
    rows_of_begin();
    rows_of_carried();
    rows_of_files();
    wrong_builds_end();
    messages_of("src/ops/loops.c");
    return check_end();
}
