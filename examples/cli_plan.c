/* cli_plan.c: `brainstorm plan`: the bytes of every arena that a network will need, here or on another device.
 * Owns: its command line. Relies on: cli.h, cli_load.h, plan_options.h; of --launches cli_run.c. Must never: read
 * weights, or trust that they are there. */
#include "cli.h"
#include "cli_load.h"
#include "plan_options.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 16, REPORT_BYTES = 1 << 16 };

const char cli_plan_usage[] =
    "options of plan:\n"
    "  --input NAME=AxBxC    largest extents of an input, such as frame=1x1080x1920 (0: as in the file)\n"
    PLAN_OPTIONS_USAGE
    "  --device D            cpu, or cuda: for a GPU, which need not be here [cpu]\n"
    "  --half                cuda: weights and intermediate results are kept in f16\n"
    "  --shared-bytes N      cuda: shared memory that a block of threads may have, see `brainstorm device` [98304]\n"
    "  --slots BYTES         stream the weights of blocks through slots: BYTES[K|M|G] (K = 1024), or N% of what all "
    "take\n"
    "  --lanes N, --chunk BYTES   threads that read, 1 to 8 [2]; bytes of one read [256K]\n"
    "  --save FILE           write the plan as an image, which a board opens without a planner (bs_plan_open)\n"
    "  --launches            cuda, on the GPU of this machine: runs once, prints what that launches, how many bytes\n"
    "                        that moves, and what of it finds nothing to do. Takes the options of `brainstorm run`:\n"
    "                        --input NAME=FILE.npy too; --json for programs\n"
    "  --verify              look whether each instruction finds all that it reads, which nothing else wrote over\n";

/* ---------------------------------------------------------------------------------------------------- options */

typedef struct plan_command {
    const char *path, *save;
    bs_model_input inputs[MAX_INPUTS];
    int32_t n_inputs;
    bool verify;
    plan_options plan;
} plan_command;

static int fail_usage(const char *what, const char *word)
{
    fprintf(stderr, "brainstorm: %s%s%s\nTry brainstorm --help.\n", what, word ? ": " : "", word ? word : "");
    return CLI_USAGE;
}

static bool option_input(plan_command *o, char *word)
{
    const char *extents = plan_word_split(word);
    if (!extents || o->n_inputs == MAX_INPUTS)
        return false;
    bs_model_input *input = &o->inputs[o->n_inputs++];
    input->name = word;
    return plan_word_extents(extents, &input->rank, input->dim);
}

/* message: what was expected instead. */
static bool option_stream(plan_command *o, const char *option, const char *word, char *message, size_t bytes)
{
    const bool known = strcmp(option, "--slots") == 0 || strcmp(option, "--lanes") == 0 ||
                       strcmp(option, "--chunk") == 0;
    return known && stream_options_value(&o->plan.stream, option, word, message, bytes) == STREAM_TAKEN;
}

static bool plan_option(plan_command *o, const char *option, char *word, char *message, size_t bytes)
{
    if (strcmp(option, "--input") == 0)
        return option_input(o, word);
    if (strcmp(option, "--save") == 0)
        return (o->save = word)[0] != '\0';
    if (strcmp(option, "--shared-bytes") == 0)
        return plan_word_i32(word, 24576, 1 << 20, &o->plan.desc.shared_bytes);
    const plan_taken plan = plan_options_value(&o->plan, option, word);
    if (plan != PLAN_OTHER)
        return plan == PLAN_TAKEN;
    const device_taken device = device_options_value(&o->plan.device, option, word, message, bytes);
    return device == DEVICE_OTHER ? option_stream(o, option, word, message, bytes) : device == DEVICE_TAKEN;
}

/* A plan for a GPU is made without one: --fallback would mean nothing. */
static int settle_device(plan_command *command)
{
    plan_options *o = &command->plan;
    const char *wrong = o->device.fallback ? "plan needs no GPU: --fallback is for programs that run"
                                           : device_options_wrong(&o->device);
    if (!wrong && o->desc.shared_bytes && !o->device.cuda)
        wrong = "--shared-bytes is for --device cuda";
    if (!wrong && o->desc.tier && o->device.cuda)
        wrong = "--tier is for the CPU, --device cuda for a GPU";
    if (o->device.cuda)
        o->desc.tier = BS_TIER_CUDA;
    o->desc.half = o->device.half;
    return wrong ? fail_usage(wrong, NULL) : EXIT_SUCCESS;
}

