/* tags: asan tsan */
/* Promises: a loop is its definition, whatever runs in its body, in both orders and for any threads; rows that are done
 * cost nothing; a count or a predicate beyond the bound ends in an error that names loop, row and bound; what cannot be
 * a loop is refused while it is built. (Random graphs with loops: test_planner.c.) */
#include "check.h"

#include "brainstorm.h"
#include "plan/plan.h"

#include <math.h>

static BS_ALIGNED uint8_t persistent[4 << 20], transient[1 << 20], staging[1 << 16];
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

static bs_session *open_session(const bs_graph *g, int32_t order, int32_t threads)
{
    const bs_plan_desc desc = {.order = order, .threads = threads};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    memset(transient, 0xFF, sizeof transient); /* NaN */
    return plan ? bs_session_create(&memory, plan, NULL, &error) : NULL;
}

static void bind_f32(bs_session *s, const char *name, float *data, int64_t rows, int64_t width)
{
    const bs_buffer b = {data, BS_F32, 2, {rows, width}, {0}};
    bs_bind(s, name, &b, &error);
}

static void bind_i32(bs_session *s, const char *name, int32_t *data, int64_t rows)
{
    const bs_buffer b = {data, BS_I32, 2, {rows, 1}, {0}};
    bs_bind(s, name, &b, &error);
}

/* -------------------------------------------------------------------------------------------------- collatz */

enum { ROWS = 100, BOUND = 200 };

/* Rows go on while they are above 1, halved or tripled by the path that a router in the body chooses. */
static bs_graph *collatz(int32_t bound)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, 1)), none);
    const bs_loop_desc desc = {.name = "collatz", .bound = bound};
    const bs_route_desc by_parity = {.name = "parity", .protocol = BS_ROUTE_LABEL, .paths = 2};
    const bs_router loop = bs_loop_begin(g, x, none, &desc);
    const bs_value n = bs_loop_carry(g, loop, x);
    const bs_value half = bs_affine(g, n, 0.5f, 0.0f);
    const bs_value odd = bs_sub(g, n, bs_affine(g, bs_unary(g, half, BS_UNARY_FLOOR), 2.0f, 0.0f));
    const bs_router parity = bs_route(g, bs_convert(g, odd, &(bs_convert_desc){.dtype = BS_I32}), none, &by_parity);
    bs_value out[2];
    out[0] = bs_affine(g, bs_scatter(g, parity, 0, n), 0.5f, 0.0f);
    out[1] = bs_affine(g, bs_scatter(g, parity, 1, n), 3.0f, 1.0f);
    const bs_value next = bs_gather(g, parity, out, none, NULL);
    const bs_value end = bs_loop_next(g, loop, n, next), trips = bs_loop_trips(g, loop);
    bs_loop_end(g, loop, bs_affine(g, next, 1.0f, -1.0f));
    bs_output(g, "end", bs_collect(g, end));
    bs_output(g, "trips", bs_collect(g, trips));
    return g;
}

static int32_t collatz_trips(int32_t n)
{
    int32_t trips = 0;
    do {
        n = n % 2 ? 3 * n + 1 : n / 2;
        trips++;
    } while (n > 1);
    return trips;
}

static void test_while(int32_t order, int32_t threads)
{
    static float x[ROWS], end[ROWS];
    static int32_t trips[ROWS];
    bs_session *s = open_session(collatz(BOUND), order, threads);
    int32_t right = 0, sum = 0;
    bs_decision d;
    for (int32_t i = 0; i < ROWS; i++)
        x[i] = (float)(i + 2);
    bind_f32(s, "x", x, ROWS, 1);
    bind_f32(s, "end", end, ROWS, 1);
    bind_i32(s, "trips", trips, ROWS);
    check(bs_run(s, &error) == BS_OK, "rows run while their predicate holds: %s", error.message);
    for (int32_t i = 0; i < ROWS; i++) {
        right += end[i] == 1.0f && trips[i] == collatz_trips(i + 2);
        sum += collatz_trips(i + 2);
    }
    check(right == ROWS, "order %d, %d threads: each row makes the trips it needs, %d of %d", order, threads, right,
          ROWS);
    const bool loops = bs_decision_get(s, "collatz", &d) == BS_OK && d.counts[0] == sum;
    check(loops, "all trips together have as many rows as were not done, %d", sum);
    const bool decides = bs_decision_get(s, "parity", &d) == BS_OK && d.counts[0] + d.counts[1] == sum;
    check(decides, "and the router in the body decided about as many");
    bs_session_close(s);
}

