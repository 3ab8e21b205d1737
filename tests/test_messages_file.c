/* tags: asan */
/* test_messages_file.c: what is wrong with a model file is said in one line: which file, which record of it, what was
 * expected.
 *
 * Owns: a table of mistakes, in files and in calls, and the whole text that each must give.
 * Relies on: messages.h, tiny_model.h; the library's sources, where it looks for messages that no row brings about.
 * Must never: be content with a part of a message.
 */
#include "../src/ops/weights.h"
#include "messages.h"
#include "messages_file.h"
#include "tiny_model.h"

static bs_model *open_memory(void) { return bs_model_open_memory(&arena, file.bytes, file.n, &error); }

/* A file as large as its counts ask for: nothing but its beginning is there. */
static int64_t read_beginning(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    memset(buffer, 0, bytes);
    if (offset < file.n)
        memcpy(buffer, file.bytes + offset, bytes < file.n - offset ? bytes : file.n - offset);
    return (int64_t)bytes;
}

static bs_model *open_vast(void)
{
    const bs_reader vast = {NULL, read_beginning, (uint64_t)1 << 40, 1};
    return bs_model_open_reader(&arena, &vast, &error);
}

static bs_status build(bs_model *model, const bs_model_build_desc *desc)
{
    const bs_graph_desc room = bs_model_graph_desc(model);
    return bs_model_build(model, bs_graph_create(&arena, &room), desc, &error);
}

/* Opens, builds and checks: the first failure stays in `error`. */
static void use(bs_model *model)
{
    if (model && build(model, NULL) == BS_OK)
        bs_model_check(model, &error);
    bs_model_close(model);
}

/* --- files ------------------------------------------------------------------------------------------------- */

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny_begin(NOTHING);
        const size_t at = forge_find(&file, rows[i].record, rows[i].part, rows[i].index);
        for (size_t b = 0; b < rows[i].bytes; b++)
            file.bytes[at + b] = (uint8_t)(rows[i].value >> 8 * b);
        use(open_memory());
        message_is(&error, rows[i].status, rows[i].text);
    }
}

/* Files that are wrong from the start, or cut. */
static void test_written(void)
{
    static const struct { extra more; const char *text;
    } wrong[] = {
        {DUPLICATE_KEY, "memory: two keys are called \"brainstorm.opset\""},
        {DUPLICATE_TENSOR, "memory: two tensors are called \"block.small\""},
        {NO_ARCHITECTURE, "memory: key \"general.architecture\" is missing, expected string"},
        {NO_FILE_ID, "memory: key \"brainstorm.file.id\" is missing, expected u64"},
        {NOT_ZERO,
         "memory: the record of block 1: it is not zero between its weights, at bytes 292 up to 512 of the record"},
        {NO_TAIL_PADDING, "memory: the file is cut short: 4228 bytes, its tensors end at 4288"},
    };
    static const struct { size_t bytes; const char *text; } cut[] = {
        {2, "memory: \"GGUF\": 4 bytes needed at byte 0, 2 left"},
        {6, "memory: the GGUF version: 4 bytes needed at byte 4, 2 left"},
        {12, "memory: the GGUF header: 8 bytes needed at byte 8, 4 left"},
        {100, "memory: 3 tensors cannot fit into a file of 100 bytes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tiny_begin(wrong[i].more);
        use(open_memory());
        message_is(&error, F, wrong[i].text);
    }
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        tiny_begin(NOTHING);
        file.n = cut[i].bytes;
        use(open_memory());
        message_is(&error, F, cut[i].text);
    }
}

