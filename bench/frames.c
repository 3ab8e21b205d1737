/* frames.c: runs luma frames through several set-ups of one model, one frame and one set-up at a time, as a driver
 * asks: so that whatever is compared (set-ups with each other, or with other programs) runs interleaved.
 *
 *     frames MODEL WIDTH HEIGHT SETUP...        a set-up is a string of video_sr options: "--route large --threads 2"
 *
 * On standard input, and what comes back on standard output:
 *     frame          followed by WIDTH x HEIGHT bytes: the frame of all runs from here on     (nothing)
 *     run I          runs set-up I                          "ns cpu_ns routing_ns" and the tallies so far, as in
 *                                                           upscaler_tallies: 4 cells, 3 exits, 4 route_ns, 4 exit_ns
 *     fresh I        the same, nothing reused
 *     result I       the last result of set-up I            2 WIDTH x 2 HEIGHT bytes
 *     peak T         multiply-add peak of tier T            GFLOP/s
 *     tier           the best tier here                     its name
 *
 * Without arguments: a short table of static nets with the model that video_sr takes by default.
 * Owns: the protocol. Relies on: upscaler.h, options.h, peak.h, figures.h. Must never: time anything but bs_run and its
 * bindings.
 */
#include "figures.h"
#include "peak.h"
#include "upscaler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETUPS = 64, MAX_WORDS = 32, QUICK_WIDTH = 640, QUICK_HEIGHT = 360, QUICK_TURNS = 5 };

static const char quick_model[] = "models/sr2x_video.gguf";

typedef struct setup {
    char text[256];
    video_options options;
    upscaler up;
    uint8_t *result;
    uint64_t ns, cpu_ns, routing_ns; /* of the last run; cpu: of all threads */
} setup;

typedef struct bench {
    int width, height, count;
    uint8_t *frame;
    setup setups[MAX_SETUPS];
} bench;

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "frames: %s: %s\n", what, why);
    return false;
}

/* ------------------------------------------------------------------------------------------------- set-ups */

static bool setup_parse(setup *s, const char *model, const char *words)
{
    char *argv[MAX_WORDS] = {"frames", "-", "-", "--model", (char *)(uintptr_t)model}, message[160];
    int argc = 5;
    snprintf(s->text, sizeof s->text, "%s", words);
    for (char *word = strtok(s->text, " "); word && argc < MAX_WORDS; word = strtok(NULL, " "))
        argv[argc++] = word;
    const char *wrong = options_parse(&s->options, argc, argv, message, sizeof message);
    return !wrong || complain(words, wrong);
}

static bool setup_open(bench *b, const char *model, const char *words)
{
    if (b->count == MAX_SETUPS)
        return complain(words, "too many set-ups");
    setup *s = &b->setups[b->count];
    s->result = calloc(4, (size_t)b->width * (size_t)b->height);
    if (!s->result || !setup_parse(s, model, words))
        return false;
    if (!upscaler_open(&s->up, &s->options, b->width, b->height, 8)) {
        complain(words, s->up.error.message);
        upscaler_close(&s->up);
        return false;
    }
    b->count++;
    return true;
}

static bool bench_open(bench *b, int width, int height)
{
    memset(b, 0, sizeof *b);
    if (width < 16 || height < 16 || width > 8192 || height > 8192)
        return complain("WIDTH, HEIGHT", "16 .. 8192 expected");
    b->width = width;
    b->height = height;
    b->frame = calloc((size_t)width, (size_t)height);
    return b->frame || complain("frame", "not enough memory");
}

static void bench_close(bench *b)
{
    for (int i = 0; i < b->count; i++) {
        upscaler_close(&b->setups[i].up);
        free(b->setups[i].result);
    }
    free(b->frame);
}

static bool setup_run(bench *b, setup *s, bool reuse)
{
    const double since = peak_seconds(), cpu_since = peak_cpu_seconds();
    const uint64_t routing = s->up.tallies.routing_ns;
    if (!upscaler_run(&s->up, b->frame, b->width, s->result, 2 * b->width, reuse))
        return complain("run", s->up.error.message);
    s->ns = (uint64_t)((peak_seconds() - since) * 1e9);
    s->cpu_ns = (uint64_t)((peak_cpu_seconds() - cpu_since) * 1e9);
    s->routing_ns = s->up.tallies.routing_ns - routing;
    return true;
}

/* ------------------------------------------------------------------------------------------------- protocol */

static void reply(const setup *s)
{
    const upscaler_tallies *t = &s->up.tallies;
    printf("%llu %llu %llu", (unsigned long long)s->ns, (unsigned long long)s->cpu_ns,
           (unsigned long long)s->routing_ns);
    for (int p = 0; p < UPSCALER_ROUTES; p++)
        printf(" %llu", (unsigned long long)t->cells[p]);
    for (int e = 0; e <= UPSCALER_EXITS; e++)
        printf(" %llu", (unsigned long long)t->exits[e]);
    for (int p = 0; p < UPSCALER_ROUTES; p++)
        printf(" %llu", (unsigned long long)t->route_ns[p]);
    for (int e = 0; e < UPSCALER_EXITS; e++)
        printf(" %llu %llu", (unsigned long long)t->exit_ns[e][0], (unsigned long long)t->exit_ns[e][1]);
    printf("\n");
}

