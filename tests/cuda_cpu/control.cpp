/* control.cpp - settings, counts, asked-for failures, misuse, and which handles live. Relies on nothing of the rest.
 * Must never fail a call that destroys or frees. */
#include "engine.h"

#include <map>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

namespace cuda_cpu {

long environment(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}

/* ---- counts ---- */

static std::atomic<int64_t> counted[COUNTS];

void count(Count what, int64_t by) { counted[what].fetch_add(by, std::memory_order_relaxed); }

/* ---- orders and delays ---- */

static std::atomic<int> order_set{-1};
static std::atomic<int> fill_set{0xff};
static std::atomic<unsigned> order_seed{0};
static std::atomic<long> delay_set{-1};
static std::atomic<unsigned> delay_seed{0};

uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9E3779B97F4A7C15ull; /* splitmix64: any state will do */
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBull;
    return mixed ^ mixed >> 31;
}

Order order_now(uint64_t *seed)
{
    static const int at_start = static_cast<int>(environment("CUDA_CPU_ORDER", 0));
    static const unsigned seed_at_start = static_cast<unsigned>(environment("CUDA_CPU_SEED", 1));
    const int set = order_set.load();
    *seed = set < 0 ? seed_at_start : order_seed.load();
    return static_cast<Order>(set < 0 ? at_start : set);
}

int fill_now()
{
    return fill_set.load();
}

void delay_now(uint64_t *random)
{
    static const long at_start = environment("CUDA_CPU_DELAY", 0);
    const long set = delay_set.load(), most = set < 0 ? at_start : set;
    if (most <= 0)
        return;
    *random += delay_seed.load();
    const long microseconds = static_cast<long>(next_random(random) % static_cast<uint64_t>(most + 1));
    const timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
    syscall(SYS_nanosleep, &pause, nullptr);
}

/* ---- misuse ---- */

static char first_trouble[512];
static std::atomic<int> troubles{0}; /* 1 while the first is written, 2 when it can be read */

void trouble(const char *format, ...)
{
    int none = 0;
    if (!troubles.compare_exchange_strong(none, 1))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(first_trouble, sizeof first_trouble, format, arguments);
    va_end(arguments);
    if (environment("CUDA_CPU_VERBOSE", 0))
        fprintf(stderr, "cuda_cpu: %s\n", first_trouble);
    troubles.store(2);
}

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "cuda_cpu: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

/* ---- errors ---- */

static __thread cudaError_t last_error;
static std::atomic<int64_t> until_failure{0}; /* 0: never; 1: the next call */
static std::atomic<int> failing{0};           /* every call fails from now on */
static std::atomic<int> fails_on{0};

cudaError_t fail(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

static bool failure_is_due()
{
    if (failing.load())
        return true;
    if (until_failure.load() <= 0 || until_failure.fetch_sub(1) != 1)
        return false;
    if (fails_on.load())
        failing.store(1);
    return true;
}

cudaError_t begin(cudaError_t injected)
{
    count(CALLS);
    if (!device_present())
        return fail(cudaErrorNoDevice);
    return failure_is_due() ? fail(injected) : cudaSuccess;
}

/* ---- live handles ---- */

struct Handle {
    uintptr_t value;
    bool operator<(const Handle &other) const { return value < other.value; }
};
struct Alive {
    Kind kind;
};
static Lock alive_lock;
/* Never destroyed: streams may outlive main. */
static std::map<Handle, Alive> &alive_map()
{
    static std::map<Handle, Alive> *map = new std::map<Handle, Alive>();
    return *map;
}
static Handle key_of(const void *handle) { return Handle{reinterpret_cast<uintptr_t>(handle)}; }
static const Count live_count[] = {COUNTS, LIVE_STREAMS, LIVE_EVENTS, LIVE_GRAPHS, LIVE_GRAPHS};

void alive_add(const void *handle, Kind kind)
{
    Held held(alive_lock);
    alive_map()[key_of(handle)].kind = kind;
    count(live_count[kind]);
}

bool alive_remove(const void *handle, Kind kind)
{
    Held held(alive_lock);
    const auto found = alive_map().find(key_of(handle));
    if (found == alive_map().end() || found->second.kind != kind)
        return false;
    alive_map().erase(found);
    count(live_count[kind], -1);
    return true;
}

bool alive(const void *handle, Kind kind)
{
    Held held(alive_lock);
    const auto found = alive_map().find(key_of(handle));
    return found != alive_map().end() && found->second.kind == kind;
}

bool all_fails() { return failing.load() != 0; }

} // namespace cuda_cpu

using namespace cuda_cpu;

extern "C" {

void cuda_cpu_counts_get(struct cuda_cpu_counts *counts)
{
    static_assert(sizeof *counts == COUNTS * sizeof(int64_t), "one count, one field, in the same order");
    int64_t *fields = &counts->calls;
    for (int i = 0; i < COUNTS; i++)
        fields[i] = counted[i].load();
}

void cuda_cpu_counts_reset(void)
{
    for (int i = 0; i < LIVE_ALLOCATIONS; i++)
        counted[i].store(0);
}

void cuda_cpu_fail(int64_t nth, int from_then_on)
{
    failing.store(0);
    fails_on.store(from_then_on);
    until_failure.store(nth);
}

void cuda_cpu_order(int order, unsigned seed)
{
    order_seed.store(seed);
    order_set.store(order);
}

void cuda_cpu_fill(int byte)
{
    fill_set.store(byte);
}

void cuda_cpu_delay(unsigned microseconds, unsigned seed)
{
    delay_seed.store(seed);
    delay_set.store(static_cast<long>(microseconds));
}

const char *cuda_cpu_trouble(void) { return troubles.load() == 2 ? first_trouble : nullptr; }
void cuda_cpu_trouble_forget(void) { troubles.store(0); }

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

#define CUDA_CPU_ERRORS(X)                                                                                             \
    X(cudaSuccess, "no error")                                                                                         \
    X(cudaErrorInvalidValue, "invalid argument")                                                                       \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                      \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                                 \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                                \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                         \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                       \
    X(cudaErrorNotReady, "device not ready")                                                                           \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")             \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")                   \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                           \
    X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                    \
    X(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")                  \
    X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")                         \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                            \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                      \
    X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream")  \
    X(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread")   \
    X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")               \
    X(cudaErrorNotSupported, "operation not supported")                                                                \
    X(cudaErrorUnknown, "unknown error")

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define CUDA_CPU_CASE(name, text)                                                                                      \
    case name:                                                                                                         \
        return text;
        CUDA_CPU_ERRORS(CUDA_CPU_CASE)
#undef CUDA_CPU_CASE
    default:
        return "unrecognized error code";
    }
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define CUDA_CPU_CASE(name, text)                                                                                      \
    case name:                                                                                                         \
        return #name;
        CUDA_CPU_ERRORS(CUDA_CPU_CASE)
#undef CUDA_CPU_CASE
    default:
        return "unrecognized error code";
    }
}

long long cuda_cpu_clock(void)
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

} // extern "C"
