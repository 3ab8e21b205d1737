/* route_scores.cuh - scores of a row: which of two is the better one, the best paths, bringing scores to shared
 * memory. Relies on route_job.cuh. Must never round an i32 score. */
#ifndef BS_CUDA_ROUTE_SCORES
#define BS_CUDA_ROUTE_SCORES

#include "cuda/route_job.cuh"

/* A row's scores, staged or where they are: f32 or i32, by their bits. */
struct bs_cu_scores {
    const uint32_t *bits;
    int32_t stride;
    bool integer;
};

__device__ __forceinline__ uint32_t bs_cu_score_bits(const bs_cu_scores &x, int32_t i)
{
    return x.bits[(int64_t)i * x.stride];
}

__device__ __forceinline__ float bs_cu_score(const bs_cu_scores &x, int32_t i)
{
    return x.integer ? (float)(int32_t)bs_cu_score_bits(x, i) : __uint_as_float(bs_cu_score_bits(x, i));
}

/* Whether score a is to be taken before score b. Large i32 scores are exact. NaN, which a guess may hold, is below
 * all. */
__device__ __forceinline__ bool bs_cu_score_above(const bs_cu_scores &x, int32_t a, int32_t b)
{
    const uint32_t first = bs_cu_score_bits(x, a), second = bs_cu_score_bits(x, b);
    if (x.integer)
        return (int32_t)first > (int32_t)second;
    return __uint_as_float(first) > __uint_as_float(second) ||
           (isnan(__uint_as_float(second)) && !isnan(__uint_as_float(first)));
}

/* Whether path a is worse than path b: the lower one of equals is the better. */
__device__ __forceinline__ bool bs_cu_score_worse(const bs_cu_scores &x, int32_t a, int32_t b)
{
    return bs_cu_score_above(x, b, a) || (a > b && !bs_cu_score_above(x, a, b));
}

/* Path p takes the place of the root, the worst, of a heap of n. */
__device__ inline void bs_cu_heap_sink(const bs_cu_scores &x, int32_t *heap, int32_t n, int32_t p)
{
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && bs_cu_score_worse(x, heap[child + 1], heap[child]))
            child++;
        if (!bs_cu_score_worse(x, heap[child], p))
            break;
        heap[at] = heap[child];
    }
    heap[at] = p;
}

/* As best_paths() of run/route.c: the `count` best, the best first, of equal ones the lower. By one thread. */
__device__ inline void bs_cu_best_paths(const bs_cu_scores &x, int32_t paths, int32_t count, int32_t *best)
{
    int32_t root = 0;
    for (int32_t p = 0; p < paths; p++) {
        if (p >= count && !bs_cu_score_above(x, p, root))
            continue;
        if (p >= count) {
            bs_cu_heap_sink(x, best, count, p);
        } else {
            int32_t at = p;
            for (; at > 0 && bs_cu_score_worse(x, p, best[(at - 1) / 2]); at = (at - 1) / 2)
                best[at] = best[(at - 1) / 2];
            best[at] = p;
        }
        root = best[0];
    }
    for (int32_t n = min(count, paths) - 1; n > 0; n--) {
        root = best[0];
        bs_cu_heap_sink(x, best, n, best[n]);
        best[n] = root;
    }
}

/* Scores of rows first .. last - 1 to shared memory, `pitch` words a row; so many threads a row as it has scores. */
__device__ inline void bs_cu_stage_scores(const bs_cu_router &r, int32_t first, int32_t last, int32_t pitch)
{
    const int32_t width = r.s->p[BS_CU_P_WIDTH].i, stride = r.score->stride[0];
    int32_t lanes = 1;
    while (lanes < width && lanes < 32)
        lanes *= 2;
    for (int32_t row = first + (int32_t)threadIdx.x / lanes; row < last; row += (int32_t)blockDim.x / lanes) {
        const uint8_t *data = bs_cu_row(*r.t, r.score, row);
        for (int32_t i = (int32_t)threadIdx.x % lanes; i < width; i += lanes)
            r.stage[(row - first) * pitch + i] = r.score->dtype == BS_I32
                                                     ? reinterpret_cast<const uint32_t *>(data)[(int64_t)i * stride]
                                                     : __float_as_uint(
                                                           bs_cu_get(data, r.score->dtype, (int64_t)i * stride));
    }
}

#endif
