/* profile_synth.h - profiles for tests: a sink in memory, and a small routed network whose runs are made up.
 * Relies on profile/profile.h, as a session does. */
#ifndef BS_TEST_PROFILE_SYNTH_H
#define BS_TEST_PROFILE_SYNTH_H

#include "profile/profile.h"

#include <stdlib.h>

/* --- where bytes go, and come from --------------------------------------------------------------------- */

typedef struct synth_bytes {
    uint8_t *data;
    size_t n, room;
    int writes;
    int fail_at; /* this write and those after fail; 0: none */
    size_t most; /* bytes of one write */
} synth_bytes;

static inline int synth_write(void *user, const void *data, size_t bytes)
{
    synth_bytes *b = user;
    b->most = bytes > b->most ? bytes : b->most;
    if (++b->writes >= b->fail_at && b->fail_at > 0)
        return -1;
    if (b->n + bytes > b->room) {
        b->room = 2 * (b->n + bytes);
        b->data = realloc(b->data, b->room);
        if (!b->data)
            abort();
    }
    memcpy(b->data + b->n, data, bytes);
    b->n += bytes;
    return 0;
}

static inline int64_t synth_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const synth_bytes *b = user;
    const size_t left = offset < b->n ? b->n - (size_t)offset : 0;
    const size_t n = bytes < left ? bytes : left;
    memcpy(buffer, b->data + (n ? offset : 0), n);
    return (int64_t)n;
}

static inline bs_reader synth_reader(synth_bytes *b)
{
    return (bs_reader){.user = b, .read = synth_read, .size = b->n};
}

static inline void synth_free(synth_bytes *b)
{
    free(b->data);
    memset(b, 0, sizeof *b);
}

/* --- the network: a unit for every run, then two routers of four units each ------------------------------ */

enum { SYNTH_UNITS = 9, SYNTH_PHASES = 3, SYNTH_PATHS = 4, SYNTH_SLOTS = 5, SYNTH_CHUNK = 10000 };

static inline uint64_t synth_unit_bytes(int32_t unit) { return 20000 + 5000 * (uint64_t)(unit % 3); }

static inline void synth_router(const void *user, int32_t i, bs_profile_router *router)
{
    (void)user;
    router->name = i == 0 ? "first" : "second \"quoted\\\" \t\x01";
    router->paths = SYNTH_PATHS;
}

static inline void synth_unit(const void *user, int32_t i, bs_profile_unit *unit)
{
    static const char *const names[SYNTH_UNITS] = {"stem", "a0", "a1", "a2", "a\"3\\", "b0", "b1", "b2", "b3"};
    (void)user;
    unit->name = names[i];
    unit->router = i == 0 ? 0 : 1 + (i - 1) / SYNTH_PATHS;
    unit->path = i == 0 ? -1 : (i - 1) % SYNTH_PATHS;
    unit->read_bytes = synth_unit_bytes(i);
    unit->slot_bytes = synth_unit_bytes(i) + 64;
}

