/* plan_lower.c - the second stage of planning: places of values, regions of depth-first work, instructions.
 *
 * Nodes are visited once, in order. Breadth-first nodes become top-level instructions; the paths of a router are
 * concurrent, so their instructions carry equal times and are put in lockstep. Nodes of a depth-first domain are
 * collected in regions: a region runs tile by tile, and its parts (the paths of one router, or the domain's own
 * rows) side by side. A region ends where something outside it needs a result.
 * Relies on plan_live.c having run. Must never assign offsets. */
#include "plan.h"
#include "structure.h"

#define TOP (-1)

typedef struct lowering {
    bs_plan *plan;
    const bs_graph *g;
    int32_t *home;        /* [nodes] part index, or TOP */
    int32_t *needed;      /* [nodes] of region_needs */
    int32_t *ready;       /* [values] time from which a value can be read (top level and region results) */
    int32_t clock[BS_MAX_DOMAINS];
    int32_t open[BS_MAX_DOMAINS]; /* [top-level domain] region that still takes nodes, or TOP */
    int32_t region_time[BS_MAX_REGIONS];
    int32_t decided[BS_MAX_ROUTERS]; /* time of its decision */
    bs_status status;
} lowering;

/* ------------------------------------------------------------------------------------------ who reads what */

static bool is_view(const bs_node *node)
{
    return bs_node_is(node, &bs_op_patches) || bs_node_is(node, &bs_op_rows) || bs_node_is(node, &bs_op_scatter);
}

static bool is_packed_gather(const lowering *l, const bs_node *node)
{
    return l->g->routers[node->router].max_paths_per_cell > 1 || ((const bs_gather_params *)node->params)->mode == BS_GATHER_ADD ||
           ((const bs_gather_params *)node->params)->mode == BS_GATHER_WEIGHTED;
}

/* Visits live readers of a value: calls visit(l, node id, operand index). Stops when visit returns false. */
typedef bool (*reader_visit)(lowering *l, int32_t node, int32_t index, void *user);

static bool each_reader(lowering *l, int32_t value, reader_visit visit, void *user)
{
    for (int32_t n = l->g->values[value].node + 1; n < l->g->n_nodes; n++) {
        const bs_node *node = &l->g->nodes[n];
        int32_t n_in;
        const int32_t *in = bs_plan_in(l->plan, n, &n_in);
        const bool gather = bs_node_is(node, &bs_op_gather);
        const bool forced_route = bs_node_is(node, &bs_op_route) && l->plan->routers[node->router].forced;
        for (int32_t i = 0; l->plan->node_live[n] && !forced_route && i < n_in; i++)
            if (in[i] == value && (!gather || bs_plan_gathers(l->plan, node, i)) && !visit(l, n, i, user))
                return false;
    }
    return true;
}

/* Whether an image is the caller's or part of a plain tensor, seen as it is: those are planar. */
static bool is_planar(const lowering *l, int32_t value)
{
    for (;;) {
        const bs_node *node = &l->g->nodes[l->g->values[value].node];
        if (!bs_node_is(node, &bs_op_scatter) && !bs_node_is(node, &bs_op_patches))
            return node->n_in == 0 || bs_node_is(node, &bs_op_rows);
        value = bs_node_in(l->g, node)[0];
        const bs_place place = l->plan->values[value].place;
        if (place == BS_PLACE_TRANSIENT || place == BS_PLACE_SCRATCH)
            return false;
    }
}

/* A reader that goes through storage: it needs zeros around the rows, rows that lie one after the other, or channels that
 * do. */
static bool reads_view_directly(lowering *l, int32_t n, int32_t index, void *user)
{
    (void)index;
    const int32_t value = *(const int32_t *)user;
    const bs_node *node = &l->g->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    const bs_value_info *v = &l->g->values[value];
    const bool scattered_rows = l->g->domains[v->domain].kind == BS_DOMAIN_PATH && l->g->domains[v->domain].patches < 0;
    if (bs_node_is(node, &bs_op_route) && l->g->routers[node->router].desc->protocol == BS_ROUTE_CALLBACK)
        return l->g->domains[v->domain].kind != BS_DOMAIN_PATH; /* a callback sees all rows by one stride */
    if (op->flags & BS_OP_STRUCTURAL)
        return true;
    const bool zeros = v->rank == 3 && op->halo && !(op->flags & (BS_OP_CLAMPS | BS_OP_CORE_INPUT)) && l->plan->values[value].margin > 0;
    const bool channels = v->rank == 3 && (op->flags & BS_OP_CHANNELS_LAST || l->plan->nodes[n].fusion) && is_planar(l, value);
    return !zeros && !scattered_rows && !channels;
}

