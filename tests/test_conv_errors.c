/* tags: asan optimized */
/* test_conv_errors.c: how far convolutions are from float64, beside plain sums in f32: few channels and many, small
 * images and large ones, groups; data of several kinds: signs that cancel, what comes after a ReLU, smooth images, all
 * of one sign, a few large channels among small ones.
 *
 * The yardstick is what others do: sums of 8 channels by all taps of a kernel, from zero, added one after the other.
 * An error is the largest difference over the largest output.
 *
 * Usage: test_conv_errors [seed] */
#include "src/kernels/conv.h"
#include "src/kernels/tier.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t errors_state;

static double errors_uniform(void)
{
    errors_state ^= errors_state << 13;
    errors_state ^= errors_state >> 7;
    errors_state ^= errors_state << 17;
    return (double)(errors_state >> 11) / 9007199254740992.0;
}

static double errors_normal(void)
{
    const double a = errors_uniform() + 1e-300, b = errors_uniform();
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

/* ------------------------------------------------------------------------------------------- data */

typedef enum errors_kind { KIND_NORMAL, KIND_RELU, KIND_SMOOTH, KIND_POSITIVE, KIND_FEW, KIND_COUNT } errors_kind;

static float errors_input(errors_kind kind, int32_t y, int32_t x, int32_t c)
{
    const double n = errors_normal();
    switch (kind) {
    case KIND_NORMAL: return (float)n;
    case KIND_RELU: return n > 0 ? (float)n : 0.0f;
    case KIND_SMOOTH: return (float)(1.5 + sin(0.3 * y + c) + sin(0.2 * x + 2 * c) + 0.05 * n);
    case KIND_POSITIVE: return (float)errors_uniform();
    case KIND_FEW: return (float)(c % 16 == 3 ? 30 * n : n);
    case KIND_COUNT: break;
    }
    return 0.0f;
}

enum { ERRORS_CHANNELS = 32 }; /* that come out, at most */

typedef struct errors_case {
    const char *name;
    bs_conv_geometry g;
    int32_t size;
} errors_case;

static const errors_case errors_cases[] = {
    {"8->8 at 64", {8, 8, 3, 3, 1, 1, 1, 1, 1}, 64},
    {"32->16 at 40", {32, 16, 3, 3, 1, 1, 1, 1, 1}, 40},
    {"64->32 at 28", {64, 32, 3, 3, 1, 1, 1, 1, 1}, 28},
    {"128->32 at 28", {128, 32, 3, 3, 1, 1, 1, 1, 1}, 28},
    {"256->32 at 12", {256, 32, 3, 3, 1, 1, 1, 1, 1}, 12},
    {"200->24 at 13", {200, 24, 3, 3, 1, 1, 1, 1, 1}, 13},
    {"512->32 at 7", {512, 32, 3, 3, 1, 1, 1, 1, 1}, 7},
    {"384->32 at 12, 2 groups", {384, 32, 3, 3, 1, 1, 1, 1, 2}, 12},
    {"96->32 at 24, 2 groups, 5x5", {96, 32, 5, 5, 1, 1, 1, 1, 2}, 24},
    {"256->32 at 14, stride 2", {256, 32, 3, 3, 2, 2, 1, 1, 1}, 14},
};

typedef struct errors_run {
    const errors_case *c;
    int32_t in_size;
    float *in, *weights, *out;
    double *right;
    double scale;
} errors_run;

static void *errors_memory(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p)
        exit(2);
    return p;
}

/* All outputs of a pixel: in double, and as other runtimes sum. Weights are in double, those of all outputs of a group
 * beside each other. */
static void errors_sums(const errors_run *r, const double *weights, int32_t y, int32_t x, double *sum, double *plain)
{
    const bs_conv_geometry *g = &r->c->g;
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups, taps = g->kernel_h * g->kernel_w;
    for (int32_t group = 0; group < g->groups; group++, sum += out, plain += out, weights += in * taps * out) {
        float all[ERRORS_CHANNELS] = {0}, part[ERRORS_CHANNELS];
        memset(sum, 0, (size_t)out * sizeof *sum);
        for (int32_t block = 0; block < in; block += 8) {
            memset(part, 0, sizeof part);
            for (int32_t tap = 0; tap < taps; tap++) {
                const int32_t at_y = y * g->stride_h + tap / g->kernel_w, at_x = x * g->stride_w + tap % g->kernel_w;
                const float *from = r->in + ((ptrdiff_t)at_y * r->in_size + at_x) * g->in_channels + group * in;
                for (int32_t i = block; i < in && i < block + 8; i++)
                    for (int32_t o = 0; o < out; o++) {
                        const double product = (double)from[i] * weights[(i * taps + tap) * out + o]; /* exact */
                        sum[o] += product;
                        part[o] = (float)((double)part[o] + product);
                    }
            }
            for (int32_t o = 0; o < out; o++)
                all[o] += part[o];
        }
        for (int32_t o = 0; o < out; o++)
            plain[o] = (double)all[o];
    }
}

/* In the order of those sums. */
static double *errors_weights(const errors_run *r)
{
    const bs_conv_geometry *g = &r->c->g;
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups, taps = g->kernel_h * g->kernel_w;
    double *to = errors_memory((size_t)(g->out_channels * in * taps), sizeof *to);
    for (int32_t o = 0; o < g->out_channels; o++)
        for (int32_t i = 0; i < in * taps; i++)
            to[(o / out * in * taps + i) * out + o % out] = (double)r->weights[o * in * taps + i];
    return to;
}

