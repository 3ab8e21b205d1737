/* base/base.h - what every folder uses: saturating sums, alignment, small helpers.
 * Relies on nothing but brainstorm.h and base/bytes.h. Must never know of graphs, ops or files. */
#ifndef BS_BASE_H
#define BS_BASE_H

#include "brainstorm.h"
#include "base/both.h"
#include "base/bytes.h"
#include "base/exact_math.h"
#include "base/messages.h"
#include "base/wrapping.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BS_PAGE_BYTES 4096 /* alignment of offsets, sizes and buffers that direct reads may need */
#define BS_MAX_LANES 8

/* Times and counts saturate: what would wrap becomes UINT64_MAX. Bytes have a type of their own (base/bytes.h). */
static inline uint64_t bs_mul_u64(uint64_t a, uint64_t b)
{
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static inline uint64_t bs_add_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Elements from one value to another. The rows of a plan from a file may lie over each other: then nothing sensible is
 * copied, but nothing undefined happens either. */
static inline void bs_copy(void *to, const void *from, size_t bytes) { memmove(to, from, bytes); }

/* A number of an operand that is checked before it is used, as an index: read once, whatever else writes there
 * meanwhile. */
static inline BS_BOTH int32_t bs_read_once(const void *at) { return *(const volatile int32_t *)at; }

static inline BS_BOTH int32_t bs_min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
static inline BS_BOTH int32_t bs_max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
static inline BS_BOTH int64_t bs_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline BS_BOTH int64_t bs_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline BS_BOTH int32_t bs_clamp_i32(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}
static inline bool bs_in_range(int32_t n, int32_t low, int32_t end) { return n >= low && n < end; }
/* Whether entries [first, first + count) lie within 0 .. end - 1. */
static inline bool bs_is_part(int32_t first, int32_t count, int32_t end)
{
    return first >= 0 && count >= 0 && count <= end - first;
}
/* Difference of times or visits: 0 where `then` is later. */
static inline uint64_t bs_since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }
static inline uint64_t bs_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t bs_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline BS_BOTH int32_t bs_or_default(int32_t v, int32_t fallback) { return v ? v : fallback; }

/* Rounds towards minus infinity; b > 0. */
static inline BS_BOTH int64_t bs_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }
static inline BS_BOTH int64_t bs_ceil_div(int64_t a, int64_t b) { return -bs_floor_div(-a, b); }

/* Bytes from here to the next multiple of a power of two. */
static inline size_t bs_to_aligned(const void *memory, size_t alignment)
{
    const size_t past = (size_t)((uintptr_t)memory & (alignment - 1));
    return past ? alignment - past : 0;
}

/* Hands out blocks of memory one after the other, aligned; with base NULL it only counts them. */
typedef struct bs_carver {
    uint8_t *base;
    bs_bytes used;
} bs_carver;
void *bs_carve(bs_carver *carver, uint64_t count, size_t each); /* (base/arena.c) */
void *bs_carve_bytes(bs_carver *carver, bs_bytes bytes);
/* Carves an array for a pointer: `count` elements of its type. A count below zero is too many. */
#define BS_CARVE(carver, pointer, count) ((pointer) = bs_carve(carver, (uint64_t)(count), sizeof *(pointer)))
/* Arrays that are carved together: of `each` bytes an element, counts[count] of them, for the pointer at `offset` of an
 * object. */
typedef struct bs_carved {
    uint32_t offset : 14, each : 12, count : 6;
} bs_carved;
#define BS_CARVED(type, pointer, count) {offsetof(type, pointer), sizeof *((type *)0)->pointer, count}
void bs_carve_arrays(bs_carver *carver, void *object, const bs_carved *arrays, size_t n, const int64_t *counts);
/* The same, and what the object had there moves along: no array may come to lie further on than it was. */
void bs_move_arrays(bs_carver *carver, void *object, const bs_carved *arrays, size_t n, const int64_t *counts);
#define BS_CARVE_ARRAYS(carver, object, arrays, counts) \
    bs_carve_arrays(carver, object, arrays, sizeof(arrays) / sizeof *(arrays), counts)
/* Takes bytes from an arena, if size_t of this machine holds their number; or NULL. */
void *bs_take(bs_arena *arena, bs_bytes bytes);
void *bs_take_zeros(bs_arena *arena, bs_bytes bytes);
/* The last bytes of what is free in an arena, for as long as nothing is taken of it but by bs_take_before, which takes
 * nothing from `end` on. NULL: there is no room. */
void *bs_lend(bs_arena *arena, bs_bytes bytes);
bool bs_arenas_apart(const bs_arena *a, const bs_arena *b); /* no byte is in both */
void *bs_take_before(bs_arena *arena, bs_bytes bytes, const void *end);
/* A table that may have no entries, but always has an address: its bytes; and the table itself, or NULL with a message
 * that says what it was for (base/error.c). */
bs_bytes bs_table_bytes(uint64_t count, size_t each);
void *bs_take_table(bs_arena *arena, uint64_t count, size_t each, const char *what, bs_error *error);
#if defined(BS_NO_MESSAGES)
#define bs_take_table(arena, count, each, what, error) (bs_take_table)(arena, count, each, BS_TEXT(what), error)
#endif

/* Sorts ids by what `before` says of two of them; equal ones keep their order. buffer: room for `count`
 * (base/sort.c) */
typedef bool (*bs_before)(const void *user, int32_t a, int32_t b);
void bs_sort(int32_t *ids, int32_t *buffer, int32_t count, bs_before before, const void *user);
/* Turns counts of adjacent groups into the index where each group begins. */
static inline void bs_starts_of(int32_t *counts, int32_t n)
{
    for (int32_t i = 0, sum = 0; i < n; i++) {
        const int32_t count = counts[i];
        counts[i] = sum;
        sum += count;
    }
}

/* Name `number` of `count`, which stand one behind the other ("auto\0scalar\0"): a table of pointers takes more bytes.
 * "unknown" for other numbers. (base/error.c) */
const char *bs_name_of(const char *names, int64_t number, int64_t count);

/* Storage conversions (base/dtype.c). Round to nearest even. */
float bs_f16_to_f32(uint16_t h);
/* The nearest code. Saturates before rounding: the bounds are compared as floats, and 2^31 - 1 is not one. NaN gives
 * 0. */
static inline BS_BOTH int32_t bs_f32_to_code(float x, int32_t low, int32_t high)
{
    if (!(x > (float)low))
        return x == x ? low : 0;
    return x >= (float)high ? high : (int32_t)rintf(x);
}

uint16_t bs_f32_to_f16(float f);
float bs_bf16_to_f32(uint16_t h);
uint16_t bs_f32_to_bf16(float f);
/* One element as f32, whatever its type. */
float bs_load_f32(const void *data, bs_dtype dtype, int64_t index);

/* CRC-32 as in zip (base/crc32.c). The first call gets 0, each further call the result of the one before. */
uint32_t bs_crc32(uint32_t crc, const void *data, size_t bytes);

#endif
