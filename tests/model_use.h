/* model_use.h: all that a program does with a model file: opens, asks, builds, describes, reads weights and records,
 * plans, checks, runs twice in small arenas.
 *
 * Owns: the arenas and buffers for it. Relies on: the library and its inner headers; check.h, gguf_forge.h.
 * Must never: know what is wrong with the file, nor let a failure pass that does not say what it is.
 */
#ifndef BS_TEST_MODEL_USE_H
#define BS_TEST_MODEL_USE_H

#include "../src/model/model.h"
#include "../src/ops/weights.h"
#include "check.h"
#include "gguf_forge.h"

enum { USE_ARENA_BYTES = 1 << 20, USE_BUFFERS = 8, USE_BUFFER_BYTES = 1 << 18 };
#define USE_SILENT ((bs_status)1) /* refused, and nothing said why */

static BS_ALIGNED uint8_t memory[USE_ARENA_BYTES]; /* of models, graphs and plans */

/* Counts one check of a group. */
static inline void report(const char *group, const char *name, bool passed, const char *why)
{
    check(passed, "%s%s%s%s", group, name, passed ? "" : ": ", passed ? "" : why);
}

static inline void expect(const char *group, const char *name, bs_status got, bs_status wanted, const bs_error *error)
{
    char why[512];
    snprintf(why, sizeof why, "%s (%s), expected %s", bs_status_name(got), error->message, bs_status_name(wanted));
    report(group, name, got == wanted, why);
}

/* Finds and reads every weight that the ops ask for. */
static inline bs_status use_weights(const bs_model *model, const bs_graph *graph, bs_error *error)
{
    static float target[4096];
    const bs_weights weights = bs_model_weights(model);
    for (int32_t n = 1; n < graph->n_nodes; n++) {
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        const int32_t count = bs_node_weights(graph, &graph->nodes[n], specs);
        for (int32_t i = 0; i < count; i++) {
            char name[BS_MAX_WEIGHT_NAME];
            bs_weight_info info;
            snprintf(name, sizeof name, "%s%s%s", bs_node_name(&graph->nodes[n]), *specs[i].suffix ? "." : "",
                     specs[i].suffix);
            bs_status status = bs_weight_find(&weights, name, &specs[i], &info, error);
            if (status == BS_OK && bs_bytes_figure(bs_weight_spec_bytes(&specs[i])) <= sizeof target)
                status = bs_weight_load(&weights, name, &specs[i], &info, BS_TIER_SCALAR, target, error);
            if (status != BS_OK)
                return status;
        }
    }
    return BS_OK;
}

/* An extent of a run: every symbol has half of its maximum, or all of it. */
static inline int64_t use_extent(const bs_graph *graph, bs_dim_id id, bool most)
{
    const bs_dim_info *d = &graph->dims[id];
    if (d->kind == BS_DIM_DERIVED)
        return bs_floor_div(use_extent(graph, d->parent, most) * d->mul + d->add, d->div);
    return d->kind == BS_DIM_CONST || most ? d->maximum : (d->maximum + 1) / 2;
}

/* Memory of the caller's for input, state or output `node`; its bytes are not read as numbers by anything that
 * steers. */
static inline bs_status use_bind(bs_session *session, const bs_graph *graph, const bs_node *node, bool most,
                                 bs_error *error)
{
    static BS_ALIGNED uint8_t buffers[USE_BUFFERS][USE_BUFFER_BYTES];
    const bool out = strcmp(bs_op_get(node->op)->name, "output") == 0;
    const bs_value_info *v = bs_value_get(graph, out ? bs_node_in(graph, node)[0] : node->first_out);
    bs_buffer buffer = {.data = buffers[(node - graph->nodes) % USE_BUFFERS], .dtype = v->dtype, .rank = v->rank};
    uint64_t bytes = bs_dtype_bytes(v->dtype);
    for (int32_t i = 0; i < v->rank; i++) {
        buffer.dim[i] = use_extent(graph, v->dims[i], most);
        bytes = bs_mul_u64(bytes, buffer.dim[i] > 0 ? (uint64_t)buffer.dim[i] : 0);
    }
    if (bytes > USE_BUFFER_BYTES)
        return bs_fail(error, BS_ERROR_ARENA, "\"%s\" is too large for this test's buffer", bs_node_name(node));
    return bs_bind(session, bs_node_name(node), &buffer, error);
}

/* One run: of a small extent, or of the largest. */
static inline bs_status use_run(bs_session *session, const bs_graph *graph, bool most, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t n = 1; status == BS_OK && n < graph->n_nodes; n++) {
        const char *const op = bs_op_get(graph->nodes[n].op)->name;
        if (strcmp(op, "input") == 0 || strcmp(op, "output") == 0)
            status = use_bind(session, graph, &graph->nodes[n], most, error);
    }
    return status == BS_OK ? bs_run(session, error) : status;
}

