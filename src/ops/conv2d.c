/* ops/conv2d.c - convolution: shape rule, folding of batch norm, the plain reference, and calls of the fast kernels.
 * Relies on kernels/conv.h. Must never decide padding in a kernel: storage is zero outside an operand's rect, so both
 * the reference and the kernels simply read windows. Bands of a Winograd node must start at multiples of 4 rows below
 * rect.y0. */
#include "ops/forms.h"

enum { BS_FOLD_FLOATS = 16384 };

/* Bounds that keep every product of the geometry far inside 32 bits. */
static const bs_field conv2d_fields[] = {
    BS_INT_OF("out", 1, 1 << 20),
    BS_INT_OF("kernel", 0, BS_WINDOW_MOST),
    BS_INT_OF("kernel_h", 0, BS_WINDOW_MOST),
    BS_INT_OF("kernel_w", 0, BS_WINDOW_MOST),
    BS_INT_OF("stride", 0, BS_WINDOW_MOST),
    BS_INT("pad"),
    BS_INT_OF("dilation", 0, BS_WINDOW_MOST),
    BS_INT_OF("groups", BS_DEPTHWISE, 1 << 20),
    BS_INT("no_bias"),
    BS_INT("batch_norm"),
    BS_FIELD_OF("act", ACT),
    BS_FLOAT("act_param"),
    BS_NAMED("padding", PADDING),
    BS_WINDOW_FIELDS,
};

/* Before op set 3 a pad of -1 meant none. */
static void conv2d_upgrade(int32_t *fields, int32_t opset)
{
    int32_t *pad = &fields[5], *padding = &fields[12];
    if (opset < 3 && *padding == BS_PAD_DEFAULT && *pad == -1) {
        *padding = BS_PAD_VALID;
        *pad = 0;
    }
    bs_upgrade_padding(opset, *pad, padding);
}

bs_conv2d_form bs_conv2d_form_of(const bs_conv2d_desc *desc, int32_t channels)
{
    const int32_t square = bs_or_default(desc->kernel, 3);
    bs_window w = BS_WINDOW_OF(desc, bs_conv2d_desc, bs_or_default(desc->kernel_h, square),
                               bs_or_default(desc->kernel_w, square), bs_or_default(desc->stride, 1),
                               bs_or_default(desc->dilation, 1), desc->pad);
    for (int32_t i = 0; i < 2 && desc->padding == BS_PAD_DEFAULT; i++)
        w.axis[i].before = w.axis[i].after = bs_window_reach(&w.axis[i]) / 2;
    const int32_t groups = desc->groups == BS_DEPTHWISE ? channels : bs_or_default(desc->groups, 1);
    const bs_conv2d_form form = {{channels, desc->out, w.axis[0].kernel, w.axis[1].kernel, w.axis[0].stride,
                                  w.axis[1].stride, w.axis[0].dilation, w.axis[1].dilation, groups},
                                 w};
    return form;
}

static bs_conv2d_form conv2d_form_at(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return bs_conv2d_form_of(node->params, (int32_t)bs_dim_max(graph, x->dims[0]));
}

/* ------------------------------------------------------------------------------------------------- shape rule */

static bool conv2d_infer(bs_infer *infer)
{
    const bs_conv2d_desc *desc = infer->params;
    int32_t channels;
    if (!bs_infer_padding(infer, desc->padding, desc->pad, BS_WINDOW_SIDES(desc), 1 << 15) ||
        !bs_infer_image(infer, 0, &channels))
        return false;
    const bs_conv2d_form form = bs_conv2d_form_of(desc, channels);
    if (channels % form.geometry.groups != 0 || desc->out % form.geometry.groups != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension 0: %" PRId32 " channels in and %" PRId32 " out are not divisible by %" PRId32
                             " groups",
                             channels, desc->out, form.geometry.groups);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, desc->out);
    return bs_infer_window(infer, &form.window);
}

static int32_t conv2d_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    const bs_conv2d_form form = conv2d_form_at(graph, node);
    (void)index;
    return bs_window_halo(&form.window, out_margin);
}

