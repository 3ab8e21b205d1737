/* tags: sweep */
/* test_cuda_sweep.c - the model of the sweeps on a device: every call of CUDA fails, once and from then on, with every
 * launch mode, with weights that stay and weights that are streamed; and every size of the device's two arenas that is
 * too small.
 *
 * Owns: the device's side of the sweeps: test_sweep_*.c have the rest. Counting and failing calls needs the emulation.
 * By default a part of the cases: SWEEP_STRIDE=1 (make sweep) takes all.
 * Must never: compare with the CPU's bytes, which differ by rounding: a device's own first run is what all others must
 * give. */
#include "sweep_rig.h"

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

/* What a life does: turns, some after a reset. Where runs are recorded a record is also repeated; elsewhere two will
 * do. */
typedef struct step { int32_t turn; bool reset; } step;
static const step repeated[] = {{0, false}, {0, true}, {0, true}, {1, false}}, plain[] = {{0, false}, {1, false}};

/* asked: a callback decides, for which the host waits; without it runs can be recorded. */
typedef struct setup {
    const char *name;
    bool asked, streamed, in_place, threads;
} setup;

enum { ASKED, STAY, STREAMED, IN_PLACE, SETUPS };
static const setup setups[SETUPS] = {{"weights that stay, and a callback", true, false, false, false},
                                     {"weights that stay", false, false, false, false},
                                     {"weights streamed by the run", true, true, false, false},
                                     {"weights streamed in place by a thread", true, true, true, true}};

static sweep_file file;
static sweep_wanted host, wanted[2]; /* [asked] */
static bool asked;
static sweep_life life;
static bs_platform alone;
static bs_plan_desc streamed_plan;
static bs_device *device;
static sweep_share share;
static _Alignas(64) uint8_t opened_memory[1024];
static bs_arena opened;
static char why[500];

static int32_t bad(const char *what, int64_t call)
{
    if (!why[0])
        snprintf(why, sizeof why, "; call %lld: %s (%s, %s: %.200s)", (long long)call, what,
                 sweep_step_names[life.step], bs_status_name(life.status), life.error.message);
    return 1;
}

/* ---------------------------------------------------------------------------------------------------------- a life */

static sweep_how how_of(const setup *s, int32_t launch_mode)
{
    static bs_platform threads;
    sweep_how how = {.bytes = file.f.bytes, .n_bytes = file.f.n, .platform = &alone, .least = SWEEP_ARENAS};
    threads = *bs_platform_default();
    threads.clock_ns = NULL; /* no guesses */
    if (s->threads)
        how.platform = &threads;
    if (s->streamed)
        how.plan = streamed_plan;
    how.plan.tier = BS_TIER_CUDA;
    how.plan.launch_mode = launch_mode;
    how.plan.in_place = s->in_place;
    how.stream.check_records = s->streamed;
    how.plan.n_forces = !s->asked;
    how.plan.forces[0] = (bs_force){"asked", 2};
    asked = s->asked;
    return how;
}

static bool plan(const sweep_how *how)
{
    return sweep_open(&life, how) && sweep_make_graph(&life, how) && sweep_make_plan(&life, how);
}

static bool open_device(uint64_t device_less, uint64_t pinned_less)
{
    const bs_cuda_desc desc = {.device_bytes = life.sizes.device - device_less,
                               .pinned_bytes = life.sizes.pinned - pinned_less};
    bs_arena_init(&opened, "opened", opened_memory, sizeof opened_memory);
    device = bs_cuda_open(&opened, &desc, &life.error);
    return device || sweep_stop(&life, AT_SESSION, life.error.status);
}

static bool make_session(const sweep_how *how)
{
    if (!sweep_make_session(&life, how, device))
        return false;
    sweep_set_routes(&life);
    return true;
}

static void end(void)
{
    bs_session_close(life.session);
    life.session = NULL;
    bs_cuda_close(device);
    device = NULL;
    sweep_end(&life);
}

/* Every step; false at the first that fails (life.step), or gives other bytes (AT_END). */
static bool run_steps(bool first)
{
    const step *steps = asked ? plain : repeated;
    for (size_t i = 0; i < (asked ? sizeof plain : sizeof repeated) / sizeof(step); i++) {
        if (steps[i].reset || (i == 0 && !first))
            bs_reset_state(life.session);
        if (!sweep_run(&life, steps[i].turn))
            return false;
        if (!sweep_same(&life, &wanted[asked], steps[i].turn))
            return sweep_stop(&life, AT_END, BS_OK);
    }
    return true;
}

static bool whole(const sweep_how *how)
{
    const bool ok = plan(how) && open_device(0, 0) && make_session(how) && run_steps(true);
    end();
    return ok;
}

