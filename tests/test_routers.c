/* Promises: every protocol decides what brainstorm.h says, whatever the order, the threads and the domain; what follows
 * a decision is moved by it and put back by it; bad scores are an error, and the session runs again. */
#include "random_graph.h"
#include "against.h"

#include <pthread.h>
#include <time.h>

static net_table weights;
static against a;
static _Alignas(64) uint8_t graph_memory[1 << 21];

static const bs_value none = {0};

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    weights.table.count = 0;
    weights.next = NULL;
    return bs_graph_create(&arena, &(bs_graph_desc){.max_nodes = 2048, .max_values = 1000, .max_text_bytes = 1 << 17});
}

/* ------------------------------------------------------------------------------------------------------ one trial */

typedef enum fill { FILL_SMALL, FILL_FLOAT, FILL_LARGE, FILL_KINDS } fill;

typedef struct trial {
    bs_route_desc d;
    bs_dtype dtype;
    fill fill;
    int32_t width, rows;
    bool knob, patches;
    int32_t ints[2][TEST_PATHS];
} trial;

static const char *const fill_names[] = {"ties", "floats", "large integers"};

static int32_t score_width(const bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_LABEL || d->protocol == BS_ROUTE_TABLE)
        return 1;
    if (d->protocol == BS_ROUTE_BUDGET)
        return d->capacity ? d->capacity : d->paths;
    return d->protocol == BS_ROUTE_CALLBACK ? 1 + check_below(5) : d->paths;
}

static bool takes(bs_protocol protocol, bs_dtype dtype)
{
    const bool f32_only =
        protocol == BS_ROUTE_THRESHOLD || protocol == BS_ROUTE_RESIDUAL_THRESHOLD || protocol == BS_ROUTE_BINARY;
    const bool i32_only = protocol == BS_ROUTE_LABEL || protocol == BS_ROUTE_TABLE || protocol == BS_ROUTE_BUDGET;
    return dtype == BS_F32 ? !i32_only : !f32_only;
}

static trial random_trial(bs_protocol protocol, bs_dtype dtype)
{
    trial t;
    memset(&t, 0, sizeof t);
    t.d = (bs_route_desc){
        .name = "r", .protocol = (int32_t)protocol, .paths = rg_flip(10) ? TEST_PATHS : 1 + check_below(8)};
    t.dtype = dtype;
    t.fill = protocol == BS_ROUTE_LABEL || protocol == BS_ROUTE_TABLE || protocol == BS_ROUTE_CALLBACK
                 ? FILL_SMALL
                 : (fill)(check_below(2) * (dtype == BS_F32 ? 1 : 2));
    t.rows = 1 + check_below(70);
    t.knob = rg_flip(60);
    t.d.threshold = (float)(check_below(9) - 4) / 2;
    if (protocol == BS_ROUTE_BINARY || protocol == BS_ROUTE_RESIDUAL_THRESHOLD)
        t.d.paths = 2;
    if (protocol == BS_ROUTE_TOPK || protocol == BS_ROUTE_CAPACITY)
        t.d.k = check_below((t.d.paths < 5 ? t.d.paths : 5) + 1), t.d.normalise = rg_flip(40);
    if (protocol == BS_ROUTE_CAPACITY)
        t.d.capacity = 1 + check_below(20);
    if (protocol == BS_ROUTE_THRESHOLD)
        t.d.fallback = check_below(t.d.paths + 1);
    if (protocol == BS_ROUTE_TABLE)
        t.d.capacity = 9;
    if (protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = rg_flip(50) ? 0 : 1 + check_below(6), all = variants ? variants : t.d.paths;
        t.d.capacity = variants;
        t.d.fallback = check_below((all < t.d.paths ? all : t.d.paths) + 1);
        t.d.floor = rg_flip(50) ? 0 : check_below(t.fill == FILL_LARGE ? 1 << 20 : 100);
    }
    for (int32_t i = 0; i < TEST_PATHS; i++) {
        t.ints[0][i] = protocol == BS_ROUTE_TABLE ? check_below(t.d.paths) : check_below(rg_flip(20) ? 1 << 24 : 100);
        t.ints[1][i] = check_below(t.d.paths);
    }
    t.width = score_width(&t.d);
    return t;
}

/* One output for every way to gather that the router allows, of a tensor with work on its paths and of one without. */
static void add_gathers(bs_graph *g, const trial *t, bs_router r, bs_value x, bs_value z)
{
    static const char *const names[2][4] = {{"place", "add", "weighted", "select"},
                                            {"place_on", "add_on", "weighted_on", "select_on"}};
    bs_value worked[TEST_PATHS], moved[TEST_PATHS];
    const bool many = g->routers[r.id].max_paths_per_cell > 1;
    const int32_t missing = rg_flip(50) ? check_below(t->d.paths) : -1;
    for (int32_t p = 0; p < t->d.paths; p++) {
        const bs_value in = bs_scatter(g, r, p, x);
        worked[p] = p == missing && t->d.paths > 1 ? none : rg_flip(30) ? in : bs_affine(g, in, 1, (float)p);
        moved[p] = bs_scatter(g, r, p, z);
    }
    for (int32_t mode = BS_GATHER_PLACE; mode <= BS_GATHER_SELECT; mode++)
        for (int32_t on = 0; on < 2; on++) {
            const bool whole = t->fill == FILL_SMALL && !t->d.normalise;
            if ((mode == BS_GATHER_PLACE && many) || (mode == BS_GATHER_WEIGHTED && !whole))
                continue;
            const bs_value all = bs_gather(g, r, worked, on ? x : none, &(bs_gather_desc){.mode = mode});
            bs_output(g, names[on][mode], bs_collect(g, all));
        }
    bs_output(g, "moved",
              bs_collect(g, bs_gather(g, r, moved, none,
                                      &(bs_gather_desc){.mode = many ? BS_GATHER_SELECT : BS_GATHER_PLACE})));
}

