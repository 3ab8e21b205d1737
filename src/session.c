/* session.c - making a session out of four arenas, binding buffers, running, asking what happened.
 * Relies on session.h and weights.h. Must never allocate: what it takes is what bs_plan_sizes said, to the byte. */
#include "session.h"
#include "structure.h"
#include "weights.h"

/* ------------------------------------------------------------------------------------------------- carving */

/* The same walk counts bytes (base NULL) and hands them out. */
typedef struct carver {
    uint8_t *base;
    uint64_t used;
} carver;

static void *carve(carver *c, uint64_t count, uint64_t bytes)
{
    uint8_t *memory = c->base ? c->base + c->used : NULL;
    c->used = bs_add_u64(c->used, bs_align_u64(bs_mul_u64(count, bytes)));
    return memory;
}

static void carve_decision(carver *c, const bs_plan *p, int32_t router, bs_decision_data *d)
{
    const bs_router_info *info = &p->graph->routers[router];
    const uint64_t choices = bs_mul_u64((uint64_t)p->routers[router].rows, (uint64_t)info->max_paths_per_cell);
    memset(d, 0, sizeof *d);
    d->paths = info->desc->paths;
    d->per_row = info->max_paths_per_cell;
    d->chosen = carve(c, choices, sizeof(int32_t));
    d->gates = carve(c, choices, sizeof(float));
    d->ids = carve(c, choices, sizeof(int32_t));
    d->inverse = carve(c, choices, sizeof(int32_t));
    d->counts = carve(c, (uint64_t)d->paths, sizeof(int32_t));
    d->offsets = carve(c, (uint64_t)d->paths + 1, sizeof(int32_t));
}

/* A context of the root decides what is global, one of a tile what is decided in tiles. */
static void carve_context(carver *c, const bs_plan *p, bs_context *context, bool tile)
{
    const bs_graph *g = p->graph;
    bs_decision_data unused;
    bs_rows_state *domains = carve(c, (uint64_t)g->n_domains, sizeof(bs_rows_state));
    bs_decision_data *decisions = carve(c, (uint64_t)g->n_routers, sizeof(bs_decision_data));
    for (int32_t r = 1; r < g->n_routers; r++)
        if (p->routers[r].live && p->routers[r].in_tile == tile)
            carve_decision(c, p, r, decisions ? &decisions[r] : &unused);
    if (context) {
        context->domains = domains;
        context->decisions = decisions;
        context->tile = tile;
    }
}

static uint64_t state_bytes(const bs_plan *p, int32_t node)
{
    const bs_value_info *v = &p->graph->values[p->graph->nodes[node].first_out];
    uint64_t bytes = bs_dtype_bytes(v->dtype);
    for (int32_t i = 0; i < v->rank; i++)
        bytes = bs_mul_u64(bytes, (uint64_t)bs_dim_max(p->graph, v->dims[i]));
    return bytes;
}

static bool is_live_state(const bs_plan *p, int32_t node)
{
    return p->node_live[node] && bs_node_is(&p->graph->nodes[node], &bs_op_state);
}

/* Everything persistent. s: NULL while counting. States come last: a caller that binds its own pays for them all
 * the same, since the plan cannot know. */
