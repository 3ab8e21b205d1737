/* model/open.c - where the bytes of a model file come from: memory, a caller's reader, or a file of the platform.
 * Owns the two handles of a file: one for its index and for resident weights, one for streaming.
 * Relies on model/model.h. Must never leave a handle open or arena bytes taken after a failure. */
#include "model/model.h"

#ifndef BS_NO_POSIX
#include <errno.h>
#endif

#if !defined(BS_NO_MODEL)

/* ------------------------------------------------------------------------------------------- bytes, ahead */

/* A path in messages: of a long one only the end. */
static const char *model_where(const char *path)
{
    const size_t length = strlen(path), most = sizeof ((bs_model *)0)->where - 1;
    return length > most ? path + length - most : path;
}

/* Bytes that opening takes of an aligned arena; 0 and an error when the header cannot be read. */
static bs_bytes model_need(const bs_source *source, const char *where, bs_error *error)
{
    bs_bytes bytes;
    if (bs_model_need(source, &bytes, error))
        return bytes;
    bs_error_prefix(error, "%s: ", where);
    return bs_bytes_of(0);
}

static size_t model_with_slack(bs_bytes bytes, const char *where, bs_error *error)
{
    size_t all = 0;
    if (!bs_bytes_any(bytes))
        return 0;
    if (bs_bytes_fit(bs_bytes_add(bytes, bs_bytes_of(BS_ALIGNMENT)), SIZE_MAX, &all))
        return all;
    bs_fail(error, BS_ERROR_LIMIT, /* unreachable: 64 bits */
            "%s: the index of a model file takes more bytes than there can be", where);
    return 0;
}

/* When the arena is too small, the message says how much opening takes in all, not only its next step. When the header
 * cannot be read, the message stays as it is. */
static void model_ask(const bs_source *source, const char *where, const bs_arena *arena, bs_error *error)
{
    const bs_bytes bytes = model_need(source, where, NULL);
    if (!bs_bytes_any(bytes))
        return;
    bs_fail_arena(error, arena, bytes, "the index of a model file");
    bs_error_prefix(error, "%s: ", where);
}

static bs_source model_memory_source(const void *data, size_t bytes)
{
    const bs_source source = {data, {NULL, NULL, 0, 1}, bs_bytes_of(bytes)};
    return source;
}

size_t bs_model_memory_bytes(const void *data, size_t bytes, bs_error *error)
{
    if (!data) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_memory_bytes: the data is NULL");
        return 0;
    }
    const bs_source source = model_memory_source(data, bytes);
    return model_with_slack(model_need(&source, "memory", error), "memory", error);
}

size_t bs_model_reader_bytes(const bs_reader *reader, bs_error *error)
{
    if (!reader || !reader->read) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_reader_bytes: the reader or its read is NULL");
        return 0;
    }
    const bs_source source = {NULL, *reader, bs_bytes_of(reader->size)};
    return model_with_slack(model_need(&source, "reader", error), "reader", error);
}

/* A file that is open only while its header is measured. */
typedef struct model_file {
    const bs_platform *platform;
    int64_t handle;
} model_file;

static int64_t model_header_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const model_file *file = user;
    return file->platform->file_read(file->platform->user, file->handle, offset, buffer, bytes);
}

/* Adds the buffer that probes a direct handle before the index is read, if there is such a handle. */
static bs_bytes model_with_probe(const bs_platform *p, bs_bytes bytes)
{
    const bs_bytes probed = bs_bytes_add(bs_bytes_align(bs_bytes_of(sizeof(bs_model))),
                                         bs_bytes_of(2 * BS_PROBE_BYTES));
    return bs_bytes_any(bytes) && p->file_open_direct ? bs_bytes_max(bytes, probed) : bytes;
}

/* The reason in words. On POSIX errno tells it, and other platforms may set errno, too. A build without POSIX uses
 * neither errno nor strerror: a board may have neither. */
#ifndef BS_NO_POSIX
static void model_forget_errno(void) { errno = 0; }
static const char *model_errno_text(void) { return errno ? strerror(errno) : ""; }
#else
static void model_forget_errno(void) {}
static const char *model_errno_text(void) { return ""; }
#endif

static void model_fail_open(const char *path, bs_error *error)
{
    const char *why = model_errno_text();
    bs_fail(error, BS_ERROR_IO, "the model file \"%.160s\" cannot be opened%s%.64s", path, *why ? ": " : "", why);
}

static bool model_opens_files(const bs_platform *p, const char *path)
{
    return p && p->file_open && p->file_read && p->file_close && path;
}

