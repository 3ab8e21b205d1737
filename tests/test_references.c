/* tags: unsigned optimized */
/* test_references.c: what a model file refers to is there, comes before it, and is nobody else's.
 *
 * Owns: all operands, cycles, routers, ranges of blocks, records and places of weights that a tiny file could claim,
 *   beside what is right by its definition; extents beyond those planned.
 * Relies on: gguf_tiny.h, model_use.h, check.h; the library.
 * Must never: ask the library which claims are right.
 */
#include "check.h"
#include "gguf_tiny.h"
#include "model_use.h"

static forge file;

static void claim_i32(const char *key, size_t index, int32_t n)
{
    memcpy(file.bytes + forge_find(&file, key, AT_ELEMENT, index), &n, 4);
}
static void claim_u64(const char *key, size_t index, uint64_t n)
{
    memcpy(file.bytes + forge_find(&file, key, AT_WIDE, index), &n, 8);
}

static int32_t claimed(const char *key, size_t index)
{
    int32_t n;
    memcpy(&n, file.bytes + forge_find(&file, key, AT_ELEMENT, index), 4);
    return n;
}

static bs_error error;

/* Does the file load, run and pass its check? */
static bool loads(void)
{
    bs_arena arena;
    memset(&error, 0, sizeof error);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    const bs_status status = use_model(bs_model_open_memory(&arena, file.bytes, file.n, &error), &arena, &error);
    if (status > 0 || (status < 0 && !error.message[0]))
        check(0, "refused without a message");
    return status == BS_OK;
}

/* --- operands ---------------------------------------------------------------------------------------------- */

enum { OPERANDS = 13 };
static const char inputs[] = "brainstorm.node.inputs";

/* Operand `index` belongs to this node, which makes value `makes` (0: none); `before` is the last value made before
 * it. */
typedef struct place { int32_t node, before, makes; } place;

static place place_of(size_t index)
{
    static const int32_t n_values[TINY_NODES] = {1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0};
    size_t end = 0;
    int32_t before = 0;
    for (int32_t n = 0; n < TINY_NODES; n++) {
        end += (size_t)claimed("brainstorm.node.inputs.count", (size_t)n);
        if (index < end)
            return (place){n, before, n_values[n] ? before + 1 : 0};
        before += n_values[n];
    }
    exit(2);
}

static void test_operands(void)
{
    int refused = 0, loaded = 0, wrong = 0;
    tiny_write(&file, NOTHING);
    for (size_t i = 0; i < OPERANDS; i++) {
        const int32_t truth = claimed(inputs, i), before = place_of(i).before;
        for (int32_t v = -3; v < 15; v++) {
            claim_i32(inputs, i, v);
            const bool is = loads();
            wrong += is && (v < 0 || v > before);
            refused += !is;
            loaded += is;
        }
        claim_i32(inputs, i, truth);
    }
    check(wrong == 0 && loaded >= OPERANDS && refused > loaded,
          "operands that are not there yet are refused (%d refused, %d loaded)", refused, loaded);
}

/* A node that reads what comes of itself, by way of another one. */
static void test_cycles(void)
{
    int cycles = 0, wrong = 0;
    tiny_write(&file, NOTHING);
    for (size_t a = 0; a < OPERANDS; a++)
        for (size_t b = a; b < OPERANDS; b++) {
            const place pa = place_of(a), pb = place_of(b);
            const int32_t was_a = claimed(inputs, a), was_b = claimed(inputs, b);
            if (!pa.makes || !pb.makes)
                continue;
            claim_i32(inputs, a, pb.makes);
            claim_i32(inputs, b, pa.makes);
            wrong += loads();
            cycles++;
            claim_i32(inputs, a, was_a);
            claim_i32(inputs, b, was_b);
        }
    check(wrong == 0 && cycles > 50, "%d cycles are refused", cycles);
}

