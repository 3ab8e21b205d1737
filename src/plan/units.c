/* plan/units.c - streaming: which weights are loaded together (units), and which instructions need them (phases).
 *
 * A unit is what one path of an outermost router needs, or where all rows are decided at once and paths stand inside of
 * paths, as exits behind exits do, every path by itself; or one block that every run goes through. Weights outside
 * blocks stay resident, and so do tables of routers and constants, which are not read through kernels alone.
 * Relies on plan/plan.h. Must never know where weights are stored: it plans for a board that is not there. */
#include "plan/plan.h"
#include "ops/structure.h"

#if !defined(BS_NO_PLANNER) && !defined(BS_NO_STREAM)

/* --------------------------------------------------------------------------------------------------- units */

static int32_t outermost_block(const bs_plan *p, int32_t block, int32_t path)
{
    const bs_graph *g = p->graph;
    for (int32_t up = g->blocks[block].parent; up != 0; up = g->blocks[up].parent) {
        const bs_node *first = &g->nodes[g->blocks[up].first_node];
        if (bs_plan_unit_path(p, first->domain) != path)
            break;
        block = up;
    }
    return block;
}

bs_bytes bs_plan_units_workspace(const bs_plan_room *room)
{
    return bs_bytes_align(bs_bytes_array(room->domains + room->blocks, sizeof(int32_t)));
}

/* Whether two nodes that stream would be loaded together. */
static bool same_unit(const bs_plan *p, int32_t a, int32_t b)
{
    const bs_graph *g = p->graph;
    const int32_t path = bs_plan_unit_path(p, g->nodes[a].domain);
    return path == bs_plan_unit_path(p, g->nodes[b].domain) && (path != 0 || g->nodes[a].block == g->nodes[b].block);
}

#define SHARED -1 /* in place of a node's unit: several units would load its weights */

/* Weights of twins in different units become resident. In each chain of twins the last one learns whether any two
 * differ, then all do. */
static void find_shared(bs_plan *p)
{
    bs_node_plan *nodes = p->nodes;
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        const int32_t twin = p->twin[n];
        const bool together = !twin || (bs_plan_node_streams(p, twin) && bs_plan_node_streams(p, n) &&
                                        same_unit(p, twin, n));
        nodes[n].unit = !together || nodes[twin].unit == SHARED ? SHARED : 0;
    }
    for (int32_t n = p->graph->n_nodes - 1; n >= 1; n--)
        if (p->twin[n] && nodes[n].unit == SHARED)
            nodes[p->twin[n]].unit = SHARED;
}

void bs_plan_units(bs_plan *p, void *workspace)
{
    const bs_graph *g = p->graph;
    /* the unit of a path, of a block outside all paths */
    int32_t *of_path = workspace, *of_block = of_path + g->n_domains;
    memset(workspace, 0, ((size_t)g->n_domains + (size_t)g->n_blocks) * sizeof(int32_t));
    p->n_units = 1;
    find_shared(p);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bool streams = p->nodes[n].unit != SHARED && bs_plan_node_streams(p, n);
        p->nodes[n].unit = 0;
        if (!streams)
            continue;
        const int32_t block = g->nodes[n].block, path = bs_plan_unit_path(p, g->nodes[n].domain);
        int32_t *unit = path ? &of_path[path] : &of_block[block];
        if (*unit == 0) {
            *unit = p->n_units++;
            p->units[*unit].block = path ? outermost_block(p, block, path) : block;
            p->units[*unit].domain = path;
            p->units[*unit].node = n;
        }
        p->nodes[n].unit = *unit;
    }
}

/* -------------------------------------------------------------------------------------------------- phases */

/* What a phase is told apart by: the router that decides, or minus the unit that every run needs; 0: no unit. */
static int32_t unit_key(const bs_plan *p, int32_t unit)
{
    const int32_t domain = unit ? p->units[unit].domain : 0;
    return unit == 0 ? 0 : domain ? p->graph->domains[domain].router : -unit;
}

/* Finding the phases. The instructions of a region lie together, and so do those of a part. */
typedef struct phase_pass {
    bs_plan *plan;
    int32_t *region_first; /* [regions] the first instruction of each */
    int32_t *phase_of;     /* [units] the last phase that needs it, counted from 1 */
} phase_pass;

static int32_t next_part(const bs_plan *p, int32_t instr)
{
    return instr + p->parts[p->instrs[instr].part].count;
}

static bool is_in_region(const bs_plan *p, int32_t instr, int32_t region)
{
    return instr < p->n_instrs && p->parts[p->instrs[instr].part].region == region;
}

