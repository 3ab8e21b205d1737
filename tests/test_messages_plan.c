/* tags: asan */
/* Promises: a plan that cannot be made says which field, router, node or arena is at fault, what it is and what was
 * expected, word for word; what says no other than by such a message is not there. */
#include "messages.h"
#include "plan/plan.h"

static _Alignas(64) uint8_t graph_memory[4 << 20], plan_memory[8 << 20];
static const bs_value none = {0};

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, &(bs_graph_desc){.max_nodes = 2000, .max_values = 2000, .max_text_bytes = 1 << 18});
}

static void plan_fails(const bs_graph *g, const bs_plan_desc *desc, bs_status status, const char *text)
{
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena_init(&arena, "persistent", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, g, desc, &error);
    message_is(&error, status, text);
    check(!plan && arena.used == 0, "and there is no plan: its bytes are given back");
}

/* Patches, a router of two paths, each with a convolution in a block of its own, and a row of scores for every
 * patch. */
static bs_graph *routed_net(void)
{
    bs_graph *g = new_graph();
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(2, bs_symbol(g, "H", 64), bs_symbol(g, "W", 48)));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 16});
    const bs_value score = bs_pool2d(g, cells, &(bs_pool2d_desc){.name = "score", .global = 1});
    const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = "route", .paths = 2});
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++) {
        bs_block_begin(g, p ? "large" : "small");
        out[p] = bs_conv2d(g, bs_scatter(g, r, p, cells),
                           &(bs_conv2d_desc){.name = p ? "wide" : "narrow", .out = 2, .kernel = 3 + 2 * p});
        bs_block_end(g);
    }
    bs_output(g, "result", bs_assemble(g, bs_gather(g, r, out, none, NULL)));
    bs_output(g, "scores", bs_collect(g, score));
    return g;
}

/* ------------------------------------------------------------------------------------------------------ the
 * description */

static void rows_of_fields(void)
{
    const bs_graph *g = routed_net();
    plan_fails(g, &(bs_plan_desc){.threads = 65}, BS_ERROR_ARGUMENT, "bs_plan_desc.threads is 65, expected 0 .. 64");
    plan_fails(g, &(bs_plan_desc){.threads = -1}, BS_ERROR_ARGUMENT, "bs_plan_desc.threads is -1, expected 0 .. 64");
    plan_fails(g, &(bs_plan_desc){.tier = 6}, BS_ERROR_ARGUMENT, "bs_plan_desc.tier is 6, expected 0 .. 5");
    plan_fails(g, &(bs_plan_desc){.order = 3}, BS_ERROR_ARGUMENT, "bs_plan_desc.order is 3, expected 0 .. 2");
    plan_fails(g, &(bs_plan_desc){.conv = -1}, BS_ERROR_ARGUMENT, "bs_plan_desc.conv is -1, expected 0 .. 3");
    plan_fails(g, &(bs_plan_desc){.patch_size = 8193}, BS_ERROR_ARGUMENT,
               "bs_plan_desc.patch_size is 8193, expected 0 .. 8192");
    plan_fails(g, &(bs_plan_desc){.n_forces = 17}, BS_ERROR_ARGUMENT, "bs_plan_desc.n_forces is 17, expected 0 .. 16");
    plan_fails(g, &(bs_plan_desc){.lanes = 9}, BS_ERROR_ARGUMENT, "bs_plan_desc.lanes is 9, expected 0 .. 8");
    plan_fails(g, &(bs_plan_desc){.chunk_bytes = -1}, BS_ERROR_ARGUMENT,
               "bs_plan_desc.chunk_bytes is -1, expected 0 .. 1073741824");
    plan_fails(g, &(bs_plan_desc){.tier = BS_TIER_CUDA, .half = 2}, BS_ERROR_ARGUMENT,
               "bs_plan_desc.half is 2, expected 0 .. 1");
    plan_fails(g, &(bs_plan_desc){.tier = BS_TIER_CUDA, .in_place = -1}, BS_ERROR_ARGUMENT,
               "bs_plan_desc.in_place is -1, expected 0 .. 1");
    plan_fails(g, &(bs_plan_desc){.tier = BS_TIER_CUDA, .launch_mode = BS_LAUNCH_COUNT}, BS_ERROR_ARGUMENT,
               "bs_plan_desc.launch_mode is 4, expected 0 .. 3");
    plan_fails(g, &(bs_plan_desc){.tier = BS_TIER_CUDA, .shared_bytes = 100}, BS_ERROR_ARGUMENT,
               "bs_plan_desc.shared_bytes is 100, expected 0 or 27136 .. 1048576");
    static const bs_plan_desc for_a_gpu[] = {{.half = 1}, {.in_place = 1}, {.launch_mode = 1}, {.shared_bytes = 98304}};
    for (int32_t i = 0; i < 4; i++)
        plan_fails(g, &for_a_gpu[i], BS_ERROR_ARGUMENT,
                   "bs_plan_desc.half, in_place, launch_mode and shared_bytes are for plans of a GPU (BS_TIER_CUDA)");
}

