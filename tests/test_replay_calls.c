/* tags: asan */
/* Promises: a trace that refers to what it does not have is refused, like arguments out of range; a replay takes the
 * bytes that it says, and no more for routers of many paths. */
#include "replay_traces.h"

static bool refused(const bs_trace *t, const bs_replay_desc *d, bs_status status)
{
    bs_replay_result result;
    bs_arena arena;
    bs_arena_init(&arena, "workspace", workspace_memory, sizeof workspace_memory);
    memset(&error, 0, sizeof error);
    return bs_replay(t, d, &arena, &result, &error) == status && error.status == status && error.message[0] &&
           arena.used == 0;
}

static void test_wrong_traces(void)
{
    const bs_replay_desc d = replay_of(2, 1000);
    int32_t bad = 0;
    for (int32_t i = 0; i < 22; i++) {
        uniform_trace(4, 10, 100);
        add_guess(0, 1);
        visits[3].n_guesses = 1;
        bs_trace t = trace;
        const bool sound = !refused(&t, &d, BS_ERROR_ARGUMENT);
        switch (i) {
        case 0: t.n_units = 0; break;
        case 1: t.n_units = 65537; break;
        case 2: t.n_phases = 0; break;
        case 3: t.n_phases = -1; break;
        case 4: phases[0].first_unit = -1; break;
        case 5: phases[0].n_units = 5; break;
        case 6: phases[0].n_units = 0; break;
        case 7: phases[0].router = -1; break;
        case 8: phase_units[2] = 4; break;
        case 9: phase_units[2] = -1; break;
        case 10: visits[5].phase = 1; break;
        case 11: visits[5].phase = -1; break;
        case 12: visits[5].first_use = -1; break;
        case 13: visits[5].n_uses = 5; break;
        case 14: visits[9].n_uses = 2; break;
        case 15: visits[5].first_use = INT32_MAX; break;
        case 16: visits[3].n_guesses = 2; break;
        case 17: visits[3].n_guesses = -1; break;
        case 18: uses[0].unit = 4; break;
        case 19: uses[0].unit = -1; break;
        case 20: guesses[0].phase = 1; break;
        default: guesses[0].unit = -2; break;
        }
        bad += !sound || !refused(&t, &d, BS_ERROR_ARGUMENT) || bs_replay_bytes(&t) != 0;
    }
    check(bad == 0, "traces that refer to what they do not have are refused (%d are not)", bad);
    uniform_trace(4, 10, 100);
    bs_trace shared = trace;
    shared.n_phases = 2;
    phases[1] = (bs_trace_phase){1, phases[0].n_units - 1, 1};
    check(refused(&shared, &d, BS_ERROR_ARGUMENT) && bs_replay_bytes(&shared) == 0, "two phases of one entry: %s",
          error.message);
    check(refused(NULL, &d, BS_ERROR_ARGUMENT) && bs_replay_bytes(NULL) == 0, "so is none: %s", error.message);
}

