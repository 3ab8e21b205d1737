/* op_conv_tensor.cuh - conv2d on tensor cores: f16 products, sums in f32. Pixels are the rows of a matrix product, all
 * products of a window its depth, without gaps between taps.
 *
 * conv2d_tensor     windows are copied to shared memory, or read in place
 * conv2d_tile       windows lie in shared memory already, as rows of a tile
 *
 * Relies on conv_store.cuh, tensor.cuh and the layout of BS_CONV_TENSOR (kernels/conv_pack.c). Must never let the
 * order of a sum depend on where a pixel stands or on the cut: it is one order for each geometry. */
#ifndef BS_CUDA_OP_CONV_TENSOR
#define BS_CUDA_OP_CONV_TENSOR

#include "cuda/conv_store.cuh"
#include "cuda/tensor.cuh"

enum {
    BS_CU_TENSOR_PIXELS = 512,
    BS_CU_TENSOR_BAND = 32768 /* pixels that are numbered at once where windows are read directly */
};

/* -------------------------------------------------------------------------------------------- the host's side */

static int32_t bs_cu_tensor_steps(int32_t taps, int32_t in_c) { return (taps * in_c + 15) / 16; }

/* f16 products. In a tile, windows lie in shared memory already; elsewhere they are copied there. Pixels 16 words
 * apart, or a multiple of that, would all be in the same banks. */
static bool bs_cu_conv_describe_tensor(const bs_cu_node *n, bs_device_step *s, int32_t in_c, int64_t h, int64_t w)
{
    const int32_t steps = bs_cu_tensor_steps(s->p[BS_CU_CONV_KERNEL_H].i * s->p[BS_CU_CONV_KERNEL_W].i, in_c);
    const int32_t pixel = in_c % 32 == 0 ? in_c + 8 : in_c;
    const bool half = n->in[0].dtype == BS_F16, tile = n->near && n->in[0].place == BS_AT_TILE;
    const int64_t room = (BS_CU_WORKSPACE - BS_CU_CONV_JOB - 16 * steps) / (2 * pixel);
    if (!(half && tile) && bs_cu_conv_cut(s, h, w, BS_CU_TENSOR_PIXELS, room) &&
        (!half || s->p[BS_CU_CONV_TILE_H].i * s->p[BS_CU_CONV_TILE_W].i >= 32 || h * w < 32)) {
        s->p[BS_CU_CONV_PIXEL].i = pixel;
    } else {
        s->p[BS_CU_CONV_PIXEL].i = 0;
        s->p[BS_CU_CONV_TILE_W].i = (int32_t)(tile ? w : w < 16 ? w : 16);
        s->p[BS_CU_CONV_TILE_H].i = (int32_t)(tile     ? (w < BS_CU_TENSOR_BAND ? BS_CU_TENSOR_BAND / w : 1)
                                              : h < 16 ? h
                                                       : 16);
    }
    s->parts = bs_cu_work_items(bs_cu_conv_tiles(s, h, w) * s->p[BS_CU_CONV_GROUPS].i, 1);
    /* read in place, windows are found by offsets of 32 bits */
    const int64_t down = bs_cu_window(s->p[BS_CU_CONV_TILE_H].i, s->p[BS_CU_CONV_KERNEL_H].i,
                                      bs_cu_down(s->p[BS_CU_CONV_STRIDE].i), bs_cu_down(s->p[BS_CU_CONV_DILATION].i));
    if (s->p[BS_CU_CONV_PIXEL].i == 0 && 2 * (down + 1) * n->in[0].stride[1] > INT32_MAX)
        return false;
    return half || s->p[BS_CU_CONV_PIXEL].i > 0;
}

/* ---------------------------------------------------------------------------------------------------- windows */

/* A window as the products read it: quad q of 4 products is table[q] bytes from a pixel's first one. */
struct bs_cu_conv_window {
    const uint8_t *data;  /* f16: the first window of the tile */
    int32_t row, pixel;   /* bytes between neighbouring outputs, down and across */
    const int32_t *table;
    int32_t steps;
    int32_t spread; /* log2 of the distance between the pixels of neighbouring matrix rows: bs_cu_conv_spread */
};

/* Lanes 4 g .. 4 g + 3 read 8 words of pixel g together, 16 lanes at a time. The four pixels have no bank conflicts
 * when they are an odd multiple of 8 words apart: where neighbours are an odd multiple of 4 or 2 apart, take every 2nd
 * or 4th pixel. */
__device__ __forceinline__ int32_t bs_cu_conv_spread(int32_t bytes)
{
    const int32_t words = bytes / 4;
    return words % 4 == 2 ? 2 : words % 8 == 4 ? 1 : 0;
}

