/* state.cuh - the backend's record of a session, its streams, and waiting for the device.
 *
 * Sessions share nothing that they queue, capture, record or wait for, so those of one device run side by side, each on
 * its caller's thread. Sessions that are given the same stream are in each other's order there, launch by launch.
 * The record lies in the session's pinned bytes; prepared weights go to the device through there too.
 * Relies on device.cuh and launch.cuh. Must never allocate. */
#ifndef BS_CUDA_STATE
#define BS_CUDA_STATE

#include "cuda/device.cuh"
#include "cuda/launch.cuh"

extern "C" {
#include "run/route.h"
}

struct bs_device_session {
    bs_cu_device *device;
    const bs_device_client *client;
    bs_device_layout layout;
    uint8_t *memory; /* on the device */
    uint8_t *pinned;
    uint64_t pinned_there; /* the device's address of it */
    bs_cu_program program;
    cudaStream_t private_stream; /* the session's alone: captures use it */
    cudaStream_t run_stream;     /* runs are queued on it: the caller's, or the private one */
    /* where the next launch or copy goes: run_stream, or private_stream while it is captured */
    cudaStream_t stream;
    cudaEvent_t done;
    cudaStream_t lanes[BS_MAX_LANES]; /* copies of weights */
#ifndef BS_NO_CUBLAS
    cublasHandle_t cublas; /* NULL: cuBLAS is not used */
    void *workspace;       /* of cuBLAS, in the device's memory */
    size_t workspace_bytes;
#endif
    int32_t n_lanes;
    bool has_event, lowered, in_flight, any_staged, has_segments;
    bool varies; /* what there is to do is known only when a run begins, or when routers have decided */
    bool loops;  /* a loop at top level makes as many trips as a run says, and a graph can go round it */
    int32_t launch_mode; /* bs_launch_mode */
    bool capturing, replays, no_graph;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t last; /* the last node that was captured */
    int threads;      /* of a block */
    uint64_t shared;  /* of a region */
    bs_cu_launches launches;
    int64_t *dims;    /* [dims] of the last run */
    bs_buffer *bound; /* [nodes] of the last run */
    bs_cu_bound *at;  /* [nodes] */
};

/* Whether a graph that is captured has conditional nodes: with AUTO those of loops that would else be captured with all
 * trips that their bound allows. */
static inline bool bs_cu_has_nodes(const bs_device_session *s)
{
    return s->launch_mode == BS_LAUNCH_CONDITIONAL || (s->launch_mode == BS_LAUNCH_AUTO && s->loops);
}

/* Blocks of a launch that keep the device busy. */
static inline int32_t bs_cu_busy_blocks(const bs_device_session *s) { return 2 * s->device->multiprocessors; }

enum {
    /* Blocks for a multiprocessor that has work enough. As many as are there at a time, 1, 2, 3 or 6, divide it: none
     * is left for a last round alone. */
    BS_CU_FILL = 6,
    BS_CU_TABLE_BLOCKS = 4 /* that put extents in place */
};

/* The blocks of a launch. Kernels that see all rows have one for each item. */
static int32_t bs_cu_blocks(const bs_device_session *s, const bs_device_launch *l)
{
    const int32_t full = BS_CU_FILL * s->device->multiprocessors;
    switch (l->kernel) {
    case BS_CU_region: return bs_min_i32(l->items, s->layout.tiles);
    case BS_CU_extend: return BS_CU_TABLE_BLOCKS;
#ifndef BS_NO_CUBLAS
    case BS_CU_cublas: return 0; /* it has its own */
#endif
    default: return bs_cu_sees_all_rows(l->kernel) || !s->varies ? l->items : bs_min_i32(l->items, full);
    }
}

/* -------------------------------------------------------------------------------------------------- memory */

static_assert(sizeof(bs_device_session) <= BS_DEVICE_SESSION_BYTES && sizeof(bs_cu_bound) <= BS_DEVICE_BOUND_BYTES,
              "run/device_layout.c counts with these");

