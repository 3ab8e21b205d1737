/* run/exec.c - running a plan: one interpreter for the whole session and for a tile.
 *
 * At top level an instruction runs over all rows of its domain in parallel; inside a region a thread takes a tile and
 * runs the part's instructions on its rows, one after the other, in its own scratch. Results never depend on which
 * thread takes which tile.
 * Relies on run/session.h. Must never allocate or plan, or let a bit depend on how work is cut. */
#include "run/exec.h"

enum { OPS_REST_NS = 16000 }; /* over 100 times what an event takes on its way to a file, 0.13 us */

bool bs_exec_fail(bs_session *s, bs_status status, int32_t node)
{
    int expected = BS_OK;
    const bool first = status != BS_OK && atomic_compare_exchange_strong(&s->status, &expected, (int)status);
    if (first)
        atomic_store(&s->failed_node, node);
    return first;
}

static void record_event(const bs_session *s, bs_event_kind kind, uint64_t start, uint64_t end, int32_t subject,
                         int32_t index, uint64_t value)
{
    const bs_event event = {start, end, value, subject, index, (int16_t)kind, 0, 0};
    bs_profile_add(s->profile, &event);
}

/* Where ops are recorded: that this instruction ran since `since`. Returns the time now. */
static uint64_t record_op(const bs_context *c, const bs_instr *i, uint64_t since)
{
    const bs_session *s = c->session;
    if (i->kind == BS_INSTR_RUN) /* its tiles record themselves */
        return bs_session_now(s);
    const bs_event event = {since, bs_session_now(s), (uint64_t)c->domains[i->domain].count,
                            i->node, c->tile, BS_EVENT_OP, (int16_t)c->thread, 0};
    bs_profile_add(s->profile, &event);
    return event.end_ns;
}

/* Events of ops may take as long as a small kernel: they are paid for by runs without any. */
static void ops_begin(bs_session *s)
{
    s->times_ops = s->ops > 1 || (s->ops == 1 && s->ops_rest_ns == 0);
    if (s->times_ops)
        s->events = bs_profile_added(s->profile);
}

BS_WRAPS static void ops_end(bs_session *s, uint64_t run_ns)
{
    if (s->times_ops)
        s->ops_rest_ns = (uint64_t)(bs_profile_added(s->profile) - s->events) * OPS_REST_NS;
    s->ops_rest_ns = s->ops_rest_ns > run_ns ? s->ops_rest_ns - run_ns : 0;
}

static void record_tile(const bs_context *c, int32_t domain, int32_t rows, uint64_t since)
{
    const bs_session *s = c->session;
    const bs_domain *d = &s->graph->domains[domain];
    const bool path = d->kind == BS_DOMAIN_PATH;
    const bs_event event = {since, bs_session_now(s), (uint64_t)rows, path ? d->router : 0, path ? d->path : 0,
                            BS_EVENT_TILE, (int16_t)c->thread, 0};
    bs_profile_add(s->profile, &event);
}

/* ------------------------------------------------------------------------------------------------- some rows */

/* An extent that a device has found: the host goes by it, too, where it goes from instruction to instruction. */
static void fetch_extents(bs_session *s, int32_t node)
{
    bs_exec_fail(s, s->device->api->fetch_extents(s->on_device, &node, NULL), node);
    bs_extents_count(s);
}

static void run_parallel(bs_session *s, const bs_instr *i)
{
    const int32_t at = (int32_t)(i - s->plan->instrs);
    if (s->device) {
        bs_exec_fail(s, s->device->api->run(s->on_device, at, at + 1, NULL), i->node);
        if (i->kind == BS_INSTR_CALL && s->graph->nodes[i->node].makes)
            fetch_extents(s, i->node);
        return;
    }
    bs_exec_alone(s, i);
}

/* All rows of the instruction's domain, on this thread. A move takes its rows one by one anyway. */
static void run_rows_here(const bs_context *c, const bs_instr *i)
{
    const int32_t rows = c->domains[i->domain].count;
    const int32_t batch = rows > 1 && i->kind == BS_INSTR_CALL ? bs_exec_batch(c->session, i) : rows;
    for (int32_t row = 0; row < rows; row += batch)
        bs_exec_rows(c, i, row, bs_min_i32(batch, rows - row), -1);
}

/* ---------------------------------------------------------------------------------------------- decisions */

/* The rows of the paths of a router, now that it has decided. */
static void open_paths(bs_context *c, const bs_step *step)
{
    const bs_domain *const all = c->session->graph->domains;
    const bs_decision_data *d = &c->decisions[step->router];
    for (int32_t k = step->domain; k; k = all[k].next) {
        const int32_t path = all[k].path, first = d->offsets[path];
        const bs_rows_state rows = {d->counts[path], c->tile ? 0 : first, d->ids + first};
        c->domains[k] = rows;
    }
}

