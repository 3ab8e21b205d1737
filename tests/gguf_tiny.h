/* gguf_tiny.h: the tiny routed model that tests of model files work on, sound or with something wrong from the start.
 *
 * Owns: its graph and its weights. Relies on: gguf_forge.h. Must never: depend on the library.
 */
#ifndef GGUF_TINY_H
#define GGUF_TINY_H

#include "gguf_forge.h"

/* frame -> cells of 8x8 -> a router picks one of two convolutions a cell -> frame. Alignment 64 keeps it small. */
enum { TINY_ALIGNMENT = 64, TINY_NODES = 12, TINY_BLOCKS = 3, TINY_WEIGHTS = 6, TINY_HEAD_BYTES = 256,
       TINY_MAIN_BYTES = TINY_HEAD_BYTES + 264, TINY_CONV_BYTES = TINY_HEAD_BYTES + 260, TINY_PAYLOAD_BYTES = 512 };

typedef enum extra {
    NOTHING, DUPLICATE_KEY, NESTED_ARRAY, FOREIGN_KEYS, NO_ARCHITECTURE, NO_VERSION, NO_ALIGNMENT, DUPLICATE_TENSOR,
    TRAILING_BYTES, NO_TAIL_PADDING, OLD_VERSION, /* 1: records without heads */
    NO_FILE_ID, PAGES,                            /* records aligned to 4096, as in files that are streamed */
    OTHER_WEIGHTS,                                /* PAGES, and another model of the same shapes */
    NOT_ZERO                                      /* a byte between two weights is not, and the checksum knows */
} extra;

static inline size_t tiny_head_bytes(extra more) { return more == OLD_VERSION ? 0 : TINY_HEAD_BYTES; }
static inline size_t tiny_alignment(extra more)
{
    return more == PAGES || more == OTHER_WEIGHTS ? 4096 : TINY_ALIGNMENT;
}
/* Of a block's record, its head included. */
static inline size_t tiny_record_bytes(size_t block, extra more)
{
    return (size_t)(block ? TINY_CONV_BYTES : TINY_MAIN_BYTES) - TINY_HEAD_BYTES + tiny_head_bytes(more);
}

static inline void tiny_nodes(forge *f)
{
    static const char *const ops[TINY_NODES] = {"input", "patches", "pool2d", "linear", "route", "scatter",
                                           "conv2d", "scatter", "conv2d", "gather", "assemble", "output"};
    static const char *const names[TINY_NODES] = {"frame",      "", "pool",       "score", "route", "",
                                                  "small.conv", "", "large.conv", "",      "",      "result"};
    static const int32_t n_inputs[TINY_NODES] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1};
    static const int32_t inputs[] = {1, 2, 3, 4, 2, 5, 2, 7, 6, 8, 0, 9, 10};
    static const int32_t n_params[TINY_NODES] = {6, 1, 6, 1, 2, 2, 2, 2, 2, 2, 0, 0};
    static const int32_t params[] = {0, 3, 1, -1, -2, 0, 8, 0, 0, 0, 0, 1, 0, 2, 0, 2, 1, 0, 1, 3, 1, 1, 1, 3, 1, 0};
    static const int32_t blocks[TINY_NODES] = {0, 0, 0, 0, 0, 1, 1, 2, 2, 0, 0, 0};
    forge_strings(f, "brainstorm.node.op", ops, TINY_NODES);
    forge_strings(f, "brainstorm.node.name", names, TINY_NODES);
    forge_i32s(f, "brainstorm.node.inputs.count", n_inputs, TINY_NODES);
    forge_i32s(f, "brainstorm.node.inputs", inputs, sizeof inputs / 4);
    forge_i32s(f, "brainstorm.node.params.count", n_params, TINY_NODES);
    forge_i32s(f, "brainstorm.node.params", params, sizeof params / 4);
    forge_i32s(f, "brainstorm.node.block", blocks, TINY_NODES);
}

