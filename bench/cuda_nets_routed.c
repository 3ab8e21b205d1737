/* cuda_nets_routed.c: LiveSR, a layer of experts, rows that only move, exits. See cuda_nets.h. */
#include "cuda_nets.h"

#include <stdio.h>
#include <string.h>

/* A label a row: the input "labels" deals rows to paths by `loads`. */
static bs_router route_by_label(cuda_net *net, bs_value cells, const int32_t *loads, int32_t paths, int32_t rows)
{
    const bs_value labels = bs_rows(net->graph, bs_input(net->graph, "labels", BS_I32, BS_SHAPE2(rows, 1)), cells);
    int32_t *data = cuda_net_input(net, "labels", cuda_net_buffer(BS_I32, 2, rows, 1, 0, 0));
    if (cuda_net_deal(net, loads, paths, rows) && data)
        memcpy(data, net->path_of_row, (size_t)rows * sizeof *data);
    return bs_route(net->graph, labels, BS_NONE,
                    &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_LABEL, .paths = paths});
}

/* -------------------------------------------------------------------------------------------------------- LiveSR */

/* What keeps the cell's size: 2 residual + 2 layers. */
static bs_value subnet_body(cuda_net *net, bs_value x, const char *block, const cuda_livesr_desc *d)
{
    char name[64];
    snprintf(name, sizeof name, "%s.head", block);
    const bs_value head = cuda_net_conv(net, x, name, 3, d->channels, BS_ACT_NONE, 1.0f);
    bs_value y = head;
    for (int32_t r = 0; r < d->residual; r++) {
        snprintf(name, sizeof name, "%s.%d.a", block, (int)r);
        const bs_value z = cuda_net_conv(net, y, name, d->channels, d->channels, BS_RELU, 1.0f);
        snprintf(name, sizeof name, "%s.%d.b", block, (int)r);
        y = bs_add(net->graph, cuda_net_conv(net, z, name, d->channels, d->channels, BS_ACT_NONE, 0.15f), y);
    }
    snprintf(name, sizeof name, "%s.body", block);
    return bs_add(net->graph, cuda_net_conv(net, y, name, d->channels, d->channels, BS_ACT_NONE, 1.0f), head);
}

/* Twice as large, twice. */
static bs_value subnet_tail(cuda_net *net, bs_value y, const char *block, const cuda_livesr_desc *d)
{
    char name[64];
    for (int32_t u = 0; u < 2; u++) {
        snprintf(name, sizeof name, "%s.up%d", block, (int)u);
        y = bs_pixel_shuffle(net->graph, cuda_net_conv(net, y, name, d->channels, 4 * d->channels, BS_ACT_NONE, 1.0f),
                             2);
    }
    snprintf(name, sizeof name, "%s.tail", block);
    return cuda_net_conv(net, y, name, d->channels, 3, BS_ACT_NONE, 1.0f);
}

static bs_value subnet(cuda_net *net, bs_value x, const char *block, const cuda_livesr_desc *d)
{
    if (d->part != CUDA_LIVESR_TAIL)
        x = subnet_body(net, x, block, d);
    return d->part != CUDA_LIVESR_BODY ? subnet_tail(net, x, block, d) : x;
}

/* Largest loads of each subnet over the original's data, 10 subnets; they are not those of one frame, and add up to
 * 104. */
static const double livesr_loads[] = {6, 7, 12, 27, 8, 8, 8, 12, 12, 4};

static double livesr_flops(const cuda_livesr_desc *d)
{
    const double n = d->channels, body = 3 * n + (2.0 * d->residual + 1) * n * n,
                 tail = 4 * n * n + 16 * n * n + 16 * 3 * n;
    return 18.0 * d->side * d->side * d->cells *
           ((d->part != CUDA_LIVESR_TAIL ? body : 0) + (d->part != CUDA_LIVESR_BODY ? tail : 0));
}

