/* tags: asan tsan */
/* test_profile_session.c - what a session that streams records is what its own counters say, and replay can use it;
 * of a loop each trip. */
#include "brainstorm.h"
#include "check.h"
#include "profile_sink.h"
#include "profile_synth.h"

#include <math.h>

enum { LAYERS = 3, PATHS = 4, WIDTH = 16, CELLS = 8, RUNS = 40, N_TENSORS = LAYERS * (1 + PATHS), RECORD = 4096 };

static float weights[N_TENSORS][WIDTH * WIDTH], input[CELLS][WIDTH], output[CELLS][WIDTH];
static bs_tensor tensors[N_TENSORS];
static char names[N_TENSORS][48];

static void add_tensor(int index, const char *name, int32_t out)
{
    snprintf(names[index], sizeof names[index], "%s.weight", name);
    tensors[index] = (bs_tensor){names[index], BS_F32, 2, {out, WIDTH, 0, 0}, weights[index]};
    for (int i = 0; i < out * WIDTH; i++)
        weights[index][i] = check_float() * 0.5f;
}

/* --- a storage in memory: a record of 4096 bytes a tensor ---------------------------------------------------- */

static bs_status find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    for (int i = 0; i < N_TENSORS; i++)
        if (strcmp(tensors[i].name, name) == 0) {
            const int64_t out = tensors[i].dim[0];
            *info = (bs_weight_info){BS_F32, 2, {out, WIDTH, 0, 0}, (uint64_t)out * WIDTH * sizeof(float), (uint64_t)i};
            return BS_OK;
        }
    return BS_ERROR_WEIGHTS;
}

static bs_status read_weight(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    memcpy(buffer, (const char *)weights[info->handle] + offset, bytes);
    return BS_OK;
}

static const void *map(const void *user, const bs_weight_info *info)
{
    (void)user, (void)info;
    return NULL;
}

static bs_status locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    (void)user;
    *block = (int32_t)info->handle;
    *offset = info->handle * RECORD;
    return BS_OK;
}

static bs_status record(const void *user, int32_t block, bs_record *r)
{
    (void)user;
    if (block < 0 || block >= N_TENSORS)
        return BS_ERROR_ARGUMENT;
    *r = (bs_record){.offset = (uint64_t)block * RECORD, .bytes = sizeof weights[0]};
    return BS_OK;
}

static bs_status fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; i++) {
        const uint64_t at = (offset + i) % RECORD;
        ((char *)buffer)[i] = at < sizeof weights[0] ? ((const char *)weights[(offset + i) / RECORD])[at] : 0;
    }
    return BS_OK;
}

/* --- the network --------------------------------------------------------------------------------------------- */

static bs_value expert(bs_graph *g, bs_value x, void *name)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = name, .out = WIDTH, .no_bias = 1});
}

/* trips: all layers go round so often; 0: they are in no loop. */
static bs_graph *build(bs_arena *arena, int32_t trips)
{
    const bs_value none = {0};
    bs_graph *g = bs_graph_create(arena, NULL);
    bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(CELLS, WIDTH)), none), before = none;
    bs_router loop = {0};
    int tensor = 0;
    if (trips) {
        loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "steps", .bound = trips});
        x = before = bs_loop_carry(g, loop, x);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        char name[32], block[32];
        bs_value out[PATHS];
        snprintf(name, sizeof name, "score%d", layer);
        add_tensor(tensor++, name, PATHS);
        const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = name, .out = PATHS, .no_bias = 1});
        snprintf(name, sizeof name, "route%d", layer);
        const bs_router route = bs_route(g, score, (bs_value){0}, &(bs_route_desc){.name = name, .paths = PATHS});
        for (int p = 0; p < PATHS; p++) {
            snprintf(block, sizeof block, "expert%d_%d", layer, p);
            add_tensor(tensor++, block, WIDTH);
            out[p] = bs_branch(g, route, p, block, x, expert, block);
        }
        x = bs_gather(g, route, out, none, NULL);
    }
    if (trips) {
        x = bs_loop_next(g, loop, before, bs_clip(g, x, -1, 1));
        bs_loop_end(g, loop, none);
    }
    bs_output(g, "y", bs_collect(g, x));
    return g;
}

typedef struct outcome {
    bs_stream_stats stats;
    uint64_t cells[LAYERS][PATHS], dropped;
    int failed;
} outcome;

/* A plan whose slots hold half of what could be streamed. */
static const bs_plan *plan_half(const bs_graph *g, bs_arena *arena, uint64_t most, bs_error *error)
{
    bs_stream_plan facts = {.all_bytes = 0};
    bs_arena probe = *arena;
    const bs_plan *plan = bs_plan_create(&probe, NULL, g, &(bs_plan_desc){.slot_bytes = most}, error);
    if (!plan)
        return NULL;
    bs_plan_stream_get(plan, &facts);
    return bs_plan_create(arena, NULL, g, &(bs_plan_desc){.slot_bytes = facts.all_bytes / 2}, error);
}

