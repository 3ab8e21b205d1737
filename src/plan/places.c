/* plan/places.c - where every value lives: the caller's buffers, states in place, views, transient rows, a thread's
 * scratch. Relies on plan/regions.c having run. Must never assign offsets. */
#include "plan/lower.h"

#if !defined(BS_NO_PLANNER)

static bool reads_view_directly(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    return bs_plan_reads_in_place(l->plan, n, index, *(const int32_t *)user);
}

static bool count_reader(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    (void)l, (void)n, (void)index;
    ++*(int32_t *)user;
    return true;
}

/* ------------------------------------------------------------------------------------------------- places */

/* Whether a reader needs the value outside the part that makes it. */
static bool reads_within(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    const int32_t part = *(const int32_t *)user;
    const bs_node *node = &l->g->nodes[n];
    if (bs_node_joins_cells(node))
        return true; /* a store inside the part */
    if (bs_node_gathers(node) && index < l->g->routers[node->router].desc->paths)
        return l->part_of[n] == part || !bs_plan_is_packed(l->g, node);
    return l->part_of[n] == part;
}

static void place_computed(bs_lower_pass *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    int32_t part = l->part_of[l->g->values[value].node];
    const bool inside = part != BS_TOP && bs_lower_each_reader(l, value, reads_within, &part);
    v->place = inside ? BS_PLACE_SCRATCH : BS_PLACE_TRANSIENT;
    v->scope = inside ? part : BS_TOP;
}

/* A reader that puts cells side by side into a frame, as they are. */
static bool is_framed(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    const bs_node *node = &l->g->nodes[n];
    *(int32_t *)user = node->first_out;
    return bs_node_joins_cells(node) &&
           l->g->values[node->first_out].rank == l->g->values[bs_node_in(l->g, node)[index]].rank;
}

static void place_gather(bs_lower_pass *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    int32_t readers = 0, frame = 0;
    bs_lower_each_reader(l, value, count_reader, &readers);
    if (readers == 1 && !bs_plan_is_packed(l->g, node) && !l->plan->routers[node->router].in_tile &&
        bs_lower_each_reader(l, value, is_framed, &frame)) {
        l->plan->values[value].place = BS_PLACE_FRAME;
        l->plan->values[value].source = frame;
        return;
    }
    place_computed(l, value);
}

static void place_view(bs_lower_pass *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    int32_t id = value;
    if (bs_lower_each_reader(l, value, reads_view_directly, &id)) {
        l->plan->values[value].place = BS_PLACE_VIEW;
        l->plan->values[value].source = bs_node_in(l->g, node)[0];
    } else {
        place_computed(l, value);
    }
}

static void place_source(bs_lower_pass *l, int32_t value, bs_place place)
{
    int32_t id = value;
    l->plan->values[value].source = l->g->values[value].node;
    const bool direct = bs_lower_each_reader(l, value, reads_view_directly, &id);
    l->plan->values[value].place = direct ? place : BS_PLACE_TRANSIENT;
}

static bool is_not_copied(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    (void)user;
    return !bs_node_ends_run(&l->g->nodes[n]) || bs_node_role(&l->g->nodes[n], index) != BS_ROLE_DATA;
}

static bool is_not_written(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    (void)user;
    return bs_node_role(&l->g->nodes[n], index) != BS_ROLE_STATE;
}

/* What is copied from a state at the end of a run is its old content, in whatever order states are written. */
static void place_state(bs_lower_pass *l, int32_t value)
{
    const bool in_place = bs_lower_each_reader(l, value, is_not_copied, NULL) ||
                          bs_lower_each_reader(l, value, is_not_written, NULL);
    place_source(l, value, BS_PLACE_STATE);
    if (!in_place)
        l->plan->values[value].place = BS_PLACE_TRANSIENT;
}

static bool is_output(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    (void)index;
    if (*(int32_t *)user == 0)
        *(int32_t *)user = n;
    return bs_node_is_output(&l->g->nodes[n]);
}

/* ------------------------------------------------------------------------------------- states, in place */

/* What is needed for a node to run, node by node; of a region all of it, because its tiles run as they come. */
typedef struct need_search {
    int32_t number, n_waiting; /* in l->list: nodes that were found, but not yet what they need */
} need_search;

static void need(bs_lower_pass *l, need_search *s, int32_t node)
{
    const int32_t region = bs_lower_region_of(l, node);
    if (l->seen[node] == s->number)
        return;
    if (region != BS_TOP)
        node = l->region_node[region]; /* all of it */
    for (; node != 0; node = region == BS_TOP ? 0 : l->neighbour[node]) {
        l->seen[node] = s->number;
        l->list[s->n_waiting++] = node;
    }
}

/* Marks the nodes that must have run for `after` to run, itself too (l->seen). */
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

/* A state whose new content is to be written where the old one lies. */
typedef struct state_use {
    int32_t state, frame; /* the old content, and the joined value that becomes the new one */
    int32_t storing;      /* the region whose tiles store it, or BS_TOP */
    int32_t needed;       /* the search that found what runs before that */
    int32_t n_views;      /* in l->list: views of the state, whose readers are still to be asked */
} state_use;

