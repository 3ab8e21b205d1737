/* tags: small asan shipped aarch64 32-bit */
/* test_elementwise_kernels.c: what the loops of kernels/elementwise.h promise, at every tier this machine has.
 *
 *   conversion  codes to floats exactly; floats to codes clipped, to nearest even, NaN to 0
 *   store       shuffle, base, clip and round, for every size and stride
 *   bicubic     codes: the exact integer sum, rounded half up, the same on every tier, within half a code of
 *               the real result; floats: close to the double result
 *   features    the exact sums, whatever the margins, shift and size
 *   and nothing is read or written beside the rows (buffers are exact: run under a sanitizer)
 *
 * Usage: test_elementwise_kernels [seed]
 */
#include "src/kernels/elementwise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t test_state;
static int test_failures, test_checks;

static uint32_t test_random(void)
{
    test_state ^= test_state << 13;
    test_state ^= test_state >> 7;
    test_state ^= test_state << 17;
    return (uint32_t)(test_state >> 32);
}

static int32_t test_between(int32_t low, int32_t high)
{
    return low + (int32_t)(test_random() % (uint32_t)(high - low + 1));
}

static float test_float(float low, float high)
{
    return low + (float)test_random() / 4294967296.0f * (high - low);
}

static void test_expect(bool ok, bs_tier tier, const char *what, int32_t h, int32_t w)
{
    test_checks++;
    if (ok)
        return;
    test_failures++;
    printf("FAIL %s, tier %s, %dx%d\n", what, bs_tier_name(tier), h, w);
}

static void *test_memory(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        exit(2);
    return p;
}

/* -------------------------------------------------------------------------------------------- conversion */

static int32_t expected_code(float x, float scale, int32_t high)
{
    const float v = x * scale;
    if (!(v > 0))
        return 0;
    return v >= (float)high ? high : (int32_t)rint((double)v);
}

static void test_conversion(bs_tier tier)
{
    const int32_t n = test_between(1, 70), high = test_between(0, 1) ? 1023 : 65535;
    uint8_t *u8 = test_memory((size_t)n);
    uint16_t *u16 = test_memory((size_t)n * 2);
    float *f = test_memory((size_t)n * 4), *g = test_memory((size_t)n * 4);
    for (int32_t i = 0; i < n; i++) {
        u8[i] = (uint8_t)test_random();
        u16[i] = (uint16_t)test_random();
    }
    bs_row_u8_to_f32(tier, u8, f, n, 1.0f / 255.0f);
    bs_row_u16_to_f32(tier, u16, g, n, 1.0f / 1023.0f);
    bool ok = true;
    for (int32_t i = 0; i < n; i++)
        ok = ok && f[i] == (float)u8[i] * (1.0f / 255.0f) && g[i] == (float)u16[i] * (1.0f / 1023.0f);
    test_expect(ok, tier, "codes to floats", 1, n);

    static const float special[] = {0.5f,  1.5f,     2.5f,      254.5f, 255.5f, -0.5f, -1e30f,
                                    1e30f, INFINITY, -INFINITY, NAN,    -0.0f,  1e-30f};
    for (int32_t i = 0; i < n; i++)
        f[i] = test_between(0, 3) ? test_float(-20.0f, (float)high * 1.1f)
                                  : special[test_random() % (sizeof special / sizeof special[0])];
    const float scale = test_between(0, 1) ? 1.0f : 0.37f;
    bs_row_f32_to_u8(tier, f, u8, n, scale);
    bs_row_f32_to_u16(tier, f, u16, n, scale, (uint16_t)high);
    ok = true;
    for (int32_t i = 0; i < n; i++)
        ok = ok && u8[i] == expected_code(f[i], scale, 255) && u16[i] == expected_code(f[i], scale, high);
    test_expect(ok, tier, "floats to codes", 1, n);
    free(u8), free(u16), free(f), free(g);
}

/* ------------------------------------------------------------------------------------------------- store */

