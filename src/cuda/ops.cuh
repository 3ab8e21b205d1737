/* ops.cuh - which function describes the step of an op, by its number, and of a move, by its row map.
 * Adding an op: its file, an include here, its kernels in kernels.cuh. Relies on ops/list.h and the op files. */
#ifndef BS_CUDA_OPS
#define BS_CUDA_OPS

#include "ops/list.h"

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

/* The device's column of the op table: what describes the step of an op; what it lacks does not compile. */
static const bs_cu_describe bs_cu_op_describes[] = {
#define BS_CU_OP_NONE(name) NULL,
#define BS_CU_OP_KERNEL(name) bs_cu_##name##_describe,
#define BS_CU_OP_COLUMN(name, device) BS_CU_OP_##device(name)
    BS_OP_LIST(BS_CU_OP_COLUMN)
#undef BS_CU_OP_COLUMN
#undef BS_CU_OP_KERNEL
#undef BS_CU_OP_NONE
};

/* And of moves. */
static bs_cu_describe bs_cu_move_describe(const bs_instr *i)
{
    switch (static_cast<bs_row_map>(i->map)) {
    case BS_MAP_VIEW: return bs_cu_load_describe;
    case BS_MAP_ROW:
    case BS_MAP_PARENT:
    case BS_MAP_CELL:
    case BS_MAP_BOUND: return i->combine == BS_COMBINE_RESIDUAL ? bs_cu_fill_describe : bs_cu_store_describe;
    case BS_MAP_APPEND: return bs_cu_append_describe;
    case BS_MAP_PATHS: return bs_cu_paths_describe;
    case BS_MAP_BEYOND: return bs_cu_beyond_describe;
    }
    return NULL;
}

#endif
