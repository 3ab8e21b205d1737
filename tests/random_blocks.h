/* random_blocks.h - a graph that grows at random (random_graph.h): whole blocks of ops, routers with all their paths,
 * loops with their bodies. */
#ifndef BS_TEST_RANDOM_BLOCKS_H
#define BS_TEST_RANDOM_BLOCKS_H

#include "random_extents.h"
#include "random_routers.h"

/* ------------------------------------------------------------------------------------------------ whole blocks */

static inline bool rg_is_read(const random_graph *rg, int32_t value)
{
    for (int32_t n = rg->g->values[value].node + 1; n < rg->g->n_nodes; n++)
        for (int32_t i = 0; i < rg->g->nodes[n].n_in; i++)
            if (bs_node_in(rg->g, &rg->g->nodes[n])[i] == value)
                return true;
    return false;
}

/* Adds up what nobody reads in a domain, so that little of the graph is dead. */
static inline void rg_fold(random_graph *rg, int32_t domain)
{
    bs_value left[NAIVE_VALUES];
    int32_t n = 0;
    for (int32_t v = 1; v < rg->g->n_values; v++)
        if (rg->g->values[v].domain == domain && rg->g->values[v].dtype == BS_F32 && !rg_is_read(rg, v) &&
            !rg_is_wide(rg, &rg->g->values[v]) && naive_is_there(rg->g, v))
            left[n++] = (bs_value){v};
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = i + 1; k < n; k++) {
            const bs_value_info *a = rg_info(rg, left[i]), *b = rg_info(rg, left[k]);
            if (!bs_same_shape(a, b) || a->scale_num != b->scale_num || a->scale_den != b->scale_den ||
                rg->g->n_nodes > 400)
                continue;
            left[i] = rg_made(rg, bs_add(rg->g, left[i], left[k]), rg->bound[left[i].id] + rg->bound[left[k].id]);
            left[k] = left[--n];
            k--;
        }
}

static inline void rg_ops(random_graph *rg, int32_t domain, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const bs_value line = rg_pick(rg, domain, rg_is_line), image = rg_pick(rg, domain, rg_is_image);
        if (image.id && rg_flip(60))
            rg_image_op(rg, image);
        else if (line.id)
            rg_line_op(rg, line);
    }
}

/* A router with all its paths and what becomes of them; paths may hold routers of their own. */
static inline void rg_block(random_graph *rg, int32_t domain, int32_t depth)
{
    const bs_value x = rg_pick(rg, domain, rg_is_line);
    const int32_t r = rg->g->n_routers;
    if (x.id == 0 || r > 8 || rg->g->n_nodes > 300)
        return;
    rg_add_router(rg, x);
    for (int32_t p = 0; rg->g->status == BS_OK && p < rg->g->routers[r].desc->paths; p++) {
        const bs_value image = rg_pick(rg, domain, rg_is_any_image), line = rg_pick(rg, domain, rg_is_line);
        const bs_value in[2] = {image.id ? image : line, line};
        bs_block_begin(rg->g, rg_name(rg, "p", rg->n_names, ""));
        for (int32_t i = 0; i < 2; i++)
            if (in[i].id)
                rg_made(rg, bs_scatter(rg->g, (bs_router){r}, p, in[i]), rg->bound[in[i].id]);
        const int32_t inside = rg_path_domain(rg, r, p);
        if (inside >= 0) {
            rg_ops(rg, inside, check_below(4));
            if (depth < 3 && rg_flip(50))
                rg_block(rg, inside, depth + 1);
            rg_ops(rg, inside, check_below(3));
            rg_fold(rg, inside);
        }
        bs_block_end(rg->g);
    }
    for (int32_t i = 0; i < 3 && rg->g->status == BS_OK; i++)
        rg_gather(rg, r);
}

/* Trips of each row: a small number, seldom too large a one for the bound. */
static inline bs_value rg_trips(random_graph *rg, bs_value line, int32_t most)
{
    bs_value index = {0};
    const bs_value best = bs_topk(rg->g, rg_linear(rg, line, most + 1), 1, &index);
    rg->bound[best.id] = RG_MOST, rg->bound[index.id] = most;
    return index;
}

