/* preload_print.c: tables, their legend, and the same as JSON.
 * Relies on: preload.h. Must never: compute what is not a ratio of two figures that stand beside it. */
#include "preload.h"

static double gap(double demand, double other, double oracle)
{
    return demand - oracle > 0.005 * demand ? 100 * (demand - other) / (demand - oracle) : 100;
}

static double share(uint64_t part, uint64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

/* What the device is called: the disk by what was measured. */
static const char *device(const preload_result *r, char *text, size_t bytes)
{
    const double mb = (double)r->bytes_per_second / 1e6;
    snprintf(text, bytes, "%s %.0f%s", r->speed, mb, r->synthetic || r->direct ? "" : "b");
    return text;
}

static void print_outcomes(char *text, size_t bytes, uint64_t hits, uint64_t late, uint64_t misses)
{
    const uint64_t uses = hits + late + misses;
    snprintf(text, bytes, "%.0f/%.0f/%.0f", share(hits, uses), share(late, uses), share(misses, uses));
}

void preload_print_head(bool synthetic)
{
    if (synthetic)
        printf("\nMADE-UP TRACES on the scripted clock, ms a run\n");
    else
        printf(
            "\nWALL TIME, ms a run (medians)\n%-18s %-10s %5s %6s/%-6s | %9s %9s %9s %9s | %6s %6s %5s %5s | %6s %6s "
            "| %10s %5s %5s | %5s\n",
            "network", "device MB/s", "slots", "MB", "all MB", "resident", "demand", "specul.", "oracle*", "sp/dem",
            "sp/res", "gap%", "sp/or", "MB dem", "MB sp", "h/l/m", "waste", "pause", "bytes");
}

void preload_print(const preload_result *r)
{
    char text[32], outcomes[48];
    const bs_stream_stats *s = &r->stats[ARM_SPECULATIVE];
    print_outcomes(outcomes, sizeof outcomes, s->hits, s->late, s->misses);
    const double demand = r->wall_ms[ARM_DEMAND], speculative = r->wall_ms[ARM_SPECULATIVE],
                 oracle = r->clock.oracle_ms;
    printf(
        "%-18s %-10s %4.0f%% %6.2f/%-6.2f | %9.3f %9.3f %9.3f %9.3f | %6.3f %6.3f %5.0f %5.2f | %6.2f %6.2f | %10s "
        "%5.1f %5d | %5s\n",
        r->name, device(r, text, sizeof text), r->slot_percent, r->slots_mb + r->staging_mb, r->all_mb,
        r->wall_ms[ARM_RESIDENT], demand, speculative, oracle, r->speculative_over_demand, r->speculative_over_resident,
        gap(demand, speculative, oracle), speculative / oracle,
        (double)r->stats[ARM_DEMAND].bytes_read / 1e6 / r->stats_runs,
        (double)r->stats[ARM_SPECULATIVE].bytes_read / 1e6 / r->stats_runs, outcomes,
        share(s->bytes_wasted, s->bytes_read), (int)s->paused, r->same_bytes ? "same" : "DIFFER");
    fflush(stdout);
}

static void print_clock_head(bool synthetic)
{
    printf(
        "%s%-18s %-10s %5s | %9s %9s %9s %9s | %6s %5s %5s | %5s %5s %5s %5s %5s | %7s %7s | %6s %6s %6s | %5s %10s "
        "%5s\n",
        synthetic ? "" : "\nSCRIPTED CLOCK, the run on demand replayed, ms a run (mean, cold start included)\n",
        synthetic ? "trace" : "network", "device MB/s", "slots", "demand", "specul.", "told", "oracle", "sp/or", "gap%",
        "told%", "rec%", "reuse", "lru", "lfu", "belad", "st dem", "st sp", "MB dem", "MB sp", "MB or", "waste",
        "h/l/m", "pause");
}

void preload_print_clock(const preload_result *r)
{
    static int printed[2];
    char text[32], outcomes[48], recorded[16] = "-";
    const preload_clock *c = &r->clock;
    if (!printed[r->synthetic]++)
        print_clock_head(r->synthetic);
    if (!r->synthetic)
        snprintf(recorded, sizeof recorded, "%.1f", r->recorded_hit_percent);
    print_outcomes(outcomes, sizeof outcomes, c->hits, c->late, c->misses);
    printf(
        "%-18s %-10s %4.0f%% | %9.3f %9.3f %9.3f %9.3f | %6.3f %5.0f %5.0f | %5s %5.1f %5.1f %5.1f %5.1f | %7.2f "
        "%7.2f | %6.2f %6.2f %6.2f | %5.1f %10s %5d\n",
        r->name, device(r, text, sizeof text), r->slot_percent, c->demand_ms, c->speculative_ms, c->told_ms,
        c->oracle_ms, c->speculative_ms / c->oracle_ms, gap(c->demand_ms, c->speculative_ms, c->oracle_ms),
        gap(c->demand_ms, c->speculative_ms, c->told_ms), recorded, c->policy_hits[BS_POLICY_REUSE],
        c->policy_hits[BS_POLICY_LRU], c->policy_hits[BS_POLICY_LFU], c->policy_hits[BS_POLICY_BELADY],
        c->demand_stall_ms, c->stall_ms, c->demand_read_mb, c->read_mb, c->oracle_mb, c->waste_percent, outcomes,
        (int)c->paused);
}

void preload_print_predictors(const preload_result *r)
{
    static int printed;
    char text[32];
    if (!printed++) {
        printf("\nPREDICTORS, precision/recall %% (scripted clock)\n%-18s %-10s %5s", "network or trace", "device MB/s",
               "slots");
        for (int p = 0; p < BS_PREDICTOR_COUNT; p++)
            printf(" | %11s", bs_predictor_name((bs_predictor)p));
        printf("\n");
    }
    printf("%-18s %-10s %4.0f%%", r->name, device(r, text, sizeof text), r->slot_percent);
    for (int p = 0; p < BS_PREDICTOR_COUNT; p++)
        if (r->clock.precision[p] < 0)
            printf(" | %11s", "-");
        else
            printf(" | %5.1f/%5.1f", r->clock.precision[p], r->clock.recall[p]);
    printf("\n");
}

void preload_print_legend(void)
{
    printf(
        "\nLEGEND\n"
        "device MB/s   sd, emmc, nvme: a device simulated over real files: each read takes at least 100 us (nvme 20) "
        "+ bytes / bandwidth. disk: the\n"
        "              real one, direct reads (b: buffered, so the page cache answers); its bandwidth is that of the "
        "recorded reads.\n"
        "slots         per cent of the prepared weights of all streamed blocks; MB: slots + staging; all MB: those "
        "weights resident.\n"
        "resident, demand, specul.   wall time of bs_run: all weights resident; streamed when needed; streamed with "
        "guesses (default).\n"
        "              Passes of runs take turns; a figure is the median of the passes' means, a ratio the median of "
        "ratios in a pass.\n"
        "oracle        the best schedule found with perfect knowledge, same slots and device, on the scripted clock "
        "(*: in both tables).\n"
        "sp/dem sp/res sp/or   specul. over demand, over resident, over oracle.   gap%%  (demand - specul.) / (demand "
        "- oracle).\n"
        "MB dem, sp, or   read from storage a run (first table: between turns too).   bytes   whether outputs of all "
        "three were the same bytes in every run.\n"
        "SCRIPTED CLOCK   bs_replay of the profile of the run on demand: recorded compute times, one device, that "
        "bandwidth and latency\n"
        "              (disk: latency 0, contained in its bandwidth), recorded preparing time. No real clock: repeats "
        "exactly.\n"
        "told          specul. were every look-ahead right; told%%  (demand - specul.) / (demand - told): what a "
        "look-ahead that is\n"
        "              right less often can gain of that is at most about its recall.\n"
        "rec%%          hits of the recorded run on demand; reuse (default), lru, lfu, belad(y): of its replay with "
        "each policy.\n"
        "st dem, st sp   time that the run stood still.   waste   per cent of bytes read for guesses that were never "
        "used.\n"
        "h/l/m         per cent of uses with guesses: there, on its way, not asked for.   pause   times that guessing "
        "gave up; both and\n"
        "              waste are of the session in the first table, of the scripted run in the second.\n");
}

void preload_json(FILE *f, const preload_result *r, bool first)
{
    const preload_clock *c = &r->clock;
    fprintf(
        f,
        "%s  {\"name\": \"%s\", \"synthetic\": %s, \"device\": \"%s\", \"bytes_per_second\": %llu, \"direct\": %s, "
        "\"slot_percent\": %.2f, ",
        first ? "" : ",\n", r->name, r->synthetic ? "true" : "false", r->speed, (unsigned long long)r->bytes_per_second,
        r->direct ? "true" : "false", r->slot_percent);
    fprintf(f, "\"slots_mb\": %.4f, \"staging_mb\": %.4f, \"all_mb\": %.4f,\n   ", r->slots_mb, r->staging_mb,
            r->all_mb);
    if (!r->synthetic)
        fprintf(
            f,
            "\"wall\": {\"passes\": %d, \"runs\": %d, \"resident_ms\": %.5f, \"demand_ms\": %.5f, \"speculative_ms\": "
            "%.5f, \"low_ms\": [%.5f, %.5f, %.5f], "
            "\"high_ms\": [%.5f, %.5f, %.5f], \"speculative_over_demand\": %.4f, \"speculative_over_resident\": %.4f, "
            "\"demand_over_resident\": %.4f, "
            "\"demand_hit_percent\": %.3f, \"same_bytes\": %s, \"paused\": %llu, \"delayed_ms\": %.4f},\n   ",
            (int)r->passes, (int)r->runs, r->wall_ms[0], r->wall_ms[1], r->wall_ms[2], r->low_ms[0], r->low_ms[1],
            r->low_ms[2], r->high_ms[0], r->high_ms[1], r->high_ms[2], r->speculative_over_demand,
            r->speculative_over_resident, r->demand_over_resident, r->recorded_hit_percent,
            r->same_bytes ? "true" : "false", (unsigned long long)r->stats[ARM_SPECULATIVE].paused,
            (double)r->stats[ARM_SPECULATIVE].delayed_ns / 1e6);
    fprintf(
        f,
        "\"clock\": {\"demand_ms\": %.5f, \"speculative_ms\": %.5f, \"told_ms\": %.5f, \"oracle_ms\": %.5f, "
        "\"demand_stall_ms\": %.5f, \"stall_ms\": %.5f, "
        "\"demand_mb\": %.4f, \"mb\": %.4f, \"oracle_mb\": %.4f, \"waste_percent\": %.3f, \"hits\": %llu, \"late\": "
        "%llu, \"misses\": %llu, \"paused\": %llu, ",
        c->demand_ms, c->speculative_ms, c->told_ms, c->oracle_ms, c->demand_stall_ms, c->stall_ms, c->demand_read_mb,
        c->read_mb, c->oracle_mb, c->waste_percent, (unsigned long long)c->hits, (unsigned long long)c->late,
        (unsigned long long)c->misses, (unsigned long long)c->paused);
    for (int p = 0; p < BS_POLICY_COUNT; p++)
        fprintf(f, "\"%s_hit_percent\": %.3f, ", bs_policy_name((bs_policy)p), c->policy_hits[p]);
    for (int p = 0; p < BS_PREDICTOR_COUNT; p++)
        fprintf(f, "%s\"%s\": [%.3f, %.3f]", p ? ", " : "", bs_predictor_name((bs_predictor)p), c->precision[p],
                c->recall[p]);
    fprintf(f, "}}");
}
