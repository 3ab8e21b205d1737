/* Promises: what the planner decides where cases are rare: which chains are fused and which are not, when a state is
 * written in place, what a look-ahead needs, which weights make a unit and which steps a stage, what a device runs in
 * tiles and where its bytes lie. Plans only: that results are right, random graphs and the tests of the backend
 * tell. */
#include "check.h"
#include "plan/device.h"
#include "ops/table.h"
#include "plan/plan.h"
#include "run/session.h"
#include "ops/structure.h"

static _Alignas(64) uint8_t graph_memory[2 << 20], plan_memory[4 << 20];
static char report[1 << 17];
static const bs_value none = {0};

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static const bs_plan *plan_of(const bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena_init(&arena, "persistent", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, g, desc, &error);
    if (!plan)
        check(0, "a plan: %s", error.message);
    return plan;
}

static int32_t made_by(const bs_graph *g, bs_value value) { return g->values[value.id].node; }
static bs_place place_of(const bs_plan *p, bs_value value) { return p->values[value.id].place; }

/* ---------------------------------------------------------------------------------------------------------------
 * fusion */

/* pixel_shuffle of `tail` and a sum with `base`, made codes: what the super-resolution epilogue does. */
static bool is_fused(bs_graph *g, bs_value tail, int32_t r, bs_value base, bool swapped, bs_dtype codes)
{
    const bs_value shuffled = bs_pixel_shuffle(g, tail, r);
    const bs_value sum = swapped ? bs_add(g, base, shuffled) : bs_add(g, shuffled, base);
    const bs_value stored = bs_convert(g, sum, &(bs_convert_desc){.name = "store", .dtype = (int32_t)codes});
    const bool rows = g->status == BS_OK && g->domains[g->values[stored.id].domain].kind == BS_DOMAIN_ROWS;
    bs_output(g, "codes", rows ? bs_collect(g, stored) : stored);
    const bs_plan *p = plan_of(g, NULL);
    const bool fused = p && p->nodes[made_by(g, stored)].fusion != 0;
    if (p)
        bs_plan_report(p, report, sizeof report);
    return fused && !p->node_live[made_by(g, sum)] && !p->node_live[made_by(g, shuffled)] &&
           strstr(report, "fused: sr_store");
}

static bool is_fused_of(bs_dtype type, int64_t channels, int32_t r, int64_t base_channels, bool swapped, bs_dtype codes)
{
    bs_graph *g = new_graph();
    const bs_value tail = bs_input(g, "tail", type, BS_SHAPE3(channels, 8, 6));
    const bs_value base = base_channels ? bs_input(g, "base", type, BS_SHAPE3(base_channels, 8 * r, 6 * r))
                                        : bs_input(g, "base", type, BS_SHAPE3(1, 1, 1));
    return is_fused(g, tail, r, base, swapped, codes);
}

