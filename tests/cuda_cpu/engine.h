/* engine.h - what the engine's files know of each other: failing, counting, work, streams, moments, graphs, memory.
 * Relies on the toolkit's headers for handles. Must never be included by a source under test.
 *
 * Anything that threads share behind a lock is linked, not in vectors: memmove is intercepted, and the thread
 * sanitizer would take it for the program's own unordered access. */
#ifndef CUDA_CPU_ENGINE_H
#define CUDA_CPU_ENGINE_H

#include "control.h"
#include "lock.h"
#include "sanitizer.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <utility>
#include <vector>

struct cuda_cpu_kernel;

namespace cuda_cpu {

/* ---- control.cpp: settings, counts, failures, misuse ---- */

long environment(const char *name, long otherwise);

enum Count {
    CALLS,
    LAUNCHES,
    GRAPH_LAUNCHES,
    INSTANTIATIONS,
    KERNELS,
    NODES,
    SYNCHRONISATIONS,
    COPIES,
    COPIED_BYTES,
    PAGEABLE_COPIES,
    DEVICE_ALLOCATIONS,
    HOST_ALLOCATIONS,
    HIDDEN_ALLOCATIONS,
    FREES,
    LIVE_ALLOCATIONS,
    LIVE_STREAMS,
    LIVE_EVENTS,
    LIVE_GRAPHS,
    COUNTS
};
void count(Count what, int64_t by = 1);

enum Order { FORWARD, REVERSE, RANDOM };
Order order_now(uint64_t *seed);
int fill_now();
void delay_now(uint64_t *random);
uint64_t next_random(uint64_t *state);

/* Remembers the first. */
/* Every call fails since cuda_cpu_fail: nothing can be waited for, and what is destroyed may be busy. */
bool all_fails();
void trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Notes an error for cudaGetLastError and returns it. */
cudaError_t fail(cudaError_t error);
/* Every call that can fail begins with this: no device, or a failure that a test asked for. */
cudaError_t begin(cudaError_t injected = cudaErrorUnknown);

#define CUDA_CPU_BEGIN(...)                                                                                            \
    do {                                                                                                               \
        const cudaError_t refused_ = ::cuda_cpu::begin(__VA_ARGS__);                                                   \
        if (refused_ != cudaSuccess)                                                                                   \
            return refused_;                                                                                           \
    } while (0)

/* Handles that are alive, by kind. */
enum Kind { NOTHING, STREAM, EVENT, GRAPH, EXECUTABLE };
void alive_add(const void *handle, Kind kind);
bool alive_remove(const void *handle, Kind kind);
bool alive(const void *handle, Kind kind);

/* ---- device.cpp ---- */

struct ::cuda_cpu_device device_now();
bool device_present();
size_t dynamic_shared_limit(const void *function);

/* ---- grid.cpp, block.cpp: who runs kernels ---- */

class Block;

/* One place where kernels run one after another. Its fibers know what ran there before, so it must not be lent to
 * work that is unordered with that. */
struct Worker {
    Block *block = nullptr;
    ~Worker();
};

/* ---- stream.cpp ---- */

/* Something a stream does. Shared by a graph and its launches; whoever lets go last frees it. */
class Work {
public:
    virtual ~Work() {}
    virtual void run(Worker &worker) = 0;
    virtual bool is_host_function() const { return false; } /* which bodies of conditional nodes may not hold */
    void hold() { references.fetch_add(1); }
    void drop()
    {
        if (references.fetch_sub(1) == 1)
            delete this;
    }

private:
    std::atomic<int> references{1};
};

template <class Function> class WorkOf : public Work {
public:
    explicit WorkOf(Function &&what) : function(std::move(what)) {}
    void run(Worker &worker) override { function(worker); }

private:
    Function function;
};

template <class Function> Work *work_of(Function function) { return new WorkOf<Function>(std::move(function)); }

/* An event as recorded once: waits refer to it, so recording the event again does not disturb them. */
struct Moment {
    std::atomic<int> references{1};
    std::atomic<int> passed{0};
    int64_t at_ns = 0;
    Tag tag = 0;
    void hold() { references.fetch_add(1); }
    void drop()
    {
        if (references.fetch_sub(1) == 1)
            delete this;
    }
    void pass();
    void wait();
};
/* Work that lets it pass, and work that waits for it; each holds it. */
Work *work_that_passes(Moment *moment);
Work *work_that_waits(Moment *moment);

struct Capture;

/* The stream for a handle, or null. The default streams are one. */
CUstream_st *stream_find(cudaStream_t handle);
/* Takes the work: to the stream, or to the graph that the stream is captured into. */
cudaError_t stream_enqueue(cudaStream_t handle, Work *work);
/* To the stream even if it is captured. */
void stream_push(CUstream_st *stream, Work *work);
Capture *stream_capture(const CUstream_st *stream);
void stream_capture_set(CUstream_st *stream, Capture *capture);
bool stream_blocking(const CUstream_st *stream);
void stream_wait(CUstream_st *stream);
/* Waits until the device is idle. With order: the caller may rely on all that has been done. */
void device_wait(bool with_order);
/* Runs it as someone who knows all that streams have done, without the caller learning it. */
void as_janitor(void (*what)(void *), void *argument);

/* ---- graph.cpp ---- */

typedef std::vector<CUgraphNode_st *> Nodes;
CUgraph_st *graph_make();
void graph_destroy(CUgraph_st *graph);
/* Takes the work, which may be null. */
CUgraphNode_st *graph_add(CUgraph_st *graph, const Nodes &needs, Work *work);
/* All of `nodes` are in `from` or are needed by it. */
bool graph_reaches(const Nodes &from, const Nodes &nodes);

/* ---- capture.cpp ---- */

cudaError_t capture_add(Capture *capture, CUstream_st *stream, Work *work);
/* An API call that is unsafe while this thread captures: spoils the capture. */
cudaError_t capture_forbids();
void capture_spoil(Capture *capture);
bool capture_of_blocking_stream();
/* The tail of a captured stream, as an event remembers it. */
struct EventCapture;
EventCapture *capture_mark(CUstream_st *stream);
void capture_mark_drop(EventCapture *mark);
cudaError_t capture_join(CUstream_st *stream, EventCapture *mark);

/* ---- memory.cpp ---- */

enum Where { PAGEABLE, DEVICE, PINNED };
struct Place {
    Where where;
    uintptr_t start;
    size_t bytes;
};
Place memory_find(const void *address);
/* Around what a stream does: with CUDA_CPU_SEPARATE, device memory can be touched only between the two. */
void device_open();
void device_close();

} // namespace cuda_cpu

#endif