static bool count_reader(lowering *l, int32_t n, int32_t index, void *user)
{
    (void)l, (void)n, (void)index;
    ++*(int32_t *)user;
    return true;
}

/* ------------------------------------------------------------------------------------------------ regions */

/* The rows that a node's tile is made of: its top-level domain itself, or the outermost path below it. */
static int32_t part_domain(const bs_graph *g, int32_t domain)
{
    while (g->domains[domain].kind == BS_DOMAIN_PATH && g->domains[g->domains[domain].parent].kind == BS_DOMAIN_PATH)
        domain = g->domains[domain].parent;
    return domain;
}

static int32_t part_find(lowering *l, int32_t region, int32_t domain)
{
    bs_plan *p = l->plan;
    for (int32_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].region == region && p->parts[i].domain == domain)
            return i;
    if (p->n_parts == BS_MAX_PARTS) {
        l->status = BS_ERROR_LIMIT;
        return 0;
    }
    bs_part *part = &p->parts[p->n_parts];
    memset(part, 0, sizeof *part);
    part->region = region;
    part->domain = domain;
    const bs_domain *d = &l->g->domains[domain];
    part->router = d->kind == BS_DOMAIN_PATH ? d->router : 0;
    part->path = d->kind == BS_DOMAIN_PATH ? d->path : -1;
    return p->n_parts++;
}

/* Parts of one region are the paths of one router, or the top-level domain itself. */
static bool region_takes(const lowering *l, int32_t region, int32_t domain)
{
    const bs_domain *d = &l->g->domains[domain];
    for (int32_t i = 0; i < l->plan->n_parts; i++)
        if (l->plan->parts[i].region == region)
            return d->kind == BS_DOMAIN_PATH ? l->plan->parts[i].router == d->router : l->plan->parts[i].domain == domain;
    return true;
}

static int32_t region_open(lowering *l, int32_t top)
{
    if (l->plan->n_regions == BS_MAX_REGIONS) {
        l->status = BS_ERROR_LIMIT;
        return 0;
    }
    l->plan->region_domain[l->plan->n_regions] = top;
    l->open[top] = l->plan->n_regions;
    return l->plan->n_regions++;
}

static bool runs_in_tiles(const lowering *l, const bs_node *node)
{
    const bs_graph *g = l->g;
    const int32_t top = bs_plan_top_domain(g, node->domain);
    if (top == 0 || l->plan->domains[top].order != BS_ORDER_DEPTH || node->n_out == 0)
        return bs_node_is(node, &bs_op_route) && l->plan->routers[node->router].in_tile;
    if (bs_node_is(node, &bs_op_gather))
        return l->plan->routers[node->router].in_tile;
    return true;
}

/* Closes the region that makes an operand, when the reader is not of that region: what comes later may depend on the
 * reader, and the region would have to run before and after it. */
static void close_read_regions(lowering *l, const bs_node *node, int32_t home)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, (int32_t)(node - l->g->nodes), &n_in);
    const int32_t region = home == TOP ? TOP : l->plan->parts[home].region;
    for (int32_t i = 0; i < n_in; i++) {
        const int32_t from = in[i] ? l->home[l->g->values[in[i]].node] : TOP;
        const int32_t made_in = from == TOP ? TOP : l->plan->parts[from].region;
        if (made_in != TOP && made_in != region)
            for (int32_t d = 0; d < l->g->n_domains; d++)
                if (l->open[d] == made_in)
                    l->open[d] = TOP;
    }
}

