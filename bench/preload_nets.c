/* preload_nets.c: networks of random weights, built as their weights are written.
 * Relies on: flat_file.h. Must never: let an input depend on anything but the number of the run. */
#include "preload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATHS = 8, LAYERS = 20, CELLS = 88, SUBNETS = 10, CHANNELS = 8, RESIDUAL = 80, SIDE = 32, SCALE = 4 };
enum { CHAIN_BLOCKS = 12, CHAIN_LAYERS = 2, CHAIN_WIDTH = 384, CHAIN_ROWS = 4096 };

uint32_t preload_random(uint32_t seed)
{
    seed = (seed ^ 61u) ^ (seed >> 16);
    seed *= 9u;
    seed ^= seed >> 4;
    seed *= 0x27d4eb2du;
    return seed ^ (seed >> 15);
}

/* -------------------------------------------------------------------------------------------------- helpers */

static bool net_open(preload_net *net, const char *name, int32_t nodes)
{
    memset(net, 0, sizeof *net);
    snprintf(net->name, sizeof net->name, "%s", name);
    const bs_graph_desc room = {.max_nodes = nodes, .max_values = nodes + 256, .max_text_bytes = 65536 + nodes * 96};
    const size_t bytes = bs_graph_bytes(&room) + BS_ALIGNMENT;
    bs_arena arena;
    net->memory = malloc(bytes);
    bs_arena_init(&arena, "graph", net->memory, net->memory ? bytes : 0);
    net->graph = bs_graph_create(&arena, &room);
    flat_create(&net->file, "preload");
    return net->graph != NULL;
}

static bool net_ready(preload_net *net)
{
    bs_error error = {0};
    if (!net->graph || bs_graph_check(net->graph, &error) != BS_OK)
        return preload_complain(net->name, &error);
    if (!flat_finish(&net->file)) {
        fprintf(stderr, "preload: %s: cannot write %s\n", net->name, net->file.path);
        return false;
    }
    return true;
}

void preload_net_close(preload_net *net)
{
    for (int32_t i = 0; i < net->n_inputs; i++)
        free(net->inputs[i].data);
    free(net->output.data);
    bs_model_close(net->model);
    flat_delete(&net->file);
    free(net->memory);
    memset(net, 0, sizeof *net);
}

static bs_buffer make_buffer(bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    bs_buffer buffer = {NULL, dtype, rank, {d0, d1, d2, d3}, {0}};
    size_t count = 1;
    for (int32_t d = 0; d < rank; d++)
        count *= (size_t)buffer.dim[d];
    buffer.data = calloc(count, bs_dtype_bytes(dtype));
    return buffer;
}

static void *net_input(preload_net *net, const char *name, bs_buffer buffer)
{
    net->input_names[net->n_inputs] = name;
    net->inputs[net->n_inputs++] = buffer;
    return buffer.data;
}

static void net_output(preload_net *net, const char *name, bs_buffer buffer)
{
    net->output_name = name;
    net->output = buffer;
    net->n_outputs = 1;
}

static void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; values && i < count; i++)
        values[i] = (float)(preload_random(seed + (uint32_t)i) >> 8) / 8388608.0f - 1.0f;
}

/* Weights that keep the size of what goes through: uniform with variance gain / inputs. */
static bs_value linear(preload_net *net, bs_value x, const char *name, int32_t in, int32_t out)
{
    flat_add(&net->file, name, "weight", 2, (const int64_t[]){out, in}, sqrtf(3.0f / (float)in));
    flat_add(&net->file, name, "bias", 1, (const int64_t[]){out}, 0.1f);
    return bs_linear(net->graph, x, &(bs_linear_desc){.name = name, .out = out});
}

static bs_value conv(preload_net *net, bs_value x, const char *name, int32_t in, int32_t out, bs_act act, float gain)
{
    flat_add(&net->file, name, "weight", 4, (const int64_t[]){out, in, 3, 3}, gain * sqrtf(3.0f / (9.0f * (float)in)));
    flat_add(&net->file, name, "bias", 1, (const int64_t[]){out}, 0.01f);
    return bs_conv2d(net->graph, x, &(bs_conv2d_desc){.name = name, .out = out, .act = (int32_t)act});
}

/* ------------------------------------------------------------------------------------------ two routers in a row */

