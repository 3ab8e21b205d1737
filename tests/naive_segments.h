/* naive_segments.h - ops that look at all rows of a segment, as their definition reads; and which definition is an
 * op's: a part of the oracle (naive.h). */
#ifndef BS_TEST_NAIVE_SEGMENTS_H
#define BS_TEST_NAIVE_SEGMENTS_H

#include "naive_found.h"
#include "naive_ops.h"

/* The segment of a row, and its first row, by their numbers around all paths. */
static inline int32_t naive_segment(const naive *n, int32_t domain, int32_t row, int32_t *first)
{
    const double *lengths = n->cell[n->g->domains[n->g->domains[domain].top].lengths][0];
    int32_t segment = 0;
    *first = 0;
    while (row >= *first + (int32_t)lengths[segment])
        *first += (int32_t)lengths[segment++];
    return segment;
}

/* The rows from `first` to before `end` that a domain has, listed unless `rows` is NULL. */
static inline int32_t naive_rows_there(const naive *n, int32_t domain, int32_t first, int32_t end, int32_t *rows)
{
    int32_t count = 0;
    for (int32_t row = first; row < end; row++) {
        if (rows && n->present[domain][row])
            rows[count] = row;
        count += n->present[domain][row];
    }
    return count;
}

/* What the rows `from` to before `end` of x give. */
static inline void naive_reduce_rows(const naive *n, int32_t x, int32_t mode, int32_t from, int32_t end, double *y)
{
    const int32_t domain = n->g->values[x].domain, count = naive_rows_there(n, domain, from, end, NULL);
    const int64_t each = naive_elements(n, x);
    for (int32_t row = from; row < end; row++)
        for (int64_t i = 0; i < each && n->present[domain][row]; i++) {
            const double v = n->cell[x][row][i];
            const bool first = naive_rows_there(n, domain, from, row, NULL) == 0;
            y[i] = mode == BS_SEGMENT_LAST  ? v
                   : mode == BS_SEGMENT_MAX ? (first || v > y[i] ? v : y[i])
                                            : y[i] + (mode == BS_SEGMENT_MEAN ? v / count : v);
        }
}

static inline void naive_segment_reduce(const naive *n, const bs_node *node, int32_t row, double *y)
{
    const int32_t x = bs_node_in(n->g, node)[0];
    const bs_segment_reduce_desc *p = node->params;
    const int32_t lengths = n->g->domains[n->g->domains[n->g->values[x].domain].top].lengths;
    int32_t first = 0;
    for (int64_t s = 0; s < naive_dim(n, lengths, 0); s++) {
        const int32_t end = first + (int32_t)n->cell[lengths][0][s];
        if (!p->to_rows)
            naive_reduce_rows(n, x, p->mode, first, end, y + s * naive_elements(n, x));
        else if (row >= first && row < end)
            naive_reduce_rows(n, x, p->mode, first, end, y);
        first = end;
    }
}

static inline double naive_index(const naive *n, const bs_node *node, int32_t row)
{
    int32_t first;
    const int32_t segment = naive_segment(n, node->domain, row, &first);
    return naive_rows_there(n, node->domain, first, row, NULL) +
           (node->n_in == 2 ? n->cell[bs_node_in(n->g, node)[1]][0][segment] : 0);
}

/* Of cells [heads features]. */
static inline void naive_rope(const naive *n, const bs_node *node, const double *x, double position, double *y)
{
    const bs_rope_desc *p = node->params;
    const int64_t width = naive_elements(n, node->first_out), each = width / bs_or_default(p->heads, 1),
                  m = (p->dims ? p->dims : each) / 2;
    for (int64_t i = 0; i < width; i++) {
        const int64_t e = i % each, pair = p->interleaved ? e / 2 : e % m;
        const bool first = p->interleaved ? e % 2 == 0 : e < m;
        const double angle = position * pow(p->base == 0 ? 10000.0 : (double)p->base, -(double)pair / (double)m),
                     other = e < 2 * m ? x[p->interleaved ? i ^ 1 : first ? i + m : i - m] : 0;
        y[i] = e < 2 * m ? x[i] * cos(angle) + (first ? -other : other) * sin(angle) : x[i];
    }
}

/* One row: which positions it attends to. */
typedef struct naive_attend {
    const bs_attention_desc *desc;
    const int32_t *in;
    int32_t n_in, segment, past, position, low, end;
    int32_t *keys; /* their rows */
} naive_attend;

/* Key or value (operand `kind`) of position j of a segment, element i: of this run or from the ring. */
static inline double naive_attended(const naive *n, const naive_attend *a, int32_t kind, int32_t j, int64_t i)
{
    const int64_t window = a->past ? naive_dim(n, a->in[3], 1) : 1, d = naive_dim(n, a->in[1], 0);
    return j >= a->past ? n->cell[a->in[kind]][a->keys[j - a->past]][i]
                        : n->cell[a->in[kind + 2]][0][(a->segment * window + j % window) * d + i];
}

