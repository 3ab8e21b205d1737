/* tags: asan tsan */
/* test_profile_cli.c - `brainstorm profile`, `replay` and `trace` on a profile whose figures are known, and Chrome
 * traces: in pieces of any size, of any events. Needs python3 for what is said of JSON; without it, or without the
 * programs, those checks are left out. */
#include "check.h"
#include "profile_synth.h"
#include "profile_cache.h"
#include "profile_sink.h"

#include <sys/stat.h>

static char folder[200], output[1 << 18];
static int python_missing, skipped;

/* --- running programs --------------------------------------------------------------------------------------- */

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int have_program(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/brainstorm", environment("BUILD", "build"));
    FILE *f = fopen(path, "rb");
    return f && fclose(f) == 0;
}

/* The folder of the tests' own files, where there is one. */
static void find_folder(void)
{
    char path[300];
    snprintf(folder, sizeof folder, "%s/tests", environment("BUILD", "build"));
    snprintf(path, sizeof path, "%s/profile_cli.out", folder);
    FILE *f = fopen(path, "wb");
    if (f)
        fclose(f);
    else
        snprintf(folder, sizeof folder, "%s", environment("TMPDIR", "/tmp"));
}

/* Both streams into `output`; returns the exit status. */
static int shell(const char *command)
{
    char line[2000], path[300];
    snprintf(path, sizeof path, "%s/profile_cli.out", folder);
    snprintf(line, sizeof line, "%s >%s 2>&1", command, path);
    const int status = system(line);
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(output, 1, sizeof output - 1, f) : 0;
    output[n] = 0;
    if (f)
        fclose(f);
    return status == 0 ? 0 : status > 255 ? status >> 8 & 255 : -1;
}

static int brainstorm(const char *arguments)
{
    char line[1000];
    snprintf(line, sizeof line, "%s %s/brainstorm %s", environment("RUN", ""), environment("BUILD", "build"),
             arguments);
    return shell(line);
}

/* The same with a profile's path put in where %s stands. */
static int on_profile(const char *format, const char *name)
{
    char path[300], line[1000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const char *at = strstr(format, "%s");
    snprintf(line, sizeof line, "%.*s%s%s", (int)(at - format), format, path, at + 2);
    return brainstorm(line);
}

static int says(const char *text)
{
    if (strstr(output, text))
        return 1;
    printf("     not said: %s\n%.3000s\n", text, output);
    return 0;
}

static int python(const char *script)
{
    char line[1500];
    snprintf(line, sizeof line, "%s -c '%s' %s/profile_cli.out", environment("PYTHON", "python3"), script, folder);
    return shell(line);
}

static void check_json(const char *expression, const char *what)
{
    char script[1000], copy[600];
    if (python_missing) {
        skipped++;
        return;
    }
    snprintf(copy, sizeof copy, "cp %s/profile_cli.out %s/profile_cli.json", folder, folder);
    if (system(copy) != 0)
        return;
    snprintf(script, sizeof script,
             "import json, sys; d = json.load(open(sys.argv[1][:-4] + \".json\")); ok = %s; print(d); sys.exit(not ok)",
             expression);
    const int status = python(script);
    check(status == 0, "%s%s%.1500s", what, status ? ": " : "", status ? output : "");
}

static void write_bytes(const char *name, const synth_bytes *b)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b->data, 1, b->n, f) != b->n || fclose(f) != 0)
        check(0, "%s is written", path);
}

static int same_files(const char *a, const char *b)
{
    char line[900];
    snprintf(line, sizeof line, "cmp %s/%s %s/%s", folder, a, folder, b);
    return shell(line) == 0;
}

/* --- profile ----------------------------------------------------------------------------------------------- */

