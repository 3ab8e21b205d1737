/* test_model.c: a model file runs as the builder's own graph does.
 *
 * Owns: the tiny model of gguf_tiny.h once more, by builder calls; runs of both.
 * Relies on: gguf_tiny.h, check.h, brainstorm.h alone of the library.
 * Must never: need a file of the repository, or leave one behind.
 */
#include "brainstorm.h"
#include "check.h"
#include "gguf_tiny.h"

enum { HEIGHT = 13, WIDTH = 21, PIXELS = HEIGHT * WIDTH };

/* --- the same model by hand ------------------------------------------------------------------------------ */

static bs_value by_hand_branch(bs_graph *g, bs_value x, void *user)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = user, .out = 1, .kernel = 3});
}

static bs_graph *by_hand(bs_arena *arena)
{
    bs_graph *g = bs_graph_create(arena, NULL);
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(1, bs_symbol(g, "H", 16), bs_symbol(g, "W", 24)));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8});
    const bs_value mean = bs_pool2d(g, cells, &(bs_pool2d_desc){.name = "pool", .global = 1});
    const bs_value score = bs_linear(g, mean, &(bs_linear_desc){.name = "score", .out = 2});
    const bs_router route = bs_route(g, score, (bs_value){0}, &(bs_route_desc){.name = "route", .paths = 2});
    static char small[] = "small.conv", large[] = "large.conv";
    const bs_value out[2] = {bs_branch(g, route, 0, "small", cells, by_hand_branch, small),
                             bs_branch(g, route, 1, "large", cells, by_hand_branch, large)};
    bs_output(g, "result", bs_assemble(g, bs_gather(g, route, out, (bs_value){0}, NULL)));
    return g;
}

/* The tensors of tiny_make_payloads, as a table. */
static bs_weights by_hand_weights(void)
{
    static uint8_t records[TINY_BLOCKS][TINY_PAYLOAD_BYTES];
    static bs_tensor tensors[TINY_WEIGHTS];
    static bs_tensor_table table = {tensors, TINY_WEIGHTS};
    static const char *const names[TINY_WEIGHTS] = {"score.weight", "score.bias", "small.conv.weight", "small.conv.bias",
                                                    "large.conv.weight", "large.conv.bias"};
    tiny_make_payloads(records, NOTHING);
    for (int32_t i = 0; i < TINY_WEIGHTS; i++) {
        const bool bias = i % 2, conv = i > 1;
        tensors[i] = (bs_tensor){names[i], BS_F32, bias ? 1 : conv ? 4 : 2, {conv ? 1 : 2, 1, 3, 3}, records[i / 2] + (bias ? 256 : 0)};
    }
    return bs_weights_from_table(&table);
}

/* --- running --------------------------------------------------------------------------------------------- */

static uint8_t arenas[4][1 << 20];
static int32_t cells_taken[2]; /* by path, in the last run of a routed graph */

static bs_status bind_frame(bs_session *s, const char *name, void *data, bs_dtype dtype, bs_error *error)
{
    const bs_buffer buffer = {.data = data, .dtype = dtype, .rank = 3, .dim = {1, HEIGHT, WIDTH}};
    return bs_bind(s, name, &buffer, error);
}

/* Plans and runs once; what bs_model_build or the like left in *error stays when there is no graph. */
static bs_status run(const bs_graph *g, bs_weights weights, bs_dtype dtype, void *in, void *out, bs_error *error)
{
    static uint8_t plan_memory[1 << 20];
    bs_arena plan_arena;
    bs_memory memory;
    const bs_plan_desc desc = {.threads = 2, .tier = BS_TIER_SCALAR};
    const bs_session_desc session_desc = {.weights = weights};
    bs_arena_init(&plan_arena, "plan", plan_memory, sizeof plan_memory);
    bs_arena_init(&memory.persistent, "persistent", arenas[0], sizeof arenas[0]);
    bs_arena_init(&memory.transient, "transient", arenas[1], sizeof arenas[1]);
    bs_arena_init(&memory.staging, "staging", arenas[2], sizeof arenas[2]);
    bs_arena_init(&memory.slots, "slots", arenas[3], sizeof arenas[3]);
    const bs_plan *plan = bs_plan_create(&plan_arena, g, &desc, error);
    bs_session *s = plan ? bs_session_create(&memory, plan, &session_desc, error) : NULL;
    if (!s)
        return error->status;
    bs_status status = bind_frame(s, "frame", in, dtype, error);
    if (status == BS_OK)
        status = bind_frame(s, "result", out, dtype, error);
    if (status == BS_OK)
        status = bs_run(s, error);
    bs_decision decision;
    if (status == BS_OK && bs_decision_get(s, "route", &decision) == BS_OK)
        memcpy(cells_taken, decision.counts, sizeof cells_taken);
    bs_session_close(s);
    return status;
}

/* Opens with whatever `open` does, builds, runs. */
static bs_status run_file(bs_model *model, bs_arena *arena, int32_t code_bits, bs_dtype dtype, void *in, void *out,
                          bs_error *error)
{
    if (!model)
        return error->status;
    const bs_graph_desc room = bs_model_graph_desc(model);
    const bs_model_build_desc desc = {.code_bits = code_bits};
    bs_graph *g = bs_graph_create(arena, &room);
    bs_status status = bs_model_build(model, g, &desc, error);
    if (status == BS_OK)
        status = run(g, bs_model_weights(model), dtype, in, out, error);
    bs_model_close(model);
    return status;
}

/* --- tests ----------------------------------------------------------------------------------------------- */

static BS_ALIGNED uint8_t graph_memory[1 << 20];

static int64_t read_forge(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const forge *f = user;
    if (offset > f->n || bytes > f->n - offset)
        return -1;
    memcpy(buffer, f->bytes + offset, bytes);
    return (int64_t)bytes;
}

