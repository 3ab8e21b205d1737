/* tags: asan tsan */
/* test_cuda_session.c - sessions on a device: what is planned, bound, queued and waited for gives the same bytes
 * however it is run. What fails: test_cuda_session_faults.c. Counting calls needs the emulation; the rest runs on a GPU
 * as well. */
#include "cuda_net_rig.h"

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

static net n;

static void test_agrees(void)
{
    for (int32_t order = 0; order < 3; order++) {
        bs_graph *g = net_graph(&n, 3);
        (void)g;
        rig_agree(&n.rig, &(rig_how){.order = order, .runs = 3});
        net_graph(&n, 3);
        rig_agree(&n.rig, &(rig_how){.order = order, .runs = 2, .half = 1, .differ = 1});
    }
}

/* All launch modes, either order, sizes up and down: the same bytes each time. */
static void test_same_bytes(int32_t order)
{
    static float first[3][NET_SIZE * NET_SIZE];
    static const int64_t heights[3] = {13, NET_SIZE, 9}, widths[3] = {27, NET_SIZE, 31};
    int32_t wrong = 0, runs = 0;
    for (int32_t launch_mode = 0; launch_mode < BS_LAUNCH_COUNT; launch_mode++) {
        const bs_plan_desc d = {.tier = BS_TIER_CUDA, .launch_mode = launch_mode, .order = order};
        if (!net_make(&n, 5, &d, 0)) {
            check(false, "launch mode %s: %s", bs_launch_mode_name((bs_launch_mode)launch_mode), n.error.message);
            return;
        }
        for (int32_t run = 0; run < 12; run++, runs++) {
            const int32_t kind = run / 3 % 3;
            net_input(net_in, (uint64_t)kind);
            memset(net_out, 0x55, sizeof net_out);
            const bool ran = net_bind(&n, net_in, net_out, net_before, heights[kind], widths[kind]) == BS_OK &&
                             bs_run(n.session, &n.error) == BS_OK;
            if (launch_mode == 0 && run < 9 && run % 3 == 0)
                memcpy(first[kind], net_out, sizeof net_out);
            wrong += !ran || memcmp(first[kind], net_out, sizeof net_out) != 0;
        }
        net_close(&n);
    }
    check(wrong == 0, "order %d: %d runs with every launch mode and changing extents: the same bytes", order, runs);
}

/* Runs of other inputs and extents, submitted one behind the other: from ordinary memory; or from pinned memory that
 * the device uses in place, where a run waits for the tables alone. The last one is as if it were alone. */
static void test_queue(int32_t order, bool pinned)
{
    enum { RUNS = 8 };
    static float alone[NET_SIZE * NET_SIZE];
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .order = order};
    int32_t wrong = 0;
    for (int32_t last = 1; last < RUNS; last++) {
        bool ok = net_make(&n, 3, &d, pinned ? 3 * RUNS * (int64_t)sizeof net_in + 1024 : 0);
        float *in = net_in, *out = net_out, *before = net_before;
        for (int32_t k = ok ? 0 : last + 1; k <= last; k++) {
            if (pinned) {
                in = bs_arena_take(&n.device->pinned, sizeof net_in);
                out = bs_arena_take(&n.device->pinned, sizeof net_out);
                before = bs_arena_take(&n.device->pinned, sizeof net_before);
            }
            net_input(in, 31 + (uint64_t)k);
            memset(out, 0x55, sizeof net_out);
            ok = ok && net_bind(&n, in, out, before, k / 2 % 2 ? NET_SIZE : 17, NET_SIZE) == BS_OK &&
                 bs_submit(n.session, &n.error) == BS_OK;
        }
        ok = ok && bs_wait(n.session, &n.error) == BS_OK;
        memcpy(alone, out, sizeof alone);
        memmove(net_in, in, sizeof net_in);
        memset(net_out, 0x55, sizeof net_out);
        net_close(&n);
        ok = ok && net_make(&n, 3, &d, 0) &&
             net_bind(&n, net_in, net_out, net_before, last / 2 % 2 ? NET_SIZE : 17, NET_SIZE) == BS_OK &&
             bs_run(n.session, &n.error) == BS_OK;
        wrong += !ok || memcmp(alone, net_out, sizeof alone) != 0;
        net_close(&n);
    }
    check(wrong == 0, "order %d: runs submitted one behind the other, %s: %s", order, pinned ? "in place" : "copied",
          n.error.message);
}

