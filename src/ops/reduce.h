/* ops/reduce.h - what reductions make of elements, for the plain kernel and for a device.
 * Relies on base/base.h. Must never contain a product that a compiler may fuse with a sum. */
#ifndef BS_OPS_REDUCE_H
#define BS_OPS_REDUCE_H

#include "base/base.h"

#include <math.h>

/* What an element adds. top: the largest element, of BS_REDUCE_LOG_SUM_EXP only. */
static inline BS_BOTH float bs_reduce_term(int32_t kind, float v, float top)
{
    if (kind < BS_REDUCE_SUM_SQUARE)
        return v;
    return kind == BS_REDUCE_L1 ? fabsf(v) : kind == BS_REDUCE_LOG_SUM_EXP ? expf(v - top) : v * v;
}

/* NaN in a maximum or minimum: it stays where it comes first, elsewhere it is ignored. */
static inline BS_BOTH float bs_reduce_join(int32_t kind, float so_far, float term)
{
    if (kind == BS_REDUCE_MAX)
        return term > so_far ? term : so_far;
    if (kind == BS_REDUCE_MIN)
        return term < so_far ? term : so_far;
    return kind == BS_REDUCE_PROD ? so_far * term : BS_SUM(so_far, term);
}

/* Of lines without anything finite, or with an infinity, exponentials are of the elements themselves. */
static inline BS_BOTH float bs_reduce_top(float top) { return fabsf(top) == INFINITY ? 0.0f : top; }

static inline BS_BOTH float bs_reduce_end(int32_t kind, float sum, float count, float top)
{
    if (kind == BS_REDUCE_MEAN)
        return sum / count;
    return kind == BS_REDUCE_L2 ? sqrtf(sum) : kind == BS_REDUCE_LOG_SUM_EXP ? BS_SUM(top, logf(sum)) : sum;
}

#endif
