/* plan/places.c - the storage class of every value: the caller's buffers, states in place, views, transient rows, a
 * thread's scratch. Relies on plan/regions.c having run. Must never assign offsets. */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

/* Whether every reader finds the rows where they are, and none needs them side by side. */
static bool is_read_in_place(const bs_lower_pass *l, int32_t value)
{
    BS_EACH_READER(l, value, r)
        if (!bs_plan_reads_in_place(l->plan, r->node, r->index, value))
            return false;
    return true;
}

/* The same of rows that happen to lie side by side. */
static bool is_read_in_a_row(const bs_lower_pass *l, int32_t value)
{
    BS_EACH_READER(l, value, r)
        if (!bs_plan_reads_in_a_row(l->plan, r->node, r->index, value))
            return false;
    return true;
}

/* Whether no reader takes the value in this role. */
static bool is_never_read_as(const bs_lower_pass *l, int32_t value, bs_role role)
{
    BS_EACH_READER(l, value, r)
        if (bs_node_role(&l->g->nodes[r->node], r->index) == role)
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------- places */

/* Whether no reader needs the value outside the part that makes it. A store is inside the part. */
static bool is_read_within(const bs_lower_pass *l, int32_t value, int32_t part)
{
    BS_EACH_READER(l, value, r) {
        const bs_node *node = &l->g->nodes[r->node];
        const bool stored = bs_node_gathers(node) && r->index < l->g->routers[node->router].desc->paths &&
                            !bs_plan_is_packed(l->g, node);
        if (l->part_of[r->node] != part && !stored && !bs_node_joins_cells(node))
            return false;
    }
    return true;
}

/* The carried value in whose place `value` is made at top level: nothing else reads that, and who reads the value finds
 * it there. 0: none. */
static int32_t updated_by(const bs_lower_pass *l, int32_t value)
{
    const int32_t carried = bs_plan_updates(l->plan, value), maker = l->g->values[value].node;
    bool alone = carried != 0 && l->part_of[maker] == BS_TOP && is_read_in_a_row(l, value);
    BS_EACH_READER(l, carried, r)
        alone = alone && r->node == maker && r->index == 0;
    return alone ? carried : 0;
}

/* Whether the only reader of a value is made in its place. */
static bool is_updated(const bs_lower_pass *l, int32_t value)
{
    const int32_t first = l->first_reader[value];
    const bool any = l->first_reader[value + 1] > first;
    const bs_node *reader = &l->g->nodes[any ? l->readers[first].node : 0]; /* a decision makes nothing */
    return reader->n_out > 0 && updated_by(l, reader->first_out) == value;
}

static void place_computed(bs_lower_pass *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    const int32_t carried = updated_by(l, value);
    if (carried) {
        v->storage = BS_STORAGE_VIEW;
        v->source = bs_view_of(l->g, &l->g->nodes[l->g->values[carried].node]);
        return;
    }
    const int32_t part = l->part_of[l->g->values[value].node];
    const bool inside = part != BS_TOP && is_read_within(l, value, part);
    v->storage = inside ? BS_STORAGE_SCRATCH : BS_STORAGE_TRANSIENT;
    v->scope = inside ? part : BS_TOP;
}

/* The frame into which the only reader puts the cells as they are; or 0. */
static int32_t frame_of(const bs_lower_pass *l, int32_t value)
{
    const int32_t first = l->first_reader[value], count = l->first_reader[value + 1] - first;
    const bs_node *node = &l->g->nodes[count == 1 ? l->readers[first].node : 0];
    const int32_t frame = node->first_out;
    return count == 1 && bs_node_joins_cells(node) ? frame : 0;
}

static void place_gather(bs_lower_pass *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    const int32_t frame = frame_of(l, value);
    if (frame && !bs_plan_is_packed(l->g, node) && !l->plan->routers[node->router].in_tile &&
        !bs_router_loops(l->g, node->router)) {
        l->plan->values[value].storage = BS_STORAGE_FRAME;
        l->plan->values[value].source = frame;
        return;
    }
    place_computed(l, value);
}

static void place_view(bs_lower_pass *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    if (is_read_in_place(l, value) || is_updated(l, value)) {
        l->plan->values[value].storage = BS_STORAGE_VIEW;
        l->plan->values[value].source = bs_view_of(l->g, node);
    } else {
        place_computed(l, value);
        if (bs_plan_may_be_seen(l->plan, value) && is_read_in_a_row(l, value)) /* a loop is whole in its part */
            l->plan->values[value].source = bs_view_of(l->g, node);
    }
}

static void place_source(bs_lower_pass *l, int32_t value, bs_storage storage)
{
    l->plan->values[value].source = l->g->values[value].node;
    l->plan->values[value].storage = (uint8_t)(is_read_in_place(l, value) ? storage : BS_STORAGE_TRANSIENT);
}

/* Whether no output or state copies it at the end of a run. */
static bool is_never_copied(const bs_lower_pass *l, int32_t value)
{
    BS_EACH_READER(l, value, r) {
        const bs_node *node = &l->g->nodes[r->node];
        if (bs_node_ends_run(node) && bs_node_role(node, r->index) == BS_ROLE_DATA)
            return false;
    }
    return true;
}

/* A state that is copied at the end of a run must give its old content, in whatever order states are written. */
static void place_state(bs_lower_pass *l, int32_t value)
{
    const bool in_place = is_never_copied(l, value) || is_never_read_as(l, value, BS_ROLE_STATE);
    place_source(l, value, in_place ? BS_STORAGE_STATE : BS_STORAGE_TRANSIENT);
}

/* ------------------------------------------------------------------------------------- states, in place */

/* A search for all nodes that must run before some node. If one node of a region must, all of it must, as its tiles
 * run in any order. */
typedef struct need_search {
    int32_t number, n_waiting; /* n_waiting: nodes in l->list whose own needs are still to be found */
} need_search;

static void need(bs_lower_pass *l, need_search *s, int32_t node)
{
    const int32_t region = bs_lower_region_of(l, node);
    if (l->seen[node] == s->number)
        return;
    if (region != BS_TOP)
        node = l->region_node[region]; /* all nodes of the region */
    for (; node != 0; node = region == BS_TOP ? 0 : l->neighbour[node]) {
        l->seen[node] = s->number;
        l->list[s->n_waiting++] = node;
    }
}

/* Marks in l->seen the nodes that must have run before `after` can, and `after` itself. */
static int32_t find_needs(bs_lower_pass *l, int32_t after)
{
    need_search s = {++l->searches, 0};
    need(l, &s, after);
    while (s.n_waiting > 0) {
        const int32_t n = l->list[--s.n_waiting];
        const bs_domain *d = &l->g->domains[l->g->nodes[n].domain];
        int32_t n_in;
        const int32_t *in = bs_plan_in(l->plan, n, &n_in);
        for (int32_t i = 0; i < n_in; i++)
            if (in[i] && l->plan->node_live[l->g->values[in[i]].node])
                need(l, &s, l->g->values[in[i]].node);
        if (d->kind == BS_DOMAIN_PATH) /* which needs the decisions above it */
            need(l, &s, l->g->routers[d->router].node);
    }
    return s.number;
}

/* A state whose new content is to be written over the old one. */
typedef struct state_use {
    int32_t state, frame; /* the old content, and the joined value that becomes the new one */
    int32_t storing;      /* the region whose tiles store it, or BS_TOP */
    int32_t needed;       /* the search that found what runs before that */
    int32_t n_views;      /* in l->list: views of the state whose readers are still to be checked */
} state_use;

/* Whether a reader runs before the state is stored. A region must not read what it stores, since its tiles overlap in
 * time. */
static bool is_early(bs_lower_pass *l, state_use *use, const bs_lower_reader *r)
{
    const bs_node *node = &l->g->nodes[r->node];
    const int32_t region = bs_lower_region_of(l, r->node);
    if (bs_node_operand(node, BS_ROLE_STATE) >= 0)
        return bs_node_role(node, r->index) == BS_ROLE_STATE;
    const bool seen = bs_node_is_view(node) && bs_plan_is_seen(l->plan, node->first_out);
    if (bs_node_is_view(node) && (seen || l->plan->values[node->first_out].storage == BS_STORAGE_VIEW)) {
        /* a view: its readers are checked next. `like` only tells the cells and is not read */
        l->list[use->n_views++] = node->first_out;
        return !seen || l->seen[r->node] == use->needed;
    }
    if (bs_node_gathers(node) && r->index == l->g->routers[node->router].desc->paths &&
        l->plan->values[node->first_out].storage == BS_STORAGE_FRAME &&
        l->plan->values[node->first_out].source == use->frame)
        return true; /* the gather's own residual: rows that no path stores stay */
    return l->seen[r->node] == use->needed && (region == BS_TOP || region != use->storing);
}

/* Whether all readers of the old content, through any depth of views, have run before what `node` makes is stored. */
static bool readers_are_early(bs_lower_pass *l, state_use *use, int32_t node)
{
    use->storing = bs_lower_region_of(l, node);
    if (use->storing != BS_TOP && l->region_checked[use->storing] == use->frame)
        return true;
    use->needed = find_needs(l, node);
    use->n_views = 0;
    l->list[use->n_views++] = use->state;
    while (use->n_views > 0) {
        const int32_t value = l->list[--use->n_views];
        BS_EACH_READER(l, value, r)
            if (!is_early(l, use, r))
                return false;
    }
    if (use->storing != BS_TOP)
        l->region_checked[use->storing] = use->frame;
    return true;
}

/* A joined value is stored by what makes its cells: by all paths of a gather that has no rows of its own, else by the
 * one node. Whether all of them run late enough. */
static bool stores_are_late(bs_lower_pass *l, state_use *use)
{
    const int32_t cells = bs_node_in(l->g, &l->g->nodes[l->g->values[use->frame].node])[0];
    const bs_node *maker = &l->g->nodes[l->g->values[cells].node];
    const int32_t *in = bs_node_in(l->g, maker);
    bool late = true, stored = false;
    if (l->plan->values[cells].storage != BS_STORAGE_FRAME)
        return readers_are_early(l, use, l->g->values[cells].node);
    for (int32_t i = 0; late && i < l->g->routers[maker->router].desc->paths; i++) {
        if (in[i] == 0 || !bs_plan_reads(l->plan, maker, i))
            continue;
        late = readers_are_early(l, use, l->g->values[in[i]].node);
        stored = true;
    }
    return late && stored; /* rows that no path gives are written last */
}

/* A tensor of cells is stored directly in the state that it becomes, or in its only output. */
static void place_joined(bs_lower_pass *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    state_use use = {.frame = value};
    bool endings = true, outputs = true;
    v->source = 0;
    BS_EACH_READER(l, value, r) {
        const bs_node *node = &l->g->nodes[r->node];
        const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
        use.state = state >= 0 ? bs_node_in(l->g, node)[state] : use.state;
        v->source = v->source ? v->source : r->node; /* the first reader, if all readers are outputs */
        endings = endings && bs_node_ends_run(node);
        outputs = outputs && bs_node_is_output(node);
    }
    if (use.state && endings && l->plan->values[use.state].storage == BS_STORAGE_STATE && stores_are_late(l, &use)) {
        v->storage = BS_STORAGE_STATE;
        v->source = l->g->values[use.state].node;
        return;
    }
    v->storage = outputs ? BS_STORAGE_OUTPUT : BS_STORAGE_TRANSIENT;
    v->source = outputs ? v->source : 0;
}

/* The first output that reads a value which nothing else reads; or 0. */
static int32_t only_output_of(const bs_lower_pass *l, int32_t value)
{
    int32_t output = 0;
    BS_EACH_READER(l, value, r) {
        if (!bs_node_is_output(&l->g->nodes[r->node]))
            return 0;
        output = output ? output : r->node;
    }
    return output;
}

/* What only outputs read is stored directly in the first of them: kernels' results, and images if that turns out to be
 * bound channels last. So are images that come in, if nothing is needed around them. */
static void place_result(bs_lower_pass *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    const int32_t output = only_output_of(l, value);
    if (output && bs_plan_may_end_in_place(l->plan, value))
        v->storage = BS_STORAGE_OUTPUT;
    if (l->g->values[value].domain == 0 && !bs_plan_on_device(l->plan))
        v->source = !output && bs_plan_may_lie_as_bound(l->plan, value) ? l->g->values[value].node : output;
}

static void place_value(bs_lower_pass *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    if (bs_node_is_input(node))
        place_source(l, value, BS_STORAGE_INPUT);
    else if (bs_node_is_state(node))
        place_state(l, value);
    else if (bs_node_work(node) == BS_WORK_GIVEN)
        place_source(l, value, BS_STORAGE_WEIGHT);
    else if (bs_node_is_view(node))
        place_view(l, value);
    else if (bs_node_gathers(node))
        place_gather(l, value);
    else if (!bs_node_joins_cells(node))
        place_computed(l, value);
}

/* What is its operand in other dimensions is seen there, unless that lies in a tile's scratch and this is read outside.
 * What decides keeps its own type. */
static void place_shown(bs_lower_pass *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    if (!bs_plan_is_stored(l->plan, value) || v->source != 0 || !bs_plan_may_show(l->plan, value) ||
        !is_never_read_as(l, value, BS_ROLE_DECIDING))
        return;
    const int32_t x = bs_node_in(l->g, &l->g->nodes[l->g->values[value].node])[0];
    if (l->plan->values[bs_plan_rows_of(l->plan, x)].scope != BS_TOP && v->scope == BS_TOP)
        return;
    v->storage = BS_STORAGE_VIEW;
    v->source = x;
}

static void narrow_values(bs_lower_pass *l)
{
    for (int32_t v = 1; v < l->g->n_values; v++) {
        const int32_t in = bs_plan_rows_of(l->plan, v);
        l->plan->values[v].narrow = in != v ? l->plan->values[in].narrow
                                            : l->plan->desc.half && bs_plan_is_stored(l->plan, v) &&
                                                  l->g->values[v].dtype == BS_F32 &&
                                                  is_never_read_as(l, v, BS_ROLE_DECIDING);
    }
}

void bs_lower_places(bs_lower_pass *l)
{
    for (int32_t v = 0; v < l->g->n_values; v++) { /* again, where tiles were too large */
        l->plan->values[v].scope = BS_TOP;
        l->plan->values[v].source = 0;
    }
    for (int32_t v = 1; v < l->g->n_values; v++)
        if (l->plan->node_live[l->g->values[v].node])
            place_value(l, v);
    for (int32_t v = 1; v < l->g->n_values; v++) { /* after gathers and views have their storage class */
        const int32_t n = l->g->values[v].node;
        if (l->plan->node_live[n] && bs_node_joins_cells(&l->g->nodes[n]))
            place_joined(l, v);
        else if (l->plan->values[v].storage == BS_STORAGE_TRANSIENT)
            place_result(l, v);
        place_shown(l, v);
    }
    narrow_values(l);
}

#endif
