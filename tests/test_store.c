/* Promises: a network whose weights come and go gives the same bytes as one whose weights stay, whatever fits, whoever
 * reads, whatever is guessed and whatever fails on the way; and a failure is an error once, never a hang nor a wrong
 * result.
 *
 * Sessions on small networks, over flat_source.h and a platform that counts and refuses. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "flat_source.h"
#include "run/session.h"

enum { RUNS = 5, OUT_FLOATS = 1 << 14, IN_FLOATS = 1 << 14, GUARD = 256 };

typedef enum kind { MOE, CHAIN, EXITS, KINDS, DEEP = KINDS, ALL_KINDS } kind;
static const char *const kind_names[ALL_KINDS] = {"mixture of experts", "chain of blocks", "patches with exits",
                                                  "deep blocks"};

/* ----------------------------------------------------------------------------------------------------- networks */

static _Alignas(64) uint8_t graph_memory[1 << 20], plan_memory[8 << 20];
static char names[256][24];
static int32_t n_names;

static const char *name_of(const char *stem, int32_t a, const char *rest, int32_t b)
{
    char *name = names[n_names++ % 256];
    snprintf(name, sizeof names[0], b < 0 ? "%s%d%s" : "%s%d%s%d", stem, a, rest, b);
    return name;
}

/* Experts of different sizes, two of them a token; the second router is foretold by its own score. */
static void moe_layer(bs_graph *g, bs_value *x, bs_value score, int32_t layer, int32_t experts)
{
    bs_value out[8];
    const bs_router r = bs_route(
        g, score, (bs_value){0},
        &(bs_route_desc){.name = name_of("route", layer, "", -1), .protocol = BS_ROUTE_TOPK, .paths = experts, .k = 2});
    for (int32_t e = 0; e < experts; e++) {
        const int32_t hidden = 8 + 12 * ((e * 5 + layer) % experts);
        bs_block_begin(g, name_of("L", layer, "e", e));
        bs_value h = bs_scatter(g, r, e, *x);
        h = bs_linear(g, h, &(bs_linear_desc){.name = name_of("L", layer, "e", e), .out = hidden, .act = BS_RELU});
        h = bs_linear(g, h, &(bs_linear_desc){.name = name_of("L", layer, "down", e), .out = 24});
        bs_block_end(g);
        out[e] = e == experts - 1 ? bs_affine(g, h, 0.5f, 0.1f) : h;
    }
    *x = bs_gather(g, r, out, *x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED});
}

static void build_moe(bs_graph *g)
{
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 12), 24)), (bs_value){0});
    const bs_value first = bs_linear(g, x, &(bs_linear_desc){.name = "score0", .out = 7});
    const bs_value second = bs_linear(g, x, &(bs_linear_desc){.name = "score1", .out = 5});
    bs_look_ahead(g, second, "route1");
    moe_layer(g, &x, first, 0, 7);
    moe_layer(g, &x, second, 1, 5);
    const bs_value third = bs_linear(g, x, &(bs_linear_desc){.name = "score2", .out = 3});
    moe_layer(g, &x, third, 2, 3);
    bs_output(g, "out", bs_collect(g, x));
}

static void build_chain(bs_graph *g)
{
    bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE3(4, bs_symbol(g, "H", 20), bs_symbol(g, "W", 20)));
    for (int32_t b = 0; b < 9; b++) {
        const int32_t width = 6 + 7 * (b * 4 % 9);
        bs_block_begin(g, name_of("block", b, "", -1));
        const bs_value h = bs_conv2d(
            g, x, &(bs_conv2d_desc){.name = name_of("block", b, "a", -1), .out = width, .act = BS_RELU});
        x = bs_add(g, x, bs_conv2d(g, h, &(bs_conv2d_desc){.name = name_of("block", b, "b", -1), .out = 4}));
        bs_block_end(g);
    }
    bs_output(g, "out", x);
}

static bs_value exit_path(bs_graph *g, bs_value x, int32_t path, int32_t width)
{
    bs_value h = bs_conv2d(g, x, &(bs_conv2d_desc){.name = name_of("p", path, "a", -1), .out = width, .act = BS_RELU});
    return bs_conv2d(g, h, &(bs_conv2d_desc){.name = name_of("p", path, "b", -1), .out = 4});
}

