/* modules.c - a program that uses what a build of brainstorm.c has, and nothing of what is left out.
 *
 * Owns: one network (a convolution and a pool on an image; a router with three experts on rows), which gives the same
 * whatever is left out, and one check for each module, of either kind. Relies on the two public headers alone, compiled
 * with the macros of the object beside it. Must never: look inside. (tests/modules.sh builds and runs it.) */
#include "brainstorm_replay.h"
#include "check.h"

#include <math.h>

enum { ROWS = 12, WIDTH = 8, EXPERTS = 3, CHANNELS = 16, SIDE = 12, POOLED = SIDE / 2, SCORE_AT = 64 };
enum { FLOATS = CHANNELS * CHANNELS * 9 + CHANNELS + EXPERTS * WIDTH + EXPERTS * WIDTH * WIDTH };

static BS_ALIGNED uint8_t persistent[1 << 20], transient[1 << 20], staging[1 << 20], slots[1 << 16];
static float image[CHANNELS][SIDE][SIDE], pooled[CHANNELS][POOLED][POOLED];
static float rows[ROWS][WIDTH], answers[ROWS][WIDTH];
static BS_ALIGNED float weights[FLOATS];

/* -------------------------------------------------------------------------------------------------- weights */

static float *const conv_weight = weights, *const conv_bias = weights + CHANNELS * CHANNELS * 9,
                    *const score_weight = weights + CHANNELS * CHANNELS * 9 + CHANNELS,
                    *const expert_weight = weights + CHANNELS * CHANNELS * 9 + CHANNELS + EXPERTS * WIDTH;

static const bs_tensor tensors[] = {
    {"conv.weight", BS_F32, 4, {CHANNELS, CHANNELS, 3, 3}, weights},
    {"conv.bias", BS_F32, 1, {CHANNELS}, weights + CHANNELS * CHANNELS * 9},
    {"score.weight", BS_F32, 2, {EXPERTS, WIDTH}, weights + CHANNELS * CHANNELS * 9 + CHANNELS},
#define EXPERT(i) weights + CHANNELS * CHANNELS * 9 + CHANNELS + EXPERTS * WIDTH + (i) * WIDTH * WIDTH
    {"expert0.weight", BS_F32, 2, {WIDTH, WIDTH}, EXPERT(0)},
    {"expert1.weight", BS_F32, 2, {WIDTH, WIDTH}, EXPERT(1)},
    {"expert2.weight", BS_F32, 2, {WIDTH, WIDTH}, EXPERT(2)},
};
static const bs_tensor_table table = {tensors, sizeof tensors / sizeof *tensors};

/* Whole numbers: sums are exact in whatever order. A row's score is largest for the expert of its number. */
static void fill(void)
{
    uint32_t state = 1;
    float *const all[] = {weights, &image[0][0][0], &rows[0][0]};
    const int count[] = {FLOATS, CHANNELS * SIDE * SIDE, ROWS * WIDTH};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < count[k]; i++) {
            state = state * 1664525u + 1013904223u;
            all[k][i] = (float)(int)(state >> 30) - 1.0f;
        }
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < EXPERTS; i++)
            rows[r][i] = i == r % EXPERTS ? 4.0f : 0.0f;
    for (int e = 0; e < EXPERTS; e++)
        for (int i = 0; i < WIDTH; i++)
            score_weight[e * WIDTH + i] = i == e ? SCORE_AT : 0.0f;
}

#ifndef BS_NO_STREAM
/* The same table as storage: what is read is a copy of `weights`, a record an expert. */
static int32_t expert_of(const bs_weight_info *info)
{
    const ptrdiff_t at = (const float *)tensors[info->handle].data - expert_weight;
    return at < 0 ? -1 : (int32_t)(at / (WIDTH * WIDTH));
}

static bs_status find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    for (int32_t i = 0; i < table.count; i++)
        if (strcmp(name, tensors[i].name) == 0) {
            const bs_status found = bs_weights_from_table(&table).find(&table, name, info);
            info->handle = (uint64_t)i;
            return found;
        }
    return BS_ERROR_WEIGHTS;
}

static bs_status read_weight(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    memcpy(buffer, (const char *)tensors[info->handle].data + offset, bytes);
    return BS_OK;
}