static bs_tier tier_named(const char *name)
{
    for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++)
        if (strcmp(bs_tier_name((bs_tier)t), name) == 0)
            return (bs_tier)t;
    return BS_TIER_AUTO;
}

static bool obey(bench *b, const char *verb, const char *word)
{
    const size_t bytes = (size_t)b->width * (size_t)b->height;
    if (strcmp(verb, "frame") == 0)
        return fread(b->frame, 1, bytes, stdin) == bytes;
    if (strcmp(verb, "peak") == 0)
        return printf("%.1f\n", peak_gflops(tier_named(word))) > 0;
    if (strcmp(verb, "tier") == 0)
        return printf("%s\n", bs_tier_name(bs_tier_best())) > 0;
    const int index = atoi(word);
    if (index < 0 || index >= b->count)
        return complain(word, "no such set-up");
    setup *s = &b->setups[index];
    if (strcmp(verb, "result") == 0)
        return fwrite(s->result, 1, 4 * bytes, stdout) == 4 * bytes;
    if (strcmp(verb, "run") != 0 && strcmp(verb, "fresh") != 0)
        return complain(verb, "no such command");
    if (!setup_run(b, s, verb[0] == 'r'))
        return false;
    reply(s);
    return true;
}

static bool serve(bench *b)
{
    char line[64], verb[16], word[32];
    while (fgets(line, sizeof line, stdin)) {
        word[0] = 0;
        if (sscanf(line, "%15s %31s", verb, word) < 1)
            continue;
        if (!obey(b, verb, word))
            return false;
        fflush(stdout);
    }
    return true;
}

/* ---------------------------------------------------------------------------------------- without arguments */

/* Edges and noise: work does not depend on it where the route is forced, but zeros would flatter. */
static void paint(bench *b)
{
    uint32_t noise = 1;
    for (int i = 0; i < b->width * b->height; i++) {
        noise = noise * 1664525 + 1013904223;
        b->frame[i] = (uint8_t)(((i % b->width / 9 + i / b->width / 7) % 5) * 45 + (int)(noise >> 28));
    }
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool quick(void)
{
    static bench b;
    static const char *const words[] = {"--route small --conv direct", "--route small --conv auto",
                                        "--route large --conv direct", "--route large --conv auto"};
    enum { COUNT = sizeof words / sizeof words[0] };
    uint64_t ns[COUNT][QUICK_TURNS];
    if (!bench_open(&b, QUICK_WIDTH, QUICK_HEIGHT))
        return false;
    for (int i = 0; i < COUNT; i++)
        if (!setup_open(&b, quick_model, words[i])) {
            printf("frames: nothing measured: it needs %s\n", quick_model);
            bench_close(&b);
            return true;
        }
    paint(&b);
    for (int turn = -1; turn < QUICK_TURNS; turn++) /* the first warms up */
        for (int i = 0; i < COUNT; i++)
            if (!setup_run(&b, &b.setups[i], false))
                return false;
            else if (turn >= 0)
                ns[i][turn] = b.setups[i].ns;
    printf("%dx%d -> x2, tier %s, 1 thread, multiply-add peak %.0f GFLOP/s\n", b.width, b.height,
           bs_tier_name(bs_tier_best()), peak_gflops(BS_TIER_AUTO));
    for (int i = 0; i < COUNT; i++) {
        qsort(ns[i], QUICK_TURNS, sizeof ns[i][0], by_size);
        printf("  %-32s %8.2f ms a frame\n", words[i], (double)ns[i][QUICK_TURNS / 2] * 1e-6);
    }
    bench_close(&b);
    return true;
}

static bool serve_all(const char *model, int argc, char **argv)
{
    static bench b;
    bool ok = bench_open(&b, atoi(argv[0]), atoi(argv[1]));
    for (int i = 2; ok && i < argc; i++)
        ok = setup_open(&b, model, argv[i]);
    ok = ok && serve(&b);
    bench_close(&b);
    return ok;
}

int main(int argc, char **argv)
{
    figures out;
    figures_begin(&out, "frames");
    if (argc > 1 && argc < 5) {
        fprintf(stderr, "usage: frames MODEL WIDTH HEIGHT SETUP...\n");
        return 2;
    }
    const bool open = figures_reads(&out, "the model", argc > 1 ? argv[1] : quick_model) && figures_open(&out, NULL);
    const bool ok = open && (argc > 1 ? serve_all(argv[1], argc - 2, argv + 2) : quick());
    return figures_end(&out) && ok ? 0 : 1;
}
