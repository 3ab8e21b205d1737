/* ops/resize.h - the weights of resized images, for plain kernels and for a device.
 * Relies on base/base.h. Must never contain a product that a compiler may fuse with a sum: both sides must give the
 * same bytes. */
#ifndef BS_OPS_RESIZE_H
#define BS_OPS_RESIZE_H

#include "base/base.h"

#include <math.h>

#define BS_RESIZE_MOST 16 /* the largest factor, and the smallest result with antialias: 1/16 */
#define BS_RESIZE_TAPS (4 * BS_RESIZE_MOST + 2)

/* Taps of output r of each group of `factor`: they begin at `start`, relative to the group's own input. */
typedef struct bs_resize_phase {
    float weight[4];
    int32_t start;
} bs_resize_phase;

/* Keys' kernel; a = -0.5 reproduces quadratics. */
static inline BS_BOTH float bs_resize_cubic(float a, float distance)
{
    const float x = fabsf(distance);
    if (x <= 1.0f)
        return BS_SUM(BS_SUM((a + 2.0f) * x, -(a + 3.0f)) * x * x, 1.0f);
    return BS_SUM(BS_SUM(BS_SUM(a * x, -5.0f * a) * x, 8.0f * a) * x, -4.0f * a);
}

static inline BS_BOTH bs_resize_phase bs_resize_phase_of(int32_t kind, int32_t factor, float cubic_a, int32_t r)
{
    const float offset = ((float)r + 0.5f) / (float)factor - 0.5f, at = offset < 0.0f ? offset + 1.0f : offset;
    bs_resize_phase phase = {{1.0f, 0.0f, 0.0f, 0.0f}, 0};
    if (kind == BS_RESIZE_NEAREST)
        return phase;
    phase.start = offset < 0.0f ? -1 : 0;
    phase.weight[0] = 1.0f - at;
    phase.weight[1] = at;
    if (kind == BS_RESIZE_BILINEAR)
        return phase;
    phase.start--;
    for (int32_t k = 0; k < 4; k++)
        phase.weight[k] = bs_resize_cubic(cubic_a, at + 1.0f - (float)k);
    return phase;
}

/* ------------------------------------------------------------------------------------------------- any ratio
 * Pixel i of an axis of a result lies at (i mul + add) / div among the operand's, in whole numbers: where a pixel reads
 * does not depend on how floats are rounded. Coordinates are of frames, not of cells. */
typedef struct bs_resize_axis {
    int32_t kind, extent; /* of the operand's frame */
    int64_t mul, add, div;
    int64_t unit; /* a distance of 1 of the kernel, over div */
    bool inside;
    float cubic_a;
} bs_resize_axis;

/* Whether the weights by phase above will do: what there was before op set 4. */
static inline BS_BOTH bool bs_resize_by_factor(const bs_resize_desc *desc)
{
    return desc->den <= 1 && desc->height == 0 && desc->centres == BS_RESIZE_HALF_PIXEL && !desc->antialias &&
           desc->kind != BS_RESIZE_AREA;
}

/* Whether taps beyond the frame are left out, and weights are made to sum to 1; else the edge's pixel is repeated. */
static inline BS_BOTH bool bs_resize_inside(const bs_resize_desc *desc)
{
    return desc->antialias || desc->kind == BS_RESIZE_AREA;
}

/* Of a result that is `size` long, or of the ratio if that is 0; all of `extent` are all of it where corners are
 * aligned, else `den` (or `extent`) pixels of the operand are `factor` (or `size`) of the result. */
static inline BS_BOTH bs_resize_axis bs_resize_axis_of(const bs_resize_desc *desc, int32_t size, int32_t extent)
{
    bs_resize_axis axis = {desc->kind, extent, size > 0 ? extent : desc->den, 0, size > 0 ? size : desc->factor, 0,
                           bs_resize_inside(desc), desc->cubic_a};
    if (desc->centres == BS_RESIZE_ALIGN_CORNERS) {
        const int64_t last = (size > 0 ? size : extent * axis.div / axis.mul) - 1;
        axis.mul = extent - 1;
        axis.div = last > 0 ? last : 1;
    } else if (desc->centres == BS_RESIZE_HALF_PIXEL && desc->kind != BS_RESIZE_AREA) {
        /* ((2 i + 1) from / to - 1) / 2; the nearest one is rounded down below */
        axis.add = desc->kind == BS_RESIZE_NEAREST ? axis.mul : axis.mul - axis.div;
        axis.mul *= 2;
        axis.div *= 2;
    }
    axis.unit = desc->antialias && axis.mul > axis.div ? axis.mul : axis.div;
    return axis;
}

/* Taps low .. low + count - 1 of one pixel, which lies at `at` over div; their weights sum to `total`. */
typedef struct bs_resize_line {
    int64_t at;
    int32_t low, count;
    float total;
} bs_resize_line;

static inline BS_BOTH float bs_resize_weight(const bs_resize_axis *axis, const bs_resize_line *line, int32_t tap)
{
    const int64_t away = (int64_t)(line->low + tap) * axis->div - line->at;
    const float distance = fabsf((float)away / (float)axis->unit);
    const float weight = axis->kind == BS_RESIZE_BILINEAR  ? 1.0f - distance
                         : axis->kind == BS_RESIZE_BICUBIC ? bs_resize_cubic(axis->cubic_a, distance)
                                                           : 1.0f;
    return weight / line->total;
}

static inline BS_BOTH bs_resize_line bs_resize_line_of(const bs_resize_axis *axis, int32_t pixel)
{
    bs_resize_line line = {pixel * axis->mul + axis->add, 0, 0, 1.0f};
    const bool kernel = axis->kind == BS_RESIZE_BILINEAR || axis->kind == BS_RESIZE_BICUBIC;
    const int64_t reach = kernel ? axis->kind * axis->unit : axis->kind == BS_RESIZE_AREA ? axis->mul : 0;
    int64_t low = bs_floor_div(kernel ? line.at - reach + axis->div : line.at, axis->div);
    int64_t high = kernel || reach == 0 ? bs_floor_div(line.at + reach, axis->div) + 1
                                        : bs_ceil_div(line.at + reach, axis->div);
    float total = 0.0f;
    if (axis->inside) {
        low = low < 0 ? 0 : low;
        high = high > axis->extent ? axis->extent : high;
    }
    line.low = (int32_t)low;
    line.count = (int32_t)(high - low);
    for (int32_t k = 0; axis->inside && k < line.count; k++)
        total += bs_resize_weight(axis, &line, k);
    line.total = axis->inside ? total : 1.0f;
    return line;
}

static inline BS_BOTH int32_t bs_resize_taps(int32_t kind)
{
    return kind == BS_RESIZE_BICUBIC ? 4 : kind == BS_RESIZE_BILINEAR ? 2 : 1;
}

#endif
