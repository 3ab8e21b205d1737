/* tags: asan tsan shipped 32-bit */
/* Promises: whatever fails while weights come and go, a failure is an error once, never a hang nor a wrong result, and
 * nothing is left running. Sessions on small networks, over flat_source.h and a platform that counts and refuses. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "store_rig.h"

#include "budget.h"

/* -------------------------------------------------------------------------------------------------------- reads */

static bool is_inside(int32_t block, int32_t outer)
{
    while (block != outer && block != 0)
        block = source.g->blocks[block].parent;
    return block == outer;
}

/* The message must tell a layer of the block that could not be read, or of the one that it is part of. */
static bool names_block(const rig *r)
{
    const int32_t block = atomic_load(&source.failed_block);
    for (int32_t i = 0; i < source.n_tensors; i++) {
        char node[2 * BS_MAX_NAME + 2];
        snprintf(node, sizeof node, "\"%s", source.tensors[i].name);
        *strrchr(node, '.') = 0;
        if (source.tensors[i].block != 0 && is_inside(block, source.tensors[i].block) && strstr(r->error.message, node))
            return true;
    }
    return false;
}

/* A lane may be about to bring back one more failure: it belongs to the run that meets it. */
static void settle(rig *r, kind k)
{
    while (atomic_load(&source.inside) > 0)
        flat_sleep(100);
    flat_sleep(500);
    run(r, k, 0);
}

/* Runs until storage has failed; counts what is not as it should be. */
static int32_t faulty_runs(rig *r, kind k, const setup *s, bool told)
{
    int32_t wrong = 0, errors = 0;
    for (int32_t i = 0; i < RUNS; i++) {
        const bs_status status = run(r, k, i);
        errors += status != BS_OK;
        if (status == BS_OK
                ? !same(i)
                : status != BS_ERROR_IO || (told && source.fail_at && !names_block(r)) || !r->error.message[0])
            wrong += !fails(s, bs_status_name(status), i, r);
    }
    if (s->stream.speculation == BS_SPECULATE_OFF && source.fail_at && errors != (atomic_load(&source.failed) > 0))
        wrong += !fails(s, "a failed read is not one error", errors, r);
    flat_heal(&source);
    settle(r, k);
    for (int32_t i = 0; i < RUNS; i++)
        if (run(r, k, i) != BS_OK || !same(i))
            wrong += !fails(s, "wrong after the failure", i, r);
    return wrong;
}

/* What failed where. Rounds take other places of the reads of a few runs, all together every one. */
enum { WAYS = 4, FAIL_ROUNDS = 16 };
typedef struct places {
    int32_t tried, count, wrong;
} places;
static places failing[KINDS][WAYS];

static bool session_starts(rig *r, const setup *s)
{
    flat_heal(&source);
    return rig_start(r, s) || (printf("  no session: %s\n", r->error.message), false);
}

/* A read fails, once or from then on. */
static void fail_at(kind k, const setup *s, int32_t n, places *p, bool told)
{
    rig r;
    if (!session_starts(&r, s))
        exit(2);
    source.fail_at = n;
    p->wrong += faulty_runs(&r, k, s, told);
    source.fail_from = n;
    p->wrong += faulty_runs(&r, k, s, told);
    p->tried += 2;
    bs_session_close(r.session);
}

static int32_t count_reads(kind k, const setup *s)
{
    rig r;
    if (!session_starts(&r, s))
        exit(2);
    for (int32_t i = 0; i < RUNS; i++)
        run(&r, k, i);
    const int32_t count = atomic_load(&source.calls);
    bs_session_close(r.session);
    return count;
}

static void test_failing_reads(kind k, int32_t round)
{
    bs_stream_plan facts;
    want(k, BS_F32);
    stream_bytes(&facts);
    for (int32_t way = 0; way < WAYS; way++) {
        const setup s = {.plan = {.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 8,
                                  .chunk_bytes = 4096,
                                  .lanes = 1 + way % 2},
                         .stream = {.speculation = way < 2 ? BS_SPECULATE_OFF : BS_SPECULATE_AUTO},
                         .platform = way == 2 ? &alone : NULL};
        places *p = &failing[k][way];
        if (round == 0)
            p->count = count_reads(k, &s);
        const int32_t step = 1 + (k >= STEPS) * p->count / 60;
        for (int32_t i = 0; i * step < p->count && p->wrong == 0; i++)
            if ((i + 5 * way + 3 * (int32_t)k) % FAIL_ROUNDS == round)
                fail_at(k, &s, 1 + i * step, p, way == 0);
        if (p->wrong)
            printf("  %s, way %d: %s\n", kind_names[k], way, why);
    }
}

