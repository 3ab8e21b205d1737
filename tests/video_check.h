/* video_check.h: what the tests of examples/video share: counting, reporting, a seeded generator.
 *
 * Owns: the lines `ok NAME` and `FAIL NAME: why`, the final count.
 * Relies on: being included once per test program.
 * Must never: hide a failure: the exit code is nonzero when any check failed.
 */
#ifndef VIDEO_CHECK_H
#define VIDEO_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *name;
    bool failed;
    int passed_count, failed_count;
} checks;

static void begin(const char *name)
{
    checks.name = name;
    checks.failed = false;
}

/* The first reason is printed; the rest of that test is silent. */
static bool report_failure(const char *format, ...)
{
    va_list arguments;
    if (checks.failed)
        return false;
    checks.failed = true;
    printf("FAIL %s: ", checks.name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    return false;
}

/* check(condition, format, ...): a macro, so that the reason is worked out after the condition. */
#define check(good, ...) ((good) ? true : report_failure(__VA_ARGS__))

static void finish(void)
{
    if (!checks.failed)
        printf("ok %s\n", checks.name);
    checks.passed_count += !checks.failed;
    checks.failed_count += checks.failed;
    fflush(stdout);
}

static int summary(void)
{
    printf("%d passed, %d failed\n", checks.passed_count, checks.failed_count);
    return checks.failed_count ? 1 : 0;
}

static uint32_t random_state = 12345;

static inline uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static inline int random_below(int n) { return (int)(random_bits() % (uint32_t)n); }

#endif
