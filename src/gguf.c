/* gguf.c - the GGUF version 3 reader: one pass over the header.
 * Relies on gguf.h. Must never assert on what it reads, recurse, or loop more often than the header has bytes. */
#include "gguf.h"

/* --------------------------------------------------------------------------------------------------- pass */

/* State of the one pass. `what` says where in the header we are, for the message when it ends early. */
typedef struct gguf_pass {
    bs_gguf *gguf;
    bs_cursor cursor;
    bs_error *error;
    const char *what;
    uint32_t index;
    uint64_t *hashes; /* of names, for the check on duplicates */
} gguf_pass;

static bs_status gguf_fail_read(gguf_pass *p)
{
    const bs_status status = p->cursor.status;
    if (status == BS_ERROR_IO)
        return bs_fail(p->error, status, "reading %s %u failed at byte %llu", p->what, (unsigned)p->index,
                       (unsigned long long)p->cursor.at);
    return bs_fail(p->error, BS_ERROR_FORMAT, "%s %u is malformed or runs over the end, at byte %llu", p->what,
                   (unsigned)p->index, (unsigned long long)p->cursor.at);
}

static bs_status gguf_fail_here(gguf_pass *p, const char *why)
{
    return bs_fail(p->error, BS_ERROR_FORMAT, "%s %u %s, at byte %llu", p->what, (unsigned)p->index, why,
                   (unsigned long long)p->cursor.at);
}

static void *gguf_take(gguf_pass *p, bs_arena *arena, uint64_t count, size_t each, bs_status *status)
{
    const uint64_t bytes = bs_mul_u64(count, each); /* count is capped: far from SIZE_MAX */
    void *memory = bs_arena_take(arena, (size_t)(bytes ? bytes : 1));
    if (!memory)
        *status = bs_fail_arena(p->error, arena, bytes, "the index of a GGUF file");
    return memory;
}

/* ------------------------------------------------------------------------------------------------- header */

