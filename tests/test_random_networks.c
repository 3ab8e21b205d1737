/* tags: small asan optimized */
/* Promises: networks of real layers that grow at random (random_networks.h), with weights heavier than rows, rows and
 * images before and behind loops of the root, routers by capacity and top-k, paths that resize, loops in loops and
 * decisions in them, give what the graph's definition (naive.h) gives in double precision, within TOLERANCE; and the
 * same bytes in every order, with 1 and 3 threads, with weights that stay and that come and go in few slots or many,
 * with and without fusion and dataflow, from a saved plan, over any paint.
 *
 * test_random_networks [SEED [COUNT]], or RANDOM_GRAPHS=20000 and RANDOM_FROM=1 in the environment: other graphs than
 * those of `make test`, of which each two features must have met. */
#define _POSIX_C_SOURCE 200809L
#include "random_features.h"
#include "against.h"
#include "budget.h"
#include "flat_source.h"
#include "plan_image.h"
#include "plan_watch.h"

enum { RUNS = 2, GRAPHS = 500, LEAST = 40, MET = 3 };
/* Of 1 + what is wanted. Where two numbers of which one decided are nearer, f32 may decide otherwise. */
static const double TOLERANCE = 5e-5, UNDECIDED = 1e-4;

static net_table weights;
static random_layers rl;
static features met;
static against a;
static flat_source source;
static plan_image image;
static _Alignas(64) uint8_t graph_memory[1 << 20];

/* One way to run a graph. */
typedef struct variant {
    const char *name;
    int32_t order, threads, launch; /* launch: of a device */
    bool slots, all_slots, saved, alone; /* alone: no fusion, no dataflow */
} variant;

