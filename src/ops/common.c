/* ops/common.c - shared shape, halo and cost rules.
 * Relies on common.h. Must never touch data. */
#include "ops/common.h"

/* ------------------------------------------------------------------------------------------------ refusals */

#if !defined(BS_NO_MESSAGES)
bs_status (bs_call_fail)(const bs_call *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (call->fault)
        vsnprintf(call->fault, BS_FAULT_BYTES, format, arguments);
    va_end(arguments);
    return BS_ERROR_DATA;
}
#endif

bool (bs_infer_dtypes)(bs_infer *infer, int32_t index, uint32_t dtypes, const char *expected)
{
    const bs_dtype dtype = infer->in[index]->dtype;
    return dtypes >> dtype & 1 || bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %" PRId32 " is %s, expected %s", index,
                                                bs_dtype_name(dtype), expected);
}

bool bs_infer_dtype(bs_infer *infer, int32_t index, bs_dtype dtype)
{
    return bs_infer_dtypes(infer, index, 1u << dtype, bs_dtype_name(dtype));
}

bool bs_infer_number(bs_infer *infer, int32_t index)
{
    return bs_infer_dtypes(infer, index, 1u << BS_F32 | 1u << BS_I32, "f32 or i32");
}

bool bs_infer_dim_differs(bs_infer *infer, int32_t index, int32_t d)
{
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %" PRId32 " is %s in operand 0 and %s in operand %" PRId32,
                         d, bs_say_dim(infer, infer->in[0]->dims[d]), bs_say_dim(infer, infer->in[index]->dims[d]),
                         index);
}

bool bs_infer_dim_is(bs_infer *infer, int32_t index, int32_t d, bs_dim_id expected)
{
    const bs_dim_id dim = infer->in[index]->dims[d];
    return dim == expected ||
           bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %" PRId32 " of operand %" PRId32 " is %s, expected %s", d,
                         index, bs_say_dim(infer, dim), bs_say_dim(infer, expected));
}

bool bs_infer_rank_out(bs_infer *infer, int32_t rank)
{
    bs_value_set_rank(&infer->out[0], rank);
    return rank <= BS_MAX_RANK ||
           bs_infer_fail(infer, BS_ERROR_SHAPE, "the result would have rank %" PRId32 ", expected %d at most", rank,
                         BS_MAX_RANK);
}

bool bs_infer_rank(bs_infer *infer, int32_t index, int32_t low, int32_t high)
{
    const bs_value_info *value = infer->in[index];
    if (value->rank >= low && value->rank <= high)
        return true;
    if (low == high)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %" PRId32 " is %s, expected rank %" PRId32 "%s", index,
                             bs_say_value(infer, value), low, low == 3 ? " [C, H, W]" : "");
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %" PRId32 " is %s, expected rank %" PRId32 " to %" PRId32,
                         index, bs_say_value(infer, value), low, high);
}

bool bs_infer_f32(bs_infer *infer, int32_t index, int32_t low, int32_t high)
{
    return bs_infer_dtype(infer, index, BS_F32) && bs_infer_rank(infer, index, low, high);
}

bool bs_infer_lines(bs_infer *infer, int32_t index)
{
    return bs_infer_f32(infer, index, 1, BS_MAX_RANK) && bs_infer_whole(infer, index);
}

bool bs_infer_same_rank(bs_infer *infer, int32_t index)
{
    const bs_value_info *value = infer->in[index], *first = infer->in[0];
    if (value->rank == first->rank)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE,
                         "operand %" PRId32 " is %s, expected the rank of operand 0, which is %s", index,
                         bs_say_value(infer, value), bs_say_value(infer, first));
}

bool bs_infer_like(bs_infer *infer, int32_t index, int32_t but)
{
    const bs_value_info *first = infer->in[0];
    if (!bs_infer_dtype(infer, index, first->dtype) || !bs_infer_same_rank(infer, index))
        return false;
    for (int32_t d = 0; d < first->rank; d++)
        if (d != but && first->dims[d] != infer->in[index]->dims[d])
            return bs_infer_dim_differs(infer, index, d);
    return true;
}

