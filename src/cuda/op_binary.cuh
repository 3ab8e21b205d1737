/* op_binary.cuh - add, sub, mul, with broadcasting of the second operand.
 * Relies on walk.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_BINARY
#define BS_CUDA_OP_BINARY

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

/* Parameters of the ops of this file, in p: a bit for each dimension along which operand 1 is broadcast. They
 * follow from the graph, not from this run's extents: a clipped cell may be 1 high too. */
enum { BS_CU_BINARY_BROADCAST };

static void bs_cu_add_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t *in = bs_node_in(n->graph, n->node);
    const bs_value_info *a = bs_value_get(n->graph, in[0]), *b = bs_value_get(n->graph, in[1]);
    for (int32_t d = 0; d < a->rank; d++)
        if (d >= b->rank || a->dims[d] != b->dims[d])
            s->p[BS_CU_BINARY_BROADCAST].i |= 1 << d;
    bs_cu_cut(n, s);
}

static constexpr bs_cu_describe bs_cu_sub_describe = bs_cu_add_describe, bs_cu_mul_describe = bs_cu_add_describe;

/* F takes two floats, or two i32 as unsigned words: i32 wraps, and signed overflow is undefined. */
template <typename F> struct bs_cu_binary {
    const uint8_t *a, *b;
    uint8_t *y;
    int32_t a_type, b_type, y_type;
    bool same; /* operand 1 is the same along a line */
    F f;
    __device__ __forceinline__ uint32_t join(uint32_t p, uint32_t q) const
    {
        return y_type == BS_I32 ? f(p, q) : bs_cu_raw(f(bs_cu_real(p, a_type), bs_cu_real(q, b_type)), y_type);
    }
    __device__ __forceinline__ void one(const int64_t (&at)[3]) const
    {
        const uint32_t p = bs_cu_load_one(a, bs_cu_bytes(a_type), at[1]),
                       q = bs_cu_load_one(b, bs_cu_bytes(b_type), at[2]);
        bs_cu_store_one(y, bs_cu_bytes(y_type), at[0], join(p, q));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[3]) const
    {
        uint32_t p[4], q[4];
        bs_cu_load_four(a, bs_cu_bytes(a_type), at[1], p);
        if (same)
            q[0] = q[1] = q[2] = q[3] = bs_cu_load_one(b, bs_cu_bytes(b_type), at[2]);
        else
            bs_cu_load_four(b, bs_cu_bytes(b_type), at[2], q);
        for (int32_t i = 0; i < 4; i++)
            p[i] = join(p[i], q[i]);
        bs_cu_store_four(y, bs_cu_bytes(y_type), at[0], p);
    }
};

template <typename F>
__device__ __forceinline__ void bs_cu_binary_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                 const F &f)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &a, int32_t r) {
        bs_cu_view b = bs_cu_open_in(t, s, 1, r);
#pragma unroll
        for (int32_t i = 0; i < BS_MAX_RANK; i++)
            b.stride[i] = s->p[BS_CU_BINARY_BROADCAST].i >> i & 1 ? 0 : b.stride[i];
        const bs_cu_walk<3> k = bs_cu_walk_over<3>({y, a, b});
        const bool same = k.step[2][3] == 0;
        const bs_cu_binary<F> each = {k.begin[1], k.begin[2], k.begin[0], a.dtype, b.dtype, y.dtype, same, f};
        bs_cu_walk_run(k, bs_cu_walk_fours(k, same ? 2 : 3), d, each);
    });
}

__device__ inline void bs_cu_add_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_binary_run(t, s, w, [](auto a, auto b) { return a + b; });
}

__device__ inline void bs_cu_sub_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_binary_run(t, s, w, [](auto a, auto b) { return a - b; });
}

__device__ inline void bs_cu_mul_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_binary_run(t, s, w, [](auto a, auto b) { return a * b; });
}

#endif