static bs_value router_of(preload_net *net, bs_value x, const char *score_name, const char *name, int32_t width)
{
    bs_value scores = bs_rows(net->graph, bs_input(net->graph, score_name, BS_F32, BS_SHAPE2(net->rows, PATHS)), x),
             out[PATHS];
    const bs_router route = bs_route(net->graph, scores, BS_NONE,
                                     &(bs_route_desc){.name = name, .protocol = BS_ROUTE_TOP1, .paths = PATHS});
    for (int32_t p = 0; p < PATHS; p++) {
        char block[32], layer[48];
        snprintf(block, sizeof block, "%s.%d", name, (int)p);
        bs_block_begin(net->graph, block);
        flat_block(&net->file);
        bs_value y = bs_scatter(net->graph, route, p, x);
        for (int32_t l = 0; l < LAYERS; l++) {
            snprintf(layer, sizeof layer, "%s.%d", block, (int)l);
            y = linear(net, y, layer, width, width);
        }
        out[p] = y;
        bs_block_end(net->graph);
    }
    return bs_gather(net->graph, route, out, BS_NONE, NULL);
}

static void choose(const preload_net *net, int32_t input, int32_t path)
{
    float *scores = net->inputs[input].data;
    for (int32_t r = 0; r < net->rows; r++)
        for (int32_t p = 0; p < PATHS; p++)
            scores[r * PATHS + p] = p == path ? 1.0f : 0.0f;
}

/* All rows go the same way, and every way is as likely as any other. */
static void step_routed(preload_net *net, int32_t run)
{
    const uint32_t seed = 4u * (uint32_t)run;
    const int32_t second = (int32_t)(preload_random(seed + 1) % PATHS);
    const bool right = (int32_t)(preload_random(seed + 2) % 100) < net->right_percent;
    choose(net, 1, (int32_t)(preload_random(seed) % PATHS));
    choose(net, 2, second);
    choose(net, 3, right ? second : (second + 1 + (int32_t)(preload_random(seed + 3) % (PATHS - 1))) % PATHS);
}

bool preload_routed(preload_net *net, int32_t width, int32_t rows, int32_t right_percent)
{
    char name[40];
    snprintf(name, sizeof name, "paths w%d r%d %s", (int)width, (int)rows,
             right_percent >= 100 ? "hit"
             : right_percent <= 0 ? "miss"
                                  : "mixed");
    if (!net_open(net, name, 2 * PATHS * (LAYERS + 2) + 64))
        return false;
    net->rows = rows;
    net->right_percent = right_percent;
    net->chunk_bytes = (uint64_t)width * (uint64_t)(width + 1) * 4;
    net->unit_bytes = LAYERS * net->chunk_bytes;
    net->n_units = 2 * PATHS;
    net->step = step_routed;
    bs_value x = bs_rows(net->graph, bs_input(net->graph, "x", BS_F32, BS_SHAPE2(rows, width)), BS_NONE);
    bs_look_ahead(net->graph, bs_rows(net->graph, bs_input(net->graph, "guess", BS_F32, BS_SHAPE2(rows, PATHS)), x),
                  "second");
    x = router_of(net, x, "first_scores", "first", width);
    x = router_of(net, x, "second_scores", "second", width);
    bs_output(net->graph, "y", bs_collect(net->graph, x));
    fill(net_input(net, "x", make_buffer(BS_F32, 2, rows, width, 0, 0)), (size_t)rows * (size_t)width, 7);
    net_input(net, "first_scores", make_buffer(BS_F32, 2, rows, PATHS, 0, 0));
    net_input(net, "second_scores", make_buffer(BS_F32, 2, rows, PATHS, 0, 0));
    net_input(net, "guess", make_buffer(BS_F32, 2, rows, PATHS, 0, 0));
    net_output(net, "y", make_buffer(BS_F32, 2, rows, width, 0, 0));
    return net_ready(net);
}

/* -------------------------------------------------------------------------------------------------------- LiveSR */

static bs_value subnet(preload_net *net, bs_value x, const char *block)
{
    char name[64];
    snprintf(name, sizeof name, "%s.head", block);
    const bs_value head = conv(net, x, name, 3, CHANNELS, BS_ACT_NONE, 1.0f);
    bs_value y = head;
    for (int32_t r = 0; r < RESIDUAL; r++) {
        snprintf(name, sizeof name, "%s.%d.a", block, (int)r);
        bs_value z = conv(net, y, name, CHANNELS, CHANNELS, BS_RELU, 1.0f);
        snprintf(name, sizeof name, "%s.%d.b", block, (int)r);
        y = bs_add(net->graph, conv(net, z, name, CHANNELS, CHANNELS, BS_ACT_NONE, 0.15f), y);
    }
    snprintf(name, sizeof name, "%s.body", block);
    y = bs_add(net->graph, conv(net, y, name, CHANNELS, CHANNELS, BS_ACT_NONE, 1.0f), head);
    for (int32_t u = 0; u < 2; u++) {
        snprintf(name, sizeof name, "%s.up%d", block, (int)u);
        y = bs_pixel_shuffle(net->graph, conv(net, y, name, CHANNELS, 4 * CHANNELS, BS_ACT_NONE, 1.0f), 2);
    }
    snprintf(name, sizeof name, "%s.tail", block);
    return conv(net, y, name, CHANNELS, 3, BS_ACT_NONE, 1.0f);
}