static double conv2d_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    return 2.0 * g.kernel_h * g.kernel_w * (g.in_channels / g.groups) * bs_value_work(graph, node->first_out);
}

/* ---------------------------------------------------------------------------------------------------- weights */

static int32_t conv2d_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    static const char *const norm[] = {"bn.weight", "bn.bias", "bn.mean", "bn.var"};
    const bs_conv2d_desc *desc = node->params;
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    int32_t n = 0;
    specs[n++] = bs_weight_of("weight", 4, g.out_channels, g.in_channels / g.groups, g.kernel_h, g.kernel_w);
    if (!desc->no_bias)
        specs[n++] = bs_weight_vector("bias", g.out_channels);
    for (int32_t i = 0; desc->batch_norm && i < 4; i++)
        specs[n++] = bs_weight_vector(norm[i], g.out_channels);
    if (desc->act == BS_PRELU)
        specs[n++] = bs_weight_vector("prelu", g.out_channels);
    return n;
}

static bs_bytes conv2d_weight_floats(const bs_conv_geometry *g)
{
    return bs_bytes_times(bs_bytes_times(bs_bytes_array(g->out_channels, 1), g->in_channels / g->groups),
                          (int64_t)g->kernel_h * g->kernel_w);
}

static bs_bytes conv2d_bytes(bs_bytes floats) { return bs_bytes_times(floats, sizeof(float)); }

/* Pixels of an image that the kernel makes, at most. */
static int64_t conv2d_pixels(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *out = &graph->values[node->first_out];
    const int32_t r = bs_node_phases(graph, node);
    return bs_dim_max(graph, out->dims[1]) / r * (bs_dim_max(graph, out->dims[2]) / r);
}

/* Whether all images have few of them, whatever a run brings and however they are cut into patches. */
static bool conv2d_has_few_pixels(const bs_graph *graph, const bs_node *node)
{
    enum { FEW = 128 };
    const bs_value_info *out = &graph->values[node->first_out];
    const int64_t pixels = conv2d_pixels(graph, node);
    return bs_dim_is_const(graph, out->dims[1]) && bs_dim_is_const(graph, out->dims[2]) && pixels <= FEW &&
           pixels * graph->domains[out->domain].max_rows <= FEW;
}

/* Whether Winograd takes less time. Below 8 channels the transforms cost more than the products they save; weights that
 * are not stored transformed are transformed in each call, which a few pixels are not worth. */
static bool conv2d_winograd_pays(const bs_conv_geometry *g, bs_tier tier, bool few_pixels)
{
    const bool stored = bs_conv_prepared_floats(g, BS_CONV_WINOGRAD4, tier) >
                        2 * bs_conv_prepared_floats(g, BS_CONV_DIRECT, tier);
    return g->in_channels >= 8 && g->out_channels >= 8 && (!few_pixels || stored || tier == BS_TIER_CUDA);
}

static int32_t conv2d_algorithm(const bs_conv_geometry *g, const bs_node_plan *plan, bs_conv_choice choice,
                                bool few_pixels)
{
    const bs_tier tier = plan->tier;
    const bool wanted = choice == BS_CONV_FORCE_WINOGRAD ||
                        (choice == BS_CONV_AUTO && conv2d_winograd_pays(g, tier, few_pixels));
    if (choice == BS_CONV_FORCE_REFERENCE)
        return BS_CONV_REFERENCE;
    if (wanted && bs_conv_supports(g, BS_CONV_WINOGRAD4, tier))
        return BS_CONV_WINOGRAD4;
    if (plan->half && bs_conv_supports(g, BS_CONV_TENSOR, tier))
        return BS_CONV_TENSOR;
    return bs_conv_supports(g, BS_CONV_DIRECT, tier) ? BS_CONV_DIRECT : BS_CONV_REFERENCE;
}

/* Floats of the packed weights. */
static bs_bytes conv2d_packed_floats(const bs_conv_geometry *g, const bs_node_plan *plan)
{
    return plan->algorithm == BS_CONV_REFERENCE
               ? conv2d_weight_floats(g)
               : bs_bytes_of(bs_conv_prepared_floats(g, (bs_conv_algorithm)plan->algorithm, plan->tier));
}

