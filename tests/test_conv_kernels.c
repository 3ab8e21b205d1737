/* tags: small unsigned asan shipped aarch64 32-bit optimized */
/* test_conv_kernels.c: what the convolution kernels promise, at every tier this machine can run.
 *
 *   right      every geometry, activation and residual order, against a plain double reference
 *   whole      outputs written completely, and nothing beside them; gaps in the input (NaN here) never matter
 *   split      direct: any split of the output into rectangles gives the same bits; Winograd: any split at
 *              multiples of four
 *   exact      sizes: buffers are exactly as long as promised (sanitizers watch)
 *   prepare    writes every float it promised, the same each time, for every tier on any machine
 *
 * Usage: test_conv_kernels [seed]
 */
#include "src/kernels/conv.h"
#include "src/kernels/tier.h"

#include "conv_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------- buffers */

typedef struct test_setup {
    bs_conv_geometry g;
    bs_conv_algorithm algorithm;
    bs_tier tier;
    bs_conv_task task;
    int32_t in_h, in_w;
    size_t out_floats;
    float *in, *out, *residual, *weights, *prepared, *bias, *slopes, *scratch;
} test_setup;

/* Exactly `count` floats, so that a sanitizer sees one float too many. */
static float *test_floats(size_t count, bool random)
{
    float *p = malloc(count ? count * sizeof(float) : 1);
    if (!p)
        exit(2);
    for (size_t i = 0; i < count; i++)
        p[i] = random ? test_float() : NAN;
    return p;
}

/* An image whose rows and pixels have gaps of NaN; the storage ends with the last channel of the last pixel. */
static float *test_image(int32_t h, int32_t w, int32_t channels, ptrdiff_t row, int32_t pixel, size_t *floats)
{
    const size_t count = (size_t)((h - 1) * row + (ptrdiff_t)(w - 1) * pixel + channels);
    float *p = test_floats(count, false);
    for (ptrdiff_t y = 0; y < h; y++)
        for (ptrdiff_t x = 0; x < w; x++)
            for (int32_t c = 0; c < channels; c++)
                p[y * row + x * pixel + c] = test_float();
    if (floats)
        *floats = count;
    return p;
}

static void test_begin(test_setup *s, const test_case *c, bs_conv_algorithm algorithm, bs_tier tier)
{
    memset(s, 0, sizeof *s);
    const bs_conv_geometry *g = &c->geometry;
    s->g = *g, s->algorithm = algorithm, s->tier = tier;
    bs_conv_task *t = &s->task;
    t->out_h = c->out_h ? c->out_h : test_between(1, 11);
    t->out_w = c->out_w ? c->out_w : test_between(1, 40);
    s->in_h = (t->out_h - 1) * g->stride_h + (g->kernel_h - 1) * g->dilation_h + 1;
    s->in_w = (t->out_w - 1) * g->stride_w + (g->kernel_w - 1) * g->dilation_w + 1;
    static const int32_t some[] = {0, 0, 0, 1, 2, 4, 4, 7};
    const int32_t gaps = some[test_between(0, 7)]; /* a bit each: in, out, residual */
    t->in_pixel = g->in_channels + (gaps & 1 ? test_between(0, 5) : 0);
    t->in_row = (ptrdiff_t)s->in_w * t->in_pixel + (gaps & 1 ? test_between(0, 9) : 0);
    t->out_pixel = g->out_channels + (gaps & 2 ? test_between(0, 5) : 0);
    t->out_row = (ptrdiff_t)t->out_w * t->out_pixel + (gaps & 2 ? test_between(0, 9) : 0);
    s->in = test_image(s->in_h, s->in_w, g->in_channels, t->in_row, t->in_pixel, NULL);
    s->out = test_image(t->out_h, t->out_w, g->out_channels, t->out_row, t->out_pixel, &s->out_floats);
    t->in = s->in, t->out = s->out;

    const size_t count = (size_t)(g->out_channels * (g->in_channels / g->groups) * g->kernel_h * g->kernel_w);
    s->weights = test_floats(count, true);
    s->prepared = test_floats(bs_conv_prepared_floats(g, algorithm, tier), false);
    bs_conv_prepare(g, algorithm, tier, s->weights, s->prepared);
    t->weights = s->prepared;
    s->bias = test_floats((size_t)g->out_channels, true);
    t->bias = test_between(0, 3) ? s->bias : NULL;
    s->slopes = test_floats((size_t)g->out_channels, true);
    t->slopes = s->slopes;
    t->activation = (bs_conv_activation)test_between(BS_CONV_NONE, BS_CONV_CLIP);
    t->slope = test_float();
    t->low = -0.5f, t->high = 0.75f;
    if (test_ending != TEST_ANY) {
        t->bias = s->bias;
        t->activation = BS_CONV_NONE;
    }
    if (test_ending == TEST_ANY ? test_between(0, 1) : test_ending == TEST_SUM) {
        t->residual_pixel = g->out_channels + (gaps & 4 ? test_between(0, 3) : 0);
        t->residual_row = (ptrdiff_t)t->out_w * t->residual_pixel + (gaps & 4 ? test_between(0, 3) : 0);
        s->residual = test_image(t->out_h, t->out_w, g->out_channels, t->residual_row, t->residual_pixel, NULL);
        t->residual = s->residual;
        t->residual_before_activation = test_between(0, 1);
    }
    s->scratch = test_floats(bs_conv_scratch_floats(g, algorithm, tier), false);
    t->scratch = s->scratch;
}

