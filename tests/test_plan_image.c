/* tags: asan tsan */
/* Promises: a plan that was saved and is opened again runs as the one that was planned, to the byte: for graphs grown
 * at random, in any order, with any threads, patches, forced routes and streamed weights. The image of a plan is the
 * same every time, and the plan that is opened takes no more than a handle.
 * test_plan_image [seed [graphs]]: so many from the seed on; by default up to 200, while the budget lasts (budget.h) */
#define _POSIX_C_SOURCE 200809L /* nanosleep, in flat_source.h */
#include "random_graph.h"
#include "against.h"
#include "budget.h"
#include "flat_source.h"
#include "plan/image.h"
#include "plan_image.h"

static random_graph rg;
static net_table weights;
static against a;
static flat_source source;
static plan_image image;
static _Alignas(64) uint8_t graph_memory[1 << 20];

typedef struct coverage {
    int32_t graphs, plans, regions, in_tile, streamed, forced, uses, most_bytes;
} coverage;

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static bs_plan_desc random_desc(const bs_graph *g, int32_t turn)
{
    bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = turn % 3, .threads = 1 + check_below(4)};
    rg_choose(&d, g);
    return d;
}

/* A cell tensor that collects a row a patch may be too short for smaller patches: then the graph's own size will do. */
static bool plan_somehow(rig *r, const bs_graph *g, bs_plan_desc *d)
{
    if (rig_plan(r, g, d))
        return true;
    d->patch_size = 0;
    return r->error.status == BS_ERROR_LIMIT && rig_plan(r, g, d);
}

/* Saved, the plan forgotten, and opened again: that one is the rig's. */
static bool reopen(rig *r, const bs_graph *g, coverage *c)
{
    if (!plan_image_save(&image, r->plan)) {
        snprintf(a.why, sizeof a.why, "not saved: %.200s", image.error.message);
        return false;
    }
    memset(ag_plan_memory, 0xA5, bs_bytes_figure(r->plan->own_bytes));
    const bs_plan *opened = plan_image_open(&image, g);
    if (!opened) {
        snprintf(a.why, sizeof a.why, "not opened: %.200s", image.error.message);
        return false;
    }
    r->plan = (bs_plan *)(uintptr_t)opened;
    c->plans++;
    c->regions += opened->n_regions > 0;
    c->most_bytes = bs_max_i32(c->most_bytes, (int32_t)image.size);
    for (int32_t k = 1; k < g->n_routers; k++) {
        c->in_tile += opened->routers[k].live && opened->routers[k].in_tile;
        c->forced += opened->routers[k].forced != 0;
    }
    return true;
}

/* Two runs of one size, and one of another. */
static bool runs_agree(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    int64_t extent[3];
    memset(&a, 0, sizeof a);
    a.oracle.callback = rg_callback;
    rg_set_callbacks(r->session, g);
    for (int32_t run = 0; run < 3; run++) {
        extent[0] = run == 0 ? 40 : run == 1 ? 1 + check_below(40) : extent[0];
        extent[1] = run == 0 ? 26 : run == 1 ? 1 + check_below(26) : extent[1];
        extent[2] = run == 0 ? 21 : run == 1 ? 1 + check_below(21) : extent[2];
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

static bool try_plan(const bs_graph *g, int32_t turn, coverage *c)
{
    bs_plan_desc d = random_desc(g, turn);
    rig r;
    if (!plan_somehow(&r, g, &d) || !reopen(&r, g, c) || !rig_session(&r, &weights.table, NULL, 0xFF)) {
        printf("  no session: %s\n", r.error.message);
        return false;
    }
    const bool ok = runs_agree(&r, g, &d);
    bs_session_close(r.session);
    return ok;
}

static bool try_streamed(const bs_graph *g, coverage *c)
{
    bs_plan_desc d = random_desc(g, check_below(3));
    bs_stream_plan facts;
    rig r;
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
    flat_init(&source, g, &weights.table, BS_F32);
    const bs_weights from = flat_weights(&source, 1);
    const bs_stream_desc stream = {.policy = check_below(BS_POLICY_BELADY)};
    if (!rig_plan(&r, g, &d) || !reopen(&r, g, c) || !rig_streamed(&r, &from, &stream, 0xFF)) {
        printf("  streamed: %s\n", r.error.message);
        return false;
    }
    const bool ok = runs_agree(&r, g, &d);
    bs_stream_stats stats;
    bs_session_stream_stats(r.session, &stats);
    bs_session_close(r.session);
    c->streamed++;
    c->uses += (int32_t)(stats.hits + stats.late + stats.misses);
    return ok;
}

/* Kinds of graphs come again after 24. Of those, two of each are always taken, and before them the only one with an
 * image beside another of the same extents and of a pooled scale. */
enum { LEAST = 49, MOST = 200, EARLY = 177 };

static bool test_graph(uint64_t seed, int32_t i, coverage *c)
{
    check_state = check_mixed(seed + (uint64_t)i);
    rg_segments = i % 3 == 2;
    rg_shares = i % 2 == 1;
    rg_loops = i % 4 >= 2;
    rg_trees = i % 8 >= 6;
    bs_graph *g = new_graph();
    if (!rg_grow(&rg, g, &weights, 15 + check_below(60))) {
        printf("  graph %d from seed %llu is refused: %s\n", i, (unsigned long long)seed, g->error.message);
        return true;
    }
    c->graphs++;
    if (try_plan(g, i, c) && try_streamed(g, c))
        return true;
    printf("  graph %d from seed %llu: %s\n", i, (unsigned long long)seed, a.why);
    return false;
}

static void test_random_graphs(uint64_t seed, int32_t count)
{
    coverage c = {0};
    int32_t wrong = 0, taken = 0;
    const budget b = budget_of(1);
    for (; wrong < 5 && (count ? taken < count : budget_left(&b, taken, LEAST, MOST)); taken++)
        wrong += !test_graph(seed, count ? taken : taken == 0 ? EARLY : taken - (taken <= EARLY), &c);
    check(wrong == 0, "%d random graphs: %d plans that were saved and opened again give what the definition gives",
          c.graphs, c.plans);
    printf("  plans with regions %d, decisions in tiles %d, forced routes %d, streamed %d with %d uses of units; the "
           "largest image %d bytes\n",
           c.regions, c.in_tile, c.forced, c.streamed, c.uses, c.most_bytes);
    check(c.graphs == taken && c.regions && c.in_tile && c.forced && c.streamed && c.uses,
          "among them every kind of plan");
}

/* ------------------------------------------------------------------------------------------------- refusals */

/* Two rows through a layer of so many outputs, with this name. */
static bs_graph *layer(const char *name, int32_t out)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(2, 4));
    bs_output(g, "y", bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out}));
    return g;
}