static bs_status locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    (void)user;
    *block = 1 + expert_of(info);
    *offset = (uint64_t)((const char *)tensors[info->handle].data - (const char *)weights);
    return BS_OK;
}

static bs_status record(const void *user, int32_t block, bs_record *r)
{
    (void)user;
    memset(r, 0, sizeof *r);
    if (block < 1 || block > EXPERTS)
        return BS_ERROR_ARGUMENT;
    r->offset = (uint64_t)((const char *)(expert_weight + (block - 1) * WIDTH * WIDTH) - (const char *)weights);
    r->bytes = WIDTH * WIDTH * sizeof(float);
    return BS_OK;
}

static bs_status fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    if (offset + bytes > sizeof weights)
        return BS_ERROR_IO;
    memcpy(buffer, (const char *)weights + offset, bytes);
    return BS_OK;
}
#endif

/* -------------------------------------------------------------------------------------------------- network */

static bs_value expert(bs_graph *g, bs_value x, void *user)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = user, .out = WIDTH, .no_bias = 1, .act = BS_RELU});
}

static void build(bs_graph *g)
{
    static char *const names[] = {"expert0", "expert1", "expert2"};
    bs_value x = bs_input(g, "image", BS_F32, BS_SHAPE3(CHANNELS, SIDE, SIDE)), out[EXPERTS];
    x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "conv", .out = CHANNELS});
    bs_output(g, "pooled", bs_pool2d(g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX}));
    x = bs_rows(g, bs_input(g, "rows", BS_F32, BS_SHAPE2(ROWS, WIDTH)), (bs_value){0});
    const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = "score", .out = EXPERTS, .no_bias = 1});
    const bs_router route = bs_route(g, score, (bs_value){0}, &(bs_route_desc){.name = "route", .paths = EXPERTS});
    for (int32_t e = 0; e < EXPERTS; e++)
        out[e] = bs_branch(g, route, e, names[e], x, expert, names[e]);
    bs_output(g, "answers", bs_collect(g, bs_gather(g, route, out, (bs_value){0}, NULL)));
}

static bool image_is_right(void)
{
    for (int o = 0; o < CHANNELS; o++)
        for (int y = 0; y < POOLED; y++)
            for (int x = 0; x < POOLED; x++) {
                float best = -INFINITY;
                for (int at = 0; at < 4; at++) {
                    float sum = conv_bias[o];
                    for (int c = 0; c < CHANNELS; c++)
                        for (int k = 0; k < 9; k++) {
                            const int v = 2 * y + at / 2 + k / 3 - 1, u = 2 * x + at % 2 + k % 3 - 1;
                            if (v >= 0 && v < SIDE && u >= 0 && u < SIDE)
                                sum += conv_weight[(o * CHANNELS + c) * 9 + k] * image[c][v][u];
                        }
                    best = fmaxf(best, sum);
                }
                if (!(fabsf(best - pooled[o][y][x]) < 1e-3f))
                    return false;
            }
    return true;
}

static bool answers_are_right(void)
{
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < WIDTH; o++) {
            float sum = 0;
            for (int i = 0; i < WIDTH; i++)
                sum += expert_weight[(r % EXPERTS * WIDTH + o) * WIDTH + i] * rows[r][i];
            if (answers[r][o] != fmaxf(sum, 0))
                return false;
        }
    return true;
}

typedef struct world {
    bs_memory memory;
    bs_graph *graph;
    const bs_plan *plan;
    bs_session *session;
    bs_error error;
} world;

/* A build with a planner leaves an image of each plan in this folder, one without opens the same ones. */
static const char *folder = "";
static BS_ALIGNED uint8_t images[12][1 << 14];

static FILE *image_file(int number, const char *mode)
{
    char path[512];
    snprintf(path, sizeof path, "%s/plan-%d", folder, number);
    return *folder ? fopen(path, mode) : NULL;
}

