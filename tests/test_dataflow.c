/* tags: asan tsan */
/* Promises: what one path alone reads is computed for the rows of that path, chains and images in tiles too, and equal
 * work once; results are the same bytes as where it is not; what others read as well stays, and so does what may refuse
 * data; the caller's graph, its numbers and messages stay; saved plans know which it was. (Random: test_planner.c.) */
#include "net.h"
#include "plan_image.h"

#include "ops/structure.h"
#include "plan/dataflow.h"
#include "plan/image.h"

static BS_ALIGNED uint8_t persistent[8 << 20], transient[8 << 20], staging[1 << 16];
static bs_memory memory;
static bs_error error;
static const bs_value none;
static net_table weights;

enum { ROWS = 11, WIDTH = 6, UNITS = 5 };

static bs_graph *new_graph(void)
{
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    return bs_graph_create(&memory.persistent, NULL);
}

static void add_weights(void)
{
    const int64_t w[2] = {UNITS, WIDTH}, u[2] = {UNITS, UNITS}, b[1] = {UNITS}, s[2] = {2, WIDTH}, two[1] = {2};
    const int64_t k[4] = {2, 2, 3, 3};
    net_add(&weights, "w.weight", 2, w, 0.5f);
    net_add(&weights, "w.bias", 1, b, 0.1f);
    net_add(&weights, "u.weight", 2, u, 0.5f);
    net_add(&weights, "u.bias", 1, b, 0.1f);
    net_add(&weights, "more", 1, b, 0.5f);
    net_add(&weights, "s.weight", 2, s, 0.5f);
    net_add(&weights, "s.bias", 1, two, 0.1f);
    net_add(&weights, "c.weight", 4, k, 0.2f);
    net_add(&weights, "c.bias", 1, two, 0.1f);
    net_add(&weights, "d.weight", 4, k, 0.3f);
    net_add(&weights, "d.bias", 1, two, 0.1f);
}

/* ------------------------------------------------------------------------------------------------- networks
 * In each the op of node name "w" is built for all rows. */

typedef struct network {
    const char *what;
    bs_value (*build)(bs_graph *g);
    int32_t depth;  /* how many routers are above the "w" that is planned */
    int32_t merged; /* nodes that are left out, as an earlier one computes the same */
} network;

static bs_value rows_of(bs_graph *g) { return bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)), none); }
static bs_value w_of(bs_graph *g, bs_value x) { return bs_linear(g, x, &(bs_linear_desc){.name = "w", .out = UNITS}); }
static bs_value u_of(bs_graph *g, bs_value x) { return bs_linear(g, x, &(bs_linear_desc){.name = "u", .out = UNITS}); }

static bs_router two_ways(bs_graph *g, const char *name, bs_value x)
{
    const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = "s", .out = 2});
    return bs_route(g, score, none, &(bs_route_desc){.name = name, .protocol = BS_ROUTE_TOP1, .paths = 2});
}

static bs_value place(bs_graph *g, bs_router r, bs_value first, bs_value second, bs_value residual)
{
    return bs_gather(g, r, (const bs_value[]){first, second}, residual, NULL);
}

/* A product, a sum with a constant and an activation are read by path 1 alone. */
static bs_value chain(bs_graph *g)
{
    const bs_value x = rows_of(g), w = w_of(g, x);
    const bs_value sum = bs_add(g, w, bs_constant(g, "more", BS_F32, BS_SHAPE1(UNITS)));
    const bs_router r = two_ways(g, "r", x);
    const bs_value more = bs_activation(g, sum, BS_TANH, 0), slice = bs_slice(g, x, &(bs_slice_desc){.length = UNITS});
    return bs_collect(g, place(g, r, bs_scatter(g, r, 0, slice), u_of(g, bs_scatter(g, r, 1, more)), none));
}

/* A path reads it, and the other one. */
static bs_value both(bs_graph *g)
{
    const bs_value x = rows_of(g), w = w_of(g, x);
    const bs_router r = two_ways(g, "r", x);
    return bs_collect(g, place(g, r, bs_scatter(g, r, 0, w), u_of(g, bs_scatter(g, r, 1, w)), none));
}

/* So do rows that take no path. */
static bs_value residual(bs_graph *g)
{
    const bs_value x = rows_of(g), w = w_of(g, x);
    const bs_router r = two_ways(g, "r", x);
    return bs_collect(g, place(g, r, none, u_of(g, bs_scatter(g, r, 1, w)), w));
}

