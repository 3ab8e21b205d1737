/* naive_routes.h - decisions of routers as their definition reads: a part of the oracle (naive.h). */
#ifndef BS_TEST_NAIVE_ROUTES_H
#define BS_TEST_NAIVE_ROUTES_H

#include "naive_graph.h"

static inline int32_t naive_forced(const naive *n, int32_t router)
{
    for (int32_t f = n->desc->n_forces - 1; f >= 0; f--)
        if (strcmp(n->desc->forces[f].router, n->g->routers[router].desc->name) == 0)
            return n->desc->forces[f].path;
    return -1;
}

static inline void naive_choose(naive_choice *c, int32_t path, double gate)
{
    c->path[c->n] = path;
    c->gate[c->n++] = (float)gate;
}

static inline void naive_best(const bs_route_desc *d, int32_t k, const double *score, naive_choice *c)
{
    double order[NAIVE_PATHS], index[NAIVE_PATHS];
    bool taken[NAIVE_PATHS] = {false};
    float sum = 0;
    for (int32_t i = 0; i < k; i++) {
        int32_t best = -1;
        for (int32_t p = 0; p < d->paths; p++)
            if (!taken[p] && (best < 0 || score[p] > score[best]))
                best = p;
        taken[best] = true;
        order[i] = score[best], index[i] = best;
        sum += (float)score[best];
    }
    for (int32_t i = 0; i < k; i++)
        naive_choose(c, (int32_t)index[i],
                     d->normalise && sum > 0 && sum < INFINITY ? (double)((float)order[i] / sum) : order[i]);
}

/* Every path whose score is above the threshold, or the one to fall back to. */
static inline void naive_above(const bs_route_desc *d, double threshold, const double *score, naive_choice *c)
{
    for (int32_t p = 0; p < d->paths; p++)
        if (score[p] > threshold)
            naive_choose(c, p, score[p]);
    if (c->n == 0 && d->fallback)
        naive_choose(c, d->fallback - 1, score[d->fallback - 1]);
}

/* One cell; `knob` is added to the threshold. */
static inline bs_status naive_route_cell(const naive *n, const bs_route_desc *d, const double *score, int32_t width,
                                         float knob, naive_choice *c)
{
    const double threshold = (double)(d->threshold + knob);
    int32_t path = -1;
    for (int32_t i = 0; i < width; i++)
        if (isnan(score[i]))
            return BS_ERROR_DATA;
    switch ((bs_protocol)d->protocol) {
    case BS_ROUTE_TOP1:
        naive_best(d, 1, score, c);
        return BS_OK;
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY:
        naive_best(d, bs_or_default(d->k, 1), score, c);
        return BS_OK;
    case BS_ROUTE_THRESHOLD:
        naive_above(d, threshold, score, c);
        return BS_OK;
    case BS_ROUTE_RESIDUAL_THRESHOLD:
        path = (double)((float)score[0] + (float)score[1]) < threshold ? 0 : 1;
        naive_choose(c, path, score[path]);
        return BS_OK;
    case BS_ROUTE_BINARY:
        naive_choose(c, score[0] >= threshold ? 0 : 1, score[0]);
        return BS_OK;
    case BS_ROUTE_LABEL:
        path = (int32_t)score[0];
        break;
    case BS_ROUTE_TABLE:
        if (score[0] < 0 || score[0] >= bs_or_default(d->keys, 256))
            return BS_ERROR_DATA;
        path = (int32_t)naive_weight(n, d->name, "table", (int64_t)score[0]);
        break;
    case BS_ROUTE_CALLBACK:
        path = n->callback(score, width, d->paths);
        if (path == -1)
            return BS_OK;
        break;
    default:
        return BS_ERROR_UNSUPPORTED;
    }
    if (path < 0 || path >= d->paths)
        return BS_ERROR_DATA;
    naive_choose(c, path, 1);
    return BS_OK;
}

/* A choice that found room, or goes to the spill path: there a cell is once, with the sum of its gates. */
static inline void naive_keep(naive_choice *kept, int32_t path, float gate, int32_t spill)
{
    for (int32_t i = 0; i < kept->n && path == spill; i++)
        if (kept->path[i] == spill) {
            kept->gate[i] += gate;
            return;
        }
    naive_choose(kept, path, (double)gate);
}

/* First choices before second ones; within a path the highest gate, then the lower row; the rest is dropped, or spilled
 * to a path that takes all. */
