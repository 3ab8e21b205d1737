/* cuda_cpu_tensor.h - tensor operations that have no CUDA C++ spelling: mma, ldmatrix, cp.async. A device source wraps
 * PTX and these in one function. Fragment layouts are those of the PTX manual ("Matrix Fragments for mma.m16n8k16",
 * "ldmatrix"). Relies on warp.cpp and block.cpp. Must never be more forgiving than the device: copies arrive only
 * when they are waited for. */
#ifndef CUDA_CPU_TENSOR_H
#define CUDA_CPU_TENSOR_H

extern "C" {
void cuda_cpu_copy_begin(void *shared, const void *global);
void cuda_cpu_copy_commit(void);
/* The next copy of all groups but the newest `pending`, or 0. */
int cuda_cpu_copy_due(int pending, void **shared, const void **global);
void cuda_cpu_misaligned(const char *what, const void *address);
}

/* d += a * b; half a (16x16, rows) and b (16x8, columns), float d (16x8); all 32 lanes. */
static inline void cuda_cpu_mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    uint32_t given[10], got[4];
    memcpy(given, a, 16);
    memcpy(given + 4, b, 8);
    memcpy(given + 6, d, 16);
    cuda_cpu_warp(CUDA_CPU_WARP_MMA_16816, 0xffffffffu, given, 10, 0, got, 4, __FILE__, __LINE__);
    memcpy(d, got, 16);
}

static inline void cuda_cpu_ldmatrix(int kind, uint32_t r[4], const void *row_address)
{
    uint32_t given[4];
    if (reinterpret_cast<uintptr_t>(row_address) % 16)
        cuda_cpu_misaligned("ldmatrix", row_address);
    memcpy(given, row_address, 16); /* each lane reads the row that it names, so a sanitizer sees who reads what */
    cuda_cpu_warp(kind, 0xffffffffu, given, 4, 0, r, 4, __FILE__, __LINE__);
}
static inline void cuda_cpu_ldmatrix_x4(uint32_t r[4], const void *row_address)
{
    cuda_cpu_ldmatrix(CUDA_CPU_WARP_LDMATRIX_X4, r, row_address);
}
static inline void cuda_cpu_ldmatrix_x4_trans(uint32_t r[4], const void *row_address)
{
    cuda_cpu_ldmatrix(CUDA_CPU_WARP_LDMATRIX_X4_TRANS, r, row_address);
}

static inline void cuda_cpu_cp_async_16(void *shared, const void *global)
{
    if (reinterpret_cast<uintptr_t>(shared) % 16 || reinterpret_cast<uintptr_t>(global) % 16)
        cuda_cpu_misaligned("cp.async", reinterpret_cast<uintptr_t>(shared) % 16 ? shared : global);
    cuda_cpu_copy_begin(shared, global);
}
static inline void cuda_cpu_cp_async_commit(void) { cuda_cpu_copy_commit(); }
static inline void cuda_cpu_cp_async_wait(int pending)
{
    void *shared;
    const void *global;
    while (cuda_cpu_copy_due(pending, &shared, &global))
        memcpy(shared, global, 16);
}

#endif
