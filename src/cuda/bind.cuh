/* bind.cuh - the caller's buffers: in place where the device can read them, else through a dense copy.
 * Relies on state.cuh. Must never write a buffer that the graph only reads. */
#ifndef BS_CUDA_BIND
#define BS_CUDA_BIND

#include "cuda/state.cuh"

/* The device's address of any memory; NULL: the device cannot read it. */
static void *bs_cu_there(const void *memory)
{
    cudaPointerAttributes known;
    memset(&known, 0, sizeof known);
    if (cudaPointerGetAttributes(&known, memory) == cudaSuccess)
        return known.type != cudaMemoryTypeUnregistered ? known.devicePointer : NULL;
    cudaGetLastError(); /* older toolkits call ordinary memory an error */
    return NULL;
}

/* The pinned copy of the buffer that is bound to a node. */
static uint8_t *bs_cu_dense(const bs_device_session *s, int32_t node)
{
    return s->pinned + s->layout.inputs_pinned + bs_device_input_place(s->client->plan, node);
}

/* Resolves a caller's buffer: in place where the device can read it, else in a dense copy. */
static void bs_cu_locate(bs_device_session *s, int32_t node)
{
    const bs_device_client *c = s->client;
    const bs_buffer *b = &bs_client_bound(c, node)->buffer;
    bs_cu_bound *at = &s->at[node];
    at->address = 0;
    at->staged = false;
    memset(at->stride, 0, sizeof at->stride);
    if (!b->data)
        return;
    for (int32_t i = 0; i < b->rank; i++)
        at->stride[i] = b->stride[i];
    at->address = (uint64_t)(uintptr_t)b->data;
    if (bs_client_bound(c, node)->state == b->data)
        return; /* the session's own memory */
    const void *there = bs_cu_there(b->data);
    if (there) {
        at->address = (uint64_t)(uintptr_t)there;
        return;
    }
    at->staged = s->any_staged = true;
    const uint64_t copy = bs_device_input_place(c->plan, node);
    at->address = c->plan->desc.in_place ? s->pinned_there + s->layout.inputs_pinned + copy
                                         : (uint64_t)(uintptr_t)s->memory + s->layout.inputs + copy;
    int64_t stride = 1;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        at->stride[i] = stride;
        stride *= b->dim[i];
    }
}

static size_t bs_cu_bound_bytes(const bs_buffer *b)
{
    size_t bytes = bs_dtype_bytes(b->dtype);
    for (int32_t i = 0; i < b->rank; i++)
        bytes *= (size_t)b->dim[i];
    return bytes;
}

/* Copies between a strided buffer and a dense one of its extents, by lines of the last dimension; a scalar is a line of
 * one. dim: how far, at most b->dim. */
static void bs_cu_pack(const bs_buffer *b, const int64_t *dim, uint8_t *dense, bool out)
{
    const size_t bytes = bs_dtype_bytes(b->dtype);
    const int64_t last = b->rank > 0 ? dim[b->rank - 1] : 1, step = b->rank > 0 ? b->stride[b->rank - 1] : 1;
    int64_t lines = 1;
    for (int32_t i = 0; i + 1 < b->rank; i++)
        lines *= dim[i];
    for (int64_t line = 0; line < lines; line++) {
        int64_t at = 0, there = 0, rest = line, pitch = b->rank > 0 ? b->dim[b->rank - 1] : 1;
        for (int32_t i = b->rank - 2; i >= 0; i--) {
            at += rest % dim[i] * b->stride[i];
            there += rest % dim[i] * pitch;
            rest /= dim[i];
            pitch *= b->dim[i];
        }
        uint8_t *from = static_cast<uint8_t *>(b->data) + at * (int64_t)bytes, *to = dense + (size_t)there * bytes;
        for (int64_t x = 0; step != 1 && x < last; x++)
            memcpy(out ? from + x * step * (int64_t)bytes : to + x * (int64_t)bytes,
                   out ? to + x * (int64_t)bytes : from + x * step * (int64_t)bytes, bytes);
        if (step == 1)
            memcpy(out ? from : to, out ? to : from, (size_t)last * bytes);
    }
}

static bool bs_cu_reads(const bs_device_session *s, int32_t node)
{
    const bs_node *n = &s->client->graph->nodes[node];
    return s->at[node].staged && s->client->plan->node_live[node] && !bs_node_is_output(n);
}

static bool bs_cu_writes(const bs_device_session *s, int32_t node)
{
    return s->at[node].staged && !bs_node_is_input(&s->client->graph->nodes[node]);
}

/* Copies the caller's inputs into pinned memory. */
static void bs_cu_pack_inputs(bs_device_session *s)
{
    for (int32_t n = 1; n < s->client->graph->n_nodes; n++)
        if (bs_cu_reads(s, n)) {
            const bs_buffer *b = &bs_client_bound(s->client, n)->buffer;
            bs_cu_pack(b, b->dim, bs_cu_dense(s, n), false);
        }
}

/* Copies what was computed from pinned memory to the caller's buffer of an output or a state, as far as this run
 * went. */
static void bs_cu_unpack(const bs_device_session *s, int32_t node)
{
    const bs_device_client *c = s->client;
    const bs_value_info *v = &c->graph->values[bs_bound_value(c->graph, &c->graph->nodes[node])];
    int64_t dim[BS_MAX_RANK];
    for (int32_t i = 0; i < v->rank; i++)
        dim[i] = c->dims[v->dims[i]];
    bs_cu_pack(&bs_client_bound(c, node)->buffer, dim, bs_cu_dense(s, node), true);
}

/* Copies staged buffers to the device, or back into pinned memory. */
static bs_status bs_cu_copy_bound(bs_device_session *s, bool in, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t n = 1; n < s->client->graph->n_nodes && status == BS_OK && !s->client->plan->desc.in_place; n++) {
        if (in ? !bs_cu_reads(s, n) : !bs_cu_writes(s, n))
            continue;
        uint8_t *device = bs_cu_at<uint8_t>(s->at[n].address);
        const size_t bytes = bs_cu_bound_bytes(&bs_client_bound(s->client, n)->buffer);
        status = in ? bs_cu_copy(s, device, bs_cu_dense(s, n), bytes, cudaMemcpyHostToDevice,
                                 "copying inputs to the device", error)
                    : bs_cu_copy(s, bs_cu_dense(s, n), device, bytes, cudaMemcpyDeviceToHost,
                                 "copying outputs from the device", error);
    }
    return status;
}

#endif
