/* fuzz_run.h - takes a graph that was built from hostile bytes all the way: plan, session, two runs, everything one can
 * ask.
 *
 * Owns: the session's arenas, each a block of exactly the planned bytes, so that a sanitizer sees a write beyond it.
 * Relies on: graph/graph.h, ops/table.h for the cost of a graph and for its sources' names. Includes POSIX only through
 * the library. Must never: work longer than some milliseconds (dear graphs are planned and not run), pass the library
 *   what its caller must not pass: sizes of buffers are what their descriptions say. */
#ifndef FUZZ_RUN_H
#define FUZZ_RUN_H

#include "fuzz.h"

#include "graph/graph.h"
#include "ops/table.h"
#include "ops/structure.h"

enum { FUZZ_ARENA_MOST = 3 << 20, FUZZ_BUFFER_MOST = 1 << 18, FUZZ_BUFFERS = 24 };
#define FUZZ_FLOPS_MOST 1.5e6

/* --- failures ------------------------------------------------------------------------------------------- */

/* A failure says what it is, in one line. */
static inline void fuzz_failure(bs_status status, const bs_error *error, const char *call)
{
    FUZZ_PROMISE(status < 0 && status >= BS_ERROR_VERSION, "%s gives status %d", call, status);
    FUZZ_PROMISE(error->status == status, "%s gives %d, its error says %d", call, status, error->status);
    FUZZ_PROMISE(error->message[0] && memchr(error->message, 0, sizeof error->message) && !strchr(error->message, '\n'),
                 "%s", call);
    FUZZ_PROMISE(status != BS_ERROR_ARENA || (error->arena && error->needed > error->available), "%s: %s", call,
                 error->message);
}

static inline bs_status fuzz_done(bs_status status, const bs_error *error, const char *call)
{
    if (status != BS_OK)
        fuzz_failure(status, error, call);
    return status;
}

/* --- what a run costs ------------------------------------------------------------------------------------ */

static inline double fuzz_flops(const bs_graph *g)
{
    double sum = 0;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const bs_op *op = bs_op_get(node->op);
        const double rows = (double)g->domains[node->domain].max_rows;
        for (int32_t i = 0; i < node->n_out; i++) {
            double elements = rows;
            for (int32_t k = 0; k < g->values[node->first_out + i].rank; k++)
                elements *= (double)bs_dim_max(g, g->values[node->first_out + i].dims[k]);
            sum += 8 * elements;
        }
        sum += op->flops ? rows * op->flops(g, node) : 0;
    }
    return sum;
}

/* --- plans ------------------------------------------------------------------------------------------------ */

static inline bs_plan_desc fuzz_plan_desc(fuzz_bytes *o, const bs_graph *g)
{
    static const int32_t sizes[8] = {0, 0, 0, 4, 6, 8, 16, 1};
    const uint8_t flags = fuzz_u8(o), more = fuzz_u8(o);
    bs_plan_desc d = {.order = flags & 3,
                      .conv = flags >> 2 & 3,
                      .patch_size = sizes[flags >> 4 & 7],
                      .threads = flags & 128 ? 2 : 0};
    d.order = d.order == 3 ? BS_ORDER_DEPTH : d.order;
    d.tier = (more & 7) < 3    ? BS_TIER_AUTO
             : (more & 7) < 6  ? BS_TIER_SCALAR
             : (more & 7) == 6 ? BS_TIER_AVX2
                               : BS_TIER_CUDA;
    d.half = more >> 3 & 1;
    d.in_place = more >> 4 & 1;
    if ((more & 0xe0) == 0xe0 && g->n_routers > 1) {
        const bs_route_desc *route = g->routers[1 + fuzz_below(o, g->n_routers - 1)].desc;
        d.n_forces = 1;
        d.forces[0] = (bs_force){route->name, fuzz_below(o, route->paths)};
    }
    return d;
}

/* Planned twice: to know what all units take, then with slots for some of them. */
static inline bs_plan *fuzz_plan_once(bs_arena *arena, const bs_graph *g, const bs_plan_desc *d)
{
    bs_error error = {0};
    const size_t bytes = bs_plan_bytes(g, d);
    if (bytes == 0 || bytes > FUZZ_ARENA_MOST)
        return NULL;
    free(arena->base);
    uint8_t *memory = aligned_alloc(BS_ALIGNMENT, (size_t)bs_bytes_figure(bs_bytes_align(bs_bytes_of(bytes))));
    bs_arena_init(arena, "plan", memory, bytes);
    bs_plan *plan = bs_plan_create(arena, NULL, g, d, &error);
    if (!plan) {
        fuzz_failure(error.status, &error, "bs_plan_create");
        FUZZ_PROMISE(error.status != BS_ERROR_ARENA && arena->used == 0, "bs_plan_bytes said %zu: %s", bytes,
                     error.message);
    }
    return plan;
}

