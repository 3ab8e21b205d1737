// Cleans a frame patch by patch: the noisier a patch, the more layers it goes through.
#include "brainstorm.h"
#include <stdio.h>
#include <stdlib.h>

BS_ALIGNED static uint8_t persistent[1 << 18], transient[1 << 18], staging[1 << 12];
static uint8_t frame[128][192], clean[128][192];
static const float blur[9] = {.0625f, .125f, .0625f, .125f, .25f, .125f, .0625f, .125f, .0625f};
static int32_t path_of_energy[64]; // the router's table: a patch's energy, in buckets, to its path

static bs_value branch(bs_graph *g, bs_value x, void *depth)
{
    x = bs_convert(g, x, &(bs_convert_desc){.dtype = BS_F32});
    for (int i = 0; i < *(const int *)depth; i++)
        x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "blur", .out = 1, .no_bias = 1});
    return bs_convert(g, x, &(bs_convert_desc){.dtype = BS_U8});
}

int main(void)
{
    for (int y = 0; y < 128; y++)
        for (int x = 0; x < 192; x++) // three columns of patches: smooth, some noise, much noise
            frame[y][x] = (uint8_t)(60 + y / 4 + rand() % (1 + x / 64 * (x / 64) * 8));
    for (int i = 0; i < 64; i++)
        path_of_energy[i] = i < 24 ? 0 : i < 52 ? 1 : 2;

    bs_error error = {0};
    bs_memory memory = {0};
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);

    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    bs_value in = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, 128, 192)), out[3];
    bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = 64}); // halo and edges are taken care of
    bs_value features = bs_patch_features(g, cells, BS_NONE, NULL);
    bs_value energy = bs_slice(g, features, &(bs_slice_desc){.length = 1});
    bs_route_desc by_table = {.name = "route", .protocol = BS_ROUTE_TABLE, .paths = 3, .keys = 64};
    bs_router route = bs_route(g, energy, BS_NONE, &by_table);
    out[0] = bs_branch(g, route, 0, "none", cells, branch, &(int){0});
    out[1] = bs_branch(g, route, 1, "soft", cells, branch, &(int){1});
    out[2] = bs_branch(g, route, 2, "strong", cells, branch, &(int){4});
    bs_output(g, "clean", bs_assemble(g, bs_gather(g, route, out, BS_NONE, NULL)));

    const bs_tensor tensors[] = {{"blur.weight", BS_F32, 4, {1, 1, 3, 3}, blur},
                                 {"route.table", BS_I32, 1, {64}, path_of_energy}};
    const bs_tensor_table table = {tensors, 2};
    const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error); // bs_plan_sizes: its bytes
    bs_session *s = plan ? bs_session_create(&memory, plan, &desc, &error) : NULL;

    const bs_buffer from = {frame, BS_U8, 3, {1, 128, 192}, {0}}, to = {clean, BS_U8, 3, {1, 128, 192}, {0}};
    bs_decision went;
    if (s && bs_bind(s, "frame", &from, &error) == BS_OK && bs_bind(s, "clean", &to, &error) == BS_OK &&
        bs_run(s, &error) == BS_OK && bs_decision_get(s, "route", &went) == BS_OK)
        printf("patches through 0, 1 and 4 layers: %d, %d, %d\n", (int)went.counts[0],
               (int)went.counts[1], (int)went.counts[2]);
    else
        printf("%s\n", error.message);
    bs_session_close(s);
    return error.status != BS_OK;
}
