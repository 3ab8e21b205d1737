/* against.h - runs a graph as a session in arenas of exactly the planned size, between guards and over paint, and
 * compares every output with the oracle (naive.h), element by element. States are followed from run to run. */
#ifndef BS_TEST_AGAINST_H
#define BS_TEST_AGAINST_H

#include "naive.h"
#include "net.h"
#include "run/session.h"

#define AG_GUARD      256
#define AG_GUARD_BYTE 0xA5
#define AG_SOURCES    16

/* --------------------------------------------------------------------------------------- sessions in exact arenas */

typedef struct rig {
    bs_memory memory;
    bs_plan *plan;
    bs_session *session;
    bs_sizes sizes;
    bs_error error;
    uint8_t *persistent, *transient, *staging, *slots;
    bs_device *device; /* with BS_TEST_ON_DEVICE */
} rig;

static _Alignas(64) uint8_t ag_plan_memory[24 << 20], ag_persistent[24 << 20], ag_transient[160 << 20],
    ag_staging[4 << 20], ag_slots[4 << 20];

static inline uint8_t *ag_arena(bs_arena *arena, const char *name, uint8_t *memory, size_t room, uint64_t bytes,
                                int32_t paint)
{
    uint8_t *base = memory + AG_GUARD;
    if (bytes + 2 * AG_GUARD > room) {
        printf("FAIL the test's memory is too small for %llu bytes of %s\n", (unsigned long long)bytes, name);
        exit(1);
    }
    memset(memory, AG_GUARD_BYTE, AG_GUARD);
    memset(base + bytes, AG_GUARD_BYTE, AG_GUARD);
    memset(base, paint, (size_t)bytes);
    bs_arena_init(arena, name, bytes ? base : NULL, (size_t)bytes);
    return base;
}

static inline bool ag_intact(const uint8_t *base, uint64_t bytes)
{
    for (int32_t i = 0; i < AG_GUARD; i++)
        if (base[-1 - i] != AG_GUARD_BYTE || base[bytes + (uint64_t)i] != AG_GUARD_BYTE)
            return false;
    return true;
}

static inline bool rig_intact(const rig *r)
{
    return ag_intact(r->persistent, r->sizes.persistent) && ag_intact(r->transient, r->sizes.transient) &&
           ag_intact(r->staging, r->sizes.staging) && ag_intact(r->slots, r->sizes.slots);
}

/* With BS_TEST_ON_DEVICE the same test runs on a GPU: what it asks of threads, tiers and convolutions means nothing
 * there. A device serves one session unless a test says otherwise; the oldest of some is closed for a new one. */
#ifdef BS_TEST_ON_DEVICE
#define AG_DEVICES 4
static int32_t ag_sessions = 1; /* that a device has room for */

static inline bs_device *ag_device(const bs_sizes *sizes, bs_error *error)
{
    static _Alignas(64) uint8_t memory[AG_DEVICES][1024];
    static bs_device *devices[AG_DEVICES];
    static int32_t next;
    bs_arena arena;
    const bs_cuda_desc desc = {.device_bytes = (uint64_t)ag_sessions * sizes->device,
                               .pinned_bytes = (uint64_t)ag_sessions * sizes->pinned};
    const int32_t at = next++ % AG_DEVICES;
    bs_cuda_close(devices[at]);
    bs_arena_init(&arena, "device", memory[at], sizeof memory[at]);
    devices[at] = bs_cuda_open(&arena, &desc, error);
    return devices[at];
}
#endif

static inline bool rig_plan(rig *r, const bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena arena;
#ifdef BS_TEST_ON_DEVICE
    bs_plan_desc there = {0};
    if (desc)
        there = *desc;
    there.tier = BS_TIER_CUDA;
    there.conv = BS_CONV_AUTO;
    desc = &there;
#endif
    memset(r, 0, sizeof *r);
    bs_arena_init(&arena, "plan", ag_plan_memory, sizeof ag_plan_memory);
    r->plan = bs_plan_create(&arena, NULL, g, desc, &r->error);
    return r->plan != NULL;
}