static outcome run_all(bs_profile *profile, int32_t trips, const bs_session_desc *like)
{
    static BS_ALIGNED uint8_t persistent[1 << 20], transient[1 << 18], staging[1 << 20], slots[1 << 16];
    outcome o = {.failed = 0};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_memory memory;
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_arena_init(&memory.slots, "slots", slots, sizeof slots);
    bs_graph *g = build(&memory.persistent, trips);
    const bs_plan *plan = plan_half(g, &memory.persistent, sizeof slots, &error);
    const bs_weights source = {.find = find,
                               .read = read_weight,
                               .map = map,
                               .locate = locate,
                               .record = record,
                               .fetch = fetch,
                               .fetch_alignment = 64};
    const bs_session_desc session = {like->platform, .weights = source, .stream = like->stream, .profile = profile};
    bs_session *s = plan ? bs_session_create(&memory, plan, &session, &error) : NULL;
    const bs_buffer from = {input, BS_F32, 2, {CELLS, WIDTH}, {0}}, to = {output, BS_F32, 2, {CELLS, WIDTH}, {0}};
    o.failed |= !s || bs_bind(s, "x", &from, &error) != BS_OK || bs_bind(s, "y", &to, &error) != BS_OK;
    for (int run = 0; run < RUNS && !o.failed; run++) {
        for (int i = 0; i < CELLS * WIDTH; i++)
            input[i / WIDTH][i % WIDTH] = check_float();
        for (int i = 1; run % 2 && i < CELLS; i++) /* all cells alike: few paths are needed */
            memcpy(input[i], input[0], sizeof input[0]);
        o.failed |= bs_run(s, &error) != BS_OK;
        for (int layer = 0; layer < LAYERS; layer++) {
            char name[16];
            bs_decision d;
            snprintf(name, sizeof name, "route%d", layer);
            for (int p = 0; bs_decision_get(s, name, &d) == BS_OK && p < PATHS; p++)
                o.cells[layer][p] += (uint64_t)d.counts[p];
        }
    }
    if (s)
        bs_session_stream_stats(s, &o.stats);
    bs_session_close(s);
    if (o.failed)
        printf("     %s\n", error.message);
    return o;
}

typedef struct events {
    uint64_t runs, bytes, loads, evictions, cells[LAYERS][PATHS], stall_ns;
} events;

/* loops: routers before those of the layers. */
static events read_events(synth_bytes *b, int32_t loops)
{
    static BS_ALIGNED uint8_t tables[1 << 16];
    bs_arena arena;
    bs_error error;
    bs_event e;
    events n = {0};
    const bs_reader reader = synth_reader(b);
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    bs_profile_reader *r = bs_profile_open(&arena, &reader, &error);
    while (r && bs_profile_next(r, &e, &error)) {
        n.runs += e.kind == BS_EVENT_RUN;
        n.bytes += e.kind == BS_EVENT_READ ? e.value : 0;
        n.loads += e.kind == BS_EVENT_LOADED;
        n.evictions += e.kind == BS_EVENT_EVICT;
        n.stall_ns += e.kind == BS_EVENT_STALL ? e.end_ns - e.start_ns : 0;
        if (e.kind == BS_EVENT_DECISION && e.subject > loops)
            n.cells[e.subject - 1 - loops][e.index] += e.value;
    }
    check(r && error.status == BS_OK, "a session's profile is sound: %s", error.message);
    return n;
}

static void test_replay(const bs_trace *trace)
{
    const bs_replay_desc desc = {.slot_bytes = trace->slot_bytes, .bytes_per_second = 1000000000};
    bs_replay_result result;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    void *memory = malloc(bs_replay_bytes(trace) + BS_ALIGNMENT);
    bs_arena_init(&arena, "replay", memory, bs_replay_bytes(trace) + BS_ALIGNMENT);
    const bs_status status = bs_replay(trace, &desc, &arena, &result, &error);
    check(status == BS_OK && result.stats.hits + result.stats.late + result.stats.misses == (uint64_t)trace->n_uses,
          "and can be replayed: %s", error.message);
    free(memory);
}

/* Without guesses a replay hits as often as the session did, but for what lanes read meanwhile: a session without
 * threads has none, and where computing takes no time they hardly have. */
