/* elementwise.c: instantiates the loops of elementwise.inc for every tier and dispatches to them.
 *
 * Owns:      the tables, and what is the same for every tier: edges, 64-bit sums, codes of more than 10 bits.
 * Relies on: elementwise.inc and the simd_*.h.
 * Must never: hold a loop over samples that should be fast.
 */
#include "kernels/elementwise.h"

#include <string.h>

enum {
    BS_SUM_CHUNK = 256,         /* samples of a row summed together: bounds 32-bit sums of squares */
    /* columns enlarged together: a whole count of vectors; five rows are on the stack, in 4 KiB of it */
    BS_BICUBIC_CHUNK = 80,
    BS_EXACT_HIGH = 1023    /* largest code of the bicubic in floats */
};

typedef struct bs_elementwise_kernels {
    void (*u8_to_f32)(const uint8_t *in, float *out, int32_t count, float scale);
    void (*u16_to_f32)(const uint16_t *in, float *out, int32_t count, float scale);
    void (*f32_to_u8)(const float *in, uint8_t *out, int32_t count, float scale, float high);
    void (*f32_to_u16)(const float *in, uint16_t *out, int32_t count, float scale, float high);
    void (*sr_u8)(const bs_sr_store *store, float high);
    void (*sr_u16)(const bs_sr_store *store, float high);
    void (*bicubic_f32)(const bs_bicubic2x *task, float high);
    void (*bicubic_u8)(const bs_bicubic2x *task, float high);
    void (*bicubic_u16)(const bs_bicubic2x *task, float high);
    uint32_t (*laplacian_u8)(const uint8_t *up, const uint8_t *c, const uint8_t *down, int32_t count);
    uint64_t (*laplacian_u16)(const uint16_t *up, const uint16_t *c, const uint16_t *down, int32_t count,
                              int32_t shift);
    uint32_t (*change_u8)(const uint8_t *a, const uint8_t *b, int32_t count);
    uint64_t (*change_u16)(const uint16_t *a, const uint16_t *b, int32_t count, int32_t shift);
} bs_elementwise_kernels;

/* ------------------------------------------------------------------------------- helpers of the templates */

/* A coordinate moved to where samples are. */
static inline ptrdiff_t bs_inside(int32_t at, int32_t extent, int32_t before, int32_t after)
{
    return at < -before ? -before : at > extent - 1 + after ? extent - 1 + after : at;
}

/* A chunk of an input row of the bicubic, enlarged sideways: the outputs left and right of each column. */
typedef struct bs_line_pair {
    float even[BS_BICUBIC_CHUNK], odd[BS_BICUBIC_CHUNK];
} bs_line_pair;

/* What the bicubic does to samples: a chunk of a row sideways, then five of them to two output rows. */
typedef void bs_bicubic_lines(const bs_bicubic2x *task, int32_t y, int32_t x, int32_t count, bs_line_pair *lines);
typedef void bs_bicubic_vertical(const bs_line_pair *const *r, void *samples, ptrdiff_t out_row, int32_t count,
                                 float high);

/* A column of chunks; each input row is enlarged sideways once and kept until five further rows are. The last of the
 * five an output wants moves down a row each time, within what is valid. `scale` is 1, or the bytes of a sample where
 * `type` is char. */
#define BS_BICUBIC_BODY(type, scale, enlarge, vertical)                                                          \
    bs_line_pair ring[5];                                                                                        \
    for (int32_t x = 0; x < t->w; x += BS_BICUBIC_CHUNK) {                                                       \
        const int32_t count = t->w - x < BS_BICUBIC_CHUNK ? t->w - x : BS_BICUBIC_CHUNK;                         \
        type *out = (type *)t->out + 2 * (ptrdiff_t)x * (scale);                                                 \
        const bs_line_pair *r[5] = {0};                                                                          \
        int32_t made = -3, slot = 0;                                                                             \
        for (int32_t y = -4; y < t->h; y++) {                                                                    \
            const int32_t row = (int32_t)bs_inside(y + 2, t->h, t->margins.top, t->margins.bottom);              \
            if (row > made) {                                                                                    \
                slot = slot < 4 ? slot + 1 : 0;                                                                  \
                enlarge(t, row, x, count, &ring[slot]);                                                          \
                made = row;                                                                                      \
            }                                                                                                    \
            memmove(r, r + 1, 4 * sizeof *r);                                                                    \
            r[4] = &ring[slot];                                                                                  \
            if (y < 0)                                                                                           \
                continue;                                                                                        \
            vertical(r, out, t->out_row, count, high);                                                           \
            out += 2 * t->out_row * (scale);                                                                     \
        }                                                                                                        \
    }

