/* random_ops.h - a graph that grows at random (random_graph.h): ops whose results are whole numbers, of such. */
#ifndef BS_TEST_RANDOM_OPS_H
#define BS_TEST_RANDOM_OPS_H

#include "random_values.h"

/* Now and then a layer is a block of its own: weights that can be streamed. */
static inline bool rg_own_block(random_graph *rg, int32_t number)
{
    const bool own = rg_flip(30);
    if (own)
        bs_block_begin(rg->g, rg_name(rg, "b", number, ""));
    return own;
}

/* Weight and bias of a layer, new ones or another layer's: the number in their name. */
static inline int32_t rg_weights(random_graph *rg, const char *stem, int32_t number, int32_t rank, const int64_t *dim)
{
    for (int32_t i = 0; rg_shares && i < rg->n_made; i++)
        if (strcmp(rg->made[i].stem, stem) == 0 && memcmp(rg->made[i].dim, dim, (size_t)rank * sizeof *dim) == 0 &&
            rg_flip(60))
            return rg->made[i].number;
    net_add_whole(rg->weights, rg_name(rg, stem, number, "weight"), rank, dim);
    net_add_whole(rg->weights, rg_name(rg, stem, number, "bias"), 1, dim);
    if (rg_shares && rg->n_made < 64) {
        rg_weight *made = &rg->made[rg->n_made++];
        made->stem = stem;
        made->number = number;
        memcpy(made->dim, dim, (size_t)rank * sizeof *dim);
    }
    return number;
}

static inline bs_value rg_linear(random_graph *rg, bs_value x, int32_t out)
{
    int32_t number = rg->n_names;
    const bool own = rg_own_block(rg, number);
    const int64_t inputs = rg_extent(rg, rg_info(rg, x), 0), dim[2] = {out, inputs};
    const bool act = rg_flip(30);
    number = rg_weights(rg, "l", number, 2, dim);
    const bs_value y = bs_linear(
        rg->g, x,
        &(bs_linear_desc){.name = rg_name(rg, "l", number, ""), .out = out, .act = act ? BS_CLIP : 0, .act_param = 8});
    if (own)
        bs_block_end(rg->g);
    return rg_made(rg, y, act ? 8 : (double)inputs * rg->bound[x.id] + 1);
}

/* Weights that make sums odd multiples of 128, where gates are 0, 1 and -1. */
static inline void rg_gates(random_graph *rg, int32_t number, const char *suffix, int64_t lines, int64_t width)
{
    const int64_t dim[2] = {lines, width};
    const bool bias = *suffix == 'b', odd = strcmp(suffix, "bias_ih") == 0;
    net_add_whole(rg->weights, rg_name(rg, "n", number, suffix), bias ? 1 : 2, dim);
    float *const from = (float *)(uintptr_t)rg->weights->tensors[rg->weights->table.count - 1].data;
    for (int64_t i = 0; i < lines * width; i++)
        from[i] = 256 * from[i] + (odd ? 128 : 0);
}

/* Whole numbers again: what is all but 0 becomes 0. */
static inline bs_value rg_whole(random_graph *rg, bs_value x, float scale, double bound)
{
    const bs_convert_desc to = {.dtype = BS_I32}, back = {.dtype = BS_F32};
    const bs_value large = rg_made(rg, bs_affine(rg->g, x, scale, 0), bound);
    return rg_made(rg, bs_convert(rg->g, rg_made(rg, bs_convert(rg->g, large, &to), bound), &back), bound);
}

/* One step of an lstm or a gru on a line, with a state that is made of it. */
static inline void rg_recurrent(random_graph *rg, bs_value x)
{
    const int32_t number = rg->n_names;
    const bool gru = rg_flip(50), own = rg_own_block(rg, number);
    const int64_t lines = RG_UNITS * (gru ? 3 : 4);
    const bs_value h = rg_linear(rg, x, RG_UNITS);
    const bs_recurrent_desc desc = {.name = rg_name(rg, "n", number, ""), .projected = rg_flip(30)};
    rg_gates(rg, number, "weight_hh", lines, RG_UNITS);
    if (desc.projected) {
        x = bs_affine(rg->g, rg_linear(rg, x, (int32_t)lines), 256, 128);
    } else {
        rg_gates(rg, number, "weight_ih", lines, rg_extent(rg, rg_info(rg, x), 0));
        rg_gates(rg, number, "bias_ih", lines, 1);
    }
    rg_gates(rg, number, "bias_hh", lines, 1);
    bs_value c = {0};
    bs_value y = gru ? bs_gru(rg->g, x, h, &desc) : bs_lstm(rg->g, x, h, h, &desc, &c);
    const double most = rg->bound[h.id] + 1;
    rg->bound[y.id] = most;
    if (!gru) {
        rg->bound[c.id] = most;
        y = bs_add(rg->g, rg_whole(rg, y, 64, 64), rg_whole(rg, c, 1, most)); /* h' is tanh of a whole number */
        rg->bound[y.id] = most + 64;
    }
    rg_made(rg, bs_slice(rg->g, y, &(bs_slice_desc){.start = check_below(5), .length = 4}), most + 64);
    if (own)
        bs_block_end(rg->g);
}

