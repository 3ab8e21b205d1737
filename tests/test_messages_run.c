/* Promises: whatever goes wrong with a session is said in one line that names the input, router, block, weight or arena
 * at fault and what was expected; and this table knows every message of the files that make and run sessions.
 *
 * Relies on: messages.h; a source of weights and a platform of its own, which lie when they are told to. */
#include "messages.h"
#include "ops/table.h"
#include "run/session.h"

#include <math.h>

static _Alignas(4096) uint8_t arenas[4][1 << 20];
static _Alignas(64) uint8_t graph_memory[1 << 19], plan_memory[1 << 19];
static bs_memory memory;
static const bs_plan *plan;
static bs_session *session;
static bs_error error;
static const bs_value none = {0};

/* ---------------------------------------------------------------------------------------------------- a session */

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static void forget(void) { memset(&error, 0, sizeof error); }

static void arenas_init(void)
{
    bs_arena *const all[4] = {&memory.persistent, &memory.transient, &memory.staging, &memory.slots};
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(all[i], names[i], arenas[i], sizeof arenas[i]);
}

static bool planned(const bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    forget();
    plan = bs_plan_create(&arena, g, desc, &error);
    if (!plan)
        check(0, "it is planned: %s", error.message);
    return plan != NULL;
}

static bool made(const bs_session_desc *desc)
{
    arenas_init();
    forget();
    session = bs_session_create(&memory, plan, desc, &error);
    return session != NULL;
}

static void begin(const bs_graph *g, const bs_session_desc *desc)
{
    if (!planned(g, NULL) || !made(desc)) {
        check(0, "a session: %s", error.message);
        exit(check_end());
    }
}

static void end(void)
{
    bs_session_close(session);
    session = NULL;
}

static bs_status bind(const char *name, void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1, d2}, {0}};
    forget();
    return bs_bind(session, name, &b, &error);
}

static void refused(bs_status status, const char *text)
{
    forget();
    bs_run(session, &error);
    message_is(&error, status, text);
}

/* ---------------------------------------------------------------------------------------------------- binding */

static float floats[4][1024];

static void test_binding(void)
{
    bs_graph *g = new_graph();
    const bs_dim h = bs_symbol(g, "H", 20);
    const bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE3(1, h, 8));
    const bs_value y = bs_input(g, "by", BS_F32, BS_SHAPE2(h, 4));
    bs_output(g, "out", bs_pool2d(g, x, &(bs_pool2d_desc){.name = "shrink", .kernel = 4, .stride = 2}));
    bs_output(g, "copy", bs_affine(g, y, 1, 0));
    const bs_buffer good = {floats[0], BS_F32, 3, {1, 6, 8}, {0}}, empty = {NULL, BS_F32, 3, {1, 6, 8}, {0}};
    begin(g, NULL);
    bs_bind(NULL, "in", &good, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_bind \"in\": the session, the name, the buffer or its data is NULL");
    bs_bind(session, NULL, &good, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_bind \"\": the session, the name, the buffer or its data is NULL");
    bs_bind(session, "in", NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_bind \"in\": the session, the name, the buffer or its data is NULL");
    bs_bind(session, "out", &empty, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_bind \"out\": the session, the name, the buffer or its data is NULL");
    bind("frame", floats[0], BS_F32, 3, 1, 6, 8);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_bind \"frame\": there is no input, output or state of that name");
    bind("in", floats[0], BS_U8, 2, 6, 8, 0);
    message_is(&error, BS_ERROR_SHAPE, "bs_bind \"in\": u8 of rank 2 given, f32 of rank 3 expected");
    bind("in", floats[0], BS_F32, 3, 1, 21, 8);
    message_is(&error, BS_ERROR_SHAPE, "bs_bind \"in\": dimension 1 is 21, expected 1<=H<=20");
    bind("in", floats[0], BS_F32, 3, 1, 0, 8);
    message_is(&error, BS_ERROR_SHAPE, "bs_bind \"in\": dimension 1 is 0, expected 1<=H<=20");
    const bs_buffer repeats = {floats[0], BS_F32, 3, {1, 2, 3}, {6, 0, 1}},
                    wide = {floats[0], BS_F32, 3, {1, 6, 8}, {1, INT64_MAX / 4, 1}};
    bs_bind(session, "out", &repeats, &error);
    message_is(&error, BS_ERROR_ARGUMENT,
               "bs_bind \"out\": its elements overlap: the stride of dimension 1 is 0, expected 1 or more, either way");
    bs_bind(session, "in", &wide, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_bind \"in\": its strides reach beyond all memory");
    refused(BS_ERROR_UNBOUND, "input \"in\" is not bound");
    bind("in", floats[0], BS_F32, 3, 1, 6, 8);
    bind("by", floats[1], BS_F32, 2, 7, 4, 0);
    refused(BS_ERROR_SHAPE, "input \"by\": dimension 0 is 7, by \"in\" it is 6");
    bind("by", floats[1], BS_F32, 2, 6, 4, 0);
    refused(BS_ERROR_UNBOUND, "output \"out\" is not bound");
    bind("out", floats[2], BS_F32, 3, 1, 3, 3);
    refused(BS_ERROR_SHAPE, "\"out\": dimension 1 of its buffer is 3, this run needs 2");
    bind("in", floats[0], BS_F32, 3, 1, 1, 8);
    bind("by", floats[1], BS_F32, 2, 1, 4, 0);
    refused(BS_ERROR_SHAPE, "dimension (H-2)/2<=9 is -1 in this run: an input is smaller than the network's window");
    end();
}

