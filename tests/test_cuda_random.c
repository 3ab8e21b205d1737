/* tags: asan */
/* test_cuda_random.c - graphs grown at random (random_graph.h), run on the device against their definition (naive.h):
 * any order, patch size, forced routes, launch mode, extents that change, strided buffers, states, streamed weights.
 * All numbers are small and whole, so that f32 must agree to the bit.
 * test_cuda_random [seed [graphs]] */
#define _POSIX_C_SOURCE 200809L /* nanosleep, in flat_source.h */
#include "random_graph.h"
#include "against.h"
#include "flat_source.h"

static random_graph rg;
static net_table weights;
static against a;
static flat_source source;

typedef struct coverage {
    int32_t graphs, plans, regions, mixed, in_tile, breadth, streamed, rounds, uses, lowered[BS_LAUNCH_COUNT];
} coverage;

static bs_graph *new_graph(void)
{
    static _Alignas(64) uint8_t memory[4 << 20];
    bs_arena arena;
    bs_arena_init(&arena, "graph", memory, sizeof memory);
    return bs_graph_create(&arena, NULL);
}

static bs_plan_desc random_desc(const bs_graph *g, int32_t turn)
{
    bs_plan_desc d = {.tier = BS_TIER_CUDA};
    d.order = turn % 3;
    d.launch_mode = check_below(BS_LAUNCH_COUNT);
    d.in_place = rg_flip(30);
    d.no_fusion = g->n_nodes % 4 == 0; /* draws nothing */
    d.patch_size = rg_flip(30) ? 4 * (1 + check_below(4)) : 0;
    d.shared_bytes = rg_flip(50) ? BS_DEVICE_SHARED + 256 * check_below(40) : 0;
    for (int32_t r = 1; r < g->n_routers && d.n_forces < 2; r++)
        if (!bs_router_loops(g, r) && rg_flip(10))
            d.forces[d.n_forces++] = (bs_force){g->routers[r].desc->name, check_below(g->routers[r].desc->paths)};
    return d;
}

/* Two runs of two sizes each, the second ones from strided buffers. */
static bool runs_agree(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    int64_t extent[3];
    memset(&a, 0, sizeof a);
    a.oracle.callback = rg_callback;
    static int32_t paths[TEST_ROUTERS];
    for (int32_t k = 1; k < g->n_routers; k++) {
        paths[k] = g->routers[k].desc->paths;
        bs_set_route(r->session, g->routers[k].desc->name, rg_callback_run, &paths[k], NULL);
    }
    for (int32_t run = 0; run < 5; run++) {
        if (run == 0 || run == 3) {
            const bool largest = run == 0 && rg_flip(30);
            extent[0] = largest ? 40 : 1 + check_below(40);
            extent[1] = largest ? 26 : 1 + check_below(26);
            extent[2] = largest ? 21 : 1 + check_below(21);
        }
        a.strided = run == 4;
        against_inputs(&a, g, &weights.table, d, extent);
        if (!against_run(&a, r->session))
            return false;
        if (!rig_intact(r)) {
            snprintf(a.why, sizeof a.why, "bytes outside the arenas were written");
            return false;
        }
    }
    return true;
}

static bool plan_somehow(rig *r, const bs_graph *g, bs_plan_desc *d)
{
    if (rig_plan(r, g, d))
        return true;
    d->patch_size = 0;
    return r->error.status == BS_ERROR_LIMIT && rig_plan(r, g, d);
}

/* A session on a device with exactly the bytes that were planned. */
static bool run_on_device(rig *r, const bs_graph *g, const bs_plan_desc *d, const bs_session_desc *with, coverage *c)
{
    static _Alignas(64) uint8_t memory[1024];
    bs_arena arena;
    bs_sizes sizes;
    bs_session_desc desc = *with;
    bs_plan_sizes(r->plan, &sizes);
    const bs_cuda_desc open = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    bs_arena_init(&arena, "device", memory, sizeof memory);
    desc.device = bs_cuda_open(&arena, &open, &r->error);
    if (!desc.device || !rig_start(r, &desc, 0xFF)) {
        snprintf(a.why, sizeof a.why, "no session: %.200s", r->error.message);
        bs_cuda_close(desc.device);
        return false;
    }
    const bool ok = runs_agree(r, g, d);
    bs_stream_stats stats;
    bs_session_stream_stats(r->session, &stats);
    c->uses += (int32_t)(stats.hits + stats.late + stats.misses);
    bs_session_close(r->session);
    bs_cuda_close(desc.device);
    return ok;
}

static bool has_units_in_loops(const bs_plan *p)
{
    bool has = false;
    for (int32_t u = 1; u < p->n_units; u++)
        has = has || p->graph->domains[p->graph->nodes[p->units[u].node].domain].loop;
    return has;
}