static void carve_session(carver *c, const bs_plan *p, bs_session *s)
{
    const bs_graph *g = p->graph;
    const uint64_t nodes = (uint64_t)g->n_nodes, routers = (uint64_t)g->n_routers, threads = (uint64_t)p->threads;
    bs_session unused;
    if (!s)
        s = &unused;
    s->dims = carve(c, (uint64_t)g->n_dims, sizeof(int64_t));
    s->bound = carve(c, nodes, sizeof(bs_buffer));
    s->state = carve(c, nodes, sizeof(uint8_t *));
    s->state_bytes = carve(c, nodes, sizeof(uint64_t));
    s->callbacks = carve(c, routers, sizeof(bs_route_callback));
    s->chosen = carve(c, routers, sizeof(int8_t *));
    s->counts = carve(c, routers * BS_MAX_PATHS, sizeof(int32_t));
    s->dropped = carve(c, routers, sizeof(int64_t));
    s->path_ns = carve(c, threads * routers * BS_MAX_PATHS, sizeof(uint64_t));
    s->route_counts = carve(c, threads * routers * BS_MAX_PATHS, sizeof(int32_t));
    s->contexts = carve(c, threads, sizeof(bs_context));
    carve_context(c, p, c->base ? &s->root : NULL, false);
    for (int32_t t = 0; t < p->threads; t++)
        carve_context(c, p, s->contexts ? &s->contexts[t] : NULL, true);
    for (int32_t r = 1; r < g->n_routers; r++) {
        int8_t *chosen = carve(c, (uint64_t)p->domains[bs_plan_top_domain(g, g->routers[r].domain)].max_rows, 1);
        if (s->chosen)
            s->chosen[r] = chosen;
    }
    s->offsets = carve(c, (uint64_t)g->n_domains, sizeof(int32_t *));
    for (int32_t d = 1; d < g->n_domains; d++) {
        int32_t *offsets = carve(c, (uint64_t)bs_segment_room(p, d), sizeof(int32_t));
        if (s->offsets)
            s->offsets[d] = bs_segment_room(p, d) ? offsets : NULL;
    }
    s->past = carve(c, nodes, sizeof(int32_t *));
    for (int32_t n = 1; n < g->n_nodes; n++) {
        int32_t *past = carve(c, (uint64_t)bs_past_room(p, n), sizeof(int32_t));
        if (s->past)
            s->past[n] = bs_past_room(p, n) ? past : NULL;
    }
    s->weights = carve(c, p->weight_bytes, 1);
    uint8_t *store = carve(c, bs_store_bytes(p), 1);
    if (c->base)
        s->store.base = (uint8_t **)(void *)store;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        uint8_t *memory = is_live_state(p, n) ? carve(c, state_bytes(p, n), 1) : NULL;
        if (s->state) {
            s->state[n] = memory;
            s->state_bytes[n] = is_live_state(p, n) ? state_bytes(p, n) : 0;
        }
    }
}

void bs_plan_sizes(const bs_plan *plan, bs_sizes *sizes)
{
    carver c = {NULL, 0};
    carve(&c, 1, sizeof(bs_session));
    carve_session(&c, plan, NULL);
    sizes->persistent = c.used;
    sizes->transient = bs_add_u64(plan->transient_bytes, bs_mul_u64(plan->scratch_bytes, (uint64_t)plan->threads));
    sizes->staging = plan->staging_bytes;
    sizes->slots = plan->slot_bytes;
    if (bs_plan_streams(plan)) { /* lanes keep theirs, aligned to pages; while loading, it serves for resident weights */
        const uint64_t lanes = bs_add_u64(bs_mul_u64((uint64_t)plan->lanes, plan->lane_bytes), BS_PAGE_BYTES);
        sizes->staging = lanes > sizes->staging ? lanes : sizes->staging;
    }
}

/* ------------------------------------------------------------------------------------------------- weights */

static void weight_name(char *text, size_t bytes, const bs_node *node, const char *suffix)
{
    const char *name = bs_node_name(node);
    snprintf(text, bytes, "%s%s%s", name, *suffix ? "." : "", suffix);
}

/* Canonical tensors of one node in place or in staging, then prepared. */
static bs_status load_node(bs_session *s, int32_t n, const bs_weights *weights, uint8_t *staging, bs_error *error)
{
    const bs_node *node = &s->graph->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const void *tensors[BS_MAX_WEIGHTS];
    const int32_t count = op->weights ? op->weights(s->graph, node, specs) : 0;
    uint8_t *prepared = s->weights + s->plan->nodes[n].prepared_offset;
    for (int32_t i = 0; i < count; i++) {
        char name[2 * BS_MAX_NAME];
        bs_weight_info info;
        weight_name(name, sizeof name, node, specs[i].suffix);
        const bs_status found = bs_weight_find(weights, name, &specs[i], &info, error);
        if (found != BS_OK)
            return found;
        tensors[i] = bs_weight_view(weights, &specs[i], &info);
        if (tensors[i])
            continue;
        uint8_t *target = staging + bs_weight_offset(specs, i);
        const bs_status read = bs_weight_load(weights, name, &specs[i], &info, target, error);
        if (read != BS_OK)
            return read;
        tensors[i] = target;
    }
    bs_weight_prepare(s->graph, node, &s->plan->nodes[n], tensors, prepared);
    return BS_OK;
}

