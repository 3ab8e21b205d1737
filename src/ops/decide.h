/* ops/decide.h - the rules of the protocols: what the scores of a row decide, which row is served before which, and
 * which data is refused. run/route.c loops over the rows, the threads of a device (cuda/route_*.cuh) share them; both
 * use these rules.
 * Relies on base/base.h and graph/rows.h. Must never know where rows lie, nor what others chose. */
#ifndef BS_DECIDE_H
#define BS_DECIDE_H

#include "base/base.h"
#include "graph/rows.h"

/* The parameters of a router in words of four bytes. A route step on a device begins with them. */
typedef struct bs_rule {
    int32_t protocol, paths, width; /* width: scores a row */
    int32_t capacity;               /* CAPACITY: rows a path. TABLE: keys. BUDGET: variants */
    int32_t fallback, normalise, floor, spill;
    float threshold;
} bs_rule;

static inline bs_rule bs_rule_of(const bs_route_desc *d, int32_t width)
{
    const bs_rule rule = {d->protocol,
                          d->paths,
                          width,
                          d->protocol == BS_ROUTE_TABLE    ? bs_or_default(d->keys, 256)
                          : d->protocol == BS_ROUTE_BUDGET ? bs_or_default(d->variants, d->paths)
                                                           : d->capacity,
                          d->fallback,
                          d->normalise,
                          d->floor,
                          d->spill,
                          d->threshold};
    return rule;
}

/* What a row chose, in order of choice: a path or -1. */
typedef struct bs_choices {
    int32_t *path;
    float *gate;
    int32_t count; /* most paths of a row */
} bs_choices;

static inline BS_BOTH void bs_choose(const bs_choices *to, int32_t k, int32_t path, float gate)
{
    to->path[k] = path;
    to->gate[k] = gate;
}

/* ------------------------------------------------------------------------------------------------- scores */

/* The scores of a row: i32 or f32. */
typedef struct bs_scores {
    const void *data;
    ptrdiff_t stride; /* in elements */
    bool integer;
} bs_scores;

static inline BS_BOTH int32_t bs_score_int(const bs_scores *x, int32_t i)
{
    return ((const int32_t *)x->data)[i * x->stride];
}

static inline BS_BOTH float bs_score_at(const bs_scores *x, int32_t i)
{
    return x->integer ? (float)bs_score_int(x, i) : ((const float *)x->data)[i * x->stride];
}

/* Whether path a has a better score than path b. Large i32 scores are compared exactly. NaN, which a look-ahead may
 * see, is worse than all others. */
static inline BS_BOTH bool bs_score_above(const bs_scores *x, int32_t a, int32_t b)
{
    if (x->integer)
        return bs_score_int(x, a) > bs_score_int(x, b);
    const float first = bs_score_at(x, a), second = bs_score_at(x, b);
    return first > second || (isnan(second) && !isnan(first));
}

/* Whether path a is worse than path b; of equal scores the lower path is better. */
static inline BS_BOTH bool bs_score_worse(const bs_scores *x, int32_t a, int32_t b)
{
    return bs_score_above(x, b, a) || (a > b && !bs_score_above(x, a, b));
}

/* Adds path p to a heap of n, whose root is the worst path. */
static inline BS_BOTH void bs_heap_put(const bs_scores *x, int32_t *heap, int32_t n, int32_t p)
{
    for (; n > 0 && bs_score_worse(x, p, heap[(n - 1) / 2]); n = (n - 1) / 2)
        heap[n] = heap[(n - 1) / 2];
    heap[n] = p;
}

/* Replaces the root of a heap of n by path p. */
static inline BS_BOTH void bs_heap_sink(const bs_scores *x, int32_t *heap, int32_t n, int32_t p)
{
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && bs_score_worse(x, heap[child + 1], heap[child]))
            child++;
        if (!bs_score_worse(x, heap[child], p))
            break;
        heap[at] = heap[child];
    }
    heap[at] = p;
}

/* Finds the `count` best paths in falling order; of equal scores the lower path comes first. Keeps the best so far in
 * a heap, then sorts it: the worst goes to the end, again and again. */
static inline BS_BOTH void bs_best_paths(const bs_scores *x, int32_t paths, int32_t count, int32_t *best)
{
    int32_t root = 0;
    for (int32_t p = 0; p < paths; p++) { /* an equal later path is worse, so only a better one is taken */
        if (p >= count && !bs_score_above(x, p, root))
            continue;
        if (p < count)
            bs_heap_put(x, best, p, p);
        else
            bs_heap_sink(x, best, count, p);
        root = best[0];
    }
    for (int32_t n = bs_min_i32(count, paths) - 1; n > 0; n--) {
        root = best[0];
        bs_heap_sink(x, best, n, best[n]);
        best[n] = root;
    }
}

/* -------------------------------------------------------------------------------------------------- faults */

/* Why a router cannot decide, or what is wrong with what a caller's function returned. `number` of bs_route_fault
 * is: */
