/* plan/walk_reads.c - what has been written when an instruction runs. A value is there once all instructions of its
 * node have come: at top level at an earlier time, because those of one time run in any order; in a tile before it, if
 * the rows are the tile's own.
 *
 * While a loop goes on, what it gives holds what was there before the first trip, or what the last trip made: it is
 * read before this trip's moves, and after the loop when all have come.
 * Relies on plan/walk.h. Must never resolve a view by what the plan says of it. */
#include "plan/walk.h"

/* Whether an instruction that is at top level or in the same part has come: a device launches instructions of equal
 * time in any order, as tiles come in any order. */
static bool has_come(const bs_walk *w, int32_t k)
{
    if (k < 0)
        return false;
    const bs_instr *i = &w->p->instrs[k];
    return i->part == BS_TOP ? i->time < w->time : i->part == w->i->part && k < w->at;
}

bool bs_walk_is_decided(const bs_walk *w, int32_t router)
{
    return w->p->routers[router].live && has_come(w, w->of[w->g->routers[router].node].last);
}

bool bs_walk_has_ended(const bs_walk *w, int32_t router)
{
    return has_come(w, w->of[w->g->routers[router].loop.again].last);
}

/* Whether the node that says how many rows or elements there are has run before. */
static bool is_counted(const bs_walk *w, int32_t maker)
{
    const int32_t at = w->of[maker].last;
    return maker == 0 || (at >= 0 && w->p->instrs[at].part == BS_TOP && w->p->instrs[at].time < w->time);
}

/* If a path is seen, the instruction that decided saw the domain above it. */
static bool knows(const bs_walk *w, int32_t domain)
{
    const bs_domain *d = &w->g->domains[domain];
    if (w->tile && bs_plan_is_within(w->g, w->tile, domain))
        return true; /* its own rows, and those above */
    if (d->kind != BS_DOMAIN_PATH)
        return w->tile == 0 && is_counted(w, bs_domain_maker(w->g, domain));
    return bs_walk_is_decided(w, d->router) && w->p->routers[d->router].in_tile == (w->tile != 0);
}

static bool looks_for(bs_walk *w, int32_t domain)
{
    const bs_domain *domains = w->g->domains, *d = &domains[domain];
    if (!knows(w, domain))
        return false;
    w->of[domain].known = w->list;
    /* at top level what tells the rows of one path tells those of all */
    for (int32_t k = w->list == 0 ? w->g->routers[d->router].path_domains : 0; k; k = domains[k].next)
        w->of[k].known = 0;
    return true;
}

/* Whether the rows of a domain are known to this instruction. */
static inline bool sees(bs_walk *w, int32_t domain)
{
    return domain == 0 || w->of[domain].known == w->list || looks_for(w, domain);
}

/* Whether a value's storage holds its rows at their maxima, those of a tile in the scratch of its part. (The transient
 * arena is as large as what lies in it.) */
static bool holds_rows(const bs_walk *w, int32_t value)
{
    const bs_value_plan *v = &w->p->values[value];
    if (v->storage == BS_STORAGE_SCRATCH && (!bs_plan_is_within(w->g, w->g->values[value].domain, w->tile) ||
                                             bs_bytes_less(w->p->parts[v->scope].scratch_bytes, bs_plan_end(v))))
        return false;
    return v->rows >= bs_plan_storage_rows(w->p, value) &&
           !bs_bytes_less(v->row_bytes, bs_plan_row_bytes(w->p, value)) &&
           bs_bytes_aligned_to(v->row_bytes, BS_ALIGNMENT) && bs_bytes_aligned_to(v->offset, BS_ALIGNMENT);
}

/* Whether it has storage where the instruction stands. */
static inline bool has_storage(const bs_walk *w, int32_t value)
{
    const bs_value_plan *v = &w->p->values[value];
    if (v->storage == BS_STORAGE_NONE || v->storage == BS_STORAGE_FRAME ||
        (v->storage == BS_STORAGE_SCRATCH && (!w->tile || v->scope != w->i->part)))
        return false;
    return !w->whole || !bs_plan_is_stored(w->p, value) || holds_rows(w, value);
}

bool bs_walk_may_write(bs_walk *w, int32_t value)
{
    const bs_value_info *v = &w->g->values[value];
    if (value == 0 || !sees(w, v->domain))
        return false;
    for (int32_t k = 0; w->g->makes && k < v->rank; k++)
        if (w->g->dims[v->dims[k]].node != w->i->node && !is_counted(w, w->g->dims[v->dims[k]].node))
            return false;
    while (w->p->values[value].storage == BS_STORAGE_VIEW)
        value = w->p->values[value].source;
    return has_storage(w, value);
}

