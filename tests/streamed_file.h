/* streamed_file.h: model files whose records are read as reader threads do, and weights cut out of them.
 *
 * Owns: a file beside the test programs that may be cut and overwritten while it is open; streamed_begin() and _end().
 * Relies on: stream_rig.h, gguf_tiny.h, check.h, models/sr2x.gguf; brainstorm.h alone of the library.
 * Must never: leave a file behind.
 */
#ifndef BS_TEST_STREAMED_FILE_H
#define BS_TEST_STREAMED_FILE_H

#include "stream_rig.h" /* first: it says which system calls are wanted */

#include "check.h"
#include "gguf_tiny.h"

/* --- a file ------------------------------------------------------------------------------------------------ */

static const char real_model[] = "models/sr2x.gguf";
static char path[256];
static forge tiny;

/* In place, when it is there: the same inode. */
static inline void file_write(const void *data, size_t bytes)
{
    FILE *file = fopen(path, "r+b");
    if (!file)
        file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        exit(2);
}

static inline void file_write_tiny(extra more)
{
    tiny_write(&tiny, more);
    remove(path);
    file_write(tiny.bytes, tiny.n);
}

static inline void streamed_begin(void)
{
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/tests/streamed_%ld.gguf", build ? build : "build", (long)getpid());
    file_write_tiny(PAGES);
}

static inline int streamed_end(void)
{
    remove(path);
    return check_end();
}

/* --- reading through a source ------------------------------------------------------------------------------ */

enum { RECORD_BYTES = 128 << 10, WEIGHT_BYTES = 96 << 10 };
static _Alignas(4096) uint8_t record_memory[RECORD_BYTES];
static BS_ALIGNED uint8_t arena_memory[1 << 17];
static bs_arena arena;

/* A record as reader threads get it: in aligned pieces, then checked. */
static inline bs_status fetch_record(const bs_weights *w, int32_t block, uint8_t *target, size_t piece,
                                     bs_record *record)
{
    bs_status status = w->record(w->user, block, record);
    const uint64_t mask = w->fetch_alignment - 1, bytes = (record->bytes + mask) & ~mask;
    if (status != BS_OK || record->bytes == 0)
        return status;
    if (record->offset % 4096 != 0 || record->head_bytes != 256 || bytes > RECORD_BYTES)
        return BS_ERROR_DATA;
    for (uint64_t at = 0; status == BS_OK && at < bytes; at += piece)
        status = w->fetch(w->user, record->offset + at, target + at, (size_t)(bytes - at < piece ? bytes - at : piece));
    if (status == BS_OK)
        status = w->verify(w->user, block, target);
    if (status == BS_OK && forge_crc32(target + 256, (size_t)record->bytes - 256) != record->crc32)
        status = BS_ERROR_DATA;
    return status;
}

/* Is weight `index`, cut out of its block's record, what `read` gives? */
static inline bool weight_same(const bs_model *model, const bs_weights *w, int32_t index, size_t piece)
{
    static uint8_t plain[WEIGHT_BYTES];
    bs_weight_info info;
    bs_record record;
    int32_t listed = -1, block = -2;
    uint64_t offset = 0;
    if (bs_model_weight_get(model, index, NULL, &listed, &info) != BS_OK || info.bytes > sizeof plain ||
        w->read(w->user, &info, 0, plain, (size_t)info.bytes) != BS_OK)
        return false;
    memset(record_memory, 0xee, sizeof record_memory);
    return w->locate(w->user, &info, &block, &offset) == BS_OK && block == listed &&
           fetch_record(w, block, record_memory, piece, &record) == BS_OK && offset >= record.offset + 256 &&
           offset + info.bytes <= record.offset + record.bytes &&
           memcmp(record_memory + (offset - record.offset), plain, (size_t)info.bytes) == 0;
}

static inline bool all_same(const bs_model *model, size_t piece)
{
    bs_model_facts facts;
    bs_model_facts_get(model, &facts);
    const bs_weights w = bs_model_weights(model);
    if (!w.locate || !w.record || !w.fetch || !w.verify || w.fetch_alignment != facts.fetch_alignment)
        return false;
    for (int32_t i = 0; i < facts.weights; i++)
        if (!weight_same(model, &w, i, piece))
            return false;
    return facts.weights > 0;
}

static inline bs_status fetch_all(const bs_weights *w)
{
    bs_record record;
    bs_status status = BS_OK;
    for (int32_t b = 0; status == BS_OK && w->record(w->user, b, &record) == BS_OK; b++)
        status = fetch_record(w, b, record_memory, 8192, &record);
    return status;
}

static inline bs_model *open_file(const bs_platform *platform, const char *name)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena_init(&arena, "model", arena_memory, sizeof arena_memory);
    bs_model *model = bs_model_open_file(&arena, platform, name, &error);
    if (!check(model != NULL, "%s opens %s", name, error.message))
        exit(check_end());
    return model;
}

#endif