/* Easy patches leave at once, by a path without weights; what goes on meets another exit inside. */
static void build_exits(bs_graph *g)
{
    const bs_value cells = bs_patches(
        g, bs_input(g, "in", BS_F32, BS_SHAPE3(4, bs_symbol(g, "H", 20), bs_symbol(g, "W", 20))),
        &(bs_patches_desc){.size = 8});
    const bs_value pooled = bs_pool2d(g, cells, &(bs_pool2d_desc){.name = "pool", .kind = BS_POOL_MAX, .global = 1});
    const bs_router outer = bs_route(g, bs_linear(g, pooled, &(bs_linear_desc){.name = "classes", .out = 4}),
                                     (bs_value){0}, &(bs_route_desc){.name = "route0", .paths = 4});
    bs_value out[4], inner_out[2];
    bs_block_begin(g, "leave");
    out[0] = bs_affine(g, bs_scatter(g, outer, 0, cells), 0.5f, 0);
    bs_block_end(g);
    bs_block_begin(g, "p1");
    out[1] = exit_path(g, bs_scatter(g, outer, 1, cells), 1, 12);
    bs_block_end(g);
    bs_block_begin(g, "p5");
    out[3] = exit_path(g, bs_scatter(g, outer, 3, cells), 5, 17);
    bs_block_end(g);
    bs_block_begin(g, "p2");
    const bs_value x = exit_path(g, bs_scatter(g, outer, 2, cells), 2, 20);
    const bs_value again = bs_pool2d(g, x, &(bs_pool2d_desc){.name = "again", .kind = BS_POOL_MAX, .global = 1});
    const bs_router inner = bs_route(g, bs_linear(g, again, &(bs_linear_desc){.name = "p2.exit", .out = 2}),
                                     (bs_value){0}, &(bs_route_desc){.name = "route1", .paths = 2});
    bs_block_begin(g, "p3");
    inner_out[0] = exit_path(g, bs_scatter(g, inner, 0, x), 3, 16);
    bs_block_end(g);
    bs_block_begin(g, "p4");
    inner_out[1] = bs_affine(g, bs_scatter(g, inner, 1, x), 2, 0);
    bs_block_end(g);
    out[2] = bs_gather(g, inner, inner_out, (bs_value){0}, NULL);
    bs_block_end(g);
    bs_output(g, "out", bs_assemble(g, bs_gather(g, outer, out, (bs_value){0}, NULL)));
}

/* Many layers a chunk: narrow weights that are widened need more staging than is read. */
static void build_deep(bs_graph *g)
{
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 12), 24)), (bs_value){0});
    for (int32_t b = 0; b < 3; b++) {
        bs_block_begin(g, name_of("block", b, "", -1));
        for (int32_t i = 0; i < 10; i++)
            x = bs_linear(g, x,
                          &(bs_linear_desc){.name = name_of("D", b, "l", i),
                                            .out = b == 2 && i == 9 ? 24 : 63 + i % 2,
                                            .act = BS_RELU});
        bs_block_end(g);
    }
    bs_output(g, "out", bs_collect(g, x));
}

static const bs_graph *build(kind k)
{
    static void (*const builders[ALL_KINDS])(bs_graph *) = {build_moe, build_chain, build_exits, build_deep};
    bs_arena arena;
    n_names = 0;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    builders[k](g);
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (!g || bs_graph_check(g, &error) != BS_OK) {
        printf("the %s is refused: %s\n", kind_names[k], g ? error.message : "");
        exit(2);
    }
    return g;
}

/* ----------------------------------------------------------------------------------------------------- platform */

typedef struct counting {
    bs_platform platform;
    const bs_platform *real;
    atomic_int threads, gates, calls;
    int fail_at;
} counting;

static int counted(counting *c) { return atomic_fetch_add(&c->calls, 1) + 1 == c->fail_at; }

static int count_thread(void *user, void *handle, void (*entry)(void *), void *argument)
{
    counting *c = user;
    if (counted(c) || c->real->thread_start(c->real->user, handle, entry, argument) != 0)
        return -1;
    atomic_fetch_add(&c->threads, 1);
    return 0;
}

static void count_join(void *user, void *handle)
{
    counting *c = user;
    c->real->thread_join(c->real->user, handle);
    atomic_fetch_sub(&c->threads, 1);
}

