/* op_binary.cuh - add, sub, mul, binary, compare, where: operands may be broadcast.
 * Relies on beside.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_BINARY
#define BS_CUDA_OP_BINARY

#include "cuda/beside.cuh"
#include "cuda/kernels.cuh"
#include "ops/maths.h"

/* Parameters of ops whose operands are broadcast, in p: of each operand bs_cu_how_beside; then their descriptor's
 * words. */
enum { BS_CU_BROADCAST_OPERANDS, BS_CU_BROADCAST_KIND = 3 };

static void bs_cu_broadcast_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t *in = bs_node_in(n->graph, n->node);
    const bs_value_info *result = bs_value_get(n->graph, n->node->first_out);
    for (int32_t i = 0; i < bs_node_own_in(n->graph, n->node); i++)
        s->p[BS_CU_BROADCAST_OPERANDS + i].i = bs_cu_how_beside(result, bs_value_get(n->graph, in[i]));
    bs_cu_cut(n, s);
}

static constexpr bs_cu_describe bs_cu_add_describe = bs_cu_broadcast_describe,
                                bs_cu_sub_describe = bs_cu_broadcast_describe,
                                bs_cu_mul_describe = bs_cu_broadcast_describe,
                                bs_cu_where_describe = bs_cu_broadcast_describe;

static void bs_cu_binary_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_BROADCAST_KIND] = s->p[0]; /* where the words of a descriptor are put */
    s->p[0].i = 0;
    bs_cu_broadcast_describe(n, s);
}

static constexpr bs_cu_describe bs_cu_compare_describe = bs_cu_binary_describe;

/* Operand i of row r, with the strides of the result's dimensions. */
__device__ __forceinline__ bs_cu_view bs_cu_open_beside(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                        int32_t r)
{
    return bs_cu_open_how(t, s, i, r, s->p[BS_CU_BROADCAST_OPERANDS + i].i);
}

/* F: uint32_t of(words of the operands, types of the result and the operands). Words are i32, or floats as they are
 * stored. */
template <int N, typename F> struct bs_cu_beside {
    uint8_t *data[N];
    int32_t type[N];
    bool same[N]; /* along a line */
    F f;
    __device__ __forceinline__ void one(const int64_t (&at)[N]) const
    {
        uint32_t v[N - 1];
#pragma unroll
        for (int32_t i = 1; i < N; i++)
            v[i - 1] = bs_cu_load_one(data[i], bs_cu_bytes(type[i]), at[i]);
        bs_cu_store_one(data[0], bs_cu_bytes(type[0]), at[0], f(v, type));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[N]) const
    {
        uint32_t v[N][4];
#pragma unroll
        for (int32_t i = 1; i < N; i++) {
            if (same[i])
                v[i][0] = v[i][1] = v[i][2] = v[i][3] = bs_cu_load_one(data[i], bs_cu_bytes(type[i]), at[i]);
            else
                bs_cu_load_four(data[i], bs_cu_bytes(type[i]), at[i], v[i]);
        }
#pragma unroll
        for (int32_t k = 0; k < 4; k++) {
            uint32_t words[N - 1];
#pragma unroll
            for (int32_t i = 1; i < N; i++)
                words[i - 1] = v[i][k];
            v[0][k] = f(words, type);
        }
        bs_cu_store_four(data[0], bs_cu_bytes(type[0]), at[0], v[0]);
    }
};

/* Whether lines are whole fours, in operands that move along them. */
template <int N> __device__ __forceinline__ bool bs_cu_beside_fours(const bs_cu_walk<N> &k)
{
    bool fours = k.count[3] % 4 == 0;
#pragma unroll
    for (int32_t i = 0; i < N; i++)
        fours = fours && ((i > 0 && k.step[i][3] == 0) ||
                          (k.step[i][3] == 1 && ((k.step[i][0] | k.step[i][1] | k.step[i][2]) & 3) == 0 &&
                           bs_cu_aligned(k.begin[i], k.bytes[i], 0)));
    return fours;
}

