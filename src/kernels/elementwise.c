/* elementwise.c: instantiates the loops of elementwise.inc for every tier and dispatches to them.
 *
 * Owns:      the tables, and what of the features is the same for every tier (edges, 64-bit sums).
 * Relies on: elementwise.inc.
 * Must never: hold a loop over samples that should be fast.
 */
#include "elementwise.h"

#include <string.h>

enum {
    BS_CHUNK = 256,            /* samples of a row worked on together: bounds the stack and 32-bit sums */
    BS_ROUND = 1 << 13,        /* half a code at a scale of 2^14 */
    BS_LINE_U8 = 1 << 14,      /* see bs_vertical_u8 */
    BS_ROUND_U8 = BS_ROUND + 128 * BS_LINE_U8
};

typedef struct bs_elementwise_kernels {
    void (*u8_to_f32)(const uint8_t *in, float *out, int32_t count, float scale);
    void (*u16_to_f32)(const uint16_t *in, float *out, int32_t count, float scale);
    void (*f32_to_u8)(const float *in, uint8_t *out, int32_t count, float scale);
    void (*f32_to_u16)(const float *in, uint16_t *out, int32_t count, float scale, uint16_t high);
    void (*sr_u8)(const bs_sr_store *store);
    void (*sr_u16)(const bs_sr_store *store);
    void (*bicubic_f32)(const bs_bicubic2x *task);
    void (*bicubic_u8)(const bs_bicubic2x *task);
    void (*bicubic_u16)(const bs_bicubic2x *task);
    uint32_t (*laplacian_u8)(const uint8_t *up, const uint8_t *c, const uint8_t *down, int32_t count);
    uint64_t (*laplacian_u16)(const uint16_t *up, const uint16_t *c, const uint16_t *down, int32_t count, int32_t shift);
    uint32_t (*change_u8)(const uint8_t *a, const uint8_t *b, int32_t count);
    uint64_t (*change_u16)(const uint16_t *a, const uint16_t *b, int32_t count, int32_t shift);
} bs_elementwise_kernels;

/* ------------------------------------------------------------------------------- helpers of the templates */

/* Clipped and rounded to nearest even: adding 2^23 leaves no room for a fraction. NaN fails x > 0. */
static inline int32_t bs_code_of(float x, float high)
{
    const float above = x > 0.0f ? x : 0.0f, inside = above < high ? above : high;
    return (int32_t)((inside + 8388608.0f) - 8388608.0f);
}

static inline int32_t bs_code_clip(int32_t code, int32_t high)
{
    const int32_t above = code > 0 ? code : 0;
    return above < high ? above : high;
}

/* A coordinate moved to where samples are. */
static inline ptrdiff_t bs_inside(int32_t at, int32_t extent, int32_t before, int32_t after)
{
    return at < -before ? -before : at > extent - 1 + after ? extent - 1 + after : at;
}

/* The part of a bicubic line (columns x-2 .. x+columns+1 of the region) that is in memory. */
typedef struct bs_span_of_line {
    int32_t columns;      /* output pairs of this chunk */
    int32_t first, count; /* input columns to read */
    int32_t at;           /* where the first of them stands in the line */
} bs_span_of_line;

static bs_span_of_line bs_line_span(const bs_bicubic2x *t, int32_t x)
{
    bs_span_of_line s;
    s.columns = t->w - x < BS_CHUNK ? t->w - x : BS_CHUNK;
    s.first = (int32_t)bs_inside(x - 2, t->w, t->margins.left, t->margins.right);
    s.at = s.first - (x - 2);
    s.count = (int32_t)bs_inside(x + s.columns + 1, t->w, t->margins.left, t->margins.right) + 1 - s.first;
    return s;
}

/* -------------------------------------------------------------------------------------------------- tiers */

#define BS_TIER_FN(name) name##_scalar
#define BS_TARGET
#include "elementwise.inc"
#include "elementwise_end.h"

#if BS_HAVE_X86_TIERS
#define BS_TIER_FN(name) name##_avx2
#define BS_TARGET __attribute__((target("avx2,fma")))
#include "elementwise.inc"
#include "elementwise_end.h"

#define BS_TIER_FN(name) name##_avx512
#define BS_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#include "elementwise.inc"
#include "elementwise_end.h"
#endif

#define BS_ELEMENTWISE_TABLE(tier)                                                                        \
    {                                                                                                     \
        bs_u8_to_f32_##tier, bs_u16_to_f32_##tier, bs_f32_to_u8_##tier, bs_f32_to_u16_##tier,             \
            bs_sr_u8_##tier, bs_sr_u16_##tier, bs_bicubic_f32_##tier, bs_bicubic_u8_##tier,               \
            bs_bicubic_u16_##tier, bs_laplacian_u8_##tier, bs_laplacian_u16_##tier, bs_change_u8_##tier,  \
            bs_change_u16_##tier,                                                                         \
    }

/* NEON is the baseline of AArch64: there the compiler vectorises the scalar instance with it. */
static const bs_elementwise_kernels *bs_elementwise_of(bs_tier tier)
{
    static const bs_elementwise_kernels scalar = BS_ELEMENTWISE_TABLE(scalar);
#if BS_HAVE_X86_TIERS
    static const bs_elementwise_kernels avx2 = BS_ELEMENTWISE_TABLE(avx2);
    static const bs_elementwise_kernels avx512 = BS_ELEMENTWISE_TABLE(avx512);
    if (tier == BS_TIER_AVX2)
        return &avx2;
    if (tier == BS_TIER_AVX512)
        return &avx512;
#endif
    (void)tier;
    return &scalar;
}
#undef BS_ELEMENTWISE_TABLE

