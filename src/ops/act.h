/* ops/act.h - activations: what they make of one value, for every plain kernel and for a device.
 * Relies on base/base.h. Must never round other than as written: a device gives the CPU's bytes where its expf does. */
#ifndef BS_OPS_ACT_H
#define BS_OPS_ACT_H

#include "base/base.h"

static inline BS_BOTH float bs_act_slope(float param) { return param == 0.0f ? 0.01f : param; } /* LEAKY_RELU */
static inline BS_BOTH float bs_act_high(float param) { return param == 0.0f ? 1.0f : param; }   /* CLIP */

/* slope: of this channel, for BS_PRELU only. */
static inline BS_BOTH float bs_act_apply(bs_act act, float param, float slope, float x)
{
    switch (act) {
    case BS_RELU: return x > 0.0f ? x : 0.0f;
    case BS_LEAKY_RELU: return x > 0.0f ? x : x * bs_act_slope(param);
    case BS_PRELU: return x > 0.0f ? x : x * slope;
    /* a device's expf ends in a product, which must not be fused with the sum */
    case BS_SIGMOID: return 1.0f / BS_SUM(1.0f, expf(-x));
    case BS_TANH: return tanhf(x);
    case BS_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case BS_SILU: return x / BS_SUM(1.0f, expf(-x));
    case BS_CLIP: {
        const float high = bs_act_high(param);
        return x > high ? high : x > 0.0f ? x : 0.0f;
    }
    case BS_ACT_NONE:
    case BS_ACT_COUNT: break;
    }
    return x;
}

#endif