bool (bs_infer_const)(bs_infer *infer, int32_t index, int32_t axis, const char *what, int32_t *n)
{
    const bs_dim_id d = infer->in[index]->dims[axis];
    if (!bs_dim_is_const(infer->graph, d))
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension %" PRId32 " of operand %" PRId32 " (%s) is %s, expected a constant", axis,
                             index, what, bs_say_dim(infer, d));
    *n = (int32_t)bs_dim_max(infer->graph, d);
    return true;
}

bool bs_infer_image(bs_infer *infer, int32_t index, int32_t *channels)
{
    return bs_infer_f32(infer, index, 3, 3) && bs_infer_const(infer, index, 0, "channels", channels);
}

bool bs_infer_axis(bs_infer *infer, int32_t axis, int32_t *positive)
{
    const int32_t rank = infer->in[0]->rank;
    *positive = bs_axis_of(axis, rank);
    if (*positive >= 0 && *positive < rank)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "axis %" PRId32 " of operand 0, which is %s", axis,
                         bs_say_value(infer, infer->in[0]));
}

bool bs_infer_padding(bs_infer *infer, int32_t padding, int32_t pad, int32_t sides, int32_t most)
{
    if (!bs_infer_field(infer, "padding", padding, 0, BS_PAD_EXPLICIT))
        return false;
    if (padding != BS_PAD_EXPLICIT && (pad | sides) != 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                             "pad is %" PRId32 ", expected 0 where padding is not BS_PAD_EXPLICIT", pad | sides);
    return bs_infer_field(infer, "pad", pad, 0, most);
}

void bs_upgrade_padding(int32_t opset, int32_t pad, int32_t *padding)
{
    if (opset < 3 && *padding == BS_PAD_DEFAULT && pad != 0)
        *padding = BS_PAD_EXPLICIT;
}

bool bs_infer_single(bs_infer *infer, int32_t index)
{
    const bs_value_info *value = infer->in[index];
    return bs_bytes_figure(bs_value_elements(infer->graph, value)) == 1 ||
           bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %" PRId32 " is %s, expected one element", index,
                         bs_say_value(infer, value));
}

bool bs_infer_root(bs_infer *infer, int32_t index)
{
    const int32_t domain = infer->in[index]->domain;
    if (domain == 0)
        return true;
    return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %" PRId32 " is of %s, expected a root value", index,
                         bs_say_domain(infer, domain));
}

bool bs_infer_stacked(bs_infer *infer, bs_dim_id rows)
{
    const bs_value_info *x = infer->in[0];
    bs_value_info *out = &infer->out[0];
    bs_value_set_rank(out, x->rank + 1);
    out->dims[0] = rows;
    for (int32_t i = 0; i < x->rank; i++)
        out->dims[i + 1] = x->dims[i];
    out->domain = 0;
    return rows >= 0;
}

bool bs_infer_extent(bs_infer *infer, int32_t axis, int64_t mul, int64_t add, int64_t div)
{
    const bs_dim_id d = infer->in[0]->dims[axis];
    const int64_t maximum = bs_floor_div(bs_dim_max(infer->graph, d) * mul + add, div);
    if (maximum < 1 || maximum > (int64_t)1 << 30)
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension %" PRId32 " is %s, which gives a result of %lld, expected 1 .. 2^30", axis,
                             bs_say_dim(infer, d), (long long)maximum);
    infer->out[0].dims[axis] = bs_dim_derive(infer->graph, d, mul, add, div);
    return infer->out[0].dims[axis] >= 0;
}

bs_dim_id bs_infer_data_dim(bs_infer *infer, int64_t maximum)
{
    for (int32_t i = 0; i < infer->n_in; i++)
        if (!bs_infer_root(infer, i))
            return -1;
    const bs_dim_id d = bs_dim_from_data(infer->graph, infer->name, maximum);
    infer->makes = d + 1;
    return d;
}

bs_dim_id bs_infer_found_dim(bs_infer *infer, int32_t given, int64_t most)
{
    const int64_t maximum = given ? given : most;
    return bs_infer_field(infer, "maximum", maximum, 1, bs_min_i64(most, 1 << 30)) ? bs_infer_data_dim(infer, maximum)
                                                                                   : -1;
}