static inline bs_plan *fuzz_plan(bs_arena *arena, const bs_graph *g, bs_plan_desc *d, fuzz_bytes *o, bool streams)
{
    const uint8_t slots = fuzz_u8(o);
    bs_stream_plan stream;
    bs_plan *plan = fuzz_plan_once(arena, g, d);
    if (!plan || !streams || slots < 64)
        return plan;
    d->slot_bytes = UINT64_MAX;
    d->lanes = fuzz_below(o, 4);
    d->chunk_bytes = slots & 1 ? 256 : 0;
    plan = fuzz_plan_once(arena, g, d);
    if (!plan)
        return NULL;
    bs_plan_stream_get(plan, &stream);
    d->slot_bytes = slots < 128 ? stream.all_bytes
                                : stream.least_bytes + (stream.all_bytes - stream.least_bytes) / 255 * (slots - 128u);
    return stream.units && slots < 250 ? fuzz_plan_once(arena, g, d) : plan;
}

static inline void fuzz_ask_plan(const bs_plan *plan)
{
    bs_stream_plan stream;
    bs_stream_unit_facts unit;
    bs_stream_phase_facts phase;
    const size_t room = 700;
    char *text = malloc(room);
    const size_t length = bs_plan_report(plan, text, room);
    FUZZ_PROMISE(strlen(text) == (length < room ? length : room - 1), "the report's length is %zu", length);
    free(text);
    bs_plan_stream_get(plan, &stream);
    for (int32_t u = 0; u < stream.units; u++)
        FUZZ_PROMISE(bs_plan_unit_get(plan, u, &unit) == BS_OK, "unit %d", u);
    for (int32_t s = 0; s < stream.phases; s++) {
        FUZZ_PROMISE(bs_plan_phase_get(plan, s, &phase, NULL) == BS_OK, "phase %d", s);
        int32_t *units = malloc(sizeof *units * (size_t)(phase.n_units + 1));
        FUZZ_PROMISE(bs_plan_phase_get(plan, s, &phase, units) == BS_OK, "phase %d", s);
        for (int32_t i = 0; i < phase.n_units; i++)
            FUZZ_PROMISE(units[i] >= 0 && units[i] < stream.units, "phase %d names unit %d", s, units[i]);
        free(units);
    }
}

/* --- extents and buffers --------------------------------------------------------------------------------- */

/* Extents of all dimensions when symbols are at most `most`; 0: their maxima. */
#define FUZZ_DIMS 65536 /* more than any input has bytes */

static inline void fuzz_extents(const bs_graph *g, fuzz_bytes *o, int32_t most, int64_t *extent)
{
    FUZZ_PROMISE(g->n_dims <= FUZZ_DIMS, "%d dimensions", g->n_dims);
    for (int32_t d = 0; d < g->n_dims; d++) {
        const bs_dim_info *dim = &g->dims[d];
        extent[d] = dim->maximum;
        if (dim->kind == BS_DIM_SYMBOL && most > 0 && !dim->node) { /* what comes from data is bound as its maximum */
            const int64_t wanted = 1 + fuzz_below(o, most);
            extent[d] = wanted < dim->maximum ? wanted : dim->maximum;
        }
        if (dim->kind == BS_DIM_DERIVED)
            extent[d] = bs_floor_div(extent[dim->parent] * dim->mul + dim->add, dim->div);
    }
}

typedef struct fuzz_session {
    const bs_graph *g;
    bs_session *session;
    void *buffers[FUZZ_BUFFERS];
    int32_t n_buffers;
    uint32_t noise;
} fuzz_session;

CHECK_WRAPS static inline uint32_t fuzz_noise(fuzz_session *s)
{
    s->noise = s->noise * 1664525u + 1013904223u;
    return s->noise >> 8;
}