static void assign_home(lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    l->home[n] = TOP;
    if (!runs_in_tiles(l, node)) {
        close_read_regions(l, node, TOP);
        return;
    }
    const int32_t top = bs_plan_top_domain(l->g, node->domain);
    const int32_t domain = part_domain(l->g, node->domain);
    if (l->open[top] == TOP || !region_takes(l, l->open[top], domain))
        region_open(l, top);
    l->home[n] = part_find(l, l->open[top], domain);
    close_read_regions(l, node, l->home[n]);
}

static int32_t region_of(const lowering *l, int32_t node)
{
    return l->home[node] == TOP ? TOP : l->plan->parts[l->home[node]].region;
}

/* What is decided tile by tile is known in its own region only. Whether node n needs it in another one. */
static bool is_torn(const lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    int32_t router = node->router, domain = node->domain;
    for (;;) {
        if (router && l->plan->routers[router].in_tile && region_of(l, l->g->routers[router].node) != region_of(l, n))
            return true;
        if (l->g->domains[domain].kind != BS_DOMAIN_PATH)
            return false;
        router = l->g->domains[domain].router;
        domain = l->g->domains[domain].parent;
    }
}

/* A region for every node that runs in tiles. Returns a top-level domain that cannot, or 0. */
static int32_t assign_homes(lowering *l)
{
    l->plan->n_regions = l->plan->n_parts = 0;
    for (int32_t d = 0; d < BS_MAX_DOMAINS; d++)
        l->open[d] = TOP;
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        l->home[n] = TOP;
        if (n > 0 && l->plan->node_live[n])
            assign_home(l, n);
    }
    for (int32_t n = 1; n < l->g->n_nodes; n++)
        if (l->plan->node_live[n] && is_torn(l, n))
            return bs_plan_top_domain(l->g, l->g->nodes[n].domain);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- places */

/* Whether a reader needs the value outside the part that makes it. */
static bool reads_within(lowering *l, int32_t n, int32_t index, void *user)
{
    const int32_t home = *(const int32_t *)user;
    const bs_node *node = &l->g->nodes[n];
    if (bs_node_is(node, &bs_op_assemble) || bs_node_is(node, &bs_op_collect))
        return true; /* a store inside the part */
    if (bs_node_is(node, &bs_op_gather) && index < l->g->routers[node->router].desc->paths)
        return l->home[n] == home || !is_packed_gather(l, node);
    return l->home[n] == home;
}

static void place_computed(lowering *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    int32_t home = l->home[l->g->values[value].node];
    const bool inside = home != TOP && each_reader(l, value, reads_within, &home);
    v->place = inside ? BS_PLACE_SCRATCH : BS_PLACE_TRANSIENT;
    v->scope = inside ? home : TOP;
}

static bool is_assemble(lowering *l, int32_t n, int32_t index, void *user)
{
    (void)index;
    *(int32_t *)user = l->g->nodes[n].first_out;
    return bs_node_is(&l->g->nodes[n], &bs_op_assemble);
}

static void place_gather(lowering *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    int32_t readers = 0, frame = 0;
    each_reader(l, value, count_reader, &readers);
    if (readers == 1 && !is_packed_gather(l, node) && !l->plan->routers[node->router].in_tile && each_reader(l, value, is_assemble, &frame)) {
        l->plan->values[value].place = BS_PLACE_FRAME;
        l->plan->values[value].source = frame;
        return;
    }
    place_computed(l, value);
}

static void place_view(lowering *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    int32_t id = value;
    if (each_reader(l, value, reads_view_directly, &id)) {
        l->plan->values[value].place = BS_PLACE_VIEW;
        l->plan->values[value].source = bs_node_in(l->g, node)[0];
    } else {
        place_computed(l, value);
    }
}

static void place_source(lowering *l, int32_t value, bs_place place)
{
    int32_t id = value;
    l->plan->values[value].source = l->g->values[value].node;
    l->plan->values[value].place = each_reader(l, value, reads_view_directly, &id) ? place : BS_PLACE_TRANSIENT;
}

static bool is_not_copied(lowering *l, int32_t n, int32_t index, void *user)
{
    (void)user;
    return !bs_node_is(&l->g->nodes[n], &bs_op_output) && !(bs_node_is(&l->g->nodes[n], &bs_op_state_write) && index == 1);
}

