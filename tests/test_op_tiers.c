/* tags: small asan shipped aarch64 32-bit */
/* test_op_tiers.c - random shapes: every tier agrees with the scalar reference; which of its algorithms it takes; an
 * activation has the same bytes in a product's pass and by itself.
 *
 * Usage: test_op_tiers [seed] */
#include "op_harness.h"

static int32_t some_extent(void) { return 1 + check_below(check_below(4) ? 12 : 40); }

static void build_random_conv(bs_graph *g, int32_t channels, int32_t h, int32_t w)
{
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(channels, h, w));
    const int32_t part = 1 + check_below(9), some = channels % part == 0 ? part : channels;
    const int32_t groups = check_below(3) ? 1 : some, padding = check_below(3) ? BS_PAD_DEFAULT : check_below(3);
    const bs_conv2d_desc desc = {.name = "conv",
                                 .out = groups * (1 + check_below(check_below(2) ? 8 : 40)),
                                 .kernel = 1 + check_below(5),
                                 .stride = 1 + check_below(4) / 3,
                                 .padding = padding,
                                 .pad = padding == BS_PAD_EXPLICIT ? check_below(5) : 0,
                                 .dilation = 1 + check_below(5) / 4,
                                 .kernel_w = check_below(3) ? 0 : 1 + check_below(9),
                                 .stride_w = check_below(3) ? 0 : 1 + check_below(3),
                                 .dilation_h = check_below(4) ? 0 : 1 + check_below(3),
                                 .pad_left = padding == BS_PAD_EXPLICIT ? check_below(4) : 0,
                                 .pad_bottom = padding == BS_PAD_EXPLICIT ? check_below(4) : 0,
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

/* Pooling takes taps in one order wherever channels lie and however many a vector has, so bytes are the same. */
static void test_pool(void)
{
    const char *why = NULL;
    int32_t differ = 0, runs = 0;
    for (int32_t i = 0; i < 200 && !why; i++) {
        const size_t mark = pool_used;
        const int32_t dim[] = {1 + check_below(80), some_extent(), some_extent()};
        const bs_pool2d_desc desc = {.kind = check_below(2),
                                     .kernel = 1 + check_below(4),
                                     .stride = check_below(4),
                                     .padding = BS_PAD_EXPLICIT,
                                     .pad_left = check_below(2),
                                     .pad_bottom = check_below(2),
                                     .count_pad = check_below(2),
                                     .dilation_w = check_below(3),
                                     .global = check_below(3) == 0};
        bs_graph *g = new_graph();
        bs_error error;
        bs_pool2d(g, bs_input(g, "x", BS_F32, BS_SHAPE3(dim[0], dim[1], dim[2])), &desc);
        if (bs_graph_check(g, &error) != BS_OK)
            continue; /* the window was larger than the image, or its padding than the window */
        op_run r = op_run_of(g, BS_TIER_SCALAR);
        tensor x = tensor_new(BS_F32, 1, 3, dim);
        tensor_randomise(&x);
        ((float *)(void *)x.data)[check_below((int32_t)tensor_elements(&x))] = NAN;
        const tensor expected = run_whole(&r, &x, LAYOUT_PLANAR, &why);
        for (; r.tier != BS_TIER_AUTO && !why; r.tier = next_tier(r.tier), runs++) {
            const tensor got = run_whole(&r, &x, LAYOUT_LAST + check_below(2), &why);
            differ += memcmp(got.data, expected.data, 4 * (size_t)tensor_elements(&got)) != 0;
        }
        pool_used = mark;
    }
    check(!why && runs > 100 && differ == 0, "pool2d: %d of %d runs differ from planes by the scalar tier%s%s", differ,
          runs, why ? ": " : "", why ? why : "");
}

static tensor run_of(bs_graph *g, bs_tier tier, const tensor *x, int32_t layout, const char **why)
{
    op_run r = op_run_of(g, tier);
    check_state = 7; /* the same weights each time */
    op_random_weights(&r);
    return run_whole(&r, x, layout, why);
}

static bs_graph *product_graph(bool conv, int32_t act)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(5, 6, 23));
    if (conv)
        bs_conv2d(g, x, &(bs_conv2d_desc){.name = "c", .out = 21, .kernel = 3, .act = act});
    else
        bs_linear(g, x, &(bs_linear_desc){.name = "fc", .out = 21, .act = act});
    return g;
}

