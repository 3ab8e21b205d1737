/* index_ops.h - ops that move elements: by index, by order, by shape; products of values with each other; steps of
 * recurrent nets. As row_ops.h, on which it relies. */
#ifndef BS_FROZEN_INDEX_OPS_H
#define BS_FROZEN_INDEX_OPS_H

#include "frozen/row_ops.h"

static inline bool fz_op_topk(fz *z, fz_value *x)
{
    if (!fz_is_line(z, x) || !fz_affords(z, fz_elements(z, x) * 8))
        return false;
    const int32_t k = 1 + check_below(fz_last(x) < 6 ? fz_last(x) : 6);
    bs_value at;
    fz_value like = *x;
    like.d[x->rank - 1] = fz_const(k);
    const bs_value best = bs_topk(z->g, x->v, k, &at);
    const fz_value *made = fz_made(z, best, &like, x->scale);
    fz_say(z, "%s, v%d = the best %d of v%d", fz_text(made), at.id, k, x->v.id);
    if (z->failed || fz_chance(50))
        return true;
    fz_value *index = fz_add(z, bs_convert(z->g, at, &(bs_convert_desc){.dtype = BS_F32}), &like);
    index->scale = 8;
    fz_say(z, "%s = convert v%d", fz_text(index), at.id);
    return true;
}