/* Once for each type and tier, or, where the build asks for few bytes (-Os), once. */
#ifdef __OPTIMIZE_SIZE__
static void bs_bicubic2x_any(const bs_bicubic2x *t, bs_bicubic_lines *enlarge, bs_bicubic_vertical *vertical,
                             ptrdiff_t sample_bytes, float high)
{
    BS_BICUBIC_BODY(char, sample_bytes, enlarge, vertical)
}
#define BS_BICUBIC_RUN(type, enlarge, vertical) bs_bicubic2x_any(t, enlarge, vertical, sizeof(type), high);
#else
#define BS_BICUBIC_RUN(type, enlarge, vertical) BS_BICUBIC_BODY(type, 1, enlarge, vertical)
#endif

/* -------------------------------------------------------------------------------------------------- tiers */

#include "kernels/simd_scalar.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"

#if BS_HAVE_X86_TIERS
#include "kernels/simd_avx2.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"

#include "kernels/simd_avx512.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_NEON_TIER
#include "kernels/simd_neon.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"
#endif

#define BS_ELEMENTWISE_TABLE(tier)                                                                        \
    {                                                                                                     \
        bs_u8_to_f32_##tier, bs_u16_to_f32_##tier, bs_f32_to_u8_##tier, bs_f32_to_u16_##tier,             \
            bs_sr_u8_all_##tier, bs_sr_u16_all_##tier, bs_bicubic_f32_##tier, bs_bicubic_u8_##tier,       \
            bs_bicubic_u16_##tier, bs_laplacian_u8_##tier, bs_laplacian_u16_##tier, bs_change_u8_##tier,  \
            bs_change_u16_##tier,                                                                         \
    }

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
#if BS_HAVE_NEON_TIER
    static const bs_elementwise_kernels neon = BS_ELEMENTWISE_TABLE(neon);
    if (tier == BS_TIER_NEON)
        return &neon;
#endif
    (void)tier;
    return &scalar;
}
#undef BS_ELEMENTWISE_TABLE
#undef BS_BICUBIC_RUN
#undef BS_BICUBIC_BODY

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
    bs_elementwise_of(tier)->f32_to_u8(in, out, count, scale, 255.0f);
}

void bs_row_f32_to_u16(bs_tier tier, const float *in, uint16_t *out, int32_t count, float scale, uint16_t high)
{
    bs_elementwise_of(tier)->f32_to_u16(in, out, count, scale, (float)high);
}

void bs_sr_store_u8(bs_tier tier, const bs_sr_store *store)
{
    bs_elementwise_of(tier)->sr_u8(store, 255.0f);
}

void bs_sr_store_u16(bs_tier tier, const bs_sr_store *store)
{
    bs_elementwise_of(tier)->sr_u16(store, (float)store->high);
}

void bs_bicubic2x_f32(bs_tier tier, const bs_bicubic2x *task)
{
    bs_elementwise_of(tier)->bicubic_f32(task, 0.0f);
}

void bs_bicubic2x_u8(bs_tier tier, const bs_bicubic2x *task)
{
    bs_elementwise_of(tier)->bicubic_u8(task, 255.0f);
}

/* ---------------------------------------------------------------------------------- bicubic of wide codes */

static int32_t bs_cubic_sum(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return 29 * b + 111 * c - 3 * a - 9 * d;
}

/* The sums of 16-bit codes stay below 65535 (140^2 + 12^2) = 1.3e9. */
static uint16_t bs_cubic_wide_code(const int32_t *line, int32_t odd, int32_t high)
{
    const int32_t sum = odd ? bs_cubic_sum(line[4], line[3], line[2], line[1])
                            : bs_cubic_sum(line[0], line[1], line[2], line[3]);
    const int32_t code = sum <= -(1 << 13) ? 0 : (sum + (1 << 13)) >> 14;
    return (uint16_t)(code < high ? code : high);
}