static bs_status bs_cu_session_carve(bs_device_session *s, bs_error *error)
{
    const bs_graph *g = s->client->graph;
    bs_carver c = {s->pinned + s->layout.session, {0}};
    bs_carve(&c, 1, sizeof *s);
    s->launches.list = reinterpret_cast<bs_device_launch *>(s->pinned + s->layout.launches);
    s->launches.room = s->layout.n_launches;
    s->dims = static_cast<int64_t *>(bs_carve(&c, (uint64_t)g->n_dims, sizeof(int64_t)));
    s->bound = static_cast<bs_buffer *>(bs_carve(&c, (uint64_t)s->client->n_bound, sizeof(bs_buffer)));
    s->at = static_cast<bs_cu_bound *>(bs_carve(&c, (uint64_t)g->n_nodes, sizeof(bs_cu_bound)));
    if (bs_bytes_figure(c.used) > s->layout.session_bytes)
        return bs_fail(error, BS_ERROR_LIMIT, /* unreachable: plan/device.h has room for it */
                       "bookkeeping of a session on the GPU needs %llu bytes",
                       (unsigned long long)bs_bytes_figure(c.used));
    memset(s->at, 0, (size_t)g->n_nodes * sizeof *s->at);
    for (int32_t n = 1, entry = 1; n < g->n_nodes; n++)
        s->at[n].entry = bs_device_is_bound(s->client->plan, n) ? entry++ : 0;
    return BS_OK;
}

static void bs_cu_session_program(bs_device_session *s)
{
    const bs_device_layout *l = &s->layout;
    uint8_t *tables = s->memory + l->tables;
    bs_cu_program *p = &s->program;
    p->steps = reinterpret_cast<const bs_device_step *>(tables + l->steps_at);
    p->operands = reinterpret_cast<bs_device_operand *>(tables + l->operands_at);
    p->domains = reinterpret_cast<bs_device_domain *>(tables + l->domains_at);
    p->dims = reinterpret_cast<const int32_t *>(tables + l->dims_at);
    p->n_dims = l->n_dims;
    p->n_joins = l->n_joins;
    p->extents = l->n_dims ? reinterpret_cast<int32_t *>(s->memory + l->decisions + l->extents) : NULL;
    p->derived = reinterpret_cast<const bs_device_dim *>(tables + l->derived_at);
    p->joins = reinterpret_cast<const bs_device_join *>(tables + l->joins_at);
    p->bound = reinterpret_cast<const bs_device_bound *>(tables + l->bound_at);
    p->decision = reinterpret_cast<const bs_device_decision *>(tables + l->decisions_at);
    p->parts = reinterpret_cast<const bs_device_part *>(tables + l->parts_at);
    p->given = reinterpret_cast<const uint32_t *>(tables + l->given_at);
    p->units = reinterpret_cast<const uint64_t *>(tables + l->units_at);
    p->decisions = s->memory + l->decisions;
    p->guesses = reinterpret_cast<float *>(s->memory + l->guesses);
    p->contexts = s->memory + l->contexts;
    p->context_bytes = l->context_bytes;
    p->status = reinterpret_cast<int32_t *>(s->memory + l->decisions + l->status);
}

/* A kernel may use more than the default 48 KiB of shared memory only when its limit is raised. It is raised to all
 * that the GPU has: the limit is the function's, and sessions with tiles of other sizes use it too. */
static bs_status bs_cu_session_shared(bs_device_session *s, bs_error *error)
{
    bs_bytes most = {0};
    for (int32_t k = 0; k < s->client->plan->n_parts; k++)
        most = bs_bytes_max(most, s->client->plan->parts[k].scratch_bytes);
    s->program.scratch = s->memory + s->layout.scratch;
    s->program.scratch_bytes = s->layout.scratch_bytes;
    s->program.kernel_scratch = s->memory + s->layout.kernel_scratch;
    s->shared = (s->layout.scratch_bytes ? 0 : bs_bytes_figure(most)) + BS_DEVICE_SHARED;
    if (s->client->plan->n_regions == 0)
        return BS_OK;
    if (s->shared > (uint64_t)s->device->shared_bytes)
        return bs_fail(error, BS_ERROR_UNSUPPORTED,
                       "the plan uses %llu bytes of shared memory, this GPU has %d: plan with its shared_bytes",
                       (unsigned long long)s->shared, s->device->shared_bytes);
    return bs_cu_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(bs_cu_region),
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, s->device->shared_bytes),
                       "asking for shared memory", error);
}

/* ------------------------------------------------------------------------------------------------- cuBLAS */

#ifndef BS_NO_CUBLAS
/* Sets the handle's stream and workspace. cublasSetStream replaces the workspace by one that the library allocates, so
 * the session's workspace is set after it, each time. */
