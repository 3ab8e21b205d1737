/* simd_avx512.h: the vector vocabulary of the kernel templates, AVX-512 (F, BW, DQ, VL).
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_avx512.c just before the templates.
 * Must never: be guarded against a second inclusion, or need -m flags.
 */
#include <immintrin.h>

#define BS_TIER_FN(name) name##_avx512
#define BS_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define BS_LANES 16
#define BS_V __m512
#define BS_V_ZERO() _mm512_setzero_ps()
#define BS_V_SET1(x) _mm512_set1_ps(x)
#define BS_V_LOAD(p) _mm512_loadu_ps(p)
#define BS_V_STORE(p, v) _mm512_storeu_ps(p, v)
#define BS_V_ADD(a, b) _mm512_add_ps(a, b)
#define BS_V_SUB(a, b) _mm512_sub_ps(a, b)
#define BS_V_MUL(a, b) _mm512_mul_ps(a, b)
#define BS_V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)   /* a * b + c */
#define BS_V_FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c) /* c - a * b */
/* When one operand is NaN, the second one is returned: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) _mm512_max_ps(a, b)
#define BS_V_MIN(a, b) _mm512_min_ps(a, b)
/* a > b ? a : b, of NaN too */
#define BS_V_LARGER(a, b) BS_V_MAX(a, b)

/* Of the row functions (functions.inc). POWER2(t) is 2^n where t is 1.5 * 2^23 + 127 + n, n from -127 (0) to 127: the
 * low bits of t are the exponent's. SCALE(v, n) is v 2^n for n of any size, and LOAD_FILLED puts a number in lanes that
 * are not valid, where a tier has them. SQUARE_REST is square - a^2, of the a^2 that was rounded to `square`. TOP and
 * SUM are of a vector's lanes, in an order of the tier. IF_LESS takes lanes of `yes` where a < b, which no NaN is;
 * BITS_23 is the bits of v, 23 places lower: its sign and exponent as a number. */
#define BS_V_DIV(a, b) _mm512_div_ps(a, b)
#define BS_V_AND(a, b) _mm512_and_ps(a, b)
#define BS_V_OR(a, b) _mm512_or_ps(a, b)
#define BS_V_XOR(a, b) _mm512_xor_ps(a, b)
#define BS_V_POWER2(t) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23))
#define BS_V_IF_LESS(a, b, yes, no) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes)
#define BS_V_BITS_23(v) _mm512_castsi512_ps(_mm512_srli_epi32(_mm512_castps_si512(v), 23))
#define BS_V_SCALE(v, n) _mm512_scalef_ps(v, n)
#define BS_V_SQUARE_REST(a, square) BS_V_FNMA(a, a, square)
#define BS_V_LOAD_FILLED(p, part, fill) _mm512_mask_loadu_ps(_mm512_set1_ps(fill), part, p)
#define BS_V_TOP(v) _mm512_reduce_max_ps(v)
#define BS_V_SUM(v) _mm512_reduce_add_ps(v)

/* A part is the mask of the valid lanes, 1..BS_LANES of them; the others are neither read nor written. */
#define BS_V_PART __mmask16
#define BS_V_PART_OF(n) ((__mmask16)(0xffffu >> (BS_LANES - (n))))
#define BS_V_LOAD_PART(p, part) _mm512_maskz_loadu_ps(part, p)
#define BS_V_STORE_PART(p, v, part) _mm512_mask_storeu_ps(p, part, v)

/* Stops the compiler from turning a base and its multiples into one pointer for each pixel: x86 adds base + index *
 * scale at no cost, and fourteen pointers do not fit into the registers. */
#define BS_OPAQUE(pointer) __asm__("" : "+r"(pointer))

