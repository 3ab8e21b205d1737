/* session.cuh - a session on a GPU: its tables and weights there, runs queued and waited for.
 *
 * Tables are written in pinned memory when extents or buffers change, and copied; a run itself is launches and copies on
 * one stream. The host waits only where it must hand something back: at the end of a run, for a callback, and before it
 * writes pinned memory that a copy may still read.
 * Relies on device.cuh, launch.cuh and device.h. Must never allocate. */
#ifndef BS_CUDA_SESSION
#define BS_CUDA_SESSION

#include "cuda/device.cuh"
#include "cuda/launch.cuh"

struct bs_device_session {
    bs_cu_device *device;
    const bs_device_client *client;
    bs_device_layout layout;
    uint8_t *memory; /* on the device */
    uint8_t *pinned;
    bs_cu_program program;
    cudaEvent_t done;
    cudaStream_t lanes[BS_MAX_LANES]; /* copies of weights */
    int32_t n_lanes;
    bool has_event, lowered, in_flight, any_staged, has_segments;
    bs_status failed; /* while queueing */
    int threads;      /* of a block */
    uint64_t shared;  /* of a region */
    bs_cu_launches launches;
    int64_t *dims;    /* [dims] that the tables were written for */
    bs_buffer *bound; /* [nodes] likewise */
    bs_cu_bound *at;  /* [nodes] */
};

/* -------------------------------------------------------------------------------------------------- memory */

static_assert(sizeof(bs_device_session) <= BS_DEVICE_SESSION_BYTES && sizeof(bs_cu_launch) <= BS_DEVICE_LAUNCH_BYTES &&
                  sizeof(bs_cu_bound) <= BS_DEVICE_BOUND_BYTES,
              "device_plan.c counts with these");

static bs_status bs_cu_session_carve(bs_device_session *s, bs_error *error)
{
    const bs_graph *g = s->client->graph;
    bs_carver c = {s->pinned + s->layout.session, 0};
    bs_carve(&c, 1, sizeof *s);
    s->launches.room = 2 * s->layout.n_steps + 2;
    s->launches.list = static_cast<bs_cu_launch *>(bs_carve(&c, (uint64_t)s->launches.room, sizeof(bs_cu_launch)));
    s->dims = static_cast<int64_t *>(bs_carve(&c, (uint64_t)g->n_dims, sizeof(int64_t)));
    s->bound = static_cast<bs_buffer *>(bs_carve(&c, (uint64_t)g->n_nodes, sizeof(bs_buffer)));
    s->at = static_cast<bs_cu_bound *>(bs_carve(&c, (uint64_t)g->n_nodes, sizeof(bs_cu_bound)));
    if (c.used <= s->layout.session_bytes)
        return BS_OK;
    return bs_fail(error, BS_ERROR_LIMIT, "bookkeeping of a session on the GPU needs %llu bytes, %llu were planned", (unsigned long long)c.used,
                   (unsigned long long)s->layout.session_bytes);
}

static void bs_cu_session_program(bs_device_session *s)
{
    const bs_device_layout *l = &s->layout;
    uint8_t *tables = s->memory + l->tables;
    bs_cu_program *p = &s->program;
    p->steps = reinterpret_cast<const bs_device_step *>(tables + l->steps_at);
    p->operands = reinterpret_cast<const bs_device_operand *>(tables + l->operands_at);
    p->domains = reinterpret_cast<const bs_device_domain *>(tables + l->domains_at);
    p->decision = reinterpret_cast<const bs_device_decision *>(tables + l->decisions_at);
    p->parts = reinterpret_cast<const bs_device_part *>(tables + l->parts_at);
    p->units = reinterpret_cast<const uint64_t *>(tables + l->units_at);
    p->decisions = s->memory + l->decisions;
    p->contexts = s->memory + l->contexts;
    p->context_bytes = l->context_bytes;
    p->status = reinterpret_cast<int32_t *>(s->memory + l->decisions + l->status);
}

