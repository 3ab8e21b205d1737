/* cuda_copy.h: the GPU's memory, and what it can do at best, measured: the denominators of every share printed.
 * Relies on the CUDA runtime (nvcc, or the emulation of the tests, where times say nothing).
 * Must never: be measured once for all: clocks and other work change it. */
#ifndef CUDA_COPY_H
#define CUDA_COPY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bench_where { BENCH_GPU, BENCH_PINNED, BENCH_HOST } bench_where;

void *bench_gpu_stream(void); /* a cudaStream_t; NULL: none could be made */
void bench_gpu_stream_end(void *stream);
void *bench_take(size_t bytes, bench_where where); /* NULL: there is not that much */
void bench_give(void *memory, bench_where where);
bool bench_copy(void *to, const void *from, size_t bytes); /* between any two; waits */

/* GB/s. Best of several. */
double bench_gpu_copy_gbs(void *stream, size_t bytes); /* read plus written, cudaMemcpyAsync within the GPU */
double bench_gpu_read_gbs(void *stream, size_t bytes); /* a kernel that adds up */
/* GFLOP/s of multiply-adds. tensor 1: f16 products with f32 sums by mma.sync m16n8k16, the instruction that the library
 * uses; 0 where there is none (before compute capability 8.0). tensor 0: f32 on the ordinary units. */
double bench_gpu_gflops(void *stream, int tensor);

#ifdef __cplusplus
}
#endif
#endif
