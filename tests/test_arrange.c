/* tags: small asan shipped aarch64 32-bit */
/* test_arrange.c - weights are moved and widened to the same bytes on every tier, at every size. */
#include "check.h"
#include "kernels/arrange.h"

#include <math.h>
#include <string.h>

#define MOST 50

float bs_f16_to_f32(uint16_t h); /* base/dtype.c */

static const bs_tier tiers[] = {BS_TIER_SCALAR, BS_TIER_AVX2, BS_TIER_AVX512, BS_TIER_NEON};

static bool transposes(bs_tier tier, int32_t rows, int32_t columns)
{
    static float from[MOST * MOST], to[MOST * MOST];
    const int32_t from_row = columns + check_below(3), to_row = rows + check_below(3);
    bool right = true;
    for (int32_t i = 0; i < rows * from_row; i++)
        from[i] = (float)(i + 1);
    memset(to, 0, sizeof to);
    bs_transpose_f32(tier, from, from_row, rows, columns, to, to_row);
    for (int32_t c = 0; c < columns; c++)
        for (int32_t r = 0; r < to_row; r++) /* what lies between two rows stays as it was */
            right = right && to[c * to_row + r] == (r < rows ? from[r * from_row + c] : 0.0f);
    return right;
}

static bool widens(bs_tier tier)
{
    uint16_t from[64];
    float to[64];
    for (uint32_t first = 0; first < 65536; first += 64) {
        for (uint32_t i = 0; i < 64; i++)
            from[i] = (uint16_t)(first + i);
        bs_widen64_f16(tier, from, to);
        for (uint32_t i = 0; i < 64; i++) {
            const float want = bs_f16_to_f32(from[i]);
            if (isnan(want) ? !isnan(to[i]) : memcmp(&want, &to[i], sizeof want) != 0)
                return false;
        }
    }
    return true;
}

#ifndef BS_SMALL
/* Tiers with vectors take channels in eights, on NEON in fours; what lies behind the lines stays as it was. */
static bool shuffles(bs_tier tier, int32_t pixels, int32_t channels)
{
    enum { PIXELS = 5, CHANNELS = 24, LINE = 2 * PIXELS * CHANNELS + 7 };
    static float from[4 * PIXELS * CHANNELS], to[2 * LINE];
    bool right = true;
    for (int32_t i = 0; i < 4 * pixels * channels; i++)
        from[i] = (float)(i + 1);
    memset(to, 0, sizeof to);
    const bool done = bs_shuffle_pairs_f32(tier, from, pixels, channels, to, LINE);
    for (int32_t i = 0; i < 2 * LINE; i++) {
        const int32_t line = i / LINE, x = i % LINE / channels, c = i % LINE % channels;
        const float want = (float)((x / 2 * channels + c) * 4 + 2 * line + x % 2 + 1);
        right = right && to[i] == (done && x < 2 * pixels ? want : 0.0f);
    }
    return right && done == (tier != BS_TIER_SCALAR && channels % (tier == BS_TIER_NEON ? 4 : 8) == 0);
}
#endif

int main(void)
{
    check_seed(1);
    for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
        int32_t wrong = 0;
        if (!bs_tier_available(tiers[t]))
            continue;
        for (int32_t rows = 1; rows < MOST - 3; rows++)
            for (int32_t columns = 1; columns < MOST - 3; columns += 1 + check_below(4))
                wrong += !transposes(tiers[t], rows, columns);
        check(wrong == 0, "%s transposes every size", bs_tier_name(tiers[t]));
#ifndef BS_SMALL
        wrong = 0;
        for (int32_t channels = 1; channels <= 24; channels++)
            for (int32_t pixels = 0; pixels <= 5; pixels++)
                wrong += !shuffles(tiers[t], pixels, channels);
        check(wrong == 0, "%s shuffles pairs of every size that it says it does", bs_tier_name(tiers[t]));
#endif
        check(widens(tiers[t]), "%s widens every half float", bs_tier_name(tiers[t]));
    }
    return check_end();
}