static const bs_plan *plan_of(world *w, const bs_plan_desc *desc)
{
    static int n_images;
    const int number = n_images++ % (int)(sizeof images / sizeof *images);
    uint8_t *const bytes = images[number];
#ifndef BS_NO_PLANNER
    bs_plan *made = bs_plan_create(&w->memory.persistent, NULL, w->graph, desc, &w->error);
    const size_t size = bs_plan_image_bytes(made);
    FILE *file = made ? image_file(number, "wb") : NULL;
    if (file && (bs_plan_save(made, bytes, sizeof images[0], NULL) != BS_OK || fwrite(bytes, 1, size, file) != size))
        made = NULL;
#else
    FILE *file = image_file(number, "rb");
    const size_t size = file ? fread(bytes, 1, sizeof images[0], file) : 0;
    const bs_plan *made = bs_plan_open(&w->memory.persistent, NULL, w->graph, bytes, size, &w->error);
    (void)desc;
#endif
    if (file)
        fclose(file);
    return made;
}

static bool plan(world *w, const bs_plan_desc *desc)
{
    memset(w, 0, sizeof *w);
    bs_arena_init(&w->memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&w->memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&w->memory.staging, "staging", staging, sizeof staging);
    bs_arena_init(&w->memory.slots, "slots", slots, sizeof slots);
    w->graph = bs_graph_create(&w->memory.persistent, NULL);
    build(w->graph);
    w->plan = plan_of(w, desc);
    return w->plan != NULL;
}

static bool run(world *w, const bs_session_desc *desc)
{
    const bs_buffer bound[] = {{image, BS_F32, 3, {CHANNELS, SIDE, SIDE}, {0}},
                               {pooled, BS_F32, 3, {CHANNELS, POOLED, POOLED}, {0}},
                               {rows, BS_F32, 2, {ROWS, WIDTH}, {0}},
                               {answers, BS_F32, 2, {ROWS, WIDTH}, {0}}};
    static const char *const names[] = {"image", "pooled", "rows", "answers"};
    memset(pooled, 0, sizeof pooled);
    memset(answers, 0, sizeof answers);
    w->session = bs_session_create(&w->memory, w->plan, desc, &w->error);
    for (int i = 0; w->session && i < 4; i++)
        if (bs_bind(w->session, names[i], &bound[i], &w->error) != BS_OK)
            return false;
    return w->session && bs_run(w->session, &w->error) == BS_OK && image_is_right() && answers_are_right();
}

/* --------------------------------------------------------------------------------------------------- checks */

static void check_network(void)
{
    static world w;
    const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
    check(plan(&w, NULL) && run(&w, &desc), "a convolution, a pool and routed experts give what they should: %s",
          w.error.message);
    bs_session_close(w.session);
    bs_decision went;
    const int32_t threads = 2;
    check(plan(&w, &(bs_plan_desc){.threads = threads, .tier = BS_TIER_SCALAR}) && run(&w, &desc) &&
              bs_decision_get(w.session, "route", &went) == BS_OK && went.counts[0] == ROWS / EXPERTS,
          "and so they do on two threads of the scalar tier: %s", w.error.message);
    bs_session_close(w.session);
}

static void check_stream(void)
{
    static world w;
#ifdef BS_NO_STREAM
    const bool planned = plan(&w, &(bs_plan_desc){.slot_bytes = 4096});
#ifdef BS_NO_PLANNER
    check(!planned && w.error.status == BS_ERROR_FORMAT, "there is no image of a plan with slots: %s",
          w.error.message);
#else
    check(!planned && w.error.status == BS_ERROR_UNSUPPORTED, "slots are refused: %s", w.error.message);
#endif
#if !defined(BS_NO_MESSAGES) && !defined(BS_NO_PLANNER)
    check(strstr(w.error.message, "BS_NO_STREAM") != NULL, "and the message says why");
#endif
#else
    bs_stream_plan all;
    bs_stream_stats stats;
    const bs_weights source = {NULL, find, read_weight, NULL, locate, record, fetch, NULL, 4, 0};
    const bs_session_desc desc = {.weights = source};
    plan(&w, &(bs_plan_desc){.slot_bytes = UINT64_MAX});
    bs_plan_stream_get(w.plan, &all);
    check(all.units == EXPERTS, "%d units can come and go", (int)all.units);
    check(plan(&w, &(bs_plan_desc){.slot_bytes = all.least_bytes}) && run(&w, &desc),
          "experts that take turns in one slot give the same: %s", w.error.message);
    bs_session_stream_stats(w.session, &stats);
    check(stats.misses + stats.late + stats.hits == EXPERTS && stats.loads >= EXPERTS, "%d loads",
          (int)stats.loads);
    bs_session_close(w.session);
#endif
}

