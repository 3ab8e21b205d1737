/* self_kernels.cu - what kernels see: threads, warps, shared memory, atomics, tensor instructions. A part of the
 * self-test (self_test.cu). */
#include "self_test.h"

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

void check_sum(cudaStream_t s)
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
    OK(cudaFree(dx));
    OK(cudaFree(sum));
}

/* A product in tiles, and by the library: plain, and of transposed factors in two batches. */
void check_products(cudaStream_t s)
{
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
    for (float *p : {da, db, dc})
        OK(cudaFree(p));
}

void check_kernels(cudaStream_t s)
{
    check_sum(s);
    check_products(s);
}

void check_warps(cudaStream_t s)
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

void check_atomics(cudaStream_t s)
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

void check_tensor(cudaStream_t s)
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
