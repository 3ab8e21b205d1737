/* every_op.h - which ops of the table a test has met; those that it has not are told, with the place they belong in.
 * Owns: the marks. Relies on: ops/table.h, check.h. Must never: know an op. */
#ifndef BS_TEST_EVERY_OP_H
#define BS_TEST_EVERY_OP_H

#include "check.h"
#include "ops/table.h"

static bool op_is_met[256]; /* by number */

/* An op that a test does without, and why. */
typedef struct op_exception { const char *op, *why; } op_exception;

static inline void ops_are_met(const bs_graph *g)
{
    for (int32_t n = 1; n < g->n_nodes; n++)
        op_is_met[g->nodes[n].op] = true;
}

/* Whether an op makes results of operands. */
static inline bool op_computes(const bs_op *op) { return op->run && op->min_in > 0; }

/* Every op that is wanted (NULL: all) is met, or excepted: an exception without need is a failure as well. place: where
 * what is missing belongs. but: ends with one without a name. */
static inline void every_op_is_met(bool (*wanted)(const bs_op *op), const char *place, const op_exception *but)
{
    int32_t met = 0, excepted = 0, listed = 0;
    for (int32_t i = 0; i < bs_op_count(); i++) {
        const bs_op *op = bs_op_get(i);
        const op_exception *e = but;
        if (wanted && !wanted(op))
            continue;
        while (e->op && strcmp(e->op, op->name) != 0)
            e++;
        met += op_is_met[i];
        excepted += e->op != NULL;
        if (op_is_met[i] == (e->op != NULL))
            check(0, e->op ? "%s is no exception: it is in %s" : "%s belongs in %s", op->name, place);
    }
    while (but[listed].op)
        listed++;
    check(excepted == listed, "%d ops are in %s; %d of %d exceptions are ops", met, place, excepted, listed);
}

#endif
