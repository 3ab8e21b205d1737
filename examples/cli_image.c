/* cli_image.c: `brainstorm plan --save`: the image of a plan, for a board that opens it (bs_plan_open).
 * Owns: nothing. Relies on: cli.h, files.h. Must never: leave half a file where the plan was refused.
 */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool save_failed(bs_error *error, const char *path, const char *why)
{
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_IO;
    snprintf(error->message, sizeof error->message, "%.150s: %.80s", path, why);
    return false;
}

static bool write_image(const void *image, size_t bytes, int output, const char *path, bs_error *error)
{
    FILE *stream = files_empty(cli_files()) ? files_stream(cli_files(), output) : NULL;
    if (!stream)
        return save_failed(error, path, "cannot be emptied");
    fwrite(image, 1, bytes, stream); /* files_close tells whether all of it came there */
    return files_close(stream) || save_failed(error, path, strerror(errno));
}

int cli_save_open(const char *path, bs_error *error)
{
    const int output = files_add(cli_files(), FILES_WRITE, "the plan", path);
    if (output >= 0)
        return output;
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_IO;
    snprintf(error->message, sizeof error->message, "%.250s", cli_files()->message);
    return -1;
}

bool cli_save_plan(const bs_plan *plan, int output, const char *path, bs_error *error)
{
    const size_t bytes = bs_plan_image_bytes(plan);
    void *image = malloc(bytes);
    const bool good = image ? bs_plan_save(plan, image, bytes, error) == BS_OK &&
                                  write_image(image, bytes, output, path, error)
                            : save_failed(error, path, "no memory for the image");
    free(image);
    if (good)
        printf("\n%s: the plan, %llu bytes\n", path, (unsigned long long)bytes);
    return good;
}
