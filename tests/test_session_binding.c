/* tags: asan shipped aarch64 32-bit */
/* Promises: what does not fit is refused by name before anything runs: buffers, extents that disagree, strides by which
 * elements overlap. What a session is asked, it tells. */
#include "state_rig.h"

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

/* A linear of whole numbers, of one line and of several: run after run, from buffer to buffer. What a session keeps of
 * its calls from run to run must not outlive what was bound. */
static void test_bound_anew(void)
{
    enum { MOST = 4, WIDE = 3, OUT = 2 };
    static const int64_t matrix[2] = {OUT, WIDE};
    static const int32_t lines[] = {1, 1, 3, 3, 4, 2, 1, 4};
    rig r;
    bs_graph *g = new_graph();
    net_add_whole(&weights, "fc.weight", 2, matrix);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "M", MOST), WIDE));
    bs_output(g, "y", bs_linear(g, x, &(bs_linear_desc){.name = "fc", .out = OUT, .no_bias = 1}));
    if (!check(rig_plan(&r, g, NULL) && rig_session(&r, &weights.table, NULL, 0), "lines: %s", r.error.message))
        return;
    const float *w = weights.tensors[0].data;
    int32_t wrong = 0;
    for (size_t run = 0; run < 2 * sizeof lines / sizeof *lines; run++) {
        float *in = floats[run / 2 % 3], *out = floats[3 + run / 3 % 3]; /* some runs with what was bound before */
        const bs_buffer from = dense(in, BS_F32, 2, lines[run / 2], WIDE, 0),
                        to = dense(out, BS_F32, 2, lines[run / 2], OUT, 0);
        for (int32_t i = 0; i < lines[run / 2] * WIDE; i++)
            in[i] = (float)(((int32_t)run * 7 + i * 5) % 11 - 5);
        memset(out, 0x7F, MOST * OUT * sizeof *out);
        if (run % 2 == 0)
            bs_bind(r.session, "x", &from, NULL);
        if (run % 2 == 0 || run % 3 == 0)
            bs_bind(r.session, "y", &to, NULL);
        wrong += bs_run(r.session, &r.error) != BS_OK;
        for (int32_t i = 0; i < lines[run / 2] * OUT; i++) {
            double sum = 0;
            for (int32_t k = 0; k < WIDE; k++)
                sum += (double)in[i / OUT * WIDE + k] * (double)w[i % OUT * WIDE + k];
            wrong += (double)out[i] != sum;
        }
    }
    check(wrong == 0, "%d results of lines bound anew are wrong", wrong);
    bs_session_close(r.session);
}

/* The same around paths and in a loop: rows by their labels times 3, or plus 1, then three trips of 2 v + 1. Buffers
 * differ in their address, extents or strides alone, or in nothing. */
static void test_bound_around_paths(void)
{
    enum { MOST = 4, WIDE = 3, APART = 16 };
    static const int32_t lines[] = {1, 1, 1, 2, 1, 4, 4, 1};
    static int32_t label[MOST];
    rig r;
    bs_graph *g = new_graph();
    const bs_dim m = bs_symbol(g, "M", MOST);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(m, WIDE)), BS_NONE),
                   labels = bs_rows(g, bs_input(g, "label", BS_I32, BS_SHAPE2(m, 1)), x), twice = bs_affine(g, x, 2, 0);
    const bs_router route =
        bs_route(g, labels, BS_NONE, &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_LABEL, .paths = 2});
    const bs_value of[2] = {bs_affine(g, bs_scatter(g, route, 0, twice), 1, 1),
                            bs_affine(g, bs_scatter(g, route, 1, twice), 3, 0)},
                   first = bs_affine(g, bs_gather(g, route, of, BS_NONE, NULL), 1, 10);
    const bs_router loop = bs_loop_begin(g, x, BS_NONE, &(bs_loop_desc){.name = "loop", .bound = 3});
    const bs_value v = bs_loop_carry(g, loop, first), last = bs_loop_next(g, loop, v, bs_affine(g, v, 2, 1)),
                   number = bs_loop_trip(g, loop);
    bs_loop_end(g, loop, bs_affine(g, bs_convert(g, number, &(bs_convert_desc){.dtype = BS_F32}), -1, 2));
    bs_output(g, "y", bs_collect(g, last));
    const bs_plan_desc desc = {.threads = 1};
    if (!check(rig_plan(&r, g, &desc) && rig_session(&r, NULL, NULL, 0), "paths and trips: %s", r.error.message))
        return;
    int32_t wrong = 0;
    for (int32_t run = 0; run < 96; run++) {
        const int32_t rows = lines[run / 3 % 8], apart = 1 + run / 5 % 2;
        float *in = floats[run / 7 % 2], *out = floats[3 + run / 11 % 2];
        bs_buffer from = dense(in, BS_F32, 2, rows, WIDE, 0), to = dense(out, BS_F32, 2, rows, WIDE, 0);
        const bs_buffer labelled = dense(label, BS_I32, 2, rows, 1, 0);
        from.stride[0] = to.stride[0] = APART;
        from.stride[1] = apart;
        to.stride[1] = 3 - apart;
        for (int32_t i = 0; i < rows; i++)
            label[i] = (run + i) * 5 % 3 % 2;
        for (int32_t i = 0; i < MOST * APART; i++)
            in[i] = (float)((run * 7 + i * 5) % 11 - 5);
        memset(out, 0x7F, MOST * APART * sizeof *out);
        bs_bind(r.session, "x", &from, NULL);
        bs_bind(r.session, "label", &labelled, NULL);
        bs_bind(r.session, "y", &to, NULL);
        wrong += bs_run(r.session, &r.error) != BS_OK;
        for (int32_t i = 0; i < rows * WIDE; i++) {
            const float given = 2 * in[i / WIDE * APART + i % WIDE * apart],
                        routed = (label[i / WIDE] ? 3 * given : given + 1) + 10;
            wrong += out[i / WIDE * APART + i % WIDE * (3 - apart)] != 8 * routed + 7;
        }
    }
    check(wrong == 0, "%d numbers differ from run to run, from buffer to buffer", (int)wrong);
    bs_session_close(r.session);
}

