/* graph/segments.c - where rows are in segments. A path stores nothing for it: its rows keep their order, so what it
 * has of a segment is found by halving. Relies on graph/segments.h. Must never read beyond the rows that there are. */
#include "graph/segments.h"

/* The last segment that begins at or before the row: empty ones that begin there come before it. */
int32_t bs_segment_at(const bs_segment_rows *s, int32_t row)
{
    return bs_segment_of(s->offsets, s->count, bs_rows_top(s->graph, s->rows, s->domain, row));
}

/* The rows of a path keep their order. */
int32_t bs_segment_first(const bs_segment_rows *s, int32_t segment)
{
    const int32_t first = s->offsets[segment];
    int32_t low = 0, high = s->rows[s->domain].count;
    if (s->graph->domains[s->domain].kind != BS_DOMAIN_PATH)
        return first;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (bs_rows_top(s->graph, s->rows, s->domain, middle) < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