static bool is_not_written(lowering *l, int32_t n, int32_t index, void *user)
{
    (void)user;
    return !(bs_node_is(&l->g->nodes[n], &bs_op_state_write) && index == 0);
}

/* What is copied from a state at the end of a run is its old content, in whatever order states are written. */
static void place_state(lowering *l, int32_t value)
{
    const bool in_place = each_reader(l, value, is_not_copied, NULL) || each_reader(l, value, is_not_written, NULL);
    place_source(l, value, BS_PLACE_STATE);
    if (!in_place)
        l->plan->values[value].place = BS_PLACE_TRANSIENT;
}

static bool is_output(lowering *l, int32_t n, int32_t index, void *user)
{
    (void)index;
    if (*(int32_t *)user == 0)
        *(int32_t *)user = n;
    return bs_node_is(&l->g->nodes[n], &bs_op_output);
}

/* ------------------------------------------------------------------------------------- states, in place */

typedef struct state_use {
    int32_t frame;  /* the assembled value that becomes the state */
    int32_t region; /* of its stores */
} state_use;

static void need(lowering *l, int32_t node, bool *more)
{
    *more = *more || !l->needed[node];
    l->needed[node] = 1;
}

/* Marks what node n cannot run without: operands, decisions, and all of its region. */
static void need_before(lowering *l, int32_t n, bool *more)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, n, &n_in);
    for (int32_t i = 0; i < n_in; i++)
        if (in[i] && l->plan->node_live[l->g->values[in[i]].node])
            need(l, l->g->values[in[i]].node, more);
    for (int32_t d = l->g->nodes[n].domain; l->g->domains[d].kind == BS_DOMAIN_PATH; d = l->g->domains[d].parent)
        need(l, l->g->routers[l->g->domains[d].router].node, more);
    for (int32_t m = 1; region_of(l, n) != TOP && m < l->g->n_nodes; m++)
        if (region_of(l, m) == region_of(l, n))
            need(l, m, more);
}

/* Whether region `before` must have run for region `after` to run. */
static bool region_needs(lowering *l, int32_t after, int32_t before)
{
    bool more = true, found = false;
    for (int32_t n = 1; n < l->g->n_nodes; n++)
        l->needed[n] = region_of(l, n) == after;
    while (more) {
        more = false;
        for (int32_t n = l->g->n_nodes - 1; n >= 1; n--)
            if (l->needed[n])
                need_before(l, n, &more);
    }
    for (int32_t n = 1; n < l->g->n_nodes; n++)
        found = found || (l->needed[n] && region_of(l, n) == before);
    return found && after != before;
}

static bool state_reader_is_early(lowering *l, int32_t n, int32_t index, void *user);

/* Readers of the old content must be done before the region that writes it, or be its own residual. */
static bool state_value_is_early(lowering *l, int32_t value, const state_use *use)
{
    state_use copy = *use;
    return each_reader(l, value, state_reader_is_early, &copy);
}

static bool state_reader_is_early(lowering *l, int32_t n, int32_t index, void *user)
{
    const state_use *use = user;
    const bs_node *node = &l->g->nodes[n];
    if (bs_node_is(node, &bs_op_state_write))
        return index == 0;
    if (is_view(node) && l->plan->values[node->first_out].place == BS_PLACE_VIEW) /* read by ops, or as a residual */
        return state_value_is_early(l, node->first_out, use);
    if (bs_node_is(node, &bs_op_gather) && index == l->g->routers[node->router].desc->paths)
        return l->plan->values[node->first_out].place == BS_PLACE_FRAME && l->plan->values[node->first_out].source == use->frame;
    return region_of(l, n) != TOP && region_needs(l, use->region, region_of(l, n));
}

