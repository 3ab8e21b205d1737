/* ops/elementwise.c - activation, prelu, clip, affine, batch_norm.
 * Relies on span.h for the walk, kernels/functions.h for what needs an exponential. Must never look at neighbours: an
 * element of the result depends on the elements at its own place only, so all of these are exact in patch domains. All
 * but those functions is one code for every tier, with the same results. */
#include "kernels/functions.h"
#include "ops/act.h"
#include "ops/common.h"
#include "ops/span.h"

typedef struct bs_activation_desc {
    const char *name;
    int32_t act;
    float param;
} bs_activation_desc;
typedef struct bs_prelu_desc {
    const char *name;
} bs_prelu_desc;
typedef struct bs_clip_desc {
    const char *name;
    float low, high;
} bs_clip_desc;
typedef struct bs_affine_desc {
    const char *name;
    float scale, offset;
} bs_affine_desc;

static const bs_field activation_fields[] = {BS_FIELD_OF("act", ACT), BS_FLOAT("param")};
static const bs_field clip_fields[] = {BS_FLOAT("low"), BS_FLOAT("high")};
static const bs_field affine_fields[] = {BS_FLOAT("scale"), BS_FLOAT("offset")};
static const bs_field batch_norm_fields[] = {BS_FLOAT("epsilon")};

/* ----------------------------------------------------------------------------------- activation, clip, affine */

static bool unary_infer(bs_infer *infer) { return bs_infer_dtype(infer, 0, BS_F32); }

static bs_status unary_run(const bs_call *call, bs_span_inner inner)
{
    bs_span span;
    bs_span_call(&span, call);
    bs_span_run(&span, inner, call->params);
    return BS_OK;
}

static bool activation_infer(bs_infer *infer)
{
    const bs_activation_desc *desc = infer->params;
    if (desc->act == BS_PRELU)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "PReLU has weights; use bs_prelu");
    return unary_infer(infer);
}

static void relu_inner(int64_t n, char *const *at, const ptrdiff_t *step)
{
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    const ptrdiff_t o = step[0] / 4, s = step[1] / 4;
    if (bs_span_dense_f32(step, 2)) {
        BS_EACH_BY_ITSELF
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] > 0.0f ? x[i] : 0.0f;
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i * o] = x[i * s] > 0.0f ? x[i * s] : 0.0f;
    }
}

static void activation_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_call *call = context;
    const bs_activation_desc *desc = call->params;
    const bs_act act = (bs_act)desc->act;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    const ptrdiff_t o = step[0] / 4, s = step[1] / 4;
    if (act == BS_RELU)
        relu_inner(n, at, step);
    else if (bs_is_function(act))
        bs_row_function((bs_tier)call->plan->tier, act, x, s, out, o, n);
    else
        for (int64_t i = 0; i < n; i++)
            out[i * o] = bs_act_apply(act, desc->param, 0.0f, x[i * s]);
}

static bs_status activation_run(const bs_call *call)
{
    bs_span span;
    bs_span_call(&span, call);
    bs_span_run(&span, activation_inner, call);
    return BS_OK;
}

const bs_op bs_op_activation = {BS_BY_ELEMENTS(activation),
                                .min_in = 1,
                                .layout = {.images = true},
                                BS_PARAMS(bs_activation_desc, activation_fields),
                                .infer = activation_infer,
                                .run = activation_run};

bs_value bs_activation(bs_graph *graph, bs_value x, bs_act act, float param)
{
    const bs_activation_desc desc = {NULL, (int32_t)act, param};
    return bs_op_build_one(graph, x, &desc, &bs_op_activation);
}

static bool clip_infer(bs_infer *infer)
{
    const bs_clip_desc *desc = infer->params;
    if (!(desc->low <= desc->high))
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "low %g is not <= high %g", (double)desc->low,
                             (double)desc->high);
    return unary_infer(infer);
}

/* min and max written so that compilers recognise them */
static float clip_one(float x, float low, float high)
{
    const float above = x < low ? low : x;
    return above > high ? high : above;
}

static void clip_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_clip_desc *desc = context;
    const float low = desc->low, high = desc->high;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    if (bs_span_dense_f32(step, 2)) {
        BS_EACH_BY_ITSELF
        for (int64_t i = 0; i < n; i++)
            out[i] = clip_one(x[i], low, high);
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i * (step[0] / 4)] = clip_one(x[i * (step[1] / 4)], low, high);
    }
}

static bs_status clip_run(const bs_call *call) { return unary_run(call, clip_inner); }

const bs_op bs_op_clip = {BS_BY_ELEMENTS(clip),
                          .min_in = 1,
                          .layout = {.images = true},
                          BS_PARAMS(bs_clip_desc, clip_fields),
                          .infer = clip_infer,
                          .run = clip_run};

bs_value bs_clip(bs_graph *graph, bs_value x, float low, float high)
{
    const bs_clip_desc desc = {NULL, low, high};
    return bs_op_build_one(graph, x, &desc, &bs_op_clip);
}

static void affine_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_affine_desc *desc = context;
    const float scale = desc->scale, offset = desc->offset;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    if (bs_span_dense_f32(step, 2)) {
        BS_EACH_BY_ITSELF
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] * scale + offset;
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i * (step[0] / 4)] = x[i * (step[1] / 4)] * scale + offset;
    }
}

static bs_status affine_run(const bs_call *call) { return unary_run(call, affine_inner); }