/* Kernels may use more shared memory than the default of 48 KiB only when it is asked for. */
static bs_status bs_cu_session_shared(bs_device_session *s, bs_error *error)
{
    uint64_t most = 0;
    for (int32_t k = 0; k < s->client->plan->n_parts; k++)
        most = most > s->client->plan->parts[k].scratch_bytes ? most : s->client->plan->parts[k].scratch_bytes;
    s->program.scratch = s->memory + s->layout.scratch;
    s->program.scratch_bytes = s->layout.scratch_bytes;
    s->shared = (s->layout.scratch_bytes ? 0 : most) + BS_CU_WORKSPACE;
    if (s->client->plan->n_regions == 0)
        return BS_OK;
    if (s->shared > (uint64_t)s->device->shared_bytes)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "the plan uses %llu bytes of shared memory, this GPU has %d: plan with its shared_bytes",
                       (unsigned long long)s->shared, s->device->shared_bytes);
    return bs_cu_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(bs_cu_region), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)s->shared),
                       "asking for shared memory", error);
}

static void bs_cu_session_close(bs_device_session *s)
{
    if (s->in_flight)
        cudaStreamSynchronize(s->device->stream);
    for (int32_t k = 0; k < s->n_lanes; k++)
        cudaStreamDestroy(s->lanes[k]);
    s->n_lanes = 0;
    if (s->has_event)
        cudaEventDestroy(s->done);
    s->has_event = s->in_flight = false;
}

static bs_status bs_cu_session_open(bs_device *device, const bs_device_client *client, uint8_t *memory, uint8_t *pinned,
                                    bs_device_session **session, bs_error *error)
{
    bs_device_layout layout;
    bs_device_layout_make(client->plan, &layout);
    bs_device_session *s = reinterpret_cast<bs_device_session *>(pinned + layout.session);
    memset(s, 0, sizeof *s);
    s->device = reinterpret_cast<bs_cu_device *>(device);
    s->client = client;
    s->layout = layout;
    s->memory = memory;
    s->pinned = pinned;
    s->threads = BS_CU_THREADS;
    bs_cu_session_program(s);
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    if (status == BS_OK)
        status = bs_cu_session_carve(s, error);
    if (status == BS_OK)
        status = bs_cu_session_shared(s, error);
    if (status == BS_OK)
        status = bs_cu_check(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming), "making an event", error);
    s->has_event = status == BS_OK;
    for (; status == BS_OK && bs_plan_streams(client->plan) && s->n_lanes < client->plan->lanes; s->n_lanes += status == BS_OK)
        status = bs_cu_check(cudaStreamCreateWithFlags(&s->lanes[s->n_lanes], cudaStreamNonBlocking), "making a stream", error);
    *session = s;
    if (status != BS_OK)
        bs_cu_session_close(s);
    return status;
}

/* Waits for what is queued: pinned memory may be written again. */
static bs_status bs_cu_settle(bs_device_session *s, bs_error *error)
{
    if (!s->in_flight)
        return BS_OK;
    s->in_flight = false;
    return bs_cu_check(cudaEventSynchronize(s->done), "waiting for the device", error);
}

static bs_status bs_cu_mark(bs_device_session *s, bs_error *error)
{
    s->in_flight = true;
    return bs_cu_check(cudaEventRecord(s->done, s->device->stream), "recording an event", error);
}

static bs_status bs_cu_session_settle(bs_device_session *s, bs_error *error)
{
    const bs_status status = bs_cu_mark(s, error);
    return status == BS_OK ? bs_cu_settle(s, error) : status;
}

static void *bs_cu_session_load(bs_device_session *s, bs_error *error)
{
    return bs_cu_settle(s, error) == BS_OK ? s->pinned + s->layout.loading : NULL;
}

static bs_status bs_cu_session_loaded(bs_device_session *s, uint64_t offset, uint64_t bytes, bs_error *error)
{
    const bs_status status = bs_cu_check(cudaMemcpyAsync(s->memory + s->layout.weights + offset, s->pinned + s->layout.loading, (size_t)bytes,
                                                         cudaMemcpyHostToDevice, s->device->stream),
                                         "copying weights to the device", error);
    return status == BS_OK ? bs_cu_mark(s, error) : status;
}

/* ------------------------------------------------------------------------------------------------- binding */