static inline bs_value rg_conv(random_graph *rg, bs_value x)
{
    int32_t number = rg->n_names;
    const bool own = rg_own_block(rg, number);
    const bs_value_info *v = rg_info(rg, x);
    const int64_t c = rg_extent(rg, v, 0);
    const int32_t out = rg_flip(70) ? 2 : 4, k = rg_flip(70) ? 3 : 1,
                  stride = k == 3 && v->scale_den == 1 && rg_flip(10) ? 2 : 1;
    /* a kernel of two rows that sees what is above: as many rows come out */
    const int32_t above = k == 3 && stride == 1 && rg_flip(15) ? 1 + check_below(2) : 0;
    const int64_t dim[4] = {out, c, above ? 2 : k, k};
    const bool act = rg_flip(50);
    number = rg_weights(rg, "c", number, 4, dim);
    bs_conv2d_desc desc = {.name = rg_name(rg, "c", number, ""), .out = out, .kernel = k, .stride = stride,
                           .dilation = k == 3 && stride == 1 && rg_flip(20) ? 2 : 1, .act = act ? BS_CLIP : 0,
                           .act_param = 8};
    if (above)
        desc.padding = BS_PAD_EXPLICIT, desc.kernel_h = 2, desc.dilation = 1, desc.dilation_h = desc.pad_top = above,
        desc.pad_right = 2;
    const bs_value y = bs_conv2d(rg->g, x, &desc);
    if (own)
        bs_block_end(rg->g);
    return rg_made(rg, y, act ? 8 : (double)(c * k * k) * rg->bound[x.id] + 1);
}

/* What may stand beside x, of another shape or the same: a twin, [4] of the root, the maxima of its channels. */
static inline bs_value rg_beside(random_graph *rg, bs_value x)
{
    const bs_value_info *v = rg_info(rg, x);
    bs_value y = rg_flip(70) ? rg_twin(rg, x, v->domain) : (bs_value){0};
    if (y.id == 0 && rg_extent(rg, v, 0) == 4 && rg_flip(60))
        return rg->captured; /* one a channel, or the same line */
    if (y.id == 0 && v->rank == 3 && rg_flip(50))
        y = rg_made(rg, bs_pool2d(rg->g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1}), rg->bound[x.id]);
    return y.id == 0 ? x : y;
}

/* a or b, as they and truth values made of them say. */
static inline bs_value rg_chosen(random_graph *rg, bs_value a, bs_value b)
{
    const double most = rg->bound[a.id] > rg->bound[b.id] ? rg->bound[a.id] : rg->bound[b.id];
    bs_value truth = rg_made(rg, bs_compare(rg->g, a, b, (bs_compare_kind)check_below(BS_COMPARE_AND)), 1);
    if (rg_flip(30))
        truth = rg_made(rg, bs_unary(rg->g, truth, BS_UNARY_NOT), 1);
    if (rg_flip(30)) {
        const bs_value more = rg_made(rg, bs_compare(rg->g, a, b, BS_COMPARE_LESS), 1);
        truth = rg_made(rg, bs_compare(rg->g, truth, more, (bs_compare_kind)(BS_COMPARE_AND + check_below(3))), 1);
    }
    return rg_made(rg, bs_where(rg->g, truth, a, b), most);
}

static inline bs_value rg_binary(random_graph *rg, bs_value x)
{
    const int32_t domain = rg_info(rg, x)->domain, op = check_below(3);
    const bs_value other = rg_beside(rg, x);
    const bool turned = rg_info(rg, other)->domain == domain && rg_flip(50);
    const bs_value a = turned ? other : x, b = turned ? x : other;
    const double most = rg->bound[a.id], more = rg->bound[b.id];
    if (rg_flip(20))
        return rg_made(rg, bs_binary(rg->g, a, b, rg_flip(50) ? BS_BINARY_MIN : BS_BINARY_MAX),
                       most > more ? most : more);
    if (rg_flip(20))
        return rg_chosen(rg, a, b);
    const bs_value z = op == 0 ? bs_add(rg->g, a, b) : op == 1 ? bs_sub(rg->g, a, b) : bs_mul(rg->g, a, b);
    return rg_made(rg, z, op == 2 ? most * more : most + more);
}

