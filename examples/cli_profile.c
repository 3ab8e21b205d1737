/* cli_profile.c: `brainstorm profile` and `brainstorm trace`: what a profile tells, in text, as JSON, as a Chrome
 * trace. Owns: the printing. Relies on: profile_facts.h, trace_json.h. Must never: compute what profile_facts.c
 * could. */
#include "cli_counts.h"
#include "cli_ops.h"
#include "json_text.h"
#include "profile_facts.h"
#include "trace_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_OPS = 10 };

static const char profile_usage[] =
    "usage: brainstorm profile FILE [--json]\n"
    "\n"
    "Prints what a profile tells: loads of the routers (entropy 1.00: all paths alike), paths of consecutive routers\n"
    "that are chosen in the same run more often than by chance (lift), capacities (cells of the fullest path that 99\n"
    "of 100 decisions stay within; what is beyond 1 to 4 times the mean), hits and misses of what was recorded,\n"
    "how good look-aheads were, and how often any slots of a size would have held what was needed: with perfect\n"
    "knowledge (Belady) and with the least recently used going first (LRU). These two know no time and pin nothing:\n"
    "brainstorm replay does. Where ops were recorded, the ten that took longest, and the blocks they are of.\n";

static const char trace_usage[] =
    "usage: brainstorm trace PROFILE OUT.json\n"
    "\n"
    "Writes a profile as a Chrome trace, to be opened in ui.perfetto.dev or chrome://tracing: runs, phases, uses and\n"
    "stalls on one track, reads and packing on one for each lane, arrows from what was guessed to its use; ops within\n"
    "runs, decisions, and tiles with their ops on a track for each thread.\n";

static uint64_t all_uses(const profile_facts *f) { return f->uses[0] + f->uses[1] + f->uses[2]; }

/* ------------------------------------------------------------------------------------------------------- text */

static void print_bar(double share)
{
    for (int i = 0; i < 20; i++)
        putchar(share * 20 > i + 0.25 ? '#' : '.');
}

/* Many paths: one sign each, the fullest is '@'. */
static void print_strip(const facts_router *r)
{
    uint64_t most = 1;
    for (int32_t p = 0; p < r->facts.paths; p++)
        most = r->cells[p] > most ? r->cells[p] : most;
    printf("    [");
    for (int32_t p = 0; p < r->facts.paths; p++)
        putchar(" .:-=+*#%@"[r->cells[p] ? 1 + (int)(8 * cli_ratio(r->cells[p], most)) : 0]);
    printf("]\n");
}

static void print_router(const facts_router *r, int32_t number)
{
    if (r->all_cells == 0) {
        printf("  %d %s: decided nothing, or tile by tile, which is not recorded\n", (int)number, r->facts.name);
        return;
    }
    printf("  %d %s: %" PRIu64 " cells, %d paths, entropy %.2f\n", (int)number, r->facts.name, r->all_cells,
           (int)r->facts.paths, r->entropy);
    if (r->facts.paths > 16) {
        print_strip(r);
        return;
    }
    for (int32_t p = 0; p < r->facts.paths; p++) {
        printf("    %2d ", (int)p);
        const double share = cli_ratio(r->cells[p], r->all_cells);
        print_bar(share);
        printf(" %5.1f %%  %12" PRIu64 " cells, in %" PRIu64 " runs\n", 100 * share, r->cells[p], r->runs[p]);
    }
}

static void print_pairs(const profile_facts *f)
{
    bool any = false;
    for (int32_t i = 0; i + 1 < f->file.routers; i++) {
        const facts_router *r = &f->routers[i];
        for (int32_t k = 0; k < r->n_pairs; k++) {
            if (!any)
                printf("\npaths chosen together (by share of runs and lift)\n");
            any = true;
            printf("  %s %d -> %s %d: %" PRIu64 " runs, lift %.2f\n", r->facts.name, (int)r->pairs[k].from,
                   r[1].facts.name, (int)r->pairs[k].to, r->pairs[k].runs, r->pairs[k].lift);
        }
    }
}

