/* op_attention.cuh - attention of the rows of a segment, to themselves after a cache of earlier ones or to another's.
 *
 * A work item is one row and one head. Positions are taken 32 at a time, counted from position 0 whatever the window: a
 * warp computes the largest score, the sum and the weighted values of 32, and these are merged from the oldest on. The
 * order of additions depends on positions alone, not on warps or on whether a key is in the ring or in this run, so a
 * prompt in one run and token by token give the same bits.
 * Relies on op_segment.cuh; offsets, cache lengths and the bounds of a bias are checked before the run. Must never let
 * rows of a run share anything. */
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
enum {
    BS_CU_ATTEND_HEADS,
    BS_CU_ATTEND_ALIBI,
    BS_CU_ATTEND_KV_HEADS,
    BS_CU_ATTEND_BIDIRECTIONAL,
    BS_CU_ATTEND_SCALE
};

static void bs_cu_attention_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t heads = bs_or_default(s->p[BS_CU_ATTEND_HEADS].i, 1);
    s->p[BS_CU_ATTEND_HEADS].i = heads;
    s->p[BS_CU_ATTEND_KV_HEADS].i = bs_or_default(s->p[BS_CU_ATTEND_KV_HEADS].i, heads);
    if (s->p[BS_CU_ATTEND_SCALE].f == 0.0f)
        s->p[BS_CU_ATTEND_SCALE].f = 1.0f / sqrtf((float)(n->in[0].dim[0] / heads));
    s->parts = heads;
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

/* One row and head: it attends to positions low .. last. added: the bias of these, or the mask of fresh keys. */
struct bs_cu_attend_job {
    bs_cu_attend_side k, v;
    const uint8_t *q;
    uint8_t *out;
    int32_t q_type, q_step, out_type, out_step, n, cache_length, low, last, position, window;
    float scale, slope;
    const uint8_t *added; /* or NULL */
    int64_t added_bytes;
    int32_t added_type;
};

