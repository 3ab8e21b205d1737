/* ops/ports.c - a graph as its users see it: inputs, outputs, and what its routers decide about, by name.
 *
 * Relies on graph/graph.h and ops/structure.h. Must never need a plan or a session: a model that does not fit is
 * refused before memory is taken for it. */
#include "graph/graph.h"
#include "ops/structure.h"

#include <string.h>

static void port_fill(const bs_graph *g, int32_t value, bool output, bs_port_facts *facts)
{
    const bs_value_info *v = &g->values[value];
    memset(facts, 0, sizeof *facts);
    facts->output = output;
    facts->dtype = v->dtype;
    facts->rank = v->rank;
    for (int32_t i = 0; i < v->rank; i++)
        facts->dim[i] = g->dims[v->dims[i]].maximum;
}

bs_status bs_graph_port_get(const bs_graph *graph, const char *name, bs_port_facts *facts)
{
    const int32_t found = graph && name && facts ? bs_graph_named(graph, name, false) : 0;
    if (found == 0 || bs_node_is_state(&graph->nodes[found]))
        return BS_ERROR_ARGUMENT;
    const bs_node *node = &graph->nodes[found];
    port_fill(graph, bs_bound_value(graph, node), bs_node_is_output(node), facts);
    return BS_OK;
}

bs_status bs_graph_router_get(const bs_graph *graph, const char *name, bs_router_facts *facts)
{
    const int32_t found = graph && facts ? bs_graph_router_named(graph, name) : 0;
    if (found == 0)
        return BS_ERROR_ARGUMENT;
    const bs_router_info *router = &graph->routers[found];
    const int32_t patches = graph->domains[router->domain].patches;
    facts->paths = router->desc->paths;
    facts->patch_size = patches >= 0 ? graph->domains[patches].size : 0;
    return BS_OK;
}
