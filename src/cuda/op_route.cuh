/* op_route.cuh - from scores to a decision: the protocols of run/route.c, and what asks about a decision.
 *
 * A decision is made by one block (route), in tiles and for up to a thousand rows or so. Of more rows many blocks
 * decide (route_rows: a chunk of rows each, and how many of them went where), and many blocks pack (route_pack: each
 * adds up the chunks before its own). What looks at all rows at once, a capacity or a budget, is always one block's.
 * What is chosen, and in which order rows are packed, follows from the scores alone: threads and chunks never show.
 * Relies on program.cuh and lower.cuh. Must never leave a decision behind that somebody could follow out of bounds:
 * after a failure no row has a path. */
#ifndef BS_CUDA_OP_ROUTE
#define BS_CUDA_OP_ROUTE

#include "cuda/kernels.cuh"
#include "cuda/lower.cuh"
#include "cuda/program.cuh"

enum {
    BS_CU_ROUTE_CHUNK = 256,  /* rows of a block of route_rows and route_pack, at least */
    BS_CU_ROUTE_ROWS = 1024,  /* up to so many, one block does it all */
    BS_CU_ROUTE_PATHS = 1024, /* of more, tables do not lie in shared memory, and one block does it all */
    BS_CU_BUDGET_STEPS = 200,
    BS_CU_FLOOR_CELL = 8
};

/* What a step of a router knows: p, by number. */
enum {
    BS_CU_P_PROTOCOL, /* -1: forced */
    BS_CU_P_WIDTH,    /* scores a row */
    BS_CU_P_CAPACITY, /* CAPACITY: rows a path; TABLE: keys; BUDGET: variants */
    BS_CU_P_KNOB,
    BS_CU_P_FALLBACK,
    BS_CU_P_NORMALISE,
    BS_CU_P_THRESHOLD,
    BS_CU_P_FORCED,  /* path + 1 */
    BS_CU_P_LARGE,
    BS_CU_P_PATHS_AT, /* BUDGET: bytes from the table of costs to that of paths */
    BS_CU_P_PATCHES,  /* BUDGET: the patch domain whose areas weigh, -1 none; */
    BS_CU_P_SIZE,     /* of its cells; */
    BS_CU_P_HEIGHT,   /* of its frame */
    BS_CU_P_FRAME_WIDTH,
    BS_CU_P_FLOOR /* BUDGET */
};

/* ------------------------------------------------------------------------------------------------ describe */

/* Decisions of a forced route need nothing but the number of rows. */
static void bs_cu_route_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t router = n->node->router;
    const bs_router_info *info = &n->graph->routers[router];
    const bs_route_desc *d = info->desc;
    const bs_router_plan *plan = &n->plan->routers[router];
    const bool all_rows = d->protocol == BS_ROUTE_CAPACITY || d->protocol == BS_ROUTE_BUDGET ||
                          d->protocol == BS_ROUTE_CALLBACK;
    const bool large = !plan->in_tile && (!all_rows || plan->forced) && plan->rows > BS_CU_ROUTE_ROWS &&
                       d->paths <= BS_CU_ROUTE_PATHS;
    s->kernel = large ? BS_CU_route_rows : BS_CU_route;
    /* so that the counts of all chunks fit into bs_device_decision.work */
    s->batch = bs_max_i32(BS_CU_ROUTE_CHUNK, d->paths);
    s->parts = 1;
    s->router = router;
    s->p[BS_CU_P_PROTOCOL].i = plan->forced ? -1 : d->protocol;
    s->p[BS_CU_P_WIDTH].i = plan->forced ? 0 : n->in[0].dim[0];
    s->p[BS_CU_P_CAPACITY].i = d->protocol == BS_ROUTE_TABLE    ? bs_or_default(d->capacity, 256)
                               : d->protocol == BS_ROUTE_BUDGET ? bs_or_default(d->capacity, d->paths)
                                                                : d->capacity;
    s->p[BS_CU_P_KNOB].i = info->knob != 0 && !plan->forced;
    s->p[BS_CU_P_FALLBACK].i = d->fallback;
    s->p[BS_CU_P_NORMALISE].i = d->normalise;
    s->p[BS_CU_P_THRESHOLD].f = d->threshold;
    s->p[BS_CU_P_FORCED].i = plan->forced;
    s->p[BS_CU_P_FLOOR].i = d->floor;
    s->p[BS_CU_P_LARGE].i = large;
    s->p[BS_CU_P_PATCHES].i = -1;
    if (d->protocol != BS_ROUTE_BUDGET || plan->forced)
        return;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t patches = n->graph->domains[info->domain].patches;
    bs_op_get(n->node->op)->weights(n->graph, n->node, specs);
    s->p[BS_CU_P_PATHS_AT].i = (int32_t)bs_bytes_figure(bs_weight_offset(specs, 1));
    s->p[BS_CU_P_PATCHES].i = patches;
    if (patches < 0)
        return;
    s->p[BS_CU_P_SIZE].i = n->plan->domains[patches].size;
    s->p[BS_CU_P_HEIGHT].i = (int32_t)n->dims[n->graph->domains[patches].height];
    s->p[BS_CU_P_FRAME_WIDTH].i = (int32_t)n->dims[n->graph->domains[patches].width];
}

/* p: [0] scores a row, [1] whether a budget was kept. */
static void bs_cu_route_score_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t router = n->node->router;
    s->kernel = BS_CU_route_score;
    s->router = router;
    s->batch = 256;
    s->p[0].i = n->in[0].dim[0];
    s->p[1].i = n->graph->routers[router].desc->protocol == BS_ROUTE_BUDGET && !n->plan->routers[router].forced;
}

static void bs_cu_route_price_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_route_price;
    s->router = n->node->router;
    s->p[0].i = n->plan->routers[s->router].forced; /* then it weighs nothing; and it may be decided in tiles */
}