/* Copies the window of a work item to shared memory, as f16, pixels `apart` elements apart. */
__device__ __forceinline__ void bs_cu_conv_stage_half(const bs_cu_conv &c, const bs_cu_conv_item &p,
                                                      const uint8_t *from, bool far, int32_t apart, __half *to)
{
    const int32_t threads = bs_cu_threads(), bytes = bs_cu_bytes(c.in_dtype);
    const bool quads = bs_cu_quads(from, c.in_dtype, c.in_row, c.in_pixel, c.in_c);
    const bool async = far && quads && c.in_dtype == BS_F16 && ((c.in_row | c.in_pixel | c.in_c) & 7) == 0 &&
                       (reinterpret_cast<uintptr_t>(from) & 15) == 0;
    const int32_t each = async ? c.in_c / 8 : quads ? c.in_c / 4 : c.in_c, w = p.window_w, n = p.window_h * w * each;
    for (int32_t i = bs_cu_thread(); i < n; i += threads) {
        const int32_t at = i / each, k = i - at * each, y = at / w, x = at - y * w;
        const uint8_t *pixel = from + ((int64_t)y * c.in_row + x * c.in_pixel) * bytes;
        __half *target = to + at * apart;
        if (async) {
            bs_cu_cp_async_16(target + 8 * k, pixel + 16 * k);
        } else if (quads && c.in_dtype == BS_F16) {
            *reinterpret_cast<uint2 *>(target + 4 * k) = *reinterpret_cast<const uint2 *>(pixel + 8 * k);
        } else if (quads) {
            *reinterpret_cast<uint2 *>(target + 4 * k) = bs_cu_pack_quad(bs_cu_get_quad(pixel, BS_F32, 4 * k));
        } else {
            bs_cu_put(reinterpret_cast<uint8_t *>(target), BS_F16, k, bs_cu_get(pixel, c.in_dtype, k));
        }
    }
    bs_cu_cp_async_commit();
    bs_cu_cp_async_wait<0>();
}

/* Where the quads of products are in a window: bytes from its first sample. Quads beyond the last product read the
 * first sample, with weights of zero. */
__device__ __forceinline__ void bs_cu_conv_table(const bs_cu_conv &c, int32_t row, int32_t pixel, int32_t quads,
                                                 int32_t *table)
{
    const int32_t products = c.kernel_h * c.kernel_w * c.in_c;
    for (int32_t q = bs_cu_thread(); q < quads; q += bs_cu_threads()) {
        const int32_t k = 4 * q, tap = k / c.in_c, ky = tap / c.kernel_w, kx = tap - ky * c.kernel_w;
        table[q] = k < products ? 2 * (ky * c.dilation_h * row + kx * c.dilation_w * pixel + k - tap * c.in_c) : 0;
    }
}

/* --------------------------------------------------------------------------------------------------- products */

/* Two neighbouring outputs of a thread. */
struct bs_cu_conv_pair {
    int32_t channel, valid; /* the first; how many there are: 2, 1 or less */
    float bias[2], slope[2];
};

__device__ __forceinline__ bs_cu_conv_pair bs_cu_conv_pair_of(const bs_cu_conv &c, const bs_cu_conv_end &e,
                                                              const bs_cu_conv_item &p, int32_t o)
{
    bs_cu_conv_pair pair = {p.group * c.out_c + o, c.out_c - o, {0.0f, 0.0f}, {e.slope, e.slope}};
    for (int32_t i = 0; i < 2; i++)
        if (i < pair.valid) {
            pair.bias[i] = e.bias[pair.channel + i];
            pair.slope[i] = e.slopes ? e.slopes[pair.channel + i] : e.slope;
        }
    return pair;
}

/* Stores a pair to pixel `at`: row << 16 | column of the tile; -1: not at all. */
template <bool RARE>
__device__ __forceinline__ void bs_cu_conv_put_pair(const bs_cu_conv &c, const bs_cu_conv_end &e,
                                                    const bs_cu_conv_item &p, const bs_cu_conv_pair &pair, int32_t at,
                                                    float d0, float d1)
{
    if (at < 0 || pair.valid <= 0)
        return;
    const int64_t row = (int64_t)(p.y + (at >> 16)) * c.out_row, column = (int64_t)(p.x + (at & 0xffff)) * c.out_pixel;
    const float y0 = bs_cu_conv_finish<RARE>(e, pair.slope[0], d0 + pair.bias[0]),
                y1 = bs_cu_conv_finish<RARE>(e, pair.slope[1], d1 + pair.bias[1]);
    uint8_t *y = c.out + (row + column + pair.channel) * bs_cu_bytes(c.out_dtype);
    if (pair.valid > 1 && c.out_dtype == BS_F16 && (reinterpret_cast<uintptr_t>(y) & 3) == 0) {
        *reinterpret_cast<uint32_t *>(y) = bs_cu_pack_half2(y0, y1);
    } else {
        bs_cu_put(y, c.out_dtype, 0, y0);
        if (pair.valid > 1)
            bs_cu_put(y, c.out_dtype, 1, y1);
    }
}

