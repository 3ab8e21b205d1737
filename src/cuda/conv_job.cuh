/* conv_job.cuh - what all convolutions have in common: their parameters in p, the cut into tiles of pixels, the job
 * of a row, and the work items of that job.
 * Relies on walk.cuh and tensor.cuh. Must never clip: storage is zero outside an operand's rect, as on the CPU. */
#ifndef BS_CUDA_CONV_JOB
#define BS_CUDA_CONV_JOB

#include "cuda/kernels.cuh"
#include "cuda/tensor.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/forms.h"
}

/* Parameters of the kernels of this file, in p. */
enum {
    BS_CU_CONV_KERNEL_H,
    BS_CU_CONV_KERNEL_W,
    BS_CU_CONV_STRIDE, /* of both axes, in one word (bs_cu_both) */
    BS_CU_CONV_PAD_H,  /* before the first sample */
    BS_CU_CONV_PAD_W,
    BS_CU_CONV_DILATION, /* alike */
    BS_CU_CONV_GROUPS,
    BS_CU_CONV_ACT,
    BS_CU_CONV_PARAM,
    BS_CU_CONV_BIAS,   /* bytes from the weights */
    BS_CU_CONV_TILE_H, /* outputs of a work item */
    BS_CU_CONV_TILE_W,
    BS_CU_CONV_CHUNK,  /* input channels that are in shared memory at once */
    BS_CU_CONV_PIXEL,  /* elements between pixels there; 0: windows are read in place */
    /* conv2d_plain: 0 canonical weights, 1 those of conv2d_tensor, 2 of conv2d; deconv2d: 0 canonical, 1 phases */
    BS_CU_CONV_LAYOUT,
    BS_CU_CONV_UP      /* deconv2d: its stride */
};

enum { BS_CU_CONV_JOB = 96 }; /* bytes of the workspace for the job */

/* The convolution of one row, from the first requested output on. Strides are in elements; channels of input and output
 * are contiguous. It lies in shared memory, because registers are needed for sums. */
struct bs_cu_conv {
    const uint8_t *in; /* first sample of the first window */
    uint8_t *out;
    int16_t in_dtype, out_dtype;
    int32_t in_row, in_pixel, out_row, out_pixel;
    int32_t h, w; /* outputs */
    int32_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w, dilation_h, dilation_w;
    int32_t groups, in_c, out_c; /* channels of a group */
    const uint8_t *weights;
    const float *bias;
    const bs_device_step *step; /* for the end: where the step is at hand it is nearer */
};

/* Two numbers in one word of p, down and across. */
__host__ __device__ static inline int32_t bs_cu_both(int32_t h, int32_t w)
{
    return (int32_t)((uint32_t)h << 16 | (uint32_t)w);
}
__host__ __device__ static inline uint16_t bs_cu_down(int32_t both) { return (uint16_t)((uint32_t)both >> 16); }
__host__ __device__ static inline uint16_t bs_cu_across(int32_t both) { return (uint16_t)both; }

/* -------------------------------------------------------------------------------------------- the host's side */

static inline int64_t bs_cu_window(int64_t outputs, int32_t kernel, int32_t stride, int32_t dilation)
{
    return (outputs - 1) * stride + (int64_t)(kernel - 1) * dilation + 1;
}

/* Cuts h x w outputs into the fewest equal tiles of at most `most` pixels whose windows have at most `room`. False: the
 * window of a single output is larger. */
