/* run/budget.c - the budget protocol: sums over all cells, by which the price is found that keeps the budget.
 * Relies on run/routing.h. Must never weigh losses itself: that is ops/price.h. */
#include "run/routing.h"

/* A patch counts by its area, any other cell as one. */
static uint64_t cell_weight(const bs_routing *r, int32_t row)
{
    const bs_session *s = r->c->session;
    const int32_t domain = s->graph->routers[r->router].domain, patches = s->graph->domains[domain].patches;
    if (patches < 0)
        return 1;
    const bs_domain *d = &s->graph->domains[patches];
    return bs_patch_area(s->plan->domains[patches].size, (int32_t)s->dims[d->height], (int32_t)s->dims[d->width],
                         bs_top_row(r->c, domain, row));
}

static uint64_t all_losses(const bs_routing *r, const bs_budget *b)
{
    const uint64_t price = bs_budget_price(b);
    uint64_t losses = 0;
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_scores x = bs_scores_at(r, row);
        losses += cell_weight(r, row) * (uint64_t)bs_loss(&x, bs_budget_choice(b, &x, price));
    }
    return losses;
}

bs_route_fault bs_route_budget(const bs_routing *r)
{
    bs_budget b = {.rule = &r->rule, .costs = r->table};
    bs_budget_sums sums = {0, 0, 0};
    const bs_route_fault fault = bs_route_check_variants(r->path_of, r->rule.capacity, r->rule.paths);
    if (fault.kind != BS_ROUTE_SOUND)
        return fault;
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_scores x = bs_scores_at(r, row);
        bs_budget_add(&b, &x, cell_weight(r, row), &sums);
    }
    bs_budget_begin(&b, r->knob, &sums);
    while (bs_budget_asks(&b))
        bs_budget_step(&b, all_losses(r, &b));
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_scores x = bs_scores_at(r, row);
        const bs_choices to = bs_choices_of(r->d, row);
        const int32_t variant = bs_budget_choice(&b, &x, bs_budget_price(&b));
        bs_choose(&to, 0, r->path_of[variant], (float)bs_loss(&x, variant));
    }
    r->d->price = bs_budget_published(&b);
    return fault;
}