static void add_weights(const trial *t)
{
    if (t->d.protocol == BS_ROUTE_TABLE)
        net_add_ints(&weights, "r.table", 9, t->ints[0]);
    if (t->d.protocol != BS_ROUTE_BUDGET)
        return;
    net_add_ints(&weights, "r.cost", t->width, t->ints[0]);
    net_add_ints(&weights, "r.path", t->width, t->ints[1]);
}

/* Rows of tensors, or rows that stand for the patches of a frame. */
static bs_graph *trial_graph(const trial *t)
{
    bs_graph *g = new_graph();
    const bs_dim h = bs_symbol(g, "H", 40), w = bs_symbol(g, "W", 30);
    const bs_dim n = t->patches ? 20 : bs_symbol(g, "N", 100);
    const bs_value knob = bs_input(g, "knob", BS_F32, BS_SHAPE1(1));
    const bs_value like =
        t->patches ? bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, h, w)), &(bs_patches_desc){.size = 8})
                   : (bs_value){0};
    const bs_value score = bs_rows(g, bs_input(g, "scores", t->dtype, BS_SHAPE2(n, t->width)), like);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, 4)), like),
                   z = bs_rows(g, bs_input(g, "z", BS_I32, BS_SHAPE2(n, 3)), like);
    add_weights(t);
    const bs_router r = bs_route(g, score, t->knob ? knob : (bs_value){0}, &t->d);
    add_gathers(g, t, r, x, z);
    bs_output(g, "score", bs_collect(g, bs_route_score(g, r)));
    if (t->d.protocol == BS_ROUTE_BUDGET)
        bs_output(g, "price", bs_route_price(g, r));
    return g;
}

static double *source_data(const char *name, int64_t *count)
{
    for (int32_t s = 0; s < a.n_inputs; s++)
        if (strcmp(a.sources[s].name, name) == 0) {
            *count = a.sources[s].dim[0] * (a.sources[s].dim[1] ? a.sources[s].dim[1] : 1);
            return ag_data[s];
        }
    printf("FAIL the test has no input %s\n", name);
    exit(1);
}

static void fill_scores(const trial *t)
{
    int64_t count;
    double *scores = source_data("scores", &count);
    for (int64_t i = 0; i < count; i++) {
        scores[i] = t->fill == FILL_FLOAT   ? (double)(8 * check_float())
                    : t->fill == FILL_LARGE ? (1 << 30) + check_below(9)
                                            : check_below(17) - 8;
        if (t->d.protocol == BS_ROUTE_LABEL)
            scores[i] = check_below(t->d.paths);
        if (t->d.protocol == BS_ROUTE_TABLE)
            scores[i] = check_below(9);
        if (t->d.protocol == BS_ROUTE_BUDGET)
            scores[i] = check_below(t->fill == FILL_LARGE && rg_flip(30) ? 1 << 24 : 200);
    }
}

static int32_t callback_paths;

/* Session of one configuration in `r`; the oracle has the same inputs. */
static bool trial_open(rig *r, const bs_graph *g, const trial *t, const bs_plan_desc *desc)
{
    const int64_t extent[3] = {t->rows, 1 + t->rows % 40, 1 + t->rows * 7 % 30};
    memset(&a, 0, sizeof a);
    a.oracle.callback = rg_callback;
    callback_paths = t->d.paths;
    if (!rig_plan(r, g, desc) || !rig_session(r, &weights.table, NULL, 0xFF)) {
        snprintf(a.why, sizeof a.why, "%.250s", r->error.message);
        return false;
    }
    bs_set_route(r->session, "r", rg_callback_run, &callback_paths, NULL);
    against_inputs(&a, g, &weights.table, desc, extent);
    fill_scores(t);
    return true;
}

/* Counts, offsets, ids and the inverse map say the same as the choices, rows of a path in the order of the parent. */
static bool decision_is_packed(const bs_decision_data *d)
{
    int32_t total = 0;
    for (int32_t p = 0; p < d->paths; p++) {
        if (d->offsets[p] != total || d->offsets[p + 1] - d->offsets[p] != d->counts[p])
            return false;
        for (int32_t i = 0; i < d->counts[p]; i++, total++) {
            const int32_t row = d->ids[total];
            bool found = false;
            if (row < 0 || row >= d->rows || (i > 0 && row <= d->ids[total - 1]))
                return false;
            for (int32_t k = 0; k < d->per_row; k++)
                found = found || (d->chosen[row * d->per_row + k] == p && d->inverse[row * d->per_row + k] == total);
            if (!found)
                return false;
        }
    }
    for (int32_t at = 0; at < d->rows * d->per_row; at++)
        if ((d->chosen[at] < 0) != (d->inverse[at] < 0))
            return false;
    return true;
}

/* The decision itself, gates and all, against the oracle. */
static bool decision_agrees(const bs_session *s)
{
    const bs_decision_data *d = &s->root.decisions[1];
    if (!decision_is_packed(d))
        return false;
    for (int32_t row = 0; row < d->rows; row++) {
        const naive_choice *c = &a.oracle.choice[1][row];
        for (int32_t k = 0; k < d->per_row; k++) {
            const int32_t path = k < c->n ? c->path[k] : -1;
            if (d->chosen[row * d->per_row + k] != path || (path >= 0 && d->gates[row * d->per_row + k] != c->gate[k]))
                return false;
        }
    }
    return true;
}

