/* cli_replay.c: `brainstorm replay`: a profile's runs again, with other slots, policies and storage.
 * Owns: its options and the printing. Relies on: bs_replay; throttle.h for speeds. Must never: judge what it prints. */
#include "brainstorm_replay.h"
#include "cli.h"
#include "throttle.h"
#include "words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char replay_usage[] =
    "usage: brainstorm replay FILE [OPTION]...\n"
    "\n"
    "Runs what a profile recorded again, on a scripted clock: the queue, slots and predictors of a session, one "
    "storage\n"
    "device that reads one chunk at a time, one thread that computes. The oracle is the least time that perfect\n"
    "knowledge would need with the same slots and storage.\n"
    "\n"
    "  --slots BYTES         of slots, with K, M or G, or N% of all units [as recorded]\n"
    "  --policy NAME         reuse, lru, lfu or belady (which knows what comes) [reuse]\n"
    "  --bandwidth BYTES     of storage in a second (K, M, G: 1000 each), or sd, emmc, nvme (50M, 250M, 1.3G)\n"
    "                        [as measured in the profile]\n"
    "  --latency US          of a read, in microseconds [0]\n"
    "  --chunk BYTES         of one read [as recorded]\n"
    "  --speculate NAME      auto or off [auto]\n"
    "  --sweep               a table: every policy with 10 to 100 % of all units\n"
    "  --json\n";

typedef struct replay_options {
    const char *path, *slots, *chunk;
    uint64_t bytes_per_second; /* 0: as in the profile */
    double latency_us;
    int32_t policy, speculation;
    bool sweep, json, help;
} replay_options;

typedef struct replay_case {
    cli_file file;
    bs_trace trace;
    bs_replay_desc desc;
    uint64_t all_bytes, least_bytes;
    void *memory; /* of the replay */
    size_t bytes;
} replay_case;

static const char *const speculations[] = {"auto", "off", NULL};

/* ---------------------------------------------------------------------------------------------------- options */

/* What a value should have been, NULL when it was taken, "" when there is no such option. */
static const char *take_value(replay_options *o, const char *option, const char *word)
{
    if (strcmp(option, "--slots") == 0)
        o->slots = word;
    else if (strcmp(option, "--chunk") == 0)
        o->chunk = word;
    else if (strcmp(option, "--bandwidth") == 0)
        return throttle_parse(word, &o->bytes_per_second) ? NULL : THROTTLE_SPEEDS;
    else if (strcmp(option, "--policy") == 0)
        return (o->policy = word_name(word, cli_policies)) >= 0 ? NULL : "reuse, lru, lfu or belady";
    else if (strcmp(option, "--speculate") == 0)
        return (o->speculation = word_name(word, speculations)) >= 0 ? NULL : "auto or off";
    else if (strcmp(option, "--latency") == 0)
        return word_number(word, 0, 1e9, &o->latency_us) ? NULL : "microseconds";
    else
        return "";
    return NULL;
}

static int take_option(replay_options *o, const char *option, const char *word)
{
    char text[160];
    const char *expected = take_value(o, option, word ? word : "");
    if (expected && *expected == 0)
        return cli_fail_usage("replay", "no such option", option);
    if (!word)
        return cli_fail_usage("replay", "a value is missing", option);
    snprintf(text, sizeof text, "%s %.40s: expected %s", option, word, expected ? expected : "");
    return expected ? cli_fail_usage("replay", text, NULL) : EXIT_SUCCESS;
}

static int read_options(replay_options *o, int count, char **words)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "--help") == 0)
            o->help = true;
        else if (strcmp(words[i], "--sweep") == 0)
            o->sweep = true;
        else if (strcmp(words[i], "--json") == 0)
            o->json = true;
        else if (words[i][0] != '-' && !o->path)
            o->path = words[i];
        else if (words[i][0] != '-')
            return cli_fail_usage("replay", "more than one file", words[i]);
        else if (take_option(o, words[i], i + 1 < count ? words[i + 1] : NULL) != EXIT_SUCCESS)
            return CLI_USAGE;
        else
            i++;
    }
    return o->path || o->help ? EXIT_SUCCESS : cli_fail_usage("replay", "a profile is missing", NULL);
}

