/* tags: order asan */
/* test_cuda_ops.c - every op that is no convolution or matrix product: the device against the plain reference.
 *
 * Each op runs on rows, on whole images, and on cells with a margin around them (pooling that follows asks for it) in a
 * frame that does not divide into cells; breadth first and in tiles, stored in f32 and in f16. Numbers of channels are
 * those that go in fours, and others. */
#include "cuda_op_rig.h"

BUILD(relu, bs_activation(g, x[0], BS_RELU, 0))
BUILD(leaky, bs_activation(g, x[0], BS_LEAKY_RELU, 0.2f))
BUILD(sigmoid, bs_activation(g, x[0], BS_SIGMOID, 0))
BUILD(tanh_of, bs_activation(g, x[0], BS_TANH, 0))
BUILD(gelu, bs_activation(g, x[0], BS_GELU, 0))
BUILD(silu, bs_activation(g, x[0], BS_SILU, 0))
BUILD(clip_act, bs_activation(g, x[0], BS_CLIP, 0.4f))
BUILD(prelu, bs_prelu(g, x[0], "slopes"))
BUILD(clip, bs_clip(g, x[0], -0.5f, 0.7f))
BUILD(affine, bs_affine(g, x[0], 2.5f, -0.75f))
BUILD(batch_norm, bs_batch_norm(g, x[0], &(bs_norm_desc){.name = "norm"}))
BUILD(add, bs_add(g, x[0], x[1]))
BUILD(sub, bs_sub(g, x[0], x[1]))
BUILD(mul, bs_mul(g, x[0], x[1]))
BUILD(mul_first, bs_mul(g, x[0], bs_slice(g, x[1], &(bs_slice_desc){.axis = 0, .length = 1})))
BUILD(mul_mean, bs_mul(g, x[0], bs_reduce(g, x[1], &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = 0, .keep = 1})))
BUILD(to_u8, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_U8, .scale = 200.0f}))
BUILD(to_u10, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_U16, .scale = 1100.0f, .code_bits = 10}))
BUILD(to_i8, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_I8, .scale = 150.0f}))
BUILD(to_i32, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_I32, .scale = 1e5f}))
BUILD(to_f16, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_F16}))
BUILD(to_bf16, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_BF16}))
BUILD(to_f32, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_F32, .scale = 1.0f / 255.0f}))
BUILD(concat, bs_concat(g, x, 2, 0))
BUILD(concat_last, bs_concat(g, x, 2, -1))
BUILD(slice, bs_slice(g, x[0], &(bs_slice_desc){.start = 1}))
BUILD(slice_first, bs_slice(g, x[0], &(bs_slice_desc){.length = 3}))
BUILD(slice_last, bs_slice(g, x[0], &(bs_slice_desc){.axis = -1, .start = 1, .length = 4}))
BUILD(roll, bs_roll(g, x[0], &(bs_roll_desc){.shift = -2}))
BUILD(roll_far, bs_roll(g, x[0], &(bs_roll_desc){.shift = 13}))
BUILD(roll_last, bs_roll(g, x[0], &(bs_roll_desc){.axis = -1, .shift = 3}))
BUILD(roll_none, bs_roll(g, x[0], &(bs_roll_desc){.axis = -2, .shift = 0}))
BUILD(reshape, bs_reshape(g, x[0], BS_SHAPE2(-1, 2)))
BUILD(transpose, bs_transpose(g, x[0], NULL))
BUILD(transpose_201, bs_transpose(g, x[0], &(bs_transpose_desc){.order = {2, 0, 1}}))
BUILD(pad_value, bs_pad(g, x[0], &(bs_pad_desc){.top = 1, .bottom = 2, .left = 3, .value = 1.5f}))
BUILD(pad_edge, bs_pad(g, x[0], &(bs_pad_desc){.bottom = 3, .left = 2, .right = 1, .edge = 1}))
BUILD(pad_reflect, bs_pad(g, x[0], &(bs_pad_desc){.top = 5, .left = 9, .right = 1, .edge = BS_EDGE_REFLECT}))
BUILD(softmax, bs_softmax(g, x[0]))
BUILD(layer_norm, bs_layer_norm(g, x[0], &(bs_norm_desc){.name = "norm"}))
BUILD(rms_norm, bs_rms_norm(g, x[0], &(bs_norm_desc){.name = "norm"}))
BUILD(reduce_sum, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = 0, .keep = 1}))
BUILD(reduce_mean, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = -1}))
BUILD(reduce_max, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 1}))
BUILD(reduce_min, bs_reduce(g, x[0], &(bs_reduce_desc){.kind = BS_REDUCE_MIN, .axis = 0}))
#define REDUCE(...) bs_reduce(g, x[0], &(bs_reduce_desc){__VA_ARGS__})
BUILD(reduce_prod, REDUCE(.kind = BS_REDUCE_PROD, .axis = -1))
BUILD(reduce_squares, REDUCE(.kind = BS_REDUCE_SUM_SQUARE, .axis = 0, .keep = 1))
BUILD(reduce_l1, REDUCE(.kind = BS_REDUCE_L1, .axis = -1))
BUILD(reduce_log, REDUCE(.kind = BS_REDUCE_LOG_SUM_EXP, .axis = -1))
BUILD(reduce_two, REDUCE(.kind = BS_REDUCE_L2, .axis = 0, .axes = 2))
BUILD(reduce_two_last, REDUCE(.kind = BS_REDUCE_MAX, .axis = -2, .axes = 2, .keep = 1))
BUILD(reduce_pixels, REDUCE(.kind = BS_REDUCE_MEAN, .axis = 1, .axes = 2))
BUILD(reduce_image, REDUCE(.kind = BS_REDUCE_LOG_SUM_EXP, .axis = 0, .axes = 3))
#undef REDUCE
BUILD(argmax, bs_argmax(g, x[0]))
BUILD(argmin, bs_argmin(g, x[0]))
BUILD(lrn, bs_lrn(g, x[0], &(bs_lrn_desc){.alpha = 3.0f}))
BUILD(lrn_even, bs_lrn(g, x[0], &(bs_lrn_desc){.size = 4, .alpha = 0.5f, .beta = 0.6f, .bias = 2.0f}))
BUILD(cumsum, bs_cumsum(g, x[0], &(bs_cumsum_desc){.axis = -1}))
BUILD(cumsum_after, bs_cumsum(g, x[0], &(bs_cumsum_desc){.axis = -1, .exclusive = 1, .reverse = 1}))
BUILD(cumsum_first, bs_cumsum(g, x[0], &(bs_cumsum_desc){.exclusive = 1}))
BUILD(topk_values, bs_topk(g, x[0], 5, NULL))
static bs_value topk_indices(bs_graph *g, const bs_value *x)
{
    bs_value indices;
    bs_topk(g, x[0], 5, &indices);
    return indices;
}
/* Of four of x, so that inputs are not as many as units. */
static bs_value lstm(bs_graph *g, const bs_value *x)
{
    const bs_value some = bs_slice(g, x[0], &(bs_slice_desc){.axis = -1, .start = 1, .length = 4});
    bs_value c;
    return bs_sub(g, bs_lstm(g, some, x[1], x[0], &(bs_recurrent_desc){.name = "lstm"}, &c), c);
}
/* Of as many as x and a half, joined. */
static bs_value gru_projected(bs_graph *g, const bs_value *x)
{
    const bs_value each[] = {x[0], x[1], x[0]};
    return bs_gru(g, bs_concat(g, each, 3, -1), x[1],
                  &(bs_recurrent_desc){.name = "gru", .projected = 1});
}
BUILD(gru, bs_gru(g, x[0], x[1], &(bs_recurrent_desc){.name = "gru", .no_bias = 1}))
BUILD(gru_of_few, bs_gru(g, x[0], bs_slice(g, x[1], &(bs_slice_desc){.axis = -1, .start = 1, .length = 3}),
                         &(bs_recurrent_desc){.name = "gru"}))
