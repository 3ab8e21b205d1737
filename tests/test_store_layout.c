/* tags: unsigned tsan 32-bit */
/* Promises: wherever a source says that weights lie (in any order, far apart, not aligned, with heads or without), what
 * is streamed is what is there, or it is refused when the session is made; and a store does without threads, clock or
 * room what it does with them.
 *
 * Relies on: stream/store.h and run/session.h from inside; a source whose layout each row of the table sets. Nothing
 * here waits for a thread. */
#include "check.h"
#include "ops/table.h"
#include "run/session.h"

#include <math.h>

enum { NODES = 4, WIDE = 194, STORAGE = 1 << 17 };

static _Alignas(4096) uint8_t arenas[4][1 << 20], storage[STORAGE];
static _Alignas(64) uint8_t graph_memory[1 << 19], plan_memory[1 << 19], store_memory[1 << 18];
static bs_error error;

/* ---------------------------------------------------------------------------------------------------- the source */

/* Weights of a node follow each other. Nodes 0 .. 2 lie in the record of block 1, node 3 in that of block 2. */
typedef struct layout {
    const char *what;
    uint64_t at[NODES];
    bs_record records[2];
    int32_t chunk_bytes;
    bool check_records;
    bs_status refused; /* by bs_session_create */
} layout;

static const char *const node_names[NODES] = {"a0", "a1", "a2", "e"};
static const int64_t outs[NODES] = {WIDE, 8, 8, 8}, ins[NODES] = {8, WIDE, 8, 8};
static layout now;
static int32_t records_asked, records_last; /* after that many calls there is no record any more; 0: never */

CHECK_WRAPS static float value_of(int32_t node, uint64_t i)
{
    const uint32_t x = (uint32_t)(node * 7919 + 1) * 2654435761u + (uint32_t)i * 40503u;
    return (float)(int32_t)((x >> 8) % 2001 - 1000) / 4000;
}

static void lay_out(const layout *l)
{
    now = *l;
    records_asked = 0;
    memset(storage, 0xEE, sizeof storage);
    for (int32_t n = 0; n < NODES; n++)
        for (uint64_t i = 0; i < (uint64_t)(outs[n] * (ins[n] + 1)); i++) {
            const float f = value_of(n, i);
            memcpy(storage + l->at[n] + 4 * i, &f, 4);
        }
    for (int32_t b = 0; b < 2; b++) {
        bs_record *r = &now.records[b];
        r->crc32 = bs_crc32(0, storage + r->offset + r->head_bytes, (size_t)(r->bytes - r->head_bytes));
    }
}

static bs_status find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    for (int32_t n = 0; n < NODES; n++) {
        const size_t length = strlen(node_names[n]);
        if (strncmp(name, node_names[n], length) != 0 || name[length] != '.')
            continue;
        const bool bias = strcmp(name + length, ".bias") == 0;
        *info = (bs_weight_info){.dtype = BS_F32,
                                 .rank = bias ? 1 : 2,
                                 .dim = {outs[n], bias ? 0 : ins[n]},
                                 .bytes = (uint64_t)(4 * outs[n] * (bias ? 1 : ins[n])),
                                 .handle = (uint64_t)(2 * n + bias)};
        return BS_OK;
    }
    return BS_ERROR_WEIGHTS;
}

static uint64_t place_of(const bs_weight_info *info)
{
    const int32_t n = (int32_t)info->handle / 2;
    return now.at[n] + (info->handle % 2 ? (uint64_t)(4 * outs[n] * ins[n]) : 0);
}

static bs_status read_some(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    memcpy(buffer, storage + place_of(info) + offset, bytes);
    return BS_OK;
}

static bs_status locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    (void)user;
    *block = info->handle / 2 == 3 ? 2 : 1;
    *offset = place_of(info);
    return BS_OK;
}

static bs_status record(const void *user, int32_t block, bs_record *r)
{
    (void)user;
    *r = now.records[block - 1];
    return records_last && ++records_asked > records_last ? BS_ERROR_ARGUMENT : BS_OK;
}

