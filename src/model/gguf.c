/* model/gguf.c - the GGUF version 3 reader: one pass over the header.
 * Relies on model/gguf.h. Must never assert on what it reads, recurse, or loop more often than the header has bytes. */
#include "model/gguf.h"

#if !defined(BS_NO_MODEL)

/* --------------------------------------------------------------------------------------------------- pass */

/* State of the one pass. `name` and `index` identify the current record in messages. */
typedef struct gguf_pass {
    bs_gguf *gguf;
    bs_cursor cursor;
    bs_error *error;
    uint32_t index;
    uint64_t *hashes; /* of names, to find duplicates */
    char name[BS_GGUF_MAX_KEY_BYTES + 1];
} gguf_pass;

/* Prefixes the error with the current record. */
static bool gguf_at_record(gguf_pass *p, bool sound, const char *what)
{
    if (!sound)
        bs_error_prefix(p->error, "%s %" PRIu32 " \"%.64s\": ", what, p->index, p->name);
    return sound;
}

/* ------------------------------------------------------------------------------------------------- header */

static bool gguf_version(gguf_pass *p)
{
    const uint32_t version = bs_cursor_u32(&p->cursor);
    if (!bs_cursor_sound(&p->cursor, p->error, "the GGUF version"))
        return false;
    if ((version & 0xffff) == 0 && version != 0)
        return bs_refuse(p->error, BS_ERROR_VERSION, "the GGUF file is big-endian, expected little-endian");
    if (version != 3)
        return bs_refuse(p->error, BS_ERROR_VERSION, "GGUF version %" PRIu32 ", expected 3", version);
    return true;
}

/* A count is accepted when its records can fit into what is left of the file. */
static bool gguf_count(gguf_pass *p, const char *what, uint64_t least_bytes, uint32_t cap, uint32_t *count)
{
    const uint64_t n = bs_cursor_u64(&p->cursor);
    if (!bs_cursor_sound(&p->cursor, p->error, "the GGUF header"))
        return false;
    if (n > bs_bytes_figure(bs_bytes_share(bs_cursor_left(&p->cursor), least_bytes)))
        return bs_refuse(p->error, BS_ERROR_FORMAT, "%llu %s cannot fit into a file of %llu bytes",
                         (unsigned long long)n, what, bs_bytes_figure(p->gguf->source.size));
    if (n > cap)
        return bs_refuse(p->error, BS_ERROR_LIMIT, "%llu %s, at most %" PRIu32 " are supported", (unsigned long long)n,
                         what, cap);
    *count = (uint32_t)n;
    return true;
}

static bool gguf_header(gguf_pass *p)
{
    char magic[4] = {0};
    bs_cursor_take(&p->cursor, magic, bs_bytes_of(4));
    if (!bs_cursor_sound(&p->cursor, p->error, "\"GGUF\""))
        return false;
    if (memcmp(magic, "GGUF", 4) != 0)
        return bs_refuse(p->error, BS_ERROR_FORMAT, "not a GGUF file: it does not start with \"GGUF\"");
    /* smallest tensor: name of 1 byte, rank 1, type, offset; smallest key: name of 1 byte, type, value of 1 byte */
    return gguf_version(p) &&
           gguf_count(p, "tensors", 8 + 1 + 4 + 8 + 4 + 8, BS_GGUF_MAX_TENSORS, &p->gguf->n_tensors) &&
           gguf_count(p, "keys", 8 + 1 + 4 + 1, BS_GGUF_MAX_KEYS, &p->gguf->n_keys);
}

/* --------------------------------------------------------------------------------------------------- keys */