/* A router that is decided ahead needs no table of its own. */
static bool needs_weights(const bs_session *s, int32_t n)
{
    const bs_node *node = &s->graph->nodes[n];
    const bool forced = bs_node_is(node, &bs_op_route) && s->plan->routers[node->router].forced;
    return s->plan->node_live[n] && s->plan->nodes[n].unit == 0 && bs_op_get(node->op)->weights && !forced;
}

static bs_status load_weights(bs_session *s, const bs_weights *weights, uint8_t *staging, bs_error *error)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        if (!needs_weights(s, n))
            continue;
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        if (bs_op_get(s->graph->nodes[n].op)->weights(s->graph, &s->graph->nodes[n], specs) == 0)
            continue;
        if (!weights->find)
            return bs_fail(error, BS_ERROR_WEIGHTS, "%s \"%s\" needs weights and the session was given none",
                           bs_op_get(s->graph->nodes[n].op)->name, bs_node_name(&s->graph->nodes[n]));
        const bs_status status = load_node(s, n, weights, staging, error);
        if (status != BS_OK)
            return status;
    }
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ creation */

static void bind_own_states(bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        if (is_live_state(s->plan, n))
            s->bound[n].data = s->state[n];
}

/* Whether the session itself provides the memory of this state. */
static bool is_own_state(const bs_session *s, int32_t n)
{
    return s->state[n] && s->bound[n].data == s->state[n];
}

void bs_reset_state(bs_session *session)
{
    if (!session)
        return;
    session->state_valid = session->broken = false;
    for (int32_t n = 1; n < session->graph->n_nodes; n++) {
        const bs_buffer *b = &session->bound[n];
        if (!is_live_state(session->plan, n))
            continue;
        if (is_own_state(session, n)) {
            memset(session->state[n], 0, (size_t)session->state_bytes[n]);
            continue;
        }
        const size_t bytes = bs_dtype_bytes(b->dtype);
        int64_t elements = 1;
        for (int32_t i = 0; i < b->rank; i++)
            elements *= b->dim[i];
        for (int64_t k = 0; k < elements; k++) {
            int64_t rest = k, at = 0;
            for (int32_t i = b->rank - 1; i >= 0; i--) {
                at += rest % b->dim[i] * b->stride[i];
                rest /= b->dim[i];
            }
            memset((uint8_t *)b->data + at * (int64_t)bytes, 0, bytes);
        }
    }
}

static void *take(bs_arena *arena, uint64_t bytes, const char *what, bs_error *error)
{
    void *memory = bs_arena_take(arena, (size_t)bytes);
    if (!memory)
        bs_fail_arena(error, arena, bytes, what);
    return memory;
}

static bs_session *session_carve(bs_memory *memory, const bs_plan *plan, const bs_sizes *sizes, bs_error *error)
{
    carver c = {take(&memory->persistent, sizes->persistent, "the session", error), 0};
    if (!c.base)
        return NULL;
    memset(c.base, 0, (size_t)sizes->persistent);
    bs_session *s = carve(&c, 1, sizeof *s);
    s->plan = plan;
    s->graph = plan->graph;
    carve_session(&c, plan, s);
    s->transient = sizes->transient ? take(&memory->transient, sizes->transient, "activations", error) : NULL;
    if (sizes->transient && !s->transient)
        return NULL;
    s->scratch = s->transient ? s->transient + plan->transient_bytes : NULL;
    s->root.session = s;
    s->root.domains[0].count = 1;
    for (int32_t t = 0; t < plan->threads; t++) {
        s->contexts[t].session = s;
        s->contexts[t].thread = t;
        s->contexts[t].scratch = s->scratch + (uint64_t)t * plan->scratch_bytes;
    }
    s->root.scratch = s->scratch;
    return s;
}

/* What a profile is told before anything happens. */
static void profile_router(const void *user, int32_t index, bs_profile_router *router)
{
    const bs_session *s = user;
    router->name = s->graph->routers[index + 1].desc->name;
    router->paths = s->graph->routers[index + 1].desc->paths;
}

static void profile_unit(const void *user, int32_t index, bs_profile_unit *unit)
{
    const bs_session *s = user;
    const bs_plan_unit *u = &s->plan->units[index + 1];
    unit->name = s->graph->text + s->graph->blocks[u->block].name;
    unit->router = u->domain ? s->graph->domains[u->domain].router : 0;
    unit->path = u->domain ? s->graph->domains[u->domain].path : -1;
    unit->read_bytes = s->store.facts[index].read_bytes;
    unit->slot_bytes = s->store.facts[index].slot_bytes;
}