static inline bool rg_is_number_or_line(const random_graph *rg, const bs_value_info *v)
{
    return rg_is_any_line(rg, v) || (v->rank == 1 && v->dtype == BS_I32 && rg_extent(rg, v, 0) <= 8);
}

static inline bs_value rg_small(random_graph *rg, bs_value v)
{
    rg->bound[v.id] = 8;
    return v;
}

/* How many rows a row makes: 0 to 2, none in the last of four trips. */
static inline bs_value rg_makes(random_graph *rg, bs_router loop, bs_value line)
{
    const bs_convert_desc real = {.dtype = BS_F32}, whole = {.dtype = BS_I32};
    const bs_value wants = rg_small(rg, bs_convert(rg->g, rg_trips(rg, line, 2), &real)),
                   trip = rg_small(rg, bs_convert(rg->g, rg_small(rg, bs_loop_trip(rg->g, loop)), &real)),
                   left = rg_small(rg, bs_affine(rg->g, trip, -2, 6)),
                   makes = rg_small(rg, bs_binary(rg->g, wants, left, BS_BINARY_MIN));
    return rg_small(rg, bs_convert(rg->g, makes, &whole));
}

static inline bool rg_is_segment_line(const random_graph *rg, const bs_value_info *v)
{
    return bs_segmented(rg->g, v->domain) && rg_is_line(rg, v);
}

static inline bool rg_is_segment_table(const random_graph *rg, const bs_value_info *v)
{
    return rg_is_table(rg, v) && v->dims[0] == rg_info(rg, rg->lengths)->dims[0];
}

/* From rows, of a path or all, to segments, or back, or both; or their numbers. domain: of the rows, -1: any. */
static inline void rg_segment_op(random_graph *rg, int32_t domain)
{
    static const int32_t modes[3] = {BS_SEGMENT_LAST, BS_SEGMENT_SUM, BS_SEGMENT_MAX}; /* means are not whole */
    const bs_value line = rg_pick(rg, domain, rg_is_segment_line), table = rg_pick(rg, 0, rg_is_segment_table);
    const bool loops = line.id && rg->g->domains[rg_info(rg, line)->domain].loop, to_rows = loops || rg_flip(40);
    const bs_segment_reduce_desc reduce = {.mode = modes[check_below(3)], .to_rows = to_rows};
    const int32_t what = check_below(100);
    if (line.id && what < 55) {
        rg_made(rg, bs_segment_reduce(rg->g, line, &reduce),
                rg->bound[line.id] * (reduce.mode == BS_SEGMENT_SUM ? 40 : 1));
    } else if (line.id && what < 70) {
        const bs_value index = bs_reshape(rg->g, bs_segment_index(rg->g, line, (bs_value){0}), BS_SHAPE1(1));
        rg->bound[index.id] = 40;
        rg_made(rg, bs_convert(rg->g, index, &(bs_convert_desc){.dtype = BS_F32}), 40);
    } else if (line.id && table.id) {
        rg_made(rg, bs_segment_spread(rg->g, table, line), rg->bound[table.id]);
    }
}

/* Values of the body, of which two are carried, one is the last trip's and one is collected. */
typedef struct rg_body {
    bs_router loop;
    bs_value line, carried[3]; /* the third an image, or none */
    double before[3];          /* bounds of what is carried */
} rg_body;

/* What children, or others, or the row that made a row, carry: of one of two, or both added up. */
static inline void rg_read_others(random_graph *rg, const rg_body *b, int32_t i)
{
    const bool up = rg->g->routers[b->loop.id].loop.grows && rg_flip(60), one = !up && rg_flip(40);
    const bs_value of = up ? bs_loop_parent(rg->g, b->loop) : bs_scatter(rg->g, b->loop, 0, rg->children);
    const bs_slice_desc slot = {.axis = 0, .start = check_below(2), .length = 1};
    const bs_value x = bs_loop_rows(rg->g, b->loop, b->carried[i], one ? bs_slice(rg->g, of, &slot) : of);
    rg->bound[x.id] = 2 * RG_MOST; /* nothing else picks it */
    rg->bound[of.id] = 40;
    rg_made(rg, bs_reduce(rg->g, x, &(bs_reduce_desc){.kind = BS_REDUCE_SUM}), b->before[i] * (one ? 1 : 2));
}

