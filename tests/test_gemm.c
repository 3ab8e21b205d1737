/* tags: small asan optimized */
/* test_gemm.c: rows by a matrix in panels (1x1 convolutions, linear layers): against double precision, and the same
 * bytes however many rows go together, wherever they stand. Other geometries: test_conv_kernels.c. */
#include "kernels/conv.h"
#include "kernels/product.h"

#include "check.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 70, MOST_K = 520, MOST_N = 260, GAP = 5 };

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

/* Each number of rows in a line in every other form, below each other in the rest. */
static bool in_parts_too(const product *p, int32_t form)
{
    const size_t bytes = (size_t)(MOST_ROWS * p->task.out_pixel) * sizeof(float);
    bool same = true;
    for (int32_t each = 1, k = 0; each < MOST_ROWS && same; each += each < 9 ? 1 : 13, k++) {
        memset(some, 0xC3, bytes);
        for (int32_t row = 0; row < MOST_ROWS; row += each)
            run(p, row, each < MOST_ROWS - row ? each : MOST_ROWS - row, (k + form / 2 + form % 2) % 2 == 1, some);
        same = same && memcmp(some, all, bytes) == 0;
    }
    return same;
}

/* The sums alone, of all forms of a product: weights with those of all columns beside each other, so that sums do not
 * wait for each other. Inputs lie with a gap, or without. */
static double sums[2][MOST_ROWS * MOST_N];

static void sum_up(int32_t k, int32_t n)
{
    static double by_k[MOST_K * MOST_N];
    memset(sums, 0, sizeof sums);
    for (int32_t c = 0; c < n; c++)
        for (int32_t i = 0; i < k; i++)
            by_k[i * n + c] = (double)weights[c * k + i];
    for (int32_t gap = 0; gap < 2; gap++)
        for (int32_t row = 0; row < MOST_ROWS; row++)
            for (int32_t i = 0; i < k; i++) {
                const double x = (double)in[row * (k + gap * GAP) + i];
                for (int32_t c = 0; c < n; c++)
                    sums[gap][row * n + c] += x * by_k[i * n + c];
            }
}

static double error(const product *p, int32_t row, int32_t n)
{
    const bs_conv_task *t = &p->task;
    double sum = sums[t->in_pixel > p->g.in_channels][row * p->g.out_channels + n] + (t->bias ? (double)bias[n] : 0);
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

typedef struct tally {
    int32_t wrong, other, cases;
} tally;

/* Sums of n columns of k rows, in all forms. */
static void test_size(bs_tier tier, int32_t k, int32_t n, tally *t)
{
    static const bs_conv_activation acts[] = {BS_CONV_NONE, BS_CONV_RELU, BS_CONV_PRELU};
    for (int32_t form = 0; form < 6; form++, t->cases++) {
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
        t->wrong += !right(&p);
        t->other += !in_parts_too(&p, form);
    }
}

static void test_sizes(void)
{
    static const int32_t ks[] = {1, 3, 4, 7, 64, 191, 192, 193, 384, 500},
                         ns[] = {5, 16, 17, 31, 48, 49, 80, 96, 150, 193, 260};
    tally tallies[BS_TIER_NEON + 1] = {{0}};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++) {
            sum_up(ks[i], ns[j]);
            for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++)
                if (bs_tier_available((bs_tier)t))
                    test_size((bs_tier)t, ks[i], ns[j], &tallies[t]);
        }
    for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++) {
        if (!bs_tier_available((bs_tier)t))
            continue;
        check(tallies[t].wrong == 0 && tallies[t].cases > 0,
              "%s: %d products are right, and nothing beside them is written", bs_tier_name((bs_tier)t),
              tallies[t].cases);
        check(tallies[t].other == 0,
              "%s: any number of rows at once, in a line or below each other, gives the same bytes",
              bs_tier_name((bs_tier)t));
    }
}

/* More rows than are taken at once, as lines of `width` with a gap behind each. */
static void run_lines(const product *p, int32_t rows, int32_t width, int32_t gap, float *to)
{
    bs_conv_task t = p->task;
    t.in = in;
    t.out = to;
    t.residual = t.residual ? residual : NULL;
    t.in_row = (ptrdiff_t)width * t.in_pixel;
    t.out_row = (ptrdiff_t)width * t.out_pixel + gap;
    t.residual_row = (ptrdiff_t)width * t.residual_pixel;
    t.out_h = rows / width;
    t.out_w = width;
    bs_conv_run(&p->g, BS_CONV_DIRECT, p->tier, &t);
}