static int count_gate(void *user, void *storage)
{
    counting *c = user;
    if (counted(c) || c->real->gate_init(c->real->user, storage) != 0)
        return -1;
    atomic_fetch_add(&c->gates, 1);
    return 0;
}

static void count_gate_end(void *user, void *storage)
{
    counting *c = user;
    c->real->gate_destroy(c->real->user, storage);
    atomic_fetch_sub(&c->gates, 1);
}

static const bs_platform *counting_init(counting *c)
{
    memset(c, 0, sizeof *c);
    c->real = bs_platform_default();
    c->platform = *c->real;
    c->platform.user = c;
    c->platform.thread_start = count_thread;
    c->platform.thread_join = count_join;
    c->platform.gate_init = count_gate;
    c->platform.gate_destroy = count_gate_end;
    return &c->platform;
}

/* ----------------------------------------------------------------------------------------------------- sessions */

typedef struct setup {
    bs_plan_desc plan;
    bs_stream_desc stream;
    const bs_platform *platform;
    uint32_t alignment;
} setup;

typedef struct rig {
    bs_memory memory;
    bs_plan *plan;
    bs_session *session;
    bs_sizes sizes;
    bs_error error;
} rig;

static flat_source source;
static _Alignas(4096) uint8_t arenas[4][8 << 20];
static float input[IN_FLOATS], output[OUT_FLOATS], wanted[RUNS][OUT_FLOATS];

static bool rig_plan(rig *r, const setup *s)
{
    bs_arena arena;
    memset(r, 0, sizeof *r);
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    r->plan = bs_plan_create(&arena, source.g, &s->plan, &r->error);
    if (r->plan)
        bs_plan_sizes(r->plan, &r->sizes);
    return r->plan != NULL;
}

static uint64_t *size_of(rig *r, int32_t which)
{
    uint64_t *const sizes[4] = {&r->sizes.persistent, &r->sizes.transient, &r->sizes.staging, &r->sizes.slots};
    return sizes[which];
}

/* In arenas of the planned bytes, with `less` missing from one. */
static bool rig_session(rig *r, const setup *s, int32_t which, uint64_t less)
{
    static const char *const arena_names[4] = {"persistent", "transient", "staging", "slots"};
    bs_arena *const all[4] = {&r->memory.persistent, &r->memory.transient, &r->memory.staging, &r->memory.slots};
    const bs_session_desc desc = {.platform = s->platform,
                                  .weights = flat_weights(&source, s->alignment ? s->alignment : 1),
                                  .stream = s->stream};
    for (int32_t i = 0; i < 4; i++) {
        const uint64_t bytes = *size_of(r, i) - (i == which ? less : 0);
        if (bytes + 2 * GUARD > sizeof arenas[i])
            exit(2);
        memset(arenas[i], 0xA5, (size_t)bytes + 2 * GUARD);
        bs_arena_init(all[i], arena_names[i], arenas[i] + GUARD, (size_t)bytes);
    }
    r->session = bs_session_create(&r->memory, r->plan, &desc, &r->error);
    return r->session != NULL;
}

static bool guards_hold(rig *r)
{
    for (int32_t i = 0; i < 4; i++)
        for (uint64_t k = 0; k < GUARD; k++)
            if (arenas[i][k] != 0xA5 || arenas[i][GUARD + *size_of(r, i) + k] != 0xA5)
                return false;
    return true;
}

static bool rig_start(rig *r, const setup *s) { return rig_plan(r, s) && rig_session(r, s, -1, 0); }

/* Run `turn`, with the input and the extents that belong to it. */
static bs_status run(rig *r, kind k, int32_t turn)
{
    const bool rows = k == MOE || k == DEEP;
    const int64_t a = rows ? 12 - 5 * (turn % 3) : 20 - 3 * (turn % 3), b = rows ? 24 : 20 - 4 * (turn % 2);
    const bs_buffer in = rows ? (bs_buffer){input, BS_F32, 2, {a, b}, {0}}
                              : (bs_buffer){input, BS_F32, 3, {4, a, b}, {0}};
    bs_buffer out = in;
    out.data = output;
    for (int32_t i = 0; i < IN_FLOATS; i++)
        input[i] = (float)(flat_dice((uint32_t)(turn * IN_FLOATS + i)) >> 8) / 8388608.0f - 1.0f;
    memset(output, 0xFF, sizeof output);
    if (bs_bind(r->session, "in", &in, &r->error) != BS_OK || bs_bind(r->session, "out", &out, &r->error) != BS_OK)
        return BS_ERROR_UNBOUND;
    return bs_run(r->session, &r->error);
}

