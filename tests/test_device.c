/* tags: asan */
/* Promises: a session calls its device in the order that plan/device.h says, and whatever call fails, the run or the
 * session fails with that call's own words, nothing of it stays in the arenas, and the next run is as if nothing had
 * been.
 *
 * The device is a script, scripted_device.h, so this runs everywhere; what a real one computes is tested by
 * test_cuda_*. */
#include "ops/table.h"
#include "scripted_device.h"

#include <math.h>

/* ----------------------------------------------------------------------------------------------- the order of calls */

static const bs_plan_desc resident = {.threads = 1};
static const bs_plan_desc streamed[2] = {{.slot_bytes = 1 << 16, .order = BS_ORDER_BREADTH},
                                         {.slot_bytes = 1 << 16, .order = BS_ORDER_DEPTH}};
static const bs_plan_desc in_place = {.slot_bytes = 1 << 16, .order = BS_ORDER_DEPTH, .in_place = 1};

static void test_calls(void)
{
    check(begin(&resident, NULL, 0) && strcmp(script.log, "ozLlLlLls") == 0,
          "a session is opened, its state zero, its weights brought and waited for: %s", script.log);
    bs_run(session, &error); /* its state gets its shape */
    forget_log();
    check(bs_submit(session, &error) == BS_OK && strcmp(script.log, "bre") == 0,
          "a run is begun, queued and ended, and not waited for: %s", script.log);
    check(bs_wait(session, &error) == BS_OK && strcmp(script.log, "breW") == 0 && bs_wait(session, &error) == BS_OK &&
              strcmp(script.log, "breW") == 0,
          "until it is asked for, once: %s", script.log);
    check(bs_state_valid(session), "then its state is valid");
    bs_submit(session, &error);
    forget_log();
    bs_reset_state(session);
    check(strcmp(script.log, "Wz") == 0 && !bs_state_valid(session), "a reset waits for the run: %s", script.log);
    bs_submit(session, &error);
    forget_log();
    end();
    check(strcmp(script.log, "Wc") == 0 && script.open == 0, "so does the end: %s", script.log);
    for (int32_t i = 0; i < 2; i++) {
        check(begin(&streamed[i], NULL, 0), "weights come and go, order %d: %s", streamed[i].order, error.message);
        forget_log();
        check(bs_run(session, &error) == BS_OK && strchr(script.log, 'g') && strchr(script.log, 'n') &&
                  strchr(script.log, 'P') && strchr(script.log, 'k') && strncmp(script.log, "zb", 2) == 0 &&
                  script.log[script.calls - 2] == 'e',
              "its run: %s", script.log);
        forget_log();
        script.counts[0] = ROWS, script.counts[1] = 0;
        script.margins[1] = -1; /* nothing is expected */
        check(bs_run(session, &error) == BS_OK && !strchr(script.log, 'k'),
              "what is there is not read again, what no row needs not at all: %s", script.log);
        end();
        check(script.open == 0, "and it is closed");
    }
    check(begin(&in_place, NULL, 0), "slots that the device reads where they are: %s", error.message);
    forget_log();
    check(bs_run(session, &error) == BS_OK && strchr(script.log, 'P') && !strchr(script.log, 'k'),
          "nothing is copied to them: %s", script.log);
    end();
}

/* ------------------------------------------------------------------------------------------------- every call fails */

/* A state that was not zeroed is known before anything runs. */
static bool says_so(void)
{
    return strncmp(error.message, "scripted: call", 14) == 0 || strstr(error.message, "a platform call failed") ||
           strstr(error.message, "bs_reset_state");
}

static void test_failures(const bs_plan_desc *desc, const char *what)
{
    int32_t refused = 0, failed = 0, wrong = 0;
    for (int32_t n = 1; n < 200; n++) {
        if (!begin(desc, NULL, n)) {
            wrong += !says_so() || !nothing_taken() || script.open != 0;
            refused++;
            continue;
        }
        bool met = false;
        for (int32_t turn = 0; turn < 2; turn++) {
            memset(&error, 0, sizeof error);
            const bs_status status = bs_run(session, &error);
            const bool now = script.calls >= n && !met;
            const bool zeroed = !strstr(error.message, "bs_reset_state");
            wrong += status != BS_OK && ((zeroed && !now) || !says_so() || bs_state_valid(session) ||
                                         (zeroed && bs_wait(session, NULL) != status));
            failed += status != BS_OK;
            met = script.calls >= n;
            if (status == BS_OK)
                continue;
            wrong += bs_run(session, &error) != BS_ERROR_DATA; /* its states are in between */
            bs_reset_state(session);
            wrong += bs_run(session, &error) != BS_OK;
        }
        end();
        wrong += script.open != 0;
        if (!met)
            break;
    }
    check(wrong == 0 && refused >= 3 && failed >= 4,
          "%s: each call fails once: no session %d times, a failed run %d times, and nothing else (%d wrong)", what,
          refused, failed, wrong);
}

static void test_reset(void)
{
    begin(&resident, NULL, 0);
    bs_run(session, &error);
    script.fail_at = script.calls + 1;
    bs_reset_state(session);
    check(bs_run(session, &error) == BS_ERROR_DATA && strstr(error.message, "bs_reset_state"),
          "a state that could not be zeroed: %s", error.message);
    bs_reset_state(session);
    check(bs_run(session, &error) == BS_OK, "until it could");
    end();
}

