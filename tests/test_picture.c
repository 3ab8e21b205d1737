/* tags: asan */
/* test_picture.c: what examples/video promises about resampling and measuring. Frames as RGB:
 * test_frame_rgb.c; drawing: test_canvas.c; files of it: test_png.c.
 *
 * Owns: references in plain double arithmetic written from the formulas.
 * Relies on: video_check.h.
 * Must never: reuse a table or a helper of the code under test.
 */
#define _POSIX_C_SOURCE 200809L
#include "../examples/video/quality.h"
#include "../examples/video/y4m.h"
#include "plane_rig.h"

/* --- references --------------------------------------------------------------------------- */

static double keys(double d)
{
    d = fabs(d);
    if (d <= 1)
        return 1.5 * d * d * d - 2.5 * d * d + 1;
    return d < 2 ? -0.5 * d * d * d + 2.5 * d * d - 4 * d + 2 : 0;
}

static int clamp_int(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

static int symmetric(int i, int n)
{
    while (i < 0 || i >= n)
        i = i < 0 ? -1 - i : 2 * n - 1 - i;
    return i;
}

/* Cubic interpolation at (cx, cy), the kernel stretched by `widen`. */
static double interpolate(const picture_plane *p, double cx, double cy, double widen, bool mirrored)
{
    double sum = 0, weights = 0;
    int reach = (int)(2 * widen) + 1;
    for (int y = (int)floor(cy) - reach; y <= (int)floor(cy) + reach; y++) {
        for (int x = (int)floor(cx) - reach; x <= (int)floor(cx) + reach; x++) {
            double w = keys((x - cx) / widen) * keys((y - cy) / widen);
            int sx = mirrored ? symmetric(x, p->width) : clamp_int(x, 0, p->width - 1);
            int sy = mirrored ? symmetric(y, p->height) : clamp_int(y, 0, p->height - 1);
            sum += w * get(p, sx, sy);
            weights += w;
        }
    }
    return sum / weights;
}

static int rounded(double value, int peak) { return clamp_int((int)floor(value + 0.5 + 1e-9), 0, peak); }

/* --- doubling ----------------------------------------------------------------------------- */

static int32_t scratch[SIDE * 40];

static void doubling_case(int out_w, int out_h, int bits, picture_siting across, picture_siting down)
{
    static store a, b;
    picture_plane in = plane(&a, (out_w + 1) / 2, (out_h + 1) / 2, bits), out = plane(&b, out_w, out_h, bits);
    fill_random(&in, random_bits() & 1);
    int split = random_below(out_h + 1);
    picture_double(&out, &in, across, down, split, out_h, scratch);
    picture_double(&out, &in, across, down, 0, split, scratch);
    check(padding_untouched(&out), "%dx%d writes beside the plane", out_w, out_h);
    for (int y = 0; y < out_h; y++) {
        for (int x = 0; x < out_w; x++) {
            double cx = x / 2.0 - (across == PICTURE_COSITED ? 0.125 : 0.25);
            double cy = y / 2.0 - (down == PICTURE_COSITED ? 0.125 : 0.25);
            int want = rounded(interpolate(&in, cx, cy, 1, false), peak_of(&in));
            check(get(&out, x, y) == want, "%dx%d, %d bits, sample %d,%d is %d, not %d", out_w, out_h, bits, x, y,
                  get(&out, x, y), want);
        }
    }
}

static void test_doubling_is_exact(void)
{
    begin("doubling is Keys' cubic rounded once, for every size, depth, siting and division into rows");
    for (int i = 0; i < 400; i++)
        doubling_case(1 + random_below(40), 1 + random_below(40), random_bits() & 1 ? 8 : 10,
                      (picture_siting)(random_bits() & 1), (picture_siting)(random_bits() & 1));
    finish();
}

/* Luma sample X of the doubled picture, in luma samples of the picture doubled. */
static double position_before(double doubled) { return (doubled + 0.5) / 2 - 0.5; }

static void ramp_case(y4m_layout layout, int bits, double slope_x, double slope_y)
{
    static store a, b;
    const y4m_layout_facts *f = y4m_facts(layout);
    picture_plane in = plane(&a, 20, 18, bits), out = plane(&b, 40, 36, bits);
    for (int y = 0; y < in.height; y++)
        for (int x = 0; x < in.width; x++)
            set(&in, x, y,
                (int)(40 + slope_x * luma_position(x, f->halved_x, f->cosited_x) +
                      slope_y * luma_position(y, f->halved_y, f->cosited_y)));
    picture_double(&out, &in, f->cosited_x ? PICTURE_COSITED : PICTURE_BETWEEN,
                   f->cosited_y ? PICTURE_COSITED : PICTURE_BETWEEN, 0, out.height, scratch);
    for (int y = 6; y < out.height - 6; y++) {
        for (int x = 6; x < out.width - 6; x++) {
            double want = 40 + slope_x * position_before(luma_position(x, f->halved_x, f->cosited_x)) +
                          slope_y * position_before(luma_position(y, f->halved_y, f->cosited_y));
            check(fabs(get(&out, x, y) - want) <= 0.5, "%s: sample %d,%d is %d, should be %.3f", f->name, x, y,
                  get(&out, x, y), want);
        }
    }
}

static void test_ramps_stay_in_place(void)
{
    begin("a colour ramp keeps its place under luma for every layout's siting");
    for (int layout = 0; layout < Y4M_LAYOUT_COUNT; layout++) {
        /* Even slopes make the samples of "between" layouts whole numbers. */
        ramp_case((y4m_layout)layout, 8, 4, 0);
        ramp_case((y4m_layout)layout, 8, 0, 4);
        ramp_case((y4m_layout)layout, 10, 8, 16);
    }
    finish();
}

static void test_wrong_phase_is_seen(void)
{
    begin("the ramp test tells the two phases apart");
    static store a, b;
    picture_plane in = plane(&a, 20, 4, 8), out = plane(&b, 40, 8, 8);
    for (int y = 0; y < in.height; y++)
        for (int x = 0; x < in.width; x++)
            set(&in, x, y, 8 * x);
    picture_double(&out, &in, PICTURE_BETWEEN, PICTURE_BETWEEN, 0, 8, scratch);
    int between = get(&out, 20, 4);
    picture_double(&out, &in, PICTURE_COSITED, PICTURE_BETWEEN, 0, 8, scratch);
    check(between == 78 && get(&out, 20, 4) == 79, "%d and %d", between, get(&out, 20, 4));
    finish();
}

/* --- halving ------------------------------------------------------------------------------ */

static void halving_case(int width, int height, int bits)
{
    static store a, b;
    picture_plane in = plane(&a, width, height, bits), out = plane(&b, (width + 1) / 2, (height + 1) / 2, bits);
    fill_random(&in, random_bits() & 1);
    int split = random_below(out.height + 1);
    picture_halve(&out, &in, split, out.height, scratch);
    picture_halve(&out, &in, 0, split, scratch);
    check(padding_untouched(&out), "%dx%d writes beside the plane", width, height);
    for (int y = 0; y < out.height; y++) {
        for (int x = 0; x < out.width; x++) {
            int want = rounded(interpolate(&in, 2 * x + 0.5, 2 * y + 0.5, 2, true), peak_of(&in));
            check(get(&out, x, y) == want, "%dx%d, %d bits, sample %d,%d is %d, not %d", width, height, bits, x, y,
                  get(&out, x, y), want);
        }
    }
}

static void test_halving_is_matlabs(void)
{
    begin("halving is MATLAB's imresize: widened kernel, mirrored edges, rounded once");
    for (int i = 0; i < 400; i++)
        halving_case(1 + random_below(40), 1 + random_below(40), random_bits() & 1 ? 8 : 10);
    finish();
}

/* --- measures ----------------------------------------------------------------------------- */

static void test_psnr(void)
{
    static store s, t;
    begin("PSNR has its closed form for constant differences, and sees only what is inside the shave");
    for (int bits = 8; bits <= 10; bits += 2) {
        picture_plane a = plane(&s, 31, 17, bits), b = plane(&t, 31, 17, bits);
        for (int y = 0; y < 17; y++)
            for (int x = 0; x < 31; x++)
                set(&a, x, y, 20 + x + y), set(&b, x, y, 23 + x + y);
        check(near(quality_psnr(&a, &b, 0), 20 * log10(peak_of(&a) / 3.0), 1e-12), "%f", quality_psnr(&a, &b, 0));
        check(isinf(quality_psnr(&a, &a, 0)), "equal planes");
        set(&b, 1, 1, 255);
        check(near(quality_psnr(&a, &b, 2), 20 * log10(peak_of(&a) / 3.0), 1e-12), "shave");
        check(quality_squared_error(&a, &b, 0) == 31 * 17 * 9 - 9 + 233 * 233, "sum");
    }
    finish();
}

static void test_squared_error_of_wide_rows(void)
{
    begin("the squared error of long rows of extremes does not overflow");
    static uint16_t a[5000], b[5000];
    for (int i = 0; i < 5000; i++)
        a[i] = 1023;
    picture_plane left = {a, sizeof a, 5000, 1, 10}, right = {b, sizeof b, 5000, 1, 10};
    check(quality_squared_error(&left, &right, 0) == 5000ull * 1023 * 1023, "%llu",
          (unsigned long long)quality_squared_error(&left, &right, 0));
    finish();
}

/* SSIM of one window, straight from the paper's sums. */
static double window_ssim(const picture_plane *a, const picture_plane *b, int left, int top)
{
    double w_sum = 0, ma = 0, mb = 0, va = 0, vb = 0, c = 0, peak = peak_of(a);
    double c1 = pow(0.01 * peak, 2), c2 = pow(0.03 * peak, 2);
    for (int pass = 0; pass < 2; pass++) {
        for (int y = 0; y < 11; y++) {
            for (int x = 0; x < 11; x++) {
                double w = exp(-((x - 5) * (x - 5) + (y - 5) * (y - 5)) / 4.5);
                double p = get(a, left + x, top + y), q = get(b, left + x, top + y);
                if (pass == 0)
                    w_sum += w, ma += w * p, mb += w * q;
                else
                    va += w * (p - ma) * (p - ma), vb += w * (q - mb) * (q - mb), c += w * (p - ma) * (q - mb);
            }
        }
        if (pass == 0)
            ma /= w_sum, mb /= w_sum;
    }
    va /= w_sum, vb /= w_sum, c /= w_sum;
    return (2 * ma * mb + c1) * (2 * c + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
}

static void test_ssim(void)
{
    static store s, t;
    static double memory[SIDE * 5];
    begin("SSIM is the mean over all 11x11 Gaussian windows; 1 for equal planes");
    for (int bits = 8; bits <= 10; bits += 2) {
        picture_plane a = plane(&s, 29, 23, bits), b = plane(&t, 29, 23, bits);
        fill_random(&a, false);
        for (int y = 0; y < 23; y++)
            for (int x = 0; x < 29; x++)
                set(&b, x, y, clamp_int(get(&a, x, y) + random_below(60) - 30, 0, peak_of(&a)));
        for (int shave = 0; shave < 3; shave += 2) {
            double sum = 0;
            int n = 0;
            for (int y = shave; y + 11 <= 23 - shave; y++)
                for (int x = shave; x + 11 <= 29 - shave; x++, n++)
                    sum += window_ssim(&a, &b, x, y);
            double got = quality_ssim(&a, &b, shave, memory);
            check(near(got, sum / n, 1e-9), "%d bits, shave %d: %.12f, not %.12f", bits, shave, got, sum / n);
        }
        check(near(quality_ssim(&a, &a, 0, memory), 1, 1e-12), "equal planes");
        check(quality_ssim_scratch(29) <= sizeof memory, "scratch of %zu", quality_ssim_scratch(29));
    }
    picture_plane small = plane(&s, 10, 30, 8);
    check(isnan(quality_ssim(&small, &small, 0, memory)), "a plane below the window's size");
    finish();
}

/* --- codes that are none ------------------------------------------------------------------ */

static bool flat(const picture_plane *p, int code)
{
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++)
            if (get(p, x, y) != code)
                return false;
    return true;
}

static bool equal_planes(const picture_plane *a, const picture_plane *b)
{
    for (int y = 0; y < a->height; y++)
        for (int x = 0; x < a->width; x++)
            if (get(a, x, y) != get(b, x, y))
                return false;
    return true;
}

static void test_codes_above_the_largest(void)
{
    begin("codes above the largest count as the largest, when doubled, halved and measured");
    static store stores[4];
    static const int codes[] = {1024, 1100, 2048, 32767, 32768, 50000, 65535};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        picture_plane in = plane(&stores[0], 20, 18, 10), up = plane(&stores[1], 40, 36, 10),
                      down = plane(&stores[2], 10, 9, 10);
        for (int k = 0; k < 20 * 18; k++)
            set(&in, k % 20, k / 20, codes[i]);
        for (int siting = 0; siting < 4; siting++) {
            picture_double(&up, &in, (picture_siting)(siting & 1), (picture_siting)(siting >> 1), 0, 36, scratch);
            check(flat(&up, 1023), "a flat plane of %d is %d when doubled", codes[i], get(&up, 20, 18));
        }
        picture_halve(&down, &in, 0, 9, scratch);
        check(flat(&down, 1023), "a flat plane of %d is %d when halved", codes[i], get(&down, 5, 4));
    }
    for (int round = 0; round < 40; round++) {
        static store over_store, clipped_store, a_store, b_store;
        static double sums[40 * 5];
        picture_plane over = plane(&over_store, 20, 18, 10), clipped = plane(&clipped_store, 20, 18, 10);
        for (int k = 0; k < 20 * 18; k++) {
            int code = random_bits() & 1 ? random_below(65536) : random_below(1100);
            set(&over, k % 20, k / 20, code);
            set(&clipped, k % 20, k / 20, code < 1023 ? code : 1023);
        }
        picture_plane a = plane(&a_store, 40, 36, 10), b = plane(&b_store, 40, 36, 10);
        picture_double(&a, &over, PICTURE_COSITED, PICTURE_BETWEEN, 0, 36, scratch);
        picture_double(&b, &clipped, PICTURE_COSITED, PICTURE_BETWEEN, 0, 36, scratch);
        check(equal_planes(&a, &b), "doubling differs");
        a = plane(&a_store, 10, 9, 10), b = plane(&b_store, 10, 9, 10);
        picture_halve(&a, &over, 0, 9, scratch);
        picture_halve(&b, &clipped, 0, 9, scratch);
        check(equal_planes(&a, &b), "halving differs");
        picture_plane black = plane(&a_store, 20, 18, 10);
        for (int k = 0; k < 20 * 18; k++)
            set(&black, k % 20, k / 20, random_below(1024));
        check(quality_squared_error(&over, &black, 0) == quality_squared_error(&clipped, &black, 0) &&
                  quality_squared_error(&over, &clipped, 0) == 0,
              "the squared error differs");
        check(quality_ssim(&over, &black, 0, sums) == quality_ssim(&clipped, &black, 0, sums), "SSIM differs");
    }
    finish();
}

int main(void)
{
    test_codes_above_the_largest();
    test_doubling_is_exact();
    test_ramps_stay_in_place();
    test_wrong_phase_is_seen();
    test_halving_is_matlabs();
    test_psnr();
    test_squared_error_of_wide_rows();
    test_ssim();
    return summary();
}
