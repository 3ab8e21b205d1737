/* tags: asan */
/* Promises: every message of the shape rule of an op that images go through, and of the rules that ops share, names the
 * op, its node, the operand, dimension or field at fault and what was expected, word for word; what says no other than
 * by such a message is not there. */
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

/* A frame of one pixel in a cell of one. */
static bs_value dots(bs_graph *g, bs_dtype dtype, int32_t channels)
{
    return bs_patches(g, bs_input(g, "dots", dtype, BS_SHAPE3(channels, 1, 1)), &(bs_patches_desc){.size = 1});
}

/* A plane of each cell: of no image. */
static void plane_beside_cells(bs_graph *g)
{
    const bs_value cells = bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(3, 8, 10)), &(bs_patches_desc){.size = 8});
    const bs_value mean = bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}), line = bs_reshape(g, mean, BS_SHAPE1(3)),
                   one = bs_slice(g, line, &(bs_slice_desc){.length = 1});
    bs_add(g, cells, bs_add(g, one, bs_input(g, "plane", BS_F32, BS_SHAPE2(8, 10))));
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

static bs_value features_of(const fixture *f)
{
    return bs_patch_features(f->g, bs_patches(f->g, f->codes, &(bs_patches_desc){.size = 16}), none, NULL);
}

#define SIXTEEN \
    &(bs_resize_desc) { .kind = BS_RESIZE_NEAREST, .factor = 16 }
#define BY_SIXTEEN \
    &(bs_deconv2d_desc) { .name = "d", .out = 1, .kernel = 16, .stride = 16 }

static void rows_of_conv2d_fields(void)
{
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": out is 0, expected 1 .. 1048576",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c"}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d: out is 0, expected 1 .. 1048576", bs_conv2d(g, f->frame, NULL));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 1 is 8, which gives a result of 0, expected 1 .. 2^30",
          bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel = 9, .padding = BS_PAD_VALID}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": act is 9, expected 0 .. 8",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .act = BS_ACT_COUNT}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": out is 1048577, expected 1 .. 1048576",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = (1 << 20) + 1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": kernel is 32769, expected 0 .. 32768",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel = 32769}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": kernel_h is -1, expected 0 .. 32768",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel_h = -1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": kernel_w is 32769, expected 0 .. 32768",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel_w = 32769}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": stride is -1, expected 0 .. 32768",
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
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": dilation is 32769, expected 0 .. 32768",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .dilation = 32769}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": stride_h is -1, expected 0 .. 32768",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .stride_h = -1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": pad_left is -1, expected 0 .. 32768",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .padding = BS_PAD_EXPLICIT, .pad_left = -1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": pad is 1, expected 0 where padding is not BS_PAD_EXPLICIT",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .pad_bottom = 1}));
    WRONG(BS_ERROR_ARGUMENT, "conv2d \"c\": groups is -2, expected -1 .. 1048576",
          bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .groups = -2}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 2 is 10, which gives a result of 0, expected 1 .. 2^30",
          bs_conv2d(g, f->image,
                    &(bs_conv2d_desc){.name = "c", .out = 4, .kernel_w = 11, .kernel_h = 1, .padding = BS_PAD_VALID}));
}

