/* cuda_rig.h - one graph, run on the CPU and on the device: outputs, states and decisions must agree.
 *
 * Weights and inputs are made up from their names unless the test gives its own. What runs on the device is what a
 * program would run: bs_cuda_open with exactly the bytes that the plan asked for.
 *
 *     cuda_rig r;
 *     bs_graph *g = rig_begin(&r, "conv 3x3");        // a name for failures
 *     ... bs_input(g, "x", ...), ops, bs_output(g, "y", ...) ...
 *     rig_agree(&r, NULL);                            // one CHECK for each output and decision, f32
 *     rig_agree(&r, &(rig_how){.half = 1, .order = BS_ORDER_DEPTH, .runs = 3});
 */
#ifndef BS_TEST_CUDA_RIG_H
#define BS_TEST_CUDA_RIG_H

#include "check.h"
#include "run/session.h"

#include <stdlib.h>

#define RIG_BUFFERS 64
#define RIG_TENSORS 256

typedef struct rig_buffer {
    const char *name;
    int32_t node;
    bool output;
    bs_buffer given; /* data NULL: made up */
    int64_t dim[BS_MAX_RANK]; /* of this run; 0: the maximum */
} rig_buffer;

typedef struct cuda_rig {
    const char *name;
    bs_arena arena;
    bs_graph *graph;
    int32_t n_buffers, n_tensors;
    rig_buffer buffers[RIG_BUFFERS];
    bs_tensor tensors[RIG_TENSORS];
    bs_tensor_table table;
    uint64_t seed;
    double worst; /* of the last rig_agree: largest max|a-b| / max|ref| of an output */
} cuda_rig;

typedef struct rig_how {
    int32_t half, order, patch_size, shared_bytes, runs;
    double tolerance;  /* 0: 1e-5, half 2e-3 */
    bool exact;        /* the CPU's very numbers */
    int32_t conv;      /* of the CPU: bs_conv_choice; 0: the plain reference */
    int32_t device_conv; /* of the device */
    uint64_t slot_bytes; /* both stream */
    int32_t at_end;    /* from 1: that buffer lies where the device reads it, and ends where pinned memory does */
    int32_t differ;    /* cells whose decision may differ (exits on near ties) */
    bs_route_function callback; /* of every router that asks */
    bs_status fails;   /* both are expected to fail with this */
    int32_t n_forces;
    bs_force forces[4];
} rig_how;

static uint8_t rig_arena[48 << 20];
static size_t rig_heap_used;
static _Alignas(64) uint8_t rig_heap[320 << 20];

static inline void *rig_take(size_t bytes)
{
    uint8_t *at = rig_heap + rig_heap_used;
    rig_heap_used += (bytes + 63) & ~(size_t)63;
    if (rig_heap_used > sizeof rig_heap) {
        printf("FAIL the rig's memory is too small\n");
        exit(1);
    }
    return at;
}

static inline bs_graph *rig_begin(cuda_rig *r, const char *name)
{
    memset(r, 0, sizeof *r);
    rig_heap_used = 0;
    r->name = name;
    r->seed = 88172645463325252u;
    bs_arena_init(&r->arena, "rig", rig_arena, sizeof rig_arena);
    r->graph = bs_graph_create(&r->arena, NULL);
    return r->graph;
}

static inline uint32_t rig_random(cuda_rig *r)
{
    r->seed ^= r->seed << 13;
    r->seed ^= r->seed >> 7;
    r->seed ^= r->seed << 17;
    return (uint32_t)(r->seed >> 32);
}

static inline float rig_uniform(cuda_rig *r) { return (float)(rig_random(r) >> 8) / 8388608.0f - 1.0f; }

/* The extents of an input in this run. */
static inline void rig_extent(cuda_rig *r, const char *input, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    rig_buffer *b = &r->buffers[r->n_buffers++];
    const int64_t dim[BS_MAX_RANK] = {d0, d1, d2, d3};
    b->name = input;
    memcpy(b->dim, dim, sizeof dim);
}

