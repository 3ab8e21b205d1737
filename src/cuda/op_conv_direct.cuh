/* op_conv_direct.cuh - conv2d in f32, any geometry: a window is copied to shared memory; a thread has 4 pixels x 8
 * outputs. Owns the chunks of channels that are in shared memory at once. Relies on conv_store.cuh and on the
 * layout of BS_CONV_DIRECT (kernels/conv_pack.c). Must never let the order of a sum depend on where a pixel stands or
 * on the cut: it is one order for each geometry. */
#ifndef BS_CUDA_OP_CONV_DIRECT
#define BS_CUDA_OP_CONV_DIRECT

#include "cuda/conv_store.cuh"

enum { BS_CU_CONV_MOST = 20 }; /* channels of a chunk: 306 pixels of a window in the workspace */

/* -------------------------------------------------------------------------------------------- the host's side */

/* Chooses chunks of equal size, and the distance between pixels: an odd number of words, or of quads, so that the
 * threads of a warp, a pixel each, have no bank conflicts. */
static void bs_cu_conv_chunk(bs_device_step *s, int32_t in_c)
{
    const int32_t chunks = (in_c + BS_CU_CONV_MOST - 1) / BS_CU_CONV_MOST, each = (in_c + chunks - 1) / chunks;
    const int32_t chunk = in_c < 4 ? in_c : (each + 3) / 4 * 4;
    s->p[BS_CU_CONV_CHUNK].i = chunk;
    s->p[BS_CU_CONV_PIXEL].i = chunk < 4 ? chunk | 1 : chunk % 8 == 0 ? chunk + 4 : chunk;
}

/* Threads for the pixels of a tile, 4 each: whole warps. */
__host__ __device__ static inline int32_t bs_cu_conv_quads(const bs_device_step *s)
{
    return (s->p[BS_CU_CONV_TILE_H].i * s->p[BS_CU_CONV_TILE_W].i + 127) / 128 * 32;
}

/* f32, windows in shared memory. False: a window is too large for it. */
static bool bs_cu_conv_describe_direct(bs_device_step *s, int32_t in_c, int32_t out_c, int64_t h, int64_t w)
{
    bs_cu_conv_chunk(s, in_c);
    /* threads of a block of outputs */
    const int32_t blocks = (out_c + 7) / 8, share = BS_CU_THREADS / (blocks < 4 ? blocks : 4) / 32 * 32;
    const int32_t room = (BS_CU_WORKSPACE - BS_CU_CONV_JOB) / 4 / s->p[BS_CU_CONV_PIXEL].i;
    if (!bs_cu_conv_cut(s, h, w, 4 * (share > 64 ? share : 64), room))
        return false;
    const int32_t sides = BS_CU_THREADS / bs_cu_conv_quads(s);
    s->parts = bs_cu_work_items(bs_cu_conv_tiles(s, h, w) * s->p[BS_CU_CONV_GROUPS].i * bs_ceil_div(blocks, sides), 1);
    return true;
}

/* ------------------------------------------------------------------------------------------------------- sums */

/* Copies `channels` channels of a work item's window to shared memory, as f32, pixels `apart` floats apart. */
__device__ __forceinline__ void bs_cu_conv_stage(const bs_cu_conv &c, const bs_cu_conv_item &p, const uint8_t *from,
                                                 int32_t channels, int32_t apart, float *to)
{
    const int32_t threads = bs_cu_threads(), bytes = bs_cu_bytes(c.in_dtype);
    const bool quads = bs_cu_quads(from, c.in_dtype, c.in_row, c.in_pixel, channels);
    const int32_t each = quads ? channels / 4 : channels, w = p.window_w, n = p.window_h * w * each;
    for (int32_t i = bs_cu_thread(); i < n; i += threads) {
        const int32_t at = i / each, k = i - at * each, y = at / w, x = at - y * w;
        const uint8_t *pixel = from + ((int64_t)y * c.in_row + x * c.in_pixel) * bytes;
        if (quads)
            *reinterpret_cast<float4 *>(to + at * apart + 4 * k) = bs_cu_get_quad(pixel, c.in_dtype, 4 * k);
        else
            to[at * apart + k] = bs_cu_get(pixel, c.in_dtype, k);
    }
}

