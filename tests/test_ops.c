/* test_ops.c - what the op table promises, op by op, at every tier this machine can run.
 *
 *   vectors   results equal PyTorch's (tests/vectors/ops.bin, made by tools/make_op_vectors.py), on any layout
 *   tiers     random shapes: every tier agrees with the scalar reference
 *   patches   a frame cut into cells, with the halo that the op asks for and nothing more, gives the uncut frame's bits
 *   shapes    symbolic extents; refusals that name op, node and dimension
 *   data      indices out of range are refused when they are met
 *
 * Usage: test_ops [seed] */
#include "op_harness.h"

/* ----------------------------------------------------------------------------------------------- the vector file */

typedef struct record { const char *name; size_t length; tensor data; } record;

static record records[512];
static int32_t n_records;

static uint32_t read_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Tensors have their rows in dim[0] here; vector_find splits them off. */
static bool read_vectors(const char *path)
{
    static alignas(64) uint8_t file[400000];
    FILE *f = fopen(path, "rb");
    const size_t size = f ? fread(file, 1, sizeof file, f) : 0;
    if (f)
        fclose(f);
    if (size < 8 || memcmp(file, "BSVEC1\n", 8) != 0)
        return false;
    for (size_t at = 8; at < size && n_records < 512;) {
        record *r = &records[n_records++];
        r->length = file[at];
        r->name = (const char *)file + at + 1;
        at += 1 + r->length;
        const bs_dtype dtype = (bs_dtype)file[at];
        const int32_t rank = file[at + 1];
        int32_t dim[5] = {1, 1, 1, 1, 1};
        for (int32_t d = 0; d < rank; d++)
            dim[d] = (int32_t)read_u32(file + at + 2 + 4 * d);
        at += 2 + 4 * (size_t)rank;
        r->data.dtype = dtype;
        r->data.rank = rank;
        r->data.rows = dim[0];
        memcpy(r->data.dim, dim + 1, sizeof r->data.dim);
        r->data.data = (uint8_t *)pool_take((size_t)dim[0] * (size_t)dim[1] * (size_t)dim[2] * (size_t)dim[3] *
                                            (size_t)dim[4] * bs_dtype_bytes(dtype));
        const size_t bytes = (size_t)dim[0] * (size_t)dim[1] * (size_t)dim[2] * (size_t)dim[3] * (size_t)dim[4] *
                             bs_dtype_bytes(dtype);
        if (bytes > size - at)
            return false;
        memcpy(r->data.data, file + at, bytes);
        at += bytes;
    }
    return n_records > 0;
}

