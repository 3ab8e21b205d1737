/* tags: asan tsan */
/* Promises: vertices read what their children have, in chains, trees and graphs, whatever their numbers; those of one
 * level make a trip together, and levels without rows take none; what a row reads of others is as before the trip; a
 * structure that is none ends in an error that names row and number. */
#include "grown.h"
#include "trees.h"

#include "brainstorm.h"
#include "ops/table.h"
#include "plan/plan.h"

#include <math.h>

static BS_ALIGNED uint8_t persistent[4 << 20], transient[4 << 20], staging[1 << 16];
static bs_memory memory;
static bs_error error;
static const bs_value none;

static bs_graph *new_graph(void)
{
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    return bs_graph_create(&memory.persistent, NULL);
}

static bs_session *open_session(const bs_graph *g, int32_t order, int32_t threads, const bs_tensor_table *weights)
{
    const bs_plan_desc desc = {.order = order, .threads = threads};
    static const bs_tensor_table empty = {NULL, 0};
    const bs_session_desc with = {.weights = bs_weights_from_table(weights ? weights : &empty)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    memset(transient, 0xFF, sizeof transient); /* NaN */
    return plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
}

static bs_status bind(bs_session *s, const char *name, void *data, bs_dtype dtype, int64_t rows, int64_t width)
{
    const bs_buffer b = {data, dtype, width ? 2 : 1, {rows, width}, {0}};
    return bs_bind(s, name, &b, &error);
}

/* -------------------------------------------------------------------------------------------------- levels */

/* A table of children, as lists and as levels: what the run says of them. */
static bs_status run_lists(trees *t, int32_t *children, int32_t *level)
{
    bs_graph *g = new_graph();
    const bs_dim rows = bs_symbol(g, "vertices", TREES_ROWS), entries = bs_symbol(g, "entries", 3 * TREES_ROWS);
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(rows)),
                   table = bs_children(g, lengths, bs_input(g, "indices", BS_I32, BS_SHAPE1(entries)), t->slots);
    bs_output(g, "children", table);
    bs_output(g, "level", bs_levels(g, table));
    bs_session *s = open_session(g, BS_ORDER_AUTO, 1, NULL);
    bind(s, "lengths", t->length, BS_I32, t->rows, 0);
    bind(s, "indices", t->indices, BS_I32, t->n_indices ? t->n_indices : 1, 0);
    bind(s, "children", children, BS_I32, t->rows, t->slots);
    bind(s, "level", level, BS_I32, t->rows, 1);
    const bs_status status = bs_run(s, &error);
    bs_session_close(s);
    return status;
}

static void test_lists(void)
{
    static trees t;
    static int32_t children[TREES_ROWS * TREES_SLOTS], level[TREES_ROWS];
    for (int32_t shape = 0; shape < 3; shape++)
        for (int32_t rows = 1; rows <= TREES_ROWS; rows = rows * 2 + 37) {
            trees_make(&t, rows, 1 + rows % TREES_SLOTS, shape, (uint32_t)rows);
            bool packed = true;
            const bs_status status = run_lists(&t, children, level);
            for (int32_t row = 0; row < rows; row++)
                for (int32_t k = 0, seen = 0; k < t.slots; k++) {
                    const int32_t child = t.children[row * t.slots + k];
                    packed = packed && (child < 0 || children[row * t.slots + seen++] == child) &&
                             (k < t.length[row] || children[row * t.slots + k] == -1);
                }
            check(status == BS_OK && packed, "shape %d, %d rows: lists become a table: %s", shape, rows, error.message);
            check(memcmp(level, t.level, (size_t)rows * sizeof *level) == 0, "and each row has its level");
        }
}

