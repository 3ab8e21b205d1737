/* route_protocols.cuh - the protocols of run/route.c that decide row by row, and a forced route.
 * Relies on route_scores.cuh. Must never let rows influence each other. */
#ifndef BS_CUDA_ROUTE_PROTOCOLS
#define BS_CUDA_ROUTE_PROTOCOLS

#include "cuda/route_scores.cuh"

/* The count highest, the lower path of equals. */
__device__ inline void bs_cu_decide_topk(const bs_cu_router &r, int32_t row, const bs_cu_scores &x, int32_t count)
{
    int32_t *const chosen = r.d.chosen + (int64_t)row * r.d.per_row;
    float sum = 0.0f;
    bs_cu_best_paths(x, r.d.paths, count, chosen);
    for (int32_t k = 0; k < count; k++) {
        bs_cu_choose(r, row, k, chosen[k], bs_cu_score(x, chosen[k]));
        sum += bs_cu_score(x, chosen[k]);
    }
    for (int32_t k = 0; r.s->p[BS_CU_P_NORMALISE].i && sum > 0.0f && sum < INFINITY && k < count; k++)
        r.d.gates[(int64_t)row * r.d.per_row + k] /= sum;
}

__device__ inline void bs_cu_decide_threshold(const bs_cu_router &r, int32_t row, const bs_cu_scores &x)
{
    const float threshold = r.s->p[BS_CU_P_THRESHOLD].f + r.knob;
    const int32_t fallback = r.s->p[BS_CU_P_FALLBACK].i - 1;
    int32_t n = 0;
    for (int32_t p = 0; p < r.d.paths; p++)
        if (bs_cu_score(x, p) > threshold)
            bs_cu_choose(r, row, n++, p, bs_cu_score(x, p));
    if (n == 0 && fallback >= 0)
        bs_cu_choose(r, row, n++, fallback, bs_cu_score(x, fallback));
    for (; n < r.d.per_row; n++)
        bs_cu_choose(r, row, n, -1, 0.0f);
}

/* One row, by one thread. False: its scores make no sense. */
__device__ inline bool bs_cu_decide_row(const bs_cu_router &r, int32_t row, const bs_cu_scores &x)
{
    const float threshold = r.s->p[BS_CU_P_THRESHOLD].f + r.knob;
    const int32_t label = (int32_t)bs_cu_score_bits(x, 0);
    for (int32_t i = 0; !x.integer && i < r.s->p[BS_CU_P_WIDTH].i; i++)
        if (isnan(bs_cu_score(x, i)))
            return false;
    switch (r.s->p[BS_CU_P_PROTOCOL].i) {
    case BS_ROUTE_TOP1: bs_cu_decide_topk(r, row, x, 1); return true;
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY: bs_cu_decide_topk(r, row, x, r.d.per_row); return true;
    case BS_ROUTE_THRESHOLD: bs_cu_decide_threshold(r, row, x); return true;
    case BS_ROUTE_RESIDUAL_THRESHOLD: {
        const int32_t path = bs_cu_score(x, 0) + bs_cu_score(x, 1) < threshold ? 0 : 1;
        bs_cu_choose(r, row, 0, path, bs_cu_score(x, path));
        return true;
    }
    case BS_ROUTE_BINARY:
        bs_cu_choose(r, row, 0, bs_cu_score(x, 0) >= threshold ? 0 : 1, bs_cu_score(x, 0));
        return true;
    case BS_ROUTE_LABEL:
        if (label < 0 || label >= r.d.paths)
            return false;
        bs_cu_choose(r, row, 0, label, 1.0f);
        return true;
    case BS_ROUTE_TABLE: {
        if (label < 0 || label >= r.s->p[BS_CU_P_CAPACITY].i)
            return false;
        const int32_t path = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s))[label];
        if (path < 0 || path >= r.d.paths)
            return false;
        bs_cu_choose(r, row, 0, path, 1.0f);
        return true;
    }
    default: return false;
    }
}

/* Decides rows first .. last - 1, whatever the others are. All threads; whether all went well, for each to know. */
__device__ inline bool bs_cu_decide_rows(const bs_cu_router &r, int32_t first, int32_t last)
{
    const int32_t pitch = r.s->p[BS_CU_P_WIDTH].i | 1, most = min(r.stage_words / pitch, (int32_t)blockDim.x);
    const bool integer = r.score->dtype == BS_I32;
    bool bad = false;
    /* too many to stage */
    for (int32_t row = first + (int32_t)threadIdx.x; most == 0 && row < last; row += (int32_t)blockDim.x) {
        const bs_cu_scores x = {reinterpret_cast<const uint32_t *>(bs_cu_row(*r.t, r.score, row)), r.score->stride[0],
                                integer};
        bad = !bs_cu_decide_row(r, row, x) || bad;
    }
    for (int32_t base = first; most > 0 && base < last; base += most) {
        const int32_t end = min(base + most, last), row = base + (int32_t)threadIdx.x;
        bs_cu_stage_scores(r, base, end, pitch);
        __syncthreads();
        if (row < end) {
            const bs_cu_scores x = {r.stage + (row - base) * pitch, 1, integer};
            bad = !bs_cu_decide_row(r, row, x) || bad;
        }
        __syncthreads();
    }
    return __syncthreads_or(bad) == 0;
}

__device__ inline void bs_cu_decide_forced(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t at = first * r.d.per_row + (int32_t)threadIdx.x; at < last * r.d.per_row; at += (int32_t)blockDim.x) {
        r.d.chosen[at] = at % r.d.per_row == 0 ? r.s->p[BS_CU_P_FORCED].i - 1 : -1;
        r.d.gates[at] = 1.0f;
    }
}

#endif