/* ----------------------------------------------------------------------------------------- shared by a block */

/* At the beginning of the workspace. Tables of paths lie behind, if they fit, then what is staged or sorted. */
struct bs_cu_routing {
    uint64_t sums[8];       /* of each warp */
    int32_t of_thread[256];
};

/* What a block needs to make a decision. */
struct bs_cu_router {
    const bs_cu_tile *t;
    const bs_device_step *s;
    bs_cu_decision d;
    const bs_device_operand *score;
    bs_cu_routing *shared;
    int32_t *counts, *offsets; /* [paths], [paths + 1] */
    /* [paths] where the next row of a path goes; of a capacity: those that have their place */
    int32_t *next;
    uint32_t *stage;
    int32_t stage_words;
    int32_t rows;
    float knob;
    bool floored;   /* BUDGET: the floor allows more than the budget, which alone is kept at this price: */
    uint64_t alone;
};

__device__ inline bs_cu_router bs_cu_router_of(const bs_cu_tile &t, const bs_device_step *s)
{
    const bs_device_decision &d = t.program->decision[s->router];
    const int32_t table_words = (3 * d.paths + 4) & ~3, words = (BS_CU_WORKSPACE - (int32_t)sizeof(bs_cu_routing)) / 4;
    const bool fits = d.paths <= BS_CU_ROUTE_PATHS;
    bs_cu_router r;
    r.t = &t;
    r.s = s;
    r.d = bs_cu_decision_of(t, s->router);
    r.score = bs_cu_in(t, s, 0);
    r.shared = reinterpret_cast<bs_cu_routing *>(t.workspace);
    r.stage = reinterpret_cast<uint32_t *>(r.shared + 1) + (fits ? table_words : 0);
    r.stage_words = words - (fits ? table_words : 0);
    r.counts = fits ? reinterpret_cast<int32_t *>(r.shared + 1) : r.d.work + 2 * (int64_t)d.rows * d.per_row;
    r.next = r.counts + d.paths;
    r.offsets = r.next + d.paths;
    r.rows = min(bs_cu_count(t, s->domain), d.rows);
    r.knob = 0.0f;
    r.floored = false;
    r.alone = 0;
    if (s->p[BS_CU_P_KNOB].i) {
        const bs_device_operand *knob = bs_cu_in(t, s, 1);
        r.knob = bs_cu_get(bs_cu_row(t, knob, 0), knob->dtype, 0);
    }
    return r;
}

/* ------------------------------------------------------------------------------------------------ counting */

/* The lanes of this warp whose choice is the same path; 0 where there is none. By whole warps. */
__device__ __forceinline__ uint32_t bs_cu_peers(int32_t path, int32_t paths)
{
    uint32_t peers = __ballot_sync(0xffffffffu, path >= 0);
    for (int32_t bit = 1; bit < paths; bit *= 2) {
        const uint32_t set = __ballot_sync(0xffffffffu, (path & bit) != 0);
        peers &= path & bit ? set : ~set;
    }
    return path >= 0 ? peers : 0;
}

__device__ __forceinline__ uint32_t bs_cu_lanes_below() { return (1u << (threadIdx.x & 31u)) - 1u; }

/* Adds choices first .. last - 1 to counts. The caller cleared them, and synchronises. */
__device__ inline void bs_cu_count_choices(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t base = first; base < last; base += (int32_t)blockDim.x) {
        const int32_t at = base + (int32_t)threadIdx.x, path = at < last ? r.d.chosen[at] : -1;
        const uint32_t peers = bs_cu_peers(path, r.d.paths);
        if (path >= 0 && (peers & bs_cu_lanes_below()) == 0)
            atomicAdd(&r.counts[path], __popc(peers));
    }
}

__device__ inline void bs_cu_clear_counts(const bs_cu_router &r)
{
    for (int32_t p = (int32_t)threadIdx.x; p < r.d.paths; p += (int32_t)blockDim.x)
        r.counts[p] = r.next[p] = 0;
}

/* offsets from counts; they are added to next. All threads, each a share of the paths; synchronises before and
 * after. */
__device__ inline void bs_cu_sum_counts(const bs_cu_router &r)
{
    const int32_t share = (r.d.paths + (int32_t)blockDim.x - 1) / (int32_t)blockDim.x;
    const int32_t first = min((int32_t)threadIdx.x * share, r.d.paths), last = min(first + share, r.d.paths);
    int32_t own = 0, sum = 0;
    __syncthreads();
    for (int32_t p = first; p < last; p++)
        own += r.counts[p];
    r.shared->of_thread[threadIdx.x] = own;
    __syncthreads();
    for (int32_t k = 0; k < (int32_t)threadIdx.x && first < r.d.paths; k++)
        sum += r.shared->of_thread[k];
    for (int32_t p = first; p < last; p++) {
        r.offsets[p] = sum;
        r.next[p] += sum;
        sum += r.counts[p];
        if (p + 1 == r.d.paths)
            r.offsets[r.d.paths] = sum;
    }
    __syncthreads();
}

/* What next[path] counts, for this thread's item among those of all threads, in their order; -1: it has none. All
 * threads, by whole warps, one warp after the other. */
__device__ inline int32_t bs_cu_take_next(const bs_cu_router &r, int32_t path)
{
    const int32_t warp = (int32_t)threadIdx.x / 32, lane = (int32_t)threadIdx.x & 31;
    const uint32_t peers = bs_cu_peers(path, r.d.paths);
    const int32_t leader = peers ? __ffs((int)peers) - 1 : lane;
    int32_t first = 0;
    for (int32_t k = 0; k < (int32_t)blockDim.x / 32; k++) {
        if (k == warp && path >= 0 && lane == leader) {
            first = r.next[path];
            r.next[path] = first + __popc(peers);
        }
        __syncthreads();
    }
    first = __shfl_sync(0xffffffffu, first, leader);
    return path < 0 ? -1 : first + __popc(peers & bs_cu_lanes_below());
}

