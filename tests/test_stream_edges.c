/* tags: asan */
/* Promises: the stream does what stream/stream.h says where the random worlds of test_stream seldom or never get:
 * margins that are no numbers, a unit asked for twice, waits that nothing can end, pauses and counters at their limits.
 *
 * The state machine is driven directly, step by step. */
#include "check.h"
#include "stream/stream.h"

#include <math.h>

enum { UNITS = 4, PHASES = 2 };

static const bs_stream_unit units[UNITS] = {{{64}, {1000}, 1}, {{64}, {1000}, 1}, {{64}, {1000}, 1}, {{64}, {1000}, 1}};
static const bs_stream_phase phases[PHASES] = {{1, 0, 2}, {2, 2, 2}};
static const int32_t uses[UNITS] = {0, 1, 2, 3};
static _Alignas(64) uint8_t memory[1 << 16];
static bs_stream s;

static void begin(uint64_t slot_bytes)
{
    const bs_stream_facts facts = {UNITS,     PHASES, UNITS, units, phases, uses, bs_bytes_of(slot_bytes),
                                   {0, 0, 0}, false};
    if (bs_bytes_figure(bs_stream_bytes(&facts)) > sizeof memory)
        exit(2);
    bs_stream_init(&s, &facts, memory);
}

/* Reads the next chunk; -1: there is nothing to read, else its unit. */
static int32_t bring(bs_status status)
{
    bs_stream_chunk chunk;
    if (!bs_stream_next(&s, 0, &chunk))
        return -1;
    bs_stream_done(&s, &chunk, status, 1000, 10, 0);
    return chunk.unit;
}

static bool take(int32_t unit, bs_status *failed)
{
    bs_bytes offset;
    return bs_stream_take(&s, unit, &offset, failed);
}

static void test_margins(void)
{
    static const double wrong[] = {NAN, -1, INFINITY, -INFINITY};
    int32_t zero = 0;
    begin(256);
    check(bs_stream_strength(&s, 0, 1) == BS_STRENGTHS - 1 && s.phases[0].margin > 0.999,
          "the first margin is as clear as can be, and what is usual then");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        zero += bs_stream_strength(&s, 0, wrong[i]) == 0;
    check(zero == 4 && s.phases[0].margin > 0.999 && s.phases[0].margin < 1.001,
          "margins that are negative or no numbers say nothing, and teach nothing");
    check(bs_stream_strength(&s, 0, 0) == 0 && bs_stream_strength(&s, 0, 1) == 4 &&
              bs_stream_strength(&s, 0, 1e300) == BS_STRENGTHS - 1,
          "none, the usual one and a huge one are ranked");
    bs_stream_expect(&s, 1, 2, INT32_MAX);
    bs_stream_expect(&s, 1, 3, INT32_MIN);
    check(s.expected[2] == BS_STRENGTHS && s.expected[3] == 1, "a strength out of range counts as the nearest one");
}

static void test_twice(void)
{
    static const int32_t again[3] = {1, 0, 1};
    bs_status failed;
    begin(256);
    bs_stream_visit(&s, 0, again, 3, 0);
    check(s.n_needed == 2 && s.stats.misses == 2, "a unit that a visit names twice is needed once");
    check(bring(BS_OK) == 1 && bring(BS_OK) == 0 && bring(BS_OK) == -1, "and read once, in the order of need");
    check(take(1, &failed) && take(1, &failed) && s.slots[1].pins == 2, "it can be pinned twice,");
    bs_stream_release(&s, 1);
    check(s.slots[1].pins == 1 && take(0, &failed), "and stays until it is released twice");
    bs_stream_release(&s, 1);
    bs_stream_release(&s, 0);
}