static void test_profile_text(const synth_net *net)
{
    char uses[100];
    snprintf(uses, sizeof uses, "uses        120: %.1f %% hits, 0.0 %% late, %.1f %% misses", net->hits / 1.2,
             net->misses / 1.2);
    check(on_profile("profile %s", "synth.bsp") == 0 && says("40 runs") && says(uses), "profile counts runs and uses");
    check(says("first: 280 cells, 4 paths") && says("second \"quoted\\\" ??: 200 cells"),
          "and the loads of every router");
    const char *second = strchr(output, '\n');
    check(second && strncmp(second, "\nstall: ", 8) == 0, "first of all how long runs stalled");
    check(says("lift"), "and paths that are chosen together");
    check(says("first: mean 1.75 in 40 decisions; 99 % within 7 (0.00 %)") &&
              says("x1: 2 (71.43 %) x1.25: 3 (57.14 %)") && says("x4: 7 (0.00 %)") && says("99 % within 7, most 7"),
          "and capacities: of 7 cells, all on one path, 2 a path leave 5 without room");
    check(says("look-ahead  precision 0.80, recall 0.80 of 40 units needed"), "and how good look-aheads were: 8 of 10");
    check(says("3.00 distinct units (95 % within 3)"), "and the units of a run");
    check(says("<- a run's cycle fits") && says("Belady"), "and which slots would do");
    check(brainstorm("profile --help") == 0 && says("usage: brainstorm profile"), "profile has a help of its own");
    check(brainstorm("profile") == 2 && brainstorm("profile a b") == 2 && brainstorm("profile --what a") == 2,
          "profile takes one file");
    check(brainstorm("profile /nowhere/at.all") == 1 && says("cannot be opened"), "a file that is not there is said");
    check(brainstorm("profile tests") == 1 && says("Is a directory"), "a folder is none");
    check(brainstorm("profile brainstorm.h") == 1 && says("not a profile"), "as is one that is no profile");
}

static void test_profile_json(const synth_net *net)
{
    char expression[300];
    check(on_profile("profile %s --json", "synth.bsp") == 0, "profile --json");
    snprintf(expression, sizeof expression,
             "d[\"runs\"] == 40 and d[\"hits\"] == %d and d[\"misses\"] == %d and d[\"look_ahead\"][\"right\"] == 32",
             net->hits, net->misses);
    check_json(expression, "is JSON with the same figures");
    on_profile("profile %s --json", "synth.bsp");
    check_json("d[\"routers\"][0][\"decisions\"] == 40 and d[\"routers\"][0][\"mean\"] == 1.75 and "
               "max(d[\"routers\"][0][\"most\"]) == 7 and d[\"routers\"][0][\"proposed\"][\"capacity\"] == 7 and "
               "[c[\"capacity\"] for c in d[\"routers\"][0][\"capacities\"]] == [2, 3, 3, 4, 7]",
               "and the same capacities");
    on_profile("profile %s --json", "synth.bsp");
    check_json(
        "all(a[\"belady\"] >= a[\"lru\"] for a in d[\"budgets\"]) and d[\"budgets\"][-1][\"lru\"] == (120 - 9) / 120",
        "with all units in slots only first uses miss, and Belady is never worse than LRU");
    on_profile("profile %s --json", "synth.bsp");
    check_json("d[\"ns_per_byte\"] >= 0.5 and d[\"ns_per_byte\"] <= 1 and d[\"lost_events\"] == 0",
               "storage is measured");
}

/* --- replay ------------------------------------------------------------------------------------------------ */

