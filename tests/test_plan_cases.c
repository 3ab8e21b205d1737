/* tags: unsigned */
/* Promises: what the planner decides where cases are rare: which chains are fused and which are not, when a state is
 * written in place, which values share a slab. Plans only: that results are right, random graphs tell. Weights that
 * come and go: test_plan_units.c; devices: test_plan_devices.c. */
#include "plan_rig.h"
#include "run/session.h"

static char report[1 << 17];

/* ----------------------------------------------------------------------------------------------------------- fusion */

/* How many kernels of several nodes a plan has, whatever graph it is about. */
static int32_t fusions_of(const bs_plan *p)
{
    int32_t n = 0;
    for (int32_t i = 1; p && i < p->graph->n_nodes; i++)
        n += p->node_live[i] && p->nodes[i].fusion != 0;
    return n;
}

/* pixel_shuffle of `tail` and a sum with `base`, made codes: what the super-resolution epilogue does. */
static bool is_fused(bs_graph *g, bs_value tail, int32_t r, bs_value base, bool swapped, bs_dtype codes)
{
    const bs_value shuffled = bs_pixel_shuffle(g, tail, r);
    const bs_value sum = swapped ? bs_add(g, base, shuffled) : bs_add(g, shuffled, base);
    const bs_value stored = bs_convert(g, sum, &(bs_convert_desc){.name = "store", .dtype = (int32_t)codes});
    const bool rows = g->status == BS_OK && g->domains[g->values[stored.id].domain].kind == BS_DOMAIN_ROWS;
    bs_output(g, "codes", rows ? bs_collect(g, stored) : stored);
    const bs_plan *p = plan_of(g, NULL);
    if (p)
        bs_plan_report(p, report, sizeof report);
    return fusions_of(p) == 1 && strstr(report, "fused: sr_store") && !strstr(report, "] call  add") &&
           !strstr(report, "] call  convert");
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
    check(p && fusions_of(p) == 0, "a sum without a shuffle is none, nor a line");

    g = new_graph();
    const bs_value tail = bs_input(g, "tail", BS_F32, BS_SHAPE3(4, 8, 6)),
                   base = bs_input(g, "base", BS_F32, BS_SHAPE3(1, 16, 12));
    const bs_value shuffled = bs_pixel_shuffle(g, tail, 2), both = bs_add(g, shuffled, base);
    bs_output(g, "codes", bs_convert(g, both, &(bs_convert_desc){.name = "store", .dtype = BS_U8}));
    bs_output(g, "both", both);
    p = plan_of(g, NULL);
    check(p && fusions_of(p) == 0, "what somebody else reads stays");

    for (int32_t read = 0; read < 2; read++) {
        g = new_graph();
        const bs_value lines = bs_input(g, "lines", BS_F32, BS_SHAPE2(4, 6)),
                       split = bs_reshape(g, lines, BS_SHAPE4(2, 2, 3, 2));
        bs_output(g, "turned", bs_transpose(g, split, &(bs_transpose_desc){.order = {3, 1, 0, 2}}));
        if (read)
            bs_output(g, "split", split);
        p = plan_of(g, NULL);
        check(p && fusions_of(p) == !read, "a reshape %s a transposition",
              read ? "that is read stays before" : "joins");
    }

    g = new_graph();
    const bs_value cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(4, 32, 32)),
                                      &(bs_patches_desc){.size = 16});
    const bs_value like = bs_patches(g, bs_input(g, "large", BS_F32, BS_SHAPE3(1, 64, 64)),
                                     &(bs_patches_desc){.like = cells});
    const bs_value codes = bs_convert(g, bs_add(g, bs_pixel_shuffle(g, cells, 2), like),
                                      &(bs_convert_desc){.dtype = BS_U8});
    bs_output(g, "larger", bs_assemble(g, bs_resize(g, codes, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC})));
    p = plan_of(g, NULL);
    int32_t margin = 0;
    for (int32_t v = 1; p && v < p->graph->n_values; v++)
        margin = p->graph->values[v].dtype == BS_U8 ? bs_max_i32(margin, p->values[v].margin) : margin;
    check(p && margin > 0 && fusions_of(p) == 0,
          "codes with a margin are not fused");
}

