/* ops/linear.c - x W^T + b on the last dimension.
 * Relies on kernels/conv.h: rows are the pixels of a 1x1 convolution, whose arithmetic does not depend on how many
 * rows there are or where they lie. Must never let rows influence each other. */
#include "ops/forms.h"

static const bs_field linear_fields[] = {BS_INT_OF("out", 1, 1 << 24), BS_INT("no_bias"),
                                         BS_FIELD_OF("act", ACT), BS_FLOAT("act_param")};

static bool linear_infer(bs_infer *infer)
{
    const bs_linear_desc *desc = infer->params;
    const int32_t last = infer->in[0]->rank - 1;
    int32_t inputs;
    if (!bs_infer_lines(infer, 0) || !bs_infer_const(infer, 0, last, "features", &inputs))
        return false;
    infer->out[0].dims[last] = bs_dim_const(infer->graph, desc->out);
    return true;
}

static int32_t linear_inputs(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return (int32_t)bs_dim_max(graph, x->dims[x->rank - 1]);
}

static double linear_flops(const bs_graph *graph, const bs_node *node)
{
    return 2.0 * linear_inputs(graph, node) * bs_value_work(graph, node->first_out);
}

/* ---------------------------------------------------------------------------------------------------- weights */

static int32_t linear_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_linear_desc *desc = node->params;
    specs[0] = bs_weight_of("weight", 2, desc->out, linear_inputs(graph, node), 0, 0);
    return bs_epilogue_weights(specs, 1, desc->out, desc->no_bias, desc->act);
}

static bs_conv_geometry linear_geometry(int32_t inputs, int32_t outputs)
{
    const bs_conv_geometry g = {inputs, outputs, 1, 1, 1, 1, 1, 1, 1};
    return g;
}

bs_bytes bs_linear_line(const bs_node_plan *plan, int32_t inputs)
{
    const bool padded = plan->tier == BS_TIER_CUDA;
    return bs_bytes_array(padded ? bs_linear_line_bytes(inputs, plan->half ? 2 : 4) : (int64_t)inputs * 4, 1);
}

bs_epilogue_layout bs_linear_layout(const bs_linear_desc *desc, const bs_node_plan *plan, int32_t inputs)
{
    const bs_conv_geometry g = linear_geometry(inputs, desc->out);
    const bs_bytes weights =
        plan->algorithm == BS_CONV_REFERENCE
            ? bs_bytes_times(bs_linear_line(plan, inputs), desc->out)
            : bs_bytes_times(bs_bytes_of(bs_conv_prepared_floats(&g, BS_CONV_DIRECT, plan->tier)), sizeof(float));
    return bs_epilogue_place(weights, desc->out, desc->act);
}

/* Scratch: one line in and one line out, for operands whose last dimension is not contiguous. */
static void linear_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                        bs_node_plan *plan)
{
    const bs_linear_desc *desc = node->params;
    const int32_t inputs = linear_inputs(graph, node);
    const bs_conv_geometry g = linear_geometry(inputs, desc->out);
    (void)max_h, (void)max_w;
    const bool fast = plan->tier != BS_TIER_CUDA && choice != BS_CONV_FORCE_REFERENCE &&
                      bs_conv_supports(&g, BS_CONV_DIRECT, plan->tier);
    plan->algorithm = fast ? BS_CONV_DIRECT : BS_CONV_REFERENCE;
    plan->prepared_bytes = bs_linear_layout(desc, plan, inputs).bytes;
    plan->scratch_bytes = bs_bytes_add(bs_bytes_align(bs_bytes_array(inputs, sizeof(float))),
                                       bs_bytes_align(bs_bytes_array(desc->out, sizeof(float))));
}

void bs_linear_lines(const bs_node_plan *plan, int32_t inputs, int32_t outputs, const float *weight, uint8_t *memory)
{
    const size_t line = (size_t)bs_bytes_figure(bs_linear_line(plan, inputs));
    for (int32_t o = 0; o < outputs; o++, weight += inputs, memory += line) {
        memset(memory, 0, line);
        for (int32_t k = 0; k < inputs; k++) {
            if (plan->half)
                ((uint16_t *)(void *)memory)[k] = bs_f32_to_f16(weight[k]);
            else
                ((float *)(void *)memory)[k] = weight[k];
        }
    }
}

static void linear_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                           const void *const *weights, int32_t first, int32_t count, void *prepared)
{
    const bs_linear_desc *desc = node->params;
    const int32_t inputs = linear_inputs(graph, node);
    const bs_conv_geometry g = linear_geometry(inputs, desc->out);
    const bs_epilogue_layout layout = bs_linear_layout(desc, plan, inputs);
    if (plan->algorithm == BS_CONV_REFERENCE)
        bs_linear_lines(plan, inputs, count, weights[0],
                        bs_bytes_at(prepared, bs_bytes_times(bs_linear_line(plan, inputs), first)));
    else
        bs_conv_prepare_rows(&g, BS_CONV_DIRECT, plan->tier, first, count, weights[0], prepared);
    bs_epilogue_prepare(&layout, desc->out, desc->no_bias, desc->act, weights, prepared);
}

/* -------------------------------------------------------------------------------------------------------- run */

/* What the walk over lines needs. */
typedef struct linear_job {
    const bs_call *call;
    bs_conv_geometry geometry;
    bs_epilogue epilogue;
    ptrdiff_t in_step, out_step; /* of the last dimension, in floats */
} linear_job;

