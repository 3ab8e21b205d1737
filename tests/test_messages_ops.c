/* tags: asan */
/* Promises: every message of an op's shape rule names the op, its node, the operand, dimension or field at fault and
 * what was expected, word for word; what says no other than by such a message is not there. Ops on images:
 * test_messages_image_ops.c. */
#include "ops/table.h"
#include "wrong_builds.h"

/* Cells [2, 2, 2, 2] of patches: without one dimension they would be an image. */
static bs_value cube_of(const fixture *f)
{
    return bs_reshape(f->g, bs_linear(f->g, f->score, &(bs_linear_desc){.name = "to", .out = 16}),
                      BS_SHAPE4(2, 2, 2, 2));
}

/* Segments whose cells have a symbolic extent. */
static bs_value symbols_of(const fixture *f)
{
    static const char *const names[3] = {"q", "k", "v"};
    int32_t taken = 0;
    for (int32_t n = 1; n < f->g->n_nodes; n++)
        taken += strcmp(bs_op_get(f->g->nodes[n].op)->name, "segments") == 0;
    return bs_segments(f->g, bs_input(f->g, names[taken - 1], BS_F32, BS_SHAPE2(f->n, f->h)), f->lengths);
}

#define ATTEND(past_k, past_v, past, ...) \
    bs_attention(g, f->words, f->words, f->words, past_k, past_v, past, &(bs_attention_desc){.name = "a", __VA_ARGS__})

static void attention_of_many(const fixture *f)
{
    const bs_value many = bs_segments(f->g, bs_input(f->g, "many", BS_F32, BS_SHAPE2(BS_UPTO(1 << 30), 4)), f->lengths);
    bs_attention(f->g, many, many, many, none, none, none, &(bs_attention_desc){.heads = 2});
}

