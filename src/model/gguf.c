/* model/gguf.c - the GGUF version 3 reader: one pass over the header.
 * Relies on model/gguf.h. Must never assert on what it reads, recurse, or loop more often than the header has bytes. */
#include "model/gguf.h"

#if !defined(BS_NO_MODEL)

/* --------------------------------------------------------------------------------------------------- pass */

/* State of the one pass. `name` and `index` say which record it is at, for messages. */
typedef struct gguf_pass {
    bs_gguf *gguf;
    bs_cursor cursor;
    bs_error *error;
    uint32_t index;
    uint64_t *hashes; /* of names, for the check on duplicates */
    char name[BS_GGUF_MAX_KEY_BYTES + 1];
} gguf_pass;

/* Puts the record in front of what is wrong with it. */
static bs_status gguf_at_record(gguf_pass *p, bs_status status, const char *what)
{
    if (status != BS_OK)
        bs_error_prefix(p->error, "%s %u \"%.64s\": ", what, (unsigned)p->index, p->name);
    return status;
}

static void *gguf_take(gguf_pass *p, bs_arena *arena, uint64_t count, size_t each, bs_status *status)
{
    const bs_bytes bytes = bs_bytes_product(bs_bytes_of(count), bs_bytes_of(each));
    void *memory = bs_take(arena, bs_bytes_max(bytes, bs_bytes_of(1)));
    if (!memory)
        *status = bs_fail_arena(p->error, arena, bytes, "the index of a model file");
    return memory;
}

/* ------------------------------------------------------------------------------------------------- header */

static bs_status gguf_version(gguf_pass *p)
{
    const uint32_t version = bs_cursor_u32(&p->cursor);
    if (p->cursor.status != BS_OK)
        return bs_cursor_fail(&p->cursor, p->error, "the GGUF version");
    if ((version & 0xffff) == 0 && version != 0)
        return bs_fail(p->error, BS_ERROR_VERSION, "the GGUF file is big-endian, expected little-endian");
    if (version != 3)
        return bs_fail(p->error, BS_ERROR_VERSION, "GGUF version %u, expected 3", (unsigned)version);
    return BS_OK;
}

/* A count is believed when its records can fit into what is left. */
static bs_status gguf_count(gguf_pass *p, const char *what, uint64_t least_bytes, uint32_t cap, uint32_t *count)
{
    const uint64_t n = bs_cursor_u64(&p->cursor);
    if (p->cursor.status != BS_OK)
        return bs_cursor_fail(&p->cursor, p->error, "the GGUF header");
    if (n > bs_bytes_figure(bs_bytes_share(bs_cursor_left(&p->cursor), least_bytes)))
        return bs_fail(p->error, BS_ERROR_FORMAT, "%llu %s cannot fit into a file of %llu bytes", (unsigned long long)n,
                       what, (unsigned long long)bs_bytes_figure(p->gguf->source.size));
    if (n > cap)
        return bs_fail(p->error, BS_ERROR_LIMIT, "%llu %s, at most %u are supported", (unsigned long long)n, what,
                       (unsigned)cap);
    *count = (uint32_t)n;
    return BS_OK;
}

