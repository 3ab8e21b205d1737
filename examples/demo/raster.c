/* raster.c: primitives of the supersampled picture.
 *
 * Owns: sample loops, the stroke alphabet, the reduction filter.
 * Relies on: raster.h, libm.
 * Must never: depend on the order or the number of calls for a sample's place: the same call paints the
 *   same samples, so what stands still in a clip is equal in every frame to the last bit.
 */
#include "raster.h"

#include <stdbool.h>
#include <string.h>

/* --- picture ------------------------------------------------------------------------------ */

size_t raster_bytes(int pixels_wide, int pixels_high)
{
    return (size_t)pixels_wide * (size_t)pixels_high * RASTER_SAMPLES * RASTER_SAMPLES * 3 * sizeof(uint16_t);
}

void raster_init(raster *r, int pixels_wide, int pixels_high, void *samples)
{
    double fit_x = (double)pixels_wide / RASTER_UNITS_X, fit_y = (double)pixels_high / RASTER_UNITS_Y;
    double pixels = fit_x > fit_y ? fit_x : fit_y;
    r->samples = samples;
    r->width = pixels_wide * RASTER_SAMPLES;
    r->height = pixels_high * RASTER_SAMPLES;
    r->scale = pixels * RASTER_SAMPLES;
    r->left = (RASTER_UNITS_X - pixels_wide / pixels) / 2;
    r->top = (RASTER_UNITS_Y - pixels_high / pixels) / 2;
    raster_clip(r, NULL);
}

static int clamp(double value, int high) { return value < 0 ? 0 : value > high ? high : (int)value; }

void raster_clip(raster *r, const box *units)
{
    r->clip_left = r->clip_top = 0;
    r->clip_right = r->width;
    r->clip_bottom = r->height;
    if (!units)
        return;
    r->clip_left = clamp(floor((units->x - r->left) * r->scale), r->width);
    r->clip_top = clamp(floor((units->y - r->top) * r->scale), r->height);
    r->clip_right = clamp(ceil((units->x + units->width - r->left) * r->scale), r->width);
    r->clip_bottom = clamp(ceil((units->y + units->height - r->top) * r->scale), r->height);
}

static uint16_t *sample_at(const raster *r, int x, int y)
{
    return r->samples + ((size_t)y * (size_t)r->width + (size_t)x) * 3;
}

void raster_copy(const raster *to, const raster *from)
{
    if (to->clip_right <= to->clip_left)
        return;
    size_t bytes = (size_t)(to->clip_right - to->clip_left) * 3 * sizeof(uint16_t);
    for (int y = to->clip_top; y < to->clip_bottom; y++)
        memcpy(sample_at(to, to->clip_left, y), sample_at(from, to->clip_left, y), bytes);
}

/* --- colour ------------------------------------------------------------------------------- */

