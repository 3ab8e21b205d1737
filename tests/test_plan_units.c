/* tags: unsigned */
/* Promises: what the planner decides of weights that come and go: what a look-ahead needs, which weights make a unit
 * and which steps a phase. Plans only: that results are right, test_store.c tells. */
#include "plan_rig.h"
#include "run/session.h"

/* Two layers of experts; a look-ahead from the first layer's rows to the second router. */
static bs_graph *experts(void)
{
    static const char *const routers[2] = {"first", "second"};
    char name[32];
    bs_graph *g = new_graph();
    bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(32), 8)), none);
    for (int32_t layer = 0; layer < 2; layer++) {
        if (layer == 0)
            bs_look_ahead(g, bs_linear(g, x, &(bs_linear_desc){.name = "guess", .out = 4}), "second");
        const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = layer ? "score1" : "score0", .out = 4});
        const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = routers[layer], .paths = 4});
        bs_value out[4];
        for (int32_t p = 0; p < 4; p++) {
            snprintf(name, sizeof name, "expert%d.%d", layer, p);
            bs_block_begin(g, name);
            out[p] = bs_linear(g, bs_scatter(g, r, p, x), &(bs_linear_desc){.name = name, .out = 8});
            bs_block_end(g);
        }
        x = bs_gather(g, r, out, none, NULL);
    }
    bs_output(g, "y", bs_collect(g, x));
    return g;
}

static int32_t look_aheads_of(const bs_plan *p)
{
    int32_t count = 0;
    for (int32_t i = 0; p && i < p->n_instrs; i++)
        count += p->instrs[i].kind == BS_INSTR_CALL && p->graph->nodes[p->instrs[i].node].n_out == 0;
    return p ? count : -1;
}

static void test_look_ahead(void)
{
    const bs_graph *g = experts();
    check(look_aheads_of(plan_of(g, &(bs_plan_desc){.slot_bytes = UINT64_MAX})) == 1,
          "a look-ahead is computed when weights are streamed");
    check(look_aheads_of(plan_of(g, NULL)) == 0, "not when all are resident");
    check(look_aheads_of(
              plan_of(g, &(bs_plan_desc){.slot_bytes = UINT64_MAX, .n_forces = 1, .forces = {{"second", 0}}})) == 0,
          "nor when its router is decided ahead");
    check(look_aheads_of(plan_of(g, &(bs_plan_desc){.slot_bytes = UINT64_MAX, .tier = BS_TIER_CUDA, .half = 1})) == 1,
          "a device tells the host");

    bs_graph *dead = new_graph();
    const bs_value x = bs_rows(dead, bs_input(dead, "x", BS_F32, BS_SHAPE2(9, 4)), none);
    bs_look_ahead(dead, x, "nobody");
    bs_route(dead, x, none, &(bs_route_desc){.name = "nobody", .paths = 4, .protocol = BS_ROUTE_TOPK, .k = 2});
    bs_output(dead, "y", bs_collect(dead, x));
    check(look_aheads_of(plan_of(dead, &(bs_plan_desc){.slot_bytes = 64})) == 0, "nor when nothing follows its router");
}

static int32_t unit_named(const bs_plan *p, const char *name, bs_stream_unit_facts *facts)
{
    for (int32_t u = 0; bs_plan_unit_get(p, u, facts) == BS_OK; u++)
        if (strcmp(facts->name, name) == 0)
            return u;
    return -1;
}