static double errors_begin(errors_run *r, const errors_case *c, errors_kind kind)
{
    const bs_conv_geometry *g = &c->g;
    const int32_t in = g->in_channels / g->groups, taps = g->kernel_h * g->kernel_w;
    const size_t outputs = (size_t)c->size * (size_t)c->size * (size_t)g->out_channels;
    const size_t weights = (size_t)g->out_channels * (size_t)in * (size_t)taps;
    double worst = 0;
    *r = (errors_run){.c = c, .in_size = (c->size - 1) * g->stride_h + g->kernel_h};
    r->in = errors_memory((size_t)r->in_size * (size_t)r->in_size * (size_t)g->in_channels, sizeof(float));
    r->weights = errors_memory(weights, sizeof(float));
    r->out = errors_memory(outputs, sizeof(float));
    r->right = errors_memory(outputs, sizeof(double));
    float *at = r->in;
    for (int32_t y = 0; y < r->in_size; y++)
        for (int32_t x = 0; x < r->in_size; x++)
            for (int32_t i = 0; i < g->in_channels; i++)
                *at++ = errors_input(kind, y, x, i);
    for (size_t i = 0; i < weights; i++)
        r->weights[i] = (float)((kind == KIND_POSITIVE ? fabs(errors_normal()) : errors_normal()) / sqrt(in * taps));
    double *right = r->right, plain[ERRORS_CHANNELS], *ordered = errors_weights(r);
    for (int32_t y = 0; y < c->size; y++)
        for (int32_t x = 0; x < c->size; x++, right += g->out_channels) {
            errors_sums(r, ordered, y, x, right, plain);
            for (int32_t o = 0; o < g->out_channels; o++) {
                r->scale = fmax(r->scale, fabs(right[o]));
                worst = fmax(worst, fabs(plain[o] - right[o]));
            }
        }
    free(ordered);
    return worst / r->scale;
}

static double errors_of(const errors_run *r, bs_conv_algorithm algorithm, bs_tier tier)
{
    const bs_conv_geometry *g = &r->c->g;
    float *prepared = errors_memory(bs_conv_prepared_floats(g, algorithm, tier), sizeof(float));
    float *scratch = errors_memory(bs_conv_scratch_floats(g, algorithm, tier) + 1, sizeof(float));
    const size_t outputs = (size_t)r->c->size * (size_t)r->c->size * (size_t)g->out_channels;
    double worst = 0;
    bs_conv_prepare(g, algorithm, tier, r->weights, prepared);
    const bs_conv_task task = {.in = r->in,
                               .in_row = (ptrdiff_t)r->in_size * g->in_channels,
                               .in_pixel = g->in_channels,
                               .out_pixel = g->out_channels,
                               .out = r->out,
                               .out_row = (ptrdiff_t)r->c->size * g->out_channels,
                               .out_h = r->c->size,
                               .out_w = r->c->size,
                               .weights = prepared,
                               .scratch = scratch};
    bs_conv_run(g, algorithm, tier, &task);
    for (size_t i = 0; i < outputs; i++)
        worst = fmax(worst, fabs((double)r->out[i] - r->right[i]));
    free(prepared), free(scratch);
    return worst / r->scale;
}

static void errors_end(errors_run *r)
{
    free(r->in), free(r->weights), free(r->out), free(r->right);
}

/* ------------------------------------------------------------------------------------------ checks */

enum { ERRORS_TIERS = BS_TIER_NEON + 1 };

/* Of one kind of data the ratio of two largest errors is half luck: it is the mean over kinds that counts. */
#define ERRORS_MEAN 5.0
#define ERRORS_MOST 15.0

static int errors_passed, errors_failed;

static void errors_check(const char *name, const char *tier, const char *algorithm, double mean, double most)
{
    const bool right = mean <= ERRORS_MEAN && most <= ERRORS_MOST;
    printf("%s %s, %s, %s: error %.2f times that of plain sums, %.2f at most\n", right ? "ok" : "FAIL", name, tier,
           algorithm, mean, most);
    errors_passed += right;
    errors_failed += !right;
}

/* What one shape makes of all kinds of data. */
static void errors_shape(const errors_case *c)
{
    double sum[ERRORS_TIERS][2] = {{0}}, most[ERRORS_TIERS][2] = {{0}};
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        errors_run r;
        const double plain = errors_begin(&r, c, (errors_kind)kind);
        for (int i = 0; i < 2 * ERRORS_TIERS; i++) {
            const bs_tier tier = (bs_tier)(i / 2);
            const bs_conv_algorithm algorithm = (bs_conv_algorithm)(i % 2);
            if (!bs_tier_available(tier) || !bs_conv_supports(&c->g, algorithm, tier))
                continue;
            const double ratio = errors_of(&r, algorithm, tier) / plain;
            sum[i / 2][i % 2] += log(ratio) / KIND_COUNT;
            most[i / 2][i % 2] = ratio <= most[i / 2][i % 2] ? most[i / 2][i % 2] : ratio;
        }
        errors_end(&r);
    }
    for (int i = 0; i < 2 * ERRORS_TIERS; i++)
        if (most[i / 2][i % 2] > 0)
            errors_check(c->name, bs_tier_name((bs_tier)(i / 2)), i % 2 == BS_CONV_DIRECT ? "direct" : "winograd",
                         exp(sum[i / 2][i % 2]), most[i / 2][i % 2]);
}

int main(int argc, char **argv)
{
    errors_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261126u;
    printf("seed %llu\n", (unsigned long long)errors_state);
    errors_state = errors_state * 2 + 1;
    for (size_t i = 0; i < sizeof errors_cases / sizeof errors_cases[0]; i++)
        errors_shape(&errors_cases[i]);
    printf("%d passed, %d failed\n", errors_passed, errors_failed);
    return errors_failed != 0;
}