static void linear_line(const linear_job *job, const float *x, float *y)
{
    const int32_t inputs = job->geometry.in_channels;
    const float *weight = job->call->prepared;
    for (int32_t o = 0; o < job->geometry.out_channels; o++, weight += inputs) {
        float sum = 0.0f;
        for (int32_t k = 0; k < inputs; k++)
            sum += x[k * job->in_step] * weight[k];
        y[o * job->out_step] = bs_epilogue_apply(&job->epilogue, o, sum);
    }
}

static void linear_lines_reference(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    for (int64_t i = 0; i < n; i++)
        linear_line(context, (const float *)(const void *)(at[1] + i * step[1]),
                    (float *)(void *)(at[0] + i * step[0]));
}

/* What the kernel did not fuse, of n lines. */
static void linear_activate(const linear_job *job, int64_t n, float *y, ptrdiff_t out_pixel)
{
    const int32_t outputs = job->geometry.out_channels;
    const bool whole = out_pixel == outputs;
    for (int64_t i = 0; i < n; i += whole ? n : 1)
        bs_row_function((bs_tier)job->call->plan->tier, job->epilogue.act, y + i * out_pixel, 1, y + i * out_pixel, 1,
                        whole ? n * outputs : outputs);
}

/* `n` lines as the pixels of one image row; in_pixel and out_pixel in floats. */
static void linear_block(const linear_job *job, int64_t n, const float *x, ptrdiff_t in_pixel, float *y,
                         ptrdiff_t out_pixel)
{
    bs_conv_task task = {.in = x,
                         .in_pixel = (int32_t)in_pixel,
                         .out = y,
                         .out_pixel = (int32_t)out_pixel,
                         .out_h = 1,
                         .out_w = (int32_t)n,
                         .weights = job->call->prepared};
    const bool fused = bs_epilogue_fuse(&job->epilogue, &task);
    bs_conv_run(&job->geometry, BS_CONV_DIRECT, job->call->plan->tier, &task);
    if (!fused)
        linear_activate(job, n, y, out_pixel);
}

/* Lines that are not contiguous go through scratch, one by one. */
static void linear_gathered(const linear_job *job, const float *x, float *y)
{
    const int32_t inputs = job->geometry.in_channels, outputs = job->geometry.out_channels;
    float *line = job->call->scratch, *result = line + bs_aligned_floats(inputs);
    for (int32_t k = 0; k < inputs; k++)
        line[k] = x[k * job->in_step];
    linear_block(job, 1, line, inputs, result, outputs);
    for (int32_t o = 0; o < outputs; o++)
        y[o * job->out_step] = result[o];
}

static void linear_lines_fast(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const linear_job *job = context;
    const float *x = (const float *)(const void *)at[1];
    float *y = (float *)(void *)at[0];
    const ptrdiff_t in_pixel = step[1] / 4, out_pixel = step[0] / 4;
    const bool dense = job->in_step == 1 && job->out_step == 1 && n <= INT32_MAX && in_pixel >= 0 &&
                       in_pixel <= INT32_MAX && out_pixel >= 0 && out_pixel <= INT32_MAX;
    if (dense) {
        linear_block(job, n, x, in_pixel, y, out_pixel);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        linear_gathered(job, x + i * in_pixel, y + i * out_pixel);
}

static linear_job linear_job_of(const bs_call *call)
{
    const bs_linear_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t inputs = in->dim[in->rank - 1];
    const bs_epilogue_layout layout = bs_epilogue_at_end(call->plan->prepared_bytes, desc->out, desc->act);
    const linear_job job = {.call = call,
                            .geometry = linear_geometry(inputs, desc->out),
                            .epilogue = bs_epilogue_of(call, &layout, desc->act, desc->act_param),
                            .in_step = inputs == 1 ? 1 : in->stride[in->rank - 1],
                            .out_step = desc->out == 1 ? 1 : out->stride[out->rank - 1]};
    return job;
}

static bs_status linear_run(const bs_call *call)
{
    const linear_job job = linear_job_of(call);
    const bs_span_inner lines =
        call->plan->algorithm == BS_CONV_REFERENCE ? linear_lines_reference : linear_lines_fast;
    bs_span span;
    if (bs_span_is_line(&call->out[0], call->rows)) { /* the walk takes a small product a tenth of its time */
        static const ptrdiff_t none[2] = {0};
        char *const at[2] = {call->out[0].data, call->in[0].data};
        lines(&job, 1, at, none);
        return BS_OK;
    }
    bs_span_open_lines(&span, &call->out[0], call->rows, call->out[0].rank - 1);
    bs_span_add(&span, &call->in[0], NULL);
    bs_span_run(&span, lines, &job);
    return BS_OK;
}

static const bs_op_rules linear_rules = {
    .weights = {.specs = linear_weights, .prepare = linear_prepare, .by_rows = true}, .plan = linear_plan};

const bs_op bs_op_linear = {.name = "linear",
                            .min_in = 1,
                            BS_PARAMS(bs_linear_desc, linear_fields),
                            .infer = linear_infer,
                            .flops = linear_flops,
                            .rules = &linear_rules,
                            .run = linear_run};

bs_value bs_linear(bs_graph *graph, bs_value x, const bs_linear_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_linear);
}