static void test_many_rows(bs_tier tier)
{
    enum { ROWS = 150, K = 20, N = 29 };
    static const int32_t widths[] = {1, 10, 25, 50, 75, 150};
    int32_t other = 0;
    for (int32_t form = 0; form < 2; form++) {
        product p = {.g = {K, N, 1, 1, 1, 1, 1, 1, 1},
                     .tier = tier,
                     .task = {.in_pixel = K + GAP,
                              .out_pixel = N + GAP,
                              .weights = packed,
                              .bias = bias,
                              .residual = form == 1 ? residual : NULL,
                              .residual_pixel = N}};
        bs_conv_prepare(&p.g, BS_CONV_DIRECT, tier, weights, packed);
        memset(all, 0xC3, sizeof all);
        for (int32_t row = 0; row < ROWS; row++)
            run(&p, row, 1, false, all);
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            memset(some, 0xC3, sizeof some);
            run_lines(&p, ROWS, widths[i], 0, some);
            other += memcmp(some, all, sizeof all) != 0;
            memset(some, 0xC3, sizeof some);
            run_lines(&p, ROWS, widths[i], GAP, some);
            for (int32_t row = 0; row < ROWS; row++)
                other += memcmp(some + row * p.task.out_pixel + row / widths[i] * GAP, all + row * p.task.out_pixel,
                                (size_t)p.task.out_pixel * sizeof *all) != 0;
        }
    }
    check(other == 0, "%s: 150 rows give the bytes of one after the other, as lines of any width", bs_tier_name(tier));
}

/* ------------------------------------------------------------------------------------- two computed matrices */

enum { STEP = 3, SIDE = 200, SPREAD = SIDE * SIDE * STEP };

static float scattered[3][SPREAD], dense[3][SPREAD], scratch[1 << 16];

/* Rows by rows, columns by columns, or every third float of either. */
static void strides_of(int32_t form, int32_t rows, int32_t columns, ptrdiff_t *row, ptrdiff_t *step)
{
    const int32_t apart = form < 2 ? 1 : STEP;
    *row = form % 2 == 0 ? (ptrdiff_t)columns * apart : apart;
    *step = form % 2 == 0 ? apart : (ptrdiff_t)rows * apart;
}

static void spread(const float *from, int32_t rows, int32_t columns, float *to, ptrdiff_t row, ptrdiff_t step)
{
    for (int32_t r = 0; r < rows; r++)
        for (int32_t c = 0; c < columns; c++)
            to[r * row + c * step] = from[r * columns + c];
}

static double product_error(const bs_product *p, const float *a, const float *b, const float *out)
{
    double worst = 0;
    for (int32_t m = 0; m < p->m; m++)
        for (int32_t n = 0; n < p->n; n++) {
            double sum = 0;
            for (int32_t k = 0; k < p->k; k++)
                sum += (double)a[m * p->k + k] * (double)b[k * p->n + n];
            worst = fmax(worst, fabs((double)out[m * p->n + n] - (double)p->scale * sum));
        }
    return worst;
}

/* The result in all layouts of the three, and row by row, against the dense one. */
static bool layouts_agree(bs_tier tier, const bs_product *plain)
{
    bool same = true;
    for (int32_t form = 1; form < 64; form++) {
        bs_product p = *plain;
        strides_of(form & 3, p.m, p.k, &p.a_row, &p.a_step);
        strides_of(form >> 2 & 3, p.k, p.n, &p.b_row, &p.b_step);
        strides_of(form >> 4, p.m, p.n, &p.out_row, &p.out_step);
        spread(plain->a, p.m, p.k, scattered[0], p.a_row, p.a_step);
        spread(plain->b, p.k, p.n, scattered[1], p.b_row, p.b_step);
        memset(scattered[2], 0xC3, sizeof scattered[2]);
        p.a = scattered[0], p.b = scattered[1], p.out = scattered[2];
        for (int32_t m = 0, each = form % 3 == 0 ? 1 : p.m; m < plain->m; m += each) {
            p.m = each;
            p.a = scattered[0] + m * p.a_row;
            p.out = scattered[2] + m * p.out_row;
            bs_product_run(tier, &p);
        }
        for (int32_t m = 0; m < plain->m; m++)
            for (int32_t n = 0; n < p.n; n++)
                same = same && memcmp(&scattered[2][m * p.out_row + n * p.out_step], &plain->out[m * p.n + n],
                                      sizeof(float)) == 0;
    }
    return same;
}

