/* elementwise.h: the hot loops around a super-resolution network: codes to floats and back, the final store, bicubic
 * enlargement and the integer features for routing.
 *
 * Owns:      the interface of those loops, for every tier.
 * Relies on: tier.h.
 * Must never: allocate, keep state, or touch a sample outside what each declaration says.
 *
 * Integer results (bicubic of codes, energy, change) are the same on every tier, bit for bit. Float results are the
 * same for a given tier wherever a sample lies; tiers and compilers may contract multiply and add.
 * All row strides are in samples. Inputs and outputs must not overlap. A tier that is not available runs as
 * BS_TIER_SCALAR.
 */
#ifndef BS_KERNELS_ELEMENTWISE_H
#define BS_KERNELS_ELEMENTWISE_H

#include "kernels/tier.h"

/* ------------------------------------------------------------------------------------------- conversion */

/* code x scale */
void bs_row_u8_to_f32(bs_tier tier, const uint8_t *in, float *out, int32_t count, float scale);
void bs_row_u16_to_f32(bs_tier tier, const uint16_t *in, float *out, int32_t count, float scale);

/* x scale, clipped to 0..high, rounded to nearest even. NaN gives 0. u8: high is 255; u16: any, e.g. 1023. */
void bs_row_f32_to_u8(bs_tier tier, const float *in, uint8_t *out, int32_t count, float scale);
void bs_row_f32_to_u16(bs_tier tier, const float *in, uint16_t *out, int32_t count, float scale, uint16_t high);

/* ---------------------------------------------------------------------------------- super-resolution store
 * out[2y + dy][2x + dx] = code of (tail[y][x][2 dy + dx] + base[2y + dy][2x + dx]) x scale. */
typedef struct bs_sr_store {
    const float *tail; /* four channels, channel stride 1 */
    ptrdiff_t tail_row;
    int32_t tail_pixel;
    const float *base; /* already of twice the size; NULL: nothing is added */
    ptrdiff_t base_row;
    void *out; /* uint8_t or uint16_t */
    ptrdiff_t out_row;
    int32_t h, w; /* of the tail */
    float scale;
    uint16_t high; /* u16: the largest code */
} bs_sr_store;

void bs_sr_store_u8(bs_tier tier, const bs_sr_store *store);
void bs_sr_store_u16(bs_tier tier, const bs_sr_store *store);

/* --------------------------------------------------------------------------------------------- bicubic x2
 * Keys' kernel with a = -0.5, half-pixel centres: an output between two inputs takes -3 29 111 -9 (or mirrored)
 * over 128 of four, in each direction; the weights are exact.
 *   f32      sideways, then downwards, in float
 *   u8, u16  floor(s / 2^14 + 1/2) of the exact integer sum s, clipped to 0..high: the real result rounded half
 *            up. Codes must not exceed `high`. Up to 10 bits (high <= 1023) are fast, more are right but slow. */
typedef struct bs_margins { /* valid samples beyond each side; where fewer than two, the edge is replicated */
    int32_t top, bottom, left, right;
} bs_margins;

typedef struct bs_bicubic2x {
    const void *in; /* first sample of the region */
    ptrdiff_t in_row;
    void *out; /* 2h x 2w, of the same type */
    ptrdiff_t out_row;
    int32_t h, w; /* of the region, in input samples */
    bs_margins margins;
    uint16_t high; /* u16: the largest code */
} bs_bicubic2x;

void bs_bicubic2x_f32(bs_tier tier, const bs_bicubic2x *task);
void bs_bicubic2x_u8(bs_tier tier, const bs_bicubic2x *task);
void bs_bicubic2x_u16(bs_tier tier, const bs_bicubic2x *task);

/* ----------------------------------------------------------------------------------------------- features */

/* Codes of a region: uint8_t; or with `wide` uint16_t, which are first shifted right by `shift`. Kernels take those
 * that lie side by side and are below 2^14 then, whatever they were; others are taken one by one. */
typedef struct bs_codes {
    const void *data;
    ptrdiff_t row, step; /* from a row to the next, and from a column */
    bool wide;
    int32_t shift;
} bs_codes;

/* Sum over a region of (4 c - up - down - left - right)^2; neighbours beyond it are replicated. */
uint64_t bs_laplacian_energy(bs_tier tier, const bs_codes *in, int32_t h, int32_t w);

/* Sum over a region of (a - b)^2, of codes with the same shift. */
uint64_t bs_squared_change(bs_tier tier, const bs_codes *a, const bs_codes *b, int32_t h, int32_t w);

#endif
