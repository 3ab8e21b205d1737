/* loops.h - loops of frozen graphs with their bodies; trees, and structures that grow.
 *
 * Relies on routers.h, whose scatters loops share. */
#ifndef BS_FROZEN_LOOPS_H
#define BS_FROZEN_LOOPS_H

#include "frozen/routers.h"

typedef struct fz_loop {
    int32_t router, domain, over; /* over: a value, or -1 */
    fz_dim trips;
    int32_t carried[3], shape[3], n_carried; /* values: in the body, and before it */
    bool counted, in_turn, grows;
} fz_loop;

static inline bool fz_is_count(const fz *z, const fz_value *x)
{
    return (void)z, x->dtype == BS_I32 && x->rank == 1 && x->d[0].most == 1 && x->d[0].key == 0;
}

/* Trips of each row, of its numbers: 0 .. most. */
static inline bs_value fz_trips(fz *z, fz_value *x, int32_t most)
{
    const fz_value *s = fz_linear(z, x, most + 1, BS_ACT_NONE);
    bs_value at = {0};
    if (!s || z->failed)
        return at;
    bs_topk(z->g, fz_stepped(z, s->v), 1, &at);
    return at;
}

static inline bool fz_is_series(const fz *z, const fz_value *x)
{
    return x->dtype == BS_F32 && x->rank >= 2 && x->d[0].most >= 2 && x->d[0].most <= 16 &&
           !z->domains[x->domain].patches;
}

static inline void fz_loop_features(fz *z, const fz_loop *l, const bs_loop_desc *d)
{
    const fz_domain *of = &z->domains[l->domain];
    fz_has(z, l->domain == 0        ? FZ_ROOT_LOOP_FEATURE
              : of->kind == FZ_PATH ? FZ_PATH_LOOP_FEATURE
              : of->patches         ? FZ_PATCH_LOOP_FEATURE
              : of->segments        ? FZ_SEGMENT_LOOP_FEATURE
                                    : FZ_ROWS_LOOP_FEATURE);
    if (of->loops)
        fz_has(z, FZ_LOOP_IN_LOOP_FEATURE);
    if (d->no_lift)
        fz_has(z, FZ_NO_LIFT_FEATURE);
    fz_has(z, l->over >= 0 ? FZ_OVER_FEATURE : l->counted ? FZ_COUNTED_FEATURE : FZ_PREDICATE_FEATURE);
    for (int32_t i = 0; i < z->n_values && l->domain == 0; i++) {
        const fz_domain *before = &z->domains[z->values[i].domain];
        if (z->values[i].domain && before->kind != FZ_BODY && z->values[i].rank == 3)
            fz_has(z, FZ_IMAGE_BEFORE_LOOP_FEATURE);
        if (before->kind == FZ_ROWS || before->kind == FZ_SEGMENTS)
            fz_has(z, FZ_ROWS_BEFORE_LOOP_FEATURE);
    }
}

static inline bool fz_loop_begin(fz *z, fz_loop *l, fz_value *like)
{
    fz_router *r = &z->routers[z->n_routers];
    if (z->n_routers >= FZ_ROUTERS || z->n_domains + 8 >= FZ_DOMAINS || z->domains[like->domain].depth >= 4)
        return false;
    fz_value *series = l->in_turn || l->grows || fz_chance(35) ? NULL : fz_pick(z, like->domain, fz_is_series);
    bs_value count = {0};
    int32_t bound = fz_between(1, 4);
    l->domain = like->domain;
    l->over = series ? (int32_t)(series - z->values) : -1;
    if (!series && !l->in_turn && !l->grows && fz_is_line(z, like) && like->rank == 1 && fz_chance(70))
        count = fz_trips(z, like, fz_chance(92) ? bound : bound + 1); /* rarely more than the bound */
    if (z->failed)
        return false;
    l->counted = count.id != 0;
    l->trips = series ? series->d[0] : fz_const(bound);
    const bs_loop_desc d = {.name = fz_name(z, "loop"),
                            .bound = series ? 0 : bound,
                            .over = series ? series->v : BS_NONE,
                            .no_lift = fz_chance(35)};
    memset(r, 0, sizeof *r);
    r->name = d.name;
    r->domain = like->domain;
    r->desc.paths = 1;
    r->loop = true;
    r->r = bs_loop_begin(z->g, like->v, count, &d);
    l->router = z->n_routers++;
    z->failed = z->failed || r->r.id == 0;
    fz_loop_features(z, l, &d);
    fz_say(z, "%s = loop of the rows of v%d, bound %d, over v%d, count v%d%s", d.name, like->v.id, d.bound, d.over.id,
           count.id, d.no_lift ? ", no lift" : "");
    return !z->failed;
}