static bs_status fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    memcpy(buffer, storage + offset, bytes);
    return BS_OK;
}

static bs_weights weights_of(bool serial)
{
    return (bs_weights){.find = find,
                        .read = read_some,
                        .locate = locate,
                        .record = record,
                        .fetch = fetch,
                        .fetch_alignment = 1,
                        .serial = serial};
}

/* ---------------------------------------------------------------------------------------------------- the network */

static const bs_graph *build(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    const bs_value scores = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(4, 2)), (bs_value){0});
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(4, 8)), scores), out[2];
    bs_look_ahead(g, bs_rows(g, bs_input(g, "ahead", BS_F32, BS_SHAPE2(4, 2)), scores), "r");
    bs_block_begin(g, "a");
    for (int32_t n = 0; n < 3; n++)
        x = bs_linear(g, x, &(bs_linear_desc){.name = node_names[n], .out = (int32_t)outs[n]});
    bs_block_end(g);
    const bs_router r = bs_route(g, scores, (bs_value){0}, &(bs_route_desc){.name = "r", .paths = 2});
    out[0] = bs_affine(g, bs_scatter(g, r, 0, x), 2, 0);
    bs_block_begin(g, "e");
    out[1] = bs_linear(g, bs_scatter(g, r, 1, x), &(bs_linear_desc){.name = "e", .out = 8});
    bs_block_end(g);
    bs_output(g, "out", bs_collect(g, bs_gather(g, r, out, (bs_value){0}, NULL)));
    if (bs_graph_check(g, &error) != BS_OK)
        check(0, "the graph: %s", error.message);
    return g;
}

static const bs_plan *planned(const bs_plan_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, build(), desc, &error);
    if (!plan) {
        check(0, "the plan: %s", error.message);
        exit(check_end());
    }
    return plan;
}

static float in[4][8], scores[4][2], ahead[4][2], out[4][8], wanted[2][4][8];
static float odd_ahead[2]; /* of every cell, when look-ahead is not what the router sees */
static bool is_odd;

/* The first phase is three layers of one unit: that is asked for once a run. */
static bool asked_once(bs_session *s)
{
    bs_prediction known;
    if (!bs_plan_streams(s->plan))
        return true;
    return bs_session_prediction_get(s, 0, BS_PREDICT_KNOWN, &known) == BS_OK && known.expected == 2 &&
           known.right == 2 && known.needed == 2;
}

