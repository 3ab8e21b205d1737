/* Promises: what does not fit is refused by name before anything runs; states are what the last run wrote, in place or
 * copied, until a reset; a failure leaves nothing running and nothing taken, and the next attempt works. */
#define _POSIX_C_SOURCE 200809L
#include "against.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static net_table weights;
static against a;
static _Alignas(64) uint8_t graph_memory[1 << 20];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    weights.table.count = 0;
    weights.next = NULL;
    return bs_graph_create(&arena, NULL);
}

static bs_buffer dense(void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1, d2, 0}, {0, 0, 0, 0}};
    return b;
}

/* ---------------------------------------------------------------------------------------------------------- arenas */

static void test_arena(void)
{
    static uint8_t memory[1024];
    int wrong = 0;
    for (size_t skip = 0; skip < BS_ALIGNMENT; skip++)
        for (size_t bytes = 0; bytes + skip <= sizeof memory; bytes += 37) {
            bs_arena arena;
            bs_arena_init(&arena, "odd", memory + skip, bytes);
            for (const uint8_t *piece; (piece = bs_arena_take(&arena, 65)) != NULL;)
                wrong += (uintptr_t)piece % BS_ALIGNMENT != 0 || piece < memory + skip ||
                         piece + 65 > memory + skip + bytes;
        }
    check(wrong == 0, "pieces of an arena are aligned and within it, wherever its memory lies");
    bs_error error;
    bs_arena arena;
    bs_arena_init(&arena, "half", memory, sizeof memory);
    bs_arena_take(&arena, sizeof memory / 2);
    const size_t left = arena.size - arena.used;
    bs_graph *g = new_graph();
    bs_output(g, "y", bs_affine(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), 1, 1));
    check(!bs_plan_create(&arena, g, NULL, &error) && error.available == left && arena.used + left == arena.size,
          "what is left is told: %s", error.message);
}

/* --------------------------------------------------------------------------------------------------------- binding */

static bs_graph *plain_net(void)
{
    bs_graph *g = new_graph();
    const bs_dim h = bs_symbol(g, "H", 26), w = bs_symbol(g, "W", 21);
    bs_output(g, "frame_out", bs_affine(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(2, h, w)), 2, 0));
    bs_output(g, "grey_out",
              bs_convert(g, bs_input(g, "grey", BS_U8, BS_SHAPE3(1, h, w)), &(bs_convert_desc){.dtype = BS_F32}));
    bs_output(g, "twice_out",
              bs_affine(g, bs_input(g, "twice", BS_F32, BS_SHAPE3(1, bs_times(g, h, 2), bs_times(g, w, 2))), 3, 0));
    bs_output(g, "line_out", bs_affine(g, bs_input(g, "line", BS_F32, BS_SHAPE1(4)), 1, 1));
    return g;
}

typedef struct wrong_buffer {
    const char *name;
    bs_buffer buffer;
    bs_status status;
    const char *word;
} wrong_buffer;

static float floats[8][8192];

static void test_wrong_buffers(void)
{
    const wrong_buffer wrong[] = {
        {"none", dense(floats, BS_F32, 1, 4, 0, 0), BS_ERROR_ARGUMENT, "\"none\""},
        {"frame", dense(NULL, BS_F32, 3, 2, 5, 6), BS_ERROR_ARGUMENT, "NULL"},
        {"frame", dense(floats, BS_U8, 3, 2, 5, 6), BS_ERROR_SHAPE, "u8 of rank 3 given, f32 of rank 3 expected"},
        {"frame", dense(floats, BS_F32, 2, 5, 6, 0), BS_ERROR_SHAPE, "rank 2"},
        {"frame", dense(floats, BS_F32, 3, 3, 5, 6), BS_ERROR_SHAPE, "dimension 0 is 3, expected 2"},
        {"frame", dense(floats, BS_F32, 3, 1, 5, 6), BS_ERROR_SHAPE, "dimension 0 is 1, expected 2"},
        {"frame", dense(floats, BS_F32, 3, 2, 27, 6), BS_ERROR_SHAPE, "dimension 1 is 27, expected 1<=H<=26"},
        {"frame", dense(floats, BS_F32, 3, 2, 5, 0), BS_ERROR_SHAPE, "dimension 2 is 0, expected 1<=W<=21"},
        {"frame", dense(floats, BS_F32, 3, 2, 5, -1), BS_ERROR_SHAPE, "dimension 2 is -1"},
        {"twice", dense(floats, BS_F32, 3, 1, 53, 6), BS_ERROR_SHAPE, "2H<=52"},
        {"line_out", dense(floats, BS_F32, 1, 5, 0, 0), BS_ERROR_SHAPE, "\"line_out\""},
        {"grey_out", dense(floats, BS_U8, 3, 1, 5, 6), BS_ERROR_SHAPE, "f32 of rank 3 expected"},
    };
    rig r;
    if (!check(rig_plan(&r, plain_net(), NULL) && rig_session(&r, NULL, NULL, 0), "a net without weights needs none"))
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        r.error.arena = "of an older error", r.error.needed = r.error.available = 1;
        const bs_status status = bs_bind(r.session, wrong[i].name, &wrong[i].buffer, &r.error);
        check(status == wrong[i].status && r.error.status == status && strstr(r.error.message, wrong[i].word) &&
                  !r.error.arena && r.error.needed == 0 && r.error.available == 0,
              "%s", r.error.message);
    }
    const bs_buffer b = dense(floats, BS_F32, 1, 4, 0, 0);
    check(bs_bind(NULL, "line", &b, NULL) == BS_ERROR_ARGUMENT &&
              bs_bind(r.session, NULL, &b, NULL) == BS_ERROR_ARGUMENT &&
              bs_bind(r.session, "line", NULL, NULL) == BS_ERROR_ARGUMENT && bs_run(NULL, NULL) == BS_ERROR_ARGUMENT,
          "nothing at all is an error, not a crash");
    bs_session_close(r.session);
}

