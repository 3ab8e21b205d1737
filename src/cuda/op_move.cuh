/* op_move.cuh - moving rows: load, store, append, fill, rest, reduce.
 *
 * The device's side of run/move.c. Where rows are, program.cuh finds; here they are copied, zeroed and summed. A row is
 * worked on by a *team*: the whole block, or so few threads as its bytes keep busy. What is copied is a *nest* of at
 * most four loops, from which contiguous ones are merged away, so that one loop moves any tensor in the widest words
 * that its addresses allow.
 * Relies on program.cuh and lower.cuh. Must never decide anything, and never write outside a row and its margin. */
#ifndef BS_CUDA_OP_MOVE
#define BS_CUDA_OP_MOVE

#include "cuda/kernels.cuh"
#include "cuda/lower.cuh"
#include "cuda/program.cuh"

enum {
    BS_CU_MOVE_BYTES = 16384, /* of a piece of work: four words of 16 bytes a thread, all in flight; */
    BS_CU_MOVE_MOST = 65536,  /* of much, where finding a row is to cost little beside moving it; */
    BS_CU_MOVE_MANY = 2048,   /* as long as there are so many pieces */
    BS_CU_MOVE_ROW = 8192,    /* rows below that are moved by several teams of a block */
    BS_CU_MOVE_TEAM = 15,     /* p: threads of a team, 0 the block */
    BS_CU_SUM_PIECE = 2048,   /* elements of a piece of a sum: two words a thread */
    BS_CU_TILE_FAST = 64,     /* of a tile that is turned round: elements along one side ... */
    BS_CU_TILE_SLOW = 32      /* ... and the other */
};

/* ------------------------------------------------------------------------------------------------ describe */

/* Rows of few bytes are batched: a team each, all teams of a block busy. */
static void bs_cu_move_cut(const bs_device_operand *o, int64_t elements, bs_device_step *s)
{
    const int64_t bytes = elements * (o->dtype == BS_F32 || o->dtype == BS_I32 ? 4
                                      : o->dtype == BS_U8 || o->dtype == BS_I8 ? 1
                                                                               : 2);
    s->batch = 1;
    s->parts = 1;
    s->p[BS_CU_MOVE_TEAM].i = 0;
    if (bytes >= BS_CU_MOVE_ROW || o->place == BS_AT_ROOT) {
        s->parts = bs_cu_pieces(bytes,
                                bs_max_i64(BS_CU_MOVE_BYTES, bs_min_i64(bytes / BS_CU_MOVE_MANY, BS_CU_MOVE_MOST)));
        return;
    }
    int32_t team = 4;
    while (team < 32 && team * 16 < bytes)
        team *= 2;
    const int64_t rows = BS_CU_MOVE_BYTES / (bytes > 1 ? bytes : 1), least = 256 / team;
    s->p[BS_CU_MOVE_TEAM].i = team;
    s->batch = (int32_t)(rows < least ? least : rows > 256 ? 256 : rows);
}

static void bs_cu_load_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_load;
    bs_cu_move_cut(&n->out[0], bs_cu_elements(&n->out[0]), s);
}

static void bs_cu_store_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_store;
    bs_cu_move_cut(&n->out[0], bs_cu_elements(&n->in[0]), s);
}

static void bs_cu_append_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_append;
    bs_cu_move_cut(&n->in[0], bs_cu_elements(&n->in[0]), s);
}

/* p: [0] where it is said which paths give a value (lower_step.cuh). */
static void bs_cu_fill_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_fill;
    s->router = n->node->router;
    bs_cu_move_cut(&n->out[0], bs_cu_elements(&n->out[0]), s);
}

/* p: [0] the domain whose rows were collected. */
static void bs_cu_rest_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_rest;
    s->p[0].i = n->graph->values[bs_node_in(n->graph, n->node)[0]].domain;
    bs_cu_move_cut(&n->out[0], bs_cu_elements(&n->out[0]), s);
}

/* p: [0] mode, [1] whether there is a residual, [2] where it is said which paths give a value. */
static void bs_cu_reduce_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_gather_params *gather = static_cast<const bs_gather_params *>(n->node->params);
    const bs_router_info *router = &n->graph->routers[n->node->router];
    const int64_t elements = bs_cu_elements(&n->out[0]);
    s->kernel = BS_CU_reduce;
    s->router = n->node->router;
    s->p[0].i = gather->mode;
    s->p[1].i = n->instr->value != 0;
    s->batch = 1;
    s->parts = bs_cu_pieces(elements, BS_CU_SUM_PIECE);
    s->p[BS_CU_MOVE_TEAM].i = 0;
    if (elements <= 512 && router->max_paths_per_cell <= 16) { /* a warp a row; its sources fit the workspace */
        s->p[BS_CU_MOVE_TEAM].i = 32;
        s->batch = 8;
    }
}