static void test_waits(void)
{
    static const int32_t both[2] = {0, 1}, other = 2;
    bs_status failed = BS_OK;
    begin(64); /* one at a time */
    bs_stream_visit(&s, 0, both, 2, 0);
    bring(BS_OK);
    bs_stream_wait(&s);
    check(!s.slots[0].needed, "what is there and not yet used gives way when nothing else can help");
    check(bring(BS_OK) == 1 && take(1, &failed), "so that the other one comes");
    check(!take(0, &failed) && failed == BS_OK && s.slots[0].needed, "the one that went is asked for again");
    bs_stream_wait(&s);
    check(s.slots[1].state == BS_SLOT_READY && bring(BS_OK) == -1,
          "what is pinned does not give way: its release will be a change");
    bs_stream_release(&s, 1);
    check(bring(BS_ERROR_IO) == 0 && !take(0, &failed) && failed == BS_ERROR_IO, "a read that fails is told");
    bs_stream_wait(&s);
    check(bring(BS_OK) == -1 && !take(0, &failed) && failed == BS_ERROR_IO,
          "and is no reason to wait, nor to read again in this visit");
    bs_stream_visit(&s, 1, &other, 1, 0);
    check(bring(BS_OK) == 2 && take(2, &failed) && failed == BS_OK, "the next visit is not touched by it");
    bs_stream_release(&s, 2);
}

/* Windows of 64 visits in which guesses lose; each pause is twice as long as the one before, up to 4096 visits. */
static void test_pauses(void)
{
    static const int32_t unit = 0;
    int32_t right = 0, pauses = 0;
    uint64_t began = 0, expected = 64;
    begin(256);
    for (uint64_t visit = 1; pauses < 10; visit++) {
        const bool paused = s.paused;
        s.lost_ns = 1e9; /* as if a guess had just been wrong */
        bs_stream_visit(&s, 0, &unit, 1, visit);
        if (!paused && s.paused)
            began = visit;
        if (paused && !s.paused) {
            right += visit - began == expected;
            expected = expected < 4096 ? 2 * expected : expected;
            pauses++;
        }
    }
    check(right == pauses && s.stats.paused == 10,
          "%d pauses of guessing, each twice as long as the last, up to 4096 visits", pauses);
    s.lost_ns = 0;
    for (uint64_t visit = 0; visit < 64; visit++)
        bs_stream_visit(&s, 0, &unit, 1, visit);
    check(!s.paused && s.pause_visits == 64, "a window that pays makes the next pause short again");
}

/* Counters of transitions are halved before they overflow, and what they say stays. */
static void test_transitions(void)
{
    enum { VISITS = 3 * 4096, COUNTERS = 2 * 2 * (2 + 1) };
    static const int32_t first[2] = {0, 1}, second[2] = {2, 3};
    uint16_t most = 0;
    begin(256);
    check(bs_bytes_figure(bs_predict_tables(&s.facts, NULL)) == COUNTERS * sizeof most,
          "two phases of two units: a counter for each pair, and totals");
    for (int32_t i = 0; i < VISITS; i++) {
        const int32_t way = i % 3 == 0;
        bs_stream_visit(&s, 0, &first[way], 1, 0);
        bs_stream_visit(&s, 1, &second[way], 1, 0);
        for (size_t k = 0; k < COUNTERS; k++)
            most = s.transitions[k] > most ? s.transitions[k] : most;
    }
    const bs_prediction *p = &s.phases[1].predictions[BS_PREDICT_TRANSITION];
    check(most == 4096, "no counter exceeds 4096 (%d)", most);
    check(p->needed == VISITS && p->right > p->needed - 30, "what always follows is foretold all the way: %d of %d",
          (int)p->right, (int)p->needed);
}

/* A router that follows itself: what it chose last says what it chooses next. */
static void test_one_router(void)
{
    enum { VISITS = 400 };
    const bs_stream_facts facts = {UNITS, 1, 2, units, phases, uses, bs_bytes_of(256), {0, 0, 0}, false};
    int32_t asked = 0;
    bs_stream_init(&s, &facts, memory);
    for (int32_t i = 0; i < VISITS; i++) {
        const int32_t unit = i % 2;
        bs_stream_visit(&s, 0, &unit, 1, 0);
        asked += s.slots[0].in_visit + s.slots[1].in_visit;
    }
    const bs_prediction *p = &s.phases[0].predictions[BS_PREDICT_TRANSITION];
    check(p->needed == VISITS && p->right > VISITS - 30, "the other one always follows: %d of %d foretold",
          (int)p->right, VISITS);
    check(asked == 0, "what a visit asked for is not asked for after it");
}

