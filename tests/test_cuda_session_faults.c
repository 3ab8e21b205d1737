/* tags: asan tsan */
/* test_cuda_session_faults.c - sessions on a device: what is refused, what happens when data or calls are bad, and that
 * nothing is left behind. Counting, failing and delaying calls needs the emulation; the rest runs on a GPU as well. */
#include "cuda_net_rig.h"

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

static net n;

static void test_refusals(void)
{
    memset(&n, 0, sizeof n);
    check(net_plan(&n, net_graph(&n, 2), &on_cuda), "a plan for a GPU is made without one: %s", n.error.message);
    check(n.sizes.device > 0 && n.sizes.pinned > 0 && n.sizes.transient == 0 && n.sizes.slots == 0,
          "activations and weights lie on the device");
    check(!net_start(&n) && n.error.status == BS_ERROR_UNSUPPORTED, "without a device: %s", n.error.message);
    if (!check(net_open(&n, -64, 0), "a device with too little memory is opened"))
        return;
    check(!net_start(&n) && n.error.status == BS_ERROR_ARENA && strcmp(n.error.arena, "device") == 0, "refused: %s",
          n.error.message);
    bs_cuda_close(n.device);
    net_open(&n, 0, -64);
    check(!net_start(&n) && n.error.status == BS_ERROR_ARENA && strcmp(n.error.arena, "pinned") == 0, "refused: %s",
          n.error.message);
    bs_cuda_close(n.device);
    net_open(&n, 0, 0);
    check(net_start(&n), "with exactly the planned bytes it starts: %s", n.error.message);
    net_close(&n);
    const bs_plan_desc half = {.half = 1}, launch_mode = {.tier = BS_TIER_CUDA, .launch_mode = 99};
    check(!net_plan(&n, net_graph(&n, 2), &half), "f16 storage on a CPU: %s", n.error.message);
    check(!net_plan(&n, net_graph(&n, 2), &launch_mode), "%s", n.error.message);
    check(bs_cuda_open(NULL, NULL, &n.error) == NULL && n.error.status == BS_ERROR_ARGUMENT, "%s", n.error.message);
    bs_cuda_facts facts;
    check(bs_cuda_facts_get(77, &facts, &n.error) == BS_ERROR_ARGUMENT, "%s", n.error.message);
    check(bs_cuda_facts_get(0, &facts, &n.error) == BS_OK && facts.name[0] && facts.multiprocessors > 0,
          "device 0 is \"%s\"", facts.name);
}

static void test_bad_data(void)
{
    if (!check(net_make(&n, 3, &on_cuda, 0), "a net: %s", n.error.message))
        return;
    net_input(net_in, 1);
    check(bs_run(n.session, &n.error) == BS_OK && bs_state_valid(n.session), "a good run");
    net_in[5] = NAN;
    memset(net_out, 0x55, sizeof net_out);
    check(bs_run(n.session, &n.error) == BS_ERROR_DATA && strstr(n.error.message, "route"), "NaN scores: %s",
          n.error.message);
    int32_t touched = 0;
    for (size_t i = 0; i < sizeof net_out; i++)
        touched += ((const uint8_t *)net_out)[i] != 0x55;
    check(touched == 0, "its output is left alone: %d bytes are not", touched);
    check(!bs_state_valid(n.session), "its state is not valid");
    net_input(net_in, 1);
    check(bs_run(n.session, &n.error) == BS_ERROR_DATA, "%s", n.error.message);
    bs_reset_state(n.session);
    check(bs_run(n.session, &n.error) == BS_OK && net_before[0] == 0.0f, "after a reset it runs, from zero");
    net_close(&n);
}

/* What failed is not followed: an output in place stays as it was. The run of a net that was started, with NaN scores
 * in it. */
static void fail_in_place(const char *what)
{
    float *out = bs_arena_take(&n.device->pinned, sizeof net_in);
    const bs_buffer x = {net_in, BS_F32, 3, {1, NET_SIZE, NET_SIZE}, {0}},
                    y = {out, BS_F32, 3, {1, NET_SIZE, NET_SIZE}, {0}};
    int32_t written = 0;
    net_input(net_in, 1);
    net_in[77] = NAN;
    for (int32_t i = 0; i < NET_SIZE * NET_SIZE; i++)
        out[i] = 7.0f;
    check(bs_bind(n.session, "x", &x, &n.error) == BS_OK && bs_bind(n.session, "y", &y, &n.error) == BS_OK &&
              bs_run(n.session, &n.error) == BS_ERROR_DATA,
          "NaN scores: %s", n.error.message);
    for (int32_t i = 0; i < NET_SIZE * NET_SIZE; i++)
        written += out[i] != 7.0f;
    check(written == 0, "%s: of the output %d elements were written all the same", what, written);
    net_close(&n);
}

