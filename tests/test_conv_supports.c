/* tags: asan */
/* Promises: what no convolution can be is refused, with size 0 and no crash; a workstation plans for tiers that it
 * lacks; only small layers keep weights transformed for Winograd. */
#include "check.h"
#include "kernels/conv.h"

static void test_refusals(void)
{
    static const bs_conv_geometry bad[] = {
        {0, 1, 1, 1, 1, 1, 1, 1, 1},  {1, 1, 0, 1, 1, 1, 1, 1, 1},  {1, 1, 1, 1, -1, 1, 1, 1, 1},
        {4, 4, 3, 3, 1, 1, 1, 1, 3},  {4, 6, 3, 3, 1, 1, 1, 1, 4},  {1, 1, 1, 1, 1, 1, 1, 1, 0},
        {1 << 20, 1 << 20, 1 << 20, 1 << 20, 1, 1, 1, 1, 1}, /* wraps to 0, and to something else: */
        {1 << 20, 1 << 20, (1 << 20) - 1, (1 << 20) - 1, 1, 1, 1, 1, 1},
    };
    for (int32_t i = 0; i < (int32_t)(sizeof bad / sizeof bad[0]); i++)
        for (int tier = BS_TIER_AUTO; tier <= BS_TIER_NEON; tier++)
            check(!bs_conv_supports(&bad[i], BS_CONV_DIRECT, (bs_tier)tier) &&
                      !bs_conv_supports(&bad[i], BS_CONV_WINOGRAD4, (bs_tier)tier) &&
                      bs_conv_prepared_floats(&bad[i], BS_CONV_DIRECT, (bs_tier)tier) == 0,
                  "bad geometry %d is refused, tier %d", i, tier);
    static const bs_conv_geometry no_winograd[] = {
        {8, 8, 3, 3, 2, 1, 1, 1, 1}, {8, 8, 5, 5, 1, 1, 1, 1, 1}, {8, 8, 3, 3, 1, 1, 1, 1, 2}};
    for (int32_t i = 0; i < (int32_t)(sizeof no_winograd / sizeof no_winograd[0]); i++)
        check(!bs_conv_supports(&no_winograd[i], BS_CONV_WINOGRAD4, BS_TIER_SCALAR), "geometry %d is not for Winograd",
              i);
}

static void test_tiers(void)
{
    const bs_conv_geometry g = {16, 16, 3, 3, 1, 1, 1, 1, 1};
    for (int tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
        check(bs_conv_supports(&g, BS_CONV_DIRECT, (bs_tier)tier) &&
                  bs_conv_supports(&g, BS_CONV_WINOGRAD4, (bs_tier)tier),
              "tier %d can be planned for, whatever this machine is", tier);
}

/* Transformed weights take four times the bytes. */
static void test_stored(void)
{
    const bs_conv_geometry small = {64, 64, 3, 3, 1, 1, 1, 1, 1}, large = {128, 64, 3, 3, 1, 1, 1, 1, 1};
    for (int tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
        check(bs_conv_prepared_floats(&large, BS_CONV_WINOGRAD4, (bs_tier)tier) ==
                      bs_conv_prepared_floats(&large, BS_CONV_DIRECT, (bs_tier)tier) &&
                  bs_conv_prepared_floats(&small, BS_CONV_WINOGRAD4, (bs_tier)tier) ==
                      4 * bs_conv_prepared_floats(&small, BS_CONV_DIRECT, (bs_tier)tier),
              "tier %d: 64 -> 64 channels keep transformed weights, 128 -> 64 do not", tier);
}

int main(void)
{
    check_seed(1);
    test_refusals();
    test_tiers();
    test_stored();
    return check_end();
}
