/* op_matmul.cuh - products of two computed matrices, one product for each index of the leading dimensions.
 * Operands have any strides and are copied to shared memory element by element, fastest along the dimension whose
 * elements are closer together. A sum is k = 0, 1, 2 ..., as the definition says.
 * Relies on gemm.cuh and program.cuh. Must never read beyond a matrix: sizes are those of this run. */
#ifndef BS_CUDA_OP_MATMUL
#define BS_CUDA_OP_MATMUL

#include "cuda/gemm.cuh"
#include "cuda/kernels.cuh"
#include "cuda/program.cuh"

enum { BS_CU_MATMUL_STAGE_BYTES = 2 * BS_CU_GEMM_SIDE * BS_CU_GEMM_PITCH };

/* Its parameters, in p: the descriptor's words. */
enum { BS_CU_MATMUL_TRANSPOSE, BS_CU_MATMUL_SCALE };

static void bs_cu_matmul_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_device_operand *o = &n->out[0];
    s->parts = bs_cu_work_items(bs_cu_product(o->dim, o->rank - 2) * bs_ceil_div(o->dim[o->rank - 2], BS_CU_GEMM_SIDE) *
                                bs_ceil_div(o->dim[o->rank - 1], BS_CU_GEMM_SIDE),
                            1);
}

/* A matrix as lines of k, whichever way it is stored. */
struct bs_cu_matmul_side {
    const bs_device_operand *o;
    int32_t lines, k, line_step, k_step;
};

__device__ inline bs_cu_matmul_side bs_cu_matmul_side_of(const bs_device_operand *o, bool transposed)
{
    const int32_t line = transposed ? o->rank - 2 : o->rank - 1, k = transposed ? o->rank - 1 : o->rank - 2;
    bs_cu_matmul_side m;
    m.o = o;
    m.lines = o->dim[line];
    m.k = o->dim[k];
    m.line_step = o->stride[line];
    m.k_step = o->stride[k];
    return m;
}

/* Where matrix `index` of a row is. */
__device__ inline uint8_t *bs_cu_matmul_at(const bs_cu_tile &t, const bs_device_operand *o, int32_t row, int32_t index)
{
    int64_t offset = 0;
    for (int32_t d = o->rank - 3; d >= 0; d--) {
        offset += (int64_t)(index % o->dim[d]) * o->stride[d];
        index /= o->dim[d];
    }
    return bs_cu_row(t, o, row) + offset * bs_cu_bytes(o->dtype);
}

/* Loads elements k .. k + 16 of `count` lines from `first`; zeros beyond the last one. */
__device__ __forceinline__ void bs_cu_matmul_load(const bs_cu_matmul_side &m, const uint8_t *from, int32_t first,
                                                  int32_t count, int32_t k, uint8_t *to)
{
    const bool across = abs(m.line_step) < abs(m.k_step);
#pragma unroll 1
    for (int32_t i = bs_cu_thread(); i < BS_CU_GEMM_SIDE * 16; i += bs_cu_threads()) {
        const int32_t line = across ? i % BS_CU_GEMM_SIDE : i / 16, at = across ? i / BS_CU_GEMM_SIDE : i % 16;
        if (line < count)
            *reinterpret_cast<float *>(to + line * BS_CU_GEMM_PITCH +
                                       at * 4) = k + at < m.k ? bs_cu_get(from, m.o->dtype,
                                                                          (int64_t)(first + line) * m.line_step +
                                                                              (int64_t)(k + at) * m.k_step)
                                                              : 0.0f;
    }
}

struct bs_cu_matmul_job {
    bs_cu_matmul_side a, b;
    const bs_device_operand *out;
    float scale;
};

/* Lines line .. line + count (those of a pass at most) by columns first .. first + columns (64 at most) of one
 * product. */