/* Computes 16 MT pixels of a tile from `base` on, by NT blocks of 8 outputs from `first` on. NEAR: windows are in
 * shared memory. */
template <int MT, int NT, bool NEAR>
__device__ __forceinline__ void bs_cu_conv_product(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                   const bs_cu_conv_item &p, int32_t base, int32_t first)
{
    const int32_t lane = bs_cu_lane(), g = lane >> 2, quad = lane & 3, n = p.h * p.w,
                  blocks = (c.out_c + 7) / 8;
    const uint2 *w = reinterpret_cast<const uint2 *>(c.weights) + ((int64_t)p.group * blocks + first) * v.steps * 32 +
                     lane;
    const int32_t apart = v.steps * 32, last = min(NT, blocks - first) - 1; /* beyond it, the last block again */
    const uint8_t *data = v.data;
    if (NEAR)
        BS_CU_ASSUME_SHARED(data);
    int32_t x[2 * MT], at[2 * MT];
    float d[NT * MT * 4]; /* [blocks of outputs][16s of pixels]: pairs of rows g and g + 8 */
#pragma unroll
    for (int m = 0; m < 2 * MT; m++) {
        const int32_t u = m * 2 + (g >> 2);
        const int32_t i = base + ((u >> v.spread) << (v.spread + 2)) + (u & ((1 << v.spread) - 1)) +
                          ((g & 3) << v.spread);
        const int32_t row = min(i, n - 1) / p.w, column = min(i, n - 1) - row * p.w;
        x[m] = row * v.row + column * v.pixel;
        at[m] = i < n ? row << 16 | column : -1;
    }
#pragma unroll
    for (int k = 0; k < NT * MT * 4; k++)
        d[k] = 0.0f;
#pragma unroll 1
    for (int32_t step = 0; step < v.steps; step++, w += 32) {
        const uint8_t *from = data + v.table[4 * step + quad];
        uint2 b[NT];
#pragma unroll
        for (int k = 0; k < NT; k++)
            b[k] = bs_cu_constant(w + min(k, last) * apart);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const uint2 low = *reinterpret_cast<const uint2 *>(from + x[2 * m]),
                        high = *reinterpret_cast<const uint2 *>(from + x[2 * m + 1]);
            const uint32_t a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
            for (int k = 0; k < NT; k++) {
                const uint32_t bk[2] = {b[k].x, b[k].y};
                bs_cu_mma(d + (k * MT + m) * 4, a, bk);
            }
        }
    }
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
#pragma unroll 1 /* here and below: sums are shifted to the front, so that this code exists once */
    for (int32_t k = 0; k < NT; k++) {
        const bs_cu_conv_pair pair = bs_cu_conv_pair_of(c, e, p, (first + k) * 8 + 2 * quad);
        if (e.rare == BS_ACT_NONE) {
#pragma unroll
            for (int m = 0; m < 2 * MT; m++)
                bs_cu_conv_put_pair<false>(c, e, p, pair, at[m], d[2 * m], d[2 * m + 1]);
        }
#pragma unroll 1
        for (int32_t m = 0; e.rare != BS_ACT_NONE && m < 2 * MT; m++) {
            const int32_t here = at[0];
            const float d0 = d[0], d1 = d[1];
            bs_cu_conv_put_pair<true>(c, e, p, pair, here, d0, d1);
#pragma unroll
            for (int i = 0; i < 2 * MT; i++) {
                at[i] = i + 1 < 2 * MT ? at[i + 1] : here;
                d[2 * i] = i + 1 < 2 * MT ? d[2 * i + 2] : d0;
                d[2 * i + 1] = i + 1 < 2 * MT ? d[2 * i + 3] : d1;
            }
        }
#pragma unroll
        for (int i = 0; i + 4 * MT < NT * MT * 4; i++)
            d[i] = d[i + 4 * MT];
    }
}

