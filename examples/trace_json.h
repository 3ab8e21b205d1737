/* trace_json.h: a profile as a Chrome trace, for Perfetto (ui.perfetto.dev) or chrome://tracing.
 * Owns: the conversion, as a sink that takes a profile's bytes in pieces of any size. Relies on: brainstorm_replay.h
 * for the kinds of events, docs/profile.md for the bytes. Must never: trust a number of the profile.
 *
 *     trace_json *trace = trace_json_open("run.json");           or trace_json_start(stream)
 *     bs_profile_desc desc = {.write = trace_json_write, .user = trace, .memory = ring, .bytes = sizeof ring};
 *     ... bs_profile_create, sessions, bs_profile_close ...
 *     if (!trace_json_close(trace)) ...
 */
#ifndef TRACE_JSON_H
#define TRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct trace_json trace_json;

/* To a stream, which is written to from the first bytes of a profile on, or at the end. NULL: memory is out. */
trace_json *trace_json_start(FILE *file);
/* To a file of this name, which loses what it held. NULL when it cannot be made, or memory is out. */
trace_json *trace_json_open(const char *path);
/* A bs_profile_write. Not 0 when writing failed or the bytes are no profile; nothing more is taken then. */
int trace_json_write(void *trace, const void *data, size_t bytes);
/* Ends and closes the file, which is a trace of nothing when there was nothing. False when anything went wrong, and
 * errno says why if it was the file, which files.h then leaves as it was. NULL is fine. */
bool trace_json_close(trace_json *trace);
/* Without an end: closes the file, which files.h leaves as it was. NULL is fine. */
void trace_json_drop(trace_json *trace);

#endif