static bool bs_cu_conv_cut(bs_device_step *s, int64_t h, int64_t w, int64_t most, int64_t room)
{
    const int32_t kh = s->p[BS_CU_CONV_KERNEL_H].i, kw = s->p[BS_CU_CONV_KERNEL_W].i;
    const int32_t stride = s->p[BS_CU_CONV_STRIDE].i, dilation = s->p[BS_CU_CONV_DILATION].i;
    const int64_t window = bs_cu_window(1, kh, 1, bs_cu_down(dilation));
    int64_t fewest = INT64_MAX, from = bs_ceil_div(w, most < 64 ? most : 64);
    for (int64_t columns = from < 1 ? 1 : from; columns <= w && columns <= 2 * bs_ceil_div(w, 8) + 8; columns++) {
        const int64_t tw = bs_ceil_div(w, columns),
                      across = bs_cu_window(tw, kw, bs_cu_across(stride), bs_cu_across(dilation));
        const int64_t rows = (room / across - window) / bs_cu_down(stride) + 1;
        const int64_t th = rows * tw > most ? most / tw : rows;
        if (room / across < window || th < 1)
            continue;
        const int64_t down = bs_ceil_div(h, th < h ? th : h);
        if (columns * down >= fewest)
            continue;
        fewest = columns * down;
        s->p[BS_CU_CONV_TILE_H].i = (int32_t)bs_ceil_div(h, down);
        s->p[BS_CU_CONV_TILE_W].i = (int32_t)tw;
    }
    return fewest != INT64_MAX;
}

/* The largest rectangle of outputs that a row can have. */
static void bs_cu_conv_extent(const bs_device_operand *o, int64_t *h, int64_t *w)
{
    *h = (o->cell > 0 ? o->cell : o->dim[1]) + 2 * (int64_t)o->margin;
    *w = (o->cell > 0 ? o->cell : o->dim[2]) + 2 * (int64_t)o->margin;
    *h = *h < 1 ? 1 : *h;
    *w = *w < 1 ? 1 : *w;
}

static int64_t bs_cu_conv_tiles(const bs_device_step *s, int64_t h, int64_t w)
{
    return bs_ceil_div(h, s->p[BS_CU_CONV_TILE_H].i) * bs_ceil_div(w, s->p[BS_CU_CONV_TILE_W].i);
}

/* ------------------------------------------------------------------------------------------- the job of a row */

/* The job of a row. */
__device__ __forceinline__ bs_cu_conv bs_cu_conv_of(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                                    const bs_cu_view &y)
{
    const int32_t stride = s->p[BS_CU_CONV_STRIDE].i, dilation = s->p[BS_CU_CONV_DILATION].i,
                  groups = s->p[BS_CU_CONV_GROUPS].i;
    bs_cu_conv c;
    c.stride_h = bs_cu_down(stride);
    c.stride_w = bs_cu_across(stride);
    c.dilation_h = bs_cu_down(dilation);
    c.dilation_w = bs_cu_across(dilation);
    c.kernel_h = s->p[BS_CU_CONV_KERNEL_H].i;
    c.kernel_w = s->p[BS_CU_CONV_KERNEL_W].i;
    c.in = x.data + bs_cu_pixel_at(x, 0, y.y0 * c.stride_h - s->p[BS_CU_CONV_PAD_H].i,
                                   y.x0 * c.stride_w - s->p[BS_CU_CONV_PAD_W].i) * bs_cu_bytes(x.dtype);
    c.groups = groups;
    c.in_dtype = (int16_t)x.dtype;
    c.in_row = x.stride[1];
    c.in_pixel = x.stride[2];
    c.out = y.data + bs_cu_pixel_at(y, 0, y.y0, y.x0) * bs_cu_bytes(y.dtype);
    c.out_dtype = (int16_t)y.dtype;
    c.out_row = y.stride[1];
    c.out_pixel = y.stride[2];
    c.h = y.y1 - y.y0;
    c.w = y.x1 - y.x0;
    c.in_c = x.dim[0] / groups;
    c.out_c = y.dim[0] / groups;
    c.weights = bs_cu_prepared(t, s);
    c.bias = reinterpret_cast<const float *>(c.weights + s->p[BS_CU_CONV_BIAS].i);
    c.step = s;
    return c;
}

