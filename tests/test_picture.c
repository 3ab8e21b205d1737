/* test_picture.c: what examples/video and examples/pictures promise about resampling, measuring, and drawing.
 *
 * Owns: references in plain double arithmetic written from the formulas, and an inflate of its own.
 * Relies on: video_check.h.
 * Must never: reuse a table or a helper of the code under test.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "../examples/pictures/canvas.h"
#include "../examples/pictures/png.h"
#include "../examples/video/frame_rgb.h"
#include "../examples/video/picture.h"
#include "../examples/video/quality.h"
#include "video_check.h"

/* --- planes ------------------------------------------------------------------------------- */

enum { SIDE = 48, STRIDE = 64, CANARY = 0x5a };

/* Room for any test plane, with padding that must stay untouched. */
typedef struct store {
    uint16_t samples[STRIDE * SIDE];
} store;

static picture_plane plane(store *memory, int width, int height, int bits)
{
    memset(memory, CANARY, sizeof *memory);
    return (picture_plane){memory->samples, bits > 8 ? STRIDE * 2 : STRIDE, width, height, bits};
}

static int get(const picture_plane *p, int x, int y)
{
    const uint8_t *row = (const uint8_t *)p->data + (size_t)y * p->stride_bytes;
    return p->bits > 8 ? ((const uint16_t *)(const void *)row)[x] : row[x];
}

static void set(const picture_plane *p, int x, int y, int value)
{
    uint8_t *row = (uint8_t *)p->data + (size_t)y * p->stride_bytes;
    if (p->bits > 8)
        ((uint16_t *)(void *)row)[x] = (uint16_t)value;
    else
        row[x] = (uint8_t)value;
}

static int peak_of(const picture_plane *p) { return (1 << p->bits) - 1; }

/* Noise; every other time of extremes only, which reach the widest sums. */
static void fill_random(const picture_plane *p, bool extremes)
{
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++)
            set(p, x, y, extremes ? random_below(2) * peak_of(p) : random_below(peak_of(p) + 1));
}

static bool padding_untouched(const picture_plane *p)
{
    for (int y = 0; y < p->height; y++)
        for (int x = p->width; x < STRIDE; x++)
            if (get(p, x, y) != (p->bits > 8 ? CANARY * 257 : CANARY))
                return false;
    return get(p, 0, p->height) == (p->bits > 8 ? CANARY * 257 : CANARY);
}

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

/* Position of sample c of a plane, in luma samples of the picture that the plane belongs to. */
static double luma_position(int c, int halved, int cosited) { return !halved ? c : cosited ? 2.0 * c : 2.0 * c + 0.5; }

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

static bool near(double a, double b, double tolerance) { return fabs(a - b) <= tolerance; }

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

/* --- PNG ---------------------------------------------------------------------------------- */

typedef struct bit_source {
    const uint8_t *at, *end;
    int bit;
    bool bad;
} bit_source;

static int bits_in(bit_source *s, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (s->at >= s->end) {
            s->bad = true;
            return 0;
        }
        value |= (*s->at >> s->bit & 1) << i;
        s->bit = (s->bit + 1) & 7;
        s->at += s->bit == 0;
    }
    return value;
}

/* Canonical code: count[] per length and the symbols in order. Decoded bit by bit. */
typedef struct canonical {
    int count[16], symbol[320];
} canonical;

static bool make_canonical(canonical *c, const int *length, int n)
{
    int left = 1;
    memset(c, 0, sizeof *c);
    for (int bits = 1, next = 0; bits < 16; bits++) {
        for (int i = 0; i < n; i++)
            if (length[i] == bits)
                c->symbol[next++] = i, c->count[bits]++;
        left = 2 * left - c->count[bits];
        if (left < 0)
            return false;
    }
    return left == 0; /* over- or under-full codes are refused by strict readers */
}

