/* base/wrapping.h - marks functions in which unsigned numbers are meant to wrap: hashes, squares of negative
 * differences. All others are reported by -fsanitize=unsigned-integer-overflow. Owns BS_WRAPS. Relies on nothing. */
#ifndef BS_WRAPPING_H
#define BS_WRAPPING_H

#if defined(__clang__)
#define BS_WRAPS __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define BS_WRAPS
#endif

#endif