/* An activation gives the same bytes in a product's own pass and by itself: of a reference, which asks libm, not. */
static void test_activated(bool conv, bs_tier tier)
{
    const int32_t acts[] = {BS_SIGMOID, BS_TANH, BS_GELU, BS_SILU}, dim[] = {5, 6, 23};
    const char *why = NULL;
    int32_t differ = 0;
    for (int32_t i = 0; i < 4 * LAYOUTS; i++) {
        const size_t mark = pool_used;
        const int32_t layout = conv ? LAYOUT_LAST : i / 4;
        tensor x = tensor_new(BS_F32, 1, 3, dim);
        tensor_randomise(&x);
        const tensor together = run_of(product_graph(conv, acts[i % 4]), tier, &x, layout, &why);
        const tensor plain = run_of(product_graph(conv, BS_ACT_NONE), tier, &x, layout, &why);
        bs_graph *g = new_graph();
        bs_activation(g, bs_input(g, "x", BS_F32, BS_SHAPE3(plain.dim[0], plain.dim[1], plain.dim[2])),
                      (bs_act)acts[i % 4], 0);
        const tensor apart = run_of(g, tier, &plain, (i + 1) % LAYOUTS, &why);
        differ += memcmp(together.data, apart.data, 4 * (size_t)tensor_elements(&apart)) != 0;
        pool_used = mark;
    }
    check(!why && differ == 0, "%s, %s: %d activations differ from those by themselves%s%s", conv ? "conv2d" : "linear",
          bs_tier_name(tier), differ, why ? ": " : "", why ? why : "");
}

/* ------------------------------------------------------------------------------------------------- recurrent */

static bs_graph *recurrent_graph(bool gru, int32_t lines, int32_t inputs, int32_t units)
{
    bs_graph *g = new_graph();
    const bool projected = inputs == (gru ? 3 : 4) * units;
    const bs_recurrent_desc desc = {.name = "net", .no_bias = units % 2, .projected = projected};
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(lines, inputs)),
                   h = bs_input(g, "h", BS_F32, BS_SHAPE2(lines, units)),
                   c = bs_input(g, "c", BS_F32, BS_SHAPE2(lines, units));
    bs_value next;
    if (gru)
        bs_gru(g, x, h, &desc);
    else
        bs_lstm(g, x, h, c, &desc, &next);
    return g;
}

/* Lines first .. first + lines of x, h, c. Returns h', and c' of an LSTM after it. */
static void recurrent_run(op_run *r, const tensor *in, int32_t first, int32_t layout, tensor *out, const char **why)
{
    const size_t mark = pool_used;
    const int32_t lines = (int32_t)bs_dim_max(r->graph, bs_value_get(r->graph, r->node->first_out)->dims[0]);
    storage to[2];
    for (int32_t i = 0; i < r->node->n_in; i++) {
        const int32_t dim[2] = {lines, in[i].dim[1]};
        tensor part = {BS_F32, 1, 2, {dim[0], dim[1]}, in[i].data + 4 * (ptrdiff_t)first * dim[1]};
        storage s = storage_new(BS_F32, 1, 2, dim, whole_rect(2, dim), 0, layout);
        storage_fill(&s, &part, 0, 0);
        r->in[i] = s.operand;
    }
    for (int32_t i = 0; i < r->node->n_out; i++) {
        to[i] = storage_of_output(r, i, 1, layout);
        r->out[i] = to[i].operand;
    }
    if (r->op->run(op_call(r)) != BS_OK)
        *why = "run failed";
    for (int32_t i = 0; i < r->node->n_out; i++) {
        const tensor got = storage_drain(&to[i]);
        memcpy(out[i].data + 4 * (ptrdiff_t)first * got.dim[1], got.data, 4 * (size_t)tensor_elements(&got));
        if (!storage_is_poison(&to[i]))
            *why = "wrote beside its output";
    }
    pool_used = mark;
}

/* All lines, `each` at a time: 0 makes it the reference. */
static void recurrent_in(bool gru, bs_tier tier, int32_t each, const tensor *in, int32_t layout, tensor *out,
                         const char **why)
{
    const int32_t lines = in[0].dim[0];
    out[0] = tensor_new(BS_F32, 1, 2, in[1].dim);
    out[1] = tensor_new(BS_F32, 1, 2, in[1].dim);
    const size_t mark = pool_used;
    for (int32_t first = 0; first < lines; first += each ? each : lines) {
        bs_graph *g = recurrent_graph(gru, each ? bs_min_i32(each, lines - first) : lines, in[0].dim[1], in[1].dim[1]);
        op_run r = op_run_of(g, each ? tier : BS_TIER_SCALAR);
        check_state = 7; /* the same weights each time */
        op_random_weights(&r);
        op_prepare(&r, 1, 1);
        recurrent_run(&r, in, first, layout, out, why);
        pool_used = mark;
    }
}

