/* worlds.h - what a frozen graph begins with: tables, images, rows, frames in patches, segments, states; and what it
 * ends with: outputs.
 *
 * Relies on grow.h. */
#ifndef BS_FROZEN_WORLDS_H
#define BS_FROZEN_WORLDS_H

#include "frozen/grow.h"

static inline fz_domain *fz_rows_domain(fz *z, fz_kind kind, fz_dim n, int32_t *number)
{
    fz_domain *d = &z->domains[ *number = fz_domain_add(z, kind, 0)];
    d->most = n.most;
    d->rows = n.key;
    return d;
}

/* Rows of a root value, in a domain of their own or in one that is there. */
static inline fz_value *fz_to_rows(fz *z, fz_value *x, int32_t domain, bs_value like)
{
    fz_value row = *x;
    row.rank--;
    memmove(row.d, row.d + 1, sizeof row.d - sizeof row.d[0]);
    if (domain == 0)
        fz_rows_domain(z, FZ_ROWS, x->d[0], &domain);
    row.domain = domain;
    x->read = true;
    for (int32_t i = 0; i < z->n_routers; i++)
        if (z->routers[i].loop && z->routers[i].domain == 0)
            fz_has(z, FZ_ROWS_BEHIND_LOOP_FEATURE);
    fz_has(z, row.rank == 3 ? FZ_IMAGE_ROWS_FEATURE : FZ_ROWS_FEATURE);
    fz_value *made = fz_add(z, bs_rows(z->g, x->v, like), &row);
    fz_say(z, "%s = rows of v%d", fz_text(made), x->v.id);
    return made;
}

static inline fz_value *fz_state_of(fz *z, const fz_value *x, const int32_t *symbol, const int32_t *times)
{
    const char *name = fz_name(z, "state");
    bs_shape shape = {x->rank, {0}};
    for (int32_t i = 0; i < x->rank; i++)
        shape.dim[i] = symbol[i] < 0  ? x->d[i].most
                       : times[i] > 1 ? bs_times(z->g, z->symbols[symbol[i]], times[i])
                                      : z->symbols[symbol[i]];
    fz_value *made = fz_add(z, bs_state(z->g, name, (bs_dtype)x->dtype, shape), x);
    made->idle = false;
    if (!z->failed)
        z->states[z->n_states++] = (int32_t)(made - z->values);
    fz_has(z, FZ_STATE_FEATURE);
    fz_say(z, "%s = %s", fz_text(made), name);
    return made;
}

/* A table [N,C] or a series [N,A,C], of the root; often rows, too, which may be vertices of trees. */
static inline void fz_world_table(fz *z)
{
    const bool open = fz_chance(40) && z->n_symbols < FZ_SYMBOLS;
    int32_t symbol[3] = {open ? z->n_symbols : -1, -1, -1}, times[3] = {1, 1, 1};
    const int32_t most = fz_chance(60) ? fz_between(2, 16) : fz_between(17, 40), rank = fz_chance(15) ? 3 : 2;
    const fz_dim n = open ? fz_symbol(z, (most + 2) / 3, most) : fz_const(most);
    const int32_t middle = rank == 2 ? fz_width() : fz_between(1, 6);
    fz_dim d[3] = {n, fz_const(middle), fz_const(fz_width())};
    if (fz_chance(12) && most <= 16)
        d[rank - 1] = fz_const(fz_chance(50) ? 256 : 512);
    fz_value *x = fz_input_add(z, fz_name(z, "table"), BS_F32, rank, d, symbol, FZ_FILL_NUMBERS, 0);
    if (!z->failed && fz_chance(25) && z->n_states < 4)
        fz_state_of(z, x, symbol, times);
    if (z->failed || !fz_chance(65))
        return;
    const fz_value *rows = fz_to_rows(z, x, 0, (bs_value){0});
    if (!z->failed && rank == 2 && fz_chance(18))
        fz_tree(z, rows->domain, n, symbol[0]);
    else if (!z->failed && rank == 2 && most >= 8 && fz_chance(25))
        fz_growth(z, rows->domain, n, symbol[0]);
}

