/* op_deconv.cuh - deconv2d: a convolution, as op_conv_direct.cuh does it, for each phase of the stride.
 * Relies on op_conv_direct.cuh and on the layouts that deconv2d packs. Must never let the order of a sum depend
 * on where a pixel stands or on the cut. */
#ifndef BS_CUDA_OP_DECONV
#define BS_CUDA_OP_DECONV

#include "cuda/op_conv_direct.cuh"

/* -------------------------------------------------------------------------------------------- the host's side */

/* Floats of the packed phases before number `phase`. */
__host__ __device__ static inline int64_t bs_cu_deconv_packed(int32_t kernel, int32_t stride, int32_t in_c,
                                                              int32_t out_c, int32_t phase)
{
    int64_t floats = 0;
    for (int32_t k = 0; k < phase; k++) {
        const int32_t taps = bs_deconv2d_taps(kernel, stride, k / stride) *
                             bs_deconv2d_taps(kernel, stride, k % stride);
        floats += ((int64_t)taps * in_c * ((out_c + 3) / 4 * 4) + 15) / 16 * 16;
    }
    return floats;
}

/* p as for conv2d: the kernel's size and the padding are the descriptor's, all else is that of a phase. */
static void bs_cu_deconv2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_deconv2d_desc *d = static_cast<const bs_deconv2d_desc *>(n->params);
    const bs_deconv2d_form f = bs_deconv2d_form_of(d, n->in[0].dim[0]);
    const int32_t kernel = f.kernel, stride = f.stride, in_c = f.in;
    const bool reference = n->np->algorithm != BS_CONV_DIRECT;
    int64_t h, w;
    memset(s->p, 0, sizeof s->p);
    bs_cu_conv_extent(&n->out[0], &h, &w);
    /* of the largest phase */
    s->p[BS_CU_CONV_KERNEL_H].i = s->p[BS_CU_CONV_KERNEL_W].i = bs_deconv2d_taps(kernel, stride, 0);
    s->p[BS_CU_CONV_STRIDE].i = s->p[BS_CU_CONV_DILATION].i = bs_cu_both(1, 1);
    s->p[BS_CU_CONV_GROUPS].i = 1;
    if (reference || !bs_cu_conv_describe_direct(s, in_c, d->out, bs_ceil_div(h, stride), bs_ceil_div(w, stride)))
        s->parts = bs_cu_work_items(h * w * d->out, 4 * BS_CU_THREADS);
    else
        s->parts = bs_cu_work_items((int64_t)s->parts * stride * stride, 1);
    s->p[BS_CU_CONV_KERNEL_H].i = s->p[BS_CU_CONV_KERNEL_W].i = kernel;
    s->p[BS_CU_CONV_UP].i = stride;
    s->p[BS_CU_CONV_PAD_H].i = s->p[BS_CU_CONV_PAD_W].i = d->pad;
    s->p[BS_CU_CONV_ACT].i = d->act;
    s->p[BS_CU_CONV_PARAM].f = d->act_param;
    s->p[BS_CU_CONV_BIAS].i = (int32_t)bs_bytes_figure(bs_deconv2d_layout(&f, n->np, d->act).bias);
    s->p[BS_CU_CONV_LAYOUT].i = !reference;
}

/* ------------------------------------------------------------------------------------------------ plain loops */

/* (y + pad) mod stride, of any sign. */
__device__ __forceinline__ int32_t bs_cu_deconv_phase(int32_t y, int32_t pad, int32_t stride)
{
    const int32_t rest = (y + pad) % stride;
    return rest < 0 ? rest + stride : rest;
}

