/* test_cuda_stream.c - weights that stream to a device: the same bytes as with weights that stay, whatever fits,
 * whoever reads, however late and in which order the device works; and whatever fails on the way is an error once,
 * never a hang nor a wrong result. Counting, failing and delaying calls of CUDA needs the emulation; the rest runs on a
 * GPU as well. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, alarm */
#include "flat_source.h"
#include "run/session.h"

#include <unistd.h>

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

enum { RUNS = 4, MOST_FLOATS = 1 << 12, SECONDS = 200 /* that one test may take */ };

typedef enum kind { MOE, CHAIN, CELLS, EQUAL, KINDS } kind;
static const char *const kind_names[KINDS] = {"mixture of experts", "chain of blocks", "patches with paths",
                                              "equal experts"};

/* ----------------------------------------------------------------------------------------------------- networks */

static _Alignas(64) uint8_t graph_memory[1 << 20], plan_memory[4 << 20];
static char names[128][24];
static int32_t n_names;

static const char *name_of(const char *stem, int32_t a, const char *rest, int32_t b)
{
    char *name = names[n_names++ % 128];
    snprintf(name, sizeof names[0], b < 0 ? "%s%d%s" : "%s%d%s%d", stem, a, rest, b);
    return name;
}

/* k of the experts a row; of different sizes, or all alike. */
static bs_value expert_layer(bs_graph *g, bs_value x, int32_t layer, int32_t experts, int32_t k, bool alike)
{
    bs_value out[8];
    const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = name_of("score", layer, "", -1), .out = experts});
    const bs_route_desc desc = {.name = name_of("route", layer, "", -1),
                                .protocol = k > 1 ? BS_ROUTE_TOPK : BS_ROUTE_TOP1,
                                .paths = experts,
                                .k = k > 1 ? k : 0};
    const bs_router r = bs_route(g, score, (bs_value){0}, &desc);
    for (int32_t e = 0; e < experts; e++) {
        const int32_t hidden = alike ? 16 : 8 + 12 * ((e * 3 + layer) % experts);
        bs_block_begin(g, name_of("L", layer, "e", e));
        const bs_value h = bs_linear(
            g, bs_scatter(g, r, e, x),
            &(bs_linear_desc){.name = name_of("L", layer, "up", e), .out = hidden, .act = BS_RELU});
        out[e] = bs_linear(g, h, &(bs_linear_desc){.name = name_of("L", layer, "down", e), .out = 12});
        bs_block_end(g);
    }
    return bs_gather(g, r, out, x, &(bs_gather_desc){.mode = k > 1 ? BS_GATHER_WEIGHTED : BS_GATHER_PLACE});
}

static void build_experts(bs_graph *g, bool alike)
{
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 10), 12)), (bs_value){0});
    for (int32_t layer = 0; layer < 2; layer++)
        x = expert_layer(g, x, layer, alike ? 6 : 5 - layer, alike ? 1 : 2, alike);
    bs_output(g, "out", bs_collect(g, x));
}

static void build_moe(bs_graph *g) { build_experts(g, false); }
static void build_equal(bs_graph *g) { build_experts(g, true); }

static void build_chain(bs_graph *g)
{
    bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE3(4, bs_symbol(g, "H", 12), bs_symbol(g, "W", 12)));
    for (int32_t b = 0; b < 5; b++) {
        bs_block_begin(g, name_of("block", b, "", -1));
        const bs_value h = bs_conv2d(
            g, x, &(bs_conv2d_desc){.name = name_of("block", b, "a", -1), .out = 6 + 5 * (b * 2 % 5), .act = BS_RELU});
        x = bs_add(g, x, bs_conv2d(g, h, &(bs_conv2d_desc){.name = name_of("block", b, "b", -1), .out = 4}));
        bs_block_end(g);
    }
    bs_output(g, "out", x);
}