/* Every stored value on bytes of its own: what lifetimes say can no longer matter. */
static inline void rig_unshare(rig *r)
{
    bs_plan *p = r->plan;
    bs_bytes scratch = bs_bytes_of(0);
    p->transient_bytes = bs_bytes_of(0);
    for (int32_t v = 1; v < p->graph->n_values; v++) {
        bs_value_plan *value = &p->values[v];
        bs_bytes *const used = value->storage == BS_STORAGE_TRANSIENT ? &p->transient_bytes : &scratch;
        if (value->storage != BS_STORAGE_TRANSIENT && value->storage != BS_STORAGE_SCRATCH)
            continue;
        value->offset = *used;
        *used = bs_bytes_add(*used, bs_bytes_align(bs_bytes_times(value->row_bytes, value->rows)));
    }
    p->kernel_scratch_offset = scratch;
    p->scratch_bytes = bs_bytes_add(scratch, bs_bytes_align(p->kernel_scratch_bytes));
}

static inline bool rig_start(rig *r, const bs_session_desc *desc, int32_t paint)
{
    bs_plan_sizes(r->plan, &r->sizes);
    r->persistent =
        ag_arena(&r->memory.persistent, "persistent", ag_persistent, sizeof ag_persistent, r->sizes.persistent, paint);
    r->transient =
        ag_arena(&r->memory.transient, "transient", ag_transient, sizeof ag_transient, r->sizes.transient, paint);
    r->staging = ag_arena(&r->memory.staging, "staging", ag_staging, sizeof ag_staging, r->sizes.staging, paint);
    r->slots = ag_arena(&r->memory.slots, "slots", ag_slots, sizeof ag_slots, r->sizes.slots, paint);
#ifdef BS_TEST_ON_DEVICE
    bs_session_desc there = *desc;
    there.device = r->device = ag_device(&r->sizes, &r->error);
    desc = &there;
#endif
    r->session = bs_session_create(&r->memory, r->plan, desc, &r->error);
    return r->session != NULL;
}

static inline bool rig_session(rig *r, const bs_tensor_table *weights, const bs_platform *platform, int32_t paint)
{
    bs_session_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.platform = platform;
    if (weights)
        desc.weights = bs_weights_from_table(weights);
    return rig_start(r, &desc, paint);
}

static inline bool rig_streamed(rig *r, const bs_weights *weights, const bs_stream_desc *stream, int32_t paint)
{
    bs_session_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.weights = *weights;
    desc.stream = *stream;
    return rig_start(r, &desc, paint);
}

/* ------------------------------------------------------------------------------------------- inputs and outputs */

typedef struct against {
    naive oracle;
    naive_source sources[AG_SOURCES]; /* inputs, then states */
    int64_t extent[3];                /* of the symbols N, H, W */
    int32_t n_inputs;
    bool strided, refusals; /* refusals: of runs whose extents do not fit are well */
    char why[300];
    bs_error error;
} against;

static double ag_data[AG_SOURCES][1 << 14];
static _Alignas(64) uint8_t ag_buffers[2 * AG_SOURCES][1 << 20];

static inline int64_t ag_dim(const against *a, const bs_graph *g, bs_dim_id d)
{
    const bs_dim_info *dim = &g->dims[d];
    const char *symbol = strchr("NHW", g->text[dim->name]);
    if (dim->kind == BS_DIM_DERIVED)
        return bs_floor_div(ag_dim(a, g, dim->parent) * dim->mul + dim->add, dim->div);
    return dim->kind == BS_DIM_CONST ? dim->maximum : symbol && *symbol ? a->extent[symbol - "NHW"] : dim->maximum;
}

/* The extents of an input or a state. Returns its elements; whether they are others than before. */
static inline int64_t ag_source(against *a, const bs_graph *g, const bs_node *node, bool *changed)
{
    const bs_value_info *v = &g->values[node->first_out];
    naive_source *source = &a->sources[a->oracle.n_sources];
    int64_t count = 1;
    source->name = bs_node_name(node);
    source->data = ag_data[a->oracle.n_sources++];
    *changed = false;
    for (int32_t i = 0; i < v->rank; i++) {
        const int64_t dim = ag_dim(a, g, v->dims[i]);
        *changed = *changed || source->dim[i] != dim;
        source->dim[i] = dim;
        count *= dim;
    }
    return count;
}