static void test_end(test_setup *s)
{
    free(s->in), free(s->out), free(s->residual), free(s->weights), free(s->prepared), free(s->bias);
    free(s->slopes), free(s->scratch);
}

/* --------------------------------------------------------------------------------------- reference */

/* Weights in the order of the sums below: those of all outputs of a group beside each other. */
static double *reference_weights(const test_setup *s)
{
    const bs_conv_geometry *g = &s->g;
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups, taps = g->kernel_h * g->kernel_w;
    double *to = malloc((size_t)(g->out_channels * in * taps) * sizeof *to);
    if (!to)
        exit(2);
    for (int32_t o = 0; o < g->out_channels; o++)
        for (int32_t i = 0; i < in; i++)
            for (int32_t tap = 0; tap < taps; tap++)
                to[((o / out * taps + tap) * in + i) * out + o % out] = (double)s->weights[(o * in + i) * taps + tap];
    return to;
}

/* Of all channels of a pixel. */
static void reference_sums(const test_setup *s, const double *weights, int32_t y, int32_t x, double *sums)
{
    const bs_conv_geometry *g = &s->g;
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    for (int32_t o = 0; o < g->out_channels; o++)
        sums[o] = s->task.bias ? (double)s->task.bias[o] : 0;
    for (int32_t group = 0; group < g->groups; group++, sums += out)
        for (int32_t ky = 0; ky < g->kernel_h; ky++)
            for (int32_t kx = 0; kx < g->kernel_w; kx++) {
                const float *p = s->in + (y * g->stride_h + ky * g->dilation_h) * s->task.in_row +
                                 (ptrdiff_t)(x * g->stride_w + kx * g->dilation_w) * s->task.in_pixel + group * in;
                for (int32_t i = 0; i < in; i++, weights += out)
                    for (int32_t o = 0; o < out; o++)
                        sums[o] += (double)p[i] * weights[o];
            }
}

/* Of the whole image. All tiers and algorithms are given the same case, whose sums are kept. */
static double *reference_kept;

static const double *reference_all(const test_setup *s)
{
    const int32_t channels = s->g.out_channels;
    if (reference_kept)
        return reference_kept;
    double *weights = reference_weights(s);
    reference_kept = malloc((size_t)(s->task.out_h * s->task.out_w * channels) * sizeof *reference_kept);
    if (!reference_kept)
        exit(2);
    for (int32_t y = 0; y < s->task.out_h; y++)
        for (int32_t x = 0; x < s->task.out_w; x++)
            reference_sums(s, weights, y, x, reference_kept + (y * s->task.out_w + x) * channels);
    free(weights);
    return reference_kept;
}

static double reference_activation(const bs_conv_task *t, int32_t channel, double v)
{
    switch (t->activation) {
    case BS_CONV_NONE: return v;
    case BS_CONV_RELU: return v > 0 ? v : 0;
    case BS_CONV_LEAKY: return v > 0 ? v : v * (double)t->slope;
    case BS_CONV_PRELU: return v > 0 ? v : v * (double)t->slopes[channel];
    case BS_CONV_CLIP: return fmin(fmax(v, (double)t->low), (double)t->high);
    }
    return NAN;
}

