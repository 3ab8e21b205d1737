/* sweep_net.h: the model of the sweeps, and the file that it is. Small enough to damage every bit of it, with every
 * kind of router, states, segments, patches, a block that every run goes through and one that a router chooses.
 *
 * Owns: the graph, made by the builder's own calls, its weights, and the bytes of a GGUF file that says the same.
 * Relies on: gguf_forge.h; graph/graph.h and ops/table.h, to write down what the builder made.
 * Must never: exceed SWEEP_FILE_BYTES, nor share code with src/model/gguf.c and src/model*.c, which it is there to
 * break.
 */
#ifndef SWEEP_NET_H
#define SWEEP_NET_H

#include "gguf_forge.h"
#include "graph/graph.h"
#include "ops/table.h"
#include "ops/structure.h"

enum {
    SWEEP_FILE_BYTES = 16384, SWEEP_PAGE = 4096, SWEEP_HEAD = 256,
    SWEEP_ROWS = 6, SWEEP_WIDTH = 4, SWEEP_SIDE = 8, SWEEP_SEGMENTS = 2, SWEEP_WINDOW = 3,
    SWEEP_WEIGHTS = 24, SWEEP_BLOCKS = 4
};

/* ----------------------------------------------------------------------------------------------------- the graph */

/* One path of a router gives rows, what the others leave is kept. */
static inline bs_value sweep_some(bs_graph *g, bs_router r, int32_t path, bs_value x, int32_t mode)
{
    bs_value rows[3] = {{0}, {0}, {0}};
    rows[path] = bs_scatter(g, r, path, x);
    return bs_gather(g, r, rows, x, &(bs_gather_desc){.mode = mode});
}

static inline bs_value sweep_expert(bs_graph *g, bs_value x, void *user)
{
    (void)user;
    return bs_linear(g, x, &(bs_linear_desc){.name = "expert", .out = SWEEP_WIDTH, .act = BS_RELU});
}

/* All that look at scores [3] of a row. */
static inline bs_value sweep_scored(bs_graph *g, bs_value x, bs_value score, bs_value knob)
{
    const bs_value none = {0};
    bs_value rows[3] = {{0}, {0}, {0}};
    const bs_router top1 = bs_route(g, score, none, &(bs_route_desc){.name = "top1", .paths = 3});
    rows[0] = bs_branch(g, top1, 0, "expert", x, sweep_expert, NULL);
    rows[2] = bs_scatter(g, top1, 2, x);
    x = bs_gather(g, top1, rows, x, NULL);
    const bs_router topk = bs_route(
        g, score, none,
        &(bs_route_desc){.name = "topk", .protocol = BS_ROUTE_TOPK, .paths = 3, .k = 2, .normalise = 1});
    rows[0] = bs_scatter(g, topk, 0, x);
    rows[1] = none;
    rows[2] = bs_scatter(g, topk, 2, x);
    x = bs_gather(g, topk, rows, none, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED});
    const bs_router over = bs_route(
        g, score, knob, &(bs_route_desc){.name = "over", .protocol = BS_ROUTE_THRESHOLD, .paths = 3, .fallback = 2});
    x = sweep_some(g, over, 1, x, BS_GATHER_ADD);
    const bs_router full = bs_route(
        g, score, none, &(bs_route_desc){.name = "full", .protocol = BS_ROUTE_CAPACITY, .paths = 3, .capacity = 2});
    x = sweep_some(g, full, 0, x, BS_GATHER_WEIGHTED);
    const bs_router asked = bs_route(g, score, none,
                                     &(bs_route_desc){.name = "asked", .protocol = BS_ROUTE_CALLBACK, .paths = 3});
    return sweep_some(g, asked, 2, x, BS_GATHER_PLACE);
}

