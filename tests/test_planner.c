/* tags: unsigned tsan 32-bit optimized */
/* Promises: what is alive together never shares bytes, and whatever the order, the threads, the patches or what memory
 * held before, a run of a random graph gives what the graph's definition gives, with weights that stay and that come
 * and go. A net that is known: test_plan_desc.c. */
#define _POSIX_C_SOURCE 200809L
#include "random_graph.h"
#include "against.h"
#include "budget.h"
#include "flat_source.h"
#include "plan_watch.h"

static net_table weights;
static random_graph rg;
static against a;
static flat_source source;
static _Alignas(64) uint8_t graph_memory[1 << 20];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

/* What the random graphs and their plans held: a generator that stops making something must not go unnoticed. */
typedef struct coverage {
    int32_t graphs, refused, plans, sound, moved, noticed, regions, in_tile, torn, in_place, frames, loads, packed,
        fills, slabs, forced, sizes, streamed, uses, makers, kept, counted, loops, nested, looping_tiles, looping_units,
        looping_paths, tiled_units, rounds, turns, grown, around, updates, parted, looped, lifted, higher, miscounted,
        sunk, merged;
} coverage;

static void count_plan(coverage *c, const bs_plan *p)
{
    const bs_graph *g = p->graph;
    c->plans++;
    c->regions += p->n_regions > 0;
    for (int32_t r = 1; r < g->n_routers; r++)
        c->in_tile += p->routers[r].live && p->routers[r].in_tile;
    for (int32_t r = 1; r < g->n_routers; r++) {
        const bool loops = p->routers[r].live && bs_router_loops(g, r);
        c->loops += loops;
        c->nested += loops && g->domains[g->routers[r].domain].loop;
        c->looping_tiles += loops && p->routers[r].in_tile;
        c->turns += loops && g->routers[r].loop.in_turn;
        c->grown += loops && g->routers[r].loop.grows;
    }
    for (int32_t d = 1; d < g->n_domains && p->desc.order == BS_ORDER_DEPTH; d++)
        if (g->domains[d].kind != BS_DOMAIN_PATH && p->domains[d].order == BS_ORDER_BREADTH) {
            c->torn++;
            break;
        }
    for (int32_t v = 1; v < g->n_values; v++) {
        const bool made = bs_node_is(&g->nodes[g->values[v].node], &bs_op_assemble);
        c->in_place += made && p->values[v].storage == BS_STORAGE_STATE;
        c->frames += p->values[v].storage == BS_STORAGE_FRAME;
        for (int32_t u = 1; u < v && p->values[v].storage == BS_STORAGE_TRANSIENT; u++)
            c->slabs += p->values[u].storage == BS_STORAGE_TRANSIENT && shares_slab(p, u, v);
    }
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        const bool moves = instr->kind == BS_INSTR_MOVE;
        c->loads += moves && instr->map == BS_MAP_VIEW;
        c->packed += moves && instr->map == BS_MAP_PATHS;
        c->fills += moves && (instr->combine == BS_COMBINE_RESIDUAL || instr->combine == BS_COMBINE_ZERO);
    }
    for (int32_t n = 1; n < g->n_nodes; n++)
        c->makers += p->node_live[n] && g->nodes[n].makes;
    for (int32_t n = 1; n < g->n_nodes; n++)
        c->kept += p->node_live[n] && strcmp(bs_op_get(g->nodes[n].op)->name, "nms") == 0;
    for (int32_t v = 1; v < g->n_values; v++)
        c->updates += p->values[v].storage == BS_STORAGE_VIEW && !bs_node_is_view(&g->nodes[g->values[v].node]);
    for (int32_t n = 1; n < g->n_nodes; n++)
        c->around += p->node_live[n] && strcmp(bs_op_get(g->nodes[n].op)->name, "loop_rows") == 0;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_domain *d = &g->domains[g->values[bs_node_in(g, &g->nodes[n])[0]].domain];
        if (!p->node_live[n] || bs_op_get(g->nodes[n].op)->rows.of != BS_ROWS_SEGMENT || d->kind != BS_DOMAIN_PATH)
            continue;
        c->parted += d->loop == 0;
        c->looped += d->loop != 0;
    }
    for (int32_t v = 1; v < g->n_values; v++) {
        const int32_t n = g->values[v].node;
        const bool between = g->values[v].number == g->values[v - 1].number && p->node_live[n];
        const bool scatter = bs_node_is(&g->nodes[n], &bs_op_scatter);
        c->lifted += between && !scatter;
        c->higher += between && scatter;
    }
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_op *op = bs_node_op(&g->nodes[n]);
        c->miscounted += !bs_op_is_structural(op) && g->nodes[n].n_out != 1 + (int32_t)op->more_out;
    }
    for (int32_t n = 1; n < g->n_nodes; n++) {
        c->sunk += g->domains[g->nodes[n].built_in].depth < g->domains[g->nodes[n].domain].depth;
        c->merged += g->nodes[n].merged;
    }
    for (int32_t d = 1; d < g->n_domains; d++)
        c->counted += p->domains[d].live && bs_domain_maker(g, d);
    c->forced += p->desc.n_forces > 0;
    c->sizes += p->desc.patch_size > 0;
}