/* Where the device finds a caller's buffer: in place when it can, else in a dense copy. */
static bs_status bs_cu_locate(bs_device_session *s, int32_t node, bs_error *error)
{
    const bs_device_client *c = s->client;
    const bs_buffer *b = &c->bound[node];
    bs_cu_bound *at = &s->at[node];
    cudaPointerAttributes known;
    memset(at, 0, sizeof *at);
    if (!b->data)
        return BS_OK;
    for (int32_t i = 0; i < b->rank; i++)
        at->stride[i] = b->stride[i];
    at->address = (uint64_t)(uintptr_t)b->data;
    if (c->state[node] == b->data)
        return BS_OK; /* the session's own */
    memset(&known, 0, sizeof known);
    if (cudaPointerGetAttributes(&known, b->data) != cudaSuccess)
        cudaGetLastError(); /* older toolkits call ordinary memory an error */
    else if (known.type != cudaMemoryTypeUnregistered && known.devicePointer) {
        at->address = (uint64_t)(uintptr_t)known.devicePointer;
        return BS_OK;
    }
    at->staged = s->any_staged = true;
    at->address = (uint64_t)(uintptr_t)(s->memory + s->layout.inputs + bs_device_input_place(c->plan, node));
    int64_t stride = 1;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        at->stride[i] = stride;
        stride *= b->dim[i];
    }
    (void)error;
    return BS_OK;
}

static size_t bs_cu_bound_bytes(const bs_buffer *b)
{
    size_t bytes = bs_dtype_bytes(b->dtype);
    for (int32_t i = 0; i < b->rank; i++)
        bytes *= (size_t)b->dim[i];
    return bytes;
}

/* Between a strided buffer and a dense one, by rows of the last dimension. */
static void bs_cu_pack(const bs_buffer *b, uint8_t *dense, bool out)
{
    const size_t bytes = bs_dtype_bytes(b->dtype);
    const int64_t last = b->dim[b->rank - 1], step = b->stride[b->rank - 1];
    int64_t lines = 1;
    for (int32_t i = 0; i + 1 < b->rank; i++)
        lines *= b->dim[i];
    for (int64_t line = 0; line < lines; line++) {
        int64_t at = 0, rest = line;
        for (int32_t i = b->rank - 2; i >= 0; i--) {
            at += rest % b->dim[i] * b->stride[i];
            rest /= b->dim[i];
        }
        uint8_t *from = static_cast<uint8_t *>(b->data) + at * (int64_t)bytes, *to = dense + (size_t)(line * last) * bytes;
        for (int64_t x = 0; step != 1 && x < last; x++)
            memcpy(out ? from + x * step * (int64_t)bytes : to + x * (int64_t)bytes, out ? to + x * (int64_t)bytes : from + x * step * (int64_t)bytes, bytes);
        if (step == 1)
            memcpy(out ? from : to, out ? to : from, (size_t)last * bytes);
    }
}

static bool bs_cu_reads(const bs_device_session *s, int32_t node)
{
    const bs_node *n = &s->client->graph->nodes[node];
    return s->at[node].staged && s->client->plan->node_live[node] && !bs_node_is(n, &bs_op_output);
}

static bool bs_cu_writes(const bs_device_session *s, int32_t node)
{
    return s->at[node].staged && !bs_node_is(&s->client->graph->nodes[node], &bs_op_input);
}

/* Staged buffers to the device, or back into pinned memory. */
static bs_status bs_cu_copy_bound(bs_device_session *s, bool in, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t n = 1; n < s->client->graph->n_nodes && status == BS_OK; n++) {
        if (in ? !bs_cu_reads(s, n) : !bs_cu_writes(s, n))
            continue;
        uint8_t *pinned = s->pinned + s->layout.inputs_pinned + bs_device_input_place(s->client->plan, n);
        uint8_t *device = reinterpret_cast<uint8_t *>((uintptr_t)s->at[n].address);
        const size_t bytes = bs_cu_bound_bytes(&s->client->bound[n]);
        if (in)
            bs_cu_pack(&s->client->bound[n], pinned, false);
        status = bs_cu_check(in ? cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, s->device->stream)
                                : cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, s->device->stream),
                             in ? "copying inputs to the device" : "copying outputs from the device", error);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------------- tables */

static bool bs_cu_same_buffer(const bs_buffer *a, const bs_buffer *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype && a->rank == b->rank;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i] && a->stride[i] == b->stride[i];
    return same;
}

/* Whether the tables are those of this run. */
static bool bs_cu_is_lowered(const bs_device_session *s)
{
    const bs_graph *g = s->client->graph;
    bool same = s->lowered && memcmp(s->dims, s->client->dims, (size_t)g->n_dims * sizeof *s->dims) == 0;
    for (int32_t n = 1; same && n < g->n_nodes; n++)
        same = bs_cu_same_buffer(&s->bound[n], &s->client->bound[n]);
    return same;
}