/* Rows first, or everything one row. */
static bool vector_find(const char *name, const char *part, bool by_row, tensor *t)
{
    char full[128];
    const int length = snprintf(full, sizeof full, "%s/%s", name, part);
    for (int32_t i = 0; i < n_records; i++) {
        const record *r = &records[i];
        if ((int)r->length != length || memcmp(r->name, full, r->length) != 0)
            continue;
        *t = r->data;
        if (by_row) {
            t->rank--;
        } else {
            t->dim[0] = r->data.rows;
            memcpy(t->dim + 1, r->data.dim, 3 * sizeof t->dim[0]);
            t->rows = 1;
        }
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------- vector cases */

typedef bs_value (*builder)(bs_graph *g, const bs_value *x);

#define CONV(function, ...)                                                                     \
    static bs_value function(bs_graph *g, const bs_value *x)                                    \
    {                                                                                           \
        return bs_conv2d(g, x[0], &(bs_conv2d_desc){.name = "conv", __VA_ARGS__});              \
    }
CONV(conv_plain, .out = 7)
CONV(conv_stride, .out = 6, .stride = 2)
CONV(conv_dilated, .out = 5, .kernel = 5, .dilation = 2)
CONV(conv_groups, .out = 4, .groups = 2)
CONV(conv_depthwise, .out = 6, .groups = BS_DEPTHWISE, .act = BS_RELU)
CONV(conv_norm, .out = 9, .batch_norm = 1, .no_bias = 1, .act = BS_PRELU)
CONV(conv_norm_wide, .out = 16, .batch_norm = 1, .act = BS_RELU)
CONV(conv_rect, .out = 4, .kernel_h = 1, .kernel_w = 5, .act = BS_LEAKY_RELU)
CONV(conv_valid, .out = 3, .kernel = 4, .padding = BS_PAD_VALID, .no_bias = 1, .act = BS_CLIP, .act_param = 0.5f)
CONV(conv_wide, .out = 16, .act = BS_RELU)
CONV(conv_sigmoid, .out = 17, .kernel = 1, .act = BS_SIGMOID)
CONV(conv_half, .out = 5, .kernel = 2, .stride = 2)
CONV(conv_large, .out = 3, .kernel = 7, .stride = 2, .act = BS_TANH)
#undef CONV

#define DECONV(function, ...)                                                                    \
    static bs_value function(bs_graph *g, const bs_value *x)                                     \
    {                                                                                            \
        return bs_deconv2d(g, x[0], &(bs_deconv2d_desc){.name = "deconv", __VA_ARGS__});         \
    }
DECONV(deconv_k4, .out = 3, .kernel = 4, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1)
DECONV(deconv_k9, .out = 1, .kernel = 9, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 4, .output_pad = 1,
       .act = BS_RELU)
DECONV(deconv_sparse, .out = 2, .kernel = 2, .stride = 3, .act = BS_TANH)
DECONV(deconv_default, .out = 3, .no_bias = 1)
DECONV(deconv_k3s3, .out = 4, .kernel = 3, .stride = 3, .act = BS_PRELU)
#undef DECONV

/* One line a builder: its name and what it returns. */
#define BUILD(function, expression) \
    static bs_value function(bs_graph *g, const bs_value *x) { return expression; }
BUILD(linear_rows, bs_linear(g, x[0], &(bs_linear_desc){.name = "fc", .out = 9}))
BUILD(linear_gelu, bs_linear(g, x[0], &(bs_linear_desc){.name = "fc", .out = 20, .no_bias = 1, .act = BS_GELU}))
BUILD(linear_prelu, bs_linear(g, x[0], &(bs_linear_desc){.name = "fc", .out = 6, .act = BS_PRELU}))
BUILD(matmul_plain, bs_matmul(g, x[0], x[1], NULL))
BUILD(matmul_transposed, bs_matmul(g, x[0], x[1], &(bs_matmul_desc){.transpose_b = 1, .scale = 0.25f}))
BUILD(shuffle_2, bs_pixel_shuffle(g, x[0], 2))
BUILD(unshuffle_3, bs_pixel_unshuffle(g, x[0], 3))
BUILD(unshuffle_2, bs_pixel_unshuffle(g, x[0], 2))
BUILD(add, bs_add(g, x[0], x[1]))
BUILD(sub, bs_sub(g, x[0], x[1]))
BUILD(mul, bs_mul(g, x[0], x[1]))
BUILD(act_relu, bs_activation(g, x[0], BS_RELU, 0))
BUILD(act_leaky, bs_activation(g, x[0], BS_LEAKY_RELU, 0.2f))
BUILD(act_sigmoid, bs_activation(g, x[0], BS_SIGMOID, 0))
BUILD(act_tanh, bs_activation(g, x[0], BS_TANH, 0))
BUILD(act_gelu, bs_activation(g, x[0], BS_GELU, 0))
BUILD(act_silu, bs_activation(g, x[0], BS_SILU, 0))
BUILD(act_clip, bs_activation(g, x[0], BS_CLIP, 1.5f))
BUILD(prelu, bs_prelu(g, x[0], "slopes"))
BUILD(clip, bs_clip(g, x[0], -0.5f, 0.7f))
BUILD(affine, bs_affine(g, x[0], 2.5f, -0.75f))
BUILD(batch_norm, bs_batch_norm(g, x[0], &(bs_norm_desc){.name = "norm", .epsilon = 1e-3f}))
BUILD(to_f32, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_F32}))
BUILD(to_f32_255, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_F32, .scale = 1.0f / 255.0f}))
BUILD(to_u8, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_U8}))
BUILD(to_u10, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_U16, .scale = 1023.0f, .code_bits = 10}))
BUILD(to_i32, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_I32}))
BUILD(to_i8, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_I8}))
BUILD(to_f16, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_F16}))
BUILD(to_bf16, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_BF16}))
BUILD(concat_3, bs_concat(g, x, 3, 0))
BUILD(concat_width, bs_concat(g, x, 2, -1))
BUILD(concat_height, bs_concat(g, x, 2, 1))
BUILD(slice_01, bs_slice(g, x[0], &(bs_slice_desc){.axis = 0, .start = 1, .length = 1}))
BUILD(slice_from_4, bs_slice(g, x[0], &(bs_slice_desc){.axis = 0, .start = 4}))
BUILD(slice_13, bs_slice(g, x[0], &(bs_slice_desc){.axis = 1, .start = 1, .length = 2}))
BUILD(slice_rest, bs_slice(g, x[0], &(bs_slice_desc){.axis = 2, .start = 2}))
BUILD(reshape_15, bs_reshape(g, x[0], BS_SHAPE2(-1, 15)))
BUILD(transpose_2031, bs_transpose(g, x[0], &(bs_transpose_desc){.order = {2, 0, 3, 1}}))
BUILD(transpose_default, bs_transpose(g, x[0], NULL))
BUILD(pad_value, bs_pad(g, x[0], &(bs_pad_desc){.top = 1, .bottom = 2, .left = 3, .value = 1.5f}))
BUILD(pad_edge, bs_pad(g, x[0], &(bs_pad_desc){.bottom = 3, .left = 2, .right = 1, .edge = 1}))
BUILD(gather_table, bs_gather_rows(g, x[0], x[1]))
BUILD(constant, ((void)x, bs_constant(g, "table", BS_I32, BS_SHAPE3(2, 3, 4))))
BUILD(softmax, bs_softmax(g, x[0]))
BUILD(layer_norm, bs_layer_norm(g, x[0], &(bs_norm_desc){.name = "norm"}))
BUILD(reduce_sum, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = 0, .keep = 1}))
BUILD(reduce_mean, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = -1}))
BUILD(reduce_max, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 1}))
BUILD(reduce_min, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MIN, .axis = 0}))
BUILD(argmax, bs_argmax(g, x[0]))
static bs_value topk(bs_graph *g, const bs_value *x)
{
    bs_value indices;
    return bs_topk(g, x[0], 3, &indices);
}
#define POOL(...) bs_pool2d(g, x[0], &(bs_pool2d_desc){__VA_ARGS__})
BUILD(pool_average, POOL(.kind = BS_POOL_AVERAGE))
BUILD(pool_average_pad, POOL(.kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_average_count, POOL(.kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1, .count_pad = 1))
BUILD(pool_max, POOL(.kind = BS_POOL_MAX, .kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_global, POOL(.global = 1))
BUILD(pool_global_max, POOL(.kind = BS_POOL_MAX, .global = 1))
#undef POOL
#define RESIZE(...) bs_resize(g, x[0], &(bs_resize_desc){__VA_ARGS__})
BUILD(nearest_3, RESIZE(.kind = BS_RESIZE_NEAREST, .factor = 3))
BUILD(bilinear_3, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3))
BUILD(bilinear_2, RESIZE(.kind = BS_RESIZE_BILINEAR))
BUILD(bicubic_2, RESIZE(.kind = BS_RESIZE_BICUBIC, .cubic_a = -0.75f))
BUILD(bicubic_4, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 4, .cubic_a = -0.75f))
BUILD(bicubic_codes, RESIZE(.kind = BS_RESIZE_BICUBIC))
BUILD(bicubic_u10, RESIZE(.kind = BS_RESIZE_BICUBIC, .code_bits = 10))
BUILD(bicubic_codes_3, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 3, .code_bits = 10))
#undef RESIZE
BUILD(features, bs_patch_features(g, x[0], x[1], &(bs_patch_features_desc){.name = "f"}))
BUILD(features_alone, bs_patch_features(g, x[0], (bs_value){0}, &(bs_patch_features_desc){.buckets = 20}))
BUILD(features_u10, bs_patch_features(g, x[0], x[1], &(bs_patch_features_desc){.code_bits = 10}))

