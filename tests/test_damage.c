/* tags: unsigned */
/* test_damage.c: a damaged model file is refused, or does no harm.
 *
 * Owns: a table of damages with the status each must give, and sweeps over all truncations and all single bit flips of
 *   a tiny model. Run it under address and undefined-behaviour sanitizers: most of what it checks is that
 *   they stay silent.
 * Relies on: gguf_tiny.h, model_use.h, check.h; the library.
 * Must never: need a file of the repository, or leave one behind.
 */
#include "check.h"
#include "gguf_tiny.h"
#include "model_use.h"

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
    {"operand count beyond the cap", "brainstorm.node.inputs.count", AT_ELEMENT, 1, 4, 32769, F},
    {"operand counts that use too few", "brainstorm.node.inputs.count", AT_ELEMENT, 11, 4, 0, F},
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
    {"block whose record has no room for its head", "brainstorm.block.bytes", AT_FILE, 0, 0, 0,
     F}, /* see damage_apply */
    {"block bytes 2^64-1", "brainstorm.block.bytes", AT_WIDE, 1, 8, UINT64_MAX, F},
    {"checksum", "brainstorm.block.crc32", AT_ELEMENT, 1, 4, 0, F},

    {"weight in a block that does not exist", "brainstorm.weight.block", AT_ELEMENT, 5, 4, 3, F},
    {"weights out of order", "brainstorm.weight.block", AT_ELEMENT, 5, 4, 1, F},
    {"weight in a negative block", "brainstorm.weight.block", AT_ELEMENT, 0, 4, UINT32_MAX, F},
    {"weight type that does not exist", "brainstorm.weight.dtype", AT_ELEMENT, 0, 4, BS_DTYPE_COUNT, F},
    {"weight type negative", "brainstorm.weight.dtype", AT_ELEMENT, 0, 4, UINT32_MAX, F},
    {"weight of another type than the op's", "brainstorm.weight.dtype", AT_ELEMENT, 0, 4, BS_U8, BS_ERROR_WEIGHTS},
    {"weight rank 0", "brainstorm.weight.rank", AT_ELEMENT, 0, 4, 0, F},
    {"weight rank 5", "brainstorm.weight.rank", AT_ELEMENT, 0, 4, 5, F},
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
    const size_t at = forge_find(f, d->record, d->part, d->index);
    for (size_t i = 0; i < d->bytes; i++)
        f->bytes[at + i] = (uint8_t)(i < 8 ? d->value >> 8 * i : 0);
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
        {"no version", NO_VERSION, BS_ERROR_FORMAT},
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
CHECK_WRAPS static void test_random_damage(void)
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

int main(void)
{
    test_damages();
    test_head_damages();
    test_left_out();
    test_truncations();
    test_bit_flips(NOTHING, 0, "every single bit flip is refused or harmless");
    test_bit_flips(PAGES, 4096, "so is every one in the header of a file that is streamed");
    test_random_damage();
    return check_end();
}
