/* pool.h: the maximum or the mean of a window, a vector of channels at a time.
 *
 * Owns:      the interface of those loops, for tiers with vectors; others, and small libraries (BS_SMALL), have plain
 *            ones of ops/pool2d.c.
 * Relies on: tier.h.
 * Must never: read outside the window, or give other bytes than those: taps are taken row by row; a mean of rows adds
 *            up each row, then these sums.
 */
#ifndef BS_KERNELS_POOL_H
#define BS_KERNELS_POOL_H

#include <stdbool.h>

#include "kernels/tier.h"

typedef enum bs_pool_sum { BS_POOL_LARGEST, BS_POOL_MEAN, BS_POOL_MEAN_OF_ROWS } bs_pool_sum;

/* Channels of a tap lie side by side; strides are in floats. rows and taps: 1 or more. */
typedef struct bs_pool_window {
    const float *in;
    ptrdiff_t row, tap;
    int32_t rows, taps;
    int32_t channels;
    bs_pool_sum sum;
    float count; /* of a mean: what the sum is divided by */
    float *out;
} bs_pool_window;

/* False, and nothing is done: the tier is the scalar one, or there are fewer channels than it has lanes. */
#ifdef BS_SMALL
static inline bool bs_pool_window_run(bs_tier tier, const bs_pool_window *window)
{
    return (void)tier, (void)window, false;
}
#else
bool bs_pool_window_run(bs_tier tier, const bs_pool_window *window);
#endif

#endif
