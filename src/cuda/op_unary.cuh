/* op_unary.cuh - unary: a function of one operand.
 * Relies on walk.cuh and ops/maths.h. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_UNARY
#define BS_CUDA_OP_UNARY

#include "cuda/kernels.cuh"
#include "cuda/walk.cuh"
#include "ops/maths.h"

/* Parameters of the op, in p: its descriptor's words. */
enum { BS_CU_UNARY_KIND };

static constexpr bs_cu_describe bs_cu_unary_describe = bs_cu_cut;

/* i32 goes as words, the bits of a float as they are stored. */
struct bs_cu_unary {
    const uint8_t *x;
    uint8_t *y;
    int32_t x_type, y_type;
    bs_unary_kind kind;
    __device__ __forceinline__ uint32_t of(uint32_t word) const
    {
        return y_type == BS_I32 ? bs_unary_apply_i32(kind, word)
                                : bs_cu_raw(bs_unary_apply(kind, bs_cu_real(word, x_type)), y_type);
    }
    __device__ __forceinline__ void one(const int64_t (&at)[2]) const
    {
        bs_cu_store_one(y, bs_cu_bytes(y_type), at[0], of(bs_cu_load_one(x, bs_cu_bytes(x_type), at[1])));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2]) const
    {
        uint32_t v[4];
        bs_cu_load_four(x, bs_cu_bytes(x_type), at[1], v);
#pragma unroll 1
        for (int32_t i = 0; i < 4; i++)
            v[i] = of(v[i]);
        bs_cu_store_four(y, bs_cu_bytes(y_type), at[0], v);
    }
};

__device__ __forceinline__ float bs_cu_unary_chain(const bs_cu_element &e)
{
    return bs_unary_apply((bs_unary_kind)e.op.p[0].i, e.a);
}

__device__ inline void bs_cu_unary_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_unary_kind kind = (bs_unary_kind)s->p[BS_CU_UNARY_KIND].i;
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_walk<2> k = bs_cu_walk_over<2>({y, x});
        const bs_cu_unary each = {k.begin[1], k.begin[0], x.dtype, y.dtype, kind};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

#endif
