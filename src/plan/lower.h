/* plan/lower.h - what the files of the lowering pass share: plan/regions.c, plan/places.c,
 * plan/joins.c, plan/lower.c.
 * Relies on plan/plan.h. Must never be included by anything else. */
#ifndef BS_PLAN_LOWER_H
#define BS_PLAN_LOWER_H

#include "plan/plan.h"
#include "ops/structure.h"

/* A reader of a value: operand `index` of `node`. */
typedef struct bs_lower_reader {
    int32_t node, index;
} bs_lower_reader;

/* A hash table from keys to numbers of regions or parts; a slot holds number + 1, or 0. */
typedef struct bs_lower_index {
    int32_t *slots;
    uint32_t mask;
} bs_lower_index;

/* The last times of instructions of one kind, by their remainders; 0: none. */
enum { BS_RECENT = 16 };
typedef struct bs_lower_recent {
    int32_t times[BS_RECENT];
} bs_lower_recent;

typedef struct bs_lower_pass {
    bs_plan *plan;
    const bs_graph *g;
    bool mixed;           /* some domain is mixed: nodes have levels */
    int32_t *part_of;     /* [nodes] the part that a node runs in, or BS_TOP */
    int32_t *level;       /* [nodes] how often the chain of what it reads changes between tiles and top level */
    int32_t *list;        /* [nodes or values] what is still to be visited */
    int32_t *seen;        /* [nodes] number of the last search that visited it */
    int32_t *neighbour;   /* [nodes] another node of its region, or 0 */
    int32_t *ready;       /* [values] time from which a value can be read (top level and region results) */
    int32_t *first_reader; /* [values + 1] where the readers of each value begin */
    bs_lower_reader *readers; /* [operands] */
    int32_t *clock;       /* [domains] */
    int32_t *open;        /* [domains] top level: the region that still takes nodes, or BS_TOP */
    /* [domains] the region in which the routers above it decide tile by tile; BS_TOP: none do; or NO_REGION */
    int32_t *tile_region;
    int32_t *region_time; /* [regions] */
    int32_t *region_level; /* the highest level of its nodes */
    int32_t *region_part; /* its first part */
    int32_t *region_node; /* one of its nodes; the others follow by `neighbour` */
    int32_t *region_seen; /* number of the last search that visited it */
    int32_t *region_checked; /* the last joined value for which it was checked */
    int32_t *decided;     /* [routers] time of its decision */
    int32_t *path_ready;  /* [routers] time from which rows of its paths exist */
    bs_lower_index parts; /* by region and domain */
    bs_lower_index levels; /* mixed: the first region by top-level domain, level and router */
    bs_lower_index units; /* mixed: a region without router by top-level domain, level and unit */
    /* Loops: nodes are listed so that a body stands behind all that it needs from outside. */
    int32_t *follows;     /* [nodes] the next node of the list, or 0 */
    int32_t *first, *last; /* [routers] the list of a loop's body; [0]: of what is in no loop */
    /* Rings (plan/rings.c): there are some; domains in stages, each of them behind one more decision on the way for
     * which most is left. */
    bool has_rings;
    bool *is_on_way;      /* [domains] on that way */
    int32_t *stage;       /* [domains] how many such decisions it is behind */
    int32_t *goes_on;     /* [domains] the path of its that is a stage further; 0 none */
    bs_reach *reach;      /* [values] for each stage */
    int32_t *split_last;  /* [parts] the last node so far that left a ring, 0 none; in a circle the first follows */
    int32_t *split_next;  /* [nodes] */
    int32_t floor;        /* nothing runs before this time: what came earlier, or is in a loop, is over */
    int32_t latest;       /* of all times so far */
    int32_t searches;
    /* What joins an earlier time (plan/joins.c). */
    bool joins;
    bs_lower_recent *recent; /* [ops, row maps] */
    int32_t joins_since;     /* the time from which on bytes are counted */
    bs_bytes joined_bytes;
} bs_lower_pass;

enum { BS_STAGES = 5 }; /* behind further decisions margins are computed with those of the last stage */

/* The live readers of a value, in order: r points to one after the other. */
#define BS_EACH_READER(l, value, r)                                                     \
    for (const bs_lower_reader *r = (l)->readers + (l)->first_reader[value],            \
                               *const r##_end = (l)->readers + (l)->first_reader[(value) + 1]; \
         r < r##_end; r++)

/* Makes the index of readers. From here on, what is needed and what is fused stays as it is. */
void bs_lower_find_readers(bs_lower_pass *l);

/* Gives every node that runs in tiles a part of a region (l->part_of). Returns false when some domains cannot run in
 * tiles: these now run layer by layer, and the function must be called again. */
bool bs_lower_regions(bs_lower_pass *l);
int32_t bs_lower_region_of(const bs_lower_pass *l, int32_t node);
static inline int32_t bs_instr_region(const bs_plan *p, const bs_instr *i) /* that it stands in, or BS_TOP */
{
    return i->part == BS_TOP ? BS_TOP : p->parts[i->part].region;
}
/* Puts the instructions in order and finds those of each part. workspace: twice the most instructions.
 * (plan/order.c) */
void bs_lower_sort(bs_plan *plan, int32_t *workspace);
/* Gives all nodes of a loop that stands in no other one level; n: a node whose own level is known, perhaps the last one
 * of such a loop (plan/loops.c). */
void bs_lower_level_loop(bs_lower_pass *l, int32_t n);
/* Lists all nodes in l->list, level by level, bodies of loops whole, each where its loop ends. */
void bs_lower_order(bs_lower_pass *l);
/* Gives every live value its storage class; needs the regions. */
void bs_lower_places(bs_lower_pass *l);

/* Finds what tiles compute before a decision, and what only of rows that go on (plan/rings.c); needs the storage
 * classes. */
void bs_lower_rings(bs_lower_pass *l);
/* A call computes its near rectangle, if its node leaves a ring. */
void bs_lower_near(bs_lower_pass *l, bs_instr *i);
/* The nodes of a part whose rings rows need that go on to `domain`: the next one after `after`, in order; 0: the first;
 * and the call that computes it. */
int32_t bs_lower_next_ring(const bs_lower_pass *l, int32_t part, int32_t domain, int32_t after);
void bs_lower_ring(const bs_lower_pass *l, bs_instr *i, int32_t domain);

/* Whether instructions of a plan join earlier times; the time of one that could run at any after `after` and would at
 * `time` (plan/joins.c). */
bool bs_lower_joins(const bs_plan *plan);
int32_t bs_lower_join(bs_lower_pass *l, const bs_instr *i, int32_t after, int32_t time);

#endif