/* Gives choices first .. last - 1 their packed rows: in order, from next on. All threads. */
__device__ inline void bs_cu_place_choices(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t base = first; base < last; base += (int32_t)blockDim.x) {
        const int32_t at = base + (int32_t)threadIdx.x, path = at < last ? r.d.chosen[at] : -1;
        const int32_t packed = bs_cu_take_next(r, path);
        if (at < last)
            r.d.inverse[at] = packed;
        if (path >= 0)
            r.d.ids[packed] = at / r.d.per_row;
    }
}

/* At most 32 choices: the first warp packs them without asking the others. A lane looks after every 32nd path. */
__device__ inline void bs_cu_pack_few(const bs_cu_router &r, int32_t choices)
{
    const int32_t lane = (int32_t)threadIdx.x, paths = r.d.paths;
    if (lane >= 32)
        return;
    const int32_t path = lane < choices ? r.d.chosen[lane] : -1;
    const uint32_t peers = bs_cu_peers(path, paths);
    int32_t smaller = 0;
    for (int32_t base = 0; base < paths; base += 32) {
        const int32_t p = base + lane;
        int32_t count = 0, before = 0;
        for (int32_t i = 0; i < choices; i++) {
            const int32_t other = __shfl_sync(0xffffffffu, path, i);
            count += other == p;
            before += other >= 0 && other < p;
            smaller += base == 0 && other >= 0 && other < path;
        }
        if (p >= paths)
            continue;
        r.d.counts[p] = r.counts[p] = count;
        r.d.offsets[p] = before;
        if (p + 1 == paths)
            r.d.offsets[paths] = before + count;
    }
    if (lane >= choices)
        return;
    const int32_t packed = path < 0 ? -1 : smaller + __popc(peers & bs_cu_lanes_below());
    r.d.inverse[lane] = packed;
    if (path >= 0)
        r.d.ids[packed] = lane / r.d.per_row;
}

/* What all who follow the decision need to know of its paths. */
__device__ inline void bs_cu_tell_counts(const bs_cu_router &r)
{
    for (int32_t p = (int32_t)threadIdx.x; p <= r.d.paths; p += (int32_t)blockDim.x) {
        r.d.offsets[p] = r.offsets[p];
        if (p < r.d.paths)
            r.d.counts[p] = r.counts[p];
    }
}

/* Counts, offsets, ids and the inverse of what was chosen, by one block. counts: how many rows each path got. */
__device__ inline void bs_cu_pack(const bs_cu_router &r)
{
    const int32_t choices = r.rows * r.d.per_row;
    __syncthreads(); /* chosen is written */
    if (choices <= 32) {
        bs_cu_pack_few(r, choices);
        __syncthreads();
        return;
    }
    bs_cu_clear_counts(r);
    __syncthreads();
    bs_cu_count_choices(r, 0, choices);
    bs_cu_sum_counts(r);
    bs_cu_tell_counts(r);
    bs_cu_place_choices(r, 0, choices);
}

/* -------------------------------------------------------------------------------------------------- record */

/* What the host is told: the first path of rows first .. last - 1, by their place among all cells. */
__device__ inline void bs_cu_record_rows(const bs_cu_router &r, int32_t first, int32_t last)
{
    int16_t *top = reinterpret_cast<int16_t *>(r.t->program->decisions + r.t->program->decision[r.s->router].top);
    for (int32_t row = first + (int32_t)threadIdx.x; row < last; row += (int32_t)blockDim.x)
        top[bs_cu_top_row(*r.t, r.s->domain, row)] = (int16_t)r.d.chosen[(int64_t)row * r.d.per_row];
}

/* And how many rows each path got (counts): tiles add theirs. */
__device__ inline void bs_cu_record_counts(const bs_cu_router &r)
{
    const bs_device_decision &d = r.t->program->decision[r.s->router];
    int32_t *sums = reinterpret_cast<int32_t *>(r.t->program->decisions + d.sums);
    for (int32_t p = (int32_t)threadIdx.x; p < r.d.paths; p += (int32_t)blockDim.x) {
        if (!d.in_tile)
            sums[p] = r.counts[p];
        else if (r.counts[p] > 0)
            atomicAdd(&sums[p], r.counts[p]);
    }
}

/* After a failure: no row has a path. */
__device__ inline void bs_cu_choose_none(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t at = first + (int32_t)threadIdx.x; at < last; at += (int32_t)blockDim.x) {
        r.d.chosen[at] = -1;
        r.d.gates[at] = 0.0f;
    }
}

/* --------------------------------------------------------------------------------------------- row by row */

/* A row's scores, staged or where they are: f32 or i32, by their bits. */
struct bs_cu_scores {
    const uint32_t *bits;
    int32_t stride;
    bool integer;
};

__device__ __forceinline__ uint32_t bs_cu_score_bits(const bs_cu_scores &x, int32_t i)
{
    return x.bits[(int64_t)i * x.stride];
}

__device__ __forceinline__ float bs_cu_score(const bs_cu_scores &x, int32_t i)
{
    return x.integer ? (float)(int32_t)bs_cu_score_bits(x, i) : __uint_as_float(bs_cu_score_bits(x, i));
}

/* Whether score a is to be taken before score b. Large i32 scores are exact. NaN, which a guess may hold, is below
 * all. */
__device__ __forceinline__ bool bs_cu_score_above(const bs_cu_scores &x, int32_t a, int32_t b)
{
    const uint32_t first = bs_cu_score_bits(x, a), second = bs_cu_score_bits(x, b);
    if (x.integer)
        return (int32_t)first > (int32_t)second;
    return __uint_as_float(first) > __uint_as_float(second) ||
           (isnan(__uint_as_float(second)) && !isnan(__uint_as_float(first)));
}