static int32_t region_of_stores(lowering *l, int32_t frame)
{
    const bs_node *assemble = &l->g->nodes[l->g->values[frame].node];
    const bs_node *gather = &l->g->nodes[l->g->values[bs_node_in(l->g, assemble)[0]].node];
    const int32_t *in = bs_node_in(l->g, gather);
    int32_t region = TOP;
    if (!bs_node_is(gather, &bs_op_gather))
        return TOP;
    for (int32_t i = 0; i < l->g->routers[gather->router].desc->paths; i++) {
        const int32_t home = in[i] && bs_plan_gathers(l->plan, gather, i) ? l->home[l->g->values[in[i]].node] : TOP;
        if (home != TOP && (region == TOP || l->plan->parts[home].region < region))
            region = l->plan->parts[home].region;
    }
    return region;
}

static bool is_ending(lowering *l, int32_t n, int32_t index, void *user)
{
    (void)index, (void)user;
    return l->g->nodes[n].n_out == 0 && !bs_node_is(&l->g->nodes[n], &bs_op_route);
}

static bool finds_state(lowering *l, int32_t n, int32_t index, void *user)
{
    const bs_node *node = &l->g->nodes[n];
    if (bs_node_is(node, &bs_op_state_write) && index == 1)
        *(int32_t *)user = bs_node_in(l->g, node)[0];
    return true;
}

static void place_assembled(lowering *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    int32_t state = 0;
    each_reader(l, value, finds_state, &state);
    state_use use = {value, region_of_stores(l, value)};
    if (state && l->plan->values[state].place == BS_PLACE_STATE && use.region != TOP && each_reader(l, value, is_ending, NULL) &&
        state_value_is_early(l, state, &use)) {
        v->place = BS_PLACE_STATE;
        v->source = l->g->values[state].node;
        return;
    }
    int32_t output = 0;
    const bool only_outputs = each_reader(l, value, is_output, &output);
    v->place = only_outputs ? BS_PLACE_OUTPUT : BS_PLACE_TRANSIENT;
    v->source = output;
}

static void place_value(lowering *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    l->plan->values[value].scope = TOP;
    if (bs_node_is(node, &bs_op_input))
        place_source(l, value, BS_PLACE_INPUT);
    else if (bs_node_is(node, &bs_op_state))
        place_state(l, value);
    else if (node->n_in == 0 && bs_op_get(node->op)->weights)
        place_source(l, value, BS_PLACE_WEIGHT); /* a constant */
    else if (is_view(node))
        place_view(l, value);
    else if (bs_node_is(node, &bs_op_gather))
        place_gather(l, value);
    else if (!bs_node_is(node, &bs_op_assemble) && !bs_node_is(node, &bs_op_collect))
        place_computed(l, value);
}

static void place_all(lowering *l)
{
    for (int32_t v = 1; v < l->g->n_values; v++)
        if (l->plan->node_live[l->g->values[v].node])
            place_value(l, v);
    for (int32_t v = 1; v < l->g->n_values; v++) { /* needs the places of gathers and views */
        const int32_t n = l->g->values[v].node;
        const bs_node *node = &l->g->nodes[n];
        if (l->plan->node_live[n] && (bs_node_is(node, &bs_op_assemble) || bs_node_is(node, &bs_op_collect)))
            place_assembled(l, v);
    }
}

/* ------------------------------------------------------------------------------------------- instructions */

static bs_instr *emit(lowering *l, bs_instr_kind kind, int32_t home, int32_t node)
{
    bs_plan *p = l->plan;
    if (p->n_instrs == p->max_instrs) {
        l->status = BS_ERROR_LIMIT;
        return &p->instrs[0];
    }
    bs_instr *i = &p->instrs[p->n_instrs++];
    memset(i, 0, sizeof *i);
    i->kind = kind;
    i->node = node;
    i->part = home;
    i->region = home == TOP ? TOP : p->parts[home].region;
    i->domain = l->g->nodes[node].domain;
    return i;
}

/* From when `value` can be read by an instruction of `region`; what a region makes itself is there in order. */
static int32_t value_ready(const lowering *l, int32_t value, int32_t region)
{
    if (value == 0)
        return 0;
    const bs_place place = l->plan->values[value].place;
    const int32_t made_in = region_of(l, l->g->values[value].node);
    const bool seen = place == BS_PLACE_VIEW || place == BS_PLACE_FRAME; /* stored by others */
    const int32_t ready = made_in == TOP || seen ? l->ready[value] : 0;
    return made_in == TOP || made_in == region ? ready : bs_max_i32(ready, l->region_time[made_in]);
}

