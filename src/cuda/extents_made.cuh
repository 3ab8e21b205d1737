/* extents_made.cuh - extents that a step finds in its data, and steps that have nothing to do because of that.
 *
 * A kernel that makes a dimension says how long it is (bs_cu_made); the launch after it puts that into the operands and
 * domains (bs_cu_extend in launch.cuh). Until then they hold the maximum.
 * Relies on program.cuh. Must never let an extent become one that memory was not planned for. */
#ifndef BS_CUDA_EXTENTS_MADE
#define BS_CUDA_EXTENTS_MADE

#include "cuda/program.cuh"

/* Sets the symbol that a step makes, and what is derived of it. Called by one thread of the launch. */
__device__ inline void bs_cu_made(const bs_cu_tile &t, const bs_device_step *s, int64_t extent)
{
    const bs_cu_program &p = *t.program;
    for (int32_t d = s->makes - 1; d < p.n_dims; d++) {
        const bs_device_dim &dim = p.derived[d];
        if (dim.node != s->node)
            continue;
        if (dim.parent >= 0)
            extent = bs_floor_div((int64_t)p.extents[dim.parent] * dim.mul + dim.add, dim.div);
        if (extent < 0 || extent > dim.maximum) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        p.extents[d] = (int32_t)extent;
    }
}

__device__ inline bool bs_cu_is_empty(const bs_device_operand *o)
{
    bool empty = false;
    for (int32_t i = 0; i < o->rank; i++)
        empty = empty || o->dim[i] == 0;
    return empty;
}

/* As wants_kernel in run/call.c: whether a step is to run. It is not where all results are empty; where an operand
 * alone is, the run fails unless the step has a result all the same. */
__device__ inline bool bs_cu_wants_kernel(const bs_cu_tile &t, const bs_device_step *s)
{
    if (!t.program->extents)
        return true;
    bool empty = s->n_out > 0, lacks = false;
    for (int32_t i = 0; i < s->n_out; i++)
        empty = empty && bs_cu_is_empty(bs_cu_in_of_many(t, s, s->n_in + i));
    for (int32_t i = 0; i < s->n_in && !s->empty; i++)
        lacks = lacks || bs_cu_is_empty(bs_cu_in_of_many(t, s, i));
    if (lacks && !empty)
        bs_cu_fail(t, s, BS_ERROR_DATA);
    return !lacks && !empty;
}

#endif