BUILD(shuffle, bs_pixel_shuffle(g, x[0], 2))
BUILD(unshuffle, bs_pixel_unshuffle(g, x[0], 2))
#define POOL(...) bs_pool2d(g, x[0], &(bs_pool2d_desc){__VA_ARGS__})
BUILD(pool, POOL(.kind = BS_POOL_AVERAGE))
BUILD(pool_pad, POOL(.kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_count, POOL(.kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1, .count_pad = 1))
BUILD(pool_max, POOL(.kind = BS_POOL_MAX, .kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_axes, POOL(.kernel = 3, .kernel_w = 2, .stride_h = 1, .stride_w = 3, .padding = BS_PAD_EXPLICIT,
                      .pad_top = 1, .pad_right = 1, .count_pad = 1))
BUILD(pool_causal, POOL(.kind = BS_POOL_MAX, .kernel = 3, .kernel_w = 2, .stride = 1, .dilation_w = 2,
                        .padding = BS_PAD_EXPLICIT, .pad_bottom = 2, .pad_left = 2))
BUILD(pool_apart, POOL(.kernel = 2, .stride = 1, .dilation_h = 99, .padding = BS_PAD_EXPLICIT, .pad_top = 49,
                       .pad_bottom = 50, .pad_right = 1)) /* of some windows nothing is in the frame */
BUILD(pool_global, POOL(.global = 1))
BUILD(pool_global_max, POOL(.kind = BS_POOL_MAX, .global = 1))
#undef POOL
#define RESIZE(...) bs_resize(g, x[0], &(bs_resize_desc){__VA_ARGS__})
BUILD(nearest_3, RESIZE(.kind = BS_RESIZE_NEAREST, .factor = 3))
BUILD(bilinear_2, RESIZE(.kind = BS_RESIZE_BILINEAR))
BUILD(bilinear_3, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3))
BUILD(bicubic_2, RESIZE(.kind = BS_RESIZE_BICUBIC))
BUILD(bicubic_75, RESIZE(.kind = BS_RESIZE_BICUBIC, .cubic_a = -0.75f))
BUILD(bicubic_4, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 4))
BUILD(nearest_5_4, RESIZE(.factor = 5, .den = 4))
BUILD(bilinear_3_4, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3, .den = 4))
BUILD(bicubic_3_2, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 3, .den = 2, .centres = BS_RESIZE_ASYMMETRIC))
BUILD(area_1_2, RESIZE(.kind = BS_RESIZE_AREA, .factor = 1, .den = 2))
BUILD(antialias_1_4, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 1, .den = 4, .antialias = 1))
BUILD(antialias_5x3, RESIZE(.kind = BS_RESIZE_BILINEAR, .height = 5, .width = 3, .antialias = 1))
BUILD(corners_9x5, RESIZE(.kind = BS_RESIZE_BICUBIC, .height = 9, .width = 5, .centres = BS_RESIZE_ALIGN_CORNERS))
BUILD(bicubic_u10, RESIZE(.kind = BS_RESIZE_BICUBIC, .code_bits = 10))
BUILD(bicubic_u10_3, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 3, .code_bits = 10))
#undef RESIZE
BUILD(features, bs_patch_features(g, x[0], x[1], NULL))
BUILD(features_alone, bs_patch_features(g, x[0], (bs_value){0}, &(bs_patch_features_desc){.buckets = 128}))