/* A region does not only run after others, its tiles overlap: it may not read what it stores. */
static bool state_reader_is_early(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    state_use *use = user;
    const bs_node *node = &l->g->nodes[n];
    const int32_t region = bs_lower_region_of(l, n);
    if (bs_node_operand(node, BS_ROLE_STATE) >= 0)
        return bs_node_role(node, index) == BS_ROLE_STATE;
    if (bs_node_is_view(node) && l->plan->values[node->first_out].place == BS_PLACE_VIEW) {
        /* its readers are asked; and what only tells the cells (`like`) is not read */
        l->list[use->n_views++] = node->first_out;
        return true;
    }
    if (bs_node_gathers(node) && index == l->g->routers[node->router].desc->paths &&
        l->plan->values[node->first_out].place == BS_PLACE_FRAME &&
        l->plan->values[node->first_out].source == use->frame)
        return true; /* its own residual: what no path stores stays */
    return l->seen[n] == use->needed && (region == BS_TOP || region != use->storing);
}

/* Whether all readers of the old content, through any depth of views, have run before what `node` makes is stored. */
static bool readers_are_early(bs_lower_pass *l, state_use *use, int32_t node)
{
    bool early = true;
    use->storing = bs_lower_region_of(l, node);
    if (use->storing != BS_TOP && l->region_asked[use->storing] == use->frame)
        return true;
    use->needed = find_needs(l, node);
    use->n_views = 0;
    l->list[use->n_views++] = use->state;
    while (early && use->n_views > 0)
        early = bs_lower_each_reader(l, l->list[--use->n_views], state_reader_is_early, use);
    if (use->storing != BS_TOP)
        l->region_asked[use->storing] = use->frame;
    return early;
}

/* A joined value is stored by what makes its cells: by all paths of a gather that has no rows of its own, else by the
 * one node. */
static bool stores_are_late(bs_lower_pass *l, state_use *use)
{
    const int32_t cells = bs_node_in(l->g, &l->g->nodes[l->g->values[use->frame].node])[0];
    const bs_node *maker = &l->g->nodes[l->g->values[cells].node];
    const int32_t *in = bs_node_in(l->g, maker);
    bool late = true, stored = false;
    if (l->plan->values[cells].place != BS_PLACE_FRAME)
        return readers_are_early(l, use, l->g->values[cells].node);
    for (int32_t i = 0; late && i < l->g->routers[maker->router].desc->paths; i++) {
        if (in[i] == 0 || !bs_plan_reads(l->plan, maker, i))
            continue;
        late = readers_are_early(l, use, l->g->values[in[i]].node);
        stored = true;
    }
    return late && stored; /* rows that no path gives come last */
}

static bool is_ending(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    (void)index, (void)user;
    return bs_node_ends_run(&l->g->nodes[n]);
}

static bool finds_state(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    (void)index;
    const bs_node *node = &l->g->nodes[n];
    const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
    if (state >= 0)
        *(int32_t *)user = bs_node_in(l->g, node)[state];
    return true;
}

/* A tensor of cells: straight into the state that it becomes, or into the only output that wants it. */
static void place_joined(bs_lower_pass *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    state_use use = {.frame = value};
    bs_lower_each_reader(l, value, finds_state, &use.state);
    if (use.state && l->plan->values[use.state].place == BS_PLACE_STATE &&
        bs_lower_each_reader(l, value, is_ending, NULL) && stores_are_late(l, &use)) {
        v->place = BS_PLACE_STATE;
        v->source = l->g->values[use.state].node;
        return;
    }
    int32_t output = 0;
    const bool only_outputs = bs_lower_each_reader(l, value, is_output, &output);
    v->place = only_outputs ? BS_PLACE_OUTPUT : BS_PLACE_TRANSIENT;
    v->source = output;
}

static void place_value(bs_lower_pass *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    if (bs_node_is_input(node))
        place_source(l, value, BS_PLACE_INPUT);
    else if (bs_node_is_state(node))
        place_state(l, value);
    else if (bs_node_work(node) == BS_WORK_GIVEN)
        place_source(l, value, BS_PLACE_WEIGHT);
    else if (bs_node_is_view(node))
        place_view(l, value);
    else if (bs_node_gathers(node))
        place_gather(l, value);
    else if (!bs_node_joins_cells(node))
        place_computed(l, value);
}

static bool is_not_decided_by(bs_lower_pass *l, int32_t n, int32_t index, void *user)
{
    (void)user;
    return bs_node_role(&l->g->nodes[n], index) != BS_ROLE_DECIDING;
}

static void narrow_values(bs_lower_pass *l)
{
    for (int32_t v = 1; v < l->g->n_values; v++) {
        bs_value_plan *p = &l->plan->values[v];
        const bool own = p->place == BS_PLACE_TRANSIENT || p->place == BS_PLACE_SCRATCH;
        p->narrow = l->plan->desc.half && own && l->g->values[v].dtype == BS_F32 &&
                    bs_lower_each_reader(l, v, is_not_decided_by, NULL);
    }
}

void bs_lower_places(bs_lower_pass *l)
{
    for (int32_t v = 0; v < l->g->n_values; v++)
        l->plan->values[v].scope = BS_TOP;
    for (int32_t v = 1; v < l->g->n_values; v++)
        if (l->plan->node_live[l->g->values[v].node])
            place_value(l, v);
    for (int32_t v = 1; v < l->g->n_values; v++) { /* needs the places of gathers and views */
        const int32_t n = l->g->values[v].node;
        if (l->plan->node_live[n] && bs_node_joins_cells(&l->g->nodes[n]))
            place_joined(l, v);
    }
    narrow_values(l);
}

#endif
