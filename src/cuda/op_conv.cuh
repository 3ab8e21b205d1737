/* op_conv.cuh - conv2d: which of its kernels a node gets, by the algorithm that was planned and by what fits.
 * Relies on the op_conv_*.cuh, one for each kind of kernel. Must never touch the device. */
#ifndef BS_CUDA_OP_CONV
#define BS_CUDA_OP_CONV

#include "cuda/op_conv_depthwise.cuh"
#include "cuda/op_conv_direct.cuh"
#include "cuda/op_conv_plain.cuh"
#include "cuda/op_conv_tensor.cuh"

static void bs_cu_conv2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_conv2d_desc *d = static_cast<const bs_conv2d_desc *>(n->params);
    const bs_conv2d_form f = bs_conv2d_form_of(d, n->in[0].dim[0]);
    const int32_t groups = f.geometry.groups, in_c = f.geometry.in_channels / groups,
                  out_c = f.geometry.out_channels / groups, algorithm = n->np->algorithm;
    const bool depthwise = in_c == 1 && out_c == 1;
    int64_t h, w;
    memset(s->p, 0, sizeof s->p);
    s->p[BS_CU_CONV_KERNEL_H].i = f.geometry.kernel_h;
    s->p[BS_CU_CONV_KERNEL_W].i = f.geometry.kernel_w;
    s->p[BS_CU_CONV_STRIDE].i = bs_cu_both(f.geometry.stride_h, f.geometry.stride_w);
    s->p[BS_CU_CONV_PAD_H].i = f.window.axis[0].before;
    s->p[BS_CU_CONV_PAD_W].i = f.window.axis[1].before;
    s->p[BS_CU_CONV_DILATION].i = bs_cu_both(f.geometry.dilation_h, f.geometry.dilation_w);
    s->p[BS_CU_CONV_GROUPS].i = groups;
    s->p[BS_CU_CONV_ACT].i = d->act;
    s->p[BS_CU_CONV_PARAM].f = d->act_param;
    s->p[BS_CU_CONV_BIAS].i = (int32_t)bs_bytes_figure(bs_conv2d_layout(d, &f.geometry, n->np).bias);
    bs_cu_conv_extent(&n->out[0], &h, &w);
    if (algorithm == BS_CONV_TENSOR && bs_cu_conv_describe_tensor(n, s, in_c, h, w)) {
        const bool tile = n->near && n->in[0].dtype == BS_F16 && n->in[0].place == BS_AT_TILE;
        s->kernel = tile ? BS_CU_conv2d_tile : BS_CU_conv2d_tensor;
    } else if (algorithm == BS_CONV_DIRECT && depthwise) {
        s->kernel = BS_CU_conv2d_depthwise;
        s->parts = bs_cu_work_items(h * w * ((groups + 3) / 4), 2 * BS_CU_THREADS);
    } else if (algorithm == BS_CONV_DIRECT && bs_cu_conv_describe_direct(s, in_c, out_c, h, w)) {
    } else {
        s->kernel = BS_CU_conv2d_plain;
        s->p[BS_CU_CONV_LAYOUT].i = algorithm == BS_CONV_TENSOR ? 1 : algorithm == BS_CONV_DIRECT ? 2 : 0;
        s->parts = bs_cu_work_items(h * w * d->out, 4 * BS_CU_THREADS);
    }
}

#endif