static void test_not_followed(int32_t order)
{
    static const char *const names[] = {"in any order", "breadth first", "depth first"};
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .order = order, .launch_mode = BS_LAUNCH_STREAM};
    if (check(net_make(&n, 3, &d, (int64_t)sizeof net_in + 1024), "a net: %s", n.error.message))
        fail_in_place(names[order]);
}

/* Tiles that compute what they put into the output, behind the decision that fails. */
static void test_tiles_not_followed(void)
{
    static int32_t one = 1;
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .order = BS_ORDER_DEPTH, .launch_mode = BS_LAUNCH_STREAM};
    memset(&n, 0, sizeof n);
    bs_graph *g = rig_begin(&n.rig, "tiles behind a router");
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(1, NET_SIZE, NET_SIZE)),
                   cells = bs_patches(g, x, &(bs_patches_desc){.size = 8});
    const bs_value pooled = bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1});
    const bs_router route = bs_route(g, bs_linear(g, pooled, &(bs_linear_desc){.name = "score", .out = 2}), BS_NONE,
                                     &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TOP1, .paths = 2});
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++)
        out[p] = bs_affine(g, bs_scatter(g, route, p, cells), 0.5f, 0.25f * (float)p);
    const bs_value both = bs_gather(g, route, out, BS_NONE, NULL);
    bs_output(g, "y", bs_assemble(g, net_branch(g, both, &one)));
    if (check(net_plan(&n, g, &d) && n.plan->n_regions > 0 && net_open(&n, 0, (int64_t)sizeof net_in + 1024) &&
                  net_start(&n),
              "%s: %s", n.rig.name, n.error.message))
        fail_in_place("in tiles");
}

#ifdef BS_CUDA_CPU
static void test_no_device(void)
{
    bs_cuda_facts facts;
    bs_arena opened;
    bs_arena_init(&opened, "opened", opened_memory, sizeof opened_memory);
    cuda_cpu_devices(0);
    memset(&n, 0, sizeof n);
    check(bs_cuda_open(&opened, NULL, &n.error) == NULL && n.error.status == BS_ERROR_UNSUPPORTED, "no GPU: %s",
          n.error.message);
    check(opened.used == 0 && bs_cuda_facts_get(0, &facts, &n.error) == BS_ERROR_UNSUPPORTED, "nothing is taken");
    cuda_cpu_devices(1);
}

/* Everything from opening to closing; whether all of it went well. */
static bool whole_life(float *out, const bs_plan_desc *d)
{
    bool ok = net_make(&n, 3, d, 0);
    for (int32_t k = 0; ok && k < 3; k++)
        ok = net_bind(&n, net_in, out, net_before, NET_SIZE, NET_SIZE) == BS_OK && bs_run(n.session, &n.error) == BS_OK;
    net_close(&n);
    return ok;
}

/* Each call fails once; or from then on. An error, nothing left behind, and right bytes if there was none. */
static void test_failing_calls(int32_t launch_mode)
{
    static float good[NET_SIZE * NET_SIZE], out[NET_SIZE * NET_SIZE];
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .launch_mode = launch_mode};
    struct cuda_cpu_counts c;
    net_input(net_in, 4);
    cuda_cpu_counts_reset();
    check(whole_life(good, &d), "a whole life: %s", n.error.message);
    cuda_cpu_counts_get(&c);
    const int64_t calls = c.calls;
    int32_t silent = 0, left = 0, told = 0, survived = 0;
    for (int32_t on = 0; on < 2; on++)
        for (int64_t k = 1; k <= calls; k++) {
            memset(out, 0, sizeof out);
            n.error.message[0] = 0;
            cuda_cpu_fail(k, on);
            const bool ok = whole_life(out, &d);
            cuda_cpu_fail(0, 0);
            cuda_cpu_counts_get(&c);
            told += !ok;
            survived += ok;
            silent += (ok && memcmp(out, good, sizeof good) != 0) || (!ok && !n.error.message[0]);
            left += c.live_allocations != 0 || c.live_streams != 0 || c.live_events != 0 || c.live_graphs != 0;
        }
    check(silent == 0, "%s: %lld calls fail, once and from then on: %d errors, %d runs unharmed, none of them wrong",
          bs_launch_mode_name((bs_launch_mode)launch_mode), (long long)calls, told, survived);
    check(left == 0, "and nothing is left behind");
    check(told > calls / 2, "most calls matter");
    check(whole_life(out, &d) && memcmp(out, good, sizeof good) == 0, "afterwards all is well: %s", n.error.message);
    check(cuda_cpu_trouble() == NULL, "the API was used rightly: %s", cuda_cpu_trouble() ? cuda_cpu_trouble() : "");
}

