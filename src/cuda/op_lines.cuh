/* op_lines.cuh - ops on whole lines of one dimension: softmax, layer_norm, rms_norm, reduce, cumsum, argmax,
 * argmin, topk.
 * Long lines with adjacent elements get a warp, others a thread; the op's shape alone decides which. A thread goes from
 * index 0 up as the CPU does; lanes of a warp take every 32nd element and are joined in a fixed tree.
 * Relies on walk.cuh. Must never let lines influence each other. */
#ifndef BS_CUDA_OP_LINES
#define BS_CUDA_OP_LINES

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/reduce.h"
}

/* Parameters of all ops of this file, in p, behind the words of each. */
enum {
    BS_CU_AXIS = 8, /* the dimension that lines run along */
    BS_CU_LANES,    /* threads a line: 1 or 32 */
    BS_CU_LINES,    /* lines of a row */
    BS_CU_FIRST     /* of a reduction over more than one dimension the first one; else as BS_CU_AXIS */
};

/* Whether the whole block goes through a row: it, or its result, is an image, and a margin takes all threads. */
__host__ __device__ static inline bool bs_cu_lines_of_image(const bs_device_operand *in, const bs_device_operand *out)
{
    return in->image || out->image;
}

static void bs_cu_lines_describe(const bs_cu_node *n, bs_device_step *s, int32_t first, int32_t axis)
{
    const bs_device_operand *in = &n->in[0];
    const int32_t innermost = in->image ? 0 : in->rank - 1;
    const int64_t length = bs_max_i64(bs_cu_product(in->dim + first, axis + 1 - first), 1),
                  lines = bs_cu_elements(in) / length;
    s->p[BS_CU_AXIS].i = axis;
    s->p[BS_CU_FIRST].i = first;
    s->p[BS_CU_LANES].i = axis == innermost && in->dim[axis] >= 32 ? 32 : 1;
    s->p[BS_CU_LINES].i = (int32_t)bs_min_i64(lines, INT32_MAX);
    const int64_t each = bs_max_i64(s->p[BS_CU_LANES].i == 32 ? 16 : 256, 2 * BS_CU_EACH / length);
    if (bs_cu_lines_of_image(in, &n->out[0]) || lines > each)
        s->parts = bs_cu_work_items(lines, each);
    else
        s->batch = (int32_t)(each / (lines < 1 ? 1 : lines));
}

static void bs_cu_softmax_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_lines_describe(n, s, n->in[0].rank - 1, n->in[0].rank - 1);
}

static constexpr bs_cu_describe bs_cu_argmax_describe = bs_cu_softmax_describe,
                                bs_cu_argmin_describe = bs_cu_softmax_describe,
                                bs_cu_topk_describe = bs_cu_softmax_describe;

/* The lines of a row: those of the operand, and their places in up to two results. Axes are those of a walk, without
 * the line's own. */
struct bs_cu_lines {
    const uint8_t *x;
    uint8_t *y, *z;
    int32_t x_type, y_type;
    int32_t n, x_step, y_step, z_step; /* along a line */
    int32_t lane, lanes;
    int32_t count[3];
    int32_t step[3][3]; /* operand, results */
};

/* A result that lost dimensions first .. axis gets them back, with stride 0, so that its axes are those of the
 * operand. */
__device__ __forceinline__ void bs_cu_lines_widen(bs_cu_view *y, int32_t rank, int32_t first, int32_t axis)
{
    if (y->rank == rank)
        return;
    for (int32_t a = first; a <= axis; a++) {
#pragma unroll
        for (int32_t d = BS_MAX_RANK - 1; d > 0; d--)
            y->stride[d] = d > a ? y->stride[d - 1] : y->stride[d];
#pragma unroll
        for (int32_t d = 0; d < BS_MAX_RANK; d++)
            y->stride[d] = d == a ? 0 : y->stride[d];
    }
}

