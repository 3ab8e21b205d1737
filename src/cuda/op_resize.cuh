/* op_resize.cuh - images of another size: by an integer factor, by any ratio, or to a size.
 * Taps are clamped to the frame: operands may be views without anything around them. Products and sums are never
 * fused, so that codes that go through f32 round as on the CPU; bicubic x2 of codes stays in integers.
 * Relies on walk.cuh. Must never let a pixel depend on the rectangle it is computed in. */
#ifndef BS_CUDA_OP_RESIZE
#define BS_CUDA_OP_RESIZE

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/resize.h"
}

/* Parameters of the kernels of this file, in p: the descriptor's words, then ours. */
enum {
    BS_CU_RESIZE_KIND,
    BS_CU_RESIZE_FACTOR,
    BS_CU_RESIZE_CUBIC, /* f */
    BS_CU_RESIZE_TOP,   /* in: the descriptor's code_bits; out: the largest code */
    BS_CU_RESIZE_DEN,
    BS_CU_RESIZE_HEIGHT,
    BS_CU_RESIZE_WIDTH,
    BS_CU_RESIZE_CENTRES,
    BS_CU_RESIZE_ANTIALIAS,
    BS_CU_RESIZE_TAPS,
    BS_CU_RESIZE_INTEGERS /* bicubic x2 of codes: 1 */
};

static void bs_cu_resize_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool by_factor = bs_resize_by_factor(reinterpret_cast<const bs_resize_desc *>(n->params));
    const int32_t kind = s->p[BS_CU_RESIZE_KIND].i, type = n->out[0].dtype;
    const bool codes = type == BS_U8 || type == BS_U16;
    const int32_t factor = bs_or_default(s->p[BS_CU_RESIZE_FACTOR].i, 2);
    const float cubic = s->p[BS_CU_RESIZE_CUBIC].f == 0.0f ? -0.5f : s->p[BS_CU_RESIZE_CUBIC].f;
    const bool bicubic = kind == BS_RESIZE_BICUBIC,
               integers = codes && bicubic && by_factor && factor == 2 && cubic == -0.5f;
    const bool doubles = bicubic && factor == 2 && (integers || !codes);
    s->p[BS_CU_RESIZE_FACTOR].i = factor;
    s->p[BS_CU_RESIZE_CUBIC].f = cubic;
    s->p[BS_CU_RESIZE_TOP].i = type == BS_U8 ? 255 : (1 << bs_or_default(s->p[BS_CU_RESIZE_TOP].i, 16)) - 1;
    s->p[BS_CU_RESIZE_TAPS].i = bs_resize_taps(kind);
    s->p[BS_CU_RESIZE_INTEGERS].i = integers;
    s->p[BS_CU_RESIZE_DEN].i = bs_or_default(s->p[BS_CU_RESIZE_DEN].i, 1);
    s->kernel = !by_factor ? BS_CU_resize_any : doubles ? BS_CU_resize_double : BS_CU_resize;
    s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), BS_CU_EACH);
}

/* --------------------------------------------------------------------------------------------------- taps */

__device__ inline bs_resize_phase bs_cu_resize_phase_of(const bs_device_step *s, int32_t r)
{
    return bs_resize_phase_of(s->p[BS_CU_RESIZE_KIND].i, s->p[BS_CU_RESIZE_FACTOR].i, s->p[BS_CU_RESIZE_CUBIC].f, r);
}

/* The phases, in the workspace. */
__device__ inline const bs_resize_phase *bs_cu_resize_phases(const bs_cu_tile &t, const bs_device_step *s)
{
    bs_resize_phase *phases = reinterpret_cast<bs_resize_phase *>(t.workspace);
    if (bs_cu_thread() < s->p[BS_CU_RESIZE_FACTOR].i)
        phases[threadIdx.x] = bs_cu_resize_phase_of(s, bs_cu_thread());
    __syncthreads();
    return phases;
}

/* The coordinate of a tap, counted from the core and clamped to the frame. */
__device__ __forceinline__ int32_t bs_cu_resize_tap(int32_t at, int32_t origin, int32_t extent)
{
    return min(max(at + origin, 0), extent - 1) - origin;
}

__device__ __forceinline__ float bs_cu_resize_sample(const bs_cu_view &x, int64_t at)
{
    return x.dtype == BS_F32 || x.dtype == BS_F16 ? bs_cu_get(x.data, x.dtype, at)
                                                  : (float)bs_cu_load_one(x.data, bs_cu_bytes(x.dtype), at);
}

