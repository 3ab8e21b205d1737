/* trace_json.h: a profile as a Chrome trace, for Perfetto (ui.perfetto.dev) or chrome://tracing.
 * Owns: the conversion, as a sink that takes a profile's bytes in pieces of any size. Relies on: brainstorm.h for the kinds
 * of events, docs/profile.md for the bytes. Must never: trust a number of the profile.
 *
 *     trace_json *trace = trace_json_open("run.json");
 *     bs_profile_desc desc = {.write = trace_json_write, .user = trace, .memory = ring, .bytes = sizeof ring};
 *     ... bs_profile_create, sessions, bs_profile_close ...
 *     if (!trace_json_close(trace)) ...
 */
#ifndef TRACE_JSON_H
#define TRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>

typedef struct trace_json trace_json;

/* NULL when the file cannot be made, or memory is out. */
trace_json *trace_json_open(const char *path);
/* A bs_profile_write. Not 0 when writing failed or the bytes are no profile; nothing more is taken then. */
int trace_json_write(void *trace, const void *data, size_t bytes);
/* Ends the file, which is a trace of nothing when there was nothing. False when anything went wrong. NULL is fine. */
bool trace_json_close(trace_json *trace);

#endif