static void profile_stage(const void *user, int32_t index, bs_profile_stage *stage)
{
    const bs_session *s = user;
    stage->router = s->plan->stages[index].router;
    stage->n_units = s->plan->stages[index].n_units;
    stage->units = s->plan->stage_units + s->plan->stages[index].first_unit;
}

static bool describe_to_profile(bs_session *s, const bs_stream_desc *stream, bs_error *error)
{
    const bs_profile_header_desc header = {s, s->graph->n_routers - 1, s->plan->n_units - 1, s->plan->n_stages,
                                           profile_router, profile_unit, profile_stage,
                                           s->plan->slot_bytes, s->plan->chunk_bytes, stream->policy, stream->speculation};
    if (bs_profile_header(s->profile, &header) == BS_OK)
        return true;
    return bs_refuse(error, BS_ERROR_ARGUMENT, "the profile is in use by another session");
}

/* The store plans its reads and starts its lanes last: nothing fails after that. */
static bool session_start(bs_session *s, const bs_session_desc *desc, uint8_t *staging, uint8_t *slots, bs_error *error)
{
    s->platform = desc->platform ? desc->platform : bs_platform_default();
    s->profile = desc->profile;
    bind_own_states(s);
    if (load_weights(s, &desc->weights, staging, error) != BS_OK)
        return false;
    const uintptr_t page = ~(uintptr_t)(BS_PAGE_BYTES - 1);
    uint8_t *const lanes = staging ? staging + ((((uintptr_t)staging + BS_PAGE_BYTES - 1) & page) - (uintptr_t)staging) : NULL;
    const bs_store_desc store = {s->plan, s->platform, &desc->weights, &desc->stream, desc->profile, (uint8_t *)s->store.base, slots, lanes,
                                 s->weights};
    if (bs_workers_start(&s->pool, s->platform, s->plan->threads, error) != BS_OK)
        return false;
    if (bs_store_open(&s->store, &store, error) == BS_OK && describe_to_profile(s, &desc->stream, error))
        return true;
    bs_workers_stop(&s->pool);
    bs_store_close(&s->store);
    return false;
}

bs_session *bs_session_create(bs_memory *memory, const bs_plan *plan, const bs_session_desc *desc, bs_error *error)
{
    const bs_session_desc none = {.platform = NULL};
    bs_sizes sizes;
    if (!memory || !plan) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_session_create: memory or plan is NULL");
        return NULL;
    }
    if (!desc)
        desc = &none;
    if (!bs_tier_available(plan->tier)) {
        bs_fail(error, BS_ERROR_UNSUPPORTED, "the plan is for tier %s, which this machine does not have", bs_tier_name(plan->tier));
        return NULL;
    }
    bs_plan_sizes(plan, &sizes);
    const size_t mark[4] = {memory->persistent.used, memory->transient.used, memory->staging.used, memory->slots.used};
    bs_session *s = session_carve(memory, plan, &sizes, error);
    uint8_t *staging = s && sizes.staging ? take(&memory->staging, sizes.staging, "reading weights", error) : NULL;
    uint8_t *slots = s && sizes.slots ? take(&memory->slots, sizes.slots, "weights of blocks", error) : NULL;
    const bool ok = s && (sizes.staging == 0 || staging) && (sizes.slots == 0 || slots) && session_start(s, desc, staging, slots, error);
    if (!ok || !bs_plan_streams(plan))
        memory->staging.used = mark[2]; /* only while loading */
    if (!ok) {
        memory->persistent.used = mark[0];
        memory->transient.used = mark[1];
        memory->slots.used = mark[3];
        return NULL;
    }
    return s;
}

void bs_session_close(bs_session *session)
{
    if (!session)
        return;
    bs_workers_stop(&session->pool);
    bs_store_close(&session->store);
}

/* ------------------------------------------------------------------------------------------------- binding */

static int32_t find_named(const bs_session *s, const char *name)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        const bs_node *node = &s->graph->nodes[n];
        const bool bindable = bs_node_is(node, &bs_op_input) || bs_node_is(node, &bs_op_output) || bs_node_is(node, &bs_op_state);
        if (bindable && strcmp(bs_node_name(node), name) == 0)
            return n;
    }
    return 0;
}

