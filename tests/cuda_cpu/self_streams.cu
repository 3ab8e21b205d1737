/* self_streams.cu - order between streams, capture and graphs, conditional nodes, and what control.h counts and fails.
 * A part of the self-test (self_test.cu). */
#include "self_test.h"

__global__ void set_condition(cudaGraphConditionalHandle handle, const unsigned *value)
{
    cudaGraphSetConditional(handle, *value);
}

__global__ void count_down(cudaGraphConditionalHandle handle, int *left, int *rounds)
{
    ++*rounds;
    cudaGraphSetConditional(handle, --*left > 0 ? 1u : 0u);
}

void check_streams(cudaStream_t s)
{
    const int count = 256;
    cudaStream_t other = stream_make();
    cudaEvent_t done = event_make(), timed = nullptr, later = nullptr;
    float *x = device<float>(count);
    CHECK(fetch(x, 1, s)[0] != 0.0f); /* NaN */
    OK(cudaMemsetAsync(x, 0, count * sizeof(float), s));
    for (int i = 0; i < 8; i++) {
        cudaStream_t from = i % 2 ? other : s, to = i % 2 ? s : other;
        BS_LAUNCH(add_number, 2, 128, 0, from, x, count, 1.0f);
        OK(cudaEventRecord(done, from));
        OK(cudaStreamWaitEvent(to, done, 0));
    }
    CHECK(fetch(x, count, s) == std::vector<float>(count, 8.0f));
    OK(cudaEventSynchronize(done));
    OK(cudaEventQuery(done));
    OK(cudaStreamSynchronize(other));
    OK(cudaStreamQuery(other));

    OK(cudaEventCreate(&timed));
    OK(cudaEventCreate(&later));
    OK(cudaEventRecord(timed, s));
    OK(cudaLaunchHostFunc(s, [](void *) { pause_ms(20); }, nullptr));
    OK(cudaEventRecord(later, s));
    CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    OK(cudaEventSynchronize(later));
    float ms = 0;
    OK(cudaEventElapsedTime(&ms, timed, later));
    CHECK(ms >= 19.0f);

    BS_LAUNCH(add_number, 2, 128, 0, nullptr, x, count, 1.0f);
    float first = 0;
    OK(cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost));
    CHECK(first == 9.0f);
    float wide[4] = {1, 2, 3, 4};
    OK(cudaMemcpy2DAsync(x, 16, wide, 8, 8, 2, cudaMemcpyHostToDevice, s));
    OK(cudaMemset2DAsync(x + 8, 16, 0, 4, 2, s));
    const std::vector<float> rows = fetch(x, 16, s);
    CHECK(rows[0] == 1 && rows[1] == 2 && rows[4] == 3 && rows[2] == 9 && rows[8] == 0 && rows[12] == 0);
    OK(cudaEventDestroy(done));
    OK(cudaEventDestroy(timed));
    OK(cudaEventDestroy(later));
    OK(cudaStreamDestroy(other));
    OK(cudaFree(x));
}

/* While a stream is captured it may not wait for itself, not allocate, and not leave work behind. */
void check_refused_captures(cudaStream_t s, cudaStream_t other, cudaEvent_t fork, float *y, int count)
{
    cudaGraph_t graph = nullptr;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    void *no = nullptr;
    CHECK(cudaMalloc(&no, 16) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(other, fork, 0));
    BS_LAUNCH(add_number, 1, 128, 0, other, y, count, 2.0f);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureUnjoined);
    cudaGetLastError();
}

void check_capture(cudaStream_t s)
{
    const int count = 128;
    cudaStream_t other = stream_make();
    cudaEvent_t fork = event_make(), join = event_make();
    float *x = device<float>(count), *y = device<float>(count);
    OK(cudaMemsetAsync(x, 0, count * sizeof(float), s));
    OK(cudaMemsetAsync(y, 0, count * sizeof(float), s));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    BS_LAUNCH(add_number, 1, 128, 0, s, x, count, 1.0f);
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(other, fork, 0));
    BS_LAUNCH(add_number, 1, 128, 0, other, y, count, 2.0f);
    BS_LAUNCH(add_number, 1, 128, 0, s, x, count, 1.0f);
    OK(cudaEventRecord(join, other));
    OK(cudaStreamWaitEvent(s, join, 0));
    OK(cudaMemcpyAsync(x, y, 4, cudaMemcpyDeviceToDevice, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    OK(cudaGraphDestroy(graph));
    struct cuda_cpu_counts before, after;
    cuda_cpu_counts_get(&before);
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(ready, s));
    const std::vector<float> sums = fetch(x, count, s);
    cuda_cpu_counts_get(&after);
    CHECK(sums[0] == 6.0f && sums[1] == 6.0f);
    CHECK(after.graph_launches - before.graph_launches == 3 && after.kernels - before.kernels == 9);
    CHECK(after.nodes - before.nodes == 12 && after.launches == before.launches);
    check_refused_captures(s, other, fork, y, count);
    OK(cudaGraphExecDestroy(ready));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
    OK(cudaStreamDestroy(other));
    OK(cudaFree(x));
    OK(cudaFree(y));
}

