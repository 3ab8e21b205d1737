/* capture.cuh - launches as a captured graph: opening and closing a capture, conditional nodes in it, and the question
 * that decides those, whether there are rows, which the host may ask as well.
 *
 * Captures always use the session's private stream, whichever stream its runs are queued on, so nothing that the caller
 * or other sessions and threads queue meanwhile can end up in the graph. Relies on run.cuh.
 * Must never use what the toolkit or the driver lacks, and never capture a stream that others can reach. */
#ifndef BS_CUDA_CAPTURE
#define BS_CUDA_CAPTURE

#include "cuda/run.cuh"

#define BS_CU_CONDITIONAL (CUDART_VERSION >= 12040)

#if BS_CU_CONDITIONAL
typedef cudaGraphConditionalHandle bs_cu_handle;
#else
typedef unsigned long long bs_cu_handle;
#endif

/* ------------------------------------------------------------------------------------------------- rows */

/* Sets *any to whether any step of a branch has rows; decides: the condition of the node `handle` too. */
__global__ void bs_cu_any_rows(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count, int32_t *any,
                              bs_cu_handle handle, bool decides)
{
    const bs_cu_tile t = bs_cu_everything(&program, NULL, NULL);
    bool any_rows = false;
    for (int32_t k = bs_cu_thread(); k < count; k += bs_cu_threads())
        any_rows = any_rows || bs_cu_count(t, program.steps + first + k) > 0;
    const bool some = __syncthreads_or(any_rows) != 0 && program.status[BS_DEVICE_FAILED] == 0;
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

/* Queues the kernel that finds out whether any step of a branch has rows. decides: for the node `handle`. */
static bs_status bs_cu_queue_any_rows(bs_device_session *s, int32_t at, int32_t count, bs_cu_handle handle,
                                      bool decides, bs_error *error)
{
    int32_t steps = 0;
    for (int32_t k = at; k < at + count; k++)
        steps += s->launches.list[k].count;
    BS_LAUNCH(bs_cu_any_rows, 1, 64, 0, s->stream, s->program, s->launches.list[at].first, steps,
              s->program.status + BS_DEVICE_ANY, handle, decides);
    return bs_cu_launched(error);
}

/* The same of one launch for the host, which waits for the answer. */
static bs_status bs_cu_ask_host(bs_device_session *s, int32_t at, bool *any, bs_error *error)
{
    int32_t *fetched = reinterpret_cast<int32_t *>(s->pinned + s->layout.fetched);
    bs_status status = bs_cu_queue_any_rows(s, at, 1, 0, false, error);
    if (status == BS_OK)
        status = bs_cu_fetch(s, fetched, s->program.status + BS_DEVICE_ANY, sizeof *fetched, error);
    *any = status == BS_OK && fetched[0];
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
    if (bs_cu_has_nodes(s))
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
    if (bs_cu_has_nodes(s)) {
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
    if (!bs_cu_has_nodes(s))
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

/* From here on, what is queued on the private stream becomes nodes of `body`. */
static bs_status bs_cu_body_open(bs_device_session *s, cudaGraph_t body, bs_error *error)
{
    return bs_cu_check(
        cudaStreamBeginCaptureToGraph(s->private_stream, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal),
        "capturing a branch", error);
}

static bs_status bs_cu_body_close(bs_device_session *s, bs_error *error)
{
    cudaGraph_t same = NULL;
    return bs_cu_check(cudaStreamEndCapture(s->private_stream, &same), "capturing a branch", error);
}
#endif

/* -------------------------------------------------------------------------------------------------- a graph */

static bs_status bs_cu_graph_begin(bs_device_session *s, bs_error *error)
{
    bs_status status = BS_OK;
#if BS_CU_CONDITIONAL
    if (bs_cu_has_nodes(s))
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
        captured != s->graph && !bs_cu_has_nodes(s)) /* that one's are parts of its graph */
        cudaGraphDestroy(captured);
    cudaGetLastError();
    bs_cu_drop_graph(s);
    s->capturing = false;
    s->stream = s->run_stream;
    s->no_graph = true;
}

#endif
