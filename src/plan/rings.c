/* plan/rings.c - what a tile leaves for later: a rim that only rows want which go on behind a decision of their tile.
 *
 * A value's margin is what its deepest reader needs, and most rows may leave before they get there. So kernels before
 * such a decision compute their *near* rectangle first, and where a row goes on the *ring* between that and what is
 * then needed, before anything behind the decision runs. Routers inside of one another have a ring each: of the paths
 * of a domain's routers one goes on, the one that needs the widest margins, and its domain is a stage further. A value
 * has a reach for each stage. A device computes all margins at once.
 * Relies on plan/lower.h, and on regions and storage classes being known. Must never change what a value is stored in,
 * nor the bits of what is computed: rectangles begin and end at an op's grain (bs_node_plan.grain). */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

/* ------------------------------------------------------------------------------------------------- stages */

static bool decides_in_tile(const bs_lower_pass *l, int32_t domain)
{
    const bs_domain *d = &l->g->domains[domain];
    return d->kind == BS_DOMAIN_PATH && d->loop == 0 && l->plan->routers[d->router].in_tile &&
           !l->plan->routers[d->router].forced;
}

/* The widest margin that what is behind a decision takes along, of each path. */
static void find_pulls(bs_lower_pass *l, int32_t *pull)
{
    memset(pull, 0, (size_t)l->g->n_domains * sizeof *pull);
    for (int32_t n = 1; n < l->g->n_nodes; n++) {
        const bs_node *node = &l->g->nodes[n];
        if (l->plan->node_live[n] && bs_node_is_view(node) && node->router)
            pull[node->domain] = bs_max_i32(pull[node->domain], l->plan->values[node->first_out].margin);
    }
}

/* Parents come before their paths. */
static void find_stages(bs_lower_pass *l, int32_t *pull)
{
    find_pulls(l, pull);
    for (int32_t d = 1; d < l->g->n_domains; d++) {
        int32_t *on = &l->goes_on[bs_max_i32(l->g->domains[d].parent, 0)];
        if (decides_in_tile(l, d) && pull[d] > (*on ? pull[*on] : 0))
            *on = d;
    }
    for (int32_t d = 0; d < l->g->n_domains; d++) {
        const int32_t parent = bs_max_i32(l->g->domains[d].parent, 0);
        const bs_domain *domain = &l->g->domains[d];
        const bool inside = domain->kind == BS_DOMAIN_PATH && l->plan->routers[domain->router].in_tile;
        const bool first = !inside && l->plan->domains[bs_plan_top_domain(l->g, d)].images;
        if (inside && l->goes_on[parent] == d && l->is_on_way[parent] && l->stage[parent] < BS_STAGES - 1) {
            l->stage[d] = l->stage[parent] + 1;
            l->is_on_way[d] = true;
            continue;
        }
        l->stage[d] = inside ? l->stage[parent] : 0;
        l->is_on_way[d] = first;
        if (inside && l->goes_on[parent] == d)
            l->goes_on[parent] = 0;
    }
}

/* ------------------------------------------------------------------------------------------------- reaches */

static int32_t grain_of(const bs_lower_pass *l, int32_t n)
{
    bs_node_plan node = l->plan->nodes[n];
    bs_plan_size_node(l->plan, n, &node);
    return node.grain;
}

/* Whether a node's kernel may leave the ring for later. With a grain, rectangles begin where the row's own does: at the
 * margin, or at the edge of a frame, which is no nearer in other cells if a margin does not reach across one. */
static bool splits(const bs_lower_pass *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const bs_value_info *v = &l->g->values[node->first_out];
    const bs_value_plan *p = &l->plan->values[node->first_out];
    int64_t h, w;
    if (!l->plan->node_live[n] || bs_node_work(node) != BS_WORK_CALL || node->n_out != 1 || !v->image ||
        !bs_op_get(node->op)->layout.images || l->plan->nodes[n].fusion || p->planar || p->margin == 0 ||
        p->storage != BS_STORAGE_SCRATCH || !l->is_on_way[node->domain] || l->g->domains[node->domain].patches < 0)
        return false;
    bs_plan_core(l->plan, v, &h, &w);
    return p->margin <= bs_min_i64(h, w) || grain_of(l, n) == 1;
}

/* What is computed where a reach is asked for: whole grains, from the margin on, or at a frame's edge from the core
 * on. */
static bs_reach widen(const bs_lower_pass *l, int32_t n, bs_reach reach)
{
    const int32_t margin = l->plan->values[l->g->nodes[n].first_out].margin, grain = grain_of(l, n);
    return (bs_reach){margin - (margin - reach.before) / grain * grain, bs_min_i32(reach.after + grain - 1, margin)};
}

static bs_reach further(bs_reach a, bs_reach b)
{
    return (bs_reach){bs_max_i32(a.before, b.before), bs_max_i32(a.after, b.after)};
}

static bs_reach *reaches_of(const bs_lower_pass *l, int32_t value) { return l->reach + (size_t)value * BS_STAGES; }

/* The reaches of what a node makes, now that all of its readers have asked: no stage needs less than the one before,
 * and what is made behind a decision need not wait for it. A value that is computed at once has its margin. */
