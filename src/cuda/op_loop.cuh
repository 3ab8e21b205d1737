/* op_loop.cuh - a device decides the trips of a loop; the number of the trip, the row that made a row; and rows around
 * it.
 *
 * One block decides for all rows (of a tile, or of the whole), by ops/trips.inc: its threads are a team. A loop in a
 * tile is gone round by the block itself (bs_cu_region), one at top level by the host.
 * Relies on move_rows.cuh, prefix.cuh, route_pack.cuh, route_scores.cuh. Must never decide by rules of its own. */
#ifndef BS_CUDA_OP_LOOP
#define BS_CUDA_OP_LOOP

#include "cuda/move_rows.cuh"
#include "cuda/prefix.cuh"
#include "cuda/route_pack.cuh"
#include "cuda/route_scores.cuh"

/* Parameters of both decisions, in p, where a router has its bs_rule. */
enum {
    BS_CU_LOOP_BOUND,
    BS_CU_LOOP_TRIPS,   /* the dimension that it goes over, or -1 */
    BS_CU_LOOP_COUNTED, /* rows have counts: the last operand */
    BS_CU_LOOP_IN_TURN,
    BS_CU_LOOP_GROWS,
    BS_CU_LOOP_ASKS,    /* the body gives what it goes on by: operand 0 of its second decision */
    BS_CU_LOOP_END
};

static_assert((int)BS_CU_LOOP_END <= (int)BS_CU_P_KNOB, "loops have no knob");

static void bs_cu_loop_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_loop_info *loop = &n->graph->routers[n->node->router].loop;
    const bs_router_plan *plan = &n->plan->routers[n->node->router];
    memset(s->p, 0, sizeof s->p);
    s->batch = BS_CU_ONE_BLOCK;
    s->round = plan->again - plan->instr;
    s->p[BS_CU_LOOP_BOUND].i = loop->bound;
    s->p[BS_CU_LOOP_TRIPS].i = loop->trips;
    s->p[BS_CU_LOOP_COUNTED].i = loop->count != 0;
    s->p[BS_CU_LOOP_IN_TURN].i = loop->in_turn;
    s->p[BS_CU_LOOP_GROWS].i = loop->grows;
    s->p[BS_CU_LOOP_ASKS].i = bs_node_in(n->graph, &n->graph->nodes[loop->again])[0] != 0;
}

static void bs_cu_loop_again_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_loop_describe(n, s);
    s->round = -s->round;
}

static void bs_cu_loop_trip_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[0].i = static_cast<const bs_gather_params *>(n->params)->mode == BS_TRIP_FROM_1;
    s->batch = BS_CU_THREADS;
}

/* -------------------------------------------------------------------------------------------------------- team */

/* What a block knows as a team (ops/trips.inc). */
struct bs_team {
    const bs_cu_router *r;
    int32_t domain; /* of the loop */
    int32_t *places;
};

__device__ __forceinline__ int32_t bs_team_index(void) { return bs_cu_thread(); }
__device__ __forceinline__ int32_t bs_team_size(void) { return bs_cu_threads(); }
__device__ __forceinline__ void bs_team_meet(void) { __syncthreads(); }
__device__ __forceinline__ void bs_team_add(int32_t *place) { atomicAdd(place, 1); }

__device__ inline int64_t bs_team_sum_before(const bs_team *team, int64_t own, int64_t *all)
{
    return bs_cu_sum_before(own, reinterpret_cast<int64_t *>(team->r->shared->sums), all);
}

/* Fails the run by the fault of the lowest row, of those that the threads found. */
__device__ inline bool bs_team_failed(const bs_team *team, const bs_route_fault *fault)
{
    const bs_cu_router &r = *team->r;
    const bool bad = fault->kind != BS_ROUTE_SOUND;
    int32_t *lowest = team->places, *status = r.t->program->status;
    if (!__syncthreads_or(bad || bs_cu_has_failed(*r.t->program)))
        return false;
    if (threadIdx.x == 0)
        *lowest = INT32_MAX;
    __syncthreads();
    if (bad)
        atomicMin(lowest, fault->row);
    __syncthreads();
    if (bad && *lowest == fault->row && atomicCAS(&status[BS_DEVICE_FAILED], 0, (int)BS_ERROR_DATA) == 0) {
        status[BS_DEVICE_NODE] = r.s->node;
        status[BS_DEVICE_FAULT] = fault->kind;
        status[BS_DEVICE_FAULT + 1] = bs_cu_top_row(*r.t, team->domain, fault->row);
        status[BS_DEVICE_FAULT + 2] = fault->number;
        status[BS_DEVICE_FAULT + 3] = fault->end;
    }
    __syncthreads();
    return true;
}

__device__ inline int32_t bs_team_count(const bs_team *team, int32_t row)
{
    const bs_cu_router &r = *team->r;
    const bs_scores count = bs_cu_scores_of(*r.t, bs_cu_in(*r.t, r.s, r.s->n_in - 1), row);
    return bs_read_once(count.data);
}

__device__ inline bs_scores bs_team_answer(const bs_team *team, int32_t k)
{
    return bs_cu_scores_of(*team->r->t, team->r->score, k);
}

enum { BS_CU_TEAM_PLACES = sizeof(bs_cu_routing::of_thread) / sizeof(int32_t) };

__device__ inline int32_t bs_team_take(const bs_team *team, int32_t k)
{
    return bs_cu_take_place(team->places, k, BS_CU_TEAM_PLACES);
}

#define BS_TEAM __device__ inline
#include "ops/trips.inc"
#undef BS_TEAM

static_assert((int)BS_CU_TEAM_PLACES == (int)BS_TEAM_PLACES, "a team's places are in shared memory");

