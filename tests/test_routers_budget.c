/* tags: asan shipped aarch64 32-bit */
/* Promises: a budget's choice keeps to the budget, or to the floor where that gives more, and no other choice is
 * better; sorting for a capacity takes time in proportion to n log n. */
#include "router_trial.h"

#include <time.h>

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

/* steep: losses so small beside the costs that no price of the grid is high enough. */
static trial budget_trial(int32_t round, bool steep)
{
    trial t = random_trial(BS_ROUTE_BUDGET, BS_I32);
    t.d.paths = t.width = VARIANTS;
    t.d.variants = t.d.baseline = 0;
    t.d.floor = round % 3 ? 0 : 1 + check_below(8);
    t.patches = round % 2 == 0;
    t.knob = true;
    t.rows = CELLS;
    for (int32_t v = 0; v < VARIANTS; v++)
        t.ints[0][v] = steep ? check_below(1 << 24) : check_below(100), t.ints[1][v] = v;
    return t;
}

static void test_budget(void)
{
    enum { ROUNDS = 60 };
    int32_t wrong = 0, cheaper = 0, dearer = 0, steep = 0, given = 0;
    for (int32_t i = 0; i < ROUNDS; i++) {
        const bool is_steep = i % 6 == 5;
        const trial t = budget_trial(i, is_steep);
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
        t.d.variants = t.d.baseline = 0;
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

/* -------------------------------------------------------------------------------------------------------- capacity */

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

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_budget();
    test_floor_of_a_cell();
    test_capacity_scales();
    return check_end();
}
