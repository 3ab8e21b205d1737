/* run/budget.c - the budget protocol: for each cell the variant of least cost at the price that keeps the budget.
 * Relies on run/routing.h. Must never use floats where a choice depends on them: it is the same on every processor. */
#include "run/routing.h"

/* Each cell minimises cost + price x loss. The price runs over 2^(t/8 - 12), so the choice is made in integers and is
 * the same everywhere; the smallest price whose losses fit the budget is taken. At the last one loss alone counts: that
 * fits every budget. */
#define BUDGET_STEPS 200
static const uint16_t budget_mantissa[8] = {256, 279, 304, 332, 362, 395, 431, 470}; /* 256 x 2^(i/8) */

/* 0: the last. */
static uint64_t budget_weight(int32_t t)
{
    return t == BUDGET_STEPS ? 0 : (uint64_t)budget_mantissa[t & 7] << (t >> 3);
}

static uint64_t budget_loss_of(const bs_operand *o, int32_t v)
{
    return (uint64_t)bs_clamp_i32(bs_score_int(o, v), 0, 1 << 24);
}

/* The variant of least cost + price x loss, of those that lose at most `most`; the lower of equals. */
static int32_t budget_cheapest(const bs_routing *r, const bs_operand *o, uint64_t weight, uint64_t most)
{
    int32_t best = 0;
    uint64_t best_total = UINT64_MAX;
    for (int32_t v = 0; v < r->variants; v++) {
        const uint64_t loss = budget_loss_of(o, v), cost = (uint64_t)bs_clamp_i32(r->table[v], 0, 1 << 24);
        const uint64_t total = weight ? (cost << 20) + loss * weight : (loss << 25) + cost;
        if (total < best_total && loss <= most)
            best = v, best_total = total;
    }
    return best;
}

/* A floor is for the frame; of one cell it takes FLOOR_CELL times as much (9 dB), or what the budget alone would. */
#define FLOOR_CELL 8
static int32_t budget_choice(const bs_routing *r, const bs_operand *o, uint64_t weight)
{
    if (!r->floored)
        return budget_cheapest(r, o, weight, UINT64_MAX);
    const uint64_t alone = budget_loss_of(o, budget_cheapest(r, o, r->alone, UINT64_MAX));
    const uint64_t cell = budget_loss_of(o, budget_cheapest(r, o, 0, UINT64_MAX)) +
                          FLOOR_CELL * (uint64_t)r->desc->floor;
    return budget_cheapest(r, o, weight, alone > cell ? alone : cell);
}

/* A patch counts by its area, any other cell as one. */
static uint64_t cell_weight(const bs_routing *r, int32_t row)
{
    const bs_session *s = r->c->session;
    const int32_t domain = s->graph->routers[r->router].domain, patches = s->graph->domains[domain].patches;
    if (patches < 0)
        return 1;
    const bs_domain *d = &s->graph->domains[patches];
    const int64_t size = s->plan->domains[patches].size, h = s->dims[d->height], w = s->dims[d->width];
    const int64_t across = bs_ceil_div(w, size), top = bs_top_row(r->c, domain, row);
    return (uint64_t)(bs_min_i64(size, h - top / across * size) * bs_min_i64(size, w - top % across * size));
}

static uint64_t budget_loss(const bs_routing *r, uint64_t weight)
{
    uint64_t loss = 0;
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_operand o = bs_score_row(r, row);
        loss += cell_weight(r, row) *
                (uint64_t)bs_clamp_i32(bs_score_int(&o, budget_choice(r, &o, weight)), 0, 1 << 24);
    }
    return loss;
}

/* What the budget is a share of: the sum over cells of what the baseline loses against the best one. best: the losses
 * that cannot be avoided. cells: how many there are, by their weights. */
static uint64_t budget_range(const bs_routing *r, uint64_t *best, uint64_t *cells)
{
    uint64_t range = 0;
    *best = *cells = 0;
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_operand o = bs_score_row(r, row);
        int32_t low = 1 << 24, high = 0;
        for (int32_t v = 0; v < r->variants; v++) {
            const int32_t loss = bs_clamp_i32(bs_score_int(&o, v), 0, 1 << 24);
            low = bs_min_i32(low, loss);
            high = r->desc->fallback == 0 || r->desc->fallback == v + 1 ? bs_max_i32(high, loss) : high;
        }
        range += cell_weight(r, row) * (uint64_t)(high - low);
        *best += cell_weight(r, row) * (uint64_t)low;
        *cells += cell_weight(r, row);
    }
    return range;
}

/* Weights come from a file: a variant may name a path that there is not. */
bs_status bs_budget_paths_exist(const bs_routing *r)
{
    bs_status status = BS_OK;
    for (int32_t v = 0; v < r->variants && status == BS_OK; v++)
        status = bs_route_range(r, -1, "a variant takes path", r->path_of[v], r->desc->paths);
    return status;
}

/* The lowest price from 0 to `high` at which the losses fit; `high` where none does. The loss falls as the price
 * rises. */
static int32_t budget_price(const bs_routing *r, int32_t high, uint64_t allowed)
{
    int32_t low = 0;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (budget_loss(r, budget_weight(middle)) <= allowed)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int32_t bs_route_budget(const bs_routing *r)
{
    uint64_t best, cells;
    bs_routing with = *r;
    const float share = r->knob < 0 ? 0 : r->knob > 1 ? 1 : r->knob;
    const uint64_t range = budget_range(r, &best, &cells), given = (uint64_t)((double)share * (double)range);
    const uint64_t unseen = cells * (uint64_t)r->desc->floor;
    int32_t price = budget_price(r, BUDGET_STEPS, given + best);
    if (unseen > given) { /* what the budget alone chose stays within reach, so a floor never costs anything */
        with.floored = true;
        with.alone = budget_weight(price);
        price = budget_price(&with, price, unseen + best);
    }
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_operand o = bs_score_row(r, row);
        const int32_t variant = budget_choice(&with, &o, budget_weight(price));
        bs_route_choose(r, row, 0, r->path_of[variant], (float)bs_clamp_i32(bs_score_int(&o, variant), 0, 1 << 24));
    }
    return price;
}
