/* tags: unsigned shipped aarch64 32-bit */
/* test_gguf.c: what the model file reader promises about good files, failing readers and small arenas.
 *
 * Owns: files that are good, wherever they lie; the library's own weights, checksums and hashes.
 * Relies on: gguf_tiny.h, model_use.h, check.h; the library.
 * Must never: need a file of the repository, or leave one behind.
 */
#include "check.h"
#include "gguf_tiny.h"
#include "model_use.h"

/* --- good files -------------------------------------------------------------------------------------- */

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
    report("", "facts are those written",
           strcmp(facts.name, "tiny") == 0 && facts.nodes == TINY_NODES && facts.values == 10 &&
               facts.blocks == TINY_BLOCKS && facts.weights == TINY_WEIGHTS && facts.symbols == 2 && facts.scale == 1 &&
               facts.weight_bytes == 96 && facts.file_bytes == f.n && facts.alignment == TINY_ALIGNMENT,
           "they differ");
    const bool got = bs_model_block_get(m, 2, &block) == BS_OK;
    report("", "a block's record is where it was put",
           got && strcmp(block.name, "large") == 0 && block.first_node == 7 && block.end_node == 9 &&
               block.weights == 2 && block.bytes == TINY_CONV_BYTES && block.offset % TINY_ALIGNMENT == 0 &&
               memcmp(f.bytes + block.offset, "BSRC", 4) == 0 &&
               forge_crc32(f.bytes + block.offset + TINY_HEAD_BYTES, (size_t)block.bytes - TINY_HEAD_BYTES) ==
                   block.crc32,
           "it is not");
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

/* Names that sort in other orders: every weight is found. */
static void test_finding(void)
{
    enum { ORDERS = 50 };
    static forge f;
    int32_t found = 0;
    tiny_write(&f, NOTHING);
    for (uint32_t k = 0; k < ORDERS; k++) {
        bs_arena arena;
        bs_error error;
        bs_arena_init(&arena, "persistent", memory, sizeof memory);
        for (uint32_t i = 0; i < TINY_WEIGHTS; i++)
            f.bytes[forge_find(&f, "brainstorm.weight.name", AT_STRING, i) + 8] = (uint8_t)('a' + k * (i + 3) % 26);
        const bs_model *m = bs_model_open_memory(&arena, f.bytes, f.n, &error);
        const bs_weights w = bs_model_weights(m);
        for (uint32_t i = 0; m && i < TINY_WEIGHTS; i++) {
            char name[32] = "";
            bs_weight_info info;
            const size_t at = forge_find(&f, "brainstorm.weight.name", AT_STRING, i);
            memcpy(name, f.bytes + at + 8, (size_t)forge_read_u64(&f, at));
            found += w.find(w.user, name, &info) == BS_OK && info.handle == i;
        }
    }
    report("", "weights are found in whatever order their names sort", found == ORDERS * TINY_WEIGHTS, "some are not");
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
        const uint64_t count = (1u << 24) + 1;
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
    static uint8_t record[TINY_MAIN_BYTES];
    bs_record at;
    tiny_write(&f, PAGES);
    arena.used = 0;
    bs_model *model = bs_model_open_file(&arena, &platform, "tiny.gguf", &error);
    const bs_weights w = bs_model_weights(model);
    status = w.record(w.user, 0, &at) == BS_OK ? w.fetch(w.user, at.offset, record, sizeof record) : BS_ERROR_DATA;
    report("", "a platform that forgets nothing streams",
           status == BS_OK && memcmp(record, f.bytes + at.offset, sizeof record) == 0, "it does not");
    s.fail_at = s.reads;
    report("", "and says what fails", w.fetch(w.user, at.offset, record, sizeof record) == BS_ERROR_IO, "it does not");
    s.fail_at = -1;
    bs_model_close(model);
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
    report("", "a table's weight is used in place", status == BS_OK && bs_weight_view(&w, &square, &info) == values,
           "no");
    status = bs_weight_find(&w, "a", &pair, &info, &error);
    expect("", "a weight of another shape is refused", status, BS_ERROR_WEIGHTS, &error);
    const bs_weight_spec wider = {"", BS_F32, 2, {2, 3, 0, 0}}, long_spec = {"", BS_F32, 1, {150, 0, 0, 0}};
    status = bs_weight_find(&w, "a", &wider, &info, &error);
    expect("", "both shapes are told", strstr(error.message, "[2, 2], expected [2, 3]") ? status : BS_OK,
           BS_ERROR_WEIGHTS, &error);
    status = bs_weight_find(&w, "b", &pair, &info, &error);
    expect("", "a weight that is missing is named", strstr(error.message, "\"b\"") ? status : BS_OK, BS_ERROR_WEIGHTS,
           &error);
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
        const uint32_t wanted = forge_crc32(data, n);
        for (size_t cut = 0; cut <= n; cut += 1 + cut / 5)
            right = right && bs_crc32(bs_crc32(0, data, cut), data + cut, n - cut) == wanted;
    }
    report("", "checksums are zip's, in one piece and in several", right, "they are not");
}

static void test_hashes(void)
{
    uint64_t hashes[257];
    bool right = true;
    uint64_t twice = 0;
    for (size_t n = 0; n <= 256; n++) {
        for (size_t i = 0; i < n; i++)
            hashes[i] = (i * 167 + 13) % 257;
        right = right && bs_hashes_unique(hashes, n, &twice);
        for (size_t i = 1; i < n; i++)
            right = right && hashes[i - 1] < hashes[i];
        hashes[n] = n ? hashes[n / 2] : 0;
        right = right && (n == 0 || (!bs_hashes_unique(hashes, n + 1, &twice) && twice == hashes[n / 2]));
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
    test_finding();
    test_maxima();
    test_reader();
    test_counts();
    test_files();
    test_arenas();
    return check_end();
}
