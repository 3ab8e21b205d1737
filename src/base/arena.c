/* base/arena.c - bump arenas over the caller's memory. Relies on base/base.h. Must never allocate. */
#include "base/base.h"

void bs_arena_init(bs_arena *arena, const char *name, void *memory, size_t bytes)
{
    const size_t slack = memory ? bs_to_aligned(memory, BS_ALIGNMENT) : 0;
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
    if (!arena)
        return NULL;
    const bs_bytes end = bs_bytes_add(bs_bytes_of(arena->used), bs_bytes_align(bs_bytes_of(bytes)));
    uint8_t *memory = arena->base ? arena->base + arena->used : NULL;
    if (!memory || !bs_bytes_fit(end, arena->size, &arena->used))
        return NULL;
    if (arena->used > arena->high_water)
        arena->high_water = arena->used;
    return memory;
}

void *bs_take(bs_arena *arena, bs_bytes bytes)
{
    size_t size;
    return bs_bytes_fit(bytes, SIZE_MAX, &size) ? bs_arena_take(arena, size) : NULL;
}

void *bs_take_zeros(bs_arena *arena, bs_bytes bytes)
{
    void *memory = bs_take(arena, bytes);
    return memory ? memset(memory, 0, (size_t)bs_bytes_figure(bytes)) : NULL;
}

void *bs_lend(bs_arena *arena, bs_bytes bytes)
{
    size_t end = 0;
    const bs_bytes whole = bs_bytes_align(bytes);
    if (!arena->base || !bs_bytes_fit(bs_bytes_add(bs_bytes_of(arena->used), whole), arena->size, &end))
        return NULL;
    const size_t free_bytes = (arena->size - end) / BS_ALIGNMENT * BS_ALIGNMENT;
    if (end > arena->high_water)
        arena->high_water = end;
    return arena->base + arena->used + free_bytes;
}

bool bs_arenas_apart(const bs_arena *a, const bs_arena *b)
{
    const uintptr_t first = (uintptr_t)a->base, second = (uintptr_t)b->base;
    return first + a->size <= second || second + b->size <= first;
}

void *bs_take_before(bs_arena *arena, bs_bytes bytes, const void *end)
{
    size_t size = 0;
    const size_t room = (size_t)((const uint8_t *)end - (arena->base + arena->used));
    return bs_bytes_fit(bytes, room, &size) ? bs_arena_take(arena, size) : NULL;
}

void *bs_carve_bytes(bs_carver *carver, bs_bytes bytes)
{
    const bs_bytes at = bs_bytes_put(&carver->used, bytes);
    return carver->base ? bs_bytes_at(carver->base, at) : NULL;
}

void *bs_carve(bs_carver *carver, uint64_t count, size_t each)
{
    return bs_carve_bytes(carver, bs_bytes_product(bs_bytes_of(count), bs_bytes_of(each)));
}

void bs_carve_arrays(bs_carver *carver, void *object, const bs_carved *arrays, size_t n, const int64_t *counts)
{
    for (size_t i = 0; i < n; i++) {
        void *memory = bs_carve(carver, (uint64_t)counts[arrays[i].count], arrays[i].each);
        memcpy((uint8_t *)object + arrays[i].offset, &memory, sizeof memory); /* a pointer to any type */
    }
}

void bs_move_arrays(bs_carver *carver, void *object, const bs_carved *arrays, size_t n, const int64_t *counts)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t *const pointer = (uint8_t *)object + arrays[i].offset;
        const size_t count = (size_t)counts[arrays[i].count], each = arrays[i].each;
        void *to = bs_carve(carver, count, each), *from;
        memcpy(&from, pointer, sizeof from);
        memmove(to, from, count * each);
        memcpy(pointer, &to, sizeof to);
    }
}
