/* cuda_nets_model.c: the nets of a super-resolution model file on a frame. See cuda_nets.h. */
#include "cuda_nets.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL_BYTES = 8 << 20, LARGE_PATH = 3 };

static bool build(cuda_net *net, const char *model, int32_t width, int32_t height)
{
    bs_arena arena;
    net->memory = malloc(MODEL_BYTES);
    bs_arena_init(&arena, "model and graph", net->memory, net->memory ? MODEL_BYTES : 0);
    net->model = bs_model_open_file(&arena, NULL, model, &net->error);
    if (!net->model)
        return false;
    const bs_graph_desc room = bs_model_graph_desc(net->model);
    const bs_model_input frame = {"frame", 3, {1, height, width, 0}};
    /* a budget alone: as it was measured before */
    const bs_model_build_desc desc = {.inputs = &frame, .n_inputs = 1, .floor = -1};
    net->graph = bs_graph_create(&arena, &room);
    if (!net->graph)
        return cuda_net_fail(net, BS_ERROR_ARENA, "the model's graph is too large");
    return bs_model_build(net->model, net->graph, &desc, &net->error) == BS_OK;
}

/* Edges and noise; smooth on the left, so that cells differ. */
static void paint(uint8_t *frame, int32_t width, int32_t height)
{
    uint32_t noise = 1;
    for (int32_t i = 0; frame && i < width * height; i++) {
        const int32_t x = i % width, y = i / width;
        noise = noise * 1664525u + 1013904223u;
        frame[i] = x < width / 3 ? (uint8_t)(64 + y / 8) : (uint8_t)((x / 9 + y / 7) % 5 * 45 + (int32_t)(noise >> 28));
    }
}

bool cuda_net_sr(cuda_net *net, const char *model, int32_t width, int32_t height, bool large, float budget)
{
    memset(net, 0, sizeof *net);
    strcpy(net->name, large ? "sr large" : "sr routed");
    if (!build(net, model, width, height))
        return false;
    if (large) {
        net->forces[net->n_forces++] = (bs_force){"route", LARGE_PATH};
        net->forces[net->n_forces++] = (bs_force){"exit0", 1};
        net->forces[net->n_forces++] = (bs_force){"exit1", 1};
        net->patch_size = width > 128 ? 128 : 64; /* as video_sr: tiles only cut the work */
        net->flops = 2.0 * width * height * 9 * (32 + 6 * 1024 + 128);
    }
    net->keeps_state = !large;
    paint(cuda_net_input(net, "frame", cuda_net_buffer(BS_U8, 3, 1, height, width, 0)), width, height);
    float *to = cuda_net_input(net, "budget", cuda_net_buffer(BS_F32, 1, 1, 0, 0, 0));
    if (to)
        *to = budget;
    cuda_net_output(net, "frame_2x", cuda_net_buffer(BS_U8, 3, 1, 2 * height, 2 * width, 0));
    if (!cuda_net_ready(net))
        return false;
    net->weight_bytes = large ? 4.0 * 9 * (32 + 6 * 1024 + 128) : 0;
    return true;
}
