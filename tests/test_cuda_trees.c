/* tags: asan */
/* Promises: on a device vertices read what their children have, in chains, trees and graphs, with the bytes of the CPU,
 * whatever the launch mode; in WHILE nodes neither launches nor waits of the host grow with levels; structures that are
 * none end the run, and the next one is a run like any other. */
#include "grown.h"
#include "trees.h"

#include "brainstorm.h"
#include "cuda_counted.h"
#include "plan/plan.h"

enum {
    SLOTS = TREES_SLOTS,
    WIDTH = 6,
    MOST = 64,     /* levels */
    APART = 300000 /* from turn to turn, of which MOST are more than a loop may have */
};

static BS_ALIGNED uint8_t persistent[2][8 << 20], transient[2][4 << 20], staging[1 << 16], device_memory[4096];
static bs_error error;
static const bs_value none;

/* What runs gave, on the CPU and on the device. */
typedef struct side {
    bs_memory memory;
    bs_arena opened;
    bs_device *device;
    bs_session *session;
    float h[TREES_ROWS][WIDTH];
    int32_t trips[TREES_ROWS], level[TREES_ROWS], twin[TREES_ROWS];
    bs_status status;
} side;

static side cpu, gpu;
static trees t;
static float x[TREES_ROWS][WIDTH];
static int32_t early[TREES_ROWS]; /* by how much the turn of a row comes before its level; perhaps it has none */

/* h = x + half of what the children have, of three dimensions if `image`; levels from lists. */
static bs_graph *vertices(side *s, int32_t bound, bool image)
{
    bs_graph *g = bs_graph_create(&s->memory.persistent, NULL);
    const bs_dim n = bs_symbol(g, "vertices", TREES_ROWS), entries = bs_symbol(g, "entries", TREES_ROWS * SLOTS);
    const bs_value children = bs_children(g, bs_input(g, "lengths", BS_I32, BS_SHAPE1(n)),
                                          bs_input(g, "indices", BS_I32, BS_SHAPE1(entries)), SLOTS),
                   level = bs_levels(g, children), twin = bs_levels(g, children); /* at one time, with one scratch */
    const bs_shape shape = image ? (bs_shape){4, {n, 1, 2, 3}} : BS_SHAPE2(n, WIDTH);
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, shape), none);
    const bs_value sooner = bs_rows(g, bs_input(g, "early", BS_I32, BS_SHAPE2(n, 1)), rows);
    const bs_router loop = bs_loop_begin(g, rows, bs_sub(g, bs_rows(g, level, rows), sooner),
                                         &(bs_loop_desc){.name = "tree", .bound = bound, .in_turn = 1});
    const bs_value h = bs_loop_carry(g, loop, rows), of = bs_scatter(g, loop, 0, bs_rows(g, children, rows));
    bs_value sum = bs_scatter(g, loop, 0, rows);
    if (image) {
        for (int32_t k = 0; k < SLOTS; k++) {
            const bs_value which = bs_slice(g, of, &(bs_slice_desc){.axis = 0, .start = k, .length = 1});
            const bs_value one = bs_reshape(g, bs_loop_rows(g, loop, h, which), BS_SHAPE3(1, 2, 3));
            sum = bs_add(g, sum, bs_affine(g, one, 0.5f, 0.0f));
        }
    } else {
        const bs_value all = bs_reduce(g, bs_loop_rows(g, loop, h, of), &(bs_reduce_desc){.kind = BS_REDUCE_SUM});
        sum = bs_add(g, sum, bs_affine(g, all, 0.5f, 0.0f));
    }
    const bs_value end = bs_loop_next(g, loop, h, sum), trips = bs_loop_trips(g, loop);
    bs_loop_end(g, loop, none);
    bs_output(g, "h", bs_collect(g, end));
    bs_output(g, "trips", bs_collect(g, trips));
    bs_output(g, "level", level);
    bs_output(g, "twin", twin);
    return g;
}

