/* self_test.cu - the emulator checked against what CUDA promises, and deliberate bugs for the tools to catch.
 * self_test: checks everything; prints failures and a last line "N passed, N failed". self_test BUG: does one thing
 * wrong (the list is at the end). Built and judged by self_test.sh. */
#include "control.h"
#include "cuda_cpu.h"

#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vector>

static int passed, failed;

static void check(bool holds, const char *what, int line)
{
    if (holds) {
        passed++;
        return;
    }
    failed++;
    printf("FAIL line %d: %s\n", line, what);
}
#define CHECK(condition) check(condition, #condition, __LINE__)
#define OK(call)         check((call) == cudaSuccess, #call, __LINE__)

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

static void pause_ms(long ms)
{
    const timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, nullptr);
}

static cudaStream_t stream_make()
{
    cudaStream_t stream = nullptr;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static cudaEvent_t event_make()
{
    cudaEvent_t event = nullptr;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* ---- kernels ---- */

__global__ void add_number(float *x, int count, float number)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        x[i] += number;
}

__global__ void __launch_bounds__(64) tree_sum(const float *__restrict__ x, int count, float *sum)
{
    BS_DYNAMIC_SHARED(float, part);
    const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < static_cast<unsigned>(count) ? __ldg(x + i) : 0.0f;
    __syncthreads();
    for (unsigned reach = blockDim.x / 2; reach; reach /= 2) {
        if (t < reach)
            part[t] += part[t + reach];
        __syncthreads();
    }
    if (t == 0)
        atomicAdd(sum, part[0]);
}

template <int size> __global__ void tiled_product(const float *a, const float *b, float *c, int n)
{
    BS_SHARED(float, left, [size][size + 1]);
    BS_SHARED(float, right, [size][size + 1]);
    const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    const int row = static_cast<int>(blockIdx.y) * size + y, column = static_cast<int>(blockIdx.x) * size + x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += size) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < size; i++)
            sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

__global__ void warp_facts(int *out)
{
    const unsigned all = 0xffffffffu;
    const int lane = static_cast<int>(threadIdx.x);
    int *mine = out + lane * 16;
    int agreed = 0;
    mine[0] = __shfl_sync(all, lane, 5);
    mine[1] = __shfl_up_sync(all, lane, 3);
    mine[2] = __shfl_down_sync(all, lane, 3);
    mine[3] = __shfl_xor_sync(all, lane, 1);
    mine[4] = __shfl_down_sync(all, lane, 3, 8);
    mine[5] = static_cast<int>(__ballot_sync(all, lane & 1));
    mine[6] = __any_sync(all, lane == 7) + 2 * __all_sync(all, lane < 32) + 4 * __all_sync(all, lane < 31);
    mine[7] = static_cast<int>(__match_any_sync(all, lane / 4));
    mine[8] = __reduce_add_sync(all, lane);
    mine[9] = __reduce_min_sync(all, lane - 16);
    mine[10] = static_cast<int>(__reduce_max_sync(all, static_cast<unsigned>(lane - 16)));
    mine[11] = static_cast<int>(__match_all_sync(all, 3, &agreed));
    mine[11] += agreed;
    mine[12] = lane < 16 ? __shfl_sync(0xffffu, lane, 15) : __shfl_sync(0xffff0000u, lane, 16);
    const double wide = __shfl_xor_sync(all, lane + 0.5, 16);
    mine[13] = static_cast<int>(wide * 2);
    mine[14] = __half2float(__shfl_sync(all, __float2half(static_cast<float>(lane)), 9)) == 9.0f;
    mine[15] = static_cast<int>(__activemask() & 1u << lane) != 0;
}

__global__ void block_votes(int *out)
{
    const int t = static_cast<int>(threadIdx.x);
    const int votes = __syncthreads_count(t < 10), any = __syncthreads_or(t == 40), all = __syncthreads_and(t != 3);
    if (t == 0) {
        out[0] = votes;
        out[1] = any;
        out[2] = all;
    }
}