/* ------------------------------------------------------------------------------------------------- decisions */

enum { BS_CU_TRIP_NUMBER, BS_CU_TRIP_DUE, BS_CU_TRIP_TAKEN }; /* what is beside a decision from trip to trip */

__device__ inline bs_loop_rule bs_cu_loop_rule(const bs_cu_tile &t, const bs_device_step *s)
{
    const int32_t *dims = t.program->extents ? t.program->extents : t.program->dims;
    const int32_t bound = s->p[BS_CU_LOOP_BOUND].i, trips = s->p[BS_CU_LOOP_TRIPS].i;
    const bs_loop_rule rule = {bound, trips >= 0 ? dims[trips] : bound, trips >= 0, s->p[BS_CU_LOOP_COUNTED].i != 0,
                               s->p[BS_CU_LOOP_IN_TURN].i != 0, s->p[BS_CU_LOOP_GROWS].i != 0,
                               s->p[BS_CU_LOOP_ASKS].i != 0};
    return rule;
}

/* Decides, begins: for the first time, and keeps what the next decision and the host need. domain: of the loop. */
__device__ inline void bs_cu_loop_decide(const bs_cu_router &r, int32_t domain, bool begins)
{
    int32_t *state = bs_cu_trip(*r.t, r.s->router);
    bs_decision_data d;
    memset(&d, 0, sizeof d);
    d.rows = min(bs_cu_count(*r.t, domain), r.t->program->decision[r.s->router].rows);
    d.chosen = r.d.chosen;
    d.gates = r.d.gates;
    d.counts = r.d.counts;
    d.offsets = r.d.offsets;
    d.ids = r.d.ids;
    d.inverse = r.d.inverse;
    if (!begins) {
        d.trip = state[BS_CU_TRIP_NUMBER];
        d.due = state[BS_CU_TRIP_DUE];
        d.taken = state[BS_CU_TRIP_TAKEN];
    }
    bs_trips trips = {{&r, domain, r.shared->of_thread}, bs_cu_loop_rule(*r.t, r.s), &d, {BS_ROUTE_SOUND, -1, 0, 0}};
    if (begins)
        bs_trips_begin(&trips);
    else
        bs_trips_again(&trips);
    if (threadIdx.x == 0) {
        state[BS_CU_TRIP_NUMBER] = d.trip;
        state[BS_CU_TRIP_DUE] = d.due;
        state[BS_CU_TRIP_TAKEN] = d.taken;
        r.counts[0] = d.counts[0];
    }
    bs_cu_record_counts(r);
}

__device__ inline void bs_cu_loop_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    (void)w;
    bs_cu_loop_decide(r, s->domain, true);
    if (bs_cu_has_failed(*t.program))
        bs_cu_choose_none(r, 0, r.rows);
    bs_cu_record_rows(r, 0, r.rows);
}

__device__ inline void bs_cu_loop_again_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    (void)w;
    bs_cu_loop_decide(bs_cu_router_of(t, s), t.program->domains[s->domain].parent, false);
}

/* ------------------------------------------------------------------------------------------------------ trip */

__device__ inline void bs_cu_loop_trip_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t trip = *bs_cu_trip(t, s->router) + s->p[0].i;
    for (int32_t row = w.row + bs_cu_thread(); row < w.end; row += bs_cu_threads())
        *reinterpret_cast<int32_t *>(bs_cu_row(t, bs_cu_out(t, s, 0), row)) = trip;
}

static_assert((int)BS_TRIP_FROM_1 == (int)BS_PARENT_CHILD, "one function describes both");
static constexpr bs_cu_describe bs_cu_loop_parent_describe = bs_cu_loop_trip_describe;

__device__ inline void bs_cu_loop_parent_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    for (int32_t k = w.row + bs_cu_thread(); k < w.end; k += bs_cu_threads()) {
        const int32_t row = bs_cu_parent_row(t, s->domain, k);
        *reinterpret_cast<int32_t *>(bs_cu_row(t, bs_cu_out(t, s, 0), k)) =
            s->p[0].i ? bs_loop_child_of(d.inverse, row) : d.inverse[row];
    }
}

/* ----------------------------------------------------------------------------------------------- rows around it */

static void bs_cu_loop_rows_describe(const bs_cu_node *n, bs_device_step *s)
{
    memset(s->p, 0, sizeof s->p);
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(&n->out[0]), s);
}

/* Operands: the rows of the loop's domain, and which of them. A row goes to each place along dimension 0, or is all. */
__device__ inline void bs_cu_loop_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const int32_t rows = bs_cu_count(t, x->domain);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        const bs_cu_view index = bs_cu_open_in(t, s, 1, r), y = bs_cu_open_out(t, s, 0, r);
        for (int32_t k = 0; k < (index.rank ? index.dim[0] : 1); k++) {
            const int32_t named = bs_cu_index_at(index, (int64_t)k * index.stride[0]);
            if (named < -1 || named >= rows) {
                bs_cu_fail(t, s, BS_ERROR_DATA);
                return;
            }
            const bs_cu_view from = bs_cu_open(t, x, max(named, 0));
            bs_cu_view to = from;
            to.dtype = y.dtype;
            to.data = y.data + (index.rank ? (int64_t)k * y.stride[0] * bs_cu_bytes(y.dtype) : 0);
#pragma unroll
            for (int32_t d = 0; d < BS_MAX_RANK - 1; d++)
                to.stride[d] = index.rank ? y.stride[d + 1] : y.stride[d];
            if (named < 0)
                bs_cu_zero_rect(to, to, team, w);
            else
                bs_cu_row_copy(to, from, team, t.workspace, w);
        }
        bs_cu_zero_around(t, out, r, team, w);
    }
}

#endif
