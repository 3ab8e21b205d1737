/* image_ops.h - ops on images [C,H,W] of the root, of rows and of patches. As row_ops.h.
 *
 * Relies on row_ops.h. */
#ifndef BS_FROZEN_IMAGE_OPS_H
#define BS_FROZEN_IMAGE_OPS_H

#include "frozen/row_ops.h"

static inline int64_t fz_pixels(const fz_value *x) { return (int64_t)x->d[1].most * x->d[2].most; }

/* Whether cells of patches can be made n times smaller and stay whole. */
static inline bool fz_shrinks(const fz *z, const fz_value *x, int32_t n)
{
    const fz_domain *d = &z->domains[x->domain];
    if (!fz_image_of_patches(z, x))
        return x->d[1].most >= 2 * n && x->d[2].most >= 2 * n;
    return d->size * x->num % (x->den * n) == 0 && x->den * n <= 4;
}

static inline void fz_scaled(fz_value *x, int32_t num, int32_t den)
{
    x->num *= num;
    x->den *= den;
    while (x->num % 2 == 0 && x->den % 2 == 0)
        x->num /= 2, x->den /= 2;
}

/* --------------------------------------------------------------------------------------------------- convolutions */

/* The kinds of convolution that the library treats in different ways. */
typedef enum fz_conv_kind {
    FZ_POINTWISE,
    FZ_SQUARE,
    FZ_STRIDED,
    FZ_DILATED,
    FZ_DEPTHWISE,
    FZ_GROUPED,
    FZ_FIVE,
    FZ_SEVEN,
    FZ_OBLONG,
    FZ_PADDED,
    FZ_CONVS
} fz_conv_kind;

static inline int32_t fz_channels(fz *z, int64_t each)
{
    for (int32_t tries = 0; tries < 8; tries++) {
        const int32_t out = fz_width();
        if (z->cost + out * each <= z->budget)
            return out;
    }
    return 4;
}

static inline fz_dim fz_window(fz_dim d, int32_t kernel, int32_t stride, int32_t dilation, int32_t pads)
{
    return fz_derive(d, 1, pads - dilation * (kernel - 1) - 1 + stride, stride);
}

static inline void fz_conv_form(fz *z, const fz_value *x, fz_conv_kind kind, bs_conv2d_desc *d)
{
    const bool patches = fz_image_of_patches(z, x);
    const int32_t c = x->d[0].most;
    d->kernel = kind == FZ_POINTWISE ? 1 : kind == FZ_FIVE ? 5 : kind == FZ_SEVEN ? 7 : fz_chance(50) ? 0 : 3;
    d->stride = kind == FZ_STRIDED ? 2 : fz_chance(50) ? 0 : 1;
    d->dilation = kind == FZ_DILATED ? 2 : 0;
    if (kind == FZ_STRIDED && fz_chance(30))
        d->kernel = fz_chance(50) ? 1 : 5;
    if (kind == FZ_DEPTHWISE)
        d->groups = BS_DEPTHWISE, d->out = c * (fz_chance(80) ? 1 : 2), d->kernel = fz_chance(60) ? 3 : 5,
        d->stride = fz_chance(20) && fz_shrinks(z, x, 2) ? 2 : 1;
    if (kind == FZ_GROUPED)
        d->groups = c % 4 == 0 && fz_chance(60) ? 4 : c % 2 == 0 ? 2 : 1, d->out = d->groups * fz_between(2, 9);
    if (kind == FZ_OBLONG)
        d->kernel_h = fz_chance(50) ? 1 : 3, d->kernel_w = d->kernel_h == 1 ? 3 : fz_chance(50) ? 1 : 5;
    if (kind == FZ_PADDED) {
        d->padding = BS_PAD_EXPLICIT;
        d->pad_top = 2, d->pad_left = 0, d->pad_bottom = 0, d->pad_right = 2;
        if (!patches && fz_chance(50))
            d->pad_bottom = 1, d->pad_left = 3;
    }
}

static inline void fz_conv_weights(fz *z, bs_conv2d_desc *d, int32_t c, int32_t groups, int32_t kh, int32_t kw)
{
    const int64_t dim[4] = {d->out, c / groups, kh, kw};
    d->name = fz_layer(z, "c", 4, dim, dim[1] * kh * kw);
    if (!d->no_bias)
        fz_line_tensor(z, d->name, "bias", d->out, 1);
    if (d->act == BS_PRELU)
        fz_line_tensor(z, d->name, "prelu", d->out, 0);
    if (!d->batch_norm)
        return;
    fz_line_tensor(z, d->name, "bn.weight", d->out, 0);
    fz_line_tensor(z, d->name, "bn.bias", d->out, 1);
    fz_line_tensor(z, d->name, "bn.mean", d->out, 1);
    fz_positive_tensor(z, d->name, "bn.var", d->out);
}

