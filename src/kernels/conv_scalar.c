/* conv_scalar.c: the convolution kernels of one tier, portable C.
 *
 * Owns:      the tier's kernel table.
 * Relies on: the templates (*.inc) and simd_scalar.h. Of two templates it takes the plain ones: this tier is in every
 *            build but one (tier.h) and runs only where no other does, so it should be small; its bits are those of
 *            the unrolled ones.
 * Must never: contain arithmetic of its own: what differs between tiers is in simd_scalar.h.
 */
#include "kernels/conv_internal.h"
#include "kernels/conv_winograd.h"

#if BS_HAVE_SCALAR_KERNELS
#include "kernels/simd_scalar.h"

#include "kernels/repeat.h"

#include "kernels/conv_finish.inc"
#include "kernels/conv_epilogue_plain.inc"
#include "kernels/gemm.inc"
#include "kernels/gemm_row.inc"
#include "kernels/conv_outer.inc"
#define BS_POINTS_KERNELS
#define BS_ACROSS_KERNELS
#include "kernels/conv_depthwise.inc"
#include "kernels/conv_winograd_weights.inc"
#include "kernels/conv_winograd_plain.inc"

static const bs_conv_kernels bs_conv_table_scalar = BS_CONV_TABLE(0, NULL);

#include "kernels/simd_end.h"

const bs_conv_kernels *bs_conv_kernels_scalar(void)
{
    return &bs_conv_table_scalar;
}
#else
const bs_conv_kernels *bs_conv_kernels_scalar(void)
{
    return bs_conv_kernels_neon();
}
#endif
