/* tiny_model.h: one small model file in memory, an arena to open it in, and the last error.
 *
 * Owns: these. Relies on: gguf_tiny.h; model/model.h of the library.
 * Must never: keep anything beyond tiny_begin().
 */
#ifndef BS_TEST_TINY_MODEL_H
#define BS_TEST_TINY_MODEL_H

#include "../src/model/model.h"
#include "gguf_tiny.h"

static BS_ALIGNED uint8_t arena_memory[1 << 19];
static forge file;
static bs_arena arena;
static bs_error error;

static inline void tiny_begin(extra more)
{
    tiny_write(&file, more);
    memset(&error, 0, sizeof error);
    bs_arena_init(&arena, "persistent", arena_memory, sizeof arena_memory);
}

#endif