static void test_wrong_lists(void)
{
    static trees t;
    static int32_t children[TREES_ROWS * TREES_SLOTS], level[TREES_ROWS];
    static const struct {
        int32_t rows, length[4], indices[4];
        const char *text;
    } rows[] = {{3, {0, 3, 1}, {0, 0, 0, 1}, "row 1 has 3 children, expected 0 .. 2"},
                {3, {0, -1, 1}, {0, 0, 0, 1}, "row 1 has -1 children, expected 0 .. 2"},
                {4, {0, 2, 2, 1}, {0, 0, 0, 1}, "row 3 has 1 children, expected 0 .. 0"},
                {3, {0, 2, 1}, {0, -2, 0, 1}, "child 1 of row 1 is -2, expected -1 .. 2"},
                {3, {0, 1, 1}, {3, 0, 0, 1}, "child 0 of row 1 is 3, expected -1 .. 2"},
                {2, {0, 1}, {INT32_MAX}, "child 0 of row 1 is 2147483647, expected -1 .. 1"},
                {2, {0, 1}, {1}, "the children of row 1 go round"},
                {4, {0, 1, 2, 1}, {3, 0, 1, 2}, "the children of row 1 go round"},
                {3, {1, 1, 0}, {1, 0}, "the children of row 0 go round"},
                {3, {0, 2, 0}, {-1, 0}, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memset(&t, 0, sizeof t);
        t.rows = rows[i].rows;
        t.slots = 2;
        t.n_indices = 4;
        memcpy(t.length, rows[i].length, sizeof rows[i].length);
        memcpy(t.indices, rows[i].indices, sizeof rows[i].indices);
        const bs_status status = run_lists(&t, children, level);
        check(rows[i].text ? status == BS_ERROR_DATA && strstr(error.message, rows[i].text) : status == BS_OK,
              "lists that are none: %s", error.message);
    }
}

/* ------------------------------------------------------------------------------------------------- recursion */

enum { WIDTH = 5 };

static const float start[WIDTH] = {0.5f, -0.25f, 0.125f, 0.0f, 1.0f}; /* overwritten before anyone reads it */
static const bs_tensor tensors[] = {{"start", BS_F32, 1, {WIDTH}, start}};
static const bs_tensor_table weights = {tensors, 1};

/* h = tanh(x + half the sum of h of the children); leaves read zeros. */
static bs_graph *recursion(int32_t slots, int32_t bound)
{
    bs_graph *g = new_graph();
    const bs_dim n = bs_symbol(g, "vertices", TREES_ROWS);
    const bs_value children = bs_input(g, "children", BS_I32, BS_SHAPE2(n, slots));
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, WIDTH)), none);
    const bs_value of = bs_rows(g, children, x), level = bs_rows(g, bs_levels(g, children), x);
    const bs_router loop = bs_loop_begin(g, x, level, &(bs_loop_desc){.name = "tree", .bound = bound, .in_turn = 1});
    const bs_value h = bs_loop_carry(g, loop, bs_constant(g, "start", BS_F32, BS_SHAPE1(WIDTH)));
    const bs_value below = bs_loop_rows(g, loop, h, bs_scatter(g, loop, 0, of));
    const bs_value sum = bs_reduce(g, below, &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = 0});
    const bs_value all = bs_add(g, bs_scatter(g, loop, 0, x), bs_affine(g, sum, 0.5f, 0.0f));
    const bs_value end = bs_loop_next(g, loop, h, bs_activation(g, all, BS_TANH, 0));
    const bs_value trips = bs_loop_trips(g, loop);
    bs_loop_end(g, loop, none);
    bs_output(g, "h", bs_collect(g, end));
    bs_output(g, "trips", bs_collect(g, trips));
    return g;
}

static double worst_of(const trees *t, float (*x)[WIDTH], float (*h)[WIDTH])
{
    static double right[TREES_ROWS][WIDTH];
    double worst = 0;
    for (int32_t i = 0; i < t->rows; i++)
        for (int32_t w = 0; w < WIDTH; w++) {
            const int32_t row = t->order[i];
            double sum = 0;
            for (int32_t k = 0; k < t->slots; k++)
                sum += t->children[row * t->slots + k] < 0 ? 0 : right[t->children[row * t->slots + k]][w];
            right[row][w] = tanh((double)x[row][w] + 0.5 * sum);
            worst = fmax(worst, fabs(right[row][w] - (double)h[row][w]));
        }
    return worst;
}