static void count_plan(coverage *c, const bs_plan *p)
{
    c->plans++;
    c->regions += p->n_regions > 0;
    c->breadth += p->n_regions == 0;
    for (int32_t d = 1; d < p->graph->n_domains; d++)
        c->mixed += p->domains[d].mixed && p->domains[d].order == BS_ORDER_DEPTH;
    c->lowered[p->desc.launch_mode]++;
    for (int32_t r = 1; r < p->graph->n_routers; r++)
        c->in_tile += p->routers[r].live && p->routers[r].in_tile;
}

static bool try_graph(const bs_graph *g, coverage *c)
{
    for (int32_t turn = 0; turn < 3; turn++) {
        bs_plan_desc d = random_desc(g, turn);
        rig r;
        bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
        if (!plan_somehow(&r, g, &d)) {
            snprintf(a.why, sizeof a.why, "no plan: %.200s", r.error.message);
            return false;
        }
        count_plan(c, r.plan);
        if (run_on_device(&r, g, &d, &with, c))
            continue;
        printf("  order %d, launch mode %s, patches of %d, %d forced, %d shared bytes\n", d.order,
               bs_launch_mode_name((bs_launch_mode)d.launch_mode), d.patch_size, d.n_forces, d.shared_bytes);
        return false;
    }
    return true;
}

static bool try_streamed(const bs_graph *g, coverage *c)
{
    rig r;
    bs_plan_desc d = random_desc(g, check_below(3));
    bs_stream_plan facts;
    d.slot_bytes = 1u << 30;
    if (!plan_somehow(&r, g, &d))
        return false;
    bs_plan_stream_get(r.plan, &facts);
    if (facts.units == 0)
        return true;
    d.slot_bytes = facts.least_bytes +
                   (rg_flip(50) ? (uint64_t)check_below((int32_t)(facts.all_bytes - facts.least_bytes) + 1) : 0);
    d.lanes = 1 + check_below(4);
    d.chunk_bytes = rg_flip(50) ? 64 : 0;
    flat_init(&source, g, &weights.table, rg_flip(70) ? BS_F32 : rg_flip(50) ? BS_F16 : BS_BF16);
    bs_session_desc with = {.weights = flat_weights(&source, rg_flip(50) ? 1 : 512)};
    with.stream.policy = check_below(BS_POLICY_BELADY);
    with.stream.speculation = check_below(2);
    if (!rig_plan(&r, g, &d)) {
        snprintf(a.why, sizeof a.why, "streamed, no plan: %.200s", r.error.message);
        return false;
    }
    c->streamed++;
    c->rounds += has_units_in_loops(r.plan);
    if (run_on_device(&r, g, &d, &with, c))
        return true;
    printf("  streamed: order %d, %d lanes, %d slots of %d\n", d.order, d.lanes, (int)d.slot_bytes,
           (int)facts.all_bytes);
    return false;
}

static void test_random_graphs(uint64_t seed, int32_t count, const char *rows)
{
    coverage c = {0};
    int32_t wrong = 0;
    for (int32_t i = 0; i < count && wrong < 5; i++) {
        check_state = check_mixed(seed + (uint64_t)i);
        bs_graph *g = new_graph();
        if (!rg_grow(&rg, g, &weights, 10 + check_below(40)))
            continue;
        c.graphs++;
        if (try_graph(g, &c) && try_streamed(g, &c))
            continue;
        printf("  graph %llu, N %d, H %d, W %d: %s\n", (unsigned long long)(seed + (uint64_t)i), (int)a.extent[0],
               (int)a.extent[1], (int)a.extent[2], a.why);
        fflush(stdout);
        wrong++;
    }
    check(wrong == 0, "%d random graphs with %s give on the device what their definition gives", c.graphs, rows);
    printf(
        "  plans %d: with regions %d, without %d, mixed %d, decisions in tiles %d, streamed %d with %d uses; "
        "launch modes %d %d %d %d\n",
        c.plans, c.regions, c.breadth, c.mixed, c.in_tile, c.streamed, c.uses, c.lowered[0], c.lowered[1], c.lowered[2],
        c.lowered[3]);
    check(c.regions && c.breadth && c.streamed && c.uses && (c.rounds || !rg_loops),
          "they reach both orders, and streaming, in loops %d", c.rounds);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const int32_t count = argc > 2 ? atoi(argv[2]) : 24;
    printf("seed %llu\n", (unsigned long long)seed);
    test_random_graphs(seed * 1000, count, "rows and patches");
    rg_segments = true;
    test_random_graphs(seed * 1000 + 500000, count / 2, "segments");
    rg_segments = false;
    rg_boxes = true;
    test_random_graphs(seed * 1000 + 600000, count / 4, "boxes");
    rg_boxes = false;
    rg_loops = true;
    test_random_graphs(seed * 1000 + 700000, count, "loops");
    rg_segments = true;
    test_random_graphs(seed * 1000 + 950000, count / 2, "segments in loops");
    rg_segments = false;
    rg_trees = true;
    test_random_graphs(seed * 1000 + 800000, count / 2, "trees");
    return check_end();
}