enum { ROOT = 1, CAPTURED_0 = 2, CAPTURED_1 = 4, CHANNELS_LAST = 8 };

typedef struct vector_case {
    const char *name;
    builder build;
    int32_t operands, flags;
    double tolerance; /* relative to 1 + |expected|; 0: to the bit */
} vector_case;

static const vector_case vector_cases[] = {
    {"conv2d_plain", conv_plain, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_stride", conv_stride, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_dilated", conv_dilated, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_groups", conv_groups, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_depthwise", conv_depthwise, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_norm", conv_norm, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_norm_wide", conv_norm_wide, 1, CHANNELS_LAST, 3e-5},
    {"conv2d_rect", conv_rect, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_valid", conv_valid, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_wide", conv_wide, 1, CHANNELS_LAST, 3e-5},
    {"conv2d_sigmoid", conv_sigmoid, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_k4", deconv_k4, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_k9", deconv_k9, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_sparse", deconv_sparse, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_default", deconv_default, 1, CHANNELS_LAST, 1e-5},
    {"linear_rows", linear_rows, 1, 0, 1e-5},
    {"linear_gelu", linear_gelu, 1, 0, 1e-5},
    {"linear_prelu", linear_prelu, 1, 0, 1e-5},
    {"matmul_plain", matmul_plain, 2, 0, 1e-5},
    {"matmul_transposed", matmul_transposed, 2, 0, 1e-5},
    {"matmul_captured", matmul_plain, 2, CAPTURED_1, 1e-5},
    {"pixel_shuffle", shuffle_2, 1, 0, 0},
    {"pixel_unshuffle", unshuffle_3, 1, 0, 0},
    {"add", add, 2, 0, 0},
    {"sub_broadcast", sub, 2, 0, 0},
    {"mul_captured", mul, 2, CAPTURED_1, 0},
    {"mul_channel", mul, 2, 0, 0},
    {"add_i32", add, 2, 0, 0},
    {"mul_i32", mul, 2, 0, 0},
    {"act_relu", act_relu, 1, 0, 0},
    {"act_leaky", act_leaky, 1, 0, 0},
    {"act_sigmoid", act_sigmoid, 1, 0, 1e-6},
    {"act_tanh", act_tanh, 1, 0, 1e-6},
    {"act_gelu", act_gelu, 1, 0, 1e-6},
    {"act_silu", act_silu, 1, 0, 1e-6},
    {"act_clip", act_clip, 1, 0, 0},
    {"prelu", prelu, 1, 0, 0},
    {"clip", clip, 1, 0, 0},
    {"affine", affine, 1, 0, 1e-6},
    {"batch_norm", batch_norm, 1, 0, 1e-5},
    {"convert_u8_f32", to_f32_255, 1, 0, 1e-7},
    {"convert_f32_u8", to_u8, 1, 0, 0},
    {"convert_f32_u10", to_u10, 1, 0, 0},
    {"convert_f32_i32", to_i32, 1, 0, 0},
    {"convert_i32_i8", to_i8, 1, 0, 0},
    {"convert_f32_f16", to_f16, 1, 0, 0},
    {"convert_f32_bf16", to_bf16, 1, 0, 0},
    {"convert_f16_f32", to_f32, 1, 0, 0},
    {"concat_channels", concat_3, 3, 0, 0},
    {"concat_width", concat_width, 2, 0, 0},
    {"concat_height", concat_height, 2, 0, 0},
    {"slice", slice_13, 1, 0, 0},
    {"slice_rest", slice_rest, 1, 0, 0},
    {"reshape", reshape_15, 1, 0, 0},
    {"transpose_root", transpose_2031, 1, ROOT, 0},
    {"transpose_default", transpose_default, 1, 0, 0},
    {"pad_value", pad_value, 1, 0, 0},
    {"pad_edge", pad_edge, 1, 0, 0},
    {"gather_rows", gather_table, 2, CAPTURED_0, 0},
    {"gather_rows_own", gather_table, 2, 0, 0},
    {"constant", constant, 0, ROOT, 0},
    {"softmax", softmax, 1, 0, 1e-6},
    {"layer_norm", layer_norm, 1, 0, 1e-5},
    {"reduce_sum", reduce_sum, 1, 0, 1e-6},
    {"reduce_mean", reduce_mean, 1, 0, 1e-6},
    {"reduce_max", reduce_max, 1, 0, 0},
    {"reduce_min", reduce_min, 1, 0, 0},
    {"argmax", argmax, 1, 0, 0},
    {"topk", topk, 1, 0, 0},
    {"pool_average", pool_average, 1, 0, 1e-6},
    {"pool_average_pad", pool_average_pad, 1, 0, 1e-6},
    {"pool_average_count", pool_average_count, 1, 0, 1e-6},
    {"pool_max", pool_max, 1, 0, 0},
    {"pool_global", pool_global, 1, 0, 1e-6},
    {"pool_global_max", pool_global_max, 1, 0, 0},
    {"resize_nearest", nearest_3, 1, 0, 0},
    {"resize_bilinear", bilinear_3, 1, 0, 1e-6},
    {"resize_bilinear2", bilinear_2, 1, 0, 1e-6},
    {"resize_bicubic", bicubic_2, 1, 0, 1e-5},
    {"resize_bicubic4", bicubic_4, 1, 0, 1e-5},
    {"resize_u8", bicubic_codes, 1, 0, 0},
    {"resize_ties", bicubic_codes, 1, 0, 0},
    {"resize_u10", bicubic_u10, 1, 0, 0},
    {"resize_u16", bicubic_codes, 1, 0, 0},
    {"patch_features", features, 2, 0, 0},
    {"patch_features_steps", features, 2, 0, 0},
    {"patch_features_thirds", features, 2, 0, 0},
    {"patch_features_alone", features_alone, 1, 0, 0},
    {"patch_features_u10", features_u10, 2, 0, 0},
};

