/* tags: asan tsan */
/* test_profile_ops.c - events of ops and tiles: every instruction that ran is told once, with its rows, within its run,
 * in tiles within its tile; they change no result; who did not ask for them has none; of short runs so many have them
 * that they take a hundredth of the time; a file's nodes are those of the graph, or are refused. */
#include "graph_rig.h"
#include "profile_synth.h"

enum { ROWS = 24, WIDTH = 8, RUNS = 3, HEADER = 64, ROUTER_BYTES = 72, NODE_BYTES = 184, MAX_NODES = 64 };

static float input[ROWS][WIDTH], plain[ROWS][WIDTH], timed[ROWS][WIDTH];
static BS_ALIGNED uint8_t tables[1 << 18];
static int runs = RUNS;
static const bs_platform *platform; /* of sessions; NULL: the default */
static bs_run_stats stats;          /* of the last session */

/* Rows go one of two ways by their elements; one way is a loop whose rows all make its three trips. */
static bs_graph *ways_net(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value none = {0}, x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)), none);
    const bs_value score = bs_slice(g, x, &(bs_slice_desc){.axis = 0, .start = 0, .length = 2});
    const bs_router route = bs_route(g, score, none, &(bs_route_desc){.name = "way", .paths = 2});
    bs_value out[2];
    bs_block_begin(g, "short");
    out[0] = bs_affine(g, bs_activation(g, bs_scatter(g, route, 0, x), BS_TANH, 0), 0.5f, 0.25f);
    bs_block_end(g);
    const bs_value y = bs_scatter(g, route, 1, x);
    const bs_router loop = bs_loop_begin(g, y, none, &(bs_loop_desc){.name = "trips", .bound = 3});
    const bs_value before = bs_loop_carry(g, loop, y);
    out[1] = bs_loop_next(g, loop, before, bs_affine(g, before, 0.75f, 0.125f));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, bs_gather(g, route, out, none, NULL)));
    return g;
}

static bool run_net(int32_t order, int32_t threads, bs_profile *profile, float to[ROWS][WIDTH], const bs_graph **graph)
{
    static BS_ALIGNED uint8_t memory[4][1 << 18];
    bs_graph *g = ways_net();
    bs_memory arenas;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena *const all[4] = {&arenas.persistent, &arenas.transient, &arenas.staging, &arenas.slots};
    for (int i = 0; i < 4; i++)
        bs_arena_init(all[i], "arena", memory[i], sizeof memory[i]);
    const bs_session_desc with = {.profile = profile, .platform = platform};
    const bs_plan_desc desc = {.order = order, .threads = threads, .no_fusion = 1};
    const bs_buffer from = {input, BS_F32, 2, {ROWS, WIDTH}, {0}}, result = {to, BS_F32, 2, {ROWS, WIDTH}, {0}};
    *graph = g;
    const bs_plan *plan = bs_plan_create(&arenas.persistent, NULL, g, &desc, &error);
    bs_session *s = plan ? bs_session_create(&arenas, plan, &with, &error) : NULL;
    bool good = s && bs_bind(s, "x", &from, &error) == BS_OK && bs_bind(s, "y", &result, &error) == BS_OK;
    for (int run = 0; run < runs && good; run++)
        good = bs_run(s, &error) == BS_OK;
    bs_session_stats(s, &stats);
    bs_session_close(s);
    return check(good, "%d runs: %s", runs, error.message);
}

static bs_profile *begin_profile(synth_bytes *bytes, int32_t ops)
{
    static BS_ALIGNED uint8_t persistent[4096], ring[1 << 20];
    bs_arena arena;
    const bs_profile_desc desc = {
        .write = synth_write, .user = bytes, .memory = ring, .bytes = sizeof ring, .ops = ops};
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    return bs_profile_create(&arena, &desc, NULL);
}

static bs_profile_reader *open_profile(const synth_bytes *bytes, bs_error *error)
{
    bs_arena arena;
    const bs_reader reader = synth_reader((synth_bytes *)(uintptr_t)bytes);
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    return bs_profile_open(&arena, &reader, error);
}

