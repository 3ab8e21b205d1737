/* test_gguf.c: what the model file reader promises about good files, damaged files, failing readers and small arenas.
 *
 * Owns: a table of damages with the status each must give, and sweeps over all truncations and all single bit flips of
 *   a tiny model. Run it under address and undefined-behaviour sanitizers: most of what it checks is that
 *   they stay silent.
 * Relies on: gguf_tiny.h; the library.
 * Must never: need a file of the repository, or leave one behind.
 */
#include "../src/gguf.h"
#include "../src/model.h"
#include "../src/weights.h"
#include "gguf_tiny.h"

static int n_passed, n_failed;

static void report(const char *group, const char *name, bool passed, const char *why)
{
    n_passed += passed;
    n_failed += !passed;
    if (passed)
        printf("ok %s%s\n", group, name);
    else
        printf("FAIL %s%s: %s\n", group, name, why);
}

/* --- using it ---------------------------------------------------------------------------------------- */

static BS_ALIGNED uint8_t memory[2 << 20];

/* Opens, builds, describes, finds and reads every weight the ops ask for, plans: all that a program would do before a
 * session. */
static bs_status use_weights(const bs_model *model, const bs_graph *graph, bs_error *error)
{
    static float target[4096];
    const bs_weights weights = bs_model_weights(model);
    for (int32_t n = 1; n < graph->n_nodes; n++) {
        const bs_op *op = bs_op_get(graph->nodes[n].op);
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        const int32_t count = op->weights ? op->weights(graph, &graph->nodes[n], specs) : 0;
        for (int32_t i = 0; i < count; i++) {
            char name[BS_MAX_WEIGHT_NAME];
            bs_weight_info info;
            snprintf(name, sizeof name, "%s%s%s", bs_node_name(&graph->nodes[n]), *specs[i].suffix ? "." : "", specs[i].suffix);
            bs_status status = bs_weight_find(&weights, name, &specs[i], &info, error);
            if (status == BS_OK && bs_weight_spec_bytes(&specs[i]) <= sizeof target)
                status = bs_weight_load(&weights, name, &specs[i], &info, BS_TIER_SCALAR, target, error);
            if (status != BS_OK)
                return status;
        }
    }
    return BS_OK;
}

static bs_status use_plan(const bs_graph *graph, bs_arena *arena, bs_error *error)
{
    static char report_text[4096];
    bs_sizes sizes;
    const bs_plan_desc desc = {.threads = 2, .tier = BS_TIER_SCALAR};
    const bs_plan *plan = bs_plan_create(arena, graph, &desc, error);
    if (!plan)
        return error->status == BS_OK ? (bs_status)1 : error->status;
    bs_plan_sizes(plan, &sizes);
    bs_plan_report(plan, report_text, sizeof report_text);
    return BS_OK;
}

static bs_status use_graph(const bs_model *model, bs_arena *arena, const bs_model_build_desc *desc, bs_error *error)
{
    const bs_graph_desc room = bs_model_graph_desc(model);
    bs_graph *graph = bs_graph_create(arena, &room);
    if (!graph)
        return BS_ERROR_ARENA;
    bs_status status = bs_model_build(model, graph, desc, error);
    char line[64];
    for (int32_t n = 1; status == BS_OK && n < graph->n_nodes; n++)
        if (bs_graph_describe(graph, n, line, sizeof line) == 0)
            status = BS_ERROR_GRAPH;
    if (status == BS_OK)
        status = use_weights(model, graph, error);
    return status == BS_OK ? use_plan(graph, arena, error) : status;
}

static bs_status use_facts(const bs_model *model)
{
    bs_model_facts facts;
    bs_model_block_facts block;
    bs_weight_info info;
    char name[BS_MAX_WEIGHT_NAME];
    int32_t of_block;
    bs_status status = BS_OK;
    bs_model_facts_get(model, &facts);
    for (int32_t i = 0; status == BS_OK && i < facts.blocks; i++)
        status = bs_model_block_get(model, i, &block);
    for (int32_t i = 0; status == BS_OK && i < facts.weights; i++)
        status = bs_model_weight_get(model, i, name, &of_block, &info);
    return status;
}

/* What opened can be read whole: weights lie in their records, records in the storage. Heads may be damaged. */
static bs_status use_stream(const bs_model *model)
{
    static uint8_t buffer[FORGE_BYTES];
    const bs_weights w = bs_model_weights(model);
    bs_weight_info info;
    bs_record record;
    int32_t block;
    uint64_t at;
    if (!w.locate)
        return BS_OK;
    for (int32_t i = 0; bs_model_weight_get(model, i, NULL, NULL, &info) == BS_OK; i++)
        if (w.locate(w.user, &info, &block, &at) != BS_OK || w.record(w.user, block, &record) != BS_OK ||
            at < record.offset + record.head_bytes || at + info.bytes > record.offset + record.bytes)
            return (bs_status)1;
    for (int32_t b = 0; w.record(w.user, b, &record) == BS_OK; b++) {
        if (record.bytes == 0)
            continue;
        if (w.fetch(w.user, record.offset, buffer, (size_t)record.bytes) != BS_OK)
            return (bs_status)1;
        const bs_status status = w.verify(w.user, b, buffer);
        if (status != BS_OK && status != BS_ERROR_FORMAT)
            return (bs_status)1;
    }
    return BS_OK;
}

static bs_status use_model(bs_model *model, bs_arena *arena, bs_error *error)
{
    if (!model)
        return error->status == BS_OK ? (bs_status)1 : error->status; /* a failure must say what it is */
    bs_status status = use_facts(model);
    if (status == BS_OK)
        status = use_stream(model);
    if (status == BS_OK)
        status = use_graph(model, arena, NULL, error);
    if (status == BS_OK)
        status = bs_model_check(model, error);
    bs_model_close(model);
    return status;
}

