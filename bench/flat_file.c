/* flat_file.c: see flat_file.h. */
#define _POSIX_C_SOURCE 200809L
#include "flat_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, NOISE = 65536 };

/* ------------------------------------------------------------------------------------------------- writing */

static float *noise(void)
{
    static float values[NOISE];
    uint32_t state = 1;
    for (int i = 0; i < NOISE && values[NOISE - 1] == 0.0f; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return values;
}

static void *grow(flat_file *f, void *table, int32_t count, int32_t *room, size_t bytes)
{
    if (count < *room)
        return table;
    *room = *room ? *room * 2 : 64;
    void *larger = realloc(table, (size_t)*room * bytes);
    f->failed = f->failed || !larger;
    return larger ? larger : table;
}

void flat_create(flat_file *f, const char *name)
{
    const char *folders[] = {getenv("TMPDIR"), "build", "."};
    memset(f, 0, sizeof *f);
    for (int i = 0; i < 3 && !f->out; i++) {
        if (!folders[i])
            continue;
        snprintf(f->path, sizeof f->path, "%s/%s.weights.XXXXXX", folders[i], name);
        const int fd = mkstemp(f->path);
        f->made = fd >= 0;
        f->out = f->made ? fdopen(fd, "wb") : NULL;
        if (f->made && !f->out) {
            close(fd);
            break;
        }
    }
    f->failed = !f->out;
    flat_block(f);
}

static void pad(flat_file *f)
{
    static const char zeros[PAGE];
    const size_t rest = (size_t)(-f->bytes % PAGE);
    f->failed = f->failed || (rest && fwrite(zeros, rest, 1, f->out) != 1);
    f->bytes += rest;
}

void flat_block(flat_file *f)
{
    f->blocks = grow(f, f->blocks, f->n_blocks, &f->room_blocks, sizeof *f->blocks);
    if (f->failed)
        return;
    pad(f);
    f->blocks[f->n_blocks++] = (bs_record){f->bytes, 0, 0, 0};
}

static void write_numbers(flat_file *f, uint64_t count, float scale)
{
    static float scaled[NOISE];
    const float *values = noise();
    uint64_t from = f->bytes / 64 % 1021;
    while (count > 0 && !f->failed) {
        const uint64_t piece = count < NOISE - from ? count : NOISE - from;
        for (uint64_t i = 0; i < piece; i++)
            scaled[i] = values[from + i] * scale;
        f->failed = fwrite(scaled, (size_t)piece * sizeof(float), 1, f->out) != 1;
        count -= piece;
        from = 0;
    }
}

void flat_add(flat_file *f, const char *name, const char *suffix, int32_t rank, const int64_t *dim, float scale)
{
    f->weights = grow(f, f->weights, f->n_weights, &f->room_weights, sizeof *f->weights);
    if (f->failed)
        return;
    flat_weight *w = &f->weights[f->n_weights];
    memset(w, 0, sizeof *w);
    snprintf(w->name, sizeof w->name, "%s.%s", name, suffix);
    w->info = (bs_weight_info){BS_F32, rank, {0}, sizeof(float), (uint64_t)f->n_weights++};
    for (int32_t d = 0; d < rank; d++) {
        w->info.dim[d] = dim[d];
        w->info.bytes *= (uint64_t)dim[d];
    }
    w->block = f->n_blocks - 1;
    w->offset = f->bytes;
    write_numbers(f, w->info.bytes / sizeof(float), scale);
    f->bytes += w->info.bytes;
    f->blocks[w->block].bytes = f->bytes - f->blocks[w->block].offset;
}

static uint32_t hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

static void make_index(flat_file *f)
{
    f->n_index = 2 * f->n_weights + 1;
    f->index = calloc((size_t)f->n_index, sizeof *f->index);
    f->failed = !f->index;
    for (int32_t i = 0; i < f->n_weights && !f->failed; i++) {
        int32_t at = (int32_t)(hash(f->weights[i].name) % (uint32_t)f->n_index);
        while (f->index[at])
            at = (at + 1) % f->n_index;
        f->index[at] = i + 1;
    }
}

bool flat_finish(flat_file *f)
{
    if (!f->failed)
        pad(f);
    if (!f->failed)
        make_index(f);
    if (!f->failed)
        f->failed = fflush(f->out) != 0 || fsync(fileno(f->out)) != 0;
    if (f->out)
        fclose(f->out);
    f->out = NULL;
    return !f->failed;
}

void flat_delete(flat_file *f)
{
    if (f->out)
        fclose(f->out);
    if (f->made)
        remove(f->path);
    free(f->weights);
    free(f->blocks);
    free(f->index);
    memset(f, 0, sizeof *f);
}

/* ------------------------------------------------------------------------------------------------- reading */

static bs_status flat_find(const void *user, const char *name, bs_weight_info *info)
{
    const flat_file *f = ((const flat_source *)user)->file;
    for (uint32_t at = hash(name) % (uint32_t)f->n_index; f->index[at]; at = (at + 1) % (uint32_t)f->n_index)
        if (strcmp(f->weights[f->index[at] - 1].name, name) == 0) {
            *info = f->weights[f->index[at] - 1].info;
            return BS_OK;
        }
    return BS_ERROR_WEIGHTS;
}

static bs_status flat_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    const flat_source *s = user;
    const int64_t got = s->platform->file_read(s->platform->user, s->handle,
                                               s->file->weights[info->handle].offset + offset, buffer, bytes);
    return got == (int64_t)bytes ? BS_OK : BS_ERROR_IO;
}