static double reference(const test_setup *s, double sum, int32_t y, int32_t x, int32_t channel, const float *residual)
{
    const double r = residual
                         ? (double)residual[y * s->task.residual_row + (ptrdiff_t)x * s->task.residual_pixel + channel]
                         : 0;
    if (s->task.residual_before_activation)
        return reference_activation(&s->task, channel, sum + r);
    return reference_activation(&s->task, channel, sum) + r;
}

/* ------------------------------------------------------------------------------------------ checks */

enum { TEST_TIERS = BS_TIER_NEON + 1 };
static int test_failures[TEST_TIERS + 1], test_checks[TEST_TIERS + 1]; /* the last: of tensor cores */
static double test_worst[TEST_TIERS][2]; /* [tier][algorithm] */

static void test_report(const test_setup *s, const char *name, const char *what, bool ok)
{
    test_checks[s->tier]++;
    if (ok)
        return;
    test_failures[s->tier]++;
    printf("FAIL %s, %s, %s, %dx%d, activation %d: %s\n", name, bs_tier_name(s->tier),
           s->algorithm == BS_CONV_DIRECT ? "direct" : "winograd", s->task.out_h, s->task.out_w,
           (int)s->task.activation, what);
}

/* max |a - b| / max |sum| over the outputs; the sums before activation, or a CLIP to a tenth of their range would
 * ask for ten times the precision. NaN counts as infinite. */
static double test_error(const test_setup *s, const float *residual)
{
    double worst = 0, scale = 1e-30;
    const double *sum = reference_all(s);
    for (int32_t y = 0; y < s->task.out_h; y++)
        for (int32_t x = 0; x < s->task.out_w; x++)
            for (int32_t c = 0; c < s->g.out_channels; c++, sum++) {
                const double b = reference(s, *sum, y, x, c, residual);
                const double e = fabs((double)s->out[y * s->task.out_row + (ptrdiff_t)x * s->task.out_pixel + c] - b);
                worst = e <= worst ? worst : e == e ? e : INFINITY;
                scale = fmax(scale, fabs(*sum));
            }
    return worst / scale;
}

/* Gaps are NaN before and must be after. */
static bool test_gaps_untouched(const test_setup *s)
{
    for (size_t i = 0; i < s->out_floats; i++) {
        const ptrdiff_t in_row = (ptrdiff_t)i % s->task.out_row;
        const bool gap = in_row / s->task.out_pixel >= s->task.out_w || in_row % s->task.out_pixel >= s->g.out_channels;
        if (gap && s->out[i] == s->out[i])
            return false;
    }
    return true;
}

static void test_run_rectangle(const test_setup *s, int32_t y0, int32_t x0, int32_t h, int32_t w)
{
    bs_conv_task t = s->task;
    t.in += (ptrdiff_t)y0 * s->g.stride_h * t.in_row + (ptrdiff_t)x0 * s->g.stride_w * t.in_pixel;
    t.out += y0 * t.out_row + (ptrdiff_t)x0 * t.out_pixel;
    if (t.residual)
        t.residual += y0 * t.residual_row + (ptrdiff_t)x0 * t.residual_pixel;
    t.out_h = h, t.out_w = w;
    bs_conv_run(&s->g, s->algorithm, s->tier, &t);
}

/* Cuts the output at random until pieces are small or luck ends. */
static void test_run_split(const test_setup *s, int32_t y, int32_t x, int32_t h, int32_t w)
{
    const int32_t step = s->algorithm == BS_CONV_DIRECT ? 1 : 4;
    const bool rows = test_between(0, 1);
    const int32_t pieces = ((rows ? h : w) - 1) / step;
    if (pieces < 1 || test_between(0, 5) == 0) {
        test_run_rectangle(s, y, x, h, w);
        return;
    }
    const int32_t cut = step * test_between(1, pieces);
    test_run_split(s, y, x, rows ? cut : h, rows ? w : cut);
    test_run_split(s, rows ? y + cut : y, rows ? x : x + cut, rows ? h - cut : h, rows ? w : w - cut);
}

