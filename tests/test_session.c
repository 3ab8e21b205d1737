/* tags: asan tsan shipped aarch64 32-bit */
/* Promises: a failure leaves nothing running and nothing taken, and the next attempt works; sessions of one plan do not
 * know of each other. What is refused before a run: test_session_binding.c. States: test_session_states.c. */
#define _POSIX_C_SOURCE 200809L
#include "state_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static float floats[25 * 21];

/* ---------------------------------------------------------------------------------------------------------- arenas */

static void test_arena(void)
{
    static uint8_t memory[1024];
    int wrong = 0;
    for (size_t skip = 0; skip < BS_ALIGNMENT; skip++)
        for (size_t bytes = 0; bytes + skip <= sizeof memory; bytes += 37) {
            bs_arena arena;
            bs_arena_init(&arena, "odd", memory + skip, bytes);
            for (const uint8_t *piece; (piece = bs_arena_take(&arena, 65)) != NULL;)
                wrong += (uintptr_t)piece % BS_ALIGNMENT != 0 || piece < memory + skip ||
                         piece + 65 > memory + skip + bytes;
        }
    check(wrong == 0, "pieces of an arena are aligned and within it, wherever its memory lies");
    bs_error error;
    bs_arena arena;
    bs_arena_init(&arena, "half", memory, sizeof memory);
    bs_arena_take(&arena, sizeof memory / 2);
    const size_t left = arena.size - arena.used;
    bs_graph *g = new_graph();
    bs_output(g, "y", bs_affine(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), 1, 1));
    check(!bs_plan_create(&arena, NULL, g, NULL, &error) && error.available == left && arena.used + left == arena.size,
          "what is left is told: %s", error.message);
}

/* ------------------------------------------------------------------------------------------------------ failed runs */

static void test_failed_runs(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .threads = 2};
        rig r;
        if (!check(reuse_open(&r, reuse_net(), &d) && runs(&r, &d, 26, 21) && runs(&r, &d, 26, 21),
                   "a run before it fails, order %d", order))
            continue;
        *(float *)(void *)ag_buffers[0] = NAN; /* in the frame that is bound */
        const bs_status failed = bs_run(r.session, &r.error);
        check(failed == BS_ERROR_DATA && strstr(r.error.message, "route \"reuse\""), "%s", r.error.message);
        check(!bs_state_valid(r.session), "states are not valid after it");
        *(float *)(void *)ag_buffers[0] = 0;
        check(bs_run(r.session, &r.error) == BS_ERROR_DATA && strstr(r.error.message, "bs_reset_state"), "%s",
              r.error.message);
        bs_reset_state(r.session);
        memset(ag_data[1], 0, sizeof ag_data[1]);
        check(runs(&r, &d, 26, 21) && bs_state_valid(r.session) && runs(&r, &d, 26, 21),
              "after a reset it runs as if new, order %d", order);

        const bs_buffer large = dense(floats, BS_F32, 3, 1, 25, 21);
        bs_bind(r.session, "frame", &large, NULL);
        check(bs_run(r.session, &r.error) == BS_ERROR_SHAPE && runs(&r, &d, 26, 21),
              "a run that was refused before it began leaves them alone");
        bs_set_route(r.session, "reuse", NULL, NULL, NULL);
        check(bs_run(r.session, &r.error) == BS_ERROR_UNBOUND, "no callback: %s", r.error.message);
        bs_session_close(r.session);
    }
}

/* --------------------------------------------------------------------------------------------------- many sessions */

typedef struct pair {
    bs_session *session;
    float frames[4][26 * 21], results[4][26 * 21];
    bool ok;
} pair;

static void *run_pair(void *user)
{
    pair *p = user;
    p->ok = true;
    for (int32_t i = 0; i < 4; i++) {
        const bs_buffer in = dense(p->frames[i], BS_F32, 3, 1, 26, 21),
                        out = dense(p->results[i], BS_F32, 3, 1, 26, 21);
        p->ok = p->ok && bs_bind(p->session, "frame", &in, NULL) == BS_OK &&
                bs_bind(p->session, "result", &out, NULL) == BS_OK && bs_run(p->session, NULL) == BS_OK;
    }
    return NULL;
}

/* Sessions of one plan, in memory of their own. */
static bs_session *another(const rig *r, uint8_t *memory, size_t bytes)
{
    bs_memory m;
    bs_session_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.weights = bs_weights_from_table(&weights.table);
    bs_arena_init(&m.persistent, "persistent", memory, bytes / 2);
    bs_arena_init(&m.transient, "transient", memory + bytes / 2, bytes / 4);
    bs_arena_init(&m.staging, "staging", memory + 3 * bytes / 4, bytes / 4);
    bs_arena_init(&m.slots, "slots", NULL, 0);
    bs_session *s = bs_session_create(&m, r->plan, &desc, NULL);
    if (s)
        bs_set_route(s, "reuse", by_sum_run, &two_paths, NULL);
    return s;
}