/* Blocks in blocks: paths are units, with the blocks inside them; what is around them is none of theirs. */
static void test_units(void)
{
    bs_graph *g = new_graph();
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(8, 8));
    bs_block_begin(g, "net");
    x = bs_linear(g, x, &(bs_linear_desc){.name = "in", .out = 8});
    x = bs_rows(g, x, none);
    const bs_router r = bs_route(g, x, none, &(bs_route_desc){.name = "route", .paths = 8});
    bs_value out[8] = {{0}};
    for (int32_t p = 0; p < 2; p++) {
        bs_block_begin(g, p ? "right" : "left");
        bs_value y = bs_scatter(g, r, p, x);
        bs_block_begin(g, "inner");
        y = bs_linear(g, y, &(bs_linear_desc){.name = p ? "right" : "left", .out = 8});
        bs_block_end(g);
        out[p] = bs_linear(g, y, &(bs_linear_desc){.name = p ? "right2" : "left2", .out = 8});
        bs_block_end(g);
    }
    x = bs_linear(g, bs_gather(g, r, out, none, NULL), &(bs_linear_desc){.name = "behind", .out = 8});
    x = bs_linear(g, x, &(bs_linear_desc){.name = "end", .out = 8});
    bs_block_end(g);
    bs_block_begin(g, "last");
    x = bs_linear(g, x, &(bs_linear_desc){.name = "last", .out = 8});
    bs_block_end(g);
    bs_output(g, "y", bs_collect(g, x));
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.slot_bytes = UINT64_MAX});
    bs_stream_plan all;
    bs_stream_unit_facts facts;
    bs_stream_phase_facts phase;
    bs_plan_stream_get(p, &all);
    int32_t loaded = 0;
    for (int32_t n = 1; n < g->n_nodes; n++)
        loaded += p->nodes[n].unit == 1 && p->nodes[n].owner == n;
    check(all.units == 4 && loaded == 3, "two paths, the net around them, and what follows: 4 units");
    check(unit_named(p, "left", &facts) >= 0 && facts.router == r.id && facts.path == 0 && facts.slot_bytes > 0,
          "a path is named by its outermost block");
    check(unit_named(p, "net", &facts) >= 0 && facts.router == 0 && facts.path == -1,
          "what every run needs has no path");
    check(unit_named(p, "inner", &facts) < 0, "a block inside a path is no unit");
    check(bs_plan_unit_get(p, -1, &facts) == BS_ERROR_ARGUMENT && bs_plan_unit_get(p, 4, &facts) == BS_ERROR_ARGUMENT,
          "no other units");
    int32_t units[8], routed = 0, always = 0, phases = 0;
    while (bs_plan_phase_get(p, phases, &phase, units) == BS_OK) {
        routed += phase.router == r.id && phase.n_units == 2;
        always += phase.router == 0 && phase.n_units == 1 && bs_plan_unit_get(p, units[0], &facts) == BS_OK &&
                  facts.router == 0;
        phases++;
    }
    check(phases == all.phases && routed == 1 && always == phases - 1, "%d phases, of which one is the router's",
          phases);
    check(bs_plan_phase_get(p, 0, &phase, NULL) == BS_OK && bs_plan_phase_get(p, -1, &phase, NULL) == BS_ERROR_ARGUMENT,
          "units are told to whom wants them");
}

/* A block whose weights a top-level step needs first, then tiles: two phases of one unit; and blocks in tiles, one
 * after another. */
static void test_phases(void)
{
    bs_graph *g = new_graph();
    const bs_value line = bs_input(g, "line", BS_F32, BS_SHAPE1(8));
    bs_block_begin(g, "both");
    const bs_value bias = bs_linear(g, line, &(bs_linear_desc){.name = "bias", .out = 2});
    const bs_value cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(2, 32, 32)),
                                      &(bs_patches_desc){.size = 16});
    bs_value x = bs_add(g, bs_conv2d(g, cells, &(bs_conv2d_desc){.name = "c0", .out = 2}), bias);
    bs_block_end(g);
    bs_block_begin(g, "next");
    x = bs_conv2d(g, bs_conv2d(g, x, &(bs_conv2d_desc){.name = "c1", .out = 2}),
                  &(bs_conv2d_desc){.name = "c2", .out = 2});
    bs_block_end(g);
    bs_output(g, "y", bs_assemble(g, x));
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.slot_bytes = UINT64_MAX});
    bs_stream_phase_facts phase;
    int32_t units[4], seen[2] = {0, 0}, phases = 0;
    while (bs_plan_phase_get(p, phases, &phase, units) == BS_OK && phase.n_units == 1) {
        seen[units[0] & 1]++;
        phases++;
    }
    check(phases == 3 && seen[0] == 2 && seen[1] == 1 && p->n_regions == 2,
          "a step of all rows and then tiles are two phases of one unit, the next block another region");
}

/* ------------------------------------------------------------------------------------------------------- loops */

static bs_value block_of(bs_graph *g, bs_value x, const char *block, const char *name)
{
    bs_block_begin(g, block);
    const bs_value y = bs_linear(g, x, &(bs_linear_desc){.name = name, .out = 8});
    bs_block_end(g);
    return y;
}

/* A block before a loop, two in its body and two paths of a router, one behind it. One block of the body is that of
 * what stands before the loop: all of it is one block. */
