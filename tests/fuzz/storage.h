/* storage.h - a file behind a reader, that goes wrong where the input says.
 *
 * Relies on: brainstorm.h. Must never: give bytes beyond the file's end. */
#ifndef FUZZ_STORAGE_H
#define FUZZ_STORAGE_H

#include "brainstorm.h"

#include <stdbool.h>
#include <string.h>

/* What happens from the read `at` on. */
typedef enum storage_kind {
    STORAGE_SOUND,
    STORAGE_FAILS,
    STORAGE_ENDS_EARLY,
    STORAGE_ONE_BYTE,
    STORAGE_MANY_BYTES
} storage_kind;

typedef struct storage {
    const uint8_t *data;
    size_t n;
    storage_kind kind;
    int32_t at, reads;
    uint32_t where; /* which byte is another one */
    size_t every;   /* STORAGE_MANY_BYTES: one in so many */
} storage;

static inline int64_t storage_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    storage *s = user;
    const storage_kind kind = s->kind && ++s->reads > s->at ? s->kind : STORAGE_SOUND;
    const size_t left = offset < s->n ? s->n - (size_t)offset : 0, begin = (size_t)(left ? offset : 0);
    const size_t n = bytes < left ? bytes : left;
    if (kind == STORAGE_FAILS)
        return -1;
    memcpy(buffer, s->data + begin, n);
    for (size_t i = 0; kind >= STORAGE_ONE_BYTE && i < n; i++)
        if (kind == STORAGE_ONE_BYTE ? begin + i == s->where % (s->n + 1)
                                     : (begin + i) % s->every == s->where % s->every)
            ((uint8_t *)buffer)[i] ^= (uint8_t)(1 + (s->where >> 16) % 255);
    return (int64_t)(kind == STORAGE_ENDS_EARLY ? n / 2 : n);
}

#endif
