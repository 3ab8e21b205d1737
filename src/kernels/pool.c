/* pool.c: instantiates pool.inc for the tiers that have vectors, and dispatches to it.
 *
 * Owns:      which tier's loops run.
 * Relies on: pool.inc and the simd_*.h.
 * Must never: be in a small library (BS_SMALL).
 */
#include "kernels/pool.h"

#ifndef BS_SMALL
#if BS_HAVE_X86_TIERS
#include "kernels/simd_avx2.h"

#include "kernels/repeat.h"

#include "kernels/pool.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_AVX512_TIER
#include "kernels/simd_avx512.h"

#include "kernels/repeat.h"

#include "kernels/pool.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_NEON_TIER
#include "kernels/simd_neon.h"

#include "kernels/repeat.h"

#include "kernels/pool.inc"
#include "kernels/simd_end.h"
#endif

bool bs_pool_window_run(bs_tier tier, const bs_pool_window *window)
{
#if BS_HAVE_AVX512_TIER
    if (tier == BS_TIER_AVX512)
        return bs_pool_avx512(window);
#endif
#if BS_HAVE_X86_TIERS
    if (tier == BS_TIER_AVX2)
        return bs_pool_avx2(window);
#elif BS_HAVE_NEON_TIER
    if (tier == BS_TIER_NEON)
        return bs_pool_neon(window);
#endif
    return (void)tier, (void)window, false;
}
#endif