static int decode(bit_source *s, const canonical *c)
{
    int code = 0, first = 0, index = 0;
    for (int bits = 1; bits < 16; bits++) {
        code |= bits_in(s, 1);
        if (code - first < c->count[bits])
            return c->symbol[index + code - first];
        index += c->count[bits];
        first = (first + c->count[bits]) << 1;
        code <<= 1;
    }
    s->bad = true;
    return 0;
}

static bool read_codes(bit_source *s, canonical *literals, canonical *distances)
{
    static const int order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    int length[320] = {0}, nl = bits_in(s, 5) + 257, nd = bits_in(s, 5) + 1, nc = bits_in(s, 4) + 4;
    canonical c;
    for (int i = 0; i < nc; i++)
        length[order[i]] = bits_in(s, 3);
    if (!make_canonical(&c, length, 19))
        return false;
    memset(length, 0, sizeof length);
    for (int i = 0; i < nl + nd && !s->bad;) {
        int symbol = decode(s, &c), repeat = 1, value = symbol;
        if (symbol == 16)
            value = i ? length[i - 1] : 0, repeat = 3 + bits_in(s, 2);
        else if (symbol > 16)
            value = 0, repeat = symbol == 17 ? 3 + bits_in(s, 3) : 11 + bits_in(s, 7);
        for (; repeat > 0 && i < nl + nd; repeat--)
            length[i++] = value;
    }
    return make_canonical(literals, length, nl) && make_canonical(distances, length + nl, nd);
}

/* Base and extra bits of length and distance codes, worked out instead of tabled. */
static int base_value(bit_source *s, int code, int group, int first)
{
    int extra = code < 2 * group ? 0 : code / group - 1, base = first;
    for (int i = 0; i < code; i++)
        base += 1 << (i < 2 * group ? 0 : i / group - 1);
    return base + bits_in(s, extra);
}

static size_t inflate_block(bit_source *s, uint8_t *out, size_t used, size_t room)
{
    canonical literals, distances;
    if (!read_codes(s, &literals, &distances)) {
        s->bad = true;
        return used;
    }
    while (!s->bad) {
        int symbol = decode(s, &literals);
        if (symbol == 256)
            return used;
        if (symbol < 256 && used < room) {
            out[used++] = (uint8_t)symbol;
            continue;
        }
        int length = symbol == 285 ? 258 : base_value(s, symbol - 257, 4, 3);
        int distance = base_value(s, decode(s, &distances), 2, 1);
        s->bad = s->bad || (size_t)distance > used || used + (size_t)length > room;
        for (; !s->bad && length > 0; length--, used++)
            out[used] = out[used - (size_t)distance];
    }
    return used;
}

/* zlib stream to bytes; 0 where anything is wrong with it. */
static size_t inflate(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
    bit_source s = {data + 2, data + size, 0, size < 6 || (data[0] * 256 + data[1]) % 31 != 0};
    size_t used = 0;
    for (int last = 0; !last && !s.bad;) {
        last = bits_in(&s, 1);
        s.bad = s.bad || bits_in(&s, 2) != 2;
        if (!s.bad)
            used = inflate_block(&s, out, used, room);
    }
    const uint8_t *check_bytes = s.at + (s.bit != 0);
    uint32_t a = 1, b = 0, stored = 0;
    for (size_t i = 0; i < used; i++)
        a = (a + out[i]) % 65521, b = (b + a) % 65521;
    for (int i = 0; i < 4 && check_bytes + i < s.end; i++)
        stored = stored << 8 | check_bytes[i];
    return s.bad || stored != (b << 16 | a) || check_bytes + 4 != s.end ? 0 : used;
}

