/* Promises: a replay says what theory says where theory knows the answer: uniform routing, cycles, Belady, the oracle,
 * a static order that hides its reads, guesses that cost nothing when they are worth nothing.
 *
 * Traces are made by hand; no clock, no file, no thread. */
#include "brainstorm.h"
#include "check.h"

#include <math.h>
#include <stdbool.h>

enum { MOST_UNITS = 64, MOST_STAGES = 32, MOST_VISITS = 60000, UNIT_BYTES = 1 << 16 };

static bs_trace_unit units[MOST_UNITS];
static bs_trace_stage stages[MOST_STAGES];
static int32_t stage_units[MOST_STAGES * MOST_UNITS];
static bs_trace_visit visits[MOST_VISITS];
static bs_trace_use uses[2 * MOST_VISITS];
static bs_trace_guess guesses[2 * MOST_VISITS];
static bs_trace trace;
static _Alignas(64) uint8_t workspace_memory[8 << 20];
static bs_error error;

/* --------------------------------------------------------------------------------------------- building traces */

static void trace_begin(int32_t n_units)
{
    memset(&trace, 0, sizeof trace);
    for (int32_t u = 0; u < n_units; u++) {
        snprintf(units[u].name, sizeof units[u].name, "u%d", u);
        units[u].read_bytes = units[u].slot_bytes = UNIT_BYTES;
    }
    trace.n_units = n_units;
    trace.units = units;
    trace.stages = stages;
    trace.stage_units = stage_units;
    trace.visits = visits;
    trace.uses = uses;
    trace.guesses = guesses;
}

static void add_stage(int32_t router, int32_t first, int32_t count)
{
    stages[trace.n_stages++] = (bs_trace_stage){router, trace.n_stage_units, count};
    for (int32_t u = first; u < first + count; u++)
        stage_units[trace.n_stage_units++] = u;
}

static void add_guess(int32_t stage, int32_t unit) { guesses[trace.n_guesses++] = (bs_trace_guess){stage, unit, 0}; }

/* Guesses added since the visit before belong to this one. */
static void add_visit(int32_t stage, uint64_t before_ns)
{
    const bs_trace_visit *last = trace.n_visits ? &visits[trace.n_visits - 1] : NULL;
    const int32_t guessed = last ? last->first_guess + last->n_guesses : 0;
    visits[trace.n_visits++] = (bs_trace_visit){stage, trace.n_uses, 0, guessed, trace.n_guesses - guessed, before_ns};
}

static void add_use(int32_t unit, uint64_t compute_ns)
{
    uses[trace.n_uses++] = (bs_trace_use){unit, -1, compute_ns};
    visits[trace.n_visits - 1].n_uses++;
}

/* ------------------------------------------------------------------------------------------------- replaying */

static bs_replay_desc replay_of(int32_t slots, uint64_t read_ns)
{
    bs_replay_desc d = {.slot_bytes = (uint64_t)slots * UNIT_BYTES,
                        .bytes_per_second = (uint64_t)UNIT_BYTES * 1000000000u / read_ns};
    return d;
}

static bs_replay_result run(const bs_replay_desc *d)
{
    bs_replay_result result;
    bs_arena arena;
    bs_arena_init(&arena, "workspace", workspace_memory, sizeof workspace_memory);
    memset(&result, 0, sizeof result);
    if (bs_replay(&trace, d, &arena, &result, &error) != BS_OK || arena.used != 0) {
        check(0, "a replay fails: %s", error.message);
        exit(check_end());
    }
    return result;
}

static double hit_rate(const bs_replay_result *r)
{
    const uint64_t all = r->stats.hits + r->stats.late + r->stats.misses;
    return all ? (double)r->stats.hits / (double)all : 0;
}

/* ---------------------------------------------------------------------------------------------------- hit rates */

