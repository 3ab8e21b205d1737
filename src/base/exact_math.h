/* base/exact_math.h - refuses compiler options that remove promised checks or reorder sums, and keeps compilers from
 * rounding a product and a sum once instead of twice where the source does not say so (fma).
 *
 * Owns:      both, for every part: base/base.h and kernels/tier.h include it, and every part includes one.
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

/* GCC contracts a * b + c by itself unless it is told -std=c11, clang within an expression even then: the bytes of a
 * row would depend on which of two loops computes it. Clang's -ffp-contract=fast overrides this and is not supported;
 * no macro tells of it. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC optimize("fp-contract=off")
#endif

#endif