/* Those that look at fewer numbers, or at whole ones. */
static inline bs_value sweep_numbered(bs_graph *g, bs_value x, bs_value score, bs_value knob, bs_value *price)
{
    const bs_value none = {0};
    bs_value label;
    const bs_value two = bs_slice(g, score, &(bs_slice_desc){.length = 2});
    const bs_router sum = bs_route(
        g, two, none,
        &(bs_route_desc){.name = "sum", .protocol = BS_ROUTE_RESIDUAL_THRESHOLD, .paths = 2, .threshold = 0.25f});
    x = sweep_some(g, sum, 1, x, BS_GATHER_SELECT);
    const bs_value one = bs_topk(g, score, 1, &label);
    const bs_router left = bs_route(
        g, one, knob, &(bs_route_desc){.name = "exit", .protocol = BS_ROUTE_BINARY, .paths = 2, .threshold = 0.5f});
    x = sweep_some(g, left, 0, x, BS_GATHER_PLACE);
    const bs_router said = bs_route(g, label, none,
                                    &(bs_route_desc){.name = "label", .protocol = BS_ROUTE_LABEL, .paths = 3});
    x = sweep_some(g, said, 1, x, BS_GATHER_PLACE);
    const bs_value loss = bs_convert(g, bs_activation(g, score, BS_RELU, 0),
                                     &(bs_convert_desc){.dtype = BS_I32, .scale = 100});
    const bs_router spent = bs_route(g, loss, knob,
                                     &(bs_route_desc){.name = "spend", .protocol = BS_ROUTE_BUDGET, .paths = 3});
    x = sweep_some(g, spent, 1, bs_mul(g, x, bs_route_score(g, left)), BS_GATHER_ADD);
    *price = bs_route_price(g, spent);
    return x;
}

/* Tokens of two sequences, with what is remembered of them. */
static inline void sweep_sequences(bs_graph *g, bs_value rows)
{
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SWEEP_SEGMENTS)),
                   past = bs_input(g, "past", BS_I32, BS_SHAPE1(SWEEP_SEGMENTS));
    const bs_value cache = bs_state(g, "cache", BS_F32, BS_SHAPE3(SWEEP_SEGMENTS, SWEEP_WINDOW, SWEEP_WIDTH));
    const bs_value x = bs_segments(g, rows, lengths);
    const bs_value y = bs_attention(g, x, x, x, cache, cache, past, &(bs_attention_desc){.heads = 2, .alibi = 1});
    bs_state_append(g, cache, x, past);
    bs_output(g, "last",
              bs_segment_reduce(g, bs_add(g, y, bs_segment_spread(g, bs_segment_reduce(g, x, NULL), x)),
                                &(bs_segment_reduce_desc){.mode = BS_SEGMENT_MEAN}));
}

/* Patches that changed since the frame before are smoothed; the others are what they were. */
static inline void sweep_frames(bs_graph *g)
{
    const bs_dim h = bs_symbol(g, "H", SWEEP_SIDE), w = bs_symbol(g, "W", SWEEP_SIDE);
    const bs_value frame = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, h, w)),
                   before = bs_state(g, "before", BS_U8, BS_SHAPE3(1, h, w));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 4}),
                   old = bs_patches(g, before, &(bs_patches_desc){.size = 4, .like = cells});
    const bs_value change = bs_slice(g, bs_patch_features(g, cells, old, &(bs_patch_features_desc){.buckets = 64}),
                                     &(bs_slice_desc){.start = 1, .length = 1});
    const bs_router moved = bs_route(
        g, change, (bs_value){0},
        &(bs_route_desc){.name = "moved", .protocol = BS_ROUTE_TABLE, .paths = 2, .keys = 64});
    bs_value rows[2] = {{0}, {0}};
    const bs_value smooth = bs_conv2d(g, bs_convert(g, cells, &(bs_convert_desc){.dtype = BS_F32}),
                                      &(bs_conv2d_desc){.name = "smooth", .out = 1});
    rows[1] = bs_convert(g, bs_scatter(g, moved, 1, smooth), &(bs_convert_desc){.dtype = BS_U8});
    const bs_value now = bs_assemble(g, bs_gather(g, moved, rows, old, NULL));
    bs_state_write(g, before, now);
    bs_output(g, "shown", now);
}

/* What every run goes through is a block as well, so that there are weights of both kinds to stream; what it leaves
 * outside stays. */
