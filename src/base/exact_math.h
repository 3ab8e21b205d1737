/* base/exact_math.h - refuses compiler options that remove promised checks or reorder sums.
 *
 * Owns:      the refusal, for every part: base/base.h and kernels/tier.h include it, and every part includes one.
 * Relies on: nothing but what compilers define.
 * Must never: be left out of a part. Under -ffinite-math-only isnan() is false, so NaN scores would be accepted in
 *            silence; under the others the compiler chooses the order of every sum, and results are not the same
 *            bytes. */
#ifndef BS_EXACT_MATH_H
#define BS_EXACT_MATH_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(_M_FP_FAST)
#error "brainstorm is compiled without -ffast-math, -Ofast and their kin: NaN would pass checks, and sums be reordered"
#endif

#endif
