/* fuzz.h - what every fuzzer shares: numbers out of the input, promises, a generator for mutators.
 *
 * Each fuzz_NAME.c has one entry, LLVMFuzzerTestOneInput. With FUZZ_ENGINE it is linked with libFuzzer (`make fuzz`)
 * and may have a mutator of its own; without, replay.c feeds it the files of a corpus, with any compiler (`make test`).
 *
 * Relies on: nothing. Must never: keep anything from one input to the next. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../wraps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef FUZZ_ENGINE
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most); /* libFuzzer's own */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed);
#endif

/* What holds whatever the input. */
#define FUZZ_PROMISE(holds, ...)                                                       \
    do {                                                                               \
        if (!(holds)) {                                                                \
            fprintf(stderr, "BROKEN PROMISE %s:%d: %s: ", __FILE__, __LINE__, #holds); \
            fprintf(stderr, __VA_ARGS__);                                              \
            fprintf(stderr, "\n");                                                     \
            abort();                                                                   \
        }                                                                              \
    } while (0)

/* --- numbers out of the input: zeros after its end ------------------------------------------------------- */

typedef struct fuzz_bytes {
    const uint8_t *data;
    size_t n, at;
} fuzz_bytes;

static inline uint8_t fuzz_u8(fuzz_bytes *b) { return b->at < b->n ? b->data[b->at++] : 0; }
static inline uint16_t fuzz_u16(fuzz_bytes *b)
{
    const uint16_t low = fuzz_u8(b);
    return (uint16_t)(low | fuzz_u8(b) << 8);
}
static inline uint32_t fuzz_u32(fuzz_bytes *b)
{
    const uint32_t low = fuzz_u16(b);
    return low | (uint32_t)fuzz_u16(b) << 16;
}
static inline int32_t fuzz_below(fuzz_bytes *b, int32_t n) { return n <= 256 ? fuzz_u8(b) % n : fuzz_u16(b) % n; }
static inline bool fuzz_flip(fuzz_bytes *b, int32_t of_256) { return fuzz_u8(b) < of_256; }

/* Exactly as long as it says, so that a sanitizer sees the first byte beyond. */
static inline uint8_t *fuzz_copy(const void *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, data, n);
    return copy;
}

/* --- for mutators ---------------------------------------------------------------------------------------- */

typedef struct fuzz_dice {
    uint64_t state;
} fuzz_dice;

CHECK_WRAPS static inline fuzz_dice fuzz_dice_of(uint64_t seed) { return (fuzz_dice){seed * 0x9E3779B97F4A7C15u + 1}; }

CHECK_WRAPS static inline uint32_t fuzz_roll(fuzz_dice *d)
{
    d->state ^= d->state >> 12;
    d->state ^= d->state << 25;
    d->state ^= d->state >> 27;
    return (uint32_t)((d->state * 0x2545F4914F6CDD1Du) >> 32);
}

static inline uint32_t fuzz_pick(fuzz_dice *d, size_t n) { return n ? fuzz_roll(d) % (uint32_t)n : 0; }
static inline bool fuzz_chance(fuzz_dice *d, uint32_t percent) { return fuzz_roll(d) % 100 < percent; }

/* Numbers on which arithmetic breaks: few bits, all bits, neighbours of powers of two. */
static inline uint64_t fuzz_odd_u64(fuzz_dice *d)
{
    switch (fuzz_pick(d, 8)) {
    case 0: return fuzz_pick(d, 4);
    case 1: return UINT64_MAX - fuzz_pick(d, 4);
    case 2: return (uint64_t)1 << fuzz_pick(d, 64);
    case 3: return ((uint64_t)1 << fuzz_pick(d, 64)) - 1;
    case 4: return ((uint64_t)1 << fuzz_pick(d, 64)) + 1 + fuzz_pick(d, 70);
    case 5: return (uint64_t)INT64_MAX - fuzz_pick(d, 4096);
    case 6: return UINT64_MAX / (1 + fuzz_pick(d, 300));
    default: return fuzz_pick(d, 5000);
    }
}

/* Mostly small: a parameter, a count, an operand. */
static inline int32_t fuzz_odd_i32(fuzz_dice *d)
{
    static const int32_t odd[] = {INT32_MIN,   INT32_MAX,  -1,         -2,         -3,         255,
                                  256,         65535,      65536,      65537,      1 << 24,    1 << 30,
                                  -65536,      -65537,     -65538,     -131073,    0x7f800000, 0x7fc00000,
                                  -0x00800000, 0x3f800000, 0x3f000000, 0x00000001, 0x7f7fffff};
    const uint32_t kind = fuzz_pick(d, 10);
    if (kind < 6)
        return (int32_t)fuzz_pick(d, 6);
    if (kind < 8)
        return (int32_t)fuzz_pick(d, 70);
    return kind == 8 ? odd[fuzz_pick(d, sizeof odd / sizeof *odd)] : (int32_t)(uint32_t)fuzz_odd_u64(d);
}

#endif
