/* tags: long asan */
/* Promises: a replay says what theory says where theory knows the answer: uniform routing, cycles, Belady, the oracle,
 * a static order that hides its reads. Guesses: test_replay_guesses.c; what is refused: test_replay_calls.c. */
#include "replay_traces.h"

static void test_uniform(void)
{
    static const int32_t slots[4] = {1, 4, 8, 15};
    const int32_t n = 16, count = 40000;
    for (int32_t i = 0; i < 4; i++) {
        uniform_trace(n, count, 1000);
        bs_replay_desc d = replay_of(slots[i], 1000);
        d.stream = (bs_stream_desc){.policy = BS_POLICY_LRU, .speculation = BS_SPECULATE_OFF};
        const bs_replay_result r = run(&d);
        const double want = (double)slots[i] / n, sigma = sqrt(want * (1 - want) / count);
        check(fabs(hit_rate(&r) - want) < 5 * sigma, "uniform routing, %d of %d in slots: %.4f hits (%.4f +- %.4f)",
              slots[i], n, hit_rate(&r), want, sigma);
        d.stream.policy = BS_POLICY_LFU;
        const bs_replay_result lfu = run(&d);
        d.stream.policy = BS_POLICY_REUSE;
        const bs_replay_result reuse = run(&d);
        check(fabs(hit_rate(&lfu) - want) < 8 * sigma && fabs(hit_rate(&reuse) - want) < 8 * sigma,
              "where every policy does the same: %.4f lfu, %.4f reuse", hit_rate(&lfu), hit_rate(&reuse));
    }
}

/* Some units often, some in bursts, some in turn. */
static void mixed_trace(int32_t n_units, int32_t n_visits)
{
    const int32_t kind = check_below(3);
    int32_t unit = 0;
    trace_begin(n_units);
    add_phase(1, 0, n_units);
    for (int32_t k = 0; k < n_visits; k++) {
        const int32_t a = check_below(n_units), b = check_below(n_units);
        if (kind == 0)
            unit = a < b ? a : b;
        else if (kind == 1)
            unit = check_below(4) ? unit : a;
        else
            unit = check_below(5) ? (unit + 1) % n_units : a;
        add_visit(0, 0);
        add_use(unit, 100);
    }
}

/* Hits of Belady's replacement, counted the plain way. */
static uint64_t belady_hits(int32_t slots)
{
    bool resident[MOST_UNITS] = {false};
    int32_t used = 0;
    uint64_t hits = 0;
    for (int32_t k = 0; k < trace.n_uses; k++) {
        int32_t last = -1, last_at = -1;
        if (resident[uses[k].unit]) {
            hits++;
            continue;
        }
        for (int32_t u = 0; u < trace.n_units && used == slots; u++) {
            int32_t at = k + 1;
            while (at < trace.n_uses && uses[at].unit != u)
                at++;
            if (resident[u] && at > last_at) {
                last = u;
                last_at = at;
            }
        }
        if (last >= 0)
            resident[last] = false;
        used += last < 0;
        resident[uses[k].unit] = true;
    }
    return hits;
}

static void test_belady(void)
{
    int32_t beaten = 0, differs = 0, oracle = 0;
    for (int32_t i = 0; i < 150; i++) {
        const int32_t n = 3 + check_below(12), slots = 1 + check_below(n - 1);
        mixed_trace(n, 300);
        bs_replay_desc d = replay_of(slots, 100);
        d.lanes = 1;
        d.stream = (bs_stream_desc){.policy = BS_POLICY_BELADY, .speculation = BS_SPECULATE_OFF};
        const bs_replay_result best = run(&d);
        differs += best.stats.hits != belady_hits(slots);
        for (d.stream.policy = 0; d.stream.policy < BS_POLICY_BELADY; d.stream.policy++)
            beaten += run(&d).stats.hits > best.stats.hits;
        oracle += best.oracle_bytes > best.stats.bytes_read && best.oracle_ns > best.time_ns;
    }
    check(beaten == 0, "no policy hits more often than Belady's on 150 random traces");
    check(differs == 0, "whose hits are those that a plain count gives (%d differ)", differs);
    check(oracle == 0, "and the oracle is at least as good");
}