static inline void sweep_build(bs_graph *g)
{
    const bs_value in = bs_input(g, "rows", BS_F32, BS_SHAPE2(bs_symbol(g, "N", SWEEP_ROWS), SWEEP_WIDTH)),
                   knob = bs_input(g, "knob", BS_F32, BS_SHAPE1(1));
    bs_value price = {0};
    bs_block_begin(g, "trunk");
    sweep_frames(g);
    bs_value x = bs_rows(g, in, (bs_value){0});
    const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = "score", .out = 3});
    bs_look_ahead(g, score, "top1");
    x = sweep_scored(g, x, score, knob);
    x = sweep_numbered(g, x, score, knob, &price);
    x = bs_linear(g, x, &(bs_linear_desc){.name = "tail", .out = SWEEP_WIDTH});
    bs_block_end(g);
    const bs_value y = bs_collect(g, x);
    bs_output(g, "out", y);
    bs_output(g, "price", price);
    sweep_sequences(g, y);
}

/* ---------------------------------------------------------------------------------------------------- the weights */

typedef struct sweep_weight {
    char name[BS_MAX_WEIGHT_NAME];
    bs_weight_spec spec;
    bs_dtype stored;
    int32_t block;
    uint64_t offset, bytes; /* in the record */
} sweep_weight;

typedef struct sweep_file {
    forge f;
    sweep_weight weights[SWEEP_WEIGHTS];
    size_t n_weights, n_blocks;
    uint64_t record_bytes[SWEEP_BLOCKS], record_at[SWEEP_BLOCKS]; /* 0: none */
    uint32_t crc[SWEEP_BLOCKS];
    uint8_t payload[SWEEP_BLOCKS][SWEEP_PAGE];
    size_t header_end; /* of keys and tensors; padding follows */
} sweep_file;

static inline void sweep_weight_fill(uint8_t *to, const sweep_weight *w)
{
    for (uint64_t i = 0; i < bs_bytes_figure(bs_weight_elements(&w->spec)); i++) {
        const float f = strcmp(w->name, "smooth.weight") == 0
                            ? 0.11f
                            : (float)((i * 3 + (uint64_t)w->name[1]) % 5) / 3.0f - 0.7f;
        const int32_t n = strstr(w->name, ".cost")   ? 1 + 3 * (int32_t)i
                          : strstr(w->name, ".path") ? (int32_t)i
                                                     : i > 57;
        const uint16_t half = bs_f32_to_f16(f);
        memcpy(to + i * bs_dtype_bytes(w->stored),
               w->stored == BS_F16   ? (const void *)&half
               : w->stored == BS_I32 ? (const void *)&n
                                     : (const void *)&f,
               bs_dtype_bytes(w->stored));
    }
}

/* Those of `block`, in the order of their nodes. The expert's are halves. */
static inline void sweep_weights_of(sweep_file *s, const bs_graph *g, int32_t block)
{
    uint64_t at = SWEEP_HEAD;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        const int32_t count = node->block == block ? bs_node_weights(g, node, specs) : 0;
        for (int32_t i = 0; i < count; i++) {
            sweep_weight *w = &s->weights[s->n_weights++];
            if (s->n_weights > SWEEP_WEIGHTS || at + 256 > SWEEP_PAGE)
                exit(2);
            snprintf(w->name, sizeof w->name, "%.60s%s%.20s", bs_node_name(node), *specs[i].suffix ? "." : "",
                     specs[i].suffix);
            w->spec = specs[i];
            w->stored = specs[i].dtype == BS_F32 && strncmp(w->name, "expert", 6) == 0 ? BS_F16 : specs[i].dtype;
            w->block = block;
            w->offset = at;
            w->bytes = bs_bytes_figure(bs_weight_elements(&specs[i])) * bs_dtype_bytes(w->stored);
            sweep_weight_fill(s->payload[block] + at, w);
            s->record_bytes[block] = at + w->bytes;
            at = (at + w->bytes + 255) / 256 * 256;
        }
    }
}

/* ------------------------------------------------------------------------------------------------------- the file */

