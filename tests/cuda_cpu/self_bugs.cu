/* self_bugs.cu - deliberate bugs for the tools to catch: each does one thing wrong (the list is at the end). A part of
 * the self-test (self_test.cu). */
#include "self_test.h"

__global__ void bug_no_barrier(float *x)
{
    BS_SHARED(float, s, [64]);
    s[threadIdx.x] = 1.0f;
    x[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void bug_no_syncwarp(float *x)
{
    BS_SHARED(float, s, [32]);
    s[threadIdx.x] = 1.0f;
    (void)__shfl_sync(0xffffffffu, 1, 0); /* orders nothing */
    x[threadIdx.x] = s[31 - threadIdx.x];
}

__global__ void bug_divergent(float *x)
{
    if (threadIdx.x < 16) {
        __syncthreads();
        x[0] = 1;
    } else {
        x[1] = 2;
        __syncthreads();
    }
}

__global__ void bug_absent_lane(int *x)
{
    if (threadIdx.x < 16)
        x[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 3);
}

__global__ void bug_ended_lane(int *x)
{
    if (threadIdx.x >= 16)
        return;
    __syncthreads();
    x[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 3);
}

__global__ void bug_endless(cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, 1); }

__global__ void bug_shared_bound(float *x)
{
    BS_SHARED(float, s, [32]);
    float *p = s;
    p[threadIdx.x + static_cast<unsigned>(x[0] * 0) + 1] = 1.0f;
}

__global__ void bug_not_shared(float *x) { cuda_cpu_must_be_shared(x); }

__global__ void bug_same_word(int *x) { x[0] = x[0] + 1; }
__global__ void bug_shared_word_of_blocks(int *x)
{
    __syncthreads();
    x[0] = static_cast<int>(threadIdx.x + blockIdx.x);
    __syncthreads();
}

/* ---- one function a bug; what is not 0 ends the program ---- */

enum { COUNT = 4096 };

struct Bed {
    cudaStream_t s, other;
    float *x; /* COUNT zeros, on the device */
    std::vector<float> host;
    int *whole() const { return reinterpret_cast<int *>(x); }
};

static int streams_unordered(Bed &b)
{
    BS_LAUNCH(add_number, 32, 128, 0, b.s, b.x, COUNT, 1.0f);
    BS_LAUNCH(add_number, 32, 128, 0, b.other, b.x, COUNT, 1.0f);
    return 0;
}

/* Two chains of a graph write one array. */
static int graph_unordered(Bed &b)
{
    cudaEvent_t fork = event_make(), join = event_make();
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    OK(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(fork, b.s));
    OK(cudaStreamWaitEvent(b.other, fork, 0));
    BS_LAUNCH(add_number, 32, 128, 0, b.s, b.x, COUNT, 1.0f);
    BS_LAUNCH(add_number, 32, 128, 0, b.other, b.x, COUNT, 1.0f);
    OK(cudaEventRecord(join, b.other));
    OK(cudaStreamWaitEvent(b.s, join, 0));
    OK(cudaStreamEndCapture(b.s, &graph));
    OK(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    OK(cudaGraphLaunch(ready, b.s));
    return 0;
}

/* Before it is said to be there. */
static int host_reads_early(Bed &b)
{
    OK(cudaMemcpyAsync(b.host.data(), b.x, COUNT * sizeof *b.x, cudaMemcpyDeviceToHost, b.s));
    pause_ms(50);
    printf("%g\n", static_cast<double>(b.host[5]));
    return 0;
}

/* While it may still be copied from. */
static int host_writes_early(Bed &b)
{
    OK(cudaMemcpyAsync(b.x, b.host.data(), COUNT * sizeof *b.x, cudaMemcpyHostToDevice, b.s));
    pause_ms(50);
    b.host[5] = 1;
    return 0;
}

/* cudaFree promises nothing about other memory. */
static int host_reads_after_free(Bed &b)
{
    float *y = device<float>(1);
    OK(cudaMemcpyAsync(b.host.data(), b.x, COUNT * sizeof *b.x, cudaMemcpyDeviceToHost, b.s));
    OK(cudaFree(y));
    printf("%g\n", static_cast<double>(b.host[5]));
    return 0;
}

static int barrier_missing(Bed &b)
{
    BS_LAUNCH(bug_no_barrier, 1, 64, 0, b.s, b.x);
    OK(cudaStreamSynchronize(b.s));
    b.host = fetch(b.x, 64, b.s);
    for (size_t i = 0; i < 64; i++)
        if (!(b.host[i] == 1.0f))
            return printf("wrong result\n"), 3;
    return 0;
}

static int syncwarp_missing(Bed &b)
{
    BS_LAUNCH(bug_no_syncwarp, 1, 32, 0, b.s, b.x);
    return 0;
}

static int barrier_in_a_branch(Bed &b)
{
    BS_LAUNCH(bug_divergent, 1, 32, 0, b.s, b.x);
    return 0;
}

static int lane_absent(Bed &b)
{
    BS_LAUNCH(bug_absent_lane, 1, 32, 0, b.s, b.whole());
    return 0;
}

static int lane_ended(Bed &b)
{
    BS_LAUNCH(bug_ended_lane, 1, 32, 0, b.s, b.whole());
    return 0;
}

static int claims_what_is_not_shared(Bed &b)
{
    BS_LAUNCH(bug_not_shared, 1, 32, 0, b.s, b.x);
    return 0;
}

/* Device memory, by the host: only with separate memory. */
static int host_touches(Bed &b)
{
    printf("%g\n", static_cast<double>(b.x[1]));
    return 0;
}

/* Without a sanitizer: seen when it is freed. */
static int write_beyond(Bed &b)
{
    BS_LAUNCH(bug_same_word, 1, 1, 0, b.s, b.whole() + COUNT);
    OK(cudaStreamSynchronize(b.s));
    OK(cudaFree(b.x));
    if (cuda_cpu_trouble())
        return fprintf(stderr, "%s\n", cuda_cpu_trouble()), 3;
    return 0;
}

/* A product reads what another stream still writes. */
static int product_unordered(Bed &b)
{
    cublasHandle_t handle;
    const float one = 1, zero = 0;
    CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(cublasSetStream(handle, b.other) == CUBLAS_STATUS_SUCCESS);
    BS_LAUNCH(add_number, 1, 128, 0, b.s, b.x, 128, 1.0f);
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, b.x, 8, b.x, 8, &zero, b.x + 1024, 8) ==
          CUBLAS_STATUS_SUCCESS);
    return 0;
}

