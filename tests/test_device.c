/* Promises: a session calls its device in the order that plan/device.h says, and whatever call fails, the run or the
 * session fails with that call's own words, nothing of it stays in the arenas, and the next run is as if nothing had
 * been.
 *
 * Relies on: plan/device.h. The device is a script: it computes nothing, writes down what it is asked, and fails when
 * told to. So this runs everywhere; what a real one computes is tested by test_cuda_*. */
#include "check.h"
#include "ops/table.h"
#include "run/session.h"

#include <math.h>

enum { ROWS = 4, WIDTH = 8, LOG = 4096 };

static _Alignas(4096) uint8_t arenas[4][1 << 20], there[1 << 20], pinned[1 << 20], storage[4096];
static _Alignas(64) uint8_t graph_memory[1 << 19], plan_memory[1 << 19];
static bs_error error;
static bs_memory memory;
static const bs_plan *plan;
static bs_session *session;

/* ---------------------------------------------------------------------------------------------------- the device */

static struct {
    char log[LOG]; /* one letter a call */
    int32_t calls, fail_at; /* 0: none fails */
    bool refuses; /* the lowering CONDITIONAL */
    int32_t bad_node; /* wait, learn: the run failed there */
    int32_t counts[2];
    float margins[2];
    const bs_device_client *client;
    int32_t open;
    int32_t lowering;
    bool undo; /* the lowering that is kept at the end cannot be had */
} script;

static bs_status call(char letter, bs_error *e)
{
    script.log[script.calls++ % (LOG - 1)] = letter;
    return script.calls == script.fail_at ? bs_fail(e, BS_ERROR_PLATFORM, "scripted: call %d, %c", script.calls, letter)
                                          : BS_OK;
}

static bs_status device_open(bs_device *device, const bs_device_client *client, uint8_t *bytes, uint8_t *pin,
                             bs_device_session **s, bs_error *e)
{
    (void)device, (void)bytes;
    *s = (bs_device_session *)(void *)pin;
    script.client = client;
    const bs_status status = call('o', e);
    script.open += status == BS_OK;
    return status;
}

static void device_close(bs_device_session *s)
{
    (void)s;
    call('c', NULL);
    script.open--;
}

static void *device_load(bs_device_session *s, bs_error *e)
{
    (void)s;
    return call('L', e) == BS_OK ? pinned + sizeof pinned / 2 : NULL;
}

static bs_status device_loaded(bs_device_session *s, uint64_t offset, uint64_t bytes, bs_error *e)
{
    (void)s, (void)offset, (void)bytes;
    return call('l', e);
}
static bs_status device_zero(bs_device_session *s, uint8_t *at, uint64_t bytes)
{
    (void)s, (void)at, (void)bytes;
    return call('z', NULL);
}

static bs_status device_lower(bs_device_session *s, int32_t lowering, bs_error *e)
{
    (void)s;
    script.lowering = lowering;
    if (script.undo && e) /* nobody is told of a lowering that is only tried */
        return bs_fail(e, BS_ERROR_PLATFORM, "scripted: this lowering is gone");
    return script.refuses && lowering == BS_LOWER_CONDITIONAL ? BS_ERROR_UNSUPPORTED : call('w', e);
}

static bs_status device_begin(bs_device_session *s, bs_error *e) { (void)s; return call('b', e); }
static bs_status device_run(bs_device_session *s, int32_t first, int32_t end, bs_error *e)
{
    (void)s, (void)first, (void)end;
    return call('r', e);
}
static bs_status device_end(bs_device_session *s, bs_error *e) { (void)s; return call('e', e); }

static bs_status device_wait(bs_device_session *s, int32_t *node, bs_error *e)
{
    (void)s;
    const bs_status status = call('W', e);
    if (status != BS_OK)
        return status;
    script.client->counts[0] = script.counts[0]; /* of router 1 */
    script.client->counts[1] = script.counts[1];
    *node = script.bad_node;
    return *node ? BS_ERROR_DATA : BS_OK;
}

static bs_status device_part(bs_device_session *s, int32_t part, bs_error *e)
{
    (void)s, (void)part;
    return call('p', e);
}
static bs_status device_place(bs_device_session *s, int32_t unit, const uint8_t *at, bs_error *e)
{
    (void)s, (void)unit, (void)at;
    return call('P', e);
}

