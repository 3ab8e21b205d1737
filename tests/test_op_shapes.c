/* tags: asan shipped aarch64 32-bit */
/* test_op_shapes.c - symbolic extents; refusals that name op, node and dimension; indices out of range, which are
 * refused when they are met; halves; the table itself.
 *
 * Usage: test_op_shapes [seed] */
#include "op_harness.h"

typedef bs_value (*builder)(bs_graph *g, const bs_value *x);

/* ------------------------------------------------------------------------------------------------------ shapes */

static bs_dim_id dim_of(const bs_graph *g, bs_value v, int32_t d) { return bs_value_get(g, v.id)->dims[d]; }

/* Extents that are equal in every run are one dimension. */
static void test_symbols(void)
{
    bs_graph *g = new_graph();
    const bs_dim h = bs_symbol(g, "H", 1080), w = bs_symbol(g, "W", 1920);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(4, h, w));
    const bs_value same = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "same", .out = 4, .kernel = 5});
    check(dim_of(g, x, 1) == dim_of(g, same, 1) && dim_of(g, x, 2) == dim_of(g, same, 2),
          "symbols: a same convolution keeps extents");
    const bs_value up = bs_pixel_shuffle(g, same, 2), down = bs_pixel_unshuffle(g, up, 2);
    check(dim_of(g, down, 1) == dim_of(g, x, 1), "symbols: unshuffle undoes shuffle");
    check(dim_of(g, bs_resize(g, bs_slice(g, x, &(bs_slice_desc){.length = 1}), NULL), 2) == dim_of(g, up, 2),
          "symbols: shuffle and resize by 2 agree");
    const bs_value a = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "a", .out = 4, .stride = 2});
    const bs_value b = bs_pool2d(g, x,
                                 &(bs_pool2d_desc){.kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1});
    check(dim_of(g, a, 1) == dim_of(g, b, 1) && bs_dim_max(g, dim_of(g, a, 1)) == 540,
          "symbols: strided convolution and pooling agree");
    const bs_value flat = bs_reshape(g, bs_reduce(g, x, &(bs_reduce_desc){.axis = 1}), BS_SHAPE1(-1));
    check(flat.id && bs_dim_max(g, dim_of(g, flat, 0)) == 4 * 1920,
          "symbols: reshape collects a symbol times a constant");
    const bs_value back = bs_reshape(g, flat, BS_SHAPE2(-1, 4));
    check(back.id && dim_of(g, back, 0) == dim_of(g, x, 2), "symbols: reshape gives the symbol back");
    const bs_value moved = bs_reshape(g, back, BS_SHAPE3(2, w, 2));
    check(moved.id && dim_of(g, moved, 1) == dim_of(g, x, 2), "symbols: reshape names a symbol of its operand");
    check(bs_add(g, same, x).id != 0 && bs_graph_check(g, NULL) == BS_OK, "symbols: the graph is sound");
}

typedef struct refusal { const char *name; builder build; bs_status status; const char *words[3]; } refusal;

/* x[0] f32 [6,20,24], x[1] u8 [6,20,24], x[2] f32 [5,7]; c[0], c[1]: cells of x[0], x[1]. */
typedef struct refusal_inputs { bs_value x[3], c[2]; } refusal_inputs;

#define REFUSE(function, expression)                             \
    static bs_value function(bs_graph *g, const bs_value *all)   \
    {                                                            \
        const bs_value *x = all, *c = all + 3;                   \
        (void)x, (void)c;                                        \
        return expression;                                       \
    }