static const op_case cases[] = {
    {"relu", relu, ROOT | ROWS | CELLS, 0},
    {"leaky relu", leaky, ROOT | CELLS, 0},
    {"sigmoid", sigmoid, ROWS | CELLS, 0},
    {"tanh", tanh_of, ROWS | CELLS, 0},
    {"gelu", gelu, ROWS | CELLS, 0},
    {"silu", silu, ROWS | CELLS, 0},
    {"clipped", clip_act, ROWS | CELLS, 0},
    {"prelu", prelu, ROOT | ROWS | CELLS, 0},
    {"clip", clip, ROOT | ROWS | CELLS, 0},
    {"affine", affine, ROOT | ROWS | CELLS, 0},
    {"batch_norm", batch_norm, ROOT | ROWS | CELLS, 0},
    {"add", add, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"sub", sub, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"mul", mul, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"mul by a plane", mul_first, ROOT | ROWS | CELLS, 0},
    {"mul by a mean", mul_mean, ROOT | ROWS | CELLS, 0},
    {"convert to u8", to_u8, ROOT | ROWS | CELLS | CODES, 8e-3},
    {"convert to u10", to_u10, ROOT | ROWS | CELLS | CODES, 5e-3},
    {"convert to i8", to_i8, ROOT | CELLS | CODES, 1e-2},
    {"convert to i32", to_i32, ROOT | CELLS | CODES, 0},
    {"convert to f16", to_f16, ROOT | ROWS | CODES, 0},
    {"convert to bf16", to_bf16, ROOT | CELLS, 1e-2},
    {"convert to f32", to_f32, ROOT | ROWS | CELLS | CODES, 0},
    {"concat", concat, ROOT | ROWS | CELLS | CODES, 0},
    {"concat along the last", concat_last, ROOT | ROWS, 0},
    {"roll", roll, ROOT | ROWS | CELLS | CODES, 0},
    {"roll by more than there is", roll_far, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"roll along the last", roll_last, ROOT | ROWS | CODES, 0},
    {"roll by nothing", roll_none, ROOT, 0},
    {"slice", slice, ROOT | ROWS | CELLS | CODES, 0},
    {"slice at the beginning", slice_first, ROOT | ROWS | CELLS, 0},
    {"slice of the last", slice_last, ROOT | ROWS | CODES, 0},
    {"reshape", reshape, ROOT | ROWS | CODES, 0},
    {"transpose", transpose, ROOT | ROWS | CODES, 0},
    {"softmax", softmax, ROOT | ROWS, 0},
    {"layer_norm", layer_norm, ROOT | ROWS, 5e-3},
    {"rms_norm", rms_norm, ROOT | ROWS, 5e-3},
    {"reduce: sum of channels", reduce_sum, ROOT | ROWS | CELLS, 0},
    {"reduce: mean of the last", reduce_mean, ROOT | ROWS, 4e-3},
    {"reduce: minimum", reduce_min, ROOT | ROWS, 0},
    {"reduce: product", reduce_prod, ROOT | ROWS, -1}, /* of f16 it may be below them */
    {"reduce: squares of channels", reduce_squares, ROOT | ROWS | CELLS, 5e-3},
    {"reduce: l1", reduce_l1, ROOT | ROWS, 4e-3},
    {"reduce: log of exponentials", reduce_log, ROOT | ROWS, 0},
    {"argmax", argmax, ROOT | ROWS | INTEGERS, -1},
    {"argmin", argmin, ROOT | ROWS | INTEGERS, -1},
    {"cumsum", cumsum, ROOT | ROWS | INTEGERS, 2e-2},
    {"cumsum of what comes after", cumsum_after, ROOT | ROWS | INTEGERS, 2e-2},
    {"cumsum of the first", cumsum_first, ROOT | ROWS | INTEGERS, 2e-2},
    {"lstm", lstm, ROOT | ROWS, 4e-3},
    {"gru", gru, ROOT | ROWS, 4e-3},
    {"gru, projected", gru_projected, ROOT | ROWS, 4e-3},
    {"gru of few units", gru_of_few, ROOT | ROWS, 4e-3},
    {"topk", topk_values, ROOT | ROWS, 0},
    {"topk, indices", topk_indices, ROOT | ROWS, -1},
};