/* Of a symbol that is bound below what a slice needs; scores that no exponential can hold. */
static void test_hostile_data(void)
{
    rig r;
    bs_graph *g = new_graph();
    const bs_value line_in = bs_input(g, "line", BS_F32, BS_SHAPE1(bs_symbol(g, "N", 8)));
    bs_output(g, "part", bs_slice(g, line_in, &(bs_slice_desc){.start = 2, .length = 4}));
    bs_output(g, "shares", bs_softmax(g, bs_input(g, "scores", BS_F32, BS_SHAPE1(3))));
    if (!check(rig_plan(&r, g, NULL) && rig_session(&r, NULL, NULL, 0), "a slice of a symbol: %s", r.error.message))
        return;
    const bs_buffer scores = dense(floats[0], BS_F32, 1, 3, 0, 0), shares = dense(floats[1], BS_F32, 1, 3, 0, 0),
                    part = dense(floats[3], BS_F32, 1, 4, 0, 0);
    const float large[3] = {1000, -1000, 1001};
    memcpy(floats[0], large, sizeof large);
    bs_bind(r.session, "scores", &scores, NULL);
    bs_bind(r.session, "shares", &shares, NULL);
    bs_bind(r.session, "part", &part, NULL);
    for (int64_t n = 5; n < 7; n++) {
        const bs_buffer line = dense(floats[2], BS_F32, 1, n, 0, 0);
        bs_bind(r.session, "line", &line, NULL);
        const bs_status status = bs_run(r.session, &r.error);
        check(status == (n < 6 ? BS_ERROR_SHAPE : BS_OK), "4 of %lld behind the second: %s", (long long)n,
              bs_status_name(status));
    }
    const float *y = floats[1];
    check(y[1] == 0 && fabsf(y[0] + y[2] - 1) < 1e-6f && y[2] > 2 * y[0], "shares of large scores are %g, %g and %g",
          (double)y[0], (double)y[1], (double)y[2]);
    bs_session_close(r.session);
}

enum { PLAIN = 8 };
static const char *const plain_names[PLAIN] = {"frame",     "grey",     "twice",     "line",
                                               "frame_out", "grey_out", "twice_out", "line_out"};

/* Buffer k of the plain net for a frame of h x w. */
static bs_buffer plain_buffer(int32_t k, int64_t h, int64_t w)
{
    const int32_t kind = k % 4;
    if (kind == 3)
        return dense(floats[k], BS_F32, 1, 4, 0, 0);
    return dense(floats[k], k == 1 ? BS_U8 : BS_F32, 3, kind == 0 ? 2 : 1, kind == 2 ? 2 * h : h,
                 kind == 2 ? 2 * w : w);
}

static bool binds(bs_session *s, int32_t k, int64_t h, int64_t w)
{
    const bs_buffer b = plain_buffer(k, h, w);
    return bs_bind(s, plain_names[k], &b, NULL) == BS_OK;
}

static void test_disagreement(void)
{
    rig r;
    bool ok = rig_plan(&r, plain_net(), NULL);
    for (int32_t missing = 0; missing < PLAIN && ok; missing++) {
        ok = rig_session(&r, NULL, NULL, 0);
        for (int32_t k = 0; k < PLAIN && ok; k++)
            ok = k == missing || binds(r.session, k, 5, 6);
        const bs_status status = ok ? bs_run(r.session, &r.error) : BS_OK;
        char quoted[32];
        snprintf(quoted, sizeof quoted, "\"%s\"", plain_names[missing]);
        check(status == BS_ERROR_UNBOUND && strstr(r.error.message, quoted), "%s", r.error.message);
        check(binds(r.session, missing, 5, 6) && bs_run(r.session, NULL) == BS_OK, "and runs when it is bound");
        bs_session_close(r.session);
    }
    ok = rig_session(&r, NULL, NULL, 0);
    for (int32_t k = 0; k < PLAIN && ok; k++)
        ok = binds(r.session, k, 5, 6);
    for (int32_t k = 0; k < PLAIN && ok; k++) {
        if (k % 4 == 3)
            continue; /* the line has no symbols */
        binds(r.session, k, 5, 7);
        const bs_status status = bs_run(r.session, &r.error);
        check(status == BS_ERROR_SHAPE && strstr(r.error.message, "dimension 2"), "%s alone is wider: %s",
              plain_names[k], r.error.message);
        binds(r.session, k, 5, 6);
    }
    check(ok && bs_run(r.session, NULL) == BS_OK, "buffers that agree again run");
    for (int64_t size = 1; size <= 21 && ok; size += 5) { /* larger, smaller: no new plan, no new session */
        for (int32_t k = 0; k < PLAIN; k++)
            ok = ok && binds(r.session, k, 22 - size, size);
        for (int32_t i = 0; i < 2 * (22 - size) * size; i++)
            floats[0][i] = (float)i;
        ok = ok && bs_run(r.session, NULL) == BS_OK &&
             floats[4][2 * (22 - size) * size - 1] == 2 * (float)(2 * (22 - size) * size - 1);
    }
    check(ok, "sizes change from run to run");
    bs_session_close(r.session);
}

/* A plan that leaves an input out does not ask for it, nor for what its extents are. */
static void test_left_out(void)
{
    static const bs_plan_desc forced = {.n_forces = 1, .forces = {{"r", 0}}};
    bs_graph *g = new_graph();
    const bs_dim rows = bs_symbol(g, "N", 8);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(rows, 2)), (bs_value){0});
    const bs_value score = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(rows, 2)), x);
    const bs_router r = bs_route(g, score, (bs_value){0}, &(bs_route_desc){.name = "r", .paths = 2});
    const bs_value ways[2] = {bs_affine(g, bs_scatter(g, r, 0, x), 2, 0), bs_scatter(g, r, 1, x)};
    rig q;
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, ways, (bs_value){0}, NULL)));
    const bs_buffer b[3] = {dense(floats[0], BS_F32, 2, 5, 2, 0), dense(floats[1], BS_F32, 2, 5, 2, 0),
                            dense(floats[2], BS_F32, 2, 7, 2, 0)};
    bool ok = rig_plan(&q, g, &forced) && rig_session(&q, NULL, NULL, 0) &&
              bs_bind(q.session, "x", &b[0], NULL) == BS_OK && bs_bind(q.session, "y", &b[1], NULL) == BS_OK;
    floats[0][9] = 3;
    check(ok && bs_run(q.session, &q.error) == BS_OK && floats[1][9] == 6,
          "an input that a forced route leaves out need not be bound");
    floats[0][9] = 4;
    check(ok && bs_bind(q.session, "scores", &b[2], NULL) == BS_OK && bs_run(q.session, &q.error) == BS_OK &&
              floats[1][9] == 8,
          "and when it is, its extents are not those of the run %s", q.error.message);
    bs_session_close(q.session);
}