/* -------------------------------------------------------------------------------------------------- states in place */

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
        check(p && place_of(p, s.stored) == BS_STORAGE_STATE && fills_of(p) == (residual != 0),
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
    check(p && place_of(p, s.one) == BS_STORAGE_TRANSIENT && place_of(p, s.stored) != BS_STORAGE_STATE,
          "a state that is copied to another as it was is not written in place");

    bs_graph *g = new_graph();
    const bs_value a = bs_state(g, "a", BS_F32, BS_SHAPE1(4)), b = bs_state(g, "b", BS_F32, BS_SHAPE1(4));
    bs_state_write(g, b, a);
    bs_output(g, "sum", bs_add(g, a, b));
    p = plan_of(g, NULL);
    check(p && place_of(p, a) == BS_STORAGE_STATE && p->n_top == 2,
          "a state that nobody writes is copied from where it is");
}

/* --------------------------------------------------------------------------------------- rows that no path gives */

/* Two paths that give something, or only the first, and a residual that takes work. */
static const bs_plan *plan_of_protocol(const bs_route_desc *d, bool both, const bs_plan_desc *how)
{
    bs_graph *g = new_graph();
    const bool one = d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_LABEL || d->protocol == BS_ROUTE_TABLE,
               whole = d->protocol == BS_ROUTE_LABEL || d->protocol == BS_ROUTE_TABLE || d->protocol == BS_ROUTE_BUDGET;
    const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(8, 4)), none);
    const bs_value scores = bs_rows(
        g, bs_input(g, "scores", whole ? BS_I32 : BS_F32, (bs_shape){2, {8, one ? 1 : 2}}), rows);
    const bs_router r = bs_route(g, scores, none, d);
    const bs_value out[2] = {bs_affine(g, bs_scatter(g, r, 0, rows), 2, 0),
                             both ? bs_affine(g, bs_scatter(g, r, 1, rows), 3, 0) : none};
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, bs_affine(g, rows, 5, 0), NULL)));
    return plan_of(g, how);
}

/* A fill, and what it copies, is there where a row may take no path, or one that gives nothing. */
static void test_fills(void)
{
    static const struct {
        bs_route_desc desc;
        bool leaves;
    } cases[] = {
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_TOP1}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_TOPK, .k = 1}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_RESIDUAL_THRESHOLD}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_BINARY}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_LABEL}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_TABLE, .keys = 4}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_CAPACITY, .capacity = 3}, true},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_CAPACITY, .capacity = 3, .spill = 1}, false},
        {{.name = "r", .paths = 2, .protocol = BS_ROUTE_CALLBACK}, true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int32_t both = 0; both < 2; both++) {
            const bs_plan *p = plan_of_protocol(&cases[k].desc, both, NULL);
            const bool fills = cases[k].leaves || !both;
            int32_t affine = 0;
            for (int32_t n = 1; p && n < p->graph->n_nodes; n++)
                affine += p->node_live[n] && strcmp(bs_op_get(p->graph->nodes[n].op)->name, "affine") == 0;
            check(p && fills_of(p) == fills && affine == 1 + both + fills, "protocol %d, %d paths that give: %s",
                  cases[k].desc.protocol, 1 + both, fills ? "a fill" : "no fill");
        }
    for (int32_t path = 0; path < 2; path++) {
        const bs_plan_desc forced = {.forces = {{"r", path}}, .n_forces = 1};
        const bs_plan *p = plan_of_protocol(&cases[9].desc, false, &forced);
        check(p && fills_of(p) == path, "path %d is forced: %s", path, path ? "a fill" : "no fill");
    }
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
        check(p && (place_of(p, stored) == BS_STORAGE_STATE) == !knob, "rows of a router are%s",
              knob ? " not written to a state in place when another router reads them"
                   : " written to a state in place");
    }
}

