/* run/session.c - binding buffers, running, asking what happened.
 * Relies on run/session.h. Must never let a run begin whose extents or buffers do not fit the plan. */
#include "run/session.h"
#include "ops/structure.h"

/* -------------------------------------------------------------------------------------------------- states */

/* Whether the session itself provides the memory of this state. */
bool bs_session_owns_state(const bs_session *s, int32_t n)
{
    return s->state[n] && s->bound[n].data == s->state[n];
}

/* A state in one piece, wherever it lies. */
static void zero_state(bs_session *s, uint8_t *memory, bs_bytes bytes)
{
    if (!s->device)
        memset(memory, 0, (size_t)bs_bytes_figure(bytes));
    else if (s->device->api->zero(s->on_device, memory, bs_bytes_figure(bytes)) != BS_OK)
        s->broken = true;
}

/* A caller's buffer, piece by piece as far as its elements lie side by side: what is between them is not the session's,
 * and on a GPU the host may not reach it. */
static void zero_bound(bs_session *s, const bs_buffer *b)
{
    const int64_t bytes = (int64_t)bs_dtype_bytes(b->dtype);
    int64_t piece = 1, pieces = 1;
    int32_t outer = b->rank;
    for (; outer > 0 && (b->dim[outer - 1] == 1 || b->stride[outer - 1] == piece); outer--)
        piece *= b->dim[outer - 1];
    for (int32_t i = 0; i < outer; i++)
        pieces *= b->dim[i];
    for (int64_t k = 0; k < pieces; k++) {
        int64_t rest = k, at = 0;
        for (int32_t i = outer - 1; i >= 0; i--) {
            at += rest % b->dim[i] * b->stride[i];
            rest /= b->dim[i];
        }
        zero_state(s, (uint8_t *)b->data + at * bytes, bs_bytes_array(piece, (size_t)bytes));
    }
}

void bs_reset_state(bs_session *session)
{
    if (!session)
        return;
    bs_wait(session, NULL);
    session->state_valid = session->broken = false;
    for (int32_t n = 1; n < session->graph->n_nodes; n++) {
        const bs_buffer *b = &session->bound[n];
        if (!bs_session_is_state(session->plan, n))
            continue;
        if (bs_session_owns_state(session, n)) {
            zero_state(session, session->state[n], session->state_bytes[n]);
            continue;
        }
        zero_bound(session, b);
    }
}

/* ------------------------------------------------------------------------------------------------- binding */

static int32_t find_named(const bs_session *s, const char *name)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        const bs_node *node = &s->graph->nodes[n];
        if (bs_op_get(node->op)->bound && strcmp(bs_node_name(node), name) == 0)
            return n;
    }
    return 0;
}

static const bs_value_info *bound_value(const bs_session *s, int32_t n)
{
    return &s->graph->values[bs_bound_value(s->graph, &s->graph->nodes[n])];
}

/* A session is used by one thread at a time; builds with BS_DEBUG see to it. */
static void session_enter(bs_session *session)
{
    BS_DEBUG_CHECK(!session || session->mark == BS_MARK_SESSION);
#if defined(BS_DEBUG)
    const int others = session ? atomic_fetch_add(&session->users, 1) : 0;
    BS_DEBUG_CHECK(others == 0 && "one thread at a time");
#endif
    (void)session;
}

static void session_leave(bs_session *session)
{
#if defined(BS_DEBUG)
    if (session)
        atomic_fetch_sub(&session->users, 1);
#endif
    (void)session;
}

/* Elements of a buffer are apart when every stride, by size, is larger than all that the smaller ones reach. That
 * refuses a few layouts whose elements interleave without meeting, which nobody has. */
