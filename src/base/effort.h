/* base/effort.h - how much GCC makes of a part of brainstorm.c, which is compiled as one file, often by -O3: what that
 * adds pays in loops over data, and takes half of the compiler's time elsewhere.
 *
 * Owns:      what tools/amalgamate.py begins and ends a part with that src/ORDER marks:
 *            `once`    builds, loads or plans: -O1;
 *            `loops`   ops, and what calls kernels: no copies of functions and loops for constants and rare cases;
 *                      vectors stay;
 *            `less`    what walks plans and moves whole bytes: nor any for values known on one of several ways;
 *            The Makefile, which compiles parts apart, has levels instead.
 * Relies on: nothing. Headers are outside: their inline functions belong to whoever calls them.
 * Must never: add to what the command line asks for, which may be -O0, -Og or -Os; change what a float becomes (whether
 *            products and sums are fused depends on the level of what holds them, so kernels keep theirs); be in force
 *            where <immintrin.h> or a simd_*.h is read: their inline functions would be calls elsewhere.
 *
 * Unmarked are kernels that are instantiated for tiers, and ops whose loops lose by it. Clang has no such switch.
 */
#ifndef BS_EFFORT_H
#define BS_EFFORT_H

/* GCC for AArch64 keeps a frame pointer in every function unless it is told not to. Tables for unwinding do without
 * one, and it is an instruction of each function and a register of all: 6 KB of the library. */
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("omit-frame-pointer")
#if defined(__OPTIMIZE_SIZE__) /* one prologue for a function, not one for each way that needs it: 1.3 KB */
#pragma GCC optimize("no-shrink-wrap")
#endif
#endif

#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define BS_EFFORT_ONCE _Pragma("GCC push_options") _Pragma("GCC optimize (\"O1\")")
#define BS_EFFORT_LOOPS         \
    _Pragma("GCC push_options") \
    _Pragma("GCC optimize (\"no-inline-functions,no-ipa-cp-clone,no-peel-loops,no-split-loops\")")
#define BS_EFFORT_LESS \
    BS_EFFORT_LOOPS    \
    _Pragma("GCC optimize (\"no-tree-pre,no-tree-vrp,no-unswitch-loops\")")
#define BS_EFFORT_END _Pragma("GCC pop_options")
#else
#define BS_EFFORT_ONCE
#define BS_EFFORT_LOOPS
#define BS_EFFORT_LESS
#define BS_EFFORT_END
#endif

#endif