/* New inputs of these extents; a state of other extents than before starts anew. */
static inline void against_inputs(against *a, const bs_graph *g, const bs_tensor_table *weights,
                                  const bs_plan_desc *desc, const int64_t *extent)
{
    bool changed;
    a->oracle.g = g;
    a->oracle.weights = weights;
    a->oracle.desc = desc;
    a->oracle.sources = a->sources;
    a->oracle.n_sources = 0;
    memcpy(a->extent, extent, sizeof a->extent);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!bs_node_is(&g->nodes[n], &bs_op_input))
            continue;
        double *data = ag_data[a->oracle.n_sources];
        const int64_t count = ag_source(a, g, &g->nodes[n], &changed);
        for (int64_t i = 0; i < count; i++)
            data[i] = g->values[g->nodes[n].first_out].dtype == BS_U8 ? check_below(256) : check_below(17) - 8;
        if (strcmp(bs_node_name(&g->nodes[n]), "knob") == 0)
            data[0] = check_below(5) / 4.0;
        if (strcmp(bs_node_name(&g->nodes[n]), "children") == 0) /* of vertices: each has children before it, or none */
            for (int64_t i = 0; i < count; i++)
                data[i] = check_below((int32_t)(i / 2) + 1) - 1;
        if (strcmp(bs_node_name(&g->nodes[n]), "roots") == 0) /* of what grows to 15 rows for each */
            for (int64_t i = 0; i < count; i++)
                data[i] = i < count / 15;
        if (strcmp(bs_node_name(&g->nodes[n]), "lengths") == 0) { /* of segments: N rows in all, some have none */
            memset(data, 0, (size_t)count * sizeof *data);
            const int32_t used = 1 + check_below((int32_t)count);
            for (int64_t row = 0; row < extent[0]; row++)
                data[check_below(used)]++;
        }
    }
    a->n_inputs = a->oracle.n_sources;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!bs_node_is(&g->nodes[n], &bs_op_state))
            continue;
        double *data = ag_data[a->oracle.n_sources];
        const int64_t count = ag_source(a, g, &g->nodes[n], &changed);
        memset(data, 0, changed ? (size_t)count * sizeof *data : 0);
    }
}

/* A buffer of these extents: dense, or with gaps between lines and the dimensions in another order in memory. */
static inline bs_buffer ag_buffer(const against *a, int32_t index, bs_dtype dtype, int32_t rank, const int64_t *dim)
{
    bs_buffer b = {ag_buffers[index], dtype, rank, {0, 0, 0, 0}, {0, 0, 0, 0}};
    int64_t step = a->strided ? 2 : 1;
    for (int32_t k = 0; k < rank; k++) {
        const int32_t i = index % 2 ? rank - 1 - k : k; /* first dimension innermost: channels last */
        b.dim[i] = dim[i];
        b.stride[i] = a->strided ? step : 0;
        step = step * dim[i] + (a->strided ? 3 : 0);
    }
    if ((uint64_t)step * 4 > sizeof ag_buffers[index]) {
        printf("FAIL the test's buffers are too small\n");
        exit(1);
    }
    memset(ag_buffers[index], 0xC3, (size_t)step * 4);
    return b;
}

static inline uint8_t *ag_element(const bs_buffer *b, int64_t k)
{
    int64_t at = 0, dense = 1;
    const bool strided = b->stride[0] != 0;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        at += k % b->dim[i] * (strided ? b->stride[i] : dense);
        dense *= b->dim[i];
        k /= b->dim[i];
    }
    return (uint8_t *)b->data + at * (int64_t)bs_dtype_bytes(b->dtype);
}

static inline void ag_write(uint8_t *at, bs_dtype dtype, double x)
{
    const float f = (float)x;
    const int32_t i = dtype == BS_F32 ? 0 : (int32_t)x;
    if (dtype == BS_U8)
        *at = (uint8_t)x;
    else
        memcpy(at, dtype == BS_F32 ? (const void *)&f : (const void *)&i, 4);
}

static inline double ag_read(const uint8_t *at, bs_dtype dtype)
{
    float f;
    int32_t i;
    memcpy(&f, at, dtype == BS_U8 ? 0 : 4);
    memcpy(&i, at, dtype == BS_U8 ? 0 : 4);
    return dtype == BS_U8 ? *at : dtype == BS_F32 ? (double)f : i;
}

