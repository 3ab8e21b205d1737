/* plan_stream.c - streaming: which weights come and go together (units), and which steps of the plan need them (stages).
 *
 * A unit is what one path of a router needs, or one block that every run goes through. Weights outside blocks stay
 * resident, and so do tables of routers and constants, which are read in other ways than by a kernel.
 * Relies on plan.h. Must never know where weights are stored: it plans for a board that is not there. */
#include "plan.h"
#include "structure.h"

/* --------------------------------------------------------------------------------------------------- units */

static int32_t outermost_path(const bs_graph *g, int32_t domain)
{
    while (g->domains[domain].kind == BS_DOMAIN_PATH && g->domains[g->domains[domain].parent].kind == BS_DOMAIN_PATH)
        domain = g->domains[domain].parent;
    return g->domains[domain].kind == BS_DOMAIN_PATH ? domain : 0;
}

static int32_t outermost_block(const bs_graph *g, int32_t block, int32_t path)
{
    for (int32_t up = g->blocks[block].parent; up != 0; up = g->blocks[up].parent) {
        const bs_node *first = &g->nodes[g->blocks[up].first_node];
        if (outermost_path(g, first->domain) != path)
            break;
        block = up;
    }
    return block;
}

static int32_t count_tensors(const bs_graph *g, const bs_node *node)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const bs_op *op = bs_op_get(node->op);
    return op->weights ? op->weights(g, node, specs) : 0;
}

static bool node_streams(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    return p->node_live[n] && node->block != 0 && node->n_in > 0 && !bs_node_is(node, &bs_op_route) && count_tensors(p->graph, node) > 0;
}

static int32_t unit_find(bs_plan *p, int32_t block, int32_t path)
{
    for (int32_t u = 1; u < p->n_units; u++)
        if (path ? p->units[u].domain == path : p->units[u].domain == 0 && p->units[u].block == block)
            return u;
    bs_plan_unit *unit = &p->units[p->n_units];
    unit->block = path ? outermost_block(p->graph, block, path) : block;
    unit->domain = path;
    return p->n_units++;
}

void bs_plan_units(bs_plan *p)
{
    const bs_graph *g = p->graph;
    p->n_units = 1;
    for (int32_t n = 1; p->desc.slot_bytes > 0 && n < g->n_nodes; n++) {
        if (!node_streams(p, n))
            continue;
        const int32_t unit = unit_find(p, g->nodes[n].block, outermost_path(g, g->nodes[n].domain));
        p->nodes[n].unit = unit;
        p->units[unit].n_nodes++;
        p->units[unit].n_tensors += count_tensors(g, &g->nodes[n]);
    }
}

