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
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) _mm512_max_ps(a, b)
#define BS_V_MIN(a, b) _mm512_min_ps(a, b)

/* A part stands for the valid lanes, 1..BS_LANES of them; the others are neither read nor written. */
#define BS_V_PART __mmask16
#define BS_V_PART_OF(n) ((__mmask16)(0xffffu >> (BS_LANES - (n))))
#define BS_V_LOAD_PART(p, part) _mm512_maskz_loadu_ps(part, p)
#define BS_V_STORE_PART(p, v, part) _mm512_mask_storeu_ps(p, part, v)

/* Stops the compiler from turning a base and its multiples into one pointer for each pixel: x86 adds
 * base + index * scale for nothing, and fourteen pointers do not fit the registers. */
#define BS_OPAQUE(pointer) __asm__("" : "+r"(pointer))

#define BS_OUTER_PIXELS_1 14
#define BS_OUTER_PIXELS_2 14
#define BS_OUTER_UPTO_1(M) BS_UPTO_14(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_14(M, 2)
#define BS_DOT_PIXELS 4
#define BS_DOT_UPTO(M) BS_UPTO_4(M, 0)

/* Four vectors -> the four sums of their lanes. */
static inline BS_TARGET __m128 bs_sum4_avx512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 t = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(t), _mm512_extractf32x8_ps(t, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
#define BS_V_SUM4(a, b, c, d) bs_sum4_avx512(a, b, c, d)