/* From a copy of exactly that size, so that one byte too far is seen. */
static bs_status try_bytes(const uint8_t *bytes, size_t n, bs_error *error)
{
    bs_arena arena;
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        exit(2);
    memcpy(copy, bytes, n);
    memset(error, 0, sizeof *error);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    const bs_status status = use_model(bs_model_open_memory(&arena, copy, n, error), &arena, error);
    free(copy);
    return status;
}

/* --- good files -------------------------------------------------------------------------------------- */

static void expect(const char *group, const char *name, bs_status got, bs_status wanted, const bs_error *error)
{
    char why[512];
    snprintf(why, sizeof why, "%s (%s), expected %s", bs_status_name(got), error->message, bs_status_name(wanted));
    report(group, name, got == wanted, why);
}

static void test_good(void)
{
    static const struct { const char *name; extra more; } good[] = {
        {"a model opens, builds, and gives its weights", NOTHING},
        {"keys of others are passed over", FOREIGN_KEYS},
        {"bytes behind the last tensor are passed over", TRAILING_BYTES},
        {"a file of version 1, without heads, is read", OLD_VERSION},
        {"records on pages are read", PAGES},
    };
    static forge f;
    bs_error error;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tiny_write(&f, good[i].more);
        const bs_status status = try_bytes(f.bytes, f.n, &error);
        expect("", good[i].name, status, BS_OK, &error);
    }
}

static void test_facts(void)
{
    static forge f;
    bs_arena arena;
    bs_error error;
    bs_model_facts facts;
    bs_model_block_facts block;
    bs_weight_info info;
    tiny_write(&f, NOTHING);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    bs_model *m = bs_model_open_memory(&arena, f.bytes, f.n, &error);
    bs_model_facts_get(m, &facts);
    report("", "facts are those written", strcmp(facts.name, "tiny") == 0 && facts.nodes == TINY_NODES && facts.values == 10 &&
               facts.blocks == TINY_BLOCKS && facts.weights == TINY_WEIGHTS && facts.symbols == 2 && facts.scale == 1 &&
               facts.weight_bytes == 96 && facts.file_bytes == f.n && facts.alignment == TINY_ALIGNMENT, "they differ");
    const bool got = bs_model_block_get(m, 2, &block) == BS_OK;
    report("", "a block's record is where it was put", got && strcmp(block.name, "large") == 0 && block.first_node == 7 &&
               block.end_node == 9 && block.weights == 2 && block.bytes == TINY_CONV_BYTES && block.offset % TINY_ALIGNMENT == 0 &&
               memcmp(f.bytes + block.offset, "BSRC", 4) == 0 &&
               tiny_crc32(f.bytes + block.offset + TINY_HEAD_BYTES, (size_t)block.bytes - TINY_HEAD_BYTES) == block.crc32, "it is not");
    const bs_weights w = bs_model_weights(m);
    float bias = 0;
    const bool read = w.find(w.user, "large.conv.bias", &info) == BS_OK && info.rank == 1 && info.bytes == 4 &&
                      w.read(w.user, &info, 0, &bias, 4) == BS_OK;
    report("", "a weight has the value written", read && bias == 2.5f, "it does not");
    const float *mapped = read ? w.map(w.user, &info) : NULL; /* the forge's bytes may lie unaligned: then NULL */
    report("", "a weight in memory is used in place", !mapped || *mapped == 2.5f, "another value");
    static BS_ALIGNED uint8_t odd[FORGE_BYTES + 1];
    memcpy(odd + 1, f.bytes, f.n);
    const bs_model *unaligned = bs_model_open_memory(&arena, odd + 1, f.n, &error);
    const bs_weights v = bs_model_weights(unaligned);
    const bool found = v.find(v.user, "large.conv.bias", &info) == BS_OK;
    report("", "but not where it does not lie as its type must", found && !v.map(v.user, &info), "it is");
    report("", "a read beyond a weight is refused", w.read(w.user, &info, 1, &bias, 4) == BS_ERROR_ARGUMENT &&
               w.read(w.user, &info, UINT64_MAX, &bias, 4) == BS_ERROR_ARGUMENT, "it is not");
    report("", "a weight that is not there", w.find(w.user, "none", &info) == BS_ERROR_WEIGHTS, "was found");
}

/* --- damaged files ----------------------------------------------------------------------------------- */

typedef struct damage {
    const char *name;
    const char *record;
    forge_part part;
    size_t index, bytes;
    uint64_t value;
    bs_status status;
} damage;