static bs_value keep(bs_graph *g, bs_value x, void *user)
{
    (void)user;
    return bs_affine(g, x, 0.5f, 0.25f);
}

/* Of cells that go on, some leave later: by a router that is decided in tiles. */
static bs_value exits(bs_graph *g, bs_value x, void *user)
{
    static int32_t one = 1;
    bs_value out[2];
    const bs_value pooled = bs_pool2d(g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1});
    const bs_route_desc top1 = {.name = "inner", .protocol = BS_ROUTE_TOP1, .paths = 2};
    (void)user;
    const bs_router route = bs_route(g, bs_linear(g, pooled, &(bs_linear_desc){.name = "exit", .out = 2}),
                                     (bs_value){0}, &top1);
    out[0] = bs_branch(g, route, 0, "leave", x, keep, NULL);
    out[1] = bs_branch(g, route, 1, "go", x, net_branch, &one);
    return bs_gather(g, route, out, (bs_value){0}, NULL);
}

/* What is told of a run is of that run alone. */
static void test_told(int32_t order)
{
    static float out[2][NET_SIZE * NET_SIZE];
    int16_t chosen[2][2][16];
    int32_t counts[2][2][2], wrong = 0, reached = 0;
    for (int32_t fresh = 0; fresh < 2; fresh++) {
        const bs_plan_desc d = {.tier = BS_TIER_CUDA, .order = order};
        memset(&n, 0, sizeof n);
        bs_graph *g = rig_begin(&n.rig, "exits");
        const bs_value cells = bs_patches(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, NET_SIZE, NET_SIZE)),
                                          &(bs_patches_desc){.size = 8});
        const bs_value pooled = bs_pool2d(g, cells, &(bs_pool2d_desc){.kind = BS_POOL_AVERAGE, .global = 1});
        const bs_route_desc top1 = {.name = "outer", .protocol = BS_ROUTE_TOP1, .paths = 2};
        const bs_router route = bs_route(g, bs_linear(g, pooled, &(bs_linear_desc){.name = "score", .out = 2}),
                                         (bs_value){0}, &top1);
        bs_value path[2] = {bs_branch(g, route, 0, "easy", cells, keep, NULL),
                            bs_branch(g, route, 1, "hard", cells, exits, NULL)};
        bs_output(g, "y", bs_assemble(g, bs_gather(g, route, path, (bs_value){0}, NULL)));
        if (!net_plan(&n, g, &d) || !net_open(&n, 0, 0) || !net_start(&n)) {
            check(false, "exits: %s", n.error.message);
            return;
        }
        const bs_buffer x = {net_in, BS_F32, 3, {1, NET_SIZE, NET_SIZE}, {0}},
                        y = {out[fresh], BS_F32, 3, {1, NET_SIZE, NET_SIZE}, {0}};
        wrong += bs_bind(n.session, "x", &x, &n.error) != BS_OK || bs_bind(n.session, "y", &y, &n.error) != BS_OK;
        for (int32_t run = fresh ? 3 : 0; run < 4; run++) {
            net_input(net_in, 50 + (uint64_t)run);
            for (int32_t i = 0; i < NET_SIZE * NET_SIZE; i++) /* cells differ, and runs */
                net_in[i] += 6.0f * (float)((i / 8 + i / NET_SIZE / 8 + run) % 3 - 1);
            wrong += bs_run(n.session, &n.error) != BS_OK;
        }
        for (int32_t r = 0; r < 2; r++) {
            bs_decision went;
            wrong += bs_decision_get(n.session, r ? "inner" : "outer", &went) != BS_OK || went.cells != 16;
            memcpy(chosen[fresh][r], went.chosen, sizeof chosen[fresh][r]);
            memcpy(counts[fresh][r], went.counts, sizeof counts[fresh][r]);
        }
        net_close(&n);
    }
    for (int32_t i = 0; i < 16; i++)
        reached += chosen[1][1][i] >= 0;
    wrong += memcmp(chosen[0], chosen[1], sizeof chosen[0]) != 0 ||
             memcmp(counts[0], counts[1], sizeof counts[0]) != 0 || memcmp(out[0], out[1], sizeof out[0]) != 0;
    check(wrong == 0 && reached > 0 && reached < 16 && counts[1][1][0] + counts[1][1][1] == reached,
          "order %d: the fourth run is told as the first would be, the inner router reached by %d cells", order,
          reached);
}

