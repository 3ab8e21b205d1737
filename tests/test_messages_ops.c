/* Promises: every message of an op's shape rule names the op, its node, the operand, dimension or field at fault and
 * what was expected, word for word; what says no other than by such a message is not there. */
#include "ops/table.h"
#include "wrong_builds.h"

/* Cells of two scales with the same extents: in a frame of one pixel a half is as large as a whole. */
static bs_value one_pixel(bs_graph *g, int32_t stride)
{
    const bs_value like = bs_patches(g, bs_input(g, "pixel", BS_F32, BS_SHAPE3(2, 1, 1)),
                                     &(bs_patches_desc){.size = 2});
    return bs_conv2d(g, like, &(bs_conv2d_desc){.name = "to", .out = 2, .stride = stride});
}

static void add_of_scales(bs_graph *g)
{
    const bs_value half = one_pixel(g, 2);
    bs_add(g, half, (bs_value){half.id - 1});
}

static void concat_of_scales(bs_graph *g)
{
    const bs_value half = one_pixel(g, 2);
    bs_concat(g, (bs_value[]){half, {half.id - 1}}, 2, 0);
}

static void concat_beyond(bs_graph *g)
{
    const bs_value all = bs_input(g, "all", BS_U8, BS_SHAPE1(1 << 30));
    bs_concat(g, (bs_value[]){all, all}, 2, 0);
}

/* Cells [2, 2, 2, 2] of patches: without one dimension they would be an image. */
static bs_value cube_of(const fixture *f)
{
    return bs_reshape(f->g, bs_linear(f->g, f->score, &(bs_linear_desc){.name = "to", .out = 16}),
                      BS_SHAPE4(2, 2, 2, 2));
}