static bool same(int32_t turn) { return memcmp(output, wanted[turn], sizeof output) == 0; }

/* What the resident session says, at this precision of stored weights. */
static void want(kind k, bs_dtype dtype)
{
    rig r;
    const setup resident = {.plan = {.threads = 1}};
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
    bs_session_close(r.session);
}

static void stream_bytes(bs_stream_plan *facts)
{
    rig r;
    const setup most = {.plan = {.slot_bytes = 1u << 30}};
    if (!rig_plan(&r, &most))
        exit(2);
    bs_plan_stream_get(r.plan, facts);
}

static char why[400];

static bool fails(const setup *s, const char *text, int32_t turn, const rig *r)
{
    snprintf(
        why, sizeof why,
        "%s at run %d (%.120s): %llu slots, policy %d, speculation %d, check %d, %d lanes, chunks of %d, %d threads, "
        "order %d, aligned to %u",
        text, turn, r->error.message, (unsigned long long)s->plan.slot_bytes, s->stream.policy, s->stream.speculation,
        s->stream.check_records, s->plan.lanes, s->plan.chunk_bytes, s->plan.threads, s->plan.order, s->alignment);
    return false;
}

/* Two rounds of all runs, byte by byte. */
static bool streams_same(kind k, const setup *s)
{
    rig r;
    if (!rig_start(&r, s))
        return fails(s, "no session", 0, &r);
    bool ok = true;
    for (int32_t i = 0; ok && i < 2 * RUNS; i++)
        if (run(&r, k, i % RUNS) != BS_OK || !same(i % RUNS))
            ok = fails(s, "another result", i, &r);
    bs_stream_stats stats;
    bs_session_stream_stats(r.session, &stats);
    if (ok && (stats.misses + stats.late + stats.hits == 0 || stats.resident_peak_bytes > s->plan.slot_bytes))
        ok = fails(s, "counted wrongly", 0, &r);
    bs_session_close(r.session);
    if (ok && !guards_hold(&r))
        ok = fails(s, "bytes outside the arenas were written", 0, &r);
    if (ok && atomic_load(&source.misused))
        ok = fails(s, "reads out of bounds or not aligned", 0, &r);
    return ok;
}

static bs_platform alone; /* no threads */

static setup random_setup(const bs_stream_plan *facts)
{
    static const int32_t lanes[4] = {0, 1, 2, 4}, chunks[5] = {0, 4096, 5000, 16384, 65536};
    static const uint32_t alignments[3] = {1, 512, 4096};
    setup s = {.plan = {.threads = 1 + check_below(3),
                        .order = check_below(3),
                        .lanes = lanes[check_below(4)],
                        .chunk_bytes = chunks[check_below(5)]},
               .stream = {.policy = check_below(BS_POLICY_BELADY),
                          .speculation = check_below(2),
                          .check_records = check_below(4) == 0},
               .alignment = alignments[check_below(3)]};
    const uint64_t range = facts->all_bytes - facts->least_bytes;
    s.plan.slot_bytes = facts->least_bytes + (check_below(3) ? (uint64_t)check_below((int32_t)range + 1) : 0);
    if (check_below(6) == 0) {
        s.platform = &alone;
        s.plan.threads = 1;
    }
    return s;
}

/* ---------------------------------------------------------------------------------------------------- same bytes */

static void test_same(kind k, int32_t tries)
{
    static const bs_dtype dtypes[3] = {BS_F32, BS_F16, BS_BF16};
    bs_stream_plan facts;
    for (int32_t d = 0; d < 3; d++) {
        want(k, dtypes[d]);
        stream_bytes(&facts);
        int32_t wrong = 0;
        for (int32_t i = 0; i < tries && wrong == 0; i++) {
            const setup s = random_setup(&facts);
            wrong += !streams_same(k, &s);
        }
        check(wrong == 0, "%s, stored in %s: the same bytes in %d ways of streaming %s", kind_names[k],
              bs_dtype_name(dtypes[d]), tries, wrong ? why : "");
    }
}

