/* op_elementwise.cuh - activation, prelu, clip, affine, batch_norm.
 * Relies on walk.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_ELEMENTWISE
#define BS_CUDA_OP_ELEMENTWISE

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

/* What the ops of this file are told in p: their descriptors' words. */
enum { BS_CU_ACTIVATION_ACT, BS_CU_ACTIVATION_PARAM };
enum { BS_CU_CLIP_LOW, BS_CU_CLIP_HIGH };
enum { BS_CU_AFFINE_SCALE, BS_CU_AFFINE_OFFSET };
enum { BS_CU_BATCH_NORM_OFFSETS }; /* floats from the scales to the offsets */

static void bs_cu_activation_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_activation;
    bs_cu_cut(n, s);
}

static void bs_cu_clip_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_clip;
    bs_cu_cut(n, s);
}

static void bs_cu_affine_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_affine;
    bs_cu_cut(n, s);
}

static void bs_cu_prelu_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_prelu;
    bs_cu_cut(n, s);
}

static void bs_cu_batch_norm_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_batch_norm;
    s->p[BS_CU_BATCH_NORM_OFFSETS].i = (int32_t)bs_bytes_figure(
        bs_bytes_share(n->np->prepared_bytes, 2 * sizeof(float)));
    bs_cu_cut(n, s);
}

/* ---------------------------------------------------------------------------------------- of one operand */

/* F: float of(float). */
template <typename F> struct bs_cu_unary {
    const uint8_t *x;
    uint8_t *y;
    int32_t x_type, y_type;
    F f;
    __device__ __forceinline__ void one(const int64_t (&at)[2]) const
    {
        bs_cu_put(y, y_type, at[0], f.of(bs_cu_get(x, x_type, at[1])));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2]) const
    {
        float v[4];
        bs_cu_get_four(x, x_type, at[1], v);
        for (int32_t i = 0; i < 4; i++)
            v[i] = f.of(v[i]);
        bs_cu_put_four(y, y_type, at[0], v);
    }
};

template <typename F>
__device__ inline void bs_cu_unary_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, const F &f)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_out(w, out->rank == 3, (int32_t)(out->row_bytes >> 4), (int32_t)threadIdx.x,
                                        (int32_t)blockDim.x);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view v[2] = {bs_cu_open(t, bs_cu_out(t, s, 0), r), bs_cu_open(t, bs_cu_in(t, s, 0), r)};
        const bs_cu_walk<2> k = bs_cu_walk_over(v);
        const bs_cu_unary<F> each = {k.begin[1], k.begin[0], v[1].dtype, v[0].dtype, f};
        const bool four = k.count[3] % 4 == 0 && bs_cu_walk_fours(k, 0, bs_cu_bytes(each.y_type)) &&
                          bs_cu_walk_fours(k, 1, bs_cu_bytes(each.x_type));
        if (w.part == 0)
            bs_cu_zero_margin(v[0]);
        bs_cu_walk_run(k, four, d.index, d.workers, each);
    }
}

struct bs_cu_activation_of {
    int32_t act;
    float param;
    __device__ __forceinline__ float of(float x) const { return bs_act_apply((bs_act)act, param, 0.0f, x); }
};

__device__ inline void bs_cu_activation_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_activation_of f = {s->p[BS_CU_ACTIVATION_ACT].i, s->p[BS_CU_ACTIVATION_PARAM].f};
    bs_cu_unary_run(t, s, w, f);
}

struct bs_cu_clip_of {
    float low, high;
    __device__ __forceinline__ float of(float x) const
    {
        const float above = x < low ? low : x;
        return above > high ? high : above;
    }
};

__device__ inline void bs_cu_clip_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_clip_of f = {s->p[BS_CU_CLIP_LOW].f, s->p[BS_CU_CLIP_HIGH].f};
    bs_cu_unary_run(t, s, w, f);
}

struct bs_cu_affine_of {
    float scale, offset;
    __device__ __forceinline__ float of(float x) const { return bs_cu_mul_add(x, scale, offset); }
};

__device__ inline void bs_cu_affine_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_affine_of f = {s->p[BS_CU_AFFINE_SCALE].f, s->p[BS_CU_AFFINE_OFFSET].f};
    bs_cu_unary_run(t, s, w, f);
}

/* ------------------------------------------------------------------------------------ with a weight a channel */

/* at[2] is the channel. F: float of(float x, float a, float b): a, b of the channel. */
template <typename F> struct bs_cu_channelwise {
    const uint8_t *x;
    uint8_t *y;
    int32_t x_type, y_type;
    const float *a, *b;
    F f;
    __device__ __forceinline__ void one(const int64_t (&at)[3]) const
    {
        bs_cu_put(y, y_type, at[0], f.of(bs_cu_get(x, x_type, at[1]), a[at[2]], b[at[2]]));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[3]) const
    {
        const float4 p = *reinterpret_cast<const float4 *>(a + at[2]), q = *reinterpret_cast<const float4 *>(b + at[2]);
        float v[4];
        bs_cu_get_four(x, x_type, at[1], v);
        v[0] = f.of(v[0], p.x, q.x);
        v[1] = f.of(v[1], p.y, q.y);
        v[2] = f.of(v[2], p.z, q.z);
        v[3] = f.of(v[3], p.w, q.w);
        bs_cu_put_four(y, y_type, at[0], v);
    }
};

template <typename F>
__device__ inline void bs_cu_channelwise_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                             const float *a, const float *b, const F &f)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_out(w, out->rank == 3, (int32_t)(out->row_bytes >> 4), (int32_t)threadIdx.x,
                                        (int32_t)blockDim.x);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view v[3] = {bs_cu_open(t, bs_cu_out(t, s, 0), r), bs_cu_open(t, bs_cu_in(t, s, 0), r), bs_cu_view()};
        v[2].stride[0] = 1;
        v[2].stride[1] = v[2].stride[2] = v[2].stride[3] = 0;
        const bs_cu_walk<3> k = bs_cu_walk_over(v);
        const bs_cu_channelwise<F> each = {k.begin[1], k.begin[0], v[1].dtype, v[0].dtype, a, b, f};
        const bool four = k.count[3] % 4 == 0 && k.step[2][3] == 1 &&
                          bs_cu_walk_fours(k, 0, bs_cu_bytes(each.y_type)) &&
                          bs_cu_walk_fours(k, 1, bs_cu_bytes(each.x_type));
        if (w.part == 0)
            bs_cu_zero_margin(v[0]);
        bs_cu_walk_run(k, four, d.index, d.workers, each);
    }
}

struct bs_cu_prelu_of {
    __device__ __forceinline__ float of(float x, float slope, float) const { return x > 0.0f ? x : x * slope; }
};

__device__ inline void bs_cu_prelu_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float *slope = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    const bs_cu_prelu_of f = {};
    bs_cu_channelwise_run(t, s, w, slope, slope, f);
}

struct bs_cu_batch_norm_of {
    __device__ __forceinline__ float of(float x, float scale, float offset) const
    {
        return bs_cu_mul_add(x, scale, offset);
    }
};

__device__ inline void bs_cu_batch_norm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float *scale = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    const bs_cu_batch_norm_of f = {};
    bs_cu_channelwise_run(t, s, w, scale, scale + s->p[BS_CU_BATCH_NORM_OFFSETS].i, f);
}

#endif