static bool trial_runs(const trial *t)
{
    const bs_graph *g = trial_graph(t);
    const uint64_t data = check_state;
    bool ok = g->status == BS_OK;
    if (!ok)
        snprintf(a.why, sizeof a.why, "%.250s", g->error.message);
    for (int32_t turn = 0; ok && turn < 4; turn++) {
        const bs_plan_desc desc = {.order = 1 + turn % 2, .threads = 1 + (turn + t->rows) % 4};
        rig r;
        check_state = data; /* the same inputs for every configuration */
        ok = trial_open(&r, g, t, &desc);
        a.strided = turn == 2;
        ok = ok && against_run(&a, r.session);
        if (ok && !decision_agrees(r.session)) {
            snprintf(a.why, sizeof a.why, "the decision is not what the oracle decides");
            ok = false;
        }
        bs_session_close(r.session);
    }
    if (!ok)
        printf("  %s, %d paths, k %d, width %d, %d rows, %s%s: %s\n", bs_protocol_name((bs_protocol)t->d.protocol),
               t->d.paths, t->d.k, t->width, t->rows, fill_names[t->fill], t->patches ? ", patches" : "", a.why);
    return ok;
}

static void test_protocols(void)
{
    enum { TRIALS = 14 };
    for (bs_protocol p = BS_ROUTE_TOP1; p < BS_PROTOCOL_COUNT; p++)
        for (int32_t type = 0; type < 2; type++) {
            int32_t wrong = 0;
            const bs_dtype dtype = type ? BS_I32 : BS_F32;
            if (!takes(p, dtype))
                continue;
            for (int32_t i = 0; i < TRIALS; i++) {
                trial t = random_trial(p, dtype);
                t.patches = i % 3 == 2;
                wrong += !trial_runs(&t);
            }
            check(wrong == 0, "%s of %s scores decides, moves and gathers as defined", bs_protocol_name(p),
                  bs_dtype_name(dtype));
        }
}

/* ------------------------------------------------------------------------------------------------- what is refused */

static int32_t bad_path;

static bs_status bad_callback(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    (void)user, (void)scores;
    for (int32_t i = 0; i < rows; i++)
        path[i] = 0;
    path[rows - 1] = bad_path;
    return bad_path == 100 ? BS_ERROR_IO : BS_OK;
}

/* Runs with one element of an input spoilt, then whole again. */
static bool refuses(const trial *t, int32_t order, const char *input, double bad, bool last)
{
    const bs_plan_desc desc = {.order = order, .threads = 2};
    rig r;
    int64_t count;
    if (!trial_open(&r, trial_graph(t), t, &desc))
        return false;
    double *data = source_data(input, &count), *at = last ? &data[count - 1] : data;
    const double good = *at;
    bool ok = against_run(&a, r.session);
    *at = bad;
    ok = ok && !against_run(&a, r.session) &&
         a.oracle.status == BS_ERROR_DATA; /* the oracle refuses before the session is asked */
    bs_buffer kept[AG_SOURCES];
    ok = ok && ag_bind_inputs(&a, r.session, kept) && bs_run(r.session, &a.error) == BS_ERROR_DATA &&
         strstr(a.error.message, "\"r\"");
    *at = good;
    ok = ok && against_run(&a, r.session);
    bs_session_close(r.session);
    return ok;
}

static void test_bad_scores(void)
{
    for (bs_protocol p = BS_ROUTE_TOP1; p < BS_PROTOCOL_COUNT; p++) {
        trial t = random_trial(p, takes(p, BS_F32) ? BS_F32 : BS_I32);
        bool ok = true;
        t.knob = true;
        t.rows = 20;
        for (int32_t order = 1; order <= 2; order++)
            for (int32_t last = 0; last < 2; last++) {
                if (p == BS_ROUTE_LABEL || p == BS_ROUTE_TABLE)
                    ok = ok && refuses(&t, order, "scores", -1, last) &&
                         refuses(&t, order, "scores", p == BS_ROUTE_LABEL ? t.d.paths : 9, last);
                else if (p != BS_ROUTE_BUDGET)
                    ok = ok && refuses(&t, order, "scores", NAN, last);
                if (p != BS_ROUTE_CALLBACK || last)
                    ok = ok && refuses(&t, order, "knob", NAN, false);
            }
        check(ok, "%s refuses bad scores and a knob that is no number, and runs again", bs_protocol_name(p));
    }
}

/* Paths that come from weights: a table's, and those of a budget's variants. */
static void test_bad_paths(bs_protocol protocol, int32_t which)
{
    trial t = random_trial(protocol, BS_I32);
    int32_t refused = 0;
    rig r;
    t.rows = 20;
    for (int32_t entry = -1; entry <= t.d.paths; entry += t.d.paths + 1) {
        for (int32_t i = 0; i < (which == 0 ? 9 : t.width); i++)
            t.ints[which][i] = entry;
        if (trial_open(&r, trial_graph(&t), &t, &(bs_plan_desc){.threads = 1})) {
            bs_buffer inputs[AG_SOURCES], outputs[AG_SOURCES];
            refused += !ag_too_small(&a) && against_bind(&a, r.session, inputs, outputs) &&
                       bs_run(r.session, NULL) == BS_ERROR_DATA;
        }
        bs_session_close(r.session);
    }
    check(refused == 2, "%s refuses paths that do not exist", bs_protocol_name(protocol));
}

static void test_callback(void)
{
    const bs_status expected[4] = {BS_ERROR_DATA, BS_ERROR_DATA, BS_ERROR_IO, BS_OK};
    trial t = random_trial(BS_ROUTE_CALLBACK, BS_F32);
    t.rows = 20;
    for (int32_t order = 1; order <= 2; order++) {
        const bs_plan_desc desc = {.order = order, .threads = 2};
        const int32_t paths[4] = {-2, t.d.paths, 100, -1};
        rig r;
        bool ok = trial_open(&r, trial_graph(&t), &t, &desc) && against_run(&a, r.session);
        for (int32_t i = 0; i < 4; i++) {
            bad_path = paths[i];
            bs_set_route(r.session, "r", bad_callback, NULL, NULL);
            const bs_status status = bs_run(r.session, &r.error);
            ok = ok && status == expected[i];
        }
        bs_set_route(r.session, "r", NULL, NULL, NULL);
        ok = ok && bs_run(r.session, &r.error) == BS_ERROR_UNBOUND;
        bs_set_route(r.session, "r", rg_callback_run, &callback_paths, NULL);
        check(ok && against_run(&a, r.session),
              "a callback's bad path, its own error and its absence are errors, order %d", order);
        check(bs_set_route(r.session, "none", rg_callback_run, NULL, &r.error) == BS_ERROR_ARGUMENT, "%s",
              r.error.message);
        bs_session_close(r.session);
    }
}

