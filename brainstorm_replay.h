/* brainstorm_replay.h - reading what a run has recorded, and running it again on a scripted clock.
 * MIT licence, see LICENSE.
 *
 * For programs on a workstation that look into profiles, which bs_profile_create of brainstorm.h records. A program
 * that only runs networks does without this header. The functions are in brainstorm.c, unless BS_NO_PROFILE,
 * BS_NO_STREAM or BS_NO_REPLAY leaves them out; it compiles without this file beside it. Limits: the table of
 * brainstorm.h.
 *
 * CONTENTS
 *   events      what a profile has of a run
 *   profiles    the file, event by event
 *   traces      what a run needed from storage
 *   replay      the same run with other slots, policies and storage
 */
#ifndef BRAINSTORM_REPLAY_H
#define BRAINSTORM_REPLAY_H

#include "brainstorm.h"

#if BS_VERSION_MAJOR != 0 || BS_VERSION_MINOR != 1 || BS_VERSION_PATCH != 0
#error "brainstorm.h and brainstorm_replay.h are of different versions"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------------------- events
 * A profile (docs/profile.md) is little-endian: a header that names units, routers and phases, then events. */
typedef enum bs_event_kind {
    BS_EVENT_NONE,
    BS_EVENT_RUN,      /* a run, when it is over: subject = its number */
    BS_EVENT_DECISION, /* subject = router, index = path, value = cells; one for each path with cells */
    BS_EVENT_PHASE,    /* a phase was reached: subject = phase, value = units needed; end = when it was left */
    BS_EVENT_USE,      /* subject = unit, index = phase, value = bs_use; start, end: computed */
    BS_EVENT_STALL,    /* subject = unit waited for first, index = phase */
    BS_EVENT_GUESS,    /* a look-ahead's prediction: subject = unit, index = phase, value = strength, 0 .. 7 */
    BS_EVENT_READ,     /* a chunk: subject = unit, index = chunk, value = bytes; thread = lane */
    BS_EVENT_PREPARE,  /* the same chunk: packed into its slot */
    BS_EVENT_LOADED,   /* subject = unit, index = 1: begun by a guess; start = when its load began */
    BS_EVENT_EVICT,    /* subject = unit, index = 1: to make room for a guess */
    BS_EVENT_DROP,     /* subject = unit: a load was given up */
    BS_EVENT_DROPPED,  /* value = events that found no room, since the last of these */
    BS_EVENT_OP,       /* subject = node, index = 1: in a tile, by one thread; else all share the work; value = rows */
    BS_EVENT_TILE,     /* its ops come before it: subject = router, index = path, value = rows; 0, 0: no path */
    BS_EVENT_COUNT
} bs_event_kind;

typedef enum bs_use { BS_USE_HIT, BS_USE_LATE, BS_USE_MISS } bs_use;

typedef struct bs_event {
    uint64_t start_ns, end_ns; /* of the platform's clock; equal where it is a moment */
    uint64_t value;
    int32_t subject, index;
    int16_t kind;   /* bs_event_kind */
    int16_t thread; /* lane of reads; of ops and tiles 0 .. threads - 1 */
    int32_t reserved; /* 0 */
} bs_event;

/* --------------------------------------------------------------------------------------------- profiles */
#if !defined(BS_NO_PROFILE) && !defined(BS_NO_REPLAY)
/* Reads a profile again, event by event. The file is hostile: every count and number is checked, kinds of events that
 * are not known are passed over, and a last event that was cut off is left out. */
typedef struct bs_profile_reader bs_profile_reader;
typedef struct bs_profile_facts {
    int32_t routers, units, phases;
    uint64_t events;     /* in the file, of any kind */
    uint64_t torn_bytes; /* of an event cut off at the end */
    uint64_t slot_bytes, chunk_bytes;
    int32_t policy, speculation;
    int32_t nodes; /* 0: ops were not recorded */
} bs_profile_facts;
typedef struct bs_profile_router_facts {
    char name[BS_MAX_NAME];
    int32_t paths;
} bs_profile_router_facts;
/* Its tables lie in `arena`: some 100 bytes a unit and a router, 200 a node, 16 a phase, and 5000. reader: copied; used
 * by bs_profile_next until the end. NULL on failure, and the arena is as it was. There is nothing to close. */
bs_profile_reader *bs_profile_open(bs_arena *arena, const bs_reader *reader, bs_error *error);
void bs_profile_facts_get(const bs_profile_reader *profile, bs_profile_facts *facts);
/* from 1 */
bs_status bs_profile_router_get(const bs_profile_reader *profile, int32_t router, bs_profile_router_facts *facts);
/* From 0. read_bytes (may be NULL): of storage. units: room for `n_units` numbers (may be NULL). */
bs_status bs_profile_unit_get(const bs_profile_reader *profile, int32_t unit, bs_stream_unit_facts *facts,
                              uint64_t *read_bytes);