static void test_store(bs_tier tier)
{
    const int32_t h = test_between(1, 6), w = test_between(1, 40), pixel = test_between(0, 1) ? 4 : test_between(4, 9);
    const ptrdiff_t tail_row = (ptrdiff_t)w * pixel + test_between(0, 3), base_row = 2 * w + test_between(0, 3);
    const ptrdiff_t out_row = 2 * w + test_between(0, 3);
    const size_t tails = (size_t)((h - 1) * tail_row + (ptrdiff_t)(w - 1) * pixel + 4);
    const size_t bases = (size_t)((2 * h - 1) * base_row + 2 * w), outs = (size_t)((2 * h - 1) * out_row + 2 * w);
    float *tail = test_memory(tails * 4), *base = test_memory(bases * 4);
    uint8_t *u8 = test_memory(outs);
    uint16_t *u16 = test_memory(outs * 2);
    for (size_t i = 0; i < tails; i++)
        tail[i] = test_float(-0.5f, 0.5f);
    for (size_t i = 0; i < bases; i++)
        base[i] = test_float(0.0f, 1.0f);
    memset(u8, 77, outs);
    memset(u16, 77, outs * 2);
    bs_sr_store s = { tail, tail_row, pixel, test_between(0, 3) ? base : NULL, base_row, u8, out_row, h, w, 255.0f, 0 };
    bs_sr_store_u8(tier, &s);
    bs_sr_store t = s;
    t.out = u16, t.scale = 1023.0f, t.high = 1023;
    bs_sr_store_u16(tier, &t);
    bool ok = true;
    for (ptrdiff_t y = 0; y < 2 * h; y++)
        for (ptrdiff_t x = 0; x < out_row && y * out_row + x < (ptrdiff_t)outs; x++) {
            int32_t a = 77, b = 77 * 257;
            if (x < 2 * w) {
                float v = tail[y / 2 * tail_row + x / 2 * pixel + 2 * (y % 2) + x % 2];
                if (s.base)
                    v += base[y * base_row + x];
                a = expected_code(v, 255.0f, 255);
                b = expected_code(v, 1023.0f, 1023);
            }
            ok = ok && u8[y * out_row + x] == a && u16[y * out_row + x] == b;
        }
    test_expect(ok, tier, "super-resolution store", h, w);
    free(tail), free(base), free(u8), free(u16);
}

/* ----------------------------------------------------------------------------------------------- regions */

/* A region with margins in storage that holds nothing else. */
typedef struct test_region {
    int32_t h, w;
    bs_margins m;
    ptrdiff_t row;
    size_t samples;
    ptrdiff_t origin; /* of sample (0, 0) in the storage */
} test_region;

static test_region test_region_random(int32_t most)
{
    test_region r = { test_between(1, 9), test_between(1, most), { 0, 0, 0, 0 }, 0, 0, 0 };
    const int32_t whole = test_between(0, 2);
    r.m.top = whole ? 2 : test_between(0, 3), r.m.bottom = whole ? 2 : test_between(0, 3);
    r.m.left = whole ? 2 : test_between(0, 3), r.m.right = whole ? 2 : test_between(0, 3);
    r.row = r.w + r.m.left + r.m.right + test_between(0, 3);
    r.samples = (size_t)((r.h + r.m.top + r.m.bottom - 1) * r.row + r.w + r.m.left + r.m.right);
    r.origin = r.m.top * r.row + r.m.left;
    return r;
}

static ptrdiff_t region_at(const test_region *r, int32_t y, int32_t x)
{
    y = y < -r->m.top ? -r->m.top : y >= r->h + r->m.bottom ? r->h + r->m.bottom - 1 : y;
    x = x < -r->m.left ? -r->m.left : x >= r->w + r->m.right ? r->w + r->m.right - 1 : x;
    return r->origin + y * r->row + x;
}

/* ----------------------------------------------------------------------------------------------- bicubic */

static const int32_t cubic_weights[2][5] = { { -3, 29, 111, -9, 0 }, { 0, -9, 111, 29, -3 } };

/* The exact sum, x 2^14. */
static int64_t expected_cubic(const test_region *r, const uint16_t *codes, int32_t y, int32_t x)
{
    int64_t sum = 0;
    for (int32_t j = 0; j < 5; j++)
        for (int32_t i = 0; i < 5; i++)
            sum += (int64_t)cubic_weights[y % 2][j] * cubic_weights[x % 2][i] *
                   codes[region_at(r, y / 2 + j - 2, x / 2 + i - 2)];
    return sum;
}

static int32_t rounded_code(int64_t sum, int32_t high)
{
    const int64_t code = (int64_t)floor((double)sum / 16384.0 + 0.5);
    return code < 0 ? 0 : code > high ? high : (int32_t)code;
}

static double expected_cubic_f32(const test_region *r, const float *v, int32_t y, int32_t x)
{
    double sum = 0;
    for (int32_t j = 0; j < 5; j++)
        for (int32_t i = 0; i < 5; i++)
            sum += (double)(cubic_weights[y % 2][j] * cubic_weights[x % 2][i]) *
                   (double)v[region_at(r, y / 2 + j - 2, x / 2 + i - 2)];
    return sum / 16384.0;
}