/* SELECT takes the path of the largest gate. Where that one gives nothing the cell has no row: not the next best
 * one's. */
static void test_select_nothing(void)
{
    static const float scores[4][3] = {{3, 2, 1}, {1, 3, 2}, {2, 2, 1}, {1, 2, 2}};
    static const float expected[2][4] = {{0, 13, 0, 12}, {3, 13, 2, 12}}; /* without and with a residual */
    for (int32_t with = 0; with < 2; with++)
        for (int32_t order = 1; order <= 2; order++) {
            const bs_plan_desc desc = {.order = order, .threads = 1};
            rig r;
            float in[4][3], out[4][3] = {{0}};
            bs_graph *g = new_graph();
            const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(4, 3)), none);
            const bs_router route = bs_route(
                g, x, none, &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_TOPK, .k = 2, .paths = 3});
            bs_value ways[3] = {none, bs_affine(g, bs_scatter(g, route, 1, x), 1, 10),
                                bs_affine(g, bs_scatter(g, route, 2, x), 1, 20)};
            bs_output(
                g, "y",
                bs_collect(g, bs_gather(g, route, ways, with ? x : none, &(bs_gather_desc){.mode = BS_GATHER_SELECT})));
            memcpy(in, scores, sizeof in);
            const bs_buffer from = {in, BS_F32, 2, {4, 3, 0, 0}, {0}}, to = {out, BS_F32, 2, {4, 3, 0, 0}, {0}};
            bool ok = rig_plan(&r, g, &desc) && rig_session(&r, NULL, NULL, 0) &&
                      bs_bind(r.session, "x", &from, &r.error) == BS_OK &&
                      bs_bind(r.session, "y", &to, &r.error) == BS_OK && bs_run(r.session, &r.error) == BS_OK;
            for (int32_t row = 0; ok && row < 4; row++) /* the largest of what is there: 13 is path 1's of a score 3 */
                ok = out[row][row == 0 || row == 2 ? 0 : 1] == expected[with][row];
            check(ok, "the path of the largest gate gives nothing: %s, order %d %s", with ? "the residual" : "zero",
                  order, r.error.message);
            bs_session_close(r.session);
        }
}

/* ADD and WEIGHTED add in path order, in f32, whatever the order of choice. */
static void test_order_of_sums(void)
{
    static const float scores[2][3] = {{1, 2, 3}, {3, 2, 1}}; /* the best path is the last one; the first one */
    static const float gives[3] = {1e8f, -1e8f, 1};           /* 1 in path order, 0 in the other */
    for (int32_t order = 1; order <= 2; order++) {
        const bs_plan_desc desc = {.order = order, .threads = 1};
        rig r;
        float in[2][3], out[2][3] = {{0}};
        bs_graph *g = new_graph();
        const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(2, 3)), none);
        const bs_router route =
            bs_route(g, x, none, &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_TOPK, .k = 3, .paths = 3});
        bs_value ways[3];
        for (int32_t p = 0; p < 3; p++)
            ways[p] = bs_affine(g, bs_scatter(g, route, p, x), 0, gives[p]);
        bs_output(g, "y",
                  bs_collect(g, bs_gather(g, route, ways, none, &(bs_gather_desc){.mode = BS_GATHER_ADD})));
        memcpy(in, scores, sizeof in);
        const bs_buffer from = {in, BS_F32, 2, {2, 3, 0, 0}, {0}}, to = {out, BS_F32, 2, {2, 3, 0, 0}, {0}};
        const bool ran = rig_plan(&r, g, &desc) && rig_session(&r, NULL, NULL, 0) &&
                         bs_bind(r.session, "x", &from, &r.error) == BS_OK &&
                         bs_bind(r.session, "y", &to, &r.error) == BS_OK && bs_run(r.session, &r.error) == BS_OK;
        check(ran && out[0][0] == 1 && out[1][0] == 1, "sums are in path order: %g, %g, order %d %s", (double)out[0][0],
              (double)out[1][0], order, r.error.message);
        bs_session_close(r.session);
    }
}

/* ---------------------------------------------------------------------------------------------------------- nested */

/* Three levels of routers over one tensor and its scores; `image`: with convolutions, so that halos cross every
 * level. */
static bs_value nested(bs_graph *g, bs_value x, bs_value score, int32_t level, bool image)
{
    static const char *const convs[] = {"conv.top", "conv.middle", "conv.bottom"};
    bs_value out[3] = {{0}, {0}, {0}};
    char name[32];
    snprintf(name, sizeof name, "level%d.%d", level, g->n_routers);
    bs_route_desc d = {.name = name,
                       .protocol = level == 1 ? BS_ROUTE_TOPK : BS_ROUTE_THRESHOLD,
                       .paths = 3,
                       .k = 2,
                       .threshold = (float)level - 1};
    const bs_router r = bs_route(g, score, (bs_value){0}, &d);
    for (int32_t p = 0; p < 3; p++) {
        bs_value y = bs_scatter(g, r, p, x), s = bs_scatter(g, r, p, score);
        if (p == 1 && image)
            y = bs_conv2d(g, y, &(bs_conv2d_desc){.name = convs[level], .out = 1, .act = BS_CLIP, .act_param = 8});
        y = bs_affine(g, y, 1, (float)(p - 1));
        if (level < 2 && p != 2)
            y = nested(g, y, bs_affine(g, s, -1, (float)p), level + 1, image && p == 0);
        out[p] = p == 2 && level == 2 ? (bs_value){0} : y;
    }
    return bs_gather(g, r, out, x, &(bs_gather_desc){.mode = level == 1 ? BS_GATHER_WEIGHTED : BS_GATHER_SELECT});
}

