/* profile_sink.c: see profile_sink.h. */
#include "profile_sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_BYTES = 1 << 20, /* 16384 events */
    ARENA_BYTES = 4096
};

static int write_both(void *user, const void *data, size_t bytes)
{
    profile_sink *s = user;
    const bool filed = !s->file || fwrite(data, 1, bytes, s->file) == bytes;
    const bool traced = !s->trace || trace_json_write(s->trace, data, bytes) == 0;
    return !filed || !traced;
}

static bool ends_in_json(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

static bool refuse(profile_sink *s, bs_error *error, const char *path, const char *why)
{
    profile_sink_close(s, NULL);
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_IO;
    snprintf(error->message, sizeof error->message, "%.150s: %s", path, why);
    return false;
}

static bool refuse_file(profile_sink *s, bs_error *error, const char *path)
{
    char why[80];
    snprintf(why, sizeof why, "cannot be written: %s", strerror(errno));
    return refuse(s, error, path, why);
}

bool profile_sink_open(profile_sink *sink, const char *path, bs_error *error)
{
    const bool json = ends_in_json(path);
    return profile_sink_open_both(sink, json ? NULL : path, json ? path : NULL, error);
}

bool profile_sink_open_both(profile_sink *sink, const char *path, const char *trace, bs_error *error)
{
    bs_arena arena;
    memset(sink, 0, sizeof *sink);
    if (path && trace && strcmp(path, trace) == 0)
        return refuse(sink, error, path, "the profile and the trace are the same file");
    if (path && !(sink->file = fopen(path, "wb")))
        return refuse_file(sink, error, path);
    if (trace && !(sink->trace = trace_json_open(trace)))
        return refuse_file(sink, error, trace);
    sink->memory = malloc(ARENA_BYTES + RING_BYTES);
    if (!sink->memory)
        return refuse(sink, error, path ? path : trace, "no memory for a profile");
    bs_arena_init(&arena, "profile", sink->memory, ARENA_BYTES);
    const bs_profile_desc desc = {
        .write = write_both, .user = sink, .memory = (char *)sink->memory + ARENA_BYTES, .bytes = RING_BYTES};
    sink->profile = bs_profile_create(&arena, &desc, error);
    if (sink->profile)
        return true;
    profile_sink_close(sink, NULL);
    return false;
}

bool profile_sink_close(profile_sink *sink, uint64_t *dropped)
{
    const bool written = bs_profile_close(sink->profile, dropped) == BS_OK;
    const bool traced = trace_json_close(sink->trace);
    const bool closed = !sink->file || fclose(sink->file) == 0;
    free(sink->memory);
    memset(sink, 0, sizeof *sink);
    return written && traced && closed;
}
