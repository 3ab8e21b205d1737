/* plan/image_stages.c - what an image says of weights that come and go.
 *
 *   field                             what a lie could do                     what is asked for
 *   units: prepared_bytes, the sums,  weights beyond slots                    sums that are right; the largest fits
 *     slot_bytes
 *   units: node                       a unit that nothing loads, waited for   the first node that loads it
 *   units: block, domain;             margins beyond their table              an outermost path of the stage's router
 *     stages: router
 *   stages, stage_units,              lists beyond their tables               behind each other; all that its
 *     most_stage_units                                                        instructions need
 *   instrs: stage; parts: unit        weights used that are not there         of all that need a unit, in order
 *   lanes, lane_bytes, chunk_bytes    reads beyond staging                    what follows from the description
 *
 * Relies on plan/image.h, and on values and instructions having been looked at. Must never write. */
#include "plan/image.h"

#include "ops/structure.h"

#if !defined(BS_NO_STREAM)

static bool unit_sound(const bs_plan *p, int32_t u, bs_error *error)
{
    const bs_graph *g = p->graph;
    const bs_plan_unit *unit = &p->units[u];
    if (unit->domain != 0 && g->domains[unit->domain].outermost != unit->domain)
        return bs_image_refuse(error, "units", u, "it is of no outermost path");
    if (!bs_bytes_aligned_to(unit->prepared_bytes, BS_ALIGNMENT) || !bs_plan_needs_weights(p, unit->node) ||
        p->nodes[unit->node].unit != u || p->nodes[unit->node].owner != unit->node)
        return bs_image_refuse(error, "units", u, "its first node does not load it");
    return true;
}

static bool sums_sound(const bs_plan *p, bs_error *error)
{
    bs_bytes all = bs_bytes_of(0), largest = all;
    bs_plan sized = *p;
    for (int32_t u = 1; u < p->n_units; u++) {
        all = bs_bytes_add(all, p->units[u].prepared_bytes);
        largest = bs_bytes_max(largest, p->units[u].prepared_bytes);
    }
    bs_plan_size_lanes(&sized);
    if (!bs_bytes_same(all, p->all_unit_bytes) || !bs_bytes_same(largest, p->largest_unit_bytes) ||
        bs_bytes_less(p->slot_bytes, largest) || bs_bytes_less(all, p->slot_bytes))
        return bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: its slots are not of the bytes of its units");
    return (sized.lanes == p->lanes && bs_bytes_same(sized.chunk_bytes, p->chunk_bytes) &&
            bs_bytes_same(sized.lane_bytes, p->lane_bytes)) ||
           bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: its readers have other staging");
}

/* ------------------------------------------------------------------------------------------------- stages */

/* The list of the stage whose instructions are gone through. */
typedef struct stage_list {
    const bs_plan *p;
    int32_t stage, first, end; /* -1: none yet; in stage_units */
    int32_t last;              /* where the unit before was found: the next one is behind it, as paths take turns */
} stage_list;

static bool list_has(stage_list *l, int32_t unit)
{
    for (int32_t k = l->first; k < l->end; k++) {
        l->last = l->last + 1 < l->end ? l->last + 1 : l->first;
        if (l->p->stage_units[l->last] == unit - 1)
            return true;
    }
    return false;
}

static bool is_of_router(const bs_plan *p, int32_t unit, int32_t stage)
{
    const int32_t domain = p->units[unit].domain;
    return p->stages[stage].router == (domain ? p->graph->domains[domain].router : 0);
}

static bool takes(stage_list *l, int32_t unit)
{
    return unit == 0 || (l->stage >= 0 && is_of_router(l->p, unit, l->stage) && list_has(l, unit));
}

/* Whether an instruction at top level needs weights that come and go. */
static bool needs_units(const bs_plan *p, const bs_instr *i)
{
    if (i->kind == BS_INSTR_CALL)
        return p->nodes[i->node].unit != 0;
    bool any = false;
    for (int32_t k = 0; i->kind == BS_INSTR_RUN && !any && k < p->regions[i->region].count; k++)
        any = p->parts[p->region_parts[p->regions[i->region].first + k]].unit != 0;
    return any;
}

static bool instr_units_sound(stage_list *l, const bs_instr *i)
{
    const bs_plan *p = l->p;
    if (i->kind == BS_INSTR_CALL)
        return takes(l, p->nodes[i->node].unit);
    bool sound = true;
    for (int32_t k = 0; i->kind == BS_INSTR_RUN && sound && k < p->regions[i->region].count; k++)
        sound = takes(l, p->parts[p->region_parts[p->regions[i->region].first + k]].unit);
    return sound;
}

/* The next stage begins behind the one before. */
static bool stage_begins(stage_list *l, int32_t stage)
{
    const bs_plan *p = l->p;
    if (stage != l->stage + 1 || p->stages[stage].first_unit != l->end ||
        p->stages[stage].n_units > p->n_stage_units - l->end || p->stages[stage].n_units > p->most_stage_units)
        return false;
    l->stage = stage;
    l->first = l->last = l->end;
    l->end += p->stages[stage].n_units;
    return true;
}

static bool stages_sound(const bs_plan *p, bs_error *error)
{
    stage_list l = {p, -1, 0, 0, 0};
    for (int32_t k = 0; k < p->n_top; k++) {
        const bs_instr *i = &p->instrs[k];
        if ((i->stage >= 0) != needs_units(p, i) ||
            (i->stage >= 0 && i->stage != l.stage && !stage_begins(&l, i->stage)) || !instr_units_sound(&l, i))
            return bs_image_refuse(error, "instrs", k, "its stage does not list the weights that it needs");
    }
    return (l.stage == p->n_stages - 1 && l.end == p->n_stage_units) ||
           bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: it has stages without instructions");
}

/* Weights of one unit in a part. */
static bool part_units_sound(const bs_plan *p, bs_error *error)
{
    for (int32_t k = p->n_top; k < p->n_instrs; k++) {
        const bs_instr *i = &p->instrs[k];
        const int32_t unit = i->kind == BS_INSTR_CALL ? p->nodes[i->node].unit : 0;
        if (i->stage >= 0 || (unit != 0 && unit != p->parts[i->part].unit))
            return bs_image_refuse(error, "instrs", k, "its part does not have its weights");
    }
    return true;
}

#endif

static bool nothing_streams(const bs_plan *p, bs_error *error)
{
    const bs_bytes sum = bs_bytes_add(bs_bytes_add(p->slot_bytes, p->all_unit_bytes),
                                      bs_bytes_add(p->largest_unit_bytes, bs_bytes_add(p->chunk_bytes, p->lane_bytes)));
    return (!bs_bytes_any(sum) && p->lanes == 0 && p->n_stages == 0 && p->n_stage_units == 0) ||
           bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: it has slots or stages, and nothing for them");
}

bool bs_image_stages_sound(const bs_plan *p, bs_error *error)
{
    if (p->n_units == 1)
        return nothing_streams(p, error);
#if !defined(BS_NO_STREAM)
    bool sound = true;
    for (int32_t u = 1; u < p->n_units && sound; u++)
        sound = unit_sound(p, u, error);
    return sound && sums_sound(p, error) && stages_sound(p, error) && part_units_sound(p, error);
#else
    return bs_refuse(error, BS_ERROR_UNSUPPORTED, /* unreachable: where it streams */
                     "bs_plan_open: this build keeps all weights resident (BS_NO_STREAM)");
#endif
}
