/* run/exec.c - running a plan: one interpreter for the whole session and for a tile.
 *
 * At top level an instruction runs over all rows of its domain in parallel; inside a region a thread takes a tile and
 * runs the part's instructions on its rows, one after the other, in its own scratch. Who takes which never shows.
 * Relies on run/session.h. Must never allocate, plan, or let a count decide how work is cut. */
#include "run/exec.h"
#include "ops/structure.h"

#define BAND_ROWS 32  /* of an image, per task; a multiple of the Winograd tile, so cutting changes no bit */
#define BATCH_ROWS 16 /* cells of a non-image op, per task */

bool bs_exec_fail(bs_session *s, bs_status status, int32_t node)
{
    int expected = BS_OK;
    const bool first = status != BS_OK && atomic_compare_exchange_strong(&s->status, &expected, (int)status);
    if (first)
        atomic_store(&s->failed_node, node);
    return first;
}

/* ---------------------------------------------------------------------------------------------- one kernel */

static void call_prepare(const bs_context *c, const bs_node *node, int32_t row, int32_t rows, bs_call *call)
{
    const bs_session *s = c->session;
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, (int32_t)(node - s->graph->nodes), &n_in);
    call->graph = s->graph;
    call->node = node;
    call->plan = &s->plan->nodes[node - s->graph->nodes];
    call->params = node->params;
    call->n_in = n_in;
    call->n_out = node->n_out;
    call->rows = rows;
    call->prepared = bs_bytes_at(s->store.base[call->plan->unit], call->plan->prepared_offset);
    call->scratch = bs_bytes_at(c->scratch, s->plan->kernel_scratch_offset);
    const bool across = bs_op_get(node->op)->flags & BS_OP_ACROSS;
    for (int32_t i = 0; i < n_in; i++)
        bs_operand_make(c, in[i], across || s->graph->values[in[i]].domain == 0 ? 0 : row, &call->in[i]);
    if (across)
        bs_segment_call(c, row, call);
    for (int32_t i = 0; i < node->n_out; i++)
        bs_operand_make(c, node->first_out + i, row, &call->out[i]);
}

static void zero_margins(const bs_context *c, const bs_call *call)
{
    for (int32_t i = 0; i < call->n_out; i++) {
        const int32_t value = call->node->first_out + i, margin = c->session->plan->values[value].margin;
        int64_t h, w;
        if (call->out[i].rank != 3 || margin == 0)
            continue;
        bs_plan_core(c->session->plan, &c->session->graph->values[value], &h, &w);
        bs_zero_margin(&call->out[i], margin, h, w);
    }
}

/* What asks a decision, row by row. */
static void run_decided(const bs_context *c, const bs_node *node, int32_t row, int32_t rows)
{
    const bool path = c->session->graph->domains[node->domain].kind == BS_DOMAIN_PATH;
    bs_call call;
    for (int32_t r = row; r < row + rows; r++) {
        call_prepare(c, node, r, 1, &call);
        call.decision = bs_decision_of(c, node->router);
        call.decided = path ? r : c->domains[node->domain].first + r; /* those below are of this tile */
        call.ahead = c->session->plan->routers[node->router].forced != 0;
        bs_exec_fail(c->session, bs_op_get(node->op)->run(&call), (int32_t)(node - c->session->graph->nodes));
    }
}

/* Runs the node's kernel on `rows` rows from `row`; of an image only the rows y0..y1 of the rectangle. */
static void run_op(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band)
{
    bs_call call;
    char fault[BS_FAULT_BYTES] = "";
    const bs_node *node = &c->session->graph->nodes[i->node];
    if (bs_op_get(node->op)->flags & BS_OP_DECIDED) {
        run_decided(c, node, row, rows);
        return;
    }
    call_prepare(c, node, row, rows, &call);
    call.fault = fault;
    if (band <= 0)
        zero_margins(c, &call);
    if (call.plan->pieces > 0) {
        call.piece = band;
    } else if (band >= 0) {
        bs_rect *r = &call.out[0].rect;
        const int32_t y0 = r->y0 + band * BAND_ROWS; /* NOLINT(clang-analyzer-*): call_prepare() sets it */
        if (y0 >= r->y1)
            return;
        r->y1 = bs_min_i32(y0 + BAND_ROWS, r->y1);
        r->y0 = y0;
    }
    if (bs_exec_fail(c->session, call.plan->fusion ? bs_fusion_run(&call) : bs_op_get(node->op)->run(&call), i->node))
        memcpy(c->session->fault, fault, BS_FAULT_BYTES);
}

/* ---------------------------------------------------------------------------------------- one instruction */

