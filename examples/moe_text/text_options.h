/* text_options.h: the command line of moe_text.
 * Owns: the list of options, their texts and checks. Relies on: stream_options.h for --slots and what goes with it,
 *   device_options.h for --device, shipped.h for the default model, words.h.
 * Must never: open anything. */
#ifndef TEXT_OPTIONS_H
#define TEXT_OPTIONS_H

#include "device_options.h"
#include "stream_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX_SEQUENCES 32

typedef struct text_options {
    const char *model, *prompt;
    char shipped[512]; /* where the model lies that ships */
    int length;    /* characters to write, a sequence */
    int sequences; /* 1 .. TEXT_MAX_SEQUENCES */
    double temperature;
    uint64_t seed;
    int threads;
    bool stats, help;
    device_options device;
    stream_options stream;
} text_options;

/* Returns NULL when all is well, else what is wrong (in `message`, or a constant). */
const char *text_options_parse(text_options *options, int argc, char **argv, char *message, size_t bytes);
const char *text_options_usage(void);

#endif
