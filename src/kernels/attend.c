/* attend.c: cuts attention into tiles of queries for the kernels of gemm.inc, and its scores into rows of softmax.
 *
 * Owns:      the panels of keys and values, what is added to scores, and which positions a row sees.
 * Relies on: conv_internal.h, arrange.h, functions.h.
 * Must never: let what a row does not see reach it, be it NaN: its weight is 0, and where that is not enough rows are
 *            taken one by one.
 *
 * A query is one row and one head; heads that share their keys are queries of one tile. A tile's keys are packed once,
 * a panel at a time, and its scores are all there before the softmax: the more keys, the fewer queries.
 */
#include "kernels/attend.h"
#include "base/base.h"
#include "kernels/arrange.h"
#include "kernels/conv_internal.h"
#include "kernels/functions.h"

#include <math.h>
#include <string.h>

enum {
    ATTEND_QUERIES = 64,
    ATTEND_FLOATS = 16384 /* of the scores, and of the queries, of a tile: fewer queries where that is exceeded */
};

typedef struct attend_tile {
    const bs_attend *a;
    const bs_conv_kernels *kernels;
    bs_tier tier;
    int32_t first, count;      /* queries: heads of the rows, one row after the other */
    int32_t low, keys;         /* positions low .. low + keys - 1 */
    ptrdiff_t n_step, step;    /* between queries, and between their scores */
    float *panel, *q, *scores, *mask;
} attend_tile;

static int32_t panel_width(const bs_conv_kernels *k) { return BS_GEMM_VECTORS * k->lanes; }

/* Floats of `count` queries at most, each of `each`. */
static int64_t floats_of_queries(int64_t each)
{
    return bs_max_i64(bs_min_i64(each * ATTEND_QUERIES, ATTEND_FLOATS), each);
}

int64_t bs_attend_scratch_floats(bs_tier tier, int64_t keys, int64_t n)
{
    const int64_t line = BS_MOST_LANES, key_step = (keys + line - 1) / line * line,
                  n_step = (n + line - 1) / line * line;
    return (int64_t)BS_GEMM_VECTORS * bs_conv_lanes(tier) * BS_GEMM_DEPTH + floats_of_queries(n_step) +
           floats_of_queries(key_step) + key_step;
}

/* ------------------------------------------------------------------------------------------ what a query sees */

static int32_t position_of(const attend_tile *t, int32_t query)
{
    return t->a->position + (t->first + query) / t->a->heads;
}

static int32_t seen_low(const attend_tile *t, int32_t query)
{
    return t->a->causal ? bs_max_i32(0, position_of(t, query) - t->a->window + 1) : t->a->low;
}

static int32_t seen_end(const attend_tile *t, int32_t query)
{
    return t->a->causal ? position_of(t, query) + 1 : t->a->end;
}

/* Position j, and how many of those from j on lie behind each other there, `row` apart. */
static const float *attend_at(const bs_attend *a, const bs_attend_side *side, int32_t j, int32_t *run, ptrdiff_t *row,
                              ptrdiff_t *step)
{
    if (j >= a->cache_length) {
        *step = side->fresh_step;
        *row = side->fresh_row;
        return side->fresh + (j - a->cache_length) * *row;
    }
    const int32_t at = j % a->window;
    *run = bs_min_i32(*run, bs_min_i32(a->cache_length - j, a->window - at));
    *step = side->ring_step;
    *row = side->ring_row;
    return side->ring + at * *row;
}

static BS_OUTLINE void copy_line(float *to, ptrdiff_t to_step, const float *from, ptrdiff_t from_step, int32_t n)
{
    if (to_step == 1 && from_step == 1)
        memcpy(to, from, (size_t)n * sizeof(float));
    else
        for (int32_t i = 0; i < n; i++)
            to[i * to_step] = from[i * from_step];
}

/* Whether values are known to be numbers. */
static bool attend_finite(const bs_attend *a, int32_t from, int32_t to)
{
    int32_t wild = 0;
    for (int32_t j = from; j < to; j++) {
        int32_t run = 1;
        ptrdiff_t row, step;
        const float *v = attend_at(a, &a->v, j, &run, &row, &step);
        for (int32_t i = 0; i < a->n && step == 1; i++)
            wild |= v[i] - v[i] != 0.0f;
        wild |= step != 1; /* not looked at */
    }
    return !wild;
}

/* Whether values that only some queries see would reach the others, by 0 times infinity. */
static bool attend_leaks(const attend_tile *t)
{
    const int32_t last = t->count - 1;
    return t->a->causal && !(attend_finite(t->a, seen_end(t, 0), seen_end(t, last)) &&
                             attend_finite(t->a, seen_low(t, 0), bs_min_i32(seen_low(t, last), seen_end(t, 0))));
}

/* ----------------------------------------------------------------------------------------------------- scores */