static void bs_cu_write_domains(bs_device_session *s, uint8_t *tables)
{
    const bs_device_client *c = s->client;
    bs_device_domain *domains = reinterpret_cast<bs_device_domain *>(tables + s->layout.domains_at);
    bs_device_decision *decisions = reinterpret_cast<bs_device_decision *>(tables + s->layout.decisions_at);
    memset(domains, 0, (size_t)c->graph->n_domains * sizeof *domains);
    memset(decisions, 0, (size_t)c->graph->n_routers * sizeof *decisions);
    for (int32_t d = 0; d < c->graph->n_domains; d++) {
        const bs_domain *from = &c->graph->domains[d];
        domains[d].kind = from->kind;
        domains[d].parent = from->parent;
        domains[d].router = from->router;
        domains[d].path = from->path;
        domains[d].count = c->domains[d].count;
        if (!c->offsets[d])
            continue;
        domains[d].lengths = (int32_t)c->dims[bs_segment_dim(c->graph, d)];
        domains[d].offsets = (uint64_t)(uintptr_t)(s->memory + s->layout.tables + s->layout.segments_at + bs_device_offsets_place(c->plan, d));
    }
    for (int32_t r = 1; r < c->graph->n_routers; r++)
        bs_device_decision_place(c->plan, r, &decisions[r]);
    *reinterpret_cast<uint64_t *>(tables + s->layout.units_at) = (uint64_t)(uintptr_t)(s->memory + s->layout.weights);
}

/* What this run's inputs say of segments. */
static void bs_cu_write_segments(bs_device_session *s, uint8_t *tables)
{
    const bs_device_client *c = s->client;
    uint8_t *to = tables + s->layout.segments_at;
    for (int32_t d = 1; d < c->graph->n_domains; d++)
        if (c->offsets[d])
            memcpy(to + bs_device_offsets_place(c->plan, d), c->offsets[d], 4 * (size_t)(c->dims[bs_segment_dim(c->graph, d)] + 1));
    for (int32_t n = 1; n < c->graph->n_nodes; n++)
        if (c->past[n])
            memcpy(to + bs_device_past_place(c->plan, n), c->past[n], 4 * (size_t)c->dims[c->graph->values[c->graph->nodes[n].first_out].dims[0]]);
}

static bs_status bs_cu_upload(bs_device_session *s, uint64_t from, uint64_t bytes, bs_error *error)
{
    if (bytes == 0)
        return BS_OK;
    return bs_cu_check(cudaMemcpyAsync(s->memory + s->layout.tables + from, s->pinned + s->layout.tables_pinned + from, (size_t)bytes,
                                       cudaMemcpyHostToDevice, s->device->stream),
                       "copying tables to the device", error);
}

static bs_status bs_cu_write_tables(bs_device_session *s, bs_error *error)
{
    const bs_device_client *c = s->client;
    uint8_t *tables = s->pinned + s->layout.tables_pinned;
    bs_status status = BS_OK;
    s->lowered = s->any_staged = false;
    for (int32_t n = 1; n < c->graph->n_nodes && status == BS_OK; n++)
        status = bs_cu_locate(s, n, error);
    bs_cu_lowering l;
    memset(&l, 0, sizeof l);
    l.client = c;
    l.graph = c->graph;
    l.plan = c->plan;
    l.layout = &s->layout;
    l.bound = s->at;
    l.memory = (uint64_t)(uintptr_t)s->memory;
    l.steps = reinterpret_cast<bs_device_step *>(tables + s->layout.steps_at);
    l.operands = reinterpret_cast<bs_device_operand *>(tables + s->layout.operands_at);
    if (status == BS_OK)
        status = bs_cu_lower(&l, &s->launches, reinterpret_cast<bs_device_part *>(tables + s->layout.parts_at), error);
    if (status != BS_OK)
        return status;
    bs_cu_write_domains(s, tables);
    memcpy(s->dims, c->dims, (size_t)c->graph->n_dims * sizeof *s->dims);
    memcpy(s->bound, c->bound, (size_t)c->graph->n_nodes * sizeof *s->bound);
    s->has_segments = s->layout.segments_at < s->layout.tables_bytes;
    s->lowered = true;
    return bs_cu_upload(s, 0, s->layout.segments_at, error);
}

/* --------------------------------------------------------------------------------------------------- runs */

static bs_status bs_cu_launched(bs_error *error) { return bs_cu_check(cudaGetLastError(), "launching a kernel", error); }

