/* picture.c: bicubic resampling of planes by two, up and down.
 *
 * Owns: the filter phases and the row loops.
 * Relies on: picture.h only.
 * Must never: branch per sample inside a row, or round twice.
 *
 * Which phase chroma needs when luma is doubled
 *
 * Count positions in luma samples of the input; sample i of a row lies at i. Luma is doubled with
 * aligned centres (so is the network's training material): output luma sample X lies at
 *     x = (X + 0.5) / 2 - 0.5.
 * Chroma subsampled by two lies at 2c + 0.5 when it is between two luma samples, at 2c when cosited;
 * the output keeps the input's siting, so its chroma sample C lies at output luma position 2C + 0.5
 * or 2C. Put into x and solved for the input's chroma sample c:
 *     between:  2c + 0.5 = (2C + 1) / 2 - 0.5    =>  c = C/2 - 1/4
 *     cosited:  2c       = (2C + 0.5) / 2 - 0.5  =>  c = C/2 - 1/8
 * Samples that are not subsampled obey luma's own formula, c = C/2 - 1/4: the same as "between".
 * For C = 2k the sample sought is thus 1/4 (1/8) before input sample k, for C = 2k + 1 it is 1/4
 * (3/8) behind it: two phases of four taps, from k - 2 and from k - 1.
 * Using the wrong one shifts colour by a quarter of a luma sample of the output.
 */
#include "picture.h"

#include <stdbool.h>

enum { PAD = 8, DOUBLE_BITS = 10, HALVE_BITS = 8 };

/* Weights times 1024; taps[0] for even C begins at sample k - 2, taps[1] for odd C at k - 1. */
typedef struct phases {
    int32_t taps[2][4];
} phases;

static const phases sitings[] = {
    [PICTURE_BETWEEN] = {{{-24, 232, 888, -72}, {-72, 888, 232, -24}}},
    [PICTURE_COSITED] = {{{-7, 93, 987, -49}, {-75, 745, 399, -45}}},
};

/* Keys at distance 1/4, 3/4, 5/4, 7/4, halved and times 256: one side of a symmetric kernel. */
static const int32_t halving[4] = {111, 29, -9, -3};

static const void *row_of(const picture_plane *plane, int y)
{
    return (const uint8_t *)plane->data + (size_t)y * plane->stride_bytes;
}

static int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

/* Symmetric: ... 1 0 | 0 1 2 ... n-1 | n-1 n-2 ..., for planes however small. */
static int mirror(int i, int n)
{
    int period = 2 * n;
    i = (i % period + period) % period;
    return i < n ? i : period - 1 - i;
}

/* --- doubling ----------------------------------------------------------------------------- */

/* Down the columns: four input rows into one, times 1024. 8 and 10 bits differ in type, and in codes that are none. */
#define MIX_4_ROWS(name, sample, code)                                                                          \
    static void name(int32_t *restrict out, const void *const rows[4], const int32_t w[4], int n, int32_t max)  \
    {                                                                                                           \
        const sample *restrict a = rows[0], *restrict b = rows[1];                                              \
        const sample *restrict c = rows[2], *restrict d = rows[3];                                              \
        const int32_t wa = w[0], wb = w[1], wc = w[2], wd = w[3];                                               \
        (void)max;                                                                                              \
        for (int i = 0; i < n; i++)                                                                             \
            out[i] = wa * code(a[i], max) + wb * code(b[i], max) + wc * code(c[i], max) + wd * code(d[i], max); \
    }
#define ANY_CODE(sample, max) (sample) /* of 8 bits */
MIX_4_ROWS(mix_4_rows_8, uint8_t, ANY_CODE)
MIX_4_ROWS(mix_4_rows_16, uint16_t, PICTURE_CODE)

static inline int32_t round_clip(int32_t sum, int shift, int32_t max)
{
    int32_t value = (sum + (1 << (shift - 1))) >> shift;
    return value < 0 ? 0 : value > max ? max : value;
}

/* Along a row, two outputs for each input. The largest sum, 10 bits times 1.24 * 1.24 * 2^20, stays
 * below 2^31. A row of odd length ends with an even phase. */
#define SPREAD_ROW(name, sample)                                                                      \
    static void name(void *to, const int32_t *restrict m, const phases *p, int n, int32_t max)        \
    {                                                                                                 \
        sample *restrict out = to;                                                                    \
        const int32_t e0 = p->taps[0][0], e1 = p->taps[0][1], e2 = p->taps[0][2], e3 = p->taps[0][3]; \
        const int32_t o0 = p->taps[1][0], o1 = p->taps[1][1], o2 = p->taps[1][2], o3 = p->taps[1][3]; \
        int k = 0;                                                                                    \
        for (; k < n / 2; k++) {                                                                      \
            int32_t even = e0 * m[k - 2] + e1 * m[k - 1] + e2 * m[k] + e3 * m[k + 1];                 \
            int32_t odd = o0 * m[k - 1] + o1 * m[k] + o2 * m[k + 1] + o3 * m[k + 2];                  \
            out[2 * k] = (sample)round_clip(even, 2 * DOUBLE_BITS, max);                              \
            out[2 * k + 1] = (sample)round_clip(odd, 2 * DOUBLE_BITS, max);                           \
        }                                                                                             \
        if (n & 1) {                                                                                  \
            int32_t even = e0 * m[k - 2] + e1 * m[k - 1] + e2 * m[k] + e3 * m[k + 1];                 \
            out[2 * k] = (sample)round_clip(even, 2 * DOUBLE_BITS, max);                              \
        }                                                                                             \
    }