static const bs_value_info *bound_value(const bs_session *s, int32_t n)
{
    const bs_node *node = &s->graph->nodes[n];
    return &s->graph->values[bs_node_is(node, &bs_op_output) ? bs_node_in(s->graph, node)[0] : node->first_out];
}

bs_status bs_bind(bs_session *session, const char *name, const bs_buffer *buffer, bs_error *error)
{
    if (!session || !name || !buffer || !buffer->data)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_bind: the session, the name or the buffer is NULL");
    const int32_t n = find_named(session, name);
    if (!n)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_bind: there is no input, output or state \"%s\"", name);
    const bs_value_info *v = bound_value(session, n);
    if (buffer->dtype != v->dtype || buffer->rank != v->rank)
        return bs_fail(error, BS_ERROR_SHAPE, "bs_bind \"%s\": %s of rank %d given, %s of rank %d expected", name,
                       bs_dtype_name(buffer->dtype), buffer->rank, bs_dtype_name(v->dtype), v->rank);
    bs_buffer b = *buffer;
    bool dense = true;
    for (int32_t i = 0; i < b.rank; i++) {
        char text[64];
        const int64_t maximum = bs_dim_max(session->graph, v->dims[i]);
        const bool fixed = bs_dim_is_const(session->graph, v->dims[i]);
        if (b.dim[i] < 1 || b.dim[i] > maximum || (fixed && b.dim[i] != maximum))
            return bs_fail(error, BS_ERROR_SHAPE, "bs_bind \"%s\": dimension %d is %lld, expected %s", name, i, (long long)b.dim[i],
                           bs_dim_text(session->graph, v->dims[i], text, sizeof text));
        dense = dense && b.stride[i] == 0;
    }
    for (int32_t i = b.rank - 1; dense && i >= 0; i--)
        b.stride[i] = i == b.rank - 1 ? 1 : b.stride[i + 1] * b.dim[i + 1];
    session->bound[n] = b;
    return BS_OK;
}

bs_status bs_set_route(bs_session *session, const char *router, bs_route_function function, void *user, bs_error *error)
{
    for (int32_t r = 1; session && router && r < session->graph->n_routers; r++)
        if (strcmp(session->graph->routers[r].desc->name, router) == 0) {
            session->callbacks[r].function = function;
            session->callbacks[r].user = user;
            return BS_OK;
        }
    return bs_fail(error, BS_ERROR_ARGUMENT, "bs_set_route: there is no router \"%s\"", router ? router : "");
}

/* ------------------------------------------------------------------------------------------------- extents */

/* Extents that an input's buffer gives; two inputs that share a symbol must agree. */
static bs_status take_symbols(bs_session *s, int32_t n, bs_error *error)
{
    const bs_value_info *v = bound_value(s, n);
    for (int32_t i = 0; i < v->rank; i++) {
        int64_t *now = &s->dims[v->dims[i]];
        if (s->graph->dims[v->dims[i]].kind != BS_DIM_SYMBOL)
            continue;
        if (*now != 0 && *now != s->bound[n].dim[i] && s->plan->node_live[n])
            return bs_fail(error, BS_ERROR_SHAPE, "input \"%s\": dimension %d is %lld, another input says %lld", bs_node_name(&s->graph->nodes[n]),
                           i, (long long)s->bound[n].dim[i], (long long)*now);
        *now = *now ? *now : s->bound[n].dim[i];
    }
    return BS_OK;
}

/* Inputs that this plan does not read give what the others leave open, when they are bound. */
static bs_status set_symbols(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    bs_status status = BS_OK;
    for (int32_t d = 0; d < g->n_dims; d++)
        s->dims[d] = g->dims[d].kind == BS_DIM_CONST ? g->dims[d].maximum : 0;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t n = 1; n < g->n_nodes && status == BS_OK; n++) {
            if (!bs_node_is(&g->nodes[n], &bs_op_input) || s->plan->node_live[n] == (pass == 1))
                continue;
            if (s->bound[n].data)
                status = take_symbols(s, n, error);
            else if (pass == 0)
                status = bs_fail(error, BS_ERROR_UNBOUND, "input \"%s\" is not bound", bs_node_name(&g->nodes[n]));
        }
    return status;
}

