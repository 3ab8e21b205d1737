/* test_profile.c - profiles: the ring loses nothing in silence and never waits, the file says what was recorded, and no
 * file harms. Truncations and bit flips are worth most under `make test-asan`, producers under `make test-tsan`. */
#include "check.h"
#include "profile_synth.h"

#include <pthread.h>
#include <stdatomic.h>

static BS_ALIGNED uint8_t persistent[4096];
static BS_ALIGNED uint8_t tables[1 << 20];

static bs_profile *make(const bs_platform *platform, bs_profile_write write, void *user, void *ring, size_t bytes,
                        bs_error *error)
{
    bs_arena arena;
    const bs_profile_desc desc = {platform, write, user, ring, bytes};
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    return bs_profile_create(&arena, &desc, error);
}

static void begin(bs_profile *profile)
{
    const bs_profile_header_desc header = synth_header();
    bs_profile_header(profile, &header);
}

static bs_profile_reader *open_bytes(synth_bytes *b, bs_arena *arena, bs_error *error)
{
    const bs_reader reader = synth_reader(b);
    bs_arena_init(arena, "tables", tables, sizeof tables);
    return bs_profile_open(arena, &reader, error);
}

static bs_status load(synth_bytes *b, bs_trace *trace, bs_error *error)
{
    bs_arena arena;
    const bs_reader reader = synth_reader(b);
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    return bs_trace_load(&arena, &reader, trace, error);
}

static void add_numbered(bs_profile *profile, int32_t thread, uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++) {
        bs_event e = synth_event(BS_EVENT_RUN, thread, 0, i, i, i + 1);
        e.rest = -1; /* must not show in the file */
        bs_profile_add(profile, &e);
    }
}

/* What add_numbered left in a file. */
typedef struct numbered {
    uint64_t events, told; /* of runs; dropped, as the file tells */
    int in_order, rests;
    int told_before_last; /* an event of a drop stands before the last run */
} numbered;

static numbered read_numbered(synth_bytes *b)
{
    numbered n = {.in_order = 1};
    int64_t last[64];
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_event e;
    memset(last, -1, sizeof last);
    bs_profile_reader *r = open_bytes(b, &arena, &error);
    while (r && bs_profile_next(r, &e, &error)) {
        n.rests += e.rest != 0;
        if (e.kind == BS_EVENT_DROPPED) {
            n.told += e.value;
        } else {
            n.events++;
            n.told_before_last = n.told > 0;
            n.in_order &= (int64_t)e.value > last[e.subject];
            last[e.subject] = (int64_t)e.value;
        }
    }
    n.in_order &= r && error.status == BS_OK;
    return n;
}

/* --- the ring ------------------------------------------------------------------------------------------------ */

static void test_order(void)
{
    static uint8_t ring[1 << 18];
    synth_bytes b = {0};
    uint64_t dropped = 9;
    bs_profile *p = make(NULL, synth_write, &b, ring, sizeof ring, NULL);
    begin(p);
    add_numbered(p, 0, 0, 3000);
    const bs_status status = bs_profile_close(p, &dropped);
    const numbered n = read_numbered(&b);
    check(status == BS_OK && dropped == 0 && n.events == 3000 && n.in_order,
          "events are written in the order they were added");
    check(n.rests == 0, "fields without a meaning are zero in the file");
    synth_free(&b);
}

typedef struct producer {
    bs_profile *profile;
    int32_t number;
    pthread_t thread;
} producer;

static void *produce(void *argument)
{
    producer *p = argument;
    add_numbered(p->profile, p->number, 0, 5000);
    return NULL;
}

static void test_producers(size_t ring_bytes)
{
    static uint8_t ring[1 << 16];
    synth_bytes b = {0};
    producer producers[4];
    uint64_t dropped = 0;
    bs_profile *p = make(NULL, synth_write, &b, ring, ring_bytes, NULL);
    begin(p);
    for (int32_t i = 0; i < 4; i++) {
        producers[i] = (producer){.profile = p, .number = i};
        pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
    }
    for (int32_t i = 0; i < 4; i++)
        pthread_join(producers[i].thread, NULL);
    const bs_status status = bs_profile_close(p, &dropped);
    const numbered n = read_numbered(&b);
    check(status == BS_OK && n.in_order, "ring of %d bytes: each of 4 producers finds its events in order",
          (int)ring_bytes);
    check(b.most <= 4096, "a write is a block of 4 KiB at most: %d bytes", (int)b.most);
    check(n.events + dropped == 4 * 5000 && n.told == dropped,
          "every event is written or counted, and the file tells: %d + %d", (int)n.events, (int)dropped);
    synth_free(&b);
}

/* A writer that stands still until it is let go. */
typedef struct slow_sink {
    synth_bytes bytes;
    atomic_int let_go, waiting, done;
} slow_sink;