/* Some patches leave at once, by a path without weights. */
static void build_cells(bs_graph *g)
{
    const bs_value cells = bs_patches(
        g, bs_input(g, "in", BS_F32, BS_SHAPE3(4, bs_symbol(g, "H", 12), bs_symbol(g, "W", 12))),
        &(bs_patches_desc){.size = 4});
    const bs_value pooled = bs_pool2d(g, cells, &(bs_pool2d_desc){.name = "pool", .kind = BS_POOL_MAX, .global = 1});
    const bs_router r = bs_route(g, bs_linear(g, pooled, &(bs_linear_desc){.name = "classes", .out = 4}), (bs_value){0},
                                 &(bs_route_desc){.name = "route", .paths = 4});
    bs_value out[4];
    for (int32_t p = 0; p < 4; p++) {
        bs_block_begin(g, name_of("p", p, "", -1));
        bs_value x = bs_scatter(g, r, p, cells);
        if (p > 0) {
            x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = name_of("p", p, "a", -1), .out = 4 + 4 * p, .act = BS_RELU});
            x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = name_of("p", p, "b", -1), .out = 4});
        }
        out[p] = p > 0 ? x : bs_affine(g, x, 0.5f, 0);
        bs_block_end(g);
    }
    bs_output(g, "out", bs_assemble(g, bs_gather(g, r, out, (bs_value){0}, NULL)));
}

static const bs_graph *build(kind k)
{
    static void (*const builders[KINDS])(bs_graph *) = {build_moe, build_chain, build_cells, build_equal};
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    n_names = 0;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    builders[k](g);
    if (!g || bs_graph_check(g, &error) != BS_OK) {
        printf("the %s is refused: %s\n", kind_names[k], g ? error.message : "");
        exit(2);
    }
    return g;
}

/* ----------------------------------------------------------------------------------------------------- sessions */

typedef struct setup {
    bs_plan_desc plan; /* tier 0: the device */
    bs_stream_desc stream;
    bool alone; /* no reader threads: the run reads */
    uint32_t alignment;
} setup;

typedef struct rig {
    bs_memory memory;
    bs_plan *plan;
    bs_device *device;
    bs_session *session;
    bs_sizes sizes;
    bs_error error;
} rig;

static flat_source source;
static bs_platform alone;
static _Alignas(4096) uint8_t arenas[4][4 << 20];
static float input[MOST_FLOATS], output[MOST_FLOATS], wanted[RUNS][MOST_FLOATS];

static bool rig_plan(rig *r, const setup *s)
{
    bs_arena arena;
    bs_plan_desc d = s->plan;
    memset(r, 0, sizeof *r);
    d.tier = d.tier ? d.tier : BS_TIER_CUDA;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    r->plan = bs_plan_create(&arena, source.g, &d, &r->error);
    if (r->plan)
        bs_plan_sizes(r->plan, &r->sizes);
    return r->plan != NULL;
}

/* In exactly the bytes that were planned. */
static bool rig_start(rig *r, const setup *s)
{
    static _Alignas(64) uint8_t opened_memory[1024];
    bs_arena opened;
    if (!rig_plan(r, s))
        return false;
    bs_arena_init(&opened, "opened", opened_memory, sizeof opened_memory);
    const bs_cuda_desc open = {.device_bytes = r->sizes.device, .pinned_bytes = r->sizes.pinned};
    if (bs_plan_on_device(r->plan) && !(r->device = bs_cuda_open(&opened, &open, &r->error)))
        return false;
    const uint64_t bytes[4] = {r->sizes.persistent, r->sizes.transient, r->sizes.staging, r->sizes.slots};
    bs_arena *const all[4] = {&r->memory.persistent, &r->memory.transient, &r->memory.staging, &r->memory.slots};
    for (int32_t i = 0; i < 4; i++) {
        if (bytes[i] > sizeof arenas[i])
            exit(2);
        bs_arena_init(all[i], "host", arenas[i], (size_t)bytes[i]);
    }
    const bs_session_desc desc = {.platform = s->alone ? &alone : NULL,
                                  .weights = flat_weights(&source, s->alignment ? s->alignment : 1),
                                  .stream = s->stream,
                                  .device = r->device};
    r->session = bs_session_create(&r->memory, r->plan, &desc, &r->error);
    return r->session != NULL;
}

