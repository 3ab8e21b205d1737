/* walk.cuh - one loop nest for every op that computes element by element over strided operands (copies: move_nest.cuh),
 * and how rows and elements are dealt out to the threads of a block.
 *
 * Axes are merged where all operands allow it, so that an image with margins is lines of pixels and channels, and a
 * dense tensor one line. Four elements of a line are taken at a time where they are adjacent; a thread gets from its
 * elements to the next ones by carrying digits, without a division.
 * Relies on program.cuh and describe.cuh. Must never know what an element means. */
#ifndef BS_CUDA_WALK
#define BS_CUDA_WALK

#include "cuda/describe.cuh"
#include "cuda/program.cuh"

#define BS_CU_EACH 4096 /* elements of a work item, at most */

/* Work items of an op that fills out[0] element by element: parts of images and large rows, batches of small rows. */
static inline void bs_cu_cut(const bs_cu_node *n, bs_device_step *s)
{
    const int64_t elements = bs_cu_elements(&n->out[0]), each = bs_cu_item(n, elements, BS_CU_EACH);
    if (n->out[0].image || elements > each)
        s->parts = bs_cu_work_items(elements, each);
    else
        s->batch = (int32_t)(each / (elements < 64 ? 64 : elements));
}

/* --------------------------------------------------------------------------------------- dealing out work */

/* Rows `row`, row + rows, ... below `end` are this worker's, and of their elements index, index + workers, ... A worker
 * is a thread, or a warp. */
struct bs_cu_deal {
    int32_t row, rows, end, index, workers;
};

/* A row with an image, or one that is cut into parts, goes to the whole block; others to at most as many workers as
 * they have `units`, and to fewer where all rows together keep all of them busy: finding a row takes long. */
__device__ inline bs_cu_deal bs_cu_deal_out(const bs_cu_work &w, bool whole, int32_t units, int32_t worker,
                                            int32_t workers)
{
    bs_cu_deal d = {w.row, 1, w.end, w.part * workers + worker, w.parts * workers};
    if (whole || w.parts > 1 || w.end - w.row == 1)
        return d;
    int32_t shift = 0;
    while (1 << shift < units && 2 << shift <= workers && (w.end - w.row) << shift < workers)
        shift++;
    d.rows = workers >> shift;
    d.row = worker >> shift < d.rows ? w.row + (worker >> shift) : d.end;
    d.index = worker & ((1 << shift) - 1);
    d.workers = 1 << shift;
    return d;
}

/* For an op that fills out[0]; `unit`: log2 of the bytes that a worker writes at a time, four elements. */
__device__ __forceinline__ bs_cu_deal bs_cu_deal_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                      int32_t unit = 4)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    return bs_cu_deal_out(w, out->image, (int32_t)(out->row_bytes >> unit), bs_cu_thread(), bs_cu_threads());
}

/* Every row to the whole block. */
__device__ __forceinline__ bs_cu_deal bs_cu_deal_whole(const bs_cu_work &w)
{
    return bs_cu_deal_out(w, true, 0, bs_cu_thread(), bs_cu_threads());
}

/* Calls each(y, x, row) with the result and operand 0 of this worker's rows; margins are zeroed before. */
template <typename E>
__device__ __forceinline__ void bs_cu_each_row(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                               const bs_cu_deal &d, const E &each)
{
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_view x = bs_cu_open_in(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        each(y, x, r);
    }
}

/* --------------------------------------------------------------------------------------------------- walk */

/* Four axes, the last one moves fastest; begin: the first element. Operand 0 is the output. */
template <int N> struct bs_cu_walk {
    int32_t count[4];
    int32_t step[N][4]; /* elements */
    uint8_t *begin[N];
    int32_t bytes[N]; /* of an element */
};

/* Where axis k of the walk is in a view: an image whose channels lie side by side goes y, x, c; else the last dimension
 * is the last axis. Without an index that is known at run time only, which would put the view in memory. */
template <int M>
__device__ __forceinline__ int32_t bs_cu_on_axis(const int32_t (&v)[M], int32_t rank, bool channels_last, int32_t k,
                                                 int32_t none)
{
    int32_t there = none;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        there = d <= k && d + BS_MAX_RANK - rank == k ? v[d] : there;
    return !channels_last ? there : k == 0 ? none : v[k % 3];
}

