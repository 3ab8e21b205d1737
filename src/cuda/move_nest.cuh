/* move_nest.cuh - copying and zeroing the elements of a row: a *nest* of at most four loops. Contiguous loops are
 * merged, so that the same code moves any tensor in the widest words that its addresses allow.
 * Relies on move_team.cuh and program.cuh. Must never write outside the nest it is given. */
#ifndef BS_CUDA_MOVE_NEST
#define BS_CUDA_MOVE_NEST

#include "cuda/move_team.cuh"
#include "cuda/program.cuh"

enum {
    BS_CU_NO_WORD = 1 << 30, /* elements of a word, a power of two: more than a line has, so that none is copied so */
    BS_CU_TILE_FAST = 64, /* of a transposed tile: elements along one side ... */
    BS_CU_TILE_SLOW = 32  /* ... and the other */
};

/* ------------------------------------------------------------------------------------------------------ nests */

/* Loops over the elements of a row, the fastest first; strides in elements. */
struct bs_cu_nest {
    uint8_t *to;
    const uint8_t *from;
    int32_t n[4], to_step[4], from_step[4];
    int32_t to_type, from_type;
};

__device__ __forceinline__ void bs_cu_nest_swap(bs_cu_nest *c, int32_t a, int32_t b)
{
    const int32_t n = c->n[a], to = c->to_step[a], from = c->from_step[a];
    c->n[a] = c->n[b], c->to_step[a] = c->to_step[b], c->from_step[a] = c->from_step[b];
    c->n[b] = n, c->to_step[b] = to, c->from_step[b] = from;
}

/* Merges loop b into loop a, where the two together step evenly on both sides. */
__device__ __forceinline__ void bs_cu_nest_merge(bs_cu_nest *c, int32_t a, int32_t b)
{
    if (c->n[a] == 1)
        bs_cu_nest_swap(c, a, b);
    if (c->n[b] == 1 || c->to_step[b] != (int64_t)c->n[a] * c->to_step[a] ||
        c->from_step[b] != (int64_t)c->n[a] * c->from_step[a])
        return;
    c->n[a] *= c->n[b];
    c->n[b] = 1;
}

/* The loops over a rectangle of `to` (an image), or over all of its elements. Loops of length 1 come last. */
__device__ inline bs_cu_nest bs_cu_nest_of(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_rect &r)
{
    bs_cu_nest c;
    c.to = to.data;
    c.from = from.data;
    c.to_type = to.dtype;
    c.from_type = from.dtype;
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        const int32_t d = to.rank - 1 - i;
        c.n[i] = d >= 0 ? bs_cu_pick(to.dim, d) : 1;
        c.to_step[i] = d >= 0 ? bs_cu_pick(to.stride, d) : 0;
        c.from_step[i] = d >= 0 ? bs_cu_pick(from.stride, d) : 0;
    }
    if (to.image) { /* so far x, y, channel */
        c.n[0] = max(r.x1 - r.x0, 0);
        c.n[1] = max(r.y1 - r.y0, 0);
        c.to += bs_cu_pixel_at(to, 0, r.y0, r.x0) * bs_cu_bytes(to.dtype);
        c.from += bs_cu_pixel_at(from, 0, r.y0, r.x0) * bs_cu_bytes(from.dtype);
    }
    if (c.to_step[2] == 1 || c.from_step[2] == 1) { /* channels that lie side by side */
        bs_cu_nest_swap(&c, 1, 2);
        bs_cu_nest_swap(&c, 0, 1);
    }
    bs_cu_nest_merge(&c, 2, 3);
    bs_cu_nest_merge(&c, 1, 2);
    bs_cu_nest_merge(&c, 0, 1);
    return c;
}

/* Words of `each` elements, a power of two, in a line. Shifts, because a division takes as long as all else here. */
__device__ __forceinline__ int32_t bs_cu_words(const bs_cu_nest &c, int32_t each)
{
    return c.n[0] >> (31 - __clz(each));
}

