/* run/route.c - from scores to a decision: the protocols.
 *
 * A protocol fills chosen[row * per_row + k] and gates[...] in order of choice; what follows (counts, offsets, packed
 * ids, inverse map) is the same for all. Rows of a path keep the order of the parent, whatever the protocol.
 * Relies on run/routing.h. Must never look at anything but scores, the knob and weights of the router. */
#include "run/routing.h"

/* Whether path a is to be taken before path b. Large i32 scores are exact. NaN, which a guess may hold, is below
 * all. */
static bool score_above(const bs_operand *o, int32_t a, int32_t b)
{
    if (o->dtype == BS_I32)
        return bs_score_int(o, a) > bs_score_int(o, b);
    const float x = bs_score_at(o, a), y = bs_score_at(o, b);
    return x > y || (isnan(y) && !isnan(x));
}

bs_status bs_route_fail(const bs_routing *r, int32_t row, const char *format, ...)
{
    va_list arguments;
    int used = 0;
    if (row >= 0)
        used = snprintf(r->c->fault, sizeof r->c->fault, "cell %d: ",
                        bs_top_row(r->c, r->c->session->graph->routers[r->router].domain, row));
    va_start(arguments, format);
    vsnprintf(r->c->fault + used, sizeof r->c->fault - (size_t)used, format, arguments);
    va_end(arguments);
    return BS_ERROR_DATA;
}

static bs_status check_scores(const bs_routing *r, int32_t row, const bs_operand *o)
{
    for (int32_t i = 0; o->dtype == BS_F32 && i < o->dim[0]; i++)
        if (isnan(bs_score_at(o, i)))
            return bs_route_fail(r, row, "score %d is NaN", i);
    return BS_OK;
}

/* ---------------------------------------------------------------------------------------- row by row */

/* Whether path a is worse than path b: a heap has its worst on top. */
static bool is_worse(const bs_operand *o, int32_t a, int32_t b)
{
    return score_above(o, b, a) || (a > b && !score_above(o, a, b));
}

/* Path p becomes the last of n + 1 in a heap. */
static void heap_put(const bs_operand *o, int32_t *heap, int32_t n, int32_t p)
{
    for (; n > 0 && is_worse(o, p, heap[(n - 1) / 2]); n = (n - 1) / 2)
        heap[n] = heap[(n - 1) / 2];
    heap[n] = p;
}

/* Path p takes the place of the root of a heap of n. */
static void heap_sink(const bs_operand *o, int32_t *heap, int32_t n, int32_t p)
{
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_worse(o, heap[child + 1], heap[child]))
            child++;
        if (!is_worse(o, heap[child], p))
            break;
        heap[at] = heap[child];
    }
    heap[at] = p;
}

/* Finds the `count` best paths, the best first, of equal ones the lower: a heap whose root is the worst of those
 * found. */
static void best_paths(const bs_operand *o, int32_t paths, int32_t count, int32_t *best)
{
    int32_t n = 0;
    for (int32_t p = 0; p < paths; p++) { /* a later path is taken only when it is above */
        if (n < count)
            heap_put(o, best, n++, p);
        else if (score_above(o, p, best[0]))
            heap_sink(o, best, n, p);
    }
    while (n > 1) { /* the worst goes last */
        const int32_t worst = best[0];
        n--;
        heap_sink(o, best, n, best[n]);
        best[n] = worst;
    }
}

static void decide_topk(const bs_routing *r, int32_t row, const bs_operand *o, int32_t count)
{
    int32_t *const chosen = r->d->chosen + row * r->d->per_row;
    float sum = 0;
    best_paths(o, r->desc->paths, count, chosen);
    for (int32_t k = 0; k < count; k++) {
        bs_route_choose(r, row, k, chosen[k], bs_score_at(o, chosen[k]));
        sum += bs_score_at(o, chosen[k]);
    }
    for (int32_t k = 0; r->desc->normalise && sum > 0 && sum < INFINITY && k < count; k++)
        r->d->gates[row * r->d->per_row + k] /= sum;
}

static void decide_threshold(const bs_routing *r, int32_t row, const bs_operand *o)
{
    const float threshold = r->desc->threshold + r->knob;
    int32_t n = 0;
    for (int32_t p = 0; p < r->desc->paths; p++)
        if (bs_score_at(o, p) > threshold)
            bs_route_choose(r, row, n++, p, bs_score_at(o, p));
    if (n == 0 && r->desc->fallback > 0)
        bs_route_choose(r, row, 0, r->desc->fallback - 1, bs_score_at(o, r->desc->fallback - 1));
}

static void decide_residual(const bs_routing *r, int32_t row, const bs_operand *o)
{
    const float sum = bs_score_at(o, 0) + bs_score_at(o, 1);
    const int32_t path = sum < r->desc->threshold + r->knob ? 0 : 1;
    bs_route_choose(r, row, 0, path, bs_score_at(o, path));
}

