/* tags: asan */
/* Promises: no plan is handed out whose instructions stand in a wrong order, are missing, or come twice, and none that
 * bs_plan_verify passes reads what another instruction wrote over. Plans of random graphs and networks, in every order,
 * with threads and slots, for devices with much memory and with little, pass as they are. In those of the first graphs
 * faults of each kind below are planted, one at a time, and the walk refuses each, or, of what only an image may say,
 * what looks at its values.
 *
 * Owns: which plans. The kinds of faults are walk_faults.h's. */
#include "random_networks.h"

#include "budget.h"
#include "random_graph.h"

#include "plan/device.h"
#include "walk_faults.h"

enum { SEEDS = 1000, PLANTED = 64, LEAST = 24, WORKSPACE = 1 << 20 };

static random_graph rg;
static random_layers rl;
static net_table weights;
static _Alignas(64) uint8_t graph_memory[4 << 20], plan_memory[8 << 20], workspace[WORKSPACE];

/* ------------------------------------------------------------------------------------------- images with exits */

static bs_value conv(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = name, .out = out, .act = BS_RELU});
}

/* Patches that leave after some convolutions or go on, which takes more of what is around them: twice, one exit inside
 * of another. */
static bool exits_grow(bs_graph *g)
{
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(1, BS_UPTO(80), BS_UPTO(80)));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = check_below(2) ? 16 : 24});
    const bs_router all = bs_route(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}), (bs_value){0},
                                   &(bs_route_desc){.name = "all", .protocol = BS_ROUTE_BINARY, .paths = 2});
    bs_value x = bs_scatter(g, all, 0, cells), f = conv(g, x, "head", 4), out[2] = {{0}, {0}};
    const bs_router none = {0};
    bs_router exits[2] = {none, none};
    bs_value left[2];
    static const char *const names[] = {"first", "second"}, *const a[] = {"a0", "a1"}, *const b[] = {"b0", "b1"},
                      *const tails[] = {"t0", "t1"};
    const int32_t count = 1 + (int32_t)check_below(2);
    for (int32_t e = 0; e < count; e++) {
        f = bs_add(g, conv(g, conv(g, f, a[e], 4), b[e], 4), f);
        exits[e] = bs_route(g, bs_pool2d(g, x, &(bs_pool2d_desc){.global = 1}), (bs_value){0},
                            &(bs_route_desc){.name = names[e], .protocol = BS_ROUTE_BINARY, .paths = 2});
        left[e] = conv(g, bs_scatter(g, exits[e], 0, f), tails[e], 1);
        f = bs_scatter(g, exits[e], 1, f);
        x = bs_scatter(g, exits[e], 1, x);
    }
    bs_value end = conv(g, conv(g, f, "c", 4), "last", 1);
    for (int32_t e = count - 1; e >= 0; e--) {
        out[0] = left[e];
        out[1] = end;
        end = bs_gather(g, exits[e], out, (bs_value){0}, NULL);
    }
    out[0] = end;
    out[1] = (bs_value){0};
    bs_output(g, "out", bs_assemble(g, bs_gather(g, all, out, (bs_value){0}, NULL)));
    return bs_graph_check(g, NULL) == BS_OK;
}

/* -------------------------------------------------------------------------------------------------- planting */

