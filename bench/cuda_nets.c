/* cuda_nets.c: weights and inputs of networks, and what is the same in all of them. See cuda_nets.h. */
#include "cuda_nets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------- numbers */

static uint32_t scrambled(uint32_t x)
{
    x = (x ^ 61u) ^ (x >> 16);
    x *= 9u;
    x ^= x >> 4;
    x *= 0x27d4eb2du;
    return x ^ (x >> 15);
}

static uint32_t seed_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static float uniform(uint32_t seed, uint64_t index)
{
    return (float)(scrambled(seed + (uint32_t)index) >> 8) / 8388608.0f - 1.0f;
}

int64_t cuda_net_elements(const bs_buffer *buffer)
{
    int64_t n = 1;
    for (int32_t d = 0; d < buffer->rank; d++)
        n *= buffer->dim[d];
    return n;
}

double cuda_net_value(const bs_buffer *buffer, const void *data, int64_t index)
{
    switch (buffer->dtype) {
    case BS_F32: return (double)((const float *)data)[index];
    case BS_I32: return (double)((const int32_t *)data)[index];
    case BS_U8: return (double)((const uint8_t *)data)[index];
    default: return NAN;
    }
}

void cuda_net_loads(const double *shares, int32_t n, int32_t cells, int32_t *loads)
{
    double all = 0;
    int32_t given = 0;
    for (int32_t i = 0; i < n; i++)
        all += shares[i];
    for (int32_t i = 0; i < n; i++)
        given += loads[i] = (int32_t)(shares[i] / all * cells);
    for (; given < cells; given++) {
        int32_t most = 0;
        for (int32_t i = 1; i < n; i++)
            if (shares[i] / all * cells - loads[i] > shares[most] / all * cells - loads[most])
                most = i;
        loads[most]++;
    }
}