static bs_graph *nested_graph(bool image)
{
    static const char *const names[3][2] = {{"conv.top.weight", "conv.top.bias"},
                                            {"conv.middle.weight", "conv.middle.bias"},
                                            {"conv.bottom.weight", "conv.bottom.bias"}};
    static const int64_t conv[4] = {1, 1, 3, 3}, one[1] = {1};
    bs_graph *g = new_graph();
    for (int32_t i = 0; i < 3; i++) {
        net_add_whole(&weights, names[i][0], 4, conv);
        net_add_whole(&weights, names[i][1], 1, one);
    }
    if (!image) {
        const bs_dim n = bs_symbol(g, "N", 100);
        const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, 4)), (bs_value){0});
        bs_output(g, "y",
                  bs_collect(g, nested(g, x, bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(n, 3)), (bs_value){0}),
                                       0, false)));
        return g;
    }
    const bs_dim h = bs_symbol(g, "H", 40), w = bs_symbol(g, "W", 30);
    const bs_value cells =
        bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, h, w)), &(bs_patches_desc){.size = 8});
    const bs_value y = nested(g, cells, bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(20, 3)), cells), 0, true);
    bs_output(g, "y", bs_assemble(g, bs_clip(g, y, -100, 100)));
    return g;
}

static void test_nested(void)
{
    for (int32_t image = 0; image < 2; image++) {
        int32_t wrong = 0, plans = 0;
        for (int32_t turn = 0; turn < 8; turn++) {
            const bs_plan_desc desc = {.conv = BS_CONV_FORCE_DIRECT, .order = 1 + turn % 2, .threads = 1 + turn / 2};
            bs_graph *g = nested_graph(image != 0);
            rig r;
            memset(&a, 0, sizeof a);
            if (!rig_plan(&r, g, &desc) || !rig_session(&r, &weights.table, NULL, 0xFF)) {
                printf("  %s\n", g->status ? g->error.message : r.error.message);
                wrong++;
                continue;
            }
            plans += r.plan->routers[3].in_tile;
            for (int32_t run = 0; run < 3; run++) {
                const int64_t extent[3] = {run == 0 ? 100 : 1 + check_below(100), 40 - run * 7, 30 - run * 11};
                against_inputs(&a, g, &weights.table, &desc, extent);
                const bool ok = against_run(&a, r.session);
                wrong += !ok;
                if (!ok)
                    printf("  order %d, %d threads: %s\n", desc.order, desc.threads, a.why);
            }
            bs_session_close(r.session);
        }
        check(wrong == 0, "routers in routers in routers, %s, both orders, 1 to 4 threads",
              image ? "patches with halos" : "rows");
        check(plans == 4, "depth first, inner routers decide tile by tile");
    }
}

/* Protocols that look at all rows at once, below another router: their scores are rows of a path as they are. */
static bs_graph *wide_graph(bs_protocol protocol)
{
    static const int32_t cost[3] = {30, 5, 1}, path[3] = {0, 1, 2};
    bs_graph *g = new_graph();
    const bs_dim n = bs_symbol(g, "N", 100);
    const bs_dtype dtype = protocol == BS_ROUTE_BUDGET ? BS_I32 : BS_F32;
    const bs_value knob = bs_input(g, "knob", BS_F32, BS_SHAPE1(1)),
                   x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, 4)), none);
    const bs_value halves = bs_rows(g, bs_input(g, "halves", BS_F32, BS_SHAPE2(n, 1)), none);
    bs_value score = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(n, 3)), none);
    if (dtype == BS_I32)
        score = bs_convert(g, bs_activation(g, score, BS_RELU, 0), &(bs_convert_desc){.dtype = BS_I32});
    net_add_ints(&weights, "r.cost", 3, cost);
    net_add_ints(&weights, "r.path", 3, path);
    const bs_router half =
        bs_route(g, halves, none, &(bs_route_desc){.name = "half", .protocol = BS_ROUTE_BINARY, .paths = 2});
    const bs_value inside = bs_scatter(g, half, 0, x);
    const bs_router r = bs_route(
        g, bs_scatter(g, half, 0, score), knob,
        &(bs_route_desc){
            .name = "r", .protocol = (int32_t)protocol, .paths = 3, .capacity = protocol == BS_ROUTE_CAPACITY ? 9 : 0});
    bs_value out[3], all[2];
    for (int32_t p = 0; p < 3; p++)
        out[p] = bs_affine(g, bs_scatter(g, r, p, inside), 1, (float)p);
    all[0] = bs_gather(g, r, out, inside, NULL);
    all[1] = bs_scatter(g, half, 1, x);
    bs_output(g, "y", bs_collect(g, bs_gather(g, half, all, none, NULL)));
    return g;
}

typedef struct calls {
    pthread_t thread;
    int32_t calls, rows, elsewhere;
} calls;

static bs_status counted_callback(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    calls *c = user;
    c->calls++;
    c->rows += rows;
    c->elsewhere += !pthread_equal(c->thread, pthread_self());
    return rg_callback_run(&callback_paths, scores, rows, path);
}

