/* cuda_cpu.h - what a CUDA source sees when a host compiler builds it for the tests, instead of <cuda_runtime.h>.
 * Owns the meaning of the CUDA keywords; the headers it ends with own barriers, warps, atomics, arithmetic, tensor
 * operations and the launch. Relies on the toolkit's own headers for every type and prototype, so that a wrong call
 * does not compile. Must never be included by code that a device compiler sees, and must stay C++14. */
#ifndef CUDA_CPU_H
#define CUDA_CPU_H

#if defined(__CUDACC__)
#error "cuda_cpu.h is for host compilers: device code includes <cuda_runtime.h>"
#endif

#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __managed__
#undef __shared__
#undef __grid_constant__
#undef __launch_bounds__
#undef __noinline__
#undef __forceinline__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
/* Empty, and not an attribute: the C++ library writes __attribute__((__noinline__)). */
#define __noinline__
#define __forceinline__ inline
/* Plain __shared__ would survive from block to block, and no sanitizer would bound it. */
#define __shared__ write_BS_SHARED_instead_of___shared__

#include "cuda_cpu_thread.h"
#include "cuda_cpu_warp.h"
#include "cuda_cpu_atomic.h"
#include "cuda_cpu_math.h"
#include "cuda_cpu_tensor.h"
#include "cuda_cpu_launch.h"

#endif
