/* least.c - the smallest program that routes: patches of an image go to one of two convolutions, as a linear layer on
 * their mean says. It uses the builder, bs_conv2d, bs_linear, bs_pool2d and one router, and so pulls in what a board
 * needs at least, with a plan that was saved: tests/size.sh weighs it. Prints nothing; 0: it ran. */
#include "brainstorm.h"

enum { CHANNELS = 8, SIDE = 32 };

#ifdef BS_NO_PLANNER /* the plan was saved elsewhere */
extern const uint8_t plan_image[];
extern const size_t plan_image_bytes;
#endif

static BS_ALIGNED uint8_t persistent[1 << 18], transient[1 << 18], staging[1 << 14];
static float image[CHANNELS][SIDE][SIDE], result[CHANNELS][SIDE][SIDE];
static const float kernel[CHANNELS * CHANNELS * 9], bias[CHANNELS], score[2 * CHANNELS];

static bs_value branch(bs_graph *g, bs_value x, void *name)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = name, .out = CHANNELS});
}

int main(void)
{
    bs_memory memory = {0};
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);

    const bs_graph_desc room = {.max_nodes = 32, .max_values = 32, .max_text_bytes = 2048};
    bs_graph *g = bs_graph_create(&memory.persistent, &room);
    bs_value x = bs_input(g, "image", BS_F32, BS_SHAPE3(CHANNELS, SIDE, SIDE)), out[2];
    x = bs_patches(g, x, &(bs_patches_desc){.size = 8});
    bs_value mean = bs_pool2d(g, x, &(bs_pool2d_desc){.global = 1});
    mean = bs_linear(g, mean, &(bs_linear_desc){.name = "score", .out = 2, .no_bias = 1});
    const bs_router route = bs_route(g, mean, (bs_value){0}, &(bs_route_desc){.name = "route", .paths = 2});
    out[0] = bs_branch(g, route, 0, "near", x, branch, (void *)"near");
    out[1] = bs_branch(g, route, 1, "far", x, branch, (void *)"far");
    bs_output(g, "result", bs_assemble(g, bs_gather(g, route, out, (bs_value){0}, NULL)));

    const bs_tensor tensors[] = {{"near.weight", BS_F32, 4, {CHANNELS, CHANNELS, 3, 3}, kernel},
                                 {"far.weight", BS_F32, 4, {CHANNELS, CHANNELS, 3, 3}, kernel},
                                 {"near.bias", BS_F32, 1, {CHANNELS}, bias},
                                 {"far.bias", BS_F32, 1, {CHANNELS}, bias},
                                 {"score.weight", BS_F32, 2, {2, CHANNELS}, score}};
    const bs_tensor_table table = {tensors, sizeof tensors / sizeof *tensors};
    const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
#ifdef BS_NO_PLANNER
    const bs_plan *plan = bs_plan_open(&memory.persistent, NULL, g, plan_image, plan_image_bytes, NULL);
#else
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, NULL);
#endif
    bs_session *s = plan ? bs_session_create(&memory, plan, &desc, NULL) : NULL;
    const bs_buffer from = {image, BS_F32, 3, {CHANNELS, SIDE, SIDE}, {0}};
    const bs_buffer to = {result, BS_F32, 3, {CHANNELS, SIDE, SIDE}, {0}};
    return !(s && bs_bind(s, "image", &from, NULL) == BS_OK && bs_bind(s, "result", &to, NULL) == BS_OK &&
             bs_run(s, NULL) == BS_OK);
}
