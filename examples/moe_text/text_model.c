/* text_model.c: see text_model.h. */
#include "text_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int text_code(char c)
{
    if (c == '\n')
        return 0;
    return c >= ' ' && c <= '~' ? c - ' ' + 1 : -1;
}

char text_character(int code)
{
    return code == 0 ? '\n' : (char)(code - 1 + ' ');
}

static bool fail(text_model *m, bs_status status, const char *message)
{
    m->error.status = status;
    snprintf(m->error.message, sizeof m->error.message, "%s", message);
    return false;
}

/* ------------------------------------------------------------------------------------------------- memory */

/* The model's index, the graph and the plan are small; what is planned comes on top. */
#define FIXED_BYTES ((size_t)4 << 20)

static bool memory_take(text_model *m, size_t bytes)
{
    free(m->block);
    m->block_bytes = (bytes + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT;
    m->block = aligned_alloc(BS_ALIGNMENT, (size_t)m->block_bytes);
    return m->block != NULL || fail(m, BS_ERROR_ARENA, "not enough memory");
}

static uint8_t *cut(bs_arena *arena, const char *name, uint8_t *at, uint64_t bytes)
{
    bs_arena_init(arena, name, at, (size_t)bytes + BS_ALIGNMENT);
    return at + bytes + BS_ALIGNMENT;
}

/* Cuts the block into the arenas that the plan asked for. */
static void memory_cut(text_model *m, size_t fixed)
{
    uint8_t *at = m->block + fixed;
    at = cut(&m->memory.transient, "transient", at, m->planned.transient);
    at = cut(&m->memory.staging, "staging", at, m->planned.staging);
    cut(&m->memory.slots, "slots", at, m->planned.slots);
}

/* -------------------------------------------------------------------------------------------------- plan */

/* The model's extents are maxima; memory is taken for what this program will bind. */
static bool graph_build(text_model *m, const text_options *o, const stream_tools *tools)
{
    const bool streams = o->stream.slot_bytes > 0 || o->stream.slot_percent > 0;
    m->model = bs_model_open_file(&m->memory.persistent, tools ? tools->platform : NULL, o->model, &m->error);
    if (!m->model || (streams && bs_model_can_stream(m->model, &m->error) != BS_OK))
        return false;
    if (o->stream.buffered)
        bs_model_use_buffered(m->model);
    const bs_graph_desc room = bs_model_graph_desc(m->model);
    m->graph = bs_graph_create(&m->memory.persistent, &room);
    if (!m->graph)
        return fail(m, BS_ERROR_ARENA, "the model's graph is too large");
    const int64_t sequences = m->sequences;
    const bs_model_input inputs[] = {{"tokens", 2, {sequences * m->rows_most, 1}}, {"lengths", 1, {sequences}}, {"past", 1, {sequences}}};
    const bs_model_build_desc desc = {.inputs = inputs, .n_inputs = 3};
    return bs_model_build(m->model, m->graph, &desc, &m->error) == BS_OK;
}

static bool plan_make(text_model *m, const bs_plan_desc *desc)
{
    m->plan = bs_plan_create(&m->memory.persistent, m->graph, desc, &m->error);
    if (!m->plan)
        return false;
    bs_plan_sizes(m->plan, &m->planned);
    m->fixed_bytes = m->memory.persistent.used;
    return true;
}

/* A block of `bytes`, and in the first `fixed` of them the model and its graph. */
static bool model_load(text_model *m, const text_options *o, const stream_tools *tools, size_t fixed, size_t bytes)
{
    bs_model_close(m->model);
    m->model = NULL;
    if (!memory_take(m, bytes))
        return false;
    bs_arena_init(&m->memory.persistent, "persistent", m->block, fixed);
    return graph_build(m, o, tools);
}

/* First in a small block: then the bytes are known, and everything moves into one block of the right size. */
static bool plan_twice(text_model *m, const text_options *o, const stream_tools *tools)
{
    bs_plan_desc desc = {.threads = o->threads};
    device_plan(&m->gpu, &desc);
    if (!model_load(m, o, tools, FIXED_BYTES, FIXED_BYTES) ||
        !stream_options_plan(&o->stream, &m->memory.persistent, m->graph, &desc, &m->error) || !plan_make(m, &desc))
        return false;
    const bs_sizes *s = &m->planned;
    const size_t fixed = (size_t)(m->fixed_bytes + DEVICE_ARENA_BYTES + s->persistent + BS_ALIGNMENT);
    const size_t bytes = fixed + (size_t)(s->transient + s->staging + s->slots) + 3 * BS_ALIGNMENT;
    if (!model_load(m, o, tools, fixed, bytes) || !plan_make(m, &desc))
        return false;
    memory_cut(m, fixed);
    return true;
}

static bool bind_sequences(text_model *m)
{
    const int64_t n = m->sequences;
    const bs_buffer past = {m->past, BS_I32, 1, {n}, {0}}, logits = {m->logits, BS_F32, 2, {n, TEXT_CODES}, {0}};
    return bs_bind(m->session, "past", &past, &m->error) == BS_OK && bs_bind(m->session, "logits", &logits, &m->error) == BS_OK;
}

bool text_model_open(text_model *m, const text_options *o, int rows_most, const stream_tools *tools)
{
    memset(m, 0, sizeof *m);
    m->sequences = o->sequences;
    m->rows_most = rows_most;
    if (!device_find(&m->gpu, &o->device, &m->error) || !plan_twice(m, o, tools) ||
        !device_open(&m->gpu, &m->memory.persistent, &m->planned, &m->error))
        return false;
    bs_session_desc desc = {.weights = bs_model_weights(m->model), .device = m->gpu.device};
    stream_options_session(&o->stream, tools, &desc);
    m->session = bs_session_create(&m->memory, m->plan, &desc, &m->error);
    return m->session != NULL && bind_sequences(m);
}

void text_model_close(text_model *m)
{
    bs_session_close(m->session);
    device_close(&m->gpu);
    bs_model_close(m->model);
    free(m->block);
    memset(m, 0, sizeof *m);
}

/* --------------------------------------------------------------------------------------------------- run */

bool text_model_run(text_model *m, const int32_t *codes, int rows)
{
    int32_t lengths[TEXT_MAX_SEQUENCES];
    for (int s = 0; s < m->sequences; s++)
        lengths[s] = rows;
    const bs_buffer tokens = {(void *)(uintptr_t)codes, BS_I32, 2, {(int64_t)m->sequences * rows, 1}, {0}};
    const bs_buffer each = {lengths, BS_I32, 1, {m->sequences}, {0}};
    if (bs_bind(m->session, "tokens", &tokens, &m->error) != BS_OK || bs_bind(m->session, "lengths", &each, &m->error) != BS_OK ||
        bs_run(m->session, &m->error) != BS_OK)
        return false;
    const uint64_t n = (uint64_t)m->sequences;
    device_count(&m->gpu, n * (uint64_t)(rows + 2) * sizeof *codes, n * sizeof m->logits[0]);
    for (int s = 0; s < m->sequences; s++)
        m->past[s] += rows;
    return true;
}
