/* op_conv_plain.cuh - conv2d by plain loops over any layout of weights, for what the other kernels cannot do and for
 * BS_CONV_FORCE_REFERENCE.
 * Relies on conv_store.cuh and on all layouts that kernels/conv_pack.c writes. Must never need contiguous
 * channels. */
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
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_conv &c = bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y));
        bs_cu_scan_run(d, {0, c.h, 0, c.w}, y.dim[0], [&](const bs_cu_scan &k) {
            const int32_t group = k.c / c.out_c;
            const int64_t window = (int64_t)k.y * c.stride_h * c.in_row + (int64_t)k.x * c.stride_w * c.in_pixel +
                                   (int64_t)group * c.in_c * x.stride[0];
            float sum = 0.0f;
            for (int32_t tap = 0; tap < c.kernel_h * c.kernel_w; tap++) {
                const int32_t ky = tap / c.kernel_w, kx = tap - ky * c.kernel_w;
                const int64_t at = window + (int64_t)ky * c.dilation_h * c.in_row +
                                   (int64_t)kx * c.dilation_w * c.in_pixel;
                for (int32_t i = 0; i < c.in_c; i++)
                    sum = fmaf(bs_cu_get(c.in, c.in_dtype, at + (int64_t)i * x.stride[0]),
                               bs_cu_conv_weight(c, s->p[BS_CU_CONV_LAYOUT].i, group, k.c - group * c.out_c, tap, i),
                               sum);
            }
            bs_cu_put(c.out, c.out_dtype,
                      (int64_t)k.y * c.out_row + (int64_t)k.x * c.out_pixel + (int64_t)k.c * y.stride[0],
                      bs_cu_conv_any(c, k.c, sum));
        });
    });
}

#endif
