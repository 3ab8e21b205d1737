/* progress.h: telling on standard error how far a run has come.
 *
 * Owns: one line: redrawn at most ten times a second on a terminal, printed anew every two seconds elsewhere.
 * Relies on: a monotonic clock, stderr.
 * Must never: write to standard output, which may carry the video, or say anything when quiet.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    int64_t total; /* frames to come, or below 0 where nobody knows */
    int64_t done;
    double start, shown; /* seconds of the clock */
    bool quiet, terminal;
    int columns; /* of the line on the terminal, to wipe what a shorter one leaves */
} progress;

void progress_start(progress *p, int64_t total, bool quiet);
void progress_step(progress *p); /* after each frame */
void progress_end(progress *p);  /* the last line: frames, seconds, average */
/* Puts the cursor on a fresh line, for an error message that comes in between. */
void progress_break(progress *p);

#endif
