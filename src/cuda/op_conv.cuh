/* op_conv.cuh - conv2d and deconv2d: sums over windows, with bias and activation.
 *
 * conv2d            f32 arithmetic, any geometry: a window is brought to shared memory, 4 pixels x 8 outputs a thread
 * conv2d_depthwise  one channel a group
 * conv2d_tensor     f16 products on tensor cores, sums in f32: pixels are the rows of a matrix product, all products
 *                   of a window its depth, without gaps between taps
 * conv2d_tile       the same where windows lie in shared memory already
 * conv2d_plain      plain loops over either kind of weights: what the others cannot do, and BS_CONV_FORCE_REFERENCE
 * deconv2d          a convolution (as conv2d does it) for each phase of the stride
 *
 * Owns the cut into tiles of pixels. Relies on the layouts that kernels/conv_pack.c writes, on tensor.cuh and
 * program.cuh. Must never clip: storage is zero outside an operand's rect, as for the CPU. Must never let the order of
 * a sum depend on where a pixel stands or on the cut: it is one order for each geometry. */
#ifndef BS_CUDA_OP_CONV
#define BS_CUDA_OP_CONV

#include "cuda/kernels.cuh"
#include "cuda/lower.cuh"
#include "cuda/program.cuh"
#include "cuda/tensor.cuh"

extern "C" {
#include "kernels/conv.h"
}

/* What the kernels of this file are told in p. */
enum {
    BS_CU_CONV_KERNEL_H,
    BS_CU_CONV_KERNEL_W,
    BS_CU_CONV_STRIDE,
    BS_CU_CONV_PAD_H,
    BS_CU_CONV_PAD_W,
    BS_CU_CONV_DILATION,
    BS_CU_CONV_GROUPS,
    BS_CU_CONV_ACT,
    BS_CU_CONV_PARAM,
    BS_CU_CONV_BIAS,   /* bytes from the weights */
    BS_CU_CONV_TILE_H, /* outputs of a piece of work */
    BS_CU_CONV_TILE_W,
    BS_CU_CONV_CHUNK,  /* input channels that are in shared memory at once */
    BS_CU_CONV_PIXEL,  /* elements from pixel to pixel there; 0: windows are read where they are */
    /* conv2d_plain: 0 canonical weights, 1 those of conv2d_tensor, 2 of conv2d; deconv2d: 0 canonical, 1 phases */
    BS_CU_CONV_LAYOUT,
    BS_CU_CONV_UP      /* deconv2d: its stride */
};

enum {
    BS_CU_CONV_JOB = 96,      /* bytes of the workspace for the job */
    BS_CU_CONV_MOST = 20,     /* channels of a chunk: 307 pixels of a window in the workspace */
    BS_CU_TENSOR_PIXELS = 512,
    BS_CU_TENSOR_BAND = 32768 /* pixels that are numbered at once where windows are read directly */
};

/* A convolution of one row, beginning at the first output that is asked for. Strides in elements; channels of both
 * sides lie one after the other. It lies in shared memory, because registers are for sums. */
struct bs_cu_conv {
    const uint8_t *in; /* first sample of the first window */
    uint8_t *out;
    int16_t in_dtype, out_dtype;
    int32_t in_row, in_pixel, out_row, out_pixel;
    int32_t h, w; /* outputs */
    int32_t kernel_h, kernel_w, stride, dilation;
    int32_t groups, in_c, out_c; /* channels of a group */
    const uint8_t *weights;
    const float *bias;
    const bs_device_step *step;
};

/* ------------------------------------------------------------------------------------------- the host's side */

static inline int32_t bs_cu_or(int32_t value, int32_t otherwise) { return value != 0 ? value : otherwise; }

static inline int64_t bs_cu_window(int64_t outputs, int32_t kernel, int32_t stride, int32_t dilation)
{
    return (outputs - 1) * stride + (int64_t)(kernel - 1) * dilation + 1;
}

/* Cuts h x w outputs into the fewest equal tiles of at most `most` pixels whose windows have at most `room`. False: not
 * even one output fits. */
