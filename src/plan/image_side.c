/* plan/image_side.c - what an image says of times: instructions of one time may run side by side, on threads or in one
 * launch of a GPU (bs_plan_side_by_side), so none may touch what another one writes. A kernel that checked an index
 * must not find another one there. Two may write, or read and write, the same bytes only where decisions keep rows
 * apart: values of two paths of a router that share a slab, whose rows lie packed in it; and what two paths of a router
 * store in one value, where each row has its place.
 *
 * Relies on plan/image.h and plan/walk.c having looked. Must never write, nor look at more than
 * BS_SIDE_BY_SIDE instructions for each. */
#include "plan/image.h"

#include "plan/walk.h"

/* Whether a value, which is written, has bytes in common with another one. */
static bool overlap(const bs_plan *p, int32_t a, int32_t b)
{
    const bs_value_plan *x = &p->values[a], *y = &p->values[b];
    if (x->storage != y->storage)
        return false;
    if (x->storage != BS_STORAGE_TRANSIENT)
        return x->source == y->source;
    return bs_bytes_less(x->offset, bs_plan_end(y)) && bs_bytes_less(y->offset, bs_plan_end(x)) &&
           !(bs_bytes_same(x->offset, y->offset) && bs_bytes_same(x->row_bytes, y->row_bytes) &&
             bs_walk_are_paths(p->graph, p->graph->values[a].domain, p->graph->values[b].domain));
}

/* Whether instruction b touches what a writes. */
static bool meets(const bs_plan *p, const bs_instr *a, const bs_instr *b)
{
    const bs_value_plan *values = p->values;
    bool is_written, other;
    for (int32_t k = 0, to; (to = bs_walk_touched(p, a, k, &is_written)) >= 0 && is_written; k++) {
        while (values[to].storage == BS_STORAGE_VIEW)
            to = values[to].source;
        if (to == 0)
            return true; /* what ends a run, before its end */
        for (int32_t n = 0, value; (value = bs_walk_touched(p, b, n, &other)) >= 0; n++)
            for (bool more = true; more; value = values[value].source) { /* what is seen has its rows in both */
                if (overlap(p, to, value) &&
                    !(other && to == value && bs_walk_are_paths(p->graph, a->domain, b->domain)))
                    return true;
                more = values[value].storage == BS_STORAGE_VIEW || bs_plan_is_seen(p, value);
            }
    }
    return false;
}

static bool computes(const bs_instr *i) { return i->kind == BS_INSTR_CALL || i->kind == BS_INSTR_MOVE; }

bool bs_image_side_sound(const bs_plan *p, int32_t row)
{
    const bs_instr *a = &p->instrs[row], *end = p->instrs + bs_plan_side_by_side(p, row);
    for (const bs_instr *b = a + 1; b < end; b++)
        if (computes(a) && computes(b) && (meets(p, a, b) || meets(p, b, a)))
            return false;
    return true;
}
