/* tags: sweep unsigned tsan */
/* test_sweep_platform.c - the n-th call of every function that the library calls and that can fail (of a platform, of a
 * caller's reader, source of weights and router, of the writer of a profile) fails, once or from then on: an error that
 * tells something, or the right bytes. Nothing is left open or running, and what failed works when it is tried again,
 * in the same memory.
 *
 * Owns: the lives in which calls fail. By default a part of them: SWEEP_STRIDE=1 (make sweep) takes all.
 * Must never: say what a failure of a read that was only a guess becomes: an error, or nothing. */
#include "sweep_fault.h"

typedef struct setup {
    const char *name;
    bool threads, direct, reader, streamed, profiled;
} setup;

static const setup setups[] = {
    {"a file, weights that stay", false, false, false, false, false},
    {"a file, streamed by the run itself", false, true, false, true, true},
    {"a reader, streamed by the run itself", false, false, true, true, false},
    {"a file, streamed by threads", true, true, false, true, true},
    {"a reader, streamed by threads", true, false, true, true, false},
};

static sweep_file file;
static sweep_wanted wanted;
static sweep_life life;
static sweep_faulty faulty;
static bs_platform alone;
static bs_plan_desc streamed_plan;
static sweep_share share;
static uint8_t ring[SWEEP_RING + SWEEP_GUARD];
static _Alignas(64) uint8_t tables[SWEEP_TABLES + SWEEP_GUARD];
static char why[500];

static int32_t bad(const char *what)
{
    if (!why[0])
        snprintf(why, sizeof why, "; call %d of %s%s: %s (%s, %s: %.200s)", atomic_load(&faulty.calls),
                 sweep_fault_names[atomic_load(&faulty.fault)],
                 atomic_load(&faulty.from_then_on) ? ", from then on" : "", what, sweep_step_names[life.step],
                 bs_status_name(life.status), life.error.message);
    return 1;
}

/* ------------------------------------------------------------------------------------------------------ one failure */

/* What a failure of the outside may be called. */
static int32_t told(void)
{
    const int32_t fault = atomic_load(&faulty.fault);
    const bool known = life.status == BS_ERROR_IO || life.status == BS_ERROR_PLATFORM ||
                       (life.status == BS_ERROR_DATA && fault == ROUTE_BEYOND) ||
                       (life.status == BS_ERROR_FORMAT && fault == RECORD_FAILS);
    return known && life.error.message[0] ? 0 : bad("an error that tells nothing, or the wrong thing");
}

static bool open_once(const sweep_how *how) { return sweep_open(&life, how); }

/* Opened at the second attempt at the latest; what was taken is given back. */
static int32_t open_model(const sweep_how *how)
{
    if (open_once(how))
        return 0;
    int32_t wrong = told();
    if (life.arena[IN_MODEL].used != 0 || atomic_load(&faulty.files) != 0)
        wrong += bad("a model that was not opened keeps something");
    sweep_heal(&faulty);
    return wrong + (open_once(how) ? 0 : bad("cannot be opened after that"));
}

static int32_t build(const sweep_how *how)
{
    if (sweep_make_graph(&life, how))
        return 0;
    int32_t wrong = told();
    sweep_heal(&faulty);
    return wrong + (sweep_make_graph(&life, how) ? 0 : bad("cannot be built after that"));
}

static bs_profile *profile_once(void)
{
    bs_profile_desc desc = sweep_profile_desc(&faulty.platform, NULL, sweep_fence(ring, sizeof ring, SWEEP_RING),
                                              SWEEP_RING);
    desc.write = sweep_write_profile;
    desc.user = &faulty;
    bs_arena_init(&life.arena[IN_SLOTS], "tables", sweep_fence(tables, sizeof tables, 1024), 1024);
    return bs_profile_create(&life.arena[IN_SLOTS], &desc, &life.error);
}

static int32_t make_profile(bs_profile **profile)
{
    if ((*profile = profile_once()))
        return 0;
    life.status = life.error.status;
    int32_t wrong = told() + (life.arena[IN_SLOTS].used != 0 ? bad("a profile that was not made keeps something") : 0);
    sweep_heal(&faulty);
    return wrong + ((*profile = profile_once()) ? 0 : bad("no profile after that"));
}