static void test_fusion(void)
{
    check(is_fused_of(BS_F32, 4, 2, 1, false, BS_U8), "a shuffle of 4 channels, a sum and codes are one kernel");
    check(is_fused_of(BS_F32, 4, 2, 1, true, BS_U16), "also with the shuffle on the right, and 16 bits");
    check(!is_fused_of(BS_F32, 4, 2, 1, false, BS_I8), "not to i8");
    check(!is_fused_of(BS_I32, 4, 2, 1, false, BS_U8), "not of integers");
    check(!is_fused_of(BS_F32, 8, 2, 2, false, BS_U8), "not to two channels");
    check(!is_fused_of(BS_F32, 9, 3, 1, false, BS_U8), "not by three");
    check(!is_fused_of(BS_F32, 4, 2, 0, false, BS_U8), "not with a base that is broadcast");

    bs_graph *g = new_graph();
    const bs_value tails = bs_rows(g, bs_input(g, "tails", BS_F32, BS_SHAPE4(5, 4, 8, 6)), none);
    check(!is_fused(g, tails, 2, bs_input(g, "base", BS_F32, BS_SHAPE3(1, 16, 12)), false, BS_U8),
          "not with a base that all rows share");

    g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(1, 16, 12)),
                   y = bs_input(g, "y", BS_F32, BS_SHAPE3(1, 16, 12));
    const bs_value sum = bs_convert(g, bs_add(g, x, y), &(bs_convert_desc){.dtype = BS_U8});
    const bs_value line = bs_convert(g, bs_affine(g, bs_input(g, "line", BS_F32, BS_SHAPE1(4)), 1, 1),
                                     &(bs_convert_desc){.dtype = BS_U8});
    bs_output(g, "sum", sum);
    bs_output(g, "codes", line);
    const bs_plan *p = plan_of(g, NULL);
    check(p && !p->nodes[made_by(g, sum)].fusion && !p->nodes[made_by(g, line)].fusion,
          "a sum without a shuffle is none, nor a line");

    g = new_graph();
    const bs_value tail = bs_input(g, "tail", BS_F32, BS_SHAPE3(4, 8, 6)),
                   base = bs_input(g, "base", BS_F32, BS_SHAPE3(1, 16, 12));
    const bs_value shuffled = bs_pixel_shuffle(g, tail, 2), both = bs_add(g, shuffled, base);
    bs_output(g, "codes", bs_convert(g, both, &(bs_convert_desc){.name = "store", .dtype = BS_U8}));
    bs_output(g, "both", both);
    p = plan_of(g, NULL);
    check(p && p->node_live[made_by(g, both)] && p->node_live[made_by(g, shuffled)], "what somebody else reads stays");

    g = new_graph();
    const bs_value cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(4, 32, 32)),
                                      &(bs_patches_desc){.size = 16});
    const bs_value like = bs_patches(g, bs_input(g, "large", BS_F32, BS_SHAPE3(1, 64, 64)),
                                     &(bs_patches_desc){.like = cells.id});
    const bs_value codes = bs_convert(g, bs_add(g, bs_pixel_shuffle(g, cells, 2), like),
                                      &(bs_convert_desc){.dtype = BS_U8});
    bs_output(g, "larger", bs_assemble(g, bs_resize(g, codes, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC})));
    p = plan_of(g, NULL);
    check(p && p->values[codes.id].margin > 0 && !p->nodes[made_by(g, codes)].fusion,
          "codes with a margin are not fused");
}

/* ------------------------------------------------------------------------------------------------------- states in
 * place */

typedef struct states {
    bs_graph *g;
    bs_value one, two, frame; /* states; an input */
    bs_router r;
    bs_value stored; /* the assembled value that is written to state one */
} states;

/* State one decides; path 0 computes on the input; cells that take no path keep what `residual` says: 0 state one, 1
 * the input, 2 state two, 3 nothing. */
static states states_new(int32_t residual)
{
    states s;
    bs_graph *g = s.g = new_graph();
    s.one = bs_state(g, "one", BS_F32, BS_SHAPE3(2, 32, 32));
    s.two = bs_state(g, "two", BS_F32, BS_SHAPE3(2, 32, 32));
    s.frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(2, 32, 32));
    const bs_value of_one = bs_patches(g, s.one, &(bs_patches_desc){.size = 16}),
                   of_two = bs_patches(g, s.two, &(bs_patches_desc){.size = 16}),
                   of_frame = bs_patches(g, s.frame, &(bs_patches_desc){.size = 16});
    const bs_value score = bs_pool2d(g, bs_affine(g, of_one, 2, 1), &(bs_pool2d_desc){.global = 1});
    const bs_value kept[4] = {of_one, of_frame, of_two, none};
    s.r = bs_route(g, score, none, &(bs_route_desc){.name = "route", .paths = 2});
    const bs_value out[2] = {bs_conv2d(g, bs_scatter(g, s.r, 0, of_frame), &(bs_conv2d_desc){.name = "conv", .out = 2}),
                             none};
    s.stored = bs_assemble(g, bs_gather(g, s.r, out, kept[residual], NULL));
    bs_state_write(g, s.one, s.stored);
    bs_output(g, "result", s.stored);
    return s;
}

