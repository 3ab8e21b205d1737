/* tags: unsigned */
/* test_model_calls.c: what is asked of a model file wrongly, or after its bytes changed, is refused.
 *
 * Owns: wrong arguments, names that change or cannot be read once the file is open, names of one hash.
 * Relies on: tiny_model.h, check.h; ops/weights.h of the library.
 * Must never: need a file of the repository.
 */
#include "../src/ops/structure.h"
#include "../src/ops/weights.h"
#include "check.h"
#include "tiny_model.h"

static bs_model *open_memory(void)
{
    bs_model *model = bs_model_open_memory(&arena, file.bytes, file.n, &error);
    if (!model)
        exit(2);
    return model;
}

static bs_graph *room_for(const bs_model *model)
{
    const bs_graph_desc room = bs_model_graph_desc(model);
    return bs_graph_create(&arena, &room);
}

/* --- opening ----------------------------------------------------------------------------------------------- */

static int64_t no_open(void *user, const char *path, uint64_t *bytes)
{
    (void)user, (void)path, (void)bytes;
    return -1;
}

static int64_t file_bytes(void *user, int64_t handle, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)handle;
    memcpy(buffer, file.bytes + offset, bytes);
    return (int64_t)bytes;
}

static int64_t reader_bytes(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    return file_bytes(user, 1, offset, buffer, bytes);
}

static void no_close(void *user, int64_t handle) { (void)user, (void)handle; }

static void test_open(void)
{
    const bs_platform whole = {.file_open = no_open, .file_read = file_bytes, .file_close = no_close};
    const bs_reader reader = {.read = reader_bytes, .size = 100};
    tiny_begin(NOTHING);
    for (int i = 0; i < 4; i++) {
        bs_platform p = whole;
        p.file_open = i == 0 ? NULL : p.file_open;
        p.file_read = i == 1 ? NULL : p.file_read;
        p.file_close = i == 2 ? NULL : p.file_close;
        check(!bs_model_open_file(&arena, &p, i == 3 ? NULL : "x", &error) && error.status == BS_ERROR_ARGUMENT,
              "a file: %s", error.message);
    }
    check(!bs_model_open_file(&arena, NULL, "/nowhere/at all", &error) && error.status == BS_ERROR_IO, "%s",
          error.message);
    check(!bs_model_open_file(NULL, NULL, NULL, NULL) && !bs_model_open_memory(NULL, NULL, 0, NULL) &&
              !bs_model_open_reader(NULL, NULL, NULL),
          "nothing at all, with nobody to tell");
    check(!bs_model_open_file(NULL, &whole, "x", &error) && error.status == BS_ERROR_ARGUMENT, "%s", error.message);
    check(!bs_model_open_memory(NULL, file.bytes, file.n, &error) && error.status == BS_ERROR_ARGUMENT, "%s",
          error.message);
    check(!bs_model_open_reader(NULL, &reader, &error) && error.status == BS_ERROR_ARGUMENT, "%s", error.message);
    bs_arena_init(&arena, "persistent", arena_memory, 64);
    check(!bs_model_open_reader(&arena, &reader, &error) && error.status == BS_ERROR_ARENA && arena.used == 0, "%s",
          error.message);
    bs_model_close(NULL);
}

/* --- building ---------------------------------------------------------------------------------------------- */