static bs_value features_of(const fixture *f)
{
    return bs_patch_features(f->g, bs_patches(f->g, f->codes, &(bs_patches_desc){.size = 16}), none, NULL);
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

#define SIXTEEN \
    &(bs_resize_desc) { .kind = BS_RESIZE_NEAREST, .factor = 16 }
#define SIXTYFOUR \
    &(bs_pool2d_desc) { .kernel = 64 }
#define BY_SIXTEEN \
    &(bs_deconv2d_desc) { .name = "d", .out = 1, .kernel = 16, .stride = 16 }
#define ATTEND(past_k, past_v, past, ...) \
    bs_attention(g, f->words, f->words, f->words, past_k, past_v, past, &(bs_attention_desc){.name = "a", __VA_ARGS__})

static void attention_of_many(const fixture *f)
{
    const bs_value many = bs_segments(f->g, bs_input(f->g, "many", BS_F32, BS_SHAPE2(BS_UPTO(1 << 30), 4)), f->lengths);
    bs_attention(f->g, many, many, many, none, none, none, &(bs_attention_desc){.heads = 2});
}

static void rows_of_conv2d(void)
{
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_conv2d(g, f->line, &(bs_conv2d_desc){.name = "c", .out = 4}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": operand 0 is u8, expected f32",
          bs_conv2d(g, f->codes, &(bs_conv2d_desc){.name = "c", .out = 4}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": out is 0, expected 1 .. 1048576",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c"}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d: out is 0, expected 1 .. 1048576", bs_conv2d(g, f->frame, NULL));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 0: 3 channels in and 4 out are not divisible by 2 groups",
          bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .groups = 2}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 1 is 8, which gives a result of 0, expected 1 .. 2^30",
          bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel = 9, .padding = BS_PAD_VALID}));
    WRONG(
        BS_ERROR_SHAPE,
        "conv2d \"c\": dimension 1: padding 0 with kernel 3 moves cells of a patch domain; pad by dilation "
        "(kernel-1)/2",
        bs_conv2d(g, f->cells, &(bs_conv2d_desc){.name = "c", .out = 4, .padding = BS_PAD_VALID}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": act is 9, expected 0 .. 8",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .act = BS_ACT_COUNT}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": out is 1048577, expected 1 .. 1048576",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = (1 << 20) + 1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": kernel is 256, expected 0 .. 255",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel = 256}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": kernel_h is -1, expected 0 .. 255",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel_h = -1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": kernel_w is 256, expected 0 .. 255",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel_w = 256}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": stride is -1, expected 0 .. 255",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .stride = -1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": pad is -2, expected 0 .. 32768",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .padding = BS_PAD_EXPLICIT, .pad = -2}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": padding is 3, expected 0 .. 2",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .padding = 3}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": pad is 1, expected 0 where padding is not BS_PAD_EXPLICIT",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .pad = BS_PAD_VALID}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": pad is -1, expected 0 where padding is not BS_PAD_EXPLICIT",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .pad = -1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": pad is 2, expected 0 where padding is not BS_PAD_EXPLICIT",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .pad = 2, .padding = BS_PAD_VALID}));
    WRONG(BS_ERROR_ARGUMENT, "deconv2d \"d\": pad is 1, expected 0 where padding is not BS_PAD_EXPLICIT",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .pad = 1}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": pad is 1, expected 0 where padding is not BS_PAD_EXPLICIT",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .pad = 1, .global = 1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": dilation is 256, expected 0 .. 255",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .dilation = 256}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": groups is -2, expected -1 .. 1048576",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .groups = -2}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 0: 3 channels in and 4 out are not divisible by 3 groups",
          bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .groups = 3}));
    WRONG(
        BS_ERROR_SHAPE,
        "conv2d \"c\": dimension 2: padding 1 with kernel 5 moves cells of a patch domain; pad by dilation "
        "(kernel-1)/2",
        bs_conv2d(g, f->cells,
                  &(bs_conv2d_desc){.name = "c", .out = 4, .kernel_w = 5, .padding = BS_PAD_EXPLICIT, .pad = 1}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 2 is 10, which gives a result of 0, expected 1 .. 2^30",
          bs_conv2d(g, f->image,
                    &(bs_conv2d_desc){.name = "c", .out = 4, .kernel_w = 11, .kernel_h = 1, .padding = BS_PAD_VALID}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 0 of operand 0 (channels) is N<=40, expected a constant",
          bs_conv2d(g, bs_input(g, "planes", BS_F32, BS_SHAPE3(f->n, 8, 8)), &(bs_conv2d_desc){.name = "c", .out = 4}));
    WRONG(BS_ERROR_LIMIT, "conv2d \"c\": the frame's scale would be 1/262144, expected numbers of 2^15 at most",
          bs_conv2d(g,
                    bs_pool2d(g, bs_pool2d(g, bs_input(g, "vast", BS_F32, BS_SHAPE3(1, 1 << 18, 1 << 18)), SIXTYFOUR),
                              SIXTYFOUR),
                    &(bs_conv2d_desc){.name = "c", .out = 1, .stride = 64}));
}

static void rows_of_deconv2d(void)
{
    WRONG(BS_ERROR_ARGUMENT, "deconv2d \"d\": output_pad 2 is not below stride 2",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .stride = 2, .output_pad = 2}));
    WRONG(BS_ERROR_ARGUMENT, "deconv2d \"d\": out is 0, expected 1 .. 1048576",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d"}));
    WRONG(BS_ERROR_ARGUMENT, "deconv2d \"d\": kernel is 256, expected 0 .. 255",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .kernel = 256}));
    WRONG(BS_ERROR_ARGUMENT, "deconv2d \"d\": stride is 17, expected 0 .. 16",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .stride = 17}));
    WRONG(BS_ERROR_ARGUMENT, "deconv2d \"d\": pad is -1, expected 0 .. 255",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .padding = BS_PAD_EXPLICIT, .pad = -1}));
    WRONG(BS_ERROR_ARGUMENT, "deconv2d \"d\": output_pad is 16, expected 0 .. 15",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .output_pad = 16}));
    WRONG(
        BS_ERROR_SHAPE,
        "deconv2d \"d\": dimensions 1 and 2: kernel - stride - 2 pad + output_pad is 1, in a patch domain it must be 0",
        bs_deconv2d(g, f->cells, &(bs_deconv2d_desc){.name = "d", .out = 1, .stride = 2}));
    WRONG(BS_ERROR_SHAPE, "deconv2d \"d\": dimension 1 is 8, which gives a result of 0, expected 1 .. 2^30",
          bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .padding = BS_PAD_EXPLICIT, .pad = 5}));
    WRONG(BS_ERROR_SHAPE, "deconv2d \"d\": dimension 2 is 4, which gives a result of -4, expected 1 .. 2^30",
          bs_deconv2d(g, bs_input(g, "tall", BS_F32, BS_SHAPE3(1, 20, 4)),
                      &(bs_deconv2d_desc){.name = "d", .out = 1, .padding = BS_PAD_EXPLICIT, .pad = 5}));
    WRONG(BS_ERROR_LIMIT, "deconv2d \"d\": the frame's scale would be 65536/1, expected numbers of 2^15 at most",
          bs_deconv2d(
              g,
              bs_deconv2d(g,
                          bs_deconv2d(g, bs_deconv2d(g, bs_input(g, "dot", BS_F32, BS_SHAPE3(1, 1, 1)), BY_SIXTEEN),
                                      BY_SIXTEEN),
                          BY_SIXTEEN),
              BY_SIXTEEN));
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