/* Two runs: every cell takes the path without weights, then two of them the other one. */
static bs_status runs(const bs_plan *plan, const bs_session_desc *desc, bool keep)
{
    bs_memory m;
    bs_arena *const all[4] = {&m.persistent, &m.transient, &m.staging, &m.slots};
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    const bs_buffer buffers[4] = {{in, BS_F32, 2, {4, 8}, {0}},
                                  {scores, BS_F32, 2, {4, 2}, {0}},
                                  {out, BS_F32, 2, {4, 8}, {0}},
                                  {ahead, BS_F32, 2, {4, 2}, {0}}};
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(all[i], names[i], arenas[i], sizeof arenas[i]);
    bs_session *s = bs_session_create(&m, plan, desc, &error);
    bs_status status = s ? BS_OK : error.status;
    for (int32_t turn = 0; turn < 2 && status == BS_OK; turn++) {
        for (int32_t i = 0; i < 4; i++) {
            scores[i][1] = turn && i % 2 ? 1.0f : -1.0f;
            memcpy(ahead[i], is_odd ? odd_ahead : scores[i], sizeof ahead[i]);
            for (int32_t k = 0; k < 8; k++)
                in[i][k] = value_of(9 + i, (uint64_t)k);
        }
        bs_bind(s, "in", &buffers[0], NULL);
        bs_bind(s, "scores", &buffers[1], NULL);
        bs_bind(s, "out", &buffers[2], NULL);
        bs_bind(s, "ahead", &buffers[3], NULL);
        memset(out, 0xFF, sizeof out);
        status = bs_run(s, &error);
        if (keep)
            memcpy(wanted[turn], out, sizeof out);
        else if (status == BS_OK && memcmp(wanted[turn], out, sizeof out) != 0)
            status = BS_ERROR_DATA;
    }
    if (status == BS_OK && !asked_once(s))
        status = BS_ERROR_DATA;
    bs_session_close(s);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- layouts */

#define NEAR {64, 7048, 13288, 16448}
#define TWO(bytes, head) {{0, bytes, head, 0}, {16384, 352, 64, 0}}

static const layout layouts[] = {
    {"one after the other", NEAR, TWO(13576, 64), 0, true, BS_OK},
    {"one after the other, a layer a chunk", NEAR, TWO(13576, 64), 300, true, BS_OK},
    {"in the opposite order", {6592, 352, 64, 16448}, TWO(13576, 64), 300, false, BS_OK},
    {"in the opposite order, in one chunk", {6592, 352, 64, 16448}, TWO(13576, 64), 0, false, BS_OK},
    {"with gaps of pages", {64, 12288, 40000, 72000}, {{0, 40288, 64, 0}, {71936, 352, 64, 0}}, 300, false, BS_OK},
    {"far from the record's head",
     {6064, 13048, 19288, 40000},
     {{0, 19576, 64, 0}, {39936, 352, 64, 0}},
     300,
     false,
     BS_OK},
    {"far from the record's beginning, without heads",
     {6064, 13048, 19288, 40000},
     {{0, 19576, 0, 0}, {39936, 352, 0, 0}},
     300,
     false,
     BS_OK},
    {"not aligned", {65, 7049, 13289, 16449}, {{0, 13577, 64, 0}, {16384, 353, 64, 0}}, 300, true, BS_OK},
    {"not aligned, with a gap that staging has no room for",
     {65, 11049, 17289, 40001},
     {{0, 17577, 64, 0}, {39936, 353, 64, 0}},
     300,
     false,
     BS_OK},
    {"with gaps of pages, to be checked",
     {64, 12288, 40000, 72000},
     {{0, 40288, 64, 0}, {71936, 352, 64, 0}},
     300,
     true,
     BS_ERROR_UNSUPPORTED},
    {"before its record", NEAR, {{4096, 13576, 64, 0}, {16384, 352, 64, 0}}, 300, false, BS_ERROR_FORMAT},
};

static void test_layouts(void)
{
    bs_platform alone = *bs_platform_default();
    alone.thread_start = NULL;
    lay_out(&layouts[0]);
    check(runs(planned(NULL), &(bs_session_desc){.weights = weights_of(false)}, true) == BS_OK,
          "a session whose weights stay %s", error.message);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        bs_status status = layouts[i].refused;
        lay_out(&layouts[i]);
        for (int32_t way = 0; way < 4 && status == layouts[i].refused; way++) {
            const bs_plan *plan = planned(
                &(bs_plan_desc){.slot_bytes = 1 << 16, .chunk_bytes = layouts[i].chunk_bytes, .lanes = 1 + way % 2,
                                .order = way < 2 ? BS_ORDER_BREADTH : BS_ORDER_AUTO});
            const bs_session_desc desc = {.weights = weights_of(way == 3),
                                          .stream = {.check_records = layouts[i].check_records},
                                          .platform = way < 2 ? &alone : NULL};
            status = runs(plan, &desc, false);
        }
        check(status == layouts[i].refused, "weights that lie %s: %s", layouts[i].what,
              status == BS_OK ? "the same bytes" : error.message);
    }
    lay_out(&layouts[1]);
    const bs_plan *plan = planned(&(bs_plan_desc){.slot_bytes = 1 << 16, .chunk_bytes = 300});
    const bs_session_desc desc = {.weights = weights_of(false), .stream = {.check_records = 1}, .platform = &alone};
    records_last = 4; /* the plan asks for each node's */
    check(runs(plan, &desc, false) == BS_ERROR_FORMAT, "a record that is gone when it is read: %s", error.message);
    records_last = 0;
}

/* With look-ahead that expects nothing, and a profile that is told so. */
static int64_t written;

