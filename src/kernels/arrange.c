/* arrange.c: see arrange.h. The block that a tier transposes in registers, and portable loops for the rest. */
#include "kernels/arrange.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------ portable */

static void transpose_plain(const float *from, ptrdiff_t from_row, int32_t rows, int32_t columns, float *to,
                            ptrdiff_t to_row)
{
    for (int32_t r = 0; r < rows; r++)
        for (int32_t c = 0; c < columns; c++)
            to[c * to_row + r] = from[r * from_row + c];
}

/* Without branches, step by step over the whole block, so that compilers vectorise each step. */
static void widen64_plain(const uint16_t *from, float *to)
{
    uint32_t bits[64], small_bits[64];
    float small[64];
    for (int32_t i = 0; i < 64; i++) {
        bits[i] = (uint32_t)(from[i] & 0x7fffu) << 13;
        small_bits[i] = bits[i] + 0x38800000u; /* a subnormal number: 2^-14 plus its value */
    }
    memcpy(small, small_bits, sizeof small);
    for (int32_t i = 0; i < 64; i++)
        small[i] -= 0x1p-14f;
    memcpy(small_bits, small, sizeof small);
    for (int32_t i = 0; i < 64; i++) {
        const uint32_t exponent = bits[i] & 0x0f800000u;
        /* infinite or NaN: the largest exponent */
        const uint32_t normal = bits[i] + (exponent == 0x0f800000u ? 0x70000000u : 0x38000000u);
        bits[i] = (uint32_t)(from[i] & 0x8000u) << 16 | (exponent == 0 ? small_bits[i] : normal);
    }
    memcpy(to, bits, sizeof bits);
}

/* ------------------------------------------------------------------------------------------------- in registers */

#if BS_HAVE_X86_TIERS

#include <immintrin.h>

#define ARRANGE_BLOCK 8

/* 8 x 4: four rows and the four below them side by side; then pairs are interleaved, then pairs of pairs. The second
 * two rows of the result begin `to_pair` from the first two. */
#define ARRANGE_HALF 4
__attribute__((target("avx2"))) static void transpose_half(const float *from, ptrdiff_t from_row, float *to,
                                                           ptrdiff_t to_row, ptrdiff_t to_pair)
{
    __m256 row[4], pair[4];
    for (int i = 0; i < 4; i++)
        row[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from + i * from_row)),
                                      _mm_loadu_ps(from + (i + 4) * from_row), 1);
    for (int i = 0; i < 2; i++) {
        pair[i] = _mm256_unpacklo_ps(row[2 * i], row[2 * i + 1]);
        pair[i + 2] = _mm256_unpackhi_ps(row[2 * i], row[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        _mm256_storeu_ps(to + i * to_pair, _mm256_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0x44));
        _mm256_storeu_ps(to + i * to_pair + to_row, _mm256_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0xee));
    }
}

__attribute__((target("avx2"))) static void transpose_block(const float *from, ptrdiff_t from_row, float *to,
                                                            ptrdiff_t to_row)
{
    transpose_half(from, from_row, to, to_row, 2 * to_row);
    transpose_half(from + 4, from_row, to + 4 * to_row, to_row, 2 * to_row);
}

#ifndef BS_SMALL
/* 4 x 8, for few rows. */
#define ARRANGE_FEW 4
__attribute__((target("avx2"))) static void transpose_few(const float *from, ptrdiff_t from_row, float *to,
                                                          ptrdiff_t to_row)
{
    const __m256 a = _mm256_loadu_ps(from), b = _mm256_loadu_ps(from + from_row);
    const __m256 c = _mm256_loadu_ps(from + 2 * from_row), d = _mm256_loadu_ps(from + 3 * from_row);
    const __m256 ab[2] = {_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)};
    const __m256 cd[2] = {_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d)};
    for (int i = 0; i < 2; i++) {
        const __m256 even = _mm256_shuffle_ps(ab[i], cd[i], 0x44), odd = _mm256_shuffle_ps(ab[i], cd[i], 0xee);
        _mm_storeu_ps(to + 2 * i * to_row, _mm256_castps256_ps128(even));
        _mm_storeu_ps(to + (2 * i + 1) * to_row, _mm256_castps256_ps128(odd));
        _mm_storeu_ps(to + (2 * i + 4) * to_row, _mm256_extractf128_ps(even, 1));
        _mm_storeu_ps(to + (2 * i + 5) * to_row, _mm256_extractf128_ps(odd, 1));
    }
}

