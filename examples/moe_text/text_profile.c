/* text_profile.c: see text_profile.h. */
#include "text_profile.h"

#include "trace_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RING_BYTES ((size_t)1 << 20) /* some 20000 events */
#define OBJECT_BYTES ((size_t)4096)  /* the profile itself */

static bool fail(text_profile *p, const char *path, const char *why)
{
    snprintf(p->message, sizeof p->message, "%.60s: %.240s", path, why);
    return false;
}

/* To every file that is open. On the profile's own thread. */
static int write_files(void *user, const void *data, size_t bytes)
{
    text_profile *p = user;
    const bool kept = !p->file || fwrite(data, 1, bytes, p->file) == bytes;
    const bool traced = !p->trace || trace_json_write(p->trace, data, bytes) == 0;
    return !kept || !traced;
}

static bool open_files(text_profile *p)
{
    if (p->path && !(p->file = fopen(p->path, "wb")))
        return fail(p, p->path, strerror(errno));
    if (p->trace_path && !(p->trace = trace_json_open(p->trace_path)))
        return fail(p, p->trace_path, "the file cannot be made");
    return true;
}

bool text_profile_open(text_profile *p, const text_options *o)
{
    bs_arena arena;
    bs_error error = {0};
    *p = (text_profile){.path = o->profile, .trace_path = o->trace};
    if (!p->path && !p->trace_path)
        return true;
    p->memory = malloc(RING_BYTES + OBJECT_BYTES);
    if (!p->memory)
        return fail(p, "profile", "not enough memory");
    if (!open_files(p))
        return false;
    bs_arena_init(&arena, "profile", p->memory, OBJECT_BYTES);
    const bs_profile_desc desc = {.write = write_files, .user = p, .memory = (char *)p->memory + OBJECT_BYTES, .bytes = RING_BYTES};
    p->profile = bs_profile_create(&arena, &desc, &error);
    return p->profile != NULL || fail(p, "profile", error.message);
}

bool text_profile_close(text_profile *p, uint64_t *dropped)
{
    const bool written = bs_profile_close(p->profile, dropped) == BS_OK;
    const bool kept = !p->file || fclose(p->file) == 0, traced = trace_json_close(p->trace);
    free(p->memory);
    p->profile = NULL, p->file = NULL, p->trace = NULL, p->memory = NULL;
    if (written && kept && traced)
        return true;
    return fail(p, p->path ? p->path : p->trace_path, "the profile could not be written");
}