static void test_choose(void)
{
    uint64_t ns[BS_LAUNCH_COUNT];
    bs_launch_mode best = BS_LAUNCH_COUNT;
    if (!check(net_make(&n, 4, &on_cuda, 0), "a net: %s", n.error.message))
        return;
    net_input(net_in, 5);
    const bs_status status = bs_cuda_choose(n.session, 3, &best, ns, &n.error);
    check(status == BS_OK && best > BS_LAUNCH_AUTO && best < BS_LAUNCH_COUNT && ns[best] > 0,
          "the fastest launch mode is found: %s", bs_launch_mode_name(best));
    for (int32_t l = BS_LAUNCH_STREAM; l < BS_LAUNCH_COUNT; l++)
        check(ns[l] == 0 || ns[l] >= ns[best], "%s is not faster", bs_launch_mode_name((bs_launch_mode)l));
    check(bs_run(n.session, &n.error) == BS_OK, "and the session runs on: %s", n.error.message);
    net_close(&n);
}

/* Runs whose launches are counted give what others give, also between runs of a graph. */
static void test_counted_launches(void)
{
    static float expected[NET_SIZE * NET_SIZE];
    static bs_cuda_launch all[64], few[64];
    int32_t wrong = 0, count = 0, less = 0;
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .launch_mode = BS_LAUNCH_GRAPH};
    if (!check(net_make(&n, 4, &d, 0), "a net: %s", n.error.message))
        return;
    net_input(net_in, 6);
    bool ok = bs_run(n.session, &n.error) == BS_OK;
    memcpy(expected, net_out, sizeof net_out);
    for (int32_t k = 0; k < 4 && ok; k++) {
        memset(net_out, 0x55, sizeof net_out);
        memset(few, 0x55, sizeof few);
        bs_reset_state(n.session);
        check(bs_cuda_launches(n.device, k % 2 ? few : all, k % 2 ? 2 : 64) == 0, "nothing was counted before");
        ok = bs_run(n.session, &n.error) == BS_OK;
        *(k % 2 ? &less : &count) = bs_cuda_launches(n.device, NULL, 0);
        wrong += all[1].times != 1;
        wrong += memcmp(expected, net_out, sizeof net_out) != 0;
        bs_reset_state(n.session);
        ok = ok && bs_run(n.session, &n.error) == BS_OK;
        wrong += memcmp(expected, net_out, sizeof net_out) != 0;
    }
    check(ok && wrong == 0, "the same bytes, whether launches are counted or not: %s", n.error.message);
    check(count > 2 && count <= 64 && less == count && few[1].times == 1 && few[2].times == 0x55555555,
          "%d launches, of which 2 are told", count);
    net_close(&n);
}