/* What the device says of data is told with the op's name. */
static void test_bad_data(void)
{
    char text[100];
    for (int32_t i = -1; i < 2; i++) {
        begin(i < 0 ? &resident : &streamed[i], NULL, 0);
        script.bad_node = route_node;
        snprintf(text, sizeof text, "route \"r\" (node %d): run-time data is out of range (index, NaN score)",
                 route_node);
        check(bs_run(session, &error) == BS_ERROR_DATA && strcmp(error.message, text) == 0, "%s", error.message);
        end();
    }
}

/* One byte less of either arena. */
static void test_room(void)
{
    const bs_session_desc with = {.weights = {.find = find, .read = read_zeros}, .platform = &alone, .device = &device};
    bs_sizes sizes;
    begin(&resident, NULL, 0);
    end();
    bs_plan_sizes(plan, &sizes);
    for (int32_t i = 0; i < 2; i++) {
        arenas_init();
        bs_arena *arena = i ? &device.pinned : &device.memory;
        bs_arena_init(arena, arena->name, arena->base, (size_t)(i ? sizes.pinned : sizes.device) - 1);
        check(!bs_session_create(&memory, plan, &with, &error) && error.status == BS_ERROR_ARENA && nothing_taken() &&
                  script.open == 0,
              "%s", error.message);
    }
}

/* ---------------------------------------------------------------------------------------------- launch modes,
 * profiles */

static void test_choosing(void)
{
    bs_launch_mode best = BS_LAUNCH_AUTO;
    uint64_t ns[BS_LAUNCH_COUNT];
    begin(&streamed[0], NULL, 0);
    check(bs_cuda_choose(session, 2, &best, ns, &error) == BS_ERROR_UNSUPPORTED, "%s", error.message);
    end();
    begin(&resident, NULL, 0);
    bs_run(session, &error);
    forget_log();
    const bs_status chosen = bs_cuda_choose(session, 2, &best, ns, &error);
    check(chosen == BS_OK && best > BS_LAUNCH_AUTO && best < BS_LAUNCH_COUNT && script.launch_mode == (int32_t)best,
          "the fastest launch mode is kept: %s", bs_launch_mode_name(best));
    check(strcmp(script.log, "wbreWbreWbreWwbreWbreWbreWwbreWbreWbreWzw") == 0,
          "after a run to warm up and two that count, of each: %s", script.log);
    script.refuses = true;
    check(bs_cuda_choose(session, -5, NULL, NULL, &error) == BS_OK,
          "runs are at least one, and what cannot be is passed over");
    check(bs_cuda_choose(session, 1, &best, ns, &error) == BS_OK && ns[BS_LAUNCH_CONDITIONAL] == 0 &&
              best != BS_LAUNCH_CONDITIONAL,
          "with a time of 0");
    script.fail_at = script.calls + 3; /* in the first run */
    check(bs_cuda_choose(session, 1, NULL, NULL, &error) == BS_ERROR_PLATFORM && says_so(),
          "a run that fails ends it: %s", error.message);
    script.fail_at = 0;
    check(bs_run(session, &error) == BS_OK, "and the session runs again");
    forget_log();
    script.undo = true;
    check(bs_cuda_choose(session, 1, NULL, NULL, &error) == BS_ERROR_PLATFORM && strstr(error.message, "gone"),
          "what was chosen cannot be had: %s", error.message);
    end();
    check(strcmp(bs_launch_mode_name(BS_LAUNCH_CONDITIONAL), "conditional") == 0 &&
              strcmp(bs_launch_mode_name((bs_launch_mode)-1), "unknown") == 0 &&
              strcmp(bs_launch_mode_name(BS_LAUNCH_COUNT), "unknown") == 0,
          "launch modes have names");
}

static int32_t decisions;

static int count_decisions(void *user, const void *data, size_t bytes)
{
    (void)user;
    if (bytes % sizeof(bs_event)) /* the header */
        return 0;
    for (size_t i = 0; i < bytes / sizeof(bs_event); i++) {
        bs_event e;
        memcpy(&e, (const uint8_t *)data + i * sizeof e, sizeof e);
        decisions += e.kind == BS_EVENT_DECISION && e.value == ROWS / 2;
    }
    return 0;
}

static void test_profile(void)
{
    static _Alignas(64) uint8_t ring[1 << 14], place[1 << 12];
    for (int32_t i = -1; i < 2; i++) {
        bs_arena arena;
        bs_arena_init(&arena, "place", place, sizeof place);
        bs_profile *profile = bs_profile_create(
            &arena,
            &(bs_profile_desc){.platform = &alone, .write = count_decisions, .memory = ring, .bytes = sizeof ring},
            &error);
        decisions = 0;
        bool ok = begin(i < 0 ? &resident : &streamed[i], profile, 0);
        for (int32_t turn = 0; turn < 3; turn++)
            ok = ok && bs_run(session, &error) == BS_OK;
        end();
        ok = bs_profile_close(profile, NULL) == BS_OK && ok;
        check(ok && decisions == 6, "decisions of a device are recorded: %d of 6 (%s)", decisions, error.message);
    }
}

int main(void)
{
    alone = *bs_platform_default();
    alone.thread_start = NULL;
    test_calls();
    test_failures(&resident, "weights that stay");
    test_failures(&streamed[0], "weights that come and go");
    test_failures(&streamed[1], "weights that come and go, in tiles");
    test_failures(&in_place, "weights that come and go in memory of the host");
    test_reset();
    test_bad_data();
    test_room();
    test_choosing();
    test_profile();
    return check_end();
}
