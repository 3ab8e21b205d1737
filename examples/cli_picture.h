/* cli_picture.h: pictures as the arrays that networks take and give, as `brainstorm run` is told.
 *
 * Owns: the options that say how a picture becomes an input; which arrays are pictures. Relies on: brainstorm.h, cli.h,
 * pictures/. Must never: guess what a network was trained with.
 */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "brainstorm.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PICTURE_OPTIONS_USAGE                                                                                          \
    "  --resize HxW|input    every picture that is read gets this size; input: the largest of the input it goes to\n"  \
    "  --mean M[,M,M], --scale S[,S,S]   what an f32 input gets of a code c of 0..255: (c - M) S, of each channel if\n"\
    "                        there are three [0 and 1/255]\n"

typedef struct picture_options {
    int64_t height, width; /* 0: as it is */
    bool as_input;
    float mean[3], scale[3];
    int32_t means, scales; /* how many were given: 0, 1, 3 */
} picture_options;

/* An option with a value, of those above. *taken: it is one. False: it is, and the word is not understood. */
bool picture_options_value(picture_options *o, const char *name, const char *word, bool *taken);

/* Whether the name is that of a picture. */
bool picture_is_named(const char *word);
/* The array for an input from a picture, dense, of [1, H, W] or [3, H, W], or with batches of one before; its memory is
 * from malloc. name, word: of the input, and of the file. False: error says why. */
bool picture_read(FILE *file, uint64_t bytes, const char *name, const char *word, const bs_port_facts *port,
                  const picture_options *o, bs_buffer *array, bs_error *error);

/* Whether an output can be a picture: [1, H, W] or [3, H, W], or with one batch before, u8 or f32 of 0 to 1. */
bool picture_is_one(const bs_buffer *b);
/* False: errno says why. */
bool picture_write(FILE *file, const char *word, const bs_buffer *b);

#endif