/* Submitted runs, in pinned memory that the device uses in place. */
static void test_submit(void)
{
    static float expected[NET_SIZE * NET_SIZE];
    if (!check(net_make(&n, 4, &on_cuda, 3 * (int64_t)sizeof net_in + 1024), "a net: %s", n.error.message))
        return;
    net_input(net_in, 9);
    check(bs_run(n.session, &n.error) == BS_OK, "a run through copies");
    memcpy(expected, net_out, sizeof net_out);
    float *in = bs_arena_take(&n.device->pinned, sizeof net_in), *out = bs_arena_take(&n.device->pinned, sizeof net_in);
    float *before = bs_arena_take(&n.device->pinned, sizeof net_in);
    memcpy(in, net_in, sizeof net_in);
    check(net_bind(&n, in, out, before, NET_SIZE, NET_SIZE) == BS_OK, "buffers in pinned memory");
    memset(out, 0, sizeof net_in);
#ifdef BS_CUDA_CPU
    struct cuda_cpu_counts c;
    check(bs_submit(n.session, &n.error) == BS_OK, "a first run, whose tables are written: %s", n.error.message);
    cuda_cpu_counts_reset();
    for (int32_t k = 0; k < 5; k++)
        bs_submit(n.session, &n.error);
    cuda_cpu_counts_get(&c);
    check(c.synchronisations == 0, "5 frames of a resident model: %lld synchronisations",
          (long long)c.synchronisations);
    check(c.device_allocations == 0 && c.host_allocations == 0, "and no allocation");
    check(c.pageable_copies == 0, "and no copy from ordinary memory");
    printf("  5 frames: %lld calls, %lld launches, %lld graph launches, %lld copies\n", (long long)c.calls,
           (long long)c.launches, (long long)c.graph_launches, (long long)c.copies);
#else
    for (int32_t k = 0; k < 6; k++)
        bs_submit(n.session, &n.error);
#endif
    check(bs_wait(n.session, &n.error) == BS_OK && memcmp(out, expected, sizeof expected) == 0,
          "the same bytes in place");
    bs_decision went;
    check(bs_decision_get(n.session, "route", &went) == BS_OK && went.cells == 16 &&
              went.counts[0] + went.counts[1] + went.counts[2] + went.counts[3] == 16,
          "what the router decided is known");
    check(bs_wait(n.session, &n.error) == BS_OK, "waiting again does nothing");
    net_close(&n);
}

/* Two sessions on one device, runs of both on their way at once. */
static void test_two_sessions(void)
{
    static net other;
    static float in2[NET_SIZE * NET_SIZE], out2[NET_SIZE * NET_SIZE], alone[2][NET_SIZE * NET_SIZE];
    net_input(net_in, 21);
    net_input(in2, 22);
    for (int32_t k = 0; k < 2; k++) {
        net_make(&n, 3, &on_cuda, 0);
        net_bind(&n, k ? in2 : net_in, alone[k], net_before, NET_SIZE, NET_SIZE);
        check(bs_run(n.session, &n.error) == BS_OK, "alone: %s", n.error.message);
        net_close(&n);
    }
    memset(&n, 0, sizeof n);
    net_plan(&n, net_graph(&n, 3), &on_cuda);
    const bool opened = net_open(&n, (int64_t)n.sizes.device, (int64_t)n.sizes.pinned) && net_start(&n);
    other = n;
    other.session = NULL;
    bs_session_desc with = {.weights = bs_weights_from_table(&n.rig.table), .device = n.device};
    other.session = opened ? bs_session_create(&n.memory, n.plan, &with, &n.error) : NULL;
    if (!check(other.session != NULL, "two sessions of one plan on one device: %s", n.error.message))
        return;
    static float before2[NET_SIZE * NET_SIZE];
    net_bind(&n, net_in, net_out, net_before, NET_SIZE, NET_SIZE);
    net_bind(&other, in2, out2, before2, NET_SIZE, NET_SIZE);
    bool ok = true;
    for (int32_t k = 0; k < 3; k++)
        ok = ok && bs_submit(n.session, &n.error) == BS_OK && bs_submit(other.session, &n.error) == BS_OK &&
             bs_wait(other.session, &n.error) == BS_OK && bs_wait(n.session, &n.error) == BS_OK;
    check(ok && memcmp(net_out, alone[0], sizeof net_out) == 0 && memcmp(out2, alone[1], sizeof out2) == 0,
          "each gives what it gives alone");
    bs_session_close(other.session);
    net_close(&n);
}

