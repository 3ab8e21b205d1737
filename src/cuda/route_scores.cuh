/* route_scores.cuh - scores of a row, in place or staged: copied to shared memory.
 * Relies on route_job.cuh. Must never round an i32 score. */
#ifndef BS_CUDA_ROUTE_SCORES
#define BS_CUDA_ROUTE_SCORES

#include "cuda/route_job.cuh"

__device__ __forceinline__ bs_scores bs_cu_scores_of(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    const bs_scores scores = {bs_cu_row(t, o, row), o->stride[0], o->dtype == BS_I32};
    return scores;
}

/* Words from row to row: odd, so that the threads of a warp, a row each, have no bank conflicts. */
__device__ __forceinline__ int32_t bs_cu_stage_pitch(const bs_cu_router &r) { return bs_cu_rule(r.s)->width | 1; }

__device__ __forceinline__ bs_scores bs_cu_staged(const bs_cu_router &r, int32_t row)
{
    const bs_scores scores = {r.stage + row * bs_cu_stage_pitch(r), 1, r.score->dtype == BS_I32};
    return scores;
}

/* Stages the scores of rows first .. last - 1, by as many threads a row as it has scores. */
__device__ inline void bs_cu_stage_scores(const bs_cu_router &r, int32_t first, int32_t last)
{
    const int32_t width = bs_cu_rule(r.s)->width, stride = r.score->stride[0], pitch = bs_cu_stage_pitch(r);
    int32_t lanes = 1;
    while (lanes < width && lanes < 32)
        lanes *= 2;
    for (int32_t row = first + bs_cu_thread() / lanes; row < last; row += bs_cu_threads() / lanes) {
        const uint8_t *data = bs_cu_row(*r.t, r.score, row);
        uint32_t *to = r.stage + (row - first) * pitch;
        for (int32_t i = bs_cu_thread() % lanes; i < width; i += lanes)
            if (r.score->dtype == BS_I32)
                to[i] = reinterpret_cast<const uint32_t *>(data)[(int64_t)i * stride];
            else
                reinterpret_cast<float *>(to)[i] = bs_cu_get(data, r.score->dtype, (int64_t)i * stride);
    }
}

#endif