/* Merges axis 2 into axis 3 where both are one line in every operand; the axes before move up. */
template <int N> __device__ __forceinline__ void bs_cu_walk_fold(bs_cu_walk<N> *k)
{
    bool follows = true;
    for (int32_t i = 0; i < N; i++)
        follows = follows && (int64_t)k->step[i][2] == (int64_t)k->step[i][3] * k->count[3];
    if (k->count[3] != 1 && k->count[2] != 1 && !follows)
        return;
    for (int32_t i = 0; i < N; i++) {
        k->step[i][3] = k->count[3] == 1 ? k->step[i][2] : k->step[i][3];
        k->step[i][2] = k->step[i][1];
        k->step[i][1] = k->step[i][0];
        k->step[i][0] = 0;
    }
    k->count[3] *= k->count[2];
    k->count[2] = k->count[1];
    k->count[1] = k->count[0];
    k->count[0] = 1;
}

/* A walk over the rectangle of view 0. The other views have its rank, and strides 0 where they are broadcast. */
template <int N> __device__ __forceinline__ bs_cu_walk<N> bs_cu_walk_over(const bs_cu_view (&v)[N])
{
    const bs_cu_view &o = v[0];
    const bool last = o.image && (o.dim[0] == 1 || o.stride[0] < o.stride[2]);
    const int32_t extent[BS_MAX_RANK] = {o.dim[0], o.y1 - o.y0, o.x1 - o.x0, o.dim[3]};
    bs_cu_walk<N> k;
#pragma unroll
    for (int32_t a = 0; a < 4; a++)
        k.count[a] = bs_cu_on_axis(extent, o.rank, last, a, 1);
#pragma unroll
    for (int32_t i = 0; i < N; i++) {
        k.bytes[i] = bs_cu_bytes(v[i].dtype);
        k.begin[i] = v[i].data + bs_cu_pixel_at(v[i], 0, o.y0, o.x0) * k.bytes[i];
#pragma unroll
        for (int32_t a = 0; a < 4; a++)
            k.step[i][a] = bs_cu_on_axis(v[i].stride, o.rank, last, a, 0);
    }
    bs_cu_walk_fold(&k);
    bs_cu_walk_fold(&k);
    bs_cu_walk_fold(&k);
    return k;
}

/* Whether lines are whole fours of elements, adjacent and aligned in the first `most` operands. */
template <int N> __device__ __forceinline__ bool bs_cu_walk_fours(const bs_cu_walk<N> &k, int32_t most = N)
{
    bool fours = k.count[3] % 4 == 0;
    for (int32_t i = 0; i < N; i++)
        fours = fours && (i >= most || (k.step[i][3] == 1 && ((k.step[i][0] | k.step[i][1] | k.step[i][2]) & 3) == 0 &&
                                        bs_cu_aligned(k.begin[i], k.bytes[i], 0)));
    return fours;
}

/* Visits this thread's elements: calls each.four(at) if `four`, else each.one(at), at being offsets from where operands
 * begin. The first axis is longer than 1 only where four dimensions could not be merged: it is the outer loop. */
template <int N, typename E>
__device__ __forceinline__ void bs_cu_walk_run(const bs_cu_walk<N> &k, bool four, const bs_cu_deal &d, const E &each)
{
    const int32_t unit = four ? 4 : 1, n2 = k.count[2], n3 = k.count[3] / unit;
    if (k.count[1] <= 0 || n2 <= 0 || n3 <= 0)
        return;
    const bool line = k.count[1] == 1 && n2 == 1; /* no digit but the last: nothing to divide */
    const int32_t over = line ? 0 : d.workers / n3, s3 = d.workers - over * n3, s2 = line ? 0 : over % n2,
                  s1 = line ? 0 : over / n2;
    const int32_t on = line ? d.index >= n3 : d.index / n3;
    for (int32_t d0 = 0; d0 < k.count[0]; d0++) {
        int32_t d3 = line ? d.index : d.index - on * n3, d2 = line ? 0 : on % n2, d1 = line ? on : on / n2;
        while (d1 < k.count[1]) {
            int64_t at[N];
#pragma unroll
            for (int32_t i = 0; i < N; i++)
                at[i] = (int64_t)(d3 * unit) * k.step[i][3] + (int64_t)d2 * k.step[i][2] + (int64_t)d1 * k.step[i][1] +
                        (int64_t)d0 * k.step[i][0];
            if (four)
                each.four(at);
            else
                each.one(at);
            d3 += s3;
            const int32_t carry3 = d3 >= n3;
            d3 -= carry3 ? n3 : 0;
            d2 += s2 + carry3;
            const int32_t carry2 = d2 >= n2;
            d2 -= carry2 ? n2 : 0;
            d1 += s1 + carry2;
        }
    }
}

