/* simd_neon.h: the vector vocabulary of the kernel templates, AArch64 Advanced SIMD.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_neon.c just before the templates.
 * Must never: be guarded against a second inclusion, or use what is not in the AArch64 baseline.
 */
#include <arm_neon.h>
#include <string.h>

#define BS_TIER_FN(name) name##_neon
#define BS_TARGET
#define BS_LANES 4
#define BS_V float32x4_t
#define BS_V_ZERO() vdupq_n_f32(0)
#define BS_V_SET1(x) vdupq_n_f32(x)
#define BS_V_LOAD(p) vld1q_f32(p)
#define BS_V_STORE(p, v) vst1q_f32(p, v)
#define BS_V_ADD(a, b) vaddq_f32(a, b)
#define BS_V_SUB(a, b) vsubq_f32(a, b)
#define BS_V_MUL(a, b) vmulq_f32(a, b)
#define BS_V_FMA(a, b, c) vfmaq_f32(c, a, b)  /* a * b + c */
#define BS_V_FNMA(a, b, c) vfmsq_f32(c, a, b) /* c - a * b */
/* NaN where either operand is NaN: MAX(low, v) keeps a NaN v. Conversion to an integer makes it 0. */
#define BS_V_MAX(a, b) vmaxq_f32(a, b)
#define BS_V_MIN(a, b) vminq_f32(a, b)
#define BS_V_LARGER(a, b) bs_larger_neon(a, b)

/* As in simd_avx512.h. */
#define BS_V_DIV(a, b) vdivq_f32(a, b)
#define BS_V_AND(a, b) vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)))
#define BS_V_OR(a, b) vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)))
#define BS_V_XOR(a, b) vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)))
#define BS_V_POWER2(t) vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23))
#define BS_V_IF_LESS(a, b, yes, no) vbslq_f32(vcltq_f32(a, b), yes, no)
#define BS_V_BITS_23(v) vreinterpretq_f32_u32(vshrq_n_u32(vreinterpretq_u32_f32(v), 23))
#define BS_V_SQUARE_REST(a, square) BS_V_FNMA(a, a, square)
#define BS_V_TOP(v) vmaxvq_f32(v)
#define BS_V_SUM(v) vaddvq_f32(v)

#define BS_V_TURN(p, step, v) bs_turn_neon(p, step, v)

#define BS_V_QUAD float32x4_t
#define BS_V_QUAD_LOAD(p) vld1q_f32(p)
#define BS_V_QUAD_FMA(sum, w, quad, lane) vfmaq_laneq_f32(sum, w, quad, lane)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) bs_load_part_neon(p, part)
#define BS_V_STORE_PART(p, v, part) bs_store_part_neon(p, v, part)
#define BS_PART_IS_SLOW /* a call, lane by lane */

#define BS_OPAQUE(pointer) (void)(pointer)
#define BS_HOLD(a) (void)(a)

/* 16 accumulators, 8 inputs and 2 weights of 32 registers; for few bytes what is left of 8 goes one by one. */
#define BS_OUTER_PIXELS_1 8
#define BS_OUTER_PIXELS_2 8
#ifdef BS_SMALL
#define BS_OUTER_UPTO_1(M) M(1, 1) M(8, 1)
#define BS_OUTER_UPTO_2(M) M(1, 2) M(8, 2)
#define BS_DEPTHWISE_UPTO(M) M(1, 0) M(8, 0)
#else
#define BS_OUTER_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_8(M, 2)
#define BS_ACROSS_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_ACROSS_UPTO_2(M) BS_UPTO_8(M, 2)
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0)
#endif
/* Of three vectors 18 sums, 6 inputs and 3 vectors of weights of 32 registers; for few bytes 12 and 4. */
#ifdef BS_SMALL
#define BS_GEMM_ROWS_1 4
#define BS_GEMM_ROWS_2 4
#define BS_GEMM_ROWS_3 4
#define BS_GEMM_UPTO_1(M) BS_UPTO_4(M, 1)
#define BS_GEMM_UPTO_2(M) BS_UPTO_4(M, 2)
#define BS_GEMM_UPTO_3(M) BS_UPTO_4(M, 3)
#else
#define BS_GEMM_ROWS_1 8
#define BS_GEMM_ROWS_2 8
#define BS_GEMM_ROWS_3 6
#define BS_GEMM_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_GEMM_UPTO_2(M) BS_UPTO_8(M, 2)
#define BS_GEMM_UPTO_3(M) BS_UPTO_6(M, 3)
#define BS_GEMM_WIDE
#endif
#define BS_DEPTHWISE_PIXELS 8

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_neon(p)
#define BS_V_LOAD_U16(p) bs_load_u16_neon(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_neon(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_neon(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_neon(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_neon(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_neon(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_neon(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_neon(a, b)