static void uniform_trace(int32_t n_units, int32_t n_visits, uint64_t compute_ns)
{
    trace_begin(n_units);
    add_stage(1, 0, n_units);
    for (int32_t k = 0; k < n_visits; k++) {
        add_visit(0, 0);
        add_use(check_below(n_units), compute_ns);
    }
}

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
    add_stage(1, 0, n_units);
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
        add_stage(0, u, 1);
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

/* A network of known and routed stages, units of any sizes, several of them needed at once. */
static void random_trace(int32_t runs, bool several)
{
    const int32_t n_stages = 1 + check_below(6);
    int32_t n_units = 0;
    trace_begin(MOST_UNITS);
    for (int32_t j = 0; j < n_stages; j++) {
        const int32_t count = 1 + check_below(6);
        add_stage(!several || check_below(2) ? j + 1 : 0, n_units, count);
        n_units += count;
    }
    trace.n_units = n_units;
    for (int32_t u = 0; u < n_units; u++)
        units[u].read_bytes = units[u].slot_bytes = (uint64_t)(UNIT_BYTES / 4 + check_below(UNIT_BYTES));
    for (int32_t k = 0; k < runs * n_stages; k++) {
        const int32_t j = k % n_stages, next = (k + 1) % n_stages;
        if (stages[next].router && check_below(2))
            add_guess(next, check_below(4) ? stages[next].first_unit + check_below(stages[next].n_units) : -1);
        add_visit(j, (uint64_t)check_below(200000));
        for (int32_t u = stages[j].first_unit; u < stages[j].first_unit + stages[j].n_units; u++)
            if ((stages[j].router == 0 || check_below(3) == 0) && (several || visits[trace.n_visits - 1].n_uses == 0))
                add_use(u, (uint64_t)check_below(200000));
    }
}

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

/* ---------------------------------------------------------------------------------------------------- guessing */

