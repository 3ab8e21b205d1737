/* profile_sink.c: see profile_sink.h. */
#include "profile_sink.h"
#include "stop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_BYTES = 1 << 22, /* 65536 events */
    ARENA_BYTES = 4096
};

static int write_both(void *user, const void *data, size_t bytes)
{
    profile_sink *s = user;
    s->begun = true;
    stop_enter();
    const bool filed = !s->file || fwrite(data, 1, bytes, s->file) == bytes;
    s->why = !filed && !s->why ? errno : s->why;
    const bool traced = !s->trace || trace_json_write(s->trace, data, bytes) == 0;
    s->why = !traced && !s->why ? errno : s->why;
    stop_leave();
    return !filed || !traced;
}

static bool ends_in_json(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

static bool refuse(profile_sink *s, bs_error *error, bs_status status, const char *why)
{
    profile_sink_close(s, NULL);
    memset(error, 0, sizeof *error);
    error->status = status;
    snprintf(error->message, sizeof error->message, "%.250s", why);
    return false;
}

/* NULL: f->message says why. */
static FILE *open_stream(files *f, const char *role, const char *path)
{
    const int number = files_add(f, FILES_WRITE, role, path);
    FILE *stream = number < 0 ? NULL : files_stream(f, number);
    if (number >= 0 && !stream)
        snprintf(f->message, sizeof f->message, "no memory for %s", role);
    return stream;
}

static bool open_streams(profile_sink *s, const char *path, const char *trace)
{
    if (path && !(s->file = open_stream(s->files, "the profile", path)))
        return false;
    FILE *stream = trace ? open_stream(s->files, "the trace", trace) : NULL;
    if (trace && !stream)
        return false;
    s->trace = trace ? trace_json_start(stream) : NULL;
    if (trace && !s->trace) {
        files_discard(stream);
        snprintf(s->files->message, sizeof s->files->message, "no memory for the trace");
    }
    return !trace || s->trace;
}

bool profile_sink_open(profile_sink *sink, files *f, const char *path, const char *trace, bs_error *error)
{
    bs_arena arena;
    memset(sink, 0, sizeof *sink);
    sink->files = f;
    if (path && !trace && ends_in_json(path))
        trace = path, path = NULL;
    if (!open_streams(sink, path, trace))
        return refuse(sink, error, BS_ERROR_IO, f->message);
    sink->memory = malloc(ARENA_BYTES + RING_BYTES);
    if (!sink->memory)
        return refuse(sink, error, BS_ERROR_ARENA, "no memory for a profile");
    bs_arena_init(&arena, "profile", sink->memory, ARENA_BYTES);
    const bs_profile_desc desc = {
        .write = write_both, .user = sink, .memory = (char *)sink->memory + ARENA_BYTES, .bytes = RING_BYTES, .ops = 1};
    sink->profile = bs_profile_create(&arena, &desc, error);
    if (sink->profile)
        return true;
    profile_sink_close(sink, NULL);
    return false;
}

/* A sink that nothing came to, or not all, leaves its files as they are. */
bool profile_sink_close(profile_sink *sink, uint64_t *dropped)
{
    const bool written = bs_profile_close(sink->profile, dropped) == BS_OK, whole = written && sink->begun;
    int why = sink->why;
    if (!whole)
        trace_json_drop(sink->trace);
    const bool traced = !whole || trace_json_close(sink->trace);
    why = !traced && !why ? errno : why;
    if (!whole)
        files_discard(sink->file);
    const bool closed = !whole || !sink->file || files_close(sink->file);
    why = !closed && !why ? errno : why;
    free(sink->memory);
    memset(sink, 0, sizeof *sink);
    errno = why;
    return written && traced && closed;
}