__device__ __forceinline__ void bs_cu_resize_store(const bs_cu_view &y, int64_t at, float v, int32_t top)
{
    if (y.dtype == BS_F32 || y.dtype == BS_F16)
        bs_cu_put(y.data, y.dtype, at, v);
    else
        bs_cu_store_one(y.data, bs_cu_bytes(y.dtype), at, (uint32_t)bs_f32_to_code(v, 0, top));
}

/* ------------------------------------------------------------------------------------------- a pixel a thread */

__device__ inline void bs_cu_resize_pixel(const bs_device_step *s, const bs_resize_phase *phases,
                                          const bs_cu_view &x, const bs_cu_view &y, const bs_cu_scan &k)
{
    const int32_t factor = s->p[BS_CU_RESIZE_FACTOR].i, taps = s->p[BS_CU_RESIZE_TAPS].i,
                  gy = bs_cu_floor_div(k.y, factor), gx = bs_cu_floor_div(k.x, factor);
    const bs_resize_phase &py = phases[k.y - gy * factor], &px = phases[k.x - gx * factor];
    const int64_t from = (int64_t)k.c * x.stride[0];
    float sum = 0.0f;
    for (int32_t j = 0; j < taps; j++) {
        const int64_t row = from + (int64_t)bs_cu_resize_tap(gy + py.start + j, x.frame_y, x.frame_h) * x.stride[1];
        float line = 0.0f;
        for (int32_t i = 0; i < taps; i++) {
            const int32_t at = bs_cu_resize_tap(gx + px.start + i, x.frame_x, x.frame_w);
            line = bs_cu_mul_add(px.weight[i], bs_cu_resize_sample(x, row + (int64_t)at * x.stride[2]), line);
        }
        sum = bs_cu_mul_add(py.weight[j], line, sum);
    }
    bs_cu_resize_store(y, bs_cu_pixel_at(y, k.c, k.y, k.x), sum,
                       s->p[BS_CU_RESIZE_TOP].i);
}

__device__ inline void bs_cu_resize_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_resize_phase *phases = bs_cu_resize_phases(t, s);
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        bs_cu_resize_pixel(s, phases, x, y, k);
    });
}

/* ----------------------------------------------------------------------------------------------- any ratio */

__device__ inline bs_resize_axis bs_cu_resize_axis_of(const bs_device_step *s, int32_t size, int32_t extent)
{
    bs_resize_desc desc = {};
    desc.kind = s->p[BS_CU_RESIZE_KIND].i;
    desc.factor = s->p[BS_CU_RESIZE_FACTOR].i;
    desc.cubic_a = s->p[BS_CU_RESIZE_CUBIC].f;
    desc.den = s->p[BS_CU_RESIZE_DEN].i;
    desc.centres = s->p[BS_CU_RESIZE_CENTRES].i;
    desc.antialias = s->p[BS_CU_RESIZE_ANTIALIAS].i;
    return bs_resize_axis_of(&desc, size, extent);
}

__device__ inline void bs_cu_resize_any_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const bs_resize_axis ay = bs_cu_resize_axis_of(s, s->p[BS_CU_RESIZE_HEIGHT].i, x.frame_h),
                             ax = bs_cu_resize_axis_of(s, s->p[BS_CU_RESIZE_WIDTH].i, x.frame_w);
        const bs_resize_line ly = bs_resize_line_of(&ay, k.y + y.frame_y), lx = bs_resize_line_of(&ax, k.x + y.frame_x);
        float sum = 0.0f;
        for (int32_t j = 0; j < ly.count; j++) {
            const int64_t row = (int64_t)k.c * x.stride[0] +
                                (int64_t)bs_cu_resize_tap(ly.low + j - x.frame_y, x.frame_y, x.frame_h) * x.stride[1];
            float line = 0.0f;
            for (int32_t i = 0; i < lx.count; i++) {
                const int32_t at = bs_cu_resize_tap(lx.low + i - x.frame_x, x.frame_x, x.frame_w);
                line = bs_cu_mul_add(bs_resize_weight(&ax, &lx, i),
                                     bs_cu_resize_sample(x, row + (int64_t)at * x.stride[2]), line);
            }
            sum = bs_cu_mul_add(bs_resize_weight(&ay, &ly, j), line, sum);
        }
        bs_cu_resize_store(y, bs_cu_pixel_at(y, k.c, k.y, k.x), sum, s->p[BS_CU_RESIZE_TOP].i);
    });
}

/* ---------------------------------------------------------------------------------------------- bicubic x2
 * A thread makes 2 x 2 pixels from 5 x 5: along the 5 lines first, then down. */

