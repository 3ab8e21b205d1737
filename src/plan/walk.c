/* plan/walk.c - a finished plan is walked once, from its first instruction to its last, before it is handed out or
 * opened: each instruction is one that the graph needs, once, where it stands, and all that it reads has been written
 * on every way to it. What goes on is the walk's own account: of nodes, how many of their instructions have come; of
 * time, where the list stands.
 *
 *   of what                          what would be wrong                    what is looked at
 *   regions, parts, region_parts     tiles run twice, or of other rows      regions behind each other, of one router's
 *                                                                             paths or the domain itself
 *   parts: first, count; instrs:     lists in lists, without end            lists of their own; only the top one runs
 *     part; regions: instr                                                    regions, each once
 *   instrs: node, map, combine,      other rows than those of the node,     what the planner makes of such a node
 *     value, target, domain, extent    in another way                         (plan/walk_makes.c)
 *   routers: instr, again            rows of decisions that are not made    decided once, before it is read, by what
 *                                                                             has come; noted where that is
 *   nodes: instr                     rows beyond buffers                    counted before they are seen
 *   the order of all                 what was there before is read          written before (plan/walk_reads.c)
 *   a node without instruction       the same                               all have come in the end
 *   values: rows, row_bytes, offset  rows beyond arenas                     room for rows at their maxima, where they
 *                                                                             are written or read
 *   instrs: phase; parts: unit       weights that are not there             in a part those of its unit; at top level
 *                                                                             waited for, in a phase
 *
 * Of a trip of a loop the walk knows as much as of all: what a trip reads was there before the loop, or was made
 * before in the same trip, or is carried, and then it was there before the first trip, and what follows it is moved
 * to it at the end of each.
 * Relies on plan/walk.h and on every number being within its table. Must never write a plan. */
#include "plan/walk.h"

/* ------------------------------------------------------------------------------------------- parts and regions */

static bool part_sound(const bs_plan *p, int32_t k)
{
    const bs_part *part = &p->parts[k];
    const bs_region *region = &p->regions[part->region];
    const bs_domain *d = &p->graph->domains[part->domain];
    const bool path = d->kind == BS_DOMAIN_PATH;
    if (p->region_parts[part->index] != k || part->index < region->first ||
        part->index - region->first >= region->count)
        return false;
    if (part->domain == 0 || (path && d->outermost != part->domain) || region->domain != d->top ||
        part->router != (path ? d->router : 0) || part->path != (path ? d->path : -1))
        return false;
    if (part->first > p->n_instrs - part->count || (part->count > 0 && part->first < p->n_top))
        return false;
    return true;
}

/* Regions lie one behind the other in region_parts, and every part says where it is there: so no two regions share a
 * part. */