static void test_replay(void)
{
    check(on_profile("replay %s", "synth.bsp") == 0 && says("uses        120") && says("time over oracle") &&
              says("look-ahead"),
          "replay runs with what the profile says");
    check(strncmp(output, "stall  ", 7) == 0, "and says first how long they stalled");
    check(on_profile("replay %s --slots 100% --bandwidth nvme --latency 80 --policy lru --json", "synth.bsp") == 0,
          "replay --json");
    check_json(
        "d[\"misses\"] + d[\"late\"] + d[\"hits\"] == 120 and d[\"bytes_per_second\"] == 1300000000 and d[\"policy\"] "
        "== \"lru\" "
        "and d[\"time_over_oracle\"] >= 0.999",
        "is JSON, takes its options, and is never faster than the oracle");
    check(on_profile("replay %s --slots 100K --chunk 4K --bandwidth 1M --speculate off --json", "synth.bsp") == 0,
          "replay without guesses");
    check_json("d[\"guessed_loads\"] == 0 and d[\"slot_bytes\"] == 102400 and d[\"bytes_wasted\"] == 0",
               "guesses nothing");
    check(on_profile("replay %s --sweep", "synth.bsp") == 0 && says("belady") && says("100 %"),
          "replay --sweep is a table");
    on_profile("replay %s --sweep --json", "synth.bsp");
    check_json("len(d) == 9 * 4 and {c[\"policy\"] for c in d} == {\"reuse\", \"lru\", \"lfu\", \"belady\"}",
               "of every policy, where the largest unit fits");
    check(on_profile("replay %s --slots 1", "synth.bsp") == 1, "slots that hold nothing are refused");
    check(brainstorm("replay --help") == 0 && says("usage: brainstorm replay"), "replay has a help of its own");
    check(on_profile("replay %s --policy best", "synth.bsp") == 2 &&
              on_profile("replay %s --slots x", "synth.bsp") == 2 &&
              on_profile("replay %s --slots 5T", "synth.bsp") == 2 &&
              on_profile("replay %s --bandwidth 0", "synth.bsp") == 2 &&
              on_profile("replay %s --latency -1", "synth.bsp") == 2 &&
              on_profile("replay %s --chunk", "synth.bsp") == 2 && brainstorm("replay") == 2,
          "what is not understood is refused");
    check(on_profile("replay %s --policy best", "synth.bsp") == 2 &&
              says("--policy best: expected reuse, lru, lfu or belady") &&
              on_profile("replay %s --chunk", "synth.bsp") == 2 && says("a value is missing: --chunk") &&
              on_profile("replay %s --bandwith 1M", "synth.bsp") == 2 && says("no such option: --bandwith") &&
              brainstorm("plan models/moe_text.gguf --lanes 9") == 2 && says("--lanes 9: expected 1 .. 8"),
          "and told what was expected");
    check(on_profile("replay %s", "empty.bsp") != 0, "a profile without runs cannot be replayed");
}

/* --- simple caches ------------------------------------------------------------------------------------------ */

static bs_trace uses_of_units(bs_trace_unit *units, int32_t n_units, bs_trace_use *uses, int32_t n_uses)
{
    for (int32_t i = 0; i < n_units; i++)
        units[i] = (bs_trace_unit){.read_bytes = 1000, .slot_bytes = 1000};
    return (bs_trace){.n_units = n_units, .n_uses = n_uses, .units = units, .uses = uses};
}

/* Belady's rule read off its definition, for units of one size. */
static int naive_belady(const bs_trace *t, int slots)
{
    int32_t in[16];
    int n = 0, hits = 0;
    for (int32_t i = 0; i < t->n_uses; i++) {
        int at = 0, worst = 0;
        int32_t furthest = -1;
        while (at < n && in[at] != t->uses[i].unit)
            at++;
        hits += at < n;
        if (at < n)
            continue;
        for (int k = 0; k < n; k++) {
            int32_t next = i + 1;
            while (next < t->n_uses && t->uses[next].unit != in[k])
                next++;
            if (next > furthest) {
                furthest = next;
                worst = k;
            }
        }
        in[n < slots ? n++ : worst] = t->uses[i].unit;
    }
    return hits;
}

static void test_caches(void)
{
    enum { UNITS = 16, USES = 4000 };
    static bs_trace_unit units[UNITS];
    static bs_trace_use uses[USES];
    const bs_trace t = uses_of_units(units, UNITS, uses, USES);
    for (int32_t i = 0; i < USES; i++)
        uses[i].unit = i % 5;
    profile_cache *c = profile_cache_create(&t);
    check(profile_cache_hits(c, 4000, false) == 0 && profile_cache_hits(c, 5000, false) == 3995.0 / 4000,
          "LRU finds nothing when a cycle does not fit, and all of it when it does");
    const double best = profile_cache_hits(c, 4000, true);
    check(best > 0.74 && best < 0.76, "Belady finds the part that fits: %g", best);
    profile_cache_free(c);
    for (int32_t i = 0; i < USES; i++)
        uses[i].unit = check_below(UNITS);
    c = profile_cache_create(&t);
    int bad = 0;
    for (int slots = 1; slots <= UNITS; slots++) {
        const double lru = profile_cache_hits(c, (uint64_t)slots * 1000, false), fair = slots / (double)UNITS;
        bad += lru < fair - 0.03 || lru > fair + 0.03;
        bad += profile_cache_hits(c, (uint64_t)slots * 1000, true) != naive_belady(&t, slots) / (double)USES;
    }
    check(bad == 0,
          "of uniform uses LRU finds the share that fits, Belady what its definition says, for 1 to 16 slots");
    profile_cache_free(c);
}

