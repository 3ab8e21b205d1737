/* tags: emulated */
/* test_cuda_large.c - what test_large.c runs, on a device: as many layers, experts and paths give the CPU's decisions
 * and, since all numbers are small integers, the CPU's very numbers, in both orders and with slots for a tenth of the
 * weights. */
#include "check.h"

#include "large_net.h"
#include "run/session.h"

static bs_error error;
static float input[64 * 64], cpu_out[64 * 64], gpu_out[64 * 64];

/* Runs twice; what every router decided is kept: [paths], then [rows]. */
static bool run(const bs_graph *g, const bs_plan_desc *desc, const bs_weights *weights, int32_t rows, int32_t d,
                float *out, int32_t *decided)
{
    bs_sizes sizes;
    room plan_room = large_room_of("plan", bs_plan_bytes(g, desc));
    const bs_plan *plan = bs_plan_create(&plan_room.arena, NULL, g, desc, &error);
    if (!plan) {
        free(plan_room.memory);
        return false;
    }
    bs_plan_sizes(plan, &sizes);
    room rooms[5] = {large_room_of("persistent", sizes.persistent), large_room_of("transient", sizes.transient),
                     large_room_of("staging", sizes.staging), large_room_of("slots", sizes.slots),
                     large_room_of("device", 4096)};
    bs_memory memory = {rooms[0].arena, rooms[1].arena, rooms[2].arena, rooms[3].arena};
    const bs_cuda_desc device_desc = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    bs_device *device = desc->tier == BS_TIER_CUDA ? bs_cuda_open(&rooms[4].arena, &device_desc, &error) : NULL;
    const bs_session_desc session_desc = {.weights = *weights, .device = device};
    bs_session *s = desc->tier != BS_TIER_CUDA || device ? bs_session_create(&memory, plan, &session_desc, &error)
                                                         : NULL;
    const bs_buffer x = {input, BS_F32, 2, {rows, d}, {0}}, y = {out, BS_F32, 2, {rows, d}, {0}};
    bool ok = s && bs_bind(s, "x", &x, &error) == BS_OK && bs_bind(s, "y", &y, &error) == BS_OK &&
              bs_run(s, &error) == BS_OK && bs_run(s, &error) == BS_OK;
    for (int32_t r = 1; ok && r < g->n_routers; r++) {
        bs_decision went;
        ok = bs_decision_get(s, g->routers[r].desc->name, &went) == BS_OK && went.cells == rows;
        for (int32_t p = 0; ok && p < went.paths; p++)
            *decided++ = went.counts[p];
        for (int32_t c = 0; ok && c < rows; c++)
            *decided++ = went.chosen[c];
    }
    bs_session_close(s);
    bs_cuda_close(device);
    for (int32_t i = 0; i < 5; i++)
        free(rooms[i].memory);
    free(plan_room.memory);
    return ok;
}

static void agrees(const char *name, const bs_graph *g, const bs_weights *weights, int32_t rows, int32_t d,
                   uint64_t slot_bytes)
{
    const size_t all = (size_t)g->n_paths + (size_t)g->n_routers * (size_t)rows;
    int32_t *cpu = calloc(all, sizeof *cpu), *gpu = calloc(all, sizeof *gpu);
    for (int32_t r = 0; r < rows; r++)
        for (int32_t i = 0; i < d; i++)
            input[r * d + i] = large_input(r, i);
    memset(&error, 0, sizeof error);
    if (check(g->status == BS_OK && cpu && gpu &&
                  run(g, &(bs_plan_desc){.tier = BS_TIER_SCALAR}, weights, rows, d, cpu_out, cpu),
              "%s runs on the CPU: %s %s", name, g->error.message, error.message))
        for (int32_t way = 0; way < (slot_bytes ? 3 : 2); way++) {
            static const char *const names[] = {"breadth first", "depth first", "slots for a tenth"};
            const bs_plan_desc desc = {.tier = BS_TIER_CUDA,
                                       .order = way == 0 ? BS_ORDER_BREADTH : BS_ORDER_DEPTH,
                                       .slot_bytes = way == 2 ? slot_bytes : 0};
            memset(gpu_out, 0x7f, sizeof gpu_out);
            const bool ran = run(g, &desc, weights, rows, d, gpu_out, gpu);
            check(ran && memcmp(cpu_out, gpu_out, (size_t)(rows * d) * sizeof *gpu_out) == 0 &&
                      memcmp(cpu, gpu, all * sizeof *gpu) == 0,
                  "%s, %s: decisions and numbers of the CPU %s", name, names[way], error.message);
        }
    free(cpu);
    free(gpu);
}

