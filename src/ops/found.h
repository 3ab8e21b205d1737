/* ops/found.h - what decides how long a result is, for plain kernels and a device: the order of elements, boxes and
 * what they share. Relies on base/base.h. Must never leave a rounding to the compiler. */
#ifndef BS_OPS_FOUND_H
#define BS_OPS_FOUND_H

#include "base/base.h"

#include <math.h>

/* How many elements start, start + step, ... has before `limit`; infinity: not any number of them, as its step is 0 or
 * not all three are finite. */
static inline BS_BOTH double bs_range_elements(double start, double limit, double step)
{
    const bool finite = fabs(start) < (double)INFINITY && fabs(limit) < (double)INFINITY &&
                        fabs(step) < (double)INFINITY;
    return finite && step != 0 ? fmax(ceil((limit - start) / step), 0.0) : (double)INFINITY;
}

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

/* -------------------------------------------------------------------------------------------------------- boxes */

typedef struct bs_box {
    float low[2], high[2], area;
} bs_box;

/* Which of both axes is which makes no difference. */
static inline BS_BOTH bs_box bs_box_of(const float *at, ptrdiff_t step, bool centre)
{
    bs_box box;
    for (int32_t axis = 0; axis < 2; axis++) {
        const float a = at[axis * step], b = at[(axis + 2) * step];
        const double half = centre ? 0.5 * (double)b : 0;
        const float first = centre ? (float)((double)a - half) : a, second = centre ? (float)((double)a + half) : b;
        box.low[axis] = first < second ? first : second;
        box.high[axis] = first < second ? second : first;
    }
    box.area = BS_PRODUCT(box.high[0] - box.low[0], box.high[1] - box.low[1]);
    return box;
}

/* Whether what both have in common is more than this part of what one of them has. */
static inline BS_BOTH bool bs_boxes_overlap(const bs_box *a, const bs_box *b, float most)
{
    float side[2];
    for (int32_t axis = 0; axis < 2; axis++) {
        const float low = a->low[axis] > b->low[axis] ? a->low[axis] : b->low[axis],
                    high = a->high[axis] < b->high[axis] ? a->high[axis] : b->high[axis];
        side[axis] = high > low ? high - low : 0;
    }
    const float both = BS_PRODUCT(side[0], side[1]), either = a->area + b->area - both;
    return either > 0 && both / either > most;
}

#endif
