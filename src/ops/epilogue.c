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

static void epilogue_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_epilogue *epilogue = context;
    for (int64_t i = 0; i < n; i++) {
        float *x = (float *)(void *)(at[0] + i * step[0]);
        *x = bs_act_apply(epilogue->act, epilogue->param, 0.0f, *x);
    }
}

void bs_epilogue_pass(const bs_epilogue *epilogue, const bs_operand *out, int32_t rows)
{
    bs_span span;
    bs_span_open(&span, out, rows);
    bs_span_run(&span, epilogue_inner, epilogue);
}
