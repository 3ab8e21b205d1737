/* tags: order asan */
/* test_cuda_conv.c - convolutions on a device: every geometry and activation, on frames and in cells, f32 and f16.
 *
 *   frames   each case on a root image, by the kernel that the plan chooses and by plain loops
 *   cells    each case that keeps the scale, with halos and cells cut by the frame's edge, breadth and depth first
 *   chains   nets in tiles; and the same bytes whatever the order and the size of the cells
 *   less     an image that was made of more dimensions than three
 *
 * Usage: test_cuda_conv [part of a case's name] */
#include "cuda_rig.h"

typedef struct conv_case {
    const char *name;
    int32_t channels, h, w;
    bs_conv2d_desc desc;
    bool cells; /* may stand in a patch domain */
} conv_case;

#define SIDES .padding = BS_PAD_EXPLICIT, .pad_left = 1, .pad_bottom = 2, .pad_right = 3
static const conv_case cases[] = {
    {"3x3 1->8", 1, 13, 21, {.out = 8}, true},
    {"3x3 1->20 relu", 1, 20, 33, {.out = 20, .act = BS_RELU}, true},
    {"5x5 1->12", 1, 9, 18, {.out = 12, .kernel = 5}, true},
    {"3x3 8->8", 8, 19, 17, {.out = 8}, true},
    {"3x3 12->12 prelu", 12, 17, 23, {.out = 12, .act = BS_PRELU}, true},
    {"3x3 16->16", 16, 11, 35, {.out = 16}, true},
    {"3x3 20->20 relu", 20, 18, 18, {.out = 20, .act = BS_RELU}, true},
    {"3x3 20->4", 20, 16, 16, {.out = 4}, true},
    {"3x3 24->1", 24, 12, 20, {.out = 1}, true},
    {"3x3 32->32 leaky", 32, 10, 14, {.out = 32, .act = BS_LEAKY_RELU, .act_param = 0.2f}, true},
    {"3x3 48->48", 48, 9, 10, {.out = 48}, true},
    {"3x3 40->36 leaky default", 40, 7, 9, {.out = 36, .act = BS_LEAKY_RELU}, true},
    {"3x3 132->12: few pixels at once", 132, 6, 7, {.out = 12}, false},
    {"3x3 260->12: windows from global memory", 260, 6, 7, {.out = 12}, false},
    {"3x3 500->4: too deep for products of matrices", 500, 3, 4, {.out = 4}, false},
    {"1x1 24->16", 24, 13, 11, {.out = 16, .kernel = 1}, true},
    {"1x1 4->8", 4, 8, 9, {.out = 8, .kernel = 1, .no_bias = 1}, true},
    {"1x1 6->5 clip", 6, 8, 9, {.out = 5, .kernel = 1, .act = BS_CLIP}, true},
    {"2x2 8->8", 8, 12, 13, {.out = 8, .kernel = 2, .padding = BS_PAD_VALID}, false},
    {"2x2 stride 2, 12->24", 12, 12, 16, {.out = 24, .kernel = 2, .stride = 2, .padding = BS_PAD_VALID}, false},
    {"3x3 stride 2, 8->16", 8, 16, 20, {.out = 16, .stride = 2}, false},
    {"3x3 stride 2, 3->9", 3, 15, 22, {.out = 9, .stride = 2, .act = BS_RELU}, false},
    {"3x3 dilation 2, 8->12", 8, 15, 14, {.out = 12, .dilation = 2}, true},
    {"3x3 dilation 3, 5->7", 5, 15, 14, {.out = 7, .dilation = 3}, true},
    {"3x3 dilation 40, 64->4: too far for a window", 64, 5, 6, {.out = 4, .dilation = 40}, false},
    {"valid 3x3 8->8", 8, 10, 12, {.out = 8, .padding = BS_PAD_VALID}, false},
    {"1x5 4->6 sigmoid", 4, 9, 17, {.out = 6, .kernel_h = 1, .kernel_w = 5, .act = BS_SIGMOID}, true},
    {"7x1 4->10 tanh", 4, 17, 9, {.out = 10, .kernel_h = 7, .kernel_w = 1, .act = BS_TANH}, true},
    {"1x7 8->12", 8, 5, 21, {.out = 12, .kernel_h = 1, .kernel_w = 7}, true},
    {"3x1 strides 2, 1, 8->6", 8, 13, 9, {.out = 6, .kernel_w = 1, .stride_h = 2}, false},
    {"3x3 strides 1, 3, 3->9", 3, 9, 20, {.out = 9, .stride_w = 3, .act = BS_RELU}, false},
    {"3x3 dilations 1, 2, 16->12", 16, 9, 14, {.out = 12, .dilation_w = 2}, true},
    {"3x3 dilations 3, 1, 5->7", 5, 12, 11, {.out = 7, .dilation_h = 3}, true},
    {"3x3 pads 0, 1, 2, 3", 8, 9, 11, {.out = 8, SIDES}, false},
    {"2x3 of what is above and right",
     12,
     9,
     18,
     {.out = 8, .kernel_h = 2, .dilation_h = 3, .padding = BS_PAD_EXPLICIT, .pad_top = 3, .pad_right = 2},
     true},
    {"1x300 4->8", 4, 2, 310, {.out = 8, .kernel_h = 1, .kernel_w = 300, SIDES}, false},
    {"depthwise strides 1, 2", 12, 9, 14, {.out = 12, .kernel_w = 5, .stride_w = 2, .groups = BS_DEPTHWISE}, false},
    {"depthwise dilations 2, 1", 7, 9, 14, {.out = 7, .dilation_h = 2, .groups = BS_DEPTHWISE}, true},
    {"3x3 2 groups 16->24", 16, 9, 11, {.out = 24, .groups = 2}, true},
    {"3x3 4 groups 12->8", 12, 9, 11, {.out = 8, .groups = 4, .act = BS_PRELU}, true},
    {"depthwise 3x3 16", 16, 12, 15, {.out = 16, .groups = BS_DEPTHWISE, .act = BS_RELU}, true},
    {"depthwise 5x5 6 gelu", 6, 12, 15, {.out = 6, .kernel = 5, .groups = BS_DEPTHWISE, .act = BS_GELU}, true},
    {"depthwise stride 2", 8, 12, 16, {.out = 8, .stride = 2, .groups = BS_DEPTHWISE}, false},
    {"3x3 8->8 batch norm", 8, 9, 13, {.out = 8, .batch_norm = 1, .act = BS_SILU}, true},
    {"3x3 1->6 batch norm gelu", 1, 9, 13, {.out = 6, .batch_norm = 1, .act = BS_GELU}, true},
    {"3x3 12->30 gelu", 12, 8, 13, {.out = 30, .act = BS_GELU}, true},
};
#define CASES ((int32_t)(sizeof cases / sizeof *cases))