static bs_status derive_extents(bs_session *s, bs_error *error)
{
    for (int32_t d = 0; d < s->graph->n_dims; d++) {
        const bs_dim_info *dim = &s->graph->dims[d];
        if (dim->kind == BS_DIM_SYMBOL && s->dims[d] == 0)
            s->dims[d] = dim->maximum; /* no input has it: states keep their maximum */
        if (dim->kind == BS_DIM_DERIVED)
            s->dims[d] = bs_floor_div(s->dims[dim->parent] * dim->mul + dim->add, dim->div);
        if (s->dims[d] < 1)
            return bs_fail(error, BS_ERROR_SHAPE, "an extent of this run is %lld: the input is smaller than the network's window",
                           (long long)s->dims[d]);
    }
    return BS_OK;
}

static bs_status check_extents(const bs_session *s, int32_t n, bs_error *error)
{
    const bs_value_info *v = bound_value(s, n);
    for (int32_t i = 0; i < v->rank; i++)
        if (s->bound[n].dim[i] != s->dims[v->dims[i]])
            return bs_fail(error, BS_ERROR_SHAPE, "\"%s\": dimension %d of its buffer is %lld, this run needs %lld",
                           bs_node_name(&s->graph->nodes[n]), i, (long long)s->bound[n].dim[i], (long long)s->dims[v->dims[i]]);
    return BS_OK;
}

/* An own state is as large as this run's extents ask, densely; a change of size starts it anew. Once all else is sound. */
static void shape_own_state(bs_session *s, int32_t n, const bs_value_info *v)
{
    bs_buffer *b = &s->bound[n];
    bool same = b->rank == v->rank;
    for (int32_t i = 0; same && i < v->rank; i++)
        same = b->dim[i] == s->dims[v->dims[i]];
    if (same)
        return;
    b->dtype = v->dtype;
    b->rank = v->rank;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        b->dim[i] = s->dims[v->dims[i]];
        b->stride[i] = i == v->rank - 1 ? 1 : b->stride[i + 1] * b->dim[i + 1];
    }
    memset(s->state[n], 0, (size_t)s->state_bytes[n]);
    s->state_valid = false;
}

/* A copy of a state that already has a place of its own is not asked for. */
static bool output_is_optional(const bs_session *s, int32_t n)
{
    const int32_t value = bs_node_in(s->graph, &s->graph->nodes[n])[0];
    return s->plan->values[value].place == BS_PLACE_STATE;
}

static bs_status check_bound(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    bs_status status = BS_OK;
    for (int32_t n = 1; n < g->n_nodes && status == BS_OK; n++) {
        const bool input = bs_node_is(&g->nodes[n], &bs_op_input) && s->plan->node_live[n];
        const bool output = bs_node_is(&g->nodes[n], &bs_op_output), state = is_live_state(s->plan, n) && !is_own_state(s, n);
        if (!input && !output && !state)
            continue;
        if (!s->bound[n].data && output_is_optional(s, n))
            continue;
        if (!s->bound[n].data)
            return bs_fail(error, BS_ERROR_UNBOUND, "output \"%s\" is not bound", bs_node_name(&g->nodes[n]));
        status = check_extents(s, n, error);
    }
    return status;
}

static bs_status count_rows(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t d = 1; d < g->n_domains; d++) {
        const bs_domain *domain = &g->domains[d];
        bs_rows_state *rows = &s->root.domains[d];
        memset(rows, 0, sizeof *rows);
        if (domain->kind == BS_DOMAIN_ROWS || domain->kind == BS_DOMAIN_SEGMENTS)
            rows->count = (int32_t)s->dims[domain->rows];
        if (domain->kind == BS_DOMAIN_PATCHES) {
            const int64_t size = s->plan->domains[d].size;
            rows->count = (int32_t)(bs_ceil_div(s->dims[domain->height], size) * bs_ceil_div(s->dims[domain->width], size));
        }
        if (rows->count > s->plan->domains[d].max_rows)
            return bs_fail(error, BS_ERROR_LIMIT, "%d cells, at most %lld were planned", rows->count, (long long)s->plan->domains[d].max_rows);
    }
    return BS_OK;
}

/* ----------------------------------------------------------------------------------------------------- run */