static void test_products(bs_tier tier)
{
    static const int32_t sizes[][3] = {{1, 1, 1},   {3, 5, 2},    {8, 48, 192}, {64, 24, 64},
                                       {13, 70, 193}, {70, 17, 200}, {130, 33, 7}}; /* m, n, k */
    int32_t wrong = 0, other = 0, cases = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, cases++) {
        const int32_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        const bs_product p = {m, n, k, dense[0], k, 1, dense[1], n, 1, dense[2], n, 1, i % 2 ? 0.3f : 1.0f, scratch};
        fill(dense[0], (size_t)(m * k));
        fill(dense[1], (size_t)(k * n));
        bs_product_run(tier, &p);
        wrong += !(product_error(&p, dense[0], dense[1], dense[2]) < 2e-7 * (4 + k));
        other += !layouts_agree(tier, &p);
    }
    check(wrong == 0 && bs_product_scratch_floats(tier) <= sizeof scratch / sizeof *scratch,
          "%s: %d products of computed matrices are right", bs_tier_name(tier), cases);
    check(other == 0, "%s: their bytes are the same for all layouts, and row by row", bs_tier_name(tier));
}

/* Few rows, of which some tiers make no panel, as rows of a product that does: with b in either layout, lines of b
 * further apart than they are long or a cache's set apart, and a canary behind each row of the result. */
static bool few_rows_agree(bs_tier tier, int32_t n, int32_t k, float scale)
{
    enum { MANY = 9, APART = 1024 };
    static float many[MANY * SIDE], lines[SIDE * APART], few[4][SIDE + 1], canary;
    bool same = true;
    memset(&canary, 0xC3, sizeof canary);
    const bs_product whole = {MANY, n, k, dense[0], k, 1, dense[1], n, 1, many, n, 1, scale, scratch};
    bs_product_run(tier, &whole);
    for (int32_t form = 0; form < 24; form++) {
        bs_product p = whole;
        const bool by_column = form % 2 != 0;
        const ptrdiff_t apart = form / 2 % 3 == 0 ? (by_column ? k : n) : form / 2 % 3 == 1 ? SIDE + 3 : APART;
        p.b_row = by_column ? 1 : apart;
        p.b_step = by_column ? apart : 1;
        spread(dense[1], k, n, lines, p.b_row, p.b_step);
        p.b = lines, p.out = few[0], p.out_row = SIDE + 1;
        p.m = 1 + form / 6;
        for (int32_t m = 0; m < MANY; m += p.m) {
            p.m = m + p.m > MANY ? MANY - m : p.m;
            p.a = dense[0] + m * k;
            memset(few, 0xC3, sizeof few);
            bs_product_run(tier, &p);
            for (int32_t r = 0; r < p.m; r++)
                same = same && memcmp(few[r], many + (m + r) * n, (size_t)n * sizeof(float)) == 0 &&
                       memcmp(few[r] + n, &canary, sizeof canary) == 0;
        }
    }
    return same;
}

static void test_few_rows(bs_tier tier)
{
    static const int32_t widths[] = {1, 3, 4, 7, 8, 9, 16, 17, 24, 63, 64, 100, 200};
    static const int32_t depths[] = {0, 1, 3, 4, 16, 65, 192, 199};
    int32_t other = 0, cases = 0;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++, cases++) {
            const int32_t n = widths[w], k = depths[d];
            fill(dense[0], (size_t)(9 * k));
            fill(dense[1], (size_t)(k * n));
            for (int32_t i = 0; i < 9 && k == 1; i++)
                dense[0][i] *= 1e-44f; /* some products are -0, to which 0 is added */
            other += !few_rows_agree(tier, n, k, cases % 2 ? 0.3f : 1.0f) + !few_rows_agree(tier, n, k, 1.0f);
        }
    check(other == 0, "%s: 1 to 4 rows have the bytes of many, of %d sizes, whichever way b lies", bs_tier_name(tier),
          cases);
}

int main(void)
{
    check_seed(1);
    fill(in, sizeof in / sizeof *in);
    fill(weights, sizeof weights / sizeof *weights);
    fill(bias, MOST_N);
    fill(slopes, MOST_N);
    fill(residual, sizeof residual / sizeof *residual);
    test_sizes();
    for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++)
        if (bs_tier_available((bs_tier)t))
            test_many_rows((bs_tier)t), test_products((bs_tier)t), test_few_rows((bs_tier)t);
    return check_end();
}
