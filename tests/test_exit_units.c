/* tags: asan tsan */
/* Promises: stages behind exits are loaded one by one: a network with five exits, one behind another, runs in slots of
 * 40 % of its weights, gives the bytes that it gives with all of them, and reads what its rows need and little more; of
 * stages that no row comes to nothing is waited for. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "store_rig.h"

enum { DEPTH = 5, ROWS = 12, SIDE = 6, CHANNELS = 8 };

static const bs_value none = {0};
static float depths[ROWS], images[ROWS * CHANNELS * SIDE * SIDE], classes[ROWS * 10], right[ROWS * 10];

static bs_value stage_of(bs_graph *g, bs_value x, int32_t stage)
{
    const char *a = name_of("stage", stage, "a", -1), *b = name_of("stage", stage, "b", -1);
    const bs_value h = bs_conv2d(g, x, &(bs_conv2d_desc){.name = a, .out = 24, .act = BS_RELU});
    return bs_conv2d(g, h, &(bs_conv2d_desc){.name = b, .out = CHANNELS, .act = BS_RELU});
}

static bs_value head_of(bs_graph *g, bs_value x, int32_t stage)
{
    const bs_value pooled = bs_pool2d(g, x, &(bs_pool2d_desc){.kind = BS_POOL_AVERAGE, .global = 1});
    return bs_linear(g, pooled, &(bs_linear_desc){.name = name_of("head", stage, "", -1), .out = 10});
}

/* A row leaves at the exit that its depth says, or at the end. */
static bs_value behind(bs_graph *g, bs_value x, bs_value depth, int32_t stage)
{
    const bs_value f = stage_of(g, x, stage);
    if (stage == DEPTH)
        return head_of(g, f, stage);
    const bs_router r = bs_route(g, bs_affine(g, depth, -1, 0), none,
                                 &(bs_route_desc){.name = name_of("exit", stage, "", -1),
                                                  .protocol = BS_ROUTE_BINARY,
                                                  .paths = 2,
                                                  .threshold = -(float)stage});
    bs_value out[2];
    bs_block_begin(g, name_of("leave", stage, "", -1));
    out[0] = head_of(g, bs_scatter(g, r, 0, f), stage);
    bs_block_end(g);
    bs_block_begin(g, name_of("after", stage, "", -1));
    out[1] = behind(g, bs_scatter(g, r, 1, f), bs_scatter(g, r, 1, depth), stage + 1);
    bs_block_end(g);
    return bs_gather(g, r, out, none, NULL);
}

static bs_graph *network(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, &(bs_graph_desc){.max_nodes = 256, .max_values = 256});
    const bs_dim n = bs_symbol(g, "N", ROWS);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE4(n, CHANNELS, SIDE, SIDE)), none);
    const bs_value depth = bs_rows(g, bs_input(g, "depth", BS_F32, BS_SHAPE2(n, 1)), none);
    bs_block_begin(g, "begin");
    const bs_value y = behind(g, x, depth, 0);
    bs_block_end(g);
    bs_output(g, "y", bs_collect(g, y));
    return g;
}

static bool run_rows(rig *r, float *y)
{
    const bs_buffer in = {images, BS_F32, 4, {ROWS, CHANNELS, SIDE, SIDE}, {0}},
                    how = {depths, BS_F32, 2, {ROWS, 1}, {0}}, out = {y, BS_F32, 2, {ROWS, 10}, {0}};
    return bs_bind(r->session, "x", &in, &r->error) == BS_OK &&
           bs_bind(r->session, "depth", &how, &r->error) == BS_OK &&
           bs_bind(r->session, "y", &out, &r->error) == BS_OK && bs_run(r->session, &r->error) == BS_OK;
}

/* Rows leave at the exits from `first` on, `all` of them there. */
static void set_depths(int32_t first, bool all)
{
    for (int32_t i = 0; i < ROWS; i++)
        depths[i] = (float)(all ? first : (first + i) % (DEPTH + 1));
}

static bool wants(void)
{
    rig r;
    const setup resident = {.plan = {.threads = 1}};
    const bool ok = rig_start(&r, &resident) && run_rows(&r, right);
    if (!ok)
        printf("  resident: %s\n", r.error.message);
    bs_session_close(r.session);
    return ok;
}

/* Bytes of storage of the units that rows need which go to stage `last` at most, all exits on the way included. */
static uint64_t needed_bytes(const rig *r, int32_t last, bool exits)
{
    uint64_t bytes = 0;
    bs_stream_unit_facts facts;
    for (int32_t u = 0; bs_plan_unit_get(r->plan, u, &facts) == BS_OK; u++) {
        const int32_t stage = facts.path < 0 ? -1 : facts.name[5] - '0';
        const bool needed = facts.path < 0 || (facts.path == 1 ? stage < last : stage == last || exits);
        for (int32_t n = 1; needed && n < source.g->n_nodes; n++) {
            const bs_node_plan *p = &r->plan->nodes[n];
            if (p->unit == u + 1 && p->owner == n)
                bytes += bs_bytes_figure(bs_plan_canonical_bytes(source.g, &source.g->nodes[n]));
        }
    }
    return bytes;
}

