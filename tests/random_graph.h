/* random_graph.h - grows graphs at random: chains of ops in rows and patches, routers in routers, several frames,
 * nodes of all of them in any order. All numbers are small whole numbers, so f32 is exact (tests/naive.h).
 * What the builder would refuse is not tried; nothing else is left out on purpose. */
#ifndef BS_TEST_RANDOM_GRAPH_H
#define BS_TEST_RANDOM_GRAPH_H

#include "random_blocks.h"

/* --------------------------------------------------------------------------------------------------- structure */

static inline void rg_to_root(random_graph *rg)
{
    const bs_value x = rg_pick(rg, -1, rg_is_top_cells);
    if (x.id == 0)
        return;
    rg_made(rg, rg_info(rg, x)->rank == 3 ? bs_assemble(rg->g, x) : bs_collect(rg->g, x), rg->bound[x.id]);
}

/* Cells out of a root value: of a domain there is, or a new one. */
static inline void rg_to_cells(random_graph *rg)
{
    const bs_value frame = rg_pick(rg, 0, rg_is_frame), table = rg_pick(rg, 0, rg_is_table),
                   like = rg_pick(rg, -1, rg_is_cell);
    if (table.id && rg_flip(60)) {
        const bool enough =
            like.id && rg_extent(rg, rg_info(rg, table), 0) >= rg->g->domains[rg_info(rg, like)->domain].max_rows;
        const bool joins = enough && (rg_info(rg, table)->dims[0] == rg->g->domains[rg_info(rg, like)->domain].rows ||
                                      rg_is_const(rg, table));
        rg_made(rg, bs_rows(rg->g, table, joins ? like : (bs_value){0}), rg->bound[table.id]);
        return;
    }
    if (frame.id == 0)
        return;
    const bs_domain *d = &rg->g->domains[rg_info(rg, rg->cells)->domain];
    const bs_value_info *v = rg_info(rg, frame);
    const bool same = v->dims[1] == d->height && v->dims[2] == d->width;
    const bool twice = rg->g->dims[v->dims[1]].parent == d->height && rg->g->dims[v->dims[1]].mul == 2 &&
                       rg->g->dims[v->dims[1]].div == 1 && rg->g->dims[v->dims[1]].add == 0;
    if (same || twice)
        rg_made(rg, bs_patches(rg->g, frame, &(bs_patches_desc){.like = rg->cells}), rg->bound[frame.id]);
    else if (rg->g->n_domains < 24 && rg_flip(40))
        rg_made(rg, bs_patches(rg->g, frame, &(bs_patches_desc){.size = 8}), rg->bound[frame.id]);
}

static inline bs_value rg_input(random_graph *rg, const char *name, bs_dtype dtype, bs_shape shape, double bound)
{
    return rg_made(rg, bs_input(rg->g, name, dtype, shape), bound);
}

/* Vertices with two children at most, and their levels. */
static inline void rg_vertices(random_graph *rg, bs_dim n, bs_value rows)
{
    const bs_value children = bs_input(rg->g, "children", BS_I32, BS_SHAPE2(n, 2)), level = bs_levels(rg->g, children);
    rg->children = bs_rows(rg->g, children, rows);
    rg->level = bs_rows(rg->g, level, rows);
    rg->roots = bs_rows(rg->g, rg_small(rg, bs_input(rg->g, "roots", BS_I32, BS_SHAPE2(n, 1))), rows);
    rg->bound[rg->roots.id] = 8;
    rg->bound[children.id] = rg->bound[level.id] = rg->bound[rg->children.id] = rg->bound[rg->level.id] = 40;
}