/* Inputs as rows of one domain, or root values. */
static bs_value case_input(bs_graph *g, const tensor *t, int32_t index, bool root, bs_value like)
{
    const char *const names[] = {"x0", "x1", "x2"};
    bs_shape shape = {t->rank + (root ? 0 : 1), {0}};
    if (!root)
        shape.dim[0] = t->rows;
    for (int32_t d = 0; d < t->rank; d++)
        shape.dim[d + (root ? 0 : 1)] = t->dim[d];
    const bs_value x = bs_input(g, names[index], t->dtype, shape);
    return root ? x : bs_rows(g, x, like);
}

static bool case_root(const vector_case *c, int32_t operand)
{
    return c->flags & ROOT || (c->flags & CAPTURED_0 && operand == 0) || (c->flags & CAPTURED_1 && operand == 1);
}

static bool case_build(const vector_case *c, bs_graph *g, tensor *in, int32_t *ids)
{
    static const char *const parts[] = {"x0", "x1", "x2"};
    bs_value x[3] = {{0}, {0}, {0}}, like = {0};
    for (int32_t i = 0; i < c->operands; i++) {
        if (!vector_find(c->name, parts[i], !case_root(c, i), &in[i]))
            return false;
        x[i] = case_input(g, &in[i], i, case_root(c, i), like);
        ids[i] = x[i].id;
        like = case_root(c, i) ? like : x[i];
    }
    c->build(g, x);
    return true;
}

static bool case_weights(const vector_case *c, op_run *r)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t n = r->op->weights ? r->op->weights(r->graph, r->node, specs) : 0;
    for (int32_t i = 0; i < n; i++) {
        tensor w;
        if (!vector_find(c->name, specs[i].suffix, false, &w) ||
            (uint64_t)tensor_elements(&w) != bs_bytes_figure(bs_weight_elements(&specs[i])))
            return false;
        r->weights[i] = w.data;
    }
    return true;
}

/* Runs a prepared node on storage of one layout. Returns what went wrong, or NULL. */
static const char *case_run(const vector_case *c, op_run *r, const tensor *in, const int32_t *ids, int32_t layout,
                            double *worst)
{
    static const char *const parts[] = {"y0", "y1"};
    int32_t rows = 1;
    const int32_t *operands = bs_node_in(r->graph, r->node);
    for (int32_t k = 0; k < r->node->n_in; k++)
        for (int32_t i = 0; i < c->operands; i++) {
            if (ids[i] != operands[k])
                continue;
            storage s = storage_new(in[i].dtype, in[i].rows, in[i].rank, in[i].dim, whole_rect(in[i].rank, in[i].dim),
                                    op_halo(r, k, 0), layout);
            storage_fill(&s, &in[i], 0, 0);
            r->call.in[k] = s.operand;
            if (case_root(c, i))
                r->call.in[k].row_stride = 0;
            else
                rows = in[i].rows;
        }
    storage out[2];
    for (int32_t i = 0; i < r->node->n_out; i++) {
        out[i] = storage_of_output(r, i, rows, layout);
        r->call.out[i] = out[i].operand;
    }
    r->call.rows = rows;
    /* a part only: a band of rows, some columns */
    if (r->op->flags & BS_OP_SPATIAL && out[0].operand.rank == 3 && layout % 2) {
        bs_rect *rect = &out[0].operand.rect;
        rect->y0 = check_below(rect->y1), rect->y1 -= check_below(rect->y1 - rect->y0);
        rect->x0 = check_below(rect->x1), rect->x1 -= check_below(rect->x1 - rect->x0);
        r->call.out[0].rect = *rect;
    }
    if (r->op->run(&r->call) != BS_OK)
        return "run failed";
    for (int32_t i = 0; i < r->node->n_out; i++) {
        const bs_operand *o = &out[i].operand;
        tensor expected, got = storage_drain(&out[i]);
        if (!vector_find(c->name, parts[i], !(c->flags & ROOT), &expected))
            return "no expected result";
        if (o->rank != expected.rank || memcmp(o->dim, expected.dim, (size_t)o->rank * sizeof *o->dim) != 0)
            return "has another shape";
        if (o->rank == 3) {
            storage part = storage_new(expected.dtype, expected.rows, 3, expected.dim, o->rect, 0, LAYOUT_PLANAR);
            storage_fill(&part, &expected, 0, 0);
            expected = storage_drain(&part);
        }
        const double distance = tensor_distance(&got, &expected);
        *worst = distance > *worst ? distance : *worst;
        if (!storage_is_poison(&out[i]))
            return "wrote beside its output";
    }
    return *worst <= c->tolerance ? NULL : "differs";
}

static void test_vector(const vector_case *c)
{
    const size_t mark = pool_used;
    for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
        const char *why = NULL;
        double worst = 0;
        for (int32_t layout = 0; layout < LAYOUTS && !why; layout++) {
            tensor in[3];
            int32_t ids[3] = {0, 0, 0};
            bs_error error;
            bs_graph *g = new_graph();
            if (c->flags & CHANNELS_LAST && tier != BS_TIER_SCALAR && layout != LAYOUT_LAST &&
                layout != LAYOUT_LAST_PADDED)
                continue;
            if (!case_build(c, g, in, ids)) {
                why = "no operand in the file";
                break;
            }
            if (bs_graph_check(g, &error) != BS_OK) {
                check(0, "vector %s: %s", c->name, error.message);
                return;
            }
            op_run r = op_run_of(g, tier);
            if (!case_weights(c, &r)) {
                why = "a weight is missing or of another size";
                break;
            }
            op_prepare(&r, 64, 64);
            why = case_run(c, &r, in, ids, layout, &worst);
        }
        check(!why, "vector %s %s%s%s (%.2g)", c->name, bs_tier_name(tier), why ? ": " : "", why ? why : "", worst);
        pool_used = mark;
    }
}

/* ------------------------------------------------------------------------------------------ tiers: random shapes */

static int32_t some_extent(void) { return 1 + check_below(check_below(4) ? 12 : 40); }

