/* elements.cuh - loading and storing elements, one or four at a time: the raw bits of any type, f32 and f16 as f32.
 * f16 is converted in one way everywhere: in the low half of a word, rounded to nearest even.
 * Relies on portable.cuh. Must never be given four elements that are not aligned to the size of all four. */
#ifndef BS_CUDA_ELEMENTS
#define BS_CUDA_ELEMENTS

#include "cuda/portable.cuh"

__device__ __forceinline__ int32_t bs_cu_bytes(int32_t dtype)
{
    return dtype == BS_F32 || dtype == BS_I32 ? 4 : dtype == BS_U8 || dtype == BS_I8 ? 1 : 2;
}

/* -------------------------------------------------------------------------------------- as they lie in memory */

/* The raw bits of an element of any type. */
__device__ __forceinline__ uint32_t bs_cu_load_one(const uint8_t *data, int32_t bytes, int64_t at)
{
    return bytes == 4   ? reinterpret_cast<const uint32_t *>(data)[at]
           : bytes == 2 ? reinterpret_cast<const uint16_t *>(data)[at]
                        : data[at];
}

__device__ __forceinline__ void bs_cu_store_one(uint8_t *data, int32_t bytes, int64_t at, uint32_t raw)
{
    if (bytes == 4)
        reinterpret_cast<uint32_t *>(data)[at] = raw;
    else if (bytes == 2)
        reinterpret_cast<uint16_t *>(data)[at] = (uint16_t)raw;
    else
        data[at] = (uint8_t)raw;
}

/* Four adjacent elements, aligned to the size of all four. */
__device__ __forceinline__ void bs_cu_load_four(const uint8_t *data, int32_t bytes, int64_t at, uint32_t (&raw)[4])
{
    if (bytes == 4) {
        const uint4 q = *reinterpret_cast<const uint4 *>(data + at * 4);
        raw[0] = q.x, raw[1] = q.y, raw[2] = q.z, raw[3] = q.w;
    } else if (bytes == 2) {
        const uint2 q = *reinterpret_cast<const uint2 *>(data + at * 2);
        raw[0] = q.x & 0xffffu, raw[1] = q.x >> 16, raw[2] = q.y & 0xffffu, raw[3] = q.y >> 16;
    } else {
        const uint32_t q = *reinterpret_cast<const uint32_t *>(data + at);
        raw[0] = q & 0xffu, raw[1] = q >> 8 & 0xffu, raw[2] = q >> 16 & 0xffu, raw[3] = q >> 24;
    }
}

__device__ __forceinline__ void bs_cu_store_four(uint8_t *data, int32_t bytes, int64_t at, const uint32_t (&raw)[4])
{
    if (bytes == 4)
        *reinterpret_cast<uint4 *>(data + at * 4) = make_uint4(raw[0], raw[1], raw[2], raw[3]);
    else if (bytes == 2)
        *reinterpret_cast<uint2 *>(data + at * 2) = make_uint2((raw[0] & 0xffffu) | raw[1] << 16,
                                                               (raw[2] & 0xffffu) | raw[3] << 16);
    else
        *reinterpret_cast<uint32_t *>(data + at) = (raw[0] & 0xffu) | (raw[1] & 0xffu) << 8 | (raw[2] & 0xffu) << 16 |
                                                   raw[3] << 24;
}

/* Whether element `at`, and so every fourth one after it, is aligned to the size of four. */
__device__ __forceinline__ bool bs_cu_aligned(const uint8_t *data, int32_t bytes, int64_t at)
{
    return ((reinterpret_cast<uintptr_t>(data) + (uintptr_t)(at * bytes)) & (uintptr_t)(4 * bytes - 1)) == 0;
}

/* -------------------------------------------------------------------------------------------------------- f16 */

__device__ __forceinline__ float bs_cu_half_from(uint32_t raw)
{
    __half_raw h;
    h.x = (unsigned short)raw;
    return __half2float(__half(h));
}

