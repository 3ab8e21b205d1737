/* random_networks.h - networks that grow at random out of real layers (random_layers.h): rows, cells of frames and
 * whole images, routers with their paths, loops of the root and of rows, in any order.
 * Owns: their structure. Must never: make what the builder refuses, nor a run that fails. */
#ifndef BS_TEST_RANDOM_NETWORKS_H
#define BS_TEST_RANDOM_NETWORKS_H

#include "random_layers.h"

static inline void rl_loop(random_layers *rl, int32_t domain, int32_t depth);

/* ------------------------------------------------------------------------------------------------------ routers */

static inline int32_t rl_path_domain(const random_layers *rl, int32_t router, int32_t path)
{
    for (int32_t d = 1; d < rl->g->n_domains; d++)
        if (rl->g->domains[d].kind == BS_DOMAIN_PATH && rl->g->domains[d].router == router &&
            rl->g->domains[d].path == path)
            return d;
    return -1;
}

static inline bs_router rl_decision(random_layers *rl, bs_value line)
{
    static const bs_protocol protocols[8] = {BS_ROUTE_TOP1,     BS_ROUTE_TOPK,     BS_ROUTE_TOPK,
                                             BS_ROUTE_CAPACITY, BS_ROUTE_CAPACITY, BS_ROUTE_CAPACITY,
                                             BS_ROUTE_BINARY,   BS_ROUTE_THRESHOLD};
    bs_route_desc d = {.name = rl_name(rl, "r", rl->n_names, ""), .paths = 2 + check_below(RL_PATHS - 1),
                       .protocol = protocols[check_below(8)]};
    if (d.protocol == BS_ROUTE_BINARY)
        d.paths = 2;
    if (d.protocol == BS_ROUTE_TOPK || d.protocol == BS_ROUTE_CAPACITY)
        d.k = 1 + check_below(2), d.normalise = rl_flip(50);
    if (d.protocol == BS_ROUTE_CAPACITY)
        d.capacity = 1 + check_below(3), d.spill = rl_flip(50) ? 0 : 1 + check_below(d.paths);
    if (d.protocol == BS_ROUTE_THRESHOLD)
        d.fallback = check_below(d.paths + 1);
    /* shares of sums that are near 0 would be of any size */
    const bs_value score =
        rl_linear(rl, line, d.protocol == BS_ROUTE_BINARY ? 1 : d.paths, d.normalise ? BS_SIGMOID : BS_ACT_NONE);
    return bs_route(rl->g, score, (bs_value){0}, &d);
}

/* What a path makes of x: the same shape, or half as high and wide. */
static inline bs_value rl_path(random_layers *rl, bs_router router, int32_t path, bs_value x, bool halves,
                               int32_t depth)
{
    const bs_value in = bs_scatter(rl->g, router, path, x);
    const int32_t inside = rl_info(rl, in)->domain;
    if (halves) {
        const int32_t c = (int32_t)rl_extent(rl, rl_info(rl, in), 0);
        bs_value half = rl_halved(rl, in, c);
        if (half.id == 0)
            half = bs_pool2d(rl->g, in, &(bs_pool2d_desc){.kind = BS_POOL_MAX});
        return rl_flip(50) ? rl_alone(rl, half) : half;
    }
    rl_ops(rl, inside, check_below(3));
    if (depth > 0 && rl_flip(20))
        rl_loop(rl, inside, 0);
    return rl_shaped(rl, in, inside);
}

static inline int32_t rl_gather_mode(const random_layers *rl, int32_t r)
{
    const int32_t mode = check_below(4);
    return mode == BS_GATHER_PLACE && rl->g->routers[r].max_paths_per_cell > 1 ? BS_GATHER_SELECT : mode;
}