/* What is outside the loop around this one, too, comes in through both, and something is made of it. */
static inline void rg_from_outside(random_graph *rg, const rg_body *b)
{
    const bs_domain *around = &rg->g->domains[rg_info(rg, b->line)->domain];
    if (!bs_router_loops(rg->g, around->router) || rg->g->status != BS_OK)
        return;
    const bs_value from = rg_pick(rg, around->parent, rg_is_line);
    if (from.id == 0)
        return;
    const double bound = rg->bound[from.id];
    const bs_value there = rg_made(rg, bs_scatter(rg->g, (bs_router){around->router}, 0, from), bound);
    rg_line_op(rg, rg_made(rg, bs_scatter(rg->g, b->loop, 0, there), bound));
}

static inline void rg_body_begin(random_graph *rg, rg_body *b, bs_value line)
{
    const bool vertices = rg->children.id && rg_info(rg, line)->domain == rg_info(rg, rg->children)->domain,
               in_turn = vertices && rg_flip(40), grows = vertices && !in_turn && rg_flip(50),
               free = !in_turn && !grows, counts = free && rg_flip(60), over = free && !counts && rg_flip(40);
    const bs_loop_desc desc = {.name = rg_name(rg, "l", rg->n_names, ""),
                               .bound = over ? 0 : in_turn ? 40 : counts || grows ? 4 : 2 + check_below(3),
                               .over = over ? line : BS_NONE, .in_turn = in_turn, .grows = grows,
                               .no_lift = rg_flip(40)};
    b->line = line;
    b->loop = bs_loop_begin(rg->g, line,
                            in_turn  ? rg->level
                            : grows  ? rg->roots
                            : counts ? rg_trips(rg, line, 4)
                                     : (bs_value){0},
                            &desc);
    if (grows && b->loop.id)
        rg_made(rg, bs_convert(rg->g, rg_small(rg, bs_loop_child(rg->g, b->loop)), &(bs_convert_desc){.dtype = BS_F32}),
                8);
    for (int32_t i = 0; i < 2 && b->loop.id; i++) {
        const bs_value from = i == 0 ? line : rg_pick(rg, rg_info(rg, line)->domain, rg_is_line);
        b->before[i] = from.id ? fmax(rg->bound[from.id], 8) : 8;
        b->carried[i] = rg_made(rg, bs_loop_carry(rg->g, b->loop, from.id ? from : line), b->before[i]);
    }
    const bs_value image = rg_pick(rg, rg_info(rg, line)->domain, rg_is_any_image);
    const bs_value whole = rg_pick(rg, rg_info(rg, line)->domain, rg_is_image);
    b->carried[2] = (bs_value){0};
    if (whole.id && rg->g->domains[rg_info(rg, line)->domain].patches < 0 && b->loop.id && rg_flip(60)) {
        b->before[2] = fmax(rg->bound[whole.id], 8);
        b->carried[2] = rg_made(rg, bs_loop_carry(rg->g, b->loop, whole), b->before[2]);
    }
    for (int32_t i = 0; vertices && i < 2 && rg->g->status == BS_OK; i++)
        if (rg_flip(70))
            rg_read_others(rg, b, i);
    if (image.id)
        rg_made(rg, bs_scatter(rg->g, b->loop, 0, image), rg->bound[image.id]);
    rg_made(rg, bs_scatter(rg->g, b->loop, 0, line), rg->bound[line.id]);
    rg_from_outside(rg, b);
    if (over || rg_flip(50))
        rg_made(rg, bs_add(rg->g, b->carried[0],
                           over ? rg_made(rg, bs_loop_slice(rg->g, b->loop, line), rg->bound[line.id])
                                : bs_convert(rg->g, rg_made(rg, bs_loop_trip(rg->g, b->loop), 8),
                                             &(bs_convert_desc){.dtype = BS_F32})),
                b->before[0] + rg->bound[line.id] + 8);
}