bs_epilogue_layout bs_conv2d_layout(const bs_conv2d_desc *desc, const bs_conv_geometry *g, const bs_node_plan *plan)
{
    return bs_epilogue_place(conv2d_bytes(conv2d_packed_floats(g, plan)), desc->out, desc->act);
}

/* Outputs whose folded weights are packed at a time. */
static int32_t conv2d_fold_rows(const bs_conv_geometry *g)
{
    const int64_t each = (int64_t)g->in_channels / g->groups * g->kernel_h * g->kernel_w;
    const int64_t most = BS_FOLD_FLOATS / each; /* NOLINT(clang-analyzer-core.DivideZero): 1 or more */
    return (int32_t)bs_max_i64(bs_min_i64(g->out_channels, most), 1);
}

#ifdef BS_SMALL
#define CONV2D_PHASES(plan) ((void)(plan), 1)
#else
#define CONV2D_PHASES(plan) (plan)->phases
/* r of the step behind it that a kernel whose blocks have so many outputs can do (bs_conv_task.phases), or 1. */
static uint8_t conv2d_phases(const bs_graph *graph, const bs_node *node, int32_t block)
{
    const bs_conv2d_desc *desc = node->params;
    const int32_t r = bs_node_phases(graph, node);
    const bool plain = desc->act == BS_ACT_NONE || desc->act == BS_RELU;
    return r > 1 && block > 0 && plain && desc->out / (r * r) % block == 0 ? (uint8_t)r : 1;
}
#endif

/* What Winograd's kernels do with images; direct ones of many products keep partial sums where the result goes, which a
 * residual would prevent. */
static void conv2d_plan_winograd(const bs_graph *graph, const bs_node *node, const bs_conv_geometry *g,
                                 bs_node_plan *plan)
{
    plan->grain = BS_CONV_WINOGRAD_TILE;
    plan->adds = ((const bs_conv2d_desc *)node->params)->act == BS_ACT_NONE;
#ifndef BS_SMALL
    plan->phases = conv2d_phases(graph, node, bs_conv_block_outputs(g, BS_CONV_WINOGRAD4, plan->tier));
#else
    (void)graph, (void)g;
#endif
}

/* Prepared memory: packed weights, bias, slopes; and with batch norm, behind them, room for some folded weights before
 * they are packed (the tensor itself may be mapped read-only). Folding at export saves this room. */
static void conv2d_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                        bs_node_plan *plan)
{
    const bs_conv2d_desc *desc = node->params;
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    enum { ENOUGH = 2048 };
    (void)max_h, (void)max_w;
    plan->algorithm = conv2d_algorithm(&g, plan, choice, conv2d_has_few_pixels(graph, node));
    plan->prepared_bytes = bs_conv2d_layout(desc, &g, plan).bytes;
    if (plan->algorithm == BS_CONV_REFERENCE)
        return;
    if (plan->algorithm == BS_CONV_WINOGRAD4)
        conv2d_plan_winograd(graph, node, &g, plan);
    /* Winograd reads, or makes, its weights once for all tiles of a call, some strips of them; direct kernels theirs
     * once for all pixels of small images. */
    plan->images = 1 + (int32_t)(ENOUGH / (1 + conv2d_pixels(graph, node)));
    plan->scratch_bytes = conv2d_bytes(
        bs_bytes_of(bs_conv_scratch_floats(&g, (bs_conv_algorithm)plan->algorithm, plan->tier)));
    const bs_bytes row = bs_bytes_share(conv2d_bytes(conv2d_weight_floats(&g)), (uint64_t)g.out_channels);
    if (desc->batch_norm)
        plan->prepared_bytes = bs_bytes_add(plan->prepared_bytes,
                                            bs_bytes_align(bs_bytes_times(row, conv2d_fold_rows(&g))));
}

/* ---------------------------------------------------------------------------------------------------- prepare */

/* Batch norm y = (x - mean) scale + shift, scale = weight / sqrt(var + 1e-5), is linear: it goes into weights and
 * bias. */
static float conv2d_norm_scale(const float *const *norm, int32_t o)
{
    return norm[0] ? norm[0][o] / sqrtf(norm[3][o] + 1e-5f) : 1.0f;
}

