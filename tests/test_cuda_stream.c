/* tags: tsan */
/* test_cuda_stream.c - weights that stream to a device: the same bytes as with weights that stay, whatever fits,
 * whoever reads, however late and in which order the device works. Counting waits needs the emulation; the rest runs on
 * a GPU as well. What fails on the way: test_cuda_stream_faults.c. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, alarm */
#include "cuda_stream_rig.h"

/* ---------------------------------------------------------------------------------------------------- same bytes */

static void test_same(kind k, int32_t tries)
{
    static const bs_dtype dtypes[3] = {BS_F32, BS_F16, BS_BF16};
    int32_t wrong = 0;
    for (int32_t order = 0; order < 3; order++) {
        want(k, dtypes[order], order);
        for (int32_t i = 0; i < tries && wrong == 0; i++) {
            const setup s = random_setup(order);
            flat_heal(&source);
            source.delay_us = check_below(2) ? 200 : 0;
            device_mood(i);
            wrong += !streams_same(k, &s);
            device_mood(0);
        }
    }
    check(wrong == 0, "%s: the same bytes in %d ways of streaming %s", kind_names[k], 3 * tries, wrong ? why : "");
}

static void test_budgets(kind k)
{
    int32_t wrong = 0, budgets = 0;
    rig r;
    want(k, BS_F32, 0);
    const bs_stream_plan facts = stream_bytes(&(setup){.alignment = 1});
    for (uint64_t bytes = facts.least_bytes; bytes <= facts.all_bytes + 64;
         bytes += 1 + (facts.all_bytes - facts.least_bytes) / 12) {
        const setup s = {.plan = {.slot_bytes = bytes, .lanes = 2, .chunk_bytes = 600}};
        wrong += !streams_same(k, &s);
        budgets++;
    }
    check(wrong == 0, "%s: the same bytes in %d budgets from %llu to %llu bytes %s", kind_names[k], budgets,
          (unsigned long long)facts.least_bytes, (unsigned long long)facts.all_bytes, wrong ? why : "");
    const setup small = {.plan = {.slot_bytes = facts.least_bytes - 1}};
    check(!rig_plan(&r, &small) && r.error.status == BS_ERROR_ARENA && r.error.needed == facts.least_bytes,
          "one byte less: %s", r.error.message);
}

/* The unit with the most bytes of its kind: all are alike. */
static uint64_t unit_bytes(const setup *like)
{
    const bs_stream_plan facts = stream_bytes(like);
    return facts.all_bytes / (uint64_t)facts.units;
}

/* On demand, by one reader that is the run itself, slots for as many units: the device's session does what the CPU's
 * does. */
static void test_hits(void)
{
    int32_t different = 0, compared = 0;
    want(EQUAL, BS_F32, 0);
    for (int32_t policy = 0; policy < BS_POLICY_BELADY; policy++)
        for (int32_t units = 2; units <= 12; units += 2) {
            bs_stream_stats stats[2];
            for (int32_t cpu = 0; cpu < 2; cpu++) {
                setup s = {.plan = {.tier = cpu ? BS_TIER_SCALAR : BS_TIER_CUDA, .threads = 1}, .alone = true,
                           .stream = {.policy = policy, .speculation = BS_SPECULATE_OFF}};
                rig r;
                s.plan.slot_bytes = (uint64_t)units * unit_bytes(&s);
                if (!rig_start(&r, &s)) {
                    check(0, "slots for %d units: %s", units, r.error.message);
                    return;
                }
                for (int32_t i = 0; i < 3 * RUNS; i++)
                    different += run(&r, EQUAL, i % RUNS) != BS_OK || (!cpu && !same(i % RUNS));
                bs_session_stream_stats(r.session, &stats[cpu]);
                rig_close(&r);
            }
            compared++;
            if (stats[0].hits == stats[1].hits && stats[0].misses == stats[1].misses &&
                stats[0].loads == stats[1].loads && stats[0].bytes_read == stats[1].bytes_read &&
                stats[0].evictions == stats[1].evictions && stats[0].hits + stats[0].misses > 0)
                continue;
            different++;
            printf("  policy %d, %d units: hits %d and %d, misses %d and %d, loads %d and %d\n", policy, units,
                   (int)stats[0].hits, (int)stats[1].hits, (int)stats[0].misses, (int)stats[1].misses,
                   (int)stats[0].loads, (int)stats[1].loads);
        }
    check(different == 0, "hits, misses and loads are those of a session on the CPU, %d times", compared);
}

