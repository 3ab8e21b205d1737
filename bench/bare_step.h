/* bare_step.h: steps of an LSTM by its kernel alone, so that a loop can say what it adds.
 * Owns: weights and rows for it. Relies on: src/kernels. Must never: run anything of a plan. */
#ifndef BENCH_BARE_STEP_H
#define BENCH_BARE_STEP_H

#include "brainstorm.h"

/* Processor seconds of `steps` steps of `rows` rows, each on what the one before has left, all of it `times` times.
 * Below 0: there is no memory, or the tier has no kernel for it. */
double bench_bare_steps(bs_tier tier, int32_t inputs, int32_t units, int64_t rows, int32_t steps, int times);

#endif