__global__ void leave_early(int *out)
{
    BS_SHARED(int, seen, [64]);
    if (threadIdx.x >= 40)
        return;
    seen[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = seen[39 - threadIdx.x];
}

__global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f)
{
    const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(i, t);
    atomicMax(i + 1, t);
    atomicMin(i + 2, t);
    atomicSub(i + 3, 1);
    atomicOr(u, 1u << (t & 31));
    atomicAnd(u + 1, ~(1u << (t & 31)));
    atomicAdd(l, 1ull << 33);
    atomicAdd(f, 0.5f);
    int old = atomicAdd(i + 4, 0), expected;
    do {
        expected = old;
        old = atomicCAS(i + 4, expected, expected + 2);
    } while (old != expected);
    atomicExch(u + 2, 7u);
}

__global__ void last_block_sums(const int *x, int *part, unsigned *ticket, int *sum)
{
    if (threadIdx.x)
        return;
    part[blockIdx.x] = x[blockIdx.x] * 2;
    __threadfence();
    if (atomicAdd(ticket, 1u) == gridDim.x - 1) {
        int all = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            all += part[i];
        *sum = all;
    }
}

/* 16x16 by 16x8 through shared memory, the way a real kernel does: cp.async, ldmatrix, mma. */
__global__ void tensor_product(const __half *a, const __half *b, float *d)
{
    BS_SHARED(__half, left, [16][16]);
    BS_SHARED(__half, right, [16][8]);
    const int l = static_cast<int>(threadIdx.x);
    cuda_cpu_cp_async_16(&left[l / 2][l % 2 * 8], a + l * 8);
    cuda_cpu_cp_async_commit();
    if (l < 16)
        cuda_cpu_cp_async_16(&right[l][0], b + l * 8);
    cuda_cpu_cp_async_commit();
    cuda_cpu_cp_async_wait(0);
    __syncwarp();
    uint32_t x[4], y[4];
    float sum[4] = {1, 1, 1, 1};
    cuda_cpu_ldmatrix_x4(x, &left[l % 16][l / 16 * 8]);
    cuda_cpu_ldmatrix_x4_trans(y, &right[l % 16][0]);
    const uint32_t two[2] = {y[0], y[1]};
    cuda_cpu_mma_16816(sum, x, two);
    for (int i = 0; i < 4; i++)
        d[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = sum[i];
}

__global__ void arithmetic(float *out)
{
    out[0] = rsqrtf(4.0f) + __expf(0.0f) + __fdividef(1.0f, 4.0f);
    out[1] = static_cast<float>(__popc(0xf0fu) + __clz(1) + __ffs(8)) + static_cast<float>(__brev(1u) >> 31);
    out[2] = static_cast<float>(min(3, 4)) + max(1.0f, 2.0f) + static_cast<float>(min(2u, 3));
    out[3] = __half2float(__hfma(__float2half_rn(2.0f), __float2half_rn(3.0f), __float2half_rn(1.0f)));
    out[4] = __int_as_float(__float_as_int(1.5f)) + __uint_as_float(__float_as_uint(0.25f));
    out[5] = static_cast<float>(__float2int_rn(2.5f) + __float2int_rz(-1.9f) + __dp4a(0x01020304, 0x01010101, 5));
    out[6] = __low2float(__hfma2(__float2half2_rn(2.0f), __float2half2_rn(2.0f), __float2half2_rn(0.5f)));
    __nanosleep(10);
    out[7] = clock64() > 0 ? 1.0f : 0.0f;
}

__global__ void set_condition(cudaGraphConditionalHandle handle, const unsigned *value)
{
    cudaGraphSetConditional(handle, *value);
}

__global__ void count_down(cudaGraphConditionalHandle handle, int *left, int *rounds)
{
    ++*rounds;
    cudaGraphSetConditional(handle, --*left > 0 ? 1u : 0u);
}

__global__ void poison_seen(int *out)
{
    BS_SHARED(unsigned, fresh, [4]);
    out[blockIdx.x] = fresh[2] == 0xffffffffu;
    fresh[2] = 1;
}

/* ---- checks ---- */

/* A product allocates unless it has a workspace, and every cublasSetStream takes that away, as the manual says. */
static int64_t hidden_of_product(cublasHandle_t handle, const float *x, float *y, int n)
{
    const float one = 1, zero = 0;
    struct cuda_cpu_counts before, after;
    cuda_cpu_counts_get(&before);
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, x, n, x, n, &zero, y, n) ==
          CUBLAS_STATUS_SUCCESS);
    cuda_cpu_counts_get(&after);
    return after.hidden_allocations - before.hidden_allocations;
}

