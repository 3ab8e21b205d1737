/* ops.cuh - which function describes the step of an op, by its number. (Of a move: step.cuh.)
 * Adding an op: its file, with an include here if it is new; its kernels in kernels.cuh. Relies on ops/list.h and the
 * files of ops. */
#ifndef BS_CUDA_OPS
#define BS_CUDA_OPS

#include "ops/list.h"

#include "cuda/op_append.cuh"
#include "cuda/op_attention.cuh"
#include "cuda/op_binary.cuh"
#include "cuda/op_chain.cuh"
#include "cuda/op_conv.cuh"
#include "cuda/op_convert.cuh"
#include "cuda/op_deconv.cuh"
#include "cuda/op_elementwise.cuh"
#include "cuda/op_features.cuh"
#include "cuda/op_from_data.cuh"
#include "cuda/op_gather.cuh"
#include "cuda/op_image.cuh"
#include "cuda/op_linear.cuh"
#include "cuda/op_lines.cuh"
#include "cuda/op_lines_chain.cuh"
#include "cuda/op_look_ahead.cuh"
#include "cuda/op_loop.cuh"
#include "cuda/op_matmul.cuh"
#include "cuda/op_move.cuh"
#include "cuda/op_nms.cuh"
#include "cuda/op_recurrent.cuh"
#include "cuda/op_resize.cuh"
#include "cuda/op_rope.cuh"
#include "cuda/op_route.cuh"
#include "cuda/op_route_score.cuh"
#include "cuda/op_segment.cuh"
#include "cuda/op_shape.cuh"
#include "cuda/op_shape_index.cuh"
#include "cuda/op_trees.cuh"
#include "cuda/op_unary.cuh"
#include "cuda/op_unique.cuh"

/* The device's column of the op table: how the step of an op is made. A missing function does not compile. */
static const bs_cu_description bs_cu_ops[] = {
#define BS_CU_OP_NONE(name) {BS_CU_none, NULL},
#define BS_CU_OP_KERNEL(name) BS_CU_DESCRIPTION(name),
#define BS_CU_OP_CHAIN(name) BS_CU_DESCRIPTION(name),
#define BS_CU_OP_LINES(name) BS_CU_DESCRIPTION(name),
#define BS_CU_OP_COLUMN(name, device) BS_CU_OP_##device(name)
    BS_OP_LIST(BS_CU_OP_COLUMN)
#undef BS_CU_OP_COLUMN
#undef BS_CU_OP_LINES
#undef BS_CU_OP_CHAIN
#undef BS_CU_OP_KERNEL
#undef BS_CU_OP_NONE
};

#endif