#define CONV_OF(v, ...) bs_conv2d(g, v, &(bs_conv2d_desc){.name = "head", __VA_ARGS__})
REFUSE(no_out, CONV_OF(x[0], .kernel = 3))
REFUSE(no_desc, bs_conv2d(g, x[0], NULL))
REFUSE(bad_groups, CONV_OF(x[0], .out = 8, .groups = 4))
REFUSE(conv_bytes, CONV_OF(x[1], .out = 8))
REFUSE(conv_rank, CONV_OF(x[2], .out = 8))
REFUSE(conv_small, CONV_OF(x[0], .out = 8, .kernel = 21, .padding = BS_PAD_VALID))
REFUSE(conv_act, CONV_OF(x[0], .out = 8, .act = 99))
REFUSE(conv_cut_valid, CONV_OF(c[0], .out = 8, .padding = BS_PAD_VALID))
REFUSE(conv_cut_wide, CONV_OF(c[0], .out = 8, .kernel = 4, .padding = BS_PAD_EXPLICIT, .pad = 2))
REFUSE(conv_cut_stride, CONV_OF(c[0], .out = 8, .stride = 3))
REFUSE(deconv_cut, bs_deconv2d(g, c[0], &(bs_deconv2d_desc){.name = "up", .out = 3, .stride = 2}))
REFUSE(deconv_output, bs_deconv2d(g, x[0], &(bs_deconv2d_desc){.name = "up", .out = 3, .stride = 2, .output_pad = 2}))
REFUSE(linear_cut, bs_linear(g, c[0], &(bs_linear_desc){.name = "fc", .out = 3}))
REFUSE(linear_bytes, bs_linear(g, x[1], &(bs_linear_desc){.name = "fc", .out = 3}))
REFUSE(linear_symbol,
       bs_linear(g, bs_input(g, "s", BS_F32, BS_SHAPE2(3, BS_UPTO(9))), &(bs_linear_desc){.name = "fc", .out = 3}))
REFUSE(matmul_inner, bs_matmul(g, x[2], x[2], &(bs_matmul_desc){.name = "scores"}))
REFUSE(matmul_cut, bs_matmul(g, c[0], c[0], &(bs_matmul_desc){.name = "scores", .transpose_b = 1}))
REFUSE(shuffle_channels, bs_pixel_shuffle(g, x[0], 4))
REFUSE(shuffle_zero, bs_pixel_shuffle(g, x[0], 0))
REFUSE(unshuffle_extent, bs_pixel_unshuffle(g, x[0], 3))
REFUSE(unshuffle_cell,
       bs_pixel_unshuffle(
           g, bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, BS_UPTO(99), 99)), &(bs_patches_desc){.size = 8}), 3))
REFUSE(add_type, bs_add(g, x[0], x[1]))
REFUSE(add_rank, bs_add(g, x[0], x[2]))
REFUSE(add_dim, bs_add(g, x[0], bs_slice(g, x[0], &(bs_slice_desc){.length = 3})))
REFUSE(add_frame, bs_mul(g, c[0], x[0]))
REFUSE(act_prelu, bs_activation(g, x[0], BS_PRELU, 0))
REFUSE(clip_order, bs_clip(g, x[0], 1, 0))
REFUSE(affine_bytes, bs_affine(g, x[1], 1, 0))
REFUSE(convert_type, bs_convert(g, x[0], &(bs_convert_desc){.name = "to", .dtype = 17}))
REFUSE(concat_type, bs_concat(g, x, 2, 0))
REFUSE(concat_many, bs_concat(g, x, 9, 0))
REFUSE(concat_dim,
       bs_concat(g,
                 (const bs_value[]){x[0], bs_pixel_shuffle(g, bs_concat(g, (const bs_value[]){x[0], x[0]}, 2, 0), 2)},
                 2, 0))