/* Offset of word number i by these steps, when the first loop goes in words of `each` elements. */
__device__ __forceinline__ int64_t bs_cu_nest_at(const bs_cu_nest &c, const int32_t *step, uint32_t i, int32_t each)
{
    uint32_t line = 0, a = 0, b = 0;
    if (c.n[1] * c.n[2] * c.n[3] > 1) {
        const uint32_t width = (uint32_t)bs_cu_words(c, each);
        line = i / width;
        i -= line * width;
        if (c.n[2] * c.n[3] > 1) {
            a = line / (uint32_t)c.n[1];
            line -= a * (uint32_t)c.n[1];
            if (c.n[3] > 1) {
                b = a / (uint32_t)c.n[2];
                a -= b * (uint32_t)c.n[2];
            }
        }
    }
    /* a loop has fewer than 2^31 elements: 32 bits times 32, or every step is kept as 64 bits too */
    return (int64_t)(int32_t)(i * (uint32_t)each) * step[0] + (int64_t)(int32_t)line * step[1] +
           (int64_t)(int32_t)a * step[2] + (int64_t)(int32_t)b * step[3];
}

/* The same in bytes, where an element has 1, 2 or 4, by a shift: nvcc multiplies a factor into each step ahead of the
 * loop, and keeps all of these products, 64 bits each. */
__device__ __forceinline__ int64_t bs_cu_nest_byte(const bs_cu_nest &c, const int32_t *step, uint32_t i, int32_t each,
                                                   int32_t bytes)
{
    return (int64_t)((uint64_t)bs_cu_nest_at(c, step, i, each) << (bytes >> 1));
}

/* --------------------------------------------------------------------------------------------------- elements */

/* Moves one element: its bits, or converted between f32 and f16. */
__device__ __forceinline__ void bs_cu_element_move(uint8_t *to, int32_t to_type, int64_t to_at, const uint8_t *from,
                                                   int32_t from_type, int64_t from_at)
{
    if (to_type == from_type)
        bs_cu_store_one(to, bs_cu_bytes(to_type), to_at, bs_cu_load_one(from, bs_cu_bytes(from_type), from_at));
    else
        bs_cu_put(to, to_type, to_at, bs_cu_get(from, from_type, from_at));
}

/* Moves a word, or four elements converted between f32 and f16. */
template <typename word> __device__ __forceinline__ void bs_cu_word_move(word *to, const word &from)
{
    *to = from;
}

__device__ __forceinline__ void bs_cu_word_move(uint2 *to, const float4 &from) { *to = bs_cu_pack_quad(from); }
__device__ __forceinline__ void bs_cu_word_move(float4 *to, const uint2 &from) { *to = bs_cu_unpack_quad(from); }

/* ---------------------------------------------------------------------------------------------------- copying */

/* Copies words first .. last - 1 of a nest whose first loop is contiguous. A thread has four loads in flight, and
 * computes where they go meanwhile. */
template <typename to_word, typename from_word>
__device__ __forceinline__ void bs_cu_copy_words(const bs_cu_nest &c, int32_t each, uint32_t first, uint32_t last,
                                                 const bs_cu_team &team)
{
    const int32_t to_bytes = bs_cu_bytes(c.to_type), from_bytes = bs_cu_bytes(c.from_type);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += 4u * (uint32_t)team.size) {
        from_word word[4];
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) { /* beyond the end: the last one again */
            const uint32_t at = min(i + u * (uint32_t)team.size, last - 1);
            word[u] = *reinterpret_cast<const from_word *>(c.from +
                                                           bs_cu_nest_byte(c, c.from_step, at, each, from_bytes));
        }
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) {
            const uint32_t at = i + u * (uint32_t)team.size;
            if (at < last)
                bs_cu_word_move(reinterpret_cast<to_word *>(c.to + bs_cu_nest_byte(c, c.to_step, at, each, to_bytes)),
                                word[u]);
        }
    }
}

template <typename word>
__device__ __forceinline__ void bs_cu_zero_words(const bs_cu_nest &c, int32_t each, uint32_t first, uint32_t last,
                                                 const bs_cu_team &team)
{
    const int32_t bytes = bs_cu_bytes(c.to_type);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        *reinterpret_cast<word *>(c.to + bs_cu_nest_byte(c, c.to_step, i, each, bytes)) = word();
    }
}

/* The widest word, in bytes, that an address and the steps from it allow. */
__device__ __forceinline__ int32_t bs_cu_word(const uint8_t *data, const int32_t *n, const int32_t *step, int32_t bytes)
{
    uint64_t all = 16 | (uint64_t)reinterpret_cast<uintptr_t>(data);
#pragma unroll
    for (int32_t i = 1; i < 4; i++)
        all |= n[i] > 1 ? (uint64_t)((int64_t)step[i] * bytes) : 0;
    return (int32_t)(all & (0 - all));
}

