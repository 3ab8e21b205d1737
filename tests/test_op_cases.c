/* tags: asan shipped aarch64 32-bit */
/* Promises: ops in rare cases: borders of every type, empty and planar operands, symbols that a run bound below what an
 * op needs, NaN among the best, lines that are not contiguous, features beyond the last bucket, and weights as a device
 * wants them. */
#include "op_harness.h"

static const bs_value none = {0};

static float *out_f32(op_case *c) { return c->out[0].operand.data; }

/* --------------------------------------------------------------------------------------------------------------
 * borders */

static double border_of(bs_dtype dtype, float value)
{
    pool_used = 0;
    bs_graph *g = new_graph();
    bs_pad(g, bs_input(g, "x", dtype, BS_SHAPE3(1, 2, 2)), &(bs_pad_desc){.top = 1, .value = value});
    op_case c = op_case_new(g, BS_TIER_SCALAR, LAYOUT_PLANAR);
    op_case_run(&c);
    const tensor t = storage_drain(&c.out[0]);
    return dtype == BS_I32 ? ((const int32_t *)(const void *)t.data)[0] : (double)bs_load_f32(t.data, dtype, 0);
}

static void test_borders(void)
{
    static const struct {
        bs_dtype dtype;
        float value;
        double border;
    } cases[] = {{BS_F32, -2.5f, -2.5},
                 {BS_F16, 1.5f, 1.5},
                 {BS_BF16, -3.0f, -3.0},
                 {BS_U8, 3.5f, 4},
                 {BS_U8, -7, 0},
                 {BS_U8, 1e30f, 255},
                 {BS_I8, -1e30f, -128},
                 {BS_I8, 127.9f, 127},
                 {BS_U16, 70000, 65535},
                 {BS_U16, -1, 0},
                 {BS_I32, 1e10f, INT32_MAX},
                 {BS_I32, -1e10f, INT32_MIN},
                 {BS_I32, NAN, 0},
                 {BS_I32, -2147483648.0f, INT32_MIN},
                 {BS_I32, 12, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(border_of(cases[i].dtype, cases[i].value) == cases[i].border, "a border of %g in %s is %.10g",
              (double)cases[i].value, bs_dtype_name(cases[i].dtype), cases[i].border);
}

/* --------------------------------------------------------------------------------------------------- any cubic
 * kernel */

enum { CUBIC_SIDE = 4 };

/* One channel of `dtype`, enlarged with Keys' `a`. */
static tensor cubic_of(bs_dtype dtype, bs_tier tier, int32_t factor, float a)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", dtype, BS_SHAPE3(1, CUBIC_SIDE, CUBIC_SIDE));
    bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC, .factor = factor, .cubic_a = a, .code_bits = 10});
    op_case c = op_case_new(g, tier, LAYOUT_PLANAR);
    for (int32_t y = 0; y < CUBIC_SIDE; y++)
        for (int32_t i = 0; i < CUBIC_SIDE; i++) {
            void *at = storage_at(&c.in[0], 0, (int32_t[]){0, y, i});
            const int32_t code = (y * CUBIC_SIDE + i) * 37 % 256;
            if (dtype == BS_F32)
                *(float *)at = (float)code;
            else if (dtype == BS_U8)
                *(uint8_t *)at = (uint8_t)code;
            else
                *(uint16_t *)at = (uint16_t)code;
        }
    check(op_case_run(&c) == BS_OK, "bicubic of %s with a = %g", bs_dtype_name(dtype), (double)a);
    return storage_drain(&c.out[0]);
}

