/* tags: asan */
/* Promises: whatever goes wrong in a run is said in one line that names the input, router or segment at fault and what
 * was expected; and this table knows every message of the files that bind and run. How sessions are made:
 * test_messages_session.c. */
#include "ops/table.h"
#include "run/session.h"
#include "session_told.h"

#include <math.h>

/* ---------------------------------------------------------------------------------------------------- binding */

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
    bind("by", floats[1], BS_F32, 2, 10, 4, 0);
    refused(BS_ERROR_SHAPE, "input \"by\": dimension 0 (H<=20) is 10, by \"in\" it is 6");
    bind("by", floats[1], BS_F32, 2, 6, 4, 0);
    refused(BS_ERROR_UNBOUND, "output \"out\" is not bound");
    bind("out", floats[2], BS_F32, 3, 1, 3, 3);
    refused(BS_ERROR_SHAPE, "\"out\": dimension 1 of its buffer ((H-2)/2<=9) is 3, this run needs 2");
    bind("in", floats[0], BS_F32, 3, 1, 1, 8);
    bind("by", floats[1], BS_F32, 2, 1, 4, 0);
    refused(BS_ERROR_SHAPE, "dimension (H-2)/2<=9 is -1 in this run: an input is smaller than the network needs");
    end();
}

/* What an op needs of an extent: as a dimension before the run, or where no rule of dimensions knows it, in the run. */
static void test_extents(void)
{
    bs_graph *g = new_graph();
    const bs_dim n = bs_symbol(g, "N", 20), m = bs_symbol(g, "M", 8);
    const bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE1(bs_times(g, n, 3)));
    const bs_value y = bs_input(g, "image", BS_F32, BS_SHAPE3(1, m, 2));
    bs_output(g, "out", bs_slice(g, x, &(bs_slice_desc){.start = 4, .length = 8}));
    bs_output(g, "halves", bs_pixel_unshuffle(g, y, 2));
    begin(g, NULL);
    bind("image", floats[1], BS_F32, 3, 1, 4, 2);
    bind("out", floats[2], BS_F32, 1, 8, 0, 0);
    bind("halves", floats[3], BS_F32, 3, 4, 2, 1);
    bind("in", floats[0], BS_F32, 1, 13, 0, 0);
    refused(BS_ERROR_SHAPE, "\"in\": dimension 0 of its buffer (3N<=60) is 13, this run needs 12");
    bind("in", floats[0], BS_F32, 1, 9, 0, 0);
    refused(BS_ERROR_SHAPE, "dimension 3N-11<=49 is -2 in this run: an input is smaller than the network needs");
    bind("in", floats[0], BS_F32, 1, 12, 0, 0);
    check(bs_run(session, &error) == BS_OK, "a multiple alone gives a symbol: %s", error.message);
    bind("image", floats[1], BS_F32, 3, 1, 5, 2);
    refused(BS_ERROR_SHAPE, "pixel_unshuffle \"\" (node 5): operand 0: dimension 1 (M<=8) is 5");
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
    refused(BS_ERROR_SHAPE,
            "rows (node 4): dimension 0 (M<=9) of \"second\" is 5, this run has 6 cells of rows [N<=9]");
    bind("second", floats[1], BS_F32, 2, 7, 2, 0);
    check(bs_run(session, &error) == BS_OK, "more rows than cells are fine: the first ones are used");
    end();
}