/* Axis a, from 1 on, of those that are left when lines run along axis `own` of a walk. */
template <int M>
__device__ __forceinline__ int32_t bs_cu_lines_axis(const int32_t (&v)[M], const bs_cu_view &x, int32_t own, int32_t a,
                                                    int32_t none)
{
    return a > own ? bs_cu_on_axis(v, x.rank, x.image, a, none) : bs_cu_on_axis(v, x.rank, x.image, a - 1, none);
}

/* Lines along channels may include those of a cell's margin: the result's rectangle says which. All others cover whole
 * values. */
__device__ inline bs_cu_lines bs_cu_lines_of(const bs_cu_view &x, const bs_cu_view &y, const bs_cu_view &z,
                                             int32_t first, int32_t axis, int32_t lanes)
{
    const bool pixels = x.image && y.image && axis == 0;
    const int32_t y0 = pixels ? y.y0 : 0, x0 = pixels ? y.x0 : 0,
                  own = !x.image    ? axis + 4 - x.rank
                        : axis == 0 ? 3
                                    : axis;
    int32_t extent[BS_MAX_RANK] = {x.dim[0], pixels ? y.y1 - y0 : x.dim[1], pixels ? y.x1 - x0 : x.dim[2], x.dim[3]};
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        extent[d] = d >= first && d < axis ? 1 : extent[d];
    bs_cu_view v[3] = {x, y, z};
    bs_cu_lines k;
    bs_cu_lines_widen(&v[1], x.rank, first, axis);
    bs_cu_lines_widen(&v[2], x.rank, first, axis);
    k.n = bs_cu_pick(x.dim, axis);
    k.x_step = bs_cu_pick(v[0].stride, axis);
    k.y_step = bs_cu_pick(v[1].stride, axis);
    k.z_step = bs_cu_pick(v[2].stride, axis);
#pragma unroll
    for (int32_t a = 0; a < 3; a++)
        k.count[a] = bs_cu_lines_axis(extent, x, own, a + 1, 1);
#pragma unroll
    for (int32_t i = 0; i < 3; i++) {
        v[i].data += bs_cu_pixel_at(v[i], 0, y0, x0) * bs_cu_bytes(v[i].dtype);
#pragma unroll
        for (int32_t a = 0; a < 3; a++)
            k.step[i][a] = bs_cu_lines_axis(v[i].stride, x, own, a + 1, 0);
    }
    k.x = v[0].data;
    k.y = v[1].data;
    k.z = v[2].data;
    k.x_type = x.dtype;
    k.y_type = y.dtype;
    k.lanes = lanes;
    k.lane = bs_cu_thread() & (lanes - 1);
    return k;
}

/* Calls each(lines, at) for every line, at being offsets in N operands; the lanes of a warp call it together. */
template <int N, typename E>
__device__ __forceinline__ void bs_cu_lines_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                const E &each)
{
    const int32_t lanes = s->p[BS_CU_LANES].i;
    const bool image = bs_cu_lines_of_image(bs_cu_in(t, s, 0), bs_cu_out(t, s, 0));
    const bs_cu_deal d = bs_cu_deal_out(w, image, s->p[BS_CU_LINES].i, bs_cu_thread() / lanes,
                                        bs_cu_threads() / lanes);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        const bs_cu_view z = N == 3 ? bs_cu_open_out(t, s, 1, r) : y;
        const bs_cu_lines k = bs_cu_lines_of(bs_cu_open_in(t, s, 0, r), y, z, s->p[BS_CU_FIRST].i,
                                             s->p[BS_CU_AXIS].i, s->p[BS_CU_LANES].i);
        const int32_t n1 = k.count[1], n2 = k.count[2], n = k.count[0] * n1 * n2;
        for (int32_t l = d.index; l < n && (k.n > 0 || s->empty); l += d.workers) {
            const int32_t d2 = l % n2, d1 = l / n2 % n1, d0 = l / n2 / n1;
            int64_t at[N];
#pragma unroll
            for (int32_t i = 0; i < N; i++)
                at[i] = (int64_t)d2 * k.step[i][2] + (int64_t)d1 * k.step[i][1] + (int64_t)d0 * k.step[i][0];
            each(k, at);
        }
    }
}