static inline float fuzz_float(fuzz_session *s, int32_t style)
{
    static const float odd[] = {NAN,  INFINITY, -INFINITY,     3.4e38f,        -3.4e38f, 1e-42f,
                                0.0f, -0.0f,    2147483648.0f, -2147483904.0f, 1e20f};
    const uint32_t n = fuzz_noise(s);
    if (style == 3 && n % 8 == 0)
        return odd[n / 8 % (sizeof odd / sizeof *odd)];
    return style == 2 ? (float)(int32_t)(n % 17) - 8
                      : ((float)(n % 4096) / 1024.0f - 2.0f) * (style == 1 && n % 64 == 0 ? 1e30f : 1.0f);
}

/* style 0 .. 3: ordinary, some huge, whole, hostile. */
CHECK_WRAPS static inline void fuzz_fill(fuzz_session *s, void *data, size_t elements, bs_dtype dtype, int32_t style)
{
    for (size_t i = 0; i < elements; i++) {
        const float f = fuzz_float(s, style);
        const uint32_t n = fuzz_noise(s);
        const int32_t whole = style == 3 && n % 4 == 0 ? (int32_t)(n * 2654435761u) : (int32_t)(n % 5);
        const uint16_t half = dtype == BS_F16    ? bs_f32_to_f16(f)
                              : dtype == BS_BF16 ? bs_f32_to_bf16(f)
                                                 : (uint16_t)(n * 41);
        uint8_t *at = (uint8_t *)data + i * bs_dtype_bytes(dtype);
        if (dtype == BS_F32)
            memcpy(at, &f, 4);
        else if (dtype == BS_I32)
            memcpy(at, &whole, 4);
        else if (bs_dtype_bytes(dtype) == 2)
            memcpy(at, &half, 2);
        else
            *at = (uint8_t)n;
    }
}

/* Binds one name to memory of exactly the extents that it has in this run. */
static inline bool fuzz_bind(fuzz_session *s, const char *name, const bs_value_info *v, const int64_t *extent,
                             int32_t style, bool strided)
{
    bs_error error = {0};
    bs_buffer b = {.dtype = v->dtype, .rank = v->rank};
    int64_t span = 1, step = strided ? 2 : 1;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        b.dim[i] = extent[v->dims[i]];
        if (b.dim[i] < 1 || b.dim[i] > FUZZ_BUFFER_MOST)
            return false;
        b.stride[i] = strided ? step : 0;
        span += (b.dim[i] - 1) * step;
        step = step * b.dim[i] + (strided ? 1 : 0);
        if (step > FUZZ_BUFFER_MOST)
            return false;
    }
    if (s->n_buffers == FUZZ_BUFFERS)
        return false;
    b.data = malloc((size_t)span * bs_dtype_bytes(v->dtype));
    s->buffers[s->n_buffers++] = b.data;
    fuzz_fill(s, b.data, (size_t)span, v->dtype, style);
    return fuzz_done(bs_bind(s->session, name, &b, &error), &error, "bs_bind") == BS_OK;
}

/* Lengths of segments that are right more often than not: all rows of their domain. */
static inline void fuzz_lengths(const bs_graph *g, int32_t value, const int64_t *extent, int32_t *data, int64_t count,
                                fuzz_bytes *o)
{
    int64_t rows = -1;
    for (int32_t d = 0; d < g->n_domains; d++)
        if (bs_domain_is_segments(&g->domains[d]) && g->domains[d].lengths == value)
            rows = extent[g->domains[d].rows];
    if (rows < 0 || count < 1)
        return;
    for (int64_t i = 0; i < count; i++) {
        const int64_t take = i == count - 1 ? rows : fuzz_below(o, (int32_t)rows + 1);
        data[i] = (int32_t)take;
        rows -= take;
    }
}

static inline bool fuzz_bind_all(fuzz_session *s, fuzz_bytes *o, const int64_t *extent)
{
    const uint8_t flags = fuzz_u8(o);
    const int32_t style = flags & 3;
    bool bound = true;
    for (int32_t n = 1; n < s->g->n_nodes; n++) {
        const bs_node *node = &s->g->nodes[n];
        const bool input = bs_node_is(node, &bs_op_input), output = bs_node_is(node, &bs_op_output),
                   state = bs_node_is(node, &bs_op_state);
        if (!input && !output && !(state && flags & 16))
            continue;
        const int32_t value = output ? bs_node_in(s->g, node)[0] : node->first_out;
        const bs_value_info *v = &s->g->values[value];
        const bool made = fuzz_bind(s, bs_node_name(node), v, extent, style, flags & 8);
        if (made && input && v->dtype == BS_I32 && v->rank == 1 && !(flags & 8) && !(flags & 32))
            fuzz_lengths(s->g, value, extent, s->buffers[s->n_buffers - 1], extent[v->dims[0]], o);
        bound = bound && made;
    }
    return bound;
}

