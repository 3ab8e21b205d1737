/* flat_file.h: weights that no model has: random numbers in a scratch file, streamed as those of a model are.
 *
 * Owns: the file, from flat_create to flat_delete, under a name that no other file has; one contiguous record a block
 * at a multiple of 4096, without heads.
 * Relies on: a bs_platform for all reading, so that a slow device can be put in between.
 * Must never: be left behind; hold weights in memory.
 */
#ifndef FLAT_FILE_H
#define FLAT_FILE_H

#include "brainstorm.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct flat_weight {
    char name[BS_MAX_WEIGHT_NAME];
    bs_weight_info info; /* handle: its index */
    int32_t block;
    uint64_t offset;
} flat_weight;

typedef struct flat_file {
    char path[512];
    bool made; /* the file is there, to be deleted */
    FILE *out;
    uint64_t bytes;
    flat_weight *weights;
    bs_record *blocks;
    int32_t *index; /* by hash of the name: weight + 1 */
    int32_t n_weights, room_weights, n_blocks, room_blocks, n_index;
    bool failed;
} flat_file;

/* In $TMPDIR, else in build/, else here. `failed` is sticky: ask flat_finish. */
void flat_create(flat_file *file, const char *name);
void flat_block(flat_file *file); /* what is added from here on is of the next block; the first is 0 */
/* f32, uniform in -scale .. scale, the same in every run. */
void flat_add(flat_file *file, const char *name, const char *suffix, int32_t rank, const int64_t *dim, float scale);
bool flat_finish(flat_file *file); /* all of it is on the device */
void flat_delete(flat_file *file);

typedef struct flat_source {
    const flat_file *file;
    const bs_platform *platform;
    int64_t handle, direct; /* for loading at once, and for streaming */
    uint32_t alignment;
} flat_source;

bool flat_open(flat_source *source, const flat_file *file, const bs_platform *platform);
bs_weights flat_weights(const flat_source *source);
void flat_close(flat_source *source);

#endif