typedef struct counted {
    uint64_t ops, tiles, tile_rows, in_tiles, rows[MAX_NODES], calls[MAX_NODES], runs, outside, ops_ns, run_ns, sampled,
        all;
} counted;

/* Ops lie within their run, those of tiles within a tile of their thread: events of a thread come in order. */
static counted count(const synth_bytes *bytes)
{
    counted n = {0};
    bs_event e, last = {0};
    bs_error error;
    uint64_t open[64] = {0}, first[64], began = UINT64_MAX;
    memset(first, 0xff, sizeof first);
    bs_profile_reader *r = open_profile(bytes, &error);
    while (r && bs_profile_next(r, &e, &error)) {
        n.all++;
        if (e.kind == BS_EVENT_OP) {
            n.ops++;
            n.rows[e.subject] += e.value;
            n.calls[e.subject]++;
            began = e.start_ns < began ? e.start_ns : began;
            n.in_tiles += e.index == 1;
            n.ops_ns += e.end_ns - e.start_ns;
            if (e.index == 1) {
                open[e.thread]++;
                first[e.thread] = e.start_ns < first[e.thread] ? e.start_ns : first[e.thread];
            }
        } else if (e.kind == BS_EVENT_TILE) {
            n.tiles++;
            n.tile_rows += e.value;
            n.outside += open[e.thread] == 0 || first[e.thread] < e.start_ns;
            open[e.thread] = 0;
            first[e.thread] = UINT64_MAX;
        } else if (e.kind == BS_EVENT_RUN) {
            n.runs++;
            n.run_ns += e.end_ns - e.start_ns;
            n.sampled += began != UINT64_MAX;
            n.outside += began < e.start_ns;
            began = UINT64_MAX;
        }
        last = e;
    }
    check(r && error.status == BS_OK && last.kind == BS_EVENT_RUN, "the profile is sound: %s", error.message);
    return n;
}

static int32_t node_of(const bs_graph *g, const char *op)
{
    bs_node_facts facts;
    for (int32_t i = 1; bs_graph_node_get(g, i, &facts) == BS_OK; i++)
        if (strcmp(facts.op, op) == 0)
            return i;
    return 0;
}

static void test_nodes(const synth_bytes *bytes, const bs_graph *g)
{
    bs_error error;
    bs_profile_facts file = {0};
    bs_profile_reader *r = open_profile(bytes, &error);
    bs_profile_facts_get(r, &file);
    int32_t nodes = 0, same = 0, in_short = 0;
    bs_node_facts is;
    bs_profile_node_facts told;
    for (int32_t i = 1; bs_graph_node_get(g, i, &is) == BS_OK; i++) {
        nodes++;
        if (bs_profile_node_get(r, i, &told) != BS_OK)
            continue;
        same += strcmp(is.op, told.op) == 0 && strcmp(is.name, told.name) == 0 && is.router.id == told.router &&
                is.path == told.path && is.flops == told.flops && is.bytes == told.bytes &&
                is.weight_bytes == told.weight_bytes;
        in_short += strcmp(told.block, "short") == 0;
    }
    check(nodes == file.nodes && same == nodes && in_short == 3,
          "%d nodes, %d of them as the graph has them, %d of a block", nodes, same, in_short);
    check(bs_profile_node_get(r, 0, &told) == BS_ERROR_ARGUMENT &&
              bs_profile_node_get(r, nodes + 1, &told) == BS_ERROR_ARGUMENT &&
              bs_profile_node_get(NULL, 1, &told) == BS_ERROR_ARGUMENT &&
              bs_profile_node_get(r, 1, NULL) == BS_ERROR_ARGUMENT,
          "there are no others");
    const int32_t affine = node_of(g, "affine");
    bs_graph_node_get(g, affine, &is);
    check(is.kind == BS_ROWS_TENSOR && is.dtype == BS_F32 && is.rank == 1 && is.paths == 2 && is.flops == WIDTH &&
              is.bytes == 2 * WIDTH * sizeof(float) && is.weight_bytes == 0,
          "a row of 8: %g operations, %g bytes", is.flops, is.bytes);
}