static int32_t region_key(const phase_pass *s, int32_t region)
{
    const bs_plan *p = s->plan;
    for (int32_t i = s->region_first[region]; is_in_region(p, i, region); i = next_part(p, i))
        if (p->parts[p->instrs[i].part].unit)
            return unit_key(p, p->parts[p->instrs[i].part].unit);
    return 0;
}

static int32_t instr_key(const phase_pass *s, const bs_instr *i)
{
    if (i->kind == BS_INSTR_CALL)
        return unit_key(s->plan, s->plan->nodes[i->node].unit);
    return i->kind == BS_INSTR_RUN ? region_key(s, i->region) : 0;
}

/* There is room: an instruction needs one unit, and so does a part (carve_plan in plan/plan.c). */
static void phase_add(phase_pass *s, bs_trace_phase *phase, int32_t unit)
{
    bs_plan *p = s->plan;
    if (unit == 0 || s->phase_of[unit] == p->n_phases)
        return;
    s->phase_of[unit] = p->n_phases;
    p->phase_units[p->n_phase_units++] = unit - 1;
    phase->n_units++;
}

static void phase_add_instr(phase_pass *s, bs_trace_phase *phase, const bs_instr *i)
{
    const bs_plan *p = s->plan;
    if (i->kind == BS_INSTR_CALL)
        phase_add(s, phase, p->nodes[i->node].unit);
    for (int32_t k = i->kind == BS_INSTR_RUN ? s->region_first[i->region] : p->n_instrs; is_in_region(p, k, i->region);
         k = next_part(p, k))
        phase_add(s, phase, p->parts[p->instrs[k].part].unit);
}

static void find_regions(phase_pass *s)
{
    const bs_plan *p = s->plan;
    for (int32_t k = p->n_instrs - 1; k >= p->n_top; k--)
        s->region_first[p->parts[p->instrs[k].part].region] = k;
}

/* Neighbouring instructions that need the same make one phase; a region is a phase by itself, and no phase goes on
 * behind a decision of a loop: what is in the body is visited again in every trip. */
static void find_phases(phase_pass *s)
{
    bs_plan *p = s->plan;
    bs_trace_phase *open = NULL;
    int32_t open_key = 0;
    for (int32_t k = 0; k < p->n_top; k++) {
        bs_instr *i = &p->instrs[k];
        const int32_t key = instr_key(s, i);
        i->phase = -1;
        if (bs_instr_loops(p, i))
            open = NULL;
        if (key == 0)
            continue;
        if (!open || key != open_key || i->kind == BS_INSTR_RUN) {
            open = &p->phases[p->n_phases++];
            open->router = key > 0 ? key : 0;
            open->first_unit = p->n_phase_units;
            open->n_units = 0;
            open_key = key;
        }
        i->phase = p->n_phases - 1;
        phase_add_instr(s, open, i);
        if (i->kind == BS_INSTR_RUN)
            open = NULL;
    }
}

static void part_units(bs_plan *p)
{
    for (int32_t k = 0; k < p->n_parts; k++)
        for (int32_t i = p->parts[k].first; i < p->parts[k].first + p->parts[k].count; i++)
            if (p->instrs[i].kind == BS_INSTR_CALL && p->nodes[p->instrs[i].node].unit)
                p->parts[k].unit = p->nodes[p->instrs[i].node].unit;
}

bs_bytes bs_plan_phases_workspace(const bs_plan_room *room)
{
    return bs_bytes_align(
        bs_bytes_array(room->nodes + room->domains + room->blocks + 1, sizeof(int32_t)));
}

/* A unit in a message. */
static const char *unit_text(const bs_plan *p, int32_t unit, char *text, size_t bytes)
{
    snprintf(text, bytes, "block \"%s\"", p->graph->text + p->graph->blocks[p->units[unit].block].name);
    return text;
}

bool bs_plan_phases(bs_plan *p, void *workspace, bs_error *error)
{
    phase_pass s = {p, workspace, NULL};
    char what[BS_MAX_NAME + 8];
    if (!bs_plan_streams(p))
        return true;
    /* a region has at least one node; a unit belongs to a path or a block */
    s.phase_of = s.region_first + p->graph->n_nodes;
    memset(workspace, 0,
           ((size_t)p->graph->n_nodes + (size_t)p->graph->n_domains + (size_t)p->graph->n_blocks + 1) *
               sizeof(int32_t));
    part_units(p);
    find_regions(&s);
    find_phases(&s);
    const int32_t largest = bs_plan_size_slots(p);
    if (bs_bytes_less(p->slot_bytes, p->largest_unit_bytes)) {
        bs_fail_room(error, "slots", p->desc.slot_bytes, p->largest_unit_bytes,
                     unit_text(p, largest, what, sizeof what));
        return false;
    }
    return true;
}

#endif