static void rig_close(rig *r)
{
    bs_session_close(r->session);
    bs_cuda_close(r->device);
    r->session = NULL;
    r->device = NULL;
}

/* Run `turn`, with the input and the extents that belong to it. */
static bs_status run(rig *r, kind k, int32_t turn)
{
    const bool rows = k == MOE || k == EQUAL;
    const int64_t a = rows ? 10 - 4 * (turn % 3) : 12 - 3 * (turn % 3), b = 12 - (rows ? 0 : 2 * (turn % 2));
    const bs_buffer in = rows ? (bs_buffer){input, BS_F32, 2, {a, b}, {0}}
                              : (bs_buffer){input, BS_F32, 3, {4, a, b}, {0}};
    bs_buffer out = in;
    out.data = output;
    for (int32_t i = 0; i < MOST_FLOATS; i++)
        input[i] = (float)(flat_dice((uint32_t)(turn * MOST_FLOATS + i)) >> 8) / 8388608.0f - 1.0f;
    memset(output, 0xFF, sizeof output);
    r->error.message[0] = 0;
    if (bs_bind(r->session, "in", &in, &r->error) != BS_OK || bs_bind(r->session, "out", &out, &r->error) != BS_OK)
        return BS_ERROR_UNBOUND;
    return bs_run(r->session, &r->error);
}

static bool same(int32_t turn) { return memcmp(output, wanted[turn], sizeof output) == 0; }

/* What the device says with weights that stay. */
static void want(kind k, bs_dtype dtype, int32_t order)
{
    rig r;
    const setup resident = {.plan = {.order = order}};
    flat_init(&source, build(k), NULL, dtype);
    if (!rig_start(&r, &resident)) {
        check(0, "the resident %s: %s", kind_names[k], r.error.message);
        exit(check_end());
    }
    for (int32_t turn = 0; turn < RUNS; turn++) {
        if (run(&r, k, turn) != BS_OK)
            exit(2);
        memcpy(wanted[turn], output, sizeof output);
    }
    rig_close(&r);
}

static bs_stream_plan stream_bytes(const setup *like)
{
    bs_stream_plan facts;
    rig r;
    setup most = *like;
    most.plan.slot_bytes = 1u << 30;
    if (!rig_plan(&r, &most))
        exit(2);
    bs_plan_stream_get(r.plan, &facts);
    return facts;
}

static char why[400];

static bool fails(const setup *s, const char *text, int32_t turn, const rig *r)
{
    snprintf(
        why, sizeof why,
        "%s at run %d (%.120s): %llu slots, policy %d, speculation %d, check %d, %d lanes, chunks of %d, order %d, "
        "aligned to %u%s",
        text, turn, r->error.message, (unsigned long long)s->plan.slot_bytes, s->stream.policy, s->stream.speculation,
        s->stream.check_records, s->plan.lanes, s->plan.chunk_bytes, s->plan.order, s->alignment,
        s->alone ? ", alone" : "");
    return false;
}

/* Two rounds of all runs, byte by byte. */
static bool streams_same(kind k, const setup *s)
{
    rig r;
    bool ok = rig_start(&r, s);
    if (!ok)
        fails(s, "no session", 0, &r);
    for (int32_t i = 0; ok && i < 2 * RUNS; i++)
        if (run(&r, k, i % RUNS) != BS_OK || !same(i % RUNS))
            ok = fails(s, "another result", i, &r);
    bs_stream_stats stats;
    bs_session_stream_stats(r.session, &stats);
    if (ok && (stats.misses + stats.late + stats.hits == 0 || stats.resident_peak_bytes > s->plan.slot_bytes))
        ok = fails(s, "counted wrongly", 0, &r);
    rig_close(&r);
    if (ok && atomic_load(&source.misused))
        ok = fails(s, "reads out of bounds or not aligned", 0, &r);
    return ok;
}