void bs_exec_rows(bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band)
{
    if (i->kind == BS_INSTR_OP) {
        run_op(c, i, row, rows, band);
        return;
    }
    for (int32_t r = row; r < row + rows; r++) {
        if (i->kind == BS_INSTR_LOAD) {
            bs_operand o;
            int64_t h, w;
            bs_move_load(c, i, r);
            bs_operand_make(c, i->value, r, &o);
            bs_plan_core(c->session->plan, &c->session->graph->values[i->value], &h, &w);
            if (o.rank == 3)
                bs_zero_margin(&o, c->session->plan->values[i->value].margin, h, w);
        } else if (i->kind == BS_INSTR_STORE) {
            bs_move_store(c, i, r);
        } else if (i->kind == BS_INSTR_FILL) {
            bs_move_fill(c, i, r);
        } else if (i->kind == BS_INSTR_REDUCE) {
            bs_move_reduce(c, i, r);
        }
    }
}

/* Rows of one call: one, where geometry differs from row to row or rows are found through a decision. */
int32_t bs_exec_batch(const bs_session *s, const bs_instr *i)
{
    const bs_node *node = &s->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, i->node, &n_in);
    if (i->kind != BS_INSTR_OP)
        return 1;
    for (int32_t k = 0; k < n_in; k++) {
        const bs_value_info *v = &s->graph->values[in[k]];
        const bool scattered = s->plan->values[in[k]].place == BS_PLACE_VIEW &&
                               s->graph->domains[v->domain].kind == BS_DOMAIN_PATH;
        if (v->rank == 3 || scattered)
            return 1;
    }
    return node->n_out > 0 && s->graph->values[node->first_out].rank == 3 ? 1 : BATCH_ROWS;
}

typedef struct instr_job {
    bs_session *session;
    const bs_instr *instr;
    int32_t rows, batch, bands; /* bands: tasks a row, 0 = not cut */
} instr_job;

static void instr_task(void *user, int32_t index, int32_t thread)
{
    const instr_job *job = user;
    if (bs_exec_failed(job->session))
        return;
    bs_context c = job->session->root; /* rows and decisions of the root, scratch of the thread */
    c.thread = thread;
    c.scratch = job->session->contexts[thread].scratch;
    if (job->bands > 0) {
        bs_exec_rows(&c, job->instr, index / job->bands, 1, index % job->bands);
    } else {
        const int32_t first = index * job->batch;
        bs_exec_rows(&c, job->instr, first, bs_min_i32(job->batch, job->rows - first), -1);
    }
}

static int32_t bands_of(const bs_session *s, const bs_instr *i)
{
    const bs_node *node = &s->graph->nodes[i->node];
    int64_t h, w;
    if (i->kind == BS_INSTR_OP && s->plan->nodes[i->node].pieces > 0)
        return s->plan->nodes[i->node].pieces;
    if (i->kind != BS_INSTR_OP || node->n_out != 1 || !(bs_op_get(node->op)->flags & BS_OP_SPATIAL) ||
        s->graph->values[node->first_out].rank != 3)
        return 0;
    bs_plan_core(s->plan, &s->graph->values[node->first_out], &h, &w);
    return (int32_t)bs_ceil_div(h + 2 * s->plan->values[node->first_out].margin, BAND_ROWS);
}

static void run_parallel(bs_session *s, const bs_instr *i)
{
    const int32_t at = (int32_t)(i - s->plan->instrs);
    if (s->device) {
        bs_exec_fail(s, s->device->api->run(s->on_device, at, at + 1, NULL), i->node);
        return;
    }
    instr_job job = {s, i, s->root.domains[i->domain].count, bs_exec_batch(s, i), bands_of(s, i)};
    const int32_t tasks = job.bands > 0 ? job.rows * job.bands : (int32_t)bs_ceil_div(job.rows, job.batch);
    bs_workers_run(&s->pool, instr_task, &job, tasks);
}

static void record_event(const bs_session *s, bs_event_kind kind, uint64_t start, uint64_t end, int32_t subject,
                         int32_t index, uint64_t value)
{
    const bs_event event = {start, end, value, subject, index, (int16_t)kind, 0, 0};
    bs_profile_add(s->profile, &event);
}

/* ---------------------------------------------------------------------------------------------- decisions */

/* The rows of the paths of a router, now that it has decided. */
static void open_paths(bs_context *c, int32_t router)
{
    const bs_graph *g = c->session->graph;
    const bs_decision_data *d = &c->decisions[router];
    for (int32_t k = g->routers[router].path_domains; k; k = g->domains[k].next) {
        const bs_domain *domain = &g->domains[k];
        c->domains[k].count = d->counts[domain->path];
        c->domains[k].first = c->tile ? 0 : d->offsets[domain->path];
        c->domains[k].ids = d->ids + d->offsets[domain->path];
    }
}