#ifdef BS_CUDA_CPU

/* ------------------------------------------------------------------------------------------- where the host waits */

/* Rows of the domain of an instruction in the run before. */
static int32_t rows_of(const rig *r, int32_t domain)
{
    const bs_domain *d = &source.g->domains[domain];
    bs_decision went;
    if (d->kind != BS_DOMAIN_PATH)
        return r->session->root.domains[domain].count;
    return bs_decision_get(r->session, source.g->routers[d->router].desc->name, &went) == BS_OK ? went.counts[d->path]
                                                                                                : 0;
}

/* For each decision, each layer or wave of paths whose weights may go then, and the end. */
static int32_t expected_waits(const rig *r)
{
    int32_t waits = 1;
    for (int32_t i = 0; i < r->plan->n_top; i++) {
        const bs_instr *in = &r->plan->instrs[i];
        int32_t parts = 0;
        for (int32_t p = 0; in->kind == BS_INSTR_RUN && p < r->plan->n_parts; p++)
            parts += r->plan->parts[p].region == in->region && r->plan->parts[p].count > 0 &&
                     rows_of(r, r->plan->parts[p].domain) > 0;
        if (in->kind == BS_INSTR_ROUTE)
            waits++;
        else if (in->kind == BS_INSTR_RUN)
            waits += in->phase < 0 || parts > 0;
        else
            waits += in->phase >= 0 && rows_of(r, in->domain) > 0;
    }
    return waits;
}

/* Of a run whose weights are all there. */
static void test_waits(kind k)
{
    for (int32_t order = 0; order < 3; order++) {
        struct cuda_cpu_counts c;
        rig r;
        want(k, BS_F32, order);
        setup s = {.plan = {.order = order, .lanes = 2}, .stream = {.speculation = BS_SPECULATE_OFF}};
        s.plan.slot_bytes = stream_bytes(&s).all_bytes + 64;
        if (!check(rig_start(&r, &s), "slots for all: %s", r.error.message))
            return;
        int32_t wrong = right_runs(&r, k, &s, "wrong") + right_runs(&r, k, &s, "wrong");
        int64_t waits[RUNS];
        int32_t expected[RUNS];
        for (int32_t i = 0; i < RUNS; i++) {
            cuda_cpu_counts_reset();
            wrong += run(&r, k, i) != BS_OK || !same(i);
            cuda_cpu_counts_get(&c);
            waits[i] = c.synchronisations;
            expected[i] = expected_waits(&r);
            wrong += waits[i] != expected[i] || c.device_allocations || c.host_allocations || c.pageable_copies;
        }
        check(wrong == 0, "%s, order %d: the host waits %lld %lld %lld %lld times (expected %d %d %d %d)",
              kind_names[k], order, (long long)waits[0], (long long)waits[1], (long long)waits[2], (long long)waits[3],
              expected[0], expected[1], expected[2], expected[3]);
        rig_close(&r);
    }
}
#endif

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    alone = *bs_platform_default();
    alone.thread_start = NULL;
    for (kind k = 0; k < KINDS; k++) {
        alarm(SECONDS); /* what hangs is ended */
        test_same(k, 16);
        test_budgets(k);
#ifdef BS_CUDA_CPU
        if (k < STEPS) /* in a loop the host waits in every trip */
            test_waits(k);
#endif
    }
    alarm(SECONDS);
    test_hits();
    return check_end();
}
