/* op_loop.cuh - the decisions of a loop: which rows make the first trip, which of those that made one make another, or
 * whose turn it is, or which rows the last ones made; the number of the trip, the row that made a row; and rows around
 * it.
 *
 * One block decides for all rows (of a tile, or of the whole), by the rules of ops/decide.h. Rows that go on keep their
 * order. A loop in a tile is gone round by the block itself (bs_cu_region), one at top level by the host.
 * Relies on move_rows.cuh, prefix.cuh, route_pack.cuh, route_scores.cuh, sort.cuh. Must never keep a row active beyond
 * its bound, or after a failure. */
#ifndef BS_CUDA_OP_LOOP
#define BS_CUDA_OP_LOOP

#include "cuda/move_rows.cuh"
#include "cuda/prefix.cuh"
#include "cuda/route_pack.cuh"
#include "cuda/route_scores.cuh"
#include "cuda/sort.cuh"

/* Parameters of both decisions, in p, where a router has its bs_rule. */
enum {
    BS_CU_LOOP_BOUND,
    BS_CU_LOOP_TRIPS,   /* the dimension that it goes over, or -1 */
    BS_CU_LOOP_COUNTED, /* rows have counts: the last operand */
    BS_CU_LOOP_IN_TURN,
    BS_CU_LOOP_GROWS,
    BS_CU_LOOP_ASKS,    /* again: a predicate: operand 0 */
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
}

static void bs_cu_loop_again_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_loop_describe(n, s);
    s->round = -s->round;
    s->p[BS_CU_LOOP_ASKS].i = bs_node_in(n->graph, n->node)[0] != 0;
}

static void bs_cu_loop_trip_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[0].i = static_cast<const bs_gather_params *>(n->params)->mode == BS_TRIP_FROM_1;
    s->batch = BS_CU_THREADS;
}

/* ------------------------------------------------------------------------------------------------ rules, faults */

/* Fails the run by the fault of the lowest row, of those that the threads found. Returns whether there is any. `row` is
 * one of the loop's domain. */
__device__ inline bool bs_cu_loop_fails(const bs_cu_router &r, const bs_route_fault &fault, int32_t domain)
{
    int32_t *lowest = &r.shared->of_thread[0];
    const bool bad = fault.kind != BS_ROUTE_SOUND;
    if (!__syncthreads_or(bad))
        return false;
    if (threadIdx.x == 0)
        *lowest = INT32_MAX;
    __syncthreads();
    if (bad)
        atomicMin(lowest, fault.row);
    __syncthreads();
    int32_t *status = r.t->program->status;
    if (bad && *lowest == fault.row && atomicCAS(&status[BS_DEVICE_FAILED], 0, (int)BS_ERROR_DATA) == 0) {
        status[BS_DEVICE_NODE] = r.s->node;
        status[BS_DEVICE_FAULT] = fault.kind;
        status[BS_DEVICE_FAULT + 1] = bs_cu_top_row(*r.t, domain, fault.row);
        status[BS_DEVICE_FAULT + 2] = fault.number;
        status[BS_DEVICE_FAULT + 3] = fault.end;
    }
    __syncthreads();
    return true;
}

__device__ inline bs_loop_rule bs_cu_loop_rule(const bs_cu_tile &t, const bs_device_step *s)
{
    const int32_t *dims = t.program->extents ? t.program->extents : t.program->dims;
    const int32_t bound = s->p[BS_CU_LOOP_BOUND].i, trips = s->p[BS_CU_LOOP_TRIPS].i;
    const bs_loop_rule rule = {bound, trips >= 0 ? dims[trips] : bound, trips >= 0, s->p[BS_CU_LOOP_COUNTED].i != 0,
                               s->p[BS_CU_LOOP_IN_TURN].i != 0, s->p[BS_CU_LOOP_GROWS].i != 0};
    return rule;
}

/* The count of a row of the loop's domain, where rows have one. */
__device__ inline bs_scores bs_cu_loop_count(const bs_cu_tile &t, const bs_device_step *s, int32_t row)
{
    const bs_scores none = {NULL, 0, true};
    return s->p[BS_CU_LOOP_COUNTED].i ? bs_cu_scores_of(t, bs_cu_in(t, s, s->n_in - 1), row) : none;
}

