/* tags: order asan tsan */
/* test_cuda_route.c - a device decides what the CPU decides, row for row: every protocol, packed by one block and by
 * many, in tiles and over all rows; and every way to gather gives what the CPU's gives. */
#include "cuda_rig.h"

static const bs_value none = {0};

static uint64_t dice_state = 0x9E3779B97F4A7C15u;

static int32_t dice(int32_t sides)
{
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return (int32_t)((dice_state >> 33) % (uint64_t)sides);
}

/* -------------------------------------------------------------------------------------------------- protocols */

#define MOST_ROWS 5000

typedef struct trial {
    bs_route_desc d;
    bs_dtype dtype;
    int32_t width, rows, order;
    bool knob, patches, ties, half;
} trial;

static union {
    float f[MOST_ROWS * TEST_PATHS];
    int32_t i[MOST_ROWS * TEST_PATHS];
} scores;
static int32_t tables[2][TEST_PATHS];
static float knob_now[1];

static int32_t score_width(const bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_LABEL || d->protocol == BS_ROUTE_TABLE)
        return 1;
    return d->protocol == BS_ROUTE_BUDGET && d->variants ? d->variants : d->paths;
}

static bool takes(int32_t protocol, bs_dtype dtype)
{
    const bool f32_only = protocol == BS_ROUTE_THRESHOLD || protocol == BS_ROUTE_RESIDUAL_THRESHOLD ||
                          protocol == BS_ROUTE_BINARY;
    const bool i32_only = protocol == BS_ROUTE_LABEL || protocol == BS_ROUTE_TABLE || protocol == BS_ROUTE_BUDGET;
    return dtype == BS_F32 ? !i32_only : !f32_only;
}

static trial random_trial(int32_t protocol, bs_dtype dtype, int32_t rows)
{
    trial t;
    memset(&t, 0, sizeof t);
    t.d.name = "r";
    t.d.protocol = protocol;
    t.d.paths = dice(5) == 0 ? TEST_PATHS : 1 + dice(8);
    t.dtype = dtype;
    t.rows = rows;
    t.knob = dice(2);
    t.ties = dice(2);
    t.d.threshold = (float)(dice(9) - 4) / 8;
    if (protocol == BS_ROUTE_BINARY || protocol == BS_ROUTE_RESIDUAL_THRESHOLD)
        t.d.paths = 2;
    if (protocol == BS_ROUTE_TOPK || protocol == BS_ROUTE_CAPACITY)
        t.d.k = dice((t.d.paths < 5 ? t.d.paths : 5) + 1), t.d.normalise = dice(2);
    if (protocol == BS_ROUTE_CAPACITY)
        t.d.capacity = 1 + dice(rows > 100 ? rows / 2 : 20), t.d.spill = dice(2) * dice(t.d.paths + 1);
    if (protocol == BS_ROUTE_THRESHOLD)
        t.d.fallback = dice(t.d.paths + 1);
    if (protocol == BS_ROUTE_TABLE)
        t.d.keys = 9;
    if (protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = dice(2) ? 0 : 1 + dice(6), all = variants ? variants : t.d.paths;
        t.d.variants = variants;
        t.d.baseline = dice((all < t.d.paths ? all : t.d.paths) + 1);
        t.d.floor = dice(2) ? 0 : dice(t.ties ? 100 : 1 << 23);
    }
    t.width = score_width(&t.d);
    return t;
}