bool cuda_net_deal(cuda_net *net, const int32_t *loads, int32_t paths, int32_t rows)
{
    net->rows = rows;
    net->path_of_row = calloc((size_t)rows, sizeof *net->path_of_row);
    if (!net->path_of_row)
        return cuda_net_fail(net, BS_ERROR_ARENA, "not enough memory");
    for (int32_t p = 0, r = 0; p < paths; p++)
        for (int32_t i = 0; i < loads[p] && r < rows; i++)
            net->path_of_row[r++] = p;
    for (int32_t r = rows - 1; r > 0; r--) {
        const int32_t other = (int32_t)(scrambled((uint32_t)r) % (uint32_t)(r + 1)), path = net->path_of_row[r];
        net->path_of_row[r] = net->path_of_row[other];
        net->path_of_row[other] = path;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------- from begin to end */

bool cuda_net_fail(cuda_net *net, bs_status status, const char *message)
{
    if (net->error.status == BS_OK) {
        net->error.status = status;
        snprintf(net->error.message, sizeof net->error.message, "%s", message);
    }
    return false;
}

bool cuda_net_begin(cuda_net *net, const char *name, int32_t nodes)
{
    memset(net, 0, sizeof *net);
    snprintf(net->name, sizeof net->name, "%s", name);
    const bs_graph_desc room = {.max_nodes = nodes, .max_values = nodes + 256, .max_text_bytes = 65536 + nodes * 96};
    const size_t bytes = bs_graph_bytes(&room) + BS_ALIGNMENT;
    bs_arena arena;
    net->memory = malloc(bytes);
    bs_arena_init(&arena, "graph", net->memory, net->memory ? bytes : 0);
    net->graph = bs_graph_create(&arena, &room);
    return net->graph || cuda_net_fail(net, BS_ERROR_ARENA, "not enough memory for the graph");
}

bool cuda_net_ready(cuda_net *net)
{
    if (net->error.status != BS_OK || bs_graph_check(net->graph, &net->error) != BS_OK)
        return false;
    for (int32_t i = 0; i < net->n_weights; i++)
        net->weight_bytes += (double)net->weights[i].info.bytes;
    for (int32_t i = 0; i < net->n_inputs; i++)
        net->io_bytes += (double)cuda_net_elements(&net->inputs[i]) * (double)bs_dtype_bytes(net->inputs[i].dtype);
    net->io_bytes += (double)cuda_net_elements(&net->output) * (double)bs_dtype_bytes(net->output.dtype);
    return net->output.data || cuda_net_fail(net, BS_ERROR_ARENA, "not enough memory for buffers");
}

void cuda_net_close(cuda_net *net)
{
    for (int32_t i = 0; i < net->n_inputs; i++)
        free(net->inputs[i].data);
    free(net->output.data);
    free(net->weights);
    free(net->path_of_row);
    bs_model_close(net->model);
    free(net->memory);
    memset(net, 0, sizeof *net);
}

/* -------------------------------------------------------------------------------------------------- weights */

void cuda_net_weight(cuda_net *net, const char *name, const char *suffix, int32_t rank, const int64_t *dim, float scale)
{
    if (net->n_weights == net->room_weights) {
        const int32_t room = 2 * net->room_weights + 64;
        cuda_weight *more = realloc(net->weights, (size_t)room * sizeof *more);
        if (!more) {
            cuda_net_fail(net, BS_ERROR_ARENA, "not enough memory for names of weights");
            return;
        }
        net->weights = more;
        net->room_weights = room;
    }
    cuda_weight *w = &net->weights[net->n_weights];
    memset(w, 0, sizeof *w);
    snprintf(w->name, sizeof w->name, "%s.%s", name, suffix);
    w->seed = seed_of(w->name);
    w->scale = scale;
    w->info = (bs_weight_info){
        .dtype = BS_F32, .rank = rank, .bytes = sizeof(float), .handle = (uint64_t)net->n_weights++};
    for (int32_t d = 0; d < rank; d++) {
        w->info.dim[d] = dim[d];
        w->info.bytes *= (uint64_t)dim[d];
    }
}

static bs_status weight_find(const void *user, const char *name, bs_weight_info *info)
{
    const cuda_net *net = user;
    for (int32_t i = 0; i < net->n_weights; i++)
        if (strcmp(net->weights[i].name, name) == 0) {
            *info = net->weights[i].info;
            return BS_OK;
        }
    return BS_ERROR_WEIGHTS;
}

static bs_status weight_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    const cuda_weight *w = &((const cuda_net *)user)->weights[info->handle];
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        ((float *)buffer)[i] = w->scale * uniform(w->seed, offset / sizeof(float) + i);
    return BS_OK;
}

static const void *weight_map(const void *user, const bs_weight_info *info)
{
    (void)user, (void)info;
    return NULL;
}

bs_weights cuda_net_weights(const cuda_net *net)
{
    if (net->model)
        return bs_model_weights(net->model);
    return (bs_weights){.user = net, .find = weight_find, .read = weight_read, .map = weight_map};
}

/* ------------------------------------------------------------------------------------------- what is built with */

bs_buffer cuda_net_buffer(bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    bs_buffer buffer = {NULL, dtype, rank, {d0, d1, d2, d3}, {0}};
    buffer.data = calloc((size_t)cuda_net_elements(&buffer), bs_dtype_bytes(dtype));
    return buffer;
}

void *cuda_net_input(cuda_net *net, const char *name, bs_buffer buffer)
{
    if (!buffer.data)
        cuda_net_fail(net, BS_ERROR_ARENA, "not enough memory for inputs");
    net->input_names[net->n_inputs] = name;
    net->inputs[net->n_inputs++] = buffer;
    for (int64_t i = 0; buffer.data && buffer.dtype == BS_F32 && i < cuda_net_elements(&buffer); i++)
        ((float *)buffer.data)[i] = uniform(seed_of(name), (uint64_t)i);
    return buffer.data;
}

void cuda_net_output(cuda_net *net, const char *name, bs_buffer buffer)
{
    net->output_name = name;
    net->output = buffer;
}

/* Weights that keep the size of what goes through: uniform with variance gain / inputs. */
bs_value cuda_net_conv(cuda_net *net, bs_value x, const char *name, int32_t in, int32_t out, bs_act act, float gain)
{
    cuda_net_weight(net, name, "weight", 4, (const int64_t[]){out, in, 3, 3}, gain * sqrtf(3.0f / (9.0f * (float)in)));
    cuda_net_weight(net, name, "bias", 1, (const int64_t[]){out}, 0.01f);
    return bs_conv2d(net->graph, x, &(bs_conv2d_desc){.name = name, .out = out, .act = (int32_t)act});
}

bs_value cuda_net_linear(cuda_net *net, bs_value x, const char *name, int32_t in, int32_t out, bs_act act)
{
    cuda_net_weight(net, name, "weight", 2, (const int64_t[]){out, in}, sqrtf(3.0f / (float)in));
    cuda_net_weight(net, name, "bias", 1, (const int64_t[]){out}, 0.1f);
    return bs_linear(net->graph, x, &(bs_linear_desc){.name = name, .out = out, .act = (int32_t)act});
}
