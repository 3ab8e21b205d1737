/* budget.h - how long a random or a sweeping test goes on: in processor time of its own process, so that it takes fewer
 * cases where the build or the machine is slow, and as many beside other programs as without them.
 *
 * A test has kinds of cases and takes one of each in turn. Of each kind some are taken however long they take, so that
 * what the test promises is looked at in every build. TEST_BUDGET=20 in the environment: seconds instead of the test's
 * own; TEST_BUDGET=all: every case there is. Which cases are taken depends on nothing but how many there are: the same
 * ones first every time.
 * Owns: when to stop. Must never: stop before the least, nor look at a clock on the wall. */
#ifndef BS_TEST_BUDGET_H
#define BS_TEST_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct budget {
    clock_t begun;
    double seconds; /* below 0: no end */
} budget;

static inline double budget_used(const budget *b) { return (double)(clock() - b->begun) / CLOCKS_PER_SEC; }

/* No end: all cases are asked for. */
static inline budget budget_whole(void) { return (budget){clock(), -1}; }

/* seconds: what the test takes where nothing else is asked for. */
static inline budget budget_of(double seconds)
{
    const char *asked = getenv("TEST_BUDGET");
    budget b = {clock(), seconds};
    if (asked && strcmp(asked, "all") == 0)
        b.seconds = -1;
    else if (asked && *asked) {
        char *end;
        b.seconds = strtod(asked, &end);
        if (*end || !(b.seconds >= 0)) {
            printf("FAIL TEST_BUDGET=%s: expected seconds, or all\n", asked);
            exit(1);
        }
    }
    if (b.seconds >= 0)
        printf("a part of the cases: %g s of the processor (TEST_BUDGET=all: all of them)\n", b.seconds);
    return b;
}

/* Whether one more case is taken, when `done` of a kind are. */
static inline bool budget_left(const budget *b, int32_t done, int32_t least, int32_t most)
{
    return done < most && (done < least || b->seconds < 0 || budget_used(b) < b->seconds);
}

#endif
