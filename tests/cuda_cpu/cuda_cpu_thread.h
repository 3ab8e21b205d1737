/* cuda_cpu_thread.h - a CUDA thread's view of itself and of its block: indices, barriers, shared memory, fences.
 * Relies on block.cpp, which makes fibers of threads. Must never keep state of its own: it is compiled into every
 * source, with that source's sanitizer. */
#ifndef CUDA_CPU_THREAD_H
#define CUDA_CPU_THREAD_H

#if defined(__SANITIZE_THREAD__)
#define CUDA_CPU_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CUDA_CPU_THREAD_SANITIZER 1
#endif
#endif

struct cuda_cpu_thread {
    uint3 thread_index, block_index;
    dim3 block_size, grid_size;
    unsigned slot, lane, warp; /* slot: the thread's number in its block */
};

/* A fiber never changes its OS thread, so the compiler may keep the address of this. */
extern __thread struct cuda_cpu_thread *cuda_cpu_self;

enum cuda_cpu_barrier_kind {
    CUDA_CPU_BARRIER_PLAIN,
    CUDA_CPU_BARRIER_COUNT,
    CUDA_CPU_BARRIER_AND,
    CUDA_CPU_BARRIER_OR
};

extern "C" {
int cuda_cpu_barrier(int kind, int predicate, const char *file, int line);
void *cuda_cpu_shared(const void *key, const char *name, size_t bytes);
void *cuda_cpu_dynamic_shared(void);
/* What a compiler may be told of a pointer (__builtin_assume(__isShared(p))): undefined behaviour where it is wrong. */
void cuda_cpu_must_be_shared(const void *address);
void cuda_cpu_fence(void);
void cuda_cpu_trap(const char *file, int line);
void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);
}

#define threadIdx (cuda_cpu_self->thread_index)
#define blockIdx  (cuda_cpu_self->block_index)
#define blockDim  (cuda_cpu_self->block_size)
#define gridDim   (cuda_cpu_self->grid_size)
static const int warpSize = 32;

#define __syncthreads()        ((void)cuda_cpu_barrier(CUDA_CPU_BARRIER_PLAIN, 0, __FILE__, __LINE__))
#define __syncthreads_count(p) cuda_cpu_barrier(CUDA_CPU_BARRIER_COUNT, (p) ? 1 : 0, __FILE__, __LINE__)
#define __syncthreads_and(p)   cuda_cpu_barrier(CUDA_CPU_BARRIER_AND, (p) ? 1 : 0, __FILE__, __LINE__)
#define __syncthreads_or(p)    cuda_cpu_barrier(CUDA_CPU_BARRIER_OR, (p) ? 1 : 0, __FILE__, __LINE__)
#define __trap()               cuda_cpu_trap(__FILE__, __LINE__)

/* Fences order with each other for the thread sanitizer, which does not know atomic_thread_fence. */
#define __threadfence()        cuda_cpu_fence()
#define __threadfence_block()  cuda_cpu_fence()
#define __threadfence_system() cuda_cpu_fence()

/* An array of the block, e.g. BS_SHARED(float, tile, [16][17]); filled with 0xff when a block starts. */
template <class Array> static inline Array &cuda_cpu_shared_array(const void *key, const char *name)
{
    return *static_cast<Array *>(cuda_cpu_shared(key, name, sizeof(Array)));
}
#define BS_SHARED(type, name, dims)                                                                                    \
    static const char name##_shared_key = 0;                                                                           \
    using name##_shared_type = type dims;                                                                              \
    name##_shared_type &name = cuda_cpu_shared_array<name##_shared_type>(&name##_shared_key, #name)

/* The launch's shared memory, of which there is one array a block, as on the device. */
#define BS_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(cuda_cpu_dynamic_shared())

#endif