/* When an instruction can run: after what it reads, and after the previous one of its domain. */
static void schedule(lowering *l, bs_instr *i, int32_t after)
{
    if (i->region != TOP) {
        l->region_time[i->region] = bs_max_i32(l->region_time[i->region], after + 1);
        return;
    }
    i->time = bs_max_i32(after, l->clock[i->domain]) + 1;
    l->clock[i->domain] = i->time;
}

/* Rows of a path exist once its router has decided. */
static int32_t domain_ready(const lowering *l, int32_t domain)
{
    int32_t ready = 0;
    for (; l->g->domains[domain].kind == BS_DOMAIN_PATH; domain = l->g->domains[domain].parent)
        ready = bs_max_i32(ready, l->decided[l->g->domains[domain].router]);
    return ready;
}

static int32_t operands_ready(const lowering *l, const bs_node *node, int32_t region)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, (int32_t)(node - l->g->nodes), &n_in);
    int32_t ready = domain_ready(l, node->domain);
    for (int32_t i = 0; i < n_in; i++)
        ready = bs_max_i32(ready, value_ready(l, in[i], region));
    return ready;
}

static void outputs_ready(lowering *l, const bs_node *node, int32_t time)
{
    for (int32_t i = 0; i < node->n_out; i++)
        l->ready[node->first_out + i] = time;
}

/* A store belongs to the part that makes the value; its target is ready when all stores are. */
static void emit_store(lowering *l, int32_t n, int32_t value, int32_t target)
{
    const bs_value_info *v = &l->g->values[value];
    bs_instr *i = emit(l, BS_INSTR_STORE, l->home[v->node], n);
    i->value = value;
    i->target = target;
    i->domain = v->domain;
    const int32_t from = l->plan->values[value].place == BS_PLACE_VIEW ? l->plan->values[value].source : value;
    schedule(l, i, bs_max_i32(domain_ready(l, v->domain), bs_max_i32(value_ready(l, value, i->region), value_ready(l, from, i->region))));
    const int32_t time = i->region == TOP ? i->time : l->region_time[i->region];
    if (target)
        l->ready[target] = bs_max_i32(l->ready[target], time);
}

/* Where the rows of a gather go: its own storage, or the frame it is assembled in. */
static int32_t gather_target(const lowering *l, int32_t value)
{
    return l->plan->values[value].place == BS_PLACE_FRAME ? l->plan->values[value].source : value;
}

/* In place, what no path writes simply stays. */
static bool residual_is_in_place(const lowering *l, int32_t gather, int32_t residual)
{
    const bs_value_plan *g = &l->plan->values[gather];
    if (g->place != BS_PLACE_FRAME || residual == 0 || l->plan->values[residual].place != BS_PLACE_VIEW)
        return false;
    const bs_value_plan *frame = &l->plan->values[g->source];
    const bs_value_plan *old = &l->plan->values[l->plan->values[residual].source];
    return frame->place == BS_PLACE_STATE && old->place == BS_PLACE_STATE && frame->source == old->source;
}

static void emit_gather(lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t *in = bs_node_in(l->g, node);
    const int32_t paths = l->g->routers[node->router].desc->paths, value = node->first_out;
    const bool packed = is_packed_gather(l, node);
    const int32_t target = gather_target(l, value);
    const int32_t region = l->home[n] == TOP ? TOP : l->plan->parts[l->home[n]].region;
    int32_t ready = l->decided[node->router];
    for (int32_t i = 0; i < paths; i++) {
        if (in[i] == 0 || !bs_plan_gathers(l->plan, node, i))
            continue;
        if (!packed)
            emit_store(l, n, in[i], target);
        ready = bs_max_i32(ready, bs_max_i32(value_ready(l, in[i], region), l->ready[target]));
    }
    const int32_t residual = bs_plan_gathers(l->plan, node, paths) ? in[paths] : 0;
    ready = bs_max_i32(ready, value_ready(l, residual, region));
    const bool complete = l->plan->routers[node->router].forced && in[l->plan->routers[node->router].forced - 1] != 0;
    if (packed || (!complete && !residual_is_in_place(l, value, residual))) {
        bs_instr *i = emit(l, packed ? BS_INSTR_REDUCE : BS_INSTR_FILL, l->home[n], n);
        i->value = residual;
        i->target = target;
        schedule(l, i, ready);
        ready = i->region == TOP ? i->time : ready;
    }
    l->ready[value] = ready;
    l->ready[target] = bs_max_i32(l->ready[target], ready);
}

