/* flat_source.h - the weights of a graph in one buffer, laid out as a model file lays them out: a record a block, with
 * a head. A source that can be streamed, and that can be told to be slow, to fail and to bring the wrong bytes.
 *
 * Owns: the buffer. Relies on: graph/graph.h, ops/table.h; whoever includes it defines _POSIX_C_SOURCE first (it
 * sleeps). Must never: give other bytes while nothing is scripted, nor count without atomics: several threads fetch at
 * once. */
#ifndef BS_TEST_FLAT_SOURCE_H
#define BS_TEST_FLAT_SOURCE_H

#include "graph/graph.h"
#include "net.h"
#include "ops/table.h"

#include <stdatomic.h>
#include <time.h>

enum { FLAT_TENSORS = 512, FLAT_BLOCKS = 512, FLAT_BYTES = 8 << 20, FLAT_HEAD = 64, FLAT_MAGIC = 0x54414c46 };

typedef struct flat_tensor {
    char name[2 * BS_MAX_NAME];
    bs_weight_info info;
    int32_t block;
    uint64_t offset;
} flat_tensor;

typedef struct flat_source {
    const bs_graph *g;
    bs_dtype dtype; /* in which f32 weights are stored */
    int32_t n_tensors, n_blocks;
    flat_tensor tensors[FLAT_TENSORS];
    bs_record records[FLAT_BLOCKS];
    uint64_t size;
    /* what goes wrong; all 0: nothing. Fetches are counted from 1. */
    atomic_int fail_at, fail_from, delay_us, error_percent, flip_at, wrong_head_at;
    atomic_int calls, inside, failed, misused;
    atomic_int failed_block;
    uint8_t *bytes;
} flat_source;

static _Alignas(4096) uint8_t flat_memory[FLAT_BYTES];
static bool flat_backwards; /* the last weight of a layer first: set before flat_init */
static bool flat_wide_lines; /* weights of one dimension stay f32: likewise */

/* ---------------------------------------------------------------------------------------------------- the layout */

CHECK_WRAPS static inline float flat_value(const char *name, uint64_t i)
{
    uint64_t x = (net_hash(name) + i) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
    return ((float)(x >> 40) / 8388608.0f - 1.0f) * 0.3f;
}

static inline const bs_tensor *flat_given(const bs_tensor_table *given, const char *name)
{
    for (int32_t i = 0; given && i < given->count; i++)
        if (strcmp(given->tensors[i].name, name) == 0)
            return &given->tensors[i];
    return NULL;
}

static inline void flat_fill(uint8_t *to, const flat_tensor *t, const bs_tensor *given, uint64_t elements)
{
    for (uint64_t i = 0; i < elements; i++) {
        const float f = given ? ((const float *)given->data)[i] : flat_value(t->name, i);
        const uint16_t half = t->info.dtype == BS_F16 ? bs_f32_to_f16(f) : bs_f32_to_bf16(f);
        if (given && given->dtype == BS_I32)
            memcpy(to + 4 * i, (const int32_t *)given->data + i, 4);
        else if (t->info.dtype == BS_F32)
            memcpy(to + 4 * i, &f, 4);
        else
            memcpy(to + 2 * i, &half, 2);
    }
}

static inline void flat_add(flat_source *s, const bs_node *node, const bs_weight_spec *spec, int32_t block,
                            const bs_tensor_table *given)
{
    flat_tensor *t = &s->tensors[s->n_tensors++];
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s%s%s", bs_node_name(node), *spec->suffix ? "." : "", spec->suffix);
    const bs_tensor *data = flat_given(given, t->name);
    const uint64_t elements = bs_bytes_figure(bs_weight_elements(spec));
    t->info.dtype = spec->dtype == BS_F32 && !(flat_wide_lines && spec->rank == 1) ? s->dtype : spec->dtype;
    t->info.rank = spec->rank;
    memcpy(t->info.dim, spec->dim, sizeof t->info.dim);
    t->info.bytes = elements * bs_dtype_bytes(t->info.dtype);
    t->info.handle = (uint64_t)(s->n_tensors - 1);
    t->block = block;
    s->size = (s->size + 3) & ~(uint64_t)3;
    t->offset = s->size;
    s->size += t->info.bytes;
    if (s->n_tensors >= FLAT_TENSORS || s->size > FLAT_BYTES)
        exit(2); /* the test itself is wrong */
    flat_fill(s->bytes + t->offset, t, data, elements);
}

static inline bool flat_has(const flat_source *s, const bs_node *node, const char *suffix)
{
    char name[2 * BS_MAX_NAME];
    snprintf(name, sizeof name, "%s%s%s", bs_node_name(node), *suffix ? "." : "", suffix);
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return true;
    return false;
}

/* What several blocks use is in the record of the first of them, as in a model file. */
static inline void flat_block(flat_source *s, int32_t block, const bs_tensor_table *given)
{
    const uint32_t head[FLAT_HEAD / 4] = {FLAT_MAGIC, (uint32_t)block};
    const uint64_t begin = (s->size + 4095) & ~(uint64_t)4095;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    bool any = false;
    for (int32_t n = 1; n < s->g->n_nodes; n++) {
        const bs_node *node = &s->g->nodes[n];
        const int32_t count = node->block == block ? bs_node_weights(s->g, node, specs) : 0;
        for (int32_t i = 0; i < count; i++) {
            const bs_weight_spec *spec = &specs[flat_backwards ? count - 1 - i : i];
            if (flat_has(s, node, spec->suffix))
                continue;
            if (!any)
                s->size = begin + FLAT_HEAD;
            any = true;
            flat_add(s, node, spec, block, given);
        }
    }
    memset(&s->records[block], 0, sizeof s->records[block]);
    if (!any)
        return;
    memcpy(s->bytes + begin, head, sizeof head);
    s->records[block] = (bs_record){begin, s->size - begin, FLAT_HEAD,
                                    bs_crc32(0, s->bytes + begin + FLAT_HEAD, (size_t)(s->size - begin - FLAT_HEAD))};
}

