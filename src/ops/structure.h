/* ops/structure.h - the structural ops: where values come from, cells, routers. They have no kernels: the planner
 * lowers them to moves and decisions. Their parameters, as stored in nodes and model files. */
#ifndef BS_STRUCTURE_H
#define BS_STRUCTURE_H

#include "ops/table.h"

extern const bs_op bs_op_input, bs_op_state, bs_op_state_write, bs_op_output, bs_op_patches, bs_op_assemble, bs_op_rows,
    bs_op_collect, bs_op_route, bs_op_scatter, bs_op_gather, bs_op_route_price, bs_op_route_score, bs_op_look_ahead,
    bs_op_segments, bs_op_state_append, bs_op_segment_spread, bs_op_segment_reduce, bs_op_segment_index,
    bs_op_loop_carry;

/* input, state. dim > 0: a constant; dim < 0: -dim is symbol number (from 1, in order of creation) + 65536 (factor -
 * 1). */
typedef struct bs_source_params {
    const char *name;
    int32_t dtype, rank, dim[BS_MAX_RANK];
} bs_source_params;

typedef struct bs_name_params {
    const char *name;
} bs_name_params;

typedef struct bs_router_params { /* of scatter, route_price, route_score */
    const char *name;
    int32_t router, path;
} bs_router_params;

typedef struct bs_gather_params { /* operands: one for each path (0: none), then the residual (0: none) */
    const char *name;
    int32_t router, mode;
} bs_gather_params;

typedef struct bs_loop_params {
    const char *name;
    int32_t bound, in_turn, grows, no_lift;
} bs_loop_params;

/* `mode` of a loop_trip: the number of the trip, from 0 or from 1, as [1]; or from 0 as a number alone, an index. */
enum { BS_TRIP_FROM_0, BS_TRIP_FROM_1, BS_TRIP_INDEX };

/* `mode` of a loop_parent: the row that made a row, or which one it is of those that this one made. */
enum { BS_PARENT_ROW, BS_PARENT_CHILD };

/* The protocol of loops, which no bs_route has: a predicate, a count or a dimension decides after each trip. */
enum { BS_ROUTE_LOOP = BS_PROTOCOL_COUNT };

/* Whether `node` is of this op. */
static inline bool bs_node_is(const bs_node *node, const bs_op *op)
{
    return bs_node_op(node) == op;
}

const char *bs_protocol_name(bs_protocol protocol);
/* Whether what a row takes depends on other rows, or on the caller's function. */
bool bs_protocol_sees_all_rows(int32_t protocol);
/* Whether each row takes a path, whatever the scores are. */
bool bs_route_leaves_none(const bs_route_desc *desc);

/* Same dtype, rank and dimensions, in every run. */
bool bs_same_shape(const bs_value_info *a, const bs_value_info *b);

/* A router's name must be there and new; then the router is added, which decides for the rows of `domain`. NULL: it is
 * refused. */
bool bs_infer_router_name(bs_infer *infer);
bs_router_info *bs_infer_router(bs_infer *infer, const bs_route_desc *desc, int32_t domain);

/* The domain of the rows that infer->router sends to a path; below 0: there is no room for it. */
int32_t bs_infer_path(const bs_infer *infer, int32_t path);

/* The value whose rows a view shows: its operand, or what a carried value is after a trip. */
static inline int32_t bs_view_of(const bs_graph *g, const bs_node *view)
{
    return view->writer ? g->nodes[view->writer].first_out : bs_node_in(g, view)[0];
}

/* Whether a view shows the part of each row that belongs to the trip of its loop, along dimension 0. */
static inline bool bs_view_slices(const bs_graph *g, const bs_node *view)
{
    return view->router != 0 && g->values[bs_view_of(g, view)].rank > g->values[view->first_out].rank;
}

/* Whether it keeps what each trip of a loop gives, not what the last one does. */
static inline bool bs_loop_collects(const bs_graph *g, const bs_node *node)
{
    return bs_node_gathers(node) && bs_router_loops(g, node->router) && node->n_in == 2;
}

/* Refuses unless operand 0 is a state that no node writes yet. */
bool bs_infer_state(bs_infer *infer);

/* bs_infer_row_shape gives out[0] the shape of a row of operand 0, which must be a root value that has rows;
 * bs_infer_row_domain the domain of those rows. `lengths`: the value that groups them in segments, or 0. */
bool bs_infer_row_shape(bs_infer *infer);
bool bs_infer_row_domain(bs_infer *infer, int32_t lengths);

/* Segments (ops/segments.c). The two below refuse and return false.
 * Operand `index` is an input i32 [n], the same n as dims[0] of the lengths of `domain` (domain 0: any n). */
bool bs_infer_segment_input(bs_infer *infer, int32_t index, int32_t domain, const char *what);
/* The domain of operand `index`, one of segments or a path in it, or 0 after refusing. */
int32_t bs_infer_segments(bs_infer *infer, int32_t index);
/* Number of segments that rows of such a domain are in. */
static inline bs_dim_id bs_segment_dim(const bs_graph *graph, int32_t domain)
{
    return graph->values[graph->domains[bs_segmented(graph, domain)].lengths].dims[0];
}

#endif