static bool bs_cu_conv_cut(bs_device_step *s, int64_t h, int64_t w, int64_t most, int64_t room)
{
    const int32_t kh = s->p[BS_CU_CONV_KERNEL_H].i, kw = s->p[BS_CU_CONV_KERNEL_W].i,
                  stride = s->p[BS_CU_CONV_STRIDE].i;
    const int32_t dilation = s->p[BS_CU_CONV_DILATION].i;
    int64_t fewest = INT64_MAX, from = bs_ceil_div(w, most < 64 ? most : 64);
    for (int64_t columns = from < 1 ? 1 : from; columns <= w && columns <= 2 * bs_ceil_div(w, 8) + 8; columns++) {
        const int64_t tw = bs_ceil_div(w, columns), across = bs_cu_window(tw, kw, stride, dilation);
        const int64_t rows = (room / across - (int64_t)(kh - 1) * dilation - 1) / stride + 1;
        const int64_t th = rows * tw > most ? most / tw : rows;
        if (room / across < (int64_t)(kh - 1) * dilation + 1 || th < 1)
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

/* The largest rectangle of outputs. */
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

/* Chunks of equal size, and pixels so far apart that the threads of a warp, a pixel each, meet no bank of shared memory
 * twice: an odd number of words, or of quads. */
static void bs_cu_conv_chunk(bs_device_step *s, int32_t in_c)
{
    const int32_t chunks = (in_c + BS_CU_CONV_MOST - 1) / BS_CU_CONV_MOST, each = (in_c + chunks - 1) / chunks;
    const int32_t chunk = in_c < 4 ? in_c : (each + 3) / 4 * 4;
    s->p[BS_CU_CONV_CHUNK].i = chunk;
    s->p[BS_CU_CONV_PIXEL].i = chunk < 4 ? chunk | 1 : chunk % 8 == 0 ? chunk + 4 : chunk;
}

/* Threads for the pixels of a tile, 4 each: whole warps. */
__host__ __device__ static inline int32_t bs_cu_conv_quads(const bs_device_step *s)
{
    return (s->p[BS_CU_CONV_TILE_H].i * s->p[BS_CU_CONV_TILE_W].i + 127) / 128 * 32;
}

/* f32, windows in shared memory. False: a window is too large for it. */
static bool bs_cu_conv_describe_direct(bs_device_step *s, int32_t in_c, int32_t out_c, int64_t h, int64_t w)
{
    bs_cu_conv_chunk(s, in_c);
    /* threads of a block of outputs */
    const int32_t blocks = (out_c + 7) / 8, share = BS_CU_THREADS / (blocks < 4 ? blocks : 4) / 32 * 32;
    const int32_t room = (BS_CU_WORKSPACE - BS_CU_CONV_JOB) / 4 / s->p[BS_CU_CONV_PIXEL].i;
    if (!bs_cu_conv_cut(s, h, w, 4 * (share > 64 ? share : 64), room))
        return false;
    const int32_t sides = BS_CU_THREADS / bs_cu_conv_quads(s);
    s->parts = bs_cu_pieces(bs_cu_conv_tiles(s, h, w) * s->p[BS_CU_CONV_GROUPS].i * bs_ceil_div(blocks, sides), 1);
    return true;
}

static int32_t bs_cu_tensor_steps(int32_t taps, int32_t in_c) { return (taps * in_c + 15) / 16; }

/* f16 products. In a tile windows lie in shared memory as they are. Elsewhere they are brought there; 16 words from
 * pixel to pixel (or a multiple) would put all of them into the same banks. */
static bool bs_cu_conv_describe_tensor(const bs_cu_node *n, bs_device_step *s, int32_t in_c, int64_t h, int64_t w)
{
    const int32_t steps = bs_cu_tensor_steps(s->p[BS_CU_CONV_KERNEL_H].i * s->p[BS_CU_CONV_KERNEL_W].i, in_c);
    const int32_t pixel = in_c % 32 == 0 ? in_c + 8 : in_c;
    const bool half = n->in[0].dtype == BS_F16;
    const int64_t room = (BS_CU_WORKSPACE - BS_CU_CONV_JOB - 16 * steps) / (2 * pixel);
    if (!(half && n->in[0].place == BS_AT_TILE) && bs_cu_conv_cut(s, h, w, BS_CU_TENSOR_PIXELS, room) &&
        (!half || s->p[BS_CU_CONV_TILE_H].i * s->p[BS_CU_CONV_TILE_W].i >= 32 || h * w < 32)) {
        s->p[BS_CU_CONV_PIXEL].i = pixel;
    } else {
        const bool tile = n->in[0].place == BS_AT_TILE;
        s->p[BS_CU_CONV_PIXEL].i = 0;
        s->p[BS_CU_CONV_TILE_W].i = (int32_t)(tile ? w : w < 16 ? w : 16);
        s->p[BS_CU_CONV_TILE_H].i = (int32_t)(tile     ? (w < BS_CU_TENSOR_BAND ? BS_CU_TENSOR_BAND / w : 1)
                                              : h < 16 ? h
                                                       : 16);
    }
    s->parts = bs_cu_pieces(bs_cu_conv_tiles(s, h, w) * s->p[BS_CU_CONV_GROUPS].i, 1);
    return half || s->p[BS_CU_CONV_PIXEL].i > 0;
}

/* Bytes of packed weights: what bs_conv_prepared_floats says of the layout. */
static int64_t bs_cu_conv_packed_bytes(int32_t algorithm, bool depthwise, int32_t groups, int32_t in_c, int32_t out_c,
                                       int32_t taps)
{
    if (algorithm == BS_CONV_TENSOR)
        return 256 * (int64_t)groups * ((out_c + 7) / 8) * bs_cu_tensor_steps(taps, in_c);
    if (algorithm != BS_CONV_DIRECT)
        return 4 * (int64_t)groups * out_c * in_c * taps;
    return depthwise ? 4 * (int64_t)((groups + 3) / 4 * 4) * taps
                     : 4 * (int64_t)groups * ((out_c + 3) / 4 * 4) * in_c * taps;
}

static void bs_cu_conv2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_conv2d_desc *d = static_cast<const bs_conv2d_desc *>(n->params);
    const int32_t square = bs_cu_or(d->kernel, 3), kh = bs_cu_or(d->kernel_h, square),
                  kw = bs_cu_or(d->kernel_w, square);
    const int32_t dilation = bs_cu_or(d->dilation, 1), channels = n->in[0].dim[0];
    const int32_t groups = d->groups == BS_DEPTHWISE ? channels : bs_cu_or(d->groups, 1);
    const int32_t in_c = channels / groups, out_c = d->out / groups, algorithm = n->np->algorithm;
    const bool depthwise = in_c == 1 && out_c == 1;
    int64_t h, w;
    memset(s->p, 0, sizeof s->p);
    s->p[BS_CU_CONV_KERNEL_H].i = kh;
    s->p[BS_CU_CONV_KERNEL_W].i = kw;
    s->p[BS_CU_CONV_STRIDE].i = bs_cu_or(d->stride, 1);
    s->p[BS_CU_CONV_PAD_H].i = bs_pad_of(d->padding, d->pad, dilation * (kh - 1) / 2);
    s->p[BS_CU_CONV_PAD_W].i = bs_pad_of(d->padding, d->pad, dilation * (kw - 1) / 2);
    s->p[BS_CU_CONV_DILATION].i = dilation;
    s->p[BS_CU_CONV_GROUPS].i = groups;
    s->p[BS_CU_CONV_ACT].i = d->act;
    s->p[BS_CU_CONV_PARAM].f = d->act_param;
    s->p[BS_CU_CONV_BIAS].i = (int32_t)bs_bytes_figure(
        bs_bytes_align(bs_bytes_array(bs_cu_conv_packed_bytes(algorithm, depthwise, groups, in_c, out_c, kh * kw), 1)));
    bs_cu_conv_extent(&n->out[0], &h, &w);
    if (algorithm == BS_CONV_TENSOR && bs_cu_conv_describe_tensor(n, s, in_c, h, w)) {
        s->kernel = n->in[0].dtype == BS_F16 && n->in[0].place == BS_AT_TILE ? BS_CU_conv2d_tile : BS_CU_conv2d_tensor;
    } else if (algorithm == BS_CONV_DIRECT && depthwise) {
        s->kernel = BS_CU_conv2d_depthwise;
        s->parts = bs_cu_pieces(h * w * ((groups + 3) / 4), 2 * BS_CU_THREADS);
    } else if (algorithm == BS_CONV_DIRECT && bs_cu_conv_describe_direct(s, in_c, out_c, h, w)) {
        s->kernel = BS_CU_conv2d;
    } else {
        s->kernel = BS_CU_conv2d_plain;
        s->p[BS_CU_CONV_LAYOUT].i = algorithm == BS_CONV_TENSOR ? 1 : algorithm == BS_CONV_DIRECT ? 2 : 0;
        s->parts = bs_cu_pieces(h * w * d->out, 4 * BS_CU_THREADS);
    }
}

/* ------------------------------------------------------------------------------------------------- epilogue */

__device__ __forceinline__ int32_t bs_cu_conv_p(const bs_cu_conv &c, int which) { return c.step->p[which].i; }

/* The frequent activations are one expression: x > 0 ? min(x, high) : x * slope, where a slope of 0 gives 0 of
 * anything. */
struct bs_cu_conv_end {
    const float *bias;
    const float *slopes; /* NULL: one for all */
    float slope, high;
    int32_t rare;        /* another activation, or BS_ACT_NONE */
};

__device__ __forceinline__ bs_cu_conv_end bs_cu_conv_end_of(const bs_cu_conv &c)
{
    const float param = c.step->p[BS_CU_CONV_PARAM].f;
    bs_cu_conv_end e = {c.bias, NULL, 1.0f, INFINITY, BS_ACT_NONE};
    switch (bs_cu_conv_p(c, BS_CU_CONV_ACT)) {
    case BS_ACT_NONE: break;
    case BS_RELU: e.slope = 0.0f; break;
    case BS_LEAKY_RELU: e.slope = param == 0.0f ? 0.01f : param; break;
    case BS_PRELU: e.slopes = c.bias + (c.groups * c.out_c + 15) / 16 * 16; break;
    case BS_CLIP:
        e.slope = 0.0f;
        e.high = param == 0.0f ? 1.0f : param;
        break;
    default: e.rare = bs_cu_conv_p(c, BS_CU_CONV_ACT); break;
    }
    return e;
}

/* RARE: e.rare says what; kernels have such code once, in a loop of its own, so that it takes no registers of
 * theirs. */
template <bool RARE> __device__ __forceinline__ float bs_cu_conv_finish(const bs_cu_conv_end &e, float slope, float x)
{
    if (RARE)
        return bs_cu_act(e.rare, 0.0f, 0.0f, x);
    return x > 0.0f ? fminf(x, e.high) : slope == 0.0f ? 0.0f : x * slope;
}

/* The job of a row. */
__device__ __forceinline__ bs_cu_conv bs_cu_conv_of(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                                    const bs_cu_view &y)
{
    const int32_t stride = s->p[BS_CU_CONV_STRIDE].i, groups = s->p[BS_CU_CONV_GROUPS].i;
    bs_cu_conv c;
    c.kernel_h = s->p[BS_CU_CONV_KERNEL_H].i;
    c.kernel_w = s->p[BS_CU_CONV_KERNEL_W].i;
    c.in = x.data + ((int64_t)(y.y0 * stride - s->p[BS_CU_CONV_PAD_H].i) * x.stride[1] +
                     (int64_t)(y.x0 * stride - s->p[BS_CU_CONV_PAD_W].i) * x.stride[2]) * bs_cu_bytes(x.dtype);
    c.stride = stride;
    c.dilation = s->p[BS_CU_CONV_DILATION].i;
    c.groups = groups;
    c.in_dtype = (int16_t)x.dtype;
    c.in_row = x.stride[1];
    c.in_pixel = x.stride[2];
    c.out = y.data + ((int64_t)y.y0 * y.stride[1] + (int64_t)y.x0 * y.stride[2]) * bs_cu_bytes(y.dtype);
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

/* Puts the job where all threads see it. */
__device__ __forceinline__ const bs_cu_conv &bs_cu_conv_share(const bs_cu_tile &t, const bs_cu_conv &c)
{
    bs_cu_conv *shared = reinterpret_cast<bs_cu_conv *>(t.workspace);
    static_assert(sizeof *shared <= BS_CU_CONV_JOB, "the job has its room");
    BS_CU_ASSUME_SHARED(shared);
    __syncthreads(); /* the last one is done with */
    if (threadIdx.x == 0)
        *shared = c;
    __syncthreads();
    return *shared;
}

/* Whether a row has anything to compute; fails where the channels of an image do not lie one after the other. */
__device__ __forceinline__ bool bs_cu_conv_sound(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                                 const bs_cu_view &y)
{
    const bool last = (x.stride[0] == 1 || x.dim[0] == 1) && (y.stride[0] == 1 || y.dim[0] == 1);
    if (!last && threadIdx.x == 0)
        bs_cu_fail(t, s, BS_ERROR_UNSUPPORTED);
    return last && y.y1 > y.y0 && y.x1 > y.x0;
}

/* ------------------------------------------------------------------------------------------------ f32, direct */

/* Weights never change while a kernel runs. */
template <typename T> __device__ __forceinline__ T bs_cu_constant(const T *at)
{
#ifdef BS_CUDA_CPU
    return *at;
#else
    return __ldg(at);
#endif
}

__device__ __forceinline__ float4 bs_cu_quad(const uint8_t *at, int32_t dtype)
{
    if (dtype == BS_F32)
        return *reinterpret_cast<const float4 *>(at);
    const uint2 h = *reinterpret_cast<const uint2 *>(at);
    return make_float4(bs_cu_low_half(h.x), bs_cu_high_half(h.x), bs_cu_low_half(h.y), bs_cu_high_half(h.y));
}

/* Whether quads of channels can be moved at once. */
__device__ __forceinline__ bool bs_cu_quads(const uint8_t *at, int32_t dtype, int32_t row, int32_t pixel,
                                            int32_t channels)
{
    return ((row | pixel | channels) & 3) == 0 && (reinterpret_cast<uintptr_t>(at) & (dtype == BS_F32 ? 15u : 7u)) == 0;
}

/* h x w pixels of `channels` channels to shared memory, as f32. */
__device__ __forceinline__ void bs_cu_conv_stage(const bs_cu_conv &c, const uint8_t *from, int32_t h, int32_t w,
                                                 int32_t channels, float *to)
{
    const int32_t threads = (int32_t)blockDim.x, bytes = bs_cu_bytes(c.in_dtype),
                  apart = bs_cu_conv_p(c, BS_CU_CONV_PIXEL);
    const bool quads = bs_cu_quads(from, c.in_dtype, c.in_row, c.in_pixel, channels);
    const int32_t each = quads ? channels / 4 : channels, n = h * w * each;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += threads) {
        const int32_t at = i / each, k = i - at * each, y = at / w, x = at - y * w;
        const uint8_t *pixel = from + ((int64_t)y * c.in_row + x * c.in_pixel) * bytes;
        if (quads)
            *reinterpret_cast<float4 *>(to + at * apart + 4 * k) = bs_cu_quad(pixel + 4 * k * bytes, c.in_dtype);
        else
            to[at * apart + k] = bs_cu_get(pixel, c.in_dtype, k);
    }
}

template <int WIDTH> __device__ __forceinline__ void bs_cu_conv_load(const float *w, float (&to)[WIDTH])
{
#pragma unroll
    for (int q = 0; q < WIDTH; q += 4) {
        const float4 v = bs_cu_constant(reinterpret_cast<const float4 *>(w + q));
        to[q] = v.x;
        to[q + 1] = v.y;
        to[q + 2] = v.z;
        to[q + 3] = v.w;
    }
}

template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_add(float (&sum)[4][8], const float (&x)[4], const float *w)
{
    float each[WIDTH];
    bs_cu_conv_load<WIDTH>(w, each);
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int o = 0; o < WIDTH; o++)
            sum[p][o] = fmaf(x[p], each[o], sum[p][o]);
}

