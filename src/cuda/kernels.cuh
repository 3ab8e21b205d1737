/* kernels.cuh - the lists of kernels, by what a launch must know of them.
 * A kernel NAME is a function bs_cu_NAME_run(tile, step, work), called by all threads of a block. It does one work item
 * of a step's work, and is launched over all rows of all branches at once (bs_cu_group), or as one of the steps of a
 * tile (bs_cu_region). Relies on the op files. */
#ifndef BS_CUDA_KERNELS
#define BS_CUDA_KERNELS

/* They are bound by memory: two blocks on a multiprocessor leave them all the registers they need. */
#define BS_CU_LIGHT_KERNELS(X)                                                                                \
    /* op_move.cuh, op_append.cuh, op_gather.cuh */                                                           \
    X(store) X(append) X(fill) X(beyond) X(paths)                                                             \
    /* op_route_score.cuh */                                                                                  \
    X(route_score) X(route_price)                                                                             \
    /* op_elementwise.cuh */                                                                                  \
    X(activation) X(prelu) X(clip) X(affine) X(batch_norm)                                                    \
    /* op_unary.cuh, op_binary.cuh, op_chain.cuh */                                                           \
    X(unary) X(binary) X(compare) X(where) X(chain)                                                           \
    /* op_binary.cuh, op_convert.cuh */                                                                       \
    X(add) X(sub) X(mul) X(convert) X(sr_store)                                                               \
    /* op_shape.cuh */                                                                                        \
    X(concat) X(slice) X(reshape) X(transpose) X(pad) X(pixel_shuffle) X(pixel_unshuffle) X(gather_rows)      \
    /* the same, op_shape_index.cuh */                                                                        \
    X(roll) X(select) X(gather_elements) X(scatter_elements) X(scatter_rows)                                  \
    /* op_lines.cuh, op_lines_chain.cuh */                                                                    \
    X(softmax) X(layer_norm) X(reduce) X(argmax) X(topk)                                                      \
    X(rms_norm) X(argmin) X(cumsum) X(line_chain)                                                             \
    /* op_loop.cuh, op_rope.cuh, op_segment.cuh, op_image.cuh, op_from_data.cuh, op_unique.cuh, op_nms.cuh */ \
    X(loop_trip) X(rope) X(segment_index) X(lrn) X(arange) X(nonzero) X(unique) X(nms) X(nms_pack)            \
    /* op_loop.cuh, op_trees.cuh */                                                                           \
    X(loop_rows) X(loop_parent) X(children) X(levels)                                                         \
    /* op_image.cuh, op_resize.cuh, op_features.cuh */                                                        \
    X(pool2d) X(pool2d_global) X(resize) X(resize_double) X(resize_any) X(patch_features)

/* A block takes the registers of a multiprocessor. */
#define BS_CU_HEAVY_KERNELS(X)                                                                                \
    /* op_conv_*.cuh, op_deconv.cuh */                                                                        \
    X(conv2d) X(conv2d_depthwise) X(conv2d_tensor) X(conv2d_tile) X(conv2d_plain) X(deconv2d)                 \
    /* op_linear.cuh, op_matmul.cuh */                                                                        \
    X(linear) X(linear_tensor) X(matmul)                                                                      \
    /* op_recurrent.cuh */                                                                                    \
    X(lstm) X(gru)                                                                                            \
    /* op_attention.cuh, op_segment.cuh */                                                                    \
    X(attention) X(segment_spread) X(segment_reduce)

/* Each block sees all rows of its step, even none: such a step has launches of its own, and is not cut into work items.
 * op_route.cuh, op_loop.cuh, op_look_ahead.cuh */
#define BS_CU_WHOLE_KERNELS(X) X(route) X(route_rows) X(route_pack) X(loop) X(loop_again) X(look_ahead)

#define BS_CU_KERNELS(X) BS_CU_LIGHT_KERNELS(X) BS_CU_HEAVY_KERNELS(X) BS_CU_WHOLE_KERNELS(X)

/* What else is launched (run.cuh): linears that the host hands to cuBLAS, putting extents in place that steps made, the
 * tiles of a region. */
#ifdef BS_NO_CUBLAS
#define BS_CU_OTHER_LAUNCHES(X) X(extend) X(region)
#else
#define BS_CU_OTHER_LAUNCHES(X) X(cublas) X(extend) X(region)
#endif

enum {
    BS_CU_none, /* nothing is launched */
#define BS_CU_ENUM(name) BS_CU_##name,
    BS_CU_KERNELS(BS_CU_ENUM) BS_CU_OTHER_LAUNCHES(BS_CU_ENUM)
#undef BS_CU_ENUM
};

/* The last number of each list. */
enum {
#define BS_CU_ONE(name) +1
    BS_CU_LAST_LIGHT = 0 BS_CU_LIGHT_KERNELS(BS_CU_ONE),
    BS_CU_LAST_HEAVY = BS_CU_LAST_LIGHT BS_CU_HEAVY_KERNELS(BS_CU_ONE),
    BS_CU_LAST_WHOLE = BS_CU_LAST_HEAVY BS_CU_WHOLE_KERNELS(BS_CU_ONE)
#undef BS_CU_ONE
};

#endif