#if CUDART_VERSION >= 13000
/* Adds a conditional node behind what is captured so far. */
Conditional conditional_begin(cudaStream_t s, cudaGraphConditionalNodeType type, unsigned bodies,
                              cudaGraphConditionalHandle handle)
{
    cudaStreamCaptureStatus status;
    cudaGraph_t graph = nullptr;
    const cudaGraphNode_t *needs = nullptr;
    size_t count = 0;
    unsigned long long id;
    OK(cudaStreamGetCaptureInfo(s, &status, &id, &graph, &needs, nullptr, &count));
    cudaGraphNodeParams wanted = {cudaGraphNodeTypeConditional, {0, 0, 0}, {{0}}, 0};
    wanted.conditional.handle = handle;
    wanted.conditional.type = type;
    wanted.conditional.size = bodies;
    cudaGraphNode_t node = nullptr;
    OK(cudaGraphAddNode(&node, graph, needs, nullptr, count, &wanted));
    OK(cudaStreamUpdateCaptureDependencies(s, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
    return Conditional{handle, wanted.conditional.phGraph_out};
}

cudaGraphConditionalHandle handle_make(cudaStream_t s)
{
    cudaStreamCaptureStatus status;
    cudaGraph_t graph = nullptr;
    cudaGraphConditionalHandle handle = 0;
    OK(cudaStreamGetCaptureInfo(s, &status, nullptr, &graph, nullptr, nullptr, nullptr));
    OK(cudaGraphConditionalHandleCreate(&handle, graph, 0, cudaGraphCondAssignDefault));
    return handle;
}

static void body_adds(cudaGraph_t body, cudaStream_t s, float *x, float number)
{
    OK(cudaStreamBeginCaptureToGraph(s, body, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    BS_LAUNCH(add_number, 1, 32, 0, s, x, 1, number);
    OK(cudaStreamEndCapture(s, nullptr));
}

void check_conditionals(cudaStream_t s)
{
    cudaStream_t inner = stream_make();
    unsigned *value = device<unsigned>(2);
    float *x = device<float>(1);
    int *rounds = device<int>(2);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    const cudaGraphConditionalHandle either = handle_make(s), pick = handle_make(s), loop = handle_make(s);
    BS_LAUNCH(set_condition, 1, 1, 0, s, either, value);
    const Conditional branch = conditional_begin(s, cudaGraphCondTypeIf, 2, either);
    body_adds(branch.bodies[0], inner, x, 1.0f);
    body_adds(branch.bodies[1], inner, x, 10.0f);
    BS_LAUNCH(set_condition, 1, 1, 0, s, pick, value + 1);
    const Conditional choice = conditional_begin(s, cudaGraphCondTypeSwitch, 3, pick);
    for (unsigned i = 0; i < 3; i++)
        body_adds(choice.bodies[i], inner, x, 100.0f * static_cast<float>(i + 1));
    BS_LAUNCH(count_down, 1, 1, 0, s, loop, rounds, rounds + 1);
    const Conditional again = conditional_begin(s, cudaGraphCondTypeWhile, 1, loop);
    OK(cudaStreamBeginCaptureToGraph(inner, again.bodies[0], nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    BS_LAUNCH(count_down, 1, 1, 0, inner, loop, rounds, rounds + 1);
    OK(cudaStreamEndCapture(inner, nullptr));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&ready, graph, 0));

    const struct {
        unsigned either, pick;
        float sum;
    } cases[] = {{1, 0, 101}, {0, 1, 210}, {5, 2, 301}, {0, 3, 10}};
    for (const auto &one : cases) {
        put(value, std::vector<unsigned>{one.either, one.pick}, s);
        put(rounds, std::vector<int>{5, 0}, s);
        OK(cudaMemsetAsync(x, 0, sizeof *x, s));
        OK(cudaGraphLaunch(ready, s));
        CHECK(fetch(x, 1, s)[0] == one.sum);
        CHECK(fetch(rounds, 2, s)[1] == 5);
    }
    OK(cudaGraphExecDestroy(ready));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(inner));
    OK(cudaFree(value));
    OK(cudaFree(x));
    OK(cudaFree(rounds));
}
#else
void check_conditionals(cudaStream_t) {}
#endif

__global__ void much_shared(int *out)
{
    BS_DYNAMIC_SHARED(int, all);
    all[threadIdx.x] = 1;
    out[threadIdx.x] = all[threadIdx.x];
}

/* A launch asks for shared memory beyond 48 KiB, and for no more than there is. */
void check_launches(cudaStream_t s, int *out)
{
    BS_LAUNCH(much_shared, 1, 32, 60 << 10, s, out); /* not asked for */
    CHECK(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
    CHECK(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10) ==
          cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10));
    cudaGetLastError();
    BS_LAUNCH(much_shared, 1, 32, 60 << 10, s, out);
    OK(cudaGetLastError());
    BS_LAUNCH(much_shared, 1, 2048, 0, s, out);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    CHECK(fetch(out, 32, s)[31] == 1);
}

/* Calls that are told to fail do, and copies are counted by what kind of memory they read. */
void check_calls(cudaStream_t s, int *out)
{
    struct cuda_cpu_counts counts;
    cuda_cpu_counts_reset();
    cuda_cpu_fail(2, 0);
    void *one = nullptr, *two = nullptr;
    OK(cudaMalloc(&one, 64));
    CHECK(cudaMalloc(&two, 64) == cudaErrorMemoryAllocation && !two);
    OK(cudaMallocHost(&two, 64));
    CHECK(static_cast<unsigned char *>(two)[63] == 0xa5);
    cuda_cpu_fail(1, 1);
    BS_LAUNCH(much_shared, 1, 32, 128, s, out);
    CHECK(cudaGetLastError() == cudaErrorUnknown);
    CHECK(cudaStreamSynchronize(s) == cudaErrorUnknown);
    OK(cudaFreeHost(two));
    cuda_cpu_fail(0, 0);
    int host[4];
    OK(cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaHostRegister(host, sizeof host, 0));
    OK(cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    cudaPointerAttributes found;
    OK(cudaPointerGetAttributes(&found, host + 1));
    CHECK(found.type == cudaMemoryTypeHost);
    OK(cudaHostUnregister(host));
    OK(cudaPointerGetAttributes(&found, host));
    CHECK(found.type == cudaMemoryTypeUnregistered);
    OK(cudaPointerGetAttributes(&found, out + 3));
    CHECK(found.type == cudaMemoryTypeDevice);
    cuda_cpu_counts_get(&counts);
    CHECK(counts.device_allocations == 1 && counts.host_allocations == 1 && counts.frees == 1);
    CHECK(counts.copies == 2 && counts.pageable_copies == 1 && counts.copied_bytes == 32);
    CHECK(counts.launches == 0 && counts.synchronisations == 2);
    CHECK(!cuda_cpu_trouble());
    CHECK(cudaMemcpyAsync(host, out, 4096, cudaMemcpyDeviceToHost, s) == cudaErrorInvalidValue);
    CHECK(cuda_cpu_trouble());
    cuda_cpu_trouble_forget();
    CHECK(cudaMemcpyAsync(host, out, 4, cudaMemcpyHostToDevice, s) == cudaErrorInvalidValue);
    CHECK(cudaFree(host) == cudaErrorInvalidValue);
    cuda_cpu_trouble_forget();
    OK(cudaFree(one));
}

/* Another device, and none. */
void check_devices()
{
    void *one = nullptr;
    struct cuda_cpu_device orin = {8, 7, 1, 8, 0, 1 << 20};
    cuda_cpu_device(&orin);
    cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, 0));
    CHECK(properties.integrated && properties.multiProcessorCount == 8 &&
          properties.sharedMemPerBlockOptin == 99 << 10);
    CHECK(cudaMalloc(&one, 2 << 20) == cudaErrorMemoryAllocation);
    cuda_cpu_device(nullptr);
    int number = 1;
    cuda_cpu_devices(0);
    CHECK(cudaGetDeviceCount(&number) == cudaErrorNoDevice && number == 0);
    cuda_cpu_devices(1);
    OK(cudaGetDeviceCount(&number));
    cudaGetLastError();
}

void check_control(cudaStream_t s)
{
    int *out = device<int>(32);
    check_launches(s, out);
    check_calls(s, out);
    OK(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 48 << 10));
    OK(cudaFree(out));
    check_devices();
}
