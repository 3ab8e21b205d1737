// minimal.c from C++17. The address of a compound literal cannot be taken here, so descriptors have names; braces set
// all their fields to zero, which means default.
#include "brainstorm.h"
#include <cstdio>
#include <cstdlib>

BS_ALIGNED static uint8_t persistent[1 << 18], transient[1 << 18], staging[1 << 12]; // alignas comes first in C++
static uint8_t frame[128][192], clean[128][192];
static const float blur[9] = {.0625f, .125f, .0625f, .125f, .25f, .125f, .0625f, .125f, .0625f};
static int32_t path_of_energy[64]; // the router's table: a patch's energy, in buckets, to its path

static bs_value convert(bs_graph *g, bs_value x, bs_dtype dtype)
{
    bs_convert_desc desc{};
    desc.dtype = dtype;
    return bs_convert(g, x, &desc);
}

static bs_value branch(bs_graph *g, bs_value x, void *depth)
{
    bs_conv2d_desc layer{};
    layer.name = "blur";
    layer.out = 1;
    layer.no_bias = 1;
    x = convert(g, x, BS_F32);
    for (int i = 0; i < *static_cast<int *>(depth); i++)
        x = bs_conv2d(g, x, &layer);
    return convert(g, x, BS_U8);
}

static bs_status bind(bs_session *s, const char *name, uint8_t (&pixels)[128][192], bs_error *error)
{
    bs_buffer buffer{};
    buffer.data = pixels;
    buffer.dtype = BS_U8;
    buffer.rank = 3;
    buffer.dim[0] = 1;
    buffer.dim[1] = 128;
    buffer.dim[2] = 192;
    return bs_bind(s, name, &buffer, error);
}

static void build(bs_graph *g)
{
    static const char *const names[3] = {"none", "soft", "strong"};
    int depths[3] = {0, 1, 4};
    bs_patches_desc patches{};
    patches.size = 64;
    bs_slice_desc first{};
    first.length = 1;
    bs_route_desc by_table{};
    by_table.name = "route";
    by_table.protocol = BS_ROUTE_TABLE;
    by_table.paths = 3;
    by_table.keys = 64;

    bs_value cells = bs_patches(g, bs_input(g, "frame", BS_U8, BS_SHAPE3(1, 128, 192)), &patches);
    bs_value features = bs_patch_features(g, cells, BS_NONE, nullptr);
    bs_router route = bs_route(g, bs_slice(g, features, &first), BS_NONE, &by_table);
    bs_value out[3];
    for (int path = 0; path < 3; path++)
        out[path] = bs_branch(g, route, path, names[path], cells, branch, &depths[path]);
    bs_output(g, "clean", bs_assemble(g, bs_gather(g, route, out, BS_NONE, nullptr)));
}

int main()
{
    for (int y = 0; y < 128; y++)
        for (int x = 0; x < 192; x++) // three columns of patches: smooth, some noise, much noise
            frame[y][x] = static_cast<uint8_t>(60 + y / 4 + std::rand() % (1 + x / 64 * (x / 64) * 8));
    for (int i = 0; i < 64; i++)
        path_of_energy[i] = i < 24 ? 0 : i < 52 ? 1 : 2;

    bs_error error{};
    bs_memory memory{};
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, nullptr);
    build(g);

    const bs_tensor tensors[] = {{"blur.weight", BS_F32, 4, {1, 1, 3, 3}, blur},
                                 {"route.table", BS_I32, 1, {64}, path_of_energy}};
    const bs_tensor_table table = {tensors, 2};
    bs_session_desc desc{};
    desc.weights = bs_weights_from_table(&table);
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, nullptr, &error);
    bs_session *s = plan ? bs_session_create(&memory, plan, &desc, &error) : nullptr;
    bs_decision went{};
    if (s && bind(s, "frame", frame, &error) == BS_OK && bind(s, "clean", clean, &error) == BS_OK &&
        bs_run(s, &error) == BS_OK && bs_decision_get(s, "route", &went) == BS_OK)
        std::printf("patches through 0, 1 and 4 layers: %d, %d, %d\n", int(went.counts[0]), int(went.counts[1]),
                    int(went.counts[2]));
    else
        std::printf("%s\n", error.message);
    bs_session_close(s);
    return error.status != BS_OK;
}
