/* cuda.cu - the CUDA backend as one translation unit: a line for each part, bottom to top. A part includes what it needs,
 * so the order matters only where one is not included by another.
 * tools/amalgamate.py makes brainstorm_cuda.cu of it: a new part is one line here, then `make amalgamate`. */
#include "cuda/portable.cuh"

#include "cuda/kernels.cuh"
#include "cuda/lower.cuh"
#include "cuda/program.cuh"

#include "cuda/op_elementwise.cuh"