/* The scatters' routers and paths are parameters 16, 17, 20 and 21, gather's router is 24. */
static void test_routers(void)
{
    static const size_t routers[] = {16, 20, 24}, paths[] = {17, 21};
    int wrong = 0;
    tiny_write(&file, NOTHING);
    for (int32_t n = -3; n < 6; n++) {
        for (size_t i = 0; i < 3; i++) {
            claim_i32("brainstorm.node.params", routers[i], n);
            wrong += loads() != (n == 1);
            claim_i32("brainstorm.node.params", routers[i], 1);
        }
        for (int32_t i = 0; i < 2; i++) {
            claim_i32("brainstorm.node.params", paths[i], n);
            wrong += loads() && (n < 0 || n > 1);
            claim_i32("brainstorm.node.params", paths[i], i);
        }
    }
    check(wrong == 0, "routers and paths that are not there are refused");
}

static void test_symbols(void)
{
    static const int32_t factors[] = {1, 2, 3, 1024, 1025, 32768};
    int wrong = 0, loaded = 0;
    tiny_write(&file, NOTHING);
    for (int32_t s = 0; s < 5; s++)
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
            claim_i32("brainstorm.node.params", 3, -(s + 65536 * (factors[i] - 1)));
            const bool is = loads();
            wrong += is && (s < 1 || s > 2 || factors[i] > 1024);
            loaded += is;
        }
    check(wrong == 0 && loaded >= 4, "symbols that are not there are refused (%d are)", loaded);
}

/* --- blocks ------------------------------------------------------------------------------------------------ */

typedef struct range { int32_t first, end; } range;

static bool range_right(range r) { return 0 <= r.first && r.first < r.end && r.end <= TINY_NODES; }

/* Listed in the order they begin, nested or apart. */
static bool ranges_right(range a, range b)
{
    return range_right(a) && range_right(b) && a.first <= b.first && (b.first >= a.end || b.end <= a.end);
}

/* Says so of two blocks, and of every node in which it lies. */
static void claim_ranges(range a, range b)
{
    claim_i32("brainstorm.block.first_node", 1, a.first);
    claim_i32("brainstorm.block.end_node", 1, a.end);
    claim_i32("brainstorm.block.first_node", 2, b.first);
    claim_i32("brainstorm.block.end_node", 2, b.end);
    for (int32_t n = 0; n < TINY_NODES; n++)
        claim_i32("brainstorm.node.block", (size_t)n,
                  b.first <= n && n < b.end   ? 2
                  : a.first <= n && n < a.end ? 1
                                              : 0);
}

/* Opened and built only: there are thousands. */
static bool builds(void)
{
    bs_arena arena;
    memset(&error, 0, sizeof error);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    bs_model *model = bs_model_open_memory(&arena, file.bytes, file.n, &error);
    if (!model)
        return false;
    const bs_graph_desc room = bs_model_graph_desc(model);
    return bs_model_build(model, bs_graph_create(&arena, &room), NULL, &error) == BS_OK;
}

static void test_ranges(void)
{
    int right = 0, refused = 0, wrong = 0;
    tiny_write(&file, NOTHING);
    for (int32_t n = 0; n < 15 * 15 * 15 * 15; n += 1 + n % 3) {
        const range a = {n % 15 - 1, n / 15 % 15 - 1}, b = {n / 225 % 15 - 1, n / 3375 - 1};
        claim_ranges(a, b);
        const bool is = builds(), may = ranges_right(a, b);
        if (is != may && wrong++ < 5)
            printf("  %d .. %d and %d .. %d: %s\n", a.first, a.end, b.first, b.end, is ? "builds" : error.message);
        right += may;
        refused += !is;
    }
    check(wrong == 0 && right > 500, "blocks are nested or apart, in order, or refused (%d right, %d refused)", right,
          refused);
}

