/* tags: unsigned shipped aarch64 32-bit */
/* Promises: the limits of ops that the header tells are those of the code: at the number, and one beyond. */
#include "limit_told.h"

static const char *conv_built(bs_shape shape, const bs_conv2d_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_conv2d(g, bs_input(g, "x", BS_F32, shape), desc));
}

static const char *conv_kernel(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .kernel = n});
}
static const char *conv_height(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .kernel_h = n});
}
static const char *conv_stride_w(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .stride_w = n});
}
static const char *conv_dilation_h(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .dilation_h = n});
}
static const char *conv_pad_right(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 8, 8),
                      &(bs_conv2d_desc){.name = "c", .out = 1, .padding = BS_PAD_EXPLICIT, .pad_right = n});
}
static const char *conv_width(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .kernel_w = n});
}
static const char *conv_stride(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .stride = n});
}
static const char *conv_dilation(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .dilation = n});
}
static const char *conv_out(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 8, 8), &(bs_conv2d_desc){.name = "c", .out = n});
}

static const char *conv_groups(int32_t n)
{
    return conv_built(BS_SHAPE3(n, 8, 8),
                      &(bs_conv2d_desc){.name = "c", .out = n < 1 << 20 ? n : 1 << 20, .groups = n});
}

static const char *conv_pad(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 8, 8),
                      &(bs_conv2d_desc){.name = "c", .out = 1, .padding = BS_PAD_EXPLICIT, .pad = n});
}

static const char *deconv_built(const bs_deconv2d_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_deconv2d(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 600, 600)), desc));
}

static const char *deconv_kernel(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .kernel = n});
}
static const char *deconv_out(int32_t n) { return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = n}); }
static const char *deconv_stride(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .stride = n});
}
static const char *deconv_pad(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .padding = BS_PAD_EXPLICIT, .pad = n});
}

static const char *deconv_output_pad(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .stride = 16, .output_pad = n});
}

static const char *pool_built(const bs_pool2d_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pool2d(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 40000, 40000)), desc));
}

static const char *pool_kernel(int32_t n) { return pool_built(&(bs_pool2d_desc){.kernel = n}); }
static const char *pool_kernel_w(int32_t n) { return pool_built(&(bs_pool2d_desc){.kernel_w = n}); }
static const char *pool_dilation_w(int32_t n) { return pool_built(&(bs_pool2d_desc){.dilation_w = n}); }
static const char *pool_stride(int32_t n) { return pool_built(&(bs_pool2d_desc){.stride = n}); }

static const char *linear_out(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_linear(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), &(bs_linear_desc){.name = "l", .out = n}));
}

static const char *gru_units(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(1)), h = bs_input(g, "h", BS_F32, BS_SHAPE1(n));
    return built(g, bs_gru(g, x, h, &(bs_recurrent_desc){.name = "n"}));
}

static const char *shuffle_r(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pixel_shuffle(g, bs_input(g, "x", BS_F32, BS_SHAPE3(n * n, 4, 4)), n));
}

static const char *unshuffle_r(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pixel_unshuffle(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, n, n)), n));
}

static const char *resize_built(const bs_resize_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_resize(g, bs_input(g, "x", BS_U16, BS_SHAPE3(1, 4, 4)), desc));
}

static const char *resize_factor(int32_t n) { return resize_built(&(bs_resize_desc){.factor = n}); }
static const char *resize_bits(int32_t n) { return resize_built(&(bs_resize_desc){.code_bits = n}); }

static const char *convert_bits(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(
        g, bs_convert(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), &(bs_convert_desc){.dtype = BS_U16, .code_bits = n}));
}

static const char *pad_built(const bs_pad_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pad(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 4, 4)), desc));
}

static const char *pad_top(int32_t n) { return pad_built(&(bs_pad_desc){.top = n}); }
static const char *pad_bottom(int32_t n) { return pad_built(&(bs_pad_desc){.bottom = n}); }
static const char *pad_left(int32_t n) { return pad_built(&(bs_pad_desc){.left = n}); }
static const char *pad_right(int32_t n) { return pad_built(&(bs_pad_desc){.right = n}); }

static const char *patch_size(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_patches(g, bs_input(g, "x", BS_U8, BS_SHAPE3(1, 64, 64)), &(bs_patches_desc){.size = n}));
}

static const char *features_built(const bs_patch_features_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    const bs_value none = {0}, cells = bs_patches(g, bs_input(g, "x", BS_U16, BS_SHAPE3(1, 64, 64)), NULL);
    return built(g, bs_patch_features(g, cells, none, desc));
}

static const char *feature_buckets(int32_t n) { return features_built(&(bs_patch_features_desc){.buckets = n}); }
static const char *feature_bits(int32_t n) { return features_built(&(bs_patch_features_desc){.code_bits = n}); }

static const char *heads_times_rows(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    const int32_t heads = n % 2 ? 5 : 4; /* 2^30 + 1 is a multiple of 5 */
    const bs_value none = {0}, x = bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "tokens", n / heads), 20));
    const bs_value rows = bs_segments(g, x, bs_input(g, "lengths", BS_I32, BS_SHAPE1(3)));
    return built(g, bs_attention(g, rows, rows, rows, none, none, none, &(bs_attention_desc){.heads = heads}));
}