__device__ inline void bs_cu_deconv_plain(const bs_cu_view &x, const bs_cu_view &y, const bs_cu_conv &c, int32_t pad,
                                          int32_t up, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    const float *weights = reinterpret_cast<const float *>(c.weights);
    bs_cu_scan_run(d, y, y.dim[0], [&](const bs_cu_scan &k) {
        float sum = 0.0f;
        for (int32_t ky = bs_cu_deconv_phase(k.y, pad, up); ky < c.kernel_h; ky += up)
            for (int32_t kx = bs_cu_deconv_phase(k.x, pad, up); kx < c.kernel_w; kx += up)
                for (int32_t i = 0; i < x.dim[0]; i++)
                    sum = fmaf(bs_cu_get(x.data, x.dtype,
                                         bs_cu_pixel_at(x, i, (k.y + pad - ky) / up, (k.x + pad - kx) / up)),
                               weights[(((int64_t)i * y.dim[0] + k.c) * c.kernel_h + ky) * c.kernel_w + kx], sum);
        bs_cu_put(y.data, y.dtype, bs_cu_pixel_at(y, k.c, k.y, k.x), bs_cu_conv_any(c, k.c, sum));
    });
}

/* ----------------------------------------------------------------------------------------------------- phases */

/* Phase (a, b) as a convolution: every stride-th output from the phase's first one on, with the taps in reverse. */
__device__ __forceinline__ bs_cu_conv bs_cu_deconv_job(const bs_cu_conv &whole, const bs_cu_view &x,
                                                       const bs_cu_view &y, int32_t pad, int32_t up, int32_t phase)
{
    bs_cu_conv c = whole;
    const int32_t a = phase / up, b = phase % up;
    const int32_t down = a - bs_cu_deconv_phase(y.y0, pad, up), right = b - bs_cu_deconv_phase(y.x0, pad, up);
    const int32_t oy = y.y0 + (down < 0 ? down + up : down), ox = y.x0 + (right < 0 ? right + up : right);
    c.kernel_h = bs_deconv2d_taps(whole.kernel_h, up, a);
    c.kernel_w = bs_deconv2d_taps(whole.kernel_w, up, b);
    const int32_t iy = (oy + pad - a) / up - (c.kernel_h - 1), ix = (ox + pad - b) / up - (c.kernel_w - 1);
    c.in = x.data + bs_cu_pixel_at(x, 0, iy, ix) * bs_cu_bytes(x.dtype);
    c.out = y.data + bs_cu_pixel_at(y, 0, oy, ox) * bs_cu_bytes(y.dtype);
    c.out_row = y.stride[1] * up;
    c.out_pixel = y.stride[2] * up;
    c.h = max(0, (y.y1 - oy + up - 1) / up);
    c.w = max(0, (y.x1 - ox + up - 1) / up);
    c.weights = whole.weights + 4 * bs_cu_deconv_packed(whole.kernel_h, up, whole.in_c, whole.out_c, phase);
    return c;
}

/* Not inlined: the loop over phases would leave it too few registers. */
static __device__ __noinline__ int32_t bs_cu_deconv_phase_run(const bs_cu_tile &t, const bs_device_step *s,
                                                              const bs_cu_conv &c, int32_t part, int32_t parts)
{
    return bs_cu_conv_direct(t, s, c, part, parts);
}

__device__ inline void bs_cu_deconv2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t up = s->p[BS_CU_CONV_UP].i;
    for (int32_t r = w.row; r < w.end; r++) {
        int32_t part = w.part; /* work items are numbered across all phases */
        /* everything is looked up again in each phase, because registers are scarce */
        for (int32_t phase = 0; phase < (s->p[BS_CU_CONV_LAYOUT].i == 0 ? 1 : up * up); phase++) {
            const bs_cu_view x = bs_cu_open_in(t, s, 0, r), y = bs_cu_open_out(t, s, 0, r);
            const int32_t pad = s->p[BS_CU_CONV_PAD_H].i;
            if (phase == 0)
                bs_cu_zero_margin(w, y);
            if (s->p[BS_CU_CONV_LAYOUT].i == 0) {
                bs_cu_deconv_plain(x, y, bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y)), pad, up, w);
            } else if (bs_cu_conv_sound(t, s, x, y)) {
                const bs_cu_conv &job =
                    bs_cu_conv_share(t, bs_cu_deconv_job(bs_cu_conv_of(t, s, x, y), x, y, pad, up, phase));
                part -= bs_cu_deconv_phase_run(t, s, job, part, w.parts) % w.parts;
                part += part < 0 ? w.parts : 0;
            }
        }
    }
}

#endif