static inline bool fz_conv_fits(const fz *z, const fz_value *x, const bs_conv2d_desc *d, int32_t kh, int32_t kw)
{
    const int32_t reach_h = (d->dilation ? d->dilation : 1) * (kh - 1),
                  reach_w = (d->dilation ? d->dilation : 1) * (kw - 1);
    return d->padding == BS_PAD_DEFAULT || fz_image_of_patches(z, x) ||
           (x->d[1].most > reach_h + 4 && x->d[2].most > reach_w + 4);
}

static inline fz_value *fz_conv(fz *z, fz_value *x, fz_conv_kind kind, int32_t out)
{
    if (!fz_is_image(z, x) || (kind == FZ_STRIDED && !fz_shrinks(z, x, 2)))
        return NULL;
    bs_conv2d_desc d = {.no_bias = fz_chance(20)};
    d.batch_norm = fz_chance(15);
    d.act = fz_some_act();
    fz_conv_form(z, x, kind, &d);
    const int32_t c = x->d[0].most,
                  kh = d.kernel_h ? d.kernel_h
                       : d.kernel ? d.kernel
                                  : 3,
                  kw = d.kernel_w ? d.kernel_w
                       : d.kernel ? d.kernel
                                  : 3,
                  stride = d.stride ? d.stride : 1,
                  groups = d.groups == BS_DEPTHWISE ? c
                           : d.groups               ? d.groups
                                                    : 1,
                  dil = d.dilation ? d.dilation : 1;
    const int64_t each = fz_rows(z, x) * fz_pixels(x) * c / groups * kh * kw / (stride * stride);
    if (d.out == 0)
        d.out = out ? out : fz_channels(z, each);
    if (!fz_conv_fits(z, x, &d, kh, kw) || (int64_t)d.out * c / groups * kh * kw > FZ_POOL ||
        !fz_affords(z, each * d.out + (int64_t)d.out * c * kh * kw / groups / 4))
        return NULL;
    if (d.act == BS_CLIP)
        d.act_param = 3;
    const bool own = fz_own_block(z);
    fz_conv_weights(z, &d, c, groups, kh, kw);
    fz_value like = *x;
    like.d[0] = fz_const(d.out);
    const bool given = d.padding == BS_PAD_EXPLICIT, patches = fz_image_of_patches(z, x);
    const int32_t ph = given ? d.pad_top + d.pad_bottom : dil * (kh - 1) / 2 * 2,
                  pw = given ? d.pad_left + d.pad_right : dil * (kw - 1) / 2 * 2;
    like.d[1] = fz_window(x->d[1], kh, stride, dil, ph);
    like.d[2] = fz_window(x->d[2], kw, stride, dil, pw);
    if (stride == 2 && patches)
        fz_scaled(&like, 1, 2);
    x->read = true;
    if (kh == 3 && kw == 3 && stride == 1 && dil == 1 && groups == 1)
        fz_has(z, FZ_WINOGRAD_FEATURE);
    if ((int64_t)d.out * c * kh * kw / groups > fz_cell(x))
        fz_has(z, FZ_HEAVY_FEATURE);
    fz_value *made =
        fz_made(z, bs_conv2d(z->g, x->v, &d), &like, d.act == BS_SIGMOID || d.act == BS_CLIP ? 2 : x->scale + 2);
    fz_own_block_end(z, own);
    fz_say(z, "%s = conv2d %s %dx%d of v%d, kind %d, stride %d, groups %d, act %d%s", fz_text(made), d.name, kh, kw,
           x->v.id, (int)kind, stride, groups, d.act, d.batch_norm ? ", bn" : "");
    return made;
}