static bs_status check_strides(const bs_buffer *b, const char *name, bool written, bs_error *error)
{
    int32_t order[BS_MAX_RANK], n = 0;
    uint64_t step[BS_MAX_RANK], reach = 0;
    for (int32_t i = 0; i < b->rank; i++) {
        step[i] = b->stride[i] < 0 ? (uint64_t)-(b->stride[i] + 1) + 1 : (uint64_t)b->stride[i]; /* of INT64_MIN too */
        int32_t at = n++;
        for (; at > 0 && step[order[at - 1]] > step[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int32_t k = 0; k < n; k++) {
        const int32_t i = order[k];
        if (b->dim[i] == 1)
            continue;
        if (written && step[i] <= reach)
            return bs_fail(
                error, BS_ERROR_ARGUMENT,
                "bs_bind \"%s\": its elements overlap: the stride of dimension %d is %lld, expected %llu or more, "
                "either way",
                name, i, (long long)b->stride[i], (unsigned long long)bs_add_u64(reach, 1));
        reach = bs_add_u64(reach, bs_mul_u64(step[i], (uint64_t)b->dim[i] - 1));
    }
    if (bs_mul_u64(bs_add_u64(reach, 1), bs_dtype_bytes(b->dtype)) > PTRDIFF_MAX)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_bind \"%s\": its strides reach beyond all memory", name);
    return BS_OK;
}

#if defined(BS_DEBUG)
/* From the first byte that strides reach to the end of the last. */
static const uint8_t *buffer_extent(const bs_buffer *b, uint64_t *bytes)
{
    int64_t low = 0, high = 1;
    for (int32_t i = 0; i < b->rank; i++) {
        const int64_t reach = b->stride[i] * (b->dim[i] - 1);
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    const int64_t each = (int64_t)bs_dtype_bytes(b->dtype);
    *bytes = (uint64_t)((high - low) * each);
    return (const uint8_t *)b->data + low * each;
}

static bool buffer_is_outside(const bs_session *session, const bs_buffer *b)
{
    uint64_t bytes;
    const uint8_t *first = buffer_extent(b, &bytes);
    return bs_disjoint(first, bytes, session->transient, bs_bytes_figure(session->plan->transient_bytes));
}
#endif

static bs_status session_bind(bs_session *session, const char *name, const bs_buffer *buffer, bs_error *error)
{
    if (!session || !name || !buffer || !buffer->data)
        return bs_fail(error, BS_ERROR_ARGUMENT,
                       "bs_bind \"%s\": the session, the name, the buffer or its data is NULL", name ? name : "");
    const int32_t n = find_named(session, name);
    if (!n)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_bind \"%s\": there is no input, output or state of that name",
                       name);
    const bs_value_info *v = bound_value(session, n);
    if (buffer->dtype != v->dtype || buffer->rank != v->rank)
        return bs_fail(error, BS_ERROR_SHAPE, "bs_bind \"%s\": %s of rank %d given, %s of rank %d expected", name,
                       bs_dtype_name(buffer->dtype), buffer->rank, bs_dtype_name(v->dtype), v->rank);
    bs_buffer b = *buffer;
    bool dense = true;
    for (int32_t i = 0; i < b.rank; i++) {
        char text[64];
        const int64_t maximum = bs_dim_max(session->graph, v->dims[i]);
        const bool fixed = bs_dim_is_const(session->graph, v->dims[i]);
        if (b.dim[i] < 1 || b.dim[i] > maximum || (fixed && b.dim[i] != maximum))
            return bs_fail(error, BS_ERROR_SHAPE, "bs_bind \"%s\": dimension %d is %lld, expected %s%s", name, i,
                           (long long)b.dim[i],
                           fixed ? "" : "1<=", bs_dim_text(session->graph, v->dims[i], text, sizeof text));
        dense = dense && b.stride[i] == 0;
    }
    for (int32_t i = b.rank - 1; dense && i >= 0; i--)
        b.stride[i] = i == b.rank - 1 ? 1 : b.stride[i + 1] * b.dim[i + 1];
    const bs_status status = check_strides(&b, name, !bs_node_is_input(&session->graph->nodes[n]), error);
    if (status != BS_OK)
        return status;
    BS_DEBUG_CHECK(buffer_is_outside(session, &b));
    session->bound[n] = b;
    return BS_OK;
}

bs_status bs_bind(bs_session *session, const char *name, const bs_buffer *buffer, bs_error *error)
{
    session_enter(session);
    const bs_status status = session_bind(session, name, buffer, error);
    session_leave(session);
    return status;
}

bs_status bs_set_route(bs_session *session, const char *router, bs_route_function function, void *user, bs_error *error)
{
    for (int32_t r = 1; session && router && r < session->graph->n_routers; r++)
        if (strcmp(session->graph->routers[r].desc->name, router) == 0) {
            session->callbacks[r].function = function;
            session->callbacks[r].user = user;
            return BS_OK;
        }
    return bs_fail(error, BS_ERROR_ARGUMENT, "bs_set_route \"%s\": the session is NULL or has no router of that name",
                   router ? router : "");
}

/* ------------------------------------------------------------------------------------------------- extents */

/* The input that gave this symbol its extent. */
static const char *who_said(const bs_session *s, bs_dim_id symbol)
{
    for (int32_t n = 1;; n++) {
        const bool input = s->plan->node_live[n] && bs_node_is_input(&s->graph->nodes[n]);
        const bs_value_info *v = input ? bound_value(s, n) : NULL;
        for (int32_t i = 0; v && i < v->rank; i++)
            if (v->dims[i] == symbol)
                return bs_node_name(&s->graph->nodes[n]);
    }
}

/* Extents that an input's buffer gives; two inputs that share a symbol must agree. */
static bs_status take_symbols(bs_session *s, int32_t n, bs_error *error)
{
    const bs_value_info *v = bound_value(s, n);
    for (int32_t i = 0; i < v->rank; i++) {
        int64_t *now = &s->dims[v->dims[i]];
        if (s->graph->dims[v->dims[i]].kind != BS_DIM_SYMBOL)
            continue;
        if (*now != 0 && *now != s->bound[n].dim[i] && s->plan->node_live[n])
            return bs_fail(error, BS_ERROR_SHAPE, "input \"%s\": dimension %d is %lld, by \"%s\" it is %lld",
                           bs_node_name(&s->graph->nodes[n]), i, (long long)s->bound[n].dim[i], who_said(s, v->dims[i]),
                           (long long)*now);
        *now = *now ? *now : s->bound[n].dim[i];
    }
    return BS_OK;
}

/* Inputs that this plan does not read give what the others leave open, when they are bound. */
static bs_status set_symbols(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    bs_status status = BS_OK;
    for (int32_t d = 0; d < g->n_dims; d++)
        s->dims[d] = g->dims[d].kind == BS_DIM_CONST ? g->dims[d].maximum : 0;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t n = 1; n < g->n_nodes && status == BS_OK; n++) {
            if (!bs_node_is_input(&g->nodes[n]) || s->plan->node_live[n] == (pass == 1))
                continue;
            if (s->bound[n].data)
                status = take_symbols(s, n, error);
            else if (pass == 0)
                status = bs_fail(error, BS_ERROR_UNBOUND, "input \"%s\" is not bound", bs_node_name(&g->nodes[n]));
        }
    return status;
}

