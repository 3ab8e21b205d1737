/* ops/ports.c - a graph as its users see it: inputs and outputs, in order and by name, what its routers decide,
 * and what each node costs.
 *
 * Relies on graph/graph.h and ops/structure.h. Must never need a plan or a session: a model that does not fit is
 * refused before memory is taken for it. */
#include "ops/common.h"
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

const char *bs_graph_port_name(const bs_graph *graph, int32_t index)
{
    for (int32_t n = 1; graph && index >= 0 && n < graph->n_nodes; n++) {
        const bs_node *node = &graph->nodes[n];
        if ((bs_node_is_output(node) || bs_node_is_input(node)) && index-- == 0)
            return bs_node_name(node);
    }
    return NULL;
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

static double row_bytes(const bs_graph *g, int32_t value)
{
    return bs_value_work(g, value) * (double)bs_dtype_bytes(g->values[value].dtype);
}

/* Of an operand of which little is read, as much as is made of it. */
static double bytes_moved(const bs_graph *g, const bs_node *node)
{
    double made = 0, read = 0;
    for (int32_t i = 0; i < node->n_out; i++)
        made += row_bytes(g, node->first_out + i);
    for (int32_t i = 0; i < node->n_read; i++)
        read += i == 0 && bs_node_op(node)->layout.picks ? made : row_bytes(g, bs_node_in(g, node)[i]);
    return read + (node->n_out > 0 ? made : read);
}

static double weight_bytes(const bs_graph *g, const bs_node *node)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    double sum = 0;
    for (int32_t i = bs_node_weights(g, node, specs) - 1; i >= 0; i--)
        sum += (double)bs_dtype_bytes(specs[i].dtype) * (double)bs_bytes_figure(bs_weight_elements(&specs[i]));
    return sum;
}

bs_status bs_graph_node_get(const bs_graph *graph, int32_t index, bs_node_facts *facts)
{
    if (!graph || !facts || index < 1 || index >= graph->n_nodes)
        return BS_ERROR_ARGUMENT;
    const bs_node *node = &graph->nodes[index];
    const bs_domain *domain = &graph->domains[node->domain], *top = &graph->domains[domain->top];
    const bs_op *op = bs_node_op(node);
    memset(facts, 0, sizeof *facts);
    facts->op = op->name;
    facts->name = bs_node_name(node);
    facts->block = node->block;
    facts->values = node->n_out;
    if (node->n_out > 0) {
        facts->value.id = node->first_out;
        facts->dtype = graph->values[node->first_out].dtype;
        facts->rank = graph->values[node->first_out].rank;
    }
    facts->kind = bs_domain_is_patches(top)     ? BS_ROWS_PATCHES
                  : top->kind == BS_DOMAIN_ROOT ? BS_ROWS_ROOT
                                                : BS_ROWS_TENSOR;
    if (domain->kind == BS_DOMAIN_PATH) {
        facts->router.id = domain->router;
        facts->path = domain->path;
        facts->paths = graph->routers[domain->router].desc->paths;
    }
    facts->bytes = bytes_moved(graph, node);
    facts->weight_bytes = weight_bytes(graph, node);
    facts->flops = op->flops ? op->flops(graph, node) : node->n_out > 0 ? bs_value_work(graph, node->first_out) : 0;
    return BS_OK;
}
