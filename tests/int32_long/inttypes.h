/* inttypes.h for int32_long/stdint.h. */
#include_next <inttypes.h>
#ifndef INT32_LONG_INTTYPES_H
#define INT32_LONG_INTTYPES_H
#include <stdint.h>
#undef PRId32
#undef PRIu32
#undef PRIx32
#define PRId32 "ld"
#define PRIu32 "lu"
#define PRIx32 "lx"
#endif
