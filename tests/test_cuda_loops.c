/* tags: asan */
/* Promises: on a device a loop makes the trips that its rows need, in tiles and at top level, whatever the launch mode;
 * in tiles and in WHILE nodes neither launches nor waits of the host grow with trips or with how deep loops nest; a row
 * that does not end, or a count beyond the bound, is named as on the CPU. (Random graphs with loops:
 * test_cuda_random.c.) */
#include "check.h"

#include "cuda_counted.h"
#include "run/session.h"

#include <math.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROWS = 30, MOST = 200 };
#else
enum { ROWS = 30, MOST = 1000 };
#endif

static BS_ALIGNED uint8_t persistent[8 << 20], transient[1 << 20], staging[1 << 16], device_memory[4096];
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

/* A session on a device with the bytes that the plan wants, and not one more. */
static bs_session *open_session(const bs_graph *g, int32_t order, int32_t launch_mode, bs_device **device)
{
    static bs_arena arena;
    const bs_plan_desc desc = {.tier = BS_TIER_CUDA, .order = order, .launch_mode = launch_mode};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    bs_sizes sizes;
    if (!plan)
        return NULL;
    bs_plan_sizes(plan, &sizes);
    const bs_cuda_desc open = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    bs_arena_init(&arena, "device", device_memory, sizeof device_memory);
    *device = bs_cuda_open(&arena, &open, &error);
    return *device ? bs_session_create(&memory, plan, &(bs_session_desc){.device = *device}, &error) : NULL;
}

static void bind(bs_session *s, const char *name, bs_dtype dtype, void *data)
{
    const bs_buffer b = {data, dtype, 2, {ROWS, 1}, {0}};
    bs_bind(s, name, &b, &error);
}

/* --------------------------------------------------------------------------------------------------- counted */

/* x + 1 as often as each row's count says, within `depth` loops that all make as many trips as theirs say. */
static bs_graph *counting(int32_t bound, int32_t depth)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, 1)), none),
                   counts = bs_rows(g, bs_input(g, "counts", BS_I32, BS_SHAPE2(ROWS, 1)), none);
    bs_router loop[3];
    bs_value was[3], value = x, count = counts;
    static const char *const names[] = {"outer", "middle", "inner"};
    for (int32_t d = 0; d < depth; d++) {
        loop[d] = bs_loop_begin(g, value, count, &(bs_loop_desc){.name = names[d], .bound = bound});
        value = was[d] = bs_loop_carry(g, loop[d], value);
        count = bs_scatter(g, loop[d], 0, count);
    }
    value = bs_affine(g, value, 1.0f, 1.0f);
    for (int32_t d = depth - 1; d >= 0; d--) {
        value = bs_loop_next(g, loop[d], was[d], value);
        bs_loop_end(g, loop[d], none);
    }
    bs_output(g, "y", bs_collect(g, value));
    return g;
}

typedef struct spent {
    int64_t launches, waits;
} spent;

/* The third run's launches and waits: the first two may capture. */
static spent count_once(int32_t bound, int32_t depth, int32_t order, int32_t launch_mode, int32_t trips)
{
    static float x[ROWS], y[ROWS];
    static int32_t counts[ROWS];
    cuda_counts c = {0};
    bs_device *device = NULL;
    bs_session *s = open_session(counting(bound, depth), order, launch_mode, &device);
    int32_t wrong = 0;
    bind(s, "x", BS_F32, x);
    bind(s, "counts", BS_I32, counts);
    bind(s, "y", BS_F32, y);
    for (int32_t run = 0; s && run < 3; run++) {
        for (int32_t i = 0; i < ROWS; i++) {
            x[i] = (float)(i + run);
            counts[i] = i % 4 == run ? trips : trips * i / ROWS;
        }
        cuda_counts_reset();
        wrong += bs_run(s, &error) != BS_OK;
        cuda_counts_get(&c);
        for (int32_t i = 0; i < ROWS; i++)
            wrong += y[i] != x[i] + powf((float)counts[i], (float)depth);
    }
    if (!s || wrong > 0)
        printf("  bound %d, depth %d, order %d, launch mode %d, trips %d: %d wrong, %s\n", bound, depth, order,
               launch_mode, trips, wrong, error.message);
    check(s && wrong == 0, "rows make the trips that they count, %d at most", trips);
    bs_session_close(s);
    bs_cuda_close(device);
    return (spent){c.launches + c.graph_launches, c.synchronisations};
}

