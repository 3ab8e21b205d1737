/* op_linear.cuh - x W^T + b on the last dimension, with the activation that follows.
 *
 * Weights are lines [out][k], padded with zeros to 16 bytes, f32 or f16. Experts are steps of one launch, and how many
 * rows each has only the device knows: a piece of work is up to 64 lines by 64 (or 16) columns, and its block takes the
 * shape that suits the lines it finds. Up to 8 lines the weights are read once, 256 bytes of a line at a time, three
 * stages deep, and are all the cost; beyond that a tile of 32 or 64 lines shares them. Lines are fetched by address, so
 * rows of a scatter need no copy. All shapes add up in one order (gemm.cuh).
 * Relies on gemm.cuh, program.cuh and ops/linear.c. Must never let rows influence each other. */
#ifndef BS_CUDA_OP_LINEAR
#define BS_CUDA_OP_LINEAR

#include "cuda/gemm.cuh"
#include "cuda/kernels.cuh"
#include "cuda/program.cuh"

#ifndef BS_NO_CUBLAS
#include <cublas_v2.h>
#endif

enum {
    BS_CU_FEW_LINES = 8,
    BS_CU_FEW_COLUMNS = 16, /* at a time: a matrix of a tensor core */
    BS_CU_FEW_DEPTH = 256,  /* bytes of a line: what memory gives in one go */
    BS_CU_FEW_PITCH = 272,
    BS_CU_FEW_STAGES = 3,
    BS_CU_FEW_STAGE_BYTES = (BS_CU_FEW_LINES + BS_CU_FEW_COLUMNS) * BS_CU_FEW_PITCH,
    BS_CU_LINEAR_BATCH =
        1024 /* rows of a domain that all its rows go through: tiles of the same columns run side by side */
};

/* ----------------------------------------------------------------------------------------------- describing */

/* Lines of a row. */
static int32_t bs_cu_linear_lines_of(const bs_device_operand *o)
{
    int64_t n = 1;
    for (int32_t i = 0; i < o->rank - 1; i++)
        n *= o->dim[i];
    return (int32_t)n;
}

/* Rows of a domain in this run, at most. */
static int64_t bs_cu_linear_rows_of(const bs_cu_node *n, int32_t domain)
{
    const bs_domain *domains = n->graph->domains;
    while (domains[domain].kind == BS_DOMAIN_PATH)
        domain = domains[domain].parent;
    if (domains[domain].kind == BS_DOMAIN_ROWS || domains[domain].kind == BS_DOMAIN_SEGMENTS)
        return n->dims[domains[domain].rows];
    return domain ? domains[domain].max_rows : 1;
}

/* p: out, no_bias, act, act_param; then columns of a piece: few where there would be too few pieces to keep a GPU busy
 * with reading. A branch has batches of 64 lines, for it may have far less than it can; others what there is. */
static void bs_cu_linear_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_domain *d = &n->graph->domains[s->domain];
    const bool path = d->kind == BS_DOMAIN_PATH;
    const int64_t lines = bs_max_i32(bs_cu_linear_lines_of(&n->out[0]), 1),
                  all = bs_cu_linear_rows_of(n, s->domain) * lines;
    const int64_t wide = bs_ceil_div(s->p[0].i, BS_CU_GEMM_SIDE);
    const int64_t branches = path ? bs_min_i64(all, n->graph->routers[d->router].desc->paths) : 1;
    const int64_t batch = bs_min_i64(path ? (int64_t)BS_CU_GEMM_SIDE : (int64_t)BS_CU_LINEAR_BATCH, all) / lines;
    s->kernel = n->np->half ? BS_CU_linear_tensor : BS_CU_linear;
    s->batch = batch < 1 ? 1 : (int32_t)batch;
    s->p[4].i = all <= 2 * (int64_t)BS_CU_FEW_LINES && branches * wide < 256 ? (int32_t)BS_CU_FEW_COLUMNS
                                                                             : (int32_t)BS_CU_GEMM_SIDE;
    s->parts = bs_cu_pieces(bs_ceil_div(s->batch * lines, BS_CU_GEMM_SIDE) * bs_ceil_div(s->p[0].i, s->p[4].i), 1);
}