static inline void fz_world_image(fz *z)
{
    const bool open = fz_chance(25) && z->n_symbols + 2 <= FZ_SYMBOLS;
    const int32_t side = fz_chance(60) ? fz_between(8, 20) : fz_between(21, 48),
                  c = side > 24 ? fz_between(1, 8) : fz_width();
    const int32_t first = z->n_symbols;
    const fz_dim h = open ? fz_symbol(z, 8, side + 4) : fz_const(side + check_below(5)),
                 w = open ? fz_symbol(z, 8, side + 3) : fz_const(fz_chance(50) ? side : side + check_below(7));
    const int32_t symbol[3] = {-1, open ? first : -1, open ? first + 1 : -1}, times[3] = {1, 1, 1};
    const fz_dim d[3] = {fz_const(c), h, w};
    fz_value *x = fz_input_add(z, fz_name(z, "image"), BS_F32, 3, d, symbol, FZ_FILL_NUMBERS, 0);
    if (!z->failed && fz_chance(15) && z->n_states < 4)
        fz_state_of(z, x, symbol, times);
}

static inline void fz_world_image_rows(fz *z)
{
    const bool open = fz_chance(40) && z->n_symbols < FZ_SYMBOLS;
    const int32_t symbol[4] = {open ? z->n_symbols : -1, -1, -1, -1}, most = fz_between(2, 8);
    const fz_dim n = open ? fz_symbol(z, 1, most) : fz_const(most);
    const int32_t h = fz_chance(20) ? 1 : fz_between(4, 14);
    const int32_t w = fz_between(4, 14);
    const fz_dim d[4] = {n, fz_const(fz_width()), fz_const(h), fz_const(w)};
    fz_value *x = fz_input_add(z, fz_name(z, "stack"), BS_F32, 4, d, symbol, FZ_FILL_NUMBERS, 0);
    if (!z->failed)
        fz_to_rows(z, x, 0, (bs_value){0});
}

static inline fz_value *fz_to_patches(fz *z, fz_value *frame, int32_t size)
{
    int32_t number;
    const int32_t across = (frame->d[2].most + size - 1) / size, down = (frame->d[1].most + size - 1) / size;
    fz_domain *d = fz_rows_domain(z, FZ_PATCHES, fz_const(across * down), &number);
    d->patches = true, d->size = size, d->height = frame->d[1], d->width = frame->d[2];
    fz_value like = *frame;
    like.domain = number;
    frame->read = true;
    fz_has(z, FZ_PATCHES_FEATURE);
    fz_value *made = fz_add(z, bs_patches(z->g, frame->v, &(bs_patches_desc){.size = size}), &like);
    fz_say(z, "%s = patches of v%d, of %d", fz_text(made), frame->v.id, size);
    return made;
}

static inline void fz_patch_features(fz *z, fz_value *codes, bs_value before)
{
    const bs_value at = bs_patch_features(z->g, codes->v, before, &(bs_patch_features_desc){.buckets = 16});
    const fz_value like = {
        .domain = codes->domain, .dtype = BS_F32, .rank = 1, .num = 1, .den = 1, .scale = 4, .d = {{2, 0}}};
    const fz_value *made = fz_add(z, bs_convert(z->g, at, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.5f}), &like);
    fz_say(z, "%s = features of v%d beside v%d", fz_text(made), codes->v.id, before.id);
}

/* Codes of a frame: as numbers, and enlarged as they are. */
static inline void fz_codes(fz *z, fz_value *cells)
{
    fz_value like = *cells;
    like.dtype = BS_F32, like.scale = 2, like.idle = false;
    const bool wide = cells->dtype == BS_U16;
    const bs_convert_desc real = {
        .dtype = BS_F32, .scale = wide ? 1 / 1024.0f : 1 / 255.0f, .code_bits = wide ? 12 : 0};
    fz_value *made = fz_add(z, bs_convert(z->g, cells->v, &real), &like);
    fz_say(z, "%s = numbers of v%d", fz_text(made), cells->v.id);
    if (z->failed || !fz_chance(40))
        return;
    like = *cells;
    like.num *= 2;
    like.d[1] = fz_derive(cells->d[1], 2, 0, 1);
    like.d[2] = fz_derive(cells->d[2], 2, 0, 1);
    const bs_resize_desc twice = {.kind = BS_RESIZE_BICUBIC, .factor = 2, .code_bits = wide ? 12 : 0};
    made = fz_add(z, bs_resize(z->g, cells->v, &twice), &like);
    made->idle = false;
    fz_say(z, "%s = v%d twice as large", fz_text(made), cells->v.id);
}

