/* tags: unsigned tsan */
/* Promises: run-time tensors that decide what runs (scores, knobs, labels, keys, indices, answers of callbacks) may
 * hold anything. Either the decision is what brainstorm.h defines, ties and infinities included, or the run is refused
 * by a message that names the router and the cell; and the next run is as if nothing had been.
 *
 * A table, with the decisions written down by hand: cell 3 of five gets the row's scores, the others what is plain. */
#include "brainstorm.h"
#include "check.h"
#include "run/session.h"

#include <float.h>
#include <limits.h>
#include <math.h>

enum { CELLS = 5, ODD = 3, WIDTH = 4, NONE = -1 };

static uint8_t arenas[4][1 << 20];
static _Alignas(64) uint8_t graph_memory[1 << 19], plan_memory[1 << 19];
static bs_error error;
static bs_session *session;
static const bs_value none = {0};

typedef struct steer {
    const char *what;
    bs_route_desc d;
    bool ints;
    double score[WIDTH]; /* of the odd cell; the first `width` count */
    double knob;
    int32_t path[2];     /* chosen, in order; or: */
    const char *refused; /* what follows `route "r" (node 4): ` */
    double gate[2];      /* checked where `gates` says so */
    bool gates;
} steer;

#define TOP1 {.protocol = BS_ROUTE_TOP1, .paths = 3}
#define TOP2 {.protocol = BS_ROUTE_TOPK, .paths = 3, .k = 2}
#define SHARES {.protocol = BS_ROUTE_TOPK, .paths = 3, .k = 2, .normalise = 1}
#define ABOVE {.protocol = BS_ROUTE_THRESHOLD, .paths = 3, .threshold = 0.5f}
#define ABOVE_OR_1 {.protocol = BS_ROUTE_THRESHOLD, .paths = 3, .threshold = 0.5f, .fallback = 2}
#define RESIDUAL {.protocol = BS_ROUTE_RESIDUAL_THRESHOLD, .paths = 2, .threshold = 0.5f}
#define EXIT {.protocol = BS_ROUTE_BINARY, .paths = 2, .threshold = 0.5f}
#define LABEL {.protocol = BS_ROUTE_LABEL, .paths = 3}
#define TABLE {.protocol = BS_ROUTE_TABLE, .paths = 3, .keys = 4}
#define CAPACITY {.protocol = BS_ROUTE_CAPACITY, .paths = 3, .capacity = 4}
#define BUDGET {.protocol = BS_ROUTE_BUDGET, .paths = 3}
#define FLOOR(n) {.protocol = BS_ROUTE_BUDGET, .paths = 3, .floor = (n)}
#define CALLBACK {.protocol = BS_ROUTE_CALLBACK, .paths = 3}