static const char *only;

static bool wanted(const char *name) { return !only || strstr(name, only); }

/* ---------------------------------------------------------------------------------------------- one node */

static void build_case(cuda_rig *r, const conv_case *c, int32_t cell)
{
    bs_conv2d_desc desc = c->desc;
    bs_graph *g = rig_begin(r, c->name);
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(c->channels, BS_UPTO(c->h), BS_UPTO(c->w)));
    desc.name = "conv";
    if (cell > 0)
        x = bs_patches(g, x, &(bs_patches_desc){.size = cell});
    x = bs_conv2d(g, x, &desc);
    bs_output(g, "y", cell > 0 ? bs_assemble(g, x) : x);
}

static void test_frames(const conv_case *c)
{
    cuda_rig r;
    build_case(&r, c, 0);
    rig_agree(&r, &(rig_how){.tolerance = 5e-6});
    rig_agree(&r, &(rig_how){.half = 1});
    rig_agree(&r, &(rig_how){.device_conv = BS_CONV_FORCE_REFERENCE, .tolerance = 5e-6});
}

static void test_cells(const conv_case *c)
{
    cuda_rig r;
    build_case(&r, c, 8);
    for (int32_t half = 0; half < 2; half++)
        for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
            rig_agree(&r, &(rig_how){.half = half, .order = order});
}

