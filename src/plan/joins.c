/* plan/joins.c - instructions that are made to run side by side: one that could run earlier is moved to the time of
 * another one of its kind, of any domain. On a GPU instructions of one time and kernel are one launch (cuda/step.cuh),
 * on several threads one job (run/side.c).
 *
 * An instruction that joins stands before others of its domain, so it may only write what is its own until then:
 * transient rows, which share no bytes with anything that is alive at one of their times, both ends included
 * (plan/memory.c), and which nothing wrote before. It reads what is there by then, and what is written later anew (what
 * a loop carries, states) is written after all that came before it (bs_lower_pass.floor, plan/places.c).
 * bs_plan_verify looks (plan/walk_bytes.c); a saved plan that lies about it computes any numbers, in its memory.
 * Relies on plan/lower.h. Must never move one that may be refused, whose result others already write, or so many that
 * memory grows by much. */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

enum {
    JOIN_BACK = 64,      /* times, at most */
    JOIN_BYTES = 1 << 20 /* of what has joined in so many times: at most twice as many are alive sooner than need be */
};

/* Rows in the transient arena and nowhere else. */
static bool is_own(const bs_lower_pass *l, int32_t value)
{
    return l->plan->values[value].storage == BS_STORAGE_TRANSIENT && l->plan->values[value].source == 0;
}

/* The bytes of the results of an instruction that may join; BS_BYTES_TOO_MANY: it may not. */
static bs_bytes joining_bytes(const bs_lower_pass *l, const bs_instr *i)
{
    const bs_node *node = &l->g->nodes[i->node];
    const bool call = i->kind == BS_INSTR_CALL;
    const int32_t first = call ? node->first_out : i->target, count = call ? node->n_out : 1;
    bool may = call ? count > 0 && !node->makes && !bs_op_may_refuse(bs_node_op(node))
                    : i->value == 0 || is_own(l, i->value);
    bs_bytes sum = bs_bytes_of(0);
    for (int32_t v = first; v < first + count; v++) {
        may = may && is_own(l, v);
        sum = bs_bytes_add(sum, bs_bytes_times(bs_plan_row_bytes(l->plan, v), bs_plan_storage_rows(l->plan, v)));
    }
    return may ? sum : bs_bytes_of(BS_BYTES_TOO_MANY);
}

/* Whether it may run at an earlier time, and there is room for its results from then on. */
static bool may_join(bs_lower_pass *l, const bs_instr *i)
{
    if (l->latest - l->joins_since > JOIN_BACK) {
        l->joins_since = l->latest;
        l->joined_bytes = bs_bytes_of(0);
    }
    const bs_bytes sum = bs_bytes_add(l->joined_bytes, joining_bytes(l, i));
    const bool may = bs_bytes_figure(sum) <= JOIN_BYTES;
    l->joined_bytes = may ? sum : l->joined_bytes;
    return may;
}

bool bs_lower_joins(const bs_plan *plan)
{
    return !plan->desc.no_dataflow && !bs_plan_streams(plan) && (bs_plan_on_device(plan) || plan->threads > 1);
}

int32_t bs_lower_join(bs_lower_pass *l, const bs_instr *i, int32_t after, int32_t time)
{
    const int32_t kind = i->kind == BS_INSTR_CALL ? l->g->nodes[i->node].op : bs_op_count() + i->map;
    if (!l->joins || i->kind > BS_INSTR_MOVE || time > BS_TIME_END)
        return time;
    int32_t *const times = l->recent[kind].times, earliest = time;
    for (int32_t k = 0; k < BS_RECENT; k++)
        if (times[k] > bs_max_i32(after, time - JOIN_BACK) && times[k] < earliest)
            earliest = times[k];
    if (earliest < time && may_join(l, i))
        return earliest;
    times[time % BS_RECENT] = time;
    return time;
}

#endif