static bs_status device_learn(bs_device_session *s, int32_t router, int32_t *counts, int32_t *node, bs_error *e)
{
    (void)s, (void)router;
    const bs_status status = call('n', e);
    memcpy(counts, script.counts, sizeof script.counts);
    if (status != BS_OK || !script.bad_node)
        return status;
    *node = script.bad_node;
    return BS_ERROR_DATA;
}

static bs_status device_guess(bs_device_session *s, int32_t router, float *margins, bs_error *e)
{
    (void)s, (void)router;
    memcpy(margins, script.margins, sizeof script.margins);
    return call('g', e);
}

static bs_status device_settle(bs_device_session *s, bs_error *e) { (void)s; return call('s', e); }

static bs_status device_copy(bs_device_session *s, int32_t lane, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    (void)s, (void)lane, (void)to, (void)from, (void)bytes;
    return call('k', NULL);
}

static const bs_device_api api = {device_open,  device_close, device_load,   device_loaded, device_zero, device_lower,
                                  device_begin, device_run,   device_end,    device_wait,   device_part, device_place,
                                  device_learn, device_guess, device_settle, device_copy};
static bs_device device;

/* ---------------------------------------------------------------------------------------------------- weights */

static bs_status find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    const bool bias = strstr(name, ".bias") != NULL;
    const int64_t rows = name[0] == 's' ? 2 : WIDTH;
    *info = (bs_weight_info){.dtype = BS_F32,
                             .rank = bias ? 1 : 2,
                             .dim = {rows, bias ? 0 : WIDTH},
                             .bytes = (uint64_t)(4 * rows * (bias ? 1 : WIDTH)),
                             .handle = (uint64_t)(512 * (name[0] - 'a') + (bias ? 256 : 0))};
    return BS_OK;
}

static bs_status read_zeros(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)info, (void)offset;
    memset(buffer, 0, bytes);
    return BS_OK;
}

/* Block 1 is "a", block 2 "e"; their records lie where the letters say. */
static bs_status locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    (void)user;
    *block = info->handle < 512 ? 1 : 2;
    *offset = info->handle;
    return BS_OK;
}

static bs_status record(const void *user, int32_t block, bs_record *r)
{
    (void)user;
    *r = (bs_record){block == 1 ? 0 : 512 * 4, 288, 0, 0};
    return BS_OK;
}

static bs_status fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    memcpy(buffer, storage + offset, bytes);
    return BS_OK;
}

/* ---------------------------------------------------------------------------------------------------- the network */

static int32_t route_node;

static const bs_graph *build(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    const bs_value kept = bs_state(g, "kept", BS_F32, BS_SHAPE2(ROWS, WIDTH));
    bs_value x = bs_rows(g, bs_add(g, bs_input(g, "in", BS_F32, BS_SHAPE2(ROWS, WIDTH)), kept), (bs_value){0}), out[2];
    const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = "score", .out = 2});
    bs_look_ahead(g, score, "r");
    bs_block_begin(g, "a");
    x = bs_linear(g, x, &(bs_linear_desc){.name = "a", .out = WIDTH});
    bs_block_end(g);
    const bs_router r = bs_route(g, score, (bs_value){0}, &(bs_route_desc){.name = "r", .paths = 2});
    out[0] = bs_affine(g, bs_scatter(g, r, 0, x), 2, 0);
    bs_block_begin(g, "e");
    out[1] = bs_linear(g, bs_scatter(g, r, 1, x), &(bs_linear_desc){.name = "e", .out = WIDTH});
    bs_block_end(g);
    const bs_value y = bs_collect(g, bs_gather(g, r, out, (bs_value){0}, NULL));
    bs_state_write(g, kept, y);
    bs_output(g, "out", y);
    if (bs_graph_check(g, &error) != BS_OK)
        check(0, "the graph: %s", error.message);
    route_node = g->routers[r.id].node;
    return g;
}

static float in[ROWS][WIDTH], out[ROWS][WIDTH];
static bs_platform alone;

