/* profile/profile.h - what happened in a session, from its threads to the caller's writer, and the layout of the file
 * that results. Owns what a session calls and the records of the file (docs/profile.md). Relies on base/base.h. Must
 * never know of plans or sessions: functions of the session fill in the header. */
#ifndef BS_PROFILE_H
#define BS_PROFILE_H

#include "base/base.h"
#include "brainstorm_replay.h"

/* ------------------------------------------------------------------------------------------- for sessions */

typedef struct bs_profile_router {
    const char *name;
    int32_t paths;
} bs_profile_router;

typedef struct bs_profile_unit {
    const char *name;
    int32_t router, path; /* router from 1, path from 0; 0, -1: needed in every run */
    uint64_t read_bytes, slot_bytes;
} bs_profile_unit;

typedef struct bs_profile_phase {
    int32_t router; /* from 1; 0: all units are needed in every run */
    int32_t n_units;
    const int32_t *units; /* [n_units] */
} bs_profile_phase;

/* What events refer to. Each function fills one record; index from 0 (of routers and nodes: number - 1). What a record
 * points to must live until bs_profile_header returns. A count of 0 needs no function. */
typedef struct bs_profile_header_desc {
    const void *user;
    int32_t n_routers, n_units, n_phases;
    void (*router)(const void *user, int32_t index, bs_profile_router *router);
    void (*unit)(const void *user, int32_t index, bs_profile_unit *unit);
    void (*phase)(const void *user, int32_t index, bs_profile_phase *phase);
    uint64_t slot_bytes, chunk_bytes;
    int32_t policy, speculation;
    int32_t n_nodes; /* told only where ops are recorded */
    const char *(*node)(const void *user, int32_t index, bs_node_facts *node); /* returns its block's name */
} bs_profile_header_desc;

#if defined(BS_NO_PROFILE) /* no session records anything */
static inline bs_status bs_profile_header(bs_profile *profile, const bs_profile_header_desc *desc)
{
    return (void)profile, (void)desc, BS_OK;
}
static inline void bs_profile_add(bs_profile *profile, const bs_event *event) { (void)profile, (void)event; }
static inline int32_t bs_profile_takes_ops(const bs_profile *profile) { return (void)profile, 0; }
static inline unsigned bs_profile_added(bs_profile *profile) { return (void)profile, 0; }
#else
/* Writes the header. Called once, before the first event, on one thread; calls the caller's function at once.
 * BS_ERROR_ARGUMENT when the profile has a header already; a failed write shows in bs_profile_close. NULL profile:
 * does nothing. */
bs_status bs_profile_header(bs_profile *profile, const bs_profile_header_desc *desc);
/* Called from any thread; never waits. NULL profile: does nothing. */
void bs_profile_add(bs_profile *profile, const bs_event *event);
/* bs_profile_desc.ops. NULL profile: 0. */
int32_t bs_profile_takes_ops(const bs_profile *profile);
/* How many events were added so far; wraps, so that only differences count. */
unsigned bs_profile_added(bs_profile *profile);
#endif

/* ------------------------------------------------------------------------------------------------ the file
 * Records as they are in memory: hosts are little-endian, and nothing in them is padding. */

#define BS_PROFILE_MAGIC 0x46505342u /* "BSPF" */
#define BS_PROFILE_VERSION 2
#define BS_PROFILE_VERSION_PLAIN 1 /* without nodes: what is written where ops are not recorded */

typedef struct bs_profile_file {
    uint32_t magic, version;
    uint32_t header_bytes, event_bytes; /* of this record and of an event: bytes beyond the known ones are skipped */
    uint32_t routers, units, phases, phase_units;
    uint64_t slot_bytes, chunk_bytes;
    int32_t policy, speculation;
    uint32_t nodes, rest; /* version 1: 0; rest: padding, 0 */
} bs_profile_file;

typedef struct bs_profile_file_router {
    char name[BS_MAX_NAME];
    int32_t paths, rest;
} bs_profile_file_router;

typedef struct bs_profile_file_unit {
    char name[BS_MAX_NAME];
    int32_t router, path;
    uint64_t read_bytes, slot_bytes;
} bs_profile_file_unit;

typedef struct bs_profile_file_phase {
    int32_t router, n_units;
} bs_profile_file_phase;

typedef struct bs_profile_file_node {
    char name[BS_MAX_NAME], block[BS_MAX_NAME], op[24];
    int32_t router, path;
    double flops, bytes, weight_bytes;
} bs_profile_file_node;

_Static_assert(sizeof(bs_profile_file) == 64, "the file's header");
_Static_assert(sizeof(bs_profile_file_router) == 72, "a router of the file");
_Static_assert(sizeof(bs_profile_file_unit) == 88, "a unit of the file");
_Static_assert(sizeof(bs_profile_file_phase) == 8, "a phase of the file");
_Static_assert(sizeof(bs_profile_file_node) == 184, "a node of the file");
_Static_assert(sizeof(bs_event) == 40 && offsetof(bs_event, value) == 16 && offsetof(bs_event, subject) == 24 &&
                   offsetof(bs_event, kind) == 32 && offsetof(bs_event, thread) == 34 &&
                   offsetof(bs_event, reserved) == 36,
               "an event of the file");

/* ----------------------------------------------------------------------------------------------- reading */

typedef struct bs_profile_place {
    int32_t router, path;
} bs_profile_place;

/* The tables of an open profile, in its arena. */
typedef struct bs_profile_tables {
    const bs_profile_file_router *routers;
    const bs_profile_file_node *nodes;
    const bs_trace_unit *units;
    const bs_profile_place *places; /* of the units */
    const bs_trace_phase *phases;
    const int32_t *phase_units;
    int32_t n_units, n_phase_units;
} bs_profile_tables;
#if !defined(BS_NO_PROFILE) && !defined(BS_NO_REPLAY)
const bs_profile_tables *bs_profile_tables_of(const bs_profile_reader *reader);
#endif

#endif
