/* cuda_chain.cu - some of the kernels, one of each kind, for tests/cuda_chain.py: all of them take ten minutes to
 * compile. The lists in src/cuda/kernels.cuh number them; those that launch.cuh makes are these. */
#include "cuda/ops.cuh"

#undef BS_CU_KERNELS
#define BS_CU_KERNELS(X)                                                                                \
    X(store) X(fill) X(paths) X(chain) X(add) X(concat) X(softmax) X(conv2d) X(conv2d_tensor) X(linear) \
    X(linear_tensor) X(lstm) X(attention) X(route) X(loop_again)

#include "cuda/launch.cuh"
