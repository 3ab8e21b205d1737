/* naive_images.h - ops of images as their definition reads: a part of the oracle (naive.h). */
#ifndef BS_TEST_NAIVE_IMAGES_H
#define BS_TEST_NAIVE_IMAGES_H

#include "naive_weights.h"

/* A field's own number, or what it defaults to. */
static inline int32_t naive_first(int32_t own, int32_t both, int32_t otherwise)
{
    return own ? own : both ? both : otherwise;
}

static inline void naive_conv(naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_conv2d_desc *p = node->params;
    const int32_t in = bs_node_in(n->g, node)[0], out = node->first_out;
    const int64_t c = naive_dim(n, in, 0), h = naive_dim(n, in, 1), w = naive_dim(n, in, 2);
    const int64_t oh = naive_dim(n, out, 1), ow = naive_dim(n, out, 2);
    const int32_t square = bs_or_default(p->kernel, 3), kh = bs_or_default(p->kernel_h, square),
                  kw = bs_or_default(p->kernel_w, square);
    const int32_t step[2] = {naive_first(p->stride_h, p->stride, 1), naive_first(p->stride_w, p->stride, 1)};
    const int32_t apart[2] = {naive_first(p->dilation_h, p->dilation, 1), naive_first(p->dilation_w, p->dilation, 1)};
    const bool same = p->padding == BS_PAD_DEFAULT;
    const int32_t top = same ? apart[0] * (kh - 1) / 2 : bs_or_default(p->pad_top, p->pad),
                  left = same ? apart[1] * (kw - 1) / 2 : bs_or_default(p->pad_left, p->pad);
    const size_t mark = n->used;
    double *weight = naive_take(n, (size_t)(p->out * c * kh * kw) * sizeof *weight);
    naive_weights(n, p->name, "weight", weight, p->out * c * kh * kw);
    for (int64_t o = 0; o < p->out; o++) {
        const double bias = p->no_bias ? 0 : naive_weight(n, p->name, "bias", o);
        for (int64_t oy = 0; oy < oh; oy++)
            for (int64_t ox = 0; ox < ow; ox++) {
                const double *of = weight + o * c * kh * kw;
                double sum = bias;
                for (int64_t i = 0; i < c * kh; i++, of += kw) {
                    const int64_t iy = oy * step[0] - top + i % kh * apart[0];
                    for (int64_t kx = 0, ix = ox * step[1] - left; kx < kw && iy >= 0 && iy < h; kx++, ix += apart[1])
                        if (ix >= 0 && ix < w)
                            sum += x[(i / kh * h + iy) * w + ix] * of[kx];
                }
                y[(o * oh + oy) * ow + ox] = naive_act(p->act, p->act_param, sum);
            }
    }
    n->used = mark;
}

/* Maxima or means of windows clipped to the frame, or of the core. */
static inline void naive_pool2d(const naive *n, const bs_node *node, int32_t row, const double *x, double *y)
{
    const bs_pool2d_desc *p = node->params;
    const int32_t in = bs_node_in(n->g, node)[0], out = node->first_out;
    const int64_t h = naive_dim(n, in, 1), w = naive_dim(n, in, 2);
    const int32_t k[2] = {naive_first(p->kernel_h, p->kernel, 2), naive_first(p->kernel_w, p->kernel, 2)};
    const int32_t step[2] = {naive_first(p->stride_h, p->stride, k[0]), naive_first(p->stride_w, p->stride, k[1])};
    const int32_t dy = p->global ? 1 : naive_first(p->dilation_h, 0, 1),
                  dx = p->global ? 1 : naive_first(p->dilation_w, 0, 1);
    const naive_box core = naive_core(n, in, row);
    const int64_t oh = p->global ? 1 : naive_dim(n, out, 1), ow = p->global ? 1 : naive_dim(n, out, 2);
    for (int64_t i = 0; i < naive_dim(n, in, 0) * oh * ow; i++) {
        const int64_t oy = i / ow % oh, ox = i % ow, c = i / ow / oh;
        const int64_t y0 = p->global ? core.y : oy * step[0] - naive_first(p->pad_top, p->pad, 0),
                      x0 = p->global ? core.x : ox * step[1] - naive_first(p->pad_left, p->pad, 0);
        const int64_t kh = p->global ? core.h : k[0], kw = p->global ? core.w : k[1];
        double best = -INFINITY, sum = 0;
        int64_t count = 0;
        for (int64_t ky = y0; ky < y0 + kh * dy; ky += dy)
            for (int64_t kx = x0; kx < x0 + kw * dx; kx += dx)
                if (ky >= 0 && ky < h && kx >= 0 && kx < w) {
                    best = x[(c * h + ky) * w + kx] > best ? x[(c * h + ky) * w + kx] : best;
                    sum += x[(c * h + ky) * w + kx];
                    count++;
                }
        /* a cell without pixels, a window without any in the frame: 0 */
        y[i] = count == 0 ? 0 : p->kind == BS_POOL_MAX ? best : sum / (double)count;
    }
}

/* Sample [c, y, x] of the smaller image of a shuffle or resize belongs to r x r of the larger. */
static inline void naive_enlarge(const naive *n, const bs_node *node, const char *op, const double *x, double *y)
{
    const int32_t in = bs_node_in(n->g, node)[0], out = node->first_out;
    const bs_resize_desc *resize = node->params;
    const int32_t den = naive_named(op, "resize") ? bs_or_default(resize->den, 1) : 1;
    const int32_t r = naive_named(op, "resize") ? bs_or_default(resize->factor, 2)
                                                : ((const struct {
                                                       const char *name;
                                                       int32_t r;
                                                   } *)node->params)
                                                      ->r;
    const int64_t h = naive_dim(n, in, 1), w = naive_dim(n, in, 2), oh = naive_dim(n, out, 1),
                  ow = naive_dim(n, out, 2);
    for (int64_t i = 0; i < naive_elements(n, out); i++) {
        const int64_t c = i / ow / oh, oy = i / ow % oh, ox = i % ow;
        if (naive_named(op, "resize"))
            y[i] = x[(c * h + (2 * oy + 1) * den / (2 * r)) * w + (2 * ox + 1) * den / (2 * r)];
        else if (naive_named(op, "pixel_shuffle"))
            y[i] = x[((c * r * r + oy % r * r + ox % r) * h + oy / r) * w + ox / r];
        else
            y[i] = x[(c / (r * r) * h + oy * r + c / r % r) * w + ox * r + c % r];
    }
}

#endif
