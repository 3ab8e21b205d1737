/* op_binary.cuh - add, sub, mul, with broadcasting of the second operand.
 * Relies on walk.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_BINARY
#define BS_CUDA_OP_BINARY

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"

/* What the ops of this file are told in p: bits of the dimensions along which operand 1 stays where it is. As the graph
 * has them: a clipped cell may be 1 high too. */
enum { BS_CU_BINARY_BROADCAST };

static void bs_cu_binary_describe(const bs_cu_node *n, bs_device_step *s, int32_t kernel)
{
    const int32_t *in = bs_node_in(n->graph, n->node);
    const bs_value_info *a = bs_value_get(n->graph, in[0]), *b = bs_value_get(n->graph, in[1]);
    s->kernel = kernel;
    s->p[BS_CU_BINARY_BROADCAST].i = 0;
    for (int32_t d = 0; d < a->rank; d++)
        if (d >= b->rank || a->dims[d] != b->dims[d])
            s->p[BS_CU_BINARY_BROADCAST].i |= 1 << d;
    bs_cu_cut(n, s);
}

static void bs_cu_add_describe(const bs_cu_node *n, bs_device_step *s) { bs_cu_binary_describe(n, s, BS_CU_add); }
static void bs_cu_sub_describe(const bs_cu_node *n, bs_device_step *s) { bs_cu_binary_describe(n, s, BS_CU_sub); }
static void bs_cu_mul_describe(const bs_cu_node *n, bs_device_step *s) { bs_cu_binary_describe(n, s, BS_CU_mul); }

/* i32 wraps: unsigned, because signed overflow is undefined. */
struct bs_cu_add_of {
    template <typename T> __device__ __forceinline__ T of(T a, T b) const { return a + b; }
};
struct bs_cu_sub_of {
    template <typename T> __device__ __forceinline__ T of(T a, T b) const { return a - b; }
};
struct bs_cu_mul_of {
    template <typename T> __device__ __forceinline__ T of(T a, T b) const { return a * b; }
};

template <typename F> struct bs_cu_binary {
    const uint8_t *a, *b;
    uint8_t *y;
    int32_t a_type, b_type, y_type;
    bool same; /* operand 1 is the same along a line */
    F f;
    __device__ __forceinline__ uint32_t join(uint32_t p, uint32_t q) const
    {
        return y_type == BS_I32 ? f.of(p, q) : bs_cu_raw(f.of(bs_cu_real(p, a_type), bs_cu_real(q, b_type)), y_type);
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
__device__ inline void bs_cu_binary_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, const F &f)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_out(w, out->rank == 3, (int32_t)(out->row_bytes >> 4), (int32_t)threadIdx.x,
                                        (int32_t)blockDim.x);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view v[3] = {bs_cu_open(t, bs_cu_out(t, s, 0), r), bs_cu_open(t, bs_cu_in(t, s, 0), r),
                           bs_cu_open(t, bs_cu_in(t, s, 1), r)};
#pragma unroll
        for (int32_t i = 0; i < BS_MAX_RANK; i++)
            v[2].stride[i] = s->p[BS_CU_BINARY_BROADCAST].i >> i & 1 ? 0 : v[2].stride[i];
        const bs_cu_walk<3> k = bs_cu_walk_over(v);
        const bs_cu_binary<F> each = {k.begin[1], k.begin[2], k.begin[0],        v[1].dtype,
                                      v[2].dtype, v[0].dtype, k.step[2][3] == 0, f};
        const bool four = k.count[3] % 4 == 0 && bs_cu_walk_fours(k, 0, bs_cu_bytes(each.y_type)) &&
                          bs_cu_walk_fours(k, 1, bs_cu_bytes(each.a_type)) &&
                          (each.same || bs_cu_walk_fours(k, 2, bs_cu_bytes(each.b_type)));
        if (w.part == 0)
            bs_cu_zero_margin(v[0]);
        bs_cu_walk_run(k, four, d.index, d.workers, each);
    }
}

__device__ inline void bs_cu_add_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_add_of f = {};
    bs_cu_binary_run(t, s, w, f);
}

__device__ inline void bs_cu_sub_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_sub_of f = {};
    bs_cu_binary_run(t, s, w, f);
}

__device__ inline void bs_cu_mul_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_mul_of f = {};
    bs_cu_binary_run(t, s, w, f);
}

#endif
