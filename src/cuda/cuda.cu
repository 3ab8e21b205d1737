/* cuda.cu - all of the CUDA backend, bottom to top: brainstorm_cuda.cu is generated from it (tools/amalgamate.py). */
#include "cuda/portable.cuh"

#include "cuda/program.cuh"
#include "cuda/kernels.cuh"
#include "cuda/describe.cuh"
#include "cuda/ops.cuh"

#include "cuda/step_operand.cuh"
#include "cuda/step.cuh"
#include "cuda/launch.cuh"

#include "cuda/device.cuh"
#include "cuda/session.cuh"