size_t bs_model_file_bytes(const bs_platform *platform, const char *path, bs_error *error)
{
    model_file file = {platform ? platform : bs_platform_default(), -1};
    if (!model_opens_files(file.platform, path)) {
        bs_fail(error, BS_ERROR_ARGUMENT,
                "bs_model_file_bytes takes a path, and a platform with file_open, file_read and file_close");
        return 0;
    }
    uint64_t size = 0;
    model_forget_errno();
    file.handle = file.platform->file_open(file.platform->user, path, &size);
    if (file.handle < 0) {
        model_fail_open(path, error);
        return 0;
    }
    const bs_source source = {NULL, {&file, model_header_read, 0, 1}, bs_bytes_of(size)};
    const bs_bytes bytes = model_need(&source, model_where(path), error);
    file.platform->file_close(file.platform->user, file.handle);
    return model_with_slack(model_with_probe(file.platform, bytes), model_where(path), error);
}

/* ------------------------------------------------------------------------------------------------- opening */

/* A model without a source; messages call it `where`. NULL when it does not fit. */
static bs_model *model_create(bs_arena *arena, const char *where, bs_error *error)
{
    if (!arena) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_open: the arena for %s is NULL", where);
        return NULL;
    }
    bs_model *model = bs_arena_take(arena, sizeof *model);
    if (!model) {
        bs_fail_arena(error, arena, bs_bytes_of(sizeof *model), "the index of a model file");
        return NULL;
    }
    memset(model, 0, sizeof *model);
    memcpy(model->where, model_where(where), strlen(model_where(where)));
    model->stream_file = -1;
    model->stream_alignment = 1;
    return model;
}

bool bs_model_at_file(const bs_model *model, bool sound, bs_error *error)
{
    if (!sound)
        bs_error_prefix(error, "%s: ", model->where);
    return sound;
}

/* Completes the model; on failure gives everything back. */
static bs_model *model_finish(bs_model *model, const bs_source *source, bs_arena *arena, size_t mark, bs_error *error)
{
    bs_error here = {.status = BS_OK};
    if (bs_model_at_file(model, bs_gguf_open(&model->gguf, source, arena, &here) && bs_model_index(model, arena, &here),
                         &here))
        return model;
    arena->used = mark;
    if (bs_tell(&here, error) == BS_ERROR_ARENA)
        model_ask(source, model->where, arena, error);
    bs_model_close(model);
    return NULL;
}

static bs_model *model_from(const bs_source *source, const char *where, bs_arena *arena, bs_error *error)
{
    const size_t mark = arena ? arena->used : 0;
    bs_model *model = model_create(arena, where, error);
    if (model)
        return model_finish(model, source, arena, mark, error);
    if (arena)
        model_ask(source, where, arena, error);
    return NULL;
}

bs_model *bs_model_open_memory(bs_arena *arena, const void *data, size_t bytes, bs_error *error)
{
    if (!data) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_open_memory: the data is NULL");
        return NULL;
    }
    const bs_source source = model_memory_source(data, bytes);
    return model_from(&source, "memory", arena, error);
}

bs_model *bs_model_open_reader(bs_arena *arena, const bs_reader *reader, bs_error *error)
{
    if (!reader || !reader->read) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_open_reader: the reader or its read is NULL");
        return NULL;
    }
    const bs_source source = {NULL, *reader, bs_bytes_of(reader->size)};
    return model_from(&source, "reader", arena, error);
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

/* Opens a second handle for large reads past the page cache. A failure is ignored: the first handle serves as well. */
static void model_open_stream(bs_model *model, bs_arena *arena, const char *path, uint64_t wanted_bytes)
{
    const bs_platform *p = model->platform;
    const size_t mark = arena->used;
    uint8_t *room = p->file_open_direct ? bs_arena_take(arena, 2 * BS_PROBE_BYTES - BS_ALIGNMENT) : NULL;
    arena->used = mark; /* given back at once: nothing else is taken while it is used */
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
    if (!model_opens_files(p, path)) {
        bs_fail(error, BS_ERROR_ARGUMENT,
                "bs_model_open_file takes a path, and a platform with file_open, file_read and file_close");
        return NULL;
    }
    bs_model *model = model_create(arena, path, error);
    if (!model && arena) { /* asks for all bytes at once; a missing file has a message of its own */
        const size_t bytes = bs_model_file_bytes(p, path, error);
        if (bytes > 0) {
            bs_fail_arena(error, arena, bs_bytes_of(bytes - BS_ALIGNMENT), "the index of a model file");
            bs_error_prefix(error, "%s: ", model_where(path));
        }
    }
    if (!model)
        return NULL;
    uint64_t bytes = 0;
    model_forget_errno();
    model->file = p->file_open(p->user, path, &bytes);
    if (model->file < 0) {
        arena->used = mark;
        model_fail_open(path, error);
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
    if (model)
        model->buffered = true;
}
#endif
