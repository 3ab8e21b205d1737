/* large_net.h - a mixture of experts as large as those that people run, and its input; all numbers are small integers,
 * so that sums are exact and the oracle's are those of f32.
 *
 * A layer: scores of all experts, the best k of them, each a block of two linears, their sum by gates onto the rows,
 * clipped. tests/test_large_python.py writes the same as a file: names and weights are made by the same rules.
 * Owns: weights, by name. Relies on: brainstorm.h. Must never keep more of them than a few patterns that many share. */
#ifndef BS_TEST_LARGE_NET_H
#define BS_TEST_LARGE_NET_H

#include "brainstorm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct large_net {
    int32_t layers, experts, k, d, f, rows;
} large_net;

enum { LARGE_PATTERNS = 13, LARGE_ELEMENTS = 512 * 64 };

static float large_patterns[LARGE_PATTERNS][LARGE_ELEMENTS];

/* Element i of pattern p: mostly zero, else -1 or 1. */
static inline float large_element(uint32_t p, uint32_t i)
{
    uint32_t x = (p * 65537u + i) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return x % 8u != 0 ? 0.0f : x & 64u ? 1.0f : -1.0f;
}

static inline void large_fill(void)
{
    for (uint32_t p = 0; p < LARGE_PATTERNS; p++)
        for (uint32_t i = 0; i < LARGE_ELEMENTS; i++)
            large_patterns[p][i] = large_element(p, i);
}

/* Tensor number n of the net, counted as they are built. */
static inline const float *large_pattern(int32_t n) { return large_patterns[n % LARGE_PATTERNS]; }

/* "l<layer>", "l<layer>.e<expert>.up": .weight, [out, in]. */
static inline void large_name(char *name, size_t bytes, int32_t layer, int32_t expert, const char *what)
{
    if (expert < 0)
        snprintf(name, bytes, "l%d", (int)layer);
    else
        snprintf(name, bytes, "l%d.e%d%s", (int)layer, (int)expert, what);
}

/* All tensors, in order; names are allocated. */
static inline bs_tensor_table large_table(const large_net *n)
{
    const int32_t count = n->layers * (1 + 2 * n->experts);
    bs_tensor *tensors = calloc((size_t)count, sizeof *tensors);
    char(*names)[48] = calloc((size_t)count, sizeof *names);
    int32_t t = 0;
    for (int32_t l = 0; tensors && names && l < n->layers; l++)
        for (int32_t e = -1; e < n->experts; e++)
            for (int32_t k = 0; k < (e < 0 ? 1 : 2); k++, t++) {
                large_name(names[t], sizeof names[t], l, e, k ? ".down" : ".up");
                strcat(names[t], ".weight");
                const int64_t out = e < 0 ? n->experts : k ? n->d : n->f, in = k ? n->f : n->d;
                tensors[t] = (bs_tensor){
                    .name = names[t], .dtype = BS_F32, .rank = 2, .dim = {out, in}, .data = large_pattern(t)};
            }
    return (bs_tensor_table){tensors, tensors && names ? count : 0};
}

static inline void large_table_free(bs_tensor_table *table)
{
    if (table->count > 0)
        free((void *)(uintptr_t)table->tensors[0].name);
    free((void *)(uintptr_t)table->tensors);
}

/* A source that finds by the name's numbers: a table would be searched from its beginning, each time. */
typedef struct large_source {
    large_net net;
    bs_tensor_table table;
} large_source;

static inline bs_status large_find(const void *user, const char *name, bs_weight_info *info)
{
    const large_source *s = user;
    int layer = 0, expert = -1;
    if (sscanf(name, "l%d.e%d.", &layer, &expert) < 1 || layer < 0 || layer >= s->net.layers ||
        expert >= s->net.experts)
        return BS_ERROR_WEIGHTS;
    const int32_t at = layer * (1 + 2 * s->net.experts) +
                       (expert < 0 ? 0 : 1 + 2 * expert + (strstr(name, ".down") != NULL));
    const bs_tensor *t = &s->table.tensors[at];
    if (strcmp(t->name, name) != 0)
        return BS_ERROR_WEIGHTS;
    memset(info, 0, sizeof *info);
    info->dtype = t->dtype;
    info->rank = t->rank;
    memcpy(info->dim, t->dim, sizeof info->dim);
    info->bytes = 4 * (uint64_t)(t->dim[0] * t->dim[1]);
    info->handle = (uint64_t)at;
    return BS_OK;
}

static inline bs_status large_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                   size_t bytes)
{
    const large_source *s = user;
    memcpy(buffer, (const uint8_t *)s->table.tensors[info->handle].data + offset, bytes);
    return BS_OK;
}

static inline const void *large_map(const void *user, const bs_weight_info *info)
{
    const large_source *s = user;
    return s->table.tensors[info->handle].data;
}

