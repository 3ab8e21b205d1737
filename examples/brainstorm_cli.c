/* brainstorm_cli.c: looks into model files and tells what they will need, without running them; and into profiles.
 *
 *     brainstorm inspect FILE                       the graph, its blocks and weights
 *     brainstorm check FILE                         reads every record and compares its checksum
 *     brainstorm plan FILE --input frame=1x1080x1920 --threads 4
 *                                                   the bytes of every arena
 *     brainstorm plan FILE --device cuda --half     the same for a GPU, which need not be here
 *     brainstorm device                             what the GPU of this machine is (cli_device.c)
 *     brainstorm ops                                the op set
 *     brainstorm profile FILE                       what a profile tells (cli_profile.c)
 *     brainstorm replay FILE --slots 50%            its runs again, with other slots and storage (cli_replay.c)
 *     brainstorm trace FILE OUT.json                the profile for ui.perfetto.dev (cli_profile.c)
 *
 * Owns: the command line, and the memory that it lends to the library.
 * Relies on: brainstorm.h, files.h; cli.h for the other commands; stream_options.h for --slots, device_options.h for
 * --device. Must never: read weights for `inspect` and `plan`, or trust that they are there.
 */
#include "cli.h"
#include "device_options.h"
#include "stream_options.h"
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 16, REPORT_BYTES = 1 << 16 };

static const char usage_text[] =
    "usage: brainstorm COMMAND ...\n"
    "\n"
    "  inspect FILE          print the graph, the blocks and the weights of a model file\n"
    "  check FILE            read all weights and compare their checksums\n"
    "  plan FILE [OPTION]... print the bytes of every arena; weights are not read\n"
    "  device                print what the GPU of this machine is\n"
    "  ops                   print the op set: name, fewest and most operands, parameters (~ f32)\n"
    "  profile FILE          print what a profile tells of its runs\n"
    "  replay FILE ...       its runs again with other slots, policies and storage\n"
    "  trace FILE OUT.json   the profile as a Chrome trace, for ui.perfetto.dev\n"
    "  --help, --version     (profile, replay and trace have a --help of their own)\n"
    "\n"
    "options of plan:\n"
    "  --input NAME=AxBxC    largest extents of an input, such as frame=1x1080x1920 (0: as in the file)\n"
    "  --code-bits N         8-bit inputs, states and outputs become 16-bit ones with codes of 9 to 15 bits\n"
    "  --threads N           worker threads, 1 to 64 [1]\n"
    "  --tier NAME           instruction set: scalar, avx2, avx512, neon [the best one here]\n"
    "  --order NAME          breadth or depth [chosen by the planner]\n"
    "  --conv NAME           direct or winograd [chosen by the planner]\n"
    "  --patch N             size of cells in pixels [as in the file]\n"
    "  --force ROUTER=PATH   plan for one path of a router only\n"
    "  --device D            cpu, or cuda: for a GPU, which need not be here [cpu]\n"
    "  --half                cuda: weights and intermediate results are kept in f16\n"
    "  --shared-bytes N      cuda: shared memory that a block of threads may have, see `brainstorm device` [98304]\n"
    "  --slots BYTES         stream the weights of blocks through slots: BYTES[K|M|G] (K = 1024), or N% of what all "
    "take\n"
    "  --lanes N, --chunk BYTES   threads that read, 1 to 8 [2]; bytes of one read [256K]\n"
    "  --save FILE           write the plan as an image, which a board opens without a planner (bs_plan_open)\n";

/* ------------------------------------------------------------------------------------------------- errors */

static int fail_usage(const char *what, const char *word)
{
    fprintf(stderr, "brainstorm: %s%s%s\nTry brainstorm --help.\n", what, word ? ": " : "", word ? word : "");
    return CLI_USAGE;
}

/* ------------------------------------------------------------------------------------------------- memory */

typedef struct lent {
    bs_arena arena;
    void *memory;
} lent;

/* What a command needs; all of it is given back when the program ends. */
typedef struct loaded {
    lent model_memory, graph_memory, plan_memory;
    bs_model *model;
    bs_graph *graph;
    bs_plan *plan;
} loaded;

static bool lend(lent *l, const char *name, size_t bytes, bs_error *error)
{
    l->memory = bytes ? malloc(bytes + BS_ALIGNMENT) : NULL;
    bs_arena_init(&l->arena, name, l->memory, l->memory ? bytes + BS_ALIGNMENT : 0);
    if (l->memory)
        return true;
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_ARENA;
    error->arena = name;
    error->needed = bytes;
    return false;
}