bs_status bs_profile_phase_get(const bs_profile_reader *profile, int32_t phase, bs_stream_phase_facts *facts,
                               int32_t *units);
/* A node, from 1, as bs_graph_node_get told of it, but: op, name and block's name are text of the profile. */
typedef struct bs_profile_node_facts {
    const char *op, *name, *block;
    int32_t router, path; /* whose rows it works on; router 0: outside all paths */
    double flops, bytes, weight_bytes;
} bs_profile_node_facts;
bs_status bs_profile_node_get(const bs_profile_reader *profile, int32_t node, bs_profile_node_facts *facts);
/* The next event, its subject and index in range and its end not before its start. False at the end (status of `error`:
 * BS_OK), or when the event is malformed or cannot be read. */
bool bs_profile_next(bs_profile_reader *profile, bs_event *event, bs_error *error);
void bs_profile_rewind(bs_profile_reader *profile); /* to the first event */
#endif

/* ----------------------------------------------------------------------------------------------- traces */
/* What a run needed from storage: made from a profile, or by hand. */
typedef struct bs_trace_unit {
    char name[BS_MAX_NAME];
    uint64_t read_bytes, slot_bytes;
} bs_trace_unit;
typedef struct bs_trace_phase {
    int32_t router; /* from 1; 0: every visit needs all of its units */
    int32_t first_unit, n_units; /* in phase_units, behind those of the phase before */
} bs_trace_phase;
typedef struct bs_trace_visit {
    int32_t phase;
    int32_t first_use, n_uses;
    int32_t first_guess, n_guesses; /* look-aheads made before this visit, since the one before */
    uint64_t before_ns;             /* computed since the visit before, without its uses */
} bs_trace_visit;
typedef struct bs_trace_use {
    int32_t unit;
    int32_t outcome; /* bs_use of the run that was recorded; -1 unknown */
    uint64_t compute_ns;
} bs_trace_use;
typedef struct bs_trace_guess {
    int32_t phase, unit; /* unit -1: this phase is predicted to need nothing */
    int32_t strength;    /* 0 .. 7: how clear the choice was, compared with what is usual */
} bs_trace_guess;
typedef struct bs_trace {
    int32_t n_units, n_phases, n_phase_units, n_visits, n_uses, n_guesses;
    const bs_trace_unit *units;
    const bs_trace_phase *phases;
    const int32_t *phase_units;
    const bs_trace_visit *visits;
    const bs_trace_use *uses;
    const bs_trace_guess *guesses;
    /* Of the run that was recorded; 0 unknown. */
    uint64_t slot_bytes, chunk_bytes, lost_events;
    int32_t policy, speculation;
    double ns_per_byte, prepare_ns_per_byte; /* measured reads */
} bs_trace;
#if !defined(BS_NO_PROFILE) && !defined(BS_NO_REPLAY)
/* Reads and checks a profile (a hostile file). What it points to lies in `arena`, some 100 bytes a use. */
bs_status bs_trace_load(bs_arena *arena, const bs_reader *reader, bs_trace *trace, bs_error *error);
#endif

/* ----------------------------------------------------------------------------------------------- replay */
#if !defined(BS_NO_STREAM) && !defined(BS_NO_REPLAY)
/* The same queue, slots, policies and predictors as in a session, on a scripted clock: one storage device that reads
 * one chunk at a time, one thread that computes. */
typedef struct bs_replay_desc {
    uint64_t slot_bytes;
    uint64_t bytes_per_second; /* of storage; required */
    uint64_t latency_ns;       /* of a read */
    double prepare_ns_per_byte;
    int32_t chunk_bytes; /* [262144] */
    int32_t lanes;       /* [2] that prepare; reads take turns */
    bs_stream_desc stream;
} bs_replay_desc;
typedef struct bs_replay_result {
    bs_stream_stats stats;
    bs_prediction predictions[BS_PREDICTOR_COUNT];
    uint64_t time_ns, compute_ns;
    uint64_t oracle_ns; /* perfect knowledge: reads in the order of need, each as soon as what is needed later can make
                           room: load_i = max(load_i-1, free_i) + read_i; done_i = max(done_i-1, load_i) + compute_i, at
                           the best of several limits on how far ahead is read (0: Belady's replacement on demand) */
    uint64_t oracle_bytes;
} bs_replay_result;
/* workspace: bs_replay_bytes. `result` is of the whole trace. */
size_t bs_replay_bytes(const bs_trace *trace);
bs_status bs_replay(const bs_trace *trace, const bs_replay_desc *desc, bs_arena *workspace, bs_replay_result *result,
                    bs_error *error);
#endif

#ifdef __cplusplus
}
#endif
#endif