/* Elements by indices that are constants, or the best ones of the line itself; and some written elsewhere. */
static inline bool fz_op_select(fz *z, fz_value *x)
{
    const int32_t axis = x->rank ? check_below(x->rank) : 0;
    if (x->dtype != BS_F32 || x->rank < 1 || x->rank > 3 || fz_image_of_patches(z, x) || !fz_is_const(x, axis) ||
        !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    const int32_t n = 1 + check_below(2 * x->d[axis].most < 12 ? 2 * x->d[axis].most : 12);
    const fz_value *i = fz_indices(z, n, x->d[axis].most);
    fz_value like = *x;
    like.d[axis] = fz_const(n);
    const fz_value *made = fz_made(z, bs_select(z->g, x->v, i->v, axis), &like, x->scale);
    fz_say(z, "%s = select v%d by v%d axis %d", fz_text(made), x->v.id, i->v.id, axis);
    return true;
}

static inline bool fz_op_by_best(fz *z, fz_value *x)
{
    if (!fz_is_line(z, x) || fz_last(x) < 2 || !fz_affords(z, fz_elements(z, x) * 8))
        return false;
    const int32_t k = 1 + check_below(fz_last(x) < 5 ? fz_last(x) : 5), last = x->rank - 1;
    bs_value at, other = x->v;
    const bs_value best = bs_topk(z->g, x->v, k, &at);
    fz_value *twin = fz_twin(z, x), like = *x;
    if (twin)
        other = twin->v;
    like.d[last] = fz_const(k);
    if (fz_chance(40)) {
        const fz_value *made = fz_made(z, bs_gather_elements(z->g, other, at, -1), &like, x->scale);
        fz_say(z, "%s = gather_elements v%d where v%d has its best %d", fz_text(made), other.id, x->v.id, k);
        return true;
    }
    const bs_update_desc desc = {.axis = last, .update = fz_chance(50) ? BS_UPDATE_ADD : BS_UPDATE_WRITE};
    const fz_value *made = fz_made(z, bs_scatter_elements(z->g, other, at, best, &desc), x, x->scale + 1);
    fz_say(z, "%s = scatter_elements to v%d the best %d of v%d, update %d", fz_text(made), other.id, k, x->v.id,
           desc.update);
    return true;
}

/* Rows of a table by indices, constant or of an input; and rows written to a table. */
static inline bool fz_op_rows_of_table(fz *z, fz_value *x)
{
    if (x->dtype != BS_F32 || x->rank < 2 || x->rank > 3 || !fz_is_const(x, 0) || x->domain != 0 ||
        !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    const int32_t n = 1 + check_below(14);
    const fz_value *i = fz_indices(z, n, x->d[0].most);
    fz_value like = *x;
    like.d[0] = fz_const(n);
    const fz_value *rows = fz_made(z, bs_gather_rows(z->g, x->v, i->v), &like, x->scale);
    fz_say(z, "%s = gather_rows v%d by v%d", fz_text(rows), x->v.id, i->v.id);
    if (z->failed || rows->domain != 0 || fz_chance(50))
        return true;
    const bs_update_desc desc = {.update = fz_chance(60) ? BS_UPDATE_ADD : BS_UPDATE_WRITE};
    const fz_value *other = fz_indices(z, n, x->d[0].most);
    const fz_value *made = fz_made(z, bs_scatter_rows(z->g, x->v, other->v, rows->v, &desc), x, x->scale + 2);
    fz_say(z, "%s = scatter_rows v%d by v%d of v%d, update %d", fz_text(made), x->v.id, other->v.id, rows->v.id,
           desc.update);
    return true;
}

static inline bool fz_op_roll(fz *z, fz_value *x)
{
    const int32_t axis = fz_image_of_patches(z, x) || x->rank < 1 ? 0 : check_below(x->rank);
    if (x->dtype != BS_F32 || x->rank < 1 || !fz_affords(z, fz_elements(z, x)))
        return false;
    const bs_roll_desc desc = {.axis = axis, .shift = fz_between(-5, 7)};
    const fz_value *made = fz_made(z, bs_roll(z->g, x->v, &desc), x, x->scale);
    fz_say(z, "%s = roll v%d axis %d by %d", fz_text(made), x->v.id, axis, desc.shift);
    return true;
}

static inline bool fz_op_concat(fz *z, fz_value *x)
{
    const int32_t axis = fz_image_of_patches(z, x) || x->rank < 1 ? 0 : check_below(x->rank);
    fz_value *y = fz_twin(z, x);
    if (x->dtype != BS_F32 || x->rank < 1 || fz_cell(x) > 16384 || !fz_affords(z, fz_elements(z, x) * 3))
        return false;
    const bs_value in[3] = {x->v, y ? y->v : x->v, x->v};
    const int32_t n = fz_is_const(x, axis) && fz_chance(25) ? 3 : 2;
    fz_value like = *x;
    like.d[axis] = fz_derive(x->d[axis], n, 0, 1);
    x->read = true;
    if (y)
        y->read = true;
    const fz_value *made = fz_made(z, bs_concat(z->g, in, n, axis), &like,
                                   x->scale + (y && y->scale > x->scale ? y->scale - x->scale : 0));
    fz_say(z, "%s = concat v%d v%d%s axis %d", fz_text(made), in[0].id, in[1].id, n > 2 ? " and the first" : "", axis);
    return true;
}

static inline bool fz_op_slice(fz *z, fz_value *x)
{
    const int32_t axis = fz_image_of_patches(z, x) || x->rank < 1 ? 0 : check_below(x->rank);
    if (x->dtype != BS_F32 || x->rank < 1 || !fz_is_const(x, axis) || x->d[axis].most < 2 ||
        !fz_affords(z, fz_elements(z, x)))
        return false;
    const int32_t length = 1 + check_below(x->d[axis].most), start = check_below(x->d[axis].most - length + 1);
    fz_value like = *x;
    like.d[axis] = fz_const(length);
    const fz_value *made = fz_made(
        z, bs_slice(z->g, x->v, &(bs_slice_desc){.axis = axis, .start = start, .length = length}), &like, x->scale);
    fz_say(z, "%s = slice v%d axis %d from %d", fz_text(made), x->v.id, axis, start);
    return true;
}

static inline bs_value fz_reshape_to(fz *z, fz_value *like, bs_value v, int32_t rank, int32_t a, int32_t b, int32_t c)
{
    const bs_shape shape = {rank, {a, b, c}};
    const int32_t dim[3] = {a, b, c};
    like->rank = rank;
    for (int32_t i = 0; i < rank; i++)
        like->d[i] = fz_const(dim[i]);
    return bs_reshape(z->g, v, shape);
}

/* Constant extents, taken apart or put together. */
static inline bool fz_op_reshape(fz *z, fz_value *x)
{
    const int64_t all = fz_cell(x);
    const bool patches = z->domains[x->domain].patches;
    if (x->dtype != BS_F32 || x->rank < 1 || !fz_all_const(x) || fz_image_of_patches(z, x) || all > 8192 ||
        !fz_affords(z, fz_elements(z, x)))
        return false;
    fz_value like = *x;
    const int32_t n = (int32_t)all, by = n % 4 == 0 && n > 8 ? 4 : n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : 1;
    bs_value v;
    if (x->rank > 1 && fz_chance(50))
        v = fz_reshape_to(z, &like, x->v, 1, n, 0, 0);
    else if (patches || n < 64 || fz_chance(50) || n % (4 * by) != 0)
        v = fz_reshape_to(z, &like, x->v, 2, by, n / by, 0);
    else
        v = fz_reshape_to(z, &like, x->v, 3, by, 4, n / by / 4);
    const fz_value *made = fz_made(z, v, &like, x->scale);
    fz_say(z, "%s = reshape v%d", fz_text(made), x->v.id);
    return true;
}

static inline bool fz_op_transpose(fz *z, fz_value *x)
{
    bs_transpose_desc desc = {.order = {0}};
    if (x->dtype != BS_F32 || x->rank < 2 || x->rank > 4 || fz_image_of_patches(z, x) ||
        !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    fz_value like = *x;
    const int32_t turn = 1 + check_below(x->rank - 1);
    for (int32_t i = 0; i < x->rank; i++) {
        desc.order[i] = (i + turn) % x->rank;
        like.d[i] = x->d[desc.order[i]];
    }
    const fz_value *made = fz_made(z, bs_transpose(z->g, x->v, &desc), &like, x->scale);
    fz_say(z, "%s = transpose v%d from axis %d on", fz_text(made), x->v.id, turn);
    return true;
}

/* x times itself or a twin, turned; or times a table of the weights. */
static inline bool fz_op_matmul(fz *z, fz_value *x)
{
    if (x->dtype != BS_F32 || x->rank < 2 || x->rank > 3 || fz_image_of_patches(z, x))
        return false;
    const fz_dim rows = x->d[x->rank - 2];
    fz_value like = *x, *y = fz_twin(z, x);
    like.d[x->rank - 1] = rows;
    if (x->rank == 2 && fz_is_line(z, x) && fz_chance(50)) {
        const int32_t dim[2] = {fz_last(x), fz_width()};
        if (!fz_affords(z, fz_elements(z, x) * dim[1]))
            return false;
        const fz_value *w = fz_constant(z, 2, dim);
        like.d[1] = fz_const(dim[1]);
        const fz_value *made = fz_made(z, bs_matmul(z->g, x->v, w->v, NULL), &like, x->scale + 4);
        fz_say(z, "%s = matmul v%d v%d", fz_text(made), x->v.id, w->v.id);
        return true;
    }
    if (!fz_affords(z, fz_elements(z, x) * rows.most))
        return false;
    const bs_matmul_desc desc = {.transpose_b = 1, .scale = fz_chance(50) ? 0.37f : 0};
    const bs_value b = y && fz_chance(60) ? y->v : x->v;
    const fz_value *made = fz_made(z, bs_matmul(z->g, x->v, b, &desc), &like, 2 * x->scale + 4);
    fz_say(z, "%s = matmul v%d by v%d turned", fz_text(made), x->v.id, b.id);
    return true;
}

/* [N,C] of the root -> [heads,N,C/heads], as reshape and transpose make it. */
static inline bs_value fz_heads(fz *z, fz_value *x, int32_t heads)
{
    const bs_shape shape = {3, {-1, heads, fz_last(x) / heads}};
    return bs_transpose(z->g, bs_reshape(z->g, x->v, shape), &(bs_transpose_desc){.order = {1, 0, 2}});
}

/* Attention of several heads, by hand. */
static inline bool fz_op_attend(fz *z, fz_value *x)
{
    static const int32_t counts[] = {2, 3, 4, 8};
    const int32_t heads = counts[check_below(4)], width = heads * (fz_chance(50) ? 8 : 4 + check_below(9));
    if (!fz_is_line(z, x) || x->rank != 2 || x->domain != 0 || x->d[0].most > 64 ||
        !fz_affords(z, (int64_t)x->d[0].most * x->d[0].most * width * 2))
        return false;
    fz_value *q = fz_linear(z, x, width, BS_ACT_NONE), *k = q ? fz_linear(z, x, width, BS_ACT_NONE) : NULL,
             *v = k ? fz_linear(z, x, width, BS_ACT_NONE) : NULL;
    if (!v || z->failed)
        return false;
    const bs_matmul_desc turned = {.transpose_b = 1, .scale = 0.25f};
    const bs_value a = fz_heads(z, q, heads), b = fz_heads(z, k, heads), c = fz_heads(z, v, heads),
                   share = bs_softmax(z->g, bs_matmul(z->g, a, b, &turned)), y = bs_matmul(z->g, share, c, NULL);
    const bs_shape flat = {2, {-1, width}};
    const fz_value *made = fz_made(
        z, bs_reshape(z->g, bs_transpose(z->g, y, &(bs_transpose_desc){.order = {1, 0, 2}}), flat), v, v->scale);
    fz_say(z, "%s = attention by hand of v%d v%d v%d, %d heads", fz_text(made), q->v.id, k->v.id, v->v.id, heads);
    return true;
}

/* A step of an lstm or a gru; its state is a linear of x. */
static inline bool fz_op_recurrent(fz *z, fz_value *x)
{
    const bool gru = fz_chance(50), projected = fz_chance(30);
    const int32_t units = fz_chance(50) ? 16 : fz_between(3, 40), gates = gru ? 3 : 4;
    if (!fz_is_line(z, x) || !fz_affords(z, fz_rows(z, x) * fz_cell(x) / fz_last(x) * units * (units + fz_last(x)) * 4))
        return false;
    fz_value *h = fz_linear(z, x, units, BS_TANH),
             *in = projected && h ? fz_linear(z, x, gates * units, BS_ACT_NONE) : x;
    if (!h || !in || z->failed)
        return false;
    const bool own = fz_own_block(z);
    const bs_recurrent_desc desc = {.name = fz_name(z, "r"), .no_bias = fz_chance(20), .projected = projected};
    const int64_t ih[2] = {gates * units, fz_last(in)}, hh[2] = {gates * units, units};
    if (!projected)
        fz_weight_tensor(z, desc.name, "weight_ih", 2, ih, fz_shift_of(ih[1]));
    fz_weight_tensor(z, desc.name, "weight_hh", 2, hh, fz_shift_of(units));
    if (!projected && !desc.no_bias)
        fz_line_tensor(z, desc.name, "bias_ih", ih[0], 1);
    if (!desc.no_bias)
        fz_line_tensor(z, desc.name, "bias_hh", ih[0], 1);
    bs_value c = {0};
    const bs_value y = gru ? bs_gru(z->g, in->v, h->v, &desc) : bs_lstm(z->g, in->v, h->v, h->v, &desc, &c);
    const fz_value *made = fz_made(z, y, h, 1);
    if (!gru && !z->failed)
        fz_made(z, c, h, 2);
    fz_own_block_end(z, own);
    fz_say(z, "%s = %s %s of v%d v%d%s", fz_text(made), gru ? "gru" : "lstm", desc.name, in->v.id, h->v.id,
           projected ? ", projected" : "");
    return true;
}

static inline bool fz_op_rope(fz *z, fz_value *x)
{
    const int32_t heads = fz_last(x) % 4 == 0 ? 2 : 1, each = fz_last(x) / heads;
    if (!fz_is_line(z, x) || x->rank != 1 || each < 4 || !fz_affords(z, fz_elements(z, x) * 8))
        return false;
    const bs_value first = bs_slice(z->g, x->v, &(bs_slice_desc){.length = 1}), near = bs_clip(z->g, first, 0, 9),
                   at = bs_convert(z->g, near, &(bs_convert_desc){.dtype = BS_I32});
    bs_rope_desc desc = {.heads = heads, .dims = fz_chance(40) ? each / 4 * 2 : each / 2 * 2};
    desc.base = fz_chance(50) ? 0 : 500;
    desc.interleaved = fz_chance(50);
    const fz_value *made = fz_made(z, bs_rope(z->g, x->v, at, &desc), x, x->scale + 1);
    fz_say(z, "%s = rope v%d, position v%d, %d heads, %d dims%s", fz_text(made), x->v.id, at.id, heads, desc.dims,
           desc.interleaved ? ", interleaved" : "");
    return true;
}

#endif
