/* op_trees.cuh - the structure of trees and graphs whose vertices are rows: children, levels. One block does each.
 * Relies on kernels.cuh, describe.cuh, prefix.cuh. Must never let an index that was not checked reach an address. */
#ifndef BS_CUDA_OP_TREES
#define BS_CUDA_OP_TREES

#include "cuda/describe.cuh"
#include "cuda/kernels.cuh"
#include "cuda/prefix.cuh"
#include "cuda/program.cuh"

extern "C" {
#include "ops/trees.h"
}

/* One work item. */
static void bs_cu_children_describe(const bs_cu_node *n, bs_device_step *s) { (void)n, (void)s; }

static constexpr bs_cu_describe bs_cu_levels_describe = bs_cu_children_describe;

/* A value of two dimensions, or of one, that is whole. */
struct bs_cu_lists {
    int32_t *data;
    int32_t rows, slots;
    int64_t row_step, slot_step;
};

__device__ inline bs_cu_lists bs_cu_lists_of(const bs_cu_tile &t, const bs_device_operand *o)
{
    const bs_cu_lists lists = {reinterpret_cast<int32_t *>(bs_cu_row(t, o, 0)), o->dim[0],
                               o->rank > 1 ? o->dim[1] : 1, o->stride[0], o->rank > 1 ? o->stride[1] : 0};
    return lists;
}

__device__ __forceinline__ int32_t *bs_cu_list_at(const bs_cu_lists &l, int32_t row, int32_t slot)
{
    return l.data + row * l.row_step + slot * l.slot_step;
}

/* ---------------------------------------------------------------------------------------------------- children */

/* A share of the rows for each thread, whose lists begin behind those of the threads before it. */
__device__ inline void bs_cu_children_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_lists lengths = bs_cu_lists_of(t, bs_cu_in(t, s, 0)), indices = bs_cu_lists_of(t, bs_cu_in(t, s, 1)),
                      out = bs_cu_lists_of(t, bs_cu_out(t, s, 0));
    const int32_t share = (out.rows + bs_cu_threads() - 1) / bs_cu_threads(),
                  first = min(bs_cu_thread() * share, out.rows), end = min(first + share, out.rows);
    int64_t own = 0, all;
    for (int32_t row = first; row < end; row++)
        own += max(*bs_cu_list_at(lengths, row, 0), 0); /* what is below 0, or too much, is refused below */
    int64_t taken = bs_cu_sum_before(own, reinterpret_cast<int64_t *>(t.workspace), &all);
    (void)w;
    for (int32_t row = first; row < end; row++) {
        const int32_t length = bs_read_once(bs_cu_list_at(lengths, row, 0));
        if (length < 0 || length > out.slots || length > indices.rows - taken) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        for (int32_t k = 0; k < out.slots; k++)
            *bs_cu_list_at(out, row, k) = k < length ? *bs_cu_list_at(indices, (int32_t)taken + k, 0) : -1;
        taken += length;
    }
}

/* ------------------------------------------------------------------------------------------------------ levels */

/* Every list of rows above a row, and the rows without children. done: how many these are, in shared memory. Returns
 * whether all indices are sound. All threads. */
__device__ inline bool bs_cu_levels_list(const bs_cu_lists &children, const bs_cu_lists &levels,
                                         const bs_level_lists &lists, int32_t *done)
{
    bool bad = false;
    for (int32_t row = bs_cu_thread(); row < children.rows; row += bs_cu_threads())
        lists.above[row] = -1;
    __syncthreads();
    for (int32_t row = bs_cu_thread(); row < children.rows; row += bs_cu_threads()) {
        int32_t waits = 0;
        for (int32_t k = 0; k < children.slots; k++) {
            const int32_t child = bs_read_once(bs_cu_list_at(children, row, k)), at = row * children.slots + k;
            bad = bad || child < -1 || child >= children.rows;
            if (child < 0 || bad)
                continue;
            lists.next[at] = atomicExch(&lists.above[child], at);
            waits++;
        }
        lists.waits[row] = waits;
        *bs_cu_list_at(levels, row, 0) = 1;
        if (waits == 0)
            lists.order[atomicAdd(done, 1)] = row;
    }
    return !__syncthreads_or(bad);
}

/* Rows whose last child has got its level get theirs, level by level: within one their order makes no difference. */
__device__ inline void bs_cu_levels_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_lists children = bs_cu_lists_of(t, bs_cu_in(t, s, 0)), levels = bs_cu_lists_of(t, bs_cu_out(t, s, 0));
    const bs_level_lists lists = bs_level_lists_in(t.program->kernel_scratch, children.rows);
    int32_t *done = reinterpret_cast<int32_t *>(t.workspace);
    (void)w;
    if (threadIdx.x == 0)
        *done = 0;
    __syncthreads();
    bool sound = bs_cu_levels_list(children, levels, lists, done);
    int32_t end = sound ? *done : 0;
    __syncthreads(); /* before others add to it */
    for (int32_t first = 0, level = 2; first < end; level++) {
        for (int32_t i = first + bs_cu_thread(); i < end; i += bs_cu_threads())
            for (int32_t at = lists.above[lists.order[i]]; at >= 0; at = lists.next[at]) {
                const int32_t parent = at / children.slots;
                if (atomicSub(&lists.waits[parent], 1) != 1)
                    continue;
                *bs_cu_list_at(levels, parent, 0) = level;
                lists.order[atomicAdd(done, 1)] = parent;
            }
        __syncthreads();
        first = end;
        end = *done;
        __syncthreads();
    }
    sound = sound && end == children.rows;
    if (!sound && threadIdx.x == 0)
        bs_cu_fail(t, s, BS_ERROR_DATA);
}

#endif