/* A tensor with a row for every patch there can be: those without one become zero. */
static void emit_rest(lowering *l, int32_t n)
{
    bs_instr *i = emit(l, BS_INSTR_FILL, TOP, n);
    i->target = l->g->nodes[n].first_out;
    schedule(l, i, l->ready[i->target]);
    l->ready[i->target] = i->time;
}

static void emit_route(lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    bs_instr *i = emit(l, BS_INSTR_ROUTE, l->home[n], n);
    const int32_t *in = bs_node_in(l->g, node);
    const bool forced = l->plan->routers[node->router].forced != 0;
    i->domain = l->g->routers[node->router].domain;
    int32_t ready = domain_ready(l, i->domain);
    for (int32_t k = 0; !forced && k < node->n_in; k++)
        ready = bs_max_i32(ready, value_ready(l, in[k], i->region));
    schedule(l, i, ready);
    l->decided[node->router] = i->region == TOP ? i->time : 0;
}

/* Copies to outputs and states that are not the value's own place. */
static void emit_ending(lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const bool output = bs_node_is(node, &bs_op_output);
    const int32_t value = bs_node_in(l->g, node)[output ? 0 : 1];
    const bs_value_plan *v = &l->plan->values[value];
    const int32_t state = output ? 0 : l->g->values[bs_node_in(l->g, node)[0]].node;
    if (output ? v->place == BS_PLACE_OUTPUT && v->source == n : v->place == BS_PLACE_STATE && v->source == state)
        return;
    bs_instr *i = emit(l, BS_INSTR_STORE, TOP, n);
    i->value = value;
    i->target = 0; /* the node tells: an output or a state */
    i->domain = 0;
    schedule(l, i, bs_max_i32(value_ready(l, value, TOP), INT32_MAX / 2)); /* states are written at the end of a run */
}

static void emit_node(lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t value = node->first_out;
    if (bs_node_is(node, &bs_op_route)) {
        emit_route(l, n);
    } else if (bs_node_is(node, &bs_op_gather)) {
        emit_gather(l, n);
    } else if (bs_node_is(node, &bs_op_assemble) || bs_node_is(node, &bs_op_collect)) {
        const int32_t from = bs_node_in(l->g, node)[0];
        if (l->plan->values[from].place == BS_PLACE_FRAME)
            l->ready[value] = bs_max_i32(l->ready[value], l->ready[from]);
        else
            emit_store(l, n, from, value);
        if (bs_node_is(node, &bs_op_collect) && l->g->domains[l->g->values[from].domain].kind == BS_DOMAIN_PATCHES)
            emit_rest(l, n);
    } else if (node->n_out == 0) {
        return; /* endings come last */
    } else if (l->plan->values[value].place == BS_PLACE_VIEW || l->plan->values[value].place == BS_PLACE_INPUT ||
               l->plan->values[value].place == BS_PLACE_STATE || l->plan->values[value].place == BS_PLACE_WEIGHT) {
        const int32_t region = region_of(l, n), ready = operands_ready(l, node, region);
        outputs_ready(l, node, ready);
        if (region != TOP) /* its stores come late, when others have been told the region's time */
            l->region_time[region] = bs_max_i32(l->region_time[region], ready + 1);
    } else {
        const bool decided = bs_node_is(node, &bs_op_route_price) || bs_node_is(node, &bs_op_route_score);
        const bool moved = is_view(node) || (node->n_in == 0 && !decided); /* given, not computed */
        bs_instr *i = emit(l, moved ? BS_INSTR_LOAD : BS_INSTR_OP, l->home[n], n);
        i->value = value;
        schedule(l, i, bs_max_i32(operands_ready(l, node, i->region), decided ? l->decided[node->router] : 0));
        outputs_ready(l, node, i->region == TOP ? i->time : l->region_time[i->region]);
    }
}