/* -------------------------------------------------------------------------------------------------- teams */

/* Threads that work on one row, and where this one stands. */
struct bs_cu_team {
    int32_t rank, size, index, count;
};

__device__ __forceinline__ bs_cu_team bs_cu_team_of(const bs_device_step *s)
{
    bs_cu_team team;
    team.size = s->p[BS_CU_MOVE_TEAM].i > 0 ? s->p[BS_CU_MOVE_TEAM].i : (int32_t)blockDim.x;
    team.rank = (int32_t)threadIdx.x % team.size;
    team.index = (int32_t)threadIdx.x / team.size;
    team.count = (int32_t)blockDim.x / team.size;
    return team;
}

/* --------------------------------------------------------------------------------------------------- nests */

struct bs_cu_rect {
    int32_t y0, y1, x0, x1;
};

/* Loops over the elements of a row, the fastest first; strides in elements. */
struct bs_cu_nest {
    uint8_t *to;
    const uint8_t *from; /* NULL: zeros */
    int32_t n[4], to_step[4], from_step[4];
    int32_t to_type, from_type;
};

/* Stride d of a view, where d is not known when compiled: an index would put the view in memory. */
__device__ __forceinline__ int32_t bs_cu_pick(const int32_t *a, int32_t d)
{
    return d == 0 ? a[0] : d == 1 ? a[1] : d == 2 ? a[2] : d == 3 ? a[3] : 0;
}

__device__ __forceinline__ void bs_cu_nest_swap(bs_cu_nest *c, int32_t a, int32_t b)
{
    const int32_t n = c->n[a], to = c->to_step[a], from = c->from_step[a];
    c->n[a] = c->n[b], c->to_step[a] = c->to_step[b], c->from_step[a] = c->from_step[b];
    c->n[b] = n, c->to_step[b] = to, c->from_step[b] = from;
}

/* Loop b follows loop a: one loop, where that steps evenly on both sides. */
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

/* The loops of a rectangle of `to` (of rank 3) or of all its elements. Loops of length 1 come last. */
__device__ inline bs_cu_nest bs_cu_nest_of(const bs_cu_view &to, const bs_cu_view &from, bool zeros,
                                           const bs_cu_rect &r)
{
    bs_cu_nest c;
    int64_t to_at = 0, from_at = 0;
    c.to_type = to.dtype;
    c.from_type = from.dtype;
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        const int32_t d = to.rank - 1 - i;
        c.n[i] = d >= 0 ? bs_cu_pick(to.dim, d) : 1;
        c.to_step[i] = d >= 0 ? bs_cu_pick(to.stride, d) : 0;
        c.from_step[i] = d >= 0 ? bs_cu_pick(from.stride, d) : 0;
    }
    if (to.rank == 3) { /* so far x, y, channel */
        c.n[0] = max(r.x1 - r.x0, 0);
        c.n[1] = max(r.y1 - r.y0, 0);
        to_at = (int64_t)r.y0 * to.stride[1] + (int64_t)r.x0 * to.stride[2];
        from_at = (int64_t)r.y0 * from.stride[1] + (int64_t)r.x0 * from.stride[2];
        if (to.stride[0] == 1 || from.stride[0] == 1) {
            bs_cu_nest_swap(&c, 1, 2);
            bs_cu_nest_swap(&c, 0, 1);
        }
    }
    c.to = to.data + to_at * bs_cu_bytes(to.dtype);
    c.from = zeros ? NULL : from.data + from_at * bs_cu_bytes(from.dtype);
    bs_cu_nest_merge(&c, 2, 3);
    bs_cu_nest_merge(&c, 1, 2);
    bs_cu_nest_merge(&c, 0, 1);
    return c;
}

