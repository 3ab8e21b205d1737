/* ops/ports.c: what a graph is to whoever uses it: inputs and outputs, and what its routers decide on, by name.
 *
 * Owns: the answers. Relies on: graph/graph.h, ops/structure.h. Must never: need a plan or a session: a model that does
 * not fit is refused before memory is taken for it. */
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
    for (int32_t n = 1; graph && name && facts && n < graph->n_nodes; n++) {
        const bs_node *node = &graph->nodes[n];
        const bool output = bs_node_is_output(node);
        if ((!output && !bs_node_is_input(node)) || strcmp(bs_node_name(node), name) != 0)
            continue;
        port_fill(graph, bs_bound_value(graph, node), output, facts);
        return BS_OK;
    }
    return BS_ERROR_ARGUMENT;
}

bs_status bs_graph_router_get(const bs_graph *graph, const char *name, bs_router_facts *facts)
{
    for (int32_t r = 1; graph && name && facts && r < graph->n_routers; r++) {
        const bs_router_info *router = &graph->routers[r];
        if (strcmp(router->desc->name, name) != 0)
            continue;
        const int32_t patches = graph->domains[router->domain].patches;
        facts->paths = router->desc->paths;
        facts->patch_size = patches >= 0 ? graph->domains[patches].size : 0;
        return BS_OK;
    }
    return BS_ERROR_ARGUMENT;
}
