/* op_gather.cuh - brings what the paths of a router gave back to the rows they came from.
 *
 * fill              the rows that no path gives
 * paths             several paths a row: their sum, or the row of the path with the largest gate
 *
 * Relies on move_rows.cuh. Must never add up in an order that depends on threads or on other rows: the order is that of
 * the paths, then the residual. */
#ifndef BS_CUDA_OP_GATHER
#define BS_CUDA_OP_GATHER

#include "cuda/kernels.cuh"
#include "cuda/move_rows.cuh"

enum { BS_CU_SUM_EACH = 2048 }; /* elements of a work item of a sum: two words a thread */

/* --------------------------------------------------------------------------------------------------- describe */

/* Parameters of the kernels of this file, in p. *_GIVEN: the first word of the bits that say which paths give a value.
 * */
enum { BS_CU_FILL_GIVEN };
enum {
    BS_CU_GATHER_COMBINE,
    BS_CU_GATHER_RESIDUAL, /* whether there is one */
    BS_CU_GATHER_GIVEN
};

static void bs_cu_fill_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(&n->out[0]), s);
}

static void bs_cu_paths_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_router_info *router = &n->graph->routers[n->node->router];
    const int64_t elements = bs_cu_elements(&n->out[0]);
    s->p[BS_CU_GATHER_COMBINE].i = n->instr->combine;
    s->p[BS_CU_GATHER_RESIDUAL].i = n->instr->value != 0;
    s->parts = bs_cu_work_items(elements, BS_CU_SUM_EACH);
    if (elements <= 512 && router->max_paths_per_cell <= 16) { /* a warp a row; its sources fit the workspace */
        s->p[BS_CU_MOVE_TEAM].i = 32;
        s->batch = 8;
    }
}

/* ------------------------------------------------------------------------------------------- what was decided */

/* Whether a path gives this step's gather a value; p[at]: the first word of its bits (step.cuh). */
__device__ __forceinline__ bool bs_cu_path_gives(const bs_cu_tile &t, const bs_device_step *s, int32_t at, int32_t path)
{
    return t.program->given[s->p[at].i + (path >> 5)] >> (path & 31) & 1;
}

/* A row's number within a decision: one that was not made in the tile counts all rows. */
__device__ __forceinline__ int32_t bs_cu_decided_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row)
{
    return row + (t.record->decision.in_tile ? 0 : bs_cu_before(t, s->domain));
}

/* Whether choice `at` of a decision gave the gather a row. */
__device__ __forceinline__ bool bs_cu_gives(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_decision &d,
                                            int64_t at)
{
    const int32_t path = d.chosen[at];
    return path >= 0 && d.inverse[at] >= 0 && bs_cu_path_gives(t, s, BS_CU_GATHER_GIVEN, path);
}

/* ------------------------------------------------------------------------------------------------------- fill */

/* The rows that no path gives: the residual's, or zeros. */
__device__ inline void bs_cu_fill_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_decision d = bs_cu_decision_of(t);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        const int32_t path = d.chosen[(int64_t)bs_cu_decided_row(t, s, r) * d.per_row];
        if (path >= 0 && bs_cu_path_gives(t, s, BS_CU_FILL_GIVEN, path))
            continue;
        const bs_cu_view to = bs_cu_open_target(t, out, r);
        if (s->n_in > 0)
            bs_cu_row_copy(to, bs_cu_open_in(t, s, 0, r), team, t.workspace, w);
        else
            bs_cu_zero_rect(to, to, team, w);
        bs_cu_zero_around(t, out, r, team, w);
    }
}

/* ------------------------------------------------------------------------------------------- sources of a sum */

/* A row that goes into a sum: what one path gave for it, or the residual. Steps are those of the result's loops. */
struct bs_cu_addend {
    const uint8_t *data;
    int32_t step[4];
    bs_cu_rect there; /* of images */
    float gate;
    int32_t dtype;
};

/* The dimension that loop k of a sum goes along: of images channel, x, y; else the last one first. -1: none. */
__device__ __forceinline__ int32_t bs_cu_sum_axis(bool image, int32_t rank, int32_t k)
{
    return !image ? rank - 1 - k : k == 0 ? 0 : k == 3 ? -1 : 3 - k;
}

