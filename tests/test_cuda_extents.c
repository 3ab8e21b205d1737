/* test_cuda_extents.c - extents from data on a device: one session, from no row to the maximum and beyond it, gives the
 * CPU's results, decisions, extents and failures, in every launch mode; its launches are captured once; what lies
 * beyond an extent is left alone. Counting needs the emulation; the rest runs on a GPU as well. */
#define _POSIX_C_SOURCE 200809L
#include "cuda_rig.h"
#include "flat_source.h"

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

#define MOST 300 /* rows of the table: more than a block has threads */
#define KEPT 280 /* of which as many may be chosen */
#define MOST_BYTES 1024 /* copied beside the caller's buffers in a run */

static const bs_value none = {0};
static cuda_rig r;
static flat_source source;
static bool half; /* of the device's plan */
static float mask[MOST], limit, first[5];

typedef struct side {
    bs_arena plans, opened;
    bs_memory memory;
    bs_plan *plan;
    bs_device *device;
    bs_session *session;
    void *out[RIG_BUFFERS];
    bs_status status;
    bs_error error;
} side;

static side cpu, gpu;
static uint8_t plan_memory[2][8 << 20], open_memory[4096], host_memory[2][16 << 20];

static bool side_open(side *s, const bs_plan_desc *desc, bs_route_function callback)
{
    const int32_t which = desc->tier == BS_TIER_CUDA;
    bs_sizes sizes;
    memset(s, 0, sizeof *s);
    bs_arena_init(&s->plans, "plan", plan_memory[which], sizeof plan_memory[which]);
    bs_arena_init(&s->opened, "opened", open_memory, sizeof open_memory);
    s->plan = bs_plan_create(&s->plans, r.graph, desc, &s->error);
    if (!s->plan)
        return false;
    bs_plan_sizes(s->plan, &sizes);
    uint8_t *at = host_memory[which];
    bs_arena_init(&s->memory.persistent, "persistent", at, (size_t)sizes.persistent + 64);
    bs_arena_init(&s->memory.transient, "transient", at += sizes.persistent + 128, (size_t)sizes.transient + 64);
    bs_arena_init(&s->memory.staging, "staging", at += sizes.transient + 128, (size_t)sizes.staging + 64);
    bs_arena_init(&s->memory.slots, "slots", at += sizes.staging + 128, (size_t)sizes.slots + 64);
    bs_session_desc with;
    memset(&with, 0, sizeof with);
    with.weights = bs_weights_from_table(&r.table);
    if (desc->slot_bytes) {
        flat_init(&source, r.graph, &r.table, BS_F32);
        with.weights = flat_weights(&source, 64);
    }
    if (which) {
        const bs_cuda_desc c = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
        s->device = bs_cuda_open(&s->opened, &c, &s->error);
        with.device = s->device;
    }
    s->session = which && !s->device ? NULL : bs_session_create(&s->memory, s->plan, &with, &s->error);
    for (int32_t i = 0; i < r.n_buffers; i++)
        s->out[i] = rig_take((size_t)rig_elements(&r.buffers[i].given) * 4);
    if (s->session && callback)
        bs_set_route(s->session, "r", callback, NULL, NULL);
    return s->session != NULL;
}

static void side_close(side *s)
{
    bs_session_close(s->session);
    bs_cuda_close(s->device);
}

static void side_run(side *s)
{
    for (int32_t i = 0; i < r.n_buffers; i++) {
        bs_buffer b = r.buffers[i].given;
        if (r.buffers[i].output)
            b.data = memset(s->out[i], 0x5A, (size_t)rig_elements(&b) * 4);
        bs_bind(s->session, r.buffers[i].name, &b, &s->error);
    }
    s->status = bs_run(s->session, &s->error);
}

static bool same_outputs(void)
{
    bool same = true;
    for (int32_t i = 0; i < r.n_buffers; i++) {
        int64_t a[BS_MAX_RANK], b[BS_MAX_RANK];
        if (!r.buffers[i].output)
            continue;
        bs_output_extents(cpu.session, r.buffers[i].name, a);
        bs_output_extents(gpu.session, r.buffers[i].name, b);
        const double distance = rig_distance(&r.buffers[i].given, gpu.out[i], cpu.out[i]);
        if (memcmp(a, b, sizeof a) == 0 && distance <= 1e-5)
            continue;
        printf("  \"%s\": %lld rows, on the device %lld; distance %.2g\n", r.buffers[i].name, (long long)a[0],
               (long long)b[0], distance);
        same = false;
    }
    return same;
}

static bool same_decision(void)
{
    bs_decision a, b;
    if (bs_decision_get(cpu.session, "r", &a) != BS_OK)
        return true;
    bs_decision_get(gpu.session, "r", &b);
    return a.cells == b.cells && memcmp(a.counts, b.counts, (size_t)a.paths * sizeof *a.counts) == 0 &&
           memcmp(a.chosen, b.chosen, (size_t)a.cells * sizeof *a.chosen) == 0;
}