static const steer rows[] = {
    {"equal scores", TOP1, false, {1, 1, 1}, 0, {0, NONE}, NULL, {1}, true},
    {"equal scores behind a lower one", TOP1, false, {0, 2, 2}, 0, {1, NONE}, NULL, {2}, true},
    {"-0 before 0", TOP1, false, {-0.0, 0, 0}, 0, {0, NONE}, NULL, {0}, true},
    {"0 before -0", TOP1, false, {0, -0.0, -0.0}, 0, {0, NONE}, NULL, {0}, true},
    {"infinities", TOP1, false, {-INFINITY, INFINITY, INFINITY}, 0, {1, NONE}, NULL, {INFINITY}, true},
    {"nothing but -inf", TOP1, false, {-INFINITY, -INFINITY, -INFINITY}, 0, {0, NONE}, NULL, {-INFINITY}, true},
    {"the largest numbers", TOP1, false, {-FLT_MAX, FLT_MAX, FLT_MAX / 2}, 0, {1, NONE}, NULL, {FLT_MAX}, true},
    {"the smallest numbers", TOP1, false, {0, 1e-45, -1e-45}, 0, {1, NONE}, NULL, {1e-45}, true},
    {"i32 at their ends", TOP1, true, {INT32_MIN, INT32_MAX - 1, INT32_MAX}, 0, {2, NONE}, NULL, {0}, false},
    {"i32 that are one f32", TOP1, true, {16777216, 16777217, 16777216}, 0, {1, NONE}, NULL, {0}, false},
    {"NaN first", TOP1, false, {NAN, 1, 2}, 0, {0, 0}, "cell 3: score 0 is NaN", {0}, false},
    {"NaN last", TOP1, false, {1, 2, -NAN}, 0, {0, 0}, "cell 3: score 2 is NaN", {0}, false},
    {"two equal ones of three", TOP2, false, {1, 2, 1}, 0, {1, 0}, NULL, {2, 1}, true},
    {"all equal", TOP2, false, {0, -0.0, 0}, 0, {0, 1}, NULL, {0, 0}, true},
    {"infinities, two of them",
     TOP2,
     false,
     {INFINITY, -INFINITY, INFINITY},
     0,
     {0, 2},
     NULL,
     {INFINITY, INFINITY},
     true},
    {"NaN that would be third", TOP2, false, {5, 4, NAN}, 0, {0, 0}, "cell 3: score 2 is NaN", {0}, false},
    {"shares", SHARES, false, {1, 3, 0}, 0, {1, 0}, NULL, {0.75, 0.25}, true},
    {"shares of an infinite sum stay as they are",
     SHARES,
     false,
     {INFINITY, 1, 0},
     0,
     {0, 1},
     NULL,
     {INFINITY, 1},
     true},
    {"shares of a sum that overflows, too",
     SHARES,
     false,
     {FLT_MAX, FLT_MAX, 0},
     0,
     {0, 1},
     NULL,
     {FLT_MAX, FLT_MAX},
     true},
    {"shares of a sum of 0, too", SHARES, false, {1, -2, -1}, 0, {0, 2}, NULL, {1, -1}, true},
    {"shares of inf - inf, too",
     SHARES,
     false,
     {INFINITY, -INFINITY, -INFINITY},
     0,
     {0, 1},
     NULL,
     {INFINITY, -INFINITY},
     true},
    {"scores at the threshold", ABOVE, false, {0.5, 0.5, 0.5}, 0, {NONE, NONE}, NULL, {0}, false},
    {"one just above it", ABOVE, false, {0.5, 0.50000006, 0.5}, 0, {1, NONE}, NULL, {0}, false},
    {"infinities", ABOVE, false, {INFINITY, -INFINITY, 1}, 0, {0, 2}, NULL, {INFINITY, 1}, true},
    {"no path and a fallback", ABOVE_OR_1, false, {0, 0.25, 0}, 0, {1, NONE}, NULL, {0.25}, true},
    {"a knob of inf", ABOVE, false, {INFINITY, 1, 1}, INFINITY, {NONE, NONE}, NULL, {0}, false},
    {"a knob of -inf", ABOVE, false, {-INFINITY, 1, -FLT_MAX}, -INFINITY, {1, 2}, NULL, {0}, false},
    {"a knob of NaN", ABOVE, false, {1, 1, 1}, NAN, {0, 0}, "the knob is NaN", {0}, false},
    {"NaN", ABOVE, false, {1, NAN, 1}, 0, {0, 0}, "cell 3: score 1 is NaN", {0}, false},
    {"a sum at the threshold", RESIDUAL, false, {0.25, 0.25}, 0, {1, NONE}, NULL, {0.25}, true},
    {"a sum below it", RESIDUAL, false, {0.25, 0}, 0, {0, NONE}, NULL, {0.25}, true},
    {"inf - inf", RESIDUAL, false, {INFINITY, -INFINITY}, 0, {1, NONE}, NULL, {-INFINITY}, true},
    {"-inf", RESIDUAL, false, {-INFINITY, 1}, 0, {0, NONE}, NULL, {-INFINITY}, true},
    {"a knob of -inf", RESIDUAL, false, {-FLT_MAX, -FLT_MAX}, -INFINITY, {1, NONE}, NULL, {0}, false},
    {"a knob of NaN", RESIDUAL, false, {0, 0}, NAN, {0, 0}, "the knob is NaN", {0}, false},
    {"a score at the threshold", EXIT, false, {0.5}, 0, {0, NONE}, NULL, {0.5}, true},
    {"one just below it", EXIT, false, {0.49999997}, 0, {1, NONE}, NULL, {0}, false},
    {"inf", EXIT, false, {INFINITY}, INFINITY, {0, NONE}, NULL, {INFINITY}, true},
    {"less than a knob of inf", EXIT, false, {FLT_MAX}, INFINITY, {1, NONE}, NULL, {0}, false},
    {"-inf and a knob of -inf", EXIT, false, {-INFINITY}, -INFINITY, {0, NONE}, NULL, {-INFINITY}, true},
    {"NaN", EXIT, false, {NAN}, 0, {0, 0}, "cell 3: score 0 is NaN", {0}, false},
    {"a knob of NaN", EXIT, false, {1}, NAN, {0, 0}, "the knob is NaN", {0}, false},
    {"the last path", LABEL, true, {2}, 0, {2, NONE}, NULL, {1}, true},
    {"one beyond", LABEL, true, {3}, 0, {0, 0}, "cell 3: label 3, expected 0 .. 2", {0}, false},
    {"-1", LABEL, true, {-1}, 0, {0, 0}, "cell 3: label -1, expected 0 .. 2", {0}, false},
    {"the smallest i32", LABEL, true, {INT32_MIN}, 0, {0, 0}, "cell 3: label -2147483648, expected 0 .. 2", {0}, false},
    {"the largest i32", LABEL, true, {INT32_MAX}, 0, {0, 0}, "cell 3: label 2147483647, expected 0 .. 2", {0}, false},
    {"the last key that has a path", TABLE, true, {2}, 0, {2, NONE}, NULL, {1}, true},
    {"a key to no path", TABLE, true, {3}, 0, {0, 0}, "cell 3: the table gives path 99, expected 0 .. 2", {0}, false},
    {"one key beyond", TABLE, true, {4}, 0, {0, 0}, "cell 3: key 4, expected 0 .. 3", {0}, false},
    {"the smallest i32", TABLE, true, {INT32_MIN}, 0, {0, 0}, "cell 3: key -2147483648, expected 0 .. 3", {0}, false},
    {"of equal scores the lower rows go first", CAPACITY, false, {1, 0, 0}, 0, {0, NONE}, NULL, {1}, true},
    {"one lower than the others", CAPACITY, false, {0.5, 0, 0}, 0, {NONE, NONE}, NULL, {0}, false},
    {"-inf", CAPACITY, false, {-INFINITY, -INFINITY, -INFINITY}, 0, {NONE, NONE}, NULL, {0}, false},
    {"inf", CAPACITY, false, {INFINITY, 0, 0}, 0, {0, NONE}, NULL, {INFINITY}, true},
    {"NaN", CAPACITY, false, {0, NAN, 0}, 0, {0, 0}, "cell 3: score 1 is NaN", {0}, false},
    {"a budget of all", BUDGET, true, {30, 20, 10}, 1, {0, NONE}, NULL, {30}, true},
    {"a huge budget is one of all", BUDGET, true, {30, 20, 10}, 1e30, {0, NONE}, NULL, {30}, true},
    {"an infinite one, too", BUDGET, true, {30, 20, 10}, INFINITY, {0, NONE}, NULL, {30}, true},
    {"no budget", BUDGET, true, {30, 20, 10}, 0, {2, NONE}, NULL, {10}, true},
    {"a negative one is none", BUDGET, true, {30, 20, 10}, -0.25, {2, NONE}, NULL, {10}, true},
    {"so is -inf", BUDGET, true, {30, 20, 10}, -INFINITY, {2, NONE}, NULL, {10}, true},
    {"a budget of NaN", BUDGET, true, {30, 20, 10}, NAN, {0, 0}, "the knob is NaN", {0}, false},
    {"equal losses, no budget: the cheapest", BUDGET, true, {10, 10, 10}, 0, {0, NONE}, NULL, {10}, true},
    {"negative losses count as 0", BUDGET, true, {-5, INT32_MIN, 0}, 0, {0, NONE}, NULL, {0}, true},
    {"losses beyond 2^24 count as that",
     BUDGET,
     true,
     {INT32_MAX, 1 << 24, (1 << 24) + 1},
     0,
     {0, NONE},
     NULL,
     {1 << 24},
     true},
    {"a floor of five cells that is less than the next variant loses",
     FLOOR(1),
     true,
     {40, 20, 10},
     0,
     {2, NONE},
     NULL,
     {10},
     true},
    {"one of as much", FLOOR(2), true, {40, 20, 10}, 0, {1, NONE}, NULL, {20}, true},
    {"a floor of all", FLOOR(6), true, {40, 20, 10}, 0, {0, NONE}, NULL, {40}, true},
    {"the largest floor, at the lowest price",
     FLOOR(1 << 24),
     true,
     {INT32_MAX, 20, 10},
     0,
     {1, NONE},
     NULL,
     {20},
     true},
    {"a floor and a budget are not added up", FLOOR(3), true, {31, 20, 10}, 0.7, {1, NONE}, NULL, {20}, true},
    {"a floor below the budget", FLOOR(1), true, {40, 20, 10}, 0.5, {1, NONE}, NULL, {20}, true},
    {"a budget below the floor", FLOOR(6), true, {40, 20, 10}, 0.5, {0, NONE}, NULL, {40}, true},
    {"the last path", CALLBACK, false, {2, 0, 0}, 0, {2, NONE}, NULL, {1}, true},
    {"no path", CALLBACK, false, {-1, 0, 0}, 0, {NONE, NONE}, NULL, {0}, false},
    {"-2", CALLBACK, false, {-2, 0, 0}, 0, {0, 0}, "cell 3: the callback chose -2, expected 0 .. 2", {0}, false},
    {"one path beyond",
     CALLBACK,
     false,
     {3, 0, 0},
     0,
     {0, 0},
     "cell 3: the callback chose 3, expected 0 .. 2",
     {0},
     false},
    {"the smallest i32",
     CALLBACK,
     false,
     {INT32_MIN, 0, 0},
     0,
     {0, 0},
     "cell 3: the callback chose -2147483648, expected 0 .. 2",
     {0},
     false},
    {"NaN, before it is asked", CALLBACK, false, {0, 0, NAN}, 0, {0, 0}, "cell 3: score 2 is NaN", {0}, false},
    {"a knob of NaN", CALLBACK, false, {0, 0, 0}, NAN, {0, 0}, "the knob is NaN", {0}, false},
};

