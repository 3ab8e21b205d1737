/* conv_store.cuh - from the sums of a convolution to its output: bias, activation, stores.
 * Relies on conv_job.cuh. Must never let a value depend on which kernel stores it. */
#ifndef BS_CUDA_CONV_STORE
#define BS_CUDA_CONV_STORE

#include "cuda/conv_job.cuh"

/* Common activations are one expression: x > 0 ? min(x, high) : x * slope, where a slope of 0 gives 0 even for NaN and
 * infinities. */
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
    switch (c.step->p[BS_CU_CONV_ACT].i) {
    case BS_ACT_NONE: break;
    case BS_RELU: e.slope = 0.0f; break;
    case BS_LEAKY_RELU: e.slope = bs_act_slope(param); break;
    case BS_PRELU: e.slopes = c.bias + bs_aligned_floats(c.groups * c.out_c); break;
    case BS_CLIP:
        e.slope = 0.0f;
        e.high = bs_act_high(param);
        break;
    default: e.rare = c.step->p[BS_CU_CONV_ACT].i; break;
    }
    return e;
}

/* RARE: applies e.rare. Kernels contain this code once, in a separate loop, so that it costs the main loop no
 * registers. */
template <bool RARE> __device__ __forceinline__ float bs_cu_conv_finish(const bs_cu_conv_end &e, float slope, float x)
{
    if (RARE)
        return bs_act_apply((bs_act)e.rare, 0.0f, 0.0f, x);
    return x > 0.0f ? fminf(x, e.high) : slope == 0.0f ? 0.0f : x * slope;
}

/* Stores `count` channels of a pixel, at most WIDTH, from their sums. */
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
        if (count >= q + 4 && bs_cu_aligned(at, bs_cu_bytes(c.out_dtype), 0)) {
            bs_cu_put_quad(at, c.out_dtype, 0, make_float4(y[q], y[q + 1], y[q + 2], y[q + 3]));
        } else {
#pragma unroll
            for (int o = 0; o < 4; o++)
                if (q + o < count)
                    bs_cu_put(at, c.out_dtype, o, y[q + o]);
        }
    }
}

/* The same with a rare activation, one channel at a time; overwrites `sum`. */
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

/* Adds the bias to a sum and applies the activation, whichever it is. */
__device__ inline float bs_cu_conv_any(const bs_cu_conv &c, int32_t o, float sum)
{
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
    return bs_act_apply((bs_act)c.step->p[BS_CU_CONV_ACT].i, c.step->p[BS_CU_CONV_PARAM].f,
                        e.slopes ? e.slopes[o] : 0.0f, sum + e.bias[o]);
}

#endif