__device__ __forceinline__ float bs_cu_line_get(const bs_cu_lines &k, int64_t at, int32_t i)
{
    return bs_cu_get(k.x, k.x_type, at + (int64_t)i * k.x_step);
}

__device__ __forceinline__ void bs_cu_line_put(const bs_cu_lines &k, int64_t at, int32_t i, float v)
{
    bs_cu_put(k.y, k.y_type, at + (int64_t)i * k.y_step, v);
}

/* The largest value of a line's lanes, in every lane. NaN as on the CPU: it stays when it is element 0, which all lanes
 * begin with, and is ignored elsewhere. */
__device__ __forceinline__ float bs_cu_lanes_max(float v, int32_t lanes)
{
    for (int32_t m = lanes / 2; m > 0; m /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v, m);
        v = other > v ? other : v;
    }
    return v;
}

/* ----------------------------------------------------------------------------------------------- softmax */

/* Functions of a line that begins at `from`, which give their results to `put`: here to store them, behind a chain to
 * go on (op_lines_chain.cuh). Exponentials are computed twice: they cannot be kept in the result, which may be f16. */
template <typename P>
__device__ __forceinline__ void bs_cu_softmax_line(const bs_device_step *, const float *, const bs_cu_lines &k,
                                                   int64_t from, const P &put)
{
    float top = bs_cu_line_get(k, from, 0), sum = 0.0f;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        const float v = bs_cu_line_get(k, from, i);
        top = v > top ? v : top;
    }
    top = bs_cu_lanes_max(top, k.lanes);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        sum = __fadd_rn(sum, expf(bs_cu_line_get(k, from, i) - top)); /* not fused: expf ends in a product */
    sum = bs_cu_lanes_sum(sum, k.lanes);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        put(i, expf(bs_cu_line_get(k, from, i) - top) / sum);
}

__device__ inline void bs_cu_softmax_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        bs_cu_softmax_line(s, NULL, k, at[0], [&](int32_t i, float v) { bs_cu_line_put(k, at[1], i, v); });
    });
}

/* -------------------------------------------------------------------------------------------- layer_norm */

enum { BS_CU_NORM_EPSILON, BS_CU_NORM_BIASES }; /* p: the descriptor's word, f; floats from weights to biases */

static void bs_cu_layer_norm_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t last = n->in[0].rank - 1;
    s->p[BS_CU_NORM_EPSILON].f = s->p[BS_CU_NORM_EPSILON].f == 0.0f ? 1e-5f : s->p[BS_CU_NORM_EPSILON].f;
    s->p[BS_CU_NORM_BIASES].i = (int32_t)bs_aligned_floats(n->in[0].dim[last]);
    bs_cu_lines_describe(n, s, last, last);
}

template <typename P>
__device__ __forceinline__ void bs_cu_layer_norm_line(const bs_device_step *s, const float *weight,
                                                      const bs_cu_lines &k, int64_t from, const P &put)
{
    const float count = (float)k.n;
    float mean = 0.0f, variance = 0.0f;
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        mean += bs_cu_line_get(k, from, i);
    mean = bs_cu_lanes_sum(mean, k.lanes) / count;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        const float d = bs_cu_line_get(k, from, i) - mean;
        variance = bs_cu_mul_add(d, d, variance);
    }
    const float scale = 1.0f / sqrtf(bs_cu_lanes_sum(variance, k.lanes) / count + s->p[BS_CU_NORM_EPSILON].f);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        put(i, bs_cu_mul_add((bs_cu_line_get(k, from, i) - mean) * scale, weight[i],
                             weight[i + s->p[BS_CU_NORM_BIASES].i]));
}

