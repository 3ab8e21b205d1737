/* cuda_copy.cu: see cuda_copy.h. */
#include "cuda_copy.h"
#include "src/cuda/portable.cuh"

#include <stdlib.h>

#ifdef BS_CUDA_CPU /* only that it runs: times mean nothing */
enum { REPEATS = 1, ROUNDS = 2, BLOCKS_EACH = 1 };
#else
enum { REPEATS = 12, ROUNDS = 4096, BLOCKS_EACH = 8 };
#endif
enum { THREADS = 256, SUMS = 8 };

/* --------------------------------------------------------------------------------------------------- memory */

extern "C" void *bench_gpu_stream(void)
{
    cudaStream_t stream = nullptr;
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess ? stream : nullptr;
}

extern "C" void bench_gpu_stream_end(void *stream)
{
    if (stream)
        cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

extern "C" void *bench_take(size_t bytes, bench_where where)
{
    void *memory = nullptr;
    if (where == BENCH_HOST)
        return malloc(bytes);
    const cudaError_t error = where == BENCH_GPU ? cudaMalloc(&memory, bytes)
                                                 : cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
    return error == cudaSuccess ? memory : nullptr;
}

extern "C" void bench_give(void *memory, bench_where where)
{
    if (where == BENCH_HOST)
        free(memory);
    else if (memory)
        where == BENCH_GPU ? cudaFree(memory) : cudaFreeHost(memory);
}

extern "C" bool bench_copy(void *to, const void *from, size_t bytes)
{
    return cudaMemcpy(to, from, bytes, cudaMemcpyDefault) == cudaSuccess;
}

/* --------------------------------------------------------------------------------------------------- limits */

/* Seconds between two events around `work`, the least of several; 0 when something failed. */
template <class Work> static double least_seconds(cudaStream_t stream, const Work &work)
{
    cudaEvent_t since = nullptr, until = nullptr;
    double best = 0;
    bool ok = cudaEventCreate(&since) == cudaSuccess && cudaEventCreate(&until) == cudaSuccess;
    for (int i = -1; ok && i < REPEATS; i++) { /* the first warms up */
        float ms = 0;
        ok = cudaEventRecord(since, stream) == cudaSuccess && work() == cudaSuccess &&
             cudaEventRecord(until, stream) == cudaSuccess && cudaEventSynchronize(until) == cudaSuccess &&
             cudaEventElapsedTime(&ms, since, until) == cudaSuccess;
        if (i >= 0 && ms > 0 && (best == 0 || ms * 1e-3 < best))
            best = ms * 1e-3;
    }
    if (since)
        cudaEventDestroy(since);
    if (until)
        cudaEventDestroy(until);
    return ok ? best : 0;
}

static unsigned many_blocks(void)
{
    int device = 0, multiprocessors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    return static_cast<unsigned>(multiprocessors) * BLOCKS_EACH;
}

extern "C" double bench_gpu_copy_gbs(void *stream, size_t bytes)
{
    void *from = bench_take(bytes, BENCH_GPU), *to = bench_take(bytes, BENCH_GPU);
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    double seconds = 0;
    if (from && to && cudaMemset(from, 1, bytes) == cudaSuccess)
        seconds = least_seconds(s, [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s); });
    bench_give(from, BENCH_GPU);
    bench_give(to, BENCH_GPU);
    return seconds > 0 ? 2e-9 * static_cast<double>(bytes) / seconds : 0;
}

__global__ void bench_read(const float4 *from, size_t n, float *to)
{
    float sum = 0;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * blockDim.x) {
        const float4 v = from[i];
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 1.5f) /* never: keeps the sum */
        *to = sum;
}

extern "C" double bench_gpu_read_gbs(void *stream, size_t bytes)
{
    float4 *from = static_cast<float4 *>(bench_take(bytes + 16, BENCH_GPU));
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const size_t n = bytes / sizeof(float4);
    double seconds = 0;
    if (from && cudaMemset(from, 0, bytes + 16) == cudaSuccess)
        seconds = least_seconds(s, [&] {
            BS_LAUNCH(bench_read, many_blocks(), THREADS, 0, s, from, n, reinterpret_cast<float *>(from + n));
            return cudaGetLastError();
        });
    bench_give(from, BENCH_GPU);
    return seconds > 0 ? 1e-9 * static_cast<double>(bytes) / seconds : 0;
}

__global__ void bench_multiply_add(float x, float *to)
{
    float sum[SUMS];
    for (int k = 0; k < SUMS; k++)
        sum[k] = x + static_cast<float>(k);
    for (int i = 0; i < ROUNDS; i++)
#pragma unroll
        for (int k = 0; k < SUMS; k++)
            sum[k] = fmaf(sum[k], x, x);
    float all = 0;
    for (int k = 0; k < SUMS; k++)
        all += sum[k];
    if (all == 1.5f)
        *to = all;
}

#if defined(BS_CUDA_CPU)
static void bench_mma(float *d, const uint32_t *a, const uint32_t *b) { cuda_cpu_mma_16816(d, a, b); }
#else
static __device__ __forceinline__ void bench_mma(float *d, const uint32_t *a, const uint32_t *b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif

__global__ void bench_tensor(uint32_t x, float *to)
{
    float sum[SUMS][4] = {};
    const uint32_t a[4] = {x, x, x, x}, b[2] = {x, x};
    for (int i = 0; i < ROUNDS; i++)
#pragma unroll
        for (int k = 0; k < SUMS; k++)
            bench_mma(sum[k], a, b);
    float all = 0;
    for (int k = 0; k < SUMS; k++)
        all += sum[k][0] + sum[k][1] + sum[k][2] + sum[k][3];
    if (all == 1.5f)
        *to = all;
}

extern "C" double bench_gpu_gflops(void *stream, int tensor)
{
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    float *to = static_cast<float *>(bench_take(64, BENCH_GPU));
    const unsigned blocks = many_blocks();
    int device = 0, major = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    double seconds = 0;
    if (to && (!tensor || major >= 8))
        seconds = least_seconds(s, [&] {
            if (tensor)
                BS_LAUNCH(bench_tensor, blocks, THREADS, 0, s, 0x3c003c00u, to);
            else
                BS_LAUNCH(bench_multiply_add, blocks, THREADS, 0, s, 0.5f, to);
            return cudaGetLastError();
        });
    bench_give(to, BENCH_GPU);
    const double warps = static_cast<double>(blocks) * THREADS / 32, each = tensor ? 2.0 * 16 * 8 * 16 : 2.0 * 32;
    return seconds > 0 ? 1e-9 * warps * ROUNDS * SUMS * each / seconds : 0;
}