static void test_launches(void)
{
    static const int32_t trips[] = {1, 10, 50, MOST};
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
        for (int32_t mode = BS_LAUNCH_AUTO; mode < BS_LAUNCH_COUNT; mode++) {
            spent of[4];
            for (int32_t i = 0; i < 4; i++)
                of[i] = count_once(MOST, 1, order, mode, trips[i]);
            printf("  %s, launch mode %s: launches %d %d %d %d, waits %d %d %d %d\n",
                   order == BS_ORDER_DEPTH ? "in tiles" : "at top level", bs_launch_mode_name((bs_launch_mode)mode),
                   (int)of[0].launches, (int)of[1].launches, (int)of[2].launches, (int)of[3].launches,
                   (int)of[0].waits, (int)of[1].waits, (int)of[2].waits, (int)of[3].waits);
            if (!COUNTED)
                continue;
            if (order == BS_ORDER_DEPTH || mode == BS_LAUNCH_CONDITIONAL || mode == BS_LAUNCH_AUTO)
                check(of[0].launches == of[3].launches && of[0].waits == of[3].waits && of[0].launches < 10,
                      "neither launches nor waits grow with trips");
            else
                check(of[3].waits <= MOST / 64 + 4 && of[0].launches < 40, "the host asks now and then");
        }
}

static void test_depth(void)
{
    spent of[3];
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        for (int32_t depth = 1; depth <= 3; depth++)
            of[depth - 1] = count_once(10, depth, order, BS_LAUNCH_CONDITIONAL, 10);
        if (COUNTED)
            check(of[0].launches == of[2].launches && of[0].waits == of[2].waits,
                  "nor with the depth of loops in loops: %d launches, %d waits", (int)of[2].launches,
                  (int)of[2].waits);
        for (int32_t mode = BS_LAUNCH_STREAM; mode < BS_LAUNCH_COUNT; mode++)
            count_once(7, 3, order, mode, 7);
    }
    const spent captured = count_once(100, 1, BS_ORDER_BREADTH, BS_LAUNCH_GRAPH, 100),
                too_long = count_once(100000, 1, BS_ORDER_BREADTH, BS_LAUNCH_GRAPH, 100),
                chosen = count_once(100000, 1, BS_ORDER_BREADTH, BS_LAUNCH_AUTO, 100);
    if (COUNTED)
        check(captured.launches == 1 && too_long.launches > 100 && chosen.launches == 1,
              "a loop of 100 trips is captured as they are, one of 100,000 is not, unless in a WHILE node");
}

/* --------------------------------------------------------------------------------------------------- slices */

/* Sums over what the caller's buffer has of each trip, of which each run has others: of rows, or of the root. */
static void test_slices(int32_t order, int32_t launch_mode, bool rows)
{
    enum { TRIPS = 7, WIDTH = 3, STEP = 2 };
    static float x[ROWS][TRIPS][WIDTH * STEP], y[ROWS][WIDTH];
    const int64_t n = rows ? ROWS : 1;
    bs_graph *g = new_graph();
    const bs_dim steps = bs_symbol(g, "T", TRIPS);
    const bs_value input = rows ? bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE3(ROWS, steps, WIDTH)), none)
                                : bs_input(g, "x", BS_F32, BS_SHAPE2(steps, WIDTH)),
                   zero = rows ? bs_rows(g, bs_input(g, "zero", BS_F32, BS_SHAPE2(ROWS, WIDTH)), none)
                               : bs_input(g, "zero", BS_F32, BS_SHAPE1(WIDTH));
    const bs_router loop = bs_loop_begin(g, input, none, &(bs_loop_desc){.name = "sum", .over = input});
    const bs_value was = bs_loop_carry(g, loop, zero),
                   sum = bs_loop_next(g, loop, was, bs_add(g, was, bs_loop_slice(g, loop, input)));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", rows ? bs_collect(g, sum) : sum);
    bs_device *device = NULL;
    bs_session *s = open_session(g, order, launch_mode, &device);
    static float none_yet[ROWS][WIDTH];
    bs_buffer bx = {x, BS_F32, rows ? 3 : 2, {rows ? ROWS : TRIPS, rows ? TRIPS : WIDTH, WIDTH},
                          {rows ? sizeof x[0] / 4 : sizeof x[0][0] / 4, rows ? sizeof x[0][0] / 4 : STEP, STEP}},
                    bz = {none_yet, BS_F32, rows ? 2 : 1, {rows ? ROWS : WIDTH, WIDTH}, {0}},
                    by = {y, BS_F32, rows ? 2 : 1, {rows ? ROWS : WIDTH, WIDTH}, {0}};
    int32_t wrong = bs_bind(s, "zero", &bz, &error) != BS_OK || bs_bind(s, "y", &by, &error) != BS_OK;
    for (int32_t run = 0; wrong == 0 && run < 4; run++) {
        const int32_t trips = TRIPS - run % 3 * 2;
        bx.dim[rows ? 1 : 0] = trips;
        wrong += bs_bind(s, "x", &bx, &error) != BS_OK;
        for (int32_t i = 0; i < ROWS * TRIPS * WIDTH * STEP; i++)
            (&x[0][0][0])[i] = (float)((i * 7 + run) % 31);
        wrong += bs_run(s, &error) != BS_OK;
        for (int32_t i = 0; i < n * WIDTH; i++) {
            float all = 0;
            for (int32_t t = 0; t < trips; t++)
                all += x[i / WIDTH][t][i % WIDTH * STEP];
            wrong += (&y[0][0])[i] != all;
        }
    }
    check(wrong == 0, "a trip sees its part of the caller's buffer: %d wrong, %s", wrong, error.message);
    bs_session_close(s);
    bs_cuda_close(device);
}