/* Paths of large routers are left to --json. */
static void print_counts(const profile_facts *f, const counts_router *counts)
{
    bool any = false;
    for (int32_t i = 0; i < f->file.routers; i++) {
        const counts_router *c = &counts[i];
        if (c->decisions == 0)
            continue;
        printf(any ? "" : "\ncapacities (cells a path; in brackets the share of all cells that would be beyond)\n");
        any = true;
        printf("  %s: mean %.4g in %" PRIu64 " decisions; 99 %% within %" PRIu64 " (%.2f %%)\n   ",
               f->routers[i].facts.name, c->mean, c->decisions, c->proposed.capacity, 100 * c->proposed.share);
        for (int32_t k = 0; k < COUNTS_FACTORS; k++)
            printf(" x%g: %" PRIu64 " (%.2f %%)", c->at[k].factor, c->at[k].capacity, 100 * c->at[k].share);
        printf("\n");
        for (int32_t p = 0; p < f->routers[i].facts.paths && f->routers[i].facts.paths <= 16; p++)
            printf("    %2d  99 %% within %" PRIu64 ", most %" PRIu64 "\n", (int)p, c->paths[p].p99, c->paths[p].most);
    }
}

static void print_phases(const profile_facts *f)
{
    printf("\nunits needed at once\n");
    for (int32_t i = 0; i < f->file.phases; i++) {
        const facts_spread *s = &f->units_a_visit[i];
        const int32_t router = f->trace.phases[i].router;
        printf("  phase %-3d %-24.24s of %3d units: mean %6.2f, 95 %% within %g, most %g, %" PRIu64 " visits\n", (int)i,
               router ? f->routers[router - 1].facts.name : "(always)", (int)f->trace.phases[i].n_units, s->mean,
               s->p95, s->most, s->count);
    }
    printf("  a run: %.2f distinct units (95 %% within %g); its cycle is %s (95 %% within %s) of %s\n",
           f->units_a_run.mean, f->units_a_run.p95, cli_size((uint64_t)f->bytes_a_run.mean),
           cli_size((uint64_t)f->bytes_a_run.p95), cli_size(f->all_bytes));
}

/* The first budget that holds a whole run: below it LRU loses what comes round again. */
static int32_t cycle_budget(const profile_facts *f)
{
    int32_t i = 0;
    while (i < FACTS_BUDGETS && (double)f->budgets[i].bytes < f->bytes_a_run.mean)
        i++;
    return i;
}

static void print_budgets(const profile_facts *f)
{
    const int32_t cycle = cycle_budget(f);
    const double unit = f->file.units ? (double)f->all_bytes / f->file.units : 1;
    printf(
        "\nslots that would do (share of uses that find their unit)\n  of all       bytes     ~units   Belady      "
        "LRU\n");
    for (int32_t i = 0; i < FACTS_BUDGETS; i++) {
        const facts_budget *b = &f->budgets[i];
        if (!b->fits) {
            printf("  %4d %% %12" PRIu64 " %9.1f  less than the largest unit\n", (int)b->percent, b->bytes,
                   (double)b->bytes / unit);
            continue;
        }
        printf("  %4d %% %12" PRIu64 " %9.1f  %6.1f %% %6.1f %%%s%s\n", (int)b->percent, b->bytes,
               (double)b->bytes / unit, 100 * b->belady, 100 * b->lru,
               i == f->knee ? "  <- knee: more slots give less from here on" : "",
               i == cycle ? "  <- a run's cycle fits" : "");
    }
}

