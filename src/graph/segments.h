/* graph/segments.h - rows as segments see them: those of a domain that has segments, or of a path in it, which are in
 * the segments of the rows that they came from. Relies on graph/graph.h and graph/rows.h. Must never know who computes
 * rows. */
#ifndef BS_SEGMENTS_H
#define BS_SEGMENTS_H

#include "graph/graph.h"
#include "graph/rows.h"

typedef struct bs_segment_rows {
    const bs_graph *graph;
    const bs_rows_state *rows; /* [domains] of this run */
    int32_t domain;            /* whose rows they are */
    const int32_t *offsets; /* [count + 1] the first row of each segment in the domain that has them; checked */
    int32_t count;
} bs_segment_rows;

/* The domain around all paths that has the segments which rows of `domain` are in; 0: there are none. */
static inline int32_t bs_segmented(const bs_graph *graph, int32_t domain)
{
    const int32_t top = graph->domains[domain].top;
    return bs_domain_is_segments(&graph->domains[top]) ? top : 0;
}

/* The row of the domain around all paths that a row came from, in the numbering of the same context. */
static inline int32_t bs_rows_top(const bs_graph *graph, const bs_rows_state *rows, int32_t domain, int32_t row)
{
    for (; graph->domains[domain].kind == BS_DOMAIN_PATH; domain = graph->domains[domain].parent)
        row = rows[domain].ids[row];
    return row;
}

/* The segment of a row. (graph/segments.c) */
int32_t bs_segment_at(const bs_segment_rows *segments, int32_t row);
/* The first row of a segment, or of what follows where it has none; of segment `count`: the number of rows. */
int32_t bs_segment_first(const bs_segment_rows *segments, int32_t segment);

#endif