static void test_two_sessions(void)
{
    static _Alignas(64) uint8_t memory[4][1 << 20];
    static pair pairs[4];
    rig r;
    bool ok = rig_plan(&r, reuse_net(), &(bs_plan_desc){.threads = 2, .order = BS_ORDER_DEPTH});
    for (int32_t p = 0; p < 4; p++) {
        pairs[p].session = another(&r, memory[p], sizeof memory[p]);
        ok = ok && pairs[p].session;
        for (int32_t i = 0; i < 4 * 26 * 21; i++) /* 2 and 3 do after each other what 0 and 1 do at once */
            pairs[p].frames[i / (26 * 21)][i % (26 * 21)] =
                p < 2 ? (float)(check_below(17) - 8) : pairs[p - 2].frames[i / (26 * 21)][i % (26 * 21)];
    }
    pthread_t threads[2];
    for (int32_t p = 0; p < 2 && ok; p++)
        ok = pthread_create(&threads[p], NULL, run_pair, &pairs[p]) == 0;
    for (int32_t p = 0; p < 2 && ok; p++)
        pthread_join(threads[p], NULL);
    for (int32_t p = 2; p < 4 && ok; p++)
        run_pair(&pairs[p]);
    for (int32_t p = 0; p < 2; p++)
        ok = ok && pairs[p].ok && pairs[p + 2].ok &&
             memcmp(pairs[p].results, pairs[p + 2].results, sizeof pairs[p].results) == 0;
    check(ok && memcmp(pairs[0].results, pairs[1].results, sizeof pairs[0].results) != 0,
          "two sessions of one plan run at once, each with states of its own");
    for (int32_t p = 0; p < 4; p++)
        bs_session_close(pairs[p].session);
}

static void test_thread_counts(void)
{
    static float first[4][26 * 21];
    int32_t same = 0, ran = 0;
    pair p;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
        for (int32_t threads = 1; threads <= 4; threads++) {
            rig r;
            const bs_plan_desc d = {.order = order, .threads = threads};
            if (!reuse_open(&r, reuse_net(), &d))
                continue;
            check_state = 12345;
            for (int32_t i = 0; i < 4 * 26 * 21; i++)
                p.frames[i / (26 * 21)][i % (26 * 21)] = (float)(check_below(17) - 8);
            p.session = r.session;
            run_pair(&p);
            ran += p.ok;
            if (ran == 1)
                memcpy(first, p.results, sizeof first);
            same += memcmp(first, p.results, sizeof first) == 0;
            bs_session_close(r.session);
        }
    check(ran == 8 && same == 8, "1 to 4 threads and both orders give the same bytes");
}

/* ---------------------------------------------------------------------------------------------- a failing platform */

/* POSIX, except that call number `fail` of gate_init and thread_start fails; everything is counted. */
typedef struct flaky {
    const bs_platform *real;
    int32_t calls, fail, gates, threads, waits;
    pthread_t caller;
    atomic_uint_least64_t now; /* every thread asks the clock */
} flaky;

static bool fails(flaky *f) { return ++f->calls == f->fail; }

static int flaky_thread_start(void *user, void *handle, void (*entry)(void *), void *argument)
{
    flaky *f = user;
    if (fails(f) || f->real->thread_start(f->real->user, handle, entry, argument) != 0)
        return -1;
    f->threads++;
    return 0;
}

static void flaky_thread_join(void *user, void *handle)
{
    flaky *f = user;
    f->real->thread_join(f->real->user, handle);
    f->threads--;
}

static int flaky_gate_init(void *user, void *storage)
{
    flaky *f = user;
    if (fails(f) || f->real->gate_init(f->real->user, storage) != 0)
        return -1;
    f->gates++;
    return 0;
}

static void flaky_gate_destroy(void *user, void *storage)
{
    flaky *f = user;
    f->real->gate_destroy(f->real->user, storage);
    f->gates--;
}

static void flaky_gate_lock(void *user, void *storage)
{
    ((flaky *)user)->real->gate_lock(((flaky *)user)->real->user, storage);
}

/* Workers are late at their job: the caller is done with its part and waits. */
static void flaky_gate_unlock(void *user, void *storage)
{
    const flaky *f = user;
    const struct timespec late = {0, 50000};
    f->real->gate_unlock(f->real->user, storage);
    if (!pthread_equal(f->caller, pthread_self()))
        nanosleep(&late, NULL);
}