SPREAD_ROW(spread_row_8, uint8_t)
SPREAD_ROW(spread_row_16, uint16_t)

size_t picture_double_scratch(int input_width) { return ((size_t)input_width + 2 * PAD) * sizeof(int32_t); }

void picture_double(const picture_plane *out, const picture_plane *in, picture_siting across, picture_siting down,
                    int first, int end, void *scratch)
{
    int32_t *mixed = (int32_t *)scratch + PAD;
    const int32_t max = (1 << in->bits) - 1;
    const bool wide = in->bits > 8;
    for (int y = first; y < end; y++) {
        const void *rows[4];
        int top = (y >> 1) - 2 + (y & 1), n = in->width;
        for (int i = 0; i < 4; i++)
            rows[i] = row_of(in, clamp(top + i, 0, in->height - 1));
        (wide ? mix_4_rows_16 : mix_4_rows_8)(mixed, rows, sitings[down].taps[y & 1], n, max);
        for (int i = 1; i <= 2; i++)
            mixed[-i] = mixed[0], mixed[n - 1 + i] = mixed[n - 1];
        void *to = (uint8_t *)out->data + (size_t)y * out->stride_bytes;
        (wide ? spread_row_16 : spread_row_8)(to, mixed, &sitings[across], out->width, max);
    }
}

/* --- halving ------------------------------------------------------------------------------ */

/* Eight input rows into one, times 256; rows[i] and rows[7 - i] share a weight. */
#define MIX_8_ROWS(name, sample, code)                                                                                \
    static void name(int32_t *restrict out, const void *const rows[8], int n, int32_t max)                            \
    {                                                                                                                 \
        const sample *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];                                          \
        const sample *e = rows[4], *f = rows[5], *g = rows[6], *h = rows[7];                                          \
        (void)max;                                                                                                    \
        for (int i = 0; i < n; i++)                                                                                   \
            out[i] =                                                                                                  \
                halving[0] * (code(d[i], max) + code(e[i], max)) + halving[1] * (code(c[i], max) + code(f[i], max)) + \
                halving[2] * (code(b[i], max) + code(g[i], max)) + halving[3] * (code(a[i], max) + code(h[i], max));  \
    }
MIX_8_ROWS(mix_8_rows_8, uint8_t, ANY_CODE)
MIX_8_ROWS(mix_8_rows_16, uint16_t, PICTURE_CODE)

/* Along a row: outputs sit between inputs 2x and 2x + 1. */
#define HALVE_ROW(name, sample)                                                                                    \
    static void name(void *to, const int32_t *restrict mixed, int n, int32_t max)                                  \
    {                                                                                                              \
        sample *restrict out = to;                                                                                 \
        for (int x = 0; x < n; x++) {                                                                              \
            const int32_t *m = mixed + 2 * x;                                                                      \
            int32_t sum = halving[0] * (m[0] + m[1]) + halving[1] * (m[-1] + m[2]) + halving[2] * (m[-2] + m[3]) + \
                          halving[3] * (m[-3] + m[4]);                                                             \
            out[x] = (sample)round_clip(sum, 2 * HALVE_BITS, max);                                                 \
        }                                                                                                          \
    }
HALVE_ROW(halve_row_8, uint8_t)
HALVE_ROW(halve_row_16, uint16_t)

size_t picture_halve_scratch(int input_width) { return ((size_t)input_width + 2 * PAD) * sizeof(int32_t); }

void picture_halve(const picture_plane *out, const picture_plane *in, int first, int end, void *scratch)
{
    int32_t *mixed = (int32_t *)scratch + PAD;
    const int32_t max = (1 << in->bits) - 1;
    const bool wide = in->bits > 8;
    const int n = in->width;
    for (int y = first; y < end; y++) {
        const void *rows[8];
        for (int i = 0; i < 8; i++)
            rows[i] = row_of(in, mirror(2 * y - 3 + i, in->height));
        (wide ? mix_8_rows_16 : mix_8_rows_8)(mixed, rows, n, max);
        for (int i = 1; i <= 4; i++)
            mixed[-i] = mixed[mirror(-i, n)], mixed[n - 1 + i] = mixed[mirror(n - 1 + i, n)];
        void *to = (uint8_t *)out->data + (size_t)y * out->stride_bytes;
        (wide ? halve_row_16 : halve_row_8)(to, mixed, out->width, max);
    }
}