/* -------------------------------------------------------------------------------------------------- order */

static bool goes_before(const bs_instr *a, const bs_instr *b)
{
    if (a->region != b->region)
        return a->region < b->region; /* TOP first */
    if (a->region == TOP)
        return a->time < b->time;
    return a->part < b->part;
}

/* Stable merge sort by halves of growing width; the upper half of the array is the buffer. */
static void sort_instrs(bs_instr *instrs, bs_instr *buffer, int32_t count)
{
    for (int32_t width = 1; width < count; width *= 2) {
        for (int32_t low = 0; low < count; low += 2 * width) {
            const int32_t middle = bs_min_i32(low + width, count), high = bs_min_i32(low + 2 * width, count);
            int32_t a = low, b = middle;
            for (int32_t k = low; k < high; k++)
                buffer[k] = a < middle && (b >= high || !goes_before(&instrs[b], &instrs[a])) ? instrs[a++] : instrs[b++];
        }
        memcpy(instrs, buffer, (size_t)count * sizeof *instrs);
    }
}

static void index_parts(bs_plan *p)
{
    p->n_top = 0;
    for (int32_t i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].region == TOP) {
            p->n_top++;
            continue;
        }
        bs_part *part = &p->parts[p->instrs[i].part];
        if (part->count++ == 0)
            part->first = i;
    }
}

/* A region whose nodes are all views has nothing to run. */
static bool region_has_work(const bs_plan *p, int32_t region)
{
    for (int32_t i = 0; i < p->n_instrs; i++)
        if (p->instrs[i].region == region)
            return true;
    return false;
}

static void emit_regions(lowering *l)
{
    for (int32_t r = 0; r < l->plan->n_regions; r++) {
        if (!region_has_work(l->plan, r))
            continue;
        bs_instr *i = emit(l, BS_INSTR_REGION, TOP, 0);
        i->domain = l->plan->region_domain[r];
        i->time = l->region_time[r];
        i->node = r; /* the region's number */
    }
}

static void part_costs(bs_plan *p)
{
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        const bs_op *op = bs_op_get(p->graph->nodes[instr->node].op);
        if (instr->part != TOP && instr->kind == BS_INSTR_OP && op->flops)
            p->parts[instr->part].flops += op->flops(p->graph, &p->graph->nodes[instr->node]);
    }
}

bool bs_plan_lower(bs_plan *plan, void *workspace, bs_error *error)
{
    const bs_graph *g = plan->graph;
    lowering *l = workspace;
    memset(l, 0, sizeof *l);
    l->plan = plan;
    l->g = g;
    l->home = (int32_t *)(void *)((uint8_t *)workspace + bs_align_u64(sizeof *l));
    l->needed = l->home + g->n_nodes;
    l->ready = l->needed + g->n_nodes;
    memset(l->home, 0, (size_t)(2 * g->n_nodes + g->n_values) * sizeof(int32_t));
    for (int32_t torn = assign_homes(l); torn != 0; torn = assign_homes(l))
        bs_plan_set_order(plan, torn, BS_ORDER_BREADTH);
    place_all(l);
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (plan->node_live[n])
            emit_node(l, n);
    emit_regions(l);
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (plan->node_live[n] && g->nodes[n].n_out == 0 && !bs_node_is(&g->nodes[n], &bs_op_route))
            emit_ending(l, n);
    if (l->status != BS_OK)
        return bs_refuse(error, l->status, "the plan has more than %d instructions, %d regions or %d parts", plan->max_instrs,
                         BS_MAX_REGIONS, BS_MAX_PARTS);
    sort_instrs(plan->instrs, plan->instrs + plan->max_instrs, plan->n_instrs);
    index_parts(plan);
    part_costs(plan);
    return true;
}

uint64_t bs_plan_lower_workspace(const bs_graph *graph)
{
    return bs_align_u64(sizeof(lowering)) + bs_align_u64((uint64_t)(2 * graph->n_nodes + graph->n_values) * sizeof(int32_t));
}