#define F BS_ERROR_FORMAT
static const damage damages[] = {
    {"magic", NULL, AT_FILE, 0, 4, 0x47475546, F},
    {"version 0", NULL, AT_FILE, 4, 4, 0, BS_ERROR_VERSION},
    {"version 1", NULL, AT_FILE, 4, 4, 1, BS_ERROR_VERSION},
    {"version 2", NULL, AT_FILE, 4, 4, 2, BS_ERROR_VERSION},
    {"version 4", NULL, AT_FILE, 4, 4, 4, BS_ERROR_VERSION},
    {"big-endian version", NULL, AT_FILE, 4, 4, 0x03000000, BS_ERROR_VERSION},
    {"tensor count negative", NULL, AT_FILE, 8, 8, UINT64_MAX, F},
    {"tensor count that wraps a product", NULL, AT_FILE, 8, 8, UINT64_MAX / 33 + 1, F},
    {"tensor count beyond the cap", NULL, AT_FILE, 8, 8, 1 << 20, F},
    {"one tensor more", NULL, AT_FILE, 8, 8, TINY_BLOCKS + 1, F},
    {"one tensor fewer", NULL, AT_FILE, 8, 8, TINY_BLOCKS - 1, F},
    {"no tensors", NULL, AT_FILE, 8, 8, 0, F},
    {"key count negative", NULL, AT_FILE, 16, 8, UINT64_MAX, F},
    {"key count that wraps a product", NULL, AT_FILE, 16, 8, UINT64_MAX / 14 + 1, F},
    {"no keys", NULL, AT_FILE, 16, 8, 0, F},

    {"key without a name", "brainstorm.opset", AT_START, 0, 8, 0, F},
    {"key name beyond the cap", "brainstorm.opset", AT_START, 0, 8, 128, F},
    {"key name beyond the file", "brainstorm.opset", AT_START, 0, 8, 1 << 30, F},
    {"key name of 2^64-1 bytes", "brainstorm.opset", AT_START, 0, 8, UINT64_MAX, F},
    {"key name with a NUL", "brainstorm.opset", AT_NAME, 3, 1, 0, F},
    {"key name with an escape", "brainstorm.opset", AT_NAME, 3, 1, 27, F},
    {"key type 13", "brainstorm.opset", AT_TYPE, 0, 4, 13, F},
    {"key type 2^32-1", "brainstorm.opset", AT_TYPE, 0, 4, UINT32_MAX, F},
    {"key of another type", "brainstorm.opset", AT_TYPE, 0, 4, T_I32, F},
    {"string beyond the file", "general.architecture", AT_VALUE, 0, 8, 1 << 24, F},
    {"string of 2^64-1 bytes", "general.architecture", AT_VALUE, 0, 8, UINT64_MAX, F},
    {"string in an array beyond the file", "brainstorm.node.op", AT_STRING, 3, 8, UINT64_MAX - 7, F},
    {"array of an unknown type", "brainstorm.node.inputs", AT_VALUE, 0, 4, 13, F},
    {"array of arrays", "brainstorm.node.inputs", AT_VALUE, 0, 4, T_ARRAY, F},
    {"array of another type", "brainstorm.node.inputs", AT_VALUE, 0, 4, T_U32, F},
    {"array that wraps its bytes", "brainstorm.node.inputs", AT_COUNT, 0, 8, (uint64_t)1 << 62, F},
    {"array of 2^64-1 elements", "brainstorm.node.inputs", AT_COUNT, 0, 8, UINT64_MAX, F},
    {"array of too many strings", "brainstorm.node.op", AT_COUNT, 0, 8, UINT64_MAX, F},
    {"alignment 0", "general.alignment", AT_VALUE, 0, 4, 0, F},
    {"alignment 3", "general.alignment", AT_VALUE, 0, 4, 3, F},
    {"alignment 24", "general.alignment", AT_VALUE, 0, 4, 24, F},
    {"alignment 2^31", "general.alignment", AT_VALUE, 0, 4, (uint64_t)1 << 31, F},
    {"alignment of another type", "general.alignment", AT_TYPE, 0, 4, T_I32, F},
    {"alignment that moves the data", "general.alignment", AT_VALUE, 0, 4, 4096, F},

    {"tensor without a name", "block.small", AT_START, 0, 8, 0, F},
    {"tensor name of 64 bytes", "block.small", AT_START, 0, 8, 64, F},
    {"tensor name beyond the file", "block.small", AT_START, 0, 8, UINT64_MAX, F},
    {"tensor name with a NUL", "block.small", AT_NAME, 0, 1, 0, F},
    {"tensor rank 0", "block.small", AT_TYPE, 0, 4, 0, F},
    {"tensor rank 5", "block.small", AT_TYPE, 0, 4, 5, F},
    {"tensor rank 2^32-1", "block.small", AT_TYPE, 0, 4, UINT32_MAX, F},
    {"tensor dimension 0", "block.small", AT_VALUE, 0, 8, 0, F},
    {"tensor dimension negative", "block.small", AT_VALUE, 0, 8, UINT64_MAX, F},
    {"tensor dimension beyond the file", "block.small", AT_VALUE, 0, 8, (uint64_t)1 << 40, F},
    {"tensor bytes that wrap with padding", "block.small", AT_VALUE, 0, 8, INT64_MAX, F},
    {"tensor smaller than its record", "block.small", AT_VALUE, 0, 8, TINY_CONV_BYTES - 1, F},
    {"tensor of type F32", "block.small", AT_VALUE, 8, 4, 0, F},
    {"tensor type 4, withdrawn", "block.small", AT_VALUE, 8, 4, 4, BS_ERROR_UNSUPPORTED},
    {"tensor type Q4_0", "block.small", AT_VALUE, 8, 4, 2, BS_ERROR_UNSUPPORTED},
    {"tensor type 2^32-1", "block.small", AT_VALUE, 8, 4, UINT32_MAX, BS_ERROR_UNSUPPORTED},
    {"tensor offset off its place", "block.small", AT_VALUE, 12, 8, 1, F},
    {"tensor offset that leaves a gap", "block.large", AT_VALUE, 12, 8, 1024, F},
    {"tensor offset that overlaps", "block.large", AT_VALUE, 12, 8, 0, F},
    {"tensor offset 2^64-64", "block.large", AT_VALUE, 12, 8, UINT64_MAX - 63, F},

    {"another architecture", "general.architecture", AT_VALUE, 8, 1, 'x', F},
    {"file version 3", "brainstorm.version", AT_VALUE, 0, 4, 3, BS_ERROR_VERSION},
    {"file version 0", "brainstorm.version", AT_VALUE, 0, 4, 0, BS_ERROR_VERSION},
    {"file version 1, though its records have heads", "brainstorm.version", AT_VALUE, 0, 4, 1, F},
    {"file id of another type", "brainstorm.file.id", AT_TYPE, 0, 4, T_I64, F},
    {"file id of another file", "brainstorm.file.id", AT_VALUE, 0, 8, 1, F},
    {"op set of the future", "brainstorm.opset", AT_VALUE, 0, 4, 1000, BS_ERROR_VERSION},
    {"op set 0", "brainstorm.opset", AT_VALUE, 0, 4, 0, BS_ERROR_VERSION},
    {"scale 65", "brainstorm.model.scale", AT_VALUE, 0, 4, 65, F},
    {"another number of values", "brainstorm.value.count", AT_VALUE, 0, 4, 11, F},
    {"symbol maximum 0", "brainstorm.symbol.maximum", AT_WIDE, 0, 8, 0, F},
    {"symbol maximum negative", "brainstorm.symbol.maximum", AT_WIDE, 1, 8, UINT64_MAX, F},
    {"symbol maximum beyond 2^30", "brainstorm.symbol.maximum", AT_WIDE, 1, 8, INT64_MAX, BS_ERROR_SHAPE},
    {"symbol name of 4 GiB", "brainstorm.symbol.name", AT_STRING, 0, 8, (uint64_t)1 << 32, F},
    {"symbol that does not exist", "brainstorm.node.params", AT_ELEMENT, 3, 4, (uint32_t)-3, BS_ERROR_SHAPE},
    {"symbol number -2^31", "brainstorm.node.params", AT_ELEMENT, 3, 4, 0x80000000u, BS_ERROR_SHAPE},
    {"input of rank 5", "brainstorm.node.params", AT_ELEMENT, 1, 4, 5, BS_ERROR_ARGUMENT},
    {"input of type 99", "brainstorm.node.params", AT_ELEMENT, 0, 4, 99, BS_ERROR_ARGUMENT},

    {"op that does not exist", "brainstorm.node.op", AT_STRING, 0, 13, 0, F},
    {"op spelled otherwise", "brainstorm.node.op", AT_FILE, 0, 0, 0, BS_ERROR_UNSUPPORTED}, /* see damage_apply */
    {"operand of a later node", "brainstorm.node.inputs", AT_ELEMENT, 0, 4, 2, BS_ERROR_GRAPH},
    {"operand negative", "brainstorm.node.inputs", AT_ELEMENT, 0, 4, UINT32_MAX, BS_ERROR_GRAPH},
    {"operand 2^31-1", "brainstorm.node.inputs", AT_ELEMENT, 0, 4, INT32_MAX, BS_ERROR_GRAPH},
    {"operand of another domain", "brainstorm.node.inputs", AT_ELEMENT, 4, 4, 1, BS_ERROR_DOMAIN},
    {"operand count negative", "brainstorm.node.inputs.count", AT_ELEMENT, 1, 4, UINT32_MAX, F},
    {"operand count beyond the cap", "brainstorm.node.inputs.count", AT_ELEMENT, 1, 4, 66, F},
    {"operand counts that use too few", "brainstorm.node.inputs.count", AT_ELEMENT, 11, 4, 0, F},
    {"operand counts that use too many", "brainstorm.node.inputs.count", AT_ELEMENT, 11, 4, 2, F},
    {"parameter count beyond the op's", "brainstorm.node.params.count", AT_ELEMENT, 0, 4, 7, F},
    {"parameter counts that use too few", "brainstorm.node.params.count", AT_ELEMENT, 9, 4, 1, F},
    {"parameter count negative", "brainstorm.node.params.count", AT_ELEMENT, 0, 4, UINT32_MAX, F},
    {"router that does not exist", "brainstorm.node.params", AT_ELEMENT, 16, 4, 2, BS_ERROR_GRAPH},
    {"path that does not exist", "brainstorm.node.params", AT_ELEMENT, 17, 4, 2, BS_ERROR_ARGUMENT},
    {"node of another block", "brainstorm.node.block", AT_ELEMENT, 6, 4, 2, F},

    {"block range reversed", "brainstorm.block.end_node", AT_ELEMENT, 1, 4, 4, F},
    {"block range empty", "brainstorm.block.end_node", AT_ELEMENT, 1, 4, 5, F},
    {"block range beyond the nodes", "brainstorm.block.end_node", AT_ELEMENT, 2, 4, TINY_NODES + 1, F},
    {"block range negative", "brainstorm.block.first_node", AT_ELEMENT, 1, 4, UINT32_MAX, F},
    {"block ranges that overlap", "brainstorm.block.end_node", AT_ELEMENT, 1, 4, 8, F},
    {"main block that is not everything", "brainstorm.block.end_node", AT_ELEMENT, 0, 4, 9, F},
    {"block tensor that does not exist", "brainstorm.block.tensor", AT_ELEMENT, 2, 4, 3, F},
    {"block tensor negative", "brainstorm.block.tensor", AT_ELEMENT, 2, 4, (uint32_t)-2, F},
    {"block tensor taken twice", "brainstorm.block.tensor", AT_ELEMENT, 2, 4, 1, F},
    {"block bytes without a tensor", "brainstorm.block.tensor", AT_ELEMENT, 2, 4, UINT32_MAX, F},
    {"block bytes beyond its tensor", "brainstorm.block.bytes", AT_WIDE, 1, 8, TINY_CONV_BYTES + 1, F},
    {"block whose record has no room for its head", "brainstorm.block.bytes", AT_FILE, 0, 0, 0, F}, /* see damage_apply */
    {"block bytes below its tensor", "brainstorm.block.bytes", AT_WIDE, 1, 8, TINY_CONV_BYTES - 1, F},
    {"block bytes 2^64-1", "brainstorm.block.bytes", AT_WIDE, 1, 8, UINT64_MAX, F},
    {"checksum", "brainstorm.block.crc32", AT_ELEMENT, 1, 4, 0, F},

    {"weight in a block that does not exist", "brainstorm.weight.block", AT_ELEMENT, 5, 4, 3, F},
    {"weights out of order", "brainstorm.weight.block", AT_ELEMENT, 5, 4, 1, F},
    {"weight in a negative block", "brainstorm.weight.block", AT_ELEMENT, 0, 4, UINT32_MAX, F},
    {"weight type that does not exist", "brainstorm.weight.dtype", AT_ELEMENT, 0, 4, BS_DTYPE_COUNT, F},
    {"weight type negative", "brainstorm.weight.dtype", AT_ELEMENT, 0, 4, UINT32_MAX, F},
    {"weight of another type than the op's", "brainstorm.weight.dtype", AT_ELEMENT, 0, 4, BS_U8, BS_ERROR_WEIGHTS},
    {"weight of another type of four bytes", "brainstorm.weight.dtype", AT_ELEMENT, 0, 4, BS_I32, BS_ERROR_WEIGHTS},
    {"weight rank 0", "brainstorm.weight.rank", AT_ELEMENT, 0, 4, 0, F},
    {"weight rank 5", "brainstorm.weight.rank", AT_ELEMENT, 0, 4, 5, F},
    {"a dimension that no weight has", "brainstorm.weight.dims", AT_FILE, 0, 0, 0, F}, /* see damage_apply */
    {"weight dimension 0", "brainstorm.weight.dims", AT_WIDE, 0, 8, 0, F},
    {"weight dimension negative", "brainstorm.weight.dims", AT_WIDE, 0, 8, UINT64_MAX, F},
    {"weight whose bytes wrap", "brainstorm.weight.dims", AT_WIDE, 0, 8, (uint64_t)1 << 62, F},
    {"weight beyond its record", "brainstorm.weight.dims", AT_WIDE, 2, 8, 3, F},
    {"weight of another shape than the op's", "brainstorm.weight.dims", AT_WIDE, 0, 8, 4, BS_ERROR_WEIGHTS},
    {"weight offset not of 256", "brainstorm.weight.offset", AT_WIDE, 1, 8, 384, F},
    {"weight offset that overlaps", "brainstorm.weight.offset", AT_WIDE, 3, 8, 256, F},
    {"weight offset in the head", "brainstorm.weight.offset", AT_WIDE, 2, 8, 0, F},
    {"weight offset 2^64-256", "brainstorm.weight.offset", AT_WIDE, 1, 8, UINT64_MAX - 255, F},
    {"weight that is missing", "score.bias", AT_NAME, 9, 1, 'z', BS_ERROR_WEIGHTS},
    {"weight name twice", "large.conv.weight", AT_NAME, 0, 5, 0, F}, /* see damage_apply */
};
#undef F

