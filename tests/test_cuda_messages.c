/* tags: asan */
/* test_cuda_messages.c - what the CUDA backend says when something is wrong: each message names the device, router, op
 * or bytes at fault and what was expected, and this table knows every message of these files. Only in the emulation,
 * which fails on demand. */
#include "brainstorm.h"
#include "check.h"

#ifndef BS_CUDA_CPU

int main(void)
{
    puts("0 passed, 0 failed, 1 skipped");
    return 0;
}

#else

#include "cuda_cpu/control.h"
#include "messages.h"

#include <math.h>

enum { ROWS = 4, LARGE = 256 };

static _Alignas(64) uint8_t arenas[4][4 << 20], graph_memory[1 << 20], plan_memory[1 << 20], opened[4096];
static bs_error error;
static const bs_value none = {0};
static const bs_plan *plan;
static bs_device *device;
static bs_session *session;

static void forget(void) { memset(&error, 0, sizeof error); }

/* ---------------------------------------------------------------------------------------------------- opening */

static bs_device *open_device(const bs_cuda_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "opened", opened, sizeof opened);
    forget();
    return bs_cuda_open(&arena, desc, &error);
}

static void not_opened(const bs_cuda_desc *desc, bs_status status, const char *text)
{
    bs_device *d = open_device(desc);
    if (d)
        check(0, "no device is opened: %s", text);
    message_is(&error, status, text);
    bs_cuda_close(d);
}

/* Fails one call after the other until one says this. */
static void says(const bs_cuda_desc *desc, bs_status status, const char *text)
{
    for (int64_t n = 1; n < 40; n++) {
        cuda_cpu_fail(n, 0);
        bs_device *d = open_device(desc);
        cuda_cpu_fail(0, 0);
        bs_cuda_close(d);
        if (!d && strcmp(error.message, text) == 0) {
            message_is(&error, status, text);
            return;
        }
    }
    check(0, "some call that fails says: %s", text);
}

static void test_opening(void)
{
    const bs_cuda_desc some = {.device_bytes = 1 << 20, .pinned_bytes = 1 << 20}, second = {.index = 1};
    char text[200];
    forget();
    check(bs_cuda_facts_get(0, NULL, NULL) == BS_ERROR_ARGUMENT && !bs_cuda_open(NULL, NULL, NULL),
          "nothing to fill, nothing to open in");
    bs_cuda_close(NULL);
    check(bs_cuda_launches(NULL, NULL, 0) == 0, "no device launches nothing");
    bs_cuda_facts_get(0, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_cuda_facts_get: the facts are NULL");
    bs_cuda_open(NULL, &some, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_cuda_open: the arena is NULL");
    cuda_cpu_devices(0);
    not_opened(&some, BS_ERROR_UNSUPPORTED, "this machine has no CUDA device");
    cuda_cpu_devices(1);
    not_opened(&second, BS_ERROR_ARGUMENT, "bs_cuda_desc.index: there is no CUDA device 1, expected 0 .. 0");
    cuda_cpu_fail(1, 0);
    bs_device *d = open_device(&some);
    cuda_cpu_fail(0, 0);
    bs_cuda_close(d);
    const int known = sscanf(error.message, "CUDA cannot be used here (unknown error; driver %199[^)]", text) == 1;
    check(known, "what the driver is and what this was built with: %s", error.message);
    if (known)
        message_is(&error, BS_ERROR_UNSUPPORTED, error.message);
    says(&some, BS_ERROR_PLATFORM, "CUDA: choosing the device: unknown error");
    says(&some, BS_ERROR_PLATFORM, "CUDA: allocating on the device: out of memory");
    says(&some, BS_ERROR_PLATFORM, "CUDA: allocating pinned memory: out of memory");
}

/* ---------------------------------------------------------------------------------------------------- sessions */

static float scores[ROWS][3], out[ROWS][3], knob, large[LARGE][LARGE], product[LARGE][LARGE];

static bs_status find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    const bool bias = strstr(name, ".bias") != NULL;
    *info = (bs_weight_info){.dtype = BS_F32,
                             .rank = bias ? 1 : 2,
                             .dim = {LARGE, bias ? 0 : LARGE},
                             .bytes = 4 * LARGE * (bias ? 1 : LARGE)};
    return BS_OK;
}

static bs_status read_zeros(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)info, (void)offset;
    memset(buffer, 0, bytes);
    return BS_OK;
}

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

