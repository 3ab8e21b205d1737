/* tags: minutes emulated */
/* test_cuda_stream_faults.c - weights that stream to a device: whatever fails on the way is an error once, never a hang
 * nor a wrong result. Failing and delaying calls of CUDA needs the emulation; the rest runs on a GPU as well. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, alarm */
#include "cuda_stream_rig.h"

static bool is_inside(int32_t block, int32_t outer)
{
    while (block != outer && block != 0)
        block = source.g->blocks[block].parent;
    return block == outer;
}

/* The message must tell a layer of the block that could not be read. */
static bool names_block(const rig *r)
{
    const int32_t block = atomic_load(&source.failed_block);
    for (int32_t i = 0; i < source.n_tensors; i++) {
        char node[2 * BS_MAX_NAME];
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
    flat_sleep(300);
    run(r, k, 0);
}

/* Runs until storage has failed; counts what is not as it should be. */
static int32_t faulty_runs(rig *r, kind k, const setup *s)
{
    int32_t wrong = 0, errors = 0;
    for (int32_t i = 0; i < RUNS; i++) {
        const bs_status status = run(r, k, i);
        errors += status != BS_OK;
        if (status == BS_OK ? !same(i)
                            : status != BS_ERROR_IO || (s->plan.lanes == 1 && source.fail_at && !names_block(r)) ||
                                  !r->error.message[0])
            wrong += !fails(s, bs_status_name(status), i, r);
    }
    if (s->stream.speculation == BS_SPECULATE_OFF && source.fail_at && errors != (atomic_load(&source.failed) > 0))
        wrong += !fails(s, "a failed read is not one error", errors, r);
    flat_heal(&source);
    settle(r, k);
    return wrong + right_runs(r, k, s, "wrong after the failure");
}

static void test_failing_reads(kind k)
{
    want(k, BS_F32, 0);
    for (int32_t way = 0; way < 3; way++) {
        setup s = {.plan = {.chunk_bytes = 600, .lanes = 1 + way % 2},
                   .stream = {.speculation = way < 2 ? BS_SPECULATE_OFF : BS_SPECULATE_AUTO}};
        const bs_stream_plan facts = stream_bytes(&s);
        s.plan.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 8;
        rig r;
        int32_t wrong = 0, tried = 0, count = 1000, step = 1;
        for (int32_t n = 0; n <= count && wrong == 0; n += n ? step : 1) {
            flat_heal(&source);
            if (!rig_start(&r, &s))
                exit(2);
            if (n == 0) { /* how many there are */
                wrong += right_runs(&r, k, &s, "wrong without a failure");
                count = atomic_load(&source.calls);
                step = 1 + count / (k < STEPS ? 40 : 16);
                rig_close(&r);
                continue;
            }
            source.fail_at = n;
            wrong += faulty_runs(&r, k, &s);
            source.fail_from = n;
            wrong += faulty_runs(&r, k, &s);
            tried += 2;
            rig_close(&r);
        }
        check(wrong == 0 && count > 5,
              "%s: reads that fail, once or from then on, at %d places of %d are errors and nothing else (way %d) %s",
              kind_names[k], tried, count, way, wrong ? why : "");
    }
}

/* Closed while lanes read and copy: nothing of the device is used after it went. */
static void test_closing(kind k)
{
    int32_t wrong = 0;
    want(k, BS_F32, 0);
    for (int32_t i = 0; i < 18; i++) {
        setup s = {.plan = {.chunk_bytes = 600, .lanes = 1 + i % 4}};
        s.plan.slot_bytes = stream_bytes(&s).least_bytes * 2;
        rig r;
        flat_heal(&source);
        source.delay_us = i % 3 ? 1500 : 100;
        device_mood(i);
        if (!rig_start(&r, &s))
            exit(2);
        for (int32_t turn = 0; turn < i % 4; turn++)
            wrong += run(&r, k, turn) != BS_OK || !same(turn);
        rig_close(&r);
        device_mood(0);
        wrong += atomic_load(&source.inside) != 0;
    }
    flat_heal(&source);
#ifdef BS_CUDA_CPU
    check(cuda_cpu_trouble() == NULL, "the API was used rightly: %s", cuda_cpu_trouble() ? cuda_cpu_trouble() : "");
#endif
    check(wrong == 0, "%s: closed while reads are under way, nothing is left", kind_names[k]);
}

/* Delays and errors, all ways at once: for the thread sanitizer above all. */
static void test_storm(kind k, int32_t tries)
{
    int32_t wrong = 0, errors = 0;
    want(k, BS_F32, 0);
    for (int32_t i = 0; i < tries && wrong == 0; i++) {
        const setup s = random_setup(0);
        rig r;
        flat_heal(&source);
        if (!rig_start(&r, &s)) {
            wrong += !fails(&s, "no session", 0, &r);
            break;
        }
        source.delay_us = 200;
        source.error_percent = check_below(2) ? check_below(12) : 0;
        device_mood(i);
        for (int32_t turn = 0; turn < RUNS; turn++) {
            const bs_status status = run(&r, k, turn);
            errors += status != BS_OK;
            if (status == BS_OK ? !same(turn) : status != BS_ERROR_IO)
                wrong += !fails(&s, bs_status_name(status), turn, &r);
        }
        rig_close(&r);
        device_mood(0);
    }
    flat_heal(&source);
    check(wrong == 0, "%s: slow storage that sometimes fails, %d times %d runs, %d errors %s", kind_names[k], tries,
          RUNS, errors, wrong ? why : "");
}

#ifdef BS_CUDA_CPU

/* ------------------------------------------------------------------------------------------------ calls of CUDA */

static bool nothing_left(void)
{
    struct cuda_cpu_counts c;
    cuda_cpu_counts_get(&c);
    return c.live_allocations == 0 && c.live_streams == 0 && c.live_events == 0 && c.live_graphs == 0;
}

/* Whether it names a layer, or what CUDA was to do, or what a GPU that says nothing of itself seems to lack. */
static bool tells(const rig *r)
{
    for (int32_t n = 1; n < source.g->n_nodes; n++) {
        char name[2 * BS_MAX_NAME];
        snprintf(name, sizeof name, "%s \"%s\" (node %d): ", bs_op_get(source.g->nodes[n].op)->name,
                 bs_node_name(&source.g->nodes[n]), n);
        if (strncmp(r->error.message, name, strlen(name)) == 0)
            return true;
    }
    return strncmp(r->error.message, "CUDA", 4) == 0 || strstr(r->error.message, "this GPU has") != NULL;
}

/* Where a context is lost nobody can wait, and a lane writes what a copy may still read: nothing to the library, whose
 * run has failed, but the thread sanitizer would tell. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WATCHED 1
#endif
#endif
#if !defined(WATCHED) && defined(__SANITIZE_THREAD__)
#define WATCHED 1
#elif !defined(WATCHED)
#define WATCHED 0
#endif

static int64_t calls_of_a_life(kind k, const setup *s)
{
    struct cuda_cpu_counts c;
    rig r;
    cuda_cpu_counts_reset();
    const bool ok = rig_start(&r, s) && right_runs(&r, k, s, "wrong without a failure") == 0;
    rig_close(&r);
    cuda_cpu_counts_get(&c);
    return ok ? c.calls : 0;
}

/* One life in which call number n fails, or all from there on, to the end: a context that is lost. Counts what is not
 * as it should be. */
static int32_t failing_life(kind k, const setup *s, int64_t n, int32_t on, int32_t *told)
{
    rig r;
    int32_t wrong = 0, errors = 0;
    cuda_cpu_fail(n, on);
    if (rig_start(&r, s)) {
        for (int32_t i = 0; i < RUNS; i++) {
            const bs_status status = run(&r, k, i);
            errors += status != BS_OK;
            if (status == BS_OK ? !same(i) : !tells(&r))
                wrong += !fails(s, status == BS_OK ? "another result" : "an error that tells nothing", i, &r);
            if (on && status != BS_OK)
                break;
        }
        if (!on && errors > 1)
            wrong += !fails(s, "one failure is several errors", errors, &r);
        if (!on) {
            cuda_cpu_fail(0, 0);
            settle(&r, k);
            wrong += right_runs(&r, k, s, "wrong after the failure");
        }
    } else {
        errors++;
        if (!tells(&r))
            wrong += !fails(s, "an error that tells nothing", 0, &r);
    }
    rig_close(&r);
    cuda_cpu_fail(0, 0);
    if (on) /* nobody could wait for what was busy */
        cuda_cpu_trouble_forget();
    if (!nothing_left())
        wrong += !fails(s, "something is left", 0, &r);
    *told += errors > 0;
    return wrong;
}

static void test_failing_calls(kind k, bool threads)
{
    int32_t wrong = 0, told = 0, lives = 0;
    want(k, BS_F32, 0);
    setup s = {.plan = {.lanes = threads ? 2 : 1, .chunk_bytes = 600},
               .stream = {.speculation = threads ? BS_SPECULATE_AUTO : BS_SPECULATE_OFF},
               .alone = !threads};
    const bs_stream_plan facts = stream_bytes(&s);
    s.plan.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) / 4;
    const int64_t calls = calls_of_a_life(k, &s), step = 1 + calls / (threads || WATCHED || k >= STEPS ? 32 : 128);
    for (int32_t on = 0; on < (threads && WATCHED ? 1 : 2); on++)
        for (int64_t n = 1 + check_below((int32_t)step); n <= calls && wrong == 0; n += step, lives++) {
            device_mood(threads ? (int32_t)n : 0);
            wrong += failing_life(k, &s, n, on, &told);
        }
    device_mood(0);
    check(wrong == 0 && calls > 50,
          "%s%s: %lld calls, in %d lives one fails, or all from then on: %d errors, no wrong bytes, nothing left %s",
          kind_names[k], threads ? ", with lanes" : "", (long long)calls, lives, told, wrong ? why : "");
    check(told > lives / 2, "most calls matter");
    check(calls_of_a_life(k, &s) > 0, "afterwards all is well");
    check(cuda_cpu_trouble() == NULL, "the API was used rightly: %s", cuda_cpu_trouble() ? cuda_cpu_trouble() : "");
}

#endif

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    alone = *bs_platform_default();
    alone.thread_start = NULL;
    for (kind k = 0; k < KINDS; k++) {
        alarm(SECONDS); /* what hangs is ended */
        test_failing_reads(k);
        alarm(SECONDS);
        test_closing(k);
        test_storm(k, 12);
#ifdef BS_CUDA_CPU
        for (int32_t threads = 0; threads < 2 && k != EQUAL; threads++) {
            alarm(SECONDS);
            test_failing_calls(k, threads != 0);
        }
#endif
    }
    return check_end();
}