static void release(loaded *l)
{
    bs_model_close(l->model);
    free(l->plan_memory.memory);
    free(l->graph_memory.memory);
    free(l->model_memory.memory);
}

static bool open_model(loaded *l, const char *path, bs_error *error)
{
    const size_t bytes = cli_add_model(path, error) ? bs_model_file_bytes(NULL, path, error) : 0;
    if (bytes == 0 || !lend(&l->model_memory, "model", bytes, error))
        return false;
    l->model = bs_model_open_file(&l->model_memory.arena, NULL, path, error);
    return l->model != NULL;
}

static bool build_graph(loaded *l, const bs_model_build_desc *desc, bs_error *error)
{
    const bs_graph_desc room = bs_model_graph_desc(l->model);
    if (!lend(&l->graph_memory, "graph", bs_graph_bytes(&room), error))
        return false;
    l->graph = bs_graph_create(&l->graph_memory.arena, &room);
    return bs_model_build(l->model, l->graph, desc, error) == BS_OK;
}

static bool make_plan(loaded *l, bs_plan_desc *desc, const stream_options *stream, bs_error *error)
{
    if (!stream_options_plan(stream, l->graph, desc, error) ||
        !lend(&l->plan_memory, "plan", bs_plan_bytes(l->graph, desc), error))
        return false;
    l->plan = bs_plan_create(&l->plan_memory.arena, l->graph, desc, error);
    return l->plan != NULL;
}

/* ------------------------------------------------------------------------------------------------ inspect */

static void print_facts(const loaded *l, const char *path)
{
    bs_model_facts f;
    bs_model_facts_get(l->model, &f);
    const bs_graph_desc room = bs_model_graph_desc(l->model);
    printf("model     %s", f.name[0] ? f.name : "(no name)");
    printf(f.scale > 1 ? ", enlarges %d times\n" : "\n", f.scale);
    printf("file      %s, %llu bytes, version %d, op set %d, aligned to %llu\n", path, (unsigned long long)f.file_bytes,
           f.version, f.opset, (unsigned long long)f.alignment);
    bs_error why = {0};
    if (bs_model_can_stream(l->model, &why) == BS_OK)
        printf("stream    %s reads, aligned to %u\n", f.direct ? "direct" : "buffered", (unsigned)f.fetch_alignment);
    else
        printf("stream    no: %s\n", why.message);
    printf("holds     %d nodes, %d values, %d blocks, %d weights of %llu bytes\n", f.nodes, f.values, f.blocks,
           f.weights, (unsigned long long)f.weight_bytes);
    printf("memory    %zu bytes for the file's index, %zu for its graph\n", l->model_memory.arena.high_water,
           bs_graph_bytes(&room));
}

static void print_nodes(const bs_graph *graph)
{
    char line[512];
    printf("\nnodes (-> number, type and shape of what each gives)\n");
    for (int32_t i = 1; bs_graph_describe(graph, i, line, sizeof line) > 0; i++)
        printf("%s\n", line);
}

static void print_shape(const bs_weight_info *info)
{
    printf("[");
    for (int32_t i = 0; i < info->rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)info->dim[i]);
    printf("]");
}

/* Weights are listed block by block. */
static void print_weights(const bs_model *model, int32_t block, int32_t *next)
{
    char name[BS_MAX_WEIGHT_NAME];
    bs_weight_info info;
    int32_t of_block;
    while (bs_model_weight_get(model, *next, name, &of_block, &info) == BS_OK && of_block == block) {
        printf("      %-34s %-4s %10llu  ", name, bs_dtype_name(info.dtype), (unsigned long long)info.bytes);
        print_shape(&info);
        printf("\n");
        ++*next;
    }
}

static void print_blocks(const bs_model *model)
{
    bs_model_block_facts block;
    int32_t next = 0;
    printf("\nblocks\n");
    for (int32_t i = 0; bs_model_block_get(model, i, &block) == BS_OK; i++) {
        printf("%4d  %-22s nodes %3d..%-3d  %3d weights  %9llu bytes", i, block.name, block.first_node + 1,
               block.end_node, block.weights, (unsigned long long)block.bytes);
        if (block.bytes)
            printf(" at %llu, CRC-32 %08x", (unsigned long long)block.offset, (unsigned)block.crc32);
        printf("\n");
        print_weights(model, i, &next);
    }
}