/* A tensor that brings fewer rows than there are cells would be read beyond its end. */
static void test_joining(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "first", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 9), 2)), none);
    const bs_value y = bs_rows(g, bs_input(g, "second", BS_F32, BS_SHAPE2(bs_symbol(g, "M", 9), 2)), x);
    bs_output(g, "out", bs_collect(g, bs_add(g, x, y)));
    begin(g, NULL);
    bind("first", floats[0], BS_F32, 2, 6, 2, 0);
    bind("second", floats[1], BS_F32, 2, 5, 2, 0);
    bind("out", floats[2], BS_F32, 2, 6, 2, 0);
    refused(BS_ERROR_SHAPE, "rows (node 4): dimension 0 of \"second\" is 5, this run has 6 cells");
    bind("second", floats[1], BS_F32, 2, 7, 2, 0);
    check(bs_run(session, &error) == BS_OK, "more rows than cells are fine: the first ones are used");
    end();
}

static void test_calls(void)
{
    bs_session_desc desc = {.platform = NULL};
    bs_set_route(NULL, "r", NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_set_route \"r\": the session is NULL or has no router of that name");
    bs_set_route(NULL, NULL, NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_set_route \"\": the session is NULL or has no router of that name");
    bs_submit(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_submit: the session is NULL");
    bs_wait(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_wait: the session is NULL");
    bs_session_create(NULL, plan, &desc, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_session_create: memory or plan is NULL");
    bs_cuda_choose(NULL, 1, NULL, NULL, &error);
    message_is(&error, BS_ERROR_UNSUPPORTED, "bs_cuda_choose: the session must be on a GPU, with its weights resident");
}

/* ---------------------------------------------------------------------------------------------------- decisions */

static const int32_t *given_table, *given_cost, *given_path;

static bs_status router_find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    const bool table = strcmp(name, "r.table") == 0, cost = strcmp(name, "r.cost") == 0;
    if (!table && !cost && strcmp(name, "r.path") != 0)
        return BS_ERROR_WEIGHTS;
    *info = (bs_weight_info){.dtype = BS_I32, .rank = 1, .dim = {3}, .bytes = 12, .handle = table ? 0 : cost ? 1 : 2};
    return BS_OK;
}

static bs_status router_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    const int32_t *const from[3] = {given_table, given_cost, given_path};
    memcpy(buffer, (const uint8_t *)from[info->handle] + offset, bytes);
    return BS_OK;
}

static const bs_session_desc router_desc = {.weights = {.find = router_find, .read = router_read}};
static int32_t callback_says;
static bs_status callback_status;

static bs_status callback(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    (void)user, (void)scores;
    for (int32_t i = 0; i < rows; i++)
        path[i] = i == 2 ? callback_says : 0;
    return callback_status;
}

static float knob;
static union { float f[16]; int32_t i[16]; } scores;

/* Four cells through a router "r" of three paths (two of BINARY), which are outputs as they come. */
static void begin_router(bs_route_desc d, bs_dtype dtype, int32_t width)
{
    bs_graph *g = new_graph();
    const bs_value k = bs_input(g, "knob", BS_F32, BS_SHAPE1(1));
    const bs_value s = bs_rows(g, bs_input(g, "scores", dtype, BS_SHAPE2(4, width)), none);
    bs_value out[3] = {none, none, none};
    d.name = "r";
    d.paths = d.protocol == BS_ROUTE_BINARY ? 2 : 3;
    const bs_router r = bs_route(g, s, k, &d);
    for (int32_t p = 0; p < d.paths; p++)
        out[p] = bs_scatter(g, r, p, s);
    bs_output(g, "out", bs_collect(g, bs_gather(g, r, out, none, &(bs_gather_desc){.mode = BS_GATHER_SELECT})));
    begin(g, &router_desc);
    memset(&scores, 0, sizeof scores);
    knob = 0;
    bind("knob", &knob, BS_F32, 1, 1, 0, 0);
    bind("scores", &scores, dtype, 2, 4, width, 0);
    bind("out", floats[3], dtype, 2, 4, width, 0);
}

static void test_decisions(void)
{
    static const int32_t table[3] = {0, 1, 3}, cost[3] = {1, 2, 3}, path[3] = {0, -1, 2};
    given_table = table, given_cost = cost, given_path = path;
    begin_router((bs_route_desc){.protocol = BS_ROUTE_TOP1}, BS_F32, 3);
    scores.f[3 * 1 + 2] = NAN;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): cell 1: score 2 is NaN");
    forget();
    bs_wait(session, &error);
    message_is(&error, BS_ERROR_DATA, "the last run failed: run-time data is out of range (index, NaN score)");
    scores.f[3 * 1 + 2] = 0;
    knob = NAN;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): the knob is NaN");
    end();
    begin_router((bs_route_desc){.protocol = BS_ROUTE_LABEL}, BS_I32, 1);
    scores.i[3] = 3;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): cell 3: label 3, expected 0 .. 2");
    end();
    begin_router((bs_route_desc){.protocol = BS_ROUTE_TABLE, .capacity = 3}, BS_I32, 1);
    scores.i[0] = -1;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): cell 0: key -1, expected 0 .. 2");
    scores.i[0] = 2;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): cell 0: the table gives path 3, expected 0 .. 2");
    end();
    begin_router((bs_route_desc){.protocol = BS_ROUTE_BUDGET, .capacity = 3}, BS_I32, 3);
    refused(BS_ERROR_DATA, "route \"r\" (node 4): a variant takes path -1, expected 0 .. 2");
    end();
    begin_router((bs_route_desc){.protocol = BS_ROUTE_CALLBACK}, BS_F32, 3);
    refused(BS_ERROR_UNBOUND, "route \"r\" (node 4): its callback is not set (bs_set_route)");
    bs_set_route(session, "r", callback, NULL, NULL);
    callback_says = 7;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): cell 2: the callback chose 7, expected 0 .. 2");
    callback_status = BS_ERROR_IO;
    refused(BS_ERROR_IO, "route \"r\" (node 4): reading or writing failed");
    callback_status = (bs_status)7;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): its callback returned 7, which is no bs_status");
    callback_status = BS_OK;
    end();
}