static void arenas_init(void)
{
    bs_arena *const all[6] = {&memory.persistent, &memory.transient, &memory.staging,
                              &memory.slots,      &device.memory,    &device.pinned};
    static const char *const names[6] = {"persistent", "transient", "staging", "slots", "device", "pinned"};
    uint8_t *const bytes[6] = {arenas[0], arenas[1], arenas[2], arenas[3], there, pinned};
    for (int32_t i = 0; i < 6; i++)
        bs_arena_init(all[i], names[i], bytes[i], 1 << 20);
    device.api = &api;
}

static bool nothing_taken(void)
{
    return memory.persistent.used + memory.transient.used + memory.staging.used + memory.slots.used +
               device.memory.used + device.pinned.used ==
           0;
}

/* fail_at: counted from the first call of the session's making. */
static bool begin(const bs_plan_desc *desc, bs_profile *profile, int32_t fail_at)
{
    const bs_session_desc with = {.weights = {.find = find,
                                              .read = read_zeros,
                                              .locate = locate,
                                              .record = record,
                                              .fetch = fetch,
                                              .fetch_alignment = 1},
                                  .platform = &alone,
                                  .device = &device,
                                  .profile = profile};
    const bs_buffer buffers[2] = {{in, BS_F32, 2, {ROWS, WIDTH}, {0}}, {out, BS_F32, 2, {ROWS, WIDTH}, {0}}};
    bs_plan_desc d = *desc;
    bs_arena arena;
    d.tier = BS_TIER_CUDA;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    plan = bs_plan_create(&arena, build(), &d, &error);
    if (!plan) {
        check(0, "the plan: %s", error.message);
        exit(check_end());
    }
    memset(&script, 0, sizeof script);
    script.fail_at = fail_at;
    script.counts[0] = script.counts[1] = ROWS / 2;
    script.margins[1] = 1;
    arenas_init();
    memset(&error, 0, sizeof error);
    session = bs_session_create(&memory, plan, &with, &error);
    return session && bs_bind(session, "in", &buffers[0], &error) == BS_OK &&
           bs_bind(session, "out", &buffers[1], &error) == BS_OK;
}

static void end(void)
{
    bs_session_close(session);
    session = NULL;
}

static void forget_log(void)
{
    memset(script.log, 0, sizeof script.log);
    script.calls = 0;
}

/* ---------------------------------------------------------------------------------------------------- the order of
 * calls */

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

/* ---------------------------------------------------------------------------------------------------- every call
 * fails */

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

/* ---------------------------------------------------------------------------------------------------- lowerings,
 * profiles */

static void test_choosing(void)
{
    bs_lowering best = BS_LOWER_AUTO;
    uint64_t ns[BS_LOWER_COUNT];
    begin(&streamed[0], NULL, 0);
    check(bs_cuda_choose(session, 2, &best, ns, &error) == BS_ERROR_UNSUPPORTED, "%s", error.message);
    end();
    begin(&resident, NULL, 0);
    bs_run(session, &error);
    forget_log();
    const bs_status chosen = bs_cuda_choose(session, 2, &best, ns, &error);
    check(chosen == BS_OK && best > BS_LOWER_AUTO && best < BS_LOWER_COUNT && script.lowering == (int32_t)best,
          "the fastest lowering is kept: %s", bs_lowering_name(best));
    check(strcmp(script.log, "wbreWbreWbreWwbreWbreWbreWwbreWbreWbreWwbreWbreWbreWzw") == 0,
          "after a run to warm up and two that count, of each: %s", script.log);
    script.refuses = true;
    check(bs_cuda_choose(session, -5, NULL, NULL, &error) == BS_OK,
          "runs are at least one, and what cannot be is passed over");
    check(bs_cuda_choose(session, 1, &best, ns, &error) == BS_OK && ns[BS_LOWER_CONDITIONAL] == 0 &&
              best != BS_LOWER_CONDITIONAL,
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
    check(strcmp(bs_lowering_name(BS_LOWER_HOST), "host") == 0 &&
              strcmp(bs_lowering_name((bs_lowering)-1), "unknown") == 0 &&
              strcmp(bs_lowering_name(BS_LOWER_COUNT), "unknown") == 0,
          "lowerings have names");
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