static bs_graph *looping(void)
{
    bs_graph *g = new_graph();
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(32), 8)), none);
    bs_block_begin(g, "net");
    const bs_value x = bs_linear(g, rows, &(bs_linear_desc){.name = "in", .out = 8});
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "steps", .bound = 3});
    const bs_value before = bs_loop_carry(g, loop, x);
    bs_value y = bs_linear(g, before, &(bs_linear_desc){.name = "step", .out = 8});
    y = block_of(g, y, "body", "body");
    const bs_router r = bs_route(g, y, none, &(bs_route_desc){.name = "route", .paths = 8});
    bs_value out[8] = {{0}};
    for (int32_t p = 0; p < 2; p++)
        out[p] = block_of(g, bs_scatter(g, r, p, y), p ? "right" : "left", p ? "right" : "left");
    y = bs_loop_next(g, loop, before, bs_gather(g, r, out, none, NULL));
    bs_loop_end(g, loop, none);
    y = bs_linear(g, y, &(bs_linear_desc){.name = "out", .out = 8});
    bs_block_end(g);
    bs_output(g, "y", bs_collect(g, y));
    return g;
}

/* In either order the body is visited by itself: phases of the same block before, in and behind the loop are three. */
static void test_loops(int32_t order)
{
    const bs_graph *g = looping();
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.slot_bytes = UINT64_MAX, .order = order});
    bs_stream_unit_facts facts;
    bs_stream_phase_facts phase;
    int32_t units[8], net = 0, routed = 0, across = 0, phases = 0;
    const int32_t of_net = unit_named(p, "net", &facts), router = bs_graph_router_named(g, "route");
    check(of_net >= 0 && facts.router == 0 && unit_named(p, "body", &facts) >= 0 && facts.router == 0,
          "blocks of a body are units that every run needs");
    check(unit_named(p, "left", &facts) >= 0 && facts.router == router && facts.path == 0,
          "paths of a router in a body are units of its paths");
    while (bs_plan_phase_get(p, phases, &phase, units) == BS_OK) {
        net += phase.router == 0 && phase.n_units == 1 && units[0] == of_net;
        routed += phase.router == router && phase.n_units == 2;
        phases++;
    }
    for (int32_t k = 0, last = -1, over = -1; k < p->n_top; k++) {
        across += p->instrs[k].phase >= 0 && p->instrs[k].phase == over;
        last = p->instrs[k].phase >= 0 ? p->instrs[k].phase : last;
        over = bs_instr_loops(p, &p->instrs[k]) ? last : over;
    }
    check(net == 3 && routed == 1 && phases == 5 && across == 0,
          "order %d: a phase ends where a loop begins or ends: %d of the block around it, %d in all", order, net,
          phases);
    check(p->n_regions == 0 || p->routers[1].in_tile == 0, "trips that wait for weights are not made in tiles");
}

/* Blocks of one body, as many as that, in tiles where they may be. */
static const bs_plan *tiled_loop(int32_t blocks, bool in_path, int32_t order)
{
    bs_graph *g = new_graph();
    bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(32), 8)), none), out[8] = {{0}}, in = x;
    bs_router r = {0};
    if (in_path) {
        r = bs_route(g, x, none, &(bs_route_desc){.name = "route", .paths = 8});
        in = bs_scatter(g, r, 3, x);
    }
    const bs_router loop = bs_loop_begin(g, in, none, &(bs_loop_desc){.name = "steps", .bound = 3});
    const bs_value before = bs_loop_carry(g, loop, in);
    bs_value y = before;
    for (int32_t b = 0; b < blocks; b++)
        y = block_of(g, y, b ? "second" : "first", b ? "second" : "first");
    y = out[3] = bs_loop_next(g, loop, before, y);
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, in_path ? bs_gather(g, r, out, x, NULL) : y));
    return plan_of(g, &(bs_plan_desc){.slot_bytes = UINT64_MAX, .order = order});
}

static bool loops_in_tile(const bs_plan *p) { return p->routers[bs_graph_router_named(p->graph, "steps")].in_tile; }

static void test_loops_in_tiles(void)
{
    bs_stream_plan all;
    const bs_plan *p = tiled_loop(1, false, BS_ORDER_DEPTH);
    bs_plan_stream_get(p, &all);
    check(loops_in_tile(p) && all.units == 1 && all.phases == 1, "a body of one unit goes round in tiles");
    p = tiled_loop(2, false, BS_ORDER_DEPTH);
    bs_plan_stream_get(p, &all);
    check(!loops_in_tile(p) && all.units == 2 && all.phases == 2, "one of two runs layer by layer, trip after trip");
    p = tiled_loop(2, true, BS_ORDER_AUTO);
    bs_plan_stream_get(p, &all);
    check(loops_in_tile(p) && all.units == 1 && all.phases == 1, "a loop in a path is of that path's unit");
    check(!loops_in_tile(tiled_loop(1, false, BS_ORDER_AUTO)), "weights of a body alone are no reason for tiles");
}

int main(void)
{
    test_look_ahead();
    test_units();
    test_phases();
    for (int32_t order = 0; order < 3; order++)
        test_loops(order);
    test_loops_in_tiles();
    return check_end();
}