/* Rows of a domain go along the paths of a router, which may have routers of their own. */
static inline bs_value rl_routed(random_layers *rl, int32_t domain, int32_t depth)
{
    const bs_value x = rl_pick(rl, domain, rl_is_layer), line = rl_line_of(rl, domain);
    if (domain == 0 || x.id == 0 || line.id == 0 || rl->g->n_routers > 8 || rl->g->n_nodes > 200)
        return (bs_value){0};
    const bool halves = rl_info(rl, x)->rank == 3 && rl_halves(rl, x) && rl_flip(45);
    const bs_router router = rl_decision(rl, line);
    const int32_t paths = rl->g->status == BS_OK ? rl->g->routers[router.id].desc->paths : 0;
    bs_value values[TEST_PATHS] = {{0}};
    for (int32_t p = 0; p < paths && rl->g->status == BS_OK; p++) {
        bs_block_begin(rl->g, rl_name(rl, "p", rl->n_names, ""));
        if (p == 0 || rl_flip(85))
            values[p] = rl_path(rl, router, p, x, halves, depth);
        const int32_t inside = values[p].id ? rl_info(rl, values[p])->domain : 0;
        if (depth > 0 && inside && rl_flip(40)) {
            rl_routed(rl, inside, depth - 1);
            values[p] = rl_shaped(rl, values[p], inside);
        }
        bs_block_end(rl->g);
    }
    for (int32_t p = 1; p < paths; p++)
        if (values[p].id && !bs_same_shape(rl_info(rl, values[p]), rl_info(rl, values[0])))
            values[p] = (bs_value){0};
    if (rl->g->status != BS_OK || values[0].id == 0)
        return (bs_value){0};
    const bs_value residual = rl_flip(50) ? rl_twin(rl, values[0], domain) : (bs_value){0};
    return bs_gather(rl->g, router, values, residual, &(bs_gather_desc){.mode = rl_gather_mode(rl, router.id)});
}

/* -------------------------------------------------------------------------------------------------------- loops */

typedef struct rl_body {
    bs_router loop;
    int32_t domain, inside, n_carried;
    bs_value series, carried[3], next[3];
} rl_body;

/* A number of trips, of 0 .. most. */
static inline bs_value rl_count(random_layers *rl, bs_value line, int32_t most)
{
    bs_value count = {0};
    bs_topk(rl->g, rl_linear(rl, line, most + 1, BS_ACT_NONE), 1, &count);
    return count;
}

/* Cells of frames carry no images: they would need what is around them. */
static inline rl_want rl_carriable(const random_layers *rl, int32_t domain)
{
    return rl->g->domains[domain].patches >= 0 ? rl_is_line : rl_is_layer;
}

static inline void rl_body_begin(random_layers *rl, rl_body *b, int32_t domain, bs_value like)
{
    const bs_value series = rl_flip(60) ? rl_pick(rl, domain, rl_is_series) : (bs_value){0},
                   line = rl_line_of(rl, domain);
    const bool counts = line.id && rl_flip(series.id ? 25 : 50);
    const int32_t most = series.id ? (int32_t)rl_extent(rl, rl_info(rl, series), 0) : 1 + check_below(3);
    const bs_loop_desc desc = {.name = rl_name(rl, "loop", rl->n_names, ""), .bound = series.id ? 0 : most,
                               .over = series, .no_lift = rl_flip(30)};
    /* of a series that may be shorter in a run the count is as well: one trip at most */
    const bool shorter = series.id && !rl_is_const(rl, rl_info(rl, series), 0);
    memset(b, 0, sizeof *b);
    b->domain = domain;
    b->series = series;
    b->loop = bs_loop_begin(rl->g, like, counts ? rl_count(rl, line, shorter ? 1 : most) : (bs_value){0}, &desc);
    if (b->loop.id == 0)
        return;
    rl->trips[b->loop.id] = most;
    for (int32_t i = 0, n = 1 + check_below(3); i < n; i++) {
        const bs_value x = i == 0 ? like : rl_pick(rl, domain, rl_carriable(rl, domain));
        if (x.id)
            b->carried[b->n_carried++] = bs_loop_carry(rl->g, b->loop, x);
    }
    b->inside = rl->g->routers[b->loop.id].path_domains;
}

/* What comes in from outside: a slice, other rows, the number of the trip. */
static inline void rl_body_inputs(random_layers *rl, rl_body *b)
{
    if (b->series.id) {
        const bs_value slice = bs_loop_slice(rl->g, b->loop, b->series);
        if (rl_info(rl, slice)->rank == 2)
            bs_reshape(rl->g, slice, BS_SHAPE1(-1));
    }
    const bs_value other = rl_pick(rl, b->domain, rl_is_layer);
    if (other.id && rl_flip(60))
        bs_scatter(rl->g, b->loop, 0, other);
    if (rl_flip(20))
        bs_convert(rl->g, bs_loop_trip(rl->g, b->loop), &(bs_convert_desc){.dtype = BS_F32});
    b->inside = rl->g->routers[b->loop.id].path_domains;
}