static int count_bytes(void *user, const void *data, size_t bytes)
{
    (void)user, (void)data;
    written += (int64_t)bytes;
    return 0;
}

static void test_profile(void)
{
    static _Alignas(64) uint8_t ring[1 << 15], place[1 << 12];
    const layout near = {"", NEAR, TWO(13576, 64), 300, false, BS_OK};
    bs_arena arena;
    bs_arena_init(&arena, "place", place, sizeof place);
    lay_out(&near);
    const bs_plan *plan = planned(&(bs_plan_desc){.slot_bytes = 1 << 16});
    bs_profile *profile = bs_profile_create(
        &arena, &(bs_profile_desc){.write = count_bytes, .memory = ring, .bytes = sizeof ring}, &error);
    const bs_session_desc desc = {.weights = weights_of(false), .profile = profile};
    check(runs(plan, &desc, false) == BS_OK && bs_profile_close(profile, NULL) == BS_OK && written > 1000,
          "look-ahead that expects no weights is recorded, too");
}

/* What look-ahead says decides when something is read, never what is computed. */
static void test_ahead(void)
{
    static const float odd[][2] = {
        {NAN, NAN},      {0, NAN},  {NAN, 0}, {INFINITY, INFINITY}, {-INFINITY, INFINITY}, {INFINITY, -INFINITY},
        {3e38f, -3e38f}, {-0.0f, 0}};
    const layout near = {"", NEAR, TWO(13576, 64), 300, false, BS_OK};
    int32_t right = 0;
    lay_out(&near);
    is_odd = true;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        memcpy(odd_ahead, odd[i], sizeof odd_ahead);
        right += runs(planned(&(bs_plan_desc){.slot_bytes = 1 << 16}), &(bs_session_desc){.weights = weights_of(false)},
                      false) == BS_OK;
    }
    is_odd = false;
    check(right == 8, "look-ahead may say anything: the same bytes (%d of 8)", right);
}

/* ---------------------------------------------------------------------------------------------------- the store
 * alone */

static int copies, copy_fails_at;

/* Weights are prepared elsewhere and brought to their slots by a device. */
static bs_status copy(bs_device_session *session, int32_t lane, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    (void)session, (void)lane;
    memcpy(to, from, (size_t)bytes);
    return ++copies == copy_fails_at ? BS_ERROR_PLATFORM : BS_OK;
}

static const bs_device_api copying = {.copy = copy};
static bs_store store;
static bs_stream_desc stream_desc;

static bs_status open_store(const bs_plan *plan, const bs_platform *platform, bs_device *device)
{
    const bs_weights weights = weights_of(false);
    const bs_store_desc desc = {.plan = plan,
                                .platform = platform,
                                .weights = &weights,
                                .stream = &stream_desc,
                                .memory = store_memory,
                                .slots = arenas[0],
                                .staging = arenas[1],
                                .resident = arenas[2],
                                .device = device,
                                .rooms = device ? arenas[3] : NULL,
                                .room_bytes = bs_bytes_of(device ? sizeof arenas[3] / 4 : 0)};
    if (bs_bytes_figure(bs_store_bytes(plan)) > sizeof store_memory ||
        bs_bytes_figure(plan->slot_bytes) > sizeof arenas[0] ||
        bs_bytes_figure(bs_bytes_times(plan->lane_bytes, plan->lanes)) > sizeof arenas[1])
        exit(2);
    memset(arenas, 0, sizeof arenas);
    memset(store_memory, 0xA5, sizeof store_memory);
    return bs_store_open(&store, &desc, &error) ? BS_OK : error.status;
}

/* Units 1 and 2 are brought; the bytes of unit 1 are left in `bytes`. */
static bs_status bring(int32_t units, uint8_t *bytes, size_t count)
{
    static const int32_t all[2] = {1, 2};
    bs_status status = BS_OK;
    for (int32_t i = 0; i < units && status == BS_OK; i++) {
        int32_t taken = 0;
        bs_store_visit(&store, i, &all[i], 1);
        status = bs_store_wait(&store, i, &all[i], 1, &taken);
        if (status == BS_OK && i == 0)
            memcpy(bytes, store.base[1], count);
        if (status == BS_OK)
            bs_store_release(&store, all[i]);
    }
    bs_store_leave(&store);
    return status;
}

