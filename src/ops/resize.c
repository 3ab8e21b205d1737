/* ops/resize.c - images of another size: by an integer factor, with weights by phase; and by any ratio, or to a size.
 * Relies on kernels/elementwise.h. Must never read beyond the frame: taps are clamped to it, and halo() provides all
 * others. Weights depend only on the phase (output coordinate modulo factor), so a pixel is the same in whichever cell
 * it is computed.
 *
 * Integer bicubic x2 (u8, u16, a = -0.5): the weights -3 29 111 -9 over 128 are exact, both passes stay in integers,
 * and the result is (sum + 2^13) >> 14, saturated: the same codes on every tier. */
#include "kernels/elementwise.h"
#include "ops/common.h"
#include "ops/resize.h"

static const bs_field resize_fields[] = {BS_FIELD_OF("kind", RESIZE),
                                         BS_INT("factor"),
                                         BS_FLOAT("cubic_a"),
                                         BS_INT_OF("code_bits", 0, 16),
                                         BS_INT_OF("den", 0, 1 << 15),
                                         BS_INT_OF("height", 0, 1 << 30),
                                         BS_INT_OF("width", 0, 1 << 30),
                                         BS_FIELD_OF("centres", CENTRES),
                                         BS_INT_OF("antialias", 0, 1)};

static int32_t resize_factor(const bs_resize_desc *desc) { return bs_or_default(desc->factor, 2); }

static int32_t resize_den(const bs_resize_desc *desc) { return bs_or_default(desc->den, 1); }

static float resize_cubic_a(const bs_resize_desc *desc) { return desc->cubic_a == 0.0f ? -0.5f : desc->cubic_a; }

/* Bicubic x2 with the weights that kernels have. */
static bool resize_doubles(const bs_resize_desc *desc)
{
    return desc->kind == BS_RESIZE_BICUBIC && resize_factor(desc) == 2 && resize_cubic_a(desc) == -0.5f &&
           bs_resize_by_factor(desc);
}

static bool resize_in_integers(const bs_resize_desc *desc, bs_dtype dtype)
{
    return (dtype == BS_U8 || dtype == BS_U16) && resize_doubles(desc);
}

/* Dimension d of the result: `size`, if sizes are given, or of the ratio. Where all pixels count, there are only so
 * many for one of the result. */
static bool resize_extent(bs_infer *infer, int32_t d, const char *field, int32_t size, bool sized)
{
    const bs_resize_desc *desc = infer->params;
    const int64_t most = desc->kind == BS_RESIZE_AREA ? BS_RESIZE_TAPS - 2 : desc->antialias ? BS_RESIZE_MOST : 1 << 30;
    if (!sized)
        return bs_infer_field(infer, "den", desc->den, 0, most * resize_factor(desc)) &&
               bs_infer_extent(infer, d, resize_factor(desc), 0, resize_den(desc));
    if (!bs_infer_field(infer, field, size, bs_ceil_div(bs_dim_max(infer->graph, infer->in[0]->dims[d]), most),
                        1 << 30))
        return false;
    infer->out[0].dims[d] = bs_dim_const(infer->graph, size);
    return true;
}

/* What goes with what. A size, and aligned corners, are of the frame: no cell knows where it lies in the result. */
static bool resize_options(bs_infer *infer, bool sized)
{
    const bs_resize_desc *desc = infer->params;
    return (!desc->antialias || bs_infer_field(infer, "kind", desc->kind, BS_RESIZE_BILINEAR, BS_RESIZE_BICUBIC)) &&
           (!bs_resize_inside(desc) || bs_infer_field(infer, "centres", desc->centres, 0, 0)) &&
           ((!sized && desc->centres != BS_RESIZE_ALIGN_CORNERS) || bs_infer_whole(infer, 0));
}

static bool resize_infer(bs_infer *infer)
{
    const bs_resize_desc *desc = infer->params;
    const int32_t factor = resize_factor(desc), den = resize_den(desc);
    const bool sized = desc->height > 0 || desc->width > 0;
    return bs_infer_dtypes(infer, 0, 1u << BS_F32 | 1u << BS_U8 | 1u << BS_U16, "f32, u8 or u16") &&
           bs_infer_field(infer, "factor", desc->factor, 0, bs_min_i32(BS_RESIZE_MOST * den, 1 << 15)) &&
           bs_infer_rank(infer, 0, 3, 3) && resize_options(infer, sized) &&
           resize_extent(infer, 1, "height", desc->height, sized) &&
           resize_extent(infer, 2, "width", desc->width, sized) && (sized || bs_infer_scale(infer, factor, den));
}

