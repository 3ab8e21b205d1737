/* cuda_arm.c: see cuda_arm.h. */
#include "cuda_arm.h"
#include "peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPENED_BYTES = 4096 };

static bool refuse(bs_error *error, bs_status status, const char *message)
{
    error->status = status;
    snprintf(error->message, sizeof error->message, "%s", message);
    return false;
}

/* ----------------------------------------------------------------------------------------------------- a session */

static bool plan_make(cuda_part *part, const bs_plan_desc *desc, bs_error *error)
{
    const cuda_net *net = part->net;
    bs_plan_desc d = *desc;
    bs_arena plans;
    d.n_forces = net->n_forces;
    memcpy(d.forces, net->forces, sizeof net->forces);
    d.patch_size = net->patch_size;
    if (d.tier == BS_TIER_CUDA && !d.shared_bytes) {
        bs_cuda_facts facts;
        if (bs_cuda_facts_get(0, &facts, error) != BS_OK)
            return false;
        d.shared_bytes = facts.shared_bytes;
    }
    const size_t bytes = bs_plan_bytes(net->graph, &d) + 2 * BS_ALIGNMENT;
    part->plan_memory = malloc(bytes + OPENED_BYTES);
    bs_arena_init(&plans, "plan", part->plan_memory, part->plan_memory ? bytes + OPENED_BYTES : 0);
    part->plan = bs_plan_create(&plans, NULL, net->graph, &d, error);
    if (!part->plan)
        return false;
    bs_plan_sizes(part->plan, &part->sizes);
    return true;
}

static bool memory_make(cuda_part *part, bs_error *error)
{
    const uint64_t bytes[4] = {part->sizes.persistent + OPENED_BYTES, part->sizes.transient, part->sizes.staging,
                               part->sizes.slots};
    bs_arena *const arenas[4] = {&part->memory.persistent, &part->memory.transient, &part->memory.staging,
                                 &part->memory.slots};
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    for (int32_t i = 0; i < 4; i++) {
        part->blocks[i] = malloc((size_t)bytes[i] + BS_ALIGNMENT);
        if (!part->blocks[i])
            return refuse(error, BS_ERROR_ARENA, "not enough memory");
        bs_arena_init(arenas[i], names[i], part->blocks[i], (size_t)bytes[i] + BS_ALIGNMENT);
    }
    return true;
}

static size_t bytes_of(const bs_buffer *buffer)
{
    return (size_t)cuda_net_elements(buffer) * bs_dtype_bytes(buffer->dtype);
}

/* Binds buffers of the part's own, the inputs' data in them; on a CPU the network's own. */
static bool bind_all(cuda_part *part, bool gpu, bs_error *error)
{
    const cuda_net *net = part->net;
    for (int32_t i = 0; i < net->n_inputs; i++) {
        bs_buffer b = net->inputs[i];
        if (gpu) {
            b.data = part->inputs[i] = bench_take(bytes_of(&b), part->where);
            if (!b.data || !bench_copy(b.data, net->inputs[i].data, bytes_of(&b)))
                return refuse(error, BS_ERROR_ARENA, "no memory on the GPU for inputs");
        }
        if (bs_bind(part->session, net->input_names[i], &b, error) != BS_OK)
            return false;
    }
    bs_buffer out = net->output;
    out.data = part->output = bench_take(bytes_of(&out), part->where);
    if (!out.data)
        return refuse(error, BS_ERROR_ARENA, "no memory on the GPU for the output");
    return bs_bind(part->session, net->output_name, &out, error) == BS_OK;
}

bool cuda_part_open(cuda_part *part, const cuda_net *net, const bs_plan_desc *desc, bench_where where, void *stream,
                    bs_error *error)
{
    memset(part, 0, sizeof *part);
    part->net = net;
    part->where = desc->tier == BS_TIER_CUDA ? where : BENCH_HOST;
    if (!plan_make(part, desc, error) || !memory_make(part, error))
        return false;
    if (desc->tier == BS_TIER_CUDA) {
        const bs_cuda_desc c = {.device_bytes = part->sizes.device, .pinned_bytes = part->sizes.pinned};
        part->device = bs_cuda_open(&part->memory.persistent, &c, error);
        if (!part->device)
            return false;
    }
    const bs_session_desc with = {.weights = cuda_net_weights(net), .device = part->device, .cuda_stream = stream};
    part->session = bs_session_create(&part->memory, part->plan, &with, error);
    return part->session && bind_all(part, part->device != NULL, error);
}

bool cuda_part_run(cuda_part *part, bs_error *error)
{
    if (part->net->keeps_state)
        bs_reset_state(part->session);
    return bs_run(part->session, error) == BS_OK;
}

bool cuda_part_result(const cuda_part *part, void *to)
{
    if (part->where != BENCH_GPU)
        memcpy(to, part->output, bytes_of(&part->net->output));
    return part->where != BENCH_GPU || bench_copy(to, part->output, bytes_of(&part->net->output));
}

