/* tags: unsigned tsan shipped aarch64 32-bit */
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
    static const char *const names[TINY_WEIGHTS] = {"score.weight",    "score.bias",        "small.conv.weight",
                                                    "small.conv.bias", "large.conv.weight", "large.conv.bias"};
    tiny_make_payloads(records, NOTHING);
    for (int32_t i = 0; i < TINY_WEIGHTS; i++) {
        const bool bias = i % 2, conv = i > 1;
        tensors[i] = (bs_tensor){names[i],
                                 BS_F32,
                                 bias   ? 1
                                 : conv ? 4
                                        : 2,
                                 {conv ? 1 : 2, 1, 3, 3},
                                 records[i / 2] + (bias ? 256 : 0)};
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
    const bs_plan *plan = bs_plan_create(&plan_arena, NULL, g, &desc, error);
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

static void expect_same(const char *what, bs_status status, const bs_error *error, const float *out,
                        const float *wanted)
{
    const bool same = status == BS_OK && memcmp(out, wanted, PIXELS * sizeof *out) == 0;
    check(same, "%s gives the bytes of the graph built by hand%s%s", what, status == BS_OK ? "" : ": ",
          status == BS_OK ? "" : error->message);
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
    check(cells_taken[0] > 0 && cells_taken[1] > 0, "and takes both paths (%d and %d cells)", cells_taken[0],
          cells_taken[1]);
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

/* A file of version 1, without records, of these nodes. */
typedef struct plain_nodes {
    const char *const *ops, *const *names;
    const int32_t *n_inputs, *inputs, *n_params, *params;
    size_t n, all_inputs, all_params;
    uint32_t values, opset; /* 0: the first set */
} plain_nodes;

static void plain_write(forge *f, const plain_nodes *p)
{
    static const int32_t zeros[8] = {0}, tensor = -1;
    static const char *const block = "main";
    static const int64_t bytes = 0;
    const int32_t end = (int32_t)p->n;
    forge_begin(f);
    forge_key_string(f, "general.architecture", "brainstorm");
    forge_key_u32(f, "brainstorm.version", 1);
    forge_key_u32(f, "brainstorm.opset", p->opset ? p->opset : 1);
    forge_key_u32(f, "brainstorm.value.count", p->values);
    forge_strings(f, "brainstorm.node.op", p->ops, p->n);
    forge_strings(f, "brainstorm.node.name", p->names, p->n);
    forge_i32s(f, "brainstorm.node.inputs.count", p->n_inputs, p->n);
    forge_i32s(f, "brainstorm.node.inputs", p->inputs, p->all_inputs);
    forge_i32s(f, "brainstorm.node.params.count", p->n_params, p->n);
    forge_i32s(f, "brainstorm.node.params", p->params, p->all_params);
    forge_i32s(f, "brainstorm.node.block", zeros, p->n);
    forge_strings(f, "brainstorm.block.name", &block, 1);
    forge_i32s(f, "brainstorm.block.first_node", zeros, 1);
    forge_i32s(f, "brainstorm.block.end_node", &end, 1);
    forge_i32s(f, "brainstorm.block.tensor", &tensor, 1);
    forge_i64s(f, "brainstorm.block.bytes", T_U64, &bytes, 1);
    forge_array(f, "brainstorm.block.crc32", T_U32, 1);
    forge_u32(f, 0);
    forge_end(f);
}

/* u8 -> f32 by 1/255 -> u8 by 255: the identity on codes, of 8 bits and, widened, of 10. */
static void codes_write(forge *f)
{
    static const char *const ops[] = {"input", "patches", "convert", "convert", "assemble", "output"};
    static const char *const names[] = {"frame", "", "", "", "", "result"};
    static const int32_t n_inputs[] = {0, 1, 1, 1, 1, 1}, inputs[] = {1, 2, 3, 4, 5}, n_params[] = {6, 1, 2, 2, 0, 0};
    static const int32_t params[] = {1, 3, 1, HEIGHT, WIDTH, 0, 8, 0, 0x3b808081 /* 1/255 */, 1, 0x437f0000 /* 255 */};
    plain_write(f, &(plain_nodes){ops, names, n_inputs, inputs, n_params, params, 6, 5, sizeof params / 4, 5, 0});
}

/* A state of some type, and when it is u8 the frame written to it. */
static void state_write(forge *f, int32_t dtype)
{
    static const char *const ops[] = {"input", "state", "output", "state_write"}, *const names[] = {"frame", "before",
                                                                                                    "result", ""};
    static const int32_t n_inputs[] = {0, 0, 1, 2}, inputs[] = {1, 2, 1}, n_params[] = {6, 6, 0, 0};
    const int32_t params[] = {BS_U8, 3, 1, HEIGHT, WIDTH, 0, dtype, 3, 1, HEIGHT, WIDTH, 0};
    const bool written = dtype == BS_U8;
    plain_write(
        f, &(plain_nodes){ops, names, n_inputs, inputs, n_params, params, written ? 4 : 3, written ? 3 : 1, 12, 2, 0});
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
    bs_status status = run_file(bs_model_open_memory(&arena, f.bytes, f.n, &error), &arena, 0, BS_U8, in8, out8,
                                &error);
    check(status == BS_OK && memcmp(in8, out8, sizeof in8) == 0, "8-bit codes pass as they are %s", error.message);
    arena.used = 0;
    status = run_file(bs_model_open_memory(&arena, f.bytes, f.n, &error), &arena, 10, BS_U16, in10, out10, &error);
    check(status == BS_OK && memcmp(in10, out10, sizeof in10) == 0, "10-bit codes pass as they are %s", error.message);
    arena.used = 0;
    status = run_file(bs_model_open_memory(&arena, f.bytes, f.n, &error), &arena, 16, BS_U16, in10, out10, &error);
    check(status == BS_ERROR_ARGUMENT, "codes of 16 bits are refused");
}

/* Opens and builds for codes of 10 bits. */
static bs_status build_codes(const forge *f, bs_graph **graph, bs_error *error)
{
    bs_arena arena;
    const bs_model_build_desc desc = {.code_bits = 10};
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_model *model = bs_model_open_memory(&arena, f->bytes, f->n, error);
    if (!model)
        return error->status;
    const bs_graph_desc room = bs_model_graph_desc(model);
    *graph = bs_graph_create(&arena, &room);
    return bs_model_build(model, *graph, &desc, error);
}

/* The scale of the first convert, from `from` to `to`, as it describes itself when codes have 10 bits. */
static void expect_scale(int32_t from, int32_t to, float stored, const char *wanted)
{
    static forge f;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_graph *graph = NULL;
    char line[256] = "";
    codes_write(&f);
    memcpy(f.bytes + forge_find(&f, "brainstorm.node.params", AT_ELEMENT, 0), &from, 4);
    memcpy(f.bytes + forge_find(&f, "brainstorm.node.params", AT_ELEMENT, 7), &to, 4);
    memcpy(f.bytes + forge_find(&f, "brainstorm.node.params", AT_ELEMENT, 8), &stored, 4);
    const bs_status status = build_codes(&f, &graph, &error);
    if (status == BS_OK)
        bs_graph_describe(graph, 3, line, sizeof line);
    check(strstr(line, wanted) != NULL, "%s to %s by %g: %s%s", bs_dtype_name((bs_dtype)from),
          bs_dtype_name((bs_dtype)to), (double)stored, line, error.message);
}

/* A convert that takes nothing, what is not there, or two values: refused by the graph, widened or not. */
static void test_bad_converts(void)
{
    static const struct { int32_t count, operand; } tries[] = {{1, 0}, {1, -1}, {1, 3}, {1, 1000}, {0, 0}, {2, 2}};
    static forge f;
    bs_error error;
    int wrong = 0;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        bs_graph *graph;
        const int32_t others[] = {1, 1, 1, tries[i].count == 1 ? 1 : 2 - tries[i].count};
        codes_write(&f);
        memcpy(f.bytes + forge_find(&f, "brainstorm.node.inputs.count", AT_ELEMENT, 2), &tries[i].count, 4);
        memcpy(f.bytes + forge_find(&f, "brainstorm.node.inputs.count", AT_ELEMENT, 3), &others[3], 4);
        memcpy(f.bytes + forge_find(&f, "brainstorm.node.inputs", AT_ELEMENT, 1), &tries[i].operand, 4);
        wrong += build_codes(&f, &graph, &error) != BS_ERROR_GRAPH;
    }
    check(wrong == 0, "converts without a sound operand are refused: %s", error.message);
}

static void test_widened(void)
{
    static forge f;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_graph *graph;
    expect_scale(BS_U8, BS_F32, 4.0f, "scale 1,");
    expect_scale(BS_U8, BS_F32, 0, "scale 0.25,");
    expect_scale(BS_F32, BS_U8, 2.0f, "scale 8,");
    expect_scale(BS_U8, BS_U8, 3.0f, "scale 3,");
    expect_scale(BS_F32, BS_I32, 3.0f, "scale 3,");
    test_bad_converts();
    state_write(&f, BS_U8);
    check(build_codes(&f, &graph, &error) == BS_OK,
          "a state of codes is widened with the frame that is written to it %s", error.message);
    state_write(&f, BS_F32);
    check(build_codes(&f, &graph, &error) == BS_OK, "one of numbers stays %s", error.message);
}

/* --- what a file says of padding, in the words of every op set --------------------------------------------- */

enum { NOT_STORED = -9, REFUSED = 0, TALL = 8 };

typedef struct padded {
    const char *op;
    uint32_t opset;
    int32_t pad, padding;
    int32_t height; /* of the result of a frame of 8, or REFUSED; 1: a global pool's */
} padded;

static void padded_write(forge *f, const padded *p)
{
    const char *const ops[] = {"input", p->op, "output"}, *const names[] = {"frame", "of", "result"};
    const bool conv = strcmp(p->op, "conv2d") == 0, deconv = strcmp(p->op, "deconv2d") == 0;
    const int32_t fields = conv ? 12 : deconv ? 8 : 6, n_inputs[] = {0, 1, 1}, inputs[] = {1, 2};
    const int32_t n_params[] = {6, fields + (p->padding != NOT_STORED), 0};
    int32_t params[6 + 13] = {BS_F32, 3, 1, TALL, 10, 0};
    const int32_t of_conv[12] = {1, 3, 0, 0, 0, p->pad}, of_deconv[8] = {1, 4, 2, p->pad},
                  of_pool[6] = {BS_POOL_MAX, 3, 1, p->pad, p->height == 1};
    memcpy(params + 6, conv ? of_conv : deconv ? of_deconv : of_pool, (size_t)fields * sizeof *params);
    params[6 + fields] = p->padding;
    plain_write(f, &(plain_nodes){ops, names, n_inputs, inputs, n_params, params, 3, 2, (size_t)(6 + n_params[1]), 2,
                                  p->opset});
}

static const padded paddings[] = {
    {"conv2d", 1, 0, NOT_STORED, 8},
    {"conv2d", 1, -1, NOT_STORED, 6},
    {"conv2d", 2, -1, NOT_STORED, 6},
    {"conv2d", 1, 2, NOT_STORED, 10},
    {"conv2d", 2, 1, NOT_STORED, 8},
    {"conv2d", 1, -2, NOT_STORED, REFUSED},
    {"conv2d", 3, 0, NOT_STORED, 8},
    {"conv2d", 3, 2, NOT_STORED, REFUSED},
    {"conv2d", 3, -1, NOT_STORED, REFUSED},
    {"conv2d", 3, 0, BS_PAD_DEFAULT, 8},
    {"conv2d", 3, 0, BS_PAD_VALID, 6},
    {"conv2d", 3, 0, BS_PAD_EXPLICIT, 6},
    {"conv2d", 3, 2, BS_PAD_EXPLICIT, 10},
    {"conv2d", 3, 1, BS_PAD_VALID, REFUSED},
    {"conv2d", 3, 1, BS_PAD_DEFAULT, REFUSED},
    {"conv2d", 3, 0, 3, REFUSED},
    {"conv2d", 3, 0, -1, REFUSED},
    {"deconv2d", 1, 0, NOT_STORED, 18},
    {"deconv2d", 2, 1, NOT_STORED, 16},
    {"deconv2d", 1, -1, NOT_STORED, REFUSED},
    {"deconv2d", 3, 1, NOT_STORED, REFUSED},
    {"deconv2d", 3, 1, BS_PAD_EXPLICIT, 16},
    {"deconv2d", 3, 0, BS_PAD_VALID, 18},
    {"pool2d", 1, 0, NOT_STORED, 6},
    {"pool2d", 2, 1, NOT_STORED, 8},
    {"pool2d", 1, 3, NOT_STORED, REFUSED},
    {"pool2d", 1, 7, NOT_STORED, 1},
    {"pool2d", 3, 1, NOT_STORED, REFUSED},
    {"pool2d", 3, 1, BS_PAD_EXPLICIT, 8},
    {"pool2d", 3, 1, BS_PAD_VALID, REFUSED},
    {"pool2d", 3, 0, BS_PAD_VALID, 6},
};

static void test_padding(void)
{
    static forge f;
    for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++) {
        const padded *p = &paddings[i];
        bs_arena arena;
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        char line[256] = "", shape[32];
        padded_write(&f, p);
        bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
        bs_model *model = bs_model_open_memory(&arena, f.bytes, f.n, &error);
        const bs_graph_desc room = bs_model_graph_desc(model);
        bs_graph *graph = model ? bs_graph_create(&arena, &room) : NULL;
        const bs_status status = bs_model_build(model, graph, NULL, &error);
        bs_graph_describe(graph, 2, line, sizeof line);
        snprintf(shape, sizeof shape, p->height == 1 ? "[1]" : "[1, %d,", p->height);
        check(p->height == REFUSED ? model && status == BS_ERROR_ARGUMENT : status == BS_OK && strstr(line, shape),
              "%s of set %u, pad %d, padding %d: %s", p->op, (unsigned)p->opset, p->pad, p->padding,
              status == BS_OK ? line : error.message);
    }
}