static struct fault {
    bool (*plant)(void); /* false: there is no place for it in this plan */
    const char *what;
    enum { OF_ORDER, OF_BYTES, OF_VALUES, OF_LISTS } of;
    int32_t planted, found;
} faults[] = {
    {reads_before, "what reads runs where what makes should", OF_ORDER, 0, 0},
    {reads_at_the_same_time, "what reads has the time of what makes", OF_ORDER, 0, 0},
    {reads_before_in_a_tile, "the same in the list of a tile", OF_ORDER, 0, 0},
    {tile_at_the_same_time, "tiles run at the time of what they read", OF_ORDER, 0, 0},
    {comes_twice, "an instruction comes twice, another one never", OF_ORDER, 0, 0},
    {last_is_missing, "the last instruction is missing", OF_ORDER, 0, 0},
    {other_path_is_stored, "a path is stored twice, another one never", OF_ORDER, 0, 0},
    {decides_too_late, "a router decides where its rows are worked on", OF_ORDER, 0, 0},
    {decided_at_the_same_time, "what works on rows of a path has the time of the decision", OF_ORDER, 0, 0},
    {moves_after_the_loop, "a result of a loop is moved behind its end", OF_ORDER, 0, 0},
    {begins_too_late, "what a loop begins with is moved behind its beginning", OF_ORDER, 0, 0},
    {reaches_less_near, "too little of an image is computed near its core", OF_ORDER, 0, 0},
    {reaches_less_in_a_ring, "too little of an image is computed in a ring", OF_ORDER, 0, 0},
    {kept_in_another_tile, "what another tile reads lies in the scratch of one", OF_ORDER, 0, 0},
    {written_over_at_top, "another value is written over what is read later", OF_BYTES, 0, 0},
    {written_over_in_a_tile, "the same in the scratch of a tile", OF_BYTES, 0, 0},
    {written_over_at_one_time, "the same by what runs beside the reader", OF_BYTES, 0, 0},
    {written_over_for_the_next_trip, "a trip writes over what the next one reads", OF_BYTES, 0, 0},
    {margin_is_smaller, "a margin is smaller than its readers need", OF_VALUES, 0, 0},
    {margin_of_no_image, "what is no image has a margin", OF_VALUES, 0, 0},
    {weights_are_smaller, "prepared weights take fewer bytes than they do", OF_VALUES, 0, 0},
    {sees_another_value, "a value is looked for in another one", OF_VALUES, 0, 0},
    {stands_elsewhere, "an instruction says that it is another part's", OF_LISTS, 0, 0},
    {nothing_decides, "what is said to decide a router computes", OF_LISTS, 0, 0},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static int32_t plans, sound, internal;

static void plant(struct fault *f)
{
    const int32_t n_top = plan->n_top, n_instrs = plan->n_instrs;
    if (f->plant()) {
        const bool order = f->of < OF_VALUES && bs_plan_walk(plan, false, workspace) == BS_WALK_SOUND;
        const bool bytes = f->of < OF_VALUES && bs_plan_walk_bytes(plan, workspace) == BS_WALK_SOUND;
        f->planted++;
        f->found += f->of == OF_VALUES  ? !bs_image_values_sound(plan)
                    : f->of == OF_LISTS ? bs_plan_walk(plan, true, workspace) != BS_WALK_SOUND
                                        : !bytes && order == (f->of == OF_BYTES);
    }
    plan->n_top = n_top;
    plan->n_instrs = n_instrs;
    restore();
}

static void try_plan(const bs_graph *g, const bs_plan_desc *d, bool planted)
{
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    plan = bs_plan_create(&arena, NULL, g, d, &error);
    internal += !plan && error.status == BS_ERROR_INTERNAL;
    if (!plan || plan->n_instrs > MOST_INSTRS || plan->graph->n_values > MOST_VALUES)
        return;
    plans++;
    sound += bs_plan_walk(plan, true, workspace) == BS_WALK_SOUND && bs_image_values_sound(plan) &&
             bs_plan_walk_bytes(plan, workspace) == BS_WALK_SOUND;
    keep();
    for (int32_t k = 0; k < FAULTS && planted; k++)
        plant(&faults[k]);
}

static void try_seed(uint64_t seed)
{
    const int32_t little = BS_DEVICE_SHARED + 4096; /* layers of wide rows run between tiles */
    const bs_plan_desc descs[] = {{.order = BS_ORDER_AUTO, .threads = 1},
                                  {.order = BS_ORDER_BREADTH, .threads = 2},
                                  {.order = BS_ORDER_DEPTH, .threads = 1},
                                  {.order = BS_ORDER_DEPTH, .threads = 2, .slot_bytes = UINT64_MAX},
                                  {.tier = BS_TIER_CUDA},
                                  {.tier = BS_TIER_CUDA, .order = BS_ORDER_DEPTH, .shared_bytes = little}};
    bs_arena arena;
    check_state = check_mixed(seed);
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    rg_segments = seed % 6 == 2;
    rg_loops = seed % 4 >= 2;
    rg_trees = seed % 8 >= 6;
    const bool grown = seed % 8 == 4 ? exits_grow(g)
                       : seed % 2    ? rl_grow(&rl, g, &weights)
                                     : rg_grow(&rg, g, &weights, 40);
    for (size_t k = 0; grown && k < sizeof descs / sizeof *descs; k++)
        try_plan(g, &descs[k], seed <= PLANTED);
}

int main(void)
{
    const budget b = budget_of(3);
    uint64_t seed = 0;
    while (budget_left(&b, (int32_t)seed, LEAST, SEEDS))
        try_seed(++seed);
    check(plans > 0 && sound == plans && internal == 0, "%d plans of %d graphs pass as they are: %d, %d are refused",
          plans, (int)seed, sound, internal);
    for (int32_t k = 0; k < FAULTS; k++)
        check(faults[k].planted > 0 && faults[k].found == faults[k].planted, "%s: %d of %d found", faults[k].what,
              faults[k].found, faults[k].planted);
    return check_end();
}