/* Whether path a is worse than path b: the lower one of equals is the better. */
__device__ __forceinline__ bool bs_cu_score_worse(const bs_cu_scores &x, int32_t a, int32_t b)
{
    return bs_cu_score_above(x, b, a) || (a > b && !bs_cu_score_above(x, a, b));
}

/* Path p takes the place of the root, the worst, of a heap of n. */
__device__ inline void bs_cu_heap_sink(const bs_cu_scores &x, int32_t *heap, int32_t n, int32_t p)
{
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && bs_cu_score_worse(x, heap[child + 1], heap[child]))
            child++;
        if (!bs_cu_score_worse(x, heap[child], p))
            break;
        heap[at] = heap[child];
    }
    heap[at] = p;
}

/* As best_paths() of run/route.c: the `count` best, the best first, of equal ones the lower. By one thread. */
__device__ inline void bs_cu_best_paths(const bs_cu_scores &x, int32_t paths, int32_t count, int32_t *best)
{
    int32_t root = 0;
    for (int32_t p = 0; p < paths; p++) {
        if (p >= count && !bs_cu_score_above(x, p, root))
            continue;
        if (p >= count) {
            bs_cu_heap_sink(x, best, count, p);
        } else {
            int32_t at = p;
            for (; at > 0 && bs_cu_score_worse(x, p, best[(at - 1) / 2]); at = (at - 1) / 2)
                best[at] = best[(at - 1) / 2];
            best[at] = p;
        }
        root = best[0];
    }
    for (int32_t n = min(count, paths) - 1; n > 0; n--) {
        root = best[0];
        bs_cu_heap_sink(x, best, n, best[n]);
        best[n] = root;
    }
}

__device__ __forceinline__ void bs_cu_choose(const bs_cu_router &r, int32_t row, int32_t k, int32_t path, float gate)
{
    r.d.chosen[(int64_t)row * r.d.per_row + k] = path;
    r.d.gates[(int64_t)row * r.d.per_row + k] = gate;
}

/* The count highest, the lower path of equals. */
__device__ inline void bs_cu_decide_topk(const bs_cu_router &r, int32_t row, const bs_cu_scores &x, int32_t count)
{
    int32_t *const chosen = r.d.chosen + (int64_t)row * r.d.per_row;
    float sum = 0.0f;
    bs_cu_best_paths(x, r.d.paths, count, chosen);
    for (int32_t k = 0; k < count; k++) {
        bs_cu_choose(r, row, k, chosen[k], bs_cu_score(x, chosen[k]));
        sum += bs_cu_score(x, chosen[k]);
    }
    for (int32_t k = 0; r.s->p[BS_CU_P_NORMALISE].i && sum > 0.0f && sum < INFINITY && k < count; k++)
        r.d.gates[(int64_t)row * r.d.per_row + k] /= sum;
}

__device__ inline void bs_cu_decide_threshold(const bs_cu_router &r, int32_t row, const bs_cu_scores &x)
{
    const float threshold = r.s->p[BS_CU_P_THRESHOLD].f + r.knob;
    const int32_t fallback = r.s->p[BS_CU_P_FALLBACK].i - 1;
    int32_t n = 0;
    for (int32_t p = 0; p < r.d.paths; p++)
        if (bs_cu_score(x, p) > threshold)
            bs_cu_choose(r, row, n++, p, bs_cu_score(x, p));
    if (n == 0 && fallback >= 0)
        bs_cu_choose(r, row, n++, fallback, bs_cu_score(x, fallback));
    for (; n < r.d.per_row; n++)
        bs_cu_choose(r, row, n, -1, 0.0f);
}

/* One row, by one thread. False: its scores make no sense. */
__device__ inline bool bs_cu_decide_row(const bs_cu_router &r, int32_t row, const bs_cu_scores &x)
{
    const float threshold = r.s->p[BS_CU_P_THRESHOLD].f + r.knob;
    const int32_t label = (int32_t)bs_cu_score_bits(x, 0);
    for (int32_t i = 0; !x.integer && i < r.s->p[BS_CU_P_WIDTH].i; i++)
        if (isnan(bs_cu_score(x, i)))
            return false;
    switch (r.s->p[BS_CU_P_PROTOCOL].i) {
    case BS_ROUTE_TOP1: bs_cu_decide_topk(r, row, x, 1); return true;
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY: bs_cu_decide_topk(r, row, x, r.d.per_row); return true;
    case BS_ROUTE_THRESHOLD: bs_cu_decide_threshold(r, row, x); return true;
    case BS_ROUTE_RESIDUAL_THRESHOLD: {
        const int32_t path = bs_cu_score(x, 0) + bs_cu_score(x, 1) < threshold ? 0 : 1;
        bs_cu_choose(r, row, 0, path, bs_cu_score(x, path));
        return true;
    }
    case BS_ROUTE_BINARY:
        bs_cu_choose(r, row, 0, bs_cu_score(x, 0) >= threshold ? 0 : 1, bs_cu_score(x, 0));
        return true;
    case BS_ROUTE_LABEL:
        if (label < 0 || label >= r.d.paths)
            return false;
        bs_cu_choose(r, row, 0, label, 1.0f);
        return true;
    case BS_ROUTE_TABLE: {
        if (label < 0 || label >= r.s->p[BS_CU_P_CAPACITY].i)
            return false;
        const int32_t path = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s))[label];
        if (path < 0 || path >= r.d.paths)
            return false;
        bs_cu_choose(r, row, 0, path, 1.0f);
        return true;
    }
    default: return false;
    }
}