/* Scores of few values, so that many are equal: the order is that of looking for the highest again and again. */
static void test_ranks(void)
{
    enum { PATHS = 37, TIMES = 200 };
    static const bs_stream_phase one = {1, 0, PATHS};
    static int32_t all[PATHS];
    static bs_stream_unit many[PATHS];
    const bs_stream_facts facts = {PATHS, 1, PATHS, many, &one, all, bs_bytes_of(64), {0, 0, 0}, false};
    int32_t wrong = 0;
    for (int32_t u = 0; u < PATHS; u++)
        all[u] = u;
    if (bs_bytes_figure(bs_stream_bytes(&facts)) > sizeof memory)
        exit(2);
    bs_stream_init(&s, &facts, memory);
    for (int32_t i = 0; i < TIMES; i++) {
        const int32_t count = check_below(PATHS + 1);
        double left[PATHS];
        for (int32_t k = 0; k < count; k++) {
            left[k] = s.score[k] = check_below(1 + i % 20);
            s.ranked[k] = k;
        }
        s.n_ranked = count;
        bs_rank_begin(&s);
        for (int32_t n = 0; n < count; n++) {
            int32_t best = 0;
            for (int32_t k = 1; k < count; k++)
                best = left[k] > left[best] ? k : best;
            left[best] = -1;
            wrong += bs_rank_next(&s) != best;
        }
        wrong += bs_rank_next(&s) != -1;
    }
    check(wrong == 0, "the likeliest come first, of equal ones the first: %d do not", wrong);
}

/* Two units that no phase lists are used while the visit of the two others goes on: there is room for three. */
static void test_strays(void)
{
    static const bs_stream_phase one = {0, 0, 2};
    static const int32_t listed[2] = {2, 3};
    const bs_stream_facts facts = {UNITS, 1, 2, units, &one, listed, bs_bytes_of(192), {0, 0, 0}, false};
    const int32_t order[4] = {2, 3, 0, 1};
    bs_status failed;
    bs_stream_init(&s, &facts, memory);
    bs_stream_visit(&s, 0, listed, 2, 0);
    for (int32_t i = 0; i < 4; i++) {
        if (!take(order[i], &failed) && bring(BS_OK) == order[i] && take(order[i], &failed))
            bs_stream_release(&s, order[i]);
    }
    check(s.slots[1].state == BS_SLOT_READY && s.slots[0].state == BS_SLOT_ABSENT &&
              s.slots[2].state == BS_SLOT_READY && s.slots[3].state == BS_SLOT_READY,
          "what is in no phase's list goes first");
}

/* Phases of as many routers, all of the same units: nothing but their sizes is looked at. */
static bs_bytes bytes_of_paths(int32_t paths, bs_stream_phase *many, int32_t count)
{
    const bs_stream_facts facts = {paths, count, paths, NULL, many, NULL, bs_bytes_of(64), {0, 0, 0}, false};
    for (int32_t j = 0; j < count; j++)
        many[j] = (bs_stream_phase){j + 1, 0, paths};
    return bs_stream_bytes(&facts);
}

/* Tables of transitions grow with the product of two routers' paths; their sum has no limit but the memory there is. */
static void test_tables(void)
{
    enum { COUNT = 5000, LARGEST = 1024, MOST_PATHS = 32767 };
    static bs_stream_phase many[COUNT];
    const uint64_t table = (uint64_t)LARGEST * (LARGEST + 1) * 2;
    const uint64_t one = bs_bytes_figure(bytes_of_paths(LARGEST, many, 1)),
                   all = bs_bytes_figure(bytes_of_paths(LARGEST, many, COUNT));
    check(one > table && all > COUNT * table, "%d tables of %d x %d paths are counted whole: %llu bytes", COUNT,
          LARGEST, LARGEST, (unsigned long long)all);
    const uint64_t beyond = bs_bytes_figure(bytes_of_paths(LARGEST + 1, many, 5)),
                   widest = bs_bytes_figure(bytes_of_paths(MOST_PATHS, many, 5));
    check(beyond < table && widest < (uint64_t)MOST_PATHS * 256,
          "routers of more paths have none: %llu bytes for 5 x %d", (unsigned long long)widest, MOST_PATHS);
}