static void tell_decision(const bs_session *s, int32_t router, const int32_t *counts)
{
    const uint64_t now = bs_session_now(s);
    for (int32_t p = 0; p < s->graph->routers[router].desc->paths; p++)
        if (counts[p] > 0)
            record_event(s, BS_EVENT_DECISION, now, now, router, p, (uint64_t)counts[p]);
}

/* Rows of a loop are counted in every trip and chosen before the first. */
static void record_decision(bs_context *c, int32_t router, bool again)
{
    bs_session *s = c->session;
    const bs_decision_data *d = &c->decisions[router];
    const int32_t domain = s->graph->routers[router].domain;
    int32_t *counts = s->route_counts + bs_session_counts(s, c->thread, router);
    for (int32_t p = 0; p < d->paths; p++)
        counts[p] += d->counts[p];
    for (int32_t row = 0; row < d->rows && !again; row++)
        s->chosen[router][bs_top_row(c, domain, row)] = (int16_t)d->chosen[row * d->per_row];
    if (c->tile)
        return;
    if (!again) /* in a loop there is a decision a trip */
        s->dropped[router] += d->dropped;
    if (s->profile)
        tell_decision(s, router, d->counts);
}

/* Decides again after a trip: rows that may have moved begin a new epoch. Rows that do not go in turn and do not grow
 * only leave. */
static bs_status decide_again(bs_context *c, int32_t router)
{
    const bs_loop_info *loop = &c->session->graph->routers[router].loop;
    const int32_t *const count = c->decisions[router].counts, before = *count;
    const bs_status status = bs_route_again(c, router);
    if (!c->tile && (*count != before || loop->in_turn || loop->grows))
        c->session->epoch[BS_EPOCH_DECIDED]++;
    return status;
}

static bs_status decide_first(bs_context *c, int32_t router)
{
    if (!c->tile)
        c->session->epoch[BS_EPOCH_DECIDED]++;
    return bs_route_decide(c, router);
}

static void route_here(bs_context *c, const bs_step *step)
{
    const int32_t router = step->router;
    const bool again = step->back >= 0;
    const bs_status status = again ? decide_again(c, router) : decide_first(c, router);
    if (status != BS_OK) {
        bs_exec_end_call(c->session, status, step->node, c->fault);
        return;
    }
    open_paths(c, step);
    record_decision(c, router, again);
}

/* The instruction after which the list goes on behind decision k: k itself, or, while a loop that ends there has rows,
 * its first decision, behind which its body begins. */
static inline int32_t next_after(const bs_context *c, const bs_step *step, int32_t k)
{
    const bool goes_on = step->back >= 0 && c->domains[step->domain].count > 0 && !bs_exec_failed(c->session);
    return goes_on ? step->back : k;
}

/* ------------------------------------------------------------------------------------------------- phases */

void bs_exec_need(bs_session *s, int32_t unit, int32_t *count)
{
    bs_exec_work *w = &s->work;
    if (unit == 0 || w->visited[unit] == w->visit)
        return;
    w->visited[unit] = w->visit;
    w->needed[(*count)++] = unit;
}

/* Tells the store what the instructions of this phase need, from instruction `at` on. */
static int32_t phase_enter(bs_session *s, int32_t at)
{
    int32_t count = 0;
    const int32_t phase = s->plan->instrs[at].phase;
    s->work.visit++;
    for (int32_t k = at; k < s->plan->n_top; k++) {
        const bs_instr *i = &s->plan->instrs[k];
        if (i->phase >= 0 && i->phase != phase)
            break;
        if (i->phase < 0)
            continue;
        if (i->kind == BS_INSTR_RUN)
            bs_exec_region_units(s, i->region, &count);
        else if (s->root.domains[i->domain].count > 0)
            bs_exec_need(s, s->plan->nodes[i->node].unit, &count);
    }
    bs_store_visit(&s->store, phase, s->work.needed, count);
    return count;
}

/* Whether no later instruction belongs to the phase of instruction `at`. */
static bool phase_ends(const bs_plan *p, int32_t at)
{
    for (int32_t k = at + 1; k < p->n_top; k++)
        if (p->instrs[k].phase >= 0)
            return p->instrs[k].phase != p->instrs[at].phase;
    return true;
}

void bs_exec_used(bs_session *s, int32_t phase, int32_t unit, uint64_t start, uint64_t end)
{
    if (s->profile)
        record_event(s, BS_EVENT_USE, start, end, unit - 1, phase, (uint64_t)bs_store_outcome(&s->store, unit));
}