static inline void tiny_blocks(forge *f, const uint32_t crc[TINY_BLOCKS], extra more)
{
    static const char *const names[TINY_BLOCKS] = {"main", "small", "large"};
    static const int32_t first[TINY_BLOCKS] = {0, 5, 7}, end[TINY_BLOCKS] = {TINY_NODES, 7, 9},
                         tensor[TINY_BLOCKS] = {0, 1, 2};
    int64_t bytes[TINY_BLOCKS];
    for (size_t b = 0; b < TINY_BLOCKS; b++)
        bytes[b] = (int64_t)tiny_record_bytes(b, more);
    forge_strings(f, "brainstorm.block.name", names, TINY_BLOCKS);
    forge_i32s(f, "brainstorm.block.first_node", first, TINY_BLOCKS);
    forge_i32s(f, "brainstorm.block.end_node", end, TINY_BLOCKS);
    forge_i32s(f, "brainstorm.block.tensor", tensor, TINY_BLOCKS);
    forge_i64s(f, "brainstorm.block.bytes", T_U64, bytes, TINY_BLOCKS);
    forge_array(f, "brainstorm.block.crc32", T_U32, TINY_BLOCKS);
    forge_put(f, crc, 4 * TINY_BLOCKS);
}

static inline void tiny_weights(forge *f, extra more)
{
    static const char *const names[TINY_WEIGHTS] = {"score.weight",    "score.bias",        "small.conv.weight",
                                                    "small.conv.bias", "large.conv.weight", "large.conv.bias"};
    static const int32_t block[TINY_WEIGHTS] = {0, 0, 1, 1, 2, 2}, dtype[TINY_WEIGHTS] = {0},
                         rank[TINY_WEIGHTS] = {2, 1, 4, 1, 4, 1};
    static const int64_t dims[] = {2, 1, 2, 1, 1, 3, 3, 1, 1, 1, 3, 3, 1};
    int64_t offset[TINY_WEIGHTS];
    for (size_t i = 0; i < TINY_WEIGHTS; i++)
        offset[i] = (int64_t)(tiny_head_bytes(more) + (i % 2 ? 256 : 0));
    forge_strings(f, "brainstorm.weight.name", names, TINY_WEIGHTS);
    forge_i32s(f, "brainstorm.weight.block", block, TINY_WEIGHTS);
    forge_i32s(f, "brainstorm.weight.dtype", dtype, TINY_WEIGHTS);
    forge_i32s(f, "brainstorm.weight.rank", rank, TINY_WEIGHTS);
    forge_i64s(f, "brainstorm.weight.dims", T_I64, dims, sizeof dims / 8);
    forge_i64s(f, "brainstorm.weight.offset", T_U64, offset, TINY_WEIGHTS);
}

static inline void tiny_head(forge *f, uint64_t file_id, extra more)
{
    static const char *const names[2] = {"H", "W"};
    static const int64_t maxima[2] = {16, 24};
    if (more != NO_ARCHITECTURE)
        forge_key_string(f, "general.architecture", "brainstorm");
    if (more != NO_ALIGNMENT)
        forge_key_u32(f, "general.alignment", (uint32_t)tiny_alignment(more));
    if (more != NO_VERSION)
        forge_key_u32(f, "brainstorm.version", more == OLD_VERSION ? 1 : 2);
    forge_key_u32(f, "brainstorm.opset", 1);
    if (more != OLD_VERSION && more != NO_FILE_ID) {
        forge_key(f, "brainstorm.file.id", T_U64);
        forge_u64(f, file_id);
    }
    forge_key_string(f, "brainstorm.model.name", "tiny");
    forge_key_u32(f, "brainstorm.model.scale", 1);
    forge_key_u32(f, "brainstorm.value.count", 10);
    forge_strings(f, "brainstorm.symbol.name", names, 2);
    forge_i64s(f, "brainstorm.symbol.maximum", T_I64, maxima, 2);
}

static inline void tiny_extra(forge *f, extra more)
{
    if (more == DUPLICATE_KEY)
        forge_key_u32(f, "brainstorm.opset", 1);
    if (more == NESTED_ARRAY) {
        forge_array(f, "other.nested", T_ARRAY, 1);
        forge_u32(f, T_U32);
        forge_u64(f, 1);
        forge_u32(f, 7);
    }
    if (more == FOREIGN_KEYS) {
        forge_strings(f, "other.words", (const char *const[]){"one", "", "three"}, 3);
        forge_array(f, "other.nothing", T_F64, 0);
        forge_key(f, "other.flag", T_BOOL);
        forge_put(f, "\1", 1);
    }
}

