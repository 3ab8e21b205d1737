/* row_ops.h - ops that do not care what an element belongs to, and ops on lines: the last dimension of rows and root
 * values. Each takes a value that was picked, and makes nothing where it does not fit.
 *
 * Relies on weights.h. */
#ifndef BS_FROZEN_ROW_OPS_H
#define BS_FROZEN_ROW_OPS_H

#include "frozen/weights.h"

/* What results come to: numbers that have grown are scaled down by a power of two, which is exact. */
static inline fz_value *fz_made(fz *z, bs_value v, const fz_value *like, int32_t scale)
{
    fz_value *made = fz_add(z, v, like);
    made->scale = scale;
    if (scale <= 24 || z->failed || made->dtype != BS_F32)
        return made;
    made->idle = true;
    fz_value *small = fz_add(z, bs_affine(z->g, v, fz_from_bits((uint32_t)(127 - scale) << 23), 0), made);
    small->scale = 0;
    fz_say(z, "%s = affine v%d 2^-%d", fz_text(small), v.id, scale);
    return small;
}

/* Results of the C library, and what else may be another in the last bits elsewhere: sixteenths, by whole numbers. */
static inline void fz_blunt(fz *z, bs_value v, const fz_value *like)
{
    const bs_value whole = bs_convert(z->g, v, &(bs_convert_desc){.dtype = BS_I32, .scale = 16});
    fz_value *made = fz_add(z, bs_convert(z->g, whole, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.0625f}), like);
    made->scale = 12;
    fz_say(z, "%s = v%d in sixteenths", fz_text(made), v.id);
}

/* -------------------------------------------------------------------------------------------- element by element */

static inline bool fz_op_unary(fz *z, fz_value *x)
{
    static const int32_t kinds[] = {BS_UNARY_ABS,        BS_UNARY_NEG,   BS_UNARY_SIGN, BS_UNARY_FLOOR,
                                    BS_UNARY_CEIL,       BS_UNARY_ROUND, BS_UNARY_SQRT, BS_UNARY_RSQRT,
                                    BS_UNARY_RECIPROCAL, BS_UNARY_EXP,   BS_UNARY_LOG,  BS_UNARY_ERF};
    const int32_t kind = kinds[check_below(12)];
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    bs_value v = x->v;
    if (kind == BS_UNARY_SQRT || kind == BS_UNARY_RSQRT || kind == BS_UNARY_LOG) /* of what is not negative */
        v = bs_unary(z->g, v, BS_UNARY_ABS);
    if (kind == BS_UNARY_EXP)
        v = bs_clip(z->g, v, -90, 12);
    const fz_value *made = fz_made(z, bs_unary(z->g, v, (bs_unary_kind)kind), x,
                                   kind == BS_UNARY_EXP     ? 17
                                   : kind >= BS_UNARY_RSQRT ? 10
                                                            : x->scale);
    fz_say(z, "%s = unary %d of v%d", fz_text(made), kind, x->v.id);
    return true;
}

/* Functions that are the C library's, of few different numbers. */
static inline bool fz_op_library(fz *z, fz_value *x)
{
    const int32_t kind = fz_between(BS_UNARY_SIN, BS_UNARY_ATAN);
    const float most = kind == BS_UNARY_ASIN || kind == BS_UNARY_ACOS ? 1 : kind == BS_UNARY_TAN ? 1.5f : 7;
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x) * 20))
        return false;
    const bs_value near = bs_clip(z->g, x->v, -most, most),
                   code = bs_convert(z->g, near, &(bs_convert_desc){.dtype = BS_I8, .scale = 8}),
                   few = bs_convert(z->g, code, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.125f});
    fz_say(z, "library function %d of v%d", kind, x->v.id);
    fz_blunt(z, bs_unary(z->g, few, (bs_unary_kind)kind), x);
    return true;
}

