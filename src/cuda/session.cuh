/* session.cuh - what the library calls: a run begins, goes through its instructions, ends, and is waited for.
 *
 * A run is launches and copies on one stream. The host waits where it must hand something back: at the end, for a
 * callback, where weights come and go, and before it writes pinned memory that a copy may still read.
 * Relies on graph.cuh and slots.cuh. Must never wait between input and output of a resident model. */
#ifndef BS_CUDA_SESSION
#define BS_CUDA_SESSION

#include "cuda/graph.cuh"
#include "cuda/slots.cuh"

/* ---------------------------------------------------------------------------------------------------- run */

/* Queues the copies that come before all launches. Those of buffers may be shorter than in the run before, so they are
 * no part of a graph. */
static bs_status bs_cu_queue_inputs(bs_device_session *s, bool extents, bs_error *error)
{
    bs_status status = BS_OK;
    if (extents)
        status = bs_cu_upload(s, s->layout.dims_at, s->layout.tables_bytes - s->layout.dims_at, error);
    return status == BS_OK ? bs_cu_copy_bound(s, true, error) : status;
}

/* Queues the first launch. */
static bs_status bs_cu_queue_begin(bs_device_session *s, bs_error *error)
{
    BS_LAUNCH(bs_cu_begin, BS_CU_TABLE_BLOCKS, (unsigned)s->threads, 0, s->stream, s->program,
              s->client->graph->n_routers);
    return bs_cu_launched(error);
}

static bs_status bs_cu_queue_end(bs_device_session *s, bs_error *error)
{
    return bs_cu_copy(s, s->pinned + s->layout.results, s->memory + s->layout.decisions, s->layout.results_bytes,
                      cudaMemcpyDeviceToHost, "copying decisions from the device", error);
}

/* Queues the launches without a graph, after a capture that failed: none of them has been queued so far. */
static bs_status bs_cu_requeue(bs_device_session *s, int32_t launches, bs_error *error)
{
    bs_cu_graph_give_up(s);
    const bs_status status = bs_cu_queue_begin(s, error);
    return status == BS_OK ? bs_cu_run_lowered(s, 0, launches, error) : status;
}

static bs_status bs_cu_session_run(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    const bool captures = s->capturing;
    int32_t a = 0, b;
    if (s->replays)
        return BS_OK;
    while (a < s->launches.count && s->launches.list[a].instr < first)
        a++;
    for (b = a; b < s->launches.count && s->launches.list[b].instr < end;)
        b++;
    const bs_status status = bs_cu_run_lowered(s, a, b, captures ? NULL : error);
    return captures && status != BS_OK ? bs_cu_requeue(s, b, error) : status;
}

/* Writes what this run changes in the tables, and queues the copies before its launches. *like: the launches are those
 * of the run before. */
static bs_status bs_cu_prepare(bs_device_session *s, bool *like, bs_error *error)
{
    const bs_device_client *c = s->client;
    const size_t dims_bytes = (size_t)c->graph->n_dims * sizeof *s->dims;
    const bool first = !s->lowered, same_buffers = !first && bs_cu_same_buffers(s);
    const bool same_dims = !first && memcmp(s->dims, c->dims, dims_bytes) == 0,
               changes = !same_buffers || !same_dims || s->has_segments, lowered = bs_cu_is_lowered(s, same_buffers);
    bs_status status = BS_OK;
    if (changes || s->any_staged)
        status = bs_cu_settle(s, error);
    if (status == BS_OK && changes)
        status = bs_cu_write_extents(s, same_buffers, error);
    if (status == BS_OK && !lowered)
        status = bs_cu_write_tables(s, error);
    *like = !first && (!s->launches.fixed || (same_dims && same_buffers));
    memcpy(s->dims, c->dims, dims_bytes);
    for (int32_t k = 0; k < c->n_bound; k++)
        s->bound[k] = c->bound[k].buffer;
    if (status == BS_OK) {
        bs_cu_pack_inputs(s);
        status = bs_cu_queue_inputs(s, changes, error);
    }
    s->lowered = status == BS_OK; /* else all is written anew */
    return status;
}

/* A run whose launches are those of the last one launches its graph again, whatever its extents are. */
static bs_status bs_cu_session_begin(bs_device_session *s, bs_error *error)
{
    bool like = false;
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    s->replays = false;
    cudaGetLastError(); /* an error that was reported before is not one of this run's launches */
    if (status == BS_OK)
        status = bs_cu_prepare(s, &like, error);
    if (!like || s->device->launches)
        bs_cu_drop_graph(s);
    if (status != BS_OK)
        return status;
    bs_cu_ledger_begin(s);
    s->replays = s->exec != NULL;
    if (s->replays)
        return bs_cu_check(cudaGraphLaunch(s->exec, s->stream), "launching a graph", error);
    if (bs_cu_wants_graph(s, like) && (bs_cu_graph_begin(s, NULL) != BS_OK || bs_cu_queue_begin(s, NULL) != BS_OK))
        bs_cu_graph_give_up(s);
    return s->capturing ? BS_OK : bs_cu_queue_begin(s, error);
}

