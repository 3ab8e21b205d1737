/* allocations.h: how often this process has asked for memory, so that a benchmark can say that runs do not.
 * Owns: malloc and its kin, which a program that links this replaces. Relies on: glibc, which has its own beside them.
 * Must never: be linked with a sanitizer, which replaces them too; there, and elsewhere, it counts nothing. */
#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

/* Calls so far, of all threads; -1: they are not counted here. */
long bench_allocations(void);

#endif