static uint32_t crc_of(const uint8_t *bytes, size_t n)
{
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) {
        c ^= bytes[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    }
    return ~c;
}

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Checks every chunk and joins the image data in place. Returns its size. */
static size_t join_chunks(uint8_t *file, size_t size, int *width, int *height, int *channels)
{
    size_t at = 8, used = 0;
    while (at + 12 <= size) {
        uint32_t n = word_at(file + at);
        const uint8_t *body = file + at + 8;
        if (at + 12 + n > size || crc_of(file + at + 4, n + 4) != word_at(body + n))
            return 0;
        if (memcmp(file + at + 4, "IHDR", 4) == 0) {
            *width = (int)word_at(body), *height = (int)word_at(body + 4);
            *channels = body[9] == 2 ? 3 : 1;
        } else if (memcmp(file + at + 4, "IDAT", 4) == 0) {
            memmove(file + used, body, n);
            used += n;
        } else if (memcmp(file + at + 4, "IEND", 4) == 0) {
            return at + 12 == size ? used : 0;
        }
        at += 12 + n;
    }
    return 0;
}

static int paeth_of(int a, int b, int c)
{
    int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* rows: filter byte and residuals; turned into pixels in place, still with the filter bytes. */
static void unfilter(uint8_t *rows, int bytes, int height, int channels)
{
    for (int y = 0; y < height; y++) {
        uint8_t *row = rows + (size_t)y * (size_t)(bytes + 1) + 1;
        const uint8_t *above = y ? row - bytes - 1 : row;
        int filter = row[-1] % 5;
        for (int i = 0; i < bytes; i++) {
            int a = i >= channels ? row[i - channels] : 0, b = y ? above[i] : 0;
            int c = y && i >= channels ? above[i - channels] : 0;
            const int add[5] = {0, a, b, (a + b) / 2, paeth_of(a, b, c)};
            row[i] = (uint8_t)(row[i] + add[filter]);
        }
    }
}

static void png_case(const uint8_t *pixels, int width, int height, int channels, const char *what)
{
    const size_t bytes = (size_t)(width * channels), raw = (bytes + 1) * (size_t)height;
    FILE *file = tmpfile();
    void *memory = malloc(png_scratch(width, channels));
    uint8_t *copy = malloc(2 * raw + 4096), *rows = malloc(raw);
    int w = 0, h = 0, c = 0;
    if (check(file && memory && copy && rows, "out of memory")) {
        check(png_write(file, pixels, bytes, width, height, channels, memory), "%s: not written", what);
        rewind(file);
        size_t size = fread(copy, 1, 2 * raw + 4096, file), data = join_chunks(copy, size, &w, &h, &c);
        check(data > 0 && w == width && h == height && c == channels, "%s: chunks", what);
        check(inflate(copy, data, rows, raw) == raw, "%s: compressed data", what);
        unfilter(rows, (int)bytes, height, channels);
        for (int y = 0; y < height; y++)
            check(memcmp(rows + (size_t)y * (bytes + 1) + 1, pixels + (size_t)y * bytes, bytes) == 0,
                  "%s: row %d differs", what, y);
    }
    free(memory), free(copy), free(rows);
    if (file)
        fclose(file);
}

static void test_png(void)
{
    begin("PNG files decode to the same pixels, with right checksums and complete codes");
    static uint8_t pixels[300 * 200 * 3];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)random_bits();
    png_case(pixels, 300, 200, 3, "noise");
    png_case(pixels, 1, 1, 1, "one pixel");
    png_case(pixels, 1, 7, 3, "a column");
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i % 900 / 5 + i / 900);
    png_case(pixels, 300, 200, 3, "gradient");
    png_case(pixels, 173, 111, 1, "grey");
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i >> 9);
    png_case(pixels, 300, 200, 3, "pattern");
    memset(pixels, 77, sizeof pixels);
    png_case(pixels, 300, 200, 3, "flat");
    finish();
}

static void test_png_of_full_device(void)
{
    begin("a PNG that cannot be written is reported");
    static uint8_t pixels[64 * 64];
    FILE *file = fopen("/dev/full", "wb");
    void *memory = malloc(png_scratch(64, 1));
    if (!file)
        printf("skipped: no /dev/full here\n");
    else if (check(memory != NULL, "out of memory"))
        check(!png_write(file, pixels, 64, 64, 64, 1, memory), "success reported");
    if (file)
        fclose(file);
    free(memory);
    finish();
}

