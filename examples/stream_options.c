/* stream_options.c: see stream_options.h. */
#include "stream_options.h"

#include "arenas.h"
#include "words.h"

#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- options */

static bool slots_parse(stream_options *o, const char *text)
{
    double n;
    const bool percent = word_percent(text, &n);
    if (percent ? n <= 0 || n > 100 : !word_bytes(text, 1024, &n) || n > 0x1p50)
        return false;
    o->slot_percent = percent ? n : 0;
    o->slot_bytes = percent ? 0 : n > 0 && n < 1 ? 1 : (uint64_t)n;
    return true;
}

static bool lanes_parse(stream_options *o, const char *text)
{
    if (text[0] < '1' || text[0] > '8' || text[1])
        return false;
    o->lanes = text[0] - '0';
    return true;
}

static bool chunk_parse(stream_options *o, const char *text)
{
    double n;
    if (!word_bytes(text, 1024, &n) || n < 4096 || n > (1 << 30))
        return false;
    o->chunk_bytes = (int32_t)n;
    return true;
}

static bool policy_parse(stream_options *o, const char *text)
{
    for (int32_t p = 0; p < BS_POLICY_COUNT; p++)
        if (p != BS_POLICY_BELADY && strcmp(text, bs_policy_name((bs_policy)p)) == 0) { /* that one is for replays */
            o->stream.policy = p;
            return true;
        }
    return false;
}

static bool speculate_parse(stream_options *o, const char *text)
{
    o->stream.speculation = strcmp(text, "off") == 0 ? BS_SPECULATE_OFF : BS_SPECULATE_AUTO;
    return strcmp(text, "off") == 0 || strcmp(text, "auto") == 0;
}

static bool throttle_option(stream_options *o, const char *text)
{
    return throttle_parse(text, &o->bytes_per_second);
}

static bool profile_option(stream_options *o, const char *text)
{
    o->profile = text;
    return *text != 0 && strcmp(text, "-") != 0;
}

static bool trace_option(stream_options *o, const char *text)
{
    o->trace = text;
    return *text != 0 && strcmp(text, "-") != 0;
}

stream_taken stream_options_value(stream_options *o, const char *name, const char *value, char *message, size_t bytes)
{
    static const struct {
        const char *name;
        bool (*parse)(stream_options *o, const char *text);
        const char *expected;
    } list[] = {{"--slots", slots_parse, "BYTES, with K, M or G, or a percentage above 0 and up to 100%"},
                {"--speculate", speculate_parse, "auto or off"},
                {"--policy", policy_parse, "reuse, lru or lfu"},
                {"--lanes", lanes_parse, "1 .. 8"},
                {"--chunk", chunk_parse, "4K .. 1G"},
                {"--throttle", throttle_option, THROTTLE_SPEEDS},
                {"--profile", profile_option, "a file"},
                {"--trace", trace_option, "a file"}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(name, list[i].name) != 0)
            continue;
        if (list[i].parse(o, value))
            return STREAM_TAKEN;
        snprintf(message, bytes, "%s %.60s: expected %s", name, value, list[i].expected);
        return STREAM_WRONG;
    }
    return STREAM_OTHER;
}

bool stream_options_flag(stream_options *o, const char *name)
{
    if (strcmp(name, "--check-records") == 0)
        o->stream.check_records = 1;
    else if (strcmp(name, "--buffered") == 0)
        o->buffered = true;
    else
        return false;
    return true;
}

bool stream_options_plan(const stream_options *o, const bs_graph *graph, bs_plan_desc *desc, bs_error *error)
{
    desc->slot_bytes = o->slot_bytes;
    desc->lanes = o->lanes;
    desc->chunk_bytes = o->chunk_bytes;
    if (o->slot_percent <= 0)
        return true;
    arenas scratch = {.count = 0};
    bs_arena arena;
    bs_stream_plan stream;
    desc->slot_bytes = UINT64_MAX / 2; /* room for everything: then it is known how much that is */
    const bool lent = arenas_lend(&scratch, &arena, "plan", bs_plan_bytes(graph, desc), error);
    const bs_plan *plan = lent ? bs_plan_create(&arena, NULL, graph, desc, error) : NULL;
    if (plan) {
        bs_plan_stream_get(plan, &stream);
        desc->slot_bytes = 1 + (uint64_t)((double)stream.all_bytes * o->slot_percent / 100);
    }
    arenas_free(&scratch);
    return plan != NULL;
}