static inline void synth_phase(const void *user, int32_t i, bs_profile_phase *phase)
{
    static const int32_t units[SYNTH_UNITS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    (void)user;
    phase->router = i;
    phase->n_units = i == 0 ? 1 : SYNTH_PATHS;
    phase->units = i == 0 ? units : units + 1 + (i - 1) * SYNTH_PATHS;
}

static inline bs_profile_header_desc synth_header(void)
{
    return (bs_profile_header_desc){.n_routers = 2,
                                    .n_units = SYNTH_UNITS,
                                    .n_phases = SYNTH_PHASES,
                                    .router = synth_router,
                                    .unit = synth_unit,
                                    .phase = synth_phase,
                                    .slot_bytes = 5 * 30000,
                                    .chunk_bytes = SYNTH_CHUNK,
                                    .policy = BS_POLICY_LRU};
}

static inline bs_event synth_event(bs_event_kind kind, int32_t subject, int32_t index, uint64_t value, uint64_t start,
                                   uint64_t end)
{
    return (bs_event){
        .start_ns = start, .end_ns = end, .value = value, .subject = subject, .index = index, .kind = (int16_t)kind};
}

/* --- its runs -------------------------------------------------------------------------------------------- */

typedef struct synth_net {
    bs_profile *profile;
    uint64_t now;
    int32_t slots[SYNTH_SLOTS]; /* units, most recently used first; -1 */
    int32_t guessed;            /* unit on its way, -1 */
    int hits, late, misses;
} synth_net;

static inline void synth_add(synth_net *s, bs_event_kind kind, int32_t subject, int32_t index, uint64_t value,
                             uint64_t start, uint64_t end)
{
    const bs_event e = synth_event(kind, subject, index, value, start, end);
    bs_profile_add(s->profile, &e);
}

/* Moves a unit to the front; returns whether it was there. */
static inline int synth_touch(synth_net *s, int32_t unit)
{
    int i = 0;
    while (i < SYNTH_SLOTS - 1 && s->slots[i] != unit)
        i++;
    const int32_t last = s->slots[i];
    memmove(s->slots + 1, s->slots, (size_t)i * sizeof *s->slots);
    s->slots[0] = unit;
    if (last != unit && last >= 0)
        synth_add(s, BS_EVENT_EVICT, last, unit == s->guessed, 0, s->now, s->now);
    return last == unit;
}

/* One byte a nanosecond; packing takes half of that. Returns when it is there. */
static inline uint64_t synth_load(synth_net *s, int32_t unit, int16_t lane, int guess, uint64_t from)
{
    uint64_t t = from, left = synth_unit_bytes(unit);
    for (int32_t chunk = 0; left > 0; chunk++) {
        const uint64_t bytes = left < SYNTH_CHUNK ? left : SYNTH_CHUNK;
        bs_event e = synth_event(BS_EVENT_READ, unit, chunk, bytes, t, t + bytes);
        e.thread = lane;
        bs_profile_add(s->profile, &e);
        e.kind = BS_EVENT_PREPARE;
        e.start_ns = t + bytes;
        e.end_ns = t = t + bytes + bytes / 2;
        bs_profile_add(s->profile, &e);
        left -= bytes;
    }
    bs_event e = synth_event(BS_EVENT_LOADED, unit, guess, 0, from, t);
    e.thread = lane;
    bs_profile_add(s->profile, &e);
    return t;
}

static inline void synth_visit(synth_net *s, int32_t phase, int32_t unit, int32_t guess)
{
    const uint64_t began = s->now;
    const int resident = synth_touch(s, unit);
    bs_use use = resident ? BS_USE_HIT : BS_USE_MISS;
    if (!resident) {
        const uint64_t there = synth_load(s, unit, 0, 0, s->now);
        synth_add(s, BS_EVENT_STALL, unit, phase, 0, s->now, there);
        s->now = there;
    }
    (use == BS_USE_HIT ? &s->hits : &s->misses)[0]++;
    if (guess >= 0) {
        synth_add(s, BS_EVENT_GUESS, guess, phase + 1, 0, s->now, s->now);
        s->guessed = guess;
        if (!synth_touch(s, guess))
            synth_load(s, guess, 1, 1, s->now);
        s->guessed = -1;
    }
    synth_add(s, BS_EVENT_USE, unit, phase, use, s->now, s->now + 50000);
    s->now += 50000;
    synth_add(s, BS_EVENT_PHASE, phase, 0, 1, began, s->now);
}

static inline void synth_run(synth_net *s, int32_t run)
{
    const uint64_t began = s->now;
    const int32_t a = (run * run + run / 3) % SYNTH_PATHS, b = (a + (run % 5 == 0)) % SYNTH_PATHS;
    s->now += 1000;
    synth_visit(s, 0, 0, -1);
    s->now += 2000;
    synth_add(s, BS_EVENT_DECISION, 1, a, 7, s->now, s->now);
    synth_visit(s, 1, 1 + a, 1 + SYNTH_PATHS + a);
    s->now += 3000;
    synth_add(s, BS_EVENT_DECISION, 2, b, 5, s->now, s->now);
    synth_visit(s, 2, 1 + SYNTH_PATHS + b, -1);
    s->now += 4000;
    synth_add(s, BS_EVENT_RUN, run, 0, 0, began, s->now);
    s->now += 100000;
}

static inline synth_net synth_begin(bs_profile *profile)
{
    synth_net s = {.profile = profile, .now = 5000000, .guessed = -1};
    for (int i = 0; i < SYNTH_SLOTS; i++)
        s.slots[i] = -1;
    return s;
}

/* A whole profile of `runs` runs. Counts of uses into `counted`, which may be NULL. */
static inline synth_bytes synth_profile(int32_t runs, synth_net *counted)
{
    static BS_ALIGNED uint8_t persistent[2048];
    static uint8_t ring[1 << 16];
    bs_platform alone = *bs_platform_default();
    synth_bytes bytes = {0};
    bs_arena arena;
    alone.thread_start = NULL; /* nothing is lost */
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    const bs_profile_desc desc = {
        .platform = &alone, .write = synth_write, .user = &bytes, .memory = ring, .bytes = sizeof ring};
    bs_profile *profile = bs_profile_create(&arena, &desc, NULL);
    const bs_profile_header_desc header = synth_header();
    bs_profile_header(profile, &header);
    synth_net s = synth_begin(profile);
    for (int32_t run = 0; run < runs; run++)
        synth_run(&s, run);
    bs_profile_close(profile, NULL);
    if (counted)
        *counted = s;
    return bytes;
}

static inline size_t synth_header_bytes(void)
{
    synth_bytes b = synth_profile(0, NULL);
    const size_t n = b.n;
    synth_free(&b);
    return n;
}

#endif
