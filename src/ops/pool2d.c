/* ops/pool2d.c - average and maximum over windows, or over everything.
 * Relies on graph/op.h. Must never count what lies outside the frame (unless count_pad says so): windows are clipped by
 * the operand's place in its frame. Global pooling sees the core only, so that every pixel counts once. */
#include "ops/forms.h"
#include "kernels/pool.h"

static const bs_field pool2d_fields[] = {BS_FIELD_OF("kind", POOL),
                                         BS_INT_OF("kernel", 0, BS_WINDOW_MOST),
                                         BS_INT_OF("stride", 0, BS_WINDOW_MOST),
                                         BS_INT("pad"),
                                         BS_INT("global"),
                                         BS_INT("count_pad"),
                                         BS_NAMED("padding", PADDING),
                                         BS_INT_OF("kernel_h", 0, BS_WINDOW_MOST),
                                         BS_INT_OF("kernel_w", 0, BS_WINDOW_MOST),
                                         BS_WINDOW_FIELDS};

/* Before op set 3 a global pool ignored `pad`. */
static void pool2d_upgrade(int32_t *fields, int32_t opset)
{
    if (opset < 3 && fields[4] != 0)
        fields[3] = 0;
    bs_upgrade_padding(opset, fields[3], &fields[6]);
}

bs_window bs_pool2d_window(const bs_pool2d_desc *d)
{
    const int32_t square = bs_or_default(d->kernel, 2);
    return BS_WINDOW_OF(d, bs_pool2d_desc, bs_or_default(d->kernel_h, square), bs_or_default(d->kernel_w, square),
                        d->stride, 1, d->pad);
}

static bool pool2d_infer(bs_infer *infer)
{
    const bs_pool2d_desc *desc = infer->params;
    const bs_window window = bs_pool2d_window(desc);
    if (!bs_infer_padding(infer, desc->padding, desc->pad, BS_WINDOW_SIDES(desc), BS_WINDOW_MOST) ||
        !bs_infer_f32(infer, 0, 3, 3))
        return false;
    for (int32_t i = 0; i < 2; i++) {
        const bs_window_axis *a = &window.axis[i];
        if (bs_max_i32(a->before, a->after) > bs_window_reach(a))
            return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                                 "dimension %" PRId32 ": pads %" PRId32 " and %" PRId32 ", expected 0 .. %" PRId32,
                                 i + 1, a->before, a->after, bs_window_reach(a));
    }
    if (!desc->global)
        return bs_infer_window(infer, &window);
    bs_value_set_rank(&infer->out[0], 1);
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

static int32_t pool2d_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    const bs_pool2d_desc *desc = node->params;
    const bs_window window = bs_pool2d_window(desc);
    (void)graph, (void)index;
    return desc->global ? 0 : bs_window_halo(&window, out_margin);
}

static double pool2d_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_pool2d_desc *desc = node->params;
    const bs_window window = bs_pool2d_window(desc);
    if (desc->global)
        return bs_value_work(graph, bs_node_in(graph, node)[0]);
    return bs_value_work(graph, node->first_out) * window.axis[0].kernel * window.axis[1].kernel;
}

/* ----------------------------------------------------------------------------------------------------- windows */

/* Taps first .. end of a window that starts at `at` in a frame of `extent`. */
typedef struct pool2d_range {
    int32_t first, end;
} pool2d_range;

static pool2d_range pool2d_clip(int32_t at, const bs_window_axis *a, int32_t extent)
{
    const int32_t more = a->dilation - 1; /* to round up; neither dividend is negative */
    const pool2d_range range = {(bs_max_i32(0, -at) + more) / a->dilation,
                                bs_min_i32(a->kernel, (extent - at + more) / a->dilation)};
    return range;
}

/* By a kernel, where channels lie side by side. False: they do not, or it has none for them; nothing is done. */
static bool pool2d_by_kernel(const bs_call *call, const float *in, ptrdiff_t down, ptrdiff_t across, int32_t rows,
                             int32_t taps, bs_pool_sum sum, float count, float *out)
{
    const bs_operand *from = &call->in[0];
    const bs_pool_window window = {in, down, across, rows, taps, from->dim[0], sum, count, out};
    return BS_DENSE_PAYS && from->stride[0] == 1 && call->out[0].stride[0] == 1 &&
           bs_pool_window_run((bs_tier)call->plan->tier, &window);
}

/* A window of which no tap is in the frame (dilated ones step over small frames) gives zero. */
static void pool2d_pixel(const bs_call *call, const bs_window *w, const float *window, pool2d_range y, pool2d_range x,
                         float *out)
{
    const bs_pool2d_desc *desc = call->params;
    const bs_operand *in = &call->in[0];
    const ptrdiff_t step = in->stride[0], out_step = call->out[0].stride[0];
    const ptrdiff_t down = w->axis[0].dilation * in->stride[1], across = w->axis[1].dilation * in->stride[2];
    const int32_t channels = call->out[0].dim[0];
    const bool none = y.first >= y.end || x.first >= x.end, largest = desc->kind == BS_POOL_MAX;
    const float count = (float)(desc->count_pad ? w->axis[0].kernel * w->axis[1].kernel
                                                : (y.end - y.first) * (x.end - x.first));
    if (!none && pool2d_by_kernel(call, window + y.first * down + x.first * across, down, across, y.end - y.first,
                                  x.end - x.first, largest ? BS_POOL_LARGEST : BS_POOL_MEAN, count, out))
        return;
    for (int32_t c = 0; c < channels && none; c++)
        out[c * out_step] = 0.0f;
    for (int32_t ky = y.first; ky < y.end; ky++)
        for (int32_t kx = x.first; kx < x.end; kx++) {
            const float *tap = window + ky * down + kx * across;
            const bool first = ky == y.first && kx == x.first;
            for (int32_t c = 0; c < channels; c++) {
                const float v = tap[c * step], old = first ? v : out[c * out_step];
                out[c * out_step] = first ? v : largest ? (v > old ? v : old) : old + v;
            }
        }
    for (int32_t c = 0; c < channels && !largest && !none; c++)
        out[c * out_step] /= count;
}

