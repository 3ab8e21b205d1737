/* profile_sink.h: a profile that goes to a file or two, with all that it needs.
 * Owns: the ring, the streams. Relies on: brainstorm.h; files.h, which keeps nothing of a run that is refused or
 * stopped before files_empty; trace_json.h. Must never: hold up the session that is recorded.
 *
 *     profile_sink sink;
 *     if (!profile_sink_open(&sink, &files, "run.bsp", NULL, &error)) ...     "run.json": a Chrome trace at once
 *     bs_session_desc desc = {..., .profile = sink.profile};
 *     ... whatever else can be refused ... files_empty(&files) ... runs ... bs_session_close ...
 *     if (!profile_sink_close(&sink, &dropped)) ...
 */
#ifndef PROFILE_SINK_H
#define PROFILE_SINK_H

#include "files.h"
#include "trace_json.h"

#include "brainstorm.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct profile_sink {
    bs_profile *profile;
    FILE *file; /* or, or both: */
    trace_json *trace;
    files *files;
    bool begun; /* written to */
    int why;    /* errno of what was not written */
    void *memory;
} profile_sink;

/* A profile and a Chrome trace of one run; either may be NULL. Files and sink must stay where they are until the sink
 * is closed. False: error says why, and there is nothing to close. */
bool profile_sink_open(profile_sink *sink, files *f, const char *path, const char *trace, bs_error *error);
/* After the session. Without files_empty files are as they were. False when not everything could be written, and errno
 * says why: then they are, too. dropped (may be NULL): events lost. A sink of zeros is fine. */
bool profile_sink_close(profile_sink *sink, uint64_t *dropped);

#endif