static inline void rg_begin(random_graph *rg, bs_graph *g, net_table *weights)
{
    memset(rg, 0, sizeof *rg);
    rg->g = g;
    rg->weights = weights;
    weights->table.count = 0;
    weights->next = NULL;
    rg->frames = rg_flip(70);
    rg->rows = !rg->frames || rg_flip(30) || rg_segments;
    rg->whole = rg_flip(60);
    rg->knob = rg_input(rg, "knob", BS_F32, BS_SHAPE1(1), 1);
    if (rg_flip(50)) {
        const int64_t dim[1] = {4};
        net_add_whole(weights, "captured", 1, dim);
        rg->captured = rg_made(rg, bs_constant(g, "captured", BS_F32, BS_SHAPE1(4)), 2);
    } else {
        rg->captured = rg_input(rg, "captured", BS_F32, BS_SHAPE1(4), 8);
    }
    if (rg->rows) {
        const bs_dim n = bs_symbol(g, "N", 40);
        const bs_value tokens = rg_input(rg, "tokens", BS_F32, BS_SHAPE2(n, 4), 8);
        if (rg_flip(30))
            rg->state[0] = rg_made(rg, bs_state(g, "rows_before", BS_F32, BS_SHAPE2(n, 4)), RG_MOST);
        const bs_value table = rg->state[0].id && rg_flip(50) ? rg->state[0] : tokens;
        if (rg_segments) {
            rg->lengths = rg_input(rg, "lengths", BS_I32, BS_SHAPE1(RG_SEGMENTS), 40);
            rg_input(rg, "per_segment", BS_F32, BS_SHAPE2(RG_SEGMENTS, 4), 8);
            rg_made(rg, bs_segments(g, table, rg->lengths), rg->bound[table.id]);
        } else {
            const bs_value rows = rg_made(rg, bs_rows(g, table, (bs_value){0}), rg->bound[table.id]);
            if (rg_trees)
                rg_vertices(rg, n, rows);
        }
    }
    if (rg->frames) {
        if (rg_flip(30))
            rg_input(rg, "per_patch", BS_F32, BS_SHAPE2(48, 4), 8); /* a row for every patch, of 4 x 4 even */
        const bs_dim h = bs_symbol(g, "H", 26), w = bs_symbol(g, "W", 21);
        const bs_value frame = rg_input(rg, "frame", BS_F32, BS_SHAPE3(2, h, w), 8);
        if (rg_flip(30))
            rg_input(rg, "grey", BS_U8, BS_SHAPE3(1, h, w), 255);
        if (rg_flip(30))
            rg_input(rg, "twice", BS_F32, BS_SHAPE3(1, bs_times(g, h, 2), bs_times(g, w, 2)), 8);
        if (rg_flip(50))
            rg->state[1] = rg_made(rg, bs_state(g, "frame_before", BS_F32, BS_SHAPE3(2, h, w)), RG_MOST);
        if (rg_flip(20))
            rg->state[2] = rg_made(rg, bs_state(g, "earlier", BS_F32, BS_SHAPE3(2, h, w)), RG_MOST);
        rg->cells = rg_made(rg, bs_patches(g, frame, &(bs_patches_desc){.size = 8}), 8);
    }
}

/* Reuse of the last frame: cells that a router leaves alone keep their pixels. What else reads the last frame may come
 * before the new one, beside it, or after. */
static inline void rg_reuse(random_graph *rg)
{
    const bs_value old =
        rg_made(rg, bs_patches(rg->g, rg->state[1], &(bs_patches_desc){.like = rg->cells}), RG_MOST);
    const bs_value seen = rg_flip(50) ? rg_conv(rg, old) : old;
    const bs_value line =
        rg_made(rg, bs_pool2d(rg->g, seen, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1}), RG_MOST);
    const int32_t r = rg->g->n_routers;
    rg_add_router(rg, line);
    if (rg->g->status != BS_OK || rg->g->routers[r].max_paths_per_cell > 1)
        return;
    bs_value out[TEST_PATHS] = {{0}};
    for (int32_t p = 0; p < rg->g->routers[r].desc->paths; p++) {
        const bs_value from = rg_flip(80) ? rg->cells : old;
        if (rg_flip(80)) {
            const bs_value x = rg_made(rg, bs_scatter(rg->g, (bs_router){r}, p, from), rg->bound[from.id]);
            out[p] = rg_flip(80) ? rg_twin(rg, rg_unary(rg, x), rg_info(rg, x)->domain) : x;
        }
    }
    for (int32_t p = 0; p < rg->g->routers[r].desc->paths; p++)
        if (out[p].id) {
            const bs_value all = bs_gather(rg->g, (bs_router){r}, out, rg_flip(70) ? old : (bs_value){0}, NULL);
            const bs_value frame = rg_made(rg, bs_assemble(rg->g, all), RG_MOST);
            bs_state_write(rg->g, rg->state[1], frame);
            rg->reused = frame;
            rg->bound[all.id] = RG_MOST;
            if (rg_flip(30)) /* others that want the last frame, whenever they run */
                rg_made(rg, bs_assemble(rg->g, rg_conv(rg, old)), RG_MOST);
            if (rg_flip(30))
                rg_made(rg, bs_assemble(rg->g, rg_made(rg, bs_gather(rg->g, (bs_router){r}, out, old, NULL), RG_MOST)),
                        RG_MOST);
            return;
        }
}

