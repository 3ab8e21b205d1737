/* preload.c: does streaming weights pay, and does guessing? Networks with weights on storage of several speeds,
 * resident, on demand and with guesses; beside them an oracle that knows everything.
 *
 *     preload [--quick] [--workload paths|livesr|chain|moe|made] [--speed sd|emmc|nvme|disk] [--json FILE]
 *
 * Owns: the list of what is measured. Relies on: preload.h, figures.h. Must never: leave its scratch files behind.
 */
#include "figures.h"
#include "preload.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RESULTS = 256, SPEEDS = 4 };

static const preload_speed speeds[SPEEDS] = {{"sd", 50000000, THROTTLE_LATENCY_NS},
                                             {"emmc", 250000000, THROTTLE_LATENCY_NS},
                                             /* it serves several at once */
                                             {"nvme", 1300000000, THROTTLE_LATENCY_NS / 5},
                                             {"disk", 0, 0}};

typedef struct bench {
    preload_options options;
    preload_result results[MAX_RESULTS];
    int32_t count;
    bool begun, failed;
} bench;

/* --------------------------------------------------------------------------------------------------- choices */

static void usage(FILE *out)
{
    fprintf(
        out,
        "preload [--quick] [--workload paths|livesr|chain|moe|made] [--speed sd|emmc|nvme|disk] [--json FILE]\n"
        "  Weights streamed from storage: resident, on demand, with guesses, and an oracle. No option: everything, "
        "some four minutes.\n"
        "  --quick     a minute: fewer networks, shorter runs\n"
        "  --workload  paths: 8 paths of 20 layers behind each of two routers; livesr: 10 subnets of 80 residual "
        "blocks;\n"
        "              chain: 12 blocks in fixed order; moe: models/moe_text.gguf; made: made-up traces, scripted "
        "clock only\n"
        "  Scratch files go to $TMPDIR, else build/: put that on the disk to be measured.\n");
}

static bool parse(preload_options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char **text = strcmp(argv[i], "--workload") == 0 ? &o->workload
                            : strcmp(argv[i], "--speed") == 0  ? &o->speed
                            : strcmp(argv[i], "--json") == 0   ? &o->json
                                                               : NULL;
        if (strcmp(argv[i], "--quick") == 0)
            o->quick = true;
        else if (text && i + 1 < argc)
            *text = argv[++i];
        else
            return false;
    }
    o->seconds = o->quick ? 0.6 : 1.5;
    return true;
}

static bool wanted(const bench *b, const char *workload)
{
    return !b->options.workload || strcmp(b->options.workload, workload) == 0;
}

static bool wanted_speed(const bench *b, const preload_speed *speed)
{
    return !b->options.speed || strcmp(b->options.speed, speed->name) == 0;
}

/* -------------------------------------------------------------------------------------------------- networks */

static void measure(bench *b, preload_net *net, const preload_speed *speed, double slot_percent)
{
    if (!wanted_speed(b, speed) || b->count == MAX_RESULTS)
        return;
    if (!b->begun)
        preload_print_head(false);
    b->begun = true;
    if (preload_measure(net, speed, slot_percent, &b->options, &b->results[b->count]))
        preload_print(&b->results[b->count++]);
    else
        b->failed = true;
}

/* first_speed: where it would take too long on slower devices. */
static void measure_paths(bench *b, int32_t width, int32_t rows, int32_t right_percent, int32_t first_speed)
{
    preload_net net;
    if (preload_routed(&net, width, rows, right_percent))
        for (int32_t s = first_speed; s < SPEEDS; s++)
            measure(b, &net, &speeds[s], 25);
    else
        b->failed = true;
    preload_net_close(&net);
}

static void measure_all_paths(bench *b)
{
    static const struct {
        int32_t width, rows, right_percent, first_speed;
        bool quick;
    } list[] = {{64, 512, 100, 0, false}, {64, 512, 0, 0, false},  {128, 512, 100, 0, true},  {128, 512, 0, 0, true},
                {128, 1, 100, 0, false},  {128, 1, 0, 0, false},   {256, 512, 100, 1, false}, {256, 512, 0, 1, false},
                {448, 512, 100, 2, true}, {448, 512, 0, 2, false}, {640, 512, 100, 2, false}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].quick || !b->options.quick)
            measure_paths(b, list[i].width, list[i].rows, list[i].right_percent, list[i].first_speed);
}