static void test_budgets(kind k)
{
    bs_stream_plan facts;
    int32_t wrong = 0, budgets = 0;
    rig r;
    want(k, BS_F32);
    stream_bytes(&facts);
    for (uint64_t bytes = facts.least_bytes; bytes <= facts.all_bytes + 64;
         bytes += 1 + (facts.all_bytes - facts.least_bytes) / 20) {
        const setup s = {.plan = {.slot_bytes = bytes, .chunk_bytes = 4096}};
        wrong += !streams_same(k, &s);
        budgets++;
    }
    check(wrong == 0, "%s: the same bytes in %d budgets from %llu to %llu bytes %s", kind_names[k], budgets,
          (unsigned long long)facts.least_bytes, (unsigned long long)facts.all_bytes, wrong ? why : "");
    const setup small = {.plan = {.slot_bytes = facts.least_bytes - 1}};
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)facts.least_bytes);
    check(!rig_plan(&r, &small) && r.error.status == BS_ERROR_ARENA && r.error.needed == facts.least_bytes &&
              strstr(r.error.message, number),
          "one byte less: %s", r.error.message);
}

static void test_arenas(kind k)
{
    static const char *const arena_names[4] = {"persistent", "transient", "staging", "slots"};
    bs_stream_plan facts;
    rig r;
    want(k, BS_F32);
    stream_bytes(&facts);
    const setup s = {.plan = {.slot_bytes = (facts.least_bytes + facts.all_bytes) / 2, .lanes = 3}};
    check(rig_start(&r, &s) && r.memory.persistent.used == r.sizes.persistent &&
              r.memory.transient.used == r.sizes.transient && r.memory.staging.used == r.sizes.staging &&
              r.memory.slots.used == r.sizes.slots,
          "a streaming session takes exactly the planned bytes (%s)", kind_names[k]);
    bs_session_close(r.session);
    for (int32_t i = 0; i < 4; i++) {
        if (!rig_plan(&r, &s) || *size_of(&r, i) == 0)
            continue;
        const bool started = rig_session(&r, &s, i, BS_ALIGNMENT);
        check(!started && r.error.status == BS_ERROR_ARENA && r.error.arena &&
                  strcmp(r.error.arena, arena_names[i]) == 0 && r.memory.persistent.used == 0 &&
                  r.memory.transient.used == 0 && r.memory.staging.used == 0 && r.memory.slots.used == 0,
              "%d less: %s", BS_ALIGNMENT, r.error.message);
        bs_session_close(r.session);
    }
}

static void test_look_ahead(void)
{
    bs_stream_plan facts;
    bs_prediction p = {0, 0, 0};
    rig r;
    want(MOE, BS_F32);
    stream_bytes(&facts);
    const setup s = {.plan = {.slot_bytes = facts.least_bytes * 3}};
    if (!check(rig_start(&r, &s), "a session that looks ahead %s", r.error.message))
        return;
    for (int32_t i = 0; i < 2 * RUNS; i++)
        run(&r, MOE, i % RUNS);
    bs_session_prediction_get(r.session, -1, BS_PREDICT_LOOK_AHEAD, &p);
    check(p.expected > 0 && p.right == p.expected && p.needed == p.expected,
          "look-ahead by the router's own score is always right: %llu of %llu, %llu needed",
          (unsigned long long)p.right, (unsigned long long)p.expected, (unsigned long long)p.needed);
    bs_session_close(r.session);
}

/* -------------------------------------------------------------------------------------------------------- faults */

static bool is_inside(int32_t block, int32_t outer)
{
    while (block != outer && block != 0)
        block = source.g->blocks[block].parent;
    return block == outer;
}