/* ----------------------------------------------------------------------------------------------- dispatch */

void bs_row_u8_to_f32(bs_tier tier, const uint8_t *in, float *out, int32_t count, float scale)
{
    bs_elementwise_of(tier)->u8_to_f32(in, out, count, scale);
}

void bs_row_u16_to_f32(bs_tier tier, const uint16_t *in, float *out, int32_t count, float scale)
{
    bs_elementwise_of(tier)->u16_to_f32(in, out, count, scale);
}

void bs_row_f32_to_u8(bs_tier tier, const float *in, uint8_t *out, int32_t count, float scale)
{
    bs_elementwise_of(tier)->f32_to_u8(in, out, count, scale);
}

void bs_row_f32_to_u16(bs_tier tier, const float *in, uint16_t *out, int32_t count, float scale, uint16_t high)
{
    bs_elementwise_of(tier)->f32_to_u16(in, out, count, scale, high);
}

void bs_sr_store_u8(bs_tier tier, const bs_sr_store *store)
{
    bs_elementwise_of(tier)->sr_u8(store);
}

void bs_sr_store_u16(bs_tier tier, const bs_sr_store *store)
{
    bs_elementwise_of(tier)->sr_u16(store);
}

void bs_bicubic2x_f32(bs_tier tier, const bs_bicubic2x *task)
{
    bs_elementwise_of(tier)->bicubic_f32(task);
}

void bs_bicubic2x_u8(bs_tier tier, const bs_bicubic2x *task)
{
    bs_elementwise_of(tier)->bicubic_u8(task);
}

void bs_bicubic2x_u16(bs_tier tier, const bs_bicubic2x *task)
{
    bs_elementwise_of(tier)->bicubic_u16(task);
}

/* ----------------------------------------------------------------------------------------------- features */

/* One sample whose left or right neighbour may be missing. */
static uint64_t bs_laplacian_at(int32_t c, int32_t up, int32_t down, int32_t left, int32_t right)
{
    const int64_t d = 4 * c - up - down - left - right;
    return (uint64_t)(d * d);
}

/* Columns 0 and w-1 by hand where the margin does not hold their neighbour, the rest in chunks. */
#define BS_ENERGY_BODY(sample_type, SHIFT, ROW_SUM)                                                              \
    const int32_t first = margins.left > 0 ? 0 : 1, end = margins.right > 0 ? w : w - 1;                         \
    uint64_t sum = 0;                                                                                            \
    for (int32_t y = 0; y < h; y++) {                                                                            \
        const sample_type *c = in + y * row;                                                                     \
        const sample_type *up = in + bs_inside(y - 1, h, margins.top, margins.bottom) * row;                     \
        const sample_type *down = in + bs_inside(y + 1, h, margins.top, margins.bottom) * row;                   \
        for (int32_t x = first; x < end; x += BS_CHUNK) {                                                        \
            const int32_t count = end - x < BS_CHUNK ? end - x : BS_CHUNK;                                       \
            sum += ROW_SUM;                                                                                      \
        }                                                                                                        \
        for (int32_t x = 0; x < w; x += w > 1 ? w - 1 : 1) {                                                     \
            if (x >= first && x < end)                                                                           \
                continue;                                                                                        \
            const ptrdiff_t left = bs_inside(x - 1, w, margins.left, margins.right);                             \
            const ptrdiff_t right = bs_inside(x + 1, w, margins.left, margins.right);                            \
            sum += bs_laplacian_at(c[x] SHIFT, up[x] SHIFT, down[x] SHIFT, c[left] SHIFT, c[right] SHIFT);       \
        }                                                                                                        \
    }                                                                                                            \
    return sum;

uint64_t bs_laplacian_energy_u8(bs_tier tier, const uint8_t *in, ptrdiff_t row, int32_t h, int32_t w, bs_margins margins)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    BS_ENERGY_BODY(uint8_t, , k->laplacian_u8(up + x, c + x, down + x, count))
}

uint64_t bs_laplacian_energy_u16(bs_tier tier, const uint16_t *in, ptrdiff_t row, int32_t h, int32_t w, bs_margins margins,
                                 int32_t shift)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    BS_ENERGY_BODY(uint16_t, >> shift, k->laplacian_u16(up + x, c + x, down + x, count, shift))
}
#undef BS_ENERGY_BODY

uint64_t bs_squared_change_u8(bs_tier tier, const uint8_t *a, ptrdiff_t a_row, const uint8_t *b, ptrdiff_t b_row, int32_t h,
                              int32_t w)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++)
        for (int32_t x = 0; x < w; x += BS_CHUNK)
            sum += k->change_u8(a + y * a_row + x, b + y * b_row + x, w - x < BS_CHUNK ? w - x : BS_CHUNK);
    return sum;
}

uint64_t bs_squared_change_u16(bs_tier tier, const uint16_t *a, ptrdiff_t a_row, const uint16_t *b, ptrdiff_t b_row,
                               int32_t h, int32_t w, int32_t shift)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++)
        for (int32_t x = 0; x < w; x += BS_CHUNK)
            sum += k->change_u16(a + y * a_row + x, b + y * b_row + x, w - x < BS_CHUNK ? w - x : BS_CHUNK, shift);
    return sum;
}