/* Read by the inner one of two routers, by way of both; with what is of the outer path already. */
static bs_value nested(bs_graph *g)
{
    const bs_value x = rows_of(g), w = w_of(g, x);
    const bs_router outer = two_ways(g, "outer", x);
    const bs_value in = bs_scatter(g, outer, 1, x), w_in = bs_scatter(g, outer, 1, w);
    const bs_value sum = bs_add(g, w_in, bs_slice(g, in, &(bs_slice_desc){.start = 1, .length = UNITS}));
    const bs_router inner = two_ways(g, "inner", bs_affine(g, in, -1, 0.25f));
    const bs_value slice = bs_slice(g, in, &(bs_slice_desc){.length = UNITS});
    const bs_value deep = place(g, inner, bs_scatter(g, inner, 0, slice), u_of(g, bs_scatter(g, inner, 1, sum)), none);
    return bs_collect(g, place(g, outer, none, deep, none));
}

/* By the inner router and by its surroundings: it sinks one level. */
static bs_value between(bs_graph *g)
{
    const bs_value x = rows_of(g), w = w_of(g, x);
    const bs_router outer = two_ways(g, "outer", x);
    const bs_value in = bs_scatter(g, outer, 1, x), w_in = bs_scatter(g, outer, 1, w);
    const bs_router inner = two_ways(g, "inner", bs_affine(g, in, -1, 0.25f));
    const bs_value deep = place(g, inner, none, u_of(g, bs_scatter(g, inner, 1, w_in)), w_in);
    return bs_collect(g, place(g, outer, none, deep, none));
}

/* The scores come of it: it cannot wait for the decision. */
static bs_value deciding(bs_graph *g)
{
    const bs_value x = rows_of(g), w = w_of(g, x);
    const bs_value score = bs_slice(g, w, &(bs_slice_desc){.length = 2});
    const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = "r", .paths = 2});
    return bs_collect(g, place(g, r, none, u_of(g, bs_scatter(g, r, 1, w)), none));
}

/* Built behind the decision, for all rows. */
static bs_value late(bs_graph *g)
{
    const bs_value x = rows_of(g);
    const bs_router r = two_ways(g, "r", x);
    const bs_value w = w_of(g, x), more = bs_add(g, w, bs_slice(g, x, &(bs_slice_desc){.start = 1, .length = UNITS}));
    return bs_collect(g, place(g, r, none, u_of(g, bs_scatter(g, r, 1, more)), none));
}

/* In the body of a loop a path of it reads what is made in each trip. */
static bs_value looped(bs_graph *g)
{
    const bs_value x = rows_of(g);
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "loop", .bound = 3, .no_lift = 1});
    const bs_value h = bs_loop_carry(g, loop, x), w = w_of(g, h);
    const bs_router r = two_ways(g, "r", h);
    const bs_value grown = bs_concat(g, (const bs_value[]){bs_scatter(g, r, 1, w),
                                     bs_slice(g, bs_scatter(g, r, 1, h), &(bs_slice_desc){.length = 1})}, 2, 0);
    const bs_value end = bs_loop_next(g, loop, h, place(g, r, bs_scatter(g, r, 0, h), grown, none));
    bs_loop_end(g, loop, none);
    return bs_collect(g, bs_slice(g, end, &(bs_slice_desc){.length = UNITS}));
}

/* Built twice, as is what follows; one of them for another op. */
static bs_value twice(bs_graph *g)
{
    const bs_value x = rows_of(g), a = w_of(g, x), b = w_of(g, x);
    const bs_value sum = bs_add(g, bs_activation(g, a, BS_TANH, 0), bs_activation(g, b, BS_TANH, 0));
    return bs_collect(g, bs_add(g, sum, bs_activation(g, b, BS_RELU, 0)));
}

/* Equal work on a path, of views that are equal. */
static bs_value twice_on_a_path(bs_graph *g)
{
    const bs_value x = rows_of(g);
    const bs_router r = two_ways(g, "r", x);
    const bs_value a = w_of(g, bs_scatter(g, r, 1, x)), b = w_of(g, bs_scatter(g, r, 1, x));
    return bs_collect(g, place(g, r, bs_scatter(g, r, 0, bs_slice(g, x, &(bs_slice_desc){.length = UNITS})),
                               bs_add(g, a, u_of(g, b)), none));
}