/* A gru on a line that is carried. */
static inline void rl_recurrent(random_layers *rl, rl_body *b, int32_t i)
{
    const int32_t number = rl->n_names;
    const bs_value x = rl_line_of(rl, b->inside), h = b->carried[i];
    if (x.id == 0 || h.id == 0 || !rl_is_line(rl, rl_info(rl, h)) || rl_width(rl, h) > 64)
        return;
    const int64_t units = rl_width(rl, h), inputs = rl_width(rl, x);
    if (!rl_affords(rl, x, 3 * units * (inputs + units), 4)) /* the definition is slower here */
        return;
    const int64_t ih[2] = {3 * units, inputs}, hh[2] = {3 * units, units};
    const bs_recurrent_desc desc = {.name = rl_name(rl, "n", number, "")};
    rl_weight(rl, "n", number, "weight_ih", 2, ih);
    rl_weight(rl, "n", number, "weight_hh", 2, hh);
    rl_weight(rl, "n", number, "bias_ih", 1, ih);
    rl_weight(rl, "n", number, "bias_hh", 1, ih);
    const bool own = rl_own_block(rl, number);
    b->next[i] = bs_gru(rl->g, x, h, &desc);
    if (own)
        bs_block_end(rl->g);
}

/* Another number in one place of a line that is carried, which may be written where it lies. */
static inline void rl_update(random_layers *rl, rl_body *b, int32_t i)
{
    const bs_value h = b->carried[i], line = rl_line_of(rl, b->inside);
    if (h.id == 0 || b->next[i].id || line.id == 0 || !rl_is_line(rl, rl_info(rl, h)))
        return;
    const int32_t most = rl_width(rl, h) < RL_ROWS ? (int32_t)rl_width(rl, h) : RL_ROWS;
    const bs_value at = rl_count(rl, line, most - 1),
                   one = bs_slice(rl->g, line, &(bs_slice_desc){.axis = 0, .length = 1});
    b->next[i] = bs_scatter_elements(rl->g, h, at, bs_clip(rl->g, one, -3, 3), &(bs_update_desc){.axis = 0});
}

static inline void rl_body_end(random_layers *rl, const rl_body *b)
{
    for (int32_t i = 0; i < b->n_carried; i++) {
        bs_value next = b->next[i].id ? b->next[i] : rl_shaped(rl, b->carried[i], b->inside);
        if (next.id == 0 || (i == 1 && rl_flip(15) && rl_twin(rl, b->carried[1], b->inside).id == b->carried[0].id))
            next = next.id ? b->carried[0] : b->carried[i]; /* what is carried may change places */
        if (!bs_same_shape(rl_info(rl, next), rl_info(rl, b->carried[i])))
            next = b->carried[i];
        bs_loop_next(rl->g, b->loop, b->carried[i], b->next[i].id ? next : bs_clip(rl->g, next, -3, 3));
    }
    const bs_value all = rl_pick(rl, b->inside, rl_is_layer), last = rl_pick(rl, b->inside, rl_is_layer);
    if (all.id && !rl_in_patches(rl, rl_info(rl, all)) && rl_flip(70))
        bs_loop_collect(rl->g, b->loop, all);
    if (last.id && rl_flip(40))
        bs_loop_next(rl->g, b->loop, (bs_value){0}, last);
    const bs_value trips = rl_flip(30) ? bs_loop_trips(rl->g, b->loop) : (bs_value){0};
    const bs_value line = rl_pick(rl, b->inside, rl_is_line);
    const bool limited = rl->g->routers[b->loop.id].loop.count || b->series.id;
    bs_loop_end(rl->g, b->loop, line.id && limited && rl_flip(50) ? rl_linear(rl, line, 1, BS_ACT_NONE)
                                                                  : (bs_value){0});
    if (trips.id)
        bs_convert(rl->g, trips, &(bs_convert_desc){.dtype = BS_F32});
}

