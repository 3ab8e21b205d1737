/* arena.c - bump arenas over the caller's memory. Relies on base.h. Must never allocate. */
#include "base.h"

void bs_arena_init(bs_arena *arena, const char *name, void *memory, size_t bytes)
{
    const size_t slack = memory ? (size_t)(-(uintptr_t)memory & (BS_ALIGNMENT - 1)) : 0;
    if (!arena)
        return;
    memset(arena, 0, sizeof *arena);
    arena->name = name;
    if (!memory || bytes < slack)
        return;
    arena->base = (uint8_t *)memory + slack;
    arena->size = bytes - slack;
}

void *bs_arena_take(bs_arena *arena, size_t bytes)
{
    const uint64_t end = arena ? bs_add_u64(arena->used, bs_align_u64(bytes)) : 0;
    if (!arena || !arena->base || end > arena->size)
        return NULL;
    uint8_t *memory = arena->base + arena->used;
    arena->used = (size_t)end;
    if (arena->used > arena->high_water)
        arena->high_water = arena->used;
    return memory;
}

void *bs_carve(bs_carver *carver, uint64_t count, uint64_t bytes)
{
    uint8_t *memory = carver->base ? carver->base + carver->used : NULL;
    carver->used = bs_add_u64(carver->used, bs_align_u64(bs_mul_u64(count, bytes)));
    return memory;
}