/* Labels drawn by the published largest loads of the ten subnets. */
static void step_livesr(preload_net *net, int32_t run)
{
    static const int32_t loads[SUBNETS] = {6, 7, 12, 27, 8, 8, 8, 12, 12, 4};
    int32_t *labels = net->inputs[1].data;
    for (int32_t cell = 0; cell < CELLS; cell++) {
        int32_t left = (int32_t)(preload_random((uint32_t)(run * CELLS + cell)) % 104), label = 0;
        while (left >= loads[label])
            left -= loads[label++];
        labels[cell] = label;
    }
}

bool preload_livesr(preload_net *net)
{
    bs_value out[SUBNETS];
    if (!net_open(net, "livesr 10/8", SUBNETS * (3 * RESIDUAL + 16) + 64))
        return false;
    net->rows = CELLS;
    net->n_units = SUBNETS;
    net->chunk_bytes = 262144;
    net->step = step_livesr;
    const bs_value x = bs_rows(net->graph, bs_input(net->graph, "patches", BS_F32, BS_SHAPE4(CELLS, 3, SIDE, SIDE)),
                               BS_NONE);
    const bs_value labels = bs_rows(net->graph, bs_input(net->graph, "labels", BS_I32, BS_SHAPE2(CELLS, 1)), x);
    const bs_router route = bs_route(net->graph, labels, BS_NONE,
                                     &(bs_route_desc){.name = "subnet", .protocol = BS_ROUTE_LABEL, .paths = SUBNETS});
    for (int32_t p = 0; p < SUBNETS; p++) {
        char block[32];
        snprintf(block, sizeof block, "s%d", (int)p);
        bs_block_begin(net->graph, block);
        flat_block(&net->file);
        out[p] = subnet(net, bs_scatter(net->graph, route, p, x), block);
        bs_block_end(net->graph);
    }
    net->unit_bytes = net->file.bytes / SUBNETS;
    bs_output(net->graph, "frame", bs_collect(net->graph, bs_gather(net->graph, route, out, BS_NONE, NULL)));
    fill(net_input(net, "patches", make_buffer(BS_F32, 4, CELLS, 3, SIDE, SIDE)), (size_t)CELLS * 3 * SIDE * SIDE, 5);
    net_input(net, "labels", make_buffer(BS_I32, 2, CELLS, 1, 0, 0));
    net_output(net, "frame", make_buffer(BS_F32, 4, CELLS, 3, SIDE * SCALE, SIDE * SCALE));
    return net_ready(net);
}

/* ------------------------------------------------------------------------------------------------ a fixed order */

static void step_nothing(preload_net *net, int32_t run)
{
    (void)net;
    (void)run;
}

bool preload_chain(preload_net *net)
{
    if (!net_open(net, "chain of 12", CHAIN_BLOCKS * CHAIN_LAYERS + 64))
        return false;
    net->tuned = true;
    net->rows = 256;
    net->most_rows = CHAIN_ROWS;
    net->n_units = CHAIN_BLOCKS;
    net->chunk_bytes = (uint64_t)CHAIN_WIDTH * (CHAIN_WIDTH + 1) * 4;
    net->unit_bytes = CHAIN_LAYERS * net->chunk_bytes;
    net->step = step_nothing;
    const bs_dim rows = bs_symbol(net->graph, "rows", CHAIN_ROWS);
    bs_value x = bs_input(net->graph, "x", BS_F32, BS_SHAPE2(rows, CHAIN_WIDTH));
    for (int32_t b = 0; b < CHAIN_BLOCKS; b++) {
        char block[32], name[48];
        snprintf(block, sizeof block, "b%d", (int)b);
        bs_block_begin(net->graph, block);
        flat_block(&net->file);
        for (int32_t l = 0; l < CHAIN_LAYERS; l++) {
            snprintf(name, sizeof name, "%s.%d", block, (int)l);
            x = linear(net, x, name, CHAIN_WIDTH, CHAIN_WIDTH);
        }
        bs_block_end(net->graph);
    }
    bs_output(net->graph, "y", x);
    fill(net_input(net, "x", make_buffer(BS_F32, 2, CHAIN_ROWS, CHAIN_WIDTH, 0, 0)), (size_t)CHAIN_ROWS * CHAIN_WIDTH,
         3);
    net_output(net, "y", make_buffer(BS_F32, 2, CHAIN_ROWS, CHAIN_WIDTH, 0, 0));
    return net_ready(net);
}
