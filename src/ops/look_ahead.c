/* ops/look_ahead.c - predicts what a later router will choose by scores that are known now, so that weights are read
 * before they are needed. Relies on ops/decide.h. Must never decide anything. */
#include "ops/common.h"
#include "ops/decide.h"
#include "ops/structure.h"

/* The router is looked up when a plan is made: it does not exist yet. */
static bool look_ahead_infer(bs_infer *infer)
{
    infer->n_out = 0;
    if (!infer->name[0])
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "the name of a router is needed");
    const bs_value_info *score = infer->in[0];
    if (score->rank != 1 || (score->dtype != BS_F32 && score->dtype != BS_I32) ||
        !bs_dim_is_const(infer->graph, score->dims[0]))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, expected f32 or i32 [paths]",
                             bs_say_typed(infer, score));
    return true;
}

/* For each path, the largest margin of any row that chooses it: how far it lies above the best path not chosen. */
static bs_status look_ahead_run(const bs_call *call)
{
    const bs_router_info *router = &call->graph->routers[call->plan->ahead_of];
    const bs_operand *o = &call->in[0];
    const int32_t paths = router->desc->paths, taken = router->max_paths_per_cell, asked = bs_guess_asks(taken, paths);
    float *const margins = call->margins;
    for (int32_t row = 0; row < call->rows; row++) {
        const bs_scores x = {(const int32_t *)o->data + row * o->row_stride, o->stride[0], o->dtype == BS_I32};
        bs_best_paths(&x, paths, asked, call->order);
        for (int32_t k = 0; k < taken; k++) {
            const float margin = bs_guess_margin(&x, call->order, taken, asked, k);
            margins[call->order[k]] = margins[call->order[k]] < margin ? margin : margins[call->order[k]];
        }
    }
    return BS_OK;
}

const bs_op bs_op_look_ahead = {.name = "look_ahead",
                                .min_in = 1,
                                .rows = {.of = BS_ROWS_ANY},
                                .roles = {BS_ROLE_DECIDING}, .params_bytes = sizeof(bs_name_params),
                                .infer = look_ahead_infer,
                                .run = look_ahead_run};

void bs_look_ahead(bs_graph *graph, bs_value score, const char *router)
{
    const bs_name_params p = {router ? router : ""};
    bs_op_build_node(graph, &bs_op_look_ahead, &score.id, 1, &p);
}
