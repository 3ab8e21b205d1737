/* ops/conv1d.c - convolution and pooling of [C,L], as nodes of images of height 1.
 * Relies on ops/reshape.c. Must never leave a convolution its padding: a value has one margin for all sides, which
 * would be many times a line. */
#include "ops/forms.h"

bs_value bs_conv1d(bs_graph *graph, bs_value x, const bs_conv2d_desc *desc)
{
    if (!desc)
        return bs_conv2d(graph, x, desc);
    const bool line = bs_reshape_line(graph, &x);
    bs_conv2d_desc d = *desc;
    d.kernel_h = d.stride_h = d.dilation_h = 1;
    d.pad_top = d.pad_bottom = 0;
    const bs_window_axis axis = bs_conv2d_form_of(&d, 1).window.axis[1];
    const bs_pad_desc border = {.left = axis.before, .right = axis.after};
    if (d.padding == BS_PAD_EXPLICIT)
        d.pad = d.pad_left = d.pad_right = 0;
    else if (d.padding == BS_PAD_DEFAULT)
        d.padding = BS_PAD_VALID; /* pads that should not be there stay, and are refused */
    if (border.left != 0 || border.right != 0)
        x = bs_pad(graph, x, &border);
    x = bs_conv2d(graph, x, &d);
    return line ? bs_reshape_to_line(graph, x) : x;
}

bs_value bs_pool1d(bs_graph *graph, bs_value x, const bs_pool2d_desc *desc)
{
    const bool line = bs_reshape_line(graph, &x);
    bs_pool2d_desc d = {0};
    if (desc)
        d = *desc;
    d.pad_left = bs_or_default(d.pad_left, d.pad);
    d.pad_right = bs_or_default(d.pad_right, d.pad);
    d.kernel_h = d.stride_h = d.dilation_h = 1;
    d.pad = d.pad_top = d.pad_bottom = 0;
    x = bs_pool2d(graph, x, &d);
    return line && !d.global ? bs_reshape_to_line(graph, x) : x;
}