/* Plans and opens what a graph in its memory says. */
static void side_start(side *s, const bs_graph *g, int32_t launch_mode)
{
    const int32_t there = s == &gpu;
    const bs_plan_desc desc = {.tier = there ? BS_TIER_CUDA : BS_TIER_AUTO, .launch_mode = there ? launch_mode : 0};
    const bs_weights weights = bs_weights_from_table(&grown_weights);
    bs_sizes sizes;
    bs_arena_init(&s->memory.transient, "transient", transient[there], sizeof transient[there]);
    bs_arena_init(&s->memory.staging, "staging", staging, sizeof staging);
    bs_arena_init(&s->opened, "device", device_memory, sizeof device_memory);
    const bs_plan *plan = bs_plan_create(&s->memory.persistent, NULL, g, &desc, &error);
    if (!plan)
        return;
    bs_plan_sizes(plan, &sizes);
    const bs_cuda_desc open = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    s->device = there ? bs_cuda_open(&s->opened, &open, &error) : NULL;
    const bs_session_desc with = {.device = s->device, .weights = weights};
    s->session = bs_session_create(&s->memory, plan, &with, &error);
}

static void side_open(side *s, int32_t bound, bool image, int32_t launch_mode)
{
    memset(s, 0, sizeof *s);
    bs_arena_init(&s->memory.persistent, "persistent", persistent[s == &gpu], sizeof persistent[0]);
    side_start(s, vertices(s, bound, image), launch_mode);
}

static void side_close(side *s)
{
    bs_session_close(s->session);
    bs_cuda_close(s->device);
}

static void bind(side *s, const char *name, bs_dtype dtype, void *data, int64_t rows, int64_t width)
{
    const bs_buffer b = {data, dtype, width ? 2 : 1, {rows, width}, {0}};
    bs_bind(s->session, name, &b, &error);
}

static void side_run(side *s, bool image)
{
    memset(s->h, 0xFF, sizeof s->h);
    memset(s->trips, 0xFF, sizeof s->trips);
    memset(s->level, 0xFF, sizeof s->level);
    memset(s->twin, 0xFF, sizeof s->twin);
    bind(s, "twin", BS_I32, s->twin, t.rows, 1);
    bind(s, "early", BS_I32, early, t.rows, 1);
    bind(s, "lengths", BS_I32, t.length, t.rows, 0);
    bind(s, "indices", BS_I32, t.indices, t.n_indices + 1, 0);
    bind(s, "trips", BS_I32, s->trips, t.rows, 1);
    bind(s, "level", BS_I32, s->level, t.rows, 1);
    bs_bind(s->session, "x", &(bs_buffer){x, BS_F32, image ? 4 : 2, {t.rows, image ? 1 : WIDTH, 2, 3}, {0}}, &error);
    bs_bind(s->session, "h", &(bs_buffer){s->h, BS_F32, image ? 4 : 2, {t.rows, image ? 1 : WIDTH, 2, 3}, {0}}, &error);
    s->status = bs_run(s->session, &error);
}

static int32_t rows_with_a_turn(void)
{
    int32_t count = 0;
    for (int32_t row = 0; row < t.rows; row++)
        count += t.level[row] > early[row];
    return count;
}

static bool both_alike(void)
{
    bs_decision a, b;
    return cpu.status == BS_OK && gpu.status == BS_OK && memcmp(cpu.h, gpu.h, sizeof cpu.h) == 0 &&
           memcmp(cpu.trips, gpu.trips, sizeof cpu.trips) == 0 &&
           memcmp(cpu.level, gpu.level, sizeof cpu.level) == 0 &&
           memcmp(cpu.level, gpu.twin, sizeof cpu.level) == 0 &&
           memcmp(cpu.level, t.level, (size_t)t.rows * sizeof *t.level) == 0 &&
           bs_decision_get(cpu.session, "tree", &a) == BS_OK && bs_decision_get(gpu.session, "tree", &b) == BS_OK &&
           a.counts[0] == rows_with_a_turn() && b.counts[0] == a.counts[0];
}

static void test_shapes(int32_t launch_mode, bool image)
{
    static const int32_t rows[] = {100, 1, 33, 9};
    const int32_t bound = launch_mode == BS_LAUNCH_CONDITIONAL ? BS_MAX_TRIPS : MOST;
    side_open(&cpu, bound, image, 0);
    side_open(&gpu, bound, image, launch_mode);
    check(cpu.session && gpu.session, "sessions open: %s", error.message);
    for (int32_t shape = 0; cpu.session && gpu.session && shape < 3; shape++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            uint32_t seed = (uint32_t)(rows[i] + shape);
            trees_make(&t, rows[i], SLOTS, shape, seed);
            for (int32_t k = 0; k < rows[i] * WIDTH; k++)
                x[k / WIDTH][k % WIDTH] = (float)trees_below(&seed, 100) / 50 - 1;
            for (int32_t k = 0; k < rows[i]; k++)
                early[k] = i % 2 == 1 && k % 5 == 0 ? 3
                           : bound == MOST          ? 0
                                                    : (t.level[k] - 1) * (1 - APART);
            side_run(&cpu, image);
            side_run(&gpu, image);
            check(both_alike(), "%s%s, shape %d: %d rows of %d levels are those of the CPU",
                  bs_launch_mode_name((bs_launch_mode)launch_mode), image ? ", images" : "", shape, rows[i], t.depth);
        }
    side_close(&cpu);
    side_close(&gpu);
    memset(early, 0, sizeof early);
}

