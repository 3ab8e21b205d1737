/* cuda.cu - all of the CUDA backend, bottom to top: brainstorm_cuda.cu is made of it (tools/amalgamate.py). */
#include "cuda/portable.cuh"

#include "cuda/program.cuh"
#include "cuda/kernels.cuh"
#include "cuda/lower.cuh"

#include "cuda/op_move.cuh"
#include "cuda/op_route.cuh"
#include "cuda/op_elementwise.cuh"
#include "cuda/tensor.cuh"
#include "cuda/op_conv.cuh"
#include "cuda/ops.cuh"

#include "cuda/lower_operand.cuh"
#include "cuda/lower_step.cuh"
#include "cuda/launch.cuh"

#include "cuda/device.cuh"
#include "cuda/session.cuh"
