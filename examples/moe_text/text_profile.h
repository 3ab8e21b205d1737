/* text_profile.h: the files that --profile and --trace ask for, written while the network runs.
 * Owns: both files and the ring of events. Relies on: the library, trace_json.h.
 * Must never: hold a run up; a full ring drops events and says how many. */
#ifndef TEXT_PROFILE_H
#define TEXT_PROFILE_H

#include "brainstorm.h"
#include "text_options.h"

#include <stdio.h>

typedef struct text_profile {
    bs_profile *profile; /* for the session; NULL when no file is asked for */
    FILE *file;
    void *trace, *memory;
    const char *path, *trace_path;
    char message[320];
} text_profile;

/* False: `message` says why, as in close. */
bool text_profile_open(text_profile *profile, const text_options *options);
/* After the session. `dropped`: events that found no room. */
bool text_profile_close(text_profile *profile, uint64_t *dropped);

#endif