static void damage_apply(forge *f, const damage *d)
{
    if (strcmp(d->name, "op spelled otherwise") == 0) {
        f->bytes[forge_find(f, d->record, AT_STRING, 2) + 8] = 'q';
        return;
    }
    if (strcmp(d->name, "weight name twice") == 0) {
        memcpy(f->bytes + forge_find(f, d->record, AT_NAME, 0), "small", 5);
        return;
    }
    if (strcmp(d->name, "block whose record has no room for its head") == 0) {
        f->bytes[forge_find(f, d->record, AT_WIDE, 2) + 1] = 0; /* 516 bytes become 4 here and in the tensor, */
        f->bytes[forge_find(f, "block.large", AT_VALUE, 1)] = 0; /* which is the last one */
        return;
    }
    if (strcmp(d->name, "a dimension that no weight has") == 0) {
        f->bytes[forge_find(f, "brainstorm.weight.rank", AT_ELEMENT, 4)] = 3;
        f->bytes[forge_find(f, d->record, AT_WIDE, 11)] = 1; /* now the bias's; the 1 that it had is left over */
        return;
    }
    const size_t at = forge_find(f, d->record, d->part, d->index);
    for (size_t i = 0; i < d->bytes; i++)
        f->bytes[at + i] = (uint8_t)(i < 8 ? d->value >> 8 * i : 0);
}