/* Headers that end in the middle of a record, and more keys than are supported. */
static void test_forged(void)
{
    static const struct { const char *text; size_t missing;
    } tensors[] = {
        {"memory: tensor 0 \"a tensor of a name that is long enough\": its rank: 4 bytes needed at byte 70, 3 left",
         21},
        {"memory: tensor 0 \"a tensor of a name that is long enough\": its dimensions: 8 bytes needed at byte 74, 5 "
         "left",
         15},
        {"memory: tensor 0 \"a tensor of a name that is long enough\": its type and offset: 8 bytes needed at byte "
         "86, 5 left",
         3},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        tiny_begin(NOTHING);
        forge_begin(&file);
        forge_tensor(&file, "a tensor of a name that is long enough", 1, 0);
        forge_end(&file);
        file.n -= tensors[i].missing;
        use(open_memory());
        message_is(&error, F, tensors[i].text);
    }
    tiny_begin(NOTHING);
    forge_begin(&file);
    forge_key(&file, "a key without a value", T_U32);
    forge_end(&file);
    use(open_memory());
    message_is(&error, F, "memory: key 0 \"a key without a value\": its value: 4 bytes needed at byte 57, 0 left");
    forge_begin(&file);
    forge_key(&file, "a key without a type", T_U32);
    forge_end(&file);
    file.n -= 4;
    use(open_memory());
    message_is(&error, F, "memory: key 0 \"a key without a type\": its type: 4 bytes needed at byte 52, 0 left");
    forge_begin(&file);
    forge_end(&file);
    const uint64_t tensors_said = (1u << 24) + 1, none = 0;
    memcpy(file.bytes + 8, &tensors_said, 8);
    use(open_vast());
    message_is(&error, BS_ERROR_LIMIT, "reader: 16777217 tensors, at most 16777216 are supported");
    memcpy(file.bytes + 8, &none, 8);
    memcpy(file.bytes + 16, &tensors_said, 8);
    use(open_vast());
    message_is(&error, BS_ERROR_LIMIT, "reader: 16777217 keys, at most 16777216 are supported");
}

/* Lists of another length, and what takes changes in several places. */
static void test_edited(void)
{
    tiny_begin(NOTHING);
    forge_splice(&file, forge_find(&file, "general.architecture", AT_VALUE, 0), 18,
                 "\x28\0\0\0\0\0\0\0a name that is longer than any of theirs", 48, TINY_ALIGNMENT);
    use(open_memory());
    message_is(&error, F, "memory: general.architecture has 40 bytes, expected at most 31");
    tiny_begin(NOTHING);
    memset(file.bytes + forge_find(&file, "brainstorm.block.name", AT_COUNT, 0), 0, 8);
    forge_splice(&file, forge_find(&file, "brainstorm.block.name", AT_STRING, 0), 3 * 8 + 4 + 5 + 5, "", 0,
                 TINY_ALIGNMENT);
    use(open_memory());
    message_is(&error, F, "memory: key \"brainstorm.block.name\" has 0 elements, expected 1 .. 16777216");
    tiny_begin(NOTHING);
    forge_splice(&file, forge_find(&file, "brainstorm.block.name", AT_STRING, 1), 8 + 5, "\0\0\0\0\0\0\0", 8,
                 TINY_ALIGNMENT);
    use(open_memory());
    message_is(&error, F, "memory: block 1 \"\": its name is empty");
    tiny_begin(NOTHING);
    file.bytes[forge_find(&file, "brainstorm.symbol.name", AT_COUNT, 0)] = 1;
    forge_splice(&file, forge_find(&file, "brainstorm.symbol.name", AT_STRING, 1), 8 + 1, "", 0, TINY_ALIGNMENT);
    use(open_memory());
    message_is(&error, F, "memory: key \"brainstorm.symbol.maximum\" has 2 elements, expected 1");
    tiny_begin(NOTHING);
    /* 516 bytes become 4 here and in the tensor, */
    file.bytes[forge_find(&file, "brainstorm.block.bytes", AT_WIDE, 2) + 1] = 0;
    file.bytes[forge_find(&file, "block.large", AT_VALUE, 1)] = 0;             /* which is the last one */
    memset(file.bytes + file.data + 2 * 576 + 4, 0, 512);
    use(open_memory());
    message_is(&error, F, "memory: block 2 \"large\": its record has 4 bytes, its head alone 256");
    tiny_begin(NOTHING);
    file.bytes[forge_find(&file, "brainstorm.weight.dims", AT_COUNT, 0)] = 14;
    forge_splice(&file, forge_find(&file, "brainstorm.weight.dims", AT_WIDE, 13), 0, "\1\0\0\0\0\0\0", 8,
                 TINY_ALIGNMENT);
    use(open_memory());
    message_is(&error, F, "memory: key \"brainstorm.weight.dims\" has 1 elements that belong to nothing");
    tiny_begin(NOTHING);
    file.bytes[file.data + TINY_MAIN_BYTES] = 1;
    use(open_memory());
    message_is(&error, F, "memory: padding is not zero at byte 3080");
    tiny_begin(NOTHING);
    file.bytes[forge_find(&file, "brainstorm.block.first_node", AT_ELEMENT, 2)] = 4;
    memset(file.bytes + forge_find(&file, "brainstorm.node.block", AT_ELEMENT, 7), 0, 8);
    use(open_memory());
    message_is(&error, F, "memory: block 2 begins at node 4, expected the order of nodes");
}