static void test_endless(int32_t order)
{
    static float x[ROWS], end[ROWS];
    static int32_t trips[ROWS];
    bs_session *s = open_session(collatz(20), order, 1);
    for (int32_t i = 0; i < ROWS; i++)
        x[i] = i == 17 ? 27 : 4; /* 27 takes 111 */
    bind_f32(s, "x", x, ROWS, 1);
    bind_f32(s, "end", end, ROWS, 1);
    bind_i32(s, "trips", trips, ROWS);
    check(bs_run(s, &error) == BS_ERROR_DATA, "a loop ends at its bound");
    check(strstr(error.message, "\"collatz\"") && strstr(error.message, "cell 17: it would go on after 20 trips"),
          "and says which row was not done: %s", error.message);
    x[17] = 8;
    check(bs_run(s, &error) == BS_OK && trips[17] == 3, "the next run is a run like any other");
    x[5] = NAN;
    check(bs_run(s, &error) == BS_ERROR_DATA, "NaN is no predicate: %s", error.message);
    bs_session_close(s);
}

/* --------------------------------------------------------------------------------------------- counts, the root */

/* Sums over the first rows of a table, as many as a count says, of all rows at once; each trip sees one. */
static void test_counts(int32_t order)
{
    static float table[3][5][2], zero[3][2], sum[3][2], all[3][5][2];
    int32_t count[3] = {5, 0, 2}, wrong = 0;
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "table", BS_F32, BS_SHAPE3(3, 5, 2)), none);
    const bs_value n = bs_rows(g, bs_input(g, "count", BS_I32, BS_SHAPE2(3, 1)), x);
    const bs_value start = bs_rows(g, bs_input(g, "zero", BS_F32, BS_SHAPE2(3, 2)), x);
    const bs_loop_desc desc = {.name = "sum", .over = x};
    const bs_router loop = bs_loop_begin(g, x, n, &desc);
    const bs_value before = bs_loop_carry(g, loop, start), next = bs_add(g, before, bs_loop_slice(g, loop, x));
    const bs_value end = bs_loop_next(g, loop, before, next), each = bs_loop_collect(g, loop, next);
    bs_loop_end(g, loop, none);
    bs_output(g, "sum", bs_collect(g, end));
    bs_output(g, "all", bs_collect(g, each));
    bs_session *s = open_session(g, order, 1);
    for (int32_t i = 0; i < 30; i++)
        table[i / 10][i / 2 % 5][i % 2] = (float)(i * i % 7);
    bs_bind(s, "table", &(bs_buffer){table, BS_F32, 3, {3, 5, 2}, {0}}, &error);
    bs_bind(s, "all", &(bs_buffer){all, BS_F32, 3, {3, 5, 2}, {0}}, &error);
    bind_i32(s, "count", count, 3);
    bind_f32(s, "zero", zero[0], 3, 2);
    bind_f32(s, "sum", sum[0], 3, 2);
    check(bs_run(s, &error) == BS_OK, "a loop over a dimension runs: %s", error.message);
    for (int32_t i = 0; i < 6; i++) {
        float total = 0;
        for (int32_t t = 0; t < 5; t++) {
            total += t < count[i / 2] ? table[i / 2][t][i % 2] : 0;
            wrong += all[i / 2][t][i % 2] != (t < count[i / 2] ? total : 0);
        }
        wrong += sum[i / 2][i % 2] != total;
    }
    check(wrong == 0, "order %d: a slice a trip, the value of every trip, zeros for trips that are not made", order);
    bs_session_close(s);
}

