/* conv_winograd_pack.c: canonical weights -> the points of F(4x4, 3x3).
 *
 * Owns:      which geometries Winograd serves, and the transform of weights.
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

/* G of the points 0, a, -a, b, -b, infinity: row p is (1, p, p^2) / product of (p - q) over the other finite
 * points q. The last row is over a^3, which the output's factor a^3 gives back (conv_winograd.inc). */
static void bs_conv_winograd_g(double g[BS_WINOGRAD_IN][3])
{
    const double a = (double)BS_WINOGRAD_A, b = (double)BS_WINOGRAD_B;
    const double points[5] = { 0, a, -a, b, -b };
    for (int32_t i = 0; i < 5; i++) {
        double product = 1;
        for (int32_t k = 0; k < 5; k++)
            product *= k == i ? 1 : points[i] - points[k];
        g[i][0] = 1 / product;
        g[i][1] = points[i] / product;
        g[i][2] = points[i] * points[i] / product;
    }
    g[5][0] = g[5][1] = 0;
    g[5][2] = 1 / (a * a * a);
}

/* G w G^T: all points of one kernel, to `to[point * step]`. */
static void bs_conv_winograd_kernel(double g[BS_WINOGRAD_IN][3], const float *w, ptrdiff_t step, float *to)
{
    for (int32_t y = 0; y < BS_WINOGRAD_IN; y++) {
        double row[3];
        for (int32_t x = 0; x < 3; x++)
            row[x] = g[y][0] * (double)w[x] + g[y][1] * (double)w[3 + x] + g[y][2] * (double)w[6 + x];
        for (int32_t x = 0; x < BS_WINOGRAD_IN; x++, to += step)
            *to = (float)(row[0] * g[x][0] + row[1] * g[x][1] + row[2] * g[x][2]);
    }
}

void bs_conv_winograd_pack(const float *weights, int32_t out, int32_t in, int32_t lanes, float *to)
{
    double g[BS_WINOGRAD_IN][3];
    bs_conv_winograd_g(g);
    const ptrdiff_t step = (ptrdiff_t)in * bs_conv_round_up(out, lanes); /* floats a point */
    for (int32_t first = 0; first < out;) {
        const int32_t width = out - first > lanes ? 2 * lanes : lanes;
        for (int32_t i = 0; i < in; i++)
            for (ptrdiff_t o = first; o < first + width; o++, to++) {
                if (o < out)
                    bs_conv_winograd_kernel(g, weights + (o * in + i) * 9, step, to);
                for (int32_t point = 0; o >= out && point < BS_WINOGRAD_POINTS; point++)
                    to[point * step] = 0.0f;
            }
        first += width;
    }
}
#endif