static setup random_setup(int32_t order)
{
    static const int32_t chunks[5] = {0, 64, 600, 4096, 65536};
    static const uint32_t alignments[3] = {1, 512, 4096};
    setup s = {.plan = {.order = order, .lanes = 1 + check_below(4), .chunk_bytes = chunks[check_below(5)]},
               .stream = {.policy = check_below(BS_POLICY_BELADY),
                          .speculation = check_below(2),
                          .check_records = check_below(4) == 0},
               .alignment = alignments[check_below(3)],
               .alone = check_below(6) == 0};
    const bs_stream_plan facts = stream_bytes(&s);
    s.plan.slot_bytes = facts.least_bytes +
                        (check_below(3) ? (uint64_t)check_below((int32_t)(facts.all_bytes - facts.least_bytes) + 1)
                                        : 0);
    return s;
}

/* How late and in which order the device works, where that can be told. */
static void device_mood(int32_t mood)
{
#ifdef BS_CUDA_CPU
    cuda_cpu_order(mood % 3, (unsigned)mood);
    cuda_cpu_delay(mood / 3 % 2 ? 40 : 0, (unsigned)mood);
#else
    (void)mood;
#endif
}

/* ---------------------------------------------------------------------------------------------------- same bytes */

static void test_same(kind k, int32_t tries)
{
    static const bs_dtype dtypes[3] = {BS_F32, BS_F16, BS_BF16};
    int32_t wrong = 0;
    for (int32_t order = 0; order < 3; order++) {
        want(k, dtypes[order], order);
        for (int32_t i = 0; i < tries && wrong == 0; i++) {
            const setup s = random_setup(order);
            flat_heal(&source);
            source.delay_us = check_below(2) ? 200 : 0;
            device_mood(i);
            wrong += !streams_same(k, &s);
            device_mood(0);
        }
    }
    check(wrong == 0, "%s: the same bytes in %d ways of streaming %s", kind_names[k], 3 * tries, wrong ? why : "");
}

static void test_budgets(kind k)
{
    int32_t wrong = 0, budgets = 0;
    rig r;
    want(k, BS_F32, 0);
    const bs_stream_plan facts = stream_bytes(&(setup){.alignment = 1});
    for (uint64_t bytes = facts.least_bytes; bytes <= facts.all_bytes + 64;
         bytes += 1 + (facts.all_bytes - facts.least_bytes) / 12) {
        const setup s = {.plan = {.slot_bytes = bytes, .lanes = 2, .chunk_bytes = 600}};
        wrong += !streams_same(k, &s);
        budgets++;
    }
    check(wrong == 0, "%s: the same bytes in %d budgets from %llu to %llu bytes %s", kind_names[k], budgets,
          (unsigned long long)facts.least_bytes, (unsigned long long)facts.all_bytes, wrong ? why : "");
    const setup small = {.plan = {.slot_bytes = facts.least_bytes - 1}};
    check(!rig_plan(&r, &small) && r.error.status == BS_ERROR_ARENA && r.error.needed == facts.least_bytes,
          "one byte less: %s", r.error.message);
}

/* The unit with the most bytes of its kind: all are alike. */
static uint64_t unit_bytes(const setup *like)
{
    const bs_stream_plan facts = stream_bytes(like);
    return facts.all_bytes / (uint64_t)facts.units;
}

/* On demand, by one reader that is the run itself, slots for as many units: the device's session does what the CPU's
 * does. */