static int slow_write(void *user, const void *data, size_t bytes)
{
    slow_sink *s = user;
    atomic_fetch_add(&s->waiting, 1);
    while (!atomic_load(&s->let_go))
        ;
    const int result = synth_write(&s->bytes, data, bytes);
    atomic_fetch_sub(&s->waiting, 1);
    atomic_fetch_add(&s->done, 1);
    return result;
}

static void test_full(void)
{
    static BS_ALIGNED uint8_t ring[4096 + 16 * 48];
    static slow_sink sink;
    uint64_t dropped = 0;
    atomic_store(&sink.let_go, 1);
    bs_profile *p = make(NULL, slow_write, &sink, ring, sizeof ring, NULL);
    begin(p);
    atomic_store(&sink.let_go, 0);
    add_numbered(p, 0, 0, 4); /* the mark of 16 cells: the writer begins */
    while (!atomic_load(&sink.waiting))
        ;
    add_numbered(p, 0, 4, 100); /* it stands still: 16 find room */
    atomic_store(&sink.let_go, 1);
    while (atomic_load(&sink.done) < 3)
        ;
    add_numbered(p, 0, 104, 8);
    const bs_status status = bs_profile_close(p, &dropped);
    const numbered n = read_numbered(&sink.bytes);
    check(status == BS_OK && dropped == 84 && n.events == 112 - 84, "a full ring drops what comes: %d of 112",
          (int)dropped);
    check(n.told == dropped && n.told_before_last, "and tells it in the file as soon as there is room: %d",
          (int)n.told);
    check(n.in_order, "what is written is in order all the same");
    synth_free(&sink.bytes);
}

static void test_write_failure(void)
{
    static uint8_t ring[1 << 14];
    for (int fail_at = 1; fail_at <= 4; fail_at++) {
        synth_bytes b = {.fail_at = fail_at};
        uint64_t dropped = 0;
        bs_profile *p = make(NULL, synth_write, &b, ring, sizeof ring, NULL);
        begin(p);
        for (uint64_t i = 0; i < 10; i++)
            add_numbered(p, 0, i * 100, 100);
        const bs_status status = bs_profile_close(p, &dropped);
        const numbered n = read_numbered(&b);
        /* Few large writes may do; then nothing failed and nothing was lost. */
        const int failed = b.writes >= fail_at;
        check(status == (failed ? BS_ERROR_IO : BS_OK) && n.events + dropped == 1000 && b.writes <= fail_at,
              "after failed write %d nothing more is written, and the rest is counted: %d", fail_at, (int)dropped);
        synth_free(&b);
    }
}

static void test_no_threads(void)
{
    static uint8_t ring[1 << 14]; /* 128 cells, mark 32 */
    bs_platform alone = *bs_platform_default();
    synth_bytes b = {0};
    uint64_t dropped = 0;
    alone.thread_start = NULL;
    bs_profile *p = make(&alone, synth_write, &b, ring, sizeof ring, NULL);
    begin(p);
    const int after_header = b.writes;
    add_numbered(p, 0, 0, 8);
    const int after_few = b.writes;
    add_numbered(p, 0, 8, 1000);
    const int after_many = b.writes;
    const bs_status status = bs_profile_close(p, &dropped);
    const numbered n = read_numbered(&b);
    check(after_few == after_header && after_many > after_few + 2,
          "without threads, blocks are written as the ring fills");
    check(status == BS_OK && dropped == 0 && n.events == 1008 && n.in_order, "and nothing is lost");
    synth_free(&b);
}

/* What is written through may itself have something to record: it must not write from within. */
static bs_profile *recording;
static int inside, nested;

static int write_and_add(void *user, const void *data, size_t bytes)
{
    nested += inside++ > 0;
    if (recording)
        add_numbered(recording, 1, (uint64_t)((synth_bytes *)user)->writes * 1000, 64);
    inside--;
    return synth_write(user, data, bytes);
}

static void test_within(void)
{
    static uint8_t ring[1 << 14];
    bs_platform alone = *bs_platform_default();
    synth_bytes b = {0};
    uint64_t dropped = 0;
    alone.thread_start = NULL;
    bs_profile *p = make(&alone, write_and_add, &b, ring, sizeof ring, NULL);
    add_numbered(p, 0, 0, 64);
    check(b.writes == 0, "what comes before the header waits for it");
    begin(p);
    recording = p;
    add_numbered(p, 0, 64, 64);
    recording = NULL;
    const bs_status status = bs_profile_close(p, &dropped);
    const numbered n = read_numbered(&b);
    check(status == BS_OK && nested == 0 && n.in_order && n.events > 128 && n.told == dropped,
          "events that come while a block is written are in the file, or counted");
    synth_free(&b);
}

static int no_thread(void *user, void *handle, void (*entry)(void *), void *argument)
{
    (void)user, (void)handle, (void)entry, (void)argument;
    return -1;
}

static int no_gate(void *user, void *storage)
{
    (void)user, (void)storage;
    return -1;
}

