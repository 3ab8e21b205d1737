/* op_shape.cuh - concat, slice, reshape, transpose, pad, pixel_shuffle, pixel_unshuffle, gather_rows: elements of any
 * type change their places.
 * Relies on move_nest.cuh and walk.cuh. Must never do arithmetic on elements, nor trust an index. */
#ifndef BS_CUDA_OP_SHAPE
#define BS_CUDA_OP_SHAPE

#include "cuda/kernels.cuh"
#include "cuda/move_nest.cuh"
#include "cuda/walk.cuh"

__device__ inline bs_cu_deal bs_cu_deal_copy(const bs_device_operand *out, const bs_cu_work &w)
{
    return bs_cu_deal_out(w, out->rank == 3, (int32_t)(out->row_bytes >> 4), (int32_t)threadIdx.x, (int32_t)blockDim.x);
}

/* This worker's share of the rectangle of v[0], from v[1]. */
__device__ inline void bs_cu_copy_view(const bs_cu_view (&v)[2], const bs_cu_deal &d, uint8_t *workspace)
{
    const bs_cu_rect r = {v[0].y0, v[0].y1, v[0].x0, v[0].x1};
    const bs_cu_team team = {d.index, d.workers, 0, 1};
    const bs_cu_work all = {0, 1, 0, 1};
    bs_cu_nest_copy(bs_cu_nest_of(v[0], v[1], false, r), team, workspace, all);
}

__device__ __forceinline__ int64_t bs_cu_pixel_at(const bs_cu_view &v, int32_t c, int32_t y, int32_t x)
{
    return (int64_t)c * v.stride[0] + (int64_t)y * v.stride[1] + (int64_t)x * v.stride[2];
}

/* The element of `to` where the scan is, from one of `from`. */
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
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        v->data += i == d ? (int64_t)by * v->stride[i] * bs_cu_bytes(v->dtype) : 0;
}

/* Only the first `n` along dimension d. Rows and columns only of whole images. */
__device__ __forceinline__ void bs_cu_keep(bs_cu_view *v, int32_t d, int32_t n)
{
#pragma unroll
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        v->dim[i] = i == d ? n : v->dim[i];
    v->y1 = v->rank == 3 && d == 1 ? n : v->y1;
    v->x1 = v->rank == 3 && d == 2 ? n : v->x1;
}

/* What concat and slice are told in p: the descriptor's words. */
enum { BS_CU_SLICE_AXIS, BS_CU_SLICE_START };

static void bs_cu_concat_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_concat;
    s->p[BS_CU_SLICE_AXIS].i += s->p[BS_CU_SLICE_AXIS].i < 0 ? n->out[0].rank : 0;
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_concat_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_copy(out, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i;
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        if (w.part == 0)
            bs_cu_zero_margin(y);
        for (int32_t i = 0; i < s->n_in; i++) {
            bs_cu_view v[2] = {y, bs_cu_open(t, bs_cu_in(t, s, i), r)};
            const int32_t extent = bs_cu_along(v[1].dim, axis);
            bs_cu_keep(&v[0], axis, extent);
            bs_cu_copy_view(v, d, t.workspace);
            bs_cu_shift(&y, axis, extent);
        }
    }
}

static void bs_cu_slice_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_slice;
    s->p[BS_CU_SLICE_AXIS].i += s->p[BS_CU_SLICE_AXIS].i < 0 ? n->out[0].rank : 0;
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_slice_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_copy(out, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i, start = s->p[BS_CU_SLICE_START].i;
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view v[2] = {bs_cu_open(t, bs_cu_out(t, s, 0), r), bs_cu_open(t, bs_cu_in(t, s, 0), r)};
        /* a symbol was bound below what the slice needs */
        if (bs_cu_along(v[0].dim, axis) > bs_cu_along(v[1].dim, axis) - start) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        if (w.part == 0)
            bs_cu_zero_margin(v[0]);
        bs_cu_shift(&v[1], axis, start);
        bs_cu_copy_view(v, d, t.workspace);
    }
}

/* p: dimension d of the result is dimension p[d] of the operand. */
static void bs_cu_transpose_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t rank = n->out[0].rank;
    bool given = rank < 2;
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        given = given || s->p[d].i != 0;
    for (int32_t d = 0; d < rank && !given; d++)
        s->p[d].i = d < rank - 2 ? d : 2 * rank - 3 - d;
    s->kernel = BS_CU_transpose;
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_transpose_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_copy(out, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view v[2] = {bs_cu_open(t, bs_cu_out(t, s, 0), r), bs_cu_open(t, bs_cu_in(t, s, 0), r)};
        const int32_t a = v[1].stride[0], b = v[1].stride[1], c = v[1].stride[2], e = v[1].stride[3];
        if (w.part == 0)
            bs_cu_zero_margin(v[0]);
#pragma unroll
        for (int32_t i = 0; i < BS_MAX_RANK; i++)
            v[1].stride[i] = s->p[i].i == 0 ? a : s->p[i].i == 1 ? b : s->p[i].i == 2 ? c : e;
        bs_cu_copy_view(v, d, t.workspace);
    }
}