/* One input sample at a time: plain, and right for every code. */
static void bs_bicubic2x_wide(const bs_bicubic2x *t)
{
    for (int32_t y = 0; y < 2 * t->h; y++) {
        const uint16_t *r[5];
        for (int32_t i = 0; i < 5; i++) {
            const int32_t step = y % 2 ? 2 - i : i - 2; /* odd rows: the same weights from below */
            r[i] = (const uint16_t *)t->in +
                   bs_inside(y / 2 + step, t->h, t->margins.top, t->margins.bottom) * t->in_row;
        }
        uint16_t *out = (uint16_t *)t->out + y * t->out_row;
        for (int32_t x = 0; x < t->w; x++) {
            int32_t line[5];
            for (int32_t i = 0; i < 5; i++) {
                const ptrdiff_t at = bs_inside(x + i - 2, t->w, t->margins.left, t->margins.right);
                line[i] = bs_cubic_sum(r[0][at], r[1][at], r[2][at], r[3][at]);
            }
            out[2 * x] = bs_cubic_wide_code(line, 0, t->high);
            out[2 * x + 1] = bs_cubic_wide_code(line, 1, t->high);
        }
    }
}

void bs_bicubic2x_u16(bs_tier tier, const bs_bicubic2x *task)
{
    if (task->high > BS_EXACT_HIGH)
        bs_bicubic2x_wide(task);
    else
        bs_elementwise_of(tier)->bicubic_u16(task, (float)task->high);
}

/* ----------------------------------------------------------------------------------------------- features */

/* One sample whose left or right neighbour may be missing. */
static uint64_t bs_laplacian_at(int32_t c, int32_t up, int32_t down, int32_t left, int32_t right)
{
    const int64_t d = 4 * c - up - down - left - right;
    return (uint64_t)(d * d);
}

/* Columns 0 and w-1 by hand where the margin does not hold their neighbour, the rest in chunks. */
#define BS_ENERGY_BODY(sample_type, SHIFT, ROW_SUM)                                                        \
    const int32_t first = margins.left > 0 ? 0 : 1, end = margins.right > 0 ? w : w - 1;                   \
    uint64_t sum = 0;                                                                                      \
    for (int32_t y = 0; y < h; y++) {                                                                      \
        const sample_type *c = in + y * row;                                                               \
        const sample_type *up = in + bs_inside(y - 1, h, margins.top, margins.bottom) * row;               \
        const sample_type *down = in + bs_inside(y + 1, h, margins.top, margins.bottom) * row;             \
        for (int32_t x = first; x < end; x += BS_SUM_CHUNK) {                                              \
            const int32_t count = end - x < BS_SUM_CHUNK ? end - x : BS_SUM_CHUNK;                         \
            sum += ROW_SUM;                                                                                \
        }                                                                                                  \
        for (int32_t x = 0; x<w; x += w> 1 ? w - 1 : 1) {                                                  \
            if (x >= first && x < end)                                                                     \
                continue;                                                                                  \
            const ptrdiff_t left = bs_inside(x - 1, w, margins.left, margins.right);                       \
            const ptrdiff_t right = bs_inside(x + 1, w, margins.left, margins.right);                      \
            sum += bs_laplacian_at(c[x] SHIFT, up[x] SHIFT, down[x] SHIFT, c[left] SHIFT, c[right] SHIFT); \
        }                                                                                                  \
    }                                                                                                      \
    return sum;

uint64_t bs_laplacian_energy_u8(bs_tier tier, const uint8_t *in, ptrdiff_t row, int32_t h, int32_t w,
                                bs_margins margins)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    BS_ENERGY_BODY(uint8_t, , k->laplacian_u8(up + x, c + x, down + x, count))
}

uint64_t bs_laplacian_energy_u16(bs_tier tier, const uint16_t *in, ptrdiff_t row, int32_t h, int32_t w,
                                 bs_margins margins, int32_t shift)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    BS_ENERGY_BODY(uint16_t, >> shift, k->laplacian_u16(up + x, c + x, down + x, count, shift))
}
#undef BS_ENERGY_BODY

uint64_t bs_squared_change_u8(bs_tier tier, const uint8_t *a, ptrdiff_t a_row, const uint8_t *b, ptrdiff_t b_row,
                              int32_t h, int32_t w)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++)
        for (int32_t x = 0; x < w; x += BS_SUM_CHUNK)
            sum += k->change_u8(a + y * a_row + x, b + y * b_row + x, w - x < BS_SUM_CHUNK ? w - x : BS_SUM_CHUNK);
    return sum;
}

uint64_t bs_squared_change_u16(bs_tier tier, const uint16_t *a, ptrdiff_t a_row, const uint16_t *b, ptrdiff_t b_row,
                               int32_t h, int32_t w, int32_t shift)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++)
        for (int32_t x = 0; x < w; x += BS_SUM_CHUNK)
            sum += k->change_u16(a + y * a_row + x, b + y * b_row + x, w - x < BS_SUM_CHUNK ? w - x : BS_SUM_CHUNK,
                                 shift);
    return sum;
}