/* ------------------------------------------------------------------------------------------------ deconv2d */

typedef struct deconv_case {
    const char *name;
    int32_t channels, h, w;
    bs_deconv2d_desc desc;
    bool cells;
} deconv_case;

static const deconv_case deconvs[] = {
    {"deconv 4x4 stride 2",
     8,
     9,
     13,
     {.out = 12, .kernel = 4, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1},
     true},
    {"deconv 3x3", 5, 9, 8, {.out = 4, .kernel = 3, .padding = BS_PAD_EXPLICIT, .pad = 1, .act = BS_RELU}, true},
    {"deconv 9x9 stride 3", 12, 7, 6, {.out = 1, .kernel = 9, .stride = 3, .padding = BS_PAD_EXPLICIT, .pad = 3}, true},
    {"deconv 3x3 stride 2, output_pad",
     4,
     6,
     9,
     {.out = 9, .kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1, .output_pad = 1, .act = BS_PRELU},
     true},
    {"deconv 2x2 stride 3: phases without taps",
     3,
     6,
     5,
     {.out = 2, .kernel = 2, .stride = 3, .act = BS_SIGMOID},
     false},
    {"deconv 5x5 stride 2, larger than the frame",
     24,
     3,
     4,
     {.out = 20, .kernel = 5, .stride = 2, .no_bias = 1},
     false},
    {"deconv 18x18", 1, 4, 4, {.out = 1, .kernel = 18}, false},
};

static void test_deconv(const deconv_case *c)
{
    for (int32_t cell = 0; cell <= (c->cells ? 4 : 0); cell += 4) {
        cuda_rig r;
        bs_deconv2d_desc desc = c->desc;
        bs_graph *g = rig_begin(&r, c->name);
        bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(c->channels, BS_UPTO(c->h), BS_UPTO(c->w)));
        desc.name = "deconv";
        if (cell > 0)
            x = bs_patches(g, x, &(bs_patches_desc){.size = cell});
        x = bs_deconv2d(g, x, &desc);
        bs_output(g, "y", cell > 0 ? bs_assemble(g, x) : x);
        for (int32_t half = 0; half < 2; half++)
            for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
                rig_agree(&r, &(rig_how){.half = half, .order = order});
        rig_agree(&r, &(rig_how){.device_conv = BS_CONV_FORCE_REFERENCE, .tolerance = 5e-6});
    }
}

/* -------------------------------------------------------------------------------------------------- chains */

/* A small net of super-resolution: first layer one channel, body, last layer four outputs or one. */
static void build_chain(cuda_rig *r, const char *name, int32_t channels, int32_t out, int32_t cell)
{
    static const char *const names[] = {"body0", "body1", "body2"};
    bs_graph *g = rig_begin(r, name);
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(1, BS_UPTO(44), BS_UPTO(52)));
    rig_extent(r, "x", 1, 41, 50, 0);
    if (cell > 0)
        x = bs_patches(g, x, &(bs_patches_desc){.size = cell});
    x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "head", .out = channels, .kernel = 5, .act = BS_PRELU});
    for (int32_t i = 0; i < 3; i++)
        x = bs_conv2d(g, x,
                      &(bs_conv2d_desc){.name = names[i], .out = channels, .act = BS_RELU, .dilation = i == 1 ? 2 : 1});
    x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "tail", .out = out});
    bs_output(g, "y", cell > 0 ? bs_assemble(g, x) : x);
}

