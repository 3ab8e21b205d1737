/* ops/table.h - which ops there are, by number and by name, and what holds for every op.
 * Relies on graph/op.h. Must never know what any op does. */
#ifndef BS_OPS_TABLE_H
#define BS_OPS_TABLE_H

#include "graph/op.h"

int32_t bs_op_count(void);
const bs_op *bs_op_get(int32_t number); /* NULL: there is none */
int32_t bs_op_index(const char *name);  /* -1 when unknown */

/* The op of a node of a graph: there is one, since the node could be added. Runs ask for it many times a node. */
extern const bs_op *const bs_op_table[];
static inline const bs_op *bs_node_op(const bs_node *node) { return bs_op_table[node->op]; }

static inline bs_op_work bs_node_work(const bs_node *node) { return (bs_op_work)bs_node_op(node)->work; }
static inline bs_role bs_node_role(const bs_node *node, int32_t operand)
{
    return operand < BS_MAX_OPERANDS ? (bs_role)bs_node_op(node)->roles[operand] : BS_ROLE_DATA;
}
/* The first operand of that role; -1: it has none. */
int32_t bs_node_operand(const bs_node *node, bs_role role);
static inline bool bs_node_is_input(const bs_node *node) { return bs_node_op(node)->bound == BS_BOUND_READ; }
static inline bool bs_node_is_output(const bs_node *node) { return bs_node_op(node)->bound == BS_BOUND_WRITTEN; }
static inline bool bs_node_is_state(const bs_node *node)
{
    return bs_node_op(node)->bound == (BS_BOUND_READ | BS_BOUND_WRITTEN);
}
static inline bool bs_node_is_view(const bs_node *node) { return bs_node_work(node) == BS_WORK_VIEW; }
/* Whether it moves rows back from the paths of its router. */
static inline bool bs_node_gathers(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_MOVE && node->router != 0;
}
/* Whether it makes a tensor of cells. */
static inline bool bs_node_joins_cells(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_MOVE && node->router == 0 && node->n_out > 0;
}
/* Whether it copies at the end of a run, to an output or into a state. */
static inline bool bs_node_ends_run(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_MOVE && node->n_out == 0;
}
/* How many times as large as what it changes the result of a step of a tail is. */
static inline int32_t bs_node_enlarges(const bs_node *node)
{
    const bs_op_rules *rules = bs_node_op(node)->rules;
    return rules && rules->enlarges ? rules->enlarges(node) : 1;
}
/* The same of the step right behind a kernel. */
static inline int32_t bs_node_phases(const bs_graph *graph, const bs_node *node)
{
    return node->n_tail > 0 ? bs_node_enlarges(&graph->tails[node->tail].node) : 1;
}
/* The value whose elements lie in the buffer that is bound to an input, an output or a state. */
static inline int32_t bs_bound_value(const bs_graph *graph, const bs_node *node)
{
    return node->n_out > 0 ? node->first_out : bs_node_in(graph, node)[0];
}

/* Lifts the node that was added last out of the loops in which it would compute the same in every trip. Returns the
 * node whose outputs, and those of the next ones, are what it gives in the body. NULL: NULL. (ops/lift.c) */
bs_node *bs_lift(bs_graph *graph, bs_node *node);

/* Adds a node (bs_graph_add) of the op with this number, and lifts it. Returns the node whose output is the result. */
bs_node *bs_op_build_numbered(bs_graph *graph, int32_t number, const int32_t *in, int32_t n_in, const void *params);
/* The same by the op itself; and the same, returning output 0 as a handle. */
bs_node *bs_op_build_node(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);
bs_value bs_op_build(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);
/* The same with one operand, or two: `b` may be none where the op takes one. */
bs_value bs_op_build_one(bs_graph *graph, bs_value x, const void *params, const bs_op *op);
bs_value bs_op_build_two(bs_graph *graph, bs_value a, bs_value b, const void *params, const bs_op *op);

/* Weights of a node: fills specs [BS_MAX_WEIGHTS], returns their number. */
int32_t bs_node_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs);
/* Offset of weight `index` in default-prepared memory, and the total for index == count. */
bs_bytes bs_weight_offset(const bs_weight_spec *specs, int32_t index);
bs_bytes bs_weight_elements(const bs_weight_spec *spec);

#endif
