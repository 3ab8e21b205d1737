/* trees.h - rows that read each other in loops: trees whose levels make trips in turn, and structures that grow.
 *
 * Relies on loops.h. */
#ifndef BS_FROZEN_TREES_H
#define BS_FROZEN_TREES_H

#include "frozen/loops.h"

static inline fz_value *fz_input_add(fz *z, const char *name, bs_dtype dtype, int32_t rank, const fz_dim *d,
                                     const int32_t *symbol, fz_fill fill, int32_t below)
{
    fz_input *in = &z->inputs[z->n_inputs++];
    bs_shape shape = {rank, {0}};
    fz_value x = {.dtype = dtype, .rank = rank, .num = 1, .den = 1, .scale = dtype == BS_F32 ? 3 : 8};
    if (z->n_inputs > FZ_INPUTS)
        fz_stop(__func__);
    *in = (fz_input){.name = name, .dtype = dtype, .rank = rank, .fill = fill, .below = below};
    for (int32_t i = 0; i < rank; i++) {
        in->symbol[i] = symbol ? symbol[i] : -1;
        in->dim[i] = in->symbol[i] < 0 ? d[i].most : d[i].most / z->symbol_most[in->symbol[i]];
        shape.dim[i] = in->symbol[i] < 0 ? d[i].most
                       : in->dim[i] > 1  ? bs_times(z->g, z->symbols[in->symbol[i]], in->dim[i])
                                         : z->symbols[in->symbol[i]];
        x.d[i] = d[i];
    }
    fz_value *made = fz_add(z, bs_input(z->g, name, dtype, shape), &x);
    made->idle = fill != FZ_FILL_NUMBERS;
    fz_say(z, "%s = input %s", fz_text(made), name);
    return made;
}

static inline fz_dim fz_symbol(fz *z, int32_t least, int32_t most)
{
    static const char *const names[FZ_SYMBOLS] = {"A", "B", "C", "D", "E", "F", "G", "H"};
    if (z->n_symbols >= FZ_SYMBOLS)
        fz_stop(__func__);
    z->symbol_least[z->n_symbols] = least;
    z->symbol_most[z->n_symbols] = most;
    z->symbols[z->n_symbols] = bs_symbol(z->g, names[z->n_symbols], most);
    fz_has(z, FZ_SYMBOLS_FEATURE);
    z->n_symbols++;
    return (fz_dim){most, fz_mix(1234, (uint32_t)z->n_symbols)};
}

/* What the rows that `of` names carry, added up or as it is. */
static inline void fz_read_others(fz *z, const fz_loop *l, bs_value of)
{
    const fz_value *carried = &z->values[l->carried[0]];
    fz_value like = *carried;
    const bs_value rows = bs_loop_rows(z->g, z->routers[l->router].r, carried->v, of);
    const bs_value sum =
        bs_reduce(z->g, rows, &(bs_reduce_desc){.kind = fz_chance(70) ? BS_REDUCE_SUM : BS_REDUCE_MAX});
    like.scale++;
    const fz_value *made = fz_made(z, sum, &like, like.scale);
    fz_say(z, "%s = what rows v%d of v%d carry", fz_text(made), of.id, carried->v.id);
}

/* Begins a loop of rows that read each other; x is carried, and what others carry comes in. */
static inline bool fz_others_begin(fz *z, fz_loop *l, const char *stem, fz_value *x, bs_value count, bs_loop_desc d)
{
    fz_router *r = &z->routers[z->n_routers];
    memset(r, 0, sizeof *r);
    d.name = r->name = fz_name(z, stem);
    r->domain = l->domain, r->desc.paths = 1, r->loop = true;
    r->r = bs_loop_begin(z->g, x->v, count, &d);
    l->router = z->n_routers++;
    l->trips = fz_const(d.bound);
    z->failed = z->failed || r->r.id == 0;
    fz_say(z, "%s = loop of the rows of v%d, count v%d, bound %d", r->name, x->v.id, count.id, d.bound);
    if (!z->failed)
        fz_carry(z, l, x);
    if (!z->failed)
        fz_scatter(z, l->router, 0, x);
    return !z->failed;
}

static inline void fz_others_end(fz *z, fz_loop *l, bs_value go_on)
{
    const fz_router *r = &z->routers[l->router];
    if (z->failed)
        return;
    bs_loop_end(z->g, r->r, go_on);
    fz_say(z, "end of %s, again v%d", r->name, go_on.id);
    for (int32_t i = 0; i < z->n_values; i++)
        for (int32_t k = z->values[i].domain; k; k = z->domains[k].parent)
            z->values[i].idle = z->values[i].idle || k == r->paths[0];
}