/* Strides by which two elements of what is written would be one. An input may have them. */
static void test_overlap(void)
{
    static const struct {
        int64_t stride[3];
        bool apart;
    } cases[] = {
        {{30, 0, 1}, false},        {{0, 6, 1}, false},         {{30, 6, 0}, false},
        {{30, 5, 1}, false},        {{29, 6, 1}, false},        {{30, -5, 1}, false},
        {{30, 6, -1}, true},        {{30, 6, 1}, true},         {{30, -6, 1}, true},
        {{-30, -6, -1}, true},      {{1, 12, 2}, true},         {{1, 2, 10}, true},
        {{1, 12, 1}, false},        {{1, 11, 2}, false},        {{64, 7, 1}, true},
        {{1, 1, 1}, false},         {{-6, 6, 1}, false},        {{1000, 64, 4}, true},
        {{INT64_MIN, 6, 1}, false}, {{INT64_MAX, 6, 1}, false}, {{1, INT64_MAX / 4, 2}, false},
    };
    rig r;
    if (!check(rig_plan(&r, plain_net(), NULL) && rig_session(&r, NULL, NULL, 0), "a net of %d inputs", PLAIN))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *s = cases[i].stride;
        const bs_buffer b = {floats[4] + 4096, BS_F32, 3, {2, 5, 6, 0}, {s[0], s[1], s[2], 0}};
        const bool far = s[0] == INT64_MIN || s[0] == INT64_MAX || s[1] > 1 << 20;
        check((bs_bind(r.session, "frame_out", &b, &r.error) == BS_OK) == cases[i].apart &&
                  (bs_bind(r.session, "frame", &b, NULL) == BS_OK) == !far,
              "an output by strides %lld, %lld, %lld is %s", (long long)s[0], (long long)s[1], (long long)s[2],
              cases[i].apart ? "bound" : r.error.message);
    }
    const bs_buffer flat = {floats[4], BS_F32, 3, {2, 1, 1, 0}, {1, 0, 0, 0}};
    check(bs_bind(r.session, "frame_out", &flat, NULL) == BS_OK, "strides of dimensions of 1 do not matter");
    bs_session_close(r.session);
    rig q;
    bs_graph *g = new_graph();
    const bs_value memory = bs_state(g, "memory", BS_F32, BS_SHAPE2(4, 2));
    bs_output(g, "old", memory);
    bs_state_write(g, memory, bs_affine(g, memory, 1, 1));
    const bs_buffer one = {floats[0], BS_F32, 2, {4, 2, 0, 0}, {0, 1, 0, 0}};
    check(rig_plan(&q, g, NULL) && rig_session(&q, NULL, NULL, 0) &&
              bs_bind(q.session, "memory", &one, &q.error) == BS_ERROR_ARGUMENT,
          "nor may a state: %s", q.error.message);
    bs_session_close(q.session);
}

/* Buffers that are mirrored (negative strides), or repeat one line (a stride of 0 among others). */
static void test_odd_strides(void)
{
    enum { H = 5, W = 6 };
    rig r;
    bool ok = rig_plan(&r, plain_net(), NULL) && rig_session(&r, NULL, NULL, 0);
    for (int32_t k = 0; k < PLAIN && ok; k++)
        ok = binds(r.session, k, H, W);
    for (int32_t i = 0; i < 2 * H * W; i++)
        floats[0][i] = (float)i;
    const bs_buffer mirrored = {floats[0] + H * W - 1, BS_F32, 3, {2, H, W, 0}, {H * W, -W, -1, 0}};
    ok = ok && bs_bind(r.session, "frame", &mirrored, NULL) == BS_OK && bs_run(r.session, NULL) == BS_OK;
    for (int32_t i = 0; i < 2 * H * W; i++)
        ok = ok && floats[4][i] == 2 * (float)(i / (H * W) * H * W + H * W - 1 - i % (H * W));
    check(ok, "an input that is mirrored by its strides");
    const bs_buffer repeated = {floats[0], BS_F32, 3, {2, H, W, 0}, {W, 0, 1, 0}};
    ok = ok && bs_bind(r.session, "frame", &repeated, NULL) == BS_OK && bs_run(r.session, NULL) == BS_OK;
    for (int32_t i = 0; i < 2 * H * W; i++)
        ok = ok && floats[4][i] == 2 * (float)(i / (H * W) * W + i % W);
    check(ok, "an input that repeats one line");
    const bs_buffer turned = {floats[4], BS_F32, 3, {2, H, W, 0}, {H * W, 1, H, 0}};
    ok = ok && binds(r.session, 0, H, W) && bs_bind(r.session, "frame_out", &turned, NULL) == BS_OK &&
         bs_run(r.session, NULL) == BS_OK;
    for (int32_t i = 0; i < 2 * H * W; i++)
        ok = ok && floats[4][i / (H * W) * H * W + i % W * H + i / W % H] == 2 * (float)i;
    check(ok, "an output that is turned by its strides");
    const bs_buffer upside = {floats[4] + W * (H - 1), BS_F32, 3, {2, H, W, 0}, {H * W, -W, 1, 0}};
    ok = ok && bs_bind(r.session, "frame_out", &upside, NULL) == BS_OK && bs_run(r.session, NULL) == BS_OK;
    for (int32_t i = 0; i < 2 * H * W; i++)
        ok = ok && floats[4][i / (H * W) * H * W + (H - 1 - i / W % H) * W + i % W] == 2 * (float)i;
    check(ok, "an output that is upside down by its strides");
    bs_session_close(r.session);
}

/* ---------------------------------------------------------------------------------------------------------- states */

