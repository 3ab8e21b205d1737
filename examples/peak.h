/* peak.h: what this machine can do at best, measured: the denominators of every share that programs print.
 * Owns: the multiply-add and copy loops, the clock. Relies on: brainstorm.h for tier names.
 * Must never: be measured once for all: other work on the machine changes it, so ask again beside each table. */
#ifndef PEAK_H
#define PEAK_H

#include "brainstorm.h"

double peak_seconds(void);     /* monotonic */
double peak_cpu_seconds(void); /* spent by all threads of the process */

/* Best of several short runs, one thread, processor time. GFLOP/s of f32 multiply-adds at a tier's vector width
 * (scalar: the width that the compiler's baseline has); 0 for a tier that this machine cannot run. */
double peak_gflops(bs_tier tier);

/* GB/s read plus GB/s written by memcpy of `bytes`, one thread, warm. */
double peak_copy_gbs(size_t bytes);

/* GB/s of reading `bytes` again and again, one thread: from whichever cache or memory holds so many. */
double peak_read_gbs(size_t bytes);

#endif