/* Taps reach 0, 1, 2 pixels, or as many of the result's where those are larger. A mean reads only what its own pixel
 * covers. */
static int32_t resize_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    const bs_resize_desc *desc = node->params;
    const int64_t factor = resize_factor(desc), den = resize_den(desc);
    const int64_t reach = desc->kind == BS_RESIZE_AREA ? 0 : desc->kind;
    (void)graph, (void)index;
    return (int32_t)(bs_ceil_div(out_margin * den, factor) +
                     (desc->antialias && den > factor ? bs_ceil_div(reach * den, factor) : reach));
}

static double resize_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_resize_desc *desc = node->params;
    const double shrinks = (double)resize_den(desc) / resize_factor(desc),
                 wide = bs_resize_inside(desc) && shrinks > 1 ? shrinks : 1;
    const double taps = bs_resize_taps(desc->kind) * wide;
    return bs_value_work(graph, node->first_out) * 2.0 * taps * (taps + 1.0);
}

/* ----------------------------------------------------------------------------------------------------- phases */

typedef struct resize_job {
    const bs_call *call;
    bs_resize_desc desc; /* defaults filled in */
    bool by_factor, integers;
    int32_t top; /* largest code */
    bs_resize_phase phase[BS_RESIZE_MOST];
} resize_job;

static void resize_job_fill(resize_job *job, const bs_call *call)
{
    const bs_resize_desc *desc = call->params;
    const bs_dtype dtype = call->out[0].dtype;
    job->call = call;
    job->desc = *desc;
    job->desc.factor = resize_factor(desc);
    job->desc.cubic_a = resize_cubic_a(desc);
    job->desc.den = resize_den(desc);
    job->by_factor = bs_resize_by_factor(&job->desc);
    job->integers = resize_in_integers(desc, dtype);
    job->top = dtype == BS_U8 ? 255 : (1 << bs_or_default(desc->code_bits, 16)) - 1;
    for (int32_t r = 0; job->by_factor && r < job->desc.factor; r++)
        job->phase[r] = bs_resize_phase_of(desc->kind, job->desc.factor, job->desc.cubic_a, r);
}

/* What one output coordinate reads along one axis. */
typedef struct resize_taps {
    int32_t count;
    ptrdiff_t offset[BS_RESIZE_TAPS];
    float weight[BS_RESIZE_TAPS];
} resize_taps;

/* Coordinates, of cores; `size` of the result, if it is given; where cores lie in their frames. */
typedef struct resize_along {
    int32_t size, origin, extent, out_origin;
    ptrdiff_t stride;
} resize_along;

static void resize_taps_of(const resize_job *job, const resize_along *along, int32_t at, resize_taps *taps)
{
    const bs_resize_desc *desc = &job->desc;
    int32_t low;
    if (job->by_factor) {
        const int32_t group = (int32_t)bs_floor_div(at, desc->factor);
        const bs_resize_phase *phase = &job->phase[at - group * desc->factor];
        low = group + phase->start + along->origin;
        taps->count = bs_resize_taps(desc->kind);
        memcpy(taps->weight, phase->weight, sizeof phase->weight);
    } else {
        const bs_resize_axis axis = bs_resize_axis_of(desc, along->size, along->extent);
        const bs_resize_line line = bs_resize_line_of(&axis, at + along->out_origin);
        low = line.low;
        taps->count = bs_min_i32(line.count, BS_RESIZE_TAPS);
        for (int32_t k = 0; k < taps->count; k++)
            taps->weight[k] = bs_resize_weight(&axis, &line, k);
    }
    for (int32_t k = 0; k < taps->count; k++)
        taps->offset[k] = (bs_clamp_i32(low + k, 0, along->extent - 1) - along->origin) * along->stride;
}

/* ----------------------------------------------------------------------------------------------------- kernels */

static float resize_sample(const void *data, bs_dtype dtype, int64_t at, const resize_taps *y, const resize_taps *x)
{
    float sum = 0.0f;
    for (int32_t j = 0; j < y->count; j++) {
        float line = 0.0f;
        for (int32_t i = 0; i < x->count; i++)
            line += x->weight[i] * bs_load_f32(data, dtype, at + y->offset[j] + x->offset[i]);
        sum += y->weight[j] * line;
    }
    return sum;
}