/* --- running ---------------------------------------------------------------------------------------------- */

static inline bs_status fuzz_callback(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row)
{
    const bs_route_desc *route = user;
    for (int32_t r = 0; r < rows; r++) {
        float first;
        memcpy(&first, (const char *)scores->data + (ptrdiff_t)4 * scores->row_stride * r, 4);
        path_of_row[r] = first > 0.5f ? -1 : r % route->paths;
    }
    return rows == 13 ? BS_ERROR_DATA : BS_OK;
}

static inline void fuzz_ask(const fuzz_session *s)
{
    bs_run_stats run;
    bs_stream_stats stream;
    bs_prediction prediction;
    bs_session_stats(s->session, &run);
    bs_session_stream_stats(s->session, &stream);
    for (int32_t p = 0; p < BS_PREDICTOR_COUNT; p++)
        bs_session_prediction_get(s->session, -1, (bs_predictor)p, &prediction);
    for (int32_t r = 1; r < s->g->n_routers; r++) {
        bs_decision d;
        if (bs_decision_get(s->session, s->g->routers[r].desc->name, &d) != BS_OK)
            continue;
        int64_t sum = 0;
        const bool loops = bs_router_loops(s->g, r) || s->g->domains[s->g->routers[r].domain].loop;
        for (int32_t p = 0; p < d.paths && !loops; p++) { /* each trip counts */
            FUZZ_PROMISE(d.counts[p] >= 0 && (d.cells == 0 || d.counts[p] <= d.cells),
                         "router %d path %d has %d of %d cells", r, p, d.counts[p], d.cells);
            sum += d.counts[p];
        }
        for (int32_t c = 0; c < d.cells; c++)
            FUZZ_PROMISE(d.chosen[c] >= -1 && d.chosen[c] < d.paths, "router %d cell %d took path %d", r, c,
                         d.chosen[c]);
        FUZZ_PROMISE(d.dropped >= 0 && sum >= 0, "router %d", r);
    }
}

static inline void fuzz_run_twice(fuzz_session *s, fuzz_bytes *o)
{
    static int64_t extent[FUZZ_DIMS];
    bs_error error = {0};
    for (int32_t r = 1; r < s->g->n_routers; r++)
        if (s->g->routers[r].desc->protocol == BS_ROUTE_CALLBACK)
            bs_set_route(s->session, s->g->routers[r].desc->name, fuzz_callback,
                         (void *)(uintptr_t)s->g->routers[r].desc, NULL);
    for (int32_t run = 0; run < 2; run++) {
        fuzz_extents(s->g, o, fuzz_flip(o, 128) ? 24 : 0, extent);
        const bool bound = fuzz_bind_all(s, o, extent);
        if (!bound && run == 0 && fuzz_flip(o, 200))
            return;
        memset(&error, 0, sizeof error);
        if (fuzz_done(bs_run(s->session, &error), &error, "bs_run") == BS_OK)
            fuzz_ask(s);
        if (fuzz_flip(o, 40))
            bs_reset_state(s->session);
    }
}

/* --- sessions --------------------------------------------------------------------------------------------- */

static inline uint8_t *fuzz_arena(bs_arena *arena, const char *name, uint64_t bytes, int32_t paint)
{
    uint8_t *memory = bytes ? aligned_alloc(BS_ALIGNMENT, (size_t)bs_bytes_figure(bs_bytes_align(bs_bytes_of(bytes))))
                            : NULL;
    if (memory)
        memset(memory, paint, (size_t)bytes);
    bs_arena_init(arena, name, memory, (size_t)bytes);
    return memory;
}

/* Arenas that are too small are an error, and left as they were. */
static inline void fuzz_refused(const bs_plan *plan, const bs_session_desc *desc)
{
    static BS_ALIGNED uint8_t little[4][256];
    bs_memory memory;
    bs_error error = {0};
    bs_arena_init(&memory.persistent, "persistent", little[0], sizeof little[0]);
    bs_arena_init(&memory.transient, "transient", little[1], sizeof little[1]);
    bs_arena_init(&memory.staging, "staging", little[2], sizeof little[2]);
    bs_arena_init(&memory.slots, "slots", little[3], sizeof little[3]);
    bs_session *session = bs_session_create(&memory, plan, desc, &error);
    if (!session)
        fuzz_failure(error.status, &error, "bs_session_create");
    else
        bs_session_close(session);
    FUZZ_PROMISE(session || (memory.persistent.used == 0 && memory.transient.used == 0),
                 "a refused session keeps memory");
}

