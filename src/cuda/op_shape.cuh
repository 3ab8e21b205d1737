/* op_shape.cuh - concat, slice, roll, reshape, transpose, pad, pixel_shuffle, pixel_unshuffle, gather_rows: they move
 * elements of any type.
 * Relies on move_nest.cuh, walk.cuh and turn.cuh. Must never do arithmetic on elements, nor trust an index. */
#ifndef BS_CUDA_OP_SHAPE
#define BS_CUDA_OP_SHAPE

#include "cuda/kernels.cuh"
#include "cuda/move_nest.cuh"
#include "cuda/turn.cuh"
#include "cuda/walk.cuh"

extern "C" {
#include "ops/forms.h"
}

/* Copies this worker's share of the rectangle of `to`. */
__device__ inline void bs_cu_copy_view(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_deal &d,
                                       uint8_t *workspace)
{
    const bs_cu_team team = {d.index, d.workers, 0, 1};
    bs_cu_nest_copy(bs_cu_nest_of(to, from, to), team, workspace, bs_cu_uncut());
}

/* The first of more than four dimensions goes; the others move up. */
__device__ __forceinline__ int32_t bs_cu_drop_axis(bs_cu_view *v)
{
    const int32_t n = v->dim[0];
    v->rank--;
#pragma unroll
    for (int32_t i = 1; i < BS_MAX_AXES; i++) {
        v->dim[i - 1] = v->dim[i];
        v->stride[i - 1] = v->stride[i];
    }
    return n;
}

/* The same of views of any rank: loops around copies of four dimensions. All of these are of one nest, which is less to
 * keep from one to the next than the views. */
__device__ inline void bs_cu_copy_axes(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_deal &d,
                                       uint8_t *workspace)
{
    bs_cu_view y = to, x = from;
    const int32_t outer = to.rank > BS_MAX_RANK ? bs_cu_drop_axis(&y) : 1;
    const int32_t inner = to.rank > BS_MAX_RANK + 1 ? bs_cu_drop_axis(&y) : 1;
    if (to.rank > BS_MAX_RANK)
        bs_cu_drop_axis(&x);
    if (to.rank > BS_MAX_RANK + 1)
        bs_cu_drop_axis(&x);
    const bs_cu_team team = {d.index, d.workers, 0, 1};
    const bs_cu_nest first = bs_cu_nest_of(y, x, y);
    for (int32_t i = 0; i < outer; i++)
        for (int32_t k = 0; k < inner; k++) {
            bs_cu_nest c = first;
            c.to += ((int64_t)i * to.stride[0] + (int64_t)k * to.stride[1]) * bs_cu_bytes(to.dtype);
            c.from += ((int64_t)i * from.stride[0] + (int64_t)k * from.stride[1]) * bs_cu_bytes(from.dtype);
            bs_cu_nest_copy(c, team, workspace, bs_cu_uncut());
        }
}

/* Copies element (c, y, x) of `from` to where the scan is in `to`. */
__device__ __forceinline__ void bs_cu_pixel_move(const bs_cu_view &to, const bs_cu_scan &k, const bs_cu_view &from,
                                                 int32_t c, int32_t y, int32_t x)
{
    bs_cu_element_move(to.data, to.dtype, bs_cu_pixel_at(to, k.c, k.y, k.x), from.data, from.dtype,
                       bs_cu_pixel_at(from, c, y, x));
}

/* Moves a view by `by` along dimension d. */
__device__ __forceinline__ void bs_cu_shift(bs_cu_view *v, int32_t d, int32_t by)
{
#pragma unroll
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        v->data += i == d ? (int64_t)by * v->stride[i] * bs_cu_bytes(v->dtype) : 0;
}

/* Keeps the first `n` along dimension d; rows and columns of whole images only. */
__device__ __forceinline__ void bs_cu_keep(bs_cu_view *v, int32_t d, int32_t n)
{
#pragma unroll
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        v->dim[i] = i == d ? n : v->dim[i];
    v->y1 = d == 1 ? n : v->y1;
    v->x1 = d == 2 ? n : v->x1;
}