static inline void naive_capacity(naive *n, int32_t router, const bool *present, int32_t rows)
{
    const bs_route_desc *d = n->g->routers[router].desc;
    naive_choice *all = n->choice[router];
    int32_t used[NAIVE_PATHS] = {0};
    bool *served = naive_take(n, (size_t)rows * NAIVE_PATHS);
    for (int32_t k = 0; k < bs_or_default(d->k, 1); k++)
        for (int32_t p = 0; p < d->paths; p++)
            for (; used[p] < d->capacity || p == d->spill - 1; used[p]++) {
                int32_t best = -1;
                for (int32_t r = 0; r < rows; r++)
                    if (present[r] && all[r].path[k] == p && !served[r * NAIVE_PATHS + k] &&
                        (best < 0 || all[r].gate[k] > all[best].gate[k]))
                        best = r;
                if (best < 0)
                    break;
                served[best * NAIVE_PATHS + k] = true;
            }
    for (int32_t r = 0; r < rows; r++) {
        naive_choice kept = {0, {0}, {0}};
        for (int32_t k = 0; present[r] && k < all[r].n; k++) {
            const bool fits = served[r * NAIVE_PATHS + k];
            n->dropped[router] += !fits;
            if (fits || d->spill > 0)
                naive_keep(&kept, fits ? all[r].path[k] : d->spill - 1, all[r].gate[k], d->spill - 1);
        }
        all[r] = kept;
    }
}

static inline double naive_area(const naive *n, int32_t domain, int32_t row)
{
    const bs_domain *patches = naive_patches(n, domain);
    if (!patches)
        return 1;
    const int64_t size = naive_patch_size(n, patches), across = (n->dims[patches->width] + size - 1) / size;
    const int64_t h = n->dims[patches->height] - row / across * size, w = n->dims[patches->width] - row % across * size;
    return (double)((h < size ? h : size) * (w < size ? w : size));
}

static inline int32_t naive_variants(const bs_route_desc *d) { return d->variants ? d->variants : d->paths; }

/* 2^(step / 8 - 12), in the library's fixed point: 256 stands for 2^-12 ... and the last step for "whatever it
 * costs". */
static inline int32_t naive_budget_choice(const naive *n, const bs_route_desc *d, const double *loss, int32_t step,
                                          double most)
{
    static const double mantissa[8] = {256, 279, 304, 332, 362, 395, 431, 470};
    int32_t best = -1;
    for (int32_t p = 0; p < naive_variants(d); p++) {
        if (loss[p] > most)
            continue;
        const double cost_p = naive_weight(n, d->name, "cost", p),
                     cost_best = best < 0 ? 0 : naive_weight(n, d->name, "cost", best);
        const double price = ldexp(mantissa[step & 7], (step >> 3) - 20);
        const bool cheaper = best < 0 || cost_p + price * loss[p] < cost_best + price * loss[best];
        const bool better = best < 0 || loss[p] < loss[best] || (loss[p] == loss[best] && cost_p < cost_best);
        best = (step == 200 ? better : cheaper) ? p : best;
    }
    return best;
}

/* alone: the step at which the budget is kept without a floor, -1 where that is what is sought. With a floor a cell
 * loses at most eight times as much, or as much as then. */
static inline int32_t naive_floor_choice(const naive *n, const bs_route_desc *d, const double *loss, int32_t step,
                                         int32_t alone)
{
    if (alone < 0)
        return naive_budget_choice(n, d, loss, step, INFINITY);
    double least = INFINITY;
    for (int32_t p = 0; p < naive_variants(d); p++)
        least = fmin(least, loss[p]);
    return naive_budget_choice(n, d, loss, step,
                               fmax(least + 8.0 * d->floor, loss[naive_budget_choice(n, d, loss, alone, INFINITY)]));
}

/* The first step, from the lowest price upwards, whose losses are allowed. */
static inline int32_t naive_budget_step(const naive *n, const bs_router_info *info, double allowed, int32_t alone)
{
    double loss = INFINITY;
    int32_t step = -1;
    while (loss > allowed && step < 200) {
        loss = 0;
        step++;
        for (int32_t r = 0; r < n->rows[info->domain]; r++)
            if (n->present[info->domain][r])
                loss += naive_area(n, info->domain, r) * n->cell[info->score][r][naive_floor_choice(
                                                             n, info->desc, n->cell[info->score][r], step, alone)];
    }
    return step;
}