#ifndef BS_NO_PROFILE
typedef struct written {
    size_t bytes;
    char data[1 << 14];
} written;

static int write_profile(void *user, const void *data, size_t bytes)
{
    written *to = user;
    if (bytes > sizeof to->data - to->bytes)
        return -1;
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
    return 0;
}

#ifndef BS_NO_REPLAY
static int64_t read_profile(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const written *from = user;
    const size_t left = offset < from->bytes ? from->bytes - (size_t)offset : 0;
    bytes = bytes < left ? bytes : left;
    if (bytes > 0)
        memcpy(buffer, from->data + offset, bytes);
    return (int64_t)bytes;
}

static void check_reading(written *file)
{
    static BS_ALIGNED uint8_t memory[1 << 16];
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_event event;
    int cells = 0;
    const bs_reader reader = {file, read_profile, file->bytes, 0};
    bs_arena_init(&arena, "reading", memory, sizeof memory);
    bs_profile_reader *profile = bs_profile_open(&arena, &reader, &error);
    while (profile && bs_profile_next(profile, &event, &error))
        cells += event.kind == BS_EVENT_DECISION ? (int)event.value : 0;
    check(profile && cells == ROWS, "a profile tells where %d rows went: %s", cells, error.message);
}
#endif
#endif

static void check_profile(void)
{
#ifndef BS_NO_PROFILE
    static world w;
    static written file;
    static BS_ALIGNED uint8_t ring[1 << 13];
    const bs_profile_desc desc = {NULL, write_profile, &file, ring, sizeof ring, 0};
    const bool planned = plan(&w, NULL);
    bs_profile *profile = bs_profile_create(&w.memory.persistent, &desc, &w.error);
    const bs_session_desc with = {.weights = bs_weights_from_table(&table), .profile = profile};
    const bool ran = planned && profile && run(&w, &with);
    bs_session_close(w.session);
    check(ran && bs_profile_close(profile, NULL) == BS_OK && file.bytes > 0, "a run is recorded: %s", w.error.message);
#ifndef BS_NO_REPLAY
    check_reading(&file);
#endif
#endif
}

static void check_replay(void)
{
#if !defined(BS_NO_STREAM) && !defined(BS_NO_REPLAY)
    static BS_ALIGNED uint8_t memory[1 << 16];
    bs_trace trace;
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_replay_result result;
    const bs_trace_unit units[2] = {{"a", 100, 100}, {"b", 100, 100}};
    const bs_trace_phase phases[2] = {{0, 0, 1}, {0, 1, 1}};
    const int32_t phase_units[2] = {0, 1};
    const bs_trace_visit visits[2] = {{0, 0, 1, 0, 0, 10}, {1, 1, 1, 0, 0, 10}};
    const bs_trace_use uses[2] = {{0, -1, 1000}, {1, -1, 1000}};
    memset(&trace, 0, sizeof trace);
    trace.n_units = trace.n_phases = trace.n_phase_units = trace.n_visits = trace.n_uses = 2;
    trace.units = units, trace.phases = phases, trace.phase_units = phase_units;
    trace.visits = visits, trace.uses = uses;
    bs_arena_init(&arena, "workspace", memory, sizeof memory);
    const bs_replay_desc desc = {.slot_bytes = 4096, .bytes_per_second = 1000000000};
    check(bs_replay(&trace, &desc, &arena, &result, &error) == BS_OK && result.stats.loads == 2 &&
              result.compute_ns == 2020,
          "a trace is replayed: %s", error.message);
#endif
}