/* Built twice, and read by one path alone in both cases. */
static bs_value twice_and_sunk(bs_graph *g)
{
    const bs_value x = rows_of(g), a = w_of(g, x), b = w_of(g, x);
    const bs_router r = two_ways(g, "r", x);
    return bs_collect(g, place(g, r, none, bs_add(g, bs_scatter(g, r, 1, a), u_of(g, bs_scatter(g, r, 1, b))), none));
}

static const network networks[] = {{"a chain", chain, 1, 0},
                                   {"read by both paths", both, 0, 0},
                                   {"read by rows without a path", residual, 0, 0},
                                   {"read in a path of a path", nested, 2, 0},
                                   {"read in a path, and in a path of it", between, 1, 0},
                                   {"what decides", deciding, 0, 0},
                                   {"built behind the decision", late, 1, 0},
                                   {"in the body of a loop", looped, 2, 0},
                                   {"built twice", twice, 0, 2},
                                   {"built twice on a path", twice_on_a_path, 1, 2},
                                   {"built twice, read by one path", twice_and_sunk, 1, 1}};
#define NETWORKS ((int32_t)(sizeof networks / sizeof *networks))

/* ------------------------------------------------------------------------------------------------ same bytes */

static const bs_node *node_named(const bs_graph *g, const char *name)
{
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (strcmp(bs_node_name(&g->nodes[n]), name) == 0)
            return &g->nodes[n];
    return &g->nodes[0];
}

/* Every node reads lower ones, in its own domain or as its op reads: what the builder promises, of what was made. */
static bool is_sound(const bs_graph *g)
{
    bool sound = true;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const bs_domain *d = &g->domains[node->domain];
        sound = sound && (d->kind != BS_DOMAIN_PATH || n > g->routers[d->router].node);
        const bool structural = !bs_op_is_by_row(bs_node_op(node));
        for (int32_t i = 0; i < node->n_in; i++) {
            const int32_t v = bs_node_in(g, node)[i], of = g->values[v].domain;
            sound = sound && (v == 0 || g->values[v].node < n) && (structural || of == 0 || of == node->domain);
            sound = sound && (!bs_node_is(node, &bs_op_scatter) || g->domains[node->domain].parent == of);
        }
        for (int32_t i = 0; i < node->n_out; i++)
            sound = sound && g->values[node->first_out + i].node == n &&
                    g->values[node->first_out + i].domain == node->domain;
    }
    for (int32_t r = 1; r < g->n_routers; r++)
        sound = sound && g->nodes[g->routers[r].node].router == r;
    return sound;
}

static float x[ROWS * WIDTH], y[2][ROWS * UNITS];

static bool run_session(const bs_plan *plan, float *result)
{
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    memset(transient, 0xFF, sizeof transient); /* NaN */
    memset(result, 0x55, sizeof y[0]);
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    if (s) {
        bs_bind(s, "x", &(bs_buffer){x, BS_F32, 2, {ROWS, WIDTH}, {0}}, NULL);
        bs_bind(s, "y", &(bs_buffer){result, BS_F32, 2, {ROWS, UNITS}, {0}}, NULL);
    }
    const bool ran = s && bs_run(s, &error) == BS_OK;
    if (s)
        bs_session_close(s);
    return ran;
}

static bool run_network(const network *of, const bs_plan_desc *desc, float *result)
{
    bs_graph *g = new_graph();
    bs_output(g, "y", of->build(g));
    const size_t most = bs_plan_bytes(g, desc), before = memory.persistent.used;
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, desc, &error);
    const bool fits = plan && memory.persistent.used - before <= most;
    const bs_node *w = node_named(plan ? plan->graph : g, "w");
    const bool moves = (of->depth != g->domains[w->built_in].depth - 1 || of->merged) && !desc->no_dataflow;
    const int32_t depth = desc->no_dataflow ? g->domains[node_named(g, "w")->domain].depth - 1 : of->depth;
    check(fits && is_sound(plan->graph), "%s: the graph as it is planned is sound", of->what);
    check(plan && plan->graph->domains[w->domain].depth - 1 == depth && (plan->graph != g) == moves,
          "%s: its product is computed below %d routers", of->what, depth);
    check(w->merged == (moves && of->merged), "%s: once, if it was built twice", of->what);
    return run_session(plan, result);
}

static void fill(float *to, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        to[i] = (float)check_below(2001) / 1000.0f - 1.0f;
}