__device__ inline bs_cu_attend_side bs_cu_attend_side_of(const bs_cu_tile &t, const bs_device_operand *fresh,
                                                         const bs_device_operand *ring, int32_t first_row,
                                                         int32_t segment, int32_t element)
{
    /* at top level rows of a domain, or of a path, are consecutive */
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

/* What is added to the scores: the last operand, if there is one more than without. */
__device__ inline void bs_cu_attend_added(const bs_cu_tile &t, const bs_device_step *s, int32_t head, int32_t first_key,
                                          bs_cu_attend_job *j)
{
    const bs_device_operand *m = bs_cu_in(t, s, s->n_in - 1);
    const int32_t bytes = bs_cu_bytes(m->dtype);
    j->added = NULL;
    if (s->n_in % 3 != 1)
        return;
    j->added_type = m->dtype;
    if (m->rank < 3) {
        j->added = bs_cu_row(t, m, 0) + first_key * m->row_bytes;
        j->added_bytes = m->row_bytes;
        return;
    }
    j->added = bs_cu_row(t, m, 0) +
               ((int64_t)(m->dim[0] > 1 ? head : 0) * m->stride[0] + (int64_t)j->position * m->stride[1]) * bytes;
    j->added_bytes = (int64_t)m->stride[2] * bytes;
}

__device__ inline bs_cu_attend_job bs_cu_attend_job_of(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                                       int32_t head)
{
    const bs_device_operand *q = bs_cu_in(t, s, 0), *k = bs_cu_in(t, s, 1), *o = bs_cu_out(t, s, 0),
                            *window = s->n_in > 5 ? bs_cu_in(t, s, 3) : NULL;
    const bs_cu_segments rows = bs_cu_segments_of(t, s->domain), keys = bs_cu_segments_of(t, k->domain);
    const int32_t heads = s->p[BS_CU_ATTEND_HEADS].i, segment = bs_cu_segment_at(t, rows, row);
    const int32_t first_key = bs_cu_segment_first(t, keys, segment);
    bs_cu_attend_job j;
    j.n = q->dim[0] / heads;
    j.q = bs_cu_row(t, q, row) + (int64_t)head * j.n * q->stride[0] * bs_cu_bytes(q->dtype);
    j.q_type = q->dtype;
    j.q_step = q->stride[0];
    j.out = bs_cu_row(t, o, row) + (int64_t)head * j.n * o->stride[0] * bs_cu_bytes(o->dtype);
    j.out_type = o->dtype;
    j.out_step = o->stride[0];
    j.cache_length = window ? reinterpret_cast<const int32_t *>(bs_cu_row(t, bs_cu_in(t, s, 5), 0))[segment] : 0;
    j.position = row - bs_cu_segment_first(t, rows, segment) + (k->domain == s->domain ? j.cache_length : 0);
    if (s->p[BS_CU_ATTEND_BIDIRECTIONAL].i) {
        j.window = window ? window->dim[1] : 1;
        j.low = max(0, j.cache_length - j.window);
        j.last = j.cache_length + (bs_cu_segment_first(t, keys, segment + 1) - first_key) - 1;
    } else {
        j.window = window ? window->dim[1] : j.position + 1;
        j.low = max(0, j.position - j.window + 1);
        j.last = j.position;
    }
    const int32_t element = head / (heads / s->p[BS_CU_ATTEND_KV_HEADS].i) * j.n;
    j.k = bs_cu_attend_side_of(t, k, window, first_key, segment, element);
    j.v = bs_cu_attend_side_of(t, bs_cu_in(t, s, 2), window ? bs_cu_in(t, s, 4) : NULL, first_key, segment,
                               element);
    j.scale = s->p[BS_CU_ATTEND_SCALE].f;
    j.slope = s->p[BS_CU_ATTEND_ALIBI].i ? exp2f(-8.0f * (float)(head + 1) / (float)heads) : 0.0f;
    bs_cu_attend_added(t, s, head, first_key, &j);
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

/* The score of a key with its bias or mask: of a hidden key, whatever it holds, -infinity. */
__device__ inline float bs_cu_attend_add(const bs_cu_attend_job &j, float score, int32_t position)
{
    const uint8_t *at = j.added + (int64_t)position * j.added_bytes;
    if (j.added_type == BS_I32)
        return *reinterpret_cast<const int32_t *>(at) != 0 ? score : -INFINITY;
    const float added = bs_cu_get(at, j.added_type, 0);
    return added == -INFINITY ? added : score + added;
}

/* One warp on 32 positions from `first`: their largest score, the sum of the weights e^(score - top), and elements
 * from + 32 i + lane of the weighted values. */
__device__ inline void bs_cu_attend_block(const bs_cu_attend_job &j, int32_t first, int32_t from, float *partial)
{
    const int32_t lane = bs_cu_lane(), position = first + lane, begin = max(j.low - first, 0),
                  end = min(j.last - first, 31);
    const bool attends = lane >= begin && lane <= end;
    float score = -INFINITY, weight = 0.0f, value[BS_CU_ATTEND_LANES] = {0.0f, 0.0f, 0.0f, 0.0f};
    unsigned long long at = 0;
    if (attends) {
        const bs_cu_attend_rows &k = bs_cu_attend_rows_at(j, j.k, position);
        score = bs_cu_attend_dot(j, bs_cu_attend_at(j, j.k, position), k.type, k.step);
        score = fmaf(score, j.scale, -j.slope * fabsf((float)(j.position - position)));
        if (j.added)
            score = bs_cu_attend_add(j, score, position);
        at = (unsigned long long)reinterpret_cast<uintptr_t>(bs_cu_attend_at(j, j.v, position));
    }
    float top = score;
    for (int32_t d = 16; d > 0; d /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    if (attends && !(j.added && score == -INFINITY))
        weight = expf(score - top);
    const float sum = bs_cu_lanes_sum(weight);
#pragma unroll 2
    for (int32_t p = begin; p <= end; p++) {
        const float w = __shfl_sync(0xffffffffu, weight, p);
        const uint8_t *v = bs_cu_at<const uint8_t>(__shfl_sync(0xffffffffu, at, p));
        const bs_cu_attend_rows &rows = bs_cu_attend_rows_at(j, j.v, first + p);
        if (w == 0.0f && j.added) /* hidden: its value may be anything */
            continue;
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
    if (partial[BS_CU_ATTEND_ELEMENTS] == -INFINITY && partial[BS_CU_ATTEND_ELEMENTS + 1] == 0.0f)
        return; /* all hidden */
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
    const int32_t warp = bs_cu_warp(), warps = bs_cu_warps(), last = j.last >= j.low ? j.last / 32 : -1;
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
            bs_cu_put(j.out, j.out_type, (int64_t)(from + element) * j.out_step,
                      state.any ? state.value[i] / state.sum : 0.0f);
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
