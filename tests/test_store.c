/* tags: asan tsan shipped 32-bit */
/* Promises: a network whose weights come and go gives the same bytes as one whose weights stay, whatever fits, whoever
 * reads and whatever is guessed, in the bytes that were planned. What fails on the way: test_store_faults.c. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "store_rig.h"

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

static void test_same(kind k, int32_t tries)
{
    static const bs_dtype dtypes[3] = {BS_F32, BS_F16, BS_BF16};
    bs_stream_plan facts;
    for (int32_t d = 0; d < 3; d++) {
        want(k, dtypes[d]);
        stream_bytes(&facts);
        int32_t wrong = 0;
        for (int32_t i = 0; i < tries && wrong == 0; i++) {
            const setup s = random_setup(&facts);
            wrong += !streams_same(k, &s);
        }
        check(wrong == 0, "%s, stored in %s: the same bytes in %d ways of streaming %s", kind_names[k],
              bs_dtype_name(dtypes[d]), tries, wrong ? why : "");
    }
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
    for (kind k = 0; k < KINDS; k++) {
        test_same(k, 40);
        test_budgets(k);
        test_arenas(k);
    }
    test_same(DEEP, 20);
    for (kind k = STEPS; k <= ROUNDS; k++)
        test_read_once(k);
    test_look_ahead(MOE);
    test_look_ahead(STEPS);
    return check_end();
}
