/* graph.cuh - how the launches of a run reach the device: its *launch mode*.
 *
 *   STREAM       launch by launch; branches without rows are launched too, and their blocks return; so are the trips
 *                of a loop, but after every 64 the host fetches whether there is another
 *   GRAPH        the same, captured once as a CUDA graph: one launch a run; loops as many times as their bounds say
 *   CONDITIONAL  captured, with an IF node around each branch: launches whose steps are all on paths (CUDA 12.4), and a
 *                WHILE node around each body of a loop
 *   HOST         launch by launch; before a branch, and after a trip, the host fetches whether there are rows, and waits
 *   AUTO         STREAM, then GRAPH from the second run on
 *
 * All modes read the same counts in the device's memory, so results are the same bytes.
 *
 * Captures always use the session's private stream, whichever stream its runs are queued on, so nothing that the caller
 * or other sessions and threads queue meanwhile can end up in the graph. Relies on run.cuh.
 * Must never use what the toolkit or the driver lacks, and never capture a stream that others can reach. */
#ifndef BS_CUDA_GRAPH
#define BS_CUDA_GRAPH

#include "cuda/run.cuh"

#define BS_CU_CONDITIONAL (CUDART_VERSION >= 12040)

#if BS_CU_CONDITIONAL
typedef cudaGraphConditionalHandle bs_cu_handle;
#else
typedef unsigned long long bs_cu_handle;
#endif

/* Sets *any to whether any step of a branch has rows; decides: the condition of the node `handle` too. */
__global__ void bs_cu_any_rows(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count, int32_t *any,
                              bs_cu_handle handle, bool decides)
{
    const bs_cu_tile t = bs_cu_everything(&program, NULL);
    bool any_rows = false;
    for (int32_t k = bs_cu_thread(); k < count; k += bs_cu_threads())
        any_rows = any_rows || bs_cu_count(t, program.steps[first + k].domain) > 0;
    const bool some = __syncthreads_or(any_rows) != 0 && program.status[0] == 0;
    if (threadIdx.x != 0)
        return;
    *any = some;
#if BS_CU_CONDITIONAL
    if (decides)
        cudaGraphSetConditional(handle, some);
#else
    (void)handle, (void)decides;
#endif
}

/* Whether a step works on the rows of a path, of which there may be none; a body of a loop is not run without any. */
static bool bs_cu_on_path(const bs_device_session *s, const bs_device_step *step)
{
    const bs_domain *d = &s->client->graph->domains[step->domain];
    return d->kind == BS_DOMAIN_PATH && !bs_router_loops(s->client->graph, d->router);
}

/* How many launches from number `at` on are one branch: all of their steps are on paths, and none is a decision. */
static int32_t bs_cu_branch_length(const bs_device_session *s, int32_t at, int32_t end)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    int32_t count = 0;
    for (; at + count < end; count++) {
        const bs_cu_launch *l = &s->launches.list[at + count];
        if (l->kernel == BS_CU_none || l->kernel == BS_CU_extend || bs_cu_decides(l->kernel))
            return count;
        for (int32_t k = l->first; k < l->first + l->count; k++)
            if (!bs_cu_on_path(s, &steps[k]))
                return count;
    }
    return count;
}

/* Queues the kernel that finds out whether any step of a branch has rows. decides: for the conditional node `handle`. */
static bs_status bs_cu_ask_anybody(bs_device_session *s, int32_t at, int32_t count, bs_cu_handle handle, bool decides,
                                   bs_error *error)
{
    int32_t steps = 0;
    for (int32_t k = at; k < at + count; k++)
        steps += s->launches.list[k].count;
    BS_LAUNCH(bs_cu_any_rows, 1, 64, 0, s->stream, s->program, s->launches.list[at].first, steps, s->program.status + 2,
              handle, decides);
    return bs_cu_launched(error);
}

static bs_status bs_cu_run_launches(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t k = first; k < end && status == BS_OK; k++)
        status = bs_cu_run_launch(s, &s->launches.list[k], error);
    return status;
}