/* -------------------------------------------------------------------------------------------------- loading */

struct bs_cu_linear_line {
    const uint8_t *x;
    uint8_t *y;
};

/* Lies in shared memory: registers are for sums. */
struct bs_cu_linear_job {
    const bs_device_step *step;
    const bs_device_operand *x, *y;
    const uint8_t *weights;
    int32_t line_bytes; /* of weights */
    int32_t k, out, x_step, lines /* of a row */, lines_here /* of the work */;
    int32_t type; /* of x */
    /* of x: 0 by element; 1 as it is stored; 2 without waiting, which the shared memory of a tile does not allow */
    int32_t copy;
    /* of the work: its first row, tiles of its lines, columns of a tile, tiles */
    int32_t row, down, wide, parts, pieces;
    bs_cu_linear_line at[BS_CU_GEMM_SIDE]; /* of the tile */
};

static_assert(sizeof(bs_cu_linear_job) + (BS_CU_GEMM_SIDE + 32) * BS_CU_GEMM_PITCH * 3 <= BS_CU_WORKSPACE,
              "stages and the job share the workspace");

template <int BYTES>
__device__ inline void bs_cu_linear_begin(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                          bs_cu_linear_job &j)
{
    j.step = s;
    j.x = bs_cu_in(t, s, 0);
    j.y = bs_cu_out(t, s, 0);
    j.k = j.x->dim[j.x->rank - 1];
    j.out = s->p[0].i;
    j.line_bytes = (j.k * BYTES + 15) / 16 * 16;
    j.weights = bs_cu_prepared(t, s);
    int32_t lines = 1;
    for (int32_t i = 0; i < j.y->rank - 1; i++)
        lines *= j.y->dim[i];
    j.lines = lines;
    j.type = j.x->dtype;
    j.row = w.row;
    j.parts = w.parts;
    j.wide = s->p[4].i;
    j.down = (w.rows * lines + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE;
    j.pieces = j.down * ((j.out + j.wide - 1) / j.wide);
    j.lines_here = w.rows * lines;
    j.x_step = j.k == 1 ? 1 : j.x->stride[j.x->rank - 1];
    j.copy = j.x_step != 1 || bs_cu_bytes(j.x->dtype) != BYTES ? 0 : j.x->place == BS_AT_TILE ? 1 : 2;
}

/* What happens to a sum. Looked up when sums are there: until then registers are for them. */
struct bs_cu_linear_end {
    const float *bias, *slopes;
    int32_t dtype, step, act;
    float param;
};

__device__ inline bs_cu_linear_end bs_cu_linear_end_of(const bs_cu_linear_job &j)
{
    /* as bs_epilogue_place */
    const int64_t bias = ((int64_t)j.line_bytes * j.out + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT;
    const int64_t array = (4 * (int64_t)j.out + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT;
    bs_cu_linear_end e;
    e.bias = reinterpret_cast<const float *>(j.weights + bias);
    e.slopes = reinterpret_cast<const float *>(j.weights + bias + array); /* there for BS_PRELU only */
    e.dtype = j.y->dtype;
    e.step = j.out == 1 ? 1 : j.y->stride[j.y->rank - 1];
    e.act = j.step->p[2].i;
    e.param = j.step->p[3].f;
    return e;
}

__device__ __forceinline__ void bs_cu_linear_put(const bs_cu_linear_end &e, const bs_cu_linear_line &line,
                                                 int32_t column, float sum)
{
    const float slope = e.act == BS_PRELU ? e.slopes[column] : 0.0f;
    bs_cu_put(line.y, e.dtype, (int64_t)column * e.step, bs_cu_act(e.act, e.param, slope, sum + e.bias[column]));
}

/* Line number `line` of a row, in elements from its first. */
__device__ inline int64_t bs_cu_linear_offset(const bs_device_operand *o, int32_t line)
{
    int64_t offset = 0;
    for (int32_t d = o->rank - 2; d >= 0; d--) {
        offset += (int64_t)(line % o->dim[d]) * o->stride[d];
        line /= o->dim[d];
    }
    return offset;
}

/* Where lines first .. first + count of the work are. count <= 64 <= threads. */
__device__ inline void bs_cu_linear_find(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t first, int32_t count)
{
    const int32_t i = (int32_t)threadIdx.x;
    if (i >= count)
        return;
    const int32_t r = j.row + (first + i) / j.lines, line = (first + i) % j.lines;
    j.at[i].x = bs_cu_row(t, j.x, r) + bs_cu_linear_offset(j.x, line) * bs_cu_bytes(j.x->dtype);
    j.at[i].y = bs_cu_row(t, j.y, r) + bs_cu_linear_offset(j.y, line) * bs_cu_bytes(j.y->dtype);
}

/* 16 bytes of weights. The second-level cache fetches 256 around them: what is read next of the same line. */
__device__ __forceinline__ void bs_cu_linear_fetch(void *shared, const void *global)
{
#if BS_CU_AMPERE && (__CUDACC_VER_MAJOR__ > 11 || (__CUDACC_VER_MAJOR__ == 11 && __CUDACC_VER_MINOR__ >= 4))
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;"
                 :
                 : "r"(at), "l"(__cvta_generic_to_global(global))
                 : "memory");
#else
    bs_cu_cp_async_16(shared, global);
#endif
}

/* Bytes from .. from + 16 * CHUNKS of the weights of `count` columns from `first`; zeros beyond the end of a line. */
template <int CHUNKS>
__device__ __forceinline__ void bs_cu_linear_weights(const bs_cu_linear_job &j, uint8_t *to, int32_t pitch,
                                                     int32_t first, int32_t count, int32_t from)
{
    const int32_t line_bytes = j.line_bytes;
    const uint8_t *weights = j.weights + (int64_t)first * line_bytes + from;
    for (int32_t i = (int32_t)threadIdx.x; i < count * CHUNKS; i += (int32_t)blockDim.x) {
        const int32_t column = i / CHUNKS, chunk = i % CHUNKS * 16;
        uint8_t *slot = to + column * pitch + chunk;
        if (from + chunk < line_bytes)
            bs_cu_linear_fetch(slot, weights + (int64_t)column * line_bytes + chunk);
        else
            *reinterpret_cast<uint4 *>(slot) = make_uint4(0, 0, 0, 0);
    }
}

/* The same bytes of `count` lines of x, as BYTES says; those that cannot be copied as they are, element by element. */
template <int BYTES, int CHUNKS>
__device__ __forceinline__ void bs_cu_linear_rows(const bs_cu_linear_job &j, uint8_t *to, int32_t pitch, int32_t count,
                                                  int32_t from)
{
    const int32_t end = j.k, step = j.x_step, type = j.type, copy = j.copy;
    for (int32_t i = (int32_t)threadIdx.x; i < count * CHUNKS; i += (int32_t)blockDim.x) {
        const uint8_t *line = j.at[i / CHUNKS].x;
        uint8_t *slot = to + i / CHUNKS * pitch + i % CHUNKS * 16;
        const int32_t k = (from + i % CHUNKS * 16) / BYTES;
        const bool whole = copy > 0 && k + 16 / BYTES <= end && (reinterpret_cast<uintptr_t>(line) & 15) == 0;
        if (whole && copy == 2) {
            bs_cu_cp_async_16(slot, line + (int64_t)k * BYTES);
        } else if (whole) {
            *reinterpret_cast<uint4 *>(slot) = *reinterpret_cast<const uint4 *>(line + (int64_t)k * BYTES);
        } else {
#pragma unroll 1
            for (int32_t e = 0; e < 16 / BYTES; e++) {
                const float x = k + e < end ? bs_cu_get(line, type, (int64_t)(k + e) * step) : 0.0f;
                bs_cu_put(slot, BYTES == 4 ? BS_F32 : BS_F16, e, x);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------- few lines */

/* The sums of a thread (of a warp, in f16) go on by 256 bytes. Warps take turns, so that none of an SM's quarters does
 * it all. */
template <int BYTES>
__device__ __forceinline__ void bs_cu_linear_few_step(const uint8_t *stage, int32_t count, int32_t turn, float *sum)
{
    const uint8_t *columns = stage, *lines = stage + BS_CU_FEW_COLUMNS * BS_CU_FEW_PITCH;
    const int32_t lane = (int32_t)threadIdx.x & 31;
    if (BYTES == 4) {
        const int32_t high = (int32_t)blockDim.x >> 4, y = turn >> 4;
        const float4 *w = reinterpret_cast<const float4 *>(columns + (turn & 15) * BS_CU_FEW_PITCH);
        const float4 *x0 = reinterpret_cast<const float4 *>(lines + y * BS_CU_FEW_PITCH);
        const float4 *x1 = reinterpret_cast<const float4 *>(lines + (y + high) * BS_CU_FEW_PITCH);
        const bool second = y + high < count;
        if (y >= count)
            return;
#pragma unroll 4
        for (int32_t k = 0; k < BS_CU_FEW_DEPTH / 16; k++) {
            const float4 b = w[k], a = x0[k];
            sum[0] = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum[0]))));
            if (second) {
                const float4 c = x1[k];
                sum[1] = fmaf(c.w, b.w, fmaf(c.z, b.z, fmaf(c.y, b.y, fmaf(c.x, b.x, sum[1]))));
            }
        }
    } else if (turn < 32) {
        const int32_t matrix = lane >> 3, row = lane & 7;
        const uint8_t *from = columns + ((matrix & 1) * 8 + row) * BS_CU_FEW_PITCH + (matrix >> 1) * 16;
        const uint8_t *with = lines + row * BS_CU_FEW_PITCH + matrix * 16;
#pragma unroll 2
        for (int32_t k = 0; k < BS_CU_FEW_DEPTH; k += 64) {
            uint32_t a[4], b[4];
            bs_cu_ldmatrix_x4(b, with + k);
            bs_cu_ldmatrix_x4(a, from + k);
            bs_cu_mma(sum, a, b);
            bs_cu_ldmatrix_x4(a, from + k + 32);
            bs_cu_mma(sum, a, b + 2);
        }
    }
}

template <int BYTES>
__device__ __forceinline__ void bs_cu_linear_few_finish(const bs_cu_linear_job &j, int32_t count, int32_t first,
                                                        int32_t columns, int32_t turn, const float *sum)
{
    const bs_cu_linear_end e = bs_cu_linear_end_of(j);
    if (BYTES == 4) {
        const int32_t high = (int32_t)blockDim.x >> 4, column = turn & 15, y = turn >> 4;
#pragma unroll 1
        for (int32_t i = 0; i < 2; i++)
            if (column < columns && y + i * high < count)
                bs_cu_linear_put(e, j.at[y + i * high], first + column, i ? sum[1] : sum[0]);
    } else if (turn < 32) {
#pragma unroll 1
        for (int32_t i = 0; i < 4; i++) {
            const int32_t line = 2 * (turn & 3) + (i & 1), column = (turn >> 2) + 8 * (i >> 1);
            if (column < columns && line < count)
                bs_cu_linear_put(e, j.at[line], first + column,
                                 i == 0   ? sum[0]
                                 : i == 1 ? sum[1]
                                 : i == 2 ? sum[2]
                                          : sum[3]);
        }
    }
}

/* `count` (at most 8) lines by columns first .. end: groups of 16 columns, one behind the other in the same stages. */
template <int BYTES>
__device__ inline void bs_cu_linear_few(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t line, int32_t count,
                                        int32_t first, int32_t end)
{
    const int32_t depth = (int32_t)((j.line_bytes + BS_CU_FEW_DEPTH - 1) / BS_CU_FEW_DEPTH);
    int32_t load_first = first, load_at = 0, load_stage = 0, at = 0, stage = 0, turn = (int32_t)threadIdx.x;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    bs_cu_linear_find(t, j, line, count);
    __syncthreads();
    for (int32_t i = 1 - BS_CU_FEW_STAGES; first < end; i++) {
        if (i >= 0) {
            bs_cu_cp_async_wait<BS_CU_FEW_STAGES - 2>();
            __syncthreads();
        }
        if (load_first < end) {
            uint8_t *to = t.workspace + load_stage * BS_CU_FEW_STAGE_BYTES;
            const int32_t from = load_at * BS_CU_FEW_DEPTH;
            bs_cu_linear_weights<BS_CU_FEW_DEPTH / 16>(j, to, BS_CU_FEW_PITCH, load_first,
                                                       min(BS_CU_FEW_COLUMNS, end - load_first), from);
            bs_cu_linear_rows<BYTES, BS_CU_FEW_DEPTH / 16>(j, to + BS_CU_FEW_COLUMNS * BS_CU_FEW_PITCH, BS_CU_FEW_PITCH,
                                                           count, from);
            load_stage = load_stage + 1 == BS_CU_FEW_STAGES ? 0 : load_stage + 1;
            load_at = load_at + 1 == depth ? 0 : load_at + 1;
            load_first += load_at == 0 ? BS_CU_FEW_COLUMNS : 0;
        }
        bs_cu_cp_async_commit();
        if (i < 0)
            continue;
        bs_cu_linear_few_step<BYTES>(t.workspace + stage * BS_CU_FEW_STAGE_BYTES, count, turn, sum);
        stage = stage + 1 == BS_CU_FEW_STAGES ? 0 : stage + 1;
        if (++at == depth) {
            bs_cu_linear_few_finish<BYTES>(j, count, first, min(BS_CU_FEW_COLUMNS, end - first), turn, sum);
            sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
            at = 0;
            first += BS_CU_FEW_COLUMNS;
            turn = turn + 32 >= (int32_t)blockDim.x ? turn + 32 - (int32_t)blockDim.x : turn + 32;
        }
    }
    __syncthreads();
}

/* ------------------------------------------------------------------------------------------------- more lines */

template <int BYTES>
__device__ __forceinline__ void bs_cu_linear_load(const bs_cu_linear_job &j, uint8_t *stage, int32_t count,
                                                  int32_t first, int32_t columns, int32_t step)
{
    const int32_t from = step * BS_CU_GEMM_DEPTH;
    bs_cu_linear_weights<BS_CU_GEMM_DEPTH / 16>(j, stage, BS_CU_GEMM_PITCH, first, columns, from);
    bs_cu_linear_rows<BYTES, BS_CU_GEMM_DEPTH / 16>(j, stage + BS_CU_GEMM_SIDE * BS_CU_GEMM_PITCH, BS_CU_GEMM_PITCH,
                                                    count, from);
}

/* `count` lines, at most those of a pass, by columns first .. end (64 at most). */
template <int BYTES, int ROWS, int STAGES>
__device__ inline void bs_cu_linear_pass(const bs_cu_tile &t, const bs_cu_linear_job &j, int32_t count, int32_t first,
                                         int32_t end)
{
    enum { STAGE_BYTES = (BS_CU_GEMM_SIDE + ROWS * 16) * BS_CU_GEMM_PITCH };
    const int32_t steps = (int32_t)((j.line_bytes + BS_CU_GEMM_DEPTH - 1) / BS_CU_GEMM_DEPTH), columns = end - first;
    float sum[ROWS * 4];
    int32_t stage = 0, load_stage = STAGES - 1;
#pragma unroll
    for (int32_t i = 0; i < ROWS * 4; i++)
        sum[i] = 0.0f;
    for (int32_t i = 0; i < STAGES - 1; i++) {
        if (i < steps)
            bs_cu_linear_load<BYTES>(j, t.workspace + i * STAGE_BYTES, count, first, columns, i);
        bs_cu_cp_async_commit();
    }
    for (int32_t i = 0; i < steps; i++) {
        bs_cu_cp_async_wait<STAGES - 2>();
        __syncthreads();
        if (i + STAGES - 1 < steps)
            bs_cu_linear_load<BYTES>(j, t.workspace + load_stage * STAGE_BYTES, count, first, columns, i + STAGES - 1);
        bs_cu_cp_async_commit();
        bs_cu_gemm_step<BYTES, ROWS>(t.workspace + stage * STAGE_BYTES,
                                     t.workspace + stage * STAGE_BYTES + BS_CU_GEMM_SIDE * BS_CU_GEMM_PITCH, sum);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        load_stage = load_stage + 1 == STAGES ? 0 : load_stage + 1;
    }
    float *sums = reinterpret_cast<float *>(t.workspace);
    __syncthreads();
    bs_cu_gemm_finish<BYTES, ROWS>(sum, sums);
    __syncthreads();
    const bs_cu_linear_end e = bs_cu_linear_end_of(j);
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < count * BS_CU_GEMM_SIDE; i += (int32_t)blockDim.x) {
        const int32_t line = i / BS_CU_GEMM_SIDE, column = i % BS_CU_GEMM_SIDE;
        if (column < columns)
            bs_cu_linear_put(e, j.at[line], first + column, sums[line * BS_CU_SUMS_PITCH + column]);
    }
    __syncthreads();
}

/* Lines line .. line + count (64 at most) of the work, in passes. */
template <int BYTES, int ROWS, int STAGES>
__device__ inline void bs_cu_linear_tiled(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t line, int32_t count,
                                          int32_t first, int32_t end)
{
    const int32_t most = bs_cu_gemm_lines<BYTES, ROWS>();
    for (int32_t at = 0; at < count; at += most) {
        const int32_t here = min(most, count - at);
        bs_cu_linear_find(t, j, line + at, here);
        __syncthreads();
        bs_cu_linear_pass<BYTES, ROWS, STAGES>(t, j, here, first, end);
    }
}

template <int BYTES>
__device__ inline void bs_cu_linear_any(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_linear_job &j = reinterpret_cast<bs_cu_linear_job *>(t.workspace + BS_CU_WORKSPACE)[-1];
    if (threadIdx.x == 0)
        bs_cu_linear_begin<BYTES>(t, s, w, j);
    __syncthreads();
    if (w.part == 0 && j.y->rank == 3 && j.y->margin > 0)
        for (int32_t r = w.row; r < w.row + w.rows; r++)
            bs_cu_zero_margin(bs_cu_open(t, j.y, r));
    /* lines fastest: neighbours read the same weights */
    for (int32_t piece = w.part; piece < j.pieces; piece += j.parts) {
        const int32_t line = piece % j.down * BS_CU_GEMM_SIDE, first = piece / j.down * j.wide,
                      end = min(first + j.wide, j.out);
        const int32_t count = min(BS_CU_GEMM_SIDE, j.lines_here - line);
        if (count <= BS_CU_FEW_LINES)
            bs_cu_linear_few<BYTES>(t, j, line, count, first, end);
        else if (count <= BS_CU_GEMM_SIDE / 2)
            bs_cu_linear_tiled<BYTES, 2, 3>(t, j, line, count, first, end);
        else
            bs_cu_linear_tiled<BYTES, 4, 2>(t, j, line, count, first, end);
    }
}

__device__ inline void bs_cu_linear_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_linear_any<4>(t, s, w);
}

