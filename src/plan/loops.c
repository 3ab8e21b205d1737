/* plan/loops.c - the order in which nodes become instructions, where there are loops.
 *
 * Nodes stand in the order in which they were built, and nodes of a body between others. What a body reads from outside
 * is built before its loop ends, and what the loop gives is read after that: so a body is moved, whole, to where its
 * loop ends. Loops in loops are moved with the body that they are in.
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

void bs_lower_order(bs_lower_pass *l)
{
    const bs_graph *g = l->g;
    memset(l->follows, 0, (size_t)g->n_nodes * sizeof *l->follows);
    memset(l->first, 0, (size_t)g->n_routers * sizeof *l->first);
    memset(l->last, 0, (size_t)g->n_routers * sizeof *l->last);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const int32_t loop = list_of(g, n);
        append(l, loop, n, n);
        if (loop && g->routers[loop].again == n)
            append(l, g->domains[g->routers[loop].domain].loop, l->first[loop], l->last[loop]);
    }
    int32_t count = 0;
    for (int32_t n = l->first[0]; n; n = l->follows[n])
        l->list[count++] = n;
}

#endif