static void take_queries(const attend_tile *t)
{
    const bs_attend *a = t->a;
    for (int32_t r = 0; r < t->count; r++) {
        const int32_t row = (t->first + r) / a->heads, head = (t->first + r) % a->heads;
        const float *from = a->q + row * a->q_row + head * a->n * a->q_step;
        float *to = t->q + r * t->n_step;
        copy_line(to, 1, from, a->q_step, a->n);
        for (int32_t i = 0; i < a->n; i++)
            to[i] *= a->scale;
    }
}

/* [depth][width]: elements k .. k + depth of positions j .. j + columns. */
static void pack_keys(const attend_tile *t, int32_t j, int32_t columns, int32_t k, int32_t depth, int32_t width)
{
    if (columns < width)
        memset(t->panel, 0, (size_t)(depth * width) * sizeof(float));
    for (int32_t c = 0, run; c < columns; c += run) {
        ptrdiff_t row, step;
        run = columns - c;
        const float *from = attend_at(t->a, &t->a->k, j + c, &run, &row, &step) + k * step;
        bs_gather_f32(t->tier, from, step, row, depth, run, t->panel + c, width);
    }
}

static void attend_scores(const attend_tile *t)
{
    const bs_attend *a = t->a;
    for (int32_t c = 0, columns; c < t->keys; c += columns) {
        columns = bs_gemm_next_columns(t->kernels, t->keys - c);
        bs_gemm_tile tile = {.in_step = t->n_step,
                             .weights = t->panel,
                             .out_step = t->step,
                             .columns = columns,
                             .low = -INFINITY,
                             .high = INFINITY,
                             .next = (const char *)t->panel};
        const int32_t vectors = bs_conv_ceil_div(tile.columns, t->kernels->lanes);
        int32_t first = 0, end = t->count;
        while (first < end && seen_end(t, first) <= t->low + c)
            first++;
        while (first < end && seen_low(t, end - 1) >= t->low + c + tile.columns)
            end--;
        for (int32_t k = 0; k < a->n; k += BS_GEMM_DEPTH) {
            tile.depth = bs_conv_min(a->n - k, BS_GEMM_DEPTH);
            tile.in = t->q + first * t->n_step + k;
            tile.out = t->scores + first * t->step + c;
            tile.add_step = k > 0 ? t->step : 0;
            tile.add = k > 0 ? tile.out : bs_gemm_zero;
            pack_keys(t, t->low + c, tile.columns, k, tile.depth, vectors * t->kernels->lanes);
            bs_gemm_run(t->kernels, vectors, end - first, &tile);
        }
    }
}

/* ---------------------------------------------------------------------------------------------------- weights */

static void take_mask(const attend_tile *t)
{
    const bs_attend *a = t->a;
    for (int32_t j = 0; j < t->keys; j++) {
        const ptrdiff_t at = (t->low + j) * a->mask_row;
        t->mask[j] = !a->mask_is_truth ? ((const float *)a->mask)[at]
                     : ((const int32_t *)a->mask)[at] ? 0.0f : -INFINITY;
    }
}

/* Adds to the scores x of a query for the positions low .. low + n. Whether one is left to attend to. */
static bool add_to_scores(const attend_tile *t, int32_t query, float *x, int32_t low, int32_t n)
{
    const bs_attend *a = t->a;
    const int32_t p = position_of(t, query), head = (t->first + query) % a->heads;
    const float *bias = a->bias ? a->bias + head * a->bias_head + p * a->bias_row + low * a->bias_step : NULL;
    const float *mask = t->mask + (low - t->low);
    const float slope =
        a->alibi_heads ? exp2f(-8.0f * (float)(a->first_head + head + 1) / (float)a->alibi_heads) : 0.0f;
    int32_t seen = !bias && !a->mask;
    for (int32_t i = 0; i < n && a->alibi_heads; i++)
        x[i] -= slope * fabsf((float)(p - low - i));
    for (int32_t i = 0; i < n && bias; i++)
        x[i] = bias[i * a->bias_step] == -INFINITY ? -INFINITY : x[i] + bias[i * a->bias_step];
    for (int32_t i = 0; i < n && a->mask; i++)
        x[i] = mask[i] == -INFINITY ? -INFINITY : x[i] + mask[i];
    for (int32_t i = 0; i < n && !seen; i++)
        seen = !(x[i] == -INFINITY);
    return seen;
}

static void attend_weights(const attend_tile *t)
{
    const bool adds = t->a->alibi_heads || t->a->bias || t->a->mask;
    for (int32_t r = 0; r < t->count; r++) {
        const int32_t low = seen_low(t, r), n = seen_end(t, r) - low, before = low - t->low;
        float *x = t->scores + r * t->step;
        if (n > 0 && (!adds || add_to_scores(t, r, x + before, low, n)))
            bs_row_softmax(t->tier, x + before, 1, x + before, 1, n);
        else
            memset(x, 0, (size_t)t->keys * sizeof(float));
        memset(x, 0, (size_t)before * sizeof(float));
        memset(x + before + n, 0, (size_t)(t->keys - before - n) * sizeof(float));
    }
}

/* ----------------------------------------------------------------------------------------------------- values */