static bool gguf_skip_elements(gguf_pass *p, const bs_gguf_key *key)
{
    static const uint8_t type_bytes[BS_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const uint32_t bytes = type_bytes[key->type]; /* 0: a string */
    bool there = bytes == 0 ||
                 bs_cursor_skip(&p->cursor, bs_bytes_product(bs_bytes_of(key->count), bs_bytes_of(bytes)));
    for (uint64_t i = 0; bytes == 0 && there && i < key->count; i++) /* every turn consumes 8 bytes or is the last */
        there = bs_cursor_skip(&p->cursor, bs_bytes_of(bs_cursor_u64(&p->cursor)));
    return bs_cursor_sound(&p->cursor, p->error, "its value");
}

static bool gguf_value(gguf_pass *p, bs_gguf_key *key)
{
    key->type = bs_cursor_u32(&p->cursor);
    key->count = 1;
    key->is_array = key->type == BS_GGUF_ARRAY;
    if (key->is_array) {
        key->type = bs_cursor_u32(&p->cursor);
        key->count = bs_cursor_u64(&p->cursor);
    }
    if (!bs_cursor_sound(&p->cursor, p->error, "its type"))
        return false;
    if (key->type >= BS_GGUF_TYPE_COUNT)
        return bs_refuse(p->error, BS_ERROR_FORMAT, "its type is %" PRIu32 ", expected 0 .. %d", key->type,
                         BS_GGUF_TYPE_COUNT - 1);
    if (key->type == BS_GGUF_ARRAY)
        return bs_refuse(p->error, BS_ERROR_FORMAT, "it is an array of arrays, expected one of numbers or strings");
    key->at = p->cursor.at;
    const bool skipped = gguf_skip_elements(p, key);
    key->end = p->cursor.at;
    return skipped;
}

/* Reads the name of a key or a tensor into p->name. */
static bool gguf_name(gguf_pass *p, size_t bytes, bs_bytes *at, uint64_t *hash)
{
    *at = p->cursor.at;
    bs_cursor_text(&p->cursor, p->name, bytes);
    if (!bs_cursor_sound(&p->cursor, p->error, "its name"))
        return false;
    if (!p->name[0])
        return bs_refuse(p->error, BS_ERROR_FORMAT, "its name is empty");
    *hash = bs_name_hash(p->name, strlen(p->name));
    if (p->hashes)
        p->hashes[p->index] = *hash;
    return true;
}

static bool gguf_key(gguf_pass *p, bs_gguf_key *key)
{
    return gguf_name(p, sizeof p->name, &key->name_at, &key->hash) && gguf_value(p, key);
}

/* Names the record whose hash is also that of another record. */
static bool gguf_fail_twice(gguf_pass *p, bs_bytes name_at, const char *what)
{
    return bs_gguf_text(p->gguf, name_at, p->name, sizeof p->name, p->error) &&
           bs_refuse(p->error, BS_ERROR_FORMAT, "two %s are called \"%.64s\"", what, p->name);
}

static bool gguf_keys(gguf_pass *p)
{
    uint64_t twice;
    bs_gguf_key *const keys = p->gguf->keys;
    for (p->index = 0; p->index < p->gguf->n_keys; p->index++)
        if (!gguf_at_record(p, gguf_key(p, &keys[p->index]), "key"))
            return false;
    if (bs_hashes_unique(p->hashes, p->gguf->n_keys, &twice))
        return true;
    p->index = 0;
    while (keys[p->index].hash != twice)
        p->index++;
    return gguf_fail_twice(p, keys[p->index].name_at, "keys");
}

static bool gguf_alignment(gguf_pass *p)
{
    uint32_t n = 32;
    if (!bs_gguf_u32(p->gguf, "general.alignment", false, 8, BS_GGUF_MAX_ALIGNMENT, &n, p->error))
        return false;
    p->gguf->alignment = n;
    return (n & (n - 1)) == 0 ||
           bs_refuse(p->error, BS_ERROR_FORMAT, "key \"general.alignment\" is %" PRIu32 ", expected a power of two", n);
}

/* ------------------------------------------------------------------------------------------------ tensors */

/* Bytes per element of plain types; 0 for quantised and unknown ones. */
static uint32_t gguf_tensor_type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {
        [0] = 4 /* F32 */,  [1] = 2 /* F16 */,  [24] = 1 /* I8 */,  [25] = 2 /* I16 */,
        [26] = 4 /* I32 */, [27] = 8 /* I64 */, [28] = 8 /* F64 */, [30] = 2 /* BF16 */,
    };
    return type < sizeof bytes ? bytes[type] : 0;
}

