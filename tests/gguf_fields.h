/* gguf_fields.h: every number and every string of a small GGUF file: where it is, how wide, and of what.
 *
 * Owns: a walk over keys and tensors that shares no code with src/model/gguf.c. Relies on: gguf_forge.h, a file that is
 * sound. Must never: meet a damaged file.
 */
#ifndef GGUF_FIELDS_H
#define GGUF_FIELDS_H

#include "gguf_forge.h"

enum { FIELDS = 1024, RECORDS = 64 };

typedef enum field_kind {
    FIELD_HEADER,
    FIELD_NAME_BYTES,
    FIELD_KEY_TYPE,
    FIELD_ARRAY_COUNT,
    FIELD_STRING_BYTES,
    FIELD_VALUE,
    FIELD_TENSOR,
    FIELD_KINDS
} field_kind;

static const char *const field_kind_names[FIELD_KINDS] = {
    "the header", "lengths of names", "types of keys", "counts of arrays", "lengths of strings", "values", "tensors"
};

typedef struct field {
    field_kind kind;
    size_t at, bytes;
    const char *of; /* the key or tensor */
    size_t index; /* of an array's element */
} field;

typedef struct field_record { size_t at, end; char name[64]; } field_record;

typedef struct fields {
    field field[FIELDS];
    size_t n;
    field_record key[RECORDS], tensor[RECORDS];
    size_t n_keys, n_tensors;
} fields;

static inline size_t field_type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[type];
}

static inline uint32_t field_read_u32(const forge *f, size_t at)
{
    uint32_t n;
    memcpy(&n, f->bytes + at, 4);
    return n;
}

/* Returns where the next one begins. */
static inline size_t field_add(fields *all, field_kind kind, size_t at, size_t bytes, const char *of, size_t index)
{
    if (all->n == FIELDS)
        exit(2);
    all->field[all->n++] = (field){kind, at, bytes, of, index};
    return at + bytes;
}

/* A name; its length is a field. */
static inline size_t field_name(fields *all, const forge *f, size_t at, char *name)
{
    const size_t length = (size_t)forge_read_u64(f, at);
    snprintf(name, 64, "%.*s", (int)length, (const char *)f->bytes + at + 8);
    return field_add(all, FIELD_NAME_BYTES, at, 8, name, 0) + length;
}

static inline size_t field_element(fields *all, const forge *f, size_t at, uint32_t type, const char *of, size_t index)
{
    if (type != T_STRING)
        return field_add(all, FIELD_VALUE, at, field_type_bytes(type), of, index);
    return field_add(all, FIELD_STRING_BYTES, at, 8, of, index) + (size_t)forge_read_u64(f, at);
}

static inline size_t field_key(fields *all, const forge *f, size_t at)
{
    field_record *const r = &all->key[all->n_keys++];
    r->at = at;
    at = field_name(all, f, at, r->name);
    uint32_t type = field_read_u32(f, at);
    size_t count = 1;
    at = field_add(all, FIELD_KEY_TYPE, at, 4, r->name, 0);
    if (type == T_ARRAY) {
        type = field_read_u32(f, at);
        at = field_add(all, FIELD_KEY_TYPE, at, 4, r->name, 1);
        count = (size_t)forge_read_u64(f, at);
        at = field_add(all, FIELD_ARRAY_COUNT, at, 8, r->name, 0);
    }
    for (size_t i = 0; i < count; i++)
        at = field_element(all, f, at, type, r->name, i);
    return r->end = at;
}

static inline size_t field_tensor(fields *all, const forge *f, size_t at)
{
    field_record *const r = &all->tensor[all->n_tensors++];
    r->at = at;
    at = field_name(all, f, at, r->name);
    const uint32_t rank = field_read_u32(f, at);
    at = field_add(all, FIELD_TENSOR, at, 4, r->name, 0);
    for (uint32_t i = 0; i < rank; i++)
        at = field_add(all, FIELD_TENSOR, at, 8, r->name, 1 + i);
    at = field_add(all, FIELD_TENSOR, at, 4, r->name, 5);
    return r->end = field_add(all, FIELD_TENSOR, at, 8, r->name, 6);
}

static inline void fields_find(fields *all, const forge *f)
{
    memset(all, 0, sizeof *all);
    const uint64_t n_tensors = forge_read_u64(f, 8), n_keys = forge_read_u64(f, 16);
    field_add(all, FIELD_HEADER, 0, 4, "magic", 0);
    field_add(all, FIELD_HEADER, 4, 4, "version", 0);
    field_add(all, FIELD_HEADER, 8, 8, "tensors", 0);
    size_t at = field_add(all, FIELD_HEADER, 16, 8, "keys", 0);
    for (uint64_t i = 0; i < n_keys; i++)
        at = field_key(all, f, at);
    for (uint64_t i = 0; i < n_tensors; i++)
        at = field_tensor(all, f, at);
    if (at != f->header)
        exit(2);
}

#endif