static const variant variants[] = {
    {.name = "the planner's order", .order = BS_ORDER_AUTO, .threads = 1},
#ifdef BS_TEST_ON_DEVICE
    {.name = "depth first, slots", .order = BS_ORDER_DEPTH, .slots = true},
    {.name = "breadth first, saved", .order = BS_ORDER_BREADTH, .launch = BS_LAUNCH_STREAM, .saved = true},
#define SHOWN 0 /* a device has none between tiles */
#else
#define SHOWN MET
    {.name = "breadth first, 3 threads", .order = BS_ORDER_BREADTH, .threads = 3},
    {.name = "depth first, alone, saved", .order = BS_ORDER_DEPTH, .threads = 1, .alone = true, .saved = true},
    {.name = "planner's order, 3 threads, few slots, saved", .threads = 3, .slots = true, .saved = true},
    {.name = "depth first, 3 threads, many slots", .order = BS_ORDER_DEPTH, .threads = 3, .all_slots = true},
    {.name = "breadth first, few slots", .order = BS_ORDER_BREADTH, .threads = 1, .slots = true},
#endif
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* What the definition gives, and what the first variant gave, of each run. */
typedef struct expected {
    double want[RL_OUTPUTS][RL_ELEMENTS];
    uint8_t got[RL_OUTPUTS][4 * RL_ELEMENTS];
    int64_t count[RL_OUTPUTS];
    bool decided;
} expected;

static expected runs[RUNS];
static char why[400];
static double worst;
static int32_t undecided, plans, sound, streamed, phases, refused, wrong;

static bool fails(const char *format, const char *what, const char *message)
{
    snprintf(why, sizeof why, format, what, message);
    return false;
}

/* ------------------------------------------------------------------------------------------------------- a run */

/* Extents and inputs of run k, the same whenever it is asked for. */
static void set_inputs(const bs_graph *g, const bs_plan_desc *d, uint64_t seed, int32_t k)
{
    check_state = check_mixed(seed * RUNS + (uint64_t)k + 77);
    const int64_t extent[3] = {k ? 1 + check_below(RL_ROWS) : RL_ROWS, k ? 4 + check_below(RL_HEIGHT - 3) : RL_HEIGHT,
                               k ? 4 + check_below(RL_WIDTH - 3) : RL_WIDTH};
    against_inputs(&a, g, &weights.table, d, extent);
    for (int32_t s = 0; s < a.n_inputs; s++) {
        double *data = ag_data[s];
        for (int64_t i = 0; i < RL_ELEMENTS; i++)
            data[i] = (double)check_float();
    }
}

static bool define(expected *e)
{
    const bs_graph *g = a.oracle.g;
    if (naive_run(&a.oracle) != BS_OK)
        return fails("%s%s", "the definition refuses", "");
    e->decided = a.oracle.closest >= UNDECIDED;
    undecided += !e->decided;
    for (int32_t n = 1, k = 0; n < g->n_nodes; n++)
        if (bs_node_is(&g->nodes[n], &bs_op_output)) {
            const int32_t value = bs_node_in(g, &g->nodes[n])[0];
            e->count[k] = naive_elements(&a.oracle, value);
            memcpy(e->want[k], a.oracle.cell[value][0], (size_t)e->count[k] * sizeof(double));
            k++;
        }
    return true;
}

static float element(const uint8_t *bytes, int64_t i)
{
    float f;
    memcpy(&f, bytes + 4 * i, 4);
    return f;
}

/* Whether an element of output k differs by no more than the definition's own does when inputs are larger and smaller
 * by some units in the last place of f32: many trips can make much of little. And where two rows tie: (a - b) - a is
 * the same for all a in double precision, and in f32 it is not. */
static bool is_steep(const expected *e, int32_t k, int64_t i, double got)
{
    const bs_graph *g = a.oracle.g;
    int32_t value = 0;
    for (int32_t s = 0; s < a.n_inputs; s++)
        for (int64_t j = 0; j < RL_ELEMENTS; j++)
            ag_data[s][j] *= 1 + 4e-6 * (double)(j % 3 - 1);
    if (naive_run(&a.oracle) != BS_OK)
        return false;
    for (int32_t n = 1, before = 0; n < g->n_nodes; n++)
        if (bs_node_is(&g->nodes[n], &bs_op_output) && before++ == k)
            value = bs_node_in(g, &g->nodes[n])[0];
    const double change = fabs(a.oracle.cell[value][0][i] - e->want[k][i]);
    return a.oracle.tied || (fabs(got - e->want[k][i]) <= change && change < 0.1);
}

/* Output k of a run against the definition. */
static bool is_near(expected *e, int32_t k, const uint8_t *bytes)
{
    for (int64_t i = 0; i < e->count[k] && e->decided; i++) {
        const double want = e->want[k][i], got = (double)element(bytes, i),
                     distance = fabs(got - want) / (1 + fabs(want));
        if (!(distance <= TOLERANCE) && is_steep(e, k, i, got)) {
            e->decided = false;
            undecided++;
        } else if (!(distance <= TOLERANCE)) {
            snprintf(why, sizeof why, "output o%d element %lld of %lld: %.9g, the definition says %.9g", k,
                     (long long)i, (long long)e->count[k], got, want);
            return false;
        }
        worst = e->decided && distance > worst ? distance : worst;
    }
    return true;
}

/* And against what the first variant gave: on a device only what the definition says. */
static bool is_same(expected *e, int32_t k, const uint8_t *bytes, bool first)
{
    const size_t size = (size_t)e->count[k] * 4;
    if (first)
        memcpy(e->got[k], bytes, size);
#ifdef BS_TEST_ON_DEVICE
    return is_near(e, k, bytes);
#else
    for (int64_t i = 0; i < e->count[k] && memcmp(e->got[k], bytes, size) != 0; i++)
        if (memcmp(e->got[k] + 4 * i, bytes + 4 * i, 4) != 0) {
            snprintf(why, sizeof why, "output o%d element %lld of %lld: %.9g, in the planner's order %.9g", k,
                     (long long)i, (long long)e->count[k], (double)element(bytes, i), (double)element(e->got[k], i));
            return false;
        }
    return !first || is_near(e, k, bytes);
#endif
}

static bool run_once(rig *r, expected *e, bool first, int32_t paint)
{
    bs_buffer inputs[AG_SOURCES], outputs[AG_SOURCES];
    bool same = true;
    if (ag_too_small(&a))
        return fails("%s%s", "an extent is too small", "");
    if (first && !define(e))
        return false;
    memset(r->transient, paint, (size_t)r->sizes.transient);
    if (!against_bind(&a, r->session, inputs, outputs) || bs_run(r->session, &a.error) != BS_OK)
        return fails("%s: %.300s", bs_status_name(a.error.status), a.error.message);
    for (int32_t k = 0; same && k < rl.n_outputs; k++)
        same = is_same(e, k, outputs[k].data, first);
    if (same && !rig_intact(r))
        return fails("%s%s", "bytes outside the arenas were written", "");
    return same;
}

/* ---------------------------------------------------------------------------------------------------- a variant */

/* Over paint: a planner that reads what it has not written must not get away with it. */
static bool plan_painted(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    const size_t bytes = bs_plan_bytes(g, d);
    memset(ag_plan_memory, 0xFF, bytes < sizeof ag_plan_memory ? bytes : sizeof ag_plan_memory);
    return rig_plan(r, g, d);
}

/* The desc of a variant; false: without weights that stream it would be another one. */
static bool describe(const variant *v, const bs_graph *g, bs_plan_desc *d)
{
    rig r;
    bs_stream_plan facts;
    *d = (bs_plan_desc){.order = v->order, .threads = v->threads, .no_fusion = v->alone, .no_dataflow = v->alone,
                        .launch_mode = v->launch};
    if (!v->slots && !v->all_slots)
        return true;
    d->slot_bytes = 1u << 30;
    if (!plan_painted(&r, g, d))
        return true; /* and fails again */
    bs_plan_stream_get(r.plan, &facts);
    if (facts.units == 0)
        return false;
    d->lanes = 1 + facts.units % 4;
    d->slot_bytes = v->all_slots ? facts.all_bytes : facts.least_bytes;
    phases = v->slots ? facts.phases : phases;
    return true;
}

static bool start(rig *r, const bs_graph *g, const variant *v)
{
    bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    if (v->saved) {
        if (!plan_image_save(&image, r->plan))
            return fails("%s: %s", "no image", image.error.message);
        r->plan = (bs_plan *)(uintptr_t)plan_image_open(&image, g);
        if (!r->plan)
            return fails("%s: %s", "no plan of an image", image.error.message);
    }
    if (v->slots || v->all_slots) {
        flat_init(&source, g, &weights.table, BS_F32);
        with.weights = flat_weights(&source, 1);
        streamed++;
    }
    return rig_start(r, &with, 0xFF) || fails("%s: %s", "no session", r->error.message);
}

static bool try_variant(const bs_graph *g, const variant *v, uint64_t seed)
{
    static const int32_t paints[RUNS] = {0xFF, 0x3A};
    bs_plan_desc d;
    rig r;
    if (!describe(v, g, &d))
        return true;
    if (!plan_painted(&r, g, &d))
        return fails("%s: %s", "no plan", r.error.message);
    plans++;
    sound += plan_is_sound(r.plan);
    if (v == variants)
        rf_look(&met, r.plan);
    if (!start(&r, g, v))
        return false;
    bool ok = true;
    memset(&a, 0, sizeof a);
    for (int32_t k = 0; ok && k < RUNS; k++) {
        set_inputs(g, &d, seed, k);
        ok = run_once(&r, &runs[k], v == variants, paints[k]);
    }
    bs_session_close(r.session);
    return ok;
}

/* ------------------------------------------------------------------------------------------------------ a graph */

static void test_graph(uint64_t seed)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    check_state = check_mixed(seed);
    bs_graph *g = bs_graph_create(&arena, NULL);
    if (!rl_grow(&rl, g, &weights)) {
        printf("  graph %llu is refused: %s\n", (unsigned long long)seed, g->error.message);
        refused++;
        return;
    }
    phases = 0;
    for (int32_t i = 0; i < VARIANTS; i++)
        if (!try_variant(g, &variants[i], seed)) {
            printf("  test_random_networks %llu: %d nodes, N %d, H %d, W %d, %s: %s\n", (unsigned long long)seed,
                   g->n_nodes, (int)a.extent[0], (int)a.extent[1], (int)a.extent[2], variants[i].name, why);
            wrong++;
            return;
        }
    rf_has(&met, RF_PHASES, phases >= 4);
    rf_count(&met);
}