/* The words of this work item of a row: an even share of `total`. */
__device__ __forceinline__ void bs_cu_share(uint32_t total, const bs_cu_work &w, uint32_t *first, uint32_t *last)
{
    *first = 0;
    *last = total;
    if (w.parts == 1)
        return;
    *first = (uint32_t)((uint64_t)total * (uint32_t)w.part / (uint32_t)w.parts);
    *last = (uint32_t)((uint64_t)total * (uint32_t)(w.part + 1) / (uint32_t)w.parts);
}

/* The words of this work item, when the first loop goes in words of `each` elements; ends of lines that fill no word
 * are not counted. */
__device__ __forceinline__ void bs_cu_nest_share(const bs_cu_nest &c, int32_t each, const bs_cu_work &w,
                                                 uint32_t *first, uint32_t *last)
{
    bs_cu_share((uint32_t)bs_cu_words(c, each) * (uint32_t)c.n[1] * (uint32_t)c.n[2] * (uint32_t)c.n[3], w, first,
                last);
}

/* The ends of lines that fill no whole word. */
__device__ __forceinline__ bs_cu_nest bs_cu_nest_rest(const bs_cu_nest &c, int32_t each)
{
    bs_cu_nest rest = c;
    const int32_t done = c.n[0] & -each;
    rest.n[0] -= done;
    rest.to += (int64_t)done * bs_cu_bytes(c.to_type);
    rest.from += (int64_t)done * bs_cu_bytes(c.from_type);
    return rest;
}

/* Any strides, any types: element by element. */
__device__ inline void bs_cu_copy_elements(const bs_cu_nest &c, const bs_cu_team &team, const bs_cu_work &w)
{
    uint32_t first, last;
    bs_cu_nest_share(c, 1, w, &first, &last);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        bs_cu_element_move(c.to, c.to_type, bs_cu_nest_at(c, c.to_step, i, 1), c.from, c.from_type,
                           bs_cu_nest_at(c, c.from_step, i, 1));
    }
}

/* Copies where both sides are contiguous along the first loop. Returns the elements of a word: the caller copies the
 * ends of lines that fill none. */
__device__ inline int32_t bs_cu_copy_lines(const bs_cu_nest &c, const bs_cu_team &team, const bs_cu_work &w)
{
    const int32_t to_bytes = bs_cu_bytes(c.to_type), from_bytes = bs_cu_bytes(c.from_type);
    const int32_t to_word = bs_cu_word(c.to, c.n, c.to_step, to_bytes),
                  from_word = bs_cu_word(c.from, c.n, c.from_step, from_bytes);
    const bool same = c.to_type == c.from_type;
    const int32_t bytes = min(to_word, from_word), each = !same ? 4 : bytes > to_bytes ? bytes >> (to_bytes >> 1) : 1;
    uint32_t first, last;
    if (!same && (to_word < 4 * to_bytes || from_word < 4 * from_bytes))
        return BS_CU_NO_WORD;
    bs_cu_nest_share(c, each, w, &first, &last);
    if (!same && to_bytes == 2)
        bs_cu_copy_words<uint2, float4>(c, each, first, last, team);
    else if (!same)
        bs_cu_copy_words<float4, uint2>(c, each, first, last, team);
    else if (bytes == 16)
        bs_cu_copy_words<uint4, uint4>(c, each, first, last, team);
    else if (bytes == 8)
        bs_cu_copy_words<uint2, uint2>(c, each, first, last, team);
    else if (bytes == 4)
        bs_cu_copy_words<uint32_t, uint32_t>(c, each, first, last, team);
    else if (bytes == 2)
        bs_cu_copy_words<uint16_t, uint16_t>(c, each, first, last, team);
    else
        bs_cu_copy_words<uint8_t, uint8_t>(c, each, first, last, team);
    return each;
}

/* Copies where one side is contiguous along the first loop, the other along the second: tiles are transposed in shared
 * memory, so that accesses are coalesced on both sides. Called by all threads of a block. */