static void rows_of_conv2d(void)
{
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_conv2d(g, f->line, &(bs_conv2d_desc){.name = "c", .out = 4}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": operand 0 is u8, expected f32",
          bs_conv2d(g, f->codes, &(bs_conv2d_desc){.name = "c", .out = 4}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 0: 3 channels in and 4 out are not divisible by 2 groups",
          bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .groups = 2}));
    WRONG(
        BS_ERROR_SHAPE,
        "conv2d \"c\": dimension 1: pads 0 and 0 with kernel 3 move cells of a patch domain; their sum must be "
        "dilation (kernel-1)",
        bs_conv2d(g, f->cells, &(bs_conv2d_desc){.name = "c", .out = 4, .padding = BS_PAD_VALID}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 0: 3 channels in and 4 out are not divisible by 3 groups",
          bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .groups = 3}));
    WRONG(
        BS_ERROR_SHAPE,
        "conv2d \"c\": dimension 2: pads 1 and 2 with kernel 5 move cells of a patch domain; their sum must be "
        "dilation (kernel-1)",
        bs_conv2d(
            g, f->cells,
            &(bs_conv2d_desc){
                .name = "c", .out = 4, .kernel_w = 5, .padding = BS_PAD_EXPLICIT, .pad = 1, .pad_right = 2}));
    WRONG(BS_ERROR_SHAPE,
          "conv2d \"c\": strides 1 and 2 make cells of a patch domain oblong; do this before the frame is cut",
          bs_conv2d(g, f->cells, &(bs_conv2d_desc){.name = "c", .out = 4, .stride_w = 2}));
    WRONG(BS_ERROR_SHAPE, "conv2d \"c\": dimension 0 of operand 0 (channels) is N<=40, expected a constant",
          bs_conv2d(g, bs_input(g, "planes", BS_F32, BS_SHAPE3(f->n, 8, 8)), &(bs_conv2d_desc){.name = "c", .out = 4}));
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
    WRONG(BS_ERROR_LIMIT, "deconv2d \"d\": the frame's scale would be 65536/1, expected 2^15 at most",
          bs_deconv2d(
              g,
              bs_deconv2d(g,
                          bs_deconv2d(g, bs_deconv2d(g, dots(g, BS_F32, 1), BY_SIXTEEN),
                                      BY_SIXTEEN),
                          BY_SIXTEEN),
              BY_SIXTEEN));
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
    WRONG(BS_ERROR_LIMIT, "resize: the frame's scale would be 65536/1, expected 2^15 at most",
          bs_resize(
              g,
              bs_resize(g, bs_resize(g, bs_resize(g, dots(g, BS_U8, 1), SIXTEEN), SIXTEEN),
                        SIXTEEN),
              SIXTEEN));
    WRONG(
        BS_ERROR_LIMIT, "pixel_shuffle: the frame's scale would be 65536/1, expected 2^15 at most",
        bs_pixel_shuffle(
            g,
            bs_resize(g, bs_resize(g, bs_resize(g, dots(g, BS_U8, 256), SIXTEEN), SIXTEEN),
                      SIXTEEN),
            16));
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

static void rows_of_pool2d(void)
{
    WRONG(BS_ERROR_SHAPE, "pool2d \"q\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_pool2d(g, f->line, &(bs_pool2d_desc){.name = "q"}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": kind is 7, expected 0 .. 1",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .kind = 7}));
    WRONG(BS_ERROR_SHAPE, "pool2d \"half\": cells of 15 pixels (dimensions 1 and 2) do not divide by 2",
          bs_pool2d(g, bs_patches(g, f->frame, &(bs_patches_desc){.size = 15}),
                    &(bs_pool2d_desc){.name = "half", .kind = BS_POOL_MAX}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": kernel is 32769, expected 0 .. 32768",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .kernel = 32769}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": stride is -1, expected 0 .. 32768",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .stride = -1}));
    WRONG(BS_ERROR_ARGUMENT, "pool2d \"q\": dimension 1: pads 2 and 2, expected 0 .. 1",
          bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .padding = BS_PAD_EXPLICIT, .pad = 2}));
    WRONG(BS_ERROR_SHAPE, "pool2d: operand 0 is u8, expected f32", bs_pool2d(g, f->codes, NULL));
    WRONG(
        BS_ERROR_SHAPE,
        "pool2d \"q\": dimension 1: pads 0 and 0 with kernel 3 move cells of a patch domain; their sum must be "
        "dilation (kernel-1)",
        bs_pool2d(g, f->cells, &(bs_pool2d_desc){.name = "q", .kernel = 3, .stride = 1}));
}

