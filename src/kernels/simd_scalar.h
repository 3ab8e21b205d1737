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

#define BS_V_ZERO() ((BS_V){ 0, 0, 0, 0 })
#define BS_V_SET1(x) ((BS_V){ x, x, x, x })
#define BS_V_LOAD(p) bs_load_scalar(p)
#define BS_V_STORE(p, v) memcpy(p, &(v), sizeof(BS_V))
#define BS_V_ADD(a, b) ((a) + (b))
#define BS_V_SUB(a, b) ((a) - (b))
#define BS_V_MUL(a, b) ((a) * (b))
#define BS_V_FMA(a, b, c) ((a) * (b) + (c))
#define BS_V_FNMA(a, b, c) ((c) - (a) * (b))
/* When one operand is NaN, the second one is returned: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) bs_select_scalar((bs_m4_scalar)((a) > (b)), a, b)
#define BS_V_MIN(a, b) bs_select_scalar((bs_m4_scalar)((a) < (b)), a, b)
#define BS_V_LARGER(a, b) BS_V_MAX(a, b)

/* As in simd_avx512.h. */
#define BS_V_DIV(a, b) ((a) / (b))
#define BS_V_AND(a, b) ((bs_v4_scalar)((bs_u4_scalar)(a) & (bs_u4_scalar)(b)))
#define BS_V_OR(a, b) ((bs_v4_scalar)((bs_u4_scalar)(a) | (bs_u4_scalar)(b)))
#define BS_V_XOR(a, b) ((bs_v4_scalar)((bs_u4_scalar)(a) ^ (bs_u4_scalar)(b)))
#define BS_V_POWER2(t) ((bs_v4_scalar)((bs_u4_scalar)(t) << 23))
#define BS_V_IF_LESS(a, b, yes, no) bs_select_scalar((bs_m4_scalar)((a) < (b)), yes, no)
#define BS_V_BITS_23(v) ((bs_v4_scalar)((bs_u4_scalar)(v) >> 23))
#define BS_V_SQUARE_REST(a, square) bs_square_rest_scalar(a, square)
#define BS_V_TOP(v) bs_top_scalar(v)
#define BS_V_TURN(p, step, v) bs_turn_scalar(p, step, v)
#define BS_V_SUM(v) (((v)[0] + (v)[2]) + ((v)[1] + (v)[3]))

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) ((part) == BS_LANES ? bs_load_scalar(p) : bs_load_few_scalar(p, part))
#define BS_V_STORE_PART(p, v, part) bs_store_part_scalar(p, v, part)

#define BS_OPAQUE(pointer) (void)(pointer)
#define BS_HOLD(a) (void)(a)

/* In a small library (BS_SMALL) with another tier this one is only compared with: one pixel at a time. */
#if defined(BS_SMALL) && BS_HAVE_X86_TIERS
#define BS_OUTER_PIXELS_1 1
#define BS_OUTER_PIXELS_2 1
#define BS_OUTER_UPTO_1(M) M(1, 1)
#define BS_OUTER_UPTO_2(M) M(1, 2)
#define BS_GEMM_ROWS_1 1
#define BS_GEMM_ROWS_2 1
#define BS_GEMM_ROWS_3 1
#define BS_GEMM_UPTO_1(M) M(1, 1)
#define BS_GEMM_UPTO_2(M) M(1, 2)
#define BS_GEMM_UPTO_3(M) M(1, 3)
#define BS_DEPTHWISE_PIXELS 1
#define BS_DEPTHWISE_UPTO(M) M(1, 0)
#else
#define BS_OUTER_PIXELS_1 5
#define BS_OUTER_PIXELS_2 4
#define BS_OUTER_UPTO_1(M) BS_UPTO_5(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_4(M, 2)
#define BS_GEMM_ROWS_1 2
#define BS_GEMM_ROWS_2 2
#define BS_GEMM_ROWS_3 2
#define BS_GEMM_UPTO_1(M) M(1, 1) M(2, 1)
#define BS_GEMM_UPTO_2(M) M(1, 2) M(2, 2)
#define BS_GEMM_UPTO_3(M) M(1, 3) M(2, 3)
#define BS_DEPTHWISE_PIXELS 4
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_4(M, 0)
#endif

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_scalar(p)
#define BS_V_LOAD_U16(p) bs_load_u16_scalar(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_scalar(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_scalar(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_scalar(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_scalar(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_scalar(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_scalar(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_scalar(a, b)

#ifndef BS_SIMD_SCALAR_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_SCALAR_FUNCTIONS