static inline naive_attend naive_attend_of(naive *n, const bs_node *node, int32_t row)
{
    naive_attend a = {.desc = node->params, .in = bs_node_in(n->g, node), .n_in = node->n_in};
    const int32_t keys = n->g->values[a.in[1]].domain;
    const double *lengths = n->cell[n->g->domains[n->g->domains[keys].top].lengths][0];
    int32_t first, first_key = 0;
    a.segment = naive_segment(n, node->domain, row, &first);
    for (int32_t s = 0; s < a.segment; s++)
        first_key += (int32_t)lengths[s];
    const int32_t end_key = first_key + (int32_t)lengths[a.segment];
    const bool cached = a.n_in > 5;
    a.keys = naive_take(n, (size_t)(end_key - first_key + 1) * sizeof *a.keys);
    a.past = cached ? (int32_t)n->cell[a.in[5]][0][a.segment] : 0;
    a.position = naive_rows_there(n, node->domain, first, row, NULL) + (keys == node->domain ? a.past : 0);
    a.end = a.past + naive_rows_there(n, keys, first_key, end_key, a.keys);
    a.end = a.desc->bidirectional ? a.end : a.position + 1;
    if (cached) {
        const int32_t window = (int32_t)naive_dim(n, a.in[3], 1);
        a.low = (a.desc->bidirectional ? a.past : a.end) - window;
        a.low = a.low > 0 ? a.low : 0;
    }
    return a;
}

/* What is added to the score of head h and position j. */
static inline double naive_attend_added(const naive *n, const naive_attend *a, int32_t h, int32_t heads, int32_t j)
{
    const double slope = a->desc->alibi ? pow(2.0, -8.0 * (h + 1) / heads) : 0;
    const int32_t m = a->in[a->n_in - 1];
    const double added = -slope * abs(a->position - j);
    if (a->n_in % 3 != 1)
        return added;
    if (n->g->values[m].rank < 3) {
        const double v = n->cell[m][a->keys[j]][0];
        return n->g->values[m].dtype != BS_I32 ? added + v : v != 0 ? added : -INFINITY;
    }
    const int64_t p = naive_dim(n, m, 1), keys = naive_dim(n, m, 2);
    return added + n->cell[m][0][((naive_dim(n, m, 0) > 1 ? h : 0) * p + a->position) * keys + j];
}

static inline void naive_attention(naive *n, const bs_node *node, int32_t row, double *y)
{
    const naive_attend a = naive_attend_of(n, node, row);
    const int32_t heads = bs_or_default(a.desc->heads, 1), shared = heads / bs_or_default(a.desc->kv_heads, heads);
    const int64_t each = naive_dim(n, a.in[0], 0) / heads;
    const double scale = a.desc->scale != 0.0f ? (double)a.desc->scale : 1 / sqrt((double)each);
    for (int32_t h = 0; h < heads; h++) {
        double top = -INFINITY, sum = 0;
        for (int32_t pass = 0; pass < 2; pass++)
            for (int32_t j = a.low; j < a.end; j++) {
                double score = 0;
                for (int64_t i = 0; i < each; i++)
                    score += n->cell[a.in[0]][row][h * each + i] *
                             naive_attended(n, &a, 1, j, h / shared * each + i);
                score = score * scale + naive_attend_added(n, &a, h, heads, j);
                if (pass == 0)
                    top = score > top ? score : top;
                if (pass == 0 || score == -INFINITY)
                    continue;
                sum += exp(score - top);
                for (int64_t i = 0; i < each; i++)
                    y[h * each + i] += exp(score - top) * naive_attended(n, &a, 2, j, h / shared * each + i);
            }
        for (int64_t i = h * each; i < (h + 1) * each; i++)
            y[i] = sum > 0 ? y[i] / sum : 0;
    }
}

static inline void naive_op(naive *n, const bs_node *node, int32_t row, const double *const *in, double *const *out)
{
    const char *op = bs_op_get(node->op)->name;
    if (naive_op_here(n, node, row, in, out))
        return;
    if (naive_named(op, "segment_spread")) {
        int32_t first;
        const int64_t each = naive_elements(n, node->first_out);
        memcpy(out[0], in[0] + naive_segment(n, node->domain, row, &first) * each, (size_t)each * sizeof(double));
    } else if (naive_named(op, "segment_reduce"))
        naive_segment_reduce(n, node, row, out[0]);
    else if (naive_named(op, "segment_index"))
        out[0][0] = naive_index(n, node, row);
    else if (naive_named(op, "rope"))
        naive_rope(n, node, in[0], in[1][0], out[0]);
    else if (naive_named(op, "attention"))
        naive_attention(n, node, row, out[0]);
    else if (naive_named(op, "unique"))
        n->made = naive_unique(n, node, in[0], out);
    else if (naive_named(op, "nms"))
        n->made = naive_nms(n, node, in, out[0]);
    else if (naive_named(op, "levels"))
        naive_levels(n, node, in[0], out[0]);
    else {
        printf("FAIL the oracle does not know op %s: its definition belongs in naive_ops.h\n", op);
        exit(1);
    }
}

#endif
