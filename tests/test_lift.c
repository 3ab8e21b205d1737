/* tags: asan tsan */
/* Promises: what is the same in every trip is computed before the loop, as far out as it can be, and results are the
 * same bytes as where nothing is lifted; what may differ from trip to trip, or needs its rows, stays; what is
 * refused is so in the same words, and no run is refused for rows that make no trip. (Random graphs: test_planner.c;
 * model files: test_lift_files.c.) */
#include "net.h"

#include "ops/structure.h"
#include "plan/plan.h"

static BS_ALIGNED uint8_t persistent[8 << 20], transient[8 << 20], staging[1 << 16];
static bs_memory memory;
static bs_error error;
static const bs_value none;
static net_table weights;

enum { ROWS = 9, WIDTH = 6, UNITS = 5, BOUND = 7 };

static bs_graph *new_graph(const bs_graph_desc *desc)
{
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    return bs_graph_create(&memory.persistent, desc);
}

static bs_session *open_session(const bs_graph *g, int32_t order, int32_t threads)
{
    const bs_plan_desc desc = {.order = order, .threads = threads};
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    memset(transient, 0xFF, sizeof transient); /* NaN */
    return plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
}

static void add_weights(void)
{
    const int64_t w[2] = {UNITS, WIDTH}, u[2] = {UNITS, UNITS}, b[1] = {UNITS}, k[4] = {2, 2, 3, 3}, two[1] = {2};
    net_add(&weights, "w.weight", 2, w, 0.5f);
    net_add(&weights, "w.bias", 1, b, 0.1f);
    net_add(&weights, "u.weight", 2, u, 0.5f);
    net_add(&weights, "u.bias", 1, b, 0.1f);
    net_add(&weights, "more", 1, b, 0.5f);
    net_add(&weights, "c.weight", 4, k, 0.2f);
    net_add(&weights, "c.bias", 1, two, 0.1f);
}

/* The node that an op of this name and, if it is not NULL, node name made last. */
static const bs_node *last_of(const bs_graph *g, const char *op, const char *name)
{
    const bs_node *last = NULL;
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (strcmp(bs_node_op(&g->nodes[n])->name, op) == 0 &&
            (!name || strcmp(bs_node_name(&g->nodes[n]), name) == 0))
            last = &g->nodes[n];
    return last;
}

/* ------------------------------------------------------------------------------------------------- same bytes
 * Each network is built with lifting and without; its product "w" stands around the loops, or in them. */

typedef bs_value (*network)(bs_graph *g, int32_t no_lift);

static bs_value rows_of(bs_graph *g, const char *name, int32_t width)
{
    return bs_rows(g, bs_input(g, name, BS_F32, BS_SHAPE2(ROWS, width)), none);
}

static bs_value product(bs_graph *g, bs_value x)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = "w", .out = UNITS});
}

static bs_value next_of(bs_graph *g, bs_value h, bs_value own)
{
    return bs_activation(g, bs_add(g, bs_linear(g, h, &(bs_linear_desc){.name = "u", .out = UNITS}), own), BS_TANH, 0);
}

/* A chain of a product, a sum with a constant and a slice of another result. */
static bs_value chain(bs_graph *g, bs_router loop, bs_value x)
{
    const bs_value own = product(g, bs_scatter(g, loop, 0, x));
    const bs_value sum = bs_add(g, own, bs_constant(g, "more", BS_F32, BS_SHAPE1(UNITS)));
    return bs_concat(g, (const bs_value[]){bs_slice(g, sum, &(bs_slice_desc){.start = 1, .length = UNITS - 1}),
                                           bs_slice(g, own, &(bs_slice_desc){.length = 1})}, 2, 0);
}

static bs_value counted(bs_graph *g, int32_t no_lift)
{
    const bs_value x = rows_of(g, "x", WIDTH), h0 = rows_of(g, "h", UNITS);
    const bs_value n = bs_rows(g, bs_input(g, "n", BS_I32, BS_SHAPE2(ROWS, 1)), x);
    const bs_router loop =
        bs_loop_begin(g, x, n, &(bs_loop_desc){.name = "loop", .bound = BOUND, .no_lift = no_lift});
    const bs_value h = bs_loop_carry(g, loop, h0), end = bs_loop_next(g, loop, h, next_of(g, h, chain(g, loop, x)));
    bs_loop_end(g, loop, none);
    return bs_collect(g, end);
}

