/* graph/same.c - finding nodes that compute the same while a graph is built: by op, operands, parameters and name.
 * Relies on graph/graph.h, graph/op.h and graph/tree.h. Must never call nodes equal that some run could tell apart. */
#include "graph/op.h"
#include "graph/tree.h"

/* The value that is the same, and is computed first. */
static int32_t first_of_same(const bs_graph *g, int32_t value)
{
    const bs_node *node = &g->nodes[g->values[value].node];
    return node->same ? g->nodes[node->same].first_out + value - node->first_out : value;
}

/* Descriptors are a name, then fields of four bytes. */
static bool same_work(const bs_graph *g, const bs_op *op, const bs_node *a, const bs_node *b)
{
    const size_t fields = 4 * (size_t)op->n_fields;
    bool same = a->op == b->op && a->n_in == b->n_in &&
                strcmp(bs_node_name(a), bs_node_name(b)) == 0;
    for (int32_t i = 0; same && i < a->n_in; i++)
        same = first_of_same(g, bs_node_in(g, a)[i]) == first_of_same(g, bs_node_in(g, b)[i]);
    return same && (!fields || memcmp((const char *)a->params + sizeof(char *),
                                      (const char *)b->params + sizeof(char *), fields) == 0);
}

void bs_graph_find_same(bs_graph *g, const bs_op *op, int32_t n)
{
    bs_node *node = &g->nodes[n];
    uint64_t hash = (uint64_t)node->op;
    for (int32_t i = 0; i < node->n_in; i++)
        hash = bs_tree_mix(hash, first_of_same(g, bs_node_in(g, node)[i]));
    for (const char *c = bs_node_name(node); *c; c++)
        hash = bs_tree_mix(hash, *c);
    int32_t *link = &g->first_work;
    while (*link && !same_work(g, op, &g->nodes[*link], node))
        link = bs_tree_step(g->nodes[*link].child, &hash);
    node->same = *link;
    g->n_same += *link != 0;
    if (*link == 0)
        *link = n;
}
