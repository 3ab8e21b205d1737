/* resample.c: see resample.h. Columns first, into floats, then rows: rounded once. */
#include "resample.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Samples of a row or column, `step` apart; the next line begins `next` behind this one. */
typedef struct line {
    int count;
    ptrdiff_t step, next;
} line;

/* The first sample that counts for output `i`, and how many there are; weights[0..] sum to 1. */
static int weigh(int i, line from, line to, float *weights, int *first)
{
    const double ratio = (double)from.count / to.count, reach = ratio > 1 ? ratio : 1, centre = (i + 0.5) * ratio - 0.5;
    const int low = (int)floor(centre - reach) + 1, high = (int)ceil(centre + reach) - 1;
    int n = 0;
    double sum = 0;
    *first = low > 0 ? low : 0;
    for (int k = *first; k <= high && k < from.count; k++) {
        const double w = 1 - fabs(k - centre) / reach;
        weights[n++] = (float)w;
        sum += w;
    }
    for (int k = 0; k < n; k++)
        weights[k] = (float)(weights[k] / sum);
    return n;
}

static void spread(const float *from, float *to, line in, line out, int lines, float *weights)
{
    for (int i = 0; i < out.count; i++) {
        int first;
        const int n = weigh(i, in, out, weights, &first);
        for (int l = 0; l < lines; l++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += weights[k] * from[l * in.next + (first + k) * in.step];
            to[l * out.next + i * out.step] = sum;
        }
    }
}

static uint8_t rounded(float n) { return n >= 254.5f ? 255 : n > 0 ? (uint8_t)floorf(n + 0.5f) : 0; }

/* plane, narrow, small: one channel as it is, of the new width, of the new size. */
static void resample_channel(const pnm_picture *from, pnm_picture *to, int channel, float *plane, float *narrow,
                             float *small, float *weights)
{
    const size_t pixels = (size_t)from->width * (size_t)from->height, made = (size_t)to->width * (size_t)to->height;
    for (size_t i = 0; i < pixels; i++)
        plane[i] = from->pixels[i * (size_t)from->channels + (size_t)channel];
    spread(plane, narrow, (line){from->width, 1, from->width}, (line){to->width, 1, to->width}, from->height, weights);
    spread(narrow, small, (line){from->height, to->width, 1}, (line){to->height, to->width, 1}, to->width, weights);
    for (size_t i = 0; i < made; i++)
        to->pixels[i * (size_t)to->channels + (size_t)channel] = rounded(small[i]);
}

bool resample(const pnm_picture *from, int width, int height, pnm_picture *to)
{
    const uint64_t pixels = (uint64_t)from->width * (uint64_t)from->height,
                   between = (uint64_t)width * (uint64_t)from->height, made = (uint64_t)width * (uint64_t)height,
                   all = pixels + between + made + 2 * (uint64_t)PNM_MOST + 4; /* and weights of one sample */
    const bool fits = all <= SIZE_MAX / sizeof(float);
    *to = (pnm_picture){fits ? malloc((size_t)made * (size_t)from->channels) : NULL, width, height, from->channels};
    float *const work = fits ? malloc((size_t)all * sizeof(float)) : NULL;
    for (int c = 0; work && to->pixels && c < from->channels; c++)
        resample_channel(from, to, c, work, work + pixels, work + pixels + between, work + pixels + between + made);
    const bool good = work && to->pixels;
    free(work);
    if (!good)
        free(to->pixels);
    return good;
}
