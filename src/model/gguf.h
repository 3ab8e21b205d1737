/* model/gguf.h - GGUF version 3, read only, from any source of bytes.
 * Owns the byte level: keys and tensor records. Relies on base/cursor.h.
 * Must never know what a graph is, assert on what it reads, hold the whole header in memory, or take more steps than
 * the header has bytes. THE FILE IS HOSTILE: each count and length is checked once, against the bytes that are there.
 *
 * It accepts what both the specification and the reference reader accept (power-of-two alignment, tensors in order
 * without gaps, padded to the end, names below 64 bytes), so whatever opens here opens elsewhere. */
#ifndef BS_GGUF_H
#define BS_GGUF_H

#include "base/cursor.h"

#if !defined(BS_NO_MODEL)

#define BS_GGUF_MAX_KEYS (1u << 24) /* so that nothing wraps; the bytes of a file limit its content long before */
#define BS_GGUF_MAX_TENSORS (1u << 24)
#define BS_GGUF_MAX_KEY_BYTES 127
#define BS_GGUF_MAX_NAME_BYTES 63
#define BS_GGUF_MAX_ALIGNMENT 65536

typedef enum bs_gguf_type {
    BS_GGUF_U8, BS_GGUF_I8, BS_GGUF_U16, BS_GGUF_I16, BS_GGUF_U32, BS_GGUF_I32, BS_GGUF_F32, BS_GGUF_BOOL,
    BS_GGUF_STRING, BS_GGUF_ARRAY, BS_GGUF_U64, BS_GGUF_I64, BS_GGUF_F64, BS_GGUF_TYPE_COUNT
} bs_gguf_type;

/* Where the value of a key lies: [at, end) of the file. For an array, these are the bytes of its elements. */
typedef struct bs_gguf_key {
    uint64_t hash; /* of its name */
    bs_bytes name_at; /* where its name lies, the string's length included */
    bs_bytes at, end;
    uint64_t count;   /* elements of an array; else 1 */
    uint32_t type;    /* of the value, or of an array's elements */
    bool is_array;
} bs_gguf_key;

typedef struct bs_gguf_tensor {
    uint64_t hash;
    bs_bytes name_at;
    bs_bytes offset;  /* absolute in the file */
    bs_bytes bytes;   /* without padding */
    uint64_t dim[4];  /* fastest-varying first */
    uint32_t rank, type;
} bs_gguf_tensor;

#define BS_GGUF_TENSOR_I8 24u

typedef struct bs_gguf {
    bs_source source;
    uint64_t alignment;
    bs_bytes data; /* offset of the data section */
    uint32_t n_keys, n_tensors;
    bs_gguf_key *keys;
    bs_gguf_tensor *tensors;
} bs_gguf;

/* Checks the whole header and that every tensor's bytes are there. The index goes to `arena`; `source` is copied.
 * False: it was refused, and the arena is as it was. */
bool bs_gguf_open(bs_gguf *gguf, const bs_source *source, bs_arena *arena, bs_error *error);

/* What opening will take of an arena: bytes that stay, and temporary bytes while header and tensors are read. counts:
 * how many elements the arrays of these names have. */
typedef struct bs_gguf_need {
    bs_bytes bytes, passing_bytes;
} bs_gguf_need;
bool bs_gguf_measure(const bs_source *source, const char *const *names, uint64_t *counts, int32_t n, bs_gguf_need *need,
                     bs_error *error);

/* The key of this name; NULL: there is none. */
const bs_gguf_key *bs_gguf_find(const bs_gguf *gguf, const char *name);
/* The same; refuses a key of another type, and a required key that is missing. */
bool bs_gguf_get(const bs_gguf *gguf, const char *name, bs_gguf_type type, bool is_array, bool required,
                 const bs_gguf_key **key, bs_error *error);
/* A u32 within least .. most. Absent and not required: *number is unchanged. */
bool bs_gguf_u32(const bs_gguf *gguf, const char *name, bool required, uint32_t least, uint32_t most, uint32_t *number,
                 bs_error *error);
/* A cursor over the value (of a string: its bytes, length included). NULL key: an empty cursor. */
void bs_gguf_cursor(const bs_gguf *gguf, const bs_gguf_key *key, bs_cursor *cursor);
/* The string at `at`, which was read before. It is checked again: whoever owns the bytes may have changed them. */
bool bs_gguf_text(const bs_gguf *gguf, bs_bytes at, char *text, size_t bytes, bs_error *error);
#endif

#endif
