/* plan/loops.c - the order in which nodes become instructions.
 *
 * Nodes stand in the order in which they were built, and nodes of a body between others. What a body reads from outside
 * is built before its loop ends, and what the loop gives is read after that: so a body is moved, whole, to where its
 * loop ends. Loops in loops are moved with the body that they are in.
 * With mixed domains nodes go level by level (plan/regions.c), so that the time of a region is known before anything
 * outside reads what it makes. All of a loop is of one level, the highest that one of its nodes needs: else its
 * decisions, which read little, would stand before what the body reads.
 * Relies on plan/lower.h. Must never emit instructions. */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

static void append(bs_lower_pass *l, int32_t loop, int32_t first, int32_t last)
{
    if (l->last[loop])
        l->follows[l->last[loop]] = first;
    else
        l->first[loop] = first;
    l->last[loop] = last;
}

/* The loop in whose list a node stands: both decisions of a loop are in its own. */
static int32_t list_of(const bs_graph *g, int32_t n)
{
    const bs_node *node = &g->nodes[n];
    return bs_node_work(node) == BS_WORK_ROUTE && bs_router_loops(g, node->router) ? node->router
                                                                                  : g->domains[node->domain].loop;
}

void bs_lower_level_loop(bs_lower_pass *l, int32_t n)
{
    const bs_graph *g = l->g;
    const int32_t loop = g->nodes[n].router;
    const bs_router_info *info = &g->routers[loop];
    if (!bs_router_loops(g, loop) || info->loop.again != n || g->domains[info->domain].loop)
        return;
    int32_t level = 0;
    for (int32_t set = 0; set < 2; set++) /* first it is found */
        for (int32_t k = info->node; k <= n; k++) {
            const int32_t region = bs_lower_region_of(l, k);
            if (!l->plan->node_live[k] ||
                (g->nodes[k].router != loop && !bs_domain_in_loop(g, g->nodes[k].domain, loop)))
                continue; /* what the loop gives is of it, too */
            level = bs_max_i32(level, l->level[k]);
            l->level[k] = set ? level : l->level[k];
            if (region != BS_TOP)
                l->region_level[region] = bs_max_i32(l->region_level[region], l->level[k]);
        }
}

/* Chains all nodes by `follows`, bodies of loops whole. Returns the first. */
static int32_t chain(bs_lower_pass *l)
{
    const bs_graph *g = l->g;
    memset(l->follows, 0, (size_t)g->n_nodes * sizeof *l->follows);
    memset(l->first, 0, (size_t)g->n_routers * sizeof *l->first);
    memset(l->last, 0, (size_t)g->n_routers * sizeof *l->last);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const int32_t loop = list_of(g, n);
        append(l, loop, n, n);
        if (loop && g->routers[loop].loop.again == n)
            append(l, g->domains[g->routers[loop].domain].loop, l->first[loop], l->last[loop]);
    }
    return l->first[0];
}

void bs_lower_order(bs_lower_pass *l)
{
    const int32_t nodes = l->g->n_nodes, first = chain(l);
    int32_t *next = l->seen; /* [levels] where the next node of each goes; without mixed domains all are of one */
    memset(next, 0, (size_t)nodes * sizeof *next);
    for (int32_t n = 1; n < nodes; n++)
        next[l->level[n]]++;
    bs_starts_of(next, nodes);
    for (int32_t n = first; n; n = l->follows[n])
        l->list[next[l->level[n]]++] = n;
}

#endif
