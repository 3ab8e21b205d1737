/* cuda_sides.h - one graph (cuda_rig.h), with a session of the CPU and one of a device beside each other: run after
 * run, both end alike, with the same results, decisions and extents. */
#ifndef BS_TEST_CUDA_SIDES_H
#define BS_TEST_CUDA_SIDES_H

#include "cuda_rig.h"
#include "flat_source.h"

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

#define MOST_BYTES 1024 /* copied beside the caller's buffers in a run */

static cuda_rig r;
static flat_source source;
static bool half;  /* of the device's plan */
static bool exact; /* the CPU's very bytes, what lies beyond an extent included */

typedef struct side {
    bs_arena plans, opened;
    bs_memory memory;
    bs_plan *plan;
    bs_device *device;
    bs_session *session;
    void *out[RIG_BUFFERS];
    bs_status status;
    bs_error error;
} side;

static side cpu, gpu;
static uint8_t plan_memory[2][8 << 20], open_memory[4096], host_memory[2][16 << 20];

static bool side_open(side *s, const bs_plan_desc *desc, bs_route_function callback)
{
    const int32_t which = desc->tier == BS_TIER_CUDA;
    bs_sizes sizes;
    memset(s, 0, sizeof *s);
    bs_arena_init(&s->plans, "plan", plan_memory[which], sizeof plan_memory[which]);
    bs_arena_init(&s->opened, "opened", open_memory, sizeof open_memory);
    s->plan = bs_plan_create(&s->plans, NULL, r.graph, desc, &s->error);
    if (!s->plan)
        return false;
    bs_plan_sizes(s->plan, &sizes);
    uint8_t *at = host_memory[which];
    bs_arena_init(&s->memory.persistent, "persistent", at, (size_t)sizes.persistent + 64);
    bs_arena_init(&s->memory.transient, "transient", at += sizes.persistent + 128, (size_t)sizes.transient + 64);
    bs_arena_init(&s->memory.staging, "staging", at += sizes.transient + 128, (size_t)sizes.staging + 64);
    bs_arena_init(&s->memory.slots, "slots", at += sizes.staging + 128, (size_t)sizes.slots + 64);
    bs_session_desc with;
    memset(&with, 0, sizeof with);
    with.weights = bs_weights_from_table(&r.table);
    if (desc->slot_bytes) {
        flat_init(&source, r.graph, &r.table, BS_F32);
        with.weights = flat_weights(&source, 64);
    }
    if (which) {
        const bs_cuda_desc c = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
        s->device = bs_cuda_open(&s->opened, &c, &s->error);
        with.device = s->device;
    }
    s->session = which && !s->device ? NULL : bs_session_create(&s->memory, s->plan, &with, &s->error);
    for (int32_t i = 0; i < r.n_buffers; i++)
        s->out[i] = rig_take((size_t)rig_elements(&r.buffers[i].given) * 4);
    if (s->session && callback)
        bs_set_route(s->session, "r", callback, NULL, NULL);
    return s->session != NULL;
}

static void side_close(side *s)
{
    bs_session_close(s->session);
    bs_cuda_close(s->device);
}

static void side_run(side *s)
{
    for (int32_t i = 0; i < r.n_buffers; i++) {
        bs_buffer b = r.buffers[i].given;
        if (r.buffers[i].output)
            b.data = memset(s->out[i], 0x5A, (size_t)rig_elements(&b) * 4);
        bs_bind(s->session, r.buffers[i].name, &b, &s->error);
    }
    s->status = bs_run(s->session, &s->error);
}

static bool same_outputs(void)
{
    bool same = true;
    for (int32_t i = 0; i < r.n_buffers; i++) {
        int64_t a[BS_MAX_RANK], b[BS_MAX_RANK];
        if (!r.buffers[i].output)
            continue;
        bs_output_extents(cpu.session, r.buffers[i].name, a);
        bs_output_extents(gpu.session, r.buffers[i].name, b);
        const bs_buffer *of = &r.buffers[i].given;
        const double distance = exact ? memcmp(gpu.out[i], cpu.out[i], (size_t)rig_elements(of) * 4)
                                      : rig_distance(of, gpu.out[i], cpu.out[i]);
        if (memcmp(a, b, sizeof a) == 0 && (exact ? distance == 0 : distance <= 1e-5))
            continue;
        printf("  \"%s\": %lld rows, on the device %lld; distance %.2g\n", r.buffers[i].name, (long long)a[0],
               (long long)b[0], distance);
        same = false;
    }
    return same;
}

static bool same_decision(void)
{
    bs_decision a, b;
    if (bs_decision_get(cpu.session, "r", &a) != BS_OK)
        return true;
    bs_decision_get(gpu.session, "r", &b);
    return a.cells == b.cells && memcmp(a.counts, b.counts, (size_t)a.paths * sizeof *a.counts) == 0 &&
           memcmp(a.chosen, b.chosen, (size_t)a.cells * sizeof *a.chosen) == 0;
}

/* One run of each side: the same, whatever becomes of it. */
static bool agree(void)
{
    side_run(&cpu);
    side_run(&gpu);
    if (cpu.status == gpu.status && (cpu.status != BS_OK || (same_outputs() && same_decision())))
        return true;
    printf("  CPU %s (%s), device %s (%s)\n", bs_status_name(cpu.status), cpu.error.message,
           bs_status_name(gpu.status), gpu.error.message);
    return false;
}

static void begin(bs_launch_mode mode, bs_order order, uint64_t slot_bytes, bs_route_function callback)
{
    bs_plan_desc desc = {.tier = BS_TIER_SCALAR, .order = (int32_t)order, .conv = BS_CONV_FORCE_REFERENCE};
    rig_make_weights(&r);
    rig_make_buffers(&r);
    const bool here = side_open(&cpu, &desc, callback);
    desc.tier = BS_TIER_CUDA;
    desc.launch_mode = (int32_t)mode;
    desc.half = half;
    desc.slot_bytes = slot_bytes;
    check(side_open(&gpu, &desc, callback) && here, "two sessions: %s%s", cpu.error.message, gpu.error.message);
}

static void end(void)
{
    side_close(&gpu);
    side_close(&cpu);
}

static inline int64_t bound_bytes(void)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < r.n_buffers; i++)
        bytes += rig_elements(&r.buffers[i].given) * 4;
    return bytes;
}

#endif
