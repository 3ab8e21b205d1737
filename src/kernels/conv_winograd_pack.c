/* conv_winograd_pack.c: canonical weights -> the points of F(4x4, 3x3).
 *
 * Owns:      which geometries Winograd serves, for which transformed weights are stored, and their transform.
 * Relies on: conv_winograd.h for the constants. Runs on any machine, like conv_pack.c, which describes the layout.
 * Must never: depend on anything but geometry and lanes: prepared records may be stored.
 */
#include "kernels/conv_internal.h"
#include "kernels/conv_winograd.h"

#if !defined(BS_NO_WINOGRAD)

bool bs_conv_winograd_fits(const bs_conv_geometry *g)
{
    return g->kernel_h == 3 && g->kernel_w == 3 && g->stride_h == 1 && g->stride_w == 1 &&
           g->dilation_h == 1 && g->dilation_w == 1 && g->groups == 1;
}

/* Transformed weights are four times as large. Up to 64 -> 64 channels that is little beside any network; above,
 * transforming them in each run costs less than a tenth of the products from some twenty tiles on. */
bool bs_conv_winograd_stores(const bs_conv_geometry *g)
{
    return (int64_t)g->in_channels * g->out_channels <= 64 * 64;
}

/* G w G^T: all points of one kernel, to `to[point * step]`. */
static void bs_conv_winograd_kernel(const float *w, ptrdiff_t step, float *to)
{
    const double (*g)[3] = bs_conv_winograd_g;
    for (int32_t y = 0; y < BS_WINOGRAD_IN; y++) {
        double row[3];
        for (int32_t x = 0; x < 3; x++)
            row[x] = g[y][0] * (double)w[x] + g[y][1] * (double)w[3 + x] + g[y][2] * (double)w[6 + x];
        for (int32_t x = 0; x < BS_WINOGRAD_IN; x++, to += step)
            *to = (float)(row[0] * g[x][0] + row[1] * g[x][1] + row[2] * g[x][2]);
    }
}

void bs_conv_winograd_pack(const float *weights, int32_t out, int32_t in, int32_t width, ptrdiff_t step, float *to)
{
    for (int32_t o = 0; o < out; o++)
        for (ptrdiff_t i = 0; i < in; i++, weights += BS_WINOGRAD_TAPS)
            bs_conv_winograd_kernel(weights, step, to + i * width + o);
}
#endif