/* A loop in a loop sums slices of slices; the rows that it has side by side stand apart outside, after a trip. */
static void test_slices_of_slices(int32_t order)
{
    static float table[3][3][2][2], zero[3][2], sum[3][2];
    int32_t count[3] = {3, 1, 2}, wrong = 0;
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "table", BS_F32, (bs_shape){4, {3, 3, 2, 2}}), none);
    const bs_value n = bs_rows(g, bs_input(g, "count", BS_I32, BS_SHAPE2(3, 1)), x);
    const bs_value start = bs_rows(g, bs_input(g, "zero", BS_F32, BS_SHAPE2(3, 2)), x);
    const bs_router outer = bs_loop_begin(g, x, n, &(bs_loop_desc){.name = "outer", .over = x});
    const bs_value before = bs_loop_carry(g, outer, start), step = bs_loop_slice(g, outer, x);
    const bs_router inner = bs_loop_begin(g, step, none, &(bs_loop_desc){.name = "inner", .over = step});
    const bs_value was = bs_loop_carry(g, inner, before), is = bs_add(g, was, bs_loop_slice(g, inner, step));
    const bs_value row = bs_loop_next(g, inner, was, is);
    bs_loop_end(g, inner, none);
    const bs_value end = bs_loop_next(g, outer, before, row);
    bs_loop_end(g, outer, none);
    bs_output(g, "sum", bs_collect(g, end));
    bs_session *s = open_session(g, order, 1);
    for (int32_t i = 0; i < 36; i++)
        table[i / 12][i / 4 % 3][i / 2 % 2][i % 2] = (float)(i * i % 11);
    bs_bind(s, "table", &(bs_buffer){table, BS_F32, 4, {3, 3, 2, 2}, {0}}, &error);
    bind_i32(s, "count", count, 3);
    bind_f32(s, "zero", zero[0], 3, 2);
    bind_f32(s, "sum", sum[0], 3, 2);
    check(bs_run(s, &error) == BS_OK, "a loop in a loop runs: %s", error.message);
    for (int32_t i = 0; i < 6; i++) {
        float total = 0;
        for (int32_t t = 0; t < 2 * count[i / 2]; t++)
            total += table[i / 2][t / 2][t % 2][i % 2];
        wrong += sum[i / 2][i % 2] != total;
    }
    check(wrong == 0, "order %d: slices of slices, of rows that stand apart: %d wrong", order, wrong);
    bs_session_close(s);
}

/* The last row makes `trips`; the loop goes over 5 elements, or over nothing. */
static void test_bound_of_count(bs_loop_desc desc, bool over, int32_t trips, const char *wanted)
{
    static float x[2][5], zero[2], y[2];
    int32_t count[2] = {1, trips};
    bs_graph *g = new_graph();
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE3(2, 5, 1)), none);
    const bs_value n = bs_rows(g, bs_input(g, "count", BS_I32, BS_SHAPE2(2, 1)), rows);
    const bs_value start = bs_rows(g, bs_input(g, "zero", BS_F32, BS_SHAPE2(2, 1)), rows);
    desc.name = "few";
    desc.over = over ? rows : none;
    const bs_router loop = bs_loop_begin(g, rows, n, &desc);
    const bs_value v = bs_loop_carry(g, loop, start), end = bs_loop_next(g, loop, v, bs_affine(g, v, 1, 1));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, end));
    bs_session *s = open_session(g, BS_ORDER_AUTO, 1);
    bs_bind(s, "x", &(bs_buffer){x, BS_F32, 3, {2, 5, 1}, {0}}, &error);
    bind_f32(s, "zero", zero, 2, 1);
    bind_f32(s, "y", y, 2, 1);
    bind_i32(s, "count", count, 2);
    const bs_status status = bs_run(s, &error);
    if (wanted)
        check(status == BS_ERROR_DATA && strstr(error.message, "loop \"few\"") && strstr(error.message, wanted),
              "%d trips: a count beyond the bound, or beyond the dimension, is an error: %s", trips, error.message);
    else
        check(status == BS_OK && y[0] == 1 && y[1] == (float)(desc.in_turn ? 1 : trips), "%d trips are made (%g): %s",
              trips, (double)y[1], error.message);
    bs_session_close(s);
}

