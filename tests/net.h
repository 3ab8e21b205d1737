/* net.h - a network in a test: arenas, random weights made on demand, one run from graph to output. */
#ifndef BS_TEST_NET_H
#define BS_TEST_NET_H

#include "brainstorm.h"
#include "check.h"

CHECK_WRAPS static inline uint64_t net_hash(const char *text)
{
    uint64_t h = 1469598103934665603u;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 1099511628211u;
    return h;
}

/* What the op asked for is not known to a source: the test registers shapes by name prefix through this table. */
#ifndef NET_TENSORS
#define NET_TENSORS 64
#endif
typedef struct net_table {
    bs_tensor tensors[NET_TENSORS];
    bs_tensor_table table;
    float *next;
    float pool[1 << 18];
} net_table;

CHECK_WRAPS static inline void net_add(net_table *t, const char *name, int32_t rank, const int64_t *dim, float scale)
{
    bs_tensor *w = &t->tensors[t->table.count++];
    int64_t n = 1;
    if (!t->next)
        t->next = t->pool;
    w->name = name;
    w->dtype = BS_F32;
    w->rank = rank;
    for (int32_t i = 0; i < rank; i++) {
        w->dim[i] = dim[i];
        n *= dim[i];
    }
    uint64_t state = net_hash(name) | 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        t->next[i] = scale * ((float)(state >> 40) / 8388608.0f - 1.0f);
    }
    w->data = t->next;
    t->next += n;
    t->table.tensors = t->tensors;
}

/* -1, 0 or 1: with whole numbers for inputs, sums are exact in f32 whatever their order. */
static inline void net_add_whole(net_table *t, const char *name, int32_t rank, const int64_t *dim)
{
    net_add(t, name, rank, dim, 1.5f);
    for (float *w = (float *)(uintptr_t)t->tensors[t->table.count - 1].data; w < t->next; w++)
        *w = (float)(int32_t)*w;
}

static inline void net_add_ints(net_table *t, const char *name, int32_t count, const int32_t *values)
{
    bs_tensor *w = &t->tensors[t->table.count++];
    w->name = name;
    w->dtype = BS_I32;
    w->rank = 1;
    w->dim[0] = count;
    w->data = values;
    t->table.tensors = t->tensors;
}

static inline void net_conv(net_table *t, const char *weight, const char *bias, int64_t out, int64_t in, int64_t k)
{
    const int64_t dim[4] = {out, in, k, k};
    net_add(t, weight, 4, dim, 1.0f / (float)(in * k));
    net_add(t, bias, 1, dim, 0.1f);
}

typedef struct net {
    bs_memory memory;
    bs_graph *graph;
    bs_plan *plan;
    bs_session *session;
    bs_error error;
} net;

/* One arena each, reused by every net of the program that is open one at a time. */
static uint8_t net_persistent[64 << 20], net_transient[256 << 20], net_staging[4 << 20];

static inline bs_graph *net_begin(net *n)
{
    memset(n, 0, sizeof *n);
    bs_arena_init(&n->memory.persistent, "persistent", net_persistent, sizeof net_persistent);
    bs_arena_init(&n->memory.transient, "transient", net_transient, sizeof net_transient);
    bs_arena_init(&n->memory.staging, "staging", net_staging, sizeof net_staging);
    bs_arena_init(&n->memory.slots, "slots", NULL, 0);
    n->graph = bs_graph_create(&n->memory.persistent, NULL);
    return n->graph;
}

#ifdef BS_TEST_ON_DEVICE
/* One for each net, which is open one at a time; the last one's is closed for it. */
static inline bs_device *net_device(const bs_plan *plan, bs_error *error)
{
    static BS_ALIGNED uint8_t memory[1024];
    static bs_device *open;
    bs_arena arena;
    bs_sizes sizes;
    bs_plan_sizes(plan, &sizes);
    const bs_cuda_desc desc = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    bs_cuda_close(open);
    bs_arena_init(&arena, "device", memory, sizeof memory);
    open = bs_cuda_open(&arena, &desc, error);
    return open;
}
#endif

static inline int net_start(net *n, const bs_plan_desc *desc, const bs_weights *weights)
{
    bs_session_desc s;
    memset(&s, 0, sizeof s);
    if (weights)
        s.weights = *weights;
#ifdef BS_TEST_ON_DEVICE
    bs_plan_desc there = *desc;
    there.tier = BS_TIER_CUDA;
    desc = &there;
#endif
    n->plan = bs_plan_create(&n->memory.persistent, NULL, n->graph, desc, &n->error);
#ifdef BS_TEST_ON_DEVICE
    s.device = n->plan ? net_device(n->plan, &n->error) : NULL;
#endif
    n->session = n->plan ? bs_session_create(&n->memory, n->plan, &s, &n->error) : NULL;
    return n->session != NULL;
}

#endif
