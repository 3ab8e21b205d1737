/* base/both.h - what a device compiles too: functions that are one source for both.
 * Owns BS_BOTH and BS_SUM. Relies on nothing. A function marked so must never touch anything but what it is given. */
#ifndef BS_BOTH_H
#define BS_BOTH_H

#if defined(__CUDACC__)
#define BS_BOTH __host__ __device__
#else
#define BS_BOTH
#endif

/* The sum of two floats where one may end in a product, which no compiler is to fuse with it. */
#if defined(__CUDA_ARCH__)
#define BS_SUM(a, b) __fadd_rn(a, b)
#else
#define BS_SUM(a, b) ((a) + (b))
#endif

#endif
