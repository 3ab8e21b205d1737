/* cores.c: see cores.h. */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity: taskset and containers leave a process fewer than there are */
#include <sched.h>
#endif
#include "cores.h"

#include <unistd.h>

static long usable(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

int cores_usable(void)
{
    const long n = usable();
    return n < 1 ? 1 : n > CORES_MOST ? CORES_MOST : (int)n;
}
