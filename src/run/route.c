/* run/route.c - from scores to a decision: the protocols, row after row.
 *
 * A protocol fills chosen[row * per_row + k] and gates[...] in order of choice; what follows (counts, offsets, packed
 * ids, inverse map) is the same for all. Rows of a path keep the order of the parent, whatever the protocol.
 * Relies on run/routing.h. Must never read anything but scores, the knob and weights of the router, nor decide by
 * rules of its own: those are in ops/decide.h. */
#include "run/routing.h"

/* --------------------------------------------------------------------------------------------------- faults */

bs_status bs_route_fail(const bs_route_fault *fault, bs_error *error)
{
    const char *what = "";
    switch ((bs_route_fault_kind)fault->kind) {
    case BS_ROUTE_SOUND:
        return BS_OK;
    case BS_ROUTE_BAD_SCORE:
        return bs_fail(error, BS_ERROR_DATA, "score %" PRId32 " is NaN", fault->number);
    case BS_ROUTE_BAD_KNOB: return bs_fail(error, BS_ERROR_DATA, "the knob is NaN");
    case BS_ROUTE_BAD_STATUS:
        return bs_fail(error, BS_ERROR_DATA, "its callback returned %" PRId32 ", which is no bs_status", fault->number);
    case BS_ROUTE_NO_FUNCTION: return bs_fail(error, BS_ERROR_UNBOUND, "its callback is not set (bs_set_route)");
    case BS_ROUTE_BAD_LABEL:
        what = "label";
        break;
    case BS_ROUTE_BAD_KEY:
        what = "key";
        break;
    case BS_ROUTE_BAD_ENTRY:
        what = "the table gives path";
        break;
    case BS_ROUTE_BAD_VARIANT:
        what = "a variant takes path";
        break;
    case BS_ROUTE_BAD_ANSWER:
        what = "the callback chose";
        break;
    case BS_ROUTE_BAD_COUNT:
        return bs_fail(error, BS_ERROR_DATA, "%" PRId32 " trips, its bound is %" PRId32, fault->number, fault->end);
    case BS_ROUTE_ENDLESS:
        return bs_fail(error, BS_ERROR_DATA, "it would go on after %" PRId32 " trips, its bound", fault->end);
    case BS_ROUTE_FULL:
        return bs_fail(error, BS_ERROR_DATA,
                       "with the %" PRId32 " rows that it makes there would be more than %" PRId32, fault->number,
                       fault->end);
    case BS_ROUTE_BAD_PREDICATE:
        return bs_fail(error, BS_ERROR_DATA, "its predicate after trip %" PRId32 " is NaN", fault->number);
    }
    return bs_fail(error, BS_ERROR_DATA, "%s %" PRId32 ", expected 0 .. %" PRId32, what, fault->number, fault->end - 1);
}

bs_status bs_route_say(const bs_route_fault *fault, int32_t cell, char *message)
{
    bs_error error;
    const bs_status status = bs_route_fail(fault, &error);
    if (status == BS_OK)
        return BS_OK;
    if (fault->row >= 0)
        bs_error_prefix(&error, "cell %" PRId32 ": ", cell);
    memcpy(message, error.message, BS_FAULT_BYTES - 1); /* bs_error.message is the longer of the two */
    message[BS_FAULT_BYTES - 1] = '\0';
    return status;
}

static bs_status route_status(bs_context *c, int32_t router, const bs_route_fault *fault)
{
    const int32_t domain = c->session->graph->routers[router].domain;
    if (fault->kind == BS_ROUTE_SOUND)
        return BS_OK;
    return bs_route_say(fault, fault->row >= 0 ? bs_top_row(c, domain, fault->row) : -1, c->fault);
}

/* ------------------------------------------------------------------------------------------------ all rows */

static bs_route_fault decide_rows(const bs_routing *r)
{
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    for (int32_t row = 0; row < r->d->rows && fault.kind == BS_ROUTE_SOUND; row++) {
        const bs_scores x = bs_scores_at(r, row);
        const bs_choices to = bs_choices_of(r->d, row);
        fault = bs_decide_row(&r->rule, r->knob, &x, r->table, row, &to);
    }
    return fault;
}