/* ---------------------------------------------------------------------------------------------------- the network */

static const int32_t table[4] = {0, 1, 2, 99}, cost[3] = {1, 2, 3}, path_of[3] = {0, 1, 2};

static bs_status find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    const int32_t which = strcmp(name, "r.table") == 0 ? 0 : strcmp(name, "r.cost") == 0 ? 1 : 2, count = which ? 3 : 4;
    *info = (bs_weight_info){
        .dtype = BS_I32, .rank = 1, .dim = {count}, .bytes = 4 * (uint64_t)count, .handle = (uint64_t)which};
    return BS_OK;
}

static bs_status read_ints(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    const int32_t *const from[3] = {table, cost, path_of};
    memcpy(buffer, (const uint8_t *)from[info->handle] + offset, bytes);
    return BS_OK;
}

static bs_status callback(void *user, const bs_operand_view *scores, int32_t n, int32_t *path)
{
    (void)user;
    for (int32_t i = 0; i < n; i++)
        path[i] = (int32_t)((const float *)scores->data)[i * scores->row_stride];
    return BS_OK;
}

static int32_t width_of(const bs_route_desc *d)
{
    const bool one = d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_LABEL || d->protocol == BS_ROUTE_TABLE;
    return one ? 1 : d->paths;
}

static bool made(const bs_graph *g, const bs_plan_desc *desc)
{
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    const bs_session_desc with = {.weights = {.find = find, .read = read_ints}};
    bs_memory memory;
    bs_arena *const all[4] = {&memory.persistent, &memory.transient, &memory.staging, &memory.slots};
    bs_arena arena;
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(all[i], names[i], arenas[i], sizeof arenas[i]);
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    memset(&error, 0, sizeof error);
    const bs_plan *plan = bs_plan_create(&arena, NULL, g, desc, &error);
    session = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    return session != NULL;
}

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static void bind(const char *name, void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1}, {0}};
    if (bs_bind(session, name, &b, &error) != BS_OK)
        check(0, "%s", error.message);
}