/* Adds `channels` channels of all taps to the sums of 4 pixels, whose windows begin at `window` + at[p]. row, column:
 * floats to the next tap. w: weights of the first channel; those of the next tap are `tap` floats farther. */
template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_sum(const bs_cu_conv &c, const float *window, int32_t row, int32_t column,
                                               const int32_t (&at)[4], const float *w, int32_t tap, int32_t channels,
                                               float (&sum)[4][8])
{
#pragma unroll 1
    for (int32_t ky = 0; ky < c.kernel_h; ky++)
#pragma unroll 1
        for (int32_t kx = 0; kx < c.kernel_w; kx++, w += tap) {
            const float *x = window + ky * row + kx * column, *v = w;
            int32_t i = 0;
#pragma unroll 1
            for (; i + 4 <= channels; i += 4, v += 4 * WIDTH) {
                float4 q[4];
#pragma unroll
                for (int p = 0; p < 4; p++)
                    q[p] = *reinterpret_cast<const float4 *>(x + at[p] + i);
                const float x0[4] = {q[0].x, q[1].x, q[2].x, q[3].x}, x1[4] = {q[0].y, q[1].y, q[2].y, q[3].y};
                const float x2[4] = {q[0].z, q[1].z, q[2].z, q[3].z}, x3[4] = {q[0].w, q[1].w, q[2].w, q[3].w};
                bs_cu_conv_add<WIDTH>(sum, x0, v);
                bs_cu_conv_add<WIDTH>(sum, x1, v + WIDTH);
                bs_cu_conv_add<WIDTH>(sum, x2, v + 2 * WIDTH);
                bs_cu_conv_add<WIDTH>(sum, x3, v + 3 * WIDTH);
            }
#pragma unroll 1
            for (; i < channels; i++, v += WIDTH) {
                const float one[4] = {x[at[0] + i], x[at[1] + i], x[at[2] + i], x[at[3] + i]};
                bs_cu_conv_add<WIDTH>(sum, one, v);
            }
        }
}

/* `count` channels of a pixel, at most WIDTH, from sums to their place. */
template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_store(const bs_cu_conv &c, const bs_cu_conv_end &e, const float (&sum)[8],
                                                 int32_t channel, int32_t count, uint8_t *to)
{
    float y[WIDTH];
#pragma unroll
    for (int o = 0; o < WIDTH; o++)
        y[o] = o < count ? bs_cu_conv_finish<false>(e, e.slopes ? e.slopes[channel + o] : e.slope,
                                                    sum[o] + e.bias[channel + o])
                         : 0.0f;
#pragma unroll
    for (int q = 0; q < WIDTH; q += 4) {
        uint8_t *at = to + q * bs_cu_bytes(c.out_dtype);
        if (count >= q + 4 && c.out_dtype == BS_F32 && (reinterpret_cast<uintptr_t>(at) & 15) == 0) {
            *reinterpret_cast<float4 *>(at) = make_float4(y[q], y[q + 1], y[q + 2], y[q + 3]);
        } else if (count >= q + 4 && c.out_dtype == BS_F16 && (reinterpret_cast<uintptr_t>(at) & 7) == 0) {
            *reinterpret_cast<uint2 *>(at) = make_uint2(bs_cu_pack_half2(y[q], y[q + 1]),
                                                        bs_cu_pack_half2(y[q + 2], y[q + 3]));
        } else {
#pragma unroll
            for (int o = 0; o < 4; o++)
                if (q + o < count)
                    bs_cu_put(at, c.out_dtype, o, y[q + o]);
        }
    }
}