/* Of images only. */
static const op_case image_cases[] = {
    {"transpose 2 0 1", transpose_201, ROOT | CODES, 0},
    {"pad by a value", pad_value, ROOT | CODES, 0},
    {"pad by the edge", pad_edge, ROOT | CODES, 0},
    {"pad by reflection", pad_reflect, ROOT | CODES, 0},
    {"reduce: maximum of a dimension", reduce_max, ROOT, 0},
    {"reduce: l2 of two", reduce_two, ROOT, 4e-3},
    {"reduce: maximum of the last two", reduce_two_last, ROOT, 0},
    {"reduce: mean of pixels", reduce_pixels, ROOT, 4e-3},
    {"reduce: an image", reduce_image, ROOT, 0},
    {"lrn", lrn, ROOT | CELLS, 0},
    {"lrn of an even size", lrn_even, ROOT | CELLS, 0},
    {"pixel_shuffle", shuffle, ROOT | CELLS | CODES | FOURS, 0},
    {"pixel_unshuffle", unshuffle, ROOT | CELLS | CODES | EVEN, 0},
    {"pool2d", pool, ROOT | CELLS, 0},
    {"pool2d padded", pool_pad, ROOT | CELLS, 0},
    {"pool2d that counts padding", pool_count, ROOT | CELLS, 0},
    {"pool2d maximum", pool_max, ROOT | CELLS, 0},
    {"pool2d by axis", pool_axes, ROOT, 0},
    {"pool2d of what is below and left", pool_causal, ROOT | CELLS, 0},
    {"pool2d of taps far apart", pool_apart, ROOT | CELLS, 0},
    {"pool2d global", pool_global, ROOT | CELLS, 5e-3},
    {"pool2d global maximum", pool_global_max, ROOT | CELLS, 0},
    {"resize nearest", nearest_3, ROOT | CELLS | CODES, 0},
    {"resize bilinear", bilinear_2, ROOT | CELLS | CODES, 0},
    {"resize bilinear x3", bilinear_3, ROOT | CELLS | CODES, 0},
    {"resize bicubic", bicubic_2, ROOT | CELLS | CODES, 0},
    {"resize bicubic a", bicubic_75, ROOT | CELLS | CODES, 0},
    {"resize bicubic x4", bicubic_4, ROOT | CELLS | CODES, 0},
    {"nearest x5/4", nearest_5_4, ROOT | CELLS | CODES, 0},
    {"bilinear x3/4", bilinear_3_4, ROOT | CELLS, 0},
    {"bicubic x3/2", bicubic_3_2, ROOT | CELLS, 0},
    {"means of 2x2", area_1_2, ROOT | CELLS, 0},
    {"antialias x1/4", antialias_1_4, ROOT | CELLS, 0},
    {"antialias to a size", antialias_5x3, ROOT, 0},
    {"corners aligned", corners_9x5, ROOT, 0},
    {"resize bicubic u10", bicubic_u10, ROOT | CELLS | CODES, 0},
    {"resize bicubic x3 u10", bicubic_u10_3, ROOT | CELLS | CODES, 0},
    {"patch_features", features, ROOT | CELLS | CODES | ONLY_CODES, 0},
    {"patch_features alone", features_alone, ROOT | CELLS | CODES | ONLY_CODES, 0},
};

