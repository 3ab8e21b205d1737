/* op_attention.cuh - causal attention of the rows of a segment, after a cache of earlier ones.
 *
 * A work item is one row and one head. Positions are taken 32 at a time, counted from position 0 whatever the window: a
 * warp computes the largest score, the sum and the weighted values of 32, and these are merged from the oldest on. The
 * order of additions depends on positions alone, not on warps or on whether a key is in the ring or in this run, so a
 * prompt in one run and token by token give the same bits.
 * Relies on op_segment.cuh; offsets and cache lengths are checked before the run. Must never let rows of a run share
 * anything. */
#ifndef BS_CUDA_OP_ATTENTION
#define BS_CUDA_OP_ATTENTION

#include "cuda/op_segment.cuh"
#include "cuda/tensor.cuh"

enum {
    BS_CU_ATTEND_LANES = 4,                          /* elements of a value that a lane sums */
    BS_CU_ATTEND_ELEMENTS = 32 * BS_CU_ATTEND_LANES, /* together; a larger head goes in several rounds */
    BS_CU_ATTEND_PARTIAL = BS_CU_ATTEND_ELEMENTS + 4 /* floats of a warp: values, largest score, sum */
};

/* Its parameters, in p: the descriptor's words. */
enum { BS_CU_ATTEND_HEADS, BS_CU_ATTEND_ALIBI };

static void bs_cu_attention_describe(const bs_cu_node *n, bs_device_step *s)
{
    (void)n;
    s->p[BS_CU_ATTEND_HEADS].i = bs_max_i32(s->p[BS_CU_ATTEND_HEADS].i, 1);
    s->parts = s->p[BS_CU_ATTEND_HEADS].i;
}

/* The keys, or the values, of one head: where the first one is, and how they lie. */
struct bs_cu_attend_rows {
    const uint8_t *data;
    int64_t bytes;
    int32_t type, step;
};

/* fresh: those of this run, from the segment's first row on; ring: those of the cache, from its position 0 on. */
struct bs_cu_attend_side {
    bs_cu_attend_rows fresh, ring;
};

/* One row and head: it attends to positions low .. position. */
struct bs_cu_attend_job {
    bs_cu_attend_side k, v;
    const uint8_t *q;
    uint8_t *out;
    int32_t q_type, q_step, out_type, out_step, n, cache_length, low, position, window;
    float scale, slope;
};

__device__ inline bs_cu_attend_side bs_cu_attend_side_of(const bs_cu_tile &t, const bs_device_operand *fresh,
                                                         const bs_device_operand *ring, int32_t first_row,
                                                         int32_t segment, int32_t element)
{
    /* a segment domain is at top level: its rows are consecutive */
    const bs_cu_attend_rows rows = {bs_cu_row(t, fresh, 0) + first_row * fresh->row_bytes +
                                        (int64_t)element * fresh->stride[0] * bs_cu_bytes(fresh->dtype),
                                    fresh->row_bytes, fresh->dtype, fresh->stride[0]};
    bs_cu_attend_side side = {rows, rows};
    if (ring) {
        const int32_t bytes = bs_cu_bytes(ring->dtype);
        side.ring = {bs_cu_row(t, ring, 0) +
                         ((int64_t)segment * ring->stride[0] + (int64_t)element * ring->stride[2]) * bytes,
                     (int64_t)ring->stride[1] * bytes, ring->dtype, ring->stride[2]};
    }
    return side;
}