static inline bool ag_bind_inputs(against *a, bs_session *session, bs_buffer *kept)
{
    for (int32_t s = 0; s < a->n_inputs; s++) {
        int32_t value = 0;
        int64_t count = 1;
        for (int32_t n = 1; n < a->oracle.g->n_nodes; n++)
            if (bs_node_is(&a->oracle.g->nodes[n], &bs_op_input) &&
                strcmp(bs_node_name(&a->oracle.g->nodes[n]), a->sources[s].name) == 0)
                value = a->oracle.g->nodes[n].first_out;
        const bs_value_info *v = &a->oracle.g->values[value];
        const bs_buffer b = ag_buffer(a, s, v->dtype, v->rank, a->sources[s].dim);
        for (int32_t i = 0; i < v->rank; i++)
            count *= b.dim[i];
        for (int64_t i = 0; i < count; i++)
            ag_write(ag_element(&b, i), v->dtype, a->sources[s].data[i]);
        kept[s] = b;
        if (bs_bind(session, a->sources[s].name, &b, &a->error) != BS_OK)
            return false;
    }
    return true;
}

/* The part of a buffer that has these extents. */
static inline bs_buffer ag_part(const bs_buffer *b, const int64_t *dim)
{
    bs_buffer part = *b;
    int64_t step = 1;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        part.stride[i] = b->stride[0] ? b->stride[i] : step;
        step *= b->dim[i];
        part.dim[i] = dim[i];
    }
    return part;
}

/* Whether the session knows how far an output reaches whose extents come from data, and wrote nothing beyond. */
static inline bool ag_beyond(against *a, const bs_session *session, const bs_node *output, const bs_buffer *b)
{
    const int32_t value = bs_node_in(a->oracle.g, output)[0];
    int64_t dims[BS_MAX_RANK], all = 1;
    bool right = bs_output_extents(session, bs_node_name(output), dims) == BS_OK;
    for (int32_t i = 0; i < b->rank; i++) {
        right = right && dims[i] == naive_dim(&a->oracle, value, i);
        all *= b->dim[i];
    }
    for (int64_t k = 0; right && k < all; k++) {
        int64_t rest = k;
        bool within = true;
        for (int32_t i = b->rank - 1; i >= 0; i--) {
            within = within && rest % b->dim[i] < dims[i];
            rest /= b->dim[i];
        }
        for (size_t byte = 0; byte < bs_dtype_bytes(b->dtype) && !within; byte++)
            right = right && ag_element(b, k)[byte] == 0xC3;
    }
    if (!right)
        snprintf(a->why, sizeof a->why, "output %s has other extents than the oracle's, or more is written",
                 bs_node_name(output));
    return right;
}

/* Outputs of the session against the oracle's values. */
static inline bool ag_compare(against *a, const bs_session *session, const bs_node *output, const bs_buffer *bound)
{
    const int32_t value = bs_node_in(a->oracle.g, output)[0];
    const int64_t count = naive_elements(&a->oracle, value);
    int64_t dim[BS_MAX_RANK] = {0};
    for (int32_t i = 0; i < bound->rank; i++)
        dim[i] = naive_dim(&a->oracle, value, i);
    const bs_buffer part = ag_part(bound, dim), *b = &part;
    if (!ag_beyond(a, session, output, bound))
        return false;
    for (int64_t i = 0; i < count; i++) {
        const double got = ag_read(ag_element(b, i), b->dtype), want = a->oracle.cell[value][0][i];
        if (got != want) {
            snprintf(a->why, sizeof a->why, "output %s (value %d) element %lld of %lld: %g, the oracle says %g",
                     bs_node_name(output), value, (long long)i, (long long)count, got, want);
            return false;
        }
    }
    return true;
}

/* States take what the run wrote, all at once. */
static inline void ag_follow_states(against *a)
{
    static double next[3][1 << 14];
    int32_t values[3] = {0, 0, 0}, s = a->n_inputs;
    const bs_graph *g = a->oracle.g;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!bs_node_is(&g->nodes[n], &bs_op_state))
            continue;
        for (int32_t w = 1; w < g->n_nodes; w++)
            if (bs_node_is(&g->nodes[w], &bs_op_state_write) && bs_node_in(g, &g->nodes[w])[0] == g->nodes[n].first_out)
                values[s - a->n_inputs] = bs_node_in(g, &g->nodes[w])[1];
        s++;
    }
    for (int32_t i = 0; i < s - a->n_inputs && i < 3; i++)
        if (values[i])
            memcpy(next[i], a->oracle.cell[values[i]][0],
                   (size_t)naive_elements(&a->oracle, values[i]) * sizeof(double));
    for (int32_t i = 0; i < s - a->n_inputs && i < 3; i++)
        if (values[i])
            memcpy(ag_data[a->n_inputs + i], next[i], (size_t)naive_elements(&a->oracle, values[i]) * sizeof(double));
}