static void test_mixture(const char *name, const large_net *net, bool streams)
{
    large_source source = {*net, large_table(net)};
    const bs_graph_desc desc = large_room(net);
    room r = large_room_of("graph", bs_graph_bytes(&desc));
    bs_graph *g = bs_graph_create(&r.arena, &desc);
    large_build(g, net);
    const bs_weights weights = large_weights(&source);
    agrees(name, g, &weights, net->rows, net->d,
           streams ? 8 * (uint64_t)net->d * (uint64_t)net->f * (uint64_t)(net->layers * net->experts) / 10 : 0);
    large_table_free(&source.table);
    free(r.memory);
}

enum { WIDE_ROWS = 40 };

/* As in test_large.c, with as many paths as are asked for. */
static void test_wide(const char *name, const bs_route_desc *route, int32_t mode)
{
    const bs_graph_desc desc = {.max_nodes = 2 * route->paths + 32,
                                .max_values = 2 * route->paths + 32,
                                .max_text_bytes = 64 * route->paths + 32768,
                                .max_domains = route->paths + 2};
    const bs_tensor score = {
        .name = "score.weight", .dtype = BS_F32, .rank = 2, .dim = {route->paths, 16}, .data = large_patterns[5]};
    const bs_tensor_table table = {&score, 1};
    const bs_weights weights = bs_weights_from_table(&table);
    room r = large_room_of("graph", bs_graph_bytes(&desc));
    bs_graph *g = bs_graph_create(&r.arena, &desc);
    bs_value *out = calloc((size_t)route->paths, sizeof *out);
    const bs_value none = {0}, x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(WIDE_ROWS), 16)), none);
    const bs_value scores = bs_linear(g, x, &(bs_linear_desc){.name = "score", .out = route->paths, .no_bias = 1});
    const bs_router router = bs_route(g, scores, none, route);
    for (int32_t p = 0; out && p < route->paths; p++)
        out[p] = p % 7 == 3 ? none : bs_affine(g, bs_scatter(g, router, p, x), (float)(p % 5 - 2), (float)(p % 3));
    bs_output(g, "y", bs_collect(g, bs_gather(g, router, out, x, &(bs_gather_desc){.mode = mode})));
    agrees(name, g, &weights, WIDE_ROWS, 16, 0);
    free(out);
    free(r.memory);
}

int main(void)
{
    static const large_net people = {48, 128, 8, 64, 32, 1}, few = {3, 128, 8, 16, 8, 3};
    large_fill();
    test_mixture("48 layers of 128 experts", &people, false);
    test_mixture("3 layers of 128 experts", &few, true);
    test_wide("512 paths, the best", &(bs_route_desc){.name = "wide", .paths = 512, .protocol = BS_ROUTE_TOP1},
              BS_GATHER_PLACE);
    test_wide("512 paths, the best 8 by gates",
              &(bs_route_desc){.name = "wide", .paths = 512, .protocol = BS_ROUTE_TOPK, .k = 8}, BS_GATHER_WEIGHTED);
    test_wide("512 paths, the best 5, one selected",
              &(bs_route_desc){.name = "wide", .paths = 512, .protocol = BS_ROUTE_TOPK, .k = 5}, BS_GATHER_SELECT);
    test_wide("600 paths, all above a threshold",
              &(bs_route_desc){.name = "wide", .paths = 600, .protocol = BS_ROUTE_THRESHOLD, .threshold = -90.0f},
              BS_GATHER_ADD);
    test_wide("512 paths, two cells each",
              &(bs_route_desc){.name = "wide", .paths = 512, .protocol = BS_ROUTE_CAPACITY, .k = 3, .capacity = 2},
              BS_GATHER_WEIGHTED);
    test_wide("1500 paths, the best 4 by gates",
              &(bs_route_desc){.name = "wide", .paths = 1500, .protocol = BS_ROUTE_TOPK, .k = 4}, BS_GATHER_WEIGHTED);
    return check_end();
}