static void pool2d_windows(const bs_call *call, int32_t row)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const bs_window w = bs_pool2d_window(call->params);
    const bs_window_axis *down = &w.axis[0], *across = &w.axis[1];
    const float *from = bs_f32_at(in, row * in->row_stride);
    float *to = bs_f32_at(out, row * out->row_stride);
    for (int32_t oy = out->rect.y0; oy < out->rect.y1; oy++) {
        const int32_t y = oy * down->stride - down->before;
        const pool2d_range rows = pool2d_clip(y + in->frame_y, down, in->frame_h);
        for (int32_t ox = out->rect.x0; ox < out->rect.x1; ox++) {
            const int32_t x = ox * across->stride - across->before;
            pool2d_pixel(call, &w, from + y * in->stride[1] + x * in->stride[2], rows,
                         pool2d_clip(x + in->frame_x, across, in->frame_w),
                         to + oy * out->stride[1] + ox * out->stride[2]);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------ global */

#define POOL_BLOCK 64 /* channels at a time: their sums stay on the stack, whatever the number of channels */

/* Sums go pixel by pixel into a row, row by row into the total: short sums lose little in f32. */
static void pool2d_global_sum(const bs_operand *in, const float *from, int32_t channels, float *total)
{
    memset(total, 0, sizeof(float) * POOL_BLOCK);
    for (int32_t y = 0; y < in->dim[1]; y++) {
        float line[POOL_BLOCK] = {0};
        for (int32_t x = 0; x < in->dim[2]; x++) {
            const float *pixel = from + y * in->stride[1] + x * in->stride[2];
            for (int32_t c = 0; c < channels; c++)
                line[c] += pixel[c * in->stride[0]];
        }
        for (int32_t c = 0; c < channels; c++)
            total[c] += line[c];
    }
}

static void pool2d_global_max(const bs_operand *in, const float *from, int32_t channels, float *top)
{
    for (int32_t c = 0; c < channels; c++)
        top[c] = from[c * in->stride[0]];
    for (int32_t y = 0; y < in->dim[1]; y++)
        for (int32_t x = 0; x < in->dim[2]; x++) {
            const float *pixel = from + y * in->stride[1] + x * in->stride[2];
            for (int32_t c = 0; c < channels; c++)
                top[c] = pixel[c * in->stride[0]] > top[c] ? pixel[c * in->stride[0]] : top[c];
        }
}

/* A cell without pixels (its frame shrank below it) gives zero. */
static void pool2d_global(const bs_call *call, int32_t row)
{
    const bs_pool2d_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const float area = (float)in->dim[1] * (float)in->dim[2];
    float *to = bs_f32_at(out, row * out->row_stride);
    if (area > 0.0f && pool2d_by_kernel(call, bs_f32_at(in, row * in->row_stride), in->stride[1], in->stride[2],
                                        in->dim[1], in->dim[2],
                                        desc->kind == BS_POOL_MAX ? BS_POOL_LARGEST : BS_POOL_MEAN_OF_ROWS, area, to))
        return;
    for (int32_t first = 0; first < in->dim[0]; first += POOL_BLOCK) {
        const float *from = bs_f32_at(in, row * in->row_stride + first * in->stride[0]);
        const int32_t channels = bs_min_i32(POOL_BLOCK, in->dim[0] - first);
        float block[POOL_BLOCK] = {0};
        if (area > 0.0f && desc->kind == BS_POOL_MAX)
            pool2d_global_max(in, from, channels, block);
        else if (area > 0.0f)
            pool2d_global_sum(in, from, channels, block);
        for (int32_t c = 0; c < channels; c++)
            to[(first + c) * out->stride[0]] = desc->kind == BS_POOL_MAX || area == 0.0f ? block[c] : block[c] / area;
    }
}
#undef POOL_BLOCK

static bs_status pool2d_run(const bs_call *call)
{
    const bs_pool2d_desc *desc = call->params;
    for (int32_t row = 0; row < call->rows; row++) {
        if (desc->global)
            pool2d_global(call, row);
        else
            pool2d_windows(call, row);
    }
    return BS_OK;
}

static const bs_op_rules pool2d_rules = {.halo = pool2d_halo, .upgrade = pool2d_upgrade};

const bs_op bs_op_pool2d = {.name = "pool2d",
                            .min_in = 1,
                            .layout = {.images = true, .edges = true},
                            BS_PARAMS(bs_pool2d_desc, pool2d_fields),
                            .rules = &pool2d_rules,
                            .infer = pool2d_infer,
                            .flops = pool2d_flops,
                            .run = pool2d_run};

bs_value bs_pool2d(bs_graph *graph, bs_value x, const bs_pool2d_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_pool2d);
}