static void print_streaming(const profile_facts *f)
{
    const bs_prediction *p = &f->look_ahead;
    const uint64_t uses = all_uses(f);
    printf("\nas recorded: %s of slots, policy %s, guessing %s\n", cli_size(f->file.slot_bytes),
           cli_policies[f->file.policy], f->file.speculation == BS_SPECULATE_OFF ? "off" : "auto");
    printf("  uses        %" PRIu64 ": %.1f %% hits, %.1f %% late, %.1f %% misses\n", uses,
           100 * cli_ratio(f->uses[0], uses), 100 * cli_ratio(f->uses[1], uses), 100 * cli_ratio(f->uses[2], uses));
    printf("  read        %s in %" PRIu64 " chunks, %.3f s; packed in %.3f s\n", cli_size(f->bytes_read), f->reads,
           (double)f->read_ns * 1e-9, (double)f->prepare_ns * 1e-9);
    if (f->trace.ns_per_byte > 0)
        printf("  storage     %s a second\n", cli_size((uint64_t)(1e9 / f->trace.ns_per_byte)));
    printf("  loads       %" PRIu64 ", %" PRIu64 " begun by guesses; %" PRIu64 " evictions, %" PRIu64 " given up\n",
           f->loads, f->guessed_loads, f->evictions, f->dropped_loads);
    if (p->needed > 0)
        printf("  look-ahead  precision %.2f, recall %.2f of %" PRIu64 " units needed\n",
               cli_ratio(p->right, p->expected), cli_ratio(p->right, p->needed), p->needed);
}

static void print_profile(const profile_facts *f, const counts_router *counts, const char *path)
{
    printf("%s: %" PRIu64 " runs, %.3f s, %" PRIu64 " events", path, f->runs, (double)f->run_ns * 1e-9, f->file.events);
    if (f->lost)
        printf(", %" PRIu64 " lost", f->lost);
    printf(f->file.torn_bytes ? ", the last one cut off\n" : "\n");
    if (f->file.units > 0)
        printf("stall: %.3f s, %.1f %% of the time\n", (double)f->stall_ns * 1e-9,
               100 * cli_ratio(f->stall_ns, f->run_ns));
    if (f->file.routers > 0)
        printf("\nloads\n");
    for (int32_t i = 0; i < f->file.routers; i++)
        print_router(&f->routers[i], i + 1);
    print_pairs(f);
    print_counts(f, counts);
    if (f->file.units == 0)
        return;
    print_streaming(f);
    print_phases(f);
    print_budgets(f);
}

/* ------------------------------------------------------------------------------------------------------- JSON */

static void json_spread(const facts_spread *s)
{
    printf("{\"count\": %" PRIu64 ", \"mean\": %.6g, \"p95\": %.6g, \"most\": %.6g}", s->count, s->mean, s->p95,
           s->most);
}

static void json_capacity(const counts_capacity *c)
{
    printf("{\"factor\": %.6g, \"capacity\": %" PRIu64 ", \"share\": %.6g}", c->factor, c->capacity, c->share);
}

static void json_counts(const counts_router *c, int32_t paths)
{
    printf(", \"decisions\": %" PRIu64 ", \"mean\": %.6g, \"p99\": [", c->decisions, c->mean);
    for (int32_t p = 0; p < paths && c->paths; p++)
        printf("%s%" PRIu64, p ? ", " : "", c->paths[p].p99);
    printf("], \"most\": [");
    for (int32_t p = 0; p < paths && c->paths; p++)
        printf("%s%" PRIu64, p ? ", " : "", c->paths[p].most);
    printf("], \"proposed\": ");
    json_capacity(&c->proposed);
    printf(", \"capacities\": [");
    for (int32_t k = 0; k < COUNTS_FACTORS; k++) {
        printf(k ? ", " : "");
        json_capacity(&c->at[k]);
    }
    printf("]");
}

static void json_router(const facts_router *r, const counts_router *counts)
{
    printf("{\"name\": ");
    json_text(stdout, r->facts.name);
    printf(", \"entropy\": %.6g, \"cells\": [", r->entropy);
    for (int32_t p = 0; p < r->facts.paths; p++)
        printf("%s%" PRIu64, p ? ", " : "", r->cells[p]);
    printf("], \"runs\": [");
    for (int32_t p = 0; p < r->facts.paths; p++)
        printf("%s%" PRIu64, p ? ", " : "", r->runs[p]);
    printf("], \"pairs_with_next\": [");
    for (int32_t k = 0; k < r->n_pairs; k++)
        printf("%s{\"from\": %d, \"to\": %d, \"runs\": %" PRIu64 ", \"lift\": %.6g}", k ? ", " : "",
               (int)r->pairs[k].from, (int)r->pairs[k].to, r->pairs[k].runs, r->pairs[k].lift);
    printf("]");
    json_counts(counts, r->facts.paths);
    printf("}");
}

