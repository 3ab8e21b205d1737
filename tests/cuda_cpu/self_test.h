/* self_test.h - what the parts of the self-test share. self_test.cu says what it is. */
#ifndef CUDA_CPU_SELF_TEST_H
#define CUDA_CPU_SELF_TEST_H

#include "control.h"
#include "cuda_cpu.h"

#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vector>

void check(bool holds, const char *what, const char *file, int line);

#define CHECK(condition) check(condition, #condition, __FILE__, __LINE__)
#define OK(call)         check((call) == cudaSuccess, #call, __FILE__, __LINE__)

template <class T> static T *device(size_t count)
{
    void *made = nullptr;
    OK(cudaMalloc(&made, count * sizeof(T)));
    return static_cast<T *>(made);
}

template <class T> static std::vector<T> fetch(const T *from, size_t count, cudaStream_t stream)
{
    std::vector<T> to(count);
    OK(cudaMemcpyAsync(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    return to;
}

template <class T> static void put(T *to, const std::vector<T> &from, cudaStream_t stream)
{
    OK(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
    OK(cudaStreamSynchronize(stream));
}

static inline void pause_ms(long ms)
{
    const timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, nullptr);
}

static inline cudaStream_t stream_make()
{
    cudaStream_t stream = nullptr;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline cudaEvent_t event_make()
{
    cudaEvent_t event = nullptr;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* ---- the parts ---- */

__global__ void add_number(float *x, int count, float number);
__global__ void bug_same_word(int *x);

void check_kernels(cudaStream_t s); /* self_kernels.cu */
void check_warps(cudaStream_t s);
void check_atomics(cudaStream_t s);
void check_tensor(cudaStream_t s);
void check_streams(cudaStream_t s); /* self_streams.cu */
void check_capture(cudaStream_t s);
void check_conditionals(cudaStream_t s);
void check_control(cudaStream_t s);
#if CUDART_VERSION >= 13000
struct Conditional {
    cudaGraphConditionalHandle handle;
    cudaGraph_t *bodies;
};
Conditional conditional_begin(cudaStream_t s, cudaGraphConditionalNodeType type, unsigned bodies,
                              cudaGraphConditionalHandle handle);
cudaGraphConditionalHandle handle_make(cudaStream_t s);
#endif
int bug(const char *name); /* self_bugs.cu */

#endif