static int inspect(const char *path)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    loaded l;
    memset(&l, 0, sizeof l);
    bool good = open_model(&l, path, &error);
    if (good)
        print_facts(&l, path);
    good = good && build_graph(&l, NULL, &error);
    if (good) {
        print_nodes(l.graph);
        print_blocks(l.model);
    }
    release(&l);
    return good ? EXIT_SUCCESS : cli_fail(&error);
}

static int check(const char *path)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    loaded l;
    memset(&l, 0, sizeof l);
    const bool good = open_model(&l, path, &error) && build_graph(&l, NULL, &error) &&
                      bs_model_check(l.model, &error) == BS_OK;
    release(&l);
    if (good)
        printf("%s: sound\n", path);
    return good ? EXIT_SUCCESS : cli_fail(&error);
}

/* --------------------------------------------------------------------------------------- options of `plan` */

typedef struct plan_options {
    const char *path, *save;
    bs_model_input inputs[MAX_INPUTS];
    int32_t n_inputs, code_bits;
    bs_plan_desc desc;
    device_options device;
    stream_options stream;
} plan_options;

static bool read_number(const char *word, char **end, long long low, long long high, long long *number)
{
    if (*word < '0' || *word > '9')
        return false;
    *number = strtoll(word, end, 10);
    return *number >= low && *number <= high;
}

static bool read_i32(const char *word, int32_t low, int32_t high, int32_t *target)
{
    char *end;
    long long n;
    if (!read_number(word, &end, low, high, &n) || *end)
        return false;
    *target = (int32_t)n;
    return true;
}

/* NAME=... : ends the name where the sign stands; NULL when there is none. */
static char *split(char *word)
{
    char *sign = strchr(word, '=');
    if (!sign || sign == word)
        return NULL;
    *sign = 0;
    return sign + 1;
}

static bool option_input(plan_options *o, char *word)
{
    char *at = split(word);
    if (!at || o->n_inputs == MAX_INPUTS)
        return false;
    bs_model_input *input = &o->inputs[o->n_inputs++];
    input->name = word;
    for (input->rank = 0; input->rank < BS_MAX_RANK; at++) {
        char *end;
        long long n;
        if (!read_number(at, &end, 0, (long long)1 << 30, &n))
            return false;
        input->dim[input->rank++] = n;
        at = end;
        if (*at != 'x')
            return *at == 0;
    }
    return false;
}

static bool option_force(plan_options *o, char *word)
{
    const char *path = split(word);
    if (!path || o->desc.n_forces == BS_MAX_FORCES)
        return false;
    bs_force *force = &o->desc.forces[o->desc.n_forces++];
    force->router = word;
    return read_i32(path, 0, BS_MAX_PATHS - 1, &force->path);
}