/* ------------------------------------------------------------------------------------------------------------ slabs */

static bool lie_together(const bs_plan *p, bs_value a, bs_value b)
{
    return bs_bytes_same(p->values[a.id].offset, p->values[b.id].offset);
}

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
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.order = BS_ORDER_BREADTH, .no_fusion = 1});
    bool same = p != NULL;
    for (int32_t k = 1; k < 3 && same; k++)
        same = lie_together(p, first[k], first[0]) && lie_together(p, second[k], second[1]);
    check(same && !lie_together(p, first[0], second[1]),
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
        check(p && place_of(p, stored) == BS_STORAGE_STATE, "a state in place, with %s",
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
            g, loss, knob, &(bs_route_desc){.name = "inner", .protocol = BS_ROUTE_BUDGET, .paths = 2, .variants = 2});
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

/* ---------------------------------------------------------------------------------------------------------- layouts */

/* Matrices of rank 3 are stored as their dimensions say, images channels last, and what goes with an image as it is. */
static void test_layouts(void)
{
    const bs_plan_desc apart = {.no_fusion = 1};
    bs_graph *g = new_graph();
    const bs_shape heads = BS_SHAPE3(12, 8, 64);
    const bs_value a = bs_input(g, "a", BS_F32, heads), b = bs_input(g, "b", BS_F32, heads);
    const bs_value scores = bs_matmul(g, a, b, &(bs_matmul_desc){.transpose_b = 1});
    const bs_value shares = bs_softmax(g, bs_affine(g, scores, 0.125f, 0));
    bs_output(g, "shares", shares);
    const bs_value before = bs_affine(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(4, 16, 12)), 2, 1);
    const bs_value image = bs_conv2d(g, before, &(bs_conv2d_desc){.name = "conv", .out = 4}),
                   after = bs_add(g, image, bs_affine(g, before, 3, 0));
    bs_output(g, "after", after);
    const bs_value rows = bs_rows(g, bs_input(g, "rows", BS_F32, BS_SHAPE3(4, 5, 6)), none);
    const bs_value lines = bs_collect(g, bs_affine(g, rows, 2, 0)), planes = bs_collect(g, bs_affine(g, rows, 3, 0));
    bs_output(g, "product", bs_linear(g, lines, &(bs_linear_desc){.name = "linear", .out = 3}));
    bs_output(g, "windows", bs_conv2d(g, planes, &(bs_conv2d_desc){.name = "window", .out = 4}));
    const bs_plan *p = plan_of(g, &apart);
    check(p && p->values[lines.id].planar && !p->values[planes.id].planar,
          "rows are joined row by row for a product, channels last for a convolution");
    check(p && p->values[scores.id].planar && p->values[shares.id].planar && place_of(p, shares) == BS_STORAGE_OUTPUT,
          "matrices are stored row by row, in the output that they become");
    check(p && !p->values[before.id].planar && !p->values[image.id].planar && !p->values[after.id].planar &&
              place_of(p, after) == BS_STORAGE_TRANSIENT,
          "images are stored channels last, before, after and beside a convolution");
}