static void flaky_gate_wake(void *user, void *storage)
{
    ((flaky *)user)->real->gate_wake(((flaky *)user)->real->user, storage);
}

/* Two of three waits come back at once, as a platform's may. */
static void flaky_gate_wait(void *user, void *storage)
{
    flaky *f = user;
    if (++f->waits % 3 == 0) {
        f->real->gate_wait(f->real->user, storage);
        return;
    }
    f->real->gate_unlock(f->real->user, storage);
    f->real->gate_lock(f->real->user, storage);
}

static uint64_t flaky_clock(void *user) { return atomic_fetch_add(&((flaky *)user)->now, 1000); }

static bs_platform flaky_platform(flaky *f, int32_t fail)
{
    bs_platform p;
    memset(&p, 0, sizeof p);
    memset(f, 0, sizeof *f);
    f->real = bs_platform_default();
    f->fail = fail;
    f->caller = pthread_self();
    p.user = f;
    p.thread_start = flaky_thread_start;
    p.thread_join = flaky_thread_join;
    p.gate_init = flaky_gate_init;
    p.gate_destroy = flaky_gate_destroy;
    p.gate_lock = flaky_gate_lock;
    p.gate_unlock = flaky_gate_unlock;
    p.gate_wait = flaky_gate_wait;
    p.gate_wake = flaky_gate_wake;
    return p;
}

static void test_failing_platform(void)
{
    enum { THREADS = 5 };
    const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .threads = THREADS};
    for (int32_t n = 1; n <= THREADS + 1; n++) { /* a gate, then 4 workers; the last time nothing fails */
        flaky f;
        rig r;
        const bs_platform platform = flaky_platform(&f, n);
        memset(&a, 0, sizeof a);
        a.oracle.callback = by_sum;
        const bool made = rig_plan(&r, reuse_net(), &d) && rig_session(&r, &weights.table, &platform, 0xFF);
        if (n == THREADS + 1) {
            check(made && f.threads == THREADS - 1 && f.gates == 1, "a session with %d workers", f.threads);
        } else {
            check(!made && r.error.status == BS_ERROR_PLATFORM, "call %d fails: %s", n, r.error.message);
            check(f.threads == 0 && f.gates == 0 && r.memory.persistent.used == 0 && r.memory.transient.used == 0,
                  "nothing is left running or taken");
            check(rig_session(&r, &weights.table, &platform, 0xFF), "the next attempt works");
        }
        bs_set_route(r.session, "reuse", by_sum_run, &two_paths, NULL);
        bool ok = true;
        for (int32_t i = 0; i < (n > THREADS ? 200 : 2); i++)
            ok = ok && runs(&r, &d, 26, 21) && atomic_load(&r.session->pool.busy) == 0;
        check(ok, "and runs; when it returns every worker is done, however often waits return for nothing");
        bs_session_close(r.session);
        check(f.threads == 0 && f.gates == 0, "closing joins every worker (%d waits)", f.waits);
    }
}

static void test_other_platforms(void)
{
    const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .threads = 3};
    bs_platform none;
    rig r;
    memset(&none, 0, sizeof none);
    memset(&a, 0, sizeof a);
    a.oracle.callback = by_sum;
    bool ok = rig_plan(&r, reuse_net(), &d) && rig_session(&r, &weights.table, &none, 0xFF);
    if (ok)
        bs_set_route(r.session, "reuse", by_sum_run, &two_paths, NULL);
    check(ok && runs(&r, &d, 26, 21), "a platform without threads runs all on the calling one");
    bs_session_close(r.session);

    flaky f;
    bs_platform scripted = flaky_platform(&f, 0);
    scripted.clock_ns = flaky_clock;
    memset(&a, 0, sizeof a);
    a.oracle.callback = by_sum;
    bs_run_stats before, after;
    ok = rig_session(&r, &weights.table, &scripted, 0xFF);
    bs_set_route(r.session, "reuse", by_sum_run, &two_paths, NULL);
    ok = ok && runs(&r, &d, 26, 21);
    bs_session_stats(r.session, &before);
    ok = ok && runs(&r, &d, 26, 21);
    bs_session_stats(r.session, &after);
    check(ok && before.runs == 1 && after.runs == 2 && after.total_ns > after.routing_ns && after.routing_ns > 0 &&
              after.total_ns < f.now,
          "times are the platform's: %d ns of a scripted clock, %d of them routing", (int)after.total_ns,
          (int)after.routing_ns);
    bs_session_close(r.session);
    bs_session_close(NULL);
}