/* Steps of lstm and gru: near the reference, and the same bytes whatever lines are together and however they lie. */
static void test_recurrent(bool gru, bs_tier tier)
{
    const char *why = NULL;
    double worst = 0;
    int32_t differ = 0;
    for (int32_t i = 0; i < 40; i++) {
        const size_t mark = pool_used;
        const int32_t lines = 1 + check_below(i % 4 ? 9 : 70), units = 1 + check_below(i % 5 ? 60 : 210),
                      inputs = i % 4 == 1 ? (gru ? 3 : 4) * units : 1 + check_below(i % 3 ? 30 : 300);
        const uint64_t random = check_state;
        tensor in[3], expected[2], got[2], again[2];
        for (int32_t k = 0; k < 3; k++) {
            in[k] = tensor_new(BS_F32, 1, 2, (const int32_t[]){lines, k ? units : inputs});
            tensor_randomise(&in[k]);
        }
        recurrent_in(gru, tier, 0, in, LAYOUT_PLANAR, expected, &why);
        recurrent_in(gru, tier, lines, in, i % LAYOUTS, got, &why);
        recurrent_in(gru, tier, 1 + i % 6, in, (i + 1) % LAYOUTS, again, &why);
        for (int32_t k = 0; k < 2 - gru; k++) {
            const double distance = tensor_distance(&got[k], &expected[k]);
            worst = distance > worst ? distance : worst;
            differ += memcmp(got[k].data, again[k].data, 4 * (size_t)tensor_elements(&got[k])) != 0;
        }
        pool_used = mark;
        check_state = random + 1;
    }
    if (!why && worst > 2e-5) /* the reference adds one product after the other */
        why = "differs from the scalar reference";
    check(!why && differ == 0, "%s, %s: worst %.2g, %d differ by how lines are cut%s%s", gru ? "gru" : "lstm",
          bs_tier_name(tier), worst, differ, why ? ": " : "", why ? why : "");
}

/* A wide convolution picks Winograd by itself where the tier has it, but not where a call would transform more weights
 * than it has pixels for. */
static void test_algorithm(int32_t channels, bs_dim high, bs_dim wide, int32_t size, bool winograd)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(channels, high, wide));
    bs_conv2d(g, x, &(bs_conv2d_desc){.name = "c", .out = channels});
    op_run r = op_run_of(g, bs_tier_best());
    op_random_weights(&r);
    op_prepare(&r, size, size);
    const int32_t automatic = r.plan.algorithm;
    r.choice = BS_CONV_FORCE_DIRECT;
    op_prepare(&r, size, size);
    const bool scalar = bs_tier_best() == BS_TIER_SCALAR;
    check((automatic != r.plan.algorithm) == winograd || scalar,
          "conv2d of %d channels, %d x %d: algorithm %d by itself, %d when direct is asked for", channels, size, size,
          automatic, r.plan.algorithm);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_tiers("conv2d", build_random_conv, 60);
    test_tiers("deconv2d", build_random_deconv, 60);
    test_tiers("linear", build_random_linear, 40);
    test_tiers("bicubic", build_random_bicubic, 40);
    test_tiers("convert", build_random_codes, 60);
    test_tiers("patch_features", build_random_features, 40);
    test_pool();
    for (bs_tier tier = next_tier(BS_TIER_SCALAR); tier != BS_TIER_AUTO; tier = next_tier(tier)) {
        test_activated(true, tier);
        test_activated(false, tier);
        test_recurrent(false, tier);
        test_recurrent(true, tier);
    }
    test_algorithm(16, 20, 20, 20, true);
    test_algorithm(16, 3, 3, 3, true);
    test_algorithm(72, 12, 12, 12, true);
    test_algorithm(72, 8, 8, 8, false);
    test_algorithm(72, BS_UPTO(8), 8, 8, true); /* a plan for more gives the same bytes */
    test_algorithm(72, 8, BS_UPTO(8), 8, true);
    return check_end();
}