/* --------------------------------------------------------------------------------------------- others */

/* Planes and channels of a root value beside rows and cells. */
static void test_captured(void)
{
    const op_case plain = {"captured", NULL, 0, 0};
    cuda_rig r;
    bs_graph *g = rig_begin(&r, "channels of a root value beside cells");
    bs_value c = bs_patches(g, bs_input(g, "x", BS_F32, BS_SHAPE3(12, 21, 19)), &(bs_patches_desc){.size = 8});
    bs_value root = bs_affine(g, bs_input(g, "k", BS_F32, BS_SHAPE1(12)), 2.0f, 0.5f);
    bs_output(g, "z", bs_assemble(g, bs_mul(g, bs_affine(g, c, 1.5f, 0.1f), root)));
    agree(&r, &plain, 0);
    g = rig_begin(&r, "a root value [C,1,1] beside cells, a constant beside rows");
    c = bs_patches(g, bs_input(g, "x", BS_F32, BS_SHAPE3(5, 21, 19)), &(bs_patches_desc){.size = 8});
    root = bs_reshape(g, bs_input(g, "k", BS_F32, BS_SHAPE1(5)), BS_SHAPE3(5, 1, 1));
    bs_output(g, "z", bs_assemble(g, bs_sub(g, c, root)));
    const bs_value rows = bs_rows(g, bs_input(g, "r", BS_F32, BS_SHAPE3(9, 6, 8)), (bs_value){0});
    bs_output(g, "w", bs_collect(g, bs_add(g, rows, bs_constant(g, "table", BS_F32, BS_SHAPE2(6, 8)))));
    agree(&r, &plain, 0);
}