static bool is_there(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0;
}

/* A run that is stopped before it empties its files, when there is more already than the ring holds. */
static void test_sink_refused(void)
{
    char path[300], text[8] = "";
    profile_sink sink;
    bs_error error;
    files f;
    snprintf(path, sizeof path, "%s/refused.bsp", folder);
    FILE *old = fopen(path, "w");
    check(old && fputs("old", old) >= 0 && fclose(old) == 0, "an old profile");
    files_begin(&f);
    if (!check(profile_sink_open(&sink, &f, path, NULL, &error), "a new one %s", error.message))
        return;
    const bs_profile_header_desc header = synth_header();
    bs_profile_header(sink.profile, &header);
    synth_net s = synth_begin(sink.profile);
    for (int32_t run = 0; run < 2000; run++)
        synth_run(&s, run);
    check(profile_sink_close(&sink, NULL), "that is given up");
    files_end(&f);
    old = fopen(path, "r");
    check(old && fgets(text, sizeof text, old) && strcmp(text, "old") == 0, "leaves the old one as it was");
    if (old)
        fclose(old);
}

static void test_sink(void)
{
    static const char *const names[] = {"sink.bsp", "sink.json"};
    for (int i = 0; i < 2; i++) {
        char path[300];
        profile_sink sink;
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        uint64_t dropped = 1;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        files f;
        remove(path);
        files_begin(&f);
        if (!check(profile_sink_open(&sink, &f, path, NULL, &error), "a profile goes to %s %s", names[i],
                   error.message))
            continue;
        const bs_profile_header_desc header = synth_header();
        bs_profile_header(sink.profile, &header);
        check(!is_there(path), "... which is not there, as before, when the header is");
        files_empty(&f);
        synth_net s = synth_begin(sink.profile);
        for (int32_t run = 0; run < 40; run++)
            synth_run(&s, run);
        check(profile_sink_close(&sink, &dropped) && dropped == 0, "and is whole");
        files_end(&f);
    }
    check(same_files("synth.bsp", "sink.bsp") && same_files("synth.json", "sink.json"),
          "with the same bytes as any other way");
    profile_sink sink;
    bs_error error;
    files f;
    files_begin(&f);
    check(!profile_sink_open(&sink, &f, "/nowhere/at.all", NULL, &error) && error.message[0] &&
              profile_sink_close(&sink, NULL),
          "a file that cannot be made is said, and nothing is left to close");
    files_end(&f);
}

/* --- trace ------------------------------------------------------------------------------------------------- */

static int checked_trace(const char *name)
{
    char line[900];
    if (python_missing) {
        skipped++;
        output[0] = 0;
        return -1;
    }
    snprintf(line, sizeof line, "%s tests/trace_check.py %s/%s", environment("PYTHON", "python3"), folder, name);
    return shell(line);
}

static int trace_in_pieces(const synth_bytes *b, const char *name, size_t piece)
{
    char path[300];
    int bad = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    trace_json *t = trace_json_open(path);
    for (size_t at = 0; t && at < b->n; at += piece)
        bad |= trace_json_write(t, b->data + at, b->n - at < piece ? b->n - at : piece);
    return t && trace_json_close(t) && !bad;
}