static uint64_t number(const char *text, uint64_t otherwise)
{
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const uint64_t from = number(argc > 1 ? argv[1] : getenv("RANDOM_FROM"), 1),
                   asked = number(argc > 2 ? argv[2] : argc > 1 ? "1" : getenv("RANDOM_GRAPHS"), 0);
    const int32_t most = asked ? (int32_t)asked : GRAPHS;
    const budget b = asked ? budget_whole() : budget_of(12);
    int32_t taken = 0;
    for (; budget_left(&b, taken, LEAST, most) && wrong < 5; taken++) {
        test_graph(from + (uint64_t)taken);
        if (asked && (taken + 1) % 500 == 0)
            printf("up to %llu: %d differ\n", (unsigned long long)(from + (uint64_t)taken), wrong), fflush(stdout);
    }
    printf("%d graphs from %llu on, %.1f s: %d plans, %d of them streamed; %d runs are not compared with the "
           "definition; others are within %.2g of it\n",
           taken, (unsigned long long)from, budget_used(&b), plans, streamed, undecided, worst);
    check(wrong == 0, "%d networks give what their definition gives, within %g, in every variant", taken, TOLERANCE);
    check(refused == 0, "the builder takes what the generator makes");
    check(sound == plans, "no two values of %d plans share bytes while both are needed", plans);
    check(undecided * 10 <= taken * RUNS, "all but a tenth of the runs is compared with the definition");
    const int32_t least = taken >= GRAPHS ? rf_print(&met, 12) : MET;
    check(least >= SHOWN, "each two features met in %d graphs or more", SHOWN);
    plan_image_free(&image);
    return check_end();
}