static void test_hits(void)
{
    int32_t different = 0, compared = 0;
    want(EQUAL, BS_F32, 0);
    for (int32_t policy = 0; policy < BS_POLICY_BELADY; policy++)
        for (int32_t units = 2; units <= 12; units += 2) {
            bs_stream_stats stats[2];
            for (int32_t cpu = 0; cpu < 2; cpu++) {
                setup s = {.plan = {.tier = cpu ? BS_TIER_SCALAR : BS_TIER_CUDA, .threads = 1}, .alone = true,
                           .stream = {.policy = policy, .speculation = BS_SPECULATE_OFF}};
                rig r;
                s.plan.slot_bytes = (uint64_t)units * unit_bytes(&s);
                if (!rig_start(&r, &s)) {
                    check(0, "slots for %d units: %s", units, r.error.message);
                    return;
                }
                for (int32_t i = 0; i < 3 * RUNS; i++)
                    different += run(&r, EQUAL, i % RUNS) != BS_OK || (!cpu && !same(i % RUNS));
                bs_session_stream_stats(r.session, &stats[cpu]);
                rig_close(&r);
            }
            compared++;
            if (stats[0].hits == stats[1].hits && stats[0].misses == stats[1].misses &&
                stats[0].loads == stats[1].loads && stats[0].bytes_read == stats[1].bytes_read &&
                stats[0].evictions == stats[1].evictions && stats[0].hits + stats[0].misses > 0)
                continue;
            different++;
            printf("  policy %d, %d units: hits %d and %d, misses %d and %d, loads %d and %d\n", policy, units,
                   (int)stats[0].hits, (int)stats[1].hits, (int)stats[0].misses, (int)stats[1].misses,
                   (int)stats[0].loads, (int)stats[1].loads);
        }
    check(different == 0, "hits, misses and loads are those of a session on the CPU, %d times", compared);
}

/* -------------------------------------------------------------------------------------------------------- faults */

static bool is_inside(int32_t block, int32_t outer)
{
    while (block != outer && block != 0)
        block = source.g->blocks[block].parent;
    return block == outer;
}

/* The message must tell a layer of the block that could not be read. */
static bool names_block(const rig *r)
{
    const int32_t block = atomic_load(&source.failed_block);
    for (int32_t i = 0; i < source.n_tensors; i++) {
        char node[2 * BS_MAX_NAME];
        snprintf(node, sizeof node, "\"%s", source.tensors[i].name);
        *strrchr(node, '.') = 0;
        if (source.tensors[i].block != 0 && is_inside(block, source.tensors[i].block) && strstr(r->error.message, node))
            return true;
    }
    return false;
}

/* A lane may be about to bring back one more failure: it belongs to the run that meets it. */
static void settle(rig *r, kind k)
{
    while (atomic_load(&source.inside) > 0)
        flat_sleep(100);
    flat_sleep(300);
    run(r, k, 0);
}

static int32_t right_runs(rig *r, kind k, const setup *s, const char *when)
{
    int32_t wrong = 0;
    for (int32_t i = 0; i < RUNS; i++)
        if (run(r, k, i) != BS_OK || !same(i))
            wrong += !fails(s, when, i, r);
    return wrong;
}

/* Runs until storage has failed; counts what is not as it should be. */
static int32_t faulty_runs(rig *r, kind k, const setup *s)
{
    int32_t wrong = 0, errors = 0;
    for (int32_t i = 0; i < RUNS; i++) {
        const bs_status status = run(r, k, i);
        errors += status != BS_OK;
        if (status == BS_OK ? !same(i)
                            : status != BS_ERROR_IO || (s->plan.lanes == 1 && source.fail_at && !names_block(r)) ||
                                  !r->error.message[0])
            wrong += !fails(s, bs_status_name(status), i, r);
    }
    if (s->stream.speculation == BS_SPECULATE_OFF && source.fail_at && errors != (atomic_load(&source.failed) > 0))
        wrong += !fails(s, "a failed read is not one error", errors, r);
    flat_heal(&source);
    settle(r, k);
    return wrong + right_runs(r, k, s, "wrong after the failure");
}