static int32_t fills_of(const bs_plan *p)
{
    int32_t fills = 0;
    for (int32_t i = 0; i < p->n_instrs; i++)
        fills += p->instrs[i].kind == BS_INSTR_MOVE && p->instrs[i].combine == BS_COMBINE_RESIDUAL;
    return fills;
}

static void test_states(void)
{
    static const char *const kept[4] = {"of the state itself stay as they are", "of the input are filled",
                                        "of another state are filled", "of nothing are filled"};
    for (int32_t residual = 0; residual < 4; residual++) {
        const states s = states_new(residual);
        const bs_plan *p = plan_of(s.g, NULL);
        check(p && place_of(p, s.stored) == BS_PLACE_STATE && fills_of(p) == (residual != 0),
              "written in place, cells without a path %s", kept[residual]);
    }
    states copied = states_new(2);
    bs_state_write(copied.g, copied.two, copied.frame);
    const bs_plan *p = plan_of(copied.g, NULL);
    if (p)
        bs_plan_report(p, report, sizeof report);
    const char *last = p ? strstr(report, "[end] move") : NULL;
    check(last && !strstr(last, "[t") && !strstr(report, "[t1073741823]") && !strstr(report, "[t1073741824]"),
          "what is written when all else is done stands last in the report, as [end]");
    states s = states_new(2);
    bs_state_write(s.g, s.two, s.one);
    p = plan_of(s.g, NULL);
    check(p && place_of(p, s.one) == BS_PLACE_TRANSIENT && place_of(p, s.stored) != BS_PLACE_STATE,
          "a state that is copied to another as it was is not written in place");

    bs_graph *g = new_graph();
    const bs_value a = bs_state(g, "a", BS_F32, BS_SHAPE1(4)), b = bs_state(g, "b", BS_F32, BS_SHAPE1(4));
    bs_state_write(g, b, a);
    bs_output(g, "sum", bs_add(g, a, b));
    p = plan_of(g, NULL);
    check(p && place_of(p, a) == BS_PLACE_STATE && p->n_top == 3,
          "a state that nobody writes is copied from where it is");
}

/* Rows of one: what a router collects may be the knob of the next, and then it is not the state that is written. */
static void test_knob_of_state(void)
{
    for (int32_t knob = 0; knob < 2; knob++) {
        bs_graph *g = new_graph();
        const bs_value state = bs_state(g, "state", BS_F32, BS_SHAPE1(1)), old = bs_rows(g, state, none);
        const bs_value score = bs_linear(g, bs_reshape(g, old, BS_SHAPE1(1)),
                                         &(bs_linear_desc){.name = "score", .out = 2});
        const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = "first", .paths = 2});
        const bs_value number = bs_rows(g, bs_input(g, "number", BS_F32, BS_SHAPE1(1)), none);
        const bs_value out[2] = {bs_affine(g, bs_scatter(g, r, 0, number), 2, 1), none};
        const bs_value stored = bs_collect(g, bs_gather(g, r, out, none, NULL));
        bs_state_write(g, state, stored);
        const bs_router next = bs_route(g, score, knob ? stored : none,
                                        &(bs_route_desc){.name = "next", .paths = 2, .protocol = BS_ROUTE_THRESHOLD});
        bs_output(g, "next",
                  bs_collect(g, bs_gather(g, next, (bs_value[]){bs_scatter(g, next, 0, score), none}, none,
                                          &(bs_gather_desc){.mode = BS_GATHER_SELECT})));
        const bs_plan *p = plan_of(g, &(bs_plan_desc){.order = BS_ORDER_DEPTH});
        check(p && (place_of(p, stored) == BS_PLACE_STATE) == !knob, "rows of a router are%s",
              knob ? " not written to a state in place when another router reads them"
                   : " written to a state in place");
    }
}

/* -----------------------------------------------------------------------------------------------------------
 * look-aheads */

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