/* ------------------------------------------------------------------------------------------- while it runs */

bool stream_tools_open(stream_tools *t, const stream_options *o, files *f, bs_error *error)
{
    memset(t, 0, sizeof *t);
    if (o->bytes_per_second) {
        throttle_init(&t->slow, NULL, o->bytes_per_second, THROTTLE_LATENCY_NS);
        t->platform = throttle_platform(&t->slow);
    }
    return (!o->profile && !o->trace) || profile_sink_open(&t->sink, f, o->profile, o->trace, error);
}

void stream_options_session(const stream_options *o, const stream_tools *tools, bs_session_desc *desc)
{
    desc->stream = o->stream;
    desc->platform = tools ? tools->platform : NULL;
    desc->profile = tools ? tools->sink.profile : NULL;
}

bool stream_tools_close(stream_tools *t, uint64_t *dropped)
{
    const bool whole = profile_sink_close(&t->sink, dropped);
    const int why = errno;
    memset(t, 0, sizeof *t);
    errno = why;
    return whole;
}

/* ------------------------------------------------------------------------------------------------- figures */

void stream_facts_get(stream_facts *facts, const bs_plan *plan, bs_session *session)
{
    memset(facts, 0, sizeof *facts);
    bs_plan_stream_get(plan, &facts->plan);
    bs_session_stream_stats(session, &facts->stats);
}

/* Weights that were there when a run came to them, of those that it came to. */
static double hit_rate(const bs_stream_stats *s)
{
    const uint64_t uses = s->hits + s->late + s->misses;
    return uses ? (double)s->hits / (double)uses : 0;
}

void stream_summary(FILE *file, const stream_facts *facts)
{
    const bs_stream_stats *s = &facts->stats;
    const bs_stream_plan *p = &facts->plan;
    if (p->slot_bytes == 0)
        return;
    fprintf(file, "weights: %llu hits, %llu late, %llu misses (%.1f %% there), stood still for %.1f ms\n",
            (unsigned long long)s->hits, (unsigned long long)s->late, (unsigned long long)s->misses, 100 * hit_rate(s),
            (double)s->stall_ns * 1e-6);
    const double mib = 0x1p-20;
    fprintf(
        file,
        "read %.2f MiB %s, %.2f MiB of it for nothing; slots: %.2f MiB of %.2f in use at most, all weights take %.2f\n",
        (double)s->bytes_read * mib, s->direct ? "directly" : "through the page cache", (double)s->bytes_wasted * mib,
        (double)s->resident_peak_bytes * mib, (double)p->slot_bytes * mib, (double)p->all_bytes * mib);
}

static void json_counts(FILE *file, const stream_facts *facts)
{
    const bs_stream_stats *s = &facts->stats;
    const bs_stream_plan *p = &facts->plan;
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {{"units", (uint64_t)p->units},
                  {"phases", (uint64_t)p->phases},
                  {"slot_bytes", p->slot_bytes},
                  {"least_bytes", p->least_bytes},
                  {"all_bytes", p->all_bytes},
                  {"peak_bytes", s->resident_peak_bytes},
                  {"hits", s->hits},
                  {"late", s->late},
                  {"misses", s->misses},
                  {"loads", s->loads},
                  {"guessed_loads", s->guessed_loads},
                  {"useful_guesses", s->useful_guesses},
                  {"dropped", s->dropped},
                  {"evictions", s->evictions},
                  {"paused", s->paused},
                  {"bytes_read", s->bytes_read},
                  {"bytes_wasted", s->bytes_wasted}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        fprintf(file, "\"%s\": %llu, ", counts[i].key, (unsigned long long)counts[i].value);
}

void stream_json(FILE *file, const stream_facts *facts)
{
    const bs_stream_stats *s = &facts->stats;
    if (facts->plan.slot_bytes == 0) {
        fprintf(file, "null");
        return;
    }
    fprintf(file, "{");
    json_counts(file, facts);
    fprintf(
        file,
        "\"hit_rate\": %.6g, \"stall_ms\": %.6g, \"read_ms\": %.6g, \"prepare_ms\": %.6g, \"delayed_ms\": %.6g, "
        "\"direct\": %s}",
        hit_rate(s), (double)s->stall_ns * 1e-6, (double)s->read_ns * 1e-6, (double)s->prepare_ns * 1e-6,
        (double)s->delayed_ns * 1e-6, s->direct ? "true" : "false");
}