/* ------------------------------------------------------------------------------------------------- failing weights */

typedef struct source {
    bs_weights real;
    int32_t calls, fail;
} source;

static bs_status source_find(const void *user, const char *name, bs_weight_info *info)
{
    source *s = (source *)(uintptr_t)user;
    return ++s->calls == s->fail ? BS_ERROR_IO : s->real.find(s->real.user, name, info);
}

static bs_status source_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    source *s = (source *)(uintptr_t)user;
    return ++s->calls == s->fail ? BS_ERROR_IO : s->real.read(s->real.user, info, offset, buffer, bytes);
}

static void test_failing_weights(void)
{
    const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT};
    rig r;
    bs_session_desc desc;
    source s;
    bool ok = rig_plan(&r, reuse_net(), &d);
    memset(&desc, 0, sizeof desc);
    int32_t refused = 0;
    for (int32_t n = 1; n <= 5 && ok; n++) { /* find and read of two tensors */
        s = (source){bs_weights_from_table(&weights.table), 0, n};
        desc.weights = (bs_weights){.user = &s, .find = source_find, .read = source_read};
        rig_session(&r, NULL, NULL, 0xFF); /* lays out the arenas; without weights it refuses */
        refused += r.session == NULL && r.error.status == BS_ERROR_WEIGHTS && r.memory.persistent.used == 0;
        bs_session *made = bs_session_create(&r.memory, r.plan, &desc, &r.error);
        if (n <= 4)
            check(!made && r.error.status == BS_ERROR_IO && strstr(r.error.message, "\"conv.") &&
                      r.memory.persistent.used == 0,
                  "call %d fails: %s", n, r.error.message);
        else
            check(made != NULL && s.calls == 4, "read once, nothing fails");
        bs_session_close(made);
    }
    check(refused == 5, "without weights: %s", "the op that needs them is named");
    weights.tensors[0].dim[0] = 2;
    check(!rig_session(&r, &weights.table, NULL, 0) && r.error.status == BS_ERROR_WEIGHTS &&
              strstr(r.error.message, "[2, 1, 3, 3]"),
          "%s", r.error.message);
    weights.tensors[0].dim[0] = 1;
    weights.tensors[0].name = "other";
    check(!rig_session(&r, &weights.table, NULL, 0) && r.error.status == BS_ERROR_WEIGHTS &&
              strstr(r.error.message, "conv.weight"),
          "%s", r.error.message);
}

/* ------------------------------------------------------------------------------------------------------ look-ahead */

/* Memory for slots, but no path with weights: there is nothing to read, and nothing to say ahead about it. */
static void test_nothing_to_read(void)
{
    enum { ROWS = 8, PATHS = 16 };
    static float x[ROWS][PATHS], y[ROWS][PATHS];
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        bs_graph *g = new_graph();
        const bs_value rows = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, PATHS)), (bs_value){0});
        bs_value out[PATHS];
        bs_look_ahead(g, rows, "route");
        const bs_router route = bs_route(g, rows, (bs_value){0},
                                         &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TOP1, .paths = PATHS});
        for (int32_t p = 0; p < PATHS; p++)
            out[p] = bs_affine(g, bs_scatter(g, route, p, rows), 2, (float)p);
        bs_output(g, "y", bs_collect(g, bs_gather(g, route, out, (bs_value){0}, NULL)));
        for (int32_t i = 0; i < ROWS * PATHS; i++)
            x[i / PATHS][i % PATHS] = i % PATHS == i / PATHS ? 9 : (float)(i % 5);
        rig r;
        const bs_buffer in = dense(x, BS_F32, 2, ROWS, PATHS, 0), to = dense(y, BS_F32, 2, ROWS, PATHS, 0);
        const bool ok = rig_plan(&r, g, &(bs_plan_desc){.order = order, .slot_bytes = 1 << 16}) &&
                        rig_session(&r, &weights.table, NULL, 0x5A) &&
                        bs_bind(r.session, "x", &in, &r.error) == BS_OK &&
                        bs_bind(r.session, "y", &to, &r.error) == BS_OK && bs_run(r.session, &r.error) == BS_OK;
        check(ok && rig_intact(&r) && y[3][3] == 21 && y[7][0] == 2 * x[7][0] + 7,
              "slots that nothing is read into, order %d: %s", order, r.error.message);
        bs_session_close(r.session);
    }
}

int main(void)
{
    test_arena();
    check_seed(1);
    test_failed_runs();
    test_two_sessions();
    test_thread_counts();
    test_failing_platform();
    test_other_platforms();
    test_failing_weights();
    test_nothing_to_read();
    return check_end();
}
