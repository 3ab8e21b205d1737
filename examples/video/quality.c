/* quality.c: PSNR and SSIM of planes.
 *
 * Owns: the error sum, the Gaussian window, the SSIM formula.
 * Relies on: quality.h; libm for log10 and exp.
 * Must never: accumulate in float: variances are differences of nearly equal numbers.
 */
#include "quality.h"

#include <math.h>
#include <string.h>

enum { WINDOW = 11, MAPS = 5 };

static const uint8_t *row_of(const picture_plane *plane, int x, int y)
{
    size_t sample = plane->bits > 8 ? 2 : 1;
    return (const uint8_t *)plane->data + (size_t)y * plane->stride_bytes + (size_t)x * sample;
}

/* --- PSNR --------------------------------------------------------------------------------- */

/* Summed in pieces that cannot overflow 32 bits (10 bit differences: 2048 * 1023^2 < 2^31), which
 * lets compilers use the whole width of their vectors. */
#define ROW_ERROR(name, sample, code)                                             \
    static uint64_t name(const void *left, const void *right, int n, int32_t max) \
    {                                                                             \
        const sample *a = left, *b = right;                                       \
        uint64_t total = 0;                                                       \
        (void)max;                                                                \
        for (int x = 0; x < n;) {                                                 \
            int end = n - x < 2048 ? n : x + 2048;                                \
            int32_t sum = 0;                                                      \
            for (; x < end; x++) {                                                \
                int32_t d = code(a[x], max) - code(b[x], max);                    \
                sum += d * d;                                                     \
            }                                                                     \
            total += (uint64_t)sum;                                               \
        }                                                                         \
        return total;                                                             \
    }
#define ANY_CODE(sample, max) (sample) /* of 8 bits */
ROW_ERROR(row_error_8, uint8_t, ANY_CODE)
ROW_ERROR(row_error_16, uint16_t, PICTURE_CODE)

static int32_t largest_code(const picture_plane *plane) { return (1 << plane->bits) - 1; }

uint64_t quality_squared_error(const picture_plane *a, const picture_plane *b, int shave)
{
    uint64_t total = 0;
    int n = a->width - 2 * shave;
    for (int y = shave; y < a->height - shave; y++)
        total +=
            (a->bits > 8 ? row_error_16 : row_error_8)(row_of(a, shave, y), row_of(b, shave, y), n, largest_code(a));
    return total;
}

double quality_psnr_of(uint64_t squared_error, uint64_t samples, int bits)
{
    double peak = (double)((1 << bits) - 1);
    if (squared_error == 0)
        return INFINITY;
    return 10 * log10(peak * peak * (double)samples / (double)squared_error);
}

double quality_psnr(const picture_plane *a, const picture_plane *b, int shave)
{
    int64_t w = a->width - 2 * shave, h = a->height - 2 * shave;
    return quality_psnr_of(quality_squared_error(a, b, shave), (uint64_t)(w * h), a->bits);
}

/* --- SSIM --------------------------------------------------------------------------------- */

/* Weighted column sums over eleven rows, one array each. */
typedef struct column_sums {
    double *a, *b, *aa, *bb, *ab;
} column_sums;

static void gaussian(double weights[WINDOW])
{
    double sum = 0;
    for (int i = 0; i < WINDOW; i++) {
        double d = i - WINDOW / 2;
        sum += weights[i] = exp(-d * d / (2 * 1.5 * 1.5));
    }
    for (int i = 0; i < WINDOW; i++)
        weights[i] /= sum;
}

#define ADD_ROW(name, sample, code)                                                                           \
    static void name(const column_sums *s, const void *left, const void *right, int n, double w, int32_t max) \
    {                                                                                                         \
        const sample *restrict a = left, *restrict b = right;                                                 \
        double *restrict sa = s->a, *restrict sb = s->b;                                                      \
        double *restrict saa = s->aa, *restrict sbb = s->bb, *restrict sab = s->ab;                           \
        (void)max;                                                                                            \
        for (int x = 0; x < n; x++) {                                                                         \
            double p = code(a[x], max), q = code(b[x], max);                                                  \
            sa[x] += w * p;                                                                                   \
            sb[x] += w * q;                                                                                   \
            saa[x] += w * (p * p);                                                                            \
            sbb[x] += w * (q * q);                                                                            \
            sab[x] += w * (p * q);                                                                            \
        }                                                                                                     \
    }
ADD_ROW(add_row_8, uint8_t, ANY_CODE)
ADD_ROW(add_row_16, uint16_t, PICTURE_CODE)

static double across(const double *column, const double weights[WINDOW])
{
    double sum = 0;
    for (int i = 0; i < WINDOW; i++)
        sum += weights[i] * column[i];
    return sum;
}

/* Sum of the SSIM of all window positions of one row. */
static double row_ssim(const column_sums *s, const double weights[WINDOW], int positions, double peak)
{
    const double c1 = (0.01 * peak) * (0.01 * peak), c2 = (0.03 * peak) * (0.03 * peak);
    double total = 0;
    for (int x = 0; x < positions; x++) {
        double ma = across(s->a + x, weights), mb = across(s->b + x, weights);
        double va = across(s->aa + x, weights) - ma * ma, vb = across(s->bb + x, weights) - mb * mb;
        double covariance = across(s->ab + x, weights) - ma * mb;
        total += ((2 * ma * mb + c1) * (2 * covariance + c2)) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
    }
    return total;
}

size_t quality_ssim_scratch(int width) { return (size_t)width * MAPS * sizeof(double); }

double quality_ssim(const picture_plane *a, const picture_plane *b, int shave, void *scratch)
{
    double weights[WINDOW], total = 0, *memory = scratch;
    int w = a->width - 2 * shave, h = a->height - 2 * shave;
    int positions = w - WINDOW + 1, lines = h - WINDOW + 1;
    if (positions <= 0 || lines <= 0)
        return NAN;
    column_sums s = {memory, memory + w, memory + 2 * w, memory + 3 * w, memory + 4 * w};
    gaussian(weights);
    for (int y = 0; y < lines; y++) {
        memset(memory, 0, quality_ssim_scratch(w));
        for (int i = 0; i < WINDOW; i++)
            (a->bits > 8 ? add_row_16 : add_row_8)(&s, row_of(a, shave, shave + y + i), row_of(b, shave, shave + y + i),
                                                   w, weights[i], largest_code(a));
        total += row_ssim(&s, weights, positions, (double)largest_code(a));
    }
    return total / ((double)positions * lines);
}