/* 2 x 8, whose columns lie side by side. */
#define ARRANGE_PAIRS 8
__attribute__((target("avx2"))) static void transpose_pairs(const float *first, const float *second, float *to)
{
    const __m256 a = _mm256_loadu_ps(first), b = _mm256_loadu_ps(second);
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

#define ARRANGE_PHASES 8 /* channels */
__attribute__((target("avx2"))) static void shuffle_pairs(const float *from, int32_t pixels, int32_t channels,
                                                          float *to, ptrdiff_t to_line)
{
    for (; pixels > 0; pixels--, to += 2 * channels)
        for (int32_t c = 0; c < channels; c += ARRANGE_PHASES, from += 4 * ARRANGE_PHASES)
            transpose_half(from, 4, to + c, channels, to_line);
}
#endif

__attribute__((target("avx2,f16c"))) static void widen64_block(const uint16_t *from, float *to)
{
    __m128i half[8];
    for (int i = 0; i < 8; i++)
        half[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + 8 * i));
    for (int i = 0; i < 8; i++)
        _mm256_storeu_ps(to + 8 * i, _mm256_cvtph_ps(half[i]));
}

#elif BS_HAVE_NEON_TIER

#include <arm_neon.h>

#define ARRANGE_BLOCK 4

/* 4 x 4: rows are interleaved, then halves. */
static void transpose_block(const float *from, ptrdiff_t from_row, float *to, ptrdiff_t to_row)
{
    const float32x4x2_t a = vtrnq_f32(vld1q_f32(from), vld1q_f32(from + from_row));
    const float32x4x2_t b = vtrnq_f32(vld1q_f32(from + 2 * from_row), vld1q_f32(from + 3 * from_row));
    vst1q_f32(to, vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0])));
    vst1q_f32(to + to_row, vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1])));
    vst1q_f32(to + 2 * to_row, vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0])));
    vst1q_f32(to + 3 * to_row, vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1])));
}

#ifndef BS_SMALL
#define ARRANGE_PAIRS 4
static void transpose_pairs(const float *first, const float *second, float *to)
{
    const float32x4x2_t pairs = {{vld1q_f32(first), vld1q_f32(second)}};
    vst2q_f32(to, pairs);
}

#define ARRANGE_PHASES 4 /* channels */
static void shuffle_pairs(const float *from, int32_t pixels, int32_t channels, float *to, ptrdiff_t to_line)
{
    for (; pixels > 0; pixels--, to += 2 * channels)
        for (int32_t c = 0; c < channels; c += ARRANGE_PHASES, from += 4 * ARRANGE_PHASES) {
            const float32x4x4_t phases = vld4q_f32(from);
            vst1q_f32(to + c, phases.val[0]);
            vst1q_f32(to + c + channels, phases.val[1]);
            vst1q_f32(to + c + to_line, phases.val[2]);
            vst1q_f32(to + c + to_line + channels, phases.val[3]);
        }
}
#endif

static void widen64_block(const uint16_t *from, float *to)
{
    uint16x4_t half[16];
    for (int i = 0; i < 16; i++)
        half[i] = vld1_u16(from + 4 * i);
    for (int i = 0; i < 16; i++)
        vst1q_f32(to + 4 * i, vcvt_f32_f16(vreinterpret_f16_u16(half[i])));
}

#else

#define ARRANGE_BLOCK 1

static void transpose_block(const float *from, ptrdiff_t from_row, float *to, ptrdiff_t to_row)
{
    (void)from_row, (void)to_row;
    *to = *from;
}

static void widen64_block(const uint16_t *from, float *to) { widen64_plain(from, to); }

#endif

/* --------------------------------------------------------------------------------------------------- the whole */

