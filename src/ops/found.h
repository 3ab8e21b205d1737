/* ops/found.h - what ops find whose result is as long as their data say, for plain kernels and a device: the order of
 * elements. Relies on base/base.h. Must never compare floats where bits decide: all NaN are one element. */
#ifndef BS_OPS_FOUND_H
#define BS_OPS_FOUND_H

#include "base/base.h"

/* Numbers without a sign that order as elements of f32 or i32 with these bits do: those of a float from its largest
 * negative one on, then 0 of any sign, and last NaN of any kind. */
static inline BS_BOTH uint32_t bs_order_key(bs_dtype dtype, uint32_t bits)
{
    const uint32_t sign = UINT32_C(1) << 31, infinite = UINT32_C(0x7f800000), size = bits & ~sign;
    if (dtype == BS_I32)
        return bits ^ sign;
    if (size > infinite)
        return UINT32_MAX;
    if (size == 0)
        return sign;
    return (bits & sign) != 0 ? ~bits : bits | sign;
}

#endif