static inline void naive_budget(naive *n, int32_t router, double share)
{
    const bs_router_info *info = &n->g->routers[router];
    const bs_route_desc *d = info->desc;
    double given = 0, unseen = 0, unavoidable = 0;
    for (int32_t r = 0; r < n->rows[info->domain]; r++) {
        const double *score = n->cell[info->score][r];
        double low = INFINITY, high = 0;
        if (!n->present[info->domain][r])
            continue;
        for (int32_t p = 0; p < naive_variants(d); p++) {
            low = score[p] < low ? score[p] : low;
            if (d->baseline == 0 || d->baseline == p + 1)
                high = score[p] > high ? score[p] : high;
        }
        given += naive_area(n, info->domain, r) * (high - low);
        unseen += naive_area(n, info->domain, r) * d->floor;
        unavoidable += naive_area(n, info->domain, r) * low;
    }
    given = floor(given * (share < 0 ? 0 : share > 1 ? 1 : share));
    const int32_t without = naive_budget_step(n, info, given + unavoidable, -1), alone = unseen > given ? without : -1;
    const int32_t step = alone < 0 ? without : naive_budget_step(n, info, unseen + unavoidable, alone);
    for (int32_t r = 0; r < n->rows[info->domain]; r++) {
        const double *score = n->cell[info->score][r];
        const int32_t variant = n->present[info->domain][r] ? naive_floor_choice(n, d, score, step, alone) : 0;
        if (n->present[info->domain][r])
            naive_choose(&n->choice[router][r], (int32_t)naive_weight(n, d->name, "path", variant), score[variant]);
    }
    n->price[router] = 12.0 - step / 8.0;
}

/* How near the scores of router r came to each other and to its threshold; with a capacity, those of rows, too. */
static inline void naive_scores_decide(naive *n, int32_t router, double threshold)
{
    const bs_router_info *info = &n->g->routers[router];
    const bool *present = n->present[info->domain];
    const int64_t width = naive_elements(n, info->score);
    for (int32_t r = 0; r < n->rows[info->domain]; r++) {
        const double *line = n->cell[info->score][r];
        if (!present[r])
            continue;
        naive_all_decide(n, line, width);
        for (int64_t i = 0; i < width; i++) {
            naive_decides(n, line[i], threshold);
            for (int32_t other = 0; other < r && info->desc->protocol == BS_ROUTE_CAPACITY; other++)
                if (present[other]) {
                    naive_decides(n, line[i], n->cell[info->score][other][i]);
                    n->tied = n->tied || line[i] == n->cell[info->score][other][i];
                }
        }
    }
}

static inline void naive_route(naive *n, int32_t router)
{
    const bs_router_info *info = &n->g->routers[router];
    const int32_t rows = n->rows[info->domain], forced = naive_forced(n, router),
                  width = (int32_t)naive_elements(n, info->score);
    const bool *present = n->present[info->domain];
    const float knob = info->knob ? (float)n->cell[info->knob][0][0] : 0.0f;
    const naive_choice *old = n->choice[router]; /* of the trip before, in a loop */
    n->choice[router] = naive_take(n, (size_t)rows * sizeof(naive_choice));
    if (isnan(knob) && forced < 0)
        n->status = BS_ERROR_DATA;
    if (forced < 0)
        naive_scores_decide(n, router, (double)(info->desc->threshold + knob));
    if (forced < 0 && info->desc->protocol == BS_ROUTE_BUDGET)
        naive_budget(n, router, (double)knob);
    for (int32_t r = 0; r < rows && info->desc->protocol != BS_ROUTE_BUDGET; r++) /* that one looks at all cells */
        if (present[r] && forced < 0 && n->status == BS_OK)
            n->status = naive_route_cell(n, info->desc, n->cell[info->score][r], width, knob, &n->choice[router][r]);
    for (int32_t r = 0; r < rows; r++)
        if (present[r] && forced >= 0)
            naive_choose(&n->choice[router][r], forced, 1);
    if (forced < 0 && info->desc->protocol == BS_ROUTE_CAPACITY && n->status == BS_OK)
        naive_capacity(n, router, present, rows);
    for (int32_t r = 0; r < rows; r++)
        for (int32_t k = 0; k < n->choice[router][r].n; k++)
            n->counts[router][n->choice[router][r].path[k]]++;
    for (int32_t d = 1; d < n->g->n_domains; d++)
        for (int32_t r = 0; n->g->domains[d].kind == BS_DOMAIN_PATH && n->g->domains[d].router == router && r < rows;
             r++)
            for (int32_t k = 0; k < n->choice[router][r].n; k++)
                n->present[d][r] = n->present[d][r] || n->choice[router][r].path[k] == n->g->domains[d].path;
    for (int32_t r = 0; old && r < rows; r++)
        if (!present[r])
            n->choice[router][r] = old[r];
}

#endif