static void test_same_bytes(const network *of)
{
    fill(x, ROWS * WIDTH);
    for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++)
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            const bs_plan_desc with = {.order = order, .threads = threads};
            const bs_plan_desc without = {.order = order, .threads = threads, .no_fusion = 1, .no_dataflow = 1};
            const bool ran = run_network(of, &with, y[0]) && run_network(of, &without, y[1]);
            check(ran && memcmp(y[0], y[1], sizeof y[0]) == 0, "%s: the same bytes, order %d, %d threads: %s", of->what,
                  order, threads, error.message);
        }
}

/* ------------------------------------------------------------------------------------------------- in tiles */

enum { HEIGHT = 21, LENGTH = 26, PATCHES = 12 };
static float scores[PATCHES][2];
static float frame[2][HEIGHT][LENGTH], images[2][2][HEIGHT][LENGTH];

/* Convolutions of all patches, of which one path reads what the last makes: pixels of other patches belong to it. */
static bool run_tiles(int32_t no_dataflow, int32_t threads, float *result)
{
    bs_graph *g = new_graph();
    const bs_value in = bs_input(g, "frame", BS_F32, BS_SHAPE3(2, HEIGHT, LENGTH));
    const bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = 8});
    const bs_value c = bs_conv2d(g, cells, &(bs_conv2d_desc){.name = "c", .out = 2, .kernel = 3, .act = BS_RELU});
    const bs_value d = bs_conv2d(g, c, &(bs_conv2d_desc){.name = "d", .out = 2, .kernel = 3});
    const bs_value shade = bs_rows(g, bs_input(g, "score", BS_F32, BS_SHAPE2(PATCHES, 2)), cells);
    const bs_router r = bs_route(g, shade, none, &(bs_route_desc){.name = "r", .paths = 2});
    const bs_value sum = bs_add(g, bs_scatter(g, r, 1, d), bs_scatter(g, r, 1, cells));
    bs_output(g, "y", bs_assemble(g, place(g, r, bs_scatter(g, r, 0, cells), sum, none)));
    const bs_plan_desc desc = {.threads = threads, .no_fusion = 1, .no_dataflow = no_dataflow};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    const bs_graph *made = plan ? plan->graph : g;
    check(made->domains[node_named(made, "c")->domain].depth == 2 - no_dataflow, "convolutions sink");
    memset(transient, 0xFF, sizeof transient);
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    bs_bind(s, "frame", &(bs_buffer){frame, BS_F32, 3, {2, HEIGHT, LENGTH}, {0}}, NULL);
    bs_bind(s, "score", &(bs_buffer){scores, BS_F32, 2, {PATCHES, 2}, {0}}, NULL);
    bs_bind(s, "y", &(bs_buffer){result, BS_F32, 3, {2, HEIGHT, LENGTH}, {0}}, NULL);
    const bool ran = check(s && bs_run(s, &error) == BS_OK, "tiles run: %s", error.message);
    if (s)
        bs_session_close(s);
    return ran;
}

static void test_tiles(void)
{
    fill(&frame[0][0][0], 2 * HEIGHT * LENGTH);
    fill(&scores[0][0], 2 * PATCHES);
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        memset(images, 0x55, sizeof images);
        const bool ran = run_tiles(0, threads, &images[0][0][0][0]) && run_tiles(1, threads, &images[1][0][0][0]);
        check(ran && memcmp(images[0], images[1], sizeof images[0]) == 0, "in tiles: the same bytes, %d threads",
              threads);
    }
}

/* ------------------------------------------------------------------------------------------------- what stays */

/* A row of another path may hold an index that is out of range: the run fails all the same. */
static void test_refusals(void)
{
    for (int32_t no_dataflow = 0; no_dataflow <= 1; no_dataflow++) {
        bs_graph *g = new_graph();
        const bs_value rows = rows_of(g), index = bs_convert(g, bs_slice(g, rows, &(bs_slice_desc){.length = UNITS}),
                                                             &(bs_convert_desc){.dtype = BS_I32});
        const bs_value found = bs_gather_rows(g, rows, index);
        const bs_value score = bs_slice(g, rows, &(bs_slice_desc){.start = 4, .length = 2});
        const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = "r", .paths = 2});
        const bs_value part = bs_slice(g, bs_scatter(g, r, 1, found), &(bs_slice_desc){.length = UNITS});
        bs_output(g, "y", bs_collect(g, place(g, r, none, part, none)));
        const bs_plan_desc desc = {.no_fusion = 1, .no_dataflow = no_dataflow};
        const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
        for (int32_t i = 0; i < ROWS * WIDTH; i++)
            x[i] = (float)WIDTH - (float)(i % WIDTH == 5); /* beyond the last; the first path has all rows */
        check(!run_session(plan, y[0]) && error.status == BS_ERROR_DATA, "what is refused is refused: %s",
              error.message);
    }
}