/* What is kept in f16 is rounded to the nearest, ties to even: exactly. */
static void test_half_rounds(void)
{
    enum { ROWS = 64, WIDTH = 16 };
    static float in[ROWS * WIDTH], out[ROWS * WIDTH];
    const bs_plan_desc half = {.tier = BS_TIER_CUDA, .half = 1};
    int32_t wrong = 0, inexact = 0;
    memset(&n, 0, sizeof n);
    bs_graph *g = rig_begin(&n.rig, "rounded");
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)), (bs_value){0});
    bs_output(g, "y", bs_collect(g, bs_affine(g, bs_affine(g, rows, 1, 0), 1, 0)));
    cuda_rig r = {.seed = 77};
    for (int32_t i = 0; i < ROWS * WIDTH; i++)
        in[i] = i % 2 ? rig_uniform(&r) * 8 : 1.0f + (float)(2 * i + 1) / 2048.0f; /* halfway between two */
    const bs_buffer x = {in, BS_F32, 2, {ROWS, WIDTH}, {0}}, y = {out, BS_F32, 2, {ROWS, WIDTH}, {0}};
    const bool ok = net_plan(&n, g, &half) && net_open(&n, 0, 0) && net_start(&n) &&
                    bs_bind(n.session, "x", &x, &n.error) == BS_OK && bs_bind(n.session, "y", &y, &n.error) == BS_OK &&
                    bs_run(n.session, &n.error) == BS_OK;
    for (int32_t i = 0; i < ROWS * WIDTH; i++) {
        const float expected = bs_f16_to_f32(bs_f32_to_f16(in[i]));
        wrong += memcmp(&out[i], &expected, 4) != 0;
        inexact += expected != in[i];
    }
    check(ok && wrong == 0 && inexact > ROWS, "%d values kept in f16, %d of them rounded: %d wrong", ROWS * WIDTH,
          inexact, wrong);
    net_close(&n);
}

/* Sessions with large and with small tiles on one device, the small ones made last. */
static void test_tile_sizes(void)
{
    static uint8_t more_plans[8 << 20];
    static float out2[NET_SIZE * NET_SIZE], before2[NET_SIZE * NET_SIZE];
    const bs_plan_desc large = {.tier = BS_TIER_CUDA, .patch_size = 32, .order = BS_ORDER_DEPTH}, /* of one cell */
                       small = {.tier = BS_TIER_CUDA, .patch_size = 8};
    net other;
    bs_arena plans;
    memset(&n, 0, sizeof n);
    bs_graph *g = net_graph(&n, 3);
    bs_arena_init(&plans, "plans", more_plans, sizeof more_plans);
    other = n;
    other.plan = bs_plan_create(&plans, NULL, g, &small, &n.error);
    if (!check(other.plan && net_plan(&n, g, &large), "two plans: %s", n.error.message))
        return;
    bs_plan_sizes(other.plan, &other.sizes);
    check(n.plan->n_regions > 0 &&
              bs_bytes_figure(n.plan->parts[n.plan->n_parts - 1].scratch_bytes) + BS_DEVICE_SHARED > 49152,
          "one has tiles beyond 48 KiB");
    bool ok = net_open(&n, (int64_t)other.sizes.device, (int64_t)other.sizes.pinned) && net_start(&n);
    bs_session_desc with = {.weights = bs_weights_from_table(&n.rig.table), .device = n.device};
    other.session = ok ? bs_session_create(&n.memory, other.plan, &with, &n.error) : NULL;
    net_input(net_in, 41);
    ok = other.session && net_bind(&n, net_in, net_out, net_before, NET_SIZE, NET_SIZE) == BS_OK &&
         net_bind(&other, net_in, out2, before2, NET_SIZE, NET_SIZE) == BS_OK && bs_run(n.session, &n.error) == BS_OK &&
         bs_run(other.session, &n.error) == BS_OK;
    check(ok, "both run: %s", n.error.message);
    bs_session_close(other.session);
    net_close(&n);
}