/* Where the kernel has output o: phase after phase, if it stores an image r times as large. */
static int32_t conv2d_place(int32_t o, int32_t channels, int32_t r)
{
    return o % (r * r) * (channels / (r * r)) + o / (r * r);
}

static void conv2d_fold_bias(const float *bias, const float *const *norm, int32_t channels, int32_t r, float *target)
{
    for (int32_t o = 0; o < channels; o++) {
        const float plain = bias ? bias[o] : 0.0f;
        target[conv2d_place(o, channels, r)] =
            norm[0] ? (plain - norm[2][o]) * conv2d_norm_scale(norm, o) + norm[1][o] : plain;
    }
}

/* Weights of outputs first .. first + count. */
static void conv2d_fold_weights(const float *weight, const float *const *norm, int32_t first, int32_t count,
                                uint64_t each, float *target)
{
    for (int32_t o = first; o < first + count; o++) {
        const float scale = conv2d_norm_scale(norm, o);
        for (uint64_t i = 0; i < each; i++)
            *target++ = *weight++ * scale;
    }
}

static void conv2d_pack(const bs_conv_geometry *g, const bs_node_plan *plan, const float *weight,
                        const float *const *norm, int32_t first, int32_t count, int32_t r, bs_bytes behind,
                        void *prepared)
{
    const uint64_t each = bs_bytes_figure(bs_bytes_share(conv2d_weight_floats(g), (uint64_t)g->out_channels));
    float *folded = (float *)(void *)bs_bytes_at(prepared, behind);
    if (plan->algorithm == BS_CONV_REFERENCE) {
        conv2d_fold_weights(weight, norm, first, count, each, (float *)prepared + (uint64_t)first * each);
        return;
    }
    for (int32_t rows; count > 0; first += rows, count -= rows, weight += (uint64_t)rows * each) {
        rows = r > 1 ? 1 : norm[0] ? bs_min_i32(count, conv2d_fold_rows(g)) : count;
        if (norm[0])
            conv2d_fold_weights(weight, norm, first, rows, each, folded);
        bs_conv_prepare_rows(g, (bs_conv_algorithm)plan->algorithm, plan->tier,
                             r > 1 ? conv2d_place(first, g->out_channels, r) : first, rows,
                             norm[0] ? folded : weight, prepared);
    }
}

static bool conv2d_same_layout(const bs_graph *graph, const bs_node *a, const bs_node *b)
{
    const bs_conv_geometry g = conv2d_form_at(graph, a).geometry, h = conv2d_form_at(graph, b).geometry;
    return g.groups == h.groups && g.stride_h == h.stride_h && g.stride_w == h.stride_w &&
           g.dilation_h == h.dilation_h && g.dilation_w == h.dilation_w &&
           bs_node_phases(graph, a) == bs_node_phases(graph, b);
}

static void conv2d_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                           const void *const *weights, int32_t first, int32_t count, void *prepared)
{
    const bs_conv2d_desc *desc = node->params;
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    const bs_epilogue_layout layout = bs_conv2d_layout(desc, &g, plan);
    int32_t next = 1;
    const float *bias = desc->no_bias ? NULL : weights[next++];
    const float *norm[4] = {NULL, NULL, NULL, NULL};
    if (desc->batch_norm)
        for (int32_t i = 0; i < 4; i++)
            norm[i] = weights[next++];
    const int32_t r = CONV2D_PHASES(plan);
    conv2d_fold_bias(bias, norm, desc->out, r, (float *)(void *)bs_bytes_at(prepared, layout.bias));
    if (desc->act == BS_PRELU)
        memcpy(bs_bytes_at(prepared, layout.slopes), weights[next], 4 * (size_t)desc->out);
    conv2d_pack(&g, plan, weights[0], norm, first, count, r, layout.bytes, prepared);
}

/* -------------------------------------------------------------------------------------------------- reference */

/* Sum of one output element over ky, kx, ci in this order. x: first sample of its window, first channel of its
 * group. */
