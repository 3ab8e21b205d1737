/* model/record.c - records: their heads, streaming from them, and the check of a whole file.
 * Relies on model/model.h. Must never keep state between calls, nor trust what was read: a file may be cut short or
 * overwritten while it is open. */
#include "model/model.h"

#if !defined(BS_NO_MODEL)

/* -------------------------------------------------------------------------------------------------- heads */

/* The head as it lies in memory: hosts are little-endian, and it has no padding. The layout is in docs/format.md. */
typedef struct record_head {
    uint32_t magic, version, block, crc32;
    uint64_t bytes, file_id;
} record_head;

_Static_assert(sizeof(record_head) == 32, "the head of a record");

static bool bytes_are_zero(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != 0)
            return false;
    return true;
}

/* Compares the head of a block's record with what the keys say. */
static bool head_is_right(const bs_model *model, int32_t index, const uint8_t *bytes, bs_error *error)
{
    const bs_model_block *block = &model->blocks[index];
    record_head head;
    memcpy(&head, bytes, sizeof head);
    const struct {
        const char *name;
        unsigned long long is, expected;
    } fields[] = {
        {"magic", head.magic, BS_MODEL_HEAD_MAGIC}, {"version", head.version, BS_MODEL_HEAD_VERSION},
        {"file id", head.file_id, model->file_id},  {"block", head.block, (uint32_t)index},
        {"CRC-32", head.crc32, block->crc32},       {"length", head.bytes, bs_bytes_figure(block->bytes)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].is != fields[i].expected)
            return bs_refuse(error, BS_ERROR_FORMAT, "its head has %s 0x%llx, expected 0x%llx", fields[i].name,
                             fields[i].is, fields[i].expected);
    return bytes_are_zero(bytes + sizeof head, BS_MODEL_HEAD_BYTES - sizeof head) ||
           bs_refuse(error, BS_ERROR_FORMAT, "its head is not zero from byte %d on", (int)sizeof head);
}

/* ---------------------------------------------------------------------------------------------- streaming */

/* Whether streaming reads bypass the page cache. */
static bool stream_is_direct(const bs_model *model)
{
    return model->stream_file >= 0 && model->stream_alignment > 1 && !model->buffered;
}

static int64_t stream_handle(const bs_model *model)
{
    return model->stream_file >= 0 && !model->buffered ? model->stream_file : model->file;
}

uint32_t bs_model_fetch_alignment(const bs_model *model)
{
    if (bs_model_can_stream(model, NULL) != BS_OK)
        return 0;
    return stream_is_direct(model) ? model->stream_alignment : 1;
}

bs_status bs_model_can_stream(const bs_model *model, bs_error *error)
{
    if (!model)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_can_stream: the model is NULL");
    if (model->version < 2)
        return bs_fail(error, BS_ERROR_UNSUPPORTED,
                       "%s: a model file of version %" PRIu32 " cannot be streamed: write it anew in version %d",
                       model->where, model->version, BS_MODEL_VERSION);
    if (model->gguf.alignment % BS_MODEL_PAGE != 0)
        return bs_fail(error, BS_ERROR_UNSUPPORTED,
                       "%s: records aligned to %llu bytes cannot be streamed: they must be to %d", model->where,
                       (unsigned long long)model->gguf.alignment, BS_MODEL_PAGE);
    return BS_OK;
}

static bs_status stream_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    const bs_model_weight *w = bs_model_weight_of(user, info);
    if (!w)
        return BS_ERROR_ARGUMENT;
    *block = w->block;
    *offset = bs_bytes_figure(w->offset);
    return BS_OK;
}

static bs_status stream_record(const void *user, int32_t index, bs_record *record)
{
    const bs_model *model = user;
    memset(record, 0, sizeof *record);
    if (!bs_in_range(index, 0, model->n_blocks))
        return BS_ERROR_ARGUMENT;
    const bs_model_block *block = &model->blocks[index];
    record->offset = bs_bytes_figure(block->offset);
    record->bytes = bs_bytes_figure(block->bytes);
    record->head_bytes = bs_bytes_any(block->bytes) ? BS_MODEL_HEAD_BYTES : 0;
    record->crc32 = block->crc32;
    return BS_OK;
}

/* Reads from the handle for streaming. Bytes that went through the page cache need not stay there: each load reads
 * them once. */
static int64_t stream_file_read(const bs_model *model, uint64_t offset, void *buffer, size_t bytes)
{
    const bs_platform *p = model->platform;
    const int64_t file = stream_handle(model);
    const int64_t got = p->file_read(p->user, file, offset, buffer, bytes);
    if (got > 0 && p->file_forget && !stream_is_direct(model))
        p->file_forget(p->user, file, offset, (uint64_t)got);
    return got;
}

/* A direct read may go beyond the file's end, up to the next multiple: it then returns fewer bytes. */
static bs_status stream_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const bs_model *model = user;
    const bs_bytes size = model->gguf.source.size, at = bs_bytes_of(offset), end = bs_bytes_add(at, bs_bytes_of(bytes));
    const uint32_t alignment = stream_is_direct(model) ? model->stream_alignment : 1;
    if (((offset | bytes | (uintptr_t)buffer) & (alignment - 1)) != 0 ||
        bs_bytes_less(bs_bytes_align_to(size, alignment), end))
        return BS_ERROR_ARGUMENT;
    if (bytes == 0 || !bs_bytes_less(at, size))
        return BS_OK;
    const bs_bytes there = bs_bytes_sub(bs_bytes_min(end, size), at);
    if (!model->platform)
        return bs_source_read(&model->gguf.source, at, buffer, there);
    const int64_t got = stream_file_read(model, offset, buffer, bytes);
    return got >= 0 && (uint64_t)got >= bs_bytes_figure(there) ? BS_OK : BS_ERROR_IO;
}