/* The same with a rare activation: one after the other. The sums are used up. */
__device__ __forceinline__ void bs_cu_conv_store_rare(const bs_cu_conv &c, const bs_cu_conv_end &e, float (&sum)[8],
                                                      int32_t channel, int32_t count, uint8_t *to)
{
#pragma unroll 1
    for (int32_t k = 0; k < count; k++) {
        bs_cu_put(to, c.out_dtype, k, bs_cu_conv_finish<true>(e, 0.0f, sum[0] + e.bias[channel + k]));
#pragma unroll
        for (int o = 0; o + 1 < 8; o++)
            sum[o] = sum[o + 1];
    }
}

/* A tile of pixels, x as many blocks of 8 outputs of a group as there are threads for. */
struct bs_cu_conv_piece {
    int32_t y, x, h, w; /* outputs */
    int32_t group, pass;
};

__device__ __forceinline__ bs_cu_conv_piece bs_cu_conv_piece_of(const bs_cu_conv &c, int32_t piece, int32_t passes)
{
    const int32_t tile_h = bs_cu_conv_p(c, BS_CU_CONV_TILE_H), tile_w = bs_cu_conv_p(c, BS_CU_CONV_TILE_W),
                  across = (c.w + tile_w - 1) / tile_w;
    bs_cu_conv_piece p;
    p.pass = piece % passes;
    piece /= passes;
    p.group = piece % c.groups;
    piece /= c.groups;
    p.y = piece / across * tile_h;
    p.x = piece % across * tile_w;
    p.h = min(tile_h, c.h - p.y);
    p.w = min(tile_w, c.w - p.x);
    return p;
}

/* From the sums of a thread's 4 pixels to their places: pixels `lane`, lane + each ... of the tile, 8 outputs from
 * `first`. */
__device__ __forceinline__ void bs_cu_conv_finish_tile(const bs_cu_conv &c, const bs_cu_conv_piece &p, int32_t first,
                                                       int32_t lane, int32_t each, float (&sum)[4][8])
{
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
    const int32_t channel = p.group * c.out_c + first, count = min(8, c.out_c - first),
                  bytes = bs_cu_bytes(c.out_dtype);
    uint8_t *to = c.out + ((int64_t)p.y * c.out_row + (int64_t)p.x * c.out_pixel + channel) * bytes;
    if (e.rare != BS_ACT_NONE) {
#pragma unroll 1
        for (int32_t i = lane; i < p.h * p.w; i += each) {
            const int32_t y = i / p.w;
            bs_cu_conv_store_rare(c, e, sum[0], channel, count,
                                  to + ((int64_t)y * c.out_row + (int64_t)(i - y * p.w) * c.out_pixel) * bytes);
#pragma unroll
            for (int o = 0; o < 8; o++) {
                sum[0][o] = sum[1][o];
                sum[1][o] = sum[2][o];
                sum[2][o] = sum[3][o];
            }
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int32_t i = lane + k * each, y = i / p.w;
        if (i < p.h * p.w)
            bs_cu_conv_store<8>(c, e, sum[k], channel, count,
                                to + ((int64_t)y * c.out_row + (int64_t)(i - y * p.w) * c.out_pixel) * bytes);
    }
}

__device__ __forceinline__ int32_t bs_cu_conv_tiles_of(const bs_cu_conv &c)
{
    const int32_t tile_h = bs_cu_conv_p(c, BS_CU_CONV_TILE_H), tile_w = bs_cu_conv_p(c, BS_CU_CONV_TILE_W);
    return (c.w + tile_w - 1) / tile_w * ((c.h + tile_h - 1) / tile_h) * c.groups;
}

__device__ __forceinline__ const uint8_t *bs_cu_conv_source(const bs_cu_conv &c, const bs_cu_conv_piece &p)
{
    const int64_t at = (int64_t)(p.y * c.stride) * c.in_row + (int64_t)(p.x * c.stride) * c.in_pixel;
    return c.in + (at + (int64_t)p.group * c.in_c) * bs_cu_bytes(c.in_dtype);
}

/* Does every parts-th piece from `part` on, of all pieces; returns how many there are. In the order: tile, group,
 * pass. */
__device__ __forceinline__ int32_t bs_cu_conv_direct(const bs_cu_tile &t, const bs_cu_conv &c, int32_t part,
                                                     int32_t parts)
{
    float *window = reinterpret_cast<float *>(t.workspace + BS_CU_CONV_JOB);
    BS_CU_ASSUME_SHARED(window);
    const int32_t taps = c.kernel_h * c.kernel_w, padded = (c.out_c + 3) / 4 * 4, blocks = (c.out_c + 7) / 8;
    const int32_t quads = bs_cu_conv_quads(c.step);
    const int32_t side = (int32_t)threadIdx.x / quads, lane = (int32_t)threadIdx.x % quads;
    const int32_t sides = (int32_t)blockDim.x / quads, passes = (blocks + sides - 1) / sides,
                  pieces = bs_cu_conv_tiles_of(c) * passes;
    const int32_t chunk = bs_cu_conv_p(c, BS_CU_CONV_CHUNK), apart = bs_cu_conv_p(c, BS_CU_CONV_PIXEL);
    int32_t staged = -1;
    for (int32_t piece = part; piece < pieces; piece += parts) {
        const bs_cu_conv_piece p = bs_cu_conv_piece_of(c, piece, passes);
        const int32_t width = (p.w - 1) * c.stride + (c.kernel_w - 1) * c.dilation + 1, n = p.h * p.w;
        const int32_t height = (p.h - 1) * c.stride + (c.kernel_h - 1) * c.dilation + 1;
        const int32_t block = p.pass * sides + side, first = block * 8, each = (n + 3) / 4;
        const bool active = side < sides && block < blocks && lane < each;
        const int32_t wide = c.out_c - first > 4 ? 8 : 4;
        const float *w = reinterpret_cast<const float *>(c.weights) +
                         ((int64_t)p.group * padded + first) * taps * c.in_c;
        float sum[4][8] = {};
        int32_t at[4];
#pragma unroll
        for (int k = 0; k < 4; k++) { /* neighbours of a thread are neighbours of its pixels */
            const int32_t i = min(lane + k * each, n - 1), y = i / p.w;
            at[k] = (y * c.stride * width + (i - y * p.w) * c.stride) * apart;
        }
        for (int32_t i = 0; i < c.in_c && taps > 0; i += chunk) {
            const int32_t channels = min(chunk, c.in_c - i);
            if (channels < c.in_c || staged != piece / passes) {
                __syncthreads();
                bs_cu_conv_stage(c, bs_cu_conv_source(c, p) + i * bs_cu_bytes(c.in_dtype), height, width, channels,
                                 window);
                __syncthreads();
                staged = piece / passes;
            }
            const int32_t column = c.dilation * apart, row = width * column;
            if (active && wide == 8)
                bs_cu_conv_sum<8>(c, window, row, column, at, w + i * 8, c.in_c * 8, channels, sum);
            else if (active)
                bs_cu_conv_sum<4>(c, window, row, column, at, w + i * 4, c.in_c * 4, channels, sum);
        }
        if (active)
            bs_cu_conv_finish_tile(c, p, first, lane, each, sum);
    }
    return pieces;
}

__device__ inline void bs_cu_conv2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view x = bs_cu_open(t, bs_cu_in(t, s, 0), r), y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        if (w.part == 0)
            bs_cu_zero_margin(y);
        if (bs_cu_conv_sound(t, s, x, y))
            bs_cu_conv_direct(t, bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y)), w.part, w.parts);
    }
}

