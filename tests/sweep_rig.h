/* sweep_rig.h: one life of the sweep model: opened, built, planned (for the best tier), a session made, bound and run,
 * all in memory of exactly the bytes that were asked for, with nothing beyond them that could be touched unseen.
 *
 * Owns: the pools of all arenas, the caller's buffers, the platform without threads.
 * Relies on: sweep_net.h; run/session.h for what a graph binds.
 * Must never: expect of a damaged file what only the sound one has: it binds whatever the graph asks for.
 */
#ifndef SWEEP_RIG_H
#define SWEEP_RIG_H

#include "check.h"
#include "run/session.h"
#include "sweep_net.h"
#include "sweep_share.h"

#include <time.h>

#if defined(__SANITIZE_ADDRESS__)
#define SWEEP_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SWEEP_POISON 1
#endif
#endif
#ifdef SWEEP_POISON
void __asan_poison_memory_region(const volatile void *at, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *at, size_t bytes);
#endif

/* Of the processor, so that what else it does shows less. */
static inline double sweep_ms(void) { return (double)clock() * 1e3 / CLOCKS_PER_SEC; }

/* ---------------------------------------------------------------------------------------------------------- memory */

typedef enum sweep_arena {
    IN_MODEL,
    IN_GRAPH,
    IN_PLAN,
    IN_PERSISTENT,
    IN_TRANSIENT,
    IN_STAGING,
    IN_SLOTS,
    SWEEP_ARENAS
} sweep_arena;
static const char *const sweep_arena_names[SWEEP_ARENAS] = {"model",     "graph",   "plan", "persistent",
                                                            "transient", "staging", "slots"};

enum {
    SWEEP_POOL = 131072,
    SWEEP_GUARD = 256,
    SWEEP_ROOM = SWEEP_POOL + 2 * SWEEP_GUARD,
    SWEEP_BUFFERS = 16,
    SWEEP_BUFFER = 2048,
    SWEEP_RUNS = 2
};

static _Alignas(4096) uint8_t sweep_pools[SWEEP_ARENAS][SWEEP_ROOM];
static _Alignas(64) uint8_t sweep_buffers[SWEEP_BUFFERS][SWEEP_BUFFER + SWEEP_GUARD];

/* `bytes` that may be touched, and nothing behind them. */
static inline uint8_t *sweep_fence(uint8_t *pool, size_t room, size_t bytes)
{
#ifdef SWEEP_POISON
    __asan_unpoison_memory_region(pool, room);
    __asan_poison_memory_region(pool + bytes, room - bytes);
#else
    memset(pool + bytes, 0xA5, room - bytes < SWEEP_GUARD ? room - bytes : SWEEP_GUARD);
#endif
    return pool;
}