/* A node says another block than the one it lies in. */
static void test_node_blocks(void)
{
    int wrong = 0;
    tiny_write(&file, NOTHING);
    for (size_t n = 0; n < TINY_NODES; n++) {
        const int32_t truth = claimed("brainstorm.node.block", n);
        for (int32_t b = -2; b < 5; b++) {
            claim_i32("brainstorm.node.block", n, b);
            wrong += builds() != (b == truth);
        }
        claim_i32("brainstorm.node.block", n, truth);
    }
    check(wrong == 0, "a node lies in the block that it says");
}

/* --- records ----------------------------------------------------------------------------------------------- */

static void test_tensors(void)
{
    int loaded = 0, right = 0;
    tiny_write(&file, NOTHING);
    for (int32_t n = 0; n < 7 * 7 * 7; n++) {
        const int32_t of[3] = {n % 7 - 2, n / 7 % 7 - 2, n / 49 - 2};
        for (size_t b = 0; b < 3; b++)
            claim_i32("brainstorm.block.tensor", b, of[b]);
        const bool is = loads();
        loaded += is;
        right += is && of[0] == 0 && of[1] == 1 && of[2] == 2;
    }
    check(loaded == 1 && right == 1, "blocks take each their own tensor, or are refused (%d of 343 load)", loaded);
}

/* Lengths and places of tensors that overlap, leave holes, are empty, or not aligned. */
static void test_layout(void)
{
    static const uint64_t lengths[] = {
        0, 1, 255, 256, 456, 512, TINY_MAIN_BYTES - 1, TINY_MAIN_BYTES, TINY_MAIN_BYTES + 1, 576, 577, 640, UINT64_MAX};
    static const uint64_t offsets[] = {
        0, 1, 256, 512, 520, 575, 576, 577, 640, 1152, (uint64_t)1 << 63, UINT64_MAX - 63};
    int loaded = 0, right = 0;
    tiny_write(&file, NOTHING);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
            memcpy(file.bytes + forge_find(&file, "block.main", AT_VALUE, 0), &lengths[i], 8);
            memcpy(file.bytes + forge_find(&file, "block.small", AT_VALUE, 12), &offsets[k], 8);
            claim_u64("brainstorm.block.bytes", 0, lengths[i]);
            const bool is = loads();
            loaded += is;
            right += is && lengths[i] == TINY_MAIN_BYTES && offsets[k] == 576;
        }
    check(loaded == 1 && right == 1, "records lie one behind the other without holes (%d load)", loaded);
}

static void test_weights(void)
{
    static const uint64_t offsets[] = {
        0, 64, 128, 255, 256, 257, 320, 384, 511, 512, 513, 516, 768, 1024, (uint64_t)1 << 63, UINT64_MAX - 255};
    int loaded = 0, right = 0;
    tiny_write(&file, NOTHING);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
            claim_u64("brainstorm.weight.offset", 2, offsets[i]);
            claim_u64("brainstorm.weight.offset", 3, offsets[k]);
            const bool is = loads();
            loaded += is;
            right += is && offsets[i] == 256 && offsets[k] == 512;
        }
    check(loaded == 1 && right == 1, "weights of a record neither overlap nor lie in its head (%d load)", loaded);
    tiny_write(&file, NOTHING);
    loaded = right = 0;
    for (int32_t n = 0; n < 5 * 5 * 5 * 5 * 5 * 5; n++) {
        int32_t rest = n, of[TINY_WEIGHTS];
        bool same = true;
        for (size_t w = 0; w < TINY_WEIGHTS; w++, rest /= 5) {
            of[w] = rest % 5 - 1;
            same = same && of[w] == (int32_t)w / 2;
            claim_i32("brainstorm.weight.block", w, of[w]);
        }
        const bool is = builds();
        loaded += is;
        right += is && same;
    }
    check(loaded == 1 && right == 1, "weights lie in their blocks, in order (%d of 15625 load)", loaded);
}

/* --- extents of a run -------------------------------------------------------------------------------------- */

static BS_ALIGNED uint8_t rooms[3][USE_ARENA_BYTES];