/* Decisions as the session tells them. */
static inline bool ag_compare_decisions(against *a, bs_session *session)
{
    const bs_graph *g = a->oracle.g;
    for (int32_t r = 1; r < g->n_routers; r++) {
        bs_decision d;
        if (!session->plan->routers[r].live || bs_decision_get(session, g->routers[r].desc->name, &d) != BS_OK)
            continue;
        for (int32_t p = 0; p < d.paths; p++)
            if (d.counts[p] != a->oracle.counts[r][p]) {
                snprintf(a->why, sizeof a->why, "router %s path %d: %d cells, the oracle says %d",
                         g->routers[r].desc->name, p, d.counts[p], a->oracle.counts[r][p]);
                return false;
            }
        for (int32_t c = 0; c < d.cells; c++) {
            static const naive_choice none; /* in a body that no row went through */
            const naive_choice *choice = a->oracle.choice[r] ? &a->oracle.choice[r][c] : &none;
            if (d.chosen[c] != (choice->n ? choice->path[0] : -1) || d.dropped != a->oracle.dropped[r]) {
                snprintf(a->why, sizeof a->why, "router %s cell %d: path %d, %lld dropped, the oracle says %d and %lld",
                         g->routers[r].desc->name, c, d.chosen[c], (long long)d.dropped,
                         choice->n ? choice->path[0] : -1, (long long)a->oracle.dropped[r]);
                return false;
            }
        }
    }
    return true;
}

/* Some extent of the run would be below 1: an input is smaller than the network's windows. */
static inline bool ag_too_small(against *a)
{
    naive_set_dims(&a->oracle);
    for (int32_t d = 0; d < a->oracle.g->n_dims; d++)
        if (a->oracle.dims[d] < 1)
            return true;
    return false;
}

/* Buffers for all inputs and outputs of a run; call ag_too_small first, it sets the extents. */
static inline bool against_bind(against *a, bs_session *session, bs_buffer *inputs, bs_buffer *outputs)
{
    const bs_graph *g = a->oracle.g;
    bool ok = ag_bind_inputs(a, session, inputs);
    int32_t k = 0;
    for (int32_t n = 1; ok && n < g->n_nodes; n++) {
        if (!bs_node_is(&g->nodes[n], &bs_op_output))
            continue;
        const bs_value_info *v = &g->values[bs_node_in(g, &g->nodes[n])[0]];
        int64_t dim[BS_MAX_RANK];
        for (int32_t i = 0; i < v->rank; i++)
            dim[i] = g->dims[v->dims[i]].node ? bs_dim_max(g, v->dims[i]) : a->oracle.dims[v->dims[i]];
        outputs[k] = ag_buffer(a, AG_SOURCES + k, v->dtype, v->rank, dim);
        ok = bs_bind(session, bs_node_name(&g->nodes[n]), &outputs[k], &a->error) == BS_OK;
        k++;
    }
    return ok;
}

/* One run; false with a reason when anything differs from what the oracle says. */
static inline bool against_run(against *a, bs_session *session)
{
    const bs_graph *g = a->oracle.g;
    bs_buffer inputs[AG_SOURCES], outputs[AG_SOURCES];
    if (ag_too_small(a))
        return ag_bind_inputs(a, session, inputs) && bs_run(session, &a->error) == BS_ERROR_SHAPE;
    const bs_status expected = naive_run(&a->oracle);
    if (expected != BS_OK) {
        snprintf(a->why, sizeof a->why, "the oracle refuses, %s", a->error.message);
        return a->refusals && against_bind(a, session, inputs, outputs) && bs_run(session, &a->error) == expected;
    }
    if (!against_bind(a, session, inputs, outputs) || bs_run(session, &a->error) != BS_OK) {
        snprintf(a->why, sizeof a->why, "%s: %.200s", bs_status_name(a->error.status), a->error.message);
        return false;
    }
    bool ok = true;
    for (int32_t n = 1, k = 0; ok && n < g->n_nodes; n++)
        if (bs_node_is(&g->nodes[n], &bs_op_output))
            ok = ag_compare(a, session, &g->nodes[n], &outputs[k++]);
    ok = ok && ag_compare_decisions(a, session);
    ag_follow_states(a);
    return ok;
}

#endif