__device__ inline void bs_cu_layer_norm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        bs_cu_layer_norm_line(s, reinterpret_cast<const float *>(bs_cu_prepared(t, s)), k, at[0],
                              [&](int32_t i, float v) { bs_cu_line_put(k, at[1], i, v); });
    });
}

static constexpr bs_cu_describe bs_cu_rms_norm_describe = bs_cu_layer_norm_describe;

template <typename P>
__device__ __forceinline__ void bs_cu_rms_norm_line(const bs_device_step *s, const float *weight, const bs_cu_lines &k,
                                                    int64_t from, const P &put)
{
    float squares = 0.0f;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        const float v = bs_cu_line_get(k, from, i);
        squares = bs_cu_mul_add(v, v, squares);
    }
    const float mean = bs_cu_lanes_sum(squares, k.lanes) / (float)k.n;
    const float scale = 1.0f / sqrtf(mean + s->p[BS_CU_NORM_EPSILON].f);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        put(i, __fmul_rn(bs_cu_line_get(k, from, i) * scale, weight[i])); /* no step fuses it with a sum */
}

__device__ inline void bs_cu_rms_norm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        bs_cu_rms_norm_line(s, reinterpret_cast<const float *>(bs_cu_prepared(t, s)), k, at[0],
                            [&](int32_t i, float v) { bs_cu_line_put(k, at[1], i, v); });
    });
}

/* ------------------------------------------------------------------------------------------------ reduce */

enum { BS_CU_REDUCE_KIND, BS_CU_REDUCE_AXIS, BS_CU_REDUCE_KEEP, BS_CU_REDUCE_AXES }; /* p: the descriptor's words */

static void bs_cu_reduce_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t axis = s->p[BS_CU_REDUCE_AXIS].i, first = axis < 0 ? axis + n->in[0].rank : axis;
    bs_cu_lines_describe(n, s, first, first + bs_max_i32(s->p[BS_CU_REDUCE_AXES].i, 1) - 1);
}

/* One reduction, in every lane of its line; of several dimensions `lines` lines one behind the other. Lanes take
 * elements lane, lane + lanes, ... of each; maxima and minima begin with element 0 in all of them. A lane beyond a
 * run's short line adds nothing, not even to -0. */
__device__ inline float bs_cu_reduced(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_lines &k, int64_t at,
                                      int32_t kind, int64_t lines, float top)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0);
    const bool own = kind != BS_REDUCE_MAX && kind != BS_REDUCE_MIN && k.lane > 0;
    if (lines * k.n == 0)
        return kind == BS_REDUCE_PROD ? 1.0f : 0.0f;
    float result = kind == BS_REDUCE_PROD ? 1.0f : -0.0f;
    if (!own || k.lane < k.n)
        result = bs_reduce_term(kind, bs_cu_line_get(k, at, own ? k.lane : 0), top);
    for (int64_t l = 0; l < lines; l++) {
        int64_t from = at, rest = l;
        for (int32_t d = s->p[BS_CU_AXIS].i - 1; d >= s->p[BS_CU_FIRST].i; d--) {
            from += rest % x->dim[d] * x->stride[d];
            rest /= x->dim[d];
        }
        for (int32_t i = k.lane + (l == 0 && (own || k.lane == 0) ? k.lanes : 0); i < k.n; i += k.lanes)
            result = bs_reduce_join(kind, result, bs_reduce_term(kind, bs_cu_line_get(k, from, i), top));
    }
    for (int32_t m = k.lanes / 2; m > 0; m /= 2)
        result = bs_reduce_join(kind, result, __shfl_xor_sync(0xffffffffu, result, m));
    return result;
}