bool cuda_net_livesr(cuda_net *net, const cuda_livesr_desc *d)
{
    static const char *const parts[] = {"", " body", " tail"};
    const int32_t in = d->part == CUDA_LIVESR_TAIL ? d->channels : 3,
                  out_channels = d->part == CUDA_LIVESR_BODY ? d->channels : 3;
    const int32_t side = d->part == CUDA_LIVESR_BODY ? d->side : 4 * d->side;
    char name[40];
    int32_t loads[BS_MAX_PATHS];
    bs_value out[BS_MAX_PATHS];
    snprintf(name, sizeof name, "livesr %d/%d%s", (int)d->subnets, (int)d->channels, parts[d->part]);
    if (!cuda_net_begin(net, name, d->subnets * (3 * d->residual + 20) + 64))
        return false;
    if (d->subnets < 1 || d->subnets > (int32_t)(sizeof livesr_loads / sizeof livesr_loads[0]))
        return cuda_net_fail(net, BS_ERROR_ARGUMENT, "LiveSR has 1 to 10 subnets here");
    cuda_net_loads(livesr_loads, d->subnets, d->cells, loads);
    const bs_value x = bs_rows(
        net->graph, bs_input(net->graph, "patches", BS_F32, BS_SHAPE4(d->cells, in, d->side, d->side)), BS_NONE);
    cuda_net_input(net, "patches", cuda_net_buffer(BS_F32, 4, d->cells, in, d->side, d->side));
    const bs_router route = route_by_label(net, x, loads, d->subnets, d->cells);
    for (int32_t p = 0; p < d->subnets; p++) {
        char block[32];
        snprintf(block, sizeof block, "s%d", (int)p);
        bs_block_begin(net->graph, block);
        out[p] = subnet(net, bs_scatter(net->graph, route, p, x), block, d);
        bs_block_end(net->graph);
    }
    bs_output(net->graph, "frame", bs_collect(net->graph, bs_gather(net->graph, route, out, BS_NONE, NULL)));
    cuda_net_output(net, "frame", cuda_net_buffer(BS_F32, 4, d->cells, out_channels, side, side));
    net->flops = livesr_flops(d);
    return cuda_net_ready(net);
}

/* ------------------------------------------------------------------------------------------------------- experts */

static bs_value expert_of(cuda_net *net, bs_value x, int32_t expert, const cuda_moe_desc *d)
{
    char name[48];
    snprintf(name, sizeof name, "e%d.up", (int)expert);
    x = cuda_net_linear(net, x, name, d->width, d->hidden, BS_RELU);
    snprintf(name, sizeof name, "e%d.down", (int)expert);
    return cuda_net_linear(net, x, name, d->hidden, d->width, BS_ACT_NONE);
}

static void moe_loads(const cuda_moe_desc *d, int32_t *loads)
{
    double shares[BS_MAX_PATHS];
    for (int32_t e = 0; e < d->experts; e++)
        shares[e] = d->skew ? 1.0 / (e + 1) : 1.0;
    cuda_net_loads(shares, d->experts, d->rows, loads);
}