__device__ __forceinline__ int32_t bs_cu_resize_mad(int32_t sum, int32_t weight, int32_t v) { return sum + weight * v; }
__device__ __forceinline__ float bs_cu_resize_mad(float sum, float weight, float v)
{
    return bs_cu_mul_add(weight, v, sum);
}

__device__ __forceinline__ void bs_cu_resize_take(const bs_cu_view &x, int64_t at, int32_t *v)
{
    *v = (int32_t)bs_cu_load_one(x.data, bs_cu_bytes(x.dtype), at);
}
__device__ __forceinline__ void bs_cu_resize_take(const bs_cu_view &x, int64_t at, float *v)
{
    *v = bs_cu_get(x.data, x.dtype, at);
}

/* The sum is at most 65535 (140^2 + 12^2) = 1.3e9: it fits 32 bits, rounding included. */
__device__ __forceinline__ uint32_t bs_cu_resize_finish(const bs_cu_view &, int32_t sum, int32_t top)
{
    return (uint32_t)min(max((sum + (1 << 13)) >> 14, 0), top);
}
__device__ __forceinline__ uint32_t bs_cu_resize_finish(const bs_cu_view &y, float sum, int32_t)
{
    return bs_cu_raw(sum, y.dtype);
}

template <typename T> struct bs_cu_resize_weights {
    T even[4], odd[4]; /* of the taps from -2 and from -1 on */
};

/* The 2 x 2 pixels from (2 k.y, 2 k.x) of channel k.c. */
template <typename T>
__device__ inline void bs_cu_resize_group(const bs_cu_resize_weights<T> &weights, const bs_cu_view &x,
                                          const bs_cu_view &y, const bs_cu_scan &k, int32_t top)
{
    T even[5], odd[5];
#pragma unroll
    for (int32_t j = 0; j < 5; j++) {
        const int64_t row = (int64_t)k.c * x.stride[0] +
                            (int64_t)bs_cu_resize_tap(k.y + j - 2, x.frame_y, x.frame_h) * x.stride[1];
        T v[5];
#pragma unroll
        for (int32_t i = 0; i < 5; i++)
            bs_cu_resize_take(x, row + (int64_t)bs_cu_resize_tap(k.x + i - 2, x.frame_x, x.frame_w) * x.stride[2],
                              &v[i]);
        even[j] = odd[j] = 0;
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            even[j] = bs_cu_resize_mad(even[j], weights.even[i], v[i]);
            odd[j] = bs_cu_resize_mad(odd[j], weights.odd[i], v[i + 1]);
        }
    }
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t oy = 2 * k.y + half, ox = 2 * k.x;
        T left = 0, right = 0;
#pragma unroll
        for (int32_t j = 0; j < 4; j++) {
            const T weight = half ? weights.odd[j] : weights.even[j];
            left = bs_cu_resize_mad(left, weight, even[j + half]);
            right = bs_cu_resize_mad(right, weight, odd[j + half]);
        }
        if (oy >= y.y0 && oy < y.y1)
            bs_cu_store_pair(y, bs_cu_pixel_at(y, k.c, oy, ox),
                              bs_cu_resize_finish(y, left, top), bs_cu_resize_finish(y, right, top), ox >= y.x0,
                              ox + 1 < y.x1);
    }
}

template <typename T>
__device__ inline void bs_cu_resize_groups(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                           const bs_cu_resize_weights<T> &weights)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        if (y.y1 <= y.y0 || y.x1 <= y.x0)
            return;
        /* shifts round towards minus infinity */
        bs_cu_scan_run(d, {y.y0 >> 1, (y.y1 + 1) >> 1, y.x0 >> 1, (y.x1 + 1) >> 1}, y.dim[0],
                       [&](const bs_cu_scan &k) { bs_cu_resize_group(weights, x, y, k, s->p[BS_CU_RESIZE_TOP].i); });
    });
}

__device__ inline void bs_cu_resize_double_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    if (s->p[BS_CU_RESIZE_INTEGERS].i) {
        const bs_cu_resize_weights<int32_t> weights = {{-3, 29, 111, -9}, {-9, 111, 29, -3}}; /* over 128 */
        bs_cu_resize_groups(t, s, w, weights);
        return;
    }
    bs_cu_resize_weights<float> weights;
    const bs_resize_phase even = bs_cu_resize_phase_of(s, 0), odd = bs_cu_resize_phase_of(s, 1);
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        weights.even[i] = even.weight[i];
        weights.odd[i] = odd.weight[i];
    }
    bs_cu_resize_groups(t, s, w, weights);
}

#endif
