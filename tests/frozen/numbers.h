/* numbers.h - the numbers of the frozen graphs: fractions with every bit of a mantissa, zeros of both signs,
 * subnormals, infinities and NaN, and the pool that all weights are parts of.
 *
 * Owns: the pools. Relies on check.h. Must never compute a float other than by one exact operation, or one that IEEE
 * 754 rounds: every compiler makes the same numbers. */
#ifndef BS_FROZEN_NUMBERS_H
#define BS_FROZEN_NUMBERS_H

#include "check.h"

#include <stdbool.h>

/* The generator itself is wrong: a table of its own is full. */
static inline void fz_stop(const char *where)
{
    printf("the generator has no room in %s\n", where);
    exit(2);
}

/* What the inputs of a graph hold. Infinities and NaN spread and hide everything else: few graphs have them. */
typedef enum fz_flavour {
    FZ_FRACTIONS, /* small, some large and some tiny ones among them: any other order of a sum shows */
    FZ_STEPS,     /* multiples of 1/4: scores are often equal */
    FZ_TINY,      /* around the smallest normal number: most results are subnormal */
    FZ_HUGE,      /* some products overflow */
    FZ_INFINITE,  /* fractions, and an infinity here and there */
    FZ_NAN        /* fractions, and NaN here and there */
} fz_flavour;

static inline bool fz_chance(int32_t percent) { return check_below(100) < percent; }
static inline int32_t fz_between(int32_t low, int32_t high) { return low + check_below(high - low + 1); }

/* Numbers that depend on nothing else that was drawn. */
CHECK_WRAPS static inline void fz_dice(uint32_t seed, uint32_t what)
{
    check_state = check_mixed(((uint64_t)what << 32 | seed) * 2654435761u + 97);
}

CHECK_WRAPS static inline uint32_t fz_mix(uint32_t h, uint32_t word)
{
    h = (h ^ word) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return h ^ h >> 16;
}

static inline uint32_t fz_mix_text(uint32_t h, const char *text)
{
    for (; *text; text++)
        h = fz_mix(h, (uint32_t)(unsigned char)*text);
    return h;
}

static inline float fz_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* All of a random mantissa, a sign, and 2^exponent. */
static inline float fz_fraction(int32_t exponent)
{
    const uint32_t r = check_random();
    return fz_from_bits((r & 0x807FFFFFu) | (uint32_t)(exponent + 127) << 23);
}

static inline float fz_common(void)
{
    const int32_t what = check_below(64);
    switch (what) {
    case 0:
        return fz_from_bits(0x80000000u);
    case 1:
        return fz_from_bits(check_random() & 0x807FFFFFu); /* subnormal */
    case 2:
        return 0.0f;
    case 3:
    case 4:
        return fz_fraction(fz_between(5, 11));
    case 5:
    case 6:
        return fz_fraction(fz_between(-30, -9));
    default:
        return fz_fraction((what & 7) - 5);
    }
}

static inline float fz_number(fz_flavour flavour)
{
    switch (flavour) {
    case FZ_STEPS:
        return fz_chance(4) ? fz_from_bits(0x80000000u) : (float)fz_between(-8, 8) * 0.25f;
    case FZ_TINY:
        return fz_chance(25) ? fz_fraction(fz_between(-126, -118)) : fz_common() * 0x1p-126f;
    case FZ_HUGE:
        return fz_chance(3) ? fz_fraction(fz_between(58, 66)) : fz_common();
    case FZ_INFINITE:
        return check_below(200) == 0 ? fz_from_bits(0x7F800000u | check_random() << 31) : fz_common();
    case FZ_NAN:
        return check_below(200) == 0 ? fz_from_bits(0x7FC00000u) : fz_common();
    case FZ_FRACTIONS:
        break;
    }
    return fz_common();
}

/* ------------------------------------------------------------------------------------------------------ the pools */

/* Weights are not made for each graph: a tensor is a part of a pool, from a place that its name says. A pool for each
 * power of two, so that sums of many products stay as large as what goes in. */
enum { FZ_POOL = 1 << 19, FZ_PLACES = 1 << 13, FZ_SHIFTS = 8, FZ_ALL = FZ_POOL + FZ_PLACES };

static float fz_floats[FZ_SHIFTS][FZ_ALL], fz_positive[FZ_PLACES * 2];
static uint16_t fz_halves[FZ_SHIFTS][FZ_ALL], fz_brains[FZ_SHIFTS][FZ_ALL];
static bool fz_floats_there[FZ_SHIFTS], fz_halves_there[FZ_SHIFTS], fz_brains_there[FZ_SHIFTS];

/* Between 2^(-4 - shift) and 2^(-shift), now and then more or next to nothing. */
static inline float fz_weight(int32_t shift)
{
    const int32_t what = check_below(128);
    if (what == 0)
        return fz_from_bits(0x80000000u);
    if (what == 1)
        return fz_from_bits(check_random() & 0x807FFFFFu);
    return fz_fraction((what == 2 ? 3 : what == 3 ? -20 : (what & 3) - 4) - shift);
}

static inline const float *fz_pool(int32_t shift)
{
    const uint64_t kept = check_state;
    fz_dice((uint32_t)shift, 1);
    for (int32_t i = 0; i < FZ_ALL && !fz_floats_there[shift]; i++)
        fz_floats[shift][i] = fz_weight(shift);
    fz_floats_there[shift] = true;
    check_state = kept;
    return fz_floats[shift];
}

/* Sixteen bits: exponents around `middle`, which is 15 - 3 of f16 and 127 - 3 of bf16. */
static inline const uint16_t *fz_pool_16(uint16_t *pool, bool *there, int32_t shift, int32_t mantissa, int32_t middle)
{
    const uint64_t kept = check_state;
    fz_dice((uint32_t)shift, 2 + (uint32_t)mantissa);
    for (int32_t i = 0; i < FZ_ALL && !*there; i++) {
        const uint32_t r = check_random(), tiny = (r >> 16 & 63) == 0; /* zeros and subnormals */
        const uint32_t exponent = tiny ? 0 : (uint32_t)(middle - shift + (int32_t)(r >> 24 & 3) - 1);
        pool[i] = (uint16_t)((r & 0x8000u) | exponent << mantissa | (r & ((1u << mantissa) - 1)));
    }
    *there = true;
    check_state = kept;
    return pool;
}

static inline const uint16_t *fz_pool_f16(int32_t shift)
{
    return fz_pool_16(fz_halves[shift], &fz_halves_there[shift], shift, 10, 12);
}

static inline const uint16_t *fz_pool_bf16(int32_t shift)
{
    return fz_pool_16(fz_brains[shift], &fz_brains_there[shift], shift, 7, 124);
}

/* Variances: above 0. */
static inline const float *fz_pool_positive(void)
{
    const uint64_t kept = check_state;
    fz_dice(0, 20);
    for (int32_t i = 0; i < 2 * FZ_PLACES && fz_positive[i] == 0.0f; i++) {
        const uint32_t mantissa = check_random() & 0x007FFFFFu;
        fz_positive[i] = fz_from_bits(mantissa | (uint32_t)(125 + check_below(4)) << 23);
    }
    check_state = kept;
    return fz_positive;
}

#endif