static void look_at_failing_reads(void)
{
    for (kind k = 0; k < KINDS; k++)
        for (int32_t way = 0; way < WAYS; way++) {
            const places *p = &failing[k][way];
            check(p->wrong == 0 && p->count > 10 && p->tried > 0,
                  "%s: reads that fail, once or from then on, at %d places of %d are errors and nothing else (way %d)",
                  kind_names[k], p->tried, p->count, way);
        }
}

static void test_wrong_bytes(kind k)
{
    bs_stream_plan facts;
    rig r;
    int32_t heads = 0, flips = 0, wrong = 0, count = 1;
    want(k, BS_F32);
    stream_bytes(&facts);
    const setup s = {.plan = {.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 8,
                              .chunk_bytes = 4096,
                              .lanes = 2},
                     .stream = {.speculation = BS_SPECULATE_OFF, .check_records = 1}};
    if (!rig_start(&r, &s))
        exit(2);
    for (int32_t n = 0; n < 2 * count; n++) {
        bs_status seen = BS_OK;
        flat_heal(&source);
        source.wrong_head_at = n % 2 ? n / 2 : 0;
        source.flip_at = n % 2 ? 0 : n / 2;
        for (int32_t i = 0; i < RUNS; i++) {
            const bs_status status = run(&r, k, i);
            wrong += status == BS_OK ? !same(i) : status != BS_ERROR_FORMAT;
            seen = status != BS_OK ? status : seen;
        }
        if (n == 0)
            count = atomic_load(&source.calls) > 40 ? 40 : atomic_load(&source.calls);
        heads += n % 2 && seen != BS_OK;
        flips += n % 2 == 0 && seen != BS_OK;
    }
    bs_session_close(r.session);
    check(wrong == 0 && heads >= count / 4 && flips >= count / 2,
          "%s: heads of another block (%d) and bits that are flipped (%d of %d) are errors: %s", kind_names[k], heads,
          flips, count - 1, r.error.message);
}

/* ----------------------------------------------------------------------------------------------------- platform */

typedef struct counting {
    bs_platform platform;
    const bs_platform *real;
    atomic_int threads, gates, calls;
    int fail_at;
} counting;

static int counted(counting *c) { return atomic_fetch_add(&c->calls, 1) + 1 == c->fail_at; }

static int count_thread(void *user, void *handle, void (*entry)(void *), void *argument)
{
    counting *c = user;
    if (counted(c) || c->real->thread_start(c->real->user, handle, entry, argument) != 0)
        return -1;
    atomic_fetch_add(&c->threads, 1);
    return 0;
}

static void count_join(void *user, void *handle)
{
    counting *c = user;
    c->real->thread_join(c->real->user, handle);
    atomic_fetch_sub(&c->threads, 1);
}

static int count_gate(void *user, void *storage)
{
    counting *c = user;
    if (counted(c) || c->real->gate_init(c->real->user, storage) != 0)
        return -1;
    atomic_fetch_add(&c->gates, 1);
    return 0;
}

static void count_gate_end(void *user, void *storage)
{
    counting *c = user;
    c->real->gate_destroy(c->real->user, storage);
    atomic_fetch_sub(&c->gates, 1);
}

static const bs_platform *counting_init(counting *c)
{
    memset(c, 0, sizeof *c);
    c->real = bs_platform_default();
    c->platform = *c->real;
    c->platform.user = c;
    c->platform.thread_start = count_thread;
    c->platform.thread_join = count_join;
    c->platform.gate_init = count_gate;
    c->platform.gate_destroy = count_gate_end;
    return &c->platform;
}

static void test_closing(kind k)
{
    bs_stream_plan facts;
    int32_t wrong = 0;
    counting c;
    const bs_platform *platform = counting_init(&c);
    want(k, BS_F32);
    stream_bytes(&facts);
    for (int32_t i = 0; i < 12; i++) {
        const setup s = {.plan = {.slot_bytes = facts.least_bytes * 2,
                                  .chunk_bytes = 4096,
                                  .lanes = 1 + i % 3,
                                  .threads = 1 + i % 2},
                         .platform = platform};
        rig r;
        flat_heal(&source);
        source.delay_us = 4000;
        if (!rig_start(&r, &s))
            exit(2);
        for (int32_t turn = 0; turn < i % 3; turn++)
            wrong += run(&r, k, turn) != BS_OK || !same(turn);
        bs_session_close(r.session);
        wrong += atomic_load(&source.inside) != 0 || atomic_load(&c.threads) != 0 || atomic_load(&c.gates) != 0;
    }
    flat_heal(&source);
    check(wrong == 0, "%s: closed while reads are under way, nothing is left", kind_names[k]);
}