/* Offset of word number i by these steps, when the first loop goes in words of `each` elements. */
__device__ __forceinline__ int64_t bs_cu_nest_at(const bs_cu_nest &c, const int32_t *step, uint32_t i, int32_t each)
{
    uint32_t line = 0, a = 0, b = 0;
    if (c.n[1] * c.n[2] * c.n[3] > 1) {
        const uint32_t width = (uint32_t)(c.n[0] / each);
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
    return (int64_t)i * each * step[0] + (int64_t)line * step[1] + (int64_t)a * step[2] + (int64_t)b * step[3];
}

/* ------------------------------------------------------------------------------------------------ elements */

__device__ __forceinline__ uint32_t bs_cu_bits(const uint8_t *data, int32_t bytes, int64_t at)
{
    return bytes == 4   ? reinterpret_cast<const uint32_t *>(data)[at]
           : bytes == 2 ? reinterpret_cast<const uint16_t *>(data)[at]
                        : data[at];
}

__device__ __forceinline__ void bs_cu_bits_put(uint8_t *data, int32_t bytes, int64_t at, uint32_t bits)
{
    if (bytes == 4)
        reinterpret_cast<uint32_t *>(data)[at] = bits;
    else if (bytes == 2)
        reinterpret_cast<uint16_t *>(data)[at] = (uint16_t)bits;
    else
        data[at] = (uint8_t)bits;
}

/* One element: bits as they are, or from f32 to f16 and back. */
__device__ __forceinline__ void bs_cu_element_move(uint8_t *to, int32_t to_type, int64_t to_at, const uint8_t *from,
                                                   int32_t from_type, int64_t from_at)
{
    if (to_type == from_type)
        bs_cu_bits_put(to, bs_cu_bytes(to_type), to_at, bs_cu_bits(from, bs_cu_bytes(from_type), from_at));
    else
        bs_cu_put(to, to_type, to_at, bs_cu_get(from, from_type, from_at));
}

union bs_cu_halves {
    uint2 word;
    __half h[4];
};

/* A word as it is, or four elements of another type. */
template <typename word> __device__ __forceinline__ void bs_cu_word_move(word *to, const word &from)
{
    *to = from;
}

__device__ __forceinline__ void bs_cu_word_move(uint2 *to, const float4 &from)
{
    bs_cu_halves v;
    v.h[0] = __float2half_rn(from.x), v.h[1] = __float2half_rn(from.y), v.h[2] = __float2half_rn(from.z),
    v.h[3] = __float2half_rn(from.w);
    *to = v.word;
}

__device__ __forceinline__ void bs_cu_word_move(float4 *to, const uint2 &from)
{
    bs_cu_halves v;
    v.word = from;
    *to = make_float4(__half2float(v.h[0]), __half2float(v.h[1]), __half2float(v.h[2]), __half2float(v.h[3]));
}

/* ------------------------------------------------------------------------------------------------- copying */

/* Copies words first .. last - 1 of a nest whose first loop is contiguous: four of a thread are on their way at once.
 * Where they go is found out while they come. */
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
                                                           bs_cu_nest_at(c, c.from_step, at, each) * from_bytes);
        }
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) {
            const uint32_t at = i + u * (uint32_t)team.size;
            if (at < last)
                bs_cu_word_move(reinterpret_cast<to_word *>(c.to + bs_cu_nest_at(c, c.to_step, at, each) * to_bytes),
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
        *reinterpret_cast<word *>(c.to + bs_cu_nest_at(c, c.to_step, i, each) * bytes) = word();
    }
}

/* The widest word, in bytes, that an address and what is added to it allow. */
__device__ __forceinline__ int32_t bs_cu_word(const uint8_t *data, const int32_t *n, const int32_t *step, int32_t bytes)
{
    uint64_t all = 16 | (uint64_t)reinterpret_cast<uintptr_t>(data);
#pragma unroll
    for (int32_t i = 1; i < 4; i++)
        all |= n[i] > 1 ? (uint64_t)((int64_t)step[i] * bytes) : 0;
    return (int32_t)(all & (0 - all));
}

/* The words of this piece of a row: an even share of `total`. */
__device__ __forceinline__ void bs_cu_share(uint32_t total, const bs_cu_work &w, uint32_t *first, uint32_t *last)
{
    *first = (uint32_t)((uint64_t)total * (uint32_t)w.part / (uint32_t)w.parts);
    *last = (uint32_t)((uint64_t)total * (uint32_t)(w.part + 1) / (uint32_t)w.parts);
}

/* The words of this piece, when the first loop goes in words of `each` elements; what is left of its lines is not
 * counted. */
__device__ __forceinline__ void bs_cu_nest_share(const bs_cu_nest &c, int32_t each, const bs_cu_work &w,
                                                 uint32_t *first, uint32_t *last)
{
    bs_cu_share((uint32_t)(c.n[0] / each) * (uint32_t)c.n[1] * (uint32_t)c.n[2] * (uint32_t)c.n[3], w, first, last);
}