static const char *route_floor(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    const bs_value none = {0}, losses = bs_rows(g, bs_input(g, "x", BS_I32, BS_SHAPE2(9, 2)), none);
    const bs_router r = bs_route(g, losses, none,
                                 &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_BUDGET, .paths = 2, .floor = n});
    return built(g, (bs_value){r.id});
}

static const char *symbol_times(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_input(g, "x", BS_F32, BS_SHAPE1(bs_times(g, bs_symbol(g, "s", 4), n))));
}

/* Twice the frame's size so often that its scale is n, a power of two. */
static const char *frame_scale(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    bs_value x = bs_patches(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 4, 4)), &(bs_patches_desc){.size = 4});
    for (int32_t scale = 1; scale < n; scale *= 2)
        x = bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_NEAREST});
    return built(g, x);
}

static const struct {
    const char *row, *what;
    const char *(*build)(int32_t n);
    const char *field;
} limits[] = {
    {"conv2d", "kernel, stride, dilation and pad", conv_kernel, "kernel"},
    {"conv2d", "kernel, stride, dilation and pad", conv_height, "kernel_h"},
    {"conv2d", "kernel, stride, dilation and pad", conv_width, "kernel_w"},
    {"conv2d", "kernel, stride, dilation and pad", conv_stride, "stride"},
    {"conv2d", "kernel, stride, dilation and pad", conv_stride_w, "stride_w"},
    {"conv2d", "kernel, stride, dilation and pad", conv_dilation, "dilation"},
    {"conv2d", "kernel, stride, dilation and pad", conv_dilation_h, "dilation_h"},
    {"conv2d", "out and groups", conv_out, "out"},
    {"conv2d", "out and groups", conv_groups, "groups"},
    {"conv2d", "kernel, stride, dilation and pad", conv_pad, "pad"},
    {"conv2d", "kernel, stride, dilation and pad", conv_pad_right, "pad_right"},
    {"deconv2d", "kernel and pad", deconv_kernel, "kernel"},
    {"deconv2d", "kernel and pad", deconv_pad, "pad"},
    {"deconv2d", "out", deconv_out, "out"},
    {"deconv2d", "stride", deconv_stride, "stride"},
    {"deconv2d", "output_pad", deconv_output_pad, "output_pad"},
    {"pool2d", "kernel, stride and dilation", pool_kernel, "kernel"},
    {"pool2d", "kernel, stride and dilation", pool_kernel_w, "kernel_w"},
    {"pool2d", "kernel, stride and dilation", pool_stride, "stride"},
    {"pool2d", "kernel, stride and dilation", pool_dilation_w, "dilation_w"},
    {"other ops", "linear's out", linear_out, "out"},
    {"other ops", "pixel_shuffle's r", shuffle_r, "r"},
    {"other ops", "pixel_shuffle's r", unshuffle_r, "r"},
    {"other ops", "resize's factor", resize_factor, "factor"},
    {"other ops", "each side of a pad", pad_top, "top"},
    {"other ops", "each side of a pad", pad_bottom, "bottom"},
    {"other ops", "each side of a pad", pad_left, "left"},
    {"other ops", "each side of a pad", pad_right, "right"},
    {"other ops", "size of patches", patch_size, "size"},
    {"other ops", "buckets", feature_buckets, "buckets"},
    {"other ops", "code_bits", feature_bits, "code_bits"},
    {"other ops", "code_bits", resize_bits, "code_bits"},
    {"other ops", "code_bits", convert_bits, "code_bits"},
    {"other ops", "heads times rows", heads_times_rows, "more than 2^30 tasks"},
    {"other ops", "a router's floor", route_floor, "floor"},
    {"other ops", "units of an lstm or a gru", gru_units, "units"},
    {"a graph", "input or state", symbol_times, "up to 1024 times"},
};

static void test_limits_of_ops(void)
{
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const int32_t most = (int32_t)limit_told(limits[i].row, limits[i].what);
        const char *why = limits[i].build(most);
        check(most > 1 && !*why, "%s: %s may be %d, as the header says%s", limits[i].row, limits[i].field, most, why);
        why = limits[i].build(most + 1);
        check(strstr(why, limits[i].field) != NULL, "%s: %s may not be %d: %s", limits[i].row, limits[i].field,
              most + 1, why);
    }
    const int32_t scale = (int32_t)limit_told("an op", "scale");
    const char *most = frame_scale(scale), *beyond = frame_scale(2 * scale);
    check(scale > 1 && !*most && strstr(beyond, "expected 2^15 at most"),
          "a frame may be %d times as large, not twice that: %s%s", scale, most, beyond);
    most = pool_built(&(bs_pool2d_desc){.kernel = 128, .dilation_w = 2, .padding = BS_PAD_EXPLICIT, .pad = 127});
    check(!*most, "all but a sample of a window may lie beside a pool%s", most);
    beyond = pool_built(&(bs_pool2d_desc){
        .kernel = 128, .dilation_w = 2, .padding = BS_PAD_EXPLICIT, .pad = 127, .pad_right = 255});
    check(strstr(beyond, "dimension 2: pads 127 and 255, expected 0 .. 254") != NULL, "not more: %s", beyond);
}

int main(void)
{
    test_limits_of_ops();
    return check_end();
}