static bs_plan_desc random_desc(const bs_graph *g, int32_t turn)
{
    bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = turn % 3, .threads = 1 + check_below(4)};
    if (turn % 3 == 0)
        d.order = rg_flip(70) ? BS_ORDER_DEPTH : BS_ORDER_AUTO;
    d.no_dataflow = rg_flip(25);
    d.no_fusion = (g->n_nodes + d.order) % 4 == 0; /* draws nothing */
    rg_choose(&d, g);
    return d;
}

static void random_extents(int64_t *extent, bool largest)
{
    extent[0] = largest ? 40 : 1 + check_below(40);
    extent[1] = largest ? 26 : 1 + check_below(26);
    extent[2] = largest ? 21 : 1 + check_below(21);
}

/* Two runs of two sizes, over three kinds of paint. */
static bool runs_agree(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    static const int32_t paint[4] = {0xFF, 0x7F, 0x00, 0x3A};
    int64_t extent[3];
    memset(&a, 0, sizeof a);
    a.oracle.callback = rg_callback;
    rg_set_callbacks(r->session, g);
    for (int32_t run = 0; run < 4; run++) {
        if (run % 2 == 0)
            random_extents(extent, run == 0 && rg_flip(50));
        a.strided = run == 1;
        against_inputs(&a, g, &weights.table, d, extent);
        memset(r->transient, paint[run], (size_t)r->sizes.transient);
        if (!against_run(&a, r->session))
            return false;
        if (!rig_intact(r)) {
            snprintf(a.why, sizeof a.why, "bytes outside the arenas were written");
            return false;
        }
    }
    return true;
}

/* A cell tensor that collects a row a patch may be too short for smaller patches: then the graph's own size will do. */
static bool plan_somehow(rig *r, const bs_graph *g, bs_plan_desc *d)
{
    if (rig_plan(r, g, d))
        return true;
    d->patch_size = 0;
    return r->error.status == BS_ERROR_LIMIT && rig_plan(r, g, d);
}

/* Units whose weights are in bodies of loops, of all rows or in tiles, of paths in bodies; plans whose phases were
 * visited more often than there were runs. */
static void count_rounds(coverage *c, const bs_plan *p, uint64_t visits)
{
    for (int32_t u = 1; u < p->n_units; u++) {
        const bs_domain *d = &p->graph->domains[p->graph->nodes[p->units[u].node].domain];
        c->looping_units += d->loop != 0;
        c->looping_paths += d->loop != 0 && d->routed != 0 && d->outermost == 0;
    }
    for (int32_t k = 0; k < p->n_parts; k++)
        for (int32_t i = p->parts[k].first; i < p->parts[k].first + p->parts[k].count; i++)
            c->tiled_units += p->parts[k].unit && p->nodes[p->instrs[i].node].unit == p->parts[k].unit &&
                              p->graph->domains[p->instrs[i].domain].loop;
    c->rounds += visits > 4 * (uint64_t)p->n_phases;
}