static void check_model(const char *path)
{
#ifndef BS_NO_MODEL
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
#ifdef BS_NO_POSIX
    const bool opened = bs_model_open_memory(&arena, path, 4, &error) != NULL;
    check(!opened && error.status == BS_ERROR_FORMAT, "a name is no model file: %s", error.message);
#else
    bs_model *model = bs_model_open_file(&arena, NULL, path, &error);
    const bs_graph_desc room = bs_model_graph_desc(model);
    bs_graph *graph = bs_graph_create(&arena, &room);
    const bs_status status = model ? bs_model_build(model, graph, NULL, &error) : error.status;
#ifdef BS_ONLY_OPS
    check(status != BS_OK, "%s needs ops that are left out: %s", path, error.message);
#else
    check(status == BS_OK, "%s is a network: %s", path, error.message);
#endif
    bs_model_close(model);
    check(!bs_model_open_memory(&arena, path, 4, &error) && error.status == BS_ERROR_FORMAT,
          "a name is no model file: %s", error.message);
#endif
#endif
    (void)path;
}

static void check_report(void)
{
#ifndef BS_NO_REPORT
    static world w;
    char text[64];
    check(plan(&w, NULL) && bs_plan_report(w.plan, text, sizeof text) > 100 &&
              bs_graph_describe(w.graph, 2, text, sizeof text) > 20 && strstr(text, "conv2d") &&
              bs_op_describe(0, text, sizeof text) > 0,
          "plans, nodes and ops are told in words");
#endif
}

static void check_messages(void)
{
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    bs_graph *g = bs_graph_create(&arena, NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(4, 4));
    bs_conv2d(g, x, &(bs_conv2d_desc){.name = "first", .out = 4});
    check(bs_graph_check(g, &error) == BS_ERROR_SHAPE && strncmp(error.message, "conv2d \"first\": ", 16) == 0,
          "a refusal names op and node: %s", error.message);
#ifdef BS_NO_MESSAGES
    check(strcmp(error.message + 16, bs_status_text(error.status)) == 0, "and says its status");
#else
    check(strstr(error.message, "[4, 4]") != NULL, "and what was wrong");
#endif
    check(!bs_plan_open(&arena, NULL, NULL, NULL, 0, &error) && error.status == BS_ERROR_ARGUMENT,
          "a status is the same with and without texts");
}

/* Of ops in a list of its own a build has those, and what moves rows. */
static void check_ops(void)
{
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    bs_graph *g = bs_graph_create(&arena, NULL);
    const bs_value y = bs_softmax(g, bs_input(g, "x", BS_F32, BS_SHAPE2(4, 4)));
    const bs_status status = bs_graph_check(g, &error);
#ifdef BS_ONLY_OPS
    check(y.id == 0 && status == BS_ERROR_UNSUPPORTED && strncmp(error.message, "softmax: ", 9) == 0,
          "an op that is not listed is refused by name: %s", error.message);
#else
    check(y.id != 0 && status == BS_OK, "every op is there");
#endif
}

static void check_arena_error(void)
{
    static world w;
    const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
    check(plan(&w, NULL), "a plan is made");
    bs_arena_init(&w.memory.transient, "transient", transient, 64);
    check(!run(&w, &desc) && w.error.status == BS_ERROR_ARENA && strcmp(w.error.arena, "transient") == 0 &&
              w.error.needed > 64,
          "an arena that is too small is named, and what it needs: %s", w.error.message);
}

static void check_winograd(void)
{
    static world direct, other;
    bs_sizes a, b;
    plan(&direct, &(bs_plan_desc){.conv = BS_CONV_FORCE_DIRECT, .tier = BS_TIER_SCALAR});
    bs_plan_sizes(direct.plan, &a);
    plan(&other, &(bs_plan_desc){.conv = BS_CONV_FORCE_WINOGRAD, .tier = BS_TIER_SCALAR});
    bs_plan_sizes(other.plan, &b);
#ifdef BS_NO_WINOGRAD
    check(a.weights > 0 && a.weights == b.weights, "a convolution is direct where Winograd is asked for");
#else
    check(a.weights > 0 && a.weights < b.weights, "Winograd takes %d bytes of weights, direct %d", (int)b.weights,
          (int)a.weights);
#endif
}

int main(int argc, char **argv)
{
    folder = argc > 2 ? argv[2] : "";
    fill();
    check_network();
    check_stream();
    check_profile();
    check_replay();
    check_model(argc > 1 ? argv[1] : "models/sr2x.gguf");
    check_report();
    check_messages();
    check_ops();
    check_arena_error();
    check_winograd();
    return check_end();
}