/* What opening takes is told ahead, to the byte: that is enough, less is not, and the refusal asks for all of it at
 * once. */
static bool exact(const char *what, const char *path, const bs_reader *reader, const forge *f)
{
    static uint8_t memory[1 << 20];
    bs_platform plain = *bs_platform_default();
    plain.file_open_direct = NULL; /* nothing is tried in the arena */
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const size_t bytes = path     ? bs_model_file_bytes(&plain, path, &error)
                         : reader ? bs_model_reader_bytes(reader, &error)
                                  : bs_model_memory_bytes(f->bytes, f->n, &error);
    int32_t opened = 0, refused = 0, asked = 0;
    for (size_t skip = 0; bytes > 0 && bytes + BS_ALIGNMENT <= sizeof memory && skip < BS_ALIGNMENT; skip += 16)
        for (size_t less = 0; less < bytes; less += less < 256 ? BS_ALIGNMENT : bytes / 16 + 1) {
            bs_arena arena;
            bs_arena_init(&arena, "index", memory + skip, bytes - less);
            const size_t aligned = arena.size;
            bs_model *model = path     ? bs_model_open_file(&arena, &plain, path, &error)
                              : reader ? bs_model_open_reader(&arena, reader, &error)
                                       : bs_model_open_memory(&arena, f->bytes, f->n, &error);
            const bool fits = aligned / BS_ALIGNMENT * BS_ALIGNMENT >= bytes - BS_ALIGNMENT;
            opened += fits && model && arena.high_water == bytes - BS_ALIGNMENT;
            opened -= fits;
            refused += !fits && model;
            asked += !fits && (error.status != BS_ERROR_ARENA || error.needed != bytes - BS_ALIGNMENT ||
                               error.available != aligned || arena.used != 0);
            bs_model_close(model);
        }
    return check(bytes > 0 && opened == 0 && refused == 0 && asked == 0, "%s: %d bytes are enough, and less is not %s",
                 what, (int)bytes, error.message);
}