static int32_t resize_code(const void *data, bs_dtype dtype, int64_t at)
{
    return dtype == BS_U8 ? ((const uint8_t *)data)[at] : ((const uint16_t *)data)[at];
}

/* Weights x 128 are whole numbers. At most 65535 (140^2 + 12^2) = 1.3e9: fits 32 bits. */
static int32_t resize_sample_code(const void *data, bs_dtype dtype, int64_t at, const resize_taps *y,
                                  const resize_taps *x)
{
    int32_t sum = 0;
    for (int32_t j = 0; j < 4; j++) {
        int32_t line = 0;
        for (int32_t i = 0; i < 4; i++)
            line += (int32_t)(x->weight[i] * 128.0f) * resize_code(data, dtype, at + y->offset[j] + x->offset[i]);
        sum += (int32_t)(y->weight[j] * 128.0f) * line;
    }
    return (int32_t)bs_floor_div((int64_t)sum + (1 << 13), 1 << 14);
}

static void resize_store(const bs_operand *out, int64_t at, int32_t code)
{
    if (out->dtype == BS_U8)
        ((uint8_t *)out->data)[at] = (uint8_t)code;
    else
        ((uint16_t *)out->data)[at] = (uint16_t)code;
}

/* Of one tap of weight 1 the sum is the element; but -0 becomes 0 in it. */
static void resize_copy(const bs_operand *in, const bs_operand *out, int64_t from, int64_t to)
{
    const float *source = bs_f32_at(in, from);
    float *target = bs_f32_at(out, to);
    const int32_t channels = out->dim[0];
    if (BS_DENSE_PAYS && in->stride[0] == 1 && out->stride[0] == 1)
        for (int32_t c = 0; c < channels; c++)
            target[c] = 0.0f + source[c];
    else
        for (int32_t c = 0; c < channels; c++)
            target[c * out->stride[0]] = 0.0f + source[c * in->stride[0]];
}

/* resize_sample for many channels that lie side by side: the same sums in the same order, a block of them at a time. */
static void resize_channels(const float *in, float *out, int32_t channels, const resize_taps *y, const resize_taps *x)
{
    enum { BLOCK = 16 };
    for (int32_t c = 0; c < channels; c += BLOCK, in += BLOCK, out += BLOCK) {
        const int32_t n = bs_min_i32(channels - c, BLOCK);
        float sum[BLOCK] = {0}, line[BLOCK];
        for (int32_t j = 0; j < y->count; j++) {
            memset(line, 0, sizeof line);
            for (int32_t i = 0; i < x->count; i++) {
                const float *from = in + y->offset[j] + x->offset[i];
                const float weight = x->weight[i];
                if (n == BLOCK)
                    for (int32_t k = 0; k < BLOCK; k++)
                        line[k] += weight * from[k];
                else
                    for (int32_t k = 0; k < n; k++)
                        line[k] += weight * from[k];
            }
            for (int32_t k = 0; k < BLOCK; k++)
                sum[k] += y->weight[j] * line[k];
        }
        memcpy(out, sum, sizeof *sum * (size_t)n);
    }
}

/* The same of two taps each way, at once: a sum that begins at 0 is never -0, whatever the signs of its lines. */
static void resize_four(const float *in, float *out, int32_t channels, const resize_taps *y, const resize_taps *x)
{
    enum { BLOCK = 16 };
    const float *upper = in + y->offset[0], *lower = in + y->offset[1];
    const ptrdiff_t left = x->offset[0], right = x->offset[1];
    const float top = y->weight[0], bottom = y->weight[1], first = x->weight[0], second = x->weight[1];
    int32_t c = 0;
    for (; c + BLOCK <= channels; c += BLOCK, upper += BLOCK, lower += BLOCK) {
        float sum[BLOCK];
        for (int32_t k = 0; k < BLOCK; k++)
            sum[k] = (0.0f + top * (first * upper[left + k] + second * upper[right + k])) +
                     bottom * (first * lower[left + k] + second * lower[right + k]);
        memcpy(out + c, sum, sizeof sum);
    }
    if (c < channels)
        resize_channels(in + c, out + c, channels - c, y, x);
}