static void test_graphs(void)
{
    tiny_begin(NOTHING);
    const bs_model *model = open_memory();
    bs_graph *graphs[6] = {NULL};
    for (int i = 1; i < 6; i++)
        graphs[i] = room_for(model);
    bs_symbol(graphs[1], "n", 4);
    bs_block_begin(graphs[2], "begun");
    bs_input(graphs[3], "x", BS_F32, BS_SHAPE1(4));
    bs_symbol(graphs[4], "n", 0); /* failed before */
    int wrong = 0;
    for (int i = 0; i < 4; i++)
        wrong += bs_model_build(model, graphs[i], NULL, &error) != BS_ERROR_ARGUMENT;
    check(wrong == 0 && bs_model_build(NULL, graphs[5], NULL, &error) == BS_ERROR_ARGUMENT,
          "a graph that is not empty: %s", error.message);
    check(bs_model_build(model, graphs[4], NULL, &error) == BS_ERROR_SHAPE, "a graph that failed before: %s",
          error.message);
    const bs_graph_desc small = {.max_nodes = 4, .max_values = 4, .max_text_bytes = 64};
    check(bs_model_build(model, bs_graph_create(&arena, &small), NULL, &error) == BS_ERROR_LIMIT,
          "a graph that is too small: %s", error.message);
    check(bs_model_build(model, graphs[5], NULL, &error) == BS_OK, "an empty one is built");
}