static void rows_of_pixel_shuffle(void)
{
    WRONG(BS_ERROR_SHAPE, "pixel_shuffle: dimension 0 is 3, not a multiple of r r = 4",
          bs_pixel_shuffle(g, f->image, 2));
    WRONG(BS_ERROR_SHAPE, "pixel_unshuffle: dimension 1 is 8, not a multiple of r = 3",
          bs_pixel_unshuffle(g, f->image, 3));
    WRONG(BS_ERROR_ARGUMENT, "pixel_shuffle: r is 0, expected 1 .. 64", bs_pixel_shuffle(g, f->image, 0));
    WRONG(BS_ERROR_SHAPE, "pixel_shuffle: operand 0 is [4], expected rank 3 [C, H, W]",
          bs_pixel_shuffle(g, f->line, 2));
    WRONG(BS_ERROR_SHAPE, "pixel_unshuffle: dimension 2 is 10, not a multiple of r = 3",
          bs_pixel_unshuffle(g, bs_input(g, "wide", BS_F32, BS_SHAPE3(1, 9, 10)), 3));
    WRONG(BS_ERROR_SHAPE, "pixel_shuffle: dimension 0 of operand 0 (channels) is N<=40, expected a constant",
          bs_pixel_shuffle(g, bs_input(g, "planes", BS_F32, BS_SHAPE3(f->n, 8, 8)), 2));
    WRONG(BS_ERROR_LIMIT, "resize: the frame's scale would be 65536/1, expected numbers of 2^15 at most",
          bs_resize(
              g,
              bs_resize(g, bs_resize(g, bs_resize(g, bs_input(g, "dot", BS_U8, BS_SHAPE3(1, 1, 1)), SIXTEEN), SIXTEEN),
                        SIXTEEN),
              SIXTEEN));
    WRONG(BS_ERROR_LIMIT, "pool2d: the frame's scale would be 1/262144, expected numbers of 2^15 at most",
          bs_pool2d(g,
                    bs_pool2d(g, bs_pool2d(g, bs_input(g, "vast", BS_F32, BS_SHAPE3(1, 1 << 18, 1 << 18)), SIXTYFOUR),
                              SIXTYFOUR),
                    SIXTYFOUR));
    WRONG(
        BS_ERROR_LIMIT, "pixel_shuffle: the frame's scale would be 65536/1, expected numbers of 2^15 at most",
        bs_pixel_shuffle(
            g,
            bs_resize(g, bs_resize(g, bs_resize(g, bs_input(g, "dots", BS_U8, BS_SHAPE3(256, 1, 1)), SIXTEEN), SIXTEEN),
                      SIXTEEN),
            16));
    WRONG(BS_ERROR_LIMIT, "pixel_unshuffle: the frame's scale would be 1/262144, expected numbers of 2^15 at most",
          bs_pixel_unshuffle(
              g,
              bs_pool2d(g, bs_pool2d(g, bs_input(g, "vast", BS_F32, BS_SHAPE3(1, 1 << 18, 1 << 18)), SIXTYFOUR),
                        SIXTYFOUR),
              64));
    WRONG(BS_ERROR_SHAPE,
          "pixel_shuffle: dimension 1 is 1073741824, which gives a result of 2147483648, expected 1 .. 2^30",
          bs_pixel_shuffle(g, bs_input(g, "tall", BS_U8, BS_SHAPE3(4, 1 << 30, 1)), 2));
    WRONG(BS_ERROR_SHAPE,
          "pixel_shuffle: dimension 2 is 1073741824, which gives a result of 2147483648, expected 1 .. 2^30",
          bs_pixel_shuffle(g, bs_input(g, "wide", BS_U8, BS_SHAPE3(4, 1, 1 << 30)), 2));
    WRONG(BS_ERROR_SHAPE, "pixel_unshuffle: dimension 1 is n<=1, which gives a result of 0, expected 1 .. 2^30",
          bs_pixel_unshuffle(g, bs_input(g, "low", BS_U8, BS_SHAPE3(1, BS_UPTO(1), 4)), 2));
    WRONG(BS_ERROR_SHAPE, "pixel_unshuffle: dimension 2 is n<=1, which gives a result of 0, expected 1 .. 2^30",
          bs_pixel_unshuffle(g, bs_input(g, "thin", BS_U8, BS_SHAPE3(1, 4, BS_UPTO(1))), 2));
}