static void cycle_trace(int32_t n_units, int32_t runs, uint64_t compute_ns)
{
    trace_begin(n_units);
    for (int32_t u = 0; u < n_units; u++)
        add_phase(0, u, 1);
    for (int32_t k = 0; k < runs * n_units; k++) {
        add_visit(k % n_units, 0);
        add_use(k % n_units, compute_ns);
    }
}

static void test_cycle(void)
{
    static const int32_t sizes[4][2] = {{5, 4}, {12, 11}, {12, 6}, {20, 3}};
    for (int32_t i = 0; i < 4; i++) {
        const int32_t n = sizes[i][0], slots = sizes[i][1];
        cycle_trace(n, 200, 1000);
        bs_replay_desc d = replay_of(slots, 1000);
        d.stream.speculation = BS_SPECULATE_OFF;
        const bs_replay_result reuse = run(&d);
        d.stream.policy = BS_POLICY_LRU;
        const bs_replay_result lru = run(&d);
        const double best = (double)(slots - 1) / (n - 1);
        check(hit_rate(&reuse) > best - 0.02 && hit_rate(&reuse) < best + 0.02 && lru.stats.hits == 0,
              "a cycle of %d units in %d slots: %.3f hits, the best is %.3f, least recently used gives %.3f", n, slots,
              hit_rate(&reuse), best, hit_rate(&lru));
    }
}

/* -------------------------------------------------------------------------------------------------------- time */

static void test_bounds(bool several, double most_beaten)
{
    double beaten = 1, worst = 1;
    int32_t bad = 0, miscounted = 0;
    for (int32_t i = 0; i < 60; i++) {
        random_trace(40, several);
        uint64_t largest = 0, all = 0;
        for (int32_t u = 0; u < trace.n_units; u++) {
            const uint64_t bytes = (units[u].slot_bytes + 63) / 64 * 64;
            largest = bytes > largest ? bytes : largest;
            all += bytes;
        }
        bs_replay_desc d = {.slot_bytes = largest + (uint64_t)check_below((int32_t)(all - largest) + 1),
                            .bytes_per_second = 100000000u * (uint64_t)(1 + check_below(40)),
                            .chunk_bytes = check_below(2) ? 8192 : 0,
                            .lanes = 1 + check_below(4),
                            .latency_ns = (uint64_t)check_below(2) * 20000,
                            .prepare_ns_per_byte = check_below(2) ? 0.2 : 0};
        for (int32_t k = 0; k < 2 * BS_POLICY_COUNT; k++) {
            d.stream = (bs_stream_desc){.policy = k / 2, .speculation = k % 2};
            const bs_replay_result r = run(&d);
            const double ratio = (double)r.time_ns / (double)r.oracle_ns;
            bad += r.time_ns < r.compute_ns || r.oracle_ns < r.compute_ns;
            miscounted += r.stats.hits + r.stats.late + r.stats.misses < (uint64_t)trace.n_uses ||
                          r.stats.resident_peak_bytes > d.slot_bytes;
            beaten = ratio < beaten ? ratio : beaten;
            worst = ratio > worst ? ratio : worst;
        }
    }
    check(bad == 0, "no time, nor the oracle's, is below that of computing");
    check(miscounted == 0, "every use is counted, and slots never hold more than they have");
    check(beaten >= 1 - most_beaten,
          "the oracle is at most beaten by %.2f %% on 60 random networks with %s a visit (the worst time is %.2f x)",
          100 * (1 - beaten), several ? "some units" : "one unit", worst);
}