static void test_failing_reads(kind k)
{
    want(k, BS_F32, 0);
    for (int32_t way = 0; way < 3; way++) {
        setup s = {.plan = {.chunk_bytes = 600, .lanes = 1 + way % 2},
                   .stream = {.speculation = way < 2 ? BS_SPECULATE_OFF : BS_SPECULATE_AUTO}};
        const bs_stream_plan facts = stream_bytes(&s);
        s.plan.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 8;
        rig r;
        int32_t wrong = 0, tried = 0, count = 1000, step = 1;
        for (int32_t n = 0; n <= count && wrong == 0; n += n ? step : 1) {
            flat_heal(&source);
            if (!rig_start(&r, &s))
                exit(2);
            if (n == 0) { /* how many there are */
                wrong += right_runs(&r, k, &s, "wrong without a failure");
                count = atomic_load(&source.calls);
                step = 1 + count / 40;
                rig_close(&r);
                continue;
            }
            source.fail_at = n;
            wrong += faulty_runs(&r, k, &s);
            source.fail_from = n;
            wrong += faulty_runs(&r, k, &s);
            tried += 2;
            rig_close(&r);
        }
        check(wrong == 0 && count > 5,
              "%s: reads that fail, once or from then on, at %d places of %d are errors and nothing else (way %d) %s",
              kind_names[k], tried, count, way, wrong ? why : "");
    }
}

/* Closed while lanes read and copy: nothing of the device is used after it went. */
static void test_closing(kind k)
{
    int32_t wrong = 0;
    want(k, BS_F32, 0);
    for (int32_t i = 0; i < 18; i++) {
        setup s = {.plan = {.chunk_bytes = 600, .lanes = 1 + i % 4}};
        s.plan.slot_bytes = stream_bytes(&s).least_bytes * 2;
        rig r;
        flat_heal(&source);
        source.delay_us = i % 3 ? 1500 : 100;
        device_mood(i);
        if (!rig_start(&r, &s))
            exit(2);
        for (int32_t turn = 0; turn < i % 4; turn++)
            wrong += run(&r, k, turn) != BS_OK || !same(turn);
        rig_close(&r);
        device_mood(0);
        wrong += atomic_load(&source.inside) != 0;
    }
    flat_heal(&source);
#ifdef BS_CUDA_CPU
    check(cuda_cpu_trouble() == NULL, "the API was used rightly: %s", cuda_cpu_trouble() ? cuda_cpu_trouble() : "");
#endif
    check(wrong == 0, "%s: closed while reads are under way, nothing is left", kind_names[k]);
}

/* Delays and errors, all ways at once: for the thread sanitizer above all. */
static void test_storm(kind k, int32_t tries)
{
    int32_t wrong = 0, errors = 0;
    want(k, BS_F32, 0);
    for (int32_t i = 0; i < tries && wrong == 0; i++) {
        const setup s = random_setup(0);
        rig r;
        flat_heal(&source);
        if (!rig_start(&r, &s)) {
            wrong += !fails(&s, "no session", 0, &r);
            break;
        }
        source.delay_us = 200;
        source.error_percent = check_below(2) ? check_below(12) : 0;
        device_mood(i);
        for (int32_t turn = 0; turn < RUNS; turn++) {
            const bs_status status = run(&r, k, turn);
            errors += status != BS_OK;
            if (status == BS_OK ? !same(turn) : status != BS_ERROR_IO)
                wrong += !fails(&s, bs_status_name(status), turn, &r);
        }
        rig_close(&r);
        device_mood(0);
    }
    flat_heal(&source);
    check(wrong == 0, "%s: slow storage that sometimes fails, %d times %d runs, %d errors %s", kind_names[k], tries,
          RUNS, errors, wrong ? why : "");
}

#ifdef BS_CUDA_CPU

/* ------------------------------------------------------------------------------------------------ calls of CUDA */

static bool nothing_left(void)
{
    struct cuda_cpu_counts c;
    cuda_cpu_counts_get(&c);
    return c.live_allocations == 0 && c.live_streams == 0 && c.live_events == 0 && c.live_graphs == 0;
}