/* An exit inside a path is decided by the tile, and tells the cell of the frame. */
static void test_nested(void)
{
    bs_graph *g = new_graph();
    const bs_value s = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(4, 3)), none);
    bs_value out[3] = {none, none, none}, in[2];
    const bs_router outer = bs_route(g, s, none, &(bs_route_desc){.name = "r", .paths = 3});
    const bs_value x = bs_scatter(g, outer, 1, s), last = bs_slice(g, x, &(bs_slice_desc){.start = 2, .length = 1});
    /* 0 or not: NaN */
    const bs_value odd = bs_sub(g, bs_affine(g, last, INFINITY, 0), bs_affine(g, last, INFINITY, 0));
    const bs_router inner = bs_route(g, odd, none,
                                     &(bs_route_desc){.name = "exit", .protocol = BS_ROUTE_BINARY, .paths = 2});
    in[0] = bs_scatter(g, inner, 0, x), in[1] = bs_scatter(g, inner, 1, x);
    out[1] = bs_gather(g, inner, in, none, NULL);
    bs_output(g, "out", bs_collect(g, bs_gather(g, outer, out, none, NULL)));
    if (bs_graph_check(g, &error) != BS_OK)
        check(0, "nested: %s", error.message);
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        char text[100];
        if (!planned(g, &(bs_plan_desc){.order = order}) || !made(NULL)) {
            check(0, "nested: %s", error.message);
            return;
        }
        memset(&scores, 0, sizeof scores);
        scores.f[3 * 3 + 1] = 1;
        bind("scores", &scores, BS_F32, 2, 4, 3, 0);
        bind("out", floats[3], BS_F32, 2, 4, 3, 0);
        snprintf(text, sizeof text, "route \"exit\" (node %d): cell 3: score 0 is NaN", g->routers[inner.id].node);
        refused(BS_ERROR_DATA, text);
        end();
    }
}