static void rows_of_forces(void)
{
    const bs_graph *g = routed_net();
    plan_fails(g, &(bs_plan_desc){.n_forces = 1, .forces = {{"route", 2}}}, BS_ERROR_ARGUMENT,
               "cannot force path 2 of router \"route\": there is no such path");
    plan_fails(g, &(bs_plan_desc){.n_forces = 2, .forces = {{"route", 1}, {"route", -1}}}, BS_ERROR_ARGUMENT,
               "cannot force path -1 of router \"route\": there is no such path");
    plan_fails(g, &(bs_plan_desc){.n_forces = 1, .forces = {{"rout", 0}}}, BS_ERROR_ARGUMENT,
               "cannot force path 0 of router \"rout\": there is no such router");
    plan_fails(g, &(bs_plan_desc){.n_forces = 1}, BS_ERROR_ARGUMENT,
               "cannot force path 0 of router \"\": there is no such router");
}

/* A loop of rows; with `halo` it carries images whose neighbours are read. */
static const bs_graph *looping_net(bool halo)
{
    const bs_conv2d_desc conv = {.name = "c", .out = 1, .kernel = 5};
    bs_graph *g = new_graph();
    const bs_value frame = bs_input(g, "x", BS_F32, BS_SHAPE3(1, 16, 16));
    const bs_value x = halo ? bs_patches(g, frame, &(bs_patches_desc){.size = 8}) : bs_rows(g, frame, none);
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "round", .bound = 4});
    const bs_value v = bs_loop_carry(g, loop, x);
    const bs_value end = bs_loop_next(g, loop, v, halo ? bs_conv2d(g, v, &conv) : bs_add(g, v, v));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", halo ? bs_assemble(g, end) : bs_collect(g, end));
    return g;
}

static void rows_of_loops(void)
{
    const bs_graph *g = looping_net(false);
    plan_fails(g, &(bs_plan_desc){.n_forces = 1, .forces = {{"round", 0}}}, BS_ERROR_ARGUMENT,
               "cannot force router \"round\": it is a loop");
    plan_fails(looping_net(true), &(bs_plan_desc){0}, BS_ERROR_UNSUPPORTED,
               "loop \"round\" carries value 3, of which 2 pixels around a cell are read: carry them in the value, or "
               "loop over the assembled frame");
}

static void rows_of_arenas(void)
{
    const bs_graph *g = routed_net();
    const size_t bytes = bs_plan_bytes(g, NULL) - BS_ALIGNMENT; /* aligned */
    char text[160];
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "persistent", plan_memory, bytes - BS_ALIGNMENT);
    snprintf(text, sizeof text, "arena persistent: planning needs %d bytes, %d are free", (int)bytes,
             (int)bytes - BS_ALIGNMENT);
    check(!bs_plan_create(&arena, NULL, g, NULL, &error) && error.needed == bytes && arena.used == 0,
          "a plan is not made in less than it says");
    message_is(&error, BS_ERROR_ARENA, text);
    for (size_t skip = 0; skip < BS_ALIGNMENT; skip += 16) {
        bs_arena_init(&arena, "persistent", plan_memory + skip, bs_plan_bytes(g, NULL));
        check(bs_plan_create(&arena, NULL, g, NULL, &error) != NULL,
              "a plan is made in as much as it says, %d bytes off", (int)skip);
    }
    bs_plan_create(NULL, NULL, g, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_plan_create: the arena is NULL, or scratch is part of it");
    bs_arena part = arena;
    part.base += 64;
    part.size = 64;
    bs_plan_create(&arena, &part, g, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_plan_create: the arena is NULL, or scratch is part of it");
    bs_plan_create(&arena, NULL, NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT,
               "the graph is NULL (did bs_graph_create fit its arena, and its bs_graph_desc the limits?)");
    plan_fails(g, &(bs_plan_desc){.tier = BS_TIER_SCALAR, .slot_bytes = 64}, BS_ERROR_ARENA,
               "arena slots: block \"large\" needs 896 bytes, 64 are free");
}

/* ------------------------------------------------------------------------------------------------------------ the
 * graph */

static void look_ahead_fails(int32_t protocol, int32_t width, bool late, const char *router, bs_status status,
                             const char *text)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, 4)), none);
    const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = "score", .out = width});
    if (!late)
        bs_look_ahead(g, score, router);
    bs_route(g, x, none, &(bs_route_desc){.name = "next", .paths = 4, .protocol = protocol});
    if (late)
        bs_look_ahead(g, score, router);
    plan_fails(g, NULL, status, text);
}