static bs_value in_turn(bs_graph *g, int32_t no_lift)
{
    const bs_value x = rows_of(g, "x", WIDTH), h0 = rows_of(g, "h", UNITS);
    const bs_value table = bs_input(g, "below", BS_I32, BS_SHAPE2(ROWS, 2)), level = bs_rows(g, bs_levels(g, table), x);
    const bs_value below = bs_rows(g, table, x);
    const bs_router loop = bs_loop_begin(
        g, x, level, &(bs_loop_desc){.name = "tree", .bound = ROWS, .in_turn = 1, .no_lift = no_lift});
    const bs_value h = bs_loop_carry(g, loop, h0), of = bs_loop_rows(g, loop, h, bs_scatter(g, loop, 0, below));
    const bs_value sum = bs_reduce(g, of, &(bs_reduce_desc){.kind = BS_REDUCE_SUM});
    const bs_value end = bs_loop_next(g, loop, h, next_of(g, sum, chain(g, loop, x)));
    bs_loop_end(g, loop, none);
    return bs_collect(g, end);
}

/* The same in a loop of the outside and one in it: both hand on what they carry. */
static bs_value nested(bs_graph *g, int32_t no_lift)
{
    const bs_value x = rows_of(g, "x", WIDTH), h0 = rows_of(g, "h", UNITS);
    const bs_value n = bs_rows(g, bs_input(g, "n", BS_I32, BS_SHAPE2(ROWS, 1)), x);
    const bs_router outer =
        bs_loop_begin(g, x, n, &(bs_loop_desc){.name = "outer", .bound = BOUND, .no_lift = no_lift});
    const bs_value a = bs_loop_carry(g, outer, h0), given = bs_scatter(g, outer, 0, x);
    const bs_router inner =
        bs_loop_begin(g, a, none, &(bs_loop_desc){.name = "inner", .bound = 2, .no_lift = no_lift});
    const bs_value b = bs_loop_carry(g, inner, a);
    const bs_value end = bs_loop_next(g, inner, b, next_of(g, b, chain(g, inner, given)));
    bs_loop_end(g, inner, none);
    const bs_value all = bs_loop_next(g, outer, a, end);
    bs_loop_end(g, outer, none);
    return bs_collect(g, all);
}

/* At top level: a row is a tensor. */
static bs_value of_root(bs_graph *g, int32_t no_lift)
{
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)),
                   h0 = bs_input(g, "h", BS_F32, BS_SHAPE2(ROWS, UNITS));
    const bs_router loop =
        bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "loop", .bound = BOUND, .no_lift = no_lift});
    const bs_value h = bs_loop_carry(g, loop, h0), own = product(g, bs_scatter(g, loop, 0, x));
    const bs_value end = bs_loop_next(g, loop, h, next_of(g, h, own));
    bs_loop_end(g, loop, none);
    return end;
}

/* An op with two results, the results handed on as they are, and collected. */
static bs_value two_results(bs_graph *g, int32_t no_lift)
{
    const bs_value x = rows_of(g, "x", WIDTH), h0 = rows_of(g, "h", UNITS);
    const bs_router loop =
        bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "loop", .bound = 3, .no_lift = no_lift});
    const bs_value h = bs_loop_carry(g, loop, h0);
    bs_value at = none;
    const bs_value best = bs_topk(g, product(g, bs_scatter(g, loop, 0, x)), UNITS, &at);
    const bs_value last =
        bs_loop_next(g, loop, h, bs_add(g, h, bs_convert(g, at, &(bs_convert_desc){.dtype = BS_F32})));
    const bs_value each = bs_loop_collect(g, loop, best), as_is = bs_loop_next(g, loop, none, best);
    bs_loop_end(g, loop, none);
    const bs_value sum = bs_reduce(g, each, &(bs_reduce_desc){.kind = BS_REDUCE_SUM});
    return bs_collect(g, bs_add(g, bs_add(g, sum, as_is), last));
}

static float x[ROWS * WIDTH], h[ROWS * UNITS], y[2][ROWS * UNITS];
static int32_t n[ROWS] = {3, 0, 7, 1, 2, 0, 7, 5, 1};
static int32_t below[ROWS][2] = {{-1, -1}, {0, -1}, {1, 0}, {-1, -1}, {3, 2}, {4, 4}, {-1, -1}, {6, 5}, {7, 1}};

