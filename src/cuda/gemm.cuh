/* gemm.cuh - products of lines in shared memory: what linear and matmul have in common.
 *
 * A sum is one chain, k = 0, 1, 2 ... (in f16: steps of 16 products of a tensor core, in that order), whatever the
 * shape of the tile it is part of. So a block may choose its tile shape by the number of rows it finds without changing
 * a bit. Relies on tensor.cuh. Must never add up in an order that depends on rows, columns or threads. */
#ifndef BS_CUDA_GEMM
#define BS_CUDA_GEMM

#include "cuda/describe.cuh"
#include "cuda/tensor.cuh"

enum {
    BS_CU_GEMM_SIDE = 64,  /* of a tile, at most: lines on one side, columns on the other */
    BS_CU_GEMM_DEPTH = 64, /* bytes of a line that are in shared memory at a time: 16 f32, 32 f16 */
    BS_CU_GEMM_PITCH = 80, /* bytes from line to line there: eight lines begin in different banks */
    BS_CU_SUMS_PITCH = 68  /* floats from line to line of finished sums */
};

/* Lines of a pass with ROWS * 4 sums a thread: f32 is laid out 16 threads wide, f16 two warps wide. */
template <int BYTES, int ROWS> __device__ __forceinline__ int32_t bs_cu_gemm_lines(void)
{
    return BYTES == 4 ? ROWS * (bs_cu_threads() / 16) : ROWS * 4 * (bs_cu_threads() / 64);
}

/* f32: thread (x, y) has columns x + 16 j of lines y + i * (threads / 16). */
template <int ROWS>
__device__ __forceinline__ void bs_cu_gemm_f32(const uint8_t *columns, const uint8_t *lines, float *sum)
{
    const int32_t x = bs_cu_thread() & 15, y = bs_cu_thread() >> 4, high = bs_cu_threads() >> 4;
#pragma unroll 1
    for (int32_t k = 0; k < BS_CU_GEMM_DEPTH; k += 16) {
        float4 a[ROWS], b[4];
#pragma unroll
        for (int32_t j = 0; j < 4; j++)
            b[j] = *reinterpret_cast<const float4 *>(columns + (x + 16 * j) * BS_CU_GEMM_PITCH + k);
#pragma unroll
        for (int32_t i = 0; i < ROWS; i++)
            a[i] = *reinterpret_cast<const float4 *>(lines + (y + i * high) * BS_CU_GEMM_PITCH + k);
#pragma unroll
        for (int32_t i = 0; i < ROWS; i++)
#pragma unroll
            for (int32_t j = 0; j < 4; j++) {
                float s = fmaf(a[i].x, b[j].x, sum[4 * i + j]);
                s = fmaf(a[i].y, b[j].y, s);
                s = fmaf(a[i].z, b[j].z, s);
                sum[4 * i + j] = fmaf(a[i].w, b[j].w, s);
            }
    }
}

/* f16: a warp has 32 columns (the rows of two matrices a) by ROWS / 2 times 8 lines (the columns of b). */
template <int ROWS>
__device__ __forceinline__ void bs_cu_gemm_f16(const uint8_t *columns, const uint8_t *lines, float *sum)
{
    const int32_t lane = bs_cu_lane(), warp = bs_cu_warp(), matrix = lane >> 3,
                  row = lane & 7;
    const uint8_t *from = columns + ((warp & 1) * 32 + (matrix & 1) * 8 + row) * BS_CU_GEMM_PITCH + (matrix >> 1) * 16;
    const uint8_t *with = lines + ((warp >> 1) * (ROWS / 2) * 8 + row) * BS_CU_GEMM_PITCH + matrix * 16;
    uint32_t b[ROWS / 2][4]; /* two steps of 16 */
    if (warp >= (bs_cu_threads() >> 6) * 2)
        return;
#pragma unroll
    for (int32_t j = 0; j < ROWS / 2; j++)
        bs_cu_ldmatrix_x4(b[j], with + 8 * j * BS_CU_GEMM_PITCH);
#pragma unroll
    for (int32_t k = 0; k < 2; k++)
#pragma unroll
        for (int32_t i = 0; i < 2; i++) {
            uint32_t a[4];
            bs_cu_ldmatrix_x4(a, from + 16 * i * BS_CU_GEMM_PITCH + 32 * k);
#pragma unroll
            for (int32_t j = 0; j < ROWS / 2; j++)
                bs_cu_mma(sum + 4 * (i * (ROWS / 2) + j), a, b[j] + 2 * k);
        }
}

/* Adds to this thread's ROWS * 4 sums the products of what is in shared memory: 64 columns, bs_cu_gemm_lines lines. */
template <int BYTES, int ROWS>
__device__ __forceinline__ void bs_cu_gemm_step(const uint8_t *columns, const uint8_t *lines, float *sum)
{
    if (BYTES == 4)
        bs_cu_gemm_f32<ROWS>(columns, lines, sum);
    else
        bs_cu_gemm_f16<ROWS>(columns, lines, sum);
}

/* Stores sums to to[line][column], pitch BS_CU_SUMS_PITCH. The caller needs a barrier before and after. */
template <int BYTES, int ROWS> __device__ __forceinline__ void bs_cu_gemm_finish(const float *sum, float *to)
{
    const int32_t lane = bs_cu_lane(), warp = bs_cu_warp();
    if (BYTES == 4) {
        const int32_t x = bs_cu_thread() & 15, y = bs_cu_thread() >> 4, high = bs_cu_threads() >> 4;
#pragma unroll
        for (int32_t i = 0; i < ROWS; i++)
#pragma unroll
            for (int32_t j = 0; j < 4; j++)
                to[(y + i * high) * BS_CU_SUMS_PITCH + x + 16 * j] = sum[4 * i + j];
    } else if (warp < (bs_cu_threads() >> 6) * 2) {
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
#pragma unroll
            for (int32_t j = 0; j < ROWS / 2; j++)
#pragma unroll
                for (int32_t e = 0; e < 4; e++)
                    to[((warp >> 1) * (ROWS / 2) * 8 + 8 * j + 2 * (lane & 3) + (e & 1)) * BS_CU_SUMS_PITCH +
                       (warp & 1) * 32 + 16 * i + (lane >> 2) + 8 * (e >> 1)] = sum[4 * (i * (ROWS / 2) + j) + e];
    }
}

#endif
