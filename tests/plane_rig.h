/* plane_rig.h - planes of samples for tests of pictures, with padding that must stay untouched; where
 * chroma lies. Relies on video_check.h. */
#ifndef BS_TEST_PLANE_RIG_H
#define BS_TEST_PLANE_RIG_H

#include <math.h>

#include "../examples/video/picture.h"
#include "video_check.h"

enum { SIDE = 48, STRIDE = 64, CANARY = 0x5a };

/* Room for any test plane, with padding that must stay untouched. */
typedef struct store {
    uint16_t samples[STRIDE * SIDE];
} store;

static inline picture_plane plane(store *memory, int width, int height, int bits)
{
    memset(memory, CANARY, sizeof *memory);
    return (picture_plane){memory->samples, bits > 8 ? STRIDE * 2 : STRIDE, width, height, bits};
}

static inline int get(const picture_plane *p, int x, int y)
{
    const uint8_t *row = (const uint8_t *)p->data + (size_t)y * p->stride_bytes;
    return p->bits > 8 ? ((const uint16_t *)(const void *)row)[x] : row[x];
}

static inline void set(const picture_plane *p, int x, int y, int value)
{
    uint8_t *row = (uint8_t *)p->data + (size_t)y * p->stride_bytes;
    if (p->bits > 8)
        ((uint16_t *)(void *)row)[x] = (uint16_t)value;
    else
        row[x] = (uint8_t)value;
}

static inline int peak_of(const picture_plane *p) { return (1 << p->bits) - 1; }

/* Noise; every other time of extremes only, which reach the widest sums. */
static inline void fill_random(const picture_plane *p, bool extremes)
{
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++)
            set(p, x, y, extremes ? random_below(2) * peak_of(p) : random_below(peak_of(p) + 1));
}

static inline bool padding_untouched(const picture_plane *p)
{
    for (int y = 0; y < p->height; y++)
        for (int x = p->width; x < STRIDE; x++)
            if (get(p, x, y) != (p->bits > 8 ? CANARY * 257 : CANARY))
                return false;
    return get(p, 0, p->height) == (p->bits > 8 ? CANARY * 257 : CANARY);
}

static inline bool near(double a, double b, double tolerance) { return fabs(a - b) <= tolerance; }

/* Position of sample c of a plane, in luma samples of the picture that the plane belongs to. */
static inline double luma_position(int c, int halved, int cosited)
{
    return !halved ? c : cosited ? 2.0 * c : 2.0 * c + 0.5;
}

#endif