/* The file's input is [1, code 3, code 4]; a code -(s + 65536 (k - 1)) is k times symbol s. */
static void test_inputs(void)
{
    static const struct {
        const char *name;
        int32_t height, width;
        int32_t rank;
        bs_model_input input;
        bs_status status;
    } tries[] = {
        {"what the file says", -1, -2, 3, {"frame", 3, {1, 16, 24}}, BS_OK},
        {"one dimension alone", -1, -2, 3, {"frame", 3, {0, 0, 100}}, BS_OK},
        {"one symbol for both, the same", -1, -1, 3, {"frame", 3, {1, 40, 40}}, BS_OK},
        {"one symbol for both, and its double", -1, -1 - 65536, 3, {"frame", 3, {1, 40, 80}}, BS_OK},
        {"one symbol for both, not the same", -1, -1, 3, {"frame", 3, {1, 40, 48}}, BS_ERROR_SHAPE},
        {"not a multiple", -1 - 65536, -2, 3, {"frame", 3, {1, 41, 24}}, BS_ERROR_SHAPE},
        {"symbol 0, twice", -65536, -2, 3, {"frame", 3, {1, 40, 24}}, BS_ERROR_FORMAT},
        {"symbol 3", -1, -3, 3, {"frame", 3, {1, 40, 24}}, BS_ERROR_FORMAT},
        {"symbol 2^31", INT32_MIN, -2, 3, {"frame", 3, {1, 40, 24}}, BS_ERROR_FORMAT},
        {"a constant of the file, missed", 40, -2, 3, {"frame", 3, {1, 41, 24}}, BS_ERROR_SHAPE},
        {"a constant of the file", 40, -2, 3, {"frame", 3, {1, 40, 24}}, BS_OK},
        {"a dimension of 0", 0, -2, 3, {"frame", 3, {1, 40, 24}}, BS_ERROR_SHAPE},
        {"2^30 and one", -1, -2, 3, {"frame", 3, {1, (1 << 30) + 1, 24}}, BS_ERROR_SHAPE},
        {"the largest number", -1, -2, 3, {"frame", 3, {1, INT64_MAX, 24}}, BS_ERROR_SHAPE},
        {"a rank of 5 on both sides", -1, -2, 5, {"frame", 5, {1, 40, 24}}, BS_ERROR_SHAPE},
        {"a rank of 0 on both sides", -1, -2, 0, {"frame", 0, {1, 40, 24}}, BS_ERROR_SHAPE},
        {"a negative one", -1, -2, -1, {"frame", -1, {1, 40, 24}}, BS_ERROR_SHAPE},
        {"a node that is no input", -1, -2, 3, {"score", 3, {1, 40, 24}}, BS_ERROR_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        tiny_begin(NOTHING);
        memcpy(file.bytes + forge_find(&file, "brainstorm.node.params", AT_ELEMENT, 1), &tries[i].rank, 4);
        memcpy(file.bytes + forge_find(&file, "brainstorm.node.params", AT_ELEMENT, 3), &tries[i].height, 4);
        memcpy(file.bytes + forge_find(&file, "brainstorm.node.params", AT_ELEMENT, 4), &tries[i].width, 4);
        const bs_model *model = open_memory();
        const bs_model_build_desc desc = {.inputs = &tries[i].input, .n_inputs = 1};
        const bs_status status = bs_model_build(model, room_for(model), &desc, &error);
        check(status == tries[i].status, "%s: %s %s", tries[i].name, bs_status_name(status),
              status ? error.message : "");
    }
}

/* Every builder's descriptor fits into what a node of a file is copied to: sizes that model/build.c relies on. */
static void test_params(void)
{
    int wrong = 0;
    for (int32_t i = 0; i < bs_op_count(); i++) {
        const bs_op *op = bs_op_get(i);
        if (op->params_bytes == 0)
            wrong += op->n_fields != 0; /* bs_graph_add takes none then */
        else
            wrong += op->n_fields > BS_MODEL_MAX_PARAMS ||
                     op->params_bytes < sizeof(char *) + (size_t)op->n_fields * 4 ||
                     op->params_bytes > sizeof(char *) + BS_MODEL_MAX_PARAMS * 4 + 8;
    }
    check(wrong == 0 && bs_op_count() > 30, "the parameters of all %d ops have room in a node", bs_op_count());
}

/* --- bytes that change ------------------------------------------------------------------------------------- */

/* A name made shorter than it was, or unreadable, after the file was opened. */
static void test_changed(void)
{
    static const char *const names[] = {"brainstorm.symbol.name", "brainstorm.block.name", "brainstorm.node.op",
                                        "brainstorm.node.name"};
    int wrong = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int how = 0; how < 2; how++) {
            tiny_begin(NOTHING);
            const bs_model *model = open_memory();
            /* its length, its first byte */
            file.bytes[forge_find(&file, names[i], AT_STRING, 1) + (how ? 7 : 8)] = 0xff;
            const bs_status status = bs_model_build(model, room_for(model), NULL, &error);
            wrong += status != BS_ERROR_FORMAT || strncmp(error.message, "memory: ", 8) != 0;
        }
    check(wrong == 0, "names that change are refused when they are read again: %s", error.message);
    tiny_begin(NOTHING);
    const bs_model *model = open_memory();
    const bs_weights w = bs_model_weights(model);
    bs_model_block_facts block;
    bs_weight_info info;
    char name[BS_MAX_WEIGHT_NAME];
    file.bytes[forge_find(&file, "score.bias", AT_NAME, 0)] = 'S';
    check(w.find(w.user, "score.bias", &info) == BS_ERROR_WEIGHTS,
          "a weight that is called otherwise now is not found");
    file.bytes[forge_find(&file, "Score.bias", AT_NAME, 0)] = 7;
    check(w.find(w.user, "score.bias", &info) == BS_ERROR_IO, "one whose name cannot be read is an error");
    check(bs_model_weight_get(model, 1, name, NULL, &info) == BS_ERROR_IO &&
              bs_model_weight_get(model, 1, NULL, NULL, &info) == BS_OK,
          "also by number");
    file.bytes[forge_find(&file, "brainstorm.block.name", AT_STRING, 1) + 8] = 7;
    check(bs_model_block_get(model, 1, &block) == BS_ERROR_IO && bs_model_block_get(model, 2, &block) == BS_OK,
          "so is a block's");
}

/* Counts and numbers of nodes that change between opening and building, to anything: refused or built, never more than
 * is there. */
static void test_overwritten(void)
{
    static const uint32_t values[] = {0, 1, 2, 65, 66, 1000, INT32_MAX, 0x80000000u, UINT32_MAX};
    int refused = 0, built = 0;
    for (size_t at = 0; at < 4096; at += 3)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            tiny_begin(NOTHING);
            const bs_model *model = open_memory();
            memcpy(file.bytes + at % (file.header - 4), &values[v], 4);
            const bs_status status = bs_model_build(model, room_for(model), NULL, &error);
            refused += status != BS_OK && error.message[0];
            built += status == BS_OK;
        }
    check(refused + built == 1366 * 9 && refused > 500, "a header overwritten while it is open: %d refused, %d built",
          refused, built);
}