/* The same graph with weights that come and go: any slots, policy, lanes and threads. Without blocks there is nothing
 * to do. */
static bool try_streamed(const bs_graph *g, coverage *c)
{
    rig r;
    bs_plan_desc d = random_desc(g, check_below(3));
    bs_stream_plan facts;
    const bs_stream_desc stream = {
        .policy = check_below(BS_POLICY_BELADY), .speculation = check_below(2), .check_records = 0};
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
    const bs_weights from = flat_weights(&source, rg_flip(50) ? 1 : 512);
    if (!rig_plan(&r, g, &d) || !rig_streamed(&r, &from, &stream, 0xFF)) {
        snprintf(a.why, sizeof a.why, "streamed: %.200s", r.error.message);
        return false;
    }
    c->plans++;
    c->sound += plan_is_sound(r.plan);
    const bool ok = runs_agree(&r, g, &d);
    bs_stream_stats stats;
    bs_session_stream_stats(r.session, &stats);
    const uint64_t visits = r.session->store.stream.visits;
    bs_session_close(r.session);
    c->streamed++;
    count_rounds(c, r.plan, visits);
    c->uses += (int32_t)(stats.hits + stats.late + stats.misses);
    if (!ok)
        printf("  streamed: order %d, %d threads, %d lanes, %d slots of %d, policy %d, speculation %d\n", d.order,
               d.threads, d.lanes, (int)d.slot_bytes, (int)facts.all_bytes, stream.policy, stream.speculation);
    return ok;
}

static bool try_graph(const bs_graph *g, coverage *c, int32_t plans)
{
    for (int32_t turn = 0; turn < plans; turn++) {
        bs_plan_desc d = random_desc(g, turn);
        const bool unshared = turn == plans - 1;
        rig r;
        if (!plan_somehow(&r, g, &d)) {
            snprintf(a.why, sizeof a.why, "no plan: %.200s", r.error.message);
            return false;
        }
        count_plan(c, r.plan);
        c->sound += plan_is_sound(r.plan);
        const int32_t moved = breaks_when_moved(r.plan);
        c->moved += moved >= 0;
        c->noticed += moved == 1;
        if (unshared)
            rig_unshare(&r);
        if (!rig_session(&r, &weights.table, NULL, 0xFF)) {
            snprintf(a.why, sizeof a.why, "no session: %.200s", r.error.message);
            return false;
        }
        const bool ok = runs_agree(&r, g, &d);
        bs_session_close(r.session);
        if (!ok) {
            printf("  order %d, %d threads, patches of %d, %d forced, %s\n", d.order, d.threads, d.patch_size,
                   d.n_forces, unshared ? "nothing shared" : "shared");
            return false;
        }
    }
    return true;
}

/* What random graphs may hold, and which they are. Of each kind some graphs, `early`, hold between them all that any
 * graph of it holds: they are taken first. `test_planner early` looks for them, when the generator has changed. Of rows
 * 24, and of segments in loops 21, are the only ones that notice a state that is written while it is still read. */
typedef struct kind {
    const char *name;
    uint64_t first;
    int32_t most;
    bool segments, boxes, loops, trees;
    int32_t early[12]; /* ends with -1 */
    coverage seen;
    int32_t taken, wrong;
} kind;

static kind kinds[] = {
    {"rows", 1000, 120, .early = {40, 79, 23, 24, -1}},
    {"segments", 501000, 60, .segments = true, .early = {16, 52, 5, -1}},
    {"boxes", 601000, 60, .boxes = true, .early = {54, 1, 2, 5, 11, -1}},
    {"loops", 801000, 120, .loops = true, .early = {33, 5, 11, 18, 8, 79, -1}},
    {"loops-segments", 951000, 120, .segments = true, .loops = true, .early = {3, 41, 48, 0, 96, 21, -1}},
    {"trees", 901000, 80, .loops = true, .trees = true, .early = {57, 28, 19, 24, 32, 44, -1}},
};
enum { KINDS = sizeof kinds / sizeof *kinds, LEAST = 3 };

