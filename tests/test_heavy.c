/* tags: asan tsan */
/* Promises: where the planner chooses the order, what has many weights beside its rows runs at top level, and what is
 * around it on images runs in tiles: also on paths, between exits, and in a network that ends with large images again.
 * The bytes are those of all layers in tiles, and of layer by layer, whatever the threads; what tiles decide about is
 * left in them. Rows of a product with many weights, a few or many of which one task takes, have the bytes of tiles
 * of 16. */
#include "net.h"
#include "plan_image.h"

#include "ops/structure.h"
#include "plan/plan.h"

static BS_ALIGNED uint8_t persistent[24 << 20], transient[24 << 20], staging[1 << 20];
static bs_memory memory;
static bs_error error;
static const bs_value none;
static net_table weights;

enum { ROWS = 5, SIDE = 8, WIDE = 48, CLASSES = 3, MANY = 200, LONG = 200 };
static float x[ROWS][3][SIDE][SIDE], y[3][ROWS][4][SIDE][SIDE];

static void add_weights(void)
{
    const struct { const char *name; int64_t out, in, kernel; } all[] = {
        {"few", 4, 3, 3}, {"into", WIDE, 4, 1}, {"heavy", WIDE, WIDE, 3}, {"back", 4, WIDE, 1}, {"last", 4, 4, 3}};
    static char names[5][2][16];
    for (int32_t i = 0; i < 5; i++) {
        const int64_t w[4] = {all[i].out, all[i].in, all[i].kernel, all[i].kernel}, b[1] = {all[i].out};
        snprintf(names[i][0], sizeof names[i][0], "%s.weight", all[i].name);
        snprintf(names[i][1], sizeof names[i][1], "%s.bias", all[i].name);
        net_add(&weights, names[i][0], 4, w, 0.3f);
        net_add(&weights, names[i][1], 1, b, 0.1f);
    }
    const int64_t s[2] = {CLASSES, WIDE}, b[1] = {CLASSES}, l[2] = {LONG, LONG}, c[1] = {LONG};
    net_add(&weights, "long.weight", 2, l, 0.2f);
    net_add(&weights, "long.bias", 1, c, 0.1f);
    net_add(&weights, "score.weight", 2, s, 0.5f);
    net_add(&weights, "score.bias", 1, b, 0.1f);
}

static bs_graph *new_graph(void)
{
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    return bs_graph_create(&memory.persistent, NULL);
}

static bs_value conv(bs_graph *g, bs_value in, const char *name, int32_t out, int32_t kernel, int32_t stride)
{
    return bs_conv2d(g, in, &(bs_conv2d_desc){.name = name, .out = out, .kernel = kernel, .stride = stride,
                                              .act = BS_RELU});
}

/* 4 x 8 x 8 -> 48 x 2 x 2 -> 48 x 2 x 2 by 83 KB of weights -> 4 x 8 x 8. */
static bs_value narrowed(bs_graph *g, bs_value in)
{
    const bs_value deep = conv(g, conv(g, in, "into", WIDE, 1, 4), "heavy", WIDE, 3, 1);
    const bs_value twice = bs_add(g, deep, conv(g, deep, "heavy", WIDE, 3, 1));
    return bs_resize(g, conv(g, twice, "back", 4, 1, 1),
                     &(bs_resize_desc){.kind = BS_RESIZE_NEAREST, .factor = 4});
}

static bs_router routed(bs_graph *g, const char *name, bs_value in)
{
    const bs_value deep = conv(g, conv(g, in, "into", WIDE, 1, 4), "heavy", WIDE, 3, 1);
    const bs_value pooled = bs_pool2d(g, deep, &(bs_pool2d_desc){.kind = BS_POOL_AVERAGE, .global = 1});
    const bs_value score = bs_linear(g, pooled, &(bs_linear_desc){.name = "score", .out = CLASSES});
    return bs_route(g, score, none, &(bs_route_desc){.name = name, .protocol = BS_ROUTE_TOP1, .paths = CLASSES});
}