/* given: weights that must have these values (may be NULL: any). */
static inline void flat_init(flat_source *s, const bs_graph *g, const bs_tensor_table *given, bs_dtype dtype)
{
    memset(s, 0, sizeof *s);
    s->g = g;
    s->dtype = dtype;
    s->bytes = flat_memory;
    s->n_blocks = g->n_blocks;
    if (g->n_blocks > FLAT_BLOCKS)
        exit(2);
    for (int32_t b = 0; b < g->n_blocks; b++)
        flat_block(s, b, given);
}

/* --------------------------------------------------------------------------------------------------- as a source */

static inline bs_status flat_find(const void *user, const char *name, bs_weight_info *info)
{
    const flat_source *s = user;
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].name, name) == 0) {
            *info = s->tensors[i].info;
            return BS_OK;
        }
    return BS_ERROR_WEIGHTS;
}

static inline bs_status flat_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                  size_t bytes)
{
    const flat_source *s = user;
    memcpy(buffer, s->bytes + s->tensors[info->handle].offset + offset, bytes);
    return BS_OK;
}

static inline bs_status flat_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    const flat_source *s = user;
    *block = s->tensors[info->handle].block;
    *offset = s->tensors[info->handle].offset;
    return BS_OK;
}

static inline bs_status flat_record(const void *user, int32_t block, bs_record *record)
{
    const flat_source *s = user;
    if (block < 0 || block >= s->n_blocks)
        return BS_ERROR_ARGUMENT;
    *record = s->records[block];
    return BS_OK;
}

CHECK_WRAPS static inline uint32_t flat_dice(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static inline void flat_sleep(int us)
{
    const struct timespec t = {us / 1000000, us % 1000000 * 1000L};
    if (us > 0)
        nanosleep(&t, NULL);
}

static inline int32_t flat_block_at(const flat_source *s, uint64_t offset)
{
    for (int32_t b = 0; b < s->n_blocks; b++)
        if (s->records[b].bytes && offset >= s->records[b].offset &&
            offset < s->records[b].offset + s->records[b].bytes)
            return b;
    return -1;
}

static inline bs_status flat_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    flat_source *s = (flat_source *)(uintptr_t)user;
    const int call = atomic_fetch_add(&s->calls, 1) + 1;
    const uint32_t dice = flat_dice(flat_dice((uint32_t)call));
    atomic_fetch_add(&s->inside, 1);
    const int delay = s->delay_us, from = s->fail_from; /* others change them meanwhile */
    flat_sleep(delay ? (int)(dice % (uint32_t)delay) : 0);
    const bool fails = call == s->fail_at || (from && call >= from) || (int)(dice >> 8) % 100 < s->error_percent;
    const uint64_t there = offset < FLAT_BYTES ? FLAT_BYTES - offset : 0;
    if (there < bytes)
        atomic_fetch_add(&s->misused, 1);
    memset(buffer, 0xEE, bytes);
    if (!fails && there >= bytes)
        memcpy(buffer, s->bytes + offset, bytes);
    if (call == s->flip_at)
        ((uint8_t *)buffer)[bytes / 2] ^= 4;
    if (call == s->wrong_head_at)
        ((uint8_t *)buffer)[4] ^= 1;
    if (fails) {
        atomic_fetch_add(&s->failed, 1);
        atomic_store(&s->failed_block, flat_block_at(s, offset + bytes / 2));
    }
    atomic_fetch_sub(&s->inside, 1);
    return fails ? BS_ERROR_IO : BS_OK;
}

static inline bs_status flat_verify(const void *user, int32_t block, const void *head)
{
    const uint32_t want[FLAT_HEAD / 4] = {FLAT_MAGIC, (uint32_t)block};
    (void)user;
    return memcmp(head, want, sizeof want) == 0 ? BS_OK : BS_ERROR_FORMAT;
}

static inline bs_status flat_fetch_aligned(const void *user, uint64_t offset, void *buffer, size_t bytes,
                                           uint32_t alignment)
{
    flat_source *s = (flat_source *)(uintptr_t)user;
    if (offset % alignment || bytes % alignment || (uintptr_t)buffer % alignment)
        atomic_fetch_add(&s->misused, 1);
    return flat_fetch(user, offset, buffer, bytes);
}

static inline bs_status flat_fetch_512(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    return flat_fetch_aligned(user, offset, buffer, bytes, 512);
}

static inline bs_status flat_fetch_4096(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    return flat_fetch_aligned(user, offset, buffer, bytes, 4096);
}

/* alignment: 1, 512 or 4096. */
static inline bs_weights flat_weights(flat_source *s, uint32_t alignment)
{
    const bs_weights w = {.user = s, .find = flat_find, .read = flat_read, .locate = flat_locate, .record = flat_record,
                          .fetch = alignment == 512 ? flat_fetch_512 : alignment == 4096 ? flat_fetch_4096 : flat_fetch,
                          .verify = flat_verify, .fetch_alignment = alignment};
    return w;
}

/* All is well again. */
static inline void flat_heal(flat_source *s)
{
    s->fail_at = s->fail_from = s->delay_us = s->error_percent = s->flip_at = s->wrong_head_at = 0;
    atomic_store(&s->calls, 0);
    atomic_store(&s->failed, 0);
}

#endif
