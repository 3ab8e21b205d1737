/* simd_scalar.h: the vector vocabulary of the kernel templates in portable C.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: GCC's vector types, which the compiler lowers to whatever the build's baseline has
 *            (SSE2, NEON, or plain floats on a microcontroller).
 * Must never: be guarded against a second inclusion.
 */
#include <string.h>

#define BS_TIER_FN(name) name##_scalar
#define BS_TARGET
#define BS_LANES 4
#define BS_V bs_v4_scalar

typedef float bs_v4_scalar __attribute__((vector_size(16)));
typedef int32_t bs_m4_scalar __attribute__((vector_size(16)));

static inline bs_v4_scalar bs_load_scalar(const float *from, int32_t part)
{
    bs_v4_scalar v = { 0, 0, 0, 0 };
    memcpy(&v, from, (size_t)part * sizeof(float));
    return v;
}

static inline bs_v4_scalar bs_select_scalar(bs_m4_scalar which, bs_v4_scalar yes, bs_v4_scalar no)
{
    return (bs_v4_scalar)((which & (bs_m4_scalar)yes) | (~which & (bs_m4_scalar)no));
}

#define BS_V_ZERO() ((BS_V){ 0, 0, 0, 0 })
#define BS_V_SET1(x) ((BS_V){ x, x, x, x })
#define BS_V_LOAD(p) bs_load_scalar(p, 4)
#define BS_V_STORE(p, v) memcpy(p, &(v), sizeof(BS_V))
#define BS_V_ADD(a, b) ((a) + (b))
#define BS_V_SUB(a, b) ((a) - (b))
#define BS_V_MUL(a, b) ((a) * (b))
#define BS_V_FMA(a, b, c) ((a) * (b) + (c))
#define BS_V_FNMA(a, b, c) ((c) - (a) * (b))
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) bs_select_scalar((bs_m4_scalar)((a) > (b)), a, b)
#define BS_V_MIN(a, b) bs_select_scalar((bs_m4_scalar)((a) < (b)), a, b)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) ((part) == 4 ? bs_load_scalar(p, 4) : bs_load_scalar(p, part))
#define BS_V_STORE_PART(p, v, part) memcpy(p, &(v), (size_t)(part) * sizeof(float))

#define BS_OPAQUE(pointer) (void)(pointer)

#define BS_OUTER_PIXELS_1 8
#define BS_OUTER_PIXELS_2 4
#define BS_OUTER_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_4(M, 2)