/* -------------------------------------------------------------------------------------------------- depthwise */

/* Four channels of a pixel a thread, neighbours in channels: weights are [quads of channels][taps][4]. */
__device__ inline void bs_cu_conv2d_depthwise_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view x = bs_cu_open(t, bs_cu_in(t, s, 0), r), y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        if (w.part == 0)
            bs_cu_zero_margin(y);
        if (!bs_cu_conv_sound(t, s, x, y))
            continue;
        const bs_cu_conv &c = bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y));
        const int32_t taps = c.kernel_h * c.kernel_w, vectors = (c.groups + 3) / 4, threads = (int32_t)blockDim.x;
        const int32_t bytes = bs_cu_bytes(c.in_dtype);
        const bool quads = bs_cu_quads(c.in, c.in_dtype, c.in_row, c.in_pixel, 0);
        for (int64_t i = (int64_t)w.part * threads + threadIdx.x; i < (int64_t)c.h * c.w * vectors;
             i += (int64_t)w.parts * threads) {
            const int32_t pixel = (int32_t)(i / vectors), channel = (int32_t)(i - (int64_t)pixel * vectors) * 4,
                          count = min(4, c.groups - channel);
            const int32_t oy = pixel / c.w, ox = pixel - oy * c.w;
            const float4 *weight = reinterpret_cast<const float4 *>(c.weights) + (int64_t)(channel / 4) * taps;
            const uint8_t *window = c.in + ((int64_t)oy * c.stride * c.in_row + (int64_t)ox * c.stride * c.in_pixel +
                                            channel) *
                                               bytes;
            float sum[8] = {};
            for (int32_t ky = 0; ky < c.kernel_h; ky++)
                for (int32_t kx = 0; kx < c.kernel_w; kx++, weight++) {
                    const uint8_t *at = window +
                                        ((int64_t)ky * c.in_row + (int64_t)kx * c.in_pixel) * c.dilation * bytes;
                    const float4 v = bs_cu_constant(weight);
                    float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (quads && count == 4) {
                        q = bs_cu_quad(at, c.in_dtype);
                    } else {
                        q.x = bs_cu_get(at, c.in_dtype, 0);
                        q.y = count > 1 ? bs_cu_get(at, c.in_dtype, 1) : 0.0f;
                        q.z = count > 2 ? bs_cu_get(at, c.in_dtype, 2) : 0.0f;
                        q.w = count > 3 ? bs_cu_get(at, c.in_dtype, 3) : 0.0f;
                    }
                    sum[0] = fmaf(q.x, v.x, sum[0]);
                    sum[1] = fmaf(q.y, v.y, sum[1]);
                    sum[2] = fmaf(q.z, v.z, sum[2]);
                    sum[3] = fmaf(q.w, v.w, sum[3]);
                }
            uint8_t *to = c.out +
                          ((int64_t)oy * c.out_row + (int64_t)ox * c.out_pixel + channel) * bs_cu_bytes(c.out_dtype);
            const bs_cu_conv_end end = bs_cu_conv_end_of(c);
            if (end.rare != BS_ACT_NONE)
                bs_cu_conv_store_rare(c, end, sum, channel, count, to);
            else
                bs_cu_conv_store<4>(c, end, sum, channel, count, to);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ tensor cores */

/* A window as the products find it: byte offsets of its quads of 4 products are table[quad] from a pixel's first. */
struct bs_cu_conv_window {
    const uint8_t *data;  /* f16: the first window of the tile */
    int32_t row, pixel;   /* bytes between neighbouring outputs, down and across */
    const int32_t *table;
    int32_t steps;
    int32_t spread; /* log2: pixels of 4 neighbouring rows of a matrix are so far apart; see bs_cu_conv_spread */
};

/* Lanes 4 g .. 4 g + 3 read 8 words of pixel g at once, 16 lanes at a time. Pixels `words` apart of the four g do not
 * meet in a bank when words is an odd multiple of 8: so take every 2nd or 4th pixel where it is one of 4 or 2. */
__device__ __forceinline__ int32_t bs_cu_conv_spread(int32_t bytes)
{
    const int32_t words = bytes / 4;
    return words % 4 == 2 ? 2 : words % 8 == 4 ? 1 : 0;
}

/* Two neighbouring outputs of a thread. */
struct bs_cu_conv_pair {
    int32_t channel, valid; /* the first; how many there are: 2, 1 or less */
    float bias[2], slope[2];
};

__device__ __forceinline__ bs_cu_conv_pair bs_cu_conv_pair_of(const bs_cu_conv &c, const bs_cu_conv_end &e,
                                                              const bs_cu_conv_piece &p, int32_t o)
{
    bs_cu_conv_pair pair = {p.group * c.out_c + o, c.out_c - o, {0.0f, 0.0f}, {e.slope, e.slope}};
    for (int32_t i = 0; i < 2; i++)
        if (i < pair.valid) {
            pair.bias[i] = e.bias[pair.channel + i];
            pair.slope[i] = e.slopes ? e.slopes[pair.channel + i] : e.slope;
        }
    return pair;
}

/* To the pixel that `at` says: row << 16 | column of the tile; -1: nowhere. */
template <bool RARE>
__device__ __forceinline__ void bs_cu_conv_put_pair(const bs_cu_conv &c, const bs_cu_conv_end &e,
                                                    const bs_cu_conv_piece &p, const bs_cu_conv_pair &pair, int32_t at,
                                                    float d0, float d1)
{
    if (at < 0 || pair.valid <= 0)
        return;
    const int64_t row = (int64_t)(p.y + (at >> 16)) * c.out_row, column = (int64_t)(p.x + (at & 0xffff)) * c.out_pixel;
    const float y0 = bs_cu_conv_finish<RARE>(e, pair.slope[0], d0 + pair.bias[0]),
                y1 = bs_cu_conv_finish<RARE>(e, pair.slope[1], d1 + pair.bias[1]);
    uint8_t *y = c.out + (row + column + pair.channel) * bs_cu_bytes(c.out_dtype);
    if (pair.valid > 1 && c.out_dtype == BS_F16 && (reinterpret_cast<uintptr_t>(y) & 3) == 0) {
        *reinterpret_cast<uint32_t *>(y) = bs_cu_pack_half2(y0, y1);
    } else {
        bs_cu_put(y, c.out_dtype, 0, y0);
        if (pair.valid > 1)
            bs_cu_put(y, c.out_dtype, 1, y1);
    }
}

/* 16 MT pixels from `base`, NT blocks of 8 outputs from `first`, of the n pixels of a tile. NEAR: windows are in shared
 * memory. */
template <int MT, int NT, bool NEAR>
__device__ __forceinline__ void bs_cu_conv_product(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                   const bs_cu_conv_piece &p, int32_t base, int32_t first)
{
    const int32_t lane = (int32_t)threadIdx.x & 31, g = lane >> 2, quad = lane & 3, n = p.h * p.w,
                  blocks = (c.out_c + 7) / 8;
    const uint2 *w = reinterpret_cast<const uint2 *>(c.weights) + ((int64_t)p.group * blocks + first) * v.steps * 32 +
                     lane;
    const int32_t apart = v.steps * 32, last = min(NT, blocks - first) - 1; /* blocks beyond the last are it again */
    const uint8_t *data = v.data;
    if (NEAR)
        BS_CU_ASSUME_SHARED(data);
    int32_t x[2 * MT], at[2 * MT];
    float d[NT * MT * 4]; /* of blocks, of 16 pixels, the pairs of rows g and g + 8 */
#pragma unroll
    for (int m = 0; m < 2 * MT; m++) {
        const int32_t u = m * 2 + (g >> 2);
        const int32_t i = base + ((u >> v.spread) << (v.spread + 2)) + (u & ((1 << v.spread) - 1)) +
                          ((g & 3) << v.spread);
        const int32_t row = min(i, n - 1) / p.w, column = min(i, n - 1) - row * p.w;
        x[m] = row * v.row + column * v.pixel;
        at[m] = i < n ? row << 16 | column : -1;
    }
#pragma unroll
    for (int k = 0; k < NT * MT * 4; k++)
        d[k] = 0.0f;
#pragma unroll 1
    for (int32_t step = 0; step < v.steps; step++, w += 32) {
        const uint8_t *from = data + v.table[4 * step + quad];
        uint2 b[NT];
#pragma unroll
        for (int k = 0; k < NT; k++)
            b[k] = bs_cu_constant(w + min(k, last) * apart);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const uint2 low = *reinterpret_cast<const uint2 *>(from + x[2 * m]),
                        high = *reinterpret_cast<const uint2 *>(from + x[2 * m + 1]);
            const uint32_t a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
            for (int k = 0; k < NT; k++) {
                const uint32_t bk[2] = {b[k].x, b[k].y};
                bs_cu_mma(d + (k * MT + m) * 4, a, bk);
            }
        }
    }
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
#pragma unroll 1 /* here and below: what comes next is moved to the front, so that the code is there once */
    for (int32_t k = 0; k < NT; k++) {
        const bs_cu_conv_pair pair = bs_cu_conv_pair_of(c, e, p, (first + k) * 8 + 2 * quad);
        if (e.rare == BS_ACT_NONE) {
#pragma unroll
            for (int m = 0; m < 2 * MT; m++)
                bs_cu_conv_put_pair<false>(c, e, p, pair, at[m], d[2 * m], d[2 * m + 1]);
        }
#pragma unroll 1
        for (int32_t m = 0; e.rare != BS_ACT_NONE && m < 2 * MT; m++) {
            const int32_t here = at[0];
            const float d0 = d[0], d1 = d[1];
            bs_cu_conv_put_pair<true>(c, e, p, pair, here, d0, d1);
#pragma unroll
            for (int i = 0; i < 2 * MT; i++) {
                at[i] = i + 1 < 2 * MT ? at[i + 1] : here;
                d[2 * i] = i + 1 < 2 * MT ? d[2 * i + 2] : d0;
                d[2 * i + 1] = i + 1 < 2 * MT ? d[2 * i + 3] : d1;
            }
        }
#pragma unroll
        for (int i = 0; i + 4 * MT < NT * MT * 4; i++)
            d[i] = d[i + 4 * MT];
    }
}

