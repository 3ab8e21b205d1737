/* op_lines_chain.cuh - a softmax or a norm with a tail: element-wise ops on what it gives, in its kernel, each what its
 * own kernel does, and what one gives to the next rounded as if it had been stored. So the bytes are those of one
 * kernel after the other.
 * A kernel by itself: those of lines without a tail keep their registers. Relies on op_chain.cuh and op_lines.cuh. Must
 * never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_LINES_CHAIN
#define BS_CUDA_OP_LINES_CHAIN

#include "cuda/op_chain.cuh"
#include "cuda/op_lines.cuh"

/* An operand of the steps beside the result of a line. */
struct bs_cu_line_other {
    const uint8_t *data;
    int32_t type, step; /* along the line */
    int64_t at;
};

/* What is left of a chain behind its first op; operands are numbered as those of the step. */
__device__ __forceinline__ float bs_cu_line_chain_on(const bs_device_step *s, const bs_cu_line_other &a,
                                                     const bs_cu_line_other &b, int32_t n, int32_t i, float x)
{
    const float first = n > 0 ? bs_cu_get(a.data, a.type, a.at + (int64_t)i * a.step) : 0.0f;
    const float second = n > 1 ? bs_cu_get(b.data, b.type, b.at + (int64_t)i * b.step) : 0.0f;
#pragma unroll 1
    for (int32_t k = 1; k < s->n_tail; k++)
        x = bs_cu_chain_apply(s->tail[k], s->rounded ? bs_cu_half_from(bs_cu_half_to(x)) : x,
                              s->tail[k].other == 1 ? first : second);
    return x;
}

/* The lines of operand 0 and of the result; third: an operand of the steps, which has the dimensions of the result. */
__device__ __forceinline__ bs_cu_lines bs_cu_line_chain_beside(const bs_device_step *s, const bs_cu_view &x,
                                                               const bs_cu_view &y, bs_cu_view third)
{
    third.rank = y.rank;
    return bs_cu_lines_of(x, y, third, s->p[BS_CU_FIRST].i, s->p[BS_CU_AXIS].i, s->p[BS_CU_LANES].i);
}

__device__ __forceinline__ int64_t bs_cu_line_chain_at(const bs_cu_lines &k, int32_t operand, int32_t l)
{
    const int32_t n1 = k.count[1], n2 = k.count[2], d2 = l % n2, d1 = l / n2 % n1, d0 = l / n2 / n1;
    return (int64_t)d2 * k.step[operand][2] + (int64_t)d1 * k.step[operand][1] + (int64_t)d0 * k.step[operand][0];
}

__device__ __forceinline__ void bs_cu_line_chain_line(const bs_cu_tile &t, const bs_device_step *s,
                                                      const bs_cu_lines &k, const bs_cu_lines &more, int32_t n,
                                                      const bs_cu_line_other &a, const bs_cu_line_other &b, int32_t l)
{
    const int64_t from = bs_cu_line_chain_at(k, 0, l), to = bs_cu_line_chain_at(k, 1, l);
    const bs_cu_line_other first = {a.data, a.type, a.step, bs_cu_line_chain_at(k, 2, l)},
                           second = {b.data, b.type, b.step, bs_cu_line_chain_at(more, 2, l)};
    const float *weight = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    const auto put = [&](int32_t i, float v) {
        bs_cu_line_put(k, to, i, bs_cu_line_chain_on(s, first, second, n, i, v));
    };
    switch (s->tail[0].kernel) { /* a function for each op whose line in ops/list.h says LINES */
#define BS_CU_LINE_NONE(name)
#define BS_CU_LINE_KERNEL(name)
#define BS_CU_LINE_CHAIN(name)
#define BS_CU_LINE_LINES(name) case BS_CU_##name: bs_cu_##name##_line(s, weight, k, from, put); break;
#define BS_CU_LINE_CASE(name, device) BS_CU_LINE_##device(name)
        BS_OP_LIST(BS_CU_LINE_CASE)
#undef BS_CU_LINE_CASE
#undef BS_CU_LINE_LINES
#undef BS_CU_LINE_CHAIN
#undef BS_CU_LINE_KERNEL
#undef BS_CU_LINE_NONE
    }
}

__device__ inline void bs_cu_line_chain_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t lanes = s->p[BS_CU_LANES].i;
    const bool image = bs_cu_lines_of_image(bs_cu_in(t, s, 0), bs_cu_out(t, s, 0));
    const bs_cu_deal d = bs_cu_deal_out(w, image, s->p[BS_CU_LINES].i, bs_cu_thread() / lanes,
                                        bs_cu_threads() / lanes);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r), x = bs_cu_open_in(t, s, 0, r);
        bs_cu_view a = y, b = y;
        int32_t n = 0;
        bs_cu_zero_margin(w, y);
#pragma unroll 1
        for (int32_t k = 1; k < s->n_tail; k++) {
            if (s->tail[k].other < 0)
                continue;
            const bs_cu_view v = bs_cu_open_how(t, s, s->tail[k].other, r, s->tail[k].how);
            n = s->tail[k].other;
            a = n == 1 ? v : a;
            b = n == 2 ? v : b;
        }
        const bs_cu_lines k = bs_cu_line_chain_beside(s, x, y, a), more = bs_cu_line_chain_beside(s, x, y, b);
        const bs_cu_line_other first = {k.z, a.dtype, k.z_step, 0}, second = {more.z, b.dtype, more.z_step, 0};
        for (int32_t l = d.index; l < k.count[0] * k.count[1] * k.count[2] && k.n > 0; l += d.workers)
            bs_cu_line_chain_line(t, s, k, more, n, first, second, l);
    }
}

#endif