static bs_session *session_of(bs_arena *arena, const bs_model_build_desc *desc)
{
    static bs_memory arenas;
    bs_model *model = bs_model_open_memory(arena, file.bytes, file.n, &error);
    const bs_graph_desc room = bs_model_graph_desc(model);
    bs_graph *graph = bs_graph_create(arena, &room);
    const bs_plan_desc plan_desc = {.threads = 1, .tier = BS_TIER_SCALAR};
    const bs_session_desc session_desc = {.weights = bs_model_weights(model)};
    bs_arena_init(&arenas.persistent, "persistent", rooms[0], sizeof rooms[0]);
    bs_arena_init(&arenas.transient, "transient", rooms[1], sizeof rooms[1]);
    bs_arena_init(&arenas.staging, "staging", rooms[2], sizeof rooms[2]);
    if (bs_model_build(model, graph, desc, &error) != BS_OK)
        return NULL;
    const bs_plan *plan = bs_plan_create(arena, NULL, graph, &plan_desc, &error);
    return plan ? bs_session_create(&arenas, plan, &session_desc, &error) : NULL;
}

/* Binds both ends with these extents; refused for the right reason or run. */
static bool runs(bs_session *s, int64_t channels, int64_t height, int64_t width)
{
    static float in[4096], out[4096];
    const bs_buffer from = {in, BS_F32, 3, {channels, height, width}, {0}},
                    to = {out, BS_F32, 3, {channels, height, width}, {0}};
    memset(&error, 0, sizeof error);
    if (bs_bind(s, "frame", &from, &error) != BS_OK || bs_bind(s, "result", &to, &error) != BS_OK)
        return false;
    return bs_run(s, &error) == BS_OK;
}

static void test_extents_of(const bs_model_build_desc *desc, int64_t max_height, int64_t max_width)
{
    const int64_t tries[] = {INT64_MIN,
                             -1,
                             0,
                             1,
                             2,
                             7,
                             8,
                             9,
                             max_height - 1,
                             max_height,
                             max_height + 1,
                             max_width,
                             max_width + 1,
                             2 * max_width,
                             65536,
                             (int64_t)1 << 31,
                             ((int64_t)1 << 32) + 8,
                             (int64_t)1 << 62,
                             INT64_MAX};
    const size_t n = sizeof tries / sizeof *tries;
    bs_arena arena;
    int ran = 0, refused = 0, wrong = 0;
    tiny_write(&file, NOTHING);
    memset(&error, 0, sizeof error);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    bs_session *s = session_of(&arena, desc);
    if (!check(s != NULL, "a session of up to %lld x %lld %s", (long long)max_height, (long long)max_width,
               error.message))
        return;
    for (size_t i = 0; i < n * n; i++) {
        const int64_t height = tries[i / n], width = tries[i % n];
        const bool may = height >= 1 && height <= max_height && width >= 1 && width <= max_width,
                   is = runs(s, 1, height, width);
        wrong += is != may ||
                 (!is && (error.status != BS_ERROR_SHAPE || !strstr(error.message, "\"frame\": dimension")));
        ran += is;
        refused += !is;
    }
    for (size_t i = 0; i < n; i++)
        wrong += runs(s, tries[i], 8, 8) != (tries[i] == 1);
    check(wrong == 0 && ran > 0 && refused > ran,
          "extents beyond the maxima are refused and named (%d ran, %d refused)", ran, refused);
    bs_session_close(s);
}

static void test_extents(void)
{
    static const bs_model_input larger = {"frame", 3, {1, 30, 50}};
    const bs_model_build_desc desc = {.inputs = &larger, .n_inputs = 1};
    test_extents_of(NULL, 16, 24);
    test_extents_of(&desc, 30, 50);
}

int main(void)
{
    test_operands();
    test_cycles();
    test_routers();
    test_symbols();
    test_ranges();
    test_node_blocks();
    test_tensors();
    test_layout();
    test_weights();
    test_extents();
    return check_end();
}
