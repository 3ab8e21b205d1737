/* capture.cpp - stream capture: which streams are captured into which graph, what their next node depends on, and what
 * may not be called meanwhile. Relies on graph.cpp for nodes. Must never run work, and must refuse what a device
 * refuses: unjoined streams, other threads, dependencies on work outside. */
#include "engine.h"

#include <pthread.h>
#include <stddef.h>

namespace cuda_cpu {

struct Tail {
    CUstream_st *stream;
    Nodes nodes; /* what the stream's next node depends on */
    Tail *next;
};

struct Capture {
    std::atomic<int> references{1};
    CUgraph_st *graph = nullptr;
    bool makes_graph = true; /* not into a graph that somebody else owns */
    CUstream_st *origin = nullptr;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    pthread_t thread;
    bool active = true, spoilt = false;
    unsigned long long id = 0;
    Tail *tails = nullptr;
    Capture *next = nullptr; /* of all active ones */
};

struct EventCapture {
    Capture *capture;
    Nodes nodes;
};

static Lock list_lock;
static Capture *captures;
static __thread int thread_mode; /* cudaStreamCaptureModeGlobal is 0 */

static void capture_drop(Capture *capture)
{
    if (capture->references.fetch_sub(1) == 1)
        delete capture;
}

static Tail *tail_of(Capture *capture, CUstream_st *stream)
{
    Tail *tail = capture->tails;
    while (tail && tail->stream != stream)
        tail = tail->next;
    return tail;
}

static Tail *tail_make(Capture *capture, CUstream_st *stream)
{
    Tail *tail = new Tail{stream, Nodes(), capture->tails};
    capture->tails = tail;
    stream_capture_set(stream, capture);
    return tail;
}

static void nodes_unite(Nodes &to, const Nodes &from)
{
    for (CUgraphNode_st *node : from) {
        bool there = false;
        for (CUgraphNode_st *old : to)
            there = there || old == node;
        if (!there)
            to.push_back(node);
    }
}

void capture_spoil(Capture *capture) { capture->spoilt = true; }

cudaError_t capture_add(Capture *capture, CUstream_st *stream, Work *work)
{
    if (capture->spoilt)
        return cudaErrorStreamCaptureInvalidated;
    Tail *tail = tail_of(capture, stream);
    CUgraphNode_st *node = graph_add(capture->graph, tail->nodes, work);
    tail->nodes.assign(1, node);
    return cudaSuccess;
}

cudaError_t capture_forbids()
{
    cudaError_t error = cudaSuccess;
    if (thread_mode == cudaStreamCaptureModeRelaxed)
        return error;
    Held held(list_lock);
    for (Capture *capture = captures; capture; capture = capture->next) {
        const bool mine = pthread_equal(capture->thread, pthread_self()) != 0;
        const bool global = capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
        if (capture->mode == cudaStreamCaptureModeRelaxed || !(mine || global))
            continue;
        capture_spoil(capture);
        error = cudaErrorStreamCaptureUnsupported;
    }
    return error;
}

bool capture_of_blocking_stream()
{
    Held held(list_lock);
    for (Capture *capture = captures; capture; capture = capture->next)
        for (Tail *tail = capture->tails; tail; tail = tail->next)
            if (stream_blocking(tail->stream)) {
                capture_spoil(capture);
                return true;
            }
    return false;
}

/* ---- events ---- */

EventCapture *capture_mark(CUstream_st *stream)
{
    Capture *capture = stream_capture(stream);
    capture->references.fetch_add(1);
    return new EventCapture{capture, tail_of(capture, stream)->nodes};
}

void capture_mark_drop(EventCapture *mark)
{
    capture_drop(mark->capture);
    delete mark;
}

cudaError_t capture_join(CUstream_st *stream, EventCapture *mark)
{
    Capture *capture = mark->capture, *present = stream_capture(stream);
    if (!capture->active) {
        trouble("a stream waits for an event of a capture that has ended");
        return cudaErrorInvalidValue;
    }
    if (present && present != capture) {
        capture_spoil(present);
        capture_spoil(capture);
        return cudaErrorStreamCaptureMerge;
    }
    if (stream == stream_find(nullptr)) {
        capture_spoil(capture);
        return cudaErrorStreamCaptureImplicit;
    }
    if (capture->spoilt)
        return cudaErrorStreamCaptureInvalidated;
    Held held(list_lock);
    Tail *tail = present ? tail_of(capture, stream) : tail_make(capture, stream);
    nodes_unite(tail->nodes, mark->nodes);
    return cudaSuccess;
}

/* ---- begin and end ---- */

static cudaError_t capture_begin(cudaStream_t handle, CUgraph_st *into, const Nodes &needs, cudaStreamCaptureMode mode)
{
    static std::atomic<unsigned long long> ids{0};
    CUstream_st *stream = stream_find(handle);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (stream == stream_find(nullptr))
        return cudaErrorStreamCaptureUnsupported;
    if (stream_capture(stream))
        return cudaErrorIllegalState;
    Capture *capture = new Capture();
    capture->graph = into ? into : graph_make();
    capture->makes_graph = !into;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->id = ids.fetch_add(1) + 1;
    {
        Held held(list_lock);
        tail_make(capture, stream)->nodes = needs;
        capture->next = captures;
        captures = capture;
    }
    uint64_t random = capture->id;
    delay_now(&random); /* with delays other threads get in between: what they queue here is captured too */
    return cudaSuccess;
}

static bool all_joined(Capture *capture)
{
    const Nodes &end = tail_of(capture, capture->origin)->nodes;
    for (Tail *tail = capture->tails; tail; tail = tail->next)
        if (!graph_reaches(end, tail->nodes))
            return false;
    return true;
}

static void capture_close(Capture *capture)
{
    Held held(list_lock);
    Capture **at = &captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    while (Tail *tail = capture->tails) {
        capture->tails = tail->next;
        stream_capture_set(tail->stream, nullptr);
        delete tail;
    }
    capture->active = false;
}

static cudaError_t capture_end(cudaStream_t handle, CUgraph_st **graph)
{
    *graph = nullptr;
    CUstream_st *stream = stream_find(handle);
    Capture *capture = stream ? stream_capture(stream) : nullptr;
    if (!capture)
        return stream ? cudaErrorIllegalState : cudaErrorInvalidResourceHandle;
    if (capture->origin != stream)
        return cudaErrorStreamCaptureUnmatched;
    if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->thread, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    cudaError_t error = cudaSuccess;
    if (capture->spoilt)
        error = cudaErrorStreamCaptureInvalidated;
    else if (!all_joined(capture))
        error = cudaErrorStreamCaptureUnjoined;
    capture_close(capture);
    if (error == cudaSuccess)
        *graph = capture->graph;
    else if (capture->makes_graph)
        graph_destroy(capture->graph);
    capture_drop(capture);
    return error;
}

struct CaptureInfo {
    cudaStreamCaptureStatus status;
    unsigned long long id;
    CUgraph_st *graph;
    const Nodes *nodes;
};

static cudaError_t capture_info(cudaStream_t handle, CaptureInfo *info)
{
    CUstream_st *stream = stream_find(handle);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    *info = CaptureInfo{cudaStreamCaptureStatusNone, 0, nullptr, nullptr};
    Capture *capture = stream_capture(stream);
    if (!capture)
        return cudaSuccess;
    info->status = capture->spoilt ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    info->id = capture->id;
    info->graph = capture->graph;
    info->nodes = &tail_of(capture, stream)->nodes;
    return cudaSuccess;
}

static cudaError_t capture_info_give(cudaStream_t handle, cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count_of)
{
    CUDA_CPU_BEGIN();
    CaptureInfo info;
    const cudaError_t error = capture_info(handle, &info);
    if (error != cudaSuccess)
        return fail(error);
    *status = info.status;
    if (id)
        *id = info.id;
    if (graph)
        *graph = info.graph;
    if (nodes)
        *nodes = info.nodes ? info.nodes->data() : nullptr;
    if (count_of)
        *count_of = info.nodes ? info.nodes->size() : 0;
    return cudaSuccess;
}

static cudaError_t capture_depend(cudaStream_t handle, cudaGraphNode_t *nodes, size_t count_of, unsigned flags)
{
    CUDA_CPU_BEGIN();
    CUstream_st *stream = stream_find(handle);
    Capture *capture = stream ? stream_capture(stream) : nullptr;
    if (!capture)
        return fail(cudaErrorIllegalState);
    Tail *tail = tail_of(capture, stream);
    if (flags == cudaStreamSetCaptureDependencies)
        tail->nodes.clear();
    for (size_t i = 0; i < count_of; i++)
        nodes_unite(tail->nodes, Nodes(1, nodes[i]));
    return cudaSuccess;
}

} // namespace cuda_cpu