static inline void rg_step(random_graph *rg)
{
    const bs_value cell = rg_pick(rg, -1, rg_is_routable);
    if (rg->whole && cell.id && rg_flip(8)) {
        rg_block(rg, rg_info(rg, cell)->domain,
                 rg->g->domains[rg_info(rg, cell)->domain].kind == BS_DOMAIN_PATH ? 2 : 1);
        return;
    }
    if (rg_segments && rg_flip(12)) {
        rg_segment_op(rg, -1);
        return;
    }
    if (rg_loops && rg_flip(10)) {
        rg_loop(rg, 0);
        return;
    }
    if (rg_boxes && rg_flip(8)) {
        rg_count(rg);
        return;
    }
    const bs_value line = rg_pick(rg, -1, rg_is_line), image = rg_pick(rg, -1, rg_is_image),
                   routable = rg_pick(rg, -1, rg_is_routable);
    const int32_t what = check_below(100);
    if (what < 25 && line.id)
        rg_line_op(rg, line);
    else if (what < 55 && image.id)
        rg_image_op(rg, image);
    else if (what < 63 && routable.id && rg->g->n_routers < 7)
        rg_add_router(rg, routable);
    else if (what < 78)
        rg_scatter(rg);
    else if (what < 88 && rg->g->n_routers > 1)
        rg_gather(rg, 1 + check_below(rg->g->n_routers - 1));
    else if (what < 93)
        rg_to_root(rg);
    else if (what < 96 && rg->frames)
        rg_to_cells(rg);
    else if (what < 98 && rg->state[1].id && rg->reused.id == 0)
        rg_reuse(rg);
    else if (what >= 98 && rg_counts)
        rg_count(rg);
}

static inline bool rg_is_root(const random_graph *rg, const bs_value_info *v)
{
    (void)rg;
    return v->domain == 0;
}

/* Gathers what routers have sent out, writes the states, binds outputs. */
static inline void rg_end(random_graph *rg)
{
    static const char *const outputs[RG_OUTPUTS] = {"o0", "o1", "o2", "o3", "o4", "o5"};
    for (int32_t r = rg->g->n_routers - 1; r >= 1; r--) {
        if (bs_router_loops(rg->g, r) || rg->g->domains[rg->g->routers[r].domain].loop)
            continue;
        for (int32_t p = 0; p < rg->g->routers[r].desc->paths && rg_flip(70); p++)
            rg_fold(rg, rg_path_domain(rg, r, p));
        for (int32_t i = 0; i < 2; i++)
            rg_gather(rg, r);
    }
    for (int32_t d = 0; d < rg->g->n_domains; d++)
        if (d > 0 && rg->g->domains[d].kind != BS_DOMAIN_PATH && rg_flip(70))
            rg_fold(rg, d);
    for (int32_t i = 0; i < 5; i++)
        rg_to_root(rg);
    if (rg_flip(70))
        rg_fold(rg, 0);
    const int32_t first = check_below(3);
    for (int32_t i = first; i < first + 3; i++) { /* in any order: one may take what another held */
        const bs_value state = rg->state[i % 3], v = state.id ? rg_twin(rg, state, 0) : (bs_value){0};
        if (v.id && !(i % 3 == 1 && rg->reused.id))
            bs_state_write(rg->g, state, v);
    }
    if (rg->reused.id && rg_flip(50))
        bs_output(rg->g, outputs[rg->n_outputs++], rg->reused);
    for (int32_t v = rg->g->n_values - 1, wanted = 1 + check_below(RG_OUTPUTS - 2); v >= 1 && rg->n_outputs < wanted;
         v--)
        if (rg->g->values[v].domain == 0 && !rg_is_read(rg, v) && rg_flip(80))
            bs_output(rg->g, outputs[rg->n_outputs++], (bs_value){v});
    const bs_value any = rg_pick(rg, 0, rg_is_root);
    bs_output(rg->g, outputs[rg->n_outputs++], any.id ? any : rg->captured);
}

/* False when the builder refused something after all. */
static inline bool rg_grow(random_graph *rg, bs_graph *g, net_table *weights, int32_t steps)
{
    rg_begin(rg, g, weights);
    for (int32_t i = 0; i < steps && g->status == BS_OK && g->n_values < 300 && weights->table.count < 200; i++)
        rg_step(rg);
    if (g->status == BS_OK)
        rg_end(rg);
    return g->status == BS_OK;
}

#endif
