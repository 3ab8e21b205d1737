/* random_extents.h - a graph that grows at random (random_graph.h): values that are as long as data say. */
#ifndef BS_TEST_RANDOM_EXTENTS_H
#define BS_TEST_RANDOM_EXTENTS_H

#include "random_ops.h"

static bool rg_counts = true; /* extents may come from data: set before rg_begin */
static bool rg_boxes;         /* so they often do, and of boxes the best are kept: likewise */

/* The different elements of a table, how often each is there, and the table again. */
static inline void rg_tell_apart(random_graph *rg, bs_value table, const char *name)
{
    const double a = rg->bound[table.id], most = (double)bs_bytes_figure(bs_value_elements(rg->g, rg_info(rg, table)));
    bs_value of[4];
    bs_unique(rg->g, table, &(bs_extent_desc){.name = name}, of);
    const bs_value which = rg_made(rg, bs_reshape(rg->g, of[2], BS_SHAPE1(-1)), most);
    rg_made(rg, of[0], a);
    rg_made(rg, bs_convert(rg->g, of[3], &(bs_convert_desc){.dtype = BS_F32}), most);
    rg_made(rg, bs_gather_rows(rg->g, of[0], which), a);
    if (rg_flip(50))
        rg_made(rg, bs_convert(rg->g, of[1], &(bs_convert_desc){.dtype = BS_F32}), most);
}

static inline bool rg_has_boxes(const random_graph *rg, const bs_value_info *v)
{
    return rg_is_table(rg, v) && v->rank == 2 && rg_extent(rg, v, 1) >= 4 && rg_extent(rg, v, 0) <= 200;
}

/* What is no image, though it has three dimensions: nothing else picks it. */
static inline bs_value rg_hidden(random_graph *rg, bs_value v)
{
    rg->bound[v.id] = 2 * RG_MOST;
    return v;
}

/* A column of a table, as the scores of a class. */
static inline bs_value rg_scores(random_graph *rg, bs_value table)
{
    const bs_slice_desc one = {.axis = 1, .start = check_below(4), .length = 1};
    const double a = rg->bound[table.id];
    return rg_hidden(rg, bs_reshape(rg->g, rg_made(rg, bs_slice(rg->g, table, &one), a), BS_SHAPE3(1, 1, -1)));
}

/* The rows of a table as boxes, columns as scores of a class or two, and the rows of what is kept. */
static inline void rg_keep_best(random_graph *rg, bs_value table, const char *name)
{
    const double a = rg->bound[table.id], rows = (double)rg_extent(rg, rg_info(rg, table), 0);
    const bs_nms_desc desc = {.name = name, .max_each = check_below(2) * (1 + check_below(6)),
                              .iou_threshold = 0.25f * (float)check_below(4),
                              .score_above = rg_flip(50) ? -INFINITY : (float)check_below(3), .centre = rg_flip(50)};
    const bs_slice_desc four = {.axis = 1, .length = 4}, last = {.axis = 1, .start = 2, .length = 1};
    const bs_value corners = rg_made(rg, bs_slice(rg->g, table, &four), a),
                   boxes = rg_hidden(rg, bs_reshape(rg->g, corners, BS_SHAPE3(1, -1, 4)));
    bs_value scores = rg_scores(rg, table);
    if (rg_flip(50))
        scores = rg_hidden(rg, bs_concat(rg->g, (bs_value[]){scores, rg_scores(rg, table)}, 2, 1));
    const bs_value kept = rg_made(rg, bs_nms(rg->g, boxes, scores, &desc), rows);
    const bs_value column = rg_made(rg, bs_slice(rg->g, kept, &last), rows),
                   which = rg_made(rg, bs_reshape(rg->g, column, BS_SHAPE1(-1)), rows);
    rg_made(rg, bs_gather_rows(rg->g, table, which), a);
    if (rg_flip(50))
        rg_made(rg, bs_convert(rg->g, kept, &(bs_convert_desc){.dtype = BS_F32}), rows);
}

/* What is as long as data say: some numbers, or the indices of a table's rows that are not all zero, and these rows. */
static inline void rg_count(random_graph *rg)
{
    const bs_value none = {0}, table = rg_pick(rg, 0, rg_is_table),
                   boxes = rg_boxes ? rg_pick(rg, 0, rg_has_boxes) : none;
    const char *name = rg_name(rg, "d", rg->n_names, "");
    if (boxes.id && rg_flip(60)) {
        rg_keep_best(rg, boxes, name);
        return;
    }
    if (rg_flip(25) || table.id == 0 || rg_extent(rg, rg_info(rg, table), 0) <= 8) { /* shorter ones are lines */
        const bs_value limit = rg_made(rg, bs_affine(rg->g, rg->knob, 16, 0), 16);
        rg_made(rg, bs_arange(rg->g, limit, none, none, &(bs_extent_desc){name, 16 + check_below(8)}), 16);
        return;
    }
    if (rg_flip(25)) {
        rg_tell_apart(rg, table, name);
        return;
    }
    const double a = rg->bound[table.id], most = (double)rg_extent(rg, rg_info(rg, table), 0);
    const bool line = rg_info(rg, table)->rank == 1;
    const bs_reduce_desc sum = {.axis = -1}, total = {.axis = 0, .keep = 1};
    const bs_value seen = rg_flip(50) ? table : rg_made(rg, bs_activation(rg->g, table, BS_RELU, 0), a);
    const bs_value which = line ? seen : rg_made(rg, bs_reduce(rg->g, seen, &sum), 8 * a);
    const bs_value at = rg_made(rg, bs_nonzero(rg->g, which, &(bs_extent_desc){.name = name}), most);
    const bs_value i = rg_made(rg, bs_reshape(rg->g, at, BS_SHAPE1(-1)), most),
                   rows = rg_made(rg, bs_gather_rows(rg->g, table, i), a);
    if (rg_flip(30))
        rg_made(rg, bs_convert(rg->g, at, &(bs_convert_desc){.dtype = BS_F32}), most);
    if (rg_flip(30))
        rg_made(rg, bs_reduce(rg->g, rows, &total), most * a);
    if (rg_flip(30))
        rg_made(rg, bs_scatter_rows(rg->g, table, i, rows, &(bs_update_desc){.update = BS_UPDATE_ADD}), 2 * a);
    if (rg_flip(20))
        rg_made(rg, bs_concat(rg->g, (bs_value[]){rows, rows}, 2, 0), a);
    if (rg_flip(50) && rg->g->n_domains < 24)
        rg_made(rg, bs_rows(rg->g, rows, none), a);
}

#endif
