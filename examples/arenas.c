/* arenas.c: see arenas.h. */
#include "arenas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAINT = 0xa5 };

bool arenas_lend(arenas *a, bs_arena *arena, const char *name, uint64_t bytes, bs_error *error)
{
    const bool fits = a->count < ARENAS_MOST && bytes <= SIZE_MAX - BS_ALIGNMENT;
    const size_t rounded = fits ? ((size_t)bytes + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT : 0;
    uint8_t *const base = fits ? aligned_alloc(BS_ALIGNMENT, rounded) : NULL;
    if (!base) {
        *error = (bs_error){.status = BS_ERROR_ARENA, .arena = name, .needed = bytes};
        snprintf(error->message, sizeof error->message, "not enough memory");
        return false;
    }
    if (a->painted)
        memset(base, PAINT, rounded);
    a->blocks[a->count++] = (arenas_block){base, rounded};
    a->bytes += rounded;
    bs_arena_init(arena, name, base, rounded);
    return true;
}

static uint64_t with_slack(uint64_t bytes)
{
    return bytes <= UINT64_MAX - BS_ALIGNMENT ? bytes + BS_ALIGNMENT : UINT64_MAX;
}

bool arenas_lend_session(arenas *a, bs_memory *m, const bs_sizes *s, bs_error *error)
{
    return arenas_lend(a, &m->persistent, "persistent", with_slack(s->persistent), error) &&
           arenas_lend(a, &m->transient, "transient", with_slack(s->transient), error) &&
           arenas_lend(a, &m->staging, "staging", with_slack(s->staging), error) &&
           arenas_lend(a, &m->slots, "slots", with_slack(s->slots), error);
}

void arenas_paint_rest(const arenas *a, const bs_arena *arena)
{
    if (a->painted && arena->base)
        memset(arena->base + arena->used, PAINT, arena->size - arena->used);
}

static uint64_t block_touched(const arenas_block *b)
{
    uint64_t touched = 0;
    for (size_t i = 0; i < b->bytes; i += BS_ALIGNMENT) { /* a line counts when any byte of it changed */
        size_t k = 0;
        while (k < BS_ALIGNMENT && b->base[i + k] == PAINT)
            k++;
        touched += k < BS_ALIGNMENT ? BS_ALIGNMENT : 0;
    }
    return touched;
}

uint64_t arenas_touched(const arenas *a)
{
    uint64_t touched = 0;
    for (int i = 0; i < a->count; i++)
        touched += block_touched(&a->blocks[i]);
    return touched;
}

void arenas_free(arenas *a)
{
    for (int i = 0; i < a->count; i++)
        free(a->blocks[i].base);
    memset(a, 0, sizeof *a);
}