static void json_streaming(const profile_facts *f)
{
    const bs_prediction *p = &f->look_ahead;
    printf("  \"slot_bytes\": %" PRIu64 ", \"policy\": \"%s\", \"speculation\": \"%s\",\n", f->file.slot_bytes,
           cli_policies[f->file.policy], f->file.speculation == BS_SPECULATE_OFF ? "off" : "auto");
    printf("  \"hits\": %" PRIu64 ", \"late\": %" PRIu64 ", \"misses\": %" PRIu64 ",\n", f->uses[0], f->uses[1],
           f->uses[2]);
    printf("  \"reads\": %" PRIu64 ", \"bytes_read\": %" PRIu64 ", \"read_ns\": %" PRIu64 ", \"prepare_ns\": %" PRIu64
           ",\n",
           f->reads, f->bytes_read, f->read_ns, f->prepare_ns);
    printf("  \"ns_per_byte\": %.6g, \"prepare_ns_per_byte\": %.6g, \"stall_ns\": %" PRIu64 ",\n", f->trace.ns_per_byte,
           f->trace.prepare_ns_per_byte, f->stall_ns);
    printf("  \"loads\": %" PRIu64 ", \"guessed_loads\": %" PRIu64 ", \"evictions\": %" PRIu64
           ", \"dropped_loads\": %" PRIu64 ",\n",
           f->loads, f->guessed_loads, f->evictions, f->dropped_loads);
    printf("  \"look_ahead\": {\"expected\": %" PRIu64 ", \"right\": %" PRIu64 ", \"needed\": %" PRIu64
           ", \"precision\": %.6g, \"recall\": %.6g},\n",
           p->expected, p->right, p->needed, cli_ratio(p->right, p->expected), cli_ratio(p->right, p->needed));
}

static void json_profile(const profile_facts *f, const counts_router *counts)
{
    printf("{\n  \"runs\": %" PRIu64 ", \"run_ns\": %" PRIu64 ", \"events\": %" PRIu64 ", \"lost_events\": %" PRIu64
           ",\n",
           f->runs, f->run_ns, f->file.events, f->lost);
    json_streaming(f);
    printf("  \"routers\": [");
    for (int32_t i = 0; i < f->file.routers; i++) {
        printf(i ? ",\n    " : "\n    ");
        json_router(&f->routers[i], &counts[i]);
    }
    printf("],\n  \"units_a_visit\": [");
    for (int32_t i = 0; i < f->file.phases; i++) {
        printf(i ? ",\n    " : "\n    ");
        json_spread(&f->units_a_visit[i]);
    }
    printf("],\n  \"units_a_run\": ");
    json_spread(&f->units_a_run);
    printf(",\n  \"cycle_bytes\": ");
    json_spread(&f->bytes_a_run);
    printf(",\n  \"all_bytes\": %" PRIu64 ", \"units\": %d,\n  \"budgets\": [", f->all_bytes, (int)f->file.units);
    for (int32_t i = 0; i < FACTS_BUDGETS; i++) {
        const facts_budget *b = &f->budgets[i];
        printf("%s\n    {\"percent\": %d, \"bytes\": %" PRIu64 ", \"fits\": %s, \"belady\": %.6g, \"lru\": %.6g, "
               "\"knee\": %s, \"cycle\": %s}",
               i ? "," : "", (int)b->percent, b->bytes, b->fits ? "true" : "false", b->belady, b->lru,
               i == f->knee ? "true" : "false", i == cycle_budget(f) ? "true" : "false");
    }
    printf("]\n}\n");
}

/* --------------------------------------------------------------------------------------------------- commands */

/* Where ops were recorded. On which machine and how many threads is not known. */
static bool print_ops(cli_file *file, bs_error *error)
{
    const cli_machine unknown = {0, 0, 0, 0};
    bs_profile_reader *profile = bs_profile_open(&file->arena, &file->reader, error);
    return profile && cli_ops_print(profile, &unknown, 0, SHOWN_OPS, error);
}

