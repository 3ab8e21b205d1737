/* base/cursor.c - sources of bytes, cursors over them, the check for duplicate names.
 * Relies on base/cursor.h. Must never read beyond a cursor's end, recurse, or allocate. */
#include "base/cursor.h"

#if !defined(BS_NO_MODEL) || !(defined(BS_NO_PROFILE) || defined(BS_NO_REPLAY))

/* ------------------------------------------------------------------------------------------------ sources */

bs_status bs_source_read(const bs_source *source, bs_bytes offset, void *buffer, bs_bytes bytes)
{
    const bs_bytes end = bs_bytes_add(offset, bytes);
    size_t size = 0;
    if (!bs_bytes_known(end) || bs_bytes_less(source->size, end))
        return BS_ERROR_FORMAT;
    if (!bs_bytes_any(bytes))
        return BS_OK;
    if (!bs_bytes_fit(bytes, SIZE_MAX, &size))
        return BS_ERROR_IO;
    if (source->memory) {
        memcpy(buffer, bs_bytes_read_at(source->memory, offset), size);
        return BS_OK;
    }
    const int64_t got = source->reader.read(source->reader.user, bs_bytes_figure(offset), buffer, size);
    return got >= 0 && (uint64_t)got == size ? BS_OK : BS_ERROR_IO;
}

/* ------------------------------------------------------------------------------------------------ cursors */

void bs_cursor_init(bs_cursor *cursor, const bs_source *source, bs_bytes at, bs_bytes end)
{
    memset(cursor, 0, sizeof *cursor);
    cursor->source = source;
    cursor->at = at;
    cursor->end = end;
}

/* Records the first failure: every read checks the status before. */
static void cursor_fail(bs_cursor *c, bs_status status, bs_cursor_fault fault, bs_bytes wanted)
{
    c->status = status;
    c->fault = fault;
    c->wanted = wanted;
}

bool (bs_cursor_sound)(const bs_cursor *cursor, bs_error *error, const char *what)
{
    const unsigned long long at = bs_bytes_figure(cursor->at), wanted = bs_bytes_figure(cursor->wanted);
    if (cursor->status == BS_OK)
        return true;
    if (cursor->status == BS_ERROR_IO)
        return bs_refuse(error, BS_ERROR_IO, "%s: reading %llu bytes at byte %llu failed", what, wanted, at);
    if (cursor->fault == BS_FAULT_LONG)
        return bs_refuse(error, BS_ERROR_FORMAT, "%s has %llu bytes, expected at most %llu", what, wanted,
                         bs_bytes_figure(cursor->most));
    if (cursor->fault == BS_FAULT_ASCII)
        return bs_refuse(error, BS_ERROR_FORMAT, "%s, at byte %llu, is not printable ASCII", what,
                         bs_bytes_figure(bs_bytes_sub(cursor->at, cursor->wanted)));
    return bs_refuse(error, BS_ERROR_FORMAT, "%s: %llu bytes needed at byte %llu, %llu left", what, wanted, at,
                     bs_bytes_figure(bs_cursor_left(cursor)));
}

static bool cursor_has(bs_cursor *c, bs_bytes bytes)
{
    if (c->status == BS_OK && bs_bytes_less(bs_cursor_left(c), bytes))
        cursor_fail(c, BS_ERROR_FORMAT, BS_FAULT_END, bytes);
    return c->status == BS_OK;
}

static bool cursor_read(bs_cursor *c, void *target, bs_bytes bytes)
{
    const bs_status status = bs_source_read(c->source, c->at, target, bytes);
    if (status != BS_OK)
        cursor_fail(c, status, BS_FAULT_END, bytes);
    return status == BS_OK;
}

/* Moves the window so that [at, at + bytes) lies in it; bytes <= BS_CURSOR_BYTES. The window never begins behind
 * `at`. */