/* Scores of rows first .. last - 1 to shared memory, `pitch` words a row; so many threads a row as it has scores. */
__device__ inline void bs_cu_stage_scores(const bs_cu_router &r, int32_t first, int32_t last, int32_t pitch)
{
    const int32_t width = r.s->p[BS_CU_P_WIDTH].i, stride = r.score->stride[0];
    int32_t lanes = 1;
    while (lanes < width && lanes < 32)
        lanes *= 2;
    for (int32_t row = first + (int32_t)threadIdx.x / lanes; row < last; row += (int32_t)blockDim.x / lanes) {
        const uint8_t *data = bs_cu_row(*r.t, r.score, row);
        for (int32_t i = (int32_t)threadIdx.x % lanes; i < width; i += lanes)
            r.stage[(row - first) * pitch + i] = r.score->dtype == BS_I32
                                                     ? reinterpret_cast<const uint32_t *>(data)[(int64_t)i * stride]
                                                     : __float_as_uint(
                                                           bs_cu_get(data, r.score->dtype, (int64_t)i * stride));
    }
}

/* Decides rows first .. last - 1, whatever the others are. All threads; whether all went well, for each to know. */
__device__ inline bool bs_cu_decide_rows(const bs_cu_router &r, int32_t first, int32_t last)
{
    const int32_t pitch = r.s->p[BS_CU_P_WIDTH].i | 1, most = min(r.stage_words / pitch, (int32_t)blockDim.x);
    const bool integer = r.score->dtype == BS_I32;
    bool bad = false;
    /* too many to stage */
    for (int32_t row = first + (int32_t)threadIdx.x; most == 0 && row < last; row += (int32_t)blockDim.x) {
        const bs_cu_scores x = {reinterpret_cast<const uint32_t *>(bs_cu_row(*r.t, r.score, row)), r.score->stride[0],
                                integer};
        bad = !bs_cu_decide_row(r, row, x) || bad;
    }
    for (int32_t base = first; most > 0 && base < last; base += most) {
        const int32_t end = min(base + most, last), row = base + (int32_t)threadIdx.x;
        bs_cu_stage_scores(r, base, end, pitch);
        __syncthreads();
        if (row < end) {
            const bs_cu_scores x = {r.stage + (row - base) * pitch, 1, integer};
            bad = !bs_cu_decide_row(r, row, x) || bad;
        }
        __syncthreads();
    }
    return __syncthreads_or(bad) == 0;
}

__device__ inline void bs_cu_decide_forced(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t at = first * r.d.per_row + (int32_t)threadIdx.x; at < last * r.d.per_row; at += (int32_t)blockDim.x) {
        r.d.chosen[at] = at % r.d.per_row == 0 ? r.s->p[BS_CU_P_FORCED].i - 1 : -1;
        r.d.gates[at] = 1.0f;
    }
}

/* ------------------------------------------------------------------------------------------------ capacity */

/* Ascending as (gate from the highest, row): no two are equal. -0 is 0. */
enum { BS_CU_CAPACITY_ROW = (1 << 30) - 1 };

__device__ __forceinline__ uint64_t bs_cu_capacity_key(float gate, int32_t row)
{
    uint32_t bits = __float_as_uint(gate == 0.0f ? 0.0f : gate);
    bits = bits & 0x80000000u ? bits : ~bits & 0x7fffffffu; /* descending */
    return (uint64_t)bits << 30 | (uint32_t)row;
}

/* Sorts n keys, ascending: a bitonic network whose every comparison puts the smaller key first, so that what lies
 * beyond n can be left away. All threads; the caller synchronised. */
__device__ inline void bs_cu_sort_keys(uint64_t *keys, int32_t n)
{
    for (int32_t width = 2; width / 2 < n; width *= 2)
        for (int32_t half = width / 2, mirror = 1; half > 0; half /= 2, mirror = 0) {
            for (int32_t i = (int32_t)threadIdx.x;; i += (int32_t)blockDim.x) {
                const int32_t low = i / half * 2 * half + i % half, high = mirror ? low ^ (width - 1) : low + half;
                if (low >= n)
                    break;
                if (high < n && keys[low] > keys[high]) {
                    const uint64_t key = keys[low];
                    keys[low] = keys[high];
                    keys[high] = key;
                }
            }
            __syncthreads();
        }
}