void bs_exec_place(bs_session *s, int32_t unit, int32_t node)
{
    if (s->device && unit)
        bs_exec_fail(s, s->device->api->place(s->on_device, unit, s->store.base[unit], NULL), node);
}

void bs_exec_finish_reads(bs_session *s, int32_t node)
{
    if (s->device)
        bs_exec_fail(s, s->device->api->settle(s->on_device, NULL), node);
}

/* A top-level instruction whose own weights are streamed. */
static void run_streamed(bs_session *s, const bs_instr *i)
{
    const int32_t unit = s->plan->nodes[i->node].unit;
    int32_t taken = 0;
    if (s->root.domains[i->domain].count == 0)
        return;
    const bs_status status = bs_store_wait(&s->store, i->phase, &unit, 1, &taken);
    bs_exec_fail(s, status, i->node);
    if (status != BS_OK)
        return;
    const uint64_t start = bs_session_now(s);
    bs_exec_place(s, unit, i->node);
    if (!bs_exec_failed(s)) /* after a failure a device would read weights at a stale address */
        run_parallel(s, i);
    bs_exec_finish_reads(s, i->node);
    bs_exec_used(s, i->phase, unit, start, bs_session_now(s));
    bs_store_release(&s->store, unit);
}

/* A decision that a device makes: the host fetches how many rows went where. */
static void route_on_device(bs_session *s, const bs_instr *i)
{
    const int32_t router = s->graph->nodes[i->node].router;
    int32_t *const counts = s->work.counts, node = i->node;
    run_parallel(s, i);
    const bs_status status = s->device->api->fetch_counts(s->on_device, router, counts, &node, NULL);
    bs_exec_fail(s, status, node);
    if (status == BS_OK && s->profile)
        tell_decision(s, router, counts);
    for (int32_t k = s->graph->routers[router].path_domains; status == BS_OK && k; k = s->graph->domains[k].next)
        s->root.domains[k].count = counts[s->graph->domains[k].path];
}

static bool guess_margins(bs_session *s, const bs_instr *i, int32_t router, float *margins)
{
    for (int32_t p = 0; p < s->graph->routers[router].desc->paths; p++)
        margins[p] = -1;
    if (!s->device) {
        run_rows_here(&s->root, i);
        return !bs_exec_failed(s);
    }
    run_parallel(s, i);
    const bs_status status = bs_exec_failed(s) ? BS_OK : s->device->api->guess(s->on_device, router, margins, NULL);
    bs_exec_fail(s, status, i->node);
    return !bs_exec_failed(s);
}

/* Predicts by these scores what a later router will choose, and tells the store to expect the weights of those
 * paths. */
static void run_look_ahead(bs_session *s, const bs_instr *i)
{
    float *const margins = s->work.margins;
    const int32_t router = s->plan->nodes[i->node].ahead_of;
    if (!guess_margins(s, i, router, margins))
        return;
    for (int32_t j = 0; j < s->plan->n_phases; j++) {
        const bs_trace_phase *phase = &s->plan->phases[j];
        bool any = false;
        for (int32_t k = phase->first_unit; phase->router == router && k < phase->first_unit + phase->n_units; k++) {
            const int32_t unit = s->plan->phase_units[k] + 1;
            const bs_domain *of = &s->graph->domains[s->plan->units[unit].domain];
            const float margin = of->kind == BS_DOMAIN_PATH && of->router == router ? margins[of->path] : -1;
            if (margin < 0)
                continue;
            bs_store_expect(&s->store, j, unit, (double)margin);
            any = true;
        }
        if (phase->router == router && !any)
            bs_store_expect(&s->store, j, 0, 0);
    }
}

/* ---------------------------------------------------------------------------------------------- a tile's list */

/* Adds the time since `since` to the innermost path whose instructions ran, if `domain` is one. Returns the time
 * now. */
static uint64_t charge(const bs_context *c, int32_t domain, uint64_t since)
{
    const bs_session *s = c->session;
    const bs_domain *d = &s->graph->domains[domain];
    const uint64_t now = bs_session_now(s);
    if (d->kind == BS_DOMAIN_PATH)
        s->path_ns[bs_session_counts(s, c->thread, d->router) + (size_t)d->path] += now - since;
    return now;
}

/* A tile runs nothing but calls, moves and routes, all of them on its own thread. So a region never runs inside a
 * region, whatever a plan says. */
static void run_in_tile(bs_context *c, const bs_instr *i)
{
    switch ((bs_instr_kind)i->kind) {
    case BS_INSTR_CALL:
    case BS_INSTR_MOVE: run_rows_here(c, i); break;
    case BS_INSTR_ROUTE: route_here(c, bs_step_of(c->session, i)); break;
    case BS_INSTR_RUN: break;
    }
}