/* The test's own data for an input, dense, of the extents given or the maxima. */
static inline void rig_give(cuda_rig *r, const char *input, const void *data)
{
    rig_buffer *b = NULL;
    for (int32_t i = 0; i < r->n_buffers; i++)
        if (strcmp(r->buffers[i].name, input) == 0)
            b = &r->buffers[i];
    if (!b) {
        b = &r->buffers[r->n_buffers++];
        b->name = input;
    }
    b->given.data = (void *)(uintptr_t)data;
}

/* A weight tensor of the test's own. */
static inline void rig_weight(cuda_rig *r, const char *name, bs_dtype dtype, int32_t rank, const int64_t *dim,
                              const void *data)
{
    bs_tensor *t = &r->tensors[r->n_tensors++];
    t->name = name;
    t->dtype = dtype;
    t->rank = rank;
    memcpy(t->dim, dim, (size_t)rank * sizeof *dim);
    t->data = data;
}

/* ----------------------------------------------------------------------------------------------- making up */

static inline void rig_fill(cuda_rig *r, void *data, bs_dtype dtype, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++)
        switch (dtype) {
        case BS_F32: ((float *)data)[i] = scale * rig_uniform(r); break;
        case BS_I32: ((int32_t *)data)[i] = (int32_t)(rig_random(r) % 7); break;
        case BS_U8:
        case BS_I8: ((uint8_t *)data)[i] = (uint8_t)rig_random(r); break;
        case BS_U16: ((uint16_t *)data)[i] = (uint16_t)(rig_random(r) & 1023); break;
        default: ((uint16_t *)data)[i] = bs_f32_to_f16(rig_uniform(r)); break;
        }
}

/* Weights that no test gave: small, variances positive, i32 tables within the paths of their router. */
static inline void rig_make_weights(cuda_rig *r)
{
    for (int32_t n = 1; n < r->graph->n_nodes; n++) {
        const bs_node *node = &r->graph->nodes[n];
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        const int32_t count = bs_node_weights(r->graph, node, specs);
        for (int32_t k = 0; k < count; k++) {
            char name[2 * BS_MAX_NAME];
            bool known = false;
            snprintf(name, sizeof name, "%s%s%s", bs_node_name(node), *specs[k].suffix ? "." : "", specs[k].suffix);
            for (int32_t i = 0; i < r->n_tensors; i++)
                known = known || strcmp(r->tensors[i].name, name) == 0;
            if (known || r->n_tensors == RIG_TENSORS)
                continue;
            const int64_t elements = (int64_t)bs_bytes_figure(bs_weight_elements(&specs[k]));
            uint8_t *data = rig_take((size_t)elements * bs_dtype_bytes(specs[k].dtype));
            char *copy = rig_take(strlen(name) + 1);
            memcpy(copy, name, strlen(name) + 1);
            int64_t fan = elements;
            if (specs[k].rank > 1)
                fan = elements / specs[k].dim[0];
            rig_fill(r, data, specs[k].dtype, elements, specs[k].rank > 1 ? 1.7f / sqrtf((float)fan) : 0.5f);
            for (int64_t i = 0; i < elements && strstr(name, ".var"); i++)
                ((float *)(void *)data)[i] = 0.5f + fabsf(((float *)(void *)data)[i]);
            for (int64_t i = 0; i < elements && specs[k].dtype == BS_I32 && node->router; i++)
                ((int32_t *)(void *)data)[i] %= r->graph->routers[node->router].desc->paths;
            rig_weight(r, copy, specs[k].dtype, specs[k].rank, specs[k].dim, data);
        }
    }
    r->table.tensors = r->tensors;
    r->table.count = r->n_tensors;
}

/* Buffers of all inputs and outputs; symbols of inputs whose extents were given bind the dimensions that are
 * derived. */
static inline int64_t rig_dim(const cuda_rig *r, bs_dim_id d, const int64_t *now)
{
    const bs_dim_info *info = &r->graph->dims[d];
    if (info->kind == BS_DIM_DERIVED)
        return bs_floor_div(rig_dim(r, info->parent, now) * info->mul + info->add, info->div);
    return now[d] ? now[d] : info->maximum;
}

static inline rig_buffer *rig_buffer_of(cuda_rig *r, const char *name)
{
    for (int32_t i = 0; i < r->n_buffers; i++)
        if (strcmp(r->buffers[i].name, name) == 0)
            return &r->buffers[i];
    r->buffers[r->n_buffers].name = name;
    return &r->buffers[r->n_buffers++];
}

