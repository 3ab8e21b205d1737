/* profile_rig.h - what tests of profiles share: a profile with numbered events, and a file of one's own making. Relies
 * on profile_synth.h. */
#ifndef BS_TEST_PROFILE_RIG_H
#define BS_TEST_PROFILE_RIG_H

#include "check.h"
#include "profile_synth.h"

static BS_ALIGNED uint8_t persistent[4096];
static BS_ALIGNED uint8_t tables[1 << 20];

static inline bs_profile *make(const bs_platform *platform, bs_profile_write write, void *user, void *ring,
                               size_t bytes, bs_error *error)
{
    bs_arena arena;
    const bs_profile_desc desc = {.platform = platform, .write = write, .user = user, .memory = ring, .bytes = bytes};
    bs_arena_init(&arena, "persistent", persistent, sizeof persistent);
    return bs_profile_create(&arena, &desc, error);
}

static inline void begin(bs_profile *profile)
{
    const bs_profile_header_desc header = synth_header();
    bs_profile_header(profile, &header);
}

static inline bs_profile_reader *open_bytes(synth_bytes *b, bs_arena *arena, bs_error *error)
{
    const bs_reader reader = synth_reader(b);
    bs_arena_init(arena, "tables", tables, sizeof tables);
    return bs_profile_open(arena, &reader, error);
}

static inline bs_status load(synth_bytes *b, bs_trace *trace, bs_error *error)
{
    bs_arena arena;
    const bs_reader reader = synth_reader(b);
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    return bs_trace_load(&arena, &reader, trace, error);
}

static inline void add_numbered(bs_profile *profile, int32_t thread, uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++) {
        bs_event e = synth_event(BS_EVENT_RUN, thread, 0, i, i, i + 1);
        e.reserved = -1; /* must not show in the file */
        bs_profile_add(profile, &e);
    }
}

/* What add_numbered left in a file. */
typedef struct numbered {
    uint64_t events, told; /* of runs; dropped, as the file tells */
    int in_order, rests;
    int told_before_last; /* an event of a drop stands before the last run */
} numbered;

static inline numbered read_numbered(synth_bytes *b)
{
    numbered n = {.in_order = 1};
    int64_t last[64];
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_event e;
    memset(last, -1, sizeof last);
    bs_profile_reader *r = open_bytes(b, &arena, &error);
    while (r && bs_profile_next(r, &e, &error)) {
        n.rests += e.reserved != 0;
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

/* A profile of one's own making: the header of synth_header, then these events. */
static inline synth_bytes file_of(const bs_event *events, int count)
{
    synth_bytes b = synth_profile(0, NULL);
    synth_write(&b, events, (size_t)count * sizeof *events);
    return b;
}

#endif