static inline void sweep_write_nodes(forge *f, const bs_graph *g)
{
    const size_t n = (size_t)g->n_nodes - 1;
    static const char *text[512];
    static int32_t counts[512], list[4096];
    size_t k = 0;
    if (n > 512)
        exit(2);
    for (size_t i = 0; i < n; i++)
        text[i] = bs_op_get(g->nodes[i + 1].op)->name;
    forge_strings(f, "brainstorm.node.op", text, n);
    for (size_t i = 0; i < n; i++)
        text[i] = bs_node_name(&g->nodes[i + 1]);
    forge_strings(f, "brainstorm.node.name", text, n);
    for (size_t i = 0; i < n; i++) {
        counts[i] = g->nodes[i + 1].n_in;
        for (int32_t a = 0; a < counts[i]; a++)
            list[k++] = bs_node_in(g, &g->nodes[i + 1])[a];
    }
    forge_i32s(f, "brainstorm.node.inputs.count", counts, n);
    forge_i32s(f, "brainstorm.node.inputs", list, k);
    k = 0;
    for (size_t i = 0; i < n; i++) {
        counts[i] = g->nodes[i + 1].params ? bs_op_get(g->nodes[i + 1].op)->n_fields : 0;
        if (counts[i])
            memcpy(list + k, (const uint8_t *)g->nodes[i + 1].params + sizeof(char *), 4 * (size_t)counts[i]);
        k += (size_t)counts[i];
    }
    forge_i32s(f, "brainstorm.node.params.count", counts, n);
    forge_i32s(f, "brainstorm.node.params", list, k);
    for (size_t i = 0; i < n; i++)
        counts[i] = g->nodes[i + 1].block;
    forge_i32s(f, "brainstorm.node.block", counts, n);
}

static inline void sweep_write_symbols(forge *f, const bs_graph *g)
{
    static const char *names[16];
    int64_t maxima[16];
    size_t n = 0;
    for (int32_t d = 0; d < g->n_dims; d++)
        if (g->dims[d].kind == BS_DIM_SYMBOL) {
            names[n] = g->text + g->dims[d].name;
            maxima[n++] = g->dims[d].maximum;
        }
    forge_strings(f, "brainstorm.symbol.name", names, n);
    forge_i64s(f, "brainstorm.symbol.maximum", T_I64, maxima, n);
}

static inline void sweep_write_blocks(forge *f, const bs_graph *g, sweep_file *s)
{
    static const char *names[SWEEP_BLOCKS];
    int32_t first[SWEEP_BLOCKS], end[SWEEP_BLOCKS], tensor[SWEEP_BLOCKS], tensors = 0;
    int64_t bytes[SWEEP_BLOCKS];
    for (size_t b = 0; b < s->n_blocks; b++) {
        names[b] = b ? g->text + g->blocks[b].name : "main";
        first[b] = b ? g->blocks[b].first_node - 1 : 0;
        end[b] = b ? g->blocks[b].end_node - 1 : g->n_nodes - 1;
        bytes[b] = (int64_t)s->record_bytes[b];
        tensor[b] = bytes[b] ? tensors++ : -1;
    }
    forge_strings(f, "brainstorm.block.name", names, s->n_blocks);
    forge_i32s(f, "brainstorm.block.first_node", first, s->n_blocks);
    forge_i32s(f, "brainstorm.block.end_node", end, s->n_blocks);
    forge_i32s(f, "brainstorm.block.tensor", tensor, s->n_blocks);
    forge_i64s(f, "brainstorm.block.bytes", T_U64, bytes, s->n_blocks);
    forge_array(f, "brainstorm.block.crc32", T_U32, s->n_blocks);
    forge_put(f, s->crc, 4 * s->n_blocks);
}