static bs_status bs_cu_session_end(bs_device_session *s, bs_error *error)
{
    const bool captures = s->capturing;
    bs_status status = s->replays ? BS_OK : bs_cu_queue_end(s, captures ? NULL : error);
    if (captures && (status != BS_OK || bs_cu_graph_end(s, NULL) != BS_OK)) {
        status = bs_cu_requeue(s, s->launches.count, error);
        status = status == BS_OK ? bs_cu_queue_end(s, error) : status;
    }
    if (status == BS_OK)
        status = bs_cu_copy_bound(s, false, error);
    const bs_status marked = bs_cu_mark(s, status == BS_OK ? error : NULL);
    return status == BS_OK ? marked : status;
}

static bs_status bs_cu_session_launch_mode(bs_device_session *s, int32_t launch_mode, bs_error *error)
{
    const bs_status status = bs_cu_settle(s, error);
    if (launch_mode == BS_LAUNCH_CONDITIONAL && !s->device->conditional)
        return bs_fail(error, BS_ERROR_UNSUPPORTED,
                       "CUDA graphs cannot decide here: toolkit and driver of CUDA 12.4 are needed");
    bs_cu_drop_graph(s);
    s->launch_mode = launch_mode;
    s->no_graph = false;
    return status;
}

/* ------------------------------------------------------------------------------------------------- the end */

/* What routers decided, for bs_decision_get. */
static void bs_cu_tell(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    const uint8_t *results = s->pinned + s->layout.results;
    for (int32_t r = 1; r < c->graph->n_routers; r++) {
        const bs_device_decision *d = bs_cu_decision_at(s, r);
        if (!d->live)
            continue;
        const int32_t top = bs_plan_top_domain(c->graph, d->domain);
        memcpy(c->counts + c->graph->routers[r].first_path, results + d->sums, (size_t)d->paths * sizeof *c->counts);
        memcpy(&c->dropped[r], results + d->dropped, sizeof c->dropped[r]);
        memcpy(c->chosen[r], results + d->top, (size_t)c->domains[top].count * sizeof *c->chosen[r]);
    }
}

static bs_status bs_cu_session_wait(bs_device_session *s, int32_t *node, bs_error *error)
{
    const bs_status status = bs_cu_settle(s, error);
    *node = 0;
    if (status != BS_OK)
        return status;
    const int32_t *said = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.status);
    bs_cu_tell_extents(s);
    const bool failed = said[BS_DEVICE_FAILED] != BS_OK; /* then outputs are left alone */
    for (int32_t n = 1; !failed && n < s->client->graph->n_nodes; n++)
        if (bs_cu_writes(s, n))
            bs_cu_unpack(s, n);
    bs_cu_tell(s);
    bs_cu_ledger_end(s);
    return bs_cu_tell_status(s, said, node);
}

/* memory: the device's or the caller's, in one allocation. */
static bs_status bs_cu_session_zero(bs_device_session *s, uint8_t *memory, uint64_t bytes)
{
    void *there = bs_cu_there(memory);
    if (bs_cu_settle(s, NULL) != BS_OK)
        return BS_ERROR_PLATFORM;
    if (!there) {
        memset(memory, 0, (size_t)bytes);
        return BS_OK;
    }
    if (bs_cu_check(cudaMemsetAsync(there, 0, (size_t)bytes, s->stream), "clearing a state", NULL) !=
        BS_OK)
        return BS_ERROR_PLATFORM;
    return bs_cu_mark(s, NULL);
}

static void bs_cu_session_close(bs_device_session *s)
{
    bs_cu_settle(s, NULL);
    bs_cu_drop_graph(s);
    bs_cu_state_close(s);
}

const bs_device_api bs_cu_api = {
    bs_cu_state_open,    bs_cu_session_close,       bs_cu_session_load,   bs_cu_session_loaded,
    bs_cu_session_zero,  bs_cu_session_launch_mode, bs_cu_session_begin,  bs_cu_session_run,
    bs_cu_session_end,   bs_cu_session_wait,        bs_cu_session_part,   bs_cu_session_place,
    bs_cu_session_fetch_counts, bs_cu_session_fetch_extents, bs_cu_session_guess,
    bs_cu_session_settle, bs_cu_session_copy};

#endif