/* Whether it names a layer, or what CUDA was to do, or what a GPU that says nothing of itself seems to lack. */
static bool tells(const rig *r)
{
    for (int32_t n = 1; n < source.g->n_nodes; n++) {
        char name[2 * BS_MAX_NAME];
        snprintf(name, sizeof name, "%s \"%s\" (node %d): ", bs_op_get(source.g->nodes[n].op)->name,
                 bs_node_name(&source.g->nodes[n]), n);
        if (strncmp(r->error.message, name, strlen(name)) == 0)
            return true;
    }
    return strncmp(r->error.message, "CUDA", 4) == 0 || strstr(r->error.message, "this GPU has") != NULL;
}

/* Where a context is lost nobody can wait, and a lane writes what a copy may still read: nothing to the library, whose
 * run has failed, but the thread sanitizer would tell. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WATCHED 1
#endif
#endif
#if !defined(WATCHED) && defined(__SANITIZE_THREAD__)
#define WATCHED 1
#elif !defined(WATCHED)
#define WATCHED 0
#endif

static int64_t calls_of_a_life(kind k, const setup *s)
{
    struct cuda_cpu_counts c;
    rig r;
    cuda_cpu_counts_reset();
    const bool ok = rig_start(&r, s) && right_runs(&r, k, s, "wrong without a failure") == 0;
    rig_close(&r);
    cuda_cpu_counts_get(&c);
    return ok ? c.calls : 0;
}

/* One life in which call number n fails, or all from there on, to the end: a context that is lost. Counts what is not
 * as it should be. */
static int32_t failing_life(kind k, const setup *s, int64_t n, int32_t on, int32_t *told)
{
    rig r;
    int32_t wrong = 0, errors = 0;
    cuda_cpu_fail(n, on);
    if (rig_start(&r, s)) {
        for (int32_t i = 0; i < RUNS; i++) {
            const bs_status status = run(&r, k, i);
            errors += status != BS_OK;
            if (status == BS_OK ? !same(i) : !tells(&r))
                wrong += !fails(s, status == BS_OK ? "another result" : "an error that tells nothing", i, &r);
            if (on && status != BS_OK)
                break;
        }
        if (!on && errors > 1)
            wrong += !fails(s, "one failure is several errors", errors, &r);
        if (!on) {
            cuda_cpu_fail(0, 0);
            settle(&r, k);
            wrong += right_runs(&r, k, s, "wrong after the failure");
        }
    } else {
        errors++;
        if (!tells(&r))
            wrong += !fails(s, "an error that tells nothing", 0, &r);
    }
    rig_close(&r);
    cuda_cpu_fail(0, 0);
    if (on) /* nobody could wait for what was busy */
        cuda_cpu_trouble_forget();
    if (!nothing_left())
        wrong += !fails(s, "something is left", 0, &r);
    *told += errors > 0;
    return wrong;
}

static void test_failing_calls(kind k, bool threads)
{
    int32_t wrong = 0, told = 0, lives = 0;
    want(k, BS_F32, 0);
    setup s = {.plan = {.lanes = threads ? 2 : 1, .chunk_bytes = 600},
               .stream = {.speculation = threads ? BS_SPECULATE_AUTO : BS_SPECULATE_OFF},
               .alone = !threads};
    const bs_stream_plan facts = stream_bytes(&s);
    s.plan.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 4;
    const int64_t calls = calls_of_a_life(k, &s), step = 1 + calls / (threads || WATCHED ? 32 : 128);
    for (int32_t on = 0; on < (threads && WATCHED ? 1 : 2); on++)
        for (int64_t n = 1 + check_below((int32_t)step); n <= calls && wrong == 0; n += step, lives++) {
            device_mood(threads ? (int32_t)n : 0);
            wrong += failing_life(k, &s, n, on, &told);
        }
    device_mood(0);
    check(wrong == 0 && calls > 50,
          "%s%s: %lld calls, in %d lives one fails, or all from then on: %d errors, no wrong bytes, nothing left %s",
          kind_names[k], threads ? ", with lanes" : "", (long long)calls, lives, told, wrong ? why : "");
    check(told > lives / 2, "most calls matter");
    check(calls_of_a_life(k, &s) > 0, "afterwards all is well");
    check(cuda_cpu_trouble() == NULL, "the API was used rightly: %s", cuda_cpu_trouble() ? cuda_cpu_trouble() : "");
}