static void test_creation(void)
{
    enum { LEAST = 4096 + 16 * 48 };
    bs_platform broken = *bs_platform_default();
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    synth_bytes b = {0};
    bs_arena arena;
    uint8_t *ring = malloc(LEAST + 63);
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    bs_profile_desc desc = {&broken, synth_write, &b, ring, LEAST + 63};
    broken.thread_start = no_thread;
    check(!bs_profile_create(&arena, &desc, &error) && error.status == BS_ERROR_PLATFORM && arena.used == 0,
          "a thread that does not start is an error, and the arena is as it was");
    broken.gate_init = no_gate;
    check(!bs_profile_create(&arena, &desc, &error) && error.status == BS_ERROR_PLATFORM,
          "so is a gate that cannot be made");
    desc = (bs_profile_desc){NULL, synth_write, &b, ring, 1000};
    check(!bs_profile_create(&arena, &desc, &error) && error.status == BS_ERROR_ARGUMENT &&
              strstr(error.message, "4928"),
          "a ring that is too small is refused with the bytes that always do");
    desc = (bs_profile_desc){NULL, NULL, &b, ring, LEAST + 63};
    check(!bs_profile_create(&arena, &desc, &error) && error.status == BS_ERROR_ARGUMENT,
          "nothing to write with is refused");
    bs_arena small = arena;
    small.size = 100;
    desc.write = synth_write;
    check(!bs_profile_create(&small, &desc, &error) && error.status == BS_ERROR_ARENA && error.needed > 100,
          "an arena that is too small is named");
    bs_profile *p = bs_profile_create(&arena, &desc, &error);
    uint64_t dropped = 0;
    check(p != NULL, "the least ring works at any alignment");
    begin(p);
    const bs_profile_header_desc again = synth_header();
    check(bs_profile_header(p, &again) == BS_ERROR_ARGUMENT, "a second header is refused");
    check(bs_profile_close(p, &dropped) == BS_OK && dropped == 0, "a profile without events closes well");
    synth_free(&b);
    free(ring);
}

static void test_nothing(void)
{
    static uint8_t ring[1 << 14];
    synth_bytes b = {0};
    uint64_t dropped = 7;
    const bs_event e = synth_event(BS_EVENT_RUN, 0, 0, 0, 0, 0);
    const bs_profile_header_desc header = synth_header();
    bs_profile_add(NULL, &e);
    check(bs_profile_header(NULL, &header) == BS_OK && bs_profile_close(NULL, &dropped) == BS_OK && dropped == 0,
          "no profile records nothing");
    bs_profile *p = make(NULL, synth_write, &b, ring, sizeof ring, NULL);
    add_numbered(p, 0, 0, 300);
    check(bs_profile_close(p, &dropped) == BS_OK && dropped == 300 && b.n == 0,
          "events without a header are counted, not written");
}

/* --- the file -------------------------------------------------------------------------------------------- */

static void odd_router(const void *user, int32_t i, bs_profile_router *router)
{
    static const char *const names[3] = {NULL, "caf\xc3\xa9 \x7f~",
                                         "0123456789012345678901234567890123456789012345678901234567890123456789"};
    (void)user;
    router->name = names[i];
    router->paths = 1;
}

static void test_names(void)
{
    static const char *const expected[3] = {"", "caf?? ?~",
                                            "012345678901234567890123456789012345678901234567890123456789012"};
    static uint8_t ring[1 << 14];
    const bs_profile_header_desc header = {.n_routers = 3, .router = odd_router};
    bs_profile_router_facts facts;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    synth_bytes b = {0};
    bs_arena arena;
    bs_profile *p = make(NULL, synth_write, &b, ring, sizeof ring, NULL);
    bs_profile_header(p, &header);
    bs_profile_close(p, NULL);
    bs_profile_reader *r = open_bytes(&b, &arena, &error);
    for (int32_t i = 0; i < 3; i++)
        check(r && bs_profile_router_get(r, i + 1, &facts) == BS_OK && strcmp(facts.name, expected[i]) == 0,
              "a name of no more than plain ASCII: \"%s\"", r ? facts.name : error.message);
    synth_free(&b);
}

/* What nobody asks for is not filled. */
static void test_asking(void)
{
    bs_arena arena;
    bs_error error;
    bs_stream_unit_facts unit;
    bs_stream_stage_facts stage;
    bs_trace trace;
    synth_bytes b = synth_profile(1, NULL);
    bs_reader reader = synth_reader(&b);
    bs_profile_reader *r = open_bytes(&b, &arena, &error);
    check(r && bs_profile_unit_get(r, 1, &unit, NULL) == BS_OK && bs_profile_stage_get(r, 1, &stage, NULL) == BS_OK &&
              stage.n_units == SYNTH_PATHS && bs_profile_stage_get(r, -1, &stage, NULL) == BS_ERROR_ARGUMENT &&
              bs_profile_stage_get(r, SYNTH_STAGES, &stage, NULL) == BS_ERROR_ARGUMENT &&
              bs_profile_unit_get(r, -1, &unit, NULL) == BS_ERROR_ARGUMENT,
          "facts of what there is, without what is not asked for");
    reader.read = NULL;
    check(bs_trace_load(&arena, &reader, &trace, NULL) == BS_ERROR_ARGUMENT &&
              bs_trace_load(NULL, &reader, &trace, NULL) == BS_ERROR_ARGUMENT,
          "without a function that reads, or an arena, nothing is read");
    synth_free(&b);
}

