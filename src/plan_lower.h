/* plan_lower.h - what the files of the lowering stage share: plan_region.c, plan_place.c, plan_lower.c.
 * Relies on plan.h. Must never be included by anything else. */
#ifndef BS_PLAN_LOWER_H
#define BS_PLAN_LOWER_H

#include "plan.h"
#include "structure.h"

#define BS_TOP (-1) /* no region: at top level */

typedef struct bs_lower_pass {
    bs_plan *plan;
    const bs_graph *g;
    int32_t *home;        /* [nodes] part index, or BS_TOP */
    int32_t *needed;      /* [nodes] of region_needs */
    int32_t *phase;       /* [nodes] how often what it depends on goes from tiles to top level or back */
    int32_t *ready;       /* [values] time from which a value can be read (top level and region results) */
    int32_t *clock;       /* [domains] */
    int32_t *open;        /* [top-level domain] region that still takes nodes, or BS_TOP */
    int32_t *region_time; /* [regions] */
    int32_t *region_phase; /* [regions] of its nodes, the last */
    int32_t *decided;     /* [routers] time of its decision */
} bs_lower_pass;

bool bs_lower_is_view(const bs_node *node);
/* Whether every path's rows are kept until all are there: sums, and several paths a cell. */
bool bs_lower_is_packed(const bs_lower_pass *l, const bs_node *gather);

/* Calls visit for every live reader of a value, in order, until it returns false; returns whether it never did. */
typedef bool (*bs_reader_visit)(bs_lower_pass *l, int32_t node, int32_t index, void *user);
bool bs_lower_each_reader(bs_lower_pass *l, int32_t value, bs_reader_visit visit, void *user);

/* A region for every node that runs in tiles (l->home). Returns a top-level domain that cannot run so, or 0. */
int32_t bs_lower_regions(bs_lower_pass *l);
int32_t bs_lower_region_of(const bs_lower_pass *l, int32_t node);
/* A place for every live value; needs the regions. */
void bs_lower_places(bs_lower_pass *l);

#endif