/* The domain of the body, by what comes in first. */
static inline fz_value *fz_in_body(fz *z, const fz_loop *l, bs_value v, const fz_value *like)
{
    fz_router *r = &z->routers[l->router];
    fz_value inside = *like;
    if (r->paths[0] == 0) {
        const int32_t d = r->paths[0] = fz_domain_add(z, FZ_BODY, l->domain);
        z->domains[d].router = l->router;
        z->domains[d].depth++;
        z->domains[d].loops = true;
    }
    inside.domain = r->paths[0];
    return fz_add(z, v, &inside);
}

static inline void fz_carry(fz *z, fz_loop *l, fz_value *x)
{
    if (!x || z->failed || l->n_carried >= 3 || (x->rank == 3 && z->domains[x->domain].patches))
        return;
    x->read = true;
    const int32_t at = l->n_carried++;
    l->shape[at] = (int32_t)(x - z->values);
    fz_value *made = fz_in_body(z, l, bs_loop_carry(z->g, z->routers[l->router].r, x->v), x);
    l->carried[at] = (int32_t)(made - z->values);
    fz_say(z, "%s = carried from v%d", fz_text(made), x->v.id);
}

static inline void fz_loop_inputs(fz *z, fz_loop *l)
{
    const bs_router r = z->routers[l->router].r;
    if (l->over >= 0 && !z->failed) {
        fz_value like = z->values[l->over];
        like.rank--;
        memmove(like.d, like.d + 1, sizeof like.d - sizeof like.d[0]);
        const fz_value *made = fz_in_body(z, l, bs_loop_slice(z->g, r, z->values[l->over].v), &like);
        z->values[l->over].read = true;
        fz_say(z, "%s = slice of v%d", fz_text(made), z->values[l->over].v.id);
    }
    fz_value *other = z->failed ? NULL : fz_pick(z, l->domain, fz_is_f32);
    if (other && other->rank && fz_chance(60))
        fz_scatter(z, l->router, 0, other);
    if (!z->failed && z->routers[l->router].paths[0] && fz_chance(40)) {
        const fz_value like = {.dtype = BS_F32, .rank = 1, .num = 1, .den = 1, .scale = 3, .d = {{1, 0}}};
        const bs_value trip = bs_loop_trip(z->g, r);
        const fz_value *made =
            fz_in_body(z, l, bs_convert(z->g, trip, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.7f}), &like);
        fz_say(z, "%s = number of the trip", fz_text(made));
    }
}

static inline void fz_loop_results(fz *z, fz_loop *l)
{
    const fz_router *r = &z->routers[l->router];
    const int32_t inside = r->paths[0];
    for (int32_t i = 0; i < l->n_carried && !z->failed; i++) {
        const fz_value shape = z->values[l->shape[i]];
        const fz_value *next = fz_shaped(z, inside, &shape);
        if (z->failed)
            return;
        if (!next)
            next = &z->values[l->carried[i]];
        bs_value v = next->v;
        if (next->scale > shape.scale && shape.dtype == BS_F32) /* trips add up: what is carried stays small */
            v = fz_chance(70) ? bs_clip(z->g, v, -7, 7) : bs_activation(z->g, v, BS_TANH, 0);
        fz_value like = shape;
        like.scale = shape.scale > 3 ? shape.scale : 3;
        const fz_value *made = fz_add(z, bs_loop_next(z->g, r->r, z->values[l->carried[i]].v, v), &like);
        fz_say(z, "%s = v%d after the trip, now v%d", fz_text(made), z->values[l->carried[i]].v.id, v.id);
        z->values[z->n_values - 1].idle = true; /* until the end of the loop */
    }
    const fz_value *last = z->failed ? NULL : fz_pick(z, inside, fz_is_f32);
    if (last && fz_chance(50)) {
        fz_value like = *last;
        like.domain = l->domain;
        const fz_value *made = fz_add(z, bs_loop_next(z->g, r->r, (bs_value){0}, last->v), &like);
        fz_say(z, "%s = v%d of the last trip", fz_text(made), last->v.id);
        z->values[z->n_values - 1].idle = true;
    }
    fz_value *all = z->failed ? NULL : fz_pick(z, inside, fz_is_f32);
    if (all && all->rank < (z->domains[l->domain].patches ? 2 : 3) && fz_chance(70)) {
        fz_value like = *all;
        like.domain = l->domain;
        memmove(like.d + 1, like.d, sizeof like.d - sizeof like.d[0]);
        like.d[0] = l->trips;
        like.rank++;
        const fz_value *made = fz_add(z, bs_loop_collect(z->g, r->r, all->v), &like);
        fz_say(z, "%s = v%d of all trips", fz_text(made), all->v.id);
        z->values[z->n_values - 1].idle = true;
    }
}