static bs_status decide_label(const bs_routing *r, int32_t row, const bs_operand *o)
{
    const bs_status status = bs_route_range(r, row, "label", bs_score_int(o, 0), r->desc->paths);
    if (status == BS_OK)
        bs_route_choose(r, row, 0, bs_score_int(o, 0), 1.0f);
    return status;
}

static bs_status decide_table(const bs_routing *r, int32_t row, const bs_operand *o)
{
    const int32_t key = bs_score_int(o, 0);
    bs_status status = bs_route_range(r, row, "key", key, bs_or_default(r->desc->capacity, 256));
    if (status == BS_OK)
        status = bs_route_range(r, row, "the table gives path", r->table[key], r->desc->paths);
    if (status == BS_OK)
        bs_route_choose(r, row, 0, r->table[key], 1.0f);
    return status;
}

static bs_status decide_row(const bs_routing *r, int32_t row)
{
    const bs_operand o = bs_score_row(r, row);
    const bs_status status = check_scores(r, row, &o);
    if (status != BS_OK)
        return status;
    switch ((bs_protocol)r->desc->protocol) {
    case BS_ROUTE_TOP1: decide_topk(r, row, &o, 1); return BS_OK;
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY: decide_topk(r, row, &o, r->d->per_row); return BS_OK;
    case BS_ROUTE_THRESHOLD: decide_threshold(r, row, &o); return BS_OK;
    case BS_ROUTE_RESIDUAL_THRESHOLD: decide_residual(r, row, &o); return BS_OK;
    case BS_ROUTE_BINARY:
        bs_route_choose(r, row, 0, bs_score_at(&o, 0) >= r->desc->threshold + r->knob ? 0 : 1, bs_score_at(&o, 0));
        return BS_OK;
    case BS_ROUTE_LABEL: return decide_label(r, row, &o);
    case BS_ROUTE_TABLE: return decide_table(r, row, &o);
    default:
        return BS_ERROR_UNSUPPORTED; /* unreachable: the builder knows all, and the others are not row by row */
    }
}

/* ------------------------------------------------------------------------------------------------ capacity */

/* Rows by the gate of one of their choices, highest first. */
typedef struct gate_order {
    const bs_decision_data *d;
    int32_t k;
} gate_order;

static bool gate_is_higher(const void *user, int32_t a, int32_t b)
{
    const gate_order *o = user;
    return o->d->gates[a * o->d->per_row + o->k] > o->d->gates[b * o->d->per_row + o->k];
}

/* What was kept moves up, in order of choice. */
static void close_gaps(bs_decision_data *d, int32_t row)
{
    int32_t *chosen = d->chosen + row * d->per_row, kept = 0;
    float *gates = d->gates + row * d->per_row;
    for (int32_t k = 0; k < d->per_row; k++)
        if (chosen[k] >= 0) {
            chosen[kept] = chosen[k];
            gates[kept++] = gates[k];
        }
    d->dropped += d->per_row - kept;
    for (; kept < d->per_row; kept++) {
        chosen[kept] = -1;
        gates[kept] = 0;
    }
}

/* First choices are served before second ones, on every path the highest gate first, then the lower row; what does not
 * fit is dropped and counted. Normalised gates rank by share, which is what the cell wants. ids and inverse are free
 * until the decision is packed. */
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
            if (d->counts[*path] < r->desc->capacity)
                d->counts[*path]++;
            else
                *path = -1;
        }
    }
    for (int32_t row = 0; row < d->rows; row++)
        close_gaps(d, row);
}

/* ------------------------------------------------------------------------------------------------ callback */

static bs_status decide_callback(const bs_routing *r)
{
    const bs_route_callback *callback = &r->c->session->callbacks[r->router];
    bs_status status = BS_OK;
    if (!callback->function) {
        bs_route_fail(r, -1, "its callback is not set (bs_set_route)");
        return BS_ERROR_UNBOUND;
    }
    for (int32_t row = 0; row < r->d->rows && status == BS_OK; row++) {
        const bs_operand o = bs_score_row(r, row);
        status = check_scores(r, row, &o);
    }
    if (status != BS_OK)
        return status;
    const bs_operand_view view = {r->score.data, r->score.dtype, r->score.dim[0], r->score.row_stride,
                                  r->score.stride[0]};
    const int32_t answer = (int32_t)callback->function(callback->user, &view, r->d->rows, r->d->chosen);
    if (!bs_status_is_known(answer))
        return bs_route_fail(r, -1, "its callback returned %d, which is no bs_status", answer);
    status = (bs_status)answer;
    for (int32_t row = 0; row < r->d->rows && status == BS_OK; row++) {
        r->d->gates[row] = 1.0f;
        if (r->d->chosen[row] != -1)
            status = bs_route_range(r, row, "the callback chose", r->d->chosen[row], r->desc->paths);
    }
    return status;
}