static void test_ways(int32_t order, int32_t threads)
{
    synth_bytes bytes = {0}, none = {0};
    const bs_graph *g;
    uint64_t dropped = 1;
    bs_error error;
    bs_profile_facts file = {.nodes = 1};
    bs_profile *profile = begin_profile(&bytes, 2);
    if (!run_net(order, threads, profile, timed, &g))
        return;
    bs_profile_close(profile, &dropped);
    const counted n = count(&bytes);
    check(dropped == 0 && n.runs == RUNS && n.outside == 0, "%s, %d threads: %d events lie outside",
          order == BS_ORDER_DEPTH ? "depth" : "breadth", threads, (int)n.outside);
    const int32_t affine = node_of(g, "affine"), tanh = node_of(g, "activation"), route = node_of(g, "route");
    check(n.rows[affine] == n.rows[tanh] && n.rows[affine] > 0 && n.rows[affine] < (uint64_t)RUNS * ROWS &&
              n.calls[route] > 0,
          "rows of a path are told: %d of %d", (int)n.rows[affine], RUNS * ROWS);
    check((n.tiles > 0) == (n.in_tiles > 0), "%d ops in %d tiles of %d rows", (int)n.in_tiles, (int)n.tiles,
          (int)n.tile_rows);
    check(threads > 1 || n.ops_ns <= n.run_ns, "of one thread all ops take no longer than the runs");
    test_nodes(&bytes, g);

    profile = begin_profile(&none, 0);
    if (!run_net(order, threads, profile, plain, &g))
        return;
    bs_profile_close(profile, NULL);
    const counted without = count(&none);
    bs_profile_facts_get(open_profile(&none, &error), &file);
    check(without.ops == 0 && without.tiles == 0 && file.nodes == 0 && none.data[4] == 1 && bytes.data[4] == 2,
          "who does not ask for ops has a file as before");
    check(memcmp(plain, timed, sizeof plain) == 0, "the same bytes with events and without");
    synth_free(&bytes);
    synth_free(&none);
}

/* ------------------------------------------------------------------------------------------------------ sampling */

static uint64_t ticks, tick_ns;

static uint64_t next_tick(void *user) { return (void)user, ticks += tick_ns; }

/* Runs on one thread whose clock goes on by `ns` whenever it is read. */
static bool run_ticking(int32_t order, uint64_t ns, bs_profile *profile)
{
    const bs_graph *g;
    bs_platform ticking = *bs_platform_default();
    ticking.clock_ns = next_tick;
    tick_ns = ns;
    platform = &ticking;
    const bool good = run_net(order, 1, profile, timed, &g);
    platform = NULL;
    return good;
}

static void test_routing_time(void)
{
    check(run_ticking(BS_ORDER_BREADTH, 1000, NULL) && stats.routing_ns == 1000 && stats.total_ns > 1000,
          "of a run's time the decision is told, and not the trips of a loop: %d ns of %d", (int)stats.routing_ns,
          (int)stats.total_ns);
}

static counted sample(int32_t ops, int32_t order, uint64_t ns)
{
    synth_bytes bytes = {0};
    counted n = {0};
    bs_profile *profile = begin_profile(&bytes, ops);
    runs = 400;
    if (run_ticking(order, ns, profile)) {
        bs_profile_close(profile, NULL);
        n = count(&bytes);
    }
    runs = RUNS;
    synth_free(&bytes);
    return n;
}

static void test_samples(int32_t order)
{
    const counted every = sample(2, order, 1000), some = sample(1, order, 1000), slow = sample(1, order, 20000);
    const uint64_t of_a_run = every.all / 400;
    check(every.sampled == 400 && slow.sampled == 400, "long runs have ops, others if asked: %d, %d",
          (int)slow.sampled, (int)every.sampled);
    check(some.runs == 400 && some.sampled >= 2 && some.outside == 0, "%d of %d short runs have ops", (int)some.sampled,
          (int)some.runs);
    check((some.ops + some.tiles) * 400 == some.sampled * (every.ops + every.tiles), "a run has all its ops or none");
    check((some.sampled - 1) * of_a_run * 16000 <= some.run_ns && (some.sampled + 1) * of_a_run * 16000 >= some.run_ns,
          "%d runs of %d events in %d us take a hundredth", (int)some.sampled, (int)of_a_run,
          (int)(some.run_ns / 1000));
}