/* --------------------------------------------------------------------------------------------------- faults */

/* Rows are halved while they are above 1. */
static bs_graph *halving(int32_t bound)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, 1)), none);
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "halve", .bound = bound});
    const bs_value n = bs_loop_carry(g, loop, x), half = bs_affine(g, n, 0.5f, 0.0f),
                   end = bs_loop_next(g, loop, n, half), trips = bs_loop_trips(g, loop);
    bs_loop_end(g, loop, bs_affine(g, half, 1.0f, -1.0f));
    bs_output(g, "y", bs_collect(g, end));
    bs_output(g, "trips", bs_collect(g, trips));
    return g;
}

static void test_faults(int32_t order, int32_t launch_mode)
{
    static float x[ROWS], y[ROWS];
    static int32_t trips[ROWS];
    bs_device *device = NULL;
    bs_session *s = open_session(halving(10), order, launch_mode, &device);
    int32_t sum = 0, wrong = 0;
    bs_decision d;
    for (int32_t i = 0; i < ROWS; i++)
        x[i] = (float)(1 << i % 10);
    bind(s, "x", BS_F32, x);
    bind(s, "y", BS_F32, y);
    bind(s, "trips", BS_I32, trips);
    for (int32_t run = 0; run < 2; run++)
        wrong += bs_run(s, &error) != BS_OK;
    for (int32_t i = 0; i < ROWS; i++) {
        sum += i % 10 ? i % 10 : 1;
        wrong += trips[i] != (i % 10 ? i % 10 : 1);
    }
    check(wrong == 0, "rows go on while they are to: %s", error.message);
    const bool told = bs_decision_get(s, "halve", &d) == BS_OK && d.counts[0] == sum && d.chosen[3] == 0;
    check(told, "all trips together had %d rows", sum);
    x[17] = x[23] = 4096;
    check(bs_run(s, &error) == BS_ERROR_DATA &&
              strstr(error.message, "\"halve\"") && strstr(error.message, "cell 17: it would go on after 10 trips"),
          "a row that does not end is named: %s", error.message);
    x[17] = x[23] = 2;
    check(bs_run(s, &error) == BS_OK && trips[17] == 1, "the next run is a run like any other");
    x[5] = NAN;
    check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "cell 5: its predicate after trip 0 is NaN"),
          "NaN is no predicate: %s", error.message);
    bs_session_close(s);
    bs_cuda_close(device);
}

/* A body that fails in trip 3: the loop ends there, though every row would go on to the bound. */
static void test_failing_body(int32_t order, int32_t launch_mode)
{
    enum { PLACES = 3, FAR = 2000 };
    static float x[ROWS][PLACES], y[ROWS];
    bs_graph *g = new_graph();
    bs_device *device = NULL;
    bs_decision d;
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, PLACES)), none),
                   start = bs_rows(g, bs_input(g, "start", BS_F32, BS_SHAPE2(ROWS, 1)), rows);
    const bs_router loop = bs_loop_begin(g, rows, none, &(bs_loop_desc){.name = "far", .bound = FAR});
    const bs_value was = bs_loop_carry(g, loop, start), seen = bs_loop_slice(g, loop, rows),
                   is = bs_add(g, was, bs_reshape(g, seen, BS_SHAPE1(1))), all = bs_loop_next(g, loop, was, is);
    bs_loop_end(g, loop, bs_affine(g, is, 0.0f, 1.0f));
    bs_output(g, "y", bs_collect(g, all));
    bs_session *s = open_session(g, order, launch_mode, &device);
    const bs_buffer bx = {x, BS_F32, 2, {ROWS, PLACES}, {0}};
    bs_bind(s, "x", &bx, &error);
    bind(s, "start", BS_F32, y);
    bind(s, "y", BS_F32, y);
    check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "select"), "the body fails: %s", error.message);
    const bool told = bs_decision_get(s, "far", &d) == BS_OK;
    check(told && d.counts[0] >= PLACES && d.counts[0] <= (PLACES + 1) * ROWS, "and no row goes on: %d trips",
          told ? d.counts[0] : -1);
    bs_session_close(s);
    bs_cuda_close(device);
}

