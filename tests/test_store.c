/* tags: asan tsan shipped 32-bit */
/* Promises: a network whose weights come and go gives the same bytes as one whose weights stay, whatever fits, whoever
 * reads and whatever is guessed, in the bytes that were planned. What fails on the way: test_store_faults.c. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "store_rig.h"

#include "budget.h"

/* Two rounds of all runs, byte by byte. */
static bool streams_same(kind k, const setup *s)
{
    rig r;
    if (!rig_start(&r, s))
        return fails(s, "no session", 0, &r);
    bool ok = true;
    for (int32_t i = 0; ok && i < 2 * RUNS; i++)
        if (run(&r, k, i % RUNS) != BS_OK || !same(i % RUNS))
            ok = fails(s, "another result", i, &r);
    bs_stream_stats stats;
    bs_session_stream_stats(r.session, &stats);
    if (ok && (stats.misses + stats.late + stats.hits == 0 || stats.resident_peak_bytes > s->plan.slot_bytes))
        ok = fails(s, "counted wrongly", 0, &r);
    bs_session_close(r.session);
    if (ok && !guards_hold(&r))
        ok = fails(s, "bytes outside the arenas were written", 0, &r);
    if (ok && atomic_load(&source.misused))
        ok = fails(s, "reads out of bounds or not aligned", 0, &r);
    return ok;
}

/* Ways of streaming at random: of each network, stored in each way, some in each round. The try alone decides what is
 * tried. */
enum { DTYPES = 3, TRIES = 5, TRY_ROUNDS = 8 };
static const bs_dtype dtypes[DTYPES] = {BS_F32, BS_F16, BS_BF16};
static struct {
    int32_t tried, wrong;
} same_ways[ALL_KINDS][DTYPES];
static uint64_t first_seed;

static void test_same(kind k, int32_t round)
{
    bs_stream_plan facts;
    for (int32_t d = 0; d < DTYPES; d++) {
        want(k, dtypes[d]);
        stream_bytes(&facts);
        for (int32_t i = 0; i < TRIES && same_ways[k][d].wrong == 0; i++) {
            check_state =
                check_mixed(first_seed * 100000 + (uint64_t)(((int32_t)k * DTYPES + d) * 100 + round * TRIES + i));
            const setup s = random_setup(&facts);
            same_ways[k][d].tried++;
            if (!streams_same(k, &s)) {
                same_ways[k][d].wrong++;
                printf("  %s, stored in %s: %s\n", kind_names[k], bs_dtype_name(dtypes[d]), why);
            }
        }
    }
}

static void look_at_ways(void)
{
    for (kind k = 0; k < ALL_KINDS; k++)
        for (int32_t d = 0; d < DTYPES; d++)
            check(same_ways[k][d].wrong == 0 && same_ways[k][d].tried > 0,
                  "%s, stored in %s: the same bytes in %d ways of streaming", kind_names[k], bs_dtype_name(dtypes[d]),
                  same_ways[k][d].tried);
}

static void test_budgets(kind k)
{
    bs_stream_plan facts;
    int32_t wrong = 0, budgets = 0;
    rig r;
    want(k, BS_F32);
    stream_bytes(&facts);
    for (uint64_t bytes = facts.least_bytes; bytes <= facts.all_bytes + 64;
         bytes += 1 + (facts.all_bytes - facts.least_bytes) / 20) {
        const setup s = {.plan = {.slot_bytes = bytes, .chunk_bytes = 4096}};
        wrong += !streams_same(k, &s);
        budgets++;
    }
    check(wrong == 0, "%s: the same bytes in %d budgets from %llu to %llu bytes %s", kind_names[k], budgets,
          (unsigned long long)facts.least_bytes, (unsigned long long)facts.all_bytes, wrong ? why : "");
    const setup small = {.plan = {.slot_bytes = facts.least_bytes - 1}};
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)facts.least_bytes);
    check(!rig_plan(&r, &small) && r.error.status == BS_ERROR_ARENA && r.error.needed == facts.least_bytes &&
              strstr(r.error.message, number),
          "one byte less: %s", r.error.message);
}