/* ---------------------------------------------------------------------------------------------------- the rest of a
 * run */

static void test_states(void)
{
    bs_graph *g = new_graph();
    int32_t index[2] = {0, 4};
    const bs_value rows = bs_gather_rows(g, bs_input(g, "table", BS_F32, BS_SHAPE2(4, 3)),
                                         bs_input(g, "index", BS_I32, BS_SHAPE1(2)));
    const bs_value state = bs_state(g, "kept", BS_F32, BS_SHAPE2(2, 3));
    bs_output(g, "out", bs_add(g, state, rows));
    bs_state_write(g, state, rows);
    begin(g, NULL);
    bind("table", floats[0], BS_F32, 2, 4, 3, 0);
    bind("index", index, BS_I32, 1, 2, 0, 0);
    bind("out", floats[1], BS_F32, 2, 2, 3, 0);
    refused(BS_ERROR_DATA, "gather_rows \"\" (node 3): index 1 is 4, expected 0 .. 3");
    refused(BS_ERROR_DATA, "the last run failed and left its states in between: call bs_reset_state");
    end();
}

static void test_segments(void)
{
    bs_graph *g = new_graph();
    int32_t lengths[2] = {-1, 3}, past[2] = {0, 0};
    const bs_value l = bs_input(g, "lengths", BS_I32, BS_SHAPE1(2)), p = bs_input(g, "past", BS_I32, BS_SHAPE1(2));
    const bs_value x = bs_segments(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 6), 4)), l);
    const bs_value k = bs_state(g, "keys", BS_F32, BS_SHAPE3(2, 3, 4));
    bs_output(g, "out", bs_collect(g, bs_attention(g, x, x, x, k, k, p, NULL)));
    bs_state_append(g, k, x, p);
    begin(g, NULL);
    bind("in", floats[0], BS_F32, 2, 5, 4, 0);
    bind("out", floats[1], BS_F32, 2, 5, 4, 0);
    bind("lengths", lengths, BS_I32, 1, 2, 0, 0);
    bind("past", past, BS_I32, 1, 2, 0, 0);
    refused(BS_ERROR_DATA, "input \"lengths\": segment 0 has -1 rows, expected 0 .. 5, what is left of 5");
    lengths[0] = 3;
    refused(BS_ERROR_DATA, "input \"lengths\": segment 1 has 3 rows, expected 0 .. 2, what is left of 5");
    lengths[1] = 1;
    refused(BS_ERROR_DATA, "input \"lengths\": the segments have 4 rows together, this run has 5");
    lengths[1] = 2;
    past[1] = -2;
    refused(BS_ERROR_DATA, "input \"past\": segment 1 has -2 tokens already, expected 0 .. 1073741824");
    end();
}

