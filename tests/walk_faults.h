/* walk_faults.h - faults of a finished plan, planted in its tables: of the order of its instructions, of the bytes that
 * its values take, and of what only an image of it may say.
 * Owns: the plan, while one is planted, and how it was before. Relies on: check.h, plan/walk.h. Must never: plant what
 * would still be right. */
#ifndef BS_TEST_WALK_FAULTS_H
#define BS_TEST_WALK_FAULTS_H

#include "check.h"

#include "plan/image.h"
#include "plan/walk.h"

enum { MOST_INSTRS = 4096, MOST_VALUES = 4096 };

static bs_plan *plan;

/* What a fault may change, as it was. */
static bs_instr instrs[MOST_INSTRS];
static bs_value_plan values[MOST_VALUES];
static bs_router_plan routers[256];
static bs_node_plan nodes[MOST_VALUES];

static void keep(void)
{
    memcpy(nodes, plan->nodes, (size_t)plan->graph->n_nodes * sizeof *nodes);
    memcpy(instrs, plan->instrs, (size_t)plan->n_instrs * sizeof *instrs);
    memcpy(values, plan->values, (size_t)plan->graph->n_values * sizeof *values);
    memcpy(routers, plan->routers, (size_t)plan->graph->n_routers * sizeof *routers);
}

static void restore(void)
{
    memcpy(plan->nodes, nodes, (size_t)plan->graph->n_nodes * sizeof *nodes);
    memcpy(plan->instrs, instrs, (size_t)plan->n_instrs * sizeof *instrs);
    memcpy(plan->values, values, (size_t)plan->graph->n_values * sizeof *values);
    memcpy(plan->routers, routers, (size_t)plan->graph->n_routers * sizeof *routers);
}

/* --------------------------------------------------------------------------------------------- who reads what */

static bool computes(const bs_instr *i) { return i->kind == BS_INSTR_CALL || i->kind == BS_INSTR_MOVE; }

static int32_t stored_in(int32_t value)
{
    while (plan->values[value].storage == BS_STORAGE_VIEW)
        value = plan->values[value].source;
    return value;
}

/* Whether instruction k reads, or writes, rows in the storage of `value`. */
static bool touches(int32_t k, int32_t value, bool writes)
{
    bool written;
    for (int32_t n = 0, v; (v = bs_walk_touched(plan, &plan->instrs[k], n, &written)) >= 0; n++)
        if (v != 0 && written == writes && stored_in(v) == value &&
            (writes || plan->instrs[k].map != BS_MAP_VIEW || v != plan->instrs[k].value))
            return true;
    return false;
}

/* A value that is stored, a call that makes it, and an instruction behind that which reads it: in one list, of a part
 * or at top level. */
typedef struct use {
    int32_t value, maker, reader;
} use;

static int32_t made_by(int32_t k)
{
    const bs_node *node = &plan->graph->nodes[plan->instrs[k].node];
    const bool makes = plan->instrs[k].kind == BS_INSTR_CALL && node->n_out == 1 && !node->makes &&
                       plan->instrs[k].extent == BS_EXTENT_ALL && bs_plan_is_stored(plan, node->first_out);
    return makes ? node->first_out : 0;
}

/* The nth use, from 0, of a list; the last one's number: -1 there are fewer. */
static bool find_use(int32_t first, int32_t count, int32_t nth, use *u)
{
    for (int32_t a = first; a < first + count; a++) {
        const int32_t value = computes(&plan->instrs[a]) ? made_by(a) : 0;
        for (int32_t b = a + 1; value && b < first + count; b++) {
            if (!touches(b, value, false) || !computes(&plan->instrs[b]) ||
                plan->instrs[b].extent != BS_EXTENT_ALL)
                continue;
            *u = (use){value, a, b};
            if (nth-- == 0)
                return true;
        }
    }
    return false;
}

static bool any_use(int32_t first, int32_t count, use *u)
{
    use other;
    int32_t n = 0;
    while (find_use(first, count, n, &other))
        n++;
    return n > 0 && find_use(first, count, (int32_t)check_below(n), u);
}

/* Two instructions change places; times stay where they are. */
static void swap(int32_t a, int32_t b)
{
    const bs_instr was = plan->instrs[a];
    const int32_t time_a = was.time, time_b = plan->instrs[b].time;
    plan->instrs[a] = plan->instrs[b];
    plan->instrs[b] = was;
    plan->instrs[a].time = time_a;
    plan->instrs[b].time = time_b;
}