static const void *flat_map(const void *user, const bs_weight_info *info)
{
    (void)user;
    (void)info;
    return NULL;
}

static bs_status flat_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    const flat_file *f = ((const flat_source *)user)->file;
    *block = f->weights[info->handle].block;
    *offset = f->weights[info->handle].offset;
    return BS_OK;
}

static bs_status flat_record(const void *user, int32_t block, bs_record *record)
{
    const flat_file *f = ((const flat_source *)user)->file;
    if (block < 0 || block >= f->n_blocks)
        return BS_ERROR_ARGUMENT;
    *record = f->blocks[block];
    return BS_OK;
}

static bs_status flat_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const flat_source *s = user;
    const int64_t got = s->platform->file_read(s->platform->user, s->direct, offset, buffer, bytes);
    return got == (int64_t)bytes ? BS_OK : BS_ERROR_IO;
}

bool flat_open(flat_source *s, const flat_file *file, const bs_platform *platform)
{
    static _Alignas(BS_PROBE_BYTES) uint8_t probe[BS_PROBE_BYTES];
    uint64_t size = 0;
    *s = (flat_source){file, platform, -1, -1, 1};
    s->handle = platform->file_open(platform->user, file->path, &size);
    if (platform->file_open_direct)
        s->direct = platform->file_open_direct(platform->user, file->path, probe, &size, &s->alignment);
    else
        s->direct = platform->file_open(platform->user, file->path, &size);
    return s->handle >= 0 && s->direct >= 0 && size == file->bytes;
}

bs_weights flat_weights(const flat_source *s)
{
    const bs_weights weights = {.user = s,
                                .find = flat_find,
                                .read = flat_read,
                                .map = flat_map,
                                .locate = flat_locate,
                                .record = flat_record,
                                .fetch = flat_fetch,
                                .fetch_alignment = s->alignment};
    return weights;
}

void flat_close(flat_source *s)
{
    if (s->platform && s->handle >= 0)
        s->platform->file_close(s->platform->user, s->handle);
    if (s->platform && s->direct >= 0)
        s->platform->file_close(s->platform->user, s->direct);
    memset(s, 0, sizeof *s);
    s->handle = s->direct = -1;
}