/* Chooses `count` rows, anywhere. */
static void choose(int32_t count)
{
    int32_t left = count;
    for (int32_t i = 0; i < MOST; i++) {
        mask[i] = check_below(MOST - i) < left ? 1.0f + (float)check_below(8) : -0.0f;
        left -= mask[i] != 0;
    }
    limit = (float)count;
}

/* One run of each side: the same, whatever becomes of it. */
static bool agree(void)
{
    side_run(&cpu);
    side_run(&gpu);
    if (cpu.status == gpu.status && (cpu.status != BS_OK || (same_outputs() && same_decision())))
        return true;
    printf("  %g: CPU %s (%s), device %s (%s)\n", (double)limit, bs_status_name(cpu.status), cpu.error.message,
           bs_status_name(gpu.status), gpu.error.message);
    return false;
}

/* ------------------------------------------------------------------------------------------------------- nets */

static bs_value linear(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out, .act = BS_CLIP, .act_param = 8});
}

static bs_value routed(bs_graph *g, bs_value table, bs_protocol protocol)
{
    static const char *const names[2] = {"first", "second"};
    const bs_value cells = bs_rows(g, table, none);
    const bs_router route = bs_route(g, linear(g, cells, "score", 2), none,
                                     &(bs_route_desc){.name = "r", .protocol = protocol, .paths = 2});
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++) {
        bs_block_begin(g, names[p]);
        out[p] = linear(g, bs_scatter(g, route, p, cells), names[p], 4);
        bs_block_end(g);
    }
    return bs_collect(g, bs_gather(g, route, out, none, NULL));
}

/* The rows of x whose mask is not 0, their way through a router, and what is made of them at the root; numbers. */
static void chosen_net(bs_protocol protocol)
{
    bs_graph *g = rig_begin(&r, "chosen");
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(MOST, 4)), m = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST));
    const bs_value at = bs_nonzero(g, m, &(bs_extent_desc){"N", KEPT});
    const bs_value i = bs_reshape(g, at, BS_SHAPE1(-1)), y = routed(g, bs_gather_rows(g, x, i), protocol);
    const bs_value numbers = bs_arange(g, bs_input(g, "limit", BS_F32, BS_SHAPE1(1)), none, none,
                                       &(bs_extent_desc){"M", MOST});
    bs_output(g, "at", at);
    bs_output(g, "y", y);
    bs_output(g, "numbers", bs_affine(g, numbers, 2, 1));
    bs_output(g, "sum", bs_reduce(g, y, &(bs_reduce_desc){.axis = 0}));
    bs_output(g, "both", bs_concat(g, (bs_value[]){y, bs_input(g, "c", BS_F32, BS_SHAPE2(2, 4))}, 2, 0));
    bs_output(g, "put", bs_scatter_rows(g, x, i, y, &(bs_update_desc){.update = BS_UPDATE_ADD}));
    bs_output(g, "products", bs_matmul(g, bs_transpose(g, y, NULL), y, NULL));
    bs_output(g, "again", bs_nonzero(g, y, &(bs_extent_desc){.name = "K"}));
    rig_give(&r, "mask", mask);
    rig_give(&r, "limit", &limit);
}

static void begin(bs_launch_mode mode, bs_order order, uint64_t slot_bytes, bs_route_function callback)
{
    bs_plan_desc desc = {.tier = BS_TIER_SCALAR, .order = order, .conv = BS_CONV_FORCE_REFERENCE};
    rig_make_weights(&r);
    rig_make_buffers(&r);
    const bool here = side_open(&cpu, &desc, callback);
    desc.tier = BS_TIER_CUDA;
    desc.launch_mode = mode;
    desc.half = half;
    desc.slot_bytes = slot_bytes;
    check(side_open(&gpu, &desc, callback) && here, "two sessions: %s%s", cpu.error.message, gpu.error.message);
}

static void end(void)
{
    side_close(&gpu);
    side_close(&cpu);
}

/* --------------------------------------------------------------------------------------------------------- tests */

static const int32_t counts[] = {7, 0, KEPT, 1, KEPT + 1, 0, 33, MOST, 257, 0, KEPT};
#define TURNS (int32_t)(sizeof counts / sizeof *counts)

static int64_t bound_bytes(void)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < r.n_buffers; i++)
        bytes += rig_elements(&r.buffers[i].given) * 4;
    return bytes;
}

