/* ops/forms.h - convolutions and linears with the defaults of their descriptors filled in, where their prepared
 * weights lie, and what else the file of an op and the backend of a device must agree on.
 * Relies on epilogue.h. Must never depend on anything but descriptor, channels and plan: prepared weights may be
 * stored. */
#ifndef BS_OPS_FORMS_H
#define BS_OPS_FORMS_H

#include "kernels/recurrent.h"
#include "ops/epilogue.h"

/* ops/conv2d.c */
typedef struct bs_conv2d_form {
    bs_conv_geometry geometry;
    bs_window window;
} bs_conv2d_form;
bs_conv2d_form bs_conv2d_form_of(const bs_conv2d_desc *desc, int32_t channels);
bs_epilogue_layout bs_conv2d_layout(const bs_conv2d_desc *desc, const bs_conv_geometry *g, const bs_node_plan *plan);

/* ops/pool2d.c */
bs_window bs_pool2d_window(const bs_pool2d_desc *desc);

/* ops/reshape.c: x becomes an image [C,1,L] if it is [C,L]; and back. */
bool bs_reshape_line(bs_graph *graph, bs_value *x);
bs_value bs_reshape_to_line(bs_graph *graph, bs_value x);

/* The same file: one pass for a reshape and the transpose of its result, called for the transpose; and for the reshape
 * of what a transpose has made, called for the reshape. (plan/fusions.c) */
bs_status bs_reshape_transpose_run(const bs_call *call);
bs_status bs_transpose_reshape_run(const bs_call *call);
/* Dimension d of the result of a transpose is dimension order[d] of the operand. All zero: the last two change
 * places. */
static inline void bs_transpose_order(const bs_transpose_desc *desc, int32_t rank, int32_t *order)
{
    bool given = rank < 2;
    for (int32_t d = 0; d < BS_MAX_AXES; d++) {
        given = given || desc->order[d] != 0;
        order[d] = desc->order[d];
    }
    for (int32_t d = 0; d < rank && !given; d++)
        order[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
}

/* Parameters of the transpose whose result is operand 0 of `node`. */
static inline const void *bs_transpose_before(const bs_graph *graph, const bs_node *node)
{
    return graph->nodes[graph->values[bs_node_in(graph, node)[0]].node].params;
}

/* ops/deconv2d.c */
typedef struct bs_deconv2d_form {
    int32_t in, out, kernel, stride, pad, output_pad;
} bs_deconv2d_form;
bs_deconv2d_form bs_deconv2d_form_of(const bs_deconv2d_desc *desc, int32_t channels);
bs_epilogue_layout bs_deconv2d_layout(const bs_deconv2d_form *f, const bs_node_plan *plan, int32_t act);
/* Taps of phase a along one axis; 0 where the kernel is smaller than the stride. */
static inline BS_BOTH int32_t bs_deconv2d_taps(int32_t kernel, int32_t stride, int32_t a)
{
    return (kernel - a + stride - 1) / stride;
}

/* ops/pad.c: the pixel that pixel `at`, counted from the operand's first of n, is a copy of; the nearest one if it is
 * none. */
static inline BS_BOTH int32_t bs_pad_source(int32_t edge, int32_t at, int32_t n)
{
    if (edge == BS_EDGE_REFLECT)
        at = at < 0 ? -at : at < n ? at : 2 * (n - 1) - at;
    return bs_clamp_i32(at, 0, n - 1);
}
/* ops/pad.c: the border's value as an element; a value outside a type's range becomes the nearest one in it. */
void bs_pad_element(bs_dtype dtype, float value, void *element);

/* ops/convert.c: the range of a type's codes. */
bool bs_convert_is_integer(bs_dtype dtype);
void bs_convert_range(bs_dtype to, int32_t code_bits, int32_t *low, int32_t *high);

/* ops/linear.c */
bs_epilogue_layout bs_linear_layout(const bs_linear_desc *desc, const bs_node_plan *plan, int32_t inputs);
/* A device's layout is that of the reference, with lines padded with zeros to whole loads of 16 bytes. */
static inline BS_BOTH int64_t bs_linear_line_bytes(int32_t inputs, int32_t each)
{
    return ((int64_t)inputs * each + 15) & ~(int64_t)15;
}

/* Weights as lines for a device or for the reference, and bytes of one. */
bs_bytes bs_linear_line(const bs_node_plan *plan, int32_t inputs);
void bs_linear_lines(const bs_node_plan *plan, int32_t inputs, int32_t outputs, const float *weight, uint8_t *memory);

/* ops/recurrent.c: lines of x come first; biases are [4 columns][units], of groups of units in a tier's panels. */
typedef struct bs_recurrent_layout {
    bs_bytes of_h, bias, bytes;
} bs_recurrent_layout;
bs_recurrent_layout bs_recurrent_place(const bs_recurrent *net, const bs_node_plan *plan);
/* h' of one unit from its sums (BS_RECURRENT_COLUMNS); the LSTM's c' too. */
static inline BS_BOTH float bs_lstm_step(const float *sums, float c, float *c_out)
{
    const float i = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[0]), f = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[1]),
                o = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[2]), g = bs_act_apply(BS_TANH, 0.0f, 0.0f, sums[3]),
                next = BS_SUM(f * c, i * g);
    *c_out = next;
    return o * bs_act_apply(BS_TANH, 0.0f, 0.0f, next);
}
static inline BS_BOTH float bs_gru_step(const float *sums, float h)
{
    const float r = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[1]), z = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[2]),
                n = bs_act_apply(BS_TANH, 0.0f, 0.0f, BS_SUM(sums[0], r * sums[3]));
    return BS_SUM(n, z * (h - n));
}

#endif
