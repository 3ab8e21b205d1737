/* route_pack.cuh - from choices to a decision that can be followed: how many rows each path got, which ones, where each
 * went; and what the host reads of it.
 * The rows of a path are packed in their order: ranks come from ballots and prefixes, never from the order in
 * which threads arrive. Relies on route_job.cuh. Must never change a choice. */
#ifndef BS_CUDA_ROUTE_PACK
#define BS_CUDA_ROUTE_PACK

#include "cuda/route_job.cuh"

/* --------------------------------------------------------------------------------------------------- counting */

/* The lanes of this warp whose choice is the same path; 0 where there is none. Called by whole warps. */
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

/* Adds choices first .. last - 1 to counts; choice i is chosen[i * step + offset]. The caller clears counts before, and
 * synchronises. */
__device__ inline void bs_cu_count_choices(const bs_cu_router &r, int32_t first, int32_t last, int32_t step = 1,
                                           int32_t offset = 0)
{
    for (int32_t base = first; base < last; base += bs_cu_threads()) {
        const int32_t at = base + bs_cu_thread(), path = at < last ? r.d.chosen[(int64_t)at * step + offset] : -1;
        const uint32_t peers = bs_cu_peers(path, r.d.paths);
        if (path >= 0 && (peers & bs_cu_lanes_below()) == 0)
            atomicAdd(&r.counts[path], __popc(peers));
    }
}

__device__ inline void bs_cu_clear_counts(const bs_cu_router &r)
{
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        r.counts[p] = r.next[p] = 0;
}

/* Makes offsets from counts, and adds them to next. All threads, each a share of the paths; synchronises before and
 * after. */
__device__ inline void bs_cu_sum_counts(const bs_cu_router &r)
{
    const int32_t share = (r.d.paths + bs_cu_threads() - 1) / bs_cu_threads();
    const int32_t first = min(bs_cu_thread() * share, r.d.paths), last = min(first + share, r.d.paths);
    int32_t own = 0, sum = 0;
    __syncthreads();
    for (int32_t p = first; p < last; p++)
        own += r.counts[p];
    r.shared->of_thread[threadIdx.x] = own;
    __syncthreads();
    for (int32_t k = 0; k < bs_cu_thread() && first < r.d.paths; k++)
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

/* Takes from next[paths] the next place on a path for this thread's item, in the order of the threads; -1 where it has
 * no path. Called by all threads; the warps take turns. */
__device__ inline int32_t bs_cu_take_place(int32_t *next, int32_t path, int32_t paths)
{
    const int32_t warp = bs_cu_warp(), lane = bs_cu_lane();
    const uint32_t peers = bs_cu_peers(path, paths);
    const int32_t leader = peers ? __ffs((int)peers) - 1 : lane;
    int32_t first = 0;
    for (int32_t k = 0; k < bs_cu_warps(); k++) {
        if (k == warp && path >= 0 && lane == leader) {
            first = next[path];
            next[path] = first + __popc(peers);
        }
        __syncthreads();
    }
    first = __shfl_sync(0xffffffffu, first, leader);
    return path < 0 ? -1 : first + __popc(peers & bs_cu_lanes_below());
}

__device__ __forceinline__ int32_t bs_cu_take_next(const bs_cu_router &r, int32_t path)
{
    return bs_cu_take_place(r.next, path, r.d.paths);
}

/* ---------------------------------------------------------------------------------------------------- packing */

/* Gives choices first .. last - 1 their packed rows: in order, from next on. All threads. */
__device__ inline void bs_cu_place_choices(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t base = first; base < last; base += bs_cu_threads()) {
        const int32_t at = base + bs_cu_thread(), path = at < last ? r.d.chosen[at] : -1;
        const int32_t packed = bs_cu_take_next(r, path);
        if (at < last)
            bs_pack_choice(at, r.d.per_row, packed, r.d.ids, r.d.inverse);
    }
}

/* At most 32 choices: the first warp packs them alone. A lane handles every 32nd path. */
__device__ inline void bs_cu_pack_few(const bs_cu_router &r, int32_t choices)
{
    const int32_t lane = bs_cu_thread(), paths = r.d.paths;
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
    bs_pack_choice(lane, r.d.per_row, packed, r.d.ids, r.d.inverse);
}

/* Writes counts and offsets to where readers of the decision find them. */
__device__ inline void bs_cu_tell_counts(const bs_cu_router &r)
{
    for (int32_t p = bs_cu_thread(); p <= r.d.paths; p += bs_cu_threads()) {
        r.d.offsets[p] = r.offsets[p];
        if (p < r.d.paths)
            r.d.counts[p] = r.counts[p];
    }
}

/* Makes counts (rows of each path), offsets, ids and the inverse of what was chosen, by one block. */
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

/* ----------------------------------------------------------------------------------------------------- record */

/* What the host reads: the first path of rows first .. last - 1, by their place among all cells. */
__device__ inline void bs_cu_record_rows(const bs_cu_router &r, int32_t first, int32_t last)
{
    int16_t *top = reinterpret_cast<int16_t *>(r.t->program->decisions + r.t->record->decision.top);
    for (int32_t row = first + bs_cu_thread(); row < last; row += bs_cu_threads())
        top[bs_cu_top_row(*r.t, r.s->domain, row)] = (int16_t)r.d.chosen[(int64_t)row * r.d.per_row];
}

/* And how many rows each path got (counts): tiles add theirs. */
__device__ inline void bs_cu_record_counts(const bs_cu_router &r)
{
    const bs_device_decision &d = r.t->record->decision;
    int32_t *sums = reinterpret_cast<int32_t *>(r.t->program->decisions + d.sums);
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads()) {
        if (!d.in_tile) /* in a loop there is a decision a trip */
            sums[p] += r.counts[p];
        else if (r.counts[p] > 0)
            atomicAdd(&sums[p], r.counts[p]);
    }
}

#endif