__device__ __forceinline__ uint32_t bs_cu_half_to(float x) { return static_cast<__half_raw>(__float2half_rn(x)).x; }

/* Two f16 in a word, the first in the low half. */
__device__ __forceinline__ uint32_t bs_cu_pack_half2(float low, float high)
{
    return bs_cu_half_to(low) | bs_cu_half_to(high) << 16;
}

__device__ __forceinline__ float bs_cu_low_half(uint32_t word) { return bs_cu_half_from(word & 0xffffu); }
__device__ __forceinline__ float bs_cu_high_half(uint32_t word) { return bs_cu_half_from(word >> 16); }

/* Four f16 in two words. */
__device__ __forceinline__ uint2 bs_cu_pack_quad(const float4 &v)
{
    return make_uint2(bs_cu_pack_half2(v.x, v.y), bs_cu_pack_half2(v.z, v.w));
}

__device__ __forceinline__ float4 bs_cu_unpack_quad(const uint2 &h)
{
    return make_float4(bs_cu_low_half(h.x), bs_cu_high_half(h.x), bs_cu_low_half(h.y), bs_cu_high_half(h.y));
}

/* ----------------------------------------------------------------------------------------------------- as f32 */

/* f32 or f16 storage. */
__device__ __forceinline__ float bs_cu_real(uint32_t raw, int32_t dtype)
{
    return dtype == BS_F16 ? bs_cu_half_from(raw) : __uint_as_float(raw);
}

__device__ __forceinline__ uint32_t bs_cu_raw(float x, int32_t dtype)
{
    return dtype == BS_F16 ? bs_cu_half_to(x) : __float_as_uint(x);
}

/* An element of f32 or f16 storage as f32; and back, rounded to nearest even. */
__device__ __forceinline__ float bs_cu_get(const uint8_t *data, int32_t dtype, int64_t at)
{
    return dtype == BS_F16 ? bs_cu_half_from(reinterpret_cast<const uint16_t *>(data)[at])
                           : reinterpret_cast<const float *>(data)[at];
}

__device__ __forceinline__ void bs_cu_put(uint8_t *data, int32_t dtype, int64_t at, float x)
{
    if (dtype == BS_F16)
        reinterpret_cast<uint16_t *>(data)[at] = (uint16_t)bs_cu_half_to(x);
    else
        reinterpret_cast<float *>(data)[at] = x;
}

/* Four adjacent elements of f32 or f16 storage, aligned to the size of all four. */
__device__ __forceinline__ float4 bs_cu_get_quad(const uint8_t *data, int32_t dtype, int64_t at)
{
    return dtype == BS_F16 ? bs_cu_unpack_quad(*reinterpret_cast<const uint2 *>(data + at * 2))
                           : *reinterpret_cast<const float4 *>(data + at * 4);
}

__device__ __forceinline__ void bs_cu_put_quad(uint8_t *data, int32_t dtype, int64_t at, const float4 &v)
{
    if (dtype == BS_F16)
        *reinterpret_cast<uint2 *>(data + at * 2) = bs_cu_pack_quad(v);
    else
        *reinterpret_cast<float4 *>(data + at * 4) = v;
}

/* The same as an array, loaded as words and converted singly: loops over taps (pool2d) then need fewer registers. */
__device__ __forceinline__ void bs_cu_get_four(const uint8_t *data, int32_t dtype, int64_t at, float (&x)[4])
{
    uint32_t raw[4];
    bs_cu_load_four(data, dtype == BS_F16 ? 2 : 4, at, raw);
    for (int32_t i = 0; i < 4; i++)
        x[i] = bs_cu_real(raw[i], dtype);
}

__device__ __forceinline__ void bs_cu_put_four(uint8_t *data, int32_t dtype, int64_t at, const float (&x)[4])
{
    uint32_t raw[4];
    for (int32_t i = 0; i < 4; i++)
        raw[i] = bs_cu_raw(x[i], dtype);
    bs_cu_store_four(data, dtype == BS_F16 ? 2 : 4, at, raw);
}

#endif