/* Cells that a callback leaves alone keep the last result. */
static bs_graph *reuse_net(void)
{
    static const int64_t conv[4] = {1, 1, 3, 3}, one[1] = {1};
    bs_graph *g = new_graph();
    net_add_whole(&weights, "conv.weight", 4, conv);
    net_add_whole(&weights, "conv.bias", 1, one);
    const bs_dim h = bs_symbol(g, "H", 26), w = bs_symbol(g, "W", 21);
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(1, h, w)),
                   before = bs_state(g, "before", BS_F32, BS_SHAPE3(1, h, w));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8}),
                   old = bs_patches(g, before, &(bs_patches_desc){.like = cells.id});
    const bs_value change = bs_pool2d(g, bs_sub(g, cells, old), &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1});
    const bs_router r = bs_route(g, change, (bs_value){0},
                                 &(bs_route_desc){.name = "reuse", .protocol = BS_ROUTE_CALLBACK, .paths = 2});
    bs_value out[2] = {{0}, {0}};
    out[1] = bs_conv2d(g, bs_scatter(g, r, 1, cells),
                       &(bs_conv2d_desc){.name = "conv", .out = 1, .act = BS_CLIP, .act_param = 8});
    const bs_value result = bs_assemble(g, bs_gather(g, r, out, old, NULL));
    bs_state_write(g, before, result);
    bs_output(g, "result", result);
    return g;
}

static int32_t two_paths = 2;

static int32_t by_sum(const double *scores, int32_t width, int32_t paths)
{
    (void)width, (void)paths;
    return (int32_t)(scores[0] + 100) % 2;
}

static bs_status by_sum_run(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    for (int32_t r = 0; r < rows; r++) {
        const double score = (double)((const float *)scores->data)[r * scores->row_stride];
        path[r] = by_sum(&score, 1, *(const int32_t *)user);
    }
    return BS_OK;
}

static bool reuse_open(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    memset(&a, 0, sizeof a);
    a.oracle.callback = by_sum;
    return rig_plan(r, g, d) && rig_session(r, &weights.table, NULL, 0xFF) &&
           bs_set_route(r->session, "reuse", by_sum_run, &two_paths, &r->error) == BS_OK;
}

static bool runs(rig *r, const bs_plan_desc *d, int64_t h, int64_t w)
{
    const int64_t extent[3] = {1, h, w};
    against_inputs(&a, r->plan->graph, &weights.table, d, extent);
    memset(r->transient, 0x7F, (size_t)r->sizes.transient); /* nothing is kept there */
    if (against_run(&a, r->session))
        return true;
    printf("  %s\n", a.why);
    return false;
}

static void test_states(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .threads = 2};
        rig r;
        if (!check(reuse_open(&r, reuse_net(), &d), "a net with a state, order %d", order))
            continue;
        const bs_graph *g = r.plan->graph;
        const int32_t result = bs_node_in(g, &g->nodes[g->n_nodes - 1])[0];
        check(r.plan->values[result].place == BS_PLACE_STATE, "the result is made in the state itself, order %d", order);
        bool ok = !bs_state_valid(r.session);
        for (int32_t i = 0; i < 4; i++)
            ok = ok && runs(&r, &d, 26, 21) && bs_state_valid(r.session);
        check(ok, "states go from run to run, order %d", order);
        bs_reset_state(r.session);
        ok = !bs_state_valid(r.session);
        memset(ag_data[1], 0, sizeof ag_data[1]); /* the oracle's state */
        for (int32_t i = 0; i < 3; i++)
            ok = ok && runs(&r, &d, 26, 21);
        check(ok, "after a reset they are zero, order %d", order);
        for (int32_t i = 0; i < 6; i++)
            ok = ok && runs(&r, &d, 9 + i / 2, 20 - i / 2);
        check(ok, "with another size they start anew, order %d", order);
        check(rig_intact(&r), "nothing is written outside the arenas");
        bs_session_close(r.session);
    }
}

/* What else may be done with the last result beside making the next one in its place. */
typedef enum hazard {
    READ_LATER,     /* by a convolution of another region */
    KEPT_ELSEWHERE, /* as the residual of a second gather */
    READ_BESIDE,    /* in the paths that write */
    CONVOLVED_BESIDE,
    GIVEN_OUT,
    READ_AS_A_WHOLE,
    RESULT_READ, /* the new one, by a convolution of the whole frame */
    WRITTEN_TO_TWO,
    HAZARDS
} hazard;

static bs_value hazard_conv(bs_graph *g, bs_value x)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = "conv", .out = 1, .act = BS_CLIP, .act_param = 8});
}

static bs_graph *hazard_net(hazard h)
{
    static const int64_t conv[4] = {1, 1, 3, 3}, one[1] = {1};
    bs_graph *g = new_graph();
    net_add_whole(&weights, "conv.weight", 4, conv);
    net_add_whole(&weights, "conv.bias", 1, one);
    const bs_shape shape = BS_SHAPE3(1, bs_symbol(g, "H", 26), bs_symbol(g, "W", 21));
    const bs_value frame = bs_input(g, "frame", BS_F32, shape), before = bs_state(g, "before", BS_F32, shape);
    const bs_value second = h == WRITTEN_TO_TWO ? bs_state(g, "second", BS_F32, shape) : (bs_value){0};
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8}),
                   old = bs_patches(g, before, &(bs_patches_desc){.like = cells.id});
    const bs_value change = bs_pool2d(g, bs_sub(g, cells, old), &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1});
    const bs_router r = bs_route(g, change, (bs_value){0},
                                 &(bs_route_desc){.name = "reuse", .protocol = BS_ROUTE_CALLBACK, .paths = 2});
    bs_value out[2] = {{0}, hazard_conv(g, bs_scatter(g, r, 1, cells))}, other = {0};
    if (h == READ_BESIDE || h == CONVOLVED_BESIDE)
        out[0] =
            h == READ_BESIDE ? bs_affine(g, bs_scatter(g, r, 0, old), -1, 1) : hazard_conv(g, bs_scatter(g, r, 0, old));
    const bs_value result = bs_assemble(g, bs_gather(g, r, out, old, NULL));
    bs_state_write(g, before, result);
    if (h == READ_LATER)
        other = bs_assemble(g, hazard_conv(g, old));
    if (h == KEPT_ELSEWHERE) {
        const bs_value crossed[2] = {bs_affine(g, bs_scatter(g, r, 0, cells), 2, 0), {0}};
        other = bs_assemble(g, bs_gather(g, r, crossed, old, NULL));
    }
    if (h == READ_AS_A_WHOLE || h == RESULT_READ)
        other = hazard_conv(g, h == RESULT_READ ? result : before);
    if (h == GIVEN_OUT)
        other = before;
    if (h == WRITTEN_TO_TWO) {
        bs_state_write(g, second, result);
        other = bs_sub(g, second, before);
    }
    bs_output(g, "result", result);
    if (other.id)
        bs_output(g, "other", other);
    return g;
}