static bool gguf_tensor_shape(gguf_pass *p, bs_gguf_tensor *tensor)
{
    tensor->rank = bs_cursor_u32(&p->cursor);
    if (!bs_cursor_sound(&p->cursor, p->error, "its rank"))
        return false;
    if (tensor->rank < 1 || tensor->rank > 4)
        return bs_refuse(p->error, BS_ERROR_FORMAT, "its rank is %" PRIu32 ", expected 1 .. 4", tensor->rank);
    tensor->bytes = bs_bytes_of(1);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const uint64_t n = tensor->dim[i] = bs_cursor_u64(&p->cursor);
        if (!bs_cursor_sound(&p->cursor, p->error, "its dimensions"))
            return false;
        if (n == 0 || n > INT64_MAX)
            return bs_refuse(p->error, BS_ERROR_FORMAT, "its dimension %" PRIu32 " is %llu, expected 1 .. 2^63-1", i,
                             (unsigned long long)n);
        tensor->bytes = bs_bytes_times(tensor->bytes, (int64_t)n);
    }
    return true;
}

static bool gguf_tensor_type(gguf_pass *p, bs_gguf_tensor *tensor)
{
    tensor->type = bs_cursor_u32(&p->cursor);
    tensor->offset = bs_bytes_of(bs_cursor_u64(&p->cursor));
    if (!bs_cursor_sound(&p->cursor, p->error, "its type and offset"))
        return false;
    const uint32_t each = gguf_tensor_type_bytes(tensor->type);
    if (each == 0)
        return bs_refuse(p->error, BS_ERROR_UNSUPPORTED,
                         "its type is %" PRIu32 ", expected a plain one: 0, 1, 24 .. 28 or 30", tensor->type);
    tensor->bytes = bs_bytes_times(tensor->bytes, each);
    return true;
}

/* Tensors follow each other in listed order, padded, so they cannot overlap and leave no holes. */
static bool gguf_tensor_place(gguf_pass *p, const bs_gguf_tensor *tensor, bs_bytes *running)
{
    const bs_bytes wanted = *running, size = p->gguf->source.size;
    if (!bs_bytes_same(tensor->offset, wanted))
        return bs_refuse(p->error, BS_ERROR_FORMAT, "its offset is %llu, expected %llu: where the one before it ends",
                         bs_bytes_figure(tensor->offset), bs_bytes_figure(wanted));
    *running = bs_bytes_add(wanted, bs_bytes_align_to(tensor->bytes, p->gguf->alignment));
    if (!bs_bytes_less(size, *running))
        return true;
    return bs_refuse(p->error, BS_ERROR_FORMAT,
                     "%llu bytes of it from offset %llu on, padded, expected within the %llu of the file",
                     bs_bytes_figure(tensor->bytes), bs_bytes_figure(wanted), bs_bytes_figure(size));
}

static bool gguf_tensor(gguf_pass *p, bs_gguf_tensor *tensor, bs_bytes *running)
{
    return gguf_name(p, BS_GGUF_MAX_NAME_BYTES + 1, &tensor->name_at, &tensor->hash) && gguf_tensor_shape(p, tensor) &&
           gguf_tensor_type(p, tensor) && gguf_tensor_place(p, tensor, running);
}

