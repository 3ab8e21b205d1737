/* tags: unsigned shipped aarch64 32-bit */
/* test_ground.c: what everything stands on keeps its word: sizes saturate, arenas and cursors end where they should,
 * types and statuses have names, f16 and bf16 are IEEE's.
 *
 * Owns: nothing. Relies on: check.h; base/base.h, base/cursor.h and ops/weights.h of the library.
 * Must never: need a file.
 */
#include "../src/base/cursor.h"
#include "../src/ops/weights.h"
#include "check.h"

#include <math.h>

/* --- arithmetic -------------------------------------------------------------------------------------------- */

static void test_sizes(void)
{
    const uint64_t big = UINT64_MAX, half = (uint64_t)1 << 32;
    check(bs_mul_u64(0, big) == 0 && bs_mul_u64(big, 0) == 0 && bs_mul_u64(3, 5) == 15 &&
              bs_mul_u64(half - 1, half) == big - half + 1,
          "products that fit are products");
    check(bs_mul_u64(half, half) == big && bs_mul_u64(big, 2) == big && bs_mul_u64(3, big / 3 + 1) == big,
          "those that wrap saturate");
    check(bs_add_u64(big - 1, 1) == big && bs_add_u64(big, 1) == big && bs_add_u64(2, 3) == 5, "so do sums");
    check(bs_floor_div(7, 2) == 3 && bs_floor_div(-7, 2) == -4 && bs_floor_div(-8, 2) == -4 && bs_ceil_div(7, 2) == 4 &&
              bs_ceil_div(-7, 2) == -3,
          "divisions round down, or up");
    check(bs_clamp_i32(5, 1, 3) == 3 && bs_clamp_i32(0, 1, 3) == 1 && bs_clamp_i32(2, 1, 3) == 2,
          "numbers are clamped");
}

/* --- arenas ------------------------------------------------------------------------------------------------ */

static void test_arenas(void)
{
    static BS_ALIGNED uint8_t memory[1024];
    bs_arena arena;
    bs_arena_init(&arena, "none", NULL, 1024);
    check(!bs_arena_take(&arena, 0) && !bs_arena_take(&arena, 1), "an arena without memory gives nothing");
    bs_arena_init(&arena, "tiny", memory + 1, 62);
    check(!bs_arena_take(&arena, 0), "nor does one that ends before the first aligned byte");
    int wrong = 0;
    for (size_t shift = 0; shift < 64; shift++)
        for (size_t bytes = 0; bytes <= 320; bytes++) {
            bs_arena_init(&arena, "some", memory + shift, bytes);
            const size_t room = bytes < (64 - shift) % 64 ? 0 : (bytes - (64 - shift) % 64) / 64 * 64;
            size_t taken = 0;
            for (uint8_t *piece; (piece = bs_arena_take(&arena, 33)) != NULL; taken += 64)
                wrong += (uintptr_t)piece % 64 != 0 || piece + 33 > memory + shift + bytes;
            wrong += taken != room || arena.high_water != arena.used || bs_arena_take(&arena, SIZE_MAX) != NULL;
        }
    check(wrong == 0, "pieces are aligned and lie within, whatever the memory's start and length");
    arena.used = 0;
    bs_arena_init(&arena, "some", memory, 256);
    bs_arena_take(&arena, 200);
    arena.used = 0;
    bs_arena_take(&arena, 64);
    check(arena.high_water == 256 && arena.used == 64, "the high water stays");
    bs_carver count = {NULL, {0}}, carve = {memory, {0}};
    bs_carve(&count, 3, 30);
    check(bs_bytes_figure(count.used) == 128 && bs_carve(&carve, 3, 30) == memory &&
              bs_carve(&carve, 1, 1) == memory + 128,
          "a walk counts what it hands out");
    bs_carve(&count, UINT64_MAX, 2);
    check(!bs_bytes_known(count.used), "and knows when it cannot");
}

/* --- errors ------------------------------------------------------------------------------------------------ */