static void test_state_hazards(void)
{
    static const char *const names[HAZARDS] = {"read later",          "kept elsewhere", "read beside",
                                               "convolved beside",    "given out",      "read as a whole",
                                               "read when it is new", "written to two"};
    for (int32_t h = 0; h < HAZARDS; h++) {
        bool ok = true;
        for (int32_t turn = 0; turn < 4; turn++) {
            const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = 1 + turn % 2, .threads = 1 + turn / 2};
            rig r;
            ok = reuse_open(&r, hazard_net((hazard)h), &d) && ok;
            for (int32_t i = 0; i < 4; i++)
                ok = ok && runs(&r, &d, 26, 21);
            bs_session_close(r.session);
        }
        check(ok, "a state that is %s is what it was when the run began", names[h]);
    }
}

/* A state in the caller's memory, with gaps between its lines. */
static void test_bound_states(void)
{
    enum { H = 13, W = 17, PITCH = 40 };
    static float state[2][H * PITCH + 8];
    bool ok = true, apart = true;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order};
        const bs_buffer b = {state[order - 1], BS_F32, 3, {1, H, W, 0}, {H * PITCH, PITCH, 2, 0}};
        rig r;
        ok = reuse_open(&r, reuse_net(), &d) && bs_bind(r.session, "before", &b, &r.error) == BS_OK && ok;
        for (int32_t i = 0; i < H * PITCH + 8; i++)
            state[order - 1][i] = 77;
        bs_reset_state(r.session);
        check_seed(5);
        for (int32_t i = 0; i < 3; i++)
            ok = ok && runs(&r, &d, H, W);
        for (int32_t i = 0; i < H * PITCH + 8; i++) {
            const bool inside = i / PITCH < H && i % PITCH < 2 * W && i % PITCH % 2 == 0;
            apart = apart && (inside || state[order - 1][i] == 77);
            ok = ok && (!inside || (double)state[order - 1][i] == ag_data[1][i / PITCH * W + i % PITCH / 2]);
        }
        const bs_buffer small = dense(state[0], BS_F32, 3, 1, H - 1, W);
        bs_bind(r.session, "before", &small, NULL);
        ok = ok && bs_run(r.session, &r.error) == BS_ERROR_SHAPE && strstr(r.error.message, "\"before\"");
        bs_session_close(r.session);
    }
    check(ok, "a state lives in the buffer bound to its name: %s",
          "written, read, reset, and refused when it does not fit");
    check(apart, "between its elements nothing is touched");
    check(memcmp(state[0], state[1], sizeof state[0]) == 0, "both orders leave the same bytes in it");
}

/* A state that is bound holds what the caller put there. */
static void test_first_content(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        float state[4] = {1, 2, 3, 4}, out[4] = {0};
        bs_graph *g = new_graph();
        const bs_value s = bs_state(g, "s", BS_F32, BS_SHAPE1(4));
        bs_output(g, "y", s);
        bs_state_write(g, s, bs_affine(g, s, 2, 0));
        rig r;
        const bs_buffer at = dense(state, BS_F32, 1, 4, 0, 0), y = dense(out, BS_F32, 1, 4, 0, 0);
        const bool ok = rig_plan(&r, g, &(bs_plan_desc){.order = order}) && rig_session(&r, &weights.table, NULL, 0) &&
                        bs_bind(r.session, "s", &at, &r.error) == BS_OK &&
                        bs_bind(r.session, "y", &y, &r.error) == BS_OK && bs_run(r.session, &r.error) == BS_OK;
        check(ok && out[0] == 1 && out[3] == 4 && state[0] == 2 && state[3] == 8,
              "what a state holds when it is bound is what the first run reads, order %d: %s", order, r.error.message);
        bs_session_close(r.session);
    }
}

/* What a run reads of a state is what was there when it started, whatever is written first. */
static void test_delay(void)
{
    for (int32_t turn = 0; turn < 2; turn++) {
        bs_graph *g = new_graph();
        const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(1)), one = bs_state(g, "one", BS_F32, BS_SHAPE1(1)),
                       two = bs_state(g, "two", BS_F32, BS_SHAPE1(1));
        float in, out[3] = {-1, -1, -1};
        if (turn == 0)
            bs_state_write(g, one, x);
        bs_state_write(g, two, one);
        if (turn == 1)
            bs_state_write(g, one, x);
        bs_output(g, "now", x);
        bs_output(g, "last", one);
        bs_output(g, "before", two);
        rig r;
        bool ok = rig_plan(&r, g, NULL) && rig_session(&r, NULL, NULL, 0xFF);
        const bs_buffer b[4] = {dense(&in, BS_F32, 1, 1, 0, 0), dense(&out[0], BS_F32, 1, 1, 0, 0),
                                dense(&out[1], BS_F32, 1, 1, 0, 0), dense(&out[2], BS_F32, 1, 1, 0, 0)};
        ok = ok && bs_bind(r.session, "x", &b[0], NULL) == BS_OK && bs_bind(r.session, "now", &b[1], NULL) == BS_OK &&
             bs_bind(r.session, "last", &b[2], NULL) == BS_OK && bs_bind(r.session, "before", &b[3], NULL) == BS_OK;
        for (int32_t i = 1; i <= 5; i++) {
            in = (float)i;
            ok = ok && bs_run(r.session, NULL) == BS_OK && out[0] == (float)i && out[1] == (float)(i - 1) &&
                 out[2] == (float)(i > 2 ? i - 2 : 0);
        }
        check(ok, "two states make a delay of two runs, %s", turn ? "written back to front" : "written front to back");
        bs_session_close(r.session);
    }
}

/* ------------------------------------------------------------------------------------------------------ failed runs */