static bool resize_is_one(const resize_taps *taps) { return taps->count == 1 && taps->weight[0] == 1.0f; }

static void resize_pixel(const resize_job *job, int64_t from, int64_t to, const resize_taps *y, const resize_taps *x)
{
    const bs_operand *in = &job->call->in[0], *out = &job->call->out[0];
    if (out->dtype == BS_F32 && resize_is_one(y) && resize_is_one(x)) {
        resize_copy(in, out, from + y->offset[0] + x->offset[0], to);
        return;
    }
    const bool floats = in->dtype == BS_F32 && out->dtype == BS_F32;
    if (BS_DENSE_PAYS && floats && in->stride[0] == 1 && out->stride[0] == 1 && out->dim[0] >= 4) {
        (y->count == 2 && x->count == 2 ? resize_four : resize_channels)(bs_f32_at(in, from), bs_f32_at(out, to),
                                                                        out->dim[0], y, x);
        return;
    }
    for (int32_t c = 0; c < out->dim[0]; c++, from += in->stride[0], to += out->stride[0]) {
        if (job->integers)
            resize_store(out, to, bs_clamp_i32(resize_sample_code(in->data, in->dtype, from, y, x), 0, job->top));
        else if (out->dtype == BS_F32)
            ((float *)out->data)[to] = resize_sample(in->data, BS_F32, from, y, x);
        else
            resize_store(out, to, bs_f32_to_code(resize_sample(in->data, in->dtype, from, y, x), 0, job->top));
    }
}

static void resize_reference(const resize_job *job, int32_t row)
{
    const bs_operand *in = &job->call->in[0], *out = &job->call->out[0];
    const bs_rect r = out->rect;
    const resize_along down = {job->desc.height, in->frame_y, in->frame_h, out->frame_y, in->stride[1]},
                       across = {job->desc.width, in->frame_x, in->frame_w, out->frame_x, in->stride[2]};
    for (int32_t oy = r.y0; oy < r.y1; oy++) {
        resize_taps y, x;
        resize_taps_of(job, &down, oy, &y);
        for (int32_t ox = r.x0; ox < r.x1; ox++) {
            resize_taps_of(job, &across, ox, &x);
            resize_pixel(job, row * in->row_stride, row * out->row_stride + oy * out->stride[1] + ox * out->stride[2],
                         &y, &x);
        }
    }
}

/* ----------------------------------------------------------------------------------------------- bicubic x2, fast
 * The kernels fill whole groups of 2 x 2. A rectangle may begin or end within a group (an odd halo): such groups go
 * through a small buffer, by the same kernel, so that a pixel's bits do not depend on the rectangle. */

/* f32: strides choose between this and the reference, which rounds differently; the strides of a value never change
 * within a plan. */
#define BS_RESIZE_BLOCK 64 /* input columns of a buffered block */

static bool resize_is_fast(const resize_job *job)
{
    const bool lines = job->call->in[0].stride[2] == 1 && job->call->out[0].stride[2] == 1;
    return resize_doubles(&job->desc) && lines && job->call->plan->tier != BS_TIER_SCALAR;
}

/* One plane: addresses of element (0, 0) of operand and result. */
typedef struct resize_plane {
    const resize_job *job;
    const char *in;
    char *out;
    ptrdiff_t bytes;
} resize_plane;

/* Input region at (y, x) of h x w to `out`. */
static void resize_double(const resize_plane *p, int32_t y, int32_t x, int32_t h, int32_t w, void *out,
                          ptrdiff_t out_row)
{
    const bs_operand *in = &p->job->call->in[0];
    const bs_tier tier = p->job->call->plan->tier;
    const int32_t fy = y + in->frame_y, fx = x + in->frame_x;
    const bs_margins margins = {bs_min_i32(2, fy), bs_min_i32(2, in->frame_h - fy - h), bs_min_i32(2, fx),
                                bs_min_i32(2, in->frame_w - fx - w)};
    const bs_bicubic2x task = {
        p->in + (y * in->stride[1] + x) * p->bytes, in->stride[1], out, out_row, h, w, margins, (uint16_t)p->job->top};
    if (in->dtype == BS_F32)
        bs_bicubic2x_f32(tier, &task);
    else if (in->dtype == BS_U8)
        bs_bicubic2x_u8(tier, &task);
    else
        bs_bicubic2x_u16(tier, &task);
}

