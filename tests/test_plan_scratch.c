/* tags: asan 32-bit */
/* Promises: a plan takes exactly the bytes that bs_plan_bytes says while it is made, and gives back all but what it
 * keeps. With a scratch arena it keeps all it needs for itself: the graph and that arena may be forgotten, what the
 * plan says and computes is the same to the byte, and so is what is opened from its image.
 * test_plan_scratch [seed [graphs]]: so many from the seed on; by default up to 300, while the budget lasts
 * (budget.h) */
#define _POSIX_C_SOURCE 200809L /* nanosleep, in flat_source.h */
#include "random_graph.h"
#include "against.h"
#include "budget.h"
#include "flat_source.h"
#include "plan_image.h"

static random_graph rg;
static net_table weights;
static against a;
static flat_source source;
static plan_image image, other;
static _Alignas(64) uint8_t graph_memory[1 << 20], scratch_memory[2 << 20], kept_memory[1 << 20];

typedef struct coverage {
    int32_t plans, tails, moved, routers, streamed;
    uint64_t most_percent; /* of what planning took, kept */
} coverage;

/* The same graph each time, behind what the arena holds. */
static bs_graph *grow(bs_arena *arena, uint64_t seed)
{
    check_state = check_mixed(seed);
    rg_segments = seed % 3 == 2;
    rg_shares = seed % 2 == 1;
    rg_loops = seed % 4 >= 2;
    rg_trees = seed % 8 >= 6;
    bs_graph *g = bs_graph_create(arena, NULL);
    return rg_grow(&rg, g, &weights, 15 + check_below(60)) ? g : NULL;
}

static bool differs(const char *what)
{
    snprintf(a.why, sizeof a.why, "%s", what);
    return false;
}

/* In an arena of exactly what was said, and none of one with less; its image is kept. */
static bool is_made_exactly(const bs_graph *g, const bs_plan_desc *d, coverage *c)
{
    const size_t bytes = bs_plan_bytes(g, d) - BS_ALIGNMENT; /* aligned */
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "plan", ag_plan_memory, bytes - BS_ALIGNMENT);
    if (bs_plan_create(&arena, NULL, g, d, &error) || error.status != BS_ERROR_ARENA || error.needed != bytes ||
        arena.used != 0)
        return differs("made in less than was said");
    bs_arena_init(&arena, "plan", ag_plan_memory, bytes);
    const bs_plan *p = bs_plan_create(&arena, NULL, g, d, &error);
    if (!p || arena.high_water != bytes)
        return differs(p ? "not all of what was said was taken" : error.message);
    memset(ag_plan_memory + arena.used, 0xA5, bytes - arena.used); /* given back */
    c->most_percent = arena.used * 100 / bytes > c->most_percent ? arena.used * 100 / bytes : c->most_percent;
    c->tails += p->graph->n_tails > 0;
    c->moved += p->graph != g;
    c->routers += p->graph->n_routers > 1;
    return plan_image_save(&image, p);
}

/* The plan of a graph that is forgotten, as is all that planning used. The arena is what it keeps, and no more. */
static bs_plan *made_apart(uint64_t seed, const bs_plan_desc *d)
{
    bs_arena scratch, kept;
    bs_error error;
    size_t bytes = sizeof kept_memory;
    bs_plan *p = NULL;
    for (int32_t turn = 0; turn < 2; turn++) { /* how much it keeps, then with as much */
        bs_arena_init(&scratch, "scratch", scratch_memory, sizeof scratch_memory);
        bs_arena_init(&kept, "kept", kept_memory, bytes);
        const bs_graph *g = grow(&scratch, seed);
        const size_t used = scratch.used;
        p = g ? bs_plan_create(&kept, &scratch, g, d, &error) : NULL;
        if (!p || scratch.used != used)
            return differs(p ? "scratch was not given back" : error.message), NULL;
        bytes = kept.used;
    }
    bs_arena_init(&kept, "kept", kept_memory, bytes - BS_ALIGNMENT);
    if (bs_plan_create(&kept, &scratch, grow(&scratch, seed), d, &error) || kept.used != 0 ||
        error.status != BS_ERROR_ARENA)
        return differs("kept in less than it takes"), NULL;
    bs_arena_init(&scratch, "scratch", scratch_memory, sizeof scratch_memory);
    bs_arena_init(&kept, "kept", kept_memory, bytes);
    p = bs_plan_create(&kept, &scratch, grow(&scratch, seed), d, &error);
    memset(scratch_memory, 0xA5, sizeof scratch_memory);
    return p;
}

