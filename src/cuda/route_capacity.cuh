/* route_capacity.cuh - the protocol CAPACITY, once rows have their choices: a path keeps those of the highest gates.
 * Looks at all rows at once. Relies on route_pack.cuh and sort.cuh. Must never let the order in which threads arrive
 * decide. */
#ifndef BS_CUDA_ROUTE_CAPACITY
#define BS_CUDA_ROUTE_CAPACITY

#include "cuda/route_pack.cuh"
#include "cuda/sort.cuh"

/* The order in which rows are served, as keys of which no two are equal. */
enum { BS_CU_CAPACITY_ROW = (1 << 30) - 1 };

__device__ __forceinline__ uint64_t bs_cu_capacity_key(float gate, int32_t row)
{
    return (uint64_t)bs_capacity_rank(gate) << 30 | (uint32_t)row;
}

/* Limits choice k of all rows: every path keeps those with the highest gates, as long as it has room. next: how many it
 * has kept. */
__device__ inline void bs_cu_limit_choice(const bs_cu_router &r, int32_t k)
{
    uint64_t *keys = 2 * r.rows <= r.stage_words ? reinterpret_cast<uint64_t *>(r.stage)
                                                 : reinterpret_cast<uint64_t *>(r.d.work);
    const int32_t per_row = r.d.per_row, capacity = bs_cu_rule(r.s)->capacity, spill = bs_cu_rule(r.s)->spill - 1;
    bool over = false;
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        r.counts[p] = 0;
    __syncthreads();
    bs_cu_count_choices(r, 0, r.rows, per_row, k);
    __syncthreads();
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        over = over || (p != spill && r.counts[p] > capacity - r.next[p]);
    over = __syncthreads_or(over) != 0;
    for (int32_t row = bs_cu_thread(); over && row < r.rows; row += bs_cu_threads())
        keys[row] = bs_cu_capacity_key(r.d.gates[(int64_t)row * per_row + k], row);
    __syncthreads();
    if (over)
        bs_cu_sort_here(keys, (uint32_t)r.rows);
    for (int32_t base = 0; over && base < r.rows; base += bs_cu_threads()) {
        const int32_t i = base + bs_cu_thread(), row = i < r.rows ? (int32_t)(keys[i] & BS_CU_CAPACITY_ROW) : 0;
        const int32_t path = i < r.rows ? r.d.chosen[(int64_t)row * per_row + k] : -1;
        if (!bs_capacity_takes(bs_cu_rule(r.s), path, bs_cu_take_next(r, path)))
            r.d.chosen[(int64_t)row * per_row + k] = -1;
    }
    __syncthreads();
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        r.next[p] = over ? min(r.next[p], capacity) : r.next[p] + r.counts[p]; /* of the spill path nobody asks */
    __syncthreads();
}

/* First choices are served before second ones; what does not fit is counted and dropped or spilled. */
__device__ inline void bs_cu_limit_capacity(const bs_cu_router &r)
{
    int64_t *dropped = reinterpret_cast<int64_t *>(r.t->program->decisions +
                                                   r.t->record->decision.dropped);
    uint64_t lost = 0;
    bs_cu_clear_counts(r);
    __syncthreads();
    for (int32_t k = 0; k < r.d.per_row; k++)
        bs_cu_limit_choice(r, k);
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_choices of = bs_cu_choices(r, row);
        lost += (uint64_t)bs_spill(bs_cu_rule(r.s), &of);
    }
    lost = bs_cu_sum_threads(r.shared->sums, lost);
    if (threadIdx.x == 0)
        *dropped += (int64_t)lost;
}

#endif