static void test_known_order(void)
{
    static const int32_t blocks[3] = {10, 16, 30};
    for (int32_t i = 0; i < 3; i++)
        for (int32_t slots = 2; slots <= 4; slots++)
            for (int32_t pieces = 1; pieces <= 8; pieces *= 8) {
                cycle_trace(blocks[i], 30, 1000000);
                bs_replay_desc d = replay_of(slots, 1000000);
                d.chunk_bytes = UNIT_BYTES / pieces;
                const bs_replay_result ahead = run(&d);
                d.stream.speculation = BS_SPECULATE_OFF;
                const bs_replay_result demand = run(&d);
                const double over = (double)ahead.time_ns / (double)ahead.oracle_ns,
                             faster = (double)demand.time_ns / (double)ahead.time_ns;
                /* slots that keep some make demand faster too */
                const double most = (double)demand.time_ns / (double)demand.oracle_ns;
                check(over <= 1.05 && (faster >= 1.8 || faster > 0.98 * most),
                      "%d blocks in order, %d slots, %d chunks: %.3f x the oracle, %.2f x faster than on demand",
                      blocks[i], slots, pieces, over, faster);
            }
}

/* ------------------------------------------------------------------------------------------------------- loops */

/* Runs of `around` known phases, then as many trips of a body of others, then the rest of the first. */
static void loop_trace(int32_t around, int32_t body, int32_t trips, int32_t runs, uint64_t compute_ns)
{
    const int32_t n = around + body, first = around / 2;
    trace_begin(n);
    for (int32_t u = 0; u < n; u++)
        add_phase(0, u, 1);
    for (int32_t i = 0; i < runs; i++)
        for (int32_t k = 0; k < around + trips * body; k++) {
            const int32_t at = k - first,
                          phase = at < 0               ? k
                                  : at < trips * body ? first + at % body
                                                       : first + body + at - trips * body;
            add_visit(phase, 0);
            add_use(phase, compute_ns);
        }
}

/* On demand: what a run goes round stays as long as it does, as in the best replacement that there can be. */
static void test_loop_on_demand(void)
{
    static const int32_t cases[4][4] = {{6, 3, 20, 4}, {6, 4, 20, 3}, {2, 8, 10, 5}, {4, 1, 50, 2}};
    for (int32_t i = 0; i < 4; i++) {
        loop_trace(cases[i][0], cases[i][1], cases[i][2], 20, 1000);
        bs_replay_desc d = replay_of(cases[i][3], 1000);
        d.stream.speculation = BS_SPECULATE_OFF;
        const bs_replay_result reuse = run(&d);
        d.stream.policy = BS_POLICY_BELADY;
        const bs_replay_result best = run(&d);
        check(reuse.stats.misses >= best.stats.misses && reuse.stats.misses * 100 <= best.stats.misses * 105,
              "%d phases around a body of %d, %d trips, %d slots: %d misses, the best are %d", cases[i][0], cases[i][1],
              cases[i][2], cases[i][3], (int)reuse.stats.misses, (int)best.stats.misses);
    }
}

/* Ahead of need: reads hide behind computing as in a run that visits everything once. */
static void test_loop_known_order(void)
{
    static const int32_t cases[3][3] = {{6, 3, 20}, {2, 8, 10}, {20, 4, 30}};
    for (int32_t i = 0; i < 3; i++)
        for (int32_t slots = 2; slots <= 4; slots++) {
            loop_trace(cases[i][0], cases[i][1], cases[i][2], 10, 1000000);
            bs_replay_desc d = replay_of(slots, 1000000);
            const bs_replay_result ahead = run(&d);
            d.stream.speculation = BS_SPECULATE_OFF;
            const bs_replay_result demand = run(&d);
            const double over = (double)ahead.time_ns / (double)ahead.oracle_ns,
                         faster = (double)demand.time_ns / (double)ahead.time_ns;
            check(over <= 1.05 && ahead.stats.bytes_wasted * 25 <= ahead.stats.bytes_read,
                  "%d phases around a body of %d, %d trips, %d slots: %.3f x the oracle, %.2f x faster than on demand, "
                  "%.1f %% wasted",
                  cases[i][0], cases[i][1], cases[i][2], slots, over, faster,
                  100.0 * (double)ahead.stats.bytes_wasted / (double)ahead.stats.bytes_read);
        }
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_uniform();
    test_belady();
    test_cycle();
    test_bounds(false, 0.05);
    /* the oracle uses the units of a visit in the order of the trace, a run whichever is there first */
    test_bounds(true, 0.2);
    test_known_order();
    test_loop_on_demand();
    test_loop_known_order();
    return check_end();
}