/* Storage that is nowhere: record e of the experts' holds its two tensors, one after the other. */
static inline bs_status large_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    const large_source *s = user;
    const int32_t layer = 1 + 2 * s->net.experts, expert = (int32_t)info->handle % layer;
    if (expert == 0)
        return BS_ERROR_ARGUMENT;
    *block = (int32_t)info->handle / layer * s->net.experts + (expert - 1) / 2;
    *offset = (2 * (uint64_t)*block + (uint64_t)((expert - 1) % 2)) * info->bytes;
    return BS_OK;
}

static inline bs_status large_record(const void *user, int32_t block, bs_record *record)
{
    const large_source *s = user;
    const uint64_t bytes = 8 * (uint64_t)s->net.d * (uint64_t)s->net.f;
    memset(record, 0, sizeof *record);
    record->offset = (uint64_t)block * bytes;
    record->bytes = bytes;
    return block >= 0 && block < s->net.layers * s->net.experts ? BS_OK : BS_ERROR_ARGUMENT;
}

static inline bs_status large_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const large_source *s = user;
    const uint64_t each = 4 * (uint64_t)s->net.d * (uint64_t)s->net.f,
                   tensors = 2 * (uint64_t)s->net.layers * (uint64_t)s->net.experts;
    for (size_t done = 0; done < bytes;) {
        const uint64_t t = (offset + done) / each, at = (offset + done) % each;
        const size_t n = bytes - done < each - at ? bytes - done : (size_t)(each - at);
        if (t >= tensors)
            return BS_ERROR_IO;
        const int32_t expert = (int32_t)(t / 2), layer = expert / s->net.experts;
        const bs_tensor *from =
            &s->table.tensors[layer * (1 + 2 * s->net.experts) + 1 + 2 * (expert % s->net.experts) + (int32_t)(t % 2)];
        memcpy((uint8_t *)buffer + done, (const uint8_t *)from->data + at, n);
        done += n;
    }
    return BS_OK;
}

static inline bs_weights large_weights(const large_source *s)
{
    return (bs_weights){.user = s,
                        .find = large_find,
                        .read = large_read,
                        .map = large_map,
                        .locate = large_locate,
                        .record = large_record,
                        .fetch = large_fetch,
                        .fetch_alignment = 1};
}

/* Memory of one object. bs_arena_init aligns: the pointer to free is kept apart. */
typedef struct room {
    void *memory;
    bs_arena arena;
} room;

static inline room large_room_of(const char *name, uint64_t bytes)
{
    room r = {malloc((size_t)bytes + BS_ALIGNMENT), {0}};
    bs_arena_init(&r.arena, name, r.memory, (size_t)bytes + BS_ALIGNMENT);
    return r;
}

/* Room for the graph, by its own counts. */
static inline bs_graph_desc large_room(const large_net *n)
{
    const int32_t layer = 3 * n->experts + 4;
    return (bs_graph_desc){.max_nodes = n->layers * layer + 4,
                           .max_values = n->layers * layer + 4,
                           .max_text_bytes = n->layers * layer * 110 + 4096,
                           .max_operands = n->layers * (4 * n->experts + 8) + 8,
                           .max_dims = 64,
                           .max_domains = n->layers * n->experts + 2,
                           .max_blocks = n->layers * n->experts + 1,
                           .max_routers = n->layers};
}

static inline bs_value large_expert(bs_graph *g, bs_router route, bs_value x, const large_net *n, int32_t l, int32_t e)
{
    char name[48];
    large_name(name, sizeof name, l, e, "");
    bs_block_begin(g, name);
    bs_value y = bs_scatter(g, route, e, x);
    large_name(name, sizeof name, l, e, ".up");
    y = bs_linear(g, y, &(bs_linear_desc){.name = name, .out = n->f, .no_bias = 1, .act = BS_RELU});
    large_name(name, sizeof name, l, e, ".down");
    y = bs_linear(g, y, &(bs_linear_desc){.name = name, .out = n->d, .no_bias = 1});
    bs_block_end(g);
    return y;
}

static inline void large_build(bs_graph *g, const large_net *n)
{
    bs_value *out = calloc((size_t)n->experts, sizeof *out),
             x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(n->rows), n->d)), (bs_value){0});
    for (int32_t l = 0; out && l < n->layers; l++) {
        char name[48], router[48];
        large_name(name, sizeof name, l, -1, "");
        snprintf(router, sizeof router, "r%d", (int)l);
        const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = name, .out = n->experts, .no_bias = 1});
        const bs_route_desc desc = {.name = router, .protocol = BS_ROUTE_TOPK, .paths = n->experts, .k = n->k};
        const bs_router route = bs_route(g, score, (bs_value){0}, &desc);
        for (int32_t e = 0; e < n->experts; e++)
            out[e] = large_expert(g, route, x, n, l, e);
        x = bs_clip(g, bs_gather(g, route, out, x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED}), -8, 8);
    }
    bs_output(g, "y", bs_collect(g, x));
    free(out);
}

/* Row r of the input, element i. */
static inline float large_input(int32_t r, int32_t i) { return (float)((r * 31 + i * 7) % 17 - 8); }

#endif
