/* op_elementwise.cuh - activation, prelu, clip, affine, batch_norm.
 * The plainest op file there is: what a node is told to the device (describe), and what a block of threads does (run).
 * Relies on program.cuh and lower.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_ELEMENTWISE
#define BS_CUDA_OP_ELEMENTWISE

#include "cuda/kernels.cuh"
#include "cuda/lower.cuh"
#include "cuda/program.cuh"

enum { BS_CU_EACH = 1024 }; /* elements of a piece of work */

/* p: the descriptor's fields, in order (the lowering copied them): act, param. */
static void bs_cu_activation_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_activation;
    s->parts = bs_cu_pieces(bs_cu_elements(&n->out[0]), BS_CU_EACH);
}

/* Element number i of the rectangle of an image, channels fastest, or of another tensor: its offset. */
__device__ inline int64_t bs_cu_element(const bs_cu_view &v, const bs_cu_view &like, int32_t i)
{
    if (v.rank == 3) {
        const int32_t c = i % like.dim[0], pixel = i / like.dim[0], w = like.x1 - like.x0;
        return (int64_t)c * v.stride[0] + (int64_t)(like.y0 + pixel / w) * v.stride[1] + (int64_t)(like.x0 + pixel % w) * v.stride[2];
    }
    int64_t at = 0;
    for (int32_t d = v.rank - 1; d >= 0; d--) {
        at += (int64_t)(i % like.dim[d]) * v.stride[d];
        i /= like.dim[d];
    }
    return at;
}

__device__ inline int32_t bs_cu_element_count(const bs_cu_view &v)
{
    int32_t n = v.rank == 3 ? v.dim[0] * max(v.y1 - v.y0, 0) * max(v.x1 - v.x0, 0) : 1;
    for (int32_t d = 0; d < v.rank && v.rank != 3; d++)
        n *= v.dim[d];
    return n;
}

__device__ inline void bs_cu_activation_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view x = bs_cu_open(t, bs_cu_in(t, s, 0), r), y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        const int32_t n = bs_cu_element_count(y), step = w.parts * (int32_t)blockDim.x;
        if (w.part == 0)
            bs_cu_zero_margin(y);
        for (int32_t i = w.part * (int32_t)blockDim.x + (int32_t)threadIdx.x; i < n; i += step)
            bs_cu_put(y.data, y.dtype, bs_cu_element(y, y, i), bs_cu_act(s->p[0].i, s->p[1].f, 0.0f, bs_cu_get(x.data, x.dtype, bs_cu_element(x, y, i))));
    }
}

#endif
