/* base/debug.h - mistakes that only the calling program can make, found in builds with BS_DEBUG.
 * Relies on base/base.h and, in those builds alone, on assert(). Must never check files, streams or tensors: whatever
 * comes from outside is checked in every build, and a fault in it is returned as an error. */
#ifndef BS_DEBUG_H
#define BS_DEBUG_H

#include "base/base.h"

/* Live objects begin with one of these. */
#define BS_MARK_GRAPH 0x47525342u /* "BSRG" */
#define BS_MARK_PLAN 0x50525342u
#define BS_MARK_SESSION 0x53525342u

#if defined(BS_DEBUG)
#undef NDEBUG /* BS_DEBUG is explicit: checks even where NDEBUG is set */
#include <assert.h>
#define BS_DEBUG_CHECK(condition) assert(condition)

static inline bool bs_disjoint(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    return a_bytes == 0 || b_bytes == 0 || (uintptr_t)a + a_bytes <= (uintptr_t)b ||
           (uintptr_t)b + b_bytes <= (uintptr_t)a;
}
#else
#define BS_DEBUG_CHECK(condition) ((void)0)
#endif

#endif