/* The sum over all threads, for each to know. */
__device__ inline uint64_t bs_cu_sum_threads(bs_cu_routing *shared, uint64_t mine)
{
    for (int32_t d = 16; d > 0; d /= 2)
        mine += __shfl_xor_sync(0xffffffffu, (unsigned long long)mine, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        shared->sums[threadIdx.x / 32] = mine;
    __syncthreads();
    uint64_t sum = 0;
    for (int32_t k = 0; k < (int32_t)blockDim.x / 32; k++)
        sum += shared->sums[k];
    return sum;
}

/* Of the rows' choices k: on every path those of the highest gates stay, as long as there is room. next: those that
 * stayed. */
__device__ inline void bs_cu_limit_choice(const bs_cu_router &r, int32_t k)
{
    uint64_t *keys = 2 * r.rows <= r.stage_words ? reinterpret_cast<uint64_t *>(r.stage)
                                                 : reinterpret_cast<uint64_t *>(r.d.work);
    const int32_t per_row = r.d.per_row, capacity = r.s->p[BS_CU_P_CAPACITY].i;
    bool over = false;
    for (int32_t p = (int32_t)threadIdx.x; p < r.d.paths; p += (int32_t)blockDim.x)
        r.counts[p] = 0;
    __syncthreads();
    for (int32_t base = 0; base < r.rows; base += (int32_t)blockDim.x) {
        const int32_t row = base + (int32_t)threadIdx.x,
                      path = row < r.rows ? r.d.chosen[(int64_t)row * per_row + k] : -1;
        const uint32_t peers = bs_cu_peers(path, r.d.paths);
        if (path >= 0 && (peers & bs_cu_lanes_below()) == 0)
            atomicAdd(&r.counts[path], __popc(peers));
    }
    __syncthreads();
    for (int32_t p = (int32_t)threadIdx.x; p < r.d.paths; p += (int32_t)blockDim.x)
        over = over || r.counts[p] > capacity - r.next[p];
    over = __syncthreads_or(over) != 0;
    for (int32_t row = (int32_t)threadIdx.x; over && row < r.rows; row += (int32_t)blockDim.x)
        keys[row] = bs_cu_capacity_key(r.d.gates[(int64_t)row * per_row + k], row);
    __syncthreads();
    if (over)
        bs_cu_sort_keys(keys, r.rows);
    for (int32_t base = 0; over && base < r.rows; base += (int32_t)blockDim.x) {
        const int32_t i = base + (int32_t)threadIdx.x, row = i < r.rows ? (int32_t)(keys[i] & BS_CU_CAPACITY_ROW) : 0;
        const int32_t path = i < r.rows ? r.d.chosen[(int64_t)row * per_row + k] : -1;
        if (bs_cu_take_next(r, path) >= capacity)
            r.d.chosen[(int64_t)row * per_row + k] = -1;
    }
    __syncthreads();
    for (int32_t p = (int32_t)threadIdx.x; p < r.d.paths; p += (int32_t)blockDim.x)
        r.next[p] = over ? min(r.next[p], capacity) : r.next[p] + r.counts[p];
    __syncthreads();
}

/* First choices are served before second ones; what does not fit is dropped and counted, what was kept moves up. */
__device__ inline void bs_cu_limit_capacity(const bs_cu_router &r)
{
    int64_t *dropped = reinterpret_cast<int64_t *>(r.t->program->decisions +
                                                   r.t->program->decision[r.s->router].dropped);
    const int32_t per_row = r.d.per_row;
    uint64_t lost = 0;
    for (int32_t p = (int32_t)threadIdx.x; p < r.d.paths; p += (int32_t)blockDim.x)
        r.next[p] = 0;
    __syncthreads();
    for (int32_t k = 0; k < per_row; k++)
        bs_cu_limit_choice(r, k);
    for (int32_t row = (int32_t)threadIdx.x; row < r.rows; row += (int32_t)blockDim.x) {
        int32_t *chosen = r.d.chosen + (int64_t)row * per_row, kept = 0;
        float *gates = r.d.gates + (int64_t)row * per_row;
        for (int32_t k = 0; k < per_row; k++)
            if (chosen[k] >= 0) {
                chosen[kept] = chosen[k];
                gates[kept++] = gates[k];
            }
        lost += (uint64_t)(per_row - kept);
        for (; kept < per_row; kept++) {
            chosen[kept] = -1;
            gates[kept] = 0.0f;
        }
    }
    lost = bs_cu_sum_threads(r.shared, lost);
    if (threadIdx.x == 0)
        *dropped = (int64_t)lost;
}

/* -------------------------------------------------------------------------------------------------- budget */

/* As in run/route.c: integers only, so the choice is the same everywhere. */
__device__ inline uint64_t bs_cu_budget_weight(int32_t t)
{
    const int32_t i = t & 7;
    const uint64_t mantissa = i == 0   ? 256
                              : i == 1 ? 279
                              : i == 2 ? 304
                              : i == 3 ? 332
                              : i == 4 ? 362
                              : i == 5 ? 395
                              : i == 6 ? 431
                                       : 470;
    return t == BS_CU_BUDGET_STEPS ? 0 : mantissa << (t >> 3);
}

/* Estimated losses of a row: staged, or where they are. */
struct bs_cu_losses {
    const int32_t *data;
    int32_t stride;
};

__device__ __forceinline__ bs_cu_losses bs_cu_losses_of(const bs_cu_router &r, int32_t row)
{
    const int32_t pitch = r.s->p[BS_CU_P_WIDTH].i | 1;
    bs_cu_losses l;
    if (r.rows <= r.stage_words / pitch) {
        l.data = reinterpret_cast<const int32_t *>(r.stage + row * pitch);
        l.stride = 1;
    } else {
        l.data = reinterpret_cast<const int32_t *>(bs_cu_row(*r.t, r.score, row));
        l.stride = r.score->stride[0];
    }
    return l;
}

__device__ __forceinline__ int32_t bs_cu_loss(const bs_cu_losses &l, int32_t v)
{
    return min(max(l.data[(int64_t)v * l.stride], 0), 1 << 24);
}

/* The variant of least cost + price x loss, of those that lose at most `most`; the lower of equals. */
__device__ inline int32_t bs_cu_budget_cheapest(const bs_cu_router &r, const bs_cu_losses &l, uint64_t weight,
                                                uint64_t most)
{
    const int32_t *costs = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s)),
                  variants = r.s->p[BS_CU_P_CAPACITY].i;
    int32_t best = 0;
    uint64_t best_total = UINT64_MAX;
    for (int32_t v = 0; v < variants; v++) {
        const uint64_t loss = (uint64_t)bs_cu_loss(l, v), cost = (uint64_t)min(max(costs[v], 0), 1 << 24);
        const uint64_t total = weight ? (cost << 20) + loss * weight : (loss << 25) + cost;
        if (total < best_total && loss <= most)
            best = v, best_total = total;
    }
    return best;
}