static inline void rig_make_buffers(cuda_rig *r)
{
    static int64_t now[TEST_DIMS];
    memset(now, 0, sizeof now);
    for (int32_t n = 1; n < r->graph->n_nodes; n++) {
        const bs_node *node = &r->graph->nodes[n];
        if (!bs_node_is(node, &bs_op_input))
            continue;
        rig_buffer *b = rig_buffer_of(r, bs_node_name(node));
        for (int32_t i = 0; i < r->graph->values[node->first_out].rank; i++)
            if (b->dim[i] && r->graph->dims[r->graph->values[node->first_out].dims[i]].kind == BS_DIM_SYMBOL)
                now[r->graph->values[node->first_out].dims[i]] = b->dim[i];
    }
    for (int32_t n = 1; n < r->graph->n_nodes; n++) {
        const bs_node *node = &r->graph->nodes[n];
        const bool output = bs_node_is(node, &bs_op_output);
        if (!output && !bs_node_is(node, &bs_op_input))
            continue;
        const bs_value_info *v = &r->graph->values[output ? bs_node_in(r->graph, node)[0] : node->first_out];
        rig_buffer *b = rig_buffer_of(r, bs_node_name(node));
        int64_t elements = 1;
        b->node = n;
        b->output = output;
        b->given.dtype = v->dtype;
        b->given.rank = v->rank;
        for (int32_t i = 0; i < v->rank; i++)
            elements *= b->given.dim[i] = rig_dim(r, v->dims[i], now);
        if (b->given.data)
            continue;
        b->given.data = rig_take((size_t)(elements ? elements : 1) * bs_dtype_bytes(v->dtype));
        if (!output)
            rig_fill(r, b->given.data, v->dtype, elements, 1.0f);
    }
}

/* --------------------------------------------------------------------------------------------------- running */

static inline int64_t rig_elements(const bs_buffer *b)
{
    int64_t n = 1;
    for (int32_t i = 0; i < b->rank; i++)
        n *= b->dim[i];
    return n;
}

/* What a run left behind. */
typedef struct rig_result {
    bs_status status;
    bs_error error;
    void *out[RIG_BUFFERS];
    int32_t counts[TEST_ROUTERS][TEST_PATHS];
    int16_t *chosen[TEST_ROUTERS];
    int32_t cells[TEST_ROUTERS];
    int64_t dropped[TEST_ROUTERS];
} rig_result;

static inline void rig_keep(cuda_rig *r, bs_session *session, rig_result *to)
{
    for (int32_t k = 1; k < r->graph->n_routers; k++) {
        bs_decision d;
        if (bs_decision_get(session, r->graph->routers[k].desc->name, &d) != BS_OK)
            continue;
        memcpy(to->counts[k], d.counts, (size_t)d.paths * sizeof *d.counts);
        to->cells[k] = d.cells;
        to->dropped[k] = d.dropped;
        to->chosen[k] = rig_take(((size_t)d.cells + 1) * sizeof *d.chosen);
        memcpy(to->chosen[k], d.chosen, (size_t)d.cells * sizeof *d.chosen);
    }
}

/* Arenas of the planned bytes, one behind the other, with room to align them. */
static inline bs_memory rig_memory(const cuda_rig *r, const bs_sizes *sizes)
{
    static uint8_t host[96 << 20];
    const uint64_t needed = sizes->persistent + sizes->transient + sizes->staging + sizes->slots + 4 * BS_PAGE_BYTES;
    if (needed > sizeof host) {
        printf("FAIL \"%s\" needs %llu bytes\n", r->name, (unsigned long long)needed);
        exit(1);
    }
    bs_memory memory;
    uint8_t *at = host;
    bs_arena_init(&memory.persistent, "persistent", at, (size_t)sizes->persistent + 64);
    bs_arena_init(&memory.transient, "transient", at += (sizes->persistent + 127) & ~63u,
                  (size_t)sizes->transient + 64);
    bs_arena_init(&memory.staging, "staging", at += (sizes->transient + 127) & ~63u, (size_t)sizes->staging + 64);
    bs_arena_init(&memory.slots, "slots", at += (sizes->staging + 127) & ~63u, (size_t)sizes->slots + 64);
    return memory;
}

