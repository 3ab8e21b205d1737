/* conv_pack.c: canonical weights -> what the kernels of a tier read.
 *
 * Owns:      the packed layouts, and which kernel family a geometry uses.
 * Relies on: conv_internal.h. Runs on any machine: it knows a tier's lanes, not its instructions.
 * Must never: depend on anything but (geometry, algorithm, tier): prepared records may be stored.
 *
 * Layouts, `lanes` wide, padding lanes zero:
 *   OUTER      [group][block][kernel_h][kernel_w][in / group][vectors of the block][lanes]
 *              blocks of two vectors of output channels, the last of one where that is enough
 *   GEMM       [panel][in][vectors of the panel][lanes]: three vectors, of the last panel as many as are needed
 *   DOT        [group][block of 4 outputs][kernel_h][kernel_w][vectors of in / group][4][lanes]
 *   DEPTHWISE  [vectors of channels][kernel_h][kernel_w][lanes]
 *   WINOGRAD4  [36 points] of OUTER with a 1x1 kernel; of many channels just OUTER
 *   TENSOR     f16 [group][block of 8 outputs][steps of 16 products][8 outputs][16], products in the order kernel_h,
 *              kernel_w, in / group; the kernel finds them by a table of quads, hence their limit
 */
#include "kernels/arrange.h"
#include "base/base.h"
#include "kernels/conv_internal.h"

#include <string.h>

int32_t bs_conv_lanes(bs_tier tier)
{
    switch (tier) {
    case BS_TIER_SCALAR: return 4;
    case BS_TIER_NEON: return 4;
    case BS_TIER_CUDA: return 4;
    case BS_TIER_AVX2: return 8;
    case BS_TIER_AVX512: return 16;
    case BS_TIER_AUTO: break;
    }
    return 0;
}

bs_conv_family bs_conv_family_of(const bs_conv_geometry *g, bs_tier tier)
{
    if (g->groups == g->in_channels && g->groups == g->out_channels)
        return BS_FAMILY_DEPTHWISE;
    const bool rows = g->kernel_h == 1 && g->kernel_w == 1 && g->groups == 1 && tier != BS_TIER_CUDA;
    const bs_conv_family many = rows ? BS_FAMILY_GEMM : BS_FAMILY_OUTER;
    if (tier != BS_TIER_AVX2 && tier != BS_TIER_AVX512)
        return many;
    /* Compares the shares of lanes that do useful work; reducing costs the dot kernel about a fifth. */
    const int64_t lanes = bs_conv_lanes(tier);
    const int64_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    const int64_t dot_padded = bs_conv_round_up((int32_t)out, BS_DOT_OUTPUTS) *
                               (int64_t)bs_conv_round_up((int32_t)in, (int32_t)lanes);
    const int64_t outer_padded = bs_conv_round_up((int32_t)out, (int32_t)lanes) * in;
    return dot_padded * 5 <= outer_padded * 4 ? BS_FAMILY_DOT : many;
}

static bool bs_conv_valid(const bs_conv_geometry *g)
{
    const int32_t limit = 1 << 20;
    const int32_t all[] = { g->in_channels, g->out_channels, g->kernel_h, g->kernel_w, g->stride_h,
                            g->stride_w, g->dilation_h, g->dilation_w, g->groups };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] < 1 || all[i] > limit)
            return false;
    return g->in_channels % g->groups == 0 && g->out_channels % g->groups == 0;
}

/* How many steps of 16 products make an output. */
static uint64_t bs_conv_tensor_steps(const bs_conv_geometry *g)
{
    return ((uint64_t)g->kernel_h * (uint64_t)g->kernel_w * (uint64_t)(g->in_channels / g->groups) + 15) / 16;
}

static bool bs_conv_is_tensor(const bs_conv_geometry *g, bs_tier tier)
{
    return tier == BS_TIER_CUDA && g->in_channels / g->groups % 4 == 0 && bs_conv_tensor_steps(g) <= BS_TENSOR_STEPS;
}

bool bs_conv_can_prepare(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier)
{
    if (bs_conv_lanes(tier) == 0 || !bs_conv_valid(g))
        return false;
    return algorithm == BS_CONV_DIRECT || (algorithm == BS_CONV_TENSOR && bs_conv_is_tensor(g, tier)) ||
           (algorithm == BS_CONV_WINOGRAD4 && tier != BS_TIER_CUDA && bs_conv_winograd_fits(g));
}

size_t bs_conv_prepared_floats(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier)
{
    if (!bs_conv_can_prepare(g, algorithm, tier))
        return 0;
    const int32_t lanes = bs_conv_lanes(tier);
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    uint64_t factors[4] = { (uint64_t)g->kernel_h * (uint64_t)g->kernel_w, (uint64_t)g->groups, (uint64_t)in,
                            (uint64_t)bs_conv_round_up(out, lanes) };
    if (algorithm == BS_CONV_WINOGRAD4) {
        factors[0] = bs_conv_winograd_stores(g) ? BS_WINOGRAD_POINTS : factors[0];
    } else if (algorithm == BS_CONV_TENSOR) {
        factors[0] = bs_conv_tensor_steps(g);
        factors[2] = 8; /* 16 f16 */
        factors[3] = (uint64_t)bs_conv_round_up(out, 8);
    } else if (bs_conv_family_of(g, tier) == BS_FAMILY_DEPTHWISE) {
        factors[1] = factors[2] = 1;
        factors[3] = (uint64_t)bs_conv_round_up(g->out_channels, lanes);
    } else if (bs_conv_family_of(g, tier) == BS_FAMILY_DOT) {
        factors[2] = (uint64_t)bs_conv_round_up(in, lanes);
        factors[3] = (uint64_t)bs_conv_round_up(out, BS_DOT_OUTPUTS);
    }
    uint64_t floats = 1;
    for (int32_t i = 0; i < 4; i++) {
        if (floats > SIZE_MAX / sizeof(float) / factors[i])
            return 0;
        floats *= factors[i];
    }
    return (size_t)floats;
}