static void test_recursion(int32_t order, int32_t threads, int32_t shape)
{
    static trees t;
    static float x[TREES_ROWS][WIDTH], h[TREES_ROWS][WIDTH];
    static int32_t trips[TREES_ROWS];
    bs_session *s = open_session(recursion(TREES_SLOTS, TREES_ROWS), order, threads, &weights);
    check(s != NULL, "a recursion opens: %s", error.message);
    for (int32_t rows = TREES_ROWS; s && rows >= 1; rows /= 4) {
        bs_decision d;
        uint32_t seed = (uint32_t)rows;
        trees_make(&t, rows, TREES_SLOTS, shape, (uint32_t)(rows + shape));
        for (int32_t i = 0; i < rows * WIDTH; i++)
            x[i / WIDTH][i % WIDTH] = (float)trees_below(&seed, 100) / 50 - 1;
        memset(h, 0xFF, sizeof h);
        bind(s, "children", t.children, BS_I32, rows, TREES_SLOTS);
        bind(s, "x", x, BS_F32, rows, WIDTH);
        bind(s, "h", h, BS_F32, rows, WIDTH);
        bind(s, "trips", trips, BS_I32, rows, 1);
        check(bs_run(s, &error) == BS_OK && worst_of(&t, x, h) < 1e-6,
              "order %d, %d threads, shape %d, %d rows, %d levels: off by %g: %s", order, threads, shape, rows, t.depth,
              worst_of(&t, x, h), error.message);
        check(bs_decision_get(s, "tree", &d) == BS_OK && d.counts[0] == rows &&
                  memcmp(trips, t.level, (size_t)rows * sizeof *trips) == 0,
              "each row makes one trip, that of its level");
    }
    bs_session_close(s);
}

/* Levels beyond the bound, and a structure that is changed for one that is none. */
static void test_bound(void)
{
    static trees t;
    static float x[TREES_ROWS][WIDTH], h[TREES_ROWS][WIDTH];
    static int32_t trips[TREES_ROWS];
    trees_make(&t, 50, TREES_SLOTS, 0, 7); /* a chain */
    for (int32_t bound = 49; bound <= 51; bound++) {
        bs_session *s = open_session(recursion(TREES_SLOTS, bound), BS_ORDER_AUTO, 1, &weights);
        bind(s, "children", t.children, BS_I32, 50, TREES_SLOTS);
        bind(s, "x", x, BS_F32, 50, WIDTH);
        bind(s, "h", h, BS_F32, 50, WIDTH);
        bind(s, "trips", trips, BS_I32, 50, 1);
        const bs_status status = bs_run(s, &error);
        check(status == (bound < 50 ? BS_ERROR_DATA : BS_OK), "50 levels, a bound of %d: %s", bound, error.message);
        check(bound >= 50 || strstr(error.message, "50 trips, its bound is 49"), "which is named");
        t.children[t.order[0] * TREES_SLOTS] = t.order[49];
        check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "levels"), "a circle: %s", error.message);
        t.children[t.order[0] * TREES_SLOTS] = -1;
        check(bs_run(s, &error) == status, "the next run is a run like any other");
        bs_session_close(s);
    }
}

/* ------------------------------------------------------------------------------------------------------ turns */

/* Rows add the number of their trip to what a row of an earlier turn has; turns that no row has take no trip. */
static void test_turns(int32_t order, int32_t bound, int32_t scale)
{
    enum { ROWS = 7 };
    static const int32_t turns[ROWS] = {4, 0, 1, 4, -4, 1, 2}, sums[ROWS] = {4 + 2 + 1, 0, 1, 4 + 1, 0, 1, 2 + 1};
    static int32_t before[ROWS] = {6, 0, -1, 5, 0, -1, 2};
    static float last[ROWS], zeros[ROWS];
    int32_t count[ROWS], wrong = 0;
    bs_decision d;
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, 1)), none);
    const bs_value n = bs_rows(g, bs_input(g, "turn", BS_I32, BS_SHAPE2(ROWS, 1)), x);
    const bs_router loop = bs_loop_begin(g, x, n, &(bs_loop_desc){.name = "turns", .bound = bound, .in_turn = 1});
    const bs_value v = bs_loop_carry(g, loop, x);
    const bs_value trip = bs_convert(g, bs_loop_trip(g, loop), &(bs_convert_desc){.dtype = BS_F32});
    const bs_value of = bs_rows(g, bs_input(g, "before", BS_I32, BS_SHAPE1(ROWS)), x);
    const bs_value other = bs_loop_rows(g, loop, v, bs_scatter(g, loop, 0, of));
    const bs_value end = bs_loop_next(g, loop, v, bs_add(g, other, bs_affine(g, trip, 1.0f, 1.0f)));
    bs_loop_end(g, loop, none);
    bs_output(g, "last", bs_collect(g, end));
    bs_session *s = open_session(g, order, 1, NULL);
    for (int32_t i = 0; i < ROWS; i++)
        count[i] = turns[i] * scale;
    bind(s, "x", zeros, BS_F32, ROWS, 1);
    bind(s, "turn", count, BS_I32, ROWS, 1);
    bind(s, "before", before, BS_I32, ROWS, 0);
    bind(s, "last", last, BS_F32, ROWS, 1);
    check(bs_run(s, &error) == BS_OK, "rows go in turn: %s", error.message);
    for (int32_t i = 0; i < ROWS; i++)
        wrong += last[i] != (float)(sums[i] * scale);
    check(wrong == 0, "order %d, turns %d apart: each row makes the trip of its turn, %d do not", order, scale, wrong);
    check(bs_decision_get(s, "turns", &d) == BS_OK && d.counts[0] == 5, "rows without a turn make none");
    for (int32_t i = 0; i < ROWS; i++)
        count[i] = 0;
    check(bs_run(s, &error) == BS_OK && last[0] == 0 && last[6] == 0, "no row has a turn");
    bs_session_close(s);
}