static void check_workspace(cublasHandle_t handle, cudaStream_t s, const float *x, float *y, int n)
{
    const size_t bytes = 32768;
    char *workspace = device<char>(bytes);
    CHECK(hidden_of_product(handle, x, y, n) == 1);
    CHECK(cublasSetWorkspace(handle, workspace + 64, bytes - 256) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(cublasSetWorkspace(handle, workspace, bytes) == CUBLAS_STATUS_SUCCESS);
    CHECK(hidden_of_product(handle, x, y, n) == 0);
    CHECK(hidden_of_product(handle, x, y, n) == 0);
    CHECK(cublasSetStream(handle, s) == CUBLAS_STATUS_SUCCESS); /* the same stream: that makes no difference */
    CHECK(hidden_of_product(handle, x, y, n) == 1);
    cudaGraph_t graph = nullptr;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK(hidden_of_product(handle, x, y, n) == 1);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamSynchronize(s));
    OK(cudaFree(workspace));
}

static void check_kernels(cudaStream_t s)
{
    const int count = 1000;
    std::vector<float> x(count);
    float expected = 0;
    for (int i = 0; i < count; i++)
        expected += x[static_cast<size_t>(i)] = static_cast<float>(i % 7) * 0.25f;
    float *dx = device<float>(count), *sum = device<float>(1);
    put(dx, x, s);
    OK(cudaMemsetAsync(sum, 0, sizeof *sum, s));
    BS_LAUNCH(tree_sum, (count + 63) / 64, 64, 64 * sizeof(float), s, dx, count, sum);
    OK(cudaGetLastError());
    CHECK(fetch(sum, 1, s)[0] == expected);

    const int n = 32;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; i++) {
        a[static_cast<size_t>(i)] = static_cast<float>(i % 13 - 6);
        b[static_cast<size_t>(i)] = static_cast<float>(i % 11 - 5);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    float *da = device<float>(n * n), *db = device<float>(n * n), *dc = device<float>(n * n);
    put(da, a, s);
    put(db, b, s);
    BS_LAUNCH((tiled_product<8>), dim3(n / 8, n / 8), dim3(8, 8), 0, s, da, db, dc, n);
    CHECK(fetch(dc, n * n, s) == c);

    cublasHandle_t handle = nullptr;
    const float one = 1, zero = 0;
    CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(cublasSetStream(handle, s) == CUBLAS_STATUS_SUCCESS);
    OK(cudaMemsetAsync(dc, 0, n * n * sizeof(float), s));
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, db, n, da, n, &zero, dc, n) ==
          CUBLAS_STATUS_SUCCESS);
    CHECK(fetch(dc, n * n, s) == c);
    OK(cudaMemsetAsync(dc, 0, n * n * sizeof(float), s)); /* (b a)^T by the transposed factors in two batches */
    CHECK(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n / 2, n, &one, db, CUDA_R_32F, n, 0, da,
                                     CUDA_R_32F, n, n * n / 2, &zero, dc, CUDA_R_32F, n, n * n / 2, 2,
                                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
    const std::vector<float> transposed = fetch(dc, n * n, s);
    float dot = 0;
    for (size_t k = 0; k < n; k++)
        dot += a[20 * n + k] * b[3 * n + k];
    CHECK(transposed[20 * n + 3] == dot);
    check_workspace(handle, s, db, dc, n);
    CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
    for (float *p : {dx, sum, da, db, dc})
        OK(cudaFree(p));
}

static void check_warps(cudaStream_t s)
{
    int *out = device<int>(32 * 16);
    BS_LAUNCH(warp_facts, 1, 32, 0, s, out);
    const std::vector<int> got = fetch(out, 32 * 16, s);
    bool right[16];
    for (bool &one : right)
        one = true;
    for (int l = 0; l < 32; l++) {
        const int *mine = &got[static_cast<size_t>(l) * 16];
        const int expected[16] = {5, l < 3 ? l : l - 3, l + 3 < 32 ? l + 3 : l, l ^ 1, l % 8 + 3 < 8 ? l + 3 : l,
                                  static_cast<int>(0xaaaaaaaau), 3, static_cast<int>(0xfu << l / 4 * 4), 496, -16,
                                  -1, 0, l < 16 ? 15 : 16, (l ^ 16) * 2 + 1, 1, 1};
        for (int i = 0; i < 16; i++)
            right[i] = right[i] && mine[i] == expected[i];
    }
    for (int i = 0; i < 16; i++)
        CHECK(right[i] && i >= 0);
    OK(cudaFree(out));

    int *votes = device<int>(64);
    BS_LAUNCH(block_votes, 1, 64, 0, s, votes);
    const std::vector<int> counted = fetch(votes, 3, s);
    CHECK(counted[0] == 10 && counted[1] && !counted[2]);
    BS_LAUNCH(leave_early, 1, 64, 0, s, votes);
    const std::vector<int> early = fetch(votes, 40, s);
    CHECK(early[0] == 39 && early[39] == 0);
    BS_LAUNCH(poison_seen, 8, 1, 0, s, votes);
    CHECK(fetch(votes, 8, s) == std::vector<int>(8, 1));
    OK(cudaFree(votes));
}

