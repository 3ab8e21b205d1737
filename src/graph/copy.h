/* graph/copy.h - a graph again, with its nodes in another order, on other domains, some left out and some added.
 *
 * The same calls first count (the copy has no tables yet), then fill them. Relies on graph/graph.h. Must never decide
 * what moves: that is the caller's, who keeps every node behind all that it reads. */
#ifndef BS_GRAPH_COPY_H
#define BS_GRAPH_COPY_H

#include "graph/graph.h"

typedef struct bs_graph_copy {
    const bs_graph *from;
    bs_graph *to; /* its counts grow; its tables are there once bs_graph_copy_carve has set them */
    const int32_t *source; /* [values of from] the one that stands for a value: itself, or a lower one */
    int32_t *node_at, *value_at; /* [nodes, values of from] what they are in the copy, once they were added */
    bs_tail *tails; /* those of `to`, to be written */
    bool texts;   /* it has its own, too: the graph may be forgotten */
    bool filling; /* the tables; else it counts */
} bs_graph_copy;

/* What a copy has room for. */
typedef struct bs_graph_room {
    int64_t nodes, values, operands, tails;
    bool texts;
} bs_graph_room;

/* A step of a tail: what node n of `from` does with the result so far, its operand `at`. */
typedef struct bs_graph_step {
    int32_t n, at;
    bool keeps;    /* it leaves that as it was */
    uint32_t made; /* bit k: operand k is that, or what was kept of it */
    int32_t others[BS_MAX_TAIL_OTHERS], n_others; /* operands from elsewhere, values of the copy, in their order */
} bs_graph_step;

/* Begins to count, or to fill the tables. */
void bs_graph_copy_begin(bs_graph_copy *copy, bool filling);
/* Adds node n of `from`, to run on the rows of `domain`. in: values of the copy; NULL: its own operands. */
void bs_graph_copy_add(bs_graph_copy *copy, int32_t n, int32_t domain, const int32_t *in);
/* Gives the node that was added last a tail of `count` steps. */
void bs_graph_copy_add_tail(bs_graph_copy *copy, const bs_graph_step *steps, int32_t count);
/* Adds a node as `view` is one, of `value` of the copy, which is what `like` of `from` is. Returns its output. */
int32_t bs_graph_copy_add_view(bs_graph_copy *copy, const bs_node *view, int32_t block, int32_t value, int32_t like);
/* Where domains, routers, dimensions, blocks and names refer to nodes and values: to those of the copy. */
void bs_graph_copy_end(bs_graph_copy *copy);
/* Hands the copy its tables, of as many entries as were counted. */
void bs_graph_copy_carve(bs_carver *carver, bs_graph_copy *copy);
/* As much as was counted; and bytes of a copy with so much room. */
bs_graph_room bs_graph_copy_room(const bs_graph_copy *copy);
bs_bytes bs_graph_copy_bytes(const bs_graph *graph, const bs_graph_room *room);

#endif
