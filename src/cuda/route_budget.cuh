/* route_budget.cuh - the protocol BUDGET: the smallest price at which the losses of all rows together fit.
 * As in run/route.c: integers only, so the choice is the same everywhere. Looks at all rows at once. Relies on
 * route_scores.cuh. Must never follow a table of paths that it has not checked: weights come from a file. */
#ifndef BS_CUDA_ROUTE_BUDGET
#define BS_CUDA_ROUTE_BUDGET

#include "cuda/route_scores.cuh"

enum { BS_CU_BUDGET_STEPS = 200, BS_CU_FLOOR_CELL = 8 };

/* As in run/route.c: integers only, so the choice is the same everywhere. */
__device__ inline uint64_t bs_cu_budget_weight(int32_t t)
{
    const int32_t i = t & 7;
    const uint64_t mantissa = i == 0   ? 256
                              : i == 1 ? 279
                              : i == 2 ? 304
                              : i == 3 ? 332
                              : i == 4 ? 362
                              : i == 5 ? 395
                              : i == 6 ? 431
                                       : 470;
    return t == BS_CU_BUDGET_STEPS ? 0 : mantissa << (t >> 3);
}

/* Estimated losses of a row: staged, or where they are. */
struct bs_cu_losses {
    const int32_t *data;
    int32_t stride;
};

__device__ __forceinline__ bs_cu_losses bs_cu_losses_of(const bs_cu_router &r, int32_t row)
{
    const int32_t pitch = r.s->p[BS_CU_P_WIDTH].i | 1;
    bs_cu_losses l;
    if (r.rows <= r.stage_words / pitch) {
        l.data = reinterpret_cast<const int32_t *>(r.stage + row * pitch);
        l.stride = 1;
    } else {
        l.data = reinterpret_cast<const int32_t *>(bs_cu_row(*r.t, r.score, row));
        l.stride = r.score->stride[0];
    }
    return l;
}

__device__ __forceinline__ int32_t bs_cu_loss(const bs_cu_losses &l, int32_t v)
{
    return min(max(l.data[(int64_t)v * l.stride], 0), 1 << 24);
}

/* The variant of least cost + price x loss, of those that lose at most `most`; the lower of equals. */
__device__ inline int32_t bs_cu_budget_cheapest(const bs_cu_router &r, const bs_cu_losses &l, uint64_t weight,
                                                uint64_t most)
{
    const int32_t *costs = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s)),
                  variants = r.s->p[BS_CU_P_CAPACITY].i;
    int32_t best = 0;
    uint64_t best_total = UINT64_MAX;
    for (int32_t v = 0; v < variants; v++) {
        const uint64_t loss = (uint64_t)bs_cu_loss(l, v), cost = (uint64_t)min(max(costs[v], 0), 1 << 24);
        const uint64_t total = weight ? (cost << 20) + loss * weight : (loss << 25) + cost;
        if (total < best_total && loss <= most)
            best = v, best_total = total;
    }
    return best;
}

/* A floor is for the frame; of one cell it takes so many times as much, or what the budget alone would. */
__device__ inline int32_t bs_cu_budget_choice(const bs_cu_router &r, const bs_cu_losses &l, uint64_t weight)
{
    if (!r.floored)
        return bs_cu_budget_cheapest(r, l, weight, UINT64_MAX);
    const uint64_t alone = (uint64_t)bs_cu_loss(l, bs_cu_budget_cheapest(r, l, r.alone, UINT64_MAX));
    const uint64_t least = (uint64_t)bs_cu_loss(l, bs_cu_budget_cheapest(r, l, 0, UINT64_MAX));
    const uint64_t cell = least + BS_CU_FLOOR_CELL * (uint64_t)r.s->p[BS_CU_P_FLOOR].i;
    return bs_cu_budget_cheapest(r, l, weight, alone > cell ? alone : cell);
}

/* A patch counts by its area, any other cell as one. */
__device__ inline uint64_t bs_cu_cell_weight(const bs_cu_router &r, int32_t row)
{
    if (r.s->p[BS_CU_P_PATCHES].i < 0)
        return 1;
    const int32_t size = r.s->p[BS_CU_P_SIZE].i, h = r.s->p[BS_CU_P_HEIGHT].i, w = r.s->p[BS_CU_P_FRAME_WIDTH].i;
    const int32_t across = (w + size - 1) / size, top = bs_cu_top_row(*r.t, r.s->domain, row);
    return (uint64_t)((int64_t)min(size, h - top / across * size) * min(size, w - top % across * size));
}