/* The bytes that the device gives. */
static const void *bytes_of(cuda_rig *r, const rig_how *how, size_t *bytes)
{
    static rig_result result;
    bs_plan_desc d;
    memset(&d, 0, sizeof d);
    d.tier = BS_TIER_CUDA;
    d.half = how->half;
    d.order = how->order;
    d.patch_size = how->patch_size;
    d.shared_bytes = how->shared_bytes;
    rig_once(r, &d, how, &result);
    check(result.status == BS_OK, "%s runs: %s", r->name, result.error.message);
    for (int32_t i = 0; i < r->n_buffers; i++)
        if (r->buffers[i].output) {
            *bytes = (size_t)rig_elements(&r->buffers[i].given) * bs_dtype_bytes(r->buffers[i].given.dtype);
            return result.out[i];
        }
    return NULL;
}

static void test_chain(const char *name, int32_t channels, int32_t out)
{
    static const rig_how hows[] = {
        {.order = BS_ORDER_BREADTH},
        {.order = BS_ORDER_DEPTH},
        {.order = BS_ORDER_DEPTH, .patch_size = 9},
        {.order = BS_ORDER_BREADTH, .patch_size = 23},
        {.order = BS_ORDER_DEPTH, .shared_bytes = 101376},
    };
    cuda_rig r;
    if (!wanted(name))
        return;
    build_chain(&r, name, channels, out, 16);
    for (int32_t half = 0; half < 2; half++) {
        const void *first = NULL;
        rig_agree(
            &r,
            &(rig_how){.half = half, .order = BS_ORDER_DEPTH, .shared_bytes = 101376, .tolerance = half ? 5e-3 : 1e-5});
        for (int32_t k = 0; k < (int32_t)(sizeof hows / sizeof *hows); k++) {
            rig_how how = hows[k];
            size_t bytes = 0;
            how.half = half;
            const void *now = bytes_of(&r, &how, &bytes);
            if (!first)
                first = now;
            check(first && now && memcmp(first, now, bytes) == 0, "%s, half %d: way %d gives the same bytes", name,
                  half, k);
        }
    }
}

/* A convolution looks beyond the edge of what a kernel made of four dimensions: of one row, or of each of some. */
static void test_less(void)
{
    const bs_reduce_desc sum = {.kind = BS_REDUCE_SUM, .axis = 0};
    cuda_rig r;
    if (!wanted("sum of frames"))
        return;
    bs_graph *g = rig_begin(&r, "sum of frames");
    const bs_value frames = bs_input(g, "frames", BS_F32, BS_SHAPE4(2, 3, 11, 14));
    bs_output(g, "y", bs_conv2d(g, bs_reduce(g, frames, &sum), &(bs_conv2d_desc){.name = "smooth", .out = 4}));
    const bs_value rows = bs_rows(g, bs_input(g, "rows", BS_F32, BS_SHAPE2(9, 924)), (bs_value){0});
    const bs_value small = bs_reduce(g, bs_reshape(g, rows, BS_SHAPE4(2, 3, 11, 14)), &sum);
    const bs_value smooth = bs_conv2d(g, small, &(bs_conv2d_desc){.name = "small", .out = 2});
    bs_output(g, "z", bs_collect(g, bs_reshape(g, smooth, BS_SHAPE1(308))));
    rig_agree(&r, NULL);
    rig_agree(&r, &(rig_how){.half = 1, .runs = 2});
    rig_agree(&r, &(rig_how){.order = BS_ORDER_BREADTH});
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    for (int32_t k = 0; k < CASES; k++)
        if (wanted(cases[k].name)) {
            test_frames(&cases[k]);
            if (cases[k].cells)
                test_cells(&cases[k]);
        }
    for (int32_t k = 0; k < (int32_t)(sizeof deconvs / sizeof *deconvs); k++)
        if (wanted(deconvs[k].name))
            test_deconv(&deconvs[k]);
    test_chain("chain 8", 8, 4);
    test_chain("chain 20", 20, 1);
    test_less();
    return check_end();
}