/* ---------------------------------------------------------------------------------------------------- in turn */

enum { BS_CU_TURNS_DUE = 1, BS_CU_TURNS_TAKEN }; /* behind the number of the trip: `due` and `taken` */

__device__ inline int32_t bs_cu_turn_of(const bs_cu_router &r, int32_t k)
{
    const bs_loop_rule rule = bs_cu_loop_rule(*r.t, r.s);
    const bs_scores count = bs_cu_loop_count(*r.t, r.s, r.d.inverse[k]);
    return bs_loop_turn(&rule, &count);
}

/* The rows whose turn is next: turns without rows are passed over. `ends`: no row has one. All threads. */
__device__ inline void bs_cu_take_turn(const bs_cu_router &r, bool ends)
{
    int32_t *state = bs_cu_trip(*r.t, r.s->router);
    const int32_t first = state[BS_CU_TURNS_TAKEN], due = ends ? first : state[BS_CU_TURNS_DUE],
                  turn = first < due ? bs_cu_turn_of(r, first) : 0;
    int32_t end = first, beyond = due; /* rows before `end` have this turn, those from `beyond` on a later one */
    while (end < beyond) {
        const int32_t middle = end + (beyond - end) / 2;
        if (bs_cu_turn_of(r, middle) == turn)
            end = middle + 1;
        else
            beyond = middle;
    }
    for (int32_t k = first + bs_cu_thread(); k < end; k += bs_cu_threads())
        r.d.ids[k - first] = r.d.inverse[k];
    __syncthreads(); /* all know what was taken */
    if (threadIdx.x == 0) {
        state[BS_CU_TURNS_TAKEN] = end;
        state[0] = end > first ? turn - 1 : state[0];
        r.d.offsets[0] = 0;
        r.counts[0] = r.d.counts[0] = r.d.offsets[1] = end - first;
    }
    __syncthreads();
}

static_assert(BS_CU_SORT_STAGE * sizeof(uint64_t) <= BS_CU_WORKSPACE, "a stage of keys is sorted in the workspace");

enum { BS_CU_TURNS_STAGE = 2 * BS_CU_THREADS }; /* words of a stage: sums of threads; then counts of turns */

/* Puts the due rows in order, where there is room to count those of each turn. Returns how many they are. */
__device__ inline int32_t bs_cu_count_turns(const bs_cu_router &r, int32_t turns)
{
    int32_t *next = reinterpret_cast<int32_t *>(r.stage + BS_CU_TURNS_STAGE);
    const int32_t share = (turns + bs_cu_threads() - 1) / bs_cu_threads(),
                  first = min(bs_cu_thread() * share, turns), last = min(first + share, turns);
    int64_t own = 0, due;
    for (int32_t k = bs_cu_thread(); k < turns; k += bs_cu_threads())
        next[k] = 0;
    __syncthreads();
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads())
        if (r.d.chosen[row] > 0)
            atomicAdd(&next[r.d.chosen[row] - 1], 1);
    __syncthreads();
    for (int32_t k = first; k < last; k++)
        own += next[k];
    int64_t before = bs_cu_sum_before(own, reinterpret_cast<int64_t *>(r.stage), &due);
    for (int32_t k = first; k < last; k++) {
        const int32_t count = next[k];
        next[k] = (int32_t)before;
        before += count;
    }
    __syncthreads();
    for (int32_t base = 0; base < r.rows; base += bs_cu_threads()) {
        const int32_t row = base + bs_cu_thread(), turn = row < r.rows ? r.d.chosen[row] : 0;
        const int32_t at = bs_cu_take_place(next, turn > 0 ? turn - 1 : -1, turns);
        if (at >= 0)
            r.d.inverse[at] = row;
    }
    return (int32_t)due;
}