/* Parameters of concat and slice, in p: the descriptor's words. */
enum { BS_CU_SLICE_AXIS, BS_CU_SLICE_START };

static void bs_cu_slice_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_SLICE_AXIS].i += s->p[BS_CU_SLICE_AXIS].i < 0 ? n->out[0].rank : 0;
    bs_cu_cut(n, s);
}

static constexpr bs_cu_describe bs_cu_concat_describe = bs_cu_slice_describe;

__device__ inline void bs_cu_concat_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i;
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        for (int32_t i = 0; i < s->n_in; i++) {
            bs_cu_view to = y;
            const bs_cu_view from = bs_cu_open_of_many(t, s, i, r);
            const int32_t extent = bs_cu_pick(from.dim, axis);
            bs_cu_keep(&to, axis, extent);
            bs_cu_copy_view(to, from, d, t.workspace);
            bs_cu_shift(&y, axis, extent);
        }
    }
}

__device__ inline void bs_cu_slice_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i, start = s->p[BS_CU_SLICE_START].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, bs_cu_view &x, int32_t) {
        /* a symbol was bound below what the slice needs */
        if (bs_cu_pick_axis(y.dim, axis) > bs_cu_pick_axis(x.dim, axis) - start) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        bs_cu_shift(&x, axis, start);
        bs_cu_copy_axes(y, x, d, t.workspace);
    });
}

static constexpr bs_cu_describe bs_cu_roll_describe = bs_cu_slice_describe;

/* What is pushed out at one end comes in at the other. */
__device__ inline void bs_cu_roll_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const int32_t n = max(bs_cu_pick(y.dim, axis), 1), over = s->p[BS_CU_SLICE_START].i % n,
                      at = over < 0 ? over + n : over;
        bs_cu_view to = y, from = x;
        if (at > 0) {
            bs_cu_keep(&to, axis, at);
            bs_cu_shift(&from, axis, n - at);
            bs_cu_copy_view(to, from, d, t.workspace);
            to = y;
        }
        bs_cu_shift(&to, axis, at);
        bs_cu_keep(&to, axis, n - at);
        bs_cu_copy_view(to, x, d, t.workspace);
    });
}

/* ---------------------------------------------------------------------------- transpose, reshape, both in one */

/* Parameters of a reshape, in p: what is a transpose too, and its order. */
enum { BS_CU_RESHAPE_TURNED = BS_MAX_AXES, BS_CU_RESHAPE_PARAMS };
static_assert(BS_CU_RESHAPE_PARAMS <= BS_DEVICE_PARAMS, "a step has these parameters");

enum { BS_CU_TURN_NONE, BS_CU_TURN_OPERAND, BS_CU_TURN_RESULT };

/* p: dimension d of the result is dimension p[d] of the operand; back: the other way. */
static void bs_cu_transpose_order(const bs_transpose_desc *desc, int32_t rank, bool back, bs_device_step *s)
{
    int32_t order[BS_MAX_AXES];
    bs_transpose_order(desc, rank, order);
    for (int32_t d = 0; d < rank; d++)
        s->p[back ? order[d] : d].i = back ? d : order[d];
}

/* Or the end of reshape, transpose (plan/fusions.c): operand 0 is then the reshape's. */
static void bs_cu_transpose_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool fused = n->np->fusion != 0;
    bs_cu_transpose_order((const bs_transpose_desc *)n->params, n->out[0].rank, fused, s);
    if (fused) {
        s->kernel = BS_CU_reshape;
        s->p[BS_CU_RESHAPE_TURNED].i = BS_CU_TURN_RESULT;
    }
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_transpose_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        bs_cu_copy_axes(y, bs_cu_turn(x, s), d, t.workspace);
    });
}