static const bs_plan *opened_apart(uint64_t seed)
{
    bs_arena scratch, kept;
    bs_arena_init(&scratch, "scratch", scratch_memory, sizeof scratch_memory);
    bs_arena_init(&kept, "kept", kept_memory, sizeof kept_memory);
    const bs_plan *p = bs_plan_open(&kept, &scratch, grow(&scratch, seed), image.bytes, image.size, &image.error);
    memset(scratch_memory, 0xA5, sizeof scratch_memory);
    return p ? p : (differs(image.error.message), NULL);
}

static bool runs_right(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    const int64_t extent[3] = {1 + check_below(40), 1 + check_below(26), 1 + check_below(21)};
    const bs_weights from = flat_weights(&source, 1);
    const bs_session_desc desc = {.weights = from};
    if (!(d->slot_bytes ? rig_streamed(r, &from, &(bs_stream_desc){0}, 0xFF) : rig_start(r, &desc, 0xFF)))
        return differs(r->error.message);
    memset(&a, 0, sizeof a);
    a.oracle.callback = rg_callback;
    rg_set_callbacks(r->session, g);
    against_inputs(&a, g, &weights.table, d, extent);
    const bool right = against_run(&a, r->session) && (rig_intact(r) || differs("bytes behind arenas were written"));
    bs_session_close(r->session);
    return right;
}

static bool test_graph(uint64_t seed, int32_t turn, coverage *c)
{
    bs_arena arena;
    rig r;
    bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = turn % 3, .threads = 1 + turn % 4,
                      .slot_bytes = turn % 5 == 4 ? UINT64_MAX : 0, .no_fusion = turn % 4 == 3,
                      .no_dataflow = turn % 4 == 3 || turn % 11 == 10};
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    const bs_graph *g = grow(&arena, seed);
    if (!g)
        return true;
    flat_init(&source, g, &weights.table, BS_F32);
    if (!is_made_exactly(g, &d, c))
        return false;
    memset(&r, 0, sizeof r);
    r.plan = made_apart(seed, &d);
    c->plans++;
    c->streamed += d.slot_bytes > 0;
    if (!r.plan || !plan_image_save(&other, r.plan))
        return false;
    if (other.size != image.size || memcmp(other.bytes, image.bytes, image.size) != 0)
        return differs("another plan than without scratch");
    if (!runs_right(&r, g, &d))
        return false;
    r.plan = (bs_plan *)(uintptr_t)opened_apart(seed);
    return r.plan && runs_right(&r, g, &d);
}

/* The plan of a graph that is copied as it is is the same as that of the graph, a block at its end and all. */
static void test_copy(void)
{
    const bs_plan_desc d = {.no_fusion = 1, .no_dataflow = 1};
    bs_plan *p[2];
    for (int32_t apart = 0; apart < 2; apart++) {
        bs_arena graph, kept, scratch;
        bs_error error;
        bs_arena_init(&graph, "graph", graph_memory, sizeof graph_memory);
        bs_arena_init(&kept, "kept", apart ? kept_memory : ag_plan_memory, sizeof kept_memory);
        bs_arena_init(&scratch, "scratch", scratch_memory, sizeof scratch_memory);
        bs_graph *g = bs_graph_create(&graph, NULL);
        const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "rows", 8), 4));
        bs_block_begin(g, "last");
        bs_output(g, "y", bs_linear(g, x, &(bs_linear_desc){.name = "only", .out = 3}));
        bs_block_end(g);
        p[apart] = bs_plan_create(&kept, apart ? &scratch : NULL, g, &d, &error);
        if (!check(p[apart] && (p[apart]->graph == g) == !apart && plan_image_save(apart ? &other : &image, p[apart]),
                   "a plan whose graph is %s: %s", apart ? "copied" : "the caller's", p[apart] ? "" : error.message))
            return;
    }
    const bs_graph *copy = p[1]->graph;
    bs_arena arena;
    bs_arena_init(&arena, "arena", scratch_memory, sizeof scratch_memory);
    check(!bs_plan_open(&arena, &arena, copy, image.bytes, image.size, &image.error) &&
              image.error.status == BS_ERROR_ARGUMENT && arena.used == 0,
          "an arena is not its own scratch: %s", image.error.message);
    check(image.size == other.size && memcmp(image.bytes, other.bytes, image.size) == 0, "both have one image");
    memset(scratch_memory, 0xA5, sizeof scratch_memory);
    memset(graph_memory, 0xA5, sizeof graph_memory);
    char text[64];
    check(bs_graph_named(copy, "y", false) && strcmp(bs_node_name(&copy->nodes[2]), "only") == 0 &&
              strcmp(copy->text + copy->blocks[1].name, "last") == 0 &&
              strcmp(bs_value_text(copy, &copy->values[1], text, sizeof text), "[rows<=8, 4]") == 0,
          "names of nodes, blocks and symbols are there when the graph is not: %s", text);
}

