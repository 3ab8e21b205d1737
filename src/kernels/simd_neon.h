/* simd_neon.h: the vector vocabulary of the kernel templates, AArch64 Advanced SIMD.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_neon.c just before the templates.
 * Must never: be guarded against a second inclusion, or use what is not in the AArch64 baseline.
 */
#include <arm_neon.h>

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
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) vmaxq_f32(a, b)
#define BS_V_MIN(a, b) vminq_f32(a, b)

#define BS_V_QUAD float32x4_t
#define BS_V_QUAD_LOAD(p) vld1q_f32(p)
#define BS_V_QUAD_FMA(sum, w, quad, lane) vfmaq_laneq_f32(sum, w, quad, lane)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) bs_load_part_neon(p, part)
#define BS_V_STORE_PART(p, v, part) bs_store_part_neon(p, v, part)

static inline float32x4_t bs_load_part_neon(const float *from, int32_t part)
{
    if (part == BS_LANES)
        return vld1q_f32(from);
    float lanes[4] = { 0, 0, 0, 0 };
    for (int32_t i = 0; i < part; i++)
        lanes[i] = from[i];
    return vld1q_f32(lanes);
}

static inline void bs_store_part_neon(float *to, float32x4_t v, int32_t part)
{
    if (part == BS_LANES) {
        vst1q_f32(to, v);
        return;
    }
    float lanes[4];
    vst1q_f32(lanes, v);
    for (int32_t i = 0; i < part; i++)
        to[i] = lanes[i];
}

#define BS_OPAQUE(pointer) (void)(pointer)

/* 16 accumulators, 8 inputs and 2 weights of 32 registers. */
#define BS_OUTER_PIXELS_1 8
#define BS_OUTER_PIXELS_2 8
#define BS_OUTER_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_8(M, 2)