/* ------------------------------------------------------------------------------------------------------ units and
 * stages */

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
    bs_stream_stage_facts stage;
    bs_plan_stream_get(p, &all);
    check(all.units == 4 && p->units[1].n_nodes == 3, "two paths, the net around them, and what follows: 4 units");
    check(unit_named(p, "left", &facts) >= 0 && facts.router == r.id && facts.path == 0 && facts.slot_bytes > 0,
          "a path is named by its outermost block");
    check(unit_named(p, "net", &facts) >= 0 && facts.router == 0 && facts.path == -1,
          "what every run needs has no path");
    check(unit_named(p, "inner", &facts) < 0, "a block inside a path is no unit");
    check(bs_plan_unit_get(p, -1, &facts) == BS_ERROR_ARGUMENT && bs_plan_unit_get(p, 4, &facts) == BS_ERROR_ARGUMENT,
          "no other units");
    int32_t units[8], routed = 0, always = 0, stages = 0;
    while (bs_plan_stage_get(p, stages, &stage, units) == BS_OK) {
        routed += stage.router == r.id && stage.n_units == 2;
        always += stage.router == 0 && stage.n_units == 1 && bs_plan_unit_get(p, units[0], &facts) == BS_OK &&
                  facts.router == 0;
        stages++;
    }
    check(stages == all.stages && routed == 1 && always == stages - 1, "%d stages, of which one is the router's",
          stages);
    check(bs_plan_stage_get(p, 0, &stage, NULL) == BS_OK && bs_plan_stage_get(p, -1, &stage, NULL) == BS_ERROR_ARGUMENT,
          "units are told to whom wants them");
}

/* A block whose weights a top-level step needs first, then tiles: two stages of one unit; and blocks in tiles, one
 * after another. */
static void test_stages(void)
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
    bs_stream_stage_facts stage;
    int32_t units[4], seen[2] = {0, 0}, stages = 0;
    while (bs_plan_stage_get(p, stages, &stage, units) == BS_OK && stage.n_units == 1) {
        seen[units[0] & 1]++;
        stages++;
    }
    check(stages == 3 && seen[0] == 2 && seen[1] == 1 && p->n_regions == 2,
          "a step of all rows and then tiles are two stages of one unit, the next block another region");
}

/* ----------------------------------------------------------------------------------------------------------------
 * slabs */

/* Three paths of different lengths: values of one place in their path share a slab, whichever paths have one. */
static void test_slabs(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(20, 3)), none);
    const bs_router r = bs_route(g, x, none, &(bs_route_desc){.name = "route", .paths = 3});
    bs_value out[3], first[3], second[3] = {{0}};
    for (int32_t p = 0; p < 3; p++) {
        out[p] = first[p] = bs_softmax(g, bs_scatter(g, r, p, x));
        if (p > 0)
            out[p] = second[p] = bs_softmax(g, out[p]);
    }
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, none, NULL)));
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.order = BS_ORDER_BREADTH});
    bool same = p != NULL;
    for (int32_t k = 1; k < 3 && same; k++)
        same = p->values[first[k].id].slab == p->values[first[0].id].slab &&
               p->values[second[k].id].slab == p->values[second[1].id].slab;
    check(same && p->values[first[0].id].slab != p->values[second[1].id].slab,
          "values of one place in their paths share a slab");
}

/* A gather within tiles where one path gives nothing, on the way to a state. */
static void test_nested_gathers(void)
{
    for (int32_t nested = 0; nested < 2; nested++) {
        bs_graph *g = new_graph();
        const bs_value state = bs_state(g, "state", BS_F32, BS_SHAPE3(2, 32, 32)),
                       old = bs_patches(g, state, &(bs_patches_desc){.size = 16});
        const bs_value score = bs_pool2d(g, old, &(bs_pool2d_desc){.global = 1});
        const bs_router outer = bs_route(g, score, none, &(bs_route_desc){.name = "outer", .paths = 2});
        bs_value in = bs_scatter(
            g, outer, 0,
            bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(2, 32, 32)), &(bs_patches_desc){.size = 16}));
        if (nested) {
            const bs_router inner = bs_route(g, bs_scatter(g, outer, 0, score), none,
                                             &(bs_route_desc){.name = "inner", .paths = 2});
            in = bs_gather(g, inner, (bs_value[]){bs_affine(g, bs_scatter(g, inner, 0, in), 2, 0), none}, in, NULL);
        }
        const bs_value out[2] = {bs_conv2d(g, in, &(bs_conv2d_desc){.name = "c", .out = 2}), none};
        const bs_value stored = bs_assemble(g, bs_gather(g, outer, out, old, NULL));
        bs_state_write(g, state, stored);
        bs_output(g, "y", stored);
        const bs_plan *p = plan_of(g, NULL);
        check(p && place_of(p, stored) == BS_PLACE_STATE, "a state in place, with %s",
              nested ? "a router in its path" : "one router");
    }
}