__device__ inline bs_cu_attend_job bs_cu_attend_job_of(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                                       int32_t head)
{
    const bs_device_operand *q = bs_cu_in(t, s, 0), *o = bs_cu_out(t, s, 0),
                            *window = s->n_in > 3 ? bs_cu_in(t, s, 3) : NULL;
    const int32_t *offsets = bs_cu_segment_offsets(t, s->domain);
    const int32_t segment = bs_segment_of(offsets, t.program->domains[s->domain].lengths, row),
                  first_row = offsets[segment];
    bs_cu_attend_job j;
    j.n = q->dim[0] / s->p[BS_CU_ATTEND_HEADS].i;
    j.q = bs_cu_row(t, q, row) + (int64_t)head * j.n * q->stride[0] * bs_cu_bytes(q->dtype);
    j.q_type = q->dtype;
    j.q_step = q->stride[0];
    j.out = bs_cu_row(t, o, row) + (int64_t)head * j.n * o->stride[0] * bs_cu_bytes(o->dtype);
    j.out_type = o->dtype;
    j.out_step = o->stride[0];
    j.cache_length = window ? reinterpret_cast<const int32_t *>(bs_cu_row(t, bs_cu_in(t, s, 5), 0))[segment] : 0;
    j.position = j.cache_length + (row - first_row);
    j.window = window ? window->dim[1] : j.position + 1;
    j.low = max(0, j.position - j.window + 1);
    j.k = bs_cu_attend_side_of(t, bs_cu_in(t, s, 1), window, first_row, segment, head * j.n);
    j.v = bs_cu_attend_side_of(t, bs_cu_in(t, s, 2), window ? bs_cu_in(t, s, 4) : NULL, first_row, segment, head * j.n);
    j.scale = 1.0f / sqrtf((float)j.n);
    j.slope = s->p[BS_CU_ATTEND_ALIBI].i ? exp2f(-8.0f * (float)(head + 1) / (float)s->p[BS_CU_ATTEND_HEADS].i) : 0.0f;
    return j;
}

__device__ __forceinline__ const bs_cu_attend_rows &bs_cu_attend_rows_at(const bs_cu_attend_job &j,
                                                                         const bs_cu_attend_side &side,
                                                                         int32_t position)
{
    return position >= j.cache_length ? side.fresh : side.ring;
}

__device__ __forceinline__ const uint8_t *bs_cu_attend_at(const bs_cu_attend_job &j, const bs_cu_attend_side &side,
                                                          int32_t position)
{
    const bs_cu_attend_rows &rows = bs_cu_attend_rows_at(j, side, position);
    return rows.data + (position >= j.cache_length ? position - j.cache_length : position % j.window) * rows.bytes;
}

__device__ __forceinline__ bool bs_cu_attend_quads(const uint8_t *data, int32_t dtype, int32_t step)
{
    return step == 1 && bs_cu_aligned(data, bs_cu_bytes(dtype), 0);
}

/* Four partial sums, each added up in the same order whether elements are read by four or singly. */
__device__ inline float bs_cu_attend_dot(const bs_cu_attend_job &j, const uint8_t *k, int32_t type, int32_t step)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int32_t i = 0;
    if (bs_cu_attend_quads(j.q, j.q_type, j.q_step) && bs_cu_attend_quads(k, type, step))
#pragma unroll 2
        for (; i + 4 <= j.n; i += 4) {
            const float4 a = bs_cu_get_quad(j.q, j.q_type, i), b = bs_cu_get_quad(k, type, i);
            sum.x = fmaf(a.x, b.x, sum.x);
            sum.y = fmaf(a.y, b.y, sum.y);
            sum.z = fmaf(a.z, b.z, sum.z);
            sum.w = fmaf(a.w, b.w, sum.w);
        }
#pragma unroll 1
    for (; i < j.n; i++) {
        const float product_a = bs_cu_get(j.q, j.q_type, (int64_t)i * j.q_step),
                    product_b = bs_cu_get(k, type, (int64_t)i * step);
        if ((i & 3) == 0)
            sum.x = fmaf(product_a, product_b, sum.x);
        else if ((i & 3) == 1)
            sum.y = fmaf(product_a, product_b, sum.y);
        else if ((i & 3) == 2)
            sum.z = fmaf(product_a, product_b, sum.z);
        else
            sum.w = fmaf(product_a, product_b, sum.w);
    }
    return (sum.x + sum.z) + (sum.y + sum.w);
}

/* One warp on 32 positions from `first`: their largest score, the sum of the weights e^(score - top), and elements
 * from + 32 i + lane of the weighted values. */
