/* tables.cuh - the tables of a session, written in pinned memory and copied; and what each run puts in them:
 * dimensions, buffers, offsets of segments, cache lengths.
 * Relies on bind.cuh and step.cuh. Must never write what a copy may still read. */
#ifndef BS_CUDA_TABLES
#define BS_CUDA_TABLES

#include "cuda/bind.cuh"

/* A table of the run, where the host has it. */
template <typename T> static T *bs_cu_table(const bs_device_session *s, uint64_t at)
{
    return reinterpret_cast<T *>(s->pinned + s->layout.tables_pinned + at);
}

static bool bs_cu_same_buffers(const bs_device_session *s)
{
    bool same = true;
    for (int32_t k = 1; same && k < s->client->n_bound; k++)
        same = bs_same_buffer(&s->bound[k], &s->client->bound[k].buffer);
    return same;
}

/* Whether the tables hold for this run: cuBLAS is told of buffers by the host. */
static bool bs_cu_is_lowered(const bs_device_session *s, bool same_buffers)
{
#ifndef BS_NO_CUBLAS
    if (s->cublas && !same_buffers)
        return false;
#endif
    (void)same_buffers;
    return s->lowered;
}

/* Where a decision lies, as the tables say. */
static const bs_device_decision *bs_cu_decision_at(const bs_device_session *s, int32_t router)
{
    return bs_cu_table<bs_device_decision>(s, s->layout.decisions_at) + router;
}

/* What a path's domain has in a decision. */
static void bs_cu_link_domain(const bs_device_decision *made, int32_t domain, int32_t path, bs_device_domain *d)
{
    d->counted.at = (int64_t)made->counts + 4 * (int64_t)path;
    d->counted.in_tile = d->link.in_tile = made->in_tile;
    d->link.domain = domain;
    d->link.offset = (uint32_t)(made->offsets / 4) + (uint32_t)path;
    d->link.ids = (uint32_t)(made->ids / 4);
}

static bs_device_domain bs_cu_domain_of(const bs_device_session *s, int32_t domain)
{
    const bs_device_client *c = s->client;
    const bs_domain *from = &c->graph->domains[domain];
    bs_device_domain d;
    memset(&d, 0, sizeof d);
    d.kind = from->kind;
    d.parent = from->parent;
    d.router = from->router;
    d.path = from->path;
    d.count = from->kind == BS_DOMAIN_ROOT;
    d.counted.at = (int64_t)(s->layout.tables + s->layout.domains_at + (uint64_t)domain * sizeof d +
                             offsetof(bs_device_domain, count)) - (int64_t)s->layout.decisions;
    if (from->kind == BS_DOMAIN_PATH)
        bs_cu_link_domain(bs_cu_decision_at(s, from->router), domain, from->path, &d);
    d.rows = d.segments = -1;
    if (bs_domain_is_patches(from)) {
        d.rows = from->height;
        d.across = from->width;
        d.size = c->plan->domains[domain].size;
    } else if (from->kind == BS_DOMAIN_ROWS) {
        d.rows = from->rows;
    }
    if (c->offsets[from->top]) {
        d.segments = bs_segment_dim(c->graph, from->top);
        d.offsets = (uint64_t)(uintptr_t)(s->memory + s->layout.tables + s->layout.segments_at +
                                          bs_device_offsets_place(c->plan, from->top));
    }
    return d;
}

static void bs_cu_write_domains(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    const int32_t *dims = bs_cu_table<int32_t>(s, s->layout.dims_at);
    bs_device_domain *domains = bs_cu_table<bs_device_domain>(s, s->layout.domains_at);
    bs_device_decision *decisions = bs_cu_table<bs_device_decision>(s, s->layout.decisions_at);
    memset(decisions, 0, (size_t)c->graph->n_routers * sizeof *decisions);
    bs_device_decisions_place(c->plan, decisions);
    for (int32_t d = 0; d < c->graph->n_domains; d++) {
        domains[d] = bs_cu_domain_of(s, d);
        bs_cu_extend_domain(dims, &domains[d]);
    }
    *bs_cu_table<uint64_t>(s, s->layout.units_at) = (uint64_t)(uintptr_t)c->weights;
}

/* How dimensions follow from what nodes make, and what must fit then. */
static void bs_cu_write_derived(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    bs_device_dim *dims = bs_cu_table<bs_device_dim>(s, s->layout.derived_at);
    bs_device_join *join = bs_cu_table<bs_device_join>(s, s->layout.joins_at), one;
    for (int32_t d = 0; d < s->layout.n_dims; d++) {
        const bs_dim_info *from = &c->graph->dims[d];
        const bs_device_dim dim = {from->node, from->kind == BS_DIM_DERIVED ? from->parent : -1, from->mul, from->add,
                                   from->div, from->maximum};
        dims[d] = dim;
    }
    for (int32_t n = 1; n < c->graph->n_nodes && s->layout.n_joins > 0; n++)
        if (bs_device_joins(c->plan, n, &one))
            *join++ = one;
}