bool bs_plan_streams_paths(const bs_plan *p, int32_t top)
{
    const bs_graph *g = p->graph;
    for (int32_t n = 1; p->desc.slot_bytes > 0 && n < g->n_nodes; n++)
        if (node_streams(p, n) && outermost_path(g, g->nodes[n].domain) && bs_plan_top_domain(g, g->nodes[n].domain) == top)
            return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------- stages */

/* What a stage is known by: the router that decides, or minus the unit that every run needs; 0: none needed. */
static int32_t unit_key(const bs_plan *p, int32_t unit)
{
    const int32_t domain = unit ? p->units[unit].domain : 0;
    return unit == 0 ? 0 : domain ? p->graph->domains[domain].router : -unit;
}

static int32_t instr_key(const bs_plan *p, const bs_instr *i)
{
    if (i->kind == BS_INSTR_OP)
        return unit_key(p, p->nodes[i->node].unit);
    for (int32_t k = 0; i->kind == BS_INSTR_REGION && k < p->n_parts; k++)
        if (p->parts[k].region == i->node && p->parts[k].unit)
            return unit_key(p, p->parts[k].unit);
    return 0;
}

/* There is room: an instruction needs one unit, and so does a part (layout_streaming). */
static void stage_add(bs_plan *p, bs_trace_stage *stage, int32_t unit)
{
    for (int32_t k = stage->first_unit; unit != 0 && k < stage->first_unit + stage->n_units; k++)
        if (p->stage_units[k] == unit - 1)
            return;
    if (unit == 0)
        return;
    p->stage_units[p->n_stage_units++] = unit - 1;
    stage->n_units++;
}

static void stage_add_instr(bs_plan *p, bs_trace_stage *stage, const bs_instr *i)
{
    if (i->kind == BS_INSTR_OP)
        stage_add(p, stage, p->nodes[i->node].unit);
    for (int32_t k = 0; i->kind == BS_INSTR_REGION && k < p->n_parts; k++)
        if (p->parts[k].region == i->node)
            stage_add(p, stage, p->parts[k].unit);
}

/* Neighbouring instructions that need the same make one stage; a region is one by itself. */
static void find_stages(bs_plan *p)
{
    bs_trace_stage *open = NULL;
    int32_t open_key = 0;
    for (int32_t k = 0; k < p->n_top; k++) {
        bs_instr *i = &p->instrs[k];
        const int32_t key = instr_key(p, i);
        i->stage = -1;
        if (key == 0)
            continue;
        if (!open || key != open_key || i->kind == BS_INSTR_REGION) {
            open = &p->stages[p->n_stages++];
            open->router = key > 0 ? key : 0;
            open->first_unit = p->n_stage_units;
            open->n_units = 0;
            open_key = key;
        }
        i->stage = p->n_stages - 1;
        stage_add_instr(p, open, i);
        if (i->kind == BS_INSTR_REGION)
            open = NULL;
    }
}

static void part_units(bs_plan *p)
{
    for (int32_t k = 0; k < p->n_parts; k++)
        for (int32_t i = p->parts[k].first; i < p->parts[k].first + p->parts[k].count; i++)
            if (p->instrs[i].kind == BS_INSTR_OP && p->nodes[p->instrs[i].node].unit)
                p->parts[k].unit = p->nodes[p->instrs[i].node].unit;
}

/* --------------------------------------------------------------------------------------------------- sizes */

/* A lane's staging holds a chunk, or the weights of the largest layer; and what alignment to pages adds at both ends. */
static void size_lanes(bs_plan *p)
{
    uint64_t largest = 0;
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        const uint64_t bytes = p->nodes[n].unit ? bs_plan_canonical_bytes(p->graph, &p->graph->nodes[n]) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    p->chunk_bytes = (uint64_t)bs_or_default(p->desc.chunk_bytes, 262144);
    p->lanes = bs_or_default(p->desc.lanes, 2);
    const uint64_t piece = largest > p->chunk_bytes ? largest : p->chunk_bytes;
    p->lane_bytes = (bs_add_u64(piece, 5 * BS_PAGE_BYTES - 1)) & ~(uint64_t)(BS_PAGE_BYTES - 1);
}

bool bs_plan_stages(bs_plan *p, bs_error *error)
{
    int32_t largest = 0;
    char what[BS_MAX_NAME + 8];
    for (int32_t u = 1; u < p->n_units; u++) {
        const uint64_t bytes = p->units[u].prepared_bytes;
        p->all_unit_bytes = bs_add_u64(p->all_unit_bytes, bytes);
        largest = bytes > p->largest_unit_bytes ? u : largest;
        p->largest_unit_bytes = p->units[largest].prepared_bytes;
    }
    if (!bs_plan_streams(p))
        return true;
    part_units(p);
    find_stages(p);
    p->slot_bytes = p->desc.slot_bytes & ~(uint64_t)(BS_ALIGNMENT - 1);
    if (p->slot_bytes < p->largest_unit_bytes) {
        const bs_arena slots = {"slots", NULL, (size_t)p->desc.slot_bytes, 0, 0};
        snprintf(what, sizeof what, "block \"%s\"", p->graph->text + p->graph->blocks[p->units[largest].block].name);
        bs_fail_arena(error, &slots, p->largest_unit_bytes, what);
        return false;
    }
    p->slot_bytes = p->slot_bytes < p->all_unit_bytes ? p->slot_bytes : p->all_unit_bytes;
    size_lanes(p);
    return true;
}

/* --------------------------------------------------------------------------------------------------- asking */

void bs_plan_stream_get(const bs_plan *plan, bs_stream_plan *stream)
{
    if (!stream)
        return;
    memset(stream, 0, sizeof *stream);
    if (!plan)
        return;
    const bs_stream_plan s = {plan->n_units - 1, plan->n_stages, plan->slot_bytes, plan->largest_unit_bytes, plan->all_unit_bytes};
    *stream = s;
}

bs_status bs_plan_unit_get(const bs_plan *plan, int32_t unit, bs_stream_unit_facts *facts)
{
    if (!plan || !facts || unit < 0 || unit >= plan->n_units - 1)
        return BS_ERROR_ARGUMENT;
    const bs_plan_unit *u = &plan->units[unit + 1];
    const bs_domain *domain = &plan->graph->domains[u->domain];
    memset(facts, 0, sizeof *facts);
    snprintf(facts->name, sizeof facts->name, "%s", plan->graph->text + plan->graph->blocks[u->block].name);
    facts->router = u->domain ? domain->router : 0;
    facts->path = u->domain ? domain->path : -1;
    facts->slot_bytes = u->prepared_bytes;
    return BS_OK;
}

bs_status bs_plan_stage_get(const bs_plan *plan, int32_t stage, bs_stream_stage_facts *facts, int32_t *units)
{
    if (!plan || !facts || stage < 0 || stage >= plan->n_stages)
        return BS_ERROR_ARGUMENT;
    const bs_trace_stage *s = &plan->stages[stage];
    facts->router = s->router;
    facts->n_units = s->n_units;
    if (units)
        memcpy(units, plan->stage_units + s->first_unit, (size_t)s->n_units * sizeof *units);
    return BS_OK;
}