static void check_atomics(cudaStream_t s)
{
    int *i = device<int>(5);
    unsigned *u = device<unsigned>(3);
    unsigned long long *l = device<unsigned long long>(1);
    float *f = device<float>(1);
    put(i, std::vector<int>{0, -5, 5, 0, 0}, s);
    put(u, std::vector<unsigned>{0, 0xffffffffu, 0}, s);
    put(l, std::vector<unsigned long long>{0}, s);
    put(f, std::vector<float>{0}, s);
    BS_LAUNCH(atomics, 4, 32, 0, s, i, u, l, f);
    CHECK(fetch(i, 5, s) == (std::vector<int>{8128, 127, 0, -128, 256}));
    CHECK(fetch(u, 3, s) == (std::vector<unsigned>{0xffffffffu, 0, 7}));
    CHECK(fetch(l, 1, s)[0] == 128ull << 33);
    CHECK(fetch(f, 1, s)[0] == 64.0f);

    int *x = device<int>(24);
    put(x, std::vector<int>(24, 3), s);
    put(u, std::vector<unsigned>{0, 0, 0}, s);
    BS_LAUNCH(last_block_sums, 8, 32, 0, s, x, x + 8, u, x + 16);
    CHECK(fetch(x, 17, s)[16] == 48);
    for (void *p : {static_cast<void *>(i), static_cast<void *>(u), static_cast<void *>(l), static_cast<void *>(f),
                    static_cast<void *>(x)})
        OK(cudaFree(p));
}

static void check_tensor(cudaStream_t s)
{
    std::vector<__half> a(256), b(128);
    std::vector<float> d(128, 1.0f);
    for (size_t i = 0; i < 256; i++)
        a[i] = __float2half(static_cast<float>(i % 9) - 4.0f);
    for (size_t i = 0; i < 128; i++)
        b[i] = __float2half(static_cast<float>(i % 5) - 2.0f);
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 0; j < 8; j++)
            for (size_t k = 0; k < 16; k++)
                d[i * 8 + j] += __half2float(a[i * 16 + k]) * __half2float(b[k * 8 + j]);
    __half *da = device<__half>(256), *db = device<__half>(128);
    float *dd = device<float>(128);
    put(da, a, s);
    put(db, b, s);
    BS_LAUNCH(tensor_product, 1, 32, 0, s, da, db, dd);
    CHECK(fetch(dd, 128, s) == d);
    BS_LAUNCH(arithmetic, 1, 1, 0, s, dd);
    const std::vector<float> got = fetch(dd, 8, s);
    const float expected[8] = {1.75f, 8 + 31 + 4 + 1, 3 + 2 + 2, 7, 1.75f, 2 - 1 + 15, 4.5f, 1};
    for (size_t i = 0; i < 8; i++)
        CHECK(got[i] == expected[i]);
    OK(cudaFree(da));
    OK(cudaFree(db));
    OK(cudaFree(dd));
}

static void check_streams(cudaStream_t s)
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

static void check_capture(cudaStream_t s)
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

    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); /* may not wait for itself */
    CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); /* may not allocate */
    void *no = nullptr;
    CHECK(cudaMalloc(&no, 16) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); /* may not leave work behind */
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(other, fork, 0));
    BS_LAUNCH(add_number, 1, 128, 0, other, y, count, 2.0f);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureUnjoined);
    cudaGetLastError();

    OK(cudaGraphExecDestroy(ready));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
    OK(cudaStreamDestroy(other));
    OK(cudaFree(x));
    OK(cudaFree(y));
}

#if CUDART_VERSION >= 13000
struct Conditional {
    cudaGraphConditionalHandle handle;
    cudaGraph_t *bodies;
};