/* The same by sorting. */
__device__ inline int32_t bs_cu_sort_turns(const bs_cu_router &r)
{
    uint64_t *keys = reinterpret_cast<uint64_t *>(r.d.work);
    int64_t own = 0, due;
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const int32_t turn = r.d.chosen[row];
        keys[row] = (uint64_t)(turn > 0 ? (uint32_t)turn : UINT32_MAX) << 32 | (uint32_t)row;
        own += turn > 0;
    }
    bs_cu_sum_before(own, reinterpret_cast<int64_t *>(r.stage), &due);
    bs_cu_sort_keys(keys, (uint32_t)r.rows, reinterpret_cast<uint64_t *>(r.t->workspace));
    for (int32_t k = bs_cu_thread(); k < r.rows; k += bs_cu_threads())
        r.d.inverse[k] = (int32_t)(uint32_t)keys[k];
    return (int32_t)due;
}

/* `chosen` has been the turn of each row, 0: none. Puts the due rows in order: by turn, then by row. */
__device__ inline void bs_cu_begin_turns(const bs_cu_router &r, int32_t turns)
{
    int32_t *state = bs_cu_trip(*r.t, r.s->router);
    __syncthreads();
    const bool few = turns <= r.stage_words - BS_CU_TURNS_STAGE;
    const int32_t due = few ? bs_cu_count_turns(r, turns) : bs_cu_sort_turns(r);
    __syncthreads();
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads())
        r.d.chosen[row] = r.d.chosen[row] > 0 ? 0 : -1;
    if (threadIdx.x == 0) {
        state[BS_CU_TURNS_DUE] = due;
        state[BS_CU_TURNS_TAKEN] = 0;
    }
    __syncthreads();
    bs_cu_take_turn(r, false);
}

/* ---------------------------------------------------------------------------------------------------- growing */

/* Rows behind the last one that makes the first trip are there to be made. */
__device__ inline void bs_cu_begin_growth(const bs_cu_router &r)
{
    int32_t *state = bs_cu_trip(*r.t, r.s->router);
    __syncthreads();
    if (threadIdx.x == 0)
        state[BS_CU_TURNS_DUE] = 0;
    __syncthreads();
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        r.d.inverse[row] = -1;
        if (r.d.chosen[row] == 0)
            atomicMax(&state[BS_CU_TURNS_DUE], row + 1);
    }
    __syncthreads();
}

/* The rows that those of the last trip make, in their order, stand side by side. domain: of the loop. */
__device__ inline void bs_cu_grow(const bs_cu_router &r, const bs_loop_rule &rule, int32_t domain)
{
    int32_t *state = bs_cu_trip(*r.t, r.s->router);
    const int32_t room = bs_cu_count(*r.t, domain);
    const int32_t count = r.d.counts[0], trip = state[0] + (count > 0), first = state[BS_CU_TURNS_DUE];
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    int64_t due = first;
    for (int32_t base = 0; base < count; base += bs_cu_threads()) {
        const int32_t k = base + bs_cu_thread(), row = k < count ? r.d.ids[k] : 0;
        int32_t makes = 0;
        if (k < count && fault.kind == BS_ROUTE_SOUND) {
            const bs_scores asked = bs_cu_scores_of(*r.t, bs_cu_in(*r.t, r.s, 0), k);
            fault = bs_loop_makes(&rule, &asked, row, trip, &makes);
        }
        int64_t all;
        const int64_t before =
            due + bs_cu_sum_before(min(makes, room + 1), reinterpret_cast<int64_t *>(r.stage), &all);
        if (fault.kind == BS_ROUTE_SOUND)
            fault = bs_route_fault_if(makes > 0 && makes > room - before, BS_ROUTE_FULL, row, makes, room);
        for (int32_t i = 0; i < makes && fault.kind == BS_ROUTE_SOUND; i++)
            r.d.inverse[before + i] = row;
        due += all;
    }
    bs_cu_loop_fails(r, fault, domain);
    const int32_t made = bs_cu_failed(*r.t->program) ? 0 : (int32_t)due - first;
    for (int32_t k = bs_cu_thread(); k < made; k += bs_cu_threads())
        r.d.ids[k] = first + k;
    if (threadIdx.x == 0) {
        state[0] = trip;
        state[BS_CU_TURNS_DUE] = first + made;
        r.counts[0] = r.d.counts[0] = r.d.offsets[1] = made;
    }
    __syncthreads();
}

