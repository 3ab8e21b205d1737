/* plan_watch.h - who is alive when, by the instructions of a plan, told from what each kind means: plan_is_sound says
 * whether any two values share bytes while both are needed.
 * Owns its own account of lifetimes. Relies on naive.h for limits. Must never: ask the planner's account. */
#ifndef BS_TEST_PLAN_WATCH_H
#define BS_TEST_PLAN_WATCH_H

#include "naive.h"
#include "plan/plan.h"

static inline uint64_t figure(bs_bytes bytes) { return bs_bytes_figure(bytes); }

typedef struct span_of {
    int32_t first, last;
    bool read_first;
} span_of;

typedef struct watch {
    const bs_plan *plan;
    span_of spans[NAIVE_VALUES];
    int32_t scope; /* -1 or a part */
    int32_t trip[NAIVE_ROUTERS]; /* of each loop */
} watch;

/* Whether every loop that a value is in the body of makes its first trip: later ones use the same bytes again. */
static inline bool is_first_trip(const watch *w, int32_t value)
{
    const bs_graph *g = w->plan->graph;
    bool first = true;
    for (int32_t l = g->domains[g->values[value].domain].loop; l; l = g->domains[g->routers[l].domain].loop)
        first = first && w->trip[l] == 0;
    return first;
}

static inline void see(watch *w, int32_t value, int32_t time, bool writes)
{
    while (value > 0 &&
           (w->plan->values[value].storage == BS_STORAGE_VIEW || w->plan->values[value].storage == BS_STORAGE_FRAME))
        value = w->plan->values[value].source;
    const bs_value_plan *v = &w->plan->values[value];
    const bool here =
        w->scope < 0 ? v->storage == BS_STORAGE_TRANSIENT : v->storage == BS_STORAGE_SCRATCH && v->scope == w->scope;
    if (value == 0 || !here || !is_first_trip(w, value))
        return;
    span_of *s = &w->spans[value];
    if (s->first < 0 || time < s->first)
        s->read_first = !writes;
    else if (time == s->first && writes && w->scope < 0)
        s->read_first = false; /* a region writes and reads at one time */
    s->first = s->first < 0 || time < s->first ? time : s->first;
    s->last = time > s->last ? time : s->last;
}

/* What an instruction reads and writes, told from what each kind means. */
static inline void see_instr(watch *w, const bs_instr *i, int32_t time)
{
    const bs_graph *g = w->plan->graph;
    const bs_node *node = &g->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(w->plan, i->node, &n_in);
    const bool forced = node->router && w->plan->routers[node->router].forced;
    switch ((bs_instr_kind)i->kind) {
    case BS_INSTR_CALL: /* a look-ahead makes nothing */
        for (int32_t k = 0; k < n_in; k++)
            see(w, in[k], time, false);
        for (int32_t k = 0; k < node->n_out; k++)
            see(w, node->first_out + k, time, true);
        break;
    case BS_INSTR_MOVE:
        if (i->map == BS_MAP_VIEW)
            see(w, n_in ? bs_view_of(g, node) : 0, time, false);
        else if (i->map == BS_MAP_PATHS)
            for (int32_t k = 0; k < n_in; k++)
                see(w, bs_plan_reads(w->plan, node, k) ? in[k] : 0, time, false);
        else
            see(w, i->value, time, false);
        see(w, i->target, time, true);
        break;
    case BS_INSTR_ROUTE:
        for (int32_t k = 0; k < n_in && !forced; k++)
            see(w, in[k], time, false);
        break;
    case BS_INSTR_RUN:
        for (int32_t k = 0; k < w->plan->n_instrs; k++)
            if (w->plan->instrs[k].part != BS_TOP && w->plan->parts[w->plan->instrs[k].part].region == i->region)
                see_instr(w, &w->plan->instrs[k], time);
        break;
    }
}