static void test_bicubic(bs_tier tier)
{
    const test_region r = test_region_random(test_between(0, 4) ? 40 : 300);
    static const int32_t highs[] = { 1023, 1023, 1023, 4095, 65535 };
    const int32_t high = highs[test_between(0, 4)], kind = test_between(0, 3);
    const ptrdiff_t out_row = 2 * r.w + test_between(0, 3);
    const size_t outs = (size_t)((2 * r.h - 1) * out_row + 2 * r.w);
    uint8_t *u8 = test_memory(r.samples), *out8 = test_memory(outs);
    uint16_t *u16 = test_memory(r.samples * 2), *wide8 = test_memory(r.samples * 2), *out16 = test_memory(outs * 2);
    float *f = test_memory(r.samples * 4), *outf = test_memory(outs * 4);
    for (size_t i = 0; i < r.samples; i++) { /* noise, or the extremes only: they overshoot the most */
        u16[i] = kind ? (uint16_t)(test_random() % (uint32_t)(high + 1)) : (uint16_t)(test_random() & 1 ? high : 0);
        u8[i] = kind ? (uint8_t)test_random() : (uint8_t)(test_random() & 1 ? 255 : 0);
        wide8[i] = u8[i];
        f[i] = test_float(-1.0f, 1.0f);
    }
    memset(out8, 77, outs);
    const bs_bicubic2x t8 = { u8 + r.origin, r.row, out8, out_row, r.h, r.w, r.m, 0 };
    const bs_bicubic2x t16 = { u16 + r.origin, r.row, out16, out_row, r.h, r.w, r.m, (uint16_t)high };
    const bs_bicubic2x tf = { f + r.origin, r.row, outf, out_row, r.h, r.w, r.m, 0 };
    bs_bicubic2x_u8(tier, &t8);
    bs_bicubic2x_u16(tier, &t16);
    bs_bicubic2x_f32(tier, &tf);
    bool ok8 = true, ok16 = true, okf = true;
    for (int32_t y = 0; y < 2 * r.h; y++)
        for (int32_t x = 0; x < 2 * r.w; x++) {
            const ptrdiff_t at = y * out_row + x;
            ok8 = ok8 && out8[at] == rounded_code(expected_cubic(&r, wide8, y, x), 255);
            ok16 = ok16 && out16[at] == rounded_code(expected_cubic(&r, u16, y, x), high);
            okf = okf && fabs((double)outf[at] - expected_cubic_f32(&r, f, y, x)) < 1e-6;
        }
    for (size_t i = 0; i < outs; i++)
        ok8 = ok8 && ((ptrdiff_t)i % out_row < 2 * r.w || out8[i] == 77);
    test_expect(ok8, tier, "bicubic u8", r.h, r.w);
    test_expect(ok16, tier, "bicubic u16", r.h, r.w);
    test_expect(okf, tier, "bicubic f32", r.h, r.w);
    free(u8), free(out8), free(u16), free(wide8), free(out16), free(f), free(outf);
}

/* The table is Keys' kernel, at the quarters that half-pixel centres ask for. */
static double keys(double x)
{
    x = fabs(x);
    return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}

static void test_weights(void)
{
    bool ok = true;
    for (int32_t odd = 0; odd < 2; odd++)
        for (int32_t i = 0; i < 5; i++) {
            const double position = odd ? 0.25 : -0.25;
            ok = ok && cubic_weights[odd][i] == keys(position - (i - 2)) * 128;
        }
    test_expect(ok, BS_TIER_SCALAR, "weights of the bicubic", 0, 0);
}

/* ---------------------------------------------------------------------------------------------- features */

static uint64_t square(int64_t v)
{
    return (uint64_t)(v * v);
}

static uint64_t expected_energy(const test_region *r, const uint16_t *v, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t y = 0; y < r->h; y++)
        for (int32_t x = 0; x < r->w; x++)
            sum += square(4 * (v[region_at(r, y, x)] >> shift) - (v[region_at(r, y - 1, x)] >> shift) -
                          (v[region_at(r, y + 1, x)] >> shift) - (v[region_at(r, y, x - 1)] >> shift) -
                          (v[region_at(r, y, x + 1)] >> shift));
    return sum;
}

