/* ops/segments.c - rows grouped in segments, and caches to which segments are appended: builder functions and shape
 * rules.
 * Owns what holds for every op on segments: which input says how rows are grouped, and that two values agree on it.
 * Relies on ops/structure.h. Must never read lengths: they are data of a run (run/segments.c). */
#include "ops/common.h"
#include "ops/structure.h"

/* ---------------------------------------------------------------------------------------------- what is shared */

int32_t bs_infer_segments(bs_infer *infer, int32_t index)
{
    const int32_t domain = infer->in[index]->domain;
    if (bs_segmented(infer->graph, domain))
        return domain;
    bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %" PRId32 " is of %s, expected segments (bs_segments)", index,
                  bs_say_domain(infer, domain));
    return 0;
}

bool bs_infer_segment_input(bs_infer *infer, int32_t index, int32_t domain, const char *what)
{
    const bs_value_info *v = infer->in[index];
    if (!bs_node_is_input(&infer->graph->nodes[v->node]))
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "operand %" PRId32 " (%s) is made by %s, expected an input", index,
                             what, bs_op_get(infer->graph->nodes[v->node].op)->name);
    if (v->dtype != BS_I32 || v->rank != 1)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %" PRId32 " (%s) is %s, expected i32 [segments]", index,
                             what, bs_say_typed(infer, v));
    if (domain && v->dims[0] != bs_segment_dim(infer->graph, domain))
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "operand %" PRId32 " (%s) is %s, expected one for each of %s segments", index, what,
                             bs_say_value(infer, v), bs_say_dim(infer, bs_segment_dim(infer->graph, domain)));
    return true;
}

/* ---------------------------------------------------------------------------------------------------- segments */

static bool segments_infer(bs_infer *infer)
{
    return bs_infer_row_shape(infer) && bs_infer_bound_dim(infer, 0, 0) &&
           bs_infer_segment_input(infer, 1, 0, "lengths") &&
           bs_infer_row_domain(infer, infer->ids[1]);
}

const bs_op bs_op_segments = {.name = "segments",
                              .min_in = 2,
                              .rows = {.of = BS_ROWS_ANY},
                              .work = BS_WORK_VIEW,
                              .roles = {BS_ROLE_DATA, BS_ROLE_LIKE},
                              .params_bytes = sizeof(bs_name_params),
                              .infer = segments_infer};

bs_value bs_segments(bs_graph *graph, bs_value x, bs_value lengths)
{
    return bs_op_build_two(graph, x, lengths, NULL, &bs_op_segments);
}

/* ------------------------------------------------------------------------------------------------ state_append */

/* Checks that the state is [segments, window, ...cell]. */
static bool append_fits(bs_infer *infer, int32_t domain)
{
    const bs_value_info *state = infer->in[0], *value = infer->in[1];
    bool fits = state->dtype == value->dtype && state->rank == value->rank + 2 &&
                state->dims[0] == bs_segment_dim(infer->graph, domain) && bs_dim_is_const(infer->graph, state->dims[1]);
    for (int32_t i = 0; fits && i < value->rank; i++)
        fits = state->dims[i + 2] == value->dims[i];
    if (fits)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE,
                         "cells %s do not fit a state of %s, expected [segments, window, ...cell]",
                         bs_say_typed(infer, value), bs_say_typed(infer, state));
}

static bool state_append_infer(bs_infer *infer)
{
    infer->n_out = 0;
    if (!bs_infer_state(infer))
        return false;
    const int32_t domain = bs_infer_segments(infer, 1);
    if (domain && !bs_domain_is_segments(&infer->graph->domains[domain]))
        return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                             "operand 1 is of %s, expected segments (gather what a router scattered first)",
                             bs_say_domain(infer, domain));
    return domain && append_fits(infer, domain) && bs_infer_segment_input(infer, 2, domain, "cache_lengths");
}

const bs_op bs_op_state_append = {.name = "state_append",
                                  .min_in = 3,
                                  .rows = {.of = BS_ROWS_ANY},
                                  .work = BS_WORK_MOVE,
                                  .roles = {BS_ROLE_STATE, BS_ROLE_DATA, BS_ROLE_CACHE_LENGTH},
                                  .params_bytes = sizeof(bs_name_params),
                                  .infer = state_append_infer};

void bs_state_append(bs_graph *graph, bs_value state, bs_value value, bs_value cache_lengths)
{
    const int32_t in[3] = {state.id, value.id, cache_lengths.id};
    bs_op_build_node(graph, &bs_op_state_append, in, 3, NULL);
}