static bs_status derive_extents(bs_session *s, bs_error *error)
{
    char text[64];
    for (int32_t d = 0; d < s->graph->n_dims; d++) {
        const bs_dim_info *dim = &s->graph->dims[d];
        if (dim->kind == BS_DIM_SYMBOL && s->dims[d] == 0)
            s->dims[d] = dim->maximum; /* no input has it: states keep their maximum */
        if (dim->kind == BS_DIM_DERIVED)
            s->dims[d] = bs_floor_div(s->dims[dim->parent] * dim->mul + dim->add, dim->div);
        if (s->dims[d] < 1)
            return bs_fail(error, BS_ERROR_SHAPE,
                           "dimension %s is %lld in this run: an input is smaller than the network's window",
                           bs_dim_text(s->graph, d, text, sizeof text), (long long)s->dims[d]);
    }
    return BS_OK;
}

static bs_status check_extents(const bs_session *s, int32_t n, bs_error *error)
{
    const bs_value_info *v = bound_value(s, n);
    for (int32_t i = 0; i < v->rank; i++)
        if (s->bound[n].dim[i] != s->dims[v->dims[i]])
            return bs_fail(error, BS_ERROR_SHAPE, "\"%s\": dimension %d of its buffer is %lld, this run needs %lld",
                           bs_node_name(&s->graph->nodes[n]), i, (long long)s->bound[n].dim[i],
                           (long long)s->dims[v->dims[i]]);
    return BS_OK;
}

/* An own state is as large as this run's extents ask, densely; a change of size starts it anew. Once all else is
 * sound. */
static void shape_own_state(bs_session *s, int32_t n, const bs_value_info *v)
{
    bs_buffer *b = &s->bound[n];
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
    zero_state(s, s->state[n], s->state_bytes[n]);
    s->state_valid = false;
}

/* A copy of a state that already has a place of its own is not asked for. */
static bool output_is_optional(const bs_session *s, int32_t n)
{
    const int32_t value = bs_node_in(s->graph, &s->graph->nodes[n])[0];
    return s->plan->values[value].place == BS_PLACE_STATE;
}

