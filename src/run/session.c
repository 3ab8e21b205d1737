/* run/session.c - states, running, and what a session tells about its runs.
 * Relies on run/session.h. Must never let a run begin that run/extents.c has not checked. */
#include "run/session.h"
#include "ops/structure.h"

/* -------------------------------------------------------------------------------------------------- states */

/* Whether the session itself provides the memory of this state. */
bool bs_session_owns_state(const bs_session *s, int32_t n)
{
    const bs_bound *bound = bs_bound_of(s, n);
    return bound->state && bound->buffer.data == bound->state;
}

/* Zeroes a state that is dense, on the host or on a device. */
static void zero_state(bs_session *s, uint8_t *memory, bs_bytes bytes)
{
    if (!s->device)
        memset(memory, 0, (size_t)bs_bytes_figure(bytes));
    else if (s->device->api->zero(s->on_device, memory, bs_bytes_figure(bytes)) != BS_OK)
        s->broken = true;
}

/* Zeroes a caller's buffer in runs of adjacent elements: the gaps between elements are not the session's, and on a GPU
 * the host may not reach the buffer. */
static void zero_bound(bs_session *s, const bs_buffer *b)
{
    const int64_t bytes = (int64_t)bs_dtype_bytes(b->dtype);
    int64_t run = 1, runs = 1;
    int32_t outer = b->rank;
    for (; outer > 0 && (b->dim[outer - 1] == 1 || b->stride[outer - 1] == run); outer--)
        run *= b->dim[outer - 1];
    for (int32_t i = 0; i < outer; i++)
        runs *= b->dim[i];
    for (int64_t k = 0; k < runs; k++) {
        int64_t rest = k, at = 0;
        for (int32_t i = outer - 1; i >= 0; i--) {
            at += rest % b->dim[i] * b->stride[i];
            rest /= b->dim[i];
        }
        zero_state(s, (uint8_t *)b->data + at * bytes, bs_bytes_array(run, (size_t)bytes));
    }
}

void bs_reset_state(bs_session *session)
{
    if (!session)
        return;
    bs_wait(session, NULL);
    session->state_valid = session->broken = false;
    for (int32_t k = 0; k < session->n_watched; k++) {
        const int32_t n = session->watched[k];
        if (!bs_session_is_state(session->plan, n))
            continue;
        const bs_bound *bound = bs_bound_of(session, n);
        if (bs_session_owns_state(session, n))
            zero_state(session, bound->state, bound->state_bytes);
        else
            zero_bound(session, &bound->buffer);
    }
}

/* ----------------------------------------------------------------------------------------------------- run */

/* A state in the session's own memory takes the extents of this run, without gaps; where they changed, its content is
 * zeroed. Called when nothing can refuse the run any more, so that a refused run leaves states as they were. */
static void shape_own_state(bs_session *s, int32_t n, const bs_value_info *v)
{
    bs_bound *bound = bs_bound_of(s, n);
    bs_buffer *b = &bound->buffer;
    bool same = b->rank == v->rank;
    for (int32_t i = 0; same && i < v->rank; i++)
        same = b->dim[i] == s->dims[v->dims[i]];
    if (same)
        return;
    b->dtype = v->dtype;
    b->rank = v->rank;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        b->dim[i] = s->dims[v->dims[i]];
        b->stride[i] = i == v->rank - 1 ? 1 : b->stride[i + 1] * b->dim[i + 1];
    }
    zero_state(s, bound->state, bound->state_bytes);
    s->state_valid = false;
}

static void run_begin(bs_session *s)
{
    for (int32_t k = 0; k < s->n_watched; k++) {
        const int32_t n = s->watched[k];
        if (bs_session_is_state(s->plan, n) && bs_session_owns_state(s, n))
            shape_own_state(s, n, bs_bound_info(s, n));
    }
    const size_t slots = (size_t)s->graph->n_paths;
    memset(s->path_ns, 0, (size_t)s->plan->threads * slots * sizeof *s->path_ns);
    memset(s->route_counts, 0, (size_t)s->plan->threads * slots * sizeof *s->route_counts);
    for (int32_t r = 1; r < s->graph->n_routers; r++) {
        s->dropped[r] = 0;
        memset(s->chosen[r], -1,
               (size_t)s->root.domains[bs_plan_top_domain(s->graph, s->graph->routers[r].domain)].count *
                   sizeof **s->chosen);
    }
    *s->fault = *s->root.fault = '\0';
    atomic_store(&s->status, BS_OK);
}

