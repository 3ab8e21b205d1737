/* stdint.h as newlib has it, for `gcc -m32`: int32_t is long, which %d is not for (`make lint PARTS=warnings`). */
#include_next <stdint.h>
#ifndef INT32_LONG_STDINT_H
#define INT32_LONG_STDINT_H
typedef long int32_long;
typedef unsigned long uint32_long;
#define int32_t int32_long
#define uint32_t uint32_long
#undef INT32_MIN
#undef INT32_MAX
#undef UINT32_MAX
#define INT32_MIN (-2147483647L - 1)
#define INT32_MAX 2147483647L
#define UINT32_MAX 4294967295UL
#endif