/* What whole words leave of the lines. */
__device__ __forceinline__ bs_cu_nest bs_cu_nest_rest(const bs_cu_nest &c, int32_t each)
{
    bs_cu_nest rest = c;
    const int32_t done = c.n[0] / each * each;
    rest.n[0] -= done;
    rest.to += (int64_t)done * bs_cu_bytes(c.to_type);
    rest.from += c.from ? (int64_t)done * bs_cu_bytes(c.from_type) : 0;
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

/* Both sides contiguous along the first loop. Returns how many elements make a word: what they leave, the caller
 * copies. */
__device__ inline int32_t bs_cu_copy_lines(const bs_cu_nest &c, const bs_cu_team &team, const bs_cu_work &w)
{
    const int32_t to_bytes = bs_cu_bytes(c.to_type), from_bytes = bs_cu_bytes(c.from_type);
    const int32_t to_word = bs_cu_word(c.to, c.n, c.to_step, to_bytes),
                  from_word = bs_cu_word(c.from, c.n, c.from_step, from_bytes);
    const bool same = c.to_type == c.from_type;
    const int32_t bytes = min(to_word, from_word), each = same ? max(bytes / to_bytes, 1) : 4;
    uint32_t first, last;
    if (!same && (to_word < 4 * to_bytes || from_word < 4 * from_bytes))
        return c.n[0] + 1;
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

/* One side is contiguous along the first loop, the other along the second: by tiles that are turned round in shared
 * memory, so that both sides see whole words of memory. By a block, all threads. */
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
        for (int32_t e = (int32_t)threadIdx.x; e < na * nb; e += (int32_t)blockDim.x) {
            const int32_t b = from_first ? e % nb : e / na, a = from_first ? e / nb : e % na;
            tile[b * pitch + a] = bs_cu_bits(from, from_bytes,
                                             (int64_t)(b0 + b) * c.from_step[0] + (int64_t)(a0 + a) * c.from_step[1]);
        }
        __syncthreads();
        for (int32_t e = (int32_t)threadIdx.x; e < na * nb; e += (int32_t)blockDim.x) {
            const int32_t b = from_first ? e / na : e % nb, a = from_first ? e % na : e / nb;
            bs_cu_element_move(to, c.to_type, (int64_t)(b0 + b) * c.to_step[0] + (int64_t)(a0 + a) * c.to_step[1],
                               reinterpret_cast<const uint8_t *>(&tile[b * pitch + a]), c.from_type, 0);
        }
        __syncthreads();
    }
}

/* Moves this team's share of a nest. */
__device__ inline void bs_cu_nest_copy(const bs_cu_nest &c, const bs_cu_team &team, uint8_t *workspace,
                                       const bs_cu_work &w)
{
    const bool block = team.size == (int32_t)blockDim.x;
    const bool turned = (c.to_step[0] == 1 && c.from_step[1] == 1) || (c.from_step[0] == 1 && c.to_step[1] == 1);
    int32_t each = c.n[0] + 1;
    if (c.to_step[0] == 1 && c.from_step[0] == 1)
        each = bs_cu_copy_lines(c, team, w);
    else if (turned && block && c.n[0] >= 8 && c.n[1] >= 8) {
        bs_cu_copy_turned(c, workspace, w);
        return;
    }
    /* few channels, turned round, come this way too: a warp's elements share memory words as they are */
    if (c.n[0] % each > 0)
        bs_cu_copy_elements(bs_cu_nest_rest(c, each), team, w);
}

/* As far as words go, then the ends of lines. */
__device__ inline void bs_cu_nest_zero(const bs_cu_nest &c, const bs_cu_team &team, const bs_cu_work &w)
{
    const int32_t bytes = bs_cu_bytes(c.to_type),
                  word = c.to_step[0] == 1 ? bs_cu_word(c.to, c.n, c.to_step, bytes) : 1;
    const int32_t each = word == 16 ? 16 / bytes : word >= 4 ? 4 / bytes : c.n[0] + 1;
    uint32_t first, last;
    bs_cu_nest_share(c, each, w, &first, &last);
    if (word == 16)
        bs_cu_zero_words<uint4>(c, each, first, last, team);
    else if (word >= 4)
        bs_cu_zero_words<uint32_t>(c, each, first, last, team);
    if (c.n[0] % each == 0)
        return;
    const bs_cu_nest rest = bs_cu_nest_rest(c, each);
    bs_cu_nest_share(rest, 1, w, &first, &last);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        bs_cu_bits_put(rest.to, bytes, bs_cu_nest_at(rest, rest.to_step, i, 1), 0);
    }
}

/* ---------------------------------------------------------------------------------------------------- rows */

__device__ __forceinline__ bs_cu_rect bs_cu_common(const bs_cu_view &a, const bs_cu_view &b)
{
    const bs_cu_rect r = {max(a.y0, b.y0), min(a.y1, b.y1), max(a.x0, b.x0), min(a.x1, b.x1)};
    return r;
}

__device__ __forceinline__ void bs_cu_row_copy(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_team &team,
                                               uint8_t *workspace, const bs_cu_work &w)
{
    bs_cu_nest_copy(bs_cu_nest_of(to, from, false, bs_cu_common(to, from)), team, workspace, w);
}

/* Zeroes what lies between two rectangles, the inner one in the outer: of a stored image. */
__device__ inline void bs_cu_zero_ring(const bs_cu_view &v, const bs_cu_rect &inner, const bs_cu_rect &outer,
                                       const bs_cu_team &team)
{
    const bs_cu_work all = {0, 1, 0, 1};
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
            bs_cu_nest_zero(bs_cu_nest_of(v, v, true, r), team, all);
    }
}