/* Sums what the threads counted in this run. */
static void sum_threads(bs_session *s)
{
    const size_t slots = (size_t)s->graph->n_paths;
    memset(s->counts, 0, slots * sizeof *s->counts);
    for (int32_t t = 0; t < s->plan->threads; t++)
        for (size_t k = 0; k < slots; k++) {
            s->counts[k] += s->route_counts[(size_t)t * slots + k];
            if (t > 0)
                s->path_ns[k] += s->path_ns[(size_t)t * slots + k];
        }
}

/* The run is over, with or without success. */
static void run_over(bs_session *s, bs_status status)
{
    s->pending = false;
    s->last = status;
    s->state_valid = status == BS_OK && s->writes_states;
    s->broken = status != BS_OK && s->writes_states;
}

#if !defined(BS_NO_MESSAGES)
/* "operand 0 has H<=8 = 7, W<=8 = 8": what a node found no good, where no rule of dimensions refuses it before the
 * run. */
static void say_extents(bs_session *s, int32_t node)
{
    const bs_value_info *v = &s->graph->values[bs_node_in(s->graph, &s->graph->nodes[node])[0]];
    size_t used = 0;
    for (int32_t i = 0; i < v->rank && used < sizeof s->fault; i++) {
        char text[64];
        if (!bs_dim_is_const(s->graph, v->dims[i]))
            used +=
                (size_t)snprintf(s->fault + used, sizeof s->fault - used, "%s%" PRId32 " (%s) is %lld",
                                 used ? ", " : "operand 0: dimension ", i,
                                 bs_dim_text(s->graph, v->dims[i], text, sizeof text), (long long)s->dims[v->dims[i]]);
    }
}
#endif

/* node: where the run failed. */
static bs_status run_failed_at(bs_session *s, bs_status status, int32_t node, bs_error *error)
{
    if (status == BS_OK)
        return BS_OK;
#if !defined(BS_NO_MESSAGES)
    if (status == BS_ERROR_SHAPE && !*s->fault)
        say_extents(s, node);
#endif
    const int32_t router = s->graph->nodes[node].router;
    const bool ends = router && s->graph->routers[router].loop.again == node; /* a loop is known by how it begins */
    const int32_t named = ends ? s->graph->routers[router].node : node;
    return (bs_fail)(error, status, "%s \"%s\" (node %" PRId32 "): %s", bs_op_get(s->graph->nodes[named].op)->name,
                     bs_node_name(&s->graph->nodes[named]), s->graph->nodes[named].number,
                     *s->fault ? s->fault : bs_status_text(status));
}

/* Runs on this thread. */
static bs_status run_here(bs_session *s, bs_error *error)
{
    bs_execute(s);
    bs_store_leave(&s->store);
    return run_failed_at(s, (bs_status)atomic_load(&s->status), atomic_load(&s->failed_node), error);
}

/* Queues a run. Where weights are streamed the host takes part in it, step by step. */
static bs_status run_queue(bs_session *s, bs_error *error)
{
    const bs_device_api *api = s->device->api;
    s->started_ns = bs_session_now(s);
    bs_status status = api->begin(s->on_device, error);
    if (status == BS_OK)
        status = bs_plan_streams(s->plan) ? run_here(s, error) : api->run(s->on_device, 0, s->plan->n_top, error);
    if (status == BS_OK)
        return api->end(s->on_device, error);
    api->settle(s->on_device, NULL);
    return status;
}

