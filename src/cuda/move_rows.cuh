/* move_rows.cuh - moving a row from view to view, and zeroing the margin around it that readers' windows reach.
 * Relies on move_nest.cuh. Must never write outside a row and its margin. */
#ifndef BS_CUDA_MOVE_ROWS
#define BS_CUDA_MOVE_ROWS

#include "cuda/move_nest.cuh"

__device__ __forceinline__ bs_cu_rect bs_cu_common(const bs_cu_view &a, const bs_cu_view &b)
{
    const bs_cu_rect r = {max(a.y0, b.y0), min(a.y1, b.y1), max(a.x0, b.x0), min(a.x1, b.x1)};
    return r;
}

__device__ __forceinline__ void bs_cu_row_copy(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_team &team,
                                               uint8_t *workspace, const bs_cu_work &w)
{
    bs_cu_nest_copy(bs_cu_nest_of(to, from, bs_cu_common(to, from)), team, workspace, w);
}

/* Zeroes what lies between an outer and an inner rectangle of a stored image. */
__device__ inline void bs_cu_zero_ring(const bs_cu_view &v, const bs_cu_rect &inner, const bs_cu_rect &outer,
                                       const bs_cu_team &team)
{
#pragma unroll 1
    for (int32_t side = 0; side < 4; side++) { /* above, below, left, right */
        bs_cu_rect r = outer;
        if (side == 0)
            r.y1 = inner.y0;
        else
            r.y0 = side == 1 ? max(inner.y1, outer.y0) : inner.y0;
        if (side > 1)
            r.y1 = inner.y1;
        if (side == 2)
            r.x1 = inner.x0;
        if (side == 3)
            r.x0 = max(inner.x1, outer.x0);
        if (r.y1 > r.y0 && r.x1 > r.x0)
            bs_cu_zero_rect(v, r, team, bs_cu_uncut());
    }
}

/* As bs_zero_margin. */
__device__ inline void bs_cu_zero_outside(const bs_cu_view &v, const bs_cu_team &team)
{
    const bs_cu_rect outer = {-v.margin, min(v.y1 + v.margin, v.max_h + v.margin), -v.margin,
                              min(v.x1 + v.margin, v.max_w + v.margin)};
    bs_cu_zero_ring(v, v, outer, team);
}

/* In a frame that is assembled from cells, a cell at the frame's edge zeroes the margin beyond. A cell that is empty at
 * this scale does nothing. */
__device__ inline void bs_cu_zero_beyond_frame(const bs_cu_view &v, const bs_cu_team &team)
{
    const int32_t h = v.dim[1], w = v.dim[2], margin = v.margin;
    if (h <= 0 || w <= 0)
        return;
    const bs_cu_rect inner = {0, h, 0, w};
    const bs_cu_rect outer = {v.frame_y == 0 ? -margin : 0, v.frame_y + h == v.frame_h ? h + margin : h,
                              v.frame_x == 0 ? -margin : 0, v.frame_x + w == v.frame_w ? w + margin : w};
    bs_cu_zero_ring(v, inner, outer, team);
}

/* A row as the target of a store: in a root image only the core of the cell. */
__device__ inline bs_cu_view bs_cu_open_target(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    bs_cu_view v = bs_cu_open(t, o, row);
    if (o->place == BS_AT_CELL)
        v.y0 = v.x0 = 0, v.y1 = v.dim[1], v.x1 = v.dim[2];
    return v;
}

/* A row of lines that is a channel of a root image, as that. */
__device__ inline bs_cu_view bs_cu_as_channel(bs_cu_view v)
{
    v.rank = 3;
    v.image = true;
    v.dim[2] = v.frame_w = v.dim[1];
    v.dim[1] = v.frame_h = v.dim[0];
    v.dim[0] = 1;
    v.stride[2] = v.stride[1];
    v.stride[1] = v.stride[0];
    v.frame_y = v.frame_x = 0;
    return v;
}

/* Zeroes the margin of a row that was moved. Opens the row again, because copying needed the registers. */
__device__ __forceinline__ void bs_cu_zero_around(const bs_cu_tile &t, const bs_device_operand *o, int32_t row,
                                                  const bs_cu_team &team, const bs_cu_work &w)
{
    if (w.part != 0 || o->margin == 0)
        return;
    const bs_cu_view v = bs_cu_open_target(t, o, row);
    if (!v.image) /* only in the root (bs_cu_to_cell) */
        bs_cu_zero_beyond_frame(bs_cu_as_channel(v), team);
    else if (o->place == BS_AT_CELL)
        bs_cu_zero_beyond_frame(v, team);
    else
        bs_cu_zero_outside(v, team);
}

#endif
