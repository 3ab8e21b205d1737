/* conv_avx512.c: the convolution kernels of one tier, AVX-512.
 *
 * Owns:      the tier's kernel table.
 * Relies on: the templates (*.inc) and simd_avx512.h.
 * Must never: contain arithmetic of its own: what differs between tiers is in simd_avx512.h.
 */
#include "kernels/conv_internal.h"
#include "kernels/conv_winograd.h"

#if BS_HAVE_AVX512_TIER
#include "kernels/simd_avx512.h"

#include "kernels/repeat.h"

#include "kernels/conv_finish.inc"
#include "kernels/gemm.inc"
#include "kernels/gemm_row.inc"
#if defined(BS_SMALL)
#include "kernels/conv_epilogue_plain.inc"
#include "kernels/conv_winograd_plain.inc"
#else
#include "kernels/conv_epilogue.inc"
#include "kernels/conv_winograd.inc"
#endif
#include "kernels/conv_outer.inc"
#include "kernels/conv_winograd_points.inc"
#include "kernels/conv_depthwise.inc"
#include "kernels/conv_winograd_weights.inc"
#include "kernels/conv_dot.inc"
#include "kernels/conv_across.inc"

static const bs_conv_kernels bs_conv_table_avx512 = BS_CONV_TABLE(BS_DOT_PIXELS, BS_TIER_FN(bs_conv_dot));

#include "kernels/simd_end.h"

const bs_conv_kernels *bs_conv_kernels_avx512(void)
{
    return &bs_conv_table_avx512;
}
#else
const bs_conv_kernels *bs_conv_kernels_avx512(void)
{
    return NULL;
}
#endif