/* A session in arenas of a megabyte each, and two runs. */
static inline bs_status use_session(const bs_plan *plan, const bs_graph *graph, const bs_model *model, bs_error *error)
{
    static BS_ALIGNED uint8_t room[3][USE_ARENA_BYTES];
    bs_memory arenas;
    memset(&arenas, 0, sizeof arenas);
    bs_arena_init(&arenas.persistent, "persistent", room[0], USE_ARENA_BYTES);
    bs_arena_init(&arenas.transient, "transient", room[1], USE_ARENA_BYTES);
    bs_arena_init(&arenas.staging, "staging", room[2], USE_ARENA_BYTES);
    const bs_session_desc desc = {.weights = bs_model_weights(model)};
    bs_session *session = bs_session_create(&arenas, plan, &desc, error);
    if (!session)
        return error->status == BS_OK ? USE_SILENT : error->status;
    bs_status status = use_run(session, graph, false, error);
    if (status == BS_OK)
        status = use_run(session, graph, true, error);
    bs_session_close(session);
    return status;
}

static inline const bs_plan *use_plan(const bs_graph *graph, bs_arena *arena, bs_error *error)
{
    static char report_text[4096];
    bs_sizes sizes;
    const bs_plan_desc desc = {.threads = 1, .tier = BS_TIER_SCALAR};
    const bs_plan *plan = bs_plan_create(arena, NULL, graph, &desc, error);
    if (plan) {
        bs_plan_sizes(plan, &sizes);
        bs_plan_report(plan, report_text, sizeof report_text);
    }
    return plan;
}

/* Damage that only a check of the whole file finds has no other graph: that is not run. */
static inline bs_status use_graph(const bs_model *model, bs_arena *arena, const bs_model_build_desc *desc,
                                  bs_error *error)
{
    const bs_graph_desc room = bs_model_graph_desc(model);
    bs_graph *graph = bs_graph_create(arena, &room);
    if (!graph)
        return BS_ERROR_ARENA;
    bs_status status = bs_model_build(model, graph, desc, error);
    char line[64];
    for (int32_t n = 1; status == BS_OK && n < graph->n_nodes; n++)
        if (bs_graph_describe(graph, n, line, sizeof line) == 0)
            status = BS_ERROR_GRAPH;
    if (status == BS_OK)
        status = use_weights(model, graph, error);
    if (status != BS_OK)
        return status;
    const bs_plan *plan = use_plan(graph, arena, error);
    if (!plan)
        return error->status == BS_OK ? USE_SILENT : error->status;
    status = bs_model_check(model, error);
    return status == BS_OK ? use_session(plan, graph, model, error) : status;
}

static inline bs_status use_facts(const bs_model *model)
{
    bs_model_facts facts;
    bs_model_block_facts block;
    bs_weight_info info;
    char name[BS_MAX_WEIGHT_NAME];
    int32_t of_block;
    bs_status status = BS_OK;
    bs_model_facts_get(model, &facts);
    for (int32_t i = 0; status == BS_OK && i < facts.blocks; i++)
        status = bs_model_block_get(model, i, &block);
    for (int32_t i = 0; status == BS_OK && i < facts.weights; i++)
        status = bs_model_weight_get(model, i, name, &of_block, &info);
    return status;
}

/* What opened can be read whole: weights lie in their records, records in the storage. Heads may be damaged. */
static inline bs_status use_stream(const bs_model *model)
{
    static uint8_t buffer[FORGE_BYTES];
    const bs_weights w = bs_model_weights(model);
    bs_weight_info info;
    bs_record record;
    int32_t block;
    uint64_t at;
    if (!w.locate)
        return BS_OK;
    for (int32_t i = 0; bs_model_weight_get(model, i, NULL, NULL, &info) == BS_OK; i++)
        if (w.locate(w.user, &info, &block, &at) != BS_OK || w.record(w.user, block, &record) != BS_OK ||
            at < record.offset + record.head_bytes || at + info.bytes > record.offset + record.bytes)
            return USE_SILENT;
    for (int32_t b = 0; w.record(w.user, b, &record) == BS_OK; b++) {
        if (record.bytes == 0)
            continue;
        if (w.fetch(w.user, record.offset, buffer, (size_t)record.bytes) != BS_OK)
            return USE_SILENT;
        const bs_status status = w.verify(w.user, b, buffer);
        if (status != BS_OK && status != BS_ERROR_FORMAT)
            return USE_SILENT;
    }
    return BS_OK;
}

/* All of it. */
static inline bs_status use_model(bs_model *model, bs_arena *arena, bs_error *error)
{
    if (!model)
        return error->status == BS_OK ? USE_SILENT : error->status; /* a failure must say what it is */
    bs_status status = use_facts(model);
    if (status == BS_OK)
        status = use_stream(model);
    if (status == BS_OK)
        status = use_graph(model, arena, NULL, error);
    bs_model_close(model);
    return status;
}

/* From a copy of exactly that size, so that one byte too far is seen. */
static inline bs_status try_bytes(const uint8_t *bytes, size_t n, bs_error *error)
{
    bs_arena arena;
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        exit(2);
    memcpy(copy, bytes, n);
    memset(error, 0, sizeof *error);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    const bs_status status = use_model(bs_model_open_memory(&arena, copy, n, error), &arena, error);
    free(copy);
    return status;
}

#endif