static void test_alone(void)
{
    enum { BYTES = 4096 };
    static uint8_t first[BYTES], other[BYTES];
    const layout near = {"", NEAR, TWO(13576, 64), 300, false, BS_OK};
    bs_device device = {.api = &copying};
    bs_platform bare;
    memset(&bare, 0, sizeof bare); /* no threads, no clock */
    lay_out(&near);
    const bs_plan *plan = planned(&(bs_plan_desc){.slot_bytes = 1 << 16, .chunk_bytes = 300, .threads = 1});
    check(open_store(plan, NULL, NULL) == BS_OK && bring(2, first, BYTES) == BS_OK,
          "without a platform the run reads for itself");
    bs_store_close(&store);
    check(open_store(plan, &bare, NULL) == BS_OK && bring(2, other, BYTES) == BS_OK && memcmp(first, other, BYTES) == 0,
          "nor does it need a clock");
    bs_store_close(&store);
    copies = copy_fails_at = 0;
    check(open_store(plan, &bare, &device) == BS_OK && bring(2, other, BYTES) == BS_OK && copies == 4 &&
              memcmp(first, other, BYTES) == 0,
          "what a device copies is what is prepared, a layer at a time");
    bs_store_close(&store);
    for (copy_fails_at = 1; copy_fails_at <= 4; copy_fails_at++) {
        copies = 0;
        check(open_store(plan, &bare, &device) == BS_OK && bring(2, other, BYTES) == BS_ERROR_PLATFORM &&
                  copies == copy_fails_at && bring(2, other, BYTES) == BS_OK,
              "copy %d fails: its unit is not there, and the next run brings it", copy_fails_at);
        bs_store_close(&store);
    }
    const bs_plan *one = planned(&(bs_plan_desc){.slot_bytes = 1 << 16, .chunk_bytes = 1 << 16, .threads = 1});
    copies = 0, copy_fails_at = 1;
    check(open_store(one, &bare, &device) == BS_OK && bring(1, other, BYTES) == BS_ERROR_PLATFORM && copies == 1,
          "a copy that fails ends its chunk: the layers behind it are not prepared");
    bs_store_close(&store);
    copy_fails_at = 0;
}

/* What is pinned leaves no room, and nobody else could make any: told, rather than waited for. */
static void test_no_room(void)
{
    static const int32_t both[2] = {1, 2};
    const layout near = {"", NEAR, TWO(13576, 64), 300, false, BS_OK};
    bs_platform bare;
    bs_stream_plan facts;
    bs_status status = BS_OK;
    int32_t taken = 0;
    memset(&bare, 0, sizeof bare);
    lay_out(&near);
    bs_plan_stream_get(planned(&(bs_plan_desc){.slot_bytes = 1 << 16}), &facts);
    const bs_plan *plan = planned(&(bs_plan_desc){.slot_bytes = facts.least_bytes});
    check(open_store(plan, &bare, NULL) == BS_OK, "a store with room for one unit");
    bs_store_visit(&store, 0, both, 2);
    check(bs_store_wait(&store, 0, &both[0], 1, &taken) == BS_OK && taken == 1 && !bs_store_try(&store, 2, &status) &&
              status == BS_OK,
          "the first is pinned, the second is not there");
    check(bs_store_wait(&store, 0, &both[1], 1, &taken) == BS_ERROR_LIMIT && taken == 0,
          "nor can it come: BS_ERROR_LIMIT");
    bs_store_release(&store, 1);
    check(bs_store_wait(&store, 0, &both[1], 1, &taken) == BS_OK && taken == 2, "until the first is released");
    bs_store_release(&store, 2);
    bs_store_close(&store);
}

int main(void)
{
    test_layouts();
    test_profile();
    test_ahead();
    test_alone();
    test_no_room();
    return check_end();
}