/* All products of a tile, dealt out to the warps; `together`: blocks of outputs of each. */
template <int MT, bool NEAR>
__device__ __forceinline__ void bs_cu_conv_products(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                    const bs_cu_conv_piece &p, int32_t together)
{
    const int32_t down = (p.h * p.w + 16 * MT - 1) / (16 * MT), blocks = (c.out_c + 7) / 8,
                  across = (blocks + together - 1) / together;
    for (int32_t item = (int32_t)threadIdx.x / 32; item < down * across; item += (int32_t)blockDim.x / 32) {
        const int32_t base = item % down * 16 * MT, first = item / down * together;
        if (together == 1)
            bs_cu_conv_product<MT, 1, NEAR>(c, v, p, base, first);
        else if (together == 2 || !NEAR)
            bs_cu_conv_product<MT, 2, NEAR>(c, v, p, base, first);
        else if (together == 3)
            bs_cu_conv_product<MT, NEAR ? 3 : 2, NEAR>(c, v, p, base, first);
        else
            bs_cu_conv_product<MT, MT == 4 ? 3 : NEAR ? 4 : 2, NEAR>(c, v, p, base, first);
    }
}

/* h x w pixels of a group to shared memory, as f16. */
__device__ __forceinline__ void bs_cu_conv_stage_half(const bs_cu_conv &c, const uint8_t *from, bool far, int32_t h,
                                                      int32_t w, __half *to)
{
    const int32_t threads = (int32_t)blockDim.x, bytes = bs_cu_bytes(c.in_dtype),
                  apart = bs_cu_conv_p(c, BS_CU_CONV_PIXEL);
    const bool quads = bs_cu_quads(from, c.in_dtype, c.in_row, c.in_pixel, c.in_c);
    const bool async = far && quads && c.in_dtype == BS_F16 && ((c.in_row | c.in_pixel | c.in_c) & 7) == 0 &&
                       (reinterpret_cast<uintptr_t>(from) & 15) == 0;
    const int32_t each = async ? c.in_c / 8 : quads ? c.in_c / 4 : c.in_c, n = h * w * each;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += threads) {
        const int32_t at = i / each, k = i - at * each, y = at / w, x = at - y * w;
        const uint8_t *pixel = from + ((int64_t)y * c.in_row + x * c.in_pixel) * bytes;
        __half *target = to + at * apart;
        if (async) {
            bs_cu_cp_async_16(target + 8 * k, pixel + 16 * k);
        } else if (quads && c.in_dtype == BS_F16) {
            *reinterpret_cast<uint2 *>(target + 4 * k) = *reinterpret_cast<const uint2 *>(pixel + 8 * k);
        } else if (quads) {
            const float4 q = bs_cu_quad(pixel + 16 * k, c.in_dtype);
            *reinterpret_cast<uint2 *>(target + 4 * k) = make_uint2(bs_cu_pack_half2(q.x, q.y),
                                                                    bs_cu_pack_half2(q.z, q.w));
        } else {
            target[k] = __float2half_rn(bs_cu_get(pixel, c.in_dtype, k));
        }
    }
    bs_cu_cp_async_commit();
    bs_cu_cp_async_wait<0>();
}

/* Where the quads of products are in a window: bytes from its first sample. Beyond the last product weights are zero,
 * and what is read is there. */
__device__ __forceinline__ void bs_cu_conv_table(const bs_cu_conv &c, int32_t row, int32_t pixel, int32_t quads,
                                                 int32_t *table)
{
    const int32_t products = c.kernel_h * c.kernel_w * c.in_c;
    for (int32_t q = (int32_t)threadIdx.x; q < quads; q += (int32_t)blockDim.x) {
        const int32_t k = 4 * q, tap = k / c.in_c, ky = tap / c.kernel_w, kx = tap - ky * c.kernel_w;
        table[q] = k < products ? 2 * (ky * c.dilation * row + kx * c.dilation * pixel + k - tap * c.in_c) : 0;
    }
}

/* Outputs that a warp does together: all, where windows are read but once; fewer where warps would be idle. */
__device__ __forceinline__ int32_t bs_cu_conv_together(const bs_cu_conv &c, const bs_cu_conv_piece &p)
{
    const int32_t blocks = (c.out_c + 7) / 8, warps = (int32_t)blockDim.x / 32, groups = (p.h * p.w + 31) / 32;
    const int32_t least = max((blocks + 3) / 4, min(blocks, warps / groups));
    return (blocks + least - 1) / least;
}

/* Pixels of a warp: 64 at once use weights better, 32 leave fewer warps idle at the end. Where a tile has a
 * multiprocessor to itself the registers for 64 are there. */
template <bool TILE>
__device__ __forceinline__ void bs_cu_conv_deal(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                const bs_cu_conv_piece &p, bool near)
{
    const int32_t n = p.h * p.w, warps = (int32_t)blockDim.x / 32, together = bs_cu_conv_together(c, p);
    if (TILE) {
        const int32_t across = ((c.out_c + 7) / 8 + together - 1) / together;
        const int32_t fours = ((n + 63) / 64 * across + warps - 1) / warps,
                      twos = ((n + 31) / 32 * across + warps - 1) / warps;
        if (together < 4 && fours * 12 <= twos * 7)
            bs_cu_conv_products<4, true>(c, v, p, together);
        else
            bs_cu_conv_products<2, true>(c, v, p, together);
    } else if (near) {
        bs_cu_conv_products<2, true>(c, v, p, together);
    } else {
        bs_cu_conv_products<2, false>(c, v, p, min(together, 2));
    }
}

