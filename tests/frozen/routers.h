/* routers.h - routers of frozen graphs with all their paths, and what is gathered of them.
 *
 * Relies on the ops; fz_grow (grow.h) fills the paths. */
#ifndef BS_FROZEN_ROUTERS_H
#define BS_FROZEN_ROUTERS_H

#include "frozen/image_ops.h"
#include "frozen/index_ops.h"

static void fz_grow(fz *z, int32_t domain, int32_t steps);

static inline int32_t fz_domain_add(fz *z, fz_kind kind, int32_t parent)
{
    if (z->n_domains >= FZ_DOMAINS)
        fz_stop(__func__);
    z->domains[z->n_domains] = z->domains[parent];
    z->domains[z->n_domains].kind = kind;
    z->domains[z->n_domains].parent = parent;
    return z->n_domains++;
}

/* Rows of x that take the path; the first ones make its domain. */
static inline fz_value *fz_scatter(fz *z, int32_t router, int32_t path, fz_value *x)
{
    fz_router *r = &z->routers[router];
    fz_value like = *x;
    if (r->paths[path] == 0) {
        const int32_t d = r->paths[path] = fz_domain_add(z, r->loop ? FZ_BODY : FZ_PATH, x->domain);
        z->domains[d].router = router;
        z->domains[d].path = path;
        z->domains[d].depth++;
        z->domains[d].loops = z->domains[d].loops || r->loop;
    }
    like.domain = r->paths[path];
    x->read = true;
    fz_value *made = fz_add(z, bs_scatter(z->g, r->r, path, x->v), &like);
    fz_say(z, "%s = scatter %s path %d of v%d", fz_text(made), r->name, path, x->v.id);
    return made;
}

/* -------------------------------------------------------------------------------------------------------- scores */

/* Scores that are often equal: whole numbers of small steps. */
static inline bs_value fz_stepped(fz *z, bs_value v)
{
    const bs_value some = bs_unary(z->g, bs_affine(z->g, v, 0.5f, 0), BS_UNARY_ROUND);
    fz_say(z, "v%d = v%d in steps", some.id, v.id);
    return some;
}

static inline bs_value fz_score(fz *z, fz_value *x, const bs_route_desc *d)
{
    const bs_value none = {0};
    const int32_t variants = d->capacity ? d->capacity : d->paths;
    const int32_t width = d->protocol == BS_ROUTE_BINARY ? 1 : d->protocol == BS_ROUTE_BUDGET ? variants : d->paths;
    const fz_value *s = fz_linear(z, x, width, BS_ACT_NONE);
    if (!s || z->failed)
        return none;
    if (d->protocol == BS_ROUTE_LABEL || d->protocol == BS_ROUTE_TABLE) {
        bs_value at = none;
        bs_topk(z->g, fz_chance(50) ? fz_stepped(z, s->v) : s->v, 1, &at);
        return at;
    }
    if (d->protocol == BS_ROUTE_BUDGET || (d->protocol <= BS_ROUTE_TOPK && fz_chance(25)))
        return bs_convert(z->g, bs_activation(z->g, s->v, BS_RELU, 0), &(bs_convert_desc){.dtype = BS_I32, .scale = 3});
    return fz_chance(50) ? fz_stepped(z, s->v) : s->v;
}

static inline void fz_protocol_tables(fz *z, bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_TABLE) {
        d->capacity = d->paths;
        fz_int_tensor(z, d->name, "table", d->paths, d->paths);
    }
    if (d->protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = fz_between(2, 6);
        d->capacity = variants == d->paths ? 0 : variants;
        d->fallback = check_below((variants < d->paths ? variants : d->paths) + 1);
        d->floor = fz_chance(50) ? 0 : fz_between(1, 20);
        fz_int_tensor(z, d->name, "cost", variants, 40);
        fz_int_tensor(z, d->name, "path", variants, d->paths);
    }
}

static inline void fz_protocol_features(fz *z, const bs_route_desc *d, bool knob)
{
    static const fz_feature of[BS_PROTOCOL_COUNT] = {
        FZ_TOP1_FEATURE,  FZ_TOPK_FEATURE,  FZ_THRESHOLD_FEATURE, FZ_RESIDUAL_FEATURE, FZ_BINARY_FEATURE,
        FZ_LABEL_FEATURE, FZ_TABLE_FEATURE, FZ_CAPACITY_FEATURE,  FZ_BUDGET_FEATURE,   FZ_CALLBACK_FEATURE};
    fz_has(z, FZ_ROUTER_FEATURE);
    fz_has(z, of[d->protocol]);
    if (d->protocol == BS_ROUTE_CAPACITY && d->spill)
        fz_has(z, FZ_SPILL_FEATURE);
    if (d->floor)
        fz_has(z, FZ_FLOOR_FEATURE);
    if (knob)
        fz_has(z, FZ_KNOB_FEATURE);
}

