/* simd_avx2.h: the vector vocabulary of the kernel templates, AVX2 and FMA.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_avx2.c just before the templates.
 * Must never: be guarded against a second inclusion, or need -m flags.
 */
#include <immintrin.h>
#include <string.h>

#define BS_TIER_FN(name) name##_avx2
#define BS_TARGET __attribute__((target("avx2,fma")))
#define BS_LANES 8
#define BS_V __m256
#define BS_V_ZERO() _mm256_setzero_ps()
#define BS_V_SET1(x) _mm256_set1_ps(x)
#define BS_V_LOAD(p) _mm256_loadu_ps(p)
#define BS_V_STORE(p, v) _mm256_storeu_ps(p, v)
#define BS_V_ADD(a, b) _mm256_add_ps(a, b)
#define BS_V_SUB(a, b) _mm256_sub_ps(a, b)
#define BS_V_MUL(a, b) _mm256_mul_ps(a, b)
#define BS_V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)   /* a * b + c */
#define BS_V_FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c) /* c - a * b */
/* When one operand is NaN, the second one is returned: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) _mm256_max_ps(a, b)
#define BS_V_MIN(a, b) _mm256_min_ps(a, b)
#define BS_V_LARGER(a, b) BS_V_MAX(a, b)

/* As in simd_avx512.h. */
#define BS_V_DIV(a, b) _mm256_div_ps(a, b)
#define BS_V_AND(a, b) _mm256_and_ps(a, b)
#define BS_V_OR(a, b) _mm256_or_ps(a, b)
#define BS_V_XOR(a, b) _mm256_xor_ps(a, b)
#define BS_V_POWER2(t) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23))
#define BS_V_IF_LESS(a, b, yes, no) _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define BS_V_BITS_23(v) _mm256_castsi256_ps(_mm256_srli_epi32(_mm256_castps_si256(v), 23))
#define BS_V_SQUARE_REST(a, square) BS_V_FNMA(a, a, square)
#define BS_V_LOAD_FILLED(p, part, fill) bs_load_filled_avx2(p, part, fill)
#define BS_V_TOP(v) bs_top_avx2(v)
#define BS_V_SUM(v) bs_sum_avx2(v)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. A masked load is fast
 * everywhere, a masked store is microcode on some processors, so whole vectors and halves avoid it. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) bs_load_part_avx2(p, part)
#define BS_V_STORE_PART(p, v, part) bs_store_part_avx2(p, v, part)

/* As in simd_avx512.h. */
#define BS_OPAQUE(pointer) __asm__("" : "+r"(pointer))

#define BS_OUTER_PIXELS_1 12
#define BS_OUTER_PIXELS_2 6
#define BS_OUTER_UPTO_1(M) BS_UPTO_12(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_6(M, 2)
#define BS_ACROSS_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_ACROSS_UPTO_2(M) BS_UPTO_6(M, 2)
/* Of three vectors 12 sums, 2 vectors of weights and an input leave a register of 16: with the third vector in the last
 * one GCC keeps sums on the stack. So it does where it chooses which operand of a multiply-add becomes the result, or
 * keeps a zero for the next tile. Fewer vectors take more rows: 8 sums must be under way. */
#ifdef BS_SMALL
#define BS_GEMM_ROWS_1 4
#define BS_GEMM_ROWS_2 4
#define BS_GEMM_ROWS_3 4
#define BS_GEMM_UPTO_1(M) BS_UPTO_4(M, 1)
#define BS_GEMM_UPTO_2(M) BS_UPTO_4(M, 2)
#define BS_GEMM_UPTO_3(M) BS_UPTO_4(M, 3)
#else
#define BS_GEMM_ROWS_1 8
#define BS_GEMM_ROWS_2 6
#define BS_GEMM_ROWS_3 4
#define BS_GEMM_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_GEMM_UPTO_2(M) BS_UPTO_6(M, 2)
#define BS_GEMM_UPTO_3(M) BS_UPTO_4(M, 3)
#endif
#define BS_GEMM_ONE_INPUT(x) BS_HOLD(x);
#define BS_GEMM_THIRD(w2, from) const __m256_u *const w2 = (const __m256_u *)(from);
#define BS_GEMM_ZERO(zero) \
    BS_V zero;             \
    __asm__ volatile("vxorps %0, %0, %0" : "=x"(zero));