static bs_status check_bound(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    bs_status status = BS_OK;
    for (int32_t n = 1; n < g->n_nodes && status == BS_OK; n++) {
        const bool input = bs_node_is_input(&g->nodes[n]) && s->plan->node_live[n];
        const bool output = bs_node_is_output(&g->nodes[n]),
                   state = bs_session_is_state(s->plan, n) && !bs_session_owns_state(s, n);
        if (!input && !output && !state)
            continue;
        if (!s->bound[n].data && output_is_optional(s, n))
            continue;
        if (!s->bound[n].data)
            return bs_fail(error, BS_ERROR_UNBOUND, "output \"%s\" is not bound", bs_node_name(&g->nodes[n]));
        status = check_extents(s, n, error);
    }
    return status;
}

/* A tensor that joins the cells of another value has a row for each in this run, too. */
static bs_status check_rows(const bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        if (!s->plan->node_live[n] || !bs_node_is_view(node) || node->router != 0)
            continue;
        const bs_value_info *x = &g->values[bs_node_in(g, node)[0]];
        const int64_t rows = s->dims[x->dims[0]];
        const int32_t cells = s->root.domains[node->domain].count;
        if (x->rank > g->values[node->first_out].rank && rows < cells)
            return bs_fail(error, BS_ERROR_SHAPE,
                           "rows (node %d): dimension 0 of \"%s\" is %lld, this run has %d cells", n,
                           bs_node_name(&g->nodes[x->node]), (long long)rows, cells);
    }
    return BS_OK;
}

static bs_status count_rows(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t d = 1; d < g->n_domains; d++) {
        const bs_domain *domain = &g->domains[d];
        bs_rows_state *rows = &s->root.domains[d];
        memset(rows, 0, sizeof *rows);
        if (domain->kind == BS_DOMAIN_ROWS || domain->kind == BS_DOMAIN_SEGMENTS)
            rows->count = (int32_t)s->dims[domain->rows];
        if (domain->kind == BS_DOMAIN_PATCHES) {
            const int64_t size = s->plan->domains[d].size;
            rows->count = (int32_t)(bs_ceil_div(s->dims[domain->height], size) *
                                    bs_ceil_div(s->dims[domain->width], size));
        }
    }
    return check_rows(s, error);
}

/* ----------------------------------------------------------------------------------------------------- run */

static void run_begin(bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        if (bs_session_is_state(s->plan, n) && bs_session_owns_state(s, n))
            shape_own_state(s, n, bound_value(s, n));
    const size_t slots = (size_t)s->graph->n_paths;
    memset(s->path_ns, 0, (size_t)s->plan->threads * slots * sizeof *s->path_ns);
    memset(s->route_counts, 0, (size_t)s->plan->threads * slots * sizeof *s->route_counts);
    for (int32_t r = 1; r < s->graph->n_routers; r++) {
        s->dropped[r] = 0;
        memset(s->chosen[r], -1,
               (size_t)s->root.domains[bs_plan_top_domain(s->graph, s->graph->routers[r].domain)].count *
                   sizeof **s->chosen);
    }
    *s->fault = '\0';
    atomic_store(&s->status, BS_OK);
}

/* Sums what the threads counted. */
static void run_end(bs_session *s)
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

static bool writes_states(const bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        if (s->plan->node_live[n] && bs_node_operand(&s->graph->nodes[n], BS_ROLE_STATE) >= 0)
            return true;
    }
    return false;
}

/* Checks a run before anything happens. */
static bs_status run_check(bs_session *s, bs_error *error)
{
    bs_status status = set_symbols(s, error);
    status = status == BS_OK ? derive_extents(s, error) : status;
    status = status == BS_OK ? check_bound(s, error) : status;
    status = status == BS_OK ? count_rows(s, error) : status;
    return status == BS_OK ? bs_segments_begin(s, error) : status;
}

/* The run is over, with `status`; node: the one that failed. */
static bs_status run_ended(bs_session *s, bs_status status, int32_t node, bs_error *error)
{
    s->pending = false;
    s->last = status;
    s->state_valid = status == BS_OK && writes_states(s);
    if (status == BS_OK)
        return BS_OK;
    s->broken = writes_states(s);
    return bs_fail(error, status, "%s \"%s\" (node %d): %s", bs_op_get(s->graph->nodes[node].op)->name,
                   bs_node_name(&s->graph->nodes[node]), node, *s->fault ? s->fault : bs_status_text(status));
}