static void test_round_trip(void)
{
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_profile_facts facts;
    bs_profile_router_facts router;
    bs_stream_unit_facts unit;
    bs_stream_stage_facts stage;
    int32_t units[SYNTH_PATHS];
    uint64_t read_bytes;
    synth_bytes b = synth_profile(3, NULL);
    bs_profile_reader *r = open_bytes(&b, &arena, &error);
    if (!check(r != NULL, "a profile opens %s", error.message))
        return;
    bs_profile_facts_get(r, &facts);
    check(facts.routers == 2 && facts.units == SYNTH_UNITS && facts.stages == SYNTH_STAGES &&
              facts.slot_bytes == 150000 && facts.chunk_bytes == SYNTH_CHUNK && facts.policy == BS_POLICY_LRU &&
              facts.torn_bytes == 0 && facts.events > 30,
          "its facts are those that were given");
    check(bs_profile_router_get(r, 2, &router) == BS_OK && router.paths == SYNTH_PATHS &&
              strcmp(router.name, "second \"quoted\\\" ??") == 0,
          "names come back, as plain text: %s", router.name);
    check(bs_profile_unit_get(r, 6, &unit, &read_bytes) == BS_OK && unit.router == 2 && unit.path == 1 &&
              read_bytes == 20000 && unit.slot_bytes == 20064 && strcmp(unit.name, "b1") == 0,
          "units come back");
    check(bs_profile_stage_get(r, 2, &stage, units) == BS_OK && stage.router == 2 && stage.n_units == 4 &&
              units[0] == 5 && units[3] == 8,
          "stages come back");
    check(bs_profile_router_get(r, 0, &router) != BS_OK && bs_profile_router_get(r, 3, &router) != BS_OK &&
              bs_profile_unit_get(r, 9, &unit, NULL) != BS_OK && bs_profile_unit_get(r, -1, &unit, NULL) != BS_OK &&
              bs_profile_stage_get(r, 3, &stage, NULL) != BS_OK,
          "numbers that are not there are refused");
    bs_event first, e;
    uint64_t n = 1;
    bs_profile_next(r, &first, &error);
    while (bs_profile_next(r, &e, &error))
        n++;
    bs_profile_rewind(r);
    check(n == facts.events && bs_profile_next(r, &e, &error) && memcmp(&e, &first, sizeof e) == 0,
          "events can be read twice");
    synth_free(&b);
}

/* A profile of one's own making: the header of synth_header, then these events. */
static synth_bytes file_of(const bs_event *events, int count)
{
    synth_bytes b = synth_profile(0, NULL);
    synth_write(&b, events, (size_t)count * sizeof *events);
    return b;
}

