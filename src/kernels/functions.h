/* functions.h: rows of what needs an exponential or a logarithm, and what sums a row: activations, exp, log, erf,
 * softmax, layer and RMS norm; argmax and argmin.
 *
 * Owns:      the one arithmetic of sigmoid, tanh, gelu, silu, exp, log and erf on a CPU, whichever op asks for it.
 * Relies on: tier.h.
 * Must never: call libm for an element: its result is the same wherever it stands in a row, however long that is.
 *
 * Steps are in floats; each may be anything, and rows of the same numbers give the same bytes at any step. A row may be
 * computed in place: x == y with equal steps. A tier that is not available runs as BS_TIER_SCALAR. Sums have an order
 * that the tier and n fix. Infinities and NaN come out as the formulas say.
 *
 * Errors, against the real result in units in its last place, wherever it is a normal number; elsewhere in those of the
 * smallest number. test_functions.c measures them, over all floats:
 *
 *                                         bound  worst
 *     sigmoid   1 / (1 + e^-x)             2.5    2.5
 *     silu      x / (1 + e^-x)             2.5    2.4   silu(-inf) is NaN, as the quotient is
 *     tanh                                 2.7    2.7
 *     gelu      x / 2 (1 + erf(x / 2^.5))  8      7.0   in the lower tail; 3.1 above 0
 *     exp                                  1.5    1.1
 *     log                                  1.5    0.9
 *     erf                                  1.5    1.2
 *     softmax                              6      4.2   of differences x - top as floats have them
 *     layer norm: 4 times 2^-24 of |bias| + |weight| (1 + largest |x| / sqrt(variance + epsilon))
 *     RMS norm                             4      3.4   where the mean of squares is a normal number
 */
#ifndef BS_KERNELS_FUNCTIONS_H
#define BS_KERNELS_FUNCTIONS_H

#include "kernels/tier.h"

/* Whether an activation is one of those that bs_row_function computes. */
static inline bool bs_is_function(bs_act act)
{
    return act == BS_SIGMOID || act == BS_TANH || act == BS_GELU || act == BS_SILU;
}

/* n elements from x to y. */
void bs_row_function(bs_tier tier, bs_act act, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step,
                     int64_t n);

/* The same of kinds of the op `unary`: those that bs_row_unary computes. */
static inline bool bs_is_row_unary(bs_unary_kind kind)
{
    return kind == BS_UNARY_EXP || kind == BS_UNARY_LOG || kind == BS_UNARY_ERF;
}
void bs_row_unary(bs_tier tier, bs_unary_kind kind, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step,
                  int64_t n);

/* e^(x - top) over the sum of these; n > 0. A row with a NaN, or +inf, or nothing above -inf, is NaN. */
void bs_row_softmax(bs_tier tier, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step, int64_t n);

/* Where the largest element of a row stands, or with `least` the smallest; n > 0. Of equal ones the first; a NaN counts
 * only where it is element 0, and then it is the answer. A small library (BS_SMALL) does without it. */
#ifndef BS_SMALL
int64_t bs_row_place_of_best(bs_tier tier, const float *x, int64_t n, bool least);
#endif

/* Layer norm: (x - mean) / sqrt(variance + epsilon) * weight + bias; weight and bias have step 1. */
typedef struct bs_row_norm {
    const float *weight, *bias; /* bias NULL: RMS norm, x / sqrt(mean of x^2 + epsilon) * weight */
    float epsilon;
    int32_t n;
} bs_row_norm;
void bs_row_normalise(bs_tier tier, const bs_row_norm *norm, const float *x, ptrdiff_t x_step, float *y,
                      ptrdiff_t y_step);

/* A step of n units of an LSTM: sums of i, f, o and g behind each other, n of each; c' = f c + i g, h' = o tanh(c'). As
 * by rows of sigmoid and tanh, but c' is rounded once less. c_out may be c. */
void bs_row_lstm(bs_tier tier, const float *sums, const float *c, float *c_out, float *h_out, int64_t n);

#endif
