/* cli_tools.c: see cli.h. */
#include "cli.h"

#include "words.h"

#include <stdlib.h>
#include <string.h>

const char *const cli_policies[] = {
#define POLICY_NAME(name, text) text,
    BS_POLICY_LIST(POLICY_NAME)
#undef POLICY_NAME
        NULL};

int cli_fail(const bs_error *error)
{
    fprintf(stderr, "brainstorm: %s\n", error->message[0] ? error->message : bs_status_text(error->status));
    if (error->status == BS_ERROR_ARENA && error->arena)
        fprintf(stderr, "brainstorm: arena \"%s\": %llu bytes needed, %llu there\n", error->arena,
                (unsigned long long)error->needed, (unsigned long long)error->available);
    return EXIT_FAILURE;
}

int cli_fail_usage(const char *command, const char *what, const char *word)
{
    fprintf(stderr, "brainstorm %s: %s%s%s\nTry brainstorm %s --help.\n", command, what, word ? ": " : "",
            word ? word : "", command);
    return CLI_USAGE;
}

/* ------------------------------------------------------------------------------------------------------ files */

bool cli_say(bs_error *error, bs_status status, const char *what, const char *path)
{
    memset(error, 0, sizeof *error);
    error->status = status;
    snprintf(error->message, sizeof error->message, "%.120s: %.130s", path, what);
    return false;
}

files *cli_files(void)
{
    static files all;
    return &all;
}

bool cli_refused(bs_error *error)
{
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_IO;
    snprintf(error->message, sizeof error->message, "%.250s", cli_files()->message);
    return false;
}

bool cli_add_model(const char *path, bs_error *error)
{
    return (files_add(cli_files(), FILES_NAMED, "the model", path) >= 0 && files_add_stdout(cli_files())) ||
           cli_refused(error);
}

static int64_t read_file(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    FILE *file = user;
    if (fseek(file, (long)offset, SEEK_SET) != 0)
        return -1;
    const size_t n = fread(buffer, 1, bytes, file);
    return ferror(file) ? -1 : (int64_t)n;
}

/* Nothing that is made of a profile takes twice its bytes, and it may be opened twice. */
bool cli_open(cli_file *file, const char *path, bool prints, bs_error *error)
{
    memset(file, 0, sizeof *file);
    files *all = cli_files();
    const int number = files_add(all, FILES_WHOLE, "the profile", path);
    if (number < 0 || (prints && !files_add_stdout(all)))
        return cli_refused(error);
    file->file = files_stream(all, number);
    if (!file->file)
        return cli_say(error, BS_ERROR_ARENA, "no memory to read it", path);
    const uint64_t size = files_bytes(all, number);
    const size_t room = size < SIZE_MAX / 8 ? 4 * (size_t)size + 65536 : 0;
    file->reader = (bs_reader){.user = file->file, .read = read_file, .size = size};
    file->memory = room ? malloc(room) : NULL;
    if (!file->memory)
        return cli_say(error, BS_ERROR_ARENA, "no memory to read it", path);
    bs_arena_init(&file->arena, "profile", file->memory, room);
    return true;
}

void cli_close(cli_file *file)
{
    if (file->file)
        files_close(file->file);
    free(file->memory);
    memset(file, 0, sizeof *file);
}

/* ---------------------------------------------------------------------------------------------------- numbers */

bool cli_bytes(const char *word, uint64_t whole, uint64_t *bytes)
{
    double n;
    if (word_percent(word, &n)) {
        *bytes = (uint64_t)(n <= 1000 ? n / 100 * (double)whole + 0.5 : 0);
        return whole > 0 && n <= 1000;
    }
    const bool good = word_bytes(word, 1024, &n) && n < 1e18;
    *bytes = good ? (uint64_t)(n + 0.5) : 0;
    return good;
}

double cli_ratio(uint64_t n, uint64_t of)
{
    return of ? (double)n / (double)of : 0;
}

const char *cli_size(uint64_t bytes)
{
    static char buffers[8][32];
    static unsigned next;
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    char *text = buffers[next++ % 8];
    double n = (double)bytes;
    int unit = 0;
    while (n >= 10000 && unit < 4) {
        n /= 1024;
        unit++;
    }
    snprintf(text, sizeof buffers[0], unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
    return text;
}

bool cli_grow(void **items, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return true;
    const size_t more = *room ? 2 * *room : 64;
    void *grown = more < SIZE_MAX / size ? realloc(*items, more * size) : NULL;
    if (!grown)
        return false;
    *items = grown;
    *room = more;
    return true;
}