__device__ inline void bs_cu_reduce_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0);
    const int32_t kind = s->p[BS_CU_REDUCE_KIND].i, first = s->p[BS_CU_FIRST].i;
    const int64_t lines = bs_cu_product(x->dim + first, s->p[BS_CU_AXIS].i - first);
    if (kind >= BS_REDUCE_MEAN && kind <= BS_REDUCE_MIN && bs_cu_product(x->dim, x->rank) == 0) {
        bs_cu_fail(t, s, BS_ERROR_DATA);
        return;
    }
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        float top = 0.0f;
        if (kind == BS_REDUCE_LOG_SUM_EXP)
            top = bs_reduce_top(bs_cu_reduced(t, s, k, at[0], BS_REDUCE_MAX, lines, 0.0f));
        const float result = bs_cu_reduced(t, s, k, at[0], kind, lines, top);
        if (k.lane == 0)
            bs_cu_put(k.y, k.y_type, at[1], bs_reduce_end(kind, result, (float)k.n * (float)lines, top));
    });
}

/* ------------------------------------------------------------------------------------------------ cumsum */

enum { BS_CU_CUMSUM_AXIS, BS_CU_CUMSUM_EXCLUSIVE, BS_CU_CUMSUM_REVERSE }; /* p: the descriptor's words */

static void bs_cu_cumsum_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t axis = s->p[BS_CU_CUMSUM_AXIS].i, first = axis < 0 ? axis + n->in[0].rank : axis;
    bs_cu_lines_describe(n, s, first, first);
}

__device__ __forceinline__ float bs_cu_line_load(const bs_cu_lines &k, int64_t at, int32_t i, float)
{
    return bs_cu_line_get(k, at, i);
}

__device__ __forceinline__ uint32_t bs_cu_line_load(const bs_cu_lines &k, int64_t at, int32_t i, uint32_t)
{
    return reinterpret_cast<const uint32_t *>(k.x)[at + (int64_t)i * k.x_step];
}

__device__ __forceinline__ void bs_cu_line_store(const bs_cu_lines &k, int64_t at, int32_t i, float v)
{
    bs_cu_line_put(k, at, i, v);
}

__device__ __forceinline__ void bs_cu_line_store(const bs_cu_lines &k, int64_t at, int32_t i, uint32_t v)
{
    reinterpret_cast<uint32_t *>(k.y)[at + (int64_t)i * k.y_step] = v;
}

/* The sums of `lanes` elements at a time, by doubling, behind what came before. */
template <typename T>
__device__ inline void bs_cu_cumsum_of(const bs_device_step *s, const bs_cu_lines &k, int64_t from, int64_t to)
{
    const bool exclusive = s->p[BS_CU_CUMSUM_EXCLUSIVE].i != 0, reverse = s->p[BS_CU_CUMSUM_REVERSE].i != 0;
    T carry = 0;
    for (int32_t first = 0; first < k.n; first += k.lanes) {
        const int32_t number = first + k.lane, i = reverse ? k.n - 1 - number : number;
        T sum = number < k.n ? bs_cu_line_load(k, from, i, T()) : T(0), before = 0;
        for (int32_t m = 1; m < k.lanes; m *= 2) {
            const T other = __shfl_up_sync(0xffffffffu, sum, m);
            sum += k.lane >= m ? other : T(0);
        }
        if (exclusive && k.lanes > 1)
            before = __shfl_up_sync(0xffffffffu, sum, 1);
        if (number < k.n)
            bs_cu_line_store(k, to, i, carry + (exclusive ? (k.lane == 0 ? T(0) : before) : sum));
        carry += k.lanes > 1 ? __shfl_sync(0xffffffffu, sum, 31) : sum;
    }
}

__device__ inline void bs_cu_cumsum_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        if (k.x_type == BS_I32)
            bs_cu_cumsum_of<uint32_t>(s, k, at[0], at[1]);
        else
            bs_cu_cumsum_of<float>(s, k, at[0], at[1]);
    });
}

/* ---------------------------------------------------------------------------------------- argmax, argmin */