static void test_failed_runs(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .threads = 2};
        rig r;
        if (!check(reuse_open(&r, reuse_net(), &d) && runs(&r, &d, 26, 21) && runs(&r, &d, 26, 21),
                   "a run before it fails, order %d", order))
            continue;
        *(float *)(void *)ag_buffers[0] = NAN; /* in the frame that is bound */
        const bs_status failed = bs_run(r.session, &r.error);
        check(failed == BS_ERROR_DATA && strstr(r.error.message, "route \"reuse\""), "%s", r.error.message);
        check(!bs_state_valid(r.session), "states are not valid after it");
        *(float *)(void *)ag_buffers[0] = 0;
        check(bs_run(r.session, &r.error) == BS_ERROR_DATA && strstr(r.error.message, "bs_reset_state"), "%s",
              r.error.message);
        bs_reset_state(r.session);
        memset(ag_data[1], 0, sizeof ag_data[1]);
        check(runs(&r, &d, 26, 21) && bs_state_valid(r.session) && runs(&r, &d, 26, 21),
              "after a reset it runs as if new, order %d", order);

        const bs_buffer large = dense(floats, BS_F32, 3, 1, 25, 21);
        bs_bind(r.session, "frame", &large, NULL);
        check(bs_run(r.session, &r.error) == BS_ERROR_SHAPE && runs(&r, &d, 26, 21),
              "a run that was refused before it began leaves them alone");
        bs_set_route(r.session, "reuse", NULL, NULL, NULL);
        check(bs_run(r.session, &r.error) == BS_ERROR_UNBOUND, "no callback: %s", r.error.message);
        bs_session_close(r.session);
    }
}

/* --------------------------------------------------------------------------------------------------- many sessions */

typedef struct pair {
    bs_session *session;
    float frames[4][26 * 21], results[4][26 * 21];
    bool ok;
} pair;

static void *run_pair(void *user)
{
    pair *p = user;
    p->ok = true;
    for (int32_t i = 0; i < 4; i++) {
        const bs_buffer in = dense(p->frames[i], BS_F32, 3, 1, 26, 21),
                        out = dense(p->results[i], BS_F32, 3, 1, 26, 21);
        p->ok = p->ok && bs_bind(p->session, "frame", &in, NULL) == BS_OK &&
                bs_bind(p->session, "result", &out, NULL) == BS_OK && bs_run(p->session, NULL) == BS_OK;
    }
    return NULL;
}

/* Sessions of one plan, in memory of their own. */
static bs_session *another(const rig *r, uint8_t *memory, size_t bytes)
{
    bs_memory m;
    bs_session_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.weights = bs_weights_from_table(&weights.table);
    bs_arena_init(&m.persistent, "persistent", memory, bytes / 2);
    bs_arena_init(&m.transient, "transient", memory + bytes / 2, bytes / 4);
    bs_arena_init(&m.staging, "staging", memory + 3 * bytes / 4, bytes / 4);
    bs_arena_init(&m.slots, "slots", NULL, 0);
    bs_session *s = bs_session_create(&m, r->plan, &desc, NULL);
    if (s)
        bs_set_route(s, "reuse", by_sum_run, &two_paths, NULL);
    return s;
}

static void test_two_sessions(void)
{
    static _Alignas(64) uint8_t memory[4][1 << 20];
    static pair pairs[4];
    rig r;
    bool ok = rig_plan(&r, reuse_net(), &(bs_plan_desc){.threads = 2, .order = BS_ORDER_DEPTH});
    for (int32_t p = 0; p < 4; p++) {
        pairs[p].session = another(&r, memory[p], sizeof memory[p]);
        ok = ok && pairs[p].session;
        for (int32_t i = 0; i < 4 * 26 * 21; i++) /* 2 and 3 do after each other what 0 and 1 do at once */
            pairs[p].frames[i / (26 * 21)][i % (26 * 21)] =
                p < 2 ? (float)(check_below(17) - 8) : pairs[p - 2].frames[i / (26 * 21)][i % (26 * 21)];
    }
    pthread_t threads[2];
    for (int32_t p = 0; p < 2 && ok; p++)
        ok = pthread_create(&threads[p], NULL, run_pair, &pairs[p]) == 0;
    for (int32_t p = 0; p < 2 && ok; p++)
        pthread_join(threads[p], NULL);
    for (int32_t p = 2; p < 4 && ok; p++)
        run_pair(&pairs[p]);
    for (int32_t p = 0; p < 2; p++)
        ok = ok && pairs[p].ok && pairs[p + 2].ok &&
             memcmp(pairs[p].results, pairs[p + 2].results, sizeof pairs[p].results) == 0;
    check(ok && memcmp(pairs[0].results, pairs[1].results, sizeof pairs[0].results) != 0,
          "two sessions of one plan run at once, each with states of its own");
    for (int32_t p = 0; p < 4; p++)
        bs_session_close(pairs[p].session);
}

static void test_thread_counts(void)
{
    static float first[4][26 * 21];
    int32_t same = 0, ran = 0;
    pair p;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
        for (int32_t threads = 1; threads <= 4; threads++) {
            rig r;
            const bs_plan_desc d = {.order = order, .threads = threads};
            if (!reuse_open(&r, reuse_net(), &d))
                continue;
            check_state = 12345;
            for (int32_t i = 0; i < 4 * 26 * 21; i++)
                p.frames[i / (26 * 21)][i % (26 * 21)] = (float)(check_below(17) - 8);
            p.session = r.session;
            run_pair(&p);
            ran += p.ok;
            if (ran == 1)
                memcpy(first, p.results, sizeof first);
            same += memcmp(first, p.results, sizeof first) == 0;
            bs_session_close(r.session);
        }
    check(ran == 8 && same == 8, "1 to 4 threads and both orders give the same bytes");
}

/* ------------------------------------------------------------------------------------------------- a failing
 * platform */

/* POSIX, except that call number `fail` of gate_init and thread_start fails; everything is counted. */
typedef struct flaky {
    const bs_platform *real;
    int32_t calls, fail, gates, threads, waits;
    pthread_t caller;
    atomic_uint_least64_t now; /* every thread asks the clock */
} flaky;

static bool fails(flaky *f) { return ++f->calls == f->fail; }

static int flaky_thread_start(void *user, void *handle, void (*entry)(void *), void *argument)
{
    flaky *f = user;
    if (fails(f) || f->real->thread_start(f->real->user, handle, entry, argument) != 0)
        return -1;
    f->threads++;
    return 0;
}