static union { float f[CELLS * WIDTH]; int32_t i[CELLS * WIDTH]; } scores;
static float knob, out[CELLS];

static const bs_graph *build(const steer *s)
{
    bs_graph *g = new_graph();
    bs_route_desc d = s->d;
    bs_value ways[3] = {none, none, none};
    d.name = "r";
    const bs_value k = bs_input(g, "knob", BS_F32, BS_SHAPE1(1));
    const bs_value x = bs_rows(g, bs_input(g, "scores", s->ints ? BS_I32 : BS_F32, BS_SHAPE2(CELLS, width_of(&d))),
                               none);
    const bs_router r = bs_route(g, x, k, &d);
    const bs_value ones = bs_rows(g, bs_input(g, "ones", BS_F32, BS_SHAPE2(CELLS, 1)), x);
    for (int32_t p = 0; p < d.paths; p++)
        ways[p] = bs_affine(g, bs_scatter(g, r, p, ones), 1, (float)p);
    bs_output(g, "out", bs_collect(g, bs_gather(g, r, ways, none, &(bs_gather_desc){.mode = BS_GATHER_ADD})));
    return g;
}

/* ---------------------------------------------------------------------------------------------------- the rows */

static void fill(const steer *s, bool odd)
{
    const int32_t width = width_of(&s->d);
    memset(&scores, 0, sizeof scores);
    knob = odd ? (float)s->knob : 0;
    for (int32_t c = 0; c < CELLS; c++)
        for (int32_t p = 0; p < width; p++) {
            const double plain = p == 0 && s->d.protocol == BS_ROUTE_CAPACITY ? 1 : 0;
            const double v = odd && c == ODD ? s->score[p] : plain;
            if (s->ints)
                scores.i[c * width + p] = (int32_t)v;
            else
                scores.f[c * width + p] = (float)v;
        }
}

