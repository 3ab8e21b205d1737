/* graph.cuh - how the launches of a run reach the device: its *launch mode*.
 *
 *   STREAM       launch by launch; branches without rows are launched too, and their blocks return; so are the trips
 *                of a loop, but now and then the host fetches whether there is another
 *   GRAPH        the same, captured once as a CUDA graph: one launch a run; loops as many times as their bounds say
 *   CONDITIONAL  captured, with an IF node around each branch: launches whose steps are all on paths (CUDA 12.4), and a
 *                WHILE node around each body of a loop
 *   AUTO         STREAM, then GRAPH from the second run on
 *
 * All modes read the same counts in the device's memory, so results are the same bytes.
 *
 * Relies on rounds.cuh. Must never let a mode change what a launch does. */
#ifndef BS_CUDA_GRAPH
#define BS_CUDA_GRAPH

#include "cuda/rounds.cuh"

/* ------------------------------------------------------------------------------------------------- branches */

/* Whether a step works on the rows of a path, of which there may be none; a body of a loop is not run without any. */
static bool bs_cu_on_path(const bs_device_session *s, const bs_device_step *step)
{
    const bs_domain *d = &s->client->graph->domains[step->domain];
    return d->kind == BS_DOMAIN_PATH && !bs_router_loops(s->client->graph, d->router);
}

/* How many launches from number `at` on are one branch: all of their steps are on paths, and may have no rows. */
static int32_t bs_cu_branch_length(const bs_device_session *s, int32_t at, int32_t end)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    int32_t count = 0;
    for (; at + count < end; count++) {
        const bs_device_launch *l = &s->launches.list[at + count];
        if (!bs_cu_is_kernel(l->kernel) || bs_cu_sees_all_rows(l->kernel))
            return count;
        for (int32_t k = l->first; k < l->first + l->count; k++)
            if (!bs_cu_on_path(s, &steps[k]))
                return count;
    }
    return count;
}

static bs_status bs_cu_run_launches(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t k = first; k < end && status == BS_OK; k++)
        status = bs_cu_run_launch(s, &s->launches.list[k], error);
    return status;
}

#if BS_CU_CONDITIONAL
/* Launches, captured into the empty graph of a conditional node. */
static bs_status bs_cu_capture_body(bs_device_session *s, cudaGraph_t body, int32_t at, int32_t count, bs_error *error)
{
    bs_status status = bs_cu_body_open(s, body, error);
    if (status != BS_OK)
        return status;
    status = bs_cu_run_launches(s, at, at + count, error);
    const bs_status ended = bs_cu_body_close(s, status == BS_OK ? error : NULL);
    return status == BS_OK ? ended : status;
}

static bs_status bs_cu_run_if(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    cudaGraphConditionalHandle handle;
    cudaGraph_t body = NULL;
    bs_status status = bs_cu_check(cudaGraphConditionalHandleCreate(&handle, s->graph, 0, 0), "making a condition",
                                   error);
    if (status == BS_OK)
        status = bs_cu_queue_any_rows(s, at, count, handle, true, error);
    if (status != BS_OK)
        return status; /* still capturing: bs_cu_graph_give_up ends it */
    status = bs_cu_capture_close(s, error);
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_add_conditional(s, cudaGraphCondTypeIf, handle, &body, error);
    if (status == BS_OK)
        status = bs_cu_capture_body(s, body, at, count, error);
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}
#else
static bs_status bs_cu_run_if(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    return bs_cu_run_launches(s, at, at + count, error);
}
#endif

/* -------------------------------------------------------------------------------------------------- a run */

/* Launches [first, end) as the launch mode says. Where weights are streamed it is the interpreter that goes round
 * loops. */
static bs_status bs_cu_run_lowered(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    const bool decides = s->launch_mode == BS_LAUNCH_CONDITIONAL && s->capturing,
               goes_round = !bs_plan_streams(s->client->plan);
    bs_status status = BS_OK;
    bs_cu_rounds rounds;
    rounds.count = 0;
    for (int32_t k = first; k < end && status == BS_OK;) {
        const int32_t branch = decides ? bs_cu_branch_length(s, k, end) : 0, round = s->launches.list[k].round;
        status = branch > 0 ? bs_cu_run_if(s, k, branch, error) : bs_cu_run_launch(s, &s->launches.list[k], error);
        if (status == BS_OK && goes_round && round > 0)
            status = bs_cu_enter_loop(s, &rounds, k, error);
        else if (status == BS_OK && goes_round && round < 0)
            status = bs_cu_leave_loop(s, &rounds, &k, error);
        k += branch > 0 ? branch : 1;
    }
    if (bs_cu_has_nodes(s) && s->capturing && rounds.count > 0) /* it failed within */
        s->graph = rounds.list[0].around;
    return status;
}

/* Whether to capture this run: nothing in it needs the host, and with AUTO it is like the last one. */
static bool bs_cu_wants_graph(const bs_device_session *s, bool like)
{
    const bool wanted = s->launch_mode == BS_LAUNCH_GRAPH || s->launch_mode == BS_LAUNCH_CONDITIONAL ||
                        (s->launch_mode == BS_LAUNCH_AUTO && like);
    const bool unrolls = !bs_cu_has_nodes(s);
    if (!wanted || s->no_graph || s->device->launches || bs_plan_streams(s->client->plan) ||
        (unrolls && bs_cu_unrolled(s) == BS_CU_UNROLLED))
        return false;
    for (int32_t k = 0; k < s->launches.count; k++)
        if (s->launches.list[k].callback)
            return false;
    return true;
}

#endif
