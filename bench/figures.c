/* figures.c: see figures.h. */
#define _POSIX_C_SOURCE 200809L
#include "figures.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool complain(const figures *r)
{
    fprintf(stderr, "%s: %s\n", r->program, r->files.message);
    return false;
}

static bool complain_system(const figures *r)
{
    fprintf(stderr, "%s: %s: writing failed: %s\n", r->program, r->path, strerror(errno));
    return false;
}

void figures_begin(figures *r, const char *program)
{
    memset(r, 0, sizeof *r);
    files_begin(&r->files);
    r->program = program;
}

bool figures_reads(figures *r, const char *role, const char *path)
{
    return access(path, F_OK) != 0 || files_add(&r->files, FILES_NAMED, role, path) >= 0 || complain(r);
}

bool figures_open(figures *r, const char *path)
{
    if (!files_add_stdout(&r->files))
        return complain(r);
    r->number = path ? files_add(&r->files, FILES_WRITE, "the figures", path) : -1;
    if (path && r->number < 0)
        return complain(r);
    r->path = path;
    return true;
}

FILE *figures_file(figures *r)
{
    if (!files_empty(&r->files)) {
        complain(r);
        return NULL;
    }
    r->stream = files_stream(&r->files, r->number);
    if (!r->stream)
        complain_system(r);
    return r->stream;
}

bool figures_end(figures *r)
{
    const bool ok = !r->stream || files_close(r->stream) || complain_system(r);
    files_end(&r->files);
    return ok;
}