/* Shades ask for their colours at every sample: pow is paid once a code. */
float raster_decode(uint32_t code)
{
    static float table[256];
    if (table[255] == 0)
        for (int i = 0; i < 256; i++) {
            double c = i / 255.0;
            table[i] = (float)(c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
        }
    return table[code & 0xff];
}

static uint16_t blended(uint16_t under, float over, float alpha)
{
    float value = (float)under + (over * 65535 - (float)under) * alpha + 0.5f;
    return (uint16_t)(value < 0 ? 0 : value > 65535 ? 65535 : value);
}

static void blend(uint16_t *sample, rgb colour, float alpha)
{
    sample[0] = blended(sample[0], colour.r, alpha);
    sample[1] = blended(sample[1], colour.g, alpha);
    sample[2] = blended(sample[2], colour.b, alpha);
}

static void paint_sample(const raster *r, int x, int y, const paint *p, float coverage)
{
    rgb colour = p->colour;
    if (p->shade)
        colour = p->shade((x + 0.5) / r->scale + r->left, (y + 0.5) / r->scale + r->top, p->user);
    blend(sample_at(r, x, y), colour, p->alpha * coverage);
}

/* --- shapes ------------------------------------------------------------------------------- */

/* Samples whose centres lie in [x0, x1), given in samples. */
static void paint_span(const raster *r, int y, double x0, double x1, const paint *p)
{
    int first = (int)ceil(x0 - 0.5), end = (int)ceil(x1 - 0.5);
    first = first < r->clip_left ? r->clip_left : first;
    end = end > r->clip_right ? r->clip_right : end;
    for (int x = first; x < end; x++)
        paint_sample(r, x, y, p, 1);
}

/* Rows of the clip whose centres lie between two heights in units. */
static void row_range(const raster *r, double top, double bottom, int *first, int *end)
{
    *first = (int)ceil((top - r->top) * r->scale - 0.5);
    *end = (int)ceil((bottom - r->top) * r->scale - 0.5);
    *first = *first < r->clip_top ? r->clip_top : *first;
    *end = *end > r->clip_bottom ? r->clip_bottom : *end;
}

void raster_box(const raster *r, double x, double y, double width, double height, paint p)
{
    int first, end;
    row_range(r, y, y + height, &first, &end);
    for (int row = first; row < end; row++)
        paint_span(r, row, (x - r->left) * r->scale, (x + width - r->left) * r->scale, &p);
}

static int crossings(const raster *r, const point *points, int n, double y, double *xs)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        point a = points[i], b = points[(i + 1) % n];
        if ((a.y <= y) == (b.y <= y))
            continue;
        double x = (a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x) - r->left) * r->scale;
        int at = count++;
        for (; at > 0 && xs[at - 1] > x; at--)
            xs[at] = xs[at - 1];
        xs[at] = x;
    }
    return count;
}

void raster_polygon(const raster *r, const point *points, int n, paint p)
{
    double top = points[0].y, bottom = points[0].y, xs[RASTER_POINTS]; /* NOLINT(clang-analyzer-*): n >= 3 */
    int first, end;
    for (int i = 1; i < n; i++) {
        top = points[i].y < top ? points[i].y : top;
        bottom = points[i].y > bottom ? points[i].y : bottom;
    }
    row_range(r, top, bottom, &first, &end);
    for (int row = first; row < end; row++) {
        int count = crossings(r, points, n, (row + 0.5) / r->scale + r->top, xs);
        for (int i = 0; i + 1 < count; i += 2)
            paint_span(r, row, xs[i], xs[i + 1], &p);
    }
}

static int cut_corners(const point *in, int n, point *out)
{
    for (int i = 0; i < n; i++) {
        point a = in[i], b = in[(i + 1) % n];
        /* NOLINTNEXTLINE(clang-analyzer-*): the caller filled n of them */
        out[2 * i] = (point){a.x + (b.x - a.x) * 0.25, a.y + (b.y - a.y) * 0.25};
        out[2 * i + 1] = (point){a.x + (b.x - a.x) * 0.75, a.y + (b.y - a.y) * 0.75};
    }
    return 2 * n;
}

void raster_smooth_polygon(const raster *r, const point *points, int n, paint p)
{
    point once[RASTER_POINTS], twice[RASTER_POINTS];
    n = cut_corners(points, n, once);
    raster_polygon(r, twice, cut_corners(once, n, twice), p);
}

void raster_ellipse(const raster *r, double x, double y, double rx, double ry, double angle, paint p)
{
    double c = cos(angle), s = sin(angle);
    double reach_y = sqrt(rx * rx * s * s + ry * ry * c * c);
    int first, end;
    row_range(r, y - reach_y, y + reach_y, &first, &end);
    /* On a row the outline is a quadratic equation in x, a dx^2 + 2 b dx + rest = 0: its roots are the ends. */
    double a = c * c / (rx * rx) + s * s / (ry * ry);
    for (int row = first; row < end; row++) {
        double dy = (row + 0.5) / r->scale + r->top - y;
        double b = c * s * dy * (1 / (rx * rx) - 1 / (ry * ry));
        double rest = dy * dy * (s * s / (rx * rx) + c * c / (ry * ry)) - 1, root = b * b - a * rest;
        if (root <= 0)
            continue;
        double half = sqrt(root) / a, middle = x - b / a;
        paint_span(r, row, (middle - half - r->left) * r->scale, (middle + half - r->left) * r->scale, &p);
    }
}