/* Lines of up to 70 elements have a warp each, in runs where they are shorter as well. */
static void test_short_lines(void)
{
    static const int32_t kinds[] = {BS_REDUCE_SUM, BS_REDUCE_PROD, BS_REDUCE_MAX, BS_REDUCE_LOG_SUM_EXP};
    static const int32_t extents[] = {1, 5, 31, 32, 70};
    static const char *const names[] = {"sum", "product", "largest", "log"};
    for (int32_t i = 0; i < 5; i++) {
        cuda_rig r;
        bs_graph *g = rig_begin(&r, "short lines");
        const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(6, BS_UPTO(70)));
        for (int32_t k = 0; k < 4; k++)
            bs_output(g, names[k], bs_reduce(g, x, &(bs_reduce_desc){.kind = kinds[k], .axis = -1}));
        bs_output(g, "all", bs_reduce(g, x, &(bs_reduce_desc){.axis = 0, .axes = 2}));
        bs_output(g, "running", bs_cumsum(g, x, &(bs_cumsum_desc){.axis = -1, .exclusive = 1}));
        bs_output(g, "first", bs_argmin(g, x));
        bs_output(g, "soft", bs_softmax(g, x));
        rig_extent(&r, "x", 6, extents[i], 0, 0);
        rig_agree(&r, NULL);
    }
}

/* A warp takes four lines of an LSTM or a GRU: fewer are left for the last one, and what lies beyond is not read. */
static void test_lines_left(void)
{
    static const op_case steps[] = {
        {"lstm", lstm, ROWS, 4e-3}, {"gru", gru, ROWS, 4e-3}, {"gru, projected", gru_projected, ROWS, 4e-3}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int32_t rows = 1; rows <= 7; rows++)
            test_rows(&steps[i], BS_F32, rows, BS_SHAPE1(8));
}

/* Turned by far positions: the CPU's numbers to the last bit, or its error. */
static void test_rope(int32_t bad)
{
    static const int32_t good[] = {0, 1, 77, 131071, 1 << 20, (1 << 30) - 1, 1 << 30},
                         wrong[] = {0, 1, 2, 3, 4, 5, (1 << 30) + 1}, below[] = {0, 1, 2, -1, 4, 5, 6};
    for (int32_t k = 0; k < 4; k++) {
        cuda_rig r;
        const bs_rope_desc desc = {.heads = k % 2 ? 3 : 0, .dims = k < 2 ? 0 : 10, .interleaved = k == 3};
        bs_graph *g = rig_begin(&r, "rope");
        const bs_value at = bs_rows(g, bs_input(g, "at", BS_I32, BS_SHAPE1(7)), (bs_value){0});
        const bs_shape shape = k % 2 ? BS_SHAPE2(7, 3 * 64) : BS_SHAPE3(7, 2, 38);
        rig_give(&r, "at", bad == 0 ? good : bad == 1 ? wrong : below);
        const bs_value x = bs_affine(g, bs_rows(g, bs_input(g, "x", BS_F32, shape), at), 0.9f, 0.0f);
        bs_output(g, "y", bs_collect(g, bs_rope(g, x, at, &desc)));
        for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
            rig_agree(&r, &(rig_how){.order = order, .exact = !bad, .fails = bad ? BS_ERROR_DATA : BS_OK});
        if (!bad)
            rig_agree(&r, &(rig_how){.half = 1});
    }
}