static bool any_part(int32_t *part)
{
    *part = plan->n_parts > 0 ? (int32_t)check_below(plan->n_parts) : -1;
    return *part >= 0 && plan->parts[*part].count > 1;
}

/* ------------------------------------------------------------------------------------------ faults of the order */

static bool reads_before(void)
{
    use u;
    const bool any = any_use(0, plan->n_top, &u);
    if (any)
        swap(u.maker, u.reader);
    return any;
}

static bool reads_at_the_same_time(void)
{
    use u;
    const bool any = any_use(0, plan->n_top, &u);
    for (int32_t k = u.maker; any && k <= u.reader; k++)
        plan->instrs[k].time = instrs[u.maker].time;
    return any;
}

static bool reads_before_in_a_tile(void)
{
    use u;
    int32_t part;
    const bool any = any_part(&part) && any_use(plan->parts[part].first, plan->parts[part].count, &u);
    if (any)
        swap(u.maker, u.reader);
    return any;
}

/* The region runs at the time of what one of its tiles reads. */
static bool tile_at_the_same_time(void)
{
    int32_t part;
    if (!any_part(&part))
        return false;
    const int32_t run = plan->regions[plan->parts[part].region].instr;
    for (int32_t a = 0; a < run; a++) {
        const int32_t value = computes(&plan->instrs[a]) ? made_by(a) : 0;
        for (int32_t k = 0; value && k < plan->parts[part].count; k++) {
            if (!touches(plan->parts[part].first + k, value, false))
                continue;
            for (int32_t j = a; j <= run; j++)
                plan->instrs[j].time = instrs[a].time;
            return true;
        }
    }
    return false;
}

static bool comes_twice(void)
{
    const int32_t k = 1 + (int32_t)check_below(bs_max_i32(plan->n_top - 1, 1));
    if (k >= plan->n_top || plan->instrs[k - 1].kind != BS_INSTR_CALL || plan->instrs[k].kind != BS_INSTR_CALL)
        return false;
    const int32_t time = plan->instrs[k].time;
    plan->instrs[k] = plan->instrs[k - 1];
    plan->instrs[k].time = time;
    return true;
}

static bool last_is_missing(void)
{
    const bs_instr *last = &plan->instrs[plan->n_top - 1];
    if (!computes(last) || plan->n_instrs > plan->n_top)
        return false;
    plan->n_top--, plan->n_instrs--;
    return true;
}

/* A path's rows are stored twice, those of another one never. */
static bool other_path_is_stored(void)
{
    for (int32_t a = 0; a < plan->n_instrs; a++)
        for (int32_t b = a + 1; b < plan->n_instrs; b++) {
            bs_instr *x = &plan->instrs[a], *y = &plan->instrs[b];
            const bool stores = x->kind == BS_INSTR_MOVE && y->kind == BS_INSTR_MOVE && x->node == y->node &&
                                x->combine == BS_COMBINE_COPY && y->combine == BS_COMBINE_COPY && x->value &&
                                y->value && x->part == y->part && bs_node_gathers(&plan->graph->nodes[x->node]) &&
                                !bs_router_loops(plan->graph, plan->graph->nodes[x->node].router);
            if (!stores)
                continue;
            y->value = x->value;
            y->domain = x->domain;
            return true;
        }
    return false;
}

/* What works on rows of a path before the router has decided. */
static bool decides_too_late(void)
{
    for (int32_t a = 0; a < plan->n_top; a++)
        for (int32_t b = a + 1; plan->instrs[a].kind == BS_INSTR_ROUTE && b < plan->n_top; b++) {
            const int32_t router = plan->graph->nodes[plan->instrs[a].node].router;
            const bs_domain *d = &plan->graph->domains[plan->instrs[b].domain];
            if (plan->routers[router].instr != a || d->kind != BS_DOMAIN_PATH || d->router != router ||
                !computes(&plan->instrs[b]))
                continue;
            swap(a, b);
            plan->routers[router].instr = b;
            return true;
        }
    return false;
}

