/* run/session_make.c - creating and closing a session: resident weights loaded and prepared, threads started, states
 * bound. Relies on run/session_make.h and ops/weights.h. Must never leave anything running after a failure. */
#include "run/session_make.h"
#include "ops/structure.h"
#include "ops/weights.h"

/* ------------------------------------------------------------------------------------------------- weights */

static bool shared_weights_fit(const bs_session *s, const bs_session_desc *desc, bs_error *error)
{
    const bs_session *of = desc->weights_of;
    if (of && of->plan != s->plan)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "bs_session_desc.weights_of: a session of another plan");
    if (of && of->device && of->device != desc->device)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "bs_session_desc.weights_of: a session on another device");
    return true;
}

/* A node whose weights are being loaded. */
typedef struct node_load {
    const bs_session *s;
    const bs_weights *weights;
    const bs_node *node;
    const bs_node_plan *plan;
    const bs_op *op;
    int32_t count;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const void *tensors[BS_MAX_WEIGHTS];
    uint8_t *staging, *prepared;
} node_load;

/* Where a tensor is read to: one that is only copied goes straight to its place; rows of the first one come last. */
static uint8_t *load_target(const node_load *l, int32_t i)
{
    const bs_bytes offset = bs_weight_offset(l->specs, i);
    if (!bs_op_prepares(l->op))
        return bs_bytes_at(l->prepared, offset);
    if (!l->op->rules->weights.by_rows)
        return bs_bytes_at(l->staging, offset);
    const bs_bytes first = bs_weight_offset(l->specs, 1);
    return bs_bytes_at(l->staging, bs_bytes_sub(i > 0 ? offset : bs_weight_offset(l->specs, l->count), first));
}

/* The first tensor, some rows at a time. */
static bool load_rows(node_load *l, const char *name, const bs_weight_info *info, bs_error *error)
{
    const int32_t all = (int32_t)l->specs[0].dim[0], most = bs_weight_rows(l->op, l->specs);
    uint8_t *target = load_target(l, 0);
    l->tensors[0] = target;
    for (int32_t first = 0, count; first < all; first += count) {
        count = bs_min_i32(most, all - first);
        if (bs_weight_load_rows(l->weights, name, &l->specs[0], info, first, count, l->plan->tier, target, error) !=
            BS_OK)
            return false;
        l->op->rules->weights.prepare(l->s->graph, l->node, l->plan, l->tensors, first, count, l->prepared);
    }
    return true;
}

/* The tensors of one node, read in place or through staging; rows of the first one need all others. */
static bool load_tensors(node_load *l, bs_error *error)
{
    char first[2 * BS_MAX_NAME] = "";
    bs_weight_info first_info = {0};
    for (int32_t i = 0; i < l->count; i++) {
        char name[2 * BS_MAX_NAME];
        bs_weight_info info;
        bs_weight_name(name, sizeof name, l->node, l->specs[i].suffix);
        if (bs_weight_find(l->weights, name, &l->specs[i], &info, error) != BS_OK)
            return false;
        l->tensors[i] = bs_weight_view(l->weights, &l->specs[i], &info);
        if (l->tensors[i])
            continue;
        if (i == 0 && l->op->rules->weights.by_rows) {
            memcpy(first, name, sizeof first);
            first_info = info;
            continue;
        }
        uint8_t *target = load_target(l, i);
        if (bs_weight_load(l->weights, name, &l->specs[i], &info, l->plan->tier, target, error) != BS_OK)
            return false;
        l->tensors[i] = target;
    }
    if (l->count > 0 && !l->tensors[0])
        return load_rows(l, first, &first_info, error);
    bs_weight_prepare(l->s->graph, l->node, l->plan, l->tensors, l->prepared);
    return true;
}

static bool load_node(bs_session *s, int32_t n, const bs_weights *weights, uint8_t *staging, bs_error *error)
{
    const bs_node_plan *plan = &s->plan->nodes[n];
    node_load l = {.s = s, .weights = weights, .node = &s->graph->nodes[n], .plan = plan, .staging = staging};
    l.op = bs_op_get(l.node->op);
    l.count = bs_node_weights(s->graph, l.node, l.specs);
    l.prepared = s->device ? s->device->api->load(s->on_device, error) : bs_bytes_at(s->weights, plan->prepared_offset);
    if (!l.prepared || !load_tensors(&l, error))
        return false;
    return !s->device || s->device->api->loaded(s->on_device, bs_bytes_figure(plan->prepared_offset),
                                                bs_bytes_figure(plan->prepared_bytes), error) == BS_OK;
}

/* Whether resident weights are loaded for this node: not when it reads the copy of another node of the same weights. */
static bool loads_weights(const bs_session *s, int32_t n)
{
    const bs_node_plan *np = &s->plan->nodes[n];
    return bs_plan_needs_weights(s->plan, n) && np->unit == 0 && np->owner == n;
}

