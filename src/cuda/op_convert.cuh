/* op_convert.cuh - between element types, with a scale; and the end of a super-resolution network.
 * Relies on walk.cuh. Must never round or saturate otherwise than ops/convert.c: codes are the same everywhere. */
#ifndef BS_CUDA_OP_CONVERT
#define BS_CUDA_OP_CONVERT

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/forms.h"
}

/* Parameters of the kernels of this file, in p. */
enum {
    BS_CU_CONVERT_TO,
    BS_CU_CONVERT_SCALE, /* f */
    BS_CU_CONVERT_LOW,   /* in: the descriptor's code_bits; out: the smallest code, */
    BS_CU_CONVERT_HIGH,  /* the largest one */
    BS_CU_CONVERT_CODES  /* 1: integers stay integers */
};

static void bs_cu_convert_limits(const bs_cu_node *n, bs_device_step *s)
{
    const bs_dtype from = (bs_dtype)n->in[0].dtype, to = (bs_dtype)n->out[0].dtype;
    const float scale = s->p[BS_CU_CONVERT_SCALE].f;
    s->p[BS_CU_CONVERT_SCALE].f = scale == 0.0f ? 1.0f : scale;
    s->p[BS_CU_CONVERT_CODES].i = bs_convert_is_integer(from) && bs_convert_is_integer(to) && scale == 0.0f;
    bs_convert_range(to, s->p[BS_CU_CONVERT_LOW].i, &s->p[BS_CU_CONVERT_LOW].i, &s->p[BS_CU_CONVERT_HIGH].i);
}

/* Or the end of the fused chain pixel_shuffle 2, add, convert (plan/fusions.c): operand 0 is then the shuffle's. */
static void bs_cu_convert_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = n->np->fusion ? BS_CU_sr_store : BS_CU_convert;
    bs_cu_convert_limits(n, s);
    bs_cu_cut(n, s);
}

/* An element of any type as f32. */
__device__ __forceinline__ float bs_cu_decode(uint32_t raw, int32_t dtype)
{
    switch (dtype) {
    case BS_F32: return __uint_as_float(raw);
    case BS_F16: return bs_cu_half_from(raw);
    case BS_BF16: return __uint_as_float(raw << 16);
    case BS_I8: return (float)(int8_t)raw;
    case BS_I32: return (float)(int32_t)raw;
    default: return (float)raw;
    }
}

__device__ __forceinline__ uint32_t bs_cu_bfloat_to(float x)
{
    const uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

struct bs_cu_conversion {
    const uint8_t *x;
    uint8_t *y;
    int32_t from, to, low, high;
    float scale;
    bool codes;
    __device__ __forceinline__ uint32_t turn(uint32_t raw) const
    {
        if (codes) {
            const int32_t code = from == BS_I8 ? (int8_t)raw : (int32_t)raw;
            return (uint32_t)min(max(code, low), high);
        }
        const float v = bs_cu_decode(raw, from) * scale;
        if (to == BS_F32 || to == BS_F16)
            return bs_cu_raw(v, to);
        return to == BS_BF16 ? bs_cu_bfloat_to(v) : (uint32_t)bs_f32_to_code(v, low, high);
    }
    __device__ __forceinline__ void one(const int64_t (&at)[2]) const
    {
        bs_cu_store_one(y, bs_cu_bytes(to), at[0], turn(bs_cu_load_one(x, bs_cu_bytes(from), at[1])));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2]) const
    {
        uint32_t raw[4];
        bs_cu_load_four(x, bs_cu_bytes(from), at[1], raw);
        for (int32_t i = 0; i < 4; i++)
            raw[i] = turn(raw[i]);
        bs_cu_store_four(y, bs_cu_bytes(to), at[0], raw);
    }
};

__device__ inline void bs_cu_convert_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w, 2);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_walk<2> k = bs_cu_walk_over<2>({y, x});
        const bs_cu_conversion each = {k.begin[1],
                                       k.begin[0],
                                       x.dtype,
                                       y.dtype,
                                       s->p[BS_CU_CONVERT_LOW].i,
                                       s->p[BS_CU_CONVERT_HIGH].i,
                                       s->p[BS_CU_CONVERT_SCALE].f,
                                       s->p[BS_CU_CONVERT_CODES].i != 0};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

/* ----------------------------------------------------------------------------------------------- sr_store */

/* Pixel (py, px) of the tail gives four of the result. */
__device__ inline void bs_cu_sr_store_pixel(const bs_device_step *s, const bs_cu_view &tail, const bs_cu_view &base,
                                            const bs_cu_view &y, int32_t py, int32_t px)
{
    const int64_t from = bs_cu_pixel_at(tail, 0, py, px);
    const int32_t low = s->p[BS_CU_CONVERT_LOW].i, high = s->p[BS_CU_CONVERT_HIGH].i;
    const float scale = s->p[BS_CU_CONVERT_SCALE].f;
    float v[4];
    if (tail.stride[0] == 1 && bs_cu_aligned(tail.data, bs_cu_bytes(tail.dtype), from))
        bs_cu_get_four(tail.data, tail.dtype, from, v);
    else
        for (int32_t i = 0; i < 4; i++)
            v[i] = bs_cu_get(tail.data, tail.dtype, from + (int64_t)i * tail.stride[0]);
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const int64_t b = bs_cu_pixel_at(base, 0, 2 * py + i, 2 * px), to = bs_cu_pixel_at(y, 0, 2 * py + i, 2 * px);
        const float left = (v[2 * i] + bs_cu_get(base.data, base.dtype, b)) * scale;
        const float right = (v[2 * i + 1] + bs_cu_get(base.data, base.dtype, b + base.stride[2])) * scale;
        const uint32_t first = (uint32_t)bs_f32_to_code(left, low, high),
                       second = (uint32_t)bs_f32_to_code(right, low, high);
        bs_cu_store_pair(y, to, first, second, true, true);
    }
}

/* The rectangle has even coordinates: it is a cell of the doubled frame. */
__device__ inline void bs_cu_sr_store_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &tail, int32_t r) {
        const bs_cu_view base = bs_cu_open_in(t, s, 1, r);
        bs_cu_scan_run(d, {y.y0 / 2, y.y1 / 2, y.x0 / 2, y.x1 / 2}, 1,
                       [&](const bs_cu_scan &k) { bs_cu_sr_store_pixel(s, tail, base, y, k.y, k.x); });
    });
}

#endif