void cuda_part_close(cuda_part *part)
{
    bs_session_close(part->session);
    bs_cuda_close(part->device);
    for (int32_t i = 0; i < CUDA_NET_INPUTS; i++)
        bench_give(part->inputs[i], part->where);
    bench_give(part->output, part->where);
    for (int32_t i = 0; i < 4; i++)
        free(part->blocks[i]);
    free(part->plan_memory);
    memset(part, 0, sizeof *part);
}

/* --------------------------------------------------------------------------------------------------------- arms */

bool cuda_arm_open(cuda_arm *arm, const cuda_net *net, const bs_plan_desc *desc, bench_where where, void *stream,
                   bs_error *error)
{
    memset(arm, 0, sizeof *arm);
    arm->net = net;
    arm->half = desc->half != 0;
    arm->parts = calloc(1, sizeof *arm->parts);
    if (!arm->parts)
        return refuse(error, BS_ERROR_ARENA, "not enough memory");
    arm->n_parts = 1;
    return cuda_part_open(&arm->parts[0], net, desc, where, stream, error);
}

bool cuda_arm_open_serial(cuda_arm *arm, const cuda_net *net, const cuda_moe_desc *moe, const bs_plan_desc *desc,
                          void *stream, bs_error *error)
{
    memset(arm, 0, sizeof *arm);
    arm->net = net;
    arm->half = desc->half != 0;
    arm->by_expert = true;
    arm->own = calloc((size_t)moe->experts, sizeof *arm->own);
    arm->parts = calloc((size_t)moe->experts, sizeof *arm->parts);
    if (!arm->own || !arm->parts)
        return refuse(error, BS_ERROR_ARENA, "not enough memory");
    for (int32_t e = 0; e < moe->experts; e++) {
        bool used = false;
        for (int32_t r = 0; r < net->rows; r++)
            used = used || net->path_of_row[r] == e;
        if (!used)
            continue;
        const int32_t i = arm->n_parts++;
        arm->expert[i] = e;
        if (!cuda_net_expert(&arm->own[i], moe, net, e)) {
            *error = arm->own[i].error;
            return false;
        }
        if (!cuda_part_open(&arm->parts[i], &arm->own[i], desc, BENCH_GPU, stream, error))
            return false;
    }
    return true;
}

void cuda_arm_close(cuda_arm *arm)
{
    for (int32_t i = 0; i < arm->n_parts; i++) {
        cuda_part_close(&arm->parts[i]);
        if (arm->own)
            cuda_net_close(&arm->own[i]);
    }
    free(arm->parts);
    free(arm->own);
    memset(arm, 0, sizeof *arm);
}

static bool submit_all(cuda_arm *arm, bs_error *error)
{
    for (int32_t i = 0; i < arm->n_parts; i++)
        if (bs_submit(arm->parts[i].session, error) != BS_OK)
            return false;
    return true;
}

static bool wait_all(cuda_arm *arm, bs_error *error)
{
    for (int32_t i = 0; i < arm->n_parts; i++)
        if (bs_wait(arm->parts[i].session, error) != BS_OK)
            return false;
    return true;
}

double cuda_arm_seconds(cuda_arm *arm, int32_t runs, bs_error *error)
{
    double seconds = 0;
    if (!arm->net->keeps_state) {
        const double since = peak_seconds();
        for (int32_t i = 0; i < runs; i++)
            if (!submit_all(arm, error))
                return -1;
        return wait_all(arm, error) ? (peak_seconds() - since) / runs : -1;
    }
    for (int32_t i = 0; i < runs; i++) {
        for (int32_t k = 0; k < arm->n_parts; k++)
            bs_reset_state(arm->parts[k].session);
        const double since = peak_seconds();
        if (!submit_all(arm, error) || !wait_all(arm, error))
            return -1;
        seconds += peak_seconds() - since;
    }
    return seconds / runs;
}

bool cuda_arm_result(const cuda_arm *arm, void *to)
{
    if (!arm->by_expert)
        return cuda_part_result(&arm->parts[0], to);
    const size_t row = bytes_of(&arm->net->output) / (size_t)arm->net->rows;
    for (int32_t i = 0; i < arm->n_parts; i++) {
        uint8_t *own = malloc(bytes_of(&arm->own[i].output));
        const bool ok = own && cuda_part_result(&arm->parts[i], own);
        for (int32_t r = 0, next = 0; ok && r < arm->net->rows; r++)
            if (arm->net->path_of_row[r] == arm->expert[i])
                memcpy((uint8_t *)to + (size_t)r * row, own + (size_t)next++ * row, row);
        free(own);
        if (!ok)
            return false;
    }
    return true;
}

double cuda_distance(const bs_buffer *like, const void *a, const void *reference)
{
    double most = 0, scale = 0;
    for (int64_t i = 0; i < cuda_net_elements(like); i++) {
        const double p = cuda_net_value(like, a, i), q = cuda_net_value(like, reference, i);
        if (isnan(p) != isnan(q))
            return INFINITY;
        most = fabs(p - q) > most ? fabs(p - q) : most;
        scale = fabs(q) > scale ? fabs(q) : scale;
    }
    return like->dtype == BS_U8 || most == 0 ? most : scale == 0 ? INFINITY : most / scale;
}