static void test_statuses(void)
{
    static const struct { bs_status status; const char *name, *text; } list[] = {
#define STATUS(name, number, text) {name, #name, text},
        BS_STATUS_LIST(STATUS)
#undef STATUS
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        wrong += strcmp(bs_status_name(list[i].status), list[i].name) != 0 ||
                 strcmp(bs_status_text(list[i].status), list[i].text) != 0 || list[i].status != -(int)i;
    check(wrong == 0, "every status has its name and sentence");
    check(strcmp(bs_status_name((bs_status)7), "BS_UNKNOWN") == 0 &&
              strcmp(bs_status_text((bs_status)-99), "unknown status") == 0,
          "other numbers are unknown");
    check(bs_version() == BS_VERSION, "header and library are of one version");
}

static void test_errors(void)
{
    static BS_ALIGNED uint8_t memory[128];
    bs_error error;
    bs_arena arena;
    bs_arena_init(&arena, "slots", memory, sizeof memory);
    bs_arena_take(&arena, 64);
    check(bs_fail(NULL, BS_ERROR_DATA, "no") == BS_ERROR_DATA && !bs_refuse(NULL, BS_ERROR_DATA, "no") &&
              bs_fail_arena(NULL, &arena, bs_bytes_of(1), "x") == BS_ERROR_ARENA, "errors may be nobody's");
    bs_error_prefix(NULL, "%s", "x");
    check(bs_fail_arena(&error, &arena, bs_bytes_of(100), "a thing") == BS_ERROR_ARENA && error.needed == 128 &&
              error.available == 64 && strcmp(error.arena, "slots") == 0 &&
              strcmp(error.message, "arena slots: a thing needs 128 bytes, 64 are free") == 0,
          "an arena that is too small: %s", error.message);
    arena.name = NULL;
    check(bs_fail_arena(&error, &arena, bs_bytes_of(100), "it") == BS_ERROR_ARENA && strcmp(error.arena, "?") == 0,
          "one without a name");
    check(bs_fail_arena(&error, NULL, bs_bytes_of(100), "it") == BS_ERROR_ARENA && error.available == 0, "none at all");
    check(!bs_refuse(&error, BS_ERROR_DATA, "value %d", 7) && error.status == BS_ERROR_DATA && error.needed == 0 &&
              !error.arena,
          "the next error forgets it");
    bs_error_prefix(&error, "file %d: ", 3);
    check(strcmp(error.message, "file 3: value 7") == 0 && error.status == BS_ERROR_DATA, "what is put in front: %s",
          error.message);
    for (int i = 0; i < 40; i++)
        bs_error_prefix(&error, "block %d: ", i);
    check(strlen(error.message) == sizeof error.message - 1 && strncmp(error.message, "block 39: block 38:", 19) == 0,
          "pushes the end out");
}

/* --- sources and cursors ----------------------------------------------------------------------------------- */

static uint8_t bytes[600];
static int64_t give = INT64_MAX; /* at most so many a read; below 0: it fails */

static int64_t read_bytes(void *user, uint64_t offset, void *buffer, size_t n)
{
    (void)user;
    if (give < 0 || offset > sizeof bytes)
        return -1;
    const size_t got = n < (uint64_t)give ? n : (size_t)give;
    memcpy(buffer, bytes + offset, got);
    return (int64_t)got;
}

static const bs_source sources[2] = {{bytes, {0}, {sizeof bytes}},
                                     {NULL, {.read = read_bytes, .size = sizeof bytes}, {sizeof bytes}}};

static bs_status read_at(const bs_source *s, uint64_t offset, void *out, uint64_t n)
{
    return bs_source_read(s, bs_bytes_of(offset), out, bs_bytes_of(n));
}
static void cursor_at(bs_cursor *c, const bs_source *s, uint64_t at, uint64_t end)
{
    bs_cursor_init(c, s, bs_bytes_of(at), bs_bytes_of(end));
}
static bool taken(bs_cursor *c, void *out, uint64_t n) { return bs_cursor_take(c, out, bs_bytes_of(n)); }
static bool skipped(bs_cursor *c, uint64_t n) { return bs_cursor_skip(c, bs_bytes_of(n)); }

static void test_sources(void)
{
    uint8_t out[8];
    for (int i = 0; i < 2; i++) {
        const bs_source *s = &sources[i];
        check(read_at(s, 592, out, 8) == BS_OK && read_at(s, 600, out, 0) == BS_OK &&
                  read_at(s, 593, out, 8) == BS_ERROR_FORMAT && read_at(s, 601, out, 0) == BS_ERROR_FORMAT &&
                  read_at(s, UINT64_MAX, out, 8) == BS_ERROR_FORMAT &&
                  read_at(s, 1, out, UINT64_MAX) == BS_ERROR_FORMAT,
              "a source ends where it ends (%s)", i ? "reader" : "memory");
    }
    give = 7;
    const bs_status less = read_at(&sources[1], 0, out, 8);
    give = -1;
    check(less == BS_ERROR_IO && read_at(&sources[1], 0, out, 8) == BS_ERROR_IO,
          "a reader that gives less, or nothing, is an error");
    give = INT64_MAX;
}

/* Random takes, skips and numbers: what comes is what is there, and nothing comes from beyond the end. */
static void test_cursors(void)
{
    int wrong = 0;
    check_seed(3);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)check_random();
    for (int round = 0; round < 2000; round++) {
        bs_cursor c;
        uint8_t out[300];
        const uint64_t begin = (uint64_t)check_below(300), end = begin + (uint64_t)check_below(301);
        cursor_at(&c, &sources[round % 2], begin, end);
        for (uint64_t at = begin; c.status == BS_OK;) {
            const uint64_t n = (uint64_t)check_below(round % 3 ? 40 : 300);
            const bool skip = check_below(4) == 0, there = n <= end - at;
            const bool took = skip ? skipped(&c, n) : taken(&c, out, n);
            wrong += took != there || (took && !skip && memcmp(out, bytes + at, (size_t)n) != 0) ||
                     bs_bytes_figure(bs_cursor_left(&c)) != end - at - (took ? n : 0);
            at += took ? n : 0;
        }
        wrong += c.status != BS_ERROR_FORMAT || bs_cursor_u32(&c) != 0 || bs_cursor_u64(&c) != 0 || taken(&c, out, 0) ||
                 skipped(&c, 0) || bs_cursor_text(&c, (char *)out, 4);
    }
    check(wrong == 0, "a cursor gives what is there, up to its end, and then nothing (%d wrong)", wrong);
}