#define BS_GEMM_FMA(sum, x, w) __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w))
#define BS_GEMM_THIRD_FMA(sum, x, w2) __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "m"(*(w2)))
#ifndef BS_SMALL
#define BS_GEMM_WIDE
#endif
/* Four products of four rows by three vectors in all 16 registers, which no compiler does: each weight is loaded once,
 * for 28 loads beside 48 multiply-adds, not 40. Each sum sees the operations of BS_GEMM_ADD_3, in that order. */
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(BS_SMALL) && !defined(__SANITIZE_ADDRESS__)
#define BS_GEMM_BY_3(row, s0, s1, s2)                      \
    "vbroadcastss " row ", %%ymm15\n"                      \
    "vfmadd231ps %%ymm12, %%ymm15, %[" s0 "]\n"            \
    "vfmadd231ps %%ymm13, %%ymm15, %[" s1 "]\n"            \
    "vfmadd231ps %%ymm14, %%ymm15, %[" s2 "]\n"
#define BS_GEMM_STEP_BY_3(x, w0, w1, w2)                   \
    "vmovups " w0 "(%[w]), %%ymm12\n"                      \
    "vmovups " w1 "(%[w]), %%ymm13\n"                      \
    "vmovups " w2 "(%[w]), %%ymm14\n"                      \
    BS_GEMM_BY_3(x "(%[x])", "a0", "a1", "a2")             \
    BS_GEMM_BY_3(x "(%[x],%[step],4)", "b0", "b1", "b2")   \
    BS_GEMM_BY_3(x "(%[x],%[step],8)", "c0", "c1", "c2")   \
    BS_GEMM_BY_3(x "(%[x],%[step3],4)", "d0", "d1", "d2")
#define BS_GEMM_FOUR_BY_3                                                                                 \
    __asm__(BS_GEMM_STEP_BY_3("0", "0", "32", "64") BS_GEMM_STEP_BY_3("4", "96", "128", "160")             \
            BS_GEMM_STEP_BY_3("8", "192", "224", "256") BS_GEMM_STEP_BY_3("12", "288", "320", "352")       \
            : [a0] "+x"(s0_0), [a1] "+x"(s0_1), [a2] "+x"(s0_2), [b0] "+x"(s1_0), [b1] "+x"(s1_1),        \
              [b2] "+x"(s1_2), [c0] "+x"(s2_0), [c1] "+x"(s2_1), [c2] "+x"(s2_2), [d0] "+x"(s3_0),        \
              [d1] "+x"(s3_1), [d2] "+x"(s3_2)                                                            \
            : [x] "r"(xa), [w] "r"(w), [step] "r"(step), [step3] "r"(step3)                               \
            : "xmm12", "xmm13", "xmm14", "xmm15", "memory");
#endif
/* 10 sums, 3 weights and 3 inputs; for few bytes the counts that OUTER has. */
#ifdef BS_SMALL
#define BS_DEPTHWISE_PIXELS 14
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_14(M, 0)
#else
#define BS_DEPTHWISE_PIXELS 10
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0) M(9, 0) M(10, 0)
#endif
/* Keeps four weights in registers: left alone, GCC reads each from memory once for every pixel. */
#define BS_HOLD(a) __asm__("" : "+x"(a))
#define BS_HOLD4(a, b, c, d) __asm__("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d))
#define BS_POINTS_EIGHT
/* Two floats, over and over. Of each four lanes: the lower or upper two of a and b in turns, the even or odd ones of a
 * before those of b. */
#define BS_V_LOAD_TWO(p) bs_load_two_avx2(p)
#define BS_V_ZIP_LOW(a, b) _mm256_unpacklo_ps(a, b)
#define BS_V_ZIP_HIGH(a, b) _mm256_unpackhi_ps(a, b)
#define BS_V_EVEN(a, b) _mm256_shuffle_ps(a, b, 0x88)
#define BS_V_ODD(a, b) _mm256_shuffle_ps(a, b, 0xdd)
#define BS_DOT_UPTO(M) M(1, 0) M(2, 0)
#ifdef BS_SMALL
#define BS_DOT_PIXELS 2
#define BS_DOT_KERNELS(M) BS_DOT_UPTO(M)
#else
#define BS_DOT_THREE
#define BS_DOT_PIXELS 4
#define BS_DOT_KERNELS(M) BS_DOT_UPTO(M) M(3, 0) M(4, 0)
#endif

#define BS_V_SUM4(a, b, c, d) bs_sum4_avx2(a, b, c, d)
/* As in simd_avx512.h. */
#define BS_V_TURN(p, step, v) bs_turn_avx2(p, step, v)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_avx2(p)
#define BS_V_LOAD_U16(p) bs_load_u16_avx2(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_avx2(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_avx2(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_avx2(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_avx2(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_avx2(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_avx2(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_avx2(a, b)

