/* run/margins.c - zeros around an image: readers' windows reach beyond what was computed or moved.
 * Relies on run/operands.h. Must never write to what a row has of its own. */
#include "run/operands.h"

static void zero_image(const bs_operand *o, bs_rect r)
{
    const size_t bytes = bs_dtype_bytes(o->dtype);
    for (int32_t y = r.y0; y < r.y1; y++) /* stored images only: channels-last */
        memset((uint8_t *)o->data + (y * o->stride[1] + r.x0 * o->stride[2]) * (ptrdiff_t)bytes, 0,
               (size_t)bs_max_i32(r.x1 - r.x0, 0) * (size_t)o->stride[2] * bytes);
}

#ifndef __OPTIMIZE_SIZE__
/* Rows that lie one after the other: what is right of one and left of the next is a piece. */
static void zero_between_rows(const bs_operand *o, int32_t low, int32_t bottom, int32_t right)
{
    const bs_rect r = o->rect;
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(o->dtype);
    const ptrdiff_t row = o->stride[1] * bytes, pixel = o->stride[2] * bytes;
    uint8_t *const origin = o->data, *at = origin + low * row + low * pixel;
    for (int32_t y = r.y0; y < r.y1; y++) {
        uint8_t *begin = origin + y * row + r.x0 * pixel;
        memset(at, 0, (size_t)(begin - at));
        at = begin + (r.x1 - r.x0) * pixel;
    }
    memset(at, 0, (size_t)(origin + (bottom - 1) * row + right * pixel - at));
}
#endif

void bs_zero_margin(const bs_operand *o, int32_t margin, int64_t max_h, int64_t max_w)
{
    const int32_t low = -margin, bottom = (int32_t)bs_min_i64(o->rect.y1 + margin, max_h + margin);
    const int32_t right = (int32_t)bs_min_i64(o->rect.x1 + margin, max_w + margin);
#ifndef __OPTIMIZE_SIZE__
    if (o->stride[1] == (right - low) * o->stride[2] && o->rect.y0 < o->rect.y1) {
        zero_between_rows(o, low, bottom, right);
        return;
    }
#endif
    zero_image(o, (bs_rect){low, o->rect.y0, low, right});
    zero_image(o, (bs_rect){o->rect.y1, bottom, low, right});
    if (o->rect.x0 > low)
        zero_image(o, (bs_rect){o->rect.y0, o->rect.y1, low, o->rect.x0});
    if (o->rect.x1 < right)
        zero_image(o, (bs_rect){o->rect.y0, o->rect.y1, o->rect.x1, right});
}

/* In a frame that tiles write, a cell at the frame's edge zeroes the margin beyond it. A cell that is empty at this
 * scale (the last one of an odd frame at half its size) does nothing: its neighbour, on another thread, is at the
 * edge. */
static void zero_beyond_frame(const bs_operand *o, int32_t margin)
{
    const int32_t h = o->dim[1], w = o->dim[2];
    if (h <= 0 || w <= 0)
        return;
    const int32_t top = o->frame_y == 0 ? -margin : 0, bottom = o->frame_y + h == o->frame_h ? h + margin : h;
    const int32_t left = o->frame_x == 0 ? -margin : 0, right = o->frame_x + w == o->frame_w ? w + margin : w;
    zero_image(o, (bs_rect){top, 0, left, right});
    zero_image(o, (bs_rect){h, bottom, left, right});
    zero_image(o, (bs_rect){0, h, left, 0});
    zero_image(o, (bs_rect){0, h, w, right});
}

/* Zeroes the margin around a row that was moved to `target`: readers' windows reach there. */
void bs_zero_around(const bs_context *c, int32_t target, const bs_operand *o)
{
    const bs_session *s = c->session;
    const int32_t margin = target ? s->plan->values[target].margin : 0;
    int64_t h, w;
    if (margin == 0 || o->rank != 3)
        return;
    if (s->graph->values[target].domain == 0) {
        zero_beyond_frame(o, margin);
        return;
    }
    bs_plan_core(s->plan, &s->graph->values[target], &h, &w);
    bs_zero_margin(o, margin, h, w);
}