typedef float bs_v4_scalar __attribute__((vector_size(16)));
typedef int32_t bs_m4_scalar __attribute__((vector_size(16)));
typedef uint32_t bs_u4_scalar __attribute__((vector_size(16)));

static inline bs_v4_scalar bs_load_scalar(const float *from)
{
    bs_v4_scalar v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* Up to three floats, one by one: of a loop some compilers make a call of memcpy(), before which every kernel would
 * have to put its registers away. */
static BS_OUTLINE bs_v4_scalar bs_load_few_scalar(const float *from, int32_t part)
{
    return (bs_v4_scalar){ part > 0 ? from[0] : 0, part > 1 ? from[1] : 0, part > 2 ? from[2] : 0, 0 };
}

static BS_OUTLINE void bs_store_few_scalar(float *to, bs_v4_scalar v, int32_t part)
{
    if (part > 0)
        to[0] = v[0];
    if (part > 1)
        to[1] = v[1];
    if (part > 2)
        to[2] = v[2];
}

static inline void bs_store_part_scalar(float *to, bs_v4_scalar v, int32_t part)
{
    if (part == BS_LANES)
        memcpy(to, &v, sizeof v);
    else
        bs_store_few_scalar(to, v, part);
}

static inline bs_v4_scalar bs_select_scalar(bs_m4_scalar which, bs_v4_scalar yes, bs_v4_scalar no)
{
    return (bs_v4_scalar)((which & (bs_m4_scalar)yes) | (~which & (bs_m4_scalar)no));
}

/* Of 0 <= a <= 16, without a fused product: the square of a rounded to 2^-6 is exact. */
static inline bs_v4_scalar bs_square_rest_scalar(bs_v4_scalar a, bs_v4_scalar square)
{
    const bs_v4_scalar big = { 196608.0f, 196608.0f, 196608.0f, 196608.0f }; /* 1.5 * 2^17 */
    const bs_v4_scalar head = (a + big) - big;
    return (square - head * head) - (a + head) * (a - head);
}

static inline float bs_top_scalar(bs_v4_scalar v)
{
    const float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
}

static inline bs_v4_scalar bs_load_u8_scalar(const uint8_t *from)
{
    return (bs_v4_scalar){ (float)from[0], (float)from[1], (float)from[2], (float)from[3] };
}

static inline bs_v4_scalar bs_load_u16_scalar(const uint16_t *from)
{
    return (bs_v4_scalar){ (float)from[0], (float)from[1], (float)from[2], (float)from[3] };
}

static inline void bs_turn_scalar(const float *p, ptrdiff_t step, bs_v4_scalar *v)
{
    for (int32_t i = 0; i < 4; i++)
        v[i] = (bs_v4_scalar){ p[i], p[step + i], p[2 * step + i], p[3 * step + i] };
}

/* To nearest even: adding 2^23 leaves no room for a fraction. */
static inline bs_v4_scalar bs_round_scalar(bs_v4_scalar v)
{
    const bs_v4_scalar big = { 8388608.0f, 8388608.0f, 8388608.0f, 8388608.0f };
    return (v + big) - big;
}

static inline void bs_store_u8_scalar(uint8_t *to, bs_v4_scalar v)
{
    v = bs_round_scalar(v);
    for (int32_t i = 0; i < 4; i++)
        to[i] = (uint8_t)(int32_t)v[i];
}

static inline void bs_store_u16_scalar(uint16_t *to, bs_v4_scalar v)
{
    v = bs_round_scalar(v);
    for (int32_t i = 0; i < 4; i++)
        to[i] = (uint16_t)(int32_t)v[i];
}

static inline void bs_store_pairs_u8_scalar(uint8_t *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = (uint8_t)(int32_t)even[i];
        to[2 * i + 1] = (uint8_t)(int32_t)odd[i];
    }
}

static inline void bs_store_pairs_u16_scalar(uint16_t *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = (uint16_t)(int32_t)even[i];
        to[2 * i + 1] = (uint16_t)(int32_t)odd[i];
    }
}

static inline void bs_store_pairs_f32_scalar(float *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = even[i];
        to[2 * i + 1] = odd[i];
    }
}

static inline bs_v4_scalar bs_even_pairs_scalar(bs_v4_scalar a, bs_v4_scalar b)
{
    return (bs_v4_scalar){ a[0], a[1], b[0], b[1] };
}

static inline bs_v4_scalar bs_odd_pairs_scalar(bs_v4_scalar a, bs_v4_scalar b)
{
    return (bs_v4_scalar){ a[2], a[3], b[2], b[3] };
}

#endif