static void make_scores(const trial *t)
{
    for (int32_t i = 0; i < t->rows * t->width; i++) {
        const int32_t code = dice(17) - 8;
        if (t->d.protocol == BS_ROUTE_LABEL)
            scores.i[i] = dice(t->d.paths);
        else if (t->d.protocol == BS_ROUTE_TABLE)
            scores.i[i] = dice(9);
        else if (t->d.protocol == BS_ROUTE_BUDGET)
            scores.i[i] = dice(20)  ? dice(t->ties ? 200 : 1 << 24)
                          : dice(2) ? -dice(9)
                                    : (1 << 24) + dice(1 << 24); /* few out of range */
        else if (t->dtype == BS_I32)
            scores.i[i] = t->ties ? code : (1 << 30) + dice(9); /* equal as floats, not as integers */
        else
            scores.f[i] = t->ties ? (float)code / 8 : (float)(dice(1 << 20) - (1 << 19)) / (1 << 19);
    }
    for (int32_t i = 0; i < TEST_PATHS; i++) {
        tables[0][i] = t->d.protocol == BS_ROUTE_TABLE ? dice(t->d.paths) : dice(dice(5) == 0 ? 1 << 24 : 100);
        tables[1][i] = dice(t->d.paths);
    }
    knob_now[0] = t->d.protocol == BS_ROUTE_BUDGET ? (float)(dice(13) - 1) / 10 : (float)(dice(9) - 4) / 16;
}

static void give_weights(cuda_rig *r, const trial *t)
{
    const int64_t keys[1] = {9}, variants[1] = {t->width};
    if (t->d.protocol == BS_ROUTE_TABLE)
        rig_weight(r, "r.table", BS_I32, 1, keys, tables[0]);
    if (t->d.protocol != BS_ROUTE_BUDGET)
        return;
    rig_weight(r, "r.cost", BS_I32, 1, variants, tables[0]);
    rig_weight(r, "r.path", BS_I32, 1, variants, tables[1]);
}

/* One output for every way to gather that the router allows, of values with work on their paths and of integers
 * without. Of many rows only one: what differs then is the decision. */
static void add_gathers(bs_graph *g, const trial *t, bs_router router, bs_value x, bs_value z)
{
    static const char *const names[2][4] = {{"place", "add", "weighted", "select"},
                                            {"place_on", "add_on", "weighted_on", "select_on"}};
    bs_value worked[TEST_PATHS], moved[TEST_PATHS];
    const bool many = g->routers[router.id].max_paths_per_cell > 1, few = t->rows <= 100;
    const int32_t missing = dice(2) ? dice(t->d.paths) : -1;
    for (int32_t p = 0; p < t->d.paths; p++) {
        const bs_value in = bs_scatter(g, router, p, x);
        worked[p] = p == missing && t->d.paths > 1 ? none
                    : dice(4) == 0                 ? in
                                                   : bs_activation(g, in, p % 2 ? BS_RELU : BS_TANH, 0);
        moved[p] = bs_scatter(g, router, p, z);
    }
    for (int32_t mode = BS_GATHER_PLACE; few && mode <= BS_GATHER_SELECT; mode++)
        for (int32_t on = 0; on < 2; on++) {
            const bs_gather_desc desc = {.mode = mode};
            if (mode == BS_GATHER_PLACE && many)
                continue;
            bs_output(g, names[on][mode], bs_collect(g, bs_gather(g, router, worked, on ? x : none, &desc)));
        }
    const bs_gather_desc desc = {.mode = many ? BS_GATHER_SELECT : BS_GATHER_PLACE};
    bs_output(g, "moved", bs_collect(g, bs_gather(g, router, moved, none, &desc)));
}

static void choose_by_sum(const bs_operand_view *view, int32_t rows, int32_t *path, int32_t paths)
{
    for (int32_t row = 0; row < rows; row++) {
        int32_t sum = 0;
        for (int32_t i = 0; i < view->width; i++) {
            const int64_t at = row * (int64_t)view->row_stride + i * (int64_t)view->stride;
            sum += view->dtype == BS_I32 ? ((const int32_t *)view->data)[at] & 7
                                         : (int32_t)(((const float *)view->data)[at] * 8);
        }
        path[row] = (sum & 0xffff) % (paths + 1) - 1;
    }
}

static int32_t callback_paths;

static bs_status call_back(void *user, const bs_operand_view *view, int32_t rows, int32_t *path)
{
    (void)user;
    choose_by_sum(view, rows, path, callback_paths);
    return BS_OK;
}