static void rows_of_linear(void)
{
    WRONG(BS_ERROR_DOMAIN, "linear \"l\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_linear(g, f->cells, &(bs_linear_desc){.name = "l", .out = 4}));
    WRONG(BS_ERROR_SHAPE, "linear \"l\": operand 0 is i32, expected f32",
          bs_linear(g, f->numbers, &(bs_linear_desc){.name = "l", .out = 4}));
    WRONG(BS_ERROR_SHAPE, "linear \"l\": dimension 2 of operand 0 (features) is W<=48, expected a constant",
          bs_linear(g, f->frame, &(bs_linear_desc){.name = "l", .out = 4}));
    WRONG(BS_ERROR_ARGUMENT, "linear \"l\": out is 0, expected 1 .. 16777216",
          bs_linear(g, f->line, &(bs_linear_desc){.name = "l"}));
    WRONG(BS_ERROR_ARGUMENT, "linear \"l\": act is -1, expected 0 .. 8",
          bs_linear(g, f->line, &(bs_linear_desc){.name = "l", .out = 4, .act = -1}));
    WRONG(BS_ERROR_SHAPE, "linear \"l\": operand 0 is [], expected rank 1 to 4",
          bs_linear(g, bs_rows(g, f->line, none), &(bs_linear_desc){.name = "l", .out = 4}));
}

static void rows_of_matmul(void)
{
    WRONG(BS_ERROR_SHAPE, "matmul \"m\": dimension 2 of operand 0 is 10, dimension 1 of operand 1 is 8",
          bs_matmul(g, f->image, f->image, &(bs_matmul_desc){.name = "m"}));
    WRONG(BS_ERROR_SHAPE, "matmul \"m\": operand 0 is i32, expected f32",
          bs_matmul(g, f->numbers, f->line, &(bs_matmul_desc){.name = "m"}));
    WRONG(BS_ERROR_SHAPE, "matmul \"m\": operand 1 is i32, expected f32",
          bs_matmul(g, f->line, f->numbers, &(bs_matmul_desc){.name = "m"}));
    WRONG(BS_ERROR_SHAPE, "matmul \"m\": operand 0 is [4], expected rank 2 to 4",
          bs_matmul(g, f->line, f->line, &(bs_matmul_desc){.name = "m"}));
    WRONG(BS_ERROR_SHAPE, "matmul \"m\": operand 1 is [N<=40, 4], expected the rank of operand 0, which is [3, 8, 10]",
          bs_matmul(g, f->image, f->table, &(bs_matmul_desc){.name = "m"}));
    WRONG(BS_ERROR_DOMAIN, "matmul \"m\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_matmul(g, f->cells, f->cells, &(bs_matmul_desc){.name = "m"}));
    WRONG(BS_ERROR_SHAPE, "matmul \"m\": dimension 0 of operand 0 is 2, dimension 0 of operand 1 is 3",
          bs_matmul(g, f->frame, f->image, &(bs_matmul_desc){.name = "m"}));
}

static void gru_of_numbers(const fixture *f, const bs_recurrent_desc *desc)
{
    const bs_value rows = bs_rows(f->g, f->line, none);
    bs_gru(f->g, rows, rows, desc);
}

static void rows_of_recurrent(void)
{
    const bs_recurrent_desc *const desc = &(bs_recurrent_desc){.name = "r"};
    WRONG(BS_ERROR_SHAPE, "gru \"r\": operand 1 is i32, expected f32", bs_gru(g, f->line, f->numbers, desc));
    WRONG(BS_ERROR_SHAPE, "gru \"r\": operand 0 is [], expected rank 1 to 4",
          gru_of_numbers(f, desc));
    WRONG(BS_ERROR_SHAPE, "lstm \"r\": operand 2 is [N<=40, 4], expected the rank of operand 0, which is [4]",
          bs_lstm(g, f->line, f->line, f->table, desc, NULL));
    WRONG(BS_ERROR_DOMAIN, "gru \"r\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_gru(g, f->cells, f->cells, desc));
    WRONG(BS_ERROR_SHAPE, "gru \"r\": dimension 0 is 3 in operand 0 and 2 in operand 1",
          bs_gru(g, f->image, f->frame, desc));
    WRONG(BS_ERROR_SHAPE, "gru \"r\": dimension 2 of operand 0 (features) is W<=48, expected a constant",
          bs_gru(g, f->frame, f->frame, desc));
    WRONG(BS_ERROR_SHAPE, "gru \"r\": dimension 0 of operand 1 (units) is N<=40, expected a constant",
          bs_gru(g, f->line, bs_input(g, "many", BS_F32, BS_SHAPE1(f->n)), desc));
    WRONG(BS_ERROR_SHAPE, "gru \"r\": dimension 0 of operand 1 (units) is 1048577, expected at most 1048576",
          bs_gru(g, f->line, bs_input(g, "wide", BS_F32, BS_SHAPE1((1 << 20) + 1)), desc));
    WRONG(BS_ERROR_SHAPE, "gru \"r\": dimension 0 of operand 0 is 4, expected 12: its 3 gates of 4 units",
          bs_gru(g, f->line, f->line, &(bs_recurrent_desc){.name = "r", .projected = 1}));
    WRONG(BS_ERROR_SHAPE, "lstm \"r\": dimension 0 of operand 1 is 4, of operand 2 5",
          bs_lstm(g, f->line, f->line, bs_input(g, "five", BS_F32, BS_SHAPE1(5)), desc, NULL));
}

static void rows_of_elementwise(void)
{
    WRONG(BS_ERROR_ARGUMENT, "activation: PReLU has weights; use bs_prelu", bs_activation(g, f->line, BS_PRELU, 0));
    WRONG(BS_ERROR_ARGUMENT, "clip: low 2 is not <= high 1", bs_clip(g, f->line, 2, 1));
    WRONG(BS_ERROR_SHAPE, "batch_norm \"n\": dimension 0 of operand 0 (channels) is N<=40, expected a constant",
          bs_batch_norm(g, f->table, &(bs_norm_desc){.name = "n"}));
    WRONG(BS_ERROR_SHAPE, "affine: operand 0 is i32, expected f32", bs_affine(g, f->numbers, 1, 1));
    WRONG(BS_ERROR_ARGUMENT, "activation: act is 9, expected 0 .. 8", bs_activation(g, f->line, BS_ACT_COUNT, 0));
    WRONG(BS_ERROR_SHAPE, "prelu \"p\": operand 0 is i32, expected f32", bs_prelu(g, f->numbers, "p"));
    WRONG(BS_ERROR_SHAPE, "prelu \"p\": operand 0 is [], expected rank 1 to 4",
          bs_prelu(g, bs_rows(g, f->line, none), "p"));
    WRONG(BS_ERROR_ARGUMENT, "clip: low 0 is not <= high nan", bs_clip(g, f->line, 0, NAN));
    WRONG(BS_ERROR_SHAPE, "activation: operand 0 is i32, expected f32", bs_activation(g, f->numbers, BS_RELU, 0));
    WRONG(BS_ERROR_ARGUMENT, "unary: kind is 19, expected 0 .. 18", bs_unary(g, f->line, BS_UNARY_COUNT));
    WRONG(BS_ERROR_SHAPE, "unary: operand 0 is i32, expected f32", bs_unary(g, f->numbers, BS_UNARY_FLOOR));
    WRONG(BS_ERROR_SHAPE, "unary: operand 0 is f32, expected i32", bs_unary(g, f->line, BS_UNARY_NOT));
    WRONG(BS_ERROR_ARGUMENT, "binary: kind is 4, expected 0 .. 3", bs_binary(g, f->line, f->line, BS_BINARY_COUNT));
    WRONG(BS_ERROR_SHAPE, "binary: operand 0 is i32, expected f32",
          bs_binary(g, f->numbers, f->numbers, BS_BINARY_DIV));
    WRONG(BS_ERROR_ARGUMENT, "compare: kind is 9, expected 0 .. 8", bs_compare(g, f->line, f->line, BS_COMPARE_COUNT));
    WRONG(BS_ERROR_SHAPE, "compare: operand 1 is i32, expected f32",
          bs_compare(g, f->line, f->numbers, BS_COMPARE_LESS));
    WRONG(BS_ERROR_SHAPE, "compare: operand 0 is f32, expected i32", bs_compare(g, f->line, f->line, BS_COMPARE_AND));
    WRONG(BS_ERROR_SHAPE, "where: operand 0 is f32, expected i32", bs_where(g, f->line, f->line, f->line));
    WRONG(BS_ERROR_SHAPE, "where: operand 1 is u8, expected f32 or i32", bs_where(g, f->numbers, f->codes, f->codes));
    WRONG(BS_ERROR_SHAPE, "where: operand 2 is i32, expected f32", bs_where(g, f->numbers, f->line, f->numbers));
    WRONG(BS_ERROR_SHAPE, "where: dimension 0 is 4 in operand 0 and 3 in operand 2",
          bs_where(g, f->numbers, f->line, bs_slice(g, f->line, &(bs_slice_desc){.length = 3})));
    WRONG(BS_ERROR_SHAPE, "unary: operand 0 is u8, expected f32 or i32", bs_unary(g, f->codes, BS_UNARY_ABS));
}

static void rows_of_convert(void)
{
    WRONG(BS_ERROR_ARGUMENT, "convert \"v\": dtype is 99, expected 0 .. 6",
          bs_convert(g, f->line, &(bs_convert_desc){.name = "v", .dtype = 99}));
    WRONG(BS_ERROR_ARGUMENT, "convert \"v\": code_bits is 17, expected 0 .. 16",
          bs_convert(g, f->line, &(bs_convert_desc){.name = "v", .dtype = BS_U16, .code_bits = 17}));
    WRONG(BS_ERROR_ARGUMENT, "convert \"v\": dtype is -1, expected 0 .. 6",
          bs_convert(g, f->line, &(bs_convert_desc){.name = "v", .dtype = -1}));
}

typedef struct stored {
    const char *name;
    int32_t rank, dim[6];
} stored;

static void rows_of_reshaped_symbols(void)
{
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [4]",
          bs_op_build_numbered(g, bs_op_index("reshape"), &f->line.id, 1, &(stored){"", 1, {-5}}));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [4]",
          bs_op_build_numbered(g, bs_op_index("reshape"), &f->line.id, 1, &(stored){"", 1, {-2}}));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [3, 8, 10]",
          bs_reshape(g, f->image, BS_SHAPE2(0, -1)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [3, 8, 10]",
          bs_reshape(g, f->image, BS_SHAPE2(-2, -1)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [3, 8, 10]",
          bs_reshape(g, f->image, BS_SHAPE2((int64_t)1 << 31, -1)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [N<=40, 4]",
          bs_reshape(g, f->table, BS_SHAPE2(BS_UPTO(40), 4)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [N<=40, 4]",
          bs_reshape(g, f->table, BS_SHAPE2(f->h, 4)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 1 is not a constant, -1, or a symbol of operand 0, which is [N<=40, 4]",
          bs_reshape(g, f->table, BS_SHAPE2(f->n, f->n)));
    WRONG(BS_ERROR_SHAPE, "reshape: operand 0 is [N<=40, 4], which does not have 4 elements",
          bs_reshape(g, f->table, BS_SHAPE1(4)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 1: 240 elements do not divide by 7",
          bs_reshape(g, f->image, BS_SHAPE2(7, -1)));
    WRONG(BS_ERROR_UNSUPPORTED, "reshape: dimension 1 would be a product of symbols",
          bs_reshape(g, f->frame, BS_SHAPE2(2, -1)));
    WRONG(
        BS_ERROR_SHAPE,
        "reshape: a dimension would be (N<=40 * 2147483648 +0) / 1, expected numbers of 2^30 at most, and 1 at least "
        "as "
        "the result",
        bs_reshape(g, bs_input(g, "t", BS_U8, BS_SHAPE3(f->n, 1 << 17, 1 << 14)), BS_SHAPE1(-1)));
}

static void rows_of_reshape(void)
{
    WRONG(BS_ERROR_GRAPH, "reshape: operand 0 is value 0, which does not exist", bs_reshape(g, none, BS_SHAPE1(4)));
    WRONG(BS_ERROR_GRAPH, "reshape: operand 0 is value 9999, which does not exist",
          bs_reshape(g, (bs_value){9999}, BS_SHAPE1(4)));
    WRONG(BS_ERROR_SHAPE, "reshape: operand 0 is [3, 8, 10], which does not have 49 elements",
          bs_reshape(g, f->image, BS_SHAPE2(7, 7)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimensions 0 and 1 are both to be worked out",
          bs_reshape(g, f->image, BS_SHAPE3(-1, -1, 2)));
    WRONG(BS_ERROR_ARGUMENT, "reshape: rank is 0, expected 1 .. 6",
          bs_reshape(g, f->image, bs_shape_of(0, 0, 0, 0, 0)));
    WRONG(BS_ERROR_ARGUMENT, "reshape: rank is 7, expected 1 .. 6",
          bs_reshape(g, f->image, bs_shape_of(7, 1, 1, 1, 1)));
    WRONG(BS_ERROR_DOMAIN, "reshape: operand 0 is cut into patches, but this needs all of its pixels",
          bs_reshape(g, f->cells, BS_SHAPE1(-1)));
    WRONG(BS_ERROR_DOMAIN, "reshape: the result would be an image (rank 3) without a place in the patched frame",
          bs_reshape(g, f->score, BS_SHAPE3(1, 1, 2)));
    WRONG(BS_ERROR_DOMAIN, "reshape: the result would be an image (rank 3) without a place in the patched frame",
          bs_reshape(g, f->score, BS_SHAPE3(1, 1, -1)));
}

static void rows_of_transpose(void)
{
    WRONG(BS_ERROR_ARGUMENT, "transpose \"t\": order[2] = 1 is out of range or there twice",
          bs_transpose(g, f->image, &(bs_transpose_desc){.name = "t", .order = {0, 1, 1}}));
    WRONG(BS_ERROR_ARGUMENT, "transpose \"t\": order[2] = 3 is out of range or there twice",
          bs_transpose(g, f->image, &(bs_transpose_desc){.name = "t", .order = {0, 1, 3}}));
    WRONG(BS_ERROR_ARGUMENT, "transpose \"t\": order[1] = -1 is out of range or there twice",
          bs_transpose(g, f->image, &(bs_transpose_desc){.name = "t", .order = {0, -1, 2}}));
    WRONG(BS_ERROR_DOMAIN, "transpose: operand 0 is cut into patches, but this needs all of its pixels",
          bs_transpose(g, f->cells, NULL));
    WRONG(BS_ERROR_SHAPE, "transpose: operand 0 is [], expected rank 1 to 6",
          bs_transpose(g, bs_rows(g, f->line, none), NULL));
}

static void rows_of_pad(void)
{
    WRONG(BS_ERROR_SHAPE, "pad \"p\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_pad(g, f->line, &(bs_pad_desc){.name = "p", .top = 1}));
    WRONG(BS_ERROR_DOMAIN, "pad \"p\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_pad(g, f->cells, &(bs_pad_desc){.name = "p", .top = 1}));
    WRONG(BS_ERROR_ARGUMENT, "pad \"p\": edge is 3, expected 0 .. 2",
          bs_pad(g, f->image, &(bs_pad_desc){.name = "p", .edge = 3}));
    WRONG(BS_ERROR_SHAPE, "pad \"p\": dimension 1 is 8, too few to reflect 8 of them",
          bs_pad(g, f->image, &(bs_pad_desc){.name = "p", .bottom = 8, .edge = BS_EDGE_REFLECT}));
    WRONG(BS_ERROR_SHAPE, "pad \"p\": dimension 2 is 10, too few to reflect 10 of them",
          bs_pad(g, f->image, &(bs_pad_desc){.name = "p", .left = 10, .edge = BS_EDGE_REFLECT}));
    WRONG(BS_ERROR_ARGUMENT, "pad \"p\": top is -1, expected 0 .. 32768",
          bs_pad(g, f->image, &(bs_pad_desc){.name = "p", .top = -1}));
    WRONG(BS_ERROR_ARGUMENT, "pad \"p\": bottom is 32769, expected 0 .. 32768",
          bs_pad(g, f->image, &(bs_pad_desc){.name = "p", .bottom = (1 << 15) + 1}));
    WRONG(BS_ERROR_ARGUMENT, "pad \"p\": left is -1, expected 0 .. 32768",
          bs_pad(g, f->image, &(bs_pad_desc){.name = "p", .left = -1}));
    WRONG(BS_ERROR_ARGUMENT, "pad \"p\": right is -1, expected 0 .. 32768",
          bs_pad(g, f->image, &(bs_pad_desc){.name = "p", .right = -1}));
    WRONG(BS_ERROR_SHAPE,
          "pad \"p\": dimension 1 is 1073741824, which gives a result of 1073741825, expected 1 .. 2^30",
          bs_pad(g, bs_input(g, "tall", BS_U8, BS_SHAPE3(1, 1 << 30, 1)), &(bs_pad_desc){.name = "p", .bottom = 1}));
    WRONG(BS_ERROR_SHAPE,
          "pad \"p\": dimension 2 is 1073741824, which gives a result of 1073741825, expected 1 .. 2^30",
          bs_pad(g, bs_input(g, "wide", BS_U8, BS_SHAPE3(1, 1, 1 << 30)), &(bs_pad_desc){.name = "p", .right = 1}));
}

static void rows_of_lines(void)
{
    WRONG(BS_ERROR_SHAPE, "softmax: operand 0 is i32, expected f32", bs_softmax(g, f->numbers));
    WRONG(BS_ERROR_SHAPE, "layer_norm \"n\": operand 0 is i32, expected f32",
          bs_layer_norm(g, f->numbers, &(bs_norm_desc){.name = "n"}));
    WRONG(BS_ERROR_SHAPE, "reduce \"u\": axis 3 of operand 0, which is [3, 8, 10]",
          bs_reduce(g, f->image, &(bs_reduce_desc){.name = "u", .axis = 3}));
    WRONG(BS_ERROR_SHAPE, "rms_norm \"n\": operand 0 is i32, expected f32",
          bs_rms_norm(g, f->numbers, &(bs_norm_desc){.name = "n"}));
    WRONG(BS_ERROR_SHAPE, "argmax: operand 0 is u8, expected f32 or i32", bs_argmax(g, f->codes));
    WRONG(BS_ERROR_SHAPE, "topk: k is 5, expected 1 .. dimension 0 of operand 0, which is 4",
          bs_topk(g, f->line, 5, NULL));
    WRONG(BS_ERROR_SHAPE, "softmax: operand 0 is [], expected rank 1 to 4", bs_softmax(g, bs_rows(g, f->line, none)));
    WRONG(BS_ERROR_DOMAIN, "softmax: operand 0 is cut into patches, but this needs all of its pixels",
          bs_softmax(g, f->cells));
    WRONG(BS_ERROR_SHAPE, "layer_norm \"n\": dimension 2 of operand 0 (features) is W<=48, expected a constant",
          bs_layer_norm(g, f->frame, &(bs_norm_desc){.name = "n"}));
    WRONG(BS_ERROR_ARGUMENT, "reduce \"u\": kind is 9, expected 0 .. 8",
          bs_reduce(g, f->image, &(bs_reduce_desc){.name = "u", .kind = 9}));
    WRONG(BS_ERROR_ARGUMENT, "reduce \"u\": axes is 5, expected 0 .. 4",
          bs_reduce(g, f->image, &(bs_reduce_desc){.name = "u", .axes = 5}));
    WRONG(BS_ERROR_SHAPE, "reduce \"u\": 3 axes from axis 1 on of operand 0, which is [3, 8, 10]",
          bs_reduce(g, f->image, &(bs_reduce_desc){.name = "u", .axis = -2, .axes = 3}));
    WRONG(BS_ERROR_DOMAIN, "reduce \"u\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_reduce(g, f->cells, &(bs_reduce_desc){.name = "u", .axes = 3, .keep = 1}));
    WRONG(BS_ERROR_SHAPE, "reduce \"u\": operand 0 is u8, expected f32",
          bs_reduce(g, f->codes, &(bs_reduce_desc){.name = "u"}));
    WRONG(BS_ERROR_DOMAIN, "reduce \"u\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_reduce(g, f->cells, &(bs_reduce_desc){.name = "u", .axis = 1}));
    WRONG(BS_ERROR_DOMAIN, "reduce \"u\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_reduce(g, f->cells, &(bs_reduce_desc){.name = "u", .axis = 0}));
    WRONG(BS_ERROR_DOMAIN, "reduce \"u\": the result would be an image (rank 3) without a place in the patched frame",
          bs_reduce(g, cube_of(f), &(bs_reduce_desc){.name = "u", .axis = 0}));
    WRONG(BS_ERROR_SHAPE, "argmin: operand 0 is u8, expected f32 or i32", bs_argmin(g, f->codes));
    WRONG(BS_ERROR_SHAPE, "rope \"r\": operand 0 is i32, expected f32",
          bs_rope(g, f->numbers, f->numbers, &(bs_rope_desc){.name = "r"}));
    WRONG(BS_ERROR_SHAPE, "rope \"r\": operand 1 (positions) is f32 [4], expected i32 [] or [1]",
          bs_rope(g, f->words, f->words, &(bs_rope_desc){.name = "r"}));
    WRONG(BS_ERROR_ARGUMENT, "rope \"r\": 3 heads of cells [4]: not a whole number of elements each",
          bs_rope(g, f->words, bs_segment_index(g, f->words, none), &(bs_rope_desc){.name = "r", .heads = 3}));
    WRONG(BS_ERROR_ARGUMENT, "rope \"r\": heads is 2, expected 0",
          bs_rope(g, bs_reshape(g, f->words, BS_SHAPE2(2, 2)), bs_segment_index(g, f->words, none),
                  &(bs_rope_desc){.name = "r", .heads = 2}));
    WRONG(BS_ERROR_ARGUMENT, "rope \"r\": 3 dimensions to turn of heads of 4, expected an even number",
          bs_rope(g, f->words, bs_segment_index(g, f->words, none), &(bs_rope_desc){.name = "r", .dims = 3}));
    WRONG(BS_ERROR_ARGUMENT, "rope \"r\": base is 0.5, expected 1 or more",
          bs_rope(g, f->words, bs_segment_index(g, f->words, none), &(bs_rope_desc){.name = "r", .base = 0.5f}));
    WRONG(BS_ERROR_DOMAIN,
          "segment_index: operand 0 is of rows [N<=40], expected segments (bs_segments)",
          bs_segment_index(g, f->tokens, none));
    WRONG(BS_ERROR_SHAPE, "lrn \"n\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_lrn(g, f->line, &(bs_lrn_desc){.name = "n"}));
    WRONG(BS_ERROR_SHAPE, "cumsum \"s\": axis -2 of operand 0, which is [4]",
          bs_cumsum(g, f->line, &(bs_cumsum_desc){.name = "s", .axis = -2}));
    WRONG(BS_ERROR_ARGUMENT, "cumsum \"s\": reverse is 2, expected 0 .. 1",
          bs_cumsum(g, f->line, &(bs_cumsum_desc){.name = "s", .reverse = 2}));
    WRONG(BS_ERROR_DOMAIN, "cumsum \"s\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_cumsum(g, f->cells, &(bs_cumsum_desc){.name = "s"}));
    WRONG(BS_ERROR_SHAPE, "argmax: operand 0 is [], expected rank 1 to 4", bs_argmax(g, bs_rows(g, f->numbers, none)));
    WRONG(BS_ERROR_DOMAIN, "argmax: operand 0 is cut into patches, but this needs all of its pixels",
          bs_argmax(g, f->cells));
    WRONG(BS_ERROR_DOMAIN, "argmax: the result would be an image (rank 3) without a place in the patched frame",
          bs_argmax(g, cube_of(f)));
    WRONG(BS_ERROR_SHAPE, "topk: operand 0 is i32, expected f32", bs_topk(g, f->numbers, 1, NULL));
    WRONG(BS_ERROR_SHAPE, "topk: k is 0, expected 1 .. dimension 0 of operand 0, which is 4",
          bs_topk(g, f->line, 0, NULL));
}

static void rows_of_constant(void)
{
    WRONG(BS_ERROR_ARGUMENT, "constant \"k\": dtype is u8, expected f32 or i32",
          bs_constant(g, "k", BS_U8, BS_SHAPE1(4)));
    WRONG(BS_ERROR_ARGUMENT, "constant \"k\": dtype is unknown, expected f32 or i32",
          bs_constant(g, "k", BS_DTYPE_COUNT, BS_SHAPE1(4)));
    WRONG(BS_ERROR_ARGUMENT, "constant \"k\": rank is 5, expected 0 .. 4",
          bs_constant(g, "k", BS_F32, bs_shape_of(5, 1, 1, 1, 1)));
    WRONG(BS_ERROR_ARGUMENT, "constant \"k\": rank is -1, expected 0 .. 4",
          bs_constant(g, "k", BS_F32, bs_shape_of(-1, 1, 1, 1, 1)));
    WRONG(BS_ERROR_SHAPE, "constant \"k\": dimension 1 is not a constant of 1 .. 2^30",
          bs_constant(g, "k", BS_F32, BS_SHAPE2(4, f->n)));
    WRONG(BS_ERROR_SHAPE, "constant \"k\": dimension 0 is not a constant of 1 .. 2^30",
          bs_constant(g, "k", BS_F32, BS_SHAPE1(INT32_MAX)));
    WRONG(BS_ERROR_SHAPE, "constant \"k\": the result [1073741824, 1073741824] has more than 2^40 elements",
          bs_constant(g, "k", BS_F32, BS_SHAPE2(1 << 30, 1 << 30)));
}

static void rows_of_segments(void)
{
    const bs_loop_desc loop = {.name = "a", .bound = 3};
    WRONG(BS_ERROR_DOMAIN,
          "segment_reduce: operand 0 is of path 0 of \"a\": a trip has no result of its own for a segment, only for "
          "its rows (to_rows)",
          bs_segment_reduce(g, bs_loop_carry(g, bs_loop_begin(g, f->words, none, &loop), f->words), NULL));
    WRONG(BS_ERROR_DOMAIN, "segment_spread: operand 1 is of rows [N<=40], expected segments (bs_segments)",
          bs_segment_spread(g, f->table, f->tokens));
    WRONG(BS_ERROR_DOMAIN, "segment_spread: operand 0 is of segments [N<=40], expected a root value",
          bs_segment_spread(g, f->words, f->words));
    WRONG(BS_ERROR_SHAPE, "segment_spread: operand 0 is [N<=40, 4], expected a row for each of 5 segments",
          bs_segment_spread(g, f->table, f->words));
    WRONG(BS_ERROR_SHAPE, "segment_spread: operand 0 is [], expected rank 1 to 4",
          bs_segment_spread(g, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0)), f->words));
    WRONG(BS_ERROR_DOMAIN, "segment_reduce: operand 0 is of rows [N<=40], expected segments (bs_segments)",
          bs_segment_reduce(g, f->tokens, NULL));
    WRONG(BS_ERROR_ARGUMENT, "segment_reduce \"b\": mode is 4, expected 0 .. 3",
          bs_segment_reduce(g, f->words, &(bs_segment_reduce_desc){.name = "b", .mode = 4}));
    WRONG(BS_ERROR_ARGUMENT, "segment_reduce \"b\": to_rows is 2, expected 0 .. 1",
          bs_segment_reduce(g, f->words, &(bs_segment_reduce_desc){.name = "b", .to_rows = 2}));
    WRONG(BS_ERROR_SHAPE, "segment_reduce: operand 0 is i32, expected f32",
          bs_segment_reduce(g, bs_segments(g, bs_input(g, "i", BS_I32, BS_SHAPE2(f->n, 4)), f->lengths), NULL));
}

static void rows_of_cached_attention(void)
{
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 4 is value 0, which does not exist",
          ATTEND(f->cache, none, f->past, .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention: 5 operands: cache_k, cache_v and cache_lengths are given all three or none",
          bs_op_build_numbered(g, bs_op_index("attention"),
                               (int32_t[]){f->words.id, f->words.id, f->words.id, f->cache.id, f->cache.id}, 5, NULL));
    WRONG(BS_ERROR_SHAPE,
          "attention \"a\": operand 3 is [4], expected [segments, window, d] with the window of operand 3 and the d of "
          "operand 1",
          ATTEND(f->line, f->cache, f->past, .heads = 2));
    WRONG(BS_ERROR_SHAPE, "attention \"a\": operand 3 is i32, expected f32",
          ATTEND(bs_input(g, "i", BS_I32, BS_SHAPE3(5, 6, 4)), f->cache, f->past, .heads = 2));
    WRONG(BS_ERROR_SHAPE, "attention \"a\": dimension 1 of operand 3 (the window) is N<=40, expected a constant",
          const bs_value t = bs_state(g, "t", BS_F32, BS_SHAPE3(5, f->n, 4));
          ATTEND(t, t, f->past, .heads = 2));
    WRONG(BS_ERROR_DOMAIN, "attention \"a\": operand 3 is of patches of 64 [8, 10], expected a root value",
          ATTEND(bs_patches(g, f->image, NULL), f->cache, f->past, .heads = 2));
    WRONG(
        BS_ERROR_SHAPE,
        "attention \"a\": operand 3 is [4, 6, 4], expected [segments, window, d] with the window of operand 3 and the "
        "d "
        "of operand 1",
        ATTEND(bs_state(g, "t", BS_F32, BS_SHAPE3(4, 6, 4)), f->cache, f->past, .heads = 2));
    WRONG(
        BS_ERROR_SHAPE,
        "attention \"a\": operand 4 is [5, 7, 4], expected [segments, window, d] with the window of operand 3 and the "
        "d "
        "of operand 1",
        ATTEND(f->cache, bs_state(g, "t", BS_F32, BS_SHAPE3(5, 7, 4)), f->past, .heads = 2));
    WRONG(
        BS_ERROR_SHAPE,
        "attention \"a\": operand 3 is [5, 6, 5], expected [segments, window, d] with the window of operand 3 and the "
        "d "
        "of operand 1",
        ATTEND(bs_state(g, "t", BS_F32, BS_SHAPE3(5, 6, 5)), f->cache, f->past, .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 5 (cache_lengths) is made by convert, expected an input",
          ATTEND(f->cache, f->cache, bs_convert(g, f->past, &(bs_convert_desc){.dtype = BS_I32}), .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 3 is value 0, which does not exist",
          ATTEND(none, f->cache, none, .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 3 is value 0, which does not exist",
          ATTEND(none, none, f->past, .heads = 2));
}

static void rows_of_attention(void)
{
    WRONG(
        BS_ERROR_DOMAIN,
        "attention: operand 0 is of rows [N<=40], expected segments (bs_segments)",
        bs_attention(g, f->tokens, f->words, f->words, none, none, none, NULL));
    WRONG(BS_ERROR_DOMAIN, "attention: operand 1 is of rows [N<=40], operand 0 of segments [N<=40]",
          bs_attention(g, f->words, f->tokens, f->words, none, none, none, NULL));
    WRONG(BS_ERROR_SHAPE, "attention: operand 1 is [5], expected 1 heads of 4 elements",
          bs_attention(g, f->words, bs_segments(g, bs_input(g, "five", BS_F32, BS_SHAPE2(f->n, 5)), f->lengths),
                       f->words, none, none, none, NULL));
    WRONG(BS_ERROR_SHAPE, "attention: operand 0 is i32, expected f32",
          bs_attention(g, bs_segments(g, bs_input(g, "i", BS_I32, BS_SHAPE2(f->n, 4)), f->lengths), f->words, f->words,
                       none, none, none, NULL));
    WRONG(BS_ERROR_SHAPE, "attention: operand 0 is [H<=64, W<=48], expected rank 1",
          bs_attention(g, bs_segments(g, f->frame, f->lengths), f->words, f->words, none, none, none, NULL));
    WRONG(BS_ERROR_SHAPE, "attention: dimension 0 of operand 0 (d) is H<=64, expected a constant",
          bs_attention(g, symbols_of(f), symbols_of(f), symbols_of(f), none, none, none, NULL));
    WRONG(BS_ERROR_ARGUMENT, "attention \"a\": alibi is 2, expected 0 .. 1", ATTEND(none, none, none, .alibi = 2));
    WRONG(BS_ERROR_ARGUMENT, "attention \"a\": 3 heads of cells [4]: not a whole number of elements each",
          ATTEND(none, none, none, .heads = 3));
    WRONG(BS_ERROR_ARGUMENT, "attention \"a\": -1 heads of cells [4]: not a whole number of elements each",
          ATTEND(none, none, none, .heads = -1));
    WRONG(BS_ERROR_ARGUMENT, "attention \"a\": bidirectional is 2, expected 0 .. 1",
          ATTEND(none, none, none, .bidirectional = 2));
    WRONG(BS_ERROR_ARGUMENT, "attention \"a\": 4 heads share 3 kv_heads: not a whole number of them each",
          ATTEND(none, none, none, .heads = 4, .kv_heads = 3));
    WRONG(BS_ERROR_ARGUMENT, "attention \"a\": 2 heads share -1 kv_heads: not a whole number of them each",
          ATTEND(none, none, none, .heads = 2, .kv_heads = -1));
    WRONG(BS_ERROR_SHAPE, "attention \"a\": operand 1 is [4], expected 2 heads of 1 elements",
          ATTEND(none, none, none, .heads = 4, .kv_heads = 2));
    WRONG(BS_ERROR_LIMIT, "attention: 2 heads of up to 1073741824 rows are more than 2^30 tasks", attention_of_many(f));
}

static void masked_attention(const fixture *f, bs_value k, bs_value cache, bs_value mask)
{
    const bs_attention_desc desc = {.name = "a", .heads = 2, .bidirectional = 1};
    bs_attention_masked(f->g, f->words, k, k, cache, cache, cache.id ? f->past : none, mask, &desc);
}

/* Cells of as many segments as `lengths`, an input of its own, has. */
static bs_value others_of(const fixture *f, int32_t segments, int32_t width)
{
    const bs_value lengths = bs_input(f->g, "others", BS_I32, BS_SHAPE1(segments));
    return bs_segments(f->g, bs_input(f->g, "o", BS_F32, BS_SHAPE2(f->n, width)), lengths);
}

static void rows_of_masked_attention(void)
{
    WRONG(BS_ERROR_SHAPE, "attention \"a\": operand 1 has 4 segments, operand 0 5",
          masked_attention(f, others_of(f, 4, 4), none, none));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 6 masks the keys of a run, but a cache has others",
          masked_attention(f, f->words, f->cache,
                 bs_segments(g, bs_input(g, "m", BS_I32, BS_SHAPE2(f->n, 1)), f->lengths)));
    WRONG(
        BS_ERROR_SHAPE,
        "attention \"a\": operand 3 is f32 [4] of segments [N<=40], expected a mask, [] or [1] of each key, or a bias, "
        "a root value f32 [1 or heads, positions, positions of keys]",
        masked_attention(f, f->words, none, f->words));
    WRONG(BS_ERROR_SHAPE,
          "attention \"a\": operand 3 is f32 [3, 8, 8] of the root, expected a mask, [] or [1] of each key, or a bias, "
          "a root value f32 [1 or heads, positions, positions of keys]",
          masked_attention(f, f->words, none, bs_input(g, "m", BS_F32, BS_SHAPE3(3, 8, 8))));
}

int main(void)
{
    rows_of_linear();
    rows_of_matmul();
    rows_of_recurrent();
    rows_of_elementwise();
    rows_of_convert();
    rows_of_reshaped_symbols();
    rows_of_reshape();
    rows_of_transpose();
    rows_of_pad();
    rows_of_lines();
    rows_of_constant();
    rows_of_segments();
    rows_of_cached_attention();
    rows_of_attention();
    rows_of_masked_attention();
    wrong_builds_end();
    static const char *const files[] = {"src/ops/attention.c",   "src/ops/constant.c", "src/ops/elementwise.c",
                                        "src/ops/lines.c",       "src/ops/matmul.c",   "src/ops/pad.c",
                                        "src/ops/recurrent.c",   "src/ops/reshape.c",  "src/ops/segment_rows.c"};
    messages_of_builds("src/ops/reduce.c");
    messages_of_builds("src/ops/rope.c");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    return check_end();
}
