/* ops/pixel_shuffle.c - [C r r, H, W] <-> [C, rH, rW], elements of any type.
 * Relies on span.h: each of the r x r phases is a strided copy; on kernels/arrange.h where lines are dense.
 * Must never do arithmetic. */
#include "kernels/arrange.h"
#include "ops/common.h"
#include "ops/span.h"

typedef struct bs_pixel_shuffle_desc {
    const char *name;
    int32_t r;
} bs_pixel_shuffle_desc;

enum { SHUFFLE_FLOATS = 768 }; /* of pixels whose phases are taken apart at a time */

static const bs_field pixel_shuffle_fields[] = {BS_INT_OF("r", 1, 64)};

static int32_t pixel_shuffle_factor(const bs_node *node) { return ((const bs_pixel_shuffle_desc *)node->params)->r; }

/* Channels of operand 0; 0 on failure. */
static int32_t pixel_shuffle_channels(bs_infer *infer)
{
    int32_t channels = 0;
    return bs_infer_rank(infer, 0, 3, 3) && bs_infer_const(infer, 0, 0, "channels", &channels) ? channels : 0;
}

static bool pixel_shuffle_infer(bs_infer *infer)
{
    const int32_t r = ((const bs_pixel_shuffle_desc *)infer->params)->r, channels = pixel_shuffle_channels(infer);
    if (!channels)
        return false;
    if (channels % (r * r) != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension 0 is %" PRId32 ", not a multiple of r r = %" PRId32,
                             channels, r * r);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, channels / (r * r));
    return bs_infer_frame(infer, r, 0, 0, 1) && bs_infer_scale(infer, r, 1);
}

static bool pixel_unshuffle_divides(bs_infer *infer, int32_t axis, int32_t r)
{
    const bs_dim_id d = infer->in[0]->dims[axis];
    if (!bs_dim_is_const(infer->graph, d) || bs_dim_max(infer->graph, d) % r == 0)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %" PRId32 " is %lld, not a multiple of r = %" PRId32, axis,
                         (long long)bs_dim_max(infer->graph, d), r);
}

static bool pixel_unshuffle_infer(bs_infer *infer)
{
    const int32_t r = ((const bs_pixel_shuffle_desc *)infer->params)->r, channels = pixel_shuffle_channels(infer);
    if (!channels || !pixel_unshuffle_divides(infer, 1, r) || !pixel_unshuffle_divides(infer, 2, r))
        return false;
    infer->out[0].dims[0] = bs_dim_const(infer->graph, (int64_t)channels * r * r);
    return bs_infer_frame(infer, 1, 0, 0, r) && bs_infer_scale(infer, 1, r);
}

static int32_t pixel_shuffle_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    (void)graph, (void)index;
    return (int32_t)bs_ceil_div(out_margin, pixel_shuffle_factor(node));
}

static int32_t pixel_unshuffle_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    (void)graph, (void)index;
    return out_margin * pixel_shuffle_factor(node);
}

/* ----------------------------------------------------------------------------------------------------- kernels */

/* Every r-th pixel of a large image from (y, x): a view with the small image's coordinates. */
static bs_operand phase_of_large(const bs_operand *large, int32_t r, int32_t i, int32_t j)
{
    bs_operand view = *large;
    view.data = bs_operand_at(large, i * large->stride[1] + j * large->stride[2]);
    view.stride[1] *= r;
    view.stride[2] *= r;
    return view;
}

/* Channels first, first + step, ... of a small image. */
static bs_operand phase_of_small(const bs_operand *small, int32_t step, int32_t first)
{
    bs_operand view = *small;
    view.data = bs_operand_at(small, first * small->stride[0]);
    view.stride[0] *= step;
    view.dim[0] /= step;
    return view;
}

/* Coordinates q with low <= q r + i < high. */
static void phase_range(bs_span *span, int32_t axis, int32_t low, int32_t high, int32_t r, int32_t i)
{
    span->low[axis + 1] = bs_ceil_div(low - i, r);
    span->count[axis + 1] = bs_ceil_div(high - i, r) - span->low[axis + 1];
}

#ifndef BS_SMALL
/* Whether images are such that a line of the small one, all phases at once, makes r lines of the large one. */
static bool shuffle_is_of_lines(const bs_operand *in, const bs_operand *out, int32_t r)
{
    const int32_t channels = out->dim[0];
    const bs_rect *to = &out->rect;
    return BS_DENSE_PAYS && out->dtype == BS_F32 && in->stride[0] == 1 && out->stride[0] == 1 &&
           in->stride[2] == in->dim[0] && out->stride[2] == channels && in->dim[0] <= SHUFFLE_FLOATS &&
           to->y0 % r == 0 && to->y1 % r == 0 && to->x0 % r == 0 && to->x1 % r == 0;
}