static void flaky_thread_join(void *user, void *handle)
{
    flaky *f = user;
    f->real->thread_join(f->real->user, handle);
    f->threads--;
}

static int flaky_gate_init(void *user, void *storage)
{
    flaky *f = user;
    if (fails(f) || f->real->gate_init(f->real->user, storage) != 0)
        return -1;
    f->gates++;
    return 0;
}

static void flaky_gate_destroy(void *user, void *storage)
{
    flaky *f = user;
    f->real->gate_destroy(f->real->user, storage);
    f->gates--;
}

static void flaky_gate_lock(void *user, void *storage)
{
    ((flaky *)user)->real->gate_lock(((flaky *)user)->real->user, storage);
}

/* Workers are late at their job: the caller is done with its part and waits. */
static void flaky_gate_unlock(void *user, void *storage)
{
    const flaky *f = user;
    const struct timespec late = {0, 50000};
    f->real->gate_unlock(f->real->user, storage);
    if (!pthread_equal(f->caller, pthread_self()))
        nanosleep(&late, NULL);
}

static void flaky_gate_wake(void *user, void *storage)
{
    ((flaky *)user)->real->gate_wake(((flaky *)user)->real->user, storage);
}

/* Two of three waits come back at once, as a platform's may. */
static void flaky_gate_wait(void *user, void *storage)
{
    flaky *f = user;
    if (++f->waits % 3 == 0) {
        f->real->gate_wait(f->real->user, storage);
        return;
    }
    f->real->gate_unlock(f->real->user, storage);
    f->real->gate_lock(f->real->user, storage);
}

static uint64_t flaky_clock(void *user) { return atomic_fetch_add(&((flaky *)user)->now, 1000); }

static bs_platform flaky_platform(flaky *f, int32_t fail)
{
    bs_platform p;
    memset(&p, 0, sizeof p);
    memset(f, 0, sizeof *f);
    f->real = bs_platform_default();
    f->fail = fail;
    f->caller = pthread_self();
    p.user = f;
    p.thread_start = flaky_thread_start;
    p.thread_join = flaky_thread_join;
    p.gate_init = flaky_gate_init;
    p.gate_destroy = flaky_gate_destroy;
    p.gate_lock = flaky_gate_lock;
    p.gate_unlock = flaky_gate_unlock;
    p.gate_wait = flaky_gate_wait;
    p.gate_wake = flaky_gate_wake;
    return p;
}

static void test_failing_platform(void)
{
    enum { THREADS = 5 };
    const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .threads = THREADS};
    for (int32_t n = 1; n <= THREADS + 1; n++) { /* a gate, then 4 workers; the last time nothing fails */
        flaky f;
        rig r;
        const bs_platform platform = flaky_platform(&f, n);
        memset(&a, 0, sizeof a);
        a.oracle.callback = by_sum;
        const bool made = rig_plan(&r, reuse_net(), &d) && rig_session(&r, &weights.table, &platform, 0xFF);
        if (n == THREADS + 1) {
            check(made && f.threads == THREADS - 1 && f.gates == 1, "a session with %d workers", f.threads);
        } else {
            check(!made && r.error.status == BS_ERROR_PLATFORM, "call %d fails: %s", n, r.error.message);
            check(f.threads == 0 && f.gates == 0 && r.memory.persistent.used == 0 && r.memory.transient.used == 0,
                  "nothing is left running or taken");
            check(rig_session(&r, &weights.table, &platform, 0xFF), "the next attempt works");
        }
        bs_set_route(r.session, "reuse", by_sum_run, &two_paths, NULL);
        bool ok = true;
        for (int32_t i = 0; i < (n > THREADS ? 200 : 2); i++)
            ok = ok && runs(&r, &d, 26, 21) && atomic_load(&r.session->pool.busy) == 0;
        check(ok, "and runs; when it returns every worker is done, however often waits return for nothing");
        bs_session_close(r.session);
        check(f.threads == 0 && f.gates == 0, "closing joins every worker (%d waits)", f.waits);
    }
}

static void test_other_platforms(void)
{
    const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .threads = 3};
    bs_platform none;
    rig r;
    memset(&none, 0, sizeof none);
    memset(&a, 0, sizeof a);
    a.oracle.callback = by_sum;
    bool ok = rig_plan(&r, reuse_net(), &d) && rig_session(&r, &weights.table, &none, 0xFF);
    if (ok)
        bs_set_route(r.session, "reuse", by_sum_run, &two_paths, NULL);
    check(ok && runs(&r, &d, 26, 21), "a platform without threads runs all on the calling one");
    bs_session_close(r.session);

    flaky f;
    bs_platform scripted = flaky_platform(&f, 0);
    scripted.clock_ns = flaky_clock;
    memset(&a, 0, sizeof a);
    a.oracle.callback = by_sum;
    bs_run_stats before, after;
    ok = rig_session(&r, &weights.table, &scripted, 0xFF);
    bs_set_route(r.session, "reuse", by_sum_run, &two_paths, NULL);
    ok = ok && runs(&r, &d, 26, 21);
    bs_session_stats(r.session, &before);
    ok = ok && runs(&r, &d, 26, 21);
    bs_session_stats(r.session, &after);
    check(ok && before.runs == 1 && after.runs == 2 && after.total_ns > after.routing_ns && after.routing_ns > 0 &&
              after.total_ns < f.now,
          "times are the platform's: %d ns of a scripted clock, %d of them routing", (int)after.total_ns,
          (int)after.routing_ns);
    bs_session_close(r.session);
    bs_session_close(NULL);
}

/* ---------------------------------------------------------------------------------------------------- failing
 * weights */

typedef struct source {
    bs_weights real;
    int32_t calls, fail;
} source;

static bs_status source_find(const void *user, const char *name, bs_weight_info *info)
{
    source *s = (source *)(uintptr_t)user;
    return ++s->calls == s->fail ? BS_ERROR_IO : s->real.find(s->real.user, name, info);
}

static bs_status source_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    source *s = (source *)(uintptr_t)user;
    return ++s->calls == s->fail ? BS_ERROR_IO : s->real.read(s->real.user, info, offset, buffer, bytes);
}