/* What fuses with a convolution: a residual, an activation, a shuffle, all of these. */
static inline void fz_tail(fz *z, fz_value *x)
{
    const fz_value *twin = fz_chance(60) ? fz_twin(z, x) : NULL;
    if (twin && fz_affords(z, fz_elements(z, x))) {
        x = fz_made(z, fz_chance(70) ? bs_add(z->g, x->v, twin->v) : bs_add(z->g, twin->v, x->v), x, x->scale + 1);
        fz_say(z, "%s = with v%d", fz_text(x), twin->v.id);
    }
    if (!z->failed && fz_chance(50))
        x = fz_made(z, bs_activation(z->g, x->v, fz_chance(60) ? BS_RELU : BS_SILU, 0), x, x->scale);
    if (!z->failed && x->d[0].most % 4 == 0 && fz_pixels(x) <= 1024 && fz_chance(35)) {
        fz_value like = *x;
        like.d[0] = fz_const(x->d[0].most / 4);
        like.d[1] = fz_derive(x->d[1], 2, 0, 1);
        like.d[2] = fz_derive(x->d[2], 2, 0, 1);
        fz_scaled(&like, fz_image_of_patches(z, x) ? 2 : 1, 1);
        x = fz_made(z, bs_pixel_shuffle(z->g, x->v, 2), &like, x->scale);
    }
    fz_say(z, "%s = after the tail", fz_text(x));
}

static inline bool fz_op_conv(fz *z, fz_value *x)
{
    const fz_conv_kind kind = fz_chance(35) ? FZ_SQUARE : (fz_conv_kind)check_below(FZ_CONVS);
    fz_value *made = fz_conv(z, x, kind, fz_chance(25) ? x->d[0].most : 0);
    if (made && !z->failed && fz_chance(45))
        fz_tail(z, made);
    return made != NULL;
}

/* Along each row of an image, or of a table [C,L]. */
static inline bool fz_op_conv1d(fz *z, fz_value *x)
{
    if (x->dtype != BS_F32 || x->rank < 2 || x->rank > 3 || !fz_is_const(x, 0) || fz_image_of_patches(z, x) ||
        (z->domains[x->domain].patches && x->rank == 2))
        return false;
    const int32_t kernel = 1 + 2 * check_below(4), out = fz_width(), c = x->d[0].most;
    if (c > 1024 || !fz_affords(z, fz_elements(z, x) * out * kernel))
        return false;
    bs_conv2d_desc d = {.out = out, .kernel = kernel, .act = fz_some_act(), .no_bias = 1};
    d.stride = fz_chance(20) ? 2 : 1;
    if (d.act == BS_CLIP)
        d.act_param = 3;
    fz_conv_weights(z, &d, c, 1, 1, kernel);
    fz_value like = *x;
    like.d[0] = fz_const(out);
    like.d[x->rank - 1] = fz_window(x->d[x->rank - 1], kernel, d.stride, 1, kernel - 1);
    const fz_value *made = fz_made(z, bs_conv1d(z->g, x->v, &d), &like, x->scale + 2);
    fz_say(z, "%s = conv1d %s of v%d, kernel %d, stride %d", fz_text(made), d.name, x->v.id, kernel, d.stride);
    return true;
}

static inline bool fz_op_deconv(fz *z, fz_value *x)
{
    const int32_t stride = fz_chance(70) ? 2 : 1, kernel = stride == 2 ? (fz_chance(50) ? 4 : 2) : 3,
                  pad = kernel == 4 || kernel == 3 ? 1 : 0;
    if (!fz_is_image(z, x) || fz_pixels(x) > 600)
        return false;
    const int32_t out = fz_channels(z, fz_rows(z, x) * fz_pixels(x) * x->d[0].most * kernel * kernel);
    if (x->d[0].most > 128 || !fz_affords(z, fz_elements(z, x) * out * kernel * kernel))
        return false;
    bs_deconv2d_desc d = {.name = fz_name(z, "d"),
                          .out = out,
                          .kernel = kernel,
                          .stride = stride,
                          .padding = pad ? BS_PAD_EXPLICIT : 0,
                          .pad = pad,
                          .act = fz_chance(40) ? BS_RELU : 0};
    const int64_t dim[4] = {x->d[0].most, out, kernel, kernel};
    fz_weight_tensor(z, d.name, "weight", 4, dim, fz_shift_of(dim[0] * kernel));
    fz_line_tensor(z, d.name, "bias", out, 1);
    fz_value like = *x;
    like.d[0] = fz_const(out);
    like.d[1] = fz_derive(x->d[1], stride, 0, 1);
    like.d[2] = fz_derive(x->d[2], stride, 0, 1);
    fz_scaled(&like, fz_image_of_patches(z, x) ? stride : 1, 1);
    const fz_value *made = fz_made(z, bs_deconv2d(z->g, x->v, &d), &like, x->scale + 2);
    fz_say(z, "%s = deconv2d %s of v%d, kernel %d, stride %d", fz_text(made), d.name, x->v.id, kernel, stride);
    return true;
}

/* ------------------------------------------------------------------------------------------------------ other ops */