static bool bs_cu_cublas_here(bs_device_session *s)
{
    return cublasSetStream(s->cublas, s->stream) == CUBLAS_STATUS_SUCCESS &&
           cublasSetWorkspace(s->cublas, s->workspace, s->workspace_bytes) == CUBLAS_STATUS_SUCCESS;
}

/* A handle of the session's own, because a handle has one stream and one workspace at a time. */
static bs_status bs_cu_session_cublas(bs_device_session *s, bs_error *error)
{
    bs_arena *memory = &s->device->base.memory;
    uint8_t *bytes = static_cast<uint8_t *>(bs_arena_take(memory, (size_t)s->device->cublas_bytes));
    if (!bytes)
        return bs_fail_arena(error, memory, bs_bytes_of(s->device->cublas_bytes), "the workspace of cuBLAS");
    const size_t lost = (size_t)(0 - reinterpret_cast<uintptr_t>(bytes)) & 255, all = (size_t)s->device->cublas_bytes;
    s->workspace = bytes + lost; /* cuBLAS takes multiples of 256 only */
    s->workspace_bytes = all > lost ? all - lost : 0;
    if (cublasCreate(&s->cublas) != CUBLAS_STATUS_SUCCESS) {
        s->cublas = NULL;
        return bs_fail(error, BS_ERROR_PLATFORM, "cuBLAS: a handle cannot be made");
    }
    return bs_cu_cublas_here(s) ? BS_OK
                                : bs_fail(error, BS_ERROR_PLATFORM, "cuBLAS: it does not take its stream or workspace");
}
#endif

/* --------------------------------------------------------------------------------------- opening, closing */

/* Waits once more where waiting fails: the memory that work may still use goes back to its owner. */
static void bs_cu_idle(cudaStream_t stream)
{
    if (cudaStreamSynchronize(stream) != cudaSuccess)
        cudaStreamSynchronize(stream);
}

static void bs_cu_state_close(bs_device_session *s)
{
    if (s->run_stream)
        bs_cu_idle(s->run_stream);
    for (int32_t k = 0; k < s->n_lanes; k++) {
        bs_cu_idle(s->lanes[k]);
        cudaStreamDestroy(s->lanes[k]);
    }
    s->n_lanes = 0;
#ifndef BS_NO_CUBLAS
    if (s->cublas)
        cublasDestroy(s->cublas);
    s->cublas = NULL;
#endif
    if (s->has_event)
        cudaEventDestroy(s->done);
    s->has_event = s->in_flight = false;
    if (s->private_stream)
        cudaStreamDestroy(s->private_stream);
    s->private_stream = s->run_stream = s->stream = NULL;
}

/* The private stream waits for no other stream, not even the default one. */
static bs_status bs_cu_session_streams(bs_device_session *s, bs_error *error)
{
    bs_status status = bs_cu_check(cudaStreamCreateWithFlags(&s->private_stream, cudaStreamNonBlocking),
                                   "making a stream", error);
    if (status != BS_OK) {
        s->private_stream = NULL;
        return status;
    }
    s->run_stream = s->stream = s->client->stream ? static_cast<cudaStream_t>(s->client->stream) : s->private_stream;
    status = bs_cu_check(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming), "making an event", error);
    s->has_event = status == BS_OK;
    for (; status == BS_OK && bs_plan_streams(s->client->plan) && s->n_lanes < s->client->plan->lanes;
         s->n_lanes += status == BS_OK)
        status = bs_cu_check(cudaStreamCreateWithFlags(&s->lanes[s->n_lanes], cudaStreamNonBlocking), "making a stream",
                             error);
    return status;
}

/* Whether rows of a loop end at different times: by a count or a predicate. */
static bool bs_cu_ends_apart(const bs_graph *g, const bs_loop_info *loop)
{
    return loop->count || bs_node_in(g, &g->nodes[loop->again])[0] != 0;
}

/* Whether a run says how many trips a loop at top level makes. */
static bool bs_cu_goes_round(const bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    bool any = false;
    for (int32_t r = 1; r < g->n_routers; r++) {
        const bs_loop_info *loop = &g->routers[r].loop;
        any = any || (bs_router_loops(g, r) && !plan->routers[r].in_tile &&
                      (bs_cu_ends_apart(g, loop) || (loop->trips >= 0 && !bs_dim_is_const(g, loop->trips))));
    }
    return any;
}

