/* tier.c: finds out what this processor and its operating system can run.
 *
 * Owns:      the probe. Relies on: CPUID and XGETBV on x86-64; NEON is part of AArch64.
 * Must never: store the result (no globals): probing costs about 100 ns, and sessions keep the result.
 */
#include "kernels/tier.h"

#include "base/base.h"

#if BS_HAVE_X86_TIERS
#include <cpuid.h>

/* Bits of CPUID leaf 1 ECX, leaf 7 EBX, and of XCR0 (which registers the system saves). */
enum {
    BS_CPUID_FMA = 1 << 12,
    BS_CPUID_OSXSAVE = 1 << 27,
    BS_CPUID_AVX = 1 << 28,
    BS_CPUID_F16C = 1 << 29,
    BS_CPUID_AVX2 = 1 << 5,
    BS_XCR0_AVX = 0x06,
    BS_XCR0_AVX512 = 0xe6
};
#define BS_CPUID_AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) /* F, DQ, BW, VL */

static bs_tier bs_tier_probe(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return BS_TIER_SCALAR;
    const unsigned need = BS_CPUID_FMA | BS_CPUID_OSXSAVE | BS_CPUID_AVX | BS_CPUID_F16C;
    if ((c & need) != need)
        return BS_TIER_SCALAR;
    unsigned xcr0, high;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    (void)high;
    if ((xcr0 & BS_XCR0_AVX) != BS_XCR0_AVX || __get_cpuid_max(0, NULL) < 7)
        return BS_TIER_SCALAR;
    __cpuid_count(7, 0, a, b, c, d);
    if (!(b & BS_CPUID_AVX2))
        return BS_TIER_SCALAR;
    const bool wide = BS_HAVE_AVX512_TIER && (b & BS_CPUID_AVX512) == BS_CPUID_AVX512 &&
                      (xcr0 & BS_XCR0_AVX512) == BS_XCR0_AVX512;
    return wide ? BS_TIER_AVX512 : BS_TIER_AVX2;
}
#elif BS_HAVE_NEON_TIER
static bs_tier bs_tier_probe(void)
{
    return BS_TIER_NEON;
}
#else
static bs_tier bs_tier_probe(void)
{
    return BS_TIER_SCALAR;
}
#endif

bs_tier bs_tier_best(void)
{
    return bs_tier_probe();
}

/* The x86 tiers are ordered in the enum; NEON is never in the same build. */
bool bs_tier_available(bs_tier tier)
{
    if (tier == BS_TIER_AUTO || (tier == BS_TIER_SCALAR && BS_HAVE_SCALAR_KERNELS))
        return true;
    if (tier == BS_TIER_CUDA)
        return false;
    const bs_tier best = bs_tier_probe();
    if (tier == BS_TIER_NEON || best == BS_TIER_NEON)
        return tier == best;
    return tier == BS_TIER_AVX2 ? best >= BS_TIER_AVX2 : tier == best;
}

const char *bs_tier_name(bs_tier tier)
{
    return bs_name_of("auto\0scalar\0avx2\0avx512\0neon\0cuda", tier, BS_TIER_CUDA + 1);
}
