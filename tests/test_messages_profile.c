/* tags: asan */
/* Promises: a profile that cannot be written or read, and a replay that cannot be made, say in one line what is wrong,
 * at which router, unit, phase or event, and what was expected; and this table knows every message of these files.
 *
 * Relies on: messages.h, profile_synth.h for a sound profile to spoil. */
#include "messages.h"
#include "profile_synth.h"

enum {
    ROUTERS = 64,
    UNITS = ROUTERS + 2 * 72,
    PHASES = UNITS + 9 * 88,
    PHASE_UNITS = PHASES + 3 * 8,
    EVENTS = PHASE_UNITS + 40
};

static BS_ALIGNED uint8_t memory[1 << 18], ring[1 << 14];
static bs_error error;

static bs_arena arena_of(size_t bytes)
{
    bs_arena arena;
    memset(&error, 0, sizeof error);
    bs_arena_init(&arena, "persistent", memory, bytes);
    return arena;
}

/* ---------------------------------------------------------------------------------------------------- writing */

static int no_gate(void *user, void *storage)
{
    (void)user, (void)storage;
    return -1;
}

static int no_thread(void *user, void *handle, void (*entry)(void *), void *argument)
{
    (void)user, (void)handle, (void)entry, (void)argument;
    return -1;
}

static void not_created(const bs_profile_desc *desc, size_t room, bs_status status, const char *text)
{
    bs_arena arena = arena_of(room);
    if (bs_profile_create(&arena, desc, &error) || arena.used != 0)
        check(0, "no profile is made: %s", text);
    message_is(&error, status, text);
}