static void test_graph(kind *k, uint64_t seed)
{
    rg_segments = k->segments, rg_boxes = k->boxes, rg_loops = k->loops, rg_trees = k->trees;
    check_state = check_mixed(seed);
    bs_graph *g = new_graph();
    k->taken++;
    if (!rg_grow(&rg, g, &weights, 15 + check_below(60))) {
        printf("  graph %llu is refused: %s\n", (unsigned long long)seed, g->error.message);
        k->seen.refused++;
        return;
    }
    k->seen.graphs++;
    if (try_graph(g, &k->seen, 4) && try_streamed(g, &k->seen))
        return;
    printf("  test_planner %s %llu: N %d, H %d, W %d: %s\n", k->name, (unsigned long long)seed, (int)a.extent[0],
           (int)a.extent[1], (int)a.extent[2], a.why);
    k->wrong++;
}

static int32_t n_early(const kind *k)
{
    int32_t n = 0;
    while (k->early[n] >= 0)
        n++;
    return n;
}

/* Its graph number `turn`: the early ones, then all others. */
static uint64_t graph_of(const kind *k, int32_t turn)
{
    const int32_t n = n_early(k);
    int32_t before = 0;
    if (turn < n)
        return k->first + (uint64_t)k->early[turn];
    for (int32_t i = 0;; i++) {
        bool early = false;
        for (int32_t e = 0; e < n; e++)
            early = early || k->early[e] == i;
        if (!early && before++ == turn - n)
            return k->first + (uint64_t)i;
    }
}

static void look(const kind *k)
{
    const coverage c = k->seen;
    printf("%s: %d graphs of %d, the early ones first, then from %llu on\n", k->name, k->taken, k->most,
           (unsigned long long)k->first);
    check(k->wrong == 0,
          "%d random graphs with %s: any order, threads, patches, sharing and paint give what the definition gives",
          c.graphs, k->name);
    check(c.refused == 0, "the builder takes what the generator makes");
    check(c.sound == c.plans, "no two values of %d plans share bytes while both are needed", c.plans);
    check(c.noticed == c.moved && c.moved > c.plans / 2,
          "the checker notices a value that is put on another's bytes, in %d plans", c.moved);
    printf("  plans with regions %d, decisions in tiles %d, torn domains %d, states in place %d, rows straight into "
           "frames %d\n",
           c.regions, c.in_tile, c.torn, c.in_place, c.frames);
    printf("  loads %d, packed gathers %d, fills %d, shared slabs %d, forced %d, other patches %d\n", c.loads, c.packed,
           c.fills, c.slabs, c.forced, c.sizes);
    printf("  loops %d, in loops %d, in tiles %d\n", c.loops, c.nested, c.looping_tiles);
    check(!k->boxes || c.kept, "random graphs keep the best of boxes");
    check(!k->segments || (c.parted && (c.looped || !k->loops)), "rows of paths %d, of bodies %d, are in segments",
          c.parted, c.looped);
    printf("  loops in turn %d, that grow %d, rows of others %d, changed in place %d\n", c.turns, c.grown, c.around,
           c.updates);
    check(!k->loops || c.updates, "random graphs change carried values where they lie");
    check(!k->trees || (c.turns && c.grown && c.around), "random graphs have vertices that read others, and grow");
    check(!c.miscounted, "ops have as many results as their table says");
    printf("  results before their loops %d, before outer ones as well %d\n", c.lifted, c.higher);
    check(!k->loops || (c.lifted && c.higher), "what is the same in every trip is lifted, out of loops in loops, too");
    check(!k->loops || (c.loops && c.nested && c.looping_tiles), "random graphs have loops of every kind");
    printf("  units in loops %d, of paths there %d, layers with them in tiles %d; plans that visit phases again %d\n",
           c.looping_units, c.looping_paths, c.tiled_units, c.rounds);
    check(!k->loops || (c.looping_units && c.looping_paths && c.tiled_units && c.rounds),
          "weights of bodies come and go in every way");
    printf("  nodes that sank below a decision %d, that were merged %d\n", c.sunk, c.merged);
    check((c.sunk || k->boxes) && c.merged, "work sinks below decisions, and equal work is merged");
    printf("  streamed plans %d, with %d uses of units; extents from data %d, of nms %d, numbers of rows %d\n",
           c.streamed, c.uses, c.makers, c.kept, c.counted);
    const bool counted = c.counted || k->segments || k->boxes || k->trees;
    check(c.streamed && c.uses && c.regions && c.in_tile && c.torn && c.in_place && c.frames && c.loads && c.packed &&
              c.fills && c.slabs && c.forced && c.sizes && c.makers && counted,
          "random graphs reach every kind of launch mode");
}