/* No router: large images, a heavy middle, large images. */
static bs_value hourglass(bs_graph *g, bs_value in)
{
    const bs_value first = conv(g, in, "few", 4, 3, 1);
    return conv(g, bs_add(g, narrowed(g, first), first), "last", 4, 3, 1);
}

/* A heavy classifier, one heavy path, one light, one that leaves rows as they are. */
static bs_value classified(bs_graph *g, bs_value in)
{
    const bs_value first = conv(g, in, "few", 4, 3, 1);
    const bs_router r = routed(g, "r", first);
    const bs_value out[CLASSES] = {conv(g, narrowed(g, bs_scatter(g, r, 0, first)), "last", 4, 3, 1),
                                   conv(g, bs_scatter(g, r, 1, first), "last", 4, 3, 1), bs_scatter(g, r, 2, first)};
    return conv(g, bs_gather(g, r, out, none, NULL), "last", 4, 3, 1);
}

/* The path of a router has a router of its own, which tiles decide for themselves. */
static bs_value exits(bs_graph *g, bs_value in)
{
    const bs_value first = conv(g, in, "few", 4, 3, 1);
    const bs_router r = routed(g, "r", first);
    const bs_value on = conv(g, bs_scatter(g, r, 0, first), "last", 4, 3, 1);
    const bs_router s = routed(g, "s", on);
    const bs_value deep[CLASSES] = {narrowed(g, bs_scatter(g, s, 0, on)), bs_scatter(g, s, 1, on),
                                    conv(g, bs_scatter(g, s, 2, on), "last", 4, 3, 1)};
    const bs_value out[CLASSES] = {bs_gather(g, s, deep, none, NULL), bs_scatter(g, r, 1, first),
                                   conv(g, bs_scatter(g, r, 2, first), "last", 4, 3, 1)};
    return bs_gather(g, r, out, none, NULL);
}

static const bs_plan *planned(bs_value (*build)(bs_graph *g, bs_value in), const bs_plan_desc *desc)
{
    bs_graph *g = new_graph();
    const bs_value all = bs_input(g, "x", BS_F32, BS_SHAPE4(ROWS, 3, SIDE, SIDE));
    bs_output(g, "y", bs_collect(g, build(g, bs_rows(g, all, none))));
    return bs_plan_create(&memory.persistent, NULL, g, desc, &error);
}

static bool run(const bs_plan *plan, float *result)
{
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    memset(transient, 0xFF, sizeof transient); /* NaN */
    memset(result, 0x55, sizeof y[0]);
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    if (s) {
        bs_bind(s, "x", &(bs_buffer){x, BS_F32, 4, {ROWS, 3, SIDE, SIDE}, {0}}, NULL);
        bs_bind(s, "y", &(bs_buffer){result, BS_F32, 4, {ROWS, 4, SIDE, SIDE}, {0}}, NULL);
    }
    const bool ran = s && bs_run(s, &error) == BS_OK;
    if (s)
        bs_session_close(s);
    return ran;
}

static float lines[3][MANY][LONG];

static bool run_lines(const bs_plan *plan, int32_t rows, float (*result)[LONG])
{
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    memset(transient, 0xFF, sizeof transient);
    memset(result, 0x55, sizeof lines[0]);
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    if (s) {
        bs_bind(s, "x", &(bs_buffer){lines[0], BS_F32, 2, {rows, LONG}, {0}}, NULL);
        bs_bind(s, "y", &(bs_buffer){result, BS_F32, 2, {rows, LONG}, {0}}, NULL);
    }
    const bool ran = s && bs_run(s, &error) == BS_OK;
    if (s)
        bs_session_close(s);
    return ran;
}