static inline bs_value rg_unary(random_graph *rg, bs_value x)
{
    const double a = rg->bound[x.id];
    switch (check_below(4)) {
    case 3:
        return rg_made(rg, bs_unary(rg->g, x, (bs_unary_kind)check_below(BS_UNARY_ROUND + 1)), a + 1);
    case 0:
        return rg_made(rg, bs_affine(rg->g, x, (float)(check_below(4) - 2), (float)check_below(3)), 2 * a + 2);
    case 1:
        return rg_made(rg, bs_clip(rg->g, x, -5, 6), 6);
    default:
        return rg_made(rg, bs_activation(rg->g, x, BS_RELU, 0), a);
    }
}

/* Channels joined and taken apart, types to and fro. */
static inline bs_value rg_shuffle_data(random_graph *rg, bs_value x)
{
    const int64_t c = rg_extent(rg, rg_info(rg, x), 0);
    const double a = rg->bound[x.id];
    if (c <= 2 && rg_flip(50)) {
        bs_value pair[2] = {x, rg_twin(rg, x, rg_info(rg, x)->domain)};
        pair[1] = pair[1].id ? pair[1] : x;
        return rg_made(rg, bs_concat(rg->g, pair, 2, 0), a > rg->bound[pair[1].id] ? a : rg->bound[pair[1].id]);
    }
    if (c > 1 && rg_flip(20))
        return rg_made(rg, bs_roll(rg->g, x, &(bs_roll_desc){.shift = check_below(7) - 3}), a);
    if (c == 4 && rg_flip(50))
        return rg_made(rg, bs_slice(rg->g, x, &(bs_slice_desc){.start = check_below(3), .length = 2}), a);
    const bs_value codes =
        rg_made(rg, bs_convert(rg->g, x, &(bs_convert_desc){.dtype = rg_flip(50) ? BS_U8 : BS_I32}), a);
    return rg_made(rg, bs_convert(rg->g, codes, &(bs_convert_desc){.dtype = BS_F32}), a);
}

static inline bs_value rg_rescale(random_graph *rg, bs_value x)
{
    const bs_value_info *v = rg_info(rg, x);
    const double a = rg->bound[x.id];
    const bool may_grow = v->scale_num == 1 && rg_extent(rg, v, 1) <= 60, may_shrink = v->scale_den == 1;
    if (may_grow && rg_extent(rg, v, 0) == 4 && rg_flip(70))
        return rg_made(rg, bs_pixel_shuffle(rg->g, x, 2), a);
    if (may_grow && rg_flip(40))
        return rg_made(rg, bs_resize(rg->g, x, &(bs_resize_desc){.factor = 2}), a);
    if (may_shrink && rg_extent(rg, v, 0) == 1 && v->scale_num == 2)
        return rg_made(rg, bs_pixel_unshuffle(rg->g, x, 2), a);
    if (may_shrink && rg_flip(20))
        return rg_made(rg, bs_resize(rg->g, x, &(bs_resize_desc){.factor = 1, .den = 2}), a);
    if (may_shrink && rg_flip(30))
        return rg_made(rg, bs_pool2d(rg->g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX}), a);
    const bs_pool2d_desc square = {.kind = BS_POOL_MAX, .kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1},
                         oblong = {.kind = BS_POOL_MAX, .kernel_w = 4, .stride = 1, .dilation_h = 2,
                                   .padding = BS_PAD_EXPLICIT, .pad_bottom = 2, .pad_left = 2, .pad_right = 1};
    return rg_made(rg, bs_pool2d(rg->g, x, rg_flip(60) ? &square : &oblong), a);
}

