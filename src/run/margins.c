/* run/margins.c - zeros around an image: readers' windows reach beyond what was computed or moved. In a tile images
 * come and go in the same memory: where one lies as another did before it, the zeros are still there.
 * Relies on run/operands.h. Must never write to what a row has of its own. */
#include "run/operands.h"

#include "ops/structure.h"

/* Stored images only: channels last. Of an image that is a part of the channels of another one, only these. */
static void zero_image(const bs_operand *o, bs_rect r)
{
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(o->dtype);
    const int32_t pixels = o->dim[0] == o->stride[2] ? r.x1 - r.x0 : 1; /* that lie side by side */
    for (int32_t y = r.y0; y < r.y1; y++)
        for (int32_t x = r.x0; x < r.x1; x += pixels)
            memset((uint8_t *)o->data + (y * o->stride[1] + x * o->stride[2]) * bytes, 0,
                   (size_t)pixels * (size_t)o->dim[0] * (size_t)bytes);
}

#ifndef BS_SMALL
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
#ifndef BS_SMALL
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

/* A row of lines that is a channel of a root image, as that. */
static void as_channel(const bs_operand *row, bs_operand *image)
{
    image->rank = 3;
    image->image = true;
    image->dtype = row->dtype;
    image->data = row->data;
    image->dim[0] = 1;
    image->dim[1] = image->frame_h = row->dim[0];
    image->dim[2] = image->frame_w = row->dim[1];
    image->stride[1] = row->stride[0];
    image->stride[2] = row->stride[1];
    image->frame_y = image->frame_x = 0;
}

/* Zeroes the margin around a row that was moved to `target`: readers' windows reach there. Around what a loop collects
 * in a row of its own domain zeros are put before the first trip. */
void bs_zero_around(const bs_context *c, int32_t target, const bs_operand *o)
{
    const bs_session *s = c->session;
    const int32_t margin = target ? s->plan->values[target].margin : 0;
    const bool in_root = s->graph->values[target].domain == 0;
    bs_operand image;
    if (margin != 0 && in_root && o->rank == 2) {
        as_channel(o, &image);
        o = &image;
    }
    if (margin == 0 || !o->image)
        return;
    if (in_root) {
        zero_beyond_frame(o, margin);
        return;
    }
    int64_t h, w;
    bs_plan_core(s->plan, &s->graph->values[target], &h, &w);
    bs_zero_margin(o, margin, h, w);
}

/* ------------------------------------------------------------------------------------- zeros that are still there */

#ifdef BS_SMALL
void bs_margins_find(bs_session *s) { (void)s; }
#else
/* Images of a tile with zeros around them, of which nothing was overwritten since. */
enum { LATEST = 8 };

typedef struct zeroed_images {
    const bs_plan *plan;
    int32_t value[LATEST], count;
} zeroed_images;

/* Whether rows of both lie at the same places of a tile's scratch, with the same zeros around the same extents. A
 * loop's trips have a domain of their own: each of them begins with zeros that it wrote itself. */
static bool lie_alike(const bs_plan *p, int32_t a, int32_t b)
{
    const bs_value_plan *x = &p->values[a], *y = &p->values[b];
    const bs_value_info *v = &p->graph->values[a], *w = &p->graph->values[b];
    return x->margin == y->margin && x->planar == y->planar && bs_bytes_same(x->offset, y->offset) &&
           bs_bytes_same(x->row_bytes, y->row_bytes) && v->domain == w->domain && v->dtype == w->dtype &&
           v->scale_num == w->scale_num && v->scale_den == w->scale_den &&
           memcmp(v->dims, w->dims, 3 * sizeof *v->dims) == 0;
}

/* The value is written. Returns whether an image lay there whose zeros are its own. */
static bool overwrite(zeroed_images *z, int32_t value)
{
    const bs_plan *p = z->plan;
    const bs_value_plan *v = &p->values[value];
    const bool image = p->graph->values[value].image;
    bool alike = false;
    int32_t left = 0;
    if (v->storage == BS_STORAGE_VIEW) /* in the place of another one */
        z->count = 0;
    for (int32_t i = 0; i < z->count && v->storage == BS_STORAGE_SCRATCH; i++) {
        const bs_value_plan *other = &p->values[z->value[i]];
        alike = alike || (image && lie_alike(p, value, z->value[i]));
        z->value[left] = z->value[i];
        left += !(bs_bytes_less(v->offset, bs_plan_end(other)) && bs_bytes_less(other->offset, bs_plan_end(v)));
    }
    z->count = v->storage == BS_STORAGE_SCRATCH ? left : z->count;
    return alike;
}

/* Whether the zeros around a call's result are written with it, row by row of a tile (bs_exec_call). */
static bool zeroes(const bs_plan *p, const bs_instr *i)
{
    const bs_node *node = &p->graph->nodes[i->node];
    const bs_value_plan *v = &p->values[node->first_out];
    return i->kind == BS_INSTR_CALL && i->extent != BS_EXTENT_RING && node->n_out == 1 &&
           bs_node_op(node)->rows.of != BS_ROWS_DECIDED && p->graph->values[node->first_out].image &&
           v->storage == BS_STORAGE_SCRATCH && v->margin > 0;
}

/* One instruction of a tile. Whether it need not zero what is around its result. */
static bool step(zeroed_images *z, const bs_instr *i)
{
    const bs_node *node = &z->plan->graph->nodes[i->node];
    const bool call = i->kind == BS_INSTR_CALL;
    const int32_t first = call ? node->first_out : i->target, count = call ? node->n_out : 1;
    bool alike = false;
    if (i->kind > BS_INSTR_MOVE || i->extent == BS_EXTENT_RING) /* nothing; the rest of what was begun before */
        return false;
    for (int32_t v = first; v < first + count; v++)
        alike = v != 0 && overwrite(z, v);
    if (!zeroes(z->plan, i))
        return false;
    z->value[z->count < LATEST ? z->count++ : 0] = first;
    return alike;
}

void bs_margins_find(bs_session *s)
{
    const bs_plan *plan = s->plan;
    for (int32_t k = 0; k < plan->n_parts && !bs_plan_on_device(plan); k++) {
        const bs_part *part = &plan->parts[k];
        zeroed_images z = {plan, {0}, 0};
        for (int32_t i = part->first; i < part->first + part->count; i++)
            s->steps[i].zeroed = step(&z, &plan->instrs[i]);
    }
}
#endif