/* ---------------------------------------------------------------------------------------------- before the trip */

/* A ring hands on: what a row reads of its neighbour is what that had before the trip. */
static void test_ring(int32_t order, int32_t threads, int32_t image)
{
    enum { ROWS = 40, TRIPS = 11 };
    static float x[ROWS][6], y[ROWS][6];
    static int32_t from[ROWS];
    int32_t wrong = 0;
    bs_graph *g = new_graph();
    const bs_shape shape = image ? (bs_shape){4, {ROWS, 1, 2, 3}} : BS_SHAPE2(ROWS, 6);
    const bs_value v = bs_rows(g, bs_input(g, "x", BS_F32, shape), none);
    const bs_value of = bs_rows(g, bs_input(g, "from", BS_I32, BS_SHAPE1(ROWS)), v);
    const bs_router loop = bs_loop_begin(g, v, none, &(bs_loop_desc){.name = "ring", .bound = TRIPS});
    const bs_value h = bs_loop_carry(g, loop, v);
    const bs_value end = bs_loop_next(g, loop, h, bs_loop_rows(g, loop, h, bs_scatter(g, loop, 0, of)));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, end));
    bs_session *s = open_session(g, order, threads, NULL);
    for (int32_t i = 0; i < ROWS * 6; i++) {
        x[i / 6][i % 6] = (float)i;
        from[i / 6] = (i / 6 + 1) % ROWS;
    }
    bind(s, "from", from, BS_I32, ROWS, 0);
    bs_bind(s, "x", &(bs_buffer){x, BS_F32, shape.rank, {ROWS, image ? 1 : 6, 2, 3}, {0}}, &error);
    bs_bind(s, "y", &(bs_buffer){y, BS_F32, shape.rank, {ROWS, image ? 1 : 6, 2, 3}, {0}}, &error);
    check(bs_run(s, &error) == BS_OK, "rows read rows: %s", error.message);
    for (int32_t i = 0; i < ROWS * 6; i++)
        wrong += y[i / 6][i % 6] != x[(i / 6 + TRIPS) % ROWS][i % 6];
    check(wrong == 0, "order %d, %d threads: after %d trips each row has what stood %d further, %d do not", order,
          threads, TRIPS, TRIPS, wrong);
    from[3] = ROWS;
    check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "index 0 is 40, expected -1 .. 39"),
          "no such row: %s", error.message);
    from[3] = -2;
    check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "index 0 is -2, expected -1 .. 39"),
          "no such row: %s", error.message);
    from[3] = -1;
    check(bs_run(s, &error) == BS_OK && y[3][0] == 0 && y[2][1] == 0 && y[4][2] == x[15][2], "-1 reads zeros");
    bs_session_close(s);
}

/* -------------------------------------------------------------------------------------------------- growth */