static double distance_to_segment(double x, double y, const double ends[4])
{
    double vx = ends[2] - ends[0], vy = ends[3] - ends[1], wx = x - ends[0], wy = y - ends[1];
    double length = vx * vx + vy * vy, t = length > 0 ? (wx * vx + wy * vy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    wx -= t * vx, wy -= t * vy;
    return sqrt(wx * wx + wy * wy);
}

/* Coverage falls over one sample, so that lines thinner than a sample fade instead of breaking. */
static void soft_sample(const raster *r, int x, int y, double distance, double half, const paint *p)
{
    double coverage = (half - distance) * r->scale + 0.5, thickest = 2 * half * r->scale;
    thickest = thickest > 1 ? 1 : thickest;
    if (coverage > 0)
        paint_sample(r, x, y, p, (float)(coverage > thickest ? thickest : coverage));
}

/* The part of row y that a line may touch, so that long diagonals cost their length, not their box. */
static void line_span(const double ends[4], double y, double reach, double *low, double *high)
{
    double left = ends[0] < ends[2] ? ends[0] : ends[2], right = ends[0] < ends[2] ? ends[2] : ends[0];
    double dy = ends[3] - ends[1];
    *low = left - reach, *high = right + reach;
    if (fabs(dy) < 1e-9)
        return;
    double slope = (ends[2] - ends[0]) / dy, middle = ends[0] + (y - ends[1]) * slope;
    double side = reach * sqrt(1 + slope * slope) + 1e-6;
    *low = middle - side > *low ? middle - side : *low;
    *high = middle + side < *high ? middle + side : *high;
}

void raster_line(const raster *r, double x0, double y0, double x1, double y1, double width, paint p)
{
    const double ends[4] = {x0, y0, x1, y1}, half = width / 2, reach = half + 1 / r->scale;
    int first, end;
    row_range(r, (y0 < y1 ? y0 : y1) - reach, (y0 < y1 ? y1 : y0) + reach, &first, &end);
    for (int row = first; row < end; row++) {
        double y = (row + 0.5) / r->scale + r->top, low, high;
        line_span(ends, y, reach, &low, &high);
        int from = clamp((low - r->left) * r->scale, r->clip_right),
            to = clamp((high - r->left) * r->scale + 1, r->clip_right);
        for (int x = from < r->clip_left ? r->clip_left : from; x < to; x++)
            soft_sample(r, x, row, distance_to_segment((x + 0.5) / r->scale + r->left, y, ends), half, &p);
    }
}

void raster_ring(const raster *r, double x, double y, double radius, double width, paint p)
{
    const double reach = radius + width;
    int first, end;
    row_range(r, y - reach, y + reach, &first, &end);
    int from = clamp((x - reach - r->left) * r->scale, r->clip_right);
    int to = clamp((x + reach - r->left) * r->scale + 1, r->clip_right);
    for (int row = first; row < end; row++) {
        for (int column = from < r->clip_left ? r->clip_left : from; column < to; column++) {
            double dx = (column + 0.5) / r->scale + r->left - x, dy = (row + 0.5) / r->scale + r->top - y;
            soft_sample(r, column, row, fabs(sqrt(dx * dx + dy * dy) - radius), width / 2, &p);
        }
    }
}

/* --- lettering ---------------------------------------------------------------------------- */

/* Strokes on a grid 4 wide and 6 high: points "xy", a bar between strokes. */
static const char *const strokes[128] = {
    ['A'] = "06 20 46|13.5 33.5", /* the bar is written at half a row, see point_of */
    ['B'] = "00 06 36 45 44 33 03|33 42 41 30 00",
    ['C'] = "41 30 10 01 05 16 36 45",
    ['D'] = "00 06 26 44 42 20 00",
    ['E'] = "40 00 06 46|03 33",
    ['F'] = "40 00 06|03 33",
    ['G'] = "41 30 10 01 05 16 36 45 43 23",
    ['H'] = "00 06|40 46|03 43",
    ['I'] = "20 26",
    ['J'] = "40 45 36 16 05",
    ['K'] = "00 06|40 03 46",
    ['L'] = "00 06 46",
    ['M'] = "06 00 24 40 46",
    ['N'] = "06 00 46 40",
    ['O'] = "10 30 41 45 36 16 05 01 10",
    ['P'] = "06 00 30 41 42 33 03",
    ['Q'] = "10 30 41 45 36 16 05 01 10|24 46",
    ['R'] = "06 00 30 41 42 33 03|23 46",
    ['S'] = "41 30 10 01 02 13 33 44 45 36 16 05",
    ['T'] = "00 40|20 26",
    ['U'] = "00 05 16 36 45 40",
    ['V'] = "00 26 40",
    ['W'] = "00 16 22 36 40",
    ['X'] = "00 46|40 06",
    ['Y'] = "00 23 40|23 26",
    ['Z'] = "00 40 06 46",
    ['0'] = "10 30 41 45 36 16 05 01 10",
    ['1'] = "11 20 26",
    ['2'] = "01 10 30 41 42 06 46",
    ['3'] = "01 10 30 41 42 33 44 45 36 16 05|33 13",
    ['4'] = "36 30 04 44",
    ['5'] = "40 00 03 33 44 45 36 06",
    ['6'] = "30 02 05 16 36 45 44 33 13 04",
    ['7'] = "00 40 16",
    ['8'] = "13 02 01 10 30 41 42 33 13 04 05 16 36 45 44 33",
    ['9'] = "16 44 41 30 10 01 02 13 33 42",
    ['-'] = "03 43",
    ['&'] = "46 11 20 31 04 05 16 26 44",
};

/* Reads "xy" or "xy.5"; returns what follows. */
static const char *point_of(const char *s, point *p)
{
    *p = (point){s[0] - '0', s[1] - '0'};
    s += 2;
    if (s[0] == '.') {
        p->y += 0.5;
        s += 2;
    }
    return s;
}

static void draw_letter(const raster *r, const char *s, double x, double y, double unit, double weight, paint p)
{
    point from = {0, 0}, to;
    bool drawing = false;
    while (*s) {
        if (*s == '|' || *s == ' ') {
            drawing = drawing && *s == ' ';
            s++;
            continue;
        }
        s = point_of(s, &to);
        if (drawing)
            raster_line(r, x + from.x * unit, y + from.y * unit, x + to.x * unit, y + to.y * unit, weight, p);
        from = to;
        drawing = true;
    }
}

double raster_text(const raster *r, double x, double y, double height, double weight, const char *text, paint p)
{
    const double unit = height / 6, start = x;
    for (; *text; text++) {
        const char *s = strokes[(unsigned char)*text & 127];
        if (s)
            draw_letter(r, s, *text == 'I' ? x - 1.5 * unit : x, y, unit, weight, p);
        x += unit * (!s ? 3 : *text == 'I' ? 2.4 : 5.6);
    }
    return x - start;
}

/* --- noise -------------------------------------------------------------------------------- */

double raster_noise_at(int x, int y, uint32_t seed)
{
    uint32_t h = (uint32_t)x * 0x8da6b343u ^ (uint32_t)y * 0xd8163841u ^ seed * 0xcb1ab31fu;
    h ^= h >> 15, h *= 0x2c1b3c6du;
    h ^= h >> 12, h *= 0x297a2d39u;
    h ^= h >> 15;
    return (double)(h >> 8) / 16777216;
}

double raster_noise(double x, double y, uint32_t seed)
{
    int ix = (int)floor(x), iy = (int)floor(y);
    double u = x - ix, v = y - iy;
    u = u * u * (3 - 2 * u), v = v * v * (3 - 2 * v);
    double a = raster_noise_at(ix, iy, seed), b = raster_noise_at(ix + 1, iy, seed);
    double c = raster_noise_at(ix, iy + 1, seed), d = raster_noise_at(ix + 1, iy + 1, seed);
    return a + (b - a) * u + (c - a + (a - b - c + d) * u) * v;
}

double raster_clouds(double x, double y, int octaves, uint32_t seed)
{
    double sum = 0, weight = 0, w = 1;
    for (int i = 0; i < octaves; i++, w /= 2, x *= 2.03, y *= 2.03) {
        sum += w * raster_noise(x, y, seed + (uint32_t)i);
        weight += w;
    }
    return sum / weight;
}

/* --- reduction ---------------------------------------------------------------------------- */

enum { TAPS = 4 * RASTER_SAMPLES };

/* Mitchell and Netravali's cubic, two pixels each way: sharp, with little ringing, and next to
 * nothing beyond the pixel grid's limit, so that halving the clip later meets no aliases of ours. */
static void filter_weights(float weights[TAPS])
{
    double sum = 0, raw[TAPS];
    for (int i = 0; i < TAPS; i++) {
        double d = fabs((i + 0.5) / RASTER_SAMPLES - 2);
        raw[i] = d < 1 ? (7 * d * d * d - 12 * d * d + 16.0 / 3) / 6
                       : (-7.0 / 3 * d * d * d + 12 * d * d - 20 * d + 32.0 / 3) / 6;
        sum += raw[i];
    }
    for (int i = 0; i < TAPS; i++)
        weights[i] = (float)(raw[i] / sum / 256);
}

static const uint16_t *line_at(const raster *r, int line)
{
    return sample_at(r, 0, line < 0 ? 0 : line >= r->height ? r->height - 1 : line);
}

/* Four lines of samples at once: the sums are fetched and stored a quarter as often. */
static void add_lines(const raster *r, int line, const float *weights, float *restrict row, int from, int to)
{
    const uint16_t *restrict a = line_at(r, line), *restrict b = line_at(r, line + 1);
    const uint16_t *restrict c = line_at(r, line + 2), *restrict d = line_at(r, line + 3);
    const float wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
    for (int x = from; x < to; x++)
        row[x] += wa * a[x] + wb * b[x] + wc * c[x] + wd * d[x];
}

void raster_reduce_row(const raster *r, int y, int left, int right, float *out, float *row)
{
    float weights[TAPS];
    filter_weights(weights);
    int margin = TAPS / 2 - RASTER_SAMPLES / 2, from = left * RASTER_SAMPLES - margin,
        to = right * RASTER_SAMPLES + margin;
    from = from < 0 ? 0 : from;
    to = to > r->width ? r->width : to;
    memset(row + 3 * from, 0, (size_t)(to - from) * 3 * sizeof *row);
    for (int i = 0; i < TAPS; i += 4)
        add_lines(r, y * RASTER_SAMPLES - margin + i, weights + i, row, 3 * from, 3 * to);
    for (int x = left; x < right; x++, out += 3) {
        float sum[3] = {0, 0, 0};
        for (int i = 0; i < TAPS; i++) {
            int at = x * RASTER_SAMPLES - margin + i;
            at = 3 * (at < 0 ? 0 : at >= r->width ? r->width - 1 : at);
            for (int k = 0; k < 3; k++)
                sum[k] += weights[i] * row[at + k];
        }
        for (int k = 0; k < 3; k++)
            out[k] = sum[k] * (256.0f * 256.0f / 65535.0f);
    }
}
