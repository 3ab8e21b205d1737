/* conv.c: runs a convolution task: cuts it into tiles and hands them to the tier's kernels.
 *
 * Owns:      the dispatch, strips and groups; conv_direct.c, conv_winograd.c, conv_depthwise.c and gemm.c run them.
 * Relies on: conv_internal.h, conv_pack.c for the layouts.
 * Must never: do arithmetic on samples.
 */
#include "kernels/conv_internal.h"

/* Bytes that a strip reads and writes; it may be up to twice as many. BESIDE: where the weights stay in the second
 * cache beside the strip. GROUPS: convolutions in groups, each of which takes a cache line or two of every pixel. */
enum { BS_CONV_STRIP = 192 << 10, BS_CONV_STRIP_BESIDE = 96 << 10, BS_CONV_STRIP_GROUPS = 24 << 10 };

const bs_conv_kernels *bs_conv_kernels_of(bs_tier tier)
{
    switch (tier) {
    case BS_TIER_SCALAR: return bs_conv_kernels_scalar();
    case BS_TIER_AVX2: return bs_conv_kernels_avx2();
    case BS_TIER_AVX512: return bs_conv_kernels_avx512();
    case BS_TIER_NEON: return bs_conv_kernels_neon();
    case BS_TIER_CUDA: break;
    case BS_TIER_AUTO: break;
    }
    return NULL;
}

bool bs_conv_supports(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier)
{
    return bs_conv_prepared_floats(geometry, algorithm, tier) > 0;
}

size_t bs_conv_scratch_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier)
{
    if (algorithm != BS_CONV_WINOGRAD4 || !bs_conv_can_prepare(geometry, algorithm, tier))
        return 0;
    return bs_conv_winograd_scratch(geometry, bs_conv_lanes(tier));
}

#ifndef BS_SMALL
int32_t bs_conv_block_outputs(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier)
{
    return algorithm == BS_CONV_WINOGRAD4 ? bs_conv_winograd_block(geometry, bs_conv_lanes(tier)) : 0;
}
#endif

/* Taps that are adjacent in memory are one long run: the order of accumulation is the same, with fewer loops. */
bs_conv_tile bs_conv_tile_of(const bs_conv_geometry *g, const bs_conv_task *task, int32_t lanes, bs_conv_family family)
{
    const int32_t in = g->in_channels / g->groups;
    bs_conv_tile tile = {
        .in_row = g->dilation_h * task->in_row,
        .in_tap = (ptrdiff_t)g->dilation_w * task->in_pixel,
        .in_step = (ptrdiff_t)g->stride_w * task->in_pixel,
        .rows = g->kernel_h,
        .taps = g->kernel_w,
        .run = in,
        .weights = task->weights,
        .out_pixel = task->out_pixel,
        .residual_pixel = task->residual_pixel,
        .task = task,
    };
    const bool whole = family == BS_FAMILY_OUTER || (family == BS_FAMILY_DOT && in % lanes == 0);
    if (whole && tile.in_tap == in && g->kernel_w <= INT32_MAX / in) {
        tile.run *= tile.taps;
        tile.taps = 1;
    }
    return tile;
}

/* Each group is a matrix of its own. */
static void bs_conv_run_groups(const bs_conv_geometry *g, const bs_conv_kernels *k, const bs_conv_task *task)
{
    bs_conv_geometry group = *g;
    bs_conv_task part = *task;
    group.in_channels /= g->groups;
    group.out_channels /= g->groups;
    group.groups = 1;
    for (int32_t i = 0; i < g->groups; i++) {
        bs_conv_run_gemm(&group, k, &part);
        part.in += group.in_channels;
        part.out += group.out_channels;
        part.weights += (ptrdiff_t)bs_conv_round_up(group.out_channels, k->lanes) * group.in_channels;
        part.bias = part.bias ? part.bias + group.out_channels : NULL;
        part.slopes = part.slopes ? part.slopes + group.out_channels : NULL;
        part.residual = part.residual ? part.residual + group.out_channels : NULL;
    }
}

static void bs_conv_run_strip(const bs_conv_geometry *g, const bs_conv_kernels *k, bs_conv_family family,
                              const bs_conv_task *task)
{
    if (family == BS_FAMILY_GEMM && g->groups == 1)
        bs_conv_run_gemm(g, k, task);
    else if (family == BS_FAMILY_GEMM)
        bs_conv_run_groups(g, k, task);
    else
        bs_conv_run_direct(g, k, family, task);
}

#ifdef BS_SMALL
#define bs_conv_run_strips bs_conv_run_strip
#else
static int32_t bs_conv_strip_bytes(const bs_conv_geometry *g, bs_conv_family family)
{
    const int64_t weights = (int64_t)g->kernel_h * g->kernel_w * g->in_channels * g->out_channels / g->groups;
    if (family != BS_FAMILY_OUTER)
        return BS_CONV_STRIP;
    if (g->groups > 1)
        return BS_CONV_STRIP_GROUPS;
    return weights * (int64_t)sizeof(float) <= 2 * BS_CONV_STRIP ? BS_CONV_STRIP_BESIDE : BS_CONV_STRIP;
}

