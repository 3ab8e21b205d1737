/* op_linear.cuh - x W^T + b on the last dimension, with the activation that follows.
 *
 * Experts are steps of one launch, and only the device knows how many rows each has: a work item is up to 64 lines
 * by 64 (or 16) columns, and its block takes the shape that suits the lines it finds. Up to 8 lines, reading weights
 * is the whole cost: they are read once, 4 KB at a time, of 64 columns (in f16: of 16) side by side. Beyond that
 * a tile of 32 or 64 lines shares them. All shapes add up in one order (gemm.cuh). Relies on linear_cublas.cuh. Must
 * never let rows influence each other. */
#ifndef BS_CUDA_OP_LINEAR
#define BS_CUDA_OP_LINEAR

#include "cuda/linear_cublas.cuh"

enum {
    BS_CU_LINEAR_BATCH =
        1024 /* lines of a batch where no router decides: tiles of the same columns run side by side */
};

/* Stages of few lines: with more columns more threads add up, each for a shorter time; a tensor core wants but few. The
 * L2 cache fetches 256 bytes of a line at once. */
template <int COLUMNS> struct bs_cu_few {
    enum {
        DEPTH = 4096 / COLUMNS, /* bytes of a line */
        PITCH = DEPTH + 16,
        STAGE_BYTES = (BS_CU_FEW_LINES + COLUMNS) * PITCH,
        STAGES = COLUMNS == BS_CU_FEW_COLUMNS ? 3 : 4
    };
    static_assert(STAGES * STAGE_BYTES + (int)sizeof(bs_cu_linear_job) <= BS_CU_WORKSPACE, "stages fit beside the job");
};

/* ------------------------------------------------------------------------------------------------- describing */

/* A path gets batches of 64 lines, because it may have far fewer rows than it could; others get up to
 * BS_CU_LINEAR_BATCH. There are work items enough for either width that the run turns out to want. */
static void bs_cu_linear_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_domain *d = &n->graph->domains[s->domain];
    const bool path = d->kind == BS_DOMAIN_PATH;
    const int64_t lines = bs_max_i64(bs_cu_linear_lines(&n->out[0]), 1),
                  all = bs_cu_linear_most_lines(n, s->domain);
    const int32_t out = s->p[BS_CU_LINEAR_OUT].i;
    const int64_t batch = bs_min_i64(path ? (int64_t)BS_CU_GEMM_SIDE : (int64_t)BS_CU_LINEAR_BATCH, all) / lines;
    s->kernel = n->np->half ? BS_CU_linear_tensor : BS_CU_linear;
#ifndef BS_NO_CUBLAS
    if (n->cublas && s->unit == 0 && bs_cu_linear_is_large(n))
        s->kernel = BS_CU_cublas;
#endif
    s->batch = batch < 1 ? 1 : (int32_t)batch;
    s->p[BS_CU_LINEAR_TOP].i = d->top;
    s->p[BS_CU_LINEAR_BRANCHES].i = path ? n->graph->routers[d->router].desc->paths : 1;
    s->parts = bs_cu_work_items(bs_max_i64(bs_ceil_div(s->batch * lines, BS_CU_GEMM_SIDE) *
                                               bs_ceil_div(out, BS_CU_GEMM_SIDE),
                                           bs_ceil_div(out, BS_CU_FEW_COLUMNS)),
                                1);
}

/* -------------------------------------------------------------------------------------------------- few lines */

/* Adds the products of a stage to the sums of a thread (in f16: of a warp). Warps take turns, so that not one quarter
 * of an SM does all of it. */
template <int BYTES, int COLUMNS>
__device__ __forceinline__ void bs_cu_linear_few_step(const uint8_t *stage, int32_t count, int32_t turn, float *sum)
{
    enum { DEPTH = bs_cu_few<COLUMNS>::DEPTH, PITCH = bs_cu_few<COLUMNS>::PITCH };
    const uint8_t *columns = stage, *lines = stage + COLUMNS * PITCH;
    const int32_t lane = bs_cu_lane();
    if (BYTES == 4) {
        const int32_t high = bs_cu_threads() / COLUMNS, y = turn / COLUMNS;
        const float4 *w = reinterpret_cast<const float4 *>(columns + turn % COLUMNS * PITCH);
        const float4 *x0 = reinterpret_cast<const float4 *>(lines + y * PITCH);
        const float4 *x1 = reinterpret_cast<const float4 *>(lines + (y + high) * PITCH);
        const bool second = y + high < count;
        if (y >= count)
            return;
#pragma unroll 4
        for (int32_t k = 0; k < DEPTH / 16; k++) {
            const float4 b = w[k], a = x0[k];
            sum[0] = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum[0]))));
            if (second) {
                const float4 c = x1[k];
                sum[1] = fmaf(c.w, b.w, fmaf(c.z, b.z, fmaf(c.y, b.y, fmaf(c.x, b.x, sum[1]))));
            }
        }
    } else if (turn < 32) {
        const int32_t matrix = lane >> 3, row = lane & 7;
        const uint8_t *from = columns + ((matrix & 1) * 8 + row) * PITCH + (matrix >> 1) * 16;
        const uint8_t *with = lines + row * PITCH + matrix * 16;
#pragma unroll 2
        for (int32_t k = 0; k < DEPTH; k += 64) {
            uint32_t a[4], b[4];
            bs_cu_ldmatrix_x4(b, with + k);
            bs_cu_ldmatrix_x4(a, from + k);
            bs_cu_mma(sum, a, b);
            bs_cu_ldmatrix_x4(a, from + k + 32);
            bs_cu_mma(sum, a, b + 2);
        }
    }
}