/* As bs_zero_margin. */
__device__ inline void bs_cu_zero_outside(const bs_cu_view &v, const bs_cu_team &team)
{
    const bs_cu_rect inner = {v.y0, v.y1, v.x0, v.x1};
    const bs_cu_rect outer = {-v.margin, min(v.y1 + v.margin, v.max_h + v.margin), -v.margin,
                              min(v.x1 + v.margin, v.max_w + v.margin)};
    bs_cu_zero_ring(v, inner, outer, team);
}

/* Of a frame that cells make: a cell at its edge zeroes what lies beyond, one of which this scale leaves nothing does
 * not. */
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

/* A row where it is stored to: in a root image only the core of the cell. */
__device__ inline bs_cu_view bs_cu_open_target(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    bs_cu_view v = bs_cu_open(t, o, row);
    if (o->place == BS_AT_CELL)
        v.y0 = v.x0 = 0, v.y1 = v.dim[1], v.x1 = v.dim[2];
    return v;
}

/* Around a row that was moved, where a reader's window goes. Opens the row anew: copying needs the registers. */
__device__ __forceinline__ void bs_cu_zero_around(const bs_cu_tile &t, const bs_device_operand *o, int32_t row,
                                                  const bs_cu_team &team, const bs_cu_work &w)
{
    if (w.part != 0 || o->place == BS_AT_ROOT || o->margin == 0 || o->rank != 3)
        return;
    const bs_cu_view v = bs_cu_open_target(t, o, row);
    if (o->place == BS_AT_CELL)
        bs_cu_zero_beyond_frame(v, team);
    else
        bs_cu_zero_outside(v, team);
}

__device__ inline void bs_cu_load_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.row + w.rows; r += team.count) {
        bs_cu_row_copy(bs_cu_open(t, out, r), bs_cu_open(t, bs_cu_in(t, s, 0), r), team, t.workspace, w);
        if (w.part == 0 && out->margin > 0 && out->rank == 3)
            bs_cu_zero_outside(bs_cu_open(t, out, r), team);
    }
}

__device__ inline void bs_cu_store_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.row + w.rows; r += team.count) {
        bs_cu_row_copy(bs_cu_open_target(t, out, r), bs_cu_open(t, bs_cu_in(t, s, 0), r), team, t.workspace, w);
        bs_cu_zero_around(t, out, r, team, w);
    }
}

/* --------------------------------------------------------------------------------------------------- append */

/* As bs_segment_of. */
__device__ inline int32_t bs_cu_segment_of(const int32_t *offsets, int32_t segments, int32_t row)
{
    int32_t low = 0, high = segments - 1;
    while (low < high) {
        const int32_t middle = high - (high - low) / 2;
        if (offsets[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Where a row goes in the ring of its segment; NULL: nowhere, a later row of this run would overwrite it. */
__device__ inline uint8_t *bs_cu_ring_place(const bs_cu_tile &t, const bs_device_step *s, int32_t row)
{
    const bs_device_operand *past = bs_cu_in(t, s, 1), *ring = bs_cu_out(t, s, 0);
    const bs_device_domain &domain = t.program->domains[bs_cu_in(t, s, 0)->domain];
    const int32_t *offsets = reinterpret_cast<const int32_t *>(static_cast<uintptr_t>(domain.offsets));
    const int32_t segment = bs_cu_segment_of(offsets, domain.lengths, row);
    const int32_t position = reinterpret_cast<const int32_t *>(static_cast<uintptr_t>(past->base))[segment] +
                             (row - offsets[segment]);
    if (offsets[segment + 1] - row > ring->max_h || position < 0)
        return NULL;
    return reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(ring->base)) + segment * ring->row_bytes +
           (int64_t)(position % ring->max_h) * ring->max_w * bs_cu_bytes(ring->dtype);
}

/* Each row of a segment to its position in the segment's ring. */
__device__ inline void bs_cu_append_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.row + w.rows; r += team.count) {
        uint8_t *place = bs_cu_ring_place(t, s, r);
        if (!place)
            continue;
        const bs_cu_view from = bs_cu_open(t, bs_cu_in(t, s, 0), r);
        bs_cu_view to = from;
        to.data = place;
        to.dtype = bs_cu_out(t, s, 0)->dtype;
        for (int32_t i = 0; i < BS_MAX_RANK; i++)
            to.stride[i] = bs_cu_out(t, s, 0)->stride[i];
        bs_cu_row_copy(to, from, team, t.workspace, w);
    }
}

/* ------------------------------------------------------------------------------------------------ fill, rest */

/* p[at]: where it is said which paths of this step's gather give a value. */
__device__ __forceinline__ bool bs_cu_path_gives(const bs_cu_tile &t, const bs_device_step *s, int32_t at, int32_t path)
{
    return t.program->given[s->p[at].i + (path >> 5)] >> (path & 31) & 1;
}

/* The number that a decision has for a row: those above a tile's own are of all rows. */
__device__ __forceinline__ int32_t bs_cu_decided_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row)
{
    return row + (s->domain == t.domain && !t.program->decision[s->router].in_tile ? t.first : 0);
}