static void test_mode(bs_launch_mode mode, bs_order order)
{
    int64_t graphs = 0, copied = 0, launches = 0;
    bool same = true;
    chosen_net(BS_ROUTE_TOP1);
    begin(mode, order, 0, NULL);
    const int64_t results = (int64_t)gpu.session->root.domains[1].count * 2; /* of a decision, a path a cell */
    for (int32_t turn = 0; turn < TURNS && gpu.session; turn++) {
        choose(counts[turn]);
#ifdef BS_CUDA_CPU
        struct cuda_cpu_counts c;
        cuda_cpu_counts_reset();
#endif
        same = agree() && same;
        check((gpu.status == BS_OK) == (counts[turn] <= KEPT), "what is beyond the maximum is refused");
#ifdef BS_CUDA_CPU
        cuda_cpu_counts_get(&c);
        graphs += c.instantiations;
        launches += turn < 2 ? 0 : c.launches;
        if (turn > 0 && c.copied_bytes - bound_bytes() - results > copied)
            copied = c.copied_bytes - bound_bytes() - results;
#endif
    }
    check(same, "%s, order %d: as on the CPU from no row to all", bs_launch_mode_name(mode), order);
#ifdef BS_CUDA_CPU
    const bool graph = mode != BS_LAUNCH_STREAM && mode != BS_LAUNCH_HOST;
    check(graphs == graph && (!graph || launches == 0), "captured once: %lld; launched beside: %lld", (long long)graphs,
          (long long)launches);
    check(copied <= MOST_BYTES, "at most %lld bytes a run beside the buffers", (long long)copied);
#else
    (void)graphs, (void)copied, (void)launches, (void)results;
#endif
    end();
}

static bs_status by_turns(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row)
{
    (void)user, (void)scores;
    for (int32_t i = 0; i < rows; i++)
        path_of_row[i] = i % 2;
    return BS_OK;
}

/* Where the host goes from step to step, it goes by the extents that the device found. */
static void test_host(bool streams)
{
    bool same = true;
    chosen_net(streams ? BS_ROUTE_TOP1 : BS_ROUTE_CALLBACK);
    begin(BS_LAUNCH_AUTO, BS_ORDER_AUTO, streams ? 1 << 20 : 0, streams ? NULL : by_turns);
    for (int32_t turn = 0; turn < TURNS && gpu.session; turn++) {
        choose(counts[turn]);
        same = agree() && same;
    }
    check(same, "%s", streams ? "with weights that come and go" : "with a callback that chooses");
    end();
}

/* What is derived may be empty, and not less; a maximum wants elements; rows that join cells are enough. */
static void test_refused(void)
{
    bool same = true;
    for (int32_t way = 0; way < 4; way++) {
        bs_graph *g = rig_begin(&r, "refused");
        const bs_value m = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST)), f = bs_input(g, "first", BS_F32, BS_SHAPE1(5));
        const bs_value at = bs_nonzero(g, m, &(bs_extent_desc){"N", KEPT}), few = bs_nonzero(g, f, NULL);
        const bs_value real = bs_convert(g, at, &(bs_convert_desc){.dtype = BS_F32});
        if (way == 0)
            bs_output(g, "y", bs_slice(g, real, &(bs_slice_desc){.start = 3}));
        else if (way == 1)
            bs_output(g, "y", bs_reduce(g, real, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 0}));
        else
            bs_output(g, "y", bs_collect(g, bs_affine(g, bs_rows(g, bs_reshape(g, real, BS_SHAPE1(-1)),
                                                                 bs_rows(g, few, none)), 2, 0)));
        if (way < 2)
            bs_output(g, "few", few);
        rig_give(&r, "mask", mask);
        rig_give(&r, "first", first);
        for (int32_t i = 0; i < 5; i++)
            first[i] = (float)(i % 2 == 0);
        begin(way == 3 ? BS_LAUNCH_GRAPH : BS_LAUNCH_STREAM, BS_ORDER_AUTO, 0, NULL);
        int32_t refused = 0;
        for (int32_t count = 0; count < 6 && gpu.session; count++) {
            choose(count);
            same = agree() && same;
            refused += gpu.status == BS_ERROR_DATA;
        }
        check(refused == (way == 1 ? 1 : 3), "way %d: %d runs are refused", way, refused);
        end();
    }
    check(same, "what is refused is what the CPU refuses");
}

/* What says how many there are is not rounded to f16. */
static void test_half(void)
{
    bs_graph *g = rig_begin(&r, "half");
    bs_value x = bs_input(g, "limit", BS_F32, BS_SHAPE1(1));
    for (int32_t k = 0; k < 2; k++)
        x = bs_affine(g, x, 1, 0.001f);
    bs_output(g, "y", bs_convert(g, bs_arange(g, x, none, none, &(bs_extent_desc){"M", MOST}),
                                 &(bs_convert_desc){.dtype = BS_I32}));
    rig_give(&r, "limit", &limit);
    half = true;
    begin(BS_LAUNCH_AUTO, BS_ORDER_AUTO, 0, NULL);
    half = false;
    choose(200);
    check(gpu.session && agree(), "a plan for half counts as the CPU");
    end();
}

int main(void)
{
    check_seed(1);
    for (int32_t mode = BS_LAUNCH_AUTO; mode < BS_LAUNCH_COUNT; mode++)
        test_mode((bs_launch_mode)mode, mode % 2 ? BS_ORDER_BREADTH : BS_ORDER_DEPTH);
    test_host(false);
    test_host(true);
    test_refused();
    test_half();
    return check_end();
}
