/* linear_job.cuh - what all tile shapes of a linear have in common: the lines of a work item, and loading them and
 * their weights into shared memory.
 * Weights are lines [out][k], padded with zeros to 16 bytes, f32 or f16. Lines are fetched by address, so rows of a
 * scatter need no copy. Relies on gemm.cuh, program.cuh and ops/linear.c. Must never read beyond a line. */
#ifndef BS_CUDA_LINEAR_JOB
#define BS_CUDA_LINEAR_JOB

#include "cuda/gemm.cuh"
#include "cuda/kernels.cuh"
#include "cuda/program.cuh"

extern "C" {
#include "ops/forms.h"
}

/* Parameters of the kernels of a linear, in p: the descriptor's words, then ours. */
enum {
    BS_CU_LINEAR_OUT,
    BS_CU_LINEAR_NO_BIAS,
    BS_CU_LINEAR_ACT,
    BS_CU_LINEAR_PARAM,
    BS_CU_LINEAR_BRANCHES, /* whose lines may run side by side */
    BS_CU_LINEAR_TOP       /* the outermost domain around the step's */
};

enum {
    BS_CU_FEW_LINES = 8,
    BS_CU_FEW_COLUMNS = 16 /* at a time: a matrix of a tensor core */
};

struct bs_cu_linear_line {
    const uint8_t *x;
    uint8_t *y;
};

/* Lies in shared memory: registers are needed for sums. */
struct bs_cu_linear_job {
    const bs_device_step *step;
    const uint8_t *weights;
    int32_t line_bytes; /* of weights */
    int32_t k, out, x_step, lines /* of a row */, lines_here /* of the work */;
    int32_t type; /* of x */
    /* how x is loaded: 0 by element; 1 by 16 bytes; 2 by cp.async, which cannot read the shared memory of a tile */
    int32_t copy;
    /* of the work: its first row, tiles of its lines, columns of a tile, work items of the step, tiles */
    int32_t row, down, wide, parts, items;
    bs_cu_linear_line at[BS_CU_GEMM_SIDE]; /* of the tile */
};

static_assert(sizeof(bs_cu_linear_job) + (BS_CU_GEMM_SIDE + 32) * BS_CU_GEMM_PITCH * 3 <= BS_CU_WORKSPACE,
              "stages and the job share the workspace");

/* Lines of a row. */
__host__ __device__ static inline int32_t bs_cu_linear_lines(const bs_device_operand *o)
{
    return (int32_t)bs_cu_product(o->dim, o->rank - 1);
}

/* Lines of a run, at most: of all paths together. */
static int64_t bs_cu_linear_most_lines(const bs_cu_node *n, int32_t domain)
{
    const bs_graph *g = n->graph;
    return n->plan->domains[g->domains[domain].top].max_rows * bs_max_i64(bs_cu_linear_lines(&n->out[0]), 1);
}

/* Columns of a work item: 16 where 64 would leave too few items in this run to keep a GPU busy with reading. */
__device__ inline int32_t bs_cu_linear_wide(const bs_cu_tile &t, const bs_device_step *s, int32_t lines)
{
    const int64_t all = (int64_t)t.program->domains[s->p[BS_CU_LINEAR_TOP].i].count * lines;
    const int32_t wide = (s->p[BS_CU_LINEAR_OUT].i + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE;
    const bool few = all <= 2 * BS_CU_FEW_LINES &&
                     min((int32_t)all, s->p[BS_CU_LINEAR_BRANCHES].i) * (int64_t)wide < 256;
    return few ? (int32_t)BS_CU_FEW_COLUMNS : (int32_t)BS_CU_GEMM_SIDE;
}

template <int BYTES>
__device__ inline void bs_cu_linear_begin(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                          bs_cu_linear_job &j)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0);
    j.step = s;
    j.k = x->dim[x->rank - 1];
    j.out = s->p[BS_CU_LINEAR_OUT].i;
    j.line_bytes = (int32_t)bs_linear_line_bytes(j.k, BYTES);
    j.weights = bs_cu_prepared(t, s);
    j.lines = bs_cu_linear_lines(bs_cu_out(t, s, 0));
    j.type = x->dtype;
    j.row = w.row;
    j.parts = w.parts;
    j.wide = bs_cu_linear_wide(t, s, j.lines);
    j.lines_here = (w.end - w.row) * j.lines;
    j.down = (j.lines_here + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE;
    j.items = j.down * ((j.out + j.wide - 1) / j.wide);
    j.x_step = j.k == 1 ? 1 : x->stride[x->rank - 1];
    j.copy = j.x_step != 1 || bs_cu_bytes(x->dtype) != BYTES ? 0 : x->place == BS_AT_TILE ? 1 : 2;
}

/* What is done to a finished sum. Looked up only then: until sums are finished they need the registers. */
struct bs_cu_linear_end {
    const float *bias, *slopes;
    int32_t dtype, step, act;
    float param;
};