#if CUDART_VERSION >= 13000
static int loop_endless(Bed &b)
{
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    OK(cudaStreamBeginCapture(b.s, cudaStreamCaptureModeThreadLocal));
    const cudaGraphConditionalHandle loop = handle_make(b.s);
    BS_LAUNCH(bug_endless, 1, 1, 0, b.s, loop);
    const Conditional again = conditional_begin(b.s, cudaGraphCondTypeWhile, 1, loop);
    OK(cudaStreamBeginCaptureToGraph(b.other, again.bodies[0], nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(b.x, 0, 4, b.other));
    OK(cudaStreamEndCapture(b.other, nullptr));
    OK(cudaStreamEndCapture(b.s, &graph));
    OK(cudaGraphInstantiate(&ready, graph, 0));
    OK(cudaGraphLaunch(ready, b.s));
    return 0;
}
#endif

static int shared_beyond(Bed &b)
{
    BS_LAUNCH(bug_shared_bound, 1, 32, 0, b.s, b.x);
    return 0;
}

static int array_beyond(Bed &b)
{
    BS_LAUNCH(add_number, 33, 128, 0, b.s, b.x, COUNT + 1, 1.0f);
    return 0;
}

static int launch_after_free(Bed &b)
{
    OK(cudaFree(b.x));
    BS_LAUNCH(add_number, 32, 128, 0, b.s, b.x, COUNT, 1.0f);
    return 0;
}

static int blocks_write_one_word(Bed &b)
{
    BS_LAUNCH(bug_same_word, 4, 1, 0, b.s, b.whole());
    return 0;
}

static int blocks_write_between_barriers(Bed &b)
{
    BS_LAUNCH(bug_shared_word_of_blocks, 4, 1, 0, b.s, b.whole());
    return 0;
}

static const struct {
    const char *name;
    int (*run)(Bed &);
} bugs[] = {
    {"event", streams_unordered},
    {"graph_edge", graph_unordered},
    {"host_read", host_reads_early},
    {"host_write", host_writes_early},
    {"read_after_free", host_reads_after_free},
    {"barrier", barrier_missing},
    {"syncwarp", syncwarp_missing},
    {"divergent", barrier_in_a_branch},
    {"absent_lane", lane_absent},
    {"ended_lane", lane_ended},
    {"not_shared", claims_what_is_not_shared},
    {"host_touch", host_touches},
    {"beyond", write_beyond},
    {"library_product", product_unordered},
#if CUDART_VERSION >= 13000
    {"endless", loop_endless},
#endif
    {"shared_bound", shared_beyond},
    {"bound", array_beyond},
    {"after_free", launch_after_free},
    {"same_word", blocks_write_one_word},
    {"same_word_barriers", blocks_write_between_barriers},
};

int bug(const char *name)
{
    Bed b = {stream_make(), stream_make(), device<float>(COUNT), std::vector<float>(COUNT)};
    OK(cudaMemsetAsync(b.x, 0, COUNT * sizeof *b.x, b.s));
    OK(cudaStreamSynchronize(b.s));
    for (const auto &one : bugs)
        if (!strcmp(name, one.name)) {
            const int status = one.run(b);
            OK(cudaDeviceSynchronize());
            return status;
        }
    return fprintf(stderr, "no such bug: %s\n", name), 2;
}