static void rows_of_resize(void)
{
    WRONG(BS_ERROR_ARGUMENT, "resize \"z\": factor is 17, expected 0 .. 16",
          bs_resize(g, f->image, &(bs_resize_desc){.name = "z", .factor = 17}));
    WRONG(BS_ERROR_SHAPE, "resize: operand 0 is i32, expected f32, u8 or u16", bs_resize(g, f->numbers, NULL));
    WRONG(BS_ERROR_SHAPE, "resize: operand 0 is [4], expected rank 3 [C, H, W]", bs_resize(g, f->line, NULL));
    WRONG(BS_ERROR_ARGUMENT, "resize \"z\": kind is 4, expected 0 .. 3",
          bs_resize(g, f->image, &(bs_resize_desc){.name = "z", .kind = 4}));
    WRONG(BS_ERROR_ARGUMENT, "resize: factor is 49, expected 0 .. 48",
          bs_resize(g, f->image, &(bs_resize_desc){.factor = 49, .den = 3}));
    WRONG(BS_ERROR_ARGUMENT, "resize: width is 0, expected 1 .. 1073741824",
          bs_resize(g, f->image, &(bs_resize_desc){.height = 3}));
    WRONG(BS_ERROR_ARGUMENT, "resize: height is 7, expected 8 .. 1073741824",
          bs_resize(g, bs_input(g, "i", BS_F32, BS_SHAPE3(1, 113, 4)),
                    &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC, .height = 7, .width = 9, .antialias = 1}));
    WRONG(BS_ERROR_ARGUMENT, "resize: den is 65, expected 0 .. 64",
          bs_resize(g, f->image, &(bs_resize_desc){.kind = BS_RESIZE_AREA, .factor = 1, .den = 65}));
    WRONG(BS_ERROR_ARGUMENT, "resize: kind is 0, expected 1 .. 2",
          bs_resize(g, f->image, &(bs_resize_desc){.antialias = 1}));
    WRONG(BS_ERROR_ARGUMENT, "resize: centres is 2, expected 0",
          bs_resize(g, f->image, &(bs_resize_desc){.kind = BS_RESIZE_AREA, .centres = BS_RESIZE_ASYMMETRIC}));
    WRONG(BS_ERROR_ARGUMENT, "resize: centres is 3, expected 0 .. 2",
          bs_resize(g, f->image, &(bs_resize_desc){.centres = 3}));
    WRONG(BS_ERROR_DOMAIN, "resize: operand 0 is cut into patches, but this needs all of its pixels",
          bs_resize(g, f->cells, &(bs_resize_desc){.height = 64, .width = 48}));
    WRONG(BS_ERROR_DOMAIN, "resize: operand 0 is cut into patches, but this needs all of its pixels",
          bs_resize(g, f->cells, &(bs_resize_desc){.centres = BS_RESIZE_ALIGN_CORNERS}));
    WRONG(BS_ERROR_SHAPE, "resize: cells of 16 pixels (dimensions 1 and 2) do not divide by 3",
          bs_resize(g, f->cells, &(bs_resize_desc){.factor = 1, .den = 3}));
    WRONG(BS_ERROR_ARGUMENT, "resize \"z\": code_bits is 17, expected 0 .. 16",
          bs_resize(g, f->image, &(bs_resize_desc){.name = "z", .code_bits = 17}));
    WRONG(BS_ERROR_SHAPE,
          "resize \"z\": dimension 1 is 1073741824, which gives a result of 2147483648, expected 1 .. 2^30",
          bs_resize(g, bs_input(g, "tall", BS_U8, BS_SHAPE3(1, 1 << 30, 1)), &(bs_resize_desc){.name = "z"}));
    WRONG(BS_ERROR_SHAPE,
          "resize \"z\": dimension 2 is 1073741824, which gives a result of 2147483648, expected 1 .. 2^30",
          bs_resize(g, bs_input(g, "wide", BS_U8, BS_SHAPE3(1, 1, 1 << 30)), &(bs_resize_desc){.name = "z"}));
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