static bool is_fused(const bs_graph *g)
{
    static _Alignas(64) uint8_t memory[24 << 20];
    bs_arena arena;
    bool fused = false;
    bs_arena_init(&arena, "plan", memory, sizeof memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, g, &(bs_plan_desc){.tier = BS_TIER_CUDA}, NULL);
    for (int32_t n = 1; plan && n < g->n_nodes; n++)
        fused = fused || strcmp(bs_fusion_name(plan->nodes[n].fusion), "sr_store") == 0;
    return fused;
}

/* The end of a super-resolution network: pixel_shuffle, add, convert, which the planner makes one. */
static void test_sr_store(bs_dtype dtype, bool swapped)
{
    for (int32_t odd = 0; odd < 2; odd++) {
        cuda_rig r;
        bs_graph *g = rig_begin(&r, dtype == BS_U8 ? "sr_store u8" : "sr_store u16");
        const bs_value frame = bs_input(g, "x", dtype, BS_SHAPE3(1, odd ? 21 : 24, odd ? 19 : 32));
        const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8});
        const float scale = dtype == BS_U8 ? 255.0f : 1023.0f;
        const bs_value x = bs_convert(g, cells, &(bs_convert_desc){.dtype = BS_F32, .scale = 1.0f / scale});
        const bs_value two[2] = {x, bs_affine(g, x, -0.25f, 0.1f)}, pair = bs_concat(g, two, 2, 0),
                       four[2] = {pair, pair};
        const bs_value tail = bs_concat(g, four, 2, 0),
                       base = bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC});
        const bs_value up = bs_pixel_shuffle(g, tail, 2), sum = swapped ? bs_add(g, base, up) : bs_add(g, up, base);
        bs_output(
            g, "y",
            bs_assemble(g, bs_convert(g, sum, &(bs_convert_desc){.dtype = dtype, .scale = scale, .code_bits = 10})));
        check(is_fused(g), "%s is one kernel", r.name);
        for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
            rig_agree(&r, &(rig_how){.order = order});
        rig_agree(&r, &(rig_how){.half = 1, .tolerance = 8e-3});
    }
}

/* What is no number: compared, sorted and saturated as on the CPU. */
static void test_not_a_number(void)
{
    static float data[4 * 40];
    const builder builders[] = {relu, clip, to_u8, to_i32, argmax, topk_values, topk_indices, reduce_min,
                                argmin, reduce_log};
    const op_case plain = {"NaN", NULL, 0, -1};
    for (int32_t i = 0; i < 4 * 40; i++)
        data[i] = i % 7 == 3 ? NAN : i % 11 == 5 ? INFINITY : i % 13 == 6 ? -INFINITY : (float)(i % 17) - 8.0f;
    data[40] = NAN;  /* first of its line */
    data[80] = 3e9f; /* beyond i32 */
    for (int32_t i = 120; i < 158; i++)
        data[i] = NAN;
    for (size_t k = 0; k < sizeof builders / sizeof *builders; k++) {
        cuda_rig r;
        bs_graph *g = rig_begin(&r, "what is no number");
        const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(4, 40));
        rig_give(&r, "x", data);
        bs_output(g, "y", builders[k](g, &x));
        agree(&r, &plain, 0);
    }
}

