/* fuzz_plan.c - images of plans that lie. Of a graph that random_graph.h grows from the first byte a plan is made and
 * saved; the rest of the input says what becomes of the image, whose CRC is mended. What is opened all the same runs
 * within its session's arenas, whatever it gives; what is not is refused by a message. Without edits it is the plan.
 *
 * Relies on: random_graph.h, fuzz_run.h, plan_edit.h. Must never: keep dice from one input to the next. */
#define _POSIX_C_SOURCE 200809L
#include "../random_graph.h"

#include "fuzz_weights.h"
#include "plan_edit.h"

static flat_source source;
static net_table weights;
static random_graph rg;
static _Alignas(64) uint8_t graph_memory[1 << 20];

static bs_graph *grow(uint8_t seed)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    check_state = check_mixed(1000 + seed);
    rg_segments = seed % 3 == 2;
    rg_shares = seed % 2 == 1;
    rg_loops = seed % 4 >= 2;
    rg_trees = seed % 8 >= 6;
    rg_boxes = seed % 5 == 4;
    return rg_grow(&rg, g, &weights, 10 + check_below(40)) ? g : NULL;
}

/* In memory of exactly its bytes. */
static uint8_t *saved(const bs_plan *plan, size_t *size)
{
    bs_error error = {0};
    *size = bs_plan_image_bytes(plan);
    uint8_t *image = malloc(*size);
    FUZZ_PROMISE(image && bs_plan_save(plan, image, *size, &error) == BS_OK, "%s", error.message);
    return image;
}

static void run_image(const bs_graph *g, const uint8_t *image, size_t size, bool whole, fuzz_bytes *o)
{
    static BS_ALIGNED uint8_t handle[1 << 18];
    bs_arena arena;
    bs_error error = {0};
    bs_arena_init(&arena, "handle", handle, bs_plan_open_bytes(g));
    const bs_plan *plan = bs_plan_open(&arena, NULL, g, image, size, &error);
    if (!plan) {
        fuzz_failure(error.status, &error, "bs_plan_open");
        FUZZ_PROMISE(!whole && error.status != BS_ERROR_ARENA && arena.used == 0, "%s", error.message);
        return;
    }
    fuzz_show(g, plan);
    fuzz_ask_plan(plan);
    const bs_weights from = flat_weights(&source, 1);
    const bs_session_desc desc = {.weights = from};
    if (plan->tier != BS_TIER_CUDA)
        fuzz_session_run(g, plan, &desc, o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes o = {data, size, 0};
    bs_arena arena = {0};
    const bs_graph *g = grow(fuzz_u8(&o));
    if (!g)
        return 0;
    bs_plan_desc d = fuzz_plan_desc(&o, g);
    flat_init(&source, g, &weights.table, BS_F32);
    const bs_plan *plan = fuzz_plan(&arena, g, &d, &o, true);
    if (plan) {
        size_t room, bytes;
        uint8_t *image = saved(plan, &room);
        bytes = room;
        const bool whole = fuzz_u8(&o) == 255;
        if (!whole)
            plan_edit(&o, plan, image, &bytes);
        uint8_t *exact = fuzz_copy(image, bytes);
        run_image(g, exact, bytes, whole, &o);
        free(exact);
        free(image);
    }
    free(arena.base);
    return 0;
}
