/* portable.cuh - the few constructs in which a CUDA compiler and the emulation of the tests differ.
 * Compiled by nvcc, or with BS_CUDA_CPU by a C++ compiler: then tests/cuda_cpu runs every kernel on the CPU.
 * Must never be needed by host code alone. */
#ifndef BS_CUDA_PORTABLE
#define BS_CUDA_PORTABLE

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef BS_CUDA_CPU
#include "cuda_cpu.h"
#define BS_CU_PEEK(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#else
#include <cuda_runtime.h>
#define BS_LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define BS_SHARED(type, name, dims) __shared__ type name dims
/* A word that another block may be writing. */
#define BS_CU_PEEK(word) (*(const volatile int32_t *)(word))
#define BS_DYNAMIC_SHARED(type, name)                        \
    extern __shared__ __align__(16) uint8_t bs_cu_dynamic[]; \
    type *name = reinterpret_cast<type *>(bs_cu_dynamic)
#endif
/* A kernel argument that is read in place: without this, taking its address copies it for every thread. */
#if defined(__CUDACC__) && CUDART_VERSION >= 11070 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700)
#define BS_CU_ARGUMENT const __grid_constant__
#else
#define BS_CU_ARGUMENT const
#endif
#include <cuda_fp16.h>

/* a b + c with the product rounded before the sum, as in the CPU's scalar kernels. The compiler may round plain a * b +
 * c once or twice, and decides anew in each function; but the same formula is compiled for launches and for tiles, for
 * words and for single elements, and all must give the same bytes. Where one rounding is wanted, fmaf says so. So
 * nothing is left to fuse: tests/cuda_build.sh checks that -fmad=false changes no function. */
__device__ __forceinline__ float bs_cu_mul_add(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }

/* This thread of its block, and its warp; how many there are. */
__device__ __forceinline__ int32_t bs_cu_thread(void) { return (int32_t)threadIdx.x; }
__device__ __forceinline__ int32_t bs_cu_threads(void) { return (int32_t)blockDim.x; }
__device__ __forceinline__ int32_t bs_cu_lane(void) { return (int32_t)(threadIdx.x % 32); }
__device__ __forceinline__ int32_t bs_cu_warp(void) { return (int32_t)(threadIdx.x / 32); }
__device__ __forceinline__ int32_t bs_cu_warps(void) { return (int32_t)(blockDim.x / 32); }

/* This thread again, inside of a loop: what follows from it is worked out there, and takes no registers around it. */
__device__ __forceinline__ int32_t bs_cu_thread_here(void)
{
    int32_t thread = (int32_t)threadIdx.x;
#ifndef BS_CUDA_CPU
    asm volatile("" : "+r"(thread)); /* not what it was before, as far as the compiler knows */
#endif
    return thread;
}

/* The sum over each group of `lanes` lanes of a warp, in all of its lanes. */
template <typename T> __device__ __forceinline__ T bs_cu_lanes_sum(T v, int32_t lanes = 32)
{
    for (int32_t m = lanes / 2; m > 0; m /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, m);
    return v;
}

/* The sum over all threads of a block, in every thread. sums: [warps], in shared memory. */
__device__ inline uint64_t bs_cu_sum_threads(uint64_t *sums, uint64_t own)
{
    own = bs_cu_lanes_sum(own);
    __syncthreads();
    if (bs_cu_lane() == 0)
        sums[bs_cu_warp()] = own;
    __syncthreads();
    uint64_t sum = 0;
    for (int32_t k = 0; k < bs_cu_warps(); k++)
        sum += sums[k];
    return sum;
}

/* A copy of what lies in global memory, in words of 16 bytes that are all under way at once. (Member by member the
 * compiler reads what is asked for after a condition when the condition is known.) */
template <typename T> __device__ __forceinline__ T bs_cu_read_whole(const T *from)
{
    static_assert(sizeof(T) % 16 == 0, "it is read by words");
#ifdef BS_CUDA_CPU
    return *from;
#else
    uint4 words[sizeof(T) / 16];
    T whole;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 16); i++)
        asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %4; ld.global.v4.u32 {%0, %1, %2, %3}, [at]; }"
                     : "=r"(words[i].x), "=r"(words[i].y), "=r"(words[i].z), "=r"(words[i].w)
                     : "l"(reinterpret_cast<const uint4 *>(from) + i));
    memcpy(&whole, words, sizeof whole);
    return whole;
#endif
}

/* An address on the device, as tables hold it, as a pointer. */
template <typename T> __host__ __device__ __forceinline__ T *bs_cu_at(uint64_t address)
{
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}

extern "C" {
#include "ops/structure.h"
#include "plan/device.h"
}

#endif