/* ---------------------------------------------------------------------------------------------------- weights */

/* One linear of a block, in storage: a head of 64 bytes, 256 of weights, 32 of bias. */
typedef enum lie {
    HONEST,
    MISSING,
    LOST,
    BEYOND,
    TWO_RECORDS,
    OVER_EACH_OTHER,
    NO_RECORD,
    SHORT_RECORD,
    FAR_APART,
    MORE_IN_RECORD,
    FAILS,
    ANOTHER_HEAD,
    LIES
} lie;
static lie told;

static bs_status store_find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    const bool bias = strcmp(name, "L.bias") == 0;
    if (told == MISSING)
        return BS_ERROR_WEIGHTS;
    *info = (bs_weight_info){
        .dtype = BS_F32, .rank = bias ? 1 : 2, .dim = {8, bias ? 0 : 8}, .bytes = bias ? 32 : 256, .handle = bias};
    return BS_OK;
}

static bs_status store_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)info, (void)offset;
    memset(buffer, 0, bytes);
    return BS_OK;
}

static bs_status store_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    (void)user;
    *block = 1 + (told == TWO_RECORDS && info->handle);
    *offset = info->handle ? (told == FAR_APART ? 1 << 20 : told == OVER_EACH_OTHER ? 319 : 320) : 64;
    if (told == BEYOND)
        *offset = UINT64_MAX - 8;
    return told == LOST ? BS_ERROR_FORMAT : BS_OK;
}

static bs_status store_record(const void *user, int32_t block, bs_record *record)
{
    (void)user, (void)block;
    *record = (bs_record){0,
                          told == FAR_APART        ? (1 << 20) + 32
                          : told == SHORT_RECORD   ? 351
                          : told == MORE_IN_RECORD ? 416
                                                   : 352,
                          64, 0};
    return told == NO_RECORD ? BS_ERROR_ARGUMENT : BS_OK;
}

static bs_status store_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)offset;
    memset(buffer, 0, bytes);
    return told == FAILS ? BS_ERROR_IO : BS_OK;
}

static bs_status store_verify(const void *user, int32_t block, const void *head)
{
    (void)user, (void)block, (void)head;
    return told == ANOTHER_HEAD ? BS_ERROR_FORMAT : BS_OK;
}

static const bs_session_desc honest = {.weights = {.find = store_find,
                                                   .read = store_read,
                                                   .locate = store_locate,
                                                   .record = store_record,
                                                   .fetch = store_fetch,
                                                   .verify = store_verify,
                                                   .fetch_alignment = 1}};

static const bs_graph *expert(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(4, 8)), none);
    bs_block_begin(g, "expert");
    const bs_value y = bs_linear(g, x, &(bs_linear_desc){.name = "L", .out = 8});
    bs_block_end(g);
    bs_output(g, "out", bs_collect(g, y));
    return g;
}

static void not_made(const bs_session_desc *desc, bs_status status, const char *text)
{
    if (made(desc))
        check(0, "no session is made: %s", text);
    message_is(&error, status, text);
    end();
}

