/* base/exact_math.h - refuses compilers' options under which promised checks vanish and sums are reordered.
 *
 * Owns:      the refusal, for every part: base/base.h and kernels/tier.h include it, and one of them stands in each.
 * Relies on: nothing but what compilers define.
 * Must never: be left out of a part. Under -ffinite-math-only isnan() is false, so NaN scores would be accepted in
 *            silence; under the others the order of every sum, by which results are the same bytes, is the compiler's
 *            choice. */
#ifndef BS_EXACT_MATH_H
#define BS_EXACT_MATH_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(_M_FP_FAST)
#error "brainstorm is compiled without -ffast-math, -Ofast and their kin: NaN would pass checks, and sums be reordered"
#endif

#endif
