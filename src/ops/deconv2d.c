/* ops/deconv2d.c - transposed convolution: the plain reference, and the fast way as stride x stride convolutions.
 * Relies on kernels/conv.h. Must never clip: storage is zero outside an operand's rect, as for conv2d.
 *
 * Output y takes input i through tap ky where i stride - pad + ky = y. With a = (y + pad) mod stride the taps are
 * ky = a, a + stride, ... and i = (y + pad - a) / stride - t for the t-th: outputs of one phase a are an ordinary
 * convolution with the taps of that phase in reverse. */
#include "ops/forms.h"

static const bs_field deconv2d_fields[] = {
    BS_INT_OF("out", 1, 1 << 20),
    BS_INT_OF("kernel", 0, 255),
    BS_INT_OF("stride", 0, 16),
    BS_INT("pad"),
    BS_INT_OF("output_pad", 0, 15),
    BS_INT("no_bias"),
    BS_FIELD_OF("act", ACT),
    BS_FLOAT("act_param"),
    BS_NAMED("padding", PADDING),
};

static void deconv2d_upgrade(int32_t *fields, int32_t opset) { bs_upgrade_padding(opset, fields[3], &fields[8]); }

bs_deconv2d_form bs_deconv2d_form_of(const bs_deconv2d_desc *desc, int32_t channels)
{
    const bs_deconv2d_form form = {
        channels,  desc->out,       bs_or_default(desc->kernel, 3), bs_or_default(desc->stride, 1),
        desc->pad, desc->output_pad};
    return form;
}

static bs_deconv2d_form deconv2d_form_at(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return bs_deconv2d_form_of(node->params, (int32_t)bs_dim_max(graph, x->dims[0]));
}

/* ------------------------------------------------------------------------------------------------- shape rule */

/* Pixels by which the result exceeds stride x operand. */
static int32_t deconv2d_extra(const bs_deconv2d_form *f) { return f->kernel - f->stride - 2 * f->pad + f->output_pad; }

static bool deconv2d_infer(bs_infer *infer)
{
    const bs_deconv2d_desc *desc = infer->params;
    int32_t channels;
    if (!bs_infer_padding(infer, desc->padding, desc->pad, 0, 255) || !bs_infer_image(infer, 0, &channels))
        return false;
    const bs_deconv2d_form f = bs_deconv2d_form_of(desc, channels);
    const int32_t extra = deconv2d_extra(&f);
    if (f.output_pad >= f.stride)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "output_pad %" PRId32 " is not below stride %" PRId32,
                             f.output_pad, f.stride);
    if (extra != 0 && bs_value_in_patches(infer->graph, infer->in[0]))
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimensions 1 and 2: kernel - stride - 2 pad + output_pad is %" PRId32
                             ", in a patch domain it must be 0",
                             extra);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, f.out);
    return bs_infer_frame(infer, f.stride, extra, extra, 1) && bs_infer_scale(infer, f.stride, 1);
}

/* Follows from the relation above for the last output (of stride x operand + extra) and its first tap; the first
 * output reaches no farther: floor((m - pad + kernel - 1) / stride). */
static int32_t deconv2d_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t m)
{
    const bs_deconv2d_form f = deconv2d_form_at(graph, node);
    (void)index;
    return bs_max_i32(0, (int32_t)bs_floor_div(m - f.pad + f.kernel - 1 + f.output_pad, f.stride));
}

static double deconv2d_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_deconv2d_form f = deconv2d_form_at(graph, node);
    return 2.0 * f.kernel * f.kernel * f.out * bs_value_work(graph, bs_node_in(graph, node)[0]);
}

/* ------------------------------------------------------------------------------------------- weights and phases */

static int32_t deconv2d_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_deconv2d_desc *desc = node->params;
    const bs_deconv2d_form f = deconv2d_form_at(graph, node);
    specs[0] = bs_weight_of("weight", 4, f.in, f.out, f.kernel, f.kernel);
    return bs_epilogue_weights(specs, 1, f.out, desc->no_bias, desc->act);
}

