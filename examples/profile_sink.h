/* profile_sink.h: a profile that goes to a file or two, with all that it needs.
 * Owns: the ring, the files. Relies on: brainstorm.h, trace_json.h. Must never: hold up the session that is recorded.
 *
 *     profile_sink sink;
 *     if (!profile_sink_open(&sink, "run.bsp", &error)) ...     "run.json": a Chrome trace at once
 *     bs_session_desc desc = {..., .profile = sink.profile};
 *     ... bs_session_close ...
 *     if (!profile_sink_close(&sink, &dropped)) ...
 */
#ifndef PROFILE_SINK_H
#define PROFILE_SINK_H

#include "trace_json.h"

#include "brainstorm.h"

#include <stdio.h>

typedef struct profile_sink {
    bs_profile *profile;
    FILE *file; /* or, or both: */
    trace_json *trace;
    void *memory;
} profile_sink;

/* sink must stay where it is until closed. False: error says why, and there is nothing to close. */
bool profile_sink_open(profile_sink *sink, const char *path, bs_error *error);
/* A profile and a Chrome trace of one run; either may be NULL. */
bool profile_sink_open_both(profile_sink *sink, const char *path, const char *trace, bs_error *error);
/* After the session. False when not everything could be written. dropped (may be NULL): events lost. A sink of zeros is
 * fine. */
bool profile_sink_close(profile_sink *sink, uint64_t *dropped);

#endif