static void bind(bs_session *s, const char *name, void *data, bs_dtype dtype, int64_t width)
{
    bs_bind(s, name, &(bs_buffer){data, dtype, 2, {ROWS, width}, {0}}, NULL); /* what it does not have is refused */
}

static bool run_network(network build, int32_t no_lift, int32_t order, int32_t threads, float *result)
{
    bs_graph *g = new_graph(NULL);
    bs_output(g, "y", build(g, no_lift));
    bs_session *s = open_session(g, order, threads);
    bind(s, "x", x, BS_F32, WIDTH);
    bind(s, "h", h, BS_F32, UNITS);
    bind(s, "n", n, BS_I32, 1);
    bind(s, "below", below, BS_I32, 2);
    bind(s, "y", result, BS_F32, UNITS);
    memset(result, 0x55, sizeof y[0]);
    const bool ran = s && bs_run(s, &error) == BS_OK;
    const bs_node *w = last_of(g, "linear", "w");
    const int32_t top = g->domains[w->domain].top;
    check(ran, "it runs: %s", error.message);
    check(no_lift ? g->domains[w->domain].loop != 0 : w->domain == top,
          "its product is computed %s", no_lift ? "in each trip" : "of all rows");
    if (s)
        bs_session_close(s);
    return ran;
}

static void test_same_bytes(network build, const char *what)
{
    for (int32_t i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t i = 0; i < ROWS * UNITS; i++)
        h[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++)
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            const bool ran = run_network(build, 0, order, threads, y[0]) && run_network(build, 1, order, threads, y[1]);
            check(ran && memcmp(y[0], y[1], sizeof y[0]) == 0, "%s: the same bytes, order %d, %d threads", what, order,
                  threads);
        }
}

/* ------------------------------------------------------------------------------------------------- in tiles */

enum { HEIGHT = 21, LENGTH = 26 };

static float frame[2][HEIGHT][LENGTH], images[2][2][HEIGHT][LENGTH];

/* The loop of each patch adds what a convolution makes of the frame, with pixels of other patches. */
static bool run_tiles(int32_t no_lift, int32_t threads, float *result)
{
    bs_graph *g = new_graph(NULL);
    const bs_value in = bs_input(g, "frame", BS_F32, BS_SHAPE3(2, HEIGHT, LENGTH));
    const bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = 8});
    const bs_router loop =
        bs_loop_begin(g, cells, none, &(bs_loop_desc){.name = "loop", .bound = 3, .no_lift = no_lift});
    const bs_value before = bs_loop_carry(g, loop, cells), given = bs_scatter(g, loop, 0, cells);
    const bs_value edges = bs_conv2d(g, given, &(bs_conv2d_desc){.name = "c", .out = 2, .kernel = 3});
    const bs_value sum = bs_add(g, bs_affine(g, before, 0.5f, 0.125f), edges);
    const bs_value end = bs_loop_next(g, loop, before, sum);
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_assemble(g, end));
    check(g->domains[last_of(g, "conv2d", "c")->domain].loop == (no_lift ? loop.id : 0), "a convolution of patches");
    bs_session *s = open_session(g, BS_ORDER_DEPTH, threads);
    bs_bind(s, "frame", &(bs_buffer){frame, BS_F32, 3, {2, HEIGHT, LENGTH}, {0}}, NULL);
    bs_bind(s, "y", &(bs_buffer){result, BS_F32, 3, {2, HEIGHT, LENGTH}, {0}}, NULL);
    const bool ran = check(s && bs_run(s, &error) == BS_OK, "tiles run: %s", error.message);
    if (s)
        bs_session_close(s);
    return ran;
}

static void test_tiles(void)
{
    for (int32_t i = 0; i < 2 * HEIGHT * LENGTH; i++)
        (&frame[0][0][0])[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        memset(images, 0x55, sizeof images);
        const bool ran = run_tiles(0, threads, &images[0][0][0][0]) && run_tiles(1, threads, &images[1][0][0][0]);
        check(ran && memcmp(images[0], images[1], sizeof images[0]) == 0, "in tiles: the same bytes, %d threads",
              threads);
    }
}

/* ------------------------------------------------------------------------------------------------- what stays */

/* The domain of what is made in the body of one of two loops: around both, of the outer one, of the inner one. */
enum { AROUND, OUTER, INNER };

typedef struct loops {
    bs_graph *g;
    bs_value x, n, table;
    bs_router outer, inner;
    bs_value carried, in_outer, in_inner; /* x in both */
} loops;

