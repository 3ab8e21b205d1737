/* text_model.c: see text_model.h. */
#include "text_model.h"

#include <stdio.h>
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

/* ------------------------------------------------------------------------------------------------ opening */

/* Opened once, by name: what is planned and run is what was looked at, whatever happens to the file meanwhile. */
static bool model_open(text_model *m, const text_options *o, const bs_platform *platform)
{
    const bool streams = o->stream.slot_bytes > 0 || o->stream.slot_percent > 0;
    const size_t bytes = bs_model_file_bytes(platform, o->model, &m->error);
    if (bytes == 0 || !arenas_lend(&m->arenas, &m->index_memory, "index", bytes, &m->error))
        return false;
    m->model = bs_model_open_file(&m->index_memory, platform, o->model, &m->error);
    if (m->model && o->stream.buffered)
        bs_model_use_buffered(m->model);
    return m->model && (!streams || bs_model_can_stream(m->model, &m->error) == BS_OK);
}

/* The model's extents are maxima; memory is taken for what this program will bind. */
static bool graph_build(text_model *m)
{
    const bs_graph_desc room = bs_model_graph_desc(m->model);
    const int64_t sequences = m->sequences;
    const bs_model_input inputs[] = {
        {"tokens", 2, {sequences * m->rows_most, 1}}, {"lengths", 1, {sequences}}, {"past", 1, {sequences}}};
    const bs_model_build_desc desc = {.inputs = inputs, .n_inputs = 3};
    if (!arenas_lend(&m->arenas, &m->graph_memory, "graph", bs_graph_bytes(&room), &m->error))
        return false;
    m->graph = bs_graph_create(&m->graph_memory, &room);
    if (!m->graph)
        return fail(m, BS_ERROR_ARENA, "the model's graph is too large");
    return bs_model_build(m->model, m->graph, &desc, &m->error) == BS_OK;
}

static bool plan_make(text_model *m, const text_options *o)
{
    bs_plan_desc desc = {.threads = o->threads};
    device_plan(&m->gpu, &desc);
    if (!stream_options_plan(&o->stream, m->graph, &desc, &m->error) ||
        !arenas_lend(&m->arenas, &m->plan_memory, "plan", bs_plan_bytes(m->graph, &desc), &m->error))
        return false;
    m->plan = bs_plan_create(&m->plan_memory, NULL, m->graph, &desc, &m->error);
    if (m->plan)
        bs_plan_sizes(m->plan, &m->planned);
    return m->plan != NULL;
}

static bool session_make(text_model *m, const text_options *o, const stream_tools *tools)
{
    if (!device_open(&m->gpu, &m->arenas, &m->planned, &m->error))
        return false;
    m->fixed_bytes = m->index_memory.used + m->graph_memory.used + m->plan_memory.used + m->gpu.memory.used;
    if (!arenas_lend_session(&m->arenas, &m->memory, &m->planned, &m->error))
        return false;
    bs_session_desc desc = {.weights = bs_model_weights(m->model), .device = m->gpu.device};
    stream_options_session(&o->stream, tools, &desc);
    m->session = bs_session_create(&m->memory, m->plan, &desc, &m->error);
    return m->session != NULL;
}

static bool bind_sequences(text_model *m)
{
    const int64_t n = m->sequences;
    const bs_buffer past = {m->past, BS_I32, 1, {n}, {0}}, logits = {m->logits, BS_F32, 2, {n, TEXT_CODES}, {0}};
    return bs_bind(m->session, "past", &past, &m->error) == BS_OK &&
           bs_bind(m->session, "logits", &logits, &m->error) == BS_OK;
}

bool text_model_open(text_model *m, const text_options *o, int rows_most, const stream_tools *tools)
{
    memset(m, 0, sizeof *m);
    m->sequences = o->sequences;
    m->rows_most = rows_most;
    return device_find(&m->gpu, &o->device, &m->error) && model_open(m, o, tools ? tools->platform : NULL) &&
           graph_build(m) && plan_make(m, o) && session_make(m, o, tools) && bind_sequences(m);
}

void text_model_close(text_model *m)
{
    bs_session_close(m->session);
    device_close(&m->gpu);
    bs_model_close(m->model);
    arenas_free(&m->arenas);
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
    if (bs_bind(m->session, "tokens", &tokens, &m->error) != BS_OK ||
        bs_bind(m->session, "lengths", &each, &m->error) != BS_OK || bs_run(m->session, &m->error) != BS_OK)
        return false;
    const uint64_t n = (uint64_t)m->sequences;
    device_count(&m->gpu, n * (uint64_t)(rows + 2) * sizeof *codes, n * sizeof m->logits[0]);
    for (int s = 0; s < m->sequences; s++)
        m->past[s] += rows;
    return true;
}