static bool test_same(const test_setup *s, const float *expected)
{
    bool same = true;
    for (size_t i = 0; i < s->out_floats; i++)
        same = same && (memcmp(&expected[i], &s->out[i], sizeof(float)) == 0 ||
                        (expected[i] != expected[i] && s->out[i] != s->out[i]));
    return same;
}

static void test_nothing_written(const test_setup *s)
{
    for (size_t i = 0; i < s->out_floats; i++)
        s->out[i] = NAN;
}

static void test_split(test_setup *s, const char *name)
{
    float *whole = test_floats(s->out_floats, false);
    memcpy(whole, s->out, s->out_floats * sizeof(float));
    test_nothing_written(s);
    test_run_split(s, 0, 0, s->task.out_h, s->task.out_w);
    test_report(s, name, "a split gives other bits", test_same(s, whole));
    free(whole);
}

/* The residual may be the output itself. */
static void test_in_place(test_setup *s, const char *name)
{
    if (!s->residual)
        return;
    float *expected = test_floats(s->out_floats, false), *before = test_floats(s->out_floats, false);
    for (size_t i = 0; i < s->out_floats; i++)
        before[i] = s->out[i] == s->out[i] ? test_float() : NAN;
    s->task.residual = before;
    s->task.residual_row = s->task.out_row, s->task.residual_pixel = s->task.out_pixel;
    bs_conv_run(&s->g, s->algorithm, s->tier, &s->task);
    memcpy(expected, s->out, s->out_floats * sizeof(float));
    memcpy(s->out, before, s->out_floats * sizeof(float));
    s->task.residual = s->out;
    bs_conv_run(&s->g, s->algorithm, s->tier, &s->task);
    bool same = true;
    for (size_t i = 0; i < s->out_floats; i++)
        same = same && (s->out[i] == expected[i] || expected[i] != expected[i]);
    test_report(s, name, "a residual in place gives another result", same);
    free(expected), free(before);
}

/* Lines of the image as images of one call, beside a call each. */
static void test_images(test_setup *s, const char *name)
{
    const int32_t most = s->task.out_h, images = test_between(1, most), lines = most / images;
    if (images == 1 || most > 24) /* the large ones take long in an emulation */
        return;
    float *expected = test_floats(s->out_floats, false);
    test_nothing_written(s);
    for (int32_t i = 0; i < images; i++)
        test_run_rectangle(s, i * lines, 0, lines, s->task.out_w);
    memcpy(expected, s->out, s->out_floats * sizeof(float));
    test_nothing_written(s);
    bs_conv_task t = s->task;
    t.images = images;
    t.out_h = lines;
    t.in_image = (ptrdiff_t)lines * s->g.stride_h * t.in_row;
    t.out_image = lines * t.out_row;
    t.residual_image = lines * t.residual_row;
    bs_conv_run(&s->g, s->algorithm, s->tier, &t);
    test_report(s, name, "several images in a call give other bits", test_same(s, expected));
    free(expected);
}

static void test_one(const test_case *c, bs_conv_algorithm algorithm, bs_tier tier)
{
    if (!bs_conv_supports(&c->geometry, algorithm, tier))
        return;
    test_setup s;
    test_begin(&s, c, algorithm, tier);
    test_state ^= ((uint64_t)tier * 2 + (uint64_t)algorithm) << 40; /* what follows is random by itself */
    bs_conv_run(&s.g, algorithm, tier, &s.task);
    const double error = test_error(&s, s.residual);
    test_worst[tier][algorithm] = fmax(test_worst[tier][algorithm], error);
    test_report(&s, c->name, "differs from the reference", error <= (1e-5));
    test_report(&s, c->name, "wrote beside its outputs", test_gaps_untouched(&s));
    test_split(&s, c->name);
    test_images(&s, c->name);
    test_in_place(&s, c->name);
    test_end(&s);
}