/* Fails from a read on: the n-th, counted from the opening. */
static int reads_left;

static int64_t failing_bytes(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    return reads_left-- > 0 ? reader_bytes(user, offset, buffer, bytes) : -1;
}

static void call_weight(size_t index, const char *name);

static void test_failing(extra more)
{
    static const bs_model_input input = {"frame", 3, {1, 16, 24}};
    const bs_model_build_desc desc = {.inputs = &input, .n_inputs = 1};
    int opened = 0, failed = 0, wrong = 0;
    bs_status status = BS_ERROR_IO;
    for (int n = 0; status != BS_OK && n < 1000 && wrong == 0; n++) {
        tiny_begin(more);
        if (more == FOREIGN_KEYS)
            call_weight(3, "small.conv.weight");
        const bs_reader reader = {.read = failing_bytes, .size = file.n};
        reads_left = n;
        bs_model *model = bs_model_open_reader(&arena, &reader, &error);
        status = model ? bs_model_build(model, room_for(model), &desc, &error) : error.status;
        if (more != NOTHING && status == BS_ERROR_FORMAT)
            break;
        opened += model != NULL;
        failed += status == BS_ERROR_IO;
        wrong += status != BS_OK && (status != BS_ERROR_IO || strncmp(error.message, "reader: ", 8) != 0);
    }
    check(wrong == 0 && failed > 4 && (more == NOTHING ? opened > 5 && status == BS_OK : status == BS_ERROR_FORMAT),
          "reads that fail from any on, while it is opened and built (%d): %s", failed, error.message);
}

/* --- questions --------------------------------------------------------------------------------------------- */

static void test_questions(void)
{
    tiny_begin(NOTHING);
    const bs_model *model = open_memory();
    const bs_weights w = bs_model_weights(model);
    bs_model_block_facts block;
    bs_weight_info info;
    float x[4];
    check(bs_model_block_get(model, -1, &block) == BS_ERROR_ARGUMENT &&
              bs_model_block_get(model, TINY_BLOCKS, &block) == BS_ERROR_ARGUMENT,
          "blocks that are not there");
    check(bs_model_weight_get(model, -1, NULL, NULL, &info) == BS_ERROR_ARGUMENT &&
              bs_model_weight_get(model, TINY_WEIGHTS, NULL, NULL, &info) == BS_ERROR_ARGUMENT,
          "weights that are not there");
    info.handle = TINY_WEIGHTS;
    check(w.read(w.user, &info, 0, x, 4) == BS_ERROR_ARGUMENT && !w.map(w.user, &info),
          "nor are those of other models");
    info.handle = 1;
    check(w.read(w.user, &info, 8, x, 0) == BS_OK && w.read(w.user, &info, 9, x, 0) == BS_ERROR_ARGUMENT &&
              w.read(w.user, &info, 4, x, 5) == BS_ERROR_ARGUMENT,
          "a weight is read up to its end");
    static BS_ALIGNED uint8_t shifted[FORGE_BYTES + 4];
    int mapped = 0, wrong = 0;
    for (size_t shift = 0; shift < 4; shift++) {
        memcpy(shifted + shift, file.bytes, file.n);
        const bs_weights moved = bs_model_weights(bs_model_open_memory(&arena, shifted + shift, file.n, &error));
        const void *data = moved.find(moved.user, "score.bias", &info) == BS_OK ? moved.map(moved.user, &info)
                                                                                : shifted + 1;
        mapped += data != NULL;
        wrong += (uintptr_t)data % sizeof(float) != 0;
    }
    check(mapped == 1 && wrong == 0, "a weight is mapped only where it is aligned");
    const bs_reader reader = {.read = reader_bytes, .size = file.n};
    const bs_weights from_reader = bs_model_weights(bs_model_open_reader(&arena, &reader, &error));
    check(!from_reader.map(from_reader.user, &info), "what is behind a reader is not mapped");
}