static void tell_decision(const bs_session *s, int32_t router, const int32_t *counts)
{
    const uint64_t now = s->profile ? bs_session_now(s) : 0;
    for (int32_t p = 0; s->profile && p < s->graph->routers[router].desc->paths; p++)
        if (counts[p] > 0)
            record_event(s, BS_EVENT_DECISION, now, now, router, p, (uint64_t)counts[p]);
}

static void record_decision(bs_context *c, int32_t router)
{
    bs_session *s = c->session;
    const bs_decision_data *d = &c->decisions[router];
    const int32_t domain = s->graph->routers[router].domain;
    int32_t *counts = s->route_counts + (size_t)c->thread * (size_t)s->graph->n_paths +
                      s->graph->routers[router].first_path;
    for (int32_t p = 0; p < d->paths; p++)
        counts[p] += d->counts[p];
    for (int32_t row = 0; row < d->rows; row++)
        s->chosen[router][bs_top_row(c, domain, row)] = (int16_t)d->chosen[row * d->per_row];
    if (c->tile)
        return;
    s->dropped[router] = d->dropped;
    tell_decision(s, router, d->counts);
}

void bs_exec_route(bs_context *c, const bs_instr *i)
{
    const int32_t router = c->session->graph->nodes[i->node].router;
    const bs_status status = bs_route_decide(c, router);
    if (bs_exec_fail(c->session, status, i->node))
        memcpy(c->session->fault, c->fault, BS_FAULT_BYTES);
    if (status != BS_OK)
        return;
    open_paths(c, router);
    record_decision(c, router);
}

/* ------------------------------------------------------------------------------------------------ the run */

/* Features and decisions: routes, and regions of whole cells that a later route waits for. */
static bool counts_as_routing(const bs_plan *p, int32_t at)
{
    const bs_instr *i = &p->instrs[at];
    if (i->kind != BS_INSTR_REGION)
        return i->kind == BS_INSTR_ROUTE;
    const bs_region *region = &p->regions[i->node]; /* its parts are all of one router, or none is */
    return p->parts[p->region_parts[region->first]].router == 0 && at < p->last_route;
}

/* ------------------------------------------------------------------------------------------------- stages */

void bs_exec_need(bs_session *s, int32_t unit, int32_t *count)
{
    bs_exec_work *w = &s->work;
    if (unit == 0 || w->visited[unit] == w->visit)
        return;
    w->visited[unit] = w->visit;
    w->needed[(*count)++] = unit;
}

/* Tells the store what the instructions of this stage need, from instruction `at` on. */
static int32_t stage_enter(bs_session *s, int32_t at)
{
    int32_t count = 0;
    const int32_t stage = s->plan->instrs[at].stage;
    s->work.visit++;
    for (int32_t k = at; k < s->plan->n_top; k++) {
        const bs_instr *i = &s->plan->instrs[k];
        if (i->stage >= 0 && i->stage != stage)
            break;
        if (i->stage < 0)
            continue;
        if (i->kind == BS_INSTR_REGION)
            bs_exec_region_units(s, i->node, &count);
        else if (s->root.domains[i->domain].count > 0)
            bs_exec_need(s, s->plan->nodes[i->node].unit, &count);
    }
    bs_store_visit(&s->store, stage, s->work.needed, count);
    return count;
}

/* Whether no later instruction belongs to the stage of instruction `at`. */
static bool stage_ends(const bs_plan *p, int32_t at)
{
    for (int32_t k = at + 1; k < p->n_top; k++)
        if (p->instrs[k].stage >= 0)
            return p->instrs[k].stage != p->instrs[at].stage;
    return true;
}

void bs_exec_used(bs_session *s, int32_t stage, int32_t unit, uint64_t start, uint64_t end)
{
    if (s->profile)
        record_event(s, BS_EVENT_USE, start, end, unit - 1, stage, (uint64_t)bs_store_outcome(&s->store, unit));
}

void bs_exec_place(bs_session *s, int32_t unit, int32_t node)
{
    if (s->device && unit)
        bs_exec_fail(s, s->device->api->place(s->on_device, unit, s->store.base[unit], NULL), node);
}

void bs_exec_settle(bs_session *s, int32_t node)
{
    if (s->device)
        bs_exec_fail(s, s->device->api->settle(s->on_device, NULL), node);
}

/* A top-level instruction with weights of its own that are streamed. */
static void run_streamed(bs_session *s, const bs_instr *i)
{
    const int32_t unit = s->plan->nodes[i->node].unit;
    int32_t taken = 0;
    if (s->root.domains[i->domain].count == 0)
        return;
    const bs_status status = bs_store_wait(&s->store, i->stage, &unit, 1, &taken);
    bs_exec_fail(s, status, i->node);
    if (status != BS_OK)
        return;
    const uint64_t start = bs_session_now(s);
    bs_exec_place(s, unit, i->node);
    if (!bs_exec_failed(s)) /* else a device would look for weights anywhere */
        run_parallel(s, i);
    bs_exec_settle(s, i->node);
    bs_exec_used(s, i->stage, unit, start, bs_session_now(s));
    bs_store_release(&s->store, unit);
}