/* Orders rows by the gate of their choice `k`, the highest first. */
typedef struct gate_order {
    const bs_decision_data *d;
    int32_t k;
} gate_order;

static bool gate_is_higher(const void *user, int32_t a, int32_t b)
{
    const gate_order *o = user;
    const float *gates = o->d->gates + o->k;
    return bs_capacity_rank(gates[a * o->d->per_row]) < bs_capacity_rank(gates[b * o->d->per_row]);
}

/* First choices are served before second ones; what does not fit is counted, and dropped or spilled. Gates are compared
 * as they are: normalised ones rank rows by share, which is what the cell wants. ids and inverse are free until the
 * decision is packed. */
static void limit_capacity(const bs_routing *r)
{
    bs_decision_data *d = r->d;
    memset(d->counts, 0, (size_t)d->paths * sizeof *d->counts);
    for (int32_t k = 0; k < d->per_row; k++) {
        for (int32_t row = 0; row < d->rows; row++)
            d->ids[row] = row;
        const gate_order order = {d, k};
        bs_sort(d->ids, d->inverse, d->rows, gate_is_higher, &order);
        for (int32_t i = 0; i < d->rows; i++) {
            int32_t *path = &d->chosen[d->ids[i] * d->per_row + k];
            if (bs_capacity_takes(&r->rule, *path, d->counts[*path]))
                d->counts[*path]++;
            else
                *path = -1;
        }
    }
    for (int32_t row = 0; row < d->rows; row++) {
        const bs_choices of = bs_choices_of(d, row);
        d->dropped += bs_spill(&r->rule, &of);
    }
}

/* ------------------------------------------------------------------------------------------------ callback */

bs_status bs_route_ask(const bs_route_callback *callback, const bs_operand_view *scores, int32_t paths, int32_t rows,
                       int32_t *chosen, float *gates, bs_route_fault *fault)
{
    *fault = bs_route_fault_if(!callback->function, BS_ROUTE_NO_FUNCTION, -1, 0, 0);
    for (int32_t row = 0; row < rows && fault->kind == BS_ROUTE_SOUND; row++) {
        const bs_scores x = {(const int32_t *)scores->data + row * scores->row_stride, scores->stride,
                             scores->dtype == BS_I32};
        *fault = bs_route_check_scores(&x, scores->width, row);
    }
    if (fault->kind != BS_ROUTE_SOUND)
        return BS_OK;
    memset(chosen, -1, (size_t)rows * sizeof *chosen);
    const int32_t answer = (int32_t)callback->function(callback->user, scores, rows, chosen);
    *fault = bs_route_fault_if(!bs_status_is_known(answer), BS_ROUTE_BAD_STATUS, -1, answer, 0);
    for (int32_t row = 0; row < rows && answer == BS_OK && fault->kind == BS_ROUTE_SOUND; row++) {
        gates[row] = 1.0f;
        if (chosen[row] != -1)
            *fault = bs_route_range(BS_ROUTE_BAD_ANSWER, row, chosen[row], paths);
    }
    return fault->kind == BS_ROUTE_SOUND ? (bs_status)answer : BS_OK;
}

static bs_status decide_callback(const bs_routing *r, bs_route_fault *fault)
{
    bs_operand o;
    if (r->d->rows == 0)
        return BS_OK;
    bs_operand_make(r->c, r->c->session->graph->routers[r->router].score, 0, &o);
    const bs_operand_view view = {o.data, o.dtype, o.dim[0], o.row_stride, o.stride[0]};
    return bs_route_ask(&r->c->session->callbacks[r->router], &view, r->rule.paths, r->d->rows, r->d->chosen,
                        r->d->gates, fault);
}

/* --------------------------------------------------------------------------------------------------- pack */