static bs_status stream_verify(const void *user, int32_t index, const void *head)
{
    const bs_model *model = user;
    if (!bs_in_range(index, 0, model->n_blocks) || !bs_bytes_any(model->blocks[index].bytes))
        return BS_ERROR_ARGUMENT;
    return head_is_right(model, index, head, NULL) ? BS_OK : BS_ERROR_FORMAT;
}

void bs_model_stream_source(const bs_model *model, bs_weights *weights)
{
    if (bs_model_can_stream(model, NULL) != BS_OK)
        return;
    weights->locate = stream_locate;
    weights->record = stream_record;
    weights->fetch = stream_fetch;
    weights->verify = stream_verify;
    weights->fetch_alignment = bs_model_fetch_alignment(model);
    weights->serial = !model->gguf.source.memory && !model->gguf.source.reader.concurrent;
}

/* -------------------------------------------------------------------------------------------------- check */

/* Reads everything from `at` of the record on. */
static bool check_read(const bs_model *model, const bs_model_block *block, bs_bytes at, void *buffer, bs_bytes bytes,
                       bs_error *error)
{
    const bs_bytes from = bs_bytes_add(block->offset, at);
    const bs_status status = bs_source_read(&model->gguf.source, from, buffer, bytes);
    return status == BS_OK || bs_refuse(error, status, "reading %llu bytes at byte %llu failed", bs_bytes_figure(bytes),
                                        bs_bytes_figure(from));
}

static bool check_head(const bs_model *model, int32_t index, bs_error *error)
{
    uint8_t head[BS_MODEL_HEAD_BYTES];
    return check_read(model, &model->blocks[index], bs_bytes_of(0), head, bs_bytes_of(sizeof head), error) &&
           head_is_right(model, index, head, error);
}

static bool check_crc(const bs_model *model, const bs_model_block *block, bs_error *error)
{
    uint8_t buffer[512];
    uint32_t crc = 0;
    for (bs_bytes at = bs_bytes_of(bs_model_head_bytes(model)); bs_bytes_less(at, block->bytes);) {
        const bs_bytes bytes = bs_bytes_min(bs_bytes_sub(block->bytes, at), bs_bytes_of(sizeof buffer));
        if (!check_read(model, block, at, buffer, bytes, error))
            return false;
        crc = bs_crc32(crc, buffer, (size_t)bs_bytes_figure(bytes));
        at = bs_bytes_add(at, bytes);
    }
    return crc == block->crc32 ||
           bs_refuse(error, BS_ERROR_FORMAT, "its CRC-32 is %08" PRIx32 ", expected %08" PRIx32, crc, block->crc32);
}

/* Checks for zeros from `at` to `end` of the record. */
static bool check_gap(const bs_model *model, const bs_model_block *block, bs_bytes at, bs_bytes end, bs_error *error)
{
    uint8_t buffer[BS_MODEL_HEAD_BYTES]; /* as long as the gaps that writers leave */
    while (bs_bytes_less(at, end)) {
        const bs_bytes bytes = bs_bytes_min(bs_bytes_sub(end, at), bs_bytes_of(sizeof buffer)),
                       to = bs_bytes_add(at, bytes);
        if (!check_read(model, block, at, buffer, bytes, error))
            return false;
        if (!bytes_are_zero(buffer, (size_t)bs_bytes_figure(bytes)))
            return bs_refuse(error, BS_ERROR_FORMAT,
                             "it is not zero between its weights, at bytes %llu up to %llu of the record",
                             bs_bytes_figure(at), bs_bytes_figure(to));
        at = to;
    }
    return true;
}

static bool check_gaps(const bs_model *model, const bs_model_block *block, bs_error *error)
{
    bs_bytes at = bs_bytes_of(BS_MODEL_HEAD_BYTES);
    for (int32_t w = block->first_weight; w < block->end_weight; w++) {
        const bs_bytes begin = bs_bytes_sub(model->weights[w].offset, block->offset);
        if (!check_gap(model, block, at, begin, error))
            return false;
        at = bs_bytes_add(begin, model->weights[w].bytes);
    }
    return check_gap(model, block, at, block->bytes, error);
}

/* Files of version 1 have neither heads nor guaranteed zeros. */
static bool check_block(const bs_model *model, int32_t index, bs_error *error)
{
    const bs_model_block *block = &model->blocks[index];
    const bool head = bs_bytes_any(block->bytes) && model->version >= 2;
    return (!head || check_head(model, index, error)) && check_crc(model, block, error) &&
           (!head || check_gaps(model, block, error));
}

bs_status bs_model_check(const bs_model *model, bs_error *error)
{
    if (!model)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_check: the model is NULL");
    bs_error here = {.status = BS_OK};
    int32_t block = 0;
    while (block < model->n_blocks && check_block(model, block, &here))
        block++;
    if (block < model->n_blocks)
        bs_error_prefix(&here, "%s: the record of block %" PRId32 ": ", model->where, block);
    return bs_tell(&here, error);
}
#endif