static void test_bounds_of_counts(void)
{
    const bs_loop_desc three = {.bound = 3}, none_told = {.bound = 0}, eight = {.bound = 8};
    const bs_loop_desc turns = {.bound = 5, .in_turn = 1};
    test_bound_of_count(three, false, 3, NULL);
    test_bound_of_count(three, false, 4, "cell 1: 4 trips, its bound is 3");
    test_bound_of_count(none_told, true, 5, NULL);
    test_bound_of_count(none_told, true, 6, "cell 1: 6 trips, its bound is 5");
    test_bound_of_count(none_told, true, INT32_MAX, "cell 1: 2147483647 trips, its bound is 5");
    test_bound_of_count(eight, true, 5, NULL);
    test_bound_of_count(eight, true, 8, "cell 1: 8 trips, its bound is 5");
    test_bound_of_count(turns, false, 5, NULL);
    test_bound_of_count(turns, false, 7, "cell 1: 7 trips, its bound is 5");
}

static bs_status asks_for_more(void *count, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    (void)scores;
    *(int32_t *)count = 9;
    for (int32_t r = 0; r < rows; r++)
        path[r] = 0;
    return BS_OK;
}

/* A count that grows while the loop runs is as it was before the first trip. */
static void test_growing_count(bool over)
{
    static float x[5], zero, y;
    int32_t count = 2;
    bs_graph *g = new_graph();
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 5, 1)), none);
    const bs_value n = bs_rows(g, bs_input(g, "count", BS_I32, BS_SHAPE2(1, 1)), rows);
    const bs_value start = bs_rows(g, bs_input(g, "zero", BS_F32, BS_SHAPE2(1, 1)), rows);
    const bs_loop_desc desc = {.name = "few", .bound = over ? 8 : 3, .over = over ? rows : none};
    const bs_router loop = bs_loop_begin(g, rows, n, &desc);
    const bs_value v = bs_loop_carry(g, loop, start);
    const bs_router one = bs_route(g, v, none,
                                   &(bs_route_desc){.name = "one", .protocol = BS_ROUTE_CALLBACK, .paths = 1});
    const bs_value way = bs_affine(g, bs_scatter(g, one, 0, v), 1, 1);
    const bs_value end = bs_loop_next(g, loop, v, bs_gather(g, one, &way, none, NULL));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, end));
    bs_session *s = open_session(g, BS_ORDER_BREADTH, 1);
    bs_bind(s, "x", &(bs_buffer){x, BS_F32, 3, {1, 5, 1}, {0}}, &error);
    bind_f32(s, "zero", &zero, 1, 1);
    bind_f32(s, "y", &y, 1, 1);
    bind_i32(s, "count", &count, 1);
    bs_set_route(s, "one", asks_for_more, &count, &error);
    check(bs_run(s, &error) == BS_OK && count == 9 && y == 2, "no trips beyond the count: %g: %s",
          (double)y, error.message);
    bs_session_close(s);
}