/* Launches and waits of the third run of a chain of `rows`. */
static void test_levels(int32_t launch_mode)
{
    int64_t launches[3], waits[3];
    static const int32_t rows[3] = {2, 20, 50};
    side_open(&gpu, 50, false, launch_mode);
    for (int32_t i = 0; gpu.session && i < 3; i++) {
        cuda_counts c = {0};
        trees_make(&t, rows[i], SLOTS, 0, 3);
        for (int32_t run = 0; run < 3; run++) {
            cuda_counts_reset();
            side_run(&gpu, false);
            cuda_counts_get(&c);
        }
        launches[i] = c.launches + c.graph_launches;
        waits[i] = c.synchronisations;
        check(gpu.status == BS_OK && t.depth == rows[i], "%d levels run", t.depth);
    }
    if (COUNTED && gpu.session && launch_mode == BS_LAUNCH_CONDITIONAL)
        check(launches[0] == launches[2] && waits[0] == waits[2], "launches %d %d %d, waits %d %d %d do not grow",
              (int)launches[0], (int)launches[1], (int)launches[2], (int)waits[0], (int)waits[1], (int)waits[2]);
    side_close(&gpu);
}

static void test_wrong(int32_t launch_mode)
{
    static const struct {
        int32_t length[4], indices[4];
    } rows[] = {{{0, 4, 0, 0}, {0, 2, 3, 0}}, {{0, -1, 0, 0}, {0}},       {{0, 0, 2, 3}, {0, 0, 0, 0}},
                {{0, 1, 0, 0}, {-2}},         {{0, 1, 0, 0}, {4}},        {{0, 1, 0, 0}, {INT32_MAX}},
                {{0, 1, 0, 0}, {INT32_MIN}},  {{0, 1, 0, 0}, {1}},        {{1, 1, 1, 1}, {1, 2, 3, 0}},
                {{0, 1, 1, 1}, {0, 1, 2}},    {{INT32_MAX, 1, 1, 1}, {0}}, {{0, 1, 1, INT32_MAX}, {0, 1, 2}}};
    side_open(&cpu, 3, false, 0);
    side_open(&gpu, 3, false, launch_mode);
    for (size_t i = 0; cpu.session && gpu.session && i < sizeof rows / sizeof *rows; i++) {
        memset(&t, 0, sizeof t);
        t.rows = 4;
        t.n_indices = 3;
        memcpy(t.length, rows[i].length, sizeof rows[i].length);
        memcpy(t.indices, rows[i].indices, sizeof rows[i].indices);
        side_run(&cpu, false);
        side_run(&gpu, false);
        check(cpu.status == BS_ERROR_DATA && gpu.status == BS_ERROR_DATA, "structure %d ends the run: %s", (int)i,
              error.message);
        trees_make(&t, 3, SLOTS, 1, 9);
        side_run(&cpu, false);
        side_run(&gpu, false);
        check(both_alike(), "and the next one is a run like any other");
    }
    side_close(&cpu);
    side_close(&gpu);
}