static inline void fz_loop_end(fz *z, fz_loop *l)
{
    const fz_router *r = &z->routers[l->router];
    const fz_value number = {
        .domain = l->domain, .dtype = BS_F32, .rank = 1, .num = 1, .den = 1, .scale = 3, .d = {{1, 0}}};
    bs_value go_on = {0}, trips = {0};
    fz_value *from = fz_pick(z, r->paths[0], fz_is_vector);
    if (from && (l->counted || l->over >= 0 || fz_chance(8)) && fz_chance(60)) {
        const fz_value *s = fz_linear(z, from, 1, BS_ACT_NONE);
        go_on = s && !z->failed ? s->v : go_on;
    }
    if (!z->failed && fz_chance(30))
        trips = bs_loop_trips(z->g, r->r);
    if (z->failed)
        return;
    bs_loop_end(z->g, r->r, go_on);
    fz_say(z, "end of %s, again v%d", r->name, go_on.id);
    for (int32_t i = 0; i < z->n_values; i++) /* what is inside can no longer be used */
        for (int32_t d = z->values[i].domain; d; d = z->domains[d].parent)
            if (d == r->paths[0])
                z->values[i].idle = true;
    if (trips.id) {
        const fz_value *made = fz_add(z, bs_convert(z->g, trips, &(bs_convert_desc){.dtype = BS_F32}), &number);
        fz_say(z, "%s = trips of %s", fz_text(made), r->name);
    }
}

/* Results of a loop may be used once it has ended. */
static inline void fz_release(fz *z, const fz_loop *l, int32_t from)
{
    for (int32_t i = from; i < z->n_values; i++)
        if (z->values[i].domain == l->domain && z->values[i].idle && z->values[i].dtype == BS_F32 &&
            z->values[i].scale <= 24)
            z->values[i].idle = false;
}

static inline void fz_looped(fz *z, int32_t domain)
{
    fz_loop l = {.over = -1};
    fz_value *like = fz_pick(z, domain, fz_is_vector);
    if (!like || (z->domains[domain].patches && fz_chance(30)))
        like = fz_pick(z, domain, z->domains[domain].patches ? fz_is_vector : fz_is_f32);
    if (!like || like->rank == 0 || z->n_around > 18)
        return;
    const int64_t left = z->budget - z->cost, most = z->budget;
    const bool own = fz_chance(70);
    if (own)
        fz_block_begin(z, "body");
    if (fz_loop_begin(z, &l, like)) {
        z->budget = z->cost + left / (2 + l.trips.most); /* its body counts once for each trip */
        fz_carry(z, &l, like);
        fz_carry(z, &l, fz_chance(50) ? fz_pick(z, domain, fz_is_vector) : NULL);
        fz_carry(z, &l, fz_chance(40) ? fz_pick(z, domain, fz_is_image) : NULL);
        fz_loop_inputs(z, &l);
        const int64_t before = z->cost;
        if (!z->failed)
            fz_grow(z, z->routers[l.router].paths[0], 1 + check_below(5));
        const int32_t from = z->n_values;
        if (!z->failed)
            fz_loop_results(z, &l);
        if (!z->failed)
            fz_loop_end(z, &l);
        fz_release(z, &l, from);
        z->cost += (z->cost - before) * l.trips.most;
        z->budget = most;
    }
    if (own)
        fz_block_end(z);
}

#endif