/* The caller's graph stays as it is, and can be planned again; so can the graph that was made of it. */
static void test_graph_stays(void)
{
    bs_graph *g = new_graph();
    bs_output(g, "y", chain(g));
    const int32_t nodes = g->n_nodes, values = g->n_values, w = node_named(g, "w")->domain;
    const bs_plan_desc desc = {.no_fusion = 1};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    const bool same = g->n_nodes == nodes && g->n_values == values && node_named(g, "w")->domain == w;
    check(plan && plan->graph != g && same, "the caller's graph stays as it is");
    const bs_plan *again = bs_plan_create(&memory.persistent, NULL, plan->graph, &desc, &error);
    check(again && again->graph == plan->graph, "in what was made of it nothing is left to move");
    char text[1 << 14];
    bs_plan_report(plan, text, sizeof text);
    check(strstr(text, "linear w: built for rows [11], needed by path 1 of \"r\" alone, 60 flop a row") != NULL,
          "the report says what was moved, and why");
    check(strstr(text, "together 75 flop a row that other rows are spared") != NULL, "and what that saves");
}

/* Weights that stream stay where they were built: their record is read as a whole. */
static void test_streamed(void)
{
    bs_graph *g = new_graph();
    const bs_value rows = rows_of(g);
    bs_block_begin(g, "b");
    const bs_value w = w_of(g, rows);
    bs_block_end(g);
    const bs_value more = bs_activation(g, w, BS_TANH, 0);
    const bs_router r = two_ways(g, "r", rows);
    bs_output(g, "y", bs_collect(g, place(g, r, none, u_of(g, bs_scatter(g, r, 1, more)), none)));
    const bs_plan_desc desc = {.slot_bytes = 1 << 20};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    const bs_graph *made = plan ? plan->graph : g;
    check(plan && made->domains[node_named(made, "w")->domain].depth == 1, "streamed weights stay: %s", error.message);
    check(made != g, "what has none sinks all the same");
}

static void test_images(void)
{
    static plan_image image;
    for (int32_t no_dataflow = 0; no_dataflow <= 1; no_dataflow++) {
        bs_graph *g = new_graph();
        bs_output(g, "y", chain(g));
        const bs_plan_desc desc = {.no_fusion = 1, .no_dataflow = no_dataflow};
        const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
        const bool ran = run_session(plan, y[0]) && plan_image_save(&image, plan);
        const bs_plan *opened = ran ? plan_image_open(&image, g) : NULL;
        check(opened && (opened->graph == g) == (no_dataflow == 1) && opened->graph->n_nodes == plan->graph->n_nodes,
              "a saved plan is of the graph it was made of: %s", image.error.message);
        check(opened && run_session(opened, y[1]) && memcmp(y[0], y[1], sizeof y[0]) == 0, "and gives the same bytes");
        bs_image_head *head = (bs_image_head *)(void *)image.bytes;
        head->dataflow = BS_DATAFLOW_END;
        plan_image_mend(&image);
        check(!plan_image_open(&image, g) && image.error.status == BS_ERROR_GRAPH, "no way but those there are: %s",
              image.error.message);
        head->dataflow = BS_DATAFLOW_MOVES | BS_DATAFLOW_STAYS;
        plan_image_mend(&image);
        check(!plan_image_open(&image, g), "nor another one: %s", image.error.message);
        plan_image_free(&image);
    }
}

/* At every size of its arena the plan is made, or refused with a message, and the arena is as before. */
static void test_room(void)
{
    bs_graph *g = new_graph();
    bs_output(g, "y", nested(g));
    const size_t most = bs_plan_bytes(g, NULL), mark = memory.persistent.used;
    int32_t wrong = 0, made = 0;
    for (size_t n = 0; n <= most; n += 64) {
        bs_arena arena = memory.persistent;
        arena.size = mark + n;
        const bs_plan *plan = bs_plan_create(&arena, NULL, g, NULL, &error);
        made += plan != NULL;
        wrong += plan ? arena.used > arena.size : error.status != BS_ERROR_ARENA || arena.used != mark || made;
    }
    check(wrong == 0 && made > 0, "an arena is large enough, or the plan is refused");
}