/* A budget is for all cells: they run in tiles only where it decides nothing, and where nobody at the root asks for its
 * price. */
static void test_budget_of_tiles(void)
{
    for (int32_t k = 0; k < 4; k++) {
        const bool asked = k % 2, forced = k / 2;
        bs_graph *g = new_graph();
        const bs_value cells = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(20, 2)), none),
                       knob = bs_input(g, "knob", BS_F32, BS_SHAPE1(1));
        const bs_router outer = bs_route(g, cells, none, &(bs_route_desc){.name = "outer", .paths = 2});
        const bs_value in = bs_scatter(g, outer, 0, cells),
                       loss = bs_convert(g, in, &(bs_convert_desc){.dtype = BS_I32});
        const bs_router inner = bs_route(
            g, loss, knob, &(bs_route_desc){.name = "inner", .protocol = BS_ROUTE_BUDGET, .paths = 2, .capacity = 2});
        const bs_value y = bs_gather(g, inner, (bs_value[]){bs_affine(g, bs_scatter(g, inner, 0, in), 2, 0), none}, in,
                                     NULL);
        bs_output(g, "y", bs_collect(g, bs_gather(g, outer, (bs_value[]){y, none}, cells, NULL)));
        if (asked)
            bs_output(g, "price", bs_route_price(g, inner));
        const bs_plan *p = plan_of(
            g, &(bs_plan_desc){.order = BS_ORDER_DEPTH, .n_forces = forced, .forces = {{"inner", 1}}});
        const int32_t domain = bs_value_get(g, cells.id)->domain;
        check(p && p->domains[domain].order == (forced && !asked ? BS_ORDER_DEPTH : BS_ORDER_BREADTH),
              "a budget within a path, %s, its price %s: %s", forced ? "forced" : "which decides",
              asked ? "asked for" : "not asked for", forced && !asked ? "in tiles" : "all cells at once");
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * devices */

/* Layers of few channels, `wide` of them of many, on the paths of `routers` routers or on every cell; then codes. */
static void add_layers(bs_graph *g, const char *name, int32_t narrow, int32_t wide, int32_t routers)
{
    char text[48];
    const bs_shape shape = BS_SHAPE3(4, BS_UPTO(64), BS_UPTO(64));
    const bs_value cells = bs_patches(g, bs_input(g, name, BS_F32, shape), &(bs_patches_desc){.size = 16});
    bs_value sum = cells;
    for (int32_t k = 0; k < (routers ? routers : 1); k++) {
        bs_value out[2] = {cells, cells};
        bs_router r = {0};
        if (routers) {
            const bs_value score = bs_slice(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}),
                                            &(bs_slice_desc){.length = 2});
            snprintf(text, sizeof text, "%s%d", name, k);
            r = bs_route(g, score, none, &(bs_route_desc){.name = text, .paths = 2});
        }
        for (int32_t p = 0; p < (routers ? 2 : 1); p++) {
            out[p] = routers ? bs_scatter(g, r, p, cells) : cells;
            for (int32_t i = 0; i < narrow + wide; i++) {
                const bool is_wide = i >= narrow / 2 && i < narrow / 2 + wide;
                snprintf(text, sizeof text, "%s%d.%d.%d", name, k, p, i);
                out[p] = bs_conv2d(g, out[p], &(bs_conv2d_desc){.name = text, .out = is_wide ? 96 : 4, .kernel = 1});
            }
        }
        sum = bs_add(g, sum, routers ? bs_gather(g, r, out, none, NULL) : out[0]);
    }
    snprintf(text, sizeof text, "%s.out", name);
    bs_output(g, text, bs_assemble(g, bs_convert(g, sum, &(bs_convert_desc){.dtype = BS_U8})));
}

