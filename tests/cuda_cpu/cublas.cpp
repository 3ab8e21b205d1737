/* cublas.cpp - the matrix products of cuBLAS, naively: columns first, f32, f16 and bf16, sums in f32. Relies on
 * stream.cpp; scalars are on the host. Must never be quicker than it is plain.
 *
 * The workspace is as the manual has it: the caller's from cublasSetWorkspace on, until cublasSetStream, which gives it
 * up for the default pool whatever the stream. A product in the pool is counted as a hidden allocation, captured or
 * not: the library would allocate. A product of one's own workspace writes to it, so that two at once are a race. */
#include "engine.h"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

using namespace cuda_cpu;

struct cublasContext {
    cudaStream_t stream;
    cublasMath_t math;
    cublasPointerMode_t pointers;
    void *workspace; /* null: the default pool */
    size_t workspace_bytes;
};

namespace cuda_cpu {

struct Matrix {
    const void *at;
    cudaDataType_t type;
    long long pitch, stride;
    bool transposed;
};

struct Product {
    int rows, columns, depth, batch;
    float alpha, beta;
    Matrix a, b, c;
    void *out;
};

enum { LEAST_WORKSPACE = 16384, WORKSPACE_ALIGNMENT = 256 }; /* below that some routines fail; below that all */

static bool type_known(cudaDataType_t type) { return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF; }

static size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

static float load(const void *at, cudaDataType_t type, long long i)
{
    if (type == CUDA_R_32F)
        return static_cast<const float *>(at)[i];
    if (type == CUDA_R_16F)
        return __half2float(static_cast<const __half *>(at)[i]);
    return __bfloat162float(static_cast<const __nv_bfloat16 *>(at)[i]);
}

static void store(void *at, cudaDataType_t type, long long i, float value)
{
    if (type == CUDA_R_32F)
        static_cast<float *>(at)[i] = value;
    else if (type == CUDA_R_16F)
        static_cast<__half *>(at)[i] = __float2half(value);
    else
        static_cast<__nv_bfloat16 *>(at)[i] = __float2bfloat16(value);
}

static float element(const Matrix &m, long long batch, long long row, long long column)
{
    return load(m.at, m.type, batch * m.stride + (m.transposed ? row * m.pitch + column : column * m.pitch + row));
}

/* This file is not instrumented: a sanitizer has to be told what is read and written. */
static void announce(const Matrix &m, long long batch, int rows, int columns, void *written)
{
    const size_t element_bytes = bytes_of(m.type);
    const long long lead = m.transposed ? columns : rows, others = m.transposed ? rows : columns;
    for (long long i = 0; i < others; i++) {
        const long long at = (batch * m.stride + i * m.pitch) * static_cast<long long>(element_bytes);
        if (written)
            memory_written(static_cast<char *>(written) + at, static_cast<size_t>(lead) * element_bytes);
        else
            memory_read(static_cast<const char *>(m.at) + at, static_cast<size_t>(lead) * element_bytes);
    }
}

static void multiply(const Product &p, long long batch)
{
    announce(p.a, batch, p.rows, p.depth, nullptr);
    announce(p.b, batch, p.depth, p.columns, nullptr);
    announce(p.c, batch, p.rows, p.columns, p.out);
    std::vector<float> a(static_cast<size_t>(p.rows) * static_cast<size_t>(p.depth)), sums;
    for (int k = 0; k < p.depth; k++)
        for (int i = 0; i < p.rows; i++)
            a[static_cast<size_t>(k) * static_cast<size_t>(p.rows) + static_cast<size_t>(i)] = element(p.a, batch, i,
                                                                                                       k);
    for (int j = 0; j < p.columns; j++) {
        sums.assign(static_cast<size_t>(p.rows), 0.0f);
        for (int k = 0; k < p.depth; k++) {
            const float b = element(p.b, batch, k, j);
            const float *column = &a[static_cast<size_t>(k) * static_cast<size_t>(p.rows)];
            for (int i = 0; i < p.rows; i++)
                sums[static_cast<size_t>(i)] += column[i] * b;
        }
        for (int i = 0; i < p.rows; i++) {
            const long long at = batch * p.c.stride + j * p.c.pitch + i;
            const float old = p.beta != 0.0f ? p.beta * load(p.out, p.c.type, at) : 0.0f;
            store(p.out, p.c.type, at, p.alpha * sums[static_cast<size_t>(i)] + old);
        }
    }
}

static bool fits(const Matrix &m, int rows, int columns, int batch)
{
    const long long lead = m.transposed ? columns : rows, others = m.transposed ? rows : columns;
    if (!type_known(m.type) || m.pitch < (lead > 1 ? lead : 1))
        return false;
    const size_t element_bytes = bytes_of(m.type);
    const Place place = memory_find(m.at);
    if (place.where == PAGEABLE) {
        trouble("cuBLAS is given %p, which is not on the device", m.at);
        return false;
    }
    if (!rows || !columns || !batch)
        return true;
    const long long last = (batch - 1) * m.stride + (others - 1) * m.pitch + lead;
    const bool inside = reinterpret_cast<uintptr_t>(m.at) - place.start + static_cast<size_t>(last) * element_bytes
                        <= place.bytes;
    if (!inside)
        trouble("a matrix of cuBLAS at %p leaves its allocation", m.at);
    return inside;
}

static cublasStatus_t product(cublasHandle_t handle, const Product &p)
{
    if (begin() != cudaSuccess) {
        cudaGetLastError();
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (p.rows < 0 || p.columns < 0 || p.depth < 0 || p.batch < 0 || !fits(p.a, p.rows, p.depth, p.batch) ||
        !fits(p.b, p.depth, p.columns, p.batch) || !fits(p.c, p.rows, p.columns, p.batch))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (handle->workspace && handle->workspace_bytes < LEAST_WORKSPACE)
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (!handle->workspace)
        count(HIDDEN_ALLOCATIONS);
    void *const workspace = handle->workspace;
    const cudaError_t error = stream_enqueue(handle->stream, work_of([p, workspace](Worker &) {
        if (workspace)
            memory_written(workspace, LEAST_WORKSPACE);
        for (int batch = 0; batch < p.batch; batch++)
            multiply(p, batch);
    }));
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static cublasStatus_t begun()
{
    if (begin() == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    cudaGetLastError();
    return device_present() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_NOT_INITIALIZED;
}

} // namespace cuda_cpu

extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    const cublasStatus_t status = begun();
    *handle = status == CUBLAS_STATUS_SUCCESS
                  ? new cublasContext{nullptr, CUBLAS_DEFAULT_MATH, CUBLAS_POINTER_MODE_HOST, nullptr, 0}
                  : nullptr;
    return status;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    const cublasStatus_t status = begun();
    if (status == CUBLAS_STATUS_SUCCESS) {
        handle->stream = stream;
        handle->workspace = nullptr;
    }
    return status;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream)
{
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
    const cublasStatus_t status = begun();
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const Place place = memory_find(workspace);
    const uintptr_t at = reinterpret_cast<uintptr_t>(workspace);
    if (at % WORKSPACE_ALIGNMENT != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (place.where != DEVICE || at - place.start + bytes > place.bytes) {
        trouble("cuBLAS is given a workspace at %p that is not on the device", workspace);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return status;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    const cublasStatus_t status = begun();
    if (status == CUBLAS_STATUS_SUCCESS)
        handle->math = mode;
    return status;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t mode)
{
    const cublasStatus_t status = begun();
    return status != CUBLAS_STATUS_SUCCESS || mode == CUBLAS_POINTER_MODE_HOST ? status : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGetVersion(cublasHandle_t, int *version)
{
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "cuBLAS failed";
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k, const void *alpha,
                                          const void *a, cudaDataType_t a_type, int lda, long long a_stride,
                                          const void *b, cudaDataType_t b_type, int ldb, long long b_stride,
                                          const void *beta, void *c, cudaDataType_t c_type, int ldc,
                                          long long c_stride, int batch, cublasComputeType_t, cublasGemmAlgo_t)
{
    return product(handle, Product{m, n, k, batch, *static_cast<const float *>(alpha),
                                   *static_cast<const float *>(beta),
                                   Matrix{a, a_type, lda, a_stride, transpose_a != CUBLAS_OP_N},
                                   Matrix{b, b_type, ldb, b_stride, transpose_b != CUBLAS_OP_N},
                                   Matrix{c, c_type, ldc, c_stride, false}, c});
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType_t a_type, int lda,
                            const void *b, cudaDataType_t b_type, int ldb, const void *beta, void *c,
                            cudaDataType_t c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type,
                                      ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                           int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                           const float *beta, float *c, int ldc)
{
    return cublasGemmEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, CUDA_R_32F, lda, b, CUDA_R_32F, ldb, beta,
                        c, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transpose_a,
                                         cublasOperation_t transpose_b, int m, int n, int k, const float *alpha,
                                         const float *a, int lda, long long a_stride, const float *b, int ldb,
                                         long long b_stride, const float *beta, float *c, int ldc, long long c_stride,
                                         int batch)
{
    return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, CUDA_R_32F, lda, a_stride,
                                      b, CUDA_R_32F, ldb, b_stride, beta, c, CUDA_R_32F, ldc, c_stride, batch,
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

} // extern "C"