static inline void sweep_write_weights(forge *f, const sweep_file *s)
{
    const char *names[SWEEP_WEIGHTS];
    int32_t block[SWEEP_WEIGHTS], dtype[SWEEP_WEIGHTS], rank[SWEEP_WEIGHTS];
    int64_t dims[4 * SWEEP_WEIGHTS], offset[SWEEP_WEIGHTS];
    size_t n = 0;
    for (size_t i = 0; i < s->n_weights; i++) {
        const sweep_weight *w = &s->weights[i];
        names[i] = w->name;
        block[i] = w->block;
        dtype[i] = (int32_t)w->stored;
        rank[i] = w->spec.rank;
        offset[i] = (int64_t)w->offset;
        for (int32_t d = 0; d < w->spec.rank; d++)
            dims[n++] = w->spec.dim[d];
    }
    forge_strings(f, "brainstorm.weight.name", names, s->n_weights);
    forge_i32s(f, "brainstorm.weight.block", block, s->n_weights);
    forge_i32s(f, "brainstorm.weight.dtype", dtype, s->n_weights);
    forge_i32s(f, "brainstorm.weight.rank", rank, s->n_weights);
    forge_i64s(f, "brainstorm.weight.dims", T_I64, dims, n);
    forge_i64s(f, "brainstorm.weight.offset", T_U64, offset, s->n_weights);
}

CHECK_WRAPS static inline uint64_t sweep_file_id(const sweep_file *s)
{
    uint64_t id = 14695981039346656037u;
    for (size_t b = 0; b < s->n_blocks; b++) {
        uint8_t bytes[12];
        memcpy(bytes, &s->crc[b], 4);
        memcpy(bytes + 4, &s->record_bytes[b], 8);
        for (size_t i = 0; i < sizeof bytes; i++)
            id = (id ^ bytes[i]) * 1099511628211u;
    }
    return id;
}

static inline void sweep_write_records(forge *f, sweep_file *s, uint64_t id)
{
    static const uint8_t rest[SWEEP_HEAD - 32] = {0};
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        if (s->record_bytes[b] == 0)
            continue;
        s->record_at[b] = f->n;
        forge_put(f, "BSRC", 4);
        forge_u32(f, 1);
        forge_u32(f, b);
        forge_u32(f, s->crc[b]);
        forge_u64(f, s->record_bytes[b]);
        forge_u64(f, id);
        forge_put(f, rest, sizeof rest);
        forge_put(f, s->payload[b] + SWEEP_HEAD, s->record_bytes[b] - SWEEP_HEAD);
        forge_pad(f, SWEEP_PAGE);
    }
}

/* The file of a graph that the builder calls made; 0 when it is larger than it may be. */
static inline size_t sweep_write(sweep_file *s, const bs_graph *g)
{
    forge *f = &s->f;
    memset(s, 0, sizeof *s);
    s->n_blocks = (size_t)g->n_blocks;
    for (int32_t b = 0; b < g->n_blocks; b++)
        sweep_weights_of(s, g, b);
    for (size_t b = 0; b < s->n_blocks; b++)
        s->crc[b] = s->record_bytes[b] ? forge_crc32(s->payload[b] + SWEEP_HEAD, s->record_bytes[b] - SWEEP_HEAD) : 0;
    const uint64_t id = sweep_file_id(s);
    forge_begin(f);
    forge_key_string(f, "general.architecture", "brainstorm");
    forge_key_u32(f, "general.alignment", SWEEP_PAGE);
    forge_key_u32(f, "brainstorm.version", 2);
    forge_key_u32(f, "brainstorm.opset", 2);
    forge_key(f, "brainstorm.file.id", T_U64);
    forge_u64(f, id);
    forge_key_string(f, "brainstorm.model.name", "sweep");
    forge_key_u32(f, "brainstorm.value.count", (uint32_t)g->n_values - 1);
    sweep_write_symbols(f, g);
    sweep_write_nodes(f, g);
    sweep_write_blocks(f, g, s);
    sweep_write_weights(f, s);
    uint64_t offset = 0;
    for (size_t b = 0; b < s->n_blocks; b++) {
        char name[BS_MAX_NAME];
        if (s->record_bytes[b] == 0)
            continue;
        snprintf(name, sizeof name, "block.%.50s", b ? g->text + g->blocks[b].name : "main");
        forge_tensor(f, name, s->record_bytes[b], offset);
        offset += (s->record_bytes[b] + SWEEP_PAGE - 1) / SWEEP_PAGE * SWEEP_PAGE;
    }
    forge_end(f);
    s->header_end = f->n;
    forge_pad(f, SWEEP_PAGE);
    sweep_write_records(f, s, id);
    return f->n <= SWEEP_FILE_BYTES ? f->n : 0;
}

#endif