/* Copies between pinned and device memory, and then waits. */
static bs_status bs_cu_fetch(bs_device_session *s, void *to, const void *from, size_t bytes, bs_error *error)
{
    bs_status status = bs_cu_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s->device->stream), "asking the device", error);
    if (status == BS_OK)
        status = bs_cu_mark(s, error);
    return status == BS_OK ? bs_cu_settle(s, error) : status;
}

/* Rows of a domain that a router may have made, and the first of them where rows of all paths are. */
static bs_status bs_cu_rows(bs_device_session *s, int32_t domain, int32_t *first, int32_t *rows, bs_error *error)
{
    const bs_domain *d = &s->client->graph->domains[domain];
    bs_device_decision made;
    int32_t *told = reinterpret_cast<int32_t *>(s->pinned + s->layout.learned);
    *rows = s->client->domains[domain].count;
    *first = 0;
    if (d->kind != BS_DOMAIN_PATH)
        return BS_OK;
    bs_device_decision_place(s->client->plan, d->router, &made);
    const bs_status status = bs_cu_fetch(s, told, s->program.decisions + made.offsets + 4 * (size_t)d->path, 8, error);
    *first = told[0];
    *rows = told[1] - told[0];
    return status;
}

static bool bs_cu_answer_is_sound(const bs_route_desc *desc, const bs_operand_view *scores, int32_t rows, const int32_t *chosen, float *gates)
{
    for (int32_t r = 0; r < rows; r++) {
        gates[r] = 1.0f;
        if (chosen[r] < -1 || chosen[r] >= desc->paths)
            return false;
    }
    for (int64_t i = 0; scores->dtype == BS_F32 && i < (int64_t)rows * scores->width; i++)
        if (isnan(static_cast<const float *>(scores->data)[i]))
            return false;
    return true;
}

/* A router that asks the caller: the scores come here, the answer goes there. The step packs it. */
static bs_status bs_cu_ask(bs_device_session *s, const bs_cu_launch *l, bs_error *error)
{
    const bs_device_client *c = s->client;
    const bs_router_info *info = &c->graph->routers[l->callback];
    const uint8_t *tables = s->pinned + s->layout.tables_pinned;
    const bs_device_step *step = reinterpret_cast<const bs_device_step *>(tables + s->layout.steps_at) + l->first;
    const bs_device_operand *score = reinterpret_cast<const bs_device_operand *>(tables + s->layout.operands_at) + step->operands;
    uint8_t *asked = s->pinned + s->layout.asked;
    const size_t width = 4 * (size_t)score->dim[0];
    bs_device_decision d;
    int32_t first, rows;
    bs_status status = bs_cu_rows(s, info->domain, &first, &rows, error);
    if (!c->callbacks[l->callback].function)
        return bs_fail(error, BS_ERROR_UNBOUND, "route \"%s\": its callback is not set (bs_set_route)", info->desc->name);
    if (status != BS_OK || rows == 0)
        return status;
    status = bs_cu_check(cudaMemcpy2DAsync(asked, width, reinterpret_cast<const uint8_t *>((uintptr_t)score->base) + first * score->row_bytes, (size_t)score->row_bytes, width,
                                           (size_t)rows, cudaMemcpyDeviceToHost, s->device->stream),
                         "copying scores from the device", error);
    if (status == BS_OK)
        status = bs_cu_session_settle(s, error);
    if (status != BS_OK)
        return status;
    const bs_operand_view view = {asked, (bs_dtype)score->dtype, score->dim[0], score->dim[0], 1};
    int32_t *chosen = reinterpret_cast<int32_t *>(asked + bs_device_scores_bytes(c->plan, l->callback));
    float *gates = reinterpret_cast<float *>(reinterpret_cast<uint8_t *>(chosen) + bs_align_u64(4 * (uint64_t)rows));
    memset(chosen, 0xff, 4 * (size_t)rows);
    status = c->callbacks[l->callback].function(c->callbacks[l->callback].user, &view, rows, chosen);
    if (status == BS_OK && !bs_cu_answer_is_sound(info->desc, &view, rows, chosen, gates))
        status = BS_ERROR_DATA;
    if (status != BS_OK)
        return bs_fail(error, status, "route \"%s\": %s", info->desc->name, bs_status_text(status));
    bs_device_decision_place(c->plan, l->callback, &d);
    status = bs_cu_check(cudaMemcpyAsync(s->program.decisions + d.chosen, chosen, 4 * (size_t)rows, cudaMemcpyHostToDevice, s->device->stream),
                         "copying an answer to the device", error);
    return status == BS_OK ? bs_cu_fetch(s, s->program.decisions + d.gates, gates, 4 * (size_t)rows, error) : status;
}