using namespace cuda_cpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    CUDA_CPU_BEGIN();
    return fail(capture_begin(stream, nullptr, Nodes(), mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    CUgraph_st *made = nullptr;
    cudaError_t error = begin();
    if (error == cudaSuccess) {
        error = fail(capture_end(stream, &made));
    /* asked to fail: the capture ends even so */
    } else if (stream_find(stream) && stream_capture(stream_find(stream))) {
        capture_spoil(stream_capture(stream_find(stream)));
        capture_end(stream, &made);
    }
    if (graph)
        *graph = made;
    return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    return capture_info_give(stream, status, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    CUDA_CPU_BEGIN();
    const int before = thread_mode;
    thread_mode = *mode;
    *mode = static_cast<cudaStreamCaptureMode>(before);
    return cudaSuccess;
}

#if CUDART_VERSION >= 12030
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *nodes,
                                          const cudaGraphEdgeData *, size_t count_of, cudaStreamCaptureMode mode)
{
    CUDA_CPU_BEGIN();
    if (!alive(graph, GRAPH))
        return fail(cudaErrorInvalidValue);
    return fail(capture_begin(stream, graph, Nodes(nodes, nodes + count_of), mode));
}
#endif

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *count_of)
{
    if (edges)
        *edges = nullptr;
    return capture_info_give(stream, status, id, graph, nodes, count_of);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *,
                                                size_t count_of, unsigned flags)
{
    return capture_depend(stream, nodes, count_of, flags);
}
#else
#undef cudaStreamGetCaptureInfo
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id)
{
    return capture_info_give(stream, status, id, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count_of)
{
    return capture_info_give(stream, status, id, graph, nodes, count_of);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, size_t count_of,
                                                unsigned flags)
{
    return capture_depend(stream, nodes, count_of, flags);
}
#if CUDART_VERSION >= 12030
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                                        const cudaGraphEdgeData **edges, size_t *count_of)
{
    if (edges)
        *edges = nullptr;
    return capture_info_give(stream, status, id, graph, nodes, count_of);
}

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                   const cudaGraphEdgeData *, size_t count_of, unsigned flags)
{
    return capture_depend(stream, nodes, count_of, flags);
}
#endif
#endif

} // extern "C"
