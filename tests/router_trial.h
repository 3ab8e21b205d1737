/* router_trial.h - one router of any protocol over random scores: a graph, its session and its oracle, and whether they
 * agree. Relies on random_graph.h, against.h. */
#ifndef BS_TEST_ROUTER_TRIAL_H
#define BS_TEST_ROUTER_TRIAL_H

#include "random_graph.h"
#include "against.h"

static net_table weights;
static against a;
static _Alignas(64) uint8_t graph_memory[1 << 21];

static const bs_value none = {0};

static inline bs_graph *new_graph(void)
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

static inline int32_t score_width(const bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_LABEL || d->protocol == BS_ROUTE_TABLE)
        return 1;
    if (d->protocol == BS_ROUTE_BUDGET)
        return d->variants ? d->variants : d->paths;
    return d->protocol == BS_ROUTE_CALLBACK ? 1 + check_below(5) : d->paths;
}

static inline bool takes(bs_protocol protocol, bs_dtype dtype)
{
    const bool f32_only =
        protocol == BS_ROUTE_THRESHOLD || protocol == BS_ROUTE_RESIDUAL_THRESHOLD || protocol == BS_ROUTE_BINARY;
    const bool i32_only = protocol == BS_ROUTE_LABEL || protocol == BS_ROUTE_TABLE || protocol == BS_ROUTE_BUDGET;
    return dtype == BS_F32 ? !i32_only : !f32_only;
}

static inline trial random_trial(bs_protocol protocol, bs_dtype dtype)
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
        t.d.capacity = 1 + check_below(20), t.d.spill = rg_flip(50) ? 0 : check_below(t.d.paths + 1);
    if (protocol == BS_ROUTE_THRESHOLD)
        t.d.fallback = check_below(t.d.paths + 1);
    if (protocol == BS_ROUTE_TABLE)
        t.d.keys = 9;
    if (protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = rg_flip(50) ? 0 : 1 + check_below(6), all = variants ? variants : t.d.paths;
        t.d.variants = variants;
        t.d.baseline = check_below((all < t.d.paths ? all : t.d.paths) + 1);
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
static inline void add_gathers(bs_graph *g, const trial *t, bs_router r, bs_value x, bs_value z)
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

static inline void add_weights(const trial *t)
{
    if (t->d.protocol == BS_ROUTE_TABLE)
        net_add_ints(&weights, "r.table", 9, t->ints[0]);
    if (t->d.protocol != BS_ROUTE_BUDGET)
        return;
    net_add_ints(&weights, "r.cost", t->width, t->ints[0]);
    net_add_ints(&weights, "r.path", t->width, t->ints[1]);
}

/* Rows of tensors, or rows that stand for the patches of a frame. */
static inline bs_graph *trial_graph(const trial *t)
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

static inline double *source_data(const char *name, int64_t *count)
{
    for (int32_t s = 0; s < a.n_inputs; s++)
        if (strcmp(a.sources[s].name, name) == 0) {
            *count = a.sources[s].dim[0] * (a.sources[s].dim[1] ? a.sources[s].dim[1] : 1);
            return ag_data[s];
        }
    printf("FAIL the test has no input %s\n", name);
    exit(1);
}

static inline void fill_scores(const trial *t)
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
static inline bool trial_open(rig *r, const bs_graph *g, const trial *t, const bs_plan_desc *desc)
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
static inline bool decision_is_packed(const bs_decision_data *d)
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
static inline bool decision_agrees(const bs_session *s)
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

static inline bool trial_runs(const trial *t)
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

#endif
