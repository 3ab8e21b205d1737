/* op_elementwise.cuh - activation, prelu, clip, affine, batch_norm.
 * Relies on walk.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_ELEMENTWISE
#define BS_CUDA_OP_ELEMENTWISE

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

/* Parameters of the ops of this file, in p: their descriptors' words. */
enum { BS_CU_ACTIVATION_ACT, BS_CU_ACTIVATION_PARAM };
enum { BS_CU_CLIP_LOW, BS_CU_CLIP_HIGH };
enum { BS_CU_AFFINE_SCALE, BS_CU_AFFINE_OFFSET };
enum { BS_CU_BATCH_NORM_OFFSETS }; /* floats from the scales to the offsets */

static constexpr bs_cu_describe bs_cu_activation_describe = bs_cu_cut, bs_cu_clip_describe = bs_cu_cut,
                                bs_cu_affine_describe = bs_cu_cut, bs_cu_prelu_describe = bs_cu_cut;

static void bs_cu_batch_norm_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_BATCH_NORM_OFFSETS].i = (int32_t)bs_bytes_figure(
        bs_bytes_share(n->np->prepared_bytes, 2 * sizeof(float)));
    bs_cu_cut(n, s);
}

/* ---------------------------------------------------------------------------------------- of one operand */

/* F: float of(float). */
template <typename F> struct bs_cu_map {
    const uint8_t *x;
    uint8_t *y;
    int32_t x_type, y_type;
    F f;
    __device__ __forceinline__ void one(const int64_t (&at)[2]) const
    {
        bs_cu_put(y, y_type, at[0], f(bs_cu_get(x, x_type, at[1])));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2]) const
    {
        float v[4];
        bs_cu_get_four(x, x_type, at[1], v);
        for (int32_t i = 0; i < 4; i++)
            v[i] = f(v[i]);
        bs_cu_put_four(y, y_type, at[0], v);
    }
};

template <typename F>
__device__ __forceinline__ void bs_cu_map_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                              const F &f)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_walk<2> k = bs_cu_walk_over<2>({y, x});
        const bs_cu_map<F> each = {k.begin[1], k.begin[0], x.dtype, y.dtype, f};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

__device__ __forceinline__ float bs_cu_activation_chain(const bs_cu_element &e)
{
    return bs_act_apply((bs_act)e.op.p[0].i, e.op.p[1].f, 0.0f, e.a);
}

__device__ inline void bs_cu_activation_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_act act = (bs_act)s->p[BS_CU_ACTIVATION_ACT].i;
    const float param = s->p[BS_CU_ACTIVATION_PARAM].f;
    bs_cu_map_run(t, s, w, [=](float x) { return bs_act_apply(act, param, 0.0f, x); });
}

__device__ __forceinline__ float bs_cu_clip_chain(const bs_cu_element &e)
{
    const float above = e.a < e.op.p[0].f ? e.op.p[0].f : e.a;
    return above > e.op.p[1].f ? e.op.p[1].f : above;
}

__device__ inline void bs_cu_clip_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float low = s->p[BS_CU_CLIP_LOW].f, high = s->p[BS_CU_CLIP_HIGH].f;
    bs_cu_map_run(t, s, w, [=](float x) {
        const float above = x < low ? low : x;
        return above > high ? high : above;
    });
}

__device__ __forceinline__ float bs_cu_affine_chain(const bs_cu_element &e)
{
    return bs_cu_mul_add(e.a, e.op.p[0].f, e.op.p[1].f);
}

__device__ inline void bs_cu_affine_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float scale = s->p[BS_CU_AFFINE_SCALE].f, offset = s->p[BS_CU_AFFINE_OFFSET].f;
    bs_cu_map_run(t, s, w, [=](float x) { return bs_cu_mul_add(x, scale, offset); });
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
        bs_cu_put(y, y_type, at[0], f(bs_cu_get(x, x_type, at[1]), a[at[2]], b[at[2]]));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[3]) const
    {
        const float4 p = *reinterpret_cast<const float4 *>(a + at[2]), q = *reinterpret_cast<const float4 *>(b + at[2]);
        float v[4];
        bs_cu_get_four(x, x_type, at[1], v);
        v[0] = f(v[0], p.x, q.x);
        v[1] = f(v[1], p.y, q.y);
        v[2] = f(v[2], p.z, q.z);
        v[3] = f(v[3], p.w, q.w);
        bs_cu_put_four(y, y_type, at[0], v);
    }
};

template <typename F>
__device__ __forceinline__ void bs_cu_channelwise_run(const bs_cu_tile &t, const bs_device_step *s,
                                                      const bs_cu_work &w, const float *a, const float *b, const F &f)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        bs_cu_view channel = bs_cu_view();
        channel.dtype = BS_F32;
        channel.stride[0] = 1;
        const bs_cu_walk<3> k = bs_cu_walk_over<3>({y, x, channel});
        const bs_cu_channelwise<F> each = {k.begin[1], k.begin[0], x.dtype, y.dtype, a, b, f};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

__device__ inline void bs_cu_prelu_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float *slope = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    bs_cu_channelwise_run(t, s, w, slope, slope, [](float x, float a, float) { return x > 0.0f ? x : x * a; });
}

__device__ inline void bs_cu_batch_norm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float *scale = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    bs_cu_channelwise_run(t, s, w, scale, scale + s->p[BS_CU_BATCH_NORM_OFFSETS].i,
                          [](float x, float a, float b) { return bs_cu_mul_add(x, a, b); });
}

#endif
