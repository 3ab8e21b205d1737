/* scheduler.h: coroutines with stacks of their own, and the platform table that is made of them.
 * Owns: who runs. Relies on: machine.h. Must never: take the processor from a coroutine that does not give it. */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#include "brainstorm.h"

/* What the library may do here: take a clock, start readers, wait for them. There are no files. */
const bs_platform *scheduler_platform(void);
/* The others' turn; returns when it is the caller's again. */
void scheduler_yield(void);
uint64_t scheduler_now_ns(void);
/* Bytes of stack that have been used: of main (0), of a reader (from 1). */
uint32_t scheduler_stack_used(int index);

#endif
