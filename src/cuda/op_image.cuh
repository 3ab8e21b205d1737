/* op_image.cuh - pool2d, by windows and global; lrn.
 * Relies on walk.cuh. Must never count what lies outside the frame, unless count_pad says so. */
#ifndef BS_CUDA_OP_IMAGE
#define BS_CUDA_OP_IMAGE

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/forms.h"
#include "ops/lrn.h"
}

/* Parameters of pooling, in p. */
enum {
    BS_CU_POOL_KIND,
    BS_CU_POOL_COUNT_PAD,
    BS_CU_POOL_CHANNELS, /* channels that global pooling sums together */
    BS_CU_POOL_WINDOW    /* a bs_window */
};
static_assert(BS_CU_POOL_WINDOW + sizeof(bs_window) / 4 <= BS_DEVICE_PARAMS, "p holds a window");

static void bs_cu_pool2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t channels = n->in[0].dim[0];
    const bs_pool2d_desc *d = static_cast<const bs_pool2d_desc *>(n->params);
    const bs_window window = bs_pool2d_window(d);
    memset(s->p, 0, sizeof s->p);
    s->p[BS_CU_POOL_KIND].i = d->kind;
    s->p[BS_CU_POOL_COUNT_PAD].i = d->count_pad;
    memcpy(&s->p[BS_CU_POOL_WINDOW], &window, sizeof window);
    s->kernel = d->global ? BS_CU_pool2d_global : BS_CU_pool2d;
    if (!d->global) {
        s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), BS_CU_EACH / 2);
        return;
    }
    /* a block takes 64 channels, of a large frame 8: a sector of memory */
    s->p[BS_CU_POOL_CHANNELS].i = bs_cu_pixels(&n->in[0]) > 1 << 14 ? 8 : 64;
    s->parts = bs_cu_work_items(channels, s->p[BS_CU_POOL_CHANNELS].i);
}

/* ------------------------------------------------------------------------------------------------- windows */

/* The taps of a pixel that are in the frame: first .. end of the window at (y, x). */
struct bs_cu_pool_window {
    int32_t y, x, y_first, y_end, x_first, x_end, y_step, x_step;
};

__device__ __forceinline__ const bs_window_axis *bs_cu_pool_axes(const bs_device_step *s)
{
    return reinterpret_cast<const bs_window *>(&s->p[BS_CU_POOL_WINDOW])->axis;
}

__device__ __forceinline__ bs_cu_pool_window bs_cu_pool_window_of(const bs_device_step *s, const bs_cu_view &x,
                                                                  int32_t oy, int32_t ox)
{
    const bs_window_axis &down = bs_cu_pool_axes(s)[0], &across = bs_cu_pool_axes(s)[1];
    const int32_t y = oy * down.stride - down.before, at = ox * across.stride - across.before;
    const bs_cu_pool_window o = {
        y,
        at,
        (max(0, -(y + x.frame_y)) + down.dilation - 1) / down.dilation,
        min(down.kernel, (x.frame_h - y - x.frame_y + down.dilation - 1) / down.dilation),
        (max(0, -(at + x.frame_x)) + across.dilation - 1) / across.dilation,
        min(across.kernel, (x.frame_w - at - x.frame_x + across.dilation - 1) / across.dilation),
        down.dilation,
        across.dilation};
    return o;
}

__device__ __forceinline__ float bs_cu_pool_join(bool top, bool first, float v, float old)
{
    return first ? v : top ? (v > old ? v : old) : old + v;
}

__device__ __forceinline__ float bs_cu_pool_count(const bs_device_step *s, const bs_cu_pool_window &o)
{
    const bs_window_axis *a = bs_cu_pool_axes(s);
    const int32_t taps = s->p[BS_CU_POOL_COUNT_PAD].i ? a[0].kernel * a[1].kernel
                                                      : max(0, o.y_end - o.y_first) * max(0, o.x_end - o.x_first);
    return (float)max(1, taps); /* a window of which nothing is in the frame gives 0 */
}

__device__ inline void bs_cu_pool_one(const bs_device_step *s, const bs_cu_view &x, const bs_cu_view &y,
                                      const bs_cu_scan &k)
{
    const bs_cu_pool_window o = bs_cu_pool_window_of(s, x, k.y, k.x);
    const bool top = s->p[BS_CU_POOL_KIND].i == BS_POOL_MAX;
    float sum = 0.0f;
    for (int32_t ky = o.y_first; ky < o.y_end; ky++)
        for (int32_t kx = o.x_first; kx < o.x_end; kx++) {
            const int64_t at = bs_cu_pixel_at(x, k.c, o.y + ky * o.y_step, o.x + kx * o.x_step);
            sum = bs_cu_pool_join(top, ky == o.y_first && kx == o.x_first, bs_cu_get(x.data, x.dtype, at), sum);
        }
    bs_cu_put(y.data, y.dtype, bs_cu_pixel_at(y, k.c, k.y, k.x),
              top ? sum : sum / bs_cu_pool_count(s, o));
}