/* image: the result is one. */
__device__ inline void bs_cu_addend_open(const bs_cu_view &v, float gate, bool image, bs_cu_addend *source)
{
    source->data = v.data;
    source->there = v;
    source->gate = gate;
    source->dtype = v.dtype;
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t axis = bs_cu_sum_axis(image, v.rank, k);
        source->step[k] = axis < 0 ? 0 : bs_cu_pick(v.stride, axis);
    }
}

enum { BS_CU_SUM_SOURCES = 448 }; /* addends of a row at once */
static_assert(BS_CU_SUM_SOURCES * sizeof(bs_cu_addend) <= BS_CU_WORKSPACE, "sources lie in the workspace");

/* The addends of a row are what its paths gave, in path order, then the residual. Writes those from number `from` on to
 * `sources`, as many as there is room for; returns how many there are in all. A row takes a path once at most, so an
 * addend's number is the count of lower paths. By a team; the caller synchronises. */
__device__ inline int32_t bs_cu_sources(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                        const bs_cu_team &team, int32_t from, bs_cu_addend *sources)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    const int64_t at = (int64_t)bs_cu_decided_row(t, s, row) * d.per_row;
    const bool image = bs_cu_out(t, s, 0)->image, residual = s->p[BS_CU_GATHER_RESIDUAL].i != 0;
    bs_cu_addend last; /* opened before the others are: it waits for nothing that they need */
    if (residual && team.rank == 0)
        bs_cu_addend_open(bs_cu_open_in(t, s, 0, row), 1.0f, image, &last);
    int32_t count = 0;
    for (int32_t k = team.rank; k < d.per_row || k == team.rank; k += team.size) { /* once at least: all need count */
        const int32_t path = k < d.per_row && bs_cu_gives(t, s, d, at + k) ? d.chosen[at + k] : -1;
        int32_t before = 0;
        count = 0;
        for (int32_t i = 0; i < d.per_row; i++) {
            const bool gives = bs_cu_gives(t, s, d, at + i);
            count += gives;
            before += gives && d.chosen[at + i] < path;
        }
        if (path >= 0 && before >= from && before - from < BS_CU_SUM_SOURCES)
            bs_cu_addend_open(bs_cu_open_of_many(t, s, 1 + path, d.inverse[at + k] - d.offsets[path]),
                              s->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_SUM ? 1.0f : d.gates[at + k], image,
                              &sources[before - from]);
    }
    if (residual && team.rank == 0 && count >= from && count - from < BS_CU_SUM_SOURCES)
        sources[count - from] = last;
    return count + residual;
}

/* ----------------------------------------------------------------------------------------------------- reduce */

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
    m.image = v.image;
    m.y0 = m.image ? v.y0 : 0;
    m.x0 = m.image ? v.x0 : 0;
    m.dtype = v.dtype;
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t axis = bs_cu_sum_axis(v.image, v.rank, k);
        m.n[k] = axis < 0 ? 1 : bs_cu_pick(v.dim, axis);
        m.step[k] = axis < 0 ? 0 : bs_cu_pick(v.stride, axis);
    }
    if (m.image) {
        m.n[1] = max(v.x1 - v.x0, 0);
        m.n[2] = max(v.y1 - v.y0, 0);
    }
    m.to = v.data;
    return m;
}

/* Whether rows with these steps can be read in words of four elements. */
__device__ __forceinline__ bool bs_cu_by_four(const uint8_t *data, int32_t dtype, const int32_t *n, const int32_t *step)
{
    const int32_t bytes = bs_cu_bytes(dtype);
    return step[0] == 1 && n[0] % 4 == 0 && bs_cu_word(data, n, step, bytes) >= 4 * bytes;
}

/* Sums word number i, of `each` (4 or 1) elements, of all sources in their order. more: adds to what is stored
 * already. */
