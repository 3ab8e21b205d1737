/* ops/list.h - the ops there are: one line of the op table each, for both sides.
 * BS_OP_LIST(X) names each op and what it is to a device: NONE, what the planner lowers to moves and views; KERNEL, a
 * function of src/cuda/ describes its step. Relies on nothing.
 * Append only: model files name ops, but the order here is also that of `inspect` and of the tests. */
#ifndef BS_OPS_LIST_H
#define BS_OPS_LIST_H

#define BS_OP_LIST(X)                                                                                                 \
    /* structure.c, routers.c: lowered by the planner */                                                              \
    X(input, NONE) X(state, NONE) X(state_write, NONE) X(output, NONE) X(patches, NONE) X(assemble, NONE)             \
    X(rows, NONE) X(collect, NONE) X(route, KERNEL) X(scatter, NONE) X(gather, NONE)                                  \
    X(route_price, KERNEL) X(route_score, KERNEL)                                                                     \
    /* one file an op or family: kernels */                                                                           \
    X(conv2d, KERNEL) X(deconv2d, KERNEL) X(linear, KERNEL) X(matmul, KERNEL) X(pixel_shuffle, KERNEL)                \
    X(pixel_unshuffle, KERNEL) X(add, KERNEL) X(sub, KERNEL) X(mul, KERNEL) X(activation, KERNEL) X(prelu, KERNEL)    \
    X(clip, KERNEL) X(affine, KERNEL) X(convert, KERNEL) X(concat, KERNEL) X(slice, KERNEL) X(reshape, KERNEL)        \
    X(transpose, KERNEL) X(pad, KERNEL) X(softmax, KERNEL) X(layer_norm, KERNEL) X(batch_norm, KERNEL)                \
    X(pool2d, KERNEL) X(resize, KERNEL) X(reduce, KERNEL) X(argmax, KERNEL) X(topk, KERNEL) X(gather_rows, KERNEL)    \
    X(constant, NONE) X(patch_features, KERNEL)                                                                       \
    /* segments: segments.c and files of their own */                                                                 \
    X(segments, NONE) X(state_append, NONE) X(segment_spread, KERNEL) X(segment_reduce, KERNEL) X(attention, KERNEL)  \
    /* streaming: routers.c */                                                                                        \
    X(look_ahead, KERNEL)

#endif