static inline bool fz_op_pool(fz *z, fz_value *x)
{
    const bool patches = fz_image_of_patches(z, x), half = fz_chance(50) && fz_shrinks(z, x, 2);
    if (!fz_is_image(z, x) || !fz_affords(z, fz_elements(z, x) * 4))
        return false;
    bs_pool2d_desc d = {.kind = fz_chance(50) ? BS_POOL_MAX : BS_POOL_AVERAGE};
    d.count_pad = fz_chance(30);
    fz_value like = *x;
    if (half) {
        for (int32_t i = 1; i < 3; i++)
            like.d[i] = fz_window(x->d[i], 2, 2, 1, 0);
        fz_scaled(&like, 1, patches ? 2 : 1);
    } else {
        d.kernel = 3, d.stride = 1, d.padding = BS_PAD_EXPLICIT, d.pad = 1;
    }
    const fz_value *made = fz_made(z, bs_pool2d(z->g, x->v, &d), &like, x->scale);
    fz_say(z, "%s = pool2d v%d, kind %d%s", fz_text(made), x->v.id, d.kind, half ? ", halved" : "");
    return true;
}

static inline bool fz_op_pool1d(fz *z, fz_value *x)
{
    if (x->dtype != BS_F32 || x->rank < 2 || x->rank > 3 || !fz_is_const(x, 0) || z->domains[x->domain].patches ||
        x->d[x->rank - 1].most < 6 || !fz_affords(z, fz_elements(z, x) * 3))
        return false;
    fz_value like = *x;
    const bs_pool2d_desc d = {.kind = fz_chance(50) ? BS_POOL_MAX : BS_POOL_AVERAGE, .kernel = 3, .stride = 2};
    like.d[x->rank - 1] = fz_window(x->d[x->rank - 1], 3, 2, 1, 0);
    const fz_value *made = fz_made(z, bs_pool1d(z->g, x->v, &d), &like, x->scale);
    fz_say(z, "%s = pool1d v%d, kind %d", fz_text(made), x->v.id, d.kind);
    return true;
}

static inline fz_value *fz_global(fz *z, fz_value *x)
{
    fz_value like = *x;
    like.rank = 1;
    like.num = like.den = 1;
    if (!fz_affords(z, fz_elements(z, x)))
        return NULL;
    const bs_pool2d_desc d = {.kind = fz_chance(40) ? BS_POOL_MAX : BS_POOL_AVERAGE, .global = 1};
    fz_value *made = fz_made(z, bs_pool2d(z->g, x->v, &d), &like, x->scale);
    fz_say(z, "%s = pool2d of all of v%d, kind %d", fz_text(made), x->v.id, d.kind);
    return made;
}

static inline bool fz_op_global(fz *z, fz_value *x) { return fz_is_image(z, x) && fz_global(z, x) != NULL; }

static inline bool fz_op_resize(fz *z, fz_value *x)
{
    const bool patches = fz_image_of_patches(z, x), up = fz_chance(60) || !fz_shrinks(z, x, 2);
    if (!fz_is_image(z, x) || (up && fz_pixels(x) > 1024) || !fz_affords(z, fz_elements(z, x) * (up ? 40 : 10)))
        return false;
    bs_resize_desc d = {.kind = check_below(4), .factor = up ? 2 : 1, .den = up ? 1 : 2};
    fz_value like = *x;
    like.d[1] = fz_derive(x->d[1], d.factor, 0, d.den);
    like.d[2] = fz_derive(x->d[2], d.factor, 0, d.den);
    if (d.kind != BS_RESIZE_AREA && fz_chance(50))
        d.centres = patches ? BS_RESIZE_ASYMMETRIC : 1 + check_below(2);
    if (!patches && fz_chance(30)) {
        d.factor = d.den = 0, d.height = x->d[1].most + 3, d.width = x->d[2].most > 4 ? x->d[2].most - 2 : 5;
        like.d[1] = fz_const(d.height), like.d[2] = fz_const(d.width);
    }
    if (d.centres == 0 && !up && d.height == 0 && (d.kind == BS_RESIZE_BILINEAR || d.kind == BS_RESIZE_BICUBIC))
        d.antialias = fz_chance(50);
    if (patches)
        fz_scaled(&like, up ? 2 : 1, up ? 1 : 2);
    const fz_value *made = fz_made(z, bs_resize(z->g, x->v, &d), &like, x->scale + 1);
    fz_say(z, "%s = resize v%d, kind %d, centres %d%s", fz_text(made), x->v.id, d.kind, d.centres,
           d.antialias ? ", antialias" : "");
    return true;
}