/* A model file may ask for any: codes are the real result's, in their range, and 0 where that is none. */
static void test_cubics(void)
{
    static const float as[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e9f, -1e9f, 1e-45f, -0.75f};
    for (size_t i = 0; i < sizeof as / sizeof *as; i++)
        for (int32_t k = 0; k < 4; k++) {
            const int32_t factor = 2 + k % 2;
            const bs_dtype dtype = k / 2 ? BS_U16 : BS_U8;
            pool_used = 0;
            const tensor real = cubic_of(BS_F32, BS_TIER_SCALAR, factor, as[i]),
                         codes = cubic_of(dtype, bs_tier_best(), factor, as[i]);
            const float top = dtype == BS_U8 ? 255.0f : 1023.0f;
            const int32_t pixels = factor * factor * CUBIC_SIDE * CUBIC_SIDE;
            int32_t wrong = 0;
            for (int32_t n = 0; n < pixels; n++) {
                const float v = bs_load_f32(real.data, BS_F32, n);
                wrong += bs_load_f32(codes.data, dtype, n) != (isnan(v) ? 0.0f : rintf(fminf(fmaxf(v, 0.0f), top)));
            }
            check(wrong == 0, "bicubic x%d, a = %g: %d of %d codes of %s are the real result's, saturated", factor,
                  (double)as[i], pixels - wrong, pixels, bs_dtype_name(dtype));
        }
}

/* ---------------------------------------------------------------------------------------------------- nothing, or not
 * so */

static bs_value image_of(bs_graph *g, int32_t channels) { return bs_input(g, "x", BS_F32, BS_SHAPE3(channels, 8, 8)); }

static void test_images(void)
{
    for (int32_t op = 0; op < 2; op++) {
        const char *name = op ? "deconv2d" : "conv2d";
        pool_used = 0;
        bs_graph *g = new_graph();
        if (op)
            bs_deconv2d(g, image_of(g, 16), &(bs_deconv2d_desc){.name = "d", .out = 16, .stride = 2});
        else
            bs_conv2d(g, image_of(g, 16), &(bs_conv2d_desc){.name = "c", .out = 16});
        op_case c = op_case_new(g, bs_tier_best(), LAYOUT_LAST);
        check(op_case_run(&c) == BS_OK, "%s of an image", name);
        storage_drain(&c.out[0]);
        c.r.out[0].rect.y1 = c.r.out[0].rect.y0;
        check(op_case_run(&c) == BS_OK && storage_is_poison(&c.out[0]), "%s of no rows writes nothing", name);
        c.r.out[0].rect = c.out[0].operand.rect;
        c.r.out[0].rect.x1 = c.r.out[0].rect.x0;
        check(op_case_run(&c) == BS_OK && storage_is_poison(&c.out[0]), "nor of no columns");
        /* The reference, which the scalar tier runs, knows any strides. */
        for (int32_t planar = 0; planar < 2 && bs_tier_best() != BS_TIER_SCALAR; planar++) {
            c = op_case_new(g, bs_tier_best(), LAYOUT_LAST);
            (planar ? c.r.in : c.r.out)[0].stride[0] = 64;
            check(op_case_run(&c) == BS_ERROR_UNSUPPORTED && storage_is_poison(&c.out[0]),
                  "%s refuses a planar %s: the planner keeps channels last", name, planar ? "operand" : "result");
        }
    }
}

/* A cell of a frame that shrank below it has no pixels. */
static void test_no_pixels(void)
{
    for (int32_t kind = 0; kind < 2; kind++) {
        pool_used = 0;
        bs_graph *g = new_graph();
        bs_pool2d(g, image_of(g, 3), &(bs_pool2d_desc){.kind = kind, .global = 1});
        op_case c = op_case_new(g, BS_TIER_SCALAR, LAYOUT_LAST);
        c.r.in[0].dim[1] = 0;
        check(op_case_run(&c) == BS_OK && out_f32(&c)[0] == 0 && out_f32(&c)[2] == 0, "%s of no pixels is 0",
              kind ? "the largest" : "the mean");
    }
    pool_used = 0;
    bs_graph *g = new_graph();
    bs_patch_features(g, bs_input(g, "x", BS_U8, BS_SHAPE3(1, 8, 8)), none, NULL);
    op_case c = op_case_new(g, BS_TIER_SCALAR, LAYOUT_PLANAR);
    c.r.in[0].dim[2] = 0;
    const int32_t *features = c.out[0].operand.data;
    check(op_case_run(&c) == BS_OK && features[0] == 0 && features[1] == 0, "features of no pixels are 0");
}

/* ---------------------------------------------------------------------------------------------------- symbols too
 * small */