static void rows_of_look_aheads(void)
{
    static const char *const no_router = "look_ahead \"next\": no later router of that name chooses the best k";
    look_ahead_fails(BS_ROUTE_TOP1, 4, false, "text", BS_ERROR_GRAPH,
                     "look_ahead \"text\": no later router of that name chooses the best k");
    look_ahead_fails(BS_ROUTE_TOP1, 4, true, "next", BS_ERROR_GRAPH, no_router);
    look_ahead_fails(BS_ROUTE_THRESHOLD, 4, false, "next", BS_ERROR_GRAPH, no_router);
    look_ahead_fails(BS_ROUTE_TOPK, 3, false, "next", BS_ERROR_SHAPE, "look_ahead \"next\": 3 scores for 4 paths");
}

static void rows_of_patches(void)
{
    plan_fails(routed_net(), &(bs_plan_desc){.patch_size = 8}, BS_ERROR_LIMIT,
               "patch size 8 makes up to 48 cells, collect \"\" holds 12: take larger patches");
    bs_graph *g = new_graph();
    bs_value cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, 64, 64)), &(bs_patches_desc){.size = 16});
    bs_output(g, "small", bs_assemble(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.name = "halve", .kind = BS_POOL_MAX})));
    plan_fails(g, &(bs_plan_desc){.patch_size = 7}, BS_ERROR_SHAPE,
               "patch size 7: pool2d \"halve\" makes cells of 1/2 of it, which are not whole pixels");

    g = new_graph();
    const bs_value row = bs_input(g, "row", BS_F32, BS_SHAPE2(16, 1));
    cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, 64, 64)), &(bs_patches_desc){.size = 16});
    cells = bs_linear(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}), &(bs_linear_desc){.name = "l", .out = 1});
    const bs_value sums = bs_add(g, cells, bs_rows(g, row, cells));
    const bs_router r = bs_route(g, sums, none, &(bs_route_desc){.name = "route", .paths = 1});
    bs_output(
        g, "all",
        bs_assemble(g, bs_gather(g, r,
                                 (bs_value[]){bs_scatter(g, r, 0,
                                                         bs_patches(g, bs_input(g, "b", BS_F32, BS_SHAPE3(1, 64, 64)),
                                                                    &(bs_patches_desc){.like = cells}))},
                                 none, NULL)));
    plan_fails(g, &(bs_plan_desc){.patch_size = 8}, BS_ERROR_LIMIT,
               "patch size 8 makes up to 64 cells, rows \"\" holds 16: take larger patches");

    g = new_graph();
    cells = bs_patches(g, bs_input(g, "frame", BS_U8, BS_SHAPE3(1, 1 << 16, 1 << 16)), &(bs_patches_desc){.size = 2});
    bs_output(g, "same", bs_assemble(g, bs_convert(g, cells, &(bs_convert_desc){.dtype = BS_F32})));
    plan_fails(g, &(bs_plan_desc){.patch_size = 1}, BS_ERROR_LIMIT,
               "up to 4294967296 cells in patches of 2 [65536, 65536], expected 2^30 at most");

    g = new_graph();
    cells = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, 1024, 1024)), &(bs_patches_desc){.size = 1024});
    for (int32_t i = 0; i < 34; i++)
        cells = bs_conv2d(g, cells,
                          &(bs_conv2d_desc){.name = i ? "far" : "first", .out = 1, .kernel = 255, .dilation = 255});
    bs_output(g, "far", bs_assemble(g, cells));
    plan_fails(g, NULL, BS_ERROR_LIMIT, "what reads patches \"\" needs more than 1048576 pixels around a cell");
}