static bool region_sound(const bs_plan *p, int32_t r)
{
    const bs_region *region = &p->regions[r];
    const int32_t first = r == 0 ? 0 : region[-1].first + region[-1].count;
    if (region->first != first || region->count < 1 || region->count > p->n_parts - first)
        return false;
    for (int32_t i = first; i < first + region->count; i++)
        if (p->parts[p->region_parts[i]].router != p->parts[p->region_parts[first]].router)
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------ one instruction */

/* Whether the rows of a path are stored for the first time; of other moves: true. */
static bool stores_once(bs_walk *w)
{
    const bs_instr *i = w->i;
    const int32_t router = w->op->work == BS_WORK_MOVE ? w->node->router : 0; /* whose paths it gathers */
    if (i->combine != BS_COMBINE_COPY || router == 0 || w->g->routers[router].loop.bound > 0)
        return true;
    bool *stored = &w->stored[w->node->in + w->g->domains[w->g->values[i->value].domain].path];
    const bool once = !*stored;
    *stored = true;
    return once;
}

/* When all that the node makes is there, which has come: at top level after this time; in a part, where it is the
 * part's own, behind this instruction. Of what is moved that is simple for a view with rows of its own. */
static inline uint32_t ready_at(const bs_walk *w, const bs_instr *i, const bs_node *node)
{
    const bs_value_plan *v = &w->p->values[node->n_out > 0 ? node->first_out : 0];
    if (v->storage == BS_STORAGE_NONE || (i->kind == BS_INSTR_MOVE && (!bs_instr_loads(i) || v->source != 0)))
        return BS_WALK_NOT_READY;
    if (v->storage != BS_STORAGE_SCRATCH)
        return (uint32_t)w->time;
    return v->scope == i->part && node->n_out == 1 ? w->here + (i->extent == BS_EXTENT_NEAR) : BS_WALK_NOT_READY;
}

/* Whether a node's instruction may come now; then it has. A ring does not count: it goes on with what has come. What is
 * not needed has none. */
static inline bool comes(bs_walk *w, const bs_instr *i)
{
    const int32_t n = i->node;
    bs_walk_entry *of = &w->of[n];
    int32_t left = of->left;
    if (i->kind == BS_INSTR_RUN || i->extent == BS_EXTENT_RING)
        return true;
    if (i->kind == BS_INSTR_MOVE && !bs_instr_loads(i) && !stores_once(w))
        return false;
    if (left < 0) /* the first one: all but what moves rows need no other */
        left = w->op->work != BS_WORK_MOVE ? w->p->node_live[n] : bs_walk_due(w, n);
    left--;
    of->left = left;
    of->last = w->at;
    of->ready = left == 0 ? ready_at(w, i, w->node) : BS_WALK_NOT_READY;
    return left >= 0;
}

#if defined(BS_VERIFY) || defined(BS_DEBUG)
static bool bytes_sound(bs_walk *w)
{
    const bool ring = w->i->extent == BS_EXTENT_RING;
    return !w->bytes || w->i->kind == BS_INSTR_RUN ||
           bs_walk_bytes_sound(w->bytes, !ring && bs_walk_left(w, w->i->node) == bs_walk_due(w, w->i->node));
}

static void begin_part(const bs_walk *w)
{
    if (w->bytes)
        bs_walk_bytes_part(w->bytes);
}

/* What the instruction is about has not come yet in this trip; of what the loop gives, what was there before has. */
static void forget(bs_walk *w, const bs_instr *i, int32_t loop)
{
    const bs_node *node = &w->g->nodes[i->node];
    bs_walk_entry *of = &w->of[i->node];
    of->left = node->router == loop && bs_node_gathers(node) ? 1 : -1;
    of->last = -1;
    of->ready = BS_WALK_NOT_READY;
    memset(w->stored + node->in, 0, (size_t)node->n_in * sizeof *w->stored);
}

/* The instruction behind which the list goes on: after the end of a loop that is at its first trip, behind its
 * beginning, for what a trip finds that the one before has left. Once for each loop: a third trip finds the same. */
static int32_t goes_on(bs_walk *w, int32_t at)
{
    const bs_plan *p = w->p;
    const int32_t loop = p->instrs[at].kind == BS_INSTR_ROUTE ? w->g->nodes[p->instrs[at].node].router : 0;
    if (!w->bytes || !loop || p->routers[loop].again != at || w->repeated[loop])
        return at;
    w->repeated[loop] = true;
    for (int32_t k = p->routers[loop].instr + 1; k <= at; k++) {
        const bs_region *region = &p->regions[p->instrs[k].region];
        forget(w, &p->instrs[k], loop);
        for (int32_t r = 0; p->instrs[k].kind == BS_INSTR_RUN && r < region->count; r++) {
            const bs_part *part = &p->parts[p->region_parts[region->first + r]];
            for (int32_t j = part->first; j < part->first + part->count; j++)
                forget(w, &p->instrs[j], loop);
        }
    }
    return p->routers[loop].instr;
}
#else
static inline bool bytes_sound(bs_walk *w) { return (void)w, true; }
static inline void begin_part(const bs_walk *w) { (void)w; }
static inline int32_t goes_on(bs_walk *w, int32_t at) { return (void)w, at; }
#endif

/* Whether one of a region's parts needs weights that are loaded. */
static bool waits(const bs_plan *p, const bs_region *region)
{
    bool any = false;
    for (int32_t k = region->first; k < region->first + region->count && !any; k++)
        any = p->parts[p->region_parts[k]].unit != 0;
    return any;
}

/* In a part weights are there that it waits for, and resident ones; at top level what needs others, and nothing else,
 * is of a phase: a run waits for them there. */
static inline bool has_its_weights(const bs_walk *w, const bs_instr *i)
{
    if (w->p->n_units <= 1) /* nothing is loaded: no number of a unit or phase is another */
        return true;
    const int32_t unit = i->kind == BS_INSTR_CALL ? w->p->nodes[i->node].unit : 0;
    if (w->tile)
        return i->phase < 0 && (unit == 0 || unit == w->p->parts[i->part].unit);
    return (i->phase >= 0) == (unit != 0 || (i->kind == BS_INSTR_RUN && waits(w->p, &w->p->regions[i->region])));
}

static inline bool instr_sound(bs_walk *w, const bs_instr *i, int32_t at)
{
    w->i = i;
    w->at = at;
    w->node = &w->g->nodes[i->node];
    w->op = bs_op_table[w->node->op];
    return i->part + 1 == w->list && (!w->whole || bs_walk_makes(w)) && has_its_weights(w, i) && bs_walk_may_run(w) &&
           bytes_sound(w) && comes(w, i);
}

/* The list at top level is in order of time. */
static inline bool is_in_order(bs_walk *w, const bs_instr *i, int32_t at)
{
    w->now = at;
    w->time = i->time;
    return i->time >= (at > 0 ? i[-1].time : 0);
}

/* Instructions of a list, one after the other, up to the first one that runs a region: where that is. -1: one is
 * wrong. */
static int32_t list_runs(bs_walk *w, int32_t at, int32_t end)
{
    for (; at < end; at++) {
        const bs_instr *i = &w->p->instrs[at];
        if ((w->list == 0 && !is_in_order(w, i, at)) || !instr_sound(w, i, at))
            return -1;
        if (i->kind == BS_INSTR_RUN)
            return at;
        at = goes_on(w, at);
    }
    return at;
}

/* All instructions of a part, none of which runs a region. */
static bool part_runs(bs_walk *w, int32_t number)
{
    const bs_part *part = &w->p->parts[number];
    const int32_t end = part->first + part->count;
    w->list = number + 1;
    w->here = BS_WALK_NOT_READY - 2 * (uint32_t)w->list;
    w->tile = part->domain;
    w->of[w->tile].known = w->list; /* a tile knows its own rows */
    begin_part(w);
    const bool sound = list_runs(w, part->first, end) == end;
    w->list = w->tile = 0;
    w->here = BS_WALK_NOWHERE;
    return sound;
}

static bool region_runs(bs_walk *w, const bs_region *region)
{
    bool sound = true;
    for (int32_t k = 0; sound && k < region->count; k++)
        sound = part_runs(w, w->p->region_parts[region->first + k]);
    return sound;
}

/* The list at top level, and those of regions where they are run. */
static bool all_run(bs_walk *w)
{
    const bs_plan *p = w->p;
    int32_t at = list_runs(w, 0, p->n_top);
    while (at >= 0 && at < p->n_top && region_runs(w, &p->regions[p->instrs[at].region]))
        at = list_runs(w, at + 1, p->n_top);
    return at == p->n_top;
}

/* ------------------------------------------------------------------------------------------------------ all */

void bs_walk_carve(bs_carver *c, bs_walk *w, int64_t nodes, int64_t operands)
{
    BS_CARVE(c, w->of, nodes);
    BS_CARVE(c, w->stored, operands);
}

bs_bytes bs_plan_walk_workspace(int64_t nodes, int64_t operands)
{
    bs_walk w;
    bs_carver c = {NULL, {0}};
    bs_walk_carve(&c, &w, nodes, operands);
    return c.used;
}

/* Whether no region has rows twice. Leaves numbers in `known` that are no list's. */
static bool are_apart(bs_walk *w)
{
    const bs_plan *p = w->p;
    bool apart = true;
    for (int32_t k = 0; k < p->n_parts && apart; k++) {
        const bs_part *part = &p->parts[p->region_parts[k]];
        int32_t *known = &w->of[part->domain].known;
        apart = *known != -2 - part->region;
        *known = -2 - part->region;
    }
    return apart;
}

bool bs_plan_each(const bs_plan *p, int32_t first, int32_t rows, bs_plan_sound *sound)
{
    while (first < rows && sound(p, first))
        first++;
    return first >= rows;
}

int32_t bs_walk_all(bs_walk *w)
{
    const bs_plan *p = w->p;
    const int32_t n_nodes = w->g->n_nodes;
    memset(w->of, 0xff, (size_t)n_nodes * sizeof *w->of); /* -1, and BS_WALK_NOT_READY */
    if (!bs_plan_each(p, 0, p->n_parts, part_sound) || !bs_plan_each(p, 0, p->n_regions, region_sound) ||
        !are_apart(w))
        return 0;
    memset(w->stored, 0, (size_t)w->g->n_operands * sizeof *w->stored);
    w->here = BS_WALK_NOWHERE;
    if (!all_run(w))
        return w->at;
    for (int32_t n = 1; n < n_nodes; n++)
        if (w->of[n].left != 0 && (w->of[n].left > 0 || bs_walk_due(w, n) != 0)) /* some have not come */
            return p->n_instrs;
    return BS_WALK_SOUND;
}

int32_t bs_plan_walk(const bs_plan *p, bool whole, void *workspace)
{
    bs_walk w = {.p = p, .g = p->graph, .whole = whole};
    bs_carver c = {workspace, {0}};
    bs_walk_carve(&c, &w, p->graph->n_nodes, p->graph->n_operands);
    return bs_walk_all(&w);
}