/* Of damage that a later check would refuse as well: what the message must say, since that is where to look. */
static const struct { const char *name, *said; } told[] = {
    {"alignment 24", "a power of two"},
    {"array that wraps its bytes", "key 13 is malformed or runs over the end"},
    {"tensor dimension 0", "dimension that is zero"},
    {"block range beyond the nodes", "bad range of nodes"},
    {"array of arrays", "is an array of arrays"},
    {"operand counts that use too many", "node 11: its inputs are malformed"},
    {"parameter count beyond the op's", "node 0: its parameters are malformed"},
    {"a dimension that no weight has", "has more dimensions than its weights"},
    {"weights out of order", "is not in the order of blocks"},
    {"block tensor taken twice", "does not exist or is taken"},
    {"block whose record has no room for its head", "without room for its head"},
    {"block bytes below its tensor", "does not have the bytes of its tensor"},
};

static bool is_told(const char *name, const char *message)
{
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (strcmp(told[i].name, name) == 0)
            return strstr(message, told[i].said) != NULL;
    return true;
}

static void test_damages(void)
{
    static forge f;
    bs_error error;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        tiny_write(&f, NOTHING);
        damage_apply(&f, &damages[i]);
        const bs_status status = try_bytes(f.bytes, f.n, &error);
        expect("damaged: ", damages[i].name, status, damages[i].status, &error);
        report("what is wrong is said: ", damages[i].name, is_told(damages[i].name, error.message), error.message);
    }
}

/* Heads of records: `index` counts from the record's first byte. */
static const struct { const char *name; size_t block, index, bytes; uint64_t value; } head_damages[] = {
    {"magic", 1, 0, 4, 0x43525352},
    {"version 0", 1, 4, 4, 0},
    {"version 2", 1, 4, 4, 2},
    {"the number of another block", 1, 8, 4, 2},
    {"a block that does not exist", 2, 8, 4, 3},
    {"checksum", 0, 12, 4, 0},
    {"one byte less", 1, 16, 8, TINY_CONV_BYTES - 1},
    {"2^64-1 bytes", 1, 16, 8, UINT64_MAX},
    {"the id of another file", 2, 24, 8, 0},
    {"the first of its rest not zero", 1, 32, 1, 1},
    {"the last of its rest not zero", 1, TINY_HEAD_BYTES - 1, 1, 0x80},
    {"another record's", 1, 8, 8, UINT64_MAX}, /* see head_damage */
};

static void head_damage(forge *f, size_t i, const uint64_t offset[TINY_BLOCKS])
{
    uint8_t *at = f->bytes + offset[head_damages[i].block];
    if (strcmp(head_damages[i].name, "another record's") == 0) {
        memcpy(at, f->bytes + offset[2], TINY_HEAD_BYTES);
        return;
    }
    for (size_t b = 0; b < head_damages[i].bytes; b++)
        at[head_damages[i].index + b] = (uint8_t)(head_damages[i].value >> 8 * b);
}