/* Half in tiles, saved and opened again. */
static void test_image(void)
{
    static plan_image image;
    const bs_plan *plan = planned(classified, NULL);
    const bool ran = run(plan, &y[0][0][0][0][0]);
    const bs_plan *opened = plan && plan_image_save(&image, plan) ? plan_image_open(&image, plan->graph) : NULL;
    check(ran && opened && run(opened, &y[1][0][0][0][0]) && memcmp(y[0], y[1], sizeof y[0]) == 0,
          "a plan that is half in tiles is opened from its image, and gives the same bytes: %s", image.error.message);
    plan_image_free(&image);
}

/* Calls of nodes of that name at top level, or in tiles. */
static int32_t calls(const bs_plan *p, const char *name, bool top)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_instrs; i++)
        n += p->instrs[i].kind == BS_INSTR_CALL && (p->instrs[i].part == BS_TOP) == top &&
             strcmp(bs_node_name(&p->graph->nodes[p->instrs[i].node]), name) == 0;
    return n;
}

static void test_same_bytes(const char *what, bs_value (*build)(bs_graph *g, bs_value in))
{
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        bool ran = true;
        for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++)
            ran = run(planned(build, &(bs_plan_desc){.order = order, .threads = threads}), y[order][0][0][0]) && ran;
        check(ran && memcmp(y[0], y[1], sizeof y[0]) == 0 && memcmp(y[0], y[2], sizeof y[0]) == 0,
              "%s: the same bytes in all orders, %d threads: %s", what, threads, error.message);
    }
}

static void test_places(void)
{
    const bs_plan_desc depth = {.order = BS_ORDER_DEPTH};
    const bs_plan *p = planned(hourglass, NULL);
    check(p && calls(p, "heavy", true) == 2 && calls(p, "few", false) == 1 && calls(p, "last", false) == 1,
          "a heavy middle runs at top level between tiles");
    check(p && p->n_regions == 2, "tiles are left once, not for each layer (%d)", p ? p->n_regions : 0);
    p = planned(hourglass, &depth);
    check(p && calls(p, "heavy", true) == 0 && p->n_regions == 1, "not where the caller wants tiles");
    p = planned(classified, NULL);
    check(p && calls(p, "heavy", true) == 3 && calls(p, "score", true) == 1 && calls(p, "last", false) == 3,
          "so do a classifier, and a heavy path");
    p = planned(exits, NULL);
    check(p && calls(p, "heavy", true) == 2 && calls(p, "heavy", false) == 2,
          "what tiles decide about stays in them");
}

/* 160 KB of weights. Tasks of 16, 75, 56 and 64 rows, and what is left of them. */
static void test_lines(void)
{
    static const int32_t rows[] = {1, 16, 17, 150, 168, MANY};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            bool ran = true;
            for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
                bs_graph *g = new_graph();
                const bs_value in = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(MANY), LONG)), none);
                bs_output(g, "y", bs_collect(g, bs_linear(g, in, &(bs_linear_desc){.name = "long", .out = LONG})));
                const bs_plan_desc desc = {.order = order, .threads = threads};
                const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
                ran = run_lines(plan, rows[i], lines[order]) && ran;
            }
            check(ran && memcmp(lines[1], lines[2], sizeof lines[1]) == 0,
                  "%d rows, %d threads: the bytes of tiles: %s", rows[i], threads, error.message);
        }
}

int main(void)
{
    check_seed(3);
    add_weights();
    for (float *at = &x[0][0][0][0]; at < &x[0][0][0][0] + sizeof x / sizeof(float); at++)
        *at = (float)check_below(2001) / 1000.0f - 1.0f;
    test_same_bytes("a heavy middle", hourglass);
    test_same_bytes("heavy paths", classified);
    test_same_bytes("exits", exits);
    test_places();
    test_image();
    for (float *at = &lines[0][0][0]; at < &lines[0][0][0] + MANY * LONG; at++)
        *at = (float)check_below(2001) / 1000.0f - 1.0f;
    test_lines();
    return check_end();
}