/* ------------------------------------------------------------------------------------------------- capture */

static void bs_cu_drop_graph(bs_device_session *s)
{
    if (s->exec) {
        cudaStreamSynchronize(s->run_stream); /* it may be running */
        cudaGraphExecDestroy(s->exec);
    }
    if (s->graph)
        cudaGraphDestroy(s->graph);
    s->exec = NULL;
    s->graph = NULL;
    s->last = NULL;
}

/* From here on, what is queued on the private stream becomes nodes that follow the last one. Thread-local: calls of
 * other threads do not disturb the capture. */
static bs_status bs_cu_capture_open(bs_device_session *s, bs_error *error)
{
#if BS_CU_CONDITIONAL
    if (s->launch_mode == BS_LAUNCH_CONDITIONAL)
        return bs_cu_check(cudaStreamBeginCaptureToGraph(s->private_stream, s->graph, s->last ? &s->last : NULL, NULL,
                                                         s->last ? 1 : 0, cudaStreamCaptureModeThreadLocal),
                           "capturing", error);
#endif
    return bs_cu_check(cudaStreamBeginCapture(s->private_stream, cudaStreamCaptureModeThreadLocal), "capturing", error);
}

static bs_status bs_cu_capture_close(bs_device_session *s, bs_error *error)
{
    cudaGraph_t captured = NULL;
    bs_status status = BS_OK;
#if BS_CU_CONDITIONAL
    if (s->launch_mode == BS_LAUNCH_CONDITIONAL) {
        cudaStreamCaptureStatus active;
        const cudaGraphNode_t *nodes = NULL;
        size_t count = 0;
#if CUDART_VERSION >= 13000
        status = bs_cu_check(cudaStreamGetCaptureInfo(s->private_stream, &active, NULL, NULL, &nodes, NULL, &count),
                             "capturing", error);
#else
        status = bs_cu_check(cudaStreamGetCaptureInfo_v2(s->private_stream, &active, NULL, NULL, &nodes, &count),
                             "capturing", error);
#endif
        if (status == BS_OK && count == 1)
            s->last = nodes[0];
    }
#endif
    const bs_status ended = bs_cu_check(cudaStreamEndCapture(s->private_stream, &captured), "capturing",
                                        status == BS_OK ? error : NULL);
    if (s->launch_mode != BS_LAUNCH_CONDITIONAL)
        s->graph = captured;
    return status == BS_OK ? ended : status;
}

#if BS_CU_CONDITIONAL
/* Adds an IF or a WHILE node after what was captured: its condition is `handle`, its body the empty graph *body. */
static bs_status bs_cu_add_conditional(bs_device_session *s, cudaGraphConditionalNodeType type,
                                       cudaGraphConditionalHandle handle, cudaGraph_t *body, bs_error *error)
{
    cudaGraphNodeParams params = {};
    cudaGraphNode_t node;
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    const cudaError_t e = cudaGraphAddNode(&node, s->graph, s->last ? &s->last : NULL, NULL, s->last ? 1 : 0, &params);
#else
    const cudaError_t e = cudaGraphAddNode(&node, s->graph, s->last ? &s->last : NULL, s->last ? 1 : 0, &params);
#endif
    if (e == cudaSuccess) {
        s->last = node;
        *body = params.conditional.phGraph_out[0];
    }
    return bs_cu_check(e, "adding a conditional node", error);
}

static bs_status bs_cu_capture_body(bs_device_session *s, cudaGraph_t body, int32_t at, int32_t count, bs_error *error)
{
    cudaGraph_t same = NULL;
    bs_status status = bs_cu_check(
        cudaStreamBeginCaptureToGraph(s->private_stream, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal),
        "capturing a branch", error);
    if (status != BS_OK)
        return status;
    status = bs_cu_run_launches(s, at, at + count, error);
    const bs_status ended = bs_cu_check(cudaStreamEndCapture(s->private_stream, &same), "capturing a branch",
                                        status == BS_OK ? error : NULL);
    return status == BS_OK ? ended : status;
}