/* Fields of the coverage that are not 0. */
static uint64_t held(const coverage *c)
{
    int32_t counts[sizeof *c / sizeof(int32_t)];
    uint64_t bits = 0;
    memcpy(counts, c, sizeof *c);
    for (size_t i = 0; i < sizeof *c / sizeof(int32_t); i++)
        bits |= (uint64_t)(counts[i] != 0) << i;
    return bits;
}

/* The graph that holds most of what is missing, again and again. */
static void print_early(kind *k)
{
    uint64_t holds[128], all = 0, found = 0;
    for (int32_t i = 0; i < k->most; i++) {
        memset(&k->seen, 0, sizeof k->seen);
        test_graph(k, k->first + (uint64_t)i);
        all |= holds[i] = held(&k->seen);
    }
    printf("%s: .early = {", k->name);
    while (found != all) {
        int32_t best = 0, most = -1;
        for (int32_t i = 0; i < k->most; i++) {
            int32_t more = 0;
            for (uint64_t bits = holds[i] & ~found; bits; bits &= bits - 1)
                more++;
            best = more > most ? i : best;
            most = more > most ? more : most;
        }
        found |= holds[best];
        printf("%d, ", best);
    }
    printf("-1}\n");
}

/* test_planner [SEED]           some of each kind, in turns; of another seed than 1 any
 * test_planner KIND GRAPH       one graph, as a failure names it; a third number: so many from there on */
int main(int argc, char **argv)
{
    int32_t wrong = 0;
    if (argc > 1 && strcmp(argv[1], "early") == 0) {
        for (kind *k = kinds; k < kinds + KINDS; k++)
            print_early(k);
        return 0;
    }
    if (argc > 2) {
        kind *k = kinds;
        while (k < kinds + KINDS - 1 && strcmp(k->name, argv[1]) != 0)
            k++;
        const uint64_t first = strtoull(argv[2], NULL, 10), count = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
        for (uint64_t i = 0; i < count; i++)
            test_graph(k, first + i);
        check(k->wrong == 0 && k->seen.refused == 0, "%s: %llu graphs from %llu on", k->name, (unsigned long long)count,
              (unsigned long long)first);
        return check_end();
    }
    const bool others = argc > 1 && strtoull(argv[1], NULL, 10) > 1; /* of which nobody knows what they hold */
    for (kind *k = kinds; others && k < kinds + KINDS; k++) {
        k->first += (strtoull(argv[1], NULL, 10) - 1) * 1000;
        k->early[0] = -1;
    }
    const budget b = budget_of(2.5);
    bool more = true;
    for (int32_t turn = 0; more && wrong < 5; turn++) {
        more = false;
        for (kind *k = kinds; k < kinds + KINDS; k++) {
            if (!budget_left(&b, turn, n_early(k) + LEAST, k->most))
                continue;
            test_graph(k, graph_of(k, turn));
            wrong += k->wrong;
            more = true;
        }
    }
    for (const kind *k = kinds; k < kinds + KINDS; k++)
        if (others)
            check(k->wrong == 0 && k->seen.refused == 0, "%s: %d graphs from %llu on", k->name, k->taken,
                  (unsigned long long)k->first);
        else
            look(k);
    return check_end();
}
