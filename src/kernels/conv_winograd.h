/* conv_winograd.h: the constants of F(4x4, 3x3).
 *
 * Owns:      the interpolation points 0, +-a, +-b, infinity with a = 3/4, b = 3/2, and the factors a^k.
 * Relies on: nothing.
 * Must never: be changed in one place only: the weight transform (conv_winograd_pack.c) uses the same points.
 *
 * The usual points 0, +-1, +-2 spread the transforms' coefficients over 1..8 and 1/24..1; these keep them near
 * 1 and are exact in f32. Measured, 32 channels: the largest error is 3.5 times smaller, for no more operations.
 */
#ifndef BS_KERNELS_CONV_WINOGRAD_H
#define BS_KERNELS_CONV_WINOGRAD_H

#if defined(BS_NO_WINOGRAD)
#define BS_WINOGRAD_FN(name) NULL
#else
#define BS_WINOGRAD_FN(name) BS_TIER_FN(name)

#define BS_WINOGRAD_A 0.75f
#define BS_WINOGRAD_B 1.5f /* must be 2a: the output transform relies on it */

/* a^k: the factor of output row y and column x is a^(y + x). */
static const float bs_conv_winograd_scale[7] = {
    1.0f, 0.75f, 0.5625f, 0.421875f, 0.31640625f, 0.2373046875f, 0.177978515625f
};
#endif

#endif