static bs_status bs_cu_state_open(bs_device *device, const bs_device_client *client, uint8_t *memory, uint8_t *pinned,
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
    s->has_segments = layout.segments_at < layout.tables_bytes;
    s->varies = bs_graph_varies(client->graph) || client->graph->n_routers > 1;
    s->loops = s->device->conditional && bs_cu_goes_round(client->plan);
    s->launch_mode = client->plan->desc.launch_mode;
    bs_cu_session_program(s);
    void *there = NULL;
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    if (status == BS_OK)
        status = bs_cu_check(cudaHostGetDevicePointer(&there, pinned, 0), "finding pinned memory on the device", error);
    s->pinned_there = (uint64_t)(uintptr_t)there;
    if (status == BS_OK)
        status = bs_cu_session_carve(s, error);
    if (status == BS_OK)
        status = bs_cu_session_shared(s, error);
    if (status == BS_OK)
        status = bs_cu_session_streams(s, error);
#ifndef BS_NO_CUBLAS
    if (status == BS_OK && s->device->cublas_bytes)
        status = bs_cu_session_cublas(s, error);
#endif
    *session = s;
    if (status != BS_OK)
        bs_cu_state_close(s);
    return status;
}

/* ------------------------------------------------------------------------------------------------- waiting */

/* Waits for what is queued: then pinned memory may be written again. Waits once more where that fails: work that is
 * still under way must not overlap what follows the error. */
static bs_status bs_cu_settle(bs_device_session *s, bs_error *error)
{
    if (!s->in_flight)
        return BS_OK;
    s->in_flight = false;
    const bs_status status = bs_cu_check(cudaEventSynchronize(s->done), "waiting for the device", error);
    if (status != BS_OK)
        cudaStreamSynchronize(s->stream);
    return status;
}

static bs_status bs_cu_mark(bs_device_session *s, bs_error *error)
{
    const bs_status status = bs_cu_check(cudaEventRecord(s->done, s->stream), "recording an event", error);
    s->in_flight = status == BS_OK;
    if (status != BS_OK)
        cudaStreamSynchronize(s->stream);
    return status;
}

static bs_status bs_cu_session_settle(bs_device_session *s, bs_error *error)
{
    const bs_status status = bs_cu_mark(s, error);
    return status == BS_OK ? bs_cu_settle(s, error) : status;
}

/* The status of the run as the device says it; where it has failed, the node and what is wrong with its data. */
static bs_status bs_cu_tell_status(bs_device_session *s, const int32_t *said, int32_t *node)
{
    const int32_t *of = said + BS_DEVICE_FAULT;
    const bs_route_fault fault = {of[0], of[1], of[2], of[3]};
    if (said[BS_DEVICE_FAILED] == BS_OK)
        return BS_OK;
    *node = said[BS_DEVICE_NODE];
    bs_route_say(&fault, fault.row, s->client->fault);
    return (bs_status)said[BS_DEVICE_FAILED];
}

/* Copies between pinned and device memory. what: for the error message. */
static bs_status bs_cu_copy(bs_device_session *s, void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind,
                            const char *what, bs_error *error)
{
    return bs_cu_check(cudaMemcpyAsync(to, from, (size_t)bytes, kind, s->stream), what, error);
}

/* The same, and then waits. */
static bs_status bs_cu_fetch(bs_device_session *s, void *to, const void *from, uint64_t bytes, bs_error *error)
{
    const bs_status status = bs_cu_copy(s, to, from, bytes, cudaMemcpyDefault, "asking the device", error);
    return status == BS_OK ? bs_cu_session_settle(s, error) : status;
}

static void *bs_cu_session_load(bs_device_session *s, bs_error *error)
{
    return bs_cu_settle(s, error) == BS_OK ? s->pinned + s->layout.loading : NULL;
}

static bs_status bs_cu_session_loaded(bs_device_session *s, uint64_t offset, uint64_t bytes, bs_error *error)
{
    const bs_status status = bs_cu_copy(s, s->client->weights + offset, s->pinned + s->layout.loading, bytes,
                                        cudaMemcpyHostToDevice, "copying weights to the device", error);
    return status == BS_OK ? bs_cu_mark(s, error) : status;
}

#endif
