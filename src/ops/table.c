/* ops/table.c - the op table, and what holds for every op. Relies on ops/table.h and ops/list.h. Must never know what
 * any op does. */
#include "ops/table.h"

#include "ops/list.h"

#define OP_EXTERN(name, device) extern const bs_op bs_op_##name;
BS_OP_LIST(OP_EXTERN)
#undef OP_EXTERN

const bs_op *const bs_op_table[] = {
#define OP_ENTRY(name, device) BS_OP_IF(name, &bs_op_##name, NULL),
    BS_OP_LIST(OP_ENTRY)
#undef OP_ENTRY
};

int32_t bs_op_count(void) { return (int32_t)(sizeof bs_op_table / sizeof *bs_op_table); }

const bs_op *bs_op_get(int32_t number) { return number >= 0 && number < bs_op_count() ? bs_op_table[number] : NULL; }

int32_t bs_op_index(const char *name)
{
    for (int32_t i = 0; name && i < bs_op_count(); i++)
        if (bs_op_table[i] && strcmp(bs_op_table[i]->name, name) == 0)
            return i;
    return -1;
}

int32_t bs_node_operand(const bs_node *node, bs_role role)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (bs_node_role(node, i) == role)
            return i;
    return -1;
}

/* ------------------------------------------------------------------------------------------------- building */

bs_node *bs_op_build_numbered(bs_graph *graph, int32_t number, const int32_t *in, int32_t n_in, const void *params)
{
    const bs_op *op = bs_op_get(number);
    if (op)
        return bs_lift(graph, bs_graph_add(graph, op, number, in, n_in, params));
    if (graph)
        bs_graph_fail(graph, BS_ERROR_GRAPH, "op %" PRId32 " does not exist", number);
    return NULL;
}

bs_node *bs_op_build_node(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params)
{
    return bs_lift(graph, bs_graph_add(graph, op, bs_op_index(op->name), in, n_in, params));
}

bs_value bs_op_build(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params)
{
    const bs_node *node = bs_op_build_node(graph, op, in, n_in, params);
    const bs_value value = {node ? node->first_out : 0};
    return value;
}

bs_value bs_op_build_two(bs_graph *graph, bs_value a, bs_value b, const void *params, const bs_op *op)
{
    const int32_t in[2] = {a.id, b.id};
    return bs_op_build(graph, op, in, b.id || op->min_in > 1 ? 2 : 1, params);
}

bs_value bs_op_build_one(bs_graph *graph, bs_value x, const void *params, const bs_op *op)
{
    const bs_value none = {0};
    return bs_op_build_two(graph, x, none, params, op);
}

/* ------------------------------------------------------------------------------------------------- weights */

int32_t bs_node_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_op *op = bs_op_get(node->op);
    const bs_weights_contract *weights = op ? bs_op_weights_of(op) : NULL;
    return weights ? weights->specs(graph, node, specs) : 0;
}

bs_bytes bs_weight_elements(const bs_weight_spec *spec)
{
    bs_bytes elements = bs_bytes_of(1);
    for (int32_t d = 0; d < spec->rank; d++)
        elements = bs_bytes_times(elements, spec->dim[d]);
    return elements;
}

bs_bytes bs_weight_offset(const bs_weight_spec *specs, int32_t index)
{
    bs_bytes offset = bs_bytes_of(0);
    for (int32_t i = 0; i < index; i++) {
        const bs_bytes bytes = bs_bytes_product(bs_weight_elements(&specs[i]),
                                                bs_bytes_of(bs_dtype_bytes(specs[i].dtype)));
        bs_bytes_put(&offset, bytes);
    }
    return offset;
}