/* What is hardly ever needed is expected in the far future, but not at infinity: everything can be compared. */
static void test_rare(void)
{
    static const int32_t unit = 0;
    begin(256);
    for (uint64_t visit = 0; visit < 2000; visit++)
        bs_stream_visit(&s, 0, &unit, 1, visit);
    const double rare = bs_predict_visits(&s, 0, 1), usual = bs_predict_visits(&s, 0, 0);
    check(usual < 0.01 && rare > 99 && rare <= 100, "a unit that 2000 visits did not need is %.1f visits away", rare);
}

/* ------------------------------------------------------------------------------------------------------- loops */

enum { MOST_IN_ORDER = 80 };

/* As many phases of one unit each, all of them known. */
static void begin_phases(int32_t count)
{
    static bs_stream_unit one[MOST_IN_ORDER];
    static bs_stream_phase known[MOST_IN_ORDER];
    static int32_t all[MOST_IN_ORDER];
    for (int32_t j = 0; j < count; j++) {
        one[j] = units[0];
        known[j] = (bs_stream_phase){0, j, 1};
        all[j] = j;
    }
    const bs_stream_facts facts = {count, count, count, one, known, all, bs_bytes_of(128), {0, 0, 0}, false};
    if (bs_bytes_figure(bs_stream_bytes(&facts)) > sizeof memory)
        exit(2);
    bs_stream_init(&s, &facts, memory);
}

static uint64_t now;

/* Visits a phase for 10 ns; returns whether another one was expected. */
static int32_t goes_to(int32_t phase)
{
    const int32_t expected = s.order[1];
    bs_stream_visit(&s, phase, &s.facts.uses[phase], 1, now);
    now += 10;
    return expected != phase;
}

static int32_t goes_through(int32_t first, int32_t last, int32_t trips)
{
    int32_t wrong = 0;
    for (int32_t k = 0; k < trips * (last - first + 1); k++)
        wrong += goes_to(first + k % (last - first + 1));
    return wrong;
}

/* A run of 5 phases, three of which make trips. */
static int32_t run_of(int32_t trips) { return goes_to(0) + goes_through(1, 3, trips) + goes_to(4); }

static void test_rounds(void)
{
    begin_phases(5);
    check(run_of(4) == 2 && run_of(4) == 1 && run_of(4) == 0, "a loop is noticed when a run goes back, its trips when "
                                                              "it makes as many again");
    goes_to(0);
    goes_to(1);
    check(s.order[1] == 2 && s.order[2] == 3 && s.order[3] == 1 && s.order[4] == 4 && s.order[5] == 0,
          "after the last phase of the body its first is expected, before what follows the loop");
    check(fabs(s.after[3] - 3) < 0.01 && fabs(s.after[4] - 12) < 0.01 && fabs(s.until_ns[4] - 120) < 0.01 &&
              fabs(s.until_ns[5] - 130) < 0.01,
          "which comes after all other trips: %.1f visits, %.1f ns", s.after[4], s.until_ns[4]);
    check(bs_ahead_period(&s, 2) == 3 && bs_ahead_period(&s, 4) == 5 && bs_ahead_period(&s, 0) == 5,
          "in a loop a phase comes again after a trip, outside after a run");
    check(goes_to(2) + goes_to(3) + goes_to(1) == 0 && fabs(s.after[4] - 9) < 0.01, "and a trip later a trip sooner");
    check(goes_to(2) + goes_to(3) + goes_through(1, 3, 2) == 0 && s.order[1] == 4, "after the last trip it is next");
    check(goes_to(4) == 0 && run_of(6) == 2 && run_of(2) == 1 && run_of(6) == 1 && run_of(3) == 1,
          "trips that differ from run to run are expected to go on");
    int32_t wrong = 0;
    for (int32_t i = 0; i < 4; i++)
        wrong = run_of(1);
    check(wrong == 0, "a loop that makes no more than a trip is none");
}

/* Inner loops that begin, or end, where the outer one does; and at a phase of their own. */
static void test_nested_rounds(void)
{
    for (int32_t way = 0; way < 4; way++) {
        const int32_t first = way % 2 ? 1 : 2, last = way / 2 ? 4 : 3;
        int32_t wrong = 0;
        begin_phases(6);
        for (int32_t i = 0; i < 5; i++) {
            wrong = goes_to(0);
            for (int32_t trip = 0; trip < 3; trip++) {
                for (int32_t phase = 1; phase < first; phase++)
                    wrong += goes_to(phase);
                wrong += goes_through(first, last, 4);
                for (int32_t phase = last + 1; phase <= 4; phase++)
                    wrong += goes_to(phase);
            }
            wrong += goes_to(5);
        }
        check(wrong == 0 && s.n_loops == (first == 1 && last == 4 ? 1 : 2),
              "a loop of phases %d .. %d in one of 1 .. 4: %d are not as expected", first, last, wrong);
    }
}