__device__ inline void bs_cu_linear_tensor_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_linear_any<2>(t, s, w);
}

/* --------------------------------------------------------------------------------------------- large products */

/* What a library's kernel would not change: bias and activation, in place. */
static __global__ void __launch_bounds__(256)
    bs_cu_linear_epilogue(uint8_t *y, int32_t dtype, int64_t line, int64_t lines, int32_t out, const float *bias,
                          const float *slopes, int32_t act, float param)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < lines * out; i += step) {
        const int32_t column = (int32_t)(i % out);
        const int64_t at = i / out * line + column;
        bs_cu_put(
            y, dtype, at,
            bs_cu_act(act, param, act == BS_PRELU ? slopes[column] : 0.0f, bs_cu_get(y, dtype, at) + bias[column]));
    }
}

#ifndef BS_NO_CUBLAS

/* Elements from line to line where all lines lie behind each other and within themselves; 0: they do not. */
static int64_t bs_cu_linear_dense(const bs_cu_node *n, const bs_device_operand *o)
{
    const int32_t last = o->rank - 1;
    const bool rows = o->domain != 0;
    if (n->graph->domains[o->domain].kind == BS_DOMAIN_PATH || o->stored != o->domain ||
        (o->place != BS_AT_ROOT && o->place != BS_AT_ROWS && o->place != BS_AT_LINE) ||
        (o->dim[last] > 1 && o->stride[last] != 1) || (rows && o->rank > 1) || (o->rank == 3 && o->margin > 0))
        return 0;
    for (int32_t d = 0; d + 2 < o->rank; d++)
        if (o->dim[d] > 1 && o->stride[d] != (int64_t)o->dim[d + 1] * o->stride[d + 1])
            return 0;
    return rows          ? o->row_bytes / (int64_t)bs_dtype_bytes((bs_dtype)o->dtype)
           : o->rank > 1 ? o->stride[last - 1]
                         : o->dim[last];
}