static void test_creation(void)
{
    bs_platform platform = *bs_platform_default();
    const bs_profile_desc desc = {.platform = &platform, .write = synth_write, .memory = ring, .bytes = sizeof ring};
    bs_profile_desc wrong = desc;
    char text[120];
    bs_profile_create(NULL, &desc, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_profile_create: the arena, the desc or its write is NULL");
    not_created(NULL, sizeof memory, BS_ERROR_ARGUMENT, "bs_profile_create: the arena, the desc or its write is NULL");
    wrong.write = NULL;
    not_created(&wrong, sizeof memory, BS_ERROR_ARGUMENT,
                "bs_profile_create: the arena, the desc or its write is NULL");
    wrong = desc;
    wrong.bytes = 4000;
    not_created(&wrong, sizeof memory, BS_ERROR_ARGUMENT,
                "bs_profile_desc: 4000 bytes of memory are too few for the ring, 4928 always do");
    wrong.memory = NULL;
    not_created(&wrong, sizeof memory, BS_ERROR_ARGUMENT,
                "bs_profile_desc: 4000 bytes of memory are too few for the ring, 4928 always do");
    bs_arena arena = arena_of(64);
    bs_profile_create(&arena, &desc, &error);
    snprintf(text, sizeof text, "arena persistent: a profile needs %d bytes, 64 are free", (int)error.needed);
    message_is(&error, BS_ERROR_ARENA, text);
    platform.gate_init = no_gate;
    not_created(&desc, sizeof memory, BS_ERROR_PLATFORM, "profile: the platform's gate_init failed for its writer");
    platform = *bs_platform_default();
    platform.thread_start = no_thread;
    not_created(&desc, sizeof memory, BS_ERROR_PLATFORM, "profile: the platform's thread_start failed for its writer");
}

/* ---------------------------------------------------------------------------------------------------- reading */

static synth_bytes file;
static int64_t (*reading)(void *user, uint64_t offset, void *buffer, size_t bytes);
static int reads, fail_at;

static int64_t read_some(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    return ++reads == fail_at ? -1 : synth_read(user, offset, buffer, bytes);
}

/* A trace, in so much room. */
static void not_loaded(size_t room, bs_status status, const char *text)
{
    bs_reader reader = synth_reader(&file);
    bs_arena arena = arena_of(room);
    bs_trace trace;
    reader.read = reading;
    if (bs_trace_load(&arena, &reader, &trace, &error) == BS_OK)
        check(0, "nothing is loaded: %s", text);
    message_is(&error, status, text);
}

static void spoilt(size_t at, uint64_t value, size_t bytes, bs_status status, const char *text)
{
    uint8_t kept[8];
    memcpy(kept, file.data + at, bytes);
    memcpy(file.data + at, &value, bytes);
    not_loaded(sizeof memory, status, text);
    memcpy(file.data + at, kept, bytes);
}

static void test_spoilt(void)
{
    static const struct { size_t at; uint64_t value; size_t bytes; bs_status status; const char *text;
    } rows[] = {
        {0, 0x46554747, 4, BS_ERROR_FORMAT, "not a profile: it does not begin with BSPF"},
        {4, 3, 4, BS_ERROR_VERSION, "profile: version 3, expected 1 or 2"},
        {56, 7, 4, BS_ERROR_LIMIT, "profile: 7 nodes, at most 16777216, and none in version 1"},
        {8, 60, 4, BS_ERROR_FORMAT, "profile: a header of 60 bytes, expected 64 .. 4096 by eights"},
        {12, 260, 4, BS_ERROR_FORMAT, "profile: events of 260 bytes, expected 40 .. 256 by eights"},
        {16, 65537, 4, BS_ERROR_LIMIT,
         "profile: 65537 routers, 9 units, 3 phases of 9 units, at most 65536, 1048576, 1048576, 4194304"},
        {20, 1 << 20, 4, BS_ERROR_FORMAT, "profile: its tables take 92274960 bytes, the file has 2544"},
        {48, 4, 4, BS_ERROR_FORMAT, "profile: policy 4, speculation 0, expected 0 .. 3 and 0 .. 1"},
        {ROUTERS + 64, 32768, 4, BS_ERROR_FORMAT,
         "profile: router 1 has 32768 paths, expected 1 .. 32767, or its name is not plain ASCII"},
        {ROUTERS + 72, 7, 1, BS_ERROR_FORMAT,
         "profile: router 2 has 4 paths, expected 1 .. 32767, or its name is not plain ASCII"},
        {UNITS + 88 + 68, 4, 4, BS_ERROR_FORMAT,
         "profile: unit 1 is path 4 of router 1, which there is not, or its name is not plain ASCII"},
        {UNITS + 72, (uint64_t)1 << 41, 8, BS_ERROR_LIMIT,
         "profile: unit 0 of 2199023255552 bytes, in a slot 20064, at most 1099511627776"},
        {PHASES + 8, 5, 4, BS_ERROR_FORMAT, "profile: phase 1 has router 5 of 2 and 4 units, of which 8 are left"},
        {PHASES + 12, 9, 4, BS_ERROR_FORMAT, "profile: phase 1 has router 1 of 2 and 9 units, of which 8 are left"},
        {PHASES + 20, 3, 4, BS_ERROR_FORMAT, "profile: phases have 8 units, 9 are listed"},
        {PHASE_UNITS + 4, 9, 4, BS_ERROR_FORMAT, "profile: a phase needs unit 9, there are 9"},
        {EVENTS + 24, 9, 4, BS_ERROR_FORMAT, "profile: event 0 (kind 7): subject 9, index 0 or value out of range"},
    };
    file = synth_profile(1, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        spoilt(rows[i].at, rows[i].value, rows[i].bytes, rows[i].status, rows[i].text);
    const size_t whole = file.n;
    file.n = 63;
    not_loaded(sizeof memory, BS_ERROR_FORMAT, "profile: its header cannot be read from 63 bytes");
    file.n = whole;
    synth_free(&file);
}

static const char *synth_node(const void *user, int32_t i, bs_node_facts *node)
{
    (void)user;
    *node = (bs_node_facts){.op = "op", .name = i % 2 ? "odd" : "even", .router = {i % 2}};
    return "block";
}

/* The same profile with nodes. */
static void test_spoilt_nodes(void)
{
    enum { NODES = EVENTS, ROUTER = NODES + 184 + 152 };
    bs_platform alone = *bs_platform_default();
    bs_profile_header_desc header = synth_header();
    synth_bytes b = {0};
    bs_arena arena = arena_of(sizeof memory);
    alone.thread_start = NULL;
    header.n_nodes = 3;
    header.node = synth_node;
    const bs_profile_desc desc = {
        .platform = &alone, .write = synth_write, .user = &b, .memory = ring, .bytes = sizeof ring};
    bs_profile *profile = bs_profile_create(&arena, &desc, &error);
    bs_profile_header(profile, &header);
    bs_profile_close(profile, NULL);
    check(b.n == NODES + 3 * 184, "nodes take 184 bytes each");
    file = b;
    spoilt(ROUTER, 9, 4, BS_ERROR_FORMAT,
           "profile: node 2 is of path 0 of router 9, which there is not, or a text of it is not plain ASCII, or a "
           "cost is no number");
    synth_free(&file);
}

/* Tables are read through a window, and with more phases these reach the next one. */
static void any_phase(const void *user, int32_t i, bs_profile_phase *phase)
{
    *phase = (bs_profile_phase){0, 0, NULL};
    if (i < SYNTH_PHASES)
        synth_phase(user, i, phase);
}

static synth_bytes with_phases(int32_t n_phases)
{
    bs_platform alone = *bs_platform_default();
    bs_profile_header_desc header = synth_header();
    const bs_event run = synth_event(BS_EVENT_RUN, 0, 0, 0, 1, 2);
    synth_bytes b = {0};
    bs_arena arena = arena_of(sizeof memory);
    alone.thread_start = NULL;
    header.n_phases = n_phases;
    header.phase = any_phase;
    header.n_nodes = 30;
    header.node = synth_node;
    const bs_profile_desc desc = {
        .platform = &alone, .write = synth_write, .user = &b, .memory = ring, .bytes = sizeof ring};
    bs_profile *profile = bs_profile_create(&arena, &desc, &error);
    bs_profile_header(profile, &header);
    bs_profile_add(profile, &run);
    bs_profile_close(profile, NULL);
    return b;
}

/* Every read fails once. What is being read then depends on how windows lie, so on how many phases there are. */
static void test_reads(void)
{
    enum { MOST_PHASES = 40 };
    static const char *const formats[] = {"profile: its header cannot be read from %d bytes",
                                          "profile: router %d cannot be read",
                                          "profile: unit %d cannot be read",
                                          "profile: phase %d cannot be read",
                                          "profile: the units of phases cannot be read",
                                          "profile: node %d cannot be read",
                                          "profile: event %d cannot be read"};
    int32_t seen[sizeof formats / sizeof *formats] = {0};
    char text[96];
    int32_t few = 0;
    bs_arena arena = arena_of(sizeof memory);
    bs_profile_next(NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_profile_next: the profile or the event is NULL");
    bs_trace_load(&arena, NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_trace_load: the trace is NULL");
    bs_profile_open(&arena, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_profile_open: the arena, the reader or its read is NULL");
    reading = read_some;
    for (int32_t phases = SYNTH_PHASES; phases < MOST_PHASES; phases++) {
        file = with_phases(phases);
        bool loaded = false;
        for (fail_at = 1; !loaded; fail_at++) {
            const bs_reader reader = {.user = &file, .read = read_some, .size = file.n};
            bs_trace trace;
            arena = arena_of(sizeof memory);
            reads = 0;
            loaded = bs_trace_load(&arena, &reader, &trace, &error) == BS_OK;
            for (size_t i = 0; !loaded && i < sizeof formats / sizeof *formats; i++) {
                int32_t number = 0;
                sscanf(error.message, formats[i], &number);
                snprintf(text, sizeof text, formats[i], number);
                if (strcmp(text, error.message) == 0 && seen[i]++ == 0)
                    message_is(&error, BS_ERROR_IO, text);
            }
        }
        synth_free(&file);
        few += fail_at < 6;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        check(seen[i] > 0, "%d times: %s", seen[i], formats[i]);
    check(few == 0, "each read can fail, and there are some");
    reading = synth_read;
}

/* ---------------------------------------------------------------------------------------------------- room */

static void test_room(void)
{
    static const char *const what[] = {"reading a profile", "a profile's routers", "a profile's units",
                                       "a profile's phases", "a trace"};
    bool seen[5] = {false};
    file = synth_profile(1, NULL);
    for (size_t room = 0; room < sizeof memory; room += 64) {
        const bs_reader reader = synth_reader(&file);
        bs_arena arena = arena_of(room);
        bs_trace trace;
        char text[120];
        if (bs_trace_load(&arena, &reader, &trace, &error) == BS_OK)
            break;
        for (int32_t i = 0; i < 5; i++) {
            snprintf(text, sizeof text, "arena persistent: %s needs %d bytes, %d are free", what[i], (int)error.needed,
                     (int)error.available);
            if (!seen[i] && strcmp(error.message, text) == 0)
                seen[i] = message_is(&error, BS_ERROR_ARENA, text);
        }
    }
    check(seen[0] && seen[1] && seen[2] && seen[3] && seen[4], "whatever does not fit is named with its bytes");
    synth_free(&file);
}

/* The file becomes another one when its events are read for the second time: every event is a visit. */
static int64_t read_changing(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const synth_bytes *b = user;
    reads += offset == EVENTS;
    for (size_t at = EVENTS; reads == 2 && at < b->n; at += sizeof(bs_event)) {
        const bs_event visit = synth_event(BS_EVENT_PHASE, 0, 0, 0, 1, 2);
        memcpy(b->data + at, &visit, sizeof visit);
    }
    return synth_read(user, offset, buffer, bytes);
}

static void test_changing(void)
{
    file = synth_profile(20, NULL); /* more than a window holds */
    reading = read_changing;
    reads = 0;
    not_loaded(sizeof memory, BS_ERROR_LIMIT,
               "profile: more events than a trace can hold, or than there were just now");
    reading = synth_read;
    synth_free(&file);
}

/* ---------------------------------------------------------------------------------------------------- replays */

static bs_trace_unit units[2] = {{"a", 1000, 1024}, {"b", 1000, 2048}};
static bs_trace_phase phases[1] = {{0, 0, 2}};
static int32_t phase_units[2] = {0, 1};
static bs_trace_visit visits[1] = {{0, 0, 2, 0, 1, 0}};
static bs_trace_use uses[2] = {{0, -1, 10}, {1, -1, 10}};
static bs_trace_guess guesses[1] = {{0, 1, 3}};
static const bs_trace trace = {.n_units = 2,
                               .n_phases = 1,
                               .n_phase_units = 2,
                               .n_visits = 1,
                               .n_uses = 2,
                               .n_guesses = 1,
                               .units = units,
                               .phases = phases,
                               .phase_units = phase_units,
                               .visits = visits,
                               .uses = uses,
                               .guesses = guesses};
static const bs_replay_desc sound = {.slot_bytes = 2048, .bytes_per_second = 1000000};

static void not_replayed(const bs_trace *t, const bs_replay_desc *d, bs_status status, const char *text)
{
    bs_replay_result result;
    bs_arena arena = arena_of(sizeof memory);
    if (bs_replay(t, d, &arena, &result, &error) == BS_OK)
        check(0, "nothing is replayed: %s", text);
    message_is(&error, status, text);
}

static void refers(int32_t *at, int32_t wrong, const char *text)
{
    const int32_t kept = *at;
    *at = wrong;
    not_replayed(&trace, &sound, BS_ERROR_ARGUMENT, text);
    *at = kept;
}

static void test_replays(void)
{
    bs_replay(&trace, &sound, NULL, NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_replay: the workspace or the result is NULL");
    bs_replay_desc d = sound;
    bs_trace empty = trace;
    bs_replay_result result;
    char text[120];
    not_replayed(NULL, &sound, BS_ERROR_ARGUMENT, "bs_replay: the trace or the desc is NULL");
    not_replayed(&trace, NULL, BS_ERROR_ARGUMENT, "bs_replay: the trace or the desc is NULL");
    empty.n_units = 0;
    not_replayed(&empty, &sound, BS_ERROR_ARGUMENT, "bs_replay: the trace has 0 units, 1 phases, expected 1 .. 65536");
    refers(&phases[0].n_units, 3, "bs_replay: phases[0] of the trace refers to what it does not have, or another has");
    refers(&phase_units[1], 2,
           "bs_replay: phase_units[1] of the trace refers to what it does not have, or another has");
    refers(&visits[0].phase, 1, "bs_replay: visits[0] of the trace refers to what it does not have, or another has");
    refers(&uses[1].unit, -1, "bs_replay: uses[1] of the trace refers to what it does not have, or another has");
    refers(&guesses[0].phase, -1, "bs_replay: guesses[0] of the trace refers to what it does not have, or another has");
    d.lanes = 9;
    d.prepare_ns_per_byte = 0.5;
    not_replayed(
        &trace, &d, BS_ERROR_ARGUMENT,
        "bs_replay: bytes_per_second 1000000, chunk_bytes 0, lanes 9, prepare_ns_per_byte 0.5, expected > 0, >= 0, 0 "
        ".. 8, >= 0");
    d = sound;
    d.stream.policy = 4;
    not_replayed(&trace, &d, BS_ERROR_ARGUMENT, "bs_replay: policy 4, expected 0 .. 3");
    d = sound;
    d.slot_bytes = 2000;
    not_replayed(&trace, &d, BS_ERROR_ARENA, "arena slots: the largest unit needs 2048 bytes, 2000 are free");
    bs_arena arena = arena_of(512);
    bs_replay(&trace, &sound, &arena, &result, &error);
    snprintf(text, sizeof text, "arena persistent: a replay needs %d bytes, 512 are free",
             (int)bs_replay_bytes(&trace) - BS_ALIGNMENT);
    message_is(&error, BS_ERROR_ARENA, text);
    arena = arena_of(sizeof memory);
    check(bs_replay(&trace, &sound, &arena, &result, &error) == BS_OK, "what was spoilt is whole again");
}

int main(void)
{
    reading = synth_read;
    test_creation();
    test_spoilt();
    test_spoilt_nodes();
    test_reads();
    test_room();
    test_changing();
    test_replays();
    messages_of("src/profile/profile.c");
    messages_of("src/profile/read.c");
    messages_of("src/profile/trace.c");
    messages_of("src/stream/replay.c");
    return check_end();
}