static void test_platform(void)
{
    bs_stream_plan facts;
    int32_t wrong = 0, n = 1;
    want(MOE, BS_F32);
    stream_bytes(&facts);
    const setup base = {.plan = {.slot_bytes = facts.least_bytes * 2, .lanes = 3, .threads = 3}};
    for (bool started = false; !started && n < 50; n++) {
        counting c;
        rig r;
        setup s = base;
        s.platform = counting_init(&c);
        c.fail_at = n;
        started = rig_start(&r, &s);
        if (started) {
            wrong += run(&r, MOE, 0) != BS_OK || !same(0);
            bs_session_close(r.session);
        } else {
            wrong += r.error.status != BS_ERROR_PLATFORM || !r.error.message[0] || r.memory.persistent.used ||
                     r.memory.slots.used || r.memory.staging.used;
        }
        wrong += atomic_load(&c.threads) != 0 || atomic_load(&c.gates) != 0;
    }
    check(wrong == 0 && n > 7,
          "gates and threads that cannot be made, at each of %d calls: an error, and nothing is left running", n - 2);
}

static void test_refused(void)
{
    bs_stream_plan facts;
    rig r;
    want(MOE, BS_F32);
    stream_bytes(&facts);
    setup s = {.plan = {.slot_bytes = facts.least_bytes}, .stream = {.policy = BS_POLICY_BELADY}};
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_ARGUMENT, "%s", r.error.message);
    s.stream = (bs_stream_desc){.speculation = 2};
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_ARGUMENT, "%s", r.error.message);
    s.stream = (bs_stream_desc){.policy = -1};
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_ARGUMENT, "%s", r.error.message);
    s.stream = (bs_stream_desc){0};
    for (int32_t b = 0; b < source.n_blocks; b++)
        source.records[b].bytes -= 4; /* the last weight reaches beyond */
    check(!rig_start(&r, &s) && r.error.status == BS_ERROR_FORMAT &&
              strstr(r.error.message, "do not lie in the record of block"),
          "%s", r.error.message);
    for (int32_t b = 0; b < source.n_blocks; b++)
        source.records[b].bytes += 4;
}

/* Delays, errors and all ways at once: for the thread sanitizer above all. */
static void test_storm(int32_t tries)
{
    for (kind k = 0; k < KINDS; k++) {
        bs_stream_plan facts;
        int32_t wrong = 0, errors = 0;
        want(k, BS_F32);
        stream_bytes(&facts);
        for (int32_t i = 0; i < tries && wrong == 0; i++) {
            const setup s = random_setup(&facts);
            rig r;
            flat_heal(&source);
            if (!rig_start(&r, &s)) {
                wrong += !fails(&s, "no session", 0, &r);
                break;
            }
            source.delay_us = 300;
            source.error_percent = check_below(2) ? check_below(12) : 0;
            for (int32_t turn = 0; turn < RUNS; turn++) {
                const bs_status status = run(&r, k, turn);
                errors += status != BS_OK;
                if (status == BS_OK ? !same(turn) : status != BS_ERROR_IO)
                    wrong += !fails(&s, bs_status_name(status), turn, &r);
            }
            bs_session_close(r.session);
        }
        flat_heal(&source);
        check(wrong == 0, "%s: slow storage that sometimes fails, %d times %d runs, %d errors %s", kind_names[k], tries,
              RUNS, errors, wrong ? why : "");
    }
}

int main(int argc, char **argv)
{
    store_begin(argc, argv);
    const budget b = budget_of(3);
    for (kind k = 0; k < KINDS; k++) {
        test_wrong_bytes(k);
        test_closing(k);
    }
    test_platform();
    test_refused();
    test_storm(15);
    int32_t round = 0;
    for (; budget_left(&b, round, 1, FAIL_ROUNDS); round++)
        for (kind k = 0; k < KINDS; k++)
            test_failing_reads(k, round);
    printf("reads that fail: %d rounds of %d\n", round, FAIL_ROUNDS);
    look_at_failing_reads();
    return check_end();
}