static int32_t place_of(const loops *l, bs_value v)
{
    const bs_node *shown = &l->g->nodes[l->g->values[v.id].node];
    const bool lifted = bs_node_is(shown, &bs_op_scatter);
    const int32_t last = lifted ? bs_node_in(l->g, shown)[0] : v.id;
    const bs_node *made = &l->g->nodes[l->g->values[last].node];
    const int32_t source = bs_node_is(made, &bs_op_scatter) ? bs_node_in(l->g, made)[0] : last;
    const int32_t loop = l->g->domains[l->g->values[source].domain].loop;
    return loop == l->inner.id ? INNER : loop == l->outer.id ? OUTER : AROUND;
}

static void begin(loops *l, const bs_loop_desc *outer, const bs_loop_desc *inner)
{
    bs_graph *g = l->g = new_graph(NULL);
    l->x = rows_of(g, "x", WIDTH);
    l->table = bs_rows(g, bs_input(g, "table", BS_F32, BS_SHAPE3(ROWS, 4, WIDTH)), l->x);
    l->n = bs_rows(g, bs_input(g, "n", BS_I32, BS_SHAPE2(ROWS, 1)), l->x);
    l->outer = bs_loop_begin(g, l->x, outer->grows ? l->n : none, outer);
    l->in_outer = bs_scatter(g, l->outer, 0, l->x);
    l->carried = bs_loop_carry(g, l->outer, l->x);
    l->inner = bs_loop_begin(g, l->carried, inner->in_turn ? bs_scatter(g, l->outer, 0, l->n) : none, inner);
    l->in_inner = bs_scatter(g, l->inner, 0, l->in_outer);
}

static void test_places(void)
{
    static const bs_loop_desc plain[2] = {{.name = "outer", .bound = 4}, {.name = "inner", .bound = 4}};
    loops l;
    begin(&l, &plain[0], &plain[1]);
    bs_graph *g = l.g;
    const bs_value twice = bs_affine(g, l.in_inner, 2, 0), again = bs_add(g, twice, l.in_inner);
    check(place_of(&l, twice) == AROUND && place_of(&l, again) == AROUND, "a chain rises out of both loops");
    check(g->values[again.id].domain == g->routers[l.inner.id].path_domains, "and is read in the body");
    const bs_value of_outer = bs_affine(g, bs_scatter(g, l.inner, 0, l.carried), 2, 0);
    check(place_of(&l, of_outer) == OUTER, "what the outer loop carries rises out of the inner one alone");
    check(place_of(&l, bs_add(g, of_outer, twice)) == OUTER, "and so does what it is added to");
    check(place_of(&l, bs_affine(g, l.in_outer, 2, 0)) == AROUND, "of the outer body, while the inner one is open");
    const bs_value carried = bs_loop_carry(g, l.inner, l.in_outer);
    check(place_of(&l, bs_affine(g, carried, 2, 0)) == INNER, "what is carried stays");
    check(place_of(&l, bs_add(g, carried, twice)) == INNER, "with whatever it is added to");
    const bs_value trip = bs_convert(g, bs_loop_trip(g, l.inner), &(bs_convert_desc){.dtype = BS_F32});
    check(place_of(&l, trip) == INNER, "the number of the trip stays");
    const bs_value step = bs_loop_slice(g, l.inner, bs_scatter(g, l.outer, 0, l.table));
    check(place_of(&l, bs_affine(g, step, 2, 0)) == INNER, "slices stay");
    const bs_route_desc by = {.name = "by", .protocol = BS_ROUTE_TOP1, .paths = WIDTH};
    const bs_router router = bs_route(g, l.in_inner, none, &by);
    const bs_value path = bs_affine(g, bs_scatter(g, router, 1, l.in_inner), 2, 0);
    check(strcmp(bs_node_op(&g->nodes[g->values[path.id].node])->name, "affine") == 0, "paths of routers stay");
    const bs_value constant = bs_affine(g, bs_constant(g, "c", BS_F32, BS_SHAPE1(WIDTH)), 2, 0);
    check(g->values[constant.id].domain == 0, "root values are where they were");
    check(g->status == BS_OK, "all of it is built: %s", g->error.message);
}

