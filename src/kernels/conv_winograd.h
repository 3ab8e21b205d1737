/* conv_winograd.h: the constants of F(4x4, 3x3).
 *
 * Owns:      the interpolation points 0, +-a, +-b, infinity with a = 3/4, b = 3/2, the factors a^k, and the matrix that
 *            transforms weights.
 * Relies on: nothing.
 * Must never: be changed in one place only: the transforms of inputs and outputs use the same points.
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

/* G of the points 0, a, -a, b, -b, infinity: row p is (1, p, p^2) / product of (p - q) over the other finite
 * points q. The last row is over a^3, which the output's factor a^3 gives back (conv_winograd.inc). */
#define BS_WINOGRAD_AA ((double)BS_WINOGRAD_A * (double)BS_WINOGRAD_A)
#define BS_WINOGRAD_BB ((double)BS_WINOGRAD_B * (double)BS_WINOGRAD_B)
#define BS_WINOGRAD_G(p, product) { 1 / (product), (double)(p) / (product), (double)(p) * (double)(p) / (product) }
static const double bs_conv_winograd_g[6][3] = {
    { 1 / (BS_WINOGRAD_AA * BS_WINOGRAD_BB), 0, 0 },
    BS_WINOGRAD_G(BS_WINOGRAD_A, 2 * BS_WINOGRAD_AA * (BS_WINOGRAD_AA - BS_WINOGRAD_BB)),
    BS_WINOGRAD_G(-BS_WINOGRAD_A, 2 * BS_WINOGRAD_AA * (BS_WINOGRAD_AA - BS_WINOGRAD_BB)),
    BS_WINOGRAD_G(BS_WINOGRAD_B, 2 * BS_WINOGRAD_BB * (BS_WINOGRAD_BB - BS_WINOGRAD_AA)),
    BS_WINOGRAD_G(-BS_WINOGRAD_B, 2 * BS_WINOGRAD_BB * (BS_WINOGRAD_BB - BS_WINOGRAD_AA)),
    { 0, 0, 1 / (BS_WINOGRAD_AA * (double)BS_WINOGRAD_A) },
};
#endif

#endif