static void test_head_damages(void)
{
    static forge f;
    bs_arena arena;
    bs_error error;
    bs_model_block_facts block;
    uint64_t offset[TINY_BLOCKS] = {0};
    tiny_write(&f, NOTHING);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    const bs_model *m = bs_model_open_memory(&arena, f.bytes, f.n, &error);
    for (int32_t b = 0; b < TINY_BLOCKS; b++)
        if (bs_model_block_get(m, b, &block) == BS_OK)
            offset[b] = block.offset;
    for (size_t i = 0; i < sizeof head_damages / sizeof *head_damages; i++) {
        tiny_write(&f, NOTHING);
        head_damage(&f, i, offset);
        const bs_status status = try_bytes(f.bytes, f.n, &error);
        expect("damaged head: ", head_damages[i].name, status, BS_ERROR_FORMAT, &error);
    }
}

static void test_left_out(void)
{
    static const struct { const char *name; extra more; bs_status status; } bad[] = {
        {"a key twice", DUPLICATE_KEY, BS_ERROR_FORMAT},
        {"a nested array", NESTED_ARRAY, BS_ERROR_FORMAT},
        {"a tensor's name twice", DUPLICATE_TENSOR, BS_ERROR_FORMAT},
        {"no architecture", NO_ARCHITECTURE, BS_ERROR_FORMAT},
        {"no version", NO_VERSION, BS_ERROR_VERSION},
        {"no file id", NO_FILE_ID, BS_ERROR_FORMAT},
        {"bytes between two weights that are not zero", NOT_ZERO, BS_ERROR_FORMAT},
        {"offsets for an alignment that is not said", NO_ALIGNMENT, BS_ERROR_FORMAT},
        {"no padding at the end", NO_TAIL_PADDING, BS_ERROR_FORMAT},
    };
    static forge f;
    bs_error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tiny_write(&f, bad[i].more);
        const bs_status status = try_bytes(f.bytes, f.n, &error);
        expect("damaged: ", bad[i].name, status, bad[i].status, &error);
    }
}

/* What no weight covers, at the end of a record: its checksum is right, but it is not zero. */
static void test_rest_of_a_record(void)
{
    static forge f;
    static const uint8_t one = 1;
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    tiny_write(&f, NOTHING);
    memcpy(f.bytes + forge_find(&f, "brainstorm.weight.dims", AT_WIDE, 2), &one, 1); /* the second bias belongs to nobody */
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    bs_model *m = bs_model_open_memory(&arena, f.bytes, f.n, &error);
    const bs_status status = m ? bs_model_check(m, &error) : BS_OK;
    expect("damaged: ", "bytes behind the last weight that are not zero", status, BS_ERROR_FORMAT, &error);
}

/* --- sweeps ------------------------------------------------------------------------------------------ */

static void test_truncations(void)
{
    static forge f;
    bs_error error;
    size_t accepted = 0, last = 0;
    tiny_write(&f, NOTHING);
    for (size_t n = 0; n < f.n; n++)
        if (try_bytes(f.bytes, n, &error) == BS_OK) {
            accepted++;
            last = n;
        }
    char why[64];
    snprintf(why, sizeof why, "%zu accepted, the last of %zu bytes", accepted, last);
    report("", "a file cut anywhere is refused", accepted == 0, why);
}

/* A flip in padding, in a name or in a maximum may leave a sound file: then it must be usable, not equal. */
static void test_bit_flips(extra more, size_t bytes, const char *name)
{
    static forge f;
    bs_error error;
    size_t refused = 0, accepted = 0, silent = 0;
    tiny_write(&f, more);
    if (bytes == 0)
        bytes = f.n;
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        f.bytes[bit / 8] = (uint8_t)(f.bytes[bit / 8] ^ 1 << bit % 8);
        const bs_status status = try_bytes(f.bytes, f.n, &error);
        f.bytes[bit / 8] = (uint8_t)(f.bytes[bit / 8] ^ 1 << bit % 8);
        refused += status < 0;
        accepted += status == BS_OK;
        silent += status > 0;
    }
    char why[96];
    snprintf(why, sizeof why, "%zu refused, %zu accepted, %zu refused without a reason", refused, accepted, silent);
    report("", name, silent == 0 && refused > 7 * bytes / 2, why);
}

/* Several random bytes at once, of a kind that passes single checks. */
static void test_random_damage(void)
{
    static forge f;
    bs_error error;
    uint64_t seed = 0x9e3779b97f4a7c15u;
    size_t silent = 0;
    printf("seed of random damage: %llx\n", (unsigned long long)seed);
    for (int round = 0; round < 4000; round++) {
        tiny_write(&f, NOTHING);
        for (int i = 0; i < 1 + round % 4; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            static const uint8_t values[8] = {0, 1, 2, 127, 128, 255, 8, 24};
            f.bytes[24 + (seed >> 33) % (f.n - 24)] = values[seed >> 30 & 7];
        }
        silent += try_bytes(f.bytes, f.n, &error) > 0;
    }
    report("", "random damage is refused or harmless", silent == 0, "refused without a reason");
}

/* --- readers and arenas ------------------------------------------------------------------------------ */

typedef struct scripted {
    const forge *file;
    int reads, fail_at; /* -1: never */
    bool cut;           /* fail by giving one byte less, not by -1 */
} scripted;

static int64_t scripted_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    scripted *s = user;
    if (s->reads++ == s->fail_at)
        return s->cut ? (int64_t)bytes - 1 : -1;
    if (offset > s->file->n || bytes > s->file->n - offset)
        return -1;
    memcpy(buffer, s->file->bytes + offset, bytes);
    return (int64_t)bytes;
}

static bs_status try_reader(scripted *s, bs_error *error)
{
    bs_arena arena;
    const bs_reader reader = {.user = s, .read = scripted_read, .size = s->file->n};
    memset(error, 0, sizeof *error);
    s->reads = 0;
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    return use_model(bs_model_open_reader(&arena, &reader, error), &arena, error);
}