static inline void fz_protocol_fields(bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_RESIDUAL_THRESHOLD)
        d->paths = 2;
    d->threshold = (float)fz_between(-3, 3) * 0.25f;
    if (d->protocol == BS_ROUTE_TOPK || d->protocol == BS_ROUTE_CAPACITY)
        d->k = 1 + check_below(d->paths < 3 ? d->paths : 3), d->normalise = fz_chance(30);
    if (d->protocol == BS_ROUTE_CAPACITY)
        d->capacity = fz_between(1, 6), d->spill = fz_chance(50) ? 0 : check_below(d->paths + 1);
    if (d->protocol == BS_ROUTE_THRESHOLD)
        d->fallback = check_below(d->paths + 1);
}

static inline int32_t fz_most_paths(const bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_THRESHOLD)
        return d->paths;
    return d->protocol == BS_ROUTE_TOPK || d->protocol == BS_ROUTE_CAPACITY ? d->k : 1;
}

static inline bs_value fz_knob(fz *z)
{
    for (int32_t i = 0; i < z->n_inputs; i++)
        if (z->inputs[i].fill == FZ_FILL_KNOB)
            for (int32_t k = 0; k < z->n_values; k++)
                if (z->values[k].idle && z->values[k].scale == -99)
                    return z->values[k].v;
    return (bs_value){0};
}

/* A guess at what the next router will say, from what there is: for weights that are read ahead. */
static inline void fz_look_ahead(fz *z, const fz_router *r)
{
    fz_value *x = fz_pick(z, r->domain, fz_is_vector);
    if (r->desc.protocol > BS_ROUTE_TOPK || !x || !fz_chance(30))
        return;
    const fz_value *guess = fz_linear(z, x, r->desc.paths, BS_ACT_NONE);
    if (!guess || z->failed)
        return;
    bs_look_ahead(z->g, guess->v, r->name);
    fz_has(z, FZ_LOOK_AHEAD_FEATURE);
    fz_say(z, "look ahead for %s by v%d", r->name, guess->v.id);
}

/* A new router that decides by x; its number, or -1. */
static inline int32_t fz_route(fz *z, fz_value *x)
{
    fz_router *r = &z->routers[z->n_routers];
    if (z->n_routers >= FZ_ROUTERS || z->n_domains + FZ_PATHS >= FZ_DOMAINS || z->n_blocks + FZ_PATHS + 8 >= FZ_BLOCKS)
        return -1;
    memset(r, 0, sizeof *r);
    r->name = fz_name(z, "route");
    r->desc = (bs_route_desc){.name = r->name, .protocol = check_below(BS_PROTOCOL_COUNT)};
    r->desc.paths = fz_chance(75) ? fz_between(2, 4) : fz_between(1, 8);
    fz_protocol_fields(&r->desc);
    fz_protocol_tables(z, &r->desc);
    r->domain = x->domain;
    r->most = fz_most_paths(&r->desc);
    const bs_value score = fz_score(z, x, &r->desc), knob = fz_chance(40) ? fz_knob(z) : (bs_value){0};
    if (score.id == 0)
        return -1;
    fz_look_ahead(z, r);
    r->r = bs_route(z->g, score, knob, &r->desc);
    z->failed = z->failed || r->r.id == 0;
    fz_protocol_features(z, &r->desc, knob.id != 0);
    if (z->domains[x->domain].loops)
        fz_has(z, FZ_ROUTER_IN_LOOP_FEATURE);
    if (z->domains[x->domain].kind == FZ_PATH)
        fz_has(z, FZ_ROUTER_IN_ROUTER_FEATURE);
    fz_say(z, "%s = route by v%d, protocol %d, %d paths, k %d, capacity %d, fallback %d, threshold %g, knob v%d",
           r->name, score.id, r->desc.protocol, r->desc.paths, r->desc.k, r->desc.capacity, r->desc.fallback,
           (double)r->desc.threshold, knob.id);
    return z->n_routers++;
}

/* ---------------------------------------------------------------------------------------------------------- paths */