/* Counts, offsets, ids and the inverse map from what was chosen: two passes in row order, so the order is stable. */
static void pack(bs_decision_data *d)
{
    const int32_t choices = d->rows * d->per_row;
    memset(d->counts, 0, (size_t)d->paths * sizeof *d->counts);
    for (int32_t at = 0; at < choices; at++)
        if (d->chosen[at] >= 0)
            d->counts[d->chosen[at]]++;
    d->offsets[0] = 0;
    for (int32_t p = 0; p < d->paths; p++) {
        d->offsets[p + 1] = d->offsets[p] + d->counts[p];
        d->counts[p] = d->offsets[p]; /* running position in the second pass */
    }
    for (int32_t at = 0; at < choices; at++) {
        const int32_t path = d->chosen[at];
        bs_pack_choice(at, d->per_row, path < 0 ? -1 : d->counts[path]++, d->ids, d->inverse);
    }
    for (int32_t p = 0; p < d->paths; p++)
        d->counts[p] = d->offsets[p + 1] - d->offsets[p];
}

void bs_decision_forced(bs_decision_data *d, int32_t rows, int32_t path)
{
    d->rows = rows;
    for (int32_t at = 0; at < rows * d->per_row; at++) {
        d->chosen[at] = bs_forced_choice(at, d->per_row, path);
        d->gates[at] = 1.0f;
    }
    pack(d);
}

static bs_status decide_all(const bs_routing *r, bs_route_fault *fault)
{
    if (r->rule.protocol == BS_ROUTE_CALLBACK)
        return decide_callback(r, fault);
    *fault = r->rule.protocol == BS_ROUTE_BUDGET ? bs_route_budget(r) : decide_rows(r);
    if (fault->kind == BS_ROUTE_SOUND && r->rule.protocol == BS_ROUTE_CAPACITY)
        limit_capacity(r);
    return BS_OK;
}

/* What the router needs to decide in this run. */
static bs_routing routing_of(bs_context *c, int32_t router)
{
    const bs_session *s = c->session;
    const bs_router_info *info = &s->graph->routers[router];
    const bs_value_info *score = &s->graph->values[info->score];
    const uint8_t *weights = bs_bytes_at(s->weights, s->plan->nodes[info->node].prepared_offset);
    bs_routing r = {.c = c, .d = &c->decisions[router], .router = router};
    r.rule = bs_rule_of(info->desc, (int32_t)s->dims[score->dims[0]]);
    r.table = (const int32_t *)(const void *)weights;
    if (info->desc->protocol == BS_ROUTE_BUDGET) {
        bs_weight_spec specs[BS_MAX_WEIGHTS] = {{0}};
        const bs_node *node = &s->graph->nodes[info->node];
        bs_node_weights(s->graph, node, specs);
        r.path_of = (const int32_t *)(const void *)bs_bytes_read_at(weights, bs_weight_offset(specs, 1));
    }
    if (info->knob) {
        bs_operand knob;
        bs_operand_make(c, info->knob, 0, &knob);
        r.knob = *(const float *)knob.data;
    }
    return r;
}

bs_status bs_route_again(bs_context *c, int32_t router)
{
    const bs_route_fault fault = bs_loop_decide_again(c, router);
    *c->fault = '\0';
    return route_status(c, router, &fault);
}

bs_status bs_route_decide(bs_context *c, int32_t router)
{
    const bs_session *s = c->session;
    bs_decision_data *d = &c->decisions[router];
    const int32_t forced = s->plan->routers[router].forced;
    d->dropped = 0;
    d->rows = c->domains[s->graph->routers[router].domain].count;
    d->price = 0;
    *c->fault = '\0';
    if (forced) {
        bs_decision_forced(d, d->rows, forced - 1);
        return BS_OK;
    }
    if (bs_router_loops(s->graph, router)) {
        const bs_route_fault fault = bs_loop_decide(c, router);
        return route_status(c, router, &fault);
    }
    const bs_routing r = routing_of(c, router);
    bs_route_fault fault = bs_route_check_knob(r.knob);
    bs_status status = fault.kind == BS_ROUTE_SOUND ? decide_all(&r, &fault) : BS_OK;
    if (status == BS_OK)
        status = route_status(c, router, &fault);
    if (status == BS_OK)
        pack(d);
    return status;
}
