/* op_conv_plain.cuh - conv2d by plain loops over any kind of weights: what the other kernels cannot do, and
 * BS_CONV_FORCE_REFERENCE.
 * Relies on conv_store.cuh and on all layouts that kernels/conv_pack.c writes. Must never need channels that lie one
 * after the other. */
#ifndef BS_CUDA_OP_CONV_PLAIN
#define BS_CUDA_OP_CONV_PLAIN

#include "cuda/conv_store.cuh"

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
        return bs_cu_get(c.weights, BS_F16, at);
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

#endif