static bool trial_agrees(const trial *t, const rig_how *how)
{
    static cuda_rig r;
    char name[160];
    snprintf(name, sizeof name, "%s, %d paths, k %d, capacity %d, width %d, %d rows, %s%s%s, order %d%s",
             bs_protocol_name((bs_protocol)t->d.protocol), t->d.paths, t->d.k, t->d.capacity, t->width, t->rows,
             bs_dtype_name(t->dtype), t->ties ? ", ties" : "", t->patches ? ", patches" : "", how->order,
             how->n_forces ? ", forced" : "");
    bs_graph *g = rig_begin(&r, name);
    const bs_dim h = bs_symbol(g, "H", 40), w = bs_symbol(g, "W", 30),
                 n = t->patches ? (bs_dim)20 : bs_symbol(g, "N", t->rows + 9);
    const bs_patches_desc cells = {.size = 8};
    const bs_value frame = t->patches ? bs_input(g, "frame", BS_F32, BS_SHAPE3(1, h, w)) : none;
    const bs_value like = t->patches ? bs_patches(g, frame, &cells) : none,
                   knob = bs_input(g, "knob", BS_F32, BS_SHAPE1(1));
    const bs_value score = bs_rows(g, bs_input(g, "scores", t->dtype, BS_SHAPE2(n, t->width)), like);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, t->rows > 100 ? 1 : 4)), like);
    const bs_value z = bs_rows(g, bs_input(g, "z", BS_I32, BS_SHAPE2(n, t->rows > 100 ? 1 : 3)), like);
    const bs_router router = bs_route(g, score, t->knob ? knob : none, &t->d);
    add_gathers(g, t, router, x, z);
    bs_output(g, "score", bs_collect(g, bs_route_score(g, router)));
    if (t->d.protocol == BS_ROUTE_BUDGET)
        bs_output(g, "price", bs_route_price(g, router));
    if (t->patches) {
        rig_extent(&r, "frame", 1, 1 + t->rows % 40, 1 + t->rows * 7 % 30, 0);
    } else {
        rig_extent(&r, "scores", t->rows, 0, 0, 0);
        rig_extent(&r, "x", t->rows, 0, 0, 0);
        rig_extent(&r, "z", t->rows, 0, 0, 0);
    }
    rig_give(&r, "scores", scores.i);
    rig_give(&r, "knob", knob_now);
    give_weights(&r, t);
    return rig_agree(&r, how);
}

static bool trial_runs(trial *t)
{
    const uint64_t data = dice_state;
    bool ok = true;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const rig_how how = {.order = order, .callback = call_back, .half = t->half};
        dice_state = data;
        callback_paths = t->d.paths;
        make_scores(t);
        ok = trial_agrees(t, &how) && ok;
    }
    return ok;
}

static void test_protocols(void)
{
    for (int32_t p = BS_ROUTE_TOP1; p < BS_PROTOCOL_COUNT; p++)
        for (int32_t type = 0; type < 2; type++) {
            const bs_dtype dtype = type ? BS_I32 : BS_F32;
            int32_t wrong = 0;
            for (int32_t i = 0; i < 9 && takes(p, dtype); i++) {
                trial t = random_trial(p, dtype, i == 0 ? 1 : 1 + dice(90));
                t.patches = i % 3 == 2;
                t.rows = t.patches ? 20 : t.rows;
                t.half = i % 4 == 3;
                t.ties = t.ties || t.half; /* f16 holds no larger sums */
                wrong += !trial_runs(&t);
            }
            if (takes(p, dtype))
                check(wrong == 0, "%s of %s scores decides and gathers as on the CPU", bs_protocol_name((bs_protocol)p),
                      bs_dtype_name(dtype));
        }
}