/* TILE: the operand is a row of a tile, in shared memory already. */
template <bool TILE>
__device__ __forceinline__ void bs_cu_conv_tensor(const bs_cu_tile &t, const bs_cu_conv &c, int32_t part, int32_t parts)
{
    const int32_t pieces = bs_cu_conv_tiles_of(c), apart = TILE ? 0 : bs_cu_conv_p(c, BS_CU_CONV_PIXEL);
    int32_t *table = reinterpret_cast<int32_t *>(t.workspace + BS_CU_CONV_JOB);
    BS_CU_ASSUME_SHARED(table);
    bs_cu_conv_window v;
    v.steps = (c.kernel_h * c.kernel_w * c.in_c + 15) / 16;
    v.table = table;
    __half *room = reinterpret_cast<__half *>(table + 4 * v.steps);
    int32_t columns = 0; /* of the window that the table is for */
    for (int32_t piece = part; piece < pieces; piece += parts) {
        const bs_cu_conv_piece p = bs_cu_conv_piece_of(c, piece, 1);
        const int32_t width = (p.w - 1) * c.stride + (c.kernel_w - 1) * c.dilation + 1;
        const int32_t height = (p.h - 1) * c.stride + (c.kernel_h - 1) * c.dilation + 1;
        const int32_t row = apart > 0 ? width * apart : c.in_row, pixel = apart > 0 ? apart : c.in_pixel;
        const uint8_t *from = bs_cu_conv_source(c, p);
        __syncthreads(); /* the last piece is done with the workspace */
        if (columns != width)
            bs_cu_conv_table(c, row, pixel, 4 * v.steps, table);
        if (apart > 0)
            bs_cu_conv_stage_half(c, from, t.scratch == NULL, height, width, room);
        __syncthreads();
        columns = width;
        v.data = apart > 0 ? reinterpret_cast<const uint8_t *>(room) : from;
        v.row = 2 * row * c.stride;
        v.pixel = 2 * pixel * c.stride;
        v.spread = bs_cu_conv_spread(v.pixel);
        bs_cu_conv_deal<TILE>(c, v, p, apart > 0);
    }
}

template <bool TILE>
__device__ __forceinline__ void bs_cu_conv_tensor_rows(const bs_cu_tile &t, const bs_device_step *s,
                                                       const bs_cu_work &w)
{
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view x = bs_cu_open(t, bs_cu_in(t, s, 0), r), y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        if (w.part == 0)
            bs_cu_zero_margin(y);
        if (bs_cu_conv_sound(t, s, x, y))
            bs_cu_conv_tensor<TILE>(t, bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y)), w.part, w.parts);
    }
}

__device__ inline void bs_cu_conv2d_tensor_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_conv_tensor_rows<false>(t, s, w);
}

/* Only in a region: a launch of its own would be nothing but code. */
__device__ inline void bs_cu_conv2d_tile_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    if (t.scratch != NULL)
        bs_cu_conv_tensor_rows<true>(t, s, w);
}

/* ------------------------------------------------------------------------------------------------ plain loops */

/* Bias and activation, any. */
__device__ inline float bs_cu_conv_any(const bs_cu_conv &c, int32_t o, float sum)
{
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
    return bs_cu_act(bs_cu_conv_p(c, BS_CU_CONV_ACT), c.step->p[BS_CU_CONV_PARAM].f, e.slopes ? e.slopes[o] : 0.0f,
                     sum + e.bias[o]);
}

/* Weight of product k (ky, kx, channel) of output o of a group. */
__device__ inline float bs_cu_conv_weight(const bs_cu_conv &c, int32_t layout, int32_t group, int32_t o, int32_t tap,
                                          int32_t channel)
{
    const int32_t taps = c.kernel_h * c.kernel_w;
    if (layout == 0)
        return reinterpret_cast<const float *>(
            c.weights)[((int64_t)(group * c.out_c + o) * c.in_c + channel) * taps + tap];
    if (layout == 1) {
        const int32_t steps = (taps * c.in_c + 15) / 16, blocks = (c.out_c + 7) / 8, k = tap * c.in_c + channel;
        const int64_t at = (((int64_t)(group * blocks + o / 8) * steps + k / 16) * 8 + o % 8) * 16 + k % 16;
        return __half2float(reinterpret_cast<const __half *>(c.weights)[at]);
    }
    const int32_t first = o / 8 * 8, wide = c.out_c - first > 4 ? 8 : 4, padded = (c.out_c + 3) / 4 * 4;
    const float *block = reinterpret_cast<const float *>(c.weights) + ((int64_t)group * padded + first) * taps * c.in_c;
    return block[((int64_t)tap * c.in_c + channel) * wide + o - first];
}

__device__ inline void bs_cu_conv2d_plain_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view x = bs_cu_open(t, bs_cu_in(t, s, 0), r), y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        const bs_cu_conv &c = bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y));
        const int32_t channels = y.dim[0], threads = (int32_t)blockDim.x, layout = s->p[BS_CU_CONV_LAYOUT].i;
        const int64_t n = y.y1 > y.y0 && y.x1 > y.x0 ? (int64_t)c.h * c.w * channels : 0;
        if (w.part == 0)
            bs_cu_zero_margin(y);
        for (int64_t i = (int64_t)w.part * threads + threadIdx.x; i < n; i += (int64_t)w.parts * threads) {
            const int32_t pixel = (int32_t)(i / channels), o = (int32_t)(i - (int64_t)pixel * channels),
                          group = o / c.out_c;
            const int32_t oy = pixel / c.w, ox = pixel - oy * c.w;
            const int64_t window = (int64_t)oy * c.stride * c.in_row + (int64_t)ox * c.stride * c.in_pixel +
                                   (int64_t)group * c.in_c * x.stride[0];
            float sum = 0.0f;
            for (int32_t tap = 0; tap < c.kernel_h * c.kernel_w; tap++) {
                const int32_t ky = tap / c.kernel_w, kx = tap - ky * c.kernel_w;
                const int64_t at = window + ((int64_t)ky * c.in_row + (int64_t)kx * c.in_pixel) * c.dilation;
                for (int32_t k = 0; k < c.in_c; k++)
                    sum = fmaf(bs_cu_get(c.in, c.in_dtype, at + (int64_t)k * x.stride[0]),
                               bs_cu_conv_weight(c, layout, group, o - group * c.out_c, tap, k), sum);
            }
            bs_cu_put(c.out, c.out_dtype,
                      (int64_t)oy * c.out_row + (int64_t)ox * c.out_pixel + (int64_t)o * y.stride[0],
                      bs_cu_conv_any(c, o, sum));
        }
    }
}

/* ----------------------------------------------------------------------------------------------------- deconv2d */

/* Taps of phase a along an axis (deconv2d.c): 0 where the kernel is smaller than the stride. */
__host__ __device__ static inline int32_t bs_cu_deconv_taps(int32_t kernel, int32_t stride, int32_t a)
{
    return a < kernel ? (kernel - a + stride - 1) / stride : 0;
}

/* Floats of the packed phases before number `phase`. */
__host__ __device__ static inline int64_t bs_cu_deconv_packed(int32_t kernel, int32_t stride, int32_t in_c,
                                                              int32_t out_c, int32_t phase)
{
    int64_t floats = 0;
    for (int32_t k = 0; k < phase; k++) {
        const int32_t taps = bs_cu_deconv_taps(kernel, stride, k / stride) *
                             bs_cu_deconv_taps(kernel, stride, k % stride);
        floats += ((int64_t)taps * in_c * ((out_c + 3) / 4 * 4) + 15) / 16 * 16;
    }
    return floats;
}

