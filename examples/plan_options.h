/* plan_options.h: how a network is planned, as the commands of `brainstorm` take it.
 *
 * Owns: the texts and checks of the options below. Relies on: brainstorm.h, words.h; device_options.h and
 * stream_options.h for theirs. Must never: decide which of them a command takes.
 */
#ifndef PLAN_OPTIONS_H
#define PLAN_OPTIONS_H

#include "brainstorm.h"
#include "device_options.h"
#include "stream_options.h"

/* Lines of a usage text. */
#define PLAN_OPTIONS_USAGE                                                                                             \
    "  --code-bits N         8-bit inputs, states and outputs become 16-bit ones with codes of 9 to 15 bits\n"         \
    "  --threads N           worker threads, 1 to 64 [run: the processors here; plan: 1]\n"                            \
    "  --tier NAME           instruction set: scalar, avx2, avx512, neon [the best one here]\n"                        \
    "  --order NAME          breadth or depth [chosen by the planner]\n"                                               \
    "  --conv NAME           direct or winograd [chosen by the planner]\n"                                             \
    "  --patch N             size of cells in pixels [as in the file]\n"                                               \
    "  --dataflow NAME       off: work is done where the file has it, as often as it is there [on]\n"              \
    "  --fusion NAME         off: every op has a kernel of its own [on]\n"                                            \
    "  --force ROUTER=PATH   plan for one path of a router only\n"

typedef struct plan_options {
    bs_plan_desc desc;
    int32_t code_bits;
    device_options device;
    stream_options stream;
} plan_options;

typedef enum plan_taken { PLAN_OTHER, PLAN_TAKEN, PLAN_WRONG } plan_taken;

/* An option with a value, of those above. word stays where it is; what ends a name is written into it. */
plan_taken plan_options_value(plan_options *o, const char *name, char *word);

/* Parts of words: a whole number that begins `word`, and what follows it; NAME=..., where the sign becomes the end of
 * the name (NULL: there is none, or no name). */
bool plan_word_number(const char *word, char **end, long long low, long long high, long long *number);
bool plan_word_i32(const char *word, int32_t low, int32_t high, int32_t *target);
char *plan_word_split(char *word);
/* AxBxC; 0 leaves an extent as it is in the file. */
bool plan_word_extents(const char *word, int32_t *rank, int64_t *dim);

#endif