/* ------------------------------------------------------------------------------------------- where the host waits */

/* Rows of the domain of an instruction in the run before. */
static int32_t rows_of(const rig *r, int32_t domain)
{
    const bs_domain *d = &source.g->domains[domain];
    bs_decision went;
    if (d->kind != BS_DOMAIN_PATH)
        return r->session->root.domains[domain].count;
    return bs_decision_get(r->session, source.g->routers[d->router].desc->name, &went) == BS_OK ? went.counts[d->path]
                                                                                                : 0;
}

/* For each decision, each layer or wave of paths whose weights may go then, and the end. */
static int32_t expected_waits(const rig *r)
{
    int32_t waits = 1;
    for (int32_t i = 0; i < r->plan->n_top; i++) {
        const bs_instr *in = &r->plan->instrs[i];
        int32_t parts = 0;
        for (int32_t p = 0; in->kind == BS_INSTR_RUN && p < r->plan->n_parts; p++)
            parts += r->plan->parts[p].region == in->region && r->plan->parts[p].count > 0 &&
                     rows_of(r, r->plan->parts[p].domain) > 0;
        if (in->kind == BS_INSTR_ROUTE)
            waits++;
        else if (in->kind == BS_INSTR_RUN)
            waits += in->stage < 0 || parts > 0;
        else
            waits += in->stage >= 0 && rows_of(r, in->domain) > 0;
    }
    return waits;
}

/* Of a run whose weights are all there. */
static void test_waits(kind k)
{
    for (int32_t order = 0; order < 3; order++) {
        struct cuda_cpu_counts c;
        rig r;
        want(k, BS_F32, order);
        setup s = {.plan = {.order = order, .lanes = 2}, .stream = {.speculation = BS_SPECULATE_OFF}};
        s.plan.slot_bytes = stream_bytes(&s).all_bytes + 64;
        if (!check(rig_start(&r, &s), "slots for all: %s", r.error.message))
            return;
        int32_t wrong = right_runs(&r, k, &s, "wrong") + right_runs(&r, k, &s, "wrong");
        int64_t waits[RUNS];
        int32_t expected[RUNS];
        for (int32_t i = 0; i < RUNS; i++) {
            cuda_cpu_counts_reset();
            wrong += run(&r, k, i) != BS_OK || !same(i);
            cuda_cpu_counts_get(&c);
            waits[i] = c.synchronisations;
            expected[i] = expected_waits(&r);
            wrong += waits[i] != expected[i] || c.device_allocations || c.host_allocations || c.pageable_copies;
        }
        check(wrong == 0, "%s, order %d: the host waits %lld %lld %lld %lld times (expected %d %d %d %d)",
              kind_names[k], order, (long long)waits[0], (long long)waits[1], (long long)waits[2], (long long)waits[3],
              expected[0], expected[1], expected[2], expected[3]);
        rig_close(&r);
    }
}
#endif

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    alone = *bs_platform_default();
    alone.thread_start = NULL;
    for (kind k = 0; k < KINDS; k++) {
        alarm(SECONDS); /* what hangs is ended */
        test_same(k, 16);
        test_budgets(k);
        alarm(SECONDS);
        test_failing_reads(k);
        alarm(SECONDS);
        test_closing(k);
        test_storm(k, 12);
#ifdef BS_CUDA_CPU
        test_waits(k);
        for (int32_t threads = 0; threads < 2 && k != EQUAL; threads++) {
            alarm(SECONDS);
            test_failing_calls(k, threads != 0);
        }
#endif
    }
    alarm(SECONDS);
    test_hits();
    return check_end();
}
