/* cli.h: what the commands of `brainstorm` share.
 * Owns: messages, numbers of the command line, files as readers, arrays that grow. Relies on: brainstorm.h, files.h,
 * words.h. Must never: end the program. */
#ifndef CLI_H
#define CLI_H

#include "brainstorm.h"
#include "files.h"

#include <stdio.h>

enum { CLI_USAGE = 2 };

/* Both return the exit status. */
int cli_fail(const bs_error *error);
int cli_fail_usage(const char *command, const char *what, const char *word);
/* Both return false. An error about a file or whatever has a name; and the last one of cli_files(). */
bool cli_say(bs_error *error, bs_status status, const char *what, const char *path);
bool cli_refused(bs_error *error);

/* The files of this program. main() begins and ends them. */
files *cli_files(void);
/* A model, which the library opens by its name. False: it is not there, or standard output is that file. */
bool cli_add_model(const char *path, bs_error *error);

/* A file as a reader, and an arena that holds whatever is made of a profile in it. */
typedef struct cli_file {
    FILE *file;
    bs_reader reader;
    bs_arena arena;
    void *memory;
} cli_file;
/* prints: to standard output, which must be another file. */
bool cli_open(cli_file *file, const char *path, bool prints, bs_error *error);
void cli_close(cli_file *file);

/* BYTES, or with a suffix K, M or G (1024 each), or N% of `whole` (0: not allowed). */
bool cli_bytes(const char *word, uint64_t whole, uint64_t *bytes);
double cli_ratio(uint64_t n, uint64_t of); /* 0 of nothing */
/* "12.3 MiB" in one of a few buffers that take turns. */
const char *cli_size(uint64_t bytes);

/* Room for one more item of `size` bytes behind `count`; false when memory is out. */
bool cli_grow(void **items, size_t *room, size_t count, size_t size);

/* What the plan streams: units, phases, sizes. Returns the exit status. */
int cli_stream(const bs_plan *plan);

/* The image of a plan, to a file of its own. It is opened before anything is printed: what is refused prints nothing.
 * Returns its number among the files, or -1. */
int cli_save_open(const char *path, bs_error *error);
bool cli_save_plan(const bs_plan *plan, int output, const char *path, bs_error *error);

/* What the first GPU is. Returns the exit status. */
int cli_device(void);

extern const char *const cli_policies[]; /* names in the order of bs_policy; ended by NULL */

/* The commands. words: after the command's own name. */
int cli_run(int count, char **words);
int cli_inspect(const char *path);
int cli_check(const char *path);
int cli_plan(int count, char **words);
extern const char cli_plan_usage[]; /* lines of `brainstorm --help` */
int cli_profile(int count, char **words);
int cli_replay(int count, char **words);
int cli_trace(int count, char **words);

#endif
