/* op_features.cuh - patch_features: how busy a patch is and how much it changed, as small integers.
 * Reads the core only; sums are of integers, so their order does not matter.
 * Relies on walk.cuh. Must never use floating point. */
#ifndef BS_CUDA_OP_FEATURES
#define BS_CUDA_OP_FEATURES

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/features.h"
}

/* Its parameters, in p. */
enum {
    BS_CU_FEATURES_BUCKETS,
    BS_CU_FEATURES_SHIFT, /* in: the descriptor's code_bits; out: bits that codes are shifted down */
    BS_CU_FEATURES_WARP   /* 1: a warp a cell */
};

static void bs_cu_patch_features_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int64_t samples = bs_cu_pixels(&n->in[0]) * n->in[0].dim[0];
    s->p[BS_CU_FEATURES_BUCKETS].i = bs_or_default(s->p[BS_CU_FEATURES_BUCKETS].i, BS_FEATURE_BUCKETS);
    s->p[BS_CU_FEATURES_SHIFT].i = n->in[0].dtype == BS_U8 ? 0 : bs_feature_shift(s->p[BS_CU_FEATURES_SHIFT].i);
    s->p[BS_CU_FEATURES_WARP].i = samples <= 1024;
    s->batch = samples <= 1024 ? 8 : 1;
}

__device__ __forceinline__ int32_t bs_cu_feature_code(const bs_cu_view &v, int32_t shift, int32_t c, int32_t y,
                                                      int32_t x)
{
    return (int32_t)bs_cu_load_one(v.data, bs_cu_bytes(v.dtype), bs_cu_pixel_at(v, c, y, x)) >> shift;
}

__device__ __forceinline__ uint64_t bs_cu_feature_square(int32_t d) { return (uint64_t)((int64_t)d * d); }

/* The sums over this worker's samples of a cell. */
__device__ inline void bs_cu_feature_sums(const bs_cu_deal &d, const bs_cu_view &x, const bs_cu_view &reference,
                                          bool both, int32_t shift, uint64_t *energy, uint64_t *change)
{
    const int32_t h = x.dim[1], width = x.dim[2];
    *energy = *change = 0;
    bs_cu_scan_run(d, {0, h, 0, width}, x.dim[0], [&](const bs_cu_scan &k) {
        const int32_t code = bs_cu_feature_code(x, shift, k.c, k.y, k.x);
        *energy += bs_cu_feature_square(4 * code - bs_cu_feature_code(x, shift, k.c, max(k.y - 1, 0), k.x) -
                                        bs_cu_feature_code(x, shift, k.c, min(k.y + 1, h - 1), k.x) -
                                        bs_cu_feature_code(x, shift, k.c, k.y, max(k.x - 1, 0)) -
                                        bs_cu_feature_code(x, shift, k.c, k.y, min(k.x + 1, width - 1)));
        if (both)
            *change += bs_cu_feature_square(code - bs_cu_feature_code(reference, shift, k.c, k.y, k.x));
    });
}

__device__ inline void bs_cu_feature_put(const bs_device_step *s, const bs_cu_view &x, const bs_cu_view &y,
                                         uint64_t energy, uint64_t change)
{
    const uint64_t area = (uint64_t)x.dim[0] * (uint64_t)max(x.dim[1], 0) * (uint64_t)max(x.dim[2], 0);
    int32_t *to = reinterpret_cast<int32_t *>(y.data);
    to[0] = area ? bs_feature_bucket(energy, area, s->p[BS_CU_FEATURES_BUCKETS].i) : 0;
    to[y.stride[0]] = area && s->n_in > 1 ? bs_feature_bucket(change, area, s->p[BS_CU_FEATURES_BUCKETS].i) : 0;
}

/* A warp a cell, or all threads one after the other. */
__device__ inline void bs_cu_patch_features_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bool small = s->p[BS_CU_FEATURES_WARP].i != 0;
    const bs_cu_deal warps = {w.row + bs_cu_warp(), bs_cu_warps(), w.end, bs_cu_lane(), 32},
                     d = small ? warps : bs_cu_deal_whole(w);
    uint64_t *sums = reinterpret_cast<uint64_t *>(t.workspace);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view x = bs_cu_open_in(t, s, 0, r), y = bs_cu_open_out(t, s, 0, r);
        const bs_cu_view reference = bs_cu_open_in(t, s, s->n_in - 1, r);
        uint64_t energy, change;
        bs_cu_feature_sums(d, x, reference, s->n_in > 1, s->p[BS_CU_FEATURES_SHIFT].i, &energy, &change);
        energy = small ? bs_cu_lanes_sum(energy) : bs_cu_sum_threads(sums, energy);
        change = small ? bs_cu_lanes_sum(change) : bs_cu_sum_threads(sums, change);
        if (d.index == 0)
            bs_cu_feature_put(s, x, y, energy, change);
    }
}

#endif