static void test_wide_below(void)
{
    const bs_protocol protocols[3] = {BS_ROUTE_CAPACITY, BS_ROUTE_BUDGET, BS_ROUTE_CALLBACK};
    for (int32_t k = 0; k < 3; k++) {
        int32_t wrong = 0;
        calls c = {pthread_self(), 0, 0, 0};
        bool once = true;
        for (int32_t turn = 0; turn < 4; turn++) {
            const bs_plan_desc desc = {.order = 1 + turn % 2, .threads = 1 + turn};
            rig r;
            memset(&a, 0, sizeof a);
            a.oracle.callback = rg_callback;
            callback_paths = 3;
            if (!rig_plan(&r, wide_graph(protocols[k]), &desc) || !rig_session(&r, &weights.table, NULL, 0xFF)) {
                wrong++;
                continue;
            }
            bs_set_route(r.session, "r", counted_callback, &c, NULL);
            for (int32_t run = 0; run < 3; run++) {
                const int64_t extent[3] = {100 - 30 * run, 1, 1};
                against_inputs(&a, r.plan->graph, &weights.table, &desc, extent);
                c.calls = c.rows = 0;
                wrong += !against_run(&a, r.session);
                once = once && c.calls == (k == 2) && c.rows == (k == 2 ? a.oracle.counts[1][0] : 0);
            }
            bs_session_close(r.session);
        }
        check(wrong == 0, "%s below another router decides over all its rows, both orders %s",
              bs_protocol_name(protocols[k]), wrong ? a.why : "");
        check(once && c.elsewhere == 0, "a callback is asked once, on the thread of bs_run");
    }
}

/* ---------------------------------------------------------------------------------------------------------- budget */

enum { CELLS = 6, VARIANTS = 3 };

typedef struct budget {
    double loss, cost;
} budget;

/* What a choice of variants costs and loses, each cell by its area. */
static budget budget_of(const double *losses, const int32_t *cost, const double *area, int32_t code)
{
    budget b = {0, 0};
    for (int32_t c = 0; c < CELLS; c++, code /= VARIANTS) {
        b.loss += area[c] * losses[c * VARIANTS + code % VARIANTS];
        b.cost += area[c] * cost[code % VARIANTS];
    }
    return b;
}

/* All 3^6 choices: the one that was made keeps to the budget, or to the floor where that gives more; and none that
 * loses as little is cheaper, of those where no cell loses eight times the floor. */
static bool budget_holds(const double *losses, const int32_t *cost, const double *area, double share, int32_t each,
                         int32_t code)
{
    double given = 0, unseen = 0, unavoidable = 0, least[CELLS];
    for (int32_t c = 0; c < CELLS; c++) {
        const double *l = &losses[c * VARIANTS];
        const double low = fmin(l[0], fmin(l[1], l[2])), high = fmax(l[0], fmax(l[1], l[2]));
        given += area[c] * share * (high - low);
        unseen += area[c] * each;
        unavoidable += area[c] * low;
        least[c] = low;
    }
    const budget made = budget_of(losses, cost, area, code);
    if (made.loss > unavoidable + fmax(floor(given), unseen))
        return false;
    for (int32_t other = 0; other < 729; other++) {
        const budget b = budget_of(losses, cost, area, other);
        bool within = true;
        for (int32_t c = 0, rest = other; c < CELLS; c++, rest /= VARIANTS)
            within = within && losses[c * VARIANTS + rest % VARIANTS] <= least[c] + 8 * each;
        if (b.loss <= made.loss && b.cost < made.cost && (within || unseen <= floor(given)))
            return false;
    }
    return true;
}

static void test_budget(void)
{
    enum { ROUNDS = 60 };
    int32_t wrong = 0, cheaper = 0, dearer = 0, steep = 0, given = 0;
    for (int32_t i = 0; i < ROUNDS; i++) {
        const bool is_steep =
            i % 6 == 5; /* losses so small beside the costs that no price of the grid is high enough */
        trial t = random_trial(BS_ROUTE_BUDGET, BS_I32);
        t.d.paths = t.width = VARIANTS;
        t.d.capacity = t.d.fallback = 0;
        t.d.floor = i % 3 ? 0 : 1 + check_below(8);
        t.patches = i % 2 == 0;
        t.knob = true;
        t.rows = CELLS;
        for (int32_t v = 0; v < VARIANTS; v++)
            t.ints[0][v] = is_steep ? check_below(1 << 24) : check_below(100), t.ints[1][v] = v;
        const bs_plan_desc desc = {.threads = 1};
        const int64_t extent[3] = {CELLS, 13, 20}; /* 2 x 3 patches, of 8, 8, 4 by 8, 5 */
        const double patch_area[CELLS] = {64, 64, 32, 40, 40, 20}, one[CELLS] = {1, 1, 1, 1, 1, 1};
        double last_cost = INFINITY;
        rig r;
        if (!trial_open(&r, trial_graph(&t), &t, &desc))
            continue;
        against_inputs(&a, r.plan->graph, &weights.table, &desc, extent);
        int64_t count;
        double *losses = source_data("scores", &count), *knob = source_data("knob", &count);
        for (int32_t k = 0; k < CELLS * VARIANTS; k++)
            losses[k] = check_below(is_steep ? 3 : 50);
        for (int32_t share = 0; share <= 8; share++) {
            int32_t code = 0;
            *knob = share / 8.0;
            wrong += !against_run(&a, r.session);
            bs_decision went;
            bs_decision_get(r.session, r.plan->graph->routers[1].desc->name, &went);
            for (int32_t c = CELLS - 1; c >= 0; c--)
                code = code * VARIANTS + went.chosen[c];
            const double *area = t.patches ? patch_area : one;
            const budget made = budget_of(losses, t.ints[0], area, code);
            wrong += !budget_holds(losses, t.ints[0], area, share / 8.0, t.d.floor, code);
            given += share == 0 && t.d.floor > 0 && !budget_holds(losses, t.ints[0], area, 0, 0, code);
            dearer += made.cost > last_cost;
            cheaper += made.cost < last_cost && share > 0;
            steep += is_steep;
            last_cost = made.cost;
        }
        bs_session_close(r.session);
    }
    check(
        wrong == 0 && steep > 0 && given > ROUNDS / 6,
        "a budget is kept, or a floor that gives more, and no choice that loses as little is cheaper (brute force "
        "over %d choices) %s",
        729, wrong ? a.why : "");
    check(dearer == 0 && cheaper > ROUNDS, "a larger budget never costs more");
}