/* The same of what a loop gives, and of rows of a tile. */
static bool is_done_here(bs_walk *w, int32_t n)
{
    const bs_node *node = &w->g->nodes[n];
    const bool of_loop = w->g->routers[node->router].loop.bound > 0 && bs_node_gathers(node);
    const bool goes_on = of_loop && bs_walk_is_decided(w, node->router) && !bs_walk_has_ended(w, node->router);
    const int32_t last = w->of[n].last;
    if (bs_walk_left(w, n) != (goes_on ? 1 : 0))
        return false;
    if (last < 0)
        return true;
    const int32_t part = w->p->instrs[last].part;
    if (part == BS_TOP)
        return w->p->instrs[last].time < w->time;
    if (part == w->i->part && bs_plan_is_within(w->g, w->g->values[node->first_out].domain, w->tile))
        return true;
    return w->p->instrs[w->p->regions[w->p->parts[part].region].instr].time < w->time;
}

/* Whether all instructions of a node have come that are to come before this one. */
static inline bool is_done(bs_walk *w, int32_t n)
{
    const uint32_t ready = w->of[n].ready;
    return ready < (uint32_t)w->time || ready == w->here || is_done_here(w, n);
}

/* Whether a value that is no view is written. Cells may lie where they are joined before they are: then what joins
 * them has no more to do than to zero what is beyond them. */
static bool is_written(bs_walk *w, int32_t value)
{
    const int32_t n = w->g->values[value].node;
    const bs_node *node = &w->g->nodes[n];
    const bool joins = bs_op_table[node->op]->work == BS_WORK_MOVE && node->router == 0;
    const int32_t cells = joins ? w->g->operands[node->in] : 0;
    return is_done(w, n) && (w->p->values[cells].storage != BS_STORAGE_FRAME || is_done(w, w->g->values[cells].node));
}

/* ------------------------------------------------------------------------------------------- parts of images */

static bs_reach farther(bs_reach a, bs_reach b)
{
    return (bs_reach){bs_max_i32(a.before, b.before), bs_max_i32(a.after, b.after)};
}

/* How far the result of node n is there, for the rows of the instruction: its call may compute it first only near its
 * core. */
static bs_reach there_of(const bs_walk *w, int32_t n)
{
    const bs_instr *i = &w->p->instrs[w->of[n].last], *end = &w->p->instrs[w->at];
    bs_reach there = i->reach;
    while (++i < end)
        if (i->node == n && i->kind == BS_INSTR_CALL && bs_plan_is_within(w->g, w->i->domain, i->domain))
            there = farther(there, i->reach);
    return there;
}

/* Storage ends where the margin does. */
static inline bool reaches(bs_reach there, bs_reach need, int32_t margin)
{
    return (there.before >= margin || there.before >= need.before) &&
           (there.after >= margin || there.after >= need.after);
}

static int32_t margin_of(const bs_walk *w, int32_t n) { return w->p->values[w->g->nodes[n].first_out].margin; }

/* Whether what a ring leaves out has been computed. */
static bool is_ring_around(const bs_walk *w)
{
    const int32_t n = w->i->node;
    return w->of[n].last >= 0 && reaches(there_of(w, n), w->i->done, margin_of(w, n));
}

/* How far the result of this instruction is to be there when it has run. */
static bs_reach result_of(const bs_walk *w)
{
    const bs_instr *i = w->i;
    const int32_t made = i->kind == BS_INSTR_CALL && w->node->n_out > 0 ? w->node->first_out : i->target;
    const int32_t margin = w->p->values[made].margin; /* of value 0 there is none */
    if (i->extent == BS_EXTENT_ALL)
        return (bs_reach){margin, margin};
    const int32_t grain = w->p->nodes[i->node].grain;
    return (bs_reach){margin - (margin - i->reach.before) / grain * grain,
                      bs_min_i32(i->reach.after + grain - 1, margin)};
}

static bs_reach needed(const bs_walk *w, const bs_node *node, int32_t index, bs_reach out)
{
    const int32_t before = bs_plan_margin_for(w->p, node, index, out.before);
    return (bs_reach){before, out.after == out.before ? before : bs_plan_margin_for(w->p, node, index, out.after)};
}

/* Whether a call of this tile has computed only what is near the core of an image. */
static inline bool is_near(const bs_walk *w, int32_t n)
{
    const int32_t last = w->of[n].last;
    return last >= 0 && w->p->instrs[last].extent == BS_EXTENT_NEAR;
}

/* Whether that is enough, with the rings that have come.
 * value: operand `index` of the node that is looked at, through which it is seen. */
static bool is_near_enough(const bs_walk *w, int32_t value, int32_t index, int32_t n)
{
    const int32_t margin = margin_of(w, n);
    const bs_reach there = there_of(w, n);
    if (there.before >= margin && there.after >= margin) /* all of it, whatever is needed */
        return true;
    bs_reach need = needed(w, w->node, index, result_of(w));
    while (w->g->values[value].node != n) {
        const bs_node *view = &w->g->nodes[w->g->values[value].node];
        need = needed(w, view, 0, need);
        value = bs_view_of(w->g, view);
    }
    return reaches(there, need, margin);
}