static bs_status gguf_version(gguf_pass *p)
{
    const uint32_t version = bs_cursor_u32(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if ((version & 0xffff) == 0 && version != 0)
        return bs_fail(p->error, BS_ERROR_VERSION, "the file is big-endian");
    if (version != 3)
        return bs_fail(p->error, BS_ERROR_VERSION, "GGUF version %u, expected 3", (unsigned)version);
    return BS_OK;
}

/* A count is believed when its records can fit into what is left. */
static bs_status gguf_count(gguf_pass *p, const char *what, uint64_t least_bytes, uint32_t cap, uint32_t *count)
{
    const uint64_t n = bs_cursor_u64(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (n > bs_cursor_left(&p->cursor) / least_bytes)
        return bs_fail(p->error, BS_ERROR_FORMAT, "%llu %s cannot fit into the file", (unsigned long long)n, what);
    if (n > cap)
        return bs_fail(p->error, BS_ERROR_LIMIT, "%llu %s, at most %u are supported", (unsigned long long)n, what,
                       (unsigned)cap);
    *count = (uint32_t)n;
    return BS_OK;
}

static bs_status gguf_header(gguf_pass *p)
{
    char magic[4] = {0};
    p->what = "GGUF header";
    if (!bs_cursor_take(&p->cursor, magic, 4))
        return gguf_fail_read(p);
    if (memcmp(magic, "GGUF", 4) != 0)
        return bs_fail(p->error, BS_ERROR_FORMAT, "not a GGUF file: it does not start with \"GGUF\"");
    bs_status status = gguf_version(p);
    if (status == BS_OK) /* name of 1 byte, rank 1, type, offset; key of 1 byte, type, value of 1 byte */
        status = gguf_count(p, "tensors", 8 + 1 + 4 + 8 + 4 + 8, BS_GGUF_MAX_TENSORS, &p->gguf->n_tensors);
    if (status == BS_OK)
        status = gguf_count(p, "keys", 8 + 1 + 4 + 1, BS_GGUF_MAX_KEYS, &p->gguf->n_keys);
    return status;
}

/* --------------------------------------------------------------------------------------------------- keys */

static uint32_t gguf_type_bytes(uint32_t type)
{
    static const uint8_t bytes[BS_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < BS_GGUF_TYPE_COUNT ? bytes[type] : 0;
}

static bs_status gguf_skip_elements(gguf_pass *p, const bs_gguf_key *key)
{
    const uint32_t bytes = gguf_type_bytes(key->type);
    if (bytes)
        return bs_cursor_skip(&p->cursor, bs_mul_u64(key->count, bytes)) ? BS_OK : gguf_fail_read(p);
    for (uint64_t i = 0; i < key->count; i++) /* every turn consumes 8 bytes or ends */
        if (!bs_cursor_skip(&p->cursor, bs_cursor_u64(&p->cursor)))
            return gguf_fail_read(p);
    return BS_OK;
}

static bs_status gguf_value(gguf_pass *p, bs_gguf_key *key)
{
    key->type = bs_cursor_u32(&p->cursor);
    key->count = 1;
    key->is_array = key->type == BS_GGUF_ARRAY;
    if (key->is_array) {
        key->type = bs_cursor_u32(&p->cursor);
        key->count = bs_cursor_u64(&p->cursor);
    }
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (key->type >= BS_GGUF_TYPE_COUNT)
        return gguf_fail_here(p, "has a type that does not exist");
    if (key->type == BS_GGUF_ARRAY)
        return gguf_fail_here(p, "is an array of arrays, which is not supported");
    key->at = p->cursor.at;
    const bs_status status = gguf_skip_elements(p, key);
    key->end = p->cursor.at;
    return status;
}

static bs_status gguf_key(gguf_pass *p, bs_gguf_key *key)
{
    char name[BS_GGUF_MAX_KEY_BYTES + 1];
    if (!bs_cursor_text(&p->cursor, name, sizeof name))
        return gguf_fail_read(p);
    if (!name[0])
        return gguf_fail_here(p, "has no name");
    key->hash = bs_name_hash(name, strlen(name));
    p->hashes[p->index] = key->hash;
    return gguf_value(p, key);
}

static bs_status gguf_keys(gguf_pass *p)
{
    p->what = "key";
    for (p->index = 0; p->index < p->gguf->n_keys; p->index++) {
        const bs_status status = gguf_key(p, &p->gguf->keys[p->index]);
        if (status != BS_OK)
            return status;
    }
    if (!bs_hashes_unique(p->hashes, p->gguf->n_keys))
        return bs_fail(p->error, BS_ERROR_FORMAT, "a key occurs twice");
    return BS_OK;
}

static bs_status gguf_alignment(gguf_pass *p)
{
    const bs_gguf_key *key = bs_gguf_find(p->gguf, "general.alignment");
    p->gguf->alignment = 32;
    if (!key)
        return BS_OK;
    if (key->is_array || key->type != BS_GGUF_U32)
        return bs_fail(p->error, BS_ERROR_FORMAT, "general.alignment is not a u32");
    bs_cursor cursor;
    bs_gguf_cursor(p->gguf, key, &cursor);
    const uint64_t n = bs_cursor_u32(&cursor);
    if (cursor.status != BS_OK)
        return bs_fail(p->error, cursor.status, "general.alignment could not be read");
    if (n < 8 || n > BS_GGUF_MAX_ALIGNMENT || (n & (n - 1)) != 0)
        return bs_fail(p->error, BS_ERROR_FORMAT, "general.alignment is %llu, expected a power of two from 8 to %d",
                       (unsigned long long)n, BS_GGUF_MAX_ALIGNMENT);
    p->gguf->alignment = n;
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ tensors */

/* Bytes an element of the plain types; 0 for quantised and unknown ones. */
static uint32_t gguf_tensor_type_bytes(uint32_t type)
{
    switch (type) {
    case 0: return 4;  /* F32 */
    case 1: return 2;  /* F16 */
    case 24: return 1; /* I8 */
    case 25: return 2; /* I16 */
    case 26: return 4; /* I32 */
    case 27: return 8; /* I64 */
    case 28: return 8; /* F64 */
    case 30: return 2; /* BF16 */
    default: return 0;
    }
}

static bs_status gguf_tensor_shape(gguf_pass *p, bs_gguf_tensor *tensor)
{
    tensor->rank = bs_cursor_u32(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (tensor->rank < 1 || tensor->rank > 4)
        return gguf_fail_here(p, "has a rank outside 1..4");
    for (uint32_t i = 0; i < 4; i++)
        tensor->dim[i] = i < tensor->rank ? bs_cursor_u64(&p->cursor) : 1;
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    tensor->bytes = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dim[i] == 0 || tensor->dim[i] > INT64_MAX)
            return gguf_fail_here(p, "has a dimension that is zero or beyond 2^63");
        tensor->bytes = bs_mul_u64(tensor->bytes, tensor->dim[i]);
    }
    return BS_OK;
}

static bs_status gguf_tensor_type(gguf_pass *p, bs_gguf_tensor *tensor)
{
    tensor->type = bs_cursor_u32(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    const uint32_t each = gguf_tensor_type_bytes(tensor->type);
    if (each == 0)
        return bs_fail(p->error, BS_ERROR_UNSUPPORTED, "tensor %u has type %u, which is not one of the plain types",
                       (unsigned)p->index, (unsigned)tensor->type);
    tensor->bytes = bs_mul_u64(tensor->bytes, each);
    if (tensor->bytes > p->gguf->source.size)
        return gguf_fail_here(p, "is larger than the file");
    return BS_OK;
}

static bs_status gguf_tensor_name(gguf_pass *p, bs_gguf_tensor *tensor)
{
    char name[BS_GGUF_MAX_NAME_BYTES + 1];
    tensor->name_at = p->cursor.at;
    if (!bs_cursor_text(&p->cursor, name, sizeof name))
        return gguf_fail_read(p);
    if (!name[0])
        return gguf_fail_here(p, "has no name");
    p->hashes[p->index] = bs_name_hash(name, strlen(name));
    return BS_OK;
}

/* Tensors follow each other in listed order, padded: so they cannot overlap and leave no holes. */
static bs_status gguf_tensor_place(gguf_pass *p, bs_gguf_tensor *tensor, uint64_t *running)
{
    tensor->offset = bs_cursor_u64(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (tensor->offset != *running)
        return gguf_fail_here(p, "does not start where the one before it ends");
    *running = bs_add_u64(*running, bs_add_u64(tensor->bytes, p->gguf->alignment - 1) & ~(p->gguf->alignment - 1));
    return *running <= p->gguf->source.size ? BS_OK : gguf_fail_here(p, "ends beyond the file");
}

static bs_status gguf_tensor(gguf_pass *p, bs_gguf_tensor *tensor, uint64_t *running)
{
    bs_status status = gguf_tensor_name(p, tensor);
    if (status == BS_OK)
        status = gguf_tensor_shape(p, tensor);
    if (status == BS_OK)
        status = gguf_tensor_type(p, tensor);
    return status == BS_OK ? gguf_tensor_place(p, tensor, running) : status;
}

/* From `at` to the next multiple of the alignment there are zeros: what is changed there is damage as well. */
static bs_status gguf_padding(gguf_pass *p, uint64_t at)
{
    const uint64_t padded = bs_add_u64(at, p->gguf->alignment - 1) & ~(p->gguf->alignment - 1);
    const uint64_t end = padded < p->gguf->source.size ? padded : p->gguf->source.size;
    uint8_t piece[512];
    for (uint64_t bytes = 0; at < end; at += bytes) {
        bytes = end - at < sizeof piece ? end - at : sizeof piece;
        const bs_status status = bs_source_read(&p->gguf->source, at, piece, bytes);
        if (status != BS_OK)
            return bs_fail(p->error, status, "reading the padding at byte %llu failed", (unsigned long long)at);
        for (uint64_t i = 0; i < bytes; i++)
            if (piece[i] != 0)
                return bs_fail(p->error, BS_ERROR_FORMAT, "padding is not zero at byte %llu", (unsigned long long)(at + i));
    }
    return BS_OK;
}

/* Where data starts is known only behind the last record: offsets become absolute, and the end is checked, here. */
static bs_status gguf_data(gguf_pass *p, uint64_t data_bytes)
{
    bs_gguf *gguf = p->gguf;
    gguf->data = bs_add_u64(p->cursor.at, gguf->alignment - 1) & ~(gguf->alignment - 1);
    if (gguf->n_tensors > 0 && bs_add_u64(gguf->data, data_bytes) > gguf->source.size)
        return bs_fail(p->error, BS_ERROR_FORMAT, "the file is cut short: %llu bytes, its tensors end at %llu",
                       (unsigned long long)gguf->source.size, (unsigned long long)bs_add_u64(gguf->data, data_bytes));
    bs_status status = gguf_padding(p, p->cursor.at);
    for (uint32_t i = 0; status == BS_OK && i < gguf->n_tensors; i++) {
        gguf->tensors[i].offset += gguf->data;
        status = gguf_padding(p, gguf->tensors[i].offset + gguf->tensors[i].bytes);
    }
    return status;
}

static bs_status gguf_tensors(gguf_pass *p)
{
    uint64_t running = 0;
    p->what = "tensor";
    for (p->index = 0; p->index < p->gguf->n_tensors; p->index++) {
        const bs_status status = gguf_tensor(p, &p->gguf->tensors[p->index], &running);
        if (status != BS_OK)
            return status;
    }
    if (!bs_hashes_unique(p->hashes, p->gguf->n_tensors))
        return bs_fail(p->error, BS_ERROR_FORMAT, "a tensor's name occurs twice");
    return gguf_data(p, running);
}

/* --------------------------------------------------------------------------------------------------- open */

static bs_status gguf_index(gguf_pass *p, bs_arena *arena)
{
    bs_gguf *gguf = p->gguf;
    bs_status status = BS_OK;
    gguf->keys = gguf_take(p, arena, gguf->n_keys, sizeof *gguf->keys, &status);
    if (gguf->keys)
        gguf->tensors = gguf_take(p, arena, gguf->n_tensors, sizeof *gguf->tensors, &status);
    return status;
}

static bs_status gguf_body(gguf_pass *p, bs_arena *arena)
{
    const uint32_t most = p->gguf->n_keys > p->gguf->n_tensors ? p->gguf->n_keys : p->gguf->n_tensors;
    const size_t mark = arena->used;
    bs_status status = BS_OK;
    p->hashes = gguf_take(p, arena, most, sizeof *p->hashes, &status);
    if (status == BS_OK)
        status = gguf_keys(p);
    if (status == BS_OK)
        status = gguf_alignment(p);
    if (status == BS_OK)
        status = gguf_tensors(p);
    arena->used = mark; /* the hashes are done with */
    return status;
}

bs_status bs_gguf_open(bs_gguf *gguf, const bs_source *source, bs_arena *arena, bs_error *error)
{
    const size_t mark = arena->used;
    gguf_pass pass;
    memset(gguf, 0, sizeof *gguf);
    memset(&pass, 0, sizeof pass);
    gguf->source = *source;
    pass.gguf = gguf;
    pass.error = error;
    bs_cursor_init(&pass.cursor, &gguf->source, 0, source->size);
    bs_status status = gguf_header(&pass);
    if (status == BS_OK)
        status = gguf_index(&pass, arena);
    if (status == BS_OK)
        status = gguf_body(&pass, arena);
    if (status != BS_OK)
        arena->used = mark;
    return status;
}

/* ------------------------------------------------------------------------------------------------- access */

const bs_gguf_key *bs_gguf_find(const bs_gguf *gguf, const char *name)
{
    const uint64_t hash = bs_name_hash(name, strlen(name));
    for (uint32_t i = 0; i < gguf->n_keys; i++)
        if (gguf->keys[i].hash == hash)
            return &gguf->keys[i];
    return NULL;
}

void bs_gguf_cursor(const bs_gguf *gguf, const bs_gguf_key *key, bs_cursor *cursor)
{
    bs_cursor_init(cursor, &gguf->source, key ? key->at : 0, key ? key->end : 0);
}