/* One cell of forty with something to lose, a floor of 1: together they would allow 40. */
static void test_floor_of_a_cell(void)
{
    static const struct { double share; int32_t path; const char *what; } rows[] = {
        {0, 1, "a floor takes eight times as much of one cell, however much the others leave"},
        {1, 0, "and what the budget alone would take"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trial t = random_trial(BS_ROUTE_BUDGET, BS_I32);
        t.d.paths = t.width = VARIANTS;
        t.d.capacity = t.d.fallback = 0;
        t.d.floor = 1;
        t.patches = false;
        t.knob = true;
        t.rows = 40;
        for (int32_t v = 0; v < VARIANTS; v++)
            t.ints[0][v] = 1 + 4 * v, t.ints[1][v] = v;
        const bs_plan_desc desc = {.threads = 1};
        const int64_t extent[3] = {t.rows, 1, 1};
        rig r;
        int64_t count;
        if (!trial_open(&r, trial_graph(&t), &t, &desc))
            continue;
        against_inputs(&a, r.plan->graph, &weights.table, &desc, extent);
        double *losses = source_data("scores", &count), *knob = source_data("knob", &count);
        for (int32_t k = 0; k < t.rows * VARIANTS; k++)
            losses[k] = k == 7 * VARIANTS ? 20 : k == 7 * VARIANTS + 1 ? 3 : 0;
        *knob = rows[i].share;
        const bool same = against_run(&a, r.session);
        bs_decision went;
        bs_decision_get(r.session, r.plan->graph->routers[1].desc->name, &went);
        check(same && went.chosen[7] == rows[i].path && went.chosen[8] == 0, "%s %s", rows[i].what, same ? "" : a.why);
        bs_session_close(r.session);
    }
}

/* ----------------------------------------------------------------------------------------------------------
 * capacity */

static void test_capacity_scales(void)
{
    enum { ROWS = 60000 };
    bs_graph *g = new_graph();
    static float scores[ROWS][8], x[ROWS], y[ROWS];
    const bs_value score = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(ROWS, 8)), (bs_value){0});
    const bs_value in = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, 1)), (bs_value){0});
    const bs_router r =
        bs_route(g, score, (bs_value){0},
                 &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_CAPACITY, .paths = 8, .k = 2, .capacity = 10000});
    bs_value out[8];
    for (int32_t p = 0; p < 8; p++)
        out[p] = bs_scatter(g, r, p, in);
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, (bs_value){0}, &(bs_gather_desc){.mode = BS_GATHER_ADD})));
    for (int32_t i = 0; i < ROWS * 8; i++)
        scores[i / 8][i % 8] = check_float();
    for (int32_t i = 0; i < ROWS; i++)
        x[i] = 1;
    rig rg_of;
    const bool ok = rig_plan(&rg_of, g, NULL) && rig_session(&rg_of, NULL, NULL, 0);
    const bs_buffer s = {scores, BS_F32, 2, {ROWS, 8, 0, 0}, {0, 0, 0, 0}},
                    bx = {x, BS_F32, 2, {ROWS, 1, 0, 0}, {0, 0, 0, 0}},
                    by = {y, BS_F32, 2, {ROWS, 1, 0, 0}, {0, 0, 0, 0}};
    bs_bind(rg_of.session, "scores", &s, NULL);
    bs_bind(rg_of.session, "x", &bx, NULL);
    bs_bind(rg_of.session, "y", &by, NULL);
    const clock_t start = clock();
    const bool ran = ok && bs_run(rg_of.session, &rg_of.error) == BS_OK;
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    bs_decision d;
    bs_decision_get(rg_of.session, "r", &d);
    int64_t kept = 0;
    double sum = 0;
    for (int32_t p = 0; p < 8; p++)
        kept += d.counts[p];
    for (int32_t i = 0; i < ROWS; i++)
        sum += (double)y[i];
    check(ran && kept + d.dropped == 2 * ROWS && kept <= 80000 && sum == (double)kept,
          "capacity keeps %lld of %d choices, drops %lld", (long long)kept, 2 * ROWS, (long long)d.dropped);
#ifdef BS_TEST_ON_DEVICE
    (void)seconds; /* of the host, or of the emulation */
#else
    check(seconds < 3, "%d rows by priority: %.2f s, no square of them", ROWS, seconds);
#endif
    bs_session_close(rg_of.session);
}

/* --------------------------------------------------------------------------------------------- mixture of experts */

enum { TOKENS = 50, WIDTH = 16, HIDDEN = 24, EXPERTS = 4 };

static const char *const expert_names[EXPERTS][6] = {
    {"e0.up", "e0.up.weight", "e0.up.bias", "e0.down", "e0.down.weight", "e0.down.bias"},
    {"e1.up", "e1.up.weight", "e1.up.bias", "e1.down", "e1.down.weight", "e1.down.bias"},
    {"e2.up", "e2.up.weight", "e2.up.bias", "e2.down", "e2.down.weight", "e2.down.bias"},
    {"e3.up", "e3.up.weight", "e3.up.bias", "e3.down", "e3.down.weight", "e3.down.bias"}};

