/* plan/tails.h - which nodes become part of the kernel whose result they change.
 * Relies on graph/op.h. Must never know an op by name. */
#ifndef BS_PLAN_TAILS_H
#define BS_PLAN_TAILS_H

#include "ops/table.h"

/* A graph whose nodes run where `place` says ([nodes] domains; -1: not at all) and read what stands for a value. */
typedef struct bs_tails {
    const bs_graph *graph;
    const int32_t *place, *source; /* [nodes]; [values] */
    bool chains;            /* element-wise nodes alone may have a tail */
    int32_t *reads;         /* [values] how often each is read */
    int32_t *before, *after; /* [nodes] the node whose result it changes, the one that changes its result; 0: none */
} bs_tails;

#define BS_TAIL_BYTES (64 << 10) /* that a step takes at a time which moves what it changes */

/* Whether a step cannot work in the place of what it changes: later steps read that, too, an element has more or fewer
 * bytes then, or the image is larger. */
static inline bool bs_tail_moves(const bs_tail *tail)
{
    return tail->keeps || bs_dtype_bytes(tail->from) != bs_dtype_bytes(tail->to) || bs_node_enlarges(&tail->node) > 1;
}
/* Whether a step of the node's tail does that: what is before it lies in the scratch of a thread. */
bool bs_tails_move(const bs_graph *graph, const bs_node *node);
/* Whether the kernel does it instead, with that step right behind it. Not in a small library (BS_SMALL). */
#ifdef BS_SMALL
#define bs_tails_are_stored(graph, node, plan) ((void)(graph), (void)(node), (void)(plan), false)
#else
#define bs_tails_are_stored(graph, node, plan) ((plan)->phases > 1)
#endif
/* How many of `lines`, each of so many bytes, it then takes at a time: whole grains, one at least. */
static inline int32_t bs_tail_lines(uint64_t bytes, int32_t grain, int32_t lines)
{
    const uint64_t most = BS_TAIL_BYTES / bs_max_u64(bytes * (uint64_t)grain, 1);
    return (int32_t)bs_min_u64((uint64_t)lines, bs_max_u64(most, 1) * (uint64_t)grain);
}
/* The scratch that it takes at most; height, width: of its largest rectangle. */
bs_bytes bs_tails_scratch(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan, int64_t height,
                          int64_t width);

/* How many nodes may become part of others, at most. */
int32_t bs_tails_most(const bs_graph *graph);
/* Finds the chains: sets `before` and `after` of all nodes. Returns how many nodes become part of others. */
int32_t bs_tails_find(bs_tails *tails);
/* The steps of the chain that ends at node n, the first one first; returns how many. *head: the node they follow. */
int32_t bs_tails_chain(const bs_tails *tails, int32_t n, int32_t steps[BS_MAX_TAIL], int32_t *head);
/* Which operand of node n is the result that it changes. Whether operand `index` is what the kernel, or a step before
 * this one, gave: which that operand is, or what was kept. */
int32_t bs_tails_operand(const bs_tails *tails, int32_t n);
bool bs_tails_has_made(const bs_tails *tails, int32_t n, int32_t index);

#endif