static inline void watch_scope(watch *w, const bs_plan *plan, int32_t scope)
{
    const int32_t first = scope < 0 ? 0 : plan->parts[scope].first,
                  count = scope < 0 ? plan->n_top : plan->parts[scope].count;
    w->plan = plan;
    w->scope = scope;
    for (int32_t v = 0; v < plan->graph->n_values; v++)
        w->spans[v] = (span_of){-1, -1, false};
    memset(w->trip, 0, sizeof w->trip);
    int32_t shift = 0; /* loops make two trips: later times are later by what went before */
    for (int32_t i = first; i < first + count; i++) {
        const bs_instr *instr = &plan->instrs[i];
        const int32_t router = instr->kind == BS_INSTR_ROUTE ? plan->graph->nodes[instr->node].router : 0;
        see_instr(w, instr, (scope < 0 ? instr->time : i) + shift);
        if (!router || !bs_router_loops(plan->graph, router))
            continue;
        const bool again = plan->graph->routers[router].loop.again == instr->node;
        if (again && w->trip[router] == 0) {
            const int32_t begin = plan->routers[router].instr;
            shift += scope < 0 ? instr->time - plan->instrs[begin].time : i - begin;
            w->trip[router] = 1;
            i = begin;
        } else {
            w->trip[router] = 0;
        }
    }
}

/* Rows of different paths of a router are packed: they may share one slab, row size and all. */
static inline bool shares_slab(const bs_plan *p, int32_t u, int32_t v)
{
    const bs_domain *a_domain = &p->graph->domains[p->graph->values[u].domain],
                    *b_domain = &p->graph->domains[p->graph->values[v].domain];
    const bs_value_plan *x = &p->values[u], *y = &p->values[v];
    return a_domain->kind == BS_DOMAIN_PATH && b_domain->kind == BS_DOMAIN_PATH &&
           a_domain->router == b_domain->router && a_domain->path != b_domain->path &&
           bs_bytes_same(x->offset, y->offset) && bs_bytes_same(x->row_bytes, y->row_bytes) && x->rows == y->rows;
}

static inline uint64_t end_of(const bs_value_plan *v)
{
    return figure(bs_bytes_add(v->offset, bs_bytes_times(v->row_bytes, v->rows)));
}

/* Whether all values of a scope lie apart, within `bytes`, and are written before they are read. */
static inline bool scope_is_sound(watch *w, bs_bytes bytes)
{
    const bs_plan *p = w->plan;
    for (int32_t u = 1; u < p->graph->n_values; u++) {
        const bs_value_plan *x = &p->values[u];
        const uint64_t x_at = figure(x->offset), x_end = end_of(x);
        if (w->spans[u].first < 0)
            continue;
        if (w->spans[u].read_first || x_end > figure(bytes) || x_end == x_at)
            return false;
        for (int32_t v = 1; v < u; v++) {
            const bs_value_plan *y = &p->values[v];
            const bool together = w->spans[v].first >= 0 && w->spans[u].first <= w->spans[v].last &&
                                  w->spans[v].first <= w->spans[u].last;
            const bool overlap = x_at < end_of(y) && figure(y->offset) < x_end;
            if (together && overlap && !shares_slab(p, u, v))
                return false;
        }
    }
    return true;
}

static watch seen;

static inline bool plan_is_sound(const bs_plan *p)
{
    watch_scope(&seen, p, -1);
    bool ok = scope_is_sound(&seen, p->transient_bytes);
    for (int32_t k = 0; ok && k < p->n_parts; k++) {
        watch_scope(&seen, p, k);
        ok = scope_is_sound(&seen, p->kernel_scratch_offset);
    }
    for (int32_t n = 1; ok && n < p->graph->n_nodes; n++)
        ok = !p->node_live[n] ||
             figure(p->nodes[n].scratch_bytes) <= figure(p->scratch_bytes) - figure(p->kernel_scratch_offset);
    return ok;
}

/* The checker must see two values put on the same bytes. 1: it does, 0: it does not, -1: there are no two. */
static inline int32_t breaks_when_moved(bs_plan *p)
{
    watch_scope(&seen, p, -1);
    for (int32_t u = 1; u < p->graph->n_values; u++)
        for (int32_t v = 1; v < u; v++) {
            const span_of *x = &seen.spans[u], *y = &seen.spans[v];
            if (x->first < 0 || y->first < 0 || x->first > y->last || y->first > x->last || shares_slab(p, u, v))
                continue;
            const bs_bytes offset = p->values[u].offset;
            p->values[u].offset = p->values[v].offset;
            const bool noticed = !plan_is_sound(p);
            p->values[u].offset = offset;
            return noticed;
        }
    return -1;
}

#endif
