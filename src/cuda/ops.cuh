/* ops.cuh - the CUDA column of the op table: which describe function an op has.
 * Adding an op: its file, a line here, its kernels in kernels.cuh. Relies on the op files. */
#ifndef BS_CUDA_OPS
#define BS_CUDA_OPS

#include "cuda/linear_cublas.cuh"
#include "cuda/op_append.cuh"
#include "cuda/op_attention.cuh"
#include "cuda/op_binary.cuh"
#include "cuda/op_conv.cuh"
#include "cuda/op_convert.cuh"
#include "cuda/op_deconv.cuh"
#include "cuda/op_elementwise.cuh"
#include "cuda/op_features.cuh"
#include "cuda/op_gather.cuh"
#include "cuda/op_image.cuh"
#include "cuda/op_linear.cuh"
#include "cuda/op_lines.cuh"
#include "cuda/op_look_ahead.cuh"
#include "cuda/op_matmul.cuh"
#include "cuda/op_move.cuh"
#include "cuda/op_resize.cuh"
#include "cuda/op_route.cuh"
#include "cuda/op_route_score.cuh"
#include "cuda/op_segment.cuh"
#include "cuda/op_shape.cuh"

/* Ops with kernels, by name. */
#define BS_CU_OPS(X)                                                       \
    X(activation) X(prelu) X(clip) X(affine) X(batch_norm)                 \
    X(add) X(sub) X(mul) X(convert)                                        \
    X(concat) X(slice) X(reshape) X(transpose) X(pad) X(pixel_shuffle) X(pixel_unshuffle) X(gather_rows) \
    X(softmax) X(layer_norm) X(argmax) X(topk)                             \
    X(pool2d) X(resize) X(patch_features)                                  \
    X(conv2d) X(deconv2d)                                                  \
    X(linear) X(matmul) X(attention) X(segment_spread) X(segment_reduce)

struct bs_cu_column {
    const char *op;
    bs_cu_describe describe;
};

static const bs_cu_column bs_cu_columns[] = {
#define BS_CU_COLUMN(name) {#name, bs_cu_##name##_describe},
    BS_CU_OPS(BS_CU_COLUMN)
#undef BS_CU_COLUMN
    {"reduce", bs_cu_reduce_axis_describe}, /* as a kernel, reduce is what a gather does */
};

/* Moves and decisions have their kernel already; an op is looked up. */
static void bs_cu_describe_step(const bs_cu_node *n, bs_device_step *s)
{
    switch (s->kernel) {
#define BS_CU_MOVE(name) \
    case BS_CU_##name: bs_cu_##name##_describe(n, s); return;
        BS_CU_MOVE(load) BS_CU_MOVE(store) BS_CU_MOVE(append) BS_CU_MOVE(fill) BS_CU_MOVE(rest) BS_CU_MOVE(reduce)
        BS_CU_MOVE(route) BS_CU_MOVE(route_score) BS_CU_MOVE(route_price)
#undef BS_CU_MOVE
    default: break;
    }
    const char *name = bs_op_get(n->node->op)->name;
    s->kernel = BS_CU_unsupported;
    for (size_t k = 0; k < sizeof bs_cu_columns / sizeof *bs_cu_columns; k++)
        if (strcmp(bs_cu_columns[k].op, name) == 0)
            bs_cu_columns[k].describe(n, s);
}

#endif