/* A value of the domain that has the shape of `shape`: one that is there, or one that is made of what is there. */
static inline fz_value *fz_shaped(fz *z, int32_t domain, const fz_value *shape)
{
    fz_value want = *shape;
    want.domain = domain;
    for (int32_t i = z->n_values - 1; i >= 0; i--)
        if (z->values[i].domain == domain && !z->values[i].idle && fz_same_shape(&z->values[i], &want) &&
            (!z->values[i].read || i % 3 == 0) && fz_chance(80))
            return &z->values[i];
    fz_value *from = fz_pick(z, domain, shape->rank == 3 ? fz_is_image : fz_is_vector), *made = NULL;
    if (shape->rank == 1 && from)
        made = fz_linear(z, from, shape->d[0].most, fz_some_act());
    for (int32_t i = z->n_values - 1; i >= 0 && shape->rank == 3 && !made; i--) {
        fz_value *x = &z->values[i];
        if (x->domain == domain && !x->idle && fz_is_image(z, x) && fz_same_dim(x->d[1], shape->d[1]) &&
            fz_same_dim(x->d[2], shape->d[2]) && x->num == shape->num && x->den == shape->den)
            made = fz_conv(z, x, fz_chance(50) ? FZ_POINTWISE : FZ_SQUARE, shape->d[0].most);
    }
    if (made && !z->failed && made->domain == domain && fz_same_shape(made, &want))
        return made;
    for (int32_t i = z->n_values - 1; i >= 0; i--)
        if (z->values[i].domain == domain && !z->values[i].idle && fz_same_shape(&z->values[i], &want))
            return &z->values[i];
    return NULL;
}

static inline void fz_gather(fz *z, int32_t router, const fz_value *shape, fz_value *residual)
{
    static const fz_feature of[4] = {FZ_PLACE_FEATURE, FZ_ADD_FEATURE, FZ_WEIGHTED_FEATURE, FZ_SELECT_FEATURE};
    fz_router *r = &z->routers[router];
    bs_value values[FZ_PATHS] = {{0}};
    int32_t there = 0, scale = shape->scale;
    for (int32_t p = 0; p < r->desc.paths && !z->failed; p++) {
        fz_value *v = r->paths[p] && fz_chance(90) ? fz_shaped(z, r->paths[p], shape) : NULL;
        if (!v)
            continue;
        values[p] = v->v;
        v->read = true;
        there++;
        scale = v->scale > scale ? v->scale : scale;
    }
    int32_t mode = fz_chance(30) ? BS_GATHER_PLACE : check_below(4);
    if (mode == BS_GATHER_PLACE && r->most > 1)
        mode = fz_between(BS_GATHER_ADD, BS_GATHER_SELECT);
    const bs_value beside = fz_chance(50) || there == 0 ? residual->v : (bs_value){0};
    if (z->failed)
        return;
    fz_value like = *shape;
    like.domain = r->domain;
    fz_has(z, of[mode]);
    const fz_value *made = fz_made(z, bs_gather(z->g, r->r, values, beside, &(bs_gather_desc){.mode = mode}), &like,
                                   scale + (mode == BS_GATHER_WEIGHTED ? 4 : 1));
    fz_say(z, "%s = gather %s of %d paths, mode %d, residual v%d", fz_text(made), r->name, there, mode, beside.id);
}

static inline void fz_route_facts(fz *z, int32_t router)
{
    const fz_router *r = &z->routers[router];
    fz_value like = {.domain = r->domain, .dtype = BS_F32, .rank = 1, .num = 1, .den = 1, .scale = 8, .d = {{1, 0}}};
    if (fz_chance(30) && r->desc.protocol != BS_ROUTE_CALLBACK) {
        const bs_value score = bs_route_score(z->g, r->r);
        const fz_value *made = fz_add(z, bs_convert(z->g, score, &(bs_convert_desc){.dtype = BS_F32}), &like);
        fz_say(z, "%s = score of %s", fz_text(made), r->name);
    }
    like.domain = 0;
    if (!z->failed && r->desc.protocol == BS_ROUTE_BUDGET && fz_chance(50) && !z->domains[r->domain].loops) {
        const fz_value *made = fz_add(z, bs_route_price(z->g, r->r), &like);
        fz_say(z, "%s = price of %s", fz_text(made), r->name);
    }
}

/* A router with its paths, each a block, and one or two gathers. */
static inline void fz_routed(fz *z, int32_t domain)
{
    fz_value *x = fz_pick(z, domain, fz_is_vector), *image = fz_pick(z, domain, fz_is_image);
    if (!x && image)
        x = fz_global(z, image);
    const int32_t router = x && !z->failed && z->domains[domain].depth < 4 ? fz_route(z, x) : -1;
    if (router < 0 || z->failed)
        return;
    const fz_value line = *x, picture = image ? *image : *x;
    for (int32_t p = 0; p < z->routers[router].desc.paths && !z->failed; p++) {
        if (fz_chance(8) && p > 0)
            continue;
        fz_block_begin(z, "path");
        fz_scatter(z, router, p, x);
        if (image && !z->failed)
            fz_scatter(z, router, p, image);
        fz_grow(z, z->routers[router].paths[p], 1 + check_below(4));
        if (!z->failed && image)
            fz_shaped(z, z->routers[router].paths[p], &picture);
        fz_block_end(z);
    }
    if (!z->failed && fz_chance(70))
        fz_gather(z, router, &line, x);
    if (!z->failed && image)
        fz_gather(z, router, &picture, image);
    if (!z->failed)
        fz_route_facts(z, router);
}

#endif