static int32_t make_session(const sweep_how *how)
{
    const int32_t gates = atomic_load(&faulty.gates), threads = atomic_load(&faulty.threads);
    if (sweep_make_session(&life, how, NULL))
        return 0;
    int32_t wrong = told();
    if (life.memory.persistent.used || life.memory.transient.used || life.memory.staging.used || life.memory.slots.used)
        wrong += bad("a session that was not made keeps bytes");
    if (atomic_load(&faulty.gates) != gates || atomic_load(&faulty.threads) != threads)
        wrong += bad("a session that was not made keeps a gate or a thread");
    sweep_heal(&faulty);
    return wrong + (sweep_make_session(&life, how, NULL) ? 0 : bad("no session after that"));
}

/* Runs until one fails; then once more while it lasts, and all of them when it is over. */
static int32_t run_all(bool *failed)
{
    for (int32_t turn = 0; turn < SWEEP_RUNS; turn++) {
        if (!sweep_run(&life, turn)) {
            *failed = true;
            return told();
        }
        if (!sweep_same(&life, &wanted, turn))
            return bad("other bytes");
    }
    return 0;
}

static int32_t runs(void)
{
    bool failed = false, again = false;
    int32_t wrong = run_all(&failed);
    if (!failed)
        return wrong;
    bs_reset_state(life.session);
    wrong += run_all(&again);
    sweep_heal(&faulty);
    for (int32_t tries = 0; tries < 3; tries++) { /* what a thread met in between is told once more */
        again = false;
        bs_reset_state(life.session);
        wrong += run_all(&again);
        if (!again)
            return wrong;
    }
    return wrong + bad("the session does not recover");
}

/* ----------------------------------------------------------------------------------------------------------- one
 * life */

static sweep_how how_of(const setup *s)
{
    sweep_how how = {.platform = &faulty.platform, .least = SWEEP_ARENAS};
    if (s->reader)
        how.reader = &faulty.reader;
    else
        how.path = "any.gguf";
    if (s->streamed) {
        how.plan = streamed_plan;
        how.plan.lanes = s->threads ? 2 : 1;
        how.plan.threads = s->threads ? 2 : 1;
        how.plan.slot_bytes += s->threads && s->reader ? 128 : 0;
        how.stream.check_records = 1;
    }
    return how;
}

static int32_t read_profile(int32_t faults)
{
    bs_arena arena;
    bs_trace trace;
    bs_error error = {0};
    const bs_reader reader = {.user = &faulty.written, .read = sweep_profile_read, .size = faulty.written.n};
    bs_arena_init(&arena, "tables", sweep_fence(tables, sizeof tables, SWEEP_TABLES), SWEEP_TABLES);
    const bs_status status = bs_trace_load(&arena, &reader, &trace, &error);
    return status == BS_OK || faults > 0 ? 0 : bad("a profile that cannot be read");
}

static int32_t one_life(const setup *s)
{
    sweep_how how = how_of(s);
    bs_profile *profile = NULL;
    int32_t wrong = open_model(&how);
    if (!wrong)
        wrong = build(&how);
    if (!wrong && !sweep_make_plan(&life, &how))
        wrong = bad("no plan");
    if (!wrong && s->profiled)
        wrong = make_profile(&profile);
    how.profile = profile;
    how.weights = wrong ? NULL : sweep_source(&faulty, life.model);
    if (!wrong)
        wrong = make_session(&how);
    if (!wrong) {
        bs_set_route(life.session, "asked", sweep_route, &faulty, NULL);
        wrong = runs();
    }
    sweep_end(&life);
    const bs_status closed = bs_profile_close(profile, NULL);
    const int32_t fired = atomic_load(&faulty.fault) == WRITE_FAILS ? atomic_load(&faulty.fired) : 0;
    if (profile && closed != (fired > 0 ? BS_ERROR_IO : BS_OK))
        wrong += bad("closing the profile says otherwise");
    sweep_heal(&faulty);
    if (profile && !wrong)
        wrong += read_profile(fired);
    if (!sweep_nothing_left(&faulty))
        wrong += bad("something is left open or running, or a read was not aligned");
    if (!sweep_fences_hold(&life))
        wrong += bad("wrote beyond an arena");
    return wrong;
}

/* -------------------------------------------------------------------------------------------------------------
 * sweeps */