/* All sizes on the slowest device and on the disk; the smallest slots on the others. */
static void measure_livesr(bench *b)
{
    static const double percents[] = {100, 50, 20, 10};
    preload_net net;
    if (preload_livesr(&net))
        for (int32_t s = b->options.quick ? SPEEDS - 1 : 0; s < SPEEDS; s++)
            for (int32_t i = s > 0 && s < SPEEDS - 1 ? 3 : 0; i < 4; i++)
                measure(b, &net, &speeds[s], percents[i]);
    else
        b->failed = true;
    preload_net_close(&net);
}

static void measure_chain(bench *b)
{
    preload_net net;
    if (preload_chain(&net))
        for (int32_t s = 0; s < SPEEDS; s++)
            measure(b, &net, &speeds[s], 25);
    else
        b->failed = true;
    preload_net_close(&net);
}

static void measure_moe(bench *b)
{
    static const int32_t sequences[] = {1, 32};
    if (!preload_moe_there()) {
        printf("models/moe_text.gguf is not there: left out\n");
        return;
    }
    for (int32_t i = 0; i < 2; i++) {
        preload_net net;
        if (preload_moe(&net, sequences[i]))
            for (int32_t s = 0; s < SPEEDS; s++)
                measure(b, &net, &speeds[s], 25);
        else
            b->failed = true;
        preload_net_close(&net);
    }
}

/* ---------------------------------------------------------------------------------------------- made-up traces */

static void report(void *user, const preload_result *result)
{
    bench *b = user;
    if (b->count < MAX_RESULTS)
        b->results[b->count++] = *result;
}

static void make_all(bench *b)
{
    for (int32_t s = 0; s < SPEEDS - 1; s++)
        if (wanted_speed(b, &speeds[s]))
            b->failed = !preload_synthetic(&speeds[s], report, b) || b->failed;
}

/* --------------------------------------------------------------------------------------------------- the whole */

static void print_all(const bench *b)
{
    for (int32_t made = 0; made < 2; made++) {
        bool any = false;
        for (int32_t i = 0; i < b->count; i++) {
            if (b->results[i].synthetic != made)
                continue;
            if (made && !any)
                preload_print_head(true);
            any = true;
            preload_print_clock(&b->results[i]);
        }
    }
    for (int32_t i = 0; i < b->count; i++)
        preload_print_predictors(&b->results[i]);
    preload_print_legend();
}

/* The text model counts as read whichever workload is asked for. */
static bool open_figures(figures *out, const preload_options *o)
{
    return figures_reads(out, "the model", PRELOAD_MOE_MODEL) &&
           figures_reads(out, "the model's text", PRELOAD_MOE_TEXT) && figures_open(out, o->json);
}

static bool write_json(const bench *b, figures *out)
{
    FILE *f = b->options.json ? figures_file(out) : NULL;
    if (!f)
        return !b->options.json;
    fprintf(f, "[\n");
    for (int32_t i = 0; i < b->count; i++)
        preload_json(f, &b->results[i], i == 0);
    fprintf(f, "\n]\n");
    return true;
}

static bool measure_all(bench *b, figures *out)
{
    printf("tier %s, 1 thread that computes, 2 that read\n", bs_tier_name(bs_tier_best()));
    if (wanted(b, "chain"))
        measure_chain(b);
    if (wanted(b, "paths"))
        measure_all_paths(b);
    if (wanted(b, "livesr"))
        measure_livesr(b);
    if (wanted(b, "moe"))
        measure_moe(b);
    if (wanted(b, "made"))
        make_all(b);
    print_all(b);
    return write_json(b, out) && !b->failed;
}

int main(int argc, char **argv)
{
    figures out;
    figures_begin(&out, "preload");
    bench *b = calloc(1, sizeof *b);
    const bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
    if (!b || help || !parse(&b->options, argc, argv)) {
        usage(help ? stdout : stderr);
        free(b);
        return !help;
    }
    const bool ok = open_figures(&out, &b->options) && measure_all(b, &out), closed = figures_end(&out);
    free(b);
    return !ok || !closed;
}
