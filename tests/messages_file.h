/* messages_file.h: what a model file with one number that is wrong must be told to be: the table of
 * test_messages_file.c.
 *
 * Owns: the number, where it is, and the text. Relies on: gguf_tiny.h. Must never: hold a part of a message.
 */
#ifndef BS_TEST_MESSAGES_FILE_H
#define BS_TEST_MESSAGES_FILE_H

#include "brainstorm.h"
#include "gguf_tiny.h"

#define F BS_ERROR_FORMAT
#define TEXT_OF(macro) TEXT_OF_(macro)
#define TEXT_OF_(text) #text
static const struct {
    const char *record;
    forge_part part;
    size_t index, bytes;
    uint64_t value;
    bs_status status;
    const char *text;
} rows[] = {
    {NULL, AT_FILE, 0, 4, 0x47475546, F, "memory: not a GGUF file: it does not start with \"GGUF\""},
    {NULL, AT_FILE, 4, 4, 2, BS_ERROR_VERSION, "memory: GGUF version 2, expected 3"},
    {NULL, AT_FILE, 4, 4, 0x03000000, BS_ERROR_VERSION, "memory: the GGUF file is big-endian, expected little-endian"},
    {NULL, AT_FILE, 8, 8, UINT64_MAX, F, "memory: 18446744073709551615 tensors cannot fit into a file of 4288 bytes"},
    {NULL, AT_FILE, 16, 8, 1000, F, "memory: 1000 keys cannot fit into a file of 4288 bytes"},
    {"brainstorm.opset", AT_START, 0, 8, 0, F, "memory: key 3 \"\": its name is empty"},
    {"brainstorm.opset", AT_START, 0, 8, 128, F, "memory: key 3 \"\": its name has 128 bytes, expected at most 127"},
    {"brainstorm.opset", AT_NAME, 3, 1, 27, F, "memory: key 3 \"\": its name, at byte 149, is not printable ASCII"},
    {"brainstorm.opset", AT_TYPE, 0, 4, 13, F, "memory: key 3 \"brainstorm.opset\": its type is 13, expected 0 .. 12"},
    {"brainstorm.node.inputs", AT_VALUE, 0, 4, T_ARRAY, F,
     "memory: key 13 \"brainstorm.node.inputs\": it is an array of arrays, expected one of numbers or strings"},
    {"brainstorm.node.inputs", AT_COUNT, 0, 8, UINT64_MAX, F,
     "memory: key 13 \"brainstorm.node.inputs\": its value: 18446744073709551615 bytes needed at byte 1005, 3283 left"},
    {"general.architecture", AT_VALUE, 0, 8, 1 << 24, F,
     "memory: key 0 \"general.architecture\": its value: 16777216 bytes needed at byte 64, 4224 left"},
    {"general.alignment", AT_VALUE, 0, 4, 4, F, "memory: key \"general.alignment\" is 4, expected 8 .. 65536"},
    {"general.alignment", AT_VALUE, 0, 4, 24, F, "memory: key \"general.alignment\" is 24, expected a power of two"},
    {"general.alignment", AT_TYPE, 0, 4, T_I32, F, "memory: key \"general.alignment\" is i32, expected u32"},
    {"block.small", AT_START, 0, 8, 0, F, "memory: tensor 1 \"\": its name is empty"},
    {"block.small", AT_START, 0, 8, 64, F, "memory: tensor 1 \"\": its name has 64 bytes, expected at most 63"},
    {"block.small", AT_TYPE, 0, 4, 5, F, "memory: tensor 1 \"block.small\": its rank is 5, expected 1 .. 4"},
    {"block.small", AT_VALUE, 0, 8, 0, F,
     "memory: tensor 1 \"block.small\": its dimension 0 is 0, expected 1 .. 2^63-1"},
    {"block.small", AT_VALUE, 0, 8, (uint64_t)1 << 40, F,
     "memory: tensor 1 \"block.small\": 1099511627776 bytes of it from offset 576 on, padded, expected within the "
     "4288 of the file"},
    {"block.small", AT_VALUE, 8, 4, 2, BS_ERROR_UNSUPPORTED,
     "memory: tensor 1 \"block.small\": its type is 2, expected a plain one: 0, 1, 24 .. 28 or 30"},
    {"block.small", AT_VALUE, 12, 8, 1, F,
     "memory: tensor 1 \"block.small\": its offset is 1, expected 576: where the one before it ends"},

    {"general.architecture", AT_VALUE, 8, 1, 'x', F,
     "memory: key \"general.architecture\" is \"xrainstorm\", expected \"brainstorm\""},
    {"brainstorm.version", AT_VALUE, 0, 4, 3, BS_ERROR_VERSION,
     "memory: key \"brainstorm.version\" is 3, this library knows 1 .. 2"},
    {"brainstorm.opset", AT_VALUE, 0, 4, 1000, BS_ERROR_VERSION,
     "memory: key \"brainstorm.opset\" is 1000, this library knows 1 .. " TEXT_OF(BS_MODEL_OPSET)},
    {"brainstorm.opset", AT_TYPE, 0, 4, T_F32, F, "memory: key \"brainstorm.opset\" is f32, expected u32"},
    {"brainstorm.model.scale", AT_VALUE, 0, 4, 65, F, "memory: key \"brainstorm.model.scale\" is 65, expected 0 .. 64"},
    {"brainstorm.value.count", AT_VALUE, 0, 4, 11, F,
     "memory: key \"brainstorm.value.count\" is 11, the graph has 10 values"},
    {"brainstorm.node.inputs", AT_VALUE, 0, 4, T_U32, F,
     "memory: key \"brainstorm.node.inputs\" is array of u32, expected array of i32"},
    {"brainstorm.block.bytes", AT_VALUE, 0, 4, T_I64, F,
     "memory: key \"brainstorm.block.bytes\" is array of i64, expected array of u64"},
    {"brainstorm.symbol.maximum", AT_WIDE, 1, 8, UINT64_MAX, F,
     "memory: symbol 1 \"W\": its maximum is -1, expected 1 or more"},

    {"brainstorm.block.first_node", AT_ELEMENT, 0, 4, 1, F,
     "memory: block 0 \"main\": its nodes are 1 up to 12, expected all: 0 up to 12"},
    {"brainstorm.block.end_node", AT_ELEMENT, 1, 4, 4, F,
     "memory: block 1 \"small\": its nodes are 5 up to 4, expected some of 0 up to 12"},
    {"brainstorm.block.end_node", AT_ELEMENT, 1, 4, 8, F,
     "memory: block 2 ends before node 9, block 1 that it lies in before node 8"},
    {"brainstorm.block.end_node", AT_ELEMENT, 2, 4, 13, F,
     "memory: block 2 \"large\": its nodes are 7 up to 13, expected some of 0 up to 12"},
    {"brainstorm.block.tensor", AT_ELEMENT, 2, 4, 1, F,
     "memory: block 2 \"large\": its tensor is 1, expected -1 or one of 2 .. 2"},
    {"brainstorm.block.tensor", AT_ELEMENT, 2, 4, 3, F,
     "memory: block 2 \"large\": its tensor is 3, expected -1 or one of 2 .. 2"},
    {"brainstorm.block.tensor", AT_ELEMENT, 2, 4, UINT32_MAX, F,
     "memory: block 2 \"large\": it has 516 bytes, but no tensor"},
    {"brainstorm.block.bytes", AT_WIDE, 1, 8, 1000, F,
     "memory: block 1 \"small\": its tensor 1 is of type 24, rank 1 and 516 bytes, expected 24, 1 and 1000"},
    {"brainstorm.block.bytes", AT_WIDE, 1, 8, 512, F,
     "memory: block 1 \"small\": its tensor 1 is of type 24, rank 1 and 516 bytes, expected 24, 1 and 512"},
    {"brainstorm.block.crc32", AT_ELEMENT, 1, 4, 0xabc, F,
     "memory: the record of block 1: its head has CRC-32 0x6ee4db32, expected 0xabc"},

    {"brainstorm.weight.block", AT_ELEMENT, 5, 4, 3, F,
     "memory: weight 5 \"large.conv.bias\": its block is 3, expected 2 .. 2"},
    {"brainstorm.weight.dtype", AT_ELEMENT, 0, 4, BS_DTYPE_COUNT, F,
     "memory: weight 0 \"score.weight\": its type is 7, expected 0 .. 6"},
    {"brainstorm.weight.rank", AT_ELEMENT, 0, 4, 5, F,
     "memory: weight 0 \"score.weight\": its rank is 5, expected 1 .. 4"},
    {"brainstorm.weight.rank", AT_ELEMENT, 5, 4, 2, F,
     "memory: weight 5 \"large.conv.bias\": brainstorm.weight.dims: 8 bytes needed at byte 2336, 0 left"},
    {"brainstorm.weight.rank", AT_ELEMENT, 2, 4, 3, F,
     "memory: weight 3 \"small.conv.bias\": 12 bytes at offset 512 do not lie in a record of 516"},
    {"brainstorm.weight.dims", AT_WIDE, 0, 8, 0, F,
     "memory: weight 0 \"score.weight\": its dimension 0 is 0, expected 1 or more"},
    {"brainstorm.weight.dims", AT_WIDE, 2, 8, 3, F,
     "memory: weight 1 \"score.bias\": 12 bytes at offset 512 do not lie in a record of 520"},
    {"brainstorm.weight.offset", AT_WIDE, 1, 8, 576, F,
     "memory: weight 1 \"score.bias\": its offset is 576, expected a multiple of 256 from 264 on"},
    {"brainstorm.weight.offset", AT_WIDE, 3, 8, 256, F,
     "memory: weight 3 \"small.conv.bias\": its offset is 256, expected a multiple of 256 from 292 on"},
    {"large.conv.weight", AT_NAME, 0, 5, 0x6c6c616d73 /* small */, F,
     "memory: two weights are called \"small.conv.weight\""},

    {"linear", AT_NAME, 0, 1, 'm', BS_ERROR_UNSUPPORTED,
     "memory: node 3 \"score\": its op is \"minear\", which this library does not have"},
    {"brainstorm.node.inputs.count", AT_ELEMENT, 1, 4, 32769, F,
     "memory: node 1 \"\": it has 32769 inputs, expected 0 .. 32768"},
    {"brainstorm.node.inputs.count", AT_ELEMENT, 11, 4, 2, F,
     "memory: node 11 \"result\": inputs: 8 bytes needed at byte 1053, 4 left"},
    {"brainstorm.node.inputs.count", AT_ELEMENT, 11, 4, 0, F,
     "memory: key \"brainstorm.node.inputs\" has 1 elements that belong to nothing"},
    {"brainstorm.node.params.count", AT_ELEMENT, 0, 4, 7, F,
     "memory: node 0 \"frame\": it has 7 parameters, expected 0 .. 6"},
    {"brainstorm.node.params.count", AT_ELEMENT, 9, 4, 1, F,
     "memory: key \"brainstorm.node.params\" has 1 elements that belong to nothing"},
    {"brainstorm.node.block", AT_ELEMENT, 6, 4, 2, F, "memory: node 6 is said to be of block 2, but lies in block 1"},
    {"brainstorm.node.inputs", AT_ELEMENT, 2, 4, 4, BS_ERROR_GRAPH,
     "memory: node 3: linear \"score\": operand 0 is value 4, which does not exist"},
    {"brainstorm.symbol.maximum", AT_WIDE, 1, 8, INT64_MAX, BS_ERROR_SHAPE,
     "memory: symbol \"W\": its maximum is 9223372036854775807, expected 1 .. 2^30"},
};

#endif
