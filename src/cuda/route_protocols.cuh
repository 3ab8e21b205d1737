/* route_protocols.cuh - protocols that decide each row by itself, a row a thread; and forced routes.
 * Relies on route_scores.cuh and ops/decide.h. Must never let rows influence each other. */
#ifndef BS_CUDA_ROUTE_PROTOCOLS
#define BS_CUDA_ROUTE_PROTOCOLS

#include "cuda/route_scores.cuh"

/* Decides one row, by one thread. False: its scores are invalid. */
__device__ inline bool bs_cu_decide_row(const bs_cu_router &r, int32_t row, const bs_scores &x)
{
    const bs_choices to = bs_cu_choices(r, row);
    const int32_t *table = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s));
    return bs_decide_row(bs_cu_rule(r.s), r.knob, &x, table, row, &to).kind == BS_ROUTE_SOUND;
}

/* Decides rows first .. last - 1. Called by all threads; returns to each whether all rows are valid. */
__device__ inline bool bs_cu_decide_rows(const bs_cu_router &r, int32_t first, int32_t last)
{
    const int32_t most = min(r.stage_words / bs_cu_stage_pitch(r), bs_cu_threads());
    bool bad = false;
    /* one row has too many scores to stage */
    for (int32_t row = first + bs_cu_thread(); most == 0 && row < last; row += bs_cu_threads())
        bad = !bs_cu_decide_row(r, row, bs_cu_scores_of(*r.t, r.score, row)) || bad;
    for (int32_t base = first; most > 0 && base < last; base += most) {
        const int32_t end = min(base + most, last), row = base + bs_cu_thread();
        bs_cu_stage_scores(r, base, end);
        __syncthreads();
        if (row < end)
            bad = !bs_cu_decide_row(r, row, bs_cu_staged(r, row - base)) || bad;
        __syncthreads();
    }
    return __syncthreads_or(bad) == 0;
}

__device__ inline void bs_cu_decide_forced(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t at = first * r.d.per_row + bs_cu_thread(); at < last * r.d.per_row; at += bs_cu_threads()) {
        r.d.chosen[at] = bs_forced_choice(at, r.d.per_row, r.s->p[BS_CU_P_FORCED].i - 1);
        r.d.gates[at] = 1.0f;
    }
}

#endif