static bs_status bs_cu_run_if(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    cudaGraphConditionalHandle handle;
    cudaGraph_t body = NULL;
    bs_status status = bs_cu_check(cudaGraphConditionalHandleCreate(&handle, s->graph, 0, 0), "making a condition",
                                   error);
    if (status == BS_OK)
        status = bs_cu_ask_anybody(s, at, count, handle, true, error);
    if (status != BS_OK)
        return status; /* still capturing: bs_cu_graph_give_up ends it */
    status = bs_cu_capture_close(s, error);
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_add_conditional(s, cudaGraphCondTypeIf, handle, &body, error);
    if (status == BS_OK)
        status = bs_cu_capture_body(s, body, at, count, error);
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}
#else
static bs_status bs_cu_run_if(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    return bs_cu_run_launches(s, at, at + count, error);
}
#endif

/* HOST: waits for whether a branch has rows. */
static bs_status bs_cu_ask_host(bs_device_session *s, int32_t at, int32_t count, bool *any, bs_error *error)
{
    int32_t *fetched = reinterpret_cast<int32_t *>(s->pinned + s->layout.fetched);
    bs_status status = bs_cu_ask_anybody(s, at, count, 0, false, error);
    if (status == BS_OK)
        status = bs_cu_fetch(s, fetched, s->program.status + 2, sizeof *fetched, error);
    *any = status == BS_OK && fetched[0];
    return status;
}

/* And launches it if so. */
static bs_status bs_cu_run_branch(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    bool any = false;
    const bs_status status = bs_cu_ask_host(s, at, count, &any, error);
    return any ? bs_cu_run_launches(s, at, at + count, error) : status;
}

/* --------------------------------------------------------------------------------------------------- loops */

/* A loop at top level that is being launched or captured. */
struct bs_cu_round {
    int32_t begin, trips; /* launch of its first decision; trips so far */
    bs_cu_handle handle;  /* of its WHILE node, */
    cudaGraphNode_t node; /* which is this, */
    cudaGraph_t around;   /* and stands in this graph */
};

struct bs_cu_rounds {
    bs_cu_round list[BS_MAX_LOOP_DEPTH];
    int32_t count;
};

enum {
    BS_CU_TRIPS = 64,       /* trips between two questions of the host, in mode STREAM */
    BS_CU_UNROLLED = 1 << 12 /* launches of a graph without WHILE nodes, at most */
};

static const bs_device_step *bs_cu_step_of(const bs_device_session *s, const bs_cu_launch *l)
{
    return bs_cu_table<bs_device_step>(s, s->layout.steps_at) + l->first;
}

/* The launch of a loop's second decision; its first is launch `begin`. */
static int32_t bs_cu_again_of(const bs_device_session *s, int32_t begin)
{
    const int32_t router = bs_cu_step_of(s, &s->launches.list[begin])->router;
    int32_t k = begin;
    while (s->launches.list[k].kernel != BS_CU_loop_again ||
           bs_cu_step_of(s, &s->launches.list[k])->router != router)
        k++;
    return k;
}

static const bs_router_info *bs_cu_loop_of(const bs_device_session *s, int32_t begin)
{
    return &s->client->graph->routers[bs_cu_step_of(s, &s->launches.list[begin])->router];
}

#if BS_CU_CONDITIONAL
/* From here on what is queued is captured into the body of a WHILE node. */
static bs_status bs_cu_open_while(bs_device_session *s, bs_cu_round *r, bs_error *error)
{
    cudaGraph_t body = NULL;
    bs_status status = bs_cu_check(cudaGraphConditionalHandleCreate(&r->handle, s->graph, 0, 0), "making a condition",
                                   error);
    r->around = s->graph;
    if (status == BS_OK)
        status = bs_cu_ask_anybody(s, bs_cu_again_of(s, r->begin), 1, r->handle, true, error);
    if (status != BS_OK)
        return status; /* still capturing: bs_cu_graph_give_up ends it */
    status = bs_cu_capture_close(s, error);
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_add_conditional(s, cudaGraphCondTypeWhile, r->handle, &body, error);
    if (status != BS_OK)
        return status;
    r->node = s->last;
    s->graph = body;
    s->last = NULL;
    status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}

