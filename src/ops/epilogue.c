/* ops/epilogue.c - bias and activation after a sum.
 * Relies on epilogue.h. Must never change the order of bias, then activation. */
#include "ops/epilogue.h"

bs_epilogue_layout bs_epilogue_place(bs_bytes packed_bytes, int32_t channels, int32_t act)
{
    const bs_bytes array = bs_bytes_align(bs_bytes_array(channels, sizeof(float)));
    bs_epilogue_layout layout;
    layout.bias = bs_bytes_align(packed_bytes);
    layout.slopes = bs_bytes_add(layout.bias, array);
    layout.bytes = act == BS_PRELU ? bs_bytes_add(layout.slopes, array) : layout.slopes;
    return layout;
}

bs_epilogue_layout bs_epilogue_at_end(bs_bytes bytes, int32_t channels, int32_t act)
{
    const bs_bytes array = bs_bytes_align(bs_bytes_array(channels, sizeof(float)));
    bs_epilogue_layout layout;
    layout.bytes = bytes;
    layout.slopes = act == BS_PRELU ? bs_bytes_sub(bytes, array) : bytes;
    layout.bias = bs_bytes_sub(layout.slopes, array);
    return layout;
}

int32_t bs_epilogue_weights(bs_weight_spec *specs, int32_t n, int32_t channels, bool no_bias, int32_t act)
{
    if (!no_bias)
        specs[n++] = bs_weight_vector("bias", channels);
    if (act == BS_PRELU)
        specs[n++] = bs_weight_vector("prelu", channels);
    return n;
}

void bs_epilogue_prepare(const bs_epilogue_layout *layout, int32_t channels, bool no_bias, int32_t act,
                         const void *const *weights, void *prepared)
{
    const size_t bytes = sizeof(float) * (size_t)channels;
    if (no_bias)
        memset(bs_bytes_at(prepared, layout->bias), 0, bytes);
    else
        memcpy(bs_bytes_at(prepared, layout->bias), weights[1], bytes);
    if (act == BS_PRELU)
        memcpy(bs_bytes_at(prepared, layout->slopes), weights[no_bias ? 1 : 2], bytes);
}

bs_epilogue bs_epilogue_of(const bs_call *call, const bs_epilogue_layout *layout, int32_t act, float param)
{
    const void *bias = bs_bytes_read_at(call->prepared, layout->bias);
    const void *slopes = act == BS_PRELU ? bs_bytes_read_at(call->prepared, layout->slopes) : NULL;
    const bs_epilogue epilogue = {(bs_act)act, param, bias, slopes};
    return epilogue;
}

float bs_epilogue_apply(const bs_epilogue *epilogue, int32_t channel, float sum)
{
    return bs_act_apply(epilogue->act, epilogue->param, epilogue->slopes ? epilogue->slopes[channel] : 0.0f,
                        sum + epilogue->bias[channel]);
}

bool bs_epilogue_fuse(const bs_epilogue *epilogue, bs_conv_task *task)
{
    task->bias = epilogue->bias;
    task->slopes = epilogue->slopes;
    task->slope = bs_act_slope(epilogue->param);
    task->low = 0.0f;
    task->high = bs_act_high(epilogue->param);
    switch (epilogue->act) {
    case BS_ACT_NONE:
        task->activation = BS_CONV_NONE;
        return true;
    case BS_RELU:
        task->activation = BS_CONV_RELU;
        return true;
    case BS_LEAKY_RELU:
        task->activation = BS_CONV_LEAKY;
        return true;
    case BS_PRELU:
        task->activation = BS_CONV_PRELU;
        return true;
    case BS_CLIP:
        task->activation = BS_CONV_CLIP;
        return true;
    case BS_SIGMOID:
    case BS_TANH:
    case BS_GELU:
    case BS_SILU:
    case BS_ACT_COUNT:
        break;
    }
    task->activation = BS_CONV_NONE;
    return false;
}

/* What follows a kernel's sums: all that it does not fuse are row functions. */
typedef struct epilogue_functions {
    bs_tier tier;
    bs_act act;
} epilogue_functions;

static void epilogue_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const epilogue_functions *follows = context;
    float *x = (float *)(void *)at[0];
    bs_row_function(follows->tier, follows->act, x, step[0] / 4, x, step[0] / 4, n);
}

bs_conv_task bs_epilogue_task(const bs_call *call, const int32_t *from, const int32_t *to, int32_t step)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0], *residual = call->residual;
    bs_conv_task task = {
        .images = call->rows,
        .in = bs_f32_at(in, from[0] * in->stride[1] + from[1] * in->stride[2]),
        .in_image = in->row_stride,
        .in_row = in->stride[1],
        .in_pixel = (int32_t)in->stride[2],
        .out = bs_f32_at(out, to[0] * out->stride[1] + to[1] * out->stride[2]),
        .out_image = out->row_stride,
        .out_row = out->stride[1] * step,
        .out_pixel = (int32_t)out->stride[2] * step,
        .out_h = bs_max_i32(0, (out->rect.y1 - to[0] + step - 1) / step),
        .out_w = bs_max_i32(0, (out->rect.x1 - to[1] + step - 1) / step),
        .weights = call->prepared,
        .scratch = call->scratch,
    };
    if (residual) {
        task.residual = bs_f32_at(residual, to[0] * residual->stride[1] + to[1] * residual->stride[2]);
        task.residual_image = residual->row_stride;
        task.residual_row = residual->stride[1] * step;
        task.residual_pixel = (int32_t)residual->stride[2] * step;
    }
    return task;
}

/* Whether a kernel can take the elements as [.., channels] with channel step 1. */
static bool channels_last(const bs_operand *o) { return o->dim[0] == 1 || o->stride[0] == 1; }

bs_status bs_epilogue_run(const bs_call *call, const void *form, const bs_epilogue *epilogue,
                          bs_epilogue_row *reference, bs_epilogue_rows *fast)
{
    const bs_operand *out = &call->out[0];
    const bool plain = call->plan->algorithm == BS_CONV_REFERENCE;
    if (out->rect.y1 <= out->rect.y0 || out->rect.x1 <= out->rect.x0)
        return BS_OK;
    if (!plain && !(channels_last(&call->in[0]) && channels_last(out)))
        return BS_ERROR_UNSUPPORTED; /* the planner keeps f32 images channels last */
    for (int32_t row = 0; plain && row < call->rows; row++)
        reference(call, form, epilogue, row);
    if (!plain && call->rows > 0)
        fast(call, form, epilogue);
    bs_conv_task probe;
    bs_span span;
    if (plain || bs_epilogue_fuse(epilogue, &probe))
        return BS_OK;
    bs_span_open(&span, out, call->rows);
    const epilogue_functions follows = {(bs_tier)call->plan->tier, epilogue->act};
    bs_span_run(&span, epilogue_inner, &follows);
    return BS_OK;
}