__device__ inline void bs_cu_copy_turned(const bs_cu_nest &c, uint8_t *workspace, const bs_cu_work &w)
{
    uint32_t *tile = reinterpret_cast<uint32_t *>(workspace);
    const int32_t to_bytes = bs_cu_bytes(c.to_type), from_bytes = bs_cu_bytes(c.from_type);
    const bool from_first = c.from_step[0] == 1; /* which side runs along loop 0 */
    const int32_t pitch = BS_CU_TILE_FAST | 1, across = (c.n[0] + BS_CU_TILE_SLOW - 1) / BS_CU_TILE_SLOW;
    const int32_t along = (c.n[1] + BS_CU_TILE_FAST - 1) / BS_CU_TILE_FAST;
    const int64_t tiles = (int64_t)across * along * c.n[2] * c.n[3];
    for (int64_t k = w.part; k < tiles; k += w.parts) {
        const int32_t b0 = (int32_t)(k % across) * BS_CU_TILE_SLOW,
                      a0 = (int32_t)(k / across % along) * BS_CU_TILE_FAST;
        const int32_t rest = (int32_t)(k / ((int64_t)across * along)), u = rest % c.n[2], v = rest / c.n[2];
        const int32_t nb = min(BS_CU_TILE_SLOW, c.n[0] - b0), na = min(BS_CU_TILE_FAST, c.n[1] - a0);
        const uint8_t *from = c.from + ((int64_t)u * c.from_step[2] + (int64_t)v * c.from_step[3]) * from_bytes;
        uint8_t *to = c.to + ((int64_t)u * c.to_step[2] + (int64_t)v * c.to_step[3]) * to_bytes;
        for (int32_t e = bs_cu_thread(); e < na * nb; e += bs_cu_threads()) {
            const int32_t b = from_first ? e % nb : e / na, a = from_first ? e / nb : e % na;
            tile[b * pitch + a] = bs_cu_load_one(from, from_bytes,
                                             (int64_t)(b0 + b) * c.from_step[0] + (int64_t)(a0 + a) * c.from_step[1]);
        }
        __syncthreads();
        for (int32_t e = bs_cu_thread(); e < na * nb; e += bs_cu_threads()) {
            const int32_t b = from_first ? e / na : e % nb, a = from_first ? e % na : e / nb;
            bs_cu_element_move(to, c.to_type, (int64_t)(b0 + b) * c.to_step[0] + (int64_t)(a0 + a) * c.to_step[1],
                               reinterpret_cast<const uint8_t *>(&tile[b * pitch + a]), c.from_type, 0);
        }
        __syncthreads();
    }
}

/* A row that is not cut into parts. */
__device__ __forceinline__ bs_cu_work bs_cu_uncut(void)
{
    const bs_cu_work all = {0, 1, 0, 1};
    return all;
}

/* Moves this team's share of a nest. */
__device__ inline void bs_cu_nest_copy(const bs_cu_nest &c, const bs_cu_team &team, uint8_t *workspace,
                                       const bs_cu_work &w)
{
    const bool block = team.size == bs_cu_threads();
    const bool turned = (c.to_step[0] == 1 && c.from_step[1] == 1) || (c.from_step[0] == 1 && c.to_step[1] == 1);
    int32_t each = BS_CU_NO_WORD;
    if (c.to_step[0] == 1 && c.from_step[0] == 1)
        each = bs_cu_copy_lines(c, team, w);
    else if (turned && block && c.n[0] >= 8 && c.n[1] >= 8) {
        bs_cu_copy_turned(c, workspace, w);
        return;
    }
    /* few channels are transposed this way too: the elements of a warp are close together as they are */
    if (c.n[0] & (each - 1))
        bs_cu_copy_elements(bs_cu_nest_rest(c, each), team, w);
}

/* Zeroes a rectangle of a view: whole words, then the ends of lines. */
__device__ inline void bs_cu_zero_rect(const bs_cu_view &v, const bs_cu_rect &r, const bs_cu_team &team,
                                       const bs_cu_work &w)
{
    const bs_cu_nest c = bs_cu_nest_of(v, v, r);
    const int32_t bytes = bs_cu_bytes(c.to_type),
                  word = c.to_step[0] == 1 ? bs_cu_word(c.to, c.n, c.to_step, bytes) : 1;
    const int32_t each = word == 16 ? 16 >> (bytes >> 1) : word >= 4 ? 4 >> (bytes >> 1) : (int32_t)BS_CU_NO_WORD;
    uint32_t first, last;
    bs_cu_nest_share(c, each, w, &first, &last);
    if (word == 16)
        bs_cu_zero_words<uint4>(c, each, first, last, team);
    else if (word >= 4)
        bs_cu_zero_words<uint32_t>(c, each, first, last, team);
    if ((c.n[0] & (each - 1)) == 0)
        return;
    const bs_cu_nest rest = bs_cu_nest_rest(c, each);
    bs_cu_nest_share(rest, 1, w, &first, &last);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        bs_cu_store_one(rest.to, bytes, bs_cu_nest_at(rest, rest.to_step, i, 1), 0);
    }
}

#endif