static int read_plan_options(plan_command *o, int count, char **words)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < count; i++) {
        if (strncmp(words[i], "--", 2) != 0) {
            if (o->path)
                return fail_usage("more than one file", words[i]);
            o->path = words[i];
            continue;
        }
        if (device_options_flag(&o->plan.device, words[i]))
            continue;
        if (strcmp(words[i], "--verify") == 0) {
            o->verify = true;
            continue;
        }
        if (i + 1 == count)
            return fail_usage("an unknown option, or one without a value", words[i]);
        char shown[160];
        snprintf(shown, sizeof shown, "%s %s", words[i], words[i + 1]);
        if (!plan_option(o, words[i], words[i + 1], shown, sizeof shown))
            return fail_usage("not understood", shown);
        i++;
    }
    return o->path ? settle_device(o) : fail_usage("plan takes a file", NULL);
}

/* --------------------------------------------------------------------------------------------------- plan */

static void print_bytes(const char *arena, uint64_t bytes, const char *what)
{
    printf("  %-11s %13llu  %9.2f MiB%s%s\n", arena, (unsigned long long)bytes, (double)bytes / (1 << 20),
           *what ? "   " : "", what);
}

static void print_plan(const cli_loaded *l, const bs_plan_desc *desc)
{
    static char report[REPORT_BYTES];
    bs_sizes sizes;
    const bs_graph_desc room = bs_model_graph_desc(l->model);
    const uint64_t tables = bs_graph_bytes(&room) + l->plan_memory.used + l->index.used;
    bs_plan_sizes(l->plan, &sizes);
    printf("arenas (bytes)\n");
    const bool gpu = desc->tier == BS_TIER_CUDA;
    print_bytes("persistent", sizes.persistent, gpu ? "session" : "session: prepared weights, state, decisions");
    print_bytes("", tables, "file index, graph and plan, in the same arena");
    print_bytes("transient", sizes.transient, "activations");
    print_bytes("staging", sizes.staging, "storage reads, and weights while they are prepared");
    print_bytes("slots", sizes.slots, "weights that come and go");
    if (gpu) {
        print_bytes("device", sizes.device, "of the GPU: prepared weights, slots, activations, state, decisions");
        print_bytes("pinned", sizes.pinned, "page-locked, for what is copied to the GPU and back");
    }
    print_bytes("together",
                sizes.persistent + tables + sizes.transient + sizes.staging + sizes.slots + sizes.device + sizes.pinned,
                "");
    print_bytes("planning", bs_plan_bytes(l->graph, desc),
                "while the plan is made, and free before a session is: of persistent, or of a scratch arena");
    bs_plan_report(l->plan, report, sizeof report);
    printf("\n%s", report);
}

/* A plan is walked when it is made, too, but only for the order of its instructions. */
static bool verify(const bs_plan *plan, bs_error *error)
{
#if defined(BS_VERIFY)
    bs_arena arena;
    bs_arena_init(&arena, "verify", NULL, 0);
    bs_plan_verify(plan, &arena, error); /* says how much it takes */
    const size_t bytes = (size_t)error->needed + BS_ALIGNMENT;
    void *memory = malloc(bytes);
    bs_arena_init(&arena, "verify", memory, memory ? bytes : 0);
    const bool good = bs_plan_verify(plan, &arena, error) == BS_OK;
    free(memory);
    if (good)
        printf("\nverified: all that an instruction reads was written before, and nothing was written over it\n");
    return good;
#else
    (void)plan, memset(error, 0, sizeof *error);
    error->status = BS_ERROR_UNSUPPORTED;
    snprintf(error->message, sizeof error->message, "--verify: this program was built without BS_VERIFY");
    return false;
#endif
}

/* What launches have to do follows from data: that takes a run. */
static bool wants_launches(int count, char **words)
{
    bool wants = false;
    for (int i = 0; i < count; i++)
        wants = wants || strcmp(words[i], "--launches") == 0;
    return wants;
}

int cli_plan(int count, char **words)
{
    static plan_command o;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    cli_loaded l = {.model = NULL};
    if (wants_launches(count, words))
        return cli_run(count, words);
    const int usage = read_plan_options(&o, count, words);
    if (usage != EXIT_SUCCESS)
        return usage;
    bs_plan_desc *desc = &o.plan.desc;
    const bs_model_build_desc build = {.inputs = o.inputs, .n_inputs = o.n_inputs, .code_bits = o.plan.code_bits};
    int output = -1;
    bool good = cli_load_model(&l, o.path, NULL, &error) &&
                (!o.save || (output = cli_save_open(o.save, &error)) >= 0) && cli_load_graph(&l, &build, 0, &error) &&
                cli_load_plan(&l, desc, &o.plan.stream, &error);
    if (good)
        print_plan(&l, desc);
    good = good && (!o.verify || verify(l.plan, &error));
    int status = good && desc->slot_bytes > 0 ? cli_stream(l.plan) : EXIT_SUCCESS;
    good = good && (!o.save || cli_save_plan(l.plan, output, o.save, &error));
    status = good ? status : cli_fail(&error);
    cli_unload(&l);
    return status;
}
