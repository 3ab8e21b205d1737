/* store_rig.h - sessions of store_nets.h over flat_source.h, in arenas of the planned bytes, beside what the resident
 * session says.
 * Owns source, arenas and results. Must never hold more than one session. */
#ifndef BS_TEST_STORE_RIG_H
#define BS_TEST_STORE_RIG_H

#include "flat_source.h"
#include "run/session.h"
#include "store_nets.h"

enum { RUNS = 5, OUT_FLOATS = 1 << 14, IN_FLOATS = 1 << 14, GUARD = 256 };

typedef struct setup {
    bs_plan_desc plan;
    bs_stream_desc stream;
    const bs_platform *platform;
    uint32_t alignment;
} setup;

typedef struct rig {
    bs_memory memory;
    bs_plan *plan;
    bs_session *session;
    bs_sizes sizes;
    bs_error error;
} rig;

static flat_source source;
static _Alignas(4096) uint8_t arenas[4][8 << 20];
static _Alignas(64) uint8_t plan_memory[8 << 20];
static float input[IN_FLOATS], output[OUT_FLOATS], wanted[RUNS][OUT_FLOATS];

static inline bool rig_plan(rig *r, const setup *s)
{
    bs_arena arena;
    memset(r, 0, sizeof *r);
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    r->plan = bs_plan_create(&arena, NULL, source.g, &s->plan, &r->error);
    if (r->plan)
        bs_plan_sizes(r->plan, &r->sizes);
    return r->plan != NULL;
}

static inline uint64_t *size_of(rig *r, int32_t which)
{
    uint64_t *const sizes[4] = {&r->sizes.persistent, &r->sizes.transient, &r->sizes.staging, &r->sizes.slots};
    return sizes[which];
}

/* In arenas of the planned bytes, with `less` missing from one. */
static inline bool rig_session(rig *r, const setup *s, int32_t which, uint64_t less)
{
    static const char *const arena_names[4] = {"persistent", "transient", "staging", "slots"};
    bs_arena *const all[4] = {&r->memory.persistent, &r->memory.transient, &r->memory.staging, &r->memory.slots};
    const bs_session_desc desc = {.platform = s->platform,
                                  .weights = flat_weights(&source, s->alignment ? s->alignment : 1),
                                  .stream = s->stream};
    for (int32_t i = 0; i < 4; i++) {
        const uint64_t bytes = *size_of(r, i) - (i == which ? less : 0);
        if (bytes + 2 * GUARD > sizeof arenas[i])
            exit(2);
        memset(arenas[i], 0xA5, (size_t)bytes + 2 * GUARD);
        bs_arena_init(all[i], arena_names[i], arenas[i] + GUARD, (size_t)bytes);
    }
    r->session = bs_session_create(&r->memory, r->plan, &desc, &r->error);
    return r->session != NULL;
}

static inline bool guards_hold(rig *r)
{
    for (int32_t i = 0; i < 4; i++)
        for (uint64_t k = 0; k < GUARD; k++)
            if (arenas[i][k] != 0xA5 || arenas[i][GUARD + *size_of(r, i) + k] != 0xA5)
                return false;
    return true;
}

static inline bool rig_start(rig *r, const setup *s) { return rig_plan(r, s) && rig_session(r, s, -1, 0); }

/* Run `turn`, with the input and the extents that belong to it. */
static inline bs_status run(rig *r, kind k, int32_t turn)
{
    const bool rows = k != CHAIN && k != EXITS && k != ROUNDS;
    const int64_t a = rows ? 12 - 5 * (turn % 3) : 20 - 3 * (turn % 3), b = rows ? 24 : 20 - 4 * (turn % 2);
    const bs_buffer in = rows ? (bs_buffer){input, BS_F32, 2, {a, b}, {0}}
                              : (bs_buffer){input, BS_F32, 3, {4, a, b}, {0}};
    bs_buffer out = in;
    out.data = output;
    for (int32_t i = 0; i < IN_FLOATS; i++)
        input[i] = (float)(flat_dice((uint32_t)(turn * IN_FLOATS + i)) >> 8) / 8388608.0f - 1.0f;
    memset(output, 0xFF, sizeof output);
    if (bs_bind(r->session, "in", &in, &r->error) != BS_OK || bs_bind(r->session, "out", &out, &r->error) != BS_OK)
        return BS_ERROR_UNBOUND;
    return bs_run(r->session, &r->error);
}

static inline bool same(int32_t turn) { return memcmp(output, wanted[turn], sizeof output) == 0; }

/* What the resident session says, at this precision of stored weights. */
static inline void want(kind k, bs_dtype dtype)
{
    rig r;
    const setup resident = {.plan = {.threads = 1}};
    flat_init(&source, build(k), NULL, dtype);
    if (!rig_start(&r, &resident)) {
        check(0, "the resident %s: %s", kind_names[k], r.error.message);
        exit(check_end());
    }
    for (int32_t turn = 0; turn < RUNS; turn++) {
        if (run(&r, k, turn) != BS_OK)
            exit(2);
        memcpy(wanted[turn], output, sizeof output);
    }
    bs_session_close(r.session);
}

static inline void stream_bytes(bs_stream_plan *facts)
{
    rig r;
    const setup most = {.plan = {.slot_bytes = 1u << 30}};
    if (!rig_plan(&r, &most))
        exit(2);
    bs_plan_stream_get(r.plan, facts);
}

static char why[400];

static inline bool fails(const setup *s, const char *text, int32_t turn, const rig *r)
{
    snprintf(
        why, sizeof why,
        "%s at run %d (%.120s): %llu slots, policy %d, speculation %d, check %d, %d lanes, chunks of %d, %d threads, "
        "order %d, aligned to %u",
        text, turn, r->error.message, (unsigned long long)s->plan.slot_bytes, s->stream.policy, s->stream.speculation,
        s->stream.check_records, s->plan.lanes, s->plan.chunk_bytes, s->plan.threads, s->plan.order, s->alignment);
    return false;
}

static bs_platform alone; /* no threads */

static inline setup random_setup(const bs_stream_plan *facts)
{
    static const int32_t lanes[4] = {0, 1, 2, 4}, chunks[5] = {0, 4096, 5000, 16384, 65536};
    static const uint32_t alignments[3] = {1, 512, 4096};
    setup s = {.plan = {.threads = 1 + check_below(3),
                        .order = check_below(3),
                        .lanes = lanes[check_below(4)],
                        .chunk_bytes = chunks[check_below(5)]},
               .stream = {.policy = check_below(BS_POLICY_BELADY),
                          .speculation = check_below(2),
                          .check_records = check_below(4) == 0},
               .alignment = alignments[check_below(3)]};
    const uint64_t range = facts->all_bytes - facts->least_bytes;
    s.plan.slot_bytes = facts->least_bytes + (check_below(3) ? (uint64_t)check_below((int32_t)range + 1) : 0);
    if (check_below(6) == 0) {
        s.platform = &alone;
        s.plan.threads = 1;
    }
    return s;
}

/* Seeds the random numbers by the program's argument. */
static inline void store_begin(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    alone = *bs_platform_default();
    alone.thread_start = NULL;
}

#endif