static void test_bytes(void)
{
    static forge f;
    tiny_write(&f, (extra)0);
    const bs_reader reader = {.user = &f, .read = read_forge, .size = f.n};
    exact("memory", NULL, NULL, &f);
    exact("a reader", NULL, &reader, &f);
    exact("models/sr2x.gguf", "models/sr2x.gguf", NULL, &f);
    exact("models/sr2x_video.gguf", "models/sr2x_video.gguf", NULL, &f);
    exact("models/moe_text.gguf", "models/moe_text.gguf", NULL, &f);
    padded_write(&f, &(padded){"conv2d", 1, 0, NOT_STORED, 8});
    exact("a file without weights", NULL, NULL, &f);
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    check(bs_model_memory_bytes("GGUX", 4, &error) == 0 && error.status == BS_ERROR_FORMAT, "what is no model: %s",
          error.message);
    bs_arena arena;
    static uint8_t memory[1 << 16];
    const size_t bytes = bs_model_file_bytes(NULL, "models/sr2x.gguf", &error);
    bs_arena_init(&arena, "index", memory + 16, bytes);
    bs_model *model = bs_model_open_file(&arena, NULL, "models/sr2x.gguf", &error);
    bs_model_facts facts;
    bs_model_facts_get(model, &facts);
    check(model && arena.high_water <= bytes,
          "by the default platform too, and there is room to try a direct read (%s)",
          facts.direct ? "it works" : "not here");
    bs_model_close(model);
}

int main(void)
{
    test_bytes();
    test_padding();
    test_same_as_by_hand();
    test_codes();
    test_widened();
    return check_end();
}
