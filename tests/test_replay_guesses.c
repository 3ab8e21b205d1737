/* tags: long asan */
/* Promises: guesses cost nothing when they are worth nothing, and hide reads when they are right; what always follows
 * is foreseen, like what is chosen often, and what is needed sooner stays. On traces that are replayed. */
#include "replay_traces.h"

/* Routers in a row, each with units of its own; `good` of 100 look-aheads are right. -1: there are none. */
static void routed_trace(int32_t n_phases, int32_t paths, int32_t runs, uint64_t compute_ns, int32_t good,
                         int32_t better_from)
{
    trace_begin(n_phases * paths);
    for (int32_t j = 0; j < n_phases; j++)
        add_phase(j + 1, j * paths, paths);
    int32_t next = check_below(paths);
    for (int32_t k = 0; k < runs * n_phases; k++) {
        const int32_t j = k % n_phases, now = next, percent = k >= better_from ? 100 : good;
        next = check_below(paths);
        if (percent >= 0)
            add_guess((k + 1) % n_phases,
                      (k + 1) % n_phases * paths + (check_below(100) < percent ? next : check_below(paths)));
        add_visit(j, 0);
        add_use(j * paths + now, compute_ns);
    }
}

static double slower(bs_replay_desc *d)
{
    d->stream.speculation = BS_SPECULATE_AUTO;
    const bs_replay_result ahead = run(d);
    d->stream.speculation = BS_SPECULATE_OFF;
    const bs_replay_result demand = run(d);
    return 100 * ((double)ahead.time_ns / (double)demand.time_ns - 1);
}

static void test_uniform_guesses(void)
{
    static const uint64_t reads[5] = {200000, 500000, 1000000, 2000000, 5000000};
    for (int32_t pieces = 1; pieces <= 8; pieces *= 8)
        for (int32_t good = -1; good <= 0; good++) {
            double worst = -100, mean = 0;
            for (int32_t i = 0; i < 50; i++) {
                routed_trace(1 + check_below(6), 2 + check_below(7), 600, 1000000, good, INT32_MAX);
                bs_replay_desc d = replay_of(1 + check_below(trace.n_units < 12 ? trace.n_units : 12), reads[i % 5]);
                d.chunk_bytes = UNIT_BYTES / pieces;
                const double s = slower(&d);
                worst = s > worst ? s : worst;
                mean += s / 50;
            }
            check(worst <= 2 && mean <= 0.1,
                  "uniform routing%s, %d chunks: guessing is %.2f %% slower at worst, %.2f %% on average",
                  good < 0 ? "" : " and random look-ahead", pieces, worst, mean);
        }
}

/* What is learnt in the first visits costs little in the end. */
static void test_long(void)
{
    static const int32_t nets[4][3] = {{2, 2, 3}, {4, 2, 5}, {2, 2, 2}, {5, 2, 9}};
    double worst = -100;
    for (int32_t i = 0; i < 8; i++) {
        routed_trace(nets[i / 2][0], nets[i / 2][1], 15000 / nets[i / 2][0], 1000000, i % 2 - 1, INT32_MAX);
        bs_replay_desc d = replay_of(nets[i / 2][2], 2000000);
        d.chunk_bytes = UNIT_BYTES / 8;
        const double s = slower(&d);
        worst = s > worst ? s : worst;
    }
    check(worst <= 2, "over long traces guessing is %.2f %% slower at worst", worst);
}

/* Look-ahead that means nothing is found out soon, before a pause could tell. */
static void test_short(void)
{
    double slowdown = 0, more = 0;
    for (int32_t i = 0; i < 40; i++) {
        routed_trace(2, 8, 30, 1000000, 0, INT32_MAX);
        bs_replay_desc d = replay_of(4, i % 2 ? 1000000 : 2000000);
        d.chunk_bytes = UNIT_BYTES / 8;
        slowdown += slower(&d) / 40;
        const double demand = (double)run(&d).stats.bytes_read;
        d.stream.speculation = BS_SPECULATE_AUTO;
        more += 100 * ((double)run(&d).stats.bytes_read / demand - 1) / 40;
    }
    check(slowdown <= 2 && more <= 30,
          "in 60 visits with a random look-ahead guessing is %.2f %% slower and reads %.0f %% more", slowdown, more);
}