static bool cursor_fill(bs_cursor *c, bs_bytes bytes)
{
    if (!bs_bytes_less(c->window_end, bs_bytes_add(c->at, bytes)))
        return true;
    const bs_bytes ahead = bs_bytes_min(bs_cursor_left(c), bs_bytes_of(BS_CURSOR_BYTES));
    if (!cursor_read(c, c->window, ahead))
        return false;
    c->window_at = c->at;
    c->window_end = bs_bytes_add(c->at, ahead);
    return true;
}

bool bs_cursor_take(bs_cursor *cursor, void *target, bs_bytes bytes)
{
    if (!cursor_has(cursor, bytes))
        return false;
    if (cursor->source->memory || bs_bytes_figure(bytes) > BS_CURSOR_BYTES) {
        if (!cursor_read(cursor, target, bytes))
            return false;
    } else {
        if (!cursor_fill(cursor, bytes))
            return false;
        memcpy(target, bs_bytes_at(cursor->window, bs_bytes_sub(cursor->at, cursor->window_at)),
               (size_t)bs_bytes_figure(bytes));
    }
    cursor->at = bs_bytes_add(cursor->at, bytes);
    return true;
}

bool bs_cursor_skip(bs_cursor *cursor, bs_bytes bytes)
{
    if (!cursor_has(cursor, bytes))
        return false;
    cursor->at = bs_bytes_add(cursor->at, bytes);
    return true;
}

uint32_t bs_cursor_u32(bs_cursor *cursor)
{
    uint32_t n = 0;
    return bs_cursor_take(cursor, &n, bs_bytes_of(sizeof n)) ? n : 0;
}

int32_t bs_cursor_i32(bs_cursor *cursor) { return (int32_t)bs_cursor_u32(cursor); }

uint64_t bs_cursor_u64(bs_cursor *cursor)
{
    uint64_t n = 0;
    return bs_cursor_take(cursor, &n, bs_bytes_of(sizeof n)) ? n : 0;
}

int64_t bs_cursor_i64(bs_cursor *cursor) { return (int64_t)bs_cursor_u64(cursor); }

/* Names end up in messages and on terminals, so they may hold only printable ASCII. */
static bool text_is_plain(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

bool bs_cursor_text(bs_cursor *cursor, char *text, size_t bytes)
{
    text[0] = 0;
    const bs_bytes length = bs_bytes_of(bs_cursor_u64(cursor));
    size_t size = 0;
    if (cursor->status != BS_OK)
        return false;
    cursor->most = bs_bytes_of(bytes - 1);
    if (!bs_bytes_fit(length, bytes - 1, &size)) {
        cursor_fail(cursor, BS_ERROR_FORMAT, BS_FAULT_LONG, length);
        return false;
    }
    if (bs_cursor_take(cursor, text, length) && !text_is_plain(text, size))
        cursor_fail(cursor, BS_ERROR_FORMAT, BS_FAULT_ASCII, length);
    text[cursor->status == BS_OK ? size : 0] = 0;
    return cursor->status == BS_OK;
}

/* ------------------------------------------------------------------------------------------------- hashes */

BS_WRAPS uint64_t bs_name_hash(const char *name, size_t bytes)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)name[i]) * 1099511628211u;
    return hash;
}

static void hash_sift(uint64_t *hashes, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && hashes[child + 1] > hashes[child])
            child++;
        if (hashes[root] >= hashes[child])
            return;
        const uint64_t swap = hashes[root];
        hashes[root] = hashes[child];
        hashes[child] = swap;
    }
}

/* Heap sort: no recursion, and no input makes it slow. */
bool bs_hashes_unique(uint64_t *hashes, size_t count, uint64_t *twice)
{
    for (size_t i = count / 2; i > 0; i--)
        hash_sift(hashes, i - 1, count);
    for (size_t n = count; n > 0; n--) {
        const uint64_t largest = hashes[0];
        hashes[0] = hashes[n - 1];
        hashes[n - 1] = *twice = largest;
        hash_sift(hashes, 0, n - 1);
        if (n < count && largest == hashes[n])
            return false;
    }
    return true;
}
#endif
