/* scripted_device.h - a device that computes nothing, writes down what it is asked, and fails when told to; and a small
 * network with a state, a router and weights that can be streamed, in sessions on it.
 * Owns the script, its log and one session. Relies on plan/device.h. Must never need a GPU. */
#ifndef BS_TEST_SCRIPTED_DEVICE_H
#define BS_TEST_SCRIPTED_DEVICE_H

#include "check.h"
#include "plan/device.h"
#include "run/session.h"

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
    bool refuses; /* the launch mode CONDITIONAL */
    int32_t bad_node; /* wait, learn: the run failed there */
    int32_t counts[2];
    float margins[2];
    const bs_device_client *client;
    int32_t open;
    int32_t launch_mode;
    bool undo; /* the launch mode that is kept at the end cannot be had */
} script;

static inline bs_status call(char letter, bs_error *e)
{
    script.log[script.calls++ % (LOG - 1)] = letter;
    return script.calls == script.fail_at ? bs_fail(e, BS_ERROR_PLATFORM, "scripted: call %d, %c", script.calls, letter)
                                          : BS_OK;
}

static inline bs_status device_open(bs_device *device, const bs_device_client *client, uint8_t *bytes, uint8_t *pin,
                             bs_device_session **s, bs_error *e)
{
    (void)device, (void)bytes;
    *s = (bs_device_session *)(void *)pin;
    script.client = client;
    const bs_status status = call('o', e);
    script.open += status == BS_OK;
    return status;
}

static inline void device_close(bs_device_session *s)
{
    (void)s;
    call('c', NULL);
    script.open--;
}

static inline void *device_load(bs_device_session *s, bs_error *e)
{
    (void)s;
    return call('L', e) == BS_OK ? pinned + sizeof pinned / 2 : NULL;
}

static inline bs_status device_loaded(bs_device_session *s, uint64_t offset, uint64_t bytes, bs_error *e)
{
    (void)s, (void)offset, (void)bytes;
    return call('l', e);
}
static inline bs_status device_zero(bs_device_session *s, uint8_t *at, uint64_t bytes)
{
    (void)s, (void)at, (void)bytes;
    return call('z', NULL);
}

static inline bs_status device_lower(bs_device_session *s, int32_t launch_mode, bs_error *e)
{
    (void)s;
    script.launch_mode = launch_mode;
    if (script.undo && e) /* nobody is told of a launch mode that is only tried */
        return bs_fail(e, BS_ERROR_PLATFORM, "scripted: this launch mode is gone");
    return script.refuses && launch_mode == BS_LAUNCH_CONDITIONAL ? BS_ERROR_UNSUPPORTED : call('w', e);
}

static inline bs_status device_begin(bs_device_session *s, bs_error *e) { (void)s; return call('b', e); }
static inline bs_status device_run(bs_device_session *s, int32_t first, int32_t end, bs_error *e)
{
    (void)s, (void)first, (void)end;
    return call('r', e);
}
static inline bs_status device_end(bs_device_session *s, bs_error *e) { (void)s; return call('e', e); }

static inline bs_status device_wait(bs_device_session *s, int32_t *node, bs_error *e)
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

static inline bs_status device_part(bs_device_session *s, int32_t part, bs_error *e)
{
    (void)s, (void)part;
    return call('p', e);
}
static inline bs_status device_place(bs_device_session *s, int32_t unit, const uint8_t *at, bs_error *e)
{
    (void)s, (void)unit, (void)at;
    return call('P', e);
}

static inline bs_status device_learn(bs_device_session *s, int32_t router, int32_t *counts, int32_t *node, bs_error *e)
{
    (void)s, (void)router;
    const bs_status status = call('n', e);
    memcpy(counts, script.counts, sizeof script.counts);
    if (status != BS_OK || !script.bad_node)
        return status;
    *node = script.bad_node;
    return BS_ERROR_DATA;
}

static inline bs_status device_guess(bs_device_session *s, int32_t router, float *margins, bs_error *e)
{
    (void)s, (void)router;
    memcpy(margins, script.margins, sizeof script.margins);
    return call('g', e);
}

static inline bs_status device_settle(bs_device_session *s, bs_error *e) { (void)s; return call('s', e); }

static inline bs_status device_copy(bs_device_session *s, int32_t lane, uint8_t *to, const uint8_t *from,
                                    uint64_t bytes)
{
    (void)s, (void)lane, (void)to, (void)from, (void)bytes;
    return call('k', NULL);
}

/* No network here has extents from data. */
static bs_status device_extents(bs_device_session *s, int32_t *node, bs_error *why)
{
    (void)s, (void)node, (void)why;
    return BS_ERROR_UNSUPPORTED;
}

static const bs_device_api api = {device_open,  device_close, device_load,   device_loaded, device_zero, device_lower,
                                  device_begin, device_run,   device_end,    device_wait,   device_part, device_place,
                                  device_learn, device_extents, device_guess, device_settle, device_copy};
static bs_device device;

/* ---------------------------------------------------------------------------------------------------- weights */

static inline bs_status find(const void *user, const char *name, bs_weight_info *info)
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

static inline bs_status read_zeros(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                   size_t bytes)
{
    (void)user, (void)info, (void)offset;
    memset(buffer, 0, bytes);
    return BS_OK;
}

/* Block 1 is "a", block 2 "e"; their records lie where the letters say. */
static inline bs_status locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    (void)user;
    *block = info->handle < 512 ? 1 : 2;
    *offset = info->handle;
    return BS_OK;
}

static inline bs_status record(const void *user, int32_t block, bs_record *r)
{
    (void)user;
    *r = (bs_record){block == 1 ? 0 : 512 * 4, 288, 0, 0};
    return BS_OK;
}

static inline bs_status fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
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

static inline void arenas_init(void)
{
    bs_arena *const all[6] = {&memory.persistent, &memory.transient, &memory.staging,
                              &memory.slots,      &device.memory,    &device.pinned};
    static const char *const names[6] = {"persistent", "transient", "staging", "slots", "device", "pinned"};
    uint8_t *const bytes[6] = {arenas[0], arenas[1], arenas[2], arenas[3], there, pinned};
    for (int32_t i = 0; i < 6; i++)
        bs_arena_init(all[i], names[i], bytes[i], 1 << 20);
    device.api = &api;
}

static inline bool nothing_taken(void)
{
    return memory.persistent.used + memory.transient.used + memory.staging.used + memory.slots.used +
               device.memory.used + device.pinned.used ==
           0;
}

/* fail_at: counted from the first call of the session's making. */
static inline bool begin(const bs_plan_desc *desc, bs_profile *profile, int32_t fail_at)
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
    plan = bs_plan_create(&arena, NULL, build(), &d, &error);
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

static inline void end(void)
{
    bs_session_close(session);
    session = NULL;
}

static inline void forget_log(void)
{
    memset(script.log, 0, sizeof script.log);
    script.calls = 0;
}

#endif