static inline void fz_world_frame(fz *z)
{
    static const int32_t sizes[] = {8, 16, 16, 32};
    const int32_t size = sizes[check_below(4)], first = z->n_symbols, kind = check_below(3);
    const bool open = fz_chance(50) && z->n_symbols + 2 <= FZ_SYMBOLS, coded = kind == 2;
    const int32_t top = size == 32 ? 64 : 3 * size + check_below(size);
    const fz_dim h = open ? fz_symbol(z, 9, top) : fz_const(fz_between(top / 2, top)),
                 w = open ? fz_symbol(z, 9, top) : fz_const(fz_between(top / 2, top));
    const int32_t symbol[3] = {-1, open ? first : -1, open ? first + 1 : -1}, times[3] = {1, 1, 1};
    const fz_dim d[3] = {fz_const(coded ? 1 : fz_between(1, 4)), h, w};
    const bs_dtype dtype = !coded ? BS_F32 : fz_chance(70) ? BS_U8 : BS_U16;
    fz_value *frame =
        fz_input_add(z, fz_name(z, "frame"), dtype, 3, d, symbol, coded ? FZ_FILL_CODES : FZ_FILL_NUMBERS, 0);
    if (z->failed)
        return;
    fz_value *cells = fz_to_patches(z, frame, size), *old = NULL;
    if (z->failed)
        return;
    if (z->n_states < 4 && fz_chance(35)) {
        fz_value like = *frame, *state = fz_state_of(z, &like, symbol, times);
        like.domain = cells->domain;
        old = z->failed ? NULL : fz_add(z, bs_patches(z->g, state->v, &(bs_patches_desc){.like = cells->v}), &like);
        fz_has(z, FZ_REUSE_FEATURE);
        fz_say(z, "v%d = patches of v%d", old ? old->v.id : 0, state->v.id);
        if (old)
            old->idle = coded;
    }
    cells->idle = coded;
    if (coded && !z->failed) {
        fz_codes(z, cells);
        if (!z->failed && fz_chance(80))
            fz_patch_features(z, cells, old ? old->v : (bs_value){0});
    }
}

/* As many as there are of another domain, often: these can attend to each other. */
static inline int32_t fz_segments(const fz *z)
{
    const int32_t n = fz_between(2, 5);
    for (int32_t d = 1; d < z->n_domains && fz_chance(90); d++)
        if (z->domains[d].kind == FZ_SEGMENTS)
            return z->domains[d].segment.most;
    return n;
}

static inline void fz_world_segments(fz *z)
{
    const bool open = fz_chance(50) && z->n_symbols < FZ_SYMBOLS;
    const int32_t most = fz_between(6, 32), segments = fz_segments(z), first = z->n_symbols;
    const int32_t symbol[2] = {open ? first : -1, -1};
    const fz_dim n = open ? fz_symbol(z, 3, most) : fz_const(most), s = fz_const(segments);
    const fz_dim d[2] = {n, fz_const(fz_width())}, p[2] = {s, fz_const(fz_width())};
    fz_value *x = fz_input_add(z, fz_name(z, "tokens"), BS_F32, 2, d, symbol, FZ_FILL_NUMBERS, 0);
    const bs_value lengths = fz_input_add(z, fz_name(z, "lengths"), BS_I32, 1, &s, NULL, FZ_FILL_LENGTHS, 0)->v;
    z->inputs[z->n_inputs - 1].rows = open ? first : -most;
    if (fz_chance(60))
        fz_input_add(z, fz_name(z, "each"), BS_F32, 2, p, NULL, FZ_FILL_NUMBERS, 0);
    if (z->failed)
        return;
    fz_value row = *x;
    int32_t number;
    fz_domain *domain = fz_rows_domain(z, FZ_SEGMENTS, n, &number);
    domain->segments = true, domain->segment = s, domain->lengths = lengths;
    row.domain = number, row.rank = 1, row.d[0] = x->d[1];
    x->read = true;
    fz_has(z, FZ_SEGMENTS_FEATURE);
    const fz_value *made = fz_add(z, bs_segments(z->g, x->v, lengths), &row);
    fz_say(z, "%s = segments of v%d by v%d", fz_text(made), x->v.id, lengths.id);
}