/* The rows that no path gives: the residual's, or zeros. */
__device__ inline void bs_cu_fill_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_decision d = bs_cu_decision_of(t, s->router);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.row + w.rows; r += team.count) {
        const int32_t path = d.chosen[(int64_t)bs_cu_decided_row(t, s, r) * d.per_row];
        if (path >= 0 && bs_cu_path_gives(t, s, 0, path))
            continue;
        const bs_cu_view to = bs_cu_open_target(t, out, r);
        const bs_cu_rect all = {to.y0, to.y1, to.x0, to.x1};
        if (s->n_in > 0)
            bs_cu_row_copy(to, bs_cu_open(t, bs_cu_in(t, s, 0), r), team, t.workspace, w);
        else
            bs_cu_nest_zero(bs_cu_nest_of(to, to, true, all), team, w);
        bs_cu_zero_around(t, out, r, team, w);
    }
}

/* A collected tensor has a row for every cell there can be: those beyond the last one become zero. */
__device__ inline void bs_cu_rest_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const int32_t rows = bs_cu_count(t, s->p[0].i);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.row + w.rows; r += team.count) {
        bs_cu_view v = bs_cu_open(t, out, r);
        const bs_cu_rect all = {0, v.dim[1], 0, v.dim[2]};
        v.data += (int64_t)rows * v.stride[0] * bs_cu_bytes(v.dtype);
        v.dim[0] = max(v.dim[0] - rows, 0);
        bs_cu_nest_zero(bs_cu_nest_of(v, v, true, all), team, w);
    }
}

/* -------------------------------------------------------------------------------------------------- reduce */

/* A row that goes into a sum: what one path gave for it, or the residual. Steps are those of the result's loops. */
struct bs_cu_source {
    const uint8_t *data;
    int32_t step[4];
    int32_t y0, y1, x0, x1; /* images: what is there */
    float gate;
    int32_t dtype;
};

__device__ inline void bs_cu_source_open(const bs_cu_tile &t, const bs_device_operand *o, int32_t row, float gate,
                                         bs_cu_source *source)
{
    const bs_cu_view v = bs_cu_open(t, o, row);
    const bool image = v.rank == 3;
    source->data = v.data;
    source->y0 = v.y0, source->y1 = v.y1, source->x0 = v.x0, source->x1 = v.x1;
    source->gate = gate;
    source->dtype = v.dtype;
    source->step[0] = image ? v.stride[0] : bs_cu_pick(v.stride, v.rank - 1);
    source->step[1] = image ? v.stride[2] : bs_cu_pick(v.stride, v.rank - 2);
    source->step[2] = image ? v.stride[1] : bs_cu_pick(v.stride, v.rank - 3);
    source->step[3] = bs_cu_pick(v.stride, image ? -1 : v.rank - 4);
}

/* Whether choice `at` of a decision gave the gather a row. */
__device__ __forceinline__ bool bs_cu_gives(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_decision &d,
                                            int64_t at)
{
    const int32_t path = d.chosen[at];
    return path >= 0 && d.inverse[at] >= 0 && bs_cu_path_gives(t, s, 2, path);
}

enum { BS_CU_SUM_SOURCES = 448 }; /* of a row at once */
static_assert(BS_CU_SUM_SOURCES * sizeof(bs_cu_source) <= BS_CU_WORKSPACE, "sources lie in the workspace");

/* Writes what the paths of a row gave to `sources`, in path order, then the residual: those from number `from` on, as
 * many as there is room for. Returns how many there are in all. A row takes a path once at most, so the paths before
 * one are counted. By a team; the caller synchronises. */
__device__ inline int32_t bs_cu_sources(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                        const bs_cu_team &team, int32_t from, bs_cu_source *sources)
{
    const bs_cu_decision d = bs_cu_decision_of(t, s->router);
    const int64_t at = (int64_t)bs_cu_decided_row(t, s, row) * d.per_row;
    int32_t count = 0;
    for (int32_t k = team.rank; k < d.per_row || k == team.rank; k += team.size) { /* once at least: all count */
        const int32_t mine = k < d.per_row && bs_cu_gives(t, s, d, at + k) ? d.chosen[at + k] : -1;
        int32_t before = 0;
        count = 0;
        for (int32_t i = 0; i < d.per_row; i++) {
            const bool gives = bs_cu_gives(t, s, d, at + i);
            count += gives;
            before += gives && d.chosen[at + i] < mine;
        }
        if (mine >= 0 && before >= from && before - from < BS_CU_SUM_SOURCES)
            bs_cu_source_open(t, bs_cu_in(t, s, mine), d.inverse[at + k] - d.offsets[mine],
                              s->p[0].i == BS_GATHER_ADD ? 1.0f : d.gates[at + k], &sources[before - from]);
    }
    if (s->p[1].i && team.rank == 0 && count >= from && count - from < BS_CU_SUM_SOURCES)
        bs_cu_source_open(t, bs_cu_in(t, s, d.paths), row, 1.0f, &sources[count - from]);
    return count + (s->p[1].i != 0);
}