static void test_trace_figures(void)
{
    bs_event e[] = {
        synth_event(BS_EVENT_STALL, 0, 0, 0, 1010, 1040),
        synth_event(BS_EVENT_USE, 0, 0, BS_USE_MISS, 1045, 1095),
        synth_event(BS_EVENT_STAGE, 0, 0, 1, 1010, 1100), /* 90, of them 30 stalled and 50 computed */
        synth_event(BS_EVENT_READ, 5, 0, 1000, 1000, 2000), /* two lanes, at the same time for 500 */
        synth_event(BS_EVENT_READ, 6, 0, 1000, 1500, 2500),
        synth_event(BS_EVENT_PREPARE, 5, 0, 1000, 2000, 2250),
        synth_event(BS_EVENT_GUESS, 6, 2, 3, 1150, 1150),
        synth_event(BS_EVENT_GUESS, -1, 2, 99, 1150, 1150),
        synth_event(BS_EVENT_USE, 2, 1, BS_USE_HIT, 1120, 1140),
        synth_event(BS_EVENT_USE, 3, 1, BS_USE_LATE, 1140, 1160),
        synth_event(BS_EVENT_USE, 2, 1, BS_USE_HIT, 1160, 1170), /* again */
        synth_event(BS_EVENT_STAGE, 1, 0, 2, 1115, 1170), /* 15 after, 5 inside */
        synth_event(BS_EVENT_RUN, 0, 0, 0, 1000, 1200),   /* 10 before, 30 after */
        synth_event(BS_EVENT_USE, 0, 0, BS_USE_HIT, 5000, 5007),
        synth_event(BS_EVENT_STAGE, 0, 0, 1, 4990, 4980), /* time went backwards: no length */
        synth_event(BS_EVENT_RUN, 1, 0, 0, 4900, 5010),
        synth_event(BS_EVENT_DROPPED, -1, 0, 12, 5010, 5010),
        synth_event(BS_EVENT_USE, 4, 1, BS_USE_HIT, 5100, 5200), /* its stage was lost */
        synth_event(BS_EVENT_USE, 8, 2, 77, 5200, 5210),         /* an outcome of a later version */
        synth_event(BS_EVENT_STAGE, 2, 0, 1, 5200, 5215),
        synth_event(BS_EVENT_USE, 7, 2, BS_USE_HIT, 5300, 5400), /* never left */
        synth_event(BS_EVENT_GUESS, 7, 2, 0, 5300, 5300),
    };
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    synth_bytes b = file_of(e, (int)(sizeof e / sizeof *e));
    if (!check(load(&b, &t, &error) == BS_OK, "a trace is made of a profile %s", error.message))
        return;
    check(t.n_visits == 4 && t.n_uses == 5 && t.n_guesses == 2,
          "stages are visits, their uses and guesses come along: %d, %d, %d", t.n_visits, t.n_uses, t.n_guesses);
    check(t.visits[0].before_ns == 10 + 10,
          "before the first visit: since the run began, and what is neither use nor stall: %d",
          (int)t.visits[0].before_ns);
    check(t.visits[1].before_ns == 15 + 5, "before the next: since the one before: %d", (int)t.visits[1].before_ns);
    check(t.visits[2].before_ns == 30 + 90, "a run's rest counts for the next run: %d", (int)t.visits[2].before_ns);
    check(t.visits[3].before_ns == 20 + 5, "a run that never ended counts from its first stage: %d",
          (int)t.visits[3].before_ns);
    check(t.visits[1].n_uses == 2 && t.visits[1].first_use == 1 && t.uses[1].unit == 2 && t.uses[2].unit == 3 &&
              t.uses[1].compute_ns == 30 && t.uses[2].compute_ns == 20 && t.uses[2].outcome == BS_USE_LATE,
          "uses are those of the stage, in order, and one a unit");
    check(t.visits[3].n_uses == 1 && t.uses[4].unit == 8 && t.uses[4].outcome == -1,
          "uses without their stage are left out");
    check(t.visits[1].n_guesses == 2 && t.guesses[0].stage == 2 && t.guesses[0].unit == 6 &&
              t.guesses[0].strength == 3 && t.guesses[1].unit == -1 && t.guesses[1].strength == 7 &&
              t.visits[0].n_guesses == 0 && t.visits[2].n_guesses == 0,
          "look-aheads belong to the visit they were made in");
    check(t.ns_per_byte == 0.75, "reads at the same time share the device: %g ns a byte", t.ns_per_byte);
    check(t.prepare_ns_per_byte == 0.25, "packing takes %g ns a byte", t.prepare_ns_per_byte);
    check(t.lost_events == 12 && t.policy == BS_POLICY_LRU && t.slot_bytes == 150000, "what was lost is known");
    synth_free(&b);
}

static void test_busy(void)
{
    bs_event e[64];
    bs_trace t;
    bs_error error;
    for (int i = 0; i < 40; i++) /* apart, more than are kept open */
        e[i] = synth_event(BS_EVENT_READ, 0, 0, 10, (uint64_t)(i * 100), (uint64_t)(i * 100 + 50));
    e[40] = synth_event(BS_EVENT_READ, 0, 0, 100, 3700, 4050); /* covers three of them and reaches 100 further */
    synth_bytes b = file_of(e, 41);
    const bs_status status = load(&b, &t, &error);
    check(status == BS_OK && t.ns_per_byte == (37 * 50 + 350) / 500.0, "a read that spans others counts once: %g",
          t.ns_per_byte);
    synth_free(&b);
}

static void test_synthetic(void)
{
    synth_net net;
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    synth_bytes b = synth_profile(40, &net);
    int outcomes[3] = {0, 0, 0};
    if (!check(load(&b, &t, &error) == BS_OK, "forty runs load %s", error.message))
        return;
    for (int32_t i = 0; i < t.n_uses; i++)
        outcomes[t.uses[i].outcome]++;
    check(t.n_visits == 120 && t.n_uses == 120 && t.n_guesses == 40 && outcomes[BS_USE_HIT] == net.hits &&
              outcomes[BS_USE_MISS] == net.misses,
          "as many visits, uses and guesses as were made: %d hits, %d misses", net.hits, net.misses);
    uint64_t before = 0;
    for (int32_t i = 0; i < t.n_visits; i++)
        before += t.visits[i].before_ns;
    check(before == 40 * 6000 + 39 * 4000, "and as much time beside them");
    synth_free(&b);
}

/* --- no file harms --------------------------------------------------------------------------------------- */