static void test_trace(const synth_bytes *b)
{
    char line[900];
    snprintf(line, sizeof line, "trace %s/synth.bsp %s/synth.json", folder, folder);
    check(brainstorm(line) == 0, "trace converts a profile");
    if (checked_trace("synth.json") >= 0) {
        check(says("run 40") && says("phase 120") && says("use 120") && says("depth of run 3"),
              "runs hold phases, and phases uses and stalls");
        check(says("depth of lane 0 1") && says("depth of lane 1 1") && !strstr(output, "flows 0\n"),
              "lanes have their tracks, and arrows lead from guesses to uses");
    }
    int same = 1;
    for (size_t piece = 1; piece < 200; piece += piece < 8 ? 1 : 37)
        same &= trace_in_pieces(b, "pieces.json", piece) && same_files("synth.json", "pieces.json");
    check(same, "the same comes of a profile's bytes in pieces of any size");
    check(brainstorm("trace --help") == 0 && says("usage: brainstorm trace"), "trace has a help of its own");
    check(brainstorm("trace a") == 2 && brainstorm("trace a b c") == 2, "trace takes two files");
    check(on_profile("trace %s /nowhere/at.all", "synth.bsp") == 1 && says("cannot be opened: No such file"),
          "a file that cannot be made is said");
}

static void test_trace_of_anything(void)
{
    synth_bytes b = synth_profile(0, NULL);
    for (int i = 0; i < 4000; i++) { /* within and without their ranges, in no order */
        bs_event e = synth_event((bs_event_kind)check_below(BS_EVENT_COUNT + 1), check_below(12) - 1,
                                 check_below(5) - 1, (uint64_t)check_below(5), (uint64_t)check_below(100000),
                                 (uint64_t)check_below(100000));
        e.thread = (int16_t)(check_below(5) - 1);
        if (i % 50 == 0)
            e.thread = 32767;
        synth_write(&b, &e, sizeof e);
    }
    check(trace_in_pieces(&b, "random.json", 1000), "4000 random events make a trace");
    const int status = checked_trace("random.json");
    if (status >= 0)
        check(status == 0, "whose slices nest and whose flows are whole: %.300s", status ? output : "");
    synth_free(&b);
}

static void test_trace_refusals(void)
{
    synth_bytes b = synth_profile(1, NULL);
    const size_t whole = b.n;
    int bad = 0;
    for (size_t i = 0; i < 64 * 8; i++) {
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
        trace_in_pieces(&b, "flip.json", 100); /* under the sanitizers: no harm */
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (b.n = 1; b.n < 64; b.n += 7)
        bad += trace_in_pieces(&b, "cut.json", 100);
    b.n = whole;
    check(bad == 0, "less than a header is no profile");
    b.data[0] = 'X';
    check(!trace_in_pieces(&b, "flip.json", 100), "nor is one of another magic");
    b.data[0] = 'B';
    b.data[24] = 0xff; /* phases that are not there: the sink waits for them */
    check(trace_in_pieces(&b, "flip.json", 100), "counts that promise too much take no more than the bytes");
    check(trace_json_open("/nowhere/at.all") == NULL && trace_json_close(NULL), "a file that cannot be made is none");
    synth_free(&b);
}

int main(void)
{
    synth_net net;
    synth_bytes b = synth_profile(40, &net), empty = synth_profile(0, NULL);
    check_seed(7);
    find_folder();
    char probe[300];
    snprintf(probe, sizeof probe, "%s -c 0", environment("PYTHON", "python3"));
    python_missing = shell(probe) != 0;
    write_bytes("synth.bsp", &b);
    write_bytes("empty.bsp", &empty);
    if (have_program()) {
        test_profile_text(&net);
        test_profile_json(&net);
        test_replay();
        test_trace(&b);
    } else {
        printf("the programs are not built: their commands are left out\n");
        skipped += 4;
        trace_in_pieces(&b, "synth.json", b.n);
    }
    test_caches();
    test_sink();
    test_sink_refused();
    test_trace_of_anything();
    test_trace_refusals();
    synth_free(&b);
    synth_free(&empty);
    if (skipped > 0)
        printf("%d checks left out\n%d passed, %d failed, %d skipped\n", skipped, check_passed, check_failed, skipped);
    return skipped > 0 ? check_failed != 0 : check_end();
}