REFUSE(concat_cut, bs_concat(g, (const bs_value[]){c[0], c[0]}, 2, 1))
REFUSE(slice_beyond, bs_slice(g, x[0], &(bs_slice_desc){.name = "part", .axis = 1, .start = 18, .length = 3}))
REFUSE(slice_axis, bs_slice(g, x[0], &(bs_slice_desc){.name = "part", .axis = 3}))
REFUSE(slice_cut, bs_slice(g, c[0], &(bs_slice_desc){.name = "part", .axis = 2, .length = 1}))
REFUSE(reshape_count_wrong, bs_reshape(g, x[2], BS_SHAPE2(6, 6)))
REFUSE(reshape_rest, bs_reshape(g, x[2], BS_SHAPE2(-1, 4)))
REFUSE(reshape_two, bs_reshape(g, x[2], BS_SHAPE2(-1, -1)))
REFUSE(reshape_symbol, bs_reshape(g, x[2], BS_SHAPE2(-1, BS_UPTO(5))))
REFUSE(reshape_cut, bs_reshape(g, c[0], BS_SHAPE1(-1)))
REFUSE(reshape_image, bs_reshape(g, bs_pool2d(g, c[0], &(bs_pool2d_desc){.global = 1}), BS_SHAPE3(6, 1, 1)))
REFUSE(transpose_twice, bs_transpose(g, x[0], &(bs_transpose_desc){.name = "t", .order = {0, 1, 1}}))
REFUSE(transpose_cut, bs_transpose(g, c[0], NULL))
REFUSE(pad_cut, bs_pad(g, c[0], &(bs_pad_desc){.name = "border", .top = 1}))
REFUSE(pad_negative, bs_pad(g, x[0], &(bs_pad_desc){.name = "border", .left = -1}))
REFUSE(softmax_cut, bs_softmax(g, c[0]))
REFUSE(norm_bytes, bs_layer_norm(g, x[1], &(bs_norm_desc){.name = "ln"}))
REFUSE(pool_pad, bs_pool2d(g, x[0], &(bs_pool2d_desc){.name = "p", .kernel = 3, .padding = BS_PAD_EXPLICIT, .pad = 3}))
REFUSE(pool_cut, bs_pool2d(g, c[0], &(bs_pool2d_desc){.name = "p", .kernel = 3}))
REFUSE(resize_type, bs_resize(g, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_F16}), NULL))
REFUSE(resize_factor_large, bs_resize(g, x[0], &(bs_resize_desc){.name = "up", .factor = 17}))
REFUSE(reduce_cut, bs_reduce(g, c[0], &(bs_reduce_desc){.name = "r", .axis = 1, .keep = 1}))
REFUSE(reduce_axis, bs_reduce(g, x[0], &(bs_reduce_desc){.name = "r", .axis = -4}))
REFUSE(argmax_bytes, bs_argmax(g, x[1]))
REFUSE(topk_large, bs_topk(g, x[2], 8, NULL))
REFUSE(gather_float, bs_gather_rows(g, x[2], x[2]))
REFUSE(constant_bytes, bs_constant(g, "k", BS_U8, BS_SHAPE1(3)))
REFUSE(constant_symbol, bs_constant(g, "k", BS_F32, BS_SHAPE2(3, BS_UPTO(4))))
REFUSE(features_float, bs_patch_features(g, c[0], (bs_value){0}, NULL))
REFUSE(features_mixed, bs_patch_features(g, c[1], c[0], &(bs_patch_features_desc){.name = "f"}))
REFUSE(features_buckets,
       bs_patch_features(g, c[1], (bs_value){0}, &(bs_patch_features_desc){.name = "f", .buckets = 200}))