static float conv2d_sum(const bs_conv_geometry *g, const bs_operand *in, const float *x, const float *weight)
{
    const int32_t channels = g->in_channels / g->groups, taps = g->kernel_h * g->kernel_w;
    float sum = 0.0f;
    for (int32_t ky = 0; ky < g->kernel_h; ky++)
        for (int32_t kx = 0; kx < g->kernel_w; kx++) {
            const float *tap = x + ky * g->dilation_h * in->stride[1] + kx * g->dilation_w * in->stride[2];
            for (int32_t c = 0; c < channels; c++)
                sum += tap[c * in->stride[0]] * weight[(ptrdiff_t)c * taps + ky * g->kernel_w + kx];
        }
    return sum;
}

static void conv2d_reference(const bs_call *call, const void *of, const bs_epilogue *epilogue, int32_t row)
{
    const bs_conv2d_form *form = of;
    const bs_conv_geometry *g = &form->geometry;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t in_group = g->in_channels / g->groups, out_group = g->out_channels / g->groups;
    const ptrdiff_t each = (ptrdiff_t)in_group * g->kernel_h * g->kernel_w;
    const float *x = bs_f32_at(in, row * in->row_stride);
    float *y = bs_f32_at(out, row * out->row_stride);
    for (int32_t o = 0; o < g->out_channels; o++) {
        const float *group = x + (ptrdiff_t)(o / out_group) * in_group * in->stride[0];
        const float *weight = (const float *)call->prepared + o * each;
        for (int32_t oy = out->rect.y0; oy < out->rect.y1; oy++)
            for (int32_t ox = out->rect.x0; ox < out->rect.x1; ox++) {
                const float *window = group + (oy * g->stride_h - form->window.axis[0].before) * in->stride[1] +
                                      (ox * g->stride_w - form->window.axis[1].before) * in->stride[2];
                y[o * out->stride[0] + oy * out->stride[1] + ox * out->stride[2]] =
                    bs_epilogue_apply(epilogue, o, conv2d_sum(g, in, window, weight));
            }
    }
}

/* ------------------------------------------------------------------------------------------------------- fast */

static void conv2d_fast(const bs_call *call, const void *of, const bs_epilogue *epilogue)
{
    const bs_conv2d_form *form = of;
    const bs_rect r = call->out[0].rect;
    const int32_t to[2] = {r.y0, r.x0};
    const int32_t from[2] = {r.y0 * form->geometry.stride_h - form->window.axis[0].before,
                             r.x0 * form->geometry.stride_w - form->window.axis[1].before};
    bs_conv_task task = bs_epilogue_task(call, from, to, 1);
    bs_epilogue_fuse(epilogue, &task);
    task.phases = call->phases;
    bs_conv_run(&form->geometry, (bs_conv_algorithm)call->plan->algorithm, call->plan->tier, &task);
}

static bs_status conv2d_run(const bs_call *call)
{
    const bs_conv2d_desc *desc = call->params;
    const bs_conv2d_form form = conv2d_form_at(call->graph, call->node);
    const bs_epilogue_layout layout =
        desc->batch_norm ? bs_conv2d_layout(desc, &form.geometry, call->plan)
                         : bs_epilogue_at_end(call->plan->prepared_bytes, desc->out, desc->act);
    const bs_epilogue epilogue = bs_epilogue_of(call, &layout, desc->act, desc->act_param);
    return bs_epilogue_run(call, &form, &epilogue, conv2d_reference, conv2d_fast);
}

static const bs_op_rules conv2d_rules = {
    .weights = {.specs = conv2d_weights,
                .prepare = conv2d_prepare,
                .same_layout = conv2d_same_layout,
                .by_rows = true},
    .halo = conv2d_halo,
    .plan = conv2d_plan,
    .upgrade = conv2d_upgrade};

const bs_op bs_op_conv2d = {.name = "conv2d",
                            .min_in = 1,
                            .layout = {.images = true, .channels_last = true},
                            BS_PARAMS(bs_conv2d_desc, conv2d_fields),
                            .infer = conv2d_infer,
                            .flops = conv2d_flops,
                            .rules = &conv2d_rules,
                            .run = conv2d_run};

bs_value bs_conv2d(bs_graph *graph, bs_value x, const bs_conv2d_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_conv2d);
}
