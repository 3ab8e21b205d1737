/* graph/rows.h - which rows a domain has in a run, and what routers decided.
 * Relies on base/both.h. Must never know who computes rows: the CPU's tiles and a device's blocks use the same
 * structures. */
#ifndef BS_ROWS_H
#define BS_ROWS_H

#include "brainstorm.h"
#include "base/both.h"

/* What a router decided for the rows it saw (all of them, or those of one tile). */
typedef struct bs_decision_data {
    int32_t rows, paths, per_row; /* per_row: most paths a cell */
    float price;                  /* price at which a budget is kept; 0 for other protocols and forced routes */
    int32_t trip;                 /* a loop: the number of the trip that is to be made, from 0 */
    int32_t due, taken;           /* whose rows go in turn: how many do, and how many of those have begun */
    /* of a loop that grows `due` is how many rows there are so far, or the row behind the last that begins */
    int32_t *chosen;   /* [rows * per_row] path or -1, in order of choice */
    float *gates;      /* [rows * per_row] */
    int32_t *counts;   /* [paths] */
    int32_t *offsets;  /* [paths + 1] */
    int32_t *ids;      /* [rows * per_row] parent row of every packed row; ascending within a path */
    int32_t *inverse;  /* [rows * per_row] packed row of every choice, -1 none. Of a loop: the most trips of each row;
                        * or the due rows in order of turns, which `ids` has from `taken` on; or, where it grows, the
                        * row that made each, -1 none */
    int64_t dropped;
} bs_decision_data;

/* Rows of a domain as a context sees them. `first` is the index of its row 0 in storage that holds all rows. */
typedef struct bs_rows_state {
    int32_t count;
    int32_t first;
    const int32_t *ids; /* PATH: parent row of each, in the parent's numbering of the same context */
} bs_rows_state;

typedef struct bs_route_callback {
    bs_route_function function;
    void *user;
} bs_route_callback;

/* Which score of a row belongs to the path that it took: the path's own, or the one that all paths share; -1: none. */
static inline BS_BOTH int32_t bs_score_of(int32_t path, int32_t width)
{
    const int32_t at = width == 1 ? 0 : path;
    return path >= 0 && at < width ? at : -1;
}

/* The segment of a row: the last segment that begins at or before the row (empty ones that begin there come before
 * it). */
static inline BS_BOTH int32_t bs_segment_of(const int32_t *offsets, int32_t n_segments, int32_t row)
{
    int32_t low = 0, high = n_segments - 1;
    while (low < high) {
        const int32_t middle = high - (high - low) / 2;
        if (offsets[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

#endif