/* The message must tell a layer of the block that could not be read, or of the one that it is part of. */
static bool names_block(const rig *r)
{
    const int32_t block = atomic_load(&source.failed_block);
    for (int32_t i = 0; i < source.n_tensors; i++) {
        char node[2 * BS_MAX_NAME + 2];
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
    flat_sleep(500);
    run(r, k, 0);
}

/* Runs until storage has failed; counts what is not as it should be. */
static int32_t faulty_runs(rig *r, kind k, const setup *s, bool told)
{
    int32_t wrong = 0, errors = 0;
    for (int32_t i = 0; i < RUNS; i++) {
        const bs_status status = run(r, k, i);
        errors += status != BS_OK;
        if (status == BS_OK
                ? !same(i)
                : status != BS_ERROR_IO || (told && source.fail_at && !names_block(r)) || !r->error.message[0])
            wrong += !fails(s, bs_status_name(status), i, r);
    }
    if (s->stream.speculation == BS_SPECULATE_OFF && source.fail_at && errors != (atomic_load(&source.failed) > 0))
        wrong += !fails(s, "a failed read is not one error", errors, r);
    flat_heal(&source);
    settle(r, k);
    for (int32_t i = 0; i < RUNS; i++)
        if (run(r, k, i) != BS_OK || !same(i))
            wrong += !fails(s, "wrong after the failure", i, r);
    return wrong;
}

static void test_failing_reads(kind k)
{
    bs_stream_plan facts;
    want(k, BS_F32);
    stream_bytes(&facts);
    for (int32_t way = 0; way < 4; way++) {
        const setup s = {.plan = {.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 8,
                                  .chunk_bytes = 4096,
                                  .lanes = 1 + way % 2},
                         .stream = {.speculation = way < 2 ? BS_SPECULATE_OFF : BS_SPECULATE_AUTO},
                         .platform = way == 2 ? &alone : NULL};
        rig r;
        int32_t wrong = 0, tried = 0, count = 1000;
        for (int32_t n = 0; n <= count && wrong == 0; n++) {
            if (!rig_start(&r, &s))
                exit(2);
            flat_heal(&source);
            if (n == 0) { /* how many there are */
                for (int32_t i = 0; i < RUNS; i++)
                    run(&r, k, i);
                count = atomic_load(&source.calls);
            }
            source.fail_at = n;
            wrong += faulty_runs(&r, k, &s, way == 0);
            source.fail_from = n;
            wrong += n > 0 ? faulty_runs(&r, k, &s, way == 0) : 0;
            tried += 2;
            bs_session_close(r.session);
        }
        check(wrong == 0 && count > 10,
              "%s: reads that fail, once or from then on, at %d places of %d are errors and nothing else (way %d) %s",
              kind_names[k], tried, count, way, wrong ? why : "");
    }
}

static void test_wrong_bytes(kind k)
{
    bs_stream_plan facts;
    rig r;
    int32_t heads = 0, flips = 0, wrong = 0, count = 1;
    want(k, BS_F32);
    stream_bytes(&facts);
    const setup s = {.plan = {.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 8,
                              .chunk_bytes = 4096,
                              .lanes = 2},
                     .stream = {.speculation = BS_SPECULATE_OFF, .check_records = 1}};
    if (!rig_start(&r, &s))
        exit(2);
    for (int32_t n = 0; n < 2 * count; n++) {
        bs_status seen = BS_OK;
        flat_heal(&source);
        source.wrong_head_at = n % 2 ? n / 2 : 0;
        source.flip_at = n % 2 ? 0 : n / 2;
        for (int32_t i = 0; i < RUNS; i++) {
            const bs_status status = run(&r, k, i);
            wrong += status == BS_OK ? !same(i) : status != BS_ERROR_FORMAT;
            seen = status != BS_OK ? status : seen;
        }
        if (n == 0)
            count = atomic_load(&source.calls) > 40 ? 40 : atomic_load(&source.calls);
        heads += n % 2 && seen != BS_OK;
        flips += n % 2 == 0 && seen != BS_OK;
    }
    bs_session_close(r.session);
    check(wrong == 0 && heads >= count / 4 && flips >= count / 2,
          "%s: heads of another block (%d) and bits that are flipped (%d of %d) are errors: %s", kind_names[k], heads,
          flips, count - 1, r.error.message);
}

static void test_closing(kind k)
{
    bs_stream_plan facts;
    int32_t wrong = 0;
    counting c;
    const bs_platform *platform = counting_init(&c);
    want(k, BS_F32);
    stream_bytes(&facts);
    for (int32_t i = 0; i < 12; i++) {
        const setup s = {.plan = {.slot_bytes = facts.least_bytes * 2,
                                  .chunk_bytes = 4096,
                                  .lanes = 1 + i % 3,
                                  .threads = 1 + i % 2},
                         .platform = platform};
        rig r;
        flat_heal(&source);
        source.delay_us = 4000;
        if (!rig_start(&r, &s))
            exit(2);
        for (int32_t turn = 0; turn < i % 3; turn++)
            wrong += run(&r, k, turn) != BS_OK || !same(turn);
        bs_session_close(r.session);
        wrong += atomic_load(&source.inside) != 0 || atomic_load(&c.threads) != 0 || atomic_load(&c.gates) != 0;
    }
    flat_heal(&source);
    check(wrong == 0, "%s: closed while reads are under way, nothing is left", kind_names[k]);
}

static void test_platform(void)
{
    bs_stream_plan facts;
    int32_t wrong = 0, n = 1;
    want(MOE, BS_F32);
    stream_bytes(&facts);
    const setup base = {.plan = {.slot_bytes = facts.least_bytes * 2, .lanes = 3, .threads = 3}};
    for (bool started = false; !started && n < 50; n++) {
        counting c;
        rig r;
        setup s = base;
        s.platform = counting_init(&c);
        c.fail_at = n;
        started = rig_start(&r, &s);
        if (started) {
            wrong += run(&r, MOE, 0) != BS_OK || !same(0);
            bs_session_close(r.session);
        } else {
            wrong += r.error.status != BS_ERROR_PLATFORM || !r.error.message[0] || r.memory.persistent.used ||
                     r.memory.slots.used || r.memory.staging.used;
        }
        wrong += atomic_load(&c.threads) != 0 || atomic_load(&c.gates) != 0;
    }
    check(wrong == 0 && n > 7,
          "gates and threads that cannot be made, at each of %d calls: an error, and nothing is left running", n - 2);
}

static void test_refused(void)
{
    bs_stream_plan facts;
    rig r;
    want(MOE, BS_F32);
    stream_bytes(&facts);
    setup s = {.plan = {.slot_bytes = facts.least_bytes}, .stream = {.policy = BS_POLICY_BELADY}};
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_ARGUMENT, "%s", r.error.message);
    s.stream = (bs_stream_desc){.speculation = 2};
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_ARGUMENT, "%s", r.error.message);
    s.stream = (bs_stream_desc){.policy = -1};
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_ARGUMENT, "%s", r.error.message);
    s.stream = (bs_stream_desc){0};
    for (int32_t b = 0; b < source.n_blocks; b++)
        source.records[b].bytes -= 4; /* the last weight reaches beyond */
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_FORMAT &&
              strstr(r.error.message, "do not lie in the record of block"),
          "%s", r.error.message);
    for (int32_t b = 0; b < source.n_blocks; b++)
        source.records[b].bytes += 4;
}

