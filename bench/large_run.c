/* large_run.c: one run of one token through LAYERS layers of EXPERTS experts, the best 8, to count its instructions.
 *
 *     large_run LAYERS EXPERTS breadth|depth|slots RUNS
 *
 * bench/large_overhead.sh takes the difference of two runs and of one under callgrind.
 * Owns: nothing. Relies on: tests/large_net.h. Must never do anything between runs. */
#include "../tests/large_net.h"

static int fail(const bs_error *error)
{
    fprintf(stderr, "%s\n", error->message);
    return EXIT_FAILURE;
}

int main(int count, char **words)
{
    if (count != 5)
        return fprintf(stderr, "usage: large_run LAYERS EXPERTS breadth|depth|slots RUNS\n") > 0;
    static float x[64], y[64];
    const large_net net = {atoi(words[1]), atoi(words[2]), 8, 64, 32, 1};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    large_fill();
    large_source source = {net, large_table(&net)};
    const bs_graph_desc size = large_room(&net);
    room graph_room = large_room_of("graph", bs_graph_bytes(&size));
    bs_graph *g = bs_graph_create(&graph_room.arena, &size);
    large_build(g, &net);
    const bs_plan_desc desc = {
        .order = strcmp(words[3], "breadth") == 0 ? BS_ORDER_BREADTH : BS_ORDER_DEPTH,
        .tier = BS_TIER_SCALAR,
        .slot_bytes = strcmp(words[3], "slots") == 0 ? 8u * 64 * 32 * (uint64_t)(net.layers * net.experts) / 10 : 0};
    room plan_room = large_room_of("plan", bs_plan_bytes(g, &desc));
    const bs_plan *plan = bs_plan_create(&plan_room.arena, NULL, g, &desc, &error);
    if (!plan)
        return fail(&error);
    bs_sizes sizes;
    bs_plan_sizes(plan, &sizes);
    room rooms[4] = {large_room_of("persistent", sizes.persistent), large_room_of("transient", sizes.transient),
                     large_room_of("staging", sizes.staging), large_room_of("slots", sizes.slots)};
    bs_memory memory = {rooms[0].arena, rooms[1].arena, rooms[2].arena, rooms[3].arena};
    const bs_session_desc with = {.weights = large_weights(&source)};
    bs_session *s = bs_session_create(&memory, plan, &with, &error);
    const bs_buffer in = {x, BS_F32, 2, {1, 64}, {0}}, out = {y, BS_F32, 2, {1, 64}, {0}};
    for (int32_t i = 0; i < 64; i++)
        x[i] = large_input(0, i);
    if (!s || bs_bind(s, "x", &in, &error) != BS_OK || bs_bind(s, "y", &out, &error) != BS_OK)
        return fail(&error);
    for (int run = 0; run < atoi(words[4]); run++)
        if (bs_run(s, &error) != BS_OK)
            return fail(&error);
    bs_session_close(s);
    return EXIT_SUCCESS;
}
