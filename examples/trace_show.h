/* trace_show.h: events of a profile as slices of a Chrome trace.
 *
 * Owns: tracks, and where on them slices are. Relies on: brainstorm_replay.h, json_text.h. Must never: let slices of a
 * track overlap but for those that hold others, whatever the profile says.
 */
#ifndef TRACE_SHOW_H
#define TRACE_SHOW_H

#include "brainstorm_replay.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TRACE_BESIDE = 7,        /* tracks for what overlaps */
    TRACE_LANES = 64,        /* of reads */
    TRACE_THREADS = 64,      /* of tiles */
    TRACE_FIRST_BESIDE = 2,  /* numbers of tracks; 1: runs */
    TRACE_FIRST_LANE = 10,
    TRACE_FIRST_THREAD = 80
};

typedef struct trace_named {
    char name[BS_MAX_NAME + 1];
    char op[25];        /* of nodes */
    int32_t router;     /* of phases */
    uint64_t read_ns;   /* of units: when their last read began, on: */
    int32_t read_track;
    bool read, guessed; /* a read was shown; it was loaded because of a guess */
} trace_named;

typedef struct trace_table {
    trace_named *items;
    uint32_t count, expected, room;
} trace_table;

/* Slices of one track: where it has come to, and the first start of what the next slice around others holds. */
typedef struct trace_thread {
    uint64_t cursor, floor, first;
    bool named;
} trace_thread;

typedef struct trace_show {
    FILE *file;
    bool any; /* something was written */
    trace_table routers, units, phases, nodes;
    /* The track of runs: where it has come to, the ends of the last slices of each level, and the first start of what
     * the next op, phase and run hold. */
    uint64_t cursor, op_floor, phase_floor, run_floor, op_first, phase_first, run_first;
    uint64_t beside[TRACE_BESIDE], lanes[TRACE_LANES]; /* where those have come to */
    bool beside_named[TRACE_BESIDE], lane_named[TRACE_LANES];
    trace_thread threads[TRACE_THREADS];
    uint64_t uses[3], bytes_read, flows;
} trace_show;

/* After the file's first sign was written: the tracks that are always there. */
void trace_show_begin(trace_show *t);
void trace_show_event(trace_show *t, bs_event *event);

#endif