static void test_resident(void)
{
    bs_session_desc nothing = {.platform = NULL};
    if (!planned(expert(), NULL))
        return;
    not_made(&nothing, BS_ERROR_WEIGHTS, "linear \"L\" needs weights and the session was given none");
    for (int32_t tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
        if (!bs_tier_available((bs_tier)tier) && planned(expert(), &(bs_plan_desc){.tier = tier})) {
            char text[100];
            snprintf(text, sizeof text, "the plan is for tier %s, which this machine does not have",
                     bs_tier_name((bs_tier)tier));
            not_made(&honest, BS_ERROR_UNSUPPORTED, text);
        }
    if (planned(expert(), &(bs_plan_desc){.tier = BS_TIER_CUDA}))
        not_made(&honest, BS_ERROR_UNSUPPORTED,
                 "the plan is for a GPU: bs_session_desc.device is NULL (bs_cuda_open gives it)");
}

static void test_streamed(void)
{
    static const struct { lie lie; bs_status status; const char *text;
    } rows[] = {
        {MISSING, BS_ERROR_WEIGHTS, "weight \"L.weight\" is missing"},
        {LOST, BS_ERROR_FORMAT, "weight \"L.weight\": the source does not tell its place in storage"},
        {BEYOND, BS_ERROR_FORMAT, "weight \"L.weight\": the source does not tell its place in storage"},
        {TWO_RECORDS, BS_ERROR_UNSUPPORTED, "linear \"L\": its weights lie in two records and cannot be streamed"},
        {OVER_EACH_OTHER, BS_ERROR_FORMAT, "linear \"L\": its weights lie over each other in storage"},
        {NO_RECORD, BS_ERROR_FORMAT, "linear \"L\": its weights do not lie in the record of block 1"},
        {SHORT_RECORD, BS_ERROR_FORMAT, "linear \"L\": its weights do not lie in the record of block 1"},
        {FAR_APART, BS_ERROR_UNSUPPORTED, "linear \"L\": its weights lie too far apart to be streamed"},
        {MORE_IN_RECORD, BS_ERROR_UNSUPPORTED,
         "check_records: the record of block 1 cannot be checked as it is read, this plan leaves out some of its "
         "weights"},
    };
    bs_session_desc desc = honest;
    desc.stream.check_records = 1;
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16}))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        told = rows[i].lie;
        not_made(&desc, rows[i].status, rows[i].text);
    }
    told = HONEST;
    static const uint32_t alignments[3] = {0, 24, 8192};
    for (int32_t i = 0; i < 6; i++) {
        desc = honest;
        if (i < 3)
            desc.weights.fetch_alignment = alignments[i];
        desc.weights.locate = i == 3 ? NULL : desc.weights.locate;
        desc.weights.record = i == 4 ? NULL : desc.weights.record;
        desc.weights.fetch = i == 5 ? NULL : desc.weights.fetch;
        not_made(
            &desc, BS_ERROR_UNSUPPORTED,
            "the plan streams weights: bs_session_desc.weights needs locate, record, fetch and its alignment, a power "
            "of two up to 4096");
    }
    desc = honest;
    desc.stream.policy = BS_POLICY_BELADY;
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy 3, speculation 0, expected 0 .. 2 and 0 .. 1");
    desc.stream = (bs_stream_desc){.policy = -1};
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy -1, speculation 0, expected 0 .. 2 and 0 .. 1");
    desc.stream = (bs_stream_desc){.speculation = -1};
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy 0, speculation -1, expected 0 .. 2 and 0 .. 1");
    desc.stream = (bs_stream_desc){.speculation = 2};
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy 0, speculation 2, expected 0 .. 2 and 0 .. 1");
    for (lie l = FAILS; l < LIES; l++) {
        if (!check(made(&honest), "a session whose storage fails later %s", error.message))
            return;
        told = l;
        bind("in", floats[0], BS_F32, 2, 4, 8, 0);
        bind("out", floats[1], BS_F32, 2, 4, 8, 0);
        if (l == FAILS)
            refused(BS_ERROR_IO, "linear \"L\" (node 3): reading or writing failed");
        else
            refused(BS_ERROR_FORMAT, "linear \"L\" (node 3): the file is malformed");
        end();
        told = HONEST;
    }
}

/* ---------------------------------------------------------------------------------------------------- memory and
 * threads */

