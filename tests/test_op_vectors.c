/* tags: asan shipped aarch64 32-bit */
/* test_op_vectors.c - results of every op equal PyTorch's (tests/vectors, made by tools/make_op_vectors.py and
 * make_line_vectors.py, make_move_vectors.py and make_element_vectors.py), at every tier this machine can run and on
 * any layout.
 *
 * Usage: test_op_vectors [seed] */
#include "op_builders.h"

/* ----------------------------------------------------------------------------------------------- the vector file */

typedef struct record { const char *name; size_t length; tensor data; } record;

#define RECORDS 1024
static record records[RECORDS];
static int32_t n_records;

static uint32_t read_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Tensors have their rows in dim[0] here; vector_find splits them off. */
static bool read_vectors(const char *path)
{
    static alignas(64) uint8_t files[1 << 20];
    static size_t used;
    uint8_t *const file = files + used;
    FILE *f = fopen(path, "rb");
    const size_t size = f ? fread(file, 1, sizeof files - used, f) : 0;
    if (f)
        fclose(f);
    if (size < 8 || memcmp(file, "BSVEC1\n", 8) != 0)
        return false;
    used += size;
    for (size_t at = 8; at < size && n_records < RECORDS;) {
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
    {"conv2d_row", conv_row, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_column", conv_column, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_strides", conv_strides, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_dilations", conv_dilations, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_pads", conv_pads, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_long", conv_long, 1, CHANNELS_LAST, 1e-5},
    {"conv2d_depthwise_strides", conv_depthwise_strides, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_k4", deconv_k4, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_k9", deconv_k9, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_sparse", deconv_sparse, 1, CHANNELS_LAST, 1e-5},
    {"deconv2d_default", deconv_default, 1, CHANNELS_LAST, 1e-5},
    {"linear_rows", linear_rows, 1, 0, 1e-5},
    {"linear_gelu", linear_gelu, 1, 0, 1e-5},
    {"linear_prelu", linear_prelu, 1, 0, 1e-5},
    {"lstm", lstm, 3, 0, 2e-6},
    {"lstm_lines", lstm_lines, 3, 0, 2e-6},
    {"gru", gru, 2, 0, 2e-6},
    {"gru_projected", gru_projected, 2, 0, 2e-6},
    {"lstm_projected", lstm_projected, 3, 0, 2e-6},
    {"gru_lines", gru_lines, 2, 0, 2e-6},
    {"matmul_plain", matmul_plain, 2, 0, 1e-5},
    {"matmul_transposed", matmul_transposed, 2, 0, 1e-5},
    {"matmul_captured", matmul_plain, 2, CAPTURED_1, 1e-5},
    {"pixel_shuffle", shuffle_2, 1, 0, 0},
    {"pixel_unshuffle", unshuffle_3, 1, 0, 0},
    {"add", add, 2, 0, 0},
    {"sub_broadcast", sub, 2, 0, 0},
    {"mul_captured", mul, 2, CAPTURED_1, 0},
    {"mul_channel", mul, 2, 0, 0},
    {"add_both_ways", add, 2, 0, 0},
    {"sub_wider", sub, 2, 0, 0},
    {"sub_of_more_dimensions", sub, 2, 0, 0},
    {"mul_by_an_image", mul, 2, 0, 0},
    {"mul_captured_lines", mul, 2, CAPTURED_1, 0},
    {"add_i32", add, 2, 0, 0},
    {"mul_i32", mul, 2, 0, 0},
    {"binary_div", binary_div, 2, 0, 0},
    {"binary_min", binary_min, 2, 0, 0},
    {"binary_max", binary_max, 2, 0, 0},
    {"binary_pow", binary_pow, 2, 0, 1e-6},
    {"binary_min_i32", binary_min, 2, 0, 0},
    {"binary_max_i32", binary_max, 2, 0, 0},
    {"compare_equal", compare_equal, 2, 0, 0},
    {"compare_equal_i32", compare_equal, 2, 0, 0},
    {"compare_not_equal", compare_not_equal, 2, 0, 0},
    {"compare_not_equal_i32", compare_not_equal, 2, 0, 0},
    {"compare_less", compare_less, 2, 0, 0},
    {"compare_less_i32", compare_less, 2, 0, 0},
    {"compare_less_equal", compare_less_equal, 2, 0, 0},
    {"compare_less_equal_i32", compare_less_equal, 2, 0, 0},
    {"compare_greater", compare_greater, 2, 0, 0},
    {"compare_greater_i32", compare_greater, 2, 0, 0},
    {"compare_greater_equal", compare_greater_equal, 2, 0, 0},
    {"compare_greater_equal_i32", compare_greater_equal, 2, 0, 0},
    {"compare_and", compare_and, 2, 0, 0},
    {"compare_or", compare_or, 2, 0, 0},
    {"compare_xor", compare_xor, 2, 0, 0},
    {"where", where, 3, 0, 0},
    {"where_i32", where, 3, 0, 0},
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
    {"unary_abs", unary_abs, 1, 0, 0},
    {"unary_neg", unary_neg, 1, 0, 0},
    {"unary_sign", unary_sign, 1, 0, 0},
    {"unary_floor", unary_floor, 1, 0, 0},
    {"unary_ceil", unary_ceil, 1, 0, 0},
    {"unary_round", unary_round, 1, 0, 0},
    {"unary_sqrt", unary_sqrt, 1, 0, 0},
    {"unary_rsqrt", unary_rsqrt, 1, 0, 1e-06},
    {"unary_reciprocal", unary_reciprocal, 1, 0, 0},
    {"unary_exp", unary_exp, 1, 0, 1e-06},
    {"unary_log", unary_log, 1, 0, 1e-06},
    {"unary_erf", unary_erf, 1, 0, 1e-06},
    {"unary_sin", unary_sin, 1, 0, 1e-06},
    {"unary_cos", unary_cos, 1, 0, 1e-06},
    {"unary_tan", unary_tan, 1, 0, 1e-06},
    {"unary_asin", unary_asin, 1, 0, 1e-06},
    {"unary_acos", unary_acos, 1, 0, 1e-06},
    {"unary_atan", unary_atan, 1, 0, 1e-06},
    {"unary_abs_i32", unary_abs, 1, 0, 0},
    {"unary_neg_i32", unary_neg, 1, 0, 0},
    {"unary_sign_i32", unary_sign, 1, 0, 0},
    {"unary_not_i32", unary_not, 1, 0, 0},
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
    {"pad_reflect", pad_reflect, 1, 0, 0},
    {"gather_rows", gather_table, 2, CAPTURED_0, 0},
    {"gather_rows_own", gather_table, 2, 0, 0},
    {"select", select_axis_1, 2, CAPTURED_1, 0},
    {"select_one", select_last, 2, 0, 0},
    {"select_table", select_axis_1, 2, CAPTURED_0, 0},
    {"gather_elements", gather_elements_1, 2, 0, 0},
    {"gather_elements_root", gather_elements_last, 2, CAPTURED_0, 0},
    {"scatter_elements", scatter_elements_0, 3, 0, 0},
    {"scatter_elements_add", scatter_elements_last, 3, CAPTURED_1, 0},
    {"scatter_rows", scatter_rows_0, 3, CAPTURED_0, 0},
    {"scatter_rows_add", scatter_rows_add, 3, 0, 1e-6},
    {"roll_height", roll_height, 1, 0, 0},
    {"roll_width", roll_width, 1, 0, 0},
    {"arange_f32", arange_13, 3, ROOT, 0},
    {"arange_i32", arange_13, 3, ROOT, 0},
    {"arange_limit", arange_7, 1, ROOT, 0},
    {"nonzero_f32", nonzero_19, 1, ROOT, 0},
    {"nonzero_u8", nonzero_19, 1, ROOT, 0},
    {"nonzero_bf16", nonzero_19, 1, ROOT, 0},
    {"nonzero_all", nonzero_all, 1, ROOT, 0},
    {"unique_f32", unique_11, 1, ROOT, 0},
    {"unique_i32", unique_11, 1, ROOT, 0},
    {"unique_one", unique_all, 1, ROOT, 0},
    {"unique_each", unique_all, 1, ROOT, 0},
    {"constant", constant, 0, ROOT, 0},
    {"softmax", softmax, 1, 0, 1e-6},
    {"layer_norm", layer_norm, 1, 0, 1e-5},
    {"rms_norm", rms_norm, 1, 0, 1e-6},
    {"reduce_sum", reduce_sum, 1, 0, 1e-6},
    {"reduce_mean", reduce_mean, 1, 0, 1e-6},
    {"reduce_max", reduce_max, 1, 0, 0},
    {"reduce_min", reduce_min, 1, 0, 0},
    {"reduce_prod", reduce_prod, 1, 0, 1e-6},
    {"reduce_squares", reduce_squares, 1, 0, 1e-6},
    {"reduce_l1", reduce_l1, 1, 0, 1e-6},
    {"reduce_l2", reduce_l2, 1, 0, 1e-6},
    {"reduce_l2_root", reduce_l2, 1, ROOT, 1e-6},
    {"reduce_log", reduce_log, 1, 0, 1e-6},
    {"reduce_log_all", reduce_log_all, 1, 0, 1e-6},
    {"reduce_mean_last", reduce_mean_last, 1, 0, 1e-6},
    {"reduce_max_first", reduce_max_first, 1, 0, 0},
    {"reduce_max_four", reduce_max_first, 1, ROOT, 0},
    {"argmax", argmax, 1, 0, 0},
    {"argmin", argmin, 1, 0, 0},
    {"argmin_i32", argmin, 1, 0, 0},
    {"rope", rope, 2, 0, 4e-7},
    {"rope_far", rope, 2, 0, 4e-7},
    {"rope_pairs", rope_pairs, 2, 0, 4e-7},
    {"rope_part", rope_part, 2, 0, 4e-7},
    {"lrn", lrn, 1, 0, 3e-7},
    {"lrn_even", lrn_even, 1, 0, 5e-7},
    {"lrn_wide", lrn_wide, 1, 0, 3e-7},
    {"cumsum", cumsum, 1, 0, 1e-5},
    {"cumsum_first", cumsum_first, 1, 0, 1e-6},
    {"cumsum_back", cumsum_back, 1, 0, 1e-5},
    {"cumsum_after", cumsum_after, 1, 0, 0},
    {"topk", topk, 1, 0, 0},
    {"pool_average", pool_average, 1, 0, 1e-6},
    {"pool_average_pad", pool_average_pad, 1, 0, 1e-6},
    {"pool_average_count", pool_average_count, 1, 0, 1e-6},
    {"pool_max", pool_max, 1, 0, 0},
    {"pool_average_axes", pool_average_axes, 1, 0, 1e-6},
    {"pool_average_axes_count", pool_average_axes_count, 1, 0, 1e-6},
    {"pool_average_sides", pool_average_sides, 1, 0, 1e-6},
    {"pool_max_axes", pool_max_axes, 1, 0, 0},
    {"pool_max_sides", pool_max_sides, 1, 0, 0},
    {"pool_max_apart", pool_max_apart, 1, 0, 0},
    {"pool_global", pool_global, 1, 0, 1e-6},
    {"pool_global_max", pool_global_max, 1, 0, 0},
    {"resize_nearest", nearest_3, 1, 0, 0},
    {"resize_bilinear", bilinear_3, 1, 0, 1e-6},
    {"resize_bilinear2", bilinear_2, 1, 0, 1e-6},
    {"resize_bicubic", bicubic_2, 1, 0, 1e-5},
    {"resize_bicubic4", bicubic_4, 1, 0, 1e-5},
    {"resize_nearest_ratio", nearest_5_4, 1, 0, 0},
    {"resize_nearest_floor", nearest_floor, 1, 0, 0},
    {"resize_bilinear_ratio", bilinear_3_4, 1, 0, 1e-6},
    {"resize_bicubic_ratio", bicubic_3_2, 1, 0, 1e-5},
    {"resize_bilinear_size", bilinear_10x4, 1, 0, 1e-6},
    {"resize_bilinear_corners", bilinear_corners, 1, 0, 1e-6},
    {"resize_bicubic_corners", bicubic_corners, 1, 0, 1e-5},
    {"resize_one_corner", one_corner, 1, 0, 0},
    {"resize_area", area_3x4, 1, 0, 1e-6},
    {"resize_area_half", area_1_2, 1, 0, 1e-6},
    {"resize_antialias_size", antialias_5x3, 1, 0, 1e-6},
    {"resize_antialias_ratio", antialias_2_5, 1, 0, 1e-6},
    {"resize_antialias_up", antialias_3_2, 1, 0, 1e-5},
    {"resize_u8_ratio", bilinear_3_4, 1, 0, 0},
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
    const int32_t n = bs_node_weights(r->graph, r->node, specs);
    for (int32_t i = 0; i < n; i++) {
        tensor w;
        if (!vector_find(c->name, specs[i].suffix, false, &w) ||
            (uint64_t)tensor_elements(&w) != bs_bytes_figure(bs_weight_elements(&specs[i])))
            return false;
        r->weights[i] = w.data;
    }
    return true;
}

/* Compares result i with the vector's. Returns what is wrong, or NULL. */
static const char *case_compare(const vector_case *c, int32_t i, storage *out, double *worst)
{
    static const char *const parts[] = {"y0", "y1", "y2", "y3"};
    const bs_operand *o = &out->operand;
    tensor expected, got = storage_drain(out);
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
    return storage_is_poison(out) ? NULL : "wrote beside its output";
}

/* Runs a prepared node on storage of one layout. Returns what went wrong, or NULL. */
static const char *case_run(const vector_case *c, op_run *r, const tensor *in, const int32_t *ids, int32_t layout,
                            double *worst)
{
    int32_t rows = 1;
    const int32_t *operands = bs_node_in(r->graph, r->node);
    for (int32_t k = 0; k < r->node->n_in; k++)
        for (int32_t i = 0; i < c->operands; i++) {
            if (ids[i] != operands[k])
                continue;
            storage s = storage_new(in[i].dtype, in[i].rows, in[i].rank, in[i].dim, whole_rect(in[i].rank, in[i].dim),
                                    op_zeros(r, k, 0), layout);
            storage_fill(&s, &in[i], 0, 0);
            r->in[k] = s.operand;
            if (case_root(c, i))
                r->in[k].row_stride = 0;
            else
                rows = in[i].rows;
        }
    storage out[BS_MAX_OUTPUTS];
    for (int32_t i = 0; i < r->node->n_out; i++) {
        out[i] = storage_of_output(r, i, rows, layout);
        r->out[i] = out[i].operand;
    }
    int64_t extent = 0;
    r->call.extent = &extent;
    r->call.rows = rows;
    /* a part only: a band of rows, some columns */
    if (r->op->layout.images && out[0].operand.rank == 3 && layout % 2) {
        bs_rect *rect = &out[0].operand.rect;
        rect->y0 = check_below(rect->y1), rect->y1 -= check_below(rect->y1 - rect->y0);
        rect->x0 = check_below(rect->x1), rect->x1 -= check_below(rect->x1 - rect->x0);
        r->out[0].rect = *rect;
    }
    if (r->op->run(op_call(r)) != BS_OK)
        return "run failed";
    if (r->node->makes && extent != out[0].operand.dim[0])
        return "has another extent";
    for (int32_t i = 0; i < r->node->n_out; i++) {
        const char *wrong = case_compare(c, i, &out[i], worst);
        if (wrong)
            return wrong;
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

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    const bool read = read_vectors("tests/vectors/ops.bin") && read_vectors("tests/vectors/lines.bin") &&
                      read_vectors("tests/vectors/moves.bin") && read_vectors("tests/vectors/elements.bin") &&
                      read_vectors("tests/vectors/extents.bin");
    if (!check(read, "vectors: %d tensors read", n_records))
        return check_end();
    for (size_t i = 0; i < sizeof vector_cases / sizeof *vector_cases; i++)
        test_vector(&vector_cases[i]);
    return check_end();
}