static inline bool fz_op_affine(fz *z, fz_value *x)
{
    const bool exact = fz_chance(30);
    const float scale = exact ? (fz_chance(50) ? 1.0f : -1.0f) : fz_fraction(fz_between(-3, 1)),
                offset = fz_chance(30) ? fz_from_bits(0x80000000u) : fz_fraction(fz_between(-5, 1));
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x)))
        return false;
    const fz_value *made = fz_made(z, bs_affine(z->g, x->v, scale, offset), x, x->scale + 1);
    fz_say(z, "%s = affine v%d %a %a", fz_text(made), x->v.id, (double)scale, (double)offset);
    return true;
}

static inline bool fz_op_clip(fz *z, fz_value *x)
{
    const float low = -(float)fz_between(0, 3) * 0.75f, high = (float)fz_between(1, 9) * 0.4f;
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x)))
        return false;
    const fz_value *made = fz_made(z, bs_clip(z->g, x->v, low, high), x, 2);
    fz_say(z, "%s = clip v%d %g %g", fz_text(made), x->v.id, (double)low, (double)high);
    return true;
}

static inline bool fz_op_activation(fz *z, fz_value *x)
{
    static const bs_act acts[] = {BS_RELU, BS_LEAKY_RELU, BS_SIGMOID, BS_TANH, BS_GELU, BS_SILU, BS_CLIP};
    const bs_act act = acts[check_below(7)];
    const float param = act == BS_LEAKY_RELU && fz_chance(60) ? 0.3f : act == BS_CLIP && fz_chance(60) ? 2.5f : 0;
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x) * 4))
        return false;
    const fz_value *made = fz_made(z, bs_activation(z->g, x->v, act, param), x,
                                   act == BS_SIGMOID || act == BS_TANH || act == BS_CLIP ? 1 : x->scale);
    fz_say(z, "%s = activation %d of v%d", fz_text(made), (int)act, x->v.id);
    return true;
}

static inline bool fz_op_prelu(fz *z, fz_value *x)
{
    if (x->dtype != BS_F32 || x->rank < 1 || !fz_is_const(x, 0) || !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    const char *name = fz_name(z, "q");
    fz_line_tensor(z, name, "prelu", x->d[0].most, 0);
    const fz_value *made = fz_made(z, bs_prelu(z->g, x->v, name), x, x->scale);
    fz_say(z, "%s = prelu %s of v%d", fz_text(made), name, x->v.id);
    return true;
}

/* A root value that was computed and is one line for all rows of x, or NULL. */
static inline fz_value *fz_captured(fz *z, const fz_value *x)
{
    for (int32_t i = z->n_values - 1; i >= 0 && x->domain != 0; i--) {
        fz_value *v = &z->values[i];
        if (v->domain == 0 && !v->idle && v->dtype == BS_F32 && v->rank == 1 && fz_is_const(v, 0) &&
            (v->d[0].most == 1 || (x->rank == 1 && v->d[0].most == fz_last(x))) && fz_chance(30))
            return v;
    }
    return NULL;
}

/* What may stand beside x: its twin, itself, a root value, one number a channel, one line for all, or a number. */
static inline fz_value *fz_beside(fz *z, fz_value *x)
{
    const int32_t last = fz_last(x), one = 1;
    fz_value *twin = fz_chance(65) ? fz_twin(z, x) : NULL;
    if (twin)
        return twin;
    if (x->rank == 0 || fz_chance(15))
        return x;
    fz_value *root = fz_chance(50) ? fz_captured(z, x) : NULL;
    if (root)
        return root;
    if (x->rank == 3 && fz_is_const(x, 0) && fz_chance(80))
        return fz_constant(z, 1, &x->d[0].most);
    return fz_is_const(x, x->rank - 1) && x->rank != 3 && fz_chance(80) ? fz_constant(z, 1, &last)
                                                                        : fz_constant(z, 1, &one);
}

static inline bool fz_op_pair(fz *z, fz_value *x)
{
    static const char *const names[] = {"add", "sub", "mul", "div", "min", "max"};
    const int32_t op = fz_chance(60) ? check_below(3) : check_below(6);
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    fz_value *y = fz_beside(z, x);
    const bool turned = y->domain == x->domain && fz_same_shape(x, y) && fz_chance(50);
    const bs_value a = turned ? y->v : x->v, b = turned ? x->v : y->v;
    const bs_value v = op == 0   ? bs_add(z->g, a, b)
                       : op == 1 ? bs_sub(z->g, a, b)
                       : op == 2 ? bs_mul(z->g, a, b)
                                 : bs_binary(z->g, a, b, (bs_binary_kind)(op - 3));
    const int32_t more = x->scale > y->scale ? x->scale : y->scale;
    y->read = x->read = true;
    const fz_value *made = fz_made(z, v, x, op == 2 ? x->scale + y->scale : op == 3 ? x->scale + 8 : more + (op < 2));
    fz_say(z, "%s = %s v%d v%d", fz_text(made), names[op], a.id, b.id);
    return true;
}

static inline bool fz_op_power(fz *z, fz_value *x)
{
    const int32_t one = 1;
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x) * 40))
        return false;
    const bs_value near = bs_clip(z->g, x->v, 0, 7), half = bs_affine(z->g, near, 0.5f, 0.25f);
    const bs_value code = bs_convert(z->g, half, &(bs_convert_desc){.dtype = BS_U8, .scale = 8}),
                   base = bs_convert(z->g, code, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.125f});
    const fz_value *by = fz_constant(z, 1, &one);
    const bs_value up = bs_clip(z->g, by->v, -1.5f, 2);
    fz_say(z, "power of v%d", x->v.id);
    fz_blunt(z, bs_binary(z->g, base, up, BS_BINARY_POW), x);
    return true;
}