template <int BYTES, int COLUMNS>
__device__ __forceinline__ void bs_cu_linear_few_finish(const bs_cu_tile &t, const bs_cu_linear_job &j, int32_t count,
                                                        int32_t first, int32_t columns, int32_t turn, const float *sum)
{
    const bs_cu_linear_end e = bs_cu_linear_end_of(t, j);
    if (BYTES == 4) {
        const int32_t high = bs_cu_threads() / COLUMNS, column = turn % COLUMNS, y = turn / COLUMNS;
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

/* `count` (at most 8) lines by columns first .. end: groups of columns, one after the other through the same stages. */
template <int BYTES, int COLUMNS>
__device__ inline void bs_cu_linear_few(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t line, int32_t count,
                                        int32_t first, int32_t end)
{
    typedef bs_cu_few<COLUMNS> few;
    const int32_t depth = (int32_t)((j.line_bytes + few::DEPTH - 1) / few::DEPTH), threads = bs_cu_threads();
    int32_t load_first = first, load_at = 0, load_stage = 0, at = 0, stage = 0;
    int32_t turn = (bs_cu_thread() + (int32_t)(blockIdx.x % 4 * 64)) % threads;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int32_t i = 1 - few::STAGES; first < end; i++) {
        if (i >= 0) {
            bs_cu_cp_async_wait<few::STAGES - 2>();
            __syncthreads();
        }
        if (load_first < end) {
            uint8_t *to = t.workspace + load_stage * few::STAGE_BYTES;
            const int32_t from = load_at * few::DEPTH;
            bs_cu_linear_weights<few::DEPTH / 16>(j, to, few::PITCH, load_first, min(COLUMNS, end - load_first), from);
            if (i == 1 - few::STAGES) { /* weights need no rows: the first are under way while those are found */
                bs_cu_linear_find(t, j, line, count);
                __syncthreads();
            }
            bs_cu_linear_rows<BYTES, few::DEPTH / 16>(j, to + COLUMNS * few::PITCH, few::PITCH, count, from);
            load_stage = load_stage + 1 == few::STAGES ? 0 : load_stage + 1;
            load_at = load_at + 1 == depth ? 0 : load_at + 1;
            load_first += load_at == 0 ? COLUMNS : 0;
        }
        bs_cu_cp_async_commit();
        if (i < 0)
            continue;
        bs_cu_linear_few_step<BYTES, COLUMNS>(t.workspace + stage * few::STAGE_BYTES, count, turn, sum);
        stage = stage + 1 == few::STAGES ? 0 : stage + 1;
        if (++at == depth) {
            bs_cu_linear_few_finish<BYTES, COLUMNS>(t, j, count, first, min(COLUMNS, end - first), turn, sum);
            sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
            at = 0;
            first += COLUMNS;
            turn = turn + 32 >= threads ? turn + 32 - threads : turn + 32;
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
    const bs_cu_linear_end e = bs_cu_linear_end_of(t, j);
#pragma unroll 1
    for (int32_t i = bs_cu_thread(); i < count * BS_CU_GEMM_SIDE; i += bs_cu_threads()) {
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
    const bs_device_operand *y = bs_cu_out(t, s, 0);
    if (w.part == 0 && y->margin > 0)
        for (int32_t r = w.row; r < w.end; r++)
            bs_cu_zero_margin(w, bs_cu_open(t, y, r));
    /* lines fastest: neighbours read the same weights */
    for (int32_t item = w.part; item < j.items; item += j.parts) {
        const int32_t line = item % j.down * BS_CU_GEMM_SIDE, first = item / j.down * j.wide,
                      end = min(first + j.wide, j.out);
        const int32_t count = min(BS_CU_GEMM_SIDE, j.lines_here - line);
        if (BYTES == 4 && end - first > BS_CU_FEW_COLUMNS && count <= 2 * bs_cu_threads() / BS_CU_GEMM_SIDE)
            bs_cu_linear_few<BYTES, BYTES == 4 ? (int)BS_CU_GEMM_SIDE : (int)BS_CU_FEW_COLUMNS>(t, j, line, count,
                                                                                                first, end);
        else if (count <= BS_CU_FEW_LINES)
            bs_cu_linear_few<BYTES, BS_CU_FEW_COLUMNS>(t, j, line, count, first, end);
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

#endif