/* Checks for zeros from `at` to the next multiple of the alignment: a change there is damage, too. */
static bool gguf_padding(gguf_pass *p, bs_bytes at)
{
    const bs_bytes end = bs_bytes_min(bs_bytes_align_to(at, p->gguf->alignment), p->gguf->source.size);
    uint8_t buffer[2048];
    for (bs_bytes bytes; bs_bytes_less(at, end); at = bs_bytes_add(at, bytes)) {
        bytes = bs_bytes_min(bs_bytes_sub(end, at), bs_bytes_of(sizeof buffer));
        const bs_status status = bs_source_read(&p->gguf->source, at, buffer, bytes);
        if (status != BS_OK)
            return bs_refuse(p->error, status, "reading the padding at byte %llu failed", bs_bytes_figure(at));
        const size_t length = (size_t)bs_bytes_figure(bytes);
        if (buffer[0] == 0 && memcmp(buffer, buffer + 1, length - 1) == 0)
            continue; /* checked: all are like the first */
        for (size_t i = 0; i < length; i++)
            if (buffer[i] != 0)
                return bs_refuse(p->error, BS_ERROR_FORMAT, "padding is not zero at byte %llu",
                                 bs_bytes_figure(bs_bytes_add(at, bs_bytes_of(i))));
    }
    return true;
}

/* Where data starts is known only after the last record: here offsets become absolute, and the end is checked. */
static bool gguf_data(gguf_pass *p, bs_bytes data_bytes)
{
    bs_gguf *gguf = p->gguf;
    gguf->data = bs_bytes_align_to(p->cursor.at, gguf->alignment);
    const bs_bytes end = bs_bytes_add(gguf->data, data_bytes);
    if (gguf->n_tensors > 0 && bs_bytes_less(gguf->source.size, end))
        return bs_refuse(p->error, BS_ERROR_FORMAT, "the file is cut short: %llu bytes, its tensors end at %llu",
                         bs_bytes_figure(gguf->source.size), bs_bytes_figure(end));
    bool sound = gguf_padding(p, p->cursor.at);
    for (uint32_t i = 0; sound && i < gguf->n_tensors; i++) {
        gguf->tensors[i].offset = bs_bytes_add(gguf->tensors[i].offset, gguf->data);
        sound = gguf_padding(p, bs_bytes_add(gguf->tensors[i].offset, gguf->tensors[i].bytes));
    }
    return sound;
}

static bool gguf_tensors(gguf_pass *p)
{
    bs_bytes running = bs_bytes_of(0);
    uint64_t twice;
    bs_gguf_tensor *const tensors = p->gguf->tensors;
    for (p->index = 0; p->index < p->gguf->n_tensors; p->index++)
        if (!gguf_at_record(p, gguf_tensor(p, &tensors[p->index], &running), "tensor"))
            return false;
    if (bs_hashes_unique(p->hashes, p->gguf->n_tensors, &twice))
        return gguf_data(p, running);
    p->index = 0;
    while (tensors[p->index].hash != twice)
        p->index++;
    return gguf_fail_twice(p, tensors[p->index].name_at, "tensors");
}

/* --------------------------------------------------------------------------------------------------- open */

static uint32_t gguf_most_hashes(const bs_gguf *gguf)
{
    return gguf->n_keys > gguf->n_tensors ? gguf->n_keys : gguf->n_tensors;
}

static bool gguf_body(gguf_pass *p, bs_arena *arena)
{
    static const char what[] = "the index of a model file";
    bs_gguf *gguf = p->gguf;
    gguf->keys = bs_take_table(arena, gguf->n_keys, sizeof *gguf->keys, what, p->error);
    gguf->tensors = gguf->keys ? bs_take_table(arena, gguf->n_tensors, sizeof *gguf->tensors, what, p->error) : NULL;
    const size_t mark = arena->used;
    p->hashes = gguf->tensors ? bs_take_table(arena, gguf_most_hashes(gguf), sizeof *p->hashes, what, p->error) : NULL;
    const bool sound = p->hashes && gguf_keys(p) && gguf_alignment(p) && gguf_tensors(p);
    arena->used = mark; /* the hashes are no longer needed */
    return sound;
}

/* Starts a pass at the beginning of the file. */
static void gguf_begin(gguf_pass *p, bs_gguf *gguf, const bs_source *source, bs_error *error)
{
    memset(gguf, 0, sizeof *gguf);
    memset(p, 0, sizeof *p);
    gguf->source = *source;
    p->gguf = gguf;
    p->error = error;
    bs_cursor_init(&p->cursor, &gguf->source, bs_bytes_of(0), source->size);
}