/* The profile in one form or the other. */
static bool print_all(const profile_facts *facts, cli_file *file, const char *path, bool json, bs_error *error)
{
    bs_profile_reader *profile = bs_profile_open(&file->arena, &file->reader, error);
    counts_router *counts = profile ? cli_counts_read(profile, facts->file.routers, error) : NULL;
    if (counts)
        json ? json_profile(facts, counts) : print_profile(facts, counts, path);
    cli_counts_free(counts, facts->file.routers);
    return counts != NULL;
}

int cli_profile(int count, char **words)
{
    const char *path = NULL;
    bool json = false;
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "--help") == 0)
            return fputs(profile_usage, stdout) < 0;
        if (strcmp(words[i], "--json") == 0)
            json = true;
        else if (words[i][0] == '-')
            return cli_fail_usage("profile", "no such option", words[i]);
        else if (path)
            return cli_fail_usage("profile", "more than one file", words[i]);
        else
            path = words[i];
    }
    if (!path)
        return cli_fail_usage("profile", "a profile is missing", NULL);
    profile_facts facts;
    cli_file file;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    memset(&facts, 0, sizeof facts);
    bool good = cli_open(&file, path, true, &error) && profile_facts_read(&facts, &file, &error) &&
                print_all(&facts, &file, path, json, &error);
    good = good && (json || print_ops(&file, &error));
    profile_facts_free(&facts);
    cli_close(&file);
    return good ? EXIT_SUCCESS : cli_fail(&error);
}

/* The whole file is checked before anything of it is written. */
static bool check_events(cli_file *file, bs_error *error)
{
    bs_event event;
    bs_profile_reader *profile = bs_profile_open(&file->arena, &file->reader, error);
    if (!profile)
        return false;
    while (bs_profile_next(profile, &event, error))
        ;
    return error->status == BS_OK;
}

static bool trace_failed(bs_error *error, const char *path, const char *why)
{
    error->status = BS_ERROR_IO;
    snprintf(error->message, sizeof error->message, "%.150s: %.80s", path, why);
    return false;
}

static bool convert_to(trace_json *trace, cli_file *file, const char *path, bs_error *error)
{
    static uint8_t block[1 << 16];
    int64_t n = 1;
    bool taken = true;
    for (uint64_t at = 0; n > 0 && taken; at += (uint64_t)n) {
        n = file->reader.read(file->reader.user, at, block, sizeof block);
        taken = n <= 0 || trace_json_write(trace, block, (size_t)n) == 0;
    }
    if (n < 0) {
        trace_json_drop(trace);
        return trace_failed(error, path, "is not written: the profile could not be read to its end");
    }
    if (!trace_json_close(trace)) {
        char why[80];
        snprintf(why, sizeof why, "could not be written whole: %s", strerror(errno));
        return trace_failed(error, path, why);
    }
    return true;
}

static bool convert(cli_file *file, int output, const char *path, bs_error *error)
{
    FILE *stream = files_stream(cli_files(), output);
    trace_json *trace = stream ? trace_json_start(stream) : NULL;
    if (!trace)
        return trace_failed(error, path, "no memory to write it");
    if (files_empty(cli_files()))
        return convert_to(trace, file, path, error);
    trace_json_drop(trace);
    return trace_failed(error, path, "cannot be emptied");
}

static bool make_trace(cli_file *file, const char *from, const char *to, bs_error *error)
{
    if (!cli_open(file, from, false, error))
        return false;
    const int output = files_add(cli_files(), FILES_WRITE, "the trace", to);
    if (output >= 0)
        return check_events(file, error) && convert(file, output, to, error);
    error->status = BS_ERROR_IO;
    snprintf(error->message, sizeof error->message, "%.250s", cli_files()->message);
    return false;
}

int cli_trace(int count, char **words)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], "--help") == 0)
            return fputs(trace_usage, stdout) < 0;
    if (count != 2 || words[0][0] == '-' || words[1][0] == '-')
        return cli_fail_usage("trace", "takes a profile and the file to write", NULL);
    cli_file file;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bool good = make_trace(&file, words[0], words[1], &error);
    cli_close(&file);
    return good ? EXIT_SUCCESS : cli_fail(&error);
}