static const refusal refusals[] = {
    {"conv without out", no_out, BS_ERROR_ARGUMENT, {"conv2d \"head\"", "out is 0"}},
    {"conv without descriptor", no_desc, BS_ERROR_ARGUMENT, {"conv2d", "out is 0"}},
    {"conv groups", bad_groups, BS_ERROR_SHAPE, {"conv2d \"head\"", "dimension 0", "4 groups"}},
    {"conv of bytes", conv_bytes, BS_ERROR_SHAPE, {"conv2d \"head\"", "u8", "f32"}},
    {"conv of a matrix", conv_rank, BS_ERROR_SHAPE, {"conv2d \"head\"", "[5, 7]", "rank 3"}},
    {"conv larger than its image", conv_small, BS_ERROR_SHAPE, {"conv2d \"head\"", "dimension 1 is 20"}},
    {"conv activation", conv_act, BS_ERROR_ARGUMENT, {"conv2d \"head\"", "act is 99"}},
    {"conv without padding on cells",
     conv_cut_valid,
     BS_ERROR_SHAPE,
     {"conv2d \"head\"", "dimension 1", "patch domain"}},
    {"conv that grows cells", conv_cut_wide, BS_ERROR_SHAPE, {"conv2d \"head\"", "dimension 1", "patch domain"}},
    {"conv stride on cells", conv_cut_stride, BS_ERROR_SHAPE, {"conv2d \"head\"", "cells of 8 pixels", "divide by 3"}},
    {"deconv on cells", deconv_cut, BS_ERROR_SHAPE, {"deconv2d \"up\"", "dimensions 1 and 2"}},
    {"deconv output_pad", deconv_output, BS_ERROR_ARGUMENT, {"deconv2d \"up\"", "output_pad 2"}},
    {"linear on cells", linear_cut, BS_ERROR_DOMAIN, {"linear \"fc\"", "operand 0", "patches"}},
    {"linear of bytes", linear_bytes, BS_ERROR_SHAPE, {"linear \"fc\"", "u8"}},
    {"linear of a symbol", linear_symbol, BS_ERROR_SHAPE, {"linear \"fc\"", "dimension 1", "constant"}},
    {"matmul inner",
     matmul_inner,
     BS_ERROR_SHAPE,
     {"matmul \"scores\"", "dimension 1 of operand 0 is 7", "dimension 0 of operand 1 is 5"}},
    {"matmul of cells", matmul_cut, BS_ERROR_DOMAIN, {"matmul \"scores\"", "patches"}},
    {"pixel_shuffle channels", shuffle_channels, BS_ERROR_SHAPE, {"pixel_shuffle", "dimension 0 is 6", "16"}},
    {"pixel_shuffle by 0", shuffle_zero, BS_ERROR_ARGUMENT, {"pixel_shuffle", "r is 0"}},
    {"pixel_unshuffle extent", unshuffle_extent, BS_ERROR_SHAPE, {"pixel_unshuffle", "dimension 1 is 20", "r = 3"}},
    {"pixel_unshuffle cells", unshuffle_cell, BS_ERROR_SHAPE, {"pixel_unshuffle", "cells of 8 pixels", "3"}},
    {"add of types", add_type, BS_ERROR_SHAPE, {"add", "operand 1 is u8", "f32"}},
    {"add of ranks", add_rank, BS_ERROR_SHAPE, {"add", "dimension 1 of the result is 20", "5 in operand 1"}},
    {"add of extents", add_dim, BS_ERROR_SHAPE, {"add", "dimension 0 is 6 in operand 0 and 3"}},
    {"mul of a frame and cells", add_frame, BS_ERROR_DOMAIN, {"mul", "operand 1", "bs_patches"}},
    {"activation prelu", act_prelu, BS_ERROR_ARGUMENT, {"activation", "bs_prelu"}},
    {"clip order", clip_order, BS_ERROR_ARGUMENT, {"clip", "low 1"}},
    {"affine of bytes", affine_bytes, BS_ERROR_SHAPE, {"affine", "u8"}},
    {"convert type", convert_type, BS_ERROR_ARGUMENT, {"convert \"to\"", "dtype is 17"}},
    {"concat of types", concat_type, BS_ERROR_SHAPE, {"concat", "operand 1 is u8"}},
    {"concat of nine", concat_many, BS_ERROR_GRAPH, {"concat", "9"}},
    {"concat of extents", concat_dim, BS_ERROR_SHAPE, {"concat", "dimension 1 is 20 in operand 0 and 40 in operand 1"}},
    {"concat of rows of cells", concat_cut, BS_ERROR_DOMAIN, {"concat", "axis 1"}},
    {"slice beyond", slice_beyond, BS_ERROR_SHAPE, {"slice \"part\"", "dimension 1, which is 20", "start 18"}},
    {"slice axis", slice_axis, BS_ERROR_SHAPE, {"slice \"part\"", "axis 3"}},
    {"slice of columns of cells", slice_cut, BS_ERROR_DOMAIN, {"slice \"part\"", "axis 2"}},
    {"reshape count", reshape_count_wrong, BS_ERROR_SHAPE, {"reshape", "[5, 7]", "36"}},
    {"reshape rest", reshape_rest, BS_ERROR_SHAPE, {"reshape", "dimension 0", "35"}},
    {"reshape two rests", reshape_two, BS_ERROR_SHAPE, {"reshape", "dimensions 0 and 1"}},
    {"reshape new symbol", reshape_symbol, BS_ERROR_SHAPE, {"reshape", "dimension 1"}},
    {"reshape of cells", reshape_cut, BS_ERROR_DOMAIN, {"reshape", "patches"}},
    {"reshape to an image in patches", reshape_image, BS_ERROR_DOMAIN, {"reshape", "image"}},
    {"transpose twice", transpose_twice, BS_ERROR_ARGUMENT, {"transpose \"t\"", "order[2] = 1"}},
    {"transpose of cells", transpose_cut, BS_ERROR_DOMAIN, {"transpose", "patches"}},
    {"pad of cells", pad_cut, BS_ERROR_DOMAIN, {"pad \"border\"", "patches"}},
    {"pad negative", pad_negative, BS_ERROR_ARGUMENT, {"pad \"border\"", "left is -1"}},
    {"softmax of cells", softmax_cut, BS_ERROR_DOMAIN, {"softmax", "patches"}},
    {"layer_norm of bytes", norm_bytes, BS_ERROR_SHAPE, {"layer_norm \"ln\"", "u8"}},
    {"pool padding", pool_pad, BS_ERROR_ARGUMENT, {"pool2d \"p\"", "pads 3 and 3", "0 .. 2"}},
    {"pool of cells", pool_cut, BS_ERROR_SHAPE, {"pool2d \"p\"", "divide by 3"}},
    {"resize of f16", resize_type, BS_ERROR_SHAPE, {"resize", "f16"}},
    {"resize factor", resize_factor_large, BS_ERROR_ARGUMENT, {"resize \"up\"", "factor is 17"}},
    {"reduce over pixels of cells", reduce_cut, BS_ERROR_DOMAIN, {"reduce \"r\"", "patches"}},
    {"reduce axis", reduce_axis, BS_ERROR_SHAPE, {"reduce \"r\"", "axis -4"}},
    {"argmax of bytes", argmax_bytes, BS_ERROR_SHAPE, {"argmax", "u8"}},
    {"topk of too many", topk_large, BS_ERROR_SHAPE, {"topk", "k is 8", "dimension 1 of operand 0, which is 7"}},
    {"gather_rows by floats", gather_float, BS_ERROR_SHAPE, {"gather_rows", "f32", "i32"}},
    {"constant of bytes", constant_bytes, BS_ERROR_ARGUMENT, {"constant \"k\"", "u8"}},
    {"constant of a symbol", constant_symbol, BS_ERROR_SHAPE, {"constant \"k\"", "dimension 1"}},
    {"patch_features of floats", features_float, BS_ERROR_SHAPE, {"patch_features", "f32"}},
    {"patch_features of types", features_mixed, BS_ERROR_SHAPE, {"patch_features \"f\"", "operand 1 is f32"}},
    {"patch_features buckets", features_buckets, BS_ERROR_ARGUMENT, {"patch_features \"f\"", "buckets is 200"}},
};