static void run_begin(bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        if (is_live_state(s->plan, n) && is_own_state(s, n))
            shape_own_state(s, n, bound_value(s, n));
    const size_t slots = (size_t)s->graph->n_routers * BS_MAX_PATHS;
    memset(s->path_ns, 0, (size_t)s->plan->threads * slots * sizeof *s->path_ns);
    memset(s->route_counts, 0, (size_t)s->plan->threads * slots * sizeof *s->route_counts);
    for (int32_t r = 1; r < s->graph->n_routers; r++) {
        s->dropped[r] = 0;
        memset(s->chosen[r], -1, (size_t)s->plan->domains[bs_plan_top_domain(s->graph, s->graph->routers[r].domain)].max_rows);
    }
    atomic_store(&s->status, BS_OK);
}

/* Sums what the threads counted. */
static void run_end(bs_session *s)
{
    const size_t slots = (size_t)s->graph->n_routers * BS_MAX_PATHS;
    memset(s->counts, 0, slots * sizeof *s->counts);
    for (int32_t t = 0; t < s->plan->threads; t++)
        for (size_t k = 0; k < slots; k++) {
            s->counts[k] += s->route_counts[(size_t)t * slots + k];
            if (t > 0)
                s->path_ns[k] += s->path_ns[(size_t)t * slots + k];
        }
}

static bool writes_states(const bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        const bs_node *node = &s->graph->nodes[n];
        if (s->plan->node_live[n] && (bs_node_is(node, &bs_op_state_write) || bs_node_is(node, &bs_op_state_append)))
            return true;
    }
    return false;
}

bs_status bs_run(bs_session *session, bs_error *error)
{
    if (!session)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_run: the session is NULL");
    if (session->broken)
        return bs_fail(error, BS_ERROR_DATA, "the last run failed and left its states in between: call bs_reset_state");
    bs_status status = set_symbols(session, error);
    status = status == BS_OK ? derive_extents(session, error) : status;
    status = status == BS_OK ? check_bound(session, error) : status;
    status = status == BS_OK ? count_rows(session, error) : status;
    status = status == BS_OK ? bs_segments_begin(session, error) : status;
    if (status != BS_OK)
        return status;
    run_begin(session);
    bs_execute(session);
    run_end(session);
    bs_store_leave(&session->store);
    status = (bs_status)atomic_load(&session->status);
    if (status == BS_OK) {
        session->state_valid = writes_states(session);
        return BS_OK;
    }
    session->state_valid = false;
    session->broken = writes_states(session);
    const bs_node *node = &session->graph->nodes[atomic_load(&session->failed_node)];
    return bs_fail(error, status, "%s \"%s\": %s", bs_op_get(node->op)->name, bs_node_name(node), bs_status_text(status));
}

bool bs_state_valid(const bs_session *session)
{
    return session && session->state_valid;
}

/* ---------------------------------------------------------------------------------------------------- asking */

bs_status bs_decision_get(const bs_session *session, const char *router, bs_decision *decision)
{
    for (int32_t r = 1; session && router && decision && r < session->graph->n_routers; r++) {
        if (strcmp(session->graph->routers[r].desc->name, router) != 0)
            continue;
        const int32_t top = bs_plan_top_domain(session->graph, session->graph->routers[r].domain);
        decision->paths = session->graph->routers[r].desc->paths;
        decision->counts = session->counts + (size_t)r * BS_MAX_PATHS;
        decision->ns = session->path_ns + (size_t)r * BS_MAX_PATHS;
        decision->cells = session->root.domains[top].count;
        decision->chosen = session->chosen[r];
        decision->dropped = session->dropped[r];
        return BS_OK;
    }
    return BS_ERROR_ARGUMENT;
}

void bs_session_stats(const bs_session *session, bs_run_stats *stats)
{
    if (session && stats)
        *stats = session->stats;
}

void bs_session_stream_stats(bs_session *session, bs_stream_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    if (session && session->store.plan)
        bs_store_stats(&session->store, stats);
}

bs_status bs_session_prediction_get(bs_session *session, int32_t stage, bs_predictor predictor, bs_prediction *prediction)
{
    memset(prediction, 0, sizeof *prediction);
    if (!session || !session->store.plan || stage < -1 || stage >= session->plan->n_stages || (int32_t)predictor < 0 || predictor >= BS_PREDICTOR_COUNT)
        return BS_ERROR_ARGUMENT;
    for (int32_t j = stage < 0 ? 0 : stage; j < (stage < 0 ? session->plan->n_stages : stage + 1); j++)
        bs_store_prediction(&session->store, j, predictor, prediction);
    return BS_OK;
}
