/* cuda_net_rig.h - a routed net on a device, step by step: planned, opened, started, bound. One at a time: its memory
 * is static.
 *
 *     net n;
 *     net_make(&n, 3, &on_cuda, 0);    // three branches; n.error says why not. Or net_plan, _open, _start, _bind.
 *     net_input(net_in, 7);            // then bs_run(n.session, ...): net_out, net_before
 *     net_close(&n);
 */
#ifndef BS_TEST_CUDA_NET_RIG_H
#define BS_TEST_CUDA_NET_RIG_H

#include "cuda_rig.h"

#define NET_SIZE 32

typedef struct net {
    bs_graph *graph;
    bs_plan *plan;
    bs_memory memory;
    bs_sizes sizes;
    bs_device *device;
    bs_session *session;
    void *stream; /* the caller's, or NULL */
    bs_error error;
    cuda_rig rig;
} net;

static inline bs_value net_branch(bs_graph *g, bs_value x, void *user)
{
    static const char *const names[] = {"a", "b"};
    for (int32_t i = 0; i < *(const int32_t *)user; i++)
        x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = names[i], .out = 4, .act = BS_RELU});
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = "last", .out = 1});
}

/* A frame in patches, `paths` branches of convolutions, a state that keeps the frame before. */
static inline bs_graph *net_graph(net *n, int32_t paths)
{
    static int32_t deep = 2;
    bs_graph *g = rig_begin(&n->rig, "routed net");
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(1, BS_UPTO(NET_SIZE), BS_UPTO(NET_SIZE)));
    const bs_value old = bs_state(g, "old", BS_F32, bs_shape_of(3, 1, NET_SIZE, NET_SIZE, 0));
    const bs_value cells = bs_patches(g, x, &(bs_patches_desc){.size = 8});
    const bs_value pooled = bs_pool2d(g, cells, &(bs_pool2d_desc){.kind = BS_POOL_AVERAGE, .global = 1});
    const bs_value score = bs_linear(g, pooled, &(bs_linear_desc){.name = "score", .out = paths});
    const bs_route_desc top1 = {.name = "route", .protocol = BS_ROUTE_TOP1, .paths = paths};
    const bs_router route = bs_route(g, score, (bs_value){0}, &top1);
    bs_value out[TEST_PATHS];
    char name[16];
    for (int32_t p = 0; p < paths; p++) {
        snprintf(name, sizeof name, "net%d", p);
        out[p] = bs_branch(g, route, p, name, cells, net_branch, &deep);
    }
    const bs_value frame = bs_assemble(g, bs_gather(g, route, out, (bs_value){0}, NULL));
    bs_output(g, "y", frame);
    bs_output(g, "before", old);
    bs_state_write(g, old, bs_activation(g, old, BS_TANH, 0));
    return g;
}

static uint8_t host_memory[4][8 << 20], opened_memory[1024], plan_memory[8 << 20];

static inline bool net_plan(net *n, bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena plans;
    n->graph = g;
    bs_arena_init(&plans, "plan", plan_memory, sizeof plan_memory);
    n->plan = bs_plan_create(&plans, NULL, g, desc, &n->error);
    if (!n->plan)
        return false;
    bs_plan_sizes(n->plan, &n->sizes);
    bs_arena_init(&n->memory.persistent, "persistent", host_memory[0], sizeof host_memory[0]);
    bs_arena_init(&n->memory.transient, "transient", host_memory[1], 0);
    bs_arena_init(&n->memory.staging, "staging", host_memory[2], sizeof host_memory[2]);
    bs_arena_init(&n->memory.slots, "slots", host_memory[3], 0);
    return true;
}

/* extra: bytes of the device's arenas beyond what the plan needs, for buffers of the test. */
static inline bool net_open(net *n, int64_t extra_device, int64_t extra_pinned)
{
    bs_arena opened;
    const bs_cuda_desc c = {.device_bytes = n->sizes.device + (uint64_t)extra_device,
                            .pinned_bytes = n->sizes.pinned + (uint64_t)extra_pinned};
    bs_arena_init(&opened, "opened", opened_memory, sizeof opened_memory);
    n->device = bs_cuda_open(&opened, &c, &n->error);
    return n->device != NULL;
}

static inline bool net_start(net *n)
{
    rig_make_weights(&n->rig);
    bs_session_desc with = {
        .weights = bs_weights_from_table(&n->rig.table), .device = n->device, .cuda_stream = n->stream};
    n->session = bs_session_create(&n->memory, n->plan, &with, &n->error);
    return n->session != NULL;
}

static inline void net_close(net *n)
{
    bs_session_close(n->session);
    bs_cuda_close(n->device);
    n->session = NULL;
    n->device = NULL;
}

static float net_in[NET_SIZE * NET_SIZE], net_out[NET_SIZE * NET_SIZE], net_before[NET_SIZE * NET_SIZE];

static inline bs_status net_bind(net *n, float *in, float *out, float *before, int64_t h, int64_t w)
{
    const bs_buffer x = {in, BS_F32, 3, {1, h, w}, {0}}, y = {out, BS_F32, 3, {1, h, w}, {0}};
    const bs_buffer b = {before, BS_F32, 3, {1, NET_SIZE, NET_SIZE}, {0}};
    bs_status status = bs_bind(n->session, "x", &x, &n->error);
    status = status == BS_OK ? bs_bind(n->session, "y", &y, &n->error) : status;
    return status == BS_OK ? bs_bind(n->session, "before", &b, &n->error) : status;
}

static inline void net_input(float *to, uint64_t seed)
{
    cuda_rig r = {.seed = seed * 7919 + 1};
    for (int32_t i = 0; i < NET_SIZE * NET_SIZE; i++)
        to[i] = rig_uniform(&r);
}

static const bs_plan_desc on_cuda = {.tier = BS_TIER_CUDA};

/* A net that is ready to run, with host buffers. */
static inline bool net_make(net *n, int32_t paths, const bs_plan_desc *desc, int64_t extra_pinned)
{
    memset(n, 0, sizeof *n);
    return net_plan(n, net_graph(n, paths), desc) && net_open(n, 0, extra_pinned) && net_start(n) &&
           net_bind(n, net_in, net_out, net_before, NET_SIZE, NET_SIZE) == BS_OK;
}

#endif