/* Opens, reads and loads a copy of exactly that size; whatever comes of it must be bounded by the file. */
static int survives(const uint8_t *data, size_t n, bs_status *status)
{
    synth_bytes b = {.data = malloc(n + (n == 0)), .n = n};
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    int good = 1;
    memcpy(b.data, data, n);
    *status = load(&b, &t, &error);
    if (*status == BS_OK) {
        const int64_t most = (int64_t)(n / sizeof(bs_event));
        good = t.n_visits <= most && t.n_uses <= most && t.n_guesses <= most && t.n_units <= (int64_t)n;
        for (int32_t i = 0; i < t.n_visits; i++)
            good &= t.visits[i].stage < t.n_stages && t.visits[i].first_use + t.visits[i].n_uses <= t.n_uses &&
                    t.visits[i].first_guess + t.visits[i].n_guesses <= t.n_guesses;
        for (int32_t i = 0; i < t.n_uses; i++)
            good &= t.uses[i].unit >= 0 && t.uses[i].unit < t.n_units;
    } else {
        good = error.status == *status && error.message[0] != 0;
    }
    free(b.data);
    return good;
}

static void test_truncations(void)
{
    synth_bytes b = synth_profile(3, NULL);
    const size_t events_at = synth_header_bytes();
    int bad = 0;
    for (size_t n = 0; n <= b.n; n++) {
        bs_status status;
        bad += !survives(b.data, n, &status) || status != (n < events_at ? BS_ERROR_FORMAT : BS_OK);
    }
    check(bad == 0, "cut off at each of %d bytes, the tables are refused and the events read as far as they go",
          (int)b.n);
    bs_trace t;
    bs_error error;
    const size_t whole = b.n;
    load(&b, &t, &error);
    const uint64_t lost = t.lost_events;
    b.n = whole - 1;
    check(load(&b, &t, &error) == BS_OK && t.lost_events == lost + 1, "an event that was cut off counts as lost");
    synth_free(&b);
}