static bs_status bound_below(bs_value (*build)(bs_graph *), int32_t axis, int32_t extent)
{
    pool_used = 0;
    bs_graph *g = new_graph();
    build(g);
    op_case c = op_case_new(g, BS_TIER_SCALAR, LAYOUT_PLANAR);
    c.r.in[0].dim[axis] = extent;
    c.r.in[0].frame_h = c.r.in[0].dim[1];
    c.r.in[0].frame_w = c.r.in[0].dim[2];
    const bs_status status = op_case_run(&c);
    return status != BS_OK && !(storage_is_poison(&c.out[0])) ? BS_ERROR_DATA : status;
}

static bs_value symbols(bs_graph *g) { return bs_input(g, "x", BS_F32, BS_SHAPE3(2, BS_UPTO(8), BS_UPTO(8))); }
static bs_value slice_5(bs_graph *g)
{
    return bs_slice(g, symbols(g), &(bs_slice_desc){.axis = 1, .start = 2, .length = 3});
}
static bs_value topk_5(bs_graph *g) { return bs_topk(g, symbols(g), 5, NULL); }
static bs_value halves(bs_graph *g) { return bs_pixel_unshuffle(g, symbols(g), 2); }
static bs_value flat(bs_graph *g)
{
    return bs_reshape(g, bs_input(g, "x", BS_F32, BS_SHAPE3(2, 8, BS_UPTO(8))), BS_SHAPE2(16, -1));
}
static bs_value largest(bs_graph *g) { return bs_softmax(g, symbols(g)); }
static bs_value reduced(bs_graph *g) { return bs_reduce(g, symbols(g), &(bs_reduce_desc){.axis = 2}); }

static void test_small_symbols(void)
{
    check(bound_below(slice_5, 1, 5) == BS_OK && bound_below(slice_5, 1, 4) == BS_ERROR_SHAPE,
          "a slice of what a run has not is BS_ERROR_SHAPE");
    check(bound_below(topk_5, 2, 5) == BS_OK && bound_below(topk_5, 2, 4) == BS_ERROR_SHAPE, "so are the best 5 of 4");
    check(bound_below(halves, 1, 8) == BS_OK && bound_below(halves, 1, 7) == BS_ERROR_SHAPE &&
              bound_below(halves, 2, 7) == BS_ERROR_SHAPE,
          "so is a frame that does not divide");
    check(bound_below(flat, 2, 8) == BS_OK && bound_below(flat, 2, 7) == BS_ERROR_SHAPE,
          "so is a reshape to another number of elements");
    check(bound_below(largest, 2, 0) == BS_OK && bound_below(reduced, 2, 0) == BS_OK,
          "lines of nothing are left alone");
}

/* ----------------------------------------------------------------------------------------------------------------
 * lines */

static void test_lines(void)
{
    static const float x[6] = {1, NAN, 3, NAN, 3, -2};
    for (int32_t layout = 0; layout < LAYOUTS; layout += LAYOUT_PLANAR_PADDED) {
        pool_used = 0;
        bs_graph *g = new_graph();
        bs_topk(g, bs_input(g, "x", BS_F32, BS_SHAPE1(6)), 6, NULL);
        op_case c = op_case_new(g, BS_TIER_SCALAR, layout);
        tensor t = tensor_new(BS_F32, 1, 1, (int32_t[]){6});
        memcpy(t.data, x, sizeof x);
        storage_fill(&c.in[0], &t, 0, 0);
        const bs_status status = op_case_run(&c);
        const tensor best = storage_drain(&c.out[0]), at = storage_drain(&c.out[1]);
        const int32_t *index = (const int32_t *)(const void *)at.data;
        static const int32_t order[6] = {2, 4, 0, 5, 1, 3};
        check(status == BS_OK && memcmp(index, order, sizeof order) == 0 &&
                  ((const float *)(const void *)best.data)[0] == 3,
              "NaN is never among the best, layout %d", layout);

        for (int32_t type = 0; type < 2; type++) {
            pool_used = 0;
            g = new_graph();
            bs_argmax(g, bs_input(g, "x", type ? BS_I32 : BS_F32, BS_SHAPE2(5, 6)));
            c = op_case_new(g, BS_TIER_SCALAR, layout);
            int32_t first[5];
            for (int32_t line = 0; line < 5; line++) {
                first[line] = 0;
                for (int32_t i = 1; i < 6; i++) {
                    const void *a = storage_at(&c.in[0], 0, (int32_t[]){line, i}),
                               *b = storage_at(&c.in[0], 0, (int32_t[]){line, first[line]});
                    const bool more = type ? *(const int32_t *)a > *(const int32_t *)b
                                           : *(const float *)a > *(const float *)b;
                    first[line] = more ? i : first[line];
                }
            }
            const bs_status found = op_case_run(&c);
            const tensor indices = storage_drain(&c.out[0]);
            check(found == BS_OK && memcmp(indices.data, first, sizeof first) == 0,
                  "the first of the largest, %s, layout %d", type ? "i32" : "f32", layout);
        }
    }
}