static void test_reader(void)
{
    static forge f;
    bs_error error;
    scripted s = {&f, 0, -1, false};
    tiny_write(&f, NOTHING);
    const bs_status whole = try_reader(&s, &error);
    expect("", "a caller's reader gives the same model", whole, BS_OK, &error);
    const int reads = s.reads;
    int wrong = 0;
    for (int n = 0; n < 2 * reads; n++) {
        s.fail_at = n / 2;
        s.cut = n % 2;
        const bs_status status = try_reader(&s, &error);
        wrong += status >= 0;
    }
    char why[64];
    snprintf(why, sizeof why, "%d of %d failures went unnoticed", wrong, 2 * reads);
    report("", "a read that fails, at any point, is an error", wrong == 0 && reads > 10, why);
    s.fail_at = -1;
    report("", "and the next attempt succeeds", try_reader(&s, &error) == BS_OK, error.message);
}

static void test_arenas(void)
{
    static forge f;
    bs_error error;
    bs_arena arena;
    tiny_write(&f, NOTHING);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    if (!bs_model_open_memory(&arena, f.bytes, f.n, &error))
        exit(2);
    const size_t enough = arena.high_water;
    int wrong = 0;
    for (size_t n = 0; n < enough; n++) {
        bs_arena_init(&arena, "persistent", memory, n);
        memset(&error, 0, sizeof error);
        const bs_model *m = bs_model_open_memory(&arena, f.bytes, f.n, &error);
        wrong += m || error.status != BS_ERROR_ARENA || error.needed == 0 || arena.used != 0;
    }
    bs_arena_init(&arena, "persistent", memory, enough);
    wrong += !bs_model_open_memory(&arena, f.bytes, f.n, &error);
    char why[64];
    snprintf(why, sizeof why, "%d sizes below %zu bytes", wrong, enough);
    report("", "an arena that is too small, by any number of bytes, is said and left as it was", wrong == 0, why);
}

/* Counts that a file of that size could have, and nobody needs: more than there is room for is not even asked for. */
static void test_counts(void)
{
    static forge f;
    scripted s = {&f, 0, -1, false};
    for (size_t i = 0; i < 2; i++) {
        bs_arena arena;
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        const bs_reader reader = {.user = &s, .read = scripted_read, .size = (uint64_t)1 << 50};
        const uint64_t count = i ? 513 : 1025;
        tiny_write(&f, NOTHING);
        memcpy(f.bytes + 8 + 8 * i, &count, 8);
        bs_arena_init(&arena, "persistent", memory, sizeof memory);
        const bs_model *m = bs_model_open_reader(&arena, &reader, &error);
        expect("", i ? "too many keys" : "too many tensors", m ? BS_OK : error.status, BS_ERROR_LIMIT, &error);
    }
}

/* --- files ------------------------------------------------------------------------------------------- */

static int n_open;

static int64_t fake_open(void *user, const char *path, uint64_t *size_bytes)
{
    const scripted *s = user;
    if (strcmp(path, "tiny.gguf") != 0)
        return -1;
    n_open++;
    *size_bytes = s->file->n;
    return 5;
}

static int64_t fake_read(void *user, int64_t file, uint64_t offset, void *buffer, size_t bytes)
{
    return file == 5 ? scripted_read(user, offset, buffer, bytes) : -1;
}

static void fake_close(void *user, int64_t file)
{
    (void)user;
    n_open -= file == 5;
}

static void test_files(void)
{
    static forge f;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    scripted s = {&f, 0, -1, false};
    bs_platform platform;
    memset(&platform, 0, sizeof platform);
    platform.user = &s;
    platform.file_open = fake_open;
    platform.file_read = fake_read;
    platform.file_close = fake_close;
    tiny_write(&f, NOTHING);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    bs_status status = use_model(bs_model_open_file(&arena, &platform, "tiny.gguf", &error), &arena, &error);
    expect("", "a file gives the same model", status, BS_OK, &error);
    report("", "closing the model closes its file", n_open == 0, "it is open");
    arena.used = 0;
    const bool none = !bs_model_open_file(&arena, &platform, "other.gguf", &error) && error.status == BS_ERROR_IO;
    report("", "a file that is not there is an error", none && arena.used == 0, error.message);
    f.bytes[0] = 'X';
    const bool bad = !bs_model_open_file(&arena, &platform, "tiny.gguf", &error) && error.status == BS_ERROR_FORMAT;
    report("", "a file that is refused is closed", bad && n_open == 0 && arena.used == 0, error.message);
}

/* --- maxima ------------------------------------------------------------------------------------------ */

/* With the frame's width as a model file would put it; 0: as it is, symbol 2. */
static bs_status build_with(const bs_model_input *input, int32_t width, bs_graph **graph, bs_error *error)
{
    static forge f;
    static BS_ALIGNED uint8_t room[1 << 19];
    bs_arena arena;
    const bs_model_build_desc desc = {.inputs = input, .n_inputs = 1};
    tiny_write(&f, NOTHING);
    if (width)
        memcpy(f.bytes + forge_find(&f, "brainstorm.node.params", AT_ELEMENT, 4), &width, 4);
    bs_arena_init(&arena, "persistent", room, sizeof room);
    bs_model *m = bs_model_open_memory(&arena, f.bytes, f.n, error);
    const bs_graph_desc need = bs_model_graph_desc(m);
    *graph = bs_graph_create(&arena, &need);
    return bs_model_build(m, *graph, &desc, error);
}