static void build_random_conv(bs_graph *g, int32_t channels, int32_t h, int32_t w)
{
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(channels, h, w));
    const int32_t groups = check_below(3) ? 1 : channels, padding = check_below(3) ? BS_PAD_DEFAULT : check_below(3);
    const bs_conv2d_desc desc = {.name = "conv",
                                 .out = groups * (1 + check_below(check_below(2) ? 8 : 40)),
                                 .kernel = 1 + check_below(5),
                                 .stride = 1 + check_below(4) / 3,
                                 .padding = padding,
                                 .pad = padding == BS_PAD_EXPLICIT ? check_below(5) : 0,
                                 .dilation = 1 + check_below(5) / 4,
                                 .groups = groups,
                                 .batch_norm = check_below(2),
                                 .no_bias = check_below(2),
                                 .act = check_below(BS_ACT_COUNT),
                                 .act_param = check_below(2) ? 0.3f : 0.0f};
    bs_conv2d(g, x, &desc);
}

static void build_random_deconv(bs_graph *g, int32_t channels, int32_t h, int32_t w)
{
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(channels, h, w));
    const int32_t kernel = 1 + check_below(6), stride = 1 + check_below(4);
    const bs_deconv2d_desc desc = {.name = "deconv",
                                   .out = 1 + check_below(20),
                                   .kernel = kernel,
                                   .stride = stride,
                                   .padding = BS_PAD_EXPLICIT,
                                   .pad = check_below(kernel) / 2,
                                   .output_pad = check_below(stride),
                                   .no_bias = check_below(2),
                                   .act = check_below(BS_ACT_COUNT)};
    bs_deconv2d(g, x, &desc);
}

static void build_random_linear(bs_graph *g, int32_t channels, int32_t h, int32_t w)
{
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(h, w, channels * 7));
    const bs_linear_desc desc = {
        .name = "fc", .out = 1 + check_below(50), .act = check_below(BS_ACT_COUNT), .no_bias = check_below(2)};
    bs_linear(g, x, &desc);
}

static void build_random_bicubic(bs_graph *g, int32_t channels, int32_t h, int32_t w)
{
    (void)channels;
    bs_resize(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, h, w)), &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC});
}

static void build_random_codes(bs_graph *g, int32_t channels, int32_t h, int32_t w)
{
    const bs_dtype types[] = {BS_F32, BS_U8, BS_U16};
    const bs_value x = bs_input(g, "x", types[check_below(3)], BS_SHAPE3(channels, h, w));
    const bs_convert_desc desc = {
        .dtype = (int32_t)types[check_below(3)], .scale = check_below(2) ? 0.0f : 500.0f, .code_bits = check_below(17)};
    bs_convert(g, x, &desc);
}

static void build_random_features(bs_graph *g, int32_t channels, int32_t h, int32_t w)
{
    const bs_dtype types[] = {BS_U8, BS_U16};
    const bs_value x = bs_input(g, "x", types[check_below(2)], BS_SHAPE3(channels / 8 + 1, h, w));
    bs_patch_features(g, x, (bs_value){0}, &(bs_patch_features_desc){.code_bits = 12, .buckets = 128});
}

static tensor run_whole(op_run *r, const tensor *in, int32_t layout, const char **why)
{
    op_prepare(r, 64, 64);
    storage x = storage_new(in->dtype, 1, in->rank, in->dim, whole_rect(in->rank, in->dim), op_halo(r, 0, 0), layout);
    storage y = storage_of_output(r, 0, 1, layout);
    storage_fill(&x, in, 0, 0);
    r->call.in[0] = x.operand;
    r->call.out[0] = y.operand;
    if (r->op->run(&r->call) != BS_OK)
        *why = "run failed";
    const tensor result = storage_drain(&y);
    if (!storage_is_poison(&y))
        *why = "wrote beside its output";
    return result;
}

static void test_tiers(const char *name, void (*build)(bs_graph *, int32_t, int32_t, int32_t), int32_t repeats)
{
    const char *why = NULL;
    double worst = 0;
    int32_t runs = 0;
    for (int32_t i = 0; i < repeats && !why; i++) {
        const size_t mark = pool_used;
        bs_graph *g = new_graph();
        bs_error error;
        build(g, 1 + check_below(check_below(2) ? 4 : 33), some_extent(), some_extent());
        if (bs_graph_check(g, &error) != BS_OK)
            continue; /* the kernel was larger than the image */
        op_run r = op_run_of(g, BS_TIER_SCALAR);
        op_random_weights(&r);
        const bs_value_info *v = bs_value_get(g, bs_node_in(g, r.node)[0]);
        int32_t dim[BS_MAX_RANK] = {0};
        for (int32_t d = 0; d < v->rank; d++)
            dim[d] = (int32_t)bs_dim_max(g, v->dims[d]);
        tensor x = tensor_new(v->dtype, 1, v->rank, dim);
        tensor_randomise(&x);
        const tensor expected = run_whole(&r, &x, check_below(LAYOUTS), &why);
        for (r.tier = next_tier(BS_TIER_SCALAR); r.tier != BS_TIER_AUTO; r.tier = next_tier(r.tier)) {
            r.choice = (bs_conv_choice)check_below(3);
            const tensor got = run_whole(&r, &x, LAYOUT_LAST + check_below(2), &why);
            const double distance = tensor_distance(&got, &expected);
            worst = distance > worst ? distance : worst;
            runs++;
        }
        pool_used = mark;
    }
    if (!why && worst > 2e-4)
        why = "differs from the scalar reference";
    check(!why, "tiers %s: %d runs, worst %.2g%s%s", name, runs, worst, why ? ": " : "", why ? why : "");
}

/* ----------------------------------------------------------------------------------------------- patches of frames */

typedef struct patch_case {
    const char *name;
    builder build;
    bs_dtype dtype;
    int32_t channels, operands, size, height, width;
    bool core; /* sees the core only: compared with the op on the core alone */
} patch_case;

