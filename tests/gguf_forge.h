/* gguf_forge.h: writes small GGUF files for tests, and finds its way in them so that they can be damaged on purpose.
 *
 * Owns: a file in memory.
 * Relies on: nothing but the byte layout of GGUF 3. It shares no code with src/model/gguf.c, which it is there to test.
 * Must never: produce a file that the `gguf` package would not open (unless asked to).
 */
#ifndef GGUF_FORGE_H
#define GGUF_FORGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wraps.h"

enum { FORGE_BYTES = 65536 };
enum { T_U8, T_I8, T_U16, T_I16, T_U32, T_I32, T_F32, T_BOOL, T_STRING, T_ARRAY, T_U64, T_I64, T_F64 };

typedef struct forge {
    uint8_t bytes[FORGE_BYTES];
    size_t n;
    uint64_t n_keys, n_tensors;
    size_t header, data; /* where the header ends and the data begins, once both are written */
} forge;

/* --- writing ----------------------------------------------------------------------------------------- */

static inline void forge_put(forge *f, const void *data, size_t bytes)
{
    if (f->n + bytes > FORGE_BYTES)
        exit(2); /* the test itself is wrong */
    memcpy(f->bytes + f->n, data, bytes);
    f->n += bytes;
}

static inline void forge_u32(forge *f, uint32_t n) { forge_put(f, &n, 4); }
static inline void forge_u64(forge *f, uint64_t n) { forge_put(f, &n, 8); }

static inline void forge_string(forge *f, const char *text)
{
    forge_u64(f, strlen(text));
    forge_put(f, text, strlen(text));
}

static inline uint32_t forge_crc32(const uint8_t *data, uint64_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (uint64_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static inline void forge_begin(forge *f)
{
    memset(f, 0, sizeof *f);
    forge_put(f, "GGUF", 4);
    forge_u32(f, 3);
    forge_u64(f, 0); /* counts: forge_end */
    forge_u64(f, 0);
}

static inline void forge_key(forge *f, const char *key, uint32_t type)
{
    forge_string(f, key);
    forge_u32(f, type);
    f->n_keys++;
}

static inline void forge_key_u32(forge *f, const char *key, uint32_t n)
{
    forge_key(f, key, T_U32);
    forge_u32(f, n);
}

static inline void forge_key_string(forge *f, const char *key, const char *text)
{
    forge_key(f, key, T_STRING);
    forge_string(f, text);
}

static inline void forge_array(forge *f, const char *key, uint32_t type, uint64_t count)
{
    forge_key(f, key, T_ARRAY);
    forge_u32(f, type);
    forge_u64(f, count);
}

static inline void forge_i32s(forge *f, const char *key, const int32_t *n, size_t count)
{
    forge_array(f, key, T_I32, count);
    forge_put(f, n, 4 * count);
}

static inline void forge_i64s(forge *f, const char *key, uint32_t type, const int64_t *n, size_t count)
{
    forge_array(f, key, type, count);
    forge_put(f, n, 8 * count);
}

static inline void forge_strings(forge *f, const char *key, const char *const *text, size_t count)
{
    forge_array(f, key, T_STRING, count);
    for (size_t i = 0; i < count; i++)
        forge_string(f, text[i]);
}

static inline void forge_tensor(forge *f, const char *name, uint64_t bytes, uint64_t offset)
{
    forge_string(f, name);
    forge_u32(f, 1);
    forge_u64(f, bytes);
    forge_u32(f, 24); /* I8 */
    forge_u64(f, offset);
    f->n_tensors++;
}

static inline void forge_pad(forge *f, size_t alignment)
{
    while (f->n % alignment)
        f->bytes[f->n++] = 0;
}

static inline void forge_end(forge *f)
{
    memcpy(f->bytes + 8, &f->n_tensors, 8);
    memcpy(f->bytes + 16, &f->n_keys, 8);
}

/* Puts `bytes` in the place of `removed` bytes of the header; the data moves to the next multiple of `alignment`. */
static inline void forge_splice(forge *f, size_t at, size_t removed, const void *bytes, size_t n, size_t alignment)
{
    static uint8_t behind[FORGE_BYTES];
    const size_t rest = f->header - at - removed, data = f->n - f->data;
    if (f->n + n + alignment > FORGE_BYTES)
        exit(2);
    memcpy(behind, f->bytes + at + removed, rest);
    memcpy(behind + rest, f->bytes + f->data, data);
    memmove(f->bytes + at, bytes, n); /* may be the file's own */
    memcpy(f->bytes + at + n, behind, rest);
    f->n = f->header = at + n + rest;
    forge_pad(f, alignment);
    f->data = f->n;
    forge_put(f, behind + rest, data);
}

/* --- finding one's way ------------------------------------------------------------------------------- */

typedef enum forge_part {
    AT_FILE,    /* byte `index` of the file */
    AT_START,   /* of a key or tensor record: the length of its name */
    AT_NAME,
    AT_TYPE,    /* key: value type. tensor: rank */
    AT_VALUE,   /* key: the value; an array: its element type. tensor: dimensions */
    AT_COUNT,   /* array: count of elements */
    AT_ELEMENT, /* array: element `index` of 4 bytes */
    AT_WIDE,    /* array: element `index` of 8 bytes */
    AT_STRING   /* array: length of string `index` */
} forge_part;

static inline uint64_t forge_read_u64(const forge *f, size_t at)
{
    uint64_t n;
    memcpy(&n, f->bytes + at, 8);
    return n;
}

/* Where the length of `name` stands; no name is part of another record's bytes in our files. */
static inline size_t forge_record(const forge *f, const char *name)
{
    const size_t length = strlen(name);
    for (size_t at = 24; at + 8 + length <= f->n; at++)
        if (forge_read_u64(f, at) == length && memcmp(f->bytes + at + 8, name, length) == 0)
            return at;
    fprintf(stderr, "no record %s\n", name);
    exit(2);
}

static inline size_t forge_find(const forge *f, const char *name, forge_part part, size_t index)
{
    if (part == AT_FILE)
        return index;
    const size_t start = forge_record(f, name), type = start + 8 + strlen(name), elements = type + 4 + 12;
    size_t string = elements;
    switch (part) {
    case AT_FILE: break;
    case AT_START: return start;
    case AT_NAME: return start + 8 + index;
    case AT_TYPE: return type;
    case AT_VALUE: return type + 4 + index;
    case AT_COUNT: return type + 8;
    case AT_ELEMENT: return elements + 4 * index;
    case AT_WIDE: return elements + 8 * index;
    case AT_STRING:
        for (size_t i = 0; i < index; i++)
            string += 8 + (size_t)forge_read_u64(f, string);
        return string;
    }
    return 0;
}

#endif