/* Rows of a strip: all blocks of weights pass over one while it lies in the second cache. Strips are of equal size. */
static int32_t bs_conv_strip_rows(const bs_conv_geometry *g, bs_conv_family family, const bs_conv_task *task)
{
    const int64_t pixel = (int64_t)g->stride_h * g->stride_w * g->in_channels + g->out_channels;
    const int64_t bytes = task->out_h * (task->out_w * pixel) * (int64_t)sizeof(float);
    const int64_t strips = bytes / bs_conv_strip_bytes(g, family) + 1;
    return strips >= task->out_h ? 1 : bs_conv_ceil_div(task->out_h, (int32_t)strips);
}

/* A 1x1 convolution of rows that lie one after the other is one of a long row. */
static void bs_conv_join_rows(const bs_conv_geometry *g, bs_conv_task *task)
{
    const ptrdiff_t w = task->out_w;
    const bool points = g->kernel_h == 1 && g->kernel_w == 1 && g->stride_h == 1 && g->stride_w == 1;
    if (points && task->in_row == w * task->in_pixel && task->out_row == w * task->out_pixel &&
        (!task->residual || task->residual_row == w * task->residual_pixel)) {
        task->out_w *= task->out_h;
        task->out_h = 1;
    }
}

/* Fetches rows of pixels, line by line. Always inlined: compilers drop calls of what only fetches. */
static inline __attribute__((always_inline)) void bs_conv_fetch_rows(const float *from, ptrdiff_t row, int32_t rows,
                                                                     ptrdiff_t floats)
{
    for (int32_t y = 0; y < rows; y++, from += row)
        for (ptrdiff_t i = 0; i < floats; i += 16)
            __builtin_prefetch(from + i, 0, 2);
}

/* What a strip reads and writes: each group takes a line or two of a pixel, which no processor sees coming. */
static inline __attribute__((always_inline)) void bs_conv_fetch_strip(const bs_conv_geometry *g,
                                                                      const bs_conv_task *strip)
{
    const int32_t rows = (strip->out_h - 1) * g->stride_h + (g->kernel_h - 1) * g->dilation_h + 1;
    const ptrdiff_t last = (ptrdiff_t)(strip->out_w - 1) * g->stride_w + (ptrdiff_t)(g->kernel_w - 1) * g->dilation_w;
    bs_conv_fetch_rows(strip->in, strip->in_row, rows, (last + 1) * strip->in_pixel);
    bs_conv_fetch_rows(strip->out, strip->out_row, strip->out_h, (ptrdiff_t)strip->out_w * strip->out_pixel);
}

static void bs_conv_run_strips(const bs_conv_geometry *g, const bs_conv_kernels *k, bs_conv_family family,
                               const bs_conv_task *task)
{
    if (task->out_h == 1) { /* a strip, and a long row, of its own */
        bs_conv_run_strip(g, k, family, task);
        return;
    }
    const int32_t rows = bs_conv_strip_rows(g, family, task);
    for (int32_t y = 0; y < task->out_h; y += rows) {
        bs_conv_task strip = *task;
        strip.in += y * g->stride_h * task->in_row;
        strip.out += y * task->out_row;
        if (strip.residual)
            strip.residual += y * task->residual_row;
        strip.out_h = bs_conv_min(rows, task->out_h - y);
        if (family == BS_FAMILY_OUTER && g->groups > 1)
            bs_conv_fetch_strip(g, &strip);
        bs_conv_join_rows(g, &strip);
        bs_conv_run_strip(g, k, family, &strip);
    }
}
#endif

#ifdef BS_SMALL
#define bs_conv_together(geometry, family, task) ((void)(family), 1)
#else
/* Images that a block of weights passes over one after the other: those of few pixels, as many as a strip has bytes. */
static int32_t bs_conv_together(const bs_conv_geometry *g, bs_conv_family family, const bs_conv_task *task)
{
    enum { FEW = 128 };
    const int64_t pixels = (int64_t)task->out_h * task->out_w;
    if (family != BS_FAMILY_OUTER || g->groups > 1 || bs_conv_images(task) == 1 || pixels > FEW)
        return 1;
    const int64_t floats = pixels * ((int64_t)g->stride_h * g->stride_w * g->in_channels + g->out_channels);
    return (int32_t)(BS_CONV_STRIP / (int64_t)sizeof(float) / floats) + 1;
}
#endif

void bs_conv_run(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                 const bs_conv_task *task)
{
    const bs_conv_kernels *kernels = bs_conv_kernels_of(tier);
    if (!kernels || task->out_h <= 0 || task->out_w <= 0)
        return;
    const bs_conv_family family = bs_conv_family_of(geometry, tier);
    if (algorithm == BS_CONV_WINOGRAD4) {
        bs_conv_winograd_run(geometry, kernels, task);
        return;
    }
    bs_conv_task some = *task;
    const int32_t together = bs_conv_together(geometry, family, task);
    for (int32_t left = bs_conv_images(task); left > 0; left -= some.images) {
        some.images = bs_conv_min(left, together);
        if (family == BS_FAMILY_DEPTHWISE)
            bs_conv_run_depthwise(geometry, kernels, &some);
        else if (some.images > 1)
            bs_conv_run_direct(geometry, kernels, family, &some);
        else
            bs_conv_run_strips(geometry, kernels, family, &some);
        some.in += some.images * some.in_image;
        some.out += some.images * some.out_image;
        if (some.residual)
            some.residual += some.images * some.residual_image;
    }
}
