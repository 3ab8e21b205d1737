/* ops/rope.h - angles of rotary position embedding, for the plain kernel and for a device.
 * Angles are parts of a full turn in units of 2^-64, which wrap: a position's is as exact as the frequency, however far
 * it is, and one code gives the same bytes everywhere. Relies on base/base.h. Must never contain a product that a
 * compiler may fuse with a sum. */
#ifndef BS_OPS_ROPE_H
#define BS_OPS_ROPE_H

#include "base/base.h"
#include "base/wrapping.h"

#define BS_ROPE_MOST ((int32_t)1 << 30) /* the largest position */

/* Of a head: pairs that are turned, where the second of a pair lies behind the first, and where the next pair does, in
 * elements. */
typedef struct bs_rope_form {
    int32_t heads, features, pairs, apart, next;
} bs_rope_form;

/* Of cells whose last two dimensions, or whose last one, are these (rank: how many there are). */
static inline BS_BOTH bs_rope_form bs_rope_form_of(int32_t rank, const int32_t *dim, int32_t heads, int32_t dims,
                                                   int32_t interleaved)
{
    bs_rope_form f;
    f.heads = rank == 2 ? dim[0] : bs_or_default(heads, 1);
    f.features = rank == 2 ? dim[1] : dim[0] / f.heads;
    f.pairs = bs_or_default(dims, f.features) / 2;
    f.apart = interleaved ? 1 : f.pairs;
    f.next = interleaved ? 2 : 1;
    return f;
}

double bs_rope_ratio(const bs_rope_desc *desc, const bs_rope_form *form); /* ops/rope.c */

/* The turn of pair i at position 1: ratio^i / (2 pi), ratio = base^(-2 / dims). The power by squares: an error of i
 * roundings, 2^-46 at most of what i = 0 turns. */
static inline BS_BOTH uint64_t bs_rope_turn(double ratio, int32_t i)
{
    double turn = 2935890503282001226.0; /* 2^64 / (2 pi) */
    for (; i > 0; i /= 2) {
        turn *= i % 2 ? ratio : 1.0;
        ratio *= ratio;
    }
    return (uint64_t)turn;
}

/* Cosine and sine at a position: the nearest quarter turn, and polynomials of the rest (Cephes' sinf, cosf). */
BS_WRAPS static inline BS_BOTH void bs_rope_angle(uint64_t turn, int32_t position, float *cosine, float *sine)
{
    const uint64_t eighth = (uint64_t)1 << 61, at = turn * (uint64_t)position + eighth;
    const int64_t rest = (int64_t)(at & (2 * eighth - 1)) - (int64_t)eighth;
    const float r = (float)((double)rest * 3.406121580086554e-19), z = r * r; /* 2 pi / 2^64 */
    const float s = BS_SUM(BS_SUM(BS_SUM(-1.9515295891e-4f * z, 8.3321608736e-3f) * z, -1.6666654611e-1f) * z * r, r);
    const float c = BS_SUM(BS_SUM(BS_SUM(BS_SUM(2.443315711809948e-5f * z, -1.388731625493765e-3f) * z,
                                         4.166664568298827e-2f) * z * z, -0.5f * z), 1.0f);
    const uint32_t quarter = (uint32_t)(at >> 62);
    const float a = quarter & 1u ? s : c, b = quarter & 1u ? c : s;
    *cosine = quarter == 1 || quarter == 2 ? -a : a;
    *sine = quarter >= 2 ? -b : b;
}

#endif