/* Adds a conditional node behind what is captured so far. */
static Conditional conditional_begin(cudaStream_t s, cudaGraphConditionalNodeType type, unsigned bodies,
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

static cudaGraphConditionalHandle handle_make(cudaStream_t s)
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

static void check_conditionals(cudaStream_t s)
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
static void check_conditionals(cudaStream_t) {}
#endif

__global__ void much_shared(int *out)
{
    BS_DYNAMIC_SHARED(int, all);
    all[threadIdx.x] = 1;
    out[threadIdx.x] = all[threadIdx.x];
}

static void check_control(cudaStream_t s)
{
    struct cuda_cpu_counts counts;
    int *out = device<int>(32);
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
    OK(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 48 << 10));
    OK(cudaFree(one));
    OK(cudaFree(out));

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

static void check_all(int order, unsigned seed)
{
    cuda_cpu_order(order, seed);
    cudaStream_t s = stream_make();
    check_kernels(s);
    check_warps(s);
    check_atomics(s);
    check_tensor(s);
    check_streams(s);
    check_capture(s);
    check_conditionals(s);
    check_control(s);
    OK(cudaStreamDestroy(s));
    if (cuda_cpu_trouble())
        printf("FAIL trouble: %s\n", cuda_cpu_trouble());
    struct cuda_cpu_counts counts;
    cuda_cpu_counts_get(&counts);
    CHECK(!cuda_cpu_trouble());
    CHECK(counts.live_allocations == 0 && counts.live_streams == 0 && counts.live_events == 0);
    CHECK(counts.live_graphs == 0);
}

/* ---- deliberate bugs ---- */

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

__global__ void bug_same_word(int *x) { x[0] = x[0] + 1; }
__global__ void bug_shared_word_of_blocks(int *x)
{
    __syncthreads();
    x[0] = static_cast<int>(threadIdx.x + blockIdx.x);
    __syncthreads();
}

static int bug(const char *name)
{
    const int count = 4096;
    cudaStream_t s = stream_make(), other = stream_make();
    float *x = device<float>(count);
    std::vector<float> host(count);
    const auto is = [name](const char *one) { return !strcmp(name, one); };
    OK(cudaMemsetAsync(x, 0, count * sizeof *x, s));
    OK(cudaStreamSynchronize(s));
    if (is("event")) { /* nothing orders the streams */
        BS_LAUNCH(add_number, 32, 128, 0, s, x, count, 1.0f);
        BS_LAUNCH(add_number, 32, 128, 0, other, x, count, 1.0f);
    } else if (is("graph_edge")) { /* two chains of a graph write one array */
        cudaEvent_t fork = event_make(), join = event_make();
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        OK(cudaEventRecord(fork, s));
        OK(cudaStreamWaitEvent(other, fork, 0));
        BS_LAUNCH(add_number, 32, 128, 0, s, x, count, 1.0f);
        BS_LAUNCH(add_number, 32, 128, 0, other, x, count, 1.0f);
        OK(cudaEventRecord(join, other));
        OK(cudaStreamWaitEvent(s, join, 0));
        OK(cudaStreamEndCapture(s, &graph));
        OK(cudaGraphInstantiateWithFlags(&ready, graph, 0));
        OK(cudaGraphLaunch(ready, s));
    } else if (is("host_read")) { /* before it is said to be there */
        OK(cudaMemcpyAsync(host.data(), x, count * sizeof *x, cudaMemcpyDeviceToHost, s));
        pause_ms(50);
        printf("%g\n", static_cast<double>(host[5]));
    } else if (is("host_write")) { /* while it may still be copied from */
        OK(cudaMemcpyAsync(x, host.data(), count * sizeof *x, cudaMemcpyHostToDevice, s));
        pause_ms(50);
        host[5] = 1;
    } else if (is("read_after_free")) { /* cudaFree promises nothing about other memory */
        float *y = device<float>(1);
        OK(cudaMemcpyAsync(host.data(), x, count * sizeof *x, cudaMemcpyDeviceToHost, s));
        OK(cudaFree(y));
        printf("%g\n", static_cast<double>(host[5]));
    } else if (is("barrier")) {
        BS_LAUNCH(bug_no_barrier, 1, 64, 0, s, x);
        OK(cudaStreamSynchronize(s));
        host = fetch(x, 64, s);
        for (size_t i = 0; i < 64; i++)
            if (!(host[i] == 1.0f))
                return printf("wrong result\n"), 3;
    } else if (is("syncwarp")) {
        BS_LAUNCH(bug_no_syncwarp, 1, 32, 0, s, x);
    } else if (is("divergent")) {
        BS_LAUNCH(bug_divergent, 1, 32, 0, s, x);
    } else if (is("absent_lane")) {
        BS_LAUNCH(bug_absent_lane, 1, 32, 0, s, reinterpret_cast<int *>(x));
    } else if (is("host_touch")) { /* device memory, by the host: only with separate memory */
        printf("%g\n", static_cast<double>(x[1]));
        return 0;
    } else if (is("ended_lane")) {
        BS_LAUNCH(bug_ended_lane, 1, 32, 0, s, reinterpret_cast<int *>(x));
    } else if (is("beyond")) { /* without a sanitizer: seen when it is freed */
        BS_LAUNCH(bug_same_word, 1, 1, 0, s, reinterpret_cast<int *>(x) + count);
        OK(cudaStreamSynchronize(s));
        OK(cudaFree(x));
        if (cuda_cpu_trouble())
            return fprintf(stderr, "%s\n", cuda_cpu_trouble()), 3;
    } else if (is("library_product")) { /* a product reads what another stream still writes */
        cublasHandle_t handle;
        const float one = 1, zero = 0;
        CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
        CHECK(cublasSetStream(handle, other) == CUBLAS_STATUS_SUCCESS);
        BS_LAUNCH(add_number, 1, 128, 0, s, x, 128, 1.0f);
        CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, x, 8, x, 8, &zero, x + 1024, 8) ==
              CUBLAS_STATUS_SUCCESS);
#if CUDART_VERSION >= 13000
    } else if (is("endless")) {
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        const cudaGraphConditionalHandle loop = handle_make(s);
        BS_LAUNCH(bug_endless, 1, 1, 0, s, loop);
        const Conditional again = conditional_begin(s, cudaGraphCondTypeWhile, 1, loop);
        OK(cudaStreamBeginCaptureToGraph(other, again.bodies[0], nullptr, nullptr, 0,
                                         cudaStreamCaptureModeThreadLocal));
        OK(cudaMemsetAsync(x, 0, 4, other));
        OK(cudaStreamEndCapture(other, nullptr));
        OK(cudaStreamEndCapture(s, &graph));
        OK(cudaGraphInstantiate(&ready, graph, 0));
        OK(cudaGraphLaunch(ready, s));
#endif
    } else if (is("shared_bound")) {
        BS_LAUNCH(bug_shared_bound, 1, 32, 0, s, x);
    } else if (is("bound")) {
        BS_LAUNCH(add_number, 33, 128, 0, s, x, count + 1, 1.0f);
    } else if (is("after_free")) {
        OK(cudaFree(x));
        BS_LAUNCH(add_number, 32, 128, 0, s, x, count, 1.0f);
    } else if (is("same_word")) {
        BS_LAUNCH(bug_same_word, 4, 1, 0, s, reinterpret_cast<int *>(x));
    } else if (is("same_word_barriers")) {
        BS_LAUNCH(bug_shared_word_of_blocks, 4, 1, 0, s, reinterpret_cast<int *>(x));
    } else {
        return fprintf(stderr, "no such bug: %s\n", name), 2;
    }
    OK(cudaDeviceSynchronize());
    return 0;
}

/* Like a machine without a device: every call says so, none crashes. */
static int check_without_device()
{
    int count = 1;
    void *memory = nullptr;
    cudaStream_t stream = nullptr;
    cublasHandle_t handle = nullptr;
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0);
    CHECK(cudaMalloc(&memory, 1) == cudaErrorNoDevice && !memory);
    CHECK(cudaStreamCreate(&stream) == cudaErrorNoDevice && !stream);
    CHECK(cublasCreate(&handle) == CUBLAS_STATUS_NOT_INITIALIZED && !handle);
    BS_LAUNCH(bug_same_word, 1, 1, 0, stream, nullptr);
    CHECK(cudaGetLastError() == cudaErrorNoDevice);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    if (getenv("CUDA_CPU_EXPECT_NONE"))
        return check_without_device();
    if (argc > 1)
        return bug(argv[1]);
    for (int order = 0; order < 3; order++)
        check_all(order, 1);
    check_all(2, 7);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
