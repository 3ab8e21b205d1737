/* stream.cpp - streams: an OS thread and a queue each, the legacy stream's rules, waiting for the device. Relies on
 * lock.h, so that a sanitizer sees no order but the one stated here: what the host did before enqueueing is known to
 * the work, what work did is known to who synchronised. Must never run work on the caller's thread. */
#include "engine.h"

#include <pthread.h>
#include <vector>

using namespace cuda_cpu;

struct Queued {
    Work *work;
    Queued *next;
    Tag handed;
};

struct CUstream_st {
    unsigned flags = 0;
    int priority = 0;
    Capture *capture = nullptr;
    CUstream_st *next = nullptr; /* of all streams */
    std::atomic<int> references{1};

    Lock lock;
    Signal more, progress;
    Queued *first = nullptr, *last = nullptr;
    uint64_t pushed = 0, done = 0, legacy_seen = 0;
    bool stop = false, stopped = false;
    Tag finished = 0;

    Worker worker;
    uint64_t random = 0;
};

namespace cuda_cpu {

static Lock list_lock;
static CUstream_st *all_streams;
static Tag ended_streams; /* what streams did that are no more: whoever frees memory has waited for it */
static std::atomic<uint64_t> legacy_pushed{0};

/* ---- the thread ---- */

static Queued *queue_take(CUstream_st *stream)
{
    Held held(stream->lock);
    stream->more.wait(held, [&] { return stream->stop || stream->first; });
    Queued *queued = stream->first;
    if (queued) {
        stream->first = queued->next;
        if (!stream->first)
            stream->last = nullptr;
    }
    return queued;
}

static void *stream_main(void *argument)
{
    CUstream_st *stream = static_cast<CUstream_st *>(argument);
    while (Queued *queued = queue_take(stream)) {
        delay_now(&stream->random);
        order_acquire(&queued->handed);
        device_open();
        queued->work->run(stream->worker);
        device_close();
        queued->work->drop();
        delete queued;
        order_release(&stream->finished);
        Held held(stream->lock);
        stream->done++;
        stream->progress.tell();
    }
    Held held(stream->lock);
    stream->stopped = true;
    stream->progress.tell();
    return nullptr;
}

static void stream_start(CUstream_st *stream)
{
    static std::atomic<uint64_t> streams_made{0};
    stream->random = streams_made.fetch_add(1);
    pthread_t thread;
    if (pthread_create(&thread, nullptr, stream_main, stream))
        die("no thread for another stream");
    pthread_detach(thread); /* a join would tell the host what the stream did */
    Held held(list_lock);
    stream->next = all_streams;
    all_streams = stream;
}

static CUstream_st *legacy()
{
    static CUstream_st *stream = [] {
        CUstream_st *made = new CUstream_st();
        stream_start(made);
        return made;
    }();
    return stream;
}

static bool is_default(cudaStream_t handle)
{
    return !handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
}

CUstream_st *stream_find(cudaStream_t handle)
{
    if (is_default(handle))
        return legacy();
    return alive(handle, STREAM) ? handle : nullptr;
}

Capture *stream_capture(const CUstream_st *stream) { return stream->capture; }
void stream_capture_set(CUstream_st *stream, Capture *capture) { stream->capture = capture; }
bool stream_blocking(const CUstream_st *stream) { return !(stream->flags & cudaStreamNonBlocking); }

/* ---- queues ---- */

void stream_push(CUstream_st *stream, Work *work)
{
    Queued *queued = new Queued{work, nullptr, 0};
    order_release(&queued->handed);
    Held held(stream->lock);
    if (stream->last)
        stream->last->next = queued;
    else
        stream->first = queued;
    stream->last = queued;
    stream->pushed++;
    stream->more.tell();
}

/* `later` goes on when what is in `earlier` now is done. */
static void stream_follow(CUstream_st *later, CUstream_st *earlier)
{
    Moment *moment = new Moment();
    Work *wait = work_that_waits(moment);
    stream_push(earlier, work_that_passes(moment));
    stream_push(later, wait);
    moment->drop();
}

static bool busy(CUstream_st *stream)
{
    Held held(stream->lock);
    return stream->done < stream->pushed;
}

/* The legacy stream waits for all blocking streams, and they for it. */
static void legacy_rules(CUstream_st *stream)
{
    CUstream_st *zero = legacy();
    if (stream != zero) {
        if (stream_blocking(stream) && stream->legacy_seen != legacy_pushed.load()) {
            stream->legacy_seen = legacy_pushed.load();
            stream_follow(stream, zero);
        }
        return;
    }
    legacy_pushed.fetch_add(1);
    Held held(list_lock);
    for (CUstream_st *other = all_streams; other; other = other->next)
        if (other != zero && stream_blocking(other) && !other->capture)
            stream_follow(zero, other);
}

cudaError_t stream_enqueue(cudaStream_t handle, Work *work)
{
    CUstream_st *stream = stream_find(handle);
    cudaError_t error = cudaSuccess;
    if (!stream) {
        trouble("work for a stream that does not exist");
        error = cudaErrorInvalidResourceHandle;
    } else if (stream->capture) {
        error = capture_add(stream->capture, stream, work);
    } else if (stream == legacy() && capture_of_blocking_stream()) {
        error = cudaErrorStreamCaptureImplicit;
    } else {
        legacy_rules(stream);
        stream_push(stream, work);
        return cudaSuccess;
    }
    if (error != cudaSuccess)
        work->drop();
    return fail(error);
}

/* ---- waiting ---- */

static void wait_without_order(CUstream_st *stream)
{
    Held held(stream->lock);
    const uint64_t target = stream->pushed;
    stream->progress.wait(held, [&] { return stream->done >= target; });
}

void stream_wait(CUstream_st *stream)
{
    wait_without_order(stream);
    order_acquire(&stream->finished);
}

static void stream_drop(CUstream_st *stream)
{
    if (stream->references.fetch_sub(1) == 1)
        delete stream;
}

static std::vector<CUstream_st *> streams_held()
{
    std::vector<CUstream_st *> held_streams;
    Held held(list_lock);
    for (CUstream_st *stream = all_streams; stream; stream = stream->next) {
        stream->references.fetch_add(1);
        held_streams.push_back(stream);
    }
    return held_streams;
}

void device_wait(bool with_order)
{
    if (with_order)
        order_acquire(&ended_streams);
    for (CUstream_st *stream : streams_held()) {
        wait_without_order(stream);
        if (with_order)
            order_acquire(&stream->finished);
        stream_drop(stream);
    }
}

void as_janitor(void (*what)(void *), void *argument)
{
    if (!thread_sanitizer)
        return what(argument);
    void *self = identity_now(), *janitor = identity_make();
    std::vector<CUstream_st *> streams = streams_held();
    identity_take(janitor);
    order_acquire(&ended_streams);
    for (CUstream_st *stream : streams)
        order_acquire(&stream->finished);
    what(argument);
    identity_take(self);
    identity_destroy(janitor);
    for (CUstream_st *stream : streams)
        stream_drop(stream);
}

static void stream_unlist(CUstream_st *stream)
{
    Held held(list_lock);
    CUstream_st **at = &all_streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
}

class HostFunction : public Work {
public:
    HostFunction(cudaHostFn_t what, void *with) : function(what), argument(with) {}
    void run(Worker &) override { function(argument); }
    bool is_host_function() const override { return true; }

private:
    cudaHostFn_t function;
    void *argument;
};

static void stream_delete(void *handle)
{
    CUstream_st *stream = static_cast<CUstream_st *>(handle);
    order_acquire(&stream->finished); /* it is in no list any more */
    order_release(&ended_streams);
    stream_drop(stream);
}

} // namespace cuda_cpu

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority)
{
    CUDA_CPU_BEGIN();
    if (flags & ~static_cast<unsigned>(cudaStreamNonBlocking))
        return fail(cudaErrorInvalidValue);
    CUstream_st *stream = new CUstream_st();
    stream->flags = flags;
    stream->priority = priority < -1 ? -1 : priority > 0 ? 0 : priority;
    stream->legacy_seen = 0;
    stream_start(stream);
    alive_add(stream, STREAM);
    *handle = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags)
{
    return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *handle) { return cudaStreamCreateWithPriority(handle, 0, 0); }

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    CUDA_CPU_BEGIN();
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -1;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags)
{
    CUDA_CPU_BEGIN();
    const CUstream_st *stream = stream_find(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    *flags = stream->flags;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority)
{
    CUDA_CPU_BEGIN();
    const CUstream_st *stream = stream_find(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    *priority = stream->priority;
    return cudaSuccess;
}

/* A device would let the work finish by itself; here a busy stream is worth a word. */
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    if (!alive_remove(handle, STREAM)) {
        trouble("cudaStreamDestroy of a stream that does not exist");
        return fail(cudaErrorInvalidResourceHandle);
    }
    if (handle->capture)
        trouble("cudaStreamDestroy of a stream that is being captured");
    if (busy(handle) && !all_fails())
        trouble("cudaStreamDestroy of a stream that is busy");
    wait_without_order(handle);
    stream_unlist(handle);
    {
        Held held(handle->lock);
        handle->stop = true;
        handle->more.tell();
        handle->progress.wait(held, [&] { return handle->stopped; });
    }
    as_janitor(stream_delete, handle);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    CUDA_CPU_BEGIN();
    CUstream_st *stream = stream_find(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (stream->capture) {
        capture_spoil(stream->capture);
        return fail(cudaErrorStreamCaptureUnsupported);
    }
    count(SYNCHRONISATIONS);
    stream_wait(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    CUDA_CPU_BEGIN();
    CUstream_st *stream = stream_find(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (stream->capture) {
        capture_spoil(stream->capture);
        return fail(cudaErrorStreamCaptureUnsupported);
    }
    if (busy(stream))
        return cudaErrorNotReady;
    order_acquire(&stream->finished);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    CUDA_CPU_BEGIN();
    const cudaError_t forbidden = capture_forbids();
    if (forbidden != cudaSuccess)
        return fail(forbidden);
    count(SYNCHRONISATIONS);
    device_wait(true);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *argument)
{
    CUDA_CPU_BEGIN();
    return stream_enqueue(handle, new HostFunction(function, argument));
}

} // extern "C"
