/* tags: small asan shipped aarch64 32-bit */
/* test_functions.c: what the rows of kernels/functions.h promise, at every tier this machine has.
 *
 *   error       of every function, against libm in double, over all exponents: at most what the header says
 *   specials    infinities, NaN, zeros of both signs, subnormals, the largest numbers
 *   place       an element has the same bytes wherever it stands, in rows of every length and step, and in place
 *   sums        softmax and norms: close to their definition in double, the same bytes at any step
 *   best        of rows of all lengths, with equals, zeros of both signs, NaN and infinities
 *   and nothing is written beside the rows
 *
 * Usage: test_functions [seed [POINTS]] - POINTS of each function for each tier; prints the largest errors
 */
#include "src/kernels/functions.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1021, MOST = 70, ROOM = 8192 };

static uint64_t test_state;
static int test_failures, test_checks;

static uint32_t test_random(void)
{
    test_state ^= test_state << 13;
    test_state ^= test_state >> 7;
    test_state ^= test_state << 17;
    return (uint32_t)(test_state >> 32);
}

static float test_float(float low, float high)
{
    return low + (float)(test_random() / 4294967296.0) * (high - low);
}

static void test_expect(bool ok, bs_tier tier, const char *what, double x, double value)
{
    test_checks++;
    if (ok || ++test_failures > 50)
        return;
    printf("FAIL %s, tier %s: %.9g gives %.9g\n", what, bs_tier_name(tier), x, value);
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* -------------------------------------------------------------------------------------------- activations */

static double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double exact_silu(double x) { return x / (1 + exp(-x)); }
static double exact_gelu(double x) { return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * 0.70710678118654752440); }

typedef struct function {
    const char *name;
    bs_act act;
    double (*exact)(double x);
    double most; /* error, as the header has it */
    bs_unary_kind kind; /* where act is BS_ACT_NONE */
} function;