/* less: bytes of the device's memory that are missing. */
static bool made_with(const bs_graph *g, const bs_plan_desc *desc, uint64_t cublas_bytes, uint64_t less)
{
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    bs_memory memory;
    bs_arena *const all[4] = {&memory.persistent, &memory.transient, &memory.staging, &memory.slots};
    bs_arena arena;
    bs_sizes sizes;
    bs_plan_desc d = *desc;
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(all[i], names[i], arenas[i], sizeof arenas[i]);
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    d.tier = BS_TIER_CUDA;
    plan = bs_plan_create(&arena, NULL, g, &d, &error);
    if (!plan) {
        check(0, "it is planned: %s", error.message);
        exit(check_end());
    }
    bs_plan_sizes(plan, &sizes);
    const bs_cuda_desc room = {.device_bytes = sizes.device + cublas_bytes + 64 - less,
                               .pinned_bytes = sizes.pinned,
                               .cublas_bytes = cublas_bytes};
    device = open_device(&room);
    const bs_session_desc with = {.device = device, .weights = {.find = find, .read = read_zeros}};
    session = device ? bs_session_create(&memory, plan, &with, &error) : NULL;
    return session != NULL;
}

static bool made(const bs_graph *g, const bs_plan_desc *desc, uint64_t cublas_bytes)
{
    return made_with(g, desc, cublas_bytes, 0);
}

static void end(void)
{
    bs_session_close(session);
    bs_cuda_close(device);
    session = NULL;
}

static void bind(const char *name, void *data, int32_t rank, int64_t d0, int64_t d1)
{
    const bs_buffer b = {data, BS_F32, rank, {d0, d1}, {0}};
    if (bs_bind(session, name, &b, &error) != BS_OK)
        check(0, "%s", error.message);
}

static void refused(bs_status status, const char *text)
{
    forget();
    bs_run(session, &error);
    message_is(&error, status, text);
}

static int32_t answer;
static bs_status gives;

static bs_status callback(void *user, const bs_operand_view *view, int32_t rows, int32_t *path)
{
    (void)user, (void)view;
    for (int32_t i = 0; i < rows; i++)
        path[i] = i == 2 ? answer : 0;
    return gives;
}

static void begin_router(int32_t protocol)
{
    bs_graph *g = new_graph();
    bs_value ways[3];
    const bs_value x = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(ROWS, 3)), none),
                   k = bs_input(g, "knob", BS_F32, BS_SHAPE1(1));
    const bs_router r = bs_route(g, x, k, &(bs_route_desc){.name = "r", .protocol = protocol, .paths = 3});
    for (int32_t p = 0; p < 3; p++)
        ways[p] = bs_affine(g, bs_scatter(g, r, p, x), 1, (float)p);
    bs_output(g, "out", bs_collect(g, bs_gather(g, r, ways, none, NULL)));
    if (!made(g, &(bs_plan_desc){.threads = 1}, 0))
        check(0, "a session on a device: %s", error.message);
    memset(scores, 0, sizeof scores);
    bind("scores", scores, 2, ROWS, 3);
    bind("knob", &knob, 1, 1, 0);
    bind("out", out, 2, ROWS, 3);
}

static void test_routers(void)
{
    begin_router(BS_ROUTE_CALLBACK);
    refused(BS_ERROR_UNBOUND, "route \"r\": its callback is not set (bs_set_route)");
    bs_set_route(session, "r", callback, NULL, NULL);
    answer = -2;
    refused(BS_ERROR_DATA, "route \"r\": row 2: the callback chose -2, expected 0 .. 2");
    answer = 3;
    refused(BS_ERROR_DATA, "route \"r\": row 2: the callback chose 3, expected 0 .. 2");
    answer = 1;
    scores[3][1] = NAN;
    refused(BS_ERROR_DATA, "route \"r\": row 3: score 1 is NaN");
    scores[3][1] = 0;
    knob = NAN;
    refused(BS_ERROR_DATA, "route \"r\": the knob is NaN");
    knob = 0;
    gives = BS_ERROR_IO;
    refused(BS_ERROR_IO, "route \"r\": its callback failed: reading or writing failed");
    gives = (bs_status)-99;
    refused(BS_ERROR_DATA, "route \"r\": its callback returned -99, which is no bs_status");
    gives = BS_OK;
    check(bs_run(session, &error) == BS_OK && out[2][0] == 1, "and runs when all is well %s", error.message);
    end();
    begin_router(BS_ROUTE_TOP1);
    scores[1][2] = NAN; /* found by the device, which keeps the node */
    refused(BS_ERROR_DATA, "route \"r\" (node 4): run-time data is out of range (index, NaN score)");
    end();
}