static bs_conv_geometry deconv2d_geometry(const bs_deconv2d_form *f, int32_t a, int32_t b)
{
    const bs_conv_geometry g = {f->in, f->out, bs_deconv2d_taps(f->kernel, f->stride, a),
                                bs_deconv2d_taps(f->kernel, f->stride, b), 1, 1, 1, 1, 1};
    return g;
}

/* Floats of the packed weights of all phases before phase (a, b); a = stride: of all phases. */
static bs_bytes deconv2d_packed(const bs_deconv2d_form *f, bs_tier tier, int32_t a, int32_t b)
{
    bs_bytes floats = bs_bytes_of(0);
    for (int32_t phase = 0; phase < a * f->stride + b; phase++) {
        const bs_conv_geometry g = deconv2d_geometry(f, phase / f->stride, phase % f->stride);
        if (g.kernel_h > 0 && g.kernel_w > 0)
            floats = bs_bytes_add(floats,
                                  bs_bytes_align_to(bs_bytes_of(bs_conv_prepared_floats(&g, BS_CONV_DIRECT, tier)),
                                                    16)); /* rounded up to whole cache lines */
    }
    return floats;
}

static ptrdiff_t deconv2d_before(const bs_deconv2d_form *f, bs_tier tier, int32_t a, int32_t b)
{
    return (ptrdiff_t)bs_bytes_figure(deconv2d_packed(f, tier, a, b)); /* fits: the whole lies in memory */
}

static bs_bytes deconv2d_plain_floats(const bs_deconv2d_form *f)
{
    return bs_bytes_times(bs_bytes_times(bs_bytes_array(f->in, 1), f->out), (int64_t)f->kernel * f->kernel);
}

bs_epilogue_layout bs_deconv2d_layout(const bs_deconv2d_form *f, const bs_node_plan *plan, int32_t act)
{
    const bool reference = plan->algorithm == BS_CONV_REFERENCE;
    return bs_epilogue_place(
        bs_bytes_times(reference ? deconv2d_plain_floats(f) : deconv2d_packed(f, plan->tier, f->stride, 0),
                       sizeof(float)),
        f->out, act);
}

/* Prepared: packed phases, bias, slopes, and room for one phase before it is packed. */
static void deconv2d_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                          int32_t max_w, bs_node_plan *plan)
{
    const bs_deconv2d_desc *desc = node->params;
    const bs_deconv2d_form f = deconv2d_form_at(graph, node);
    const bs_conv_geometry largest = deconv2d_geometry(&f, 0, 0);
    (void)max_h, (void)max_w;
    /* a GPU keeps windows in shared memory */
    const bool fast = choice != BS_CONV_FORCE_REFERENCE && bs_conv_supports(&largest, BS_CONV_DIRECT, plan->tier) &&
                      (plan->tier != BS_TIER_CUDA || largest.kernel_h <= 16);
    plan->algorithm = fast ? BS_CONV_DIRECT : BS_CONV_REFERENCE;
    plan->prepared_bytes = bs_deconv2d_layout(&f, plan, desc->act).bytes;
    if (fast)
        plan->prepared_bytes = bs_bytes_add(
            plan->prepared_bytes,
            bs_bytes_align(bs_bytes_times(bs_bytes_times(bs_bytes_array(f.in, 4 * (size_t)f.out), largest.kernel_h),
                                          largest.kernel_w)));
}

/* [C, out, k, k] -> [out, C, taps, taps] of one phase, reversed. */
static void deconv2d_phase(const bs_deconv2d_form *f, const bs_conv_geometry *g, int32_t a, int32_t b,
                           const float *weight, float *oihw)
{
    for (int32_t o = 0; o < f->out; o++)
        for (int32_t c = 0; c < f->in; c++)
            for (int32_t u = 0; u < g->kernel_h; u++)
                for (int32_t v = 0; v < g->kernel_w; v++) {
                    const int32_t ky = a + f->stride * (g->kernel_h - 1 - u),
                                  kx = b + f->stride * (g->kernel_w - 1 - v);
                    *oihw++ = weight[(((ptrdiff_t)c * f->out + o) * f->kernel + ky) * f->kernel + kx];
                }
}