static bs_graph *layers(int32_t narrow, int32_t wide, int32_t routers)
{
    bs_graph *g = new_graph();
    add_layers(g, "frame", narrow, wide, routers);
    return g;
}

/* Values of half a tile each, of which `together` are needed at once; the first of them is made through a wide one. */
static bs_graph *crowd(int32_t together, bool wide)
{
    char name[16];
    bs_graph *g = new_graph();
    const bs_value cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(4, 64, 64)),
                                      &(bs_patches_desc){.size = 16});
    bs_value each[8], sum;
    for (int32_t i = 0; i < together; i++) {
        snprintf(name, sizeof name, "c%d", i);
        each[i] = bs_conv2d(g, cells, &(bs_conv2d_desc){.name = name, .out = 32, .kernel = 1});
    }
    if (wide) {
        const bs_value one = bs_conv2d(g, cells, &(bs_conv2d_desc){.name = "one", .out = 96, .kernel = 1}),
                       two = bs_conv2d(g, cells, &(bs_conv2d_desc){.name = "two", .out = 96, .kernel = 1});
        bs_output(g, "wide", bs_assemble(g, bs_add(g, one, two)));
    }
    sum = each[0];
    for (int32_t turn = 0; turn < 3; turn++)
        for (int32_t i = 1; i < together; i++)
            sum = bs_add(g, sum, each[i]);
    bs_output(g, "sum", bs_assemble(g, sum));
    return g;
}

static const bs_plan_desc on_device = {.tier = BS_TIER_CUDA, .order = BS_ORDER_DEPTH};

static int32_t mixed_of(const bs_plan *p)
{
    int32_t mixed = 0;
    for (int32_t d = 0; p && d < p->graph->n_domains; d++)
        mixed += p->domains[d].mixed;
    return mixed;
}

static void test_tiles_of_devices(void)
{
    bs_plan_desc d = on_device;
    const bs_plan *p = plan_of(layers(6, 0, 0), &d);
    check(p && p->n_regions == 1 && bs_plan_too_large(p) == 0, "layers that fit run in one region of tiles");
    p = plan_of(layers(2, 2, 0), &d);
    check(p && p->n_regions == 0, "where most layers are wide, all run layer by layer");
    for (int32_t routed = 0; routed < 2; routed++)
        for (d.half = 0; d.half < 2; d.half++) {
            p = plan_of(layers(20, 2, routed), &d);
            const int32_t mixed = mixed_of(p);
            int32_t top = 0;
            for (int32_t i = 0; p && i < p->n_top; i++)
                top += p->instrs[i].kind == BS_INSTR_CALL;
            check(p && mixed && p->n_regions >= 2 && top >= 2 && top < 12,
                  "a few wide layers run one by one between %d regions of tiles%s%s", p ? p->n_regions : 0,
                  routed ? ", on both paths" : "", d.half ? ", in f16" : "");
        }
    d.half = 1;
    p = plan_of(layers(16, 2, 2), &d);
    check(p && mixed_of(p) && p->n_regions >= 4, "paths of two routers are in regions of their own (%d)",
          p ? p->n_regions : 0);
    bs_graph *two = layers(20, 2, 0);
    add_layers(two, "other", 20, 2, 0);
    p = plan_of(two, &d);
    check(p && mixed_of(p) == 2 && p->n_regions >= 4, "so are two frames (%d)", p ? p->n_regions : 0);
    d.half = 0;
    p = plan_of(crowd(4, false), &d);
    check(p && !mixed_of(p) && p->n_regions == 0, "tiles that are too large without a wide layer are none");
    p = plan_of(crowd(6, true), &d);
    check(p && p->n_regions == 0, "nor those that are still too large without the wide ones");
}

