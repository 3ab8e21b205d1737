/* plan/order.c - the order of instructions: top level first, by time, then part after part. Relies on plan/lower.h.
 * Must never change what an instruction does. */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

static bool goes_before(const void *user, int32_t first, int32_t second)
{
    const bs_plan *p = user;
    const bs_instr *a = &p->instrs[first], *b = &p->instrs[second];
    const int32_t region_a = bs_instr_region(p, a), region_b = bs_instr_region(p, b);
    if (region_a != region_b)
        return region_a < region_b; /* BS_TOP first */
    if (region_a == BS_TOP)
        return a->time < b->time;
    return a->part < b->part;
}

/* Moves every instruction to its place in `order`, cycle by cycle. */
static void arrange(bs_instr *instrs, int32_t *order, int32_t count)
{
    for (int32_t k = 0; k < count; k++) {
        const bs_instr first = instrs[k];
        int32_t at = k;
        while (order[at] != k) {
            const int32_t from = order[at];
            instrs[at] = instrs[from];
            order[at] = at;
            at = from;
        }
        instrs[at] = first;
        order[at] = at;
    }
}

static void sort_instrs(bs_plan *p, int32_t *order, int32_t *buffer)
{
    for (int32_t i = 0; i < p->n_instrs; i++)
        order[i] = i;
    bs_sort(order, buffer, p->n_instrs, goes_before, p);
    arrange(p->instrs, order, p->n_instrs);
}

static void index_parts(bs_plan *p)
{
    p->n_top = 0;
    for (int32_t i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].part == BS_TOP) {
            p->n_top++;
            continue;
        }
        bs_part *part = &p->parts[p->instrs[i].part];
        if (part->count++ == 0)
            part->first = i;
    }
}

void bs_lower_sort(bs_plan *plan, int32_t *workspace)
{
    sort_instrs(plan, workspace, workspace + plan->room->instrs);
    index_parts(plan);
}

#endif
