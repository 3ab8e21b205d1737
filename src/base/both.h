/* base/both.h - marks functions that a device compiles too: what is decided there is decided by the same source.
 * Owns BS_BOTH. Relies on nothing. Such a function must never touch anything but what it is given. */
#ifndef BS_BOTH_H
#define BS_BOTH_H

#if defined(__CUDACC__)
#define BS_BOTH __host__ __device__
#else
#define BS_BOTH
#endif

#endif
