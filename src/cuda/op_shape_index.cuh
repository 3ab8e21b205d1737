/* op_shape_index.cuh - select, gather_elements, scatter_elements, scatter_rows: elements by index (gather_rows:
 * op_shape.cuh). Relies on move_nest.cuh and walk.cuh. Must never trust an index, nor let two threads write one
 * line. */
#ifndef BS_CUDA_OP_SHAPE_INDEX
#define BS_CUDA_OP_SHAPE_INDEX

#include "cuda/op_shape.cuh"

enum { BS_CU_INDEXED_AXIS, BS_CU_INDEXED_UPDATE }; /* parameters: the descriptor's words, the axis from 0 on */

static void bs_cu_select_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_INDEXED_AXIS].i += s->p[BS_CU_INDEXED_AXIS].i < 0 ? n->in[0].rank : 0;
    bs_cu_cut(n, s);
}

static constexpr bs_cu_describe bs_cu_gather_elements_describe = bs_cu_select_describe,
                                bs_cu_scatter_elements_describe = bs_cu_select_describe,
                                bs_cu_scatter_rows_describe = bs_cu_select_describe;

/* Gives indices, and lines of what is indexed, the rank of what stands beside the indices (ops/gather_rows.c). False: a
 * symbol was bound below what the indices need. */
__device__ inline bool bs_cu_indexed_align(const bs_cu_view &beside, bs_cu_view *which, bs_cu_view *lines, int32_t axis,
                                           bool each)
{
    const bs_cu_view indices = *which, named = *lines;
    const int32_t taken = each ? 1 : indices.rank;
    bool sound = true;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++) {
        const bool on = d >= axis && d < axis + taken;
        const int32_t of = d < axis ? d : max(d - taken + 1, 0);
        which->stride[d] = each ? indices.stride[d] : on ? bs_cu_pick(indices.stride, d - axis) : 0;
        lines->stride[d] = on ? 0 : bs_cu_pick(named.stride, of);
        sound = sound && (d >= beside.rank || on || beside.dim[d] <= bs_cu_pick(named.dim, of));
    }
    return sound;
}

/* Where element number i of `of` lies in a, b and c, and whether that is within c, which has the same rank. Dimension
 * `axis` is left out. */
struct bs_cu_indexed_place {
    int64_t a, b, c;
    bool within;
};

__device__ inline bs_cu_indexed_place bs_cu_indexed_find(int32_t i, const bs_cu_view &a, const bs_cu_view &b,
                                                         const bs_cu_view &c, int32_t axis)
{
    bs_cu_indexed_place p = {0, 0, 0, true};
#pragma unroll
    for (int32_t d = BS_MAX_RANK - 1; d >= 0; d--)
        if (d < a.rank && d != axis) {
            const int32_t rest = i / a.dim[d], at = i - rest * a.dim[d];
            p.a += (int64_t)at * a.stride[d];
            p.b += (int64_t)at * b.stride[d];
            p.c += (int64_t)at * c.stride[d];
            p.within = p.within && at < c.dim[d];
            i = rest;
        }
    return p;
}

__device__ inline void bs_cu_indexed_read(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, bool each)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_INDEXED_AXIS].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t r) {
        bs_cu_view which = bs_cu_open_in(t, s, 1, r), lines = x;
        const int32_t n = bs_cu_reshape_count(y), extent = bs_cu_pick(x.dim, axis);
        const int64_t step = bs_cu_pick(x.stride, axis);
        if (!bs_cu_indexed_align(y, &which, &lines, axis, each)) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        for (int32_t i = d.index; i < n; i += d.workers) {
            const bs_cu_indexed_place p = bs_cu_indexed_find(i, y, which, lines, -1);
            const int32_t index = bs_cu_index_at(which, p.b);
            if (index < 0 || index >= extent) {
                bs_cu_fail(t, s, BS_ERROR_DATA);
                return;
            }
            bs_cu_element_move(y.data, y.dtype, p.a, x.data, x.dtype, p.c + index * step);
        }
    });
}

__device__ inline void bs_cu_select_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_read(t, s, w, false);
}

__device__ inline void bs_cu_gather_elements_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_read(t, s, w, true);
}

/* Writes an update, or adds it to what is there. */
__device__ __forceinline__ void bs_cu_indexed_update(const bs_cu_view &y, int64_t at, const bs_cu_view &u, int64_t from,
                                                     bool add)
{
    if (!add)
        bs_cu_element_move(y.data, y.dtype, at, u.data, u.dtype, from);
    else if (y.dtype == BS_I32)
        bs_cu_store_one(y.data, 4, at, bs_cu_load_one(y.data, 4, at) + bs_cu_load_one(u.data, 4, from));
    else
        bs_cu_put(y.data, y.dtype, at, bs_cu_get(y.data, y.dtype, at) + bs_cu_get(u.data, u.dtype, from));
}

/* A thread has a line of the result along the axis to itself: it copies the operand's, and then takes the updates in
 * the order of their index, as the CPU does. */
__device__ inline void bs_cu_indexed_write(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, bool each)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_INDEXED_AXIS].i;
    const bool add = s->p[BS_CU_INDEXED_UPDATE].i == BS_UPDATE_ADD;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t r) {
        bs_cu_view which = bs_cu_open_in(t, s, 1, r), lines = y;
        const bs_cu_view u = bs_cu_open_in(t, s, 2, r);
        const int32_t extent = bs_cu_pick(y.dim, axis), updates = bs_cu_pick(u.dim, axis);
        const int64_t y_step = bs_cu_pick(y.stride, axis), x_step = bs_cu_pick(x.stride, axis),
                      u_step = bs_cu_pick(u.stride, axis);
        if (!bs_cu_indexed_align(u, &which, &lines, axis, each)) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        const int64_t which_step = bs_cu_pick(which.stride, axis);
        for (int32_t i = d.index; i < bs_cu_reshape_count(y) / extent; i += d.workers) {
            const bs_cu_indexed_place p = bs_cu_indexed_find(i, y, which, u, axis),
                                      from = bs_cu_indexed_find(i, y, x, u, axis);
            for (int32_t k = 0; k < extent; k++)
                bs_cu_element_move(y.data, y.dtype, p.a + k * y_step, x.data, x.dtype, from.b + k * x_step);
            for (int32_t k = 0; p.within && k < updates; k++) {
                const int32_t index = bs_cu_index_at(which, p.b + k * which_step);
                if (index < 0 || index >= extent) {
                    bs_cu_fail(t, s, BS_ERROR_DATA);
                    return;
                }
                bs_cu_indexed_update(y, p.a + index * y_step, u, p.c + k * u_step, add);
            }
        }
    });
}

__device__ inline void bs_cu_scatter_elements_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_write(t, s, w, true);
}

__device__ inline void bs_cu_scatter_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_write(t, s, w, false);
}

#endif