/* Four channels from 4 k.c on. */
__device__ inline void bs_cu_pool_four(const bs_device_step *s, const bs_cu_view &x, const bs_cu_view &y,
                                       const bs_cu_scan &k)
{
    const bs_cu_pool_window o = bs_cu_pool_window_of(s, x, k.y, k.x);
    const bool top = s->p[BS_CU_POOL_KIND].i == BS_POOL_MAX;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, v[4];
    for (int32_t ky = o.y_first; ky < o.y_end; ky++)
        for (int32_t kx = o.x_first; kx < o.x_end; kx++) {
            bs_cu_get_four(x.data, x.dtype,
                           (int64_t)(o.y + ky * o.y_step) * x.stride[1] + (int64_t)(o.x + kx * o.x_step) * x.stride[2] +
                               4 * k.c,
                           v);
            for (int32_t i = 0; i < 4; i++)
                sum[i] = bs_cu_pool_join(top, ky == o.y_first && kx == o.x_first, v[i], sum[i]);
        }
    for (int32_t i = 0; i < 4 && !top; i++)
        sum[i] /= bs_cu_pool_count(s, o);
    bs_cu_put_four(y.data, y.dtype, (int64_t)k.y * y.stride[1] + (int64_t)k.x * y.stride[2] + 4 * k.c, sum);
}

/* Whether the channels of every pixel can be read by four, aligned. */
__device__ __forceinline__ bool bs_cu_pool_fours(const bs_cu_view &v)
{
    return v.stride[0] == 1 && ((v.dim[0] | v.stride[1] | v.stride[2]) & 3) == 0 &&
           bs_cu_aligned(v.data, bs_cu_bytes(v.dtype), 0);
}

__device__ inline void bs_cu_pool2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bool four = bs_cu_pool_fours(x) && bs_cu_pool_fours(y);
        bs_cu_scan_run(d, y, y.dim[0] / (four ? 4 : 1), [&](const bs_cu_scan &k) {
            if (four)
                bs_cu_pool_four(s, x, y, k);
            else
                bs_cu_pool_one(s, x, y, k);
        });
    });
}

/* -------------------------------------------------------------------------------------------------- global */

/* A line of pixels of one channel, from left to right. */
__device__ inline float bs_cu_pool_line(const bs_cu_view &x, bool top, int32_t y, int32_t c)
{
    const int64_t at = bs_cu_pixel_at(x, c, y, 0);
    float sum = top ? bs_cu_get(x.data, x.dtype, (int64_t)c * x.stride[0]) : 0.0f;
    for (int32_t px = 0; px < x.dim[2]; px++)
        sum = bs_cu_pool_join(top, false, bs_cu_get(x.data, x.dtype, at + (int64_t)px * x.stride[2]), sum);
    return sum;
}

/* Channels first .. first + channels: a thread adds up a line, then lines are added from the top down as on the CPU. */
__device__ inline void bs_cu_pool_channels(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                           const bs_cu_view &y, int32_t first, int32_t channels)
{
    const bool top = s->p[BS_CU_POOL_KIND].i == BS_POOL_MAX;
    const int32_t lines = (int32_t)(BS_CU_WORKSPACE / sizeof(float)) / channels, c = bs_cu_thread();
    const float area = (float)x.dim[1] * (float)x.dim[2];
    float *line = reinterpret_cast<float *>(t.workspace);
    float total = top && c < channels && area > 0.0f ? bs_cu_get(x.data, x.dtype, (int64_t)(first + c) * x.stride[0])
                                                     : 0.0f;
    for (int32_t from = 0; from < x.dim[1] && area > 0.0f; from += lines) {
        const int32_t count = min(lines, x.dim[1] - from);
        for (int32_t i = c; i < count * channels; i += bs_cu_threads())
            line[i] = bs_cu_pool_line(x, top, from + i / channels, first + i % channels);
        __syncthreads();
        for (int32_t i = 0; i < count && c < channels; i++)
            total = bs_cu_pool_join(top, false, line[i * channels + c], total);
        __syncthreads();
    }
    if (c < channels) /* a cell without pixels gives zero */
        bs_cu_put(y.data, y.dtype, (int64_t)(first + c) * y.stride[0], top || area == 0.0f ? total : total / area);
}

__device__ inline void bs_cu_pool2d_global_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t each = s->p[BS_CU_POOL_CHANNELS].i;
    for (int32_t r = w.row; r < w.end; r++) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r), x = bs_cu_open_in(t, s, 0, r);
        for (int32_t first = w.part * each; first < x.dim[0]; first += w.parts * each)
            bs_cu_pool_channels(t, s, x, y, first, min(each, x.dim[0] - first));
    }
}

/* ----------------------------------------------------------------------------------------------------- lrn */

enum { BS_CU_LRN_BEFORE, BS_CU_LRN_AFTER, BS_CU_LRN_SCALE, BS_CU_LRN_BETA, BS_CU_LRN_BIAS }; /* p: a bs_lrn_form */

static void bs_cu_lrn_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_lrn_form form = bs_lrn_form_of(static_cast<const bs_lrn_desc *>(n->params));
    memcpy(s->p, &form, sizeof form);
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_lrn_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const int32_t first = max(0, k.c - s->p[BS_CU_LRN_BEFORE].i),
                      last = min(x.dim[0] - 1, k.c + s->p[BS_CU_LRN_AFTER].i);
        float squares = 0.0f;
        for (int32_t c = first; c <= last; c++) {
            const float v = bs_cu_get(x.data, x.dtype, bs_cu_pixel_at(x, c, k.y, k.x));
            squares = bs_cu_mul_add(v, v, squares);
        }
        bs_cu_put(y.data, y.dtype, bs_cu_pixel_at(y, k.c, k.y, k.x),
                  bs_lrn_of(bs_cu_get(x.data, x.dtype, bs_cu_pixel_at(x, k.c, k.y, k.x)), squares,
                            s->p[BS_CU_LRN_SCALE].f, s->p[BS_CU_LRN_BETA].f, s->p[BS_CU_LRN_BIAS].f));
    });
}

#endif
