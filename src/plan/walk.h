/* plan/walk.h - what the files of the walk share: plan/walk.c (the list of instructions, from the first to the last),
 * plan/walk_reads.c (what has been written when one of them runs), plan/walk_makes.c (which instruction a node gets),
 * plan/walk_bytes.c (whose rows each byte holds).
 *
 * Inline functions of headers become calls in a part that builds `once` (base/effort.h), so what is done for each
 * instruction reads tables itself.
 * Relies on plan/plan.h. Must never be included by a pass; nor go by what one noted of times, lives or readers: what is
 * not seen to happen has not happened. */
#ifndef BS_PLAN_WALK_H
#define BS_PLAN_WALK_H

#include "plan/plan.h"

#include "ops/structure.h"

typedef struct bs_walk_bytes bs_walk_bytes; /* plan/walk_bytes.c */

/* What has come of a node, and who knows the rows of the domain of the same number: a node makes at most one. All is
 * -1 at first. */
typedef struct bs_walk_entry {
    int32_t left; /* how many of the node's instructions are still to come; -1: nobody has asked, none has come */
    int32_t last; /* the last one that came, or -1 */
    /* the time at top level after which all that it makes is there; or `here` of the part in which it is, one more when
     * it is only near its core; BS_WALK_NOT_READY: not yet, or when it is is not so simple */
    uint32_t ready;
    int32_t known; /* the last list that knows the rows: 0: that at top level, else number of the part + 1 */
} bs_walk_entry;

typedef struct bs_walk {
    const bs_plan *p;
    const bs_graph *g;
    bs_walk_entry *of; /* [nodes] */
    bool *stored;      /* [operands] a gather's: the rows of this path have been stored */
    /* the instruction that is looked at */
    const bs_instr *i;
    const bs_node *node;
    const bs_op *op;
    int32_t at;   /* its place among all */
    int32_t now;  /* its place at top level: that of the one that runs its part */
    int32_t time; /* of that */
    int32_t tile; /* the domain of its part; 0: it stands at top level */
    int32_t list; /* 0: it stands at top level, else number of its part + 1 */
    uint32_t here; /* in a part: what `ready` is of what the part has made for itself */
    bool whole;           /* what each instruction is is looked at, too, not only whether it may run */
    bs_walk_bytes *bytes; /* NULL: only the order of instructions is looked at, not what they write over */
    bool *repeated;       /* with bytes: [routers] a loop that goes through its second trip, or has */
} bs_walk;

#define BS_WALK_NOT_READY UINT32_MAX /* `here` of parts lies below */
#define BS_WALK_NOWHERE (UINT32_C(1) << 31) /* times lie below, `here` of parts above */

/* Whether the router has decided before this instruction runs, and the instruction sees the decision; and whether it is
 * a loop whose last trip is over. */
bool bs_walk_is_decided(const bs_walk *w, int32_t router);
bool bs_walk_has_ended(const bs_walk *w, int32_t router);
/* Whether the instruction may write a value: it sees its rows, which have storage where it stands. */
bool bs_walk_may_write(bs_walk *w, int32_t value);
/* Whether all that the instruction reads is there: written on every way to it. */
bool bs_walk_may_run(bs_walk *w);

/* How many instructions a node needs, beside those for rings; and how many of them are still to come. */
int32_t bs_walk_due(const bs_walk *w, int32_t node);
static inline int32_t bs_walk_left(bs_walk *w, int32_t node)
{
    bs_walk_entry *of = &w->of[node];
    if (of->left < 0)
        of->left = bs_walk_due(w, node);
    return of->left;
}
/* Whether the planner makes this instruction of its node, where it stands. */
bool bs_walk_makes(bs_walk *w);

/* The walk itself, with an account that was carved: the first instruction that is wrong, or BS_WALK_SOUND. */
void bs_walk_carve(bs_carver *c, bs_walk *w, int64_t nodes, int64_t operands);
int32_t bs_walk_all(bs_walk *w);

#if defined(BS_VERIFY) || defined(BS_DEBUG)
/* Whether all that the instruction reads is still there, and what it writes is free for it. first: nothing of its
 * result was written before. Then: a part begins, with a scratch of its own. */
bool bs_walk_bytes_sound(bs_walk_bytes *b, bool first);
void bs_walk_bytes_part(bs_walk_bytes *b);
/* A value that instruction i touches, number k: what it writes comes first. 0: none; -1: there are no more. */
int32_t bs_walk_touched(const bs_plan *plan, const bs_instr *i, int32_t k, bool *is_written);
/* Whether rows of both domains are apart from each other: of two paths of a router. */
bool bs_walk_are_paths(const bs_graph *graph, int32_t a, int32_t b);
#endif

#endif