/* Lines of the large image from `planes`, one a phase: in each, channels of `pixels` lie side by side. */
static void shuffle_put(const float *planes, int32_t r, int32_t pixels, int32_t channels, float *to, ptrdiff_t to_line)
{
    const ptrdiff_t plane = (ptrdiff_t)pixels * channels;
    for (int32_t i = 0; i < r; i++, planes += r * plane, to += to_line) {
        float *at = to;
        for (int32_t x = 0; x < pixels; x++)
            for (int32_t j = 0; j < r; j++, at += channels) {
                const float *from = planes + j * plane + (ptrdiff_t)x * channels;
                int32_t c = 0;
                for (; c + 4 <= channels; c += 4) /* calls of memcpy would take longer than what they copy */
                    memcpy(at + c, from + c, 4 * sizeof *at);
                for (; c < channels; c++)
                    at[c] = from[c];
            }
    }
}

static void shuffle_line(bs_tier tier, const float *from, int32_t r, int32_t pixels, int32_t channels, float *to,
                         ptrdiff_t to_line)
{
    if (r == 2 && bs_shuffle_pairs_f32(tier, from, pixels, channels, to, to_line))
        return;
    float planes[SHUFFLE_FLOATS];
    const int32_t phases = r * r, most = SHUFFLE_FLOATS / (channels * phases);
    for (int32_t count; pixels > 0; pixels -= count) {
        count = bs_min_i32(pixels, most);
        bs_transpose_f32(tier, from, phases, count * channels, phases, planes, (ptrdiff_t)count * channels);
        shuffle_put(planes, r, count, channels, to, to_line);
        from += (ptrdiff_t)count * channels * phases;
        to += (ptrdiff_t)count * channels * r;
    }
}

static void shuffle_lines(const bs_call *call, int32_t r)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const bs_rect to = out->rect;
    for (int32_t row = 0; row < call->rows; row++)
        for (int32_t y = to.y0 / r; y < to.y1 / r; y++) {
            const ptrdiff_t x = to.x0 / r;
            shuffle_line((bs_tier)call->plan->tier,
                         bs_operand_at(in, row * in->row_stride + y * in->stride[1] + x * in->stride[2]), r,
                         to.x1 / r - to.x0 / r, out->dim[0],
                         bs_operand_at(out, row * out->row_stride + y * r * out->stride[1] + x * r * out->stride[2]),
                         out->stride[1]);
        }
}
#endif

static bs_status pixel_shuffle_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0];
    const int32_t r = pixel_shuffle_factor(call->node);
#ifndef BS_SMALL
    if (shuffle_is_of_lines(&call->in[0], out, r)) {
        shuffle_lines(call, r);
        return BS_OK;
    }
#endif
    for (int32_t phase = 0; phase < r * r; phase++) {
        const bs_operand to = phase_of_large(out, r, phase / r, phase % r),
                         from = phase_of_small(&call->in[0], r * r, phase);
        bs_span span;
        bs_span_box(&span, out, call->rows);
        phase_range(&span, 1, out->rect.y0, out->rect.y1, r, phase / r);
        phase_range(&span, 2, out->rect.x0, out->rect.x1, r, phase % r);
        bs_span_copy(&span, call, &to, &from, NULL);
    }
    return BS_OK;
}

/* A frame that does not divide by r (its extents are symbols) is refused here: rows would be missing. */
static bs_status pixel_unshuffle_run(const bs_call *call)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t r = pixel_shuffle_factor(call->node);
    if (in->frame_h % r != 0 || in->frame_w % r != 0)
        return BS_ERROR_SHAPE;
    for (int32_t phase = 0; phase < r * r; phase++) {
        const bs_operand to = phase_of_small(out, r * r, phase), from = phase_of_large(in, r, phase / r, phase % r);
        bs_span span;
        bs_span_box(&span, out, call->rows);
        span.count[1] = to.dim[0];
        bs_span_copy(&span, call, &to, &from, NULL);
    }
    return BS_OK;
}

static const bs_op_rules pixel_shuffle_rules = {.halo = pixel_shuffle_halo, .enlarges = pixel_shuffle_factor},
                         pixel_unshuffle_rules = {.halo = pixel_unshuffle_halo};

const bs_op bs_op_pixel_shuffle = {.name = "pixel_shuffle",
                                   .min_in = 1,
                                   .layout = {.images = true, .edges = true},
                                   BS_PARAMS(bs_pixel_shuffle_desc, pixel_shuffle_fields),
                                   .infer = pixel_shuffle_infer,
                                   .rules = &pixel_shuffle_rules,
                                   .run = pixel_shuffle_run};

const bs_op bs_op_pixel_unshuffle = {.name = "pixel_unshuffle",
                                     .min_in = 1,
                                     .layout = {.images = true, .edges = true},
                                     BS_PARAMS(bs_pixel_shuffle_desc, pixel_shuffle_fields),
                                     .infer = pixel_unshuffle_infer,
                                     .rules = &pixel_unshuffle_rules,
                                     .run = pixel_unshuffle_run};

bs_value bs_pixel_shuffle(bs_graph *graph, bs_value x, int32_t r)
{
    const bs_pixel_shuffle_desc desc = {NULL, r};
    return bs_op_build_one(graph, x, &desc, &bs_op_pixel_shuffle);
}

bs_value bs_pixel_unshuffle(bs_graph *graph, bs_value x, int32_t r)
{
    const bs_pixel_shuffle_desc desc = {NULL, r};
    return bs_op_build_one(graph, x, &desc, &bs_op_pixel_unshuffle);
}
