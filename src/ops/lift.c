/* ops/lift.c - lifting: what a body makes of values that are the same in every trip is made before its loop, for all
 * rows at once, and the body reads it by a scatter. Chains rise link by link, since that is such a value again.
 * Relies on structure.h. Must never change a result, nor refuse what would be built in the body, unless the
 * graph is full. */
#include "ops/structure.h"

/* A scatter that the node reads, if all that it reads in the body where it stands are scatters, and the rest is of the
 * root; NULL: it stays. lift: from now on it reads what they show. */
static const bs_node *reads_around(bs_graph *g, const bs_node *node, bool lift)
{
    const bs_node *scatter = NULL;
    for (int32_t *in = g->operands + node->in, *end = in + node->n_in; in < end; in++) {
        const bs_value_info *v = &g->values[*in];
        if (v->domain == 0)
            continue;
        scatter = &g->nodes[v->node];
        if (!bs_node_is(scatter, &bs_op_scatter))
            return NULL;
        if (lift)
            *in = g->operands[scatter->in];
    }
    return scatter;
}

/* Scatters the values before the end of the table, as `scatter` does its operand. Of them all only those that come last
 * will have a number. Returns the first node, or NULL: the graph is full. */
static bs_node *show(bs_graph *g, const bs_node *scatter, int32_t count)
{
    const int32_t first = g->n_values - count, number = g->values[first - 1].number;
    bs_node *last = NULL;
    for (int32_t v = first; v < first + count; v++)
        g->values[v].number = number;
    for (int32_t v = first; v < first + count; v++)
        last = bs_graph_add(g, &bs_op_scatter, scatter->op, &v, 1, scatter->params);
    return last ? last - (count - 1) : NULL;
}

/* The shape rule has said what the results are: those of rows of a body are those of rows around it. */
bs_node *bs_lift(bs_graph *graph, bs_node *node)
{
    const bs_node *around[BS_MAX_LOOP_DEPTH + 1];
    const bs_router_info *loop;
    int32_t loops = 0;
    /* a scatter shows no more dimensions than other ops take; of several results none has more */
    if (!node || !bs_op_is_by_row(bs_node_op(node)) || graph->values[node->first_out].rank > BS_MAX_RANK)
        return node;
    /* rows that make no trip may hold what is refused; so may they hold nothing, where extents come from data */
    const bs_lifts least = !bs_op_is_pure(bs_node_op(node)) || graph->makes ? BS_LIFTS_ALL : BS_LIFTS_SOUND;
    const int32_t count = node->n_out;
    while ((loop = &graph->routers[graph->domains[node->domain].router])->loop.lifts >= least &&
           (around[loops] = reads_around(graph, node, false)) != NULL) {
        reads_around(graph, node, true);
        node->domain = loop->domain;
        for (int32_t i = 0; i < count; i++)
            graph->values[node->first_out + i].domain = loop->domain;
        loops++;
    }
    while (loops > 0 && node)
        node = show(graph, around[--loops], count);
    return node;
}
