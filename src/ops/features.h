/* ops/features.h - from the sums of patch_features to the small integers that are the keys of a routing table.
 * Relies on base/base.h. Must never use floating point: decisions must be the same on every machine. */
#ifndef BS_OPS_FEATURES_H
#define BS_OPS_FEATURES_H

#include "base/base.h"

#define BS_FEATURE_BUCKETS 64
#define BS_FEATURE_MOST    128 /* bucket of 2^32 - 1, where sums saturate */

/* Codes of more than 8 bits are shifted right by this many bits. */
static inline int32_t bs_feature_shift(int32_t code_bits) { return bs_or_default(code_bits, 16) - 8; }

/* floor(4 log2(v)), v > 0: the top bit, and quarters by comparing v, shifted up to 2^31 .. 2^32, with 2^(31 + j/4). */
static inline BS_BOTH int32_t bs_quarter_log2(uint32_t v)
{
    int32_t bit = 31;
    for (int32_t step = 16; step > 0; step /= 2)
        if (v >> (32 - step) == 0) {
            v <<= step;
            bit -= step;
        }
    return 4 * bit + (v >= 0x9837f052u) + (v >= 0xb504f334u) + (v >= 0xd744fccbu);
}

static inline BS_BOTH int32_t bs_feature_bucket(uint64_t sum, uint64_t area, int32_t buckets)
{
    const uint64_t v = 16 * sum / area;
    if (v == 0)
        return 0;
    return bs_min_i32(1 + bs_quarter_log2(v > UINT32_MAX ? UINT32_MAX : (uint32_t)v), buckets - 1);
}

#endif