template <int WIDTH> __device__ __forceinline__ void bs_cu_conv_load(const float *w, float (&to)[WIDTH])
{
#pragma unroll
    for (int q = 0; q < WIDTH; q += 4) {
        const float4 v = bs_cu_constant(reinterpret_cast<const float4 *>(w + q));
        to[q] = v.x;
        to[q + 1] = v.y;
        to[q + 2] = v.z;
        to[q + 3] = v.w;
    }
}

template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_add(float (&sum)[4][8], const float (&x)[4], const float *w)
{
    float each[WIDTH];
    bs_cu_conv_load<WIDTH>(w, each);
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int o = 0; o < WIDTH; o++)
            sum[p][o] = fmaf(x[p], each[o], sum[p][o]);
}

/* Adds `channels` channels of all taps to the sums of 4 pixels, whose windows begin at `window` + at[p]. row, column:
 * floats to the next tap. w: weights of the first channel; those of the next tap are `tap` floats farther. */
template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_sum(const bs_cu_conv &c, const float *window, int32_t row, int32_t column,
                                               const int32_t (&at)[4], const float *w, int32_t tap, int32_t channels,
                                               float (&sum)[4][8])
{
#pragma unroll 1
    for (int32_t ky = 0; ky < c.kernel_h; ky++)
#pragma unroll 1
        for (int32_t kx = 0; kx < c.kernel_w; kx++, w += tap) {
            const float *x = window + ky * row + kx * column, *v = w;
            int32_t i = 0;
#pragma unroll 1
            for (; i + 4 <= channels; i += 4, v += 4 * WIDTH) {
                float4 q[4];
#pragma unroll
                for (int p = 0; p < 4; p++)
                    q[p] = *reinterpret_cast<const float4 *>(x + at[p] + i);
                const float x0[4] = {q[0].x, q[1].x, q[2].x, q[3].x}, x1[4] = {q[0].y, q[1].y, q[2].y, q[3].y};
                const float x2[4] = {q[0].z, q[1].z, q[2].z, q[3].z}, x3[4] = {q[0].w, q[1].w, q[2].w, q[3].w};
                bs_cu_conv_add<WIDTH>(sum, x0, v);
                bs_cu_conv_add<WIDTH>(sum, x1, v + WIDTH);
                bs_cu_conv_add<WIDTH>(sum, x2, v + 2 * WIDTH);
                bs_cu_conv_add<WIDTH>(sum, x3, v + 3 * WIDTH);
            }
#pragma unroll 1
            for (; i < channels; i++, v += WIDTH) {
                const float one[4] = {x[at[0] + i], x[at[1] + i], x[at[2] + i], x[at[3] + i]};
                bs_cu_conv_add<WIDTH>(sum, one, v);
            }
        }
}

/* ----------------------------------------------------------------------------------------------------- work items */

