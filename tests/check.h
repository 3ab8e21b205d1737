/* check.h - what every test program shares: counting checks, random numbers with a printed seed. */
#ifndef BS_TEST_CHECK_H
#define BS_TEST_CHECK_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wraps.h"

/* What graphs of tests stay within that keep tables of their own; the library has no such limits. */
#define TEST_PATHS   64
#define TEST_ROUTERS 64
#define TEST_DIMS    512

static int check_passed, check_failed;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline int check(int ok, const char *format, ...)
{
    char name[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    printf("%s %s\n", ok ? "ok" : "FAIL", name);
    fflush(stdout);
    ok ? check_passed++ : check_failed++;
    return ok;
}

static inline int check_end(void)
{
    printf("%d passed, %d failed\n", check_passed, check_failed);
    return check_failed != 0;
}

/* xorshift64*: the same numbers everywhere. */
static uint64_t check_state = 88172645463325252u;

CHECK_WRAPS static inline uint64_t check_mixed(uint64_t n) { return n * 0x9E3779B97F4A7C15u + 1; }

static inline void check_seed(uint64_t seed)
{
    printf("seed %llu\n", (unsigned long long)seed);
    check_state = check_mixed(seed);
}

/* A fuzzer's numbers, while there are any: one byte each. */
static const uint8_t *check_input;
static size_t check_input_left;

CHECK_WRAPS static inline uint32_t check_random(void)
{
    if (check_input_left > 0) {
        check_input_left--;
        return *check_input++ * 0x01010101u;
    }
    check_state ^= check_state >> 12;
    check_state ^= check_state << 25;
    check_state ^= check_state >> 27;
    return (uint32_t)((check_state * 0x2545F4914F6CDD1Du) >> 32);
}

static inline int32_t check_below(int32_t n) { return (int32_t)(check_random() % (uint32_t)n); }
static inline float check_float(void) { return (float)check_random() / 2147483648.0f - 1.0f; }

#endif