static bs_status run_here(bs_session *s, bs_error *error)
{
    bs_execute(s);
    run_end(s);
    bs_store_leave(&s->store);
    return run_ended(s, (bs_status)atomic_load(&s->status), atomic_load(&s->failed_node), error);
}

/* Queues a run. Where weights come and go the host takes part in it, step by step. */
static bs_status run_queue(bs_session *s, bs_error *error)
{
    const bs_device_api *api = s->device->api;
    bs_status status = api->begin(s->on_device, error);
    if (status == BS_OK && !bs_plan_streams(s->plan)) {
        status = api->run(s->on_device, 0, s->plan->n_top, error);
    } else if (status == BS_OK) {
        bs_execute(s);
        bs_store_leave(&s->store);
        if (bs_exec_failed(s)) {
            api->settle(s->on_device, NULL);
            return run_ended(s, (bs_status)atomic_load(&s->status), atomic_load(&s->failed_node), error);
        }
    }
    if (status == BS_OK)
        return api->end(s->on_device, error);
    api->settle(s->on_device, NULL);
    return status;
}

static bs_status session_submit(bs_session *session, bs_error *error)
{
    if (!session)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_submit: the session is NULL");
    bs_status status = session->broken ? BS_OK : run_check(session, error);
    if (status != BS_OK)
        return status;
    if (!session->broken)
        run_begin(session); /* on a device states that are to be zero may not become it */
    if (session->broken)
        return bs_fail(error, BS_ERROR_DATA, "the last run failed and left its states in between: call bs_reset_state");
    if (!session->device)
        return run_here(session, error);
    session->started_ns = bs_session_now(session);
    status = run_queue(session, error);
    session->pending = status == BS_OK;
    if (status != BS_OK) {
        session->last = status;
        session->state_valid = false;
        session->broken = writes_states(session);
    }
    return status;
}

bs_status bs_submit(bs_session *session, bs_error *error)
{
    session_enter(session);
    const bs_status status = session_submit(session, error);
    session_leave(session);
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
    bs_exec_ended(session, session->started_ns);
    if (node == 0 && status != BS_OK) { /* the device itself: its message stands */
        session->pending = false;
        session->last = status;
        session->state_valid = false;
        session->broken = writes_states(session);
        return status;
    }
    return run_ended(session, status, node, error);
}

bs_status bs_wait(bs_session *session, bs_error *error)
{
    session_enter(session);
    const bs_status status = session_wait(session, error);
    session_leave(session);
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
    for (int32_t r = 1; session && router && decision && r < session->graph->n_routers; r++) {
        if (strcmp(session->graph->routers[r].desc->name, router) != 0)
            continue;
        const int32_t top = bs_plan_top_domain(session->graph, session->graph->routers[r].domain);
        decision->paths = session->graph->routers[r].desc->paths;
        decision->counts = session->counts + session->graph->routers[r].first_path;
        decision->ns = session->path_ns + session->graph->routers[r].first_path;
        decision->cells = session->root.domains[top].count;
        decision->chosen = session->chosen[r];
        decision->dropped = session->dropped[r];
        return BS_OK;
    }
    return BS_ERROR_ARGUMENT;
}

void bs_session_stats(const bs_session *session, bs_run_stats *stats)
{
    if (!stats)
        return;
    memset(stats, 0, sizeof *stats);
    if (session)
        *stats = session->stats;
}

void bs_session_stream_stats(bs_session *session, bs_stream_stats *stats)
{
    if (!stats)
        return;
    memset(stats, 0, sizeof *stats);
    if (session && session->store.plan)
        bs_store_stats(&session->store, stats);
}

bs_status bs_session_prediction_get(bs_session *session, int32_t stage, bs_predictor predictor,
                                    bs_prediction *prediction)
{
    if (!prediction)
        return BS_ERROR_ARGUMENT;
    memset(prediction, 0, sizeof *prediction);
    if (!session || !session->store.plan || stage < -1 || stage >= session->plan->n_stages || (int32_t)predictor < 0 ||
        predictor >= BS_PREDICTOR_COUNT)
        return BS_ERROR_ARGUMENT;
    for (int32_t j = stage < 0 ? 0 : stage; j < (stage < 0 ? session->plan->n_stages : stage + 1); j++)
        bs_store_prediction(&session->store, j, predictor, prediction);
    return BS_OK;
}