static bs_status bs_cu_run_launch(bs_device_session *s, const bs_cu_launch *l, bs_error *error)
{
    const cudaStream_t stream = s->device->stream;
    bs_status status = BS_OK;
    if (l->callback)
        status = bs_cu_ask(s, l, error);
    if (l->blocks == 0 || status != BS_OK)
        return status;
    if (l->kernel == BS_CU_none)
        BS_LAUNCH(bs_cu_region, (unsigned)bs_min_i32(l->blocks, s->layout.tiles), (unsigned)s->threads, (size_t)s->shared, stream, s->program, l->first,
                  l->count);
    else
        bs_cu_launch_kernel(s->program, *l, s->threads, stream);
    return bs_cu_launched(error);
}

static bs_status bs_cu_session_run(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t k = 0; k < s->launches.count && status == BS_OK; k++)
        if (s->launches.list[k].instr >= first && s->launches.list[k].instr < end)
            status = bs_cu_run_launch(s, &s->launches.list[k], error);
    return status;
}

static bs_status bs_cu_session_begin(bs_device_session *s, bs_error *error)
{
    const bool same = bs_cu_is_lowered(s);
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    if (status == BS_OK && (!same || s->any_staged || s->has_segments))
        status = bs_cu_settle(s, error);
    if (status == BS_OK && !same)
        status = bs_cu_write_tables(s, error);
    if (status == BS_OK && s->has_segments) {
        bs_cu_write_segments(s, s->pinned + s->layout.tables_pinned);
        status = bs_cu_upload(s, s->layout.segments_at, s->layout.tables_bytes - s->layout.segments_at, error);
    }
    if (status == BS_OK)
        status = bs_cu_copy_bound(s, true, error);
    if (status != BS_OK)
        return status;
    BS_LAUNCH(bs_cu_begin, 4, (unsigned)s->threads, 0, s->device->stream, s->program, s->client->graph->n_routers);
    return bs_cu_launched(error);
}

static bs_status bs_cu_session_end(bs_device_session *s, bs_error *error)
{
    bs_status status = bs_cu_copy_bound(s, false, error);
    if (status == BS_OK)
        status = bs_cu_check(cudaMemcpyAsync(s->pinned + s->layout.results, s->memory + s->layout.decisions, (size_t)s->layout.results_bytes,
                                             cudaMemcpyDeviceToHost, s->device->stream),
                             "copying decisions from the device", error);
    const bs_status marked = bs_cu_mark(s, status == BS_OK ? error : NULL);
    return status == BS_OK ? marked : status;
}

/* ---------------------------------------------------------------------------------- weights that come and go */

static bs_status bs_cu_session_part(bs_device_session *s, int32_t part, bs_error *error)
{
    const bs_part *p = &s->client->plan->parts[part];
    int32_t at = 0; /* in the table: parts with steps, region by region */
    for (int32_t k = 0; k < s->launches.count; k++)
        if (s->launches.list[k].kernel == BS_CU_none && s->client->plan->instrs[s->launches.list[k].instr].node == p->region)
            at = s->launches.list[k].first;
    for (int32_t k = 0; k < part; k++)
        at += s->client->plan->parts[k].region == p->region && s->client->plan->parts[k].count > 0;
    const int64_t tiles = bs_ceil_div(s->client->domains[p->domain].count, s->client->plan->domains[p->domain].tile_rows);
    const bs_cu_launch l = {BS_CU_none, at, 1, 0, 0, (int32_t)tiles};
    return bs_cu_run_launch(s, &l, error);
}

/* What was queued is over whenever this is called: the number may be written. */
static bs_status bs_cu_session_place(bs_device_session *s, int32_t unit, const uint8_t *weights, bs_error *error)
{
    const uint64_t at = s->layout.units_at + (uint64_t)unit * sizeof(uint64_t);
    *reinterpret_cast<uint64_t *>(s->pinned + s->layout.tables_pinned + at) = (uint64_t)(uintptr_t)weights;
    return bs_cu_upload(s, at, sizeof(uint64_t), error);
}