static void test_switches(void)
{
    loops l;
    begin(&l, &(bs_loop_desc){.name = "outer", .bound = 4, .no_lift = 1}, &(bs_loop_desc){.name = "inner", .bound = 4});
    check(place_of(&l, bs_affine(l.g, l.in_inner, 2, 0)) == OUTER, "not out of the outer loop, if that says so");
    begin(&l, &(bs_loop_desc){.name = "outer", .bound = 4}, &(bs_loop_desc){.name = "inner", .bound = 4, .no_lift = 1});
    check(place_of(&l, bs_affine(l.g, l.in_inner, 2, 0)) == INNER, "nor out of any, if the inner one says so");
    begin(&l, &(bs_loop_desc){.name = "outer", .bound = 4, .grows = 1}, &(bs_loop_desc){.name = "inner", .bound = 4});
    check(place_of(&l, bs_affine(l.g, l.in_inner, 2, 0)) == OUTER, "not out of a loop that makes its rows");
    begin(&l, &(bs_loop_desc){.name = "outer", .bound = 4},
          &(bs_loop_desc){.name = "inner", .bound = 4, .in_turn = 1});
    check(place_of(&l, bs_affine(l.g, l.in_inner, 2, 0)) == AROUND, "rows in turn are all there before");
}

/* Rows of a segment influence each other: those that make a trip alone. */
static void test_segments(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value words = bs_input(g, "words", BS_F32, BS_SHAPE2(ROWS, WIDTH)),
                   lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(3)), rows = bs_segments(g, words, lengths);
    const bs_router loop = bs_loop_begin(g, rows, none, &(bs_loop_desc){.name = "loop", .bound = 4});
    const bs_value given = bs_scatter(g, loop, 0, rows);
    const bs_value sum = bs_segment_reduce(g, given, &(bs_segment_reduce_desc){.mode = BS_SEGMENT_SUM, .to_rows = 1});
    check(g->status == BS_OK && g->domains[g->values[sum.id].domain].loop == loop.id &&
              g->domains[last_of(g, "segment_reduce", NULL)->domain].loop == loop.id,
          "what sees other rows stays: %s", g->error.message);
}

/* ------------------------------------------------------------------------------------------------- refusals */