/* ------------------------------------------------------------------------------------------------- reshape */

static void bs_cu_reshape_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_reshape;
    bs_cu_cut(n, s);
}

__device__ inline int32_t bs_cu_reshape_count(const bs_cu_view &v)
{
    int32_t n = 1;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        n *= d < v.rank ? v.dim[d] : 1;
    return n;
}

/* Element number i in row-major order. */
__device__ inline int64_t bs_cu_reshape_at(const bs_cu_view &v, int32_t i)
{
    int64_t at = 0;
#pragma unroll
    for (int32_t d = BS_MAX_RANK - 1; d >= 0; d--)
        if (d < v.rank) {
            const int32_t rest = i / v.dim[d];
            at += (int64_t)(i - rest * v.dim[d]) * v.stride[d];
            i = rest;
        }
    return at;
}

/* Makes one line of what is one. */
__device__ inline bool bs_cu_reshape_line(bs_cu_view *v, int32_t count)
{
    int32_t step = 1;
    bool dense = true;
#pragma unroll
    for (int32_t d = BS_MAX_RANK - 1; d >= 0; d--)
        if (d < v->rank) {
            dense = dense && (v->dim[d] == 1 || v->stride[d] == step);
            step *= v->dim[d];
        }
    if (!dense)
        return false;
    v->rank = 1;
    v->dim[0] = count;
    v->stride[0] = 1;
    return true;
}

__device__ inline void bs_cu_reshape_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_copy(out, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view v[2] = {bs_cu_open(t, bs_cu_out(t, s, 0), r), bs_cu_open(t, bs_cu_in(t, s, 0), r)};
        const int32_t n = bs_cu_reshape_count(v[0]);
        if (n != bs_cu_reshape_count(v[1])) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        if (w.part == 0)
            bs_cu_zero_margin(v[0]);
        bs_cu_view line[2] = {v[0], v[1]};
        if (bs_cu_reshape_line(&line[0], n) && bs_cu_reshape_line(&line[1], n)) {
            bs_cu_copy_view(line, d, t.workspace);
            continue;
        }
        for (int32_t i = d.index; i < n; i += d.workers)
            bs_cu_element_move(v[0].data, v[0].dtype, bs_cu_reshape_at(v[0], i), v[1].data, v[1].dtype,
                               bs_cu_reshape_at(v[1], i));
    }
}

/* ----------------------------------------------------------------------------------------------------- pad */

/* The border's value as it is stored; values out of a type's range are its nearest end. */
static uint32_t bs_cu_pad_border(int32_t dtype, float value)
{
    const int32_t code = bs_f32_to_code(value, INT32_MIN, INT32_MAX);
    uint32_t bits;
    memcpy(&bits, &value, 4);
    switch (dtype) {
    case BS_F32: return bits;
    case BS_F16: return bs_f32_to_f16(value);
    case BS_BF16: return bs_f32_to_bf16(value);
    case BS_I32: return (uint32_t)code;
    case BS_I8: return (uint32_t)bs_clamp_i32(code, -128, 127);
    default: return (uint32_t)bs_clamp_i32(code, 0, dtype == BS_U8 ? 255 : 65535);
    }
}

/* What pad is told in p: the descriptor's words. */
enum {
    BS_CU_PAD_TOP,
    BS_CU_PAD_BOTTOM,
    BS_CU_PAD_LEFT,
    BS_CU_PAD_RIGHT,
    BS_CU_PAD_BORDER, /* its value, f; then as it is stored */
    BS_CU_PAD_EDGE
};

static void bs_cu_pad_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_pad;
    s->p[BS_CU_PAD_BORDER].i = (int32_t)bs_cu_pad_border(n->out[0].dtype, s->p[BS_CU_PAD_BORDER].f);
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_pad_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t top = s->p[BS_CU_PAD_TOP].i, left = s->p[BS_CU_PAD_LEFT].i,
                  index = w.part * (int32_t)blockDim.x + (int32_t)threadIdx.x,
                  threads = w.parts * (int32_t)blockDim.x;
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view y = bs_cu_open(t, bs_cu_out(t, s, 0), r), x = bs_cu_open(t, bs_cu_in(t, s, 0), r);
        if (w.part == 0)
            bs_cu_zero_margin(y);
        for (bs_cu_scan k = bs_cu_scan_over(y.y0, y.y1, y.x0, y.x1, y.dim[0], index, threads); bs_cu_scan_more(k);
             bs_cu_scan_next(&k)) {
            const int32_t sy = min(max(k.y - top, 0), x.dim[1] - 1), sx = min(max(k.x - left, 0), x.dim[2] - 1);
            if (s->p[BS_CU_PAD_EDGE].i || (sy == k.y - top && sx == k.x - left))
                bs_cu_pixel_move(y, k, x, k.c, sy, sx);
            else
                bs_cu_store_one(y.data, bs_cu_bytes(y.dtype), bs_cu_pixel_at(y, k.c, k.y, k.x),
                                (uint32_t)s->p[BS_CU_PAD_BORDER].i);
        }
    }
}