/* All products of a tile, divided among the warps; `together`: blocks of outputs of a warp. */
template <int MT, bool NEAR>
__device__ __forceinline__ void bs_cu_conv_products(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                    const bs_cu_conv_item &p, int32_t together)
{
    const int32_t down = (p.h * p.w + 16 * MT - 1) / (16 * MT), blocks = (c.out_c + 7) / 8,
                  across = (blocks + together - 1) / together;
    for (int32_t item = bs_cu_warp(); item < down * across; item += bs_cu_warps()) {
        const int32_t base = item % down * 16 * MT, first = item / down * together;
        if (together == 1)
            bs_cu_conv_product<MT, 1, NEAR>(c, v, p, base, first);
        else if (together == 2 || !NEAR)
            bs_cu_conv_product<MT, 2, NEAR>(c, v, p, base, first);
        else if (together == 3)
            bs_cu_conv_product<MT, NEAR ? 3 : 2, NEAR>(c, v, p, base, first);
        else
            bs_cu_conv_product<MT, MT == 4 ? 3 : NEAR ? 4 : 2, NEAR>(c, v, p, base, first);
    }
}

/* ------------------------------------------------------------------------------------------------ dealing out */

/* Blocks of outputs that a warp computes together: up to 4, so that windows are read less often; fewer where warps
 * would be idle. */
__device__ __forceinline__ int32_t bs_cu_conv_together(const bs_cu_conv &c, const bs_cu_conv_item &p)
{
    const int32_t blocks = (c.out_c + 7) / 8, warps = bs_cu_warps(), groups = (p.h * p.w + 31) / 32;
    const int32_t least = max((blocks + 3) / 4, min(blocks, warps / groups));
    return (blocks + least - 1) / least;
}

/* Chooses the pixels of a warp: 64 at once reuse weights more, 32 leave fewer warps idle at the end. There are
 * registers for 64 only in a tile, which has a multiprocessor to itself. */
template <bool TILE>
__device__ __forceinline__ void bs_cu_conv_deal(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                const bs_cu_conv_item &p, bool near)
{
    const int32_t n = p.h * p.w, warps = bs_cu_warps(), together = bs_cu_conv_together(c, p);
    if (TILE) {
        const int32_t across = ((c.out_c + 7) / 8 + together - 1) / together;
        const int32_t fours = ((n + 63) / 64 * across + warps - 1) / warps,
                      twos = ((n + 31) / 32 * across + warps - 1) / warps;
        if (together < 4 && fours * 12 <= twos * 7)
            bs_cu_conv_products<4, true>(c, v, p, together);
        else
            bs_cu_conv_products<2, true>(c, v, p, together);
    } else if (near) {
        bs_cu_conv_products<2, true>(c, v, p, together);
    } else {
        bs_cu_conv_products<2, false>(c, v, p, min(together, 2));
    }
}

/* TILE: the operand is a row of a tile, in shared memory already. */
template <bool TILE>
__device__ __forceinline__ void bs_cu_conv_tensor(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_conv &c,
                                                  int32_t part, int32_t parts)
{
    const int32_t items = bs_cu_conv_tiles_of(s, c), apart = TILE ? 0 : s->p[BS_CU_CONV_PIXEL].i;
    int32_t *table = reinterpret_cast<int32_t *>(t.workspace + BS_CU_CONV_JOB);
    BS_CU_ASSUME_SHARED(table);
    bs_cu_conv_window v;
    v.steps = (c.kernel_h * c.kernel_w * c.in_c + 15) / 16;
    v.table = table;
    __half *room = reinterpret_cast<__half *>(table + 4 * v.steps);
    int32_t columns = 0; /* of the window that the table is for */
    for (int32_t item = part; item < items; item += parts) {
        const bs_cu_conv_item p = bs_cu_conv_item_of(s, c, item, 1);
        const int32_t row = apart > 0 ? p.window_w * apart : c.in_row, pixel = apart > 0 ? apart : c.in_pixel;
        const uint8_t *from = bs_cu_conv_source(c, p);
        __syncthreads(); /* the previous work item is done with the workspace */
        if (columns != p.window_w)
            bs_cu_conv_table(c, row, pixel, 4 * v.steps, table);
        if (apart > 0)
            bs_cu_conv_stage_half(c, p, from, t.scratch == NULL, apart, room);
        __syncthreads();
        columns = p.window_w;
        v.data = apart > 0 ? reinterpret_cast<const uint8_t *>(room) : from;
        v.row = 2 * row * c.stride_h;
        v.pixel = 2 * pixel * c.stride_w;
        v.spread = bs_cu_conv_spread(v.pixel);
        bs_cu_conv_deal<TILE>(c, v, p, apart > 0);
    }
}

__device__ inline void bs_cu_conv2d_tensor_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) { bs_cu_conv_tensor<false>(t, s, c, w.part, w.parts); });
}

/* Runs in regions only; code for a launch of its own would never be used. */
__device__ inline void bs_cu_conv2d_tile_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    if (t.scratch != NULL)
        bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) { bs_cu_conv_tensor<true>(t, s, c, w.part, w.parts); });
}

#endif
