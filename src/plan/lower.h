/* plan/lower.h - what the files of the lowering pass share: plan/regions.c, plan/places.c, plan/lower.c.
 * Relies on plan/plan.h. Must never be included by anything else. */
#ifndef BS_PLAN_LOWER_H
#define BS_PLAN_LOWER_H

#include "plan/plan.h"
#include "ops/structure.h"

/* Who reads a value: operand `index` of `node`. */
typedef struct bs_lower_reader {
    int32_t node, index;
} bs_lower_reader;

/* A hash table of numbers that are found by what they stand for; a slot holds number + 1, or 0. */
typedef struct bs_lower_index {
    int32_t *slots;
    uint32_t mask;
} bs_lower_index;

typedef struct bs_lower_pass {
    bs_plan *plan;
    const bs_graph *g;
    bool mixed;           /* some domain is: nodes have levels */
    int32_t max_regions;
    int32_t *part_of;     /* [nodes] the part that a node runs in, or BS_TOP */
    int32_t *level;       /* [nodes] how often what it depends on goes from tiles to top level or back */
    int32_t *list;        /* [nodes or values] what is still to be visited */
    int32_t *seen;        /* [nodes] the search that came by last */
    int32_t *neighbour;   /* [nodes] another node of its region, or 0 */
    int32_t *ready;       /* [values] time from which a value can be read (top level and region results) */
    int32_t *first_reader; /* [values + 1] where the readers of a value begin */
    bs_lower_reader *readers; /* [operands] */
    int32_t *clock;       /* [domains] */
    int32_t *open;        /* [domains] top level: the region that still takes nodes, or BS_TOP */
    /* [domains] the one in which the routers above it decide tile by tile; BS_TOP: none; or NO_REGION */
    int32_t *tile_region;
    int32_t *region_time; /* [regions] */
    int32_t *region_level; /* of its nodes, the last */
    int32_t *region_part; /* its first part */
    int32_t *region_node; /* one of its nodes; from there on by neighbour */
    int32_t *region_seen; /* the search that came by last */
    int32_t *region_checked; /* the joined value for which it was asked about */
    int32_t *decided;     /* [routers] time of its decision */
    int32_t *path_ready;  /* [routers] time from which rows of its paths exist */
    bs_lower_index parts; /* by region and domain */
    bs_lower_index levels; /* mixed: the first region by top-level domain, level and router */
    bs_lower_index units; /* mixed: a region without router by top-level domain, level and unit */
    int32_t searches;
} bs_lower_pass;

/* The live readers of a value, in order: r points to one after the other. */
#define BS_EACH_READER(l, value, r)                                                     \
    for (const bs_lower_reader *r = (l)->readers + (l)->first_reader[value],            \
                               *const r##_end = (l)->readers + (l)->first_reader[(value) + 1]; \
         r < r##_end; r++)

/* Makes the index of readers: what is needed and what is fused stays as it is from here on. */
void bs_lower_find_readers(bs_lower_pass *l);

/* A part of a region for every node that runs in tiles (l->part_of). Domains that cannot run so are made to run layer
 * by layer; then it returns false, and is to be called again. */
bool bs_lower_regions(bs_lower_pass *l);
int32_t bs_lower_region_of(const bs_lower_pass *l, int32_t node);
/* A place for every live value; needs the regions. */
void bs_lower_places(bs_lower_pass *l);

#endif
