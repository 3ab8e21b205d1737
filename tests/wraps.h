/* wraps.h - marks functions of the tests in which numbers are meant to wrap: hashes and dice. All others are reported
 * by
 * -fsanitize=unsigned-integer-overflow. In the library it is BS_WRAPS (base/wrapping.h). */
#ifndef BS_TEST_WRAPS_H
#define BS_TEST_WRAPS_H

#if defined(__clang__)
#define CHECK_WRAPS __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define CHECK_WRAPS
#endif

#endif