/* A sum of many values sinks through all levels: of each of them it takes a view on each. */
static void test_views(void)
{
    enum { LEVELS = 8, TERMS = 12, ROWS = 11, WIDTH = 6 };
    static char names[LEVELS][8], terms[TERMS][8];
    const bs_value none = {0};
    const bs_plan_desc d = {.no_fusion = 1};
    bs_arena arena;
    bs_error error = {0};
    bs_router r[LEVELS];
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    bs_value at = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)), none), sum = at;
    for (int32_t i = 0; i < TERMS; i++) {
        snprintf(terms[i], sizeof terms[i], "x%d", i);
        sum = bs_add(g, sum, bs_rows(g, bs_input(g, terms[i], BS_F32, BS_SHAPE2(ROWS, WIDTH)), at));
    }
    for (int32_t i = 0; i < LEVELS; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        const bs_value score = bs_slice(g, at, &(bs_slice_desc){.start = i % 4, .length = 2});
        r[i] = bs_route(g, score, none, &(bs_route_desc){.name = names[i], .paths = 2});
        at = bs_scatter(g, r[i], 1, at);
        sum = bs_scatter(g, r[i], 1, sum);
    }
    for (int32_t i = LEVELS - 1; i >= 0; i--)
        sum = bs_gather(g, r[i], (const bs_value[]){none, sum}, none, NULL);
    bs_output(g, "y", bs_collect(g, sum));
    bs_arena_init(&arena, "plan", ag_plan_memory, bs_plan_bytes(g, &d) - BS_ALIGNMENT);
    const bs_plan *p = bs_plan_create(&arena, NULL, g, &d, &error);
    check(p && p->graph->n_nodes >= g->n_nodes + LEVELS * (TERMS - 1),
          "%d nodes of %d are planned in as much as is said: %s", p ? p->graph->n_nodes : 0, g->n_nodes, error.message);
}

/* What stays of the networks that come with the library, graph and all. */
static void test_models(void)
{
    static const struct {
        const char *path;
        size_t most;
    } models[] = {{"models/sr2x.gguf", 60000}, {"models/moe_text.gguf", 130000}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        bs_arena index, scratch, kept;
        bs_error error;
        bs_arena_init(&index, "index", graph_memory, sizeof graph_memory);
        bs_arena_init(&scratch, "scratch", scratch_memory, sizeof scratch_memory);
        bs_arena_init(&kept, "kept", kept_memory, sizeof kept_memory);
        bs_model *model = bs_model_open_file(&index, NULL, models[i].path, &error);
        const bs_graph_desc room = bs_model_graph_desc(model);
        bs_graph *g = bs_graph_create(&scratch, &room);
        const bool built = bs_model_build(model, g, NULL, &error) == BS_OK;
        const bs_plan *p = built ? bs_plan_create(&kept, &scratch, g, NULL, &error) : NULL;
        check(p && kept.used <= models[i].most, "%s: a plan and its graph keep %d bytes, of at most %d: %s",
              models[i].path, (int)kept.used, (int)models[i].most, p ? "" : error.message);
        bs_model_close(model);
    }
}

enum { LEAST = 60, MOST = 300 };

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int32_t count = argc > 2 ? atoi(argv[2]) : 0;
    coverage c = {0};
    int32_t wrong = 0, taken = 0;
    const budget b = budget_of(1);
    check_seed(seed);
    test_copy();
    test_views();
    test_models();
    for (; wrong < 5 && (count ? taken < count : budget_left(&b, taken, LEAST, MOST)); taken++) {
        const uint64_t mine = seed + (uint64_t)taken;
        if (test_graph(mine, taken, &c))
            continue;
        printf("  graph %d from seed %llu: %s\n", taken, (unsigned long long)mine, a.why);
        wrong++;
    }
    check(wrong == 0, "%d plans take what was said, keep %d %% of it at most, and need no graph any more", c.plans,
          (int)c.most_percent);
    printf("  with tails %d, moved or fused %d, routers %d, streamed %d\n", c.tails, c.moved, c.routers, c.streamed);
    check(c.tails && c.moved && c.moved < c.plans && c.routers && c.streamed, "among them every kind of plan");
    plan_image_free(&image);
    plan_image_free(&other);
    return check_end();
}