/* One case, of the same numbers, at every tier and by every algorithm. */
static void test_everywhere(const test_case *c)
{
    const uint64_t state = test_state;
    for (int tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
        for (int algorithm = BS_CONV_DIRECT; algorithm <= BS_CONV_WINOGRAD4; algorithm++)
            if (bs_tier_available((bs_tier)tier)) {
                test_state = state;
                test_one(c, (bs_conv_algorithm)algorithm, (bs_tier)tier);
            }
    free(reference_kept), reference_kept = NULL;
    test_random();
}

static void test_random_case(void)
{
    const int32_t groups = test_between(0, 3) ? 1 : test_between(1, 4);
    test_case c = {"random",
                   {groups * test_between(1, 40), groups * test_between(1, 40), test_between(1, 4), test_between(1, 4),
                    test_between(1, 2), test_between(1, 3), test_between(1, 3), test_between(1, 2), groups},
                   0,
                   0};
    if (test_between(0, 2) == 0)
        c.geometry.kernel_h = c.geometry.kernel_w = 3;
    if (test_between(0, 2) == 0)
        c.geometry.stride_h = c.geometry.stride_w = c.geometry.dilation_h = c.geometry.dilation_w = 1;
    test_everywhere(&c);
}

/* Packing knows a tier's layout, not its instructions: a workstation prepares for a board. */
static void test_prepare(const test_case *c, bs_conv_algorithm algorithm, bs_tier tier)
{
    const bs_conv_geometry *g = &c->geometry;
    const size_t floats = bs_conv_prepared_floats(g, algorithm, tier);
    float *weights = test_floats((size_t)(g->out_channels * (g->in_channels / g->groups) * g->kernel_h * g->kernel_w),
                                 true);
    float *once = test_floats(floats, false), *again = test_floats(floats, false);
    bs_conv_prepare(g, algorithm, tier, weights, once);
    bs_conv_prepare(g, algorithm, tier, weights, again);
    bool complete = true;
    for (size_t i = 0; i < floats; i++)
        complete = complete && once[i] == once[i];
    const test_setup s = { .g = *g, .algorithm = algorithm, .tier = tier };
    test_report(&s, c->name, "prepared weights are incomplete", complete);
    test_report(&s, c->name, "prepared weights differ from time to time",
                memcmp(once, again, floats * sizeof(float)) == 0);
    const size_t each = (size_t)(g->in_channels / g->groups * g->kernel_h * g->kernel_w);
    memset(again, 0xff, floats * sizeof(float));
    for (int32_t o = 0, rows; o < g->out_channels; o += rows) {
        rows = test_between(1, g->out_channels - o);
        float *some = test_floats((size_t)rows * each, false);
        memcpy(some, weights + (size_t)o * each, (size_t)rows * each * sizeof *some);
        bs_conv_prepare_rows(g, algorithm, tier, o, rows, some, again);
        free(some);
    }
    test_report(&s, c->name, "weights prepared in slices differ", memcmp(once, again, floats * sizeof(float)) == 0);
    free(weights), free(once), free(again);
}

int main(int argc, char **argv)
{
    test_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 20251121u;
    printf("seed %llu, best tier %s\n", (unsigned long long)test_state, bs_tier_name(bs_tier_best()));
    test_state = test_state * 2 + 1;
    for (size_t c = 0; c < sizeof test_cases / sizeof test_cases[0]; c++)
        for (int tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++) {
            test_prepare(&test_cases[c], BS_CONV_DIRECT, (bs_tier)tier);
            test_prepare(&test_cases[c], BS_CONV_WINOGRAD4, (bs_tier)tier);
            test_prepare(&test_cases[c], BS_CONV_TENSOR, BS_TIER_CUDA);
        }
    for (size_t c = 0; c < sizeof test_cases / sizeof test_cases[0]; c++)
        for (int repeat = 0; repeat < 5; repeat++) {
            test_ending = repeat < TEST_ANY ? repeat : TEST_ANY;
            test_everywhere(&test_cases[c]);
        }
    test_ending = TEST_ANY;
    for (int repeat = 0; repeat < 300; repeat++)
        test_random_case();
    int failures = 0, checks = 0;
    for (int i = 0; i <= TEST_TIERS; i++) {
        failures += test_failures[i], checks += test_checks[i];
        if (i < TEST_TIERS && bs_tier_available((bs_tier)i) && i != BS_TIER_AUTO)
            printf("%s convolutions, tier %s: %d checks, largest error direct %.1e, winograd %.1e\n",
                   test_failures[i] == 0 ? "PASS" : "FAIL", bs_tier_name((bs_tier)i), test_checks[i], test_worst[i][0],
                   test_worst[i][1]);
    }
    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures != 0;
}
