/* tables.cuh - the tables of a run, written in pinned memory when extents or buffers change, and copied.
 * Relies on bind.cuh and step.cuh. Must never write what a copy may still read. */
#ifndef BS_CUDA_TABLES
#define BS_CUDA_TABLES

#include "cuda/bind.cuh"

static bool bs_cu_same_buffer(const bs_buffer *a, const bs_buffer *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype && a->rank == b->rank;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i] && a->stride[i] == b->stride[i];
    return same;
}

/* A table of the run, where the host has it. */
template <typename T> static T *bs_cu_table(const bs_device_session *s, uint64_t at)
{
    return reinterpret_cast<T *>(s->pinned + s->layout.tables_pinned + at);
}

/* Whether the tables are those of this run. */
static bool bs_cu_is_lowered(const bs_device_session *s)
{
    const bs_graph *g = s->client->graph;
    bool same = s->lowered && memcmp(s->dims, s->client->dims, (size_t)g->n_dims * sizeof *s->dims) == 0;
    for (int32_t n = 1; same && n < g->n_nodes; n++)
        same = bs_cu_same_buffer(&s->bound[n], &s->client->bound[n]);
    return same;
}

static void bs_cu_write_domains(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    bs_device_domain *domains = bs_cu_table<bs_device_domain>(s, s->layout.domains_at);
    bs_device_decision *decisions = bs_cu_table<bs_device_decision>(s, s->layout.decisions_at);
    memset(domains, 0, (size_t)c->graph->n_domains * sizeof *domains);
    memset(decisions, 0, (size_t)c->graph->n_routers * sizeof *decisions);
    for (int32_t d = 0; d < c->graph->n_domains; d++) {
        const bs_domain *from = &c->graph->domains[d];
        domains[d].kind = from->kind;
        domains[d].parent = from->parent;
        domains[d].router = from->router;
        domains[d].path = from->path;
        domains[d].count = c->domains[d].count;
        if (!c->offsets[d])
            continue;
        domains[d].lengths = (int32_t)c->dims[bs_segment_dim(c->graph, d)];
        domains[d].offsets = (uint64_t)(uintptr_t)(s->memory + s->layout.tables + s->layout.segments_at +
                                                   bs_device_offsets_place(c->plan, d));
    }
    bs_device_decisions_place(c->plan, decisions);
    *bs_cu_table<uint64_t>(s, s->layout.units_at) = (uint64_t)(uintptr_t)c->weights;
}

/* Writes this run's offsets of segments and its cache lengths. */
static void bs_cu_write_segments(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    uint8_t *to = bs_cu_table<uint8_t>(s, s->layout.segments_at);
    for (int32_t d = 1; d < c->graph->n_domains; d++)
        if (c->offsets[d])
            memcpy(to + bs_device_offsets_place(c->plan, d), c->offsets[d],
                   4 * (size_t)(c->dims[bs_segment_dim(c->graph, d)] + 1));
    for (int32_t n = 1; n < c->graph->n_nodes; n++)
        if (c->cache_lengths[n])
            memcpy(to + bs_device_cache_lengths_place(c->plan, n), c->cache_lengths[n],
                   4 * (size_t)c->dims[c->graph->values[c->graph->nodes[n].first_out].dims[0]]);
}

static bs_status bs_cu_upload(bs_device_session *s, uint64_t from, uint64_t bytes, bs_error *error)
{
    if (bytes == 0)
        return BS_OK;
    return bs_cu_copy(s, s->memory + s->layout.tables + from, bs_cu_table<uint8_t>(s, from), bytes,
                      cudaMemcpyHostToDevice, "copying tables to the device", error);
}

/* Where a router's decision lies, as the tables say. */
static const bs_device_decision *bs_cu_decision_at(const bs_device_session *s, int32_t router)
{
    return bs_cu_table<bs_device_decision>(s, s->layout.decisions_at) + router;
}

static bs_status bs_cu_write_tables(bs_device_session *s, bs_error *error)
{
    const bs_device_client *c = s->client;
    s->lowered = s->any_staged = false;
    for (int32_t n = 1; n < c->graph->n_nodes; n++)
        bs_cu_locate(s, n);
    bs_cu_tables l;
    memset(&l, 0, sizeof l);
    l.client = c;
    l.graph = c->graph;
    l.plan = c->plan;
    l.layout = &s->layout;
    l.bound = s->at;
    l.memory = (uint64_t)(uintptr_t)s->memory;
    l.weights = (uint64_t)(uintptr_t)s->client->weights;
#ifndef BS_NO_CUBLAS
    l.cublas = s->cublas != NULL;
#endif
    l.steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    l.operands = bs_cu_table<bs_device_operand>(s, s->layout.operands_at);
    l.given = bs_cu_table<uint32_t>(s, s->layout.given_at);
    bs_status status = bs_cu_write_tables(&l, &s->launches, bs_cu_table<bs_device_part>(s, s->layout.parts_at), error);
    if (status != BS_OK)
        return status;
    bs_cu_write_domains(s);
    memcpy(s->dims, c->dims, (size_t)c->graph->n_dims * sizeof *s->dims);
    memcpy(s->bound, c->bound, (size_t)c->graph->n_nodes * sizeof *s->bound);
    s->has_segments = s->layout.segments_at < s->layout.tables_bytes;
    status = bs_cu_upload(s, 0, s->layout.segments_at, error);
    s->lowered = status == BS_OK;
    return status;
}

#endif
