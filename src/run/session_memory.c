/* run/session_memory.c - every byte of a session: one walk counts them for a plan, and the same walk hands them out.
 * Relies on run/session.h. Must never allocate: what it takes is what bs_plan_sizes said, to the byte. */
#include "run/session_make.h"
#include "ops/structure.h"

/* ------------------------------------------------------------------------------------------------- carving */

static void carve_decision(bs_carver *c, const bs_plan *p, int32_t router, bs_decision_data *d)
{
    const bs_router_info *info = &p->graph->routers[router];
    const bs_bytes choices = bs_bytes_times(bs_bytes_array(p->routers[router].rows, sizeof(int32_t)),
                                            info->max_paths_per_cell);
    memset(d, 0, sizeof *d);
    d->paths = info->desc->paths;
    d->per_row = info->max_paths_per_cell;
    d->chosen = bs_carve_bytes(c, choices);
    d->gates = bs_carve_bytes(c, choices);
    d->ids = bs_carve_bytes(c, choices);
    d->inverse = bs_carve_bytes(c, choices);
    BS_CARVE(c, d->counts, d->paths);
    BS_CARVE(c, d->offsets, d->paths + 1);
}

/* The root's context holds the decisions made for all rows, a tile's context those made in tiles. */
static void carve_context(bs_carver *c, const bs_plan *p, bs_context *context, bool tile)
{
    const bs_graph *g = p->graph;
    bs_decision_data unused;
    bs_rows_state *domains = bs_carve(c, (uint64_t)g->n_domains, sizeof(bs_rows_state));
    bs_decision_data *decisions = bs_carve(c, (uint64_t)g->n_routers, sizeof(bs_decision_data));
    for (int32_t r = 1; r < g->n_routers && !bs_plan_on_device(p); r++)
        if (p->routers[r].live && p->routers[r].in_tile == tile)
            carve_decision(c, p, r, decisions ? &decisions[r] : &unused);
    if (context) {
        context->domains = domains;
        context->decisions = decisions;
        context->tile = tile;
    }
}

static bs_bytes state_bytes(const bs_plan *p, int32_t node)
{
    return bs_value_bytes(p->graph, &p->graph->values[p->graph->nodes[node].first_out]);
}

/* Whether a run has to do with a node before or after its instructions: memory is bound to it, it joins cells of a
 * tensor, or its segments must match. */
static bool is_watched(const bs_node *node)
{
    return bs_node_op(node)->bound || (bs_node_is_view(node) && node->router == 0) ||
           bs_node_operand(node, BS_ROLE_KEYS) >= 0;
}

/* Counts these nodes; lists them in order, if `list` is not NULL. */
static int32_t list_watched(const bs_graph *g, int32_t *list)
{
    int32_t count = 0;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!is_watched(&g->nodes[n]))
            continue;
        if (list)
            list[count] = n;
        count++;
    }
    return count;
}

/* Everything that is carved for a session. Counting needs this struct only, not a whole session (which is large). */
typedef struct session_parts {
    int64_t *dims, *dropped;
    bs_bound *bound;
    uint8_t *store;
    uint64_t *path_ns;
    bs_route_callback *callbacks;
    int16_t **chosen;
    int32_t *counts, *route_counts, *watched, *bound_at, **offsets;
    bs_exec_work work;
    bs_context *contexts;
    bs_kept *kept;
    bs_worker *workers;
    bs_operand *kept_operands;
    bs_step *steps;
    int32_t n_kept, n_bound;
    bs_locator *locators;
    bs_form *forms;
} session_parts;

static void carve_work(bs_carver *c, const bs_plan *p, bs_exec_work *w)
{
    enum { PARTS, FIRSTS, STREAMED_PATHS, STREAMED_PARTS, NEEDED, VISITED };
    static const bs_carved arrays[] = {
        BS_CARVED(bs_exec_work, parts, PARTS),            BS_CARVED(bs_exec_work, first_tile, FIRSTS),
        BS_CARVED(bs_exec_work, order, STREAMED_PATHS),   BS_CARVED(bs_exec_work, units, STREAMED_PARTS),
        BS_CARVED(bs_exec_work, spent, STREAMED_PARTS),   BS_CARVED(bs_exec_work, needed, NEEDED),
        BS_CARVED(bs_exec_work, visited, VISITED),        BS_CARVED(bs_exec_work, counts, STREAMED_PATHS),
        BS_CARVED(bs_exec_work, margins, STREAMED_PATHS),
    };
    const int32_t parts = p->most_parts;
    const bool streams = bs_plan_streams(p);
    const int64_t counts[] = {parts,
                              parts ? parts + 1 : 0,
                              streams ? p->graph->max_paths : 0,
                              streams ? parts : 0,
                              p->most_phase_units,
                              streams ? p->n_units : 0};
    memset(w, 0, sizeof *w);
    BS_CARVE_ARRAYS(c, w, arrays, counts);
}