static void test_bad_count(int32_t order)
{
    static float x[ROWS], y[ROWS];
    static int32_t counts[ROWS];
    bs_device *device = NULL;
    bs_session *s = open_session(counting(5, 1), order, BS_LAUNCH_STREAM, &device);
    counts[7] = counts[9] = 6;
    bind(s, "x", BS_F32, x);
    bind(s, "counts", BS_I32, counts);
    bind(s, "y", BS_F32, y);
    check(bs_run(s, &error) == BS_ERROR_DATA && strstr(error.message, "cell 7: 6 trips, its bound is 5"),
          "a count beyond the bound is refused: %s", error.message);
    counts[7] = 5, counts[9] = -4;
    check(bs_run(s, &error) == BS_OK && y[7] == 5 && y[9] == 0, "one at the bound is not, one below 0 makes no trip");
    bs_session_close(s);
    bs_cuda_close(device);
}

static bs_status at_four(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    (void)user;
    for (int32_t r = 0; r < rows; r++)
        path[r] = ((const float *)scores->data)[r * scores->row_stride] < 4.0f;
    return BS_OK;
}

/* A router in the body, over more rows than one block decides about: from 4 on a number is halved, below it grows by
 * 1. */
static void test_routed(int32_t launch_mode, bool asks)
{
    enum { MANY = 1500, TRIPS = 5 };
    static float x[MANY], y[MANY];
    static int32_t count[MANY];
    const bs_route_desc route = {
        .name = "four", .protocol = asks ? BS_ROUTE_CALLBACK : BS_ROUTE_BINARY, .paths = 2, .threshold = 4.0f};
    bs_graph *g = new_graph();
    bs_device *device = NULL;
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(MANY, 1)), none);
    const bs_value trips = bs_rows(g, bs_input(g, "trips", BS_I32, BS_SHAPE2(MANY, 1)), rows);
    const bs_router loop = bs_loop_begin(g, rows, trips, &(bs_loop_desc){.name = "five", .bound = TRIPS});
    const bs_value was = bs_loop_carry(g, loop, rows);
    const bs_router four = bs_route(g, was, none, &route);
    const bs_value way[2] = {bs_affine(g, bs_scatter(g, four, 0, was), 0.5f, 0.0f),
                             bs_affine(g, bs_scatter(g, four, 1, was), 1.0f, 1.0f)};
    const bs_value all = bs_loop_next(g, loop, was, bs_gather(g, four, way, none, NULL));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, all));
    bs_session *s = open_session(g, BS_ORDER_BREADTH, launch_mode, &device);
    const bs_buffer bx = {x, BS_F32, 2, {MANY, 1}, {0}}, by = {y, BS_F32, 2, {MANY, 1}, {0}},
                    bt = {count, BS_I32, 2, {MANY, 1}, {0}};
    int32_t wrong = 0;
    for (int32_t i = 0; i < MANY; i++) {
        x[i] = (float)(i * 7 % 64);
        count[i] = i % (TRIPS + 1);
    }
    bs_bind(s, "trips", &bt, &error);
    bs_bind(s, "x", &bx, &error);
    bs_bind(s, "y", &by, &error);
    if (asks)
        bs_set_route(s, "four", at_four, NULL, &error);
    const bool ran = s && bs_run(s, &error) == BS_OK;
    for (int32_t i = 0; i < MANY && ran; i++) {
        float v = x[i];
        for (int32_t t = 0; t < count[i]; t++)
            v = v >= 4.0f ? v * 0.5f : v + 1.0f;
        wrong += y[i] != v;
    }
    check(ran && wrong == 0, "launch mode %d: a router in the body%s: %d wrong, %s", launch_mode,
          asks ? ", by a callback" : "", wrong, error.message);
    bs_session_close(s);
    bs_cuda_close(device);
}

int main(void)
{
    test_launches();
    test_depth();
    cuda_order(1, 0); /* nodes that nothing holds back, and blocks, the last one first */
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        for (int32_t mode = BS_LAUNCH_STREAM; mode < BS_LAUNCH_COUNT; mode++) {
            test_faults(order, mode);
            test_failing_body(order, mode);
        }
        test_bad_count(order);
        for (int32_t mode = BS_LAUNCH_AUTO; mode < BS_LAUNCH_COUNT && order == BS_ORDER_BREADTH; mode++) {
            test_routed(mode, false);
            test_routed(mode, true);
        }
        for (int32_t mode = BS_LAUNCH_AUTO; mode < BS_LAUNCH_COUNT; mode++) {
            test_slices(order, mode, false);
            test_slices(order, mode, true);
        }
    }
    return check_end();
}