static void test_refusal(const refusal *c)
{
    bs_graph *g = new_graph();
    const bs_value f = bs_input(g, "a", BS_F32, BS_SHAPE3(6, 20, 24)),
                   u = bs_input(g, "b", BS_U8, BS_SHAPE3(6, 20, 24));
    const bs_value m = bs_input(g, "c", BS_F32, BS_SHAPE2(5, 7));
    const bs_value cells = bs_patches(g, f, &(bs_patches_desc){.size = 8});
    const bs_value all[] = {f, u, m, cells, bs_patches(g, u, &(bs_patches_desc){.size = 8, .like = cells})};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bool sound = bs_graph_check(g, &error) == BS_OK;
    const bs_value v = c->build(g, all);
    bool named = bs_graph_check(g, &error) == c->status && v.id == 0 && sound;
    for (int32_t i = 0; i < 3 && c->words[i]; i++)
        named = named && strstr(error.message, c->words[i]);
    check(named, "refuses %s: %s: %s", c->name, bs_status_name(error.status), error.message);
}

/* -------------------------------------------------------------------------------------------------------- data */

#define BUILD(function, expression) \
    static bs_value function(bs_graph *g, const bs_value *x) { return expression; }
BUILD(of_gather_rows, bs_gather_rows(g, x[0], x[1]))
BUILD(of_select, bs_select(g, x[0], x[1], 0))
BUILD(of_gather_elements, bs_gather_elements(g, x[0], x[3], 0))
BUILD(of_scatter_elements, bs_scatter_elements(g, x[0], x[3], x[4], NULL))
BUILD(of_scatter_rows, bs_scatter_rows(g, x[0], x[1], x[2], &(bs_update_desc){.update = BS_UPDATE_ADD}))