/* Or the end of transpose, reshape: operand 0 is then the transpose's. */
static void bs_cu_reshape_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool fused = n->np->fusion != 0;
    s->p[BS_CU_RESHAPE_TURNED].i = fused ? BS_CU_TURN_OPERAND : BS_CU_TURN_NONE;
    if (fused)
        bs_cu_transpose_order((const bs_transpose_desc *)bs_transpose_before(n->graph, n->node), n->in[0].rank, false,
                              s);
    bs_cu_cut(n, s);
}

__device__ inline int32_t bs_cu_reshape_count(const bs_cu_view &v)
{
    int32_t n = 1;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_AXES; d++)
        n *= d < v.rank ? v.dim[d] : 1;
    return n;
}

/* Element number i in row-major order. */
__device__ inline int64_t bs_cu_reshape_at(const bs_cu_view &v, int32_t i)
{
    int64_t at = 0;
#pragma unroll
    for (int32_t d = BS_MAX_AXES - 1; d >= 0; d--)
        if (d < v.rank) {
            const int32_t rest = i / v.dim[d];
            at += (int64_t)(i - rest * v.dim[d]) * v.stride[d];
            i = rest;
        }
    return at;
}

/* y and x, which have n elements in the same order, as views of the same dimensions: one where both are dense, else
 * those of y or of x; false: no strides say it. So a reshape contains one copy: that is most of its code and registers.
 */
__device__ inline bool bs_cu_reshape_views(const bs_cu_view &y, const bs_cu_view &x, int32_t n, bs_cu_view *to,
                                           bs_cu_view *from)
{
    bs_cu_view line = y;
    line.rank = 1;
    line.image = false;
    line.dim[0] = n;
    if (bs_cu_reshape_view(x, line, from) && bs_cu_reshape_view(y, line, to))
        return true;
    *to = y;
    if (bs_cu_reshape_view(x, y, from))
        return true;
    *from = x;
    return bs_cu_reshape_view(y, x, to);
}

__device__ inline void bs_cu_reshape_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t turned = s->p[BS_CU_RESHAPE_TURNED].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &result, const bs_cu_view &operand, int32_t) {
        const bs_cu_view y = turned == BS_CU_TURN_RESULT ? bs_cu_turn(result, s) : result;
        const bs_cu_view x = turned == BS_CU_TURN_OPERAND ? bs_cu_turn(operand, s) : operand;
        const int32_t n = bs_cu_reshape_count(y);
        bs_cu_view to, from;
        if (n != bs_cu_reshape_count(x))
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
        else if (bs_cu_reshape_views(y, x, n, &to, &from))
            bs_cu_copy_axes(to, from, d, t.workspace);
        else
            for (int32_t i = d.index; i < n; i += d.workers)
                bs_cu_element_move(y.data, y.dtype, bs_cu_reshape_at(y, i), x.data, x.dtype, bs_cu_reshape_at(x, i));
    });
}

/* ----------------------------------------------------------------------------------------------------- pad */

/* Parameters of pad, in p: the descriptor's words. */
enum {
    BS_CU_PAD_TOP,
    BS_CU_PAD_BOTTOM,
    BS_CU_PAD_LEFT,
    BS_CU_PAD_RIGHT,
    BS_CU_PAD_BORDER, /* in: its value, f; out: as it is stored */
    BS_CU_PAD_EDGE
};