/* Two names of one FNV-1a hash. */
static const char *const twins[2] = {"8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"};

/* Splices a name into the list of weights. */
static void call_weight(size_t index, const char *name)
{
    uint8_t text[128];
    const uint64_t length = strlen(name);
    const size_t at = forge_find(&file, "brainstorm.weight.name", AT_STRING, index);
    memcpy(text, &length, 8);
    memcpy(text + 8, name, (size_t)length);
    forge_splice(&file, at, 8 + (size_t)forge_read_u64(&file, at), text, 8 + (size_t)length, TINY_ALIGNMENT);
}

static void test_twins(void)
{
    bs_weight_info info;
    tiny_begin(NOTHING);
    check(bs_name_hash(twins[0], 20) == bs_name_hash(twins[1], 20), "%s and %s have one hash", twins[0], twins[1]);
    call_weight(3, twins[0]);
    const bs_weights w = bs_model_weights(open_memory());
    check(w.find(w.user, twins[0], &info) == BS_OK && info.handle == 3 &&
              w.find(w.user, twins[1], &info) == BS_ERROR_WEIGHTS,
          "the one that is there is found, the other is not");
    tiny_begin(NOTHING);
    call_weight(3, twins[0]);
    call_weight(5, twins[1]);
    check(!bs_model_open_memory(&arena, file.bytes, file.n, &error) && error.status == BS_ERROR_FORMAT,
          "a file with both is refused: %s", error.message);
}

/* Every number of a tensor's type; a block's record is I8 and nothing else. */
static void test_tensor_types(void)
{
    static const uint8_t plain[] = {0, 1, 24, 25, 26, 27, 28, 30};
    int wrong = 0;
    for (uint32_t t = 0; t < 50; t++) {
        tiny_begin(NOTHING);
        file.bytes[forge_find(&file, "block.large", AT_VALUE, 8)] = (uint8_t)t;
        const bool opens = bs_model_open_memory(&arena, file.bytes, file.n, &error);
        const bool known = memchr(plain, (int)t, sizeof plain) != NULL;
        wrong += opens != (t == 24) || (!opens && (error.status == BS_ERROR_UNSUPPORTED) == known);
    }
    check(wrong == 0, "a record is of type I8: %s", error.message);
    tiny_begin(NOTHING); /* [516] becomes [516, 1] */
    const size_t at = forge_find(&file, "block.large", AT_TYPE, 0);
    file.bytes[at] = 2;
    forge_splice(&file, at + 12, 0, "\1\0\0\0\0\0\0\0", 8, TINY_ALIGNMENT);
    check(!bs_model_open_memory(&arena, file.bytes, file.n, &error) && strstr(error.message, "rank 2"),
          "and of rank 1: %s", error.message);
}

/* The reader beneath gives back what it took, too. */
static void test_reader_gives_back(void)
{
    static const size_t ends[] = {10, 30, 1000, 4000};
    bs_gguf gguf;
    int wrong = 0;
    tiny_begin(NOTHING);
    bs_arena_take(&arena, 100);
    const size_t mark = arena.used;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const bs_source source = {file.bytes, {NULL, NULL, 0, 1}, bs_bytes_of(ends[i])};
        wrong += bs_gguf_open(&gguf, &source, &arena, &error) || arena.used != mark;
    }
    check(wrong == 0, "a GGUF file that is refused leaves the arena as it was: %s", error.message);
}

int main(void)
{
    test_open();
    test_graphs();
    test_inputs();
    test_params();
    test_changed();
    test_overwritten();
    test_failing(NOTHING);
    test_failing(DUPLICATE_KEY);
    test_failing(DUPLICATE_TENSOR);
    test_failing(FOREIGN_KEYS); /* and a weight that is there twice */
    test_questions();
    test_twins();
    test_tensor_types();
    test_reader_gives_back();
    return check_end();
}