/* ------------------------------------------------------------------------------------------------ what is read */

/* Views lead to values of lower numbers, or to what a loop gives, which is no view. */
static bool is_found(bs_walk *w, int32_t value, int32_t index)
{
    for (int32_t at = value;;) {
        const int32_t n = w->g->values[at].node;
        const bs_node *node = &w->g->nodes[n];
        const bs_value_plan *v = &w->p->values[at];
        const bool stored = v->storage != BS_STORAGE_VIEW;
        if (bs_op_table[node->op]->work != BS_WORK_VIEW && (stored || !w->g->values[at].reshaped))
            return is_written(w, at) && has_storage(w, stored ? at : v->source) &&
                   (!is_near(w, n) || is_near_enough(w, value, index, n));
        if (stored && (!has_storage(w, at) || !is_done(w, n)))
            return false;
        if (stored && !bs_plan_is_seen(w->p, at)) /* what is seen has its rows in both */
            return true;
        if (!stored) /* nothing has to come of it: not asked again in the end */
            w->of[n].left = 0;
        if (v->source != bs_view_of(w->g, node))
            return false;
        at = v->source;
    }
}

/* Whether operand `index` of the node, or what is moved for it, may be read. What is ready was written by one that
 * knew its rows. */
static inline bool may_read(bs_walk *w, int32_t value, int32_t index)
{
    const int32_t n = w->g->values[value].node;
    const uint32_t ready = w->of[n].ready;
    return ready < (uint32_t)w->time || ready == w->here ||
           (ready == w->here + 1 && is_near_enough(w, value, index, n)) ||
           (value != 0 && sees(w, w->g->values[value].domain) && is_found(w, value, index));
}

static bool may_read_operands(bs_walk *w)
{
    const bs_node *node = w->node;
    int32_t n_in = node->n_read;
    const int32_t *in = w->g->operands + node->in;
    if (w->p->nodes[w->i->node].fusion)
        in = bs_plan_in(w->p, w->i->node, &n_in);
    for (int32_t k = 0; k < n_in; k++)
        if (in[k] != 0 && !may_read(w, in[k], k) && !(node->router && !bs_plan_reads(w->p, node, k)))
            return false;
    return true;
}

/* Rows of a call's operand 0, all of them, as they lie around the loop. */
static bool may_read_around(bs_walk *w)
{
    const int32_t carried = bs_node_in(w->g, w->node)[0];
    return may_read(w, bs_view_of(w->g, &w->g->nodes[w->g->values[carried].node]), 0);
}

/* A loop's results come first before it has decided, then while it goes on; what combines paths when they are known. */
static bool is_in_turn(bs_walk *w)
{
    const int32_t router = w->node->router;
    if (w->g->routers[router].loop.bound <= 0) /* no loop */
        return w->i->combine == BS_COMBINE_COPY || bs_walk_is_decided(w, router);
    const bool decided = bs_walk_is_decided(w, router);
    return bs_walk_left(w, w->i->node) == (decided ? 1 : 2) && decided != bs_instr_stays(w->i) &&
           !(decided && bs_walk_has_ended(w, router));
}

/* Without what is read by each path. */
static bool may_move(bs_walk *w)
{
    const bs_instr *i = w->i;
    if (w->op->work == BS_WORK_MOVE && w->node->router != 0 && !is_in_turn(w)) /* it gathers */
        return false;
    if (bs_instr_loads(i)) /* to the view's own rows */
        return w->op->work != BS_WORK_VIEW || may_read(w, bs_view_of(w->g, w->node), 0);
    return i->value == 0 || may_read(w, i->value, 0);
}

static bool may_run_region(const bs_walk *w)
{
    const bs_region *region = &w->p->regions[w->i->region];
    const int32_t router = w->p->parts[w->p->region_parts[region->first]].router;
    return router == 0 || (bs_walk_is_decided(w, router) && !w->p->routers[router].in_tile);
}

bool bs_walk_may_run(bs_walk *w)
{
    const bs_instr *i = w->i;
    if (!sees(w, i->domain))
        return false;
    if (i->kind == BS_INSTR_CALL) {
        if ((w->node->router != 0 && !bs_walk_is_decided(w, w->node->router)) ||
            (w->op->rows.of == BS_ROWS_AROUND && !may_read_around(w)) ||
            (i->extent == BS_EXTENT_RING && !is_ring_around(w)))
            return false;
    } else if (i->kind == BS_INSTR_RUN) {
        return may_run_region(w);
    } else if (i->kind == BS_INSTR_MOVE) {
        if (!may_move(w))
            return false;
        if (!bs_instr_gathers(i))
            return true;
    }
    return may_read_operands(w);
}