/* Cells with a mean above 1.5 take path 1. */
static void fill_frame(float *frame)
{
    check_seed(7);
    for (int i = 0; i < PIXELS; i++)
        frame[i] = check_float() + (i % WIDTH < 8 ? -1.0f : 3.0f);
}

static void expect_same(const char *what, bs_status status, const bs_error *error, const float *out, const float *wanted)
{
    const bool same = status == BS_OK && memcmp(out, wanted, PIXELS * sizeof *out) == 0;
    check(same, "%s gives the bytes of the graph built by hand%s%s", what, status == BS_OK ? "" : ": ", status == BS_OK ? "" : error->message);
}

static void test_same_as_by_hand(void)
{
    static forge f;
    static BS_ALIGNED uint8_t aligned[FORGE_BYTES + 1];
    static float in[PIXELS], out[PIXELS], wanted[PIXELS];
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    fill_frame(in);
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_status status = run(by_hand(&arena), by_hand_weights(), BS_F32, in, wanted, &error);
    check(status == BS_OK, "the graph built by hand runs %s", error.message);
    check(cells_taken[0] > 0 && cells_taken[1] > 0, "and takes both paths (%d and %d cells)", cells_taken[0], cells_taken[1]);
    tiny_write(&f, NOTHING);
    for (int shift = 0; shift < 2; shift++) {
        memcpy(aligned + shift, f.bytes, f.n);
        memset(out, 0, sizeof out);
        arena.used = 0;
        bs_model *model = bs_model_open_memory(&arena, aligned + shift, f.n, &error);
        status = run_file(model, &arena, 0, BS_F32, in, out, &error);
        expect_same(shift ? "a file in unaligned memory" : "a file in memory", status, &error, out, wanted);
    }
    const bs_reader reader = {.user = &f, .read = read_forge, .size = f.n};
    memset(out, 0, sizeof out);
    arena.used = 0;
    status = run_file(bs_model_open_reader(&arena, &reader, &error), &arena, 0, BS_F32, in, out, &error);
    expect_same("a file behind a reader", status, &error, out, wanted);
}

/* u8 -> f32 by 1/255 -> u8 by 255: the identity on codes, of 8 bits and, widened, of 10. */
static void codes_write(forge *f)
{
    static const char *const ops[] = {"input", "patches", "convert", "convert", "assemble", "output"};
    static const char *const names[] = {"frame", "", "", "", "", "result"};
    static const int32_t n_inputs[] = {0, 1, 1, 1, 1, 1}, inputs[] = {1, 2, 3, 4, 5}, n_params[] = {6, 1, 2, 2, 0, 0};
    static const int32_t params[] = {1, 3, 1, HEIGHT, WIDTH, 0, 8, 0, 0x3b808081 /* 1/255 */, 1, 0x437f0000 /* 255 */};
    static const int32_t blocks[6] = {0}, end = 6, tensor = -1;
    static const char *const block = "main";
    static const int64_t bytes = 0;
    forge_begin(f);
    forge_key_string(f, "general.architecture", "brainstorm");
    forge_key_u32(f, "brainstorm.version", 1); /* the old one: there are no records */
    forge_key_u32(f, "brainstorm.opset", 1);
    forge_key_u32(f, "brainstorm.value.count", 5);
    forge_strings(f, "brainstorm.node.op", ops, 6);
    forge_strings(f, "brainstorm.node.name", names, 6);
    forge_i32s(f, "brainstorm.node.inputs.count", n_inputs, 6);
    forge_i32s(f, "brainstorm.node.inputs", inputs, 5);
    forge_i32s(f, "brainstorm.node.params.count", n_params, 6);
    forge_i32s(f, "brainstorm.node.params", params, sizeof params / 4);
    forge_i32s(f, "brainstorm.node.block", blocks, 6);
    forge_strings(f, "brainstorm.block.name", &block, 1);
    forge_i32s(f, "brainstorm.block.first_node", blocks, 1);
    forge_i32s(f, "brainstorm.block.end_node", &end, 1);
    forge_i32s(f, "brainstorm.block.tensor", &tensor, 1);
    forge_i64s(f, "brainstorm.block.bytes", T_U64, &bytes, 1);
    forge_array(f, "brainstorm.block.crc32", T_U32, 1);
    forge_u32(f, 0);
    forge_end(f);
}

static void test_codes(void)
{
    static forge f;
    static uint8_t in8[PIXELS], out8[PIXELS];
    static uint16_t in10[PIXELS], out10[PIXELS];
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    codes_write(&f);
    for (int i = 0; i < PIXELS; i++) {
        in8[i] = (uint8_t)i;
        in10[i] = (uint16_t)(i * 4 % 1024);
    }
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_status status = run_file(bs_model_open_memory(&arena, f.bytes, f.n, &error), &arena, 0, BS_U8, in8, out8, &error);
    check(status == BS_OK && memcmp(in8, out8, sizeof in8) == 0, "8-bit codes pass as they are %s", error.message);
    arena.used = 0;
    status = run_file(bs_model_open_memory(&arena, f.bytes, f.n, &error), &arena, 10, BS_U16, in10, out10, &error);
    check(status == BS_OK && memcmp(in10, out10, sizeof in10) == 0, "10-bit codes pass as they are %s", error.message);
    arena.used = 0;
    status = run_file(bs_model_open_memory(&arena, f.bytes, f.n, &error), &arena, 16, BS_U16, in10, out10, &error);
    check(status == BS_ERROR_ARGUMENT, "codes of 16 bits are refused");
}

int main(void)
{
    test_same_as_by_hand();
    test_codes();
    return check_end();
}
