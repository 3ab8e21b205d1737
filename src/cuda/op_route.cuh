/* op_route.cuh - from scores to a decision.
 *
 * One block makes a decision (route), in tiles and for up to 1024 rows. For more rows, many blocks decide (route_rows:
 * each a chunk of rows, and counts where they went) and many blocks pack (route_pack: each adds up the chunks before
 * its own). A protocol that looks at all rows at once, a capacity or a budget, always runs in one block. What is
 * chosen, and in which order rows are packed, follows from the scores alone, never from threads or chunks. Relies on
 * the route_*.cuh. Must never leave a decision that leads its readers out of bounds: after a failure no row has a path.
 * */
#ifndef BS_CUDA_OP_ROUTE
#define BS_CUDA_OP_ROUTE

#include "cuda/route_budget.cuh"
#include "cuda/route_capacity.cuh"
#include "cuda/route_pack.cuh"
#include "cuda/route_protocols.cuh"

enum {
    BS_CU_ROUTE_CHUNK = 256, /* rows of a block of route_rows and route_pack, at least */
    BS_CU_ROUTE_ROWS = 1024  /* up to this many, one block does everything */
};

/* Whether the host calls back for a router's decision. */
static bool bs_cu_asks_caller(const bs_plan *plan, int32_t router)
{
    return plan->graph->routers[router].desc->protocol == BS_ROUTE_CALLBACK && !plan->routers[router].forced;
}

/* A forced route needs nothing but the number of rows; what a callback chose is packed. */
static void bs_cu_route_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t router = n->node->router;
    const bs_router_info *info = &n->graph->routers[router];
    const bs_route_desc *d = info->desc;
    const bs_router_plan *plan = &n->plan->routers[router];
    const bool all_rows = bs_protocol_sees_all_rows(d->protocol);
    const bool large = !plan->in_tile && (!all_rows || plan->forced) && plan->rows > BS_CU_ROUTE_ROWS &&
                       d->paths <= BS_CU_ROUTE_PATHS;
    s->kernel = large                                ? BS_CU_route_rows
                : bs_cu_asks_caller(n->plan, router) ? BS_CU_route_pack
                                                     : BS_CU_route;
    s->then = large ? BS_CU_route_pack : BS_CU_none;
    /* so that the counts of all chunks fit into bs_device_decision.work */
    s->batch = large ? bs_max_i32(BS_CU_ROUTE_CHUNK, d->paths) : BS_CU_ONE_BLOCK;
    bs_rule rule = bs_rule_of(d, plan->forced ? 0 : n->in[0].dim[0]);
    rule.protocol = plan->forced ? -1 : rule.protocol;
    memcpy(s->p, &rule, sizeof rule);
    s->p[BS_CU_P_KNOB].i = info->knob != 0 && !plan->forced;
    s->p[BS_CU_P_FORCED].i = plan->forced;
    s->p[BS_CU_P_LARGE].i = large;
    if (d->protocol != BS_ROUTE_BUDGET || plan->forced)
        return;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t patches = n->graph->domains[info->domain].patches;
    bs_node_weights(n->graph, n->node, specs);
    s->p[BS_CU_P_PATHS_AT].i = (int32_t)bs_bytes_figure(bs_weight_offset(specs, 1));
    if (patches < 0)
        return;
    s->p[BS_CU_P_SIZE].i = n->plan->domains[patches].size;
    s->p[BS_CU_P_HEIGHT].i = n->graph->domains[patches].height;
    s->p[BS_CU_P_FRAME_WIDTH].i = n->graph->domains[patches].width;
}

/* ---------------------------------------------------------------------------------------------------- kernels */

/* A decision, by one block. */
__device__ inline void bs_cu_route_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    bool good = bs_route_check_knob(r.knob).kind == BS_ROUTE_SOUND;
    (void)w;
    if (threadIdx.x == 0)
        *r.d.price = 0.0f;
    if (s->p[BS_CU_P_FORCED].i)
        bs_cu_decide_forced(r, 0, r.rows);
    else if (good && bs_cu_rule(s)->protocol == BS_ROUTE_BUDGET)
        good = bs_cu_decide_budget(r);
    else if (good)
        good = bs_cu_decide_rows(r, 0, r.rows);
    if (good && bs_cu_rule(s)->protocol == BS_ROUTE_CAPACITY)
        bs_cu_limit_capacity(r);
    if (!good) {
        __syncthreads(); /* other threads may still be choosing */
        bs_cu_choose_none(r, 0, r.rows * r.d.per_row);
        if (threadIdx.x == 0)
            bs_cu_fail(t, s, BS_ERROR_DATA);
    }
    bs_cu_pack(r);
    bs_cu_record_rows(r, 0, r.rows);
    bs_cu_record_counts(r);
}

/* Decides chunk w.part of the rows, counts what each path got of it, and notes whether a row failed. */
__device__ inline void bs_cu_route_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const int32_t first = w.part * s->batch, last = min(first + s->batch, r.rows);
    bool good = bs_route_check_knob(r.knob).kind == BS_ROUTE_SOUND;
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
    for (int32_t p = bs_cu_thread(); p <= r.d.paths; p += bs_cu_threads())
        chunk[p] = p < r.d.paths ? r.counts[p] : !good;
}

/* Sums what each path got of all chunks (counts) and of those before this one (next); returns whether any failed. */
__device__ inline bool bs_cu_sum_chunks(const bs_cu_router &r, int32_t chunk, int32_t chunks)
{
    const int32_t words = r.d.paths + 1, slices = max(bs_cu_threads() / words, 1);
    bs_cu_clear_counts(r);
    bool failed = false;
    __syncthreads();
    for (int32_t i = bs_cu_thread(); i < slices * words; i += bs_cu_threads()) {
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

/* Packs chunk w.part of the rows after the chunks before it; chunk 0 also writes counts and offsets. */
__device__ inline void bs_cu_route_pack_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const int32_t first = w.part * s->batch, last = min(first + s->batch, r.rows);
    if (w.part > 0 && (first >= r.rows || !s->p[BS_CU_P_LARGE].i))
        return;
    if (!s->p[BS_CU_P_LARGE].i) { /* a callback chose, and the host has checked its choices */
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

#endif