static void deconv2d_pack(const bs_deconv2d_form *f, bs_tier tier, const float *weight, float *room, float *packed)
{
    for (int32_t phase = 0; phase < f->stride * f->stride; phase++) {
        const int32_t a = phase / f->stride, b = phase % f->stride;
        const bs_conv_geometry g = deconv2d_geometry(f, a, b);
        if (g.kernel_h <= 0 || g.kernel_w <= 0)
            continue;
        deconv2d_phase(f, &g, a, b, weight, room);
        bs_conv_prepare(&g, BS_CONV_DIRECT, tier, room, packed + deconv2d_before(f, tier, a, b));
    }
}

static bool deconv2d_same_layout(const bs_graph *graph, const bs_node *a, const bs_node *b)
{
    return deconv2d_form_at(graph, a).stride == deconv2d_form_at(graph, b).stride;
}

static void deconv2d_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                             const void *const *weights, int32_t first, int32_t count, void *prepared)
{
    (void)first, (void)count;
    const bs_deconv2d_desc *desc = node->params;
    const bs_deconv2d_form f = deconv2d_form_at(graph, node);
    const bs_epilogue_layout layout = bs_deconv2d_layout(&f, plan, desc->act);
    if (plan->algorithm == BS_CONV_REFERENCE)
        memcpy(prepared, weights[0], (size_t)bs_bytes_figure(bs_bytes_times(deconv2d_plain_floats(&f), sizeof(float))));
    else
        deconv2d_pack(&f, plan->tier, weights[0], (float *)(void *)bs_bytes_at(prepared, layout.bytes), prepared);
    bs_epilogue_prepare(&layout, f.out, desc->no_bias, desc->act, weights, prepared);
}

/* -------------------------------------------------------------------------------------------------- reference */

static int32_t deconv2d_first_tap(const bs_deconv2d_form *f, int32_t y)
{
    return (int32_t)(y + f->pad - bs_floor_div(y + f->pad, f->stride) * f->stride);
}

static float deconv2d_sum(const bs_deconv2d_form *f, const bs_operand *in, const float *x, const float *weight,
                          int32_t o, int32_t y0, int32_t x0)
{
    float sum = 0.0f;
    for (int32_t ky = deconv2d_first_tap(f, y0); ky < f->kernel; ky += f->stride)
        for (int32_t kx = deconv2d_first_tap(f, x0); kx < f->kernel; kx += f->stride) {
            const float *tap =
                x + (y0 + f->pad - ky) / f->stride * in->stride[1] + (x0 + f->pad - kx) / f->stride * in->stride[2];
            for (int32_t c = 0; c < f->in; c++)
                sum += tap[c * in->stride[0]] * weight[(((ptrdiff_t)c * f->out + o) * f->kernel + ky) * f->kernel + kx];
        }
    return sum;
}

static void deconv2d_reference(const bs_call *call, const void *form, const bs_epilogue *epilogue, int32_t row)
{
    const bs_deconv2d_form *f = form;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const float *x = bs_f32_at(in, row * in->row_stride);
    float *y = bs_f32_at(out, row * out->row_stride);
    for (int32_t oy = out->rect.y0; oy < out->rect.y1; oy++)
        for (int32_t ox = out->rect.x0; ox < out->rect.x1; ox++)
            for (int32_t o = 0; o < f->out; o++)
                y[o * out->stride[0] + oy * out->stride[1] + ox * out->stride[2]] =
                    bs_epilogue_apply(epilogue, o, deconv2d_sum(f, in, x, call->prepared, o, oy, ox));
}