static void test_failing_weights(void)
{
    const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT};
    rig r;
    bs_session_desc desc;
    source s;
    bool ok = rig_plan(&r, reuse_net(), &d);
    memset(&desc, 0, sizeof desc);
    int32_t refused = 0;
    for (int32_t n = 1; n <= 5 && ok; n++) { /* find and read of two tensors */
        s = (source){bs_weights_from_table(&weights.table), 0, n};
        desc.weights = (bs_weights){.user = &s, .find = source_find, .read = source_read};
        rig_session(&r, NULL, NULL, 0xFF); /* lays out the arenas; without weights it refuses */
        refused += r.session == NULL && r.error.status == BS_ERROR_WEIGHTS && r.memory.persistent.used == 0;
        bs_session *made = bs_session_create(&r.memory, r.plan, &desc, &r.error);
        if (n <= 4)
            check(!made && r.error.status == BS_ERROR_IO && strstr(r.error.message, "\"conv.") &&
                      r.memory.persistent.used == 0,
                  "call %d fails: %s", n, r.error.message);
        else
            check(made != NULL && s.calls == 4, "read once, nothing fails");
        bs_session_close(made);
    }
    check(refused == 5, "without weights: %s", "the op that needs them is named");
    weights.tensors[0].dim[0] = 2;
    check(!rig_session(&r, &weights.table, NULL, 0) && r.error.status == BS_ERROR_WEIGHTS &&
              strstr(r.error.message, "[2, 1, 3, 3]"),
          "%s", r.error.message);
    weights.tensors[0].dim[0] = 1;
    weights.tensors[0].name = "other";
    check(!rig_session(&r, &weights.table, NULL, 0) && r.error.status == BS_ERROR_WEIGHTS &&
              strstr(r.error.message, "conv.weight"),
          "%s", r.error.message);
}

/* ------------------------------------------------------------------------------------------------------ look-ahead */

/* Memory for slots, but no path with weights: there is nothing to read, and nothing to say ahead about it. */
static void test_nothing_to_read(void)
{
    enum { ROWS = 8, PATHS = 16 };
    static float x[ROWS][PATHS], y[ROWS][PATHS];
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        bs_graph *g = new_graph();
        const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, PATHS)), (bs_value){0});
        bs_value out[PATHS];
        bs_look_ahead(g, rows, "route");
        const bs_router route = bs_route(g, rows, (bs_value){0},
                                         &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TOP1, .paths = PATHS});
        for (int32_t p = 0; p < PATHS; p++)
            out[p] = bs_affine(g, bs_scatter(g, route, p, rows), 2, (float)p);
        bs_output(g, "y", bs_collect(g, bs_gather(g, route, out, (bs_value){0}, NULL)));
        for (int32_t i = 0; i < ROWS * PATHS; i++)
            x[i / PATHS][i % PATHS] = i % PATHS == i / PATHS ? 9 : (float)(i % 5);
        rig r;
        const bs_buffer in = dense(x, BS_F32, 2, ROWS, PATHS, 0), to = dense(y, BS_F32, 2, ROWS, PATHS, 0);
        const bool ok = rig_plan(&r, g, &(bs_plan_desc){.order = order, .slot_bytes = 1 << 16}) &&
                        rig_session(&r, &weights.table, NULL, 0x5A) &&
                        bs_bind(r.session, "x", &in, &r.error) == BS_OK &&
                        bs_bind(r.session, "y", &to, &r.error) == BS_OK && bs_run(r.session, &r.error) == BS_OK;
        check(ok && rig_intact(&r) && y[3][3] == 21 && y[7][0] == 2 * x[7][0] + 7,
              "slots that nothing is read into, order %d: %s", order, r.error.message);
        bs_session_close(r.session);
    }
}

/* ---------------------------------------------------------------------------------------------------------- asking */

static void test_asking(void)
{
    const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = BS_ORDER_DEPTH};
    rig r;
    bs_decision decision;
    bs_error error;
    bool ok = reuse_open(&r, reuse_net(), &d) && runs(&r, &d, 26, 21) &&
              bs_decision_get(r.session, "reuse", &decision) == BS_OK;
    int32_t counts[2] = {0, 0};
    for (int32_t c = 0; ok && c < decision.cells; c++)
        counts[decision.chosen[c]]++;
    check(ok && decision.paths == 2 && decision.cells == 12 && counts[0] == decision.counts[0] &&
              counts[1] == decision.counts[1],
          "a decision is told cell by cell");
    check(bs_decision_get(r.session, "none", &decision) == BS_ERROR_ARGUMENT &&
              bs_decision_get(NULL, "reuse", &decision) == BS_ERROR_ARGUMENT &&
              bs_decision_get(r.session, "reuse", NULL) == BS_ERROR_ARGUMENT && !bs_state_valid(NULL),
          "what does not exist has no decision");
    bs_session_close(r.session);
    check(!bs_session_create(NULL, r.plan, NULL, &error) && error.status == BS_ERROR_ARGUMENT &&
              !bs_session_create(&r.memory, NULL, NULL, &error) && error.status == BS_ERROR_ARGUMENT,
          "no memory or no plan is an error");
    check(!bs_tier_available(BS_TIER_NEON) || !bs_tier_available(BS_TIER_AVX2), "no processor has the tiers of two");
    for (int32_t tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++) {
        const bs_plan_desc of_tier = {.tier = tier};
        if (bs_tier_available((bs_tier)tier) || !rig_plan(&r, reuse_net(), &of_tier))
            continue;
        check(!rig_session(&r, &weights.table, NULL, 0) && r.error.status == BS_ERROR_UNSUPPORTED &&
                  strstr(r.error.message, bs_tier_name((bs_tier)tier)),
              "planned for another machine: %s", r.error.message);
    }
}

int main(void)
{
    test_arena();
    check_seed(1);
    test_wrong_buffers();
    test_hostile_data();
    test_disagreement();
    test_left_out();
    test_overlap();
    test_odd_strides();
    test_states();
    test_state_hazards();
    test_bound_states();
    test_first_content();
    test_delay();
    test_failed_runs();
    test_two_sessions();
    test_thread_counts();
    test_failing_platform();
    test_other_platforms();
    test_failing_weights();
    test_nothing_to_read();
    test_asking();
    return check_end();
}