template <int N, typename F>
__device__ __forceinline__ void bs_cu_beside_walk(const bs_cu_view (&v)[N], const bs_cu_deal &d, const F &f)
{
    const bs_cu_walk<N> k = bs_cu_walk_over<N>(v);
    bs_cu_beside<N, F> each = {{}, {}, {}, f};
#pragma unroll
    for (int32_t i = 0; i < N; i++) {
        each.data[i] = k.begin[i];
        each.type[i] = v[i].dtype;
        each.same[i] = k.step[i][3] == 0;
    }
    bs_cu_walk_run(k, bs_cu_beside_fours(k), d, each);
}

/* Two operands. */
template <typename F>
__device__ __forceinline__ void bs_cu_beside_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                 const F &f)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        bs_cu_beside_walk<3>({y, bs_cu_open_beside(t, s, 0, r), bs_cu_open_beside(t, s, 1, r)}, d, f);
    }
}

/* F takes two floats, or two i32 as unsigned words: i32 wraps, and signed overflow is undefined. */
template <typename F>
__device__ __forceinline__ void bs_cu_sum_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                              const F &f)
{
    bs_cu_beside_run(t, s, w, [=](const uint32_t (&v)[2], const int32_t (&type)[3]) {
        return type[0] == BS_I32 ? f(v[0], v[1])
                                 : bs_cu_raw(f(bs_cu_real(v[0], type[1]), bs_cu_real(v[1], type[2])), type[0]);
    });
}

__device__ __forceinline__ float bs_cu_add_chain(const bs_cu_element &e) { return e.a + e.b; }
__device__ __forceinline__ float bs_cu_sub_chain(const bs_cu_element &e) { return e.a - e.b; }
__device__ __forceinline__ float bs_cu_mul_chain(const bs_cu_element &e) { return e.a * e.b; }

__device__ inline void bs_cu_add_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_sum_run(t, s, w, [](auto a, auto b) { return a + b; });
}

__device__ inline void bs_cu_sub_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_sum_run(t, s, w, [](auto a, auto b) { return a - b; });
}

__device__ inline void bs_cu_mul_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_sum_run(t, s, w, [](auto a, auto b) { return a * b; });
}

__device__ __forceinline__ float bs_cu_binary_chain(const bs_cu_element &e)
{
    return bs_binary_apply((bs_binary_kind)e.op.p[0].i, e.a, e.b);
}

__device__ inline void bs_cu_binary_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_binary_kind kind = (bs_binary_kind)s->p[BS_CU_BROADCAST_KIND].i;
    bs_cu_beside_run(t, s, w, [=](const uint32_t (&v)[2], const int32_t (&type)[3]) {
        if (type[0] == BS_I32)
            return (uint32_t)bs_binary_apply_i32(kind, (int32_t)v[0], (int32_t)v[1]);
        const float of = bs_binary_apply(kind, bs_cu_real(v[0], type[1]), bs_cu_real(v[1], type[2]));
        return bs_cu_raw(of, type[0]);
    });
}

__device__ inline void bs_cu_compare_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_compare_kind kind = (bs_compare_kind)s->p[BS_CU_BROADCAST_KIND].i;
    bs_cu_beside_run(t, s, w, [=](const uint32_t (&v)[2], const int32_t (&type)[3]) {
        return (uint32_t)(type[1] == BS_I32
                              ? bs_compare_apply_i32(kind, (int32_t)v[0], (int32_t)v[1])
                              : bs_compare_apply(kind, bs_cu_real(v[0], type[1]), bs_cu_real(v[1], type[2])));
    });
}

__device__ inline void bs_cu_where_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        bs_cu_beside_walk<4>({y, bs_cu_open_beside(t, s, 0, r), bs_cu_open_beside(t, s, 1, r),
                              bs_cu_open_beside(t, s, 2, r)},
                             d, [](const uint32_t (&v)[3], const int32_t (&type)[4]) {
                                 const uint32_t word = v[0] ? v[1] : v[2];
                                 const int32_t from = v[0] ? type[2] : type[3];
                                 return type[0] == BS_I32 ? word : bs_cu_raw(bs_cu_real(word, from), type[0]);
                             });
    }
}

#endif