static void carve_segments(bs_carver *c, const bs_plan *p, session_parts *s)
{
    const bs_graph *g = p->graph;
    for (int32_t d = 1; d < g->n_domains; d++) {
        int32_t *offsets = bs_carve(c, (uint64_t)bs_segment_room(p, d), sizeof(int32_t));
        if (s->offsets)
            s->offsets[d] = bs_segment_room(p, d) ? offsets : NULL;
    }
    for (int32_t n = 1; n < g->n_nodes; n++) {
        int32_t *cache_lengths = bs_carve(c, (uint64_t)bs_cache_lengths_room(p, n), sizeof(int32_t));
        if (s->bound && bs_cache_lengths_room(p, n))
            s->bound[s->bound_at[n]].cache_lengths = cache_lengths;
    }
}

/* Everything persistent; root: NULL while counting. States come last. A caller that binds its own states pays for
 * these all the same, since the plan cannot know. */
static void carve_session(bs_carver *c, const bs_plan *p, session_parts *s, bs_context *root)
{
    const bs_graph *g = p->graph;
    enum { DIMS, NODES, PLACES, ROUTERS, DOMAINS, THREADS, WORKERS, WATCHED, KEPT, OPERANDS, STEPS, VALUES, FORMS };
    static const bs_carved arrays[] = {
        BS_CARVED(session_parts, dims, DIMS),       BS_CARVED(session_parts, bound, PLACES),
        BS_CARVED(session_parts, bound_at, NODES),  BS_CARVED(session_parts, callbacks, ROUTERS),
        BS_CARVED(session_parts, chosen, ROUTERS),  BS_CARVED(session_parts, dropped, ROUTERS),
        BS_CARVED(session_parts, offsets, DOMAINS), BS_CARVED(session_parts, contexts, THREADS),
        BS_CARVED(session_parts, watched, WATCHED), BS_CARVED(session_parts, kept, KEPT),
        BS_CARVED(session_parts, steps, STEPS),     BS_CARVED(session_parts, kept_operands, OPERANDS),
        BS_CARVED(session_parts, locators, VALUES), BS_CARVED(session_parts, forms, FORMS),
        BS_CARVED(session_parts, workers, WORKERS),
    };
    int32_t kept_operands;
    s->n_kept = bs_kept_count(p, &kept_operands);
    s->n_bound = bs_bound_places(g, NULL);
    const int64_t counts[] = {g->n_dims, g->n_nodes, s->n_bound, g->n_routers, g->n_domains, p->threads,
                              p->threads > 1 ? p->threads : 0, list_watched(g, NULL), s->n_kept, kept_operands,
                              p->n_instrs, bs_plan_on_device(p) ? 0 : g->n_values, bs_forms_count(p)};
    const bs_bytes paths = bs_bytes_array(g->n_paths, 1); /* counts as bytes, so that products are checked */
    BS_CARVE_ARRAYS(c, s, arrays, counts);
    bs_bound_places(g, s->bound_at);
    s->counts = bs_carve_bytes(c, bs_bytes_times(paths, sizeof(int32_t)));
    s->path_ns = bs_carve_bytes(c, bs_bytes_times(bs_bytes_times(paths, p->threads), sizeof(uint64_t)));
    s->route_counts = bs_carve_bytes(c, bs_bytes_times(bs_bytes_times(paths, p->threads), sizeof(int32_t)));
    carve_work(c, p, &s->work);
    carve_context(c, p, root, false);
    for (int32_t t = 0; t < p->threads && !bs_plan_on_device(p); t++)
        carve_context(c, p, s->contexts ? &s->contexts[t] : NULL, true);
    for (int32_t r = 1; r < g->n_routers; r++) {
        int16_t *chosen = bs_carve(c, (uint64_t)p->domains[bs_plan_top_domain(g, g->routers[r].domain)].max_rows,
                                   sizeof *chosen);
        if (s->chosen)
            s->chosen[r] = chosen;
    }
    carve_segments(c, p, s);
    s->store = bs_carve_bytes(c, bs_store_bytes(p));
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bool here = bs_session_is_state(p, n) && !bs_plan_on_device(p);
        uint8_t *memory = here ? bs_carve_bytes(c, state_bytes(p, n)) : NULL;
        if (s->bound && bs_session_is_state(p, n)) {
            s->bound[s->bound_at[n]].state = memory;
            s->bound[s->bound_at[n]].state_bytes = state_bytes(p, n);
        }
    }
}

