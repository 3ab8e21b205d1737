/* tier.h: which instruction set a kernel may use; the enum and the probes are public, in brainstorm.h.
 *
 * Owns:      the macros that say which tiers this build compiles.
 * Relies on: brainstorm.h (BS_NO_SIMD: scalar kernels only).
 * Must never: keep state. Callers probe once and pass the tier along, so a test can force any lower one.
 *
 *     BS_TIER_SCALAR  portable C: whatever the build's baseline is (SSE2 on x86-64); not in a small library
 *                     (BS_SMALL) on AArch64
 *     BS_TIER_AVX2    AVX2, FMA and F16C (no processor has the first without the others)
 *     BS_TIER_AVX512  AVX-512 F, BW, DQ, VL: Skylake-X, Zen 4 and later
 *     BS_TIER_NEON    AArch64 Advanced SIMD, part of its baseline
 */
#ifndef BS_KERNELS_TIER_H
#define BS_KERNELS_TIER_H

#include "brainstorm.h"
#include "base/exact_math.h"
#include "base/wrapping.h"

/* Compiled by attribute, function by function: the build needs no -m flags. */
#if !defined(BS_NO_SIMD) && !defined(BS_NO_AVX2) && defined(__x86_64__) && defined(__GNUC__)
#define BS_HAVE_X86_TIERS 1
#else
#define BS_HAVE_X86_TIERS 0
#endif

#if BS_HAVE_X86_TIERS && !defined(BS_NO_AVX512)
#define BS_HAVE_AVX512_TIER 1
#else
#define BS_HAVE_AVX512_TIER 0
#endif

#if !defined(BS_NO_SIMD) && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#define BS_HAVE_NEON_TIER 1
#else
#define BS_HAVE_NEON_TIER 0
#endif

/* Every AArch64 has NEON: a small library (BS_SMALL) has no other kernels there. */
#if defined(BS_SMALL) && BS_HAVE_NEON_TIER
#define BS_HAVE_SCALAR_KERNELS 0
#else
#define BS_HAVE_SCALAR_KERNELS 1
#endif

/* INLINE: a copy for each constant argument is wanted. OUTLINE: a rare case that would bloat a hundred kernels.
 * INLINE_IF_FAST: copies are worth their bytes, except in a small library (BS_SMALL). */
#define BS_INLINE __attribute__((always_inline))
#if defined(__clang__)
#define BS_OUTLINE __attribute__((noinline))
#else
#define BS_OUTLINE __attribute__((noinline, noclone)) /* nor a copy for constants */
#endif
#ifdef BS_SMALL
#define BS_INLINE_IF_FAST BS_OUTLINE
#else
#define BS_INLINE_IF_FAST inline BS_INLINE
#endif

#endif