/* Delays, errors and all ways at once: for the thread sanitizer above all. */
static void test_storm(int32_t tries)
{
    for (kind k = 0; k < KINDS; k++) {
        bs_stream_plan facts;
        int32_t wrong = 0, errors = 0;
        want(k, BS_F32);
        stream_bytes(&facts);
        for (int32_t i = 0; i < tries && wrong == 0; i++) {
            const setup s = random_setup(&facts);
            rig r;
            flat_heal(&source);
            if (!rig_start(&r, &s)) {
                wrong += !fails(&s, "no session", 0, &r);
                break;
            }
            source.delay_us = 300;
            source.error_percent = check_below(2) ? check_below(12) : 0;
            for (int32_t turn = 0; turn < RUNS; turn++) {
                const bs_status status = run(&r, k, turn);
                errors += status != BS_OK;
                if (status == BS_OK ? !same(turn) : status != BS_ERROR_IO)
                    wrong += !fails(&s, bs_status_name(status), turn, &r);
            }
            bs_session_close(r.session);
        }
        flat_heal(&source);
        check(wrong == 0, "%s: slow storage that sometimes fails, %d times %d runs, %d errors %s", kind_names[k], tries,
              RUNS, errors, wrong ? why : "");
    }
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    alone = *bs_platform_default();
    alone.thread_start = NULL;
    for (kind k = 0; k < KINDS; k++) {
        test_same(k, 40);
        test_budgets(k);
        test_arenas(k);
        test_failing_reads(k);
        test_wrong_bytes(k);
        test_closing(k);
    }
    test_same(DEEP, 20);
    test_look_ahead();
    test_platform();
    test_refused();
    test_storm(15);
    return check_end();
}