/* Products of ranks 2 to 4, b as it is and transposed, wherever elements lie: sums in one order, so the same bits. */
static void test_matmul(void)
{
    static const int32_t dims[3][4] = {{3, 5}, {2, 3, 5}, {2, 2, 3, 5}};
    for (int32_t rank = 2; rank <= 4; rank++)
        for (int32_t transposed = 0; transposed < 2; transposed++)
            for (int32_t layout = 0; layout < LAYOUTS; layout += LAYOUT_PLANAR_PADDED) {
                pool_used = 0;
                bs_graph *g = new_graph();
                const int32_t *d = dims[rank - 2], n = transposed ? 3 : 7;
                bs_shape a = bs_shape_of(rank, d[0], d[1], d[2], d[3]), b = a;
                b.dim[rank - 2] = transposed ? 7 : 5;
                b.dim[rank - 1] = transposed ? 5 : 7;
                bs_matmul(g, bs_input(g, "a", BS_F32, a), bs_input(g, "b", BS_F32, b),
                          &(bs_matmul_desc){.transpose_b = transposed, .scale = 2});
                op_case c = op_case_new(g, bs_tier_best(), layout);
                bool same = op_case_run(&c) == BS_OK && n > 0;
                for (walk w = walk_box(&c.out[0].operand, c.out[0].operand.rect); w.more; walk_next(&w)) {
                    float sum = 0;
                    for (int32_t k = 0; k < 5; k++) {
                        int32_t x[4] = {w.at[0], w.at[1], w.at[2], w.at[3]},
                                y[4] = {w.at[0], w.at[1], w.at[2], w.at[3]};
                        x[rank - 1] = k;
                        y[rank - 2] = transposed ? w.at[rank - 1] : k;
                        y[rank - 1] = transposed ? k : w.at[rank - 1];
                        sum += *(const float *)(const void *)storage_at(&c.in[0], 0, x) *
                               *(const float *)(const void *)storage_at(&c.in[1], 0, y);
                    }
                    same = same && fabsf(*(const float *)(const void *)storage_at(&c.out[0], 0, w.at) - 2 * sum) <=
                                       1e-5f * (1 + fabsf(sum));
                }
                check(same, "a product of rank %d%s, layout %d", rank, transposed ? ", b transposed" : "", layout);
            }
}

/* The next quarter of a power of two would be beyond the last bucket; sums beyond 2^32 are its. */
static void test_features(void)
{
    for (int32_t type = 0; type < 2; type++)
        for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
            pool_used = 0;
            bs_graph *g = new_graph();
            const bs_dtype dtype = type ? BS_U16 : BS_U8;
            bs_patch_features(g, bs_input(g, "x", dtype, BS_SHAPE3(1, 8, 8)),
                              bs_input(g, "old", dtype, BS_SHAPE3(1, 8, 8)),
                              &(bs_patch_features_desc){.buckets = 128, .code_bits = 8});
            op_case c = op_case_new(g, tier, LAYOUT_PLANAR);
            for (int32_t i = 0; i < 64; i++) /* a board of black and white: no code is as far from its neighbours */
                memset(storage_at(&c.in[0], 0, (int32_t[]){0, i / 8, i % 8}), (i / 8 + i % 8) % 2 ? 255 : 0,
                       type ? 2 : 1);
            for (int32_t i = 0; i < 64; i++)
                memset(storage_at(&c.in[1], 0, (int32_t[]){0, i / 8, i % 8}), (i / 8 + i % 8) % 2 ? 0 : 255,
                       type ? 2 : 1);
            const bs_status status = op_case_run(&c);
            const int32_t *features = c.out[0].operand.data;
            const double change = type ? 65535.0 : 255.0;
            const int32_t expected = bs_min_i32(127,
                                                1 + (int32_t)floor(4 * log2(fmin(16 * change * change, 4294967295.0))));
            check(status == BS_OK && features[1] == expected, "the largest change of %s is in bucket %d, tier %s",
                  bs_dtype_name(dtype), features[1], bs_tier_name(tier));
        }
}