/* A floor is for the frame; of one cell it takes so many times as much, or what the budget alone would. */
__device__ inline int32_t bs_cu_budget_choice(const bs_cu_router &r, const bs_cu_losses &l, uint64_t weight)
{
    if (!r.floored)
        return bs_cu_budget_cheapest(r, l, weight, UINT64_MAX);
    const uint64_t alone = (uint64_t)bs_cu_loss(l, bs_cu_budget_cheapest(r, l, r.alone, UINT64_MAX));
    const uint64_t least = (uint64_t)bs_cu_loss(l, bs_cu_budget_cheapest(r, l, 0, UINT64_MAX));
    const uint64_t cell = least + BS_CU_FLOOR_CELL * (uint64_t)r.s->p[BS_CU_P_FLOOR].i;
    return bs_cu_budget_cheapest(r, l, weight, alone > cell ? alone : cell);
}

/* A patch counts by its area, any other cell as one. */
__device__ inline uint64_t bs_cu_cell_weight(const bs_cu_router &r, int32_t row)
{
    if (r.s->p[BS_CU_P_PATCHES].i < 0)
        return 1;
    const int32_t size = r.s->p[BS_CU_P_SIZE].i, h = r.s->p[BS_CU_P_HEIGHT].i, w = r.s->p[BS_CU_P_FRAME_WIDTH].i;
    const int32_t across = (w + size - 1) / size, top = bs_cu_top_row(*r.t, r.s->domain, row);
    return (uint64_t)((int64_t)min(size, h - top / across * size) * min(size, w - top % across * size));
}

__device__ inline uint64_t bs_cu_budget_loss(const bs_cu_router &r, uint64_t weight)
{
    uint64_t loss = 0;
    for (int32_t row = (int32_t)threadIdx.x; row < r.rows; row += (int32_t)blockDim.x) {
        const bs_cu_losses l = bs_cu_losses_of(r, row);
        loss += bs_cu_cell_weight(r, row) * (uint64_t)bs_cu_loss(l, bs_cu_budget_choice(r, l, weight));
    }
    return bs_cu_sum_threads(r.shared, loss);
}

/* What the budget is a share of: the sum over cells of what the baseline loses against the best one. best: the losses
 * that cannot be avoided. cells: how many there are, by their weights. */
__device__ inline uint64_t bs_cu_budget_range(const bs_cu_router &r, uint64_t *best, uint64_t *cells)
{
    const int32_t variants = r.s->p[BS_CU_P_CAPACITY].i, baseline = r.s->p[BS_CU_P_FALLBACK].i;
    uint64_t range = 0, least = 0, count = 0;
    for (int32_t row = (int32_t)threadIdx.x; row < r.rows; row += (int32_t)blockDim.x) {
        const bs_cu_losses l = bs_cu_losses_of(r, row);
        int32_t low = 1 << 24, high = 0;
        for (int32_t v = 0; v < variants; v++) {
            const int32_t loss = bs_cu_loss(l, v);
            low = min(low, loss);
            high = baseline == 0 || baseline == v + 1 ? max(high, loss) : high;
        }
        range += bs_cu_cell_weight(r, row) * (uint64_t)(int64_t)(high - low);
        least += bs_cu_cell_weight(r, row) * (uint64_t)low;
        count += bs_cu_cell_weight(r, row);
    }
    *best = bs_cu_sum_threads(r.shared, least);
    *cells = bs_cu_sum_threads(r.shared, count);
    return bs_cu_sum_threads(r.shared, range);
}

/* The lowest price from 0 to `high` at which the losses fit; `high` where none does. */
__device__ inline int32_t bs_cu_budget_price(const bs_cu_router &r, int32_t high, uint64_t allowed)
{
    int32_t low = 0;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (bs_cu_budget_loss(r, bs_cu_budget_weight(middle)) <= allowed)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The smallest price whose losses fit. All threads; whether the tables make sense. */
__device__ inline bool bs_cu_decide_budget(const bs_cu_router &r)
{
    const int32_t variants = r.s->p[BS_CU_P_CAPACITY].i, pitch = r.s->p[BS_CU_P_WIDTH].i | 1;
    const int32_t *path_of = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s) + r.s->p[BS_CU_P_PATHS_AT].i);
    const float share = r.knob < 0.0f ? 0.0f : r.knob > 1.0f ? 1.0f : r.knob;
    uint64_t best, cells;
    bs_cu_router with = r;
    for (int32_t v = 0; v < variants; v++) /* weights come from a file */
        if (path_of[v] < 0 || path_of[v] >= r.d.paths)
            return false;
    if (r.rows <= r.stage_words / pitch)
        bs_cu_stage_scores(r, 0, r.rows, pitch);
    __syncthreads();
    const uint64_t range = bs_cu_budget_range(r, &best, &cells), given = (uint64_t)((double)share * (double)range);
    const uint64_t unseen = cells * (uint64_t)r.s->p[BS_CU_P_FLOOR].i;
    int32_t price = bs_cu_budget_price(r, BS_CU_BUDGET_STEPS, given + best);
    if (unseen > given) {
        with.floored = true;
        with.alone = bs_cu_budget_weight(price);
        price = bs_cu_budget_price(with, price, unseen + best);
    }
    for (int32_t row = (int32_t)threadIdx.x; row < r.rows; row += (int32_t)blockDim.x) {
        const bs_cu_losses l = bs_cu_losses_of(r, row);
        const int32_t variant = bs_cu_budget_choice(with, l, bs_cu_budget_weight(price));
        bs_cu_choose(r, row, 0, path_of[variant], (float)bs_cu_loss(l, variant));
    }
    if (threadIdx.x == 0)
        *r.d.price = __fsub_rn(12.0f, (float)price / 8.0f);
    return true;
}

/* ------------------------------------------------------------------------------------------------- kernels */

