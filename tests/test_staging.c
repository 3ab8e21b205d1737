/* tags: asan */
/* Promises: large weights are read and prepared a few rows at a time, within 1 MiB of staging, and give the bytes that
 * they give when they are read in place; what is only copied needs none.
 *
 * Relies on: brainstorm.h alone. */
#include "brainstorm.h"
#include "check.h"

enum { INPUTS = 700, OUTPUTS = 603, CHANNELS = 96, MADE = 251, EDGE = 5, TENSORS = 8 };

static float dense[OUTPUTS * INPUTS], bias[OUTPUTS], slopes[OUTPUTS];
static float kernels[MADE * CHANNELS * 9], norm[4][MADE], copied[INPUTS * INPUTS];
static uint16_t narrow[OUTPUTS * INPUTS];
static float row[INPUTS], image[CHANNELS * EDGE * EDGE], results[3][OUTPUTS + MADE * EDGE * EDGE + INPUTS];

static const bs_tensor tensors[TENSORS] = {
    {"fc.weight", BS_F32, 2, {OUTPUTS, INPUTS}, dense}, {"fc.bias", BS_F32, 1, {OUTPUTS}, bias},
    {"fc.prelu", BS_F32, 1, {OUTPUTS}, slopes}, {"conv.weight", BS_F32, 4, {MADE, CHANNELS, 3, 3}, kernels},
    {"conv.bn.weight", BS_F32, 1, {MADE}, norm[0]}, {"conv.bn.bias", BS_F32, 1, {MADE}, norm[1]},
    {"conv.bn.mean", BS_F32, 1, {MADE}, norm[2]}, {"conv.bn.var", BS_F32, 1, {MADE}, norm[3]},
};

static bs_tensor table_tensors[TENSORS + 1];
static const bs_tensor_table table = {table_tensors, TENSORS + 1};

static bs_graph *build(void)
{
    static BS_ALIGNED uint8_t memory[1 << 20];
    bs_arena arena;
    bs_arena_init(&arena, "graph", memory, sizeof memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    const bs_value x = bs_input(g, "row", BS_F32, BS_SHAPE1(INPUTS));
    const bs_value y = bs_input(g, "image", BS_F32, BS_SHAPE3(CHANNELS, EDGE, EDGE));
    const bs_value square = bs_constant(g, "square", BS_F32, BS_SHAPE2(INPUTS, INPUTS));
    bs_output(g, "lines", bs_linear(g, x, &(bs_linear_desc){.name = "fc", .out = OUTPUTS, .act = BS_PRELU}));
    const bs_conv2d_desc conv = {.name = "conv", .out = MADE, .no_bias = 1, .batch_norm = 1};
    bs_output(g, "made", bs_conv2d(g, y, &conv));
    bs_output(g, "first", bs_slice(g, square, &(bs_slice_desc){.length = 1}));
    return g;
}

static bool bound(bs_session *s, float *result)
{
    bs_error error;
    const bs_buffer in[2] = {{row, BS_F32, 1, {INPUTS}, {0}}, {image, BS_F32, 3, {CHANNELS, EDGE, EDGE}, {0}}};
    const bs_buffer out[3] = {{result, BS_F32, 1, {OUTPUTS}, {0}},
                              {result + OUTPUTS, BS_F32, 3, {MADE, EDGE, EDGE}, {0}},
                              {result + OUTPUTS + MADE * EDGE * EDGE, BS_F32, 2, {1, INPUTS}, {0}}};
    return bs_bind(s, "row", &in[0], &error) == BS_OK && bs_bind(s, "image", &in[1], &error) == BS_OK &&
           bs_bind(s, "lines", &out[0], &error) == BS_OK && bs_bind(s, "made", &out[1], &error) == BS_OK &&
           bs_bind(s, "first", &out[2], &error) == BS_OK;
}

/* Arenas of just the size that the plan says, so that a sanitizer sees one byte too many. */
static void run(const char *what, const bs_plan_desc *desc, const bs_weights *weights, float *result)
{
    static BS_ALIGNED uint8_t plan_memory[1 << 20];
    bs_arena arena;
    bs_memory memory;
    bs_sizes sizes;
    bs_error error;
    const bs_graph *g = build();
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, g, desc, &error);
    if (!check(plan != NULL, "%s is planned", what))
        return;
    bs_plan_sizes(plan, &sizes);
    const uint64_t bytes[3] = {sizes.persistent, sizes.transient, sizes.staging};
    bs_arena *const arenas[3] = {&memory.persistent, &memory.transient, &memory.staging};
    bs_arena_init(&memory.slots, "slots", NULL, 0);
    for (int32_t i = 0; i < 3; i++)
        bs_arena_init(arenas[i], "arena", aligned_alloc(64, ((size_t)bytes[i] + 63) / 64 * 64), (size_t)bytes[i]);
    check(sizes.staging <= 1 << 20, "%s: staging is %llu bytes", what, (unsigned long long)sizes.staging);
    bs_session *s = bs_session_create(&memory, plan, &(bs_session_desc){.weights = *weights}, &error);
    check(s && bound(s, result) && bs_run(s, &error) == BS_OK, "%s runs", what);
    bs_session_close(s);
    for (int32_t i = 0; i < 3; i++)
        free(arenas[i]->base);
}