__device__ inline void bs_cu_matmul_pass(const bs_cu_tile &t, const bs_cu_matmul_job &j, const uint8_t *a,
                                         const uint8_t *b, uint8_t *out, int32_t line, int32_t count, int32_t first,
                                         int32_t columns)
{
    float sum[16];
    int32_t stage = 0;
#pragma unroll
    for (int32_t i = 0; i < 16; i++)
        sum[i] = 0.0f;
    bs_cu_matmul_load(j.b, b, first, columns, 0, t.workspace);
    bs_cu_matmul_load(j.a, a, line, count, 0, t.workspace + BS_CU_MATMUL_STAGE_BYTES / 2);
    for (int32_t k = 0; k < j.a.k; k += 16) {
        uint8_t *here = t.workspace + stage * BS_CU_MATMUL_STAGE_BYTES,
                *next = t.workspace + (stage ^ 1) * BS_CU_MATMUL_STAGE_BYTES;
        __syncthreads();
        if (k + 16 < j.a.k) {
            bs_cu_matmul_load(j.b, b, first, columns, k + 16, next);
            bs_cu_matmul_load(j.a, a, line, count, k + 16, next + BS_CU_MATMUL_STAGE_BYTES / 2);
        }
        bs_cu_gemm_step<4, 4>(here, here + BS_CU_MATMUL_STAGE_BYTES / 2, sum);
        stage ^= 1;
    }
    float *sums = reinterpret_cast<float *>(t.workspace);
    const bs_device_operand *o = j.out;
    __syncthreads();
    bs_cu_gemm_finish<4, 4>(sum, sums);
    __syncthreads();
#pragma unroll 1
    for (int32_t i = bs_cu_thread(); i < count * BS_CU_GEMM_SIDE; i += bs_cu_threads()) {
        const int32_t y = i / BS_CU_GEMM_SIDE, x = i % BS_CU_GEMM_SIDE;
        if (x < columns)
            bs_cu_put(out, o->dtype,
                      (int64_t)(line + y) * o->stride[o->rank - 2] + (int64_t)(first + x) * o->stride[o->rank - 1],
                      sums[y * BS_CU_SUMS_PITCH + x] * j.scale);
    }
    __syncthreads();
}

__device__ inline void bs_cu_matmul_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_matmul_job j;
    j.a = bs_cu_matmul_side_of(bs_cu_in(t, s, 0), true);
    j.b = bs_cu_matmul_side_of(bs_cu_in(t, s, 1), s->p[BS_CU_MATMUL_TRANSPOSE].i != 0);
    j.out = bs_cu_out(t, s, 0);
    j.scale = s->p[BS_CU_MATMUL_SCALE].f == 0.0f ? 1.0f : s->p[BS_CU_MATMUL_SCALE].f;
    const int64_t matrices = bs_cu_product(j.out->dim, j.out->rank - 2);
    const int32_t down = (j.a.lines + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE,
                  across = (j.b.lines + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE;
    const int32_t most = bs_cu_gemm_lines<4, 4>();
    for (int32_t r = w.row; r < w.end; r++) {
        bs_cu_zero_margin_of(t, w, j.out, r);
        for (int64_t item = w.part; item < matrices * down * across; item += w.parts) {
            const int32_t matrix = (int32_t)(item / (down * across)), tile = (int32_t)(item % (down * across));
            const int32_t line = tile % down * BS_CU_GEMM_SIDE, first = tile / down * BS_CU_GEMM_SIDE,
                          end = min(line + BS_CU_GEMM_SIDE, j.a.lines);
            const uint8_t *a = bs_cu_matmul_at(t, j.a.o, r, matrix), *b = bs_cu_matmul_at(t, j.b.o, r, matrix);
            const int32_t columns = min((int32_t)BS_CU_GEMM_SIDE, j.b.lines - first);
            for (int32_t at = line; at < end; at += most)
                bs_cu_matmul_pass(t, j, a, b, bs_cu_matmul_at(t, j.out, r, matrix), at, min(most, end - at), first,
                                  columns);
        }
    }
}

#endif