static bs_status bs_cu_close_while(bs_device_session *s, const bs_cu_round *r, bs_error *error)
{
    bs_status status = bs_cu_ask_anybody(s, bs_cu_again_of(s, r->begin), 1, r->handle, true, error);
    if (status != BS_OK)
        return status;
    status = bs_cu_capture_close(s, error);
    s->graph = r->around;
    s->last = r->node;
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}
#else
static bs_status bs_cu_open_while(bs_device_session *s, bs_cu_round *r, bs_error *error)
{
    return (void)s, (void)r, bs_fail(error, BS_ERROR_UNSUPPORTED, "no WHILE nodes"); /* unreachable: graph.cuh */
}
static bs_status bs_cu_close_while(bs_device_session *s, const bs_cu_round *r, bs_error *error)
{
    return (void)s, (void)r, bs_fail(error, BS_ERROR_UNSUPPORTED, "no WHILE nodes");
}
#endif

/* Behind launch k, the first decision of a loop. */
static bs_status bs_cu_enter_loop(bs_device_session *s, bs_cu_rounds *rounds, int32_t k, bs_error *error)
{
    bs_cu_round *r = &rounds->list[rounds->count++]; /* the builder bounds how deep loops nest */
    memset(r, 0, sizeof *r);
    r->begin = k;
    return s->launch_mode == BS_LAUNCH_CONDITIONAL && s->capturing ? bs_cu_open_while(s, r, error) : BS_OK;
}

/* Behind launch *k, the second decision of the innermost loop: goes back to the first one, or on. */
static bs_status bs_cu_leave_loop(bs_device_session *s, bs_cu_rounds *rounds, int32_t *k, bs_error *error)
{
    bs_cu_round *r = &rounds->list[rounds->count - 1];
    if (s->launch_mode == BS_LAUNCH_CONDITIONAL && s->capturing) {
        rounds->count--;
        return bs_cu_close_while(s, r, error);
    }
    bs_status status = BS_OK;
    bool more = ++r->trips < bs_cu_loop_of(s, r->begin)->bound;
    if (more && !s->capturing && r->trips % (s->launch_mode == BS_LAUNCH_HOST ? 1 : BS_CU_TRIPS) == 0)
        status = bs_cu_ask_host(s, *k, 1, &more, error);
    *k = more ? r->begin : *k;
    rounds->count -= !more;
    return status;
}

/* Launches with all trips that there may be, cut at BS_CU_UNROLLED. */
static int32_t bs_cu_unrolled(const bs_device_session *s)
{
    int64_t launches = 0, times[BS_MAX_LOOP_DEPTH + 1] = {1};
    int32_t depth = 0;
    for (int32_t k = 0; k < s->launches.count && launches < BS_CU_UNROLLED; k++) {
        const bs_cu_launch *l = &s->launches.list[k];
        launches += times[depth];
        if (l->kernel == BS_CU_loop) {
            times[depth + 1] = bs_min_i64(times[depth] * bs_cu_loop_of(s, k)->bound, BS_CU_UNROLLED);
            depth++;
        }
        depth -= l->kernel == BS_CU_loop_again;
    }
    return (int32_t)bs_min_i64(launches, BS_CU_UNROLLED);
}

/* -------------------------------------------------------------------------------------------------- a run */

/* Launches [first, end) as the launch mode says. Where weights are streamed it is the interpreter that goes round
 * loops. */