__device__ inline uint64_t bs_cu_budget_loss(const bs_cu_router &r, uint64_t weight)
{
    uint64_t loss = 0;
    for (int32_t row = (int32_t)threadIdx.x; row < r.rows; row += (int32_t)blockDim.x) {
        const bs_cu_losses l = bs_cu_losses_of(r, row);
        loss += bs_cu_cell_weight(r, row) * (uint64_t)bs_cu_loss(l, bs_cu_budget_choice(r, l, weight));
    }
    return bs_cu_sum_threads(r.shared, loss);
}

/* What the budget is a share of: the sum over cells of what the baseline loses against the best one. best: the losses
 * that cannot be avoided. cells: how many there are, by their weights. */
__device__ inline uint64_t bs_cu_budget_range(const bs_cu_router &r, uint64_t *best, uint64_t *cells)
{
    const int32_t variants = r.s->p[BS_CU_P_CAPACITY].i, baseline = r.s->p[BS_CU_P_FALLBACK].i;
    uint64_t range = 0, least = 0, count = 0;
    for (int32_t row = (int32_t)threadIdx.x; row < r.rows; row += (int32_t)blockDim.x) {
        const bs_cu_losses l = bs_cu_losses_of(r, row);
        int32_t low = 1 << 24, high = 0;
        for (int32_t v = 0; v < variants; v++) {
            const int32_t loss = bs_cu_loss(l, v);
            low = min(low, loss);
            high = baseline == 0 || baseline == v + 1 ? max(high, loss) : high;
        }
        range += bs_cu_cell_weight(r, row) * (uint64_t)(int64_t)(high - low);
        least += bs_cu_cell_weight(r, row) * (uint64_t)low;
        count += bs_cu_cell_weight(r, row);
    }
    *best = bs_cu_sum_threads(r.shared, least);
    *cells = bs_cu_sum_threads(r.shared, count);
    return bs_cu_sum_threads(r.shared, range);
}

/* The lowest price from 0 to `high` at which the losses fit; `high` where none does. */
__device__ inline int32_t bs_cu_budget_price(const bs_cu_router &r, int32_t high, uint64_t allowed)
{
    int32_t low = 0;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (bs_cu_budget_loss(r, bs_cu_budget_weight(middle)) <= allowed)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The smallest price whose losses fit. All threads; whether the tables make sense. */
__device__ inline bool bs_cu_decide_budget(const bs_cu_router &r)
{
    const int32_t variants = r.s->p[BS_CU_P_CAPACITY].i, pitch = r.s->p[BS_CU_P_WIDTH].i | 1;
    const int32_t *path_of = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s) + r.s->p[BS_CU_P_PATHS_AT].i);
    const float share = r.knob < 0.0f ? 0.0f : r.knob > 1.0f ? 1.0f : r.knob;
    uint64_t best, cells;
    bs_cu_router with = r;
    for (int32_t v = 0; v < variants; v++) /* weights come from a file */
        if (path_of[v] < 0 || path_of[v] >= r.d.paths)
            return false;
    if (r.rows <= r.stage_words / pitch)
        bs_cu_stage_scores(r, 0, r.rows, pitch);
    __syncthreads();
    const uint64_t range = bs_cu_budget_range(r, &best, &cells), given = (uint64_t)((double)share * (double)range);
    const uint64_t unseen = cells * (uint64_t)r.s->p[BS_CU_P_FLOOR].i;
    int32_t price = bs_cu_budget_price(r, BS_CU_BUDGET_STEPS, given + best);
    if (unseen > given) {
        with.floored = true;
        with.alone = bs_cu_budget_weight(price);
        price = bs_cu_budget_price(with, price, unseen + best);
    }
    for (int32_t row = (int32_t)threadIdx.x; row < r.rows; row += (int32_t)blockDim.x) {
        const bs_cu_losses l = bs_cu_losses_of(r, row);
        const int32_t variant = bs_cu_budget_choice(with, l, bs_cu_budget_weight(price));
        bs_cu_choose(r, row, 0, path_of[variant], (float)bs_cu_loss(l, variant));
    }
    if (threadIdx.x == 0)
        *r.d.price = __fsub_rn(12.0f, (float)price / 8.0f);
    return true;
}

#endif
