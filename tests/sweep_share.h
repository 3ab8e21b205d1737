/* sweep_share.h - how much of a sweep a program does: SWEEP_STRIDE and SWEEP_PART, as tests/sweep.sh sets them. */
#ifndef BS_TEST_SWEEP_SHARE_H
#define BS_TEST_SWEEP_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Every n-th case: SWEEP_STRIDE, or the program's argument; 1 is all of them. SWEEP_PART=k/n: the k-th share, from
 * 0. */
typedef struct sweep_share { size_t stride, part, parts; } sweep_share;

static inline sweep_share sweep_share_of(int argc, char **argv, size_t stride)
{
    sweep_share s = {stride, 0, 1};
    const char *text = argc > 1 ? argv[1] : getenv("SWEEP_STRIDE"), *part = getenv("SWEEP_PART");
    unsigned long long k = 0, n = 1;
    if (text && *text)
        s.stride = (size_t)strtoull(text, NULL, 10);
    if (part && *part)
        sscanf(part, "%llu/%llu", &k, &n);
    s.stride = s.stride ? s.stride : 1;
    s.parts = n > 0 ? (size_t)n : 1;
    s.part = (size_t)k % s.parts;
    if (s.stride > 1 || s.parts > 1)
        printf("a part of the sweep: every case of %zu, share %zu of %zu (SWEEP_STRIDE=1: all of them)\n", s.stride,
               s.part, s.parts);
    return s;
}

static inline bool sweep_takes(const sweep_share *s, size_t index)
{
    return index % s->stride == 0 && index / s->stride % s->parts == s->part;
}

#endif