/* Rows of a table by an input of indices, which may be out of range. */
static inline void fz_world_lookup(fz *z)
{
    const fz_dim n = fz_const(fz_between(2, 12));
    const int32_t rows = fz_between(5, 30), dim[2] = {rows, fz_width()};
    fz_value *table = fz_constant(z, 2, dim);
    const char *name = fz_name(z, "index");
    const bs_value i = fz_input_add(z, name, BS_I32, 1, &n, NULL, FZ_FILL_BELOW, dim[0])->v;
    if (z->failed)
        return;
    fz_value like = *table;
    like.d[0] = n;
    const bs_value found = fz_chance(50) ? bs_gather_rows(z->g, table->v, i) : bs_select(z->g, table->v, i, 0);
    const fz_value *made = fz_add(z, found, &like);
    fz_say(z, "%s = rows of v%d by v%d", fz_text(made), table->v.id, i.id);
}

/* ---------------------------------------------------------------------------------------------------- to the end */

static inline void fz_to_root(fz *z, fz_value *x)
{
    const fz_domain *d = &z->domains[x->domain];
    if (d->kind == FZ_ROOT || d->kind == FZ_PATH || d->kind == FZ_BODY || x->idle || x->rank > 3 || z->failed)
        return;
    fz_value like = *x;
    const bool image = d->patches && x->rank == 3;
    like.domain = 0;
    like.num = like.den = 1;
    x->read = true;
    if (!image) {
        memmove(like.d + 1, like.d, sizeof like.d - sizeof like.d[0]);
        like.d[0] = (fz_dim){d->most, d->rows};
        like.rank++;
    }
    const fz_value *made = fz_add(z, image ? bs_assemble(z->g, x->v) : bs_collect(z->g, x->v), &like);
    fz_say(z, "%s = %s v%d", fz_text(made), image ? "assemble" : "collect", x->v.id);
}

/* A frame of patches that is another shape than what assembles it is of no other op's reach. */
static inline void fz_gather_up(fz *z)
{
    const int32_t n = z->n_values;
    int32_t left = 8;
    for (int32_t i = n - 1; i >= 0 && left > 0; i--)
        if (!z->values[i].read && z->values[i].domain)
            left--, fz_to_root(z, &z->values[i]);
}

static inline void fz_write_states(fz *z)
{
    for (int32_t i = 0; i < z->n_states && !z->failed; i++) {
        const fz_value *state = &z->values[z->states[i]];
        fz_value *v = fz_twin(z, state);
        if (!v)
            continue;
        v->read = true;
        bs_state_write(z->g, state->v, v->v);
        fz_say(z, "state v%d = v%d", state->v.id, v->v.id);
    }
}

static inline bool fz_fits_output(const fz *z, const fz_value *x)
{
    return (void)z, x->domain == 0 && !x->idle && x->rank >= 1 && x->rank <= 4 && fz_cell(x) <= 1 << 17;
}

static inline void fz_output(fz *z, fz_value *x)
{
    const char *name = z->outputs[z->n_outputs++] = fz_name(z, "out");
    x->read = true;
    bs_output(z->g, name, x->v);
    fz_say(z, "output %s = v%d", name, x->v.id);
}

/* Sums of what nobody else reads: little of the graph is in vain. */
static inline void fz_digest(fz *z)
{
    bs_value sums[8];
    int32_t n = 0;
    for (int32_t i = z->n_values - 1; i >= 0 && n < 8; i--) {
        fz_value *x = &z->values[i];
        if (!fz_fits_output(z, x) || x->read || x->dtype != BS_F32)
            continue;
        x->read = true;
        sums[n++] = bs_reshape(z->g, bs_reduce(z->g, x->v, &(bs_reduce_desc){.axes = x->rank}), BS_SHAPE1(1));
        fz_say(z, "sum of v%d", x->v.id);
    }
    if (n == 0)
        return;
    const fz_value like = {.dtype = BS_F32, .rank = 1, .num = 1, .den = 1, .d = {{n, 0}}};
    fz_output(z, fz_add(z, n > 1 ? bs_concat(z->g, sums, n, 0) : sums[0], &like));
}