static const patch_case patch_cases[] = {
    {"conv 3x3", conv_plain, BS_F32, 5, 1, 16, 37, 29, false},
    {"conv stride", conv_stride, BS_F32, 3, 1, 16, 37, 29, false},
    {"conv dilated", conv_dilated, BS_F32, 4, 1, 8, 21, 29, false},
    {"conv depthwise", conv_depthwise, BS_F32, 6, 1, 16, 37, 29, false},
    {"conv prelu", conv_norm, BS_F32, 4, 1, 16, 33, 17, false},
    {"conv 1x5", conv_rect, BS_F32, 3, 1, 8, 20, 21, false},
    {"conv 16 to 16", conv_wide, BS_F32, 16, 1, 16, 37, 29, false},
    {"conv 2x2 stride 2", conv_half, BS_F32, 2, 1, 8, 17, 29, false},
    {"conv 7x7 stride 2", conv_large, BS_F32, 2, 1, 8, 17, 29, false},
    {"deconv k4", deconv_k4, BS_F32, 5, 1, 8, 21, 19, false},
    {"deconv k9", deconv_k9, BS_F32, 4, 1, 8, 21, 19, false},
    {"deconv k3 stride 3", deconv_k3s3, BS_F32, 2, 1, 8, 21, 19, false},
    {"pixel_shuffle", shuffle_2, BS_F32, 8, 1, 8, 21, 19, false},
    {"pixel_shuffle i8", shuffle_2, BS_I8, 4, 1, 8, 21, 19, false},
    {"pixel_unshuffle", unshuffle_2, BS_U16, 2, 1, 8, 22, 18, false},
    {"add", add, BS_F32, 3, 2, 16, 37, 29, false},
    {"mul i32", mul, BS_I32, 3, 2, 16, 37, 29, false},
    {"gelu", act_gelu, BS_F32, 3, 1, 16, 37, 29, false},
    {"prelu", prelu, BS_F32, 3, 1, 16, 37, 29, false},
    {"batch_norm", batch_norm, BS_F32, 3, 1, 16, 37, 29, false},
    {"convert", to_f32_255, BS_U8, 3, 1, 16, 37, 29, false},
    {"convert to u10", to_u10, BS_F32, 1, 1, 16, 37, 29, false},
    {"concat", concat_3, BS_U8, 2, 3, 16, 37, 29, false},
    {"slice", slice_01, BS_F32, 3, 1, 16, 37, 29, false},
    {"reduce channels", reduce_sum, BS_F32, 3, 1, 16, 37, 29, false},
    {"pool", pool_average, BS_F32, 3, 1, 16, 37, 33, false},
    {"pool padded", pool_average_pad, BS_F32, 3, 1, 16, 37, 33, false},
    {"pool stride 1", pool_average_count, BS_F32, 3, 1, 16, 37, 33, false},
    {"pool max", pool_max, BS_F32, 3, 1, 16, 37, 33, false},
    {"nearest", nearest_3, BS_F32, 2, 1, 8, 21, 19, false},
    {"bilinear", bilinear_3, BS_F32, 2, 1, 8, 21, 19, false},
    {"bicubic", bicubic_2, BS_F32, 2, 1, 8, 21, 19, false},
    {"bicubic plane", bicubic_codes, BS_F32, 1, 1, 8, 21, 19, false},
    {"bicubic u8", bicubic_codes, BS_U8, 1, 1, 8, 21, 19, false},
    {"bicubic u16", bicubic_u10, BS_U16, 2, 1, 8, 21, 19, false},
    {"bicubic u16 x3", bicubic_codes_3, BS_U16, 1, 1, 8, 21, 19, false},
    {"add 16", add, BS_F32, 16, 2, 8, 21, 19, false},
    {"relu 8", act_relu, BS_F32, 8, 1, 16, 37, 29, false},
    {"prelu 12", prelu, BS_F32, 12, 1, 8, 21, 19, false},
    {"batch_norm 8", batch_norm, BS_F32, 8, 1, 8, 21, 19, false},
    {"convert 4", to_f32_255, BS_U8, 4, 1, 8, 21, 19, false},
    {"convert 16 to u10", to_u10, BS_F32, 16, 1, 8, 21, 19, false},
    {"concat 4", concat_3, BS_U16, 4, 3, 8, 21, 19, false},
    {"concat 8", concat_3, BS_F32, 8, 3, 8, 21, 19, false},
    {"slice 8", slice_from_4, BS_F32, 12, 1, 8, 21, 19, false},
    {"reduce 40 channels", reduce_sum, BS_F32, 40, 1, 8, 21, 19, false},
    {"pool 8", pool_average_pad, BS_F32, 8, 1, 16, 37, 33, false},
    {"pool max 4", pool_max, BS_F32, 4, 1, 16, 37, 33, false},
    {"bicubic 4", bicubic_codes, BS_F32, 4, 1, 8, 21, 19, false},
    {"global pool", pool_global, BS_F32, 70, 1, 8, 21, 19, true},
    {"global max", pool_global_max, BS_F32, 3, 1, 8, 21, 19, true},
    {"patch_features", features, BS_U8, 1, 2, 8, 21, 19, true},
};

static bs_graph *patch_graph(const patch_case *p, bool cut, int32_t h, int32_t w)
{
    static const char *const names[] = {"x0", "x1", "x2"};
    bs_graph *g = new_graph();
    bs_value x[3] = {{0}, {0}, {0}};
    for (int32_t i = 0; i < p->operands; i++) {
        x[i] = bs_input(g, names[i], p->dtype, BS_SHAPE3(p->channels, h, w));
        if (cut)
            x[i] = bs_patches(g, x[i], &(bs_patches_desc){.size = p->size, .like = x[0].id * (i > 0)});
    }
    p->build(g, x);
    return g;
}

/* The op on a whole frame. */
static tensor patch_whole(op_run *r, const tensor *in, int32_t layout)
{
    for (int32_t i = 0; i < r->node->n_in; i++) {
        storage x = storage_new(in[i].dtype, 1, 3, in[i].dim, whole_rect(3, in[i].dim), op_halo(r, i, 0), layout);
        storage_fill(&x, &in[i], 0, 0);
        r->call.in[i] = x.operand;
    }
    storage y = storage_of_output(r, 0, 1, layout);
    r->call.out[0] = y.operand;
    r->op->run(&r->call);
    return storage_drain(&y);
}

/* A cell's core in a frame of extents h x w, and the rectangle of core and margin that lies inside. */
typedef struct cell { int32_t y, x, dim[3]; bs_rect rect; } cell;