static void test_bit_flips(void)
{
    synth_bytes b = synth_profile(2, NULL);
    int bad = 0, refused = 0;
    for (size_t i = 0; i < b.n * 8; i++) {
        bs_status status;
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
        bad += !survives(b.data, b.n, &status);
        refused += status != BS_OK;
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    check(bad == 0 && refused > 500, "each of %d bits turned is refused (%d) or gives a bounded trace", (int)(b.n * 8),
          refused);
    synth_free(&b);
}

static void test_damages(void)
{
    enum {
        ROUTERS = 64,
        UNITS = 64 + 2 * 72,
        STAGES = UNITS + 9 * 88,
        STAGE_UNITS = STAGES + 3 * 8,
        EVENTS = STAGE_UNITS + 40
    };
    static const struct {
        const char *what;
        size_t at;
        uint64_t value;
        int bytes;
        bs_status status;
        const char *says;
    } damages[] = {
        {"another magic", 0, 0x46554747, 4, BS_ERROR_FORMAT, "BSPF"},
        {"a newer version", 4, 2, 4, BS_ERROR_VERSION, "version 2"},
        {"a header of no bytes", 8, 0, 4, BS_ERROR_FORMAT, "header"},
        {"a header of 2^32-8 bytes", 8, 0xfffffff8, 4, BS_ERROR_FORMAT, "header"},
        {"events of no bytes", 12, 0, 4, BS_ERROR_FORMAT, "events of 0"},
        {"events of 2^31 bytes", 12, 0x80000000, 4, BS_ERROR_FORMAT, "events of"},
        {"2^32-1 routers", 16, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
        {"2^32-1 units", 20, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
        {"2^32-1 stages", 24, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
        {"2^32-1 units of stages", 28, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
        {"2^20 units", 20, 1 << 20, 4, BS_ERROR_FORMAT, "tables take"},
        {"a policy that is not known", 48, 99, 4, BS_ERROR_FORMAT, "policy"},
        {"a negative policy", 48, 0xffffffff, 4, BS_ERROR_FORMAT, "policy"},
        {"a router of no paths", ROUTERS + 64, 0, 4, BS_ERROR_FORMAT, "router 1"},
        {"a router of 32768 paths", ROUTERS + 72 + 64, 32768, 4, BS_ERROR_FORMAT, "router 2"},
        {"a name that is not plain", ROUTERS, 0x1b, 1, BS_ERROR_FORMAT, "router 1"},
        {"a unit of router 3", UNITS + 88 + 64, 3, 4, BS_ERROR_FORMAT, "unit 1"},
        {"a unit of path 4", UNITS + 88 + 68, 4, 4, BS_ERROR_FORMAT, "unit 1"},
        {"a unit of path 0 of no router", UNITS + 68, 0, 4, BS_ERROR_FORMAT, "unit 0"},
        {"a unit of 2^63 bytes", UNITS + 80, (uint64_t)1 << 63, 8, BS_ERROR_LIMIT, "unit 0"},
        {"a stage of router -1", STAGES, 0xffffffff, 4, BS_ERROR_FORMAT, "stage 0"},
        {"a stage of -1 units", STAGES + 4, 0xffffffff, 4, BS_ERROR_FORMAT, "stage 0"},
        {"a stage of 2^31-1 units", STAGES + 12, 0x7fffffff, 4, BS_ERROR_FORMAT, "stage 1"},
        {"stages of fewer units than are listed", STAGES + 20, 3, 4, BS_ERROR_FORMAT, "stages have 8"},
        {"a stage that needs unit 9", STAGE_UNITS, 9, 4, BS_ERROR_FORMAT, "unit 9, there are 9"},
        {"a stage that needs unit -1", STAGE_UNITS + 32, 0xffffffff, 4, BS_ERROR_FORMAT, "unit -1"},
    };
    synth_bytes b = synth_profile(1, NULL);
    bs_trace t;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint8_t kept[8];
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        memcpy(kept, b.data + damages[i].at, 8);
        memcpy(b.data + damages[i].at, &damages[i].value, (size_t)damages[i].bytes);
        const bs_status status = load(&b, &t, &error);
        check(status == damages[i].status && strstr(error.message, damages[i].says), "%s: %s", damages[i].what,
              error.message);
        memcpy(b.data + damages[i].at, kept, 8);
    }
    memset(b.data + ROUTERS, 'x', BS_MAX_NAME);
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    check(load(&b, &t, &error) == BS_ERROR_FORMAT, "a name without an end: %s", error.message);
    synth_free(&b);
}

static void test_event_damages(void)
{
    static const struct { bs_event_kind kind; int32_t subject, index;
    } events[] = {
        {BS_EVENT_DECISION, 0, 0},  {BS_EVENT_DECISION, 3, 0},      {BS_EVENT_DECISION, 1, 4},
        {BS_EVENT_DECISION, 1, -1}, {BS_EVENT_STAGE, 3, 0},         {BS_EVENT_STAGE, -1, 0},
        {BS_EVENT_USE, 9, 0},       {BS_EVENT_USE, -1, 0},          {BS_EVENT_USE, 0, 3},
        {BS_EVENT_USE, 0, -1},      {BS_EVENT_STALL, 9, 0},         {BS_EVENT_STALL, 0, 3},
        {BS_EVENT_GUESS, -2, 0},    {BS_EVENT_GUESS, 9, 0},         {BS_EVENT_GUESS, 0, 3},
        {BS_EVENT_READ, 9, 0},      {BS_EVENT_READ, 0, -1},         {BS_EVENT_PREPARE, -1, 0},
        {BS_EVENT_LOADED, 9, 0},    {BS_EVENT_EVICT, INT32_MAX, 0}, {BS_EVENT_DROP, INT32_MIN, 0},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        const bs_event e[2] = {synth_event(BS_EVENT_RUN, 0, 0, 0, 1, 2),
                               synth_event(events[i].kind, events[i].subject, events[i].index, 0, 1, 2)};
        bs_trace t;
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        synth_bytes b = file_of(e, 2);
        if (load(&b, &t, &error) != BS_ERROR_FORMAT || !strstr(error.message, "event 1 "))
            printf("     kind %d, subject %d, index %d: %s\n", events[i].kind, events[i].subject, events[i].index,
                   error.message),
                bad++;
        synth_free(&b);
    }
    check(bad == 0, "subjects and indices out of range are refused with the number of the event (%d kinds)",
          (int)(sizeof events / sizeof *events));
}

static void test_later_versions(void)
{
    synth_bytes b = synth_profile(2, NULL), wide = {0};
    bs_profile_file header;
    const size_t tables_bytes = synth_header_bytes() - sizeof header;
    const uint8_t more[24] = {1, 2, 3};
    bs_trace a, t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    memcpy(&header, b.data, sizeof header);
    header.header_bytes += 16;
    header.event_bytes += 24;
    synth_write(&wide, &header, sizeof header);
    synth_write(&wide, more, 16);
    synth_write(&wide, b.data + sizeof header, tables_bytes);
    const bs_event unknown[2] = {synth_event((bs_event_kind)BS_EVENT_COUNT, -5, -5, 0, 0, 0),
                                 synth_event((bs_event_kind)-3, 0, 0, 0, 0, 0)};
    for (size_t i = sizeof header + tables_bytes; i < b.n; i += sizeof(bs_event)) {
        synth_write(&wide, b.data + i, sizeof(bs_event));
        synth_write(&wide, more, sizeof more);
        synth_write(&wide, &unknown[i / 40 % 2], sizeof(bs_event));
        synth_write(&wide, more, sizeof more);
    }
    load(&b, &a, &error);
    const int32_t visits = a.n_visits, uses = a.n_uses;
    const double speed = a.ns_per_byte;
    check(load(&wide, &t, &error) == BS_OK && t.n_visits == visits && t.n_uses == uses && t.ns_per_byte == speed,
          "longer headers and events, and kinds that are not known, are passed over %s", error.message);
    synth_free(&b);
    synth_free(&wide);
}

/* --- readers and room ------------------------------------------------------------------------------------ */

typedef struct odd_reader {
    synth_bytes *bytes;
    int reads, fail_at; /* this read fails, by giving less; 0: none */
    int swap_at;        /* from this read on, events are all uses of stage 0 and its ends; 0: never */
    bool keep_ends;     /* as many ends as there were, and everything else is a use */
    size_t events_at;
} odd_reader;

static int64_t odd_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    odd_reader *o = user;
    o->reads++;
    if (o->reads == o->fail_at)
        return bytes > 0 ? (int64_t)bytes - 1 : -1;
    const int64_t n = synth_read(o->bytes, offset, buffer, bytes);
    for (size_t at = 0; o->swap_at && o->reads >= o->swap_at && offset >= o->events_at && at + 40 <= bytes; at += 40) {
        bs_event e;
        memcpy(&e, (uint8_t *)buffer + at, sizeof e);
        const bool end = o->keep_ends ? e.kind == BS_EVENT_STAGE : at / 40 % 3 == 0;
        e = synth_event(end ? BS_EVENT_STAGE : BS_EVENT_USE,
                        o->keep_ends && !end ? (int32_t)(at / 40 % SYNTH_UNITS) : 0, 0, 0, 1, 2);
        memcpy((uint8_t *)buffer + at, &e, sizeof e);
    }
    return n;
}

static void test_readers(void)
{
    synth_bytes b = synth_profile(20, NULL);
    const size_t events_at = synth_header_bytes();
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    odd_reader o = {.bytes = &b};
    const bs_reader reader = {.user = &o, .read = odd_read, .size = b.n};
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    bs_trace_load(&arena, &reader, &t, &error);
    const int all = o.reads;
    int bad = 0;
    for (int i = 1; i <= all; i++) {
        o = (odd_reader){.bytes = &b, .fail_at = i};
        bs_arena_init(&arena, "tables", tables, sizeof tables);
        bad += bs_trace_load(&arena, &reader, &t, &error) != BS_ERROR_IO || arena.used != 0 || error.message[0] == 0;
    }
    check(bad == 0, "each of %d reads that fails is an error, and the arena is as it was", all);
    bad = 0;
    for (int i = 1; i <= all; i++) {
        o = (odd_reader){.bytes = &b, .swap_at = i, .events_at = events_at};
        bs_arena_init(&arena, "tables", tables, sizeof tables);
        const bs_status status = bs_trace_load(&arena, &reader, &t, &error);
        bad += status != BS_OK && status != BS_ERROR_LIMIT;
    }
    check(bad == 0, "a file that changes while it is read does no harm");
    int more = 0;
    for (int i = 1; i <= all; i++) {
        o = (odd_reader){.bytes = &b, .swap_at = i, .keep_ends = true, .events_at = events_at};
        bs_arena_init(&arena, "tables", tables, sizeof tables);
        more += bs_trace_load(&arena, &reader, &t, &error) == BS_ERROR_LIMIT;
    }
    check(more > 0, "more uses than there were is an error (from %d of %d reads on)", more, all);
    check(all < 16 + 2 * (int)(b.n / 4000 + 1), "events are read in blocks: %d reads of %d bytes", all, (int)b.n);
    synth_free(&b);
}

static void test_room(void)
{
    synth_bytes b = synth_profile(2, NULL);
    const bs_reader reader = synth_reader(&b);
    bs_trace t;
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    bs_trace_load(&arena, &reader, &t, &error);
    const size_t needed = arena.used;
    int bad = 0;
    for (size_t n = 0; n < needed; n += 8) {
        bs_arena_init(&arena, "tables", tables, n);
        bad += bs_trace_load(&arena, &reader, &t, &error) != BS_ERROR_ARENA || arena.used != 0 || error.needed == 0;
    }
    bs_arena_init(&arena, "tables", tables, needed);
    check(bad == 0 && bs_trace_load(&arena, &reader, &t, &error) == BS_OK,
          "less than the %d bytes it takes is refused at any size", (int)needed);
    check(bs_trace_load(NULL, &reader, &t, &error) == BS_ERROR_ARGUMENT &&
              bs_trace_load(&arena, NULL, &t, NULL) == BS_ERROR_ARGUMENT,
          "without an arena or a reader nothing is read");
    synth_free(&b);
}

int main(void)
{
    test_order();
    test_producers(5000);
    test_producers(1 << 16);
    test_full();
    test_write_failure();
    test_no_threads();
    test_within();
    test_creation();
    test_nothing();
    test_names();
    test_asking();
    test_round_trip();
    test_trace_figures();
    test_busy();
    test_synthetic();
    test_truncations();
    test_bit_flips();
    test_damages();
    test_event_damages();
    test_later_versions();
    test_readers();
    test_room();
    return check_end();
}