__device__ inline bs_cu_linear_end bs_cu_linear_end_of(const bs_cu_tile &t, const bs_cu_linear_job &j)
{
    const bs_device_operand *y = bs_cu_out(t, j.step, 0);
    bs_cu_linear_end e; /* as bs_epilogue_place */
    e.bias = reinterpret_cast<const float *>(j.weights) + bs_aligned_floats((int64_t)(j.line_bytes / 4) * j.out);
    e.slopes = e.bias + bs_aligned_floats(j.out); /* there for BS_PRELU only */
    e.dtype = y->dtype;
    e.step = j.out == 1 ? 1 : y->stride[y->rank - 1];
    e.act = j.step->p[BS_CU_LINEAR_ACT].i;
    e.param = j.step->p[BS_CU_LINEAR_PARAM].f;
    return e;
}

__device__ __forceinline__ void bs_cu_linear_put(const bs_cu_linear_end &e, const bs_cu_linear_line &line,
                                                 int32_t column, float sum)
{
    const float slope = e.act == BS_PRELU ? e.slopes[column] : 0.0f;
    bs_cu_put(line.y, e.dtype, (int64_t)column * e.step,
              bs_act_apply((bs_act)e.act, e.param, slope, sum + e.bias[column]));
}

/* ---------------------------------------------------------------------------------------------------- loading */

/* Offset of line number `line` of a row, in elements. */
__device__ inline int64_t bs_cu_linear_offset(const bs_device_operand *o, int32_t line)
{
    int64_t offset = 0;
    for (int32_t d = o->rank - 2; d >= 0; d--) {
        offset += (int64_t)(line % o->dim[d]) * o->stride[d];
        line /= o->dim[d];
    }
    return offset;
}

/* Finds lines first .. first + count of the work. count <= 64 <= threads. */
__device__ inline void bs_cu_linear_find(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t first, int32_t count)
{
    const bs_device_operand *x = bs_cu_in(t, j.step, 0), *y = bs_cu_out(t, j.step, 0);
    const int32_t i = bs_cu_thread();
    if (i >= count)
        return;
    const int32_t r = j.row + (first + i) / j.lines, line = (first + i) % j.lines;
    j.at[i].x = bs_cu_row(t, x, r) + bs_cu_linear_offset(x, line) * bs_cu_bytes(x->dtype);
    j.at[i].y = bs_cu_row(t, y, r) + bs_cu_linear_offset(y, line) * bs_cu_bytes(y->dtype);
}

/* Loads 16 bytes of weights. The L2 cache fetches the 256 bytes around them: the same line reads those next. */
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

/* Loads bytes from .. from + 16 * CHUNKS of the weights of `count` columns from `first`; zeros beyond a line's end. */
template <int CHUNKS>
__device__ __forceinline__ void bs_cu_linear_weights(const bs_cu_linear_job &j, uint8_t *to, int32_t pitch,
                                                     int32_t first, int32_t count, int32_t from)
{
    const int32_t line_bytes = j.line_bytes;
    const uint8_t *weights = j.weights + (int64_t)first * line_bytes + from;
    for (int32_t i = bs_cu_thread(); i < count * CHUNKS; i += bs_cu_threads()) {
        const int32_t column = i / CHUNKS, chunk = i % CHUNKS * 16;
        uint8_t *slot = to + column * pitch + chunk;
        if (from + chunk < line_bytes)
            bs_cu_linear_fetch(slot, weights + (int64_t)column * line_bytes + chunk);
        else
            *reinterpret_cast<uint4 *>(slot) = make_uint4(0, 0, 0, 0);
    }
}

/* Loads the same bytes of `count` lines of x, as f32 or f16 (BYTES); element by element where they cannot be copied. */
template <int BYTES, int CHUNKS>
__device__ __forceinline__ void bs_cu_linear_rows(const bs_cu_linear_job &j, uint8_t *to, int32_t pitch, int32_t count,
                                                  int32_t from)
{
    const int32_t end = j.k, step = j.x_step, type = j.type, copy = j.copy;
    for (int32_t i = bs_cu_thread(); i < count * CHUNKS; i += bs_cu_threads()) {
        const uint8_t *line = j.at[i / CHUNKS].x;
        uint8_t *slot = to + i / CHUNKS * pitch + i % CHUNKS * 16;
        const int32_t k = (from + i % CHUNKS * 16) / BYTES;
        const bool whole = copy > 0 && k + 16 / BYTES <= end && (reinterpret_cast<uintptr_t>(line) & 15) == 0;
        if (whole && copy == 2) {
            bs_cu_cp_async_16(slot, line + (int64_t)k * BYTES);
        } else if (whole) {
            *reinterpret_cast<uint4 *>(slot) = *reinterpret_cast<const uint4 *>(line + (int64_t)k * BYTES);
        } else if (BYTES == 2 && type == BS_F32 && step == 1 && k + 8 <= end && bs_cu_aligned(line, 4, k)) {
            const float4 *from = reinterpret_cast<const float4 *>(line) + k / 4, low = from[0], high = from[1];
            const uint2 first = bs_cu_pack_quad(low), second = bs_cu_pack_quad(high);
            *reinterpret_cast<uint4 *>(slot) = make_uint4(first.x, first.y, second.x, second.y);
        } else {
#pragma unroll 1
            for (int32_t e = 0; e < 16 / BYTES; e++) {
                const float x = k + e < end ? bs_cu_get(line, type, (int64_t)(k + e) * step) : 0.0f;
                bs_cu_put(slot, BYTES == 4 ? BS_F32 : BS_F16, e, x);
            }
        }
    }
}

#endif