static bs_value mixed_branch(bs_graph *g, bs_value x, void *user)
{
    static char names[3][14][16];
    const int32_t p = *(const int32_t *)user;
    for (int32_t i = 0; i < 14; i++)
        snprintf(names[p][i], sizeof names[p][i], "m%d.%d", p, i);
    for (int32_t i = 0; i < 12; i++)
        x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = names[p][i], .out = 4, .act = BS_RELU});
    x = bs_pixel_shuffle(g, bs_conv2d(g, x, &(bs_conv2d_desc){.name = names[p][12], .out = 16}), 2);
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = names[p][13], .out = 1});
}

/* Subnets that stay in shared memory but for their wide ends: the bodies of all paths are one launch. */
static void test_mixed(void)
{
    static int32_t which[3] = {0, 1, 2};
    const rig_how how = {.shared_bytes = BS_DEVICE_SHARED + 20 * 1024, .tolerance = 2e-5};
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .shared_bytes = how.shared_bytes};
    memset(&n, 0, sizeof n);
    bs_graph *g = rig_begin(&n.rig, "narrow bodies, wide ends");
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE4(7, 1, 12, 12)), (bs_value){0});
    const bs_value label = bs_rows(g, bs_input(g, "label", BS_I32, BS_SHAPE2(7, 1)), x);
    const bs_route_desc by_label = {.name = "route", .protocol = BS_ROUTE_LABEL, .paths = 3};
    const bs_router route = bs_route(g, label, (bs_value){0}, &by_label);
    static const char *const names[3] = {"p0", "p1", "p2"};
    static const int32_t labels[7] = {2, 0, 1, 0, 2, 2, 0};
    bs_value out[3];
    for (int32_t p = 0; p < 3; p++)
        out[p] = bs_branch(g, route, p, names[p], x, mixed_branch, &which[p]);
    bs_output(g, "y", bs_collect(g, bs_gather(g, route, out, (bs_value){0}, NULL)));
    rig_give(&n.rig, "label", labels);
    rig_agree(&n.rig, &how);
    int32_t regions = 0, parts = 0;
    if (check(net_plan(&n, g, &d), "its plan: %s", n.error.message))
        for (int32_t k = 0; k < n.plan->n_parts; k++)
            if (n.plan->parts[k].router) {
                regions |= 1 << n.plan->parts[k].region;
                parts++;
            }
    check(parts == 3 && regions && (regions & (regions - 1)) == 0, "%d bodies run in tiles of one launch", parts);
}

/* Pinned memory that the device reads where it is: the same bytes, less of the device's memory. */
static void test_in_place(void)
{
    static float expected[NET_SIZE * NET_SIZE];
    const bs_plan_desc in_place = {.tier = BS_TIER_CUDA, .in_place = 1};
    net_input(net_in, 31);
    check(net_make(&n, 3, &on_cuda, 0) && bs_run(n.session, &n.error) == BS_OK, "copied: %s", n.error.message);
    const uint64_t copied = n.sizes.device;
    memcpy(expected, net_out, sizeof expected);
    net_close(&n);
    memset(net_out, 0, sizeof net_out);
    bool ok = net_make(&n, 3, &in_place, 0);
    for (int32_t k = 0; ok && k < 3; k++)
        ok = bs_run(n.session, &n.error) == BS_OK && memcmp(net_out, expected, sizeof expected) == 0;
    check(ok && n.sizes.device < copied, "in place: the same bytes with %llu instead of %llu on the device",
          (unsigned long long)n.sizes.device, (unsigned long long)copied);
    net_close(&n);
}

/* A large layer on rows that no router made is cuBLAS's when its workspace is given, and allocates nothing, captured or
 * not. */
static void test_cublas(int32_t launch_mode)
{
    static float in[300 * 128], out[2][300 * 160];
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .launch_mode = launch_mode};
    for (int32_t k = 0; k < 2; k++) {
        memset(&n, 0, sizeof n);
        bs_graph *g = rig_begin(&n.rig, "large layer");
        const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(300, 128)), (bs_value){0});
        bs_output(g, "y",
                  bs_collect(g, bs_linear(g, rows, &(bs_linear_desc){.name = "l", .out = 160, .act = BS_SIGMOID})));
        bs_arena opened;
        bs_arena_init(&opened, "opened", opened_memory, sizeof opened_memory);
        const bool planned = net_plan(&n, g, &d);
        const bs_cuda_desc c = {.device_bytes = n.sizes.device + (k ? 65536 + 64 : 0),
                                .pinned_bytes = n.sizes.pinned,
                                .cublas_bytes = k ? 65536 : 0};
        n.device = planned ? bs_cuda_open(&opened, &c, &n.error) : NULL;
