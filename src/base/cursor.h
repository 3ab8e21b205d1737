/* base/cursor.h - bytes of a file, wherever it is, read forward and never beyond an end.
 * Owns sources, cursors, and hashes of names. Relies on base/base.h. Must never know what the bytes mean. */
#ifndef BS_CURSOR_H
#define BS_CURSOR_H

#include "base/base.h"

/* Bytes 0 .. size-1, in memory or behind a reader. */
typedef struct bs_source {
    const uint8_t *memory; /* NULL: bytes come from the reader */
    bs_reader reader;
    bs_bytes size;
} bs_source;

/* Reads all of the bytes or fails: BS_ERROR_FORMAT beyond the end, BS_ERROR_IO when the reader gives fewer. */
bs_status bs_source_read(const bs_source *source, bs_bytes offset, void *buffer, bs_bytes bytes);

#define BS_CURSOR_BYTES 256 /* window of a cursor: the metadata of large models is megabytes, so it is read in blocks */

/* Why a read failed, other than by the storage. */
typedef enum bs_cursor_fault { BS_FAULT_END, BS_FAULT_LONG, BS_FAULT_ASCII } bs_cursor_fault;

/* Reads on from `at` and never beyond `end`. Failure is sticky: after it, numbers read as 0. */
typedef struct bs_cursor {
    const bs_source *source;
    bs_bytes at, end;
    bs_status status;
    bs_cursor_fault fault;
    bs_bytes wanted, most; /* bytes of the read that failed; the limit of a text */
    bs_bytes window_at, window_end; /* part of the source that the window holds */
    uint8_t window[BS_CURSOR_BYTES];
} bs_cursor;

/* at <= end <= the source's size */
void bs_cursor_init(bs_cursor *cursor, const bs_source *source, bs_bytes at, bs_bytes end);
bool bs_cursor_take(bs_cursor *cursor, void *target, bs_bytes bytes);
bool bs_cursor_skip(bs_cursor *cursor, bs_bytes bytes);
uint32_t bs_cursor_u32(bs_cursor *cursor);
uint64_t bs_cursor_u64(bs_cursor *cursor);
int32_t bs_cursor_i32(bs_cursor *cursor);
int64_t bs_cursor_i64(bs_cursor *cursor);
/* A string of at most bytes-1 printable ASCII characters, ended by NUL; anything else is BS_ERROR_FORMAT. */
bool bs_cursor_text(bs_cursor *cursor, char *text, size_t bytes);
/* Whether nothing has failed so far; else reports the failure, in reading `what`. */
bool bs_cursor_sound(const bs_cursor *cursor, bs_error *error, const char *what);
#if defined(BS_NO_MESSAGES)
#define bs_cursor_sound(cursor, error, what) (bs_cursor_sound)(cursor, error, BS_TEXT(what))
#endif
static inline bs_bytes bs_cursor_left(const bs_cursor *cursor) { return bs_bytes_sub(cursor->end, cursor->at); }

/* ------------------------------------------------------------------------------------------------- hashes */

/* FNV-1a over a name, 64 bits. */
uint64_t bs_name_hash(const char *name, size_t bytes);
/* Sorts the hashes; false when two are equal, and *twice is one of them. Two names with equal hashes count as
 * duplicates: a file that contrives such a pair only hurts itself. */
bool bs_hashes_unique(uint64_t *hashes, size_t count, uint64_t *twice);

#endif