/* More rows than a block takes at once, or sorts in its memory; and as many blocks as it takes. */
static void test_many_rows(void)
{
    static const int32_t rows[] = {1023, 1025, 1300, 2049, 2500, MOST_ROWS};
    for (int32_t p = BS_ROUTE_TOP1; p < BS_PROTOCOL_COUNT; p++)
        for (int32_t i = 0; i < 2; i++) {
            trial t = random_trial(p, takes(p, BS_F32) ? BS_F32 : BS_I32, rows[(p + 3 * i) % 6]);
            if (p == BS_ROUTE_THRESHOLD && t.d.paths > 8)
                t.d.paths = t.width = 8, t.d.fallback = 0;
            check(trial_runs(&t), "%s of %d rows", bs_protocol_name((bs_protocol)p), t.rows);
        }
}

static void test_forced(void)
{
    for (int32_t p = BS_ROUTE_TOP1; p < BS_PROTOCOL_COUNT; p++) {
        trial t = random_trial(p, takes(p, BS_F32) ? BS_F32 : BS_I32,
                               p == BS_ROUTE_TOPK || p == BS_ROUTE_LABEL ? 1500 : 40);
        t.d.paths = 2;
        t.d.k = t.d.k > 2 ? 2 : t.d.k;
        t.d.fallback = 0;
        if (p == BS_ROUTE_BUDGET)
            t.d.variants = 0;
        t.width = score_width(&t.d);
        const rig_how how = {.order = 1 + p % 2, .callback = call_back, .n_forces = 1, .forces = {{"r", 1}}};
        make_scores(&t);
        check(trial_agrees(&t, &how), "%s, forced", bs_protocol_name((bs_protocol)p));
    }
}

/* ------------------------------------------------------------------------------------------------ bad scores */

static bool spoilt(int32_t protocol, int32_t rows, int32_t at, bool knob)
{
    trial t = random_trial(protocol, takes(protocol, BS_F32) ? BS_F32 : BS_I32, rows);
    const rig_how how = {.fails = BS_ERROR_DATA, .order = 1 + dice(2)};
    t.knob = knob || t.knob;
    make_scores(&t);
    if (knob)
        knob_now[0] = NAN;
    else if (protocol == BS_ROUTE_LABEL)
        scores.i[at] = t.d.paths;
    else if (protocol == BS_ROUTE_TABLE && at > 0)
        scores.i[at] = -1;
    else if (protocol == BS_ROUTE_TABLE)
        tables[0][scores.i[0]] = t.d.paths;
    else if (protocol == BS_ROUTE_BUDGET)
        tables[1][t.width - 1] = t.d.paths;
    else
        scores.f[at * t.width + t.width - 1] = NAN;
    return trial_agrees(&t, &how);
}

static void test_bad_scores(void)
{
    for (int32_t p = BS_ROUTE_TOP1; p < BS_ROUTE_CALLBACK; p++)
        check(spoilt(p, 20, 0, false) && spoilt(p, 20, 19, false) && spoilt(p, 1500, 1499, false) &&
                  spoilt(p, 30, 0, true) && spoilt(p, 1500, 0, true),
              "%s refuses scores, tables and a knob that make no sense", bs_protocol_name((bs_protocol)p));
}

/* ---------------------------------------------------------------------------------------------------- nested */