/* What the options leave open comes from the profile. */
static int make_case(replay_case *c, const replay_options *o)
{
    uint64_t bandwidth = c->trace.ns_per_byte > 0 ? (uint64_t)(1e9 / c->trace.ns_per_byte) : 0;
    uint64_t slots = c->trace.slot_bytes, chunk = c->trace.chunk_bytes;
    for (int32_t i = 0; i < c->trace.n_units; i++) {
        const uint64_t bytes = c->trace.units[i].slot_bytes;
        c->all_bytes += bytes;
        c->least_bytes = bytes > c->least_bytes ? bytes : c->least_bytes;
    }
    if (o->bytes_per_second)
        bandwidth = o->bytes_per_second;
    if (bandwidth == 0)
        return cli_fail_usage("replay", "the profile has no reads to measure storage by: give --bandwidth", NULL);
    if (o->slots && !cli_bytes(o->slots, c->all_bytes, &slots))
        return cli_fail_usage("replay", "--slots: expected BYTES, with K, M or G, or a percentage", o->slots);
    if (o->chunk && (!cli_bytes(o->chunk, 0, &chunk) || chunk == 0))
        return cli_fail_usage("replay", "--chunk: expected BYTES, with K, M or G", o->chunk);
    if (chunk > INT32_MAX)
        return cli_fail_usage("replay", "--chunk: at most 2147483647", o->chunk);
    c->desc = (bs_replay_desc){.slot_bytes = slots,
                               .bytes_per_second = bandwidth,
                               .latency_ns = (uint64_t)(o->latency_us * 1000),
                               .prepare_ns_per_byte = c->trace.prepare_ns_per_byte,
                               .chunk_bytes = (int32_t)chunk,
                               .stream = {.policy = o->policy, .speculation = o->speculation}};
    return EXIT_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------- running */

static bool replay(const replay_case *c, const bs_replay_desc *desc, bs_replay_result *result, bs_error *error)
{
    bs_arena arena;
    bs_arena_init(&arena, "replay", c->memory, c->bytes);
    memset(result, 0, sizeof *result);
    return bs_replay(&c->trace, desc, &arena, result, error) == BS_OK;
}

static uint64_t uses_of(const bs_stream_stats *s) { return s->hits + s->late + s->misses; }

static uint64_t useful_bytes(const bs_stream_stats *s)
{
    return s->bytes_read > s->bytes_wasted ? s->bytes_read - s->bytes_wasted : 0;
}

static void print_result(const replay_case *c, const bs_replay_result *r)
{
    const bs_stream_stats *s = &r->stats;
    const uint64_t uses = uses_of(s);
    printf("stall       %.6f s, %.1f %% of the time\n", (double)s->stall_ns * 1e-9,
           100 * cli_ratio(s->stall_ns, r->time_ns));
    printf("slots       %s, %.1f %% of all units; policy %s, guessing %s\n", cli_size(c->desc.slot_bytes),
           100 * cli_ratio(c->desc.slot_bytes, c->all_bytes), cli_policies[c->desc.stream.policy],
           speculations[c->desc.stream.speculation]);
    printf("storage     %s a second, %.1f us a read\n", cli_size(c->desc.bytes_per_second),
           (double)c->desc.latency_ns * 1e-3);
    printf("uses        %" PRIu64 ": %" PRIu64 " hits, %" PRIu64 " late, %" PRIu64 " misses; hit rate %.1f %%\n", uses,
           s->hits, s->late, s->misses, 100 * cli_ratio(s->hits, uses));
    printf("read        %s: %s useful, %s wasted\n", cli_size(s->bytes_read), cli_size(useful_bytes(s)),
           cli_size(s->bytes_wasted));
    printf("loads       %" PRIu64 ", %" PRIu64 " begun by guesses, %" PRIu64 " of them useful; %" PRIu64
           " evictions, %" PRIu64 " given up\n",
           s->loads, s->guessed_loads, s->useful_guesses, s->evictions, s->dropped);
    printf("time        %.6f s, of them %.6f s computed\n", (double)r->time_ns * 1e-9, (double)r->compute_ns * 1e-9);
    printf("oracle      %.6f s, %s read; time over oracle %.3f\n", (double)r->oracle_ns * 1e-9,
           cli_size(r->oracle_bytes), cli_ratio(r->time_ns, r->oracle_ns));
    printf("predictors  (precision, recall, units needed)\n");
    for (int i = 0; i < BS_PREDICTOR_COUNT; i++) {
        const bs_prediction *p = &r->predictions[i];
        printf("  %-10s %6.3f %6.3f %8" PRIu64 "\n", bs_predictor_name((bs_predictor)i),
               cli_ratio(p->right, p->expected), cli_ratio(p->right, p->needed), p->needed);
    }
}

static void json_result(const bs_replay_desc *d, const bs_replay_result *r, const char *indent)
{
    const bs_stream_stats *s = &r->stats;
    printf("%s{\"policy\": \"%s\", \"speculation\": \"%s\", \"slot_bytes\": %" PRIu64 ", \"bytes_per_second\": %" PRIu64
           ", \"latency_ns\": %" PRIu64 ",\n",
           indent, cli_policies[d->stream.policy], speculations[d->stream.speculation], d->slot_bytes,
           d->bytes_per_second, d->latency_ns);
    printf("%s \"hits\": %" PRIu64 ", \"late\": %" PRIu64 ", \"misses\": %" PRIu64 ", \"hit_rate\": %.6g,\n", indent,
           s->hits, s->late, s->misses, cli_ratio(s->hits, uses_of(s)));
    printf("%s \"bytes_read\": %" PRIu64 ", \"bytes_useful\": %" PRIu64 ", \"bytes_wasted\": %" PRIu64
           ", \"stall_ns\": %" PRIu64 ",\n",
           indent, s->bytes_read, useful_bytes(s), s->bytes_wasted, s->stall_ns);
    printf("%s \"loads\": %" PRIu64 ", \"guessed_loads\": %" PRIu64 ", \"useful_guesses\": %" PRIu64
           ", \"evictions\": %" PRIu64 ", \"dropped\": %" PRIu64 ",\n",
           indent, s->loads, s->guessed_loads, s->useful_guesses, s->evictions, s->dropped);
    printf("%s \"time_ns\": %" PRIu64 ", \"compute_ns\": %" PRIu64 ", \"oracle_ns\": %" PRIu64
           ", \"oracle_bytes\": %" PRIu64 ", \"time_over_oracle\": %.6g,\n%s \"predictors\": {",
           indent, r->time_ns, r->compute_ns, r->oracle_ns, r->oracle_bytes, cli_ratio(r->time_ns, r->oracle_ns),
           indent);
    for (int i = 0; i < BS_PREDICTOR_COUNT; i++) {
        const bs_prediction *p = &r->predictions[i];
        printf("%s\"%s\": {\"expected\": %" PRIu64 ", \"right\": %" PRIu64 ", \"needed\": %" PRIu64
               ", \"precision\": %.6g, \"recall\": %.6g}",
               i ? ", " : "", bs_predictor_name((bs_predictor)i), p->expected, p->right, p->needed,
               cli_ratio(p->right, p->expected), cli_ratio(p->right, p->needed));
    }
    printf("}}");
}

static int replay_once(const replay_case *c, bool json)
{
    bs_replay_result result;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (!replay(c, &c->desc, &result, &error))
        return cli_fail(&error);
    if (json) {
        json_result(&c->desc, &result, "");
        printf("\n");
    } else {
        print_result(c, &result);
    }
    return EXIT_SUCCESS;
}

/* -------------------------------------------------------------------------------------------------- the sweep */

static void print_sweep_line(const bs_replay_desc *d, int32_t percent, const bs_replay_result *r)
{
    const bs_stream_stats *s = &r->stats;
    printf("%4d %% %12" PRIu64 "  %-7s %6.1f %6.1f %6.1f  %12" PRIu64 " %12" PRIu64 "  %10.6f %10.6f  %6.3f\n",
           (int)percent, d->slot_bytes, cli_policies[d->stream.policy], 100 * cli_ratio(s->hits, uses_of(s)),
           100 * cli_ratio(s->late, uses_of(s)), 100 * cli_ratio(s->misses, uses_of(s)), s->bytes_read, s->bytes_wasted,
           (double)s->stall_ns * 1e-9, (double)r->time_ns * 1e-9, cli_ratio(r->time_ns, r->oracle_ns));
}

/* Budgets below the largest unit are left out: nothing runs there. */
static int replay_sweep(const replay_case *c, bool json)
{
    bool any = false;
    printf(json ? "["
                : "slots               policy   hits %%  late miss %%          read       wasted     stall s     time s"
                  "  /oracle\n");
    for (int32_t percent = 10; percent <= 100; percent += 10) {
        bs_replay_desc desc = c->desc;
        desc.slot_bytes = (uint64_t)((double)c->all_bytes * percent / 100 + 0.5);
        for (int32_t policy = 0; policy < BS_POLICY_COUNT && desc.slot_bytes >= c->least_bytes; policy++) {
            bs_replay_result result;
            bs_error error = {BS_OK, NULL, 0, 0, ""};
            desc.stream.policy = policy;
            if (!replay(c, &desc, &result, &error)) {
                if (json)
                    printf("\n]\n");
                return cli_fail(&error);
            }
            if (json) {
                printf(any ? ",\n" : "\n");
                json_result(&desc, &result, "  ");
            } else {
                print_sweep_line(&desc, percent, &result);
            }
            any = true;
        }
    }
    if (json)
        printf("\n]\n");
    return EXIT_SUCCESS;
}

static int run(replay_case *c, const replay_options *o)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (!cli_open(&c->file, o->path, true, &error) ||
        bs_trace_load(&c->file.arena, &c->file.reader, &c->trace, &error) != BS_OK)
        return cli_fail(&error);
    const int usage = make_case(c, o);
    if (usage != EXIT_SUCCESS)
        return usage;
    c->bytes = bs_replay_bytes(&c->trace) + BS_ALIGNMENT;
    c->memory = malloc(c->bytes);
    if (!c->memory) {
        snprintf(error.message, sizeof error.message, "no memory for a replay of %" PRIu64 " bytes",
                 (uint64_t)c->bytes);
        return cli_fail(&error);
    }
    return o->sweep ? replay_sweep(c, o->json) : replay_once(c, o->json);
}

int cli_replay(int count, char **words)
{
    replay_options options;
    replay_case c;
    const int usage = read_options(&options, count, words);
    if (usage != EXIT_SUCCESS)
        return usage;
    if (options.help)
        return fputs(replay_usage, stdout) < 0;
    memset(&c, 0, sizeof c);
    const int status = run(&c, &options);
    free(c.memory);
    cli_close(&c.file);
    return status;
}