typedef enum bs_route_fault_kind {
    BS_ROUTE_SOUND,
    BS_ROUTE_BAD_SCORE, /* index of a score that is NaN */
    BS_ROUTE_BAD_KNOB,  /* the knob is NaN */
    /* the value below 0, or not below `end`: */
    BS_ROUTE_BAD_LABEL,
    BS_ROUTE_BAD_KEY,
    BS_ROUTE_BAD_ENTRY,   /* a path in the table */
    BS_ROUTE_BAD_VARIANT, /* the path of a variant */
    BS_ROUTE_BAD_ANSWER,  /* a path that the function chose */
    BS_ROUTE_BAD_STATUS,  /* the status that the function returned */
    BS_ROUTE_NO_FUNCTION, /* no function is set */
    /* of a loop, whose bound is `end`: */
    BS_ROUTE_BAD_COUNT,    /* trips of a row */
    BS_ROUTE_ENDLESS,      /* its predicate holds after the last trip that there may be */
    BS_ROUTE_BAD_PREDICATE, /* trip after which it is NaN */
    BS_ROUTE_FULL           /* rows that a row would make: more than there is room for, of `end` */
} bs_route_fault_kind;

typedef struct bs_route_fault {
    int32_t kind; /* bs_route_fault_kind */
    int32_t row;  /* -1: of all rows */
    int32_t number, end;
} bs_route_fault;

/* The fault `kind` if `bad`, else none. */
static inline BS_BOTH bs_route_fault bs_route_fault_if(bool bad, int32_t kind, int32_t row, int32_t number, int32_t end)
{
    const bs_route_fault fault = {bad ? kind : BS_ROUTE_SOUND, row, number, end};
    return fault;
}

/* Checks that a number is 0 .. end - 1. */
static inline BS_BOTH bs_route_fault bs_route_range(int32_t kind, int32_t row, int32_t number, int32_t end)
{
    return bs_route_fault_if(number < 0 || number >= end, kind, row, number, end);
}

static inline BS_BOTH bs_route_fault bs_route_check_scores(const bs_scores *x, int32_t width, int32_t row)
{
    int32_t i = x->integer ? width : 0;
    while (i < width && !isnan(bs_score_at(x, i)))
        i++;
    return bs_route_fault_if(i < width, BS_ROUTE_BAD_SCORE, row, i, width);
}

static inline BS_BOTH bs_route_fault bs_route_check_knob(float knob)
{
    return bs_route_fault_if(isnan(knob), BS_ROUTE_BAD_KNOB, -1, 0, 0);
}

/* Checks the path of each variant: weights come from a file. */
static inline BS_BOTH bs_route_fault bs_route_check_variants(const int32_t *path_of, int32_t variants, int32_t paths)
{
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    for (int32_t v = 0; v < variants && fault.kind == BS_ROUTE_SOUND; v++)
        fault = bs_route_range(BS_ROUTE_BAD_VARIANT, -1, path_of[v], paths);
    return fault;
}

/* -------------------------------------------------------------------------------------------- row by row */

static inline BS_BOTH void bs_decide_topk(const bs_rule *rule, const bs_scores *x, const bs_choices *to)
{
    float sum = 0.0f;
    bs_best_paths(x, rule->paths, to->count, to->path);
    for (int32_t k = 0; k < to->count; k++) {
        to->gate[k] = bs_score_at(x, to->path[k]);
        sum += bs_score_at(x, to->path[k]);
    }
    for (int32_t k = 0; rule->normalise && sum > 0.0f && sum < INFINITY && k < to->count; k++)
        to->gate[k] /= sum;
}

static inline BS_BOTH void bs_decide_threshold(const bs_rule *rule, float threshold, const bs_scores *x,
                                               const bs_choices *to)
{
    const int32_t fallback = rule->fallback - 1;
    int32_t n = 0;
    for (int32_t p = 0; p < rule->paths; p++)
        if (bs_score_at(x, p) > threshold)
            bs_choose(to, n++, p, bs_score_at(x, p));
    if (n == 0 && fallback >= 0)
        bs_choose(to, n++, fallback, bs_score_at(x, fallback));
    for (; n < to->count; n++)
        bs_choose(to, n, -1, 0.0f);
}

static inline BS_BOTH bs_route_fault bs_decide_label(const bs_rule *rule, const bs_scores *x, int32_t row,
                                                     const bs_choices *to)
{
    const int32_t path = bs_read_once(x->data);
    const bs_route_fault fault = bs_route_range(BS_ROUTE_BAD_LABEL, row, path, rule->paths);
    if (fault.kind == BS_ROUTE_SOUND)
        bs_choose(to, 0, path, 1.0f);
    return fault;
}

static inline BS_BOTH bs_route_fault bs_decide_table(const bs_rule *rule, const bs_scores *x, const int32_t *table,
                                                     int32_t row, const bs_choices *to)
{
    const int32_t key = bs_read_once(x->data);
    bs_route_fault fault = bs_route_range(BS_ROUTE_BAD_KEY, row, key, rule->capacity);
    if (fault.kind == BS_ROUTE_SOUND)
        fault = bs_route_range(BS_ROUTE_BAD_ENTRY, row, table[key], rule->paths);
    if (fault.kind == BS_ROUTE_SOUND)
        bs_choose(to, 0, table[key], 1.0f);
    return fault;
}