bool bs_infer_bound_dim(bs_infer *infer, int32_t index, int32_t d)
{
    const bs_dim_id dim = infer->in[index]->dims[d];
    return !infer->graph->dims[dim].node ||
           bs_infer_fail(infer, BS_ERROR_SHAPE,
                         "dimension %" PRId32 " of operand %" PRId32
                         " is %s, which comes from data, expected one that inputs give",
                         d, index, bs_say_dim(infer, dim));
}

/* By a dimension that no value has, which must be 1 or more as all must; 0 or more where it comes from data, so that
 * one is doubled. */
bool bs_infer_least(bs_infer *infer, bs_dim_id d, int64_t least)
{
    const int64_t twice = infer->graph->dims[d].node ? 2 : 1;
    return bs_dim_is_const(infer->graph, d) || bs_dim_derive(infer->graph, d, twice, 1 - twice * least, 1) >= 0;
}

bool bs_infer_frame(bs_infer *infer, int64_t mul, int64_t add_h, int64_t add_w, int64_t div)
{
    return bs_infer_extent(infer, 1, mul, add_h, div) && bs_infer_extent(infer, 2, mul, add_w, div);
}

/* ------------------------------------------------------------------------------------------------- patches */

static const bs_domain *value_patches(const bs_graph *graph, const bs_value_info *value)
{
    const int32_t patches = graph->domains[value->domain].patches;
    return patches < 0 ? NULL : &graph->domains[patches];
}

bool bs_value_in_patches(const bs_graph *graph, const bs_value_info *value)
{
    return value->image && value_patches(graph, value) != NULL;
}

bool bs_infer_whole(bs_infer *infer, int32_t index)
{
    if (!bs_value_in_patches(infer->graph, infer->in[index]))
        return true;
    return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                         "operand %" PRId32 " is cut into patches, but this needs all of its pixels", index);
}

bool bs_infer_no_new_image(bs_infer *infer)
{
    if (!bs_value_in_patches(infer->graph, &infer->out[0]))
        return true;
    return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                         "the result would be an image (rank 3) without a place in the patched frame");
}

bool bs_infer_scale(bs_infer *infer, int32_t num, int32_t den)
{
    const bs_value_info *in = infer->in[0];
    const bs_domain *patches = value_patches(infer->graph, in);
    if (!patches) /* a whole image is its own frame */
        return true;
    int64_t n = (int64_t)in->scale_num * num, d = (int64_t)in->scale_den * den;
    const int64_t divisor = bs_common_divisor(n, d);
    n /= divisor;
    d /= divisor;
    if ((int64_t)patches->size * n % d != 0) /* NOLINT(clang-analyzer-core.DivideZero): both are 1 or more */
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "cells of %lld pixels (dimensions 1 and 2) do not divide by %" PRId32,
                             (long long)((int64_t)patches->size * in->scale_num / in->scale_den), den);
    if (n > 1 << 15) /* the other divides the size of a cell */
        return bs_infer_fail(infer, BS_ERROR_LIMIT, "the frame's scale would be %lld/%lld, expected 2^15 at most",
                             (long long)n, (long long)d);
    infer->out[0].scale_num = (int32_t)n;
    infer->out[0].scale_den = (int32_t)d;
    return true;
}

bool bs_infer_same_scale(bs_infer *infer, const bs_value_info *a, const bs_value_info *b)
{
    return (a->scale_num == b->scale_num && a->scale_den == b->scale_den) ||
           bs_infer_fail(infer, BS_ERROR_SHAPE,
                         "dimensions 1 and 2 are of frames of scale %" PRId32 "/%" PRId32 " and %" PRId32 "/%" PRId32,
                         a->scale_num, a->scale_den, b->scale_num, b->scale_den);
}

