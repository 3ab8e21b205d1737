/* cli_tools.c: see cli.h. */
#include "cli.h"

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
    return EXIT_FAILURE;
}

int cli_fail_usage(const char *command, const char *what, const char *word)
{
    fprintf(stderr, "brainstorm %s: %s%s%s\nTry brainstorm %s --help.\n", command, what, word ? ": " : "", word ? word : "", command);
    return CLI_USAGE;
}

/* ------------------------------------------------------------------------------------------------------ files */

static bool say(bs_error *error, bs_status status, const char *what, const char *path)
{
    memset(error, 0, sizeof *error);
    error->status = status;
    snprintf(error->message, sizeof error->message, "%.180s: %s", path, what);
    return false;
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
bool cli_open(cli_file *file, const char *path, bs_error *error)
{
    memset(file, 0, sizeof *file);
    file->file = fopen(path, "rb");
    if (!file->file)
        return say(error, BS_ERROR_IO, "cannot be opened", path);
    const long size = fseek(file->file, 0, SEEK_END) == 0 ? ftell(file->file) : -1;
    if (size < 0)
        return say(error, BS_ERROR_IO, "its size cannot be told", path);
    const size_t room = 4 * (size_t)size + 65536;
    file->reader = (bs_reader){.user = file->file, .read = read_file, .size = (uint64_t)size};
    file->memory = malloc(room);
    if (!file->memory)
        return say(error, BS_ERROR_ARENA, "no memory to read it", path);
    bs_arena_init(&file->arena, "profile", file->memory, room);
    return true;
}

void cli_close(cli_file *file)
{
    if (file->file)
        fclose(file->file);
    free(file->memory);
    memset(file, 0, sizeof *file);
}

/* ---------------------------------------------------------------------------------------------------- numbers */

bool cli_bytes(const char *word, uint64_t unit, uint64_t whole, uint64_t *bytes)
{
    char *end;
    if ((*word < '0' || *word > '9') && *word != '.')
        return false;
    double n = strtod(word, &end);
    if (*end == '%' && whole > 0 && end[1] == 0) {
        *bytes = (uint64_t)(n / 100 * (double)whole + 0.5);
        return n <= 1000;
    }
    for (const char *suffix = "KMG"; *end && *suffix; suffix++) {
        n *= (double)unit;
        if (*end == *suffix || *end == *suffix + 'a' - 'A') {
            end++;
            break;
        }
    }
    *bytes = n < 1e18 ? (uint64_t)(n + 0.5) : 0;
    return *end == 0 && n < 1e18;
}

int32_t cli_name(const char *word, const char *const *names)
{
    for (int32_t i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
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

void cli_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
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