bool cuda_net_moe(cuda_net *net, const cuda_moe_desc *d)
{
    char name[40];
    bs_value out[BS_MAX_PATHS];
    int32_t loads[BS_MAX_PATHS], used = 0;
    snprintf(name, sizeof name, "moe %dx%d%s", (int)d->experts, (int)d->rows, d->skew ? " skewed" : "");
    if (!cuda_net_begin(net, name, d->experts * 8 + 64))
        return false;
    if (d->experts < 1 || d->experts > BS_MAX_PATHS)
        return cuda_net_fail(net, BS_ERROR_ARGUMENT, "1 to 64 experts");
    moe_loads(d, loads);
    if (!cuda_net_deal(net, loads, d->experts, d->rows))
        return false;
    const bs_value x = bs_rows(net->graph, bs_input(net->graph, "x", BS_F32, BS_SHAPE2(d->rows, d->width)),
                               BS_NONE);
    const bs_value scores = bs_rows(net->graph, bs_input(net->graph, "scores", BS_F32, BS_SHAPE2(d->rows, d->experts)),
                                    x);
    const bs_router route = bs_route(net->graph, scores, BS_NONE,
                                     &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TOP1, .paths = d->experts});
    for (int32_t e = 0; e < d->experts; e++) {
        char block[32];
        snprintf(block, sizeof block, "e%d", (int)e);
        used += loads[e] > 0;
        bs_block_begin(net->graph, block);
        out[e] = expert_of(net, bs_scatter(net->graph, route, e, x), e, d);
        bs_block_end(net->graph);
    }
    bs_output(net->graph, "y", bs_collect(net->graph, bs_gather(net->graph, route, out, BS_NONE, NULL)));
    cuda_net_input(net, "x", cuda_net_buffer(BS_F32, 2, d->rows, d->width, 0, 0));
    float *to = cuda_net_input(net, "scores", cuda_net_buffer(BS_F32, 2, d->rows, d->experts, 0, 0));
    for (int32_t r = 0; to && r < d->rows; r++) /* noise in -1 .. 1, and one that is above it */
        to[r * d->experts + net->path_of_row[r]] = 2.0f;
    cuda_net_output(net, "y", cuda_net_buffer(BS_F32, 2, d->rows, d->width, 0, 0));
    net->flops = 4.0 * d->rows * d->width * d->hidden;
    if (!cuda_net_ready(net))
        return false;
    net->weight_bytes = net->weight_bytes / d->experts * used; /* experts without rows are not read */
    return true;
}

bool cuda_net_expert(cuda_net *net, const cuda_moe_desc *d, const cuda_net *whole, int32_t expert)
{
    char name[40];
    int32_t rows = 0;
    for (int32_t r = 0; r < whole->rows; r++)
        rows += whole->path_of_row[r] == expert;
    snprintf(name, sizeof name, "expert %d", (int)expert);
    if (!cuda_net_begin(net, name, 64))
        return false;
    bs_output(net->graph, "y", expert_of(net, bs_input(net->graph, "x", BS_F32, BS_SHAPE2(rows, d->width)), expert, d));
    float *to = cuda_net_input(net, "x", cuda_net_buffer(BS_F32, 2, rows, d->width, 0, 0));
    const float *from = whole->inputs[0].data;
    for (int32_t r = 0; to && r < whole->rows; r++)
        if (whole->path_of_row[r] == expert) {
            memcpy(to, from + (size_t)r * (size_t)d->width, (size_t)d->width * sizeof *to);
            to += d->width;
        }
    cuda_net_output(net, "y", cuda_net_buffer(BS_F32, 2, rows, d->width, 0, 0));
    net->flops = 4.0 * rows * d->width * d->hidden;
    return cuda_net_ready(net);
}

/* -------------------------------------------------------------------------------------------------- only moving */

bool cuda_net_copy(cuda_net *net, const cuda_copy_desc *d)
{
    double shares[BS_MAX_PATHS];
    int32_t loads[BS_MAX_PATHS];
    bs_value out[BS_MAX_PATHS];
    char name[40];
    snprintf(name, sizeof name, "rows %s", d->touched ? "moved, doubled, moved" : "moved");
    if (!cuda_net_begin(net, name, d->paths * 4 + 64))
        return false;
    for (int32_t p = 0; p < d->paths; p++)
        shares[p] = 1.0 + p;
    cuda_net_loads(shares, d->paths, d->rows, loads);
    const bs_value x = bs_rows(net->graph, bs_input(net->graph, "x", BS_F32, BS_SHAPE2(d->rows, d->width)),
                               BS_NONE);
    cuda_net_input(net, "x", cuda_net_buffer(BS_F32, 2, d->rows, d->width, 0, 0));
    const bs_router route = route_by_label(net, x, loads, d->paths, d->rows);
    for (int32_t p = 0; p < d->paths; p++) {
        out[p] = bs_scatter(net->graph, route, p, x);
        if (d->touched)
            out[p] = bs_affine(net->graph, out[p], 2.0f, 0.0f);
    }
    bs_output(net->graph, "y", bs_collect(net->graph, bs_gather(net->graph, route, out, BS_NONE, NULL)));
    cuda_net_output(net, "y", cuda_net_buffer(BS_F32, 2, d->rows, d->width, 0, 0));
    return cuda_net_ready(net);
}