static void rows_of_binary(void)
{
    WRONG(BS_ERROR_SHAPE, "add: dimension 0 is 3 in operand 0 and 2 in operand 1", bs_add(g, f->image, f->frame));
    WRONG(BS_ERROR_SHAPE, "add: operand 1 is i32, expected f32", bs_add(g, f->line, f->numbers));
    WRONG(BS_ERROR_DOMAIN, "add: operand 1 is a whole image beside patches; cut it with bs_patches (like)",
          bs_add(g, f->cells, f->frame));
    WRONG(BS_ERROR_SHAPE, "add: operand 0 is u8, expected f32 or i32", bs_add(g, f->codes, f->codes));
    WRONG(BS_ERROR_SHAPE, "add: dimension 1 of the result is 8 in operand 0 and N<=40 in operand 1",
          bs_add(g, f->image, f->table));
    WRONG(BS_ERROR_SHAPE, "add: dimension 0 of the result is 4 in operand 0 and 3 in operand 1",
          bs_add(g, f->line, f->image));
    WRONG(BS_ERROR_SHAPE, "add: dimensions 1 and 2 are of frames of scale 1/2 and 1/1", add_of_scales(g));
    WRONG(BS_ERROR_DOMAIN, "add: operand 1 is [8, 10], which has no place in the frame of these patches",
          plane_beside_cells(g));
    WRONG(BS_ERROR_SHAPE, "add: dimension 2 is 10 in operand 0 and 2 in operand 1",
          bs_add(g, f->image, bs_input(g, "b", BS_F32, BS_SHAPE3(3, 8, 2))));
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
    WRONG(BS_ERROR_SHAPE, "concat: dimensions 1 and 2 are of frames of scale 1/2 and 1/1", concat_of_scales(g));
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

#define PAIRS bs_input(g, "pairs", BS_I32, BS_SHAPE2(2, 4))
#define FOUR bs_input(g, "four", BS_I32, BS_SHAPE1(4))
#define CODES bs_input(g, "raw", BS_U8, BS_SHAPE1(4))
#define ONE bs_input(g, "one", BS_F32, BS_SHAPE1(1))
#define SCALAR bs_constant(g, "scalar", BS_F32, bs_shape_of(0, 0, 0, 0, 0))
static void rows_of_indexed(void)
{
    WRONG(BS_ERROR_SHAPE, "select: axis 2 of operand 0, which is [N<=40, 4]", bs_select(g, f->table, FOUR, 2));
    WRONG(BS_ERROR_SHAPE, "select: operand 1 is f32, expected i32", bs_select(g, f->table, f->line, 0));
    WRONG(BS_ERROR_SHAPE, "select: operand 1 is [2, 2, 2], expected rank 0 to 2",
          bs_select(g, f->table, bs_input(g, "i", BS_I32, BS_SHAPE3(2, 2, 2)), 0));
    WRONG(BS_ERROR_SHAPE, "select: the result would have rank 5, expected 4 at most",
          bs_select(g, bs_input(g, "w", BS_F32, BS_SHAPE4(2, 3, 4, 5)), PAIRS, 1));
    WRONG(BS_ERROR_DOMAIN, "select: operand 0 is cut into patches, but this needs all of its pixels",
          bs_select(g, f->cells, FOUR, 0));
    WRONG(BS_ERROR_DOMAIN, "select: the result would be an image (rank 3) without a place in the patched frame",
          bs_select(g, f->image, features_of(f), 0));
    WRONG(BS_ERROR_SHAPE, "gather_elements: operand 1 is [4], expected the rank of operand 0, which is [N<=40, 4]",
          bs_gather_elements(g, f->table, FOUR, 0));
    WRONG(BS_ERROR_SHAPE, "gather_elements: dimension 1 is 4 in operand 0 and 5 in operand 1",
          bs_gather_elements(g, f->table, bs_input(g, "i", BS_I32, BS_SHAPE2(2, 5)), 0));
    WRONG(BS_ERROR_ARGUMENT, "scatter_elements \"s\": update is 2, expected 0 .. 1",
          bs_scatter_elements(g, f->line, FOUR, f->line, &(bs_update_desc){.name = "s", .update = 2}));
    WRONG(BS_ERROR_SHAPE, "scatter_elements \"s\": operand 0 is u8, expected f32 or i32",
          bs_scatter_elements(g, CODES, FOUR, f->line, &(bs_update_desc){.name = "s", .update = BS_UPDATE_ADD}));
    WRONG(BS_ERROR_SHAPE, "scatter_elements: operand 2 is u8, expected f32",
          bs_scatter_elements(g, f->line, FOUR, CODES, NULL));
    WRONG(BS_ERROR_SHAPE, "scatter_elements: dimension 0 of operand 2 is N<=40, expected 2",
          bs_scatter_elements(g, f->table, PAIRS, f->table, NULL));
    WRONG(BS_ERROR_SHAPE, "scatter_rows: operand 1 is [2, 4], expected rank 1",
          bs_scatter_rows(g, f->table, PAIRS, f->table, NULL));
    WRONG(BS_ERROR_SHAPE, "scatter_rows: operand 2 is [4], expected the rank of operand 0, which is [N<=40, 4]",
          bs_scatter_rows(g, f->table, FOUR, f->line, NULL));
    WRONG(BS_ERROR_SHAPE, "scatter_rows: dimension 0 of operand 2 is N<=40, expected 4",
          bs_scatter_rows(g, f->table, FOUR, f->table, NULL));
    WRONG(BS_ERROR_DOMAIN,
          "scatter_rows: operand 2 is of rows [N<=40], operand 1 of patches of 16 [H<=64, W<=48]: scatter "
          "or gather it first",
          bs_scatter_rows(g, f->line, features_of(f), bs_rows(g, f->table, (bs_value){0}), NULL));
}

static void rows_of_extents(void)
{
    WRONG(BS_ERROR_SHAPE, "arange \"a\": operand 0 is [4], expected one element",
          bs_arange(g, f->line, none, none, &(bs_extent_desc){"a", 9}));
    WRONG(BS_ERROR_SHAPE, "arange \"a\": operand 0 is u8, expected f32 or i32",
          bs_arange(g, CODES, none, none, &(bs_extent_desc){"a", 9}));
    WRONG(BS_ERROR_ARGUMENT, "arange: maximum is 0, expected 1 .. 1073741824", bs_arange(g, ONE, none, none, NULL));
    WRONG(BS_ERROR_SHAPE, "arange \"a\": operand 1 is i32, expected f32",
          bs_arange(g, ONE, FOUR, none, &(bs_extent_desc){"a", 9}));
    WRONG(BS_ERROR_GRAPH, "arange \"a\": operand 1 is value 0, which does not exist",
          bs_arange(g, ONE, none, f->line, &(bs_extent_desc){"a", 9}));
    WRONG(BS_ERROR_DOMAIN, "nonzero: operand 0 is of rows [N<=40], expected a root value",
          bs_nonzero(g, bs_rows(g, f->table, none), NULL));
    WRONG(BS_ERROR_ARGUMENT, "nonzero \"z\": maximum is 5, expected 1 .. 4",
          bs_nonzero(g, f->line, &(bs_extent_desc){"z", 5}));
    WRONG(BS_ERROR_SHAPE, "nonzero: operand 0 is [], expected rank 1 to 4", bs_nonzero(g, SCALAR, NULL));
    WRONG(BS_ERROR_SHAPE, "unique: operand 0 is u8, expected f32 or i32", bs_unique(g, CODES, NULL, NULL));
    WRONG(BS_ERROR_LIMIT, "unique: operand 0 has 2^31 elements or more",
          bs_unique(g, bs_input(g, "vast", BS_I32, BS_SHAPE2(2, 1 << 30)), NULL, NULL));
    WRONG(BS_ERROR_ARGUMENT, "unique \"u\": maximum is 5, expected 1 .. 4",
          bs_unique(g, f->line, &(bs_extent_desc){"u", 5}, NULL));
#define BOXES bs_reshape(g, f->line, BS_SHAPE3(1, 1, 4))
#define SCORES bs_reshape(g, f->line, BS_SHAPE3(1, 4, 1))
    WRONG(BS_ERROR_SHAPE, "nms \"k\": dimension 2 of operand 0 is 1, expected 4",
          bs_nms(g, SCORES, SCORES, &(bs_nms_desc){.name = "k"}));
    WRONG(BS_ERROR_SHAPE, "nms: dimension 2 of operand 1 is 4, expected 1", bs_nms(g, BOXES, BOXES, NULL));
    WRONG(BS_ERROR_ARGUMENT, "nms: iou_threshold is 1.5, expected 0 .. 1",
          bs_nms(g, BOXES, SCORES, &(bs_nms_desc){.iou_threshold = 1.5f}));
    WRONG(BS_ERROR_ARGUMENT, "nms: maximum is 9, expected 1 .. 4",
          bs_nms(g, BOXES, SCORES, &(bs_nms_desc){.maximum = 9, .max_each = 2}));
#undef BOXES
#undef SCORES
    WRONG(BS_ERROR_SHAPE, "patches \"p\": dimension 1 of operand 0 is z<=4, which comes from data, expected one that "
                          "inputs give",
          bs_patches(g, bs_reshape(g, bs_nonzero(g, f->line, &(bs_extent_desc){"z", 0}), BS_SHAPE3(1, -1, 1)),
                     &(bs_patches_desc){.name = "p"}));
    WRONG(BS_ERROR_SHAPE,
          "segments: dimension 0 of operand 0 is z<=4, which comes from data, expected one that inputs give",
          bs_segments(g, bs_nonzero(g, f->line, &(bs_extent_desc){"z", 0}), f->lengths));
}
#undef ONE
#undef SCALAR
#undef CODES
#undef FOUR
#undef PAIRS

static void rows_of_roll(void)
{
    WRONG(BS_ERROR_SHAPE, "roll \"r\": axis 3 of operand 0, which is [3, 8, 10]",
          bs_roll(g, f->image, &(bs_roll_desc){.name = "r", .axis = 3}));
    WRONG(BS_ERROR_DOMAIN, "roll: axis 2 of an image that is cut into patches, expected 0",
          bs_roll(g, f->cells, &(bs_roll_desc){.axis = -1}));
}

static void rows_of_roots(void)
{
    WRONG(BS_ERROR_DOMAIN, "patches: operand 0 is of patches of 16 [H<=64, W<=48], expected a root value",
          bs_patches(g, f->cells, NULL));
}

int main(void)
{
    rows_of_conv2d_fields();
    rows_of_conv2d();
    rows_of_deconv2d();
    rows_of_pixel_shuffle();
    rows_of_pool2d();
    rows_of_resize();
    rows_of_patch_features();
    rows_of_binary();
    rows_of_concat();
    rows_of_slice();
    rows_of_gather_rows();
    rows_of_indexed();
    rows_of_extents();
    rows_of_roll();
    rows_of_roots();
    wrong_builds_end();
    static const char *const files[] = {"src/ops/broadcast.c",     "src/ops/common.c",   "src/ops/concat_slice.c",
                                        "src/ops/conv2d.c",        "src/ops/deconv2d.c", "src/ops/patch_features.c",
                                        "src/ops/pixel_shuffle.c", "src/ops/pool2d.c",   "src/ops/unique.c"};
    messages_of_builds("src/ops/nms.c");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    return check_end();
}
