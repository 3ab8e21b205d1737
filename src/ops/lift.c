/* ops/lift.c - lifting: what a body makes of values that are the same in every trip is made before its loop, for all
 * rows at once, and the body reads it by a scatter. Chains rise link by link, since that is such a value again.
 * Relies on structure.h. Must never change a result, nor refuse what would be built in the body, unless the
 * graph is full. */
#include "ops/structure.h"

/* Not computed row by row, or only where the loop is. */
#define STAYS (BS_OP_STRUCTURAL | BS_OP_CROSS_ROW | BS_OP_DECIDED | BS_OP_AROUND)

/* Whether a loop asks each of its rows for a trip, whatever the data of the run. */
static bool loop_asks_all(const bs_graph *g, const bs_router_info *loop)
{
    return !loop->count && (loop->trips < 0 || !g->dims[loop->trips].node);
}

/* Whether a run may be refused for what an operand of the node holds, or for one without elements. */
static bool may_refuse(const bs_graph *g, const bs_node *node)
{
    bool may = (bs_node_op(node)->flags & BS_OP_REFUSES) != 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        const bs_value_info *v = &g->values[bs_node_in(g, node)[i]];
        for (int32_t d = 0; d < v->rank; d++)
            may |= g->dims[v->dims[d]].node != 0;
    }
    return may;
}

/* The loop around the body in which a node stands, if all that it reads there are scatters of that loop, and the rest
 * is of the root; 0: there is none, or the node has to stay. */
static int32_t lifted_from(const bs_graph *g, const bs_node *node)
{
    const int32_t loop = g->domains[node->domain].router;
    const bs_router_info *l = &g->routers[loop];
    if (!bs_router_loops(g, loop) || l->no_lift || l->grows || (!loop_asks_all(g, l) && may_refuse(g, node)))
        return 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        const bs_value_info *v = &g->values[bs_node_in(g, node)[i]];
        if (v->domain && !bs_node_is(&g->nodes[v->node], &bs_op_scatter))
            return 0;
    }
    return loop;
}

/* A result that a scatter cannot show: of more dimensions than other ops take. */
static bool has_too_many_axes(const bs_graph *g, const bs_node *node)
{
    bool has = false;
    for (int32_t i = 0; i < node->n_out; i++)
        has |= g->values[node->first_out + i].rank > BS_MAX_RANK;
    return has;
}

/* Its shape rule has said what the results are: those of rows of a body are those of rows around it. */
static void lift_from(bs_graph *g, bs_node *node, int32_t loop)
{
    int32_t *in = g->operands + node->in;
    for (int32_t i = 0; i < node->n_in; i++)
        if (g->values[in[i]].domain)
            in[i] = bs_node_in(g, &g->nodes[g->values[in[i]].node])[0];
    node->domain = g->routers[loop].domain;
    g->n_cell_nodes -= node->domain == 0;
    for (int32_t i = 0; i < node->n_out; i++)
        g->values[node->first_out + i].domain = node->domain;
}

/* Scatters the values before the end of the table, of which only the last ones will have a number. Returns the first
 * node, or NULL: the graph is full. */
static bs_node *show(bs_graph *g, int32_t loop, int32_t count)
{
    const bs_router_params p = {"", loop, 0};
    const int32_t first = g->n_values - count, node = g->n_nodes, number = g->values[first - 1].number;
    for (int32_t v = first; v < first + count; v++)
        g->values[v].number = number;
    for (int32_t v = first; v < first + count; v++)
        bs_graph_add(g, &bs_op_scatter, bs_op_index(bs_op_scatter.name), &v, 1, &p);
    return g->status == BS_OK ? &g->nodes[node] : NULL;
}

bs_node *bs_lift(bs_graph *graph, bs_node *node)
{
    int32_t loops[BS_MAX_LOOP_DEPTH], n = 0, loop;
    if (!node || node->n_out < 1 || bs_node_op(node)->flags & STAYS || has_too_many_axes(graph, node))
        return node;
    const int32_t count = node->n_out;
    while ((loop = lifted_from(graph, node)) != 0) {
        lift_from(graph, node, loop);
        loops[n++] = loop;
    }
    while (n > 0 && node)
        node = show(graph, loops[--n], count);
    return node;
}