/* ---------------------------------------------------------------------------------------------------------- exits */

static bs_value phase_of(cuda_net *net, bs_value x, int32_t phase, const cuda_exits_desc *d)
{
    char name[48];
    for (int32_t l = 0; l < d->layers; l++) {
        snprintf(name, sizeof name, "phase%d.%d", (int)phase, (int)l);
        x = cuda_net_conv(net, x, name, d->channels, d->channels, BS_RELU, 1.4f);
    }
    return x;
}

/* What a cell becomes from `phase` on: it leaves, or goes through the phase and on. scores: of its own cells. */
static bs_value exits_from(cuda_net *net, bs_value x, bs_value scores, int32_t phase, const cuda_exits_desc *d)
{
    char name[2][32];
    if (phase == d->phases)
        return x;
    snprintf(name[0], sizeof name[0], "exit%d", (int)phase);
    snprintf(name[1], sizeof name[1], "phase%d", (int)phase);
    const bs_value score = bs_slice(net->graph, scores, &(bs_slice_desc){.start = phase - 1, .length = 1});
    const bs_router route = bs_route(
        net->graph, score, BS_NONE,
        &(bs_route_desc){.name = name[0], .protocol = BS_ROUTE_BINARY, .paths = 2, .threshold = 0.5f});
    bs_value out[2] = {bs_scatter(net->graph, route, 0, x), {0}};
    bs_block_begin(net->graph, name[1]);
    const bs_value y = phase_of(net, bs_scatter(net->graph, route, 1, x), phase, d);
    out[1] = exits_from(net, y, bs_scatter(net->graph, route, 1, scores), phase + 1, d);
    bs_block_end(net->graph);
    return bs_gather(net->graph, route, out, BS_NONE, NULL);
}

bool cuda_net_exits(cuda_net *net, const cuda_exits_desc *d)
{
    char name[40];
    snprintf(name, sizeof name, "exits %d of %d", (int)d->depth, (int)d->phases);
    if (!cuda_net_begin(net, name, d->phases * (d->layers + 12) + 64))
        return false;
    const bs_value x = bs_rows(net->graph,
                               bs_input(net->graph, "x", BS_F32, BS_SHAPE4(d->cells, d->channels, d->side, d->side)),
                               BS_NONE);
    const bs_value scores = bs_rows(net->graph,
                                    bs_input(net->graph, "scores", BS_F32, BS_SHAPE2(d->cells, d->phases - 1)), x);
    const bs_value y = exits_from(net, phase_of(net, x, 0, d), scores, 1, d);
    bs_output(net->graph, "y", bs_collect(net->graph, y));
    cuda_net_input(net, "x", cuda_net_buffer(BS_F32, 4, d->cells, d->channels, d->side, d->side));
    float *to = cuda_net_input(net, "scores", cuda_net_buffer(BS_F32, 2, d->cells, d->phases - 1, 0, 0));
    for (int32_t i = 0; to && i < d->cells * (d->phases - 1); i++)
        to[i] = i % (d->phases - 1) + 1 >= d->depth ? 1.0f : 0.0f;
    cuda_net_output(net, "y", cuda_net_buffer(BS_F32, 4, d->cells, d->channels, d->side, d->side));
    net->flops = 18.0 * d->cells * d->depth * d->layers * d->channels * d->channels * d->side * d->side;
    if (!cuda_net_ready(net))
        return false;
    net->weight_bytes = net->weight_bytes / d->phases * d->depth;
    return true;
}