bool bs_gguf_open(bs_gguf *gguf, const bs_source *source, bs_arena *arena, bs_error *error)
{
    const size_t mark = arena->used;
    gguf_pass pass;
    gguf_begin(&pass, gguf, source, error);
    if (gguf_header(&pass) && gguf_body(&pass, arena))
        return true;
    arena->used = mark;
    return false;
}

/* The same pass without an index: it keeps only one key at a time. */
bool bs_gguf_measure(const bs_source *source, const char *const *names, uint64_t *counts, int32_t n, bs_gguf_need *need,
                     bs_error *error)
{
    bs_gguf gguf;
    gguf_pass pass;
    memset(counts, 0, (size_t)n * sizeof *counts);
    gguf_begin(&pass, &gguf, source, error);
    bool sound = gguf_header(&pass);
    for (pass.index = 0; sound && pass.index < gguf.n_keys; pass.index++) {
        bs_gguf_key key;
        sound = gguf_at_record(&pass, gguf_key(&pass, &key), "key");
        for (int32_t i = 0; sound && key.is_array && i < n; i++)
            if (strcmp(pass.name, names[i]) == 0)
                counts[i] = key.count;
    }
    need->bytes = bs_bytes_add(bs_table_bytes(gguf.n_keys, sizeof *gguf.keys),
                               bs_table_bytes(gguf.n_tensors, sizeof *gguf.tensors));
    need->passing_bytes = bs_table_bytes(gguf_most_hashes(&gguf), sizeof *pass.hashes);
    return sound;
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
    return bs_name_of("u8\0i8\0u16\0i16\0u32\0i32\0f32\0bool\0string\0array\0u64\0i64\0f64", type, BS_GGUF_TYPE_COUNT);
}

bool bs_gguf_get(const bs_gguf *gguf, const char *name, bs_gguf_type type, bool is_array, bool required,
                 const bs_gguf_key **key, bs_error *error)
{
    static const char of[2][10] = {"", "array of "};
    const bs_gguf_key *found = *key = bs_gguf_find(gguf, name);
    if (found ? found->type == (uint32_t)type && found->is_array == is_array : !required)
        return true;
    return bs_refuse(error, BS_ERROR_FORMAT, "key \"%s\" is %s%s, expected %s%s", name,
                     found ? of[found->is_array] : "", found ? gguf_type_name(found->type) : "missing", of[is_array],
                     gguf_type_name((uint32_t)type));
}

bool bs_gguf_u32(const bs_gguf *gguf, const char *name, bool required, uint32_t least, uint32_t most, uint32_t *number,
                 bs_error *error)
{
    const bs_gguf_key *key;
    bs_cursor cursor;
    if (!bs_gguf_get(gguf, name, BS_GGUF_U32, false, required, &key, error))
        return false;
    if (!key)
        return true;
    bs_gguf_cursor(gguf, key, &cursor);
    *number = bs_cursor_u32(&cursor);
    return bs_cursor_sound(&cursor, error, name) &&
           ((*number >= least && *number <= most) ||
            bs_refuse(error, BS_ERROR_FORMAT, "key \"%s\" is %" PRIu32 ", expected %" PRIu32 " .. %" PRIu32, name,
                      *number, least, most));
}

bool bs_gguf_text(const bs_gguf *gguf, bs_bytes at, char *text, size_t bytes, bs_error *error)
{
    bs_cursor cursor;
    bs_cursor_init(&cursor, &gguf->source, at, gguf->source.size);
    bs_cursor_text(&cursor, text, bytes);
    return bs_cursor_sound(&cursor, error, "a name that was read before");
}

void bs_gguf_cursor(const bs_gguf *gguf, const bs_gguf_key *key, bs_cursor *cursor)
{
    bs_cursor_init(cursor, &gguf->source, key ? key->at : bs_bytes_of(0), key ? key->end : bs_bytes_of(0));
}
#endif