/* --- heads of records -------------------------------------------------------------------------------------- */

static void test_heads(void)
{
    static const struct { size_t at; const char *text; } wrong[] = {
        {0, "memory: the record of block 1: its head has magic 0x43525343, expected 0x43525342"},
        {4, "memory: the record of block 1: its head has version 0x0, expected 0x1"},
        {8, "memory: the record of block 1: its head has block 0x0, expected 0x1"},
        {12, "memory: the record of block 1: its head has CRC-32 0x6ee4db33, expected 0x6ee4db32"},
        {16, "memory: the record of block 1: its head has length 0x205, expected 0x204"},
        {24, "memory: the record of block 1: its head has file id 0x2a4d66e52966c765, expected 0x2a4d66e52966c764"},
        {40, "memory: the record of block 1: its head is not zero from byte 32 on"},
        {TINY_HEAD_BYTES, "memory: the record of block 1: its CRC-32 is 122c3ad5, expected 6ee4db32"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tiny_begin(NOTHING);
        bs_model *model = open_memory();
        file.bytes[bs_bytes_figure(model->blocks[1].offset) + wrong[i].at] ^= 1;
        bs_model_check(model, &error);
        message_is(&error, F, wrong[i].text);
    }
    static const extra old[] = {OLD_VERSION, NOTHING};
    static const char *const texts[] = {
        "memory: a model file of version 1 cannot be streamed: write it anew in version 2",
        "memory: records aligned to 64 bytes cannot be streamed: they must be to 4096",
    };
    for (size_t i = 0; i < 2; i++) {
        tiny_begin(old[i]);
        bs_model_can_stream(open_memory(), &error);
        message_is(&error, BS_ERROR_UNSUPPORTED, texts[i]);
    }
}

/* --- reading ----------------------------------------------------------------------------------------------- */

/* Fails when a read begins at `at`, after `passes` of those. */
static struct { uint64_t at; int passes; } fault;

static int64_t read_file(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    if (offset == fault.at && fault.passes-- == 0)
        return -1;
    memcpy(buffer, file.bytes + offset, bytes);
    return (int64_t)bytes;
}

static void test_reading_keys(void)
{
    static const struct { const char *record; forge_part part; size_t index; int passes; const char *text;
    } wrong[] = {
        {NULL, AT_FILE, 0, 0, "reader: \"GGUF\": reading 256 bytes at byte 0 failed"},
        {"general.alignment", AT_VALUE, 0, 0, "reader: general.alignment: reading 4 bytes at byte 103 failed"},
        {"general.architecture", AT_VALUE, 0, 0, "reader: general.architecture: reading 18 bytes at byte 56 failed"},
        {"brainstorm.file.id", AT_VALUE, 0, 0, "reader: brainstorm.file.id: reading 8 bytes at byte 203 failed"},
        {"brainstorm.symbol.maximum", AT_WIDE, 0, 0,
         "reader: symbol 0 \"H\": brainstorm.symbol.maximum: reading 16 bytes at byte 445 failed"},
        {"brainstorm.symbol.name", AT_STRING, 0, 0,
         "reader: symbol 0 \"\": its name: reading 18 bytes at byte 378 failed"},
        {"brainstorm.symbol.name", AT_STRING, 0, 1,
         "reader: a name that was read before: reading 256 bytes at byte 378 failed"},
        {"brainstorm.weight.dims", AT_WIDE, 0, 0,
         "reader: weight 0 \"score.weight\": brainstorm.weight.dims: reading 104 bytes at byte 2232 failed"},
        {"brainstorm.weight.name", AT_STRING, 0, 0,
         "reader: weight 0 \"\": its name: reading 134 bytes at byte 1840 failed"},
        {"brainstorm.node.op", AT_STRING, 0, 0,
         "reader: node 0 \"frame\": its op: reading 171 bytes at byte 503 failed"},
        {"brainstorm.node.name", AT_STRING, 0, 1,
         "reader: node 0 \"\": its name: reading 141 bytes at byte 718 failed"},
        {"brainstorm.node.inputs.count", AT_ELEMENT, 0, 0,
         "reader: node 0 \"frame\": inputs: reading 48 bytes at byte 911 failed"},
        {"brainstorm.node.params.count", AT_ELEMENT, 0, 0,
         "reader: node 0 \"frame\": parameters: reading 48 bytes at byte 1109 failed"},
        {"brainstorm.node.params", AT_ELEMENT, 0, 0,
         "reader: node 0 \"frame\": parameters: reading 104 bytes at byte 1203 failed"},
        {"brainstorm.node.block", AT_ELEMENT, 0, 0,
         "reader: node 0 \"frame\": its block: reading 48 bytes at byte 1352 failed"},
        {"brainstorm.block.name", AT_STRING, 1, 0,
         "reader: a name that was read before: reading 256 bytes at byte 1457 failed"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tiny_begin(NOTHING);
        const bs_reader reader = {.read = read_file, .size = file.n};
        fault.at = forge_find(&file, wrong[i].record, wrong[i].part, wrong[i].index);
        fault.passes = wrong[i].passes;
        use(bs_model_open_reader(&arena, &reader, &error));
        message_is(&error, BS_ERROR_IO, wrong[i].text);
    }
}

static void test_reading_records(void)
{
    tiny_begin(NOTHING);
    const bs_reader reader = {.read = read_file, .size = file.n};
    fault.at = file.data + TINY_MAIN_BYTES;
    fault.passes = 0;
    bs_model_open_reader(&arena, &reader, &error);
    message_is(&error, BS_ERROR_IO, "reader: reading the padding at byte 3080 failed");
    fault.at = UINT64_MAX;
    const bs_model *model = bs_model_open_reader(&arena, &reader, &error);
    fault.at = bs_bytes_figure(model->blocks[1].offset);
    fault.passes = 0;
    bs_model_check(model, &error);
    message_is(&error, BS_ERROR_IO, "reader: the record of block 1: reading 256 bytes at byte 3136 failed");
}

/* --- calls ------------------------------------------------------------------------------------------------- */

static int64_t open_nothing(void *user, const char *path, uint64_t *bytes)
{
    (void)user;
    (void)path;
    *bytes = file.n;
    return strstr(path, "none") ? -1 : 1;
}

static int64_t read_nothing(void *user, int64_t handle, uint64_t offset, void *buffer, size_t bytes)
{
    (void)handle;
    return read_file(user, offset, buffer, bytes);
}

static void close_nothing(void *user, int64_t handle)
{
    (void)user;
    (void)handle;
}

static void test_files(void)
{
    static const bs_platform platform = {
        .file_open = open_nothing, .file_read = read_nothing, .file_close = close_nothing};
    static const bs_platform without = {.file_open = open_nothing};
    tiny_begin(NOTHING);
    fault.at = UINT64_MAX;
    bs_model_open_file(&arena, &without, "net.gguf", &error);
    message_is(&error, BS_ERROR_ARGUMENT,
               "bs_model_open_file takes a path, and a platform with file_open, file_read and file_close");
    bs_model_open_file(&arena, &platform, "none.gguf", &error);
    message_is(&error, BS_ERROR_IO, "the model file \"none.gguf\" cannot be opened");
    bs_model_file_bytes(&without, "net.gguf", &error);
    message_is(&error, BS_ERROR_ARGUMENT,
               "bs_model_file_bytes takes a path, and a platform with file_open, file_read and file_close");
    bs_model_file_bytes(&platform, "none.gguf", &error);
    message_is(&error, BS_ERROR_IO, "the model file \"none.gguf\" cannot be opened");
    bs_model_reader_bytes(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_reader_bytes: the reader or its read is NULL");
    bs_model_memory_bytes(NULL, 4, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_memory_bytes: the data is NULL");
    bs_model_open_file(&arena, NULL, "models/none.gguf", &error);
    message_is(&error, BS_ERROR_IO, "the model file \"models/none.gguf\" cannot be opened: No such file or directory");
    bs_model_open_file(&arena, NULL, "models", &error);
    message_is(&error, BS_ERROR_IO, "the model file \"models\" cannot be opened: Is a directory");
    bs_arena small;
    bs_arena_init(&small, "small", arena_memory, 64);
    bs_model_open_file(&small, NULL, "models/none.gguf", &error);
    message_is(&error, BS_ERROR_IO, "the model file \"models/none.gguf\" cannot be opened: No such file or directory");
    bs_model_open_file(NULL, &platform, "net.gguf", &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_open: the arena for net.gguf is NULL");
    bs_model_open_memory(&arena, NULL, 4, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_open_memory: the data is NULL");
    bs_model_can_stream(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_can_stream: the model is NULL");
    bs_model_check(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_check: the model is NULL");
    bs_model_open_reader(&arena, &(bs_reader){.size = 4}, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_open_reader: the reader or its read is NULL");
    file.bytes[4] = 2;
    bs_model_open_file(&arena, &platform, "/sd/net.gguf", &error);
    message_is(&error, BS_ERROR_VERSION, "/sd/net.gguf: GGUF version 2, expected 3");
    bs_model_open_file(&arena, &platform, "/home/somebody/a folder/that is long/and still longer/net.gguf", &error);
    message_is(&error, BS_ERROR_VERSION, "a folder/that is long/and still longer/net.gguf: GGUF version 2, expected 3");
}

/* Rooms that end within the model, its index of keys, and what follows. */
static void test_rooms(void)
{
    tiny_begin(NOTHING);
    const size_t need = bs_model_memory_bytes(file.bytes, file.n, NULL) - BS_ALIGNMENT;
    const size_t rooms[] = {0, need * 2 / 3 & ~(size_t)63, need - BS_ALIGNMENT};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        char text[160];
        tiny_begin(NOTHING);
        bs_arena_init(&arena, "persistent", arena_memory, rooms[i]);
        open_memory();
        snprintf(text, sizeof text, "memory: arena persistent: the index of a model file needs %d bytes, %d are free",
                 (int)need, (int)rooms[i]);
        message_is(&error, BS_ERROR_ARENA, text);
        bs_arena_init(&arena, "persistent", arena_memory, need);
        check(open_memory() != NULL, "what it asks for is enough: %d bytes", (int)need);
    }
}

static void test_builds(void)
{
    static const struct {
        bs_model_build_desc desc;
        bs_model_input input;
        bs_status status;
        const char *text;
    } wrong[] = {
        {{.code_bits = 16}, {0}, BS_ERROR_ARGUMENT, "bs_model_build: 16 bits a code, expected 0 or 8 .. 15"},
        {{.code_bits = 7}, {0}, BS_ERROR_ARGUMENT, "bs_model_build: 7 bits a code, expected 0 or 8 .. 15"},
        {{.floor = -2}, {0}, BS_ERROR_ARGUMENT, "bs_model_build: a floor of -2, expected -1 .. 16777216"},
        {{.floor = (1 << 24) + 1},
         {0},
         BS_ERROR_ARGUMENT,
         "bs_model_build: a floor of 16777217, expected -1 .. 16777216"},
        {{.n_inputs = 1}, {0}, BS_ERROR_ARGUMENT, "memory: bs_model_build_desc.inputs: an input without a name"},
        {{.n_inputs = 1}, {"picture", 3, {1, 8, 8}}, BS_ERROR_ARGUMENT, "memory: the model has no input \"picture\""},
        {{.n_inputs = 1}, {"frame", 2, {8, 8}}, BS_ERROR_SHAPE, "memory: input \"frame\": its rank is 2, expected 3"},
        {{.n_inputs = 1},
         {"frame", 3, {3, 8, 8}},
         BS_ERROR_SHAPE,
         "memory: input \"frame\": dimension 0 is 3, expected 1"},
        {{.n_inputs = 1},
         {"frame", 3, {1, -8, 8}},
         BS_ERROR_SHAPE,
         "memory: input \"frame\": dimension 1 is -8, expected a positive multiple of 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tiny_begin(NOTHING);
        bs_model_build_desc desc = wrong[i].desc;
        desc.inputs = &wrong[i].input;
        build(open_memory(), &desc);
        message_is(&error, wrong[i].status, wrong[i].text);
    }
    tiny_begin(NOTHING);
    bs_model_build(open_memory(), NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_model_build takes a model and an empty graph");
}

/* Width said twice, and a symbol that is not there. */
static void test_symbols(void)
{
    static const struct { uint32_t code; const char *text; } wrong[] = {
        {(uint32_t)-1, "memory: input \"frame\": dimension 2 is 16, expected 8: it is another input's too"},
        {(uint32_t)-3, "memory: input \"frame\": dimension 2 is symbol 3 of 2"},
    };
    static const bs_model_input input = {"frame", 3, {1, 8, 16}};
    const bs_model_build_desc desc = {.inputs = &input, .n_inputs = 1};
    for (size_t i = 0; i < 2; i++) {
        tiny_begin(NOTHING);
        memcpy(file.bytes + forge_find(&file, "brainstorm.node.params", AT_ELEMENT, 4), &wrong[i].code, 4);
        build(open_memory(), &desc);
        message_is(&error, i ? BS_ERROR_FORMAT : BS_ERROR_SHAPE, wrong[i].text);
    }
    tiny_begin(NOTHING);
    const bs_graph_desc small = {.max_dims = 1};
    bs_model_build(open_memory(), bs_graph_create(&arena, &small), NULL, &error);
    message_is(&error, BS_ERROR_LIMIT,
               "memory: 2 symbols, the graph has room for 1 dimensions (bs_graph_desc.max_dims)");
}

int main(void)
{
    test_rows();
    test_written();
    test_forged();
    test_edited();
    test_heads();
    test_reading_keys();
    test_reading_records();
    test_files();
    test_rooms();
    test_builds();
    test_symbols();
    static const char *const sources[] = {"src/base/cursor.c", "src/model/gguf.c",  "src/model/model.c",
                                          "src/model/open.c",  "src/model/build.c", "src/model/record.c",
                                          "src/base/error.c"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        messages_of(sources[i]);
    return check_end();
}