/* What a device finds wrong with the extents of a run reads as on a CPU. */
static void test_extents(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", ROWS), 3));
    const bs_value i = bs_input(g, "i", BS_I32, BS_SHAPE2(bs_symbol(g, "M", ROWS), 1));
    bs_output(g, "out", bs_gather_elements(g, x, i, 1));
    if (!check(made(g, &(bs_plan_desc){.threads = 1}, 0), "a session %s", error.message))
        return;
    const bs_buffer indices = {scores, BS_I32, 2, {3, 1}, {0}};
    memset(scores, 0, sizeof scores);
    bs_bind(session, "i", &indices, NULL);
    bind("in", large, 2, 2, 3);
    bind("out", out, 2, 3, 1);
    refused(BS_ERROR_SHAPE, "gather_elements \"\" (node 3): operand 0: dimension 0 (N<=4) is 2");
    end();
}

static bs_graph *large_graph(void)
{
    bs_graph *g = new_graph();
    bs_output(g, "out",
              bs_linear(g, bs_input(g, "in", BS_F32, BS_SHAPE2(LARGE, LARGE)),
                        &(bs_linear_desc){.name = "large", .out = LARGE}));
    return g;
}

/* Fails one call after the other of what makes a session, until one says this. */
static void session_says(const char *text)
{
    for (int64_t n = 1; n < 60; n++) {
        forget();
        cuda_cpu_fail(n, 0);
        const bool any = made(large_graph(), &(bs_plan_desc){.threads = 1}, 65536);
        cuda_cpu_fail(0, 0);
        end();
        if (!any && strcmp(error.message, text) == 0) {
            message_is(&error, BS_ERROR_PLATFORM, text);
            return;
        }
    }
    check(0, "some call that fails says: %s", text);
}

static void test_making(void)
{
    session_says("CUDA: making a stream: unknown error");
    session_says("CUDA: making an event: unknown error");
    session_says("cuBLAS: a handle cannot be made");
    session_says("cuBLAS: it does not take its stream or workspace");
    forget();
    check(!made_with(large_graph(), &(bs_plan_desc){.threads = 1}, 65536, 128),
          "a device without room for the workspace");
    message_is(&error, BS_ERROR_ARENA, "arena device: the workspace of cuBLAS needs 65536 bytes, 65472 are free");
    end();
}

/* A linear that is large enough for cuBLAS, and too large for the tiles of a small device. */
static void test_large(void)
{
    bs_graph *g = large_graph();
    if (!check(made(g, &(bs_plan_desc){.launch_mode = BS_LAUNCH_STREAM}, 65536), "a session with cuBLAS %s",
               error.message))
        return;
    bind("in", large, 2, LARGE, LARGE);
    bind("out", product, 2, LARGE, LARGE);
    bool seen = false;
    for (int64_t n = 1; n < 40 && !seen; n++) {
        forget();
        cuda_cpu_fail(n, 0);
        bs_run(session, &error);
        cuda_cpu_fail(0, 0);
        seen = strcmp(error.message, "cuBLAS: linear \"large\" failed") == 0;
    }
    check(seen, "some call that fails is cuBLAS's");
    if (seen)
        message_is(&error, BS_ERROR_PLATFORM, "cuBLAS: linear \"large\" failed");
    end();
    const struct cuda_cpu_device small = {.shared_optin_bytes = 49152};
    g = new_graph();
    const bs_value cells = bs_patches(g, bs_input(g, "x", BS_F32, BS_SHAPE3(8, 64, 64)),
                                      &(bs_patches_desc){.size = 32});
    bs_output(g, "y", bs_assemble(g, bs_affine(g, bs_activation(g, cells, BS_TANH, 0), 2, 1)));
    cuda_cpu_device(&small);
    const bool any = made(g, &(bs_plan_desc){.order = BS_ORDER_DEPTH}, 0);
    char text[200];
    unsigned long long bytes = 0;
    if (!check(!any && sscanf(error.message, "the plan uses %llu", &bytes) == 1,
               "tiles that are too large for a device: %s", error.message))
        end();
    snprintf(text, sizeof text,
             "the plan uses %llu bytes of shared memory, this GPU has 49152: plan with its shared_bytes", bytes);
    message_is(&error, BS_ERROR_UNSUPPORTED, text);
    bs_cuda_close(device);
    cuda_cpu_device(NULL);
}

int main(void)
{
    test_opening();
    test_routers();
    test_extents();
    test_making();
    test_large();
    messages_of("src/cuda/device.cuh");
    messages_of("src/cuda/run.cuh");
    messages_of("src/cuda/state.cuh");
    return check_end();
}

#endif