bs_window bs_window_of(const void *fields, int32_t kernel_h, int32_t kernel_w, int32_t stride, int32_t dilation,
                       int32_t pad)
{
    const int32_t kernel[2] = {kernel_h, kernel_w};
    int32_t f[8]; /* BS_WINDOW_FIELDS */
    bs_window w;
    memcpy(f, fields, sizeof f);
    for (int32_t i = 0; i < 2; i++)
        w.axis[i] = (bs_window_axis){kernel[i], bs_or_default(f[i], bs_or_default(stride, kernel[i])),
                                     bs_or_default(f[2 + i], dilation), bs_or_default(f[4 + i], pad),
                                     bs_or_default(f[6 + i], pad)};
    return w;
}

/* H' = floor((H + slack) / stride). */
static int32_t window_slack(const bs_window_axis *a)
{
    return a->before + a->after - bs_window_reach(a) - 1 + a->stride;
}

static bool window_aligned(bs_infer *infer, const bs_window *w)
{
    const bs_window_axis *a = w->axis;
    if (!bs_value_in_patches(infer->graph, infer->in[0]))
        return true;
    for (int32_t i = 0; i < 2; i++, a++)
        if (window_slack(a) < 0 || window_slack(a) >= a->stride)
            return bs_infer_fail(infer, BS_ERROR_SHAPE,
                                 "dimension %" PRId32 ": pads %" PRId32 " and %" PRId32 " with kernel %" PRId32
                                 " move cells of a patch domain; their sum "
                                 "must be dilation (kernel-1)",
                                 i + 1, a->before, a->after, a->kernel);
    if (w->axis[0].stride == w->axis[1].stride)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE,
                         "strides %" PRId32 " and %" PRId32
                         " make cells of a patch domain oblong; do this before the frame is cut",
                         w->axis[0].stride, w->axis[1].stride);
}

/* Outside a patch domain nobody reads the scale. */
bool bs_infer_window(bs_infer *infer, const bs_window *w)
{
    for (int32_t i = 0; i < 2; i++)
        if (!bs_infer_extent(infer, i + 1, 1, window_slack(&w->axis[i]), w->axis[i].stride))
            return false;
    return window_aligned(infer, w) && bs_infer_scale(infer, 1, w->axis[0].stride);
}

/* In a patch domain slack >= 0, so the last window of a margin m reaches no farther than m stride + after, the first
 * one m stride + before. A whole frame has m = 0, and its windows end at `after` beyond it. */
int32_t bs_window_halo(const bs_window *window, int32_t out_margin)
{
    const bs_window_axis *y = &window->axis[0], *x = &window->axis[1];
    const int32_t side = bs_max_i32(bs_max_i32(y->before, y->after), bs_max_i32(x->before, x->after));
    return (int32_t)bs_min_i64((int64_t)out_margin * y->stride + side, INT32_MAX);
}

/* ---------------------------------------------------------------------------------------------------- cost */

/* Largest extent of dimension d in one row: the frame's, but at most the cell's in a patch domain. */
static double value_extent(const bs_graph *graph, const bs_value_info *value, int32_t d)
{
    const double extent = (double)bs_dim_max(graph, value->dims[d]);
    if (d == 0 || !bs_value_in_patches(graph, value))
        return extent;
    const double cell = (double)value_patches(graph, value)->size * value->scale_num / value->scale_den;
    return extent < cell ? extent : cell;
}

double bs_value_work(const bs_graph *graph, int32_t value)
{
    const bs_value_info *info = bs_value_get(graph, value);
    double work = 1;
    for (int32_t d = 0; d < info->rank; d++)
        work *= value_extent(graph, info, d);
    return work;
}

double bs_value_pixels(const bs_graph *graph, int32_t value)
{
    const bs_value_info *info = bs_value_get(graph, value);
    return value_extent(graph, info, 1) * value_extent(graph, info, 2);
}

/* ------------------------------------------------------------------------------------------------- weights */

bs_weight_spec bs_weight_of(const char *suffix, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    const bs_weight_spec spec = {suffix, BS_F32, rank, {d0, d1, d2, d3}};
    return spec;
}

bs_weight_spec bs_weight_vector(const char *suffix, int64_t length) { return bs_weight_of(suffix, 1, length, 0, 0, 0); }
