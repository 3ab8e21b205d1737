/* tags: asan tsan shipped aarch64 32-bit */
/* Promises: every protocol decides what brainstorm.h says, whatever the order, the threads and the domain; what follows
 * a decision is moved by it and put back by it; bad scores are an error, and the session runs again. Routers below
 * routers: test_routers_nested.c. Budgets and capacities: test_routers_budget.c. */
#include "router_trial.h"

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
    return check_end();
}