__device__ __forceinline__ float4 bs_cu_get4(const uint8_t *data, int32_t dtype, int64_t at)
{
    float4 v;
    if (dtype == BS_F16)
        bs_cu_word_move(&v, *reinterpret_cast<const uint2 *>(data + at * 2));
    else
        v = *reinterpret_cast<const float4 *>(data + at * 4);
    return v;
}

__device__ __forceinline__ void bs_cu_put4(uint8_t *data, int32_t dtype, int64_t at, const float4 &v)
{
    if (dtype == BS_F16)
        bs_cu_word_move(reinterpret_cast<uint2 *>(data + at * 2), v);
    else
        *reinterpret_cast<float4 *>(data + at * 4) = v;
}

/* The loops of the result, and where its first element is: of images channel, x, y. */
struct bs_cu_sum {
    uint8_t *to;
    int32_t n[4], step[4];
    int32_t y0, x0, dtype;
    bool image;
};

__device__ inline bs_cu_sum bs_cu_sum_of(const bs_cu_view &v)
{
    bs_cu_sum m;
    m.image = v.rank == 3;
    m.y0 = m.image ? v.y0 : 0;
    m.x0 = m.image ? v.x0 : 0;
    m.dtype = v.dtype;
    m.n[0] = m.image ? v.dim[0] : v.rank > 0 ? bs_cu_pick(v.dim, v.rank - 1) : 1;
    m.n[1] = m.image ? max(v.x1 - v.x0, 0) : v.rank > 1 ? bs_cu_pick(v.dim, v.rank - 2) : 1;
    m.n[2] = m.image ? max(v.y1 - v.y0, 0) : v.rank > 2 ? bs_cu_pick(v.dim, v.rank - 3) : 1;
    m.n[3] = v.rank > 3 ? bs_cu_pick(v.dim, v.rank - 4) : 1;
    m.step[0] = m.image ? v.stride[0] : bs_cu_pick(v.stride, v.rank - 1);
    m.step[1] = m.image ? v.stride[2] : bs_cu_pick(v.stride, v.rank - 2);
    m.step[2] = m.image ? v.stride[1] : bs_cu_pick(v.stride, v.rank - 3);
    m.step[3] = v.rank > 3 ? bs_cu_pick(v.stride, v.rank - 4) : 0;
    m.to = v.data;
    return m;
}

/* Whether rows of these steps can be had in words of four elements. */
__device__ __forceinline__ bool bs_cu_by_four(const uint8_t *data, int32_t dtype, const int32_t *n, const int32_t *step)
{
    const int32_t bytes = bs_cu_bytes(dtype);
    return step[0] == 1 && n[0] % 4 == 0 && bs_cu_word(data, n, step, bytes) >= 4 * bytes;
}

/* Elements at loop indices (x0, x1, x2, x3) of all sources, summed in their order. each: 4 or 1. more: onto what is
 * there. */
template <int each>
__device__ __forceinline__ void bs_cu_sum_at(const bs_cu_sum &m, const bs_cu_source *sources, int32_t count, bool more,
                                             uint32_t i)
{
    const uint32_t width = (uint32_t)m.n[0] / each;
    uint32_t line = m.n[1] * m.n[2] * m.n[3] == 1 ? 0 : i / width;
    const int32_t c = (int32_t)(i - line * width) * each, x = m.x0 + (int32_t)(line % (uint32_t)m.n[1]);
    line /= (uint32_t)m.n[1];
    const int32_t y = m.y0 + (int32_t)(line % (uint32_t)m.n[2]), z = (int32_t)(line / (uint32_t)m.n[2]);
    const int64_t to = (int64_t)c * m.step[0] + (int64_t)x * m.step[1] + (int64_t)y * m.step[2] +
                       (int64_t)z * m.step[3];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (more && each == 4)
        sum = bs_cu_get4(m.to, m.dtype, to);
    else if (more)
        sum.x = bs_cu_get(m.to, m.dtype, to);
    for (int32_t k = 0; k < count; k++) {
        const bs_cu_source &from = sources[k];
        if (m.image && (y < from.y0 || y >= from.y1 || x < from.x0 || x >= from.x1))
            continue;
        const int64_t at = (int64_t)c * from.step[0] + (int64_t)x * from.step[1] + (int64_t)y * from.step[2] +
                           (int64_t)z * from.step[3];
        if (each == 4) {
            const float4 v = bs_cu_get4(from.data, from.dtype, at);
            sum.x = bs_cu_mul_add(from.gate, v.x, sum.x);
            sum.y = bs_cu_mul_add(from.gate, v.y, sum.y);
            sum.z = bs_cu_mul_add(from.gate, v.z, sum.z);
            sum.w = bs_cu_mul_add(from.gate, v.w, sum.w);
        } else {
            sum.x = bs_cu_mul_add(from.gate, bs_cu_get(from.data, from.dtype, at), sum.x);
        }
    }
    if (each == 4)
        bs_cu_put4(m.to, m.dtype, to, sum);
    else
        bs_cu_put(m.to, m.dtype, to, sum.x);
}