static void bs_cu_pad_describe(const bs_cu_node *n, bs_device_step *s)
{
    const float border = s->p[BS_CU_PAD_BORDER].f;
    s->p[BS_CU_PAD_BORDER].i = 0;
    bs_pad_element((bs_dtype)n->out[0].dtype, border, &s->p[BS_CU_PAD_BORDER]);
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_pad_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t top = s->p[BS_CU_PAD_TOP].i, left = s->p[BS_CU_PAD_LEFT].i;
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const int32_t edge = s->p[BS_CU_PAD_EDGE].i, sy = bs_pad_source(edge, k.y - top, x.dim[1]),
                      sx = bs_pad_source(edge, k.x - left, x.dim[2]);
        if (edge == BS_EDGE_REFLECT && (max(top, s->p[BS_CU_PAD_BOTTOM].i) >= x.dim[1] ||
                                        max(left, s->p[BS_CU_PAD_RIGHT].i) >= x.dim[2])) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE); /* a symbol was bound below what is reflected */
            return;
        }
        if (edge || (sy == k.y - top && sx == k.x - left))
            bs_cu_pixel_move(y, k, x, k.c, sy, sx);
        else
            bs_cu_store_one(y.data, bs_cu_bytes(y.dtype), bs_cu_pixel_at(y, k.c, k.y, k.x),
                            (uint32_t)s->p[BS_CU_PAD_BORDER].i);
    });
}

/* ------------------------------------------------------------------------------------------- pixel shuffle */

enum { BS_CU_SHUFFLE_FACTOR }; /* parameters of both, in p */

static constexpr bs_cu_describe bs_cu_pixel_shuffle_describe = bs_cu_cut, bs_cu_pixel_unshuffle_describe = bs_cu_cut;

/* Goes over the result, so that it is written in order. */
__device__ inline void bs_cu_pixel_shuffle_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t f = s->p[BS_CU_SHUFFLE_FACTOR].i;
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const int32_t sy = bs_cu_floor_div(k.y, f), sx = bs_cu_floor_div(k.x, f),
                      c = (k.c * f + k.y - sy * f) * f + k.x - sx * f;
        bs_cu_pixel_move(y, k, x, c, sy, sx);
    });
}

__device__ inline void bs_cu_pixel_unshuffle_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t f = s->p[BS_CU_SHUFFLE_FACTOR].i;
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        if (x.frame_h % f != 0 || x.frame_w % f != 0) { /* rows would be missing */
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        bs_cu_scan_run(d, y, y.dim[0], [&](const bs_cu_scan &k) {
            const int32_t c = bs_cu_floor_div(k.c, f * f), phase = k.c - c * f * f, i = bs_cu_floor_div(phase, f),
                          j = phase - i * f;
            bs_cu_pixel_move(y, k, x, c, k.y * f + i, k.x * f + j);
        });
    });
}

/* --------------------------------------------------------------------------------------------- gather_rows */

static constexpr bs_cu_describe bs_cu_gather_rows_describe = bs_cu_cut;

/* Copies rows of the table, each by only as many threads as its bytes keep busy. */
__device__ inline void bs_cu_gather_rows_of(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &y,
                                            const bs_cu_view &table, const bs_cu_view &indices, const bs_cu_deal &d)
{
    bs_cu_view row = y;
    bs_cu_keep(&row, 0, 1);
    const bs_cu_nest first = bs_cu_nest_of(row, table, {0, row.y1, 0, row.x1});
    const int64_t bytes = (int64_t)first.n[0] * first.n[1] * first.n[2] * first.n[3] * bs_cu_bytes(y.dtype);
    int32_t width = 1;
    while (width < 32 && width * 2 <= d.workers && width * 16 < bytes)
        width *= 2;
    const bs_cu_team team = {d.index % width, width, d.index / width, d.workers / width};
    for (int32_t m = team.index; m < y.dim[0]; m += team.count) {
        const int32_t from = bs_cu_index_at(indices, (int64_t)m * indices.stride[0]);
        if (from < 0 || from >= table.dim[0]) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        bs_cu_nest c = first;
        c.to += (int64_t)m * y.stride[0] * bs_cu_bytes(y.dtype);
        c.from += (int64_t)from * table.stride[0] * bs_cu_bytes(table.dtype);
        bs_cu_nest_copy(c, team, t.workspace, bs_cu_uncut());
    }
}

/* Operands: indices, table. */
__device__ inline void bs_cu_gather_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &indices, int32_t r) {
        bs_cu_gather_rows_of(t, s, y, bs_cu_open_in(t, s, 1, r), indices, d);
    });
}

#endif