#ifdef BS_NO_CUBLAS
        if (k == 1) {
            check(!n.device && n.error.status == BS_ERROR_UNSUPPORTED, "%s", n.error.message);
            return;
        }
#endif
        cuda_rig r = {.seed = 99};
        for (int32_t i = 0; i < 300 * 128; i++)
            in[i] = rig_uniform(&r);
        const bs_buffer x = {in, BS_F32, 2, {300, 128}, {0}}, y = {out[k], BS_F32, 2, {300, 160}, {0}};
        bool ok = n.device && net_start(&n) && bs_bind(n.session, "x", &x, &n.error) == BS_OK &&
                  bs_bind(n.session, "y", &y, &n.error) == BS_OK;
#ifdef BS_CUDA_CPU
        struct cuda_cpu_counts counts;
        cuda_cpu_counts_reset();
#endif
        for (int32_t run = 0; ok && run < 3; run++)
            ok = bs_run(n.session, &n.error) == BS_OK;
        check(ok, "%s: %s", k ? "cuBLAS" : "own kernel", n.error.message);
#ifdef BS_CUDA_CPU
        cuda_cpu_counts_get(&counts);
        check(counts.hidden_allocations == 0 && counts.device_allocations == 0, "%s: %lld products without a workspace",
              bs_launch_mode_name((bs_launch_mode)launch_mode), (long long)counts.hidden_allocations);
        check(cuda_cpu_trouble() == NULL, "%s", cuda_cpu_trouble() ? cuda_cpu_trouble() : "");
#endif
        net_close(&n);
    }
    const bs_buffer shape = {NULL, BS_F32, 2, {300, 160}, {0}};
    const double distance = rig_distance(&shape, out[1], out[0]);
    check(distance <= 1e-5, "both give the same within rounding: %.2g", distance);
}

#ifdef BS_CUDA_CPU
/* Launches do not depend on the number of branches. */
static void test_launches(void)
{
    int64_t launches[2];
    for (int32_t k = 0; k < 2; k++) {
        const bs_plan_desc d = {.tier = BS_TIER_CUDA, .order = BS_ORDER_BREADTH, .launch_mode = BS_LAUNCH_STREAM};
        struct cuda_cpu_counts c;
        if (!check(net_make(&n, k ? 64 : 2, &d, 0), "%d branches: %s", k ? 64 : 2, n.error.message))
            return;
        net_input(net_in, 3);
        bs_run(n.session, &n.error);
        cuda_cpu_counts_reset();
        check(bs_run(n.session, &n.error) == BS_OK, "a run");
        cuda_cpu_counts_get(&c);
        launches[k] = c.launches;
        check(c.synchronisations == 1, "bs_run waits once, at its end (%lld)", (long long)c.synchronisations);
        net_close(&n);
    }
    check(launches[0] == launches[1] && launches[0] > 0, "launches with 2 branches %lld, with 64 %lld",
          (long long)launches[0], (long long)launches[1]);
}
#endif

int main(void)
{
    test_agrees();
    for (int32_t order = 0; order < 3; order++) {
        test_same_bytes(order);
        test_queue(order, false);
        test_told(order);
    }
    test_queue(BS_ORDER_AUTO, true);
    test_choose();
    test_counted_launches();
    test_submit();
    test_two_sessions();
    test_half_rounds();
    test_tile_sizes();
    test_mixed();
    test_in_place();
    for (int32_t l = 0; l < BS_LAUNCH_COUNT; l++)
        test_cublas(l);
#ifdef BS_CUDA_CPU
    test_launches();
#endif
    return check_end();
}