/* On a device the weights have arrived when this returns, so another session may read them. */
static bool load_weights(bs_session *s, const bs_weights *weights, uint8_t *staging, bs_error *error)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        if (!loads_weights(s, n))
            continue;
        if (!weights->find)
            return bs_refuse(error, BS_ERROR_WEIGHTS, "%s \"%s\" needs weights and the session was given none",
                             bs_op_get(s->graph->nodes[n].op)->name, bs_node_name(&s->graph->nodes[n]));
        if (!load_node(s, n, weights, staging, error))
            return false;
    }
    return !s->device || s->device->api->settle(s->on_device, error) == BS_OK;
}

/* ------------------------------------------------------------------------------------------------ creation */

static void bind_own_states(bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        if (bs_session_is_state(s->plan, n))
            bs_bound_of(s, n)->buffer.data = bs_bound_of(s, n)->state;
}


/* ------------------------------------------------------------------------------------------------- device */

/* Takes the device session's memory from the device's arenas: as many bytes as bs_plan_sizes said. */
static bool device_start(bs_session *s, bs_device *device, void *stream, bs_error *error)
{
    bs_device_layout layout;
    bs_device_layout_make(s->plan, &layout);
    const bs_bytes weights = s->weights ? bs_bytes_of(0) : s->plan->weight_bytes;
    const uint64_t bytes = bs_bytes_figure(bs_bytes_add(weights, bs_bytes_of(layout.device_bytes)));
    uint8_t *const memory = bs_take_table(&device->memory, bytes, 1, "the session on the GPU", error);
    s->weights = s->weights ? s->weights : memory;
    s->device_memory = memory ? bs_bytes_at(memory, weights) : NULL;
    s->device_pinned = memory ? bs_take_table(&device->pinned, layout.pinned_bytes, 1,
                                              "what is copied to and from the GPU", error)
                              : NULL;
    if (!s->device_pinned)
        return false;
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        if (bs_session_is_state(s->plan, n))
            bs_bound_of(s, n)->state = bs_bytes_at(
                s->device_memory, bs_bytes_add(bs_bytes_of(layout.states), bs_device_state_place(s->plan, n)));
    const bs_device_client client = {s->graph,        s->plan,     s->platform, s->dims,    s->bound,
                                     s->bound_at,     s->n_bound,  s->root.domains, s->offsets, s->weights,
                                     s->callbacks,    s->chosen,   s->counts,   s->dropped, s->fault, stream};
    s->client = client;
    if (device->api->open(device, &s->client, s->device_memory, s->device_pinned, &s->on_device, error) != BS_OK)
        return false;
    s->device = device;
    return true;
}

/* Describes a router to the profile, before anything is recorded. */
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
    unit->read_bytes = bs_bytes_figure(s->store.facts[index].read_bytes);
    unit->slot_bytes = bs_bytes_figure(s->store.facts[index].slot_bytes);
}

static void profile_phase(const void *user, int32_t index, bs_profile_phase *phase)
{
    const bs_session *s = user;
    phase->router = s->plan->phases[index].router;
    phase->n_units = s->plan->phases[index].n_units;
    phase->units = s->plan->phase_units + s->plan->phases[index].first_unit;
}

static const char *profile_node(const void *user, int32_t index, bs_node_facts *node)
{
    const bs_session *s = user;
    bs_graph_node_get(s->graph, index + 1, node); /* there is one */
    return s->graph->text + s->graph->blocks[node->block].name;
}

static bool describe_to_profile(bs_session *s, const bs_stream_desc *stream, bs_error *error)
{
    const bs_profile_header_desc header = {s,
                                           s->graph->n_routers - 1,
                                           s->plan->n_units - 1,
                                           s->plan->n_phases,
                                           profile_router,
                                           profile_unit,
                                           profile_phase,
                                           bs_bytes_figure(s->plan->slot_bytes),
                                           bs_bytes_figure(s->plan->chunk_bytes),
                                           stream->policy,
                                           stream->speculation,
                                           s->ops != 0 ? s->graph->n_nodes - 1 : 0,
                                           profile_node};
    if (bs_profile_header(s->profile, &header) == BS_OK)
        return true;
    return bs_refuse(error, BS_ERROR_ARGUMENT, "bs_session_desc.profile: another session uses it");
}