static void test_cursor_failures(void)
{
    bs_cursor c;
    uint8_t out[300];
    char text[200];
    int wrong = 0;
    for (uint64_t n = 1; n < 300; n += 59) { /* through the window, and past it */
        give = -1;
        cursor_at(&c, &sources[1], 0, 600);
        wrong += taken(&c, out, n) || c.status != BS_ERROR_IO;
        give = INT64_MAX;
        wrong += taken(&c, out, n);
    }
    check(wrong == 0, "a read that fails is an error, and stays one");
    const uint64_t length = 150;
    memcpy(bytes, &length, 8);
    memset(bytes + 8, 'x', 150);
    for (int i = 0; i < 2; i++) {
        cursor_at(&c, &sources[i], 0, 600);
        check(bs_cursor_text(&c, text, sizeof text) && strlen(text) == 150 && bs_bytes_figure(c.at) == 158,
              "a text that is longer than the window is read");
        cursor_at(&c, &sources[i], 0, 157);
        check(!bs_cursor_text(&c, text, sizeof text) && c.status == BS_ERROR_FORMAT && !text[0],
              "one that is cut is not");
        cursor_at(&c, &sources[i], 0, 600);
        check(!bs_cursor_text(&c, text, 150) && c.status == BS_ERROR_FORMAT && !text[0], "nor one that has no room");
    }
}

/* --- types ------------------------------------------------------------------------------------------------- */

static void test_types(void)
{
    static const struct { const char *name; size_t bytes; } list[] = {
#define DTYPE(name, size, text) {text, size},
        BS_DTYPE_LIST(DTYPE)
#undef DTYPE
    };
    int wrong = 0;
    for (int t = 0; t < BS_DTYPE_COUNT; t++)
        wrong += strcmp(bs_dtype_name((bs_dtype)t), list[t].name) != 0 || bs_dtype_bytes((bs_dtype)t) != list[t].bytes;
    check(wrong == 0 && strcmp(bs_dtype_name((bs_dtype)-1), "unknown") == 0 &&
              strcmp(bs_dtype_name(BS_DTYPE_COUNT), "unknown") == 0 && bs_dtype_bytes(BS_DTYPE_COUNT) == 0 &&
              bs_dtype_bytes((bs_dtype)-1) == 0,
          "types have names and sizes, others are unknown");
    const float f[2] = {0, 2.5f};
    const uint8_t u8[2] = {0, 200};
    const int8_t i8[2] = {0, -100};
    const int32_t i32[2] = {0, -70000};
    const uint16_t f16[2] = {0, 0xc000}, bf16[2] = {0, 0xc000}, u16[2] = {0, 60000};
    check(bs_load_f32(f, BS_F32, 1) == 2.5f && bs_load_f32(u8, BS_U8, 1) == 200 && bs_load_f32(i8, BS_I8, 1) == -100 &&
              bs_load_f32(i32, BS_I32, 1) == -70000 && bs_load_f32(f16, BS_F16, 1) == -2 &&
              bs_load_f32(bf16, BS_BF16, 1) == -2 && bs_load_f32(u16, BS_U16, 1) == 60000 &&
              bs_load_f32(f, BS_DTYPE_COUNT, 1) == 0 && bs_load_f32(f, (bs_dtype)99, 1) == 0,
          "an element of any type is a number");
}