#define BS_OUTER_PIXELS_1 14
#define BS_OUTER_PIXELS_2 14
#define BS_OUTER_UPTO_1(M) BS_UPTO_14(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_14(M, 2)
#define BS_ACROSS_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_ACROSS_UPTO_2(M) BS_UPTO_8(M, 2)
#define BS_GEMM_ROWS_1 8
#define BS_GEMM_ROWS_2 8
#define BS_GEMM_ROWS_3 8
#define BS_GEMM_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_GEMM_UPTO_2(M) BS_UPTO_8(M, 2)
#define BS_GEMM_UPTO_3(M) BS_UPTO_8(M, 3)
#ifndef BS_SMALL
#define BS_GEMM_WIDE
#endif
#define BS_DEPTHWISE_PIXELS 14
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_14(M, 0)
/* Keeps four weights in registers: left alone, GCC reads each from memory once for every pixel. */
#define BS_HOLD(a) __asm__("" : "+v"(a))
#define BS_HOLD4(a, b, c, d) __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#define BS_DOT_PIXELS 4
#define BS_DOT_UPTO(M) BS_UPTO_4(M, 0)
#define BS_DOT_KERNELS(M) BS_DOT_UPTO(M)

#define BS_V_SUM4(a, b, c, d) bs_sum4_avx512(a, b, c, d)
/* Four floats of each of BS_LANES lines, `step` apart, to v[4]: v[0] has the first one of each line. */
#define BS_V_TURN(p, step, v) bs_turn_avx512(p, step, v)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_avx512(p)
#define BS_V_LOAD_U16(p) bs_load_u16_avx512(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_avx512(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_avx512(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_avx512(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_avx512(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_avx512(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_avx512(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_avx512(a, b)

#ifndef BS_SIMD_AVX512_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_AVX512_FUNCTIONS

/* Four vectors -> the four sums of their lanes. */
static inline BS_TARGET __m128 bs_sum4_avx512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 t = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(t), _mm512_extractf32x8_ps(t, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/* Lines i, i + 4, i + 8 and i + 12 side by side. */
static inline BS_INLINE BS_TARGET void bs_turn_avx512(const float *p, ptrdiff_t step, __m512 *v)
{
    __m512 line[4];
    for (int i = 0; i < 4; i++) {
        line[i] = _mm512_castps128_ps512(_mm_loadu_ps(p + i * step));
        line[i] = _mm512_insertf32x4(line[i], _mm_loadu_ps(p + (i + 4) * step), 1);
        line[i] = _mm512_insertf32x4(line[i], _mm_loadu_ps(p + (i + 8) * step), 2);
        line[i] = _mm512_insertf32x4(line[i], _mm_loadu_ps(p + (i + 12) * step), 3);
    }
    const __m512 a = _mm512_unpacklo_ps(line[0], line[1]), b = _mm512_unpacklo_ps(line[2], line[3]);
    const __m512 c = _mm512_unpackhi_ps(line[0], line[1]), d = _mm512_unpackhi_ps(line[2], line[3]);
    v[0] = _mm512_shuffle_ps(a, b, 0x44);
    v[1] = _mm512_shuffle_ps(a, b, 0xee);
    v[2] = _mm512_shuffle_ps(c, d, 0x44);
    v[3] = _mm512_shuffle_ps(c, d, 0xee);
}

static inline BS_TARGET __m512 bs_load_u8_avx512(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

static inline BS_TARGET __m512 bs_load_u16_avx512(const uint16_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}

static inline BS_TARGET void bs_store_u8_avx512(uint8_t *to, __m512 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_u16_avx512(uint16_t *to, __m512 v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_pairs_u8_avx512(uint8_t *to, __m512 even, __m512 odd)
{
    const __m512i high = _mm512_slli_epi32(_mm512_cvttps_epi32(odd), 8);
    const __m512i pairs = _mm512_or_si512(_mm512_cvttps_epi32(even), high);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(pairs));
}

static inline BS_TARGET void bs_store_pairs_u16_avx512(uint16_t *to, __m512 even, __m512 odd)
{
    const __m512i high = _mm512_slli_epi32(_mm512_cvttps_epi32(odd), 16);
    _mm512_storeu_si512(to, _mm512_or_si512(_mm512_cvttps_epi32(even), high));
}

static inline BS_TARGET void bs_store_pairs_f32_avx512(float *to, __m512 even, __m512 odd)
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(to + BS_LANES, _mm512_permutex2var_ps(even, second, odd));
}

static inline BS_TARGET __m512 bs_even_pairs_avx512(__m512 a, __m512 b)
{
    const __m512i which = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    return _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), which, _mm512_castps_pd(b)));
}

static inline BS_TARGET __m512 bs_odd_pairs_avx512(__m512 a, __m512 b)
{
    const __m512i which = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    return _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), which, _mm512_castps_pd(b)));
}

#endif
