/* test_gemm.c: rows by a matrix in panels (1x1 convolutions, linear layers): against double precision, and the same
 * bytes however many rows go together, wherever they stand. Other geometries: test_conv_kernels.c. */
#include "kernels/conv.h"

#include "check.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 21, MOST_K = 520, MOST_N = 260, GAP = 5 };

static float in[MOST_ROWS * (MOST_K + GAP)], weights[MOST_K * MOST_N], bias[MOST_N], slopes[MOST_N];
static float residual[MOST_ROWS * MOST_N];
static float packed[MOST_K * (MOST_N + 64)], all[MOST_ROWS * (MOST_N + GAP)], some[MOST_ROWS * (MOST_N + GAP)];

static void fill(float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(check_below(2001) - 1000) / 1024.0f;
}

typedef struct product {
    bs_conv_geometry g;
    bs_tier tier;
    bs_conv_task task;
} product;

/* Rows from..from + count into `to`, as a line of pixels, or as pixels of as many lines. */
static void run(const product *p, int32_t from, int32_t count, bool lines, float *to)
{
    bs_conv_task t = p->task;
    t.in = in + from * t.in_pixel;
    t.out = to + from * t.out_pixel;
    t.in_row = t.in_pixel;
    t.out_row = t.out_pixel;
    t.residual_row = t.residual_pixel;
    if (t.residual)
        t.residual = residual + from * t.residual_pixel;
    t.out_h = lines ? count : 1;
    t.out_w = lines ? 1 : count;
    bs_conv_run(&p->g, BS_CONV_DIRECT, p->tier, &t);
}

static bool in_parts_too(const product *p)
{
    const size_t bytes = (size_t)(MOST_ROWS * p->task.out_pixel) * sizeof(float);
    bool same = true;
    for (int32_t each = 1; each < MOST_ROWS && same; each += each < 9 ? 1 : 4)
        for (int32_t lines = 0; lines < 2; lines++) {
            memset(some, 0xC3, sizeof some);
            for (int32_t row = 0; row < MOST_ROWS; row += each)
                run(p, row, each < MOST_ROWS - row ? each : MOST_ROWS - row, lines == 1, some);
            same = same && memcmp(some, all, bytes) == 0;
        }
    return same;
}

static double error(const product *p, int32_t row, int32_t n)
{
    const bs_conv_task *t = &p->task;
    double sum = t->bias ? (double)bias[n] : 0;
    for (int32_t k = 0; k < p->g.in_channels; k++)
        sum += (double)in[row * t->in_pixel + k] * (double)weights[n * p->g.in_channels + k];
    if (t->activation == BS_CONV_RELU)
        sum = sum > 0 ? sum : 0;
    if (t->activation == BS_CONV_PRELU)
        sum = sum > 0 ? sum : sum * (double)slopes[n];
    if (t->residual)
        sum += (double)residual[row * t->residual_pixel + n];
    return fabs((double)all[row * t->out_pixel + n] - sum);
}

static bool right(const product *p)
{
    const int32_t n = p->g.out_channels, gap = p->task.out_pixel - n;
    double worst = 0;
    bool untouched = true;
    for (int32_t row = 0; row < MOST_ROWS; row++) {
        for (int32_t i = 0; i < n; i++)
            worst = fmax(worst, error(p, row, i));
        for (int32_t i = n; i < n + gap; i++) {
            uint32_t code;
            memcpy(&code, &all[row * p->task.out_pixel + i], sizeof code);
            untouched = untouched && code == 0xC3C3C3C3u;
        }
    }
    return untouched && worst < 2e-7 * (4 + p->g.in_channels);
}

static void test_tier(bs_tier tier)
{
    static const int32_t ks[] = {1, 3, 4, 7, 64, 191, 192, 193, 384, 500},
                         ns[] = {5, 16, 17, 31, 48, 49, 80, 96, 150, 193, 260};
    static const bs_conv_activation acts[] = {BS_CONV_NONE, BS_CONV_RELU, BS_CONV_PRELU};
    int32_t wrong = 0, other = 0, cases = 0;
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (int32_t form = 0; form < 6; form++, cases++) {
                const int32_t k = ks[i], n = ns[j];
                product p = {.g = {k, n, 1, 1, 1, 1, 1, 1, 1},
                             .tier = tier,
                             .task = {.in_pixel = k + form % 2 * GAP,
                                      .out_pixel = n + form % 2 * GAP,
                                      .weights = packed,
                                      .bias = form == 0 ? NULL : bias,
                                      .activation = acts[form % 3],
                                      .slopes = slopes,
                                      .residual = form > 3 ? residual : NULL,
                                      .residual_pixel = n}};
                bs_conv_prepare(&p.g, BS_CONV_DIRECT, tier, weights, packed);
                memset(all, 0xC3, sizeof all);
                run(&p, 0, MOST_ROWS, false, all);
                wrong += !right(&p);
                other += !in_parts_too(&p);
            }
    check(wrong == 0, "%s: %d products are right, and nothing beside them is written", bs_tier_name(tier), cases);
    check(other == 0, "%s: any number of rows at once, in a line or below each other, gives the same bytes",
          bs_tier_name(tier));
}

int main(void)
{
    check_seed(1);
    fill(in, sizeof in / sizeof *in);
    fill(weights, sizeof weights / sizeof *weights);
    fill(bias, MOST_N);
    fill(slopes, MOST_N);
    fill(residual, sizeof residual / sizeof *residual);
    for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++)
        if (bs_tier_available((bs_tier)t))
            test_tier((bs_tier)t);
    return check_end();
}
