/* control.h - what a test tells the CUDA emulator and asks it: counts, failures, orders, delays, the device, misuse.
 * Plain C. Relies on nothing but fixed-width integers. Must never appear in the library: only tests know that they
 * are not on a device. */
#ifndef CUDA_CPU_CONTROL_H
#define CUDA_CPU_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_cpu_counts {
    int64_t calls;              /* API calls that can fail, launches and cuBLAS included */
    int64_t launches;           /* kernel launches by the host; captured ones are not */
    int64_t graph_launches;     /* cudaGraphLaunch */
    int64_t instantiations;     /* cudaGraphInstantiate */
    int64_t kernels;            /* kernels executed, those in graphs too */
    int64_t nodes;              /* graph nodes executed, conditional ones and their bodies' included */
    int64_t synchronisations;   /* calls that keep the host until the device has done something; cudaFree is not one */
    int64_t copies;             /* copies that the host asked for or captured; fills are none */
    int64_t copied_bytes;
    int64_t pageable_copies;    /* asynchronous copies whose host side is neither pinned nor device memory */
    int64_t device_allocations; /* successful cudaMalloc */
    int64_t host_allocations;   /* successful cudaHostAlloc, cudaMallocHost */
    int64_t hidden_allocations; /* products that cuBLAS was asked for without a workspace, captured ones too */
    int64_t frees;              /* cudaFree and cudaFreeHost of something */
    int64_t live_allocations;   /* the live ones are states: a reset leaves them */
    int64_t live_streams;
    int64_t live_events;
    int64_t live_graphs;        /* graphs and executable graphs; bodies belong to their node */
};

void cuda_cpu_counts_get(struct cuda_cpu_counts *counts);
void cuda_cpu_counts_reset(void);

/* The nth call from here on that can fail (from 1) does nothing and returns an error; with from_then_on every later
 * one too. 0: none. Allocations fail with cudaErrorMemoryAllocation, others with cudaErrorUnknown, cuBLAS with
 * CUBLAS_STATUS_EXECUTION_FAILED. Destroying, freeing and asking for the last error never fail. */
void cuda_cpu_fail(int64_t nth, int from_then_on);

/* Blocks of a launch, threads of a block and independent nodes of a graph: 0 forward, 1 reverse, 2 random. */
void cuda_cpu_order(int order, unsigned seed);

/* What each byte of new device memory is: 0xff, unless a test says otherwise. On a device it may be anything. */
void cuda_cpu_fill(int byte);

/* Before each operation of a stream: a random pause of at most so much. 0: none. */
void cuda_cpu_delay(unsigned microseconds, unsigned seed);

/* The device that is claimed. A zero stands for the default, a null pointer for all of them. */
struct cuda_cpu_device {
    int major, minor;            /* 8, 7 */
    int integrated;              /* 0 */
    int multiprocessors;         /* 4 */
    size_t shared_optin_bytes;   /* 99 KiB, static and dynamic together */
    size_t total_memory_bytes;   /* 8 GiB; allocations beyond it fail */
};
#if defined(__GNUC__) && defined(__cplusplus) /* one name for the function and its structure, as is usual in C */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
void cuda_cpu_device(const struct cuda_cpu_device *device);
#if defined(__GNUC__) && defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

/* How many devices there are: 1, or 0 to be a machine without one. CUDA_CPU_DEVICES sets it at the start. */
void cuda_cpu_devices(int count);

/* The first misuse found that did not have to end the process, or NULL. Kept until asked to forget. */
const char *cuda_cpu_trouble(void);
void cuda_cpu_trouble_forget(void);

#ifdef __cplusplus
}
#endif
#endif
