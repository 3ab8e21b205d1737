/* turn.cuh - views whose axes are split, joined or in another order: the same elements by other strides.
 * Relies on program.cuh. Must never touch an element. */
#ifndef BS_CUDA_TURN
#define BS_CUDA_TURN

#include "cuda/program.cuh"

/* As bs_cu_pick, of all axes that a view can have. */
__device__ __forceinline__ int32_t bs_cu_pick_axis(const int32_t *a, int32_t d)
{
    return d == 4 ? a[4] : d == 5 ? a[5] : bs_cu_pick(a, d);
}

/* What is whole, in other dimensions: images are, too. */
__device__ __forceinline__ void bs_cu_make_whole(bs_cu_view *v)
{
    v->y0 = v->x0 = 0;
    v->y1 = v->dim[1];
    v->x1 = v->dim[2];
}

/* Dimension d is dimension p[d] of v. */
__device__ inline bs_cu_view bs_cu_turn(const bs_cu_view &v, const bs_device_step *s)
{
    bs_cu_view turned = v;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_AXES; d++)
        if (d < v.rank) {
            turned.dim[d] = bs_cu_pick_axis(v.dim, s->p[d].i);
            turned.stride[d] = bs_cu_pick_axis(v.stride, s->p[d].i);
        }
    bs_cu_make_whole(&turned);
    return turned;
}

/* The next axis of more than one element, from `axis` on; the rank: there is none. */
__device__ __forceinline__ int32_t bs_cu_real_axis(const bs_cu_view &v, int32_t axis)
{
    while (axis < v.rank && bs_cu_pick_axis(v.dim, axis) == 1)
        axis++;
    return axis;
}

/* Axes `to` .. `end` - 1 of a view become those of one axis with this stride. */
__device__ __forceinline__ void bs_cu_split_axis(bs_cu_view *view, int32_t to, int32_t end, int32_t stride)
{
#pragma unroll
    for (int32_t d = BS_MAX_AXES - 1; d >= 0; d--)
        if (d >= to && d < end) {
            view->stride[d] = stride;
            stride *= view->dim[d];
        }
}

/* As reshape_view of ops/reshape.c: `o` in the dimensions of `like`, of as many elements; false: no strides say it. */
__device__ inline bool bs_cu_reshape_view(const bs_cu_view &o, const bs_cu_view &like, bs_cu_view *view)
{
    *view = o;
    view->rank = like.rank;
    view->image = like.image;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_AXES; d++) {
        view->dim[d] = like.dim[d];
        view->stride[d] = 0;
    }
    bs_cu_make_whole(view);
    int32_t to = 0;
    for (int32_t from = bs_cu_real_axis(o, 0); from < o.rank && to < like.rank; from = bs_cu_real_axis(o, from + 1)) {
        int32_t have = bs_cu_pick_axis(o.dim, from), want = bs_cu_pick_axis(like.dim, to), end = to + 1;
        while (have != want) {
            const int32_t next = bs_cu_real_axis(o, from + 1);
            if (have < want ? next >= o.rank : end >= like.rank)
                return false;
            if (have > want) {
                want *= bs_cu_pick_axis(like.dim, end++);
                continue;
            }
            if (bs_cu_pick_axis(o.stride, from) != bs_cu_pick_axis(o.dim, next) * bs_cu_pick_axis(o.stride, next))
                return false;
            have *= bs_cu_pick_axis(o.dim, next);
            from = next;
        }
        bs_cu_split_axis(view, to, end, bs_cu_pick_axis(o.stride, from));
        to = end;
    }
    return true;
}

#endif
