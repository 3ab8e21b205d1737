/* elementwise.c: instantiates the loops of elementwise.inc for every tier and dispatches to them.
 *
 * Owns:      the tables, and what is the same for every tier: edges, 64-bit sums, codes of more than 10 bits.
 * Relies on: elementwise.inc and the simd_*.h.
 * Must never: hold a loop over samples that should be fast.
 */
#include "kernels/elementwise.h"

#include <string.h>

enum {
    BS_SUM_CHUNK = 256,         /* samples of a row summed together: limits 32-bit sums of squares */
    /* columns enlarged together: whole vectors; five rows lie on the stack, within 4 KiB */
    BS_BICUBIC_CHUNK = 80,
    BS_EXACT_HIGH = 1023    /* largest code that the bicubic computes in floats */
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
    /* [0] of u8, [1] of u16 */
    uint64_t (*laplacian[2])(const void *above, const void *codes, const void *below, int32_t count, int32_t shift);
    uint64_t (*change[2])(const void *codes, const void *others, int32_t count, int32_t shift);
} bs_elementwise_kernels;

/* ------------------------------------------------------------------------------- helpers of the templates */

/* A coordinate, moved to the nearest one that has a sample. */
static BS_INLINE_IF_FAST ptrdiff_t bs_inside(int32_t at, int32_t extent, int32_t before, int32_t after)
{
    return at < -before ? -before : at > extent - 1 + after ? extent - 1 + after : at;
}

/* Part of an input row of the bicubic, enlarged sideways: the outputs left and right of each column. */
typedef struct bs_line_pair {
    float even[BS_BICUBIC_CHUNK], odd[BS_BICUBIC_CHUNK];
} bs_line_pair;

/* -------------------------------------------------------------------------------------------------- tiers */

#if BS_HAVE_SCALAR_KERNELS
#include "kernels/simd_scalar.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_X86_TIERS
#include "kernels/simd_avx2.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_AVX512_TIER
#include "kernels/simd_avx512.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_NEON_TIER
#include "kernels/simd_neon.h"

#include "kernels/elementwise.inc"
#include "kernels/simd_end.h"
#endif

#define BS_ELEMENTWISE_TABLE(tier)                                                                               \
    {                                                                                                            \
        bs_u8_to_f32_##tier, bs_u16_to_f32_##tier, bs_f32_to_u8_##tier, bs_f32_to_u16_##tier,                    \
            bs_sr_u8_all_##tier, bs_sr_u16_all_##tier, bs_bicubic_f32_##tier, bs_bicubic_u8_##tier,              \
            bs_bicubic_u16_##tier, {bs_laplacian_u8_##tier, bs_laplacian_u16_##tier},                            \
        {                                                                                                        \
            bs_change_u8_##tier, bs_change_u16_##tier                                                            \
        }                                                                                                        \
    }

static const bs_elementwise_kernels *bs_elementwise_of(bs_tier tier)
{
#if BS_HAVE_X86_TIERS
    static const bs_elementwise_kernels avx2 = BS_ELEMENTWISE_TABLE(avx2);
    if (tier == BS_TIER_AVX2)
        return &avx2;
#endif
#if BS_HAVE_AVX512_TIER
    static const bs_elementwise_kernels avx512 = BS_ELEMENTWISE_TABLE(avx512);
    if (tier == BS_TIER_AVX512)
        return &avx512;
#endif
#if BS_HAVE_NEON_TIER
    static const bs_elementwise_kernels neon = BS_ELEMENTWISE_TABLE(neon);
    if (tier == BS_TIER_NEON || !BS_HAVE_SCALAR_KERNELS)
        return &neon;
#endif
    (void)tier;
#if BS_HAVE_SCALAR_KERNELS
    static const bs_elementwise_kernels scalar = BS_ELEMENTWISE_TABLE(scalar);
    return &scalar;
#endif
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

/* One input sample at a time: slow, but right for every code. */
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

/* How many of the samples that are left are summed together next. */
static int32_t bs_chunk(int32_t left) { return left < BS_SUM_CHUNK ? left : BS_SUM_CHUNK; }

static const void *bs_codes_from(const bs_codes *codes, ptrdiff_t at)
{
    return (const uint8_t *)codes->data + (codes->wide ? 2 * at : at);
}

static int64_t bs_code_at(const bs_codes *codes, ptrdiff_t at)
{
    const void *code = bs_codes_from(codes, at);
    return codes->wide ? *(const uint16_t *)code >> codes->shift : *(const uint8_t *)code;
}

/* Whether the loops of a tier take them; the scalar tier is the reference. */
static bool bs_codes_are_dense(bs_tier tier, const bs_codes *codes)
{
    return tier != BS_TIER_SCALAR && codes->step == 1 && (!codes->wide || codes->shift >= 2);
}

/* Columns 0 and w-1 lack a neighbour and are summed apart; those between are summed BS_SUM_CHUNK at a time. */
uint64_t bs_laplacian_energy(bs_tier tier, const bs_codes *in, int32_t h, int32_t w)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    const bool dense = bs_codes_are_dense(tier, in);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++) {
        const ptrdiff_t row = y * in->row, up = y > 0 ? row - in->row : row, down = y < h - 1 ? row + in->row : row;
        for (int32_t x = 0, count; x < w; x += count) {
            const ptrdiff_t at = x * in->step, left = x > 0 ? at - in->step : at,
                            right = x < w - 1 ? at + in->step : at;
            const bool between = dense && x > 0 && x < w - 1;
            count = between ? bs_chunk(w - 1 - x) : 1;
            if (between) {
                sum += k->laplacian[in->wide](bs_codes_from(in, up + x), bs_codes_from(in, row + x),
                                              bs_codes_from(in, down + x), count, in->shift);
                continue;
            }
            const int64_t d = 4 * bs_code_at(in, row + at) - bs_code_at(in, up + at) - bs_code_at(in, down + at) -
                              bs_code_at(in, row + left) - bs_code_at(in, row + right);
            sum += (uint64_t)(d * d);
        }
    }
    return sum;
}

uint64_t bs_squared_change(bs_tier tier, const bs_codes *a, const bs_codes *b, int32_t h, int32_t w)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    const bool dense = bs_codes_are_dense(tier, a) && bs_codes_are_dense(tier, b);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++)
        for (int32_t x = 0, count; x < w; x += count) {
            const ptrdiff_t at = y * a->row + x * a->step, other = y * b->row + x * b->step;
            count = dense ? bs_chunk(w - x) : 1;
            if (dense) {
                sum += k->change[a->wide](bs_codes_from(a, at), bs_codes_from(b, other), count, a->shift);
                continue;
            }
            const int64_t d = bs_code_at(a, at) - bs_code_at(b, other);
            sum += (uint64_t)(d * d);
        }
    return sum;
}