static cell cell_of(int32_t cy, int32_t cx, int32_t size, int32_t margin, const tensor *frame)
{
    const int32_t h = frame->dim[1], w = frame->dim[2];
    const cell c = {cy * size,
                    cx * size,
                    {frame->dim[0], bs_clamp_i32(h - cy * size, 0, size), bs_clamp_i32(w - cx * size, 0, size)},
                    {bs_max_i32(-margin, -cy * size), bs_min_i32(size + margin, h - cy * size),
                     bs_max_i32(-margin, -cx * size), bs_min_i32(size + margin, w - cx * size)}};
    return c;
}

static storage cell_storage(bs_dtype dtype, const cell *c, const tensor *frame, int32_t reach, int32_t layout)
{
    storage s = storage_new(dtype, 1, 3, c->dim, c->rect, reach, layout);
    s.operand.frame_y = c->y;
    s.operand.frame_x = c->x;
    s.operand.frame_h = frame->dim[1];
    s.operand.frame_w = frame->dim[2];
    return s;
}

static void fill_cell_inputs(op_run *r, const patch_case *p, const tensor *in, int32_t cy, int32_t cx, int32_t margin,
                             int32_t layout)
{
    for (int32_t i = 0; i < r->node->n_in; i++) {
        const int32_t halo = op_halo(r, i, margin);
        const cell c = cell_of(cy, cx, p->size, halo, &in[i]);
        storage x = cell_storage(p->dtype, &c, &in[i], halo, layout);
        storage_fill(&x, &in[i], c.y, c.x);
        r->call.in[i] = x.operand;
    }
}

/* One cell against the frame's result. */
static const char *cell_run(op_run *r, const patch_case *p, const tensor *in, const tensor *whole, int32_t cy,
                            int32_t cx, int32_t layout)
{
    const bs_value_info *v = bs_value_get(r->graph, r->node->first_out);
    const int32_t margin = check_below(4);
    const cell c = cell_of(cy, cx, p->size * v->scale_num / v->scale_den, margin, whole);
    fill_cell_inputs(r, p, in, cy, cx, margin, layout);
    storage y = cell_storage(v->dtype, &c, whole, 0, layout), expected = y;
    memset(y.base, 0xff, y.bytes);
    r->call.out[0] = y.operand;
    if (run_in_bands(r) != BS_OK)
        return "run failed";
    const tensor got = storage_drain(&y);
    if (!storage_is_poison(&y))
        return "wrote beside its rectangle";
    storage_fill(&expected, whole, c.y, c.x);
    const tensor want = storage_drain(&expected);
    return tensor_distance(&got, &want) == 0 ? NULL : "differs from the frame";
}

/* The core alone, as a frame of its own. */
static const char *core_run(op_run *r, const patch_case *p, const tensor *in, int32_t cy, int32_t cx, int32_t layout)
{
    const cell c = cell_of(cy, cx, p->size, 0, &in[0]);
    tensor core[3];
    if (op_halo(r, 0, 3) != 0)
        return "asks for a halo";
    fill_cell_inputs(r, p, in, cy, cx, check_below(4), layout);
    storage y = storage_of_output(r, 0, 1, layout);
    r->call.out[0] = y.operand;
    if (r->op->run(&r->call) != BS_OK)
        return "run failed";
    const tensor got = storage_drain(&y);
    for (int32_t i = 0; i < r->node->n_in; i++) {
        storage s = storage_new(p->dtype, 1, 3, c.dim, whole_rect(3, c.dim), 0, layout);
        storage_fill(&s, &in[i], c.y, c.x);
        core[i] = storage_drain(&s);
    }
    bs_graph *g = patch_graph(p, false, c.dim[1], c.dim[2]); /* takes the place of r's graph: r is spent */
    op_run alone = op_run_of(g, r->tier);
    op_prepare(&alone, 64, 64);
    const tensor want = patch_whole(&alone, core, layout);
    return tensor_distance(&got, &want) == 0 ? NULL : "differs from the core alone";
}

static const char *patch_run(const patch_case *p, const void *const *weights, const tensor *in, const tensor *whole,
                             bs_tier tier, int32_t layout)
{
    const char *why = NULL;
    for (int32_t cy = 0; cy * p->size < p->height && !why; cy++)
        for (int32_t cx = 0; cx * p->size < p->width && !why; cx++) {
            const size_t mark = pool_used;
            bs_graph *g = patch_graph(p, true, p->height, p->width);
            op_run r = op_run_of(g, tier);
            memcpy(r.weights, weights, sizeof r.weights);
            r.choice = BS_CONV_FORCE_DIRECT;
            op_prepare(&r, 64, 64);
            why = p->core ? core_run(&r, p, in, cy, cx, layout) : cell_run(&r, p, in, whole, cy, cx, layout);
            pool_used = mark;
        }
    return why;
}

static void test_patches(const patch_case *p)
{
    const size_t mark = pool_used;
    const int32_t dim[3] = {p->channels, p->height, p->width};
    tensor in[3];
    bs_error error;
    for (int32_t i = 0; i < p->operands; i++) {
        in[i] = tensor_new(p->dtype, 1, 3, dim);
        tensor_randomise(&in[i]);
    }
    if (bs_graph_check(patch_graph(p, true, p->height, p->width), &error) != BS_OK) {
        check(0, "patches %s: %s", p->name, error.message);
        return;
    }
    for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
        const char *why = NULL;
        for (int32_t layout = 0; layout < LAYOUTS && !why; layout++) {
            op_run r = op_run_of(patch_graph(p, false, p->height, p->width), tier);
            if (r.op->flags & BS_OP_CHANNELS_LAST && tier != BS_TIER_SCALAR && layout != LAYOUT_LAST &&
                layout != LAYOUT_LAST_PADDED)
                continue;
            op_random_weights(&r);
            r.choice = BS_CONV_FORCE_DIRECT;
            op_prepare(&r, 64, 64);
            const tensor whole = patch_whole(&r, in, layout);
            why = patch_run(p, r.weights, in, &whole, tier, layout);
        }
        check(!why, "patches %s %s%s%s", p->name, bs_tier_name(tier), why ? ": " : "", why ? why : "");
    }
    pool_used = mark;
}

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
REFUSE(pool_pad, bs_pool2d(g, x[0], &(bs_pool2d_desc){.name = "p", .kernel = 3, .padding = BS_PAD_EXPLICIT, .pad = 2}))
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
    {"add of ranks", add_rank, BS_ERROR_SHAPE, {"add", "operand 1 is [5, 7]"}},
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
    {"pool padding", pool_pad, BS_ERROR_ARGUMENT, {"pool2d \"p\"", "pad is 2"}},
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
    const bs_value all[] = {f, u, m, cells, bs_patches(g, u, &(bs_patches_desc){.size = 8, .like = cells.id})};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bool sound = bs_graph_check(g, &error) == BS_OK;
    const bs_value v = c->build(g, all);
    bool named = bs_graph_check(g, &error) == c->status && v.id == 0 && sound;
    for (int32_t i = 0; i < 3 && c->words[i]; i++)
        named = named && strstr(error.message, c->words[i]);
    check(named, "refuses %s: %s: %s", c->name, bs_status_name(error.status), error.message);
}