static void test_failing_rounds(void)
{
    begin_phases(5);
    run_of(3);
    goes_to(0);
    goes_to(1);
    goes_to(2); /* the run fails */
    run_of(3);
    int32_t wrong = run_of(3) + run_of(3);
    check(wrong <= 4, "a run that fails is soon forgotten: %d wrong in two runs after it", wrong);
    wrong = run_of(3) + run_of(3);
    check(wrong == 0, "and then nothing is left of it: %d", wrong);
}

static void test_many_loops(void)
{
    int32_t wrong = 0;
    begin_phases(MOST_IN_ORDER);
    for (int32_t i = 0; i < 4; i++) {
        wrong = 0;
        for (int32_t phase = 0; phase < MOST_IN_ORDER; phase++)
            wrong += goes_through(phase, phase, 2);
    }
    check(s.n_loops == BS_STREAM_LOOPS && wrong == MOST_IN_ORDER - BS_STREAM_LOOPS,
          "of %d loops %d are noticed: %d visits come unexpected", MOST_IN_ORDER, s.n_loops, wrong);
}

/* A router in a loop, behind one outside: what it chose in the trip before tells more. Paths of the outer one: */
static void test_transitions_of_trips(int32_t paths)
{
    enum { TIMES = 60, TRIPS = 10 };
    const bs_stream_phase two[2] = {{1, 0, paths}, {2, paths, 2}};
    const bs_stream_facts facts = {UNITS, 2, paths + 2, units, two, uses, bs_bytes_of(256), {0, 0, 0}, false};
    int32_t last = 0;
    bs_stream_init(&s, &facts, memory);
    for (int32_t i = 0; i < TIMES; i++) {
        const int32_t *outer = &facts.uses[check_below(paths)];
        bs_stream_visit(&s, 0, outer, 1, 0);
        for (int32_t trip = 0; trip < TRIPS; trip++) {
            last = 1 - last;
            bs_stream_visit(&s, 1, &facts.uses[paths + last], 1, 0);
        }
    }
    const bs_prediction *p = &s.phases[1].predictions[BS_PREDICT_TRANSITION];
    if (paths == 2)
        check(s.phases[1].before == 1 && p->right > TIMES * (TRIPS - 1) - 30 && p->needed >= p->right,
              "what a router in a loop chose in one trip foretells the next: %d of %d", (int)p->right, (int)p->needed);
    else
        check(s.phases[1].before == 0 && p->needed <= TIMES, "where the table has no room for that, it stays as it is");
}

static void test_names(void)
{
    static const char *const predictors[] = {"known", "look-ahead", "transition", "frequency"}, *const policies[] = {
                                                                                                    "reuse", "lru",
                                                                                                    "lfu", "belady"};
    int32_t right = 0;
    for (int32_t i = 0; i < 4; i++)
        right += strcmp(bs_predictor_name((bs_predictor)i), predictors[i]) == 0 &&
                 strcmp(bs_policy_name((bs_policy)i), policies[i]) == 0;
    check(right == 4, "predictors and policies have names");
    right = 0;
    for (int32_t i = -1; i <= 4; i += 5)
        right += strcmp(bs_predictor_name((bs_predictor)i), "unknown") == 0 &&
                 strcmp(bs_policy_name((bs_policy)i), "unknown") == 0;
    check(right == 2, "and others are unknown");
}

int main(void)
{
    test_margins();
    test_twice();
    test_waits();
    test_pauses();
    test_transitions();
    test_tables();
    test_one_router();
    test_ranks();
    test_strays();
    test_rare();
    test_rounds();
    test_nested_rounds();
    test_failing_rounds();
    test_many_loops();
    test_transitions_of_trips(2);
    test_transitions_of_trips(1);
    test_names();
    return check_end();
}
