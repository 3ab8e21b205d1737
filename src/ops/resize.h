/* ops/resize.h - the weights of an enlargement, for its plain kernels and for a device.
 * Relies on base/base.h. Must never contain a product that a compiler may fuse with a sum: both sides must give the
 * same bytes. */
#ifndef BS_OPS_RESIZE_H
#define BS_OPS_RESIZE_H

#include "base/base.h"

#include <math.h>

#define BS_RESIZE_MOST 16 /* the largest factor */

/* Taps of output r of each group of `factor`: they begin at `start`, relative to the group's own input. */
typedef struct bs_resize_phase {
    float weight[4];
    int32_t start;
} bs_resize_phase;

/* Keys' kernel; a = -0.5 reproduces quadratics. */
static inline BS_BOTH float bs_resize_cubic(float a, float distance)
{
    const float x = fabsf(distance);
    if (x <= 1.0f)
        return BS_SUM(BS_SUM((a + 2.0f) * x, -(a + 3.0f)) * x * x, 1.0f);
    return BS_SUM(BS_SUM(BS_SUM(a * x, -5.0f * a) * x, 8.0f * a) * x, -4.0f * a);
}

static inline BS_BOTH bs_resize_phase bs_resize_phase_of(int32_t kind, int32_t factor, float cubic_a, int32_t r)
{
    const float offset = ((float)r + 0.5f) / (float)factor - 0.5f, at = offset < 0.0f ? offset + 1.0f : offset;
    bs_resize_phase phase = {{1.0f, 0.0f, 0.0f, 0.0f}, 0};
    if (kind == BS_RESIZE_NEAREST)
        return phase;
    phase.start = offset < 0.0f ? -1 : 0;
    phase.weight[0] = 1.0f - at;
    phase.weight[1] = at;
    if (kind == BS_RESIZE_BILINEAR)
        return phase;
    phase.start--;
    for (int32_t k = 0; k < 4; k++)
        phase.weight[k] = bs_resize_cubic(cubic_a, at + 1.0f - (float)k);
    return phase;
}

static inline BS_BOTH int32_t bs_resize_taps(int32_t kind)
{
    return kind == BS_RESIZE_BICUBIC ? 4 : kind == BS_RESIZE_BILINEAR ? 2 : 1;
}

#endif
