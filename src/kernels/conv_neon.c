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

#if defined(__OPTIMIZE_SIZE__)
#include "kernels/conv_epilogue_plain.inc"
#include "kernels/conv_winograd_plain.inc"
#else
#include "kernels/conv_epilogue.inc"
#include "kernels/conv_winograd.inc"
#endif
#include "kernels/conv_outer.inc"
#include "kernels/conv_depthwise.inc"

static const bs_conv_kernels bs_conv_table_neon = {
    .lanes = BS_LANES,
    .outer_pixels = { 0, BS_OUTER_PIXELS_1, BS_OUTER_PIXELS_2 },
    .outer = { NULL, BS_TIER_FN(bs_conv_outer_1), BS_TIER_FN(bs_conv_outer_2) },
    .dot_pixels = 0,
    .dot = NULL,
    .depthwise_pixels = BS_DEPTHWISE_PIXELS,
    .depthwise = BS_TIER_FN(bs_conv_depthwise),
    .winograd_in = BS_WINOGRAD_FN(bs_conv_winograd_in),
    .winograd_out = BS_WINOGRAD_FN(bs_conv_winograd_out),
};

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