static void rows_of_sizes(void)
{
    bs_graph *g = new_graph();
    bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(1 << 26), 64)), none);
    bs_router r = bs_route(g, x, none,
                           &(bs_route_desc){.name = "route", .paths = 64, .k = 17, .protocol = BS_ROUTE_TOPK});
    bs_output(g, "y",
              bs_collect(g, bs_gather(g, r, (bs_value[64]){bs_scatter(g, r, 0, x)}, none,
                                      &(bs_gather_desc){.mode = BS_GATHER_ADD})));
    plan_fails(g, NULL, BS_ERROR_LIMIT,
               "router \"route\" chooses 17 paths for up to 67108864 cells, expected 2^30 choices at most");

    g = new_graph();
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(1 << 30));
    bs_output(g, "y", bs_linear(g, x, &(bs_linear_desc){.name = "vast", .out = 1 << 16}));
    static const char
        *const weights = "the plan needs 0 bytes of activations, 0 a thread, and 281474976972800 of weights, "
                         "expected 2^46 at most: are the maxima right?";
    plan_fails(g, &(bs_plan_desc){.tier = BS_TIER_SCALAR}, BS_ERROR_LIMIT, weights);
    plan_fails(g, &(bs_plan_desc){.tier = BS_TIER_SCALAR, .slot_bytes = UINT64_MAX}, BS_ERROR_LIMIT, weights);

    g = new_graph();
    x = bs_input(g, "x", BS_F32, BS_SHAPE2(1 << 20, 1 << 20));
    bs_value each[20];
    for (int32_t i = 0; i < 20; i++) /* all are needed below */
        each[i] = bs_affine(g, x, 1, (float)i);
    for (int32_t i = 0; i < 20; i++)
        x = bs_add(g, x, each[i]);
    bs_output(g, "y", x);
    plan_fails(
        g, &(bs_plan_desc){.tier = BS_TIER_SCALAR, .no_fusion = 1}, BS_ERROR_LIMIT,
        "the plan needs 92358976733184 bytes of activations, 0 a thread, and 0 of weights, expected 2^46 at most: are "
        "the maxima right?");
}

/* Every path of every router is a part of its region, and every domain of its own a region: tables are as long as that
 * takes. */
static void test_many_regions(void)
{
    bs_graph *g = new_graph();
    char name[16];
    for (int32_t i = 0; i < 129; i++) {
        snprintf(name, sizeof name, "x%d", i);
        const bs_value x = bs_rows(g, bs_input(g, name, BS_F32, BS_SHAPE2(bs_symbol(g, name, 4), 4)), none);
        snprintf(name, sizeof name, "y%d", i);
        bs_output(g, name, bs_collect(g, bs_affine(g, x, 1, 1)));
    }
    bs_arena arena;
    bs_arena_init(&arena, "persistent", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, g, &(bs_plan_desc){.order = BS_ORDER_DEPTH}, NULL);
    check(plan && plan->n_regions == 129, "129 domains run in as many regions");
    plan = bs_plan_create(&arena, NULL, g, &(bs_plan_desc){.order = BS_ORDER_BREADTH}, NULL);
    check(plan && plan->n_regions == 0, "and in none");

    g = new_graph();
    bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, 64)), none);
    const bs_router r = bs_route(g, x, none, &(bs_route_desc){.name = "route", .paths = 64});
    bs_value out[64];
    for (int32_t p = 0; p < 64; p++)
        out[p] = bs_scatter(g, r, p, x);
    for (int32_t turn = 0; turn < 9; turn++) {
        for (int32_t p = 0; p < 64; p++)
            out[p] = bs_affine(g, out[p], 2, 1);
        x = bs_gather(g, r, out, none, NULL);
        for (int32_t p = 0; p < 64; p++)
            out[p] = bs_scatter(g, r, p, x);
    }
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, none, NULL)));
    bs_arena_init(&arena, "persistent", plan_memory, sizeof plan_memory);
    plan = bs_plan_create(&arena, NULL, g, &(bs_plan_desc){.order = BS_ORDER_DEPTH}, NULL);
    check(plan && plan->n_parts > 512 && plan->most_parts == 64, "paths of ten turns are parts of ten regions: %d",
          plan ? plan->n_parts : 0);
}

int main(void)
{
    rows_of_fields();
    rows_of_forces();
    rows_of_loops();
    rows_of_arenas();
    rows_of_look_aheads();
    rows_of_patches();
    rows_of_sizes();
    test_many_regions();
    /* the text of plan/units.c is that of arenas */
    static const char *const files[] = {"src/plan/plan.c", "src/plan/live.c", "src/plan/limits.c"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    return check_end();
}