void bs_exec_tile(bs_context *c, int32_t first, int32_t count, int32_t domain)
{
    bs_session *s = c->session;
    const uint64_t start = bs_session_now(s);
    const int32_t rows = c->domains[domain].count, own = domain;
    uint64_t since = start, op_since = start;
    for (int32_t k = first; k < first + count && !bs_exec_failed(s); k++) {
        const bs_instr *i = &s->plan->instrs[k];
        const bool decides = i->kind == BS_INSTR_ROUTE;
        if (!decides && c->domains[i->domain].count == 0)
            continue;
        if (!decides && i->domain != domain) {
            since = charge(c, domain, since);
            domain = i->domain;
        }
        run_in_tile(c, i);
        if (s->times_ops)
            op_since = record_op(c, i, op_since);
        k = decides ? next_after(c, &s->steps[k], k) : k;
    }
    charge(c, domain, since);
    if (s->times_ops)
        record_tile(c, own, rows, start);
}

/* ---------------------------------------------------------------------------------------- the session's list */

static void run_at_top(bs_session *s, const bs_instr *i, const bs_step *step)
{
    switch ((bs_way)step->way) {
    case BS_WAY_PLAIN:
        if (!bs_exec_kept(s, i))
            run_parallel(s, i);
        break;
    case BS_WAY_STREAMED: run_streamed(s, i); break;
    case BS_WAY_AHEAD: run_look_ahead(s, i); break;
    case BS_WAY_ROUTE:
        if (s->device)
            route_on_device(s, i);
        else
            route_here(&s->root, step);
        break;
    case BS_WAY_REGION: bs_exec_region(s, i); break;
    }
}

/* Whether an instruction has no rows, as most of many paths. With a profile of ops it is recorded all the same. */
static inline bool is_idle(const bs_session *s, const bs_step *step)
{
    return BS_DENSE_PAYS && step->way == BS_WAY_PLAIN && s->root.domains[step->domain].count == 0 && !s->device &&
           !s->times_ops;
}

/* One instruction at top level, and those beside it. Returns the last one that was run. */
static int32_t run_step(bs_session *s, int32_t k)
{
    bs_exec_work *w = &s->work;
    const bs_instr *i = &s->plan->instrs[k];
    const bs_step *step = &s->steps[k];
    const bool enters = bs_instr_streams(i) && i->phase != w->phase;
    const uint64_t since = enters || step->routes ? bs_session_now(s) : 0; /* as long as a small kernel */
    if (enters) {
        w->phase = i->phase;
        w->entered = since;
        w->n_needed = phase_enter(s, k);
    }
    if (bs_exec_runs_beside(s, i))
        k = bs_exec_beside(s, k);
    else
        run_at_top(s, i, step);
    if (bs_instr_streams(i) && phase_ends(s->plan, k)) {
        record_event(s, BS_EVENT_PHASE, w->entered, bs_session_now(s), w->phase, 0, (uint64_t)w->n_needed);
        w->phase = -1;
    }
    if (step->routes)
        s->stats.routing_ns += bs_session_now(s) - since;
    return k;
}

void bs_execute(bs_session *s)
{
    const uint64_t start = bs_session_now(s);
    uint64_t op_since = start;
    s->work.phase = -1;
    s->stats.routing_ns = 0;
    ops_begin(s);
    for (int32_t k = 0; k < s->plan->n_top && !bs_exec_failed(s); k++) {
        const bs_step *step = &s->steps[k];
        const int32_t first = k;
        if (bs_exec_ready(s, step) || is_idle(s, step))
            continue;
        k = run_step(s, k);
        if (s->times_ops)
            op_since = record_op(&s->root, &s->plan->instrs[first], op_since);
        k = step->way == BS_WAY_ROUTE ? next_after(&s->root, step, k) : k;
    }
    if (!s->device) /* a device is still at work: bs_wait counts */
        bs_exec_ended(s, start);
}

void bs_exec_ended(bs_session *s, uint64_t start)
{
    const uint64_t end = bs_session_now(s);
    for (int32_t r = 1; s->profile && s->device && !bs_plan_streams(s->plan) && r < s->graph->n_routers; r++)
        if (s->plan->routers[r].live && !s->plan->routers[r].in_tile)
            tell_decision(s, r, s->counts + s->graph->routers[r].first_path);
    record_event(s, BS_EVENT_RUN, start, end, (int32_t)s->stats.runs, 0, 0);
    ops_end(s, end - start);
    s->stats.total_ns = end - start;
    s->stats.runs++;
}