static inline void fz_end(fz *z)
{
    fz_gather_up(z);
    fz_write_states(z);
    for (int32_t i = z->n_values - 1; i >= 0 && z->n_outputs < FZ_OUTPUTS - 1 && !z->failed; i--)
        if (fz_fits_output(z, &z->values[i]) && !z->values[i].read && fz_chance(85))
            fz_output(z, &z->values[i]);
    if (!z->failed)
        fz_digest(z);
    fz_value *any = z->failed || z->n_outputs > 0 ? NULL : fz_pick(z, 0, fz_fits_output);
    if (any)
        fz_output(z, any);
}

/* ------------------------------------------------------------------------------------------------- a whole graph */

static inline void fz_world(fz *z)
{
    static void (*const worlds[])(fz *) = {fz_world_table, fz_world_table, fz_world_image,    fz_world_image_rows,
                                           fz_world_frame, fz_world_frame, fz_world_segments, fz_world_segments};
    if (z->n_inputs < FZ_INPUTS - 8)
        worlds[check_below(8)](z);
}

/* A domain that is no path: the root, or one of those that worlds made. */
static inline int32_t fz_some_domain(const fz *z)
{
    for (int32_t tries = 0; tries < 20; tries++) {
        const int32_t d = check_below(z->n_domains);
        if (z->domains[d].kind != FZ_PATH && z->domains[d].kind != FZ_BODY)
            return d;
    }
    return 0;
}

/* A domain of rows that this root value has a row for each of, or 0. */
static inline int32_t fz_rows_like(const fz *z, const fz_value *x)
{
    for (int32_t d = 1; d < z->n_domains; d++)
        if (z->domains[d].kind == FZ_ROWS && z->domains[d].most == x->d[0].most && z->domains[d].rows == x->d[0].key &&
            fz_chance(70))
            return d;
    return 0;
}

static inline bs_value fz_first_of(const fz *z, int32_t domain)
{
    for (int32_t i = 0; i < z->n_values && domain; i++)
        if (z->values[i].domain == domain)
            return z->values[i].v;
    return (bs_value){0};
}

static inline void fz_structure(fz *z)
{
    const int32_t what = check_below(10);
    if (what < 5) {
        fz_value *x = fz_pick(z, fz_some_domain(z), fz_is_any);
        if (x && x->domain)
            fz_to_root(z, x);
    } else if (what < 7) {
        fz_value *x = fz_pick(z, 0, fz_is_f32);
        if (x && x->rank >= 2 && x->rank <= 4 && x->d[0].most >= 2 && x->d[0].most <= 40 && z->n_domains < 60 &&
            fz_cell(x) < 40000) {
            const int32_t like = fz_rows_like(z, x);
            fz_to_rows(z, x, like, fz_first_of(z, like));
        }
    } else if (what < 8) {
        fz_world_lookup(z);
    } else if (fz_chance(30)) {
        fz_listed_tree(z);
    }
}

static inline void fz_build(fz *z)
{
    const int32_t rounds = fz_between(3, 9);
    const fz_dim one = {1, 0};
    if (fz_chance(40)) {
        fz_input_add(z, "knob", BS_F32, 1, &one, NULL, FZ_FILL_KNOB, 0);
        z->values[z->n_values - 1].scale = -99;
    }
    fz_world(z);
    for (int32_t more = fz_chance(35) ? 1 + fz_chance(30) : 0; more > 0 && !z->failed; more--)
        fz_world(z);
    if (z->has[FZ_SEGMENTS_FEATURE] && !z->failed && fz_chance(20)) /* segments beside segments */
        fz_world_segments(z);
    for (int32_t i = 0; i < rounds && !z->failed; i++) {
        const int32_t steps = 2 + check_below(5);
        fz_grow(z, fz_some_domain(z), steps);
        if (!z->failed && fz_chance(45) && z->n_inputs < FZ_INPUTS - 4)
            fz_structure(z);
    }
    if (!z->failed)
        fz_end(z);
}

#endif