static void test_replayed_alike(const bs_trace *recorded, const bs_stream_stats *stats)
{
    static bs_trace_use used[8 * RUNS * LAYERS * PATHS];
    static bs_trace_visit visited[8 * RUNS * LAYERS];
    bs_trace at_once = *recorded, *const trace = &at_once;
    for (int32_t i = 0; i < trace->n_uses; i++)
        used[i] = (bs_trace_use){recorded->uses[i].unit, recorded->uses[i].outcome, 0};
    for (int32_t i = 0; i < trace->n_visits; i++) {
        visited[i] = recorded->visits[i];
        visited[i].before_ns = 0;
    }
    trace->uses = used;
    trace->visits = visited;
    const bs_replay_desc desc = {.slot_bytes = trace->slot_bytes,
                                 .bytes_per_second = 1000000000,
                                 .lanes = 1,
                                 .stream = {.speculation = BS_SPECULATE_OFF}};
    bs_replay_result result = {0};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    void *memory = malloc(bs_replay_bytes(trace) + BS_ALIGNMENT);
    bs_arena_init(&arena, "replay", memory, bs_replay_bytes(trace) + BS_ALIGNMENT);
    bs_replay(trace, &desc, &arena, &result, &error);
    const double differ = fabs((double)result.stats.hits - (double)stats->hits) / trace->n_uses;
    check(differ < 0.1 && stats->hits > 0, "replayed on demand it hits as the session did: %d and %d of %d %s",
          (int)result.stats.hits, (int)stats->hits, trace->n_uses, error.message);
    free(memory);
}

/* A session that is recorded; trips: of the loop around its layers, 0 none. */
static void test_session(int32_t trips, bool alone, const char *path)
{
    static BS_ALIGNED uint8_t persistent[4096], ring[1 << 24], tables[1 << 20];
    synth_bytes bytes = {0};
    bs_arena arena;
    bs_trace trace;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    uint64_t dropped = 1, outcomes[3] = {0, 0, 0};
    bs_platform one = *bs_platform_default();
    one.thread_start = NULL;
    const bs_session_desc like = {.platform = alone ? &one : NULL,
                                  .stream = {.speculation = alone ? BS_SPECULATE_OFF : BS_SPECULATE_AUTO}};
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    const bs_profile_desc desc = {.write = synth_write, .user = &bytes, .memory = ring, .bytes = sizeof ring};
    bs_profile *profile = bs_profile_create(&arena, &desc, &error);
    const outcome o = run_all(profile, trips, &like);
    check(!o.failed, "a network whose weights do not fit runs, %d trips%s", trips, alone ? ", alone" : "");
    const bs_status closed = bs_profile_close(profile, &dropped);
    check(closed == BS_OK && dropped == 0, "and loses no event: %d", (int)dropped);
    const events n = read_events(&bytes, trips > 0);
    check(n.runs == RUNS && memcmp(n.cells, o.cells, sizeof n.cells) == 0,
          "runs and the cells of every path are those of its decisions: %d", (int)n.runs);
    /* Lanes may go on between the counters and the end of the session. */
    check(n.bytes >= o.stats.bytes_read && n.loads >= o.stats.loads && n.evictions >= o.stats.evictions &&
              n.stall_ns == o.stats.stall_ns,
          "reads, loads, evictions and stalls are those of its counters: %d, %d, %d, %d",
          (int)(n.bytes - o.stats.bytes_read), (int)(n.loads - o.stats.loads), (int)(n.evictions - o.stats.evictions),
          (int)(n.stall_ns - o.stats.stall_ns));
    const bs_reader reader = synth_reader(&bytes);
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    const bs_status status = bs_trace_load(&arena, &reader, &trace, &error);
    check(status == BS_OK && trace.n_visits == RUNS * LAYERS * (trips ? trips : 1),
          "every phase of every run, in a loop of every trip, is a visit: %d %s",
          (int)trace.n_visits, error.message);
    for (int32_t i = 0; status == BS_OK && i < trace.n_uses; i++)
        outcomes[trace.uses[i].outcome]++;
    check(outcomes[0] == o.stats.hits && outcomes[1] == o.stats.late && outcomes[2] == o.stats.misses,
          "uses are hits, late and misses as it counts them: %d, %d, %d", (int)o.stats.hits, (int)o.stats.late,
          (int)o.stats.misses);
    if (status == BS_OK)
        test_replay(&trace);
    if (status == BS_OK && alone)
        test_replayed_alike(&trace, &o.stats);
    if (path) { /* a file to look at */
        FILE *f = fopen(path, "wb");
        if (f && fwrite(bytes.data, 1, bytes.n, f) == bytes.n)
            fclose(f);
    }
    synth_free(&bytes);
}

int main(int argc, char **argv)
{
    check_seed(3);
    test_session(0, false, NULL);
    test_session(0, true, NULL);
    test_session(5, true, NULL);
    test_session(5, false, argc > 1 ? argv[1] : NULL);
    return check_end();
}