/* What paths give is written straight to where a tensor of it is wanted, unless it must be summed first. */
static void test_joined_gathers(void)
{
    for (int32_t mode = BS_GATHER_PLACE; mode <= BS_GATHER_ADD; mode++) {
        bs_graph *g = new_graph();
        const bs_value rows = bs_rows(g, bs_input(g, "rows", BS_F32, BS_SHAPE3(6, 4, 5)), none);
        const bs_value label = bs_rows(g, bs_input(g, "label", BS_I32, BS_SHAPE2(6, 1)), rows);
        const bs_route_desc by = {.name = "by", .protocol = BS_ROUTE_LABEL, .paths = 2};
        const bs_router router = bs_route(g, label, none, &by);
        const bs_value out[] = {bs_affine(g, bs_scatter(g, router, 0, rows), 2, 0),
                                bs_affine(g, bs_scatter(g, router, 1, rows), 3, 0)};
        const bs_value all = bs_gather(g, router, out, none, &(bs_gather_desc){.mode = mode});
        const bs_value joined = bs_collect(g, all);
        bs_output(g, "joined", joined);
        const bs_plan *p = plan_of(g, NULL);
        check(p && (place_of(p, all) == BS_STORAGE_FRAME) == (mode == BS_GATHER_PLACE),
              "rows of paths are stored in the tensor that joins them: %s", mode ? "not sums" : "as they are");
        check(p && (mode != BS_GATHER_PLACE || p->values[all.id].source == joined.id), "in that one");
    }
}

/* What a loop of the root slices and collects keeps its layout: matrices row by row, images channels last. */
static void test_layouts_of_loops(void)
{
    bs_graph *g = new_graph();
    const bs_value start = bs_input(g, "start", BS_F32, BS_SHAPE2(8, 16));
    const bs_value steps = bs_linear(g, bs_input(g, "steps", BS_F32, BS_SHAPE3(BS_UPTO(32), 8, 4)),
                                     &(bs_linear_desc){.name = "project", .out = 16});
    const bs_value image = bs_affine(g, bs_input(g, "image", BS_F32, BS_SHAPE3(4, 8, 16)), 2, 1);
    const bs_loop_desc desc = {.name = "loop", .over = steps, .no_lift = 1}; /* what reads the image stays inside */
    const bs_router loop = bs_loop_begin(g, start, none, &desc);
    const bs_value was = bs_loop_carry(g, loop, start);
    const bs_value step = bs_loop_slice(g, loop, steps), first = bs_scatter(g, loop, 0, start);
    const bs_value is = bs_add(g, bs_add(g, was, step), first);
    const bs_value table = bs_scatter(g, loop, 0, steps), frame = bs_scatter(g, loop, 0, image);
    const bs_value seen = bs_conv2d(g, frame, &(bs_conv2d_desc){.name = "conv", .out = 4});
    const bs_value look = bs_linear(g, table, &(bs_linear_desc){.name = "look", .out = 2});
    const bs_value looked = bs_loop_next(g, loop, none, look);
    const bs_value last = bs_loop_next(g, loop, none, seen), all = bs_loop_collect(g, loop, is);
    const bs_value end = bs_loop_next(g, loop, was, is);
    bs_loop_end(g, loop, none);
    bs_output(g, "end", end);
    const bs_value next = bs_linear(g, all, &(bs_linear_desc){.name = "next", .out = 4});
    bs_output(g, "all", next);
    bs_output(g, "last", last);
    bs_output(g, "looked", looked);
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.no_fusion = 1});
    check(p && p->values[steps.id].planar && p->values[all.id].planar && p->values[next.id].planar,
          "what a loop slices, sees whole, or collects is stored row by row: products take all its rows at once");
    check(p && !p->values[image.id].planar && !p->values[seen.id].planar && !p->values[last.id].planar,
          "an image that a convolution in the body reads is stored channels last");
    check(p && place_of(p, step) == BS_STORAGE_VIEW && place_of(p, first) == BS_STORAGE_VIEW,
          "a step of a sequence is not copied, nor what lies outside the loop: the root has one row");
    check(p && bs_plan_is_planar(p, table.id) && !bs_plan_is_planar(p, frame.id),
          "and what the body sees is laid out as what it is a view of");
}

int main(void)
{
    check(bs_plan_bytes(NULL, NULL) == 0, "no graph, no bytes");
    test_fusion();
    test_states();
    test_fills();
    test_knob_of_state();
    test_slabs();
    test_nested_gathers();
    test_budget_of_tiles();
    test_layouts();
    test_joined_gathers();
    test_layouts_of_loops();
    return check_end();
}