static bs_status bs_cu_run_lowered(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    const bool asks = s->launch_mode == BS_LAUNCH_HOST,
               decides = s->launch_mode == BS_LAUNCH_CONDITIONAL && s->capturing,
               goes_round = !bs_plan_streams(s->client->plan);
    bs_status status = BS_OK;
    bs_cu_rounds rounds;
    rounds.count = 0;
    for (int32_t k = first; k < end && status == BS_OK;) {
        const int32_t branch = asks || decides ? bs_cu_branch_length(s, k, end) : 0,
                      kernel = s->launches.list[k].kernel;
        if (branch == 0)
            status = bs_cu_run_launch(s, &s->launches.list[k], error);
        else
            status = asks ? bs_cu_run_branch(s, k, branch, error) : bs_cu_run_if(s, k, branch, error);
        if (status == BS_OK && goes_round && kernel == BS_CU_loop)
            status = bs_cu_enter_loop(s, &rounds, k, error);
        else if (status == BS_OK && goes_round && kernel == BS_CU_loop_again)
            status = bs_cu_leave_loop(s, &rounds, &k, error);
        k += branch > 0 ? branch : 1;
    }
    if (decides && rounds.count > 0) /* it failed within */
        s->graph = rounds.list[0].around;
    return status;
}

/* Whether a graph holds extents and buffers: cuBLAS is told them by the host. */
static bool bs_cu_fixes_extents(const bs_device_session *s)
{
    bool fixes = false;
    for (int32_t k = 0; k < s->launches.count; k++)
        fixes = fixes || s->launches.list[k].kernel == BS_CU_cublas;
    return fixes;
}

/* Whether to capture this run: nothing in it needs the host, and with AUTO it is like the last one. */
static bool bs_cu_wants_graph(const bs_device_session *s, bool like)
{
    const bool wanted = s->launch_mode == BS_LAUNCH_GRAPH || s->launch_mode == BS_LAUNCH_CONDITIONAL ||
                        (s->launch_mode == BS_LAUNCH_AUTO && like);
    const bool unrolls = s->launch_mode != BS_LAUNCH_CONDITIONAL;
    if (!wanted || s->no_graph || bs_plan_streams(s->client->plan) || (unrolls && bs_cu_unrolled(s) == BS_CU_UNROLLED))
        return false;
    for (int32_t k = 0; k < s->launches.count; k++)
        if (s->launches.list[k].callback)
            return false;
    return true;
}

static bs_status bs_cu_graph_begin(bs_device_session *s, bs_error *error)
{
    bs_status status = BS_OK;
#if BS_CU_CONDITIONAL
    if (s->launch_mode == BS_LAUNCH_CONDITIONAL)
        status = bs_cu_check(cudaGraphCreate(&s->graph, 0), "making a graph", error);
#endif
    s->last = NULL;
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    if (s->capturing)
        s->stream = s->private_stream;
    return status;
}

/* Instantiates what was captured, and launches it for this run. */
static bs_status bs_cu_graph_end(bs_device_session *s, bs_error *error)
{
    bs_status status = bs_cu_capture_close(s, error);
    s->capturing = false;
    s->stream = s->run_stream;
#if CUDART_VERSION >= 12000
    if (status == BS_OK)
        status = bs_cu_check(cudaGraphInstantiate(&s->exec, s->graph, 0), "instantiating a graph", error);
#else
    if (status == BS_OK)
        status = bs_cu_check(cudaGraphInstantiate(&s->exec, s->graph, NULL, NULL, 0), "instantiating a graph", error);
#endif
    if (status == BS_OK)
        status = bs_cu_check(cudaGraphLaunch(s->exec, s->stream), "launching a graph", error);
    return status;
}

/* After a failure while capturing: the private stream is as before, and graphs are not tried again. */
static void bs_cu_graph_give_up(bs_device_session *s)
{
    cudaGraph_t captured = NULL;
    if (s->capturing && cudaStreamEndCapture(s->private_stream, &captured) == cudaSuccess && captured &&
        captured != s->graph && s->launch_mode != BS_LAUNCH_CONDITIONAL) /* that one's are parts of its graph */
        cudaGraphDestroy(captured);
    cudaGetLastError();
    bs_cu_drop_graph(s);
    s->capturing = false;
    s->stream = s->run_stream;
    s->no_graph = true;
}

#endif