/* What the decision says, and what came of it: the sum of 1 + path over the paths of the cell. */
static bool decided(const steer *s)
{
    const bs_decision_data *d = &session->root.decisions[1];
    float sum = 0;
    for (int32_t k = 0; k < d->per_row; k++) {
        const int32_t at = ODD * d->per_row + k, wanted = k < 2 ? s->path[k] : NONE;
        if (d->chosen[at] != wanted)
            return false;
        if (s->gates && wanted >= 0 && !(d->gates[at] == (float)s->gate[k]))
            return false;
        sum += wanted >= 0 ? 1 + (float)wanted : 0;
    }
    return out[ODD] == sum;
}

static bool steers(const steer *s, int32_t order)
{
    static float ones[CELLS] = {1, 1, 1, 1, 1};
    char text[160];
    if (!made(build(s), &(bs_plan_desc){.order = order, .threads = 1 + order % 2}))
        return false;
    bind("knob", &knob, BS_F32, 1, 1, 0);
    bind("scores", &scores, s->ints ? BS_I32 : BS_F32, 2, CELLS, width_of(&s->d));
    bind("ones", ones, BS_F32, 2, CELLS, 1);
    bind("out", out, BS_F32, 2, CELLS, 1);
    if (s->d.protocol == BS_ROUTE_CALLBACK)
        bs_set_route(session, "r", callback, NULL, NULL);
    bool ok = true;
    for (int32_t turn = 0; turn < 4 && ok; turn++) {
        const bool odd = turn % 2;
        fill(s, odd);
        memset(&error, 0, sizeof error);
        const bs_status status = bs_run(session, &error);
        snprintf(text, sizeof text, "route \"r\" (node 4): %s", s->refused ? s->refused : "");
        if (odd && s->refused)
            ok = status == BS_ERROR_DATA && strcmp(error.message, text) == 0;
        else
            ok = status == BS_OK && (!odd || decided(s));
    }
    bs_session_close(session);
    return ok;
}

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool ok = true;
        for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH && ok; order++)
            ok = steers(&rows[i], order);
        check(ok, "%s%s, %s: %s", rows[i].ints ? "i32 " : "", bs_protocol_name((bs_protocol)rows[i].d.protocol),
              rows[i].what,
              rows[i].refused    ? rows[i].refused
              : ok               ? "as defined"
              : error.message[0] ? error.message
                                 : "another decision");
    }
}