static void test_look_ahead(void)
{
    routed_trace(4, 8, 500, 1000000, 100, INT32_MAX);
    bs_replay_desc d = replay_of(3, 900000);
    d.chunk_bytes = UNIT_BYTES / 8;
    const bs_replay_result r = run(&d);
    const bs_prediction *p = &r.predictions[BS_PREDICT_LOOK_AHEAD];
    check(p->expected > 1900 && p->right == p->expected && p->right == p->needed,
          "look-ahead that is the truth: %llu of %llu right, %llu needed", (unsigned long long)p->right,
          (unsigned long long)p->expected, (unsigned long long)p->needed);
    check(slower(&d) < -40, "makes the network faster: %.1f %% of time", slower(&d));
    routed_trace(4, 8, 500, 1000000, 0, INT32_MAX);
    const bs_replay_result junk = run(&d);
    const double right = (double)junk.predictions[BS_PREDICT_LOOK_AHEAD].right /
                         (double)junk.predictions[BS_PREDICT_LOOK_AHEAD].expected;
    check(fabs(right - 0.125) < 0.03, "random look-ahead is right in %.3f of cases", right);
    routed_trace(4, 8, 1000, 1000000, 0, 2000);
    d.stream.speculation = BS_SPECULATE_AUTO;
    const bs_replay_result mended = run(&d);
    check(slower(&d) < -18 && mended.stats.guessing,
          "look-ahead that becomes good half way is used again: %.1f %% of time, %llu pauses", slower(&d),
          (unsigned long long)mended.stats.paused);
}

/* The first router chooses by chance, and what follows a unit is always the same one. */
static void test_transitions(void)
{
    static const int32_t after[4] = {2, 0, 3, 1};
    const int32_t runs = 400;
    trace_begin(12);
    for (int32_t j = 0; j < 3; j++)
        add_phase(j + 1, 4 * j, 4);
    for (int32_t k = 0; k < runs; k++)
        for (int32_t j = 0, choice = check_below(4); j < 3; j++, choice = after[choice]) {
            add_visit(j, 0);
            add_use(4 * j + choice, 1000000);
        }
    const bs_replay_desc d = replay_of(2, 500000);
    const bs_replay_result r = run(&d);
    const bs_prediction *p = &r.predictions[BS_PREDICT_TRANSITION];
    const double sigma = sqrt(runs * 0.25 * 0.75), least = 2 * (runs - 12) + runs * 0.25 - 5 * sigma;
    check(p->expected >= 3 * (uint64_t)runs - 12 && (double)p->right >= least,
          "what always follows is foreseen: %llu of %llu right, %.0f at least", (unsigned long long)p->right,
          (unsigned long long)p->expected, least);
}

/* One unit of 32 is chosen once in six times, by chance: what was needed last says little, how often much. */
static void test_often(void)
{
    enum { UNITS = 32, RUNS = 4000 };
    trace_begin(UNITS);
    add_phase(1, 0, UNITS);
    for (int32_t k = 0; k < RUNS; k++) {
        add_visit(0, 0);
        add_use(check_below(6) ? check_below(UNITS) : 5, 1000000);
    }
    const bs_replay_desc d = replay_of(2, 500000);
    const bs_replay_result r = run(&d);
    const bs_prediction *p = &r.predictions[BS_PREDICT_FREQUENCY];
    const double share = 1 / 6.0 + 5 / 6.0 / UNITS, sigma = sqrt(RUNS * share * (1 - share)),
                 least = RUNS * share - 5 * sigma;
    check((double)p->right >= least, "what is chosen often is foreseen: %llu of %llu right, %.0f at least",
          (unsigned long long)p->right, (unsigned long long)p->expected, least);
}

/* A large unit that is sure to be needed, but after a small one in its place. */
static void test_sooner(void)
{
    int32_t late = 0;
    for (int32_t i = 0; i < 12; i++) {
        trace_begin(3);
        for (int32_t u = 0; u < 3; u++) {
            add_phase(0, u, 1);
            units[u].read_bytes = units[u].slot_bytes = (uint64_t)UNIT_BYTES / (u == 2 ? 1 : 4);
        }
        for (int32_t k = 0; k < 300; k++) {
            add_visit(k % 3, 0);
            add_use(k % 3, 100000 + 100000 * (uint64_t)(i % 4));
        }
        const bs_replay_desc d = replay_of(1, (uint64_t)200000 << i / 4);
        const bs_replay_result r = run(&d);
        late += r.time_ns > r.oracle_ns + r.oracle_ns / 1000 || r.stats.bytes_read > r.oracle_bytes;
    }
    check(late == 0,
          "what is needed sooner stays: none of 12 known orders takes longer or reads more than the oracle (%d do)",
          late);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_uniform_guesses();
    test_long();
    test_short();
    test_look_ahead();
    test_transitions();
    test_often();
    test_sooner();
    return check_end();
}
