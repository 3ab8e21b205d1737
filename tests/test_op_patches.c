/* tags: asan shipped aarch64 32-bit */
/* test_op_patches.c - a frame cut into cells, with the halo that the op asks for and nothing more, gives the uncut
 * frame's bits; and so does a rectangle cut in bands of rows.
 *
 * Usage: test_op_patches [seed] */
#include "op_builders.h"

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
    {"conv 1x7", conv_row, BS_F32, 3, 1, 8, 20, 21, false},
    {"conv dilated across", conv_dilations, BS_F32, 8, 1, 8, 21, 29, false},
    {"conv of what is above and right", conv_causal, BS_F32, 3, 1, 8, 20, 21, false},
    {"conv of what is below and right", conv_late, BS_F32, 3, 1, 8, 21, 22, false},
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
    {"lrn", lrn_even, BS_F32, 6, 1, 16, 37, 29, false},
    {"pool", pool_average, BS_F32, 3, 1, 16, 37, 33, false},
    {"pool padded", pool_average_pad, BS_F32, 3, 1, 16, 37, 33, false},
    {"pool stride 1", pool_average_count, BS_F32, 3, 1, 16, 37, 33, false},
    {"pool max", pool_max, BS_F32, 3, 1, 16, 37, 33, false},
    {"pool of what is below and left", pool_causal, BS_F32, 3, 1, 8, 21, 19, false},
    {"pool of taps far apart", pool_apart, BS_F32, 3, 1, 4, 9, 7, false},
    {"nearest", nearest_3, BS_F32, 2, 1, 8, 21, 19, false},
    {"bilinear", bilinear_3, BS_F32, 2, 1, 8, 21, 19, false},
    {"bicubic", bicubic_2, BS_F32, 2, 1, 8, 21, 19, false},
    {"bicubic plane", bicubic_codes, BS_F32, 1, 1, 8, 21, 19, false},
    {"bicubic u8", bicubic_codes, BS_U8, 1, 1, 8, 21, 19, false},
    {"bicubic u16", bicubic_u10, BS_U16, 2, 1, 8, 21, 19, false},
    {"bicubic u16 x3", bicubic_codes_3, BS_U16, 1, 1, 8, 21, 19, false},
    {"nearest 5/4", nearest_5_4, BS_U8, 2, 1, 8, 21, 19, false},
    {"bilinear 3/4", bilinear_3_4, BS_F32, 2, 1, 8, 21, 19, false},
    {"bilinear 3/2 from corners", bilinear_3_2_corner, BS_F32, 2, 1, 8, 21, 19, false},
    {"bicubic 3/2", bicubic_3_2, BS_U16, 2, 1, 8, 21, 19, false},
    {"area 1/2", area_1_2, BS_F32, 2, 1, 8, 21, 19, false},
    {"area 3/4", area_3_4, BS_U8, 1, 1, 8, 21, 18, false},
    {"antialias 1/4", antialias_1_4, BS_F32, 2, 1, 8, 37, 29, false},
    {"antialias 3/4", antialias_3_4, BS_U16, 2, 1, 16, 37, 29, false},
    {"antialias 3/2", antialias_3_2, BS_F32, 2, 1, 8, 21, 19, false},
    {"roll of channels", roll_channels, BS_F32, 5, 1, 8, 21, 19, false},
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
            x[i] = bs_patches(g, x[i], &(bs_patches_desc){.size = p->size, .like = {x[0].id * (i > 0)}});
    }
    p->build(g, x);
    return g;
}

/* The op on a whole frame. */
static tensor patch_whole(op_run *r, const tensor *in, int32_t layout)
{
    for (int32_t i = 0; i < r->node->n_in; i++) {
        storage x = storage_new(in[i].dtype, 1, 3, in[i].dim, whole_rect(3, in[i].dim), op_zeros(r, i, 0), layout);
        storage_fill(&x, &in[i], 0, 0);
        r->in[i] = x.operand;
    }
    storage y = storage_of_output(r, 0, 1, layout);
    r->out[0] = y.operand;
    r->op->run(op_call(r));
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
        storage x = cell_storage(p->dtype, &c, &in[i], op_zeros(r, i, margin), layout);
        storage_fill(&x, &in[i], c.y, c.x);
        r->in[i] = x.operand;
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
    r->out[0] = y.operand;
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
    r->out[0] = y.operand;
    if (r->op->run(op_call(r)) != BS_OK)
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
            if (r.op->layout.channels_last && tier != BS_TIER_SCALAR && layout != LAYOUT_LAST &&
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
        r.out[0] = y.operand;
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
    for (size_t i = 0; i < sizeof patch_cases / sizeof *patch_cases; i++)
        test_patches(&patch_cases[i]);
    test_bands();
    return check_end();
}
