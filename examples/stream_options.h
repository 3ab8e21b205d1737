/* stream_options.h: what the example programs share about streaming of weights: options, a profile of the run, figures.
 *
 * Owns: the texts and checks of the options below; while a run lasts, what records it and a slow platform.
 * Relies on: brainstorm.h, arenas.h, throttle.h, files.h, profile_sink.h, words.h.
 * Must never: decide what a program runs, or write anything but the files that were named.
 *
 *     stream_options o = {0};                                    while parsing: stream_options_flag, _value
 *     stream_tools_open(&tools, &o, &files, &error)              early: a file that cannot be made is told of then
 *     model = bs_model_open_file(&arena, tools.platform, ...);   if (o.buffered) bs_model_use_buffered(model)
 *     stream_options_plan(&o, graph, &plan_desc, &error)         then bs_plan_bytes, bs_plan_create
 *     stream_options_session(&o, &tools, &session_desc)          then bs_session_create
 *     stream_facts_get(&facts, plan, session)                    after the last run: stream_summary, stream_json
 *     bs_session_close, bs_model_close, stream_tools_close(&tools, &dropped)
 */
#ifndef STREAM_OPTIONS_H
#define STREAM_OPTIONS_H

#include "brainstorm.h"
#include "profile_sink.h"
#include "throttle.h"

#include <stdio.h>

/* Lines of a usage text. */
#define STREAM_OPTIONS_USAGE                                                                                           \
    "  --slots BYTES     memory for the weights of blocks, which are read from the model file when they are needed,\n" \
    "                    or guessed to be: BYTES[K|M|G] (K = 1024), or N% of what all take [0: all stay resident]\n"   \
    "  --speculate S     auto | off: read ahead what will probably be needed [auto]\n"                                 \
    "  --policy P        reuse | lru | lfu: what goes when room is needed [reuse]\n"                                   \
    "  --lanes N         1..8 threads that read [2]\n"                                                                 \
    "  --chunk BYTES     of one read [256K]\n"                                                                         \
    "  --check-records   compare the checksum of every record each time it is read\n"                                  \
    "  --buffered        read through the page cache\n"                                                                \
    "  --throttle SPEED  read no faster than: sd | emmc | nvme | BYTES[K|M|G] a second (K = 1000)\n"                   \
    "  --profile FILE    what happened, event by event, for `brainstorm profile` (FILE.json: a trace)\n"               \
    "  --trace FILE      the same as a Chrome trace (JSON), for ui.perfetto.dev\n"

typedef struct stream_options {
    uint64_t slot_bytes;  /* as in bs_plan_desc, unless: */
    double slot_percent;  /* of all streamed weights; 0: not given */
    int32_t lanes, chunk_bytes;
    bs_stream_desc stream;
    bool buffered;
    uint64_t bytes_per_second; /* 0: no throttle */
    const char *profile, *trace; /* NULL: none */
} stream_options;

typedef enum stream_taken { STREAM_OTHER, STREAM_TAKEN, STREAM_WRONG } stream_taken;

/* An option with a value. STREAM_OTHER: it is none of these. STREAM_WRONG: `message` says what was expected. */
stream_taken stream_options_value(stream_options *o, const char *name, const char *value, char *message, size_t bytes);
/* An option without one. False: it is none of these. */
bool stream_options_flag(stream_options *o, const char *name);

/* Fills the fields of `desc` about streaming; the rest is set already. For a percentage it makes a plan, in memory of
 * its own, and drops it. */
bool stream_options_plan(const stream_options *o, const bs_graph *graph, bs_plan_desc *desc, bs_error *error);

/* ------------------------------------------------------------------------------------------- while it runs */

typedef struct stream_tools {
    const bs_platform *platform; /* NULL: the default */
    profile_sink sink;           /* .profile NULL: nothing is recorded */
    throttle slow;
} stream_tools;

/* tools and f must stay where they are until closed. False: error says why, and there is nothing to close. */
bool stream_tools_open(stream_tools *tools, const stream_options *o, files *f, bs_error *error);
void stream_options_session(const stream_options *o, const stream_tools *tools, bs_session_desc *desc);
/* After the session and the model. False when the profile or the trace is not whole, and errno says why. dropped (may
 * be NULL): events lost because the ring was full. Tools of zeros are fine. */
bool stream_tools_close(stream_tools *tools, uint64_t *dropped);

/* ------------------------------------------------------------------------------------------------- figures */

typedef struct stream_facts {
    bs_stream_plan plan; /* slot_bytes 0: nothing was streamed */
    bs_stream_stats stats;
} stream_facts;

void stream_facts_get(stream_facts *facts, const bs_plan *plan, bs_session *session);
/* Two lines for people; nothing when nothing was streamed. */
void stream_summary(FILE *file, const stream_facts *facts);
/* A JSON object, or null when nothing was streamed. */
void stream_json(FILE *file, const stream_facts *facts);

#endif
