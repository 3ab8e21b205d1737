/* route_budget.cuh - the protocol BUDGET: finds the price by sums over the rows, which the threads share.
 * Looks at all rows at once. Relies on route_scores.cuh and ops/price.h. Must never follow a table of paths that it has
 * not checked: weights come from a file. */
#ifndef BS_CUDA_ROUTE_BUDGET
#define BS_CUDA_ROUTE_BUDGET

#include "cuda/route_scores.cuh"

/* All rows are staged, if they fit. */
__device__ __forceinline__ bool bs_cu_losses_staged(const bs_cu_router &r)
{
    return r.rows <= r.stage_words / bs_cu_stage_pitch(r);
}

__device__ __forceinline__ bs_scores bs_cu_losses_of(const bs_cu_router &r, int32_t row)
{
    return bs_cu_losses_staged(r) ? bs_cu_staged(r, row) : bs_cu_scores_of(*r.t, r.score, row);
}

/* A patch counts by its area, any other cell as one. */
__device__ inline uint64_t bs_cu_cell_weight(const bs_cu_router &r, int32_t row)
{
    const int32_t size = r.s->p[BS_CU_P_SIZE].i, *dims = r.t->program->dims;
    return size == 0 ? 1
                     : bs_patch_area(size, dims[r.s->p[BS_CU_P_HEIGHT].i], dims[r.s->p[BS_CU_P_FRAME_WIDTH].i],
                                     bs_cu_top_row(*r.t, r.s->domain, row));
}

__device__ inline uint64_t bs_cu_all_losses(const bs_cu_router &r, const bs_budget &b)
{
    const uint64_t price = bs_budget_price(&b);
    uint64_t losses = 0;
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_scores x = bs_cu_losses_of(r, row);
        losses += bs_cu_cell_weight(r, row) * (uint64_t)bs_loss(&x, bs_budget_choice(&b, &x, price));
    }
    return bs_cu_sum_threads(r.shared->sums, losses);
}

/* Called by all threads; returns whether the tables are valid. */
__device__ inline bool bs_cu_decide_budget(const bs_cu_router &r)
{
    const uint8_t *tables = bs_cu_prepared(*r.t, r.s);
    const int32_t *path_of = reinterpret_cast<const int32_t *>(tables + r.s->p[BS_CU_P_PATHS_AT].i);
    bs_budget b = {bs_cu_rule(r.s), reinterpret_cast<const int32_t *>(tables), 0, 0, -1, 0, 0};
    bs_budget_sums sums = {0, 0, 0};
    if (bs_route_check_variants(path_of, b.rule->capacity, r.d.paths).kind != BS_ROUTE_SOUND)
        return false;
    if (bs_cu_losses_staged(r))
        bs_cu_stage_scores(r, 0, r.rows);
    __syncthreads();
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_scores x = bs_cu_losses_of(r, row);
        bs_budget_add(&b, &x, bs_cu_cell_weight(r, row), &sums);
    }
    sums.best = bs_cu_sum_threads(r.shared->sums, sums.best);
    sums.rows = bs_cu_sum_threads(r.shared->sums, sums.rows);
    sums.range = bs_cu_sum_threads(r.shared->sums, sums.range);
    bs_budget_begin(&b, r.knob, &sums);
    while (bs_budget_asks(&b))
        bs_budget_step(&b, bs_cu_all_losses(r, b));
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_scores x = bs_cu_losses_of(r, row);
        const bs_choices to = bs_cu_choices(r, row);
        const int32_t variant = bs_budget_choice(&b, &x, bs_budget_price(&b));
        bs_choose(&to, 0, path_of[variant], (float)bs_loss(&x, variant));
    }
    if (threadIdx.x == 0)
        *r.d.price = bs_budget_published(&b);
    return true;
}

#endif