/* A node sinks through so many levels at once, so that a file of any depth takes linear time. */
static void test_depth(void)
{
    const bs_graph_desc room = {.max_routers = 100, .max_nodes = 800, .max_values = 1000};
    for (int32_t levels = 60; levels <= 70; levels += 10) {
        static char names[100][8];
        new_graph();
        bs_graph *g = bs_graph_create(&memory.persistent, &room);
        bs_router r[100];
        bs_value at = rows_of(g), w = w_of(g, at), end;
        for (int32_t i = 0; i < levels; i++) {
            snprintf(names[i], sizeof names[i], "r%d", i);
            r[i] = bs_route(g, bs_slice(g, at, &(bs_slice_desc){.start = i % 5, .length = 2}), none,
                            &(bs_route_desc){.name = names[i], .protocol = BS_ROUTE_THRESHOLD, .paths = 2});
            at = bs_scatter(g, r[i], 1, at);
            w = bs_scatter(g, r[i], 1, w);
        }
        end = u_of(g, w);
        for (int32_t i = levels - 1; i >= 0; i--)
            end = bs_gather(g, r[i], (const bs_value[]){none, end}, none, &(bs_gather_desc){.mode = BS_GATHER_SELECT});
        bs_output(g, "y", bs_collect(g, end));
        fill(x, ROWS * WIDTH);
        for (int32_t no_dataflow = 0; no_dataflow <= 1; no_dataflow++) {
            const bs_plan_desc desc = {.no_fusion = 1, .no_dataflow = no_dataflow};
            const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
            const int32_t sunk = no_dataflow || levels > 64 ? 0 : levels;
            check(plan && is_sound(plan->graph), "%d levels: sound: %s", levels, error.message);
            check(plan && plan->graph->domains[node_named(plan->graph, "w")->domain].depth == 1 + sunk,
                  "%d levels: it sinks %d", levels, sunk);
            check(run_session(plan, y[no_dataflow]), "%d levels: it runs: %s", levels, error.message);
        }
        check(memcmp(y[0], y[1], sizeof y[0]) == 0, "%d levels: the same bytes", levels);
    }
}

/* What a domain refers to has another number when nodes before it are left out. */
static void test_segments(void)
{
    static const int32_t lengths[3] = {4, 0, 7};
    for (int32_t no_dataflow = 0; no_dataflow <= 1; no_dataflow++) {
        bs_graph *g = new_graph();
        const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH));
        const bs_value both_of = bs_add(g, bs_affine(g, in, 2, 1), bs_affine(g, in, 2, 1));
        const bs_value parts = bs_segments(g, both_of, bs_input(g, "lengths", BS_I32, BS_SHAPE1(3)));
        const bs_value sums = bs_segment_reduce(g, parts, &(bs_segment_reduce_desc){.mode = BS_SEGMENT_SUM});
        bs_output(g, "sums", sums);
        const bs_plan_desc desc = {.no_fusion = 1, .no_dataflow = no_dataflow};
        const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
        bs_session *s = plan ? bs_session_create(&memory, plan, NULL, &error) : NULL;
        bs_bind(s, "x", &(bs_buffer){x, BS_F32, 2, {ROWS, WIDTH}, {0}}, NULL);
        bs_bind(s, "lengths", &(bs_buffer){(int32_t *)(uintptr_t)lengths, BS_I32, 1, {3}, {0}}, NULL);
        bs_bind(s, "sums", &(bs_buffer){y[no_dataflow], BS_F32, 2, {3, WIDTH}, {0}}, NULL);
        check(s && bs_run(s, &error) == BS_OK, "segments run: %s", error.message);
        bs_session_close(s);
    }
    check(memcmp(y[0], y[1], sizeof(float) * 3 * WIDTH) == 0, "segments: the same bytes");
}

int main(void)
{
    check_seed(7);
    add_weights();
    for (int32_t i = 0; i < NETWORKS; i++)
        test_same_bytes(&networks[i]);
    test_tiles();
    test_refusals();
    test_graph_stays();
    test_streamed();
    test_images();
    test_room();
    test_depth();
    test_segments();
    return check_end();
}
