/* run/call.c - one kernel on some rows of its node: its operands, and the zeros around what it writes. (How it may be
 * cut: run/steps.c.) Relies on run/exec.h. Must never know who else is at work. */
#include "run/exec.h"

#include "ops/common.h"
#include "ops/structure.h"

static bs_call *call_in(bs_call_room *room)
{
    room->call.in = room->in;
    room->call.out = room->out;
    return &room->call;
}

/* All rows of a carried value, as they lie around the loop. */
static void call_around(const bs_context *c, int32_t carried, bs_call *call)
{
    const bs_graph *g = c->session->graph;
    const int32_t value = bs_view_of(g, &g->nodes[g->values[carried].node]);
    bs_operand_make(c, value, 0, &call->in[0]);
    call->around = c->domains[g->values[value].domain].count;
}

void bs_exec_prepare(const bs_context *c, int32_t n, int32_t row, int32_t rows, bs_call *call)
{
    const bs_session *s = c->session;
    const bs_node *node = &s->graph->nodes[n];
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, n, &n_in);
    call->graph = s->graph;
    call->node = node;
    call->plan = &s->plan->nodes[n];
    call->params = node->params;
    call->n_in = n_in;
    call->n_out = node->n_out;
    call->rows = rows;
    call->prepared = bs_bytes_at(s->store.base[call->plan->unit], call->plan->prepared_offset);
    call->scratch = c->scratch ? bs_bytes_at(c->scratch, s->plan->kernel_scratch_offset) : NULL;
    call->residual = NULL;
    call->phases = 1;
    call->margins = s->work.margins;
    call->order = s->work.order;
    const bool across = bs_node_op(node)->rows.of == BS_ROWS_SEGMENT;
    for (int32_t i = 0; i < n_in; i++)
        bs_operand_make(c, in[i], across || s->graph->values[in[i]].domain == 0 ? 0 : row, &call->in[i]);
    if (across)
        bs_segment_call(c, row, call);
    if (bs_node_op(node)->rows.of == BS_ROWS_AROUND)
        call_around(c, in[0], call);
    for (int32_t i = 0; i < node->n_out; i++)
        bs_operand_make(c, node->first_out + i, row, &call->out[i]);
}

/* Where the operands of a call have its row, as bs_operand_row counts. */
typedef struct call_rows {
    int32_t in[BS_MAX_OPERANDS], out[BS_MAX_OUTPUTS];
} call_rows;

/* Finds them for row `row`; unless that is the call's own, it goes on to it from where it was. All are tensors. */
static void call_advance(const bs_context *c, int32_t row, bool own, call_rows *at, bs_call *call)
{
    const bs_graph *g = c->session->graph;
    int32_t n_in;
    const int32_t *in = bs_plan_in(c->session->plan, (int32_t)(call->node - g->nodes), &n_in);
    const call_rows was = *at;
    for (int32_t i = bs_node_op(call->node)->rows.of == BS_ROWS_AROUND; i < call->n_in; i++) {
        if (g->values[in[i]].domain == 0)
            continue;
        at->in[i] = bs_operand_row(c, in[i], row);
        if (!own)
            bs_operand_advance(&call->in[i], at->in[i] - was.in[i]);
    }
    for (int32_t i = 0; i < call->n_out; i++) {
        at->out[i] = bs_operand_row(c, call->node->first_out + i, row);
        if (!own)
            bs_operand_advance(&call->out[i], at->out[i] - was.out[i]);
    }
}

static void zero_margins(const bs_context *c, const bs_call *call)
{
    for (int32_t i = 0; i < call->n_out; i++) {
        const int32_t value = call->node->first_out + i, margin = c->session->plan->values[value].margin;
        int64_t h, w;
        if (!call->out[i].image || margin == 0)
            continue;
        bs_plan_core(c->session->plan, &c->session->graph->values[value], &h, &w);
        for (int32_t row = 0; row < call->rows; row++, bs_operand_advance(&call->out[i], 1))
            bs_zero_margin(&call->out[i], margin, h, w);
        bs_operand_advance(&call->out[i], -call->rows);
    }
}

/* An op that reads a decision (BS_ROWS_DECIDED), row by row. */
static void run_decided(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows)
{
    const bs_node *node = &c->session->graph->nodes[i->node];
    const bool path = c->session->graph->domains[node->domain].kind == BS_DOMAIN_PATH;
    bs_call_room room;
    bs_call *const call = call_in(&room);
    for (int32_t r = row; r < row + rows; r++) {
        bs_exec_prepare(c, i->node, r, 1, call);
        call->decision = bs_decision_of(c, node->router);
        call->decided = path ? r : c->domains[node->domain].first + r; /* rows of a path are counted in this context */
        call->ahead = c->session->plan->routers[node->router].forced != 0;
        bs_exec_fail(c->session, bs_node_op(node)->run(call), i->node);
    }
}

/* The dimension along which a value is empty in this run; -1: it has elements. */
static int32_t empty_along(const bs_session *s, int32_t value)
{
    const bs_value_info *v = &s->graph->values[value];
    for (int32_t i = 0; i < v->rank; i++)
        if (s->dims[v->dims[i]] == 0)
            return i;
    return -1;
}

/* In a run with extents of 0: whether the kernel is to be called. It is not where all results are empty; where an
 * operand alone is, only some ops have a result (bs_layout_contract.empty). */
