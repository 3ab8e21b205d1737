/* tags: asan */
/* Promises: planning asks for room to move work where some may move, and for none where none can; a saved plan whose
 * graph is made anew is opened in an arena, or refused, at every size of that. */
#include "plan_image.h"

enum { ROWS = 11, WIDTH = 6, UNITS = 5 };

static BS_ALIGNED uint8_t memory[1 << 20];

/* A product of all rows that one path of two reads, or both of them. */
static const bs_graph *product(bs_arena *arena, bool both)
{
    const bs_value none = {0};
    bs_arena_init(arena, "graph", memory, sizeof memory);
    bs_graph *g = bs_graph_create(arena, NULL);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)), none);
    const bs_value w = bs_linear(g, x, &(bs_linear_desc){.name = "w", .out = UNITS});
    const bs_value score = bs_slice(g, x, &(bs_slice_desc){.length = 2});
    const bs_router r = bs_route(g, score, none, &(bs_route_desc){.name = "r", .paths = 2});
    const bs_value out[2] = {both ? bs_scatter(g, r, 0, w) : none, bs_scatter(g, r, 1, w)};
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, none, NULL)));
    return g;
}

/* What two paths read is known to stay before any work is done. */
static void test_room_for_nothing(void)
{
    const bs_plan_desc with = {.no_fusion = 1}, without = {.no_fusion = 1, .no_dataflow = 1};
    bs_arena arena;
    for (int32_t both = 0; both <= 1; both++) {
        const bs_graph *g = product(&arena, both);
        check((bs_plan_bytes(g, &with) == bs_plan_bytes(g, &without)) == both, "read by %d paths: %s", 1 + both,
              both ? "planning takes no more" : "planning takes more");
    }
}

/* Nothing has looked before whether the graph and what it is made with have room beside each other. */
static void test_room_to_open(void)
{
    static plan_image image;
    bs_arena arena;
    bs_error error;
    const bs_graph *g = product(&arena, false);
    const bool saved = plan_image_save(&image, bs_plan_create(&arena, NULL, g, NULL, &error));
    const size_t most = bs_plan_open_bytes(g);
    int32_t wrong = 0, opened = 0;
    for (size_t n = 0; saved && n <= most; n += BS_ALIGNMENT) {
        bs_arena_init(&arena, "plan", image.handle, n);
        const bool is_open = bs_plan_open(&arena, NULL, g, image.bytes, image.size, &error) != NULL;
        opened += is_open;
        wrong += is_open ? arena.used > arena.size : error.status != BS_ERROR_ARENA || arena.used != 0 || opened;
    }
    check(wrong == 0 && opened > 0, "an arena is large enough, or a saved plan is refused");
    plan_image_free(&image);
}

int main(void)
{
    test_room_for_nothing();
    test_room_to_open();
    return check_end();
}