/* What follows the heads: 8 bytes of weight, bias at 256; or nine taps, bias at 256. */
static inline void tiny_make_payloads(uint8_t payloads[TINY_BLOCKS][TINY_PAYLOAD_BYTES], extra more)
{
    memset(payloads, 0, TINY_BLOCKS * TINY_PAYLOAD_BYTES);
    for (size_t b = 0; b < TINY_BLOCKS; b++) {
        for (size_t i = 0; i < (b ? 9u : 2u); i++) {
            const float tap = (float)(b + 1) * 0.125f + (float)i + (more == OTHER_WEIGHTS ? 1.0f : 0.0f);
            memcpy(payloads[b] + 4 * i, &tap, 4);
        }
        const float bias[2] = {0.5f + (float)b, -1.0f};
        memcpy(payloads[b] + 256, bias, b ? 4 : 8);
    }
    if (more == NOT_ZERO)
        payloads[1][100] = 1;
}

/* FNV-1a over checksum and length of every block, as python/brainstorm/file.py does. */
CHECK_WRAPS static inline uint64_t tiny_file_id(const uint32_t crc[TINY_BLOCKS], extra more)
{
    uint64_t id = 14695981039346656037u;
    for (size_t b = 0; b < TINY_BLOCKS; b++) {
        const uint64_t length = tiny_record_bytes(b, more);
        uint8_t bytes[12];
        memcpy(bytes, &crc[b], 4);
        memcpy(bytes + 4, &length, 8);
        for (size_t i = 0; i < sizeof bytes; i++)
            id = (id ^ bytes[i]) * 1099511628211u;
    }
    return id;
}

static inline void tiny_record_head(forge *f, uint32_t block, uint32_t crc, uint64_t file_id)
{
    static const uint8_t rest[TINY_HEAD_BYTES - 32] = {0};
    forge_put(f, "BSRC", 4);
    forge_u32(f, 1);
    forge_u32(f, block);
    forge_u32(f, crc);
    forge_u64(f, tiny_record_bytes(block, NOTHING));
    forge_u64(f, file_id);
    forge_put(f, rest, sizeof rest);
}

static inline void tiny_tensors(forge *f, extra more)
{
    static const char *const names[TINY_BLOCKS] = {"block.main", "block.small", "block.large"};
    const size_t alignment = tiny_alignment(more);
    for (size_t b = 0, offset = 0; b < TINY_BLOCKS; b++) {
        const size_t bytes = tiny_record_bytes(b, more);
        forge_tensor(f, more == DUPLICATE_TENSOR && b ? "block.small" : names[b], bytes, offset);
        offset += (bytes + alignment - 1) / alignment * alignment;
    }
}

static inline void tiny_write(forge *f, extra more)
{
    uint8_t payloads[TINY_BLOCKS][TINY_PAYLOAD_BYTES];
    uint32_t crc[TINY_BLOCKS];
    const size_t alignment = tiny_alignment(more), head = tiny_head_bytes(more);
    tiny_make_payloads(payloads, more);
    for (size_t b = 0; b < TINY_BLOCKS; b++)
        crc[b] = forge_crc32(payloads[b], tiny_record_bytes(b, more) - head);
    const uint64_t id = tiny_file_id(crc, more);
    forge_begin(f);
    tiny_head(f, id, more);
    tiny_nodes(f);
    tiny_blocks(f, crc, more);
    tiny_weights(f, more);
    tiny_extra(f, more);
    tiny_tensors(f, more);
    f->header = f->n;
    forge_pad(f, more == NO_ALIGNMENT ? 32 : alignment);
    f->data = f->n;
    for (uint32_t b = 0; b < TINY_BLOCKS; b++) {
        forge_pad(f, more == NO_ALIGNMENT ? 32 : alignment);
        if (head)
            tiny_record_head(f, b, crc[b], id);
        forge_put(f, payloads[b], tiny_record_bytes(b, more) - head);
    }
    if (more != NO_TAIL_PADDING)
        forge_pad(f, alignment);
    if (more == TRAILING_BYTES)
        forge_put(f, "anything", 8);
    forge_end(f);
}

#endif