/* A loop of a domain with its body, in which there may be routers and loops. */
static inline void rl_loop(random_layers *rl, int32_t domain, int32_t depth)
{
    const bs_value like = rl_pick(rl, domain, rl_carriable(rl, domain));
    rl_body b;
    if (like.id == 0 || rl->g->n_routers > 9 || rl->g->n_nodes > 200)
        return;
    const bool block = rl_flip(40);
    if (block)
        bs_block_begin(rl->g, rl_name(rl, "body", rl->n_names, ""));
    rl_body_begin(rl, &b, domain, like);
    if (rl->g->status == BS_OK) {
        rl_body_inputs(rl, &b);
        if (rl_flip(40))
            rl_recurrent(rl, &b, 0);
        if (rl_flip(30))
            rl_update(rl, &b, check_below(2));
        rl_ops(rl, b.inside, 1 + check_below(3));
        if (depth > 0 && rl_flip(40))
            rl_loop(rl, b.inside, depth - 1);
        if (rl_flip(40))
            rl_routed(rl, b.inside, depth > 0);
        rl_ops(rl, b.inside, check_below(2));
        rl_body_end(rl, &b);
    }
    if (block)
        bs_block_end(rl->g);
}

/* --------------------------------------------------------------------------------------------------- structure */

static inline bool rl_is_top(const random_layers *rl, int32_t domain)
{
    return domain > 0 && rl->g->domains[domain].kind != BS_DOMAIN_PATH;
}

/* A domain of rows or cells; 0: there is none. */
static inline int32_t rl_some_rows(const random_layers *rl)
{
    int32_t found = 0, n = 0;
    for (int32_t d = 1; d < rl->g->n_domains; d++)
        if (rl_is_top(rl, d) && check_below(++n) == 0)
            found = d;
    return found;
}

static inline bs_value rl_fresh(random_layers *rl, int32_t domain, rl_want want)
{
    const bs_value v = rl_pick(rl, domain, want);
    return v.id && !rl->read[v.id] ? v : (bs_value){0};
}

/* Rows of a root image [N C, H, W]; or rows of lines, each a channel [H, W] of it. */
static inline void rl_to_channels(random_layers *rl, int32_t domain)
{
    const bs_value image = rl_pick(rl, domain, rl_is_whole), line = rl_pick(rl, domain, rl_is_line);
    if (bs_domain_is_patches(&rl->g->domains[domain]) || !bs_dim_is_const(rl->g, rl->g->domains[domain].rows))
        return;
    if (line.id && (image.id == 0 || rl_flip(60))) {
        const int32_t width = (int32_t)rl_width(rl, line), h = width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1;
        if (width / h <= 8)
            bs_collect(rl->g, bs_reshape(rl->g, line, BS_SHAPE2(h, width / h)));
        return;
    }
    if (image.id == 0)
        return;
    const bs_value_info *v = rl_info(rl, image);
    const int64_t rows = rl->g->domains[domain].max_rows, c = rl_extent(rl, v, 0);
    if (rows * c <= 64)
        bs_reshape(rl->g, bs_collect(rl->g, image),
                   BS_SHAPE3(rows * c, rl_extent(rl, v, 1), rl_extent(rl, v, 2)));
}

static inline void rl_to_root(random_layers *rl, bs_value x)
{
    const bool cells = bs_domain_is_patches(&rl->g->domains[rl_info(rl, x)->domain]);
    if (cells && rl_info(rl, x)->rank == 3)
        bs_assemble(rl->g, x);
    else if (rl_info(rl, x)->rank < 4)
        bs_collect(rl->g, x);
}

static inline bool rl_is_rows(const random_layers *rl, const bs_value_info *v)
{
    return rl_is_series(rl, v) && v->rank != 3 && rl_extent(rl, v, v->rank - 1) * (v->rank == 4 ? 8 : 1) <= RL_LINE;
}

static inline bool rl_is_frame(const random_layers *rl, const bs_value_info *v)
{
    return rl_is_image(rl, v) && !rl_is_const(rl, v, 1) && rl_extent(rl, v, 0) <= 16;
}

/* Rows of what the root has; a frame as cells again. */
static inline void rl_to_rows(random_layers *rl)
{
    const bs_value x = rl_pick(rl, 0, rl_is_rows), frame = rl_pick(rl, 0, rl_is_frame);
    if (rl->g->n_domains > 24)
        return;
    if (x.id && (frame.id == 0 || rl_flip(70)))
        bs_rows(rl->g, x, (bs_value){0});
    else if (frame.id)
        bs_patches(rl->g, frame, &(bs_patches_desc){.size = 4});
}

