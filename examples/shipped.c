/* shipped.c: see shipped.h. */
#define _XOPEN_SOURCE 700
#include "shipped.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The program's folder without a slash at its end. False: nobody tells. */
static bool program_folder(const char *program, char *folder, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", folder, bytes - 1);
    if (n <= 0) { /* a bare name was found through PATH, and could be anywhere */
        char *real = strchr(program, '/') ? realpath(program, NULL) : NULL;
        n = real ? snprintf(folder, bytes, "%s", real) : -1;
        free(real);
    }
    if (n <= 0 || (size_t)n >= bytes - 1)
        return false;
    folder[n] = 0;
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = 0;
    return true;
}

static bool is_there(const char *folder, const char *between, const char *name, char *path, size_t bytes)
{
    const int n = snprintf(path, bytes, "%s%s/%s", folder, between, name);
    return n > 0 && (size_t)n < bytes && access(path, R_OK) == 0;
}

bool shipped_find(const char *program, const char *name, char *path, size_t bytes)
{
    char folder[PATH_MAX];
    const bool told = program_folder(program ? program : "", folder, sizeof folder);
    if (told && (is_there(folder, "/../models", name, path, bytes) ||
                 is_there(folder, "/../share/brainstorm", name, path, bytes)))
        return true;
    if (is_there("models", "", name, path, bytes))
        return true;
    if (told)
        snprintf(path, bytes, "no %s in %.100s/../models, ../share/brainstorm or models: --model FILE names one", name,
                 folder);
    else
        snprintf(path, bytes, "no %s in models: --model FILE names one", name);
    return false;
}