/* The body: as much as a third of what is left pays for. Returns the first value that comes out. */
static inline int32_t fz_others_body(fz *z, fz_loop *l)
{
    const int64_t most = z->budget, cost = z->cost;
    z->budget = z->cost + (z->budget - z->cost) / 3;
    if (!z->failed)
        fz_grow(z, z->routers[l->router].paths[0], 1 + check_below(4));
    const int32_t from = z->n_values;
    if (!z->failed)
        fz_loop_results(z, l);
    z->cost += (z->cost - cost) * 2;
    z->budget = most;
    return from;
}

/* Levels of trees, all vertices of one level at a time. */
static inline void fz_tree(fz *z, int32_t domain, fz_dim n, int32_t symbol)
{
    fz_value *x = fz_pick(z, domain, fz_is_vector);
    if (!x || z->n_routers >= FZ_ROUTERS)
        return;
    const fz_dim d[2] = {n, {2, 0}};
    const int32_t symbols[2] = {symbol, -1};
    const bs_value children = fz_input_add(z, fz_name(z, "children"), BS_I32, 2, d, symbols, FZ_FILL_CHILDREN, 0)->v;
    const bs_value level = bs_rows(z->g, bs_levels(z->g, children), x->v), of = bs_rows(z->g, children, x->v);
    fz_loop l = {.over = -1, .in_turn = true, .domain = domain};
    fz_has(z, FZ_TREE_FEATURE);
    if (z->failed || !fz_others_begin(z, &l, "tree", x, level, (bs_loop_desc){.bound = n.most + 1, .in_turn = 1}))
        return;
    fz_read_others(z, &l, bs_scatter(z->g, z->routers[l.router].r, 0, of));
    const int32_t from = fz_others_body(z, &l);
    fz_others_end(z, &l, (bs_value){0});
    fz_release(z, &l, from);
}

/* Lists of children as lengths and indices, which are spread to a table first. */
static inline void fz_listed_tree(fz *z)
{
    const fz_dim v = {12, 0}, e = {30, 0};
    const bs_value lengths = fz_input_add(z, fz_name(z, "fans"), BS_I32, 1, &v, NULL, FZ_FILL_BELOW, 3)->v,
                   indices = fz_input_add(z, fz_name(z, "edges"), BS_I32, 1, &e, NULL, FZ_FILL_BELOW, 12)->v;
    const fz_value like = {.dtype = BS_F32, .rank = 2, .num = 1, .den = 1, .scale = 4, .d = {{12, 0}, {2, 0}}};
    const bs_value children = bs_children(z->g, lengths, indices, 2);
    const fz_value *made = fz_add(z, bs_convert(z->g, children, &(bs_convert_desc){.dtype = BS_F32}), &like);
    fz_say(z, "%s = children by lengths v%d and indices v%d", fz_text(made), lengths.id, indices.id);
}

/* How many rows a row makes: 0 to 2, and none in the last of four trips. */
static inline bs_value fz_makes(fz *z, const fz_loop *l)
{
    const bs_convert_desc real = {.dtype = BS_F32}, whole = {.dtype = BS_I32};
    fz_value *from = fz_pick(z, z->routers[l->router].paths[0], fz_is_vector);
    bs_value at = from && !z->failed ? fz_trips(z, from, 2) : (bs_value){0};
    if (at.id == 0)
        return at;
    const bs_value trip = bs_convert(z->g, bs_loop_trip(z->g, z->routers[l->router].r), &real),
                   left = bs_affine(z->g, trip, -2, 6),
                   makes = bs_binary(z->g, bs_convert(z->g, at, &real), left, BS_BINARY_MIN);
    return bs_convert(z->g, makes, &whole);
}

static inline void fz_growth(fz *z, int32_t domain, fz_dim n, int32_t symbol)
{
    fz_value *x = fz_pick(z, domain, fz_is_vector);
    if (!x || z->n_routers >= FZ_ROUTERS)
        return;
    const fz_dim d[2] = {n, {1, 0}};
    const int32_t symbols[2] = {symbol, -1};
    const bs_value roots =
        bs_rows(z->g, fz_input_add(z, fz_name(z, "roots"), BS_I32, 2, d, symbols, FZ_FILL_ROOTS, 0)->v, x->v);
    fz_loop l = {.over = -1, .grows = true, .domain = domain};
    fz_has(z, FZ_GROWS_FEATURE);
    if (z->failed || !fz_others_begin(z, &l, "grow", x, roots, (bs_loop_desc){.bound = 4, .grows = 1}))
        return;
    const bs_router r = z->routers[l.router].r;
    fz_read_others(z, &l, bs_loop_parent(z->g, r));
    const fz_value number = {.dtype = BS_F32, .rank = 1, .num = 1, .den = 1, .scale = 3, .d = {{1, 0}}};
    fz_in_body(z, &l, bs_convert(z->g, bs_loop_child(z->g, r), &(bs_convert_desc){.dtype = BS_F32}), &number);
    const int32_t from = fz_others_body(z, &l);
    const bs_value makes = fz_makes(z, &l);
    fz_others_end(z, &l, makes);
    fz_release(z, &l, from);
}

#endif