/* A loop of the root, in it another one: x = x + (0 + 1 + .. + 4) three times. */
static void test_root(int32_t threads)
{
    static float x[2][3], y[2][3];
    bs_graph *g = new_graph();
    const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE2(2, 3));
    const bs_router outer = bs_loop_begin(g, in, none, &(bs_loop_desc){.name = "outer", .bound = 3});
    const bs_value a = bs_loop_carry(g, outer, in);
    const bs_router inner = bs_loop_begin(g, a, none, &(bs_loop_desc){.name = "inner", .bound = 5});
    const bs_value b = bs_loop_carry(g, inner, a);
    const bs_value trip = bs_convert(g, bs_loop_trip(g, inner), &(bs_convert_desc){.dtype = BS_F32});
    const bs_value end = bs_loop_next(g, inner, b, bs_add(g, b, trip));
    bs_loop_end(g, inner, none);
    const bs_value all = bs_loop_next(g, outer, a, end);
    bs_loop_end(g, outer, none);
    bs_output(g, "y", all);
    bs_session *s = open_session(g, BS_ORDER_AUTO, threads);
    for (int32_t i = 0; i < 6; i++)
        x[i / 3][i % 3] = (float)i;
    bind_f32(s, "x", x[0], 2, 3);
    bind_f32(s, "y", y[0], 2, 3);
    int32_t right = 0;
    check(bs_run(s, &error) == BS_OK, "loops in loops of the root run: %s", error.message);
    for (int32_t i = 0; i < 6; i++)
        right += y[i / 3][i % 3] == (float)(i + 30);
    check(right == 6, "a root value is one row, which goes round");
    bs_session_close(s);
}

/* Goes on by a carried value: by what it was before the trip, whether a kernel of the body reads it, too, or not. */
static void test_by_carried(int32_t order, bool alone)
{
    static float x[4] = {0, 3, 1, 2}, end[4];
    static int32_t trips[4];
    bs_graph *g = new_graph();
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(4, 1)), none);
    const bs_router loop = bs_loop_begin(g, rows, none, &(bs_loop_desc){.name = "down", .bound = 10});
    const bs_value v = bs_loop_carry(g, loop, rows), same = alone ? bs_loop_carry(g, loop, rows) : v;
    const bs_value less = bs_affine(g, v, 1.0f, -1.0f), last = bs_loop_next(g, loop, v, less);
    if (alone)
        bs_loop_next(g, loop, same, less);
    const bs_value count = bs_loop_trips(g, loop);
    bs_loop_end(g, loop, same);
    bs_output(g, "end", bs_collect(g, last));
    bs_output(g, "trips", bs_collect(g, count));
    bs_session *s = open_session(g, order, 1);
    bind_f32(s, "x", x, 4, 1);
    bind_f32(s, "end", end, 4, 1);
    bind_i32(s, "trips", trips, 4);
    int32_t right = 0;
    check(bs_run(s, &error) == BS_OK, "a loop goes on by what it carries: %s", error.message);
    for (int32_t i = 0; i < 4; i++)
        right += end[i] == -1.0f && trips[i] == (int32_t)x[i] + 1;
    check(right == 4, "order %d, %s: a row goes on by what was carried before the trip, %d of 4", order,
          alone ? "which nothing else reads" : "which a kernel reads", right);
    bs_session_close(s);
}

/* What tells the domain of a loop is not computed. */
static void test_like(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(4, 1)), none), like = bs_affine(g, x, 2.0f, 0.0f);
    const bs_router loop = bs_loop_begin(g, like, none, &(bs_loop_desc){.name = "a", .bound = 2});
    const bs_value v = bs_loop_carry(g, loop, x), end = bs_loop_next(g, loop, v, bs_add(g, v, v));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, end));
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
    check(plan && !plan->node_live[g->values[like.id].node], "what only tells the domain of a loop is not computed");
}

/* ------------------------------------------------------------------------------------------------- refused */

typedef void (*build)(bs_graph *g, bs_value x, bs_router loop, bs_value carried);