/* Row 1 makes no trip, and names a row of the table that is not there. */
static bs_status run_index(bool counts, int32_t index, bool *stays)
{
    static float table[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, out[3][2];
    int32_t at[3] = {0, index, 3}, count[3] = {2, 0, 1};
    bs_graph *g = new_graph(NULL);
    const bs_value of = bs_rows(g, bs_input(g, "at", BS_I32, BS_SHAPE2(3, 1)), none),
                   most = bs_rows(g, bs_input(g, "count", BS_I32, BS_SHAPE2(3, 1)), of),
                   in = bs_input(g, "table", BS_F32, BS_SHAPE2(4, 2));
    const bs_router loop = bs_loop_begin(g, of, counts ? most : none, &(bs_loop_desc){.name = "loop", .bound = 2});
    const bs_value line = bs_reshape(g, bs_gather_rows(g, in, bs_scatter(g, loop, 0, of)), BS_SHAPE1(2));
    const bs_value end = bs_loop_next(g, loop, none, line);
    bs_loop_end(g, loop, none);
    bs_output(g, "out", bs_collect(g, end));
    *stays = g->domains[last_of(g, "gather_rows", NULL)->domain].loop != 0;
    bs_session *s = open_session(g, BS_ORDER_AUTO, 1);
    bs_bind(s, "at", &(bs_buffer){at, BS_I32, 2, {3, 1}, {0}}, NULL);
    bs_bind(s, "count", &(bs_buffer){count, BS_I32, 2, {3, 1}, {0}}, NULL);
    bs_bind(s, "table", &(bs_buffer){table, BS_F32, 2, {4, 2}, {0}}, NULL);
    bs_bind(s, "out", &(bs_buffer){out, BS_F32, 2, {3, 2}, {0}}, NULL);
    const bs_status status = bs_run(s, &error);
    check(status != BS_OK || (out[0][0] == 1 && out[2][1] == 8 && out[1][0] == (counts ? 0 : table[index][0])),
          "lines of a table");
    bs_session_close(s);
    return status;
}

static void test_indices(void)
{
    bool stays;
    check(run_index(true, 9, &stays) == BS_OK && stays, "a row without a trip may hold anything: %s", error.message);
    check(run_index(false, 2, &stays) == BS_OK && !stays, "where all rows make one it is lifted: %s", error.message);
    check(run_index(false, 9, &stays) == BS_ERROR_DATA, "and an index that is wrong is refused: %s", error.message);
}

/* An op is not asked for what has no elements, where a loop may make no trip: by its count, or by what it goes over. */
static void test_extents_from_data(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value found = bs_nonzero(g, bs_input(g, "mask", BS_F32, BS_SHAPE1(ROWS)), 0);
    const bs_value count = bs_input(g, "n", BS_I32, BS_SHAPE1(1));
    static const bs_loop_desc descs[3] = {
        {.name = "all", .bound = 2}, {.name = "counts", .bound = 2}, {.name = "over"}};
    for (int32_t i = 0; i < 3; i++) {
        bs_loop_desc desc = descs[i];
        desc.over = i == 2 ? found : none;
        const bs_router loop = bs_loop_begin(g, found, i == 1 ? count : none, &desc);
        const bs_value given = bs_scatter(g, loop, 0, found), twice = bs_add(g, given, given);
        check(g->status == BS_OK && bs_node_is(&g->nodes[g->values[twice.id].node], &bs_op_scatter) == (i == 0),
              "what may have no elements is lifted where there is a trip for sure, %s: %s", desc.name,
              g->error.message);
        bs_loop_end(g, loop, none);
    }
}

/* A scatter a loop for each result, of which the graph's limits know; results of six axes cannot be scattered. */
static void test_room(void)
{
    static const bs_graph_desc all = {.max_nodes = 6, .max_values = 5, .max_operands = 7, .max_text_bytes = 320};
    for (int32_t less = 0; less < 4; less++) {
        bs_graph_desc desc = all;
        desc.max_nodes -= less == 1;
        desc.max_values -= less == 2;
        desc.max_operands -= less == 3;
        bs_graph *g = new_graph(&desc);
        const bs_value rows = rows_of(g, "x", WIDTH);
        const bs_router loop = bs_loop_begin(g, rows, none, &(bs_loop_desc){.name = "loop", .bound = 2});
        const bs_value w = product(g, bs_scatter(g, loop, 0, rows));
        const bool full = g->n_nodes == g->max_nodes + 1 && g->n_values == g->max_values + 1 &&
                          g->n_operands == g->max_operands;
        check(less ? w.id == 0 && g->status == BS_ERROR_LIMIT && strstr(g->error.message, "scatter: the graph is full")
                   : w.id != 0 && full,
              "one scatter more is all that a graph needs, %d: %s", less, g->error.message);
    }
    bs_graph *g = new_graph(NULL);
    const bs_value rows = rows_of(g, "x", WIDTH);
    const bs_router loop = bs_loop_begin(g, rows, none, &(bs_loop_desc){.name = "loop", .bound = 2});
    const bs_value wide = bs_reshape(g, bs_scatter(g, loop, 0, rows), (bs_shape){6, {1, 2, 1, 3, 1, 1}});
    const bs_value flat = bs_reshape(g, wide, BS_SHAPE1(WIDTH));
    check(g->status == BS_OK && flat.id && g->domains[g->values[flat.id].domain].loop == loop.id,
          "results of six axes stay: %s", g->error.message);
}

/* Refused as it would be without lifting, in the same words. */
static void test_messages(void)
{
    char said[2][256];
    for (int32_t no_lift = 0; no_lift < 2; no_lift++) {
        bs_graph *g = new_graph(NULL);
        const bs_value rows = bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH));
        const bs_router loop =
            bs_loop_begin(g, rows, none, &(bs_loop_desc){.name = "loop", .bound = 2, .no_lift = no_lift});
        bs_nonzero(g, bs_scatter(g, loop, 0, rows), 0);
        check(g->status == BS_ERROR_DOMAIN, "an op of the root, in the body of a loop of the root: %s",
              g->error.message);
        snprintf(said[no_lift], sizeof said[no_lift], "%s", g->error.message);
    }
    check(strcmp(said[0], said[1]) == 0, "is refused in the same words");
}

int main(void)
{
    check_seed(7);
    add_weights();
    test_same_bytes(counted, "with counts");
    test_same_bytes(in_turn, "rows in turn");
    test_same_bytes(nested, "a loop in a loop");
    test_same_bytes(of_root, "a loop of the root");
    test_same_bytes(two_results, "two results");
    test_tiles();
    test_places();
    test_switches();
    test_segments();
    test_indices();
    test_extents_from_data();
    test_room();
    test_messages();
    return check_end();
}