/* A router in a path of another: decided tile by tile, or over all rows of the path at once. */
static void test_nested(int32_t rows, int32_t outer_paths, int32_t protocol, const rig_how *how)
{
    static cuda_rig r;
    char name[96];
    snprintf(name, sizeof name, "%s inside a label router of %d rows, order %d, half %d",
             bs_protocol_name((bs_protocol)protocol), rows, how->order, how->half);
    trial t = random_trial(BS_ROUTE_LABEL, BS_I32, rows);
    t.d.paths = outer_paths;
    make_scores(&t);
    for (int32_t i = 0; i < rows; i++)
        scores.i[i] = scores.i[i] == 2 ? 0 : scores.i[i]; /* a router with nothing to decide */
    bs_graph *g = rig_begin(&r, name);
    const bs_value score = bs_rows(g, bs_input(g, "scores", BS_I32, BS_SHAPE2(rows, 1)), none);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(rows, 6)), none);
    const bs_value fine = bs_rows(g, bs_input(g, "fine", BS_F32, BS_SHAPE2(rows, 2)), none);
    const bs_router outer = bs_route(g, score, none, &t.d);
    bs_value out[TEST_PATHS];
    for (int32_t p = 0; p < outer_paths; p++) {
        char block[32], router[32];
        snprintf(block, sizeof block, "block%d", p);
        snprintf(router, sizeof router, "inner%d", p);
        bs_block_begin(g, block);
        const bs_value in = bs_scatter(g, outer, p, x), work = bs_activation(g, in, BS_TANH, 0);
        const bs_route_desc d = {
            .name = router, .protocol = protocol, .paths = 2, .k = 2, .threshold = 0.1f, .capacity = 3};
        const bs_router inner = bs_route(g, bs_scatter(g, outer, p, fine), none, &d);
        const bs_value two[2] = {bs_activation(g, bs_scatter(g, inner, 0, work), BS_RELU, 0),
                                 p % 2 ? bs_scatter(g, inner, 1, work) : none};
        const bs_gather_desc mode = {.mode = g->routers[inner.id].max_paths_per_cell > 1 ? BS_GATHER_WEIGHTED
                                                                                         : BS_GATHER_PLACE};
        out[p] = bs_add(g, bs_gather(g, inner, two, p % 3 ? in : none, &mode), in);
        bs_block_end(g);
    }
    bs_output(g, "y", bs_collect(g, bs_gather(g, outer, out, none, NULL)));
    rig_give(&r, "scores", scores.i);
    check(rig_agree(&r, how), "%s", name);
}

/* What a budget in a path is worth, where its route is decided ahead: nothing, in tiles too. */
static void test_forced_price(int32_t order)
{
    static cuda_rig r;
    trial t = random_trial(BS_ROUTE_LABEL, BS_I32, 30);
    t.d.paths = 2;
    make_scores(&t);
    bs_graph *g = rig_begin(&r, "the price of a forced router in a path");
    const bs_value score = bs_rows(g, bs_input(g, "scores", BS_I32, BS_SHAPE2(30, 1)), none);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(30, 3)), none);
    const bs_value losses = bs_rows(g, bs_input(g, "losses", BS_I32, BS_SHAPE2(30, 2)), none);
    const bs_router outer = bs_route(g, score, none, &t.d);
    const bs_route_desc d = {.name = "inner", .protocol = BS_ROUTE_BUDGET, .paths = 2};
    const bs_router inner = bs_route(g, bs_scatter(g, outer, 1, losses), none, &d);
    const bs_value in = bs_scatter(g, outer, 1, x);
    const bs_value two[2] = {bs_scatter(g, inner, 0, in), bs_activation(g, bs_scatter(g, inner, 1, in), BS_RELU, 0)};
    const bs_value out[2] = {none, bs_gather(g, inner, two, none, NULL)};
    bs_output(g, "y", bs_collect(g, bs_gather(g, outer, out, x, NULL)));
    bs_output(g, "price", bs_route_price(g, inner));
    rig_give(&r, "scores", scores.i);
    check(rig_agree(&r, &(rig_how){.order = order, .n_forces = 1, .forces = {{"inner", 1}}}),
          "the price of a forced router, order %d", order);
}

int main(void)
{
    test_protocols();
    test_many_rows();
    test_forced();
    test_bad_scores();
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
        for (int32_t half = 0; half < 2; half++) {
            test_forced_price(order);
            const rig_how how = {.order = order, .half = half, .runs = 2};
            test_nested(50, 3, BS_ROUTE_TOP1, &how);
            test_nested(37, 5, BS_ROUTE_THRESHOLD, &how);
            test_nested(70, 2, BS_ROUTE_TOPK, &how);
            test_nested(40, 2, BS_ROUTE_CAPACITY, &how);
            test_nested(3, 8, BS_ROUTE_RESIDUAL_THRESHOLD, &how);
        }
    test_nested(2600, 3, BS_ROUTE_THRESHOLD, &(rig_how){.order = BS_ORDER_BREADTH});
    return check_end();
}
