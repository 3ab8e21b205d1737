/* op_conv_depthwise.cuh - conv2d with one channel a group, in f32: windows are read in place.
 * Relies on conv_store.cuh and on the layout of BS_CONV_DIRECT (kernels/conv_pack.c). Must never let the order of a sum
 * depend on where a pixel stands. */
#ifndef BS_CUDA_OP_CONV_DEPTHWISE
#define BS_CUDA_OP_CONV_DEPTHWISE

#include "cuda/conv_store.cuh"

/* A thread computes four adjacent channels of a pixel. Weights are [quads of channels][taps][4]. */
__device__ inline void bs_cu_conv2d_depthwise_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) {
        const int32_t taps = c.kernel_h * c.kernel_w, bytes = bs_cu_bytes(c.in_dtype);
        const bool quads = bs_cu_quads(c.in, c.in_dtype, c.in_row, c.in_pixel, 0);
        bs_cu_scan_run(d, {0, c.h, 0, c.w}, (c.groups + 3) / 4, [&](const bs_cu_scan &k) {
            const int32_t channel = 4 * k.c, count = min(4, c.groups - channel);
            const float4 *weight = reinterpret_cast<const float4 *>(c.weights) + (int64_t)k.c * taps;
            const int64_t first = (int64_t)k.y * c.stride_h * c.in_row + (int64_t)k.x * c.stride_w * c.in_pixel;
            const uint8_t *window = c.in + (first + channel) * bytes;
            float sum[8] = {};
            for (int32_t ky = 0; ky < c.kernel_h; ky++)
                for (int32_t kx = 0; kx < c.kernel_w; kx++, weight++) {
                    const uint8_t *at = window +
                                        ((int64_t)ky * c.dilation_h * c.in_row +
                                         (int64_t)kx * c.dilation_w * c.in_pixel) *
                                            bytes;
                    const float4 v = bs_cu_constant(weight);
                    float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (quads && count == 4) {
                        q = bs_cu_get_quad(at, c.in_dtype, 0);
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
                          ((int64_t)k.y * c.out_row + (int64_t)k.x * c.out_pixel + channel) * bs_cu_bytes(c.out_dtype);
            const bs_cu_conv_end end = bs_cu_conv_end_of(c);
            if (end.rare != BS_ACT_NONE)
                bs_cu_conv_store_rare(c, end, sum, channel, count, to);
            else
                bs_cu_conv_store<4>(c, end, sum, channel, count, to);
        });
    });
}

#endif