/* ------------------------------------------------------------------------------------------------ hostile files */

static void damaged(synth_bytes *b, size_t at, uint64_t value, size_t bytes, const char *says)
{
    uint8_t kept[8];
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    memcpy(kept, b->data + at, bytes);
    memcpy(b->data + at, &value, bytes);
    check(!open_profile(b, &error) && error.status == BS_ERROR_FORMAT && strstr(error.message, says), "%s: %s", says,
          error.message);
    memcpy(b->data + at, kept, bytes);
}

static void test_damages(void)
{
    synth_bytes b = {0};
    const bs_graph *g;
    bs_error error;
    bs_event e;
    bs_profile *profile = begin_profile(&b, 1);
    if (!run_net(BS_ORDER_AUTO, 1, profile, timed, &g))
        return;
    bs_profile_close(profile, NULL);
    bs_profile_facts file = {0};
    bs_profile_facts_get(open_profile(&b, &error), &file);
    const size_t nodes = HEADER + (size_t)file.routers * ROUTER_BYTES, second = nodes + NODE_BYTES,
                 events = nodes + (size_t)file.nodes * NODE_BYTES;
    damaged(&b, second, 0x1b, 1, "node 2");
    damaged(&b, second + BS_MAX_NAME, 0xff, 1, "node 2");
    damaged(&b, second + 2 * BS_MAX_NAME, 7, 1, "node 2");
    damaged(&b, second + 152, 77, 4, "node 2 is of path 0 of router 77");
    damaged(&b, second + 156, 1, 4, "node 2 is of path 1 of router 0");
    damaged(&b, second + 160, 0x7ff8000000000000u, 8, "node 2");
    damaged(&b, second + 168, 0xbff0000000000000u, 8, "node 2");
    damaged(&b, second + 176, 0x7ff0000000000000u, 8, "node 2");
    damaged(&b, 56, (uint64_t)1 << 20, 4, "tables take");
    for (size_t cut = nodes; cut < events; cut += 61) {
        synth_bytes shorter = b;
        shorter.n = cut;
        check(!open_profile(&shorter, &error), "cut within its nodes");
    }
    static const struct { int32_t kind, subject, index; } wrong[] = {
        {BS_EVENT_OP, 0, 0}, {BS_EVENT_OP, MAX_NODES * 99, 0}, {BS_EVENT_OP, 1, 2}, {BS_EVENT_TILE, 0, 1},
        {BS_EVENT_TILE, 1, 2}, {BS_EVENT_TILE, 9, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const bs_event bad = synth_event((bs_event_kind)wrong[i].kind, wrong[i].subject, wrong[i].index, 1, 5, 6);
        memcpy(b.data + events, &bad, sizeof bad);
        bs_profile_reader *r = open_profile(&b, &error);
        check(r && !bs_profile_next(r, &e, &error) && error.status == BS_ERROR_FORMAT, "event %d of %d, %d: %s",
              wrong[i].kind, wrong[i].subject, wrong[i].index, error.message);
    }
    synth_free(&b);
}

int main(void)
{
    check_seed(11);
    for (int i = 0; i < ROWS * WIDTH; i++)
        input[i / WIDTH][i % WIDTH] = check_float();
    test_ways(BS_ORDER_BREADTH, 1);
    test_ways(BS_ORDER_DEPTH, 1);
    test_ways(BS_ORDER_DEPTH, 3);
    test_ways(BS_ORDER_BREADTH, 3);
    test_routing_time();
    test_samples(BS_ORDER_BREADTH);
    test_samples(BS_ORDER_DEPTH);
    test_damages();
    return check_end();
}