/* What a row chooses by itself. table: the path of each key. The knob moves the threshold. */
static inline BS_BOTH bs_route_fault bs_decide_row(const bs_rule *rule, float knob, const bs_scores *x,
                                                   const int32_t *table, int32_t row, const bs_choices *to)
{
    const bs_route_fault fault = bs_route_check_scores(x, rule->width, row);
    const float threshold = rule->threshold + knob;
    if (fault.kind != BS_ROUTE_SOUND)
        return fault;
    switch (rule->protocol) {
    case BS_ROUTE_TOP1:
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY: bs_decide_topk(rule, x, to); break;
    case BS_ROUTE_THRESHOLD: bs_decide_threshold(rule, threshold, x, to); break;
    case BS_ROUTE_RESIDUAL_THRESHOLD: {
        const int32_t path = bs_score_at(x, 0) + bs_score_at(x, 1) < threshold ? 0 : 1;
        bs_choose(to, 0, path, bs_score_at(x, path));
        break;
    }
    case BS_ROUTE_BINARY: bs_choose(to, 0, bs_score_at(x, 0) >= threshold ? 0 : 1, bs_score_at(x, 0)); break;
    case BS_ROUTE_LABEL: return bs_decide_label(rule, x, row, to);
    case BS_ROUTE_TABLE: return bs_decide_table(rule, x, table, row, to);
    default: break; /* other protocols do not decide row by row */
    }
    return fault;
}

/* Entry `at` of `chosen` when a route is forced: the path as first choice, then none. */
static inline BS_BOTH int32_t bs_forced_choice(int32_t at, int32_t per_row, int32_t path)
{
    return at % per_row == 0 ? path : -1;
}

/* ------------------------------------------------------------------------------------------------ capacity */

/* Rows are served in ascending order of this rank: the highest gate first. Of equal gates (-0 equals 0) the lower row
 * goes first. */
static inline BS_BOTH uint32_t bs_capacity_rank(float gate)
{
    const float no_sign = gate + 0.0f; /* makes -0 0 */
    uint32_t bits;
    memcpy(&bits, &no_sign, sizeof bits);
    return bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
}

/* Whether a path takes one more row after the `before` rows that it already has. */
static inline BS_BOTH bool bs_capacity_takes(const bs_rule *rule, int32_t path, int32_t before)
{
    return before < rule->capacity || path == rule->spill - 1;
}

/* In order of choice: what found no room (its path is -1) goes to the spill path, or is dropped and leaves no gap. A
 * row goes to the spill path once. Returns how many found no room. */
static inline BS_BOTH int32_t bs_spill(const bs_rule *rule, const bs_choices *of)
{
    const int32_t spill = rule->spill - 1;
    int32_t kept = 0, beyond = 0, spilled = -1;
    for (int32_t k = 0; k < of->count; k++) {
        const int32_t path = of->path[k] < 0 ? spill : of->path[k];
        beyond += of->path[k] < 0;
        if (path < 0)
            continue;
        if (path == spill && spilled >= 0) {
            of->gate[spilled] += of->gate[k];
            continue;
        }
        spilled = path == spill ? kept : spilled;
        bs_choose(of, kept++, path, of->gate[k]);
    }
    for (; kept < of->count; kept++)
        bs_choose(of, kept, -1, 0.0f);
    return beyond;
}

/* ------------------------------------------------------------------------------------------------- packing */

/* Records that entry `at` of `chosen` got the packed row `packed`; -1: it chose no path. */
static inline BS_BOTH void bs_pack_choice(int32_t at, int32_t per_row, int32_t packed, int32_t *ids, int32_t *inverse)
{
    inverse[at] = packed;
    if (packed >= 0)
        ids[packed] = at / per_row;
}

/* ---------------------------------------------------------------------------------------------- look-ahead */

/* How many paths a look-ahead must rank: those that a row takes, and the best of the others. */
static inline BS_BOTH int32_t bs_guess_asks(int32_t taken, int32_t paths) { return bs_min_i32(taken + 1, paths); }

/* How far the k-th best path lies above the best one that is not taken. */
static inline BS_BOTH float bs_guess_margin(const bs_scores *x, const int32_t *best, int32_t taken, int32_t asked,
                                            int32_t k)
{
    const float above = asked > taken ? bs_score_at(x, best[k]) - bs_score_at(x, best[taken]) : 0.0f;
    return above > 0.0f ? above : 0.0f; /* 0 for NaN: it is a choice all the same */
}

/* ---------------------------------------------------------------------------------------------- loops */

/* Which one a row is of those that the same row made, which stand side by side; makers ascend from row to row. */
static inline BS_BOTH int32_t bs_loop_child_of(const int32_t *made_by, int32_t row)
{
    int32_t first = 0, end = made_by[row] < 0 ? 0 : row; /* the first of them is one of first .. end */
    while (first < end) {
        const int32_t middle = first + (end - first) / 2;
        if (made_by[middle] < made_by[row])
            first = middle + 1;
        else
            end = middle;
    }
    return made_by[row] < 0 ? 0 : row - first;
}

#endif