static inline bool fz_op_shuffle(fz *z, fz_value *x)
{
    if (!fz_is_image(z, x) || !fz_affords(z, fz_elements(z, x)))
        return false;
    fz_value like = *x;
    const bool patches = fz_image_of_patches(z, x), apart = x->d[0].most % 4 == 0 && fz_chance(60);
    if (!apart && ((!patches && (!fz_is_const(x, 1) || !fz_is_const(x, 2) || x->d[1].most % 2 || x->d[2].most % 2)) ||
                   !fz_shrinks(z, x, 2) || x->d[0].most > 24 || patches))
        return false;
    like.d[0] = fz_const(apart ? x->d[0].most / 4 : x->d[0].most * 4);
    like.d[1] = fz_derive(x->d[1], apart ? 2 : 1, 0, apart ? 1 : 2);
    like.d[2] = fz_derive(x->d[2], apart ? 2 : 1, 0, apart ? 1 : 2);
    fz_scaled(&like, patches ? 2 : 1, 1);
    const bs_value v = apart ? bs_pixel_shuffle(z->g, x->v, 2) : bs_pixel_unshuffle(z->g, x->v, 2);
    const fz_value *made = fz_made(z, v, &like, x->scale);
    fz_say(z, "%s = pixel_%sshuffle v%d", fz_text(made), apart ? "" : "un", x->v.id);
    return true;
}

static inline bool fz_op_pad(fz *z, fz_value *x)
{
    if (x->rank != 3 || z->domains[x->domain].patches || !fz_is_image(z, x) || !fz_affords(z, fz_elements(z, x)))
        return false;
    const bool small = x->d[1].most < 6 || x->d[2].most < 6 || x->d[1].key || x->d[2].key;
    bs_pad_desc d = {.top = check_below(3), .value = fz_from_bits(0x80000000u)};
    d.bottom = check_below(3);
    d.left = check_below(3);
    d.right = check_below(3);
    d.edge = small ? BS_EDGE_REPEAT : check_below(3);
    fz_value like = *x;
    like.d[1] = fz_derive(x->d[1], 1, d.top + d.bottom, 1);
    like.d[2] = fz_derive(x->d[2], 1, d.left + d.right, 1);
    const fz_value *made = fz_made(z, bs_pad(z->g, x->v, &d), &like, x->scale);
    fz_say(z, "%s = pad v%d by %d %d %d %d, edge %d", fz_text(made), x->v.id, d.top, d.bottom, d.left, d.right, d.edge);
    return true;
}

static inline bool fz_op_image_norm(fz *z, fz_value *x)
{
    const bool lrn = fz_chance(40);
    if (!fz_is_image(z, x) || !fz_affords(z, fz_elements(z, x) * (lrn ? 8 : 2)))
        return false;
    if (lrn) {
        bs_lrn_desc d = {.size = fz_between(3, 5)};
        d.alpha = fz_chance(50) ? 0 : 0.3f;
        const fz_value *made = fz_made(z, bs_lrn(z->g, x->v, &d), x, x->scale);
        fz_say(z, "%s = lrn v%d size %d", fz_text(made), x->v.id, d.size);
        return true;
    }
    const bs_norm_desc d = {.name = fz_name(z, "m")};
    fz_line_tensor(z, d.name, "weight", x->d[0].most, 0);
    fz_line_tensor(z, d.name, "bias", x->d[0].most, 1);
    fz_line_tensor(z, d.name, "mean", x->d[0].most, 1);
    fz_positive_tensor(z, d.name, "var", x->d[0].most);
    const fz_value *made = fz_made(z, bs_batch_norm(z->g, x->v, &d), x, x->scale + 2);
    fz_say(z, "%s = batch_norm %s of v%d", fz_text(made), d.name, x->v.id);
    return true;
}

/* Pixels as tokens: [C,H,W] -> [H W, C]. */
static inline bool fz_op_tokens(fz *z, fz_value *x)
{
    if (!fz_is_image(z, x) || z->domains[x->domain].patches || !fz_all_const(x) || fz_pixels(x) > 256 ||
        !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    const int32_t c = x->d[0].most, n = (int32_t)fz_pixels(x);
    fz_value like = *x;
    like.rank = 2, like.d[0] = fz_const(n), like.d[1] = fz_const(c);
    const bs_value flat = bs_reshape(z->g, x->v, BS_SHAPE2(c, n));
    const fz_value *made = fz_made(z, bs_transpose(z->g, flat, &(bs_transpose_desc){.order = {1, 0}}), &like, x->scale);
    fz_say(z, "%s = pixels of v%d", fz_text(made), x->v.id);
    return true;
}

#endif