/* --- frames to RGB ------------------------------------------------------------------------ */

static void colour_case(y4m_layout layout, y4m_range range, frame_matrix matrix, const int yuv[3], const int rgb[3])
{
    uint16_t frame[12];
    uint8_t pixels[12];
    y4m_info info = {.width = 2, .height = 2, .layout = layout, .range = range};
    int deep = y4m_sample_bytes(&info) == 2;
    for (int p = 0; p < y4m_planes(&info); p++) {
        for (size_t i = 0; i < y4m_plane_bytes(&info, p) / (deep ? 2 : 1); i++) {
            size_t at = y4m_plane_offset(&info, p) / (deep ? 2 : 1) + i;
            if (deep)
                frame[at] = (uint16_t)(yuv[p] * 4);
            else
                ((uint8_t *)frame)[at] = (uint8_t)yuv[p];
        }
    }
    frame_to_rgb(pixels, &info, frame, matrix);
    for (int i = 0; i < 12; i++)
        check(abs(pixels[i] - rgb[i % 3]) <= 1, "%s range %d matrix %d: channel %d is %d, not %d",
              y4m_facts(layout)->name, (int)range, (int)matrix, i % 3, pixels[i], rgb[i % 3]);
}

static void test_colours(void)
{
    begin("frames become RGB by matrix and range, in every layout");
    static const struct {
        y4m_range range;
        frame_matrix matrix;
        int yuv[3], rgb[3];
    } known[] = {
        {Y4M_RANGE_LIMITED, FRAME_BT601, {16, 128, 128}, {0, 0, 0}},
        {Y4M_RANGE_UNSAID, FRAME_BT601, {235, 128, 128}, {255, 255, 255}},
        {Y4M_RANGE_FULL, FRAME_BT601, {100, 128, 128}, {100, 100, 100}},
        {Y4M_RANGE_LIMITED, FRAME_BT601, {81, 90, 240}, {254, 0, 0}},
        {Y4M_RANGE_LIMITED, FRAME_BT601, {145, 54, 34}, {0, 255, 1}},
        {Y4M_RANGE_LIMITED, FRAME_BT601, {41, 240, 110}, {0, 0, 255}},
        {Y4M_RANGE_LIMITED, FRAME_BT709, {63, 102, 240}, {255, 1, 0}},
        {Y4M_RANGE_LIMITED, FRAME_BT709, {173, 42, 26}, {0, 255, 1}},
        {Y4M_RANGE_FULL, FRAME_BT601, {76, 85, 255}, {254, 0, 0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int layout = 0; layout < Y4M_LAYOUT_COUNT; layout++)
            if (layout != Y4M_LAYOUT_MONO &&
                !(known[i].range == Y4M_RANGE_FULL && y4m_facts((y4m_layout)layout)->bits > 8))
                colour_case((y4m_layout)layout, known[i].range, known[i].matrix, known[i].yuv, known[i].rgb);
    colour_case(Y4M_LAYOUT_MONO, Y4M_RANGE_FULL, FRAME_BT601, (int[]){9, 0, 0}, (int[]){9, 9, 9});
    check(frame_matrix_for(576) == FRAME_BT601 && frame_matrix_for(720) == FRAME_BT709, "choice by size");
    finish();
}

/* Chroma that rises with its position under luma must give a blue that rises evenly with it. */
static void test_chroma_lies_under_luma(void)
{
    begin("chroma is shown where its siting puts it");
    const int halved[] = {Y4M_LAYOUT_420JPEG, Y4M_LAYOUT_420MPEG2, Y4M_LAYOUT_420PALDV, Y4M_LAYOUT_422};
    for (size_t i = 0; i < sizeof halved / sizeof *halved; i++) {
        static uint8_t frame[16 * 16 * 3], pixels[16 * 16 * 3];
        y4m_info info = {.width = 16, .height = 16, .layout = (y4m_layout)halved[i], .range = Y4M_RANGE_FULL};
        const y4m_layout_facts *f = y4m_facts(info.layout);
        int w = y4m_plane_width(&info, 1), h = y4m_plane_height(&info, 1);
        memset(frame, 100, sizeof frame);
        for (int k = 0; k < w * h; k++) {
            size_t u = y4m_plane_offset(&info, 1) + (size_t)k, v = y4m_plane_offset(&info, 2) + (size_t)k;
            frame[u] = (uint8_t)(100 + 2 * luma_position(k % w, f->halved_x, f->cosited_x) +
                                 2 * luma_position(k / w, f->halved_y, f->cosited_y));
            frame[v] = 128;
        }
        frame_to_rgb(pixels, &info, frame, FRAME_BT601);
        for (int y = 2; y < 13; y++)
            for (int x = 2; x < 13; x++) {
                double want = 100 + 1.772 * (100 + 2 * x + 2 * y - 128);
                check(near(pixels[(y * 16 + x) * 3 + 2], want, 1.4), "%s: blue at %d,%d is %d, not %.1f", f->name, x, y,
                      pixels[(y * 16 + x) * 3 + 2], want);
            }
    }
    finish();
}

/* --- canvas ------------------------------------------------------------------------------- */

static void test_drawing_stays_inside(void)
{
    begin("drawing is cut off at the canvas's edges and nowhere else");
    static uint8_t memory[3 * (10 * 8 + 20)];
    memset(memory, 1, sizeof memory);
    canvas out = {memory + 30, 10, 8};
    const canvas_colour white = {255, 255, 255};
    canvas_text(&out, -7, -3, 2, "AZ~\xff", white);
    canvas_label(&out, 5, 5, 1, "label", white);
    canvas_tile(&out, -5, 2, 400, 500, white, 100, 2);
    canvas_tile(&out, 3, -9, 2, 90, white, 100, 5);
    canvas_crop(&out, -2, -2, &out, -3, -3, 30, 30, 3);
    canvas_fill(&out, -10, -10, 100, 100, white);
    for (int i = 0; i < 30; i++)
        check(memory[i] == 1 && memory[30 + 240 + i] == 1, "byte %d beside the canvas changed", i);
    for (int i = 0; i < 240; i++)
        check(memory[30 + i] == 255, "byte %d of the canvas not filled", i);
    finish();
}

static void test_blending(void)
{
    begin("a tile has a translucent inside and an opaque outline of the thickness asked for");
    static uint8_t pixels[8 * 8 * 3];
    memset(pixels, 100, sizeof pixels);
    canvas out = {pixels, 8, 8};
    canvas_tile(&out, 1, 1, 6, 6, (canvas_colour){200, 0, 100}, 128, 1);
    check(pixels[0] == 100, "outside is %d", pixels[0]);
    check(pixels[(8 + 1) * 3] == 200 && pixels[(6 * 8 + 6) * 3 + 1] == 0, "outline");
    check(pixels[(2 * 8 + 2) * 3] == 150 && pixels[(2 * 8 + 2) * 3 + 1] == 50, "inside is %d", pixels[(2 * 8 + 2) * 3]);
    finish();
}

static void test_glyphs(void)
{
    begin("every printable character has a glyph of its own");
    static uint8_t pixels[95][5 * 7 * 3];
    for (int c = 32; c < 127; c++) {
        char text[2] = {(char)c, 0};
        canvas out = {pixels[c - 32], 5, 7};
        canvas_text(&out, 0, 0, 1, text, (canvas_colour){1, 1, 1});
        for (int earlier = 32; earlier < c; earlier++)
            check(memcmp(pixels[c - 32], pixels[earlier - 32], sizeof pixels[0]) != 0, "'%c' looks like '%c'", c,
                  earlier);
    }
    check(canvas_text_width("abc", 2) == 34 && canvas_text_width("", 2) == 0, "width of text");
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
    test_png();
    test_png_of_full_device();
    test_colours();
    test_chroma_lies_under_luma();
    test_drawing_stays_inside();
    test_blending();
    test_glyphs();
    return summary();
}
