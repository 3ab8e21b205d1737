/* tensor.cuh - instructions of the tensor cores, and asynchronous copies to shared memory.
 *
 * Each is one instruction from sm_80 on. Below that, shuffles and plain loads give the same values (sums in another
 * order), so that kernels are written once. All 32 lanes of a warp must call them together.
 * Relies on elements.cuh. Must never be given an address that is not aligned to what it moves. */
#ifndef BS_CUDA_TENSOR
#define BS_CUDA_TENSOR

#include "cuda/elements.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define BS_CU_AMPERE 1
#else
#define BS_CU_AMPERE 0
#endif

/* Tells the compiler that a pointer is to shared memory, which it cannot see where a tile's rows come as arguments. Not
 * from Blackwell on: there nvcc 13.0 makes invalid code of it ("PHI node operands are not the same type as the
 * result"). */
#if defined(BS_CUDA_CPU)
#define BS_CU_ASSUME_SHARED(p) cuda_cpu_must_be_shared(p)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 1000 && CUDART_VERSION >= 11020
#define BS_CU_ASSUME_SHARED(p) __builtin_assume(__isShared(p))
#else
#define BS_CU_ASSUME_SHARED(p) ((void)(p))
#endif

/* d[16][8] += a[16][16] b[16][8], f16 with sums in f32. Of lane 4 g + t:
 *   a: rows g, g + 8 of columns 2t, 2t+1; then the same rows of columns 2t+8, 2t+9
 *   b: rows 2t, 2t+1 of column g; then rows 2t+8, 2t+9
 *   d: columns 2t, 2t+1 of row g; then of row g + 8 */
__device__ __forceinline__ void bs_cu_mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_mma_16816(d, a, b);
#elif BS_CU_AMPERE
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    const int lane = bs_cu_lane(), row = lane & ~3, column = (lane & 3) * 8;
#pragma unroll
    for (int k = 0; k < 8; k++) { /* columns 2k, 2k+1 of a lie in lane k % 4 of each row */
        const int high = k >> 2, from = k & 3;
        const uint32_t a0 = __shfl_sync(0xffffffffu, a[2 * high], row + from),
                       a1 = __shfl_sync(0xffffffffu, a[2 * high + 1], row + from);
        const uint32_t b0 = __shfl_sync(0xffffffffu, b[high], column + from),
                       b1 = __shfl_sync(0xffffffffu, b[high], column + 4 + from);
        d[0] = fmaf(bs_cu_high_half(a0), bs_cu_high_half(b0), fmaf(bs_cu_low_half(a0), bs_cu_low_half(b0), d[0]));
        d[1] = fmaf(bs_cu_high_half(a0), bs_cu_high_half(b1), fmaf(bs_cu_low_half(a0), bs_cu_low_half(b1), d[1]));
        d[2] = fmaf(bs_cu_high_half(a1), bs_cu_high_half(b0), fmaf(bs_cu_low_half(a1), bs_cu_low_half(b0), d[2]));
        d[3] = fmaf(bs_cu_high_half(a1), bs_cu_high_half(b1), fmaf(bs_cu_low_half(a1), bs_cu_low_half(b1), d[3]));
    }
#endif
}

/* Four 8x8 matrices of f16 from shared memory: lane 8 i + j brings the address of row j of matrix i (16 bytes,
 * aligned); r[i] of lane 4 g + t becomes columns 2t, 2t+1 of row g of matrix i. */
__device__ __forceinline__ void bs_cu_ldmatrix_x4(uint32_t r[4], const void *shared_row)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_ldmatrix_x4(r, shared_row);
#elif BS_CU_AMPERE
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared_row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#else
    const int lane = bs_cu_lane();
    const unsigned long long own = (unsigned long long)reinterpret_cast<uintptr_t>(shared_row);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned long long at = __shfl_sync(0xffffffffu, own, 8 * i + (lane >> 2));
        r[i] = bs_cu_at<const uint32_t>(at)[lane & 3];
    }
#endif
}

/* Copies 16 bytes from global to shared memory, both aligned to 16, bypassing the L1 cache. They are there after commit
 * and wait, for other threads after one more barrier. */
__device__ __forceinline__ void bs_cu_cp_async_16(void *shared, const void *global)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_cp_async_16(shared, global);
#elif BS_CU_AMPERE
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(at), "l"(__cvta_generic_to_global(global))
                 : "memory");
#else
    *reinterpret_cast<uint4 *>(shared) = *reinterpret_cast<const uint4 *>(global);
#endif
}

/* Ends a group of copies. */
__device__ __forceinline__ void bs_cu_cp_async_commit(void)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_cp_async_commit();
#elif BS_CU_AMPERE
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/* Waits until at most N groups of this thread are under way. */
template <int N> __device__ __forceinline__ void bs_cu_cp_async_wait(void)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_cp_async_wait(N);
#elif BS_CU_AMPERE
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
#endif
}

#endif
