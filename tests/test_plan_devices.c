/* tags: unsigned */
/* Promises: what the planner decides for a device: what runs in tiles, where its bytes lie, and what is read as it
 * lies. Plans only: that results are right, the tests of the backend tell. */
#include "plan_rig.h"
#include "plan/device.h"
#include "run/session.h"

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
    check(p && p->n_regions == 1 && bs_plan_domain_beyond_shared(p) == 0, "layers that fit run in one region of tiles");
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

/* Something of everything that a device keeps. */
static bs_graph *everything(void)
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
    return g;
}

/* What is bound: 3 inputs, a state, an output. */
static void test_inputs_of_devices(const bs_plan *p, const bs_device_layout *l)
{
    uint64_t end = 0;
    bool apart = true;
    int32_t bound = 0;
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        const uint64_t at = bs_device_input_place(p, n);
        if (at == UINT64_MAX)
            continue;
        apart = apart && (at >= end || bound == 0) && at % BS_ALIGNMENT == 0 && at < l->inputs_bytes;
        end = at + 1;
        bound++;
    }
    check(apart && bound == 5, "what is bound lies apart: 3 inputs, a state, an output (%d)", bound);
}

static void test_decisions_of_devices(const bs_plan *p, const bs_device_layout *l)
{
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
        check(!d.live || (d.top > told && d.top + 2 * (uint64_t)d.top_rows <= l->results_bytes),
              "and what the host is told lies behind the one before");
        told = d.live ? d.top : told;
    }
}

/* Where the bytes of a plan lie on a device: apart, and within what is asked for. */
static void test_device_bytes(void)
{
    bs_graph *g = everything();
    const bs_plan *p = plan_of(g, &on_device);
    check(g->status == BS_OK && p, "a net of everything that a device keeps");
    if (!p)
        return;
    bs_device_layout l;
    bs_device_layout_make(p, &l);
    check(l.device_bytes > 0 && l.pinned_bytes > 0 && l.tiles > 0 && l.scratch_bytes == 0,
          "tiles of rows fit in shared memory");
    test_inputs_of_devices(p, &l);
    test_decisions_of_devices(p, &l);
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
                  (l.room_bytes == 0) == (d.in_place == 1),
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
    check(p && place_of(p, x) == BS_STORAGE_VIEW && place_of(p, inside) == BS_STORAGE_TRANSIENT,
          "a CPU copies the rows of a path");
    p = plan_of(g, &(bs_plan_desc){.tier = BS_TIER_CUDA, .order = BS_ORDER_BREADTH});
    check(p && place_of(p, x) == BS_STORAGE_TRANSIENT && place_of(p, inside) == BS_STORAGE_VIEW,
          "a device copies what a callback is told");
}

int main(void)
{
    test_tiles_of_devices();
    test_device_bytes();
    test_large_tiles();
    test_views();
    return check_end();
}