static void test_arenas(kind k)
{
    static const char *const arena_names[4] = {"persistent", "transient", "staging", "slots"};
    bs_stream_plan facts;
    rig r;
    want(k, BS_F32);
    stream_bytes(&facts);
    const setup s = {.plan = {.slot_bytes = (facts.least_bytes + facts.all_bytes) / 2, .lanes = 3}};
    check(rig_start(&r, &s) && r.memory.persistent.used == r.sizes.persistent &&
              r.memory.transient.used == r.sizes.transient && r.memory.staging.used == r.sizes.staging &&
              r.memory.slots.used == r.sizes.slots,
          "a streaming session takes exactly the planned bytes (%s)", kind_names[k]);
    bs_session_close(r.session);
    for (int32_t i = 0; i < 4; i++) {
        if (!rig_plan(&r, &s) || *size_of(&r, i) == 0)
            continue;
        const bool started = rig_session(&r, &s, i, BS_ALIGNMENT);
        check(!started && r.error.status == BS_ERROR_ARENA && r.error.arena &&
                  strcmp(r.error.arena, arena_names[i]) == 0 && r.memory.persistent.used == 0 &&
                  r.memory.transient.used == 0 && r.memory.staging.used == 0 && r.memory.slots.used == 0,
              "%d less: %s", BS_ALIGNMENT, r.error.message);
        bs_session_close(r.session);
    }
}

/* Where all fit, trips and runs find what the first one read. */
static void test_read_once(kind k)
{
    bs_stream_plan facts;
    bs_stream_stats stats;
    rig r;
    want(k, BS_F32);
    stream_bytes(&facts);
    const setup s = {.plan = {.slot_bytes = facts.all_bytes}, .platform = &alone};
    if (!check(rig_start(&r, &s), "slots for all %s", r.error.message))
        return;
    for (int32_t i = 0; i < 2 * RUNS; i++)
        run(&r, k, i % RUNS);
    bs_session_stream_stats(r.session, &stats);
    check(stats.loads <= (uint64_t)facts.units && stats.misses == stats.loads && stats.hits > 4 * stats.loads,
          "%s: what is in its slot is not read again: %d reads of %d units, there %d times", kind_names[k],
          (int)stats.loads, facts.units, (int)stats.hits);
    bs_session_close(r.session);
}

static void test_look_ahead(kind k)
{
    bs_stream_plan facts;
    bs_prediction p = {0, 0, 0};
    rig r;
    want(k, BS_F32);
    stream_bytes(&facts);
    const setup s = {.plan = {.slot_bytes = facts.least_bytes * 3}};
    if (!check(rig_start(&r, &s), "a session that looks ahead %s", r.error.message))
        return;
    for (int32_t i = 0; i < 2 * RUNS; i++)
        run(&r, k, i % RUNS);
    bs_session_prediction_get(r.session, -1, BS_PREDICT_LOOK_AHEAD, &p);
    check(p.expected > 0 && p.right == p.expected && p.needed == p.expected,
          "%s: look-ahead by the router's own score is always right: %llu of %llu, %llu needed", kind_names[k],
          (unsigned long long)p.right, (unsigned long long)p.expected, (unsigned long long)p.needed);
    bs_session_close(r.session);
}

int main(int argc, char **argv)
{
    store_begin(argc, argv);
    const budget b = budget_of(2);
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    for (kind k = 0; k < KINDS; k++) {
        test_budgets(k);
        test_arenas(k);
    }
    for (kind k = STEPS; k <= ROUNDS; k++)
        test_read_once(k);
    test_look_ahead(MOE);
    test_look_ahead(STEPS);
    int32_t round = 0;
    for (; budget_left(&b, round, 2, TRY_ROUNDS); round++)
        for (kind k = 0; k < ALL_KINDS; k++)
            test_same(k, round);
    printf("ways at random: %d rounds of %d\n", round, TRY_ROUNDS);
    look_at_ways();
    return check_end();
}