static inline size_t rig_bytes(const bs_buffer *b) { return (size_t)rig_elements(b) * bs_dtype_bytes(b->dtype); }

/* All buffers; number `last`, if there is one, lies in front of `end`. */
static inline bs_status rig_bind(const cuda_rig *r, bs_session *session, int32_t last, uint8_t *end, rig_result *to)
{
    bs_status status = BS_OK;
    for (int32_t i = 0; i < r->n_buffers && status == BS_OK; i++) {
        bs_buffer b = r->buffers[i].given;
        const size_t bytes = rig_bytes(&b);
        if (r->buffers[i].output)
            to->out[i] = b.data = memset(rig_take(bytes), 0x77, bytes);
        if (i == last)
            b.data = memcpy(end - bytes, b.data, bytes);
        status = bs_bind(session, r->buffers[i].name, &b, &to->error);
    }
    return status;
}

/* Runs with a plan of `desc`; `how->runs` times, states carried on. */
static inline void rig_once(cuda_rig *r, const bs_plan_desc *desc, const rig_how *how, rig_result *to)
{
    static uint8_t plan_memory[24 << 20], open_memory[4096];
    bs_arena plans, opened;
    bs_sizes sizes;
    bs_device *device = NULL;
    memset(to, 0, sizeof *to);
    bs_arena_init(&plans, "plan", plan_memory, sizeof plan_memory);
    bs_arena_init(&opened, "opened", open_memory, sizeof open_memory);
    bs_plan *plan = bs_plan_create(&plans, NULL, r->graph, desc, &to->error);
    if (!plan) {
        to->status = to->error.status;
        return;
    }
    bs_plan_sizes(plan, &sizes);
    bs_memory memory = rig_memory(r, &sizes);
    bs_session_desc with;
    memset(&with, 0, sizeof with);
    with.weights = bs_weights_from_table(&r->table);
    const int32_t last = desc->tier == BS_TIER_CUDA && how->at_end ? (how->at_end - 1) % r->n_buffers : -1;
    const size_t spare = last < 0 ? 0 : rig_bytes(&r->buffers[last].given);
    if (desc->tier == BS_TIER_CUDA) {
        const bs_cuda_desc c = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned + spare};
        device = bs_cuda_open(&opened, &c, &to->error);
        with.device = device;
    }
    uint8_t *end = device ? device->pinned.base + device->pinned.size : NULL;
    bs_session *session = desc->tier != BS_TIER_CUDA || device ? bs_session_create(&memory, plan, &with, &to->error)
                                                               : NULL;
    to->status = session ? BS_OK : to->error.status;
    if (session)
        to->status = rig_bind(r, session, last, end, to);
    for (int32_t k = 1; session && how->callback && k < r->graph->n_routers; k++)
        bs_set_route(session, r->graph->routers[k].desc->name, how->callback, r, NULL);
    for (int32_t i = 0; session && to->status == BS_OK && i < (how->runs ? how->runs : 1); i++)
        to->status = bs_run(session, &to->error);
    if (session)
        rig_keep(r, session, to);
    if (last >= 0 && to->out[last]) /* only if there is a session */
        memcpy(to->out[last], end - spare, spare);
    bs_session_close(session);
    bs_cuda_close(device);
}

/* ------------------------------------------------------------------------------------------------- comparing */

static inline double rig_value(const bs_buffer *b, const void *data, int64_t i)
{
    return b->dtype == BS_I32   ? (double)((const int32_t *)data)[i]
           : b->dtype == BS_U8  ? (double)((const uint8_t *)data)[i]
           : b->dtype == BS_I8  ? (double)((const int8_t *)data)[i]
           : b->dtype == BS_U16 ? (double)((const uint16_t *)data)[i]
                                : (double)bs_load_f32(data, b->dtype, i);
}