/* This team's share of a row, from its sources. */
__device__ inline void bs_cu_sum_row(const bs_cu_view &to, const bs_cu_source *sources, int32_t count, bool more,
                                     const bs_cu_team &team, const bs_cu_work &w)
{
    const bs_cu_sum m = bs_cu_sum_of(to);
    bool four = bs_cu_by_four(m.to, m.dtype, m.n, m.step);
    for (int32_t k = 0; four && k < count; k++)
        four = bs_cu_by_four(sources[k].data, sources[k].dtype, m.n, sources[k].step);
    const uint32_t total = (uint32_t)m.n[0] * (uint32_t)m.n[1] * (uint32_t)m.n[2] * (uint32_t)m.n[3];
    uint32_t first, last;
    bs_cu_share(four ? total / 4 : total, w, &first, &last);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        if (four)
            bs_cu_sum_at<4>(m, sources, count, more, i);
        else
            bs_cu_sum_at<1>(m, sources, count, more, i);
    }
}

/* The row of the path with the largest gate, the lower path of equals; without one the residual's, or zeros. */
__device__ inline void bs_cu_select_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                        const bs_cu_team &team, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0), *in = bs_cu_in(t, s, 0);
    const bs_cu_decision d = bs_cu_decision_of(t, s->router);
    const int64_t at = (int64_t)bs_cu_decided_row(t, s, row) * d.per_row;
    int64_t best = -1;
    for (int64_t i = at; i < at + d.per_row; i++)
        if (d.chosen[i] >= 0 && d.inverse[i] >= 0 &&
            (best < 0 || d.gates[i] > d.gates[best] || (d.gates[i] == d.gates[best] && d.chosen[i] < d.chosen[best])))
            best = i;
    if (best >= 0 && !bs_cu_gives(t, s, d, best))
        best = -1; /* the path of the largest gate gives nothing */
    const bs_cu_view to = bs_cu_open_target(t, out, row);
    const bs_cu_rect all = {to.y0, to.y1, to.x0, to.x1};
    if (best < 0 && !s->p[1].i) {
        bs_cu_nest_zero(bs_cu_nest_of(to, to, true, all), team, w);
        return;
    }
    const bs_cu_view from = bs_cu_open(t, in + (best < 0 ? d.paths : d.chosen[best]),
                                       best < 0 ? row : d.inverse[best] - d.offsets[d.chosen[best]]);
    bs_cu_row_copy(to, from, team, t.workspace, w);
    if (to.rank == 3 && w.part == 0)
        bs_cu_zero_ring(to, bs_cu_common(to, from), all, team);
}

__device__ inline void bs_cu_reduce_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_team team = bs_cu_team_of(s);
    const bool sums = s->p[0].i == BS_GATHER_ADD || s->p[0].i == BS_GATHER_WEIGHTED;
    const int32_t most = t.program->decision[s->router].per_row + 1;
    bs_cu_source *sources = reinterpret_cast<bs_cu_source *>(t.workspace) + team.index * min(most, BS_CU_SUM_SOURCES);
    for (int32_t first = w.row; first < w.row + w.rows; first += team.count) { /* all teams go round as often */
        const int32_t r = first + team.index;
        const bool mine = r < w.row + w.rows;
        for (int32_t from = 0; sums && from < most; from += BS_CU_SUM_SOURCES) {
            const int32_t count = mine ? bs_cu_sources(t, s, r, team, from, sources) - from : 0;
            __syncthreads();
            if (mine && (count > 0 || from == 0))
                bs_cu_sum_row(bs_cu_open_target(t, out, r), sources, min(count, BS_CU_SUM_SOURCES), from > 0, team, w);
            if (from + BS_CU_SUM_SOURCES < most)
                __syncthreads();
        }
        if (mine && !sums)
            bs_cu_select_row(t, s, r, team, w);
        if (mine)
            bs_cu_zero_around(t, out, r, team, w);
        __syncthreads();
    }
}

#endif