/* NaN becomes 0, or the least code there is when 0 is none of them. */
static void test_codes(void)
{
    static const struct {
        bs_dtype to;
        float from;
        int32_t code;
    } cases[] = {{BS_U8, NAN, 0},           {BS_I8, NAN, 0},           {BS_I32, NAN, 0}, {BS_I8, -INFINITY, -128},
                 {BS_U16, INFINITY, 65535}, {BS_I32, 3e9f, INT32_MAX}, {BS_U8, 2.5f, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int32_t layout = 0; layout < LAYOUTS; layout += LAYOUT_PLANAR_PADDED) {
            pool_used = 0;
            bs_graph *g = new_graph();
            bs_convert(g, bs_input(g, "x", BS_F32, BS_SHAPE1(3)), &(bs_convert_desc){.dtype = (int32_t)cases[i].to});
            op_case c = op_case_new(g, bs_tier_best(), layout);
            *(float *)c.in[0].operand.data = cases[i].from;
            const bs_status status = op_case_run(&c);
            const tensor t = storage_drain(&c.out[0]);
            const int32_t code = cases[i].to == BS_I32 ? *(const int32_t *)(const void *)t.data
                                                       : (int32_t)bs_load_f32(t.data, cases[i].to, 0);
            check(status == BS_OK && code == cases[i].code, "%g as %s is %d, layout %d", (double)cases[i].from,
                  bs_dtype_name(cases[i].to), cases[i].code, layout);
        }
}

/* The epilogue of super-resolution in one kernel: what shuffle, sum and conversion give one after the other. */
static void test_fusion(void)
{
    static const struct {
        bs_dtype codes;
        float scale;
        int32_t bits;
    } cases[] = {{BS_U8, 255, 0}, {BS_U8, 0, 0}, {BS_U16, 1023, 10}, {BS_U16, 65535, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
            pool_used = 0;
            bs_graph *g = new_graph();
            const bs_value sum = bs_add(g, bs_pixel_shuffle(g, bs_input(g, "tail", BS_F32, BS_SHAPE3(4, 8, 6)), 2),
                                        bs_input(g, "base", BS_F32, BS_SHAPE3(1, 16, 12)));
            bs_convert(g, sum,
                       &(bs_convert_desc){
                           .dtype = (int32_t)cases[i].codes, .scale = cases[i].scale, .code_bits = cases[i].bits});
            op_case c = op_case_new(g, tier, LAYOUT_LAST);
            const int32_t dims[2][3] = {{4, 8, 6}, {1, 16, 12}};
            for (int32_t k = 0; k < 2; k++) {
                c.in[k] = storage_new(BS_F32, 1, 3, dims[k], whole_rect(3, dims[k]), 0, LAYOUT_LAST);
                tensor t = tensor_new(BS_F32, 1, 3, dims[k]);
                tensor_randomise(&t);
                storage_fill(&c.in[k], &t, 0, 0);
                c.r.in[k] = c.in[k].operand;
            }
            c.r.plan.fusion = 1;
            const bs_status status = op_case_run(&c);
            const tensor t = storage_drain(&c.out[0]);
            const float scale = cases[i].scale != 0 ? cases[i].scale : 1,
                        high = cases[i].codes == BS_U8 ? 255.0f
                                                       : (float)((1 << (cases[i].bits ? cases[i].bits : 16)) - 1);
            bool same = status == BS_OK;
            for (int32_t k = 0; k < 16 * 12; k++) {
                const int32_t y = k / 12, x = k % 12;
                const float tail = *(const float *)(const void *)storage_at(
                    &c.in[0], 0, (int32_t[]){y % 2 * 2 + x % 2, y / 2, x / 2});
                const float base = *(const float *)(const void *)storage_at(&c.in[1], 0, (int32_t[]){0, y, x});
                const float code = rintf(fminf(fmaxf((tail + base) * scale, 0), high));
                same = same && bs_load_f32(t.data, cases[i].codes, k) == code;
            }
            check(same && storage_is_poison(&c.out[0]), "shuffle, sum and %s at scale %g in one kernel, tier %s",
                  bs_dtype_name(cases[i].codes), (double)cases[i].scale, bs_tier_name(tier));
        }
}

/* Minimum and maximum are NaN where either operand is; a choice keeps the bits of what it takes. */
static void test_nan_of_two(void)
{
    static const float x[2][4] = {{NAN, 1, 2, NAN}, {1, NAN, 3, NAN}};
    for (int32_t kind = BS_BINARY_MIN; kind <= BS_BINARY_MAX; kind++) {
        pool_used = 0;
        bs_graph *g = new_graph();
        bs_binary(g, bs_input(g, "a", BS_F32, BS_SHAPE1(4)), bs_input(g, "b", BS_F32, BS_SHAPE1(4)),
                  (bs_binary_kind)kind);
        op_case c = op_case_new(g, BS_TIER_SCALAR, LAYOUT_PLANAR);
        for (int32_t i = 0; i < 2; i++)
            memcpy(c.r.in[i].data, x[i], sizeof x[i]);
        op_case_run(&c);
        const float *y = out_f32(&c);
        check(isnan(y[0]) && isnan(y[1]) && isnan(y[3]) && y[2] == (kind == BS_BINARY_MIN ? 2 : 3),
              "%s with NaN: %g %g %g %g", kind == BS_BINARY_MIN ? "min" : "max", (double)y[0], (double)y[1],
              (double)y[2], (double)y[3]);
    }
}

/* ------------------------------------------------------------------------------------------------------------- a
 * device */

/* Lines of a linear layer begin at multiples of 16 bytes there, in f32 or f16. */
static void test_linear_of_devices(void)
{
    for (int32_t half = 0; half < 2; half++)
        for (int32_t with = 0; with < 2; with++) {
            pool_used = 0;
            bs_graph *g = new_graph();
            bs_linear(g, bs_input(g, "x", BS_F32, BS_SHAPE1(5)),
                      &(bs_linear_desc){.name = "l", .out = 3, .no_bias = !with, .act = with ? BS_PRELU : BS_RELU});
            op_run r = op_run_of(g, BS_TIER_CUDA);
            op_random_weights(&r);
            memset(&r.plan, 0, sizeof r.plan);
            r.plan.tier = BS_TIER_CUDA;
            r.plan.half = half;
            r.op->rules->plan(g, r.node, BS_CONV_AUTO, 1, 1, &r.plan);
            uint8_t *prepared = pool_take((size_t)bs_bytes_figure(r.plan.prepared_bytes));
            bs_weight_prepare(g, r.node, &r.plan, r.weights, prepared);
            const int32_t line = half ? 16 : 32;
            const float *weight = r.weights[0];
            bool same = true;
            for (int32_t o = 0; o < 3; o++)
                for (int32_t k = 0; k < line / (half ? 2 : 4); k++) {
                    const float expected = k < 5 ? weight[5 * o + k] : 0;
                    const float there = bs_load_f32(prepared + o * line, half ? BS_F16 : BS_F32, k);
                    same = same && there == (half ? bs_f16_to_f32(bs_f32_to_f16(expected)) : expected);
                }
            const float *bias = (const float *)(const void *)(bs_bytes_at(prepared,
                                                                          bs_bytes_align(bs_bytes_array(line, 3))));
            for (int32_t o = 0; o < 3; o++)
                same = same && bias[o] == (with ? ((const float *)r.weights[1])[o] : 0);
            check(same, "weights of a device in %s: padded lines, then the bias%s", half ? "f16" : "f32",
                  with ? " and slopes" : ", 0 without one");
        }
}

int main(void)
{
    check_seed(1);
    test_borders();
    test_cubics();
    test_images();
    test_no_pixels();
    test_small_symbols();
    test_lines();
    test_matmul();
    test_features();
    test_codes();
    test_fusion();
    test_nan_of_two();
    test_linear_of_devices();
    return check_end();
}