static void adopt_parts(bs_session *s, const session_parts *parts)
{
    s->dims = parts->dims;
    s->dropped = parts->dropped;
    s->bound = parts->bound;
    s->bound_at = parts->bound_at;
    s->n_bound = parts->n_bound;
    s->store.base = (uint8_t **)(void *)parts->store;
    s->path_ns = parts->path_ns;
    s->callbacks = parts->callbacks;
    s->chosen = parts->chosen;
    s->counts = parts->counts;
    s->route_counts = parts->route_counts;
    s->work = parts->work;
    s->offsets = parts->offsets;
    s->contexts = parts->contexts;
    s->n_kept = parts->n_kept;
    s->kept = parts->kept;
    s->pool.workers = parts->workers;
    s->steps = parts->steps;
    s->locators = parts->locators;
    s->forms = parts->forms;
    s->watched = parts->watched;
    s->n_watched = list_watched(s->graph, s->watched);
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        s->writes_states |= s->plan->node_live[n] && bs_node_operand(&s->graph->nodes[n], BS_ROLE_STATE) >= 0;
}

void bs_plan_sizes(const bs_plan *plan, bs_sizes *sizes)
{
    bs_carver c = {NULL, {0}};
    if (!sizes)
        return;
    memset(sizes, 0, sizeof *sizes);
    if (!plan)
        return;
    bs_carve(&c, 1, sizeof(bs_session));
    session_parts parts;
    carve_session(&c, plan, &parts, NULL);
    const bool device = bs_plan_on_device(plan);
    sizes->weights = bs_bytes_figure(plan->weight_bytes);
    sizes->persistent = bs_bytes_figure(device ? c.used : bs_bytes_add(c.used, plan->weight_bytes));
    bs_device_layout layout;
    bs_device_layout_make(plan, &layout);
    sizes->device = device ? bs_bytes_figure(bs_bytes_add(bs_bytes_of(layout.device_bytes), plan->weight_bytes)) : 0;
    sizes->pinned = layout.pinned_bytes;
    const bs_bytes transient = bs_bytes_add(plan->transient_bytes, bs_bytes_times(plan->scratch_bytes, plan->threads));
    sizes->transient = bs_plan_on_device(plan) ? 0 : bs_bytes_figure(transient);
    /* streaming keeps staging for its lanes, aligned to pages; loading uses it for resident weights before */
    const bs_bytes lanes = bs_bytes_add(bs_bytes_times(plan->lane_bytes, plan->lanes), bs_bytes_of(BS_PAGE_BYTES));
    sizes->staging = bs_bytes_figure(bs_plan_streams(plan) ? bs_bytes_max(plan->staging_bytes, lanes)
                                                           : plan->staging_bytes);
    sizes->slots = bs_plan_on_device(plan) ? 0 : bs_bytes_figure(plan->slot_bytes);
}

bs_session *bs_session_carve(bs_memory *memory, const bs_plan *plan, const bs_sizes *sizes, bool own_weights,
                             bs_error *error)
{
    const bool here = !bs_plan_on_device(plan);
    const bs_bytes all = bs_bytes_of(sizes->persistent);
    const uint64_t bytes = bs_bytes_figure(here && !own_weights ? bs_bytes_sub(all, plan->weight_bytes) : all);
    bs_carver c = {bs_take_table(&memory->persistent, bytes, 1, "the session", error), {0}};
    if (!c.base)
        return NULL; /* from here on the bytes fit in memory, so size_t holds them */
    memset(c.base, 0, (size_t)bytes);
    bs_session *s = bs_carve(&c, 1, sizeof *s);
    s->plan = plan;
    s->graph = plan->graph;
    session_parts parts;
    carve_session(&c, plan, &parts, &s->root);
    adopt_parts(s, &parts);
    bs_forms_make(s);
    bs_steps_make(s);
    bs_kept_place(s, parts.kept_operands);
    s->weights = here && own_weights ? bs_carve_bytes(&c, plan->weight_bytes) : NULL;
    s->transient = sizes->transient ? bs_take_table(&memory->transient, sizes->transient, 1, "activations", error)
                                    : NULL;
    if (sizes->transient && !s->transient)
        return NULL;
    s->scratch = s->transient ? bs_bytes_at(s->transient, plan->transient_bytes) : NULL;
    s->root.session = s;
    s->root.domains[0].count = 1;
    for (int32_t t = 0; t < plan->threads; t++) {
        s->contexts[t].session = s;
        s->contexts[t].thread = t;
        s->contexts[t].scratch = s->scratch ? bs_bytes_row(s->scratch, bs_bytes_of(0), t, plan->scratch_bytes) : NULL;
    }
    s->root.scratch = s->scratch;
    return s;
}