static void test_calls(void)
{
    bs_set_route(NULL, "r", NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_set_route \"r\": the session is NULL or has no router of that name");
    bs_set_route(NULL, NULL, NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_set_route \"\": the session is NULL or has no router of that name");
    bs_submit(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_submit: the session is NULL");
    bs_wait(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_wait: the session is NULL");
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
    begin_router((bs_route_desc){.protocol = BS_ROUTE_TABLE, .keys = 3}, BS_I32, 1);
    scores.i[0] = -1;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): cell 0: key -1, expected 0 .. 2");
    scores.i[0] = 2;
    refused(BS_ERROR_DATA, "route \"r\" (node 4): cell 0: the table gives path 3, expected 0 .. 2");
    end();
    begin_router((bs_route_desc){.protocol = BS_ROUTE_BUDGET, .variants = 3}, BS_I32, 3);
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

/* Four rows through a loop "a" of up to four trips, by counts or as long as they are above 0; or such rows grow. */
static void begin_loop(bs_dtype dtype, bool grows)
{
    const bs_loop_desc desc = {.name = "a", .bound = 4, .grows = grows};
    bs_graph *g = new_graph();
    const bs_value s = bs_rows(g, bs_input(g, "scores", dtype, BS_SHAPE2(4, 1)), none);
    const bs_router a = bs_loop_begin(g, s, dtype == BS_I32 ? s : none, &desc);
    const bs_value row = bs_scatter(g, a, 0, s), last = bs_loop_next(g, a, none, row);
    bs_loop_end(g, a, dtype == BS_I32 && !grows ? none : row);
    bs_output(g, "out", bs_collect(g, last));
    begin(g, &router_desc);
    memset(&scores, 0, sizeof scores);
    bind("scores", &scores, dtype, 2, 4, 1, 0);
    bind("out", floats[3], dtype, 2, 4, 1, 0);
}

static void test_loops(void)
{
    begin_loop(BS_I32, false);
    scores.i[1] = 9;
    refused(BS_ERROR_DATA, "loop \"a\" (node 3): cell 1: 9 trips, its bound is 4");
    end();
    begin_loop(BS_F32, false);
    scores.f[2] = NAN;
    refused(BS_ERROR_DATA, "loop \"a\" (node 3): cell 2: its predicate after trip 0 is NaN");
    scores.f[2] = 0, scores.f[3] = 1;
    refused(BS_ERROR_DATA, "loop \"a\" (node 3): cell 3: it would go on after 4 trips, its bound");
    end();
    begin_loop(BS_I32, true);
    scores.i[1] = 3;
    refused(BS_ERROR_DATA, "loop \"a\" (node 3): cell 1: with the 3 rows that it makes there would be more than 4");
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

/* -------------------------------------------------------------------------------------- what a run keeps and reads */

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

static void test_positions(void)
{
    bs_graph *g = new_graph();
    int32_t position[2] = {1 << 30, -1};
    const bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(2, 4)), none);
    const bs_value at = bs_rows(g, bs_input(g, "at", BS_I32, BS_SHAPE1(2)), x);
    bs_output(g, "out", bs_collect(g, bs_rope(g, x, at, NULL)));
    begin(g, NULL);
    bind("in", floats[0], BS_F32, 2, 2, 4, 0);
    bind("at", position, BS_I32, 1, 2, 0, 0);
    bind("out", floats[1], BS_F32, 2, 2, 4, 0);
    refused(BS_ERROR_DATA, "rope \"\" (node 5): position -1, expected 0 .. 1073741824");
    position[1] = (1 << 30) + 1;
    refused(BS_ERROR_DATA, "rope \"\" (node 5): position 1073741825, expected 0 .. 1073741824");
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
    refused(BS_ERROR_DATA, "input \"lengths\": segment 0 has -1 rows, expected 0 .. 5, what is left of 5 (N<=6)");
    lengths[0] = 3;
    refused(BS_ERROR_DATA, "input \"lengths\": segment 1 has 3 rows, expected 0 .. 2, what is left of 5 (N<=6)");
    lengths[1] = 1;
    refused(BS_ERROR_DATA, "input \"lengths\": the segments have 4 rows together, this run has 5 (N<=6)");
    lengths[1] = 2;
    past[1] = -2;
    refused(BS_ERROR_DATA, "input \"past\": segment 1 has -2 tokens already, expected 0 .. 1073741824");
    end();
}

/* Rows that attend to those of another domain, with a bias. */
static void test_attention(void)
{
    bs_graph *g = new_graph();
    int32_t lengths[2] = {1, 4}, others[3] = {2, 3, 0};
    const bs_value l = bs_input(g, "lengths", BS_I32, BS_SHAPE1(2)),
                   o = bs_input(g, "others", BS_I32, BS_SHAPE1(bs_symbol(g, "S", 3)));
    const bs_value q = bs_segments(g, bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 6), 4)), l),
                   k = bs_segments(g, bs_input(g, "keys", BS_F32, BS_SHAPE2(bs_symbol(g, "M", 6), 4)), o),
                   bias = bs_input(g, "bias", BS_F32, BS_SHAPE3(1, 3, 2));
    const bs_attention_desc desc = {.name = "a", .bidirectional = 1};
    bs_output(g, "out", bs_collect(g, bs_attention_masked(g, q, k, k, none, none, none, bias, &desc)));
    begin(g, NULL);
    bind("in", floats[0], BS_F32, 2, 5, 4, 0);
    bind("keys", floats[0], BS_F32, 2, 5, 4, 0);
    bind("bias", floats[0], BS_F32, 3, 1, 3, 2);
    bind("out", floats[1], BS_F32, 2, 5, 4, 0);
    bind("lengths", lengths, BS_I32, 1, 2, 0, 0);
    bind("others", others, BS_I32, 1, 3, 0, 0);
    refused(BS_ERROR_DATA, "attention \"a\": operand 0 has 2 segments, operand 1 has 3");
    bind("others", others, BS_I32, 1, 2, 0, 0);
    refused(BS_ERROR_DATA, "attention \"a\": segment 1 has 4 positions and 3 of keys, its bias [3, 2]");
    end();
}

