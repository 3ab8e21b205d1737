/* ops/table.h - which ops there are, by number and by name, and what holds for every op.
 * Relies on graph/op.h. Must never know what any op does. */
#ifndef BS_OPS_TABLE_H
#define BS_OPS_TABLE_H

#include "graph/op.h"

int32_t bs_op_count(void);
const bs_op *bs_op_get(int32_t number); /* NULL: there is none */
int32_t bs_op_index(const char *name);  /* -1 when unknown */

/* Adds a node (bs_graph_add) of the op of this number. */
bs_node *bs_op_build_numbered(bs_graph *graph, int32_t number, const int32_t *in, int32_t n_in, const void *params);
/* The same by the op itself; and returning output 0 as a handle. */
bs_node *bs_op_build_node(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);
bs_value bs_op_build(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);

/* Offset of weight `index` in default-prepared memory, and the total for index == count. */
bs_bytes bs_weight_offset(const bs_weight_spec *specs, int32_t index);
bs_bytes bs_weight_elements(const bs_weight_spec *spec);

/* Scalar activation, shared by every reference kernel. slope: of this channel, for BS_PRELU. */
float bs_act_apply(bs_act act, float param, float slope, float x);

#endif