static inline void rl_begin(random_layers *rl, bs_graph *g, net_table *weights)
{
    static const int32_t channels[4] = {3, 16, 24, 32};
    memset(rl, 0, sizeof *rl);
    rl->g = g;
    rl->weights = weights;
    weights->table.count = 0;
    weights->next = NULL;
    rl->frames = rl_flip(50);
    rl->rows = !rl->frames || rl_flip(75);
    bs_input(g, "whole", BS_F32, BS_SHAPE3(channels[check_below(4)], 1 + check_below(4), 1 + check_below(4)));
    bs_input(g, "line", BS_F32, BS_SHAPE1(16 << check_below(3)));
    if (rl->rows) {
        const bs_dim n = rl_flip(50) ? bs_symbol(g, "N", RL_ROWS) : (bs_dim)(2 + check_below(RL_ROWS - 1));
        const bs_dim c = channels[check_below(4)], h = 1 + check_below(4), w = 1 + check_below(4);
        bs_value lines = {0};
        if (rl_flip(60))
            lines = bs_rows(g, bs_input(g, "lines", BS_F32, BS_SHAPE2(n, 16 << check_below(3))), lines);
        if (lines.id == 0 || rl_flip(70))
            bs_rows(g, bs_input(g, "images", BS_F32, BS_SHAPE4(n, c, h, w)), lines);
    }
    if (rl->frames)
        bs_patches(g,
                   bs_input(g, "frame", BS_F32,
                            BS_SHAPE3(8 << check_below(2), bs_symbol(g, "H", RL_HEIGHT), bs_symbol(g, "W", RL_WIDTH))),
                   &(bs_patches_desc){.size = 4});
}

/* Rows go to the root, are gone over there, and what comes out is made rows of, or stands beside rows. */
static inline void rl_around(random_layers *rl, int32_t rows)
{
    const bs_value x = rl_pick(rl, rows, rl_is_layer);
    if (rows == 0 || x.id == 0)
        return;
    rl_ops(rl, rows, check_below(3));
    rl_to_root(rl, rl_flip(50) ? rl_pick(rl, rows, rl_is_layer) : x);
    rl_ops(rl, 0, check_below(2));
    rl_loop(rl, 0, rl_flip(50));
    if (rl_flip(60))
        rl_to_rows(rl);
    rl_ops(rl, rl->g->values[rl->g->n_values - 1].domain, 1 + check_below(2));
}

static inline void rl_step(random_layers *rl)
{
    const int32_t rows = rl_some_rows(rl), what = check_below(100);
    const bs_value x = rows ? rl_pick(rl, rows, rl_is_any) : (bs_value){0};
    if (what < 20)
        rl_ops(rl, rl_flip(70) ? rows : 0, 1 + check_below(3));
    else if (what < 35)
        rl_routed(rl, rows, 1);
    else if (what < 43)
        rl_loop(rl, 0, 1);
    else if (what < 50)
        rl_loop(rl, rows, 1);
    else if (what < 72)
        rl_around(rl, rows);
    else if (what < 82)
        rl_to_rows(rl);
    else if (what < 90 && rows)
        rl_to_channels(rl, rows);
    else if (x.id)
        rl_to_root(rl, x);
}

static inline bool rl_is_output(const random_layers *rl, const bs_value_info *v)
{
    return v->dtype == BS_F32 && bs_bytes_figure(bs_value_elements(rl->g, v)) <= RL_ELEMENTS;
}

/* What nothing reads is an output, or comes to the root for it. */
static inline void rl_end(random_layers *rl)
{
    static const char *const names[RL_OUTPUTS] = {"o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7"};
    for (int32_t d = 1; d < rl->g->n_domains; d++)
        for (int32_t i = 0; rl_is_top(rl, d) && i < 4; i++) {
            const bs_value x = rl_fresh(rl, d, rl_is_any);
            if (x.id)
                rl_to_root(rl, x);
        }
    rl_see_readers(rl);
    for (int32_t v = rl->g->n_values - 1; v >= 1 && rl->n_outputs < RL_OUTPUTS; v--)
        if (rl->g->values[v].domain == 0 && !rl->read[v] && rl_may_be_read(rl, v) &&
            rl_is_output(rl, &rl->g->values[v]))
            bs_output(rl->g, names[rl->n_outputs++], (bs_value){v});
}

/* False when the builder refused something. */
static inline bool rl_grow(random_layers *rl, bs_graph *g, net_table *weights)
{
    rl_begin(rl, g, weights);
    for (int32_t i = 0, steps = 6 + check_below(10); i < steps && g->status == BS_OK && g->n_nodes < 120; i++)
        rl_step(rl);
    if (g->status == BS_OK)
        rl_end(rl);
    return g->status == BS_OK;
}

#endif