static bs_value expert(bs_graph *g, bs_value x, void *user)
{
    const char *const *names = user;
    const bs_value h = bs_linear(g, x, &(bs_linear_desc){.name = names[0], .out = HIDDEN, .act = BS_GELU});
    return bs_linear(g, h, &(bs_linear_desc){.name = names[3], .out = WIDTH});
}

static bs_graph *experts_graph(void)
{
    static const int64_t gate[2] = {EXPERTS, WIDTH}, up[2] = {HIDDEN, WIDTH}, down[2] = {WIDTH, HIDDEN};
    bs_graph *g = new_graph();
    net_add(&weights, "gate.weight", 2, gate, 0.5f);
    net_add(&weights, "gate.bias", 1, gate, 0.1f);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 64), WIDTH)), (bs_value){0});
    const bs_value score = bs_softmax(g, bs_linear(g, x, &(bs_linear_desc){.name = "gate", .out = EXPERTS}));
    const bs_router r = bs_route(
        g, score, (bs_value){0},
        &(bs_route_desc){.name = "experts", .protocol = BS_ROUTE_TOPK, .paths = EXPERTS, .k = 2, .normalise = 1});
    bs_value out[EXPERTS];
    for (int32_t e = 0; e < EXPERTS; e++) {
        net_add(&weights, expert_names[e][1], 2, up, 0.3f);
        net_add(&weights, expert_names[e][2], 1, up, 0.1f);
        net_add(&weights, expert_names[e][4], 2, down, 0.3f);
        net_add(&weights, expert_names[e][5], 1, down, 0.1f);
        out[e] = bs_branch(g, r, e, expert_names[e][0], x, expert, (void *)(uintptr_t)expert_names[e]);
    }
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED})));
    return g;
}

static const float *weight_of(const char *name)
{
    for (int32_t i = 0; i < weights.table.count; i++)
        if (strcmp(weights.tensors[i].name, name) == 0)
            return weights.tensors[i].data;
    return NULL;
}

static void plain_linear(const double *x, int32_t in, const char *weight, const char *bias, int32_t out, double *y)
{
    const float *w = weight_of(weight), *b = weight_of(bias);
    for (int32_t o = 0; o < out; o++) {
        y[o] = (double)b[o];
        for (int32_t i = 0; i < in; i++)
            y[o] += x[i] * (double)w[o * in + i];
    }
}

/* One token through its two best experts, in double. */
static void plain_token(const float *token, double *y)
{
    double x[WIDTH], score[EXPERTS], h[HIDDEN], part[WIDTH];
    for (int32_t i = 0; i < WIDTH; i++)
        y[i] = x[i] = (double)token[i];
    plain_linear(x, WIDTH, "gate.weight", "gate.bias", EXPERTS, score);
    int32_t first = 0, second = -1;
    for (int32_t e = 1; e < EXPERTS; e++)
        first = score[e] > score[first] ? e : first;
    for (int32_t e = 0; e < EXPERTS; e++)
        if (e != first && (second < 0 || score[e] > score[second]))
            second = e;
    const double a_share = 1 / (1 + exp(score[second] - score[first]));
    for (int32_t e = 0; e < EXPERTS; e++) {
        if (e != first && e != second)
            continue;
        plain_linear(x, WIDTH, expert_names[e][1], expert_names[e][2], HIDDEN, h);
        for (int32_t i = 0; i < HIDDEN; i++)
            h[i] = 0.5 * h[i] * (1 + erf(h[i] / sqrt(2.0)));
        plain_linear(h, HIDDEN, expert_names[e][4], expert_names[e][5], WIDTH, part);
        for (int32_t i = 0; i < WIDTH; i++)
            y[i] += (e == first ? a_share : 1 - a_share) * part[i];
    }
}

static void test_experts(void)
{
    static float x[TOKENS][WIDTH], y[TOKENS][WIDTH], first[TOKENS][WIDTH];
    double worst = 0;
    int32_t same = 0, runs = 0;
    for (int32_t i = 0; i < TOKENS * WIDTH; i++)
        x[i / WIDTH][i % WIDTH] = check_float();
    for (int32_t order = 1; order <= 2; order++)
        for (int32_t threads = 1; threads <= 4; threads++) {
            rig r;
            const bs_buffer in = {x, BS_F32, 2, {TOKENS, WIDTH, 0, 0}, {0, 0, 0, 0}},
                            out = {y, BS_F32, 2, {TOKENS, WIDTH, 0, 0}, {0, 0, 0, 0}};
            if (!rig_plan(&r, experts_graph(), &(bs_plan_desc){.order = order, .threads = threads}) ||
                !rig_session(&r, &weights.table, NULL, 0xFF))
                continue;
            bs_bind(r.session, "x", &in, NULL);
            bs_bind(r.session, "y", &out, NULL);
            memset(y, 0xC3, sizeof y);
            runs += bs_run(r.session, &r.error) == BS_OK;
            if (runs == 1)
                memcpy(first, y, sizeof y);
            same += memcmp(first, y, sizeof y) == 0;
            bs_session_close(r.session);
        }
    for (int32_t t = 0; t < TOKENS; t++) {
        double plain[WIDTH];
        plain_token(x[t], plain);
        for (int32_t i = 0; i < WIDTH; i++)
            worst = fmax(worst, fabs(plain[i] - (double)first[t][i]));
    }
    check(runs == 8 && worst < 2e-5, "a mixture of experts is what plain arithmetic gives (off by %.1e)", worst);
    check(same == 8, "in the same bytes for both orders and 1 to 4 threads");
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_protocols();
    test_bad_scores();
    test_bad_paths(BS_ROUTE_TABLE, 0);
    test_bad_paths(BS_ROUTE_BUDGET, 1);
    test_callback();
    test_select_nothing();
    test_order_of_sums();
    test_nested();
    test_wide_below();
    test_budget();
    test_floor_of_a_cell();
    test_capacity_scales();
    test_experts();
    return check_end();
}