#ifndef BS_SIMD_NEON_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_NEON_FUNCTIONS

/* Up to three floats, lane by lane: of a loop some compilers make a call of memcpy(), before which every kernel would
 * have to put its registers away. */
static BS_OUTLINE float32x4_t bs_load_few_neon(const float *from, int32_t part)
{
    float32x4_t v = vdupq_n_f32(0);
    if (part > 0)
        v = vld1q_lane_f32(from, v, 0);
    if (part > 1)
        v = vld1q_lane_f32(from + 1, v, 1);
    if (part > 2)
        v = vld1q_lane_f32(from + 2, v, 2);
    return v;
}

static BS_OUTLINE void bs_store_few_neon(float *to, float32x4_t v, int32_t part)
{
    if (part > 0)
        vst1q_lane_f32(to, v, 0);
    if (part > 1)
        vst1q_lane_f32(to + 1, v, 1);
    if (part > 2)
        vst1q_lane_f32(to + 2, v, 2);
}

static inline float32x4_t bs_load_part_neon(const float *from, int32_t part)
{
    return part == BS_LANES ? vld1q_f32(from) : bs_load_few_neon(from, part);
}

static inline void bs_store_part_neon(float *to, float32x4_t v, int32_t part)
{
    if (part == BS_LANES)
        vst1q_f32(to, v);
    else
        bs_store_few_neon(to, v, part);
}

static inline BS_INLINE void bs_turn_neon(const float *p, ptrdiff_t step, float32x4_t *v)
{
    const float32x4x2_t a = vtrnq_f32(vld1q_f32(p), vld1q_f32(p + step));
    const float32x4x2_t b = vtrnq_f32(vld1q_f32(p + 2 * step), vld1q_f32(p + 3 * step));
    v[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    v[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    v[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    v[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

static inline float32x4_t bs_larger_neon(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static inline float32x4_t bs_load_u8_neon(const uint8_t *from)
{
    uint32_t four;
    memcpy(&four, from, 4);
    const uint16x8_t wide = vmovl_u8(vcreate_u8(four));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}

static inline float32x4_t bs_load_u16_neon(const uint16_t *from)
{
    return vcvtq_f32_u32(vmovl_u16(vld1_u16(from)));
}

/* The low bytes of eight 16-bit integers, of which the first four count. */
static inline void bs_store_low_neon(uint8_t *to, uint16x4_t codes)
{
    const uint8x8_t bytes = vmovn_u16(vcombine_u16(codes, codes));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
    memcpy(to, &four, 4);
}

static inline void bs_store_u8_neon(uint8_t *to, float32x4_t v)
{
    bs_store_low_neon(to, vmovn_u32(vcvtnq_u32_f32(v)));
}

static inline void bs_store_u16_neon(uint16_t *to, float32x4_t v)
{
    vst1_u16(to, vmovn_u32(vcvtnq_u32_f32(v)));
}

static inline void bs_store_pairs_u8_neon(uint8_t *to, float32x4_t even, float32x4_t odd)
{
    const uint32x4_t pairs = vorrq_u32(vcvtq_u32_f32(even), vshlq_n_u32(vcvtq_u32_f32(odd), 8));
    vst1_u8(to, vreinterpret_u8_u16(vmovn_u32(pairs)));
}

static inline void bs_store_pairs_u16_neon(uint16_t *to, float32x4_t even, float32x4_t odd)
{
    const uint32x4_t pairs = vorrq_u32(vcvtq_u32_f32(even), vshlq_n_u32(vcvtq_u32_f32(odd), 16));
    vst1q_u16(to, vreinterpretq_u16_u32(pairs));
}

static inline void bs_store_pairs_f32_neon(float *to, float32x4_t even, float32x4_t odd)
{
    vst1q_f32(to, vzip1q_f32(even, odd));
    vst1q_f32(to + BS_LANES, vzip2q_f32(even, odd));
}

static inline float32x4_t bs_even_pairs_neon(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_low_f32(a), vget_low_f32(b));
}

static inline float32x4_t bs_odd_pairs_neon(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_high_f32(a), vget_high_f32(b));
}

#endif
