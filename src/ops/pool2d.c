/* ops/pool2d.c - average and maximum over windows, or over everything.
 * Relies on graph/op.h. Must never count what lies outside the frame (unless count_pad says so): windows are clipped by
 * the operand's place in its frame. Global pooling sees the core only, so that every pixel counts once. */
#include "ops/common.h"

static const bs_field pool2d_fields[] = {BS_INT_OF("kind", 0, BS_POOL_MAX),
                                         BS_INT_OF("kernel", 0, 255),
                                         BS_INT_OF("stride", 0, 255),
                                         BS_INT("pad"),
                                         BS_INT("global"),
                                         BS_INT("count_pad"),
                                         BS_INT("padding")};

/* Before op set 3 a global pool ignored `pad`. */
static void pool2d_upgrade(int32_t *fields, int32_t opset)
{
    if (opset < 3 && fields[4] != 0)
        fields[3] = 0;
    bs_upgrade_padding(opset, fields[3], &fields[6]);
}

static bs_window pool2d_window(const bs_pool2d_desc *desc)
{
    const int32_t kernel = bs_or_default(desc->kernel, 2);
    const bs_window window = {kernel, kernel, bs_or_default(desc->stride, kernel), desc->pad, desc->pad, 1};
    return window;
}

static bool pool2d_infer(bs_infer *infer)
{
    const bs_pool2d_desc *desc = infer->params;
    const bs_window window = pool2d_window(desc);
    if (!bs_infer_padding(infer, desc->padding, desc->pad, window.kernel_h / 2) || !bs_infer_dtype(infer, 0, BS_F32) ||
        !bs_infer_rank(infer, 0, 3, 3))
        return false;
    if (!desc->global)
        return bs_infer_window(infer, &window);
    infer->out[0].rank = 1;
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

static int32_t pool2d_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    const bs_pool2d_desc *desc = node->params;
    const bs_window window = pool2d_window(desc);
    (void)graph, (void)index;
    return desc->global ? 0 : bs_window_halo(&window, out_margin);
}

static double pool2d_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_pool2d_desc *desc = node->params;
    const bs_window window = pool2d_window(desc);
    if (desc->global)
        return bs_value_work(graph, bs_node_in(graph, node)[0]);
    return bs_value_work(graph, node->first_out) * window.kernel_h * window.kernel_w;
}

/* ----------------------------------------------------------------------------------------------------- windows */

/* Taps first .. end of a window that starts at `at` in a frame of `extent`. */
typedef struct pool2d_range {
    int32_t first, end;
} pool2d_range;

static pool2d_range pool2d_clip(int32_t at, int32_t kernel, int32_t extent)
{
    const pool2d_range range = {bs_max_i32(0, -at), bs_min_i32(kernel, extent - at)};
    return range;
}

static void pool2d_pixel(const bs_call *call, const float *window, pool2d_range y, pool2d_range x, float *out)
{
    const bs_pool2d_desc *desc = call->params;
    const bs_operand *in = &call->in[0];
    const ptrdiff_t step = in->stride[0], out_step = call->out[0].stride[0];
    const int32_t channels = call->out[0].dim[0], kernel = bs_or_default(desc->kernel, 2);
    for (int32_t ky = y.first; ky < y.end; ky++)
        for (int32_t kx = x.first; kx < x.end; kx++) {
            const float *tap = window + ky * in->stride[1] + kx * in->stride[2];
            const bool first = ky == y.first && kx == x.first;
            for (int32_t c = 0; c < channels; c++) {
                const float v = tap[c * step], old = first ? v : out[c * out_step];
                out[c * out_step] = first ? v : desc->kind == BS_POOL_MAX ? (v > old ? v : old) : old + v;
            }
        }
    if (desc->kind == BS_POOL_MAX)
        return;
    const float count = (float)(desc->count_pad ? kernel * kernel : (y.end - y.first) * (x.end - x.first));
    for (int32_t c = 0; c < channels; c++)
        out[c * out_step] /= count;
}

static void pool2d_windows(const bs_call *call, int32_t row)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const bs_window w = pool2d_window(call->params);
    const float *from = bs_f32_at(in, row * in->row_stride);
    float *to = bs_f32_at(out, row * out->row_stride);
    for (int32_t oy = out->rect.y0; oy < out->rect.y1; oy++) {
        const int32_t y = oy * w.stride - w.pad_h;
        const pool2d_range rows = pool2d_clip(y + in->frame_y, w.kernel_h, in->frame_h);
        for (int32_t ox = out->rect.x0; ox < out->rect.x1; ox++) {
            const int32_t x = ox * w.stride - w.pad_w;
            pool2d_pixel(call, from + y * in->stride[1] + x * in->stride[2], rows,
                         pool2d_clip(x + in->frame_x, w.kernel_w, in->frame_w),
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

static const bs_op_rules pool2d_rules = {.upgrade = pool2d_upgrade};

const bs_op bs_op_pool2d = {.name = "pool2d",
                            .min_in = 1,
                            .flags = BS_OP_SPATIAL | BS_OP_CLAMPS,
                            BS_PARAMS(bs_pool2d_desc, pool2d_fields),
                            .rules = &pool2d_rules,
                            .infer = pool2d_infer,
                            .halo = pool2d_halo,
                            .flops = pool2d_flops,
                            .run = pool2d_run};

bs_value bs_pool2d(bs_graph *graph, bs_value x, const bs_pool2d_desc *desc)
{
    return bs_op_build(graph, &bs_op_pool2d, &x.id, 1, desc);
}