/* What changes a line to one number, or keeps its width. */
static inline bs_value rg_lines(random_graph *rg, bs_value x)
{
    static const int32_t kinds[] = {BS_REDUCE_SUM, BS_REDUCE_MAX, BS_REDUCE_MIN, BS_REDUCE_SUM_SQUARE, BS_REDUCE_L1};
    const double a = rg->bound[x.id], width = (double)rg_extent(rg, rg_info(rg, x), 0);
    const int32_t kind = kinds[check_below(5)];
    if (rg_flip(30)) {
        const bs_value at = rg_flip(50) ? bs_argmin(rg->g, x) : bs_argmax(rg->g, x);
        return rg_made(rg, bs_convert(rg->g, at, &(bs_convert_desc){.dtype = BS_F32}), width);
    }
    if (rg_flip(30))
        return rg_made(
            rg, bs_cumsum(rg->g, x, &(bs_cumsum_desc){.exclusive = rg_flip(50), .reverse = rg_flip(50)}), width * a);
    return rg_made(rg, bs_reduce(rg->g, x, &(bs_reduce_desc){.kind = kind, .axis = 0, .keep = rg_flip(50)}),
                   width * (kind == BS_REDUCE_SUM_SQUARE ? a * a : a));
}

/* Channels of each pixel. */
static inline bs_value rg_channels(random_graph *rg, bs_value x)
{
    const double a = rg->bound[x.id], width = (double)rg_extent(rg, rg_info(rg, x), 0);
    const int32_t kind = rg_flip(50) ? BS_REDUCE_L1 : BS_REDUCE_SUM_SQUARE;
    return rg_made(rg, bs_reduce(rg->g, x, &(bs_reduce_desc){.kind = kind, .axis = 0, .keep = 1}),
                   width * (kind == BS_REDUCE_SUM_SQUARE ? a * a : a));
}

/* A new constant of n indices, each below `below`. */
static inline bs_value rg_indices(random_graph *rg, int32_t n, int32_t below)
{
    const char *name = rg_name(rg, "i", rg->n_names, "");
    int32_t *ints = rg->ints[rg->n_ints++ % 64];
    for (int32_t i = 0; i < n; i++)
        ints[i] = check_below(below);
    net_add_ints(rg->weights, name, n, ints);
    return rg_made(rg, bs_constant(rg->g, name, BS_I32, BS_SHAPE1(n)), below);
}

/* Elements by index: indices are constants, or what a row has found out; what is indexed may be a root value. */
static inline bs_value rg_indexed(random_graph *rg, bs_value x)
{
    const int32_t extent = (int32_t)rg_extent(rg, rg_info(rg, x), 0), n = 2 + check_below(3);
    const double a = rg->bound[x.id];
    if (extent < 2 || !rg_is_const(rg, x) || rg_flip(30))
        return rg_made(rg, bs_roll(rg->g, x, &(bs_roll_desc){.shift = check_below(7) - 3}), a);
    bs_value i;
    if (extent <= 4 && rg_flip(50))
        rg_made(rg, bs_topk(rg->g, x, 2, &i), a), rg_made(rg, i, 4);
    else
        i = rg_indices(rg, n, extent < 4 ? extent : 4);
    const bs_value found = rg_made(rg, rg_flip(50) ? bs_select(rg->g, x, i, 0) : bs_gather_elements(rg->g, x, i, -1),
                                   a);
    const bs_update_desc desc = {.update = rg_flip(50) ? BS_UPDATE_ADD : BS_UPDATE_WRITE};
    if (extent <= 4 && rg_flip(40))
        return rg_made(rg, bs_scatter_rows(rg->g, rg->captured, i, found, &desc), 4 * a + rg->bound[rg->captured.id]);
    return rg_flip(50) ? found : rg_made(rg, bs_scatter_elements(rg->g, x, i, found, &desc), 5 * a);
}

static inline void rg_line_op(random_graph *rg, bs_value x)
{
    if (rg_flip(6) && rg->g->n_nodes < 300) {
        rg_recurrent(rg, x);
        return;
    }
    switch (check_below(6)) {
    case 5:
        rg_flip(50) ? rg_lines(rg, x) : rg_indexed(rg, x);
        break;
    case 0:
        rg_linear(rg, x, 4);
        break;
    case 1:
        rg_binary(rg, x);
        break;
    case 2:
        rg_shuffle_data(rg, x);
        break;
    default:
        rg_unary(rg, x);
        break;
    }
}

static inline void rg_image_op(random_graph *rg, bs_value x)
{
    switch (check_below(10)) {
    case 9:
        rg_channels(rg, x);
        break;
    case 0:
        rg_unary(rg, x);
        break;
    case 1:
    case 2:
        rg_binary(rg, x);
        break;
    case 3:
        rg_shuffle_data(rg, x);
        break;
    case 4:
        rg_rescale(rg, x);
        break;
    case 5:
        rg_made(rg, bs_pool2d(rg->g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1}), rg->bound[x.id]);
        break;
    default:
        rg_conv(rg, x);
        break;
    }
}

#endif