/* What works on rows of a path has the time of the decision. */
static bool decided_at_the_same_time(void)
{
    const int32_t first = plan->n_top > 0 ? (int32_t)check_below(plan->n_top) : 0;
    for (int32_t n = 0; n < plan->n_top; n++) {
        const int32_t a = (first + n) % plan->n_top, router = plan->graph->nodes[plan->instrs[a].node].router;
        if (plan->instrs[a].kind != BS_INSTR_ROUTE || plan->routers[router].instr != a)
            continue;
        for (int32_t b = a + 1; b < plan->n_top; b++) {
            const bs_domain *d = &plan->graph->domains[plan->instrs[b].domain];
            if (d->kind != BS_DOMAIN_PATH || d->router != router || !computes(&plan->instrs[b]))
                continue;
            for (int32_t k = a; k <= b; k++)
                plan->instrs[k].time = instrs[a].time;
            return true;
        }
    }
    return false;
}

/* A loop's result is moved when its last trip is over. */
static bool moves_after_the_loop(void)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++) {
        const int32_t again = plan->routers[r].again;
        if (!plan->routers[r].live || again < 1 || plan->instrs[again].part != plan->instrs[again - 1].part)
            continue;
        const bs_instr *i = &plan->instrs[again - 1];
        if (i->kind != BS_INSTR_MOVE || plan->graph->nodes[i->node].router != r || i->map == BS_MAP_ROW)
            continue;
        swap(again - 1, again);
        plan->routers[r].again = again - 1;
        return true;
    }
    return false;
}

/* What is there before the first trip comes after the decision. */
static bool begins_too_late(void)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++) {
        const int32_t at = plan->routers[r].instr;
        if (!plan->routers[r].live || !bs_router_loops(plan->graph, r) || at < 1 ||
            plan->instrs[at].part != plan->instrs[at - 1].part)
            continue;
        const bs_instr *i = &plan->instrs[at - 1];
        if (i->kind != BS_INSTR_MOVE || plan->graph->nodes[i->node].router != r || i->map != BS_MAP_ROW)
            continue;
        swap(at - 1, at);
        plan->routers[r].instr = at - 1;
        return true;
    }
    return false;
}

/* Less of an image is computed near its core, or in its ring, than its readers need. */
static bool reaches_less(uint8_t extent)
{
    for (int32_t k = plan->n_top; k < plan->n_instrs; k++) {
        bs_instr *i = &plan->instrs[k];
        if (i->kind != BS_INSTR_CALL || i->extent != extent ||
            plan->nodes[i->node].grain > 1)
            continue;
        const bs_reach less = extent == BS_EXTENT_RING ? i->done : (bs_reach){0, 0};
        if (i->reach.before <= less.before && i->reach.after <= less.after)
            continue;
        i->reach = less;
        return true;
    }
    return false;
}

static bool reaches_less_near(void) { return reaches_less(BS_EXTENT_NEAR); }
static bool reaches_less_in_a_ring(void) { return reaches_less(BS_EXTENT_RING); }

/* What a part makes is kept in its scratch, though another part reads it. */
static bool kept_in_another_tile(void)
{
    for (int32_t a = plan->n_top; a < plan->n_instrs; a++) {
        const int32_t value = computes(&plan->instrs[a]) ? made_by(a) : 0;
        if (value == 0 || plan->values[value].storage != BS_STORAGE_TRANSIENT)
            continue;
        for (int32_t b = a + 1; b < plan->n_instrs; b++) {
            if (plan->instrs[b].part == plan->instrs[a].part || !touches(b, value, false))
                continue;
            plan->values[value].storage = BS_STORAGE_SCRATCH;
            plan->values[value].scope = plan->instrs[a].part;
            return true;
        }
    }
    return false;
}

/* -------------------------------------------------------------------------------------------- faults of bytes */

static bool are_alike(int32_t a, int32_t b)
{
    return a == b || bs_walk_are_paths(plan->graph, plan->graph->values[a].domain, plan->graph->values[b].domain);
}

/* A value is written between where another one is and where that is read, into its place. */
static bool written_over(int32_t first, int32_t count)
{
    use u;
    if (!any_use(first, count, &u))
        return false;
    for (int32_t k = u.maker + 1; k < u.reader; k++) {
        const int32_t other = computes(&plan->instrs[k]) ? made_by(k) : 0;
        const bool between = plan->instrs[k].part != BS_TOP || (plan->instrs[k].time > plan->instrs[u.maker].time &&
                                                                plan->instrs[k].time <= plan->instrs[u.reader].time);
        if (!other || !between || are_alike(other, u.value) ||
            plan->values[other].storage != plan->values[u.value].storage)
            continue;
        plan->values[other].offset = plan->values[u.value].offset;
        return true;
    }
    return false;
}

