/* model_open.c - where the bytes of a model file come from: memory, a caller's reader, or a file of the platform.
 * Owns the two handles of a file: one for its index and for weights that stay, one for streaming.
 * Relies on model.h. Must never leave a handle open or arena bytes taken after a failure. */
#include "model.h"

/* A model without a source, that messages call `where`: of a long path the end. NULL when it does not fit. */
static bs_model *model_create(bs_arena *arena, const char *where, bs_error *error)
{
    if (!arena) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_open: the arena for %s is NULL", where);
        return NULL;
    }
    const size_t length = strlen(where), most = sizeof ((bs_model *)0)->where - 1;
    bs_model *model = bs_arena_take(arena, sizeof *model);
    if (!model) {
        bs_fail_arena(error, arena, bs_bytes_of(sizeof *model), "a model file");
        return NULL;
    }
    memset(model, 0, sizeof *model);
    memcpy(model->where, length > most ? where + length - most : where, length > most ? most : length);
    model->stream_file = -1;
    model->stream_alignment = 1;
    return model;
}

bs_status bs_model_at_file(const bs_model *model, bs_status status, bs_error *error)
{
    if (status != BS_OK)
        bs_error_prefix(error, "%s: ", model->where);
    return status;
}

/* Gives everything back on failure. */
static bs_model *model_finish(bs_model *model, const bs_source *source, bs_arena *arena, size_t mark, bs_error *error)
{
    bs_status status = bs_gguf_open(&model->gguf, source, arena, error);
    if (status == BS_OK)
        status = bs_model_index(model, arena, error);
    if (bs_model_at_file(model, status, error) == BS_OK)
        return model;
    bs_model_close(model);
    arena->used = mark;
    return NULL;
}

bs_model *bs_model_open_memory(bs_arena *arena, const void *data, size_t bytes, bs_error *error)
{
    const size_t mark = arena ? arena->used : 0;
    if (!data) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_open_memory: the data is NULL");
        return NULL;
    }
    const bs_source source = {data, {NULL, NULL, 0, 1}, bs_bytes_of(bytes)};
    bs_model *model = model_create(arena, "memory", error);
    return model ? model_finish(model, &source, arena, mark, error) : NULL;
}

bs_model *bs_model_open_reader(bs_arena *arena, const bs_reader *reader, bs_error *error)
{
    const size_t mark = arena ? arena->used : 0;
    if (!reader || !reader->read) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_open_reader: the reader or its read is NULL");
        return NULL;
    }
    const bs_source source = {NULL, *reader, bs_bytes_of(reader->size)};
    bs_model *model = model_create(arena, "reader", error);
    return model ? model_finish(model, &source, arena, mark, error) : NULL;
}

static int64_t model_file_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const bs_model *model = user;
    return model->platform->file_read(model->platform->user, model->file, offset, buffer, bytes);
}

static bool model_stream_fits(uint64_t bytes, uint64_t wanted_bytes, uint32_t alignment)
{
    return bytes == wanted_bytes && alignment > 0 && alignment <= BS_MODEL_PAGE && (alignment & (alignment - 1)) == 0;
}

/* A second handle, for large reads past the page cache. What does not work is left: the first handle serves as well. */
static void model_open_stream(bs_model *model, bs_arena *arena, const char *path, uint64_t wanted_bytes)
{
    const bs_platform *p = model->platform;
    const size_t mark = arena->used;
    uint8_t *room = p->file_open_direct ? bs_arena_take(arena, 2 * BS_PROBE_BYTES - BS_ALIGNMENT) : NULL;
    arena->used = mark; /* nothing else is taken while the probe is in use */
    if (!room)
        return;
    uint64_t bytes = 0;
    uint32_t alignment = 0;
    uint8_t *probe = room + bs_to_aligned(room, BS_PROBE_BYTES);
    model->stream_file = p->file_open_direct(p->user, path, probe, &bytes, &alignment);
    if (model->stream_file < 0)
        return;
    model->stream_alignment = alignment;
    if (model_stream_fits(bytes, wanted_bytes, alignment))
        return;
    p->file_close(p->user, model->stream_file);
    model->stream_file = -1;
    model->stream_alignment = 1;
}

bs_model *bs_model_open_file(bs_arena *arena, const bs_platform *platform, const char *path, bs_error *error)
{
    const bs_platform *p = platform ? platform : bs_platform_default();
    const size_t mark = arena ? arena->used : 0;
    if (!p || /* unreachable: only builds with BS_NO_POSIX have no default */
        !p->file_open || !p->file_read || !p->file_close || !path) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_open_file takes a path, and a platform with file_open, file_read and file_close");
        return NULL;
    }
    bs_model *model = model_create(arena, path, error);
    if (!model)
        return NULL;
    uint64_t bytes = 0;
    model->file = p->file_open(p->user, path, &bytes);
    if (model->file < 0) {
        arena->used = mark;
        bs_fail(error, BS_ERROR_IO, "the model file \"%.192s\" cannot be opened", path);
        return NULL;
    }
    model->platform = p;
    const bs_source source = {NULL, {model, model_file_read, 0, 1}, bs_bytes_of(bytes)};
    model_open_stream(model, arena, path, bytes);
    return model_finish(model, &source, arena, mark, error);
}

void bs_model_close(bs_model *model)
{
    if (!model)
        return;
    const bs_platform *p = model->platform;
    if (p && model->stream_file >= 0)
        p->file_close(p->user, model->stream_file);
    if (p)
        p->file_close(p->user, model->file);
    model->platform = NULL;
    model->stream_file = -1;
}

void bs_model_use_buffered(bs_model *model)
{
    model->buffered = true;
}
