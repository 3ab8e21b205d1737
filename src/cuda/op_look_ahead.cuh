/* op_look_ahead.cuh - what a later router would choose by the scores of now: for each path, the largest margin over all
 * rows by which it lies above the best path that a row does not choose (ops/look_ahead.c). One block; a maximum over
 * rows, so their order does not matter. Relies on route_scores.cuh. Must never touch a decision. */
#ifndef BS_CUDA_OP_LOOK_AHEAD
#define BS_CUDA_OP_LOOK_AHEAD

#include "cuda/kernels.cuh"
#include "cuda/describe.cuh"
#include "cuda/route_scores.cuh"

enum { BS_CU_LOOK_TAKEN, BS_CU_LOOK_PATHS }; /* p: paths a cell at most, paths */

static void bs_cu_look_ahead_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_router_info *r = &n->graph->routers[n->np->ahead_of];
    s->domain = n->in[0].domain;
    s->batch = BS_CU_ONE_BLOCK;
    s->p[BS_CU_LOOK_TAKEN].i = r->max_paths_per_cell;
    s->p[BS_CU_LOOK_PATHS].i = r->desc->paths;
}

/* Margins are not negative, so they compare as the integers that their bits are. A thread lists the best paths of its
 * row in the workspace, or, where one list does not fit there, behind the margins: guesses [paths], then a list [paths
 * a cell + 1]. */
__device__ inline void bs_cu_look_ahead_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    int32_t *margins = reinterpret_cast<int32_t *>(t.program->guesses);
    const bs_device_operand *o = bs_cu_in(t, s, 0);
    const int32_t taken = s->p[BS_CU_LOOK_TAKEN].i, paths = s->p[BS_CU_LOOK_PATHS].i;
    const int32_t asked = bs_guess_asks(taken, paths);
    const int32_t room = BS_CU_WORKSPACE / 4 / (taken + 1), threads = min(max(room, 1), bs_cu_threads());
    int32_t *best = (room > 0 ? reinterpret_cast<int32_t *>(t.workspace) : margins + paths) + threadIdx.x * (taken + 1);
    for (int32_t p = bs_cu_thread(); p < paths; p += bs_cu_threads())
        margins[p] = __float_as_int(-1.0f);
    __syncthreads();
    for (int32_t row = w.row + bs_cu_thread(); bs_cu_thread() < threads && row < w.end;
         row += threads) {
        const bs_scores x = bs_cu_scores_of(t, o, row);
        bs_best_paths(&x, paths, asked, best);
        for (int32_t k = 0; k < taken; k++)
            atomicMax(&margins[best[k]], __float_as_int(bs_guess_margin(&x, best, taken, asked, k)));
    }
    __syncthreads();
}

#endif