/* A decision that a device makes: the host is told how many rows went where. */
static void route_on_device(bs_session *s, const bs_instr *i)
{
    const int32_t router = s->graph->nodes[i->node].router;
    int32_t *const counts = s->work.counts, node = i->node;
    run_parallel(s, i);
    const bs_status status = s->device->api->learn(s->on_device, router, counts, &node, NULL);
    bs_exec_fail(s, status, node);
    if (status == BS_OK)
        tell_decision(s, router, counts);
    for (int32_t k = s->graph->routers[router].path_domains; status == BS_OK && k; k = s->graph->domains[k].next)
        s->root.domains[k].count = counts[s->graph->domains[k].path];
}

static bool guess_margins(bs_session *s, const bs_instr *i, int32_t router, float *margins)
{
    if (!s->device) {
        bs_route_guess(&s->root, router, bs_node_in(s->graph, &s->graph->nodes[i->node])[0], margins);
        return true;
    }
    run_parallel(s, i);
    const bs_status status = bs_exec_failed(s) ? BS_OK : s->device->api->guess(s->on_device, router, margins, NULL);
    bs_exec_fail(s, status, i->node);
    return !bs_exec_failed(s);
}

/* What a router that is yet to come would choose by these scores: its paths' weights are expected. */
static void run_look_ahead(bs_session *s, const bs_instr *i)
{
    float *const margins = s->work.margins;
    const int32_t router = s->plan->nodes[i->node].algorithm;
    if (!guess_margins(s, i, router, margins))
        return;
    for (int32_t j = 0; j < s->plan->n_stages; j++) {
        const bs_trace_stage *stage = &s->plan->stages[j];
        bool any = false;
        for (int32_t k = stage->first_unit; stage->router == router && k < stage->first_unit + stage->n_units; k++) {
            const int32_t unit = s->plan->stage_units[k] + 1;
            const float margin = margins[s->graph->domains[s->plan->units[unit].domain].path];
            if (margin < 0)
                continue;
            bs_store_expect(&s->store, j, unit, (double)margin);
            any = true;
        }
        if (stage->router == router && !any)
            bs_store_expect(&s->store, j, 0, 0);
    }
}

static void run_instr(bs_session *s, const bs_instr *i)
{
    if (i->kind == BS_INSTR_ROUTE && s->device)
        route_on_device(s, i);
    else if (i->kind == BS_INSTR_ROUTE)
        bs_exec_route(&s->root, i);
    else if (i->kind == BS_INSTR_REGION)
        bs_exec_region(s, i);
    else if (i->kind == BS_INSTR_LOOK_AHEAD)
        run_look_ahead(s, i);
    else if (i->stage >= 0)
        run_streamed(s, i);
    else
        run_parallel(s, i);
}

void bs_execute(bs_session *s)
{
    const uint64_t start = bs_session_now(s);
    int32_t stage = -1, needed = 0;
    uint64_t entered = 0;
    s->stats.routing_ns = 0;
    for (int32_t k = 0; k < s->plan->n_top && !bs_exec_failed(s); k++) {
        const bs_instr *i = &s->plan->instrs[k];
        const uint64_t since = bs_session_now(s);
        if (i->stage >= 0 && i->stage != stage) {
            stage = i->stage;
            entered = since;
            needed = stage_enter(s, k);
        }
        run_instr(s, i);
        if (i->stage >= 0 && stage_ends(s->plan, k)) {
            record_event(s, BS_EVENT_STAGE, entered, bs_session_now(s), stage, 0, (uint64_t)needed);
            stage = -1;
        }
        if (counts_as_routing(s->plan, k))
            s->stats.routing_ns += bs_session_now(s) - since;
    }
    if (!s->device) /* which is still at work: bs_wait counts */
        bs_exec_ended(s, start);
}

void bs_exec_ended(bs_session *s, uint64_t start)
{
    const uint64_t end = bs_session_now(s);
    for (int32_t r = 1; s->device && !bs_plan_streams(s->plan) && r < s->graph->n_routers; r++)
        if (s->plan->routers[r].live && !s->plan->routers[r].in_tile)
            tell_decision(s, r, s->counts + s->graph->routers[r].first_path);
    record_event(s, BS_EVENT_RUN, start, end, (int32_t)s->stats.runs, 0, 0);
    s->stats.total_ns = end - start;
    s->stats.runs++;
}