static void test_maxima(void)
{
    enum { SAME_AS_HEIGHT = -1, TWICE_A_SYMBOL = -(2 + 65536) };
    static const struct { const char *name; bs_model_input input; bs_status status; int32_t width; } tries[] = {
        {"another channel count", {"frame", 3, {3, 8, 8, 0}}, BS_ERROR_SHAPE, 0},
        {"another rank", {"frame", 2, {8, 8, 0, 0}}, BS_ERROR_SHAPE, 0},
        {"a negative extent", {"frame", 3, {1, -8, 8, 0}}, BS_ERROR_SHAPE, 0},
        {"another name", {"picture", 3, {1, 8, 8, 0}}, BS_ERROR_ARGUMENT, 0},
        {"an odd extent, where twice a symbol is", {"frame", 3, {1, 8, 9, 0}}, BS_ERROR_SHAPE, TWICE_A_SYMBOL},
        {"an even extent", {"frame", 3, {1, 8, 10, 0}}, BS_OK, TWICE_A_SYMBOL},
        {"two extents of one symbol", {"frame", 3, {1, 8, 16, 0}}, BS_ERROR_SHAPE, SAME_AS_HEIGHT},
        {"the same extents", {"frame", 3, {1, 8, 8, 0}}, BS_OK, SAME_AS_HEIGHT},
    };
    bs_graph *graph;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bs_model_input larger = {"frame", 3, {1, 100, 0, 0}};
    const bs_status status = build_with(&larger, 0, &graph, &error);
    const bs_value_info *frame = bs_value_get(graph, 1);
    report("", "an input's extents set the maxima", status == BS_OK && bs_dim_max(graph, frame->dims[1]) == 100 &&
               bs_dim_max(graph, frame->dims[2]) == 24, error.message);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        const bs_status got = build_with(&tries[i].input, tries[i].width, &graph, &error);
        expect("an input's extents are checked: ", tries[i].name, got, tries[i].status, &error);
    }
}

/* --- weights ----------------------------------------------------------------------------------------- */

static void test_table(void)
{
    static const float values[4] = {1, 2, 3, 4};
    static const uint16_t halves[2] = {0x3c00, 0xc000}; /* 1, -2 */
    static uint16_t many[150];
    static float many_wide[150];
    const bs_tensor tensors[3] = {{"a", BS_F32, 2, {2, 2, 0, 0}, values}, {"h", BS_F16, 1, {2, 0, 0, 0}, halves},
                                  {"many", BS_F16, 1, {150, 0, 0, 0}, many}};
    const bs_tensor_table table = {tensors, 3};
    const bs_weights w = bs_weights_from_table(&table);
    const bs_weight_spec square = {"", BS_F32, 2, {2, 2, 0, 0}}, pair = {"", BS_F32, 1, {2, 0, 0, 0}};
    bs_weight_info info;
    bs_error error;
    float wide[2] = {0, 0};
    bs_status status = bs_weight_find(&w, "a", &square, &info, &error);
    report("", "a table's weight is used in place", status == BS_OK && bs_weight_view(&w, &square, &info) == values, "no");
    status = bs_weight_find(&w, "a", &pair, &info, &error);
    expect("", "a weight of another shape is refused", status, BS_ERROR_WEIGHTS, &error);
    const bs_weight_spec wider = {"", BS_F32, 2, {2, 3, 0, 0}}, long_spec = {"", BS_F32, 1, {150, 0, 0, 0}};
    status = bs_weight_find(&w, "a", &wider, &info, &error);
    expect("", "both shapes are told", strstr(error.message, "[2, 2], expected [2, 3]") ? status : BS_OK, BS_ERROR_WEIGHTS, &error);
    status = bs_weight_find(&w, "b", &pair, &info, &error);
    expect("", "a weight that is missing is named", strstr(error.message, "\"b\"") ? status : BS_OK, BS_ERROR_WEIGHTS, &error);
    status = bs_weight_find(&w, "h", &pair, &info, &error);
    if (status == BS_OK)
        status = bs_weight_load(&w, "h", &pair, &info, BS_TIER_SCALAR, wide, &error);
    report("", "half precision is widened", status == BS_OK && wide[0] == 1 && wide[1] == -2, error.message);
    int wrong = 0;
    for (uint32_t i = 0; i < 150; i++)
        many[i] = (uint16_t)(0x3c00 + 4 * i); /* 1 + i/256 */
    if (bs_weight_find(&w, "many", &long_spec, &info, &error) == BS_OK)
        bs_weight_load(&w, "many", &long_spec, &info, BS_TIER_SCALAR, many_wide, &error);
    for (int i = 0; i < 150; i++)
        wrong += many_wide[i] != 1 + (float)i / 256;
    report("", "as many as there are, in the place where they were read", wrong == 0, "values differ");
    status = bs_weight_find(&w, "h", &pair, &info, &error);
    report("", "and not mapped", status == BS_OK && bs_weight_view(&w, &pair, &info) == NULL, "it is");
}

/* "123456789" gives what every description of zip's CRC-32 says; pieces of any length chain. */
static void test_crc32(void)
{
    static uint8_t data[1000];
    bool right = bs_crc32(0, "123456789", 9) == 0xcbf43926u && bs_crc32(0, data, 0) == 0;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i * 7 + i / 3);
    for (size_t n = 0; n <= sizeof data; n += 1 + n / 20) {
        const uint32_t wanted = tiny_crc32(data, n);
        for (size_t cut = 0; cut <= n; cut += 1 + cut / 5)
            right = right && bs_crc32(bs_crc32(0, data, cut), data + cut, n - cut) == wanted;
    }
    report("", "checksums are zip's, in one piece and in several", right, "they are not");
}

static void test_hashes(void)
{
    uint64_t hashes[257];
    bool right = true;
    for (size_t n = 0; n <= 256; n++) {
        for (size_t i = 0; i < n; i++)
            hashes[i] = (i * 167 + 13) % 257;
        right = right && bs_hashes_unique(hashes, n);
        for (size_t i = 1; i < n; i++)
            right = right && hashes[i - 1] < hashes[i];
        hashes[n] = n ? hashes[n / 2] : 0;
        right = right && (n == 0 || !bs_hashes_unique(hashes, n + 1));
    }
    report("", "equal hashes are found among any number", right, "they are not");
}

int main(void)
{
    test_hashes();
    test_crc32();
    test_table();
    test_good();
    test_facts();
    test_maxima();
    test_damages();
    test_head_damages();
    test_left_out();
    test_rest_of_a_record();
    test_reader();
    test_counts();
    test_files();
    test_arenas();
    test_truncations();
    test_bit_flips(NOTHING, 0, "every single bit flip is refused or harmless");
    test_bit_flips(PAGES, 4096, "so is every one in the header of a file that is streamed");
    test_random_damage();
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