/* Whether the host knows enough of a linear, and in this run it is large enough, for bs_cu_linear_cublas. The order of
 * its sums is the library's. */
static bool bs_cu_linear_is_large(const bs_cu_node *n)
{
    const bs_dtype type = n->np->half ? BS_F16 : BS_F32;
    const int64_t k = n->in[0].dim[n->in[0].rank - 1], out = n->out[0].dim[n->out[0].rank - 1];
    const int64_t lines = bs_cu_linear_rows_of(n, n->out[0].domain) * bs_cu_linear_lines_of(&n->out[0]);
    return n->in[0].dtype == type && n->out[0].dtype == type && k % 8 == 0 && k >= 128 && out >= 128 &&
           lines >= 256 && bs_cu_linear_dense(n, &n->in[0]) >= k && bs_cu_linear_dense(n, &n->out[0]) >= out;
}

/* All `rows` rows of such a linear, on `stream`, which is the handle's. Operands and step as they were lowered;
 * prepared: its weights on the device. */
static bool bs_cu_linear_cublas(cublasHandle_t handle, cudaStream_t stream, const bs_cu_node *n,
                                const bs_device_step *s, const uint8_t *prepared, int32_t rows)
{
    const bs_device_operand *x = &n->in[0], *y = &n->out[0];
    const bool half = n->np->half != 0;
    const int32_t k = x->dim[x->rank - 1], out = s->p[0].i, bytes = half ? 2 : 4,
                  padded = (k * bytes + 15) / 16 * 16 / bytes;
    const int64_t lines = (int64_t)rows * bs_cu_linear_lines_of(y), from = bs_cu_linear_dense(n, x),
                  to = bs_cu_linear_dense(n, y);
    const int64_t bias = (int64_t)bs_bytes_figure(
        bs_bytes_align(bs_bytes_times(bs_bytes_array(padded, (size_t)bytes), out)));
    const int64_t array = (int64_t)bs_bytes_figure(bs_bytes_align(bs_bytes_array(out, sizeof(float))));
    const cudaDataType_t type = half ? CUDA_R_16F : CUDA_R_32F;
    const float one = 1.0f, zero = 0.0f;
#if CUBLAS_VER_MAJOR >= 11
    const cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
#else
    const cudaDataType_t compute = CUDA_R_32F;
#endif
    if (lines == 0)
        return true;
    if (lines > INT32_MAX || from > INT32_MAX || to > INT32_MAX ||
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, out, (int)lines, k, &one, prepared, type, padded,
                     reinterpret_cast<const void *>(static_cast<uintptr_t>(x->base)), type, (int)from, &zero,
                     reinterpret_cast<void *>(static_cast<uintptr_t>(y->base)), type, (int)to, compute,
                     CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
        return false;
    BS_LAUNCH(bs_cu_linear_epilogue, (unsigned)bs_min_i64(bs_ceil_div(lines * out, 1024), 4096), 256, 0, stream,
              reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(y->base)), (int32_t)y->dtype, to, lines, out,
              reinterpret_cast<const float *>(prepared + bias),
              reinterpret_cast<const float *>(prepared + bias + array), s->p[2].i, s->p[3].f);
    return true;
}

#endif

#endif
