/* conv_neon.c: the convolution kernels of one tier, AArch64 Advanced SIMD.
 *
 * Owns:      the tier's kernel table.
 * Relies on: the templates (*.inc) and simd_neon.h.
 * Must never: contain arithmetic of its own: what differs between tiers is in simd_neon.h.
 */
#include "kernels/conv_internal.h"
#include "kernels/conv_winograd.h"

#if BS_HAVE_NEON_TIER
#include "kernels/simd_neon.h"

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
#include "kernels/conv_across.inc"

static const bs_conv_kernels bs_conv_table_neon = BS_CONV_TABLE(0, NULL);

#include "kernels/simd_end.h"

const bs_conv_kernels *bs_conv_kernels_neon(void)
{
    return &bs_conv_table_neon;
}
#else
const bs_conv_kernels *bs_conv_kernels_neon(void)
{
    return NULL;
}
#endif