/* Where the bytes of a plan lie on a device: apart, and within what is asked for. */
static void test_device_bytes(void)
{
    bs_graph *g = new_graph();
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(5)),
                   past = bs_input(g, "past", BS_I32, BS_SHAPE1(5));
    const bs_value cache = bs_state(g, "cache", BS_F32, BS_SHAPE3(5, 6, 4));
    const bs_value rows = bs_segments(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(40), 4)), lengths);
    const bs_router asked = bs_route(g, rows, none,
                                     &(bs_route_desc){.name = "asked", .paths = 4, .protocol = BS_ROUTE_CALLBACK});
    bs_value out[4] = {bs_affine(g, bs_scatter(g, asked, 0, rows), 2, 0), bs_scatter(g, asked, 1, rows), none, none};
    const bs_value x = bs_gather(g, asked, out, rows, NULL);
    const bs_router second = bs_route(g, x, none, &(bs_route_desc){.name = "second", .paths = 4});
    const bs_value inside = bs_scatter(g, second, 0, x);
    const bs_router nested = bs_route(
        g, inside, none, &(bs_route_desc){.name = "nested", .paths = 4, .protocol = BS_ROUTE_TOPK, .k = 2});
    const bs_value deep = bs_gather(
        g, nested, (bs_value[]){bs_affine(g, bs_scatter(g, nested, 0, inside), 1, 1), none, none, none}, none,
        &(bs_gather_desc){.mode = BS_GATHER_ADD});
    bs_route(g, rows, none, &(bs_route_desc){.name = "unused", .paths = 4});
    const bs_value all = bs_gather(g, second, (bs_value[]){deep, none, none, none}, x, NULL);
    bs_state_append(g, cache, all, past);
    bs_output(g, "y", bs_collect(g, bs_attention(g, all, all, all, cache, cache, past, NULL)));
    const bs_plan *p = plan_of(g, &on_device);
    check(g->status == BS_OK && p, "a net of everything that a device keeps");
    if (!p)
        return;
    bs_device_layout l;
    bs_device_layout_make(p, &l);
    check(l.device_bytes > 0 && l.pinned_bytes > 0 && l.tiles > 0 && l.scratch_bytes == 0,
          "tiles of rows fit in shared memory");
    uint64_t end = 0;
    bool apart = true;
    int32_t bound = 0;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const uint64_t at = bs_device_input_place(p, n);
        if (at == UINT64_MAX)
            continue;
        apart = apart && (at >= end || bound == 0) && at % BS_ALIGNMENT == 0 && at < l.inputs_bytes;
        end = at + 1;
        bound++;
    }
    check(apart && bound == 5, "what is bound lies apart: 3 inputs, a state, an output (%d)", bound);
    static const struct {
        const char *name;
        bool live, in_tile;
    } decisions[] = {{"", 0, 0}, {"asked", 1, 0}, {"second", 1, 0}, {"nested", 1, 1}, {"unused", 0, 0}};
    uint64_t told = 0;
    bs_device_decision placed[5];
    bs_device_decisions_place(p, placed);
    for (int32_t r = 1; r < 5; r++) {
        const bs_device_decision d = placed[r];
        check(d.live == decisions[r].live && d.in_tile == decisions[r].in_tile && d.paths == 4 &&
                  d.per_row == (r == 3 ? 2 : 1),
              "decision of \"%s\": live %d, in a tile %d", decisions[r].name, d.live, d.in_tile);
        check(!d.live || (d.top > told && d.top + 2 * (uint64_t)d.top_rows <= l.results_bytes),
              "and what the host is told lies behind the one before");
        told = d.live ? d.top : told;
    }
    check(bs_device_scores_bytes(p, 1) >= 40 * 4 * 4 && bs_device_scores_bytes(p, 2) == 0 &&
              bs_device_scores_bytes(p, 4) == 0,
          "scores are given to a callback alone");
    const bs_plan *forced = plan_of(g, &(bs_plan_desc){.tier = BS_TIER_CUDA, .n_forces = 1, .forces = {{"asked", 1}}});
    check(forced && bs_device_scores_bytes(forced, 1) == 0, "and to none that is decided ahead");
}