static inline void fuzz_session_run(const bs_graph *g, const bs_plan *plan, const bs_session_desc *desc, fuzz_bytes *o)
{
    const int32_t paint = fuzz_flip(o, 128) ? 0xFF : 0x3A;
    bs_sizes sizes;
    bs_memory memory;
    bs_error error = {0};
    fuzz_session s = {.g = g, .noise = fuzz_u16(o)};
    bs_plan_sizes(plan, &sizes);
    if (sizes.persistent > FUZZ_ARENA_MOST || sizes.transient > FUZZ_ARENA_MOST || sizes.staging > FUZZ_ARENA_MOST ||
        sizes.slots > FUZZ_ARENA_MOST || fuzz_flops(g) > FUZZ_FLOPS_MOST) {
        fuzz_refused(plan, desc);
        return;
    }
    uint8_t *const blocks[4] = {fuzz_arena(&memory.persistent, "persistent", sizes.persistent, paint),
                                fuzz_arena(&memory.transient, "transient", sizes.transient, paint),
                                fuzz_arena(&memory.staging, "staging", sizes.staging, paint),
                                fuzz_arena(&memory.slots, "slots", sizes.slots, paint)};
    s.session = bs_session_create(&memory, plan, desc, &error);
    if (!s.session) {
        fuzz_failure(error.status, &error, "bs_session_create");
        FUZZ_PROMISE(error.status != BS_ERROR_ARENA, "of the planned sizes: %s", error.message);
    } else {
        fuzz_run_twice(&s, o);
        bs_session_close(s.session);
    }
    for (int32_t i = 0; i < s.n_buffers; i++)
        free(s.buffers[i]);
    for (int32_t i = 0; i < 4; i++)
        free(blocks[i]);
}

/* With FUZZ_SHOW set: what graph it was, for whoever looks at a crash. */
static inline void fuzz_show(const bs_graph *g, const bs_plan *plan)
{
    static char text[1 << 16];
    if (!getenv("FUZZ_SHOW"))
        return;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        bs_graph_describe(g, n, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    bs_plan_report(plan, text, sizeof text);
    fprintf(stderr, "%s\n", text);
}

static inline int fuzz_no_write(void *user, const void *data, size_t bytes)
{
    uint64_t *written = user;
    (void)data;
    *written += bytes;
    return *written > 20000; /* the storage is full */
}

/* A profile on a ring that is small enough to lose events. */
static inline bs_profile *fuzz_profile(const bs_platform *platform, uint64_t *written)
{
    static BS_ALIGNED uint8_t persistent[2048], ring[4160 + 48 * 64];
    bs_arena arena;
    const bs_profile_desc desc = {platform, fuzz_no_write, written, ring, sizeof ring, 1};
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    return bs_profile_create(&arena, &desc, NULL);
}

/* All of it. weights may be streamed from when they can be. */
static inline void fuzz_graph_run(const bs_graph *g, const bs_weights *weights, fuzz_bytes *o)
{
    bs_arena arena = {0};
    bs_platform platform = *bs_platform_default();
    bs_plan_desc d = fuzz_plan_desc(o, g);
    bs_session_desc desc = {.platform = &platform, .weights = *weights};
    const uint8_t stream = fuzz_u8(o);
    desc.stream.policy = (stream & 3) % BS_POLICY_BELADY;
    desc.stream.speculation = stream >> 2 & 1;
    desc.stream.check_records = stream >> 3 & 1;
    if (stream >> 4 != 15) { /* no threads: an execution is shorter, and the same each time */
        platform.thread_start = NULL;
        d.threads = 1;
    }
    bs_plan *plan = fuzz_plan(&arena, g, &d, o, weights->fetch != NULL);
    if (plan) {
        uint64_t written = 0, dropped;
        desc.profile = fuzz_flip(o, 60) ? fuzz_profile(&platform, &written) : NULL;
        fuzz_show(g, plan);
        fuzz_ask_plan(plan);
        fuzz_session_run(g, plan, &desc, o);
        if (desc.profile)
            bs_profile_close(desc.profile, &dropped);
    }
    free(arena.base);
}

#endif