static bs_status gguf_header(gguf_pass *p)
{
    char magic[4] = {0};
    if (!bs_cursor_take(&p->cursor, magic, bs_bytes_of(4)))
        return bs_cursor_fail(&p->cursor, p->error, "\"GGUF\"");
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

static bs_status gguf_skip_elements(gguf_pass *p, const bs_gguf_key *key)
{
    static const uint8_t type_bytes[BS_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const uint32_t bytes = type_bytes[key->type]; /* 0: a string */
    bool there = bytes == 0 ||
                 bs_cursor_skip(&p->cursor, bs_bytes_product(bs_bytes_of(key->count), bs_bytes_of(bytes)));
    for (uint64_t i = 0; bytes == 0 && there && i < key->count; i++) /* every turn consumes 8 bytes or ends */
        there = bs_cursor_skip(&p->cursor, bs_bytes_of(bs_cursor_u64(&p->cursor)));
    return there ? BS_OK : bs_cursor_fail(&p->cursor, p->error, "its value");
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
        return bs_cursor_fail(&p->cursor, p->error, "its type");
    if (key->type >= BS_GGUF_TYPE_COUNT)
        return bs_fail(p->error, BS_ERROR_FORMAT, "its type is %u, expected 0 .. %d", (unsigned)key->type,
                       BS_GGUF_TYPE_COUNT - 1);
    if (key->type == BS_GGUF_ARRAY)
        return bs_fail(p->error, BS_ERROR_FORMAT, "it is an array of arrays, expected one of numbers or strings");
    key->at = p->cursor.at;
    const bs_status status = gguf_skip_elements(p, key);
    key->end = p->cursor.at;
    return status;
}

/* Of a key or a tensor: p->name. */
static bs_status gguf_name(gguf_pass *p, size_t bytes, bs_bytes *at, uint64_t *hash)
{
    *at = p->cursor.at;
    if (!bs_cursor_text(&p->cursor, p->name, bytes))
        return bs_cursor_fail(&p->cursor, p->error, "its name");
    if (!p->name[0])
        return bs_fail(p->error, BS_ERROR_FORMAT, "its name is empty");
    *hash = bs_name_hash(p->name, strlen(p->name));
    if (p->hashes)
        p->hashes[p->index] = *hash;
    return BS_OK;
}

static bs_status gguf_key(gguf_pass *p, bs_gguf_key *key)
{
    const bs_status status = gguf_name(p, sizeof p->name, &key->name_at, &key->hash);
    return status == BS_OK ? gguf_value(p, key) : status;
}

/* One that has the hash of another before or behind it. */
static bs_status gguf_fail_twice(gguf_pass *p, bs_bytes name_at, const char *what)
{
    const bs_status status = bs_gguf_text(p->gguf, name_at, p->name, sizeof p->name, p->error);
    return status == BS_OK ? bs_fail(p->error, BS_ERROR_FORMAT, "two %s are called \"%.64s\"", what, p->name) : status;
}

static bs_status gguf_keys(gguf_pass *p)
{
    uint64_t twice;
    bs_gguf_key *const keys = p->gguf->keys;
    for (p->index = 0; p->index < p->gguf->n_keys; p->index++) {
        const bs_status status = gguf_at_record(p, gguf_key(p, &keys[p->index]), "key");
        if (status != BS_OK)
            return status;
    }
    if (bs_hashes_unique(p->hashes, p->gguf->n_keys, &twice))
        return BS_OK;
    p->index = 0;
    while (keys[p->index].hash != twice)
        p->index++;
    return gguf_fail_twice(p, keys[p->index].name_at, "keys");
}

static bs_status gguf_alignment(gguf_pass *p)
{
    uint32_t n = 32;
    const bs_status status = bs_gguf_u32(p->gguf, "general.alignment", false, 8, BS_GGUF_MAX_ALIGNMENT, &n, p->error);
    if (status == BS_OK && (n & (n - 1)) != 0)
        return bs_fail(p->error, BS_ERROR_FORMAT, "key \"general.alignment\" is %u, expected a power of two",
                       (unsigned)n);
    p->gguf->alignment = n;
    return status;
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
        return bs_cursor_fail(&p->cursor, p->error, "its rank");
    if (tensor->rank < 1 || tensor->rank > 4)
        return bs_fail(p->error, BS_ERROR_FORMAT, "its rank is %u, expected 1 .. 4", (unsigned)tensor->rank);
    tensor->bytes = bs_bytes_of(1);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const uint64_t n = tensor->dim[i] = bs_cursor_u64(&p->cursor);
        if (p->cursor.status != BS_OK)
            return bs_cursor_fail(&p->cursor, p->error, "its dimensions");
        if (n == 0 || n > INT64_MAX)
            return bs_fail(p->error, BS_ERROR_FORMAT, "its dimension %u is %llu, expected 1 .. 2^63-1", (unsigned)i,
                           (unsigned long long)n);
        tensor->bytes = bs_bytes_times(tensor->bytes, (int64_t)n);
    }
    return BS_OK;
}

static bs_status gguf_tensor_type(gguf_pass *p, bs_gguf_tensor *tensor)
{
    tensor->type = bs_cursor_u32(&p->cursor);
    tensor->offset = bs_bytes_of(bs_cursor_u64(&p->cursor));
    if (p->cursor.status != BS_OK)
        return bs_cursor_fail(&p->cursor, p->error, "its type and offset");
    const uint32_t each = gguf_tensor_type_bytes(tensor->type);
    if (each == 0)
        return bs_fail(p->error, BS_ERROR_UNSUPPORTED, "its type is %u, expected a plain one: 0, 1, 24 .. 28 or 30",
                       (unsigned)tensor->type);
    tensor->bytes = bs_bytes_times(tensor->bytes, each);
    return BS_OK;
}

/* Tensors follow each other in listed order, padded: so they cannot overlap and leave no holes. */
static bs_status gguf_tensor_place(gguf_pass *p, const bs_gguf_tensor *tensor, bs_bytes *running)
{
    const bs_bytes wanted = *running, size = p->gguf->source.size;
    if (!bs_bytes_same(tensor->offset, wanted))
        return bs_fail(p->error, BS_ERROR_FORMAT, "its offset is %llu, expected %llu: where the one before it ends",
                       (unsigned long long)bs_bytes_figure(tensor->offset),
                       (unsigned long long)bs_bytes_figure(wanted));
    *running = bs_bytes_add(wanted, bs_bytes_align_to(tensor->bytes, p->gguf->alignment));
    if (!bs_bytes_less(size, *running))
        return BS_OK;
    return bs_fail(p->error, BS_ERROR_FORMAT,
                   "%llu bytes of it from offset %llu on, padded, expected within the %llu of the file",
                   (unsigned long long)bs_bytes_figure(tensor->bytes), (unsigned long long)bs_bytes_figure(wanted),
                   (unsigned long long)bs_bytes_figure(size));
}

static bs_status gguf_tensor(gguf_pass *p, bs_gguf_tensor *tensor, bs_bytes *running)
{
    bs_status status = gguf_name(p, BS_GGUF_MAX_NAME_BYTES + 1, &tensor->name_at, &tensor->hash);
    if (status == BS_OK)
        status = gguf_tensor_shape(p, tensor);
    if (status == BS_OK)
        status = gguf_tensor_type(p, tensor);
    return status == BS_OK ? gguf_tensor_place(p, tensor, running) : status;
}

/* From `at` to the next multiple of the alignment there are zeros: what is changed there is damage as well. */
static bs_status gguf_padding(gguf_pass *p, bs_bytes at)
{
    const bs_bytes end = bs_bytes_min(bs_bytes_align_to(at, p->gguf->alignment), p->gguf->source.size);
    uint8_t piece[2048];
    for (bs_bytes bytes; bs_bytes_less(at, end); at = bs_bytes_add(at, bytes)) {
        bytes = bs_bytes_min(bs_bytes_sub(end, at), bs_bytes_of(sizeof piece));
        const bs_status status = bs_source_read(&p->gguf->source, at, piece, bytes);
        if (status != BS_OK)
            return bs_fail(p->error, status, "reading the padding at byte %llu failed",
                           (unsigned long long)bs_bytes_figure(at));
        const size_t length = (size_t)bs_bytes_figure(bytes);
        if (piece[0] == 0 && memcmp(piece, piece + 1, length - 1) == 0)
            continue; /* all are like the first */
        for (size_t i = 0; i < length; i++)
            if (piece[i] != 0)
                return bs_fail(p->error, BS_ERROR_FORMAT, "padding is not zero at byte %llu",
                               (unsigned long long)bs_bytes_figure(bs_bytes_add(at, bs_bytes_of(i))));
    }
    return BS_OK;
}

/* Where data starts is known only behind the last record: offsets become absolute, and the end is checked, here. */
static bs_status gguf_data(gguf_pass *p, bs_bytes data_bytes)
{
    bs_gguf *gguf = p->gguf;
    gguf->data = bs_bytes_align_to(p->cursor.at, gguf->alignment);
    const bs_bytes end = bs_bytes_add(gguf->data, data_bytes);
    if (gguf->n_tensors > 0 && bs_bytes_less(gguf->source.size, end))
        return bs_fail(p->error, BS_ERROR_FORMAT, "the file is cut short: %llu bytes, its tensors end at %llu",
                       (unsigned long long)bs_bytes_figure(gguf->source.size),
                       (unsigned long long)bs_bytes_figure(end));
    bs_status status = gguf_padding(p, p->cursor.at);
    for (uint32_t i = 0; status == BS_OK && i < gguf->n_tensors; i++) {
        gguf->tensors[i].offset = bs_bytes_add(gguf->tensors[i].offset, gguf->data);
        status = gguf_padding(p, bs_bytes_add(gguf->tensors[i].offset, gguf->tensors[i].bytes));
    }
    return status;
}

static bs_status gguf_tensors(gguf_pass *p)
{
    bs_bytes running = bs_bytes_of(0);
    uint64_t twice;
    bs_gguf_tensor *const tensors = p->gguf->tensors;
    for (p->index = 0; p->index < p->gguf->n_tensors; p->index++) {
        const bs_status status = gguf_at_record(p, gguf_tensor(p, &tensors[p->index], &running), "tensor");
        if (status != BS_OK)
            return status;
    }
    if (bs_hashes_unique(p->hashes, p->gguf->n_tensors, &twice))
        return gguf_data(p, running);
    p->index = 0;
    while (tensors[p->index].hash != twice)
        p->index++;
    return gguf_fail_twice(p, tensors[p->index].name_at, "tensors");
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
    bs_cursor_init(&pass.cursor, &gguf->source, bs_bytes_of(0), source->size);
    bs_status status = gguf_header(&pass);
    if (status == BS_OK)
        status = gguf_index(&pass, arena);
    if (status == BS_OK)
        status = gguf_body(&pass, arena);
    if (status != BS_OK)
        arena->used = mark;
    return status;
}

static bs_bytes gguf_table(uint64_t count, size_t each)
{
    const bs_bytes bytes = bs_bytes_product(bs_bytes_of(count), bs_bytes_of(each)); /* as gguf_take: never nothing */
    return bs_bytes_align(bs_bytes_max(bytes, bs_bytes_of(1)));
}

/* The same pass without an index: it keeps one key at a time. */
bs_status bs_gguf_measure(const bs_source *source, const char *const *names, uint64_t *counts, int32_t n,
                          bs_gguf_need *need, bs_error *error)
{
    bs_gguf gguf;
    gguf_pass pass;
    memset(&gguf, 0, sizeof gguf);
    memset(&pass, 0, sizeof pass);
    memset(counts, 0, (size_t)n * sizeof *counts);
    gguf.source = *source;
    pass.gguf = &gguf;
    pass.error = error;
    bs_cursor_init(&pass.cursor, &gguf.source, bs_bytes_of(0), source->size);
    bs_status status = gguf_header(&pass);
    for (pass.index = 0; status == BS_OK && pass.index < gguf.n_keys; pass.index++) {
        bs_gguf_key key;
        status = gguf_at_record(&pass, gguf_key(&pass, &key), "key");
        for (int32_t i = 0; status == BS_OK && key.is_array && i < n; i++)
            if (strcmp(pass.name, names[i]) == 0)
                counts[i] = key.count;
    }
    need->bytes = bs_bytes_add(gguf_table(gguf.n_keys, sizeof *gguf.keys),
                               gguf_table(gguf.n_tensors, sizeof *gguf.tensors));
    need->passing_bytes = gguf_table(gguf.n_keys > gguf.n_tensors ? gguf.n_keys : gguf.n_tensors, sizeof *pass.hashes);
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

static const char *gguf_type_name(uint32_t type)
{
    static const char names[BS_GGUF_TYPE_COUNT][8] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                      "bool", "string", "array", "u64", "i64", "f64"};
    return names[type];
}

bs_status bs_gguf_get(const bs_gguf *gguf, const char *name, bs_gguf_type type, bool is_array, bool required,
                      const bs_gguf_key **key, bs_error *error)
{
    static const char of[2][10] = {"", "array of "};
    const bs_gguf_key *found = *key = bs_gguf_find(gguf, name);
    if (found ? found->type == (uint32_t)type && found->is_array == is_array : !required)
        return BS_OK;
    return bs_fail(error, BS_ERROR_FORMAT, "key \"%s\" is %s%s, expected %s%s", name, found ? of[found->is_array] : "",
                   found ? gguf_type_name(found->type) : "missing", of[is_array], gguf_type_name((uint32_t)type));
}

bs_status bs_gguf_u32(const bs_gguf *gguf, const char *name, bool required, uint32_t least, uint32_t most,
                      uint32_t *number, bs_error *error)
{
    const bs_gguf_key *key;
    bs_cursor cursor;
    const bs_status status = bs_gguf_get(gguf, name, BS_GGUF_U32, false, required, &key, error);
    if (status != BS_OK || !key)
        return status;
    bs_gguf_cursor(gguf, key, &cursor);
    *number = bs_cursor_u32(&cursor);
    if (cursor.status != BS_OK)
        return bs_cursor_fail(&cursor, error, name);
    if (*number >= least && *number <= most)
        return BS_OK;
    return bs_fail(error, BS_ERROR_FORMAT, "key \"%s\" is %u, expected %u .. %u", name, (unsigned)*number,
                   (unsigned)least, (unsigned)most);
}

bs_status bs_gguf_text(const bs_gguf *gguf, bs_bytes at, char *text, size_t bytes, bs_error *error)
{
    bs_cursor cursor;
    bs_cursor_init(&cursor, &gguf->source, at, gguf->source.size);
    return bs_cursor_text(&cursor, text, bytes) ? BS_OK : bs_cursor_fail(&cursor, error, "a name that was read before");
}

void bs_gguf_cursor(const bs_gguf *gguf, const bs_gguf_key *key, bs_cursor *cursor)
{
    bs_cursor_init(cursor, &gguf->source, key ? key->at : bs_bytes_of(0), key ? key->end : bs_bytes_of(0));
}
#endif