static void after_end(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)x;
    bs_loop_next(g, loop, carried, carried);
    bs_loop_end(g, loop, none);
    bs_add(g, carried, carried);
}
static void before_end(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)x;
    bs_add(g, bs_loop_next(g, loop, carried, carried), bs_loop_next(g, loop, none, carried));
}
static void no_next(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)x, (void)carried;
    bs_loop_end(g, loop, none);
}
static void given_twice(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)x;
    bs_loop_next(g, loop, carried, carried);
    bs_loop_next(g, loop, carried, carried);
}
static void other_shape(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)x;
    bs_loop_next(g, loop, carried, bs_slice(g, carried, &(bs_slice_desc){.length = 1}));
}
static void from_outside(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    bs_loop_next(g, loop, carried, x);
}
static void crossed(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "other", .bound = 2});
    bs_loop_next(g, loop, carried, carried);
}
static void ended_twice(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)x;
    bs_loop_next(g, loop, carried, carried);
    bs_loop_end(g, loop, none);
    bs_loop_end(g, loop, none);
}
static void gathered(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)x;
    bs_gather(g, loop, &carried, none, NULL);
}
static void never_ended(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    (void)g, (void)x, (void)loop, (void)carried;
}
static void sent_in_late(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    bs_loop_next(g, loop, carried, carried);
    bs_loop_end(g, loop, none);
    bs_scatter(g, loop, 0, x);
}
static void too_deep(bs_graph *g, bs_value x, bs_router loop, bs_value carried)
{
    static const char *const names[] = {"b", "c", "d", "e", "f", "g", "h", "i"};
    (void)x, (void)loop;
    for (int32_t i = 0; i < 8; i++)
        carried = bs_loop_carry(
            g, bs_loop_begin(g, carried, none, &(bs_loop_desc){.name = names[i], .bound = 2}), carried);
}

static void test_refused(void)
{
    static const struct {
        build build;
        const char *text;
    } rows[] = {{after_end, "is of the body of loop \"a\", which has ended"},
                {before_end, "is a result of loop \"a\", which has not ended"},
                {no_next, "1 carried values have no bs_loop_next"},
                {given_twice, "the carried value is given twice"},
                {other_shape, "after a trip it would be f32 [1]"},
                {from_outside, "operand 0 is of rows"},
                {crossed, "loop \"a\" is not the one that was begun last"},
                {ended_twice, "loop \"a\" has ended"},
                {gathered, "whose rows come back by bs_loop_next"},
                {never_ended, "loop \"a\" is begun and never ended"},
                {sent_in_late, "loop \"a\" has ended"},
                {too_deep, "9 loops in loops, expected 8 at most"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bs_graph *g = new_graph();
        const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(3, 2)), none);
        const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "a", .bound = 4});
        rows[i].build(g, x, loop, bs_loop_carry(g, loop, x));
        check(bs_graph_check(g, &error) != BS_OK && strstr(error.message, rows[i].text), "%s", error.message);
    }
}

/* A carried image whose neighbours are read: they may have made another number of trips. */
static void test_halo(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_patches(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 16, 16)), &(bs_patches_desc){.size = 8});
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "blur", .bound = 4});
    const bs_value v = bs_loop_carry(g, loop, x);
    const bs_conv2d_desc conv = {.name = "c", .out = 1, .kernel = 3};
    const bs_value end = bs_loop_next(g, loop, v, bs_conv2d(g, v, &conv));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_assemble(g, end));
    check(!bs_plan_create(&memory.persistent, NULL, g, NULL, &error) &&
              strstr(error.message, "loop \"blur\" carries") &&
              strstr(error.message, "1 pixels around a cell"),
          "a carried value has no halo: %s", error.message);
}

int main(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        for (int32_t threads = 1; threads <= 3; threads++)
            test_while(order, threads);
        test_endless(order);
        test_counts(order);
        test_slices_of_slices(order);
        test_by_carried(order, false);
        test_by_carried(order, true);
    }
    test_bounds_of_counts();
    test_growing_count(false);
    test_growing_count(true);
    test_root(1);
    test_root(2);
    test_like();
    test_refused();
    test_halo();
    return check_end();
}