static const function functions[] = {{"sigmoid", BS_SIGMOID, exact_sigmoid, 2.5, BS_UNARY_COUNT},
                                     {"silu", BS_SILU, exact_silu, 2.5, BS_UNARY_COUNT},
                                     {"tanh", BS_TANH, tanh, 2.7, BS_UNARY_COUNT},
                                     {"gelu", BS_GELU, exact_gelu, 8, BS_UNARY_COUNT},
                                     {"exp", BS_ACT_NONE, exp, 1.5, BS_UNARY_EXP},
                                     {"log", BS_ACT_NONE, log, 1.5, BS_UNARY_LOG},
                                     {"erf", BS_ACT_NONE, erf, 1.5, BS_UNARY_ERF}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* In units in the last place of the exact result, as a float; of the smallest subnormal below the normal numbers. */
static double error_of(float got, double exact)
{
    if (isnan(exact))
        return isnan(got) ? 0 : INFINITY;
    const int exponent = fabs(exact) < (double)FLT_MIN ? -126 : ilogb(exact);
    return got == (float)exact ? 0 : fabs((double)got - exact) / ldexp(1, exponent - 23);
}

static void run_function(bs_tier tier, const function *f, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step,
                         int64_t n)
{
    if (f->act != BS_ACT_NONE)
        bs_row_function(tier, f->act, x, x_step, y, y_step, n);
    else
        bs_row_unary(tier, f->kind, x, x_step, y, y_step, n);
}

/* x is number `i` of all floats but NaN and infinities, taken `stride` apart. */
static void test_error(bs_tier tier, const function *f, uint32_t points)
{
    static float x[BLOCK], y[BLOCK];
    const uint32_t stride = 0xffffffffu / points | 1u;
    uint32_t bits = test_random();
    double worst = 0, where = 0;
    for (uint32_t done = 0; done < points; done += BLOCK) {
        for (int i = 0; i < BLOCK; bits += stride)
            if (isfinite(of_bits(bits)))
                x[i++] = of_bits(bits);
        run_function(tier, f, x, 1, y, 1, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const double error = error_of(y[i], f->exact((double)x[i]));
            if (error <= worst)
                continue;
            worst = error;
            where = (double)x[i];
        }
    }
    printf("%-7s %-7s error %.3f at %.9g\n", bs_tier_name(tier), f->name, worst, where);
    test_expect(worst <= f->most, tier, f->name, where, worst);
}

/* Where functions change: every number counts between these. */
static void test_near(bs_tier tier, const function *f, uint32_t points)
{
    static float x[BLOCK], y[BLOCK];
    double worst = 0, where = 0;
    for (uint32_t done = 0; done < points; done += BLOCK) {
        const float reach = done % 3 == 0 ? 0.5f : done % 3 == 1 ? 12.0f : 110.0f;
        for (int i = 0; i < BLOCK; i++)
            x[i] = test_float(-reach, reach);
        run_function(tier, f, x, 1, y, 1, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const double error = error_of(y[i], f->exact((double)x[i]));
            if (error <= worst)
                continue;
            worst = error;
            where = (double)x[i];
        }
    }
    printf("%-7s %-7s error %.3f at %.9g\n", bs_tier_name(tier), f->name, worst, where);
    test_expect(worst <= f->most, tier, f->name, where, worst);
}

static bool same(const float *a, const float *b, int64_t n) { return memcmp(a, b, 4 * (size_t)n) == 0; }

static void test_specials(bs_tier tier, const function *f)
{
    const float x[] = {0.0f,     -0.0f,    INFINITY, -INFINITY, NAN,   FLT_MAX, -FLT_MAX, FLT_MIN, -FLT_MIN,
                       1.4e-45f, -1.4e-45f, 88.8f,    -88.8f,    200.f, -200.0f, 1e9f,     -1e9f};
    enum { N = sizeof x / sizeof *x };
    float y[N];
    run_function(tier, f, x, 1, y, 1, N);
    for (int i = 0; i < N; i++) {
        const double exact = f->exact((double)x[i]);
        const bool ok = isnan(exact) ? isnan(y[i]) : error_of(y[i], exact) <= f->most;
        test_expect(ok, tier, f->name, (double)x[i], (double)y[i]);
        if (exact == 0 && (f->act != BS_SILU || x[i] == 0))
            test_expect(!signbit(y[i]) == !signbit(exact), tier, "sign of zero", (double)x[i], (double)y[i]);
    }
}

/* Rows from every offset, of every length and some steps, are what one row of all is; and in place. */
static void test_place(bs_tier tier, const function *f)
{
    float x[3 * MOST + 8], whole[3 * MOST + 8], y[3 * MOST + 8];
    for (int i = 0; i < 3 * MOST + 8; i++)
        x[i] = test_float(-9, 9);
    run_function(tier, f, x, 1, whole, 1, 3 * MOST + 8);
    for (int n = 1; n <= MOST; n++) {
        const int offset = (int)(test_random() % 8), step = 1 + n % 3;
        float *const at = x + offset;
        for (int i = 0; i < 3 * MOST + 8; i++)
            y[i] = -7.0f;
        run_function(tier, f, at, step, y + 1, 1, n);
        bool ok = y[0] == -7.0f && y[n + 1] == -7.0f;
        for (int i = 0; i < n; i++)
            ok = ok && same(y + 1 + i, whole + offset + i * step, 1);
        for (int i = 0; i < 3 * MOST + 8; i++)
            y[i] = x[i];
        run_function(tier, f, y + offset, step, y + offset, step, n);
        for (int i = 0; i < 3 * MOST + 8; i++) {
            const bool in = i >= offset && i < offset + n * step && (i - offset) % step == 0;
            ok = ok && same(y + i, (in ? whole : x) + i, 1);
        }
        test_expect(ok, tier, f->name, n, step);
    }
}

/* ------------------------------------------------------------------------------------------- softmax, norms */

typedef struct lines {
    float x[ROOM], weight[ROOM], bias[ROOM], y[ROOM], apart[3 * ROOM], other[3 * ROOM];
    double exact[ROOM];
    double size; /* 1 + largest |x| over the standard deviation */
} lines;

typedef enum line_op { LINE_SOFTMAX, LINE_LAYER_NORM, LINE_RMS_NORM } line_op;
static const char *const line_names[] = {"softmax", "norm", "rms"};

static void run_line(bs_tier tier, line_op op, const lines *l, int n, const float *x, int x_step, float *y, int y_step)
{
    const bs_row_norm norm = {l->weight, op == LINE_LAYER_NORM ? l->bias : NULL, 1e-5f, n};
    if (op == LINE_SOFTMAX)
        bs_row_softmax(tier, x, x_step, y, y_step, n);
    else
        bs_row_normalise(tier, &norm, x, x_step, y, y_step);
}

static void exact_softmax(lines *l, int n)
{
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        top = fmax(top, (double)l->x[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)(l->x[i] - (float)top));
    for (int i = 0; i < n; i++)
        l->exact[i] = exp((double)(l->x[i] - (float)top)) / sum;
}

static void exact_norm(lines *l, int n, bool centred)
{
    double mean = 0, variance = 0, top = 0;
    for (int i = 0; i < n && centred; i++)
        mean += (double)l->x[i] / n;
    for (int i = 0; i < n; i++)
        variance += ((double)l->x[i] - mean) * ((double)l->x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        top = fmax(top, fabs((double)l->x[i]));
    l->size = 1 + top / sqrt(variance + (double)1e-5f);
    for (int i = 0; i < n; i++)
        l->exact[i] = ((double)l->x[i] - mean) / sqrt(variance + (double)1e-5f) * (double)l->weight[i] +
                      (centred ? (double)l->bias[i] : 0);
}

/* Layer norm: parts as the header says; else units in the last place. */
static double line_error(const lines *l, line_op op, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++) {
        const double size = fabs((double)l->weight[i]) * l->size + fabs((double)l->bias[i]);
        const double error = op == LINE_LAYER_NORM ? fabs((double)l->y[i] - l->exact[i]) / (size * ldexp(1, -24))
                                                   : error_of(l->y[i], l->exact[i]);
        worst = fmax(worst, error);
    }
    return worst;
}

/* One row: its error; other steps; in place; beside it nothing. */
static double test_line(bs_tier tier, line_op op, lines *l, int n, float spread)
{
    for (int i = 0; i < n; i++) {
        l->x[i] = test_float(-spread, spread);
        l->weight[i] = test_float(-2, 2);
        l->bias[i] = test_float(-2, 2);
    }
    if (op == LINE_SOFTMAX)
        exact_softmax(l, n);
    else
        exact_norm(l, n, op == LINE_LAYER_NORM);
    run_line(tier, op, l, n, l->x, 1, l->y, 1);
    for (int i = 0; i < 3 * n; i++)
        l->apart[i] = l->other[i] = i % 3 ? -7.0f : l->x[i / 3];
    run_line(tier, op, l, n, l->apart, 3, l->apart, 3);
    bool ok = true;
    for (int i = 0; i < 3 * n; i++)
        ok = ok && (i % 3 ? l->apart[i] == -7.0f : same(l->apart + i, l->y + i / 3, 1));
    float *const shifted = l->apart + 1;
    memcpy(shifted, l->x, 4 * (size_t)n);
    shifted[n] = -7.0f;
    run_line(tier, op, l, n, shifted, 1, shifted, 1);
    ok = ok && same(shifted, l->y, n) && shifted[n] == -7.0f;
    run_line(tier, op, l, n, l->other, 3, shifted, 1);
    ok = ok && same(shifted, l->y, n);
    test_expect(ok, tier, line_names[op], n, (double)spread);
    return line_error(l, op, n);
}

static void test_lines(bs_tier tier, line_op op, double most)
{
    static lines l;
    double worst = 0;
    int where = 0;
    for (int n = 1; n <= 2000; n += n < 2 * MOST ? 1 : 97)
        for (int spread = 1; spread <= (op == LINE_SOFTMAX ? 64 : 4); spread *= 4) {
            const double error = test_line(tier, op, &l, n, (float)spread);
            where = error > worst ? n : where;
            worst = fmax(worst, error);
        }
    printf("%-7s %-7s error %.3f at %d\n", bs_tier_name(tier), line_names[op], worst, where);
    test_expect(worst <= most, tier, line_names[op], where, worst);
}

/* A row with a NaN, or +inf, or only -inf, is NaN; what lies far below the largest is 0, and small before that. */
static void test_softmax_specials(bs_tier tier)
{
    const float bad[] = {NAN, INFINITY};
    for (int n = 1; n <= MOST; n++) {
        float x[MOST], y[MOST];
        for (int kind = 0; kind < 4; kind++) {
            for (int i = 0; i < n; i++)
                x[i] = kind == 2 ? -INFINITY : (float)i * 0.1f;
            if (kind != 2)
                x[n / 2] = kind < 2 ? bad[kind] : 3e38f;
            bs_row_softmax(tier, x, 1, y, 1, n);
            for (int i = 0; i < n; i++)
                test_expect(kind < 3 ? isnan(y[i]) : y[i] == (i == n / 2 ? 1.0f : 0.0f), tier, "softmax of", kind,
                            (double)y[i]);
        }
    }
    const float far[] = {-86.0f, -90.0f, -103.0f, -104.0f, -INFINITY};
    float x[MOST], y[MOST];
    for (int i = 0; i < MOST; i++)
        x[i] = i == 0 ? 0.0f : far[i % 5];
    bs_row_softmax(tier, x, 1, y, 1, MOST);
    for (int i = 0; i < MOST; i++)
        test_expect(error_of(y[i], exp((double)x[i])) <= 2, tier, "softmax far below", (double)x[i], (double)y[i]);
}

#ifdef BS_SMALL
static void test_best(bs_tier tier) { (void)tier; }
#else
/* Rows of few numbers, so that the best one stands in many places. */
static void test_best(bs_tier tier)
{
    static const float some[] = {-INFINITY, -1.0f, -0.0f, 0.0f, 1.0f, INFINITY, NAN, 2.0f};
    static float row[1300];
    for (int32_t round = 0; round < 4000; round++) {
        const int32_t n = 1 + (int32_t)(test_random() % (round % 4 == 0 ? 1300 : 140));
        const uint32_t first = test_random() % 5, kinds = 1 + test_random() % (8 - first);
        for (int32_t i = 0; i < n; i++)
            row[i] = some[first + test_random() % kinds];
        if (round % 3 == 0) {
            row[0] = -0.0f;
            row[test_random() % (uint32_t)n] = round % 2 ? 3.0f : -3.0f;
        }
        for (int least = 0; least < 2; least++) {
            int64_t best = 0;
            for (int32_t i = 1; i < n; i++)
                if (least ? row[i] < row[best] : row[i] > row[best])
                    best = i;
            test_expect(bs_row_place_of_best(tier, row, n, least) == best, tier, least ? "least" : "most", n,
                        (double)best);
        }
    }
}
#endif

static void test_tier(bs_tier tier, uint32_t points)
{
    test_best(tier);
    for (int i = 0; i < FUNCTIONS; i++) {
        test_error(tier, &functions[i], points);
        test_near(tier, &functions[i], points);
        test_specials(tier, &functions[i]);
        test_place(tier, &functions[i]);
    }
    test_softmax_specials(tier);
    test_lines(tier, LINE_SOFTMAX, 6);
    test_lines(tier, LINE_LAYER_NORM, 4);
    test_lines(tier, LINE_RMS_NORM, 4);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const uint32_t points = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 1000000u;
    test_state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
        if (bs_tier_available((bs_tier)tier))
            test_tier((bs_tier)tier, points);
    printf("seed %llu\n%d passed, %d failed\n", (unsigned long long)seed, test_checks - test_failures, test_failures);
    return test_failures != 0;
}