/* The value of a half by its definition. */
static double half_value(uint32_t h)
{
    const uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    const double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                             : exponent     ? ldexp(1024 + mantissa, (int)exponent - 25)
                                            : ldexp(mantissa, -24);
    return h >> 15 ? -magnitude : magnitude;
}

static void test_halves(void)
{
    int wrong = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        const double is = bs_f16_to_f32((uint16_t)h), should = half_value(h);
        wrong += isnan(should) ? !isnan(is) : is != should || signbit(is) != signbit(should);
        const uint16_t back = bs_f32_to_f16((float)is);
        wrong += isnan(should) ? (back & 0x7c00) != 0x7c00 || (back & 1023) == 0 : back != h;
    }
    check(wrong == 0, "every half is its value, there and back");
    /* between neighbours: to the nearer one, a tie to the even one */
    for (uint32_t h = 0; h < 0x7bff; h++) {
        const double low = half_value(h), high = half_value(h + 1), middle = (low + high) / 2, step = (high - low) / 8;
        wrong += bs_f32_to_f16((float)middle) != (h & 1 ? h + 1 : h) || bs_f32_to_f16((float)(middle - step)) != h ||
                 bs_f32_to_f16((float)-(middle + step)) != (0x8000 | (h + 1));
    }
    check(wrong == 0, "what lies between is rounded to the nearest, ties to even");
    check(bs_f32_to_f16(65520.0f) == 0x7c00 && bs_f32_to_f16(65519.0f) == 0x7bff && bs_f32_to_f16(-1e30f) == 0xfc00 &&
              bs_f32_to_f16(0x1p-25f) == 0 && bs_f32_to_f16(0x1.8p-25f) == 1 && bs_f32_to_f16(-0x1p-30f) == 0x8000,
          "too large is infinite, too small is zero");
    for (uint32_t b = 0; b < 65536; b++) {
        const float is = bs_bf16_to_f32((uint16_t)b);
        wrong += isnan(is) ? !isnan(bs_bf16_to_f32(bs_f32_to_bf16(is))) : bs_f32_to_bf16(is) != b;
    }
    check(wrong == 0 && bs_f32_to_bf16(1.00390625f) == 0x3f80 && bs_f32_to_bf16(1.01171875f) == 0x3f82 &&
              bs_f32_to_bf16(3.4e38f) == 0x7f80,
          "bf16 is the upper half of an f32, rounded");
}

/* --- weights ----------------------------------------------------------------------------------------------- */

