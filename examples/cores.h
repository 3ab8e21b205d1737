/* cores.h: how many threads a program starts that was not told.
 * Owns: what this process may use of the machine. Relies on: POSIX; on Linux its set of processors. Must never: exceed
 * what a plan takes. */
#ifndef CORES_H
#define CORES_H

enum { CORES_MOST = 64 };

/* Processors that this process may run on, 1 to CORES_MOST. */
int cores_usable(void);

#endif