/* -------------------------------------------------------------------------------------------------------- data */

static void test_bad_index(int32_t index, bool good)
{
    const size_t mark = pool_used;
    bs_graph *g = new_graph();
    const bs_value table = bs_input(g, "t", BS_F32, BS_SHAPE2(4, 3)), indices = bs_input(g, "i", BS_I32, BS_SHAPE1(2));
    bs_gather_rows(g, table, indices);
    op_run r = op_run_of(g, BS_TIER_SCALAR);
    op_prepare(&r, 0, 0);
    const int32_t of_indices[] = {2}, of_table[] = {4, 3};
    tensor i = tensor_new(BS_I32, 1, 1, of_indices), t = tensor_new(BS_F32, 1, 2, of_table);
    tensor_randomise(&t);
    memset(i.data, 0, 8);
    memcpy(i.data + 4, &index, 4);
    storage a = storage_new(BS_I32, 1, 1, of_indices, whole_rect(1, of_indices), 0, LAYOUT_PLANAR);
    storage b = storage_new(BS_F32, 1, 2, of_table, whole_rect(2, of_table), 0, LAYOUT_PLANAR);
    storage_fill(&a, &i, 0, 0);
    storage_fill(&b, &t, 0, 0);
    r.call.in[0] = a.operand;
    r.call.in[1] = b.operand;
    storage y = storage_of_output(&r, 0, 1, LAYOUT_PLANAR);
    r.call.out[0] = y.operand;
    check(r.op->run(&r.call) == (good ? BS_OK : BS_ERROR_DATA), "gather_rows: index %d of 4 rows is %s", index,
          good ? "taken" : "BS_ERROR_DATA");
    pool_used = mark;
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
        const bool kernel = (op->flags & BS_OP_STRUCTURAL) || op->run;
        /* alignment may add one unnamed 4-byte gap at the end */
        const bool listed = (size_t)op->n_fields == fields || (size_t)op->n_fields + 1 == fields;
        wrong += bs_op_index(op->name) != i || !op->infer || !kernel || !listed;
        if (!listed)
            printf("%s lists %d fields of %zu\n", op->name, op->n_fields, fields);
    }
    check(wrong == 0 && bs_op_index("no such op") < 0 && !bs_op_get(-1) && !bs_op_get(bs_op_count()),
          "table: %d ops, found by name, fields listed", bs_op_count());
}

/* A wide convolution picks Winograd by itself where the tier has it. */
static void test_algorithm(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(16, 20, 20));
    bs_conv2d(g, x, &(bs_conv2d_desc){.name = "c", .out = 16});
    op_run r = op_run_of(g, bs_tier_best());
    op_random_weights(&r);
    op_prepare(&r, 20, 20);
    const int32_t automatic = r.plan.algorithm;
    r.choice = BS_CONV_FORCE_DIRECT;
    op_prepare(&r, 20, 20);
    const bool scalar = bs_tier_best() == BS_TIER_SCALAR;
    check(automatic != r.plan.algorithm || scalar, "conv2d: algorithm %d by itself, %d when direct is asked for",
          automatic, r.plan.algorithm);
}

/* Cut at multiples of 4 rows below the rectangle's top, Winograd gives the bits of the whole. */
static void test_bands(void)
{
    for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
        const size_t mark = pool_used;
        const int32_t dim[] = {16, 37, 29};
        bs_graph *g = new_graph();
        bs_conv2d(g, bs_input(g, "x", BS_F32, BS_SHAPE3(16, 37, 29)),
                  &(bs_conv2d_desc){.name = "c", .out = 20, .act = BS_GELU});
        op_run r = op_run_of(g, tier);
        tensor x = tensor_new(BS_F32, 1, 3, dim);
        const char *why = NULL;
        op_random_weights(&r);
        tensor_randomise(&x);
        const tensor whole = run_whole(&r, &x, LAYOUT_LAST, &why);
        storage y = storage_of_output(&r, 0, 1, LAYOUT_LAST);
        r.call.out[0] = y.operand;
        run_in_bands(&r);
        const tensor bands = storage_drain(&y);
        check(!why && tensor_distance(&bands, &whole) == 0, "bands: conv2d cut in rows is the whole, %s",
              bs_tier_name(tier));
        pool_used = mark;
    }
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    if (!check(read_vectors("tests/vectors/ops.bin"), "vectors: %d tensors read", n_records))
        return check_end();
    test_table();
    test_halves();
    for (size_t i = 0; i < sizeof vector_cases / sizeof *vector_cases; i++)
        test_vector(&vector_cases[i]);
    test_tiers("conv2d", build_random_conv, 60);
    test_tiers("deconv2d", build_random_deconv, 60);
    test_tiers("linear", build_random_linear, 40);
    test_tiers("bicubic", build_random_bicubic, 40);
    test_tiers("convert", build_random_codes, 60);
    test_tiers("patch_features", build_random_features, 40);
    for (size_t i = 0; i < sizeof patch_cases / sizeof *patch_cases; i++)
        test_patches(&patch_cases[i]);
    test_bands();
    test_symbols();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        test_refusal(&refusals[i]);
    test_bad_index(3, true);
    test_bad_index(4, false);
    test_bad_index(-1, false);
    test_algorithm();
    return check_end();
}