/* A decision, by one block. */
__device__ inline void bs_cu_route_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    bool good = !isnan(r.knob);
    (void)w;
    if (threadIdx.x == 0)
        *r.d.price = 0.0f;
    if (s->p[BS_CU_P_FORCED].i)
        bs_cu_decide_forced(r, 0, r.rows);
    else if (good && s->p[BS_CU_P_PROTOCOL].i == BS_ROUTE_BUDGET)
        good = bs_cu_decide_budget(r);
    else if (good)
        good = bs_cu_decide_rows(r, 0, r.rows);
    if (good && s->p[BS_CU_P_PROTOCOL].i == BS_ROUTE_CAPACITY)
        bs_cu_limit_capacity(r);
    if (!good) {
        __syncthreads(); /* others may still be choosing */
        bs_cu_choose_none(r, 0, r.rows * r.d.per_row);
        if (threadIdx.x == 0)
            bs_cu_fail(t, s, BS_ERROR_DATA);
    }
    bs_cu_pack(r);
    bs_cu_record_rows(r, 0, r.rows);
    bs_cu_record_counts(r);
}

/* Chunk w.part of the rows: what they chose, how many of them each path got, and whether any of them failed. */
__device__ inline void bs_cu_route_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const int32_t first = w.part * s->batch, last = min(first + s->batch, r.rows);
    bool good = !isnan(r.knob);
    if (w.part == 0 && threadIdx.x == 0)
        *r.d.price = 0.0f;
    if (first >= r.rows && w.part > 0)
        return;
    bs_cu_clear_counts(r);
    if (s->p[BS_CU_P_FORCED].i)
        bs_cu_decide_forced(r, first, last);
    else if (good)
        good = bs_cu_decide_rows(r, first, last);
    __syncthreads();
    if (good)
        bs_cu_count_choices(r, first * r.d.per_row, last * r.d.per_row);
    else if (threadIdx.x == 0)
        bs_cu_fail(t, s, BS_ERROR_DATA);
    __syncthreads();
    int32_t *chunk = r.d.work + (int64_t)w.part * (r.d.paths + 1);
    for (int32_t p = (int32_t)threadIdx.x; p <= r.d.paths; p += (int32_t)blockDim.x)
        chunk[p] = p < r.d.paths ? r.counts[p] : !good;
}

/* How many rows each path got of all chunks (counts) and of those before this one (next); returns whether any
 * failed. */
__device__ inline bool bs_cu_sum_chunks(const bs_cu_router &r, int32_t chunk, int32_t chunks)
{
    const int32_t words = r.d.paths + 1, slices = max((int32_t)blockDim.x / words, 1);
    bs_cu_clear_counts(r);
    bool failed = false;
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < slices * words; i += (int32_t)blockDim.x) {
        const int32_t p = i % words;
        int32_t all = 0, before = 0;
        for (int32_t k = i / words; k < chunks; k += slices) {
            const int32_t count = r.d.work[(int64_t)k * words + p];
            all += count;
            before += k < chunk ? count : 0;
        }
        if (p == r.d.paths) {
            failed = failed || all > 0;
        } else {
            atomicAdd(&r.counts[p], all);
            atomicAdd(&r.next[p], before);
        }
    }
    return __syncthreads_or(failed) != 0;
}

/* Chunk w.part of the rows finds its place behind the chunks before it; the first one writes what all need to know. */
__device__ inline void bs_cu_route_pack_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const int32_t first = w.part * s->batch, last = min(first + s->batch, r.rows);
    if (w.part > 0 && (first >= r.rows || !s->p[BS_CU_P_LARGE].i))
        return;
    if (!s->p[BS_CU_P_LARGE].i) { /* the caller's function chose; the host has looked at what */
        bs_cu_pack(r);
        bs_cu_record_rows(r, 0, r.rows);
        bs_cu_record_counts(r);
        return;
    }
    const bool failed = bs_cu_sum_chunks(r, w.part, (r.rows + s->batch - 1) / s->batch);
    if (failed) {
        bs_cu_clear_counts(r);
        bs_cu_choose_none(r, first * r.d.per_row, last * r.d.per_row);
    }
    bs_cu_sum_counts(r);
    if (w.part == 0) {
        bs_cu_tell_counts(r);
        bs_cu_record_counts(r);
    }
    bs_cu_place_choices(r, first * r.d.per_row, last * r.d.per_row);
    bs_cu_record_rows(r, first, last);
}

/* The score of the first chosen path, or one score for all paths; of a budget the loss of the chosen variant; else
 * 0. */
__device__ inline void bs_cu_route_score_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_decision d = bs_cu_decision_of(t, s->router);
    const bs_device_operand *in = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    /* it counts all rows */
    const int32_t ahead = s->domain == t.domain && !t.program->decision[s->router].in_tile ? t.first : 0;
    for (int32_t r = w.row + (int32_t)threadIdx.x; r < w.row + w.rows; r += (int32_t)blockDim.x) {
        const int64_t decided = (int64_t)(ahead + r) * d.per_row;
        const int32_t path = d.chosen[decided], at = s->p[0].i == 1 ? 0 : path;
        const uint8_t *from = bs_cu_row(t, in, r);
        uint8_t *to = bs_cu_row(t, out, r);
        const bool given = path >= 0 && at < s->p[0].i;
        if (out->dtype == BS_I32)
            *reinterpret_cast<int32_t *>(to) = path >= 0 && s->p[1].i ? (int32_t)d.gates[decided]
                                               : given                ? reinterpret_cast<const int32_t *>(
                                                             from)[(int64_t)at * in->stride[0]]
                                                       : 0;
        else
            bs_cu_put(to, out->dtype, 0, given ? bs_cu_get(from, in->dtype, (int64_t)at * in->stride[0]) : 0.0f);
    }
}

/* The price at which a budget was kept; of a route that was decided ahead 0. */
__device__ inline void bs_cu_route_price_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    if (threadIdx.x == 0 && w.part == 0)
        bs_cu_put(bs_cu_row(t, out, 0), out->dtype, 0, s->p[0].i ? 0.0f : *bs_cu_decision_of(t, s->router).price);
}

#endif