static void rows_of_binary(void)
{
    WRONG(BS_ERROR_SHAPE, "add: dimension 0 is 3 in operand 0 and 2 in operand 1", bs_add(g, f->image, f->frame));
    WRONG(BS_ERROR_SHAPE, "add: operand 1 is i32, expected f32", bs_add(g, f->line, f->numbers));
    WRONG(BS_ERROR_DOMAIN, "add: operand 1 is a whole image beside patches; cut it with bs_patches (like)",
          bs_add(g, f->cells, f->frame));
    WRONG(BS_ERROR_SHAPE, "add: operand 0 is u8, expected f32 or i32", bs_add(g, f->codes, f->codes));
    WRONG(BS_ERROR_SHAPE, "add: operand 1 is [N<=40, 4], expected the rank of operand 0, which is [3, 8, 10]",
          bs_add(g, f->image, f->table));
    WRONG(BS_ERROR_SHAPE, "add: operand 1 is [3, 8, 10], expected the rank of operand 0, which is [4]",
          bs_add(g, f->line, f->image));
    WRONG(BS_ERROR_SHAPE, "add: dimensions 1 and 2: operands have frames of different scale", add_of_scales(g));
    WRONG(BS_ERROR_SHAPE, "add: dimension 2 is 10 in operand 0 and 2 in operand 1",
          bs_add(g, f->image, bs_input(g, "b", BS_F32, BS_SHAPE3(3, 8, 2))));
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

static void rows_of_concat(void)
{
    WRONG(BS_ERROR_SHAPE, "concat: dimension 1 is 8 in operand 0 and H<=64 in operand 1",
          bs_concat(g, (bs_value[]){f->image, f->frame}, 2, 0));
    WRONG(BS_ERROR_SHAPE, "concat: axis 3 of operand 0, which is [3, 8, 10]",
          bs_concat(g, (bs_value[]){f->image, f->image}, 2, 3));
    WRONG(BS_ERROR_SHAPE, "concat: dimension 0 is 2 in operand 0 and 3 in operand 2",
          bs_concat(g, (bs_value[]){f->frame, bs_reshape(g, f->frame, BS_SHAPE3(2, f->h, f->w)), f->image}, 3, 1));
    WRONG(BS_ERROR_GRAPH, "concat: 9 operands, expected 1 .. 8",
          bs_concat(g, (bs_value[]){f->line, f->line, f->line, f->line, f->line, f->line, f->line, f->line, f->line}, 9,
                    0));
    WRONG(BS_ERROR_SHAPE, "concat: operand 1 is i32, expected f32",
          bs_concat(g, (bs_value[]){f->line, f->numbers}, 2, 0));
    WRONG(BS_ERROR_SHAPE, "concat: operand 1 is [N<=40, 4], expected the rank of operand 0, which is [4]",
          bs_concat(g, (bs_value[]){f->line, f->table}, 2, 0));
    WRONG(BS_ERROR_SHAPE, "concat: axis -4 of operand 0, which is [3, 8, 10]",
          bs_concat(g, (bs_value[]){f->image, f->image}, 2, -4));
    WRONG(BS_ERROR_DOMAIN, "concat: axis 1 of an image that is cut into patches, expected 0",
          bs_concat(g, (bs_value[]){f->cells, f->cells}, 2, 1));
    WRONG(BS_ERROR_UNSUPPORTED, "concat: dimension 0 would be a sum of different symbols",
          bs_concat(g, (bs_value[]){f->table, bs_input(g, "t", BS_F32, BS_SHAPE2(f->h, 4))}, 2, 0));
    WRONG(BS_ERROR_GRAPH, "concat: -1 operands, expected 1 .. 8", bs_concat(g, NULL, -1, 0));
    WRONG(BS_ERROR_GRAPH, "concat: operand 0 is value 0, which does not exist", bs_concat(g, NULL, 2, 0));
    WRONG(BS_ERROR_SHAPE, "concat: dimensions 1 and 2: operand 1 has a frame of another scale", concat_of_scales(g));
    WRONG(BS_ERROR_SHAPE, "concat: a dimension would be 2147483648, expected 1 .. 2^30", concat_beyond(g));
}

static void rows_of_slice(void)
{
    WRONG(BS_ERROR_SHAPE, "slice \"s\": start 5 and length 4 are not within dimension 1, which is 8",
          bs_slice(g, f->image, &(bs_slice_desc){.name = "s", .axis = 1, .start = 5, .length = 4}));
    WRONG(BS_ERROR_DOMAIN, "slice \"s\": axis 1 of an image that is cut into patches, expected 0",
          bs_slice(g, f->cells, &(bs_slice_desc){.name = "s", .axis = 1, .start = 0, .length = 4}));
    WRONG(BS_ERROR_SHAPE, "slice \"s\": start -1 and length 0 are not within dimension 0, which is 3",
          bs_slice(g, f->image, &(bs_slice_desc){.name = "s", .start = -1}));
    WRONG(BS_ERROR_SHAPE, "slice \"s\": start 0 and length -1 are not within dimension 0, which is 3",
          bs_slice(g, f->image, &(bs_slice_desc){.name = "s", .length = -1}));
}

static void rows_of_reshape(void)
{
    typedef struct stored {
        const char *name;
        int32_t rank, dim[4];
    } stored;
    WRONG(BS_ERROR_GRAPH, "reshape: operand 0 is value 0, which does not exist", bs_reshape(g, none, BS_SHAPE1(4)));
    WRONG(BS_ERROR_GRAPH, "reshape: operand 0 is value 9999, which does not exist",
          bs_reshape(g, (bs_value){9999}, BS_SHAPE1(4)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [4]",
          bs_op_build_numbered(g, bs_op_index("reshape"), &f->line.id, 1, &(stored){"", 1, {-5}}));
    WRONG(BS_ERROR_SHAPE, "reshape: dimension 0 is not a constant, -1, or a symbol of operand 0, which is [4]",
          bs_op_build_numbered(g, bs_op_index("reshape"), &f->line.id, 1, &(stored){"", 1, {-2}}));
    WRONG(BS_ERROR_SHAPE, "reshape: operand 0 is [3, 8, 10], which does not have 49 elements",
          bs_reshape(g, f->image, BS_SHAPE2(7, 7)));
    WRONG(BS_ERROR_SHAPE, "reshape: dimensions 0 and 1 are both to be worked out",
          bs_reshape(g, f->image, BS_SHAPE3(-1, -1, 2)));
    WRONG(BS_ERROR_ARGUMENT, "reshape: rank is 0, expected 1 .. 4",
          bs_reshape(g, f->image, bs_shape_of(0, 0, 0, 0, 0)));
    WRONG(BS_ERROR_ARGUMENT, "reshape: rank is 5, expected 1 .. 4",
          bs_reshape(g, f->image, bs_shape_of(5, 1, 1, 1, 1)));
    WRONG(BS_ERROR_DOMAIN, "reshape: operand 0 is cut into patches, but this needs all of its pixels",
          bs_reshape(g, f->cells, BS_SHAPE1(-1)));
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
    WRONG(BS_ERROR_DOMAIN, "reshape: the result would be an image (rank 3) without a place in the patched frame",
          bs_reshape(g, f->score, BS_SHAPE3(1, 1, 2)));
    WRONG(BS_ERROR_DOMAIN, "reshape: the result would be an image (rank 3) without a place in the patched frame",
          bs_reshape(g, f->score, BS_SHAPE3(1, 1, -1)));
    WRONG(
        BS_ERROR_SHAPE,
        "reshape: a dimension would be (N<=40 * 2147483648 +0) / 1, expected numbers of 2^30 at most, and 1 at least "
        "as "
        "the result",
        bs_reshape(g, bs_input(g, "t", BS_U8, BS_SHAPE3(f->n, 1 << 17, 1 << 14)), BS_SHAPE1(-1)));
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
    WRONG(BS_ERROR_SHAPE, "transpose: operand 0 is [], expected rank 1 to 4",
          bs_transpose(g, bs_rows(g, f->line, none), NULL));
}

static void rows_of_pad(void)
{
    WRONG(BS_ERROR_SHAPE, "pad \"p\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_pad(g, f->line, &(bs_pad_desc){.name = "p", .top = 1}));
    WRONG(BS_ERROR_DOMAIN, "pad \"p\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_pad(g, f->cells, &(bs_pad_desc){.name = "p", .top = 1}));
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
    WRONG(BS_ERROR_SHAPE, "argmax: operand 0 is u8, expected f32 or i32", bs_argmax(g, f->codes));
    WRONG(BS_ERROR_SHAPE, "topk: k is 5, expected 1 .. dimension 0 of operand 0, which is 4",
          bs_topk(g, f->line, 5, NULL));
    WRONG(BS_ERROR_SHAPE, "softmax: operand 0 is [], expected rank 1 to 4", bs_softmax(g, bs_rows(g, f->line, none)));
    WRONG(BS_ERROR_DOMAIN, "softmax: operand 0 is cut into patches, but this needs all of its pixels",
          bs_softmax(g, f->cells));
    WRONG(BS_ERROR_SHAPE, "layer_norm \"n\": dimension 2 of operand 0 (features) is W<=48, expected a constant",
          bs_layer_norm(g, f->frame, &(bs_norm_desc){.name = "n"}));
    WRONG(BS_ERROR_ARGUMENT, "reduce \"u\": kind is 4, expected 0 .. 3",
          bs_reduce(g, f->image, &(bs_reduce_desc){.name = "u", .kind = 4}));
    WRONG(BS_ERROR_SHAPE, "reduce \"u\": operand 0 is u8, expected f32",
          bs_reduce(g, f->codes, &(bs_reduce_desc){.name = "u"}));
    WRONG(BS_ERROR_DOMAIN, "reduce \"u\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_reduce(g, f->cells, &(bs_reduce_desc){.name = "u", .axis = 1}));
    WRONG(BS_ERROR_DOMAIN, "reduce \"u\": operand 0 is cut into patches, but this needs all of its pixels",
          bs_reduce(g, f->cells, &(bs_reduce_desc){.name = "u", .axis = 0}));
    WRONG(BS_ERROR_DOMAIN, "reduce \"u\": the result would be an image (rank 3) without a place in the patched frame",
          bs_reduce(g, cube_of(f), &(bs_reduce_desc){.name = "u", .axis = 0}));
    WRONG(BS_ERROR_SHAPE, "argmax: operand 0 is [], expected rank 1 to 4", bs_argmax(g, bs_rows(g, f->numbers, none)));
    WRONG(BS_ERROR_DOMAIN, "argmax: operand 0 is cut into patches, but this needs all of its pixels",
          bs_argmax(g, f->cells));
    WRONG(BS_ERROR_DOMAIN, "argmax: the result would be an image (rank 3) without a place in the patched frame",
          bs_argmax(g, cube_of(f)));
    WRONG(BS_ERROR_SHAPE, "topk: operand 0 is i32, expected f32", bs_topk(g, f->numbers, 1, NULL));
    WRONG(BS_ERROR_SHAPE, "topk: k is 0, expected 1 .. dimension 0 of operand 0, which is 4",
          bs_topk(g, f->line, 0, NULL));
}

static void rows_of_pool2d(void)
{
    WRONG(BS_ERROR_SHAPE, "pool2d \"q\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_pool2d(g, f->line, &(bs_pool2d_desc){.name = "q"}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": kind is 7, expected 0 .. 1",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .kind = 7}));
    WRONG(BS_ERROR_SHAPE, "pool2d \"half\": cells of 15 pixels (dimensions 1 and 2) do not divide by 2",
          bs_pool2d(g, bs_patches(g, f->frame, &(bs_patches_desc){.size = 15}),
                    &(bs_pool2d_desc){.name = "half", .kind = BS_POOL_MAX}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": kernel is 256, expected 0 .. 255",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .kernel = 256}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": stride is -1, expected 0 .. 255",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .stride = -1}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": pad is 2, expected 0 .. 1",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .padding = BS_PAD_EXPLICIT, .pad = 2}));
    WRONG(BS_ERROR_SHAPE, "pool2d: operand 0 is u8, expected f32", bs_pool2d(g, f->codes, NULL));
    WRONG(
        BS_ERROR_SHAPE,
        "pool2d \"q\": dimension 1: padding 0 with kernel 3 moves cells of a patch domain; pad by dilation "
        "(kernel-1)/2",
        bs_pool2d(g, f->cells, &(bs_pool2d_desc){.name = "q", .kernel = 3, .stride = 1}));
}

static void rows_of_resize(void)
{
    WRONG(BS_ERROR_ARGUMENT, "resize \"z\": factor is 17, expected 0 .. 16",
          bs_resize(g, f->image, &(bs_resize_desc){.name = "z", .factor = 17}));
    WRONG(BS_ERROR_SHAPE, "resize: operand 0 is i32, expected f32, u8 or u16", bs_resize(g, f->numbers, NULL));
    WRONG(BS_ERROR_SHAPE, "resize: operand 0 is [4], expected rank 3 [C, H, W]", bs_resize(g, f->line, NULL));
    WRONG(BS_ERROR_ARGUMENT, "resize \"z\": kind is 3, expected 0 .. 2",
          bs_resize(g, f->image, &(bs_resize_desc){.name = "z", .kind = 3}));
    WRONG(BS_ERROR_ARGUMENT, "resize \"z\": code_bits is 17, expected 0 .. 16",
          bs_resize(g, f->image, &(bs_resize_desc){.name = "z", .code_bits = 17}));
    WRONG(BS_ERROR_SHAPE,
          "resize \"z\": dimension 1 is 1073741824, which gives a result of 2147483648, expected 1 .. 2^30",
          bs_resize(g, bs_input(g, "tall", BS_U8, BS_SHAPE3(1, 1 << 30, 1)), &(bs_resize_desc){.name = "z"}));
    WRONG(BS_ERROR_SHAPE,
          "resize \"z\": dimension 2 is 1073741824, which gives a result of 2147483648, expected 1 .. 2^30",
          bs_resize(g, bs_input(g, "wide", BS_U8, BS_SHAPE3(1, 1, 1 << 30)), &(bs_resize_desc){.name = "z"}));
}

static void rows_of_gather_rows(void)
{
    WRONG(BS_ERROR_SHAPE, "gather_rows: operand 0 is f32, expected i32", bs_gather_rows(g, f->table, f->line));
    WRONG(BS_ERROR_SHAPE, "gather_rows: operand 0 is [2, 2], expected rank 1",
          bs_gather_rows(g, f->table, bs_input(g, "i", BS_I32, BS_SHAPE2(2, 2))));
    WRONG(BS_ERROR_SHAPE, "gather_rows: operand 1 is [], expected rank 1 to 4",
          bs_gather_rows(g, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0)), f->numbers));
    WRONG(BS_ERROR_DOMAIN, "gather_rows: operand 1 is cut into patches, but this needs all of its pixels",
          bs_gather_rows(g, f->cells, features_of(f)));
    WRONG(BS_ERROR_DOMAIN, "gather_rows: the result would be an image (rank 3) without a place in the patched frame",
          bs_gather_rows(g, f->image, features_of(f)));
}

static void rows_of_patch_features(void)
{
    WRONG(BS_ERROR_SHAPE, "patch_features \"e\": operand 0 is f32, expected u8 or u16",
          bs_patch_features(g, f->cells, none, &(bs_patch_features_desc){.name = "e"}));
    WRONG(BS_ERROR_SHAPE, "patch_features: operand 0 is [4], expected rank 3 [C, H, W]",
          bs_patch_features(g, bs_input(g, "c", BS_U8, BS_SHAPE1(4)), none, NULL));
    WRONG(BS_ERROR_ARGUMENT, "patch_features \"e\": buckets is 1, expected 2 .. 128",
          bs_patch_features(g, f->codes, none, &(bs_patch_features_desc){.name = "e", .buckets = 1}));
    WRONG(BS_ERROR_ARGUMENT, "patch_features \"e\": code_bits is 17, expected 8 .. 16",
          bs_patch_features(g, f->codes, none, &(bs_patch_features_desc){.name = "e", .code_bits = 17}));
    WRONG(BS_ERROR_SHAPE, "patch_features \"e\": operand 1 is f32, expected u8",
          bs_patch_features(g, f->codes, f->frame, &(bs_patch_features_desc){.name = "e"}));
    WRONG(
        BS_ERROR_SHAPE, "patch_features \"e\": operand 1 is [4], expected rank 3 [C, H, W]",
        bs_patch_features(g, f->codes, bs_input(g, "c", BS_U8, BS_SHAPE1(4)), &(bs_patch_features_desc){.name = "e"}));
    WRONG(BS_ERROR_SHAPE, "patch_features \"e\": dimension 1 is H<=64 in the cells and 64 in the reference",
          bs_patch_features(g, f->codes, bs_input(g, "c", BS_U8, BS_SHAPE3(1, 64, 48)),
                            &(bs_patch_features_desc){.name = "e"}));
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
    WRONG(
        BS_ERROR_DOMAIN,
        "segment_spread: operand 1 is of rows [N<=40], expected segments (bs_segments; gather what a router scattered "
        "first)",
        bs_segment_spread(g, f->table, f->tokens));
    WRONG(BS_ERROR_DOMAIN, "segment_spread: operand 0 is of segments [N<=40], expected a root value",
          bs_segment_spread(g, f->words, f->words));
    WRONG(BS_ERROR_SHAPE, "segment_spread: operand 0 is [N<=40, 4], expected a row for each of 5 segments",
          bs_segment_spread(g, f->table, f->words));
    WRONG(BS_ERROR_SHAPE, "segment_spread: operand 0 is [], expected rank 1 to 4",
          bs_segment_spread(g, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0)), f->words));
    WRONG(
        BS_ERROR_DOMAIN,
        "segment_reduce: operand 0 is of rows [N<=40], expected segments (bs_segments; gather what a router scattered "
        "first)",
        bs_segment_reduce(g, f->tokens, NULL));
    WRONG(BS_ERROR_ARGUMENT, "segment_reduce \"b\": mode is 4, expected 0 .. 3",
          bs_segment_reduce(g, f->words, &(bs_segment_reduce_desc){.name = "b", .mode = 4}));
    WRONG(BS_ERROR_SHAPE, "segment_reduce: operand 0 is i32, expected f32",
          bs_segment_reduce(g, bs_segments(g, bs_input(g, "i", BS_I32, BS_SHAPE2(f->n, 4)), f->lengths), NULL));
}