static bool option_tier(plan_options *o, const char *word)
{
    for (int32_t tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
        if (strcmp(bs_tier_name((bs_tier)tier), word) == 0) {
            o->desc.tier = tier;
            return true;
        }
    return false;
}

static bool option_choice(const char *word, const char *const *names, int32_t *target)
{
    *target = word_name(word, names);
    return *target >= 0;
}

/* message: what was expected instead. */
static bool option_stream(plan_options *o, const char *option, const char *word, char *message, size_t bytes)
{
    const bool known = strcmp(option, "--slots") == 0 || strcmp(option, "--lanes") == 0 ||
                       strcmp(option, "--chunk") == 0;
    return known && stream_options_value(&o->stream, option, word, message, bytes) == STREAM_TAKEN;
}

static bool plan_option(plan_options *o, const char *option, char *word, char *message, size_t bytes)
{
    static const char *const orders[] = {"auto", "breadth", "depth", NULL};
    static const char *const convs[] = {"auto", "direct", "winograd", NULL};
    if (strcmp(option, "--input") == 0)
        return option_input(o, word);
    if (strcmp(option, "--save") == 0)
        return (o->save = word)[0] != '\0';
    if (strcmp(option, "--code-bits") == 0)
        return read_i32(word, 8, 15, &o->code_bits);
    if (strcmp(option, "--threads") == 0)
        return read_i32(word, 1, 64, &o->desc.threads);
    if (strcmp(option, "--tier") == 0)
        return option_tier(o, word);
    if (strcmp(option, "--order") == 0)
        return option_choice(word, orders, &o->desc.order);
    if (strcmp(option, "--conv") == 0)
        return option_choice(word, convs, &o->desc.conv);
    if (strcmp(option, "--patch") == 0)
        return read_i32(word, 1, 8192, &o->desc.patch_size);
    if (strcmp(option, "--force") == 0)
        return option_force(o, word);
    if (strcmp(option, "--shared-bytes") == 0)
        return read_i32(word, 24576, 1 << 20, &o->desc.shared_bytes);
    const device_taken device = device_options_value(&o->device, option, word, message, bytes);
    return device == DEVICE_OTHER ? option_stream(o, option, word, message, bytes) : device == DEVICE_TAKEN;
}

/* A plan for a GPU is made without one: --fallback would mean nothing. */
static int settle_device(plan_options *o)
{
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

static int read_plan_options(plan_options *o, int count, char **words)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < count; i++) {
        if (strncmp(words[i], "--", 2) != 0) {
            if (o->path)
                return fail_usage("more than one file", words[i]);
            o->path = words[i];
            continue;
        }
        if (device_options_flag(&o->device, words[i]))
            continue;
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

static void print_plan(const loaded *l, const bs_plan_desc *desc)
{
    static char report[REPORT_BYTES];
    bs_sizes sizes;
    const bs_graph_desc room = bs_model_graph_desc(l->model);
    const uint64_t tables = bs_graph_bytes(&room) + bs_plan_bytes(l->graph, desc) + l->model_memory.arena.used;
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
    bs_plan_report(l->plan, report, sizeof report);
    printf("\n%s", report);
}

static int plan(int count, char **words)
{
    static plan_options o;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    loaded l;
    const int usage = read_plan_options(&o, count, words);
    if (usage != EXIT_SUCCESS)
        return usage;
    memset(&l, 0, sizeof l);
    const bs_model_build_desc build = {.inputs = o.inputs, .n_inputs = o.n_inputs, .code_bits = o.code_bits};
    int output = -1;
    bool good = open_model(&l, o.path, &error) && (!o.save || (output = cli_save_open(o.save, &error)) >= 0) &&
                build_graph(&l, &build, &error) && make_plan(&l, &o.desc, &o.stream, &error);
    if (good)
        print_plan(&l, &o.desc);
    int status = good && o.desc.slot_bytes > 0 ? cli_stream(l.plan) : EXIT_SUCCESS;
    good = good && (!o.save || cli_save_plan(l.plan, output, o.save, &error));
    status = good ? status : cli_fail(&error);
    release(&l);
    return status;
}

/* --------------------------------------------------------------------------------------------------- main */

static int ops(void)
{
    char line[512];
    for (int32_t i = 0; bs_op_describe(i, line, sizeof line) > 0; i++)
        printf("%s\n", line);
    return EXIT_SUCCESS;
}

static int command(int count, char **words)
{
    if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0 || strcmp(words[0], "help") == 0)
        return fputs(usage_text, stdout) < 0;
    if (strcmp(words[0], "--version") == 0)
        return printf("brainstorm %d.%d.%d, %s\n", BS_VERSION_MAJOR, BS_VERSION_MINOR, BS_VERSION_PATCH,
                      bs_tier_name(bs_tier_best())) < 0;
    if (strcmp(words[0], "inspect") == 0)
        return count == 2 ? inspect(words[1]) : fail_usage("inspect takes one file", NULL);
    if (strcmp(words[0], "check") == 0)
        return count == 2 ? check(words[1]) : fail_usage("check takes one file", NULL);
    if (strcmp(words[0], "plan") == 0)
        return plan(count - 1, words + 1);
    if (strcmp(words[0], "device") == 0)
        return count == 1 ? cli_device() : fail_usage("device takes nothing", NULL);
    if (strcmp(words[0], "ops") == 0)
        return count == 1 ? ops() : fail_usage("ops takes nothing", NULL);
    if (strcmp(words[0], "profile") == 0)
        return cli_profile(count - 1, words + 1);
    if (strcmp(words[0], "replay") == 0)
        return cli_replay(count - 1, words + 1);
    if (strcmp(words[0], "trace") == 0)
        return cli_trace(count - 1, words + 1);
    return fail_usage("no such command", words[0]);
}

int main(int argc, char **argv)
{
    files_begin(cli_files());
    const int status = argc < 2 ? fail_usage("a command is missing", NULL) : command(argc - 1, argv + 1);
    files_end(cli_files());
    errno = 0;
    const bool flushed = fflush(stdout) == 0 && !ferror(stdout);
    if (flushed)
        return status;
    fprintf(stderr, "brainstorm: standard output: writing failed%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return EXIT_FAILURE;
}