static void is_refused(const bs_graph *g, bs_status status, const char *text)
{
    memset(&image.error, 0, sizeof image.error);
    const bs_plan *opened = plan_image_open(&image, g);
    check(!opened && image.error.status == status && strstr(image.error.message, text), "%s: %s",
          bs_status_name(status), text);
    if (!opened && !strstr(image.error.message, text))
        printf("  | %s\n", image.error.message);
}

static void test_refusals(void)
{
    rig r;
    bs_image_head head;
    const size_t crc = sizeof head.crc;
    check(rig_plan(&r, layer("one", 3), NULL) && plan_image_save(&image, r.plan) &&
              plan_image_open(&image, layer("one", 3)),
          "an image is opened with a graph that was built anew");
    is_refused(layer("two", 3), BS_ERROR_GRAPH, "another graph: a node, a name, a parameter or an extent differs");
    is_refused(layer("one", 5), BS_ERROR_GRAPH, "another graph: a node, a name, a parameter or an extent differs");
    bs_graph *g = layer("one", 3);
    bs_output(g, "z", (bs_value){1});
    is_refused(g, BS_ERROR_GRAPH, "another graph: a node, ");
    g = layer("one", 3);
    memcpy(&head, image.bytes, sizeof head);
    const bs_image_head good = head;
    image.bytes[image.size - 1] ^= 1;
    is_refused(g, BS_ERROR_FORMAT, "the image is damaged: its CRC-32 is ");
    image.bytes[image.size - 1] ^= 1;
    head.library += 1;
    memcpy(image.bytes, &head, sizeof head);
    is_refused(g, BS_ERROR_VERSION, "was made by version 0.1.1 of the library, this is 0.1.0");
    head = good;
    head.layout ^= 1;
    memcpy(image.bytes, &head, sizeof head);
    is_refused(g, BS_ERROR_VERSION, "another kind of processor");
    head = good;
    head.magic[8]++;
    memcpy(image.bytes, &head, sizeof head);
    is_refused(g, BS_ERROR_VERSION, "the image is of another format than this library reads");
    head = good;
    head.magic[0] = 'B';
    memcpy(image.bytes, &head, sizeof head);
    is_refused(g, BS_ERROR_FORMAT, "bytes are no image of a plan");
    memcpy(image.bytes, &good, sizeof good);
    image.size -= crc;
    is_refused(g, BS_ERROR_FORMAT, "bytes given, the image says that it has ");
    image.size += crc;
    image.bytes += 4;
    is_refused(g, BS_ERROR_ARGUMENT, "not at a multiple of 8");
    image.bytes -= 4;
}

/* A graph that is planned as another one, with a step behind its layer, which takes memory, too. */
static void test_small_arenas(void)
{
    rig r;
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(2, 4));
    const bs_value made = bs_linear(g, x, &(bs_linear_desc){.name = "one", .out = 3});
    bs_output(g, "y", bs_unary(g, made, BS_UNARY_EXP));
    bool given_back = rig_plan(&r, g, NULL) && plan_image_save(&image, r.plan) && r.plan->graph != g;
    size_t bytes = 64;
    for (bool opened = false; !opened && given_back; bytes += 64) {
        bs_arena small;
        bs_arena_init(&small, "handle", image.handle, bytes);
        opened = bs_plan_open(&small, NULL, g, image.bytes, image.size, &image.error) != NULL;
        given_back = opened ? bytes <= bs_plan_open_bytes(g)
                            : small.used == 0 && image.error.status == BS_ERROR_ARENA && image.error.needed > 0;
    }
    check(given_back && bytes > 256, "arenas below %d bytes are too small, and stay as they were: %s", (int)bytes - 64,
          image.error.message);
}

/* A workstation plans for a board, and the board's tier is not here. */
static void test_other_tier(void)
{
    rig r;
    const bs_plan_desc d = {.tier = bs_tier_available(BS_TIER_NEON) ? BS_TIER_AVX2 : BS_TIER_NEON, .threads = 4};
    check(rig_plan(&r, layer("one", 3), &d) && plan_image_save(&image, r.plan), "a plan for another tier is saved");
    r.plan = (bs_plan *)(uintptr_t)plan_image_open(&image, layer("one", 3));
    check(r.plan && !rig_session(&r, &weights.table, NULL, 0) && r.error.status == BS_ERROR_UNSUPPORTED &&
              strstr(r.error.message, bs_tier_name((bs_tier)d.tier)),
          "it is opened, and no session is made of it: %s", r.error.message);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int32_t count = argc > 2 ? atoi(argv[2]) : 0;
    check_seed(seed);
    test_random_graphs(seed, count);
    test_refusals();
    test_small_arenas();
    test_other_tier();
    plan_image_free(&image);
    return check_end();
}
