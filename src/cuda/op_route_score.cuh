/* op_route_score.cuh - what a model can read of a decision: the score of what was chosen, the price of a budget.
 * Relies on program.cuh and describe.cuh. Must never touch a decision. */
#ifndef BS_CUDA_OP_ROUTE_SCORE
#define BS_CUDA_OP_ROUTE_SCORE

#include "cuda/kernels.cuh"
#include "cuda/describe.cuh"
#include "cuda/program.cuh"

/* Parameters of the kernels of this file, in p. */
enum { BS_CU_SCORE_WIDTH, BS_CU_SCORE_BUDGET }; /* scores a row; whether a budget was kept */
enum { BS_CU_PRICE_FORCED };

static void bs_cu_route_score_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->batch = 256;
    s->p[BS_CU_SCORE_WIDTH].i = n->in[0].dim[0];
    s->p[BS_CU_SCORE_BUDGET].i = n->graph->routers[s->router].desc->protocol == BS_ROUTE_BUDGET &&
                                 !n->plan->routers[s->router].forced;
}

static void bs_cu_route_price_describe(const bs_cu_node *n, bs_device_step *s)
{
    /* a forced route has no price, and may be decided in tiles */
    s->p[BS_CU_PRICE_FORCED].i = n->plan->routers[s->router].forced;
}

/* The score of the first chosen path, or the one score for all paths; with a budget the loss of the chosen variant; 0
 * where no path was chosen. */
__device__ inline void bs_cu_route_score_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    const bs_device_operand *in = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const int32_t width = s->p[BS_CU_SCORE_WIDTH].i;
    /* a decision that was not made in the tile counts all rows */
    const int32_t ahead = t.record->decision.in_tile ? 0 : bs_cu_before(t, s->domain);
    for (int32_t r = w.row + bs_cu_thread(); r < w.end; r += bs_cu_threads()) {
        const int64_t decided = (int64_t)(ahead + r) * d.per_row;
        const int32_t path = d.chosen[decided], at = bs_score_of(path, width);
        const uint8_t *from = bs_cu_row(t, in, r);
        uint8_t *to = bs_cu_row(t, out, r);
        if (out->dtype == BS_I32)
            *reinterpret_cast<int32_t *>(to) =
                path >= 0 && s->p[BS_CU_SCORE_BUDGET].i ? (int32_t)d.gates[decided]
                : at >= 0 ? reinterpret_cast<const int32_t *>(from)[(int64_t)at * in->stride[0]]
                          : 0;
        else
            bs_cu_put(to, out->dtype, 0, at >= 0 ? bs_cu_get(from, in->dtype, (int64_t)at * in->stride[0]) : 0.0f);
    }
}

/* The price at which a budget was kept; 0 for a forced route. */
__device__ inline void bs_cu_route_price_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    if (threadIdx.x == 0 && w.part == 0)
        bs_cu_put(bs_cu_row(t, out, 0), out->dtype, 0,
                  s->p[BS_CU_PRICE_FORCED].i ? 0.0f : *bs_cu_decision_of(t).price);
}

#endif