/* Of a symbol that is bound below what is reflected. */
static void test_reflected(void)
{
    rig r;
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "image", BS_F32, BS_SHAPE3(1, bs_symbol(g, "N", 8), 2));
    bs_output(g, "padded", bs_pad(g, x, &(bs_pad_desc){.top = 5, .edge = BS_EDGE_REFLECT}));
    if (!check(rig_plan(&r, g, NULL) && rig_session(&r, NULL, NULL, 0), "an image of a symbol: %s", r.error.message))
        return;
    for (int64_t n = 5; n < 7; n++) {
        const bs_buffer image = dense(floats[1], BS_F32, 3, 1, n, 2), padded = dense(floats[2], BS_F32, 3, 1, n + 5, 2);
        bs_bind(r.session, "image", &image, NULL);
        bs_bind(r.session, "padded", &padded, NULL);
        const bs_status status = bs_run(r.session, &r.error);
        check(status == (n < 6 ? BS_ERROR_SHAPE : BS_OK), "5 of %lld lines reflected: %s", (long long)n,
              bs_status_name(status));
    }
    bs_session_close(r.session);
}

/* Of a symbol that is bound below the lines that indices stand beside; there are as many of these in all runs, or as
 * many as another symbol says. */
static void test_lines_of_indices(bool other)
{
    rig r;
    bs_graph *g = new_graph();
    static const int32_t index[6][2] = {{2, 0}, {1, 1}, {0, 2}, {2, 2}, {0, 0}, {1, 2}};
    const bs_value table = bs_input(g, "table", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 8), 3));
    const bs_dim lines = other ? bs_symbol(g, "M", 8) : 6;
    bs_output(g, "found", bs_gather_elements(g, table, bs_input(g, "index", BS_I32, BS_SHAPE2(lines, 2)), 1));
    if (!check(rig_plan(&r, g, NULL) && rig_session(&r, NULL, NULL, 0), "lines of a symbol: %s", r.error.message))
        return;
    const bs_buffer indices = {(void *)(uintptr_t)index, BS_I32, 2, {6, 2}, {0}},
                    found = dense(floats[1], BS_F32, 2, 6, 2, 0);
    bs_bind(r.session, "index", &indices, NULL);
    bs_bind(r.session, "found", &found, NULL);
    for (int64_t n = 5; n < 7; n++) {
        const bs_buffer rows = dense(floats[2], BS_F32, 2, n, 3, 0);
        bs_bind(r.session, "table", &rows, NULL);
        const bs_status status = bs_run(r.session, &r.error);
        check(status == (n < 6 ? BS_ERROR_SHAPE : BS_OK), "indices beside 6 lines of %lld: %s", (long long)n,
              bs_status_name(status));
    }
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
    check_seed(1);
    test_wrong_buffers();
    test_hostile_data();
    test_bound_anew();
    test_bound_around_paths();
    test_lines_of_indices(false);
    test_lines_of_indices(true);
    test_reflected();
    test_disagreement();
    test_left_out();
    test_overlap();
    test_odd_strides();
    test_asking();
    return check_end();
}