/* ------------------------------------------------------------------------------------------------- decisions */

__device__ inline void bs_cu_loop_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const bs_loop_rule rule = bs_cu_loop_rule(t, s);
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    (void)w;
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_scores count = bs_cu_loop_count(t, s, row);
        bool goes;
        const bs_route_fault here = bs_loop_begins(&rule, &count, row, &goes);
        fault = fault.kind == BS_ROUTE_SOUND ? here : fault;
        r.d.chosen[row] = bs_loop_choice(&rule, &count, goes);
        r.d.gates[row] = 1.0f;
    }
    if (threadIdx.x == 0)
        *bs_cu_trip(t, s->router) = 0;
    if (bs_cu_loop_fails(r, fault, s->domain))
        bs_cu_choose_none(r, 0, r.rows);
    if (rule.in_turn)
        bs_cu_begin_turns(r, rule.bound);
    else
        bs_cu_pack(r);
    if (rule.grows)
        bs_cu_begin_growth(r);
    bs_cu_record_rows(r, 0, r.rows);
    bs_cu_record_counts(r);
}

/* Whether the k-th row of the body makes trip number `trip`. */
__device__ inline bs_route_fault bs_cu_loop_goes_on(const bs_cu_tile &t, const bs_device_step *s,
                                                    const bs_loop_rule &rule, int32_t k, int32_t row, int32_t trip,
                                                    bool *goes)
{
    const bool asks = s->p[BS_CU_LOOP_ASKS].i != 0;
    const bs_scores none = {NULL, 0, true}, count = bs_cu_loop_count(t, s, row),
                    score = asks ? bs_cu_scores_of(t, bs_cu_in(t, s, 0), k) : none;
    return bs_loop_goes_on(&rule, asks ? &score : NULL, &count, row, trip, goes);
}

/* Rows are packed in place, as many at a time as there are threads: none is written before all of those are read. */
__device__ inline void bs_cu_loop_again_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const bs_loop_rule rule = bs_cu_loop_rule(t, s);
    const int32_t count = r.d.counts[0], trip = *bs_cu_trip(t, s->router) + (count > 0);
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    (void)w;
    if (rule.in_turn) {
        bs_cu_take_turn(r, bs_cu_failed(*t.program));
        bs_cu_record_counts(r);
        return;
    }
    if (rule.grows) {
        bs_cu_grow(r, rule, t.program->domains[s->domain].parent);
        bs_cu_record_counts(r);
        return;
    }
    bs_cu_clear_counts(r);
    __syncthreads();
    for (int32_t base = 0; base < count; base += bs_cu_threads()) {
        const int32_t k = base + bs_cu_thread(), row = k < count ? r.d.ids[k] : 0;
        bool goes = false;
        if (k < count && fault.kind == BS_ROUTE_SOUND)
            fault = bs_cu_loop_goes_on(t, s, rule, k, row, trip, &goes);
        const int32_t at = bs_cu_take_next(r, goes ? 0 : -1);
        if (goes)
            r.d.ids[at] = row;
        __syncthreads(); /* what the next rows of the body are views of follows from these */
    }
    bs_cu_loop_fails(r, fault, t.program->domains[s->domain].parent);
    const bool bad = bs_cu_failed(*t.program); /* here, or in the body: no row goes on by what it left */
    if (threadIdx.x == 0) {
        r.counts[0] = bad ? 0 : r.next[0];
        r.d.counts[0] = r.d.offsets[1] = r.counts[0];
        *bs_cu_trip(t, s->router) = trip;
    }
    __syncthreads();
    bs_cu_record_counts(r);
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
    const bs_cu_decision d = bs_cu_decision_of(t, s);
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
            const int32_t named = reinterpret_cast<const int32_t *>(index.data)[(int64_t)k * index.stride[0]];
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