/* With threads the number of calls differs from life to life: beyond the last one until none fails any more. */
static void sweep_one(const setup *s, sweep_fault fault, size_t *cases)
{
    int32_t wrong = 0, lives = 0, fired = 0, calls;
    why[0] = 0;
    sweep_script(&faulty, fault, 0, false);
    wrong += one_life(s);
    calls = atomic_load(&faulty.calls);
    for (int32_t n = 1; calls > 0 && n <= calls + 1 && wrong < 5; n++)
        for (int32_t on = 0; on < 2; on++) {
            if (calls > 16 && !sweep_takes(&share, (*cases)++))
                continue;
            sweep_script(&faulty, fault, n, on != 0);
            wrong += one_life(s);
            fired += atomic_load(&faulty.fired) > 0;
            lives++;
        }
    if (calls == 0)
        return;
    const double began = sweep_ms();
    sweep_script(&faulty, fault, 0, false);
    wrong += one_life(s);
    check(
        wrong == 0,
        "%s, %s: %d calls, each fails once and from then on: in %d of %d lives it did, and all of them end well (last "
        "%.1f ms%s)",
        s->name, sweep_fault_names[fault], calls, fired, lives, sweep_ms() - began, why);
    check(share.stride > 1 || share.parts > 1 || fired >= calls, "every one of them did");
}

/* A profile that is read again, through a reader that fails. */
static void sweep_profile_reader(size_t *cases)
{
    static sweep_faulty disk;
    int32_t wrong = 0, refused = 0, lives = 0, faults = 0;
    uint64_t events = 0;
    static uint8_t copy[SWEEP_WRITTEN];
    sweep_script(&faulty, NO_FAULT, 0, false);
    const bool recorded = one_life(&setups[1]) == 0 && faulty.written.n > 1000;
    if (!check(recorded, "a profile of %zu bytes", faulty.written.n))
        return;
    memcpy(copy, faulty.written.bytes, faulty.written.n);
    const size_t n_bytes = faulty.written.n;
    for (int32_t kind = READ_FAILS; kind <= READ_HALF; kind++)
        for (int32_t n = 0, calls = 1; n <= calls; n++)
            for (int32_t on = 0; on < 2; on++) {
                bs_arena arena;
                bs_trace trace;
                bs_error error = {0};
                if (n > 0 && !sweep_takes(&share, (*cases)++))
                    continue;
                faults += n > 0;
                memset(&disk, 0, sizeof disk);
                disk.bytes = copy;
                disk.n_bytes = n_bytes;
                const bs_reader reader = {.user = &disk, .read = sweep_read_bytes, .size = n_bytes};
                sweep_script(&disk, (sweep_fault)kind, n, on != 0);
                bs_arena_init(&arena, "tables", sweep_fence(tables, sizeof tables, SWEEP_TABLES), SWEEP_TABLES);
                const bs_status status = bs_trace_load(&arena, &reader, &trace, &error);
                if (n == 0) {
                    calls = atomic_load(&disk.calls);
                    events = (uint64_t)trace.n_visits;
                }
                const bool failed = atomic_load(&disk.fired) > 0;
                wrong += status == BS_OK ? failed || (uint64_t)trace.n_visits != events
                                         : !failed || !error.message[0] || arena.used != 0;
                refused += status != BS_OK;
                lives++;
            }
    check(wrong == 0 && (refused > 0 || faults == 0), /* a small share may have none */
          "a profile is read through a reader that fails, %d times of %d: %d errors (%d wrong)", faults, lives, refused,
          wrong);
}

int main(int argc, char **argv)
{
    size_t cases = 0;
    share = sweep_share_of(argc, argv, 17);
    alone = sweep_alone();
    sweep_prepare(&file, &wanted, &alone);
    streamed_plan = sweep_streamed(&file, &alone);
    for (size_t s = 0; s < sizeof setups / sizeof *setups; s++)
        for (sweep_fault fault = THREAD_START; fault < SWEEP_FAULT_COUNT; fault = (sweep_fault)(fault + 1)) {
            sweep_faulty_init(&faulty, &file, setups[s].threads, setups[s].direct);
            sweep_one(&setups[s], fault, &cases);
        }
    sweep_faulty_init(&faulty, &file, false, true);
    sweep_profile_reader(&cases);
    const sweep_how sound = {.bytes = file.f.bytes, .n_bytes = file.f.n, .platform = &alone, .least = SWEEP_ARENAS};
    check(sweep_whole(&life, &sound, &wanted), "afterwards the same memory serves");
    return check_end();
}