/* Routers in a row, each with units of its own; `good` of 100 look-aheads are right. -1: there are none. */
static void routed_trace(int32_t n_stages, int32_t paths, int32_t runs, uint64_t compute_ns, int32_t good,
                         int32_t better_from)
{
    trace_begin(n_stages * paths);
    for (int32_t j = 0; j < n_stages; j++)
        add_stage(j + 1, j * paths, paths);
    int32_t next = check_below(paths);
    for (int32_t k = 0; k < runs * n_stages; k++) {
        const int32_t j = k % n_stages, now = next, percent = k >= better_from ? 100 : good;
        next = check_below(paths);
        if (percent >= 0)
            add_guess((k + 1) % n_stages,
                      (k + 1) % n_stages * paths + (check_below(100) < percent ? next : check_below(paths)));
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
        add_stage(j + 1, 4 * j, 4);
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

/* A large unit that is sure to be needed, but after a small one in its place. */
static void test_sooner(void)
{
    int32_t late = 0;
    for (int32_t i = 0; i < 12; i++) {
        trace_begin(3);
        for (int32_t u = 0; u < 3; u++) {
            add_stage(0, u, 1);
            units[u].read_bytes = units[u].slot_bytes = (uint64_t)UNIT_BYTES / (u == 2 ? 1 : 4);
        }
        for (int32_t k = 0; k < 300; k++) {
            add_visit(k % 3, 0);
            add_use(k % 3, 100000 + 100000 * (uint64_t)(i % 4));
        }
        const bs_replay_desc d = replay_of(1, 200000 << i / 4);
        const bs_replay_result r = run(&d);
        late += r.time_ns > r.oracle_ns + r.oracle_ns / 1000 || r.stats.bytes_read > r.oracle_bytes;
    }
    check(late == 0,
          "what is needed sooner stays: none of 12 known orders takes longer or reads more than the oracle (%d do)",
          late);
}

/* --------------------------------------------------------------------------------------------------- arguments */

static bool refused(const bs_trace *t, const bs_replay_desc *d, bs_status status)
{
    bs_replay_result result;
    bs_arena arena;
    bs_arena_init(&arena, "workspace", workspace_memory, sizeof workspace_memory);
    memset(&error, 0, sizeof error);
    return bs_replay(t, d, &arena, &result, &error) == status && error.status == status && error.message[0] &&
           arena.used == 0;
}

static void test_wrong_traces(void)
{
    const bs_replay_desc d = replay_of(2, 1000);
    int32_t bad = 0;
    for (int32_t i = 0; i < 22; i++) {
        uniform_trace(4, 10, 100);
        add_guess(0, 1);
        visits[3].n_guesses = 1;
        bs_trace t = trace;
        const bool sound = !refused(&t, &d, BS_ERROR_ARGUMENT);
        switch (i) {
        case 0: t.n_units = 0; break;
        case 1: t.n_units = 65537; break;
        case 2: t.n_stages = 0; break;
        case 3: t.n_stages = -1; break;
        case 4: stages[0].first_unit = -1; break;
        case 5: stages[0].n_units = 5; break;
        case 6: stages[0].n_units = 0; break;
        case 7: stages[0].router = -1; break;
        case 8: stage_units[2] = 4; break;
        case 9: stage_units[2] = -1; break;
        case 10: visits[5].stage = 1; break;
        case 11: visits[5].stage = -1; break;
        case 12: visits[5].first_use = -1; break;
        case 13: visits[5].n_uses = 5; break;
        case 14: visits[9].n_uses = 2; break;
        case 15: visits[5].first_use = INT32_MAX; break;
        case 16: visits[3].n_guesses = 2; break;
        case 17: visits[3].n_guesses = -1; break;
        case 18: uses[0].unit = 4; break;
        case 19: uses[0].unit = -1; break;
        case 20: guesses[0].stage = 1; break;
        default: guesses[0].unit = -2; break;
        }
        bad += !sound || !refused(&t, &d, BS_ERROR_ARGUMENT) || bs_replay_bytes(&t) != 0;
    }
    check(bad == 0, "traces that refer to what they do not have are refused (%d are not)", bad);
    uniform_trace(4, 10, 100);
    bs_trace shared = trace;
    shared.n_stages = 2;
    stages[1] = (bs_trace_stage){1, stages[0].n_units - 1, 1};
    check(refused(&shared, &d, BS_ERROR_ARGUMENT) && bs_replay_bytes(&shared) == 0, "two stages of one entry: %s",
          error.message);
    check(refused(NULL, &d, BS_ERROR_ARGUMENT) && bs_replay_bytes(NULL) == 0, "so is none: %s", error.message);
}

/* Two routers of 65536 paths: a table of what follows what would have 2^32 counters. */
static void test_many_paths(void)
{
    enum { PATHS = 65536, COUNT = 8 };
    static bs_trace_unit many[PATHS];
    static int32_t all[2 * PATHS];
    const bs_trace_stage two[2] = {{1, 0, PATHS}, {2, PATHS, PATHS}};
    bs_trace_visit each[COUNT];
    bs_trace_use last[COUNT];
    const bs_trace t = {.n_units = PATHS,
                        .n_stages = 2,
                        .n_stage_units = 2 * PATHS,
                        .n_visits = COUNT,
                        .n_uses = COUNT,
                        .units = many,
                        .stages = two,
                        .stage_units = all,
                        .visits = each,
                        .uses = last};
    const bs_replay_desc d = {.slot_bytes = 1 << 20, .bytes_per_second = 1000000000};
    bs_replay_result result;
    bs_arena arena;
    for (int32_t u = 0; u < PATHS; u++) {
        many[u] = (bs_trace_unit){.read_bytes = 64, .slot_bytes = 64};
        all[u] = all[PATHS + u] = u;
    }
    for (int32_t k = 0; k < COUNT; k++) {
        each[k] = (bs_trace_visit){.stage = k % 2, .first_use = k, .n_uses = 1};
        last[k] = (bs_trace_use){PATHS - 1 - k, -1, 1};
    }
    const size_t bytes = bs_replay_bytes(&t);
    void *memory = bytes < (size_t)PATHS * 512 ? malloc(bytes) : NULL;
    check(memory != NULL, "a replay of 2 x %d paths takes %zu bytes", PATHS, bytes);
    if (!memory)
        return;
    bs_arena_init(&arena, "workspace", memory, bytes);
    const bs_status status = bs_replay(&t, &d, &arena, &result, &error);
    check(status == BS_OK && result.stats.misses == COUNT && result.predictions[BS_PREDICT_TRANSITION].needed == 0 &&
              result.predictions[BS_PREDICT_FREQUENCY].needed == COUNT,
          "it runs: %llu misses, foretold by frequency alone", (unsigned long long)result.stats.misses);
    free(memory);
}

static void test_arguments(void)
{
    uniform_trace(4, 10, 100);
    const bs_replay_desc good = replay_of(2, 1000);
    for (int32_t i = 0; i < 8; i++) {
        bs_replay_desc d = good;
        switch (i) {
        case 0: d.bytes_per_second = 0; break;
        case 1: d.chunk_bytes = -1; break;
        case 2: d.lanes = -1; break;
        case 3: d.lanes = 9; break;
        case 4: d.prepare_ns_per_byte = -1; break;
        case 5: d.prepare_ns_per_byte = (double)NAN; break;
        case 6: d.stream.policy = BS_POLICY_COUNT; break;
        default: d.stream.policy = -1; break;
        }
        check(refused(&trace, &d, BS_ERROR_ARGUMENT), "wrong argument %d: %s", i, error.message);
    }
    check(refused(&trace, NULL, BS_ERROR_ARGUMENT), "no description: %s", error.message);
    bs_replay_desc d = good;
    d.slot_bytes = UNIT_BYTES - 1;
    check(refused(&trace, &d, BS_ERROR_ARENA) && error.needed == UNIT_BYTES && error.available == UNIT_BYTES - 1, "%s",
          error.message);
    bs_trace empty = trace;
    empty.n_visits = empty.n_uses = empty.n_guesses = 0;
    trace = empty;
    const bs_replay_result r = run(&good);
    check(r.time_ns == 0 && r.oracle_ns == 0, "a trace without visits takes no time");
}

static void test_workspace(void)
{
    bs_replay_result result;
    int32_t bad = 0;
    for (int32_t i = 0; i < 40; i++) {
        random_trace(1 + check_below(20), true);
        const size_t bytes = bs_replay_bytes(&trace) - BS_ALIGNMENT; /* aligned */
        const bs_replay_desc d = {.slot_bytes = 1 << 20, .bytes_per_second = 1000000000};
        bs_arena arena;
        memset(workspace_memory + bytes, 0xA5, 256);
        bs_arena_init(&arena, "workspace", workspace_memory, bytes);
        bad += bytes == 0 || bs_replay(&trace, &d, &arena, &result, &error) != BS_OK || arena.high_water != bytes ||
               arena.used != 0;
        for (size_t k = 0; k < 256; k++)
            bad += workspace_memory[bytes + k] != 0xA5;
        bs_arena_init(&arena, "workspace", workspace_memory, bytes - BS_ALIGNMENT);
        bad += bs_replay(&trace, &d, &arena, &result, &error) != BS_ERROR_ARENA || arena.used != 0 ||
               error.needed != bytes;
    }
    check(bad == 0, "bs_replay_bytes is enough, and %d less is refused: %s", BS_ALIGNMENT, error.message);
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
    test_uniform_guesses();
    test_long();
    test_short();
    test_look_ahead();
    test_transitions();
    test_sooner();
    test_wrong_traces();
    test_many_paths();
    test_arguments();
    test_workspace();
    return check_end();
}
