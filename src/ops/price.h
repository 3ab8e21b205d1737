/* ops/price.h - the arithmetic of the budget protocol: for each row the variant of least cost, at the price that keeps
 * the budget. The callers sum over rows: run/budget.c, and the threads of a device (cuda/route_budget.cuh).
 * Relies on ops/decide.h. Must never use floats where a choice depends on them: choices are the same on every
 * processor. */
#ifndef BS_PRICE_H
#define BS_PRICE_H

#include "ops/decide.h"

/* Each row minimises cost + price x loss. The price goes through 2^(t/8 - 12), so the choice is made in integers and
 * is the same everywhere; the smallest price at which the losses fit the budget is taken. At the last step only the
 * loss counts, which fits every budget. */
#define BS_BUDGET_STEPS 200
/* A floor is an average over the frame. One row may lose this many times as much (9 dB), or what it would lose by the
 * budget alone. */
#define BS_FLOOR_ROW 8

typedef struct bs_budget {
    const bs_rule *rule;
    const int32_t *costs; /* of the variants */
    int32_t low, high;    /* search interval of the price's step */
    int32_t alone;        /* where the floor allows more than the budget: the step that keeps the budget; else -1 */
    uint64_t allowed;     /* losses that the search allows now */
    uint64_t floor;       /* losses that the floor allows */
} bs_budget;

/* Sums over all rows by weight. best: losses of the best variants. range: what the baseline loses beyond these. */
typedef struct bs_budget_sums {
    uint64_t range, best, rows;
} bs_budget_sums;

/* A patch counts by its area; at the frame's edge, by the part inside the frame. */
static inline BS_BOTH uint64_t bs_patch_area(int32_t size, int32_t height, int32_t width, int32_t patch)
{
    const int32_t across = (width + size - 1) / size;
    return (uint64_t)((int64_t)bs_min_i32(size, height - patch / across * size) *
                      bs_min_i32(size, width - patch % across * size));
}

/* Weight of the loss at step t; 0 stands for the last step, at which only the loss counts. */
static inline BS_BOTH uint64_t bs_budget_weight(int32_t t)
{
    /* 256 x 2^(i/8) - 256, a byte each */
    const uint64_t beyond = (uint64_t)23 << 8 | (uint64_t)48 << 16 | (uint64_t)76 << 24 | (uint64_t)106 << 32 |
                            (uint64_t)139 << 40 | (uint64_t)175 << 48 | (uint64_t)214 << 56;
    return t == BS_BUDGET_STEPS ? 0 : (256 + (beyond >> 8 * (t & 7) & 255)) << (t >> 3);
}

/* Limits a loss or a cost. */
static inline BS_BOTH int32_t bs_budget_clamp(int32_t n) { return bs_clamp_i32(n, 0, 1 << 24); }
static inline BS_BOTH int32_t bs_loss(const bs_scores *x, int32_t v) { return bs_budget_clamp(bs_score_int(x, v)); }

/* The variant of least cost + price x loss among those that lose at most `most`; the lower of equal ones. */
static inline BS_BOTH int32_t bs_budget_cheapest(const bs_budget *b, const bs_scores *x, uint64_t weight, uint64_t most)
{
    const int32_t variants = b->rule->capacity;
    int32_t best = 0;
    uint64_t best_total = UINT64_MAX;
    for (int32_t v = 0; v < variants; v++) {
        const uint64_t loss = (uint64_t)bs_loss(x, v), cost = (uint64_t)bs_budget_clamp(b->costs[v]);
        const uint64_t total = weight ? (cost << 20) + loss * weight : (loss << 25) + cost;
        if (total < best_total && loss <= most)
            best = v, best_total = total;
    }
    return best;
}

static inline BS_BOTH int32_t bs_budget_choice(const bs_budget *b, const bs_scores *x, uint64_t weight)
{
    if (b->alone < 0)
        return bs_budget_cheapest(b, x, weight, UINT64_MAX);
    const uint64_t alone = (uint64_t)bs_loss(x, bs_budget_cheapest(b, x, bs_budget_weight(b->alone), UINT64_MAX));
    const uint64_t least = (uint64_t)bs_loss(x, bs_budget_cheapest(b, x, 0, UINT64_MAX));
    const uint64_t row = least + BS_FLOOR_ROW * (uint64_t)b->rule->floor;
    return bs_budget_cheapest(b, x, weight, alone > row ? alone : row);
}

static inline BS_BOTH void bs_budget_add(const bs_budget *b, const bs_scores *x, uint64_t weight, bs_budget_sums *sums)
{
    const int32_t baseline = b->rule->fallback;
    int32_t low = 1 << 24, high = 0;
    for (int32_t v = 0; v < b->rule->capacity; v++) {
        const int32_t loss = bs_loss(x, v);
        low = bs_min_i32(low, loss);
        high = baseline == 0 || baseline == v + 1 ? bs_max_i32(high, loss) : high;
    }
    sums->range += weight * (uint64_t)(high - low);
    sums->best += weight * (uint64_t)low;
    sums->rows += weight;
}

/* Begins the search for the lowest price at which the losses keep the budget, which is a share of the range. */
static inline BS_BOTH void bs_budget_begin(bs_budget *b, float knob, const bs_budget_sums *sums)
{
    const float share = knob < 0.0f ? 0.0f : knob > 1.0f ? 1.0f : knob;
    b->allowed = sums->best + (uint64_t)((double)share * (double)sums->range);
    b->floor = sums->best + sums->rows * (uint64_t)b->rule->floor;
    b->low = 0;
    b->high = BS_BUDGET_STEPS;
    b->alone = -1;
}

/* Whether the search needs the losses at bs_budget_price(). Losses fall as the price rises. Where the floor allows
 * more than the budget, a second search goes on below the first result; rows may still lose what the budget alone let
 * them lose, so a floor never makes the result more expensive. */
static inline BS_BOTH bool bs_budget_asks(bs_budget *b)
{
    if (b->low == b->high && b->floor > b->allowed) {
        b->allowed = b->floor;
        b->alone = b->low;
        b->low = 0;
    }
    return b->low < b->high;
}

static inline BS_BOTH uint64_t bs_budget_price(const bs_budget *b) { return bs_budget_weight((b->low + b->high) / 2); }

static inline BS_BOTH void bs_budget_step(bs_budget *b, uint64_t losses)
{
    const int32_t middle = (b->low + b->high) / 2;
    if (losses <= b->allowed)
        b->high = middle;
    else
        b->low = middle + 1;
}

/* What bs_route_price gives: log2 of the loss for a unit of cost, which is minus that of the price: 12 - t/8,
 * exactly. */
static inline BS_BOTH float bs_budget_published(const bs_budget *b) { return (float)(96 - b->low) / 8.0f; }

#endif