/* What the device gives, and that it is what the CPU gives but for rounding. */
static bool learn(const setup *s)
{
    const sweep_how how = how_of(s, BS_LAUNCH_STREAM);
    bool ok = plan(&how) && open_device(0, 0) && make_session(&how);
    for (int32_t turn = 0; ok && turn < SWEEP_RUNS; turn++) {
        ok = sweep_run(&life, turn);
        wanted[asked].n_out[turn] = life.n_out;
        memcpy(wanted[asked].out[turn], life.out, life.n_out);
        ok = ok && life.n_out == host.n_out[turn];
    }
    end();
    return ok;
}

static void test_same(void)
{
    for (int32_t s = 0; s < SETUPS; s++)
        for (int32_t launch_mode = 0; launch_mode < BS_LAUNCH_COUNT; launch_mode++) {
            const sweep_how how = how_of(&setups[s], launch_mode);
            check(whole(&how), "%s, launched by %s: the same bytes (%s%s)", setups[s].name,
                  bs_launch_mode_name((bs_launch_mode)launch_mode), life.step == AT_END ? "" : life.error.message,
                  life.step == AT_END ? "as they are" : "");
        }
}

/* --------------------------------------------------------------------------------------------------- too few bytes */

static bool refused(const char *arena, uint64_t bytes)
{
    const bs_error *e = &life.error;
    return e->status == BS_ERROR_ARENA && e->arena && strstr(e->arena, arena) && e->needed > e->available &&
           e->available <= bytes && e->message[0];
}

/* Whether a session is refused where `less` is missing; by the name of the arena, and nothing is kept. */
static int32_t refuse(const sweep_how *how, bool pinned, uint64_t enough, uint64_t less)
{
    const bool made = make_session(how);
    int32_t wrong = made || !refused(pinned ? "pinned" : "device", enough - less) ? bad("is not refused", (int64_t)less)
                                                                                  : 0;
    if (!made && (life.memory.persistent.used || life.memory.staging.used || life.memory.slots.used ||
                  device->memory.used || device->pinned.used))
        wrong += bad("something is kept", (int64_t)less);
    bs_session_close(life.session);
    life.session = NULL;
    return wrong;
}

/* One of the device's arenas, byte by byte, of a device that is open; every hundredth time of one that was opened
 * so. */
static void test_bytes(const setup *s, bool pinned)
{
    const sweep_how how = how_of(s, BS_LAUNCH_STREAM);
    int32_t wrong = 0;
    size_t cases = 0;
    why[0] = 0;
    if (!check(plan(&how), "a plan: %s", life.error.message))
        return;
    const uint64_t enough = pinned ? life.sizes.pinned : life.sizes.device;
    for (uint64_t less = 1; less <= enough; less++) {
        if (!sweep_takes(&share, (size_t)less) && less != 1 && less != enough)
            continue;
        const bool anew = cases++ % 100 == 0;
        if (anew || !device) {
            bs_cuda_close(device);
            if (!open_device(anew && !pinned ? less : 0, anew && pinned ? less : 0)) {
                wrong += bad("the device cannot be opened", (int64_t)less);
                break;
            }
        }
        bs_arena *arena = pinned ? &device->pinned : &device->memory;
        arena->size = (size_t)(enough - less);
        wrong += refuse(&how, pinned, enough, less);
        if (anew) {
            bs_cuda_close(device);
            device = NULL;
        }
    }
    bs_cuda_close(device);
    const bool again = open_device(0, 0) && make_session(&how) && run_steps(true);
    check(wrong == 0 && again,
          "%s: %zu sizes of %s below %llu bytes are refused, and then exactly that is enough (%d wrong%s)", s->name,
          cases, pinned ? "pinned memory" : "device memory", (unsigned long long)enough, wrong, why);
    end();
}

static void test_opened(void)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bs_cuda_desc desc = {.device_bytes = 64, .pinned_bytes = 64};
    bs_arena arena;
    int32_t wrong = 0;
    bs_arena_init(&arena, "opened", opened_memory, sizeof opened_memory);
    bs_cuda_close(bs_cuda_open(&arena, &desc, &error));
    const size_t enough = arena.high_water;
    for (size_t n = 0; n <= enough; n++) {
        static _Alignas(64) uint8_t memory[1024 + SWEEP_GUARD];
        bs_arena_init(&arena, "opened", sweep_fence(memory, sizeof memory, n), n);
        bs_device *d = bs_cuda_open(&arena, &desc, &error);
        wrong += n < enough ? d || error.status != BS_ERROR_ARENA || error.needed <= error.available || arena.used != 0
                            : !d;
        bs_cuda_close(d);
    }
    check(wrong == 0 && enough > 0, "opening a device takes %zu bytes, and no fewer", enough);
}

/* ------------------------------------------------------------------------------------------------- calls that fail */

