/* cuda_stream_rig.h - networks whose weights stream to a device, their sessions, and what their runs must give. Relies
 * on flat_source.h, and on the emulation for what is late and in which order. */
#ifndef BS_TEST_CUDA_STREAM_RIG_H
#define BS_TEST_CUDA_STREAM_RIG_H

#include "flat_source.h"
#include "run/session.h"

#include <unistd.h>

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

enum { RUNS = 4, MOST_FLOATS = 1 << 12, SECONDS = 900 /* after which a test hangs, not only is slow */ };

typedef enum kind { MOE, CHAIN, CELLS, EQUAL, STEPS, TILES, KINDS } kind;
static const char *const kind_names[KINDS] = {"mixture of experts", "chain of blocks",   "patches with paths",
                                              "equal experts",      "loop with experts", "loop in tiles"};

/* ----------------------------------------------------------------------------------------------------- networks */

static _Alignas(64) uint8_t graph_memory[1 << 20], plan_memory[4 << 20];
static char names[128][24];
static int32_t n_names;

static inline const char *name_of(const char *stem, int32_t a, const char *rest, int32_t b)
{
    char *name = names[n_names++ % 128];
    snprintf(name, sizeof names[0], b < 0 ? "%s%d%s" : "%s%d%s%d", stem, a, rest, b);
    return name;
}

/* k of the experts a row; of different sizes, or all alike. */
static inline bs_value expert_layer(bs_graph *g, bs_value x, int32_t layer, int32_t experts, int32_t k, bool alike)
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

static inline void build_experts(bs_graph *g, bool alike)
{
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 10), 12)), (bs_value){0});
    for (int32_t layer = 0; layer < 2; layer++)
        x = expert_layer(g, x, layer, alike ? 6 : 5 - layer, alike ? 1 : 2, alike);
    bs_output(g, "out", bs_collect(g, x));
}

static inline void build_moe(bs_graph *g) { build_experts(g, false); }
static inline void build_equal(bs_graph *g) { build_experts(g, true); }

static inline void build_chain(bs_graph *g)
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
static inline void build_cells(bs_graph *g)
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

static inline bs_value small_block(bs_graph *g, bs_value x, const char *name)
{
    bs_block_begin(g, name);
    const bs_value y = bs_linear(g, x, &(bs_linear_desc){.name = name, .out = 12, .act = BS_RELU});
    bs_block_end(g);
    return y;
}

/* Rows make as many trips as their scores say, behind experts. A body of one block, or of a block, experts, and a loop
 * with a block. */
static inline void build_loop(bs_graph *g, bool whole)
{
    bs_value trips, x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 10), 12)), (bs_value){0});
    bs_topk(g, bs_linear(g, x, &(bs_linear_desc){.name = "trips", .out = 5}), 1, &trips);
    x = expert_layer(g, x, 0, 4, 1, false);
    const bs_router steps = bs_loop_begin(g, x, trips, &(bs_loop_desc){.name = "steps", .bound = 5});
    const bs_value before = bs_loop_carry(g, steps, x);
    bs_value y = small_block(g, before, "cell");
    if (whole) {
        y = expert_layer(g, y, 1, 4, 2, false);
        const bs_router again = bs_loop_begin(g, y, (bs_value){0}, &(bs_loop_desc){.name = "again", .bound = 2});
        const bs_value was = bs_loop_carry(g, again, y);
        y = bs_loop_next(g, again, was, bs_clip(g, bs_add(g, was, small_block(g, was, "inner")), -4, 4));
        bs_loop_end(g, again, (bs_value){0});
    }
    x = bs_loop_next(g, steps, before, y);
    bs_loop_end(g, steps, (bs_value){0});
    bs_output(g, "out", bs_collect(g, small_block(g, x, "leave")));
}

static inline void build_steps(bs_graph *g) { build_loop(g, true); }
static inline void build_tiles(bs_graph *g) { build_loop(g, false); }

static inline const bs_graph *build(kind k)
{
    static void (*const builders[KINDS])(bs_graph *) = {build_moe,   build_chain, build_cells,
                                                       build_equal, build_steps, build_tiles};
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

static inline bool rig_plan(rig *r, const setup *s)
{
    bs_arena arena;
    bs_plan_desc d = s->plan;
    memset(r, 0, sizeof *r);
    d.tier = d.tier ? d.tier : BS_TIER_CUDA;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    r->plan = bs_plan_create(&arena, NULL, source.g, &d, &r->error);
    if (r->plan)
        bs_plan_sizes(r->plan, &r->sizes);
    return r->plan != NULL;
}

/* In exactly the bytes that were planned. */
static inline bool rig_start(rig *r, const setup *s)
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

static inline void rig_close(rig *r)
{
    bs_session_close(r->session);
    bs_cuda_close(r->device);
    r->session = NULL;
    r->device = NULL;
}

/* Run `turn`, with the input and the extents that belong to it. */
static inline bs_status run(rig *r, kind k, int32_t turn)
{
    const bool rows = k != CHAIN && k != CELLS;
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

static inline bool same(int32_t turn) { return memcmp(output, wanted[turn], sizeof output) == 0; }

/* What the device says with weights that stay. */
static inline void want(kind k, bs_dtype dtype, int32_t order)
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

static inline bs_stream_plan stream_bytes(const setup *like)
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

static inline bool fails(const setup *s, const char *text, int32_t turn, const rig *r)
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
static inline bool streams_same(kind k, const setup *s)
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

static inline setup random_setup(int32_t order)
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
static inline void device_mood(int32_t mood)
{
#ifdef BS_CUDA_CPU
    cuda_cpu_order(mood % 3, (unsigned)mood);
    cuda_cpu_delay(mood / 3 % 2 ? 40 : 0, (unsigned)mood);
#else
    (void)mood;
#endif
}

static inline int32_t right_runs(rig *r, kind k, const setup *s, const char *when)
{
    int32_t wrong = 0;
    for (int32_t i = 0; i < RUNS; i++)
        if (run(r, k, i) != BS_OK || !same(i))
            wrong += !fails(s, when, i, r);
    return wrong;
}

#endif