static uint64_t slots_of_40_percent(void)
{
    bs_stream_plan facts;
    stream_bytes(&facts);
    check(facts.units == 1 + 2 * DEPTH && 10 * facts.least_bytes <= 4 * facts.all_bytes,
          "the first stage, and %d exits and stages behind them: %d units, of %llu bytes at most of %llu", DEPTH,
          facts.units, (unsigned long long)facts.least_bytes, (unsigned long long)facts.all_bytes);
    return facts.all_bytes * 2 / 5;
}

static void test_reads(uint64_t slots, bool guesses)
{
    for (int32_t last = 0; last <= DEPTH; last++) {
        rig r;
        bs_stream_stats s;
        const setup how = {.plan = {.slot_bytes = slots, .threads = 1, .chunk_bytes = 4096},
                           .stream = {.speculation = guesses ? BS_SPECULATE_AUTO : BS_SPECULATE_OFF},
                           .platform = guesses ? NULL : &alone};
        set_depths(last, true);
        bool ok = wants() && rig_start(&r, &how) && run_rows(&r, classes);
        ok = ok && memcmp(classes, right, sizeof right) == 0;
        bs_session_stream_stats(r.session, &s);
        const uint64_t needed = needed_bytes(&r, last, false), loads = (uint64_t)(last < DEPTH ? last + 2 : DEPTH + 1);
        check(ok && s.bytes_read - s.bytes_wasted <= needed + needed / 10 && s.misses + s.late + s.hits == loads,
              "all leave at %d: the same bytes, %llu read of %llu needed, %llu guessed for nothing; %d units used",
              (int)last, (unsigned long long)s.bytes_read, (unsigned long long)needed,
              (unsigned long long)s.bytes_wasted, (int)(s.misses + s.late + s.hits));
        bs_session_close(r.session);
    }
}

/* Rows that went to the end make the store guess; of those that leave at the first exit none waits for a stage behind
 * it, and what was guessed for them is counted. */
static void test_guesses(uint64_t slots)
{
    rig r;
    bs_stream_stats before, after = {0};
    const setup how = {.plan = {.slot_bytes = slots, .threads = 1, .chunk_bytes = 4096}};
    bool ok = rig_start(&r, &how);
    int32_t waited = 0;
    atomic_store(&source.delay_us, 100);
    for (int32_t run = 0; ok && run < 24; run++) {
        const bool leaves = run % 8 > 5;
        bs_session_stream_stats(r.session, &before);
        set_depths(leaves ? 0 : DEPTH, true);
        ok = run_rows(&r, classes);
        bs_session_stream_stats(r.session, &after);
        const uint64_t uses = after.misses + after.late + after.hits;
        waited += leaves ? (int32_t)(uses - before.misses - before.late - before.hits) : 0;
    }
    atomic_store(&source.delay_us, 0);
    check(ok && waited == 6 * 2, "runs that leave at the first exit use two units each: %d in 6 runs", waited);
    check(ok && after.guessed_loads + after.dropped > 0,
          "though others were guessed: %d, %d dropped, %llu bytes wasted", (int)after.guessed_loads,
          (int)after.dropped, (unsigned long long)after.bytes_wasted);
    bs_session_close(r.session);
}

/* Rows that leave everywhere, run after run, in any slots. */
static void test_mixed(uint64_t slots)
{
    rig r;
    bs_stream_plan facts;
    bool ok = true;
    stream_bytes(&facts);
    for (uint64_t bytes = facts.least_bytes; ok && bytes <= facts.all_bytes; bytes += facts.all_bytes / 9) {
        const setup how = {.plan = {.slot_bytes = bytes, .threads = 2, .lanes = 2, .chunk_bytes = 4096}};
        if (!rig_plan(&r, &how) || !rig_session(&r, &how, -1, 0))
            ok = false;
        for (int32_t run = 0; ok && run < 8; run++) {
            set_depths(run, run % 3 == 0);
            ok = run_rows(&r, classes);
        }
        bs_session_close(r.session);
    }
    check(ok, "rows that leave everywhere run in any slots, of 40 %% as well (%llu)", (unsigned long long)slots);
    set_depths(0, false);
    const setup small = {.plan = {.slot_bytes = slots, .threads = 1}};
    ok = wants() && rig_start(&r, &small);
    for (int32_t run = 0; ok && run < 4; run++)
        ok = run_rows(&r, classes) && memcmp(classes, right, sizeof right) == 0;
    check(ok, "and give the same bytes, run after run");
    bs_session_close(r.session);
}

/* Tiles wait for a path whole: there the paths inside are no units. */
static void test_orders(void)
{
    rig r;
    bs_stream_plan facts;
    const setup deep = {.plan = {.slot_bytes = 1u << 30, .order = BS_ORDER_DEPTH}};
    const bool ok = rig_plan(&r, &deep);
    bs_plan_stream_get(r.plan, &facts);
    check(ok && facts.units == 3, "in tiles the paths of the first exit are units, whole: %d", facts.units);
}

int main(int argc, char **argv)
{
    store_begin(argc, argv);
    for (int32_t i = 0; i < ROWS * CHANNELS * SIDE * SIDE; i++)
        images[i] = (float)(flat_dice((uint32_t)i) >> 8) / 8388608.0f - 1.0f;
    flat_init(&source, network(), NULL, BS_F32);
    if (!check(bs_graph_check(source.g, NULL) == BS_OK, "the network is built"))
        return check_end();
    const uint64_t slots = slots_of_40_percent();
    test_reads(slots, false);
    test_reads(slots, true);
    test_guesses(slots);
    test_mixed(slots);
    test_orders();
    return check_end();
}