const bs_op bs_op_affine = {BS_BY_ELEMENTS(affine),
                            .min_in = 1,
                            .layout = {.images = true},
                            BS_PARAMS(bs_affine_desc, affine_fields),
                            .infer = unary_infer,
                            .run = affine_run};

bs_value bs_affine(bs_graph *graph, bs_value x, float scale, float offset)
{
    const bs_affine_desc desc = {NULL, scale, offset};
    return bs_op_build_one(graph, x, &desc, &bs_op_affine);
}

/* ------------------------------------------------------------------------------------------ prelu, batch_norm */

static int32_t first_dim(const bs_graph *graph, const bs_node *node)
{
    return (int32_t)bs_dim_max(graph, bs_value_get(graph, bs_node_in(graph, node)[0])->dims[0]);
}

static bool channel_infer(bs_infer *infer)
{
    int32_t channels;
    return bs_infer_f32(infer, 0, 1, BS_MAX_RANK) && bs_infer_const(infer, 0, 0, "channels", &channels);
}

static int32_t prelu_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    specs[0] = bs_weight_vector("prelu", first_dim(graph, node));
    return 1;
}

static void prelu_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    (void)context;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1], *slope = (const float *)(const void *)at[2];
    const ptrdiff_t o = step[0] / 4, s = step[1] / 4, p = step[2] / 4;
    if (bs_span_dense_f32(step, 3)) /* channels last: a dense line is a pixel */
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] > 0.0f ? x[i] : x[i] * slope[i];
    else
        for (int64_t i = 0; i < n; i++)
            out[i * o] = x[i * s] > 0.0f ? x[i * s] : x[i * s] * slope[i * p];
}

static bs_status prelu_run(const bs_call *call)
{
    bs_span span;
    bs_span_call(&span, call);
    bs_span_add_array(&span, call->prepared, 0);
    bs_span_run(&span, prelu_inner, NULL);
    return BS_OK;
}

static const bs_op_rules prelu_rules = {.weights = {.specs = prelu_weights}};

const bs_op bs_op_prelu = {.name = "prelu",
                           .min_in = 1,
                           .layout = {.images = true},
                           .params_bytes = sizeof(bs_prelu_desc),
                           .infer = channel_infer,
                           .rules = &prelu_rules,
                           .run = prelu_run};

bs_value bs_prelu(bs_graph *graph, bs_value x, const char *name)
{
    const bs_prelu_desc desc = {name};
    return bs_op_build_one(graph, x, &desc, &bs_op_prelu);
}

static int32_t batch_norm_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    static const char *const suffixes[] = {"weight", "bias", "mean", "var"};
    for (int32_t i = 0; i < 4; i++)
        specs[i] = bs_weight_vector(suffixes[i], first_dim(graph, node));
    return 4;
}

/* Prepared: scale [C], offset [C]. */
static void batch_norm_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                            int32_t max_w, bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    plan->prepared_bytes = bs_bytes_times(bs_bytes_align(bs_bytes_array(first_dim(graph, node), sizeof(float))), 2);
}

static void batch_norm_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                               const void *const *weights, int32_t first, int32_t count, void *prepared)
{
    (void)first, (void)count;
    const bs_norm_desc *desc = node->params;
    const float *weight = weights[0], *bias = weights[1], *mean = weights[2], *variance = weights[3];
    const float epsilon = desc->epsilon == 0.0f ? 1e-5f : desc->epsilon;
    const int32_t channels = first_dim(graph, node);
    float *scale = prepared, *offset = (float *)(void *)bs_bytes_at(prepared, bs_bytes_share(plan->prepared_bytes, 2));
    for (int32_t c = 0; c < channels; c++) {
        scale[c] = weight[c] / sqrtf(variance[c] + epsilon);
        offset[c] = bias[c] - mean[c] * scale[c];
    }
}

static bool batch_norm_same_layout(const bs_graph *graph, const bs_node *a, const bs_node *b)
{
    (void)graph;
    return ((const bs_norm_desc *)a->params)->epsilon == ((const bs_norm_desc *)b->params)->epsilon;
}

static void batch_norm_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    (void)context;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    const float *scale = (const float *)(const void *)at[2], *offset = (const float *)(const void *)at[3];
    const ptrdiff_t o = step[0] / 4, s = step[1] / 4, p = step[2] / 4;
    for (int64_t i = 0; i < n; i++)
        out[i * o] = x[i * s] * scale[i * p] + offset[i * p];
}

static bs_status batch_norm_run(const bs_call *call)
{
    const float *scale = call->prepared;
    bs_span span;
    bs_span_call(&span, call);
    bs_span_add_array(&span, scale, 0);
    bs_span_add_array(&span, bs_bytes_read_at(call->prepared, bs_bytes_share(call->plan->prepared_bytes, 2)), 0);
    bs_span_run(&span, batch_norm_inner, NULL);
    return BS_OK;
}

static const bs_op_rules batch_norm_rules = {
    .weights = {.specs = batch_norm_weights, .prepare = batch_norm_prepare, .same_layout = batch_norm_same_layout},
    .plan = batch_norm_plan};

const bs_op bs_op_batch_norm = {.name = "batch_norm",
                                .min_in = 1,
                                .layout = {.images = true},
                                BS_PARAMS(bs_norm_desc, batch_norm_fields),
                                .infer = channel_infer,
                                .rules = &batch_norm_rules,
                                .run = batch_norm_run};

bs_value bs_batch_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_batch_norm);
}