static inline bool sweep_fence_holds(const uint8_t *pool, size_t room, size_t bytes)
{
#ifndef SWEEP_POISON
    for (size_t i = bytes; i < room && i < bytes + SWEEP_GUARD; i++)
        if (pool[i] != 0xA5)
            return false;
#else
    (void)pool, (void)room, (void)bytes; /* the sanitizer ends the program */
#endif
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ lives */

typedef enum sweep_step { AT_OPEN, AT_BUILD, AT_PLAN, AT_SESSION, AT_BIND, AT_RUN, AT_END, SWEEP_STEPS } sweep_step;
static const char *const sweep_step_names[SWEEP_STEPS] = {"opening", "building", "planning", "the session",
                                                          "binding", "running",  "nowhere"};

typedef struct sweep_how {
    const uint8_t *bytes;    /* of the file */
    size_t n_bytes;
    const bs_reader *reader; /* or where they come from; or a path */
    const char *path;
    const bs_platform *platform;
    bs_plan_desc plan;
    bs_stream_desc stream;
    bool check;              /* bs_model_check, whose answer is noted and not followed */
    bs_profile *profile;
    const bs_weights *weights; /* NULL: the model's */
    sweep_arena least;       /* this arena gets `bytes_less` fewer than asked; SWEEP_ARENAS: none */
    size_t bytes_less;
} sweep_how;

typedef struct sweep_life {
    sweep_step step; /* that failed */
    bs_status status;
    bs_error error;
    bs_status checked;
    bs_arena arena[SWEEP_ARENAS];
    size_t bytes[SWEEP_ARENAS];
    bs_model *model;
    bs_graph *graph;
    bs_plan *plan;
    bs_sizes sizes;
    bs_memory memory;
    bs_session *session;
    size_t n_out;
    uint8_t out[SWEEP_BUFFERS * SWEEP_BUFFER]; /* what the last run gave, one output after the other */
} sweep_life;

static inline bool sweep_stop(sweep_life *l, sweep_step step, bs_status status)
{
    l->step = step;
    l->status = status;
    return false;
}

static inline bs_arena *sweep_take_arena(sweep_life *l, const sweep_how *how, sweep_arena which, uint64_t bytes)
{
    const size_t less = which == how->least ? how->bytes_less : 0;
    size_t n = bytes < SWEEP_POOL ? (size_t)bytes : SWEEP_POOL;
    n -= less < n ? less : n;
    l->bytes[which] = n;
    bs_arena_init(&l->arena[which], sweep_arena_names[which], sweep_fence(sweep_pools[which], SWEEP_ROOM, n), n);
    return &l->arena[which];
}

/* What the sound model's index takes, to be found once: the header asks for an estimate only. */
static size_t sweep_model_bytes = SWEEP_POOL;

static inline bool sweep_open(sweep_life *l, const sweep_how *how)
{
    memset(l, 0, offsetof(sweep_life, out));
    /* to try a direct read */
    bs_arena *arena = sweep_take_arena(l, how, IN_MODEL, sweep_model_bytes + (how->path ? 2 * BS_PROBE_BYTES : 0));
    l->model = how->path     ? bs_model_open_file(arena, how->platform, how->path, &l->error)
               : how->reader ? bs_model_open_reader(arena, how->reader, &l->error)
                             : bs_model_open_memory(arena, how->bytes, how->n_bytes, &l->error);
    return l->model || sweep_stop(l, AT_OPEN, l->error.status);
}

static inline bool sweep_make_graph(sweep_life *l, const sweep_how *how)
{
    const bs_graph_desc room = bs_model_graph_desc(l->model);
    const size_t bytes = bs_graph_bytes(&room) - BS_ALIGNMENT; /* arenas here are aligned */
    bs_arena *arena = sweep_take_arena(l, how, IN_GRAPH, bytes);
    l->graph = bs_graph_create(arena, &room);
    if (!l->graph) { /* says nothing else */
        bs_fail_arena(&l->error, arena, bs_bytes_of(bytes), "the graph");
        return sweep_stop(l, AT_BUILD, BS_ERROR_ARENA);
    }
    bs_status status = bs_model_build(l->model, l->graph, NULL, &l->error);
    return status == BS_OK || sweep_stop(l, AT_BUILD, status);
}

static inline bool sweep_make_plan(sweep_life *l, const sweep_how *how)
{
    const size_t bytes = bs_plan_bytes(l->graph, &how->plan) - BS_ALIGNMENT;
    l->plan = bs_plan_create(sweep_take_arena(l, how, IN_PLAN, bytes), NULL, l->graph, &how->plan, &l->error);
    if (!l->plan)
        return sweep_stop(l, AT_PLAN, l->error.status);
    bs_plan_sizes(l->plan, &l->sizes);
    return true;
}

static inline bool sweep_make_session(sweep_life *l, const sweep_how *how, bs_device *device)
{
    const bs_session_desc desc = {.platform = how->platform,
                                  .weights = how->weights ? *how->weights : bs_model_weights(l->model),
                                  .stream = how->stream,
                                  .profile = how->profile,
                                  .device = device};
    l->memory.persistent = *sweep_take_arena(l, how, IN_PERSISTENT, l->sizes.persistent);
    l->memory.transient = *sweep_take_arena(l, how, IN_TRANSIENT, l->sizes.transient);
    l->memory.staging = *sweep_take_arena(l, how, IN_STAGING, l->sizes.staging);
    l->memory.slots = *sweep_take_arena(l, how, IN_SLOTS, l->sizes.slots);
    l->session = bs_session_create(&l->memory, l->plan, &desc, &l->error);
    return l->session || sweep_stop(l, AT_SESSION, l->error.status);
}

/* -------------------------------------------------------------------------------------------------------- the
 * caller */

/* A row in three goes nowhere. */
static inline bs_status sweep_asked(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row)
{
    const int32_t paths = *(const int32_t *)user;
    (void)scores;
    for (int32_t r = 0; r < rows; r++)
        path_of_row[r] = r % 3 == 2 ? -1 : paths - 1;
    return BS_OK;
}

static inline void sweep_set_routes(sweep_life *l)
{
    for (int32_t r = 1; r < l->graph->n_routers; r++) {
        const bs_route_desc *desc = l->graph->routers[r].desc;
        if (desc->protocol == BS_ROUTE_CALLBACK)
            bs_set_route(l->session, desc->name, sweep_asked, (void *)(uintptr_t)&desc->paths, NULL);
    }
}

/* An extent in run `turn`: of a symbol what fits below its maximum, of what follows from it the same as in the
 * library. */
static inline int64_t sweep_extent(const bs_graph *g, bs_dim_id d, int32_t turn)
{
    static const int64_t wanted[2][3] = {{5, 8, 7}, {6, 8, 7}}; /* N, H, W */
    const bs_dim_info *info = &g->dims[d];
    if (info->kind == BS_DIM_DERIVED)
        return bs_floor_div(sweep_extent(g, info->parent, turn) * info->mul + info->add, info->div);
    if (info->kind == BS_DIM_CONST)
        return info->maximum;
    const char *name = g->text + info->name;
    const int64_t extent = wanted[turn][*name == 'H' ? 1 : *name == 'W' ? 2 : 0];
    return extent < info->maximum ? extent : info->maximum;
}

static inline void sweep_fill(const char *name, uint8_t *data, bs_dtype dtype, int64_t n, int32_t turn)
{
    const int32_t lengths[2][2] = {{2, 3}, {0, 6}}, past[2][2] = {{0, 0}, {2, 3}};
    for (int64_t i = 0; i < n; i++) {
        const float f = strcmp(name, "knob") == 0 ? 0.25f : (float)((i * 5 + 3 * turn) % 13) / 6.0f - 1.0f;
        const int32_t whole = i > 1 ? 0 : strcmp(name, "lengths") == 0 ? lengths[turn][i] : past[turn][i];
        if (dtype == BS_F32)
            memcpy(data + 4 * i, &f, 4);
        else if (dtype == BS_I32)
            memcpy(data + 4 * i, &whole, 4);
        else if (bs_dtype_bytes(dtype) == 1)
            data[i] = (uint8_t)(100 + (i < 28 ? i / 7 : i % 7 * 20 * (1 + turn)));
        else
            ((uint16_t *)(void *)data)[i] = (uint16_t)(0x3000 + 16 * (i % 32));
    }
}

/* Binds input or output `node` of the run; a buffer of exactly its bytes. */
static inline bool sweep_bind_one(sweep_life *l, int32_t node, int32_t index, int32_t turn, bs_buffer *b, size_t *bytes)
{
    const bs_graph *g = l->graph;
    const bool output = bs_node_is(&g->nodes[node], &bs_op_output);
    const bs_value_info *v = &g->values[output ? bs_node_in(g, &g->nodes[node])[0] : g->nodes[node].first_out];
    uint64_t n = 1;
    memset(b, 0, sizeof *b);
    b->dtype = v->dtype;
    b->rank = v->rank;
    for (int32_t i = 0; i < v->rank; i++) {
        b->dim[i] = sweep_extent(g, v->dims[i], turn);
        n = bs_mul_u64(n, b->dim[i] > 0 ? (uint64_t)b->dim[i] : 0);
    }
    if (index == SWEEP_BUFFERS || bs_mul_u64(n, bs_dtype_bytes(v->dtype)) > SWEEP_BUFFER) {
        bs_fail(&l->error, BS_ERROR_LIMIT, "the caller has no buffer of so many bytes for \"%s\"",
                bs_node_name(&g->nodes[node]));
        return sweep_stop(l, AT_BIND, BS_ERROR_LIMIT);
    }
    *bytes = (size_t)n * bs_dtype_bytes(v->dtype);
    b->data = sweep_fence(sweep_buffers[index], sizeof sweep_buffers[index], *bytes);
    if (output)
        memset(b->data, 0x77, *bytes);
    else
        sweep_fill(bs_node_name(&g->nodes[node]), b->data, v->dtype, (int64_t)n, turn);
    const bs_status status = bs_bind(l->session, bs_node_name(&g->nodes[node]), b, &l->error);
    return status == BS_OK || sweep_stop(l, AT_BIND, status);
}

/* Run number `turn`, from 0. What it gave is in l->out. */
static inline bool sweep_run(sweep_life *l, int32_t turn)
{
    const uint8_t *given[SWEEP_BUFFERS];
    size_t bytes[SWEEP_BUFFERS], n = 0, at = 0;
    int32_t index = 0;
    for (int32_t node = 1; node < l->graph->n_nodes; node++) {
        const bool output = bs_node_is(&l->graph->nodes[node], &bs_op_output);
        bs_buffer b;
        if (!output && !bs_node_is(&l->graph->nodes[node], &bs_op_input))
            continue;
        if (!sweep_bind_one(l, node, index, turn, &b, &bytes[n]))
            return false;
        given[n] = b.data;
        n += output;
        index++;
    }
    const bs_status status = bs_run(l->session, &l->error);
    for (size_t i = 0; status == BS_OK && i < n; at += bytes[i++])
        memcpy(l->out + at, given[i], bytes[i]);
    l->n_out = at;
    return status == BS_OK || sweep_stop(l, AT_RUN, status);
}

static inline void sweep_end(sweep_life *l)
{
    bs_session_close(l->session);
    bs_model_close(l->model);
    l->session = NULL;
    l->model = NULL;
}

/* What failed to be opened, planned or made a session of has given back what it took. */
static inline bool sweep_gave_back(const sweep_life *l)
{
    const bs_memory *m = &l->memory;
    return (l->step != AT_OPEN || l->arena[IN_MODEL].used == 0) &&
           (l->step != AT_PLAN || l->arena[IN_PLAN].used == 0) &&
           (l->step != AT_SESSION || m->persistent.used + m->transient.used + m->staging.used + m->slots.used == 0);
}

static inline bool sweep_fences_hold(const sweep_life *l)
{
    for (int32_t i = 0; i < SWEEP_ARENAS; i++)
        if (l->bytes[i] && !sweep_fence_holds(sweep_pools[i], SWEEP_ROOM, l->bytes[i]))
            return false;
    return true;
}

/* Up to a session that can run. */
static inline bool sweep_begin(sweep_life *l, const sweep_how *how)
{
    if (!sweep_open(l, how) || !sweep_make_graph(l, how))
        return false;
    if (how->check)
        l->checked = bs_model_check(l->model, NULL);
    if (!sweep_make_plan(l, how) || !sweep_make_session(l, how, NULL))
        return false;
    sweep_set_routes(l);
    return true;
}

/* ------------------------------------------------------------------------------------------------- what is expected */

typedef struct sweep_wanted {
    size_t n_out[SWEEP_RUNS];
    uint8_t out[SWEEP_RUNS][SWEEP_BUFFERS * SWEEP_BUFFER];
} sweep_wanted;

static inline bool sweep_same(const sweep_life *l, const sweep_wanted *w, int32_t turn)
{
    return l->n_out == w->n_out[turn] && memcmp(l->out, w->out[turn], l->n_out) == 0;
}

/* A whole life; `wanted` NULL: whatever it gives. False: it failed, l->step says where, or at AT_END that other bytes
 * came. */
static inline bool sweep_whole(sweep_life *l, const sweep_how *how, const sweep_wanted *wanted)
{
    bool ok = sweep_begin(l, how);
    for (int32_t turn = 0; ok && turn < SWEEP_RUNS; turn++) {
        ok = sweep_run(l, turn);
        if (ok && wanted && !sweep_same(l, wanted, turn))
            ok = sweep_stop(l, AT_END, BS_OK);
    }
    sweep_end(l);
    return ok;
}

/* The sound file, and what its network gives. Ends the program when there is none: nothing could be swept. */
static inline void sweep_prepare(sweep_file *file, sweep_wanted *wanted, const bs_platform *platform)
{
    static _Alignas(64) uint8_t memory[1 << 18];
    static sweep_life l;
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena_init(&arena, "graph", memory, sizeof memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    if (g)
        sweep_build(g);
    if (!g || bs_graph_check(g, &error) != BS_OK || sweep_write(file, g) == 0) {
        printf("FAIL there is no model: %s\n0 passed, 1 failed\n", error.message);
        exit(1);
    }
    const sweep_how how = {.bytes = file->f.bytes, .n_bytes = file->f.n, .platform = platform, .least = SWEEP_ARENAS};
    bool ok = sweep_begin(&l, &how);
    for (int32_t turn = 0; ok && turn < SWEEP_RUNS; turn++) {
        ok = sweep_run(&l, turn);
        wanted->n_out[turn] = l.n_out;
        memcpy(wanted->out[turn], l.out, l.n_out);
    }
    if (!ok) {
        printf("FAIL the model fails at %s: %s\n0 passed, 1 failed\n", sweep_step_names[l.step], l.error.message);
        exit(1);
    }
    sweep_model_bytes = l.arena[IN_MODEL].high_water;
    sweep_end(&l);
}

/* Reads when a run needs it, by the run's own thread; no guess. */
static inline bs_platform sweep_alone(void)
{
    bs_platform p = *bs_platform_default();
    p.thread_start = NULL;
    p.clock_ns = NULL;
    return p;
}

/* A plan whose weights come and go, with room for the largest unit alone. */
static inline bs_plan_desc sweep_streamed(const sweep_file *file, const bs_platform *platform)
{
    static sweep_life l;
    sweep_how how = {.bytes = file->f.bytes, .n_bytes = file->f.n, .platform = platform, .least = SWEEP_ARENAS,
                     .plan = {.lanes = 1, .chunk_bytes = 1024, .slot_bytes = UINT64_MAX}};
    bs_stream_plan facts = {0, 0, 0, 0, 0};
    if (sweep_open(&l, &how) && sweep_make_graph(&l, &how) && sweep_make_plan(&l, &how))
        bs_plan_stream_get(l.plan, &facts);
    sweep_end(&l);
    how.plan.slot_bytes = facts.least_bytes;
    return how.plan;
}

#endif
