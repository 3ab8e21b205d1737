/* segments.h - rows in segments: attention with and without caches and masks, numbers of rows, sums of segments.
 *
 * Relies on routers.h and trees.h (inputs). */
#ifndef BS_FROZEN_SEGMENTS_H
#define BS_FROZEN_SEGMENTS_H

#include "frozen/trees.h"

static inline bool fz_op_segment_reduce(fz *z, fz_value *x)
{
    const fz_domain *d = &z->domains[x->domain];
    if (!d->segments || !fz_is_vector(z, x) || !fz_affords(z, fz_elements(z, x)))
        return false;
    const bool to_rows = d->loops || fz_chance(50);
    const bs_segment_reduce_desc desc = {.mode = check_below(4), .to_rows = to_rows};
    fz_value like = *x;
    if (!to_rows)
        like.domain = 0, like.rank = 2, like.d[1] = x->d[0], like.d[0] = d->segment;
    const fz_value *made = fz_made(z, bs_segment_reduce(z->g, x->v, &desc), &like, x->scale + 2);
    fz_say(z, "%s = segment_reduce v%d, mode %d%s", fz_text(made), x->v.id, desc.mode, to_rows ? ", to rows" : "");
    return true;
}

static inline bool fz_op_segment_index(fz *z, fz_value *x)
{
    const fz_domain *d = &z->domains[x->domain];
    if (!d->segments || !fz_affords(z, fz_elements(z, x)))
        return false;
    const bs_value at = bs_segment_index(z->g, x->v, (bs_value){0});
    fz_value like = {.domain = x->domain, .dtype = BS_F32, .rank = 1, .num = 1, .den = 1, .scale = 5, .d = {{1, 0}}};
    const bs_value one = bs_reshape(z->g, at, BS_SHAPE1(1));
    const fz_value *made =
        fz_made(z, bs_convert(z->g, one, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.3f}), &like, 5);
    fz_say(z, "%s = segment_index of v%d", fz_text(made), x->v.id);
    if (!fz_is_vector(z, x) || x->d[0].most % 4 != 0 || z->failed)
        return true;
    made = fz_made(z, bs_rope(z->g, x->v, at, &(bs_rope_desc){.heads = 2}), x, x->scale + 1);
    fz_say(z, "%s = rope v%d by it", fz_text(made), x->v.id);
    return true;
}

static inline bool fz_op_segment_spread(fz *z, fz_value *x)
{
    const fz_domain *d = &z->domains[x->domain];
    if (!d->segments)
        return false;
    for (int32_t i = z->n_values - 1; i >= 0; i--) {
        fz_value *p = &z->values[i];
        if (p->domain != 0 || p->idle || p->dtype != BS_F32 || p->rank != 2 || !fz_same_dim(p->d[0], d->segment) ||
            !fz_is_const(p, 1) || fz_chance(30) || !fz_affords(z, fz_elements(z, x)))
            continue;
        fz_value like = *p;
        like.domain = x->domain, like.rank = 1, like.d[0] = p->d[1];
        p->read = true;
        const fz_value *made = fz_made(z, bs_segment_spread(z->g, p->v, x->v), &like, p->scale);
        fz_say(z, "%s = segment_spread v%d", fz_text(made), p->v.id);
        return true;
    }
    return false;
}

typedef struct fz_attended {
    bs_value k, v, cache_k, cache_v, lengths, mask;
} fz_attended;

/* A cache of what was seen before: states and how much of it there is. */
static inline void fz_cached(fz *z, const fz_domain *d, fz_attended *a, int32_t width, const bs_attention_desc *desc)
{
    const int32_t window = fz_between(3, 9);
    const bs_shape shape = {3, {d->segment.most, window, width}};
    const fz_dim n = d->segment;
    (void)desc;
    a->lengths = fz_input_add(z, fz_name(z, "seen"), BS_I32, 1, &n, NULL, FZ_FILL_CACHED, 12)->v;
    const char *k = fz_name(z, "cache_k"), *v = fz_name(z, "cache_v");
    a->cache_k = bs_state(z->g, k, BS_F32, shape);
    a->cache_v = bs_state(z->g, v, BS_F32, shape);
    bs_state_append(z->g, a->cache_k, a->k, a->lengths);
    bs_state_append(z->g, a->cache_v, a->v, a->lengths);
    fz_has(z, FZ_CACHE_FEATURE);
    fz_say(z, "caches %s and %s of %d, seen v%d", k, v, window, a->lengths.id);
}

