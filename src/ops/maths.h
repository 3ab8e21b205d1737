/* ops/maths.h - element-wise functions of one or two operands: what they make of one value each, for plain kernels and
 * a device. Relies on base/base.h. Must never round other than as written: a device gives the CPU's bytes where its
 * libm does. */
#ifndef BS_OPS_MATHS_H
#define BS_OPS_MATHS_H

#include "base/base.h"

/* NaN has no sign, so 0; ties go to even. BS_UNARY_NOT is of i32 alone. */
static inline BS_BOTH float bs_unary_apply(bs_unary_kind kind, float x)
{
    switch (kind) {
    case BS_UNARY_ABS: return fabsf(x);
    case BS_UNARY_NEG: return -x;
    case BS_UNARY_SIGN: return (float)((x > 0.0f) - (x < 0.0f));
    case BS_UNARY_FLOOR: return floorf(x);
    case BS_UNARY_CEIL: return ceilf(x);
    case BS_UNARY_ROUND: return rintf(x);
    case BS_UNARY_SQRT: return sqrtf(x);
    case BS_UNARY_RSQRT: return 1.0f / sqrtf(x);
    case BS_UNARY_RECIPROCAL: return 1.0f / x;
    case BS_UNARY_EXP: return expf(x);
    case BS_UNARY_LOG: return logf(x);
    case BS_UNARY_ERF: return erff(x);
    case BS_UNARY_SIN: return sinf(x);
    case BS_UNARY_COS: return cosf(x);
    case BS_UNARY_TAN: return tanf(x);
    case BS_UNARY_ASIN: return asinf(x);
    case BS_UNARY_ACOS: return acosf(x);
    case BS_UNARY_ATAN: return atanf(x);
    case BS_UNARY_NOT:
    case BS_UNARY_COUNT: break;
    }
    return x;
}

/* The same of i32, whose bits are given, for the kinds that take it: these wrap. */
BS_WRAPS static inline BS_BOTH uint32_t bs_unary_apply_i32(bs_unary_kind kind, uint32_t x)
{
    const bool negative = x >> 31 != 0;
    if (kind == BS_UNARY_SIGN)
        return negative ? UINT32_MAX : x != 0;
    if (kind == BS_UNARY_NOT)
        return x == 0;
    return kind == BS_UNARY_NEG || negative ? 0u - x : x;
}

static inline BS_BOTH bool bs_unary_takes_i32(bs_unary_kind kind)
{
    return kind == BS_UNARY_ABS || kind == BS_UNARY_NEG || kind == BS_UNARY_SIGN || kind == BS_UNARY_NOT;
}

/* Of two operands. Minimum and maximum are NaN where either operand is. */
static inline BS_BOTH float bs_binary_apply(bs_binary_kind kind, float a, float b)
{
    switch (kind) {
    case BS_BINARY_DIV: return a / b;
    case BS_BINARY_MIN: return a <= b || a != a ? a : b;
    case BS_BINARY_MAX: return a >= b || a != a ? a : b;
    case BS_BINARY_POW: return powf(a, b);
    case BS_BINARY_COUNT: break;
    }
    return a;
}

static inline BS_BOTH int32_t bs_binary_apply_i32(bs_binary_kind kind, int32_t a, int32_t b)
{
    return (kind == BS_BINARY_MIN) == (a < b) ? a : b;
}

/* Truth values of two operands: 0 or 1. */
static inline BS_BOTH int32_t bs_compare_apply(bs_compare_kind kind, float a, float b)
{
    switch (kind) {
    case BS_COMPARE_NOT_EQUAL: return a != b;
    case BS_COMPARE_LESS: return a < b;
    case BS_COMPARE_LESS_EQUAL: return a <= b;
    case BS_COMPARE_GREATER: return a > b;
    case BS_COMPARE_GREATER_EQUAL: return a >= b;
    case BS_COMPARE_EQUAL:
    case BS_COMPARE_AND:
    case BS_COMPARE_OR:
    case BS_COMPARE_XOR:
    case BS_COMPARE_COUNT: break;
    }
    return a == b;
}

static inline BS_BOTH int32_t bs_compare_apply_i32(bs_compare_kind kind, int32_t a, int32_t b)
{
    switch (kind) {
    case BS_COMPARE_NOT_EQUAL: return a != b;
    case BS_COMPARE_LESS: return a < b;
    case BS_COMPARE_LESS_EQUAL: return a <= b;
    case BS_COMPARE_GREATER: return a > b;
    case BS_COMPARE_GREATER_EQUAL: return a >= b;
    case BS_COMPARE_AND: return a != 0 && b != 0;
    case BS_COMPARE_OR: return a != 0 || b != 0;
    case BS_COMPARE_XOR: return (a != 0) != (b != 0);
    case BS_COMPARE_EQUAL:
    case BS_COMPARE_COUNT: break;
    }
    return a == b;
}

#endif