static bs_status session_submit(bs_session *session, bs_error *error)
{
    bs_error here = {.status = BS_OK};
    if (!session)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_submit: the session is NULL");
    if (!session->broken) {
        if (!bs_session_check_run(session, &here))
            return bs_tell(&here, error);
        run_begin(session); /* on a device, zeroing a state may fail */
    }
    if (session->broken)
        return bs_fail(error, BS_ERROR_DATA, "the last run failed and left its states in between: call bs_reset_state");
    const bs_status status = session->device ? run_queue(session, error) : run_here(session, error);
    session->pending = session->device && status == BS_OK;
    if (!session->device)
        sum_threads(session);
    if (!session->pending)
        run_over(session, status);
    return status;
}

bs_status bs_submit(bs_session *session, bs_error *error)
{
    bs_session_enter(session);
    const bs_status status = session_submit(session, error);
    bs_session_leave(session);
    return status;
}

static bs_status session_wait(bs_session *session, bs_error *error)
{
    int32_t node = 0;
    if (!session)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_wait: the session is NULL");
    if (!session->pending)
        return session->last == BS_OK
                   ? BS_OK
                   : bs_fail(error, session->last, "the last run failed: %s", bs_status_text(session->last));
    const bs_status status = session->device->api->wait(session->on_device, &node, error);
    bs_extents_count(session);
    bs_exec_ended(session, session->started_ns);
    run_over(session, status);
    /* node 0: the device itself failed, and its message stands */
    return node == 0 ? status : run_failed_at(session, status, node, error);
}

bs_status bs_wait(bs_session *session, bs_error *error)
{
    bs_session_enter(session);
    const bs_status status = session_wait(session, error);
    bs_session_leave(session);
    return status;
}

bs_status bs_run(bs_session *session, bs_error *error)
{
    const bs_status status = bs_submit(session, error);
    return status == BS_OK ? bs_wait(session, error) : status;
}

bool bs_state_valid(const bs_session *session)
{
    return session && session->state_valid;
}

/* ---------------------------------------------------------------------------------------------------- asking */

bs_status bs_decision_get(const bs_session *session, const char *router, bs_decision *decision)
{
    const int32_t r = session && decision ? bs_graph_router_named(session->graph, router) : 0;
    if (r == 0)
        return BS_ERROR_ARGUMENT;
    const bs_router_info *info = &session->graph->routers[r];
    decision->paths = info->desc->paths;
    decision->counts = session->counts + info->first_path;
    decision->ns = session->path_ns + info->first_path;
    decision->cells = session->root.domains[bs_plan_top_domain(session->graph, info->domain)].count;
    decision->chosen = session->chosen[r];
    decision->dropped = session->dropped[r];
    return BS_OK;
}

bs_status bs_output_extents(const bs_session *session, const char *output, int64_t *dims)
{
    const int32_t n = session && output && dims ? bs_graph_named(session->graph, output, false) : 0;
    if (n == 0 || !bs_node_is_output(&session->graph->nodes[n]))
        return BS_ERROR_ARGUMENT;
    const bs_value_info *v = bs_bound_info(session, n);
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        dims[i] = i < v->rank ? session->dims[v->dims[i]] : 0;
    return BS_OK;
}

void bs_session_stats(const bs_session *session, bs_run_stats *stats)
{
    if (!stats)
        return;
    memset(stats, 0, sizeof *stats);
    if (session)
        *stats = session->stats;
}

#if !defined(BS_NO_STREAM)
void bs_session_stream_stats(bs_session *session, bs_stream_stats *stats)
{
    if (!stats)
        return;
    memset(stats, 0, sizeof *stats);
    if (session && session->store.plan)
        bs_store_stats(&session->store, stats);
}

bs_status bs_session_prediction_get(bs_session *session, int32_t phase, bs_predictor predictor,
                                    bs_prediction *prediction)
{
    if (!prediction)
        return BS_ERROR_ARGUMENT;
    memset(prediction, 0, sizeof *prediction);
    if (!session || !session->store.plan || phase < -1 || phase >= session->plan->n_phases ||
        (uint32_t)predictor >= BS_PREDICTOR_COUNT)
        return BS_ERROR_ARGUMENT;
    for (int32_t j = phase < 0 ? 0 : phase; j < (phase < 0 ? session->plan->n_phases : phase + 1); j++)
        bs_store_prediction(&session->store, j, predictor, prediction);
    return BS_OK;
}
#endif