/* ------------------------------------------------------------------------------------------- pixel shuffle */

enum { BS_CU_SHUFFLE_FACTOR }; /* what both are told in p */

static void bs_cu_pixel_shuffle_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_pixel_shuffle;
    bs_cu_cut(n, s);
}

static void bs_cu_pixel_unshuffle_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_pixel_unshuffle;
    bs_cu_cut(n, s);
}

/* Goes over the result, so that it is written in order. */
__device__ inline void bs_cu_pixel_shuffle_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t f = s->p[BS_CU_SHUFFLE_FACTOR].i, index = w.part * (int32_t)blockDim.x + (int32_t)threadIdx.x,
                  threads = w.parts * (int32_t)blockDim.x;
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view y = bs_cu_open(t, bs_cu_out(t, s, 0), r), x = bs_cu_open(t, bs_cu_in(t, s, 0), r);
        if (w.part == 0)
            bs_cu_zero_margin(y);
        for (bs_cu_scan k = bs_cu_scan_over(y.y0, y.y1, y.x0, y.x1, y.dim[0], index, threads); bs_cu_scan_more(k);
             bs_cu_scan_next(&k)) {
            const int32_t sy = bs_cu_floor_div(k.y, f), sx = bs_cu_floor_div(k.x, f),
                          c = (k.c * f + k.y - sy * f) * f + k.x - sx * f;
            bs_cu_pixel_move(y, k, x, c, sy, sx);
        }
    }
}

__device__ inline void bs_cu_pixel_unshuffle_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t f = s->p[BS_CU_SHUFFLE_FACTOR].i, index = w.part * (int32_t)blockDim.x + (int32_t)threadIdx.x,
                  threads = w.parts * (int32_t)blockDim.x;
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view y = bs_cu_open(t, bs_cu_out(t, s, 0), r), x = bs_cu_open(t, bs_cu_in(t, s, 0), r);
        if (x.frame_h % f != 0 || x.frame_w % f != 0) { /* rows would be missing */
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        if (w.part == 0)
            bs_cu_zero_margin(y);
        for (bs_cu_scan k = bs_cu_scan_over(y.y0, y.y1, y.x0, y.x1, y.dim[0], index, threads); bs_cu_scan_more(k);
             bs_cu_scan_next(&k)) {
            const int32_t c = bs_cu_floor_div(k.c, f * f), phase = k.c - c * f * f, i = bs_cu_floor_div(phase, f),
                          j = phase - i * f;
            bs_cu_pixel_move(y, k, x, c, k.y * f + i, k.x * f + j);
        }
    }
}

/* --------------------------------------------------------------------------------------------- gather_rows */

static void bs_cu_gather_rows_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_gather_rows;
    bs_cu_cut(n, s);
}

/* Copies rows of the table: few threads each, as many as its bytes keep busy. */
__device__ inline void bs_cu_gather_rows_of(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &y,
                                            const bs_cu_view &table, const bs_cu_view &indices, const bs_cu_deal &d)
{
    bs_cu_view row = y;
    bs_cu_keep(&row, 0, 1);
    const bs_cu_rect all = {0, row.y1, 0, row.x1};
    const bs_cu_nest first = bs_cu_nest_of(row, table, false, all);
    const bs_cu_work whole = {0, 1, 0, 1};
    const int64_t bytes = (int64_t)first.n[0] * first.n[1] * first.n[2] * first.n[3] * bs_cu_bytes(y.dtype);
    int32_t width = 1;
    while (width < 32 && width * 2 <= d.workers && width * 16 < bytes)
        width *= 2;
    const bs_cu_team team = {d.index % width, width, d.index / width, d.workers / width};
    for (int32_t m = team.index; m < y.dim[0]; m += team.count) {
        const int32_t from = reinterpret_cast<const int32_t *>(indices.data)[(int64_t)m * indices.stride[0]];
        if (from < 0 || from >= table.dim[0]) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        bs_cu_nest c = first;
        c.to += (int64_t)m * y.stride[0] * bs_cu_bytes(y.dtype);
        c.from += (int64_t)from * table.stride[0] * bs_cu_bytes(table.dtype);
        bs_cu_nest_copy(c, team, t.workspace, whole);
    }
}

/* Operands: indices, table. */
__device__ inline void bs_cu_gather_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_deal d = bs_cu_deal_copy(out, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        if (w.part == 0)
            bs_cu_zero_margin(y);
        bs_cu_gather_rows_of(t, s, y, bs_cu_open(t, bs_cu_in(t, s, 1), r), bs_cu_open(t, bs_cu_in(t, s, 0), r), d);
    }
}

#endif