static void settle_reaches(bs_lower_pass *l, int32_t n, bool whole)
{
    const bs_node *node = &l->g->nodes[n];
    for (int32_t v = node->first_out; v < node->first_out + node->n_out; v++) {
        bs_reach *reach = reaches_of(l, v);
        const int32_t margin = l->plan->values[v].margin, stage = l->stage[node->domain];
        int32_t decided = stage;
        for (int32_t d = node->domain; l->is_on_way[d] && l->goes_on[d]; d = l->goes_on[d])
            if (l->g->routers[l->g->domains[l->goes_on[d]].router].node < n)
                decided = l->stage[l->goes_on[d]];
        for (int32_t k = stage; k < BS_STAGES; k++) {
            if (whole)
                reach[k] = (bs_reach){margin, margin};
            else if (k > stage)
                reach[k] = further(reach[k], reach[k - 1]);
            reach[k] = (bs_reach){bs_min_i32(reach[k].before, margin), bs_min_i32(reach[k].after, margin)};
        }
        for (int32_t k = stage; k < decided; k++)
            reach[k] = reach[decided];
    }
}

/* Asks the operands of a node for what it reads. */
static void ask_operands(bs_lower_pass *l, int32_t n, bool split)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t *in = bs_node_in(l->g, node);
    const int32_t stage = l->stage[node->domain];
    for (int32_t i = 0; i < node->n_in; i++) {
        if (in[i] == 0 || !bs_plan_reads(l->plan, node, i))
            continue;
        l->list[l->g->values[in[i]].node] = true;
        if (!l->g->values[in[i]].image)
            continue;
        for (int32_t k = stage; k < BS_STAGES; k++) {
            bs_reach out = {0, 0};
            for (int32_t v = node->first_out; v < node->first_out + node->n_out; v++)
                out = further(out, split ? widen(l, n, reaches_of(l, v)[k]) : reaches_of(l, v)[k]);
            bs_reach *asked = &reaches_of(l, in[i])[bs_max_i32(k, l->stage[l->g->values[in[i]].domain])];
            *asked = further(*asked, (bs_reach){bs_plan_margin_for(l->plan, node, i, out.before),
                                                bs_plan_margin_for(l->plan, node, i, out.after)});
        }
    }
}

static bool is_nearer(bs_reach a, bs_reach b) { return a.before < b.before || a.after < b.after; }

/* Finds all reaches. Nodes within fused chains hand on what is asked of them. Returns whether there is room for the
 * rings' instructions: nodes in tiles have fewer than are counted (plan/plan.c). */
static bool find_reaches(bs_lower_pass *l)
{
    int64_t rings = 0, room = 0;
    memset(l->reach, 0, (size_t)l->g->n_values * BS_STAGES * sizeof *l->reach);
    memset(l->list, 0, (size_t)l->g->n_nodes * sizeof *l->list);
    for (int32_t n = l->g->n_nodes - 1; n >= 1; n--) {
        const bs_node *node = &l->g->nodes[n];
        const bool live = l->plan->node_live[n], split = splits(l, n);
        const bool call = bs_node_work(node) == BS_WORK_CALL;
        room += !live ? 2 + node->n_in : call || bs_node_is_view(node) ? node->n_in : 0;
        if (!live && !l->list[n])
            continue;
        const bool hands_on = (!live && call) || (node->n_out == 1 && bs_node_is_view(node) &&
                                                  l->plan->values[node->first_out].storage == BS_STORAGE_VIEW);
        settle_reaches(l, n, !split && !hands_on);
        ask_operands(l, n, split);
        const bs_reach *reach = reaches_of(l, node->first_out);
        for (int32_t k = l->stage[node->domain] + 1; k < BS_STAGES && split; k++)
            rings += is_nearer(reach[k - 1], reach[k]);
    }
    return rings <= room;
}

void bs_lower_rings(bs_lower_pass *l)
{
    if (l->plan->room->patches && !bs_plan_on_device(l->plan)) {
        find_stages(l, l->open); /* the regions are closed */
        l->has_rings = find_reaches(l);
    }
    if (!l->has_rings)
        memset(l->goes_on, 0, (size_t)l->g->n_domains * sizeof *l->goes_on);
}

/* ------------------------------------------------------------------------------------------------ instructions */

void bs_lower_near(bs_lower_pass *l, bs_instr *i)
{
    if (!l->has_rings || i->part == BS_TOP || !splits(l, i->node))
        return;
    const int32_t value = l->g->nodes[i->node].first_out, margin = l->plan->values[value].margin;
    i->reach = reaches_of(l, value)[l->stage[i->domain]];
    if (i->reach.before >= margin && i->reach.after >= margin) {
        i->reach = (bs_reach){0, 0};
        return;
    }
    i->extent = BS_EXTENT_NEAR;
    int32_t *last = &l->split_last[i->part]; /* a ring of nodes: the last one's next is the first */
    l->split_next[i->node] = *last ? l->split_next[*last] : i->node;
    if (*last)
        l->split_next[*last] = i->node;
    *last = i->node;
}

int32_t bs_lower_next_ring(const bs_lower_pass *l, int32_t part, int32_t domain, int32_t after)
{
    const int32_t last = part == BS_TOP ? 0 : l->split_last[part], stage = l->stage[domain];
    if (last == 0 || after == last)
        return 0;
    for (int32_t n = l->split_next[after ? after : last];; n = l->split_next[n]) {
        const bs_reach *reach = reaches_of(l, l->g->nodes[n].first_out);
        if (l->stage[l->g->nodes[n].domain] < stage && is_nearer(reach[stage - 1], reach[stage]))
            return n;
        if (n == last)
            return 0;
    }
}

void bs_lower_ring(const bs_lower_pass *l, bs_instr *i, int32_t domain)
{
    const bs_reach *reach = reaches_of(l, l->g->nodes[i->node].first_out);
    i->domain = domain;
    i->extent = BS_EXTENT_RING;
    i->reach = reach[l->stage[domain]];
    i->done = reach[l->stage[domain] - 1];
}

#endif