/* --------------------------------------------------------------------------------------------------- scan */

/* floor(v / r), by a shift where r is a power of two. */
__device__ __forceinline__ int32_t bs_cu_floor_div(int32_t v, int32_t r)
{
    if ((r & (r - 1)) == 0)
        return v >> (31 - __clz(r));
    return v >= 0 ? v / r : -1 - (-1 - v) / r;
}

/* Visits pixels and channels (or `units` of them) of a rectangle, channels fastest, for code that needs their
 * coordinates. */
struct bs_cu_scan {
    int32_t y, x, c;       /* where it is */
    int32_t x0, width, units, dy, dx, dc;
};

__device__ __forceinline__ void bs_cu_scan_next(bs_cu_scan *k)
{
    k->c += k->dc;
    const int32_t carry = k->c >= k->units;
    k->c -= carry ? k->units : 0;
    k->x += k->dx + carry;
    const int32_t over = k->x >= k->x0 + k->width;
    k->x -= over ? k->width : 0;
    k->y += k->dy + over;
}

/* Stores two adjacent pixels, or one of them. */
__device__ __forceinline__ void bs_cu_store_pair(const bs_cu_view &y, int64_t at, uint32_t left, uint32_t right,
                                                 bool first, bool second)
{
    const int32_t bytes = bs_cu_bytes(y.dtype);
    uint8_t *to = y.data + at * bytes;
    if (first && second && y.stride[2] == 1 && (reinterpret_cast<uintptr_t>(to) & (uintptr_t)(2 * bytes - 1)) == 0) {
        if (bytes == 4)
            *reinterpret_cast<uint2 *>(to) = make_uint2(left, right);
        else if (bytes == 2)
            *reinterpret_cast<uint32_t *>(to) = left | right << 16;
        else
            *reinterpret_cast<uint16_t *>(to) = (uint16_t)(left | right << 8);
        return;
    }
    if (first)
        bs_cu_store_one(y.data, bytes, at, left);
    if (second)
        bs_cu_store_one(y.data, bytes, at + y.stride[2], right);
}

/* Calls each(k) for this thread's share. */
template <typename E>
__device__ __forceinline__ void bs_cu_scan_run(const bs_cu_deal &d, const bs_cu_rect &r, int32_t units, const E &each)
{
    const int32_t width = r.x1 - r.x0;
    if (width <= 0 || units <= 0)
        return;
    bs_cu_scan k;
    k.x0 = r.x0;
    k.width = width;
    k.units = units;
    k.c = d.index % units;
    k.x = r.x0 + d.index / units % width;
    k.y = r.y0 + d.index / units / width;
    k.dc = d.workers % units;
    k.dx = d.workers / units % width;
    k.dy = d.workers / units / width;
    for (; k.y < r.y1; bs_cu_scan_next(&k))
        each(k);
}

/* Calls each(y, x, k) for the pixels and channels of every row of an image, x being operand 0. */
template <typename E>
__device__ __forceinline__ void bs_cu_scan_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                const E &each)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        bs_cu_scan_run(d, y, y.dim[0], [&](const bs_cu_scan &k) { each(y, x, k); });
    });
}

/* An element of an op of a chain (op_chain.cuh): of its operands, the second where it has one, and its descriptor's
 * first words, op.p. */
struct bs_cu_element {
    float a, b;
    const bs_device_tail &op;
};

#endif
