/* plan/fusions.h - finding a chain that one kernel runs: for the planner, and for checking an image that claims there
 * is one. Relies on plan/plan.h. Must never be included by anything else. */
#ifndef BS_PLAN_FUSIONS_H
#define BS_PLAN_FUSIONS_H

#include "plan/plan.h"

/* What a match found: the nodes that are not needed any more, and the operands that the last node gets. */
typedef struct bs_fusion_match {
    int32_t inner[2], n_inner;
    int32_t in[2];
} bs_fusion_match;

typedef struct bs_fusion_search {
    const bs_plan *plan;
    const int32_t *readers; /* [values] how many needed nodes read it; NULL: that was checked already */
    const int32_t *wanted;  /* the operands that must be found; NULL: any */
} bs_fusion_search;

/* Whether the chain of `fusion`, counted from 1, ends at this needed node. */
bool bs_fusion_find(const bs_fusion_search *search, int32_t node, int32_t fusion, bs_fusion_match *match);

#endif