static void rows_of_attention(void)
{
    WRONG(
        BS_ERROR_DOMAIN,
        "attention: operand 0 is of rows [N<=40], expected segments (bs_segments; gather what a router scattered "
        "first)",
        bs_attention(g, f->tokens, f->words, f->words, none, none, none, NULL));
    WRONG(BS_ERROR_DOMAIN, "attention: operand 1 is of rows [N<=40], operand 0 of segments [N<=40]",
          bs_attention(g, f->words, f->tokens, f->words, none, none, none, NULL));
    WRONG(BS_ERROR_SHAPE, "attention: operand 1 is [5], operand 0 [4]",
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
    WRONG(BS_ERROR_LIMIT, "attention: 2 heads of up to 1073741824 rows are more than 2^30 tasks", attention_of_many(f));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 4 is value 0, which does not exist",
          ATTEND(f->cache, none, f->past, .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention: 4 operands: past_k, past_v and past are given all three or none",
          bs_op_build_numbered(g, bs_op_index("attention"),
                               (int32_t[]){f->words.id, f->words.id, f->words.id, f->cache.id}, 4, NULL));
    WRONG(BS_ERROR_SHAPE,
          "attention \"a\": operand 3 is [4], expected [segments, window, d] with the window of operand 3 and the d of "
          "operand 0",
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
        "of operand 0",
        ATTEND(bs_state(g, "t", BS_F32, BS_SHAPE3(4, 6, 4)), f->cache, f->past, .heads = 2));
    WRONG(
        BS_ERROR_SHAPE,
        "attention \"a\": operand 4 is [5, 7, 4], expected [segments, window, d] with the window of operand 3 and the "
        "d "
        "of operand 0",
        ATTEND(f->cache, bs_state(g, "t", BS_F32, BS_SHAPE3(5, 7, 4)), f->past, .heads = 2));
    WRONG(
        BS_ERROR_SHAPE,
        "attention \"a\": operand 3 is [5, 6, 5], expected [segments, window, d] with the window of operand 3 and the "
        "d "
        "of operand 0",
        ATTEND(bs_state(g, "t", BS_F32, BS_SHAPE3(5, 6, 5)), f->cache, f->past, .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 5 (past) is made by convert, expected an input",
          ATTEND(f->cache, f->cache, bs_convert(g, f->past, &(bs_convert_desc){.dtype = BS_I32}), .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 3 is value 0, which does not exist",
          ATTEND(none, f->cache, none, .heads = 2));
    WRONG(BS_ERROR_GRAPH, "attention \"a\": operand 3 is value 0, which does not exist",
          ATTEND(none, none, f->past, .heads = 2));
}
int main(void)
{
    rows_of_conv2d();
    rows_of_deconv2d();
    rows_of_linear();
    rows_of_matmul();
    rows_of_pixel_shuffle();
    rows_of_binary();
    rows_of_elementwise();
    rows_of_convert();
    rows_of_concat();
    rows_of_slice();
    rows_of_reshape();
    rows_of_transpose();
    rows_of_pad();
    rows_of_lines();
    rows_of_pool2d();
    rows_of_resize();
    rows_of_gather_rows();
    rows_of_patch_features();
    rows_of_constant();
    rows_of_segments();
    rows_of_attention();
    wrong_builds_end();
    static const char *const files[] = {"src/ops/attention.c",    "src/ops/binary.c",         "src/ops/common.c",
                                        "src/ops/concat_slice.c", "src/ops/conv2d.c",         "src/ops/deconv2d.c",
                                        "src/ops/elementwise.c",  "src/ops/constant.c",       "src/ops/lines.c",
                                        "src/ops/matmul.c",       "src/ops/patch_features.c", "src/ops/pixel_shuffle.c",
                                        "src/ops/reshape.c",      "src/ops/resize.c",         "src/ops/segment_rows.c"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    return check_end();
}