/* One group of OUTER, or of GEMM. `taps` = kernel_h * kernel_w; weights are [out][in][taps]. Returns the end.
 * Weights are read in order, each channel's to its lane: streamed weights are packed while a network waits. */
static float *bs_conv_pack_outer(bs_tier tier, const float *weights, int32_t out, int32_t in, int32_t taps,
                                 int32_t lanes, int32_t vectors, float *to)
{
    for (int32_t first = 0; first < out;) {
        const int32_t width = bs_conv_min(vectors * lanes, bs_conv_round_up(out - first, lanes)),
                      valid = out - first < width ? out - first : width;
        const size_t floats = (size_t)taps * (size_t)in * (size_t)width;
        const float *from = weights + (ptrdiff_t)first * in * taps;
        if (valid < width)
            memset(to, 0, floats * sizeof *to);
        if (taps == 1)
            bs_transpose_f32(tier, from, in, valid, in, to, width);
        for (int32_t lane = 0; taps > 1 && lane < valid; lane++)
            for (int32_t i = 0; i < in; i++)
                for (int32_t tap = 0; tap < taps; tap++)
                    to[((ptrdiff_t)tap * in + i) * width + lane] = *from++;
        to += floats;
        first += width;
    }
    return to;
}

/* One group of DOT. */
static float *bs_conv_pack_dot(const float *weights, int32_t out, int32_t in, int32_t taps, int32_t lanes,
                               float *to)
{
    for (int32_t first = 0; first < out; first += BS_DOT_OUTPUTS)
        for (int32_t tap = 0; tap < taps; tap++)
            for (int32_t i = 0; i < in; i += lanes)
                for (ptrdiff_t o = first; o < first + BS_DOT_OUTPUTS; o++)
                    for (int32_t lane = 0; lane < lanes; lane++)
                        *to++ = o < out && i + lane < in ? weights[(o * in + i + lane) * taps + tap] : 0.0f;
    return to;
}

static void bs_conv_pack_depthwise(const float *weights, int32_t channels, int32_t taps, int32_t lanes, float *to)
{
    for (int32_t first = 0; first < channels; first += lanes)
        for (int32_t tap = 0; tap < taps; tap++)
            for (ptrdiff_t c = first; c < first + lanes; c++)
                *to++ = c < channels ? weights[c * taps + tap] : 0.0f;
}

/* One group of TENSOR. */
static uint16_t *bs_conv_pack_tensor(const float *weights, int32_t out, int32_t in, int32_t taps, uint16_t *to)
{
    const int32_t products = taps * in;
    for (int32_t first = 0; first < out; first += 8)
        for (int32_t step = 0; step < products; step += 16)
            for (ptrdiff_t o = first; o < first + 8; o++)
                for (int32_t i = step; i < step + 16; i++)
                    *to++ = o < out && i < products ? bs_f32_to_f16(weights[(o * in + i % in) * taps + i / in]) : 0;
    return to;
}

void bs_conv_prepare(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier, const float *oihw,
                     float *prepared)
{
    if (bs_conv_prepared_floats(g, algorithm, tier) == 0)
        return;
    const int32_t lanes = bs_conv_lanes(tier), taps = g->kernel_h * g->kernel_w;
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    const bs_conv_family family = algorithm == BS_CONV_WINOGRAD4 ? BS_FAMILY_OUTER : bs_conv_family_of(g, tier);
    const int32_t vectors = family == BS_FAMILY_GEMM ? BS_GEMM_VECTORS : 2;
    if (algorithm == BS_CONV_WINOGRAD4 && bs_conv_winograd_stores(g)) {
        bs_conv_winograd_pack(oihw, out, in, lanes, prepared);
        return;
    }
    if (algorithm == BS_CONV_TENSOR) {
        uint16_t *to = (uint16_t *)(void *)prepared;
        for (int32_t group = 0; group < g->groups; group++)
            to = bs_conv_pack_tensor(oihw + (size_t)group * (size_t)out * (size_t)in * (size_t)taps, out, in, taps, to);
        return;
    }
    if (family == BS_FAMILY_DEPTHWISE) {
        bs_conv_pack_depthwise(oihw, out * g->groups, taps, lanes, prepared);
        return;
    }
    for (int32_t group = 0; group < g->groups; group++, oihw += (size_t)out * (size_t)in * (size_t)taps)
        prepared = family == BS_FAMILY_DOT ? bs_conv_pack_dot(oihw, out, in, taps, lanes, prepared)
                                           : bs_conv_pack_outer(tier, oihw, out, in, taps, lanes, vectors, prepared);
}