/* A call of a run fails, and the same run is made again in the same session. */
static void test_run_again(void)
{
    static float good[NET_SIZE * NET_SIZE], out[NET_SIZE * NET_SIZE];
    struct cuda_cpu_counts c;
    int64_t calls = 1;
    int32_t wrong = 0, failed = 0, mended = 0;
    net_input(net_in, 4);
    check(whole_life(good, &on_cuda), "a whole life: %s", n.error.message);
    for (int64_t k = 0; k <= calls; k++) { /* 0: none */
        memset(out, 0, sizeof out);
        const bool made = net_make(&n, 3, &on_cuda, 0) &&
                          net_bind(&n, net_in, out, net_before, NET_SIZE, NET_SIZE) == BS_OK;
        cuda_cpu_counts_reset();
        cuda_cpu_fail(k, 0);
        const bool ran = made && bs_run(n.session, &n.error) == BS_OK;
        cuda_cpu_fail(0, 0);
        cuda_cpu_counts_get(&c);
        calls = k ? calls : c.calls;
        bool again = made;
        if (made)
            bs_reset_state(n.session);
        for (int32_t i = 0; again && i < 3; i++)
            again = bs_run(n.session, &n.error) == BS_OK;
        failed += !ran;
        mended += !ran && again;
        wrong += !made || (again && memcmp(out, good, sizeof good) != 0);
        net_close(&n);
    }
    check(wrong == 0 && failed > 4 && mended == failed,
          "of %lld calls of a run %d end it; %d runs go well after that, %d of them wrong", (long long)calls, failed,
          mended, wrong);
}

/* One allocation on the device, one pinned, whatever sessions do. */
static void test_allocations(void)
{
    struct cuda_cpu_counts c;
    cuda_cpu_counts_reset();
    net_input(net_in, 2);
    const bool ok = net_make(&n, 3, &on_cuda, 0) && bs_run(n.session, &n.error) == BS_OK &&
                    bs_run(n.session, &n.error) == BS_OK;
    cuda_cpu_counts_get(&c);
    check(ok, "runs: %s", n.error.message);
    check(c.device_allocations == 1 && c.host_allocations == 1, "allocations: %lld on the device, %lld pinned",
          (long long)c.device_allocations, (long long)c.host_allocations);
    net_close(&n);
}

/* Blocks in any order, with delays in streams: the same bytes. */
static void test_orders(void)
{
    static float first[NET_SIZE * NET_SIZE];
    int32_t wrong = 0;
    net_input(net_in, 11);
    for (int32_t order = 0; order < 6; order++) {
        cuda_cpu_order(order % 3, (unsigned)order);
        cuda_cpu_delay(order < 3 ? 0 : 50, (unsigned)order);
        wrong += !whole_life(net_out, &on_cuda);
        if (order == 0)
            memcpy(first, net_out, sizeof first);
        wrong += memcmp(first, net_out, sizeof first) != 0;
    }
    cuda_cpu_order(0, 0);
    cuda_cpu_delay(0, 0);
    check(wrong == 0, "blocks forwards, backwards and in any order, streams delayed: the same bytes");
}
#endif

int main(void)
{
    test_refusals();
    for (int32_t order = 0; order < 3; order++)
        test_not_followed(order);
    test_tiles_not_followed();
    test_bad_data();
#ifdef BS_CUDA_CPU
    test_no_device();
    test_allocations();
    test_orders();
    test_run_again();
    for (int32_t l = 0; l < BS_LAUNCH_COUNT; l++)
        test_failing_calls(l);
#endif
    return check_end();
}
