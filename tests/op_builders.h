/* op_builders.h - nodes that tests of ops build: one function a case, named after it. Relies on op_harness.h. */
#ifndef BS_TEST_OP_BUILDERS_H
#define BS_TEST_OP_BUILDERS_H

#include "op_harness.h"

typedef bs_value (*builder)(bs_graph *g, const bs_value *x);

#define CONV(function, ...)                                                                     \
    static inline bs_value function(bs_graph *g, const bs_value *x)                             \
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
CONV(conv_row, .out = 6, .kernel_h = 1, .kernel_w = 7)
CONV(conv_column, .out = 9, .kernel_h = 7, .kernel_w = 1, .act = BS_RELU)
CONV(conv_strides, .out = 6, .kernel_w = 1, .stride_h = 2)
CONV(conv_dilations, .out = 12, .dilation_w = 2)
#define SIDES .padding = BS_PAD_EXPLICIT, .pad_left = 1, .pad_bottom = 2, .pad_right = 3
CONV(conv_pads, .out = 4, SIDES)
CONV(conv_long, .out = 3, .kernel_h = 1, .kernel_w = 300, .padding = BS_PAD_EXPLICIT, .pad_left = 2, .pad_right = 1)
CONV(conv_depthwise_strides, .out = 6, .groups = BS_DEPTHWISE, .kernel_w = 5, .stride_w = 2)
/* what leaves cells in their places */
CONV(conv_causal, .out = 5, .kernel_h = 2, .dilation_h = 3, .padding = BS_PAD_EXPLICIT, .pad_top = 3, .pad_right = 2)
CONV(conv_late, .out = 5, .kernel = 4, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad_bottom = 3, .pad_right = 2)
#undef CONV

#define DECONV(function, ...)                                                                    \
    static inline bs_value function(bs_graph *g, const bs_value *x)                              \
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
    static inline bs_value function(bs_graph *g, const bs_value *x) { return expression; }