/* Input row y, columns x .. x + w (at most BS_RESIZE_BLOCK): writes the part of their output groups that lies in the
 * rectangle. */
static void resize_block(const resize_plane *p, int32_t y, int32_t x, int32_t w)
{
    const bs_operand *out = &p->job->call->out[0];
    float buffer[2][2 * BS_RESIZE_BLOCK];
    const int32_t from = bs_max_i32(2 * x, out->rect.x0), to = bs_min_i32(2 * (x + w), out->rect.x1);
    resize_double(p, y, x, 1, w, buffer, (ptrdiff_t)sizeof buffer[0] / p->bytes);
    for (int32_t oy = bs_max_i32(2 * y, out->rect.y0); oy < bs_min_i32(2 * y + 2, out->rect.y1); oy++)
        memcpy(p->out + (oy * out->stride[1] + from) * p->bytes,
               (const char *)buffer[oy - 2 * y] + (from - 2 * x) * p->bytes, (size_t)((to - from) * p->bytes));
}

static void resize_blocks(const resize_plane *p, int32_t y0, int32_t y1, int32_t x0, int32_t x1)
{
    for (int32_t y = y0; y < y1; y++)
        for (int32_t x = x0; x < x1; x += BS_RESIZE_BLOCK)
            resize_block(p, y, x, bs_min_i32(BS_RESIZE_BLOCK, x1 - x));
}
#undef BS_RESIZE_BLOCK

static void resize_plane_fast(const resize_plane *p)
{
    const bs_operand *out = &p->job->call->out[0];
    const bs_rect r = out->rect;
    const bs_rect all = {(int32_t)bs_floor_div(r.y0, 2), (int32_t)bs_ceil_div(r.y1, 2), (int32_t)bs_floor_div(r.x0, 2),
                         (int32_t)bs_ceil_div(r.x1, 2)};
    /* groups that lie inside entirely */
    const int32_t y0 = (int32_t)bs_ceil_div(r.y0, 2), y1 = bs_max_i32(y0, (int32_t)bs_floor_div(r.y1, 2));
    const int32_t x0 = (int32_t)bs_ceil_div(r.x0, 2), x1 = bs_max_i32(x0, (int32_t)bs_floor_div(r.x1, 2));
    if (y1 > y0 && x1 > x0)
        resize_double(p, y0, x0, y1 - y0, x1 - x0, p->out + (2 * y0 * out->stride[1] + 2 * x0) * p->bytes,
                      out->stride[1]);
    resize_blocks(p, all.y0, y0, all.x0, all.x1);
    resize_blocks(p, y1, all.y1, all.x0, all.x1);
    resize_blocks(p, y0, y1, all.x0, x0);
    resize_blocks(p, y0, y1, x1, all.x1);
}

static void resize_fast(const resize_job *job, int32_t row)
{
    const bs_operand *in = &job->call->in[0], *out = &job->call->out[0];
    for (int32_t c = 0; c < out->dim[0]; c++) {
        const resize_plane plane = {job, bs_operand_at(in, row * in->row_stride + c * in->stride[0]),
                                    bs_operand_at(out, row * out->row_stride + c * out->stride[0]),
                                    (ptrdiff_t)bs_dtype_bytes(in->dtype)};
        resize_plane_fast(&plane);
    }
}

static bs_status resize_run(const bs_call *call)
{
    const bs_rect r = call->out[0].rect;
    resize_job job;
    if (r.y1 <= r.y0 || r.x1 <= r.x0)
        return BS_OK;
    resize_job_fill(&job, call);
    for (int32_t row = 0; row < call->rows; row++) {
        if (resize_is_fast(&job))
            resize_fast(&job, row);
        else
            resize_reference(&job, row);
    }
    return BS_OK;
}

static const bs_op_rules resize_rules = {.halo = resize_halo};

const bs_op bs_op_resize = {.name = "resize",
                            .min_in = 1,
                            .layout = {.images = true, .edges = true},
                            BS_PARAMS(bs_resize_desc, resize_fields),
                            .infer = resize_infer,
                            .rules = &resize_rules,
                            .flops = resize_flops,
                            .run = resize_run};

bs_value bs_resize(bs_graph *graph, bs_value x, const bs_resize_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_resize);
}