/* Puts the job into shared memory, where all threads see it. */
__device__ __forceinline__ const bs_cu_conv &bs_cu_conv_share(const bs_cu_tile &t, const bs_cu_conv &c)
{
    bs_cu_conv *shared = reinterpret_cast<bs_cu_conv *>(t.workspace);
    static_assert(sizeof *shared <= BS_CU_CONV_JOB, "the job has its room");
    BS_CU_ASSUME_SHARED(shared);
    __syncthreads(); /* all threads are done with the previous job */
    if (threadIdx.x == 0)
        *shared = c;
    __syncthreads();
    return *shared;
}

/* Whether a row has anything to compute; fails where the channels of an image are not contiguous. */
__device__ __forceinline__ bool bs_cu_conv_sound(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                                 const bs_cu_view &y)
{
    const bool last = (x.stride[0] == 1 || x.dim[0] == 1) && (y.stride[0] == 1 || y.dim[0] == 1);
    if (!last && threadIdx.x == 0)
        bs_cu_fail(t, s, BS_ERROR_UNSUPPORTED);
    return last && y.y1 > y.y0 && y.x1 > y.x0;
}

/* Calls each(job) for every row that has anything to compute. */
template <typename E>
__device__ __forceinline__ void bs_cu_conv_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                const E &each)
{
    bs_cu_each_row(t, s, w, bs_cu_deal_whole(w), [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        if (bs_cu_conv_sound(t, s, x, y))
            each(bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y)));
    });
}

/* -------------------------------------------------------------------------------------------- work items of a job */

/* A tile of pixels, by as many blocks of 8 output channels of a group as there are threads for. */
struct bs_cu_conv_item {
    int32_t y, x, h, w; /* outputs */
    int32_t window_h, window_w;
    int32_t group, pass;
};

__device__ __forceinline__ bs_cu_conv_item bs_cu_conv_item_of(const bs_device_step *s, const bs_cu_conv &c,
                                                              int32_t item, int32_t passes)
{
    const int32_t tile_h = s->p[BS_CU_CONV_TILE_H].i, tile_w = s->p[BS_CU_CONV_TILE_W].i,
                  across = (c.w + tile_w - 1) / tile_w;
    bs_cu_conv_item p;
    p.pass = item % passes;
    item /= passes;
    p.group = item % c.groups;
    item /= c.groups;
    p.y = item / across * tile_h;
    p.x = item % across * tile_w;
    p.h = min(tile_h, c.h - p.y);
    p.w = min(tile_w, c.w - p.x);
    p.window_h = (p.h - 1) * c.stride_h + (c.kernel_h - 1) * c.dilation_h + 1;
    p.window_w = (p.w - 1) * c.stride_w + (c.kernel_w - 1) * c.dilation_w + 1;
    return p;
}

__device__ __forceinline__ int32_t bs_cu_conv_tiles_of(const bs_device_step *s, const bs_cu_conv &c)
{
    const int32_t tile_h = s->p[BS_CU_CONV_TILE_H].i, tile_w = s->p[BS_CU_CONV_TILE_W].i;
    return (c.w + tile_w - 1) / tile_w * ((c.h + tile_h - 1) / tile_h) * c.groups;
}

__device__ __forceinline__ const uint8_t *bs_cu_conv_source(const bs_cu_conv &c, const bs_cu_conv_item &p)
{
    const int64_t at = (int64_t)(p.y * c.stride_h) * c.in_row + (int64_t)(p.x * c.stride_w) * c.in_pixel;
    return c.in + (at + (int64_t)p.group * c.in_c) * bs_cu_bytes(c.in_dtype);
}

/* --------------------------------------------------------------------------------------------------- elements */

/* Weights never change while a kernel runs. */
template <typename T> __device__ __forceinline__ T bs_cu_constant(const T *at)
{
#ifdef BS_CUDA_CPU
    return *at;
#else
    return __ldg(at);
#endif
}

/* Whether channels can be moved four at a time. */
__device__ __forceinline__ bool bs_cu_quads(const uint8_t *at, int32_t dtype, int32_t row, int32_t pixel,
                                            int32_t channels)
{
    return ((row | pixel | channels) & 3) == 0 && bs_cu_aligned(at, bs_cu_bytes(dtype), 0);
}

#endif