#ifndef BS_SIMD_AVX2_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_AVX2_FUNCTIONS

static inline BS_TARGET __m256i bs_part_mask_avx2(int32_t part)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(part), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline BS_TARGET __m256 bs_load_part_avx2(const float *from, int32_t part)
{
    return part == BS_LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, bs_part_mask_avx2(part));
}

static inline BS_TARGET __m256 bs_load_two_avx2(const float *from)
{
    double two;
    memcpy(&two, from, sizeof two);
    return _mm256_castpd_ps(_mm256_set1_pd(two));
}

static inline BS_TARGET __m256 bs_load_filled_avx2(const float *from, int32_t part, float fill)
{
    const __m256i mask = bs_part_mask_avx2(part);
    return _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(from, mask), _mm256_castsi256_ps(mask));
}

/* Inline: of a function that takes a vector compilers leave the upper halves in use, and what follows it, compiled for
 * SSE, then takes many times as long. */
static inline BS_TARGET void bs_store_few_avx2(float *to, __m256 v, int32_t part)
{
    if (part == 4)
        _mm_storeu_ps(to, _mm256_castps256_ps128(v));
    else
        _mm256_maskstore_ps(to, bs_part_mask_avx2(part), v);
}

static inline BS_TARGET void bs_store_part_avx2(float *to, __m256 v, int32_t part)
{
    if (part == BS_LANES)
        _mm256_storeu_ps(to, v);
    else
        bs_store_few_avx2(to, v, part);
}

/* Four vectors -> the four sums of their lanes. */
static inline BS_TARGET __m128 bs_sum4_avx2(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 t = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    return _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
}

/* Lines 0 to 3 in the lower halves, 4 to 7 in the upper ones. */
static inline BS_INLINE BS_TARGET void bs_turn_avx2(const float *p, ptrdiff_t step, __m256 *v)
{
    __m256 line[4];
    for (int i = 0; i < 4; i++)
        line[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + i * step)),
                                       _mm_loadu_ps(p + (i + 4) * step), 1);
    const __m256 a = _mm256_unpacklo_ps(line[0], line[1]), b = _mm256_unpacklo_ps(line[2], line[3]);
    const __m256 c = _mm256_unpackhi_ps(line[0], line[1]), d = _mm256_unpackhi_ps(line[2], line[3]);
    v[0] = _mm256_shuffle_ps(a, b, 0x44);
    v[1] = _mm256_shuffle_ps(a, b, 0xee);
    v[2] = _mm256_shuffle_ps(c, d, 0x44);
    v[3] = _mm256_shuffle_ps(c, d, 0xee);
}

static inline BS_TARGET float bs_sum_avx2(__m256 v)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline BS_TARGET float bs_top_avx2(__m256 v)
{
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline BS_TARGET __m256 bs_load_u8_avx2(const uint8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
}

static inline BS_TARGET __m256 bs_load_u16_avx2(const uint16_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

/* Eight integers of at most 16 bits. */
static inline BS_TARGET __m128i bs_narrow_avx2(__m256i v)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline BS_TARGET void bs_store_u8_avx2(uint8_t *to, __m256 v)
{
    const __m128i codes = bs_narrow_avx2(_mm256_cvtps_epi32(v));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(codes, codes));
}

static inline BS_TARGET void bs_store_u16_avx2(uint16_t *to, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, bs_narrow_avx2(_mm256_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_pairs_u8_avx2(uint8_t *to, __m256 even, __m256 odd)
{
    const __m256i high = _mm256_slli_epi32(_mm256_cvttps_epi32(odd), 8);
    const __m256i pairs = _mm256_or_si256(_mm256_cvttps_epi32(even), high);
    _mm_storeu_si128((__m128i *)(void *)to, bs_narrow_avx2(pairs));
}

static inline BS_TARGET void bs_store_pairs_u16_avx2(uint16_t *to, __m256 even, __m256 odd)
{
    const __m256i high = _mm256_slli_epi32(_mm256_cvttps_epi32(odd), 16);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_or_si256(_mm256_cvttps_epi32(even), high));
}

static inline BS_TARGET void bs_store_pairs_f32_avx2(float *to, __m256 even, __m256 odd)
{
    const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + BS_LANES, _mm256_permute2f128_ps(low, high, 0x31));
}

static inline BS_TARGET __m256 bs_even_pairs_avx2(__m256 a, __m256 b)
{
    const __m256d pairs = _mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

static inline BS_TARGET __m256 bs_odd_pairs_avx2(__m256 a, __m256 b)
{
    const __m256d pairs = _mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

#endif