#ifdef BS_CUDA_CPU
static bool nothing_left(void)
{
    struct cuda_cpu_counts c;
    cuda_cpu_counts_get(&c);
    return c.live_allocations == 0 && c.live_streams == 0 && c.live_events == 0 && c.live_graphs == 0;
}

static int32_t told(int64_t n)
{
    return life.status < 0 && life.error.message[0]
               ? 0
               : bad(life.step == AT_END ? "other bytes" : "an error that tells nothing", n);
}

/* After one failure the object at fault is used again: the device, the session, a run. */
static int32_t once(const sweep_how *how, int64_t n)
{
    int32_t wrong = 0;
    if (!open_device(0, 0)) {
        wrong += told(n) + (opened.used ? bad("a device that was not opened keeps bytes", n) : 0);
        cuda_cpu_fail(0, 0);
        if (!open_device(0, 0))
            return wrong + bad("the device cannot be opened after that", n);
    }
    if (!make_session(how)) {
        wrong += told(n) + (device->memory.used || device->pinned.used
                                ? bad("a session that was not made keeps bytes of the device", n)
                                : 0);
        cuda_cpu_fail(0, 0);
        if (!make_session(how))
            return wrong + bad("no session after that", n);
    }
    if (run_steps(true))
        return wrong;
    wrong += told(n);
    cuda_cpu_fail(0, 0);
    return wrong + (run_steps(false) || run_steps(false) ? 0 : bad("the session does not recover", n));
}

/* A context that is lost. */
static int32_t from_then_on(const sweep_how *how, int64_t n)
{
    if (!open_device(0, 0) || !make_session(how) || !run_steps(true))
        return told(n);
    return 0;
}

static int32_t failing_life(const sweep_how *how, int64_t n, bool on, int32_t *errors)
{
    if (!plan(how))
        return bad("no plan", n);
    life.error.message[0] = 0;
    cuda_cpu_fail(n, on);
    int32_t wrong = on ? from_then_on(how, n) : once(how, n);
    *errors += life.error.message[0] != 0;
    end();
    cuda_cpu_fail(0, 0);
    if (on) /* nobody could wait for what was busy */
        cuda_cpu_trouble_forget();
    wrong += nothing_left() ? 0 : bad("something is left", n);
    return wrong + (sweep_fences_hold(&life) ? 0 : bad("wrote beyond an arena", n));
}

static void test_calls(const setup *s, int32_t launch_mode, size_t *cases)
{
    const sweep_how how = how_of(s, launch_mode);
    struct cuda_cpu_counts c;
    int32_t wrong = 0, lives = 0, errors = 0;
    why[0] = 0;
    cuda_cpu_counts_reset();
    const bool sound = whole(&how);
    cuda_cpu_counts_get(&c);
    const double began = sweep_ms();
    for (int64_t n = 1; sound && n <= c.calls && wrong < 5; n++)
        for (int32_t on = 0; on < 2; on++)
            if (sweep_takes(&share, (*cases)++)) {
                wrong += failing_life(&how, n, on != 0, &errors);
                lives++;
            }
    const double ms = sweep_ms() - began;
    check(
        sound && wrong == 0 && c.calls > 20,
        "%s, launched by %s: %lld calls, in %d lives one fails, or all from then on: %d errors, %d wrong, %.1f ms "
        "each%s",
        s->name, bs_launch_mode_name((bs_launch_mode)launch_mode), (long long)c.calls, lives, errors, wrong,
        lives ? ms / lives : 0, why);
    check(whole(&how) && cuda_cpu_trouble() == NULL, "afterwards all is well%s%s", cuda_cpu_trouble() ? ": " : "",
          cuda_cpu_trouble() ? cuda_cpu_trouble() : "");
}
#endif

int main(int argc, char **argv)
{
    share = sweep_share_of(argc, argv, 211);
    alone = sweep_alone();
    sweep_prepare(&file, &host, &alone);
    streamed_plan = sweep_streamed(&file, &alone);
    for (int32_t s = ASKED; s <= STAY; s++)
        if (!check(learn(&setups[s]), "the model runs on the device: %s", life.error.message))
            return check_end();
    test_same();
    test_opened();
    for (int32_t s = STAY; s < SETUPS; s++)
        for (int32_t pinned = 0; pinned < 2; pinned++)
            test_bytes(&setups[s], pinned != 0);
#ifdef BS_CUDA_CPU
    size_t cases = 0;
    test_calls(&setups[ASKED], BS_LAUNCH_STREAM, &cases);
    for (int32_t launch_mode = 0; launch_mode < BS_LAUNCH_COUNT; launch_mode++)
        test_calls(&setups[STAY], launch_mode, &cases);
    /* the host goes through a streamed plan: no launch mode makes a difference */
    test_calls(&setups[STREAMED], BS_LAUNCH_AUTO, &cases);
    test_calls(&setups[IN_PLACE], BS_LAUNCH_AUTO, &cases);
#endif
    return check_end();
}