/* p as for conv2d: the kernel's size and the padding are the descriptor's, the rest is what a phase has. */
static void bs_cu_deconv2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_deconv2d_desc *d = static_cast<const bs_deconv2d_desc *>(n->params);
    const int32_t kernel = bs_cu_or(d->kernel, 3), stride = bs_cu_or(d->stride, 1), in_c = n->in[0].dim[0];
    const bool reference = n->np->algorithm != BS_CONV_DIRECT;
    const int64_t bytes = 4 * (reference ? (int64_t)in_c * d->out * kernel * kernel
                                         : bs_cu_deconv_packed(kernel, stride, in_c, d->out, stride * stride));
    int64_t h, w;
    memset(s->p, 0, sizeof s->p);
    s->kernel = BS_CU_deconv2d;
    bs_cu_conv_extent(&n->out[0], &h, &w);
    /* of the largest phase */
    s->p[BS_CU_CONV_KERNEL_H].i = s->p[BS_CU_CONV_KERNEL_W].i = bs_cu_deconv_taps(kernel, stride, 0);
    s->p[BS_CU_CONV_STRIDE].i = s->p[BS_CU_CONV_DILATION].i = s->p[BS_CU_CONV_GROUPS].i = 1;
    if (reference || !bs_cu_conv_describe_direct(s, in_c, d->out, bs_ceil_div(h, stride), bs_ceil_div(w, stride)))
        s->parts = bs_cu_pieces(h * w * d->out, 4 * BS_CU_THREADS);
    else
        s->parts = bs_cu_pieces((int64_t)s->parts * stride * stride, 1);
    s->p[BS_CU_CONV_KERNEL_H].i = s->p[BS_CU_CONV_KERNEL_W].i = kernel;
    s->p[BS_CU_CONV_UP].i = stride;
    s->p[BS_CU_CONV_PAD_H].i = s->p[BS_CU_CONV_PAD_W].i = d->pad;
    s->p[BS_CU_CONV_ACT].i = d->act;
    s->p[BS_CU_CONV_PARAM].f = d->act_param;
    s->p[BS_CU_CONV_BIAS].i = (int32_t)bs_bytes_figure(bs_bytes_align(bs_bytes_array(bytes, 1)));
    s->p[BS_CU_CONV_LAYOUT].i = !reference;
}

/* (y + pad) mod stride, of any sign. */
__device__ __forceinline__ int32_t bs_cu_deconv_phase(int32_t y, int32_t pad, int32_t stride)
{
    const int32_t rest = (y + pad) % stride;
    return rest < 0 ? rest + stride : rest;
}

__device__ inline void bs_cu_deconv_plain(const bs_cu_view &x, const bs_cu_view &y, const bs_cu_conv &c, int32_t pad,
                                          const bs_cu_work &w)
{
    const int32_t channels = y.dim[0], threads = (int32_t)blockDim.x, up = bs_cu_conv_p(c, BS_CU_CONV_UP);
    const int64_t n = c.h > 0 && c.w > 0 ? (int64_t)c.h * c.w * channels : 0;
    for (int64_t i = (int64_t)w.part * threads + threadIdx.x; i < n; i += (int64_t)w.parts * threads) {
        const int32_t pixel = (int32_t)(i / channels), o = (int32_t)(i - (int64_t)pixel * channels);
        const int32_t oy = y.y0 + pixel / c.w, ox = y.x0 + pixel % c.w;
        float sum = 0.0f;
        for (int32_t ky = bs_cu_deconv_phase(oy, pad, up); ky < c.kernel_h; ky += up)
            for (int32_t kx = bs_cu_deconv_phase(ox, pad, up); kx < c.kernel_w; kx += up) {
                const int64_t at = (int64_t)((oy + pad - ky) / up) * x.stride[1] +
                                   (int64_t)((ox + pad - kx) / up) * x.stride[2];
                for (int32_t k = 0; k < x.dim[0]; k++)
                    sum = fmaf(bs_cu_get(x.data, x.dtype, at + (int64_t)k * x.stride[0]),
                               reinterpret_cast<const float *>(
                                   c.weights)[(((int64_t)k * channels + o) * c.kernel_h + ky) * c.kernel_w + kx],
                               sum);
            }
        bs_cu_put(y.data, y.dtype, (int64_t)oy * y.stride[1] + (int64_t)ox * y.stride[2] + (int64_t)o * y.stride[0],
                  bs_cu_conv_any(c, o, sum));
    }
}

/* The convolution that phase (a, b) is: its first output, every stride-th from there, and the taps in reverse. */
__device__ __forceinline__ bs_cu_conv bs_cu_deconv_job(const bs_cu_conv &whole, const bs_cu_view &x,
                                                       const bs_cu_view &y, int32_t pad, int32_t phase)
{
    const int32_t up = bs_cu_conv_p(whole, BS_CU_CONV_UP);
    bs_cu_conv c = whole;
    const int32_t a = phase / up, b = phase % up;
    const int32_t down = a - bs_cu_deconv_phase(y.y0, pad, up), right = b - bs_cu_deconv_phase(y.x0, pad, up);
    const int32_t oy = y.y0 + (down < 0 ? down + up : down), ox = y.x0 + (right < 0 ? right + up : right);
    c.kernel_h = bs_cu_deconv_taps(whole.kernel_h, up, a);
    c.kernel_w = bs_cu_deconv_taps(whole.kernel_w, up, b);
    c.in = x.data + ((int64_t)((oy + pad - a) / up - (c.kernel_h - 1)) * x.stride[1] +
                     (int64_t)((ox + pad - b) / up - (c.kernel_w - 1)) * x.stride[2]) * bs_cu_bytes(x.dtype);
    c.out = y.data + ((int64_t)oy * y.stride[1] + (int64_t)ox * y.stride[2]) * bs_cu_bytes(y.dtype);
    c.out_row = y.stride[1] * up;
    c.out_pixel = y.stride[2] * up;
    c.h = max(0, (y.y1 - oy + up - 1) / up);
    c.w = max(0, (y.x1 - ox + up - 1) / up);
    c.weights = whole.weights + 4 * bs_cu_deconv_packed(whole.kernel_h, up, whole.in_c, whole.out_c, phase);
    return c;
}

/* A call of its own: where phases are told apart there are no registers for the rest. */
static __device__ __noinline__ int32_t bs_cu_deconv_phase_run(const bs_cu_tile &t, const bs_cu_conv &c, int32_t part,
                                                              int32_t parts)
{
    return bs_cu_conv_direct(t, c, part, parts);
}

__device__ inline void bs_cu_deconv2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t up = s->p[BS_CU_CONV_UP].i;
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        int32_t part = w.part; /* pieces of all phases are dealt out in one row */
        /* looked up again each time: registers are dearer */
        for (int32_t phase = 0; phase < (s->p[BS_CU_CONV_LAYOUT].i == 0 ? 1 : up * up); phase++) {
            const bs_cu_view x = bs_cu_open(t, bs_cu_in(t, s, 0), r), y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
            const int32_t pad = s->p[BS_CU_CONV_PAD_H].i;
            if (w.part == 0 && phase == 0)
                bs_cu_zero_margin(y);
            if (s->p[BS_CU_CONV_LAYOUT].i == 0) {
                bs_cu_deconv_plain(x, y, bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y)), pad, w);
            } else if (bs_cu_conv_sound(t, s, x, y)) {
                const bs_cu_conv &job = bs_cu_conv_share(t,
                                                         bs_cu_deconv_job(bs_cu_conv_of(t, s, x, y), x, y, pad, phase));
                part -= bs_cu_deconv_phase_run(t, job, part, w.parts) % w.parts;
                part += part < 0 ? w.parts : 0;
            }
        }
    }
}

#endif