BUILD(linear_rows, bs_linear(g, x[0], &(bs_linear_desc){.name = "fc", .out = 9}))
BUILD(linear_gelu, bs_linear(g, x[0], &(bs_linear_desc){.name = "fc", .out = 20, .no_bias = 1, .act = BS_GELU}))
BUILD(linear_prelu, bs_linear(g, x[0], &(bs_linear_desc){.name = "fc", .out = 6, .act = BS_PRELU}))
static inline bs_value lstm_of(bs_graph *g, const bs_value *x, int32_t no_bias)
{
    bs_value c;
    return bs_lstm(g, x[0], x[1], x[2], &(bs_recurrent_desc){.name = "net", .no_bias = no_bias}, &c);
}
BUILD(lstm, lstm_of(g, x, 0))
BUILD(lstm_lines, lstm_of(g, x, 1))
BUILD(gru_projected, bs_gru(g, x[0], x[1], &(bs_recurrent_desc){.name = "net", .projected = 1}))
static inline bs_value lstm_projected(bs_graph *g, const bs_value *x)
{
    bs_value c;
    return bs_lstm(g, x[0], x[1], x[2], &(bs_recurrent_desc){.name = "net", .no_bias = 1, .projected = 1}, &c);
}
BUILD(gru, bs_gru(g, x[0], x[1], &(bs_recurrent_desc){.name = "net"}))
BUILD(gru_lines, bs_gru(g, x[0], x[1], &(bs_recurrent_desc){.name = "net", .no_bias = 1}))
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
BUILD(unary_abs, bs_unary(g, x[0], BS_UNARY_ABS))
BUILD(unary_neg, bs_unary(g, x[0], BS_UNARY_NEG))
BUILD(unary_sign, bs_unary(g, x[0], BS_UNARY_SIGN))
BUILD(unary_floor, bs_unary(g, x[0], BS_UNARY_FLOOR))
BUILD(unary_ceil, bs_unary(g, x[0], BS_UNARY_CEIL))
BUILD(unary_round, bs_unary(g, x[0], BS_UNARY_ROUND))
BUILD(unary_sqrt, bs_unary(g, x[0], BS_UNARY_SQRT))
BUILD(unary_rsqrt, bs_unary(g, x[0], BS_UNARY_RSQRT))
BUILD(unary_reciprocal, bs_unary(g, x[0], BS_UNARY_RECIPROCAL))
BUILD(unary_exp, bs_unary(g, x[0], BS_UNARY_EXP))
BUILD(unary_log, bs_unary(g, x[0], BS_UNARY_LOG))
BUILD(unary_erf, bs_unary(g, x[0], BS_UNARY_ERF))
BUILD(unary_sin, bs_unary(g, x[0], BS_UNARY_SIN))
BUILD(unary_cos, bs_unary(g, x[0], BS_UNARY_COS))
BUILD(unary_tan, bs_unary(g, x[0], BS_UNARY_TAN))
BUILD(unary_asin, bs_unary(g, x[0], BS_UNARY_ASIN))
BUILD(unary_acos, bs_unary(g, x[0], BS_UNARY_ACOS))
BUILD(unary_atan, bs_unary(g, x[0], BS_UNARY_ATAN))
BUILD(unary_not, bs_unary(g, x[0], BS_UNARY_NOT))
BUILD(compare_equal, bs_compare(g, x[0], x[1], BS_COMPARE_EQUAL))
BUILD(compare_not_equal, bs_compare(g, x[0], x[1], BS_COMPARE_NOT_EQUAL))
BUILD(compare_less, bs_compare(g, x[0], x[1], BS_COMPARE_LESS))
BUILD(compare_less_equal, bs_compare(g, x[0], x[1], BS_COMPARE_LESS_EQUAL))
BUILD(compare_greater, bs_compare(g, x[0], x[1], BS_COMPARE_GREATER))
BUILD(compare_greater_equal, bs_compare(g, x[0], x[1], BS_COMPARE_GREATER_EQUAL))
BUILD(compare_and, bs_compare(g, x[0], x[1], BS_COMPARE_AND))
BUILD(compare_or, bs_compare(g, x[0], x[1], BS_COMPARE_OR))
BUILD(compare_xor, bs_compare(g, x[0], x[1], BS_COMPARE_XOR))
BUILD(binary_div, bs_binary(g, x[0], x[1], BS_BINARY_DIV))
BUILD(binary_min, bs_binary(g, x[0], x[1], BS_BINARY_MIN))
BUILD(binary_max, bs_binary(g, x[0], x[1], BS_BINARY_MAX))
BUILD(binary_pow, bs_binary(g, x[0], x[1], BS_BINARY_POW))
BUILD(where, bs_where(g, x[0], x[1], x[2]))
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
BUILD(pad_reflect, bs_pad(g, x[0], &(bs_pad_desc){.top = 3, .bottom = 1, .right = 4, .edge = BS_EDGE_REFLECT}))
BUILD(gather_table, bs_gather_rows(g, x[0], x[1]))
BUILD(select_axis_1, bs_select(g, x[0], x[1], 1))
BUILD(select_last, bs_select(g, x[0], x[1], -1))
BUILD(gather_elements_1, bs_gather_elements(g, x[0], x[1], 1))
BUILD(gather_elements_last, bs_gather_elements(g, x[0], x[1], -1))
#define UPDATE(op, ...) bs_scatter_##op(g, x[0], x[1], x[2], &(bs_update_desc){__VA_ARGS__})
BUILD(scatter_elements_0, UPDATE(elements, .update = BS_UPDATE_WRITE))
BUILD(scatter_elements_last, UPDATE(elements, .axis = -1, .update = BS_UPDATE_ADD))
BUILD(scatter_rows_0, bs_scatter_rows(g, x[0], x[1], x[2], NULL))
BUILD(scatter_rows_add, UPDATE(rows, .axis = 1, .update = BS_UPDATE_ADD))
#undef UPDATE
BUILD(roll_height, bs_roll(g, x[0], &(bs_roll_desc){.axis = 1, .shift = 3}))
BUILD(roll_channels, bs_roll(g, x[0], &(bs_roll_desc){.shift = 2}))
BUILD(roll_width, bs_roll(g, x[0], &(bs_roll_desc){.axis = -1, .shift = -1}))
BUILD(constant, ((void)x, bs_constant(g, "table", BS_I32, BS_SHAPE3(2, 3, 4))))
BUILD(softmax, bs_softmax(g, x[0]))
BUILD(layer_norm, bs_layer_norm(g, x[0], &(bs_norm_desc){.name = "norm"}))
BUILD(rms_norm, bs_rms_norm(g, x[0], &(bs_norm_desc){.name = "norm"}))
BUILD(reduce_sum, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = 0, .keep = 1}))
BUILD(reduce_mean, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = -1}))
BUILD(reduce_max, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 1}))
BUILD(reduce_min, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MIN, .axis = 0}))
#define REDUCE(...) bs_reduce(g, x[0], &(bs_reduce_desc){__VA_ARGS__})
BUILD(reduce_prod, REDUCE(.kind = BS_REDUCE_PROD, .axis = 1))
BUILD(reduce_squares, REDUCE(.kind = BS_REDUCE_SUM_SQUARE, .axis = 0))
BUILD(reduce_l1, REDUCE(.kind = BS_REDUCE_L1, .axis = -2, .keep = 1, .axes = 2))
BUILD(reduce_l2, REDUCE(.kind = BS_REDUCE_L2, .axis = 0, .axes = 2))
BUILD(reduce_log, REDUCE(.kind = BS_REDUCE_LOG_SUM_EXP, .axis = -1))
BUILD(reduce_log_all, REDUCE(.kind = BS_REDUCE_LOG_SUM_EXP, .axis = 0, .axes = 3))
BUILD(reduce_mean_last, REDUCE(.kind = BS_REDUCE_MEAN, .axis = -2, .axes = 2))
BUILD(reduce_max_first, REDUCE(.kind = BS_REDUCE_MAX, .axis = 0, .axes = 2))
#undef REDUCE
BUILD(argmax, bs_argmax(g, x[0]))
BUILD(argmin, bs_argmin(g, x[0]))
BUILD(rope, bs_rope(g, x[0], x[1], &(bs_rope_desc){.heads = 3}))
BUILD(rope_pairs, bs_rope(g, x[0], x[1], &(bs_rope_desc){.dims = 6, .base = 5e5f, .interleaved = 1}))
BUILD(rope_part, bs_rope(g, x[0], x[1], &(bs_rope_desc){.dims = 10}))
BUILD(lrn, bs_lrn(g, x[0], NULL))
BUILD(lrn_even, bs_lrn(g, x[0], &(bs_lrn_desc){.size = 4, .alpha = 0.5f, .beta = 0.6f, .bias = 2.0f}))
BUILD(lrn_wide, bs_lrn(g, x[0], &(bs_lrn_desc){.size = 9, .alpha = 2.0f}))
#define CUMSUM(...) bs_cumsum(g, x[0], &(bs_cumsum_desc){__VA_ARGS__})
BUILD(cumsum, CUMSUM(.axis = -1))
BUILD(cumsum_first, CUMSUM(.axis = 0, .exclusive = 1))
BUILD(cumsum_back, CUMSUM(.axis = 1, .reverse = 1))
BUILD(cumsum_after, CUMSUM(.axis = -1, .exclusive = 1, .reverse = 1))
#undef CUMSUM
static inline bs_value topk(bs_graph *g, const bs_value *x)
{
    bs_value indices;
    return bs_topk(g, x[0], 3, &indices);
}
#define POOL(...) bs_pool2d(g, x[0], &(bs_pool2d_desc){__VA_ARGS__})
BUILD(pool_average, POOL(.kind = BS_POOL_AVERAGE))
BUILD(pool_average_pad, POOL(.kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_average_count, POOL(.kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1, .count_pad = 1))
BUILD(pool_max, POOL(.kind = BS_POOL_MAX, .kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_average_axes, POOL(.kernel = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 1, .padding = BS_PAD_EXPLICIT,
                              .pad_top = 1, .pad_bottom = 1))
BUILD(pool_average_axes_count, POOL(.kernel_h = 3, .stride = 1, .stride_w = 2, .padding = BS_PAD_EXPLICIT, .pad = 1,
                                    .count_pad = 1))
BUILD(pool_average_sides, POOL(.kernel = 4, .stride = 3, SIDES, .count_pad = 1))
BUILD(pool_max_axes, POOL(.kind = BS_POOL_MAX, .kernel_w = 3, .stride_h = 1, .stride_w = 2, .dilation_h = 2,
                          .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_max_sides, POOL(.kind = BS_POOL_MAX, .kernel = 4, .stride_w = 3, SIDES))
BUILD(pool_max_apart, POOL(.kind = BS_POOL_MAX, .stride = 1, .dilation_w = 9, .padding = BS_PAD_EXPLICIT,
                           .pad_left = 4, .pad_right = 5))
BUILD(pool_causal, POOL(.kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad_bottom = 2, .pad_left = 2))
/* of small frames all taps may be outside */
BUILD(pool_apart, POOL(.kernel = 2, .stride = 1, .dilation_w = 9, .padding = BS_PAD_EXPLICIT, .pad_bottom = 1,
                       .pad_left = 4, .pad_right = 5))
BUILD(pool_global, POOL(.global = 1))
BUILD(pool_global_max, POOL(.kind = BS_POOL_MAX, .global = 1))
#undef POOL
#undef SIDES
#define RESIZE(...) bs_resize(g, x[0], &(bs_resize_desc){__VA_ARGS__})
BUILD(nearest_3, RESIZE(.kind = BS_RESIZE_NEAREST, .factor = 3))
BUILD(bilinear_3, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3))
BUILD(bilinear_2, RESIZE(.kind = BS_RESIZE_BILINEAR))
BUILD(bicubic_2, RESIZE(.kind = BS_RESIZE_BICUBIC, .cubic_a = -0.75f))
BUILD(bicubic_4, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 4, .cubic_a = -0.75f))
BUILD(bicubic_codes, RESIZE(.kind = BS_RESIZE_BICUBIC))
BUILD(bicubic_u10, RESIZE(.kind = BS_RESIZE_BICUBIC, .code_bits = 10))
BUILD(bicubic_codes_3, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 3, .code_bits = 10))
BUILD(nearest_5_4, RESIZE(.factor = 5, .den = 4))
BUILD(nearest_floor, RESIZE(.height = 5, .width = 9, .centres = BS_RESIZE_ASYMMETRIC))
BUILD(bilinear_3_4, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3, .den = 4))
BUILD(bilinear_3_2_corner, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3, .den = 2, .centres = BS_RESIZE_ASYMMETRIC))
BUILD(bicubic_3_2, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 3, .den = 2, .cubic_a = -0.75f))
BUILD(bilinear_10x4, RESIZE(.kind = BS_RESIZE_BILINEAR, .height = 10, .width = 4))
#define CORNERS .centres = BS_RESIZE_ALIGN_CORNERS
BUILD(bilinear_corners, RESIZE(.kind = BS_RESIZE_BILINEAR, .height = 10, .width = 4, CORNERS))
BUILD(bicubic_corners, RESIZE(.kind = BS_RESIZE_BICUBIC, .height = 4, .width = 11, .cubic_a = -0.75f, CORNERS))
BUILD(one_corner, RESIZE(.kind = BS_RESIZE_BILINEAR, .height = 1, .width = 1, CORNERS))
#undef CORNERS
BUILD(area_3x4, RESIZE(.kind = BS_RESIZE_AREA, .height = 3, .width = 4))
BUILD(area_1_2, RESIZE(.kind = BS_RESIZE_AREA, .factor = 1, .den = 2))
BUILD(area_3_4, RESIZE(.kind = BS_RESIZE_AREA, .factor = 3, .den = 4))
BUILD(antialias_5x3, RESIZE(.kind = BS_RESIZE_BILINEAR, .height = 5, .width = 3, .antialias = 1))
BUILD(antialias_2_5, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 2, .den = 5, .antialias = 1))
BUILD(antialias_3_2, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 3, .den = 2, .antialias = 1))
BUILD(antialias_1_4, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 1, .den = 4, .antialias = 1))
BUILD(antialias_3_4, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3, .den = 4, .antialias = 1, .code_bits = 10))
#undef RESIZE
/* As many as the vectors have. */
BUILD(arange_13, bs_arange(g, x[0], x[1], x[2], &(bs_extent_desc){"n", 13}))
BUILD(arange_7, bs_arange(g, x[0], (bs_value){0}, (bs_value){0}, &(bs_extent_desc){"n", 7}))
BUILD(nonzero_19, bs_nonzero(g, x[0], &(bs_extent_desc){"n", 19}))
BUILD(nonzero_all, bs_nonzero(g, x[0], NULL))
BUILD(unique_11, bs_unique(g, x[0], &(bs_extent_desc){"n", 11}, NULL))
BUILD(unique_all, bs_unique(g, x[0], &(bs_extent_desc){.maximum = (int32_t)g->dims[g->values[x[0].id].dims[0]].maximum},
                            NULL))
BUILD(features, bs_patch_features(g, x[0], x[1], &(bs_patch_features_desc){.name = "f"}))
BUILD(features_alone, bs_patch_features(g, x[0], (bs_value){0}, &(bs_patch_features_desc){.buckets = 20}))
BUILD(features_u10, bs_patch_features(g, x[0], x[1], &(bs_patch_features_desc){.code_bits = 10}))

#endif