/* With `kept` bytes of one arena less than a session takes. */
static void test_arenas(void)
{
    static const char *const what[4] = {"persistent: the session", "transient: activations", "staging: reading weights",
                                        "slots: weights of blocks"};
    bs_arena *const all[4] = {&memory.persistent, &memory.transient, &memory.staging, &memory.slots};
    bs_sizes sizes;
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16}))
        return;
    bs_plan_sizes(plan, &sizes);
    const uint64_t bytes[4] = {sizes.persistent, sizes.transient, sizes.staging, sizes.slots};
    for (int32_t i = 0; i < 4; i++) {
        char text[160];
        arenas_init();
        bs_arena_init(all[i], all[i]->name, all[i]->base, (size_t)bytes[i] - 64);
        forget();
        bs_session_create(&memory, plan, &honest, &error);
        snprintf(text, sizeof text, "arena %s needs %llu bytes, %llu are free", what[i], (unsigned long long)bytes[i],
                 (unsigned long long)bytes[i] - 64);
        message_is(&error, BS_ERROR_ARENA, text);
    }
}

static int calls, fail_at;

static int start_some(void *user, void *handle, void (*entry)(void *), void *argument)
{
    const bs_platform *real = bs_platform_default();
    (void)user;
    return ++calls == fail_at ? -1 : real->thread_start(real->user, handle, entry, argument);
}

static int make_some(void *user, void *storage)
{
    const bs_platform *real = bs_platform_default();
    (void)user;
    return ++calls == fail_at ? -1 : real->gate_init(real->user, storage);
}

static void test_platform(void)
{
    static const char *const texts[5] = {
        "worker threads: the platform's gate_init failed", "worker thread 1 of 1: the platform's thread_start failed",
        "reader threads: the platform's gate_init failed", "reader thread 1 of 2: the platform's thread_start failed",
        "reader thread 2 of 2: the platform's thread_start failed"};
    bs_platform platform = *bs_platform_default();
    bs_session_desc desc = honest;
    platform.thread_start = start_some;
    platform.gate_init = make_some;
    desc.platform = &platform;
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16, .threads = 2, .lanes = 2}))
        return;
    for (fail_at = 1; fail_at <= 5; fail_at++) {
        calls = 0;
        not_made(&desc, BS_ERROR_PLATFORM, texts[fail_at - 1]);
    }
}

static int profile_write(void *user, const void *data, size_t bytes)
{
    (void)user, (void)data, (void)bytes;
    return 0;
}

static void test_profile(void)
{
    static _Alignas(64) uint8_t ring[1 << 14], place[1 << 12];
    const bs_profile_desc desc = {.write = profile_write, .memory = ring, .bytes = sizeof ring};
    bs_session_desc with = honest;
    bs_arena arena;
    bs_arena_init(&arena, "place", place, sizeof place);
    with.profile = bs_profile_create(&arena, &desc, &error);
    if (!planned(expert(), NULL) || !check(made(&with), "a session with a profile %s", error.message))
        return;
    end();
    not_made(&with, BS_ERROR_ARGUMENT, "bs_session_desc.profile: another session uses it");
    bs_profile_close(with.profile, NULL);
}

/* Weights of a session that never was: only its plan and its device are looked at. */
static void test_weights_of(void)
{
    static bs_session other;
    static uint64_t no_device;
    bs_session_desc of = honest;
    of.weights_of = &other;
    if (!planned(expert(), NULL))
        return;
    other.plan = NULL;
    not_made(&of, BS_ERROR_ARGUMENT, "bs_session_desc.weights_of: a session of another plan");
    other.plan = plan;
    other.device = (bs_device *)(void *)&no_device;
    not_made(&of, BS_ERROR_ARGUMENT, "bs_session_desc.weights_of: a session on another device");
}

int main(void)
{
    static const char *const files[] = {"src/run/session.c",    "src/run/session_make.c",  "src/run/session_lower.c",
                                        "src/run/route.c",      "src/run/bind.c",          "src/run/extents.c",
                                        "src/run/segments.c",
                                        "src/stream/store.c",   "src/stream/store_plan.c", "src/base/workers.c",
                                        "src/ops/gather_rows.c"};
    test_binding();
    test_joining();
    test_calls();
    test_decisions();
    test_nested();
    test_states();
    test_segments();
    test_resident();
    test_streamed();
    test_arenas();
    test_platform();
    test_profile();
    test_weights_of();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    return check_end();
}
