/* base/both.h - what a device compiles too: functions with one source for both.
 * Owns BS_BOTH, BS_SUM and BS_PRODUCT. Relies on nothing. A function marked BS_BOTH must never touch anything but its
 * arguments. */
#ifndef BS_BOTH_H
#define BS_BOTH_H

#if defined(__CUDACC__)
#define BS_BOTH __host__ __device__
#else
#define BS_BOTH
#endif

/* The sum of two floats, one of which may end in a product that no compiler must fuse with the sum. */
#if defined(__CUDA_ARCH__)
#define BS_SUM(a, b) __fadd_rn(a, b)
#else
#define BS_SUM(a, b) ((a) + (b))
#endif

/* The product of two floats, rounded before anything is added to it: doubles hold it, so nothing is fused. */
#if defined(__CUDA_ARCH__)
#define BS_PRODUCT(a, b) __fmul_rn(a, b)
#else
#define BS_PRODUCT(a, b) ((float)((double)(a) * (double)(b)))
#endif

#endif