/* --------------------------------------------------------------------------------------------------- pack */

/* Counts, offsets, ids and the inverse map from what was chosen: two passes in row order, so the order is stable. */
static void decision_pack(bs_decision_data *d)
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
        d->inverse[at] = path < 0 ? -1 : d->counts[path]++;
        if (path >= 0)
            d->ids[d->inverse[at]] = at / d->per_row;
    }
    for (int32_t p = 0; p < d->paths; p++)
        d->counts[p] = d->offsets[p + 1] - d->offsets[p];
}

void bs_decision_forced(bs_decision_data *d, int32_t rows, int32_t path)
{
    d->rows = rows;
    for (int32_t at = 0; at < rows * d->per_row; at++) {
        d->chosen[at] = at % d->per_row == 0 ? path : -1;
        d->gates[at] = 1.0f;
    }
    decision_pack(d);
}

static bs_status decide_all(const bs_routing *r)
{
    bs_status status = BS_OK;
    if (r->desc->protocol == BS_ROUTE_CALLBACK)
        return r->d->rows > 0 ? decide_callback(r) : BS_OK;
    if (r->desc->protocol == BS_ROUTE_BUDGET) {
        status = bs_budget_paths_exist(r);
        if (status != BS_OK)
            return status;
        r->d->price = 12.0f - (float)bs_route_budget(r) / 8.0f;
        return BS_OK;
    }
    for (int32_t row = 0; row < r->d->rows && status == BS_OK; row++)
        status = decide_row(r, row);
    if (status == BS_OK && r->desc->protocol == BS_ROUTE_CAPACITY)
        limit_capacity(r);
    return status;
}

bs_status bs_route_decide(bs_context *c, int32_t router)
{
    const bs_session *s = c->session;
    const bs_router_info *info = &s->graph->routers[router];
    bs_decision_data *d = &c->decisions[router];
    const int32_t rows = c->domains[info->domain].count, forced = s->plan->routers[router].forced;
    d->dropped = 0;
    d->rows = rows;
    d->price = 0;
    *c->fault = '\0';
    if (forced) {
        bs_decision_forced(d, rows, forced - 1);
        return BS_OK;
    }
    bs_routing r = {.c = c, .desc = info->desc, .d = d, .router = router};
    const uint8_t *weights = bs_bytes_at(s->weights, s->plan->nodes[info->node].prepared_offset);
    r.variants = bs_or_default(info->desc->capacity, info->desc->paths);
    r.table = (const int32_t *)(const void *)weights;
    if (info->desc->protocol == BS_ROUTE_BUDGET) {
        bs_weight_spec specs[BS_MAX_WEIGHTS] = {{0}};
        bs_op_route.weights(s->graph, &s->graph->nodes[info->node], specs);
        r.path_of = (const int32_t *)(const void *)bs_bytes_read_at(weights, bs_weight_offset(specs, 1));
    }
    if (rows > 0)
        r.score = bs_score_row(&r, 0);
    if (info->knob) {
        bs_operand knob;
        bs_operand_make(c, info->knob, 0, &knob);
        r.knob = *(const float *)knob.data;
        if (isnan(r.knob))
            return bs_route_fail(&r, -1, "the knob is NaN");
    }
    memset(d->chosen, -1, (size_t)rows * (size_t)d->per_row * sizeof *d->chosen);
    memset(d->gates, 0, (size_t)rows * (size_t)d->per_row * sizeof *d->gates);
    const bs_status status = decide_all(&r);
    if (status == BS_OK)
        decision_pack(d);
    return status;
}

/* ---------------------------------------------------------------------------------------------- look-ahead */

void bs_route_guess(const bs_context *c, int32_t router, int32_t score, float *margins)
{
    const bs_router_info *info = &c->session->graph->routers[router];
    const int32_t rows = c->domains[c->session->graph->values[score].domain].count, paths = info->desc->paths;
    const int32_t taken = info->max_paths_per_cell, asked = bs_min_i32(taken + 1, paths);
    int32_t *const best = c->session->work.order; /* those taken, and the best of the others */
    for (int32_t p = 0; p < paths; p++)
        margins[p] = -1;
    for (int32_t row = 0; row < rows; row++) {
        bs_operand o;
        bs_operand_make(c, score, row, &o);
        best_paths(&o, paths, asked, best);
        for (int32_t k = 0; k < taken; k++) {
            const float above = asked > taken ? bs_score_at(&o, best[k]) - bs_score_at(&o, best[taken]) : 0;
            const float margin = above > 0 ? above : 0; /* a NaN too is a choice */
            margins[best[k]] = margins[best[k]] < margin ? margin : margins[best[k]];
        }
    }
}