/* A carried line with another number in one place, which may be written where it is: an update is not read before. */
static inline bs_value rg_update(random_graph *rg, bs_value carried, bs_value line)
{
    const bs_slice_desc first = {.axis = 0, .length = 1};
    const int32_t most = (int32_t)rg_extent(rg, rg_info(rg, carried), 0);
    const bs_value at = rg_trips(rg, line, most - 1);
    const bs_value update = rg_made(rg, bs_slice(rg->g, line, &first), rg->bound[line.id]);
    return rg_made(rg, bs_scatter_elements(rg->g, carried, at, update, &(bs_update_desc){.axis = 0}),
                   fmax(rg->bound[carried.id], rg->bound[line.id]));
}

static inline void rg_body_end(random_graph *rg, rg_body *b)
{
    const int32_t inside = rg->g->routers[b->loop.id].path_domains;
    const bs_loop_info loop = rg->g->routers[b->loop.id].loop;
    for (int32_t i = 0; i < 3 && b->carried[i].id; i++) {
        bs_value twin = rg_twin(rg, b->carried[i], inside);
        const bs_value other = rg_pick(rg, inside, rg_is_line);
        if (i < 2 && other.id && other.id != b->carried[i].id && rg_extent(rg, rg_info(rg, b->carried[i]), 0) > 1 &&
            rg_flip(25))
            twin = rg_update(rg, b->carried[i], other);
        else if (!twin.id || (i < 2 && rg_flip(10)))
            twin = b->carried[i < 2 ? 1 - i : 2]; /* what is carried may change places */
        if (!bs_same_shape(rg_info(rg, twin), rg_info(rg, b->carried[i])))
            twin = b->carried[i];
        if (rg->bound[twin.id] > b->before[i])
            twin = rg_made(rg, bs_clip(rg->g, twin, -8, 8), 8);
        rg_made(rg, bs_loop_next(rg->g, b->loop, b->carried[i], twin), b->before[i]);
    }
    const bs_value last = rg_pick(rg, inside, rg_flip(50) ? rg_is_any_image : rg_is_number_or_line),
                   all = rg_pick(rg, inside, rg_is_any_line);
    if (last.id && rg_flip(70))
        rg_made(rg, bs_loop_next(rg->g, b->loop, (bs_value){0}, last), rg->bound[last.id]);
    if (all.id && rg_flip(70))
        rg_made(rg, bs_loop_collect(rg->g, b->loop, all), rg->bound[all.id]);
    if (rg_flip(50))
        rg_made(rg, bs_loop_trips(rg->g, b->loop), 8);
    const bs_value line = rg_pick(rg, inside, rg_is_line);
    const bool asks = !loop.in_turn && !loop.grows && (loop.count || loop.trips >= 0) && line.id && rg_flip(60);
    if (loop.grows) {
        bs_loop_end(rg->g, b->loop, rg_makes(rg, b->loop, line.id ? line : b->carried[0]));
        return;
    }
    bs_loop_end(rg->g, b->loop, asks ? rg_linear(rg, line, 1) : (bs_value){0});
}

/* A loop with its whole body, in which there may be routers and loops; now and then what is outside grows, too. */
static inline void rg_loop(random_graph *rg, int32_t depth)
{
    const bs_value line = rg_pick(rg, -1, rg_is_line);
    rg_body b;
    if (line.id == 0 || rg->g->n_routers > 8 || rg->g->n_nodes > 250 || rg->g->n_values > 250)
        return;
    bs_block_begin(rg->g, rg_name(rg, "body", rg->n_names, ""));
    rg_body_begin(rg, &b, line);
    for (int32_t i = 0; i < 2 && rg->g->status == BS_OK; i++) {
        const int32_t inside = rg->g->routers[b.loop.id].path_domains;
        const bool block = rg_flip(40);
        if (block)
            bs_block_begin(rg->g, rg_name(rg, "step", rg->n_names, ""));
        rg_ops(rg, inside, check_below(4));
        if (block)
            bs_block_end(rg->g);
        if (rg_segments && rg_flip(40))
            rg_segment_op(rg, inside);
        if (rg_flip(30))
            rg_block(rg, inside, 2);
        if (rg_flip(30))
            rg_ops(rg, rg_info(rg, line)->domain, 1);
        if (depth < 2 && rg_flip(35))
            rg_loop(rg, depth + 1);
        if (rg_flip(50))
            rg_fold(rg, inside);
    }
    if (rg->g->status == BS_OK)
        rg_body_end(rg, &b);
    bs_block_end(rg->g);
}

#endif