/* Index `index` of two in a table of four rows; the indices are operand `operand`. */
static void test_bad_index(const char *op, builder build, int32_t operand, int32_t index, bool good)
{
    const size_t mark = pool_used;
    bs_graph *g = new_graph();
    const bs_value table = bs_input(g, "t", BS_F32, BS_SHAPE2(4, 3)), pair = bs_input(g, "p", BS_F32, BS_SHAPE2(2, 3));
    const bs_value list[5] = {table, bs_input(g, "i", BS_I32, BS_SHAPE1(2)), pair,
                              bs_input(g, "j", BS_I32, BS_SHAPE2(2, 1)), bs_input(g, "q", BS_F32, BS_SHAPE2(2, 1))};
    build(g, list);
    op_run r = op_run_of(g, BS_TIER_SCALAR);
    op_prepare(&r, 0, 0);
    char fault[BS_FAULT_BYTES] = "", expected[BS_FAULT_BYTES] = "";
    r.call.fault = fault;
    for (int32_t k = 0; k < r.node->n_in; k++) {
        const bs_value_info *v = bs_value_get(g, bs_node_in(g, r.node)[k]);
        int32_t dim[2];
        for (int32_t d = 0; d < v->rank; d++)
            dim[d] = (int32_t)bs_dim_max(g, v->dims[d]);
        tensor t = tensor_new(v->dtype, 1, v->rank, dim);
        if (k == operand) {
            memset(t.data, 0, 8);
            memcpy(t.data + 4, &index, 4);
        } else {
            tensor_randomise(&t);
        }
        storage s = storage_new(v->dtype, 1, v->rank, dim, whole_rect(v->rank, dim), 0, LAYOUT_PLANAR);
        storage_fill(&s, &t, 0, 0);
        r.in[k] = s.operand;
    }
    storage y = storage_of_output(&r, 0, 1, LAYOUT_PLANAR);
    r.out[0] = y.operand;
    if (!good)
        snprintf(expected, sizeof expected, "index 1 is %d, expected 0 .. 3", index);
    const bool told = r.op->run(op_call(&r)) == (good ? BS_OK : BS_ERROR_DATA) && strcmp(fault, expected) == 0;
    storage_drain(&y);
    check(told && storage_is_poison(&y),
          "%s: index %d of 4 rows is %s", op, index, good ? "taken" : "BS_ERROR_DATA");
    pool_used = mark;
}

static void test_bad_indices(void)
{
    const struct {
        const char *op;
        builder build;
    } ops[] = {{"gather_rows", of_gather_rows},
               {"select", of_select},
               {"gather_elements", of_gather_elements},
               {"scatter_elements", of_scatter_elements},
               {"scatter_rows", of_scatter_rows}};
    for (int32_t i = 0; i < 5; i++) {
        test_bad_index(ops[i].op, ops[i].build, i > 0, 3, true);
        test_bad_index(ops[i].op, ops[i].build, i > 0, 4, false);
        test_bad_index(ops[i].op, ops[i].build, i > 0, -1, false);
    }
}

/* Every f16 survives f32; exact halves round to even. */
static void test_halves(void)
{
    int32_t wrong = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        const bool nan = (h & 0x7c00u) == 0x7c00u && (h & 1023u) != 0;
        const float f = bs_f16_to_f32((uint16_t)h), b = bs_bf16_to_f32((uint16_t)h);
        wrong += nan ? f == f : bs_f32_to_f16(f) != h;
        wrong += b == b ? bs_f32_to_bf16(b) != h : 0;
    }
    check(wrong == 0, "dtype: every f16 and bf16 goes through f32 unchanged (%d wrong)", wrong);
    check(bs_f32_to_bf16(bs_bf16_to_f32(0x7f81)) >> 7 == 0xff, "dtype: a NaN stays one in bf16");
    const float nan = bs_bf16_to_f32(0x7fc1);
    check((bs_f32_to_f16(nan) & 0x7fff) > 0x7c00, "dtype: a NaN stays one in f16");
}

static void test_table(void)
{
    int32_t wrong = 0;
    for (int32_t i = 0; i < bs_op_count(); i++) {
        const bs_op *op = bs_op_get(i);
        const size_t fields = (op->params_bytes - (op->params_bytes ? sizeof(void *) : 0)) / 4;
        const bool kernel = bs_op_is_structural(op) || op->run;
        /* alignment may add one unnamed 4-byte gap at the end */
        const bool listed = (size_t)op->n_fields == fields || (size_t)op->n_fields + 1 == fields;
        wrong += bs_op_index(op->name) != i || !op->infer || !kernel || !listed;
        if (!listed)
            printf("%s lists %d fields of %zu\n", op->name, op->n_fields, fields);
    }
    check(wrong == 0 && bs_op_index("no such op") < 0 && !bs_op_get(-1) && !bs_op_get(bs_op_count()),
          "table: %d ops, found by name, fields listed", bs_op_count());
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_table();
    test_halves();
    test_symbols();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        test_refusal(&refusals[i]);
    test_bad_indices();
    return check_end();
}