/* max|a-b| / max|ref|; a NaN on one side only is infinite. */
static inline double rig_distance(const bs_buffer *b, const void *x, const void *reference)
{
    double most = 0, scale = 0;
    for (int64_t i = 0; i < rig_elements(b); i++) {
        const double p = rig_value(b, x, i), q = rig_value(b, reference, i);
        if (isnan(p) != isnan(q))
            return INFINITY;
        if (isnan(p) || p == q)
            continue;
        most = fabs(p - q) > most ? fabs(p - q) : most;
        scale = fabs(q) > scale ? fabs(q) : scale;
    }
    for (int64_t i = 0; i < rig_elements(b); i++)
        if (fabs(rig_value(b, reference, i)) > scale)
            scale = fabs(rig_value(b, reference, i));
    return most == 0 ? 0 : scale == 0 ? INFINITY : most / scale;
}

static inline bool rig_same_decisions(cuda_rig *r, const rig_result *cpu, const rig_result *gpu, int32_t differ)
{
    int32_t different = 0;
    for (int32_t k = 1; k < r->graph->n_routers; k++) {
        if (cpu->cells[k] != gpu->cells[k] || cpu->dropped[k] != gpu->dropped[k])
            return false;
        for (int32_t i = 0; i < cpu->cells[k]; i++)
            different += cpu->chosen[k][i] != gpu->chosen[k][i];
        if (differ == 0 && memcmp(cpu->counts[k], gpu->counts[k], sizeof cpu->counts[k]) != 0)
            return false;
    }
    return different <= differ;
}

/* Every output within its tolerance: exact where it is whole numbers that are not kept in f16. */
static inline bool rig_same_outputs(cuda_rig *r, const rig_how *how, const rig_result *cpu, const rig_result *gpu)
{
    const double tolerance = how->exact ? 0 : how->tolerance > 0 ? how->tolerance : how->half ? 2e-3 : 1e-5;
    bool all = true;
    for (int32_t i = 0; i < r->n_buffers; i++) {
        const bs_buffer *b = &r->buffers[i].given;
        if (!r->buffers[i].output)
            continue;
        const double distance = rig_distance(b, gpu->out[i], cpu->out[i]);
        const bool whole = b->dtype != BS_F32 && b->dtype != BS_F16 && b->dtype != BS_BF16;
        const bool ok = whole && !how->half ? distance == 0 : distance <= tolerance;
        r->worst = distance > r->worst ? distance : r->worst;
        all = all && ok;
        ok ? check_passed++ : check_failed++;
        if (!ok)
            printf("FAIL \"%s\", output \"%s\": distance %.3g (half %d, order %d)\n", r->name, r->buffers[i].name,
                   distance, how->half, how->order);
    }
    return all;
}

/* The CPU's scalar reference against the device. how may be NULL. */
static inline bool rig_agree(cuda_rig *r, const rig_how *how)
{
    static rig_result cpu, gpu;
    const rig_how plain = {0};
    how = how ? how : &plain;
    bs_plan_desc d;
    memset(&d, 0, sizeof d);
    if (bs_graph_check(r->graph, &cpu.error) != BS_OK) {
        check_failed++;
        printf("FAIL \"%s\": %s\n", r->name, cpu.error.message);
        return false;
    }
    rig_make_weights(r);
    rig_make_buffers(r);
    d.tier = BS_TIER_SCALAR;
    d.conv = how->conv ? how->conv : BS_CONV_FORCE_REFERENCE;
    d.patch_size = how->patch_size;
    d.slot_bytes = how->slot_bytes;
    d.n_forces = how->n_forces;
    memcpy(d.forces, how->forces, sizeof how->forces);
    rig_once(r, &d, how, &cpu);
    d.tier = BS_TIER_CUDA;
    d.conv = how->device_conv;
    d.order = how->order;
    d.half = how->half;
    d.shared_bytes = how->shared_bytes;
    rig_once(r, &d, how, &gpu);
    r->worst = 0;
    if (cpu.status != how->fails || gpu.status != how->fails) {
        check_failed++;
        printf("FAIL \"%s\": CPU %s (%s), device %s (%s)\n", r->name, bs_status_name(cpu.status), cpu.error.message,
               bs_status_name(gpu.status), gpu.error.message);
        return false;
    }
    if (how->fails != BS_OK) {
        check_passed++;
        return true;
    }
    const bool decided = rig_same_decisions(r, &cpu, &gpu, how->differ);
    if (!decided)
        printf("FAIL \"%s\": decisions differ\n", r->name);
    decided ? check_passed++ : check_failed++;
    return rig_same_outputs(r, how, &cpu, &gpu) && decided;
}

#endif