/* Truth values of two operands, two of those put together, and a choice by them. */
static inline bool fz_op_choose(fz *z, fz_value *x)
{
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x) * 4))
        return false;
    fz_value *y = fz_beside(z, x);
    const bs_compare_kind kind = (bs_compare_kind)check_below(BS_COMPARE_AND);
    bs_value truth = bs_compare(z->g, x->v, y->v, kind);
    if (fz_chance(30))
        truth = bs_unary(z->g, truth, BS_UNARY_NOT);
    if (fz_chance(40))
        truth = bs_compare(z->g, truth, bs_compare(z->g, x->v, y->v, BS_COMPARE_LESS),
                           (bs_compare_kind)fz_between(BS_COMPARE_AND, BS_COMPARE_XOR));
    const fz_value *made = fz_made(z, bs_where(z->g, truth, x->v, y->v), x, x->scale > y->scale ? x->scale : y->scale);
    fz_say(z, "%s = where v%d: v%d, else v%d", fz_text(made), truth.id, x->v.id, y->v.id);
    return true;
}

/* To a type of whole numbers; mostly back again. */
static inline bool fz_op_convert(fz *z, fz_value *x)
{
    static const bs_dtype types[] = {BS_U8, BS_I8, BS_I32, BS_U16};
    const bs_dtype type = types[check_below(4)];
    const float scale = type == BS_U16 ? 700.0f : type == BS_I32 ? 4.0f : 9.5f;
    if (x->dtype != BS_F32 || !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    const bs_convert_desc to = {.dtype = type, .scale = scale, .code_bits = type == BS_U16 ? fz_between(10, 16) : 0},
                          back = {.dtype = BS_F32, .scale = 1 / 16.0f, .code_bits = to.code_bits};
    fz_value *code = fz_add(z, bs_convert(z->g, x->v, &to), x);
    code->dtype = type;
    code->scale = 8;
    fz_say(z, "%s = convert v%d", fz_text(code), x->v.id);
    if (fz_chance(20))
        return true;
    const fz_value *made = fz_made(z, bs_convert(z->g, code->v, &back), x, 8);
    fz_say(z, "%s = convert v%d", fz_text(made), code->v.id);
    return true;
}

/* ------------------------------------------------------------------------------------------------------- lines */

static inline int32_t fz_width(void)
{
    static const int32_t widths[] = {8, 12, 16, 16, 24, 32, 32, 48, 64, 64, 96, 128, 3, 5, 7, 33, 65, 4};
    return widths[check_below(18)];
}

static inline const char *fz_linear_name(fz *z, int32_t out, int32_t in, bs_linear_desc *desc)
{
    const int64_t dim[2] = {out, in};
    desc->name = fz_layer(z, "l", 2, dim, in);
    desc->out = out;
    desc->no_bias = fz_chance(20);
    if (!desc->no_bias)
        fz_line_tensor(z, desc->name, "bias", out, 1);
    if (desc->act == BS_PRELU)
        fz_line_tensor(z, desc->name, "prelu", out, 0);
    return desc->name;
}

static inline fz_value *fz_linear(fz *z, fz_value *x, int32_t out, bs_act act)
{
    const int64_t macs = fz_rows(z, x) * fz_cell(x) * out;
    if (!fz_is_line(z, x) || (int64_t)fz_last(x) * out > FZ_POOL ||
        !fz_affords(z, macs + (int64_t)fz_last(x) * out / 4))
        return NULL;
    const bool own = fz_own_block(z);
    bs_linear_desc desc = {.act = act, .act_param = act == BS_CLIP ? 3.0f : 0};
    fz_linear_name(z, out, fz_last(x), &desc);
    fz_value like = *x;
    like.d[x->rank - 1] = fz_const(out);
    x->read = true;
    if ((int64_t)fz_last(x) * out > fz_rows(z, x) * fz_cell(x))
        fz_has(z, FZ_HEAVY_FEATURE);
    if ((int64_t)fz_last(x) * out >= 1 << 16)
        fz_has(z, FZ_LARGE_FEATURE);
    fz_value *made =
        fz_made(z, bs_linear(z->g, x->v, &desc), &like, act == BS_CLIP || act == BS_SIGMOID ? 2 : x->scale + 1);
    fz_own_block_end(z, own);
    fz_say(z, "%s = linear %s of v%d, act %d%s", fz_text(made), desc.name, x->v.id, (int)act,
           desc.no_bias ? ", no bias" : "");
    return made;
}

static inline bs_act fz_some_act(void)
{
    static const bs_act acts[] = {BS_RELU, BS_LEAKY_RELU, BS_PRELU, BS_SIGMOID, BS_TANH, BS_GELU, BS_SILU, BS_CLIP};
    return fz_chance(55) ? BS_ACT_NONE : acts[check_below(8)];
}

static inline bool fz_op_linear(fz *z, fz_value *x)
{
    int32_t out = fz_width();
    if (fz_rows(z, x) * fz_cell(x) <= 2048 && fz_chance(12))
        out = fz_chance(60) ? 512 : 1000; /* layers heavier than their rows */
    return fz_linear(z, x, out, fz_some_act()) != NULL;
}

static inline bool fz_op_norm(fz *z, fz_value *x)
{
    const bool rms = fz_chance(50);
    if (!fz_is_line(z, x) || !fz_affords(z, fz_elements(z, x) * 4))
        return false;
    const bs_norm_desc desc = {.name = fz_name(z, "n"), .epsilon = fz_chance(50) ? 0 : 0x1p-10f};
    fz_line_tensor(z, desc.name, "weight", fz_last(x), 0);
    if (!rms)
        fz_line_tensor(z, desc.name, "bias", fz_last(x), 1);
    const fz_value *made = fz_made(z, rms ? bs_rms_norm(z->g, x->v, &desc) : bs_layer_norm(z->g, x->v, &desc), x, 2);
    fz_say(z, "%s = %s %s of v%d", fz_text(made), rms ? "rms_norm" : "layer_norm", desc.name, x->v.id);
    return true;
}

static inline bool fz_op_softmax(fz *z, fz_value *x)
{
    if (x->dtype != BS_F32 || x->rank < 1 || fz_image_of_patches(z, x) || !fz_affords(z, fz_elements(z, x) * 4))
        return false;
    const fz_value *made = fz_made(z, bs_softmax(z->g, x->v), x, 0);
    fz_say(z, "%s = softmax v%d", fz_text(made), x->v.id);
    return true;
}

static inline bool fz_op_reduce(fz *z, fz_value *x)
{
    const bool patches = fz_image_of_patches(z, x);
    const int32_t kind = check_below(BS_REDUCE_LOG_SUM_EXP + 1),
                  axis = patches ? 0 : check_below(x->rank ? x->rank : 1);
    const int32_t most = x->rank - axis, axes = patches || fz_chance(70) ? 1 : 1 + check_below(most > 0 ? most : 1);
    const bool keep = patches || fz_chance(50);
    if (x->dtype != BS_F32 || x->rank < 1 || !fz_affords(z, fz_elements(z, x) * 2))
        return false;
    bs_reduce_desc desc = {.kind = kind, .axis = fz_chance(80) ? axis : axis - x->rank, .keep = keep};
    desc.axes = axes == 1 && fz_chance(50) ? 0 : axes;
    fz_value like = *x;
    like.rank = 0;
    for (int32_t i = 0; i < x->rank; i++)
        if (i < axis || i >= axis + axes)
            like.d[like.rank++] = x->d[i];
        else if (keep)
            like.d[like.rank++] = fz_const(1);
    if (like.rank == 0)
        like.rank = 1, like.d[0] = fz_const(1);
    if (!patches && like.rank == 3 && z->domains[x->domain].patches)
        return false;
    bs_value from = x->v;
    if (kind == BS_REDUCE_PROD || kind == BS_REDUCE_LOG_SUM_EXP) /* products of many stay finite */
        from = bs_clip(z->g, from, -1.5f, 1.5f);
    fz_say(z, "reduce v%d kind %d axis %d axes %d keep %d", x->v.id, kind, desc.axis, axes, keep);
    if (kind == BS_REDUCE_LOG_SUM_EXP)
        return fz_blunt(z, bs_reduce(z->g, from, &desc), &like), true;
    const fz_value *made =
        fz_made(z, bs_reduce(z->g, from, &desc), &like,
                kind >= BS_REDUCE_PROD && kind <= BS_REDUCE_SUM_SQUARE ? 2 * x->scale + 6 : x->scale + 5);
    fz_say(z, "%s = of that", fz_text(made));
    return true;
}

static inline bool fz_op_argmax(fz *z, fz_value *x)
{
    if (!fz_is_line(z, x) || !fz_affords(z, fz_elements(z, x)))
        return false;
    fz_value like = *x;
    like.dtype = BS_I32;
    like.rank--;
    const bool lowest = fz_chance(50);
    const bs_value at = lowest ? bs_argmin(z->g, x->v) : bs_argmax(z->g, x->v);
    if (like.rank == 0)
        like.rank = 1, like.d[0] = fz_const(1);
    fz_say(z, "v%d = %s v%d", at.id, lowest ? "argmin" : "argmax", x->v.id);
    fz_value *made = fz_add(z, bs_convert(z->g, at, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.5f}), &like);
    made->dtype = BS_F32;
    made->scale = 8;
    fz_say(z, "%s = convert v%d", fz_text(made), at.id);
    return true;
}

static inline bool fz_op_cumsum(fz *z, fz_value *x)
{
    const int32_t axis = check_below(x->rank ? x->rank : 1);
    if (x->dtype != BS_F32 || x->rank < 1 || fz_image_of_patches(z, x) || !fz_affords(z, fz_elements(z, x)))
        return false;
    bs_cumsum_desc desc = {.axis = axis, .exclusive = fz_chance(30)};
    desc.reverse = fz_chance(40);
    const fz_value *made = fz_made(z, bs_cumsum(z->g, x->v, &desc), x, x->scale + 4);
    fz_say(z, "%s = cumsum v%d axis %d%s%s", fz_text(made), x->v.id, axis, desc.exclusive ? " exclusive" : "",
           desc.reverse ? " reverse" : "");
    return true;
}

#endif
