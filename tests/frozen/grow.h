/* grow.h - which ops, routers and loops a domain of a frozen graph gets; extents that come from data.
 *
 * Relies on all ops, routers.h, loops.h and segments.h. */
#ifndef BS_FROZEN_GROW_H
#define BS_FROZEN_GROW_H

#include "frozen/segments.h"

/* ------------------------------------------------------------------------------------------- extents from data */

static inline fz_dim fz_data_dim(fz *z, int32_t most)
{
    fz_has(z, FZ_DATA_EXTENT_FEATURE);
    return (fz_dim){most, fz_mix(777, (uint32_t)z->n_names)};
}

static inline bool fz_op_nonzero(fz *z, fz_value *x)
{
    if (x->domain != 0 || !fz_is_line(z, x) || x->rank > 2 || fz_cell(x) > 2000 || !fz_affords(z, fz_cell(x) * 4))
        return false;
    const bs_extent_desc desc = {.name = fz_name(z, "e"), .maximum = fz_chance(85) ? 0 : (int32_t)(fz_cell(x) + 1) / 2};
    const fz_dim n = fz_data_dim(z, desc.maximum ? desc.maximum : (int32_t)fz_cell(x));
    const bs_value seen = bs_clip(z->g, x->v, 0, 100), at = bs_nonzero(z->g, seen, &desc);
    fz_value like = *x;
    like.rank = 2, like.d[0] = n, like.d[1] = fz_const(x->rank), like.dtype = BS_F32;
    const fz_value *made = fz_made(z, bs_convert(z->g, at, &(bs_convert_desc){.dtype = BS_F32}), &like, 10);
    fz_say(z, "%s = nonzero of v%d clipped", fz_text(made), x->v.id);
    if (x->rank != 1 || z->failed)
        return true;
    like.rank = 1;
    const bs_value flat = bs_reshape(z->g, at, BS_SHAPE1(-1));
    made = fz_made(z, bs_gather_rows(z->g, x->v, flat), &like, x->scale);
    fz_say(z, "%s = elements of v%d there", fz_text(made), x->v.id);
    return true;
}

static inline bool fz_op_unique(fz *z, fz_value *x)
{
    if (x->domain != 0 || !fz_is_line(z, x) || x->rank > 2 || fz_cell(x) > 1500 || !fz_affords(z, fz_cell(x) * 20))
        return false;
    const bs_extent_desc desc = {.name = fz_name(z, "u")};
    bs_value out[4];
    const bs_value code = bs_convert(z->g, x->v, &(bs_convert_desc){.dtype = BS_I32, .scale = 2}),
                   few = fz_chance(50) ? x->v : bs_convert(z->g, code, &(bs_convert_desc){.dtype = BS_F32});
    bs_unique(z->g, few, &desc, out);
    fz_value like = *x, all = *x;
    like.rank = 1, like.d[0] = fz_data_dim(z, (int32_t)fz_cell(x));
    const fz_value *made = fz_made(z, out[0], &like, x->scale);
    fz_say(z, "%s = the different ones of v%d", fz_text(made), few.id);
    if (!z->failed)
        fz_made(z, bs_convert(z->g, out[3], &(bs_convert_desc){.dtype = BS_F32}), &like, 8);
    if (!z->failed && fz_chance(50))
        fz_made(z, bs_convert(z->g, out[2], &(bs_convert_desc){.dtype = BS_F32}), &all, 8);
    if (!z->failed && fz_chance(50))
        fz_made(z, bs_convert(z->g, out[1], &(bs_convert_desc){.dtype = BS_F32}), &like, 8);
    return true;
}

static inline bool fz_op_arange(fz *z, fz_value *x)
{
    if (x->domain != 0 || x->dtype != BS_F32 || !fz_all_const(x) || x->rank < 1 || !fz_affords(z, fz_cell(x)))
        return false;
    const bs_value flat = bs_reshape(z->g, x->v, BS_SHAPE1(-1)),
                   one = bs_slice(z->g, flat, &(bs_slice_desc){.length = 1}), limit = bs_clip(z->g, one, -2, 7),
                   none = {0};
    const bool steps = fz_chance(50);
    const float by = 0.37f;
    const bs_value start = steps ? bs_affine(z->g, limit, -0.25f, 0) : none,
                   step = steps ? bs_affine(z->g, bs_clip(z->g, one, 1, 1), by, 0) : none;
    fz_value like = *x;
    like.rank = 1, like.d[0] = fz_data_dim(z, 30);
    const fz_value *made =
        fz_made(z, bs_arange(z->g, limit, start, step, &(bs_extent_desc){fz_name(z, "a"), 30}), &like, 3);
    fz_say(z, "%s = arange up to what v%d says%s", fz_text(made), x->v.id, steps ? ", in steps" : "");
    return true;
}