/* Every other column, as they lie, is what they are side by side. */
static void test_columns_apart(bs_tier tier, const test_region *r, const uint16_t *a, const uint16_t *b, int32_t shift)
{
    const int32_t w = (r->w + 1) / 2;
    uint16_t *copy[2] = {test_memory((size_t)r->h * (size_t)w * 2), test_memory((size_t)r->h * (size_t)w * 2)};
    for (int32_t y = 0; y < r->h; y++)
        for (int32_t x = 0; x < w; x++) {
            copy[0][y * w + x] = a[region_at(r, y, 2 * x)];
            copy[1][y * w + x] = b[region_at(r, y, 2 * x)];
        }
    const bs_codes from = {a + r->origin, r->row, 2, true, shift}, to = {b + r->origin, r->row, 2, true, shift};
    const bs_codes dense = {copy[0], w, 1, true, shift}, others = {copy[1], w, 1, true, shift};
    test_expect(bs_laplacian_energy(tier, &from, r->h, w) == bs_laplacian_energy(tier, &dense, r->h, w), tier,
                "energy of columns apart", r->h, w);
    test_expect(bs_squared_change(tier, &from, &to, r->h, w) == bs_squared_change(tier, &dense, &others, r->h, w), tier,
                "change of columns apart", r->h, w);
    free(copy[0]), free(copy[1]);
}

static void test_features(bs_tier tier)
{
    test_region r = test_region_random(test_between(0, 3) ? 70 : 600);
    const int32_t shift = test_between(0, 8), kind = test_between(0, 2);
    memset(&r.m, 0, sizeof r.m); /* features look at a region alone */
    const uint32_t below = shift >= 4 ? 65536 : 1u << (12 + shift); /* codes must be below 2^12 once shifted */
    uint8_t *a8 = test_memory(r.samples), *b8 = test_memory(r.samples);
    uint16_t *a16 = test_memory(r.samples * 2), *b16 = test_memory(r.samples * 2), *wide8 = test_memory(r.samples * 2);
    for (size_t i = 0; i < r.samples; i++) {
        a16[i] = (uint16_t)(kind ? test_random() % below : test_random() & 1 ? below - 1 : 0);
        b16[i] = (uint16_t)(kind ? test_random() % below : below - 1 - a16[i]);
        wide8[i] = a8[i] = (uint8_t)(kind ? test_random() : test_random() & 1 ? 255 : 0);
        b8[i] = (uint8_t)(kind ? test_random() : 255u - a8[i]);
    }
    uint64_t change8 = 0, change16 = 0;
    for (int32_t y = 0; y < r.h; y++)
        for (int32_t x = 0; x < r.w; x++) {
            const ptrdiff_t at = region_at(&r, y, x);
            change8 += square(a8[at] - b8[at]);
            change16 += square((a16[at] >> shift) - (b16[at] >> shift));
        }
    const bs_codes from8 = {a8 + r.origin, r.row, 1, false, 0}, to8 = {b8 + r.origin, r.row, 1, false, 0};
    const bs_codes from16 = {a16 + r.origin, r.row, 1, true, shift}, to16 = {b16 + r.origin, r.row, 1, true, shift};
    test_expect(bs_laplacian_energy(tier, &from8, r.h, r.w) == expected_energy(&r, wide8, 0), tier, "energy u8", r.h,
                r.w);
    test_expect(bs_laplacian_energy(tier, &from16, r.h, r.w) == expected_energy(&r, a16, shift), tier, "energy u16",
                r.h, r.w);
    test_expect(bs_squared_change(tier, &from8, &to8, r.h, r.w) == change8, tier, "change u8", r.h, r.w);
    test_expect(bs_squared_change(tier, &from16, &to16, r.h, r.w) == change16, tier, "change u16", r.h, r.w);
    test_columns_apart(tier, &r, a16, b16, shift);
    free(a8), free(b8), free(a16), free(b16), free(wide8);
}

int main(int argc, char **argv)
{
    test_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 20251121u;
    printf("seed %llu, best tier %s\n", (unsigned long long)test_state, bs_tier_name(bs_tier_best()));
    test_state = test_state * 2 + 1;
    test_weights();
    for (int i = BS_TIER_SCALAR; i <= BS_TIER_NEON; i++) {
        const bs_tier tier = (bs_tier)i;
        if (!bs_tier_available(tier))
            continue;
        const int failures = test_failures, checks = test_checks;
        for (int repeat = 0; repeat < 300; repeat++) {
            test_conversion(tier);
            test_store(tier);
            test_bicubic(tier);
            test_features(tier);
        }
        printf("%s elementwise, tier %s: %d checks\n", test_failures == failures ? "PASS" : "FAIL", bs_tier_name(tier),
               test_checks - checks);
    }
    printf("%d passed, %d failed\n", test_checks - test_failures, test_failures);
    return test_failures != 0;
}