static void test_tables(void)
{
    static const float numbers[6] = {1, 2, 3, 4, 5, 6};
    static const uint16_t halves[3] = {0x3f80, 0xc000, 0x3f00};
    static BS_ALIGNED uint8_t shifted[16];
    const bs_tensor tensors[] = {
        {NULL, BS_F32, 1, {6}, numbers},
        {"a", BS_F32, 2, {2, 3}, numbers},
        {"deep", BS_F32, 5, {1, 1, 1, 1}, numbers},
        {"below", BS_F32, -1, {0}, numbers},
        {"empty", BS_F32, 1, {6}, NULL},
        {"less", BS_F32, 1, {-6}, numbers},
        {"b", BS_BF16, 1, {3}, halves},
        {"odd", BS_F32, 1, {2}, shifted + 1},
    };
    const bs_tensor_table table = {tensors, sizeof tensors / sizeof *tensors};
    bs_weights w = bs_weights_from_table(&table);
    const bs_weight_spec six = {"", BS_F32, 2, {2, 3}}, three = {"", BS_F32, 1, {3}}, two = {"", BS_F32, 1, {2}},
                         codes = {"", BS_U8, 1, {3}};
    bs_weight_info info;
    bs_error error;
    float out[6] = {0};
    static const char *const wrong[] = {"deep", "below", "empty"};
    for (size_t i = 0; i < 3; i++)
        check(bs_weight_find(&w, wrong[i], &six, &info, &error) == BS_ERROR_ARGUMENT,
              "a table's tensor that cannot be: %s", error.message);
    check(bs_weight_find(&w, "less", &six, &info, &error) == BS_ERROR_WEIGHTS && info.bytes == 0,
          "one of a negative extent: %s", error.message);
    check(bs_weight_find(&w, "b", &codes, &info, &error) == BS_ERROR_WEIGHTS, "one of another type: %s", error.message);
    check(bs_weight_find(&w, "odd", &two, &info, &error) == BS_OK && !bs_weight_view(&w, &two, &info),
          "one that is not aligned is not used in place");
    check(bs_weight_find(&w, "b", &three, &info, &error) == BS_OK && !bs_weight_view(&w, &three, &info) &&
              bs_weight_load(&w, "b", &three, &info, BS_TIER_SCALAR, out, &error) == BS_OK && out[0] == 1 &&
              out[1] == -2 && out[2] == 0.5f,
          "bf16 is widened");
    check(bs_weight_find(&w, "a", &six, &info, &error) == BS_OK && bs_weight_view(&w, &six, &info) == numbers &&
              w.read(w.user, &info, 8, out, 16) == BS_OK && memcmp(out, numbers + 2, 16) == 0,
          "a weight is used in place, or read in pieces");
    check(w.read(w.user, &info, 8, out, 17) == BS_ERROR_ARGUMENT &&
              w.read(w.user, &info, 25, out, 0) == BS_ERROR_ARGUMENT,
          "and not beyond its end");
    w.map = NULL;
    check(!bs_weight_view(&w, &six, &info), "a source that cannot map is read");
}

/* More than a message has room for. */
static int64_t found_extent;

static bs_status find_huge(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    (void)name;
    info->rank = 7;
    for (int i = 0; i < BS_MAX_RANK; i++)
        info->dim[i] = found_extent;
    return BS_OK;
}

static void test_shapes(void)
{
    const bs_weights w = {.find = find_huge};
    const bs_weight_spec spec = {"", BS_F32, 0, {0}};
    bs_weight_info info;
    bs_error error;
    found_extent = 1;
    check(bs_weight_find(&w, "x", &spec, &info, &error) == BS_ERROR_WEIGHTS &&
              strstr(error.message, "is [1, 1, 1, 1, expected []"),
          "%s", error.message);
    found_extent = INT64_MIN;
    check(bs_weight_find(&w, "x", &spec, &info, &error) == BS_ERROR_WEIGHTS &&
              strstr(error.message, "is [-9223372036854775808, -9223372036854775808, ") &&
              strstr(error.message, ", expected []"),
          "%s", error.message);
}

/* What no kernel wants packed is copied, each tensor at its place. */
static void test_copied(void)
{
    static BS_ALIGNED uint8_t memory[1 << 19];
    static BS_ALIGNED float prepared[64];
    const float weight[4] = {1, 2, 3, 4}, bias[4] = {5, 6, 7, 8};
    const void *const tensors[2] = {weight, bias};
    const bs_node_plan plan = {.tier = BS_TIER_SCALAR};
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena_init(&arena, "graph", memory, sizeof memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(8, 4)), (bs_value){0});
    bs_layer_norm(g, x, &(bs_norm_desc){.name = "norm"});
    bs_route(g, x, (bs_value){0}, &(bs_route_desc){.name = "route", .paths = 4});
    if (!check(bs_graph_check(g, &error) == BS_OK, "a graph with a norm and a router %s", error.message))
        return;
    bs_weight_prepare(g, &g->nodes[3], &plan, tensors, prepared);
    check(memcmp(prepared, weight, 16) == 0 && memcmp(prepared + 16, bias, 16) == 0 && prepared[4] == 0,
          "a norm's weights are copied");
    memset(prepared, 0, sizeof prepared);
    bs_weight_prepare(g, &g->nodes[4], &plan, tensors, prepared);
    check(prepared[0] == 0, "a router without weights has none");
}

int main(void)
{
    test_sizes();
    test_arenas();
    test_statuses();
    test_errors();
    test_sources();
    test_cursors();
    test_cursor_failures();
    test_types();
    test_halves();
    test_tables();
    test_shapes();
    test_copied();
    return check_end();
}