static void fill(float *to, size_t count, float low)
{
    for (size_t i = 0; i < count; i++)
        to[i] = low + (float)(check_random() % 1024) / 1024;
}

static void test_rows(const char *name, const bs_plan_desc *desc)
{
    const bs_weights mapped = bs_weights_from_table(&table);
    bs_weights read = mapped;
    char what[80];
    read.map = NULL;
    table_tensors[0] = tensors[0];
    memset(results, 0xff, sizeof results);
    snprintf(what, sizeof what, "%s, in place", name);
    run(what, desc, &mapped, results[0]);
    snprintf(what, sizeof what, "%s, read", name);
    run(what, desc, &read, results[1]);
    const bs_tensor half = {"fc.weight", BS_BF16, 2, {OUTPUTS, INPUTS}, narrow};
    table_tensors[0] = half;
    snprintf(what, sizeof what, "%s, widened", name);
    run(what, desc, &read, results[2]);
    for (int32_t i = 1; i < 3; i++)
        check(memcmp(results[0], results[i], sizeof results[0]) == 0, "%s: %s gives the same bytes", name,
              i == 1 ? "what is read" : "what is widened");
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    float *const all[] = {dense, bias, slopes, kernels, norm[0], norm[1], norm[2], norm[3], copied, row, image};
    const size_t counts[] = {OUTPUTS * INPUTS, OUTPUTS, OUTPUTS, MADE * CHANNELS * 9, MADE, MADE, MADE, MADE,
                             INPUTS * INPUTS, INPUTS, CHANNELS * EDGE * EDGE};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        fill(all[i], counts[i], all[i] == norm[3] ? 1.0f : -0.5f);
    for (int32_t i = 0; i < OUTPUTS * INPUTS; i++) {
        uint32_t bits;
        memcpy(&bits, &dense[i], sizeof bits);
        narrow[i] = (uint16_t)(bits >> 16);
        bits &= 0xffff0000u;
        memcpy(&dense[i], &bits, sizeof bits);
    }
    memcpy(table_tensors, tensors, sizeof tensors);
    const bs_tensor square = {"square", BS_F32, 2, {INPUTS, INPUTS}, copied};
    table_tensors[TENSORS] = square;
    test_rows("automatic", &(bs_plan_desc){0});
    test_rows("direct", &(bs_plan_desc){.conv = BS_CONV_FORCE_DIRECT});
    test_rows("reference", &(bs_plan_desc){.conv = BS_CONV_FORCE_REFERENCE});
    test_rows("scalar", &(bs_plan_desc){.tier = BS_TIER_SCALAR});
    return check_end();
}