/* More than a block has threads, lines longer than a warp, many work items. */
static void test_large(void)
{
    const op_case plain = {"large", NULL, 0, 5e-3};
    cuda_rig r;
    bs_graph *g = rig_begin(&r, "large");
    const bs_value x = bs_affine(g, bs_input(g, "x", BS_F32, BS_SHAPE3(24, 40, 52)), 0.5f, 0.25f),
                   m = bs_input(g, "m", BS_F32, BS_SHAPE2(40, 700));
    bs_output(g, "a", bs_add(g, bs_batch_norm(g, x, &(bs_norm_desc){.name = "n"}), x));
    bs_output(g, "b", bs_pool2d(g, x, &(bs_pool2d_desc){.global = 1}));
    bs_output(g, "c", bs_softmax(g, m));
    bs_output(g, "d", bs_layer_norm(g, m, &(bs_norm_desc){.name = "l"}));
    bs_output(g, "e", bs_reduce(g, m, &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = 0}));
    bs_output(g, "f", bs_transpose(g, m, NULL));
    bs_output(g, "h", bs_concat(g, (const bs_value[]){x, x}, 2, 0));
    bs_output(g, "i", bs_reduce(g, x, &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = 2}));
    agree(&r, &plain, 0);
    g = rig_begin(&r, "features of large and small cells");
    const bs_value f = bs_input(g, "x", BS_U16, BS_SHAPE3(1, 100, 90)),
                   y = bs_input(g, "y", BS_U16, BS_SHAPE3(1, 100, 90));
    const bs_value large = bs_patches(g, f, &(bs_patches_desc){.size = 64}),
                   small = bs_patches(g, f, &(bs_patches_desc){.name = "s", .size = 16});
    bs_output(g, "a",
              bs_collect(g, bs_patch_features(
                                g, large, bs_patches(g, y, &(bs_patches_desc){.size = 64, .like = large}), NULL)));
    const bs_value before = bs_patches(g, y, &(bs_patches_desc){.size = 16, .like = small});
    bs_output(g, "b", bs_collect(g, bs_patch_features(g, small, before, &(bs_patch_features_desc){.code_bits = 10})));
    rig_agree(&r, NULL);
}

/* What is a product and a sum is rounded twice, as on the CPU, in words of four elements and one by one, in launches
 * and in tiles: the CPU's numbers to the last bit. */
static void test_rounded_twice(int32_t width, int32_t order)
{
    cuda_rig r;
    bs_graph *g = rig_begin(&r, "products and sums");
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(37, width)), (bs_value){0});
    const bs_value score = bs_rows(g, bs_input(g, "score", BS_F32, BS_SHAPE2(37, 4)), x);
    const bs_route_desc desc = {.name = "route", .protocol = BS_ROUTE_TOPK, .paths = 4, .k = 3};
    const bs_router route = bs_route(g, score, (bs_value){0}, &desc);
    bs_value out[4];
    for (int32_t p = 0; p < 4; p++)
        out[p] = bs_affine(g, bs_scatter(g, route, p, x), 0.9f + 0.07f * (float)p, 0.01f);
    const bs_value sum = bs_gather(g, route, out, x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED});
    bs_output(g, "weighted", bs_collect(g, sum));
    bs_output(g, "norm", bs_collect(g, bs_batch_norm(g, sum, &(bs_norm_desc){.name = "norm"})));
    rig_agree(&r, &(rig_how){.order = order, .exact = true});
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_case(&cases[i], false);
    for (size_t i = 0; i < sizeof image_cases / sizeof *image_cases; i++)
        test_case(&image_cases[i], true);
    test_captured();
    for (int32_t bad = 0; bad < 3; bad++)
        test_rope(bad);
    for (int32_t swapped = 0; swapped < 2; swapped++) {
        test_sr_store(BS_U8, swapped);
        test_sr_store(BS_U16, swapped);
    }
    test_not_a_number();
    test_short_lines();
    test_lines_left();
    test_large();
    for (int32_t width = 23; width <= 24; width++) {
        test_rounded_twice(width, BS_ORDER_BREADTH);
        test_rounded_twice(width, BS_ORDER_DEPTH);
    }
    return check_end();
}