static bool written_over_at_top(void) { return written_over(0, plan->n_top); }

static bool written_over_in_a_tile(void)
{
    int32_t part;
    return any_part(&part) && written_over(plan->parts[part].first, plan->parts[part].count);
}

/* The same by one that stands behind the reader, at its time: which of them runs first nobody knows. */
static bool written_over_at_one_time(void)
{
    use u;
    if (!any_use(0, plan->n_top, &u))
        return false;
    for (int32_t k = u.reader + 1; k < plan->n_top && plan->instrs[k].time == plan->instrs[u.reader].time; k++) {
        const int32_t other = computes(&plan->instrs[k]) ? made_by(k) : 0;
        if (!other || are_alike(other, u.value) || plan->values[other].storage != plan->values[u.value].storage)
            continue;
        plan->values[other].offset = plan->values[u.value].offset;
        return true;
    }
    return false;
}

/* What a loop's trips read from outside is written over in the body behind its last reader: by the first trip, for the
 * second. */
static bool written_over_for_the_next_trip(void)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++) {
        const int32_t begin = plan->routers[r].instr, end = plan->routers[r].again;
        if (!plan->routers[r].live || end < 0 || plan->instrs[end].part != BS_TOP)
            continue;
        for (int32_t a = 0; a < begin; a++) {
            const int32_t value = computes(&plan->instrs[a]) ? made_by(a) : 0;
            int32_t reader = -1;
            for (int32_t k = begin + 1; value && k < end; k++)
                reader = touches(k, value, false) ? k : reader;
            for (int32_t k = reader + 1; reader >= 0 && k < end; k++) {
                const int32_t other = computes(&plan->instrs[k]) ? made_by(k) : 0;
                if (!other || plan->instrs[k].time <= plan->instrs[reader].time || are_alike(other, value) ||
                    plan->values[other].storage != plan->values[value].storage)
                    continue;
                plan->values[other].offset = plan->values[value].offset;
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------------------------- what an image may say */

static bool margin_is_smaller(void)
{
    for (int32_t v = 1; v < plan->graph->n_values; v++)
        if (bs_plan_is_stored(plan, v) && plan->graph->values[v].rank == 3 && plan->values[v].margin > 0) {
            plan->values[v].margin--;
            return true;
        }
    return false;
}

/* Zeros would be put around it, where there is no room. */
static bool margin_of_no_image(void)
{
    for (int32_t v = 1; v < plan->graph->n_values; v++)
        if (bs_plan_is_stored(plan, v) && plan->graph->values[v].rank != 3) {
            plan->values[v].margin = 64;
            return true;
        }
    return false;
}

static bool weights_are_smaller(void)
{
    for (int32_t n = 1; n < plan->graph->n_nodes; n++)
        if (plan->node_live[n] && bs_bytes_figure(plan->nodes[n].prepared_bytes) > BS_ALIGNMENT) {
            plan->nodes[n].prepared_bytes = bs_bytes_of(BS_ALIGNMENT);
            return true;
        }
    return false;
}

static bool sees_another_value(void)
{
    for (int32_t v = 1; v < plan->graph->n_values; v++)
        if (bs_plan_is_seen(plan, v)) {
            plan->values[v].source = plan->values[v].source > 1 ? plan->values[v].source - 1 : 2;
            return true;
        }
    return false;
}

/* An instruction stands in the list of a part, and says that it is another's. */
static bool stands_elsewhere(void)
{
    int32_t part;
    if (!any_part(&part) || plan->n_parts < 2)
        return false;
    plan->instrs[plan->parts[part].first].part = (part + 1) % plan->n_parts;
    return true;
}

/* What is said to decide a router does not. */
static bool nothing_decides(void)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++)
        for (int32_t k = plan->routers[r].instr - 1; plan->routers[r].live && k >= 0 && k < plan->n_top; k--)
            if (plan->instrs[k].kind == BS_INSTR_CALL && plan->routers[r].instr < plan->n_top) {
                plan->routers[r].instr = k;
                return true;
            }
    return false;
}

#endif