/* ---------------------------------------------------------------------------------------------------- no rows */

/* Routers inside a path that no cell takes decide about nothing, whatever they would say, or could not. */
static void test_nobody(void)
{
    bs_graph *g = new_graph();
    bs_value ways[3] = {none, none, none}, in[2];
    const bs_value x = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(CELLS, 3)), none);
    const bs_router r = bs_route(g, x, none, &(bs_route_desc){.name = "r", .paths = 3});
    for (int32_t p = 0; p < 2; p++) {
        const bs_value y = bs_scatter(g, r, p, x);
        const bs_route_desc d = {
            .name = p ? "asks" : "exits", .protocol = p ? BS_ROUTE_CALLBACK : BS_ROUTE_BINARY, .paths = 2};
        const bs_value score = p ? y : bs_slice(g, y, &(bs_slice_desc){.length = 1});
        const bs_router inner = bs_route(g, score, none, &d);
        in[0] = bs_scatter(g, inner, 0, y), in[1] = bs_affine(g, bs_scatter(g, inner, 1, y), 2, 0);
        ways[p] = bs_gather(g, inner, in, none, NULL);
    }
    ways[2] = bs_scatter(g, r, 2, x);
    bs_output(g, "out", bs_collect(g, bs_gather(g, r, ways, none, NULL)));
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        static float three[CELLS * 3];
        bs_decision decision = {0, NULL, NULL, 0, NULL, -1};
        bool ok = made(g, &(bs_plan_desc){.order = order});
        if (!check(ok, "routers inside paths %s", error.message))
            return;
        bind("scores", &scores, BS_F32, 2, CELLS, 3);
        bind("out", three, BS_F32, 2, CELLS, 3);
        for (int32_t i = 0; i < CELLS * 3; i++)
            scores.f[i] = i % 3 == 2 ? 7 : -1;
        ok = bs_run(session, &error) == BS_OK && bs_decision_get(session, "asks", &decision) == BS_OK &&
             decision.counts[0] + decision.counts[1] == 0;
        for (int32_t i = 0; i < CELLS; i++)
            ok = ok && decision.chosen[i] == NONE && three[i * 3 + 2] == 7;
        check(ok, "nobody asks a callback that is not set, order %d %s", order, error.message);
        scores.f[3 * ODD + 1] = 9;
        check(bs_run(session, &error) == BS_ERROR_UNBOUND && strstr(error.message, "\"asks\""), "until a cell does: %s",
              error.message);
        scores.f[3 * ODD + 1] = -1, scores.f[3 * ODD] = 9;
        check(bs_run(session, &error) == BS_OK && bs_decision_get(session, "exits", &decision) == BS_OK &&
                  decision.counts[0] == 1 && decision.counts[1] == 0,
              "and the exit is decided for the one that gets there");
        bs_session_close(session);
    }
}

/* ---------------------------------------------------------------------------------------------------- indices */

static void test_indices(void)
{
    static const int32_t wrong[] = {-1, 4, INT32_MIN, INT32_MAX};
    static float rows_of[4][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}}, picked[3][2];
    int32_t index[3] = {3, 0, 3}, refused = 0;
    bs_graph *g = new_graph();
    bs_output(
        g, "out",
        bs_gather_rows(g, bs_input(g, "rows", BS_F32, BS_SHAPE2(4, 2)), bs_input(g, "index", BS_I32, BS_SHAPE1(3))));
    if (!check(made(g, NULL), "rows by indices %s", error.message))
        return;
    bind("rows", rows_of, BS_F32, 2, 4, 2);
    bind("index", index, BS_I32, 1, 3, 0);
    bind("out", picked, BS_F32, 2, 3, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        index[1] = wrong[i];
        refused += bs_run(session, &error) == BS_ERROR_DATA && strncmp(error.message, "gather_rows", 11) == 0;
    }
    index[1] = 0;
    check(refused == 4 && bs_run(session, &error) == BS_OK && picked[0][1] == 7 && picked[1][1] == 1,
          "indices out of range are refused: %d of 4", refused);
    bs_session_close(session);
}

int main(void)
{
    test_rows();
    test_nobody();
    test_indices();
    return check_end();
}
