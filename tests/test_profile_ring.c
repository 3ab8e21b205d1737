/* tags: asan tsan */
/* Promises: the ring of a profile loses nothing in silence and never waits. Producers are worth most under `make
 * test-tsan`. */
#include "profile_rig.h"

#include <pthread.h>
#include <stdatomic.h>

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
    bs_profile_desc desc = {&broken, synth_write, &b, ring, LEAST + 63, 0};
    broken.thread_start = no_thread;
    check(!bs_profile_create(&arena, &desc, &error) && error.status == BS_ERROR_PLATFORM && arena.used == 0,
          "a thread that does not start is an error, and the arena is as it was");
    broken.gate_init = no_gate;
    check(!bs_profile_create(&arena, &desc, &error) && error.status == BS_ERROR_PLATFORM,
          "so is a gate that cannot be made");
    desc = (bs_profile_desc){NULL, synth_write, &b, ring, 1000, 0};
    check(!bs_profile_create(&arena, &desc, &error) && error.status == BS_ERROR_ARGUMENT &&
              strstr(error.message, "4928"),
          "a ring that is too small is refused with the bytes that always do");
    desc = (bs_profile_desc){NULL, NULL, &b, ring, LEAST + 63, 0};
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
    return check_end();
}
