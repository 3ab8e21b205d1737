/* base/dtype.c - element types: names, sizes, conversion of storage types.
 * Relies on base/base.h. Must never depend on the rounding mode or on instructions a board may lack. */
#include "base/base.h"

static const uint8_t dtype_sizes[] = {
#define DTYPE_SIZE(name, bytes, text) bytes,
    BS_DTYPE_LIST(DTYPE_SIZE)
#undef DTYPE_SIZE
};

static bool dtype_known(bs_dtype dtype) { return (uint32_t)dtype < (uint32_t)BS_DTYPE_COUNT; }

#define DTYPE_NAME(name, bytes, text) text "\0"
const char *bs_dtype_name(bs_dtype dtype) { return bs_name_of(BS_DTYPE_LIST(DTYPE_NAME), dtype, BS_DTYPE_COUNT); }
#undef DTYPE_NAME

size_t bs_dtype_bytes(bs_dtype dtype) { return dtype_known(dtype) ? dtype_sizes[dtype] : 0; }

static uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float bs_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    if (exponent == 31)
        return bits_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0)
        return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    const float small = (float)mantissa * 0x1p-24f; /* exact, subnormals too */
    return sign ? -small : small;
}

/* Drops the low `drop` bits, rounding to nearest even. */
static uint32_t round_shift(uint32_t v, uint32_t drop)
{
    const uint32_t half = 1u << (drop - 1), rest = v & ((1u << drop) - 1);
    v >>= drop;
    return v + (rest > half || (rest == half && (v & 1u)));
}

uint16_t bs_f32_to_f16(float f)
{
    const uint32_t bits = float_bits(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u); /* NaN */
    if (magnitude >= 0x47800000u)
        return (uint16_t)(sign | 0x7c00u); /* 65536 and more; smaller values that round up to it carry below */
    if (magnitude >= 0x38800000u)
        return (uint16_t)(sign | round_shift(magnitude - 0x38000000u, 13));
    if (magnitude < 0x33000000u)
        return (uint16_t)sign; /* below half of the smallest subnormal */
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | round_shift(mantissa, 126 - (magnitude >> 23)));
}

float bs_bf16_to_f32(uint16_t h) { return bits_float((uint32_t)h << 16); }

uint16_t bs_f32_to_bf16(float f)
{
    const uint32_t bits = float_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)round_shift(bits, 16);
}

float bs_load_f32(const void *data, bs_dtype dtype, int64_t index)
{
    switch (dtype) {
    case BS_F32: return ((const float *)data)[index];
    case BS_U8: return (float)((const uint8_t *)data)[index];
    case BS_I8: return (float)((const int8_t *)data)[index];
    case BS_I32: return (float)((const int32_t *)data)[index];
    case BS_F16: return bs_f16_to_f32(((const uint16_t *)data)[index]);
    case BS_BF16: return bs_bf16_to_f32(((const uint16_t *)data)[index]);
    case BS_U16: return (float)((const uint16_t *)data)[index];
    case BS_DTYPE_COUNT: break;
    }
    return 0.0f;
}
