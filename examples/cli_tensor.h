/* cli_tensor.h: what `brainstorm run` binds: arrays, pictures, zeros or noise to inputs; outputs to files, to the
 * terminal, beside other arrays.
 *
 * Owns: the memory of one tensor. Relies on: brainstorm.h, cli.h, cli_picture.h, npy.h.
 * Must never: bind what has another type than the network's, unless all of it keeps its value.
 */
#ifndef CLI_TENSOR_H
#define CLI_TENSOR_H

#include "brainstorm.h"
#include "cli_picture.h"
#include "npy.h"

typedef struct cli_tensor {
    const char *name; /* of the port */
    const char *word; /* as it was asked for; NULL: not at all */
    int file;         /* of cli_files(); -1: none */
    bs_port_facts port;
    bs_buffer buffer; /* as it is bound; an output's has its largest extents until it is trimmed */
    npy_array array;  /* owns the memory of all */
    const char *beside; /* of an output: the array that it is compared with; NULL: none */
    npy_array expected; /* that array */
} cli_tensor;

/* What an input's word can be, for usage texts. */
#define CLI_INPUT_WORDS "FILE.npy, FILE.png, .ppm or .pgm, AxBxC (zeros), zeros, random, random:AxBxC"

/* Before the network is built for these extents: reads the file that `word` names, or takes the extents that it says.
 * False: error says what is wrong with it. */
bool cli_tensor_read(cli_tensor *t, const picture_options *pictures, bs_error *error);
/* The extents that are known so far, for bs_model_build; false: none are. */
bool cli_tensor_extents(const cli_tensor *t, bs_model_input *input);
/* When the port's extents are final: memory for what comes from no file, zeros or noise in it. */
bool cli_tensor_fill(cli_tensor *t, bs_error *error);

/* Outputs: memory for the port, and what `word` and `beside` name, so that what cannot be is refused before the run;
 * then after it, where extents come from data, those that the output has. */
bool cli_tensor_room(cli_tensor *t, bs_error *error);
bool cli_tensor_open(cli_tensor *t, bs_error *error);
void cli_tensor_trim(cli_tensor *t, const int64_t *dims);
/* One line or two: type, extents, smallest, largest, mean, first elements; of a list of scores the best. */
void cli_tensor_print(const cli_tensor *t);
/* To the file that `word` names: .npy, or a picture (.ppm, .pgm, .png). */
bool cli_tensor_write(const cli_tensor *t, bs_error *error);
/* Whether `word` is a file that cli_tensor_write knows. */
bool cli_tensor_writes(const char *word);

/* Prints the largest difference between a result and `expected`, and where. Whether they have the same extents, and it
 * is at most tolerance times the largest magnitude of that array. */
bool cli_tensor_compare(const cli_tensor *t, double tolerance);

void cli_tensor_free(cli_tensor *t);

#endif