/* The status of the run so far, then the counts. */
static bs_status bs_cu_session_learn(bs_device_session *s, int32_t router, int32_t *counts, int32_t *node, bs_error *error)
{
    bs_device_decision d;
    int32_t *told = reinterpret_cast<int32_t *>(s->pinned + s->layout.learned);
    bs_device_decision_place(s->client->plan, router, &d);
    bs_status status = bs_cu_check(cudaMemcpyAsync(told, s->program.status, 2 * sizeof *told, cudaMemcpyDeviceToHost, s->device->stream),
                                   "copying the status from the device", error);
    if (status == BS_OK)
        status = bs_cu_check(cudaMemcpyAsync(told + 2, s->memory + s->layout.decisions + d.counts, (size_t)d.paths * sizeof *told,
                                             cudaMemcpyDeviceToHost, s->device->stream),
                             "copying a decision from the device", error);
    if (status == BS_OK)
        status = bs_cu_session_settle(s, error);
    if (status != BS_OK)
        return status;
    memcpy(counts, told + 2, (size_t)d.paths * sizeof *counts);
    *node = told[0] ? told[1] : *node;
    return (bs_status)told[0];
}

static bs_status bs_cu_session_copy(bs_device_session *s, int32_t lane, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", NULL);
    if (status == BS_OK)
        status = bs_cu_check(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, s->lanes[lane]), "copying weights", NULL);
    return status == BS_OK ? bs_cu_check(cudaStreamSynchronize(s->lanes[lane]), "waiting for weights", NULL) : status;
}

/* ------------------------------------------------------------------------------------------------- the end */

/* What routers decided, for bs_decision_get. */
static void bs_cu_tell(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    const uint8_t *results = s->pinned + s->layout.results;
    for (int32_t r = 1; r < c->graph->n_routers; r++) {
        bs_device_decision d;
        bs_device_decision_place(c->plan, r, &d);
        if (!d.live)
            continue;
        const int32_t top = bs_plan_top_domain(c->graph, d.domain);
        memset(c->counts + (size_t)r * BS_MAX_PATHS, 0, BS_MAX_PATHS * sizeof *c->counts);
        memcpy(c->counts + (size_t)r * BS_MAX_PATHS, results + d.sums, (size_t)d.paths * sizeof *c->counts);
        memcpy(&c->dropped[r], results + d.dropped, sizeof c->dropped[r]);
        memcpy(c->chosen[r], results + d.top, (size_t)c->domains[top].count);
    }
}

static bs_status bs_cu_session_wait(bs_device_session *s, int32_t *node, bs_error *error)
{
    const bs_status status = bs_cu_settle(s, error);
    *node = 0;
    if (status != BS_OK)
        return status;
    for (int32_t n = 1; n < s->client->graph->n_nodes; n++)
        if (bs_cu_writes(s, n))
            bs_cu_pack(&s->client->bound[n], s->pinned + s->layout.inputs_pinned + bs_device_input_place(s->client->plan, n), true);
    bs_cu_tell(s);
    const int32_t *said = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.status);
    *node = said[0] != 0 ? said[1] : 0;
    return (bs_status)said[0];
}

/* Of the device or of the caller: one piece. */
static bs_status bs_cu_session_zero(bs_device_session *s, uint8_t *memory, uint64_t bytes)
{
    cudaPointerAttributes known;
    memset(&known, 0, sizeof known);
    const bool found = cudaPointerGetAttributes(&known, memory) == cudaSuccess && known.type != cudaMemoryTypeUnregistered;
    if (bs_cu_settle(s, NULL) != BS_OK)
        return BS_ERROR_PLATFORM;
    if (!found) {
        cudaGetLastError();
        memset(memory, 0, (size_t)bytes);
        return BS_OK;
    }
    if (bs_cu_check(cudaMemsetAsync(known.devicePointer, 0, (size_t)bytes, s->device->stream), "clearing a state", NULL) != BS_OK)
        return BS_ERROR_PLATFORM;
    return bs_cu_mark(s, NULL);
}

const bs_device_api bs_cu_api = {bs_cu_session_open, bs_cu_session_close, bs_cu_session_load, bs_cu_session_loaded,
                                        bs_cu_session_zero, bs_cu_session_begin, bs_cu_session_run, bs_cu_session_end,
                                        bs_cu_session_wait, bs_cu_session_part, bs_cu_session_place, bs_cu_session_learn,
                                        bs_cu_session_settle, bs_cu_session_copy};

#endif