/* Rows that stand in a ring read each other, as before the trip; numbers that no row has end the run. */
static void test_ring(int32_t launch_mode)
{
    enum { ROWS = 40, TRIPS = 7 };
    static float from[ROWS], to[ROWS];
    static int32_t next[ROWS];
    int32_t wrong = 0;
    memset(&gpu, 0, sizeof gpu);
    bs_arena_init(&gpu.memory.persistent, "persistent", persistent[1], sizeof persistent[1]);
    bs_graph *g = bs_graph_create(&gpu.memory.persistent, NULL);
    const bs_value v = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, 1)), none),
                   of = bs_rows(g, bs_input(g, "next", BS_I32, BS_SHAPE2(ROWS, 1)), v);
    const bs_router loop = bs_loop_begin(g, v, none, &(bs_loop_desc){.name = "ring", .bound = TRIPS});
    const bs_value h = bs_loop_carry(g, loop, v), read = bs_loop_rows(g, loop, h, bs_scatter(g, loop, 0, of)),
                   end = bs_loop_next(g, loop, h, bs_reshape(g, read, BS_SHAPE1(1)));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, end));
    side_start(&gpu, g, launch_mode);
    check(gpu.session != NULL, "a ring opens: %s", error.message);
    bind(&gpu, "x", BS_F32, from, ROWS, 1);
    bind(&gpu, "next", BS_I32, next, ROWS, 1);
    bind(&gpu, "y", BS_F32, to, ROWS, 1);
    for (int32_t i = 0; i < ROWS; i++) {
        from[i] = (float)(i + 1);
        next[i] = (i + 1) % ROWS;
    }
    check(bs_run(gpu.session, &error) == BS_OK, "it runs: %s", error.message);
    for (int32_t i = 0; i < ROWS; i++)
        wrong += to[i] != from[(i + TRIPS) % ROWS];
    check(wrong == 0, "each row has what stood %d further: %d have not", TRIPS, wrong);
    for (int32_t bad = 0; bad < 4; bad++) {
        next[33] = (const int32_t[]){ROWS, -2, INT32_MAX, INT32_MIN}[bad];
        check(bs_run(gpu.session, &error) == BS_ERROR_DATA, "%d is no row: %s", next[33], error.message);
    }
    next[33] = -1;
    check(bs_run(gpu.session, &error) == BS_OK && to[33] == 0 && to[31] == 0 && to[34] == from[1], "-1 reads zeros");
    side_close(&gpu);
}

/* Rows that a device makes; and no more than there is room for. */
static void test_growth(int32_t launch_mode)
{
    static grown w;
    memset(&gpu, 0, sizeof gpu);
    bs_arena_init(&gpu.memory.persistent, "persistent", persistent[1], sizeof persistent[1]);
    side_start(&gpu, grown_graph(bs_graph_create(&gpu.memory.persistent, NULL), 6), launch_mode);
    check(gpu.session != NULL, "what grows opens: %s", error.message);
    for (int32_t roots = 3; gpu.session && roots >= 0; roots--) {
        memset(&w, 0, sizeof w);
        for (int32_t i = 0; i < GROWN_ROOM; i++) {
            w.n[i] = i < roots ? 5 - i % 2 : 7;
            w.roots[i] = i < roots;
            w.numbers[i] = roots + i;
        }
        grown_bind(gpu.session, &w, &error);
        check(bs_run(gpu.session, &error) == BS_OK && grown_wrong(&w, roots) == 0,
              "%s, %d roots: each row makes those it asks for: %d wrong: %s",
              bs_launch_mode_name((bs_launch_mode)launch_mode), roots, grown_wrong(&w, roots), error.message);
        w.n[0] = w.n[1] = w.n[2] = w.n[4] = 5;
        w.roots[4] = roots == 3; /* 128 rows in all */
        const bs_status many = bs_run(gpu.session, &error);
        const bool full = many == BS_ERROR_DATA && strstr(error.message, "there would be more than 100");
        check(roots == 3 ? full : many == BS_OK, "there is no room for all: %s", error.message);
        w.roots[4] = 0;
        w.n[0] = 6;
        const bs_status deep = bs_run(gpu.session, &error);
        check(deep == (roots > 0 ? BS_ERROR_DATA : BS_OK), "it is too deep: %s", error.message);
        w.n[0] = INT32_MAX;
        w.n[1] = INT32_MAX;
        const bool same = bs_run(gpu.session, &error) == deep;
        check(same && (roots == 0 || strstr(error.message, "cell 0: with the 2147483647 ")), "or too wide: %s",
              error.message);
    }
    side_close(&gpu);
}

int main(void)
{
    for (int32_t mode = BS_LAUNCH_STREAM; mode < BS_LAUNCH_COUNT; mode++) {
        test_shapes(mode, false);
        if (mode == BS_LAUNCH_STREAM)
            test_shapes(mode, true);
        test_levels(mode);
        test_wrong(mode);
        test_ring(mode);
        test_growth(mode);
    }
    return check_end();
}