/* Fewer rows than a block has. */
static void transpose_narrow(bs_tier tier, const float *from, ptrdiff_t from_row, int32_t rows, int32_t columns,
                             float *to, ptrdiff_t to_row)
{
    int32_t done = 0, taken = rows;
#ifdef ARRANGE_PAIRS
    for (; tier != BS_TIER_SCALAR && rows == 2 && to_row == 2 && columns - done >= ARRANGE_PAIRS; done += ARRANGE_PAIRS)
        transpose_pairs(from + done, from + from_row + done, to + 2 * done);
#endif
#ifdef ARRANGE_FEW
    if (tier != BS_TIER_SCALAR && rows >= ARRANGE_FEW) {
        for (taken = ARRANGE_FEW; columns - done >= 8; done += 8)
            transpose_few(from + done, from_row, to + done * to_row, to_row);
        transpose_plain(from + taken * from_row, from_row, rows - taken, columns, to + taken, to_row);
    }
#endif
    (void)tier;
    transpose_plain(from + done, from_row, taken, columns - done, to + done * to_row, to_row);
}

void bs_transpose_f32(bs_tier tier, const float *from, ptrdiff_t from_row, int32_t rows, int32_t columns, float *to,
                      ptrdiff_t to_row)
{
    const int32_t block = tier == BS_TIER_SCALAR ? 1 : ARRANGE_BLOCK;
    const int32_t whole_rows = block > 1 ? rows / block * block : 0,
                  whole_columns = block > 1 ? columns / block * block : 0;
    for (int32_t r = 0; r < whole_rows; r += block)
        for (int32_t c = 0; c < whole_columns; c += block)
            transpose_block(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
    int32_t done = whole_columns;
#ifdef ARRANGE_HALF
    if (block > 1 && columns - done >= ARRANGE_HALF) {
        for (int32_t r = 0; r < whole_rows; r += block)
            transpose_half(from + r * from_row + done, from_row, to + done * to_row + r, to_row, 2 * to_row);
        done += ARRANGE_HALF;
    }
#endif
    transpose_plain(from + done, from_row, whole_rows, columns - done, to + done * to_row, to_row);
    transpose_narrow(tier, from + whole_rows * from_row, from_row, rows - whole_rows, columns, to + whole_rows,
                     to_row);
}

#ifndef BS_SMALL
bool bs_shuffle_pairs_f32(bs_tier tier, const float *from, int32_t pixels, int32_t channels, float *to,
                          ptrdiff_t to_line)
{
#ifdef ARRANGE_PHASES
    if (tier != BS_TIER_SCALAR && channels % ARRANGE_PHASES == 0) {
        shuffle_pairs(from, pixels, channels, to, to_line);
        return true;
    }
#endif
    (void)tier, (void)from, (void)pixels, (void)channels, (void)to, (void)to_line;
    return false;
}
#endif

/* Rows of a panel are short: calls of memcpy would take longer than what they copy. */
static void gather_row(const float *from, int32_t columns, float *to)
{
#ifndef BS_SMALL
    for (; columns >= 8; columns -= 8, from += 8, to += 8)
        memcpy(to, from, 8 * sizeof(float));
#endif
    if (columns > 0)
        memcpy(to, from, (size_t)columns * sizeof(float));
}

void bs_gather_f32(bs_tier tier, const float *from, ptrdiff_t from_row, ptrdiff_t from_step, int32_t rows,
                   int32_t columns, float *to, ptrdiff_t to_row)
{
    if (from_row == 1) {
        bs_transpose_f32(tier, from, from_step, columns, rows, to, to_row);
        return;
    }
    for (int32_t r = 0; r < rows; r++, from += from_row, to += to_row) {
        if (from_step == 1)
            gather_row(from, columns, to);
        for (int32_t c = 0; c < columns && from_step != 1; c++)
            to[c] = from[c * from_step];
    }
}

void bs_widen64_f16(bs_tier tier, const uint16_t *from, float *to)
{
    if (tier == BS_TIER_SCALAR)
        widen64_plain(from, to);
    else
        widen64_block(from, to);
}
