/* base/bytes.h - a number of bytes, or an offset: a type whose only operations are checked ones.
 *
 * What does not fit becomes BS_BYTES_TOO_MANY, and stays that whatever is done to it: added to, aligned, multiplied by
 * zero, divided. No arena, file or plan has as many bytes, so a sum of sizes from a file or a shape cannot wrap to a
 * small number. It is a struct, so that `a + b` does not compile; it has one field, so that it costs nothing. Elements
 * of a shape are counted as bytes of one each, until they are multiplied by their size.
 *
 * Owns the field `unchecked`, which nothing else may touch (tests/test_bare_sums.sh). Relies on brainstorm.h. C and
 * C++. Must never give a plain number to arithmetic: bs_bytes_fit() gives a size for memory; bs_bytes_figure() is for
 * messages, comparisons with what callers and files say, and the plain fields of public structs. */
#ifndef BS_BYTES_H
#define BS_BYTES_H

#include "brainstorm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bs_bytes {
    uint64_t unchecked;
} bs_bytes;

#define BS_BYTES_TOO_MANY UINT64_MAX

static inline bs_bytes bs_bytes_of(uint64_t n)
{
    const bs_bytes bytes = {n};
    return bytes;
}

static inline bool bs_bytes_known(bs_bytes a) { return a.unchecked != BS_BYTES_TOO_MANY; }
static inline bool bs_bytes_any(bs_bytes a) { return a.unchecked != 0; }
static inline bool bs_bytes_less(bs_bytes a, bs_bytes b) { return a.unchecked < b.unchecked; }
static inline bool bs_bytes_same(bs_bytes a, bs_bytes b) { return a.unchecked == b.unchecked; }
static inline bs_bytes bs_bytes_max(bs_bytes a, bs_bytes b) { return a.unchecked > b.unchecked ? a : b; }
static inline bs_bytes bs_bytes_min(bs_bytes a, bs_bytes b) { return a.unchecked < b.unchecked ? a : b; }

static inline bs_bytes bs_bytes_add(bs_bytes a, bs_bytes b)
{
    return bs_bytes_of(a.unchecked > BS_BYTES_TOO_MANY - b.unchecked ? BS_BYTES_TOO_MANY : a.unchecked + b.unchecked);
}

/* a - b; too many when that is below zero. */
static inline bs_bytes bs_bytes_sub(bs_bytes a, bs_bytes b)
{
    return bs_bytes_of(!bs_bytes_known(a) || b.unchecked > a.unchecked ? BS_BYTES_TOO_MANY : a.unchecked - b.unchecked);
}

/* A count below zero is too many. */
static inline bs_bytes bs_bytes_times(bs_bytes a, int64_t count)
{
    const bool fits = bs_bytes_known(a) && count >= 0 &&
                      (count == 0 || a.unchecked <= BS_BYTES_TOO_MANY / (uint64_t)count);
    return bs_bytes_of(fits ? a.unchecked * (uint64_t)count : BS_BYTES_TOO_MANY);
}

/* Bytes of `count` elements; and the same where the count comes from a file. */
static inline bs_bytes bs_bytes_array(int64_t count, size_t each) { return bs_bytes_times(bs_bytes_of(each), count); }
static inline bs_bytes bs_bytes_product(bs_bytes a, bs_bytes b)
{
    const bool fits = bs_bytes_known(a) && bs_bytes_known(b) &&
                      (b.unchecked == 0 || a.unchecked <= BS_BYTES_TOO_MANY / b.unchecked);
    return bs_bytes_of(fits ? a.unchecked * b.unchecked : BS_BYTES_TOO_MANY);
}

/* Rounded down; parts > 0. */
static inline bs_bytes bs_bytes_share(bs_bytes a, uint64_t parts)
{
    return bs_bytes_of(bs_bytes_known(a) ? a.unchecked / parts : BS_BYTES_TOO_MANY);
}

/* Up and down to a multiple of a power of two. */
static inline bs_bytes bs_bytes_align_to(bs_bytes a, uint64_t alignment)
{
    const uint64_t pad = alignment - 1;
    return bs_bytes_of(a.unchecked > BS_BYTES_TOO_MANY - pad ? BS_BYTES_TOO_MANY : (a.unchecked + pad) & ~pad);
}

static inline bs_bytes bs_bytes_align_down(bs_bytes a, uint64_t alignment)
{
    return bs_bytes_of(bs_bytes_known(a) ? a.unchecked & ~(alignment - 1) : BS_BYTES_TOO_MANY);
}

static inline bs_bytes bs_bytes_align(bs_bytes a) { return bs_bytes_align_to(a, BS_ALIGNMENT); }
static inline bool bs_bytes_aligned_to(bs_bytes a, uint64_t alignment)
{
    return bs_bytes_known(a) && (a.unchecked & (alignment - 1)) == 0;
}

/* Puts bytes, or an array, behind what is *used, aligned; returns where they begin. Every layout is made with this. */
static inline bs_bytes bs_bytes_put(bs_bytes *used, bs_bytes bytes)
{
    const bs_bytes at = *used;
    *used = bs_bytes_add(at, bs_bytes_align(bytes));
    return at;
}

static inline bs_bytes bs_bytes_place(bs_bytes *used, int64_t count, size_t each)
{
    return bs_bytes_put(used, bs_bytes_array(count, each));
}

/* The number for messages (%llu), comparisons and public structs. It must not be used in sums. */
static inline unsigned long long bs_bytes_figure(bs_bytes a) { return a.unchecked; }

/* The size as a size_t, when it is at most `most` and fits: the only way from bytes to memory. False leaves *size
 * alone. */
static inline bool bs_bytes_fit(bs_bytes a, uint64_t most, size_t *size)
{
    if (!bs_bytes_known(a) || a.unchecked > most || a.unchecked > SIZE_MAX)
        return false;
    *size = (size_t)a.unchecked;
    return true;
}

/* An address within memory whose size came from bs_bytes_fit. The planner placed every offset below the total, so none
 * is checked again while a network runs. */
static inline uint8_t *bs_bytes_at(uint8_t *memory, bs_bytes offset) { return memory + (size_t)offset.unchecked; }
static inline const uint8_t *bs_bytes_read_at(const uint8_t *memory, bs_bytes offset)
{
    return memory + (size_t)offset.unchecked;
}
/* Row `row` of rows of `each` bytes, the first at `offset`. */
static inline uint8_t *bs_bytes_row(uint8_t *memory, bs_bytes offset, int32_t row, bs_bytes each)
{
    return memory + (size_t)offset.unchecked + (uint64_t)row * each.unchecked;
}

#endif