/* Two routers of 65536 paths: a table of what follows what would have 2^32 counters. */
static void test_many_paths(void)
{
    enum { PATHS = 65536, COUNT = 8 };
    static bs_trace_unit many[PATHS];
    static int32_t all[2 * PATHS];
    const bs_trace_phase two[2] = {{1, 0, PATHS}, {2, PATHS, PATHS}};
    bs_trace_visit each[COUNT];
    bs_trace_use last[COUNT];
    const bs_trace t = {.n_units = PATHS,
                        .n_phases = 2,
                        .n_phase_units = 2 * PATHS,
                        .n_visits = COUNT,
                        .n_uses = COUNT,
                        .units = many,
                        .phases = two,
                        .phase_units = all,
                        .visits = each,
                        .uses = last};
    const bs_replay_desc d = {.slot_bytes = 1 << 20, .bytes_per_second = 1000000000};
    bs_replay_result result;
    bs_arena arena;
    for (int32_t u = 0; u < PATHS; u++) {
        many[u] = (bs_trace_unit){.read_bytes = 64, .slot_bytes = 64};
        all[u] = all[PATHS + u] = u;
    }
    for (int32_t k = 0; k < COUNT; k++) {
        each[k] = (bs_trace_visit){.phase = k % 2, .first_use = k, .n_uses = 1};
        last[k] = (bs_trace_use){PATHS - 1 - k, -1, 1};
    }
    const size_t bytes = bs_replay_bytes(&t);
    void *memory = bytes < (size_t)PATHS * 512 ? malloc(bytes) : NULL;
    check(memory != NULL, "a replay of 2 x %d paths takes %zu bytes", PATHS, bytes);
    if (!memory)
        return;
    bs_arena_init(&arena, "workspace", memory, bytes);
    const bs_status status = bs_replay(&t, &d, &arena, &result, &error);
    check(status == BS_OK && result.stats.misses == COUNT && result.predictions[BS_PREDICT_TRANSITION].needed == 0 &&
              result.predictions[BS_PREDICT_FREQUENCY].needed == COUNT,
          "it runs: %llu misses, foretold by frequency alone", (unsigned long long)result.stats.misses);
    free(memory);
}

static void test_arguments(void)
{
    uniform_trace(4, 10, 100);
    const bs_replay_desc good = replay_of(2, 1000);
    for (int32_t i = 0; i < 8; i++) {
        bs_replay_desc d = good;
        switch (i) {
        case 0: d.bytes_per_second = 0; break;
        case 1: d.chunk_bytes = -1; break;
        case 2: d.lanes = -1; break;
        case 3: d.lanes = 9; break;
        case 4: d.prepare_ns_per_byte = -1; break;
        case 5: d.prepare_ns_per_byte = (double)NAN; break;
        case 6: d.stream.policy = BS_POLICY_COUNT; break;
        default: d.stream.policy = -1; break;
        }
        check(refused(&trace, &d, BS_ERROR_ARGUMENT), "wrong argument %d: %s", i, error.message);
    }
    check(refused(&trace, NULL, BS_ERROR_ARGUMENT), "no description: %s", error.message);
    bs_replay_desc d = good;
    d.slot_bytes = UNIT_BYTES - 1;
    check(refused(&trace, &d, BS_ERROR_ARENA) && error.needed == UNIT_BYTES && error.available == UNIT_BYTES - 1, "%s",
          error.message);
    bs_trace empty = trace;
    empty.n_visits = empty.n_uses = empty.n_guesses = 0;
    trace = empty;
    const bs_replay_result r = run(&good);
    check(r.time_ns == 0 && r.oracle_ns == 0, "a trace without visits takes no time");
}

static void test_workspace(void)
{
    bs_replay_result result;
    int32_t bad = 0;
    for (int32_t i = 0; i < 40; i++) {
        random_trace(1 + check_below(20), true);
        const size_t bytes = bs_replay_bytes(&trace) - BS_ALIGNMENT; /* aligned */
        const bs_replay_desc d = {.slot_bytes = 1 << 20, .bytes_per_second = 1000000000};
        bs_arena arena;
        memset(workspace_memory + bytes, 0xA5, 256);
        bs_arena_init(&arena, "workspace", workspace_memory, bytes);
        bad += bytes == 0 || bs_replay(&trace, &d, &arena, &result, &error) != BS_OK || arena.high_water != bytes ||
               arena.used != 0;
        for (size_t k = 0; k < 256; k++)
            bad += workspace_memory[bytes + k] != 0xA5;
        bs_arena_init(&arena, "workspace", workspace_memory, bytes - BS_ALIGNMENT);
        bad += bs_replay(&trace, &d, &arena, &result, &error) != BS_ERROR_ARENA || arena.used != 0 ||
               error.needed != bytes;
    }
    check(bad == 0, "bs_replay_bytes is enough, and %d less is refused: %s", BS_ALIGNMENT, error.message);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_wrong_traces();
    test_many_paths();
    test_arguments();
    test_workspace();
    return check_end();
}