/* Stores the sums of a thread's 4 pixels: pixels `lane`, lane + each ... of the tile, 8 outputs from `first`. */
__device__ __forceinline__ void bs_cu_conv_finish_tile(const bs_cu_conv &c, const bs_cu_conv_item &p, int32_t first,
                                                       int32_t lane, int32_t each, float (&sum)[4][8])
{
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
    const int32_t channel = p.group * c.out_c + first, count = min(8, c.out_c - first),
                  bytes = bs_cu_bytes(c.out_dtype);
    uint8_t *to = c.out + ((int64_t)p.y * c.out_row + (int64_t)p.x * c.out_pixel + channel) * bytes;
    if (e.rare != BS_ACT_NONE) {
#pragma unroll 1
        for (int32_t i = lane; i < p.h * p.w; i += each) {
            const int32_t y = i / p.w;
            bs_cu_conv_store_rare(c, e, sum[0], channel, count,
                                  to + ((int64_t)y * c.out_row + (int64_t)(i - y * p.w) * c.out_pixel) * bytes);
#pragma unroll
            for (int o = 0; o < 8; o++) {
                sum[0][o] = sum[1][o];
                sum[1][o] = sum[2][o];
                sum[2][o] = sum[3][o];
            }
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int32_t i = lane + k * each, y = i / p.w;
        if (i < p.h * p.w)
            bs_cu_conv_store<8>(c, e, sum[k], channel, count,
                                to + ((int64_t)y * c.out_row + (int64_t)(i - y * p.w) * c.out_pixel) * bytes);
    }
}

/* Computes every parts-th work item from `part` on; returns how many there are in all. They are numbered by tile, then
 * group, then pass. */
__device__ __forceinline__ int32_t bs_cu_conv_direct(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_conv &c,
                                                     int32_t part, int32_t parts)
{
    float *window = reinterpret_cast<float *>(t.workspace + BS_CU_CONV_JOB);
    BS_CU_ASSUME_SHARED(window);
    const int32_t taps = c.kernel_h * c.kernel_w, padded = (c.out_c + 3) / 4 * 4, blocks = (c.out_c + 7) / 8;
    const int32_t quads = bs_cu_conv_quads(s);
    const int32_t side = bs_cu_thread() / quads, lane = bs_cu_thread() % quads;
    const int32_t sides = bs_cu_threads() / quads, passes = (blocks + sides - 1) / sides,
                  items = bs_cu_conv_tiles_of(s, c) * passes;
    const int32_t chunk = s->p[BS_CU_CONV_CHUNK].i, apart = s->p[BS_CU_CONV_PIXEL].i;
    int32_t staged = -1;
    for (int32_t item = part; item < items; item += parts) {
        const bs_cu_conv_item p = bs_cu_conv_item_of(s, c, item, passes);
        const int32_t block = p.pass * sides + side, first = block * 8, n = p.h * p.w, each = (n + 3) / 4;
        const bool active = side < sides && block < blocks && lane < each;
        const int32_t wide = c.out_c - first > 4 ? 8 : 4;
        const float *w = reinterpret_cast<const float *>(c.weights) +
                         ((int64_t)p.group * padded + first) * taps * c.in_c;
        float sum[4][8] = {};
        int32_t at[4];
#pragma unroll
        for (int k = 0; k < 4; k++) { /* neighbouring threads have neighbouring pixels */
            const int32_t i = min(lane + k * each, n - 1), y = i / p.w;
            at[k] = (y * c.stride_h * p.window_w + (i - y * p.w) * c.stride_w) * apart;
        }
        for (int32_t i = 0; i < c.in_c && taps > 0; i += chunk) {
            const int32_t channels = min(chunk, c.in_c - i);
            if (channels < c.in_c || staged != item / passes) {
                __syncthreads();
                bs_cu_conv_stage(c, p, bs_cu_conv_source(c, p) + i * bs_cu_bytes(c.in_dtype), channels, apart,
                                 window);
                __syncthreads();
                staged = item / passes;
            }
            const int32_t column = c.dilation_w * apart, row = p.window_w * c.dilation_h * apart;
            if (active && wide == 8)
                bs_cu_conv_sum<8>(c, window, row, column, at, w + i * 8, c.in_c * 8, channels, sum);
            else if (active)
                bs_cu_conv_sum<4>(c, window, row, column, at, w + i * 4, c.in_c * 4, channels, sum);
        }
        if (active)
            bs_cu_conv_finish_tile(c, p, first, lane, each, sum);
    }
    return items;
}

__device__ inline void bs_cu_conv2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) { bs_cu_conv_direct(t, s, c, w.part, w.parts); });
}

#endif