/* What comes from data is refused when it is known. */
static void test_data_extents(void)
{
    static float limits[2];
    bs_graph *g = new_graph();
    const bs_value limit = bs_input(g, "limit", BS_F32, BS_SHAPE1(1)), wide = bs_input(g, "wide", BS_F32, BS_SHAPE1(1));
    const bs_value y = bs_arange(g, limit, none, none, &(bs_extent_desc){"N", 5});
    bs_output(g, "best", bs_argmax(g, y));
    bs_output(g, "line", bs_arange(g, wide, limit, wide, &(bs_extent_desc){"M", 5}));
    begin(g, NULL);
    bind("limit", &limits[0], BS_F32, 1, 1, 0, 0);
    bind("wide", &limits[1], BS_F32, 1, 1, 0, 0);
    bind("best", floats[0], BS_I32, 1, 1, 0, 0);
    bind("line", floats[1], BS_F32, 1, 4, 0, 0);
    refused(BS_ERROR_SHAPE, "\"line\": dimension 0 of its buffer (M<=5) is 4, this run needs 5");
    bind("line", floats[1], BS_F32, 1, 5, 0, 0);
    refused(BS_ERROR_DATA, "argmax \"\" (node 4): operand 0 is empty: dimension 0 (N<=5) is 0");
    limits[0] = 5.5f;
    refused(BS_ERROR_DATA, "arange \"N\" (node 3): dimension N<=5 would be 6");
    limits[0] = 1;
    refused(BS_ERROR_DATA, "arange \"M\" (node 6): from 1 to 0 by 0: inf elements");
    end();
    floats[1][0] = NAN;
    bs_graph *of = new_graph();
    const bs_value boxes = bs_input(of, "boxes", BS_F32, BS_SHAPE3(1, 1, 4)),
                   rated = bs_input(of, "scores", BS_F32, BS_SHAPE3(1, 1, 1));
    bs_output(of, "kept", bs_nms(of, boxes, rated, &(bs_nms_desc){.name = "K"}));
    begin(of, NULL);
    bind("boxes", floats[0], BS_F32, 3, 1, 1, 4);
    bind("scores", floats[1], BS_F32, 3, 1, 1, 1);
    bind("kept", floats[2], BS_I32, 2, 1, 3, 0);
    refused(BS_ERROR_DATA, "nms \"K\" (node 3): score [0, 0, 0] is NaN");
    floats[1][0] = 0;
    end();
}

static void test_bound_extents(void)
{
    bs_graph *g = new_graph();
    int64_t dims[BS_MAX_RANK];
    const bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 6), 4));
    bs_output(g, "out", bs_affine(g, x, 1, 0));
    begin(g, NULL);
    bs_bound_extents(session, "in", dims, &error);
    message_is(&error, BS_ERROR_ARGUMENT,
               "bs_bound_extents \"in\": there is no output or state of that name, or an argument is NULL");
    bind("in", floats[0], BS_F32, 2, 5, 4, 0);
    bind("out", floats[1], BS_F32, 2, 5, 4, 0);
    session->pending = true; /* as a GPU leaves it after bs_submit */
    bs_bound_extents(session, "out", dims, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_bound_extents \"out\": a run is queued: bs_wait comes first");
    session->pending = false;
    check(bs_bound_extents(session, "out", dims, &error) == BS_OK && dims[0] == 5, "then it tells them");
    end();
}

int main(void)
{
    static const char *const files[] = {"src/run/session.c", "src/run/route.c",    "src/run/bind.c",
                                        "src/run/extents.c", "src/run/segments.c", "src/ops/gather_rows.c",
                                        "src/run/call.c",    "src/ops/from_data.c"};
    test_binding();
    test_extents();
    test_joining();
    test_calls();
    test_decisions();
    test_nested();
    test_loops();
    test_states();
    test_segments();
    test_positions();
    test_attention();
    test_data_extents();
    test_bound_extents();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    messages_of_runs("src/ops/nms.c");
    messages_of_runs("src/ops/rope.c");
    return check_end();
}
