/* gguf_tiny.h: the tiny routed model that tests of model files work on, sound or with something wrong from the start.
 *
 * Owns: its graph and its weights. Relies on: gguf_forge.h. Must never: depend on the library.
 */
#ifndef GGUF_TINY_H
#define GGUF_TINY_H

#include "gguf_forge.h"

/* frame -> cells of 8x8 -> a router picks one of two convolutions a cell -> frame. Alignment 64 keeps it small. */
enum { TINY_ALIGNMENT = 64, TINY_NODES = 12, TINY_BLOCKS = 3, TINY_WEIGHTS = 6, TINY_MAIN_BYTES = 264, TINY_CONV_BYTES = 260 };

static inline uint32_t tiny_crc32(const uint8_t *data, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static inline void tiny_nodes(forge *f)
{
    static const char *const ops[TINY_NODES] = {"input", "patches", "pool2d", "linear", "route", "scatter",
                                           "conv2d", "scatter", "conv2d", "gather", "assemble", "output"};
    static const char *const names[TINY_NODES] = {"frame", "", "pool", "score", "route", "", "small.conv", "", "large.conv",
                                             "", "", "result"};
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

static inline void tiny_blocks(forge *f, const uint32_t crc[TINY_BLOCKS])
{
    static const char *const names[TINY_BLOCKS] = {"main", "small", "large"};
    static const int32_t first[TINY_BLOCKS] = {0, 5, 7}, end[TINY_BLOCKS] = {TINY_NODES, 7, 9}, tensor[TINY_BLOCKS] = {0, 1, 2};
    static const int64_t bytes[TINY_BLOCKS] = {TINY_MAIN_BYTES, TINY_CONV_BYTES, TINY_CONV_BYTES};
    forge_strings(f, "brainstorm.block.name", names, TINY_BLOCKS);
    forge_i32s(f, "brainstorm.block.first_node", first, TINY_BLOCKS);
    forge_i32s(f, "brainstorm.block.end_node", end, TINY_BLOCKS);
    forge_i32s(f, "brainstorm.block.tensor", tensor, TINY_BLOCKS);
    forge_i64s(f, "brainstorm.block.bytes", T_U64, bytes, TINY_BLOCKS);
    forge_array(f, "brainstorm.block.crc32", T_U32, TINY_BLOCKS);
    forge_put(f, crc, 4 * TINY_BLOCKS);
}

static inline void tiny_weights(forge *f)
{
    static const char *const names[TINY_WEIGHTS] = {"score.weight", "score.bias", "small.conv.weight", "small.conv.bias",
                                               "large.conv.weight", "large.conv.bias"};
    static const int32_t block[TINY_WEIGHTS] = {0, 0, 1, 1, 2, 2}, dtype[TINY_WEIGHTS] = {0}, rank[TINY_WEIGHTS] = {2, 1, 4, 1, 4, 1};
    static const int64_t dims[] = {2, 1, 2, 1, 1, 3, 3, 1, 1, 1, 3, 3, 1}, offset[TINY_WEIGHTS] = {0, 256, 0, 256, 0, 256};
    forge_strings(f, "brainstorm.weight.name", names, TINY_WEIGHTS);
    forge_i32s(f, "brainstorm.weight.block", block, TINY_WEIGHTS);
    forge_i32s(f, "brainstorm.weight.dtype", dtype, TINY_WEIGHTS);
    forge_i32s(f, "brainstorm.weight.rank", rank, TINY_WEIGHTS);
    forge_i64s(f, "brainstorm.weight.dims", T_I64, dims, sizeof dims / 8);
    forge_i64s(f, "brainstorm.weight.offset", T_U64, offset, TINY_WEIGHTS);
}

typedef enum extra {
    NOTHING, DUPLICATE_KEY, NESTED_ARRAY, FOREIGN_KEYS, NO_ARCHITECTURE, NO_VERSION, NO_ALIGNMENT, DUPLICATE_TENSOR,
    TRAILING_BYTES, NO_TAIL_PADDING
} extra;

static inline void tiny_head(forge *f, extra more)
{
    static const char *const names[2] = {"H", "W"};
    static const int64_t maxima[2] = {16, 24};
    if (more != NO_ARCHITECTURE)
        forge_key_string(f, "general.architecture", "brainstorm");
    if (more != NO_ALIGNMENT)
        forge_key_u32(f, "general.alignment", TINY_ALIGNMENT);
    if (more != NO_VERSION)
        forge_key_u32(f, "brainstorm.version", 1);
    forge_key_u32(f, "brainstorm.opset", 1);
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

/* Records: 8 bytes of weight, bias at 256; or nine taps, bias at 256. */
static inline void tiny_make_records(uint8_t records[TINY_BLOCKS][512], uint32_t crc[TINY_BLOCKS])
{
    static const size_t bytes[TINY_BLOCKS] = {TINY_MAIN_BYTES, TINY_CONV_BYTES, TINY_CONV_BYTES};
    memset(records, 0, TINY_BLOCKS * 512);
    for (size_t b = 0; b < TINY_BLOCKS; b++) {
        for (size_t i = 0; i < (b ? 9u : 2u); i++) {
            const float tap = (float)(b + 1) * 0.125f + (float)i;
            memcpy(records[b] + 4 * i, &tap, 4);
        }
        const float bias[2] = {0.5f + (float)b, -1.0f};
        memcpy(records[b] + 256, bias, b ? 4 : 8);
        crc[b] = tiny_crc32(records[b], bytes[b]);
    }
}

static inline void tiny_write(forge *f, extra more)
{
    static const char *const names[TINY_BLOCKS] = {"block.main", "block.small", "block.large"};
    static const size_t bytes[TINY_BLOCKS] = {TINY_MAIN_BYTES, TINY_CONV_BYTES, TINY_CONV_BYTES};
    uint8_t records[TINY_BLOCKS][512];
    uint32_t crc[TINY_BLOCKS];
    tiny_make_records(records, crc);
    forge_begin(f);
    tiny_head(f, more);
    tiny_nodes(f);
    tiny_blocks(f, crc);
    tiny_weights(f);
    tiny_extra(f, more);
    for (size_t b = 0, offset = 0; b < TINY_BLOCKS; b++) {
        forge_tensor(f, more == DUPLICATE_TENSOR && b ? "block.small" : names[b], bytes[b], offset);
        offset += (bytes[b] + TINY_ALIGNMENT - 1) / TINY_ALIGNMENT * TINY_ALIGNMENT;
    }
    for (size_t b = 0; b < TINY_BLOCKS; b++) {
        forge_pad(f, more == NO_ALIGNMENT ? 32 : TINY_ALIGNMENT);
        forge_put(f, records[b], bytes[b]);
    }
    if (more != NO_TAIL_PADDING)
        forge_pad(f, TINY_ALIGNMENT);
    if (more == TRAILING_BYTES)
        forge_put(f, "anything", 8);
    forge_end(f);
}

#endif
