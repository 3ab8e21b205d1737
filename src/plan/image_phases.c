/* plan/image_phases.c - what an image says of streamed weights.
 *
 *   field                             what a lie could do                     what is checked
 *   units: prepared_bytes             weights beyond slots                    the largest fits (all_unit_bytes is the
 *                                                                               sum: plan/image_values.c)
 *   units: node                       a unit that nothing loads, waited for   the first node that loads it
 *   units: block, domain;             margins beyond their table              a path of the phase's router
 *     phases: router
 *   phases, phase_units               lists beyond their tables               behind each other; all that its
 *                                                                               instructions need
 *   instrs: phase; parts: unit        weights used that are not there         of all that need a unit, in order
 *
 * Relies on plan/image.h, and on values and instructions having been looked at. Must never write. */
#include "plan/image.h"

#include "ops/structure.h"

#if !defined(BS_NO_STREAM)

static const char *unit_wrong(const bs_plan *p, int32_t u)
{
    const bs_plan_unit *unit = &p->units[u];
    if (unit->domain != 0 && bs_plan_unit_path(p, unit->domain) != unit->domain)
        return bs_image_refused("it is of no path that is a unit");
    return bs_bytes_aligned_to(unit->prepared_bytes, BS_ALIGNMENT) && bs_plan_needs_weights(p, unit->node) &&
                   p->nodes[unit->node].unit == u && p->nodes[unit->node].owner == unit->node
               ? NULL
               : bs_image_refused("its first node does not load it");
}

/* ------------------------------------------------------------------------------------------------- phases */

/* The list of the phase that is being checked. */
typedef struct phase_list {
    const bs_plan *p;
    int32_t phase, first, end; /* -1: none yet; in phase_units */
    int32_t last;              /* where the last unit was found: the next one is usually behind it */
    bool over;                 /* a loop begins or ends behind it: it does not go on */
} phase_list;

/* The k-th unit whose weights a top-level instruction needs; 0: weights are resident; -1: there are no more. */
static int32_t unit_of(const bs_plan *p, const bs_instr *i, int32_t k)
{
    const bs_region *region = &p->regions[i->region];
    if (i->kind == BS_INSTR_CALL && k == 0)
        return p->nodes[i->node].unit;
    return i->kind == BS_INSTR_RUN && k < region->count ? p->parts[p->region_parts[region->first + k]].unit : -1;
}

/* Whether the phase lists a unit, and has the router that decides about it. */
static bool lists(phase_list *l, int32_t unit)
{
    const bs_plan *p = l->p;
    const int32_t domain = p->units[unit].domain;
    bool found = false;
    for (int32_t k = l->first; k < l->end && !found; k++) {
        l->last = l->last + 1 < l->end ? l->last + 1 : l->first;
        found = p->phase_units[l->last] == unit - 1;
    }
    return found && p->phases[l->phase].router == (domain ? p->graph->domains[domain].router : 0);
}

/* Begins the next phase, whose list must lie behind the one before. */
static bool begins(phase_list *l, int32_t phase)
{
    const bs_trace_phase *s = &l->p->phases[phase];
    if (phase != l->phase + 1 || s->first_unit != l->end || s->n_units > l->p->n_phase_units - l->end)
        return false;
    l->phase = phase;
    l->over = false;
    l->first = l->last = l->end;
    l->end += s->n_units;
    return true;
}

/* Whether the phase of an instruction lists what it needs; an instruction that needs no unit has no phase. */
static bool has_phase(phase_list *l, const bs_instr *i)
{
    bool needs = false, sound = i->phase < 0 || (i->phase == l->phase && !l->over) || begins(l, i->phase);
    l->over = l->over || bs_instr_loops(l->p, i);
    for (int32_t k = 0, unit = 0; sound && (unit = unit_of(l->p, i, k)) >= 0; k++) {
        needs = needs || unit > 0;
        sound = unit == 0 || (i->phase >= 0 && lists(l, unit));
    }
    return sound && needs == (i->phase >= 0);
}

bool bs_image_phases_sound(const bs_plan *p, bs_error *error)
{
    phase_list l = {p, -1, 0, 0, 0, false};
    if (!bs_image_each(p, BS_IMAGE_units, 1, unit_wrong, error))
        return false;
    if (bs_bytes_less(p->slot_bytes, p->largest_unit_bytes))
        return bs_refuse(error, BS_ERROR_FORMAT, "its slots are smaller than its largest unit");
    for (int32_t k = 0; k < p->n_top; k++)
        if (!has_phase(&l, &p->instrs[k]))
            return bs_refuse(error, BS_ERROR_FORMAT,
                             "instrs[%" PRId32 "]: its phase does not list the weights that it needs", k);
    return (l.phase == p->n_phases - 1 && l.end == p->n_phase_units) ||
           bs_refuse(error, BS_ERROR_FORMAT, "it has phases without instructions");
}

#endif