/* Tiles that are too large run from the device's memory where their weights come and go. */
static void test_large_tiles(void)
{
    bs_graph *g = new_graph();
    const bs_value cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(4, 64, 64)),
                                      &(bs_patches_desc){.size = 16});
    const bs_value score = bs_slice(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}),
                                    &(bs_slice_desc){.length = 3});
    const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = "route", .paths = 3});
    static const int32_t channels[3] = {128, 96, 4};
    static const char *const names[3] = {"large", "less", "small"};
    bs_value out[3];
    for (int32_t p = 0; p < 3; p++) {
        char second[16];
        snprintf(second, sizeof second, "%s2", names[p]);
        bs_block_begin(g, names[p]);
        const bs_value x = bs_conv2d(g, bs_scatter(g, r, p, cells),
                                     &(bs_conv2d_desc){.name = names[p], .out = channels[p]});
        out[p] = bs_conv2d(g, x, &(bs_conv2d_desc){.name = second, .out = 4});
        bs_block_end(g);
    }
    bs_output(g, "y", bs_assemble(g, bs_gather(g, r, out, none, NULL)));
    bs_plan_desc d = on_device;
    d.slot_bytes = UINT64_MAX;
    for (d.in_place = 0; d.in_place < 2; d.in_place++) {
        const bs_plan *p = plan_of(g, &d);
        bs_device_layout l;
        bs_sizes sizes;
        bs_device_layout_make(p, &l);
        bs_plan_sizes(p, &sizes);
        check(p->n_parts == 4 && l.scratch_bytes > bs_bytes_figure(p->shared_bytes) && l.tiles == 128 &&
                  l.scratch_bytes == bs_bytes_figure(p->kernel_scratch_offset),
              "the largest of the paths' tiles lies in the device's memory, 128 at a time");
        check(sizes.device == l.device_bytes && sizes.pinned == l.pinned_bytes &&
                  (l.stage_bytes == 0) == (d.in_place == 1),
              "and slots in %s memory", d.in_place ? "pinned" : "the device's");
    }
    bs_device_layout l;
    bs_device_layout_make(plan_of(g, NULL), &l);
    check(l.device_bytes == 0 && l.pinned_bytes == 0, "a plan for the CPU takes none");
}

/* What a device reads as it lies, and a CPU copies: rows of a path, and scores for a callback. */
static void test_views(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(20, 4)), none);
    const bs_router r = bs_route(g, x, none,
                                 &(bs_route_desc){.name = "asked", .paths = 4, .protocol = BS_ROUTE_CALLBACK});
    const bs_value inside = bs_scatter(g, r, 0, x), out[4] = {bs_softmax(g, inside), none, none, none};
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, none, NULL)));
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.order = BS_ORDER_BREADTH});
    check(p && place_of(p, x) == BS_PLACE_VIEW && place_of(p, inside) == BS_PLACE_TRANSIENT,
          "a CPU copies the rows of a path");
    p = plan_of(g, &(bs_plan_desc){.tier = BS_TIER_CUDA, .order = BS_ORDER_BREADTH});
    check(p && place_of(p, x) == BS_PLACE_TRANSIENT && place_of(p, inside) == BS_PLACE_VIEW,
          "a device copies what a callback is told");
}

int main(void)
{
    check(bs_plan_bytes(NULL, NULL) == 0, "no graph, no bytes");
    test_fusion();
    test_states();
    test_knob_of_state();
    test_look_ahead();
    test_units();
    test_stages();
    test_slabs();
    test_nested_gathers();
    test_budget_of_tiles();
    test_tiles_of_devices();
    test_device_bytes();
    test_large_tiles();
    test_views();
    return check_end();
}