template <int each>
__device__ __forceinline__ void bs_cu_sum_at(const bs_cu_sum &m, const bs_cu_addend *sources, int32_t count, bool more,
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
        sum = bs_cu_get_quad(m.to, m.dtype, to);
    else if (more)
        sum.x = bs_cu_get(m.to, m.dtype, to);
    for (int32_t k = 0; k < count; k++) {
        const bs_cu_addend &from = sources[k];
        if (m.image && (y < from.there.y0 || y >= from.there.y1 || x < from.there.x0 || x >= from.there.x1))
            continue;
        const int64_t at = (int64_t)c * from.step[0] + (int64_t)x * from.step[1] + (int64_t)y * from.step[2] +
                           (int64_t)z * from.step[3];
        if (each == 4) {
            const float4 v = bs_cu_get_quad(from.data, from.dtype, at);
            sum.x = bs_cu_mul_add(from.gate, v.x, sum.x);
            sum.y = bs_cu_mul_add(from.gate, v.y, sum.y);
            sum.z = bs_cu_mul_add(from.gate, v.z, sum.z);
            sum.w = bs_cu_mul_add(from.gate, v.w, sum.w);
        } else {
            sum.x = bs_cu_mul_add(from.gate, bs_cu_get(from.data, from.dtype, at), sum.x);
        }
    }
    if (each == 4)
        bs_cu_put_quad(m.to, m.dtype, to, sum);
    else
        bs_cu_put(m.to, m.dtype, to, sum.x);
}

/* This team's share of a row, from its sources. */
__device__ inline void bs_cu_sum_row(const bs_cu_view &to, const bs_cu_addend *sources, int32_t count, bool more,
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

/* The row of the path with the largest gate, the lower path of equals; where it gives none the residual's or zeros. */
__device__ inline void bs_cu_select_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                        const bs_cu_team &team, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_decision d = bs_cu_decision_of(t);
    const int64_t at = (int64_t)bs_cu_decided_row(t, s, row) * d.per_row;
    int64_t best = -1;
    for (int64_t i = at; i < at + d.per_row; i++)
        if (d.chosen[i] >= 0 && d.inverse[i] >= 0 &&
            (best < 0 || d.gates[i] > d.gates[best] || (d.gates[i] == d.gates[best] && d.chosen[i] < d.chosen[best])))
            best = i;
    if (best >= 0 && !bs_cu_gives(t, s, d, best))
        best = -1; /* the path of the largest gate gives nothing */
    const bs_cu_view to = bs_cu_open_target(t, out, row);
    if (best < 0 && !s->p[BS_CU_GATHER_RESIDUAL].i) {
        bs_cu_zero_rect(to, to, team, w);
        return;
    }
    const bs_cu_view from = bs_cu_open_of_many(t, s, best < 0 ? 0 : 1 + d.chosen[best],
                                               best < 0 ? row : d.inverse[best] - d.offsets[d.chosen[best]]);
    bs_cu_row_copy(to, from, team, t.workspace, w);
    if (to.image && w.part == 0)
        bs_cu_zero_ring(to, bs_cu_common(to, from), to, team);
}

__device__ inline void bs_cu_paths_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_team team = bs_cu_team_of(s);
    const bool sums = s->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_SUM ||
                      s->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_WEIGHTED_SUM;
    const int32_t most = t.record->decision.per_row + 1;
    bs_cu_addend *sources = reinterpret_cast<bs_cu_addend *>(t.workspace) + team.index * min(most, BS_CU_SUM_SOURCES);
    for (int32_t first = w.row; first < w.end; first += team.count) { /* as many rounds for all teams: barriers */
        const int32_t r = first + team.index;
        const bool inside = r < w.end;
        for (int32_t from = 0; sums && from < most; from += BS_CU_SUM_SOURCES) {
            const int32_t count = inside ? bs_cu_sources(t, s, r, team, from, sources) - from : 0;
            __syncthreads();
            if (inside && (count > 0 || from == 0))
                bs_cu_sum_row(bs_cu_open_target(t, out, r), sources, min(count, BS_CU_SUM_SOURCES), from > 0, team, w);
            if (from + BS_CU_SUM_SOURCES < most)
                __syncthreads();
        }
        if (inside && !sums)
            bs_cu_select_row(t, s, r, team, w);
        if (inside)
            bs_cu_zero_around(t, out, r, team, w);
        __syncthreads();
    }
}

#endif
