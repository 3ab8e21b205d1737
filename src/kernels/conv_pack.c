/* conv_pack.c: canonical weights -> what the kernels of a tier read.
 *
 * Owns:      the packed layouts, and which kernel family a geometry uses.
 * Relies on: conv_internal.h. Runs on any machine: it knows a tier's lanes, not its instructions.
 * Must never: depend on anything but (geometry, algorithm, tier): prepared records may be stored.
 *
 * Layouts, `lanes` wide, padding lanes zero:
 *   OUTER      [group][block][kernel_h][kernel_w][in / group][vectors of the block][lanes]
 *              blocks of two vectors of output channels, the last of one where that is enough
 *   GEMM       [group][panel][in / group][vectors of the panel][lanes]: three vectors, of a last panel as many as are
 *              needed
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
    const bool rows = g->kernel_h == 1 && g->kernel_w == 1 && tier != BS_TIER_CUDA;
    const bs_conv_family many = rows ? BS_FAMILY_GEMM : BS_FAMILY_OUTER;
    if (tier != BS_TIER_AVX2 && tier != BS_TIER_AVX512)
        return many;
    /* Compares the shares of lanes that do useful work; reducing costs the dot kernel about a fifth. */
    const int64_t lanes = bs_conv_lanes(tier);
    const int64_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    if ((out & (lanes - 1)) == 0) /* they all do where they are output channels; this spares each call divisions */
        return many;
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

/* Where outputs of a group go. */
typedef struct bs_packing {
    bs_tier tier;
    bs_conv_algorithm algorithm;
    bool dot, points;              /* DOT; transformed for WINOGRAD4 */
    int32_t lanes, in, out, taps;  /* of a group */
    int32_t width;                 /* outputs of a block */
    size_t each;                   /* floats of an output; of points, at one of them */
} bs_packing;

static bs_packing bs_packing_of(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier)
{
    const bs_conv_family family = bs_conv_family_of(g, tier);
    const bool direct = algorithm == BS_CONV_DIRECT;
    bs_packing p = { .tier = tier, .algorithm = algorithm, .dot = direct && family == BS_FAMILY_DOT,
                     .points = algorithm == BS_CONV_WINOGRAD4 && bs_conv_winograd_stores(g),
                     .lanes = bs_conv_lanes(tier), .in = g->in_channels / g->groups,
                     .out = g->out_channels / g->groups, .taps = g->kernel_h * g->kernel_w };
    p.width = p.lanes * (direct && family == BS_FAMILY_GEMM ? BS_GEMM_VECTORS : 2);
    p.each = (size_t)p.in * (size_t)(p.points ? 1 : p.taps);
    if (algorithm == BS_CONV_TENSOR) {
        p.width = 8;
        p.each = 8 * (size_t)bs_conv_tensor_steps(g);
    } else if (p.dot) {
        p.width = BS_DOT_OUTPUTS;
        p.each = (size_t)p.taps * (size_t)bs_conv_round_up(p.in, p.lanes);
    } else if (direct && family == BS_FAMILY_DEPTHWISE) { /* one group of one input, in blocks of one vector */
        p.out = g->out_channels;
        p.width = p.lanes;
    }
    return p;
}

/* OUTER and GEMM: outputs from the first one's lane on, in a block of `width`. Weights are read in order, each
 * channel's to its lane: streamed weights are packed while a network waits. */
static void bs_conv_pack_outer(const bs_packing *p, const float *from, int32_t outputs, int32_t width, float *to)
{
    if (p->taps == 1)
        bs_transpose_f32(p->tier, from, p->in, outputs, p->in, to, width);
    for (int32_t lane = 0; p->taps > 1 && lane < outputs; lane++)
        for (int32_t i = 0; i < p->in; i++)
            for (int32_t tap = 0; tap < p->taps; tap++)
                to[((ptrdiff_t)tap * p->in + i) * width + lane] = *from++;
}

/* One output, from its first lane on. */
static void bs_conv_pack_dot(const bs_packing *p, const float *from, float *to)
{
    const int32_t padded = bs_conv_round_up(p->in, p->lanes);
    for (int32_t i = 0; i < p->in; i++)
        for (int32_t tap = 0; tap < p->taps; tap++)
            to[((ptrdiff_t)tap * padded + i / p->lanes * p->lanes) * BS_DOT_OUTPUTS + i % p->lanes] = *from++;
}

/* One output, from its first product on. */
static void bs_conv_pack_tensor(const bs_packing *p, const float *from, uint16_t *to)
{
    for (int32_t i = 0; i < p->in; i++)
        for (int32_t tap = 0; tap < p->taps; tap++) {
            const int32_t product = tap * p->in + i;
            to[product / 16 * 128 + product % 16] = bs_f32_to_f16(*from++);
        }
}

/* Outputs of one block, from its output `lane` on. */
static void bs_conv_pack_block(const bs_packing *p, const float *from, int32_t lane, int32_t outputs, int32_t width,
                               float *block)
{
    const ptrdiff_t each = (ptrdiff_t)p->in * p->taps;
    if (p->points)
        bs_conv_winograd_pack(from, outputs, p->in, width, (ptrdiff_t)p->in * bs_conv_round_up(p->out, p->lanes),
                              block + lane);
    else if (p->algorithm != BS_CONV_TENSOR && !p->dot)
        bs_conv_pack_outer(p, from, outputs, width, block + lane);
    for (int32_t o = 0; o < outputs && p->dot; o++)
        bs_conv_pack_dot(p, from + o * each, block + (ptrdiff_t)(lane + o) * p->lanes);
    for (int32_t o = 0; o < outputs && p->algorithm == BS_CONV_TENSOR; o++)
        bs_conv_pack_tensor(p, from + o * each, (uint16_t *)(void *)block + (ptrdiff_t)(lane + o) * 16);
}

void bs_conv_prepare_rows(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier, int32_t first,
                          int32_t count, const float *rows, float *prepared)
{
    const size_t floats = bs_conv_prepared_floats(g, algorithm, tier);
    if (floats == 0)
        return;
    const bs_packing p = bs_packing_of(g, algorithm, tier);
    if (p.lanes == 0)
        return; /* unreachable: such a tier prepares nothing */
    const size_t group = floats / (size_t)(g->out_channels / p.out); /* NOLINT(clang-analyzer-core.DivideZero): >= 1 */
    if (first == 0 && (p.dot || algorithm == BS_CONV_TENSOR || p.out % p.lanes != 0)) /* there may be padding */
        memset(prepared, 0, floats * sizeof *prepared);
    while (count > 0) {
        const int32_t lane = first % p.out % p.width, begin = first % p.out - lane, left = p.out - begin;
        const int32_t outputs = bs_conv_min(count, bs_conv_min(p.width, left) - lane);
        const size_t at = (size_t)(first / p.out) * group + (size_t)begin * p.each;
        bs_conv_pack_block(&p, rows, lane, outputs, bs_conv_min(p.width, bs_conv_round_up(left, p.lanes)),
                           prepared + at);
        first += outputs;
        count -= outputs;
        rows += (ptrdiff_t)outputs * p.in * p.taps;
    }
}

void bs_conv_prepare(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier, const float *oihw,
                     float *prepared)
{
    bs_conv_prepare_rows(g, algorithm, tier, 0, g->out_channels, oihw, prepared);
}
