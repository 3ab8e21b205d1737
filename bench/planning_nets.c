/* planning_nets.c - networks of any size, for planning: a chain, values that are all alive at once, two paths of which
 * one is twice as long, layers of experts. Relies on brainstorm.h only. */
#include "bench/planning_nets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bs_value step(bs_graph *g, bs_value x) { return bs_affine(g, x, 0.5f, 1); }

static bs_value chain(bs_graph *g, bs_value x, int32_t nodes)
{
    for (int32_t i = 0; i < nodes; i++)
        x = step(g, x);
    return x;
}

/* Half of the nodes make values that are all alive when the other half adds them up. */
static bs_value alive(bs_graph *g, bs_value x, int32_t nodes)
{
    bs_value *made = malloc((size_t)(nodes / 2) * sizeof *made);
    for (int32_t i = 0; i < nodes / 2; i++)
        made[i] = step(g, x);
    for (int32_t i = 0; i < nodes / 2; i++)
        x = bs_add(g, x, made[i]);
    free(made);
    return x;
}

static bs_value two_paths(bs_graph *g, bs_value x, int32_t nodes)
{
    const bs_value score = bs_slice(g, x, &(bs_slice_desc){.length = 2});
    const bs_router r = bs_route(g, score, BS_NONE, &(bs_route_desc){.name = "route", .paths = 2});
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++)
        out[p] = chain(g, bs_scatter(g, r, p, x), nodes * (p + 1) / 3);
    return bs_gather(g, r, out, BS_NONE, NULL);
}

/* Layers of experts, each a block of two weights. */
enum { EXPERTS = 128, EXPERT_NODES = 3 };

static bs_value experts(bs_graph *g, bs_value x, int32_t nodes)
{
    char name[32];
    const int32_t layers = nodes / (EXPERTS * EXPERT_NODES);
    for (int32_t l = 0; l < (layers ? layers : 1); l++) {
        bs_value out[EXPERTS];
        snprintf(name, sizeof name, "score%d", l);
        const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = name, .out = EXPERTS});
        snprintf(name, sizeof name, "route%d", l);
        const bs_router r = bs_route(
            g, score, BS_NONE,
            &(bs_route_desc){.name = name, .protocol = BS_ROUTE_TOPK, .paths = EXPERTS, .k = 8});
        for (int32_t e = 0; e < EXPERTS; e++) {
            snprintf(name, sizeof name, "l%d.e%d", l, e);
            bs_block_begin(g, name);
            const bs_value in = bs_scatter(g, r, e, x);
            snprintf(name, sizeof name, "l%d.e%d.up", l, e);
            const bs_value up = bs_linear(g, in, &(bs_linear_desc){.name = name, .out = 32, .act = BS_RELU});
            snprintf(name, sizeof name, "l%d.e%d.down", l, e);
            out[e] = bs_linear(g, up, &(bs_linear_desc){.name = name, .out = 64});
            bs_block_end(g);
        }
        x = bs_add(g, x, bs_gather(g, r, out, BS_NONE, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED}));
    }
    return x;
}

const planning_net planning_nets[PLANNING_NETS] = {
    {"chain", chain, 0}, {"alive", alive, 0}, {"two-paths", two_paths, 0}, {"experts", experts, 1 << 24}};

bs_graph_desc planning_room(int32_t nodes)
{
    const bs_graph_desc room = {
        .max_nodes = 2 * nodes + 1024, .max_values = 2 * nodes + 1024, .max_text_bytes = 256 * nodes + 65536};
    return room;
}

void planning_build(bs_graph *g, const planning_net *net, int32_t nodes)
{
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(64), 64)), BS_NONE);
    bs_output(g, "y", bs_collect(g, net->build(g, x, nodes)));
}
