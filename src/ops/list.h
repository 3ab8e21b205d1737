/* ops/list.h - the list of all ops: one line of the op table each, for CPU and device.
 * BS_OP_LIST(X) names each op and what a device does with it: NONE: the planner lowers it to moves and views; KERNEL:
 * a function of src/cuda/ describes its step; CHAIN: likewise, and chains of a device have its function of an element
 * (cuda/op_chain.cuh); LINES: likewise, and they begin with its function of a line (cuda/op_lines_chain.cuh).
 * Relies on nothing.
 * Append only: model files name ops, but the order here is also that of `inspect` and of the tests. An op is in the op
 * set that brought it; the newest is BS_MODEL_OPSET, or that one brought parameters alone, as set 3 did. A released set
 * gets no more ops. Set 4 is in no release yet; a release says here that it is.
 *
 * A build with BS_ONLY_OPS has only the ops whose macros are defined (BS_OP_conv2d for conv2d), and the structural
 * ones. BS_OP_IF(name, yes, no) chooses one or the other: numbers stay the same, and an op that is left out has an
 * empty line. */
#ifndef BS_OPS_LIST_H
#define BS_OPS_LIST_H

#define BS_OPS_OF_SET_1(X)                                                                                            \
    /* structure.c, routers.c: lowered by the planner */                                                              \
    X(input, NONE) X(state, NONE) X(state_write, NONE) X(output, NONE) X(patches, NONE) X(assemble, NONE)             \
    X(rows, NONE) X(collect, NONE) X(route, KERNEL) X(scatter, NONE) X(gather, NONE)                                  \
    X(route_price, KERNEL) X(route_score, KERNEL)                                                                     \
    /* one file an op or family: kernels */                                                                           \
    X(conv2d, KERNEL) X(deconv2d, KERNEL) X(linear, KERNEL) X(matmul, KERNEL) X(pixel_shuffle, KERNEL)                \
    X(pixel_unshuffle, KERNEL) X(add, CHAIN) X(sub, CHAIN) X(mul, CHAIN) X(activation, CHAIN) X(prelu, KERNEL)        \
    X(clip, CHAIN) X(affine, CHAIN) X(convert, KERNEL) X(concat, KERNEL) X(slice, KERNEL) X(reshape, KERNEL)          \
    X(transpose, KERNEL) X(pad, KERNEL) X(softmax, LINES) X(layer_norm, LINES) X(batch_norm, KERNEL)                  \
    X(pool2d, KERNEL) X(resize, KERNEL) X(reduce, KERNEL) X(argmax, KERNEL) X(topk, KERNEL) X(gather_rows, KERNEL)    \
    X(constant, NONE) X(patch_features, KERNEL)

#define BS_OPS_OF_SET_2(X)                                                                                            \
    /* segments: segments.c and files of their own */                                                                 \
    X(segments, NONE) X(state_append, NONE) X(segment_spread, KERNEL) X(segment_reduce, KERNEL) X(attention, KERNEL)  \
    /* streaming: routers.c */                                                                                        \
    X(look_ahead, KERNEL)

#define BS_OPS_OF_SET_4(X)                                                                                            \
    /* lines.c, reduce.c, rope.c, segment_rows.c, lrn.c */                                                            \
    X(rms_norm, LINES) X(argmin, KERNEL) X(cumsum, KERNEL) X(rope, KERNEL) X(segment_index, KERNEL) X(lrn, KERNEL)    \
    /* gather_rows.c, concat_slice.c */                                                                               \
    X(select, KERNEL) X(gather_elements, KERNEL) X(scatter_elements, KERNEL) X(scatter_rows, KERNEL) X(roll, KERNEL)  \
    /* recurrent.c */                                                                                                 \
    X(lstm, KERNEL) X(gru, KERNEL)                                                                                    \
    /* unary.c, binary.c, compare.c */                                                                                \
    X(unary, CHAIN) X(binary, CHAIN) X(compare, KERNEL) X(where, KERNEL)                                              \
    /* from_data.c, unique.c, nms.c */                                                                                \
    X(arange, KERNEL) X(nonzero, KERNEL) X(unique, KERNEL) X(nms, KERNEL)                                             \
    /* loops.c, lowered by the planner */                                                                             \
    X(loop, KERNEL) X(loop_carry, NONE) X(loop_trip, KERNEL) X(loop_slice, NONE) X(loop_next, NONE)                   \
    X(loop_collect, NONE) X(loop_again, KERNEL) X(loop_rows, KERNEL) X(loop_parent, KERNEL)                           \
    /* trees.c */                                                                                                     \
    X(children, KERNEL) X(levels, KERNEL)

#define BS_OP_LIST(X) BS_OPS_OF_SET_1(X) BS_OPS_OF_SET_2(X) BS_OPS_OF_SET_4(X)

/* What a device does with an op, by name: BS_OP_DEVICE_conv2d. What chains may have is taken from here (BS_BY_ELEMENTS,
 * BS_BY_LINES), as the switches of the device are: a planner chains nothing that a device has no function of. */
enum {
    BS_DEVICE_NONE,
    BS_DEVICE_KERNEL,
    BS_DEVICE_CHAIN,
    BS_DEVICE_LINES,
#define BS_OP_DEVICE(name, device) BS_OP_DEVICE_##name = BS_DEVICE_##device,
    BS_OP_LIST(BS_OP_DEVICE)
#undef BS_OP_DEVICE
};

#if defined(BS_ONLY_OPS)
#define BS_OP_input 1
#define BS_OP_state 1
#define BS_OP_state_write 1
#define BS_OP_output 1
#define BS_OP_patches 1
#define BS_OP_assemble 1
#define BS_OP_rows 1
#define BS_OP_collect 1
#define BS_OP_route 1
#define BS_OP_scatter 1
#define BS_OP_gather 1
#define BS_OP_route_price 1
#define BS_OP_route_score 1

/* A macro that is defined, as nothing or as 1, becomes a comma: then `yes` is the second of three arguments, else `no`
 * is. */
#define BS_OP_HAVE_ 0,
#define BS_OP_HAVE_1 0,
#define BS_OP_SECOND(first, second, ...) second
#define BS_OP_PICK(...) BS_OP_SECOND(__VA_ARGS__)
#define BS_OP_WITH(macro, yes, no) BS_OP_PICK(BS_OP_HAVE_##macro yes, no, 0)
#define BS_OP_EXPAND(macro, yes, no) BS_OP_WITH(macro, yes, no)
#define BS_OP_IF(name, yes, no) BS_OP_EXPAND(BS_OP_##name, yes, no)
#else
#define BS_OP_IF(name, yes, no) yes
#endif

#endif