__device__ __forceinline__ void bs_cu_line_take(const bs_cu_lines &k, int64_t at, int32_t i, float *v)
{
    *v = bs_cu_line_get(k, at, i);
}

__device__ __forceinline__ void bs_cu_line_take(const bs_cu_lines &k, int64_t at, int32_t i, int32_t *v)
{
    *v = reinterpret_cast<const int32_t *>(k.x)[at + (int64_t)i * k.x_step];
}

/* NaN in element 0 stays the best; elsewhere it is ignored. Of equal elements the first. */
template <typename T> __device__ inline int32_t bs_cu_arg_of(const bs_cu_lines &k, int64_t at, bool least)
{
    T best, v;
    int32_t index = 0;
    bs_cu_line_take(k, at, 0, &best);
    if (!(best == best))
        return 0;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        bs_cu_line_take(k, at, i, &v);
        const bool better = least ? v < best : v > best;
        index = better ? i : index;
        best = better ? v : best;
    }
    for (int32_t m = k.lanes / 2; m > 0; m /= 2) {
        const T other = __shfl_xor_sync(0xffffffffu, best, m);
        const int32_t theirs = __shfl_xor_sync(0xffffffffu, index, m);
        if ((least ? other < best : other > best) || (other == best && theirs < index)) {
            best = other;
            index = theirs;
        }
    }
    return index;
}

__device__ inline void bs_cu_arg_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, bool least)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        const int32_t index = k.x_type == BS_I32 ? bs_cu_arg_of<int32_t>(k, at[0], least)
                                                 : bs_cu_arg_of<float>(k, at[0], least);
        if (k.lane == 0)
            reinterpret_cast<int32_t *>(k.y)[at[1]] = index;
    });
}

__device__ inline void bs_cu_argmax_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_arg_run(t, s, w, false);
}

__device__ inline void bs_cu_argmin_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_arg_run(t, s, w, true);
}

/* -------------------------------------------------------------------------------------------------- topk */

enum { BS_CU_TOPK_COUNT }; /* p: the op's k */

/* The order of the result: larger first, NaN last, equal ones by index. */
__device__ __forceinline__ bool bs_cu_topk_before(float a, int32_t i, float b, int32_t j)
{
    if (a > b || (a == a && b != b))
        return true;
    const bool after = b > a || (b == b && a != a);
    return !after && i < j;
}

/* Fills one place after the other: with the first element, in that order, after the one in the place before. */
__device__ inline void bs_cu_topk_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<3>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[3]) {
        float last = 0.0f;
        int32_t last_index = -1;
        if (k.n < s->p[BS_CU_TOPK_COUNT].i) { /* a symbol was bound below k */
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        for (int32_t place = 0; place < s->p[BS_CU_TOPK_COUNT].i; place++) {
            float best = 0.0f;
            int32_t index = INT32_MAX; /* none yet */
            for (int32_t i = k.lane; i < k.n; i += k.lanes) {
                const float v = bs_cu_line_get(k, at[0], i);
                const bool left = last_index < 0 || bs_cu_topk_before(last, last_index, v, i);
                if (left && (index == INT32_MAX || bs_cu_topk_before(v, i, best, index))) {
                    best = v;
                    index = i;
                }
            }
            for (int32_t m = k.lanes / 2; m > 0; m /= 2) {
                const float other = __shfl_xor_sync(0xffffffffu, best, m);
                const int32_t theirs = __shfl_xor_sync(0xffffffffu, index, m);
                if (theirs != INT32_MAX && (index == INT32_MAX || bs_cu_topk_before(other, theirs, best, index))) {
                    best = other;
                    index = theirs;
                }
            }
            if (k.lane == 0) {
                bs_cu_line_put(k, at[1], place, best);
                reinterpret_cast<int32_t *>(k.z)[at[2] + (int64_t)place * k.z_step] = index;
            }
            last = best;
            last_index = index;
        }
    });
}

#endif