static void test_growth(int32_t order, int32_t threads)
{
    static grown w;
    bs_decision d;
    bs_session *s = open_session(grown_graph(new_graph(), 6), order, threads, &grown_weights);
    check(s != NULL, "what grows opens: %s", error.message);
    for (int32_t roots = 0; s && roots <= 3; roots++) {
        memset(&w, 0, sizeof w);
        for (int32_t i = 0; i < GROWN_ROOM; i++) {
            w.n[i] = i < roots ? 5 - i : 7; /* 32, 16 and 8 rows */
            w.roots[i] = i < roots;
            w.numbers[i] = roots + i;
        }
        grown_bind(s, &w, &error);
        check(bs_run(s, &error) == BS_OK && grown_wrong(&w, roots) == 0,
              "order %d, %d threads, %d roots: each row makes those it asks for: %d wrong: %s", order, threads, roots,
              grown_wrong(&w, roots), error.message);
        check(bs_decision_get(s, "down", &d) == BS_OK && d.counts[0] == (roots > 0) * 32 + (roots > 1) * 16 +
                  (roots > 2) * 8, "each makes one trip");
    }
    w.n[0] = 6;
    check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "loop \"down\"") &&
              strstr(error.message, "it would go on after 6 trips, its bound"),
          "it is too deep: %s", error.message);
    w.n[0] = w.n[1] = w.n[2] = 5;
    check(bs_run(s, &error) == BS_OK && grown_wrong(&w, 3) == 0, "96 rows have room: %s", error.message);
    w.roots[4] = 1; /* row 3 makes none, and has no place to be made */
    w.n[4] = 3;
    check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "that it makes there would be more than 100"),
          "more do not: %s", error.message);
    w.n[0] = INT32_MAX;
    check(bs_run(s, &error) == BS_ERROR_DATA &&
              strstr(error.message, "cell 0: with the 2147483647 rows that it makes there would be more than 100"),
          "nor do very many: %s", error.message);
    w.n[0] = w.roots[4] = 0;
    check(bs_run(s, &error) == BS_OK && grown_wrong(&w, 3) == 0, "a row may make none: %s", error.message);
    bs_session_close(s);
}

/* Rows that read nothing of others are made all the same, whatever tiles there are. */
static void test_halves(int32_t order)
{
    static int32_t roots[GROWN_ROOM] = {1}, twice[GROWN_ROOM], by[GROWN_ROOM];
    int32_t wrong = 0;
    bs_graph *g = new_graph();
    const bs_value n = bs_rows(g, bs_input(g, "roots", BS_I32, BS_SHAPE2(GROWN_ROOM, 1)), none);
    const bs_value two = bs_rows(g, bs_input(g, "twice", BS_I32, BS_SHAPE2(GROWN_ROOM, 1)), n);
    const bs_router down = bs_loop_begin(g, n, n, &(bs_loop_desc){.name = "down", .bound = 6, .grows = 1});
    const bs_value parent = bs_loop_next(g, down, none, bs_loop_parent(g, down));
    bs_loop_end(g, down, bs_scatter(g, down, 0, two));
    bs_output(g, "by", bs_collect(g, parent));
    bs_session *s = open_session(g, order, 2, NULL);
    for (int32_t row = 0; row < GROWN_ROOM; row++)
        twice[row] = row < 31 ? 2 : 0;
    bind(s, "roots", roots, BS_I32, GROWN_ROOM, 1);
    bind(s, "twice", twice, BS_I32, GROWN_ROOM, 1);
    bind(s, "by", by, BS_I32, GROWN_ROOM, 1);
    check(bs_run(s, &error) == BS_OK, "rows halve: %s", error.message);
    for (int32_t row = 1; row < GROWN_ROOM; row++)
        wrong += by[row] != (row < 63 ? (row - 1) / 2 : 0);
    check(wrong == 0 && by[0] == -1, "order %d: a heap of 63 rows, %d of another parent", order, wrong);
    bs_session_close(s);
}

int main(void)
{
    test_lists();
    test_wrong_lists();
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        for (int32_t shape = 0; shape < 3; shape++)
            test_recursion(order, 1 + shape, shape);
        test_turns(order, 4, 1);
        test_turns(order, 1 << 21, 300000);
        test_turns(order, BS_MAX_TRIPS, BS_MAX_TRIPS / 4);
        test_ring(order, 1, 0);
        test_ring(order, 3, 1);
        test_growth(order, 1);
        test_growth(order, 3);
        test_halves(order);
    }
    test_bound();
    return check_end();
}