/* ------------------------------------------------------------------------------------------------------- fast */

/* First coordinate >= low that belongs to phase a. */
static int32_t deconv2d_start(const bs_deconv2d_form *f, int32_t low, int32_t a)
{
    const int32_t behind = a - deconv2d_first_tap(f, low);
    return low + (behind < 0 ? behind + f->stride : behind);
}

static bs_conv_task deconv2d_task(const bs_call *call, const bs_deconv2d_form *f, const bs_conv_geometry *g, int32_t a,
                                  int32_t b)
{
    const bs_rect r = call->out[0].rect;
    const int32_t to[2] = {deconv2d_start(f, r.y0, a), deconv2d_start(f, r.x0, b)};
    const int32_t from[2] = {(to[0] + f->pad - a) / f->stride - (g->kernel_h - 1),
                             (to[1] + f->pad - b) / f->stride - (g->kernel_w - 1)};
    bs_conv_task task = bs_epilogue_task(call, from, to, f->stride);
    task.weights += deconv2d_before(f, call->plan->tier, a, b);
    return task;
}

/* A phase without taps gives the bias alone, with its activation where that is fused. */
static void deconv2d_fill(const bs_epilogue *epilogue, const bs_conv_task *task, int32_t channels, bool fused)
{
    for (int32_t image = 0; image < task->images; image++)
        for (int32_t y = 0; y < task->out_h; y++)
            for (int32_t x = 0; x < task->out_w; x++)
                for (int32_t o = 0; o < channels; o++)
                    task->out[image * task->out_image + y * task->out_row + x * (ptrdiff_t)task->out_pixel + o] =
                        fused ? bs_epilogue_apply(epilogue, o, 0.0f) : epilogue->bias[o];
}

static void deconv2d_fast(const bs_call *call, const void *form, const bs_epilogue *epilogue)
{
    const bs_deconv2d_form *f = form;
    for (int32_t phase = 0; phase < f->stride * f->stride; phase++) {
        const int32_t a = phase / f->stride, b = phase % f->stride;
        const bs_conv_geometry g = deconv2d_geometry(f, a, b);
        bs_conv_task task = deconv2d_task(call, f, &g, a, b);
        const bool fused = bs_epilogue_fuse(epilogue, &task);
        if (g.kernel_h > 0 && g.kernel_w > 0)
            bs_conv_run(&g, BS_CONV_DIRECT, call->plan->tier, &task);
        else
            deconv2d_fill(epilogue, &task, f->out, fused);
    }
}

static bs_status deconv2d_run(const bs_call *call)
{
    const bs_deconv2d_desc *desc = call->params;
    const bs_deconv2d_form f = deconv2d_form_at(call->graph, call->node);
    const bs_epilogue_layout layout = bs_deconv2d_layout(&f, call->plan, desc->act);
    const bs_epilogue epilogue = bs_epilogue_of(call, &layout, desc->act, desc->act_param);
    return bs_epilogue_run(call, &f, &epilogue, deconv2d_reference, deconv2d_fast);
}

static const bs_op_rules deconv2d_rules = {.weights = {.specs = deconv2d_weights,
                                                       .prepare = deconv2d_prepare,
                                                       .same_layout = deconv2d_same_layout},
                                           .halo = deconv2d_halo,
                                           .plan = deconv2d_plan,
                                           .upgrade = deconv2d_upgrade};

const bs_op bs_op_deconv2d = {.name = "deconv2d",
                              .min_in = 1,
                              .layout = {.images = true, .channels_last = true},
                              BS_PARAMS(bs_deconv2d_desc, deconv2d_fields),
                              .infer = deconv2d_infer,
                              .flops = deconv2d_flops,
                              .rules = &deconv2d_rules,
                              .run = deconv2d_run};

bs_value bs_deconv2d(bs_graph *graph, bs_value x, const bs_deconv2d_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_deconv2d);
}