static inline bool fz_op_nms(fz *z, fz_value *x)
{
    if (x->domain != 0 || !fz_is_line(z, x) || x->rank != 2 || !fz_is_const(x, 0) || fz_last(x) < 6 ||
        x->d[0].most > 60 || !fz_affords(z, (int64_t)x->d[0].most * x->d[0].most * 8))
        return false;
    const int32_t n = x->d[0].most, classes = fz_last(x) - 4 < 3 ? fz_last(x) - 4 : 3;
    const bs_value four = bs_slice(z->g, x->v, &(bs_slice_desc){.axis = 1, .length = 4}),
                   some = bs_slice(z->g, x->v, &(bs_slice_desc){.axis = 1, .start = 4, .length = classes}),
                   turned = bs_transpose(z->g, some, &(bs_transpose_desc){.order = {1, 0}}),
                   boxes = bs_reshape(z->g, four, BS_SHAPE3(1, n, 4)),
                   scores = bs_reshape(z->g, turned, BS_SHAPE3(1, classes, n));
    bs_nms_desc desc = {.name = fz_name(z, "s"), .max_each = fz_chance(50) ? 0 : fz_between(1, 6)};
    desc.iou_threshold = 0.25f * (float)check_below(4);
    desc.score_above = fz_chance(50) ? 0 : -2;
    desc.centre = fz_chance(50);
    const bs_value kept = bs_nms(z->g, boxes, scores, &desc);
    fz_value like = *x;
    like.d[0] = fz_data_dim(z, classes * n), like.d[1] = fz_const(3);
    const fz_value *made = fz_made(z, bs_convert(z->g, kept, &(bs_convert_desc){.dtype = BS_F32}), &like, 6);
    fz_say(z, "%s = nms of v%d, %d classes", fz_text(made), x->v.id, classes);
    return true;
}

/* ------------------------------------------------------------------------------------------------------ growth */

typedef bool (*fz_op)(fz *z, fz_value *x);
typedef struct fz_choice {
    fz_op op;
    int32_t weight;
    fz_want want;
} fz_choice;

static const fz_choice fz_choices[] = {{fz_op_conv, 48, fz_is_image},
                                       {fz_op_conv1d, 4, fz_is_f32},
                                       {fz_op_deconv, 4, fz_is_image},
                                       {fz_op_pool, 6, fz_is_image},
                                       {fz_op_pool1d, 4, fz_is_f32},
                                       {fz_op_global, 5, fz_is_image},
                                       {fz_op_resize, 6, fz_is_image},
                                       {fz_op_shuffle, 5, fz_is_image},
                                       {fz_op_pad, 4, fz_is_image},
                                       {fz_op_image_norm, 6, fz_is_image},
                                       {fz_op_tokens, 4, fz_is_image},
                                       {fz_op_linear, 30, fz_is_line},
                                       {fz_op_norm, 10, fz_is_line},
                                       {fz_op_softmax, 6, fz_is_line},
                                       {fz_op_reduce, 9, fz_is_f32},
                                       {fz_op_argmax, 5, fz_is_line},
                                       {fz_op_cumsum, 5, fz_is_f32},
                                       {fz_op_topk, 5, fz_is_line},
                                       {fz_op_select, 5, fz_is_f32},
                                       {fz_op_by_best, 6, fz_is_line},
                                       {fz_op_rows_of_table, 5, fz_is_f32},
                                       {fz_op_roll, 4, fz_is_f32},
                                       {fz_op_concat, 7, fz_is_f32},
                                       {fz_op_slice, 6, fz_is_f32},
                                       {fz_op_reshape, 6, fz_is_f32},
                                       {fz_op_transpose, 6, fz_is_f32},
                                       {fz_op_matmul, 8, fz_is_f32},
                                       {fz_op_attend, 5, fz_is_line},
                                       {fz_op_recurrent, 7, fz_is_line},
                                       {fz_op_rope, 5, fz_is_vector},
                                       {fz_op_unary, 8, fz_is_f32},
                                       {fz_op_library, 2, fz_is_f32},
                                       {fz_op_affine, 8, fz_is_f32},
                                       {fz_op_clip, 5, fz_is_f32},
                                       {fz_op_activation, 10, fz_is_f32},
                                       {fz_op_prelu, 3, fz_is_f32},
                                       {fz_op_pair, 26, fz_is_f32},
                                       {fz_op_power, 1, fz_is_f32},
                                       {fz_op_choose, 6, fz_is_f32},
                                       {fz_op_convert, 7, fz_is_f32},
                                       {fz_op_segment_reduce, 9, fz_is_vector},
                                       {fz_op_segment_index, 5, fz_is_f32},
                                       {fz_op_segment_spread, 6, fz_is_f32},
                                       {fz_op_attention, 12, fz_is_vector},
                                       {fz_op_cross, 10, fz_is_vector},
                                       {fz_op_nonzero, 3, fz_is_line},
                                       {fz_op_unique, 3, fz_is_line},
                                       {fz_op_arange, 2, fz_is_f32},
                                       {fz_op_nms, 7, fz_is_line}};

enum { FZ_CHOICES = (int)(sizeof fz_choices / sizeof fz_choices[0]) };

static inline const fz_choice *fz_choose(void)
{
    static int32_t all;
    for (int32_t i = 0; i < FZ_CHOICES && (i > 0 || all == 0); i++)
        all += fz_choices[i].weight;
    int32_t at = check_below(all), i = 0;
    for (; at >= fz_choices[i].weight; i++)
        at -= fz_choices[i].weight;
    return &fz_choices[i];
}

static inline void fz_one_op(fz *z, int32_t domain)
{
    for (int32_t tries = 0; tries < 12 && !z->failed; tries++) {
        const fz_choice *choice = fz_choose();
        fz_value *x = fz_pick(z, domain, choice->want);
        if (!x || !choice->op(z, x))
            continue;
        x->read = true;
        return;
    }
}

/* Ops of a domain, and now and then a router or a loop. */
static void fz_grow(fz *z, int32_t domain, int32_t steps)
{
    for (int32_t i = 0; i < steps && !z->failed && domain >= 0; i++) {
        const int32_t depth = z->domains[domain].depth, what = check_below(100);
        if (what < z->routers_often / (depth ? 2 : 1) && domain != 0 && depth < 4)
            fz_routed(z, domain);
        else if (what >= 100 - z->loops / (depth ? 2 : 1) && depth < 4)
            fz_looped(z, domain);
        else
            fz_one_op(z, domain);
    }
}

#endif