/* The store plans its reads and starts its lanes last. After that only one thing can fail: a profile that is in use. */
static bool session_start(bs_session *s, const bs_session_desc *desc, uint8_t *staging, uint8_t *slots, bs_error *error)
{
    s->platform = desc->platform ? desc->platform : bs_platform_default();
    s->profile = desc->profile;
    s->ops = bs_plan_on_device(s->plan) ? 0 : bs_profile_takes_ops(desc->profile);
    if (bs_plan_on_device(s->plan) && !desc->device)
        return bs_refuse(error, BS_ERROR_UNSUPPORTED,
                         "the plan is for a GPU: bs_session_desc.device is NULL (bs_cuda_open gives it)");
    if (!shared_weights_fit(s, desc, error))
        return false;
    if (desc->weights_of)
        s->weights = desc->weights_of->weights;
    if (bs_plan_on_device(s->plan) && !device_start(s, desc->device, desc->cuda_stream, error))
        return false;
    bind_own_states(s);
    if (s->device)
        bs_reset_state(s);
    if (!desc->weights_of && !load_weights(s, &desc->weights, staging, error))
        return false;
    uint8_t *const lanes = staging ? staging + bs_to_aligned(staging, BS_PAGE_BYTES) : NULL;
    bs_device_layout layout;
    bs_device_layout_make(s->plan, &layout);
    if (s->device)
        slots = s->plan->desc.in_place ? s->device_pinned + layout.slots_pinned : s->device_memory + layout.slots;
    const bs_store_desc store = {s->plan,
                                 s->platform,
                                 &desc->weights,
                                 &desc->stream,
                                 desc->profile,
                                 (uint8_t *)s->store.base,
                                 slots,
                                 lanes,
                                 s->weights,
                                 s->device,
                                 s->on_device,
                                 s->device && !s->plan->desc.in_place ? s->device_pinned + layout.rooms : NULL,
                                 bs_bytes_of(layout.room_bytes)};
    if (bs_workers_start(&s->pool, s->pool.workers, s->platform, s->plan->threads, error) != BS_OK)
        return false;
    if (bs_store_open(&s->store, &store, error) && describe_to_profile(s, &desc->stream, error))
        return true;
    bs_workers_stop(&s->pool);
    bs_store_close(&s->store);
    return false;
}

#if defined(BS_DEBUG)
static bool arenas_disjoint(const bs_memory *m)
{
    const bs_arena *arenas[4] = {&m->persistent, &m->transient, &m->staging, &m->slots};
    for (int32_t i = 0; i < 4; i++)
        for (int32_t k = i + 1; k < 4; k++)
            if (!bs_disjoint(arenas[i]->base, arenas[i]->size, arenas[k]->base, arenas[k]->size))
                return false;
    return true;
}
#endif

/* Takes `bytes` from an arena. bytes 0: takes nothing, and the arena may be empty. */
static bool arena_gives(bs_arena *arena, uint64_t bytes, const char *what, uint8_t **memory, bs_error *error)
{
    *memory = bytes ? bs_take_table(arena, bytes, 1, what, error) : NULL;
    return *memory || bytes == 0;
}

bs_session *bs_session_create(bs_memory *memory, const bs_plan *plan, const bs_session_desc *desc, bs_error *error)
{
    const bs_session_desc none = {.platform = NULL};
    bs_sizes sizes;
    uint8_t *staging, *slots;
    if (!memory || !plan) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_session_create: memory or plan is NULL");
        return NULL;
    }
    BS_DEBUG_CHECK(plan->mark == BS_MARK_PLAN && plan->graph->mark == BS_MARK_GRAPH);
    BS_DEBUG_CHECK(arenas_disjoint(memory));
    if (!desc)
        desc = &none;
    if (!bs_plan_on_device(plan) && !bs_tier_available(plan->tier)) {
        bs_fail(error, BS_ERROR_UNSUPPORTED, "the plan is for tier %s, which this machine does not have",
                bs_tier_name(plan->tier));
        return NULL;
    }
    bs_plan_sizes(plan, &sizes);
    if (desc->weights_of && !bs_plan_streams(plan))
        sizes.staging = 0; /* no weights are read */
    const bs_memory before = *memory;
    bs_session *s = bs_session_carve(memory, plan, &sizes, !desc->weights_of, error);
    const size_t device_mark[2] = {desc->device ? desc->device->memory.used : 0,
                                   desc->device ? desc->device->pinned.used : 0};
    const bool ok = s && arena_gives(&memory->staging, sizes.staging, "reading weights", &staging, error) &&
                    arena_gives(&memory->slots, sizes.slots, "weights of blocks", &slots, error) &&
                    session_start(s, desc, staging, slots, error);
    if (!ok || !bs_plan_streams(plan))
        memory->staging.used = before.staging.used; /* staging is needed only while loading */
    if (!ok) {
        if (s && s->device)
            s->device->api->close(s->on_device);
        if (desc->device) {
            desc->device->memory.used = device_mark[0];
            desc->device->pinned.used = device_mark[1];
        }
        memory->persistent.used = before.persistent.used;
        memory->transient.used = before.transient.used;
        memory->slots.used = before.slots.used;
        return NULL;
    }
    s->mark = BS_MARK_SESSION;
    return s;
}

void bs_session_close(bs_session *session)
{
    if (!session)
        return;
    bs_wait(session, NULL);
    session->mark = 0;
    bs_workers_stop(&session->pool);
    bs_store_close(&session->store); /* its lanes copy to the device */
    if (session->device)
        session->device->api->close(session->on_device);
}
