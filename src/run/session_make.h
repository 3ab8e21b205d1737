/* run/session_make.h - what run/session_make.c uses of run/session_memory.c. Relies on run/session.h. Must never be
 * included elsewhere. */
#ifndef BS_SESSION_MAKE_H
#define BS_SESSION_MAKE_H

#include "run/session.h"

/* The session and what it needs of the persistent and transient arenas. NULL when they are too small. */
bs_session *bs_session_carve(bs_memory *memory, const bs_plan *plan, const bs_sizes *sizes, bool own_weights,
                             bs_error *error);

#endif
