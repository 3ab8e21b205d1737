/* functions.c: instantiates the rows of functions.inc and best.inc for every tier and dispatches to them.
 *
 * Owns:      the constants, what moves single elements to lanes and back, and the tables.
 * Relies on: functions.inc, best.inc and the simd_*.h.
 * Must never: put functions of two ops in one table: what no op of a build uses is left out of it.
 */
#include "kernels/functions.h"

#include <math.h>
#include <string.h>

#define BS_LOG2_E 1.44269504f
#define BS_LN2 0.69314718f
#define BS_LN2_HIGH 0.693359375f /* 9 digits */
#define BS_LN2_LOW (-2.12194440e-4f)
#define BS_FRACTION 1.17549421e-38f /* the bits of a fraction: 0x007fffff */
#define BS_EXPONENT_0 12583039.0f /* 1.5 * 2^23 + 127 */

/* Whether a row is worth its code twice, the second time for dense numbers: not in a small library (BS_SMALL). */
#ifdef BS_SMALL
#define BS_TWICE_PAYS false
#define BS_OR_NEAR(name) BS_TIER_FN(bs_##name)
#else
#define BS_TWICE_PAYS true
#define BS_OR_NEAR(name) BS_TIER_FN(bs_near_##name)
#endif

/* For its size GCC calls a function for each vector all the same, so that one loop serves all. */
#if defined(__OPTIMIZE_SIZE__) && !defined(__clang__) && !defined(BS_SMALL)
#define BS_ROWS_OF_ONE BS_OUTLINE
#else
#define BS_ROWS_OF_ONE inline BS_INLINE
#endif

#define BS_NEAR (-86.0f) /* e^x is a normal number from there on */
enum {
    BS_NEAR_VECTORS = 8, /* that are looked at together */
    BS_AHEAD = 1024      /* floats that are fetched before they are needed: no processor does so beyond its page */
};

enum { BS_SUM_VECTORS = 16 }; /* summed before their sum is added to that of the row */
#ifndef BS_SMALL
enum { BS_BEST_BLOCK = 512 }; /* elements among which the best is looked for; a multiple of all tiers' four vectors */
#endif

typedef void bs_function_row(const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step, int64_t n);
typedef int64_t bs_place_row(const float *x, int64_t n, bool least);
typedef void bs_lstm_row(const float *sums, const float *c, float *c_out, float *h_out, int64_t n);
typedef void bs_norm_row(const bs_row_norm *norm, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step);

/* From a row, of which n elements are left, to `count` lanes. */
static BS_OUTLINE void bs_take_lanes(float *lanes, int32_t count, const float *x, ptrdiff_t step, int64_t n, float fill)
{
    for (int32_t i = 0; i < count; i++)
        lanes[i] = i < n ? x[i * step] : fill;
}

static BS_OUTLINE void bs_give_lanes(const float *lanes, int32_t count, float *y, ptrdiff_t step, int64_t n)
{
    for (int32_t i = 0; i < count && i < n; i++)
        y[i * step] = lanes[i];
}

#if BS_HAVE_SCALAR_KERNELS
#include "kernels/simd_scalar.h"

#include "kernels/best.inc"
#include "kernels/functions.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_X86_TIERS
#include "kernels/simd_avx2.h"

#include "kernels/best.inc"
#include "kernels/functions.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_AVX512_TIER
#include "kernels/simd_avx512.h"

#include "kernels/best.inc"
#include "kernels/functions.inc"
#include "kernels/simd_end.h"
#endif

#if BS_HAVE_NEON_TIER
#include "kernels/simd_neon.h"

#include "kernels/best.inc"
#include "kernels/functions.inc"
#include "kernels/simd_end.h"
#endif

/* Of a function's copies the one of a tier. */
#if BS_HAVE_AVX512_TIER
#define BS_OF_TIER(tier, name) \
    ((tier) == BS_TIER_AVX512 ? name##_avx512 : (tier) == BS_TIER_AVX2 ? name##_avx2 : name##_scalar)
#elif BS_HAVE_X86_TIERS
#define BS_OF_TIER(tier, name) ((tier) == BS_TIER_AVX2 ? name##_avx2 : name##_scalar)
#elif !BS_HAVE_SCALAR_KERNELS
#define BS_OF_TIER(tier, name) ((void)(tier), name##_neon)
#elif BS_HAVE_NEON_TIER
#define BS_OF_TIER(tier, name) ((tier) == BS_TIER_NEON ? name##_neon : name##_scalar)
#else
#define BS_OF_TIER(tier, name) ((void)(tier), name##_scalar)
#endif

static bs_function_row *bs_function_of(bs_tier tier, bs_act act)
{
    if (act == BS_SIGMOID)
        return BS_OF_TIER(tier, bs_rows_sigmoid);
    if (act == BS_TANH)
        return BS_OF_TIER(tier, bs_rows_tanh);
    return act == BS_GELU ? BS_OF_TIER(tier, bs_rows_gelu) : BS_OF_TIER(tier, bs_rows_silu);
}

void bs_row_function(bs_tier tier, bs_act act, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step, int64_t n)
{
    bs_function_of(tier, act)(x, x_step, y, y_step, n);
}

void bs_row_unary(bs_tier tier, bs_unary_kind kind, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step,
                  int64_t n)
{
    bs_function_row *const row = kind == BS_UNARY_EXP   ? BS_OF_TIER(tier, bs_rows_exp)
                                 : kind == BS_UNARY_LOG ? BS_OF_TIER(tier, bs_rows_log)
                                                        : BS_OF_TIER(tier, bs_rows_erf);
    row(x, x_step, y, y_step, n);
}

void bs_row_softmax(bs_tier tier, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step, int64_t n)
{
    bs_function_row *const row = BS_OF_TIER(tier, bs_softmax);
    row(x, x_step, y, y_step, n);
}

#ifndef BS_SMALL
int64_t bs_row_place_of_best(bs_tier tier, const float *x, int64_t n, bool least)
{
    bs_place_row *const row = BS_OF_TIER(tier, bs_place_of_best);
    return row(x, n, least);
}
#endif

void bs_row_lstm(bs_tier tier, const float *sums, const float *c, float *c_out, float *h_out, int64_t n)
{
    bs_lstm_row *const row = BS_OF_TIER(tier, bs_lstm);
    row(sums, c, c_out, h_out, n);
}

void bs_row_normalise(bs_tier tier, const bs_row_norm *norm, const float *x, ptrdiff_t x_step, float *y,
                      ptrdiff_t y_step)
{
    bs_norm_row *const row = BS_OF_TIER(tier, bs_normalise);
    row(norm, x, x_step, y, y_step);
}
#undef BS_OF_TIER
#undef BS_OR_NEAR
#undef BS_TWICE_PAYS
#undef BS_ROWS_OF_ONE