/* [depth][width]: elements e .. e + columns of positions j .. j + depth; of keys that are hidden, zeros. */
static void pack_values(const attend_tile *t, int32_t j, int32_t depth, int32_t e, int32_t columns, int32_t width)
{
    if (columns < width)
        memset(t->panel, 0, (size_t)(depth * width) * sizeof(float));
    for (int32_t i = 0, run; i < depth; i += run) {
        ptrdiff_t row, step;
        run = depth - i;
        const float *from = attend_at(t->a, &t->a->v, j + i, &run, &row, &step) + e * step;
        bs_gather_f32(t->tier, from, row, step, run, columns, t->panel + i * width, width);
    }
    for (int32_t i = 0; i < depth && t->a->mask; i++)
        if (t->mask[j + i - t->low] == -INFINITY)
            memset(t->panel + i * width, 0, (size_t)columns * sizeof(float));
}

/* Adds values j .. j + depth, packed, to all queries, or begins with them. Results stand where queries were. */
static void values_by_panel(const attend_tile *t, bs_gemm_tile *tile, int32_t j, int32_t depth, int32_t e, bool leaks)
{
    const int32_t vectors = bs_conv_ceil_div(tile->columns, t->kernels->lanes);
    for (int32_t r = 0, count; r < t->count; r += count) {
        count = leaks ? 1 : bs_gemm_next_rows(t->kernels, vectors, t->count - r).rows;
        const int32_t low = bs_min_i32(bs_max_i32(seen_low(t, r), j), j + depth),
                      end = bs_min_i32(seen_end(t, r + count - 1), j + depth);
        tile->in = t->scores + r * t->step + (low - t->low);
        tile->weights = t->panel + (low - j) * vectors * t->kernels->lanes;
        tile->depth = bs_max_i32(end - low, 0);
        tile->out = t->q + r * t->n_step + e;
        tile->add = tile->add_step ? tile->out : bs_gemm_zero;
        bs_gemm_run(t->kernels, vectors, count, tile);
    }
}

static void attend_values(const attend_tile *t)
{
    const int32_t n = t->a->n;
    const bool leaks = attend_leaks(t);
    for (int32_t j = t->low, depth; j < t->low + t->keys; j += depth) {
        depth = bs_conv_min(t->low + t->keys - j, BS_GEMM_DEPTH - j % BS_GEMM_DEPTH);
        for (int32_t e = 0, columns; e < n; e += columns) {
            columns = bs_gemm_next_columns(t->kernels, n - e);
            bs_gemm_tile tile = {.in_step = t->step,
                                 .out_step = t->n_step,
                                 .add_step = j > t->low ? t->n_step : 0,
                                 .columns = columns,
                                 .low = -INFINITY,
                                 .high = INFINITY,
                                 .next = (const char *)t->panel};
            pack_values(t, j, depth, e, tile.columns,
                        bs_conv_ceil_div(tile.columns, t->kernels->lanes) * t->kernels->lanes);
            values_by_panel(t, &tile, j, depth, e, leaks);
        }
    }
}

static void give_results(const attend_tile *t)
{
    const bs_attend *a = t->a;
    for (int32_t r = 0; r < t->count; r++) {
        const int32_t row = (t->first + r) / a->heads, head = (t->first + r) % a->heads;
        copy_line(a->out + row * a->out_row + head * a->n * a->out_step, a->out_step,
                  t->q + r * t->n_step, 1, a->n);
    }
}

/* Queries from t->first on: as many as their scores leave room for. */
static void cut_tile(attend_tile *t)
{
    const int32_t left = t->a->rows * t->a->heads - t->first;
    t->count = bs_min_i32(left, bs_max_i32(1, bs_min_i32(ATTEND_QUERIES, ATTEND_FLOATS / (int32_t)t->n_step)));
    for (int32_t again = 0; again < 2; again++) {
        t->low = seen_low(t, 0);
        t->keys = seen_end(t, t->count - 1) - t->low;
        t->step = (t->keys + BS_MOST_LANES - 1) / BS_MOST_LANES * BS_MOST_LANES;
        if (t->count * t->step > ATTEND_FLOATS)
            t->count = bs_max_i32(1, ATTEND_FLOATS / (int32_t)t->step);
    }
}

void bs_attend_run(bs_tier tier, const bs_attend *attend)
{
    attend_tile t = {.a = attend, .kernels = bs_conv_kernels_of(tier), .tier = tier};
    t.n_step = (attend->n + BS_MOST_LANES - 1) / BS_MOST_LANES * BS_MOST_LANES;
    t.panel = attend->scratch;
    t.q = t.panel + (ptrdiff_t)panel_width(t.kernels) * BS_GEMM_DEPTH;
    t.scores = t.q + floats_of_queries(t.n_step);
    for (; t.first < attend->rows * attend->heads; t.first += t.count) {
        cut_tile(&t);
        t.mask = t.scores + t.count * t.step;
        take_queries(&t);
        if (t.keys == 0)
            memset(t.q, 0, (size_t)(t.count * t.n_step) * sizeof(float));
        if (attend->mask)
            take_mask(&t);
        attend_scores(&t);
        attend_weights(&t);
        attend_values(&t);
        give_results(&t);
    }
}