static inline bs_value fz_mask(fz *z, fz_value *x)
{
    fz_value *from = fz_pick(z, x->domain, fz_is_vector);
    if (!from || from->domain != x->domain)
        return (bs_value){0};
    const bs_value one = bs_slice(z->g, from->v, &(bs_slice_desc){.length = 1});
    fz_has(z, FZ_MASK_FEATURE);
    fz_say(z, "mask of v%d", from->v.id);
    return fz_chance(50) ? one : bs_convert(z->g, one, &(bs_convert_desc){.dtype = BS_I32});
}

static inline bool fz_op_attention(fz *z, fz_value *x)
{
    static const int32_t counts[] = {1, 2, 4, 8};
    const fz_domain *d = &z->domains[x->domain];
    const int32_t heads = counts[check_below(4)], kv = heads > 1 && fz_chance(40) ? heads / 2 : heads,
                  width = heads * fz_between(1, 4) * 4, narrow = width / heads * kv;
    if (!d->segments || d->kind == FZ_BODY || !fz_is_vector(z, x) || d->loops ||
        !fz_affords(z, (int64_t)d->most * d->most * width))
        return false;
    fz_attended a = {{0}, {0}, {0}, {0}, {0}, {0}};
    fz_value *q = fz_linear(z, x, width, BS_ACT_NONE), *k = q ? fz_linear(z, x, narrow, BS_ACT_NONE) : NULL,
             *v = k ? fz_linear(z, x, narrow, BS_ACT_NONE) : NULL;
    if (!v || z->failed)
        return false;
    bs_attention_desc desc = {.heads = heads, .alibi = fz_chance(25), .kv_heads = kv == heads ? 0 : kv};
    desc.bidirectional = fz_chance(40);
    desc.scale = fz_chance(30) ? 0.3f : 0;
    a.k = k->v, a.v = v->v;
    const bool cached = d->kind == FZ_SEGMENTS && d->segment.key == 0 && z->n_inputs < FZ_INPUTS - 4 && fz_chance(35);
    if (cached)
        fz_cached(z, d, &a, narrow, &desc);
    else if (fz_chance(30))
        a.mask = fz_mask(z, x);
    const bs_value y = a.mask.id
                           ? bs_attention_masked(z->g, q->v, a.k, a.v, a.cache_k, a.cache_v, a.lengths, a.mask, &desc)
                           : bs_attention(z->g, q->v, a.k, a.v, a.cache_k, a.cache_v, a.lengths, &desc);
    const fz_value *made = fz_made(z, y, q, v->scale);
    fz_say(z, "%s = attention v%d v%d v%d, %d heads, %d of k%s%s", fz_text(made), q->v.id, k->v.id, v->v.id, heads, kv,
           desc.alibi ? ", alibi" : "", desc.bidirectional ? ", bidirectional" : "");
    return true;
}

/* To the rows of other segments, as many of them. */
static inline bool fz_op_cross(fz *z, fz_value *x)
{
    const fz_domain *d = &z->domains[x->domain];
    if (d->kind != FZ_SEGMENTS || !fz_is_vector(z, x))
        return false;
    for (int32_t i = 0; i < z->n_values; i++) {
        fz_value *other = &z->values[i];
        const fz_domain *o = &z->domains[other->domain];
        if (other->domain == x->domain || o->kind != FZ_SEGMENTS || o->segment.most != d->segment.most ||
            !fz_is_vector(z, other) || other->idle || !fz_affords(z, (int64_t)d->most * o->most * 64))
            continue;
        fz_value *q = fz_linear(z, x, 16, BS_ACT_NONE), *k = q ? fz_linear(z, other, 16, BS_ACT_NONE) : NULL;
        if (!k || z->failed)
            return false;
        const bs_attention_desc desc = {.heads = 2, .bidirectional = 1};
        const bs_value none = {0};
        const fz_value *made = fz_made(z, bs_attention(z->g, q->v, k->v, k->v, none, none, none, &desc), q, k->scale);
        fz_has(z, FZ_CROSS_FEATURE);
        fz_say(z, "%s = attention of v%d to v%d of other segments", fz_text(made), q->v.id, k->v.id);
        return true;
    }
    return false;
}

#endif