static bool wants_kernel(const bs_session *s, const bs_node *node, const bs_call *call, bs_status *status)
{
    bool empty = node->n_out > 0;
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, (int32_t)(node - s->graph->nodes), &n_in);
    for (int32_t i = 0; i < node->n_out; i++)
        empty = empty && empty_along(s, node->first_out + i) >= 0;
    for (int32_t i = 0; i < n_in && !empty && !bs_node_op(node)->layout.empty; i++) {
        const int32_t along = empty_along(s, in[i]);
        char text[64];
        if (along < 0)
            continue;
        *status = bs_call_fail(call, "operand %" PRId32 " is empty: dimension %" PRId32 " (%s) is 0", i, along,
                               bs_dim_text(s->graph, s->graph->values[in[i]].dims[along], text, sizeof text));
        return false;
    }
    return !empty;
}

static inline bs_status run_kernel(const bs_session *s, const bs_step *step, const bs_call *call)
{
    bs_status status = BS_OK;
    return s->any_empty && !wants_kernel(s, call->node, call, &status) ? status : bs_exec_run(step, call);
}

void bs_exec_end_call(bs_session *s, bs_status status, int32_t node, const char *fault)
{
    if (bs_exec_fail(s, status, node))
        memcpy(s->fault, fault, BS_FAULT_BYTES);
}

/* Row by row: of these calls only addresses differ. */
static void run_scattered(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows)
{
    bs_session *s = c->session;
    const bs_step *step = bs_step_of(s, i);
    bs_call_room room;
    bs_call *const call = call_in(&room);
    char fault[BS_FAULT_BYTES] = "";
    call_rows at = {{0}, {0}};
    bs_exec_prepare(c, i->node, row, 1, call);
    call->fault = fault;
    call->extent = NULL; /* rows of a path make no extents */
    call_advance(c, row, true, &at, call);
    bs_status status = run_kernel(s, step, call);
    for (int32_t r = row + 1; r < row + rows && status == BS_OK; r++) {
        call_advance(c, r, false, &at, call);
        status = run_kernel(s, step, call);
    }
    bs_exec_end_call(s, status, i->node, fault);
}

void bs_exec_kernel(bs_session *s, const bs_instr *i, bs_call *call)
{
    char fault[BS_FAULT_BYTES];
    int64_t extent = 0;
    fault[0] = fault[BS_FAULT_BYTES - 1] = '\0';
    call->fault = fault;
    call->extent = &extent;
    bs_status status = run_kernel(s, bs_step_of(s, i), call);
    if (status == BS_OK && call->node->makes)
        status = bs_extents_made(s, i, extent, fault);
    if (status != BS_OK)
        bs_exec_end_call(s, status, i->node, fault);
    call->fault = NULL;
    call->extent = NULL;
}

/* From where to where the samples from `first` to `end` are cut that reach so far beyond a core: at the grain. */
static void reach_along(int32_t *first, int32_t *end, int64_t core, bs_reach reach, int32_t grain)
{
    const int32_t begin = *first;
    *first += (bs_max_i32(-reach.before, begin) - begin) / grain * grain;
    *end = (int32_t)bs_min_i64(begin + bs_ceil_div(core + reach.after - begin, grain) * grain, *end);
}

/* The part of a row's rectangle that reaches so far beyond its core. */
static bs_rect reached(const bs_context *c, const bs_instr *i, bs_rect r, bs_reach reach)
{
    const bs_plan *p = c->session->plan;
    const bs_node *node = &c->session->graph->nodes[i->node];
    const int32_t grain = p->nodes[i->node].grain;
    int64_t h, w;
    bs_plan_core(p, &c->session->graph->values[node->first_out], &h, &w);
    reach_along(&r.y0, &r.y1, h, reach, grain);
    reach_along(&r.x0, &r.x1, w, reach, grain);
    return r;
}

/* A near rectangle; or the ring between two: strips above and below it, and beside it. */
static void run_extent(const bs_context *c, const bs_instr *i, bs_call *call)
{
    bs_rect *rect = &call->out[0].rect;
    const bs_rect all = *rect, outer = reached(c, i, all, i->reach), inner = reached(c, i, all, i->done);
    const bs_rect strips[] = {{outer.y0, inner.y0, outer.x0, outer.x1},
                              {inner.y0, inner.y1, outer.x0, inner.x0},
                              {inner.y0, inner.y1, inner.x1, outer.x1},
                              {inner.y1, outer.y1, outer.x0, outer.x1}};
    const bool ring = i->extent == BS_EXTENT_RING;
    for (int32_t k = 0; k < (ring ? 4 : 1); k++) {
        *rect = ring ? strips[k] : outer;
        if (rect->y0 < rect->y1 && rect->x0 < rect->x1)
            bs_exec_kernel(c->session, i, call);
    }
}

void bs_exec_call(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band)
{
    bs_session *s = c->session;
    bs_call_room room;
    bs_call *const call = call_in(&room);
    const bs_step *step = bs_step_of(s, i);
    if (step->decided) {
        run_decided(c, i, row, rows);
        return;
    }
    if (rows > 1 && step->scattered && s->plan->nodes[i->node].work_items == 0) {
        run_scattered(c, i, row, rows);
        return;
    }
    bs_exec_prepare(c, i->node, row, rows, call);
    if (band <= 0 && i->extent != BS_EXTENT_RING && !step->zeroed)
        zero_margins(c, call);
    if (i->extent != BS_EXTENT_ALL) {
        run_extent(c, i, call);
        return;
    }
    if (call->plan->work_items > 0) {
        call->work_item = band;
    } else if (band >= 0 && call->n_out > 0) {
        bs_rect *r = &call->out[0].rect;
        const int32_t y0 = r->y0 + band * BS_BAND_ROWS;
        if (y0 >= r->y1)
            return;
        r->y1 = bs_min_i32(y0 + BS_BAND_ROWS, r->y1);
        r->y0 = y0;
    }
    bs_exec_kernel(s, i, call);
}