static bs_status bs_cu_write_bound(bs_device_session *s, bs_error *error)
{
    bs_device_bound *bound = bs_cu_table<bs_device_bound>(s, s->layout.bound_at);
    s->any_staged = false;
    for (int32_t n = 1; n < s->client->graph->n_nodes; n++) {
        if (!s->at[n].entry)
            continue;
        bs_cu_locate(s, n);
        bs_device_bound *b = &bound[s->at[n].entry];
        memset(b, 0, sizeof *b);
        b->address = s->at[n].address;
        b->bytes = (int32_t)bs_dtype_bytes(bs_client_bound(s->client, n)->buffer.dtype);
        for (int32_t i = 0; i < BS_MAX_RANK; i++) {
            b->stride[i] = (int32_t)s->at[n].stride[i];
            if (b->stride[i] != s->at[n].stride[i])
                return bs_fail(error, BS_ERROR_LIMIT,
                               "\"%s\": a stride of its buffer is %lld elements, a GPU's kernels count to 2^31 - 1",
                               bs_node_name(&s->client->graph->nodes[n]), (long long)s->at[n].stride[i]);
        }
    }
    return BS_OK;
}

/* Writes this run's dimensions, buffers, offsets of segments and cache lengths. */
static bs_status bs_cu_write_extents(bs_device_session *s, bool same_buffers, bs_error *error)
{
    const bs_device_client *c = s->client;
    uint8_t *to = bs_cu_table<uint8_t>(s, s->layout.segments_at);
    int32_t *dims = bs_cu_table<int32_t>(s, s->layout.dims_at);
    for (int32_t d = 0; d < c->graph->n_dims; d++)
        dims[d] = (int32_t)c->dims[d];
    for (int32_t d = 1; d < c->graph->n_domains; d++)
        if (c->offsets[d])
            memcpy(to + bs_device_offsets_place(c->plan, d), c->offsets[d],
                   4 * (size_t)(c->dims[bs_segment_dim(c->graph, d)] + 1));
    for (int32_t n = 1; n < c->graph->n_nodes; n++)
        if (bs_client_bound(c, n)->cache_lengths)
            memcpy(to + bs_device_cache_lengths_place(c->plan, n), bs_client_bound(c, n)->cache_lengths,
                   4 * (size_t)c->dims[c->graph->values[c->graph->nodes[n].first_out].dims[0]]);
    return same_buffers ? BS_OK : bs_cu_write_bound(s, error);
}

static bs_status bs_cu_upload(bs_device_session *s, uint64_t from, uint64_t bytes, bs_error *error)
{
    if (bytes == 0)
        return BS_OK;
    return bs_cu_copy(s, s->memory + s->layout.tables + from, bs_cu_table<uint8_t>(s, from), bytes,
                      cudaMemcpyHostToDevice, "copying tables to the device", error);
}

/* Operand number i as it is in this run, for the host: a copy, because the table may still be under way. */
static bs_device_operand bs_cu_operand_here(const bs_device_session *s, int32_t i)
{
    bs_device_operand o = bs_cu_table<bs_device_operand>(s, s->layout.operands_at)[i];
    bs_cu_extend_operand(bs_cu_table<int32_t>(s, s->layout.dims_at),
                         bs_cu_table<bs_device_bound>(s, s->layout.bound_at), &o);
    return o;
}

static bs_status bs_cu_write_tables(bs_device_session *s, bs_error *error)
{
    const bs_device_client *c = s->client;
    bs_cu_tables l;
    memset(&l, 0, sizeof l);
    l.client = c;
    l.graph = c->graph;
    l.plan = c->plan;
    l.layout = &s->layout;
    l.bound = s->at;
    l.memory = (uint64_t)(uintptr_t)s->memory;
    l.weights = (uint64_t)(uintptr_t)s->client->weights;
    l.blocks = bs_cu_busy_blocks(s);
#ifndef BS_NO_CUBLAS
    l.cublas = s->cublas != NULL;
#endif
    l.steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    l.operands = bs_cu_table<bs_device_operand>(s, s->layout.operands_at);
    l.given = bs_cu_table<uint32_t>(s, s->layout.given_at);
    l.domains = bs_cu_table<bs_device_domain>(s, s->layout.domains_at);
    l.decisions = bs_cu_table<bs_device_decision>(s, s->layout.decisions_at);
    bs_cu_write_domains(s);
    bs_status status = bs_cu_write_tables(&l, &s->launches, bs_cu_table<bs_device_part>(s, s->layout.parts_at), error);
    if (status != BS_OK)
        return status;
    bs_cu_write_derived(s);
    s->program.n_operands = l.n_operands;
    s->program.n_domains = c->graph->n_domains;
    return bs_cu_upload(s, 0, s->layout.dims_at, error);
}

#endif