__device__ inline void bs_cu_attend_block(const bs_cu_attend_job &j, int32_t first, int32_t from, float *partial)
{
    const int32_t lane = bs_cu_lane(), position = first + lane, begin = max(j.low - first, 0),
                  end = min(j.position - first, 31);
    const bool attends = lane >= begin && lane <= end;
    float score = -INFINITY, weight = 0.0f, value[BS_CU_ATTEND_LANES] = {0.0f, 0.0f, 0.0f, 0.0f};
    unsigned long long at = 0;
    if (attends) {
        const bs_cu_attend_rows &k = bs_cu_attend_rows_at(j, j.k, position);
        score = bs_cu_attend_dot(j, bs_cu_attend_at(j, j.k, position), k.type, k.step);
        score = fmaf(score, j.scale, -j.slope * (float)(j.position - position));
        at = (unsigned long long)reinterpret_cast<uintptr_t>(bs_cu_attend_at(j, j.v, position));
    }
    float top = score;
    for (int32_t d = 16; d > 0; d /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    if (attends)
        weight = expf(score - top);
    const float sum = bs_cu_lanes_sum(weight);
#pragma unroll 2
    for (int32_t p = begin; p <= end; p++) {
        const float w = __shfl_sync(0xffffffffu, weight, p);
        const uint8_t *v = bs_cu_at<const uint8_t>(__shfl_sync(0xffffffffu, at, p));
        const bs_cu_attend_rows &rows = bs_cu_attend_rows_at(j, j.v, first + p);
#pragma unroll
        for (int32_t i = 0; i < BS_CU_ATTEND_LANES; i++)
            if (from + 32 * i + lane < j.n)
                value[i] = fmaf(w, bs_cu_get(v, rows.type, (int64_t)(from + 32 * i + lane) * rows.step), value[i]);
    }
#pragma unroll
    for (int32_t i = 0; i < BS_CU_ATTEND_LANES; i++)
        partial[32 * i + lane] = value[i];
    if (lane == 0) {
        partial[BS_CU_ATTEND_ELEMENTS] = top;
        partial[BS_CU_ATTEND_ELEMENTS + 1] = sum;
    }
}

/* A thread's result over the positions so far: the largest score, the sum, and up to two elements of the values. */
struct bs_cu_attend_state {
    float top, sum, value[2];
    bool any;
};

__device__ __forceinline__ void bs_cu_attend_merge(bs_cu_attend_state *state, const float *partial)
{
    const float top = fmaxf(state->top, partial[BS_CU_ATTEND_ELEMENTS]);
    const float before = state->any ? expf(state->top - top) : 0.0f,
                now = state->any ? expf(partial[BS_CU_ATTEND_ELEMENTS] - top) : 1.0f;
    state->sum = fmaf(state->sum, before, partial[BS_CU_ATTEND_ELEMENTS + 1] * now);
    for (int32_t i = 0; i < 2; i++)
        if ((int32_t)(threadIdx.x + i * blockDim.x) < BS_CU_ATTEND_ELEMENTS)
            state->value[i] = fmaf(state->value[i], before, partial[threadIdx.x + i * blockDim.x] * now);
    state->top = top;
    state->any = true;
}

/* Elements from .. from + 128 of one row and head. */
__device__ inline void bs_cu_attend(const bs_cu_tile &t, const bs_cu_attend_job &j, int32_t from)
{
    float *partial = reinterpret_cast<float *>(t.workspace);
    const int32_t warp = bs_cu_warp(), warps = bs_cu_warps(), last = j.position / 32;
    bs_cu_attend_state state = {-INFINITY, 0.0f, {0.0f, 0.0f}, false};
    for (int32_t block = j.low / 32; block <= last; block += warps) {
        if (block + warp <= last)
            bs_cu_attend_block(j, (block + warp) * 32, from, partial + warp * BS_CU_ATTEND_PARTIAL);
        __syncthreads();
        for (int32_t k = 0; k < warps && block + k <= last; k++)
            bs_cu_attend_merge(&state, partial + k * BS_CU_ATTEND_PARTIAL);
        __syncthreads();
    }
    for (int32_t i = 0; i < 2; i++) {
        const int32_t element = (int32_t)(threadIdx.x + i * blockDim.x);
        if (element < BS_CU_ATTEND_ELEMENTS && from + element < j.n)
            bs_cu_put(j.out, j.out_type, (int64_t)(from + element) * j.out_step, state.value[i] / state.sum);
    }
}

__device__ inline void bs_cu_attention_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    /* in shared memory: registers are needed for the sums */
    bs_cu_attend_job *job = reinterpret_cast<bs_cu_attend_job *>(t.workspace + BS_CU_WORKSPACE) - 1;
    for (int32_t r = w.row; r < w.end; r++)
        for (int32_t head = w.part; head < s->p[BS_CU_ATTEND_HEADS].i; head += w.parts) {
            if (threadIdx.x == 0)
                *job = bs_cu_attend_job_of(t, s, r, head);
            __syncthreads();
            for (int32_t from = 0; from < job->n; from += BS_CU_ATTEND_ELEMENTS)
                bs_cu_attend(t, *job, from);
            __syncthreads();
        }
}

#endif
