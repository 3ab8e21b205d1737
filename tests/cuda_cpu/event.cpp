/* event.cpp - events. Each recording makes a moment, and waits refer to the moment, so recording again disturbs none.
 * Relies on stream.cpp and capture.cpp. Must never hand on more order than the recorded work's. */
#include "engine.h"

#include <time.h>

using namespace cuda_cpu;

struct CUevent_st {
    unsigned flags = 0;
    Moment *moment = nullptr;      /* null: never recorded */
    EventCapture *mark = nullptr;  /* last recorded in a captured stream */
};

namespace cuda_cpu {

static int64_t clock_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

void Moment::pass()
{
    at_ns = clock_ns();
    order_release(&tag);
    passed.store(1);
    futex_wake(&passed, 1 << 30);
}

void Moment::wait()
{
    while (!passed.load())
        futex_wait(&passed, 0);
    order_acquire(&tag);
}

class MomentWork : public Work {
public:
    MomentWork(Moment *which, bool waits) : moment(which), waiting(waits) { moment->hold(); }
    ~MomentWork() override { moment->drop(); }
    void run(Worker &) override { waiting ? moment->wait() : moment->pass(); }

private:
    Moment *moment;
    bool waiting;
};

Work *work_that_passes(Moment *moment) { return new MomentWork(moment, false); }
Work *work_that_waits(Moment *moment) { return new MomentWork(moment, true); }

static void event_forget(CUevent_st *event)
{
    if (event->moment)
        event->moment->drop();
    if (event->mark)
        capture_mark_drop(event->mark);
    event->moment = nullptr;
    event->mark = nullptr;
}

static cudaError_t moment_of(cudaEvent_t event, Moment **moment)
{
    if (!alive(event, EVENT)) {
        trouble("an event that does not exist is used");
        return cudaErrorInvalidResourceHandle;
    }
    if (event->mark)
        return cudaErrorCapturedEvent;
    *moment = event->moment;
    return cudaSuccess;
}

} // namespace cuda_cpu

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    CUDA_CPU_BEGIN();
    if (flags & ~static_cast<unsigned>(cudaEventBlockingSync | cudaEventDisableTiming))
        return fail(cudaErrorInvalidValue);
    CUevent_st *made = new CUevent_st();
    made->flags = flags;
    alive_add(made, EVENT);
    *event = made;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!alive_remove(event, EVENT)) {
        trouble("cudaEventDestroy of an event that does not exist");
        return fail(cudaErrorInvalidResourceHandle);
    }
    if (event->moment && !event->moment->passed.load() && !all_fails())
        trouble("cudaEventDestroy of an event that has not come to pass");
    event_forget(event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags)
{
    CUDA_CPU_BEGIN();
    CUstream_st *stream = stream_find(handle);
    if (!stream || !alive(event, EVENT) || flags) {
        trouble("cudaEventRecord with a stream or an event that does not exist");
        return fail(flags ? cudaErrorNotSupported : cudaErrorInvalidResourceHandle);
    }
    event_forget(event);
    if (stream_capture(stream)) {
        event->mark = capture_mark(stream);
        return cudaSuccess;
    }
    event->moment = new Moment();
    return stream_enqueue(handle, work_that_passes(event->moment));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    return cudaEventRecordWithFlags(event, handle, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned)
{
    CUDA_CPU_BEGIN();
    CUstream_st *stream = stream_find(handle);
    if (!stream || !alive(event, EVENT)) {
        trouble("cudaStreamWaitEvent with a stream or an event that does not exist");
        return fail(cudaErrorInvalidResourceHandle);
    }
    if (event->mark)
        return fail(capture_join(stream, event->mark));
    if (!event->moment)
        return cudaSuccess;
    if (stream_capture(stream)) { /* the graph would depend on work outside */
        capture_spoil(stream_capture(stream));
        return fail(cudaErrorStreamCaptureIsolation);
    }
    return stream_enqueue(handle, work_that_waits(event->moment));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    CUDA_CPU_BEGIN();
    Moment *moment = nullptr;
    const cudaError_t error = moment_of(event, &moment);
    if (error != cudaSuccess)
        return fail(error);
    count(SYNCHRONISATIONS);
    if (moment)
        moment->wait();
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    CUDA_CPU_BEGIN();
    Moment *moment = nullptr;
    const cudaError_t error = moment_of(event, &moment);
    if (error != cudaSuccess)
        return fail(error);
    if (!moment)
        return cudaSuccess;
    if (!moment->passed.load())
        return cudaErrorNotReady;
    order_acquire(&moment->tag);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    CUDA_CPU_BEGIN();
    Moment *first = nullptr, *second = nullptr;
    cudaError_t error = moment_of(from, &first);
    if (error == cudaSuccess)
        error = moment_of(to, &second);
    if (error != cudaSuccess)
        return fail(error);
    if (!first || !second || (from->flags | to->flags) & cudaEventDisableTiming)
        return fail(cudaErrorInvalidResourceHandle);
    if (!first->passed.load() || !second->passed.load())
        return fail(cudaErrorNotReady);
    *milliseconds = static_cast<float>(static_cast<double>(second->at_ns - first->at_ns) / 1e6);
    return cudaSuccess;
}

} // extern "C"
