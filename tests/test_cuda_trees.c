/* Promises: on a device vertices read what their children have, in chains, trees and graphs, with the bytes of the CPU,
 * whatever the launch mode; in WHILE nodes neither launches nor waits of the host grow with levels; structures that are
 * none end the run, and the next one is a run like any other. */
#include "trees.h"

#include "brainstorm.h"
#include "cuda_cpu/control.h"
#include "plan/plan.h"

enum { SLOTS = TREES_SLOTS, WIDTH = 6, MOST = 64 /* levels */ };

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
    int32_t trips[TREES_ROWS], level[TREES_ROWS];
    bs_status status;
} side;

static side cpu, gpu;
static trees t;
static float x[TREES_ROWS][WIDTH];

/* h = x + half of what the children have, of three dimensions if `image`; levels from lists. */
static bs_graph *vertices(side *s, int32_t bound, bool image)
{
    bs_graph *g = bs_graph_create(&s->memory.persistent, NULL);
    const bs_dim n = bs_symbol(g, "vertices", TREES_ROWS), entries = bs_symbol(g, "entries", TREES_ROWS * SLOTS);
    const bs_value children = bs_children(g, bs_input(g, "lengths", BS_I32, BS_SHAPE1(n)),
                                          bs_input(g, "indices", BS_I32, BS_SHAPE1(entries)), SLOTS),
                   level = bs_levels(g, children);
    const bs_shape shape = image ? (bs_shape){4, {n, 1, 2, 3}} : BS_SHAPE2(n, WIDTH);
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, shape), none);
    const bs_router loop = bs_loop_begin(g, rows, bs_rows(g, level, rows),
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
    return g;
}

static void side_open(side *s, int32_t bound, bool image, int32_t launch_mode)
{
    const int32_t there = s == &gpu;
    const bs_plan_desc desc = {.tier = there ? BS_TIER_CUDA : BS_TIER_AUTO, .launch_mode = there ? launch_mode : 0};
    bs_sizes sizes;
    memset(s, 0, sizeof *s);
    bs_arena_init(&s->memory.persistent, "persistent", persistent[there], sizeof persistent[there]);
    bs_arena_init(&s->memory.transient, "transient", transient[there], sizeof transient[there]);
    bs_arena_init(&s->memory.staging, "staging", staging, sizeof staging);
    bs_arena_init(&s->opened, "device", device_memory, sizeof device_memory);
    const bs_plan *plan = bs_plan_create(&s->memory.persistent, vertices(s, bound, image), &desc, &error);
    if (!plan)
        return;
    bs_plan_sizes(plan, &sizes);
    const bs_cuda_desc open = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    s->device = there ? bs_cuda_open(&s->opened, &open, &error) : NULL;
    s->session = bs_session_create(&s->memory, plan, &(bs_session_desc){.device = s->device}, &error);
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
    bind(s, "lengths", BS_I32, t.length, t.rows, 0);
    bind(s, "indices", BS_I32, t.indices, t.n_indices + 1, 0);
    bind(s, "trips", BS_I32, s->trips, t.rows, 1);
    bind(s, "level", BS_I32, s->level, t.rows, 1);
    bs_bind(s->session, "x", &(bs_buffer){x, BS_F32, image ? 4 : 2, {t.rows, image ? 1 : WIDTH, 2, 3}, {0}}, &error);
    bs_bind(s->session, "h", &(bs_buffer){s->h, BS_F32, image ? 4 : 2, {t.rows, image ? 1 : WIDTH, 2, 3}, {0}}, &error);
    s->status = bs_run(s->session, &error);
}

static bool both_alike(void)
{
    bs_decision a, b;
    return cpu.status == BS_OK && gpu.status == BS_OK && memcmp(cpu.h, gpu.h, sizeof cpu.h) == 0 &&
           memcmp(cpu.trips, gpu.trips, sizeof cpu.trips) == 0 &&
           memcmp(cpu.level, gpu.level, sizeof cpu.level) == 0 &&
           memcmp(cpu.level, t.level, (size_t)t.rows * sizeof *t.level) == 0 &&
           bs_decision_get(cpu.session, "tree", &a) == BS_OK && bs_decision_get(gpu.session, "tree", &b) == BS_OK &&
           a.counts[0] == t.rows && b.counts[0] == t.rows;
}

static void test_shapes(int32_t launch_mode, bool image)
{
    static const int32_t rows[] = {100, 1, 33, 9};
    side_open(&cpu, MOST, image, 0);
    side_open(&gpu, MOST, image, launch_mode);
    check(cpu.session && gpu.session, "sessions open: %s", error.message);
    for (int32_t shape = 0; cpu.session && gpu.session && shape < 3; shape++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            uint32_t seed = (uint32_t)(rows[i] + shape);
            trees_make(&t, rows[i], SLOTS, shape, seed);
            for (int32_t k = 0; k < rows[i] * WIDTH; k++)
                x[k / WIDTH][k % WIDTH] = (float)trees_below(&seed, 100) / 50 - 1;
            side_run(&cpu, image);
            side_run(&gpu, image);
            check(both_alike(), "%s%s, shape %d: %d rows of %d levels are those of the CPU",
                  bs_launch_mode_name((bs_launch_mode)launch_mode), image ? ", images" : "", shape, rows[i], t.depth);
        }
    side_close(&cpu);
    side_close(&gpu);
}

/* Launches and waits of the third run of a chain of `rows`. */
static void test_levels(int32_t launch_mode)
{
    int64_t launches[3], waits[3];
    static const int32_t rows[3] = {2, 20, 50};
    side_open(&gpu, 50, false, launch_mode);
    for (int32_t i = 0; gpu.session && i < 3; i++) {
        struct cuda_cpu_counts c = {0};
        trees_make(&t, rows[i], SLOTS, 0, 3);
        for (int32_t run = 0; run < 3; run++) {
            cuda_cpu_counts_reset();
            side_run(&gpu, false);
            cuda_cpu_counts_get(&c);
        }
        launches[i] = c.launches + c.graph_launches;
        waits[i] = c.synchronisations;
        check(gpu.status == BS_OK && t.depth == rows[i], "%d levels run", t.depth);
    }
    if (gpu.session && launch_mode == BS_LAUNCH_CONDITIONAL)
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

int main(void)
{
    for (int32_t mode = BS_LAUNCH_STREAM; mode < BS_LAUNCH_COUNT; mode++) {
        test_shapes(mode, false);
        if (mode == BS_LAUNCH_STREAM)
            test_shapes(mode, true);
        test_levels(mode);
        test_wrong(mode);
    }
    return check_end();
}
